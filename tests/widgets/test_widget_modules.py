"""The browser half of widgets, in a real browser: they draw, follow, report, and leave nothing behind."""

from __future__ import annotations

import numpy as np
import pytest

from cepkit.cache import shipped
from cepkit.plots.timeline_axes import scale_of
from cepkit.widgets.scene_view import MatchTable
from tests.support.contrast import PALE, pale_texts
from tests.support.widget_cases import FULL, KINDS, MARCH, full
from tests.support.widget_page import check_ids, mount, receive, saved, set_theme

STEMS = sorted(KINDS)

pytestmark = pytest.mark.browser


@pytest.fixture
def show(page):
    """Return a function that draws a widget and returns its root."""

    def show(stem, widget=None):
        mount(page, widget or full(stem))
        return page.locator(f".cepkit-{stem}")

    return show


def wait_for_saved(page, n=1):
    page.wait_for_function("(n) => hosts.widget.saved.length >= n", arg=n, timeout=3000)
    return saved(page)


# --- all of them ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stem", STEMS)
def test_every_text_is_read_in_both_themes(page, show, stem):
    show(stem)
    assert pale_texts(page) == {"light": [], "dark": []}


@pytest.mark.parametrize("stem", STEMS)
def test_any_number_of_views_share_a_page(page, stem):
    for name in ("first", "second", "third"):
        mount(page, full(stem), name)
    check_ids(page, 3)


# A text that each shows, and what to change so that it shows another.
SHOWN = {
    "data_bar": (
        "symbol = AAA, 1 of 40 keys",
        {"key": {"text": "symbol = AAB", "place": 2, "n": 40, "matches": ""}},
        "symbol = AAB, 2 of 40 keys",
    ),
    "query_editor": ("Running 42 %", {"status": {"state": "done", "message": "", "progress": None}}, "Done"),
    "nfa_view": ("1,234", {"live": [{"state": 0, "n": 5678}]}, "5,678"),
    "timeline_view": ("first 3 of 1.2e9 matches", {"span_note": "3 matches"}, "3 matches"),
    "funnel_view": (
        "25 %",
        {"stages": [{"label": "new", "n": "7", "share": 0.5, "selectivity": 0.5}]},
        "50 %",
    ),
    "match_table": ("10:19", {"rows": [["1", "11:59"]], "numbers": ["1"]}, "11:59"),
    "slider_panel": ("WITHIN\nmin\n1\n240", {"sliders": []}, "No constants"),
    "stepper": ("4 of 10 events", {"position": 5}, "5 of 10 events"),
    "case_view": ("1 of 3 hold", {"cases": FULL["case_view"]["cases"][:1]}, "1 of 1 hold"),
    "take_bar": ("5 matches", {"told": "7 matches"}, "7 matches"),
    "reason_view": ("1 of 2 met", {"lines": [{"text": "it is", "is_met": True}]}, "1 of 1 met"),
    "stream_board": ("1,200", {"figures": [{"label": "keys", "now": "31", "course": [1, 31]}]}, "31"),
}


@pytest.mark.parametrize("stem", STEMS)
def test_it_draws_and_follows(page, show, stem):
    before, change, after = SHOWN[stem]
    root = show(stem)
    assert before in root.inner_text() and after not in root.inner_text()
    receive(page, **change)
    assert after in root.inner_text() and before not in root.inner_text()
    assert saved(page) == []  # what comes from Python is not sent back
    assert page.evaluate("hosts.widget.exports") == ["default"]


@pytest.mark.parametrize("stem", sorted({*STEMS} - {"case_view"}))  # its list grows by the user's own cases
def test_content_does_not_move_the_page(page, show, stem):
    empty = show(stem, KINDS[stem]())
    heights = [empty.bounding_box()["height"]]
    page.evaluate("hosts.widget.remove(); hosts = {}")
    for width in (1000, 620):
        page.set_viewport_size({"width": width, "height": 900})
        root = show(stem)
        heights.append(root.bounding_box()["height"])
        assert root.evaluate("(root) => root.scrollWidth <= root.clientWidth"), f"too wide at {width}"
        page.evaluate("hosts.widget.remove(); hosts = {}")
    page.set_viewport_size({"width": 1000, "height": 900})
    assert len(set(heights)) == 1


@pytest.mark.parametrize("stem", STEMS)
def test_it_is_reached_and_left_with_the_keyboard_and_has_names(page, show, stem):
    show(stem)  # `isOwn`: JupyterLab would take the keys of others, such as two zeros for a new kernel
    page.evaluate("document.body.prepend(Object.assign(document.createElement('button'), { id: 'before' }))")
    page.evaluate("document.body.append(Object.assign(document.createElement('button'), { id: 'after' }))")
    page.focus("#before")
    stops = []
    for _ in range(30):
        page.keyboard.press("Tab")
        stop = page.evaluate(
            """() => {
              const at = document.activeElement;
              const name = at.ariaLabel || at.textContent || at.closest("label")?.textContent;
              const style = getComputedStyle(at.querySelector(".halo") ?? at);
              const ring = at.matches("g") ? style.stroke : style.outlineStyle;
              const isOwn = at.matches("textarea") || at.dataset.lmSuppressShortcuts === "true";
              return { id: at.id, name: name?.trim(), isOwn, ring: ring !== "none" };
            }"""
        )
        if stop["id"] == "after":
            break
        stops.append(stop)
    assert stop["id"] == "after" and stops
    assert [stop for stop in stops if not (stop["name"] and stop["ring"] and stop["isOwn"])] == []


# --- editor -----------------------------------------------------------------------------------------------


def test_editor_reports_text_after_a_pause(page, show):
    show("query_editor")
    page.focus("textarea")
    page.keyboard.press("Control+End")
    page.keyboard.type(" AND", delay=5)
    assert saved(page) == []
    assert wait_for_saved(page) == [{"edited": 1, "text": full("query_editor").text + " AND"}]
    assert page.locator(".keyword", has_text="AND").count() == 2


@pytest.mark.parametrize(("stem", "focus"), [("query_editor", "textarea"), ("timeline_view", "canvas")])
def test_nothing_is_reported_once_a_widget_is_gone(page, show, stem, focus):
    show(stem)
    page.focus(focus)
    page.keyboard.press("+")  # a letter, or closer
    # At once: on a slow machine the editor has saved the text before it is gone.
    remove = "const n = left.timers.size; hosts.widget.remove(); return [n, hosts.widget.saved.length]"
    waiting, n_saved = page.evaluate(f"() => {{ {remove} }}")
    assert waiting == 1 or n_saved == 1
    assert page.evaluate("left.timers.size") == 0 and len(saved(page)) == n_saved


def test_editor_does_not_report_what_is_taken_back(page, show):
    root = show("query_editor")
    page.focus("textarea")
    page.keyboard.type("x")
    page.keyboard.press("Backspace")
    assert "stale" in root.get_attribute("class")
    page.wait_for_function("!document.querySelector('.stale')")
    assert saved(page) == []


def test_editor_underlines_errors_also_behind_wide_characters(page, show):
    root = show("query_editor")
    assert root.locator(".wrong").all_inner_texts() == ["prise"]
    assert root.locator("textarea").get_attribute("aria-invalid") == "true"
    text = "a = '𝄞' AND oops"
    receive(page, text=text, errors=[{"start": 12, "end": 16, "line": 1, "message": "unknown"}])
    assert root.locator(".wrong").all_inner_texts() == ["oops"]
    assert root.locator(".message").inner_text() == "unknown"
    receive(page, errors=[{"start": 16, "end": 16, "line": 1, "message": "more expected"}])
    assert root.locator(".wrong").all_inner_texts() == [" "]  # behind the end
    receive(page, errors=[])
    assert root.locator(".wrong").count() == 0
    assert root.locator("textarea").get_attribute("aria-invalid") == "false"


def test_editor_keeps_errors_in_place_until_new_ones_come(page, show):
    root = show("query_editor")
    page.focus("textarea")
    page.keyboard.press("Control+Home")
    page.keyboard.type("xyz ")
    assert root.locator(".wrong").all_inner_texts() == ["prise"]
    assert "stale" in root.get_attribute("class")
    wait_for_saved(page)
    receive(page, version=1, errors=[{"start": 0, "end": 3, "line": 1, "message": "what is xyz?"}])
    assert root.locator(".wrong").all_inner_texts() == ["xyz"]
    assert "stale" not in root.get_attribute("class")


def test_editor_shows_the_error_at_the_caret(page, show):
    root = show("query_editor")
    errors = [{"start": at, "end": at + 1, "line": 1, "message": f"wrong at {at}"} for at in (0, 9)]
    receive(page, errors=errors)
    page.focus("textarea")
    page.keyboard.press("Control+Home")
    assert (
        root.locator(".message").inner_text()
        == "error 1 of 2; move the cursor to an error to read it\nwrong at 0"
    )
    for _ in range(9):
        page.keyboard.press("ArrowRight")
    assert root.locator(".message").inner_text().endswith("wrong at 9")


def choices(root):
    """Return the names in the list of completions."""
    return [item.inner_text().split("\n")[0] for item in root.locator(".offers button").all()]


def test_editor_completes_and_lets_go(page, show):
    root = show(
        "query_editor", KINDS["query_editor"](columns=full("query_editor").columns, names=["average"])
    )
    page.focus("textarea")
    page.keyboard.type("lo")
    assert root.locator(".offers button").count() == 1
    page.keyboard.press("Tab")
    assert root.locator("textarea").input_value() == "`lot no`"
    page.keyboard.type(" a")
    assert [text.split()[0] for text in root.locator(".offers button").all_inner_texts()][:1] == ["average"]
    page.keyboard.press("Escape")
    assert root.locator(".offers button").count() == 0
    page.keyboard.press("Shift+Tab")
    assert page.evaluate("document.activeElement.tagName") == "BUTTON"
    assert wait_for_saved(page)[-1]["text"] == "`lot no` a"  # leaving reports at once
    root.get_by_role("tab", name="Columns").click()
    root.locator(".columns button").first.click()
    assert root.locator("textarea").input_value() == "`lot no` aprice"
    wait_for_saved(page, 2)
    page.keyboard.press("Control+z")
    assert wait_for_saved(page, 3)[-1] == {"wanted_step": {"what": "undo", "n": 1}}
    receive(page, text="`lot no` a")
    assert root.locator("textarea").input_value() == "`lot no` a"


