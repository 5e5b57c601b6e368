"""The runs of an explorer, which show the first matches before the count, and the pages of the table."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from cepkit.api.matching import match
from cepkit.engines.counting.engine import CountedMatches
from cepkit.errors import CepError
from cepkit.explorer.automaton import Automaton
from cepkit.explorer.presenting.answer_presenter import AnswerPresenter
from cepkit.explorer.presenting.shown import COUNT, LIST, PAGE_OF, RUN, Shown
from cepkit.explorer.presenting.timeline_presenter import TimelinePresenter
from cepkit.explorer.query.text import collect_warnings
from cepkit.explorer.running.pages import CANONICAL, PAGE, Pages
from cepkit.explorer.running.result import Result
from cepkit.explorer.running.timeline import count_of_matches
from cepkit.explorer.running.worker import Turn
from cepkit.explorer.table.texts import columns_and_rows
from cepkit.frames.pandas import as_pandas
from cepkit.insight.first_matches import matches_of_first_ends
from cepkit.language.expressions.durations import seconds_text
from cepkit.language.match_recognize.query import RowsQuery
from cepkit.planning.clocks import depends_on_ties, ties_in_words
from cepkit.planning.planner import EngineValue
from cepkit.planning.plans import warn_of_unknown_types
from cepkit.progress import ShareDone, checkpoint
from cepkit.results.spark.jobs import stoppable

# The table of a result before all of its matches are counted or listed.

COUNTING, NOT_COUNTED = "counting …", "not counted"  # in place of a total


def first_page(result: Result) -> dict[str, Any]:
    """Return the traits of the table for the first page, before the matches are counted."""
    traits = Pages(result.opened).traits(1, CANONICAL)
    if result.opening.is_all:
        return traits
    note = "the first matches; other pages, orders and filters follow when all are counted"
    return {**traits, "total": COUNTING, "n_pages": "…", "sortable": [], "limit_note": note}


def totals(result: Result) -> dict[str, Any]:
    """Return the traits of the table that depend on the number of matches, without the rows."""
    pages, names = result.pages, Pages(result.opened).frame([]).columns
    return {
        "total": f"{pages.n:,}", "n_pages": str(pages.n_pages), "limit_note": pages.limit_note,
        "sortable": [str(name) for name in names] if pages.is_sortable and pages.n > 1 else [],
    }  # fmt: skip


def first_look(result: Result) -> dict[str, Any] | None:
    """Return a table of matches that are cheap to find, or None if these are all matches."""
    if not result.is_sequence:
        return None
    whole = result.matches._found.whole
    n, is_exact = whole.at_least()
    if is_exact:
        return None
    frame = as_pandas(result.matches._found.frame_of(whole.glance(PAGE)))
    return {
        **columns_and_rows(frame), "numbers": [""] * len(frame), "page": 1, "n_pages": "1",
        "can_filter": True, "filtered": "",
        "total": f"≥ {max(n, len(frame)):,}", "order": "canonical", "sortable": [], "busy": True,
        "limit_note": "some matches; numbers and order follow when all are counted",
    }  # fmt: skip


def first_rows(result: Result) -> dict[str, Any] | None:
    """Return the first page of counted matches without compiling anything, or None if that is costly."""
    if not result.is_sequence or result.program.query.after_match[0] != "none":
        return None
    if not isinstance(result.matches._found.whole, CountedMatches):
        return None
    n_rows = min(PAGE, result.matches.count())
    block = matches_of_first_ends(result.program, result.events, result.ends, result.counts_of_ends, n_rows)
    if block is None:
        return None
    frame = as_pandas(result.matches._found.frame_of(block))
    table = result.pages.describe(frame, list(range(n_rows)), 1, CANONICAL)
    return {**table, "busy": True}


# The runs of an explorer, which show the first matches before the count, and the pages of the table.

# The table on a board: its pages, its order, its filters, and the histograms in its heads.

NO_FILTERS_ON_ALL = "matches in all rows stay in Spark, so the table cannot filter or order them"


class TablePresenter:
    """Shows pages of the matches in the user's order and with the user's filters."""

    def __init__(self, shown: Shown):
        self._shown, self._board = shown, shown.board
        self.order = CANONICAL  # as the user chose it
        self.filters: dict[str, str] = {}  # as the user typed them, by column
        self._has_looked = False  # whether the table shows some matches of an unfinished run
        self._is_first = False  # whether the chosen order and filters follow
        shown.when_counted.append(self._follow)

    def _follow(self, result: Result) -> None:
        self._shown.worker.submit(LIST, lambda turn: self._draw_heads(turn, result))

    @property
    def is_plain(self) -> bool:
        """Whether the user chose neither an order nor filters."""
        return self.order == CANONICAL and not self.filters

    # --- wishes

    def show_page(self, page: int, order: str | None = None) -> None:
        """Show another page of the table, or another order."""
        self._refuse_on_all("show_page")
        result, self.order = self._shown.result_for("show_page"), order or self.order
        order = self.order
        self._board.set(self._board.table, {"busy": True})
        self._shown.worker.submit(PAGE_OF, lambda turn: self._turn_page(turn, result, page, order))

    def filter(self, filters: Mapping[str, str]) -> None:
        """Show the matches that pass filters, typed texts by column; an empty text filters nothing."""
        self._refuse_on_all("filters")
        self.filters = {str(name): str(text) for name, text in filters.items() if str(text).strip()}
        self._board.set(self._board.table, {"filters": self.filters})
        if self._shown.result is not None:
            self.show_page(1)

    def _refuse_on_all(self, what: str) -> None:
        """Raise `CepError` while the table shows matches in all rows of a Spark frame."""
        if self._shown.all is not None:
            raise CepError(f"{what}: {NO_FILTERS_ON_ALL}; write explorer.matches.to_frame() and filter there")

    def return_to_result(self) -> None:
        """Show the last result again after a run that was stopped."""
        board, result = self._board, self._shown.result
        self.finish()
        if self._has_looked:
            self._has_looked = False
            if result is None:
                board.set(board.table, {"rows": [], "numbers": [], "total": "", "limit_note": ""})
            elif result.is_counted:
                self.show_page(1, CANONICAL)
            else:
                board.set(board.table, first_page(result))
        self.give_up_counting()

    def finish(self) -> None:
        """Show the page with the chosen order and filters, if the table shows the first matches only."""
        if self._is_first and self._shown.all is None:
            self.show_page(1)

    def give_up_counting(self) -> None:
        """Say that the matches are not counted, if the table promises their number."""
        if self._board.table.total == COUNTING:
            self._board.set(self._board.table, {"total": NOT_COUNTED})

    # --- tables

    def is_quick(self, result: Result) -> bool:
        """Whether a page with the user's order and filters takes little time."""
        return result.pages.is_quick(result.pages.order_or_canonical(self.order), self.filters)

    def first_page(self, result: Result) -> dict[str, Any]:
        """Return the first page with the user's order and filters, as far as the result has their columns.

        If that takes long, it is a page of the first matches; `finish` shows the page with order and filters.

        """
        if not self.is_quick(result):
            return result.pages.quick_traits(self.filters)
        return result.pages.traits(1, result.pages.order_or_canonical(self.order), self.filters)

    def counted_page(self, result: Result, *, is_opened: bool) -> dict[str, Any]:
        """Return the first page of a counted result; ``is_opened`` says whether its rows are known."""
        if is_opened and self.is_plain:
            return {**first_page(result), **totals(result)}
        return self.first_page(result)

    def show_counted(self, result: Result, table: dict[str, Any]) -> None:
        """Show a page from `first_page`, and `finish` it if it has the first matches only."""
        self._board.set(self._board.table, table)
        self.follow(result)

    def follow(self, result: Result) -> None:
        """Note whether the shown page from `first_page` has the first matches only, and `finish` it then."""
        self._is_first = not self.is_quick(result)
        self.finish()

    def page_with(self, result: Result, number: int) -> dict[str, Any] | None:
        """Return the page that shows a match; None if the table shows it already or its filters hide it."""
        if str(number) in self._board.table.numbers:
            return None
        result.count()
        order = result.pages.order_or_canonical(self.order)
        page = result.pages.page_of(number, order, self.filters)
        return None if page is None else result.pages.traits(page, order, self.filters)

    def show_look(self, look: dict[str, Any]) -> None:
        """Show some matches of an unfinished run."""
        self._has_looked = True
        self._board.set(self._board.table, look)

    def show(self, table: dict[str, Any]) -> None:
        """Show a page of a new result."""
        self._has_looked = self._is_first = False
        self._board.set(self._board.table, {"heads_busy": True, **table, "selected": None})

    # --- jobs of the thread

    def _turn_page(self, turn: Turn, result: Result, page: int, order: str) -> None:
        result = self._shown.result or result  # a newer result may have come meanwhile
        result.count()
        checkpoint()
        table = result.pages.traits(page, result.pages.order_or_canonical(order), self.filters)

        def show() -> None:
            self._is_first = False
            self._board.set(self._board.table, table)

        turn.deliver(show)

    def _draw_heads(self, turn: Turn, result: Result) -> None:
        """List the matches, which makes orders and filters quick, and draw the histograms."""
        heads = result.pages.heads(self.filters)
        turn.deliver(lambda: self._board.set(self._board.table, heads))

    def drop_heads(self) -> None:
        """Show the heads without histograms."""
        self._board.set(self._board.table, {"heads": {}, "heads_busy": False})


# The runs of an explorer: they find the matches of a query, and show the first ones before the count.

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
            summary = f"{count_of_matches(n)} in all rows, in {seconds_text(took)}"
            notes.append("timeline, funnel and steps show the sample")
            self._board.say("done", "; ".join([summary, *notes]), version=version)

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
        parts = (self._shown.sampled, f"{count_of_matches(n)} in {seconds_text(took)}", *notes)
        self._board.say("done", "; ".join(part for part in parts if part), version=asked.version)
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
