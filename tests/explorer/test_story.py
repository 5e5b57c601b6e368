"""A newcomer's way through the explorer in a real JupyterLab, by mouse and keyboard, in themes and sizes.

An empty notebook; minute bars of a share; the three largest M shapes; a peak that is in none of them, and
why; the pattern that has it; the result as a frame.
"""

from __future__ import annotations

import pytest

from tests.support import lab

pytestmark = [pytest.mark.browser, pytest.mark.slow]

LOAD = """import cepkit as cep
from cepkit.datasets import BarParameters, minute_bars

bars = minute_bars(BarParameters(n_symbols=40), seed=7)
bars = bars[bars["symbol"] == "AAF"]
bars.head(3)"""
OPEN = """explorer = bars.cep.explore(
    order_by="ts",
    measures={"start": "first(ts)", "minutes": "count()", "height": "max(close) - first(close)"},
)
explorer"""
TICKS = """. rise+ drop+ rise+ drop* deep
rise: close > first(close) and close >= prev(close)
drop: close >= first(close) and close < prev(close)
deep: close < first(close) and close < prev(close)"""
SHAPE = """. above* top above* valley above* top above* deep
above: close >= first(close)
top: close >= first(close) + 0.2
valley: close >= first(close) and close <= max(close) - 0.03
deep: close < first(close)"""
PEAK = 45  # place of the highest bar before 11:00

LARGEST = "[f'{height:.6g}' for height in explorer.matches.to_frame()['height'].nlargest(3)]"
MATCHED = "explorer.matches.to_frame('all').index.tolist()"
CUT = """() => [...document.querySelectorAll('[class^=cepkit-]')].flatMap(root => {
    const right = root.getBoundingClientRect().right;
    const kept = [...root.querySelectorAll('h4, button, select, .item, .total, .where')];
    const isOut = part => part.getBoundingClientRect().right > right + 1;
    const seen = kept.filter(part => part.getClientRects().length && !part.closest('table, .columns'));
    return [...seen.filter(isOut), ...(root.scrollWidth > root.clientWidth ? [root] : [])]
        .map(part => `${root.className}: ${part.className || part.textContent}`);
})"""


@pytest.fixture(scope="module")
def server(browser, tmp_path_factory):
    with lab.server_of(tmp_path_factory.mktemp("story")) as started:
        yield started


class Person:
    """Who sits before the page, and keeps a picture of every step."""

    def __init__(self, browser, name):
        self.browser, self.page, self.name, self.n_shots = browser, browser.page, name, 0

    def part(self, stem):
        return self.page.locator(f".cepkit-{stem}").first

    def look(self, stem, step):
        """Scroll a part to the top of the window and keep a picture."""
        self.part(stem).evaluate("part => part.scrollIntoView()")
        self.n_shots += 1
        lab.take_shot(self.page, f"story-{self.name}-{self.n_shots:02d}-{step}")
        assert self.page.evaluate(CUT) == [], step

    def open(self, name):
        """Open a part of the board."""
        self.part("data_bar").locator(".door").filter(has_text=name).click()

    def run(self, code):
        """Write into the last cell and run it."""
        self.page.locator(".jp-NotebookPanel .jp-CodeCell .cm-content").last.click()
        self.page.keyboard.press("Control+End")
        self.page.keyboard.insert_text(code)
        self.page.keyboard.press("Shift+Enter")
        self.page.wait_for_timeout(200)
        self.page.wait_for_function(lab.KERNEL_IS_IDLE, timeout=120_000)

    def write(self, text):
        """Type a query in the place of the one that is there."""
        self.part("query_editor").locator("textarea").click()
        self.page.keyboard.press("Control+a")
        self.page.keyboard.type(text)
        self.browser.wait_until("explorer.text", text)
        self.browser.wait_until("explorer.wait(60).status['state']", "done", timeout_s=90)

    def rows(self):
        """Return the cells of the table."""
        rows = self.part("match_table").locator("tbody tr")
        return [row.locator("td").all_inner_texts() for row in rows.all()]

    def wait_for_title(self, beginning):
        """Wait until the reasons are of something."""
        title = "document.querySelector('.cepkit-reason_view .title')"
        told = f"beginning => {title}.textContent.startsWith(beginning)"
        self.page.wait_for_function(told, arg=beginning, timeout=30_000)

    def not_met(self):
        return self.part("reason_view").locator("li.not-met .text").all_inner_texts()

    def point_at(self, position):
        """Move the pointer along the timeline until it says the time of a bar; return where that is."""
        low, high = self.browser.ask("explorer.board.timeline.view")
        time = self.browser.ask(
            f"explorer.board.timeline.view and bars['ts'].iloc[{position}].timestamp() * 1e3"
        )
        said = self.browser.ask(f"str(bars['ts'].iloc[{position}])")
        canvas = self.part("timeline_view").locator("canvas").bounding_box()
        x = canvas["x"] + 58 + (time - low) / (high - low) * (canvas["width"] - 72)
        for up in range(30, 240, 6):
            for aside in range(-3, 4):
                self.page.mouse.move(x + aside, canvas["y"] + up)
                if said in self.part("timeline_view").locator(".readout").inner_text():
                    return x + aside, canvas["y"] + up
        raise AssertionError(f"{said} is not found on the timeline")


