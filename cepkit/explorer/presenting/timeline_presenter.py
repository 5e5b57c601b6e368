"""The timeline on a board: events, bands of matches, marks of a state, and the shown key."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from cepkit.errors import CepError
from cepkit.explorer.presenting.answer_presenter import AnswerPresenter
from cepkit.explorer.presenting.shown import KEYS, MARK, WINDOW, Shown
from cepkit.explorer.running.data import BY_NAME, Keys
from cepkit.explorer.running.result import Result
from cepkit.explorer.running.series import describe, drawable, series_of
from cepkit.explorer.running.timeline import marks_of, places_of_events, timeline_traits
from cepkit.explorer.running.worker import Turn
from cepkit.progress import checkpoint

# The keys on a board: which key the user chose, its trait, and the list of keys.


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
        """Keep a key as the user's choice and return it.

        The user gives its number, its name, or its distance ``step`` to the shown key.

        """
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
        """Return the trait of a key of a result."""
        keys = self.of(result.program, result.events)
        counts = result.counts_by_partition if result.is_counted else None
        return {} if keys is None else keys.describe(partition or 0, counts)

    def keep_order(self, order: str) -> None:
        """Keep an order for the list of keys, which the next page has."""
        self.order = order
        self._shown.board.set(self._shown.board.bar, {"found": {"order": order}})

    def find(self, search: str, order: str, page: int) -> None:
        """Show a page of the keys that contain a text."""
        self.order = order
        self._shown.worker.submit(KEYS, lambda turn: self._find(turn, search, order, page))

    def _find(self, turn: Turn, search: str, order: str, page: int) -> None:
        shown, board = self._shown, self._shown.board
        result, program = shown.result, shown.program
        keys = None if program is None else self.of(program, shown.data.events(program))
        if keys is None:
            return
        counts = result.counts_by_partition if result is not None and result.is_counted else None
        page_of_keys = keys.find(search, order, page, shown.partition, counts)
        turn.deliver(lambda: board.set(board.bar, {"found": page_of_keys}))


# The timeline on a board: events, bands of matches, marks of a state, and the shown key.


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
        self._previewed: Any = None  # the events of the timeline before the first result
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
        """Show another key: by its number or its values as text, or the neighbour ``step`` keys away.

        ``window`` is the shown time; None for all.

        """
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
        return self.draw_key(result, partition, self._kept_window(result, partition))

    def show(self, result: Result, drawn: DrawnKey) -> None:
        """Show the picture of a new result."""
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
        """Return the key that the user chose.

        Without one, it is the shown key if it still has a match, otherwise the key of the first match.

        """
        if (kept := self._keys.kept_partition(result.program, result.events)) is not None:
            return kept
        partition = self._shown.partition
        if partition is None or result.n_partitions < 2:
            return result.partition_of_first()
        is_same = self._drawn_events is result.events
        if is_same and not result.is_counted:
            return partition
        ends = result.ends if result.is_counted else result.opening.block.last
        is_shown = is_same or self._previewed is result.events
        if is_shown and (result.events.partition_of_event[ends] == partition).any():
            return partition
        return result.partition_of_first()

    def _kept_window(self, result: Result, partition: int | None) -> list[float] | None:
        window, extent = list(self._board.timeline.window), result.series(partition).extent
        is_same = list(self._board.timeline.view) == extent
        return window if window and is_same else None

    def _window_for(self, timeline: dict[str, Any]) -> dict[str, Any]:
        """Return the trait that shows the whole axis, if the axis is another one."""
        return {} if list(self._board.timeline.view) == timeline["view"] else {"window": []}

    # --- jobs of the thread

    def _draw_bands(self, turn: Turn, result: Result) -> None:
        drawn = self.draw(result)

        def show() -> None:
            self.show(result, drawn)
            match = self._shown.chosen
            if match is not None and drawn.partition is not None and match.partition != drawn.partition:
                self._shown.unselect()
            if result.is_counted:
                self._shown.tell_counted(result)

        turn.deliver(show)

    def _draw(self, turn: Turn, result: Result, window: list[float]) -> None:
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

    def is_previewed(self, events: Any) -> bool:
        """Return whether the timeline shows these events without matches."""
        return self._previewed is events

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
            self._shown.partition, self._previewed = partition, events
            board.set(board.timeline, {**timeline, **self._window_for(timeline)})
            board.set(board.bar, {"key": key})
            self.is_drawn.set()
            self._answers.submit_notes()

        turn.deliver(show)

    def _show_key(
        self, turn: Turn, partition: int | None, step: int, name: str | None, window: list[float] | None
    ) -> None:
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
        """Return the picture of a key of a result."""
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
