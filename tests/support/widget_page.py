"""A blank page in Chromium: ES modules of widgets run there against a stub of the model, without Jupyter."""

from __future__ import annotations

import base64
import contextlib
from typing import Any

from tests.support import chromium

# What Jupyter's own base class brings; the rest are the widget's traits.
OF_JUPYTER = {"layout", "tabbable", "tooltip"}

# Values of JupyterLab's two themes.
THEMES = {
    "light": {
        "--jp-layout-color0": "#fff",
        "--jp-content-font-color1": "rgba(0,0,0,.87)",
        "--jp-ui-font-family": "system-ui, 'DejaVu Sans', sans-serif",
        "--jp-code-font-family": "menlo, consolas, 'DejaVu Sans Mono', monospace",
    },
    "dark": {
        "--jp-layout-color0": "#111",
        "--jp-content-font-color1": "#fff",
        "--jp-ui-font-family": "system-ui, 'DejaVu Sans', sans-serif",
        "--jp-code-font-family": "menlo, consolas, 'DejaVu Sans Mono', monospace",
    },
}

# The page counts what a module leaves behind: listeners on what outlives it, timers, frames and observers.
HOST = """
() => {
  const isOfModule = () => new Error().stack.includes("blob:");  // not the page's driver
  window.left = { listeners: 0, timers: new Set(), frames: new Set(), observers: new Set() };
  for (const target of [window, document, document.body, document.documentElement]) {
    for (const [name, change] of [["addEventListener", 1], ["removeEventListener", -1]]) {
      const own = target[name];
      target[name] = (...a) => { left.listeners += change * isOfModule(); return own.apply(target, a); };
    }
  }
  const counted = (start, stop, set, isOnce) => {
    const [begin, end] = [window[start], window[stop]];
    window[start] = (call, ...rest) => {
      const id = begin((...a) => { if (isOnce) set.delete(id); call(...a); }, ...rest);
      if (isOfModule()) set.add(id);
      return id;
    };
    window[stop] = (id) => { set.delete(id); end(id); };
  };
  counted("setTimeout", "clearTimeout", left.timers, true);
  counted("setInterval", "clearInterval", left.timers, false);
  counted("requestAnimationFrame", "cancelAnimationFrame", left.frames, true);
  for (const name of ["ResizeObserver", "MutationObserver", "IntersectionObserver"]) {
    const Own = window[name];
    window[name] = class extends Own {
      observe(...a) { if (isOfModule()) left.observers.add(this); return super.observe(...a); }
      disconnect() { left.observers.delete(this); return super.disconnect(); }
    };
  }
  window.revived = (value) => {
    if (Array.isArray(value)) return value.map(revived);
    if (value === null || typeof value !== "object") return value;
    if (!value.bytes_of_float64 && value.bytes_of_float64 !== "")
      return Object.fromEntries(Object.entries(value).map(([key, part]) => [key, revived(part)]));
    const raw = Uint8Array.from(atob(value.bytes_of_float64), (c) => c.charCodeAt(0));
    const longer = new Uint8Array(raw.length + 7);  // as in a message: behind other bytes, aligned to nothing
    longer.set(raw, 3);
    return new DataView(longer.buffer, 3, raw.length);
  };
  window.hosts = {};
  window.mount = async (name, esm, css, state) => {
    const url = URL.createObjectURL(new Blob([esm], { type: "text/javascript" }));
    const module = await import(url);
    const widget = module.default;
    URL.revokeObjectURL(url);
    state = Object.fromEntries(Object.entries(state).map(([key, value]) => [key, revived(value)]));
    const calls = new Map();
    const saved = [];
    const changed = new Set();
    const fire = (event) => [...(calls.get(event) ?? [])].forEach((call) => call());
    const model = {
      get: (key) => {
        if (!(key in state)) throw new Error(`${name} has no trait ${key}`);
        return state[key];
      },
      set: (key, value) => {
        if (!(key in state)) throw new Error(`${name} has no trait ${key}`);
        changed.add(key);
        const before = state[key];
        state[key] = value;
        if (before !== value) fire(`change:${key}`);
      },
      save_changes: () => {
        saved.push(Object.fromEntries([...changed].map((key) => [key, structuredClone(state[key])])));
        changed.clear();
      },
      on: (event, call) => calls.set(event, [...(calls.get(event) ?? []), call]),
      off: (event, call) => calls.set(event, (calls.get(event) ?? []).filter((one) => one !== call)),
    };
    const style = document.createElement("style");
    style.textContent = css;
    const el = document.createElement("div");
    document.body.append(style, el);
    // As a message of Python's: all values first, then the news of each.
    const receive = (values) => {
      const own = Object.entries(values).map(([key, value]) => [key, revived(value)]);
      own.forEach(([key, value]) => (state[key] = value));
      own.forEach(([key]) => fire(`change:${key}`));
    };
    // A message of Python's with its buffers.
    const hear = (content, ...buffers) => {
      const own = buffers.map((buffer) => revived({ bytes_of_float64: buffer }));
      [...(calls.get("msg:custom") ?? [])].forEach((call) => call(content, own));
    };
    const n_listeners = () => [...calls.values()].reduce((sum, all) => sum + all.length, 0);
    const cleanup = await widget.render({ model, el });
    const remove = () => { cleanup(); style.remove(); };
    hosts[name] = { model, el, saved, receive, hear, n_listeners, remove, exports: Object.keys(module) };
  };
}
"""


