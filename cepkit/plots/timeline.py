"""The events of a stream with its matches as bands and marks, as a plotly figure of tidy data."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from cepkit.errors import CepError, column_not_found
from cepkit.plots import theme
from cepkit.plots.automaton import shown_name
from cepkit.plots.axes import TimeAxis, numbers, row_axis, time_axis
from cepkit.plots.selection import Panel, Selection, select
from cepkit.plots.traces import Heights, band_traces, escaped, event_traces, mark_traces

if TYPE_CHECKING:
    import plotly.graph_objects as go

MAX_PANELS = 12
MAX_LANES = 20
NAME_CHARACTERS = 40
SUBTITLE_CHARACTERS = 90  # of a line
PANEL_GAP = 34  # pixels; has the name of the next panel


def timeline(
    events: pd.DataFrame,
    rows: pd.DataFrame,
    *,
    time: str | None,
    value: str | None = None,
    partition: str | None = None,
    title: str | None = None,
    max_events: int = 5000,
) -> go.Figure:
    """Draw matches over the events they were found in.

    A band reaches from the first to the last event of a match; its events are marked with a colour and a
    symbol per pattern variable. A numeric ``value`` is drawn as a grey line. Any other ``value`` (an event
    type) has a lane per value, and without ``value`` there is a lane per variable.

    Parameters
    ----------
    events : pandas.DataFrame
        One row per event, in any order; ``rows`` refers to the row number, from 0. The index is ignored.
    rows : pandas.DataFrame
        One row per matched event: ``match`` (int), ``variable`` (str, ``"."`` for any event), ``row`` (int).
        When there is no room for all matches, those that come first here are drawn.
    time : str or None
        Column of timestamps, durations or numbers without nulls; None draws by row number.
    value, partition : str, optional
        Columns of ``events``. Each partition has a panel, at most 12; those with matches come first.
    title : str, optional
        Taken literally.
    max_events : int
        Largest number of events drawn: those of the first matches, then the ones nearest to them. The title
        says what is left out.

    Returns
    -------
    plotly.graph_objects.Figure
        With transparent paper and mid-tones, for light and dark pages. Same input, same JSON.

    Raises
    ------
    ColumnNotFoundError
        When a named column is missing.
    OrderError
        When a time is null.
    CepError
        When ``rows`` names rows that ``events`` does not have, or ``time`` is no clock.

    Notes
    -----
    Time O(n log n) in events and rows; the figure's size is O(max_events).

    Examples
    --------
    >>> events = pd.DataFrame({"ts": pd.to_datetime(["2024-01-02", "2024-01-03"]), "price": [10.0, 12.5]})
    >>> rows = pd.DataFrame({"match": [0, 0], "variable": ["low", "high"], "row": [0, 1]})
    >>> figure = timeline(events, rows, time="ts", value="price")
    >>> [trace.name for trace in figure.data if trace.name]
    ['match', 'price', 'low', 'high']
    >>> figure.layout.title.text, figure.layout.xaxis.title.text
    ('1 match, 2 of 2 events matched', 'ts (time)')
    """
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

    _check(events, rows, time, value, partition, max_events)
    rows = pd.DataFrame(
        {
            "match": rows["match"].to_numpy(np.int64),
            "variable": rows["variable"].to_numpy(object),
            "row": rows["row"].to_numpy(np.int64),
        }
    )
    clock = row_axis(len(events)) if time is None else time_axis(events[time], time)
    partitions = None if partition is None else events[partition]
    chosen = select(clock.ticks, partitions, rows, max_events=max_events, max_panels=MAX_PANELS)
    heights, extent = _heights(events, rows, value, chosen), _extent(clock, chosen)
    panel_titles = [] if partition is None else [_panel_title(partition, panel) for panel in chosen.panels]
    n_panels = max(1, len(chosen.panels))
    plot_height = _plot_height(n_panels, heights)
    figure = make_subplots(
        rows=n_panels,
        shared_xaxes=True,
        vertical_spacing=PANEL_GAP / plot_height,
        specs=[[{"secondary_y": True}]] * n_panels,
        subplot_titles=panel_titles or None,
        figure=go.Figure(layout={"template": "none"}),  # the default template would add 19 KB
    )
    variables = list(dict.fromkeys(rows["variable"]))
    in_legend: set[str] = set()
    for number, panel in enumerate(chosen.panels, start=1):
        bands = band_traces(panel, clock, extent)
        points = event_traces(panel, clock, heights) + mark_traces(panel, clock, heights, variables)
        for trace in bands + points:
            trace.showlegend = trace.name is not None and trace.legendgroup not in in_legend
            if trace.showlegend:
                in_legend.add(trace.legendgroup)
        # The bands have an axis of their own, from 0 to 1, below that of the events.
        for on_top, traces in ((False, bands), (True, points)):
            figure.add_traces(traces, rows=number, cols=1, secondary_ys=[on_top] * len(traces))
        figure.update_yaxes(_height_axis(panel, heights), row=number, col=1, secondary_y=True)
    _lay_out(figure, clock, n_panels)
    lines = [_headline(rows, chosen), *_notes(chosen, heights)]
    _set_title(figure, [title, *lines] if title else lines, plot_height, panels_named=bool(panel_titles))
    return figure


def _check(
    events: pd.DataFrame,
    rows: pd.DataFrame,
    time: str | None,
    value: str | None,
    partition: str | None,
    max_events: int,
) -> None:
    for role, name in (("time", time), ("value", value), ("partition", partition)):
        if name is not None and name not in events.columns:
            raise column_not_found(f"timeline: {role}", name, events.columns)
    for name in ("match", "variable", "row"):
        if name not in rows.columns:
            raise column_not_found("timeline: rows", name, rows.columns)
    if max_events < 1:
        raise CepError(f"timeline: max_events is {max_events}; at least 1 event can be drawn")
    outside = rows["row"][(rows["row"] < 0) | (rows["row"] >= len(events))]
    if len(outside):
        raise CepError(
            f"timeline: {len(outside)} of {len(rows)} rows refer to no event, the first to row "
            f"{outside.iloc[0]}; there are {len(events)} events, numbered from 0"
        )


def _heights(events: pd.DataFrame, rows: pd.DataFrame, value: str | None, chosen: Selection) -> Heights:
    if value is None:
        drawn = {variable for panel in chosen.panels for variable in panel.marks["variable"]}
        variables = [variable for variable in dict.fromkeys(rows["variable"]) if variable in drawn]
        return Heights(None, (*variables, "no match"), None)
    y_of_event = numbers(events[value])
    if y_of_event is not None:
        return Heights(y_of_event, (), value)
    y_of_event, lanes = _lanes_of_types(events[value], chosen)
    return Heights(y_of_event, lanes, value)


def _lanes_of_types(column: pd.Series, chosen: Selection) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return the lane of each drawn event and the lanes; types beyond the limit share the last one."""
    drawn = np.sort(chosen.drawn_rows())
    shown = column.iloc[drawn]
    code, types = pd.factorize(shown.astype(str).where(shown.notna(), "null").to_numpy(object))
    # Matched types are kept before others, frequent ones before rare ones.
    weight = np.bincount(code, 1.0 + len(drawn) * np.isin(drawn, chosen.marked_rows()), minlength=len(types))
    kept = np.argsort(-weight, kind="stable")[: MAX_LANES if len(types) <= MAX_LANES else MAX_LANES - 1]
    lane_of_type = np.full(len(types), len(kept), float)
    lane_of_type[np.sort(kept)] = np.arange(len(kept))
    y_of_event = np.full(len(column), np.nan)
    y_of_event[drawn] = lane_of_type[code]
    n_others = len(types) - len(kept)
    lanes = [str(types[k]) for k in np.sort(kept)] + ([f"{n_others} other types"] if n_others else [])
    return y_of_event, tuple(lanes)


