"""Event sequences on Spark against pandas: the same rows, however tasks and slices cut the stream."""

from __future__ import annotations

import itertools
import math
import re
import sys
from collections import Counter
from dataclasses import replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import reduce
from random import Random

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import cepkit as cep
from cepkit.compile.sequence_program import compile_sequence
from cepkit.engines.shared.sequence_set import joined
from cepkit.errors import (
    CepError,
    ColumnNotFoundError,
    OrderError,
    ResultTooLargeError,
    UnsupportedQueryError,
)
from cepkit.frames.arrow import ArrowSource
from cepkit.frames.building import build_events
from cepkit.frames.spark import EmptySource, Slices, as_text, from_text
from cepkit.language.sequences.patterns import SequenceQuery
from cepkit.planning.planner import choose_engine
from cepkit.results import spark_binding
from cepkit.results import spark_tasks as tasks
from cepkit.results.spark_tasks import Drawn, First, _shortest
from tests.oracle import generate_sequences as gs
from tests.support.sizes import JIT, seeds
from tests.support.spark_cases import check_over_connect, plain, rows_of

pytest.importorskip("pyspark")

N_SHAPES = 2 if JIT else 0  # of those that tests/test_sequences.py compiles


def in_one_stream(query: SequenceQuery, within: int = 4) -> SequenceQuery:
    """Return the query without partitions and policy, with a window and a total order."""
    within = within if query.within is None else query.within
    return replace(
        query, partition_by=(), order_by=("t", "n"), after_match=("none", None), within=within, measures=None
    )


def random_frame(seed: int, query: SequenceQuery, n_events: int, n_streams: int = 1) -> pd.DataFrame:
    """Return streams for the query, told by ``stream``, with ``n`` that completes the order."""
    streams = [gs.stream(Random(f"{seed} {i}"), query, n_events, 2) for i in range(n_streams)]
    frame = pd.concat([gs.to_frame(rows).assign(stream=i) for i, rows in enumerate(streams)])
    return frame.assign(n=np.arange(len(frame))).reset_index(drop=True)


def arrow(frame: pd.DataFrame, seed: int = 0) -> pa.Table:
    """Return the rows in another order."""
    return pa.Table.from_pandas(frame.sample(frac=1, random_state=seed), preserve_index=False)


# --- slices, without Spark ----------------------------------------------------------------------------------


def copies(table: pa.Table, boundaries, within: int, looks_ahead: bool) -> pa.Table:
    """Return what `Slices.copies` promises: every event once per slice that needs it."""
    made = []
    time = table.column("t").to_pylist()
    for number, (low, high) in enumerate(itertools.pairwise([None, *boundaries, None])):
        rows = [
            row
            for row, t in enumerate(time)
            if (low is None or t >= low - within)
            and (high is None or t < high + (within if looks_ahead else 0))
        ]
        own = table.take(pa.array(rows, pa.int64()))
        ends = {"slice": number, "low": low, "high": high}
        for name, value in ends.items():
            own = own.append_column(f"__{name}", pa.array([value] * len(rows), pa.int64()))
        made.append(own)
    return pa.concat_tables(made)


def told_by_task(query: SequenceQuery, table: pa.Table, copied: pa.Table, tell) -> list[dict]:
    """Return what the task tells of the matches in slices, in the order of their places."""
    source = ArrowSource(table)
    program = compile_sequence(query, source.schema)
    told = next(iter(tell(tasks.nothing_found(program, source, table.column_names))))
    types = [
        table.schema.field(values.column).type if hasattr(values, "column") else values.type
        for _, values in told
    ]
    output = pa.schema([pa.field(f"c{i}", of) for i, of in enumerate(types)])
    until, clock = program.complete_until, program.clock_of_waits
    if until is None and clock is not None and table.num_rows:
        until = int(source.column(clock).values.max())
    task = tasks.QueryTask(
        query=query, schema=source.schema, engine=choose_engine(program).run, tell=tell, limit=None,
        complete_until=until,
        columns=tuple(table.column_names), output=output, in_slices=True,
    )  # fmt: skip
    order = Random(len(copied)).sample(range(len(copied)), len(copied))
    batches = list(task.run(iter(copied.take(pa.array(order, pa.int64())).to_batches(max_chunksize=50))))
    rows = pa.Table.from_batches(batches, schema=output).to_pylist()
    n = len(told)
    return sorted((tuple(row.values()) for row in rows), key=lambda row: row[n - 3 : n])


def looks_ahead(query: SequenceQuery, frame: pd.DataFrame) -> bool:
    program = compile_sequence(query, ArrowSource(arrow(frame)).schema)
    return any(
        absence.before == len(bound.branch.components)
        for bound in program.branches
        for absence in bound.branch.absences
    )


WINDOWED = ["any", "next", "strict", "window", "negation", "kleene", "alternatives"]


@pytest.mark.filterwarnings("ignore:the column of event types, .* never has")  # 30 random events
@pytest.mark.parametrize("family", WINDOWED)
@pytest.mark.parametrize("seed", seeds(1 if JIT else 4, 40))
def test_slices_cut_at_every_place_find_every_match_once(seed, family):
    query = in_one_stream(gs.case(seed, seed % N_SHAPES if N_SHAPES else None, family).query)
    frame = random_frame(seed, query, 30)
    times = sorted(set(frame["t"]))
    expected = cep.match(frame, query)
    ahead = looks_ahead(query, frame)
    table = arrow(frame, seed)
    _, rows = rows_of(expected.to_frame())
    cuts = [times, times[1::2], [t + 1 for t in times], *([t] for t in times[::4]), []]
    for boundaries in cuts:
        copied = copies(table, boundaries, query.within, ahead)
        told = told_by_task(query, table, copied, tasks.measured)
        assert [tuple(map(plain, row[:-3])) for row in told] == rows
        ranks = Counter()
        for t, n, rank in (row[-3:] for row in told):
            assert rank == ranks[t, n]
            ranks[t, n] += 1


