"""The tutorial notebooks in a real JupyterLab in Chromium: no cell, no console and no request goes wrong."""

from __future__ import annotations

import shutil
from pathlib import Path

import lab
import pytest

NOTEBOOKS = Path(__file__).resolve().parents[1] / "notebooks"
TUTORIALS = sorted(path.name for path in NOTEBOOKS.glob("0*.ipynb"))

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def browser():
    with lab.browser(lab.needed("jupyterlab")) as opened:
        yield opened


@pytest.fixture(scope="module")
def server(browser, tmp_path_factory):
    """One JupyterLab for all tests, over a copy of the notebooks: what it saves is not in the checkout."""
    folder = tmp_path_factory.mktemp("lab")
    shutil.copytree(NOTEBOOKS, folder / "notebooks", ignore=shutil.ignore_patterns(".ipynb_checkpoints"))
    with lab.server("jupyterlab", folder / "notebooks", folder / "own") as started:
        yield started


def failures(cells):
    """Return the sources and errors of the cells that failed or did not run."""
    code = [cell for cell in cells if cell["cell_type"] == "code" and "".join(cell["source"]).strip()]
    failed = [
        ("".join(cell["source"]), f"{output['ename']}: {output['evalue']}")
        for cell in code
        for output in cell["outputs"]
        if output["output_type"] == "error"
    ]
    return failed or [("".join(cell["source"]), "not run") for cell in code if not cell["execution_count"]]


@pytest.mark.parametrize("name", TUTORIALS)
def test_tutorial_runs_in_jupyterlab(browser, server, name):
    browser.forget()
    browser.open(server, name)
    cells = browser.run_all()
    for theme in ("light", "dark"):
        browser.theme(theme)
        browser.shoot(f"{Path(name).stem}-{theme}")
    assert failures(cells) == []
    assert browser.errors == []
    assert browser.outside == []
