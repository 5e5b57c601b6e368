"""Views of results: what they send and draw against the totals of what they show."""

import random
import xml.etree.ElementTree as ET

import numpy as np
import pandas as pd
import pytest

import cepkit as cep
from cepkit.compile.shared.row_automaton import positions, states
from cepkit.errors import CepError, ColumnNotFoundError, ResultTooLargeError
from cepkit.language.expressions.durations import count_text
from cepkit.language.row_patterns import seq, var
from cepkit.language.sequences.branches import branches
from cepkit.language.sequences.construction import sequence_query
from cepkit.linked.engine import chains_of
from cepkit.linked.patterns import PlainEvents, PlainPattern
from cepkit.parallel.model import AgentRates, agent_loads, thread_shares
from cepkit.parallel.outcome import ParallelRun
from cepkit.parallel.plots import (
    MOST_SEGMENTS,
    agent_marks,
    allocation_frame,
    allocation_scene,
    buffer_models,
    occupancy,
    run_end,
    thread_segments,
)
from cepkit.parallel.trace import LENGTHS
from cepkit.parallel.views import BufferView, ThreadView
from cepkit.plots import theme
from cepkit.plots.automata import sequence_states
from cepkit.plots.drawing import png
from cepkit.plots.layered import automaton_svg, automaton_traits, nfa_figure
from cepkit.plots.lineage import MOST_CHAINS, levels_of
from cepkit.plots.scene import LANE, Item
from cepkit.results.views import compare
from cepkit.shedding.plots import MOST_ROWS, POSITION_BINS, share_up_to, utilities
from cepkit.shedding.views import UtilityView
from cepkit.widgets.scene_view import LineageView
from tests.support.sizes import seeds
from tests.support.traces import EXAMPLE, busy_trace, drawn, overlap, trace_of
from tests.support.view_cases import GOOD, RATES

EVENTS = pd.DataFrame({"kind": list("aabbabcc"), "ts": range(8)})
QUERY = "PATTERN SEQ(a x, b y, c z)"


def items_of(view, kind: str, panel: int = 0) -> list[Item]:
    """Return the items of a kind that a view shows in a panel."""
    return [item for item in view._shown.panels[panel].items if item.kind == kind]


def joined(view, name: str) -> np.ndarray:
    """Return the places of all bars of a view's first panel."""
    return np.concatenate([getattr(item, name) for item in items_of(view, "bars")] or [np.empty(0)])


def n_bytes(sent) -> int:
    """Return the number of bytes in a scene that was sent."""
    if isinstance(sent, bytes):
        return len(sent)
    parts = sent.values() if isinstance(sent, dict) else sent if isinstance(sent, list) else ()
    return sum(map(n_bytes, parts))


def spent(segments) -> dict[tuple[int, int, int], float]:
    """Return the time of each thread, agent and action in segments."""
    found = {}
    time = (segments.end - segments.start) * (segments.high.astype(float) - segments.low)
    rows = zip(segments.lane, segments.agent, segments.action, time, strict=True)
    for lane, agent, action, one in rows:
        key = (int(segments.threads[lane]), int(agent), int(action))
        found[key] = found.get(key, 0.0) + one
    return found


def check_static(view) -> ET.Element:
    """Check what a page without a kernel shows; return the picture."""
    data, _ = view._repr_mimebundle_()
    assert data["application/vnd.jupyter.widget-view+json"]["model_id"] == view.model_id
    assert data["text/plain"] == repr(view) and " at 0x" not in repr(view)
    svg = ET.fromstring(view.svg())
    assert svg.get("role") == "img" and svg.get("aria-label")
    assert view._still() == view.svg() and png(view.svg()).startswith(b"\x89PNG")
    return svg


# --- threads ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("most", [0, 3000])
def test_the_time_in_segments_is_the_time_of_the_run(seed, most):
    trace, rows, _ = drawn(seed)
    segments = thread_segments(trace, most=most, n_bins=random.Random(seed).choice([1, 7, 240]))
    wanted = {}
    for row in rows:
        key = (row["thread"], row["agent"], row["action"])
        wanted[key] = wanted.get(key, 0.0) + row["end"] - row["start"]
    found = spent(segments)
    for key, time in wanted.items():
        assert found.get(key, 0.0) == pytest.approx(time, abs=1e-4), key
    assert set(found) <= set(wanted)
    assert segments.busy == pytest.approx(trace.threads()["busy"].sum(), abs=1e-3)
    assert (segments.low >= 0).all() and (segments.high <= 1).all()
    assert segments.threads.tolist() == trace.threads()["thread"].tolist()


@pytest.mark.parametrize("seed", range(12))
def test_a_part_of_a_run_has_the_time_that_lies_in_it(seed):
    trace, rows, _ = drawn(seed)
    rng = random.Random(seed)
    begin, until = sorted(rng.random() * (trace.makespan or 1.0) for _ in range(2))
    whole = thread_segments(trace, begin, until)
    touched = [row for row in rows if row["end"] > begin and row["start"] < until]
    assert len(whole.lane) == len(touched) and whole.n_bins == 0
    found = spent(thread_segments(trace, begin, until, most=0, n_bins=9))
    for thread, agent, action in {(r["thread"], r["agent"], r["action"]) for r in rows}:
        own = [r for r in rows if (r["thread"], r["agent"], r["action"]) == (thread, agent, action)]
        wanted = sum(overlap(row, begin, until) for row in own)
        assert found.get((thread, agent, action), 0.0) == pytest.approx(wanted, abs=1e-4)


