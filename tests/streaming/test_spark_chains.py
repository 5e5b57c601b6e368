"""Chains and joins in buckets and on Spark: any micro-batches give the rows of the batch over all rows."""

from __future__ import annotations

import zlib
from collections import Counter
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import cepkit as cep
from cepkit.errors import CepError, CepWarning, OrderError, UnsupportedQueryError
from cepkit.language.sequences.patterns import SequenceQuery
from cepkit.pipelines.spark_session import setting
from cepkit.streaming.batches import schema_of
from cepkit.streaming.spark_bucket import Bucket, BucketPlan, keys_of_buckets
from cepkit.streaming.windows import SIDE, Sides
from cepkit.windows.running import Chain
from tests.support.sizes import seeds
from tests.support.spark_cases import plain, rows_of
from tests.support.stream_cases import (
    END,
    MS,
    orders,
    received_in_buckets,
    run_stream,
    stream_of_files,
    write_files,
)
from tests.support.window_cases import random_frame

QUIET = pytest.mark.filterwarnings("ignore::cepkit.errors.CepWarning")
ORDER = ["t", "n"]


def ticks(seed: int, n_rows: int = 45) -> pd.DataFrame:
    """Return rows in time with numbers that tell ties apart."""
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "t": np.cumsum(rng.integers(0, 3, n_rows)) * MS, "n": np.arange(n_rows),
            "g": rng.choice([*"ab", None], n_rows), "kind": rng.choice(list("ABC"), n_rows),
            "x": rng.integers(0, 100, n_rows),
        }
    )  # fmt: skip


def window(*, seconds: int = 5, order_by=None, **given) -> cep.Window:
    return cep.Window(
        {"total": "sum(x)", "mean": "avg(x)"}, time=seconds * MS, order_by=order_by or ORDER, **given
    )


def sequence(text: str, **given):
    given = {"order_by": ORDER, **given}
    return cep.sequence_query(text, **given)


RISE = f"PATTERN SEQ(_ a, _ b) WHERE b.total > a.total + 20 WITHIN {4 * MS}"
UPS = {"up": "total > prev(total)", "down": "total < prev(total)"}
ENDS = {"from_t": "a.t", "t": "b.t", "n": "b.n", "x": "b.x"}
CHAINS = {
    "a query of a window": lambda: [window(group_by="g"), sequence(RISE, partition_by="g")],
    "one key of two": lambda: [
        window(group_by=["g", "kind"]), sequence(RISE, partition_by="g", strategy="next")
    ],
    "a window of a window that shows expired rows": lambda: [
        window(group_by="g", emit="all"),
        cep.Window({"most": "max(total)"}, time=3 * MS, group_by="g", order_by=["emitted", "n"]),
    ],
    "a window of matches": lambda: [
        sequence(f"PATTERN SEQ(A a, B b) WHERE [g] WITHIN {6 * MS}", event_type="kind", measures=ENDS),
        window(group_by="g", order_by="t", emit="all"),
    ],
    "an absent event in the last step": lambda: [
        window(group_by="g"),
        sequence(f"PATTERN SEQ(A a, B b, !C c) WHERE b.total > 40 WITHIN {4 * MS}", event_type="kind",
                 partition_by="g"),
    ],
    "rows of all groups": lambda: [
        cep.Window({"total": "sum(x)"}, length=4, order_by=ORDER),
        cep.regex_query(". up{1,2} down", define=UPS, order_by=ORDER, within=9 * MS,
                        measures={"from": "first(t)", "to": "last(n)"}),
    ],
    "three steps": lambda: [
        window(group_by="g"),
        sequence(RISE, partition_by="g", measures={"t": "b.t", "n": "b.n", "total": "b.total"}),
        cep.Window({"found": "count()"}, time=6 * MS, group_by="g", order_by="t"),
    ],
}  # fmt: skip


def batch_answer(frame: pd.DataFrame, steps) -> pd.DataFrame:
    """Return what the steps find in all rows; the watermark passes the last of them in the end."""
    for step in steps:
        is_window = isinstance(step, cep.Window)
        if isinstance(step, SequenceQuery):
            step = replace(step, complete_until="end")
        frame = cep.window(frame, step) if is_window else cep.match(frame, step).to_frame()
    return frame


