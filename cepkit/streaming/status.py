"""`StreamStatus`: what a stream holds and has done, as one value."""

from __future__ import annotations

from typing import Any

from cepkit.language.expressions.durations import counted
from cepkit.limits import size_text
from cepkit.results.found import paragraphs
from cepkit.values import dataclass


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
