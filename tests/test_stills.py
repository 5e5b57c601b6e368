"""Notebooks that nobody runs show a picture for each widget and figure, in Chromium, in four states."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest

from tests.support import chromium, lab

ROOT = Path(__file__).resolve().parents[1]
FIRST = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
import pandas as pd
import plotly.io as pio
import cepkit as cep
from cepkit.datasets import load_sample
from cepkit.shedding.views import UtilityView
from tests.support.traces import EXAMPLE
from tests.support.view_cases import GOOD

pio.renderers.default = "plotly_mimetype"
trades = load_sample("trades")
prices = trades[trades["symbol"] == "AAC"].reset_index(drop=True)
define = {{
    "above": "price >= first(price)",
    "top": "price >= first(price) + 2",
    "deep": "price < first(price)",
}}
query = {{"query": ". above* top above* deep", "define": define, "order_by": ["ts", "seq"]}}
matches = prices.cep.match(**query)
"""
CELLS = {
    "explorer": "explorer = prices.cep.explore(**query)\nexplorer.wait()",
    "timeline": "explorer.board.timeline",
    "automaton": "cep.view(prices.cep.explain(**query), 'nfa')",
    "lineage": "cep.view(matches, 'lineage')",
    "threads": "cep.view(EXAMPLE)",
    "buffers": "cep.view(EXAMPLE, 'buffers')",
    "utilities": "UtilityView(pd.DataFrame(GOOD), threshold=0.6, title='a table')",
    "figure": "matches.plot()",
    "shown": "matches.plot().show()",
    "svg": "prices.cep.explain(**query).svg()",
    "picture": "cep.view(prices.cep.explain(**query), 'nfa').figure()",
    "explanation": "prices.cep.explain(**query)",
}
N_WIDGETS = 7
# For each cell with outputs: what can be seen of it.
SEEN = """() => [...document.querySelectorAll('.jp-CodeCell')].slice(1).map(cell => {
    const seen = element => element.getClientRects().length > 0;
    const areas = [...cell.querySelectorAll('.jp-OutputArea-output')].filter(seen);
    return {
        images: [...cell.querySelectorAll('.jp-OutputArea-output img')].filter(seen)
            .map(image => Math.min(image.naturalWidth, image.clientWidth)),
        widgets: cell.querySelectorAll('[class*=cepkit-]').length,
        text: areas.map(area => area.innerText).join(' ').trim(),
    };
})"""


TRUSTED = """() => [...window.jupyterapp.shell.currentWidget.content.widgets]
    .filter(cell => cell.model.type === 'code').every(cell => cell.model.trusted)"""


@pytest.fixture(scope="module")
def browser():
    with lab.browser("jupyterlab", "nbconvert") as opened:
        yield opened


@pytest.fixture(scope="module")
def server(browser, tmp_path_factory):
    folder = tmp_path_factory.mktemp("stills")
    (folder / "notebooks").mkdir()
    with lab.server(folder / "notebooks", folder / "own") as started:
        yield started


