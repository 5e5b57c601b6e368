"""The keys of a frame: their names, their order, and a search among them."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from cepkit.events import Events, Source
from cepkit.insight.value_text import cell
from cepkit.widgets.base import counted

KEYS_PER_PAGE = 12
BY_NAME, MOST, FEWEST = "name", "most", "fewest"


class Keys:
    """The keys of a frame that have events, sorted by their values.

    The number of a key is its partition in `Events`.
    """

    def __init__(self, source: Source, events: Events, by: tuple[str, ...]):
        self.by, self._source = by, source
        position = np.full(events.n_partitions, -1, np.int64)
        # The first event of a key is written last.
        position[events.partition_of_event[::-1]] = np.arange(events.n_events - 1, -1, -1)
        own = np.flatnonzero(position >= 0)
        self._row_of_partition = np.full(events.n_partitions, -1, np.int64)
        self._row_of_partition[own] = events.rows(position[own])
        self._own = own

    def __len__(self) -> int:
        return len(self._own)

    @cached_property
    def partitions(self) -> np.ndarray:
        """The numbers of the keys, sorted by the values of the keys; nulls come last."""
        rows = self._row_of_partition[self._own]
        frame = pd.DataFrame(
            {i: self._source.arrow(name, rows).to_pandas() for i, name in enumerate(self.by)}
        )
        try:
            order = frame.sort_values(list(frame.columns), kind="stable").index
        except TypeError:  # values without an order
            order = frame.astype(str).sort_values(list(frame.columns), kind="stable").index
        return self._own[order.to_numpy()]

    @cached_property
    def _place_of_partition(self) -> np.ndarray:
        place = np.full(len(self._row_of_partition), -1, np.int64)
        place[self.partitions] = np.arange(len(self))
        return place

    @cached_property
    def names(self) -> list[str]:
        """The values of every key in the order of `partitions`, as text."""
        rows = self._row_of_partition[self.partitions]
        columns = [
            [cell(one) or "null" for one in self._source.arrow(name, rows).to_pylist()] for name in self.by
        ]
        return [", ".join(values) for values in zip(*columns, strict=True)]

    @cached_property
    def _folded(self) -> list[str]:
        return [name.casefold() for name in self.names]

    def text_of(self, partition: int) -> str:
        """Return a key in words, such as ``symbol = AAA``."""
        row = self._row_of_partition[[partition]]
        values = (cell(self._source.arrow(name, row).to_pylist()[0]) or "null" for name in self.by)
        return ", ".join(f"{name} = {value}" for name, value in zip(self.by, values, strict=True))

    def describe(self, partition: int, counts: np.ndarray | None = None) -> dict[str, Any]:
        """Return the trait of the shown key; ``counts`` has the number of matches of every partition."""
        return {
            "text": self.text_of(partition), "place": int(self._place_of_partition[partition]) + 1,
            "n": len(self), "matches": "" if counts is None else counted(int(counts[partition]), "match"),
        }  # fmt: skip

    def name_of(self, partition: int) -> str:
        """Return the values of a key as text, as in `names`."""
        row = self._row_of_partition[[partition]]
        return ", ".join(cell(self._source.arrow(name, row).to_pylist()[0]) or "null" for name in self.by)

    def neighbour(self, partition: int | None, step: int) -> int:
        """Return the key before (-1) or after (1) a key; the last key comes before the first one."""
        place = 0 if partition is None else int(self._place_of_partition[partition])
        return int(self.partitions[(place + step) % len(self)])

    def partition_of(self, name: str) -> int | None:
        """Return the number of a key by its values as text, or None."""
        found = self._place_of_name.get(name)
        return None if found is None else int(self.partitions[found])

    @cached_property
    def _place_of_name(self) -> dict[str, int]:
        return {name: place for place, name in reversed(list(enumerate(self.names)))}

    def find(
        self, search: str, order: str, page: int, shown: int | None, counts: np.ndarray | None = None
    ) -> dict[str, Any]:
        """Return the trait of a page of the keys that contain a text."""
        text = search.strip().casefold()
        places = np.arange(len(self))
        if text:
            places = np.array([i for i, name in enumerate(self._folded) if text in name], np.int64)
        if counts is not None and order in (MOST, FEWEST):
            own = counts[self.partitions[places]]
            places = places[np.argsort(own if order == FEWEST else -own, kind="stable")]
        n_pages = max(1, -(-len(places) // KEYS_PER_PAGE))
        page = min(max(page, 1), n_pages)
        partitions = self.partitions[places[(page - 1) * KEYS_PER_PAGE : page * KEYS_PER_PAGE]].tolist()
        here = places[(page - 1) * KEYS_PER_PAGE : page * KEYS_PER_PAGE].tolist()
        rows = [
            {
                "id": partition, "text": self.names[place],
                "matches": "" if counts is None else f"{int(counts[partition]):,}",
            }
            for partition, place in zip(partitions, here, strict=True)
        ]  # fmt: skip
        return {
            "search": search, "order": order, "page": page, "n_pages": n_pages, "rows": rows, "shown": shown,
            "told": _told(len(places), len(self), bool(text), counts),
        }  # fmt: skip


def _told(n: int, n_keys: int, is_search: bool, counts: np.ndarray | None) -> str:
    """Return the number of keys in words."""
    noun = "key" if n_keys == 1 else "keys"
    if is_search:
        return f"{n:,} of {n_keys:,} {noun}" if n else f"none of {n_keys:,} {noun} contains this text"
    if counts is None:
        return f"{n_keys:,} {noun}"
    n_with = int((counts > 0).sum())
    return f"{n_keys:,} {noun}, {n_with:,} with matches, {n_keys - n_with:,} without"


def count_by_partition(partition_of_end: np.ndarray, counts: Any, n_partitions: int) -> np.ndarray:
    """Return the number of matches of every partition, as int64 or as Python's integers."""
    if counts is None:
        return np.bincount(partition_of_end, minlength=n_partitions)
    total = np.zeros(n_partitions, object if isinstance(counts, list) else np.int64)
    np.add.at(total, partition_of_end, np.asarray(counts, total.dtype))
    return total
