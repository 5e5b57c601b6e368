"""A plotly figure of the events of a stream, with its matches as bands and marks."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from cepkit.errors import CepError, column_not_found, whole_number
from cepkit.events import BOOLEAN, NUMBERS, Events, Source
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.durations import count_text, counted, plural
from cepkit.plots import theme
from cepkit.plots.automata import shown_name
from cepkit.plots.theme import cut, escaped
from cepkit.plots.timeline_axes import (
    Heights,
    Marks,
    Panel,
    Selection,
    TimeAxis,
    Totals,
    heights_of,
    row_axis,
    select,
    time_axis,
    totals_of,
)
from cepkit.values import dataclass, replace

if TYPE_CHECKING:
    import plotly.graph_objects as go


Trace = dict[str, Any]  # a trace of plotly as a value; the figure checks it once

# The traces of one panel of a timeline: bands and match numbers, then events and marks above them.

NARROWEST_BAND = 0.004  # share of the drawn time
MOST_SEEN = 8  # the eye cannot tell more bands over one another apart
STRIP = 0.06  # height of the strip of overlaps, as a share of the panel
DIGIT_WIDTH = 0.011  # share of the drawn time; a match number that would touch the one before is left out


def band_traces(panel: Panel, clock: TimeAxis, extent: float) -> tuple[list[Trace], int]:
    """Return one bar per match, from its first to its last event, and the match numbers."""
    # Overlapping bars are outlines over a fill that is darker where more bars overlap. The bars reach from 0
    # to 1. Where more than `MOST_SEEN` bars overlap, they have no outlines and no numbers, and a strip at the
    # top shows how many overlap. ``extent`` is the drawn time, in the unit of `TimeAxis.lengths`. The second
    # result is the number of bars without an outline.
    if not len(panel.marks):
        # Without a trace below it, the axis of the events would take the whole height of the figure.
        return [dict(type="scatter", x=clock.coordinates[panel.events][:1], y=[None], hoverinfo="skip")], 0
    number, matches = pd.factorize(panel.marks.match)
    order, sizes = np.argsort(number, kind="stable"), np.bincount(number)
    at, begin_of_match = clock.coordinates[panel.marks.row[order]], np.cumsum(sizes) - sizes
    starts, stops = (extreme.reduceat(at, begin_of_match) for extreme in (np.minimum, np.maximum))
    lengths = clock.lengths(starts, stops)
    hints = [
        f"<b>match {match}</b><br>{clock.text(start)} – {clock.text(stop)}"
        f"<br>{clock.length_text(length)}, {counted(size, 'event')}"
        for match, start, stop, length, size in zip(
            matches, starts, stops, lengths, sizes.tolist(), strict=True
        )
    ]
    widths = np.maximum(lengths, NARROWEST_BAND * extent or 1.0)
    begins = clock.move(starts, (lengths - widths) / 2)
    overlaps = _overlaps(begins, widths, clock)
    seen = overlaps.deepest_of_band <= MOST_SEEN
    parts = overlaps.shades(clock, has_strip=not seen.all())

    def bars(own: np.ndarray, edge: dict, **more: object) -> Trace:
        fill = "rgba(0,0,0,0)" if parts else theme.band_colour(1, 1)
        return dict(
            type="bar", orientation="h", base=begins[own], x=widths[own], y=np.full(len(own), 0.5), width=1,
            marker={"color": fill, "line": edge}, legendgroup="match", **more,
        )  # fmt: skip

    every = np.arange(len(matches))
    edge = {"color": theme.edge_colour(min(overlaps.most, MOST_SEEN)), "width": 1}
    is_dense = not seen.all()
    parts.append(
        bars(every, {"width": 0} if is_dense else edge, name="match", hovertext=hints,
             hovertemplate="%{hovertext}<extra></extra>")
    )  # fmt: skip
    if is_dense and seen.any():
        parts.append(bars(np.flatnonzero(seen), edge, hoverinfo="skip"))
    middles = clock.move(starts, lengths / 2)
    n_digits = 2 + max(len(str(match)) for match in matches)
    apart = _keep_apart(clock.lengths(middles.min(), middles), n_digits * DIGIT_WIDTH * extent)
    apart = [k for k in apart if seen[k]]
    labels = dict(
        type="scatter", x=middles[apart], y=np.full(len(apart), 0.98 - STRIP * is_dense), mode="text",
        text=[str(matches[k]) for k in apart], textposition="bottom center",
        textfont={"size": 10, "color": theme.INK}, hoverinfo="skip", showlegend=False,
        legendgroup="match",
    )  # fmt: skip
    return [*parts, labels], int((~seen).sum())


@dataclass(frozen=True, slots=True)
class _Overlaps:
    """How many bands overlap in each part of the time."""

    first: np.datetime64 | float  # the begin of the first band
    bounds: np.ndarray  # float64, (n_parts + 1,): of the parts, after ``first``
    depth: np.ndarray  # int64, (n_parts,)
    deepest_of_band: np.ndarray  # int64, (n_bands,): the greatest depth of the parts of each band

    @property
    def most(self) -> int:
        return int(self.depth.max())

    def shades(self, clock: TimeAxis, *, has_strip: bool) -> list[Trace]:
        """Return a fill that is darker where more bands overlap, and the strip; none without overlaps."""
        if self.most == 1:
            return []
        kept = np.flatnonzero(self.depth)
        depth = self.depth[kept]

        def bars(y: float, height: float, colour: Callable[[int, int], str], **more: object) -> Trace:
            return dict(
                type="bar", orientation="h",
                base=clock.move(np.full(len(kept), self.first), self.bounds[kept]),
                x=np.diff(self.bounds)[kept], y=np.full(len(kept), y), width=height,
                marker={"color": [colour(n, self.most) for n in depth.tolist()], "line": {"width": 0}},
                legendgroup="match", **more,
            )  # fmt: skip

        parts = [bars(0.5, 1, theme.band_colour, name="match", hoverinfo="skip")]
        if has_strip:
            hint = "%{customdata} of the shown matches overlap here<extra></extra>"
            parts.append(bars(1 - STRIP / 2, STRIP, theme.strip_colour, customdata=depth, hovertemplate=hint))
        return parts


def _overlaps(begins: np.ndarray, widths: np.ndarray, clock: TimeAxis) -> _Overlaps:
    """Return how many matches overlap between each two neighbouring borders of matches."""
    first = begins.min()
    starts = clock.lengths(first, begins)
    ends = starts + widths
    bounds = np.unique(np.concatenate([starts, ends]))
    n_begun = np.searchsorted(np.sort(starts), bounds[:-1], side="right")
    depth = n_begun - np.searchsorted(np.sort(ends), bounds[:-1], side="right")
    parts = zip(*(np.searchsorted(bounds, edges).tolist() for edges in (starts, ends)), strict=True)
    return _Overlaps(first, bounds, depth, np.array([depth[low:high].max() for low, high in parts]))


def event_traces(panel: Panel, clock: TimeAxis, heights: Heights) -> list[Trace]:
    """Return a line through the values, or through each match, and the unmatched events as points."""
    # When many events have no value there is no line, and the legend names the points after the value.
    # Matched events have marks; a grey point under a mark would catch the pointer.
    unmatched = panel.events[~np.isin(panel.events, panel.marks.row)]
    if heights.y_of_event is None:
        y = np.full(len(unmatched), len(heights.lanes) - 1.0)
    else:
        y = heights.y_of_event[unmatched]
    only_points = heights.is_value and not heights.has_line
    marker = {"size": 3 + only_points} if heights.is_value else {"size": 9, "symbol": "line-ns-open"}
    points = dict(
        type="scatter", mode="markers", marker=marker | {"color": theme.INK},
        x=clock.coordinates[unmatched], y=y,
        name=escaped(heights.value) if only_points else None if heights.is_value else "event",
        legendgroup="event", customdata=unmatched, hovertemplate=_hint(heights, "row %{customdata}"),
    )  # fmt: skip
    if only_points:
        return [points]
    line = _value_line(panel, clock, heights) if heights.is_value else _threads(panel, clock, heights)
    return [line, points]


def mark_traces(panel: Panel, clock: TimeAxis, heights: Heights, variables: Sequence[str]) -> list[Trace]:
    """Return a trace of marks for each variable that occurs, in the order and style of ``variables``."""
    traces = []
    for variable, style in theme.style_of_variables(variables).items():
        marks = panel.marks.take(panel.marks.variable == variable)
        if not len(marks):
            continue
        y = heights.of_marks(marks)
        has_value = ~np.isnan(y)
        if has_value.any():
            hint = _hint(heights, "row %{customdata[1]}")
            traces.append(_marks(marks.take(has_value), clock, y[has_value], style, hint))
        if not has_value.all():
            blank = marks.take(~has_value)
            y = np.full(len(blank), heights.of_blank(variable))
            hint = f"%{{x}}<br>{escaped(heights.value)} null<br>row %{{customdata[1]}}<extra></extra>"
            traces.append(_marks(blank, clock, y, style, hint))
    return traces


def _marks(marks: Marks, clock: TimeAxis, y: np.ndarray, style: theme.Style, hint: str) -> Trace:
    """Return the trace of the marks of one variable."""
    variable = marks.variable[0]
    name = escaped(shown_name(variable))
    return dict(
        type="scatter", x=clock.coordinates[marks.row], y=y, mode="markers",
        marker={
            "color": style.colour, "symbol": style.symbol, "size": 8,
            "line": {"width": 1.5 if style.symbol.endswith("open") else 0.5, "color": theme.INK},
        },
        name=name, legendgroup=f"variable {variable}", customdata=np.column_stack([marks.match, marks.row]),
        hovertemplate=f"<b>{name}</b>, match %{{customdata[0]}}<br>" + hint,
    )  # fmt: skip


def _value_line(panel: Panel, clock: TimeAxis, heights: Heights) -> Trace:
    """Return a line through the drawn events."""
    x, y = clock.coordinates[panel.events], heights.y_of_event[panel.events]
    return _line(x, y, np.empty(0, np.int64), name=escaped(heights.value), legendgroup="event")


def _threads(panel: Panel, clock: TimeAxis, heights: Heights) -> Trace:
    """Return a line from lane to lane through the rows of each match."""
    number, _ = pd.factorize(panel.marks.match)
    order = np.lexsort((clock.ticks[panel.marks.row], number))
    marks = panel.marks.take(order)
    breaks = np.flatnonzero(np.diff(number[order])) + 1  # where the next match begins
    return _line(clock.coordinates[marks.row], heights.of_marks(marks), breaks, legendgroup="match")


def _line(x: np.ndarray, y: np.ndarray, breaks: np.ndarray, **names: str) -> Trace:
    """Return the trace of a line that is broken before the places ``breaks``."""
    return dict(
        type="scatter", x=np.insert(x, breaks, x[breaks]), y=np.insert(y, breaks, np.nan), mode="lines",
        line={"color": theme.INK, "width": 1}, hoverinfo="skip", connectgaps=False, **names,
    )  # fmt: skip


def _hint(heights: Heights, row: str) -> str:
    value = "" if heights.value is None else f"{escaped(heights.value)} %{{y}}<br>"
    return f"%{{x}}<br>{value}{row}<extra></extra>"


def _keep_apart(positions: np.ndarray, distance: float) -> list[int]:
    """Return the indices, in order of position, that are at least ``distance`` after the one before."""
    kept: list[int] = []
    for k in np.argsort(positions, kind="stable").tolist():
        if not kept or positions[k] - positions[kept[-1]] >= distance:
            kept.append(k)
    return kept


# A plotly figure of the events of a stream, with its matches as bands and marks.

MAX_PANELS = 12
SUBTITLE_CHARACTERS = 90  # per line
PANEL_GAP = 34  # pixels, for the name of the next panel
TICKS_GAP = 34  # more pixels, when every panel has its own time axis
ZOOM_SHARE = 0.2  # panels zoom to matches that, with margins of equal length, take at most this share
MOST_AT_ONCE = 24  # a panel with more matches first shows the first `FEW_AT_ONCE`
FEW_AT_ONCE = 8


def timeline(
    events: pd.DataFrame, marks: Marks, *, time: str | None, value: str | None = None,
    partition: str | None = None, title: str | None = None, max_events: int = 5000,
    totals: Totals | None = None, variables: Sequence[str] = (),
) -> go.Figure:  # fmt: skip
    """Draw matches over the events of their stream."""
    # A band reaches from the first to the last event of a match. Its events are marked with a colour and a
    # symbol per pattern variable. A numeric ``value`` is drawn as a grey line, or as points where many events
    # have none; matched events without a value have a lane per variable below. Any other ``value`` (an event
    # type) has a lane per value. Without ``value`` there is a lane per variable. When the matches take a
    # small part of the time, or a panel has many, it first shows that part, or the first of them.
    from cepkit.plots.lean import LeanFigure

    _check(events, marks, time, value, partition, max_events)
    clock = row_axis(len(events)) if time is None else time_axis(events[time], time)
    partitions = None if partition is None else events[partition]
    is_line = value is not None and pd.api.types.is_numeric_dtype(events[value])
    values = events[value].to_numpy(np.float64, na_value=np.nan) if is_line else None
    chosen = select(
        clock.ticks, partitions, marks, max_events=max_events, max_panels=MAX_PANELS, values=values
    )
    totals = totals or totals_of(chosen, partitions, marks)
    heights, views = heights_of(events, marks, value, chosen), _views(clock, chosen.panels)
    n_panels = max(1, len(chosen.panels))
    is_zoomed = any(view.range for view in views)
    gap = PANEL_GAP + TICKS_GAP * is_zoomed
    plot_height = n_panels * heights.panel_pixels(n_panels) + (n_panels - 1) * gap
    stack = _Stack(n_panels, gap / plot_height)
    layout: dict[str, Any] = {"barmode": "overlay", "hovermode": "closest", "legend": {"tracegroupgap": 0}}
    variables = list(dict.fromkeys([*variables, *marks.variable]))
    in_legend: set[str] = set()
    traces: list[Trace] = []
    n_unseen = 0
    for number, (panel, view) in enumerate(zip(chosen.panels, views, strict=True), start=1):
        panel_heights = heights.in_panel(view.events(clock, panel), n_panels)
        bands, n_own_unseen = band_traces(panel, clock, view.extent)
        n_unseen += n_own_unseen
        points = event_traces(panel, clock, panel_heights) + mark_traces(
            panel, clock, panel_heights, variables
        )
        for trace in bands + points:
            group = trace.get("legendgroup")
            trace["showlegend"] = trace.get("name") is not None and group not in in_legend
            if trace["showlegend"]:
                in_legend.add(group)
        # The bands have their own axis, from 0 to 1, below that of the events.
        for height, drawn in ((2 * number - 1, bands), (2 * number, points)):
            for trace in drawn:
                trace |= {"xaxis": _axis("x", number), "yaxis": _axis("y", height)}
            traces += drawn
        layout |= _axes_of_panel(
            stack, number, clock, panel_heights.axis(panel), view, is_shared=not is_zoomed
        )
    if not chosen.panels:
        layout |= _axes_of_panel(stack, 1, clock, {}, _View(None, 0.0), is_shared=not is_zoomed)
    if partition is not None:
        layout["annotations"] = [
            _name_above(stack.of(number)[1], _panel_title(partition, panel))
            for number, panel in enumerate(chosen.panels, start=1)
        ]
    lines = [_headline(chosen, totals), *_notes(chosen, totals, is_zoomed=is_zoomed)]
    if n_unseen:
        lines.append(f"{n_unseen:,} matches overlap too much for outlines, the strip is darker where more do")
    layout |= _title(
        [title, *lines] if title else lines, plot_height, panels_named=bool(layout.get("annotations"))
    )
    return LeanFigure(traces, {"template": "none", **layout})


def _check(
    events: pd.DataFrame, marks: Marks, time: str | None, value: str | None, partition: str | None,
    max_events: int,
) -> None:  # fmt: skip
    """Raise if a column is missing, if no event can be drawn, or if a mark refers to no event."""
    for role, name in (("time", time), ("value", value), ("partition", partition)):
        if name is not None and name not in events.columns:
            raise column_not_found(f"timeline: {role}", name, events.columns)
    if max_events < 1:
        raise CepError(f"timeline: max_events is {max_events}; at least 1 event can be drawn")
    outside = marks.row[(marks.row < 0) | (marks.row >= len(events))]
    if len(outside):
        raise CepError(
            f"timeline: {len(outside)} of {len(marks)} rows refer to no event, the first to row "
            f"{outside[0]}; there are {len(events)} events, numbered from 0"
        )


@dataclass(frozen=True, slots=True)
class _View:
    """The part of the time that a panel shows first."""

    range: tuple[np.datetime64 | float, np.datetime64 | float] | None  # None: all of it
    extent: float  # its length, in the unit of `TimeAxis.lengths`

    def events(self, clock: TimeAxis, panel: Panel) -> np.ndarray:
        """Return the panel's events in the view."""
        if self.range is None:
            return panel.events
        at = clock.coordinates[panel.events]
        return panel.events[(at >= self.range[0]) & (at <= self.range[1])]


