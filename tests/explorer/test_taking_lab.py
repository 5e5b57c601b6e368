"""Kept cases and files in a real JupyterLab: kept by click and key, copied, downloaded, at two widths."""

from __future__ import annotations

import pandas as pd
import pytest

from tests.support import lab

pytestmark = [pytest.mark.browser, pytest.mark.slow]

CELL = """import cepkit as cep
from cepkit.datasets import load_sample
trades = load_sample("trades")
explorer = trades.cep.explore(
    "calm drop{3,} back",
    define={"calm": "size < 1000", "drop": "price < prev(price)", "back": "price > prev(price)"},
    partition_by="symbol", order_by=["ts", "seq"], within="2 min",
)
explorer"""
# Bottom of the timeline and of the rows of the table, from the top of the board.
HEIGHTS = """() => {
    const top = document.querySelector(".cepkit-board").getBoundingClientRect().top;
    return ["query_editor", "timeline_view", "match_table"].map(
        stem => document.querySelector(`.cepkit-${stem}`).getBoundingClientRect().bottom - top);
}"""
CUT = """() => [".cepkit-take_bar", ".cepkit-case_view"].flatMap(name => {
    const root = document.querySelector(name), right = root.getBoundingClientRect().right;
    const seen = part => part.getClientRects().length;
    const parts = [...root.querySelectorAll("button, select, h4")].filter(seen);
    return parts.filter(part => part.getBoundingClientRect().right > right + 1).map(part => part.textContent);
})"""
OVERLAP = """() => {
    const left = document.querySelector(".cepkit-take_bar .list").getBoundingClientRect();
    const line = document.querySelector(".cepkit-data_bar .line");
    const rights = [...line.children].map(part => part.getBoundingClientRect().right);
    const { top, bottom } = line.getBoundingClientRect();
    return left.top < bottom && top < left.bottom && Math.max(...rights) > left.left;
}"""


@pytest.fixture(scope="module")
def opened(browser, tmp_path_factory):
    with lab.server_of(tmp_path_factory.mktemp("taking"), {"a.ipynb": [CELL]}) as server:
        browser.page.set_viewport_size({"width": 1400, "height": 900})
        browser.open(server, "a.ipynb")
        browser.run_all()
        browser.page.wait_for_selector(".cepkit-match_table tbody tr", timeout=120_000)
        browser.wait_until("explorer.wait(60).status['state']", "done", timeout_s=90)
        yield browser


def look(browser, name):
    browser.page.locator(".cepkit-board").first.evaluate("board => board.scrollIntoView()")
    lab.take_shot(browser.page, f"taking-{name}")


