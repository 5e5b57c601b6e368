"""The runs of an explorer: they find the matches of a query, and show the first ones before the count."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from cepkit.api.matching import match
from cepkit.explorer.automaton import Automaton
from cepkit.explorer.marks import count_of_matches
from cepkit.explorer.presenting.answer_presenter import AnswerPresenter
from cepkit.explorer.presenting.shown import COUNT, RUN, Shown
from cepkit.explorer.presenting.table_presenter import NO_FILTERS_ON_ALL, TablePresenter
from cepkit.explorer.presenting.timeline_presenter import TimelinePresenter
from cepkit.explorer.query.text import collect_warnings
from cepkit.explorer.running.first_tables import first_look, first_page, first_rows, totals
from cepkit.explorer.running.pages import CANONICAL, PAGE
from cepkit.explorer.running.result import Result
from cepkit.explorer.running.worker import Turn
from cepkit.explorer.table.texts import columns_and_rows
from cepkit.language.match_recognize.asked import RowsQuery
from cepkit.language.numbers import seconds_text
from cepkit.planning.clocks import depends_on_ties, ties_in_words
from cepkit.planning.planner import EngineValue
from cepkit.planning.validation import warn_of_unknown_types
from cepkit.progress import ShareDone, checkpoint
from cepkit.results.spark.part import stoppable

PATIENCE_S = 0.4  # a newer run cancels a run of a known shape after this time
SHOWN_S = 0.6  # how long the first run lets a notebook show the board
QUICK_S = 0.2  # a count of matches that takes no longer is announced neither by first matches nor by a share


@dataclass(frozen=True)
class Asked:
    """A query to run."""

    program: Any
    automaton: Automaton
    notes: tuple[str, ...]  # shown with the result
    version: int  # the edit of the text that it belongs to
    is_cold: bool = False  # whether no query of its shape was counted before, so that none is compiled


class RunPresenter:
    """Runs queries in the background and shows their results."""

    def __init__(
        self, shown: Shown, timeline: TimelinePresenter, table: TablePresenter, answers: AnswerPresenter,
        engine: str | EngineValue,
    ):  # fmt: skip
        self._shown, self._board, self.engine = shown, shown.board, engine
        self._timeline, self._table, self._answers = timeline, table, answers
        self.ended: Callable[[Any, int, float], object] = lambda program, n, took: None
        self.is_shown = threading.Event()  # whether a notebook shows the board
        self._is_cold = True  # whether no query of the newest shape was counted
        self._tied: tuple[Any, str] | None = None  # events, and the note on their ties

    def run(self, asked: Asked) -> None:
        """Run a compiled query."""
        self._is_cold = asked.is_cold or self._is_cold
        asked = replace(asked, is_cold=self._is_cold)
        if self._shown.result is None:
            self._shown.unmatched = asked.program
        message = "compiling a pattern of a new shape" if asked.is_cold else "searching"
        self._board.say("running", message, version=asked.version, errors=[])
        self._shown.worker.submit(
            RUN, lambda turn: self._run(turn, asked), 0.0 if asked.is_cold else PATIENCE_S
        )

    def run_on_all(self, frame: Any, value: Any, version: int) -> None:
        """Run a query on the whole Spark frame."""
        self._board.say("running", "on all rows, by Spark", version=version)
        self._shown.worker.submit(RUN, lambda turn: self._run_on_all(turn, frame, value, version))

    # --- jobs of the thread

    def _run(self, turn: Turn, asked: Asked) -> None:
        began, shown, is_cold = time.perf_counter(), self._shown, asked.is_cold
        events = shown.data.events(asked.program)
        checkpoint()
        if shown.result is None and not self._timeline.is_previewed(events):
            self._timeline.draw_unmatched(turn, asked.program, [])
        if shown.result is None and is_cold and is_in_notebook():
            self.is_shown.wait(SHOWN_S)  # compilation would hold up the first picture
        result = self._search(turn, asked, events)
        asked = self._with_notes(asked, events)
        engine = shown.data.engine_for(asked.program, self.engine)
        before = None if is_cold else shown.result
        # First matches of a sequence are not worth their time if counting takes as little.
        is_quick = engine.name == "chain" and before is not None and before.took_s < QUICK_S
        is_open = not is_quick and result.open(engine, before)
        if is_open and (is_cold or engine.name != "chain"):  # the chain engine counts at once
            self._show_first(turn, result, asked, began)
            return
        if not (is_open or is_quick) and (look := first_look(result)) is not None:
            turn.deliver(lambda: self._show_look(look))
        result.count()
        checkpoint()
        took = time.perf_counter() - began
        soon = first_rows(result) if is_cold and not self._table.filters else None
        table = soon or self._table.counted_page(result, is_opened=is_open)

        def show_all() -> None:
            self._show(result, table)
            if soon is None:
                self._table.follow(result)
            if turn.is_newest:
                self._say_done(result, asked, took)

        turn.deliver(show_all)
        if soon is not None:
            table = self._table.first_page(result)
            turn.deliver(lambda: self._table.show_counted(result, table))
        self._show_bands(turn, result)

    def _search(self, turn: Turn, asked: Asked, events: Any) -> Result:
        """Return a result that finds its matches on demand."""
        shown, began = self._shown, time.perf_counter()

        def report(done: float) -> None:
            if time.perf_counter() - began > QUICK_S:
                turn.deliver(lambda: self._board.say("running", "searching", progress=done))

        progress = ShareDone(events.n_events, report)
        result = Result(
            shown.data,
            asked.program,
            lambda: shown.data.run(asked.program, self.engine, progress),
            asked.automaton,
        )
        result.value = shown.value
        if shown.result is not None:
            result.take_series(shown.result)
        return result

    def _show_first(self, turn: Turn, result: Result, asked: Asked, began: float) -> None:
        """Show the first matches, and submit the job that counts all of them."""
        table, drawn = first_page(result), self._timeline.draw(result)

        def show() -> None:
            self._show(result, table)
            self._timeline.show(result, drawn)
            if turn.is_newest:
                compiling = "compiling a pattern of a new shape, then " if asked.is_cold else ""
                self._board.say("running", f"the first matches are shown; {compiling}counting all of them")
                self._shown.worker.submit(COUNT, lambda turn: self._count(turn, result, asked, began))

        turn.deliver(show)

    def _count(self, turn: Turn, result: Result, asked: Asked, began: float) -> None:
        """Count the matches after the first ones are shown, and fill in the totals."""
        result.count()
        checkpoint()
        counted = totals(result) if self._table.is_plain else self._table.first_page(result)
        took = time.perf_counter() - began

        def show() -> None:
            self._table.show_counted(result, counted)
            self._say_done(result, asked, took)

        turn.deliver(show)
        if self._is_cold:
            result.warm_up(self._shown.data.engine_for(result.program, self.engine))
        checkpoint()
        self._show_bands(turn, result)

    def _show_bands(self, turn: Turn, result: Result) -> None:
        """Show the timeline of a counted result, and submit the jobs that follow."""
        drawn = self._timeline.draw(result)

        def show() -> None:
            self._is_cold = False
            self._timeline.show(result, drawn)
            if turn.is_newest:
                self._shown.tell_counted(result)

        turn.deliver(show)

    def _run_on_all(self, turn: Turn, spark_frame: Any, value: Any, version: int) -> None:
        began = time.perf_counter()
        with collect_warnings() as notes:
            if isinstance(value, RowsQuery):
                matches = match(spark_frame, str(value), params=dict(value.params) or None)
            else:
                matches = match(spark_frame, value, engine=self.engine)
        with stoppable(spark_frame.sparkSession) as stop:
            turn.stop_by(stop)
            n = matches.count()
            checkpoint()
            frame = matches.head(PAGE)
        table = {
            **columns_and_rows(frame),
            "numbers": [""] * len(frame),
            "page": 1, "n_pages": "1", "total": f"{n:,}", "order": CANONICAL, "sortable": [], "busy": False,
            "limit_note": f"the first {len(frame)} matches in all rows; {NO_FILTERS_ON_ALL}",
            "selected": None, "can_filter": False, "filtered": "", "heads": {}, "heads_busy": False,
        }  # fmt: skip
        took = time.perf_counter() - began

        def show() -> None:
            self._shown.all = matches
            self._board.set(self._board.table, table)
            found = f"{count_of_matches(n)} in all rows, in {seconds_text(took)}"
            notes.append("timeline, funnel and steps show the sample")
            self._board.say("done", "; ".join([found, *notes]), version=version)

        turn.deliver(show)

    # --- what the board says

    def _with_notes(self, asked: Asked, events: Any) -> Asked:
        """Return a query with notes on unknown types of events and on events in no certain order."""
        program, notes = asked.program, list(asked.notes)
        if getattr(program.query, "event_type", None) is not None:
            with collect_warnings() as heard:
                warn_of_unknown_types(program, events)
            notes += heard
        if depends_on_ties(program.query):
            if self._tied is None or self._tied[0] is not events:
                self._tied = events, ties_in_words(program, self._shown.data.source, events)
            notes += [self._tied[1]] if self._tied[1] else []
        return replace(asked, notes=tuple(notes))

    def _show_look(self, look: dict[str, Any]) -> None:
        self._table.show_look(look)
        self._board.say("running", f"found some matches, {look['total']}; finding all of them")

    def _show(self, result: Result, table: dict[str, Any]) -> None:
        board, shown = self._board, self._shown
        self._answers.take(result)
        shown.result, shown.all, shown.chosen = result, None, None
        self._table.show(table)
        board.set(board.timeline, {"points": [], "selected": None, "busy": True})
        board.set(board.nfa, {"lit": [], "live": []})
        board.set(board.funnel, {"busy": True})

    def _say_done(self, result: Result, asked: Asked, took: float) -> None:
        n, notes = result.count(), [*asked.notes, *notes_on_rows(result)]
        if not n and result.events.n_events:
            notes.append("click an event on the timeline to ask why")
        said = (self._shown.sampled, f"{count_of_matches(n)} in {seconds_text(took)}", *notes)
        self._board.say("done", "; ".join(part for part in said if part), version=asked.version)
        self.ended(result.program, n, took)


def notes_on_rows(result: Result) -> list[str]:
    """Return what the table leaves out of the result of MATCH_RECOGNIZE."""
    if not result.is_rows:
        return []
    query, n_empty = result.program.query, result.matches._found.n_empty
    notes = []
    if n_empty:
        notes.append(f"{count_of_matches(n_empty)} without rows {'is' if n_empty == 1 else 'are'} not shown")
    whole = query.whole
    if query.rows is not whole and (whole.where is not None or whole.limit is not None or whole.offset):
        notes.append("the table has the matches before WHERE and LIMIT")
    return notes


def is_in_notebook() -> bool:
    """Return whether this process is the kernel of a notebook."""
    shell = sys.modules.get("IPython") and sys.modules["IPython"].get_ipython()
    return getattr(shell, "kernel", None) is not None