@pytest.mark.parametrize("seed", range(12))
def test_segments_of_a_lane_do_not_cover_each_other(seed):
    trace, *_ = drawn(seed)
    segments = thread_segments(trace, most=0, n_bins=11)
    rows = pd.DataFrame({name: getattr(segments, name) for name in ("lane", "start", "low", "high")})
    for _, own in rows.groupby(["lane", "start"]):
        assert np.allclose(own["low"].iloc[1:], own["high"].iloc[:-1], atol=1e-6)
        assert own["low"].iloc[0] == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("seed", range(12))
def test_marks_name_the_agent_that_took_half_of_the_work_in_a_block(seed):
    trace, rows, _ = drawn(seed)
    n_blocks = random.Random(seed).choice([1, 4, 36])
    marks = agent_marks(thread_segments(trace), 0.0, trace.makespan, n_blocks)
    size = trace.makespan / n_blocks
    threads = trace.threads()["thread"].tolist()
    for lane, time, agent in marks:
        own = [row for row in rows if row["thread"] == threads[lane]]
        parts = [overlap(row, time - size / 2, time + size / 2) for row in own]
        taken = sum(part for part, row in zip(parts, own, strict=True) if row["agent"] == agent)
        assert agent >= 0 and taken >= max(0.25 * size, 0.5 * sum(parts)) - 1e-5
    assert len({(lane, time) for lane, time, _ in marks}) == len(marks)


def test_marks_where_the_agent_changes_and_now_and_then():
    one = {"thread": 0, "action": 1}
    rows = [{**one, "agent": 0, "start": 0, "end": 7}, {**one, "agent": 1, "start": 7, "end": 10}]
    trace = trace_of(rows, n_threads=1)
    assert agent_marks(thread_segments(trace), 0.0, 10.0, 10) == [(0, 0.5, 0), (0, 5.5, 0), (0, 7.5, 1)]


def test_threads_of_agents_by_the_model_and_as_they_worked():
    allocation = allocation_frame(EXAMPLE, [RATES])
    assert allocation["agent"].tolist() == ["b", "c+", "d"] and allocation["home"].tolist() == [1, 1, 0]
    assert np.allclose(allocation["busy"], EXAMPLE.agents_frame()["busy"] / EXAMPLE.makespan)
    half = [EXAMPLE.n_threads / 3 / 2] * 3
    assert np.allclose(allocation["modelled"], thread_shares(agent_loads(RATES, half, half), 2))
    assert allocation["modelled"].sum() == pytest.approx(EXAMPLE.n_threads)
    assert allocation_frame(EXAMPLE)["modelled"].isna().all()
    bars = allocation_scene(allocation).panels[0].items
    assert np.array_equal([bar.x1[0] for bar in bars[1::3]], allocation["busy"])
    assert len({bar.look.pattern for bar in bars}) == 3 and len({bar.look.colour for bar in bars}) == 3
    assert [look.name for _, look in allocation_scene(allocation).legend] == [
        "by the cost model",
        "busy, on average",
        "mostly for it",
    ]
    assert len(allocation_scene(allocation_frame(EXAMPLE)).legend) == 2
    with pytest.raises(ColumnNotFoundError, match="modelled"):
        allocation_scene(allocation.drop(columns="modelled"))
    with pytest.raises(CepError, match=r"rates of 1 agents\. The run has 3: \['b', 'c\+', 'd'\]"):
        allocation_frame(EXAMPLE, [AgentRates((1.0, 1.0), 1.0)])


def test_a_view_of_threads():
    view = ThreadView(EXAMPLE, rates=[RATES], title="a run")
    assert repr(view) == "ThreadView(2 threads, 3 agents, simulated)"
    panel = view._shown.panels[0]
    assert panel.y.names == ("source", "0 · b", "1 · c+") and view.extent == [0, 100]
    assert panel.hints[1] == "thread 0: busy 40 %, mostly agent b, takes events"
    assert panel.x.label == "virtual time since the start of the run (ns)"
    assert joined(view, "x").tolist() == [0, 10, 30, 90, 40]
    lanes = ((joined(view, "y") + joined(view, "y1")) / 2).round(6)
    assert lanes.tolist() == [0, 1, 1, 1, 2]
    assert [item.fields["amount"].tolist() for item in items_of(view, "bars")] == [[3], [1], [0], [1], [2]]
    assert [len(row["cells"]) for row in view.scene["table"]] == [3, 3, 3]
    assert [len(row["cells"]) for row in ThreadView(EXAMPLE).scene["table"]] == [2, 2, 2]
    svg = check_static(view)
    assert {"a run", "0 · b", "takes partial matches"} <= {text.text for text in svg.iter() if text.text}
    assert len(view.figure().data) > 3 and len(view.figure("allocation").data) == 9 + 3
    assert view.to_frame().equals(EXAMPLE.threads())
    with pytest.raises(CepError, match=r"figure 'lanes' is not known\. There are \['threads', "):
        view.figure("lanes")
    with pytest.raises(TypeError):
        ThreadView(EXAMPLE, colour="red")
    refusal = r"ThreadView: expected a Trace, got DataFrame\. Give matches\.run\.trace"
    with pytest.raises(CepError, match=refusal):
        ThreadView(EXAMPLE.actions())


