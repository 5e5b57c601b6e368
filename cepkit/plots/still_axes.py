"""Axes of a plotly figure as scales in pixels, with ticks, and the values of its traces."""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from cepkit.plots import drawing
from cepkit.values import dataclass, field, replace

# Values of a plotly figure: templates applied, typed arrays read, dates as milliseconds.

_DATE = re.compile(r"^-?\d{4}-\d\d(-\d\d)?")


def with_template(figure: Mapping[str, Any]) -> dict[str, Any]:
    """Return the traces and the layout of a figure after its template."""
    layout = dict(figure.get("layout") or {})
    template = layout.pop("template", None) or {}
    template = template if isinstance(template, Mapping) else {}
    general = template.get("layout") or {}
    for name in {*general, *layout}:
        letter = re.fullmatch(r"([xy]axis)\d*", name)
        layout[name] = _merged(general.get(letter[1] if letter else name), layout.get(name))
    for key, shared in (("annotations", "annotationdefaults"), ("shapes", "shapedefaults")):
        layout[key] = [_merged(general.get(shared), entry) for entry in layout.get(key) or ()]
    counts: dict[str, int] = {}
    traces = []
    for trace in figure.get("data") or ():
        kind = trace.get("type", "scatter")
        looks = (template.get("data") or {}).get(kind) or [{}]
        traces.append(_merged(looks[counts.get(kind, 0) % len(looks)], trace) | {"type": kind})
        counts[kind] = counts.get(kind, 0) + 1
    return {"data": traces, "layout": layout}


def _merged(general: Any, own: Any) -> Any:
    """Return settings of an axis over those of the template."""
    if own is None:
        return general
    if not (isinstance(general, Mapping) and isinstance(own, Mapping)):
        return own
    return {name: _merged(general.get(name), own.get(name)) for name in {**general, **own}}


def get(item: Mapping[str, Any], path: str, default: Any = None) -> Any:
    """Return a value inside nested dicts, such as ``"marker.line.width"``."""
    for part in path.split("."):
        item = item.get(part) if isinstance(item, Mapping) else None
        if item is None:
            return default
    return item


def array_of(values: Any) -> np.ndarray:
    """Return the values of a list, an array or plotly's typed array."""
    if values is None:
        return np.empty(0)
    if isinstance(values, Mapping):
        read = np.frombuffer(base64.b64decode(values["bdata"]), np.dtype(values["dtype"]))
        shape = str(values.get("shape") or "")
        return read.reshape([int(n) for n in shape.split(",")]) if shape else read
    if isinstance(values, np.ndarray):
        return values
    if values and isinstance(values[0], (list, tuple, np.ndarray)):
        return np.array(values, float)
    return pd.Series(list(values)).to_numpy()


def kind_of(values: np.ndarray) -> str:
    """Return the type of axis for values: ``"linear"``, ``"date"`` or ``"category"``."""
    if values.dtype.kind == "M":
        return "date"
    present = [value for value in values.ravel().tolist() if value is not None and value == value]
    if values.dtype.kind in "biuf" or not present:
        return "linear"
    if all(
        (isinstance(value, str) and _DATE.match(value)) or hasattr(value, "isoformat") for value in present
    ):
        return "date"
    return "linear" if all(isinstance(value, (int, float)) for value in present) else "category"


def milliseconds(values: Sequence[Any] | np.ndarray) -> np.ndarray:
    """Return dates as milliseconds since 1970, NaN for what is no date; numbers are milliseconds already."""
    values = np.asarray(values)
    if values.dtype.kind in "iuf":
        return values.astype(float)
    series = pd.Series(values if values.dtype.kind == "M" else values.tolist())
    ticks = pd.to_datetime(series, format="mixed", errors="coerce")
    ticks = ticks.dt.tz_localize(None) if ticks.dt.tz is not None else ticks
    instants = ticks.to_numpy("datetime64[us]")
    return np.where(np.isnat(instants), np.nan, instants.astype(np.int64) / 1000.0)


