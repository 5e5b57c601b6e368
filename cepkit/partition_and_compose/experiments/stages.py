"""The stages of "Partition and Compose" before the matching: ParseTweet, VWAP and MinMax on pandas frames."""

from __future__ import annotations

from xml.etree import ElementTree

import pandas as pd

from cepkit.errors import CepError
from cepkit.language.expressions.functions import pure
from cepkit.partition_and_compose.operators.minmax import tumbling_minmax
from cepkit.partition_and_compose.operators.tags import hashtags, tag_code, tag_mask, tag_sets
from cepkit.partition_and_compose.operators.vwap import rolling_vwap

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
    return frame.assign(tag_code=tag_code(tag_sets(frame["content"])).to_numpy(int))


def with_tag_mask(frame: pd.DataFrame) -> pd.DataFrame:
    """Return tweets with ``tag_mask``; an author's sets of tags are disjoint when their masks are."""
    mask = tag_mask(tag_sets(frame["content"]), key=frame["author"])
    return frame.assign(tag_mask=mask.to_numpy(int))


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
