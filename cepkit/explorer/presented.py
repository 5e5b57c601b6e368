"""What a board shows: its answers about matches, its keys and its timeline, filled in the background."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from cepkit.errors import CepError
from cepkit.explorer.board import Board
from cepkit.explorer.running.data import BY_NAME, Keys, SearchedFrame
from cepkit.explorer.running.result import Chosen, Result
from cepkit.explorer.running.series import describe, drawable, series_of
from cepkit.explorer.running.timeline import marks_of, places_of_events, timeline_traits
from cepkit.explorer.running.worker import Turn, Worker
from cepkit.explorer.traits import funnels, moment_traits, reason_traits
from cepkit.progress import checkpoint
from cepkit.results.matches import Matches, SparkMatches
from cepkit.values import dataclass
from cepkit.widgets.panels import NEXT_MATCH

# Jobs of the thread, the most urgent first. The last five give way to the others; the last four begin late.
KINDS = (
    "run", "select", "page", "window", "keys", "mark", "reasons", "cases", "step", "list", "funnel", "notes",
    "still",
)  # fmt: skip
RUN, SELECT, PAGE_OF, WINDOW, KEYS, MARK, REASONS, CASES, STEP, LIST, FUNNEL, NOTES, STILL = KINDS
SHOWN = 4  # cells whose stills are drawn again
CALM_S = 1.0  # a still is drawn after this time without other work: meanwhile nothing else can run
OF_MATCHES = KINDS[: KINDS.index(STEP)]  # all jobs except steps, histograms and the funnel
N_MODEST, N_LATE = 5, 4
SENT_S = 0.03  # matches reach the page in this time; then the timeline, histograms and the funnel follow


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
        self.stills: deque[Callable[[], None]] = deque(maxlen=SHOWN)  # each draws a still again
        self.is_awaited = threading.Event()  # whether a cell waits until nothing is left to do

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
        self.renew_stills()

    def renew_stills(self) -> None:
        """Draw the stills of the shown cells again, when nothing else is left to do."""
        if self.stills:
            self.worker.submit(STILL, self._renew)

    def _renew(self, turn: Turn) -> None:
        """Draw the pictures for pages without a kernel again, once the user is calm."""
        calm = time.monotonic() + CALM_S
        while time.monotonic() < calm and not self.is_awaited.wait(0.02):
            checkpoint()
        for renew in list(self.stills):
            renew()
            checkpoint()


# The answers on a board about its matches: moments of the stepper, reasons, the funnel, notes on columns.

ROWS_NAMED = 8  # most clicked rows that are explained together


class AnswerPresenter:
    """Shows moments, reasons, the funnel and notes on columns."""

    def __init__(self, shown: Shown):
        self._shown, self._board = shown, shown.board
        self._explained: Result | None = None  # the result of the shown reasons
        self._has_notes = False  # whether the columns in the editor have notes
        shown.when_counted.append(self._follow)

    def _follow(self, result: Result) -> None:
        """Explain the clicked events, count the funnel, and restore the position of the stepper."""
        if self._shown.asked:
            self.why_not(self._shown.asked)
        self._shown.worker.submit(FUNNEL, lambda turn: self._count_funnel(turn, result))
        self.step(result, self._board.stepper.position)
        self.submit_notes()

    # --- moments

    def step_to(self, position: int) -> None:
        """Go to the moment after ``position`` events."""
        self.step(self._shown.result_for("step_to"), position)

    def step(self, result: Result, position: int) -> None:
        """Show the moment after ``position`` events of a result."""
        self._shown.worker.submit(STEP, lambda turn: self._step(turn, result, position))

    def _step(self, turn: Turn, result: Result, position: int) -> None:
        """Show the moment after the event at a position."""
        shown, board = self._shown, self._board
        stepping = result.stepping(shown.partition)
        if position == NEXT_MATCH:
            position = stepping.next_match(board.stepper.position)
        position = min(max(position, 0), stepping.n)
        traits = moment_traits(result, stepping, position, shown.sampled)
        place = [stepping.position_of(position - 1)] if position else []
        cursor = next(iter(result.places(place, shown.partition)[:, 0].tolist()), None)

        def show() -> None:
            board.set(board.stepper, traits)
            live = [{"state": entry["state"], "n": entry["n"]} for entry in traits["live"]]
            board.set(board.nfa, {"live": live})
            board.set(board.timeline, {"cursor": cursor})

        turn.deliver(show)

    # --- reasons

    def why_not(self, positions: Sequence[int]) -> None:
        """Show why events are not a match."""
        result, asked = self._shown.result_for("why_not"), list(positions)
        n = result.events.n_events
        odd = next((position for position in asked if not 0 <= position < n), None)
        if odd is not None:
            raise CepError(f"why_not: no event has the position {odd:,}; there are {n:,}, numbered from 0")
        self._shown.asked = list(positions)
        self._shown.worker.submit(REASONS, lambda turn: self._explain(turn, result, asked))

    def click(self, x: float | str) -> None:
        """Explain the event nearest to ``x`` with those clicked before; a second click removes it."""
        result = self._shown.result
        if result is None:
            self._board.give_reasons("", note="write a query first")
            return
        series = result.series(self._shown.partition)
        if not len(series):
            return
        position = series.position_of(series.nearest(x))
        kept = [clicked for clicked in self._shown.asked if clicked != position]
        is_new = len(kept) == len(self._shown.asked)
        asked = [*kept, position][-ROWS_NAMED:] if is_new else kept
        if asked:
            self.why_not(asked if result.takes_several else asked[-1:])
        else:
            self._shown.asked = []
            self._board.give_reasons("")
            self._board.set(self._board.timeline, {"asked": []})

    def _explain(self, turn: Turn, result: Result, positions: list[int]) -> None:
        """Show why some rows are no match."""
        traits = reason_traits(result, positions)
        asked = places_of_events(result, self._shown.asked, self._shown.partition)

        def show() -> None:
            self._explained = result
            self._board.set(self._board.reasons, traits)
            self._board.set(self._board.timeline, {"asked": asked})

        turn.deliver(show)

    def take(self, result: Result) -> None:
        """Keep the clicked events for a new result if their positions mean the same events."""
        if not _has_same_order(self._shown.result, result):
            self._shown.asked = []
        self._shown.asked = self._shown.asked if result.takes_several else self._shown.asked[-1:]
        if not self._shown.asked:
            self._board.give_reasons("")

    def hide_other_keys(self, result: Result, partition: int | None) -> None:
        """Hide the reasons of clicked events of another key than the shown one; the events stay chosen."""
        partition_of_event, asked = result.events.partition_of_event, self._shown.asked
        if asked and partition is not None and int(partition_of_event[asked[-1]]) != partition:
            self._board.give_reasons("")

    def hide_old(self) -> None:
        """Hide reasons that belong to an earlier result."""
        if self._explained is not self._shown.result:
            self._board.give_reasons("")

    # --- the funnel and the columns

    def _count_funnel(self, turn: Turn, result: Result) -> None:
        """Show the funnel of a result, stage by stage."""
        board = self._board
        for stages, is_final in funnels(result):
            traits = {"stages": stages, "busy": not is_final}
            if [stage["label"] for stage in stages] != [stage["label"] for stage in board.funnel.stages]:
                traits["selected"] = None
            turn.deliver(lambda traits=traits: board.set(board.funnel, traits))

    def submit_notes(self) -> None:
        """Describe the values of the columns, once; this reads all columns of texts."""
        if not self._has_notes:
            self._shown.worker.submit(NOTES, self._describe_columns)

    def _describe_columns(self, turn: Turn) -> None:
        """Show what each column holds."""
        columns = self._shown.data.columns()

        def show() -> None:
            self._has_notes = True
            self._board.set(self._board.editor, {"columns": columns})

        turn.deliver(show)


def _has_same_order(before: Result | None, after: Result) -> bool:
    """Return whether the events of two results have the same positions in the stream."""
    if before is None or before.events.n_events != after.events.n_events:
        return False
    return before.program.query.order_by == after.program.query.order_by


class KeyPresenter:
    """Knows the keys of the frame and the one that the user chose, and shows pages of their list."""

    def __init__(self, shown: Shown):
        self._shown = shown
        self.chosen: Callable[[tuple | None], object] = lambda before: None  # gets the key before
        # Key columns, key and name of the key that the user chose; the key is None until it is looked up.
        self._kept: tuple[tuple[str, ...], int | None, str] | None = None
        self._keys: Keys | None = None
        self.order = BY_NAME  # of the list of keys, as the user chose it

    # --- the chosen key

    @property
    def kept(self) -> tuple[tuple[str, ...], str] | None:
        """The key columns and the name of the key that the user chose, or None."""
        return self._kept and (self._kept[0], self._kept[2])

    def keep(self, key: tuple[tuple[str, ...], str] | None) -> None:
        """Keep a key by its columns and name, or none; the next picture of the timeline shows it."""
        self._kept = None if key is None else (key[0], None, key[1])
        if key is None:
            self._shown.partition = None

    def forget(self) -> None:
        """Let the matches determine the key; the shown key stays."""
        self._kept = None

    def kept_partition(self, program: Any, events: Any) -> int | None:
        """Return the key that the user chose, or None."""
        if self._kept is None or events.n_partitions < 2:
            return None
        by, partition, name = self._kept
        if by != program.query.partition_by:
            return None
        keys = self.of(program, events) if partition is None else None
        return partition if keys is None else keys.partition_of(name)

    def choose(self, partition: int | None, step: int, name: str | None) -> int:
        """Keep a key as the user's choice and return it."""
        program = self._shown.program
        keys = None if program is None else self.of(program, self._shown.data.events(program))
        if keys is None:
            raise CepError("show_key: the data has no keys; choose key columns first")
        now = self._shown.partition
        if name is not None:
            partition = keys.partition_of(name)
            if partition is None:
                raise CepError(f"show_key: there is no key {name!r}")
        elif partition is None:
            partition = keys.neighbour(now, step)
        before = self.name_of_shown()
        self._kept = keys.by, partition, keys.name_of(partition)
        self.chosen(before)
        return partition

    def name_of_shown(self) -> tuple[tuple[str, ...], str] | None:
        """Return the key columns and the name of the shown key; None without keys."""
        program, now = self._shown.program, self._shown.partition
        keys = None if program is None else self.of(program, self._shown.data.events(program))
        return None if keys is None or now is None else (keys.by, keys.name_of(now))

    # --- all keys

    def of(self, program: Any, events: Any) -> Keys | None:
        """Return the keys of the frame by the key columns of a query, or None without keys."""
        by = program.query.partition_by
        if not by or not events.n_events:
            return None
        if self._keys is None or self._keys.by != by:
            self._keys = Keys(self._shown.data.source, events, by)
        return self._keys

    def trait_of(self, result: Result, partition: int | None) -> dict[str, Any]:
        keys = self.of(result.program, result.events)
        return {} if keys is None else keys.describe(partition or 0, result.counts_by_partition)

    def keep_order(self, order: str) -> None:
        """Keep an order for the list of keys, which the next page has."""
        self.order = order
        self._shown.board.set(self._shown.board.bar, {"found": {"order": order}})

    def find(self, search: str, order: str, page: int) -> None:
        """Show a page of the keys that contain a text."""
        self.order = order
        self._shown.worker.submit(KEYS, lambda turn: self._find(turn, search, order, page))

    def _find(self, turn: Turn, search: str, order: str, page: int) -> None:
        """Show a page of the keys that contain a text."""
        shown, board = self._shown, self._shown.board
        result, program = shown.result, shown.program
        keys = None if program is None else self.of(program, shown.data.events(program))
        if keys is None:
            return
        counts = None if result is None else result.counts_by_partition
        page_of_keys = keys.find(search, order, page, shown.partition, counts)
        turn.deliver(lambda: board.set(board.bar, {"found": page_of_keys}))