def _extent(clock: TimeAxis, chosen: Selection) -> float:
    """Return the length of the drawn time."""
    drawn = clock.coordinates[chosen.drawn_rows()]
    return float(clock.lengths(drawn.min(), drawn.max())) if len(drawn) else 0.0


def _height_axis(panel: Panel, heights: Heights) -> dict:
    if heights.lanes:
        names = [escaped(_cut(shown_name(name))) for name in heights.lanes]
        return {
            "range": [len(names) - 0.4, -0.9],
            "tickmode": "array",
            "tickvals": list(range(len(names))),
            "ticktext": names,
            "title": {"text": escaped(heights.value or "variable")},
        }
    drawn = heights.y_of_event[panel.events]
    axis = {"title": {"text": escaped(heights.value)}, "tickmode": "auto", "nticks": 6}
    if np.isnan(drawn).all():
        return axis
    low, high = np.nanmin(drawn), np.nanmax(drawn)
    room = (high - low) or abs(high) or 1.0
    return axis | {"range": [low - 0.08 * room, high + 0.22 * room]}  # above: the numbers of the matches


def _headline(rows: pd.DataFrame, chosen: Selection) -> str:
    if not chosen.n_matches:
        return f"no match in {chosen.n_events:,} {_plural('event', chosen.n_events)}"
    matched = rows["row"].nunique()
    return (
        f"{chosen.n_matches:,} {'match' if chosen.n_matches == 1 else 'matches'}, "
        f"{matched:,} of {chosen.n_events:,} {_plural('event', chosen.n_events)} matched"
    )


