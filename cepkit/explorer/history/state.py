"""What a user chose in the explorer, as one value, and the steps back and forth between such values."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

BURST_S = 1.0  # changes of one kind that follow sooner are one step
MOST_STEPS = 500


@dataclass(frozen=True, slots=True)
class BoardState:
    """Everything that a user chose."""

    text: str  # the text of the query
    # Keywords of `cepkit.match`: key columns, clock, event type, strategy, measures, parameters.
    call: Mapping[str, Any] = field(default_factory=dict)
    drawn: str | None = None  # the column of the timeline; None if the query determines it
    # The key columns and the shown key as text; None if the matches determine it.
    key: tuple[tuple[str, ...], str] | None = None
    # The match whose selection changed the key, or that was selected before; None in all other states.
    match: int | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """A state, and the change that led to it."""

    state: BoardState
    label: str = ""  # the change in words, such as ``"text"``
    number: int = 0  # different for every step


class History:
    """The states of a board, the current one among them. Threads may call it."""

    def __init__(self, state: BoardState, now_s: Callable[[], float] = time.monotonic):
        self._steps, self._place, self._n = [Step(state)], 0, 0
        self._burst: Hashable = None  # of the newest change; None if the next change is a new step
        self._changed_s, self._now_s = 0.0, now_s
        self._lock = threading.Lock()

    @property
    def now(self) -> Step:
        """The current step."""
        return self._steps[self._place]

    @property
    def undo_label(self) -> str:
        """The change that `undo` would take back; empty if there is none."""
        return self.now.label if self._place else ""

    @property
    def redo_label(self) -> str:
        """The change that `redo` would make again; empty if there is none."""
        after = self._steps[self._place + 1 : self._place + 2]
        return after[0].label if after else ""

    def record(self, state: BoardState, label: str, burst: Hashable = None, *, is_held: bool = False) -> None:
        """Add a state as a new step, or as a part of the current step."""
        with self._lock:
            now_s = self._now_s()
            if state == self.now.state:
                return
            is_soon = is_held or now_s - self._changed_s < BURST_S
            is_same = burst is not None and burst == self._burst and is_soon
            del self._steps[self._place + 1 :]
            if not is_same:
                self._n += 1
                self._steps.append(Step(state, label, self._n))
            elif self._place and state == self._steps[-2].state:  # back where the burst began
                del self._steps[-1]
                burst = None
            else:
                self._steps[-1] = replace(self.now, state=state)
            del self._steps[: -MOST_STEPS - 1]
            self._place, self._burst, self._changed_s = len(self._steps) - 1, burst, now_s

    def amend(self, state: BoardState) -> None:
        """Replace the current state; this is no step."""
        with self._lock:
            self._steps[self._place] = replace(self.now, state=state)

    def undo(self) -> BoardState | None:
        """Go one step back and return the state; None if there is none."""
        return self._go(-1)

    def redo(self) -> BoardState | None:
        """Go one step forward and return the state; None if there is none."""
        return self._go(1)

    def _go(self, distance: int) -> BoardState | None:
        with self._lock:
            if not 0 <= self._place + distance < len(self._steps):
                return None
            self._place, self._burst = self._place + distance, None
            return self.now.state
