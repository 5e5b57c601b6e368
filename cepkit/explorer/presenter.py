"""`Presenter` runs queries in the background and fills a board: the table, the selected match, all parts."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from cepkit.api.matching import match
from cepkit.api.searching import left_out_in_words
from cepkit.errors import CepError
from cepkit.explorer.board import Board
from cepkit.explorer.presented import (
    FUNNEL,
    KINDS,
    LIST,
    N_LATE,
    N_MODEST,
    PAGE_OF,
    RUN,
    SELECT,
    SENT_S,
    AnswerPresenter,
    KeyPresenter,
    Shown,
    TimelinePresenter,
)
from cepkit.explorer.running.data import SearchedFrame
from cepkit.explorer.running.result import Automaton, Result
from cepkit.explorer.running.table import CANONICAL, PAGE
from cepkit.explorer.running.texts import columns_and_rows
from cepkit.explorer.running.timeline import places_of_events
from cepkit.explorer.running.worker import Turn, Worker
from cepkit.explorer.text import collect_warnings
from cepkit.frames.pandas import as_pandas
from cepkit.language.expressions.durations import counted, seconds_text
from cepkit.language.match_recognize.query import RowsQuery
from cepkit.planning.clocks import depends_on_ties, ties_in_words
from cepkit.planning.planner import EngineValue
from cepkit.planning.plans import warn_of_unknown_types
from cepkit.progress import ShareDone, checkpoint
from cepkit.results.spark_tasks import stoppable
from cepkit.values import dataclass


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
        **columns_and_rows(frame, result.program.query.partition_by),
        "numbers": [""] * len(frame), "page": 1, "n_pages": "1", "can_filter": True, "filtered": "",
        "total": f"≥ {max(n, len(frame)):,}", "order": "canonical", "sortable": [], "busy": True,
        "limit_note": "some matches; numbers and order follow when all are counted",
    }  # fmt: skip


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
        """List the matches, which makes orders and filters quick, and draw the histograms."""

        def draw(turn: Turn) -> None:
            heads = result.pages.heads(self.filters)
            turn.deliver(lambda: self._board.set(self._board.table, heads))

        self._shown.worker.submit(LIST, draw)

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
        if self._has_looked and self._shown.result is None:
            self._board.set(self._board.table, {"rows": [], "numbers": [], "total": "", "limit_note": ""})
        elif self._has_looked:
            self.show_page(1)
        else:
            self.finish()
        self._has_looked = False

    def finish(self) -> None:
        """Show the page with the chosen order and filters, if the table shows the first matches only."""
        if self._is_first and self._shown.all is None:
            self.show_page(1)

    # --- tables

    def is_quick(self, result: Result) -> bool:
        """Whether a page with the user's order and filters takes little time."""
        return result.pages.is_quick(result.pages.order_or_canonical(self.order), self.filters)

    def first_page(self, result: Result) -> dict[str, Any]:
        """Return the first page with the user's order and filters, or, if that takes long, without them."""
        if not self.is_quick(result):
            return result.pages.quick_traits(self.filters)
        return result.pages.traits(1, result.pages.order_or_canonical(self.order), self.filters)

    def page_with(self, result: Result, number: int) -> dict[str, Any] | None:
        """Return the page that shows a match; None if the table shows it already or its filters hide it."""
        if str(number) in self._board.table.numbers:
            return None
        order = result.pages.order_or_canonical(self.order)
        page = result.pages.page_of(number, order, self.filters)
        return None if page is None else result.pages.traits(page, order, self.filters)

    def show_look(self, look: dict[str, Any]) -> None:
        """Show some matches of an unfinished run."""
        self._has_looked = True
        self._board.set(self._board.table, look)

    def show(self, result: Result, table: dict[str, Any]) -> None:
        """Show a page from `first_page` of a new result, and `finish` it if it has the first matches only."""
        self._has_looked = False
        self._board.set(self._board.table, {"heads_busy": True, **table, "selected": None})
        self._is_first = not self.is_quick(result)
        self.finish()

    # --- jobs of the thread

    def _turn_page(self, turn: Turn, result: Result, page: int, order: str) -> None:
        """Show another page of the table."""
        result = self._shown.result or result  # a newer result may have come meanwhile
        table = result.pages.traits(page, result.pages.order_or_canonical(order), self.filters)

        def show() -> None:
            self._is_first = False
            self._board.set(self._board.table, table)

        turn.deliver(show)