def test_slices_are_tested_on_matches():
    """Enough of the cases above have matches, and some look ahead."""
    n_matches, n_ahead = [], 0
    for family in WINDOWED:
        for seed in range(2):
            query = in_one_stream(gs.case(seed, seed % N_SHAPES if N_SHAPES else None, family).query)
            frame = random_frame(seed, query, 30)
            n_matches.append(cep.match(frame, query).count())
            n_ahead += looks_ahead(query, frame)
    assert sum(n > 5 for n in n_matches) > len(n_matches) / 2
    assert n_ahead > 0


# --- what a task tells, without Spark -----------------------------------------------------------------------


def enormous(program, events):
    """An engine by which 2^70 + i one-event matches end at every event i with x > 4."""
    import numpy as np

    from cepkit.engines.shared.sequence_set import MatchBlock, SequenceSet

    class Enormous(SequenceSet):
        def __init__(self):
            self.events = events
            self.where = np.flatnonzero(events.columns["x"].values > 4)

        def ends(self):
            return self.where, [2**70 + int(events.columns["n"].values[i]) for i in self.where]

        def ending(self, low, high):
            raise AssertionError("the matches of an event cannot all be made")

        def take(self, numbers):
            ends = [0]
            for count in self.ends()[1]:
                ends.append(ends[-1] + count)
            at = self.where[[sum(number >= end for end in ends) - 1 for number in numbers]].astype(np.int64)
            n = len(numbers)
            return MatchBlock(at, np.zeros(n, np.int16), np.arange(n + 1), np.zeros(n, np.int16))

    return Enormous()


def single(table: pa.Table, engine, **keywords) -> tasks.Searched:
    """Return what an engine finds for a query of one event ``a`` with x > 4."""
    query = cep.sequence_query(
        "PATTERN SEQ(A a) WHERE a.x > 4 AND a.n >= 0", event_type="kind", order_by=["t", "n"], **keywords
    )
    source = ArrowSource(table)
    program = compile_sequence(query, source.schema)
    found = tasks.found_in(program, source, engine(program, build_events(source, program)))
    return tasks.Searched(found, table.column_names)


@pytest.fixture
def small():
    n = 40
    rng = np.random.default_rng(4)
    return pa.table(
        {
            "kind": ["A"] * n,
            "t": np.sort(rng.integers(0, 20, n)),
            "n": np.arange(n),
            "x": rng.integers(0, 9, n),
        }
    )


def test_numbers_of_matches_have_any_size(small):
    found = single(small, enormous)
    exact = found.found.count()
    assert exact > 2**73
    (_, count), *_ = next(tasks.counted(found))
    assert int(count[0].as_py(), 16) == exact
    *_, (_, numbers) = next(tasks.ended(found))
    assert sum(numbers.to_pylist()) == exact
    part = tasks.EndingBetween(found.found.whole, 0, 40)
    part.ends = lambda: (np.array([3]), [10**38])
    beyond = replace(found, found=replace(found.found, whole=part))
    with pytest.raises(ResultTooLargeError, match=r"more than 10\^38.*count\(\) is exact"):
        next(tasks.ended(beyond))
    for tell in (tasks.measured, tasks.matched_rows, tasks.TaggedRows("error")):
        with pytest.raises(ResultTooLargeError, match="too many to make each"):
            list(tell(found))
    first = dict(next(First(3)(found)))
    assert first["rank"].to_pylist() == [0, 1, 2]
    assert dict(next(Drawn(5, 1)(found)))["time"].to_pylist()[0] < -40


@pytest.mark.parametrize("seed", seeds(3, 20))
def test_ranks_go_on_over_blocks(seed):
    random = Random(seed)
    last = np.repeat(np.arange(8), [random.choice([0, 1, 1, 2, 7]) for _ in range(8)])
    cuts = sorted(random.choices(range(len(last) + 1), k=random.randrange(6)))
    ranks = tasks.Ranks()
    given = [ranks.of(last[a:b]) for a, b in itertools.pairwise([0, *cuts, len(last)])]
    assert np.concatenate(given).tolist() == [last[:i].tolist().count(x) for i, x in enumerate(last)]


@pytest.mark.parametrize("size", [1, 2, 5, 1000])
def test_a_part_of_the_matches_is_that_part(size):
    query = cep.sequence_query("PATTERN SEQ(A a, B+ b[])", event_type="kind", order_by=["t", "n"], within=9)
    frame = random_frame(1, query, 40)
    source = ArrowSource(arrow(frame))
    program = compile_sequence(query, source.schema)
    whole = choose_engine(program).run(program, build_events(source, program))
    every = whole.ending(0, 40)
    for low, high in [(0, 40), (7, 31), (20, 21), (12, 12), (38, 40)]:
        part = tasks.EndingBetween(whole, low, high)
        own = np.flatnonzero((every.last >= low) & (every.last < high))
        assert part.count() == len(own)
        made = [block for block in part.blocks(size) if len(block)]
        assert all(len(block) <= size for block in made)
        for one, other in [
            (joined(made), every.take(own)),
            (part.ending(5, 30), every.take(own[(every.last[own] >= 5) & (every.last[own] < 30)])),
            (part.take([*range(len(own))[::3]]), every.take(own[::3])),
        ]:
            assert one.event_of_item.tolist() == other.event_of_item.tolist()
            assert one.first_item_of_match.tolist() == other.first_item_of_match.tolist()
    assert len(every) > 50


