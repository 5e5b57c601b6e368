"""What a board shows now, and the kinds of jobs that change it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cepkit.errors import CepError
from cepkit.explorer.board import Board
from cepkit.explorer.running.data import SearchedFrame
from cepkit.explorer.running.result import Chosen, Result
from cepkit.explorer.running.worker import Worker
from cepkit.results.matches import Matches, SparkMatches

# Jobs of the thread, the most urgent first. The last five give way to the others; the last three begin late.
KINDS = (
    "run",
    "select",
    "page",
    "window",
    "keys",
    "mark",
    "reasons",
    "cases",
    "count",
    "step",
    "list",
    "funnel",
    "notes",
)
RUN, SELECT, PAGE_OF, WINDOW, KEYS, MARK, REASONS, CASES, COUNT, STEP, LIST, FUNNEL, NOTES = KINDS
OF_MATCHES = KINDS[: KINDS.index(COUNT) + 1]  # all jobs except steps, histograms and the funnel
N_MODEST, N_LATE = 5, 3
SENT_S = 0.05  # matches and events reach the page in this time; then histograms and the funnel are computed


class Shown:
    """What a board shows now. The presenters of its parts share it."""

    def __init__(self, data: SearchedFrame, board: Board, worker: Worker, sampled: str):
        self.data, self.board, self.worker, self.sampled = data, board, worker, sampled
        self.result: Result | None = None
        self.all: SparkMatches | None = None  # the matches of a whole Spark frame
        self.unmatched: Any = None  # the program whose events are shown before the first result
        self.value: str | None = None  # the column of the timeline; None: the query determines it
        self.partition: int | None = None
        self.chosen: Chosen | None = None
        self.asked: list[int] = []  # positions of the clicked rows
        self.when_counted: list[Callable[[Result], object]] = []  # they hear of every counted result

    @property
    def program(self) -> Any:
        """The program of the result, or the one whose events are shown before the first result."""
        return self.unmatched if self.result is None else self.result.program

    @property
    def matches(self) -> Matches | None:
        """The shown matches; None before the first result."""
        return self.all if self.all is not None else self.result and self.result.matches

    def result_for(self, what: str) -> Result:
        """Return the last result, or raise `CepError` in the name of the method ``what``."""
        if self.result is None:
            raise CepError(f"{what}: there is no result yet; write a query and wait() for it")
        return self.result

    def unselect(self) -> None:
        """Show no match as selected."""
        self.chosen = None
        self.board.set(self.board.table, {"selected": None})
        self.board.set(self.board.timeline, {"selected": None, "points": []})
        self.board.set(self.board.nfa, {"lit": []})

    def tell_counted(self, result: Result) -> None:
        """Tell all who want to hear that the matches of a result are counted."""
        for hear in self.when_counted:
            hear(result)
