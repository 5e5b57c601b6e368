"""Generated data: trades, bars, ticks, cards, tweets, traffic, buses, a home, a soccer match.

The sample files come with cepkit; all of their content is generated. Tables, for :func:`load_sample`:

``trades`` (``trades.parquet``)
    ``trades(20_000, n_symbols=40, seed=7, rate_hz=4.8)``: 69 minutes of 40 symbols.
``tweets`` (``tweets.parquet``)
    ``tweets(1_000, n_authors=614, seed=7, repetitions=6, **PAPER_TWEETS)``: 6,000 tweets of 614 authors.
``peaks`` (``peaks.csv``)
    ``peaks()``: 60 prices of two symbols with three visible M shapes.

Texts in original formats, for ``cepkit ingest``; each has a few bad records on purpose:

``inet`` (``inet_MSFT.txt``)
    ``inet_lines(400, symbol="MSFT", seed=7)`` with five faults: a repeated line, a price that is not a
    number, a truncated line, a time that does not exist, an empty line.
``eoddata`` (``eoddata_minute.txt``)
    ``eoddata_lines(60, seed=7)`` with five faults: a repeated line, a negative volume, a month 13, a missing
    field, a price that is not a number.
``nasdaq100`` (``nasdaq100_minute_close.csv``)
    ``nasdaq100_lines(120, seed=7)`` with three faults: a missing price, a price that is not a number, a row
    that is too short.
``atom`` (``tweets_atom.xml``)
    ``tweets_as_atom_xml(tweets(48, n_authors=30, seed=7))`` as one feed, one entry per line, with three
    faults: a repeated entry, one without an author, one published on 31 November. The feed is valid XML.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from cepkit.cache import shipped
from cepkit.datasets.bars import BarParameters, minute_bars, stock_bars
from cepkit.datasets.city import bus_positions, traffic
from cepkit.datasets.constant_rate import abc_stream, card_transactions, poisson_types, stock_ticks
from cepkit.datasets.smart_home import HomeParameters, smart_home, window_attributes
from cepkit.datasets.soccer import soccer_sensors
from cepkit.datasets.trades import PAPER_TRADES, trades
from cepkit.datasets.tweets import PAPER_TWEETS, tweets, tweets_as_atom_xml
from cepkit.errors import CepError, nearest

__all__ = [
    "PAPER_TRADES", "PAPER_TWEETS", "BarParameters", "HomeParameters", "SampleNotFoundError",
    "abc_stream", "bus_positions", "card_transactions", "load_sample", "minute_bars", "poisson_types",
    "sample", "sample_names", "smart_home", "soccer_sensors", "stock_bars", "stock_ticks", "trades",
    "traffic", "tweets", "tweets_as_atom_xml", "window_attributes",
]  # fmt: skip


_TABLES = {"trades": "trades.parquet", "tweets": "tweets.parquet", "peaks": "peaks.csv"}
_TEXTS = {
    "inet": "inet_MSFT.txt", "eoddata": "eoddata_minute.txt",
    "nasdaq100": "nasdaq100_minute_close.csv", "atom": "tweets_atom.xml",
}  # fmt: skip


class SampleNotFoundError(CepError, KeyError):
    """No bundled sample has this name, or the sample is not a table."""


def sample(name: str) -> Path:
    """Return the path of a bundled file.

    Parameters
    ----------
    name : str
        One of :func:`sample_names`.

    Returns
    -------
    pathlib.Path
        An existing file.

    Raises
    ------
    SampleNotFoundError
        If no such sample exists; the message lists the available ones.

    Examples
    --------
    >>> sample("trades").name
    'trades.parquet'
    """
    files = _TABLES | _TEXTS
    if name not in files:
        raise SampleNotFoundError(
            f"sample {name!r} not found.{nearest(str(name), files)} Samples: {sample_names()}"
        )
    return shipped("sample_data", files[name])


def sample_names() -> list[str]:
    """Return the names of the bundled files, tables first.

    Examples
    --------
    >>> sample_names()
    ['trades', 'tweets', 'peaks', 'inet', 'eoddata', 'nasdaq100', 'atom']
    """
    return [*_TABLES, *_TEXTS]


def load_sample(name: str) -> pd.DataFrame:
    """Return a bundled table.

    Parameters
    ----------
    name : str
        ``"trades"``, ``"tweets"`` or ``"peaks"``.

    Returns
    -------
    pandas.DataFrame
        Sorted by time. ``ts`` is datetime64[us]; ``symbol`` and ``author`` are categorical; for the
        other columns see :func:`cepkit.datasets.trades` and :func:`cepkit.datasets.tweets`.

    Raises
    ------
    SampleNotFoundError
        If no such table exists. For raw text the message says how to read it.

    Examples
    --------
    >>> load_sample("peaks").head(3)
                       ts symbol  price
    0 2012-01-03 09:30:00   ACME    100
    1 2012-01-03 09:30:01   BOLT     50
    2 2012-01-03 09:30:02   ACME    103
    """
    if name in _TEXTS:
        raise SampleNotFoundError(
            f"sample {name!r} is raw text, not a table. `cepkit ingest` reads the file sample({name!r}); "
            f"tables: {list(_TABLES)}"
        )
    path = sample(name)
    if path.suffix == ".parquet":
        return pd.read_parquet(path)
    frame = pd.read_csv(path, dtype={"symbol": "category"}, parse_dates=["ts"])
    return frame.astype({"ts": "datetime64[us]"})
