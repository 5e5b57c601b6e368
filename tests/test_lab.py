"""Tutorials and explorer in a real JupyterLab in Chromium: no cell, no console, no request goes wrong."""

from __future__ import annotations

import json
import platform
import re
import shutil
from pathlib import Path

import pytest

from tests.support import chromium, lab

NOTEBOOKS = Path(__file__).resolve().parents[1] / "notebooks"
TUTORIALS = sorted(path.name for path in NOTEBOOKS.glob("0*.ipynb"))
# The stage "notebooks" runs all cells of all notebooks. In a browser, cells differ where they have widgets.
WITH_WIDGETS = ("02_explorer.ipynb", "06_clicks_and_logs.ipynb")
RUN = [pytest.param(n, marks=[] if n in WITH_WIDGETS else [pytest.mark.slow]) for n in TUTORIALS]

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def browser():
    with lab.browser("jupyterlab") as opened:
        yield opened


@pytest.fixture(scope="module")
def server(browser, tmp_path_factory):
    """One JupyterLab for all tests, over a copy of the notebooks: what it saves is not in the checkout."""
    folder = tmp_path_factory.mktemp("lab")
    shutil.copytree(NOTEBOOKS, folder / "notebooks", ignore=shutil.ignore_patterns(".ipynb_checkpoints"))
    with lab.server(folder / "notebooks", folder / "own") as started:
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


IS_DIRTY = "() => window.jupyterapp.shell.currentWidget.context.model.dirty"


def check_opened(browser, server, name):
    """Open a tutorial, which shows what was saved and does not change it.

    Its metadata says the language of the kernel. Another version of Python would be a change.
    """
    path = server.root / name
    notebook = json.loads((NOTEBOOKS / name).read_text(encoding="utf-8"))
    notebook["metadata"]["language_info"]["version"] = platform.python_version()
    path.write_text(json.dumps(notebook), encoding="utf-8")
    browser.forget()
    browser.open(server, name)
    browser.page.wait_for_timeout(1500)
    assert browser.page.evaluate(IS_DIRTY) is False
    assert browser.errors == []
    assert browser.outside == []


@pytest.mark.parametrize("name", RUN)
def test_tutorial_runs_in_jupyterlab(browser, server, name, full):
    check_opened(browser, server, name)
    cells = browser.run_all()
    for theme in ("light", "dark") if full else ("light",):
        browser.theme(theme)
        browser.shoot(f"{Path(name).stem}-{theme}")
    assert failures(cells) == []
    assert browser.errors == []
    assert browser.outside == []


@pytest.mark.parametrize("name", [name for name in TUTORIALS if name not in WITH_WIDGETS])
def test_opening_a_tutorial_shows_what_was_saved_and_does_not_change_it(browser, server, name):
    """The test that runs a tutorial opens it in this way, too."""
    check_opened(browser, server, name)


# --- the explorer, as a person uses it

CALL = """
import cepkit as cep
from cepkit.datasets import load_sample

trades = load_sample("trades")
prices = trades[trades["symbol"] == "AAC"].reset_index(drop=True)
query = '''. above* top above* deep
above: price >= first(price)
top: price >= first(price) + 2
deep: price < first(price)'''
measures = {"rows": "count()", "last_index": "last(place)"}
prices["place"] = range(len(prices))
explorer = prices.cep.explore(query, order_by=["ts", "seq"], measures=measures)
explorer.wait()
"""
# Sums over six trades: no condition on two of them makes the search short.
SLOW = (
    "PATTERN SEQ(_ a, _ b, _ c, _ d, _ e, _ f) WHERE a.price + b.size + e.size == c.price + d.size + f.size"
)

# Moves the first slider of the first explorer of a page, or of another one: [value, its number].
MOVE = """async given => {
    const [value, nth = 0] = [given].flat();
    const input = document.querySelectorAll('.cepkit-slider_panel')[nth].querySelector('input[type=range]');
    const total = document.querySelectorAll('.cepkit-match_table')[nth].querySelector('.total');
    const before = total.textContent;
    return await new Promise(tell => {
        const watch = new MutationObserver(() => {
            if (total.textContent === before) return;
            watch.disconnect();
            requestAnimationFrame(() => tell(total.textContent));
        });
        watch.observe(total, { childList: true, characterData: true, subtree: true });
        input.value = value;
        input.dispatchEvent(new Event('input', { bubbles: true }));
    });
}"""