# The runs of an explorer: they find the matches of a query, and show some of many before the count.

PATIENCE_S = 0.4  # a newer run cancels a run after this time, so that some runs of a drag finish
QUICK_S = 0.2  # the progress of a search that takes no longer is not shown


@dataclass(frozen=True)
class Asked:
    program: Any
    automaton: Automaton
    notes: tuple[str, ...]  # shown with the result
    version: int  # the edit of the text that it belongs to


class RunPresenter:
    """Runs queries in the background and shows their results."""

    def __init__(
        self, shown: Shown, timeline: TimelinePresenter, table: TablePresenter, answers: AnswerPresenter,
        engine: str | EngineValue,
    ):  # fmt: skip
        self._shown, self._board, self.engine = shown, shown.board, engine
        self._timeline, self._table, self._answers = timeline, table, answers
        self.ended: Callable[[Any, int, float], object] = lambda program, n, took: None
        self._tied: tuple[Any, str] | None = None  # events, and the note on their ties

    def run(self, asked: Asked) -> None:
        """Search the matches of a query in the background."""
        if self._shown.result is None:
            self._shown.unmatched = asked.program
            self._board.set(self._board.table, {"busy": True})
        self._board.say("running", "searching", version=asked.version, errors=[])
        self._shown.worker.submit(RUN, lambda turn: self._run(turn, asked), PATIENCE_S)

    def run_on_all(self, frame: Any, value: Any, version: int) -> None:
        """Run a query on the whole Spark frame."""
        self._board.say("running", "on all rows, by Spark", version=version)
        self._shown.worker.submit(RUN, lambda turn: self._run_on_all(turn, frame, value, version))

    # --- jobs of the thread

    def _run(self, turn: Turn, asked: Asked) -> None:
        """Search the matches of a query, and show them."""
        began, shown = time.perf_counter(), self._shown
        events = shown.data.events(asked.program)
        checkpoint()
        if shown.result is None and self._timeline.previewed is not events:
            self._timeline.draw_unmatched(turn, asked.program, [])
        result = self._search(turn, asked, events)
        if (look := first_look(result)) is not None:
            turn.deliver(lambda: self._show_look(look))
        result.count()
        checkpoint()
        took = time.perf_counter() - began
        table = self._table.first_page(result)
        turn.deliver(lambda: self._show(result, table))
        turn.pause()
        notes, drawn = self._notes(asked, result), self._timeline.draw(result)

        def show_bands() -> None:
            self._timeline.show(result, drawn)
            if turn.is_newest:
                self._say_done(result, asked.version, notes, took)
                shown.tell_counted(result)

        turn.deliver(show_bands)

    def _search(self, turn: Turn, asked: Asked, events: Any) -> Result:
        """Return a result that finds its matches on demand."""
        shown, began = self._shown, time.perf_counter()

        def report(done: float) -> None:
            if time.perf_counter() - began > QUICK_S:
                turn.deliver(lambda: self._board.say("running", "searching", progress=done))

        progress = ShareDone(events.n_events, report)
        find = lambda: shown.data.run(asked.program, self.engine, progress)  # noqa: E731
        result = Result(shown.data, asked.program, find, asked.automaton)
        result.value = shown.value
        if shown.result is not None:
            result.take_series(shown.result)
        return result

    def _run_on_all(self, turn: Turn, spark_frame: Any, value: Any, version: int) -> None:
        """Search all rows of a Spark frame, and show the number of matches and the first ones."""
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
            **columns_and_rows(frame), "numbers": [""] * len(frame), "page": 1,
            "n_pages": "1", "total": f"{n:,}", "order": CANONICAL, "sortable": [], "busy": False,
            "limit_note": f"the first {len(frame)} matches in all rows; {NO_FILTERS_ON_ALL}",
            "selected": None, "can_filter": False, "filtered": "", "heads": {}, "heads_busy": False,
        }  # fmt: skip
        took = time.perf_counter() - began

        def show() -> None:
            self._shown.all = matches
            self._board.set(self._board.table, table)
            summary = f"{counted(n, 'match')} in all rows, in {seconds_text(took)}"
            notes.append("timeline, funnel and steps show the sample")
            self._board.say("done", "; ".join([summary, *notes]), version=version)

        turn.deliver(show)

    # --- what the board says

    def _notes(self, asked: Asked, result: Result) -> list[str]:
        """Return the notes on a result: on its text, its types of events, their order, and rows left out."""
        program, events, notes = asked.program, result.events, list(asked.notes)
        with collect_warnings() as heard:
            warn_of_unknown_types(program, events)
        notes += heard
        if depends_on_ties(program.query):
            if self._tied is None or self._tied[0] is not events:
                self._tied = events, ties_in_words(program, self._shown.data.source, events)
            notes += [self._tied[1]] if self._tied[1] else []
        notes += [note] if (note := left_out_in_words(program, result.matches)) else []
        notes += notes_on_rows(result)
        return notes

    def _show_look(self, look: dict[str, Any]) -> None:
        self._table.show_look(look)
        self._board.say("running", f"found some matches, {look['total']}; finding all of them")
        self._board.release()

    def _show(self, result: Result, table: dict[str, Any]) -> None:
        """Show a result."""
        board, shown = self._board, self._shown
        self._answers.take(result)
        shown.result, shown.all, shown.chosen = result, None, None
        board.set(board.timeline, {"points": [], "selected": None, "busy": True})
        board.set(board.nfa, {"lit": [], "live": []})
        board.set(board.funnel, {"busy": True})
        self._table.show(result, table)
        board.release()

    def _say_done(self, result: Result, version: int, notes: list[str], took: float) -> None:
        parts = (self._shown.sampled, f"{counted(result.count(), 'match')} in {seconds_text(took)}", *notes)
        self._board.say("done", "; ".join(part for part in parts if part), version=version)
        self.ended(result.program, result.count(), took)


