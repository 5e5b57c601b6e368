"""Rows that the stream of a sequence keeps: their columns are coded once, whatever the batches bring."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import cepkit as cep
from cepkit.streaming.coding import CodedRows

SCHEMA = pa.schema([
    pa.field("at", pa.int64(), nullable=False), pa.field("kind", pa.string()), pa.field("k", pa.int16()),
    pa.field("user", pa.large_string()), pa.field("x", pa.int64()), pa.field("y", pa.float32()),
    pa.field("ok", pa.bool_()), pa.field("t", pa.timestamp("ms", "UTC")), pa.field("d", pa.decimal128(25, 2)),
])  # fmt: skip
MEASURES = {"u": "b.user", "x": "a.x", "y": "b.y", "ok": "b.ok", "t": "a.t", "d": "b.d", "m": "max(b.x)"}


def events(seed: int, n: int = 400) -> pa.Table:
    """Return events whose nulls come and go, with many users and keys that are far from each other."""
    rng = np.random.default_rng(seed)
    nulls = np.repeat(rng.random(20) < 0.3, n // 20) & (rng.random(n) < 0.3)
    columns = {
        "at": np.cumsum(rng.integers(0, 3, n)), "kind": rng.choice(list("ABC"), n),
        "k": rng.choice([-3, 0, 1, 2, 900], n), "user": [f"u{i}" for i in rng.integers(0, 3 * n, n)],
        "x": rng.integers(-5, 5, n), "y": rng.random(n).astype(np.float32), "ok": rng.random(n) < 0.5,
        "t": pd.to_datetime(rng.integers(0, 10**9, n), unit="s", utc=True),
        "d": pa.array(rng.integers(0, 99, n)).cast(pa.decimal128(25, 2)),
    }  # fmt: skip
    arrays = [
        pa.array(
            columns[field.name], field.type, mask=nulls if field.nullable and field.name != "d" else None
        )
        for field in SCHEMA
    ]
    return pa.table(arrays, schema=SCHEMA)


@pytest.mark.parametrize("strategy", ["next", "any"])
@pytest.mark.parametrize(
    "where", ["[k] AND b.x >= a.x", "a.user = b.user OR b.y > a.y", "a.user != b.user AND b.ok"]
)
@pytest.mark.parametrize("seed", range(4))
def test_matches_are_those_of_all_events_together(seed: int, where: str, strategy: str):
    table = events(seed)
    query = f"PATTERN SEQ(A a, B b) WHERE {where} WITHIN 25"
    options = {"event_type": "kind", "order_by": "at", "measures": MEASURES, "strategy": strategy}
    expected = cep.match(table, query, **options).to_frame()
    stream, results, begin = cep.stream(query, SCHEMA, **options), [], 0
    rng = np.random.default_rng(seed)
    while begin < len(table):
        size = int(rng.choice([1, 1, 2, 30, 60]))
        results.append(stream.push(table.slice(begin, size)))
        begin += size
    assert pa.concat_tables(results).equals(expected.cast(results[0].schema))
    assert len(expected)


@pytest.mark.parametrize("where", ["[k]", "a.user = b.user OR b.x > a.x"])
def test_a_restored_stream_goes_on(tmp_path, where: str):
    table = events(9)
    options = {"event_type": "kind", "order_by": "at", "measures": MEASURES, "strategy": "any"}
    query = f"PATTERN SEQ(A a, B b) WHERE {where} WITHIN 25"
    whole, stream = (cep.stream(query, SCHEMA, **options) for _ in range(2))
    for begin in range(0, len(table), 20):
        batch = table.slice(begin, 20)
        assert stream.push(batch).equals(whole.push(batch))
        stream.save(tmp_path / "state")
        stream = cep.Stream.load(tmp_path / "state")


def arrow_frame(columns: dict[str, pa.Array]) -> pd.DataFrame:
    """Return a pandas frame over the memory of Arrow arrays."""
    return pd.DataFrame({name: pd.array(array, pd.ArrowDtype(array.type)) for name, array in columns.items()})


@pytest.mark.parametrize("as_batch", [pa.table, arrow_frame])
def test_memory_that_changes_after_a_push_changes_no_result(as_batch):
    stream = cep.stream(
        "PATTERN SEQ(1 a, 2 b) WITHIN 9", {"at": "int64", "kind": "int64", "t": "timestamp[us]"},
        event_type="kind", order_by="at", measures={"t": "a.t", "at": "a.at"},
    )  # fmt: skip
    at, kind, t = np.array([1]), np.array([1]), np.array([5])
    of_times = pa.Array.from_buffers(pa.timestamp("us"), 1, [None, pa.py_buffer(t)])
    batch = as_batch({"at": pa.array(at), "kind": pa.array(kind), "t": of_times})
    assert len(stream.push(batch)) == 0
    for values, value in ((at, 3), (kind, 2), (t, 7)):
        values[0] = value
    [row] = pa.table(stream.push(batch)).to_pylist()
    assert (row["at"], row["t"]) == (1, pd.Timestamp(5, unit="us").to_pydatetime())


def test_texts_and_rows_that_left_are_forgotten():
    stream = cep.stream(
        "PATTERN SEQ(A a, B b) WHERE a.user = b.user WITHIN 5", SCHEMA, event_type="kind", order_by="at",
        strategy="any",
    )  # fmt: skip
    one = events(1)
    for round_number in range(60):
        batch = one.set_column(0, SCHEMA.field(0), pa.array(np.arange(400) + 400 * round_number))
        users = pa.array([f"{round_number}-{i}" for i in range(400)], pa.large_string())
        stream.push(batch.set_column(3, SCHEMA.field(3), users))
    rows = stream._search._kept
    assert rows.n_rows < 10
    assert len(rows.table) <= 2 * rows.n_rows + 1024
    assert len(rows.column("user").texts) <= 2 * rows.n_rows + 1024 + 400
    assert rows.table.column(0).num_chunks <= 16


def test_parts_of_rows_are_the_rows_of_their_table():
    table = events(3)
    rows = CodedRows.of(table.slice(0, 0), SCHEMA.names)
    expected = table.slice(0, 0)
    rng = np.random.default_rng(3)
    for begin in range(0, 400, 8):
        rows, expected = (
            rows.with_batch(table.slice(begin, 8)), pa.concat_tables([expected, table.slice(begin, 8)])
        )  # fmt: skip
        kept = np.flatnonzero(rng.random(rows.n_rows) < 0.9)
        rows, expected = rows.part(kept), expected.take(pa.array(kept))
        assert rows.frame.combine_chunks().equals(expected.combine_chunks())
        few = rng.integers(0, rows.n_rows, 5) if rows.n_rows else np.empty(0, np.int64)
        for name in SCHEMA.names:
            assert rows.arrow(name, few).equals(expected.column(name).take(pa.array(few)).combine_chunks())
            column = rows.column(name)
            if column.categories is not None:
                texts = [column.texts[code] if code >= 0 else None for code in column.values.tolist()]
                assert texts == expected.column(name).to_pylist()


def test_a_value_that_means_null_is_refused_among_nulls():
    least = -(2**63)
    stream = cep.stream(
        "PATTERN SEQ(A a, B b) WHERE b.x > a.x WITHIN 9", {"at": "int64", "kind": "string", "x": "int64"},
        event_type="kind", order_by="at", strategy="any", measures={"x": "a.x"},
    )  # fmt: skip
    schema = {"at": "int64", "kind": "str", "x": "Int64"}
    push = lambda *rows: stream.push(pd.DataFrame(rows, columns=[*schema]).astype(schema))  # noqa: E731
    push((1, "A", least))
    with pytest.raises(cep.CepError, match="means null"):
        push((2, "A", None))
    assert push((3, "B", 4))["x"].tolist() == [least]


def test_a_state_that_is_loaded_and_saved_again_is_the_same(tmp_path):
    stream = cep.stream(
        "PATTERN SEQ(A a, B b) WHERE b.x > a.x WITHIN 900", {"at": "int64", "kind": "string", "x": "int64"},
        event_type="kind", order_by="at",
    )  # fmt: skip
    for at in range(0, 40, 4):
        stream.push(pd.DataFrame({"at": range(at, at + 4), "kind": [*"ABCA"], "x": [*range(4)]}))
    paths = [tmp_path / name for name in ("first", "second", "third")]
    for path in paths:
        stream.save(path)
        stream = cep.stream.load(path)
    assert len({path.read_bytes() for path in paths}) == 1