def test_numbers_travel_as_text():
    numbers = [0, -5, 2**200, 10**5000, 0.1, -2.5e-300, float("inf"), float("-inf"), None]
    assert from_text(as_text(numbers)) == numbers
    assert math.isnan(from_text(as_text([float("nan")]))[0])


def test_the_first_matches_at_one_time_are_those_of_every_partition(small):
    """Two partitions share the times; which is first the tasks do not know, so they tell of both."""
    both = pa.concat_tables([small.append_column("k", pa.array([k] * 40)) for k in "ab"])
    found = single(both, choose_all, partition_by="k")
    for n in (0, 1, 2, 5, 1000):
        told = dict(next(First(n)(found)))
        if n:
            times = list(zip(told["a_t"].rows.tolist(), told["rank"].to_pylist(), strict=True))
            assert len(times) >= min(n, found.found.count())
            assert len(times) % 2 == 0 and len(times) <= n + 1
        else:
            assert len(told["rank"]) == 0


def choose_all(program, events):
    return choose_engine(program).run(program, events)


@pytest.mark.parametrize("n", [1, 4, 9, 20])
def test_every_match_is_drawn_equally_often(n):
    counts = [3, 1, 20, 6]
    drawn = Counter()
    rounds = 3000
    rng = np.random.default_rng(n)
    for _ in range(rounds):
        hashes = rng.integers(0, 2**64, len(counts), dtype=np.uint64)
        # In two tasks, as one: the least of both are the least of all.
        one = _shortest(np.array(counts[:2]), hashes[:2], n)
        other = [(number + 4, time) for number, time in _shortest(counts[2:], hashes[2:], n)]
        chosen = sorted(one + other, key=lambda pair: pair[1])[:n]
        assert len({number for number, _ in chosen}) == n
        drawn.update(number for number, _ in chosen)
    share = n / sum(counts)
    deviation = math.sqrt(rounds * share * (1 - share))
    assert set(drawn) == set(range(sum(counts)))
    # Five deviations for each of 30, and the sum of squares as chi-square has it.
    assert max(abs(count - rounds * share) for count in drawn.values()) < 5 * deviation
    assert sum(((count - rounds * share) / deviation) ** 2 for count in drawn.values()) < 70


def test_all_are_drawn_when_there_are_no_more():
    hashes = np.array([5, 6], np.uint64)
    assert sorted(number for number, _ in _shortest([2, 3], hashes, 9)) == [0, 1, 2, 3, 4]
    assert _shortest([], hashes[:0], 9) == _shortest([2], hashes[:1], 0) == []


# --- on Spark -------------------------------------------------------------------------------------------


def has_strict(query: SequenceQuery) -> bool:
    """Return whether anything in the query is strict, by its tree alone."""
    steps = [step for node in query.pattern.walk() for step in getattr(node, "steps", ())]
    inner = [getattr(node, "inner", None) for node in query.pattern.walk()]
    return "strict" in (query.strategy, *steps, *inner)


def packed_case(seed: int, family: str) -> tuple[SequenceQuery, pd.DataFrame]:
    """Return a query and streams as partitions, in which pandas finds more than 20 matches.

    Shape, constants and length are drawn again until it does, and until nothing is strict, which is refused
    with partitions: what Spark finds has no part in the choice.
    """
    shapes = range(seed % 2, 12, 2)
    for shape, values, n_events in itertools.product(shapes, range(seed, seed + 50, 10), (14, 30, 60)):
        query = gs.case(values, shape, family).query
        if has_strict(query):
            continue
        query = replace(query, partition_by=("stream", *query.partition_by), order_by=("t", "n"))
        frame = random_frame(seed, query, n_events, 40)
        if 20 < cep.match(frame, query).count() < 20_000:
            return query, frame
    raise AssertionError(f"no streams with matches for seed {seed} of family {family}")


def kind_of_rows(seed: int, family: str) -> str:
    """Return the rows that a case asks for: with the next seed, it asks for the other ones."""
    return ("one", "all")[(seed + list(gs.FAMILIES).index(family)) % 2]


@pytest.mark.parametrize("seed", seeds(1, 4))
@pytest.mark.parametrize("family", [family for family in gs.FAMILIES if family != "strict"])
def test_random_streams_packed_as_partitions(session, seed, family):
    query, frame = packed_case(seed, family)
    on_spark = session.createDataFrame(arrow(frame, seed).select(list(frame.columns)))
    rows = kind_of_rows(seed, family)
    assert rows_of(cep.match(on_spark, query).to_frame(rows)) == rows_of(
        cep.match(frame, query).to_frame(rows)
    )


@pytest.mark.parametrize("seed", seeds(1, 4))
@pytest.mark.parametrize("family", WINDOWED)
def test_random_streams_in_slices(session, seed, family):
    if family == "ahead":
        query = cep.sequence_query("PATTERN SEQ(A a, B b, !A c) WITHIN 5", event_type="kind", order_by="t")
    else:
        query = gs.case(seed, seed % 2, family).query
    query = in_one_stream(query)
    frame = random_frame(seed, query, 12, 12)
    expected = cep.match(frame, query)
    table = arrow(frame, seed)
    on_spark = session.createDataFrame(table.select(list(frame.columns)))
    times = tuple(sorted(set(frame["t"].tolist())))
    cut = spark_binding.match(on_spark, query, boundaries=times)
    rows = kind_of_rows(seed, family) if family in gs.FAMILIES else "all"
    assert rows_of(cut.to_frame(rows)) == rows_of(expected.to_frame(rows))
    chosen = on_spark.cep.match(query)
    assert rows_of(chosen.count_by_last())[1] == rows_of(expected.count_by_last().drop(columns="index"))[1]