@pytest.mark.parametrize("size", [(1280, 800), (1920, 1080)], ids=["1280", "1920"])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_newcomer_finds_the_m_that_was_missed(browser, server, theme, size):
    page = browser.page
    page.set_viewport_size({"width": size[0], "height": size[1]})
    page.goto(server.url("lab"))
    page.wait_for_selector(".jp-LauncherCard", timeout=120_000)
    browser.theme(theme)
    browser.forget()
    page.locator('.jp-LauncherCard[data-category="Notebook"]').first.click()
    page.wait_for_selector(".jp-NotebookPanel .jp-CodeCell", timeout=120_000)
    page.wait_for_function(lab.KERNEL_IS_IDLE, timeout=120_000)
    person = Person(browser, f"{theme}-{size[0]}")

    # The bars, and the explorer without a query: it shows the bars.
    person.run(LOAD)
    person.run(OPEN)
    timeline = person.part("timeline_view")
    n_bars = browser.ask("len(bars)")
    page.wait_for_selector(f".cepkit-timeline_view canvas[aria-label^='{n_bars} events, 0 matches']")
    assert "prev(open)" in person.part("query_editor").locator("textarea").get_attribute("placeholder")
    person.look("query_editor", "opened")

    # A first pattern, and its three largest matches.
    person.write(TICKS)
    found = browser.ask("explorer.matches.count()")
    assert person.part("match_table").locator(".total").inner_text() == str(found) and found > 3
    person.look("query_editor", "written")
    for _ in range(2):
        person.part("match_table").get_by_role("button", name="height").click()
    browser.wait_until("explorer.wait(60).board.table.order", "height down")
    page.wait_for_selector(".cepkit-match_table th[aria-sort=descending]")
    assert [row[-1] for row in person.rows()[:3]] == browser.ask(LARGEST)

    # Only the high ones, and then those of one bar of the histogram.
    table = person.part("match_table")
    table.get_by_label("Filter height").fill("> 0.04")
    n_high = browser.ask("int((explorer.matches.to_frame()['height'] > 0.04).sum())")
    page.wait_for_function(
        "n => document.querySelector('.cepkit-match_table .total').textContent.startsWith(n)",
        arg=f"{n_high} of {found} matches",
    )
    assert 0 < n_high < found and len(person.rows()) == n_high
    person.look("match_table", "filtered")
    table.get_by_role("button", name="Remove all filters").click()
    browser.wait_until("explorer.wait(60).filters", {})
    table.get_by_role("group", name="minutes:").get_by_role("button").first.click()
    browser.wait_until("list(explorer.wait(60).filters)", ["minutes"])
    table.get_by_role("button", name="Remove all filters").click()
    browser.wait_until("explorer.wait(60).board.table.filtered", "")
    page.wait_for_function("() => !document.querySelector('.cepkit-match_table .filter.on')")
    person.part("match_table").locator("tbody tr").first.click()
    page.wait_for_selector(".cepkit-match_table tbody tr[aria-selected=true]")
    number = person.rows()[0][0]
    browser.wait_until("str(explorer.wait(60).selected)", number)
    person.look("timeline_view", "largest")
    timeline.get_by_role("button", name="Match").click()
    window, start = "explorer.board.timeline.window", f"explorer.matches[{number}].rows['ts'].iloc[0]"
    browser.wait_until(f"0 < {window}[1] - {window}[0] < 36e5 if {window} else False", True)
    assert browser.ask(f"{window}[0] < {start}.timestamp() * 1e3 < {window}[1]")
    person.look("timeline_view", "closer")
    timeline.get_by_role("button", name="Whole").click()
    browser.wait_until(f"{window} == explorer.board.timeline.view", True)
    browser.wait_until("explorer.wait(60).status['state']", "done")

    # A peak that is in none of them. Why not?
    peak = browser.ask(f"int(bars.index[{PEAK}])")
    assert browser.ask(f"bars['close'].iloc[:100].argmax() == {PEAK} and {peak} not in {MATCHED}")
    page.mouse.click(*person.point_at(PEAK))
    person.wait_for_title(f"in no match: row {peak} (2008-02-01 10:12:00)")
    values = browser.ask("[f'{close:.6g}' for close in bars['close'].iloc[[49, 48]]]")
    missed = f"close < prev(close) (close = {values[0]}, prev(close) = {values[1]})"
    assert f"drop fails there: {missed}" in person.not_met() and values[0] == values[1]
    person.look("timeline_view", "why-not")

    # Which bars are the rises? A state of the automaton says.
    person.open("Automaton")
    state = person.part("nfa_view").locator(".state").nth(2)
    state.click()
    page.wait_for_selector(".cepkit-query_editor .under .marked")
    assert set(person.part("query_editor").locator(".marked").all_inner_texts()) == {"rise"}
    assert timeline.locator(".marked").inner_text() == "rise"
    spelled = (
        "[''.join(own['variable'].str[0]) for _, own in explorer.matches.to_frame('all').groupby('match')]"
    )
    first_rises = f"sum(len(text) - 1 - len(text[1:].lstrip('r')) for text in {spelled})"
    n_rises = browser.ask(first_rises)
    assert (
        person.part("nfa_view")
        .locator(".says")
        .inner_text()
        .startswith(f"{n_rises} events of {found} matches")
    )
    person.look("query_editor", "state")
    state.click()
    page.wait_for_selector(".cepkit-query_editor .under .marked", state="detached")

    # A pattern of shapes instead of ticks. What was asked is answered anew, also while a slider moves.
    person.write(SHAPE)
    person.wait_for_title("in no match")
    assert any(text.startswith("top fails") and "first(close) + 0.2" in text for text in person.not_met())
    person.look("query_editor", "shape")
    slider = person.part("slider_panel").locator("input[type=range]").first
    low, high = (float(slider.get_attribute(name)) for name in ("min", "max"))
    box = slider.bounding_box()
    page.mouse.click(
        box["x"] + 8 + (0.05 - low) / (high - low) * (box["width"] - 16), box["y"] + box["height"] / 2
    )
    person.wait_for_title("in match")
    person.look("slider_panel", "slid")
    browser.wait_until("explorer.wait(60).status['state']", "done")
    assert browser.ask("0.03 < explorer.sliders[0].value < 0.08")
    assert browser.ask(f"{peak} in {MATCHED}")
    assert person.part("match_table").locator("select.order").input_value() == "height down"
    assert [row[-1] for row in person.rows()[:3]] == browser.ask(LARGEST)
    holder = browser.ask(f"int(explorer.matches.to_frame('all')['match'].loc[{peak}])")
    assert str(holder) in [row[0] for row in person.rows()[:3]]
    person.look("timeline_view", "matched")

    # Another column beneath the same matches.
    drawn = person.part("data_bar").get_by_label("Drawn")
    drawn.select_option("volume")
    browser.wait_until("explorer.wait(60).board.timeline.y_label", "volume")
    person.look("timeline_view", "volume")
    drawn.select_option("close")
    browser.wait_until("explorer.wait(60).board.timeline.y_label", "close")

    # Home: as a frame, and as a cell that needs no explorer.
    person.run('home = explorer.matches.to_frame().nlargest(3, "height")\nhome')
    assert browser.ask(f"len(home) == 3 and {holder} in home.index")
    person.open("Take away")
    person.part("take_bar").locator("[data-id=cell]").click()
    person.look("take_bar", "code")
    page.locator(".jp-NotebookPanel .jp-CodeCell .cm-content").last.click()
    page.keyboard.press("Control+v")
    person.run("\nmatches")
    assert browser.ask(
        "matches.to_frame().equals(explorer.matches.to_frame()) and matches is not explorer.matches"
    )

    assert browser.errors == []
    assert browser.outside == []
