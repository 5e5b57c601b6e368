"""The nine benchmarks of "Partition and Compose" (DEBS 2012) as queries over generated data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from xml.etree import ElementTree

import numpy as np
import pandas as pd

from cepkit.datasets import PAPER_TRADES, PAPER_TWEETS, trades, tweets, tweets_as_atom_xml
from cepkit.errors import CepError
from cepkit.language.expressions.functions import pure
from cepkit.language.regex import RegexQuery, regex_query
from papers.match_regex.operators import hashtags, rolling_vwap, tag_code, tag_mask, tag_sets, tumbling_minmax
from papers.recorded import recorded

# --- The stages of "Partition and Compose" before the matching: ParseTweet, VWAP and MinMax on pandas frames.

VWAP_TRADES = 20
TRADES_OF_WINDOW = 2


def with_vwap(frame: pd.DataFrame) -> pd.DataFrame:
    """Return trades with ``vwap``, the volume-weighted average price of the symbol's last 20 trades."""
    vwap = rolling_vwap(frame["symbol"], frame["price"], frame["size"], window=VWAP_TRADES)
    return frame.assign(vwap=vwap)


def with_windows(frame: pd.DataFrame) -> pd.DataFrame:
    """Return ``ts, symbol, mn, mx`` of every two trades of a symbol, with the time of the second trade."""
    windows = tumbling_minmax(frame["symbol"], frame["price"], TRADES_OF_WINDOW)
    last = frame[["ts", "symbol"]].take(windows.last_event).reset_index(drop=True)
    return last.assign(mn=windows.mn, mx=windows.mx)


def parse_tweets(frame: pd.DataFrame) -> pd.DataFrame:
    """Return ``id, ts, author, content`` of the Atom entries in ``xml``; other columns are ignored."""
    parsed = [_parse_entry(entry) for entry in frame["xml"]]
    tweets = pd.DataFrame(parsed, columns=["id", "ts", "author", "content"])
    times = pd.to_datetime(tweets["ts"], format="%Y-%m-%dT%H:%M:%S.%fZ")
    return tweets.assign(ts=times.astype("datetime64[us]"), author=tweets["author"].astype("category"))


def with_tag_code(frame: pd.DataFrame) -> pd.DataFrame:
    """Return tweets with ``tag_code``, one number per set of tags, equal for equal sets."""
    return frame.assign(tag_code=tag_code(tag_sets(frame["content"])))


def with_tag_mask(frame: pd.DataFrame) -> pd.DataFrame:
    """Return tweets with ``tag_mask``; an author's sets of tags are disjoint when their masks are."""
    return frame.assign(tag_mask=tag_mask(tag_sets(frame["content"]), key=frame["author"]))


@pure
def tags_eq(one: str, other: str) -> bool:
    """Return whether two texts have the same tags. This is slow, because it parses both texts."""
    return hashtags(one) == hashtags(other)


@pure
def tags_disjoint(one: str, other: str) -> bool:
    """Return whether two texts have no tag in common. This is slow, because it parses both texts."""
    return not set(hashtags(one)) & set(hashtags(other))


class DocumentTypeError(CepError, ValueError):
    """XML defines entities of its own, which could grow without a bound or read files."""


class _PlainTree(ElementTree.TreeBuilder):
    """A tree without a document type."""

    def doctype(self, *_: object) -> None:
        raise DocumentTypeError("the XML of an entry has a document type; leave out <!DOCTYPE …>")


def _parse_entry(entry: str) -> tuple[int, str, str, str]:
    # The plain parser is twice as fast, and without these letters no entity can be defined.
    plain = ElementTree.XMLParser(target=_PlainTree()) if "<!DOCTYPE" in entry else None
    tree = ElementTree.fromstring(entry, plain)
    author = tree.find("author").findtext("name")
    return int(tree.findtext("id")), tree.findtext("published"), author, tree.findtext("content")


EVENTS_OF_BLOCK = 10_000  # the paper repeats 10,000 trades 1,000 times, 10,000 tweets 20 times
PAPER_REPETITIONS = {"trades": 1000, "tweets": 20}
BLOCK_US = {"trades": 7_257_000, "tweets": 6_600_000_000}  # 2 h 01 min / 1000 blocks, 36 h 40 min / 20 blocks
RECORDED = "recorded"  # the name of recorded data in tables of results


