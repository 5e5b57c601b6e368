"""Compare strategies, windows and operators on small streams, and count matches in growing windows."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd


def letters(text: str, **columns: Iterable[Any]) -> pd.DataFrame:
    """Return a stream with one event per letter of ``text`` and per tick.

    Parameters
    ----------
    text : str
        Event types; blanks are ignored.
    **columns : iterable
        Further columns, one value per letter.

    Returns
    -------
    pandas.DataFrame
        ``ts`` (int64, from 1), ``type``, and ``columns``. The index has names such as ``b2``, the second b.

    Examples
    --------
    >>> letters("abb").index.tolist()
    ['a1', 'b1', 'b2']
    """
    types = pd.Series(list(text.replace(" ", "")))
    names = types + (types.groupby(types).cumcount() + 1).astype(str)
    frame = pd.DataFrame(
        {"ts": np.arange(1, len(types) + 1), "type": types, **{n: list(v) for n, v in columns.items()}}
    )
    return frame.set_axis(names.tolist())


def found(frame: pd.DataFrame, text: str, **keywords: Any) -> Any:
    """Return the matches of SASE text in a stream made by `letters`."""
    return frame.cep.match(text, event_type="type", order_by="ts", **keywords)


def as_text(matches: Any) -> str:
    """Return the matches as the names of their events, as in ``a1 b1 c1, a1 b2 c1``."""
    labels = matches.lineage().groupby("match")["index"].agg(" ".join)
    return ", ".join(labels) or "none"


def compare(
    frame: pd.DataFrame, text: str, variants: Mapping[str, Mapping[str, Any]], **keywords: Any
) -> pd.DataFrame:
    """Return the matches of each variant of a query.

    Parameters
    ----------
    frame : pandas.DataFrame
        Result of `letters`.
    text : str
        SASE text.
    variants : mapping of str to mapping
        Keywords of ``match`` by the name of the variant. A ``text`` among them replaces ``text``.

    Returns
    -------
    pandas.DataFrame
        By variant: ``count`` and ``matches`` as text.
    """
    rows = {
        name: {"count": matches.count(), "matches": as_text(matches)}
        for name, matches in _find_variants(frame, text, variants, keywords)
    }
    return pd.DataFrame.from_dict(rows, orient="index")


def lineages(
    frame: pd.DataFrame, text: str, variants: Mapping[str, Mapping[str, Any]], **keywords: Any
) -> dict[str, pd.DataFrame]:
    """Return the lineage of each variant of a query; parameters as in `compare`."""
    return {name: matches.lineage() for name, matches in _find_variants(frame, text, variants, keywords)}


def _find_variants(
    frame: pd.DataFrame, text: str, variants: Mapping[str, Mapping[str, Any]], keywords: Mapping[str, Any]
) -> Iterator[tuple[str, Any]]:
    for name, own in variants.items():
        yield name, found(frame, **{"text": text, **own}, **keywords)


def price_stream(n_events: int, seed: int = 7, types: str = "abc") -> pd.DataFrame:
    """Return a stream of uniformly random types and prices: ``ts``, ``type``, ``price`` in [0, 100)."""
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "ts": np.arange(n_events),
            "type": pd.Categorical.from_codes(rng.integers(0, len(types), n_events), list(types)),
            "price": rng.uniform(0, 100, n_events),
        }
    )


def explosion(frame: pd.DataFrame, text: str, windows: Iterable[int]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the number of matches for each window, and the time to count and to sample them.

    Parameters
    ----------
    frame : pandas.DataFrame
        Result of `price_stream`.
    text : str
        SASE text without a window.
    windows : iterable of int
        Windows in ticks.

    Returns
    -------
    matches, times : pandas.DataFrame
        By window: ``matches`` (Python integers); ``count_ms`` and ``sample_ms`` (for 1,000 matches).
    """
    counts, times = {}, {}
    for window in windows:
        begin = time.perf_counter()
        matches = found(frame, f"{text} WITHIN {window}")
        counts[window] = {"matches": matches.count()}
        counted = time.perf_counter()
        matches.sample(1000)
        sampled = time.perf_counter()
        times[window] = {"count_ms": 1e3 * (counted - begin), "sample_ms": 1e3 * (sampled - counted)}
    return (
        pd.DataFrame.from_dict(counts, orient="index", dtype=object).rename_axis("window"),
        pd.DataFrame.from_dict(times, orient="index").round(1).rename_axis("window"),
    )
