"""What a stream does with more partial matches of a key than ``max_live``, wherever it is cut."""

from dataclasses import replace
from datetime import datetime, timedelta
from random import Random

import pandas as pd
import pytest

import cepkit as cep
from cepkit.errors import CepError, UnsupportedQueryError
from tests.oracle import naive
from tests.support.regex_streams import (
    JUMPS,
    PEAKS,
    SHAPES,
    TRADES,
    assert_same,
    case_and_frame,
    expected,
    open_case,
    open_stream,
    pieces,
    run,
    trades,
)
from tests.support.sizes import JIT, seeds

POLICIES = ["oldest", "shed"]


def wanted_of(case, most, overflow):
    """Return the matches of the definition, in stream order, and the number of what was given up."""
    options = case.keywords()
    by = options.pop("partition_by") or []
    own_of_key = {}
    for i, row in enumerate(case.rows):
        own_of_key.setdefault(tuple(naive.without_nan(row[name]) for name in by), []).append(i)
    found, n_given_up = [], 0
    for own in own_of_key.values():
        rows = [case.rows[i] for i in own]
        of_key, n = naive.matches_of_the_live(case.pattern, case.define, rows, most, overflow, **options)
        found += [(own[first], own[last], last - first + 1) for first, last in of_key]
        n_given_up += n
    return sorted(found, key=lambda match: match[1]), n_given_up


@pytest.mark.filterwarnings("ignore::cepkit.errors.CepWarning")
@pytest.mark.parametrize("overflow", POLICIES)
@pytest.mark.parametrize("shape", SHAPES)
def test_cut_anywhere_it_finds_what_the_definition_finds(shape, overflow):
    for seed in seeds(4 if JIT else 2, 200):
        case, frame = case_and_frame(seed, shape)
        most = 1 + seed % 2
        wanted, n_given_up = wanted_of(case, most, overflow)
        for sizes in ([1], [0, 1, 3, 15], [1000]):
            stream = open_case(case, max_live=most, overflow=overflow)
            found = run(stream, pieces(frame, seed, sizes))
            assert list(found[["first", "last", "n"]].itertuples(index=False, name=None)) == wanted
            assert stream.status().overflowed == n_given_up


@pytest.mark.parametrize("overflow", POLICIES)
@pytest.mark.parametrize("query", [PEAKS, JUMPS], ids=["list", "queue"])
@pytest.mark.parametrize("seed", seeds(2, 50))
def test_keys_are_bounded_and_nothing_changes_below_the_bound(seed, query, overflow, tmp_path):
    frame = trades(seed, 400)
    large = open_stream(query, max_live=1000, overflow=overflow)
    assert_same(run(large, pieces(frame, seed)), expected(frame, query))
    whole = open_stream(query, max_live=2, overflow=overflow)
    wanted = run(whole, [frame])
    assert whole.status().live <= 2 * frame["symbol"].nunique()
    on_threads = open_stream(query, max_live=2, overflow=overflow, threads=2)
    assert_same(run(on_threads, pieces(frame, seed)), wanted)
    assert on_threads.status().overflowed == whole.status().overflowed
    # Row by row, saved in the middle.
    stream, found = open_stream(query, max_live=2, overflow=overflow), []
    for i, row in enumerate(frame.to_dict("records")):
        if i == 200:
            stream.save(tmp_path / "middle.state")
            stream = cep.stream.load(tmp_path / "middle.state")
        found += stream.push_row(row)
    assert found == wanted.to_dict("records")
    assert stream.status().overflowed == whole.status().overflowed


