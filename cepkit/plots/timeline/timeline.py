"""A plotly figure of the events of a stream, with its matches as bands and marks."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from cepkit.errors import CepError, column_not_found, require_columns
from cepkit.language.numbers import count_text
from cepkit.plots import theme
from cepkit.plots.text import cut, escaped
from cepkit.plots.timeline.axes import TimeAxis, row_axis, time_axis
from cepkit.plots.timeline.heights import heights_of
from cepkit.plots.timeline.selection import Panel, Selection, Totals, select, totals_of
from cepkit.plots.timeline.traces import band_traces, event_traces, mark_traces

if TYPE_CHECKING:
    import plotly.graph_objects as go

MAX_PANELS = 12
SUBTITLE_CHARACTERS = 90  # per line
PANEL_GAP = 34  # pixels, for the name of the next panel
TICKS_GAP = 34  # more pixels, when every panel has its own time axis
ZOOM_SHARE = 0.2  # panels zoom to matches that, with margins of equal length, take at most this share


def timeline(
    events: pd.DataFrame, rows: pd.DataFrame, *, time: str | None, value: str | None = None,
    partition: str | None = None, title: str | None = None, max_events: int = 5000,
    totals: Totals | None = None,
) -> go.Figure:  # fmt: skip
    """Draw matches over the events of their stream.

    A band reaches from the first to the last event of a match. Its events are marked with a colour and a
    symbol per pattern variable. A numeric ``value`` is drawn as a grey line, or as points where many events
    have none; matched events without a value have a lane per variable below. Any other ``value`` (an event
    type) has a lane per value. Without ``value`` there is a lane per variable. When the matches take a small
    part of the time, each panel first shows that part.
    """
    from plotly.subplots import make_subplots

    from cepkit.plots.lean import LeanFigure

    _check(events, rows, time, value, partition, max_events)
    kinds = {"match": np.int64, "variable": object, "row": np.int64}
    rows = pd.DataFrame({name: rows[name].to_numpy(kind) for name, kind in kinds.items()})
    clock = row_axis(len(events)) if time is None else time_axis(events[time], time)
    partitions = None if partition is None else events[partition]
    chosen = select(clock.ticks, partitions, rows, max_events=max_events, max_panels=MAX_PANELS)
    totals = totals or totals_of(chosen, partitions, rows)
    heights, views = heights_of(events, rows, value, chosen), _views(clock, chosen.panels)
    panel_titles = [] if partition is None else [_panel_title(partition, panel) for panel in chosen.panels]
    n_panels = max(1, len(chosen.panels))
    is_zoomed = any(view.range for view in views)
    gap = PANEL_GAP + TICKS_GAP * is_zoomed
    plot_height = n_panels * heights.panel_pixels(n_panels) + (n_panels - 1) * gap
    figure = make_subplots(
        rows=n_panels,
        shared_xaxes=not is_zoomed,
        vertical_spacing=gap / plot_height,
        specs=[[{"secondary_y": True}]] * n_panels,
        subplot_titles=panel_titles or None,
        figure=LeanFigure(),
    )
    variables = list(dict.fromkeys(rows["variable"]))
    in_legend: set[str] = set()
    n_unseen = 0
    for number, (panel, view) in enumerate(zip(chosen.panels, views, strict=True), start=1):
        own = heights.in_panel(view.events(clock, panel), n_panels)
        bands, n_own_unseen = band_traces(panel, clock, view.extent)
        n_unseen += n_own_unseen
        points = event_traces(panel, clock, own) + mark_traces(panel, clock, own, variables)
        for trace in bands + points:
            trace.showlegend = trace.name is not None and trace.legendgroup not in in_legend
            if trace.showlegend:
                in_legend.add(trace.legendgroup)
        # The bands have their own axis, from 0 to 1, below that of the events.
        for on_top, traces in ((False, bands), (True, points)):
            figure.add_traces(traces, rows=number, cols=1, secondary_ys=[on_top] * len(traces))
        figure.update_yaxes(own.axis(panel), row=number, col=1, secondary_y=True)
        if view.range:
            figure.update_xaxes(range=clock.bounds(*view.range), row=number, col=1)
    _lay_out(figure, clock, n_panels)
    lines = [_headline(chosen, totals), *_notes(chosen, totals, is_zoomed=is_zoomed)]
    if n_unseen:
        lines.append(f"{n_unseen:,} matches overlap too much for outlines, the strip is darker where more do")
    _set_title(figure, [title, *lines] if title else lines, plot_height, panels_named=bool(panel_titles))
    return figure


def _check(
    events: pd.DataFrame, rows: pd.DataFrame, time: str | None, value: str | None, partition: str | None,
    max_events: int,
) -> None:  # fmt: skip
    for role, name in (("time", time), ("value", value), ("partition", partition)):
        if name is not None and name not in events.columns:
            raise column_not_found(f"timeline: {role}", name, events.columns)
    require_columns("timeline: rows", ("match", "variable", "row"), rows.columns)
    if max_events < 1:
        raise CepError(f"timeline: max_events is {max_events}; at least 1 event can be drawn")
    outside = rows["row"][(rows["row"] < 0) | (rows["row"] >= len(events))]
    if len(outside):
        raise CepError(
            f"timeline: {len(outside)} of {len(rows)} rows refer to no event, the first to row "
            f"{outside.iloc[0]}; there are {len(events)} events, numbered from 0"
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
    if panel.marks.empty:
        return None
    matched = clock.coordinates[panel.marks["row"]]
    length = float(clock.lengths(matched.min(), matched.max()))
    if not 0 < 3 * length <= ZOOM_SHARE * whole:  # no zoom to events at one moment
        return None
    drawn = clock.coordinates[panel.events]
    begin, end = clock.move(np.array([matched.min(), matched.max()]), np.array([-length, length]))
    first, last = clock.move(np.array([drawn.min(), drawn.max()]), np.array([-length, length]) / 10)
    begin, end = max(begin, first), min(end, last)  # no empty space before the first event
    return _View((begin, end), float(clock.lengths(begin, end)))


def _headline(chosen: Selection, totals: Totals) -> str:
    """Return how many of the matches and events the picture shows."""
    n_events = f"{totals.n_events:,} {_plural('event', totals.n_events)}"
    if not totals.n_matches:
        part = "" if totals.is_exact else "the searched part of "
        return f"no match in {part}{n_events}"
    drawn, marked = chosen.n_matches_drawn, len(np.unique(chosen.marked_rows()))
    n_matches = count_text(totals.n_matches, exact=totals.is_exact)
    if totals.is_exact and drawn == totals.n_matches and marked == totals.n_events_matched:
        return f"{n_matches} {'match' if drawn == 1 else 'matches'}, {marked:,} of {n_events} matched"
    parts = [f"{drawn:,} of {n_matches} {_plural('match', totals.n_matches)} shown"]
    if _leaves_out_matched(chosen, totals):
        n_panels = sum(not panel.marks.empty for panel in chosen.panels)
        parts.append(f"{n_panels:,} of {totals.n_partitions_matched:,} partitions with matches")
    if totals.n_events_matched is None:
        parts.append(f"{marked:,} {_plural('event', marked)} in them")
    else:
        parts.append(
            f"{marked:,} of {totals.n_events_matched:,} matched {_plural('event', totals.n_events_matched)}"
        )
    return ", ".join(parts)


def _leaves_out_matched(chosen: Selection, totals: Totals) -> bool:
    n_panels = sum(not panel.marks.empty for panel in chosen.panels)
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
        notes.append("zoomed to the matches, a double click shows all events")
    return notes


def _lay_out(figure: go.Figure, clock: TimeAxis, n_panels: int) -> None:
    line = {"gridcolor": theme.GRID, "linecolor": theme.GRID, "zeroline": False, "ticks": ""}
    figure.update_xaxes(type="date" if clock.is_date else "linear", domain=[0, 1], **line)
    figure.update_xaxes(title={"text": escaped(clock.title)}, row=n_panels, col=1)
    if clock.is_date:
        figure.update_xaxes(hoverformat=clock.hover_format())
    figure.update_yaxes(range=[0, 1], visible=False, fixedrange=True, secondary_y=False)
    figure.update_yaxes(side="left", automargin=True, secondary_y=True, **line)
    figure.update_annotations(x=0, xanchor="left", font={"size": 12, "color": theme.INK})
    figure.update_layout(barmode="overlay", hovermode="closest", legend={"tracegroupgap": 0})


def _set_title(figure: go.Figure, lines: list[str], plot_height: int, *, panels_named: bool) -> None:
    """Set the title from the first line, the subtitle from the others, and the figure's size."""
    below = textwrap.wrap("; ".join(lines[1:]), SUBTITLE_CHARACTERS)
    top = 48 + 18 * len(below) + (26 if panels_named else 0)
    bottom = 64
    figure.update_layout(
        title=theme.title_at_left([escaped(line) for line in (lines[0], *below)]),
        margin={"l": 60, "r": 20, "t": top, "b": bottom},
        **theme.layout(top + plot_height + bottom),
    )


def _panel_title(partition: str, panel: Panel) -> str:
    name = "null" if pd.isna(panel.name) else cut(str(panel.name))
    return escaped(f"{partition} = {name}")


def _plural(noun: str, count: int) -> str:
    return noun if count == 1 else f"{noun}{'es' if noun.endswith('ch') else 's'}"
