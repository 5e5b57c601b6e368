"""What the explorer offers to a person who knows nothing: examples, the cheat sheet, the query in words."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

from cepkit.datasets import load_sample
from cepkit.events import BOOLEAN, FLOAT, INTEGER, LIST, TEXT, TIME, ColumnType
from cepkit.explorer.query.examples import MOST_EXAMPLES, examples_of, sheet_of
from cepkit.explorer.query.text import applicable, read_text
from cepkit.explorer.running.data import SearchedFrame
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


def result_of(frame, call, example):
    """Return the matches of an example, with the keywords that it brings."""
    data, call = SearchedFrame(frame), {**example.call, **call}
    reading = read_text(example.text, applicable(example.text, call))
    assert reading.mistakes == ()
    return data.run(data.compile(reading.query))


@pytest.mark.parametrize("name", FRAMES)
def test_examples_fit_their_frame(name):
    frame, call = FRAMES[name]
    examples = examples_of(SearchedFrame(frame), call)
    assert 3 <= len(examples) <= MOST_EXAMPLES
    assert len({example.text for example in examples}) == len(examples)
    counts = [result_of(frame, call, example).count() for example in examples]
    assert sum(n > 0 for n in counts) >= 2, list(zip([one.title for one in examples], counts, strict=True))
    for example in examples:
        assert not set(example.call) & set(call)
        assert example.sentence and "\n" not in example.title


@pytest.mark.parametrize(
    "frame", [WALK[:0], pd.DataFrame(index=range(3)), pd.DataFrame({"v": [[1.0], [2.0]]})]
)
def test_a_frame_that_suits_no_example_gets_none(frame):
    assert examples_of(SearchedFrame(frame), {}) == []


def test_examples_of_a_long_frame_look_at_its_first_rows():
    long = pd.concat([scans()] * 200, ignore_index=True)
    examples = examples_of(SearchedFrame(long), {"order_by": "ts"})
    assert examples[0].title == "unit weight rises 3 times in a row, then falls"


def test_examples_survive_missing_values_and_odd_columns():
    frame = scans().astype({"item": "Int64"})
    frame.loc[::7, ["kind", "item", "unit weight"]] = None
    frame["rise"], frame["constant"] = 1, 3.5
    frame["flag"] = frame.index % 3 == 0
    for example in examples_of(SearchedFrame(frame), {}):
        result_of(frame, {}, example).count()


def test_an_empty_board_offers_examples_and_takes_what_they_need():
    explorer = scans().cep.explore()
    editor = explorer.board.editor
    assert len(editor.examples) == MOST_EXAMPLES and editor.sentence == ""
    assert explorer.status["message"] == ""
    chosen = next(one for one in editor.examples if one["text"].startswith("PATTERN"))
    explorer.text = chosen["text"]
    explorer.wait(60)
    assert explorer.matches.count() > 0
    assert explorer.query.event_type == "kind" and explorer.query.order_by == ("ts",)
    assert "event_type='kind'" in explorer.code.replace('"', "'")
    assert editor.sentence == chosen["sentence"]
    explorer.text = chosen["text"].replace("SEQ", "SEK")
    assert explorer.status["state"] == "failed"
    assert editor.sentence == chosen["sentence"]  # the result is still that of this query
    explorer.cancel()


def test_a_board_with_a_query_says_it_and_looks_for_no_examples():
    explorer = WALK.cep.explore(". rise", define={"rise": "price > prev(price)"})
    explorer.wait(60)
    assert explorer.board.editor.sentence == "any row, then a rise; rise means that price rises"
    assert explorer.board.editor.examples == []
    explorer.text = ""
    assert len(explorer.board.editor.examples) == 3


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
    for example in examples_of(SearchedFrame(frame), call):
        assert read_text(example.text, applicable(example.text, {**example.call, **call})).mistakes == ()