def test_a_closer_look_at_threads_brings_the_actions():
    view = ThreadView(busy_trace(4, 2000, 3))
    assert "bins" in view._shown.note and len(joined(view, "x")) <= MOST_SEGMENTS
    low, high = view.extent[1] / 2, view.extent[1] * 0.52
    view.window = [low, high]
    assert "bins" not in view._shown.note
    done = view._trace.done
    inside = (done.end > low) & (done.start < high)
    assert np.array_equal(np.sort(joined(view, "x")), np.sort(done.start[inside]))
    before = view.scene
    view.window = [5.0, 5.0]  # nothing: as before
    assert view.scene is before
    view.window = view.extent
    assert "bins" in view._shown.note


def test_a_long_trace_is_sent_in_bins():
    view = ThreadView(busy_trace(24, 5_000, 6))  # of a million actions as much is sent
    assert len(view._trace.done.start) > 10**5
    assert n_bytes(view.scene) < 1_900_000 and len(view.svg()) < 900_000
    assert len(view.figure().to_json()) < 2_000_000


def test_runs_in_which_nothing_was_done():
    nothing = trace_of([], n_threads=3)
    view = ThreadView(nothing)
    assert not len(joined(view, "x")) and "no thread did anything" in view.svg()
    assert view._shown.panels[0].y.names == ("0", "1", "2")
    buffers = BufferView(nothing)
    assert "All queues and buffers were empty." in buffers.svg()
    assert not any(item.y.any() for panel in range(4) for item in items_of(buffers, "line", panel))
    none = trace_of([], n_threads=0, agents=())
    assert check_static(ThreadView(none)) is not None and check_static(BufferView(none)) is not None


# --- buffers ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
def test_bins_of_lengths_agree_with_their_definition(seed):
    trace, _, readings = drawn(seed)
    end = run_end(trace)
    assert end >= trace.makespan
    if not end:
        pytest.skip("a run without actions")
    rng = random.Random(seed)
    n_bins = rng.choice([1, 3, 40])
    begin, until = sorted(rng.random() * end for _ in range(2)) if seed % 2 else (0.0, end)
    made = occupancy(trace, begin, until, n_bins)
    for a in range(len(trace.agents)):
        own = sorted((r for r in readings if r["agent"] == a), key=lambda r: r["time"])
        own = [{"time": 0.0, **dict.fromkeys(LENGTHS, 0)}, *own]
        held = [
            {"start": r["time"], "end": n["time"]}
            for r, n in zip(own, [*own[1:], {"time": end}], strict=True)
        ]
        for k, name in enumerate(LENGTHS):
            for b in range(n_bins):
                low, high = made.edges[b], made.edges[b + 1]
                parts = [overlap(span, low, high) for span in held]
                total = sum(part * r[name] for part, r in zip(parts, own, strict=True))
                assert made.mean[k, a, b] == pytest.approx(total / (high - low), abs=1e-6)
                # A moment at an edge may count on either side.
                touched = {r[name] for part, r in zip(parts, own, strict=True) if part > 1e-9}
                assert made.least[k, a, b] <= min(touched) and made.greatest[k, a, b] >= max(touched)


@pytest.mark.parametrize("seed", range(12))
def test_the_greatest_lengths_and_means_are_those_of_the_run(seed):
    trace, *_ = drawn(seed)
    agents, made = trace.agents_frame(), occupancy(trace)
    view = BufferView(trace)
    for k, name in enumerate(LENGTHS):
        if run_end(trace):
            assert made.greatest[k].max(axis=1).tolist() == agents[f"most_{name}"].tolist()
        if run_end(trace) == trace.makespan > 0:
            assert np.allclose(made.mean[k].mean(axis=1), agents[f"mean_{name}"])
        shown = [item.greatest for item in items_of(view, "line", k)]
        assert np.array_equal(np.array(shown).reshape(made.greatest[k].shape), made.greatest[k])