def notes_on_rows(result: Result) -> list[str]:
    """Return what the table leaves out of the result of MATCH_RECOGNIZE."""
    if not result.is_rows:
        return []
    query, n_empty = result.program.query, result.matches._found.n_empty
    notes = []
    if n_empty:
        notes.append(f"{counted(n_empty, 'match')} without rows {'is' if n_empty == 1 else 'are'} not shown")
    whole = query.whole
    if query.rows is not whole and (whole.where is not None or whole.limit is not None or whole.offset):
        notes.append("the table has the matches before WHERE and LIMIT")
    return notes


# The selected match of a board: in the table, on the timeline, in the automaton and in the stepper.


class MatchPresenter:
    def __init__(
        self, shown: Shown, keys: KeyPresenter, answers: AnswerPresenter, timeline: TimelinePresenter,
        table: TablePresenter,
    ):  # fmt: skip
        self._shown, self._keys, self._answers = shown, keys, answers
        self._timeline, self._table = timeline, table
        # It hears of a selection that changes the key, with the key and the match before.
        self.key_changed: Callable[[tuple | None, int | None], object] = lambda key, number: None

    def select(self, number: int | None, *, is_change: bool = True) -> None:
        """Select a match, or none; ``is_change`` says whether `key_changed` hears of another key."""
        if number is None:
            self._shown.unselect()
            return
        result = self._shown.result_for("select")
        result.choose(number)  # raises here rather than in the thread
        self._shown.worker.submit(SELECT, lambda turn: self._select(turn, result, number, is_change))

    def _select(self, turn: Turn, result: Result, number: int, is_change: bool) -> None:
        """Show a match in the table, in the timeline and in the steps."""
        shown, board = self._shown, self._shown.board
        chosen = result.choose(number)
        partition = chosen.partition if result.n_partitions > 1 else None
        table = self._table.page_with(result, chosen.number)
        checkpoint()
        drawn = None if partition == shown.partition else self._timeline.draw_key(result, partition)
        points = result.points(chosen, partition)
        stepping, key = result.stepping(partition), self._keys.trait_of(result, partition)
        position = stepping.index_of(chosen.positions[-1]) + 1
        before = self._keys.name_of_shown(), shown.chosen and shown.chosen.number

        def show() -> None:
            shown.chosen = chosen
            board.set(board.table, {**(table or {}), "selected": str(chosen.number)})
            selected: dict[str, Any] = {"points": points, "selected": chosen.number}
            if drawn is None:
                shown.partition = partition
                self._answers.hide_other_keys(result, partition)
                board.set(board.bar, {"key": key})
                board.set(board.timeline, selected)
            else:
                if self._keys.kept_partition(result.program, result.events) != partition:
                    self._keys.forget()
                asked = places_of_events(result, shown.asked, partition)
                self._timeline.show_key_of(result, drawn, {**selected, "window": [], "asked": asked})
            board.set(board.nfa, {"lit": list(chosen.states)})
            self._answers.step(result, position)
            shown.renew_stills()
            if drawn is not None and is_change:
                self.key_changed(*before)

        turn.deliver(show)


