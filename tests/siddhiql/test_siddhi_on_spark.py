"""SiddhiQL on Spark frames gives the rows of pandas frames. Tasks share the keys of partitions."""

from __future__ import annotations

import datetime as dt
import json
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import cepkit as cep
from cepkit.language.siddhi.printing import parse_siddhi
from tests.conformance.siddhiql import frames_of, pattern_app, window_app
from tests.oracle.generate_siddhi import STREAMS, frames_of_events, random_events, random_query
from tests.support.sizes import seeds

FOLDER = Path(__file__).resolve().parents[3] / "shared" / "conformance"
ORDER = ["at", "place"]
DTYPES = {
    "int": "Int64", "long": "Int64", "float": "Float64", "double": "Float64", "bool": "boolean",
    "string": "string", "object": "object",
}  # fmt: skip


def ask(text, frames, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cep.CepWarning)
        return cep.siddhi(text, frames, **options)


def plain(table):
    """Return rows as sorted texts; null and NaN are one, and times have no time zone."""

    def read(value):
        if value is None or value != value:
            return None
        return value.replace(tzinfo=None) if isinstance(value, dt.datetime) else value

    return sorted(repr([read(value) for value in row.values()]) for row in table.to_pylist())


def as_arrow(frame):
    return pa.Table.from_pandas(frame, preserve_index=False)


def compare(spark, text, frames, is_shared, **options):
    """Compare the rows of all streams that queries write, with their times; return how many there are."""
    on_spark = {name: spark.createDataFrame(as_arrow(frame)) for name, frame in frames.items()}
    known, found = ask(text, frames, **options), ask(text, on_spark, **options)
    assert known.streams == found.streams
    assert (found._keys is not None) == is_shared
    n_rows = 0
    for stream in known.streams:
        rows = known.to_frame(stream, time="written at")
        lazy = found.to_frame(stream, time="written at")
        assert lazy.columns == list(rows.columns)
        assert plain(lazy.toArrow()) == plain(as_arrow(rows)), text
        n_rows += len(rows)
    return n_rows


def keyed(seed, n_keys=4):
    """Return a random pattern in a partition, and the events of several keys between one another."""
    query = random_query(seed)
    read = sorted({source.stream for source in parse_siddhi(query).elements[0].sources()})
    parts = []
    for key in range(n_keys):
        made = frames_of_events(random_events(seed * 100 + key))
        parts.append({name: frame.assign(k=f"key {key}") for name, frame in made.items()})
    frames = {name: pd.concat([part[name] for part in parts], ignore_index=True) for name in read}
    for i, name in enumerate(read):  # ties of different keys are no ties for Spark
        frames[name]["place"] = frames[name]["place"] * 1000 + frames[name].index * len(read) + i
    defined = " ".join(f"define stream {name} (x int, k string);" for name in STREAMS)
    keys = ", ".join(f"k of {name}" for name in read)
    return f"{defined} partition with ({keys}) begin {query}; end", frames


@pytest.mark.parametrize("seed", seeds(1, 6))
def test_tasks_share_the_keys(spark, seed, full):
    n_rows = 0
    for s in range(1000 + 10 * seed, 1000 + 10 * seed + (10 if full else 3)):
        try:
            n_rows += compare(spark, *keyed(s), True, order_by=ORDER)
        except cep.UnsupportedQueryError as error:
            assert "may be empty" in str(error)
    assert n_rows > 0 or not full


def test_a_timer_fires_up_to_the_last_event_of_all_keys(spark):
    text = """define stream Calls (k int, kind string);
        partition with (k of Calls) begin
        from every e1=Calls[kind == 'ask'] -> not Calls[kind == 'answer'] for 2 sec
        select e1.k as caller insert into Unanswered; end"""
    calls = pd.DataFrame(
        {
            "ts": pd.to_datetime([0, 900, 5000, 9000], unit="ms"),
            "k": [1, 2, 2, 3],
            "kind": ["ask", "ask", "answer", "ask"],
        }
    )
    assert compare(spark, text, {"Calls": calls}, True, order_by="ts") == 2


