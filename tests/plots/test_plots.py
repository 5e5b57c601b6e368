"""Pictures: graphs of Graphviz, automata as SVG, and the timeline of matches."""

import base64
import itertools
import json
import math
import random
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections import defaultdict
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from cepkit.compile.shared.row_automaton import States, positions, states
from cepkit.errors import CepError, ColumnNotFoundError, OrderError
from cepkit.language.row_patterns import Pattern, any_of_patterns, seq, var
from cepkit.plots import graphs, theme
from cepkit.plots import layered as places
from cepkit.plots import timeline as plots
from cepkit.plots.automata import edges
from cepkit.plots.graphs import automaton_graph, new_graph, tree_graph
from cepkit.plots.layered import automaton_svg
from cepkit.plots.timeline_axes import Marks, Totals, nice_ticks, select
from tests.support.contrast import contrast
from tests.support.sizes import seeds

SVG = "{http://www.w3.org/2000/svg}"


def automaton(*parts: Pattern | str) -> States:
    return states(positions(seq(*parts)))


GOLDEN = automaton(
    ".", var("rise").plus(), var("drop").plus(), var("rise").plus(), var("drop").star(), "deep"
)


def random_pattern(rng: random.Random, depth: int = 3) -> Pattern:
    if depth == 0 or rng.random() < 0.2:
        return var(rng.choice(["a", "b", "c", "long_name"]))
    parts = [random_pattern(rng, depth - 1) for _ in range(rng.randint(2, 3))]
    whole = seq(*parts) if rng.random() < 0.6 else any_of_patterns(*parts)
    return rng.choice([whole, whole, whole.plus(), whole.star(), whole.optional()])


def random_automaton(seed: int) -> States:
    return states(positions(seq(random_pattern(random.Random(seed)), "end")))


# --- Graphviz ---------------------------------------------------------------------------------------


@pytest.fixture
def alone(monkeypatch):
    """Neither ``dot`` nor pygraphviz."""
    monkeypatch.setenv("PATH", "")
    monkeypatch.setitem(sys.modules, "pygraphviz", None)


def test_the_graph_of_the_papers_automaton():
    dot = automaton_graph(GOLDEN, title="M-shape").source
    assert dot.startswith("digraph automaton {")
    assert "rankdir=LR" in dot and 'bgcolor="#ffffff"' in dot and 'label="M-shape"' in dot
    assert re.findall(r"(\d+) \[.*shape=doublecircle", dot) == ["6"]
    assert len(re.findall(r"\[.*shape=circle tooltip", dot)) == 6
    assert re.findall(r"(\w+) -> (\w+)", dot)[0] == ("start", "0")
    transitions = [(int(s), n, int(t)) for s, t, n in re.findall(r"(\d+) -> (\d+) \[label=(\w+)", dot)]
    assert transitions == [(s, "any" if name == "." else name, t) for s, name, t in GOLDEN.transitions]
    assert dot == automaton_graph(GOLDEN, title="M-shape").source


def test_a_graph_without_graphviz_has_what_a_user_adds(alone):
    graph = tree_graph([["a", "b", "c"]])
    assert repr(graph) == "<graph tree: 5 nodes, 4 edges>"
    graph.node("mine", label="a longer text\\nin two lines")
    graph.edge("mine", "elsewhere")
    assert repr(graph) == "<graph tree: 7 nodes, 5 edges>"
    written = [text for node in groups(graph.svg(), "node") for text in texts(node)]
    assert sorted(written) == ["a", "a b", "a b c", "a longer text", "b", "c", "elsewhere", "in two lines"]
    data, _ = graph._repr_mimebundle_()
    assert data["text/plain"] == repr(graph) and base64.b64decode(data["image/png"])[1:4] == b"PNG"


def test_boxes_without_graphviz_do_not_overlap(alone):
    graph = new_graph("wide")
    for k in range(12):
        graph.edge(f"a long name {k // 3}", f"another name {k}", label="x" * k)
    boxes = [next(node.iter(f"{SVG}rect")) for node in groups(graph.svg(), "node")]
    sides = [[float(box.get(name)) for name in ("x", "y", "width", "height")] for box in boxes]
    for (x, y, width, height), (left, top, *_) in itertools.combinations(sorted(sides), 2):
        assert left >= x + width or top >= y + height or y >= top + height


def test_many_nodes_need_graphviz(alone):
    graph = new_graph("many")
    for k in range(graphs.MOST_WITHOUT_GRAPHVIZ):
        graph.edge(str(k), str(k + 1))
    with pytest.raises(CepError, match=r"at most 200 nodes\. Install Graphviz"):
        graph.svg()
    assert graph._repr_mimebundle_()[0].keys() == {"text/plain"}


def test_dot_on_the_path_draws(tmp_path, monkeypatch):
    """A program that stands for ``dot`` gets the source."""
    program = tmp_path / "dot"
    program.write_text(
        f"#!{sys.executable}\nimport sys\nsource = sys.stdin.read()\n"
        "print('<?xml?><!-- dot --><svg width=\"30pt\" height=\"9pt\">' + str(source.count('->')) + '</svg>')"
    )
    program.chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert tree_graph([["a", "b"]]).svg().strip() == '<svg width="40" height="12">2</svg>'
    program.write_text(f"#!{sys.executable}\nraise SystemExit(1)")  # a broken one
    monkeypatch.setitem(sys.modules, "pygraphviz", None)
    assert len(groups(tree_graph([["a", "b"]]).svg(), "node")) == 3


def test_pygraphviz_draws(monkeypatch):
    pytest.importorskip("pygraphviz")
    monkeypatch.setenv("PATH", "")
    svg = tree_graph([["a", "b"]]).svg()
    assert len(groups(svg, "node")) == 3 and svg != graphs._by_cepkit(tree_graph([["a", "b"]]))


def test_transitions_between_the_same_states_are_one_edge():
    dot = automaton_graph(automaton(var("a") | "b", "c")).source
    assert re.findall(r"0 -> 1 \[label=(\S+ \S+)", dot) == ['"a, b"']


