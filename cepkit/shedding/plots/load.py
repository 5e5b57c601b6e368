"""Draw a run under load: latency, waiting events, partial matches, and the drops of each event type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import NamedTuple

import numpy as np

from cepkit.errors import whole_number
from cepkit.plots.scene import Item, Look, PlotAxis, PlotPanel, PlotScene, lanes, lines, span

BINS = 240
TIME, ARRIVALS = "time", "arrivals"
ROWS = {"latency": "latency (s)", "waiting": "waiting events", "partial_matches": "partial matches"}
_UNITS = (("s", 1e9), ("ms", 1e6), ("µs", 1e3), ("ns", 1.0))
_PANEL, _STRIP = 104, 20
_HINT = (
    "Drag to look closer, double-click to see all. Point at a line or a strip, or press arrow keys, to read "
    "it."
)


@dataclass(frozen=True, eq=False)
class LoadHistory:
    """What happened in a run, by time or by number of arrived events."""

    # ``"time"``: places are nanoseconds since the start of the run. ``"arrivals"``: places are numbers of
    # events that had arrived, so that short peaks of many events are wide.
    by: str
    extent: tuple[float, float]  # first and last place
    at: Mapping[str, np.ndarray]  # for each of `ROWS`, the places of its values, in ascending order
    values: Mapping[str, np.ndarray]  # for each of `ROWS`, its values
    # arrived, dropped: by event type, the places where its events arrived, and where those that were dropped
    # had arrived
    arrived: Mapping[str, np.ndarray]
    dropped: Mapping[str, np.ndarray]
    peaks: Sequence[tuple[float, float]]  # where each peak of the arrivals begins and ends
    latency_bound: float  # in seconds; infinite for none

    @property
    def unit(self) -> tuple[str, float]:
        """Name of the unit of places, and its size."""
        if self.by == ARRIVALS:
            return "events", 1.0
        span = self.extent[1] - self.extent[0]
        return next(((name, size) for name, size in _UNITS if span >= 2 * size), _UNITS[-1])

    @property
    def label(self) -> str:
        """Label of the axis of places."""
        unit, _ = self.unit
        return "events that have arrived" if self.by == ARRIVALS else f"virtual time since the start ({unit})"


class LoadBins(NamedTuple):
    """A part of a history in bins of equal width. Rows are those of `ROWS`."""

    edges: np.ndarray  # float64, (n_bins + 1,)
    mean: np.ndarray  # float64, (3, n_bins): NaN where no match was found, or before the first reading
    greatest: np.ndarray  # float64, (3, n_bins)
    arrived: np.ndarray  # int64, (n_types, n_bins)
    dropped: np.ndarray  # int64, (n_types, n_bins)


def load_in_bins(
    history: LoadHistory, low: float | None = None, high: float | None = None, n_bins: int = BINS
) -> LoadBins:
    """Return a part of a history in bins; None: from the start, to the end.

    Backlogs keep their last value in bins without a reading. Latencies have gaps there.
    """
    whole_number("load_in_bins: n_bins", n_bins, 1)
    low = history.extent[0] if low is None else low
    high = history.extent[1] if high is None else high
    edges = np.linspace(low, high if high > low else low + 1.0, n_bins + 1)
    mean, greatest = np.full((2, len(ROWS), n_bins), np.nan)
    for r, name in enumerate(ROWS):
        at, values = history.at[name], history.values[name]
        number, inside = _bins(at, edges)
        n = np.bincount(number, minlength=n_bins)
        held = n > 0
        mean[r, held] = np.bincount(number, values[inside], minlength=n_bins)[held] / n[held]
        top = np.full(n_bins, -np.inf)
        np.maximum.at(top, number, values[inside])
        greatest[r, held] = top[held]
        if name != "latency":
            last = np.searchsorted(at, edges[1:], side="left") - 1
            kept = ~held & (last >= 0)
            mean[r, kept] = greatest[r, kept] = values[last[kept]]
    counts = [
        np.array([_count(times[name], edges) for name in history.arrived], np.int64).reshape(-1, n_bins)
        for times in (history.arrived, history.dropped)
    ]
    return LoadBins(edges, mean, greatest, *counts)


def _bins(at: np.ndarray, edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the bin of each place within the edges, and which places these are."""
    inside = (at >= edges[0]) & (at <= edges[-1])
    number = np.searchsorted(edges, at[inside], side="right") - 1
    return np.minimum(number, len(edges) - 2), inside


def _count(at: np.ndarray, edges: np.ndarray) -> np.ndarray:
    return np.bincount(_bins(at, edges)[0], minlength=len(edges) - 1)


