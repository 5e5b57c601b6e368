"""The browser half of the views of results: they draw, follow, report one selection, and leave nothing."""

from __future__ import annotations

import re

import pandas as pd
import pytest

from cepkit._shipped import shipped
from cepkit.parallel.views import BufferView, ThreadView
from cepkit.shedding.views import LoadView, UtilityView
from cepkit.widgets.tables import LineageView
from tests.support.traces import EXAMPLE, trace_of
from tests.support.view_cases import GOOD, RATES, replayed
from tests.support.widget_page import blank_page, mount, set_theme

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
    view.types = [one | {"arrived": 0, "dropped": 0} for one in view.types]
    return view


EMPTY = {
    "load_view": (without_events, "no event after the warm-up"),
    "thread_view": (lambda: ThreadView(NOTHING), "no thread did anything"),
    "buffer_view": (lambda: BufferView(NOTHING), "All queues and buffers were empty."),
    "utility_view": (lambda: UtilityView(pd.DataFrame({"state": [], "utility": []})), "no utilities"),
    "lineage_view": (lambda: LineageView(LINES.head(0)), "no match"),
}
STEMS = sorted(FULL)


@pytest.fixture(scope="module")
def browser_page():
    with blank_page(reduced_motion="reduce") as page:
        yield page


@pytest.fixture
def page(browser_page):
    """The one page of this file, empty; afterwards nothing may have gone wrong or be left."""
    page = browser_page
    page.trouble.clear()
    yield page
    page.evaluate("Object.values(hosts).forEach((host) => host.remove())")
    assert page.trouble == [] and page.requests == []
    assert page.evaluate("Object.values(hosts).map((host) => [host.n_listeners(), host.el.innerHTML])") == (
        [[0, ""]] * page.evaluate("Object.keys(hosts).length")
    )
    left = "[left.listeners, left.timers.size, left.frames.size, left.observers.size]"
    assert page.evaluate(left) == [0, 0, 0, 0]
    page.evaluate("hosts = {}; document.body.replaceChildren()")
    set_theme(page, "light")


@pytest.fixture
def show(page):
    """Return a function that draws a view and returns its root."""

    def show(stem, view=None):
        mount(page, view or FULL[stem]())
        return page.locator(f".cepkit-{stem}")

    return show


def receive(page, **values):
    page.evaluate("(values) => hosts.widget.receive(values)", values)


def saved(page, name="selected"):
    return page.evaluate(f"hosts.widget.saved.filter((one) => '{name}' in one).map((one) => one.{name})")


def said(root):
    return root.locator(".said").inner_text()


def drawing(root):
    return root.locator("svg[role=application]")


def click(root, x, y):
    """Click a point of the drawing, in pixels of the drawing."""
    drawing(root).click(position={"x": x, "y": y})


# --- all of them ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stem", STEMS)
def test_modules_and_sheets_keep_the_rules(stem):
    view = FULL[stem]()
    module, sheet = str(view._esm), str(view._css)
    assert module.count("export ") == 1 and module.endswith("export default { render };\n")
    code = re.sub(r"//.*", "", module.replace("http://www.w3.org", ""))
    assert not re.search(r"\bimport\b|https?:|fetch\(|innerHTML", code)
    own = shipped("widgets", f"{stem}.css").read_text()
    rules = re.sub(r"\{[^}]*\}", "", re.sub(r"/\*.*?\*/", "", own, flags=re.S))
    selectors = [one.strip() for one in re.split(r"[,\n]", rules) if one.strip()]
    themes = ('body[data-jp-theme-light="false"] ', ".vscode-dark ")
    for selector in selectors:
        plain = selector.removeprefix(themes[0]).removeprefix(themes[1])
        assert plain.startswith(f".cepkit-{stem}"), selector
    assert selectors and "url(" not in sheet and "--jp-content-font-color1" in sheet


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
    chosen = saved(page)
    assert chosen and all(one for one in chosen) and said(root)
    drawing(root).press("Escape")
    assert saved(page)[-1] is None
    outline = drawing(root).evaluate("(one) => getComputedStyle(one).outlineStyle")
    assert outline == "solid"
    # JupyterLab would take the keys of others in its command mode.
    own = root.locator("button, svg[tabindex]").all()
    assert {one.get_attribute("data-lm-suppress-shortcuts") for one in own} == {"true"}


# --- each -------------------------------------------------------------------------------------------------