@QUIET
@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("seed", seeds(1, 4))
def test_micro_batches_do_not_matter_to_a_chain(name, seed):
    steps, frame = CHAINS[name](), ticks(seed)
    chain = Chain(tuple(steps))
    n_buckets = 3 if keys_of_buckets(chain) else 1
    for cut in range(3):
        found, accepted, _ = received_in_buckets(chain, frame, 100 * seed + cut, n_buckets)
        _, wanted = rows_of(batch_answer(accepted, steps))
        assert Counter(tuple(map(plain, row)) for row in found) == Counter(wanted)


@QUIET
@pytest.mark.parametrize("name", CHAINS)
def test_the_cases_of_chains_have_results(name):
    steps = CHAINS[name]()
    assert sum(len(batch_answer(ticks(seed), steps)) for seed in range(6)) > 20


@QUIET
def test_buckets_have_the_keys_that_all_steps_share():
    keys = {name: keys_of_buckets(Chain(tuple(make()))) for name, make in CHAINS.items()}
    assert keys.pop("rows of all groups") == ()
    assert set(keys.values()) == {("g",)}


@QUIET
def test_a_later_step_knows_how_late_its_time_is():
    chain = Chain(tuple(CHAINS["a window of matches"]()))
    schema = schema_of({"t": "timestamp[us]", "n": "int64", "g": "string", "kind": "string", "x": "int64"})
    assert BucketPlan(chain, schema).open_search().delays == [1, 6 * MS + 2]
    unknown = Chain((chain.steps[0], cep.Window({"found": "count()"}, length=3)))
    assert BucketPlan(unknown, schema).open_search().delays == [1, None]


# --- joins --------------------------------------------------------------------------------------------------


def join_case(seed: int) -> tuple[cep.Join, pd.DataFrame, pd.DataFrame]:
    """Return a random join of two frames; times of a side are different if their order matters."""
    rng = np.random.default_rng(seed)
    sizes = [
        [{"time": int(rng.integers(1, 9)) * MS}, {"time": 4 * MS, "tumbling": True}, {"length": 3}, None][
            int(rng.choice(4, p=[0.5, 0.15, 0.15, 0.2]))
        ]
        for _ in range(2)
    ]
    if sizes[0] is None and sizes[1] is None:
        sizes[0] = {"time": 3 * MS}
    where = [None if rng.random() < 0.7 else "k > -50" for _ in range(2)]
    windows = [size and cep.Window(**size, where=own) for size, own in zip(sizes, where, strict=True)]
    measures = {"n": "count()", "total": "sum(left.k)"} if rng.random() < 0.3 else {}
    join = cep.Join(
        *windows, on=["g", None, {"g": "h"}][int(rng.choice(3, p=[0.6, 0.2, 0.2]))], order_by="t",
        how=str(rng.choice(["inner", "left", "right", "outer"])),
        trigger=str(rng.choice(["both", "left", "right"])), measures=measures,
        where="left.k + right.k > -40" if rng.random() < 0.4 else None,
    )  # fmt: skip
    is_ordered = bool(measures) or any(size and "length" in size for size in sizes)
    sides = []
    for _ in range(2):
        side = random_frame(rng, int(rng.integers(1, 30))).drop(columns="x")
        side["t"] = (side.pop("ts") + 10) * MS
        if is_ordered:
            side["t"] = rng.permutation(2 * len(side))[: len(side)] * MS
        side = side.sort_values("t", kind="stable").reset_index(drop=True)
        sides.append(side.assign(n=np.arange(len(side))))
    if dict(join.on) == {"g": "h"}:
        sides[1] = sides[1].rename(columns={"g": "h"})
    return join, sides[0], sides[1]


def as_one_table(sides: Sides, frames) -> pd.DataFrame:
    """Return the rows of both sides as one frame; ``n`` is a number over both."""
    parts = []
    for which, (side, frame) in enumerate(zip(("left", "right"), frames, strict=True)):
        own = frame.add_prefix(f"{side}_").astype(object)
        parts.append(own.assign(**{SIDE: which}, t=frame["t"]))
    return pd.concat(parts, ignore_index=True)