def _views(clock: TimeAxis, panels: Sequence[Panel]) -> list[_View]:
    """Return the view of each panel: all drawn events, or the matches where they are a small part."""
    whole = _length(clock, [panel.events for panel in panels])
    views = [_zoom_to_matches(clock, panel, whole) or _View(None, whole) for panel in panels]
    if all(view.range is None for view in views):
        return views
    longest = max(view.extent for view in views if view.range)
    both = zip(views, panels, strict=True)
    return [view if view.range else _view_all(clock, panel, longest) for view, panel in both]


def _view_all(clock: TimeAxis, panel: Panel, longest: float) -> _View:
    """Return the view of all events of a panel; events at one moment get the length ``longest``."""
    length = _length(clock, [panel.events])
    if length or not len(panel.events):
        return _View(None, length)
    moment = np.repeat(clock.coordinates[panel.events[:1]], 2)
    start, stop = clock.move(moment, np.array([-longest / 2, longest / 2]))
    return _View((start, stop), longest)


def _length(clock: TimeAxis, events: Sequence[np.ndarray]) -> float:
    drawn = clock.coordinates[np.concatenate([*events, np.zeros(0, np.int64)])]
    return float(clock.lengths(drawn.min(), drawn.max())) if len(drawn) else 0.0


def _zoom_to_matches(clock: TimeAxis, panel: Panel, whole: float) -> _View | None:
    if not len(panel.marks):
        return None
    match_of_row, _ = pd.factorize(panel.marks.match)
    is_crowded = match_of_row.max() >= MOST_AT_ONCE
    rows = panel.marks.row[match_of_row < FEW_AT_ONCE] if is_crowded else panel.marks.row
    matched = clock.coordinates[rows]
    length = float(clock.lengths(matched.min(), matched.max()))
    if not 0 < 3 * length <= (1.0 if is_crowded else ZOOM_SHARE) * whole:  # no zoom to events at one moment
        return None
    length *= 0.15 if is_crowded else 1.0  # the margin
    drawn = clock.coordinates[panel.events]
    begin, end = clock.move(np.array([matched.min(), matched.max()]), np.array([-length, length]))
    first, last = clock.move(np.array([drawn.min(), drawn.max()]), np.array([-length, length]) / 10)
    begin, end = max(begin, first), min(end, last)  # no empty space before the first event
    return _View((begin, end), float(clock.lengths(begin, end)))


