"""What the explorer offers to a person who knows nothing: examples, the cheat sheet, the query in words."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

from cepkit.datasets import load_sample
from cepkit.events import BOOLEAN, FLOAT, INTEGER, LIST, TEXT, TIME, ColumnType
from cepkit.explorer.examples import MOST_EXAMPLES, examples_of, head_of, sheet_of
from cepkit.explorer.running.data import SearchedFrame, guess_roles, is_identifier
from cepkit.explorer.text import applicable, read_text
from cepkit.language import cheat_sheet as cs
from cepkit.language.expressions.parsing import parse_expression
from tests.support.sizes import seeds


def scans(n=600, seed=5):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "ts": pd.date_range("2026-01-01", periods=n, freq="s"),
            "kind": rng.choice(["Order", "Scan", "New York"], n),
            "item": rng.integers(0, 5, n),
            "unit weight": rng.normal(size=n).cumsum(),
        }
    )


WALK = pd.DataFrame({"price": [10, 12, 13, 14, 11, 14, 12, 9, 10, 11, 12, 8]})
FRAMES = {
    "trades": (load_sample("trades").head(600), {"partition_by": "symbol", "order_by": "ts"}),
    "trades without keywords": (load_sample("trades").head(600), {}),
    "peaks": (load_sample("peaks"), {}),
    "scans": (scans(), {"event_type": "kind", "order_by": "ts", "partition_by": "item"}),
    "scans without keywords": (scans(), {}),
    "numbers alone": (WALK, {}),
    "texts and a clock": (load_sample("tweets").head(600)[["ts", "author", "tags"]], {}),
    "whole numbers as clock": (WALK.assign(t=range(0, 36, 3)), {"order_by": "t"}),
    "polars": (pl.from_pandas(scans()), {}),
}


def offered(frame, call):
    """Return the examples for a frame, and the call with the guessed columns."""
    data = SearchedFrame(frame)
    head = head_of(data)
    call = {**guess_roles(head.source, data.source, call).call(), **call}
    return examples_of(head, call), call


def result_of(frame, call, example):
    """Return the matches of an example."""
    data = SearchedFrame(frame)
    reading = read_text(example.text, applicable(example.text, call))
    assert reading.mistakes == ()
    return data.run(data.compile(reading.query))


@pytest.mark.parametrize("name", FRAMES)
def test_examples_fit_their_frame(name):
    frame, given = FRAMES[name]
    examples, call = offered(frame, given)
    assert 3 <= len(examples) <= MOST_EXAMPLES
    assert len({example.text for example in examples}) == len(examples)
    counts = [result_of(frame, call, example).count() for example in examples]
    assert sum(n > 0 for n in counts) >= 2, list(zip([one.title for one in examples], counts, strict=True))
    assert counts[0]  # the board opens with it
    for example in examples:
        assert example.sentence and "\n" not in example.title


@pytest.mark.parametrize(
    "frame", [WALK[:0], pd.DataFrame(index=range(3)), pd.DataFrame({"v": [[1.0], [2.0]]})]
)
def test_a_frame_that_suits_no_example_gets_none(frame):
    assert examples_of(SearchedFrame(frame), {}) == []


def test_examples_of_a_long_frame_look_at_its_first_rows():
    long = pd.concat([scans()] * 200, ignore_index=True)
    examples, _ = offered(long, {"order_by": "ts"})
    assert [one.title for one in examples][-1] == "unit weight rises 3 times in a row, then falls"


def test_examples_survive_missing_values_and_odd_columns():
    frame = scans().astype({"item": "Int64"})
    frame.loc[::7, ["kind", "item", "unit weight"]] = None
    frame["rise"], frame["constant"] = 1, 3.5
    frame["flag"] = frame.index % 3 == 0
    examples, call = offered(frame, {})
    for example in examples:
        result_of(frame, call, example).count()


def test_a_board_without_a_query_opens_with_an_example_that_has_matches():
    explorer = scans().cep.explore().wait(60)
    editor = explorer.board.editor
    assert len(editor.examples) == MOST_EXAMPLES and explorer.text == editor.examples[0]["text"]
    assert explorer.matches.count() > 0 and editor.sentence == editor.examples[0]["sentence"]
    query = explorer.query
    assert (query.event_type, query.order_by, query.partition_by) == ("kind", ("ts",), ("item",))
    assert "event_type='kind'" in explorer.code.replace('"', "'")
    explorer.text = explorer.text.replace("SEQ", "SEK")
    assert explorer.status["state"] == "failed"
    assert editor.sentence == editor.examples[0]["sentence"]  # the result is still that of this query
    empty = scans().cep.explore("").wait(60)
    assert empty.text == "" and empty.status["state"] == "idle" and empty.board.editor.examples


# --- what the columns are


def shape(n=4000, seed=0, **columns):
    """Return a frame; a number is how many different values a column has."""
    rng = np.random.default_rng(seed)
    made = {
        name: [f"v{k}" for k in rng.integers(0, what, n)] if isinstance(what, int) else what(rng, n)
        for name, what in columns.items()
    }
    return pd.DataFrame(made)


def rising(rng, n):
    return pd.Timestamp("2026-03-02") + pd.to_timedelta(np.sort(rng.integers(0, 86_400, n)), unit="s")


def mixed(rng, n):
    return pd.Timestamp("2026-03-02") + pd.to_timedelta(rng.integers(0, 86_400, n), unit="s")


def walk(rng, n):
    return rng.normal(size=n).cumsum().round(2)


def few(rng, n):
    return rng.integers(200, 204, n)


def numbers(rng, n):
    return rng.integers(10_000, 11_000, n)


def seldom(rng, n):
    return [f"o{k}" if k < 40 else None for k in rng.integers(0, 400, n)]


def count_up(rng, n):
    return np.arange(n) + 5000


def texts_of_time(rng, n):
    return rising(rng, n).strftime("%Y-%m-%d %H:%M:%S")


# The columns of a frame, and its clock, key, event type and drawn column.
SHAPES = {
    "clicks": (
        {"event_id": count_up, "visitor": numbers, "event": 5, "page": 300, "ts": rising},
        ("ts", "visitor", "event", "event"),
    ),
    "trades": (
        {"time": rising, "symbol": 5, "price": walk, "size": numbers, "trade_id": count_up},
        ("time", "symbol", None, "price"),
    ),
    "server logs": (
        {"timestamp": rising, "host": 8, "level": 3, "status": few, "latency_ms": walk, "path": 40},
        ("timestamp", "host", "level", "level"),
    ),
    "sensors": (
        {"device_id": few, "reading_time": rising, "temperature": walk, "battery": numbers},
        ("reading_time", "device_id", None, "temperature"),
    ),
    "orders": (
        {
            "order_id": 900,
            "customer": 300,
            "status": 5,
            "created_at": mixed,
            "updated_at": rising,
            "amount": walk,
        },
        ("updated_at", "order_id", "status", "status"),
    ),
    "clicks with orders": (
        {"ts": rising, "user_id": 60, "event": 5, "order_no": numbers, "amount": walk},
        ("ts", "user_id", "event", "event"),
    ),
    "clicks of which few have an order": (
        {"ts": rising, "order_no": seldom, "visitor": numbers, "event": 5},
        ("ts", "visitor", "event", "event"),
    ),
    "logins": (
        {"ts": rising, "user": 300, "src_ip": 200, "outcome": 2, "session_id": count_up},
        ("ts", "user", "outcome", "outcome"),
    ),
    "machines": (
        {"machine": 3, "epoch": count_up, "vibration": walk, "rpm": walk},
        ("epoch", "machine", None, "vibration"),
    ),
    "a process": (
        {"case:concept:name": numbers, "concept:name": 5, "time:timestamp": rising, "cost": few},
        ("time:timestamp", "case:concept:name", "concept:name", "concept:name"),
    ),
    "daily prices": (
        {"Date": rising, "Open": walk, "Close": walk, "Volume": numbers},
        ("Date", None, None, "Close"),
    ),
    "a CSV file": (
        {"id": count_up, "created_at": texts_of_time, "userId": few, "eventName": 3},
        ("created_at", "userId", "eventName", ""),
    ),
    "numbers alone": ({"x": walk}, (None, None, None, "x")),
}


@pytest.mark.parametrize("name", SHAPES)
def test_the_columns_are_guessed_as_a_person_would(name):
    columns, (clock, key, event_type, drawn) = SHAPES[name]
    explorer = shape(**columns).cep.explore().wait(60)
    call = explorer._reader.call
    assert call.get("order_by") == clock and call.get("event_type") == event_type
    assert call.get("partition_by") == (None if key is None else [key])
    assert explorer.status["state"] == "done" and explorer.matches.count() > 0, explorer.text
    fields = {field["name"]: field["chosen"] for field in explorer.board.bar.fields}
    assert fields["value"] == ([drawn] if drawn else [])


def test_what_the_call_says_is_not_guessed():
    frame = shape(**SHAPES["trades"][0])
    explorer = frame.cep.explore(partition_by=None, order_by="trade_id").wait(60)
    assert explorer._reader.call == {"order_by": "trade_id", "partition_by": None}


@pytest.mark.parametrize(
    "name, is_one",
    [
        *((name, True) for name in ("id", "visitorid", "userId", "status", "order_number")),
        *((name, False) for name in ("paid", "bid", "order_amount", "user_age", "price")),
    ],
)
def test_identifiers_are_known_by_their_names(name, is_one):
    assert is_identifier(name) is is_one


def test_a_board_with_a_query_says_it_and_looks_for_no_examples():
    explorer = WALK.cep.explore(". rise", define={"rise": "price > prev(price)"})
    explorer.wait(60)
    assert explorer.board.editor.sentence == "any row, then a rise; rise means that price rises"
    assert explorer.board.editor.examples == []
    explorer.text = ""
    assert len(explorer.board.editor.examples) >= 3


def test_the_cheat_sheet_names_columns_of_the_frame():
    kinds = {"unit price": FLOAT, "n": INTEGER, "symbol": TEXT, "t": TIME, "in": BOOLEAN, "emb": LIST}
    schema = {name: ColumnType(kind) for name, kind in kinds.items()}
    entries = [entry for group in sheet_of(schema) for entry in group["entries"]]
    for entry in entries:
        if entry["kind"] in (cs.CONDITION, cs.MEASURE):
            parse_expression(entry["text"], references=True)
    texts = {entry["text"] for entry in entries}
    assert {
        "`unit price` > prev(`unit price`)",
        "symbol like 'u%'",
        "not `in`",
        "a.`unit price` > 5",
    } <= texts
    assert {"least(`unit price`, n) > 1", "`unit price` > :limit", "corr(emb, emb) > 0.9"} <= texts
    assert {
        "B+ b[] UNTIL (`unit price` > 5)",
        "WHERE [symbol]",
        "up: `unit price` > prev(`unit price`)",
    } <= texts


def test_the_cheat_sheet_of_a_frame_without_columns_is_the_whole_sheet():
    texts = [entry["text"] for group in sheet_of({}) for entry in group["entries"]]
    assert texts == [entry.text for entries in cs.CHEAT_SHEET.values() for entry in entries]


def odd_columns(n, rng):
    """Return columns of all types, also of values that cannot be compared."""
    return {
        "ts": pd.date_range("2026-01-01", periods=n, freq="s", tz="Europe/Berlin"),
        "delta": pd.to_timedelta(rng.integers(0, 99, n), unit="s"),
        "inf": np.where(rng.random(n) < 0.3, np.inf, rng.normal(size=n)),
        "long": rng.integers(-(2**62), 2**62, n),
        "tiny": rng.normal(size=n) * 5e-320,
        "small": rng.integers(0, 9, n).astype("uint8"),
        "nullable": pd.array(rng.choice([1, 2, None], n), dtype="Int64"),
        "flag": rng.random(n) < 0.5,
        "kind": rng.choice(["it's", "and", "New York"], n),
        "category": pd.Categorical(rng.choice(list("xyz"), n)),
        "item id": rng.integers(0, 4, n),
        "null": [None] * n,
        "object": [object()] * n,
        "list": [[1.0, 2.0]] * n,
    }


@pytest.mark.parametrize("seed", seeds(12, 60))
def test_examples_of_odd_columns_can_be_read(seed):
    rng = np.random.default_rng(seed)
    columns = odd_columns(int(rng.choice([1, 2, 5, 200])), rng)
    names = [str(name) for name in rng.choice(list(columns), rng.integers(1, 8), replace=False)]
    frame = pd.DataFrame({name: columns[name] for name in names})
    roles = ("order_by", "partition_by", "event_type")
    call = {role: str(rng.choice(names)) for role in roles if rng.random() < 0.4}
    examples, call = offered(frame, call)
    for example in examples:
        assert read_text(example.text, applicable(example.text, call)).mistakes == ()
