"""`Presenter`: fills a board in the background, with one presenter for each of its parts."""

from __future__ import annotations

from cepkit.explorer.board import Board
from cepkit.explorer.presenting.answer_presenter import AnswerPresenter
from cepkit.explorer.presenting.key_presenter import KeyPresenter
from cepkit.explorer.presenting.match_presenter import MatchPresenter
from cepkit.explorer.presenting.run_presenter import RunPresenter, is_in_notebook
from cepkit.explorer.presenting.shown import (
    COUNT,
    FUNNEL,
    KINDS,
    LIST,
    N_LATE,
    N_MODEST,
    RUN,
    SENT_S,
    Shown,
)
from cepkit.explorer.presenting.table_presenter import TablePresenter
from cepkit.explorer.presenting.timeline_presenter import TimelinePresenter
from cepkit.explorer.running.data import SearchedFrame
from cepkit.explorer.running.first_tables import NOT_COUNTED
from cepkit.explorer.running.worker import Turn, Worker
from cepkit.planning.planner import EngineValue

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