def _headline(chosen: Selection, totals: Totals) -> str:
    """Return how many of the matches and events the picture shows."""
    n_events = counted(totals.n_events, "event")
    if not totals.n_matches:
        part = "" if totals.is_exact else "the searched part of "
        return f"no match in {part}{n_events}"
    drawn, marked = chosen.n_matches_drawn, len(np.unique(chosen.marked_rows()))
    n_matches = count_text(totals.n_matches, exact=totals.is_exact)
    if totals.is_exact and drawn == totals.n_matches and marked == totals.n_events_matched:
        return f"{n_matches} {plural('match', drawn)}, {marked:,} of {n_events} matched"
    parts = [f"{drawn:,} of {n_matches} {plural('match', totals.n_matches)} shown"]
    if _leaves_out_matched(chosen, totals):
        n_panels = sum(len(panel.marks) > 0 for panel in chosen.panels)
        parts.append(f"{n_panels:,} of {totals.n_partitions_matched:,} partitions with matches")
    if totals.n_events_matched is None:
        parts.append(f"{counted(marked, 'event')} in them")
    else:
        parts.append(
            f"{marked:,} of {totals.n_events_matched:,} matched {plural('event', totals.n_events_matched)}"
        )
    return ", ".join(parts)


def _leaves_out_matched(chosen: Selection, totals: Totals) -> bool:
    n_panels = sum(len(panel.marks) > 0 for panel in chosen.panels)
    return totals.n_partitions_matched is not None and n_panels < totals.n_partitions_matched