def test_models_of_buffers_are_those_of_the_cost_model():
    models = buffer_models(EXAMPLE, [RATES])
    assert models["model"].tolist() == ["e·W"] * 3 + ["m·W/(i−1)"] * 3
    assert models["agent"].tolist() == ["b", "c+", "d"] * 2
    m = [0.5, 0.5 * 1.0 * 0.1 * 10, 0.5 * 1.0 * 0.1 * 2.0 * 0.2 * 100 / 2]
    wanted = [10.0, 20.0, 2.5, *(of * 10 / (i - 1) for i, of in enumerate(m, start=2))]
    assert np.allclose(models["value"], wanted)
    view = BufferView(EXAMPLE, rates=[RATES])
    levels = [item.y[0] for panel in (2, 3) for item in items_of(view, "line", panel)[3:]]
    assert levels == models["value"].tolist() and BufferView(EXAMPLE).models_frame is None
    assert view._shown.panels[2].notes == ("e·W:", "b 10", "c+ 20 (above)", "d 2.5")
    assert view.scene["below"] and not BufferView(EXAMPLE).scene["below"]


def test_a_view_of_buffers():
    view = BufferView(EXAMPLE, rates=[RATES], title="a run")
    assert repr(view) == "BufferView(3 agents, 3 readings, simulated)"
    svg = check_static(view)
    said = {text.text for text in svg.iter() if text.text}
    assert {"a run", "events in buffers", "partial matches in queues"} <= said
    assert view.to_frame().equals(EXAMPLE.agents_frame())
    view.window = [20.0, 40.0]
    made = occupancy(EXAMPLE, 20.0, 40.0)
    assert np.array_equal(items_of(view, "line", 1)[1].y, made.mean[1, 1])
    assert view._shown.panels[0].x.low == 20.0 and view._shown.panels[0].x.high == 40.0
    with pytest.raises(CepError, match="BufferView: expected a Trace, got str"):
        BufferView("run")


# --- utilities --------------------------------------------------------------------------------------------


def random_utilities(seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 300))
    frame = pd.DataFrame({"utility": rng.random(n) * rng.choice([0.5, 40.0, 3000.0])})
    if seed % 3 != 1:
        frame["event_type"] = rng.choice(list("ABC"), n)
    if seed % 3:
        frame["state"] = rng.integers(0, 4, n)
    if seed % 2:
        frame["position"] = rng.integers(0, rng.choice([5, 1000]), n)
    if seed % 5:
        frame["n"] = rng.integers(0, 9, n)
    return frame


@pytest.mark.parametrize("seed", range(15))
def test_a_table_of_utilities_keeps_counts_and_means(seed):
    frame = random_utilities(seed)
    made = utilities(frame)
    n = frame["n"] if "n" in frame else pd.Series(1, index=frame.index)
    assert made.n_total == n.sum() == made.n_of_utility.sum() and made.n_rows_left_out == 0
    assert made.utility_edges[-1] >= frame["utility"].max() and len(made.edges) - 1 <= POSITION_BINS
    for r, row in enumerate(made.rows):
        own = np.logical_and.reduce(
            [frame[k].astype(str) == row[k] for k in ("state", "event_type") if k in row]
        )
        assert made.n[r].sum() == n[own].sum() == made.n_of_utility[r].sum()
        assert np.nansum(made.mean[r] * made.n[r]) == pytest.approx((n * frame["utility"])[own].sum())
        position = frame["position"] if "position" in frame else pd.Series(0, index=frame.index)
        for b in range(len(made.edges) - 1):
            inside = own & (position >= made.edges[b]) & (position < made.edges[b + 1])
            assert np.isnan(made.mean[r, b]) == (not inside.any())
            if inside.any() and n[inside].sum():
                assert made.mean[r, b] == pytest.approx(
                    np.average(frame["utility"][inside], weights=n[inside])
                )
    assert share_up_to(made, made.utility_edges[-1]) == (1.0 if n.sum() else 0.0)
    edge = float(made.utility_edges[17])
    below = n[frame["utility"] < edge].sum() / max(n.sum(), 1)
    assert share_up_to(made, edge) == pytest.approx(below)


def test_rows_of_utilities():
    frame = pd.DataFrame(
        {"event_type": pd.Categorical(list("BA"), list("ABC")), "utility": [1, 2], "state": [7, 8]}
    )
    assert [row["label"] for row in utilities(frame).rows] == ["7 · B", "8 · A"]
    assert [row["label"] for row in utilities(frame.drop(columns="state")).rows] == ["A", "B"]
    frame = pd.DataFrame({"state": [10, 2, 9], "utility": 1})
    assert [row["label"] for row in utilities(frame).rows] == ["2", "9", "10"]
    many = pd.DataFrame({"state": np.arange(200), "utility": 0.5, "n": np.arange(200)})
    made = utilities(many)
    assert [row["state"] for row in made.rows] == [str(s) for s in range(200 - MOST_ROWS, 200)]
    assert made.n_rows_left_out == 140 and made.n_total == many["n"][-MOST_ROWS:].sum()
    assert UtilityView(many)._shown.note == "140 rows with the smallest counts are left out"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"utility": None}, "'utility' not found"),
        ({"event_type": None}, "'event_type' not found"),
        ({"utility": [0.5, -1]}, r"utility in row 1 is -1\.0\. It must be a finite number of at least 0"),
        ({"utility": [np.nan, 1]}, "utility in row 0 is nan"),
        (
            {"utility": ["high", "low"]},
            r"column utility has type .*, not numbers\. The columns",
        ),
        ({"position": [0, np.inf]}, r"position in row 1 is inf\. It must be a finite number$"),
        ({"n": [1, -2]}, "n in row 1"),
        ({"event_type": ["A", None]}, "event_type in row 1 is missing"),
    ],
)
def test_frames_that_are_no_utilities(change, message):
    frame = pd.DataFrame({name: of for name, of in {**GOOD, **change}.items() if of is not None})
    with pytest.raises(CepError, match=message):
        UtilityView(frame)