@dataclass(frozen=True, slots=True)
class Free:
    """A number from ``low`` to ``high`` that the paper leaves open, and the parameters that depend on it."""

    # ``stored`` is the number of the benchmark's own ``params``.

    low: float
    high: float
    stored: float
    params: Callable[[float], dict[str, object]]


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A row of the paper's tables 5 and 6 as a query that runs here."""

    name: str
    looks_for: str  # description of a match
    data: str  # ``"trades"`` or ``"tweets"``
    pattern: str | None  # none: only the stages run (twitter0)
    paper_selectivity: float  # matches per input event, table 5
    paper_events_per_s: int  # speed of one replica, table 6
    # define, params, measures: as for `cepkit.match`
    define: Mapping[str, str] = field(default_factory=dict)
    params: Mapping[str, object] = field(default_factory=dict)
    measures: Mapping[str, str] | None = None
    # Functions from frame to frame, applied in this order before the matching.
    stages: tuple[Callable[[pd.DataFrame], pd.DataFrame], ...] = ()
    # Whether the paper prints the predicates. Otherwise they are reconstructed from its text.
    printed: bool = False
    free: Free | None = None  # the parameters that `calibrate` varies

    @property
    def partition_by(self) -> str:
        """The partition key."""
        return {"trades": "symbol", "tweets": "author"}[self.data]

    @property
    def order_by(self) -> str:
        """The clock. Events with the same time keep the order of the frame."""
        return "ts"

    def query(self) -> RegexQuery:
        """Return the query for ``df.cep.match``."""
        if self.pattern is None:
            raise CepError(f"benchmark {self.name!r} has no pattern. It only measures the parsing")
        return regex_query(
            self.pattern,
            define=self.define,
            params=self.params,
            measures=self.measures,
            partition_by=self.partition_by,
            order_by=self.order_by,
        )

    def prepared(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the data after all stages, which the pattern searches."""
        for stage in self.stages:
            frame = stage(frame)
        return frame


def benchmark_data(
    benchmark: Benchmark, repetitions: int = 20, seed: int = 0, *, xml: bool = True
) -> pd.DataFrame:
    """Return generated events for a benchmark, in the paper's shape: ``repetitions`` blocks of 10,000."""
    # Tweets have the parsed columns and, unless ``xml`` is False, the Atom entries that ParseTweet reads.
    if benchmark.data == "trades":
        return trades(EVENTS_OF_BLOCK, repetitions=repetitions, seed=seed, **PAPER_TRADES)
    frame = tweets(EVENTS_OF_BLOCK, repetitions=repetitions, seed=seed, **PAPER_TWEETS)
    return frame.assign(xml=tweets_as_atom_xml(frame)) if xml else frame


def recorded_data(benchmark: Benchmark, repetitions: int = 20, *, xml: bool = True) -> pd.DataFrame:
    """Return recorded events for a benchmark, with the columns and the rate of `benchmark_data`."""
    # Trades: the first ``10_000 * repetitions`` of the day, at most all 224,473, with prices in cents and
    # times scaled to the paper's 1,378 trades per second. They have 10 symbols, and the paper's 390. Tweets:
    # all 9,214, repeated with shifted times and scaled to the paper's 110 minutes per block.
    frame = recorded(benchmark.data)
    if benchmark.data == "trades":
        frame = frame.iloc[: EVENTS_OF_BLOCK * repetitions].reset_index(drop=True)
        cents = np.rint(100 * frame["price"].to_numpy(float)).astype(np.int64)
        return pd.DataFrame(
            {
                "ts": _scaled(frame["ts"], len(frame) * BLOCK_US["trades"] / EVENTS_OF_BLOCK),
                "symbol": frame["symbol"].astype("category"),
                "price": cents,
                "size": frame["size"].astype(np.int64),
                "seq": np.arange(len(frame), dtype=np.int64),
            }
        )
    block = frame[["author", "content"]].assign(ts=_scaled(frame["ts"], BLOCK_US["tweets"]))
    blocks = [
        block.assign(ts=block["ts"] + pd.Timedelta(microseconds=k * BLOCK_US["tweets"]))
        for k in range(repetitions)
    ]
    whole = pd.concat(blocks, ignore_index=True)
    whole = whole.assign(author=whole["author"].astype("category"), id=np.arange(1, len(whole) + 1))
    return whole.assign(xml=tweets_as_atom_xml(whole)) if xml else whole


def data_named(benchmark: Benchmark, repetitions: int, name: str, *, xml: bool = True) -> pd.DataFrame:
    """Return the data for a benchmark: generated for ``"seed 7"``, recorded for ``"recorded"``."""
    if name == RECORDED:
        return recorded_data(benchmark, repetitions, xml=xml)
    return benchmark_data(benchmark, repetitions, int(name.removeprefix("seed ")), xml=xml)


def _scaled(ts: pd.Series, length_us: float) -> pd.Series:
    """Return times that keep their order and proportions, and last ``length_us`` microseconds."""
    since = (ts - ts.iloc[0]) / pd.Timedelta(microseconds=1)
    offset = np.rint(since * (length_us / since.iloc[-1])).astype(np.int64)
    return pd.Timestamp("2012-01-03 09:30:00") + pd.to_timedelta(offset, unit="us").astype("timedelta64[us]")


# `calibrate` found the parameters on 20 repetitions; they are rounded.
_FINANCE = [
    Benchmark(
        "finance0",
        "a large trade followed by a peak",
        "trades",
        "large rise+ drop",
        0.0171,
        778_584,
        define={"large": "size > :large", "rise": "price > prev(price)", "drop": "price < prev(price)"},
        params={"large": 100},
        free=Free(0, 2000, 100, lambda x: {"large": round(x)}),
    ),
    Benchmark(
        "finance1",
        "an M: rise, drop, rise, and a drop below the first price",
        "trades",
        ". rise+ drop+ rise+ drop* deep",
        0.0031,
        708_118,
        define={
            "rise": "price > first(price) and price >= prev(price)",
            "drop": "price >= first(price) and price < prev(price)",
            "deep": "price < first(price) and price < prev(price)",
        },
        measures={"first_seq": "first(seq)", "count": "count()", "top": "max(price)"},
        printed=True,
    ),
    Benchmark(
        "finance2",
        "rising for a while, then flat for a while",
        "trades",
        ". rise* rise_end flat* flat_end",
        0.0272,
        832_469,
        define={
            "rise": "price >= prev(price) and delta(ts) < :t1",
            "rise_end": "price >= prev(price) and delta(ts) >= :t1",
            "flat": "abs(price - prev(price)) <= :f * prev(price) and delta(ts) < :t2",
            "flat_end": "abs(price - prev(price)) <= :f * prev(price) and delta(ts) >= :t2",
        },
        params={"t1": "1.95 s", "t2": "3.9 s", "f": 0.001},
        free=Free(0.1, 10, 1.95, lambda x: {"t1": f"{x:.3f} s", "t2": f"{2 * x:.3f} s"}),
    ),
    Benchmark(
        "finance3",
        "a price far above the average price of the symbol's last trades, by volume",
        "trades",
        "divergence",
        0.0003,
        229_090,
        define={"divergence": "price > (1 + :x) * vwap"},
        params={"x": 0.041},
        stages=(with_vwap,),
        free=Free(0, 1, 0.041, lambda x: {"x": x}),
    ),
    Benchmark(
        "finance4",
        "windows of two trades: a later one lies above all of the first",
        "trades",
        "hi gap* lo",
        0.0515,
        371_753,
        define={
            "hi": "mn is not null",
            "gap": "not (mn > first(mx)) and delta(ts) < :t",
            "lo": "mn > first(mx)",
        },
        params={"t": "5 s"},
        stages=(with_windows,),
        free=Free(0.01, 600, 5, lambda x: {"t": f"{x:.3f} s"}),
    ),
    Benchmark(
        "finance5",
        "a large rise within a short time",
        "trades",
        ". soon* large",
        0.0004,
        235_672,
        define={"soon": "delta(ts) < :t", "large": "price > (1 + :p) * first(price) and delta(ts) < :t"},
        params={"t": "0.5 s", "p": 0.015},
        free=Free(0, 1, 0.015, lambda x: {"p": x}),
    ),
]
_TWITTER = [
    Benchmark(
        "twitter0",
        "nothing: the tweets are parsed",
        "tweets",
        None,
        1.0,
        6_488,
        stages=(parse_tweets,),
        printed=True,
    ),
    Benchmark(
        "twitter1",
        "tweets of an author with the same tags, the last one after five",
        "tweets",
        ". same+ same_5th",
        0.1407,
        6_267,
        define={
            "same": "tag_code == first(tag_code)",
            "same_5th": "count() == :n and tag_code == first(tag_code)",
        },
        params={"n": 5},
        measures={"count": "count()", "texts": "collect(content)"},
        stages=(parse_tweets, with_tag_code),
        printed=True,
    ),
    Benchmark(
        "twitter2",
        "the first and the last tweet have no tag in common",
        "tweets",
        ".+ disjoint",
        0.0215,
        316,
        define={"disjoint": "bit_and(tag_mask, first(tag_mask)) == 0"},
        stages=(parse_tweets, with_tag_mask),
    ),
]
BENCHMARKS: dict[str, Benchmark] = {benchmark.name: benchmark for benchmark in (*_FINANCE, *_TWITTER)}


def _variants() -> Iterable[Benchmark]:
    one, two = BENCHMARKS["twitter1"], BENCHMARKS["twitter2"]
    yield replace(one, name="twitter1_five", looks_for="five tweets with the same tags", params={"n": 4})
    texts = {
        "same": "tags_eq(content, first(content))",
        "same_5th": "count() == :n and tags_eq(content, first(content))",
    }
    yield replace(one, name="twitter1_texts", define=texts, stages=(parse_tweets,))
    texts = {"disjoint": "tags_disjoint(content, first(content))"}
    yield replace(two, name="twitter2_texts", define=texts, stages=(parse_tweets,))


# In the paper's text, Count() excludes the current event. So twitter1 as printed matches at the sixth tweet,
# but table 5 says five. The variants on texts parse them again in every predicate, as in the paper.
VARIANTS: dict[str, Benchmark] = {benchmark.name: benchmark for benchmark in _variants()}