def test_cases_and_files_in_jupyterlab(opened, tmp_path):
    browser, page = opened, opened.page
    bar, cases = page.locator(".cepkit-take_bar").first, page.locator(".cepkit-case_view").first
    assert page.evaluate(HEIGHTS)[2] <= 840  # the editor is as high as its query
    look(browser, "empty")

    # A match is kept by a click, another one by a key while the table has the focus.
    page.locator(".cepkit-data_bar .door", has_text="Cases").click()
    page.locator(".cepkit-match_table tbody tr").nth(2).click()
    browser.wait_until("explorer.wait(60).selected", 2)
    cases.get_by_role("button", name="must match").first.click()
    browser.wait_until("len(explorer.cases)", 1)
    page.locator(".cepkit-match_table .frame").focus()
    page.keyboard.press("ArrowUp")
    browser.wait_until("explorer.wait(60).selected", 1)
    page.keyboard.press("Shift+K")
    browser.wait_until("list(explorer.wait(60).verdicts)", [True, False])
    page.wait_for_selector(".cepkit-case_view li.lost")
    assert cases.locator(".tally").inner_text() == "1 of 2 hold"

    # A time range of the shown key.
    browser.ask("explorer.show_key('AAB')")
    browser.ask(
        "explorer.wait(60).zoom([explorer.board.timeline.view[0], explorer.board.timeline.view[0] + 9e5])"
    )
    browser.wait_until("explorer.wait(60).board.cases.offers[-1]['id']", "range")
    cases.locator("select").select_option("range")
    cases.get_by_role("button", name="must match").first.click()
    browser.wait_until("list(explorer.wait(60).verdicts)", [True, False, True])

    # An edit of the query changes the ticks.
    browser.ask("setattr(explorer, 'text', explorer.text.replace('2 min', '1 s'))")
    browser.wait_until("list(explorer.wait(60).verdicts)", [False, True, False])
    browser.ask("setattr(explorer, 'text', explorer.text.replace('1 s', '2 min'))")
    browser.wait_until("list(explorer.wait(60).verdicts)", [True, False, True])
    page.wait_for_function("() => document.querySelectorAll('.cepkit-case_view li.held').length === 2")
    heights = page.evaluate(HEIGHTS)
    assert heights[2] <= 840
    look(browser, "kept")

    # A click zooms, one copies a test, one removes.
    cases.locator(".show").first.click()
    browser.wait_until("explorer.wait(60).board.bar.key['text']", "symbol = AAA")
    cases.locator(".test").first.click()
    page.wait_for_function("() => document.querySelector('.cepkit-case_view .test').textContent === 'copied'")
    page.locator(".cepkit-query_editor textarea").first.click()
    page.keyboard.press("Control+a")
    page.keyboard.press("Control+v")
    pasted = page.locator(".cepkit-query_editor textarea").first.input_value()
    assert pasted.startswith('"""Cases that a query has to keep') and pasted.count("assert ") == 1
    page.keyboard.press("Control+z")
    browser.wait_until("explorer.wait(60).status['state']", "done")
    for _ in range(3):
        cases.locator(".drop").first.click()
        page.wait_for_timeout(300)
    browser.wait_until("len(explorer.cases)", 0)

    # Files.
    page.locator(".cepkit-data_bar .door", has_text="Take away").click()
    for name in ("csv", "parquet", "png", "svg", "html"):
        with page.expect_download(timeout=60_000) as download:
            bar.locator(f"[data-id={name}]").click()
        download.value.save_as(tmp_path / f"a.{name}")
        assert download.value.suggested_filename == f"matches.{name}"
    wanted = browser.ask("explorer.matches.to_frame().to_csv(index=False)")
    assert (tmp_path / "a.csv").read_text() == wanted
    assert pd.read_parquet(tmp_path / "a.parquet").to_csv(index=False) == wanted
    assert (tmp_path / "a.png").read_bytes()[:4] == b"\x89PNG"
    assert (tmp_path / "a.html").read_text().startswith("<!doctype html>")
    assert browser.ask("explorer.command").startswith("cepkit match sample:trades ")  # the cell says the file

    # Many rows are more than a message of a notebook has as a rule.
    many = "PATTERN SEQ(_ a, _ b) WITHIN 2 s"
    browser.ask(f"setattr(explorer, 'text', {many!r})")
    browser.wait_until("explorer.wait(60).status['state']", "done", timeout_s=60)
    n = browser.ask("explorer.matches.count()")
    assert n > 20_000
    page.wait_for_function(
        "n => document.querySelector('.cepkit-take_bar .total').textContent.startsWith(n)", arg=f"{n:,}"
    )
    with page.expect_download(timeout=120_000) as download:
        bar.locator("[data-id=csv]").click()
    download.value.save_as(tmp_path / "many.csv")
    assert len(pd.read_csv(tmp_path / "many.csv")) == n
    assert browser.errors == [] and browser.outside == []


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1700, 1400, 1330, 1180, 720])  # beside the list of files
def test_the_bars_fit(opened, width, theme):
    browser, page = opened, opened.page
    page.set_viewport_size({"width": width, "height": 900})
    browser.theme(theme)
    browser.ask(
        "[explorer.keep(must, rows=rows).must for must in (True, False) for rows in ([1], [2, 3], [4])]"
    )
    browser.wait_until("None in explorer.wait(60).verdicts", False)
    page.wait_for_timeout(400)
    look(browser, f"{width}-{theme}")
    assert page.evaluate(CUT) == [] and not page.evaluate(OVERLAP)
    browser.ask("setattr(explorer, 'cases', ())")