def test_long_labels_are_wrapped_between_names():
    names = [f"rise_{k}" for k in range(5)]
    (edge, _) = edges(automaton(any_of_patterns(*names), "z"))
    assert edge.label_lines() == ["rise_0, rise_1, rise_2,", "rise_3, rise_4"]


@pytest.mark.parametrize("seed", seeds(10, 40))
def test_every_transition_is_in_one_edge(seed):
    graph = random_automaton(seed)
    merged = edges(graph)
    assert sorted((e.source, name, e.target) for e in merged for name in e.names) == sorted(graph.transitions)
    assert len({(e.source, e.target) for e in merged}) == len(merged)


ODD_TEXTS = [
    'price < 5 && name == "x"',
    r"p == 'C:\n' and q > \N",
    "<b>bold</b>",
    "a &lt; b &amp; c",
    "é ≥ ü",
    "} ; 7 -> 8",
]


@pytest.mark.parametrize("text", ODD_TEXTS)
def test_odd_texts_are_quoted(text, alone):
    graph = automaton_graph(States(2, ((0, text, 1),), (1,), (0, 1)), title=text)
    quoted = [
        re.sub(r"\\(.)", r"\1", label) for label in re.findall(r'label="((?:\\.|[^"\\])*)"', graph.source)
    ]
    assert [label.replace("&amp;", "&") for label in quoted if label] == [text, text]
    assert graphs._parts(graph)[1][1] == ("0", "1", text)
    assert text in [words for edge in groups(graph.svg(), "edge") for words in texts(edge)]


def test_pictures_load_nothing_before_they_are_drawn():
    code = (
        "import sys, cepkit.plots.layered\n"
        "import cepkit.plots.timeline\n"
        "print({'numba', 'plotly'} & set(sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "set()\n"


# --- SVG ----------------------------------------------------------------------------


def nodes(svg: str) -> dict[str, ET.Element]:
    return {group.findtext(f"{SVG}title"): group for group in groups(svg, "node")}


def groups(svg: str, kind: str) -> list[ET.Element]:
    return [group for group in ET.fromstring(svg).iter(f"{SVG}g") if group.get("class") == kind]


def texts(element: ET.Element) -> list[str]:
    return [text.text for text in element.iter(f"{SVG}text")]


def circles(group: ET.Element) -> int:
    return sum(child.tag in (f"{SVG}ellipse", f"{SVG}circle") for child in group.iter())


def test_svg_of_the_papers_automaton():
    svg = automaton_svg(GOLDEN, {"deep": "price < 3"}, title="M & W")
    drawn = nodes(svg)
    assert list(map(int, drawn)) == sorted(range(7)) and all(texts(g) == [n] for n, g in drawn.items())
    assert {name: circles(group) for name, group in drawn.items()} == {str(s): 1 + (s == 6) for s in range(7)}
    titles = [group.findtext(f"{SVG}title") for group in groups(svg, "edge")]
    assert sorted(titles) == sorted(["start->0", *(f"{s}->{t}" for s, _, t in GOLDEN.transitions)])
    assert "M & W" in texts(ET.fromstring(svg)) and "any" in texts(ET.fromstring(svg))
    assert "deep: price < 3" in [title.text for title in ET.fromstring(svg).iter(f"{SVG}title")]
    assert ET.fromstring(svg).get("aria-label") == "M & W"


def test_svg_carries_nothing_of_the_machine_and_no_ids():
    svg = automaton_svg(GOLDEN)
    assert svg.startswith("<svg") and svg == automaton_svg(GOLDEN)
    assert not re.search(r"<!--|<\?xml|DOCTYPE|xlink| id=|/usr|/home|\d{8}|20\d\d-", svg)


def test_svg_has_paper_and_ink_of_its_own():
    svg = automaton_svg(GOLDEN)
    root = ET.fromstring(svg)
    assert (
        root[0].tag == f"{SVG}rect" and root[0].get("fill") == theme.PAPER and root.get("color") == theme.INK
    )
    painted = {element.get(paint) for element in root.iter() for paint in ("fill", "stroke")} - {None, "none"}
    assert painted == {theme.PAPER, "currentColor", theme.STATE_BLUE, theme.ACCEPT_GREEN}


@pytest.mark.parametrize("text", ODD_TEXTS)
def test_any_text_comes_out_as_it_is(text):
    graph = States(2, ((0, text, 1),), (1,), (0, 1))
    svg = automaton_svg(graph, {text: text}, title=text)
    shown = [shown.replace("\xa0", " ") for shown in texts(ET.fromstring(svg))]
    assert shown.count(text) == 2  # title and edge
    assert [t.text for t in ET.fromstring(svg).iter(f"{SVG}title")].count(f"{text}: {text}") >= 1


def test_too_many_states_for_a_picture():
    chain = States(300, tuple((s, "a", s + 1) for s in range(299)), (299,), (1,) * 300)
    with pytest.raises(CepError, match="300 states; a picture has at most 200"):
        automaton_svg(chain)


# --- SVG: the layout in Python --------------------------------------------------------------------


def boxes(svg: str) -> list[tuple[float, float, float, float]]:
    """Return left, top, right and bottom of every circle and every text outside of circles."""
    found = []
    for group in groups(svg, "node"):
        outer = max(group.iter(f"{SVG}circle"), key=lambda circle: float(circle.get("r")))
        x, y, r = (float(outer.get(name)) for name in ("cx", "cy", "r"))
        found.append((x - r, y - r, x + r, y + r))
    for group in groups(svg, "edge"):
        for text in group.iter(f"{SVG}text"):
            x, y, half = float(text.get("x")), float(text.get("y")), places.text_width(text.text) / 2
            found.append((x - half, y - 10, x + half, y + 2))
    return found


@pytest.mark.parametrize("seed", seeds(12, 60))
def test_nothing_overlaps(seed):
    svg = automaton_svg(random_automaton(seed), title="random")
    for one, other in itertools.combinations(boxes(svg), 2):
        apart = one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]
        assert apart, (one, other)


@pytest.mark.parametrize("seed", seeds(7, 30))
def test_everything_is_inside_the_picture(seed):
    svg = automaton_svg(random_automaton(seed))
    left, top, width, height = map(float, ET.fromstring(svg).get("viewBox").split())
    for box in boxes(svg):
        assert left <= box[0] and top <= box[1] and box[2] <= left + width and box[3] <= top + height