@pytest.fixture(scope="module")
def explorer(browser, server):
    """The page of a notebook with one explorer."""
    (server.root / "scenario.ipynb").write_text(json.dumps(lab.notebook_of([CALL])), encoding="utf-8")
    browser.forget()
    browser.open(server, "scenario.ipynb")
    assert failures(browser.run_all()) == []
    wait_for_state(browser.page, "done")
    return browser.page


def n_matches(page):
    return page.locator(".cepkit-match_table tbody tr").count()


def wait_for_state(page, state):
    page.wait_for_selector(f".cepkit-query_editor .state .mark.{state}", timeout=60_000)


def wait_for_position(page, position):
    handle = "document.querySelector('.cepkit-stepper:not(.going) input[type=range]')"
    shown = f"() => {handle}?.value === '{position}'"
    page.wait_for_function(shown)


def test_explorer_draws_all_its_parts(explorer, browser):
    for stem in ("query_editor", "timeline_view", "match_table", "slider_panel"):
        assert explorer.locator(f".cepkit-{stem}").first.is_visible(), stem
    for opened, stem in (("Automaton", "nfa_view"), ("Funnel", "funnel_view")):
        explorer.locator(".cepkit-data_bar .door").filter(has_text=opened).first.click()
        explorer.locator(f".cepkit-{stem}").first.wait_for()
    for theme in ("light", "dark"):
        browser.theme(theme)
        browser.shoot(f"explorer-{theme}")


def test_explorer_shows_a_mistake_and_takes_its_correction(explorer, browser):
    area = explorer.locator(".cepkit-query_editor textarea")
    before = browser.ask("explorer.matches.count()")
    area.click()
    explorer.keyboard.press("Control+End")
    explorer.keyboard.type(" and pirce > 0")
    wait_for_state(explorer, "failed")
    message = explorer.locator(".cepkit-query_editor .message").inner_text()
    assert "pirce" in message and "price" in message and "^" in message
    assert explorer.locator(".cepkit-query_editor .wrong").count() > 0
    browser.shoot("explorer-mistake")
    for _ in range(len("pirce > 0")):
        explorer.keyboard.press("Backspace")
    explorer.keyboard.type("size > 0")
    wait_for_state(explorer, "done")
    assert explorer.locator(".cepkit-query_editor .wrong").count() == 0
    browser.wait_until("explorer.text.splitlines()[-1]", "deep: price < first(price) and size > 0")
    assert browser.ask("explorer.matches.count()") == before


def test_explorer_follows_a_slider(explorer, browser):
    """Every position of the slider is a run."""
    tops = [4, 2, 6, 2, 8, 2, 10, 2]
    explorer.evaluate(MOVE, 12)
    moved = [explorer.evaluate(MOVE, top) for top in tops]
    define = "{**dict(explorer.query.define), 'top': f'price >= first(price) + {top}'}"
    match = f"prices.cep.match('. above* top above* deep', define={define}, order_by=['ts', 'seq'])"
    found = browser.ask(f"[{match}.count() for top in {tops}]")
    assert [int(re.sub(r"\D", "", total)) for total in moved] == found and len(set(found)) > 3
    browser.wait_until("explorer.sliders[0].value", 2)