def test_an_app_that_keys_share_is_one_task(spark):
    text = """from Ticks#window.length(3) select symbol, sum(price) as total insert into Sums;
        from every e1=Sums, e2=Sums[total > e1.total] select e1.total as low, e2.total as high
        insert into Rises"""
    source = np.random.default_rng(1)
    ticks = pd.DataFrame(
        {"ts": np.arange(60), "symbol": source.choice(["a", "b"], 60), "price": source.integers(1, 9, 60)}
    )
    assert compare(spark, text, {"Ticks": ticks}, False, order_by="ts") > 60
    frame = spark.createDataFrame(ticks)
    with pytest.warns(cep.CepWarning, match="a single Spark task must hold and run all events"):
        found = cep.siddhi(text, Ticks=frame, order_by="ts")
    assert found.count("Sums") == 60
    assert repr(found).startswith("Sums: symbol, total; Rises: low, high\nlazy Spark frames")
    with pytest.raises(cep.CepError, match=r"no query writes 'Rise'.*Did you mean 'Rises'"):
        found.to_frame("Rise")
    with pytest.raises(cep.CepError, match="has this column already"):
        found.to_frame("Sums", time="total")


def test_errors_come_before_the_job(spark):
    text = "from every e1=A, e2=A[x > e1.x] select e1.x insert into B"
    frame = pd.DataFrame({"ts": [1, 1, 2], "x": [1, 2, 3]})
    lazy = spark.createDataFrame(frame)
    with pytest.raises(cep.OrderError, match="order_by is missing"):
        ask(text, {"A": lazy})
    with pytest.raises(cep.ColumnNotFoundError, match="order_by: A has no column 'tz'"):
        ask(text, {"A": lazy}, order_by="tz")
    with pytest.raises(cep.CepError, match="A is no Spark frame, and others are"):
        ask(text, {"A": frame, "C": lazy})
    with pytest.raises(cep.CepError, match="'x' is defined as string, and its column is of type"):
        ask("define stream A (x string);" + text, {"A": lazy}, order_by="ts")
    with pytest.raises(cep.OrderError, match=r"two events of A are equal in order_by \(1\)"):
        ask(text, {"A": lazy}, order_by="ts").count()
    stream = spark.readStream.format("rate").load()
    with pytest.raises(cep.CepError, match="A: SiddhiQL runs on whole tables"):
        ask("from A select value insert into B", {"A": stream}, order_by="timestamp")


def cases():
    found = []
    for file, write in (
        ("siddhi_pattern_sequence.json", pattern_app),
        ("siddhi_windows_joins.json", window_app),
    ):
        path = FOLDER / file
        found += [(case, write) for case in json.loads(path.read_text())["cases"]] if path.is_file() else []
    return found


@pytest.mark.skipif(not FOLDER.is_dir(), reason="no reference cases beside the checkout")
@pytest.mark.parametrize("seed", seeds(1, 40))
def test_foreign_cases(spark, seed):
    """Every case runs on pandas in each run, and in forty turns on Spark."""
    n_run = 0
    for case, write in cases()[seed::40]:
        options = {"order_by": ["now", "place"]}
        if case["clock"] == "wall":
            options |= {
                "start": 0,
                "complete_until": max(*(event["t_ms"] for event in case["events"]), case["end_ms"], 5000),
            }
        frames = frames_of(case)
        for name, attributes in case["streams"].items():  # an empty frame does not say its types
            frames[name] = frames[name].astype({one["name"]: DTYPES[one["type"]] for one in attributes})
        try:
            n_run += compare(spark, write(case), frames, False, **options) >= 0
        except cep.UnsupportedQueryError as error:
            assert "the order of its threads" in str(error)
    assert n_run > 2
