"""Matches with their events, the events that they share, and the chains of LinkedCEP: the Python half."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import traitlets

from cepkit.errors import CepError, column_not_found, whole_number
from cepkit.language.numbers import count_text
from cepkit.plots.lineage import (
    MARKS,
    LineagePage,
    levels_of,
    lineage_figure,
    lineage_page,
    lineage_svg,
    marks_of_variables,
)
from cepkit.widgets.base import View, browser_half

if TYPE_CHECKING:
    import plotly.graph_objects as go

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
                {"number": str(number), "events": events, "variables": of}
                for number, (events, of) in zip(page.numbers, items, strict=True)
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
        whole = self._chains.groupby("chain")["position"].transform(lambda of: of.isin(column).all())
        numbers = self._chains.loc[whole.astype(bool), "chain"].unique()
        shown = self._chains[self._chains["chain"].isin(numbers[:MOST_CHAINS])]
        last = int(self._chains["component"].max())
        lanes: list[dict] = []
        until: list[int] = []  # last used column of each lane
        made = []
        for number, rows in shown.sort_values(["component", "chain", "position"]).groupby(
            ["component", "chain"], sort=True
        ):
            component, chain = map(int, number)
            events = [column[at] for at in rows["position"].tolist()]
            name = str(rows["variable"].iloc[0])
            lane = next(
                (i for i, own in enumerate(lanes) if own["variable"] == name and until[i] < events[0]),
                len(lanes),
            )
            if lane == len(lanes):
                lanes.append({"variable": name})
                until.append(-1)
            until[lane] = events[-1]
            before, shared = int(rows["before"].iloc[0]), int(rows["shared"].iloc[0])
            tail = self._chains.loc[self._chains["chain"] == before, "position"].tolist()[:shared]
            made.append(
                {
                    "chain": chain, "variable": name, "lane": lane, "events": events, "before": before,
                    "tail": column.get(tail[-1]) if tail else None, "shared": shared,
                    "matches": self._matches_of(page, chain) if component == last else None,
                }
            )  # fmt: skip
        cut = f", the first {MOST_CHAINS} of {len(numbers):,} chains" if len(numbers) > MOST_CHAINS else ""
        return made, lanes, cut

    def _matches_of(self, page: LineagePage, chain: int) -> list[int]:
        """Return the rows of the matches that have one event of each level of a chain."""
        levels = [events for _, events in levels_of(self._chains, chain)]
        found = []
        for row in range(len(page.numbers)):
            own = page.positions[page.event_of_item[page.match_of_item == row]].tolist()
            if len(own) == len(levels) and all(at in events for at, events in zip(own, levels, strict=True)):
                found.append(row)
        return found
