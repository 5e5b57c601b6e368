"""The wishes of the browser: what a click, a key or a slider of a board calls."""

from __future__ import annotations

from typing import Any

from cepkit.explorer.board import Board
from cepkit.explorer.editing.changes import Changes
from cepkit.explorer.presenting.presenter import Presenter
from cepkit.explorer.running.keys import BY_NAME


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
