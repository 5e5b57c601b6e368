"""Compute and plot the lengths of the agents' queues and buffers over time."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd

from cepkit.errors import CepError, nearest, require_columns, whole_number
from cepkit.parallel.plots.threads import agents_in, clock_title, run_title
from cepkit.parallel.trace import LENGTHS, Trace, clock_unit
from cepkit.plots import theme
from cepkit.plots.theme import cut, escaped

if TYPE_CHECKING:
    import plotly.graph_objects as go


# Compute the lengths of queues and buffers in a part of a run, in bins of equal length.

BINS_OF_LENGTHS = 240


class Occupancy(NamedTuple):
    """Lengths by kind (index into LENGTHS), agent and bin; 0 before an agent's first reading."""

    edges: np.ndarray  # float64, (n_bins + 1,): ns since the start of the run
    mean: np.ndarray  # float64, (4, n_agents, n_bins): mean over the time of the bin
    least: np.ndarray  # int64, (4, n_agents, n_bins): least length during the bin or read in it
    greatest: np.ndarray  # int64, (4, n_agents, n_bins)


def occupancy(
    trace: Trace, begin: float = 0.0, until: float | None = None, n_bins: int = BINS_OF_LENGTHS
) -> Occupancy:
    """Return the lengths of all queues and buffers from ``begin`` to ``until``, in bins."""
    whole_number("occupancy: n_bins", n_bins, 1)
    read, n = trace.lengths_read, len(trace.agents)
    until = run_end(trace) if until is None else until
    edges = np.linspace(begin, until, n_bins + 1)
    mean = np.zeros((len(LENGTHS), n, n_bins))
    least, greatest = np.zeros((2, len(LENGTHS), n, n_bins), np.int64)
    for agent in range(n if until > begin else 0):
        rows = np.flatnonzero(read.agent == agent)
        rows = rows[np.argsort(read.time[rows], kind="stable")]
        for k, name in enumerate(LENGTHS):
            statistics = lengths_in_bins(read.time[rows], getattr(read, name)[rows], edges, at_edges=True)
            mean[k, agent], least[k, agent], greatest[k, agent] = statistics
    return Occupancy(edges, mean, least, greatest)


