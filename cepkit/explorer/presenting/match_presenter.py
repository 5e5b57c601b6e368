"""The selected match of a board: in the table, on the timeline, in the automaton and in the stepper."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cepkit.explorer.marks import places_of_events
from cepkit.explorer.presenting.answer_presenter import AnswerPresenter
from cepkit.explorer.presenting.key_presenter import KeyPresenter
from cepkit.explorer.presenting.shown import SELECT, Shown
from cepkit.explorer.presenting.table_presenter import TablePresenter
from cepkit.explorer.presenting.timeline_presenter import TimelinePresenter
from cepkit.explorer.running.result import Result
from cepkit.explorer.running.worker import Turn
from cepkit.progress import checkpoint


class MatchPresenter:
    """Selects matches."""

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
        if result.is_counted:
            result.choose(number)  # raises here rather than in the thread
        self._shown.worker.submit(SELECT, lambda turn: self._select(turn, result, number, is_change))

    def _select(self, turn: Turn, result: Result, number: int, is_change: bool) -> None:
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
            board.nfa.lit = list(chosen.states)
            self._answers.step(result, position)
            if drawn is not None and is_change:
                self.key_changed(*before)

        turn.deliver(show)