def test_editor_follows_python_but_not_while_a_person_writes(page, show):
    root = show("query_editor")
    receive(page, text="A")
    assert root.locator("textarea").input_value() == "A"
    page.focus("textarea")
    page.keyboard.press("End")
    page.keyboard.type("B")
    receive(page, text="late")
    assert root.locator("textarea").input_value() == "AB"
    assert wait_for_saved(page)[-1]["text"] == "AB"


def test_editor_cancels_and_says_what_failed(page, show):
    root = show("query_editor")
    root.locator(".cancel").click()
    root.locator(".cancel").click()
    assert [values["cancel"] for values in saved(page)] == [1, 2]
    assert root.get_by_role("progressbar").get_attribute("aria-valuenow") == "42"
    receive(page, status={"state": "failed", "message": "division by zero", "progress": None})
    assert "prise" in root.locator(".message").inner_text()
    receive(page, errors=[])
    assert root.locator(".message").inner_text() == "division by zero"
    assert not root.locator(".cancel").is_visible()


# What JupyterLab 4.5 does to every text area in a cell.
GUARD = """
window.guard = (event) => {
  if (["insertLineBreak", "historyUndo", "historyRedo"].includes(event.inputType)) event.preventDefault();
};
document.querySelector("textarea").addEventListener("beforeinput", window.guard);
"""


def test_editor_has_lines_and_undoing_where_jupyterlab_takes_them_away(page, show):
    root = show("query_editor", KINDS["query_editor"]())
    page.evaluate(GUARD)
    page.focus("textarea")
    page.keyboard.type("a b\na: x > 1", delay=5)
    assert root.locator("textarea").input_value() == "a b\na: x > 1"
    page.keyboard.press("Control+z")  # the text first, then the wish; the browser changes nothing itself
    wishes = [{"edited": 1, "text": "a b\na: x > 1"}, {"wanted_step": {"what": "undo", "n": 1}}]
    assert saved(page) == wishes
    assert root.locator("textarea").input_value() == "a b\na: x > 1"
    receive(page, text="a b")
    assert root.locator("textarea").input_value() == "a b"
    page.keyboard.press("Control+Shift+z")
    page.keyboard.press("Control+y")
    wishes += [{"wanted_step": {"what": "redo", "n": n}} for n in (2, 3)]
    assert saved(page) == wishes
    receive(page, text="a b\na: x > 1")
    page.keyboard.type("2")  # the caret is at the end of the change
    page.keyboard.press("Shift+Enter")  # at once, and no line
    assert saved(page) == [*wishes, {"edited": 2, "text": "a b\na: x > 12"}]
    page.evaluate("document.querySelector('textarea').removeEventListener('beforeinput', window.guard)")


def test_editor_asks_python_when_the_menu_of_the_browser_takes_back_an_edit(page, show):
    root = show("query_editor")
    page.focus("textarea")
    page.keyboard.press("Control+End")
    page.keyboard.type("X")
    wait_for_saved(page)
    before = root.locator("textarea").input_value()
    menu = "new InputEvent('beforeinput', { inputType: 'historyUndo', cancelable: true })"
    assert not page.evaluate(f"document.querySelector('textarea').dispatchEvent({menu})")
    assert saved(page)[1:] == [{"wanted_step": {"what": "undo", "n": 1}}]
    assert root.locator("textarea").input_value() == before


def test_editor_marks_names_and_shows_an_example_of_its_columns(page, show):
    root = show("query_editor")
    assert root.locator(".marked").all_inner_texts() == ["a", "a"]  # not the A
    receive(page, marked=["b", "."])
    assert set(root.locator(".marked").all_inner_texts()) == {"b", "."}
    assert (
        root.locator("textarea")
        .get_attribute("placeholder")
        .startswith(". up+ down\nup: price > prev(price)")
    )


def test_editor_completes_its_own_names_at_the_caret(page, show):
    text = ". rise drop\nrise: price > prev(price)\nr"
    root = show("query_editor", KINDS["query_editor"](columns=full("query_editor").columns, text=text))
    assert choices(root) == []
    page.focus("textarea")
    page.keyboard.press("Control+Home")
    page.keyboard.press("End")
    page.keyboard.type(" ri")
    assert choices(root) == ["rise"]
    word = page.evaluate("document.querySelector('.under').getBoundingClientRect().top")
    assert 0 < root.locator(".offers").bounding_box()["y"] - word < 60  # below the first line
    page.keyboard.press("Enter")  # a name in the pattern is complete as it stands
    assert root.locator("textarea").input_value().splitlines()[0] == ". rise drop ri"
    page.keyboard.press("Backspace")
    page.keyboard.press("Backspace")
    page.keyboard.type("i")
    page.keyboard.press("ArrowDown")
    assert root.locator(".offers [aria-selected=true]").inner_text().split()[0] == "rise"
    page.keyboard.press("Enter")
    assert root.locator("textarea").input_value().splitlines()[0] == ". rise drop rise"
    page.keyboard.press("Control+End")
    page.keyboard.press("Backspace")
    page.keyboard.type("dr")  # a name without a line, where a line begins
    assert choices(root) == ["drop"]
    page.keyboard.press("Enter")
    assert root.locator("textarea").input_value().splitlines()[-1] == "drop: "
    page.keyboard.type("pri")
    assert choices(root) == ["price"]
    page.keyboard.press("Escape")
    assert choices(root) == []
    page.keyboard.type("c")
    page.keyboard.press("ArrowLeft")  # moving the caret is not writing
    assert choices(root) == []


def test_editor_completes_the_events_of_a_pattern_and_their_columns(page, show):
    text = "PATTERN SEQ(A? first, !'B b' IF (x > 1) gone, NEXT B{2,3} following[] UNTIL (x > 1), _ z)"
    root = show("query_editor", KINDS["query_editor"](columns=full("query_editor").columns, text=text))
    page.focus("textarea")
    page.keyboard.press("Control+End")
    page.keyboard.type(" WHERE fo")
    assert choices(root) == ["following"]
    page.keyboard.press("Tab")
    page.keyboard.type("[i].")
    assert choices(root) == ["price", "kind", "lot no"]
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    assert root.locator("textarea").get_attribute("aria-activedescendant").endswith("-1")
    page.keyboard.press("Enter")
    assert root.locator("textarea").input_value().endswith(" WHERE following[i].kind")
    for name in ("first", "gone", "z"):
        page.keyboard.type(f" {name[:1]}")
        assert name in choices(root) or name == "z"
    page.keyboard.type(" WITHIN 5 m")  # a unit
    assert choices(root) == []


def test_editor_keeps_lines_that_look_like_the_beginning_of_a_name(page, show):
    root = show("query_editor", KINDS["query_editor"](columns=[{"name": "updated", "dtype": "integer"}]))
    page.focus("textarea")
    page.keyboard.type(". up\nup: updated > 5\nwithin: 5 s\n")
    assert root.locator("textarea").input_value() == ". up\nup: updated > 5\nwithin: 5 s\n"


def test_editor_offers_examples_until_there_is_a_text(page, show):
    own = full("query_editor")
    root = show("query_editor", KINDS["query_editor"](examples=own.examples, columns=own.columns))
    assert root.get_by_role("tab", selected=True).inner_text() == "Examples"
    assert "click an example" in root.locator(".sentence").inner_text()
    root.locator(".example").first.click()
    assert root.locator("textarea").input_value() == own.examples[0]["text"]
    assert wait_for_saved(page)[-1]["text"] == own.examples[0]["text"]  # at once
    assert root.get_by_role("tab", selected=True).count() == 0 and not root.locator(".side").is_visible()
    root.get_by_role("tab", name="Examples").click()
    root.locator(".example").nth(1).click()
    assert root.locator("textarea").input_value() == own.examples[1]["text"]
    n_saved = len(saved(page))
    page.keyboard.press("Control+z")
    page.keyboard.press("Control+z")
    asked = [values["wanted_step"]["what"] for values in saved(page)[n_saved:]]
    assert asked == ["undo", "undo"]


def test_editor_says_the_query_in_words(page, show):
    root = show("query_editor")
    said = full("query_editor").sentence
    assert not root.locator(".sentence").is_visible()  # the mistake is more urgent
    receive(page, errors=[])
    assert root.locator(".sentence").inner_text() == f"In words: {said}"
    receive(page, sentence="any row")
    assert root.locator(".sentence").inner_text() == "In words: any row"
    assert "quiet" not in root.locator(".sentence").get_attribute("class")
    receive(page, text="")
    assert "Write a query" in root.locator(".sentence").inner_text()


def test_editor_inserts_from_the_cheat_sheet(page, show):
    own = full("query_editor")
    root = show("query_editor", KINDS["query_editor"](sheet=own.sheet, text="a b"))
    root.get_by_role("tab", name="Cheat sheet").click()
    assert root.locator(".entry").count() == 3
    page.focus("textarea")
    page.keyboard.press("Control+Home")
    page.keyboard.press("ArrowRight")
    root.locator(".entry", has_text="up+").click()
    assert root.locator("textarea").input_value() == "a up+ b"  # at the caret, as a word of its own
    page.keyboard.press("Control+End")
    root.locator(".entry", has_text="within").click()
    assert root.locator("textarea").input_value() == "a up+ b\nwithin: 2 min"
    root.locator(".find").fill("more than")
    assert [one.inner_text() for one in root.locator(".entry .first").all() if one.is_visible()] == [
        "price > 5"
    ]
    root.get_by_role("tab", name="Cheat sheet").focus()
    page.keyboard.press("ArrowLeft")
    assert root.get_by_role("tab", selected=True).inner_text() == "Columns"


