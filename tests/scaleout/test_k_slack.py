"""K-Slack: the golden trace, its properties on random arrivals, and frames in and out."""

from __future__ import annotations

import copy
import datetime as dt

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import cepkit as cep
from cepkit.errors import CepError, OrderError, UnsupportedQueryError
from cepkit.scaleout import k_slack
from cepkit.scaleout.k_slack import SlackBuffer, order_metrics, reorder
from tests.support.sizes import seeds


def test_the_golden_trace():
    buffer, times, slacks, emitted = SlackBuffer(), [1, 2, 4, 3, 6, 5, 9], [], []
    for time in times:
        emitted.append([times[i] for i in buffer.push(time)])
        slacks.append(buffer.slack)
    assert slacks == [0, 0, 0, 0, 3, 3, 4]
    assert emitted == [[1], [2], [4], [], [3], [], [5]]
    assert [times[i] for i in buffer.flush()] == [6, 9]


def arrivals(seed: int, most: int) -> np.ndarray:
    """Return times in an order of arrival with delays of at most ``most``."""
    r = np.random.default_rng(seed)
    time = np.cumsum(r.integers(0, 4, 300))
    return time[np.argsort(time + r.integers(0, most + 1, 300), kind="stable")]


@pytest.mark.parametrize("seed", seeds(7, 30))
def test_a_slack_as_long_as_the_longest_delay_sorts_all(seed):
    time = arrivals(seed, 12)
    rows, after = reorder(time, slack=order_metrics(time).max_delay)
    assert sorted(rows.tolist()) == list(range(300))
    assert after.out_of_order == 0 and after.error == 0
    assert np.array_equal(rows, np.argsort(time, kind="stable"))  # ties keep their order of arrival


@pytest.mark.parametrize("seed", seeds(7, 30))
def test_a_growing_slack_only_grows_and_loses_nothing(seed):
    time, buffer, slacks, left = arrivals(seed, 12), SlackBuffer(), [0], []
    for value in time.tolist():
        left += buffer.push(value)
        slacks.append(buffer.slack)
    left += buffer.flush()
    assert slacks == sorted(slacks) and sorted(left) == list(range(300))
    assert slacks[-1] >= order_metrics(time).max_delay
    assert order_metrics(time[left]).out_of_order < order_metrics(time).out_of_order
    limited = SlackBuffer(most=3)
    for value in time.tolist():
        limited.push(value)
    assert limited.slack == 3


def frame_of(seed: int) -> pd.DataFrame:
    time = arrivals(seed, 9)
    return pd.DataFrame({"ts": pd.Timestamp("2024-01-01") + pd.to_timedelta(time, "ms"), "x": np.arange(300)})


@pytest.mark.parametrize("seed", range(5))
def test_batches_of_any_size_give_the_same_rows(seed):
    frame, r = frame_of(seed), np.random.default_rng(seed)
    rows, after = reorder(arrivals(seed, 9), slack=4)
    cuts = np.sort(r.integers(0, 301, 7))
    slack = cep.KSlack("4 ms")
    parts = [slack.push(part) for part in np.split(np.arange(300), cuts) for part in [frame.iloc[part]]]
    got = pd.concat([*parts, slack.close()], ignore_index=True)
    pd.testing.assert_frame_equal(got, frame.iloc[rows].reset_index(drop=True))
    before = order_metrics(arrivals(seed, 9))
    for own, plain in ((slack.before, before), (slack.after, after)):
        # The frame counts in microseconds.
        assert (own.n, own.out_of_order, own.max_delay) == (300, plain.out_of_order, plain.max_delay * 1000)
    assert slack.after.latency == pytest.approx(after.latency * 1000)
    assert slack.waiting == 0


def test_late_rows_are_dropped_and_kept_for_the_user():
    frame = frame_of(1)
    slack = cep.KSlack("1 ms", late="drop")
    got = pd.concat([slack.push(frame), slack.close()], ignore_index=True)
    assert got["ts"].is_monotonic_increasing
    assert len(got) + len(slack.late_rows) == 300 and slack.after.dropped == len(slack.late_rows) > 0
    assert slack.after.out_of_order == 0 and slack.after.error > 0


def test_a_stream_after_the_buffer_finds_what_a_sorted_frame_has():
    frame = frame_of(2)
    query = {"query": "up+ down", "define": {"up": "x % 3 != 0", "down": "x % 3 == 0"}, "order_by": "ts"}
    slack = cep.KSlack("9 ms", late="drop")
    stream = cep.stream(schema=frame, **query)
    found = [stream.push(slack.push(frame.iloc[i : i + 40])) for i in range(0, 300, 40)]
    found += [stream.push(slack.close()), stream.close()]
    wanted = frame.cep.match(**query).to_frame()
    pd.testing.assert_frame_equal(
        pd.concat(found, ignore_index=True), wanted.reset_index(drop=True), check_dtype=False
    )