def test_a_view_of_utilities():
    view = UtilityView(pd.DataFrame(GOOD), threshold=0.5, title="UT(T, P)")
    assert repr(view) == "UtilityView(2 rows, 2 positions, 3 seen)"
    (cells,) = items_of(view, "cells")
    assert cells.y[0, 0] == 0.5 and np.isnan(cells.y[0, 1])
    assert view.share == 0.0  # half is the lower end of its bin
    view.threshold = 0.6
    assert view.share == pytest.approx(1 / 3)
    check_static(view)
    seen = next(item for item in items_of(view, "bars", 1) if item.look.name == "seen")
    assert seen.y1.sum() == 3 and "33.3 % of all up to it" in view._shown.panels[1].label
    assert {trace.type for trace in view.figure().data} == {"heatmap", "bar", "scatter"}
    assert view.to_frame()["n"].tolist() == [1, 2]
    empty = UtilityView(pd.DataFrame({"state": [], "utility": []}))
    assert "no utilities" in empty.svg() and repr(empty) == "UtilityView(0 rows, no positions, 0 seen)"
    assert empty.figure().layout.annotations[-1].text == "no utilities"
    with pytest.raises(TypeError):
        UtilityView(pd.DataFrame(GOOD), bins=3)
    with pytest.raises(
        CepError, match=r"utilities: got list\. Give a pandas DataFrame with the columns \['utility'"
    ):
        UtilityView([1])


def test_many_utilities_are_sent_in_bins():
    rng = np.random.default_rng(0)
    n = 10**6
    frame = pd.DataFrame(
        {"event_type": rng.integers(0, 50, n), "position": rng.random(n), "utility": rng.random(n)}
    )
    assert n_bytes(UtilityView(frame).scene) < 200_000


# --- lineage ----------------------------------------------------------------------------------------------


def edges_of(view: LineageView) -> list[tuple]:
    page = view._page
    return [
        (str(page.numbers[row]), int(page.positions[event]), variable)
        for row, event, variable in zip(
            page.match_of_item, page.event_of_item, page.variable_of_item, strict=True
        )
    ]


def lines(rows: pd.DataFrame) -> list[tuple]:
    return [(str(m), p, v) for m, p, v in zip(rows["match"], rows["position"], rows["variable"], strict=True)]


@pytest.mark.parametrize("seed", range(15))
def test_edges_of_the_picture_are_the_lines_of_lineage(seed):
    rng = np.random.default_rng(seed)
    kinds = pd.Categorical(rng.choice(list("abc"), int(rng.integers(0, 14))), list("abc"))
    events = pd.DataFrame({"kind": kinds, "ts": np.arange(len(kinds))})
    text = ["PATTERN SEQ(a x, b+ y[], c z)", QUERY][seed % 2]
    matches = events.cep.match(text, event_type="kind", order_by="ts")
    rows = matches.lineage()
    view = LineageView(rows, size=7)
    seen = []
    for first in range(0, max(matches.count(), 1), 7):
        view.wanted = str(first)
        seen += edges_of(view)
        shown = view.to_frame()
        assert lines(shown) == edges_of(view)
        per_event = shown.groupby("position")["match"].nunique()
        page = view._page
        counts = zip(page.positions.tolist(), page.n_matches_of_event.tolist(), strict=True)
        assert dict(counts) == per_event.to_dict()
        assert view.can_turn == [first > 0, first + 7 < matches.count()]
        drawn = {
            (str(page.numbers[int(y)]), int(page.positions[int(x)]), item.look.name)
            for item in items_of(view, "points", 1)
            for x, y in zip(item.x, item.y, strict=True)
        }
        assert drawn == set(lines(shown))
    assert seen == lines(rows)


@pytest.mark.parametrize("seed", seeds(8, 25))
def test_chains_are_the_engines_and_make_every_match_once(seed):
    rng = np.random.default_rng(seed)
    n, window = int(rng.integers(1, 16)), int(rng.integers(3, 12))
    kinds = np.repeat(rng.choice(list("abc"), n), rng.integers(1, 3, n))
    events = pd.DataFrame({"kind": pd.Categorical(kinds, list("abc")), "ts": np.arange(len(kinds))})
    matches = events.cep.match(f"{QUERY} WITHIN {window}", event_type="kind", order_by="ts", engine="linked")
    chains = matches.run.chains_frame()
    assert len(chains) == matches.run.partial_matches and chains["chain"].nunique() == matches.run.chains
    last = chains.loc[chains["component"] == 2, "chain"].unique()
    products = {chain: [events for _, events in levels_of(chains, chain)] for chain in last}
    for match, own in matches.lineage().groupby("match"):
        at = own["position"].tolist()
        within = [
            c for c, levels in products.items() if all(p in of for p, of in zip(at, levels, strict=True))
        ]
        assert len(within) == 1, match
    view = matches.view(size=1000)
    told = [row for chain in view._drawn_chains for row in chain.matches or ()]
    if chains["chain"].nunique() <= MOST_CHAINS and len(matches):
        whole = set(chains["position"]) <= set(view._page.positions.tolist())
        assert not whole or sorted(told) == list(range(len(matches)))


