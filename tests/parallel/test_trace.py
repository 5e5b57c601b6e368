"""Traces: their tables against plain definitions, what they refuse, and the way to a file and back."""

import random

import numpy as np
import pandas as pd
import pytest

from cepkit.errors import CepError
from cepkit.parallel.trace import ACTIONS, IDLE, Actions, Trace
from tests.support.sizes import seeds
from tests.support.traces import EXAMPLE, drawn, overlap, trace_of

# --- tables


def test_actions_are_in_the_order_of_time():
    actions = EXAMPLE.actions()
    assert actions["start"].tolist() == [0, 10, 30, 40, 90]
    assert actions["thread"].tolist() == [-1, 0, 0, 1, 0]
    assert actions["agent"].isna().tolist() == [True, False, False, False, False]
    assert actions["agent"].tolist()[1:] == ["b", "b", "c+", "c+"]
    assert actions["action"].tolist() == ["source", "events", "removal", "partials", "events"]
    assert list(actions.columns) == list(Actions._fields)


def test_threads_say_what_each_did_most():
    threads = EXAMPLE.threads().set_index("thread")
    assert threads.index.tolist() == [-1, 0, 1]
    assert threads["busy"].tolist() == [10, 40, 50] and threads["idle"].tolist() == [90, 60, 50]
    assert threads["share"].tolist() == [0.1, 0.4, 0.5] and threads["items"].tolist() == [3, 2, 2]
    assert threads["role"].tolist() == ["source", "events", "partials"]
    assert threads["agent"].tolist()[1:] == ["b", "c+"] and pd.isna(threads["agent"][-1])


def test_states_of_two_bins():
    found = EXAMPLE.states(2)
    rows = list(
        zip(found["thread"], found["bin"], found["agent"].astype(object), found["action"], strict=True)
    )
    none = [row[:2] + row[3:] for row in rows if pd.isna(row[2])]
    assert none == [
        (-1, 0, "source"),
        (-1, 0, IDLE),
        (-1, 1, IDLE),
        *((t, b, IDLE) for t in (0, 1) for b in (0, 1)),
    ]
    assert [row for row in rows if not pd.isna(row[2])] == [
        (0, 0, "b", "events"), (0, 0, "b", "removal"), (0, 1, "c+", "events"),
        (1, 0, "c+", "partials"), (1, 1, "c+", "partials"),
    ]  # fmt: skip
    assert found["share"].round(9).tolist() == [0.2, 0.8, 1, 0.4, 0.2, 0.4, 0.2, 0.8, 0.2, 0.8, 0.8, 0.2]


def test_what_was_done_for_each_agent():
    agents = EXAMPLE.agents_frame().set_index("agent")
    assert agents["taken_events"].tolist() == [1, 1, 0] and agents["taken_partials"].tolist() == [0, 2, 0]
    assert agents["compared_by_events"].tolist() == [5, 2, 0]
    assert agents["compared_by_partials"].tolist() == [0, 4, 0]
    assert agents["busy"].tolist() == [30, 60, 0] and agents["removed_events"].tolist() == [6, 0, 0]
    assert agents["mean_event_queue"].tolist() == [(4 * 50 + 1 * 30) / 100, 0, 0]
    assert agents["mean_partial_queue"].tolist() == [0, 1, 0]
    assert agents["most_event_buffer"].tolist() == [3, 0, 0]


def test_totals_and_words():
    total = EXAMPLE.totals().iloc[0]
    assert total["makespan"] == 100 and total["busy"] == 90 and total["share"] == 0.45
    assert total[["n_items", "compared", "sent", "looped", "n_matches"]].tolist() == [4, 11, 2, 1, 1]
    assert repr(EXAMPLE) == (
        "Trace of a simulated run: 100 ns, 2 threads busy 45 %, 3 agents\n"
        "5 actions: 4 items, 11 comparisons, 1 match"
    )
    assert EXAMPLE._repr_html_().count("<br>") == 1 and "45 %" in EXAMPLE._repr_html_()