def _notes(chosen: Selection, heights: Heights) -> list[str]:
    """Return what is left out, for the title."""
    notes = []
    if len(chosen.panels) < chosen.n_partitions:
        n_left = chosen.n_partitions - len(chosen.panels)
        notes.append(
            f"{len(chosen.panels)} of {chosen.n_partitions:,} partitions drawn, {n_left:,} not shown"
        )
    if chosen.n_matches_drawn < chosen.n_matches:
        notes.append(f"{chosen.n_matches_drawn:,} of {chosen.n_matches:,} matches drawn")
    if chosen.n_events_drawn < chosen.n_events:
        notes.append(f"{chosen.n_events_drawn:,} of {chosen.n_events:,} events drawn")
    if heights.is_value:
        n_blank = int(np.isnan(heights.y_of_event[np.unique(chosen.marked_rows())]).sum())
        if n_blank:
            notes.append(f"{n_blank:,} matched {_plural('event', n_blank)} without a value not marked")
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
    figure.update_layout(
        barmode="overlay",
        hovermode="closest",
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"color": theme.INK, "family": theme.SANS, "size": 12},
        legend={"tracegroupgap": 0},
    )


def _plot_height(n_panels: int, heights: Heights) -> int:
    """Return the height of all panels and the gaps between them, in pixels."""
    of_panel = max(300 if n_panels == 1 else 150 if n_panels <= 3 else 110, 24 * len(heights.lanes))
    return n_panels * of_panel + (n_panels - 1) * PANEL_GAP


def _set_title(figure: go.Figure, lines: list[str], plot_height: int, *, panels_named: bool) -> None:
    """Set the first line as the title, the others below it, and the size of the figure with them."""
    below = textwrap.wrap("; ".join(lines[1:]), SUBTITLE_CHARACTERS)
    top = 48 + 18 * len(below) + (26 if panels_named else 0)
    bottom = 64
    figure.update_layout(
        title={
            "text": escaped(lines[0]),
            "subtitle": {"text": "<br>".join(map(escaped, below)), "font": {"size": 12}},
            "font": {"size": 16},
            "x": 0,
            "xref": "paper",
            "xanchor": "left",
            "y": 1,
            "yanchor": "top",
            "pad": {"t": 14},
        },
        margin={"l": 60, "r": 20, "t": top, "b": bottom},
        height=top + plot_height + bottom,
    )


def _panel_title(partition: str, panel: Panel) -> str:
    name = "null" if pd.isna(panel.name) else _cut(str(panel.name))
    return escaped(f"{partition} = {name}")


def _cut(name: str) -> str:
    return name if len(name) <= NAME_CHARACTERS else name[: NAME_CHARACTERS - 1] + "…"


def _plural(noun: str, count: int) -> str:
    return noun if count == 1 else f"{noun}s"