@pytest.mark.parametrize("overflow", POLICIES)
def test_the_count_outlives_forgotten_keys_and_refused_batches(overflow):
    stream = open_stream(PEAKS, max_live=1, overflow=overflow, idle_after=10)
    rise = [{"ts": ts, "symbol": "A", "price": 5 + ts} for ts in range(5)]
    stream.push(rise)
    assert (stream.status().live, stream.status().overflowed) == (1, 4)
    assert "4 partial matches given up for max_live" in stream.status()._repr_html_()
    with pytest.raises(CepError):
        stream.push([{"ts": 5, "symbol": "A", "price": 20}, {"ts": 50, "symbol": "B", "price": None}])
    assert stream.status().overflowed == 4
    stream.push([{"ts": 50, "symbol": "B", "price": 1}])
    assert (stream.status().forgotten, stream.status().ended, stream.status().overflowed) == (1, 1, 4)


def test_a_policy_needs_a_bound_and_a_known_name():
    with pytest.raises(CepError, match="overflow='shed' needs max_live"):
        open_stream(PEAKS, overflow="shed")
    with pytest.raises(CepError, match="write 'error', 'oldest', 'shed'"):
        cep.stream(".", TRADES, max_live=3, overflow="newest")


# --- MATCH_RECOGNIZE: rows that may begin a match

ROWS = {"k": "string", "t": "timestamp[s]", "x": "int64"}
BEGIN = datetime(2026, 1, 1)
CLAUSES = {
    "rise and fall": "PATTERN (A B+ C) DEFINE B AS x >= A.x, C AS x < A.x",
    "in time": "PATTERN (A B* C) WITHIN INTERVAL '12' SECOND DEFINE B AS x > A.x, C AS x = A.x",
    "overlapping": "AFTER MATCH SKIP TO NEXT ROW PATTERN (A B* C) DEFINE B AS x >= A.x, C AS x < A.x",
    "reluctant": "PATTERN (A B*? C) DEFINE C AS x < A.x - 2",
    "looking ahead": "PATTERN (A B+) DEFINE B AS x > A.x AND NEXT(x) >= A.x",
}


def row_stream(clauses, **options):
    measures = "MEASURES A.t AS first, LAST(t) AS last, COUNT(*) AS n"
    text = f"SELECT * FROM rows MATCH_RECOGNIZE (PARTITION BY k ORDER BY t {measures} {clauses})"
    return cep.stream(text, ROWS, **options)


def random_rows(seed, n, keys):
    rng = Random(seed)
    times = sorted(rng.randrange(n) for _ in range(n))
    return [{"k": rng.choice(keys), "t": BEGIN + timedelta(0, s), "x": rng.randrange(8)} for s in times]


def restarted(clauses, rows, most):
    """Return the matches of one key, and how often the oldest open row was too many.

    Then another stream begins with the row after it.
    """
    stream, fed, found, n_restarts = row_stream(clauses), [], [], 0
    for row in rows:
        found += stream.push([row])
        fed.append(row)
        while (live := stream.status().live) > most:
            fed, stream, n_restarts = fed[len(fed) - live + 1 :], row_stream(clauses), n_restarts + 1
            for again in fed:
                found += stream.push([again])
    return found + stream.close(), n_restarts


@pytest.mark.parametrize("clauses", CLAUSES.values(), ids=CLAUSES)
@pytest.mark.parametrize("seed", seeds(1, 100))
def test_the_oldest_open_row_of_a_key_gives_way(seed, clauses, tmp_path):
    most, rows = 2 + seed % 4, random_rows(seed, 80, "a")
    wanted, n_restarts = restarted(clauses, rows, most)
    every = random_rows(seed + 1000, 120, "abc")
    streams = []
    for size in (1, 3, 17, 1000):
        stream, found = row_stream(clauses, max_live=most, overflow="oldest"), []
        for begin in range(0, len(rows), size):
            found += stream.push(rows[begin : begin + size])
            stream.save(tmp_path / "stream.state")
            stream = cep.stream.load(tmp_path / "stream.state")
        assert stream.status().live <= most and stream.status().overflowed == n_restarts
        assert found + stream.close() == wanted
        with row_stream(clauses, max_live=most, overflow="oldest", idle_after="9 s") as stream:
            parts = [stream.push(every[begin : begin + size]) for begin in range(0, len(every), size)]
            streams.append(([row for part in parts for row in part], stream.status().overflowed))
    assert all(other == streams[0] for other in streams)