def test_editor_does_not_say_failed_while_a_person_types(page, show):
    root = show("query_editor", KINDS["query_editor"](status={"state": "done", "message": "7 matches"}))
    page.focus("textarea")
    page.keyboard.type("a b")
    wait_for_saved(page)
    error = {"start": 0, "end": 1, "line": 1, "message": "what is a?"}
    receive(page, version=1, errors=[error], status={"state": "failed", "message": "what", "progress": None})
    assert root.locator(".wrong").all_inner_texts() == ["a"]
    look = "e => [e.className, e.querySelector('.state').innerText, !e.querySelector('.message.failing')]"
    names, state, is_calm = root.evaluate(look)  # at once, since the pause may end between two looks
    if "typing" in names:  # a slow machine is past the pause
        assert "7 matches" in state and is_calm
    page.wait_for_selector(".message.failing")
    assert "Mistake" in root.locator(".state").inner_text()
    assert root.locator(".message").inner_text() == "what is a?"


# --- automaton --------------------------------------------------------------------------------------------


def test_automaton_says_what_choosing_a_state_does(page, show):
    root = show("nfa_view")
    assert root.locator(".says").inner_text().startswith("12 events of 3 matches on the timeline")
    receive(page, selected=None, told="")
    assert "Click a state" in root.locator(".says").inner_text()
    page.set_viewport_size({"width": 420, "height": 900})
    right = root.bounding_box()["x"] + root.bounding_box()["width"]
    for item in root.locator(".legend .item").all():
        assert item.bounding_box()["x"] + item.bounding_box()["width"] <= right
    page.set_viewport_size({"width": 1000, "height": 900})


def test_a_wide_automaton_scrolls_before_its_text_is_too_small(page, show):
    root = show("nfa_view")
    narrow, wide = 700, 2400
    for width, scrolls in ((narrow, False), (wide, True)):
        receive(page, width=width)
        page.set_viewport_size({"width": 600, "height": 900})
        settle(page)
        frame, svg = root.locator(".frame"), root.locator("svg").first
        assert frame.evaluate("frame => frame.scrollWidth > frame.clientWidth") == scrolls
        assert svg.bounding_box()["width"] / width >= 0.639
        sizes = svg.locator("text").evaluate_all(
            "texts => texts.map(one => parseFloat(getComputedStyle(one).fontSize) * one.getScreenCTM().a)"
        )
        assert len(sizes) == 8 and min(sizes) >= 9.99
    frame.evaluate("frame => frame.scrollTo(1e6, 0)")
    assert frame.evaluate("frame => frame.scrollLeft + frame.clientWidth >= frame.scrollWidth - 2")
    page.set_viewport_size({"width": 1000, "height": 900})


def test_automaton_alone_names_no_other_view(page, show):
    picture = full("nfa_view")
    root = show("nfa_view", KINDS["nfa_view"](
        states=picture.states, transitions=picture.transitions, width=picture.width, height=picture.height,
        conditions=[{"name": "small", "text": "x < 5"}], is_alone=True,
    ))  # fmt: skip
    assert root.locator(".says").inner_text() == "Click a state to see what comes before it."
    assert root.locator(".conditions").inner_text().split() == ["small", "x", "<", "5"]
    assert [item.inner_text() for item in root.locator(".item").all() if item.is_visible()] == ["match ends"]


def test_automaton_reports_the_chosen_state(page, show):
    root = show("nfa_view")
    states = root.locator(".state")
    assert [state.get_attribute("aria-pressed") for state in states.all()] == ["false", "true", "false"]
    states.nth(2).click()
    states.nth(2).click()
    states.nth(0).focus()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Enter")
    page.keyboard.press("Escape")
    assert [values["selected"] for values in saved(page)] == [2, None, 2, None]
    assert root.locator(".transition text").all_text_contents() == ["A a", "B bsmall"]


def test_automaton_keeps_the_focus_when_it_is_drawn_anew(page, show):
    root = show("nfa_view")
    root.locator(".state").nth(1).focus()
    receive(page, states=[{**state, "y": 70} for state in full("nfa_view").states])
    assert page.evaluate("document.activeElement.getAttribute('aria-label')").startswith(
        "state 1, 1,234 live"
    )
    assert root.locator(".state.lit").count() == 2 and root.locator(".state.live").count() == 1


# --- timeline ---------------------------------------------------------------------------------------------


def settle(page):
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def colours(page, left, right, top=30, bottom=60):
    """Return how many different colours a part of the canvas has, in shares of its width."""
    settle(page)
    return page.evaluate(
        """([left, right, top, bottom]) => {
          const canvas = document.querySelector("canvas"), width = canvas.width;
          const pen = canvas.getContext("2d");
          const { data } = pen.getImageData(left * width, top, (right - left) * width, bottom - top);
          return new Set(new Uint32Array(data.buffer)).size;
        }""",
        [left, right, top, bottom],
    )


def x_of(page, share):
    """Return the page's x where a share of what is shown lies; the axis begins 58 px from the left."""
    box = page.locator("canvas").bounding_box()
    return box["x"] + 58 + share * (box["width"] - 72), box["y"] + 100


def test_timeline_draws_from_bytes_that_begin_anywhere(page, show):
    show("timeline_view", KINDS["timeline_view"]())
    assert colours(page, 0.1, 0.9) == 1
    page.evaluate("hosts.widget.remove(); hosts = {}")
    root = show("timeline_view")
    assert colours(page, 0.1, 0.9, 20, 110) > 10
    assert "3,600 events, 3 matches, 2024-03-01 10:00:00 to 2024-03-01 10:59:59" in root.locator(
        "canvas"
    ).get_attribute("aria-label")


def test_timeline_takes_the_theme_of_the_page(page, show):
    show("timeline_view")
    settle(page)
    # The mean red of what is painted in the margin, where the ticks' texts are.
    red = """() => {
      const { data } = document.querySelector("canvas").getContext("2d").getImageData(0, 112, 900, 44);
      const painted = [...data.keys()].filter((k) => k % 4 === 0 && data[k + 3] > 150);
      return painted.reduce((sum, k) => sum + data[k], 0) / painted.length;
    }"""
    assert page.evaluate(red) < 30
    set_theme(page, "dark")
    settle(page)
    assert page.evaluate(red) > 225


def press_at_once(page, *keys):
    """Press keys on the timeline without a pause between; return what was sent by then."""
    return page.evaluate(
        """(keys) => {
          for (const key of keys)
            document.querySelector("canvas").dispatchEvent(new KeyboardEvent("keydown", { key }));
          return hosts.widget.saved;
        }""",
        keys,
    )


def test_timeline_zooms_and_pans_with_keys_and_buttons(page, show):
    root = show("timeline_view")
    page.focus("canvas")
    assert press_at_once(page, "+") == []  # Python hears of it after a pause
    first, last = wait_for_saved(page)[-1]["window"]
    assert last - first == pytest.approx(0.625 * 3599e3)
    assert (first + last) / 2 == pytest.approx(MARCH + 3599e3 / 2)
    page.keyboard.press("ArrowRight")
    moved = wait_for_saved(page, 2)[-1]["window"]
    assert moved == pytest.approx([first + 0.2 * (last - first), last + 0.2 * (last - first)], abs=1)
    press_at_once(page, *["ArrowLeft"] * 5)
    assert wait_for_saved(page, 3)[-1]["window"][0] == MARCH  # not beyond what there is
    page.keyboard.press("0")
    assert wait_for_saved(page, 4)[-1]["window"] == [MARCH, MARCH + 3599e3]
    root.get_by_role("button", name="Zoom in").click()
    assert wait_for_saved(page, 5)[-1]["window"][0] > MARCH
    assert "2024-03-01 10:11:14" in root.locator(".readout").inner_text()
    root.get_by_role("button", name="Whole").click()
    assert wait_for_saved(page, 6)[-1]["window"] == [MARCH, MARCH + 3599e3]


def test_timeline_zooms_with_the_wheel_and_pans_by_dragging(page, show):
    show("timeline_view")
    settle(page)
    x, y = x_of(page, 0.25)
    page.mouse.move(x - 5, y)
    page.mouse.move(x, y)
    turned = """(deltaY) => {
      const event = new WheelEvent("wheel", { deltaY, cancelable: true, clientX: 300 });
      return document.querySelector("canvas").dispatchEvent(event);
    }"""
    assert page.evaluate(turned, 200)  # out of the whole: the page's
    page.mouse.wheel(0, -200)
    first, last = wait_for_saved(page)[-1]["window"]
    assert last - first == pytest.approx(3599e3 * 2.718281828**-0.5, rel=1e-6)
    assert first + 0.25 * (last - first) == pytest.approx(MARCH + 0.25 * 3599e3, rel=1e-6)
    page.mouse.down()
    page.mouse.move(x - 50, y, steps=3)
    page.mouse.up()
    dragged = wait_for_saved(page, 2)[-1]["window"]
    pixels = page.locator("canvas").bounding_box()["width"] - 72
    assert dragged[0] - first == pytest.approx(50 / pixels * (last - first), rel=1e-6)
    assert all("selected" not in values for values in saved(page))
    page.mouse.dblclick(x, y)
    page.wait_for_function("hosts.widget.saved.at(-1).window?.[1] === " + str(MARCH + 3599e3))


def test_timeline_picks_the_match_and_event_under_a_click(page, show):
    show("timeline_view")
    settle(page)
    page.mouse.click(*x_of(page, 950e3 / 3599e3))  # in both the long and the short one
    page.mouse.click(*x_of(page, 951e3 / 3599e3))
    page.mouse.click(*x_of(page, 0.5))
    picked = saved(page)
    assert [values["selected"] for values in picked] == [8, 7, None]
    assert picked[0]["clicked"] == pytest.approx(MARCH + 950e3, abs=5e3)
    page.mouse.click(*x_of(page, 0.5))
    again = saved(page)[3:]
    assert [values["clicked"] for values in again] == [None, picked[2]["clicked"]]
    page.keyboard.press("n")
    page.keyboard.press("n")
    page.keyboard.press("p")
    page.keyboard.press("Escape")
    assert [values["selected"] for values in saved(page)[5:]] == [7, 8, 7, None]


def test_timeline_asks_why_with_the_keyboard(page, show):
    kind = KINDS["timeline_view"]
    root = show("timeline_view", kind(x=range(5), y=range(5), y_label="v", x_label="row"))
    root.locator("canvas").focus()
    page.keyboard.press("w")
    assert saved(page) == []  # nothing is pointed at
    for key in ("e", "e", "e", "Shift+E"):
        page.keyboard.press(key)
    assert root.locator(".readout").inner_text() == "1   1"
    page.keyboard.press("w")
    assert saved(page) == [{"clicked": 1}]
    assert "5 events, 0 matches" in root.locator("canvas").get_attribute("aria-label")