@pytest.mark.parametrize("seed", seeds(7, 30))
def test_every_arrow_points_at_its_state(seed):
    svg = automaton_svg(random_automaton(seed))
    centres = {}
    for name, group in nodes(svg).items():
        circle = next(group.iter(f"{SVG}circle"))
        centres[name] = float(circle.get("cx")), float(circle.get("cy"))
    for group in groups(svg, "edge"):
        source, target = group.findtext(f"{SVG}title").split("->")
        tip = [float(c) for c in next(group.iter(f"{SVG}polygon")).get("points").split()[0].split(",")]
        assert math.dist(tip, centres[target]) <= places.RADIUS + places.RING + 0.2
        if source != "start":
            start = re.match(r"M([-\d.]+),([-\d.]+)", next(group.iter(f"{SVG}path")).get("d")).groups()
            end = re.search(r"([-\d.]+),([-\d.]+)$", next(group.iter(f"{SVG}path")).get("d")).groups()
            ends = [[float(c) for c in point] for point in (start, end)]
            assert min(math.dist(point, centres[source]) for point in ends) <= places.RADIUS + 0.2


def test_states_go_from_left_to_right_on_one_line():
    placed = places.places(GOLDEN)
    xs, ys = zip(*(placed.centre(state) for state in range(7)), strict=True)
    assert list(xs) == sorted(xs) and max(ys) - min(ys) < 2


def test_the_way_back_bends():
    placed = places.places(automaton(seq("a", "b").plus(), "c"))
    (back,) = (route for route in placed.routes if route.backward)
    assert (back.edge.source, back.edge.target) == (2, 1)
    assert abs(placed.y_of_stop[back.label_at] - placed.centre(1)[1]) > 10


# --- timeline -------------------------------------------------------------------------------------


def stream(n_events: int = 40) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "ts": pd.date_range("2024-01-02 09:30", periods=n_events, freq="30s"),
            "price": 100.0 + np.arange(n_events) % 7,
            "kind": np.resize(np.array(["buy", "sell", "cancel"]), n_events),
        }
    )


def matched(*spans: tuple[int, int]) -> pd.DataFrame:
    """Matches over the given first and last rows: one any, then rises, at last a drop."""
    rows = [
        (match, "." if row == first else "drop" if row == last else "rise", row)
        for match, (first, last) in enumerate(spans)
        for row in range(first, last + 1)
    ]
    return pd.DataFrame(rows, columns=["match", "variable", "row"])


def marks_of(rows: pd.DataFrame) -> Marks:
    match, row = (rows[name].to_numpy(np.int64) for name in ("match", "row"))
    return Marks(match, rows["variable"].to_numpy(object), row)


def timeline(events: pd.DataFrame, rows: pd.DataFrame, **more: object):
    return plots.timeline(events, marks_of(rows), **more)


def named(figure, name: str) -> list:
    return [trace for trace in figure.data if trace.name == name]


def scatters(figure, mode: str) -> list:
    return [trace for trace in figure.data if trace.type == "scatter" and trace.mode == mode]


def subtitle(figure) -> str:
    return figure.layout.title.subtitle.text.replace("<br>", " ")


def n_drawn(figure) -> int:
    """Return the number of different events that are drawn as points or marks."""
    rows = set()
    for trace in figure.data:
        if trace.customdata is not None:
            custom = np.asarray(trace.customdata)
            rows.update((custom if custom.ndim == 1 else custom[:, 1]).tolist())
    return len(rows)


def test_traces_of_a_timeline():
    figure = timeline(stream(), matched((3, 6), (10, 15)), time="ts", value="price", title="Peaks")
    assert [t.name for t in figure.data if t.showlegend] == ["match", "price", "any", "rise", "drop"]
    (bars,), (line,), (rise,) = named(figure, "match"), named(figure, "price"), named(figure, "rise")
    assert list(bars.x) == [90_000.0, 150_000.0]  # milliseconds
    assert list(bars.base) == [np.datetime64("2024-01-02T09:31:30"), np.datetime64("2024-01-02T09:35:00")]
    assert bars.hovertext[0] == (
        "<b>match 0</b><br>2024-01-02 09:31:30 – 2024-01-02 09:33:00<br>1.5 min, 4 events"
    )
    assert len(line.x) == 40 and n_drawn(figure) == 40
    assert rise.customdata.tolist() == [[0, 4], [0, 5], [1, 11], [1, 12], [1, 13], [1, 14]]
    assert list(rise.y) == list(stream()["price"].iloc[[4, 5, 11, 12, 13, 14]])
    assert figure.layout.title.text == "Peaks" and subtitle(figure) == "2 matches, 10 of 40 events matched"
    assert figure.layout.yaxis2.title.text == "price" and not figure.layout.yaxis.visible
    assert [t.text for t in scatters(figure, "text")] == [("0", "1")]


def test_bands_lie_below_the_events():
    figure = timeline(stream(), matched((3, 6)), time="ts", value="price")
    assert figure.layout.yaxis2.overlaying == "y"
    assert {t.yaxis for t in figure.data if t.legendgroup == "match"} == {"y"}
    assert {t.yaxis for t in figure.data if t.legendgroup != "match"} == {"y2"}


def test_json_is_the_same_each_time_and_neutral():
    rows = matched((3, 6), (10, 15))
    once, again = (timeline(stream(), rows, time="ts", value="price").to_json() for _ in range(2))
    assert once == again and "uid" not in once and len(once) < 20_000
    layout = json.loads(once)["layout"]
    assert layout["paper_bgcolor"] == layout["plot_bgcolor"] == theme.PAPER
    assert layout["font"]["color"] == theme.INK


def test_texts_are_read_on_paper_and_marks_are_seen():
    assert contrast(theme.INK, theme.PAPER) >= 4.5
    assert min(contrast(colour, theme.PAPER) for colour in theme.PALETTE) > 2.2  # their edges have ink


