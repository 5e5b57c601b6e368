"""The first questions of a new user, answered within the board by mouse and keyboard, in a real JupyterLab.

The frame is the user's own: many keys, times with a zone. The call has no arguments.
"""

from __future__ import annotations

import io
import re

import pandas as pd
import pytest

from tests.support import lab

pytestmark = [pytest.mark.browser, pytest.mark.slow]

FRAME = """import cepkit as cep
import numpy as np
import pandas as pd

rng = np.random.default_rng(0)
n = 40_000
frame = pd.DataFrame({
    "ts": pd.date_range("2026-01-05 09:30", periods=n, freq="500ms", tz="America/New_York"),
    "symbol": [f"S{i:03d}" for i in rng.integers(0, 60, n)],
})
frame["price"] = (100 + rng.normal(0, 0.04, n).cumsum()).round(2)
frame["size"] = rng.integers(1, 50, n) * 100"""
EMPTY_CALL = "explorer = frame.cep.explore()\nexplorer"
ONE_SCREEN = 776  # px of a notebook in a window of 1400 by 900, without the bars of JupyterLab
BOTTOM = """() => document.querySelector(".cepkit-match_table").getBoundingClientRect().bottom
    - document.querySelector(".cepkit-board").getBoundingClientRect().top"""
ROWS_IN_VIEW = """() => {
    const bottom = document.querySelector(".cepkit-match_table .frame").getBoundingClientRect().bottom;
    const rows = [...document.querySelectorAll(".cepkit-match_table tbody tr")];
    return rows.filter(row => row.getBoundingClientRect().bottom <= bottom + 1).length;
}"""
# Titles, buttons and words of the head that are cut, or that reach out of their part.
CUT = """() => [...document.querySelectorAll("section[class^=cepkit-]")].flatMap(root => {
    const right = root.getBoundingClientRect().right;
    const seen = [...root.querySelectorAll("h4, button, select")]
        .filter(part => part.getClientRects().length && !part.closest("table, .columns, .popup"));
    const words = [...root.querySelectorAll(".line .text, .line .matches, .line .about, .readout")];
    return [
        ...seen.filter(part => part.getBoundingClientRect().right > right + 1),
        ...words.filter(part => part.getClientRects().length && part.scrollWidth > part.clientWidth + 1),
    ].map(part => `${root.className}: ${part.textContent}`);
})"""


@pytest.fixture(scope="module")
def server(browser, tmp_path_factory):
    notebooks = {"own.ipynb": [FRAME, EMPTY_CALL]}
    with lab.server_of(tmp_path_factory.mktemp("questions"), notebooks) as started:
        yield started