@pytest.mark.parametrize("seed", seeds(1, 4))
@pytest.mark.parametrize("family", [family for family in WINDOWED if family != "strict"])
def test_random_partitions_in_slices_of_time(session, seed, family):
    """A slice has the events of all partitions."""
    query, frame = packed_case(seed, family)
    query = replace(query, within=query.within or 9)
    on_spark = session.createDataFrame(arrow(frame, seed).select(list(frame.columns)))
    times = tuple(sorted(set(frame["t"].tolist())))[::3]
    cut = spark_binding.match(on_spark, query, spread_by="time", boundaries=times)
    expected, rows = cep.match(frame, query), kind_of_rows(seed, family)
    assert rows_of(cut.to_frame(rows)) == rows_of(expected.to_frame(rows))


def test_what_no_slice_of_time_takes_is_an_error(session):
    rng, n = np.random.default_rng(5), 600
    frame = pd.DataFrame({"kind": rng.choice(list("AB"), n), "k": rng.integers(0, 2, n), "t": np.arange(n)})
    on_spark = session.createDataFrame(frame)
    text, given = "PATTERN SEQ(A a, B b)", {"event_type": "kind", "order_by": "t", "partition_by": "k"}
    window = given | {"within": 7}
    for strategy in ("strict", "partition"):  # a slice also has the rows between, of other keys
        expected = frame.cep.match(text, **window, strategy=strategy)
        found = on_spark.cep.match(text, **window, strategy=strategy, spread_by="time")
        assert rows_of(found.to_frame()) == rows_of(expected.to_frame()) != []
    refused = {
        "a time window": lambda: on_spark.cep.match(text, **given, spread_by="time"),
        "after_match='none'": lambda: on_spark.cep.match(
            text, **window, after_match="past_last", spread_by="time"
        ),
        "a match of a regex": lambda: on_spark.cep.match(
            "a b", define={"a": "k = 1", "b": "k = 0"}, order_by="t", spread_by="time"
        ),
        "there is 'time'": lambda: on_spark.cep.match(text, **window, spread_by="keys"),
        "finite Spark frames": lambda: frame.cep.match(text, **window, spread_by="time"),
        "windows of time": lambda: on_spark.cep.window(
            {"n": "count()"}, length=3, order_by="t", spread_by="time"
        ),
        "leave it out": lambda: on_spark.cep.match(
            text, **window, engine=cep.ScatterGather(2), spread_by="time"
        ),
    }
    for message, call in refused.items():
        with pytest.raises(CepError, match=message):
            call()


def test_a_hundred_slices_give_the_answer_of_one(session):
    """Every slice is there once, owns its own events once, and adds its own matches once."""
    from pyspark.sql import functions as F

    rng, n = np.random.default_rng(3), 800
    frame = pd.DataFrame({"kind": rng.choice(list("ABCX"), n), "t": np.sort(rng.integers(0, 1000, n))})
    frame = frame.assign(n=np.arange(n))
    query = cep.sequence_query(
        "PATTERN SEQ(A a, B b, !C c) WITHIN 12", event_type="kind", order_by=["t", "n"]
    )
    on_spark = session.createDataFrame(arrow(frame))
    begins = tuple(range(10, 1000, 10))
    parts = Slices("t", 12, True, 3, begins).copies(on_spark, F.col("t")).toPandas()
    assert sorted(parts["slice"].unique()) == list(range(100))
    low, high = parts["low"].fillna(-np.inf), parts["high"].fillna(np.inf)
    own = parts[(parts["t"] >= low) & (parts["t"] < high)]
    assert sorted(own["n"]) == list(range(n))
    assert not parts.duplicated(["slice", "n"]).any()
    hundred, one = (spark_binding.match(on_spark, query, boundaries=cut) for cut in (begins, ()))
    expected = cep.match(frame, query)
    assert rows_of(hundred.to_frame()) == rows_of(one.to_frame()) == rows_of(expected.to_frame())
    assert hundred.count() == one.count() == expected.count() > 100


@pytest.fixture(scope="module")
def events():
    """300 events of four keys, one of them null, out of order."""
    rng = np.random.default_rng(8)
    n = 300
    keys = np.array(["a", "b", "c", None], dtype=object)[rng.integers(0, 4, n)]
    frame = pd.DataFrame(
        {
            "kind": rng.choice(list("ABCX"), n), "t": np.sort(rng.integers(0, 500, n)), "n": np.arange(n),
            "k": keys, "x": rng.integers(0, 9, n), "y": rng.integers(0, 40, n) / 4,
        }
    )  # fmt: skip
    return frame


@pytest.fixture(scope="module")
def events_on_spark(session, events):
    return session.createDataFrame(arrow(events)).cache()


ABC = "PATTERN SEQ(A a, B+ b[], C c) WHERE b[i].x >= b[i-1].x AND c.y > a.y"
KEYED = {"event_type": "kind", "order_by": ["t", "n"], "within": 60, "partition_by": "k"}
TOLD = {"a": "a.n", "bs": "collect(b.n)", "y": "sum(b.y)", "c": "c.n", "lasted": "delta(t)", "end": "last(k)"}
SLICED = {**KEYED, "partition_by": None, "within": 15}
ASKED = {
    "n": "count()", "bs": "count(b)", "total": "sum(b.x)", "mean": "avg(c.y)", "least": "min(a.y)",
    "most": "max(b.x)", "present": "count(b.k)", "middle": "median(b.x)", "keys": "distinct(a.k)",
}  # fmt: skip