def test_variables_differ_in_colour_and_symbol():
    styles = theme.style_of_variables([f"v{k}" for k in range(64)] + ["."])
    assert len(set(styles.values())) == 65
    for one, other in itertools.combinations(list(styles.values())[:7], 2):
        assert one.colour != other.colour and one.symbol != other.symbol


TIMES = {
    "naive": (pd.date_range("2024-01-02", periods=40, freq="s"), "t (time)"),
    "zone": (
        pd.date_range("2024-01-02", periods=40, freq="s", tz="America/New_York"),
        "t (time, America/New_York)",
    ),
    "clock_change": (
        pd.date_range("2024-11-03 00:00", periods=40, freq="5min", tz="America/New_York"),
        "t (time, UTC)",
    ),
    "seconds": (pd.date_range("2024-01-02", periods=40, freq="s").as_unit("s"), "t (time)"),
    "arrow": (pd.array(pd.date_range("2024-01-02", periods=40), dtype="timestamp[ns][pyarrow]"), "t (time)"),
    "arrow_zone": (
        pd.array(pd.date_range("2024-01-02", periods=40, tz="UTC"), dtype="timestamp[us, UTC][pyarrow]"),
        "t (time, UTC)",
    ),
    "dates": (pd.Series(pd.date_range("2024-01-02", periods=40)).dt.date.to_numpy(), "t (time)"),
    "duration": (pd.to_timedelta(np.arange(40) * 4, unit="ms"), "t (duration, ms)"),
    "arrow_duration": (
        pd.array(pd.to_timedelta(np.arange(40), unit="h"), dtype="duration[us][pyarrow]"),
        "t (duration, d)",
    ),
    "integer": (np.arange(40), "t (its own unit)"),
    "nullable": (pd.array(range(40), dtype="Int64"), "t (its own unit)"),
    "float": (np.arange(40) / 4, "t (its own unit)"),
    "picoseconds": (
        10_629_342_490_369_879 + np.arange(40),
        "t (its own unit, since 10629342490369879)",
    ),
}


@pytest.mark.parametrize("kind", TIMES)
def test_clocks_of_every_type(kind):
    times, title = TIMES[kind]
    # The clock decides the order, whatever the order of the rows.
    events = pd.DataFrame({"t": times, "v": range(40)}).iloc[::-1].reset_index(drop=True)
    figure = timeline(events, matched((3, 6)), time="t", value="v")
    assert figure.layout.xaxis.title.text == title
    assert figure.layout.xaxis.type == ("date" if "time" in title else "linear")
    (line,) = named(figure, "v")
    assert len(np.unique(line.x)) == 40 and (np.diff(line.x) > np.zeros(1, np.diff(line.x).dtype)).all()
    assert list(line.y) == list(range(40))


def test_local_time_is_shown():
    events = pd.DataFrame(
        {"t": pd.date_range("2024-01-02 09:30", periods=3, freq="h", tz="America/New_York")}
    )
    figure = timeline(events, matched((0, 2)), time="t")
    assert named(figure, "match")[0].base[0] == np.datetime64("2024-01-02T09:30")


def test_without_a_clock_rows_are_counted():
    figure = timeline(stream(), matched((3, 6)), time=None, value="price")
    assert figure.layout.xaxis.title.text == "row"
    assert "3 – 6<br>3 rows, 4 events" in named(figure, "match")[0].hovertext[0]


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        (pd.date_range("2024-01-02", periods=3), "%Y-%m-%d"),
        (pd.date_range("2024-01-02", periods=3, freq="s"), "%Y-%m-%d %H:%M:%S"),
        (pd.date_range("2024-01-02", periods=3, freq="ms"), "%Y-%m-%d %H:%M:%S.%f"),
    ],
)
def test_hover_shows_as_much_of_the_time_as_there_is(times, expected):
    figure = timeline(pd.DataFrame({"t": times}), matched((0, 1)), time="t")
    assert figure.layout.xaxis.hoverformat == expected


@pytest.mark.parametrize(
    "dtype",
    [
        "int8",
        "uint64",
        "float32",
        "Int64",
        "Float64",
        "double[pyarrow]",
        "int32[pyarrow]",
        "object",
        "decimal",
    ],
)
def test_values_of_every_number_type(dtype):
    numbers = (
        pd.Series([Decimal(k) for k in range(40)])
        if dtype == "decimal"
        else pd.Series(range(40)).astype(dtype)
    )
    events = stream().assign(v=numbers)
    (line,) = named(timeline(events, matched((3, 6)), time="ts", value="v"), "v")
    assert list(line.y) == list(range(40))


def test_matched_events_without_a_value_have_lanes_below():
    events = stream()
    events.loc[[4, 6, 20], "price"] = [np.nan, np.inf, np.nan]
    figure = timeline(events, matched((3, 6)), time="ts", value="price")
    assert np.isnan(named(figure, "price")[0].y[[4, 6, 20]]).all()
    rises, [drop] = named(figure, "rise"), named(figure, "drop")
    assert [trace.customdata[:, 1].tolist() for trace in rises] == [[5], [4]]
    assert [trace.showlegend for trace in rises] == [True, False]
    axis = figure.layout.yaxis2
    lane_of = dict(zip(axis.ticktext, axis.tickvals, strict=True))
    # The lanes stand below all values, in the order of the variables, at a distance that keeps marks apart.
    assert list(rises[1].y) == [lane_of["rise"]] and list(drop.y) == [lane_of["drop"]]
    low = events["price"][np.isfinite(events["price"])].min()
    bottom, top = axis.range
    assert bottom < lane_of["drop"] < lane_of["rise"] < low < top
    pixel = (top - bottom) / (figure.layout.height - figure.layout.margin.t - figure.layout.margin.b)
    assert lane_of["rise"] - lane_of["drop"] == pytest.approx(15 * pixel, rel=0.05)
    assert set(axis.ticktext) - {"rise", "drop"} == {"100", "102", "104", "106"}
    assert "price null<br>row %{customdata[1]}" in drop.hovertemplate and n_drawn(figure) == 40


def test_no_value_at_all_leaves_lanes():
    events = stream().assign(price=np.nan)
    figure = timeline(events, matched((3, 6)), time="ts", value="price")
    assert figure.layout.yaxis2.ticktext == ("any", "rise", "drop")
    assert [len(set(named(figure, name)[0].y)) for name in ("any", "rise", "drop")] == [1, 1, 1]