@pytest.mark.parametrize("seed", range(3))
def test_a_chain_with_a_buffer_finds_what_a_sorted_frame_has(seed):
    frame = frame_of(seed).assign(kind=lambda frame: np.where(frame["x"] % 3 == 0, "a", "b"))
    keywords = {"event_type": "kind", "order_by": ["ts", "x"]}
    query = "PATTERN SEQ(a p, b q) WITHIN 3 ms"
    stream = cep.stream([cep.KSlack("9 ms"), query], frame, **keywords)
    found = [stream.push(frame.iloc[i : i + 70]) for i in range(0, 300, 70)]
    with pytest.raises(CepError, match="rows wait in the buffer"):
        stream.close()
    found += [stream.finish(), stream.close()]
    wanted = frame.cep.match(query, **keywords).to_frame()
    assert stream.slack.after.dropped == 0 and len(wanted) > 0
    pd.testing.assert_frame_equal(pd.concat(found, ignore_index=True), wanted, check_dtype=False)


@pytest.mark.parametrize("seed", range(8))
def test_a_stream_after_the_buffer_is_saved_with_it(seed, tmp_path):
    frame = frame_of(seed).assign(kind=lambda frame: np.where(frame["x"] % 3 == 0, "a", "b"))
    query, keywords = "PATTERN SEQ(a p, b q) WITHIN 3 ms", {"event_type": "kind", "order_by": ["ts", "x"]}
    slack = [cep.KSlack("4 ms"), cep.KSlack(), cep.KSlack(most=dt.timedelta(milliseconds=2))][seed % 3]
    results = []
    for is_saved in (False, True):
        stream, found = cep.stream([copy.deepcopy(slack), query], frame, **keywords), []
        for begin in range(0, 300, 30):
            found.append(stream.push(frame.iloc[begin : begin + 30]))
            if is_saved:
                stream.save(tmp_path / "state")
                stream = cep.stream.load(tmp_path / "state")
        found += [stream.finish(), stream.close()]
        late = stream.slack.late_rows["x"].tolist()
        results.append((pd.concat(found, ignore_index=True), late, stream.slack.before, stream.slack.after))
    pd.testing.assert_frame_equal(results[0][0], results[1][0], check_dtype=False)
    assert results[0][1:] == results[1][1:] and len(results[0][0])


@pytest.mark.parametrize("seed", range(8))
def test_rows_of_one_time_are_never_lost_between_batches(seed):
    """Rows that are at most K late leave the buffer in the whole order, however batches cut them."""
    r = np.random.default_rng(seed)
    time = np.sort(r.integers(0, 40, 120))
    frame = pd.DataFrame({"t": time, "x": r.permutation(120), "kind": "a"})
    arrived = frame.iloc[np.argsort(time + r.integers(0, 5, 120), kind="stable")]
    stream = cep.stream([cep.KSlack(4), "PATTERN SEQ(a p) WITHIN 1"], frame, event_type="kind",
                        order_by=["t", "x"], measures={"x": "p.x"})  # fmt: skip
    found = [stream.push(arrived.iloc[i : i + 1]) for i in range(120)]
    found += [stream.finish(), stream.close()]
    wanted = frame.sort_values(["t", "x"])["x"].tolist()
    assert pd.concat(found)["x"].tolist() == wanted and not stream.slack.after.dropped


def test_late_rows_are_handed_out_and_do_not_grow_for_ever(monkeypatch):
    monkeypatch.setattr(k_slack, "MOST_LATE", 50)
    slack = cep.KSlack(0, order_by="t", late="drop")
    slack.push([{"t": 1000, "x": 0}, {"t": 1001, "x": 0}])
    for x in range(40):
        slack.push([{"t": 5, "x": x}, {"t": 1002 + x, "x": 0}])
    assert [row["x"] for row in slack.late_rows] == [*range(40)]
    assert len(slack.take_late_rows()) == 40 and slack.late_rows == []
    with pytest.warns(cep.CepWarning, match="only the newest are kept"):
        for x in range(200):
            slack.push([{"t": 5, "x": x}, {"t": 2000 + x, "x": 0}])
    assert [row["x"] for row in slack.late_rows] == [*range(150, 200)]
    assert slack.after.dropped == 240
    assert slack._dropped.column(0).num_chunks <= 65


