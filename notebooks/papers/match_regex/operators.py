"""The operators before the matching, on arrays in stream order: prices by volume, windows, hashtags."""

from __future__ import annotations

import re
import sys
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import timedelta
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from cepkit.errors import CepError, OrderError
from cepkit.language.expressions.durations import duration_ticks

# --- Group events by key; the module works on arrays and knows no frames.


class Grouped(NamedTuple):
    """Events sorted by partition, then in stream order."""

    event_of_row: np.ndarray  # int64, (n_events,): the event in each row
    first_row_of_partition: np.ndarray  # int64, (n_partitions + 1,)


def key_codes(key: Any) -> tuple[np.ndarray, int]:
    """Return a code from 0 for the key of each event, and the number of keys; null is a key, too."""
    codes, found = pd.factorize(pd.Series(key), use_na_sentinel=False)
    return codes, len(found)


def group_by_key(key: Any) -> Grouped:
    """Return the events grouped by key, keys in the order of their first event. O(n log n)."""
    codes, n_partitions = key_codes(key)
    first_row = np.zeros(n_partitions + 1, np.int64)
    np.cumsum(np.bincount(codes, minlength=n_partitions), out=first_row[1:])
    return Grouped(np.argsort(codes, kind="stable"), first_row)


# --- Minimum and maximum of tumbling windows per key, on arrays in stream order.


class Windows(NamedTuple):
    """Full windows in the order of their last event."""

    last_event: np.ndarray  # int64, (n_windows,)
    mn: np.ndarray  # type of the values, (n_windows,)
    mx: np.ndarray


def tumbling_minmax(key: Any, value: Any, k: int) -> Windows:
    """Return the minimum and maximum of every ``k`` consecutive events of a key.

    `cepkit.pipelines.stages.minmax` does the same on Spark.

    Source: Hirzel, "Partition and Compose: Parallel Complex Event Processing", DEBS 2012, section 5.1
    (finance4).
    """
    from papers.match_regex.rolling import tumble

    if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
        raise CepError(f"tumbling_minmax: k is {k!r}; expected a positive whole number")
    codes, n_partitions = key_codes(key)
    values = pd.Series(value)
    floats = values.hasnans or not pd.api.types.is_integer_dtype(values.dtype)
    values = values.to_numpy(np.float64, na_value=np.nan) if floats else values.to_numpy(np.int64)
    room = len(values) // int(k)
    last, (least, greatest) = np.empty(room, np.int64), np.empty((2, room), values.dtype)
    extremes = np.zeros((2, n_partitions), values.dtype)
    filled = np.zeros(n_partitions, np.int64)
    n = tumble(codes, values, int(k), filled, extremes, last, least, greatest)
    return Windows(last[:n], least[:n], greatest[:n])


# --- The volume-weighted average price of a sliding window per key, on arrays in stream order.


def rolling_vwap(
    key: Any, price: Any, size: Any, *, window: int | str | timedelta, ts: Any = None
) -> np.ndarray:
    """Return for each event the volume-weighted average price of its key's window that ends with it.

    The average is ``sum(price * size) / sum(size)``. Events without price or size are ignored.
    `cepkit.pipelines.stages.with_vwap` does the same on Spark.

    Source: Hirzel, "Partition and Compose: Parallel Complex Event Processing", DEBS 2012, section 5.1
    (finance3).
    Differs: the paper uses it in place of a query with overlapping matches and states no window.
    """
    from papers.match_regex.rolling import slide_by_count, slide_by_time

    by_time = isinstance(window, str | timedelta)
    if not by_time and (isinstance(window, bool) or not isinstance(window, int | np.integer) or window < 1):
        raise CepError(f"rolling_vwap: window is {window!r}; expected a positive whole number or a duration")
    if by_time and ts is None:
        raise CepError(f"rolling_vwap: the window {window!r} is a duration and needs a clock: give ts")
    groups = group_by_key(key)
    prices, sizes = (
        np.asarray(pd.Series(x).to_numpy(np.float64, na_value=np.nan))[groups.event_of_row]
        for x in (price, size)
    )
    counts = ~(np.isnan(prices) | np.isnan(sizes))
    weights = np.where(counts, sizes, 0.0)
    values = np.where(counts, prices, 0.0) * weights
    ratio = np.empty(len(values))
    if by_time:
        ticks, window_ticks = _clock(ts, window, groups)
        slide_by_time(groups.first_row_of_partition, ticks, values, weights, window_ticks, ratio)
    else:
        slide_by_count(groups.first_row_of_partition, values, weights, int(window), ratio)
    vwap = np.empty_like(ratio)
    vwap[groups.event_of_row] = ratio
    return vwap


def _clock(ts: Any, window: str | timedelta, groups: Grouped) -> tuple[np.ndarray, int]:
    """Return the times of the grouped rows and the window as ticks of the same unit."""
    times = pd.DatetimeIndex(pd.Series(ts).array)
    if times.hasnans:
        raise OrderError(
            f"rolling_vwap: ts has {int(times.isna().sum()):,} missing values; drop these events"
        )
    window_ticks = duration_ticks(window, times.unit)
    if window_ticks < 1:
        raise CepError(f"rolling_vwap: window is {window!r}; expected a positive duration")
    ticks = times.asi8[groups.event_of_row]
    falls = ticks[1:] < ticks[:-1]
    falls[groups.first_row_of_partition[1:-1] - 1] = False
    if falls.any():
        raise OrderError(
            f"rolling_vwap: ts falls within a key {int(falls.sum()):,} times; sort the events by ts"
        )
    return ticks, window_ticks


