"""Laws that hold for every regex query and every stream, whatever the matches are."""

from __future__ import annotations

import re
from random import Random

import numpy as np
import pandas as pd
import pytest

import cepkit as cep
from tests.oracle import generate
from tests.support.sizes import seeds

# pattern, define, keywords; t is the clock, k the key
QUERIES = {
    "start alone": ("a b* c", {"a": "x > 1", "b": "f", "c": "y < 2"}, {}),
    "looks at the start": (
        ". rise+ drop* deep",
        {"rise": "x >= first(x) and x >= prev(x)", "drop": "x >= first(x)", "deep": "x < first(x)"},
        {},
    ),
    "queue": (
        ". e* up",
        {"e": "delta(t) < 9 and x >= first(x) - 3", "up": "x > first(x) + 2 and delta(t) < 9"},
        {},
    ),
    "sums": (". e* full", {"e": "sum(x) < 9", "full": "sum(g) + count() > 6 or s == first(s)"}, {}),
    "window": (
        ". e* (top | low)",
        {"e": "f or x > 2", "top": "x > first(x)", "low": "s like 'a%'"},
        {"within": 6},
    ),
    "two ways": ("(a | b c)+ d | b b", {"a": "f", "b": "x > 2", "c": "y > 1", "d": "x == 0"}, {}),
}


def frame_of(
    name: str, seed: int, n_events: int = 60, n_keys: int = 3, *, strict: bool = False
) -> pd.DataFrame:
    """Return a random stream with the column ``row``; ``strict``: no two rows at one time."""
    rng = Random(f"{name} {seed}")
    frame = generate.to_frame(generate.stream(rng, n_events, n_keys, nulls=seed % 2 == 0))
    if strict:
        frame["t"] = frame["t"] + np.arange(len(frame))
    return frame.assign(row=np.arange(len(frame)))


def spans(frame: pd.DataFrame, name: str, **changed) -> list[tuple[int, int]]:
    """Return the ``row`` of the first and last event of every match, in the order of the result."""
    pattern, define, keywords = QUERIES[name]
    given = {"define": define, "partition_by": "k", "order_by": "t", **keywords, **changed}
    found = cep.match(
        frame, given.pop("pattern", pattern), measures={"a": "first(row)", "b": "last(row)"}, **given
    )
    table = found.to_frame()
    return list(zip(table["a"], table["b"], strict=True))


every_query = pytest.mark.parametrize("name", QUERIES)
every_seed = pytest.mark.parametrize("seed", seeds(2, 8))


@every_query
@every_seed
def test_rows_are_put_in_order_of_the_clock(name, seed):
    frame = frame_of(name, seed, strict=True)
    shuffled = frame.sample(frac=1, random_state=seed)
    assert spans(shuffled, name) == spans(frame, name)
    assert spans(shuffled.iloc[::-1], name) == spans(frame, name)


@every_query
@every_seed
def test_names_do_not_matter(name, seed):
    frame = frame_of(name, seed)
    pattern, define, _ = QUERIES[name]
    columns = {column: f"the {column}" for column in "xytsfgk"}

    def renamed(text, names):
        return re.sub(r"\w+", lambda word: names.get(word[0], word[0]), text)

    predicates = {old: f"new_{old}" for old in define}
    quoted = {old: f"`{new}`" for old, new in columns.items()}
    found = spans(
        frame.rename(columns=columns), name, pattern=renamed(pattern, predicates),
        define={predicates[old]: renamed(text, quoted) for old, text in define.items()},
        partition_by="the k", order_by="the t",
    )  # fmt: skip
    assert found == spans(frame, name)


@every_query
@every_seed
def test_names_of_keys_and_the_zero_of_the_clock_do_not_matter(name, seed):
    frame = frame_of(name, seed)
    codes = {key: 7 * n - 9 for n, key in enumerate(frame["k"].unique())}
    moved = frame.assign(k=[codes[key] for key in frame["k"]], t=frame["t"] - 123_456)
    assert spans(moved, name) == spans(frame, name)


@every_query
@every_seed
def test_types_do_not_matter(name, seed):
    frame = frame_of(name, seed)
    frame["t"] -= frame["t"].min()
    other = frame.astype(
        {"x": "int16", "t": "int32", "s": "category", "k": "category", "y": "Float64", "f": object}
    )
    assert spans(other, name) == spans(frame, name)
    assert spans(frame.assign(t=pd.to_datetime(frame["t"], unit="s")), "start alone") == spans(
        frame, "start alone"
    )


@every_query
@every_seed
def test_tag_lineage_and_rows_tell_the_same(name, seed):
    frame = frame_of(name, seed)
    pattern, define, keywords = QUERIES[name]
    found = cep.match(frame, pattern, define=define, partition_by="k", order_by="t", **keywords)
    lineage, rows, tagged = found.lineage(), found.to_frame("all"), found.tag()
    assert rows["row"].tolist() == lineage["index"].tolist()
    assert (
        rows[["match", "variable"]].to_numpy().tolist() == lineage[["match", "variable"]].to_numpy().tolist()
    )
    own = tagged.dropna(subset=["match"]).set_index("row")
    assert own["match"].to_dict() == dict(zip(rows["row"], rows["match"], strict=True))
    assert own["variable"].to_dict() == dict(zip(rows["row"], rows["variable"], strict=True))
    assert rows.groupby("match").size().tolist() == found.to_frame()["count"].tolist()
    assert [list(match.rows["row"]) for match in found] == [
        list(part) for _, part in rows.groupby("match")["row"]
    ]