def test_explorer_takes_back_text_and_sliders_in_their_order(explorer, browser):
    """Ctrl+Z in the text, in a slider and on a button; a burst of typing is one step."""
    area = explorer.locator(".cepkit-query_editor textarea")
    track, field = (explorer.locator(f".cepkit-slider_panel {part}").first for part in (".track", ".field"))
    texts = [browser.ask("explorer.text")]

    def wait_for_text(text):
        browser.wait_until("explorer.text", text)
        explorer.wait_for_function(
            "text => document.querySelector('.cepkit-query_editor textarea').value === text", arg=text
        )

    def keep(text):
        wait_for_text(text)
        texts.append(text)

    area.click()
    explorer.keyboard.press("Control+End")
    explorer.keyboard.type(" and size > 1", delay=20)
    keep(texts[-1] + " and size > 1")
    field.fill("7")
    field.press("Enter")
    keep(texts[-1].replace("+ 2", "+ 7"))
    track.focus()
    explorer.keyboard.press("ArrowRight")
    keep(texts[-1].replace("+ 7", "+ 8"))
    explorer.keyboard.press("Control+z")
    wait_for_text(texts[2])
    area.focus()
    explorer.keyboard.press("Control+z")
    wait_for_text(texts[1])
    explorer.locator(".cepkit-data_bar").get_by_role("button", name="Undo").click()
    wait_for_text(texts[0])
    explorer.keyboard.press("Control+Shift+z")
    wait_for_text(texts[1])
    explorer.locator(".cepkit-data_bar").get_by_role("button", name="Past queries").click()
    browser.shoot("explorer-history")
    counts = explorer.locator(".cepkit-data_bar .runs .told b").all_inner_texts()
    listed = browser.ask("explorer.wait(60).history['matches'].tolist()")
    assert [int(text.split()[0].replace(",", "")) for text in counts] == listed
    explorer.keyboard.press("Escape")
    area.focus()
    explorer.keyboard.press("Control+z")
    wait_for_text(texts[0])
    browser.wait_until("explorer.wait(60).status['state']", "done")


def test_explorer_selects_a_match_everywhere(explorer, browser):
    explorer.locator(".cepkit-match_table tbody tr").nth(1).click()
    explorer.wait_for_selector(".cepkit-match_table tbody tr[aria-selected=true]")
    browser.wait_until("[explorer.wait().selected, explorer.board.timeline.selected]", [1, 1])
    assert browser.ask("len(explorer.board.timeline.points)") == browser.ask(
        "int(explorer.matches[1].rows.shape[0])"
    )
    assert browser.ask("len(explorer.board.nfa.lit)") > 0
    browser.shoot("explorer-selected")


def test_explorer_steps(explorer, browser):
    explorer.locator(".cepkit-data_bar .door").filter(has_text="Steps").first.click()
    stepper = explorer.locator(".cepkit-stepper")
    at = browser.ask("explorer.wait().board.stepper.position")
    stepper.get_by_role("button", name="One event forward").click()
    wait_for_position(explorer, f"{at + 1:,}")
    browser.wait_until("explorer.wait().board.stepper.position", at + 1)
    stepper.get_by_role("button", name="completes a match").click()
    ends = browser.ask("[int(number) for number in explorer.matches.to_frame()['last_index']]")
    end = min(row for row in ends if row > at)
    wait_for_position(explorer, f"{end + 1:,}")
    browser.wait_until("explorer.wait().board.stepper.position", end + 1)


def test_explorer_cancels(explorer, browser):
    text = browser.ask("explorer.text")
    area = explorer.locator(".cepkit-query_editor textarea")
    area.fill(SLOW)
    wait_for_state(explorer, "running")
    explorer.locator(".cepkit-query_editor button.cancel").click()
    wait_for_state(explorer, "cancelled")
    assert n_matches(explorer) > 0, "what was found before stays"
    area.fill(text)
    wait_for_state(explorer, "done")
    browser.wait_until("explorer.wait().text", text)


def test_explorer_left_the_console_and_the_network_alone(explorer, browser):
    assert browser.errors == []
    assert browser.outside == []


def test_the_explorers_tutorial_runs_in_notebook_7(browser, server):
    chromium.needed("notebook")
    browser.forget()
    browser.open(server, "02_explorer.ipynb", within="notebooks")
    of_notebook = list(browser.errors)  # 7.5 says one while it opens any notebook
    assert failures(browser.run_all()) == []
    wait_for_state(browser.page, "done")
    for stem in ("query_editor", "timeline_view", "match_table"):
        assert browser.page.locator(f".cepkit-{stem}").first.is_visible(), stem
    panels = browser.page.locator(".cepkit-slider_panel")  # the first query has no constant
    assert not panels.first.is_visible() and panels.nth(1).is_visible()
    before = browser.ask("wider.matches.count()")
    total = browser.page.evaluate(MOVE, [6, 1])
    assert int(re.sub(r"\D", "", total)) == browser.ask("wider.wait().matches.count()") != before
    browser.shoot("explorer-notebook-7")
    assert browser.errors == of_notebook
    assert browser.outside == []


