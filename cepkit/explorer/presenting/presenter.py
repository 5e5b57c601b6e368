"""`Presenter` fills a board in the background, with one presenter for each of its parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cepkit.explorer.board import Board
from cepkit.explorer.presenting.answer_presenter import AnswerPresenter
from cepkit.explorer.presenting.run_presenter import NOT_COUNTED, RunPresenter, TablePresenter, is_in_notebook
from cepkit.explorer.presenting.shown import (
    COUNT,
    FUNNEL,
    KINDS,
    LIST,
    N_LATE,
    N_MODEST,
    RUN,
    SELECT,
    SENT_S,
    Shown,
)
from cepkit.explorer.presenting.timeline_presenter import KeyPresenter, TimelinePresenter
from cepkit.explorer.running.data import SearchedFrame
from cepkit.explorer.running.result import Result
from cepkit.explorer.running.timeline import places_of_events
from cepkit.explorer.running.worker import Turn, Worker
from cepkit.planning.planner import EngineValue
from cepkit.progress import checkpoint

# The selected match of a board: in the table, on the timeline, in the automaton and in the stepper.


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


# `Presenter`: fills a board in the background, with one presenter for each of its parts.

OLD_RESULT = "the last result is still shown"


class Presenter:
    """The presenters of a board, and the content that they share."""

    def __init__(self, data: SearchedFrame, board: Board, engine: str | EngineValue, sampled: str):
        self._board = board
        pause_s = SENT_S if is_in_notebook() else 0.0
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

    def cancel(self) -> None:
        """Stop the current run, and say what the board shows now."""
        is_running = self._board.editor.status["state"] == "running"
        self.stop()
        if is_running:
            is_opened = self._board.table.total == NOT_COUNTED
            kept = "the first matches are shown, not counted" if is_opened else OLD_RESULT
            kept = "no match is shown yet" if self.shown.result is None else kept
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
        self.table.give_up_counting()
        if turn.kind in (RUN, COUNT):
            self.table.finish()
            self.answers.hide_old()
            board.say("failed", f"{type(error).__name__}: {error}"[:2000])
        elif turn.kind == LIST:
            self.table.drop_heads()
        elif turn.kind == FUNNEL:
            board.funnel.stages = [
                {"label": f"no funnel: {error}", "n": "", "share": 0.0, "selectivity": None, "note": ""}
            ]
        else:
            board.give_reasons(str(error).split("\n")[0], note=type(error).__name__)
