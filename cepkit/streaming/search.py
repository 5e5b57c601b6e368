"""The search that an open stream asks for matches: one protocol for every kind of query."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from cepkit.errors import CepError, whole_number
from cepkit.language.query_parts import Duration
from cepkit.streaming.saved import Saved

Ready = tuple[pa.Table, np.ndarray]  # results of complete matches, and the number of rows of each match


@dataclass(frozen=True)
class Options:
    """What the user says of a stream beside its query and schema; see `cepkit.stream`."""

    rows: str = "one"
    threads: int = 1
    pulse_every: int = 1000
    idle_after: Duration | None = None
    max_live: int | None = None

    def __post_init__(self) -> None:
        if self.rows not in ("one", "all"):
            raise CepError(f"rows={self.rows!r}: write 'one' (a row per match) or 'all' (the matched rows)")
        whole_number("threads", self.threads, 1)
        whole_number("pulse_every", self.pulse_every, 1)
        if self.max_live is not None:
            whole_number("max_live", self.max_live, 1)


class Search(Protocol):
    """The search for the matches of a query in events that come batch by batch, in stream order."""

    @property
    def empty(self) -> pa.Table:
        """Return results of no match, without their number."""
        ...

    @property
    def column_of_result(self) -> Mapping[str, str]:
        """Return the columns of results that are columns of the stream."""
        ...

    @property
    def n_keys(self) -> int:
        """Return how many partition keys are remembered."""
        ...

    @property
    def n_evicted(self) -> int:
        """Return how many keys were forgotten after a pause."""
        ...

    @property
    def n_ended(self) -> int:
        """Return how many partial matches ended with a forgotten key."""
        ...

    @property
    def n_retained(self) -> int:
        """Return how many rows are kept for later matches."""
        ...

    def advance(self, table: pa.Table, keys: pa.Table | None, n_before: int) -> Ready:
        """Take the next events, and return the matches that are complete.

        Parameters
        ----------
        table : pyarrow.Table
            The events in stream order, at least one.
        keys : pyarrow.Table, optional
            Their order columns; None without ``order_by``.
        n_before : int
            How many events were taken before.
        """
        ...

    def released(self) -> Ready:
        """Return the matches that are complete and in order by now, without waiting."""
        ...

    def flushed(self, n_events: int) -> Ready:
        """Wait until the events taken are searched, and return the matches that are complete."""
        ...

    def finished(self, n_events: int) -> Ready:
        """Return all matches that are left, when no event follows."""
        ...

    def stop(self) -> None:
        """End the threads, if any."""
        ...

    def packed(self, n_events: int) -> Saved:
        """Return what a file holds of the search."""
        ...

    def unpack(self, saved: Saved) -> None:
        """Take over what `packed` returned; the search was opened with the same query and options."""
        ...
