"""The queries that ran to the end in an explorer, with the numbers of their matches."""

from __future__ import annotations

import datetime
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pandas as pd

from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.printing import print_expression
from cepkit.language.numbers import seconds_text
from cepkit.widgets.base import counted

MOST_RUNS = 50
_WORDS = {
    "partition_by": "by", "order_by": "ordered by", "event_type": "types in", "strategy": "strategy",
    "measures": "measures", "params": "with",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class PastRun:
    """A query that ran to the end."""

    number: int  # its place in time, from 1
    text: str
    call: Mapping[str, Any] = field(default_factory=dict)  # keywords of `cepkit.match`
    n_matches: int = 0
    seconds: float = 0.0  # how long it took
    at: datetime.datetime = datetime.datetime.min  # when it ended

    def trait(self) -> dict[str, Any]:
        """Return the run for the widget."""
        return {
            "number": self.number, "text": self.text, "note": choices_text(self.call),
            "matches": counted(self.n_matches, "match"), "took": seconds_text(self.seconds),
            "at": f"{self.at:%H:%M:%S}",
        }  # fmt: skip


def choices_text(call: Mapping[str, Any]) -> str:
    """Return keywords of a call in a few words."""
    said = ((_WORDS.get(name, name), value) for name, value in call.items() if value not in (None, [], {}))
    return "; ".join(f"{word} {_value_text(value)}" for word, value in said)


def _value_text(value: Any) -> str:
    if isinstance(value, ex.Expression):
        return print_expression(value)
    if isinstance(value, Mapping):
        return ", ".join(f"{name} = {_value_text(one)}" for name, one in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return getattr(value, "__name__", None) or str(value)


class QueryLog:
    """The runs of an explorer, the newest first. Threads may call it.

    A run of the same undo step replaces the run before it: a dragged slider leaves one entry. A query that
    runs again moves to the front.
    """

    def __init__(self) -> None:
        self.runs: tuple[PastRun, ...] = ()
        self._step: int | None = None  # the undo step of the newest run
        self._n = 0
        self._lock = threading.Lock()

    def add(self, step: int, text: str, call: Mapping[str, Any], n_matches: int, seconds: float) -> None:
        """Add a run that ended now; ``step`` is the number of its undo step."""
        with self._lock:
            kept = self.runs[1:] if step == self._step else self.runs
            kept = tuple(run for run in kept if (run.text, run.call) != (text, call))
            self._n += 1
            made = PastRun(self._n, text, dict(call), n_matches, seconds, datetime.datetime.now())
            self.runs, self._step = (made, *kept)[:MOST_RUNS], step

    def add_older(self, runs: Iterable[PastRun]) -> None:
        """Add runs of an earlier session after those of this one."""
        with self._lock:
            new = [(run.text, run.call) for run in self.runs]
            older = [run for run in runs if (run.text, run.call) not in new]
            first = len(older) + len(self.runs)
            every = [*self.runs, *older][:MOST_RUNS]
            self.runs = tuple(replace(run, number=first - place) for place, run in enumerate(every))
            self._n = first

    def find(self, number: int) -> PastRun | None:
        """Return a run by its number, or None."""
        return next((run for run in self.runs if run.number == number), None)

    def to_frame(self) -> pd.DataFrame:
        """Return the runs as a frame with their numbers as index, the newest first."""
        columns = {
            "query": [run.text for run in self.runs],
            "choices": [choices_text(run.call) for run in self.runs],
            "matches": [run.n_matches for run in self.runs],
            "seconds": [round(run.seconds, 4) for run in self.runs],
            "at": pd.to_datetime([run.at for run in self.runs]).floor("s"),
        }
        return pd.DataFrame(columns, index=pd.Index([run.number for run in self.runs], name="run"))