@pytest.mark.parametrize(
    "keywords",
    [
        pytest.param(KEYED, id="partitions"),
        pytest.param(SLICED, id="slices"),
    ],
)
def test_every_question_has_the_answer_of_pandas(events, events_on_spark, keywords):
    told = {**keywords, "measures": TOLD}
    expected, found = cep.match(events, ABC, **told), events_on_spark.cep.match(ABC, **told)
    names, rows = rows_of(expected.to_frame())
    assert len(found) == len(rows) > 30
    assert bool(found)
    assert rows_of(found.head(7)) == (names, rows[:7])
    drawn = rows_of(found.sample(9, seed=3))
    assert drawn[0] == names and len(set(rows)) == len(rows) and len(drawn[1]) == 9
    assert [row for row in rows if row in drawn[1]] == drawn[1]
    assert found.aggregate(**ASKED).to_dict() == expected.aggregate(**ASKED).to_dict()
    columns = [name for name in ("match", "variable", "k", "t", "n") if name != "k" or keywords is KEYED]
    assert rows_of(found.lineage())[0] == columns
    assert rows_of(found.lineage())[1] == rows_of(expected.to_frame("all")[columns])[1]
    last = expected.lineage(-1)
    assert (
        rows_of(found.lineage(-1).select("match", "variable"))[1] == rows_of(last[["match", "variable"]])[1]
    )


def test_samples_do_not_depend_on_the_tasks(session, events_on_spark):
    found = events_on_spark.cep.match(ABC, **KEYED)
    one = rows_of(found.sample(5, seed=1))
    session.conf.set("spark.sql.shuffle.partitions", "2")
    try:
        assert rows_of(events_on_spark.cep.match(ABC, **KEYED).sample(5, seed=1)) == one
    finally:
        session.conf.set("spark.sql.shuffle.partitions", "3")
    assert rows_of(found.sample(5, seed=2)) != one
    assert rows_of(found.sample(10**6)) == rows_of(found.to_frame())


def test_tags(events, events_on_spark):
    pattern, keywords = "PATTERN SEQ(A a, B b)", {**KEYED, "after_match": "past_last"}
    expected = cep.tag(events, pattern, **keywords)
    assert expected["match"].notna().sum() > 20
    tagged = cep.tag(events_on_spark, pattern, **keywords)
    assert rows_of(tagged.orderBy("n")) == rows_of(expected)
    # Without partitions and policy: matches share no row where nothing may be skipped.
    pattern = "PATTERN SEQ(A a, B b) WHERE partition_contiguity"
    expected = cep.tag(events, pattern, **SLICED)
    assert expected["match"].notna().sum() > 10
    assert rows_of(cep.tag(events_on_spark, pattern, **SLICED).orderBy("n")) == rows_of(expected)


def test_a_row_of_several_matches_has_no_tag(session):
    table = pa.table({"kind": list("ABB"), "t": [1, 2, 8], "k": [1, 1, 1]})
    frame = session.createDataFrame(table)
    keywords = {"event_type": "kind", "order_by": "t", "within": 9}
    text = r"belongs to several matches, and a tagged row has one; overlap='first' takes"
    with pytest.raises(cep.CepError, match="belong to several matches"):
        cep.tag(table, "PATTERN SEQ(A a, B b)", **keywords)
    with pytest.raises(Exception, match=text):
        cep.tag(frame, "PATTERN SEQ(A a, B b)", partition_by="k", **keywords).collect()
    # In two slices, of which each has one of the matches.
    query = cep.sequence_query("PATTERN SEQ(A a, B b)", **keywords)
    found = spark_binding.match(frame, query, boundaries=(5,))
    assert found.count() == 2
    with pytest.raises(Exception, match=text):
        found.tag().collect()


def test_more_matches_than_64_bits(session, small):
    from pyspark import cloudpickle

    table = pa.concat_tables([small.append_column("k", pa.array([k] * 40)) for k in "abc"])
    found = session.createDataFrame(table).cep.match(
        "PATTERN SEQ(A a) WHERE a.x > 4 AND a.n >= 0",
        event_type="kind",
        order_by=["t", "n"],
        partition_by="k",
    )
    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import tests
    try:
        found._found.engine = replace(found.engine, run=enormous)
        rows = zip(small["n"].to_pylist(), small["x"].to_pylist(), strict=True)
        counts = [2**70 + n for n, x in rows if x > 4]
        assert found.count() == 3 * sum(counts) > 2**75
        assert bool(found)
        by_last = [int(row["count"]) for row in found.count_by_last().collect()]
        assert by_last == [count for count in counts for _ in "abc"]
        with pytest.raises(OverflowError, match=r"use count\(\)"):
            len(found)
        assert found.head(4)["k"].tolist() == ["a"] * 4
        assert found.sample(20, seed=1)["a_n"].nunique() > 3
        with pytest.raises(Exception, match="there are more than limit=7 matches"):
            found.to_frame(limit=7).collect()
        with pytest.raises(Exception, match="too many to make each"):
            found.to_frame("all").collect()
    finally:
        cloudpickle.unregister_pickle_by_value(sys.modules[__name__])


START = datetime(2024, 3, 10)
CLOCKS = {
    "int16": (pa.int16(), lambda t: t),
    "float32": (pa.float32(), lambda t: t / 4),
    "float64": (pa.float64(), lambda t: 1e9 + t / 3),
    "decimal": (pa.decimal128(12, 3), lambda t: Decimal(t) / 2),
    "date": (pa.date32(), lambda t: date(2024, 3, 1) + timedelta(days=t)),
    "timestamp": (pa.timestamp("us", "UTC"), lambda t: START + timedelta(minutes=20 * t, microseconds=1)),
    "without_zone": (pa.timestamp("us"), lambda t: START + timedelta(minutes=20 * t, microseconds=1)),
}
WINDOW_OF_CLOCK = {
    "int16": 3, "float32": 1, "float64": 1, "decimal": 1, "date": "3 days", "timestamp": "1 hour",
    "without_zone": "1 hour",
}  # fmt: skip


