"""Pictures of load shedding: a run under load, and the utilities of partial matches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import NamedTuple

import numpy as np
import pandas as pd

from cepkit.errors import CepError, column_not_found, whole_number
from cepkit.plots.scene import Item, Look, PlotAxis, PlotPanel, PlotScene, lane_height, lanes, lines, span
from cepkit.values import dataclass

# Plot utilities for load shedding: of event types by position in the window, of partial matches by state.

KEYS = ("state", "event_type")
POSITION_BINS = 96
UTILITY_BINS = 40
MOST_ROWS = 60
ONE_COLUMN = "all positions"
_HISTOGRAM = 150  # pixels


class Utilities(NamedTuple):
    """A table of utilities, and the number of events or partial matches with each utility.

    A row is a state, an event type, or both. ``edges`` bound the bins of positions. A table without positions
    has one bin.
    """

    rows: tuple[dict, ...]  # label, and state and event_type if the table has them
    edges: np.ndarray  # float64, (n_bins + 1,)
    has_position: bool
    mean: np.ndarray  # float64, (n_rows, n_bins): weighted by n; NaN: no cell of the frame
    n: np.ndarray  # float64, (n_rows, n_bins): events or partial matches
    utility_edges: np.ndarray  # float64, (UTILITY_BINS + 1,)
    n_of_utility: np.ndarray  # float64, (n_rows, UTILITY_BINS)
    n_rows_left_out: int
    n_dropped: np.ndarray  # float64, (n_rows, UTILITY_BINS): those of `n_of_utility` that were dropped

    @property
    def n_total(self) -> float:
        """Number of events or partial matches in all rows."""
        return float(self.n.sum())


def utilities(frame: pd.DataFrame) -> Utilities:
    """Return a frame of utilities as a table for plots, with positions in bins."""
    # Source: these papers define such tables. eSPICE: UT(T, P), with ``event_type, position``. hSPICE: UT(T,
    # P, s), with all three columns. pSPICE: the utility of a partial match by the rest of its window, with
    # ``state, position``.
    if not isinstance(frame, pd.DataFrame):
        raise CepError(
            f"utilities: got {type(frame).__name__}. Give a pandas DataFrame with the columns {_CONTRACT}"
        )
    if "utility" not in frame.columns:
        raise column_not_found("utilities", "utility", frame.columns)
    keys = [name for name in KEYS if name in frame.columns]
    if not keys:
        raise column_not_found("utilities", "event_type", frame.columns)
    utility = _numbers(frame, "utility", least=0.0)
    n = _numbers(frame, "n", least=0.0) if "n" in frame.columns else np.ones(len(frame))
    dropped = _numbers(frame, "dropped", least=0.0) if "dropped" in frame.columns else np.zeros(len(frame))
    if (dropped > n).any():
        r = int((dropped > n).argmax())
        raise CepError(f"utilities: dropped in row {r} is {dropped[r]:g}, more than n, {n[r]:g}")
    has_position = "position" in frame.columns
    position = _numbers(frame, "position") if has_position else np.zeros(len(frame))
    for name in keys:
        missing = frame[name].isna().to_numpy()
        if missing.any():
            raise CepError(f"utilities: {name} in row {missing.argmax()} is missing. Every row needs a value")
    row, rows = _rows(frame, keys)
    weight = np.bincount(row, n, minlength=len(rows))
    kept = np.sort(np.argsort(-weight, kind="stable")[:MOST_ROWS])
    place = np.full(len(rows), -1)
    place[kept] = np.arange(len(kept))
    inside = place[row] >= 0
    row, utility, n, position = place[row[inside]], utility[inside], n[inside], position[inside]
    dropped = dropped[inside]
    edges = _position_edges(position) if has_position else np.array([0.0, 1.0])
    n_bins = len(edges) - 1
    number = np.clip(np.searchsorted(edges, position, side="right") - 1, 0, n_bins - 1)
    cell = row * n_bins + number
    shape, size = (len(kept), n_bins), len(kept) * n_bins
    total = np.bincount(cell, n, minlength=size).reshape(shape)
    # A cell with n = 0 still has a utility. Its rows then have equal weights.
    alone = np.bincount(cell, minlength=size).reshape(shape)
    with np.errstate(invalid="ignore", divide="ignore"):
        weighted = np.bincount(cell, n * utility, minlength=size).reshape(shape) / total
        plain = np.bincount(cell, utility, minlength=size).reshape(shape) / alone
    most = float(utility.max(initial=0.0)) or 1.0
    utility_edges = np.linspace(0.0, most, UTILITY_BINS + 1)
    of_bin = np.clip(np.searchsorted(utility_edges, utility, side="right") - 1, 0, UTILITY_BINS - 1)
    counted, lost = (
        np.bincount(row * UTILITY_BINS + of_bin, weights, minlength=len(kept) * UTILITY_BINS)
        for weights in (n, dropped)
    )
    return Utilities(
        tuple(rows[r] for r in kept), edges, has_position, np.where(total > 0, weighted, plain), total,
        utility_edges, counted.reshape(len(kept), UTILITY_BINS), len(rows) - len(kept),
        lost.reshape(len(kept), UTILITY_BINS),
    )  # fmt: skip


_CONTRACT = ["utility", "event_type or state", "position (optional)", "n (optional)", "dropped (optional)"]


def _numbers(frame: pd.DataFrame, name: str, least: float | None = None) -> np.ndarray:
    try:
        values = frame[name].to_numpy(dtype=np.float64, na_value=np.nan)
    except (TypeError, ValueError):
        raise CepError(
            f"utilities: column {name} has type {frame[name].dtype}, not numbers. The columns are {_CONTRACT}"
        ) from None
    wrong = ~np.isfinite(values) | ((values < least) if least is not None else False)
    if wrong.any():
        r = int(wrong.argmax())
        wanted = "a finite number" + (f" of at least {least:g}" if least is not None else "")
        raise CepError(f"utilities: {name} in row {r} is {values[r]}. It must be {wanted}")
    return values


def _rows(frame: pd.DataFrame, keys: list[str]) -> tuple[np.ndarray, list[dict]]:
    """Return the row number of every cell, and the label and keys of every row."""
    codes, names = [], []
    for name in keys:
        if isinstance(frame[name].dtype, pd.CategoricalDtype):
            codes.append(frame[name].cat.codes.to_numpy(np.int64))
            names.append([str(value) for value in frame[name].cat.categories])
        else:
            code, values = pd.factorize(frame[name], sort=pd.api.types.is_numeric_dtype(frame[name]))
            codes.append(code.astype(np.int64))
            names.append([str(value) for value in values])
    whole = codes[0] if len(keys) == 1 else codes[0] * len(names[1]) + codes[1]
    used, row = np.unique(whole, return_inverse=True)
    labels = []
    for code in used.tolist():
        key_codes = divmod(code, len(names[1])) if len(keys) == 2 else (code,)
        words = [names[k][c] for k, c in enumerate(key_codes)]
        labels.append({"label": " · ".join(words), **dict(zip(keys, words, strict=True))})
    return row.astype(np.int64), labels


def _position_edges(position: np.ndarray) -> np.ndarray:
    """Return the edges of the bins: a bin per position if positions are few and evenly spaced."""
    distinct = np.unique(position)
    if not len(distinct):
        return np.array([0.0, 1.0])
    steps = np.diff(distinct)
    width = float(steps.min(initial=np.inf)) if len(steps) else 1.0
    n = round((distinct[-1] - distinct[0]) / width) + 1
    is_even = np.allclose(steps % width, 0) or np.allclose(steps % width, width)
    if n <= POSITION_BINS and is_even:
        return distinct[0] + width * np.arange(n + 1)
    return np.linspace(distinct[0], np.nextafter(distinct[-1], np.inf), POSITION_BINS + 1)


def share_up_to(made: Utilities, threshold: float) -> float:
    """Return the share of events or partial matches with a utility up to a threshold."""
    # The bin that contains the threshold counts in proportion to its part below the threshold.
    n = made.n_of_utility.sum(axis=0)
    low, high = made.utility_edges[:-1], made.utility_edges[1:]
    part = np.clip((threshold - low) / np.maximum(high - low, 1e-300), 0.0, 1.0)
    return float((n * part).sum() / n.sum()) if n.sum() else 0.0


def utility_scene(
    table: Utilities, *, threshold: float | None = None, title: str = "", row: int | None = None
) -> PlotScene:
    """Return the mean utility by row and position, and below it how many have each utility, or of one row."""
    n_columns, most = len(table.edges) - 1, float(table.utility_edges[-1])
    labels = [entry["label"] for entry in table.rows]
    low, high = table.edges[0], table.edges[-1]
    share, at = table.mean / (most or 1.0), ", position from {low}" if table.has_position else ""
    cells = Item(
        kind="cells", look=Look("", 0), x=table.edges, y=share,
        texts=[f"{value:.2g}" if value == value else "" for value in table.mean.ravel()],
        words="{row}" + at + ": utility {utility}, {n} seen",
        fields={
            "row": [label for label in labels for _ in range(n_columns)], "utility": table.mean, "n": table.n,
            "low": np.broadcast_to(table.edges[:-1], table.n.shape),
        },
        pick=lambda i: {
            **_row_of(table, i // n_columns), "position": table.edges[i % n_columns :][:2].tolist(),
            "utility": float(table.mean.flat[i]), "n": float(table.n.flat[i]),
        },
    )  # fmt: skip
    shown = slice(None) if row is None else slice(row, row + 1)
    n, lost = (counts[shown].sum(axis=0) for counts in (table.n_of_utility, table.n_dropped))
    floor, top = span(n)
    x, x1 = table.utility_edges[:-1], table.utility_edges[1:]
    gap = 0.08 * (x1 - x)
    bars = Item(
        kind="bars", look=Look("seen", 0), x=x, x1=x1 - gap, y=np.zeros(len(n)), y1=n, opacity=0.6,
        words="utility from {low} to {high}: {n} seen, {lost} dropped",
        fields={"low": x, "high": x1, "n": n, "lost": lost},
        pick=lambda b: {"utility": [float(x[b]), float(x1[b])], "n": float(n[b])},
    )  # fmt: skip
    dropped = Item(kind="bars", look=Look("dropped", 4), x=x, x1=x1 - gap, y=np.zeros(len(n)), y1=lost)
    total = float(n.sum())
    sums = Item(
        kind="line", look=Look("share of all up to this utility (top: 100 %)", 3, dash="dash"),
        x=table.utility_edges, y=np.append(0.0, np.cumsum(n)) / (total or 1.0) * top,
    )  # fmt: skip
    legend = [("bars", bars.look), *([("bars", dropped.look)] if lost.any() else []), ("line", sums.look)]
    items = [bars, dropped, *([sums] if total else [])]
    notes = ""
    if threshold is not None:
        ends = np.full(2, min(threshold, most))
        items.append(
            Item(
                kind="line", look=Look("threshold", dash="dash"), x=ends, y=np.array([floor, top]), width=1.5
            )
        )
        notes = f", threshold {threshold:.4g}: {100 * share_up_to(table, threshold):.3g} % of all up to it"
        legend.append(("line", items[-1].look))
    left_out = f"{table.n_rows_left_out:,} rows with the smallest counts are left out"
    word = "position in the window" if table.has_position else ONE_COLUMN
    seen = table.n.sum(axis=1).tolist()
    whose = "all rows" if row is None else labels[row]
    return PlotScene(
        title=title, note=left_out if table.n_rows_left_out else "",
        panels=(
            PlotPanel(
                x=PlotAxis(float(low), float(high), word, names=() if table.has_position else (ONE_COLUMN,)),
                y=lanes(labels), height=lane_height(len(labels), least=12, most=24), items=(cells,),
                pick_lane=lambda r: {**_row_of(table, r), "n": float(table.n[r].sum())},
                hints=tuple(f"{label}: {n:,.6g} seen" for label, n in zip(labels, seen, strict=True)),
            ),
            PlotPanel(
                x=PlotAxis(0.0, most, "utility"), y=PlotAxis(floor, top), items=tuple(items),
                height=_HISTOGRAM, label=f"{whose}: number with each utility{notes}",
            ),
        ),
        hint="Point at a cell or a bar to read it. Click it or press arrow keys to select it.",
        about=f"utilities of {len(labels)} rows by position, and how many have each utility",
        empty="" if labels else "no utilities", legend=tuple(legend),
    )  # fmt: skip


def _row_of(table: Utilities, row: int) -> dict:
    keys = table.rows[row]
    return {"row": keys["label"], **{name: keys[name] for name in KEYS if name in keys}}


# Draw a run under load: latency, waiting events, partial matches, and the drops of each event type.

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
    """Return a part of a history in bins; None: from the start, to the end."""
    # Backlogs keep their last value in bins without a reading. Latencies have gaps there.
    whole_number("load_in_bins: n_bins", n_bins, 1)
    low = history.extent[0] if low is None else low
    high = history.extent[1] if high is None else high
    edges = np.linspace(low, high if high > low else low + 1.0, n_bins + 1)
    mean, greatest = np.full((2, len(ROWS), n_bins), np.nan)
    for r, name in enumerate(ROWS):
        at, values = history.at[name], history.values[name]
        number, inside = _bins(at, edges)
        n = np.bincount(number, minlength=n_bins)
        has_some = n > 0
        mean[r, has_some] = np.bincount(number, values[inside], minlength=n_bins)[has_some] / n[has_some]
        np.fmax.at(greatest[r], number, values[inside])  # it begins as NaN, which fmax skips
        if name != "latency":
            last = np.searchsorted(at, edges[1:], side="left") - 1
            continues = ~has_some & (last >= 0)
            mean[r, continues] = greatest[r, continues] = values[last[continues]]
    arrived, dropped = (
        np.array([np.histogram(places[name], edges)[0] for name in history.arrived], np.int64).reshape(
            -1, n_bins
        )
        for places in (history.arrived, history.dropped)
    )
    return LoadBins(edges, mean, greatest, arrived, dropped)


def _bins(at: np.ndarray, edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the bin of each place within the edges, and which places these are."""
    inside = (at >= edges[0]) & (at <= edges[-1])
    number = np.searchsorted(edges, at[inside], side="right") - 1
    return np.minimum(number, len(edges) - 2), inside


def load_scene(history: LoadHistory, part: Sequence[float] = (), *, title: str = "") -> PlotScene:
    """Return latency and backlog over time, with peaks shaded, and below them the drops of each type."""
    bins, (unit, size) = load_in_bins(history, *part), history.unit
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
                x=axis, y=PlotAxis(low, high), height=_PANEL, items=tuple(items), label=label,
                notes=tuple(notes),
            )
        )  # fmt: skip
    types = list(history.arrived)
    strips = Item(
        kind="cells", look=looks["dropped"], x=edges,
        y=np.where(bins.dropped > 0, bins.dropped / np.maximum(bins.arrived, 1), np.nan),
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