def test_a_line_is_not_drawn_through_fragments():
    events = stream()
    events.loc[events.index % 3 == 1, "price"] = np.nan
    figure = timeline(events, matched((3, 6)), time="ts", value="price")
    [points] = named(figure, "price")
    assert points.mode == "markers" and points.showlegend and not scatters(figure, "lines")


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0.0, 1.0, [0, 0.5, 1]), (-3.0, 11.0, [0, 5, 10]), (5.0, 5.0, [5]),
        (1e9, 1e9 + 1, [1e9, 1e9 + 0.5, 1e9 + 1]),
        (0.31, 0.34, [0.31, 0.32, 0.33, 0.34]),
    ],
)  # fmt: skip
def test_ticks_are_round(low, high, ticks):
    assert nice_ticks(low, high) == pytest.approx(ticks)


def test_no_match():
    figure = timeline(stream(), matched(), time="ts", value="price", title="Peaks")
    assert [trace.name for trace in figure.data if trace.showlegend] == ["price"]
    assert subtitle(figure) == "no match in 40 events" and n_drawn(figure) == 40
    assert timeline(stream(), matched(), time="ts").layout.title.text == "no match in 40 events"


@pytest.mark.parametrize("value", [None, "price", "kind"])
@pytest.mark.parametrize("partition", [None, "kind"])
def test_no_events(value, partition):
    figure = timeline(stream(0), matched(), time="ts", value=value, partition=partition)
    assert figure.layout.title.text == "no match in 0 events" and n_drawn(figure) == 0


def test_one_event():
    figure = timeline(stream(1), matched((0, 0)), time="ts", value="price")
    assert figure.layout.title.text == "1 match, 1 of 1 event matched"
    assert named(figure, "match")[0].x[0] > 0


def test_short_matches_are_wide_enough_to_be_seen():
    figure = timeline(stream(), matched((3, 3)), time="ts", value="price")
    (bar,) = named(figure, "match")
    drawn_ms = 39 * 30_000
    assert 0.002 * drawn_ms < bar.x[0] < 0.02 * drawn_ms
    middle = bar.base[0] + np.timedelta64(round(bar.x[0] * 500), "us")
    assert abs(middle - np.datetime64("2024-01-02T09:31:30")) <= np.timedelta64(1, "ms")


def test_lanes_of_variables():
    figure = timeline(stream(), matched((3, 6)), time="ts")
    axis = figure.layout.yaxis2
    assert axis.ticktext == ("any", "rise", "drop", "no match") and axis.title.text == "variable"
    assert axis.range[0] > axis.range[1]  # the first lane is on top
    assert {t.name: set(t.y) for t in scatters(figure, "markers")} == {
        "event": {3.0},
        "any": {0.0},
        "rise": {1.0},
        "drop": {2.0},
    }
    assert len(named(figure, "event")[0].x) == 36


def test_lanes_of_event_types():
    figure = timeline(stream(), matched((3, 5)), time="ts", value="kind")
    assert figure.layout.yaxis2.ticktext == ("buy", "sell", "cancel")
    assert figure.layout.yaxis2.title.text == "kind"
    assert [named(figure, name)[0].y.tolist() for name in ("any", "rise", "drop")] == [[0.0], [1.0], [2.0]]


def test_rare_types_share_a_lane_but_matched_ones_do_not():
    events = pd.DataFrame({"ts": range(60), "kind": [f"k{e // 2}" for e in range(58)] + ["last", None]})
    figure = timeline(events, matched((58, 59)), time="ts", value="kind")
    lanes = figure.layout.yaxis2.ticktext
    assert len(lanes) == 20 and lanes[-3:] == ("last", "null", "12 other types")
    assert named(figure, "drop")[0].y.tolist() == [18.0]


def test_lines_join_the_rows_of_a_match_only():
    figure = timeline(stream(), matched((3, 4), (8, 9)), time="ts")
    (threads,) = (t for t in scatters(figure, "lines"))
    np.testing.assert_equal(np.asarray(threads.y), [0, 1, np.nan, 0, 1])


# --- timeline: bounds -----------------------------------------------------------------------------


def partitioned(n_partitions: int) -> pd.DataFrame:
    events = stream(10 * n_partitions)
    return events.assign(symbol=[f"S{e % n_partitions}" for e in range(len(events))])


def test_a_panel_per_partition():
    rows = pd.DataFrame({"match": [0, 0, 1], "variable": ["rise", "drop", "rise"], "row": [1, 4, 2]})
    figure = timeline(partitioned(3), rows, time="ts", value="price", partition="symbol")
    assert [a.text for a in figure.layout.annotations] == ["symbol = S1", "symbol = S2", "symbol = S0"]
    assert [(t.name, t.xaxis, t.showlegend) for t in named(figure, "rise")] == [
        ("rise", "x", True),
        ("rise", "x2", False),
    ]
    assert [len(t.x) for t in named(figure, "price")] == [10, 10, 10]
    assert figure.layout.xaxis3.title.text == "ts (time)" and figure.layout.xaxis.title.text is None
    assert figure.layout.xaxis.matches == "x3"


def test_at_most_twelve_panels_and_those_with_matches_first():
    rows = pd.DataFrame({"match": [0, 1], "variable": ["a", "a"], "row": [29, 17]})
    figure = timeline(partitioned(30), rows, time="ts", value="price", partition="symbol")
    names = [annotation.text for annotation in figure.layout.annotations]
    assert names[:3] == ["symbol = S29", "symbol = S17", "symbol = S0"] and len(names) == 12
    assert "12 of 30 partitions drawn, 18 not shown" in subtitle(figure)
    assert "120 of 300 events drawn" in subtitle(figure)


@pytest.mark.parametrize("dtype", ["object", "category", "string", "string[pyarrow]"])
def test_null_is_a_partition(dtype):
    events = stream(4).assign(symbol=pd.Series(["A", None, "A", None], dtype=dtype))
    figure = timeline(events, matched((1, 1)), time="ts", value="price", partition="symbol")
    assert [a.text for a in figure.layout.annotations] == ["symbol = null", "symbol = A"]
    assert [len(t.x) for t in named(figure, "price")] == [2, 2]


