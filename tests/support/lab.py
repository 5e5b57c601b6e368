"""A real JupyterLab (or Notebook 7) in headless Chromium, driven through Playwright, without a network."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.support import chromium

ARTEFACTS = Path(__file__).resolve().parents[2] / ".artefacts"
OVERRIDES = {
    # Otherwise JupyterLab drops cells that are off the screen from the page.
    "@jupyterlab/notebook-extension:tracker": {"windowingMode": "none", "autoStartDefaultKernel": True},
    # No calls out for news and updates, and no question whether to make them.
    "@jupyterlab/apputils-extension:notification": {"fetchNews": "false", "checkForUpdates": False},
    "@jupyterlab/docmanager-extension:plugin": {"autosave": False},
}
# Seen when the kernel of the notebook before ends. The thread that sends its output has ended, so each thread
# sends by itself (`IOPubThread._really_send`). Parts of two messages mix: a topic comes in place of a header.
# ipykernel 7.4 does it without cepkit. After `IOPubThread.stop()`, one thread wrote 3,000 times to an
# `OutStream`, another one called `Session.send` 3,000 times; 77 messages were mixed.
MIXED = "Kernel message validation error: Unexpected token 's', \"stream.stderr\" is not valid JSON"
APPS = ("LabApp", "JupyterNotebookApp")
KERNEL_IS_IDLE = """() => {
    const panel = window.jupyterapp?.shell?.currentWidget;
    const kernel = panel?.sessionContext?.session?.kernel;
    return kernel && kernel.connectionStatus === 'connected' && kernel.status === 'idle';
}"""
ASK = """async code => {
    const kernel = window.jupyterapp.shell.currentWidget.sessionContext.session.kernel;
    const said = [];
    const future = kernel.requestExecute({ code, store_history: false });
    future.onIOPub = ({ header, content }) => {
        if (header.msg_type === 'stream' && content.name === 'stdout') said.push(content.text);
        if (header.msg_type === 'error') said.push(`${content.ename}: ${content.evalue}`);
    };
    await future.done;
    return said.join('');
}"""
OPEN_INSTEAD = """async path => {
    const before = window.jupyterapp.shell.currentWidget;
    if (before) {
        await before.sessionContext.shutdown();
        before.dispose();  // closing asks whether to save
    }
    await window.jupyterapp.commands.execute('docmanager:open', { path });
}"""
CELLS = "() => window.jupyterapp.shell.currentWidget.content.model.sharedModel.toJSON().cells"


# --- the server ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Server:
    """A running Jupyter server over a folder of its own."""

    address: str
    token: str
    root: Path

    def url(self, page: str) -> str:
        """Return the address of a page, such as ``"lab/tree/a.ipynb"``."""
        return f"{self.address}/{page}?token={self.token}&reset"


@contextlib.contextmanager
def server(root: Path, own: Path):
    """Start JupyterLab, with Notebook 7 where it is, over ``root``; its own files go to ``own``."""
    settings = own / "settings"
    settings.mkdir(parents=True)
    (settings / "overrides.json").write_text(json.dumps(OVERRIDES), encoding="utf-8")
    folders = {
        "JUPYTER_CONFIG_DIR": "config",
        "JUPYTER_RUNTIME_DIR": "runtime",
        "JUPYTER_DATA_DIR": "data",
        "IPYTHONDIR": "ipython",
        "JUPYTERLAB_SETTINGS_DIR": "user-settings",
        "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
    }
    # The kernel is this Python: its `python3` specification stands beside it, and names no other path.
    variables = os.environ | {name: str(own / folder) for name, folder in folders.items()}
    variables |= {"JUPYTER_PREFER_ENV_PATH": "1"}
    port, token = _free_port(), "cepkit-under-test"
    options = [
        "--no-browser",
        "--ip=127.0.0.1",
        f"--port={port}",
        "--ServerApp.port_retries=0",
        f"--IdentityProvider.token={token}",
        f"--ServerApp.root_dir={root}",
        # Notebook 7 is one more page of the same server.
        *(f"--{app}.app_settings_dir={settings}" for app in APPS),
        *(f"--{app}.expose_app_in_browser=True" for app in APPS),
        *(["--allow-root"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []),
    ]
    log = own / "log"
    with log.open("w") as lines:
        process = subprocess.Popen(
            [sys.executable, "-m", "jupyterlab", *options], env=variables, stdout=lines, stderr=lines
        )
    made = Server(f"http://127.0.0.1:{port}", token, root)
    try:
        _wait_until_it_answers(made, process, log)
        yield made
    finally:
        process.terminate()  # the server ends its kernels
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextlib.contextmanager
def server_of(folder: Path, notebooks: Mapping[str, Iterable[str]] | None = None):
    """Start a server over new notebooks; each is given by its file and its cells of code."""
    (folder / "notebooks").mkdir()
    for name, sources in (notebooks or {}).items():
        (folder / "notebooks" / name).write_text(json.dumps(notebook_of(sources)), encoding="utf-8")
    with server(folder / "notebooks", folder / "own") as started:
        yield started


def notebook_of(sources: Iterable[str]) -> dict:
    """Return a notebook with these cells of code, which have not run."""
    cell = {"cell_type": "code", "metadata": {}, "execution_count": None, "outputs": []}
    cells = [cell | {"id": f"cell-{i}", "source": source} for i, source in enumerate(sources)]
    kernel = {"name": "python3", "display_name": "Python 3"}
    return {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


def take_shot(page, name: str) -> None:
    """Keep a picture of the window."""
    page.wait_for_timeout(250)  # what is drawn in the next frame
    ARTEFACTS.mkdir(exist_ok=True)
    page.screenshot(path=ARTEFACTS / f"{name}.png")


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def _wait_until_it_answers(made: Server, process: subprocess.Popen, log: Path) -> None:
    for _ in range(600):
        if process.poll() is not None:
            break
        with contextlib.suppress(OSError):
            urllib.request.urlopen(f"{made.address}/api?token={made.token}", timeout=2).close()
            return
        time.sleep(0.1)
    raise RuntimeError(f"the server did not start:\n{log.read_text(errors='replace')[-3000:]}")


# --- the browser --------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Browser:
    """A page of Chromium, with what went wrong in it since `forget`."""

    page: object
    errors: list[str] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)

    def note(self, error: str) -> None:
        """Keep what went wrong, but for the one message of JupyterLab that says nothing about a page."""
        if error != MIXED:
            self.errors.append(error)

    def forget(self) -> None:
        """Forget what went wrong."""
        self.errors.clear()
        self.outside.clear()

    def open(self, made: Server, name: str, *, within: str = "lab/tree", timeout_s: float = 120) -> None:
        """Open a notebook and wait until its kernel is idle; another one that is open ends before."""
        if within == "lab/tree" and self.page.url.startswith(f"{made.address}/lab"):
            self.page.evaluate(OPEN_INSTEAD, name)  # loading JupyterLab anew takes as long as some notebooks
        else:
            self.page.goto(made.url(f"{within}/{name}"))
        self.page.wait_for_selector(".jp-NotebookPanel .jp-CodeCell", timeout=timeout_s * 1000)
        # Before the kernel is there, the command to run returns at once and runs nothing.
        self.page.wait_for_function(KERNEL_IS_IDLE, timeout=timeout_s * 1000)

    def run_all(self) -> list[dict]:
        """Run all cells to the end, or to the first error; return the cells as nbformat has them."""
        self.page.evaluate("() => window.jupyterapp.commands.execute('notebook:run-all-cells')")
        return self.page.evaluate(CELLS)

    def ask(self, expression: str):
        """Return the value of an expression in the kernel; it has to have a JSON form."""
        said = self.page.evaluate(ASK, f"import json; print(json.dumps({expression}))")
        try:
            return json.loads(said)
        except json.JSONDecodeError:
            raise AssertionError(f"{expression}: {said}") from None

    def wait_until(self, expression: str, value, timeout_s: float = 20) -> None:
        """Wait until an expression in the kernel has a value: what a page reports takes a moment."""
        until = time.monotonic() + timeout_s
        while (found := self.ask(expression)) != value:
            if time.monotonic() > until:
                raise AssertionError(f"{expression} is {found!r}, not {value!r}")
            self.page.wait_for_timeout(50)

    def theme(self, name: str) -> None:
        """Switch to ``"light"`` or ``"dark"``."""
        dark = name == "dark"
        chosen = {"theme": f"JupyterLab {'Dark' if dark else 'Light'}"}
        self.page.evaluate(
            "chosen => window.jupyterapp.commands.execute('apputils:change-theme', chosen)", chosen
        )
        shown = f"body[data-jp-theme-light='{'false' if dark else 'true'}']"
        self.page.wait_for_selector(shown, state="attached")

    def shoot(self, name: str) -> Path:
        """Keep a picture of the whole notebook in `.artefacts`, which git ignores."""
        ARTEFACTS.mkdir(exist_ok=True)
        height = self.page.evaluate(
            "() => Math.max(0, ...[...document.querySelectorAll('.jp-WindowedPanel-outer')]"
            ".map(panel => panel.scrollHeight))"
        )
        before = self.page.viewport_size
        self.page.set_viewport_size({"width": before["width"], "height": min(16_000, max(800, height + 120))})
        path = ARTEFACTS / f"{name}.png"
        to_top = "panel => panel.scrollTo(0, 0)"
        self.page.evaluate(f"() => document.querySelectorAll('.jp-WindowedPanel-outer').forEach({to_top})")
        self.page.screenshot(path=path)
        self.page.set_viewport_size(before)
        return path


@contextlib.contextmanager
def browser(*modules: str):
    """Open a page of Chromium; skip the test where it or one of the modules is missing."""
    chromium.needed(*modules)
    with chromium.started() as started:
        page = started.new_page(viewport={"width": 1400, "height": 1400})
        made = Browser(page)
        page.on("request", lambda request: _note(made.outside, request.url))
        page.on("websocket", lambda socket: _note(made.outside, socket.url))
        page.on("console", lambda said: made.note(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: made.note(str(error)))
        yield made


def _note(outside: list[str], url: str) -> None:
    if url.startswith(("http", "ws")) and "//127.0.0.1:" not in url:
        outside.append(url)