@dataclass(frozen=True)
class DrawnKey:
    """A drawn key of a result: the traits of the timeline, of its marks, and of the key."""

    partition: int | None
    timeline: dict[str, Any]
    marks: dict[str, Any]
    key: dict[str, Any]


class TimelinePresenter:
    """Draws the timeline of a key: of the user's key, or of one with matches."""

    def __init__(self, shown: Shown, keys: KeyPresenter, answers: AnswerPresenter):
        self._shown, self._board, self._keys, self._answers = shown, shown.board, keys, answers
        self.is_drawn = threading.Event()  # whether the timeline shows events
        self._drawn_events: Any = None  # the events of the shown timeline
        self.previewed: Any = None  # the events of the timeline before the first result
        self._banded: Result | None = None  # the result whose matches the timeline shows

    # --- wishes

    def zoom(self, window: Sequence[float]) -> None:
        """Show a window of the axis; an empty window shows all."""
        if self._shown.program is None:
            self._shown.result_for("zoom")
        self._board.set(self._board.timeline, {"window": [float(bound) for bound in window], "busy": True})
        self._redraw()

    def show_value(self, name: str | None) -> None:
        """Show another column on the timeline; None for the one that the query determines."""
        self._shown.value = name
        traits = {"busy": True} if name is None else {"value": name, "busy": True}
        self._board.set(self._board.timeline, traits)
        self._redraw()

    def preview(self, program: Any) -> None:
        """Show the events in the order of ``program`` while there is no result."""
        self._shown.unmatched = program
        self._redraw()

    def show_key(
        self, partition: int | None = None, step: int = 0, name: str | None = None,
        window: list[float] | None = None,
    ) -> None:  # fmt: skip
        """Show another key: by its number or its values as text, or the neighbour ``step`` keys away."""
        self._submit(lambda turn: self._show_key(turn, partition, step, name, window))

    def show_kept_key(self) -> None:
        """Show the key from `KeyPresenter.keep`, while the query stays the same."""
        self._board.set(self._board.timeline, {"busy": True})
        if self._shown.result is None:
            self._redraw()
        else:
            self._draw_again(self._shown.result)

    def select_state(self, state: int | None) -> None:
        """Mark the events that lead to a state of the automaton, and their names; None to unmark them."""
        result = self._shown.result_for("select_state")
        if state is not None:
            result.automaton.names_of(state)  # raises here rather than in the thread
        self._board.set(self._board.nfa, {"selected": state})
        self._shown.worker.submit(MARK, lambda turn: self._mark(turn, result))

    def return_to_result(self) -> None:
        """Show the events, or the bands of the last result, after a run that was stopped."""
        result = self._shown.result
        if result is None and not self.is_drawn.is_set() and self._shown.unmatched is not None:
            self._board.set(self._board.timeline, {"busy": True})
            self._redraw()
        if result is not None and self._banded is not result:  # the table shows it, the timeline does not yet
            self._draw_again(result)

    def _submit(self, job: Any) -> None:
        self._board.set(self._board.timeline, {"busy": True})
        self._shown.worker.submit(WINDOW, job)

    def _draw_again(self, result: Result) -> None:
        self._submit(lambda turn: self._draw_bands(turn, result))

    def _redraw(self) -> None:
        """Draw the timeline again for its window."""
        result, window = self._shown.result, list(self._board.timeline.window)
        if result is None:
            program = self._shown.unmatched
            self._shown.worker.submit(WINDOW, lambda turn: self.draw_unmatched(turn, program, window))
        else:
            result.value = self._shown.value
            self._shown.worker.submit(WINDOW, lambda turn: self._draw(turn, result, window))

    # --- the key of a new result

    def draw(self, result: Result) -> DrawnKey:
        """Return the picture of a new result: of the user's key, or of one with matches."""
        partition = self._partition_for(result)
        window = list(self._board.timeline.window)
        is_same = list(self._board.timeline.view) == result.series(partition).extent
        return self.draw_key(result, partition, window if window and is_same else None)

    def show(self, result: Result, drawn: DrawnKey) -> None:
        board = self._board
        self._shown.partition, self._drawn_events = drawn.partition, result.events
        self._banded = result
        board.set(board.bar, {"key": drawn.key})
        board.set(board.timeline, {**drawn.timeline, **self._window_for(drawn.timeline), "busy": False})
        self.is_drawn.set()
        if not self._shown.asked:
            board.set(board.timeline, {"asked": []})
        self._show_marks(drawn.marks)

    def _partition_for(self, result: Result) -> int | None:
        """Return the user's key, else the shown key if it has a match, else the key of the first match."""
        if (kept := self._keys.kept_partition(result.program, result.events)) is not None:
            return kept
        partition = self._shown.partition
        if partition is None or result.n_partitions < 2:
            return result.partition_of_first()
        is_shown = result.events is self._drawn_events or result.events is self.previewed
        if is_shown and (result.events.partition_of_event[result.ends] == partition).any():
            return partition
        return result.partition_of_first()

    def _window_for(self, timeline: dict[str, Any]) -> dict[str, Any]:
        """Return the trait that shows the whole axis, if the axis is another one."""
        return {} if list(self._board.timeline.view) == timeline["view"] else {"window": []}

    # --- jobs of the thread

    def _draw_bands(self, turn: Turn, result: Result) -> None:
        """Draw the bands of a new result."""
        drawn = self.draw(result)

        def show() -> None:
            self.show(result, drawn)
            match = self._shown.chosen
            if match is not None and drawn.partition is not None and match.partition != drawn.partition:
                self._shown.unselect()
            self._shown.tell_counted(result)

        turn.deliver(show)

    def _draw(self, turn: Turn, result: Result, window: list[float]) -> None:
        """Draw the timeline of a result in a window of time."""
        partition, chosen = self._shown.partition, self._shown.chosen
        timeline = timeline_traits(result, partition, window)
        checkpoint()
        marks = self._marks(result, partition, window)
        if chosen is not None:
            timeline["points"] = result.points(chosen, partition)
        timeline["asked"] = places_of_events(result, self._shown.asked, partition)

        def show() -> None:
            self._board.set(self._board.timeline, {**timeline, "busy": False})
            self._show_marks(marks)

        turn.deliver(show)

    def draw_unmatched(self, turn: Turn, program: Any, window: list[float]) -> None:
        """Show the events of a program without matches."""
        data, board = self._shown.data, self._board
        events = data.events(program)
        checkpoint()
        keys = self._keys.of(program, events)
        partition = self._keys.kept_partition(program, events)
        if partition is None and keys is not None and events.n_partitions > 1:
            partition = int(keys.partitions[0])
        series = series_of(program, data.source, events, partition, self._shown.value)
        choices = drawable(program, data.source)
        choice_traits = {"choices": choices, "value": series.y_label if choices else "", "busy": False}
        timeline = {**describe(series, window), **choice_traits}
        key = {} if keys is None else keys.describe(partition or 0)

        def show() -> None:
            self._shown.partition, self.previewed = partition, events
            board.set(board.timeline, {**timeline, **self._window_for(timeline)})
            board.set(board.bar, {"key": key})
            self.is_drawn.set()
            self._answers.submit_notes()

        turn.deliver(show)

    def _show_key(
        self, turn: Turn, partition: int | None, step: int, name: str | None, window: list[float] | None
    ) -> None:
        """Show the timeline of another key."""
        result = self._shown.result
        chosen = self._keys.choose(partition, step, name)
        if result is None:
            self.draw_unmatched(turn, self._shown.unmatched, [])
            return
        partition = chosen if result.n_partitions > 1 else None
        drawn = self.draw_key(result, partition, window)
        asked = places_of_events(result, self._shown.asked, partition)

        def show() -> None:
            match = self._shown.chosen
            if match is not None and partition is not None and match.partition != partition:
                self._shown.unselect()
            self.show_key_of(result, drawn, {"asked": asked, "window": window or []})
            self._answers.step(result, 0)

        turn.deliver(show)

    # --- another key of the same result

    def draw_key(self, result: Result, partition: int | None, window: list[float] | None = None) -> DrawnKey:
        timeline = timeline_traits(result, partition, window)
        checkpoint()
        marks = self._marks(result, partition, window)
        return DrawnKey(partition, timeline, marks, self._keys.trait_of(result, partition))

    def show_key_of(self, result: Result, drawn: DrawnKey, more: dict[str, Any]) -> None:
        """Show the picture of a key, with further traits of the timeline."""
        self._shown.partition = drawn.partition
        self._answers.hide_other_keys(result, drawn.partition)
        self._board.set(self._board.timeline, {**drawn.timeline, **more, "busy": False})
        self._show_marks(drawn.marks)
        self._board.set(self._board.bar, {"key": drawn.key})

    # --- marks

    def _marks(self, result: Result, partition: int | None, window: list[float] | None) -> dict[str, Any]:
        return marks_of(result, self._board.nfa.selected, partition, window)

    def _mark(self, turn: Turn, result: Result) -> None:
        marks = self._marks(result, self._shown.partition, list(self._board.timeline.window))
        turn.deliver(lambda: self._show_marks(marks))

    def _show_marks(self, marks: dict[str, Any]) -> None:
        board = self._board
        board.set(board.timeline, {"marks": marks["marks"], "mark_label": " or ".join(marks["names"])})
        board.set(board.editor, {"marked": marks["names"]})
        board.set(board.nfa, {"told": marks["told"]})