@pytest.fixture(scope="module")
def notebook(browser, server):
    """The path of a notebook that ran in JupyterLab and was saved; the live page is looked at first."""
    cell = {"cell_type": "code", "metadata": {}, "execution_count": None, "outputs": []}
    cells = [cell | {"id": name, "source": source} for name, source in {"first": FIRST, **CELLS}.items()]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    written = {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    path = server.root / "pictures.ipynb"
    path.write_text(json.dumps(written), encoding="utf-8")
    browser.open(server, path.name)
    ran = browser.run_all()
    errors = [one for cell in ran for one in cell["outputs"] if one["output_type"] == "error"]
    assert not errors, errors
    browser.page.wait_for_function("document.querySelectorAll('.cepkit-scene_view').length === 4")
    return path


@pytest.fixture(scope="module")
def live(browser, notebook):
    """What is seen while the kernel runs; the notebook is saved afterwards."""
    browser.page.wait_for_timeout(1500)
    seen = browser.page.evaluate(SEEN)
    for theme in ("light", "dark"):
        browser.theme(theme)
        browser.shoot(f"stills-live-{theme}")
    browser.theme("light")
    browser.page.evaluate("() => window.jupyterapp.commands.execute('docmanager:save')")
    return seen


def check_pictures(seen):
    """Assert that each cell shows a picture and no cell shows an error alone or text instead of one."""
    assert len(seen) == len(CELLS)
    for name, of in zip(CELLS, seen, strict=True):
        assert of["images"] and min(of["images"]) > 100, (name, of)
        for odd in ("<svg", "<img", "<IPython", "View("):
            assert odd not in of["text"], (name, of)


def test_a_live_widget_hides_its_still(live):
    for name, of in zip(CELLS, live, strict=True):
        if list(CELLS).index(name) < N_WIDGETS:
            assert of["widgets"] and not of["images"], (name, of)


def test_a_figure_comes_alive_under_the_mouse(browser, live):
    """JupyterLab's renderer of plotly shows the image until then."""
    image = browser.page.locator(".jp-RenderedPlotly .plot-img").first
    image.scroll_into_view_if_needed()
    box = image.bounding_box()
    browser.page.mouse.move(box["x"] + 40, box["y"] + box["height"] / 2)
    browser.page.mouse.move(box["x"] + 60, box["y"] + box["height"] / 2)
    browser.page.wait_for_selector(".jp-RenderedPlotly .plot-container")
    assert not image.is_visible()


def test_a_notebook_of_someone_else_shows_pictures(browser, server, notebook, live):
    """JupyterLab does not trust it: it shows neither widgets nor HTML as it was written."""
    fresh = json.loads(notebook.read_text(encoding="utf-8"))
    for cell in fresh["cells"]:
        cell["metadata"].pop("trusted", None)
        cell["metadata"]["tags"] = ["fresh"]  # another signature
    (server.root / "fresh.ipynb").write_text(json.dumps(fresh), encoding="utf-8")
    browser.open(server, "fresh.ipynb")
    browser.page.wait_for_timeout(1500)
    assert browser.page.evaluate(TRUSTED) is False
    seen = browser.page.evaluate(SEEN)
    browser.theme("dark")
    browser.shoot("stills-fresh-dark")
    browser.theme("light")
    browser.shoot("stills-fresh-light")
    check_pictures(seen)
    assert not any("model not found" in of["text"] for of in seen)


def test_a_notebook_that_is_opened_again_shows_pictures(browser, server, notebook, live):
    """The kernel is new, so there are no widgets, but the notebook is trusted."""
    browser.open(server, notebook.name)
    browser.page.wait_for_timeout(4000)  # the widgets' manager looks for each model for two seconds
    assert browser.page.evaluate(TRUSTED) is True
    seen = browser.page.evaluate(SEEN)
    browser.shoot("stills-reopened")
    check_pictures(seen)
    assert not any("model not found" in of["text"] or "Loading" in of["text"] for of in seen)


@pytest.mark.parametrize("is_trusted", [True, False])
def test_notebook_7_shows_pictures_until_the_cells_run(browser, server, notebook, live, is_trusted):
    chromium.needed("notebook")
    name = notebook.name
    if not is_trusted:
        fresh = json.loads(notebook.read_text(encoding="utf-8"))
        for cell in fresh["cells"]:
            cell["metadata"].pop("trusted", None)
            cell["metadata"]["tags"] = ["fresh in Notebook 7"]  # another signature
        name = "fresh-7.ipynb"
        (server.root / name).write_text(json.dumps(fresh), encoding="utf-8")
    browser.page.evaluate("() => window.jupyterapp.shell.currentWidget.sessionContext.shutdown()")
    browser.open(server, name, within="notebooks")
    browser.page.wait_for_timeout(4000)  # the widgets' manager looks for each model for two seconds
    assert browser.page.evaluate(TRUSTED) is is_trusted
    seen = browser.page.evaluate(SEEN)
    browser.shoot(f"stills-notebook-7-{'reopened' if is_trusted else 'fresh'}")
    check_pictures(seen)
    assert not any("model not found" in of["text"] or "Loading" in of["text"] for of in seen)
    browser.run_all()
    browser.page.wait_for_function("document.querySelectorAll('.cepkit-scene_view').length === 4")
    browser.page.wait_for_timeout(1500)
    test_a_live_widget_hides_its_still(browser.page.evaluate(SEEN))


@pytest.mark.parametrize("sanitize", [False, True])
def test_a_page_of_nbconvert_shows_pictures(browser, notebook, live, tmp_path, sanitize):
    from nbconvert import HTMLExporter

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the outputs with a widget alone
        page, _ = HTMLExporter(sanitize_html=sanitize).from_filename(str(notebook))
    (tmp_path / "page.html").write_text(page, encoding="utf-8")
    opened = browser.page.context.browser.new_page(viewport={"width": 1400, "height": 1000})
    try:
        opened.route("http*://**", lambda route: route.abort())
        opened.goto((tmp_path / "page.html").as_uri(), wait_until="domcontentloaded")
        seen = opened.evaluate(SEEN)
        lab.ARTEFACTS.mkdir(exist_ok=True)
        name = "stills-nbconvert-sanitised" if sanitize else "stills-nbconvert"
        opened.screenshot(path=lab.ARTEFACTS / f"{name}.png", full_page=True)
    finally:
        opened.close()
    check_pictures(seen)