def _notes(chosen: Selection, totals: Totals, *, is_zoomed: bool) -> list[str]:
    """Return the notes for the title on what is left out."""
    notes = []
    n_drawn = len(chosen.panels)
    if n_drawn < totals.n_partitions and not _leaves_out_matched(chosen, totals):
        n_left = totals.n_partitions - n_drawn
        notes.append(f"{n_drawn} of {totals.n_partitions:,} partitions drawn, {n_left:,} not shown")
    if chosen.n_events_drawn < chosen.n_events:
        notes.append(f"{chosen.n_events_drawn:,} of {chosen.n_events:,} events drawn")
    if is_zoomed:
        notes.append("zoomed to matches, a double click shows all events")
    return notes


@dataclass(frozen=True, slots=True)
class _Stack:
    """Where the panels lie on the page, as shares of its height from the bottom."""

    n_panels: int
    gap: float

    def of(self, number: int) -> tuple[float, float]:
        """Return the bottom and the top of a panel; the first panel is the uppermost."""
        height = (1 - self.gap * (self.n_panels - 1)) / self.n_panels
        bottom = (self.n_panels - number) * (height + self.gap)
        return bottom, bottom + height


def _axis(letter: str, number: int) -> str:
    """Return plotly's name of an axis."""
    return letter if number == 1 else f"{letter}{number}"