def joined_in_buckets(join, frames, seed, then=()) -> tuple[list[tuple], list[pd.DataFrame], int]:
    """Return the rows of the result, the rows of each side that were not late, and the number of buckets.

    ``then`` has further steps of a chain.
    """
    rng = np.random.default_rng(seed)
    sides = Sides(join, (schema_of(frames[0]), schema_of(frames[1])))
    n_buckets = 3 if sides.keys else 1
    query = Chain((sides, *then)) if then else sides
    plan = BucketPlan(query, sides.schema, n_buckets, {"join": repr(join)})
    whole = as_one_table(sides, frames)
    table = pa.table(
        {
            field.name: pa.array(
                [None if pd.isna(value) else value for value in whole[field.name]], field.type
            )
            for field in plan.schema.arrow
        },
        schema=plan.schema.arrow,
    )
    names = sides.keys or {}
    bucket_of_row = [
        zlib.crc32(repr([str(row[f"{side}_{name}"]) for name in key]).encode()) % n_buckets
        for row in whole.to_dict("records")
        for side, key in [("left", names) if row[SIDE] == 0 else ("right", names.values())]
    ]
    order = np.argsort(whole["t"].to_numpy() + rng.random(len(whole)) * rng.choice([2, 6, 12]) * MS)
    buckets = [Bucket(plan) for _ in range(n_buckets)]
    made, late, newest, begin = [plan.open_search().empty], [], 0, 0
    delay = int(rng.choice([0, 2])) * MS

    def receive(number: int, rows, until) -> None:
        got = buckets[number].receive(table.take(pa.array(rows, pa.int64())), until)
        made.append(got.matches)
        for row in got.late.to_pylist():
            late.append((row[SIDE], row["left_n"] if row[SIDE] == 0 else row["right_n"]))
        if rng.random() < 0.3:
            buckets[number] = Bucket.unpack(plan, buckets[number].pack())

    watermark = None
    while begin < len(order):
        rows = order[begin : begin + int(rng.choice([1, 2, 5, 20]))]
        begin += len(rows)
        for number in range(n_buckets):
            own = [row for row in rows if bucket_of_row[row] == number]
            if own or rng.random() < 0.5:
                receive(number, own, watermark)
        newest = max(newest, int(whole["t"].iloc[rows].max()))
        watermark = max(newest - delay, 0) or None
    for number in range(n_buckets):
        receive(number, [], END)
        assert buckets[number].next_timer is None
        timed = all(side is None or side.time is not None for side in (join.left, join.right))
        assert not timed or buckets[number].counts()["kept"] == 0
    accepted = [
        frame[[(which, n) not in late for n in frame["n"]]].reset_index(drop=True)
        for which, frame in enumerate(frames)
    ]
    return [tuple(row.values()) for row in pa.concat_tables(made).to_pylist()], accepted, n_buckets


def compared(seed: int) -> tuple[int, int, int]:
    join, *frames = join_case(seed)
    n_found = n_late = 0
    for cut in range(3):
        found, accepted, n_buckets = joined_in_buckets(join, frames, 10 * seed + cut)
        _, wanted = rows_of(cep.join(*accepted, left=join.left, right=join.right, on=dict(join.on) or None,
                                     where=join.where, how=join.how, trigger=join.trigger,
                                     measures=dict(join.measures), order_by="t"))  # fmt: skip
        assert Counter(tuple(map(plain, row)) for row in found) == Counter(wanted)
        n_found, n_late = n_found + len(wanted), n_late + sum(map(len, frames)) - sum(map(len, accepted))
    return n_found, n_late, n_buckets


@pytest.mark.parametrize("seed", seeds(6, 120))
def test_micro_batches_do_not_matter_to_a_join(seed):
    compared(seed)


@pytest.mark.slow  # it looks at the fixed cases of a generator
def test_the_cases_of_joins_have_pairs_late_rows_and_buckets():
    n_found, n_late, n_buckets = map(sum, zip(*map(compared, range(20)), strict=True))
    assert n_found > 500 and n_late > 10 and n_buckets > 25


@pytest.mark.parametrize("seed", seeds(3, 6))
def test_a_chain_may_begin_with_a_join(seed):
    join = cep.Join(cep.Window(time=4 * MS), cep.Window(time=4 * MS), on="g", order_by="t")
    frames = [ticks(10 * seed + which, 20)[["t", "n", "g"]] for which in (1, 2)]
    last = cep.Window({"pairs": "count()"}, time=3 * MS, group_by="g", order_by="emitted")
    found, accepted, n_buckets = joined_in_buckets(join, frames, seed, (last,))
    pairs = cep.join(*accepted, left=join.left, right=join.right, on="g", order_by="t")
    wanted = Counter(rows_of(cep.window(pairs, last)[["g", "pairs"]])[1])
    assert Counter((plain(row[2]), plain(row[-1])) for row in found) == wanted
    assert n_buckets == 3 and wanted