@pytest.mark.parametrize("seed", seeds(10, 40))
def test_tables_agree_with_their_definitions(seed):
    trace, rows, readings = drawn(seed)
    makespan = max((row["end"] for row in rows), default=0.0)
    assert trace.makespan == makespan
    threads = trace.threads()
    assert np.allclose(threads["busy"] + threads["idle"], makespan)
    for thread, busy, items in zip(threads["thread"], threads["busy"], threads["items"], strict=True):
        own = [row for row in rows if row["thread"] == thread]
        assert np.isclose(busy, sum(row["end"] - row["start"] for row in own))
        assert items == sum(row["n_items"] for row in own)
    agents = trace.agents_frame()
    for code, row in agents.iterrows():
        own = [action for action in rows if action["agent"] == code]
        assert row["compared_by_events"] == sum(a["compared"] for a in own if a["action"] == 1)
        assert row["taken_partials"] == sum(a["n_items"] for a in own if a["action"] == 2)
        assert row["sent"] == sum(a["sent"] for a in own)
        read = sorted((r for r in readings if r["agent"] == code), key=lambda r: r["time"])
        ends = [r["time"] for r in read[1:]] + [makespan]
        held = sum(
            r["event_buffer"] * overlap({"start": r["time"], "end": e}, 0, makespan)
            for r, e in zip(read, ends, strict=False)
        )
        assert np.isclose(row["mean_event_buffer"], held / makespan if makespan else 0.0)
        assert row["most_partial_queue"] == max((r["partial_queue"] for r in read), default=0)
    totals = trace.totals().iloc[0]
    assert np.isclose(totals["busy"], threads.loc[threads["thread"] >= 0, "busy"].sum())
    assert totals["compared"] == sum(row["compared"] for row in rows)


@pytest.mark.parametrize("seed", seeds(10, 40))
def test_bins_agree_with_their_definition_and_add_up(seed):
    trace, rows, _ = drawn(seed)
    n_bins = random.Random(seed).choice([1, 2, 7, 50])
    states = trace.states(n_bins)
    if not trace.makespan:
        assert states.empty
        return
    width = trace.makespan / n_bins
    wanted = {}
    for row in rows:
        agent = None if row["agent"] < 0 else trace.agents[row["agent"]]
        for b in range(n_bins):
            share = overlap(row, b * width, (b + 1) * width) / width
            key = (row["thread"], b, agent, ACTIONS[row["action"]])
            if share:
                wanted[key] = wanted.get(key, 0.0) + share
    found = {
        (row.thread, row.bin, None if pd.isna(row.agent) else row.agent, row.action): row.share
        for row in states.itertuples()
    }
    busy = {key: share for key, share in found.items() if key[3] != IDLE}
    assert {key for key, share in wanted.items() if share > 1e-6} <= set(busy)
    for key, share in busy.items():
        assert np.isclose(share, wanted.get(key, 0.0), atol=1e-6), key
    sums = states.groupby(["thread", "bin"])["share"].sum()
    assert np.allclose(sums, 1.0, atol=1e-6) and len(sums) == len(trace.threads()) * n_bins
    threads = trace.threads().set_index("thread")
    spent = states[states["action"] != IDLE].groupby("thread")["share"].sum() * width
    assert np.allclose(spent.reindex(threads.index, fill_value=0.0), threads["busy"], atol=1e-5)
    order = states[["thread", "bin"]].apply(tuple, axis=1).tolist()
    assert order == sorted(order)


def test_nothing_done():
    trace = trace_of([], n_threads=3)
    assert trace.threads()["share"].tolist() == [0, 0, 0] and trace.threads()["role"].isna().all()
    assert trace.states().empty and list(trace.states().columns)[-1] == "share"
    assert trace.agents_frame()["mean_event_queue"].tolist() == [0, 0, 0]
    assert repr(trace).startswith("Trace of a simulated run: 0 ns, 3 threads busy 0 %, 3 agents")
    assert repr(trace_of([], n_threads=0, agents=())).endswith("0 actions: 0 items, 0 comparisons, 0 matches")


# --- what is refused