@contextlib.contextmanager
def blank_page(**context):
    """Start Chromium and yield an empty page; `page.trouble` collects errors, `page.requests` addresses."""
    with chromium.started() as browser:
        page = browser.new_page(viewport={"width": 1000, "height": 900}, **context)
        page.trouble, page.requests = [], []
        page.on(
            "console", lambda message: page.trouble.append(message.text) if message.type == "error" else None
        )
        page.on("pageerror", lambda error: page.trouble.append(str(error)))
        page.on(
            "request",
            lambda request: None if request.url.startswith("blob:") else page.requests.append(request.url),
        )
        page.evaluate(HOST)
        set_theme(page, "light")
        yield page


def set_theme(page, name):
    """Paint the page as JupyterLab does in its light or dark theme."""
    page.evaluate(
        """([values, isLight]) => {
          Object.entries(values).forEach(([key, value]) => document.body.style.setProperty(key, value));
          document.body.style.background = "var(--jp-layout-color0)";
          document.body.dataset.jpThemeLight = isLight;
        }""",
        [THEMES[name], name == "light"],
    )


def mount(page, widget, name="widget"):
    """Draw a widget at the end of the page; `hosts[name]` is its stub of the model."""
    page.evaluate("([...a]) => mount(...a)", [name, str(widget._esm), str(widget._css), state_of(widget)])


def state_of(widget):
    """Return the traits that travel, as the browser gets them."""
    state = widget.get_state()
    return {key: as_json(value) for key, value in state.items() if key[0] != "_" and key not in OF_JUPYTER}


def as_json(value):
    if isinstance(value, (bytes, memoryview)):
        return {"bytes_of_float64": base64.b64encode(value).decode()}
    if isinstance(value, dict):
        return {name: as_json(part) for name, part in value.items()}
    return [as_json(part) for part in value] if isinstance(value, list) else value


def receive(page: Any, /, **values: Any) -> None:
    """Change traits as Python does, all in one message."""
    page.evaluate("(values) => hosts.widget.receive(values)", values)


def saved(page: Any) -> list[dict[str, Any]]:
    """Return the messages that the browser sent."""
    return page.evaluate("hosts.widget.saved")


def sent(page: Any, name: str) -> list[Any]:
    """Return what the browser sent as one trait."""
    return [values[name] for values in saved(page) if name in values]


# The ids in each view, and those that it refers to.
IDS = """
() => {
  const named = ["labelledby", "describedby", "controls", "activedescendant"].map((name) => `aria-${name}`);
  const of = (one) => [
    ...["for", "list", ...named].flatMap((name) => (one.getAttribute(name) ?? "").split(" ")),
    ...["clip-path", "fill", "stroke", "mask", "href"]
      .map((name) => (one.getAttribute(name) ?? "").match(/^(?:url\\()?#([^)]+)\\)?$/)?.[1]),
  ].filter(Boolean);
  return [...document.body.children].filter((one) => one.tagName === "DIV").map((root) => [
    [...root.querySelectorAll("[id]")].map((one) => one.id),
    [...root.querySelectorAll("*")].flatMap(of),
  ]);
}
"""


def check_ids(page: Any, n_views: int) -> None:
    """Assert that no id occurs twice in a page, and that a view refers to its own."""
    views = page.evaluate(IDS)
    every = [name for names, _ in views for name in names]
    assert len(views) == n_views and len(every) == len(set(every))
    assert all(set(used) <= set(names) for names, used in views)
