"""Fields of structs and of dicts as columns: ``user.id`` in conditions, keys and results."""

from __future__ import annotations

from random import Random

import pandas as pd
import pyarrow as pa
import pytest

import cepkit as cep
from cepkit.errors import ColumnNotFoundError
from tests.support.sizes import seeds


def users(random: Random, n: int) -> list[dict | None]:
    """Return dicts where keys are missing now and then."""
    rows = []
    for _ in range(n):
        user = {"id": random.randrange(3), "at": {"city": random.choice("ab"), "zip": random.randrange(9)}}
        for part, key in ((user["at"], "city"), (user, "id"), (user, "at")):
            if random.random() < 0.2:
                del part[key]
        rows.append(None if random.random() < 0.1 else user)
    return [{"id": 1, "at": {"city": "a", "zip": 1}}, *rows]


def frames_of(rows: list[dict | None]) -> dict[str, object]:
    """Return a frame of each form, and one with plain columns."""
    structs = pa.array(rows)
    flat = {
        "user_id": [None if row is None else row.get("id") for row in rows],
        "city": [None if row is None else (row.get("at") or {}).get("city") for row in rows],
    }
    return {
        "dicts": pd.DataFrame({"i": range(len(rows)), "user": rows}),
        "table": pa.table({"i": range(len(rows)), "user": structs}),
        "arrow": pd.DataFrame(
            {"i": range(len(rows)), "user": pd.array(structs, pd.ArrowDtype(structs.type))}
        ),
        "flat": pa.table({"i": range(len(rows))} | {name: pa.array(flat[name]) for name in flat}),
    }


def rows_of(frame) -> list[tuple]:
    frame = frame if isinstance(frame, pd.DataFrame) else frame.to_pandas()
    lists = frame.astype(object).where(frame.notna(), None).to_numpy().tolist()
    return [tuple(row) for row in lists]


def plain(text: str) -> str:
    return text.replace("user.at.city", "city").replace("user.id", "user_id")


QUERIES = [
    ("a b", {"a": "user.id = 1", "b": "user.id != prev(user.id) or user.at.city is null"}),
    (". b+ c", {"b": "user.at.city = 'a' and sum(user.id) < 9", "c": "user.id in (0, 2)"}),
]
MEASURES = {"x": "first(user.id)", "y": "last(b.user.at.city)", "z": "count_if(user.id > 0)", "n": "count()"}


@pytest.mark.parametrize("seed", seeds(3, 300))
@pytest.mark.parametrize("form", ["dicts", "table", "arrow"])
def test_fields_equal_plain_columns(seed, form):
    random = Random(seed)
    frames = frames_of(users(random, random.randrange(3, 20)))
    nested, flat = frames[form], frames["flat"]
    pattern, define = random.choice(QUERIES)
    by = random.choice([[], ["user.id"], ["user.at.city", "user.id"]])
    found = cep.match(
        nested, pattern, define=define, order_by="i", partition_by=by, measures=MEASURES
    ).to_frame()
    wanted = cep.match(
        flat,
        pattern,
        define={name: plain(text) for name, text in define.items()},
        order_by="i",
        partition_by=list(map(plain, by)),
        measures={name: plain(text) for name, text in MEASURES.items()},
    ).to_frame()
    assert rows_of(found) == rows_of(wanted)
    where = "partition_contiguity AND a.user.id <= b.user.id AND b.user.at.city = 'a'"
    call = {"order_by": "i", "partition_by": by, "measures": {"x": "a.user.id", "y": "b.user.at.city"}}
    sequence = cep.match(nested, f"PATTERN SEQ(_ a, _ b) WHERE {where}", **call)
    call = {
        "order_by": "i",
        "partition_by": list(map(plain, by)),
        "measures": {"x": "a.user_id", "y": "b.city"},
    }
    assert rows_of(sequence.to_frame()) == rows_of(
        cep.match(flat, f"PATTERN SEQ(_ a, _ b) WHERE {plain(where)}", **call).to_frame()
    )
    rows = 'ORDER BY i MEASURES A.user.id AS x, A."user.at.city" AS y PATTERN (A) DEFINE A AS A.user.id > 0'
    sql = [cep.sql(f"SELECT * FROM t MATCH_RECOGNIZE ({text})", t=frame).to_frame() for text, frame in (
        (rows, nested), (plain(rows), flat)
    )]  # fmt: skip
    assert rows_of(sql[0]) == rows_of(sql[1])
    window = cep.window(nested, {"s": "sum(user.id)"}, length=3, group_by="user.at.city", order_by="i")
    wanted = cep.window(flat, {"s": "sum(user_id)"}, length=3, group_by="city", order_by="i")
    assert [row[-1] for row in rows_of(window)] == [row[-1] for row in rows_of(wanted)]