def lengths_in_bins(
    time: np.ndarray, values: np.ndarray, edges: np.ndarray, *, at_edges: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the mean, least and greatest length in bins of equal width, from readings in order of time.

    ``at_edges``: whether all readings at the start of a bin count for it; else only the last of them.

    """
    time, values = np.append(0.0, time), np.append(0, values)
    last = np.searchsorted(time, edges, side="right") - 1
    held = np.append(0.0, np.cumsum(values[:-1] * np.diff(time)))  # the integral up to each reading
    width = (edges[-1] - edges[0]) / (len(edges) - 1)
    mean = np.diff(held[last] + values[last] * (edges - time[last])) / width
    least, greatest = values[last[:-1]], values[last[:-1]]
    number = np.clip(np.searchsorted(edges, time, side="right") - 1, 0, len(edges) - 2)
    inside = (time > (edges[0] if at_edges else edges[number])) & (time <= edges[-1])
    np.minimum.at(least, number[inside], values[inside])
    np.maximum.at(greatest, number[inside], values[inside])
    return mean, least, greatest


def run_end(trace: Trace) -> float:
    """Return the end of a run or its last reading, whichever is later, in ns."""
    return max(trace.makespan, float(trace.lengths_read.time.max(initial=0.0)))


# Plot the lengths of the agents' queues and buffers over time, from tidy data.

MOST_READINGS = 1000  # draw more readings of an agent in bins
BINS = 150
RANGE_ALPHA = "24"  # opacity of the area between least and greatest, two hexadecimal digits
PANEL_PIXELS = 190
MODEL_MARKS = 9
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
_UNITS = {"event_queue": "events", "event_buffer": "events"}


def length_lines(
    lengths: pd.DataFrame,
    *,
    models: pd.DataFrame | None = None,
    until: float | None = None,
    measured: bool | None = None,
    title: str | None = None,
) -> go.Figure:
    """Draw a panel per queue and buffer, with a line per agent and a level line per model."""
    from plotly.subplots import make_subplots

    from cepkit.plots.lean import LeanFigure

    _check(lengths, models)
    end = max(until or 0.0, float(lengths["time"].max()) if len(lengths) else 0.0)
    unit, size = clock_unit(end)
    figure = make_subplots(
        rows=2,
        cols=2,
        shared_xaxes=True,
        vertical_spacing=0.13,
        horizontal_spacing=0.1,
        subplot_titles=[name.replace("partial_", "partial match ").replace("_", " ") for name in LENGTHS],
        figure=LeanFigure(),
    )
    agents = [*agents_in(lengths["agent"]), *([] if models is None else models["agent"])]
    agents = list(dict.fromkeys(agents))
    styles = theme.style_of_variables([str(agent) for agent in agents])
    in_legend: set[str] = set()
    is_binned = False
    for panel, name in enumerate(LENGTHS):
        at = {"row": panel // 2 + 1, "col": panel % 2 + 1}
        # plotly draws no axes for a panel without a trace.
        figure.add_scatter(x=[0.0], y=[None], mode="lines", showlegend=False, hoverinfo="skip", **at)
        for a, agent in enumerate(agents):
            readings = lengths[(lengths["agent"] == agent).to_numpy(bool)]
            if readings.empty:
                continue
            line = _line(readings["time"].to_numpy(), readings[name].to_numpy(), end)
            is_binned |= line.least is not None
            time, values = line.time, line.values
            label = escaped(cut(str(agent)))
            colour = styles[str(agent)].colour
            if line.least is not None:
                figure.add_scatter(
                    x=(np.append(time, time[::-1]) / size).astype(np.float32),
                    y=np.append(line.least, line.greatest[::-1]), mode="lines", line={"width": 0},
                    fill="toself", fillcolor=colour + RANGE_ALPHA, legendgroup=f"agent {agent}",
                    showlegend=False, hoverinfo="skip", **at,
                )  # fmt: skip
            shape = "hv" if line.least is None else "linear"
            figure.add_scatter(
                x=(time / size).astype(np.float32),
                y=values.astype(np.float32),
                mode="lines",
                line={"shape": shape, "width": 1.5, "color": colour, "dash": DASHES[a % len(DASHES)]},
                name=label,
                legendgroup=f"agent {agent}",
                showlegend=label not in in_legend,
                hovertemplate=f"<b>{label}</b>: %{{y:,.4~g}}<br>at %{{x:.4~g}} {unit}<extra></extra>",
                **at,
            )
            in_legend.add(label)
        if models is not None:
            _add_models(figure, models[models["length"] == name], models, styles, end / size, at)
        figure.update_yaxes(title={"text": _UNITS.get(name, "partial matches")}, **at)
    if models is not None:
        for model, symbol in _symbols(models).items():
            marker = {"color": theme.INK, "symbol": symbol, "size": 6}
            figure.add_scatter(
                x=[None], y=[None], mode="lines+markers", line={"color": theme.INK, "width": 1},
                marker=marker, name=escaped(cut(str(model))), legendgroup=f"model {model}", row=1, col=1,
            )  # fmt: skip
    note = f"mean and range in {BINS} bins" if is_binned else ""
    _lay_out(
        figure,
        run_title(title, measured, note),
        clock_title("time since the start of the run", unit, measured),
    )
    figure.update_xaxes(range=[0, end / size or 1.0])
    if lengths.empty:
        figure.add_annotation(text="no readings", showarrow=False, x=0.02, y=0.98, xref="paper", yref="paper")
    return figure


def _check(lengths: pd.DataFrame, models: pd.DataFrame | None) -> None:
    require_columns("length_lines", ("time", "agent", *LENGTHS), lengths.columns)
    if models is not None:
        require_columns("length_lines: models", ("model", "length", "agent", "value"), models.columns)
    unknown = [] if models is None else [name for name in models["length"] if name not in LENGTHS]
    if unknown:
        raise CepError(
            f"length_lines: models: length {unknown[0]!r} is not known.{nearest(str(unknown[0]), LENGTHS)} "
            f"There are {list(LENGTHS)}"
        )


def _symbols(models: pd.DataFrame) -> dict[str, str]:
    return {
        model: f"{theme.SYMBOLS[m % len(theme.SYMBOLS)]}-open"
        for m, model in enumerate(dict.fromkeys(models["model"]))
    }


class _Line(NamedTuple):
    """A line of one agent: readings as steps, or the mean, least and greatest value of each bin."""

    time: np.ndarray
    values: np.ndarray
    least: np.ndarray | None = None
    greatest: np.ndarray | None = None


def _line(time: np.ndarray, values: np.ndarray, end: float) -> _Line:
    order = np.argsort(time, kind="stable")
    time, values = time[order], values[order]
    if len(time) > MOST_READINGS and end:
        edges = np.linspace(0.0, end, BINS + 1)
        return _Line((edges[:-1] + edges[1:]) / 2, *lengths_in_bins(time, values, edges, at_edges=False))
    if len(time) and time[-1] < end:
        time, values = np.append(time, end), np.append(values, values[-1])
    return _Line(time, values)


def _add_models(figure, rows: pd.DataFrame, models: pd.DataFrame, styles, end: float, at: dict) -> None:
    """Add a level line with marks for each row."""
    symbols = _symbols(models)
    for row in rows.itertuples():
        colour = styles[str(row.agent)].colour
        label = f"{escaped(cut(str(row.model)))} of {escaped(cut(str(row.agent)))}"
        figure.add_scatter(
            x=np.linspace(0.0, end, MODEL_MARKS),
            y=np.full(MODEL_MARKS, float(row.value)),
            mode="lines+markers",
            line={"color": colour, "width": 1},
            marker={"color": colour, "symbol": symbols[row.model], "size": 6},
            legendgroup=f"model {row.model}",
            showlegend=False,
            hovertemplate=f"<b>{label}</b>: %{{y:,.4~g}}<extra></extra>",
            **at,
        )


def _lay_out(figure: go.Figure, lines: list[str], time_title: str) -> None:
    top, bottom = 58 + 18 * len(lines), 60
    line = {"gridcolor": theme.GRID, "linecolor": theme.GRID, "zeroline": False, "ticks": ""}
    figure.update_xaxes(**line)
    figure.update_xaxes(title={"text": time_title}, row=2)
    figure.update_yaxes(rangemode="tozero", automargin=True, **line)
    figure.update_annotations(font={"size": 12, "color": theme.INK})
    figure.update_layout(
        title=theme.title_at_left(lines),
        hovermode="closest",
        legend={"tracegroupgap": 4},
        margin={"l": 60, "r": 20, "t": top, "b": bottom},
        **theme.layout(top + bottom + 2 * PANEL_PIXELS + 40),
    )
