"""The operators before the matching, on arrays in stream order: prices by volume, windows, hashtags."""

from __future__ import annotations

import re
import sys
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from cepkit.errors import CepError, whole_number


def by_key(key: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the event of each row, sorted by key, then in stream order, and the first row of its key."""
    codes, keys = pd.factorize(pd.Series(key), use_na_sentinel=False)
    n_of_key = np.bincount(codes, minlength=len(keys))
    small = codes.astype(np.min_scalar_type(len(keys)))  # numpy sorts 16 bits ten times as fast as 64
    return np.argsort(small, kind="stable"), np.repeat(np.cumsum(n_of_key) - n_of_key, n_of_key)


class Windows(NamedTuple):
    """Full windows in the order of their last event."""

    last_event: np.ndarray  # int64, (n_windows,)
    mn: np.ndarray  # type of the values, (n_windows,)
    mx: np.ndarray


def tumbling_minmax(key: Any, value: Any, k: int) -> Windows:
    """Return the minimum and maximum of every ``k`` consecutive events of a key (section 5.1, finance4)."""
    whole_number("tumbling_minmax: k", k, 1)
    event, first = by_key(key)
    row = np.arange(len(event))
    n_of_key = np.searchsorted(first, first, "right") - first
    is_full = row - first < n_of_key // k * k
    windows = event[is_full].reshape(-1, k)
    window_of_event = np.full(len(event), -1)
    window_of_event[windows[:, -1]] = np.arange(len(windows))
    windows = windows[window_of_event[window_of_event >= 0]]
    values = np.asarray(value)[windows]
    return Windows(windows[:, -1], values.min(axis=1), values.max(axis=1))


def rolling_vwap(key: Any, price: Any, size: Any, *, window: int) -> np.ndarray:
    """Return for each event the average price, by volume, of the last ``window`` events of its key."""
    # Prices and sizes are whole numbers, so the sums are exact.
    # Source: Hirzel, DEBS 2012, section 5.1 (finance3).
    # Differs: the paper uses it in place of a query with overlapping matches and states no window.
    whole_number("rolling_vwap: window", window, 1)
    event, first = by_key(key)
    sizes = np.asarray(size)[event].astype(np.int64, casting="safe")
    worths = np.asarray(price)[event].astype(np.int64, casting="safe") * sizes
    stop = np.arange(1, len(event) + 1)
    start = np.maximum(stop - window, first)
    worth, volume = (sums[stop] - sums[start] for sums in map(_sums_before, (worths, sizes)))
    vwap = np.full(len(event), np.nan)
    vwap[event[volume > 0]] = worth[volume > 0] / volume[volume > 0]
    return vwap


def _sums_before(values: np.ndarray) -> np.ndarray:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(values)])


# --- hashtags of texts, and numbers of their sets ---------------------------------------------------------

TagSet = tuple[str, ...]

LARGEST_MASK = 63  # bits 0 to 62: masks stay positive numbers

# The rules of Twitter: a number alone is no tag. A tag does not follow a letter or an ampersand (&#39; is an
# apostrophe), and does not run into another # or an address. W stands for the characters of words.
_HASHTAG = r"(?<![W&])#([W]*(?!\d)[W][W]*+)(?!#|://)"
_WORD_CATEGORIES = ("Lu", "Ll", "Lt", "Lm", "Lo", "Nl", "Mn", "Mc", "Me", "Nd", "Pc")
_OTHER_LETTERS = "\u200c\u200d\u24b6-\u24e9\U0001f130-\U0001f149\U0001f150-\U0001f169\U0001f170-\U0001f189"


def hashtags(text: str) -> TagSet:
    r"""Return the set of hashtags in a text: lower case, sorted, each once, without ``#``.

    `cepkit.pipelines.stages.hashtags` finds exactly the same on Spark.
    """
    found = (_ascii_pattern() if text.isascii() else _unicode_pattern()).findall(text)
    return tuple(sorted({tag.lower() for tag in found}))


@cache
def _ascii_pattern() -> re.Pattern[str]:
    return re.compile(_HASHTAG.replace("W", r"\w"))


@cache
def _unicode_pattern() -> re.Pattern[str]:
    r"""Return the pattern with the word characters of Unicode, as on Spark.

    Python's own ``\w`` lacks the vowel signs of Indian scripts and includes fractions.

    """
    ranges, start = [], None
    for code in range(sys.maxunicode + 2):
        inside = code <= sys.maxunicode and unicodedata.category(chr(code)) in _WORD_CATEGORIES
        if inside and start is None:
            start = code
        elif not inside and start is not None:
            ranges.append(f"{re.escape(chr(start))}-{re.escape(chr(code - 1))}")
            start = None
    return re.compile(_HASHTAG.replace("W", "".join(ranges) + _OTHER_LETTERS))


def tag_sets(content: Iterable[str]) -> list[TagSet]:
    """Return the set of hashtags of each text."""
    return list(map(cache(hashtags), content))  # a stream repeats texts, and a look-up is ten times faster


def tag_code(sets: Sequence[TagSet]) -> np.ndarray:
    """Return one number per set of tags, from 1 in the order of sorted tags; the empty set is 0."""
    # `cepkit.pipelines.stages.tag_code` returns the same numbers on Spark.
    number = {tags: i for i, tags in enumerate(sorted({(), *sets}))}
    return np.array([number[tags] for tags in sets], np.int64)


def tag_mask(sets: Sequence[TagSet], *, key: Any = None) -> np.ndarray:
    """Return each set of tags as a bit mask; ``a & b == 0`` means that two sets (of one key) are disjoint."""
    keys = [None] * len(sets) if key is None else list(pd.Series(key).array)
    counts: dict[object, Counter[TagSet]] = {}
    for owner, tags in zip(keys, sets, strict=True):
        counts.setdefault(owner, Counter())[tags] += 1
    bits = {owner: _number_tags(of_set) for owner, of_set in counts.items()}
    for owner, bit_of_tag in bits.items():
        needed = len(set(bit_of_tag.values()) - {None})
        if needed > LARGEST_MASK:
            place = "" if key is None else f" of key {owner!r}"
            raise CepError(f"tag_mask: {needed:,} tags{place} do not fit a mask of {LARGEST_MASK} bits")
    masks = {
        owner: {tag: 0 if bit is None else 1 << bit for tag, bit in bit_of_tag.items()}
        for owner, bit_of_tag in bits.items()
    }
    values = [sum(masks[owner][tag] for tag in tags) for owner, tags in zip(keys, sets, strict=True)]
    return np.array(values, np.int64)


_BitOfTag = dict[str, int | None]  # None: another tag is in all sets of this tag


def _number_tags(count_of_set: Counter[TagSet]) -> _BitOfTag:
    count: Counter[str] = Counter()
    for tags, n in count_of_set.items():
        count.update(dict.fromkeys(tags, n))
    listed = sorted(count, key=lambda tag: (-count[tag], tag))
    if len(listed) <= LARGEST_MASK:
        return {tag: i for i, tag in enumerate(listed)}
    with_tag = dict.fromkeys(listed, 0)  # bit i: whether the i-th set has the tag
    for i, tags in enumerate(count_of_set):
        for tag in tags:
            with_tag[tag] |= 1 << i
    kept: list[str] = []
    # A tag that is in all sets of another tag is at least as frequent, so it has been seen before.
    for tag in listed:
        if not any(with_tag[tag] & ~with_tag[other] == 0 for other in kept):
            kept.append(tag)
    return dict.fromkeys(listed) | {tag: i for i, tag in enumerate(kept)}