def test_no_stretch_and_no_peak_of_a_long_stream_is_left_out():
    events = stream(100_000).assign(price=np.sin(np.arange(100_000) / 5_000))
    events.loc[[40_321, 77_777], "price"] = [9.0, -7.0]
    figure = timeline(events, matched((500, 503), (700, 703)), time="ts", value="price")
    assert n_drawn(figure) == 5000 and "5,000 of 100,000 events drawn" in subtitle(figure)
    (line,) = named(figure, "price")
    assert not np.isnan(line.y).any() and line.y.max() == 9.0 and line.y.min() == -7.0
    assert np.diff(line.x).max() <= np.timedelta64(30, "s") * 200  # 600 columns have about 167 events each
    row = ((line.x - np.datetime64("2024-01-02T09:30")) / np.timedelta64(30, "s")).astype(int)
    assert {*range(480, 720), 40_321, 77_777} <= set(row)  # all events near the matches


def test_whole_matches_are_drawn_until_there_is_no_room():
    rows = matched(*((10 * k, 10 * k + 4) for k in range(50)))
    figure = timeline(stream(1000), rows, time="ts", value="price", max_events=23)
    assert len(named(figure, "match")[0].x) == 4 and n_drawn(figure) == 23
    assert figure.layout.title.text == "4 of 50 matches shown, 20 of 250 matched events"
    assert "23 of 1,000 events drawn" in subtitle(figure)


def test_a_match_that_is_too_long_is_cut():
    figure = timeline(stream(1000), matched((100, 900)), time="ts", value="price", max_events=10)
    assert len(named(figure, "match")[0].x) == 1 and n_drawn(figure) == 10