OLD_RESULT = "the last result is still shown"


class Presenter:
    """The presenters of a board, and the content that they share."""

    def __init__(self, data: SearchedFrame, board: Board, engine: str | EngineValue, sampled: str):
        self._board = board
        shell = sys.modules.get("IPython") and sys.modules["IPython"].get_ipython()
        pause_s = 0.0 if getattr(shell, "kernel", None) is None else SENT_S
        worker = Worker(KINDS, self._show_failure, N_MODEST, N_LATE, pause_s)
        self.shown = Shown(data, board, worker, sampled)
        self.keys = KeyPresenter(self.shown)
        self.answers = AnswerPresenter(self.shown)
        self.timeline = TimelinePresenter(self.shown, self.keys, self.answers)
        self.table = TablePresenter(self.shown)
        self.matches = MatchPresenter(self.shown, self.keys, self.answers, self.timeline, self.table)
        self.runs = RunPresenter(self.shown, self.timeline, self.table, self.answers, engine)

    def stop(self) -> None:
        """Stop the current run; the table returns to the last result, and the events stay."""
        self.shown.worker.cancel()
        self._rest()
        self.timeline.return_to_result()
        self.table.return_to_result()
        self.shown.renew_stills()

    def cancel(self) -> None:
        """Stop the current run, and say what the board shows now."""
        is_running = self._board.editor.status["state"] == "running"
        self.stop()
        if is_running:
            kept = "no match is shown yet" if self.shown.result is None else OLD_RESULT
            self._board.say("cancelled", f"cancelled; {kept}")

    def _rest(self) -> None:
        """Say that no part of the board is being computed."""
        for widget in (self._board.table, self._board.timeline, self._board.funnel):
            self._board.set(widget, {"busy": False})

    def _show_failure(self, turn: Turn, error: BaseException) -> None:
        """Show the error of a job; the thread calls it."""
        board = self._board
        if turn.is_cancelled:
            return
        self._rest()
        if not self.timeline.is_drawn.is_set():
            board.set(board.timeline, {"sampled": f"the events cannot be drawn: {error}"})
        if turn.kind == RUN:
            self.table.finish()
            self.answers.hide_old()
            board.say("failed", f"{type(error).__name__}: {error}"[:2000])
            self.shown.renew_stills()
        elif turn.kind == LIST:
            board.set(board.table, {"heads": {}, "heads_busy": False})
        elif turn.kind == FUNNEL:
            stage = {"label": f"no funnel: {error}", "n": "", "share": 0.0, "kept": None, "note": ""}
            board.set(board.funnel, {"stages": [stage]})
        else:
            board.give_reasons(str(error).split("\n")[0], note=type(error).__name__)