GOOD = {"thread": 0, "agent": 0, "action": 1, "start": 5, "end": 6}


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"action": 4}, r"action 4 in row 0 is not known\. There are \{0: 'source'"),
        ({"thread": 2}, r"thread 2 in row 0 is not known\. There are 2 threads"),
        ({"thread": -2}, "thread -2"),
        ({"agent": 3}, r"agent 3 in row 0 is not known\. There are 3 agents"),
        ({"agent": -1}, "action 0, 'events', has no agent"),
        ({"end": 4}, r"action 0 ends at 4\.0, before its start at 5\.0"),
        ({"end": float("nan")}, "ends at nan"),
        ({"start": -1}, r"start -1\.0 in row 0"),
        ({"sent": -1}, "sent -1 in row 0"),
    ],
)
def test_rows_that_cannot_be(row, message):
    with pytest.raises(CepError, match=message):
        trace_of([GOOD | row])


def test_lengths_that_cannot_be():
    with pytest.raises(CepError, match="agent of a length 7"):
        trace_of([GOOD], [{"agent": 7}])
    with pytest.raises(CepError, match="event_queue -3 in row 1"):
        trace_of([GOOD], [{}, {"event_queue": -3}])


def test_a_thread_does_one_thing_at_a_time():
    with pytest.raises(
        CepError, match=r"thread 0 does two things at once, actions 1 and 0: one ends at 6\.0"
    ):
        trace_of([{**GOOD, "start": 5.5, "end": 7}, GOOD])
    trace_of([GOOD, {**GOOD, "start": 6, "end": 7}, {**GOOD, "thread": 1}])


def test_shapes_and_types_of_arrays():
    one = np.zeros(1, np.int64)
    with pytest.raises(CepError, match="Actions differ in shape"):
        Trace(True, 1, ("b",), Actions(*([one] * 12), np.zeros(2, np.int64)))
    with pytest.raises(CepError, match=r"sent of Actions is float64\. Give int64"):
        Trace(True, 1, ("b",), Actions(*([one] * 8), np.zeros(1), *([one] * 4)))
    with pytest.raises(CepError, match="Give each agent a text of its own"):
        trace_of([], agents=("b", "b"))
    with pytest.raises(CepError, match="n_threads=-1"):
        trace_of([], n_threads=-1)
    with pytest.raises(CepError, match="n_bins=0"):
        EXAMPLE.states(0)


def test_arrays_cannot_be_written():
    with pytest.raises(ValueError, match="read-only"):
        EXAMPLE.done.start[0] = 3


# --- files


@pytest.mark.parametrize("seed", range(5))
def test_a_trace_comes_back_from_its_files(seed, tmp_path):
    trace, *_ = drawn(seed)
    trace.save(tmp_path / "run")
    back = Trace.load(tmp_path / "run")
    assert (back.measured, back.n_threads, back.agents) == (trace.measured, trace.n_threads, trace.agents)
    for own, other in ((trace.done, back.done), (trace.lengths_read, back.lengths_read)):
        for name, values in own._asdict().items():
            assert np.array_equal(values, getattr(other, name)), name
            assert values.dtype == getattr(other, name).dtype


def test_files_are_read_by_others_and_replaced(tmp_path):
    path = tmp_path / "deep" / "run"
    trace_of([GOOD], measured=True).save(path)
    EXAMPLE.save(path)
    frame = pd.read_parquet(path / "actions.parquet")
    assert frame["action"].tolist() == ["source", "partials", "events", "removal", "events"]
    assert Trace.load(path).measured is False
    assert [of.name for of in path.parent.iterdir()] == ["run"]


def test_other_files_stay(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(CepError, match="exists and is not a trace"):
        EXAMPLE.save(tmp_path)
    with pytest.raises(CepError, match="exists and is not a trace"):
        EXAMPLE.save(tmp_path / "notes.txt")
    with pytest.raises(CepError, match=r"is not a trace\. Trace.save writes"):
        Trace.load(tmp_path)
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_files_of_another_version(tmp_path):
    EXAMPLE.save(tmp_path / "run")
    frame = pd.read_parquet(tmp_path / "run" / "actions.parquet")
    frame.to_parquet(tmp_path / "run" / "actions.parquet")
    with pytest.raises(CepError, match=r"has version None\. This cepkit reads version 1"):
        Trace.load(tmp_path / "run")