def test_a_row_that_the_stream_has_passed_is_dropped_and_kept():
    schema = {"t": "int64", "x": "int64", "k": "string"}
    query = [cep.KSlack(0, order_by="t"), "PATTERN SEQ(a p) WITHIN 1"]
    stream = cep.stream(query, schema, event_type="k", order_by=["t", "x"])
    rows = [{"t": 1, "x": 5, "k": "a"}, {"t": 2, "x": 1, "k": "a"}, {"t": 1, "x": 2, "k": "a"},
            {"t": 1, "x": 9, "k": "a"}, {"t": 3, "x": 1, "k": "a"}]  # fmt: skip
    found = [row for one in rows for row in stream.push([one])]
    assert [(row["p_t"], row["p_x"]) for row in [*found, *stream.finish()]] == [
        (1, 5),
        (1, 9),
        (2, 1),
        (3, 1),
    ]
    assert stream.slack.late_rows == [{"t": 1, "x": 2, "k": "a"}]
    assert (stream.slack.after.n, stream.slack.after.dropped) == (4, 1)


def test_a_refused_batch_has_no_effect_on_the_buffer():
    query = {"define": {"up": "x > 0", "down": "x < first(x)"}, "order_by": ["t", "n"], "max_live": 3}
    schema = {"t": "int64", "n": "int64", "x": "int64"}
    stream = cep.stream([cep.KSlack(1), ". up* down"], schema, **query)
    good = [{"t": t, "n": t, "x": 1} for t in (2, 1, 3)]
    assert stream.push(good) == [] and stream.slack.waiting == 2
    bad = [{"t": 4 + t, "n": t, "x": 1} for t in range(9)]
    before = (stream.slack.before, stream.slack.after, stream.stream.events)
    for refused in (bad, [{"t": 9, "n": None, "x": 1}], [{"t": None, "n": 1, "x": 1}], [{"t": 9}]):
        with pytest.raises(CepError):
            stream.push(refused)
        assert (stream.slack.before, stream.slack.after, stream.stream.events) == before
        assert stream.slack.waiting == 2
    stream.push([{"t": 4, "n": 4, "x": -1}])
    assert len(stream.finish()) == 1 and stream.stream.events == 4


def test_a_join_has_no_single_buffer():
    join = cep.Join(cep.Window(time=5), cep.Window(time=5), order_by="t")
    with pytest.raises(UnsupportedQueryError, match=r"Push each side through a buffer of its own"):
        cep.stream([cep.KSlack(1), join], {"left": {"t": "int64"}, "right": {"t": "int64"}})


def test_every_kind_of_frame_comes_back():
    polars = pytest.importorskip("polars")
    frame = frame_of(3)
    for kind in (pa.Table.from_pandas(frame), polars.from_pandas(frame)):
        slack = cep.KSlack(dt.timedelta(milliseconds=3))
        assert type(slack.push(kind)) is type(kind)
    slack = cep.KSlack(1, order_by="t")
    assert slack.push([{"t": 1}, {"t": 3}, {"t": 2}, {"t": 4}]) == [{"t": 1}, {"t": 2}, {"t": 3}]
    assert slack.close() == [{"t": 4}]
    assert repr(slack) == "KSlack(1, order_by='t'): 4 rows, 0 waiting, K 1"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: cep.KSlack("1 s", most="2 s"), "is fixed, so most='2 s' has no effect"),
        (lambda: cep.KSlack(-1), "slack=-1 is below 0"),
        (lambda: cep.KSlack([]), "Give a duration, such as '100 ms'"),
        (lambda: cep.KSlack(late="droop"), "late='droop' is not known. Did you mean 'drop'"),
        (lambda: cep.KSlack(order_by="tss").push(frame_of(0)), "'tss'.*Did you mean 'ts'"),
        (lambda: cep.KSlack(order_by="k").push(pd.DataFrame({"k": ["a"]})), "is of type text"),
        (lambda: cep.KSlack().push(pd.DataFrame({"x": [1]})), "name the clock with order_by"),
        (lambda: cep.KSlack("1 s", order_by="x").push(pd.DataFrame({"x": [1]})), "x"),
        (lambda: cep.KSlack().close(), "no batch has arrived yet"),
    ],
)
def test_bad_settings_are_refused(call, message):
    with pytest.raises(CepError, match=message):
        call()


def test_rows_without_a_time_are_refused_and_nothing_is_lost():
    slack = cep.KSlack("2 ms", order_by="ts")
    frame = frame_of(4)
    first = slack.push(frame)
    broken = frame.assign(ts=frame["ts"].where(frame["x"] != 5))
    with pytest.raises(OrderError, match="1 of 300 rows have no time in 'ts'"):
        slack.push(broken)
    assert len(first) + slack.waiting == 300