def _axes_of_panel(
    stack: _Stack, number: int, clock: TimeAxis, heights: dict, view: _View, *, is_shared: bool
) -> dict[str, dict]:
    """Return the axes of a panel: time, the bands from 0 to 1, and above them the heights of the events."""
    line = {"gridcolor": theme.GRID, "linecolor": theme.GRID, "zeroline": False, "ticks": ""}
    x, bands, events = _axis("x", number), _axis("y", 2 * number - 1), _axis("y", 2 * number)
    time = {"anchor": bands, "domain": [0, 1], "type": "date" if clock.is_date else "linear", **line}
    if clock.is_date:
        time["hoverformat"] = clock.hover_format()
    if view.range:
        time["range"] = clock.bounds(*view.range)
    if number == stack.n_panels:
        time["title"] = {"text": escaped(clock.title)}
    elif is_shared:
        time |= {"matches": _axis("x", stack.n_panels), "showticklabels": False}
    below = {"anchor": x, "domain": stack.of(number), "range": [0, 1], "visible": False, "fixedrange": True}
    above = {"anchor": x, "overlaying": bands, "side": "left", "automargin": True, **line, **heights}
    names = (x.replace("x", "xaxis"), bands.replace("y", "yaxis"), events.replace("y", "yaxis"))
    return dict(zip(names, (time, below, above), strict=True))


