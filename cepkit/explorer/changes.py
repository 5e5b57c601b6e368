"""The changes that a user makes in an explorer, with steps back and forth, and what a click calls."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import replace
from typing import Any

from cepkit.errors import CepError, nearest
from cepkit.explorer.board import Board
from cepkit.explorer.choices import CHOSEN, DRAWN
from cepkit.explorer.history import BoardState, History, QueryLog
from cepkit.explorer.presenting.presenter import Presenter
from cepkit.explorer.query.constants import move_slider
from cepkit.explorer.reader import LOCKED, QueryReader, check_call, check_value
from cepkit.explorer.running.data import BY_NAME, SearchedFrame
from cepkit.planning.queries import check_keywords

# The names of choices on the buttons that take them back.
LABELS = {
    "partition_by": "key columns", "order_by": "clock", "event_type": "event type", "strategy": "strategy",
    "measures": "measures", DRAWN: "drawn column",
}  # fmt: skip


class Changes:
    """Changes the text and the choices of an explorer; every change is a step that can be taken back."""

    def __init__(self, data: SearchedFrame, board: Board, present: Presenter, reader: QueryReader):
        self._data, self._board, self._present, self._reader = data, board, present, reader
        self._history, self.log = History(reader.state), QueryLog()
        self._ran: tuple[Any, BoardState] = (None, reader.state)  # the newest run: its program and choices
        present.keys.chosen, present.runs.ended = self._record_key, self._log_run
        present.matches.key_changed = self._record_match
        reader.will_run = self._note_run

    # --- changes

    def edit_text(self, burst: Hashable = None) -> None:
        """Read the text after an edit."""
        self._reader.take_needs_of(self._reader.text)
        self._record("text", burst)
        self._reader.read()

    def choose(self, choices: Mapping[str, Any]) -> None:
        """Choose keywords, see `Explorer.choose`."""
        check_keywords("choose", choices, CHOSEN)
        check_call(self._data.source, choices)
        before = self._reader.call
        call = {name: value for name, value in {**before, **choices}.items() if not _is_nothing(value)}
        if call == before:
            return
        self._reader.set_call(call)
        self._record(" and ".join(LABELS[name] for name in choices))
        self._reader.read()

    def choose_field(self, name: str, values: list[str]) -> None:
        """Do what a selector wishes; the head of the board shows a mistake."""
        try:
            if name == DRAWN:
                self.draw_column(values[0])
            elif name == "measures":
                self.choose({"measures": self._reader.choose_measures(values)})
            elif name in ("partition_by", "order_by"):
                self.choose({name: values})
            else:
                self.choose({name: values[0] if values else None})
        except CepError as error:
            self._reader.show_bar(str(error).split("\n")[0])

    def draw_column(self, name: str) -> None:
        """Show another column on the timeline."""
        check_value(self._data.source, name, self._reader.call.get("event_type"))
        self._present.timeline.show_value(name)
        self._record(LABELS[DRAWN])
        self._reader.show_bar()

    def move(self, id: str, value: float, burst: Hashable = None, *, is_held: bool = False) -> None:
        """Set the constant of a slider."""
        reader, board = self._reader, self._board
        slider = next((candidate for candidate in reader.sliders if candidate.id == id), None)
        if slider is None:
            ids = [candidate.id for candidate in reader.sliders]
            raise CepError(f"move: no slider {id!r}.{nearest(id, ids)} Sliders: {ids}")
        if board.sliders.locked:
            raise CepError(f"move: {LOCKED[0].lower()}{LOCKED[1:]}")
        if slider.start < 0:
            params = {**reader.call["params"], slider.id[1:]: slider.round_value(value)}
            reader.call = {**reader.call, "params": params}
        else:
            board.set(board.editor, {"text": move_slider(reader.text, slider, value)})
        self._record(slider.label, burst, is_held=is_held)
        reader.read()

    def bring_back(self, number: int) -> None:
        """Write an earlier query into the editor, with its choices."""
        run = self.log.find(number)
        if run is None:
            numbers = [past_run.number for past_run in self.log.runs]
            raise CepError(f"bring_back: there is no run {number}. Runs: {numbers}")
        state = replace(self._reader.state, text=run.text, call=dict(run.call))
        self._history.record(state, "earlier query")
        self._restore(state)

    # --- steps back and forth

    def undo(self) -> None:
        """Take back the newest change."""
        self._note_unrecorded()
        self._restore(self._history.undo())

    def redo(self) -> None:
        """Make the change again that was taken back last."""
        self._note_unrecorded()
        self._restore(self._history.redo())

    def _record(self, label: str, burst: Hashable = None, *, is_held: bool = False) -> None:
        """Add what the user chose now as a step."""
        self._history.record(self._reader.state, label, burst, is_held=is_held)
        self.show_steps()

    def _record_key(self, before: tuple | None) -> None:
        """Add the key that the user chose as a step; `undo` returns to the key that was shown before."""
        now = self._history.now.state
        if now.key is None:
            self._history.amend(replace(now, key=before))
        self._record("key")

    def _record_match(self, key: tuple | None, number: int | None) -> None:
        """Add a selection that changed the key as a step; `undo` returns to the key and the match before."""
        now, chosen = self._history.now.state, self._present.shown.chosen
        self._history.amend(replace(now, key=key, match=number))
        state = replace(self._reader.state, match=chosen and chosen.number)
        self._history.record(state, "match", "match")
        self.show_steps()

    def _note_unrecorded(self) -> None:
        """Record an edit whose message is still on its way through the observers."""
        now = self._history.now.state
        state = replace(self._reader.state, match=now.match)
        if replace(state, key=now.key) != now:
            self._history.record(state, "text")
        elif state != now:
            self._history.amend(state)

    def _restore(self, state: BoardState | None) -> None:
        """Show a state of the history; None for no change."""
        reader, present = self._reader, self._present
        before = reader.state
        if state is None or state == before:
            return self.show_steps()
        if state.call != before.call:
            reader.set_call(dict(state.call))
        present.shown.value = state.drawn
        if state.key != before.key:
            present.keys.keep(state.key)
        self.show_steps()
        if (state.text, state.call) != (before.text, before.call):
            self._board.set(self._board.editor, {"text": state.text})
            reader.read()
            return None
        if state.drawn != before.drawn:
            present.timeline.show_value(state.drawn)
        if state.match is not None and present.shown.result is not None:
            present.matches.select(state.match, is_change=False)  # it shows the key, too
        elif state.key != before.key:
            present.timeline.show_kept_key()
        return reader.show_bar()

    def show_steps(self) -> None:
        """Show which changes can be taken back or made again, and the past queries."""
        steps = {"undo": self._history.undo_label, "redo": self._history.redo_label}
        runs = [run.trait() for run in self.log.runs]
        self._board.set(self._board.bar, {"steps": steps, "runs": runs})

    # --- past queries

    def _note_run(self, program: Any) -> None:
        self._ran = program, self._reader.state

    def _log_run(self, program: Any, n: int, took: float) -> None:
        """Add a run that ended to the history of queries; the thread of runs calls it."""
        if program is self._ran[0]:
            state = self._ran[1]
            self.log.add(self._history.now.number, state.text, state.call, n, took)
            self.show_steps()


def _is_nothing(choice: Any) -> bool:
    return choice is None or (isinstance(choice, str | list) and not choice)


# The wishes of the browser: what a click, a key or a slider of a board calls.


def listen(board: Board, present: Presenter, changes: Changes) -> None:
    """Fulfil the wishes of the browser."""
    bar, table, timeline = board.bar, board.table, board.timeline

    def selected(number: Any) -> None:
        present.matches.select(None if number in (None, "") else int(number))

    def wanted(page: str, order: str | None = None) -> None:
        if present.shown.result is not None:
            present.table.show_page(int(page or 1), order)

    def shown(wish: dict[str, Any]) -> None:
        present.timeline.show_key(wish.get("id"), wish.get("step", 0))

    def found(wish: dict[str, Any]) -> None:
        present.keys.find(wish.get("search", ""), wish.get("order", BY_NAME), wish.get("page", 1))

    def slid(wish: dict[str, Any]) -> None:
        # The number of a drag; 0 while keys move the slider.
        drag = board.sliders.gesture
        changes.move(wish["id"], wish["value"], ("slider", wish["id"], drag), is_held=drag > 0)

    def stepped(wish: dict[str, Any]) -> None:
        changes.redo() if wish.get("what") == "redo" else changes.undo()

    for widget in (board.editor, board.sliders, bar):
        board.observe(widget, "wanted_step", lambda wish: wish and stepped(wish))
    board.observe(bar, "wanted_run", lambda wish: wish and changes.bring_back(wish["number"]))
    board.observe(board.editor, "text", lambda text: changes.edit_text("typing"))
    board.observe(board.editor, "cancel", lambda n: present.cancel())
    board.observe(board.sliders, "moved", lambda wish: wish and slid(wish))
    board.observe(bar, "chosen", lambda wish: wish and changes.choose_field(wish["name"], wish["values"]))
    board.observe(bar, "wanted_keys", lambda wish: wish and found(wish))
    board.observe(bar, "wanted_key", lambda wish: wish and shown(wish))
    board.observe(bar, "asked", lambda n: board.set(bar, {"answered": n}))
    board.observe(table, "selected", selected)
    board.observe(table, "wanted_page", wanted)
    board.observe(table, "wanted_order", lambda order: wanted("1", order))
    board.observe(table, "wanted_filters", present.table.filter)
    board.observe(timeline, "window", present.timeline.zoom)
    board.observe(timeline, "selected", selected)
    board.observe(timeline, "value", changes.draw_column)
    board.observe(board.nfa, "selected", present.timeline.select_state)
    board.observe(timeline, "clicked", lambda x: x is None or present.answers.click(x))
    board.observe(board.stepper, "wanted", lambda wish: wish and present.answers.step_to(int(wish["to"])))
