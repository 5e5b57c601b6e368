"""The answers on a board about its matches: moments of the stepper, reasons, the funnel, notes on columns."""

from __future__ import annotations

from collections.abc import Sequence

from cepkit.errors import CepError
from cepkit.explorer.presenting.shown import FUNNEL, NOTES, REASONS, STEP, Shown
from cepkit.explorer.running.result import Result
from cepkit.explorer.running.timeline import places_of_events
from cepkit.explorer.running.worker import Turn
from cepkit.explorer.traits import funnels, moment_traits, reason_traits
from cepkit.widgets.panels import NEXT_MATCH

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
        shown, board = self._shown, self._board
        if position == NEXT_MATCH:
            result.count()
        stepping = result.stepping(shown.partition)
        if position == NEXT_MATCH:
            position = stepping.next_match(board.stepper.position)
        position = min(max(position, 0), stepping.n)
        traits = moment_traits(result, stepping, position, shown.sampled)
        place = [stepping.position_of(position - 1)] if position else []
        cursor = next(iter(result.places(place, shown.partition)[:, 0].tolist()), None)

        def show() -> None:
            board.set(board.stepper, traits)
            board.nfa.live = [{"state": entry["state"], "n": entry["n"]} for entry in traits["live"]]
            board.timeline.cursor = cursor

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
        """Explain the event nearest to ``x`` with those clicked before; a second click removes it.

        For ``x`` see `Series.nearest`.

        """
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
        elif not result.is_counted:  # otherwise the new reasons follow soon
            self._board.give_reasons("", note="the reasons follow when all matches are counted")

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
