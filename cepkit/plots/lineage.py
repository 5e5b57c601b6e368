"""Matches with their events and the events that they share, as a page, a plotly figure, or SVG text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd

from cepkit.errors import require_columns
from cepkit.plots import drawing, theme
from cepkit.plots.theme import cut, escaped

if TYPE_CHECKING:
    import plotly.graph_objects as go

COLUMNS = ("match", "variable", "position", "index")
MOST_EVENTS = 300  # largest number of columns of a page
_ROW, _LEFT, _WIDTH = 18, 104, 900
# Outlines of the marks of variables around (0, 0), in the order of theme.SYMBOLS.
MARKS = (
    "M-4,0A4,4 0 1 0 4,0A4,4 0 1 0 -4,0Z",
    "M-3.6,-3.6H3.6V3.6H-3.6Z",
    "M0,-4.8L4.8,0L0,4.8L-4.8,0Z",
    "M0,-4.6L4.4,3.4H-4.4Z",
    "M-1.5,-4.4h3v2.9h2.9v3h-2.9v2.9h-3v-2.9h-2.9v-3h2.9Z",
    "M0,4.6L4.4,-3.4H-4.4Z",
    "M0,-5L1.3,-1.6L4.8,-1.5L2,0.7L3,4.2L0,2.1L-3,4.2L-2,0.7L-4.8,-1.5L-1.3,-1.6Z",
    "M-4.2,-3L-3,-4.2L0,-1.2L3,-4.2L4.2,-3L1.2,0L4.2,3L3,4.2L0,1.2L-3,4.2L-4.2,3L-1.2,0Z",
)


class LineagePage(NamedTuple):
    """Matches in rows and their events in columns."""

    numbers: tuple[int, ...]  # of the matches
    positions: np.ndarray  # int64, (n_events,): rising
    rows: tuple[str, ...]  # names of the events' rows; "" if unknown
    times: tuple[str, ...]  # of the events; all "" if they say the same as the rows
    n_matches_of_event: np.ndarray  # int64, (n_events,): among the matches of the page
    match_of_item: np.ndarray  # int64, (n_items,): row
    event_of_item: np.ndarray  # int64, (n_items,): column
    variable_of_item: tuple[str, ...]
    variables: tuple[str, ...]  # in the order of their first occurrence
    n_left_out: int  # items whose events have no column

    @property
    def n_shared(self) -> int:
        """Number of events in more than one match of the page."""
        return int((self.n_matches_of_event > 1).sum())

    @property
    def labels(self) -> tuple[str, ...]:
        """The row and the time of each event, or its position in the stream if its row is unknown."""
        pairs = zip(self.rows, self.times, strict=True)
        texts = (" · ".join(filter(None, pair)) for pair in pairs)
        return tuple(
            label or f"position {at}" for label, at in zip(texts, self.positions.tolist(), strict=True)
        )

    @property
    def axes(self) -> list[tuple[str, tuple[str, ...]]]:
        """The texts below the columns, line by line, and what each line has."""
        lines = [("row", self.rows), ("time", self.times)]
        return [(name, texts) for name, texts in lines if any(texts)]


def lineage_page(
    rows: pd.DataFrame, chains: pd.DataFrame | None = None, *, most_events: int = MOST_EVENTS
) -> LineagePage:
    """Return the matches of ``rows`` side by side."""
    require_columns("lineage", COLUMNS, rows.columns)
    position = rows["position"].to_numpy(np.int64)
    wanted = position
    if chains is not None and len(position):
        chain_positions = chains["position"].to_numpy(np.int64)
        wanted = np.append(
            position,
            chain_positions[(chain_positions >= position.min()) & (chain_positions <= position.max())],
        )
    positions = np.unique(wanted)[:most_events]
    kept = np.isin(position, positions)
    shown = rows[kept]
    numbers = tuple(dict.fromkeys(rows["match"].tolist()))
    place = {number: row for row, number in enumerate(numbers)}
    event = np.searchsorted(positions, position[kept])
    match = np.array([place[number] for number in shown["match"].tolist()], np.int64)
    pairs = np.unique(np.stack([event, match]), axis=1)
    row_of = dict(zip(position.tolist(), map(str, rows["index"].tolist()), strict=True))
    time_of: dict[int, str] = {}
    if "time" in rows.columns:
        time_of = dict(zip(position.tolist(), map(str, rows["time"].tolist()), strict=True))
    if time_of == row_of:
        time_of = {}
    return LineagePage(
        numbers,
        positions,
        tuple(row_of.get(at, "") for at in positions.tolist()),
        tuple(time_of.get(at, "") for at in positions.tolist()),
        np.bincount(pairs[0], minlength=len(positions)),
        match,
        event,
        tuple(map(str, shown["variable"].tolist())),
        tuple(dict.fromkeys(map(str, rows["variable"].tolist()))),
        int((~kept).sum()),
    )


def lineage_figure(page: LineagePage, *, title: str | None = None) -> go.Figure:
    """Draw the matches in rows; bars above them show in how many matches each event is."""
    from plotly.subplots import make_subplots

    from cepkit.plots.lean import LeanFigure

    styles = theme.style_of_variables(sorted(page.variables))
    heights = [70, max(60, _ROW * len(page.numbers))]
    figure = make_subplots(
        rows=2, cols=1, shared_xaxes=True, row_heights=heights, vertical_spacing=20 / sum(heights),
        figure=LeanFigure(),
    )  # fmt: skip
    labels = [escaped(cut(label)) for label in page.labels]
    figure.add_bar(
        x=np.arange(len(labels)), y=page.n_matches_of_event, marker={"color": theme.INK}, text=labels,
        textposition="none",
        hovertemplate="%{text}: in %{y} of the matches shown<extra></extra>",
        showlegend=False, row=1, col=1,
    )  # fmt: skip
    lines_x, lines_y = [], []
    for row in range(len(page.numbers)):
        row_events = page.event_of_item[page.match_of_item == row].tolist()
        lines_x += [*row_events, None]
        lines_y += [row] * len(row_events) + [None]
    figure.add_scatter(
        x=lines_x, y=lines_y, mode="lines", line={"color": theme.INK, "width": 1}, hoverinfo="skip",
        showlegend=False, row=2, col=1,
    )  # fmt: skip
    variable_of_item = np.array(page.variable_of_item, dtype=object)
    for variable in page.variables:
        items = np.flatnonzero(variable_of_item == variable)
        events, rows = page.event_of_item[items].tolist(), page.match_of_item[items].tolist()
        figure.add_scatter(
            x=events,
            y=rows,
            mode="markers",
            name=escaped(cut(variable)),
            marker={"color": styles[variable].colour, "symbol": styles[variable].symbol, "size": 9},
            text=[f"match {page.numbers[row]}: {labels[e]}" for row, e in zip(rows, events, strict=True)],
            hovertemplate="%{text}<extra>" + escaped(cut(variable)) + "</extra>",
            row=2,
            col=1,
        )
    n = len(labels)
    every = max(1, -(-n // 20))
    axis = {"gridcolor": theme.GRID, "zeroline": False}
    figure.update_xaxes(range=[-0.5, max(n, 1) - 0.5], **axis)
    figure.update_xaxes(
        tickvals=list(range(0, n, every)), ticktext=labels[::every],
        title={"text": " · ".join(name for name, _ in page.axes) or "event"}, row=2, col=1,
    )  # fmt: skip
    figure.update_yaxes(
        title={"text": "in matches"}, rangemode="tozero", tickformat="d", nticks=4, row=1, col=1, **axis
    )
    figure.update_yaxes(
        title={"text": "match"}, range=[max(len(page.numbers), 1) - 0.5, -0.5], row=2, col=1, **axis,
        tickvals=list(range(len(page.numbers))), ticktext=[str(number) for number in page.numbers],
    )  # fmt: skip
    figure.update_layout(
        title=theme.title_at_left([escaped(title)] if title else [""]),
        margin={"l": 60, "r": 20, "t": 50, "b": 60},
        **theme.layout(sum(heights) + 130),
    )
    if not page.numbers:
        figure.add_annotation(text="no match", showarrow=False, x=0.5, y=0.4, xref="paper", yref="paper")
    return figure


def lineage_svg(
    page: LineagePage, heading: str, chains: Sequence[Mapping] = (), lanes: Sequence[Mapping] = ()
) -> str:
    """Return the matches of a page, with the chains of `LineageView` below them, as SVG text."""
    styles = theme.style_of_variables(sorted(page.variables))
    mark_of = marks_of_variables(page.variables)
    step = min(56.0, (_WIDTH - _LEFT - 20) / max(1, len(page.positions)))
    top = 96
    parts = [drawing.text(0, 18, drawing.fitting(heading, _WIDTH, 14), size=14)]
    most = max(1, int(page.n_matches_of_event.max(initial=0)))
    parts.append(drawing.text(_LEFT - 10, 66, f"in matches, ≤ {most}", anchor="end", size=10))
    for e, count in enumerate(page.n_matches_of_event.tolist()):
        x = _LEFT + (e + 0.5) * step
        bar = drawing.element(
            "rect", x=f"{x - min(5, step * 0.35):.1f}", y=f"{82 - 46 * count / most:.1f}",
            width=f"{2 * min(5, step * 0.35):.1f}", height=f"{46 * count / most:.1f}", fill=theme.INK,
        )  # fmt: skip
        parts.append(drawing.titled(bar, f"{page.labels[e]}: in {count} of the matches shown"))
    for row, number in enumerate(page.numbers):
        y, row_events = top + (row + 0.5) * _ROW, page.event_of_item[page.match_of_item == row]
        parts.append(drawing.text(_LEFT - 10, y + 4, f"match {number}", anchor="end", size=11))
        if len(row_events):
            ends = [_LEFT + (e + 0.5) * step for e in (row_events.min(), row_events.max())]
            parts.append(drawing.path(f"M{ends[0]:.1f},{y}H{ends[1]:.1f}", stroke=theme.INK))
    for row, e, variable in zip(page.match_of_item, page.event_of_item, page.variable_of_item, strict=True):
        x, y = _LEFT + (e + 0.5) * step, top + (row + 0.5) * _ROW
        d, colour = MARKS[mark_of[variable] % len(MARKS)], styles[variable].colour
        place = f"translate({drawing.number(x)},{drawing.number(y)})"
        parts.append(
            drawing.titled(drawing.path(d, fill=colour, transform=place), f"{variable}: {page.labels[e]}")
        )
    bottom = top + _ROW * max(1, len(page.numbers))
    if not page.numbers:
        parts.append(drawing.text(_LEFT, top + 12, "no match"))
    if lanes:
        parts.append(drawing.text(_LEFT - 10, bottom + 20, "chains", anchor="end", size=10))
        parts += _draw_chains(chains, lanes, bottom + 26, step)
        bottom += 26 + _ROW * len(lanes)
    for name, texts in page.axes:
        bottom += 14
        parts.append(drawing.text(_LEFT - 10, bottom, name, anchor="end", size=10))
        free = _LEFT - 8.0
        for e, words in enumerate(texts):
            x, half = _LEFT + (e + 0.5) * step, 3.1 * len(words) + 3
            if words and x - half >= free and x + half <= _WIDTH:
                parts.append(drawing.text(x, bottom, words, anchor="middle", size=10))
                free = x + half
    x = _LEFT
    for variable in page.variables:
        place = f"translate({x + 6},{bottom + 22})"
        d = MARKS[mark_of[variable] % len(MARKS)]
        parts.append(drawing.path(d, fill=styles[variable].colour, transform=place))
        parts.append(drawing.text(x + 16, bottom + 26, drawing.fitting(variable, 110)))
        x += 36 + min(len(variable), 16) * 8
    return drawing.document(_WIDTH, bottom + 38, heading, parts)


def _draw_chains(chains: Sequence[Mapping], lanes: Sequence[Mapping], top: float, step: float) -> list[str]:
    """Return a bar per chain with its events, dashed lines to shared chains, and the names of lanes."""
    names = [lane["variable"] for lane in lanes]
    colour = {name: theme.PALETTE[v % len(theme.PALETTE)] for v, name in enumerate(sorted(set(names)))}
    parts = [
        drawing.text(_LEFT - 10, top + (k + 0.5) * _ROW + 4, name, anchor="end", size=11)
        for k, name in enumerate(names)
        if not k or names[k - 1] != name
    ]
    chain_of_number = {chain["chain"]: chain for chain in chains}
    for chain in chains:
        xs, y = [_LEFT + (e + 0.5) * step for e in chain["events"]], top + (chain["lane"] + 0.5) * _ROW
        hue, before = colour[chain["variable"]], chain_of_number.get(chain["before"])
        if before is not None and chain["tail"] is not None:
            x0, y0 = _LEFT + (chain["tail"] + 0.5) * step, top + (before["lane"] + 0.5) * _ROW
            middle = drawing.number((y + y0) / 2)
            d = f"M{xs[0]:.1f},{y:.1f}C{xs[0]:.1f},{middle} {x0:.1f},{middle} {x0:.1f},{y0:.1f}"
            parts.append(drawing.path(d, fill="none", stroke=theme.INK, stroke_dasharray="3 3"))
        bar = f"M{xs[0]:.1f},{y:.1f}H{xs[-1]:.1f}"
        parts.append(
            drawing.path(bar, stroke=hue, stroke_width=6, stroke_opacity=0.45, stroke_linecap="round")
        )
        dots = [drawing.element("circle", cx=f"{x:.1f}", cy=f"{y:.1f}", r=4, fill=hue) for x in xs]
        parts.append(drawing.titled("".join(dots), f"chain {chain['chain']} of {chain['variable']}"))
    return parts


def marks_of_variables(variables: tuple[str, ...]) -> dict[str, int]:
    """Return each variable's index in MARKS and in the palette, by alphabetical order of the names."""
    return {name: v for v, name in enumerate(sorted(variables))}


def levels_of(chains: pd.DataFrame, chain: int) -> list[tuple[int, frozenset[int]]]:
    """Return the component and the events of each level of a chain, from the first level to the chain itself.

    ``chains`` is the result of ``matches.run.chains_frame()``. A match of the chain has one event of each
    level. Its matches are the combinations that fit into the window.
    """
    of_chain = dict(tuple(chains.groupby("chain")))
    levels, take = [], None
    while chain >= 0:
        rows = of_chain[chain]
        positions = rows["position"].tolist()[:take]
        levels.insert(0, (int(rows["component"].iloc[0]), frozenset(positions)))
        chain, take = int(rows["before"].iloc[0]), int(rows["shared"].iloc[0])
    return levels