def shares_dropped(bins: LoadBins) -> np.ndarray:
    """Return the share of the arrived events that were dropped, by type and bin; NaN where none arrived."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(bins.arrived > 0, bins.dropped / bins.arrived, np.nan)


def load_scene(
    history: LoadHistory, part: Sequence[float] = (), *, title: str = "", n_bins: int = BINS
) -> PlotScene:
    """Return latency and backlog over time, with peaks shaded, and below them the drops of each type."""
    bins, (unit, size) = load_in_bins(history, *part, n_bins=n_bins), history.unit
    edges, axis = bins.edges, lines(history.label, part or history.extent, history.unit[1])
    middle, about = (edges[:-1] + edges[1:]) / 2, {"time": (edges[:-1] + edges[1:]) / 2 / size, "unit": unit}
    bound = history.latency_bound if isfinite(history.latency_bound) else None
    looks = {
        "mean": Look("mean", 0), "greatest": Look("greatest", 0, dash="dot"),
        "bound": Look("bound", dash="dash"), "peak": Look("peak of arrivals", 1),
        "dropped": Look("dropped (darker: a larger share)", 4),
    }  # fmt: skip
    panels = []
    for r, (name, label) in enumerate(ROWS.items()):
        most = [
            float(np.nanmax(bins.greatest[r], initial=0.0)),
            bound if name == "latency" and bound else 0.0,
        ]
        low, high = span(most)
        items = [_peaks(history, (low, high), looks["peak"])]
        items.append(Item(kind="line", look=looks["greatest"], x=middle, y=bins.greatest[r], width=1.2))
        items.append(
            Item(
                kind="line", look=looks["mean"], x=middle, y=bins.mean[r],
                words="{label}: {mean} on average, at most {most}, at {time} {unit}",
                fields={"label": label, "mean": bins.mean[r], "most": bins.greatest[r], **about},
                pick=lambda b, r=r, name=name: {
                    "row": name, "start": float(edges[b]), "end": float(edges[b + 1]),
                    "mean": float(bins.mean[r, b]), "greatest": float(bins.greatest[r, b]),
                },
            )
        )  # fmt: skip
        notes = [f"at most {np.max(history.values[name], initial=0.0):,.4g}"]
        if name == "latency" and bound is not None:
            ends = np.array([axis.low, axis.high])
            items.append(Item(kind="line", look=looks["bound"], x=ends, y=np.full(2, bound), width=1.2))
            notes.append(f"bound {bound:,.4g}")
        panels.append(
            PlotPanel(
                x=axis,
                y=PlotAxis(low, high),
                height=_PANEL,
                items=tuple(items),
                label=label,
                notes=tuple(notes),
            )
        )
    types = list(history.arrived)
    strips = Item(
        kind="cells", look=looks["dropped"], x=edges,
        y=np.where(bins.dropped > 0, shares_dropped(bins), np.nan),
        words="type {row}: {dropped} of {arrived} dropped, at {time} {unit}",
        fields={
            "row": [name for name in types for _ in middle], "dropped": bins.dropped, "unit": unit,
            "arrived": bins.arrived, "time": np.broadcast_to(about["time"], bins.arrived.shape),
        },
        pick=lambda i: {
            "row": types[i // len(middle)], "start": float(edges[i % len(middle)]),
            "end": float(edges[i % len(middle) + 1]), "arrived": int(bins.arrived.flat[i]),
            "dropped": int(bins.dropped.flat[i]),
        },
    )  # fmt: skip
    counts = [
        f"{len(history.dropped[name]):,} of {len(at):,} dropped" for name, at in history.arrived.items()
    ]
    names = lanes(types)
    panels.append(
        PlotPanel(
            x=axis, y=names, height=_STRIP * max(1, len(types)), notes=tuple(counts),
            items=(_peaks(history, (names.low, names.high), looks["peak"]), strips),
        )
    )  # fmt: skip
    return PlotScene(
        title=title, panels=tuple(panels), hint=_HINT, about="latency, backlog and drops of a run",
        empty="" if len(history.at["waiting"]) else "no event after the warm-up",
        legend=tuple(
            (kind, looks[name]) for kind, name in (("line", "mean"), ("line", "greatest"), ("line", "bound"),
            ("bars", "peak"), ("bars", "dropped")) if name != "bound" or bound is not None
        ),
    )  # fmt: skip


def _peaks(history: LoadHistory, ends: Sequence[float], look: Look) -> Item:
    """Return a shade for each peak of the arrivals."""
    start, stop = np.array(history.peaks, float).reshape(-1, 2).T
    low, high = (np.full(len(start), end) for end in ends)
    return Item(kind="bars", look=look, x=start, x1=stop, y=low, y1=high, opacity=0.25)