def test_lanes_are_drawn_where_the_time_was_spent(page, show):
    root = show("thread_view")
    lanes = [f"{of['label']}{of['note']}" for of in FULL["thread_view"]().lanes]  # the note is a title
    assert root.locator("text.lane").all_text_contents() == lanes
    drawn = page.evaluate(
        """() => [...document.querySelectorAll("g[clip-path] path")].map((path) => {
          const box = path.getBBox();
          return [path.getAttribute("class"), box.x, box.width];
        })"""
    )
    width = drawing(root).bounding_box()["width"] - 132 - 12
    by_class = {name: (x, w) for name, x, w in drawn}
    assert set(by_class) == {"an k0", "a0 k1", "a0 k3", "a1 k1", "a1 k2"}
    for name, (start, end) in {"a0 k1": (10, 30), "a1 k2": (40, 90), "a1 k1": (90, 100)}.items():
        x, w = by_class[name]
        assert x == pytest.approx(132 + start / 100 * width, abs=1)
        assert w == pytest.approx((end - start) / 100 * width, abs=1)
    assert root.locator("text.mark").all_text_contents()[0] == "b"
    assert root.locator("table tr").count() == 4 and "cost model" in root.locator("table").inner_text()


def test_a_segment_or_an_agent_is_selected(page, show):
    root = show("thread_view")
    width = drawing(root).bounding_box()["width"] - 132 - 12
    click(root, 132 + 0.6 * width, 6 + 2.5 * 22)
    wanted = {"thread": 1, "agent": "c+", "action": "partials", "start": 40, "end": 90}
    assert saved(page) == [wanted] and root.locator("rect.chosen").count() == 1
    assert said(root) == "thread 1: agent c+, takes partial matches, from 40 ns for 50 ns, 2 taken"
    root.locator("button.agent").first.click()
    assert saved(page)[-1] == {"agent": "b"} and root.locator("path.dim").count() == 3
    assert root.locator("button.agent").first.get_attribute("aria-pressed") == "true"
    receive(page, selected=wanted)
    assert root.locator("rect.chosen").count() == 1 and root.locator("path.dim").count() == 0


def test_latency_backlog_and_drops_are_drawn(page, show):
    root = show("load_view")
    view = FULL["load_view"]()
    assert root.locator("rect.peak").count() == 4 and root.locator("path.line").count() == 6
    assert root.locator("path.bound").count() == 1 and root.locator("rect.drop").count() >= 1
    assert root.locator("text.name").all_text_contents() == ["a", "b"]
    sides = root.locator("text.side").all_text_contents()
    for one in view.types:
        assert f"{one['dropped']} of {one['arrived']} dropped" in sides
    drawing(root).focus()
    for key in ("ArrowRight", "ArrowDown", "ArrowDown", "ArrowDown"):
        drawing(root).press(key)
    assert [one["row"] for one in saved(page)] == ["latency", "waiting", "partial_matches", "a"]
    assert set(saved(page)[-1]) == {"row", "start", "end", "arrived", "dropped"}
    assert said(root).startswith("type a: ")


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
    low, high = saved(page, "window")[-1]
    assert 0 < low < high < 100 and saved(page) == []
    root.get_by_role("button", name="show all of the time").click()
    page.wait_for_function("hosts.widget.saved.filter((one) => 'window' in one).length > 1", timeout=3000)
    assert saved(page, "window")[-1] == [0, 100]
    root.get_by_role("button", name="zoom in").click()
    page.wait_for_function("hosts.widget.saved.filter((one) => 'window' in one).length > 2", timeout=3000)
    assert saved(page, "window")[-1] == [25, 75]
    drawing(root).dblclick(position={"x": 300, "y": 40})  # and away before it is reported: no timer stays


def test_lines_of_lengths_and_levels_of_models(page, show):
    root = show("buffer_view")
    assert root.locator("path.line").count() == 4 * 3 + 3 and root.locator("path.range").count() == 12
    assert root.locator("path.model").count() >= 1  # those that fit the panel
    dashes = {one.get_attribute("stroke-dasharray") for one in root.locator("g path.line").all()}
    assert len(dashes) == 3
    heads = root.locator("text.level").all_text_contents()
    assert heads[0] == "e·W: b 10, c+ 20 (above), d 2.5"
    assert "events in buffers" in root.locator("text.label").all_text_contents()
    assert "e·W: events arrive at rate e" in root.locator(".note").text_content()
    assert "1.4, 3 (e·W 10)" in root.locator("table").inner_text()