def test_clocks_of_every_type(session):
    """The copies that slices get are enough, in time zones that jump too; windows are open and closed."""
    from pyspark.sql import functions as F

    rng = np.random.default_rng(5)
    n = 60
    ticks = np.sort(rng.integers(0, 60, n)).tolist()
    columns = {name: pa.array([value(t) for t in ticks], of) for name, (of, value) in CLOCKS.items()}
    table = pa.table({"kind": rng.choice(list("AB"), n), "n": np.arange(n), **columns})
    table = table.take(pa.array(rng.permutation(n)))
    frame = session.createDataFrame(table)
    zone = session.conf.get("spark.sql.session.timeZone")
    session.conf.set("spark.sql.session.timeZone", "America/New_York")  # jumps from 2 to 3 o'clock that night
    try:
        counts, expected = [], []
        for number, name in enumerate(CLOCKS):
            keywords = {"within": WINDOW_OF_CLOCK[name], "within_closed": number % 2 == 0}
            query = cep.sequence_query(
                "PATTERN SEQ(A a, B b, !A c)", event_type="kind", order_by=[name, "n"],
                complete_until="end" if number % 2 else None, **keywords,
            )  # fmt: skip
            expected.append(cep.match(table, query).count())
            found = spark_binding.match(frame, query)
            counts.append(found._found._run(tasks.counted).select(F.lit(name), "c0"))
        found = [[] for _ in CLOCKS]
        for name, count in reduce(lambda one, other: one.union(other), counts).collect():
            found[[*CLOCKS].index(name)].append(int(count, 16))
        assert list(map(sum, found)) == expected
        assert len(set(expected)) > 1 and min(expected[1::2]) > 5 and sum(n > 5 for n in expected) > 5
        assert all(len(of_slices) == 3 and sorted(of_slices)[1] > 0 for of_slices in found[1::2])
    finally:
        session.conf.set("spark.sql.session.timeZone", zone)


def test_chosen_slices_are_even_and_not_too_short(session):
    from pyspark.sql import functions as F

    # One outlier, and half of the events at one time.
    times = [-(10**9), *range(400), *[200] * 400]
    timed = session.createDataFrame(pa.table({"tick": pa.array(times, pa.int64())}))
    for within, n_tasks in [(0, 4), (5, 40), (50, 40), (2**63 - 1, 40), (5, 1)]:
        slices = Slices("tick", within, False, n_tasks)
        rows = slices._table(timed).orderBy("slice").collect()
        assert [row["slice"] for row in rows] == [*range(len(rows))]
        assert [row["low"] for row in rows[1:]] == [row["high"] for row in rows[:-1]]
        assert rows[0]["low"] is None and rows[-1]["high"] is None
        begins = [row["low"] for row in rows[1:]]
        assert all(b - a >= max(1, 4 * within) for a, b in itertools.pairwise(begins))
        assert len(rows) <= n_tasks
        assert len(rows) > {0: 2, 5: 8 if n_tasks > 1 else 0, 50: 1, 2**63 - 1: 0}[within]
    none = Slices("tick", 5, False, 4).copies(timed.where("tick > 10000"), F.col("tick"))
    assert none.count() == 0


# --- lazily, and errors -------------------------------------------------------------------------------------


def test_nothing_runs_before_it_is_asked_for(no_job, events_on_spark):
    from pyspark.sql import functions as F

    with no_job():
        for keywords in (KEYED, SLICED):
            found = events_on_spark.cep.match(ABC, **keywords)
            found.to_frame(), found.to_frame("all"), found.to_frame(limit=3), found.lineage(), found.tag()
            found.count_by_last()
            text, page = repr(found), found._repr_html_()
            assert str(events_on_spark.cep.explain(ABC, **keywords))
        odd = events_on_spark.select("kind", "t", "n", "x", F.col("k").alias("a.b"), F.lit(1).alias("N"))
        found = odd.cep.match(ABC.replace("c.y > a.y", "c.N >= a.x"), **{**KEYED, "partition_by": "a.b"})
        found.to_frame("all"), found.lineage(), found.tag(), found.count_by_last()
    assert text.startswith(
        "matches of 'SEQ(A a, B+ b[], C c)' in a Spark frame: a_t: bigint, a_n: bigint, b_count"
    )
    assert "nothing has run yet" in text and "<b>matches of" in page


@pytest.mark.parametrize(
    ("query", "changes", "error", "text"),
    [
        (ABC, {"partition_by": "kk"}, ColumnNotFoundError, "partition_by: column 'kk' not found"),
        (ABC, {"order_by": None}, OrderError, "the rows of a Spark frame have no order"),
        (ABC, {"event_type": "knd"}, ColumnNotFoundError, "event_type: column 'knd' not found"),
        ("PATTERN SEQ(A a) WHERE a.z > 1", {}, ColumnNotFoundError, "'z' not found"),
        (ABC, {"measures": {"m": "sum(b.kind)"}}, TypeError, "measure 'm'"),
        (ABC, {"strategy": "strict"}, UnsupportedQueryError, "'strict' before 'b'"),
        ("PATTERN SEQ(A+ a[])", {"strategy": "strict"}, UnsupportedQueryError, "Use strategy='partition'"),
        (ABC, {"engine": "regex"}, UnsupportedQueryError, "engine 'regex' cannot run this query"),
    ],
)
def test_mistakes_are_errors_before_any_job(no_job, events, events_on_spark, query, changes, error, text):
    keywords = {**KEYED, **changes}
    with no_job(), pytest.raises(error) as caught:
        events_on_spark.cep.match(query, **keywords)
    assert text in str(caught.value)
    if "order_by" not in changes and "strategy" not in changes:
        with pytest.raises(error) as on_pandas:
            cep.match(events, query, **keywords)
        assert str(on_pandas.value) == str(caught.value)


