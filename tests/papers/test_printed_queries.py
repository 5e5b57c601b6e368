"""The queries that "Partition and Compose" prints, word for word, against definitions in plain Python."""

import re

import numpy as np
import pandas as pd
import pytest

import cepkit as cep
from cepkit.errors import CepError, PredicateError
from tests.support.sizes import seeds

FIGURE_1 = {
    "query": ". rise+ drop+ rise+ drop* deep",
    "partition_by": "symbol",
    "define": {
        "rise": "price>First(price) && price>=Last(price)",
        "drop": "price>=First(price) && price<Last(price)",
        "deep": "price<First(price) && price<Last(price)",
    },
    "measures": {
        "symbol": "symbol", "seqNum": "First(seqNum)", "count": "Count()", "maxPrice": "Max(price)",
    },
}  # fmt: skip
SHARES_ROW = pytest.mark.filterwarnings("ignore:.*on the last row:cepkit.CepWarning")


def first_ends(n: int, is_match) -> list[tuple[int, int]]:
    """Return the matches of one key: the one that ends first, there the longest, then again after its end."""
    found, begin = [], 0
    while hit := next(((s, e) for e in range(begin, n) for s in range(begin, e + 1) if is_match(s, e)), None):
        found.append(hit)
        begin = hit[1] + 1
    return found


def letter(price: int, first: int, last: int) -> str:
    if price > first and price >= last:
        return "r"  # rise
    if price >= first and price < last:
        return "d"  # drop
    return "p" if price < first and price < last else "-"  # deep


def is_m_shape(prices: list[int]) -> bool:
    word = "".join(letter(prices[i], prices[0], prices[i - 1]) for i in range(1, len(prices)))
    return re.fullmatch("r+d+r+d*p", word) is not None


@SHARES_ROW
@pytest.mark.parametrize("seed", seeds(5, 50))
def test_figure_1_as_printed(seed):
    rng = np.random.default_rng(seed)
    n = 300
    quotes = pd.DataFrame(
        {
            "ts": pd.Timestamp("2012-01-03") + pd.to_timedelta(np.arange(n), unit="s"),
            "symbol": rng.choice(["IBM", "XYZ"], n),
            "price": rng.integers(8, 13, n),
            "seqNum": np.arange(n),
        }
    )
    expected = []
    for symbol, own in quotes.groupby("symbol"):
        prices, numbers = own["price"].tolist(), own["seqNum"].tolist()
        for s, e in first_ends(len(own), lambda s, e, p=prices: is_m_shape(p[s : e + 1])):
            expected.append((numbers[e], symbol, numbers[s], e - s + 1, max(prices[s : e + 1])))
    matches = quotes.cep.match(**FIGURE_1, order_by="ts").to_frame()
    assert list(matches) == ["symbol", "seqNum", "count", "maxPrice"] and len(matches)
    assert list(matches.itertuples(index=False, name=None)) == [row[1:] for row in sorted(expected)]


def parse_and_sort_tags(text: str) -> list[str]:
    return sorted(word for word in text.split() if word.startswith("#"))


@cep.pure
def tagsEq(tweet1: str, tweet2: str) -> bool:
    return parse_and_sort_tags(tweet1) == parse_and_sort_tags(tweet2)


def test_figure_2_as_printed():
    tags = ["#a #b"] * 7 + ["#a"] * 13
    tweets = pd.DataFrame({"ts": pd.RangeIndex(20), "author": "Ann", "content": tags})
    tweets["content"] += tweets["ts"].map(" {}".format)
    matches = tweets.cep.match(
        ". sameTags+ sameTags5th",
        partition_by="author",
        order_by="ts",
        define={
            "sameTags": "tagsEq(content, First(content))",
            "sameTags5th": "Count()==5 && tagsEq(content, First(content))",
        },
        measures={"count": "Count()", "all": "Collect(content)"},
    ).to_frame()
    sets, expected = list(map(parse_and_sort_tags, tags)), []
    for s, e in first_ends(20, lambda s, e: e - s == 5 and sets[s : e + 1] == [sets[s]] * 6):
        expected.append((6, tweets["content"].iloc[s : e + 1].tolist()))
    assert (
        [(row.count, list(row.all)) for row in matches.itertuples(index=False, name="Row")] == expected != []
    )


@SHARES_ROW
def test_what_is_written_otherwise():
    """A duration has its unit, a field of a map follows a dot, and aggregates replace lists in predicates."""
    n = 200
    rng = np.random.default_rng(1)
    ts, price = np.cumsum(rng.integers(50, 300, n)), rng.integers(100, 120, n)
    trades = pd.DataFrame(
        {
            "ts": pd.to_datetime(ts, unit="ms"),
            "quote": [{"price": int(x)} for x in price],
        }
    )

    def match(soon: str, price: str = "quote.price") -> pd.DataFrame:
        large = f"{price} > 1.1 * First({price}) && {soon}"
        define = {"notTooLong": soon, "largeIncrease": large}
        return trades.cep.match(
            ". notTooLong* largeIncrease", order_by="ts", define=define, measures={"count": "Count()"}
        ).to_frame()

    expected = first_ends(n, lambda s, e: e > s and ts[e] - ts[s] < 500 and price[e] > 1.1 * price[s])
    assert match("Delta(ts) < '0.5 s'")["count"].tolist() == [e - s + 1 for s, e in expected] != []
    with pytest.raises(PredicateError, match=r"a duration needs a unit: write '0\.5 s'"):
        match("Delta(ts) < 0.5")
    with pytest.raises(CepError, match="expected a whole number"):
        match("Delta(ts) < '0.5 s'", "quote['price']")
    with pytest.raises(PredicateError, match="a list, which only measures can have"):
        match("Delta(ts) < '0.5 s' && Collect(quote.price)[0] > 1")
