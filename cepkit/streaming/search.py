"""The base class of the search in an open stream, for every kind of query, and the status of a stream."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import pyarrow as pa

from cepkit import limits
from cepkit.errors import CepError, UnsupportedQueryError, whole_number
from cepkit.language.expressions.durations import counted
from cepkit.language.query_parts import Duration
from cepkit.limits import size_text
from cepkit.results.found import paragraphs
from cepkit.streaming.saved import Saved
from cepkit.values import dataclass

Ready = tuple[pa.Table, np.ndarray]  # results of complete matches, and the number of rows per match


@dataclass(frozen=True)
class Options:
    """The options of a stream other than its query and schema; see `cepkit.stream`."""

    rows: str = "one"
    threads: int = 1
    pulse_every: int = 1000
    idle_after: Duration | None = None
    max_live: int | None = None
    memory_limit: limits.MemoryLimit = "auto"

    def __post_init__(self) -> None:
        if self.rows not in ("one", "all"):
            raise CepError(f"rows={self.rows!r}: write 'one' (a row per match) or 'all' (the matched rows)")
        limits.memory_limit_of(self.memory_limit)
        whole_number("threads", self.threads, 1, limits.THREADS)
        whole_number("pulse_every", self.pulse_every, 1)
        if self.max_live is not None:
            whole_number("max_live", self.max_live, 1)

    def refuse(self, what: str, *takes: str) -> None:
        """Raise for options that this kind of stream does not take; ``takes`` are those that it does."""
        value_of_option = {
            "threads": self.threads > 1, "idle_after": self.idle_after is not None,
            "max_live": self.max_live is not None, "rows='all'": self.rows == "all",
        }  # fmt: skip
        if refused := [name for name, value in value_of_option.items() if value and name not in takes]:
            raise UnsupportedQueryError(
                f"{refused}: {what} takes none of them. threads is for regex queries, and idle_after and "
                "max_live also for MATCH_RECOGNIZE. The window of other queries bounds their state"
            )

    def bound_memory(self) -> AbstractContextManager[None]:
        """Return the block in which a push obeys ``memory_limit``."""
        return limits.bound_memory(self.memory_limit, "Push fewer events at once, or narrow the query")


class Search(ABC):
    """The search of a query in events that arrive in batches, in stream order."""

    empty: pa.Table  # the result of no match, without the match number
    column_of_result: Mapping[str, str]  # columns of results that are columns of the stream
    takes_rows: bool = False  # whether `advance_row` reads events
    n_evicted: int = 0  # keys that were forgotten after a pause
    grows: str = ""  # what grows for ever, why, and what bounds it; empty if nothing does
    # Until when the user says that the data are complete, just before `finish`; None: the last time so far
    complete_until: Any = None

    @property
    @abstractmethod
    def n_keys(self) -> int:
        """Return the number of partition keys that the stream remembers."""

    @property
    def n_ended(self) -> int:
        """Return the number of partial matches that ended with a forgotten key."""
        return 0

    @property
    @abstractmethod
    def n_retained(self) -> int:
        """Return the number of rows kept for later matches."""

    @abstractmethod
    def advance(self, table: pa.Table, keys: pa.Table | None, n_before: int) -> Ready:
        """Read the next events, and return the complete matches."""
        # ``table`` has at least one event, in stream order; ``keys`` has the order columns, None without
        # ``order_by``; ``n_before`` is the number of earlier events.

    def advance_row(self, values: list, n_before: int) -> Ready | None:
        """Read the next event as plain values, see `RowValues`; None if the search needs a table."""
        return None

    def remember(self) -> Callable[[], None]:
        """Return what takes back all later changes; attributes get new values, and no value changes."""
        before = dict(vars(self))
        return lambda: vars(self).update(before)

    def release(self) -> Ready:
        """Return the matches that are complete and in order so far, without waiting."""
        return self.empty, np.empty(0, np.int64)

    def flush(self, n_events: int) -> Ready:
        """Wait until all events so far are searched, and return the complete matches."""
        return self.release()

    def pass_time(self, now: int) -> Ready:
        """Return the matches that are complete since no later event comes before ``now``, in ticks."""
        # It also forgets rows that no later match needs.
        return self.release()

    @property
    def wakes_at(self) -> int | None:
        """Return the earliest time for which `pass_time` has something to do, if only time passes."""
        return None

    def delay_of(self, column: str) -> int | None:
        """Return how far a later result can be before the time of the stream, in ticks of its clock."""
        # ``column`` is the column of the results that has their times. None: nothing is known about it.
        return None

    @property
    def n_live(self) -> int | None:
        """Return the number of live partial matches; None for a search that keeps events instead."""
        return None

    @property
    def oldest(self) -> int | None:
        """Return the position of the oldest event that a later match may need; None if it is not known."""
        return None

    @abstractmethod
    def finish(self, n_events: int) -> Ready:
        """Return the remaining matches of the events so far, which are complete until ``complete_until``."""

    def stop(self) -> None:  # noqa: B027 - a search without threads has nothing to end
        """End the threads, if any."""

    @abstractmethod
    def pack(self, n_events: int) -> Saved:
        """Return the content of the search for a file."""

    @abstractmethod
    def unpack(self, saved: Saved) -> None:
        """Restore what `pack` returned; the search was opened with the same query and options."""


@dataclass(frozen=True, repr=False)
class StreamStatus:
    """What a stream holds and has done, from `Stream.status`. It does not change later."""

    events: int  # read so far
    matches: int  # returned so far
    keys: int  # partition keys that the stream remembers
    # Live partial matches; of MATCH_RECOGNIZE, rows that may begin a match. None: the stream keeps events.
    live: int | None
    rows: int  # kept for later matches
    state_bytes: int  # of the state as `save` writes it, before compression
    newest: Any = None  # the time of the newest event; of a join, the time that both sides have reached
    lag: int | None = None  # events since the oldest one that a later match may need; None if it is not known
    late: int = 0  # rows that came too late for the buffer before the stream
    forgotten: int = 0  # keys that paused for longer than ``idle_after``
    ended: int = 0  # partial matches that ended with these keys
    shed: int = 0  # events that were dropped for the latency bound
    grows: str = ""  # what grows for ever, why, and what bounds it; empty if nothing does

    def __repr__(self) -> str:
        live = [] if self.live is None else [counted(self.live, "partial match")]
        held = [counted(self.keys, "key"), *live, f"{counted(self.rows, 'row')} kept"]
        lost = {
            f"{counted(self.late, 'late row')} dropped": self.late,
            f"{counted(self.forgotten, 'idle key')} forgotten with "
            f"{counted(self.ended, 'partial match')}": self.forgotten,
            f"{counted(self.shed, 'event')} shed": self.shed,
        }
        lag = "" if self.lag is None else f"the oldest open event is {counted(self.lag, 'event')} back"
        newest = "" if self.newest is None else f"newest event at {self.newest}"
        lines = [
            f"{counted(self.events, 'event')}, {counted(self.matches, 'match')}",
            f"holds {', '.join(held)}, {size_text(self.state_bytes)}",
            "; ".join(part for part in (newest, lag) if part),
            ", ".join(text for text, n in lost.items() if n),
            self.grows and f"grows: {self.grows}",
        ]
        return "\n".join(line for line in lines if line)

    def _repr_html_(self) -> str:
        return paragraphs(repr(self))
