"""The board of an explorer under axe-core, the usual check of web pages for everybody; skipped without it."""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile

import numpy as np
import pandas as pd
import pytest

import cepkit as cep  # noqa: F401  it adds df.cep
from tests.support.widget_page import THEMES, mount, set_theme

pytestmark = pytest.mark.browser
AXE = "axe-core@4.14.1"
LAYOUT = """(names) => {  // as Jupyter lays out the widgets of a board
  const board = document.createElement("main");
  board.className = "cepkit-data_bar-board cepkit-board";
  const parts = Object.assign(document.createElement("div"), { className: "cepkit-data_bar-parts" });
  board.append(parts);
  document.body.append(board);
  document.title = "board";
  document.documentElement.lang = "en";
  for (const [name, area] of names) {
    hosts[name].el.style.gridArea = area;
    parts.append(hosts[name].el);
  }
}"""


@pytest.fixture(scope="module")
def axe(tmp_path_factory):
    """The text of axe-core, from the cache of npm or its registry."""
    npm, folder = shutil.which("npm"), tmp_path_factory.mktemp("axe")
    if npm is None:
        pytest.skip("npm is not installed: no axe-core to check with")
    variables = {**os.environ, "npm_config_fetch_retries": "0", "npm_config_fetch_timeout": "20000"}
    try:
        command = [npm, "pack", "--prefer-offline", "--silent", AXE]
        subprocess.run(command, cwd=folder, env=variables, capture_output=True, timeout=60, check=True)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired, OSError):
        pytest.skip(f"{AXE} is not reachable")
    [packed] = folder.glob("*.tgz")
    with tarfile.open(packed) as files:
        return files.extractfile("package/axe.min.js").read().decode()


@pytest.mark.parametrize("theme", sorted(THEMES))
def test_the_board_has_no_violation(page, axe, theme):
    rng = np.random.default_rng(0)
    n = 400
    frame = pd.DataFrame(
        {
            "ts": pd.date_range("2026-03-02", periods=n, freq="min"),
            "visitor": rng.integers(0, 9, n),
            "event": rng.choice(["view", "cart", "pay"], n),
        }
    )
    explorer = frame.cep.explore().wait(60)
    explorer.select(0)
    explorer.why_not([0])
    explorer.wait(60)
    explorer.keep(match=0)
    board = explorer.wait(60).board
    widgets = {
        "bar": board.bar, "editor": board.editor, "sliders": board.sliders, "timeline": board.timeline,
        "nfa": board.nfa, "stepper": board.stepper, "table": board.table, "reasons": board.reasons,
        "funnel": board.funnel, "cases": board.cases, "take": board.take,
    }  # fmt: skip
    set_theme(page, theme)
    for name, widget in widgets.items():
        mount(page, widget, name)
    page.evaluate(LAYOUT, [(name, widget.layout.grid_area) for name, widget in widgets.items()])
    page.evaluate(axe)
    for opened in ("", "reasons", "nfa", "funnel", "stepper", "cases", "take"):
        page.evaluate("(opened) => hosts.bar.receive({ opened })", opened)
        found = page.evaluate("async () => (await axe.run(document.querySelector('main'))).violations")
        said = [
            (one["id"], node["html"][:120], node["failureSummary"]) for one in found for node in one["nodes"]
        ]
        assert said == [], opened