def test_timeline_shows_the_window_python_gives_it(page, show):
    root = show("timeline_view")
    label = root.locator("canvas")
    receive(page, window=[MARCH + 600e3, MARCH + 1200e3])
    settle(page)
    assert "10:10:00 to 2024-03-01 10:20:00" in label.get_attribute("aria-label")
    receive(page, window=[])
    settle(page)
    assert "10:00:00 to" in label.get_attribute("aria-label")
    assert saved(page) == []


def test_timeline_has_a_lane_per_type_and_says_what_is_under_the_pointer(page, show):
    kind = KINDS["timeline_view"]
    lanes = kind(form="lanes", x=range(5), y=[0, 1, 0, 1, 0], lane_names=["Order", "Ready"], x_label="row")
    root = show("timeline_view", lanes)
    assert colours(page, 0.05, 0.08, 20, 230) > 1
    page.mouse.move(*x_of(page, 0.5))
    page.mouse.move(*(part + 1 for part in x_of(page, 0.5)))
    assert root.locator(".readout").inner_text() == "2   Order"
    receive(page, busy=True)
    assert root.get_attribute("aria-busy") == "true"


def test_timeline_lets_choose_a_column_where_there_are_several(page, show):
    root = show("timeline_view")
    assert root.locator("select option").all_inner_texts() == ["load (kW)", "temperature"]
    root.locator("select").select_option("temperature")
    assert saved(page) == [{"value": "temperature"}]
    receive(page, choices=["load (kW)"], value="load (kW)")
    assert not root.locator("select").is_visible()


def test_timeline_marks_events_and_those_asked_about(page, show):
    root = show("timeline_view")
    assert root.locator(".marked").inner_text() == "a"
    with_both = colours(page, 0.3, 0.6, 20, 220)
    receive(page, asked=[])
    assert colours(page, 0.3, 0.6, 20, 220) < with_both
    page.evaluate("hosts.widget.receive({ marks: new DataView(new ArrayBuffer(0)), mark_label: '' })")
    assert not root.locator(".marked").is_visible()


def test_timeline_looks_closer_at_the_selected_match(page, show):
    root = show("timeline_view")
    root.get_by_role("button", name="Match").click()
    assert wait_for_saved(page)[-1]["window"] == [MARCH, MARCH + 1800e3]
    receive(page, selected=None)
    settle(page)
    assert root.get_by_role("button", name="Match").is_disabled()


def words_of(page):
    """Return the texts on the canvas with their places, from left to right."""
    return page.evaluate(
        """() => new Promise((done) => {
          const own = CanvasRenderingContext2D.prototype.fillText, found = [];
          CanvasRenderingContext2D.prototype.fillText = function (text, x, y, ...more) {
            found.push([text, x, y]);
            return own.call(this, text, x, y, ...more);
          };
          window.dispatchEvent(new Event("resize"));
          document.body.setAttribute("data-painted", Math.random());  // the timeline paints for another theme
          requestAnimationFrame(() => requestAnimationFrame(() => {
            CanvasRenderingContext2D.prototype.fillText = own;
            done(found.filter(([text]) => text).sort((a, b) => a[1] - b[1]));
          }));
        })"""
    )


def texts_of(page):
    return [text for text, _, _ in words_of(page)]


STRIP = {
    "strip_view": [MARCH - 1800e3, MARCH + 5400e3],
    "strip_all": [9.0] * 72,
    "strip_key": [0.0] * 18 + [2.0] * 36 + [0.0] * 18,
}


def with_strip(**more):
    return KINDS["timeline_view"](**{**FULL["timeline_view"], **STRIP, **more})


def in_strip(page, share):
    """Return the page's place of a share of the strip."""
    box = page.locator(".strip svg").bounding_box()
    return box["x"] + 58 + share * (box["width"] - 72), box["y"] + 17


def test_timeline_has_a_strip_of_all_matches_and_of_the_key(page, show):
    root = show("timeline_view", with_strip())
    settle(page)
    svg = root.locator(".strip svg")
    assert svg.locator(".name").all_text_contents() == ["all keys", "this key"]
    assert "all keys: 648 matches, this key: 72 matches. Shown: 2024-03-01 10:00:00" in svg.get_attribute(
        "aria-label"
    )
    assert svg.locator("path.all").get_attribute("d").count("M") == 72
    assert svg.locator("path.own").get_attribute("d").count("M") == 36
    page.mouse.move(*in_strip(page, 0.5))
    said = root.locator(".readout").inner_text()
    assert said.endswith(": all keys 9 matches, this key 2 matches") and "2024-03-01 10:30:00 to" in said
    # The key's events fill half of the time: the brush says which.
    [brush] = [part.bounding_box() for part in svg.locator(".brush").all()]
    assert brush["x"] == pytest.approx(in_strip(page, 0.25)[0], abs=2)
    assert brush["width"] == pytest.approx(in_strip(page, 0.5)[0] - in_strip(page, 0)[0], abs=3)
    receive(page, strip_view=[])
    page.evaluate("hosts.widget.receive({ strip_key: new DataView(new ArrayBuffer(0)) })")
    settle(page)
    assert svg.locator(".name").all_text_contents() == ["matches"]


def test_timeline_is_zoomed_by_brushing_the_strip(page, show):
    show("timeline_view", with_strip(strip_view=[]))
    settle(page)

    def drag(begin, end):
        page.mouse.move(*in_strip(page, begin))
        page.mouse.down()
        page.mouse.move(*in_strip(page, (begin + end) / 2))
        page.mouse.move(*in_strip(page, end))
        page.mouse.up()

    # A slow drag is also reported on its way, so this waits for the last window, not for a count.
    def reaches(low, high, within=0.005):
        last = "hosts.widget.saved.at(-1)?.window"
        is_there = f"([low, high, within]) => {last} && Math.abs({last}[0] - low) <= within && " + (
            f"Math.abs({last}[1] - high) <= within"
        )
        bounds = [MARCH + 3599e3 * low, MARCH + 3599e3 * high, 3599e3 * within]
        page.wait_for_function(is_there, arg=bounds, timeout=5000)
        page.wait_for_timeout(200)  # nothing else follows
        window = [(time - MARCH) / 3599e3 for time in saved(page)[-1]["window"]]
        assert window == pytest.approx([low, high], abs=within)

    drag(0.6, 0.4)  # a new part, in any direction
    reaches(0.4, 0.6)
    drag(0.5, 0.7)  # the part itself
    reaches(0.6, 0.8)
    drag(0.8, 0.9)  # its end
    reaches(0.6, 0.9)
    drag(0.2, 0.95)  # a new part again
    reaches(0.2, 0.95)
    page.mouse.click(*in_strip(page, 0.1))  # beside it: there
    reaches(0, 0.75)
    page.focus(".strip svg")
    page.keyboard.press("ArrowRight")
    reaches(0.15, 0.9)
    page.keyboard.press("Shift+ArrowLeft")
    reaches(0.15, 0.825)
    page.keyboard.press("0")
    reaches(0, 1, 1e-6)
    assert all(set(values) == {"window"} for values in saved(page))
    assert page.locator(".strip .brush").count() == 0  # all of it is shown


@pytest.mark.parametrize("key", ["z", "Enter"])
def test_timeline_zooms_to_a_short_match_and_back(page, show, key):
    short = MARCH + 1000.0 * np.array([[600, 601], [900, 1000]])
    points = [{"x": MARCH + 600e3, "y": 0.9, "label": "a"}, {"x": MARCH + 601e3, "y": 0.9, "label": "b"}]
    root = show(
        "timeline_view", with_strip(spans=short, span_ids=[7, 8], points=points, cursor=MARCH + 601e3)
    )
    assert "Z zooms" in root.locator(".readout").inner_text()
    [flag] = [word for word in words_of(page) if word[0].startswith("match")]
    assert flag[0] == "match 7, 2 events (Z)"
    box = page.locator("canvas").bounding_box()
    assert flag[1] == pytest.approx(58 + 6 + (box["width"] - 72) * 600.5 / 3599, abs=3)
    page.focus("canvas")
    page.keyboard.press(key)
    assert wait_for_saved(page)[-1]["window"] == [MARCH + 599e3, MARCH + 602e3]
    texts = texts_of(page)
    assert "match 7" in texts and {"a", "b"} <= set(texts)  # a frame and its events
    page.keyboard.press(key)
    assert wait_for_saved(page, 2)[-1]["window"] == [MARCH, MARCH + 3599e3]
    receive(page, selected=None, points=[], asked=[])
    page.keyboard.press(key)
    settle(page)
    assert len(saved(page)) == 2 and "Click an event" in root.locator(".readout").inner_text()


def test_timeline_zooms_to_a_selected_match_without_a_band(page, show):
    points = [{"x": MARCH + 60e3, "y": 0.9, "label": "a"}, {"x": MARCH + 70e3, "y": 0.9, "label": "b"}]
    root = show("timeline_view", with_strip(selected=123456789012, points=points))
    assert "match 123,456,789,012, 2 events (Z)" in texts_of(page)
    root.get_by_role("button", name="Match").click()
    assert wait_for_saved(page)[-1]["window"] == [MARCH + 50e3, MARCH + 80e3]


def test_timeline_draws_numbers_where_bands_are_too_many(page, show):
    crowd = {"crowd": [0.0, 50.0, 100.0, 0.0], "crowd_view": [MARCH, MARCH + 3599e3]}
    root = show(
        "timeline_view", with_strip(selected=None, points=[], asked=[], marks=[], cursor=None, **crowd)
    )
    settle(page)
    assert "150 matches" in root.locator("canvas").get_attribute("aria-label")
    settle(page)
    blues = [
        page.evaluate(
            """(share) => {
              const canvas = document.querySelector("canvas");
              const x = 58 + share * (canvas.width - 72);
              return canvas.getContext("2d").getImageData(x, canvas.height - 60, 1, 1).data[3];
            }""",
            share,
        )
        for share in (0.1, 0.4, 0.6, 0.9)
    ]
    assert blues[0] == blues[3] == 0 and 0 < blues[1] < blues[2]