def test_ties_matter_only_to_joins_that_count_rows():
    schema = schema_of({"t": "timestamp[us]", "g": "string"})
    rows = {"side": [0, 0], "left_t": [MS, MS], "left_g": ["a", "a"]}
    for measures, is_refused in (({}, False), ({"n": "count()"}, True)):
        join = cep.Join(cep.Window(time="4 ms"), None, on="g", order_by="t", measures=measures)
        sides = Sides(join, (schema, schema))
        table = pa.table({**rows, "right_t": [None] * 2, "right_g": [None] * 2}, schema=sides.schema.arrow)
        bucket = Bucket(BucketPlan(sides, sides.schema))
        if is_refused:
            with pytest.raises(OrderError, match="ties"):
                bucket.receive(table, END)
        else:
            bucket.receive(table, END)


# --- on Spark -----------------------------------------------------------------------------------------------


@pytest.fixture
def one_task(spark):
    """A session whose streams have one task, which takes half as long. Other tests have several tasks."""
    with setting(spark, "spark.sql.shuffle.partitions", "1"):
        yield spark


def written(spark, folder) -> Counter:
    return Counter(rows_of(spark.read.parquet(str(folder)).drop("batch"))[1])


RISES = "PATTERN SEQ(_ a, _ b, !D c) WHERE b.total > a.total + 30 WITHIN 15 seconds"


def test_a_chain_with_late_rows_and_a_restart(one_task, tmp_path):
    spark = one_task
    frame = orders(400, 1)
    write_files(frame, tmp_path / "in", 2, 1, most_late=30)
    later = [path.name for path in sorted((tmp_path / "in").iterdir())[1:]]
    for name in later:  # these arrive while the stream is down
        (tmp_path / "in" / name).rename(tmp_path / name)
    sums = cep.Window({"total": "sum(x)"}, time="20 s", group_by="k", order_by=["ts", "n"])
    settings = {"event_type": "kind", "partition_by": "k", "order_by": ["ts", "n"]}
    for names in (later, []):
        stream = stream_of_files(spark, tmp_path / "in", "10 seconds")
        # Both ways to write a chain share their state.
        found = stream.cep.window(sums).cep.match(RISES, **settings)
        if not names:
            found = stream.cep.match([sums, RISES], **settings)
        found = found.configure(late="rows", buckets=3)
        run_stream(found, tmp_path, found.parquet_by_batch(tmp_path / "out", late=tmp_path / "late"))
        for name in names:
            (tmp_path / name).rename(tmp_path / "in" / name)
    late = spark.read.parquet(str(tmp_path / "late")).toPandas()
    accepted = frame[~frame["n"].isin(late["n"])]
    # The watermark passes the last event in the end.
    matches = accepted.cep.window(sums).cep.match(RISES, **settings, complete_until="end")
    wanted = Counter(rows_of(matches.to_frame())[1])
    assert written(spark, tmp_path / "out") == wanted and len(wanted) > 20 and len(late) > 0
    said = str(found.explain())
    assert "step 1       Window(" in said and "buckets      3 by a hash of k" in said


def test_a_join_with_late_rows_and_a_restart(one_task, tmp_path):
    spark = one_task
    sides = {"left": orders(200, 1), "right": orders(200, 2)}
    later = {}
    for number, (side, frame) in enumerate(sides.items()):
        write_files(frame, tmp_path / side, 2, number, most_late=30)
        later[side] = [path.name for path in sorted((tmp_path / side).iterdir())[1:]]
        for name in later[side]:
            (tmp_path / side / name).rename(tmp_path / f"{side} {name}")
    settings = {"left": cep.Window(time="8 s"), "right": cep.Window(time="3 s", where="x > 20"),
                "on": "k", "order_by": "ts", "where": "left.x < right.x"}  # fmt: skip
    for is_last in (False, True):
        left, right = (stream_of_files(spark, tmp_path / side, "10 seconds") for side in sides)
        found = left.cep.join(right, **settings).configure(late="rows", buckets=3)
        run_stream(found, tmp_path, found.parquet_by_batch(tmp_path / "out", late=tmp_path / "late"))
        for side, names in later.items() if not is_last else ():
            for name in names:
                (tmp_path / f"{side} {name}").rename(tmp_path / side / name)
    late = spark.read.parquet(str(tmp_path / "late")).toPandas()
    accepted = [
        frame[~frame["n"].isin(late[late["side"] == which][f"{side}_n"])]
        for which, (side, frame) in enumerate(sides.items())
    ]
    wanted = Counter(rows_of(cep.join(*accepted, **settings))[1])
    assert written(spark, tmp_path / "out") == wanted and len(wanted) > 50 and len(late) > 0
    assert found.progress["kept"].iloc[-1] == 0
    said = str(found.explain())
    assert "watermark    the earlier one of 10 s after the newest ts and 10 s" in said
    assert "buckets      3 by a hash of k" in said


