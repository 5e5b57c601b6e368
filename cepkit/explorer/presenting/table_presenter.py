"""The table on a board: its pages, its order, its filters, and the histograms in its heads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cepkit.errors import CepError
from cepkit.explorer.presenting.shown import LIST, PAGE_OF, Shown
from cepkit.explorer.running.first_tables import COUNTING, NOT_COUNTED, first_page, totals
from cepkit.explorer.running.pages import CANONICAL
from cepkit.explorer.running.result import Result
from cepkit.explorer.running.worker import Turn
from cepkit.progress import checkpoint

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
        self._shown.worker.submit(LIST, lambda turn: self._draw_heads(turn, result))

    @property
    def is_plain(self) -> bool:
        """Whether the user chose neither an order nor filters."""
        return self.order == CANONICAL and not self.filters

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
        board, result = self._board, self._shown.result
        self.finish()
        if self._has_looked:
            self._has_looked = False
            if result is None:
                board.set(board.table, {"rows": [], "numbers": [], "total": "", "limit_note": ""})
            elif result.is_counted:
                self.show_page(1, CANONICAL)
            else:
                board.set(board.table, first_page(result))
        self.give_up_counting()

    def finish(self) -> None:
        """Show the page with the chosen order and filters, if the table shows the first matches only."""
        if self._is_first and self._shown.all is None:
            self.show_page(1)

    def give_up_counting(self) -> None:
        """Say that the matches are not counted, if the table promises their number."""
        if self._board.table.total == COUNTING:
            self._board.set(self._board.table, {"total": NOT_COUNTED})

    # --- tables

    def is_quick(self, result: Result) -> bool:
        """Whether a page with the user's order and filters takes little time."""
        return result.pages.is_quick(result.pages.order_or_canonical(self.order), self.filters)

    def first_page(self, result: Result) -> dict[str, Any]:
        """Return the first page with the user's order and filters, as far as the result has their columns.

        If that takes long, it is a page of the first matches; `finish` shows the page with order and filters.

        """
        if not self.is_quick(result):
            return result.pages.quick_traits(self.filters)
        return result.pages.traits(1, result.pages.order_or_canonical(self.order), self.filters)

    def counted_page(self, result: Result, *, is_opened: bool) -> dict[str, Any]:
        """Return the first page of a counted result; ``is_opened`` says whether its rows are known."""
        if is_opened and self.is_plain:
            return {**first_page(result), **totals(result)}
        return self.first_page(result)

    def show_counted(self, result: Result, table: dict[str, Any]) -> None:
        """Show a page from `first_page`, and `finish` it if it has the first matches only."""
        self._board.set(self._board.table, table)
        self.follow(result)

    def follow(self, result: Result) -> None:
        """Note whether the shown page from `first_page` has the first matches only, and `finish` it then."""
        self._is_first = not self.is_quick(result)
        self.finish()

    def page_with(self, result: Result, number: int) -> dict[str, Any] | None:
        """Return the page that shows a match; None if the table shows it already or its filters hide it."""
        if str(number) in self._board.table.numbers:
            return None
        result.count()
        order = result.pages.order_or_canonical(self.order)
        page = result.pages.page_of(number, order, self.filters)
        return None if page is None else result.pages.traits(page, order, self.filters)

    def show_look(self, look: dict[str, Any]) -> None:
        """Show some matches of an unfinished run."""
        self._has_looked = True
        self._board.set(self._board.table, look)

    def show(self, table: dict[str, Any]) -> None:
        """Show a page of a new result."""
        self._has_looked = self._is_first = False
        self._board.set(self._board.table, {"heads_busy": True, **table, "selected": None})

    # --- jobs of the thread

    def _turn_page(self, turn: Turn, result: Result, page: int, order: str) -> None:
        result = self._shown.result or result  # a newer result may have come meanwhile
        result.count()
        checkpoint()
        table = result.pages.traits(page, result.pages.order_or_canonical(order), self.filters)

        def show() -> None:
            self._is_first = False
            self._board.set(self._board.table, table)

        turn.deliver(show)

    def _draw_heads(self, turn: Turn, result: Result) -> None:
        """List the matches, which makes orders and filters quick, and draw the histograms."""
        heads = result.pages.heads(self.filters)
        turn.deliver(lambda: self._board.set(self._board.table, heads))

    def drop_heads(self) -> None:
        """Show the heads without histograms."""
        self._board.set(self._board.table, {"heads": {}, "heads_busy": False})