def test_a_length_at_a_time_is_selected(page, show):
    root = show("buffer_view")
    root.locator("button.agent").nth(1).click()
    (one,) = saved(page)
    assert (one["length"], one["agent"], one["start"]) == ("event_buffer", "c+", 0)
    receive(page, selected={**one, "agent": "b", "start": 24.7, "end": 24.9})  # in bin 59 of 240
    drawing(root).focus()
    for key in ("ArrowRight", "p", "p"):
        drawing(root).press(key)
    one = saved(page)[-1]
    assert one["start"] == pytest.approx(25) and one["end"] == pytest.approx(25 + 100 / 240)
    assert (one["length"], one["agent"], one["mean"]) == ("event_queue", "b", pytest.approx(4))
    assert said(root).startswith("agent b, events in queues: 4 on average, 4 to 4, from 25 ns")
    assert page.locator("path.cursor[d^=M]").count() == 4


def test_cells_and_bars_of_utilities(page, show):
    root = show("utility_view")
    assert root.locator("text.value").all_text_contents() == ["0.5", "1"]
    assert root.locator("path.none").count() == 2 and root.locator("rect.bar").count() == 40
    assert "33.3 % of all up to 0.6" in drawing(root).text_content()
    width = drawing(root).bounding_box()["width"] - 150 - 44
    click(root, 150 + 0.75 * width, 6 + 1.5 * 24)
    cell = {"row": "B", "event_type": "B", "position": [1, 2], "utility": 1, "n": 2}
    assert saved(page) == [cell] and root.locator("rect.chosen").count() == 1
    assert said(root) == "B, position from 1 to 2: utility 1, 2 seen"
    heights = [float(bar.get_attribute("height")) for bar in root.locator("rect.bar").all()]
    assert [k for k, height in enumerate(heights) if height] == [39]  # bars are those of the row
    click(root, 150 + width - 3, 6 + 2 * 24 + 40 + 26 + 100)
    assert saved(page)[-1] == {"utility": [pytest.approx(0.975), 1], "n": 2}
    assert root.locator("rect.bar.on").count() == 1 and root.locator("rect.chosen").count() == 1
    click(root, 60, 6 + 0.5 * 24)
    assert saved(page)[-1] == {"row": "A", "event_type": "A", "n": 1}
    receive(page, threshold=None)
    assert root.locator("path.threshold").count() == 0


def test_matches_events_and_chains_light_what_belongs_to_them(page, show):
    root = show("lineage_view")
    assert root.locator("text.side").all_text_contents()[2:5] == ["match 0", "match 1", "match 2"]
    assert root.locator("circle.ring").count() == 4  # two events of two matches each
    assert root.locator("rect.bar").count() == 4 and root.locator("path.pointer").count() == 1
    top, step = 58 + 12, 56
    click(root, 104 + 0.5 * step, 30)
    assert saved(page) == [{"event": 0}] and root.locator("g.dim").count() == 3  # a match and both chains
    assert said(root) == "event 10: in 2 of the 3 matches shown"
    click(root, 104 + 1.5 * step, top + 1.5 * 18)
    assert saved(page)[-1] == {"match": "1"} and root.locator("rect.column").count() == 2
    assert said(root) == "match 1: x = 11, y = 12"
    click(root, 104 + 3.5 * step, top + 3 * 18 + 30 + 1.5 * 18)
    assert saved(page)[-1] == {"chain": 1} and root.locator("g.dim").count() == 0
    assert said(root) == "chain 1 of y: 2 events, after the first 2 of chain 0, in 3 of the matches shown"
    click(root, 104 + 3.5 * step, top + 3 * 18 + 30 + 1.5 * 18)
    assert saved(page)[-1] is None


def test_pages_of_matches(page, show):
    root = show("lineage_view", LineageView(LINES, size=2))
    height = root.bounding_box()["height"]
    before, after = root.locator("button").all()
    assert before.is_disabled() and after.is_enabled()
    after.click()
    assert saved(page, "wanted") == ["2"]
    view = LineageView(LINES, size=2)
    view.wanted = "2"
    names = ("events", "matches", "variables", "first", "has_more", "note", "version")
    receive(page, **{name: getattr(view, name) for name in names})
    assert "match 2" in drawing(root).text_content() and "match 0" not in drawing(root).text_content()
    assert root.bounding_box()["height"] == height and before.is_enabled() and after.is_disabled()
    drawing(root).press("PageUp")
    assert saved(page, "wanted")[-1] == "0"