@pytest.fixture(scope="module")
def random_on_spark(session):
    return session.createDataFrame(arrow(random_frame(0, gs.case(0, 0, "any").query, 3, 2)))


@pytest.mark.parametrize("family", list(gs.FAMILIES))
@pytest.mark.parametrize("seed", seeds(3, 6))
def test_random_queries_are_refused_for_strict_alone(random_on_spark, seed, family):
    query = replace(gs.case(seed, seed, family).query, partition_by=("stream",), order_by=("t", "n"))
    frame = random_on_spark
    several = any(len(bound.branch.components) > 1 or bound.branch.components[0].high != 1
                  for bound in compile_sequence(query, EmptySource(frame).schema).branches)  # fmt: skip
    if query.strategy == "strict" and several:
        with pytest.raises(UnsupportedQueryError, match="'strict' before"):
            cep.match(frame, query)
    elif not has_strict(query):
        assert cep.match(frame, query).query == query


def test_strict_is_refused_only_where_it_looks_at_the_stream(events_on_spark):
    events_on_spark.cep.match("PATTERN SEQ(A a)", **{**KEYED, "strategy": "strict"})
    events_on_spark.cep.match("PATTERN SEQ(A a, B b)", **{**SLICED, "strategy": "strict"})
    a, b = cep.event("a", "A"), cep.event("b", "B")
    with pytest.raises(UnsupportedQueryError, match="leave out partition_by"):
        events_on_spark.cep.match(cep.seq(a, b).then(cep.event("c", "C"), strict=True), **KEYED)


def test_what_spark_cannot_run_is_refused(events_on_spark):
    found = events_on_spark.cep.match(ABC, **KEYED)
    with pytest.raises(
        UnsupportedQueryError,
        match=r"head\(\) or sample\(\) for some, or iterate over to_frame\(\)\.toLocalIterator",
    ):
        iter(found)
    for call in (lambda: found[0], lambda: found[:2], lambda: found.take([0])):
        with pytest.raises(UnsupportedQueryError, match="are not taken one by one"):
            call()
    with pytest.raises(UnsupportedQueryError, match=r"write to_frame\(\) to a table"):
        found.chunks()
    with pytest.raises(UnsupportedQueryError, match=r"toPandas\(\)\.cep\.match"):
        found.plot()
    assert found.run is None and found.engine.name == "chain"
    with pytest.raises(ColumnNotFoundError, match="aggregate 'm': column 'xx' not found"):
        found.aggregate(m="sum(b.xx)")


@pytest.mark.parametrize(
    ("changes", "way_out"),
    [
        ({"within": None}, r"with partition_by or a time window \(within\) the tasks share the work"),
        ({"after_match": "past_last"}, r"with partition_by or after_match='none' the tasks"),
        (
            {"order_by": ["span", "n"], "within": "3 s"},
            "or a clock of numbers, dates or timestamps instead of interval",
        ),
    ],
)
def test_one_task_is_warned_of(events_on_spark, changes, way_out):
    from pyspark.sql import functions as F

    frame = events_on_spark.withColumn("span", F.make_dt_interval(secs=F.col("t").cast("decimal(18, 6)")))
    with pytest.warns(cep.CepWarning, match=way_out) as caught:
        frame.cep.match("PATTERN SEQ(A a, B b)", **{**SLICED, **changes})
    assert [one.filename for one in caught if one.category is cep.CepWarning] == [__file__]


def test_one_task_finds_what_pandas_finds(events, events_on_spark):
    keywords = {**SLICED, "after_match": "past_last"}
    with pytest.warns(cep.CepWarning, match="one stream"):
        found = events_on_spark.cep.match(ABC, **keywords)
    expected = cep.match(events, ABC, **keywords)
    assert expected.count() > 5
    assert rows_of(found.to_frame("all")) == rows_of(expected.to_frame("all"))


def test_ties_and_missing_times_are_errors(session):
    keywords = {"event_type": "kind", "order_by": "t", "within": 3}
    table = pa.table({"kind": list("ABAB"), "k": ["a"] * 4, "t": [1, 2, 2, 3]})
    with pytest.raises(OrderError, match=r"1 of the 4 events of one task are ties.*t=2.*add a column"):
        session.createDataFrame(table).cep.match("PATTERN SEQ(A a, B b)", **keywords).count()
    missing = table.set_column(2, "t", pa.array([1, None, 2, 3]))
    with pytest.raises(OrderError, match=r"column 't' has 1 missing values"):
        session.createDataFrame(missing).cep.match("PATTERN SEQ(A a, B b)", **keywords).count()


def test_nothing_to_search(events_on_spark):
    assert events_on_spark.where("n < 0").cep.match(ABC, **KEYED).count() == 0
    empty = events_on_spark.where("n < 0").cep.match(ABC, **SLICED)
    assert (empty.count(), bool(empty), len(empty.sample(3))) == (0, False, 0)
    nothing = {name: 0 if "count" in text or "distinct" in text else None for name, text in ASKED.items()}
    assert empty.aggregate(**ASKED).to_dict() == nothing
    assert rows_of(empty.tag())[1] == []


# --- Connect ------------------------------------------------------------------------------------------------

