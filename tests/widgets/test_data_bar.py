"""The head of the explorer in a real browser: selectors, the search for keys, a kernel that is gone."""

from __future__ import annotations

import pytest

from tests.support.widget_cases import full
from tests.support.widget_page import mount, receive, sent

pytestmark = pytest.mark.browser


@pytest.fixture
def page(page):
    """A page with a head in a board."""
    mount(page, full("data_bar"))
    page.evaluate("document.body.classList.add('cepkit-data_bar-board')")
    yield page
    page.evaluate("document.body.classList.remove('cepkit-data_bar-board')")


def test_one_column_is_chosen(page):
    page.get_by_label("Event type").select_option("venue")
    page.get_by_label("Drawn").select_option("size")
    assert sent(page, "chosen") == [
        {"name": "event_type", "values": ["venue"], "n": 1},
        {"name": "value", "values": ["size"], "n": 2},
    ]
    assert page.get_by_label("Strategy", exact=True).count() == 0  # a regex has none
    assert page.locator(".needed").inner_text().startswith("types from")
    words = page.locator(".fields").inner_text().split("\n")
    assert words[:2] == ["1,000,000 rows", "by"] and "in order of" in words


def test_several_columns_are_ticked_in_order(page):
    page.get_by_role("button", name="Key columns").click()
    panel = page.get_by_role("dialog", name="Key columns")
    panel.get_by_label("lot no").check()
    assert sent(page, "chosen")[-1]["values"] == ["symbol", "lot no"]
    fields = page.evaluate("hosts.widget.model.get('fields')")
    fields[0]["chosen"] = ["symbol", "lot no"]
    receive(page, fields=fields)
    assert panel.is_visible() and panel.get_by_label("lot no").is_checked()
    panel.get_by_label("symbol").uncheck()
    assert sent(page, "chosen")[-1]["values"] == ["lot no"]
    page.keyboard.press("Escape")
    assert not panel.is_visible()
    assert page.evaluate("document.activeElement.dataset.opens") == "partition_by"


def test_a_measure_is_written(page):
    page.get_by_role("button", name="Strategy and measures").click()
    page.get_by_role("button", name="Measures: ").click()
    page.get_by_label("A measure of your own").fill("top = max(price)")
    page.keyboard.press("Enter")
    assert sent(page, "chosen") == [{"name": "measures", "values": ["count", "top = max(price)"], "n": 1}]
    page.mouse.click(5, 500)  # outside
    assert page.get_by_role("dialog").count() == 0


def test_a_key_is_searched_and_chosen_with_the_keyboard(page):
    page.get_by_role("button", name="Shown key").click()
    page.keyboard.type("ab", delay=5)
    page.wait_for_function("hosts.widget.saved.some((one) => one.wanted_keys?.search === 'ab')")
    assert sent(page, "wanted_keys")[0] == {"search": "", "order": "name", "page": 1, "n": 1}
    assert len([wish for wish in sent(page, "wanted_keys") if wish["search"]]) == 1  # after a pause
    page.get_by_label("Order of the keys").select_option("fewest")
    page.get_by_role("button", name="Next keys").click()
    assert [(wish["order"], wish["page"]) for wish in sent(page, "wanted_keys")][-2:] == [
        ("fewest", 1),
        ("fewest", 2),
    ]
    page.get_by_label("Search a key").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert sent(page, "wanted_key") == [{"id": 4, "n": 1}]
    assert page.get_by_role("dialog").count() == 0


def test_keys_come_one_after_the_other(page):
    page.get_by_role("button", name="Next key", exact=True).click()
    page.get_by_role("button", name="Previous key", exact=True).click()
    assert [wish["step"] for wish in sent(page, "wanted_key")] == [1, -1]
    receive(page, key={})
    assert not page.get_by_role("button", name="Next key", exact=True).is_visible()
    assert "1,000,000 rows" in page.locator(".cepkit-data_bar").inner_text()


