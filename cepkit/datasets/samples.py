"""The sample files that come with cepkit, and how each was made; all of their content is generated.

Tables, for :func:`load_sample`:

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

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from cepkit._shipped import shipped
from cepkit.datasets.raw import eoddata_lines, inet_lines, nasdaq100_lines
from cepkit.datasets.trades import trades
from cepkit.datasets.tweets import PAPER_TWEETS, tweets, tweets_as_atom_xml
from cepkit.errors import CepError, nearest


class SampleNotFoundError(CepError, KeyError):
    """No bundled sample has this name, or the sample is not a table."""


@dataclass(frozen=True, slots=True)
class _Sample:
    """A file of ``sample_data/`` and the function that creates its content, a table or lines of text."""

    file: str
    make: Callable[[], pd.DataFrame | list[str]]


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
    return shipped("sample_data", _find(name).file)


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


def write_samples(folder: str | Path) -> list[Path]:
    """Write all bundled files into ``folder``, which must exist, and return their paths.

    Texts are identical byte for byte, Parquet files only in their values: bytes depend on pyarrow's version.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [path.name for path in write_samples(folder)][:3]
    ['trades.parquet', 'tweets.parquet', 'peaks.csv']
    """
    return [_write(Path(folder) / entry.file, entry.make()) for entry in (_TABLES | _TEXTS).values()]


def peaks() -> pd.DataFrame:
    """Return 60 prices of two alternating symbols: two M shapes in ACME, one M and a climb in BOLT.

    An M rises, drops, rises and drops below its first price. In the climb, the last drop stays above it.
    """
    turns = {
        "ACME": (
            [0, 4, 7, 11, 14, 15, 16, 19, 22, 26, 28, 29],
            [100, 112, 104, 115, 105, 96, 100, 110, 101, 108, 102, 92],
        ),
        "BOLT": ([0, 3, 6, 9, 12, 13, 20, 23, 29], [50, 58, 52, 60, 51, 45, 62, 55, 70]),
    }
    step = np.arange(30)
    price = np.column_stack([np.rint(np.interp(step, at, to)) for at, to in turns.values()])
    return pd.DataFrame(
        {
            "ts": np.datetime64("2012-01-03T09:30:00", "us") + np.arange(60).astype("timedelta64[s]"),
            "symbol": pd.Categorical(list(turns) * 30),
            "price": price.ravel().astype(np.int64),
        }
    )


def _inet() -> list[str]:
    lines = inet_lines(400, symbol="MSFT", seed=7)
    symbol, number, size, price, time, side = lines[60].split()
    return _with_faults(
        lines,
        {
            20: lines[20],
            60: f"{symbol} {int(number) - 1} {size} n/a {time} {side}",
            150: f"{symbol} {size} {price}",
            240: f"{symbol} 17 {size} {price} 25:61:00.7 {side}",
            300: "",
        },
    )


def _eoddata() -> list[str]:
    lines = eoddata_lines(60, seed=7)
    return _with_faults(
        lines,
        {
            30: lines[30],
            90: "MSFT,200802010945,32.6,32.62,32.58,32.6,-400",
            150: "MSFT,200813010950,32.6,32.62,32.58,32.6,400",
            210: "MSFT,200802011000,32.6,32.62,32.58,400",
            270: "MSFT,200802011005,32.6,32.62,?,32.6,400",
        },
    )


def _nasdaq100() -> list[str]:
    lines = nasdaq100_lines(120, seed=7)
    cells = [line.split(",") for line in lines]
    cells[40][2] = ""
    cells[80][5] = "n/a"
    cells[100].pop()
    return [",".join(row) for row in cells]


def _atom() -> list[str]:
    entries = tweets_as_atom_xml(tweets(48, n_authors=30, seed=7))
    faults = {
        10: entries[10],
        20: entries[20].replace("<id>21<", "<id>1021<").split("<author>")[0] + "</entry>",
        30: entries[30]
        .replace("<id>31<", "<id>1031<")
        .replace("<published>2011-11-01T", "<published>2011-11-31T"),
    }
    head = ['<?xml version="1.0" encoding="UTF-8"?>', '<feed xmlns="http://www.w3.org/2005/Atom">']
    return [*head, *_with_faults(entries, faults), "</feed>"]


def _with_faults(lines: Iterable[str], faults: dict[int, str]) -> list[str]:
    """Return the lines with each bad line inserted after the line with its number, counted from 0."""
    return [text for i, line in enumerate(lines) for text in ([line, faults[i]] if i in faults else [line])]


def _write(path: Path, content: pd.DataFrame | list[str]) -> Path:
    if isinstance(content, list):
        path.write_text("".join(f"{line}\n" for line in content), encoding="utf-8", newline="\n")
    elif path.suffix == ".parquet":
        content.to_parquet(path, engine="pyarrow", compression="zstd", index=False)
    else:
        content.to_csv(path, index=False, lineterminator="\n")
    return path


def _find(name: str) -> _Sample:
    samples = _TABLES | _TEXTS
    if name not in samples:
        raise SampleNotFoundError(
            f"sample {name!r} not found.{nearest(str(name), samples)} Samples: {sample_names()}"
        )
    return samples[name]


_TABLES = {
    "trades": _Sample("trades.parquet", lambda: trades(20_000, n_symbols=40, seed=7, rate_hz=4.8)),
    "tweets": _Sample(
        "tweets.parquet", lambda: tweets(1_000, n_authors=614, seed=7, repetitions=6, **PAPER_TWEETS)
    ),
    "peaks": _Sample("peaks.csv", peaks),
}
_TEXTS = {
    "inet": _Sample("inet_MSFT.txt", _inet),
    "eoddata": _Sample("eoddata_minute.txt", _eoddata),
    "nasdaq100": _Sample("nasdaq100_minute_close.csv", _nasdaq100),
    "atom": _Sample("tweets_atom.xml", _atom),
}