CONNECT = """
    table = pa.table({"kind": ["A", "B", "C"] * 20, "k": [0, 1] * 30, "n": range(60), "x": range(60)})
    query = "PATTERN SEQ(A a, B+ b[], C c) WHERE c.x > a.x"
    for keywords in ({"within": 9}, {"within": 9, "partition_by": "k"}):
        keywords |= {"event_type": "kind", "order_by": "n"}
        found = session.createDataFrame(table).cep.match(query, **keywords)
        expected = cep.match(table, query, **keywords)
        assert found.count() == expected.count() > 5
        assert found.to_frame().toArrow().to_pylist() == expected.to_frame().to_pylist()
        assert found.to_frame("all").toArrow().to_pylist() == expected.to_frame("all").to_pylist()
        assert found.aggregate(s="sum(b.x)").to_dict() == expected.aggregate(s="sum(b.x)").to_dict()
        assert len(found.sample(4)) == len(found.head(4)) == 4
        if "partition_by" in keywords:  # no row is in two matches
            assert found.tag().orderBy("n").toArrow().to_pylist() == expected.tag().to_pylist()
            continue
        try:
            found.tag().collect()
        except Exception as error:
            assert "a row belongs to several matches" in str(error), error
        else:
            raise AssertionError("a row of several matches has no tag")
    print("the same over Connect")
"""


@pytest.mark.spark
def test_connect(over_connect):
    check_over_connect(over_connect, CONNECT)


def test_estimates_are_refused_and_orders_are_kept(spark):
    rows = [("k", kind, t) for t, kind in enumerate("ABCABC")]
    frame = spark.createDataFrame(rows, "k string, kind string, t long")
    query = "PATTERN SEQ(A a, B b, C c) WHERE c.t > a.t + 2"
    keywords = {"event_type": "kind", "order_by": "t", "partition_by": "k"}
    with pytest.raises(UnsupportedQueryError, match="counted exactly"):
        frame.cep.match(query, **keywords).count("estimate")
    assert frame.cep.match(query, **keywords, evaluation_order=["c", "a", "b"]).count() == 2
    assert "evaluation   c, a, b" in str(
        frame.cep.explain(query, **keywords, evaluation_order=["c", "a", "b"])
    )


# --- a view of a part -------------------------------------------------------------------------------------


def pairs_in(rows):
    """Return the times of an A and a later B of one key with a larger number, at most 20 behind it."""
    events = list(rows.itertuples())
    return {
        (a.t, b.t)
        for a, b in itertools.product(events, events)
        if (a.kind, b.kind) == ("A", "B") and a.k == b.k and 0 < b.t - a.t <= 20 and b.x > a.x
    }


def pairs_shown(view):
    """Return the times of the events of the matches in a view, the numbers of the matches beside them."""
    shown = view.to_frame().astype({"time": int}).groupby("match")["time"]
    return {tuple(times): number for number, times in shown.agg(list).items()}


@pytest.mark.parametrize("seed", range(2))
def test_a_view_shows_a_part_and_says_which(spark, seed):
    rng = np.random.default_rng(seed)
    n = 400
    rows = pd.DataFrame(
        {
            "t": rng.permutation(n),  # rows of a Spark frame have no order
            "kind": rng.choice(list("ABC"), n),
            "k": rng.integers(0, 12, n),
            "x": rng.integers(0, 5, n),
            "a.b": "not looked at",
        }
    )
    frame = spark.createDataFrame(rows)
    query = "PATTERN SEQ(A a, B b) WHERE [k] AND b.x > a.x WITHIN 20"
    matches = frame.cep.match(query, event_type="kind", order_by="t")
    whole = matches.view(size=n)
    every = pairs_in(rows)
    assert whole.part == "" and matches.count() == len(every) > 20
    assert pairs_shown(whole).keys() == every and repr(whole) == f"LineageView({len(every)} matches)"
    # Whole keys: all matches of each of them, and no others.
    part = cep.view(matches, rows=150, size=n)
    assert re.fullmatch(r"a sample of \d+ of 400 rows: all rows of some keys of k", part.part)
    keys = set(rows.set_index("t")["k"].loc[[t for pair in pairs_shown(part) for t in pair]])
    assert pairs_shown(part).keys() == pairs_in(rows[rows["k"].isin(keys)]) and 0 < len(keys) < 12
    assert list(pairs_shown(part).values()) == list(range(len(pairs_shown(part))))
    for said in (repr(part), part.note, part.svg()):
        assert f"in {part.part}" in said
    # Too many rows of each key: the earliest.
    early = matches.view(rows=20, size=n)
    assert early.part == "a sample of 20 of 400 rows: the first ones by t"
    assert pairs_shown(early).keys() == pairs_in(rows[rows["t"] < 20])


def test_views_of_rows_of_a_spark_frame(spark, monkeypatch):
    frame = spark.createDataFrame(pd.DataFrame({"t": range(60), "k": [0, 1, 2] * 20}))
    matches = frame.cep.match("up up", define={"up": "t >= prev(t)"}, partition_by="k", order_by="t")
    view = matches.view("lineage", title="two")
    assert matches.count() == 27 and repr(view) == "LineageView(27 matches)" and view.title == "two"
    with pytest.raises(CepError, match=r"unknown view 'threads' of matches in a Spark frame\. Views: \["):
        matches.view("threads")
    for rows in (0, 1.5):
        with pytest.raises(CepError, match=rf"view: rows={rows}: expected a whole number"):
            matches.view(rows=rows)
    monkeypatch.setattr("cepkit.results.views.part_of", None)  # before Spark is asked for anything
    with pytest.raises(TypeError, match="page"):
        matches.view(page=3)
    with pytest.raises(CepError, match="view: size=0: expected a whole number"):
        matches.view(size=0)