def test_a_row_that_gave_way_is_an_unmatched_row():
    clauses = "ALL ROWS PER MATCH WITH UNMATCHED ROWS PATTERN (A B+ C) DEFINE B AS x >= A.x, C AS x < A.x"
    stream = row_stream(clauses, max_live=2, overflow="oldest")
    times = [BEGIN + timedelta(0, s) for s in range(4)]
    found = stream.push([{"k": "a", "t": t, "x": x} for t, x in zip(times, [5, 7, 8, 6], strict=True)])
    assert [row["t"] for row in found] == times
    assert [row["first"] for row in found] == [None, *[times[1]] * 3]
    assert stream.status().overflowed == 1


def test_an_open_match_of_rows_can_shed_no_row():
    with pytest.raises(UnsupportedQueryError, match="overflow='oldest' ends the match"):
        row_stream(CLAUSES["in time"], max_live=2, overflow="shed")


# --- event sequences: events that wait

TYPED = {"t": "int64", "k": "string", "kind": "string", "x": "int64"}
SEQUENCES = {
    "pairs": ("SEQ(A a, B b) WHERE b.x > a.x WITHIN 20", {}),
    "loop": ("SEQ(A a, B+ b[], C c) WITHIN 25", {"strategy": "next"}),
    "greedy": ("SEQ(A a, B+ b[] GREEDY, C c) WITHIN 25", {"strategy": "next"}),
    "absence": ("SEQ(A a, !C n, B b) WITHIN 20", {}),
    "any loop": ("SEQ(A a, B{1,2} b[], C c) WITHIN 25", {}),
    "once": ("SEQ(A a, B b) WITHIN 30", {"after_match": "past_last"}),
    "endless": ("SEQ(A a, B b, C c)", {"strategy": "next"}),
}
KEYED = {"event_type": "kind", "order_by": "t", "partition_by": "k"}


def typed_rows(seed, n=120, keys="aab"):
    rng, t, rows = Random(seed), 0, []
    for i in range(n):
        t += rng.choice([0, 0, 1, 1, 2, 3, 9])
        kind = rng.choice("AABBCX")
        rows.append({"t": t, "k": rng.choice(keys), "kind": kind, "x": rng.randrange(9), "i": i})
    return pd.DataFrame(rows)


def sequence_stream(name, **options):
    text, more = SEQUENCES[name]
    last = "c" if "C c)" in text else "b"
    given = {**KEYED, **more, "measures": {"first": "a.i", "last": f"{last}.i"}}
    return cep.stream(f"PATTERN {text}", {**TYPED, "i": "int64"}, **given, **options)


def sequences(name, frame, partition_by="k"):
    text, more = SEQUENCES[name]
    last = "c" if "C c)" in text else "b"
    given = {**KEYED, **more, "measures": {"first": "a.i", "last": f"{last}.i"}, "partition_by": partition_by}
    return frame.cep.match(f"PATTERN {text}", **given).to_frame()


def pushed_in(stream, frame, seed, path, sizes):
    """Return the results of a stream, and the stream. If sizes vary, it is saved and loaded between parts."""
    found = []
    for part in pieces(frame, seed, sizes):
        found.append(stream.push(part))
        if len(sizes) > 1:
            stream.save(path)
            stream = cep.stream.load(path)
    found.append(stream.close())
    return pd.concat([part for part in found if len(part)] or found[:1], ignore_index=True), stream


