"""Print how long the explorer takes to react, in a real JupyterLab in Chromium; see ``--help``.

A reaction lasts from the input event in the page to the animation frame that shows the change. An opening
lasts from the command to run the cell; the kernel has the frame, and the first cell imports cepkit. Quote the
load of the machine beside the figures: the kernel, the server and the browser share its cores.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tests.support import lab

FRAME = """import numpy as np, pandas as pd
rng = np.random.default_rng(0)
n, n_symbols = {rows}, {symbols}
names = [f"S{{i:03d}}" for i in range(n_symbols)]
frame = pd.DataFrame({{
    "ts": pd.date_range("2026-01-05 09:30", periods=n, freq="20ms"),
    "symbol": pd.Categorical.from_codes(rng.integers(0, n_symbols, n), names),
    "kind": rng.choice(["Order", "Scan", "Ready"], n),
}})
frame["price"] = (100 + rng.normal(0, 0.02, n).cumsum()).round(2)
frame["size"] = rng.integers(1, 50, n) * 100"""
REGEX = """. up{3,} down
up: price > prev(price)
down: price < prev(price) - 0.2
within: 10 min"""
SEQUENCE = """PATTERN SEQ(Order a, Scan b, Ready c)
WHERE b.price > a.price + 0.05 AND c.price < b.price - 0.05
WITHIN 60 s"""
CALL = 'order_by="ts", partition_by="symbol"'
OPENED = "import cepkit\nexplorer = frame.cep.explore({})\nexplorer"
CELLS = {
    "regex": OPENED.format(f'"""{REGEX}""", {CALL}'),
    "sequence": OPENED.format(f'"""{SEQUENCE}""", event_type="kind", {CALL}'),
}

# Watch one reaction. `event` is the input event that starts the clock. A change is one of
#   ["text", selector]         the text of an element differs from before
#   ["touch", selector]        something in an element is written, also with the same value
#   ["after", busy, selector]  the same, after an element was busy and is no longer
# A change in an animation frame is shown by that frame, any other change by the next frame.
WATCH = """({ board, event, changes }) => {
  const root = [...document.querySelectorAll('.cepkit-data_bar-board')][board];
  const within = selector => root.querySelector(selector);
  const run = window.reaction = { began: null, took: {} };
  const before = {}, wasBusy = {};
  for (const [name, [kind, selector]] of Object.entries(changes))
    if (kind === 'text') before[name] = within(selector)?.textContent;
  let inFrame = false;
  const request = window.requestAnimationFrame;
  if (!window.framed) {
    window.framed = true;
    window.requestAnimationFrame = call => request.call(window, time => {
      window.isFrame = true;
      try { call(time); } finally { queueMicrotask(() => { window.isFrame = false; }); }
    });
  }
  const start = one => {
    if (run.began === null && (one.isTrusted || event === 'change')) run.began = one.timeStamp;
  };
  window.addEventListener(event, start, { capture: true });
  const done = name => {
    run.took[name] = -1;
    if (window.isFrame) run.took[name] = performance.now() - run.began;
    else window.requestAnimationFrame(() => { run.took[name] = performance.now() - run.began; });
  };
  const isIn = (record, selector) => {
    const own = within(selector);
    return own && (own === record.target || own.contains(record.target));
  };
  const observer = new MutationObserver(records => {
    if (run.began === null) return;
    for (const [name, [kind, selector, inner]] of Object.entries(changes)) {
      if (name in run.took) continue;
      if (kind === 'text' && within(selector)?.textContent !== before[name]) done(name);
      if (kind === 'touch' && records.some(record => isIn(record, selector))) done(name);
      if (kind === 'after') {
        const busy = within(selector)?.getAttribute('aria-busy') === 'true';
        if (busy) wasBusy[name] = true;
        else if (wasBusy[name] && records.some(record => isIn(record, inner))) done(name);
      }
    }
    if (Object.keys(changes).every(name => name in run.took)) {
      observer.disconnect();
      window.removeEventListener(event, start, { capture: true });
    }
  });
  observer.observe(root, { subtree: true, childList: true, attributes: true, characterData: true });
  run.stop = () => {
    observer.disconnect();
    window.removeEventListener(event, start, { capture: true });
  };
}"""
IS_SEEN = "n => Object.values(window.reaction.took).filter(took => took >= 0).length >= n"
OPEN = """board => {
  const began = performance.now();
  const seen = window.opening = {};
  const look = () => {
    const root = [...document.querySelectorAll('.cepkit-data_bar-board')][board];
    const label = root?.querySelector('.cepkit-timeline_view canvas')?.getAttribute('aria-label') ?? '';
    const now = performance.now() - began;
    if (root) seen.board ??= now;
    if (/^[1-9]/.test(label)) seen.events ??= now;
    if (root?.querySelector('.cepkit-match_table tbody tr')) seen.rows ??= now;
    if (root?.querySelector('.cepkit-query_editor .mark.done')) seen.counted ??= now;
    if (root?.querySelector('.cepkit-funnel_view .step') &&
        root.querySelector('.cepkit-funnel_view').getAttribute('aria-busy') === 'false') seen.funnel ??= now;
    if ('funnel' in seen && 'counted' in seen) return;
    requestAnimationFrame(look);
  };
  look();
  window.jupyterapp.commands.execute('notebook:run-cell');
}"""
CHOOSE_CELL = "cell => { window.jupyterapp.shell.currentWidget.content.activeCellIndex = cell; }"
TABLE = ["text", ".cepkit-match_table tbody"]
TOTAL = ["text", ".cepkit-match_table .total"]
PAINTED = ["touch", ".cepkit-timeline_view canvas"]
REDRAWN = ["after", ".cepkit-timeline_view", ".cepkit-timeline_view canvas"]
FUNNEL = ["after", ".cepkit-funnel_view", ".cepkit-funnel_view"]


@dataclass
class Times:
    """The times of every reaction in milliseconds, by its name."""

    of: dict[str, list[float]] = field(default_factory=dict)
    load: list[float] = field(default_factory=list)

    def add(self, name: str, took: float) -> None:
        """Add a time."""
        self.of.setdefault(name, []).append(took)

    def lines(self) -> Iterator[str]:
        """Yield a line for each reaction."""
        for name, own in self.of.items():
            middle = statistics.median(own)
            yield f"{name:<44} {middle:7.0f} {min(own):7.0f} {max(own):7.0f}   {len(own)}"


class Board:
    """A board in the page, and the actions of a person on it."""

    def __init__(self, browser: lab.Browser, place: int, times: Times, name: str):
        self.browser, self.page, self.place, self.times, self.name = browser, browser.page, place, times, name
        self.is_verbose = bool(os.environ.get("VERBOSE"))
        self.root = self.page.locator(".cepkit-data_bar-board").nth(place)

    def part(self, stem: str):
        """Return a widget of the board."""
        return self.root.locator(f".cepkit-{stem}").first

    def open(self, door: str) -> None:
        """Open a part of the board that is closed at first."""
        button = self.part("data_bar").locator(".door", has_text=door)
        if button.get_attribute("aria-pressed") != "true":
            button.click()
            self.page.wait_for_timeout(300)

    def rest(self) -> None:
        """Wait until the kernel has nothing to do and the page is quiet."""
        self.browser.ask("str(explorer.wait(300))")
        self.page.wait_for_timeout(100)

    def react(self, name: str, event: str, act: Callable[[], None], changes: dict, timeout_s: float = 5):
        """Do something, and note how long each change takes."""
        self.rest()
        self.page.evaluate(WATCH, {"board": self.place, "event": event, "changes": changes})
        act()
        try:
            # The page notes the times; looking for them in every frame would take time from it.
            self.page.wait_for_function(IS_SEEN, arg=len(changes), timeout=timeout_s * 1000, polling=50)
        except Exception as error:
            if "Timeout" not in type(error).__name__:
                raise
        took = self.page.evaluate("() => (window.reaction.stop(), window.reaction.took)")
        self.times.load.append(os.getloadavg()[0])
        for change in changes:
            if took.get(change, -1) >= 0:
                self.times.add(f"{self.name}: {name} → {change}", took[change])
            else:
                self.times.of.setdefault(f"{self.name}: {name} → {change} (not seen)", []).append(0.0)
        if self.is_verbose:
            print(name, {change: round(own) for change, own in took.items()}, flush=True)


def measure(board: Board, n: int, *, is_slider_only: bool) -> None:
    """Measure every reaction, or only that to a slider, ``n`` times."""
    page, timeline, table = board.page, board.part("timeline_view"), board.part("match_table")
    board.root.evaluate("root => root.scrollIntoView()")
    canvas = timeline.locator("canvas")

    slider = board.part("slider_panel").locator("input[type=range]").first
    shown = {"table": TOTAL, "timeline": REDRAWN, "funnel": FUNNEL}
    for k in range(n):
        slider.focus()
        press = lambda k=k: page.keyboard.press("ArrowLeft" if k % 2 else "ArrowRight")  # noqa: E731
        board.react("slider", "keydown", press, shown)
    if is_slider_only:
        return

    area = board.part("query_editor").locator("textarea")
    for k in range(n):
        area.focus()
        page.keyboard.press("Control+End")
        page.keyboard.press("ArrowUp")
        page.keyboard.press("End")
        act = (lambda: page.keyboard.press("Backspace")) if k % 2 else (lambda: page.keyboard.type("1"))
        colours = ["touch", ".cepkit-query_editor .under"]
        board.react("key", "input", act, {"colours": colours, "table": TOTAL, "timeline": REDRAWN})

    for k in range(n):
        row = table.locator("tbody tr").nth(k % 12)
        board.react(
            "row", "click", row.click,
            {
                "row lit": ["touch", ".cepkit-match_table tbody"],
                "timeline": ["text", ".cepkit-timeline_view .readout"],
                "automaton": ["touch", ".cepkit-nfa_view svg"],
                "stepper": ["text", ".cepkit-stepper .where"],
            },
        )  # fmt: skip
        board.rest()
        table.locator(".frame").focus()
        page.keyboard.press("Escape")
    for k in range(n):
        act = table.get_by_label("Previous page" if k % 2 else "Next page").click
        board.react("page", "click", act, {"table": TABLE})
    head = table.locator("th button.sort").first
    for _ in range(n if head.count() else 0):
        board.react("sort", "click", head.click, {"table": TABLE})

    board.open("Automaton")
    state = board.part("nfa_view").locator(".state").nth(1)
    for _ in range(n):
        marks = {"marks": PAINTED, "words": ["text", ".cepkit-nfa_view .says"]}
        board.react("state", "click", state.click, marks)
    board.open("Steps")
    forward = board.part("stepper").get_by_label("One event forward")
    for _ in range(n):
        board.react("step", "click", forward.click, {"event": ["touch", ".cepkit-stepper .panels"]})

    box = canvas.bounding_box()
    for k in range(n):
        at = {"x": box["width"] * (0.2 + 0.6 * k / n), "y": box["height"] * 0.5}
        why = {"reasons": ["text", ".cepkit-reason_view .title"]}
        board.react("event", "click", lambda at=at: canvas.click(position=at), why)

    for k in range(n):
        canvas.focus()
        zoom = {"picture": PAINTED, "finer data": REDRAWN}
        board.react("zoom", "keydown", lambda k=k: page.keyboard.press("-" if k % 2 else "+"), zoom)
    canvas.focus()
    page.keyboard.press("0")
    strip = timeline.locator(".strip svg").bounding_box()
    for k in range(n):
        x = strip["x"] + strip["width"] * (0.3 + 0.4 * k / n)

        def brush(x=x):
            page.mouse.move(x, strip["y"] + 10)
            page.mouse.down()
            page.mouse.move(x + 60, strip["y"] + 10, steps=2)
            page.mouse.up()

        brushed = {"finer data": REDRAWN}
        board.react("brush", "pointerup", brush, brushed)
        canvas.focus()
        page.keyboard.press("0")

    bar = board.part("data_bar")
    for k in range(n):
        act = bar.get_by_label("Previous key" if k % 2 else "Next key").click
        board.react(
            "next key", "click", act, {"name": ["text", ".cepkit-data_bar .line"], "timeline": REDRAWN}
        )
    for _ in range(n):
        opened = {"list": ["text", ".cepkit-data_bar"]}
        board.react("key picker", "click", bar.locator("[data-opens=key]").click, opened)
        rows = {"list": ["touch", ".cepkit-data_bar .popup .list"]}
        page.wait_for_timeout(400)
        board.react("search a key", "input", lambda: page.keyboard.type("S1"), rows)
        page.keyboard.press("Escape")
        page.keyboard.press("Escape")
    drawn = bar.get_by_label("Drawn")
    for k in range(n):
        act = lambda k=k: drawn.select_option("price" if k % 2 else "size")  # noqa: E731
        board.react("drawn column", "change", act, {"timeline": REDRAWN})
    bar.locator(".options").click()  # shows the strategy
    strategy = bar.get_by_label("Strategy", exact=True)
    if board.name == "sequence" and strategy.count():
        values = strategy.locator("option").evaluate_all("all => all.map(one => one.value)")
        for k in range(n):
            act = lambda k=k: strategy.select_option(values[(k + 1) % 2])  # noqa: E731
            board.react("strategy", "change", act, {"table": TOTAL, "timeline": REDRAWN}, 40)


@contextmanager
def opened(
    rows: int, symbols: int, kinds: list[str], folder: Path
) -> Iterator[tuple[lab.Browser, Callable[[str], dict]]]:
    """Open a notebook with the frame; yield the browser, and a function that opens a board."""
    folder.mkdir(exist_ok=True)
    sources = [FRAME.format(rows=rows, symbols=symbols), *(CELLS[kind] for kind in [*kinds, *kinds])]
    with lab.browser("jupyterlab") as browser, lab.server_of(folder, {"e.ipynb": sources}) as server:
        page = browser.page
        page.set_viewport_size({"width": 1400, "height": 1300})
        browser.open(server, "e.ipynb")
        page.evaluate("() => window.jupyterapp.commands.execute('application:toggle-left-area')")
        page.evaluate("() => window.jupyterapp.commands.execute('notebook:run-cell-and-select-next')")
        browser.ask("len(frame)")
        n_boards = 0

        def open_board(_: str) -> dict[str, float]:
            nonlocal n_boards
            page.wait_for_timeout(1000)
            page.evaluate(CHOOSE_CELL, n_boards + 1)  # actions on a board choose its cell
            page.evaluate(OPEN, n_boards)
            page.wait_for_function(
                "() => 'funnel' in window.opening && 'counted' in window.opening", timeout=90_000
            )
            n_boards += 1
            return page.evaluate("window.opening")

        yield browser, open_board


def translate() -> None:
    """Keep the byte code of the package, as an installation does, also where Python writes none by itself."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    command = "import cepkit.explorer.explorer, cepkit.accessor"
    subprocess.run([sys.executable, "-c", command], check=True, cwd=Path(__file__).resolve().parents[2])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--symbols", type=int, default=500)
    parser.add_argument("--times", type=int, default=12, help="of every reaction")
    parser.add_argument("--slider", action="store_true", help="only the reaction to a slider")
    parser.add_argument("--cold", action="store_true", help="without compiled kernels; only opens the boards")
    parser.add_argument("--kinds", nargs="*", default=list(CELLS), choices=list(CELLS))
    parser.add_argument("--slides", type=int, default=0, help="moves of a slider, for the memory they take")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if chosen.cold:
            os.environ["CEPKIT_CACHE"] = str(Path(folder) / "kernels")
        translate()
        times = Times()
        print(f"{chosen.rows:,} rows, {chosen.symbols} keys, {os.cpu_count()} cores")
        with opened(chosen.rows, chosen.symbols, chosen.kinds, Path(folder)) as (browser, open_board):
            for place, kind in enumerate([*chosen.kinds, *chosen.kinds]):
                load, state = os.getloadavg()[0], "warm" if place else "in a fresh kernel"
                parts = ", ".join(f"{name} {took:.0f}" for name, took in open_board(kind).items())
                print(
                    f"{kind}: opened {'cold' if chosen.cold else state}, load {load:.1f}: {parts}", flush=True
                )
                if chosen.cold or place >= len(chosen.kinds):
                    continue
                board = Board(browser, place, times, kind)
                began = time.monotonic()
                measure(board, chosen.times, is_slider_only=chosen.slider)
                print(f"({time.monotonic() - began:.0f} s)", flush=True)
                if times.load:
                    show(times)
                times = Times()
                if chosen.slides:
                    slide(board, chosen.slides)
            if browser.errors:
                print("errors in the page:", browser.errors[:3])


def show(times: Times) -> None:
    """Print the times."""
    load = f"{statistics.median(times.load):.1f} ({min(times.load):.1f} to {max(times.load):.1f})"
    print(f"load of the machine: {load}; ms: median, least, most, and how often")
    print("\n".join(times.lines()), flush=True)


def slide(board: Board, n: int) -> None:
    """Move a slider to and fro, and print the memory of the kernel and of the page."""
    resident = "int(open('/proc/self/statm').read().split()[1]) * 4096 / 1e6"
    heap = "() => (window.gc?.(), performance.memory.usedJSHeapSize / 1e6)"
    slider = board.part("slider_panel").locator("input[type=range]").first
    for k in range(n + 1):
        if k % 50 == 0:
            board.rest()
            took = board.browser.ask(resident), board.page.evaluate(heap)
            print(
                f"{board.name}: after {k} moves: kernel {took[0]:.0f} MB, page {took[1]:.0f} MB", flush=True
            )
        slider.focus()
        board.page.keyboard.press("ArrowLeft" if k % 2 else "ArrowRight")
        board.page.wait_for_timeout(60)


if __name__ == "__main__":
    main()