def test_chains_of_the_worked_example():
    view = EVENTS.cep.match(QUERY, event_type="kind", order_by="ts", engine="linked").view()
    assert repr(view) == "LineageView(14 matches, 8 chains)" and view.title == "SEQ(a x, b y, c z)"
    drawn = view._drawn_chains
    assert [len(chain.matches) for chain in drawn if chain.matches is not None] == [8, 4, 2]
    assert view._lanes == ["x", "y", "y", "z", "z", "z"]
    assert [(chain.number, chain.before, chain.shared) for chain in drawn] == [
        (0, -1, 0),
        (2, -1, 0),
        (1, 0, 2),
        (3, 0, 2),
        (4, 2, 1),
        (5, 1, 2),
        (6, 3, 1),
        (7, 4, 1),
    ]
    words = items_of(view, "bars", 2)[-1].fields["chain"]
    assert [text.partition(":")[0] for text in words] == [
        f"chain {chain.number} of {chain.variable}" for chain in drawn
    ]
    check_static(view)
    for chain in drawn:  # chains of one lane do not touch
        others = [other for other in drawn if other.lane == chain.lane and other.number > chain.number]
        assert all(other.events[0] > chain.events[-1] for other in others)


def test_chains_of_long_streams_and_of_run_engines():
    accepts = np.ones((2, 3000), bool)
    with pytest.raises(ResultTooLargeError, match=r"the pattern uses 3,000 events\. .* at most 2,000"):
        chains_of(PlainPattern(2), PlainEvents(np.arange(3000), accepts))
    run = EVENTS.cep.match(QUERY, event_type="kind", engine="sase_runs").run
    with pytest.raises(AttributeError, match="'sase_runs' has no chains"):
        run.chains_frame()
    assert (
        repr(EVENTS.cep.match(QUERY, event_type="kind", engine="sase_runs").view())
        == "LineageView(14 matches)"
    )


def test_pages_of_a_result_that_no_memory_holds():
    events = pd.DataFrame({"kind": ["a"] * 80, "ts": range(80)})
    matches = events.cep.match("PATTERN SEQ(a+ x[])", event_type="kind", order_by="ts")
    view = matches.view()
    assert matches.count() == 2**80 - 1 and f"of {count_text(2**80 - 1)}" in view.note
    view.wanted = str(2**70)
    assert view.first == str(2**70) and view._page.numbers[0] == 2**70 and len(view._page.numbers) == 24
    assert lines(view.to_frame().head(3))[0][0] == str(2**70)
    view.wanted = str(2**90)  # behind the last: the last
    assert view.first == str(2**80 - 2) and view.can_turn == [True, False]
    view.wanted = "x"
    assert view.first == "0"


def test_a_view_of_lineage():
    matches = EVENTS.cep.match(QUERY, event_type="kind", order_by="ts")
    view = matches.view("lineage", size=5, title="SEQ")
    assert view.note == "matches 0 to 4 of 14, 5 of 6 events shared"
    assert view._page.labels[0] == "0" and len(view._shown.panels[1].y.names) == 5
    assert view._shown.panels[0].x.names == tuple("012356")  # the times say the same
    assert view._shown.panels[0].x.high == 5.5  # six events take the whole width
    check_static(view)
    view.selected = {"event": 1}
    view.wanted = "5"
    assert view.selected is None and view._page.numbers[0] == 5
    regex = EVENTS.cep.match("a b", define={"a": "ts > -1", "b": "ts > prev(ts)"}, order_by="ts")
    assert repr(regex.view()) == "LineageView(4 matches)" and edges_of(regex.view()) == lines(regex.lineage())
    nothing = EVENTS.assign(ts=EVENTS["ts"] * 100).cep.match(
        f"{QUERY} WITHIN 9", event_type="kind", order_by="ts"
    )
    nothing = nothing.view()
    assert nothing.note == "no match" and not len(nothing._page.positions) and "no match" in nothing.svg()
    assert nothing.figure().layout.annotations[-1].text == "no match"
    with pytest.raises(ColumnNotFoundError, match="variable"):
        LineageView(matches.lineage().drop(columns="variable"))
    with pytest.raises(ColumnNotFoundError, match="LineageView: chains"):
        LineageView(matches.lineage(), chains=pd.DataFrame({"chain": []}))
    with pytest.raises(
        CepError, match=r"rows must be the frame of matches\.lineage\(\), or a function with n_matches"
    ):
        LineageView(lambda low, high: matches.lineage())
    with pytest.raises(TypeError):
        LineageView(matches.lineage(), page=3)


