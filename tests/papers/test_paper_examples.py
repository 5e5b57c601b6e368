"""What the paper prints: its examples, its benchmarks' automata and its rules, through the public API.

Hirzel, "Partition and Compose: Parallel Complex Event Processing", DEBS 2012.
"""

from __future__ import annotations

import pandas as pd
import pytest

import cepkit as cep
from cepkit.errors import CepError, CepWarning

M_SHAPE = ". rise+ drop+ rise+ drop* deep"
M_DEFINE = {
    "rise": "price > first(price) and price >= last(price)",
    "drop": "price >= first(price) and price < last(price)",
    "deep": "price < first(price) and price < last(price)",
}


def spans(frame, pattern, **keywords):
    found = (
        cep.match(frame, pattern, **keywords).lineage().groupby("match")["position"].agg(["first", "last"])
    )
    return list(found.itertuples(index=False, name=None))


def labelled(text):
    """Return rows with boolean columns a to d: ``"ab . b"`` is a and b, none, b."""
    return pd.DataFrame([{name: name in word for name in "abcd"} for word in text.split()])


# --- the M shape of section 2 -----------------------------------------------------------------------------


def test_m_shape():
    trades = pd.DataFrame({"price": [10, 12, 13, 11, 14, 12, 9]})
    found = cep.match(
        trades, M_SHAPE, define=M_DEFINE,
        measures={
            "n": "count()", "top": "max(price)", "low": "first(price)", "end": "last(price)",
            "all": "collect(price)",
        },
    )  # fmt: skip
    [row] = found.to_frame().to_dict("records")
    assert row.pop("all").tolist() == [10, 12, 13, 11, 14, 12, 9]
    assert row == {"n": 7, "top": 14, "low": 10, "end": 9}
    assert found.to_frame("all")["variable"].tolist() == [".", "rise", "rise", "drop", "rise", "drop", "deep"]


def test_a_second_m_shape_begins_behind_the_first():
    prices = [10, 12, 13, 11, 14, 12, 9, 10, 12, 11, 13, 8]
    # From the 9 that ends the first M another one would rise, but no row is in two matches.
    assert spans(pd.DataFrame({"price": prices[6:]}), M_SHAPE, define=M_DEFINE) == [(0, 5)]
    assert spans(pd.DataFrame({"price": prices}), M_SHAPE, define=M_DEFINE) == [(0, 6), (7, 11)]


def test_m_shapes_of_interleaved_symbols():
    one, other = [10, 12, 13, 11, 14, 12, 9], [5, 7, 6, 8, 1]
    rows = [("A", price) for price in one] + [("B", price) for price in other]
    order = [0, 7, 1, 8, 2, 3, 9, 4, 10, 5, 6, 11]
    trades = pd.DataFrame([rows[i] for i in order], columns=["symbol", "price"])
    found = cep.match(
        trades, M_SHAPE, define=M_DEFINE, partition_by="symbol", measures={"n": "count()"}
    ).to_frame()
    assert found.to_dict("list") == {"symbol": ["A", "B"], "n": [7, 5]}


# --- the rules of section 2.3 -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "rows", "expected"),
    [
        ("a+", "a a a", [(0, 0), (1, 1), (2, 2)]),  # reported as soon as it is complete
        ("a+ b", ". a a b", [(1, 3)]),  # of those that end there the longest
        ("a b b | b", "a b b", [(1, 1), (2, 2)]),  # a leftmost engine would say (0, 2)
        ("a+ b?", "a b a", [(0, 0), (2, 2)]),  # what may be missing at the end is never reached
        ("a a", "a a a a a", [(0, 1), (2, 3)]),  # no overlap
        ("a*", ". a", [(1, 1)]),  # no match without a row
        ("a b | c d", "a b c d a c b d", [(0, 1), (2, 3)]),
        ("a . b", "ab ab ab", [(0, 2)]),  # predicates overlap
    ],
)
@pytest.mark.filterwarnings("ignore::cepkit.errors.CepWarning")
def test_which_rows_match(pattern, rows, expected):
    assert spans(labelled(rows), pattern) == expected