def test_timeline_shows_partial_matches_and_what_failed(page, show):
    bars = [
        {
            "events": [{"x": MARCH + 1000e3, "label": "a"}, {"x": MARCH + 1200e3, "label": ""}],
            "end": MARCH + 1500e3,
            "outcome": "failed",
            "text": ["b fails: x > 3 (x = 2)", "the window of 1 min is over"],
        },
        {
            "events": [{"x": MARCH + 1300e3, "label": ""}],
            "end": MARCH + 1800e3,
            "outcome": "open",
            "text": ["still open"],
        },
    ]
    asked = [{"x": MARCH + 1500e3, "y": 0.5, "partials": bars}]
    root = show("timeline_view", with_strip(selected=None, points=[], asked=asked, cursor=None))
    texts = texts_of(page)
    assert {"b fails: x > 3 (x = 2)", "the window of 1 min is over", "still open", "a", "✗", "…"} <= set(
        texts
    )
    card = next(word for word in words_of(page) if word[0].startswith("b fails"))
    end = 58 + (page.locator("canvas").bounding_box()["width"] - 72) * 1500 / 3599
    assert card[1] > end
    assert "partial match" in root.locator(".readout").inner_text()
    page.focus("canvas")
    page.keyboard.press("z")
    assert wait_for_saved(page)[-1]["window"] == [MARCH + 200e3, MARCH + 2600e3]
    receive(page, window=[MARCH + 2000e3, MARCH + 3000e3])  # the bars are not there
    assert "b fails: x > 3 (x = 2)" not in texts_of(page)


BOXES = """() => new Promise((done) => {
  const own = CanvasRenderingContext2D.prototype.fillText, found = [];
  CanvasRenderingContext2D.prototype.fillText = function (text, x, y, ...more) {
    const { width } = this.measureText(text);
    const shown = Math.min(width, ...more.filter((most) => most !== undefined));
    const left = x - shown * { left: 0, start: 0, center: 0.5, right: 1, end: 1 }[this.textAlign];
    if (text) found.push({ text, left, right: left + shown, top: y - 9, bottom: y + 2 });
    return own.call(this, text, x, y, ...more);
  };
  document.body.setAttribute("data-painted", Math.random());  // the timeline paints for another theme
  requestAnimationFrame(() => requestAnimationFrame(() => {
    CanvasRenderingContext2D.prototype.fillText = own;
    done(found);
  }));
})"""


def test_the_card_of_a_narrow_timeline_lies_above_its_lanes(page, show):
    page.set_viewport_size({"width": 600, "height": 900})
    at, words = MARCH + 900e3, "checkout at 11:54:04: no view before it within 30 min"
    partials = [{"events": [{"x": at, "label": "k"}], "end": at, "outcome": "failed", "text": [words]}]
    lanes = {"form": "lanes", "lane_names": ["view", "add_to_cart", "checkout"], "y_label": "event"}
    asked = [{"x": at, "y": 2.0, "partials": partials}]
    show("timeline_view", with_strip(**lanes, asked=asked, points=[], selected=None, cursor=None, marks=[]))
    settle(page)
    [card] = [box for box in page.evaluate(BOXES) if box["text"] == words]
    page.set_viewport_size({"width": 1000, "height": 900})
    assert card["bottom"] < 20


def test_timeline_says_in_few_words_how_much_is_drawn(page, show):
    root = show("timeline_view")
    receive(page, span_note="", sampled="89 of 5,400 events drawn: one event per type in each of 800 parts")
    settle(page)
    note = root.locator(".note")
    assert note.inner_text() == "89 of 5,400 events drawn" and "800 parts" in note.get_attribute("title")


@pytest.mark.parametrize("width", [1000, 600])
@pytest.mark.parametrize("seed", range(12))
def test_timeline_never_writes_texts_over_each_other(page, show, seed, width):
    rng = np.random.default_rng(seed)
    page.set_viewport_size({"width": width, "height": 900})
    outcomes = ["failed", "matched", "replaced", "open"]

    def bar(row, end):
        times = np.sort(rng.uniform(end - rng.choice([20e3, 400e3, 2000e3]), end, rng.integers(1, 9)))
        names = rng.choice(["", "a", "rise", "a_long_name_of_a_step"], len(times))
        text = ["b.price > a.price + 1.5: 10.25 > 11.75 is false", "c is missing"][: rng.integers(0, 3)]
        return {
            "events": [
                {"x": x, "label": label} for x, label in zip(times.tolist(), names.tolist(), strict=True)
            ],
            "end": float(end),
            "outcome": outcomes[rng.integers(4)],
            "text": text if row == 0 else text[:1],
        }

    asked = [
        {"x": x, "y": float(rng.uniform())}
        for x in np.sort(MARCH + 3599e3 * rng.uniform(0, 1, rng.integers(1, 4))).tolist()
    ]
    end = asked[-1]["x"] + rng.choice([0, 90e3])
    asked[-1]["partials"] = [bar(row, end) for row in range(rng.integers(0, 4))]
    near = MARCH + 3599e3 * np.sort(rng.uniform(0.3, 0.3 + rng.choice([0.02, 0.5]), 5))
    points = [{"x": x, "y": 0.5, "label": f"step {k}"} for k, x in enumerate(near.tolist())]
    chosen = {"points": points, "selected": 123456} if seed % 3 == 0 else {"points": [], "selected": None}
    show("timeline_view", with_strip(asked=asked, cursor=None, marks=[], **chosen))
    settle(page)
    boxes = page.evaluate(BOXES)
    page.set_viewport_size({"width": 1000, "height": 900})
    assert len(boxes) > 5
    for k, one in enumerate(boxes):
        for other in boxes[:k]:
            is_apart = (
                one["right"] <= other["left"] or other["right"] <= one["left"]
                or one["bottom"] <= other["top"] or other["bottom"] <= one["top"]
            )  # fmt: skip
            assert is_apart, (one, other)


def test_timeline_has_short_ticks_for_picoseconds(page, show):
    first = 10_634_999_812_345_678
    x = first + 7_000_000 * np.arange(100)
    show("timeline_view", KINDS["timeline_view"](x=x, y=np.arange(100), x_label="ps", y_label="v"))
    texts = texts_of(page)
    assert "ps − 10,634,999,000,000,000, in 10⁹" in texts
    below = page.locator("canvas").bounding_box()["height"] - 46
    ticks = [text for text, _, y in words_of(page) if y > below and text[0].isdigit()]
    assert len(ticks) >= 4 and all(len(text) <= 5 for text in ticks)
    assert max(text.count("e") for text in texts) <= 1


def test_timeline_has_the_clocks_of_its_zone(page, show):
    change = 1_774_746_000_000.0  # 2026-03-29 01:00 UTC: 02:00 in Berlin becomes 03:00
    x = change + 60_000.0 * np.arange(-180, 181)
    offsets = [[x[0], 3.6e6], [change, 7.2e6]]
    view = KINDS["timeline_view"](
        time_kind="datetime", x=x, y=np.arange(361), zone_offsets=offsets, x_label="ts (Europe/Berlin)"
    )
    root = show("timeline_view", view)
    ticks = [(text, at) for text, at, y in words_of(page) if ":" in text and y < 270]
    assert [text for text, _ in ticks] == ["23:00", "00:00", "01:00", "03:00", "04:00", "05:00", "06:00"]
    steps = np.diff([at for _, at in ticks[1:-1]])  # the last text is moved inside
    assert steps == pytest.approx([steps[0]] * 4, abs=1.5)
    assert "2026-03-28 23:00:00 to 2026-03-29 06:00:00" in root.locator("canvas").get_attribute("aria-label")


@pytest.mark.parametrize("seed", range(3))
def test_still_and_live_axes_have_the_same_ticks(page, seed):
    rng = np.random.default_rng(seed)
    sizes = 10.0 ** rng.uniform(-8, 18, (40, 2))
    ranges = [
        (float(low * sign), float(low * sign + span))
        for (low, span), sign in zip(sizes, [1, -1] * 20, strict=True)
    ]
    source = "\n".join(shipped("widgets", name).read_text() for name in ("drawing.js", "timeline_axis.js"))
    live = page.evaluate(
        f"""(ranges) => {{ {source}
        return ranges.map(([low, high]) => {{
          const scale = numberScale(low, high);
          return [scale.note, scale.text(low + (high - low) / 2)];
        }}); }}""",
        ranges,
    )
    for (low, high), (note, text) in zip(ranges, live, strict=True):
        scale = scale_of(low, high)
        assert scale.note == note
        shown, wanted = (float(one.replace(",", "")) for one in (text, scale.text(low + (high - low) / 2)))
        assert shown == pytest.approx(wanted)


def test_timeline_picks_the_peak_that_is_pointed_at(page, show):
    kind = KINDS["timeline_view"]
    values = [0.0] * 400
    values[201] = 1.0
    root = show("timeline_view", kind(x=range(400), y=values, y_label="v", x_label="row"))
    settle(page)
    x, _ = x_of(page, 199 / 399)  # two events beside it
    top = root.locator("canvas").bounding_box()["y"] + 28
    page.mouse.click(x, top)
    assert saved(page)[-1]["clicked"] == 201
    page.mouse.click(x, top + 75)  # far below the line: the nearest in time
    assert saved(page)[-1]["clicked"] == pytest.approx(199, abs=1)