def test_missing_fields():
    frame = frames_of([{"id": 1}, None])["dicts"]
    with pytest.raises(ColumnNotFoundError, match=r"column 'user.idd' not found. Did you mean 'user'\?"):
        cep.match(frame, "r", define={"r": "user.idd = 1"}).count()
    with pytest.raises(ColumnNotFoundError, match=r"No column 'trade' has fields, and rows of a regex query"):
        cep.match(frame, "r", define={"r": "trade.price > 3"}).count()
    with pytest.raises(ColumnNotFoundError, match=r"column 'user\.x\.y' not found"):
        cep.match(frame, "PATTERN SEQ(_ a) WHERE a.user.x.y > 3").count()
    dotted = frame.assign(**{"user.id": [7, 8]})
    assert (
        cep.match(dotted, "r", define={"r": "user.id = 8"}).count() == 1
    )  # a column of this name comes first
    assert list(cep.match(frame, "r", define={"r": "user.id = 1"}).to_frame("all")) == [
        "match",
        "variable",
        *frame,
    ]


@pytest.mark.spark
@pytest.mark.filterwarnings("ignore::cepkit.CepWarning")
def test_on_spark(spark):
    frame = spark.sql(
        "SELECT id AS i, CASE WHEN id < 4 THEN named_struct('id', id % 2, 'name', concat('n', id), "
        "'at', timestamp_seconds(id)) END AS user FROM range(6)"
    )
    define, measures = {"a": "user.id = 0", "b": "user.name != 'n1'"}, {"name": "last(b.user.name)"}
    found = cep.match(
        frame, "a b", define=define, order_by="i", partition_by="user.id", measures=measures
    ).to_frame()
    assert [(row["user.id"], row["name"]) for row in found.collect()] == [(0, "n2")]
    sequence = cep.match(frame, "PATTERN SEQ(_ a, _ b) WHERE a.user.id = b.user.id", order_by="i")
    assert sequence.count() == 2
    rows = cep.match(frame, "p", define={"p": "i >= 3"}, order_by="i").to_frame("all").collect()
    assert [row["user"] and row["user"]["name"] for row in rows] == ["n3", None, None]


def streamed(query, table: pa.Table, **call) -> list[dict]:
    stream = cep.stream(query, table, **call)
    parts = [stream.push(table[i : i + 1]) for i in range(len(table))]
    return [row for part in [*parts, stream.close()] for row in part.to_pylist()]


@pytest.mark.parametrize("seed", seeds(2, 100))
def test_streams_equal_frames(seed):
    table = frames_of(users(Random(seed), 12))["table"]
    regex = {
        "define": {"r": "user.id != prev(user.id)"},
        "order_by": "i",
        "measures": {"x": "first(user.at.city)"},
    }
    by = {"partition_by": "user.at.city"}
    assert streamed("r", table, **regex) == cep.match(table, "r", **regex).to_frame().to_pylist()
    wanted = cep.match(table, "r", **regex, **by).to_frame().to_pylist()
    assert sorted(map(str, streamed("r", table, **regex, **by))) == sorted(map(str, wanted))
    text = "PATTERN SEQ(_ a, _ b) WHERE b.user.id = a.user.id WITHIN 4"
    sequence = {"order_by": "i", "measures": {"x": "a.i", "y": "b.user.id"}}
    wanted = cep.match(table, text, **sequence).to_frame().to_pylist()
    assert sorted(map(str, streamed(text, table, **sequence))) == sorted(map(str, wanted))
    rows = "ORDER BY i MEASURES A.user.id AS x PATTERN (A) DEFINE A AS A.user.id > 0"
    sql = f"SELECT * FROM t MATCH_RECOGNIZE ({rows})"
    assert streamed(sql, table) == cep.sql(sql, t=table).to_frame().to_pylist()
    window = cep.Window({"s": "sum(user.id)"}, length=3, group_by="user.at.city", order_by="i")
    assert streamed(window, table) == cep.window(table, window).to_pylist()


@pytest.mark.parametrize("seed", seeds(2, 100))
@pytest.mark.parametrize("form", ["dicts", "table", "arrow"])
def test_keys_of_sequences_and_of_runs_may_be_fields(seed, form):
    random = Random(seed)
    frames = frames_of(users(random, random.randrange(3, 20)))
    answers = []
    for frame, text in ((frames[form], str), (frames["flat"], plain)):
        query = text("PATTERN SEQ(_ a, _ b) WHERE [user.id, user.at.city]")
        pairs = cep.match(frame, query, order_by="i", measures={"x": "a.i", "y": "b.i"}).to_frame()
        answers.append((rows_of(pairs), rows_of(cep.runs(frame, by=text("user.id"), order_by="i"))))
    assert answers[0] == answers[1] and answers[0][1]


def test_an_unknown_field_is_an_error():
    table = pa.table({"user": pa.array([{"id": 1}])})
    for by in ("user.ib", "users.id"):
        with pytest.raises(ColumnNotFoundError, match=by):
            cep.runs(table, by=by)
