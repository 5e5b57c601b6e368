"""The browser half of the views of results: they draw, follow, report one selection, and leave nothing."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

from cepkit.cache import shipped
from cepkit.parallel.views import BufferView, ThreadView
from cepkit.shedding.plots import ROWS
from cepkit.shedding.views import LoadView, UtilityView
from cepkit.widgets.scene_view import LineageView
from tests.support.contrast import pale_texts
from tests.support.traces import EXAMPLE, trace_of
from tests.support.view_cases import GOOD, RATES, replayed
from tests.support.widget_page import as_json, check_ids, mount, receive, sent, set_theme

pytestmark = pytest.mark.browser

# Three matches of two or three events, two of them shared, and the chains of SEQ(a x, b y) over a a b b.
LINES = pd.DataFrame(
    [(0, "x", 0, 10), (0, "y", 2, 12), (1, "x", 1, 11), (1, "y", 2, 12), (2, "x", 0, 10), (2, "y", 3, 13)],
    columns=["match", "variable", "position", "index"],
)
CHAINS = pd.DataFrame(
    [(0, 0, "x", 0, -1, 0), (0, 0, "x", 1, -1, 0), (1, 1, "y", 2, 0, 2), (1, 1, "y", 3, 0, 2)],
    columns=["chain", "component", "variable", "position", "before", "shared"],
)
NOTHING = trace_of([], n_threads=2)

FULL = {
    "thread_view": lambda: ThreadView(EXAMPLE, rates=[RATES], title="a run"),
    "buffer_view": lambda: BufferView(EXAMPLE, rates=[RATES], title="a run"),
    "utility_view": lambda: UtilityView(pd.DataFrame(GOOD), threshold=0.6, title="a table"),
    "load_view": lambda: LoadView(replayed(), title="a run"),
    "lineage_view": lambda: LineageView(LINES, chains=CHAINS, title="matches", size=3),
}


def without_events() -> LoadView:
    """Return a view of a run in which nothing arrived."""
    view = LoadView(replayed())
    nothing = {name: np.empty(0) for name in ROWS}
    types = {name: np.empty(0) for name in view._history.arrived}
    view._history = replace(view._history, at=nothing, values=nothing, arrived=types, dropped=types)
    view._redraw()
    return view


EMPTY = {
    "load_view": (without_events, "no event after the warm-up"),
    "thread_view": (lambda: ThreadView(NOTHING), "no thread did anything"),
    "buffer_view": (lambda: BufferView(NOTHING), "All queues and buffers were empty."),
    "utility_view": (lambda: UtilityView(pd.DataFrame({"state": [], "utility": []})), "no utilities"),
    "lineage_view": (lambda: LineageView(LINES.head(0)), "no match"),
}
STEMS = sorted(FULL)


@pytest.fixture
def show(page):
    """Return a function that draws a view and returns its root."""

    def show(stem, view=None):
        mount(page, view or FULL[stem]())
        return page.locator(".cepkit-scene_view")

    return show


def said(root):
    return root.locator(".said").inner_text()


def drawing(root):
    return root.locator("svg[role=application]")


def click(root, x, y):
    """Click a point of the drawing, in pixels of the drawing."""
    drawing(root).click(position={"x": x, "y": y})


# --- all of them ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stem", STEMS)
def test_every_text_is_read_in_both_themes(page, show, stem):
    show(stem)
    assert pale_texts(page) == {"light": [], "dark": []}


@pytest.mark.parametrize("stem", STEMS)
def test_any_number_of_views_share_a_page(page, stem):
    for name in ("first", "second", "third"):
        mount(page, FULL[stem](), name)
    check_ids(page, 3)


@pytest.mark.parametrize("stem", STEMS)
def test_a_narrow_view_cuts_no_text(page, show, stem):
    page.set_viewport_size({"width": 560, "height": 900})
    root = show(stem)
    edges = root.evaluate(
        "(root) => [...root.querySelectorAll('svg[role=application] text')].map((text) => {"
        " const [box, all] = [text.getBoundingClientRect(), root.getBoundingClientRect()];"
        " return [text.textContent, Math.max(all.left - box.left, box.right - all.right)]; })"
    )
    is_cut = root.locator(".said").evaluate(
        "(line) => { const words = new Range(); words.selectNodeContents(line);"
        " return words.getBoundingClientRect().bottom > line.getBoundingClientRect().bottom; }"
    )
    page.set_viewport_size({"width": 1000, "height": 900})
    assert [text for text, beyond in edges if beyond > 1] == [] and not is_cut


def test_names_of_agents_begin_inside_their_bars(page, show):
    root = show("thread_view")
    places = (
        "(root) => [...root.querySelectorAll('.letter')].map((text) => text.getBoundingClientRect().left)"
    )
    bars = "(root) => [...root.querySelectorAll('path.bar')].map((bar) => bar.getBoundingClientRect().left)"
    letters, starts = root.evaluate(places), root.evaluate(bars)
    assert any(1 < letters[0] - start < 6 for start in starts)


def test_the_module_and_the_sheet_keep_the_rules():
    view = FULL["load_view"]()
    module, sheet = str(view._esm), str(view._css)
    assert module.count("export ") == 1 and module.endswith("export default { render };\n")
    code = re.sub(r"//.*", "", module.replace("http://www.w3.org", ""))
    assert not re.search(r"\bimport\b|https?:|fetch\(|innerHTML", code)
    own = shipped("widgets", "scene_view.css").read_text()
    rules = re.sub(r"\{[^}]*\}", "", re.sub(r"/\*.*?\*/", "", own, flags=re.S))
    selectors = [one.strip() for one in re.split(r",\s*\n|\n", rules) if one.strip()]
    themes = ('body[data-jp-theme-light="false"] ', ".vscode-dark ")
    plain = [selector.removeprefix(themes[0]).removeprefix(themes[1]) for selector in selectors]
    assert selectors and all(selector.startswith(".cepkit-scene_view") for selector in plain)
    assert "url(" not in sheet and "--jp-content-font-color1" in sheet


@pytest.mark.parametrize("stem", STEMS)
def test_it_draws_in_both_themes_and_in_words(page, show, stem):
    root = show(stem)
    assert root.locator(".title").inner_text() in ("a run", "a table", "matches")
    label = drawing(root).get_attribute("aria-label")
    assert "arrow keys" in label and drawing(root).get_attribute("tabindex") == "0"
    heights = root.bounding_box()["height"]
    colours = []
    for theme in ("light", "dark"):
        set_theme(page, theme)
        colours.append(root.evaluate("(one) => getComputedStyle(one).color"))
    assert colours == ["rgba(0, 0, 0, 0.87)", "rgb(255, 255, 255)"]
    receive(page, title="another")
    assert root.locator(".title").inner_text() == "another" and root.bounding_box()["height"] == heights


@pytest.mark.parametrize("stem", STEMS)
def test_it_says_when_there_is_nothing(show, stem):
    make, words = EMPTY[stem]
    root = show(stem, make())
    assert words in drawing(root).text_content()
    drawing(root).press("ArrowRight")
    drawing(root).press("ArrowDown")
    drawing(root).hover(position={"x": 200, "y": 20})


@pytest.mark.parametrize("stem", STEMS)
def test_keys_select_and_escape_selects_nothing(page, show, stem):
    root = show(stem)
    drawing(root).focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowDown", "ArrowLeft", "ArrowUp"):
        drawing(root).press(key)
    chosen = sent(page, "picked")
    assert chosen and all(one for one in chosen) and said(root)
    drawing(root).press("Escape")
    assert sent(page, "picked")[-1] == []
    outline = drawing(root).evaluate("(one) => getComputedStyle(one).outlineStyle")
    assert outline == "solid"
    # JupyterLab would take the keys of others in its command mode.
    own = root.locator("button, svg[tabindex]").all()
    assert {one.get_attribute("data-lm-suppress-shortcuts") for one in own} == {"true"}


# --- each -------------------------------------------------------------------------------------------------


def boxes(page, selector):
    """Return class, left and width of drawn shapes, in pixels of the drawing."""
    return page.evaluate(
        """(selector) => [...document.querySelectorAll(selector)].map((shape) => {
          const box = shape.getBBox();
          return [shape.getAttribute("class"), box.x, box.width];
        })""",
        selector,
    )


def middle(root, selector, n=0):
    """Return the middle of a drawn shape, in pixels of the drawing."""
    root.locator(selector).nth(n).wait_for(state="attached")
    # In one step of the page, which may draw the scene again between two.
    return root.evaluate(
        """(root, [selector, n]) => {
          const shape = root.querySelectorAll(selector)[n];
          const [box, all] = [shape, shape.ownerSVGElement].map((part) => part.getBoundingClientRect());
          return [box.x - all.x + box.width / 2, box.y - all.y + box.height / 2];
        }""",
        [selector, n],
    )


def test_lanes_are_drawn_where_the_time_was_spent(page, show):
    root = show("thread_view")
    lanes = root.locator("text.side").all_text_contents()
    assert lanes[0].startswith("source") and "mostly agent b, takes events" in lanes[1]
    drawn = boxes(page, "g[clip-path] path.bar")
    left, width = drawn[0][1], drawn[0][2] * 10  # the source works for a tenth of the time
    assert [name for name, *_ in drawn] == ["bar an", "bar a0", "bar a0", "bar a1", "bar a1"]
    for k, (start, end) in {0: (0, 10), 1: (10, 30), 4: (40, 90), 3: (90, 100)}.items():
        assert drawn[k][1] == pytest.approx(left + start / 100 * width, abs=1)
        assert drawn[k][2] == pytest.approx((end - start) / 100 * width, abs=1)
    assert root.locator("text.letter").all_text_contents()[0] == "b"
    assert root.locator("table tr").count() == 4 and "cost model" in root.locator("table").inner_text()
    patterns = root.locator("pattern").all()
    assert len({one.get_attribute("id") for one in patterns}) == len(patterns) > 2


def test_a_segment_or_an_agent_is_selected(page, show):
    view = FULL["thread_view"]()
    root = show("thread_view", view)
    click(root, *middle(root, "g[clip-path] path.bar", 4))
    assert said(root) == "thread 1: c+, takes partial matches, from 40 ns for 50 ns, 2 taken"
    view.picked = sent(page, "picked")[-1]
    wanted = {"thread": 1, "agent": "c+", "action": "partials", "start": 40, "end": 90}
    assert view.selected == wanted and view.frames[0][:3] == [0, 40, 90]
    receive(page, frames=view.frames)
    assert root.locator("path.chosen.on").count() == 1
    root.locator("button.agent").first.click()
    view.picked = sent(page, "picked")[-1]
    assert view.selected == {"agent": "b"} and view.frames == []
    receive(page, scene=as_json(view.scene))
    assert root.locator("g[clip-path] path.bar[opacity='0.14']").count() == 3
    assert root.locator("button.agent").first.get_attribute("aria-pressed") == "true"
    view.selected = wanted
    assert view.picked == [] and view.frames[0][:3] == [0, 40, 90]


def test_two_views_in_a_page_have_their_own_ids(page):
    for name in ("widget", "other"):
        mount(page, FULL["thread_view"](), name)
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map((one) => one.id)")
    assert len(ids) == len(set(ids)) > 2


def test_latency_backlog_and_drops_are_drawn(page, show):
    view = FULL["load_view"]()
    root = show("load_view", view)
    assert root.locator("g[clip-path] path.bar").count() == 4 and root.locator("rect.cell").count() >= 1
    assert root.locator("g[clip-path] path.line").count() == 7
    notes = root.locator("text.noted").all_text_contents()
    for name, at in view._history.arrived.items():
        assert f"{len(view._history.dropped[name])} of {len(at)} dropped" in notes
    assert "bound 0.0001" in notes
    drawing(root).focus()
    rows = []
    for key in ("ArrowRight", "ArrowDown", "ArrowDown", "ArrowDown"):
        drawing(root).press(key)
        view.picked = sent(page, "picked")[-1]
        rows.append(view.selected["row"])
    assert rows == ["latency", "waiting", "partial_matches", "a"]
    assert set(view.selected) == {"row", "start", "end", "arrived", "dropped"}
    assert said(root).startswith("type a: ")
    assert [frame[-1] for frame in view.frames] == ["cursor"] * 4


@pytest.mark.parametrize("stem", ["thread_view", "buffer_view"])
def test_a_part_of_the_time_is_asked_for(page, show, stem):
    root = show(stem)
    box = drawing(root).bounding_box()
    x, y = box["x"] + 200, box["y"] + 40
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 100, y)
    page.mouse.up()
    page.wait_for_function("hosts.widget.saved.some((one) => 'window' in one)", timeout=3000)
    low, high = sent(page, "window")[-1]
    assert 0 < low < high < 100 and sent(page, "picked") == []
    root.get_by_role("button", name="show all of the time").click()
    page.wait_for_function("hosts.widget.saved.filter((one) => 'window' in one).length > 1", timeout=3000)
    assert sent(page, "window")[-1] == [0, 100]
    root.get_by_role("button", name="zoom in").click()
    page.wait_for_function("hosts.widget.saved.filter((one) => 'window' in one).length > 2", timeout=3000)
    assert sent(page, "window")[-1] == [25, 75]
    drawing(root).dblclick(position={"x": 300, "y": 40})  # and away before it is reported: no timer stays


def test_lines_of_lengths_and_levels_of_models(page, show):
    root = show("buffer_view")
    assert root.locator("g[clip-path] path.line").count() == 4 * 3 + 6
    assert root.locator("path.area").count() == 12
    dashes = {one.get_attribute("stroke-dasharray") for one in root.locator(".legend path.line").all()}
    assert len(dashes) == 3
    notes = root.locator("text.noted").all_text_contents()
    assert notes[:4] == ["e·W:", "b 10", "c+ 20 (above)", "d 2.5"]
    assert "events in buffers" in root.locator("text.label").all_text_contents()
    assert "e·W: events arrive at rate e" in root.locator(".below").text_content()
    assert "1.4, 3 (e·W 10)" in root.locator("table").inner_text()


def test_a_length_at_a_time_is_selected(page, show):
    view = FULL["buffer_view"]()
    root = show("buffer_view", view)
    root.locator("button.agent").nth(1).click()
    view.picked = sent(page, "picked")[-1]
    assert view.selected == {"agent": "c+"}
    drawing(root).focus()
    for key in ("ArrowRight", "ArrowDown", "ArrowDown", "ArrowDown"):
        drawing(root).press(key)
    view.picked = sent(page, "picked")[-1]
    chosen = view.selected
    assert (chosen["length"], chosen["agent"], chosen["start"]) == ("partial_queue", "b", 0)
    assert said(root).startswith("agent b, partial matches in queues: 0 on average, 0 to 0, at ")
    assert len(view.frames) == 4 and view.frames[0][-1] == "cursor"
    receive(page, frames=view.frames)
    assert root.locator("path.chosen.cursor").count() == 4


def test_cells_and_bars_of_utilities(page, show):
    view = FULL["utility_view"]()
    root = show("utility_view", view)
    assert root.locator("text.value").all_text_contents() == ["0.5", "1"]
    assert root.locator("rect.cell").count() == 2
    assert "threshold 0.6: 33.3 % of all up to it" in drawing(root).text_content()
    click(root, *middle(root, "rect.cell", 1))
    view.picked = sent(page, "picked")[-1]
    cell = {"row": "B", "event_type": "B", "position": [1, 2], "utility": 1, "n": 2}
    assert view.selected == cell and view.frames == [[0, 1, 2, 1.46, 0.54, "on"]]
    assert said(root) == "B, position from 1: utility 1, 2 seen"
    (bars,) = [item for item in view._shown.panels[1].items if item.look.name == "seen"]
    assert np.flatnonzero(bars.y1).tolist() == [39]  # bars are those of the row
    receive(page, scene=as_json(view.scene), frames=view.frames)
    assert root.locator("path.chosen").count() == 1
    click(root, *middle(root, "text.side", 0))
    view.picked = sent(page, "picked")[-1]
    assert view.selected == {"row": "A", "event_type": "A", "n": 1}
    view.selected = None
    view.picked = [1, 0, 39]
    assert view.selected == {"utility": [pytest.approx(0.975), 1], "n": 2}
    assert [frame[0] for frame in view.frames] == [1, 0]
    view.threshold = None
    assert "threshold" not in str(view.scene)


def test_matches_events_and_chains_light_what_belongs_to_them(page, show):
    view = FULL["lineage_view"]()
    root = show("lineage_view", view)
    assert root.locator("text.side").all_text_contents()[-5:] == ["match 0", "match 1", "match 2", "x", "y"]
    click(root, *middle(root, "g[clip-path] path.bar", 0))
    view.picked = sent(page, "picked")[-1]
    assert view.selected == {"event": 0} and said(root) == "event 10: in 2 of the 3 matches shown"
    receive(page, scene=as_json(view.scene), frames=view.frames)
    assert root.locator("path.chosen.column").count() == 3  # in each panel
    assert root.locator("path.line[opacity='0.22']").count() == 2  # of a match, and between the chains
    click(root, *middle(root, "text.side", 3))
    view.picked = sent(page, "picked")[-1]
    assert view.selected == {"match": "1"} and {frame[1] for frame in view.frames} == {0.5, 1.5}
    row = len(view._shown.panels[1].items) - 1
    assert view._shown.panels[1].items[row].fields["match"][1] == "match 1: x = 11, y = 12"
    strip = len(view._shown.panels[2].items) - 1
    view.picked = [2, strip, 1]
    assert view.selected == {"chain": 1} and len({frame[1] for frame in view.frames}) == 4
    assert view._shown.panels[2].items[strip].fields["chain"][1] == (
        "chain 1 of y: 2 events, after the first 2 of chain 0, in 3 of the matches shown"
    )
    receive(page, picked=[2, strip, 1])
    click(root, *middle(root, "path.line", root.locator("path.line").count() - 1))
    assert sent(page, "picked")[-1] == []  # once more: nothing


def test_marks_of_many_events_stay_in_their_columns(page, show):
    numbers = np.repeat(np.arange(24), 3)
    rows = {"match": numbers, "variable": list("abc") * 24, "position": range(72), "index": range(72)}
    page.set_viewport_size({"width": 560, "height": 900})
    marks = show("lineage_view", LineageView(pd.DataFrame(rows))).locator("svg[role=application] .mark")
    ends = "marks => marks.map(mark => mark.getBoundingClientRect()).map(box => [box.left, box.right])"
    boxes = sorted(marks.evaluate_all(ends))
    assert len(boxes) == 72 and all(one[1] <= other[0] for one, other in pairwise(boxes))
    page.set_viewport_size({"width": 1000, "height": 900})


def test_pages_of_matches(page, show):
    view = LineageView(LINES, size=2)
    root = show("lineage_view", view)
    height = root.bounding_box()["height"]
    before, after = root.locator("button").all()
    assert before.is_disabled() and after.is_enabled()
    after.click()
    view.turned = sent(page, "turned")[-1]
    assert view.wanted == "2" and view.first == "2"
    receive(page, scene=as_json(view.scene), can_turn=view.can_turn)
    assert "match 2" in drawing(root).text_content()
    assert root.bounding_box()["height"] == height and before.is_enabled() and after.is_disabled()
    drawing(root).press("PageUp")
    view.turned = sent(page, "turned")[-1]
    assert view.wanted == "0"