def test_a_match_of_too_many_events():
    rows = pd.DataFrame({"match": 0, "variable": "x", "position": range(1000), "index": range(1000)})
    view = LineageView(rows)
    assert len(view._page.positions) == 300 and view.note.endswith(
        "700 matched events left out, since there are too many columns"
    )


# --- automata ---------------------------------------------------------------------------------------------


GOLDEN = states(positions(seq(".", var("rise").plus(), seq("a", "b").plus(), var("drop").star(), "deep")))


def test_the_layout_of_an_automaton():
    made = automaton_traits(GOLDEN, {"deep": "price < 3"})
    assert set(made) == {"states", "transitions", "width", "height"}
    place = {of["id"]: (of["x"], of["y"]) for of in made["states"]}
    assert [of["id"] for of in made["states"] if of["is_start"]] == [0]
    assert [of["id"] for of in made["states"] if of["is_final"]] == list(GOLDEN.accepting)
    assert all(21 <= x <= made["width"] - 21 and 21 <= y <= made["height"] - 21 for x, y in place.values())
    merged = {(s, t) for s, _, t in GOLDEN.transitions}
    assert {(of["source"], of["target"]) for of in made["transitions"]} == merged
    for of in made["transitions"]:  # from the rim of the source to the begin of the arrow head at the target
        numbers = [
            float(n)
            for n in of["path"]
            .replace("M", " ")
            .replace("C", " ")
            .replace("L", " ")
            .replace(",", " ")
            .split()
        ]
        (x0, y0), (x1, y1) = numbers[:2], numbers[-2:]
        assert np.hypot(x0 - place[of["source"]][0], y0 - place[of["source"]][1]) == pytest.approx(
            17, abs=0.2
        )
        assert np.hypot(x1 - place[of["target"]][0], y1 - place[of["target"]][1]) == pytest.approx(
            24, abs=0.2
        )
        assert 0 <= of["x"] <= made["width"] and 0 <= of["y"] <= made["height"]
    deep = [of["tooltip"] for of in made["transitions"] if of["label"] == "deep"]
    assert deep and set(deep) == {"deep: price < 3"}


def test_live_states_and_those_of_a_match():
    still, live = automaton_svg(GOLDEN, live={}), automaton_svg(GOLDEN, live={1: 1234, 2: 1}, lit=[0, 1])
    names = [group.get("class") for group in ET.fromstring(live).iter() if "node" in group.get("class", "")]
    assert names == ["node lit", "node live lit", "node live", *["node"] * (GOLDEN.n_states - 3)]
    assert "1,234" in live and "1,234 partial matches live; of the selected match" in live
    assert "1 partial match live" in live and "live" not in still
    one, other = ET.fromstring(still), ET.fromstring(live)
    assert one.get("viewBox") == other.get("viewBox")  # nothing jumps while events are gone through
    figure = nfa_figure(**automaton_traits(GOLDEN), live={1: 1234}, lit=[0])
    widths = [shape.line.width for shape in figure.layout.shapes if shape.type == "circle"]
    assert widths.count(4) == 1 and "1,234" in [note.text for note in figure.layout.annotations]
    assert sum(shape.type == "path" for shape in figure.layout.shapes) == len(
        {(s, t) for s, _, t in GOLDEN.transitions}
    )


def test_automata_of_sequences():
    def made(text):
        return sequence_states(branches(sequence_query(text)))

    automaton, of = made("PATTERN SEQ(A a, OR(B b, C c), D+ d[], !X x) WITHIN 9 min")
    assert automaton.transitions == (
        (0, "a", 1), (1, "b", 2), (2, "d, no x after", 3), (3, "d", 3),
        (1, "c", 4), (4, "d, no x after", 5), (5, "d", 5),
    )  # fmt: skip
    assert of == ((1, 2, 3), (1, 4, 5)) and automaton.accepting == (3, 5)
    automaton, of = made("PATTERN SEQ(A a, B? b, C c)")
    assert {branch[0] for branch in of} == {1} and len(automaton.accepting) == 2
    assert len(automaton_traits(automaton)["states"]) == automaton.n_states


# --- doors ------------------------------------------------------------------------------------------------


def run_of(trace, rates=None) -> ParallelRun:
    one = np.zeros(len(trace.agents), np.int64)
    two = np.zeros((len(trace.agents), 2), np.int64)
    return ParallelRun(
        "Hybrid(threads=2)", False, 1, trace.makespan, np.zeros(2), trace.agents, two, two, two, one, one, 0,
        trace=trace, _measure=None if rates is None else lambda: rates,
    )  # fmt: skip


