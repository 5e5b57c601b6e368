"""A page of matches as a table. The number of matches may exceed 64 bits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import traitlets

from cepkit.plots.stills.tables import lines_svg, table_svg
from cepkit.widgets.base import View, browser_half, counted


class MatchTable(View):
    """A page of matches.

    Parameters
    ----------
    columns : list of dict
        ``name`` and ``align``: ``"left"`` or ``"right"``. A column with a ``kind`` can be filtered:
        ``"number"``, ``"time"``, ``"duration"`` or ``"text"``. Times begin with ten letters of a date;
        ``zone`` names their time zone. The browser does not repeat equal dates.
    rows : list of list of str
        Cells of the page.
    full : list of list of str
        The same values with all digits, for copies. It may be empty.
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
    filters : dict of str to str
        The filters of the columns, as the user typed them.
    mistakes : dict of str to str
        What is wrong with the filter of a column.
    filtered : str
        How many matches pass the filters, in words. Empty without filters.
    outdated : str
        The query of the shown matches in words, while the editor has another one. Empty otherwise.
    can_filter : bool
        Whether filters can be typed now.
    heads : dict of str to dict
        The histogram of a column: ``kind``, ``says`` (the column in words), ``bars`` and ``between``. A bar
        has ``label``, ``low``, ``high``, the number ``n`` of its matches, and how many of them pass the
        filters (``kept``). A filter of several bars is the first ``low``, ``between``, and the last
        ``high``. For texts, ``between`` is a comma and each bar has the value ``low``.
    heads_busy : bool
        Whether other histograms are being computed.
    wanted_filters : dict of str to str
        Written by the browser: all filters. An assignment to ``filters`` also changes it.
    hidden : list of str
        Written by both sides: names of the columns that are not shown.
    selected : str or None
        Written by both sides: number of the selected match.
    """

    _esm, _css = browser_half("match_table", "match_heads.js", "match_heads.css")

    # Python -> browser
    columns = traitlets.List(traitlets.Dict()).tag(sync=True)
    rows = traitlets.List(traitlets.List(traitlets.Unicode())).tag(sync=True)
    full = traitlets.List(traitlets.List(traitlets.Unicode())).tag(sync=True)
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
    filters = traitlets.Dict().tag(sync=True)
    mistakes = traitlets.Dict().tag(sync=True)
    filtered = traitlets.Unicode().tag(sync=True)
    outdated = traitlets.Unicode().tag(sync=True)
    can_filter = traitlets.Bool().tag(sync=True)
    heads = traitlets.Dict().tag(sync=True)
    heads_busy = traitlets.Bool().tag(sync=True)
    # browser -> Python
    wanted_page = traitlets.Unicode("1").tag(sync=True)
    wanted_order = traitlets.Unicode("canonical").tag(sync=True)
    wanted_filters = traitlets.Dict().tag(sync=True)
    hidden = traitlets.List(traitlets.Unicode()).tag(sync=True)
    selected = traitlets.CUnicode(None, allow_none=True).tag(sync=True)

    def __init__(
        self, *, columns: Sequence[dict] = (), rows: Sequence[Sequence[str]] = (),
        numbers: Sequence[int | str] = (), page: int = 1, n_pages: int | str = "1",
        total: int | str = "0", order: str = "canonical", sortable: Sequence[str] = (),
        limit_note: str = "", busy: bool = False, wanted_page: str | None = None,
        wanted_order: str | None = None, selected: int | str | None = None,
        full: Sequence[Sequence[str]] = (), filters: Mapping[str, str] | None = None,
        mistakes: Mapping[str, str] | None = None, filtered: str = "", can_filter: bool = False,
        heads: Mapping[str, dict] | None = None, heads_busy: bool = False,
        wanted_filters: Mapping[str, str] | None = None, hidden: Sequence[str] = (), outdated: str = "",
    ) -> None:  # fmt: skip
        super().__init__(
            columns=list(columns), rows=[list(row) for row in rows], numbers=list(numbers), page=page,
            n_pages=n_pages, total=total, order=order, sortable=list(sortable), limit_note=limit_note,
            busy=busy, wanted_page=str(page) if wanted_page is None else wanted_page,
            wanted_order=order if wanted_order is None else wanted_order, selected=selected,
            full=[list(row) for row in full], filters=dict(filters or {}), mistakes=dict(mistakes or {}),
            filtered=filtered, can_filter=can_filter, heads=dict(heads or {}), heads_busy=heads_busy,
            wanted_filters=dict((filters if wanted_filters is None else wanted_filters) or {}),
            hidden=list(hidden), outdated=outdated,
        )  # fmt: skip

    @traitlets.observe("page", "order", "filters")
    def _follow(self, change: Any) -> None:
        name, new = change["name"], change["new"]
        setattr(self, f"wanted_{name}", dict(new) if name == "filters" else str(new))

    def _summary(self) -> str:
        rows, columns = counted(len(self.rows), "row"), counted(len(self.columns), "column")
        return f"{rows} x {columns}, page {self.page} of {self.n_pages}, {self.total} matches"

    def _still(self) -> str:
        if not self.rows:
            return lines_svg(["No matches."])
        places = [k for k, column in enumerate(self.columns) if column["name"] not in self.hidden]
        shown = [self.columns[k] for k in places]
        right = [k for k, column in enumerate(shown) if column.get("align") == "right"]
        n = self.filtered or f"{_grouped(self.total)} matches"
        caption = f"{n}, page {_grouped(self.page)} of {_grouped(self.n_pages)}"
        rows = [[row[k] for k in places] for row in self.rows]
        return table_svg([column["name"] for column in shown], rows, caption=caption, right=right)


def _grouped(number: str) -> str:
    return f"{int(number):,}" if str(number).isdecimal() else str(number)