# --- Find the hashtags of texts and number their sets, by codes or bit masks, on sequences in stream order.


TagSet = tuple[str, ...]

LARGEST_MASK = 63  # bits 0 to 62: masks stay positive numbers

# The rules of Twitter: a number alone is no tag. A tag does not follow a letter or an ampersand (&#39; is an
# apostrophe), and does not run into another # or an address. W stands for the characters of words.
_HASHTAG = r"(?<![W&])#([W]*(?!\d)[W][W]*+)(?!#|://)"
_WORD_CATEGORIES = ("Lu", "Ll", "Lt", "Lm", "Lo", "Nl", "Mn", "Mc", "Me", "Nd", "Pc")
_OTHER_LETTERS = "\u200c\u200d\u24b6-\u24e9\U0001f130-\U0001f149\U0001f150-\U0001f169\U0001f170-\U0001f189"


def hashtags(text: str) -> TagSet:
    r"""Return the set of hashtags in a text: lower case, sorted, each once, without ``#``.

    `cepkit.pipelines.tags.hashtags` finds exactly the same on Spark.
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


def tag_sets(content: Iterable[str | None]) -> list[TagSet | None]:
    """Return the set of hashtags of each text, None for a missing text."""
    known = cache(hashtags)  # a stream repeats texts, and a look-up is ten times faster
    return [known(text) if isinstance(text, str) else None for text in content]


def tag_code(sets: Sequence[TagSet | None]) -> pd.arrays.IntegerArray:
    """Return one number per set of tags, equal for equal sets.

    Sets get numbers from 1, ordered by their sorted tags. The empty set is 0. Missing stays missing.

    `cepkit.pipelines.tags.tag_code` returns the same numbers on Spark.
    """
    different = sorted({tags for tags in sets if tags})
    number = {tags: i for i, tags in enumerate(different, start=1)} | {(): 0}
    return _numbers([None if tags is None else number[tags] for tags in sets])


def tag_mask(sets: Sequence[TagSet | None], *, key: Any = None) -> pd.arrays.IntegerArray:
    """Return each set of tags as a bit mask; ``a & b == 0`` means that two sets (of one key) are disjoint."""
    keys, bits = _bits_of_key(sets, key)
    for owner, bit_of_tag in bits.items():
        needed = len(set(bit_of_tag.values()) - {None})
        if needed > LARGEST_MASK:
            of = "" if key is None else f" of key {owner!r}"
            hint = "number the bits per partition with key=…, or " if key is None else ""
            raise CepError(
                f"tag_mask: {needed:,} tags{of} do not fit a mask of {LARGEST_MASK} bits; {hint}"
                "use tag_masks, which has several masks per set"
            )
    return _masks(keys, sets, bits, 0)


def tag_masks(sets: Sequence[TagSet | None], *, key: Any = None) -> list[pd.arrays.IntegerArray]:
    """Return sets of any number of tags as bit masks: one array for each 63 tags.

    Two sets (of one key) are disjoint when ``a & b == 0`` holds in every array. The parameters and the order
    of the bits are those of `tag_mask`.
    """
    keys, bits = _bits_of_key(sets, key)
    most = max((bit for of in bits.values() for bit in of.values() if bit is not None), default=0)
    return [_masks(keys, sets, bits, word) for word in range(1 + most // LARGEST_MASK)]


_BitOfTag = dict[str, int | None]  # None: another tag is in all sets of this tag


def _bits_of_key(sets: Sequence[TagSet | None], key: Any) -> tuple[list, dict[object, _BitOfTag]]:
    """Return the key of each set, and for each key the number of the bit of each tag."""
    keys = [None] * len(sets) if key is None else list(pd.Series(key).array)
    counts: dict[object, Counter[TagSet]] = {}
    for owner, tags in zip(keys, sets, strict=True):
        counts.setdefault(owner, Counter())[tags or ()] += 1
    return keys, {owner: _number_tags(of_set) for owner, of_set in counts.items()}


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


def _masks(
    keys: list, sets: Sequence[TagSet | None], bits: dict[object, _BitOfTag], word: int
) -> pd.arrays.IntegerArray:
    """Return the masks of the bits ``63 * word`` to ``63 * word + 62``."""
    first, values = LARGEST_MASK * word, {}
    for owner, bit_of_tag in bits.items():
        values[owner] = {
            tag: 1 << (bit - first)
            for tag, bit in bit_of_tag.items()
            if bit is not None and first <= bit < first + LARGEST_MASK
        }
    return _numbers(
        [
            None if tags is None else sum(values[owner].get(tag, 0) for tag in tags)
            for owner, tags in zip(keys, sets, strict=True)
        ]
    )


def _numbers(values: list[int | None]) -> pd.arrays.IntegerArray:
    missing = np.array([value is None for value in values], dtype=bool)
    return pd.arrays.IntegerArray(np.array([value or 0 for value in values], dtype=np.int64), missing)
