"""A page of matches as a table. The number of matches may exceed 64 bits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import traitlets

from cepkit.plots.stills.tables import lines_svg, table_svg
from cepkit.widgets.base import View, browser_half, counted


class MatchTable(View):
    """A page of matches.

    Parameters
    ----------
    columns : list of dict
        ``name`` and ``align``: ``"left"`` or ``"right"``.
    rows : list of list of str
        Cells of the page.
    numbers : list of int or str
        Number of the match in each row. They are sent as text, since a browser counts only up to 2^53.
    page : int
        The shown page, from 1; also sent as text.
    n_pages, total : str
        Numbers of pages and of matches. ``total`` may be a bound such as ``"≥ 10,000"``. If ``n_pages`` is a
        plain number, the browser does not go beyond it.
    order : str
        ``"canonical"``, ``"reverse"``, ``"<column> up"`` or ``"<column> down"``.
    sortable : list of str
        Columns to sort by. Empty if there are too many matches, as ``limit_note`` then says.
    limit_note : str
        A remark about the shown matches.
    busy : bool
        Whether another page is being computed; the old one stays visible.
    wanted_page : str
        Written by the browser: digits. An assignment to ``page`` also changes it, so that the next request
        for any page is a change.
    wanted_order : str
        Written by the browser. An assignment to ``order`` also changes it.
    selected : str or None
        Written by both sides: number of the selected match.
    """

    _esm, _css = browser_half("match_table")

    # Python -> browser
    columns = traitlets.List(traitlets.Dict()).tag(sync=True)
    rows = traitlets.List(traitlets.List(traitlets.Unicode())).tag(sync=True)
    numbers = traitlets.List(traitlets.CUnicode()).tag(sync=True)
    page = traitlets.Int(1).tag(
        sync=True, to_json=lambda page, _: str(page), from_json=lambda text, _: int(text)
    )
    n_pages = traitlets.CUnicode("1").tag(sync=True)
    total = traitlets.CUnicode("0").tag(sync=True)
    order = traitlets.Unicode("canonical").tag(sync=True)
    sortable = traitlets.List(traitlets.Unicode()).tag(sync=True)
    limit_note = traitlets.Unicode().tag(sync=True)
    busy = traitlets.Bool().tag(sync=True)
    # browser -> Python
    wanted_page = traitlets.Unicode("1").tag(sync=True)
    wanted_order = traitlets.Unicode("canonical").tag(sync=True)
    selected = traitlets.CUnicode(None, allow_none=True).tag(sync=True)

    def __init__(
        self, *, columns: Sequence[dict] = (), rows: Sequence[Sequence[str]] = (),
        numbers: Sequence[int | str] = (), page: int = 1, n_pages: int | str = "1",
        total: int | str = "0", order: str = "canonical", sortable: Sequence[str] = (),
        limit_note: str = "", busy: bool = False, wanted_page: str | None = None,
        wanted_order: str | None = None, selected: int | str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(
            columns=list(columns), rows=[list(row) for row in rows], numbers=list(numbers), page=page,
            n_pages=n_pages, total=total, order=order, sortable=list(sortable), limit_note=limit_note,
            busy=busy, wanted_page=str(page) if wanted_page is None else wanted_page,
            wanted_order=order if wanted_order is None else wanted_order, selected=selected,
        )  # fmt: skip

    @traitlets.observe("page", "order")
    def _follow(self, change: Any) -> None:
        setattr(self, f"wanted_{change['name']}", str(change["new"]))

    def _summary(self) -> str:
        rows, columns = counted(len(self.rows), "row"), counted(len(self.columns), "column")
        return f"{rows} x {columns}, page {self.page} of {self.n_pages}, {self.total} matches"

    def _still(self) -> str:
        if not self.rows:
            return lines_svg(["No matches."])
        right = [k for k, column in enumerate(self.columns) if column.get("align") == "right"]
        header = [column["name"] for column in self.columns]
        caption = f"{_grouped(self.total)} matches, page {_grouped(self.page)} of {_grouped(self.n_pages)}"
        return table_svg(header, self.rows, caption=caption, right=right)


def _grouped(number: str) -> str:
    return f"{int(number):,}" if str(number).isdecimal() else str(number)
