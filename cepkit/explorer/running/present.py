"""The presenter of an explorer and the jobs of its thread: runs, pages, selections, steps."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cepkit.api import match
from cepkit.errors import CepError
from cepkit.explorer.automaton import Automaton
from cepkit.explorer.board import Board
from cepkit.explorer.funnel_traits import funnels
from cepkit.explorer.marks import count_of_matches, marks_of, places_of_events
from cepkit.explorer.moment_traits import moment_traits
from cepkit.explorer.query.text import collect_warnings
from cepkit.explorer.reason_traits import reason_traits
from cepkit.explorer.running.data import SearchedFrame
from cepkit.explorer.running.keys import Keys
from cepkit.explorer.running.pages import CANONICAL, PAGE
from cepkit.explorer.running.result import COUNTING, NOT_COUNTED, Chosen, Result
from cepkit.explorer.running.series import describe, drawable, series_of
from cepkit.explorer.running.worker import Turn, Worker
from cepkit.explorer.table.texts import columns_and_rows
from cepkit.planning.clocks import depends_on_ties, ties_in_words
from cepkit.planning.planner import EngineValue, choose_engine
from cepkit.planning.validation import warn_of_unknown_types
from cepkit.progress import ShareDone, checkpoint
from cepkit.results.spark.part import stoppable
from cepkit.widgets.stepper import NEXT_MATCH

# Jobs of the thread, the most urgent first; the last five give way to the others.
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
PATIENCE_S = 0.4  # a newer run cancels a run of a known shape after this time
DRAWN_S = 0.5  # how long the still of a board waits for the first events
SHOWN_S = 0.6  # how long the first run lets a notebook show the board
QUICK_S = 0.2  # a count of matches that takes no longer is not announced by first matches
ROWS_NAMED = 8  # most clicked rows that are explained together


class Presenter:
    """Computes the content of a board in a thread.

    Parameters
    ----------
    data : SearchedFrame
    board : Board
    engine : str or EngineValue
    sampled : str
        The part of the frame that is shown, in words; empty for the whole frame.
    """

    def __init__(self, data: SearchedFrame, board: Board, engine: str | EngineValue, sampled: str):
        self.data, self.board, self.engine, self.sampled = data, board, engine, sampled
        self.worker = Worker(KINDS, self._show_failure, n_modest=5)
        self.result: Result | None = None
        self.all: Any = None  # the matches of a whole Spark frame
        self.value: str | None = None  # the column of the timeline; None: the query determines it
        self.order = CANONICAL  # of the table, as the user chose it
        self.filters: dict[str, str] = {}  # of the table, as the user typed them, by column
        self.unmatched: Any = None  # the program whose events are shown before the first result
        self.partition: int | None = None
        # Key columns, key and name of the key that the user chose; the key is None until it is looked up.
        self._kept_key: tuple[tuple[str, ...], int | None, str] | None = None
        self.key_chosen: Callable[[tuple | None], object] = lambda before: None  # gets the key before
        self.run_ended: Callable[[Any, int, float], object] = lambda program, n, took: None
        self._keys: Keys | None = None
        self._tied: tuple[Any, str] | None = None  # events, and the note on their ties
        self.when_counted: list[Callable[[Result], None]] = []  # they hear of every counted result
        self.chosen: Chosen | None = None
        self.asked: list[int] = []  # positions of the clicked rows
        self._explained: Result | None = None  # the result of the shown reasons
        self._drawn_events: Any = None  # the events of the shown timeline
        self._previewed: Any = None  # the events of the timeline before the first result
        self._banded: Result | None = None  # the result whose matches the timeline shows
        self.is_shown = threading.Event()  # whether a notebook shows the board
        self._has_notes = False  # whether the columns in the editor have notes
        self.is_drawn = threading.Event()  # whether the timeline shows events
        self._has_looked = False  # whether the table shows some matches of an unfinished run
        self._is_cold = True  # whether no query of the newest shape was counted, so that none is compiled

    @property
    def kept_key(self) -> tuple[tuple[str, ...], str] | None:
        """The key columns and the name of the key that the user chose, or None."""
        return self._kept_key and (self._kept_key[0], self._kept_key[2])

    def keep_key(self, key: tuple[tuple[str, ...], str] | None) -> None:
        """Keep a key by its columns and name, or none; the next picture of the timeline shows it."""
        self._kept_key = None if key is None else (key[0], None, key[1])
        if key is None:
            self.partition = None

    def result_for(self, what: str) -> Result:
        """Return the last result, or raise `CepError` in the name of the method ``what``."""
        if self.result is None:
            raise CepError(f"{what}: there is no result yet; write a query and wait() for it")
        return self.result

    # --- wishes

    def stop(self) -> None:
        """Stop the current run; the table returns to the last result, and the events stay."""
        self.worker.cancel()
        self._rest()
        if self.result is None and not self.is_drawn.is_set() and self.unmatched is not None:
            self.board.set(self.board.timeline, {"busy": True})
            self._redraw()
        result = self.result
        if result is not None and self._banded is not result:  # the table shows it, the timeline does not yet
            self.board.set(self.board.timeline, {"busy": True})
            self.worker.submit(WINDOW, lambda turn: self._draw_bands(turn, result))
        if self._has_looked:
            self._has_looked = False
            if self.result is None:
                self.board.set(self.board.table, {"rows": [], "numbers": [], "total": "", "limit_note": ""})
            elif self.result.is_counted:
                self.show_page(1, CANONICAL)
            else:
                self.board.set(self.board.table, self.result.first_page())
        if self.board.table.total == COUNTING:
            self.board.set(self.board.table, {"total": NOT_COUNTED})

    def run(self, program: Any, automaton: Automaton, notes: list[str], version: int, is_new: bool) -> None:
        """Run a compiled query; ``is_new`` says whether its shape is new."""
        self._is_cold = is_cold = is_new or self._is_cold
        if self.result is None:
            self.unmatched = program
        self.board.say("running", _message(is_cold), version=version, errors=[])
        self.worker.submit(
            RUN,
            lambda turn: self._run(turn, program, automaton, notes, version, is_cold),
            0.0 if is_cold else PATIENCE_S,
        )

    def run_on_all(self, frame: Any, value: Any, version: int) -> None:
        """Run a query on the whole Spark frame."""
        self.board.say("running", "on all rows, by Spark", version=version)
        self.worker.submit(RUN, lambda turn: self._run_on_all(turn, frame, value, version))

    def select(self, number: int | None) -> None:
        """Select a match, or none."""
        if number is None:
            self.chosen = None
            self.board.set(self.board.table, {"selected": None})
            self.board.set(self.board.timeline, {"selected": None, "points": []})
            self.board.set(self.board.nfa, {"lit": []})
            return
        result = self.result_for("select")
        if result.is_counted:
            result.choose(number)  # raises here rather than in the thread
        self.worker.submit(SELECT, lambda turn: self._select(turn, result, number))

    def show_page(self, page: int, order: str | None = None) -> None:
        """Show another page of the table, or another order."""
        result, order = self.result_for("show_page"), order or self.board.table.order
        self.order = order
        self.board.set(self.board.table, {"busy": True})
        self.worker.submit(PAGE_OF, lambda turn: self._turn_page(turn, result, page, order))

    def filter(self, filters: Mapping[str, str]) -> None:
        """Show the matches that pass filters, typed texts by column; an empty text filters nothing."""
        self.filters = {str(name): str(text) for name, text in filters.items() if str(text).strip()}
        self.board.set(self.board.table, {"filters": self.filters})
        if self.result is not None:
            self.show_page(1)

    def zoom(self, window: Sequence[float]) -> None:
        """Show a window of the axis; an empty window shows all."""
        if self.result is None and self.unmatched is None:
            self.result_for("zoom")
        self.board.set(self.board.timeline, {"window": [float(bound) for bound in window], "busy": True})
        self._redraw()

    def show_value(self, name: str | None) -> None:
        """Show another column on the timeline; None for the one that the query determines."""
        self.value = name
        self.board.set(self.board.timeline, {"busy": True} if name is None else {"value": name, "busy": True})
        self._redraw()

    def preview(self, program: Any) -> None:
        """Show the events in the order of ``program`` while there is no result."""
        self.unmatched = program
        self._redraw()

    def show_key(
        self, partition: int | None = None, step: int = 0, name: str | None = None,
        window: list[float] | None = None,
    ) -> None:  # fmt: skip
        """Show another key: by its number or its values as text, or the neighbour ``step`` keys away.

        ``window`` is the shown time; None for all.
        """
        self.board.set(self.board.timeline, {"busy": True})
        self.worker.submit(WINDOW, lambda turn: self._show_key(turn, partition, step, name, window))

    def show_kept_key(self) -> None:
        """Show the key from `keep_key`, while the query stays the same."""
        self.board.set(self.board.timeline, {"busy": True})
        if self.result is None:
            self._redraw()
        else:
            result = self.result
            self.worker.submit(WINDOW, lambda turn: self._draw_bands(turn, result))

    def find_keys(self, search: str, order: str, page: int) -> None:
        """Show a page of the keys that contain a text."""
        self.worker.submit(KEYS, lambda turn: self._find_keys(turn, search, order, page))

    def select_state(self, state: int | None) -> None:
        """Mark the events that lead to a state of the automaton, and their names; None to unmark them."""
        result = self.result_for("select_state")
        if state is not None:
            result.automaton.names_of(state)  # raises here rather than in the thread
        self.board.set(self.board.nfa, {"selected": state})
        self.worker.submit(MARK, lambda turn: self._mark(turn, result))

    def step_to(self, position: int) -> None:
        """Go to the moment after ``position`` events."""
        result = self.result_for("step_to")
        self.worker.submit(STEP, lambda turn: self._step(turn, result, position))

    def why_not(self, positions: Sequence[int]) -> None:
        """Show why events are not a match."""
        result, self.asked = self.result_for("why_not"), list(positions)
        asked = list(self.asked)
        self.worker.submit(REASONS, lambda turn: self._explain(turn, result, asked))

    def click(self, x: float | str) -> None:
        """Explain the event nearest to ``x`` with those clicked before; a second click removes it.

        For ``x`` see `Series.nearest`.
        """
        result = self.result
        if result is None:
            self.board.give_reasons("", note="write a query first")
            return
        series = result.series(self.partition)
        if not len(series):
            return
        position = series.position_of(series.nearest(x))
        kept = [one for one in self.asked if one != position]
        is_new = len(kept) == len(self.asked)
        asked = [*kept, position][-ROWS_NAMED:] if is_new else kept
        if asked:
            self.why_not(asked if result.is_sequence else asked[-1:])
        else:
            self.asked = []
            self.board.give_reasons("")
            self.board.set(self.board.timeline, {"asked": []})

    # --- jobs of the thread

    def _run(
        self, turn: Turn, program: Any, automaton: Automaton, notes: list[str], version: int, is_cold: bool
    ) -> None:
        began = time.perf_counter()
        events = self.data.events(program)
        checkpoint()
        if self.result is None and self._previewed is not events:
            self._draw_unmatched(turn, program, [])
        if self.result is None and is_cold and is_in_notebook():
            self.is_shown.wait(SHOWN_S)  # compilation would hold up the first picture

        def report(done: float) -> None:
            turn.deliver(lambda: self.board.say("running", "searching", progress=done))

        progress = ShareDone(events.n_events, report)
        result = Result(self.data, program, lambda: self.data.run(program, self.engine, progress), automaton)
        result.value = self.value
        if result.is_sequence:
            with collect_warnings() as heard:
                warn_of_unknown_types(program, events)
            notes = [*notes, *heard]
        if self.result is not None:
            result.take_series(self.result)
        notes = [*notes, *self._note_of_ties(program, events)]
        engine = choose_engine(program, self.engine)
        before = None if is_cold else self.result
        # First matches of a sequence are not worth their time if counting takes as little.
        is_quick = engine.name == "chain" and before is not None and before.took_s < QUICK_S
        is_open = not is_quick and result.open(engine, before)
        if is_open and (is_cold or engine.name != "chain"):  # the chain engine counts at once
            table, drawn = result.first_page(), self._bands_of(result)

            def show() -> None:
                self._show(result, table)
                self._show_bands(result, *drawn)
                if turn.is_newest:
                    self._say_counting(is_cold)
                    self.worker.submit(COUNT, lambda turn: self._count(turn, result, notes, version, began))

            turn.deliver(show)
            return
        if not (is_open or is_quick) and (look := result.first_look()) is not None:
            turn.deliver(lambda: self._show_look(look))
        result.count()
        checkpoint()
        took = time.perf_counter() - began
        soon = result.first_rows() if is_cold and not self.filters else None
        if is_open and self.order == CANONICAL and not self.filters:
            table = {**result.first_page(), **result.totals()}
        else:
            table = soon or self._first_page(result)

        def show_all() -> None:
            self._show(result, table)
            if turn.is_newest:
                self._say_done(result, notes, version, took)

        turn.deliver(show_all)
        if soon is not None:
            table = self._first_page(result)
            turn.deliver(lambda: self.board.set(self.board.table, table))
        drawn = self._bands_of(result)

        def show_bands() -> None:
            self._is_cold = False
            self._show_bands(result, *drawn)
            if turn.is_newest:
                self._submit_rest(result)

        turn.deliver(show_bands)

    def _note_of_ties(self, program: Any, events: Any) -> list[str]:
        """Return the note on events in no certain order, if there are such and the matches depend on it."""
        if not depends_on_ties(program.query):
            return []
        if self._tied is None or self._tied[0] is not events:
            self._tied = events, ties_in_words(program, self.data.source, events)
        return [self._tied[1]] if self._tied[1] else []

    def _count(self, turn: Turn, result: Result, notes: list[str], version: int, began: float) -> None:
        """Count the matches after the first ones are shown, and fill in the totals."""
        result.count()
        checkpoint()
        is_plain = self.order == CANONICAL and not self.filters
        counted = result.totals() if is_plain else self._first_page(result)
        took = time.perf_counter() - began

        def show() -> None:
            self.board.set(self.board.table, counted)
            self._say_done(result, notes, version, took)

        turn.deliver(show)
        if self._is_cold:
            result.warm_up(choose_engine(result.program, self.engine))
        checkpoint()
        drawn = self._bands_of(result)

        def show_bands() -> None:
            self._is_cold = False
            self._show_bands(result, *drawn)
            self._submit_rest(result)

        turn.deliver(show_bands)

    def _first_page(self, result: Result) -> dict[str, Any]:
        """Return the first page with the user's order and filters, as far as the result has their columns."""
        return result.pages.traits(1, result.pages.order_or_canonical(self.order), self.filters)

    def _bands_of(self, result: Result) -> tuple[int | None, dict, dict, dict]:
        """Return the partition to show, its timeline, its marks, and the trait of its key."""
        partition = self._partition_for(result)
        window = self._kept_window(result, partition)
        checkpoint()
        told = marks_of(result, self.board.nfa.selected, partition, window)
        return partition, result.timeline(partition, window), told, self._key_of(result, partition)

    def _draw_bands(self, turn: Turn, result: Result) -> None:
        drawn = self._bands_of(result)

        def show() -> None:
            self._show_bands(result, *drawn)
            if result.is_counted:
                self._submit_rest(result)

        turn.deliver(show)

    def _keys_of(self, program: Any, events: Any) -> Keys | None:
        """Return the keys of the frame by the key columns of a query, or None without keys."""
        by = program.query.partition_by
        if not by or not events.n_events:
            return None
        if self._keys is None or self._keys.by != by:
            self._keys = Keys(self.data.source, events, by)
        return self._keys

    def _key_of(self, result: Result, partition: int | None) -> dict[str, Any]:
        """Return the trait of a key of a result."""
        keys = self._keys_of(result.program, result.events)
        counts = result.counts_by_partition if result.is_counted else None
        return {} if keys is None else keys.describe(partition or 0, counts)

    def _kept_partition(self, program: Any, events: Any) -> int | None:
        """Return the key that the user chose, or None."""
        if self._kept_key is None or events.n_partitions < 2:
            return None
        by, partition, name = self._kept_key
        if by != program.query.partition_by:
            return None
        keys = self._keys_of(program, events) if partition is None else None
        return partition if keys is None else keys.partition_of(name)

    def _show_look(self, look: dict[str, Any]) -> None:
        self._has_looked = True
        self.board.set(self.board.table, look)
        self.board.say("running", f"found some matches, {look['total']}; finding all of them")

    def _partition_for(self, result: Result) -> int | None:
        """Return the key that the user chose.

        Without one, it is the shown key if it still has a match, otherwise the key of the first match.
        """
        if (kept := self._kept_partition(result.program, result.events)) is not None:
            return kept
        if self.partition is None or result.n_partitions < 2:
            return result.partition_of_first()
        is_same = self._drawn_events is result.events
        if is_same and not result.is_counted:
            return self.partition
        ends = result.ends if result.is_counted else result.opening.block.last
        is_shown = is_same or self._previewed is result.events
        if is_shown and (result.events.partition_of_event[ends] == self.partition).any():
            return self.partition
        return result.partition_of_first()

    def _kept_window(self, result: Result, partition: int | None) -> list[float] | None:
        window, extent = list(self.board.timeline.window), result.series(partition).extent
        is_same = list(self.board.timeline.view) == extent
        return window if window and is_same else None

    def _show(self, result: Result, table: dict) -> None:
        # A clicked event stays clicked when the query changes, if its position means the same event.
        if not _has_same_order(self.result, result):
            self.asked = []
        asked = self.asked if result.is_sequence else self.asked[-1:]
        self.result, self.all, self.chosen, self.asked = result, None, None, asked
        self._has_looked = False
        self.board.set(self.board.table, {"heads_busy": True, **table, "selected": None})
        self.board.set(self.board.timeline, {"points": [], "selected": None, "busy": True})
        self.board.set(self.board.nfa, {"lit": [], "live": []})
        self.board.set(self.board.funnel, {"busy": True})
        if not self.asked:
            self.board.give_reasons("")
        elif not result.is_counted:  # otherwise the new reasons follow soon
            self.board.give_reasons("", note="the reasons follow when all matches are counted")

    def _say_counting(self, is_cold: bool) -> None:
        compiling = "compiling a pattern of a new shape, then " if is_cold else ""
        self.board.say("running", f"the first matches are shown; {compiling}counting all of them")

    def _say_done(self, result: Result, notes: list[str], version: int, took: float) -> None:
        n = result.count()
        if not n and result.events.n_events:
            notes = [*notes, "click an event on the timeline to ask why"]
        said = (self.sampled, f"{count_of_matches(n)} in {took:.2f} s", *notes)
        self.board.say("done", "; ".join(part for part in said if part), version=version)
        self.run_ended(result.program, n, took)

    def _show_bands(
        self, result: Result, partition: int | None, timeline: dict, told: dict, key: dict
    ) -> None:
        self.partition, self._drawn_events = partition, result.events
        self._banded = result
        self.board.set(self.board.bar, {"key": key})
        kept = {} if list(self.board.timeline.view) == timeline["view"] else {"window": []}
        self.board.set(self.board.timeline, {**timeline, **kept, "busy": False})
        self.is_drawn.set()
        if not self.asked:
            self.board.set(self.board.timeline, {"asked": []})
        self._show_marks(told)

    def _submit_rest(self, result: Result) -> None:
        """Explain the clicked events, count the funnel, and restore the position of the stepper."""
        if self.asked:
            self.why_not(self.asked)
        for hear in self.when_counted:
            hear(result)
        self.worker.submit(FUNNEL, lambda turn: self._count_funnel(turn, result))
        self.worker.submit(LIST, lambda turn: self._draw_heads(turn, result))
        self.worker.submit(STEP, lambda turn: self._step(turn, result, self.board.stepper.position))
        self._submit_notes()

    def _select(self, turn: Turn, result: Result, number: int) -> None:
        chosen = result.choose(number)
        partition = chosen.partition if result.n_partitions > 1 else None
        table, order = None, self.board.table.order
        if str(chosen.number) not in self.board.table.numbers:
            result.count()
            page = result.pages.page_of(chosen.number, order, self.filters)
            table = None if page is None else result.pages.traits(page, order, self.filters)
        checkpoint()
        timeline = None if partition == self.partition else result.timeline(partition)
        told = None if timeline is None else marks_of(result, self.board.nfa.selected, partition, None)
        points = result.points(chosen, partition)
        stepping, key = result.stepping(partition), self._key_of(result, partition)
        position = stepping.index_of(chosen.positions[-1]) + 1

        def show() -> None:
            if self.partition != partition:
                self._kept_key = None
            self.chosen, self.partition = chosen, partition
            self.board.set(self.board.bar, {"key": key})
            self.board.set(self.board.table, {**(table or {}), "selected": str(chosen.number)})
            self._forget_other_keys(result, partition)
            more = {} if timeline is None else {**timeline, "window": [], "busy": False}
            self.board.set(self.board.timeline, {**more, "points": points, "selected": chosen.number})
            self.board.nfa.lit = list(chosen.states)
            if told is not None:
                self._show_marks(told)
                self.board.set(
                    self.board.timeline, {"asked": places_of_events(result, self.asked, partition)}
                )
            self.worker.submit(STEP, lambda turn: self._step(turn, result, position))

        turn.deliver(show)

    def _turn_page(self, turn: Turn, result: Result, page: int, order: str) -> None:
        result = self.result or result  # a newer result may have come meanwhile
        result.count()
        checkpoint()
        table = result.pages.traits(page, result.pages.order_or_canonical(order), self.filters)
        turn.deliver(lambda: self.board.set(self.board.table, table))

    def _draw_heads(self, turn: Turn, result: Result) -> None:
        """List the matches, which makes orders and filters quick, and draw the histograms."""
        heads = result.pages.heads(self.filters)
        turn.deliver(lambda: self.board.set(self.board.table, heads))

    def _redraw(self) -> None:
        result, window = self.result, list(self.board.timeline.window)
        if result is None:
            program = self.unmatched
            self.worker.submit(WINDOW, lambda turn: self._draw_unmatched(turn, program, window))
        else:
            result.value = self.value
            self.worker.submit(WINDOW, lambda turn: self._draw(turn, result, window))

    def _draw(self, turn: Turn, result: Result, window: list[float]) -> None:
        partition, chosen = self.partition, self.chosen
        timeline = result.timeline(partition, window)
        checkpoint()
        told = marks_of(result, self.board.nfa.selected, partition, window)
        if chosen is not None:
            timeline["points"] = result.points(chosen, partition)
        timeline["asked"] = places_of_events(result, self.asked, partition)

        def show() -> None:
            self.board.set(self.board.timeline, {**timeline, "busy": False})
            self._show_marks(told)

        turn.deliver(show)

    def _draw_unmatched(self, turn: Turn, program: Any, window: list[float]) -> None:
        events, source = self.data.events(program), self.data.source
        checkpoint()
        keys = self._keys_of(program, events)
        partition = self._kept_partition(program, events)
        if partition is None and keys is not None and events.n_partitions > 1:
            partition = int(keys.partitions[0])
        series = series_of(program, source, events, partition, self.value)
        choices = drawable(program, source)
        told = {"choices": choices, "value": series.y_label if choices else "", "busy": False}
        timeline = {**describe(series, window), **told}
        key = {} if keys is None else keys.describe(partition or 0)

        def show() -> None:
            self.partition, self._previewed = partition, events
            kept = {} if list(self.board.timeline.view) == timeline["view"] else {"window": []}
            self.board.set(self.board.timeline, {**timeline, **kept})
            self.board.set(self.board.bar, {"key": key})
            self.is_drawn.set()
            self._submit_notes()

        turn.deliver(show)

    def _submit_notes(self) -> None:
        """Describe the values of the columns, once; this reads all columns of texts."""
        if not self._has_notes:
            self.worker.submit(NOTES, self._describe_columns)

    def _describe_columns(self, turn: Turn) -> None:
        columns = self.data.columns()

        def show() -> None:
            self._has_notes = True
            self.board.set(self.board.editor, {"columns": columns})

        turn.deliver(show)

    def _show_key(
        self, turn: Turn, partition: int | None, step: int, name: str | None, window: list[float] | None
    ) -> None:
        result, program = self.result, self.unmatched if self.result is None else self.result.program
        keys = None if program is None else self._keys_of(program, self.data.events(program))
        if keys is None:
            raise CepError("show_key: the data has no keys; choose key columns first")
        if name is not None:
            partition = keys.partition_of(name)
            if partition is None:
                raise CepError(f"show_key: there is no key {name!r}")
        elif partition is None:
            partition = keys.neighbour(self.partition, step)
        before = None if self.partition is None else (keys.by, keys.name_of(self.partition))
        self._kept_key = keys.by, partition, keys.name_of(partition)
        self.key_chosen(before)
        if result is None:
            self._draw_unmatched(turn, program, [])
            return
        shown = partition if result.n_partitions > 1 else None
        timeline = result.timeline(shown, window)
        checkpoint()
        told = marks_of(result, self.board.nfa.selected, shown, window)
        asked, key = places_of_events(result, self.asked, shown), self._key_of(result, shown)

        def show() -> None:
            if self.chosen is not None and shown is not None and self.chosen.partition != shown:
                self.select(None)
            self.partition = shown
            self._forget_other_keys(result, shown)
            more = {"asked": asked, "window": window or [], "busy": False}
            self.board.set(self.board.timeline, {**timeline, **more})
            self._show_marks(told)
            self.board.set(self.board.bar, {"key": key})
            self.worker.submit(STEP, lambda turn: self._step(turn, result, 0))

        turn.deliver(show)

    def _forget_other_keys(self, result: Result, partition: int | None) -> None:
        """Hide the reasons of clicked events of another key than the shown one; the events stay chosen."""
        own = result.events.partition_of_event
        if self.asked and partition is not None and int(own[self.asked[-1]]) != partition:
            self.board.give_reasons("")

    def _find_keys(self, turn: Turn, search: str, order: str, page: int) -> None:
        result, program = self.result, self.unmatched if self.result is None else self.result.program
        keys = None if program is None else self._keys_of(program, self.data.events(program))
        if keys is None:
            return
        counts = result.counts_by_partition if result is not None and result.is_counted else None
        found = keys.find(search, order, page, self.partition, counts)
        turn.deliver(lambda: self.board.set(self.board.bar, {"found": found}))

    def _mark(self, turn: Turn, result: Result) -> None:
        told = marks_of(result, self.board.nfa.selected, self.partition, list(self.board.timeline.window))
        turn.deliver(lambda: self._show_marks(told))

    def _show_marks(self, told: dict[str, Any]) -> None:
        self.board.set(
            self.board.timeline, {"marks": told["marks"], "mark_label": " or ".join(told["names"])}
        )
        self.board.set(self.board.editor, {"marked": told["names"]})
        self.board.set(self.board.nfa, {"told": told["told"]})

    def _step(self, turn: Turn, result: Result, position: int) -> None:
        if position == NEXT_MATCH:
            result.count()
        stepping = result.stepping(self.partition)
        if position == NEXT_MATCH:
            position = stepping.next_match(self.board.stepper.position)
        position = min(max(position, 0), stepping.n)
        traits = moment_traits(result, stepping, position, self.sampled)
        place = [stepping.position_of(position - 1)] if position else []
        cursor = next(iter(result.places(place, self.partition)[:, 0].tolist()), None)

        def show() -> None:
            self.board.set(self.board.stepper, traits)
            self.board.nfa.live = [{"state": one["state"], "n": one["n"]} for one in traits["live"]]
            self.board.timeline.cursor = cursor

        turn.deliver(show)

    def _explain(self, turn: Turn, result: Result, positions: list[int]) -> None:
        traits = reason_traits(result, positions)
        asked = places_of_events(result, self.asked, self.partition)

        def show() -> None:
            self._explained = result
            self.board.set(self.board.reasons, traits)
            self.board.set(self.board.timeline, {"asked": asked})

        turn.deliver(show)

    def _count_funnel(self, turn: Turn, result: Result) -> None:
        for stages, is_final in funnels(result):
            traits = {"stages": stages, "busy": not is_final}
            if [one["label"] for one in stages] != [one["label"] for one in self.board.funnel.stages]:
                traits["selected"] = None
            turn.deliver(lambda traits=traits: self.board.set(self.board.funnel, traits))

    def _run_on_all(self, turn: Turn, spark_frame: Any, value: Any, version: int) -> None:
        began = time.perf_counter()
        with collect_warnings() as notes:
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
            "limit_note": f"the first {len(frame)} matches in all rows; explorer.matches has the others",
            "selected": None, "can_filter": False, "filtered": "", "heads": {}, "heads_busy": False,
        }  # fmt: skip
        took = time.perf_counter() - began

        def show() -> None:
            self.all = matches
            self.board.set(self.board.table, table)
            found = f"{count_of_matches(n)} in all rows, in {took:.1f} s"
            notes.append("timeline, funnel and steps show the sample")
            self.board.say("done", "; ".join([found, *notes]), version=version)

        turn.deliver(show)

    def _rest(self) -> None:
        """Say that no part of the board is being computed."""
        for widget in (self.board.table, self.board.timeline, self.board.funnel):
            self.board.set(widget, {"busy": False})

    def _show_failure(self, turn: Turn, error: BaseException) -> None:
        """Show the error of a job; the thread calls it."""
        if turn.is_cancelled:
            return
        self._rest()
        if not self.is_drawn.is_set():
            self.board.set(self.board.timeline, {"sampled": f"the events cannot be drawn: {error}"})
        if self.board.table.total == COUNTING:
            self.board.set(self.board.table, {"total": NOT_COUNTED})
        if turn.kind in (RUN, COUNT):
            if self._explained is not self.result:
                self.board.give_reasons("")
            self.board.say("failed", f"{type(error).__name__}: {error}"[:2000])
        elif turn.kind == LIST:
            self.board.set(self.board.table, {"heads": {}, "heads_busy": False})
        elif turn.kind == FUNNEL:
            self.board.funnel.stages = [
                {"label": f"no funnel: {error}", "n": "", "share": 0.0, "selectivity": None, "note": ""}
            ]
        else:
            self.board.give_reasons(str(error).split("\n")[0], note=type(error).__name__)


def is_in_notebook() -> bool:
    """Return whether this process is the kernel of a notebook."""
    shell = sys.modules.get("IPython") and sys.modules["IPython"].get_ipython()
    return getattr(shell, "kernel", None) is not None


def _message(is_cold: bool) -> str:
    return "compiling a pattern of a new shape" if is_cold else "searching"


def _has_same_order(before: Result | None, after: Result) -> bool:
    """Return whether the events of two results have the same positions in the stream."""
    if before is None or before.events.n_events != after.events.n_events:
        return False
    return before.program.query.order_by == after.program.query.order_by