def _name_above(top: float, text: str) -> dict:
    """Return the name of a panel above its left corner."""
    return {
        "text": text, "x": 0, "xref": "paper", "xanchor": "left", "y": top, "yref": "paper",
        "yanchor": "bottom", "showarrow": False, "font": {"size": 12, "color": theme.INK},
    }  # fmt: skip


def _title(lines: list[str], plot_height: int, *, panels_named: bool) -> dict:
    """Return the title from the first line, the subtitle from the others, and the figure's size."""
    below = textwrap.wrap("; ".join(lines[1:]), SUBTITLE_CHARACTERS)
    top = 48 + 18 * len(below) + (26 if panels_named else 0)
    bottom = 64
    return {
        "title": theme.title_at_left([escaped(line) for line in (lines[0], *below)]),
        "margin": {"l": 60, "r": 20, "t": top, "b": bottom},
        **theme.layout(top + plot_height + bottom),
    }


def _panel_title(partition: str, panel: Panel) -> str:
    name = "null" if pd.isna(panel.name) else cut(str(panel.name))
    return escaped(f"{partition} = {name}")


# The figure of a result: matches over the events of their first partitions, with totals in the title.


def plot_matches(
    query: Any, source: Source, events: Events, columns: Sequence[str], partition_of_match: np.ndarray,
    marks: Callable[[np.ndarray], Marks], totals: Callable[[int], Totals], *, value: str | None,
    partitions: int, max_events: int,
) -> go.Figure:  # fmt: skip
    """Draw the first matches over the events of their partitions."""
    partitions = whole_number("partitions", partitions, 1)
    max_events = whole_number("max_events", max_events)
    if value is not None and (not isinstance(value, str) or value not in source.schema):
        raise column_not_found("value", value, source.schema)
    if value is None:
        times_read = Counter(_read_by_conditions(query))
        numeric = [name for name in columns if _is_value(name, query, source)]
        value = max(numeric, key=times_read.__getitem__, default=None)
    shown = pd.unique(partition_of_match)[:partitions]
    if not len(shown):
        shown = pd.unique(events.partition_of_event[:1000])[:partitions]
    positions = np.flatnonzero(np.isin(events.partition_of_event, shown))
    rows = events.rows(positions)
    time = query.order_by[0] if query.order_by else None
    drawn = {name: source.arrow(name, rows).to_pandas() for name in dict.fromkeys([time, value]) if name}
    key = None
    if query.partition_by:
        key = ", ".join(query.partition_by)
        parts = [source.arrow(name, rows).to_pandas().astype(str) for name in query.partition_by]
        drawn[key] = parts[0] if len(parts) == 1 else parts[0].str.cat(parts[1:], sep=", ")
    drawn_marks = marks(np.flatnonzero(np.isin(partition_of_match, shown)))
    drawn_marks = replace(drawn_marks, row=np.searchsorted(positions, drawn_marks.row))
    # A category without rows has a code, but it is no partition.
    n_partitions = int(np.count_nonzero(np.bincount(events.partition_of_event)))
    return timeline(
        pd.DataFrame(drawn) if drawn else pd.DataFrame(index=range(len(rows))),
        drawn_marks, time=time, value=value, partition=key, title=str(query.pattern), max_events=max_events,
        totals=totals(n_partitions), variables=theme.variables_of(query),
    )  # fmt: skip


def _read_by_conditions(query: Any) -> Iterator[str]:
    """Yield a column each time that a condition reads it."""
    rows = getattr(query, "rows", query)
    trees = rows.where if hasattr(rows, "where") else [tree for _, tree in rows.define]
    for tree in trees:
        yield from ex.columns_in(tree)


def _is_value(name: str, query: Any, source: Source) -> bool:
    column_type = source.schema.get(name)
    return (
        column_type is not None
        and column_type.kind in NUMBERS
        and name not in query.order_by
        and column_type.kind != BOOLEAN
    )