@pytest.mark.filterwarnings("ignore::cepkit.errors.CepWarning")
@pytest.mark.parametrize("name", SEQUENCES)
@pytest.mark.parametrize("seed", seeds(1, 100))
def test_a_pause_cuts_the_events_of_a_key(seed, name, tmp_path):
    frame = typed_rows(seed, keys="abcd")
    pause = frame.groupby("k")["t"].diff() > 10
    runs = frame.assign(run=pause.groupby(frame["k"]).cumsum())
    wanted = sequences(name, runs, ["k", "run"]).drop(columns="run", errors="ignore")
    for sizes in ([1], [0, 1, 5, 30], [1000]):
        found, stream = pushed_in(sequence_stream(name, idle_after=10), frame, seed, tmp_path / "s", sizes)
        assert_same(found, wanted)
        last = runs.groupby(["k", "run"])["t"].max().groupby("k").last()
        n_open = int((frame["t"].max() - last <= 10).sum())
        n_runs = len(runs[["k", "run"]].drop_duplicates())
        assert (stream.status().keys, stream.status().forgotten) == (n_open, n_runs - n_open)


def ends_of_events(frame, text, most, overflow):
    """Return the event that ends each event for want of room: itself if it is shed."""
    span = int(text.split()[-1]) if "WITHIN" in text else None
    named = frame[[kind in text.partition("WHERE")[0] for kind in frame["kind"]]]
    ends, waiting = {}, {}
    for i, t, k in named[["i", "t", "k"]].itertuples(index=False):
        live = [(j, s) for j, s in waiting.get(k, []) if span is None or t - s <= span]
        if len(live) == most and overflow == "shed":
            ends[i] = i
        else:
            if len(live) == most:
                ends[live.pop(0)[0]] = i
            live.append((i, t))
        waiting[k] = live
    return ends


@pytest.mark.filterwarnings("ignore::cepkit.errors.CepWarning")
@pytest.mark.parametrize("overflow", POLICIES)
@pytest.mark.parametrize("name", SEQUENCES)
@pytest.mark.parametrize("seed", seeds(1, 100))
def test_a_key_keeps_so_many_events(seed, name, overflow, tmp_path):
    if overflow == "shed" and name == "absence":
        pytest.skip("without a shed event, others match that do not")
    frame, most = typed_rows(seed), 3 + seed % 3
    ends = ends_of_events(frame, SEQUENCES[name][0], most, overflow)
    kept = frame[~frame["i"].isin(ends)] if overflow == "shed" else frame
    wanted = sequences(name, kept.reset_index(drop=True))
    if overflow == "oldest" and name != "once":  # matches of events that had ended are lost
        end = wanted["first"].map(lambda first: ends.get(first, len(frame)))
        wanted = wanted[end > wanted["last"]].reset_index(drop=True)
    every = []
    for sizes in ([1], [0, 1, 5, 30], [1000]):
        opened = sequence_stream(name, max_live=most, overflow=overflow)
        found, stream = pushed_in(opened, frame, seed, tmp_path / "s", sizes)
        every.append(found)
        assert_same(found, every[0] if (name, overflow) == ("once", "oldest") else wanted)
        assert stream.status().overflowed == len(ends)
        assert stream.status().rows <= 2 * most


@pytest.mark.parametrize("bounds", [{"max_live": 3, "overflow": "oldest"}, {"idle_after": 10}], ids=str)
def test_events_come_one_by_one_or_together(bounds):
    frame = typed_rows(1)
    together, one_by_one = sequence_stream("pairs", **bounds), sequence_stream("pairs", **bounds)
    found = [row for event in frame.to_dict("records") for row in one_by_one.push_row(event)]
    assert found == together.push(frame).to_dict("records")
    first, second = (replace(stream.status(), state_bytes=0) for stream in (one_by_one, together))
    assert first == second and "forgotten with" not in repr(one_by_one)


def test_a_key_with_too_many_events_is_named_and_the_batch_changes_nothing():
    stream = sequence_stream("pairs", max_live=2)
    rows = [{"t": t, "k": "a", "kind": "A", "x": 1, "i": t} for t in range(3)]
    stream.push(rows[:2])
    with pytest.raises(CepError, match="the partition k='a' has 3 rows that wait, more than max_live=2"):
        stream.push(rows[2:])
    assert (stream.events, stream.status().rows) == (2, 2)
    assert stream.push([{**rows[2], "t": 40}]) == [] and stream.status().rows == 1


