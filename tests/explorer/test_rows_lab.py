"""A text of MATCH_RECOGNIZE pasted into the board in a real JupyterLab: every part of the board answers."""

from __future__ import annotations

import pytest

from tests.support import lab

pytestmark = [pytest.mark.browser, pytest.mark.slow]

FRAME = """import cepkit as cep
from cepkit.datasets import load_sample

peaks = load_sample("peaks")"""
CALL = "explorer = peaks.cep.explore()\nexplorer"
TEXT = """SELECT symbol, low, n FROM peaks MATCH_RECOGNIZE (
  PARTITION BY symbol ORDER BY ts
  MEASURES LAST(down.price) AS low, COUNT(down.*) AS n
  PATTERN (strt down{2,} up)
  DEFINE down AS price < PREV(price), up AS price > PREV(price) + 1
) AS m WHERE n > 2"""


@pytest.fixture(scope="module")
def server(browser, tmp_path_factory):
    with lab.server_of(tmp_path_factory.mktemp("rows"), {"own.ipynb": [FRAME, CALL]}) as started:
        yield started


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_pasted_text_is_recognised_run_and_explained(browser, server, theme):
    page, ask, wait = browser.page, browser.ask, browser.wait_until
    page.set_viewport_size({"width": 1400, "height": 900})
    browser.forget()
    browser.open(server, "own.ipynb")
    browser.theme(theme)
    browser.run_all()

    def part(stem):
        return page.locator(f".cepkit-{stem}").first

    def look(name):
        part("board").evaluate("part => part.scrollIntoView()")
        page.wait_for_timeout(300)
        lab.take_shot(page, f"rows-{theme}-{name}")

    # Paste the text: the editor knows the language, and colours its words.
    area = part("query_editor").locator("textarea")
    assert "MATCH_RECOGNIZE" in area.get_attribute("placeholder")
    area.click()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(TEXT)
    wait("explorer.text", TEXT)
    wait("explorer.wait(60).status['state']", "done", timeout_s=90)
    coloured = part("query_editor").locator("pre.under span.keyword").all_inner_texts()
    assert {"SELECT", "MATCH_RECOGNIZE", "MEASURES", "DEFINE", "PREV"} <= set(coloured)
    assert ask("explorer.board.bar.language") == "SQL"
    sentence = part("query_editor").locator(".sentence").inner_text()
    assert sentence.startswith("In words: any row STRT, then at least 2 rows DOWN, then a row UP")
    look("pasted")

    # The table, the funnel and the automaton have the matches.
    rows = part("match_table").locator("tbody tr")
    assert rows.count() == ask("explorer.board.table.total and int(explorer.board.table.total)")
    part("data_bar").locator(".door").filter(has_text="Funnel").click()
    funnel = part("funnel_view").inner_text()
    assert "DOWN{2,}" in funnel and "matches" in funnel
    rows.first.click()
    wait("explorer.wait(60).selected", 0)
    page.wait_for_timeout(300)
    look("selected")

    # A slider changes the text.
    slider = part("slider_panel").locator("input[type=range]").first
    slider.focus()
    page.keyboard.press("ArrowRight")
    wait("explorer.text != " + repr(TEXT), True)
    wait("explorer.wait(60).status['state']", "done", timeout_s=60)

    # Clicked rows are explained.
    canvas = part("timeline_view").locator("canvas").bounding_box()
    page.mouse.click(canvas["x"] + canvas["width"] / 2, canvas["y"] + 100)
    wait("explorer.board.reasons.title != ''", True)
    page.wait_for_timeout(200)
    reasons = part("reason_view").inner_text()
    assert "DOWN" in reasons and "UP" in reasons
    look("explained")

    # The cheat sheet opens at SQL, and an entry becomes a line.
    part("query_editor").get_by_role("tab", name="Cheat sheet").click()
    entry = part("query_editor").locator(".entry", has_text="SUBSET U = (A, B)").first
    assert entry.is_visible()
    look("sheet")
