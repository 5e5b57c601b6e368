"""Single events as plain values: the same matches as batches, and one clear error for bad ones."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import cepkit as cep
from cepkit.errors import CepError, ColumnNotFoundError, OrderError
from tests.support.sizes import seeds

REGEX = {
    "numbers": (". up+ end", {"up": "x > prev(x)", "end": "x < first(x)"}),
    "texts": ("a b* c", {"a": "kind == 'a'", "b": "kind != 'c' and y > 0", "c": "kind == 'c'"}),
    "truths": ("yes any{0,3} no", {"yes": "flag", "any": "x >= 0", "no": "not flag and kind == prev(kind)"}),
    "none": ("few . .", {"few": "x is null"}),
}
KEYWORDS = {
    "within": [None, 40], "partition_by": [None, "k", ["k", "flag"]], "order_by": ["t", ["t", "x2"]],
    "measures": [
        None, {"n": "count()", "a": "first(y)", "z": "last(kind)"}, {"a": "first(t)", "m": "max(x)"}
    ],
}  # fmt: skip


def frame_of(rng: np.random.Generator, n: int) -> pd.DataFrame:
    frame = pd.DataFrame({
        "k": rng.integers(0, 4, n), "kind": rng.choice(["a", "b", "c", "é", None], n),
        "t": pd.Timestamp("2026-01-01") + pd.to_timedelta(np.cumsum(rng.integers(0, 9, n)), unit="s"),
        "x": pd.array(rng.integers(0, 20, n), "Int64"), "x2": np.arange(n),
        "y": np.where(rng.random(n) < 0.2, np.nan, rng.normal(size=n)), "flag": rng.random(n) < 0.5,
    })  # fmt: skip
    frame["t"] = frame["t"].astype("datetime64[us]")
    frame.loc[rng.random(n) < 0.1, "x"] = pd.NA
    return frame


def plain(results) -> list[dict]:
    rows = results.to_dict("records") if isinstance(results, pd.DataFrame) else results
    return [{name: None if pd.isna(value) else value for name, value in row.items()} for row in rows]


@pytest.mark.parametrize("seed", seeds(3, 60))
@pytest.mark.parametrize("name", REGEX)
def test_events_one_by_one_give_the_matches_of_the_frame(name, seed, tmp_path):
    rng = np.random.default_rng(seed)
    pattern, define = REGEX[name]
    chosen = {word: values[rng.integers(len(values))] for word, values in KEYWORDS.items()}
    chosen["within"] = chosen["within"] and f"{chosen['within']} s"
    frame = frame_of(rng, int(rng.integers(1, 300)))
    expected = cep.match(frame, pattern, define=define, **chosen).to_frame()
    opened, found, at = cep.stream(pattern, frame, define=define, **chosen), [], 0
    while at < len(frame):
        way, size = rng.integers(5), int(rng.choice([1, 1, 1, 2, 30]))
        if way == 0:
            found += plain(opened.push(frame.iloc[at : at + size]))
            at += size
            continue
        row = frame.iloc[at : at + 1]
        values = {c: None if pd.isna(row[c].iat[0]) else row[c].iat[0] for c in frame}
        values = {c: v.item() if isinstance(v, np.generic) else v for c, v in values.items()}
        if way == 1:
            found += plain(opened.push(row))
        elif way == 2:
            found += plain(opened.push_row(tuple(values.values())))
        else:
            found += plain(opened.push_row(values))
        at += 1
        if rng.random() < 0.02:
            opened.save(tmp_path / "open.state")
            opened = cep.stream.load(tmp_path / "open.state")
    assert (found, opened.events, opened.matches) == (plain(expected), len(frame), len(expected))


@pytest.mark.parametrize("seed", seeds(1, 10))
@pytest.mark.parametrize("query", [
    "PATTERN SEQ(a x, b y) WHERE skip_till_next_match WITHIN 20 s",
    "PATTERN SEQ(a x, b+ y[]) WITHIN 12 s",
    "PATTERN SEQ(a x, !b y, c z) WITHIN 9 s",
    cep.Window({"n": "count()", "s": "sum(x)"}, time="10 s", group_by="k", order_by="t"),
    "MATCH_RECOGNIZE (PARTITION BY k ORDER BY t MEASURES LAST(x) AS x PATTERN (A B) DEFINE B AS x > A.x)",
])  # fmt: skip
def test_other_kinds_of_streams_take_events_one_by_one(query, seed):
    frame = frame_of(np.random.default_rng(seed), 60)
    is_sequence = isinstance(query, str) and query.startswith("PATTERN")
    given = {"event_type": "kind", "order_by": "t"} if is_sequence else {}
    batches, rows = cep.stream(query, frame, **given), cep.stream(query, frame, **given)
    for at in range(len(frame)):
        values = {c: None if pd.isna(v) else v for c, v in frame.iloc[at].items()}
        assert plain(rows.push_row(values)) == plain(batches.push(frame.iloc[at : at + 1]))
    assert plain(rows.close()) == plain(batches.close())


def test_a_join_takes_events_of_a_side():
    window = cep.Window(time=10, order_by="t")
    schema = {"left": {"t": "int64", "a": "int64"}, "right": {"t": "int64", "b": "int64"}}
    opened = cep.stream(cep.Join(left=window, right=window), schema)
    assert opened.push_row(left={"t": 1, "a": 7}) == []
    assert len(opened.push_row(right={"t": 2, "b": 8})) + len(opened.push_row(left={"t": 3, "a": 9})) > 0


SCHEMA = {"k": "string", "t": "int64 not null", "x": "int8", "y": "float64"}
GOOD = {"k": "a", "t": 5, "x": 1, "y": 0.5}


@pytest.mark.parametrize(("bad", "error", "words"), [
    ({**GOOD, "x": 200}, CepError, "'x' must be int8"),
    ({**GOOD, "x": "1"}, CepError, "'x' must be int8"),
    ({**GOOD, "x": 1.5}, CepError, "'x' must be int8"),
    ({**GOOD, "k": 7}, CepError, "'k' must be string"),
    ({**GOOD, "k": "\ud800"}, CepError, "'k'"),
    ({**GOOD, "t": None}, CepError, "'t'"),
    ({**GOOD, "t": 3}, OrderError, "before the newest event"),
    ({"k": "a", "t": 5, "x": 1}, ColumnNotFoundError, "'y'"),
    (("a", 5, 1), CepError, "3 values"),
    (5, CepError, "int"),
])  # fmt: skip
@pytest.mark.parametrize("is_first", [True, False])
def test_a_bad_event_is_one_error_and_changes_nothing(bad, error, words, is_first):
    given = {"define": {"up": "x > prev(x)"}, "partition_by": "k", "order_by": "t"}
    given["measures"] = {"x": "last(x)", "y": "last(y)"}
    opened, clean = (cep.stream(". up", SCHEMA, **given) for _ in range(2))
    for good in ({**GOOD, "t": 4}, {**GOOD, "x": 2}):
        if not (is_first and good["t"] == 4 and bad != {**GOOD, "t": 3}):
            assert opened.push_row(good) == clean.push_row(good)
        if bad == {**GOOD, "t": 3} and opened.events == 0:
            continue
        with pytest.raises(error, match=words):
            opened.push_row(bad)
        if is_first and opened.events == 0:
            assert opened.push_row(good) == clean.push_row(good)
    last = {**GOOD, "t": 9, "x": 3}
    assert opened.push_row(last) == clean.push_row(last)
    assert (opened.events, opened.matches) == (clean.events, clean.matches)


def test_an_event_beyond_max_live_changes_nothing():
    define = {"up": "x > first(x)", "end": "x < first(x) - 2"}
    opened = cep.stream(". up* end", {"x": "int64"}, define=define, max_live=3)
    for x in (1, 2, 3):
        opened.push_row((x,))
    with pytest.raises(CepError, match="max_live"):
        opened.push_row((4,))
    assert opened.events == 3 and [row["count"] for row in opened.push_row((-2,))] == [4]


def test_rows_that_nothing_needs_are_dropped_when_events_come_one_by_one():
    opened = cep.stream("low up", {"k": "int64", "x": "int64"}, define={"low": "x < 0", "up": "x > prev(x)"},
                        partition_by="k")  # fmt: skip
    for i in range(3000):
        opened.push_row((i % 7, i))
    assert opened._search.n_retained <= 20 and len(opened._search._replicas[0]._new[0]) < 300


def test_rows_that_nothing_needs_are_dropped_when_every_second_event_ends_a_match():
    opened = cep.stream("low up", {"x": "int64"}, define={"low": "x < 0", "up": "x > 0"})
    for _ in range(1500):
        assert opened.push_row((-1,)) == [] and len(opened.push_row((1,))) == 1
    assert len(opened._search._replicas[0].kept) < 300


@pytest.mark.parametrize("seed", seeds(1, 40))
@pytest.mark.parametrize("text", [
    "SEQ(a x, b+ y[], c z) WHERE skip_till_next_match WITHIN 30 s",
    "SEQ(a x, !b y, c z) WHERE z.x2 > x.x2 WITHIN 25 s",
    "SEQ(a x, c z) WITHIN 6 events",
    "SEQ(!a x, b y, c z) WHERE strict_contiguity WITHIN 25 s",
    "SEQ(a x, b y, a z) WHERE [k] AND skip_till_next_match WITHIN 60 s",
    "SEQ(a x, OR(b y, c z), a w) WHERE [k] WITHIN 40 s",
    "SEQ(a? x, (SEQ(b y, c+ z)){1,2}) WHERE [k, flag] WITHIN 30 s",
    "SEQ(a x, AND(b y, c z)) WHERE x.k = y.k AND y.k = z.k WITHIN 20 s",
    "SEQ(a{2} x, _ y, c z) WHERE x[i].k = z.k WITHIN 15 s",
    "SEQ(a x, b y, c{2,} z) WHERE x.x = y.x2 AND skip_till_next_match WITHIN 90 s",
])  # fmt: skip
def test_events_that_end_no_match_may_wait(text, seed, tmp_path):
    rng = np.random.default_rng(seed)
    frame = frame_of(rng, 50)
    key = "k" if rng.random() < 0.5 and "[k" not in text else None
    given = {"event_type": "kind", "order_by": "t", "partition_by": key}
    expected = cep.match(frame, f"PATTERN {text}", **given).to_frame()
    batches, found = cep.stream(f"PATTERN {text}", frame, **given), []
    rows = cep.stream(f"PATTERN {text}", frame, **given)
    for at in range(len(frame)):
        values = {c: None if pd.isna(v) else v for c, v in frame.iloc[at].items()}
        result = plain(rows.push_row(values) if rng.random() < 0.9 else rows.push(frame.iloc[at : at + 1]))
        assert result == plain(batches.push(frame.iloc[at : at + 1]))
        found += result
        if rng.random() < 0.05:
            assert (rows.status().rows, rows.status().keys) == (batches.status().rows, batches.status().keys)
            rows.save(tmp_path / "open.state")
            rows = cep.stream.load(tmp_path / "open.state")
    assert found + plain(rows.close()) == plain(expected)


def test_only_what_can_end_a_match_is_searched(monkeypatch):
    """A search takes a hundred times as long as an event that waits."""
    searched, search = [], cep.streaming.sequence_stream.SequenceSearch._search
    monkeypatch.setattr(
        cep.streaming.sequence_stream.SequenceSearch, "_search",
        lambda self, whole, *rest, **more: searched.append(1) or search(self, whole, *rest, **more),
    )  # fmt: skip
    opened = cep.stream(
        "PATTERN SEQ(a x, b y, c z) WHERE [k] WITHIN 100", {"k": "int64", "t": "int64", "kind": "string"},
        event_type="kind", order_by="t",
    )  # fmt: skip
    events = [(k, kind) for k in range(50) for kind in ("cba", "abab", "bca", "acb")[k % 4]]
    for t, (k, kind) in enumerate(events):
        assert opened.push_row((k, t, kind)) == []
    assert not searched
    for t, k in enumerate((1, 5, 45), len(events)):  # the first one is too late, and so is the second one
        opened.push_row((k, t, "c"))
    assert len(searched) == 1 and opened.matches == 3