@pytest.mark.parametrize(
    "text, bounds, reason",
    [
        ("SEQ(A a, !B b) WITHIN 9", {"idle_after": 3}, "idle_after=3: .* absent event outside a match"),
        ("SEQ(!A a, B b) WITHIN 9", {"overflow": "oldest"}, "absent event outside a match"),
        ("SEQ(A a, !B b, C c) WITHIN 9", {"overflow": "shed"}, "without an event that it sheds"),
        ("SEQ(A a, B b) WITHIN 9 events", {"overflow": "shed"}, "its window counts all events"),
    ],
)
def test_bounds_that_would_find_forbidden_matches_are_refused(text, bounds, reason):
    most = {"max_live": 5} if "overflow" in bounds else {}
    with pytest.raises(UnsupportedQueryError, match=reason):
        cep.stream(f"PATTERN {text}", TYPED, **KEYED, **bounds, **most)
    with pytest.raises(UnsupportedQueryError, match="neighbours in the stream"):
        cep.stream("PATTERN SEQ(A a, B b) WITHIN 9", TYPED, **KEYED, strategy="strict", **bounds, **most)


# --- windows and joins: rows that have not left

WINDOWS = {
    "sliding": cep.Window({"n": "count()", "sum": "sum(x)"}, time=12, order_by="t", group_by="k"),
    "tumbling": cep.Window(
        {"n": "count()", "sum": "sum(x)"}, time=12, tumbling=True, order_by="t", group_by="k"
    ),
    "leaving": cep.Window({"n": "count()"}, time=12, order_by="t", group_by="k", where="x > 1", emit="all"),
}
PLAIN = {"t": "int64", "k": "string", "x": "int64"}


def with_room(frame, most, leaves):
    """Return the rows of a frame that are not shed, and the number of the others."""
    kept, waiting = [], {}
    for i, t, k in frame[["t", "k"]].itertuples():
        live = waiting[k] = [leaving for leaving in waiting.get(k, []) if leaving > t]
        if len(live) < most:
            live.append(leaves(t))
            kept.append(i)
    return frame.loc[kept].reset_index(drop=True), len(frame) - len(kept)