def test_a_restarted_kernel_is_said(page):
    gone = page.get_by_role("alert")
    assert not gone.is_visible()
    height = page.locator(".cepkit-data_bar").bounding_box()["height"]
    page.evaluate("hosts.widget.el.classList.add('jupyter-widgets-disconnected')")
    gone.wait_for()
    assert "was restarted" in gone.inner_text() and "run the cell again" in gone.inner_text()
    assert page.locator(".cepkit-data_bar").bounding_box()["height"] == height
    page.mouse.click(300, 40)
    assert sent(page, "asked") == []  # nobody is there to answer


def test_an_action_asks_whether_the_kernel_is_there(page):
    page.locator(".cepkit-data_bar .rows").click()
    page.keyboard.press("Shift")
    page.wait_for_function("() => hosts.widget.saved.some(one => 'asked' in one)")  # after the action itself
    assert sent(page, "asked") == [1]  # one question at a time
    gone = page.get_by_role("alert")
    gone.wait_for(timeout=7000)
    assert "does not answer" in gone.inner_text()
    receive(page, answered=1)
    assert not gone.is_visible()


def test_a_part_of_the_board_is_opened_and_closed(page):
    doors = page.get_by_role("group", name="Parts to open")
    assert doors.get_by_role("button", pressed=True).count() == 0
    doors.get_by_role("button", name="Funnel").click()
    assert doors.get_by_role("button", pressed=True).inner_text() == "Funnel"
    doors.get_by_role("button", name="Steps").click()
    doors.get_by_role("button", name="Steps").click()
    assert sent(page, "opened") == ["funnel", "stepper", ""]
    receive(page, opened="reasons")  # Python has something to say
    assert page.locator(".cepkit-data_bar").get_attribute("data-opened") == "reasons"


# --- undo, redo and past queries


def test_buttons_take_back_changes_and_say_which(page):
    undo, redo = (page.get_by_role("button", name=name, exact=True) for name in ("Undo", "Redo"))
    assert (
        undo.get_attribute("title") == "Undo: a: size < 1000 (Ctrl+Z)"
        and redo.get_attribute("aria-disabled") == "true"
    )
    redo.click(force=True)
    undo.click()
    assert sent(page, "wanted_step") == [{"what": "undo", "n": 1}]
    receive(page, steps={"undo": "", "redo": "a: size < 1000"})
    assert undo.get_attribute("aria-disabled") == "true" and undo.get_attribute("title") == "Nothing to undo"
    page.keyboard.press("Control+y")  # the button of the last change keeps the focus
    assert sent(page, "wanted_step")[1:] == [{"what": "redo", "n": 2}]


def test_keys_take_back_changes_unless_a_field_has_its_own_undo(page):
    page.get_by_label("Event type").focus()
    for keys, what in (("Control+z", "undo"), ("Control+Shift+Z", "redo"), ("Control+y", "redo")):
        page.keyboard.press(keys)
        assert sent(page, "wanted_step")[-1]["what"] == what
    page.get_by_role("button", name="Shown key").click()
    search = page.get_by_label("Search a key")
    search.fill("AA")
    search.press("Control+z")
    page.keyboard.press("Escape")
    page.evaluate("document.body.classList.remove('cepkit-data_bar-board')")  # outside of the board
    page.keyboard.press("Control+z")
    assert len(sent(page, "wanted_step")) == 3


def test_past_queries_are_listed_with_their_counts_and_brought_back(page):
    opener = page.get_by_role("button", name="Past queries")
    opener.click()
    panel = page.get_by_role("dialog", name="Past queries")
    assert panel.locator(".run").count() == 3
    first = panel.locator(".run").first.inner_text()
    assert "30 matches" in first and "a: size < 3" in first and "by symbol" in first
    assert panel.locator(".run b").all_inner_texts()[1::2][:2] == ["3", "2"]  # what changed is bold
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert sent(page, "wanted_run") == [{"number": 2, "n": 1}] and panel.count() == 0
    receive(page, runs=[])
    opener.click()
    assert "No query has run" in panel.inner_text()
