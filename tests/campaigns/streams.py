"""Many small streams as the partitions of one frame: one call of an engine answers all of them.

Column ``p`` has the number of the stream of a row, column ``n`` the place of the row in the frame.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from random import Random
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

Rows = list[dict[str, Any]]
Answer = tuple[tuple[str, ...], tuple[int, ...]]  # variables and rows of a match


@dataclass(frozen=True)
class Streams:
    """Rows of many streams, each in stream order, and a frame with all of them.

    The frame is sorted by time. ``in_blocks`` says whether each stream ends before the next one begins.
    """

    rows_of: Mapping[int, Rows]
    frame: pd.DataFrame
    stream_of_row: np.ndarray
    place_of_row: np.ndarray  # in its stream
    in_blocks: bool

    def split(self, match: Any, variable: Any, row: Any) -> dict[int, list[Answer]]:
        """Return the matches of each stream in their order, given one item per matched row of the frame."""
        match, rows = np.asarray(match), np.asarray(row, np.int64)
        names = np.asarray(variable, object)
        found: dict[int, list[Answer]] = {}
        if not len(match):
            return found
        starts = np.flatnonzero(np.diff(match, prepend=-1)).tolist()
        for begin, end in zip(starts, [*starts[1:], len(match)], strict=True):
            own = rows[begin:end]
            places = tuple(self.place_of_row[own].tolist())
            found.setdefault(int(self.stream_of_row[own[0]]), []).append((tuple(names[begin:end]), places))
        return found

    def n_divided(self, bounds: Sequence[tuple[int, int]]) -> int:
        """Return how many streams have rows in more than one batch."""
        batch = np.zeros(len(self.frame), np.int64)
        for number, (begin, end) in enumerate(bounds):
            batch[begin:end] = number
        ends = pd.Series(batch).groupby(self.stream_of_row).agg(["min", "max"])
        return int((ends["min"] != ends["max"]).sum())

    def shuffled(self) -> pa.Table:
        """Return the rows in another order, as an Arrow table."""
        order = np.random.default_rng(len(self.frame)).permutation(len(self.frame))
        return pa.Table.from_pandas(self.frame.iloc[order], preserve_index=False)

    @cached_property
    def n_rows(self) -> int:
        """The number of rows of all streams."""
        return len(self.frame)


def streams_of(
    rows_of: Mapping[int, Rows], dtypes: Mapping[str, str], source: Random, *, in_blocks: bool
) -> Streams:
    """Return streams with new times: they overlap, or each ends before the next begins.

    The time between rows of one stream stays as it is.
    """
    base = source.choice([0, 0, 0, 1000, 2**60])
    end = base
    for rows in rows_of.values():
        if not rows:
            continue
        begin = end + source.randint(0, 3) if in_blocks else base + source.randint(0, 25)
        shift = begin - rows[0]["t"]
        for row in rows:
            row["t"] += shift
        end = max(end, rows[-1]["t"] + 1)
    every = [
        (row["t"], number, place, row) for number, rows in rows_of.items() for place, row in enumerate(rows)
    ]
    every.sort(key=lambda item: item[0])  # stable
    columns: dict[str, Any] = {
        name: pd.Series([row[name] for *_, row in every], dtype=dtype) for name, dtype in dtypes.items()
    }
    stream = np.array([number for _, number, _, _ in every], np.int64)
    place = np.array([place for _, _, place, _ in every], np.int64)
    columns |= {"p": stream, "n": np.arange(len(every))}
    return Streams(rows_of, pd.DataFrame(columns), stream, place, in_blocks)