@QUIET
def test_mistakes_are_errors_before_anything_runs(spark, tmp_path):
    write_files(orders(3, 1), tmp_path / "in", 1, 1)
    schema = "ts timestamp, n bigint, kind string, k string, x bigint, other timestamp"
    plain_stream = spark.readStream.schema(schema).parquet(str(tmp_path / "in"))
    stream = plain_stream.withWatermark("ts", "1 minute")
    sums = cep.Window({"total": "sum(x)"}, time="20 s", group_by="k", order_by=["ts", "n"])
    pairs = {"query": "PATTERN SEQ(_ a, _ b) WITHIN 9 s", "order_by": ["ts", "n"]}
    with pytest.raises(OrderError, match="the stream has no watermark"):
        plain_stream.cep.match([sums, "PATTERN SEQ(_ a) WITHIN 9 s"], order_by="ts")
    with pytest.raises(OrderError, match="step 2: order_by begins with 'other', but the window before"):
        stream.cep.match([sums, "PATTERN SEQ(_ a) WITHIN 9 s"], order_by="other")
    with pytest.raises(UnsupportedQueryError, match="the query has no window"):
        stream.cep.match([sums, "PATTERN SEQ(_ a, _ b)"], order_by="ts")
    with pytest.raises(UnsupportedQueryError, match="have no greatest length"):
        stream.cep.match([sums, ". up+"], define={"up": "total > 1"}, order_by="ts").to_frame()
    with pytest.raises(UnsupportedQueryError, match="latency_bound: a chain drops no rows"):
        stream.cep.match([sums, pairs["query"]], order_by="ts", latency_bound="1 s")
    with pytest.raises(UnsupportedQueryError, match=r"has rows of Window.*Give match a chain"):
        stream.cep.window(sums).to_frame().cep.match(**pairs)
    with pytest.raises(CepError, match="a chain needs one operator at least"):
        stream.cep.match([])
    with pytest.raises(CepError, match=r"got list\. For a chain .* Streaming Spark frames take the whole"):
        orders(3, 1).cep.match([sums, pairs["query"]])
    with pytest.warns(CepWarning, match="the steps share no key, so a single Spark task must hold them"):
        one = stream.cep.match([sums, pairs["query"]], order_by=["ts", "n"])
    assert "buckets      1: the steps share no key" in str(one.explain())
    window = cep.Window(time="5 s")
    with pytest.raises(OrderError, match="the stream has no watermark"):
        stream.cep.join(plain_stream, left=window, on="k", order_by="ts")
    with pytest.raises(UnsupportedQueryError, match="one side of the join is a stream"):
        stream.cep.join(spark.range(3), left=window, order_by="ts")
    with pytest.raises(CepError, match="a join needs a clock"):
        stream.cep.join(stream, left=window, on="k")
    with pytest.warns(CepWarning, match="a window of rows counts the rows of all keys together"):
        stream.cep.join(stream, left=cep.Window(length=5), on="k", order_by="ts")
    joined = stream.cep.join(stream, left=window, on="k", order_by="ts")
    then = joined.cep.window({"pairs": "count()"}, time="9 s", group_by="k", order_by="emitted")
    assert then.to_frame().columns[-1] == "pairs" and then.n_buckets > 1
    with pytest.raises(UnsupportedQueryError, match="a chain that begins with a join reads two streams"):
        stream.cep.match([joined.query, pairs["query"]], order_by="emitted")