# Axes of a plotly figure as scales in pixels, with ticks.

_DAY = 86_400_000.0
_DATE_STEPS = [
    n * unit
    for unit, steps in (
        (1.0, (1, 2, 5, 10, 20, 50, 100, 200, 500)), (1000.0, (1, 2, 5, 10, 15, 30)),
        (60_000.0, (1, 2, 5, 10, 15, 30)), (3_600_000.0, (1, 2, 3, 6, 12)),
        (_DAY, (1, 2, 7, 14, 30, 61, 91, 182, 365, 730, 1826, 3652)),
    )
    for n in steps
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis: where its values are in the picture."""

    # ``low`` and ``high`` are the ends in the unit of `place`: values, logarithms, milliseconds, or the
    # numbers of categories.

    name: str  # "x", "y2"
    given: Mapping[str, Any]  # plotly's attributes
    kind: str  # "linear", "log", "date" or "category"
    names: tuple[str, ...] = ()  # categories in order
    low: float = 0.0
    high: float = 1.0
    start: float = 0.0  # pixels of `low` and of `high`
    end: float = 1.0
    numbers: dict[str, int] = field(default_factory=dict)

    @property
    def is_x(self) -> bool:
        return self.name[0] == "x"

    @property
    def is_visible(self) -> bool:
        """Whether anything of the axis itself is drawn."""
        return self.given.get("visible") is not False

    def place(self, values: Any) -> np.ndarray:
        """Return values in the unit of the axis; NaN where there is no value."""
        values = array_of(values) if not isinstance(values, np.ndarray) else values
        if self.kind == "category":
            if values.dtype.kind in "iuf" and not self.names:
                return values.astype(float)
            number_of_name = self.numbers
            return np.array([number_of_name.get(str(value), np.nan) for value in values.tolist()], float)
        if self.kind == "date":
            return milliseconds(values)
        numbers = pd.to_numeric(pd.Series(values.ravel()), errors="coerce").to_numpy(float)
        if self.kind == "log":
            with np.errstate(divide="ignore", invalid="ignore"):
                numbers = np.log10(numbers)
        return np.where(np.isfinite(numbers), numbers, np.nan)

    def scale(self, places: Any) -> np.ndarray:
        """Return the pixels of places in the unit of the axis."""
        return self.start + (np.asarray(places, float) - self.low) * self.per_unit

    def pixels(self, values: Any) -> np.ndarray:
        return self.scale(self.place(values))

    @property
    def per_unit(self) -> float:
        return (self.end - self.start) / ((self.high - self.low) or 1.0)

    def between(self, start: float, end: float) -> Axis:
        return replace(self, start=start, end=end)

    def ticks(self) -> list[tuple[float, str]]:
        """Return the places of the ticks within the axis, and their texts."""
        low, high = sorted((self.low, self.high))
        slack = 1e-6 * (high - low)
        return [tick for tick in self._all_ticks(low, high) if low - slack <= tick[0] <= high + slack]

    def _all_ticks(self, low: float, high: float) -> list[tuple[float, str]]:
        """Return the places and texts of all ticks from ``low`` to ``high``."""
        if self.given.get("tickvals") is not None and self.given.get("tickmode", "array") == "array":
            values = array_of(self.given["tickvals"])
            are_places = self.kind == "category" and kind_of(values) == "linear"
            places = values if are_places else self.place(values)
            texts = array_of(self.given.get("ticktext")).tolist()
            texts = texts or [drawing.tick_text(float(value)) for value in values]
            return [(float(place), str(text)) for place, text in zip(places, texts, strict=False)]
        most = int(
            self.given.get("nticks") or max(2, abs(self.end - self.start) // (90 if self.is_x else 45))
        )
        if self.kind == "category":
            return [(float(k), name) for k, name in enumerate(self.names)]
        if self.kind == "date":
            return _date_ticks(low, high, most)
        if self.kind == "log":
            return _log_ticks(low, high, most)
        return [(tick, drawing.tick_text(tick)) for tick in drawing.ticks(low, high, most)]


def _log_ticks(low: float, high: float, most: int) -> list[tuple[float, str]]:
    """Return the ticks of a logarithmic axis."""
    decades = high - low
    factors = (1.0,) if decades > max(most / 2, 1.5) else (1.0, 2.0, 5.0) if decades > 0.5 else range(1, 10)
    every = max(1, math.ceil(decades / max(most, 1)))
    ticks = []
    for exponent in range(math.floor(low), math.ceil(high) + 1):
        if len(factors) == 1 and exponent % every:
            continue
        for factor in factors:
            value = factor * 10.0**exponent
            small = -5 < exponent < 6
            text = drawing.tick_text(value) if small else f"{factor:g}·10<sup>{exponent}</sup>"
            ticks.append((exponent + math.log10(factor), text.replace("1·10", "10")))
    return ticks


def _date_ticks(low: float, high: float, most: int) -> list[tuple[float, str]]:
    """Return the ticks of an axis of times."""
    step = next((width for width in _DATE_STEPS if (high - low) / width <= most), _DATE_STEPS[-1])
    first = math.ceil(low / step) * step
    ticks = [float(tick) for tick in np.arange(first, high + step * 1e-6, step)]
    unit = "D" if step >= _DAY else "m" if step >= 60_000 else "s" if step >= 1000 else "ms"
    labelled, day = [], ""
    for tick in ticks:
        date, _, clock = str(np.datetime64(round(tick), "ms").astype(f"datetime64[{unit}]")).partition("T")
        labelled.append((tick, f"{clock}<br>{date}" if clock and date != day else clock or date))
        day = date
    return labelled


def axis_of(name: str, given: Mapping[str, Any], values: Sequence[np.ndarray]) -> Axis:
    """Return an axis without its range, from its attributes and the values of its traces."""
    kind = given.get("type")
    if kind in (None, "-"):
        kinds = [kind_of(array) for array in values if array.size]
        kind = kinds[0] if kinds else "linear"
    names: tuple[str, ...] = ()
    if kind == "category":
        seen = dict.fromkeys(
            str(value) for trace_values in values for value in trace_values.tolist() if value is not None
        )
        order = get(given, "categoryarray")
        listed = [str(value) for value in array_of(order).tolist()] if order is not None else []
        names = tuple(dict.fromkeys([*listed, *seen]))
    return Axis(name, given, kind, names, numbers={category: k for k, category in enumerate(names)})


def ranged(axis: Axis, extents: Sequence[tuple[float, float, bool, bool]]) -> Axis:
    """Return an axis with its range: the given one, or what its traces need."""
    limits = axis.given.get("range")
    if limits is not None and len(limits) == 2 and None not in limits:
        low, high = milliseconds(list(limits)) if axis.kind == "date" else map(float, limits)
        return replace(axis, low=float(low), high=float(high))
    if axis.kind == "category" and axis.names:
        low, high = -0.5, len(axis.names) - 0.5
    elif extents:
        low, high = min(extent[0] for extent in extents), max(extent[1] for extent in extents)
        room = 0.06 * ((high - low) or abs(high) or 1.0)
        low, high = (
            low - room * any(extent[2] for extent in extents if extent[0] == low),
            high + room * any(extent[3] for extent in extents if extent[1] == high),
        )
        if axis.given.get("rangemode") == "tozero" and axis.kind == "linear":
            low, high = min(low, 0.0), max(high, 0.0)
    else:
        low, high = 0.0, 1.0
    if high == low:
        low, high = low - 1.0, high + 1.0
    if axis.given.get("autorange") == "reversed":
        low, high = high, low
    return replace(axis, low=low, high=high)