def test_one_word_for_all_views():
    run = run_of(EXAMPLE, (RATES,))
    assert repr(cep.view(run)) == repr(run.view()) == repr(cep.view(EXAMPLE)) == repr(ThreadView(EXAMPLE))
    assert repr(cep.view(run, "buffers")) == repr(cep.view(EXAMPLE, "buffers")) == repr(BufferView(EXAMPLE))
    assert run.view().allocation_frame["modelled"].notna().all() and len(run.view("buffers").models_frame)
    assert cep.view(run, rates=None).allocation_frame["modelled"].isna().all()
    assert cep.view(run_of(EXAMPLE), title="x").title == "x" and run_of(EXAMPLE).rates is None
    assert repr(cep.view(pd.DataFrame(GOOD), threshold=1.0)) == "UtilityView(2 rows, 2 positions, 3 seen)"
    matches = EVENTS.cep.match(QUERY, event_type="kind", order_by="ts")
    assert repr(cep.view(matches)) == repr(matches.view("lineage")) == "LineageView(14 matches)"
    nfa = cep.view(matches.query, live=[{"state": 1, "n": 12}], lit=[0])
    assert repr(nfa) == "NfaView(4 states, 3 transitions)" and nfa.svg().startswith("<svg")
    assert nfa.is_alone and nfa.conditions[:2] == [
        {"name": "x", "text": "type a"},
        {"name": "y", "text": "type b"},
    ]
    assert nfa.to_frame()["target"].tolist() == [1, 2, 3] and nfa.figure().data
    explained = EVENTS.cep.explain(QUERY, event_type="kind", order_by="ts")
    assert repr(cep.view(explained, "nfa")) == repr(cep.view(matches.query))
    regex = cep.regex_query("a b", define={"b": "x > 3", "a": "x < 3"})
    assert cep.view(regex).transitions[1]["tooltip"] == "b: x > 3"


@pytest.mark.parametrize(
    ("of", "what", "message"),
    [
        (EXAMPLE, "thread", r"unknown view 'thread' of a trace\. Did you mean 'threads'\? Views: "),
        (run_of(EXAMPLE), "lengths", r"'lengths' is not known\. There are \['threads', 'buffers'\]"),
        (pd.DataFrame(GOOD), "nfa", r"unknown view 'nfa' of a DataFrame\. Views: \['utility'\]"),
        (3, None, "int has no view. Matches, runs, traces"),
    ],
)
def test_views_that_there_are_not(of, what, message):
    with pytest.raises(CepError, match=message):
        cep.view(of, what)


def test_views_that_matches_have_not():
    matches = EVENTS.cep.match(QUERY, event_type="kind", order_by="ts")
    with pytest.raises(CepError, match=r"'threads' needs the run of a parallel engine\. Give engine="):
        matches.view("threads")
    with pytest.raises(CepError, match=r"unknown view 'plot' of matches\. Views: \['lineage', 'threads'"):
        matches.view("plot")
    with pytest.raises(CepError, match=r"this run has no trace\. Give trace=True to match or simulate"):
        ParallelRun(**{**vars(run_of(EXAMPLE)), "trace": None}).view()


def test_views_of_a_run_and_its_models():
    rng = np.random.default_rng(0)
    events = pd.DataFrame({"ts": range(400), "kind": rng.choice(list("ABC"), 400)})
    call = {"event_type": "kind", "order_by": "ts", "trace": True}
    query = "PATTERN SEQ(A a, B b, C c) WITHIN 20"
    run = cep.simulate(events, query, engine=cep.Hybrid(threads=4), **call)
    (rates,) = run.rates
    view = run.view()
    assert view.allocation_frame["modelled"].sum() == pytest.approx(4)
    assert view.allocation_frame["busy"].sum() <= run.busy.sum() / run.makespan + 1e-9
    share = (joined(view, "y") - joined(view, "y1")) / LANE
    time = (joined(view, "x1") - joined(view, "x")) * share
    names = view._shown.panels[0].y.names
    lane = ((joined(view, "y") + joined(view, "y1")) / 2).round().astype(int)
    is_thread = np.array([not names[k].startswith("source") for k in lane])
    assert time[is_thread].sum() == pytest.approx(run.busy.sum(), rel=1e-6)
    models = run.view("buffers").models_frame
    of_b = models[models["agent"] == "b"].iloc[0]
    assert of_b["value"] == pytest.approx(rates.rates[1] * rates.window)


def test_a_name_has_the_same_colour_in_every_picture():
    kinds = list("zzyyzyxx")
    events = pd.DataFrame({"kind": kinds, "ts": range(8), "price": range(8)})
    matches = events.cep.match("PATTERN SEQ(z c, y b, x a)", event_type="kind", order_by="ts")
    drawn = [
        trace for trace in matches.plot("price").data if (trace.legendgroup or "").startswith("variable")
    ]
    plotted = {trace.name: (trace.marker.color, trace.marker.symbol) for trace in drawn}
    looks = dict((look.name, look) for _, look in matches.view()._shown.legend)
    viewed = {name: (theme.PALETTE[look.colour], look.symbol) for name, look in looks.items()}
    rows = compare({"a": matches}).data
    compared = {
        trace.name: (trace.marker.color, trace.marker.symbol) for trace in rows if trace.mode == "markers"
    }
    assert list(plotted) == ["c", "b", "a"] and plotted == viewed == compared
    later = matches.view(size=1)
    later.wanted = "3"
    assert {look.name: look for _, look in later._shown.legend} == looks