def test_timeline_of_many_events_is_drawn_at_once(page, show):
    kind = KINDS["timeline_view"]
    n = 100_000
    spans, ids = [[k, k + 9] for k in range(n // 10)], range(n // 10)
    show("timeline_view", kind(x=range(n), y=[k % 977 for k in range(n)], spans=spans, span_ids=ids))
    assert colours(page, 0.2, 0.8, 20, 220) > 10


# --- funnel, table, sliders, steps ------------------------------------------------------------------------


def test_funnel_reports_the_chosen_step(page, show):
    root = show("funnel_view")
    assert root.locator(".note").inner_text() == "B b: b.price > a.price"
    root.locator(".step").nth(2).click()
    root.get_by_role("listbox").focus()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Home")
    page.keyboard.press("Escape")
    assert [values["selected"] for values in saved(page)] == [2, 1, 0, None]
    widths = [fill.bounding_box()["width"] for fill in root.locator(".fill").all()[:2]]
    assert widths[1] == pytest.approx(widths[0] / 4, abs=1)


def test_a_very_narrow_funnel_keeps_names_whole_and_apart_from_numbers(page, show):
    page.set_viewport_size({"width": 300, "height": 900})
    stages = [{"label": "checkout", "n": "74,380", "share": 1.0, "kept": 1.0, "note": ""}]
    root = show("funnel_view")
    receive(page, stages=stages, selected=None)
    settle(page)
    box = {
        name: root.locator(name).first.bounding_box() for name in ("h4", ".head span", ".label", ".n", ".bar")
    }
    page.set_viewport_size({"width": 1000, "height": 900})
    assert box[".label"]["height"] < 20
    assert box["h4"]["y"] + box["h4"]["height"] <= box[".head span"]["y"]
    assert box[".n"]["y"] + box[".n"]["height"] <= box[".bar"]["y"] and box[".bar"]["width"] > 200


CUT = "(all) => all.filter((one) => one.scrollWidth > one.clientWidth).map((one) => one.textContent)"


@pytest.mark.parametrize(
    "width, outdated, note",
    [
        (440, "", ""),
        (756, "Showing the last query that ran: a, then b", ""),
        (756, "", "some matches; numbers and order follow when all are counted"),
    ],
)
def test_the_head_of_a_table_cuts_nothing(page, show, width, outdated, note):
    page.set_viewport_size({"width": width, "height": 900})
    root = show("match_table")
    receive(page, total="2,442", n_pages="163", page=1, outdated=outdated, limit_note=note)
    settle(page)
    texts = root.locator(".head :is(h4, .total, .of, .chooser, .outdated, .note)").evaluate_all(CUT)
    order = root.locator(".order").bounding_box()["width"]
    page.set_viewport_size({"width": 1000, "height": 900})
    assert texts == [] and order > 110


def test_a_narrow_editor_says_the_whole_state(page, show):
    page.set_viewport_size({"width": 490, "height": 900})
    root = show("query_editor")
    receive(page, status={"state": "done", "message": "2,442 matches in 90 ms", "progress": None})
    settle(page)
    texts = root.locator(".head .word, .tab").evaluate_all(CUT)
    page.set_viewport_size({"width": 1000, "height": 900})
    assert root.locator(".tab").count() == 3 and texts == []


def test_a_narrow_stepper_shows_the_whole_event(page, show):
    page.set_viewport_size({"width": 440, "height": 900})
    root = show("stepper")
    receive(
        page, event=[["row", "338"], ["ts", "2026-01-05 09:37:16"]] + [[f"amount_{k}", "1"] for k in range(5)]
    )
    settle(page)
    is_cut = "(one) => one.scrollWidth > one.clientWidth || one.scrollHeight > one.clientHeight"
    cut = [
        one.inner_text()
        for one in root.locator(".title, .name, .panel:first-child .list").all()
        if one.evaluate(is_cut)
    ]
    page.set_viewport_size({"width": 1000, "height": 900})
    assert cut == []


def test_table_selects_and_turns_pages_beyond_2_to_the_53(page, show):
    root = show("match_table")
    assert root.locator("tr[aria-selected=true]").inner_text().split() == [
        f"{10**21 + 1:,}",
        str(10**21 + 1),
        "10:01",
    ]
    root.locator(".frame").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("End")
    page.keyboard.press("Escape")
    page.keyboard.press("PageDown")
    page.keyboard.press("PageUp")
    root.get_by_role("button", name="Last page").click()
    root.get_by_label("Page", exact=True).fill("77,000")
    page.keyboard.press("Enter")
    root.get_by_label("Page", exact=True).fill("none")
    page.keyboard.press("Enter")
    here = 50_000_000_000_000_000_001
    assert saved(page) == [
        {"selected": str(10**21 + 2)},
        {"selected": str(10**21 + 19)},
        {"selected": None},
        {"wanted_page": str(here + 1)},
        {"wanted_page": str(here - 1)},
        {"wanted_page": str(10**20)},
        {"wanted_page": "77000"},
    ]
    assert root.get_by_label("Page", exact=True).input_value() == str(here)
    assert root.locator(".total").inner_text() == "2,000,000,000,000,000,000,000"


def test_table_has_no_page_before_the_first(page, show):
    root = show("match_table")
    receive(page, page="1")
    assert root.get_by_role("button", name="Previous page").is_disabled()
    root.locator(".frame").focus()
    page.keyboard.press("PageUp")
    receive(page, page="7", n_pages="7")
    assert root.get_by_role("button", name="Next page").is_disabled()
    page.keyboard.press("PageDown")
    receive(page, n_pages="7 or more")
    assert root.get_by_role("button", name="Last page").is_disabled()
    assert saved(page) == []
    page.keyboard.press("PageDown")
    assert saved(page) == [{"wanted_page": "8"}]


def test_table_shows_numbers_of_matches_where_there_are_some(page, show):
    root = show("match_table")
    assert root.locator("th.number").inner_text() == "match"
    receive(page, numbers=[""] * 20)
    assert root.locator("th.number").count() == 0
    assert root.locator("tbody tr").first.locator("td").count() == 2


def filterable():
    """Return a table with filters, histograms, dates and full values."""
    bars = [
        {"label": "1 to below 2", "low": "", "high": "2", "n": 6, "kept": 6},
        {"label": "2 to below 3", "low": "2", "high": "3", "n": 3, "kept": 3},
        {"label": "3 to 4", "low": "3", "high": "", "n": 1, "kept": 1},
        {"label": "no value", "low": "empty", "high": "empty", "n": 2, "kept": 2},
    ]
    texts = [
        {"label": "AAA", "low": "AAA", "high": "", "n": 9, "kept": 9},
        {"label": "b, c", "low": '"b, c"', "high": "", "n": 2, "kept": 2},
        {"label": "7 more", "low": "", "high": "", "n": 1, "kept": 1},
    ]
    return MatchTable(
        columns=[
            {"name": "key", "align": "left", "kind": "text", "zone": ""},
            {"name": "start", "align": "left", "kind": "time", "zone": "UTC"},
            {"name": "top", "align": "right", "kind": "number", "zone": ""},
        ],
        rows=[
            ["AAA", f"2026-03-01 09:{k:02d}:00", f"{1000 + k:,}.{'5' * (k % 3)}".rstrip(".")]
            for k in range(9)
        ],
        full=[["AAA", f"2026-03-01 09:{k:02d}:00+00:00", f"{1000 + k}.{'5' * 9}"] for k in range(9)],
        numbers=range(1200, 1209), total="12", sortable=["key", "start", "top"], can_filter=True,
        heads={
            "top": {"kind": "number", "between": "..<", "says": "1 to 4", "bars": bars},
            "key": {"kind": "text", "between": ",", "says": "9 values", "bars": texts},
        },
    )  # fmt: skip


def filters_sent(page):
    return [values["wanted_filters"] for values in saved(page) if "wanted_filters" in values]


def test_table_filters_by_what_is_typed(page, show):
    root = show("match_table", filterable())
    field = root.get_by_label("Filter top")
    field.fill("> 3")
    field.press("Enter")
    field.press("Enter")  # the same filter is not sent twice
    assert filters_sent(page) == [{"top": "> 3"}]
    receive(page, filters={"top": "> 3"}, filtered="4 of 12 matches", wanted_filters={"top": "> 3"})
    assert root.locator(".total").inner_text() == "4 of 12 matches"
    root.get_by_label("Filter key").fill("aa")
    page.wait_for_function("hosts.widget.saved.length === 2")  # after a pause, without Enter
    assert filters_sent(page)[-1] == {"top": "> 3", "key": "aa"}
    receive(page, mistakes={"key": "'aa' is odd. Write more."}, filters={"top": "> 3", "key": "aa"})
    key = root.get_by_label("Filter key")
    assert key.get_attribute("aria-invalid") == "true" and key.input_value() == "aa"
    told = page.locator(f"[id='{key.get_attribute('aria-describedby')}']")
    assert told.inner_text() == "'aa' is odd. Write more." and told.is_visible()
    assert told.bounding_box()["y"] >= key.bounding_box()["y"] + key.bounding_box()["height"]
    key.press("Escape")
    assert filters_sent(page)[-1] == {"top": "> 3"}
    root.get_by_role("button", name="Remove all filters").click()
    assert filters_sent(page)[-1] == {}
    receive(page, filters={}, mistakes={}, filtered="", wanted_filters={})
    assert not root.get_by_role("button", name="Remove all filters").is_visible()
    receive(page, can_filter=False)
    assert root.get_by_label("Filter top").is_disabled()


def test_table_keeps_a_field_while_someone_types_in_it(page, show):
    root = show("match_table", filterable())
    field = root.get_by_label("Filter top")
    field.focus()
    page.keyboard.type("> 1")
    heads = {"top": {"kind": "number", "between": "..", "says": "1", "bars": []}}
    receive(page, filters={"top": ">"}, heads=heads, rows=[["B", "2026-03-02 10:00:00", "1"]], numbers=["7"])
    assert field.input_value() == "> 1" and field.evaluate("field => field === document.activeElement")


def test_table_filters_by_bars(page, show):
    root = show("match_table", filterable())
    bars = root.get_by_role("group", name="top: 1 to 4")
    bar = bars.get_by_role("button")
    assert bar.nth(1).get_attribute("aria-label") == "2 to below 3: 3 matches"
    bar.nth(1).click()
    assert filters_sent(page) == [{"top": "2..<3"}]
    boxes = [bar.nth(k).bounding_box() for k in (0, 1)]
    page.mouse.move(boxes[0]["x"] + 2, boxes[0]["y"] + 4)
    page.mouse.down()
    page.mouse.move(boxes[1]["x"] + 3, boxes[1]["y"] + 4)
    assert bars.locator(".brushed").count() == 2
    assert root.locator(".note").inner_text() == "top, 2 to below 3: 3 matches"
    page.mouse.up()
    assert filters_sent(page)[-1] == {"top": "..<3"} and bars.locator(".brushed").count() == 0
    bar.nth(3).click()
    assert filters_sent(page)[-1] == {"top": "empty"}
    receive(page, filters={"top": "empty"}, wanted_filters={"top": "empty"})
    bar.nth(3).click()  # once more: without it
    assert filters_sent(page)[-1] == {}
    receive(page, filters={}, wanted_filters={})
    texts = root.get_by_role("group", name="key: 9 values").get_by_role("button")
    texts.nth(1).click()
    assert filters_sent(page)[-1] == {"key": '="b, c"'}
    n = len(filters_sent(page))
    texts.nth(2).click(force=True)  # the others have no filter
    assert len(filters_sent(page)) == n


def test_table_bars_are_one_stop_of_the_keyboard(page, show):
    root = show("match_table", filterable())
    root.get_by_role("button", name="top", exact=False).first.focus()
    page.keyboard.press("Tab")
    label = "document.activeElement.getAttribute('aria-label')"
    assert page.evaluate(label).startswith("1 to below 2: 6 matches")
    page.keyboard.press("ArrowRight")
    assert page.evaluate(label).startswith("2 to below 3")
    page.keyboard.press("Shift+ArrowRight")
    page.keyboard.press("Enter")
    assert filters_sent(page) == [{"top": "2.."}]
    page.keyboard.press("Tab")
    assert page.evaluate(label).startswith("Filter top: such as > 3")
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Delete")
    assert filters_sent(page)[-1] == {}


def test_table_hides_columns(page, show):
    root = show("match_table", filterable())
    chooser = root.get_by_role("button", name="Choose the shown columns")
    chooser.focus()
    page.keyboard.press("Enter")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Space")
    assert saved(page) == [{"hidden": ["start"]}]
    assert root.locator("th:not(.number) .sort").all_inner_texts() == ["key↕", "top↕"]
    assert root.locator("tbody tr").first.locator("td").all_inner_texts() == ["1,200", "AAA", "1,000"]
    assert chooser.inner_text() == "Columns 2/3"
    page.keyboard.press("Escape")
    assert chooser.evaluate("button => button === document.activeElement")
    assert root.get_by_role("dialog").count() == 0
    receive(page, columns=filterable().columns[1:], rows=[["2026-03-01 09:30:00", "1"]], hidden=["gone"])
    assert root.locator("th").count() == 3 and chooser.inner_text() == "Columns"


def test_table_says_a_date_once(page, show):
    root = show("match_table", filterable())
    assert root.locator("th .date").nth(1).inner_text() == "2026-03-01"
    assert root.locator(".head .zone").inner_text() == "times in UTC"  # once for all columns
    assert root.locator("tbody tr td:nth-child(3)").first.inner_text() == "09:00:00"
    days = ["2026-03-01", "2026-03-01", "2026-03-02", "2026-03-02"]
    receive(
        page, rows=[["AAA", f"{day} 10:00:00", "1"] for day in days], full=[], numbers=["1", "2", "3", "4"]
    )
    assert root.locator("th .date").nth(1).inner_text() == ""
    cells = root.locator("tbody tr td:nth-child(3)")
    shown = [text.split() for text in cells.all_inner_texts()]
    assert shown == [["2026-03-01", "10:00:00"], ["10:00:00"], ["2026-03-02", "10:00:00"], ["10:00:00"]]
    assert cells.nth(1).get_attribute("title") == "2026-03-01 10:00:00"


def test_table_cuts_no_value_and_keeps_the_first_column(page, show):
    table = filterable()
    names = [f"measure_{k}" for k in range(12)]
    table.columns = [{"name": name, "align": "right", "kind": "number", "zone": ""} for name in names]
    table.rows = [["123,456,789,012.25"] * 12 for _ in range(9)]
    root = show("match_table", table)
    frame = root.locator(".frame")
    assert frame.evaluate("frame => frame.scrollWidth > frame.clientWidth")
    cut = "cells => cells.filter(cell => cell.scrollWidth > cell.clientWidth).length"
    assert root.locator("td, th").evaluate_all(cut) == 0
    frame.evaluate("frame => { frame.scrollLeft = 700 }")
    left = frame.bounding_box()["x"]
    assert abs(root.locator("tbody td.number").first.bounding_box()["x"] - left) < 3
    assert abs(root.locator("th.number").bounding_box()["x"] - left) < 3


def test_table_copies_full_values(page, show):
    root = show("match_table", filterable())
    copy = """() => {
      const data = new DataTransfer();
      const target = document.activeElement.closest?.(".frame") ?? document.querySelector(".frame");
      const event = new ClipboardEvent("copy", { clipboardData: data, bubbles: true, cancelable: true });
      target.dispatchEvent(event);
      return data.getData("text/plain");
    }"""
    assert page.evaluate(copy) == ""
    receive(page, selected="1202")
    root.locator(".frame").focus()
    value = "1002.555555555"
    assert page.evaluate(copy) == f"match\tkey\tstart\ttop\n1202\tAAA\t2026-03-01 09:02:00+00:00\t{value}"
    mark = """() => {
      const cells = document.querySelectorAll("tbody tr:nth-child(2) td");
      getSelection().setBaseAndExtent(cells[2], 0, cells[3], cells[3].childNodes.length);
    }"""
    page.evaluate(mark)
    assert page.evaluate(copy) == "2026-03-01 09:01:00+00:00\t1001.555555555"
    assert root.locator("tbody tr").nth(1).locator("td").nth(3).get_attribute("title") == "1001.555555555"


def test_table_sorts_where_it_may(page, show):
    root = show("match_table")
    header = root.locator("th").nth(2)
    assert header.get_attribute("aria-sort") == "ascending"
    header.get_by_role("button").click()
    root.get_by_label("Order of the matches").select_option("reverse")
    assert saved(page) == [{"wanted_order": "start down"}, {"wanted_order": "reverse"}]
    for _ in range(2):  # faster than Python answers
        header.get_by_role("button").click()
    assert saved(page)[2:] == [{"wanted_order": "start up"}, {"wanted_order": "start down"}]
    receive(page, sortable=[], order="canonical", busy=True, limit_note="too many to sort")
    assert root.locator("th button").count() == 0
    assert root.locator("tbody tr").count() == 20  # stay while others are on their way
    assert root.locator("[aria-busy=true]").count() == 1
    assert root.locator(".note").inner_text() == "too many to sort"


def test_sliders_report_once_per_frame_and_are_not_pulled_back(page, show):
    root = show("slider_panel")
    slider = root.locator("input").first
    drag = """() => {
      const slider = document.querySelector("input");
      for (const value of [1.75, 2, 2.25]) { slider.value = value; slider.dispatchEvent(new Event("input")); }
      return hosts.widget.saved.length;
    }"""
    assert page.evaluate(drag) == 1  # the first movement at once, the others with the next frame
    moved = [{"moved": {"id": "a", "value": value, "n": n}} for n, value in ((1, 1.75), (2, 2.25))]
    assert wait_for_saved(page, 2) == moved
    receive(page, sliders=[{**one, "value": 1.75} for one in full("slider_panel").sliders])
    assert slider.input_value() == "2.25"  # an answer to an earlier movement
    slider.focus()
    page.keyboard.press("ArrowRight")
    assert wait_for_saved(page, 3)[-1] == {"moved": {"id": "a", "value": 2.5, "n": 3}}
    assert root.locator(".said-value").first.inner_text() == "€"
    assert root.locator(".field").first.input_value() == "2.5"
    receive(page, sliders=[{**one, "value": 2.5, "text": "5/2"} for one in full("slider_panel").sliders])
    assert root.locator(".field").first.input_value() == "5/2"


def slider(id, value, low=0, high=10, step=0.5, **more):
    """Return the trait of a slider."""
    plain = {"label": f"x > {value}", "unit": "", "text": f"{value}", "stops": []}
    return {"id": id, "value": value, "low": low, "high": high, "step": step, **plain, **more}


def moves(page):
    """Return the reported movements as (id, value)."""
    return [(one["moved"]["id"], one["moved"]["value"]) for one in saved(page) if "moved" in one]


def test_a_value_is_typed(page, show):
    root = show("slider_panel", KINDS["slider_panel"](sliders=[slider("a", 3), slider("b", 4)]))
    field = root.locator(".field").first
    assert field.get_attribute("aria-label") == "Value of x > 3"
    field.fill("2,000.75")
    assert moves(page) == []  # not while a person types
    field.press("Enter")
    assert moves(page) == [("a", 2000.75)]
    receive(page, sliders=[slider("a", 2000.75, high=2001), slider("b", 4)])
    assert root.locator(".track").first.input_value() == "2000.75"
    field.fill("−3x")
    field.press("Enter")
    assert "wrong" in field.get_attribute("class") and moves(page)[1:] == []
    field.press("Escape")
    assert field.input_value() == "2000.75" and "wrong" not in field.get_attribute("class")
    field.press("ArrowDown")  # the next step
    page.wait_for_function("hosts.widget.saved.length > 1")
    assert moves(page)[1:] == [("a", 2000.5)]
    field.fill("7")
    root.locator(".field").nth(1).focus()  # leaving it is enough
    assert moves(page)[2:] == [("a", 7)]
    # Each typed value is a change of its own; the arrow key between them belongs to none of them.
    assert [one["gesture"] for one in saved(page) if "gesture" in one] == [1, 0, 2]


def test_arrow_keys_choose_round_numbers(page, show):
    stops = [0, 1, 2, 5, 10, 20, 50, 100, 1000]
    sliders = [slider("a", 3.14, -20, 20, 0.2), slider("b", 20, 0, 1000, 1, stops=stops)]
    root = show("slider_panel", KINDS["slider_panel"](sliders=sliders))
    for place, keys in enumerate([["Right", "Right", "Left"], ["Up", "Up", "Down"]]):
        root.locator(".track").nth(place).focus()
        for n, key in enumerate(keys):
            page.keyboard.press(f"Arrow{key}")
            page.wait_for_function("(n) => hosts.widget.saved.length == n", arg=3 * place + n + 1)
    assert moves(page) == [("a", 3.2), ("a", 3.4), ("a", 3.2), ("b", 50), ("b", 100), ("b", 50)]
    track = root.locator(".track").nth(1)
    assert (track.get_attribute("min"), track.get_attribute("max")) == ("0", "8")
    assert track.get_attribute("aria-valuetext") == "50" and track.input_value() == "6"


def test_a_drag_has_one_number_and_changes_are_taken_back(page, show):
    root = show("slider_panel", KINDS["slider_panel"](sliders=[slider("a", 5)]))
    box = root.locator(".track").bounding_box()
    y = box["y"] + box["height"] / 2
    for begin in (0.5, 0.2):
        page.mouse.move(box["x"] + begin * box["width"], y)
        page.mouse.down()
        for share in (0.6, 0.7, 0.8):
            page.mouse.move(box["x"] + share * box["width"], y)
            settle(page)
        page.mouse.up()
    gestures = [values["gesture"] for values in saved(page) if "gesture" in values]
    assert [one for k, one in enumerate(gestures) if one and one not in gestures[:k]] == [1, 2]
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Control+z")
    page.keyboard.press("Control+y")
    assert [one["wanted_step"]["what"] for one in saved(page)[-2:]] == ["undo", "redo"]
    assert saved(page)[-3]["gesture"] == 0 and saved(page)[-3]["moved"]["value"] == 7.5


def test_hidden_sliders_are_counted(page, show):
    root = show("slider_panel", KINDS["slider_panel"](sliders=[slider(f"c{k}", k) for k in range(40)]))
    root.evaluate("root => (root.style.height = '220px')")
    settle(page)
    assert "more below" in root.get_by_role("button", name="Show more constants").inner_text()
    root.locator(".list").evaluate("list => list.scrollTo(0, 1e6)")
    settle(page)
    assert "more above" in root.locator(".more").inner_text()
    receive(page, sliders=[slider("c0", 1), slider("c1", 2)])
    settle(page)  # the panel reads places once per frame
    assert not root.locator(".more").is_visible()


def test_stepper_names_the_row_and_no_second_number(page, show):
    root = show("stepper")
    receive(page, event=[["row", "1008"], ["price", "1"]], position=7)
    assert root.locator(".where").inner_text() == "row 1008, 3 left"
    receive(page, event=[["row", "1009"], ["price", "1"]], position=9)
    assert root.locator(".where").inner_text() == "row 1009, 1 left"
    receive(page, event=[], position=0)
    assert root.locator(".where").inner_text() == "0 of 10 events"


def test_stepper_reports_where_to_go(page, show):
    root = show("stepper")
    for name in (
        "Before the first event",
        "One event back",
        "One event forward",
        "Forward to the next event",
    ):
        root.get_by_role("button", name=name).click()
        settle(page)
        receive(page, position=4)
        page.evaluate("hosts.widget.receive({ position: hosts.widget.model.get('wanted').to })")
        receive(page, position=4)
    root.get_by_role("button", name="One event back").focus()
    page.keyboard.press("ArrowRight")
    wait_for_saved(page, 5)
    root.locator("input").focus()
    page.keyboard.press("ArrowRight")
    wishes = [values["wanted"] for values in wait_for_saved(page, 6)]
    assert [wish["to"] for wish in wishes] == [0, 3, 5, -1, 5, 6]
    assert [wish["n"] for wish in wishes] == [1, 2, 3, 4, 5, 6]
    receive(page, position=6)
    receive(page, position=10, live=[], completed=[])
    assert root.get_by_role("button", name="One event forward").is_disabled()
    assert "No match ends at this event." in root.inner_text()


def test_reasons_say_in_words_what_is_met(page, show):
    root = show("reason_view")
    assert [" ".join(text.split()) for text in root.locator("li").all_inner_texts()] == [
        "✓ met event type is B",
        "✗ not met b.price > a.price",
        "The furthest partial match got to a.",
    ]


# --- kept cases and taking away ---------------------------------------------------------------------------


def test_an_empty_list_of_cases_says_how_to_keep_one(page, show):
    from cepkit.widgets.panels import CaseView

    page.set_viewport_size({"width": 320, "height": 900})
    root = show("case_view", CaseView())
    height = "(root) => ((root.style.height = 'auto'), root.offsetHeight)"
    hint, is_whole = root.locator(".hint"), "(hint) => hint.scrollWidth <= hint.clientWidth"
    assert "Select a match" in root.inner_text() and hint.evaluate(is_whole)
    receive(page, offers=FULL["case_view"]["offers"])
    assert "✗ as one that must not" in hint.inner_text() and hint.evaluate(is_whole)
    receive(page, cases=FULL["case_view"]["cases"] * 30)
    assert hint.is_hidden()
    page.set_viewport_size({"width": 1000, "height": 900})
    assert root.evaluate(height) <= 300  # the list scrolls


def test_cases_are_kept_by_click_and_by_key(page, show):
    root = show("case_view")
    root.get_by_role("button", name="must match").first.click()
    root.locator("select").select_option("range")
    root.get_by_role("button", name="must not").first.click()
    root.locator(".show").first.focus()
    page.keyboard.press("k")
    page.keyboard.press("Shift+K")
    root.locator("select").focus()
    page.keyboard.press("k")  # in a selector, letters choose
    wished = [{key: of for key, of in one["wanted"].items() if key not in ("by", "n")} for one in saved(page)]
    assert wished == [
        {"act": "keep", "what": "match", "must": True},
        {"act": "keep", "what": "range", "must": False},
        {"act": "keep", "what": "range", "must": True},
        {"act": "keep", "what": "range", "must": False},
    ]
    receive(page, offers=[{"id": "rows", "text": "row 9"}])
    assert root.locator("select").input_value() == "rows"


def test_a_case_is_shown_tested_and_removed(page, show):
    root = show("case_view")
    root.locator(".show").nth(1).click()
    root.locator(".test").nth(1).click()
    wishes = [one["wanted"] for one in saved(page)]
    assert [(one["act"], one["number"]) for one in wishes] == [("show", 1), ("test", 1)]
    page.evaluate("(wish) => hosts.widget.hear({ by: wish.by, n: wish.n - 1, text: 'old' })", wishes[1])
    assert root.locator(".test").nth(1).inner_text() == "…"
    page.evaluate("(wish) => hosts.widget.hear({ by: wish.by, n: wish.n, text: 'def test(): …' })", wishes[1])
    assert root.locator(".test").nth(1).inner_text() == "copied"
    area = "Object.assign(document.body.appendChild(document.createElement('textarea')), { id: 'paste' })"
    page.evaluate(f"{area}.focus()")
    page.keyboard.press("Control+v")
    assert page.locator("#paste").input_value() == "def test(): …"
    root.locator(".test").first.click()
    page.evaluate("(n) => hosts.widget.hear({ ...hosts.widget.model.get('wanted'), error: 'no source' })", 0)
    assert root.locator(".told").inner_text() == "no source"
    root.locator(".show").nth(2).focus()
    page.keyboard.press("Delete")
    assert saved(page)[-1]["wanted"]["act"] == "drop" and saved(page)[-1]["wanted"]["number"] == 2
    assert not root.locator(".told").is_visible()


def test_ticks_of_an_earlier_query_are_pale(page, show):
    root = show("case_view")
    opacity = "(mark) => getComputedStyle(mark).opacity"
    assert root.locator(".mark").first.evaluate(opacity) == "1"
    receive(page, stale=True)
    assert float(root.locator(".mark").first.evaluate(opacity)) < 1


def test_a_case_is_named_by_its_text_and_described_by_its_verdict(page, show):
    root = show("case_view")
    name = "✗ no match AAB, 09:42:02 to 09:42:37, 37 rows"
    case = root.get_by_role("button", name=name, exact=True)
    assert case.get_attribute("title").startswith("fails: A match takes a row of this range.")


def test_a_file_is_downloaded_from_the_bytes_of_a_message(page, show, tmp_path):
    root = show("take_bar")
    root.get_by_role("button", name="CSV").click()
    wish = saved(page)[0]["wanted"]
    assert wish["id"] == "csv" and root.locator("[data-id=csv]").get_attribute("aria-busy") == "true"
    root.locator("[data-id=csv]").click()
    assert len(saved(page)) == 1  # one file at a time
    answer = {
        "by": wish["by"],
        "n": wish["n"],
        "file": "matches.csv",
        "mime": "text/csv",
        "note": "the first 5",
    }
    send = "([answer, bytes]) => hosts.widget.hear(answer, bytes)"
    page.evaluate(send, [{**answer, "by": "another view"}, "YSxiCjEsMgo="])
    with page.expect_download() as download:
        page.evaluate(send, [answer, "YSxiCjEsMgo="])
    download.value.save_as(tmp_path / "a.csv")
    assert download.value.suggested_filename == "matches.csv"
    assert (tmp_path / "a.csv").read_text() == "a,b\n1,2\n"
    assert root.locator(".told").inner_text() == "the first 5"
    root.locator("[data-id=csv]").click()
    page.evaluate(send, [{"by": wish["by"], "n": 2, "error": "the disk is full"}, ""])
    assert root.locator(".told").inner_text() == "the disk is full"
    page.keyboard.press("Escape")
    assert not root.locator(".told").is_visible()


def test_code_is_copied_at_once(page, show):
    root = show("take_bar")
    assert root.locator("[data-id=html]").is_disabled()
    root.locator("[data-id=line]").click()
    assert saved(page) == [] and root.locator(".told").inner_text() == "a placeholder"
    area = "Object.assign(document.body.appendChild(document.createElement('textarea')), { id: 'paste' })"
    page.evaluate(f"{area}.focus()")
    page.keyboard.press("Control+v")
    assert page.locator("#paste").input_value() == "ls"


@pytest.mark.parametrize("stem", STEMS)
def test_a_dark_page_of_colab_is_readable(page, show, stem):
    show(stem)
    page.evaluate(
        """() => {
          document.body.removeAttribute("style");
          delete document.body.dataset.jpThemeLight;
          document.documentElement.setAttribute("theme", "dark");
          document.body.style.background = "#1e1e1e";
        }"""
    )
    try:
        assert page.evaluate(PALE) == []
    finally:
        page.evaluate("document.documentElement.removeAttribute('theme')")