@pytest.mark.parametrize("name", WINDOWS)
@pytest.mark.parametrize("seed", seeds(1, 100))
def test_a_group_of_a_window_has_room_for_so_many_rows(seed, name, tmp_path):
    frame, most, window = typed_rows(seed)[["t", "k", "x"]], 2 + seed % 3, WINDOWS[name]
    entering = frame[frame["x"] > 1] if name == "leaving" else frame
    leaves = (lambda t: t // 12 * 12 + 12) if name == "tumbling" else (lambda t: t + 12)
    kept, n_shed = with_room(entering, most, leaves)
    wanted = kept.cep.window(window).reset_index(drop=True)
    for sizes in ([1], [0, 1, 5, 30], [1000]):
        opened = cep.stream(window, PLAIN, max_live=most, overflow="shed")
        found, stream = pushed_in(opened, frame, seed, tmp_path / "s", sizes)
        pd.testing.assert_frame_equal(found[list(wanted)], wanted, check_dtype=False)
        assert stream.status().overflowed == n_shed
        assert n_shed < 2 or f"{n_shed} events given up for max_live" in repr(stream.status())
    by_row = cep.stream(window, PLAIN, max_live=most, overflow="shed")
    for row in frame.to_dict("records"):
        by_row.push_row(row)
    assert by_row.status().overflowed == n_shed


@pytest.mark.parametrize("how", ["inner", "left"])
@pytest.mark.parametrize("seed", seeds(1, 100))
def test_a_key_of_a_join_has_room_for_so_many_rows(seed, how, tmp_path):
    left, right = (typed_rows(seed + i)[["t", "k", "x"]] for i in (0, 500))
    most, sizes = 2 + seed % 3, {"left": 12, "right": 9}
    windows = {side: cep.Window(time=time, order_by="t") for side, time in sizes.items()}
    query = cep.Join(**windows, on="k", how=how)
    (kept_left, n_left), (kept_right, n_right) = (
        with_room(frame, most, lambda t, time=time: t + time)
        for frame, time in zip((left, right), sizes.values(), strict=True)
    )
    wanted = kept_left.cep.join(kept_right, **dict(windows, on="k", how=how))
    for step in (1, 7, 1000):
        stream, found = cep.stream(query, {"left": PLAIN, "right": PLAIN}, max_live=most, overflow="shed"), []
        for begin in range(0, len(left), step):
            found.append(stream.push(left=left.iloc[begin : begin + step]))
            found.append(stream.push(right=right.iloc[begin : begin + step]))
            if step == 7:
                stream.save(tmp_path / "s")
                stream = cep.stream.load(tmp_path / "s")
        found.append(stream.close())
        pairs = pd.concat([pd.DataFrame(part) for part in found if len(part)], ignore_index=True)
        pairs = pairs[list(wanted)].convert_dtypes()
        pd.testing.assert_frame_equal(pairs, wanted.convert_dtypes(), check_dtype=False)
        assert stream.status().overflowed == n_left + n_right


def test_windows_say_what_they_do_not_take():
    window = WINDOWS["sliding"]
    with pytest.raises(UnsupportedQueryError, match="rows leave with time"):
        cep.stream(window, PLAIN, max_live=3, overflow="oldest")
    with pytest.raises(UnsupportedQueryError, match="a window does not take it"):
        cep.stream(window, PLAIN, idle_after=3)
    with pytest.raises(UnsupportedQueryError, match="only windows of time take it"):
        cep.stream(cep.Window({"n": "count()"}, length=4), PLAIN, max_live=3)
    stream = cep.stream(window, PLAIN, max_live=1)
    stream.push([{"t": 0, "k": "a", "x": 1}])
    with pytest.raises(CepError, match="the partition k='a' has 2 rows that wait, more than max_live=1"):
        stream.push([{"t": 1, "k": "a", "x": 1}])
    assert (stream.events, stream.status().rows) == (1, 1)
    query = cep.Join(cep.Window(time=9, order_by="t"), cep.Window(time=9, order_by="t"), on="k")
    pairs = cep.stream(query, {"left": PLAIN, "right": PLAIN}, max_live=1)
    with pytest.raises(CepError, match="the partition k='a' has 2 rows that wait"):
        pairs.push(left=[{"t": t, "k": "a", "x": 1} for t in (1, 2)], right=[{"t": 9, "k": "b", "x": 1}])
    assert (pairs.events, pairs.status().rows) == (0, 0)


def test_bounds_belong_to_the_last_step_of_a_chain():
    sums = cep.Window({"n": "count()"}, time=12, order_by="t", group_by="k")
    ups = cep.regex_query(". up+ end", define={"up": "x > 0", "end": "x < 0"}, partition_by="k", order_by="t")
    pairs = cep.Join(cep.Window(time=9, order_by="t"), cep.Window(time=9, order_by="t"), on="k")
    rows = [{"t": t, "k": "a", "x": 1} for t in range(4)]
    chain = cep.stream([sums, ups], PLAIN, max_live=1, overflow="oldest", idle_after=9)
    chain.push([*rows, {"t": 50, "k": "b", "x": 1}])
    assert (chain.status().overflowed, chain.status().forgotten, chain.status().ended) == (3, 1, 1)
    joined = cep.stream(
        [pairs, cep.Window({"n": "count()"}, time=5, order_by="emitted")],
        {"left": PLAIN, "right": PLAIN}, max_live=1, overflow="shed",
    )  # fmt: skip
    joined.push(left=rows, right=rows)
    joined.push(left=[{"t": 90, "k": "b", "x": 1}], right=[{"t": 90, "k": "b", "x": 1}])
    assert joined.status().overflowed == 16 - 1  # results of the join