# --- how soon the explorer of a million rows answers

MILLION = """
import numpy as np
import pandas as pd
import cepkit as cep
from cepkit.explorer.running.texts import cells
from cepkit.frames.pandas import as_pandas

rng = np.random.default_rng(0)
n = 1_000_000
columns = {"t": np.arange(n), "kind": rng.choice(list("ABCDEFGH"), n), "x": rng.random(n).round(3)}
events = pd.DataFrame(columns)
explorer = events.cep.explore("low high\\nlow: x < 0.25\\nhigh: x > 0.75", order_by="t", event_type="kind")
explorer.wait()

def expected():
    matches = events.cep.match(explorer.wait(120, "matches").query)
    shown = cells(as_pandas(matches.head(15)))
    rows = [[f"{i:,}", *map(str.strip, row)] for i, row in enumerate(shown)]
    return [rows, matches.count(), explorer.sliders[0].value, explorer.matches.count()]
"""
# By the engine that takes it.
QUERIES = {
    "regex": "low+ high\nlow: x < {}\nhigh: x > prev(x) + 0.35",
    "chain": "PATTERN SEQ(A a, B b, C c) WHERE b.x > a.x + {} AND c.x > b.x WITHIN 60",
    "ordered": "PATTERN SEQ(A a, B b, C c) WHERE c.x > a.x + b.x + {} WITHIN 80",
    "search": "PATTERN SEQ(A a, B+ b[], C c) WHERE b[i].x > a.x + {} AND c.x > min(b.x) WITHIN 20",
}
SHOWN = """() => ({
    rows: [...document.querySelectorAll('.cepkit-match_table tbody tr')]
        .map(row => [...row.children].map(cell => cell.textContent.trim())),
    total: document.querySelector('.cepkit-match_table .total').textContent,
    value: document.querySelector('.cepkit-slider_panel input[type=range]')?.valueAsNumber,
})"""
IS_COUNTED = r"() => /^[\d,]+$/.test(document.querySelector('.cepkit-match_table .total').textContent)"


@pytest.mark.slow
def test_explorer_of_a_million_rows_answers(browser, server):
    """Real keys and a real mouse; how soon pictures come is in ``tests/benchmarks/run.py reactions``."""
    notebook = lab.notebook_of([MILLION, "explorer"])
    (server.root / "million.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
    browser.forget()
    browser.open(server, "million.ipynb")
    assert failures(browser.run_all()) == []
    page = browser.page
    wait_for_state(page, "done")
    area = page.locator(".cepkit-query_editor textarea")
    slider = page.locator(".cepkit-slider_panel input[type=range]").first

    def check():
        """Compare what is shown with a match of its own."""
        page.wait_for_timeout(50)  # what was moved last is on its way
        for _ in range(1000):
            if browser.ask("explorer.text") == area.input_value():
                break
            page.wait_for_timeout(20)  # what was typed last is not sent yet
        rows, count, value, own_count = browser.ask("expected()")
        wait_for_state(page, "done")
        page.wait_for_function(IS_COUNTED, timeout=120_000)
        seen = page.evaluate(SHOWN)
        assert (seen["rows"], seen["total"], seen["value"]) == (rows, f"{count:,}", value)
        assert own_count == count > 0

    for name, text in QUERIES.items():
        text = text.format("0.25")
        area.fill(text[:-2])
        area.press("Control+End")
        page.keyboard.type(text[-2:], delay=20)
        check()
        engine = browser.ask("getattr(explorer.matches, 'engine', None) and explorer.matches.engine.name")
        assert engine in (name, None)
        for key in ["ArrowRight"] * 5 + ["ArrowLeft"] * 2:
            slider.press(key)
        check()
        # Dragged by the mouse: the hand does not wait for pictures.
        box = slider.bounding_box()
        middle = box["y"] + box["height"] / 2
        page.mouse.move(box["x"] + box["width"] * 0.3, middle)
        page.mouse.down()
        for k in range(30):
            page.mouse.move(box["x"] + box["width"] * (0.3 + 0.3 * k / 30), middle)
            page.wait_for_timeout(33)
        page.mouse.up()
        check()
    browser.shoot("explorer-million")
    assert browser.errors == []
    assert browser.outside == []
