"""Matches as a table page by page, and with their events and chains: the Python half."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import traitlets

from cepkit.errors import CepError, column_not_found, whole_number
from cepkit.language.expressions.durations import count_text
from cepkit.plots.lineage import (
    MARKS,
    LineagePage,
    levels_of,
    lineage_figure,
    lineage_page,
    lineage_svg,
    marks_of_variables,
)
from cepkit.plots.stills.tables import lines_svg, table_svg
from cepkit.widgets.base import View, browser_half, counted

if TYPE_CHECKING:
    import plotly.graph_objects as go


# A page of matches as a table. The number of matches may exceed 64 bits.


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


# Matches with their events, the events that they share, and the chains of LinkedCEP: the Python half.

MOST_CHAINS = 80  # largest number of drawn chains
PAGE = 24  # matches on a page


class LineageView(View):
    """Matches in rows and their events in columns, with the events that matches share.

    The bars at the top show how many of the shown matches have an event. Click an event to highlight all
    matches that have it. Click a match to highlight its events. With the chains of LinkedCEP, click a chain
    to highlight the chains that it continues and, for a chain of the last component, its matches. Marks
    differ in shape and colour by variable. Keys: up and down go through the matches, left and right through
    the events, page up and page down turn pages, Escape clears the selection.

    Parameters
    ----------
    rows : pandas.DataFrame or callable
        One row per matched event, as ``matches.lineage()`` returns them: ``match``, ``variable``,
        ``position``, ``index`` and, optionally, ``time`` (a text). Or a function that returns the rows of
        the matches from one number up to, but without, another.
    n_matches : int, optional
        Number of matches; needed with a function.
    chains : pandas.DataFrame, optional
        Result of ``matches.run.chains_frame()``.
    size : int
        Number of matches on a page.
    title : str
        Heading of the view.
    part : str
        Source of the matches as a text, if these are not all matches.

    Notes
    -----
    ``selected`` is None or a dict with one entry: ``match`` (its number, a text), ``event`` (its position in
    the stream) or ``chain`` (its number).
    """

    _esm, _css = browser_half("lineage_view")
    # Python -> browser
    title = traitlets.Unicode("").tag(sync=True)
    variables = traitlets.List(traitlets.Dict()).tag(sync=True)  # name, look, path
    events = traitlets.List(traitlets.Dict()).tag(sync=True)  # position, label, n
    axes = traitlets.List(traitlets.Dict()).tag(sync=True)  # name, texts: the lines below the events
    matches = traitlets.List(traitlets.Dict()).tag(sync=True)  # number (text), events, variables
    chains = traitlets.List(traitlets.Dict()).tag(sync=True)  # chain, lane, events, before, tail, …
    lanes = traitlets.List(traitlets.Dict()).tag(sync=True)  # of chains: variable
    total = traitlets.Unicode("0").tag(sync=True)
    first = traitlets.Unicode("0").tag(sync=True)  # number of the first match shown
    size = traitlets.Int(PAGE).tag(sync=True)
    n_rows = traitlets.Int(0).tag(sync=True)  # on every page, even on a shorter last one
    has_more = traitlets.Bool(False).tag(sync=True)
    note = traitlets.Unicode("").tag(sync=True)
    version = traitlets.Int(0).tag(sync=True)  # counts changes of the page
    # browser -> Python
    wanted = traitlets.Unicode("0").tag(sync=True)  # number of the first match
    selected = traitlets.Dict(default_value=None, allow_none=True).tag(sync=True)

    def __init__(
        self, rows: pd.DataFrame | Callable[[int, int], pd.DataFrame], *, n_matches: int | None = None,
        chains: pd.DataFrame | None = None, size: int = PAGE, title: str = "", part: str = "",
    ):  # fmt: skip
        if isinstance(rows, pd.DataFrame):
            lineage_page(rows.head(0))  # raises if a column is missing
            numbers = pd.unique(rows["match"])
            place = pd.Series(np.arange(len(numbers)), index=numbers).loc[rows["match"]].to_numpy()
            frame, n_matches = rows, len(numbers)
            rows = lambda low, high: frame[(place >= low) & (place < high)]  # noqa: E731
        elif n_matches is None or not callable(rows):
            raise CepError(
                "LineageView: rows must be the frame of matches.lineage(), or a function with n_matches"
            )
        for name in ("chain", "component", "variable", "position", "before", "shared"):
            if chains is not None and name not in chains.columns:
                raise column_not_found("LineageView: chains", name, chains.columns)
        self._rows, self._n, self._chains, self.part = rows, n_matches, chains, part
        size = whole_number("LineageView: size", size, 1)
        super().__init__(
            title=title,
            total=f"{n_matches:,}",
            size=size,
            n_rows=min(size, n_matches),
            **self._page(0, size),
        )
        self.observe(lambda change: self._turn(change["new"]), "wanted")

    def figure(self) -> go.Figure:
        """Return the shown matches as a plotly figure."""
        return lineage_figure(self._shown, title=self.title or None)

    def to_frame(self) -> pd.DataFrame:
        """Return the rows of the shown matches, in the form of ``matches.lineage()``."""
        return self._shown_rows

    def _still(self) -> str:
        return self.svg()

    def svg(self) -> str:
        """Return the shown matches as SVG text."""
        heading = ": ".join(part for part in (self.title, self.note) if part)
        return lineage_svg(self._shown, heading, self.chains, self.lanes)

    def _summary(self) -> str:
        of_chains = "" if self._chains is None else f", {self._chains['chain'].nunique()} chains"
        return f"{count_text(self._n)} matches{of_chains}" + (f" in {self.part}" if self.part else "")

    # --- parts

    def _turn(self, wanted: str) -> None:
        first = int(wanted) if wanted.isdigit() else 0
        first = max(0, min(first, self._n - 1))
        with self.hold_sync():
            for name, value in self._page(first, self.size).items():
                setattr(self, name, value)
            self.selected = None
            self.version += 1

    def _page(self, first: int, size: int) -> dict:
        last = min(first + size, self._n)
        rows = self._rows(first, last)
        page = lineage_page(rows, self._chains)
        self._shown, self._shown_rows = page, rows.reset_index(drop=True)
        place = marks_of_variables(page.variables)
        variable_place = {name: v for v, name in enumerate(page.variables)}
        items = [([], []) for _ in page.numbers]
        for row, event, variable in zip(
            page.match_of_item.tolist(), page.event_of_item.tolist(), page.variable_of_item, strict=True
        ):
            items[row][0].append(event)
            items[row][1].append(variable_place[variable])
        drawn, lanes, cut = self._draw_chains(page)
        note = f"matches {first:,} to {last - 1:,} of {count_text(self._n)}" if last > first else "no match"
        note += f", {page.n_shared:,} of {len(page.positions):,} events shared" if last > first else ""
        if page.n_left_out:
            note += f", {page.n_left_out:,} matched events left out, since there are too many columns"
        return {
            "variables": [
                {"name": name, "look": place[name], "path": MARKS[place[name] % len(MARKS)]}
                for name in page.variables
            ],
            "events": [
                {"position": at, "label": label, "n": n}
                for at, label, n in zip(
                    page.positions.tolist(), page.labels, page.n_matches_of_event.tolist(), strict=True
                )
            ],
            "axes": [{"name": name, "texts": list(texts)} for name, texts in page.axes],
            "matches": [
                {"number": str(number), "events": events, "variables": variables}
                for number, (events, variables) in zip(page.numbers, items, strict=True)
            ],
            "chains": drawn,
            "lanes": lanes,
            "first": str(first),
            "has_more": last < self._n,
            "note": note + cut + (f", in {self.part}" if self.part else ""),
        }

    def _draw_chains(self, page: LineagePage) -> tuple[list[dict], list[dict], str]:
        """Return the chains with all their events on the page, their lanes, and a note about the others."""
        if self._chains is None or not len(page.positions):
            return [], [], ""
        column = {at: e for e, at in enumerate(page.positions.tolist())}
        whole = self._chains.groupby("chain")["position"].transform(lambda places: places.isin(column).all())
        numbers = self._chains.loc[whole.astype(bool), "chain"].unique()
        shown = self._chains[self._chains["chain"].isin(numbers[:MOST_CHAINS])]
        last = int(self._chains["component"].max())
        lanes: list[dict] = []
        until: list[int] = []  # last used column of each lane
        drawn = []
        for number, rows in shown.sort_values(["component", "chain", "position"]).groupby(
            ["component", "chain"], sort=True
        ):
            component, chain = map(int, number)
            events = [column[at] for at in rows["position"].tolist()]
            name = str(rows["variable"].iloc[0])
            lane = next(
                (i for i, other in enumerate(lanes) if other["variable"] == name and until[i] < events[0]),
                len(lanes),
            )
            if lane == len(lanes):
                lanes.append({"variable": name})
                until.append(-1)
            until[lane] = events[-1]
            before, shared = int(rows["before"].iloc[0]), int(rows["shared"].iloc[0])
            tail = self._chains.loc[self._chains["chain"] == before, "position"].tolist()[:shared]
            drawn.append(
                {
                    "chain": chain, "variable": name, "lane": lane, "events": events, "before": before,
                    "tail": column.get(tail[-1]) if tail else None, "shared": shared,
                    "matches": self._matches_of(page, chain) if component == last else None,
                }
            )  # fmt: skip
        cut = f", the first {MOST_CHAINS} of {len(numbers):,} chains" if len(numbers) > MOST_CHAINS else ""
        return drawn, lanes, cut

    def _matches_of(self, page: LineagePage, chain: int) -> list[int]:
        """Return the rows of the matches that have one event of each level of a chain."""
        levels = [events for _, events in levels_of(self._chains, chain)]
        matching_rows = []
        for row in range(len(page.numbers)):
            items = page.positions[page.event_of_item[page.match_of_item == row]].tolist()
            if len(items) == len(levels) and all(
                at in events for at, events in zip(items, levels, strict=True)
            ):
                matching_rows.append(row)
        return matching_rows
