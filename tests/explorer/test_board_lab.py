"""The board in a real JupyterLab: what a saved notebook keeps, and what the first screen shows."""

from __future__ import annotations

import json

import pytest

from tests.support import lab

pytestmark = [pytest.mark.browser, pytest.mark.slow]

FRAME = """import cepkit as cep
from cepkit.datasets import load_sample

peaks = load_sample("peaks")"""
FALL = """define = {"high": "price > 9", "low": "price < prev(price)"}
explorer = peaks.cep.explore("high low{3}", define=define, order_by="ts")
explorer"""


@pytest.fixture(scope="module")
def server(browser, tmp_path_factory):
    with lab.server_of(tmp_path_factory.mktemp("board"), {"own.ipynb": [FRAME, FALL]}) as started:
        yield started


def test_a_saved_notebook_has_the_matches_of_a_run_that_ended_after_its_cell(browser, server):
    page = browser.page
    browser.open(server, "own.ipynb")
    browser.run_all()
    counted = browser.ask("repr(explorer.wait(60))")
    assert "done" in counted and "no result" not in counted
    page.wait_for_timeout(500)
    page.evaluate("() => window.jupyterapp.commands.execute('docmanager:save')")
    page.wait_for_timeout(500)
    saved = json.loads((server.root / "own.ipynb").read_text(encoding="utf-8"))["cells"][1]["outputs"]
    assert "".join(saved[1]["data"]["text/plain"]) == counted