@pytest.mark.parametrize(
    "theme, width", [("light", 1400), ("dark", 1400), ("light", 600)], ids=["light", "dark", "narrow"]
)
def test_the_first_questions_are_answered_in_the_board(browser, server, theme, width):
    page, ask, wait = browser.page, browser.ask, browser.wait_until
    page.set_viewport_size({"width": width, "height": 900})
    browser.forget()
    browser.open(server, "own.ipynb")
    browser.theme(theme)
    if width < 1400 and page.locator(".jp-FileBrowser").first.is_visible():
        page.evaluate("() => window.jupyterapp.commands.execute('application:toggle-left-area')")
    browser.run_all()
    shots = iter(range(1, 99))

    def part(stem):
        return page.locator(f".cepkit-{stem}").first

    def look(name, stem="board"):
        part(stem).evaluate("part => part.scrollIntoView()")
        page.wait_for_timeout(250)
        lab.ARTEFACTS.mkdir(exist_ok=True)
        page.screenshot(path=lab.ARTEFACTS / f"questions-{theme}-{width}-{next(shots):02d}-{name}.png")
        assert page.evaluate(CUT) == [], name
        if width == 1400 and name in ("opened", "why", "zoomed"):
            assert page.evaluate(BOTTOM) <= ONE_SCREEN, name

    def is_done():
        wait("explorer.wait(60).status['state']", "done", timeout_s=90)

    def click_with(stem, text):
        part(stem).locator("button").filter(has_text=text).first.click()

    def wait_for_text(path, text):
        says = "([path, text]) => document.querySelector(path)?.textContent.includes(text)"
        page.wait_for_function(says, arg=[path, text])

    def text_of_editor():
        return part("query_editor").locator("textarea").input_value()

    def open_part(name):
        page.locator(".cepkit-data_bar .door").filter(has_text=name).click()

    # What is this? An example that has run. Ten of its matches are in view, and nothing is empty.
    page.locator(".cepkit-match_table tbody tr").first.wait_for(timeout=60_000)
    words = " ".join(part("data_bar").locator(".fields").inner_text().split())
    assert words.startswith("40,000 rows by symbol ▾ , in order of ts ▾")
    assert "rises 3 times" in ask("explorer.board.editor.examples[0]['title']")
    assert not re.search(r"not run|yet|appear|No ", part("board").inner_text())
    assert page.evaluate(ROWS_IN_VIEW) >= 10
    look("opened")

    # What else can I write here?
    click_with("query_editor", "Cheat sheet")
    assert "any row" in part("query_editor").inner_text()
    look("cheat-sheet")
    entries = part("query_editor").locator(".entries")
    assert entries.evaluate("one => one.scrollHeight > one.clientHeight && one.clientHeight >= 80")
    click_with("query_editor", "Examples")
    part("query_editor").locator(".choice, button").filter(has_text="gains").first.click()
    wait("'far' in explorer.text", True)
    is_done()
    page.wait_for_selector(".cepkit-match_table tbody tr")
    query = text_of_editor()

    # What does my query say?
    wait_for_text(".cepkit-query_editor .sentence", "far row, within")
    look("example")

    # Which key is this? Where is one without matches?
    assert re.match(
        r"symbol = S\d{3}, \d+ of 60 keys", part("data_bar").locator("[data-opens=key]").inner_text()
    )
    threshold = part("slider_panel").locator(".field").first
    threshold.click()
    page.keyboard.press("Control+a")
    page.keyboard.type("4")
    page.keyboard.press("Enter")
    wait("'+ 4' in explorer.text", True)
    is_done()
    n_matches = ask("explorer.matches.count()")
    counts = "frame.symbol.nunique() - explorer.matches.to_frame()['symbol'].nunique()"
    assert n_matches and ask(counts)
    page.locator(".cepkit-data_bar [data-opens=key]").click()
    page.locator(".cepkit-data_bar .keys select").select_option("fewest")
    page.locator(".cepkit-data_bar .key-row .n.none").first.wait_for()
    look("keys", "data_bar")
    page.locator(".cepkit-data_bar .key-row:has(.n.none)").first.click()
    wait_for_text(".cepkit-data_bar .line .matches", "0 matches")

    # Why is this row in no match?
    part("timeline_view").locator("canvas").evaluate("canvas => canvas.scrollIntoView({ block: 'center' })")
    box = part("timeline_view").locator("canvas").bounding_box()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + 60)
    wait_for_text(".cepkit-reason_view .title", "in no match: row")
    look("why", "timeline_view" if width < 1400 else "board")
    assert "-05:00" not in part("reason_view").inner_text()

    # Where are the matches? Choose one, and zoom to it. The reasons of the other key are gone.
    part("match_table").locator("tbody tr").first.click()
    wait("explorer.wait(60).selected", int(part("match_table").locator("tbody td").first.inner_text()))
    wait("explorer.board.reasons.title", "")
    part("timeline_view").locator("canvas").focus()
    page.keyboard.press("z")
    wait("len(explorer.board.timeline.window)", 2)
    look("zoomed", "timeline_view" if width < 1400 else "board")

    # Keep it as a case, and take its test.
    open_part("Cases")
    click_with("case_view", "must match")
    wait("list(explorer.wait(60).verdicts)", [True])
    part("case_view").locator(".test").first.click()
    page.wait_for_function("async () => (await navigator.clipboard.readText()).includes('def test_')")

    # How do I change the window, and go back?
    window = part("slider_panel").locator(".field").nth(1)
    window.click()
    page.keyboard.press("Control+a")
    page.keyboard.type("5")
    page.keyboard.press("Enter")
    wait("'within: 5 min' in explorer.text", True)
    is_done()
    part("data_bar").locator(".undo").click()
    wait("'within: 10 min' in explorer.text", True)
    is_done()
    part("data_bar").locator("[data-opens=runs], .steps .opens").first.click()
    page.locator(".cepkit-data_bar .runs .run").nth(1).wait_for()
    look("history", "data_bar")
    page.keyboard.press("Escape")

    # Which matches have more than some rows? The heads have a filter for each column.
    most = ask("int(explorer.matches.to_frame()['count'].max())")
    part("match_table").locator("th", has_text="count").locator(".filter input").fill(f">= {most}")
    wait_for_text(".cepkit-match_table .total", f" of {n_matches}")
    look("filtered", "match_table" if width < 1400 else "board")
    open_part("Take away")
    with page.expect_download() as coming:
        click_with("take_bar", "CSV")
    taken = pd.read_csv(io.BytesIO(coming.value.path().read_bytes()))
    assert 0 < len(taken) < n_matches and (taken["count"] >= most).all()
    assert coming.value.suggested_filename == f"{len(taken)}-of-{n_matches}-matches.csv"
    click_with("match_table", "Clear filters")
    wait("explorer.wait(60).board.table.filtered", "")

    # How do I take this home?
    with page.expect_download() as coming:
        click_with("take_bar", "CSV")
    taken = pd.read_csv(io.BytesIO(coming.value.path().read_bytes()))
    assert len(taken) == n_matches
    for name in ("PNG", "HTML"):
        with page.expect_download() as coming:
            click_with("take_bar", name)
        assert coming.value.path().stat().st_size > 1000
    click_with("take_bar", "Python")
    page.wait_for_function("async () => (await navigator.clipboard.readText()).includes('frame.cep.match(')")
    click_with("take_bar", "Shell")
    page.wait_for_function("async () => (await navigator.clipboard.readText()).startsWith('cepkit match')")

    # How do I go on tomorrow?
    ask("explorer.save('tomorrow.json')")
    ask("globals().update(again=cep.explore.load('tomorrow.json', frame).wait(60))")
    assert ask("[again.text == explorer.text, again.matches.count(), list(again.verdicts)]") == [
        True, n_matches, [True]
    ]  # fmt: skip
    assert ask("again.board.bar.found['order']") == "fewest"

    # A mistake.
    part("query_editor").locator("textarea").click()
    page.keyboard.press("Control+a")
    page.keyboard.type(query.replace("price >=", "pirce >="))
    wait_for_text(".cepkit-query_editor .message", "Did you mean 'price'?")
    wait_for_text(".cepkit-match_table .outdated", "Showing the last query that ran: ")
    look("mistake")
    assert browser.errors == []