@pytest.mark.parametrize("seed", seeds(12, 60))
def test_selection_agrees_with_its_definition(seed):
    rng = np.random.default_rng(seed)
    n_events, max_events = int(rng.integers(1, 30)), int(rng.integers(1, 30))
    ticks = rng.integers(0, 12, n_events)
    partition = rng.choice(["A", "B", "C"], n_events)
    rows = pd.DataFrame(
        [
            (m, "a", int(row))
            for m in range(rng.integers(0, 4))
            for row in rng.choice(n_events, min(3, n_events), False)
        ],
        columns=["match", "variable", "row"],
    )
    values = np.where(rng.random(n_events) < 0.2, np.nan, rng.integers(0, 9, n_events).astype(float))
    limits = {"max_events": max_events, "max_panels": 2}
    marks = replace(marks_of(rows), variable=rows.index.to_numpy(object))  # it names the row
    chosen = select(ticks, pd.Series(partition), marks, values=values, **limits)

    shown = list(dict.fromkeys([*partition[rows["row"].astype(int)], *partition]))[:2]
    assert [panel.name for panel in chosen.panels] == shown
    inside = rows[rows["row"].map(lambda row: partition[row] in shown).astype(bool)]
    kept, size = [], 0
    for match in dict.fromkeys(inside["match"]):
        mine = inside[inside["match"] == match].index.tolist()
        size += len(mine)
        if not kept or size <= max_events:
            kept += mine[:max_events]
        else:
            break
    assert sorted(row for panel in chosen.panels for row in panel.marks.variable) == sorted(kept)

    in_time = {name: sorted(np.flatnonzero(partition == name), key=lambda e: (ticks[e], e)) for name in shown}
    marked = set(rows["row"].loc[kept])
    n_columns = max(1, (max_events - len(marked)) // (4 * len(shown)))
    wanted = {}  # of each event: 0 if matched, 1 if in the course of the values, else 2; events to a match
    for members in in_time.values():
        spots = [k for k, e in enumerate(members) if e in marked]
        first, length = int(ticks[members[0]]), int(ticks[members[-1]] - ticks[members[0]]) or 1
        columns = defaultdict(list)
        for e in members:
            columns[min(n_columns - 1, (int(ticks[e]) - first) * n_columns // length)].append(e)
        course = {e for column in columns.values() for e in (column[0], column[-1])}
        for column in columns.values():
            present = [e for e in column if values[e] == values[e]]
            course |= {min(present, key=values.__getitem__)} if present else set()
            course |= {max(reversed(present), key=values.__getitem__)} if present else set()
        for k, e in enumerate(members):
            near = min((abs(k - spot) for spot in spots), default=k)
            wanted[e] = (0 if e in marked else 1 if e in course else 2), near
    drawn = [e for panel in chosen.panels for e in panel.events]
    assert len(drawn) == len(set(drawn)) == min(max_events, len(wanted)) == chosen.n_events_drawn
    assert sorted(wanted[e] for e in drawn) == sorted(wanted.values())[: len(drawn)]
    for panel in chosen.panels:
        assert list(panel.events) == [e for e in in_time[panel.name] if e in set(panel.events)]


def test_totals_of_what_the_picture_is_a_part_of():
    def said(rows, **known) -> str:
        totals = Totals(**({"n_events": 2500, "n_partitions": 32, "is_exact": True} | known))
        figure = timeline(
            stream(), rows, time="ts", value="price", partition="kind", title="T", totals=totals
        )
        return subtitle(figure)

    two = pd.DataFrame({"match": [0, 0, 1, 1], "variable": ["a", "b"] * 2, "row": [0, 9, 1, 4]})
    more = {"n_matches": 7, "n_partitions_matched": 5, "n_events_matched": 26}
    assert said(two, **more) == "2 of 7 matches shown, 2 of 5 partitions with matches, 4 of 26 matched events"
    unknown = {"n_matches": 10_000, "is_exact": False, "n_partitions_matched": None, "n_events_matched": None}
    assert said(two, **unknown) == (
        "2 of ≥ 10,000 matches shown, 4 events in them; 3 of 32 partitions drawn, 29 not shown"
    )
    huge = {"n_matches": 2**1100, "n_partitions_matched": 2, "n_events_matched": None}
    assert said(two, **huge).startswith("2 of about 1.36e331 matches shown, 4 events in them; 3 of 32")
    whole = {"n_matches": 2, "n_partitions_matched": 2, "n_events_matched": 4}
    assert said(two, **whole).startswith("2 matches, 4 of 2,500 events matched; 3 of 32 partitions drawn")
    none = {"n_matches": 0, "n_partitions_matched": 0, "n_events_matched": 0}
    assert said(two[:0], **none).startswith("no match in 2,500 events; 3 of 32 partitions drawn")


@pytest.mark.parametrize("value", [None, "price", "kind"])
def test_every_axis_has_a_trace(value):
    """An axis over one without traces would be drawn over the whole figure."""
    some = pd.DataFrame({"match": [0], "variable": ["a"], "row": [5]})
    for rows in (some[:0], some):
        figure = timeline(partitioned(3), rows, time="ts", value=value, partition="symbol")
        axes = {axis.plotly_name.replace("axis", "") for axis in figure.select_yaxes()}
        drawn = {trace.yaxis for trace in figure.data if len(trace.x)}
        assert drawn == axes == {"y", *(f"y{k}" for k in range(2, 7))}
        # Nothing of the empty axis is seen: not in the legend, under the pointer or as a mark.
        for trace in figure.data:
            if trace.y is not None and list(trace.y) == [None]:
                assert not trace.showlegend and trace.hoverinfo == "skip"


def far_apart(gap: int, last: int) -> pd.DataFrame:
    """Two partitions with an event a second, the second one ``gap`` seconds later."""
    seconds = np.concatenate([np.arange(last), gap + np.arange(last)])
    return pd.DataFrame(
        {"ts": pd.Timestamp("2024-01-02") + pd.to_timedelta(seconds, unit="s"),
         "price": seconds % 7 + seconds // 300, "symbol": np.repeat(["A", "B"], last)}
    )  # fmt: skip


def test_panels_are_zoomed_to_matches_that_would_be_slivers():
    rows = pd.DataFrame({"match": [0, 0, 1, 1], "variable": ["a", "b"] * 2, "row": [100, 110, 1100, 1100]})
    figure = timeline(far_apart(86_400, 600), rows, time="ts", value="price", partition="symbol")
    shown = pd.to_datetime(list(figure.layout.xaxis.range))
    assert list(shown) == [pd.Timestamp("2024-01-02 00:01:30"), pd.Timestamp("2024-01-02 00:02:00")]
    assert figure.layout.xaxis2.range is None and figure.layout.xaxis.matches is None
    assert "zoomed to matches, a double click shows all events" in subtitle(figure)
    # All events are there, and the values fill the part that is seen.
    assert n_drawn(figure) == 1200 and figure.layout.yaxis2.range[1] < 10 < figure.layout.yaxis4.range[1]
    wide = pd.DataFrame({"match": [0, 0], "variable": ["a", "b"], "row": [100, 400]})
    figure = timeline(far_apart(600, 600), wide, time="ts", value="price", partition="symbol")
    assert figure.layout.xaxis.range is None and figure.layout.xaxis.matches == "x2"
    assert "zoomed" not in (subtitle(figure) if figure.layout.title.subtitle.text else "")


def test_a_panel_of_one_moment_is_as_long_as_the_others():
    events = pd.DataFrame({"ts": [0, 10, 5000, 5000], "symbol": ["A", "A", "B", "B"], "price": 1.0})
    rows = pd.DataFrame({"match": [0, 0, 1, 1], "variable": ["a", "b"] * 2, "row": range(4)})
    figure = timeline(events, rows, time="ts", value="price", partition="symbol")
    assert figure.layout.xaxis.range == (-1, 11) and figure.layout.xaxis2.range == (4994, 5006)
    (_, bar) = named(figure, "match")
    assert bar.x[0] < 0.01 * 30


def alpha(colour: str) -> float:
    return float(colour.removesuffix(")").rpartition(",")[2])


@pytest.mark.parametrize("n_matches", [2, 20, 200])
def test_bands_over_one_another_stay_transparent(n_matches):
    rows = matched(*((k, 210) for k in range(n_matches)))
    figure = timeline(stream(400), rows, time="ts", value="price", max_events=len(rows))
    shades, bars = named(figure, "match")
    # The fills do not overlap, so that nothing adds up; the matches are outlines to point at.
    starts = (shades.base - np.datetime64("2024-01-02T09:30")) / np.timedelta64(1, "ms")
    assert (np.diff(starts) == shades.x[:-1]).all() and shades.x.sum() == 210 * 30_000
    opacities = [alpha(colour) for colour in shades.marker.color]
    assert opacities == sorted(opacities) and 0.17 == opacities[0] < opacities[-1] <= 0.34
    assert alpha(bars.marker.color) == 0 and len(bars.hovertext) == len(bars.x) == n_matches
    assert [shades.showlegend, bars.showlegend] == [True, False] and shades.hoverinfo == "skip"
    [alone] = named(timeline(stream(400), matched((3, 50), (60, 90)), time="ts", value="price"), "match")
    assert alpha(alone.marker.color) == 0.17


def test_a_strip_stands_for_bands_that_nobody_can_tell_apart():
    rows = matched(*((k, 210) for k in range(100)), (300, 310))
    figure = timeline(stream(400), rows, time="ts", value="price", max_events=len(rows))
    shades, bars = named(figure, "match")
    strip, seen = (of for of in figure.data if of.type == "bar" and of.name is None)
    assert max(strip.customdata) == 100 and alpha(max(strip.marker.color, key=alpha)) == 1
    assert list(strip.base) == list(shades.base) and set(strip.y) == {0.97}
    assert bars.marker.line.width == 0 and len(bars.x) == 101  # to point at
    assert len(seen.x) == 1 and [t.text for t in scatters(figure, "text")] == [("100",)]
    assert "100 matches overlap too much for outlines, the strip is darker" in subtitle(figure)


def test_a_zoom_shows_no_time_before_the_first_event():
    rows = pd.DataFrame({"match": [0, 0], "variable": ["a", "b"], "row": [0, 10]})
    figure = timeline(far_apart(86_400, 600), rows, time="ts", value="price", partition="symbol")
    shown = pd.to_datetime(list(figure.layout.xaxis.range))
    assert list(shown) == [pd.Timestamp("2024-01-01 23:59:59"), pd.Timestamp("2024-01-02 00:00:20")]


# --- pictures of found matches --------------------------------------------------------------------


def payments() -> pd.DataFrame:
    """Five cards with a match each, three without."""
    rows = [
        (card, 100 * card + 3 * k, kind)
        for card in range(8)
        for k, kind in enumerate(["check", "pay", "pay"])
    ]
    frame = pd.DataFrame(rows, columns=["card", "ts", "kind"])
    frame["amount"] = np.where(frame["kind"] == "pay", frame["ts"] % 100 + 1.0, np.nan)
    return frame[(frame["card"] < 5) | (frame["kind"] == "check")].reset_index(drop=True)


SEQUENCE = "PATTERN SEQ(check c, pay p) WHERE [card] AND p.amount > {}"
AS_SEQUENCE = {"event_type": "kind", "order_by": "ts"}


def test_found_sequences_say_how_many_there_are():
    matches = payments().cep.match(SEQUENCE.format(5), **AS_SEQUENCE)
    figure = matches.plot()
    assert subtitle(figure).startswith(
        "4 of 5 matches shown, 4 of 5 partitions with matches, 8 of 10 matched events"
    )
    lanes = figure.layout.yaxis2.ticktext
    assert "c" in lanes and [len(trace.x) for trace in named(figure, "c")] == [1] * 4
    assert subtitle(matches.plot(partitions=5)).startswith("5 matches, 10 of 18 events matched; 5 of 8")


def test_empty_results_show_the_events():
    for matches in (
        payments().cep.match(SEQUENCE.format(500), **AS_SEQUENCE),
        payments().cep.match("hi", define={"hi": "amount > 500"}, partition_by="card", order_by="ts"),
    ):
        figure = matches.plot()
        assert subtitle(figure).startswith("no match in 18 events; 4 of 8 partitions drawn, 4 not shown")
        assert [trace.name for trace in figure.data if trace.showlegend] == ["amount"]
        assert sum(len(trace.x) for trace in named(figure, "amount")) == 12


def test_more_matches_than_a_picture_has_room_for():
    frame = pd.DataFrame({"ts": range(100), "kind": "pay", "amount": 1.0})
    counted = frame.cep.match("PATTERN SEQ(pay+ p[])", **AS_SEQUENCE)
    assert subtitle(counted.plot("amount")).startswith("200 of about 1.27e30 matches shown, 8 events in them")
    assert repr(counted).startswith("about 1.27e30 matches of 'SEQ(pay+ p[])' in 100 events")
    assert repr(counted).endswith("… about 1.27e30 more")
    with pytest.raises(CepError, match=r"there are about 1\.27e30 matches, more than limit=1,000,000; take"):
        counted.to_frame()
    with pytest.raises(CepError, match=r"the slice has about 6\.34e29 matches, more than 1,000,000"):
        counted[::2]
    assert counted[5:2].count() == 0 and counted[1:6:2].count() == 3
    with pytest.raises(IndexError, match=r"there are about 1\.27e30, numbered from 0"):
        counted[2**100]


@pytest.mark.parametrize(
    ("least", "title"),
    [
        (10**9, r"no match in the searched part of 100 events"),
        (99, r"1 of ≥ 1 match shown, 100 events in them"),
        (90, r"\d+ of ≥ \d{2},\d+ matches shown, \d+ events in them"),
        (0, r"200 of ≥ [\d,]+ matches shown, \d+ events in them"),
    ],
)
def test_a_bounded_look_is_not_called_all_there_is(least, title):
    frame = pd.DataFrame({"ts": range(100), "kind": "a", "x": 1.0})
    matches = frame.cep.match(f"PATTERN SEQ(a+ p[]) WHERE sum(p.x) > {least}", **AS_SEQUENCE)
    assert re.match(title, subtitle(matches.plot()))


# --- timeline: text and errors --------------------------------------------------------------------


def test_names_are_shown_as_they_are():
    events = stream(4).rename(columns={"price": "<b>%{x}</b>"}).assign(symbol="A&B<br>")
    rows = pd.DataFrame({"match": [0], "variable": ["<i>"], "row": [1]})
    figure = timeline(events, rows, time="ts", value="<b>%{x}</b>", partition="symbol", title="a < b & c")
    assert figure.layout.title.text == "a &lt; b &amp; c"
    assert figure.layout.annotations[0].text == "symbol = A&amp;B&lt;br&gt;"
    assert figure.layout.yaxis2.title.text == "&lt;b&gt;%&#123;x}&lt;/b&gt;"
    (mark,) = named(figure, "&lt;i&gt;")
    assert mark.hovertemplate.startswith(
        "<b>&lt;i&gt;</b>, match %{customdata[0]}<br>%{x}<br>&lt;b&gt;%&#123;x}"
    )


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"time": "tss"}, ColumnNotFoundError, "timeline: time: column 'tss' not found. Did you mean 'ts'?"),
        ({"time": "ts", "value": "pric"}, ColumnNotFoundError, "timeline: value: column 'pric' not found"),
        ({"time": "ts", "partition": "x"}, ColumnNotFoundError, "timeline: partition: column 'x' not found"),
        (
            {"time": "kind"},
            CepError,
            "time column 'kind' has type .*; a timestamp, duration or number is needed",
        ),
        ({"time": "ts", "max_events": 0}, CepError, "max_events is 0; at least 1"),
    ],
)
def test_errors_of_arguments(arguments, error, message):
    with pytest.raises(error, match=message):
        timeline(stream(), matched((3, 6)), **arguments)


def test_error_of_rows_that_are_not_there():
    with pytest.raises(
        CepError, match="2 of 4 rows refer to no event, the first to row 5; there are 5 events"
    ):
        timeline(stream(5), matched((3, 6)), time="ts")


@pytest.mark.parametrize("null", [pd.NaT, None])
def test_error_of_a_null_time(null):
    events = stream()
    events.loc[[2, 5], "ts"] = null
    with pytest.raises(OrderError, match="2 of 40 values of time column 'ts' are null"):
        timeline(events, matched((3, 6)), time="ts")