def test_matches_are_contiguous_in_their_partition_only():
    frame = labelled("a a b b").assign(key=["p", "q", "p", "q"])
    assert cep.match(frame, "a b", partition_by="key").lineage()["position"].tolist() == [0, 2, 1, 3]
    assert spans(frame, "a b") == [(1, 2)]


def test_at_most_one_match_per_row_in_the_order_of_last_rows():
    frame = labelled("a a a b b b c c").assign(key=list("pqrrqppq"))
    found = cep.match(frame, "a b", partition_by="key", measures={"end": "last(key)"})
    assert found.to_frame()["end"].tolist() == ["r", "q", "p"]


# --- queries that are refused -----------------------------------------------------------------------------

PRICES = pd.DataFrame({"price": [1.0, 2.0], "size": [1, 2]})


@pytest.mark.parametrize(
    "aggregate",
    [
        "first(price)",
        "last(price)",
        "count()",
        "max(price)",
        "min(price)",
        "sum(price)",
        "avg(price)",
        "delta(size)",
    ],
)
@pytest.mark.parametrize(
    "pattern", ["rise", "rise+ drop", "drop? rise", "(drop | rise) drop", "drop* (rise | drop)"]
)
@pytest.mark.filterwarnings("ignore::cepkit.errors.CepWarning")
def test_aggregates_of_the_match_before_its_first_row(pattern, aggregate):
    with pytest.raises(CepError, match=r"'rise'[\s\S]*\^"):
        cep.match(PRICES, pattern, define={"rise": f"price > {aggregate}", "drop": "price < 1"})


def test_aggregates_behind_the_first_row_are_fine():
    found = cep.match(PRICES, ". rise", define={"rise": "price > first(price)"})
    assert len(found) == 1


def test_unknown_aggregate():
    with pytest.raises(CepError, match=r"(?s)madian.*median|madian.*\^"):
        cep.match(PRICES, ". a", define={"a": "price > madian(price)"})


def test_nullable_patterns_warn():
    with pytest.warns(CepWarning, match=r"a\*"):
        cep.match(labelled("a"), "a*")


def test_unreachable_suffixes_warn():
    with pytest.warns(CepWarning, match="b"):
        cep.match(labelled("a"), "a b?")


def test_predicates_that_the_pattern_does_not_name_warn():
    with pytest.warns(CepWarning, match="drop"):
        cep.match(PRICES, "rise", define={"rise": "price > 1", "drop": "price < 1"})


def test_empty_pattern():
    with pytest.raises(CepError, match="has no event; name at least one predicate"):
        cep.match(PRICES, "()")


# --- twitter1 and its count -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "n_matches", "rows"),
    [
        (5, 3, 6),
        (4, 4, 5),
    ],  # an aggregate in a predicate leaves out the current row: count() == 5 fires on the sixth
)
def test_five_tweets_with_the_same_tags(n, n_matches, rows):
    tweets = pd.DataFrame({"author": ["ann"] * 20 + ["bob"] * 20, "tags": [1] * 20 + [1, 2] * 10})
    found = cep.match(
        tweets, ". same+ last_same", partition_by="author", params={"n": n},
        define={"same": "tags == first(tags)", "last_same": "count() == :n and tags == first(tags)"},
        measures={"n": "count()"},
    )  # fmt: skip
    assert found.to_frame().to_dict("list") == {"author": ["ann"] * n_matches, "n": [rows] * n_matches}


# --- matches as events of another query (section 6 of Cayuga, resubscription) -----------------------------


def test_matches_are_the_stream_of_the_next_query():
    walk = pd.DataFrame({"price": [1, 2, 3, 1, 2, 1, 2, 3, 4, 1, 2, 1]})
    rises = cep.match(walk, ". up+ drop", define={"up": "price > prev(price)", "drop": "price < prev(price)"},
                      measures={"top": "max(price)", "rows": "count()"}).to_frame()  # fmt: skip
    assert rises.to_dict("list") == {"top": [3, 4], "rows": [4, 5]}
    higher = cep.match(
        rises, ". higher", define={"higher": "top > prev(top)"}, measures={"rows": "sum(rows)"}
    )
    assert higher.to_frame()["rows"].tolist() == [9]
