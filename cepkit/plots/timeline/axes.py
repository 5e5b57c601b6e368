"""Columns as coordinates of a picture (numbers or dates that a browser can hold), and titles with units."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from cepkit.errors import CepError, OrderError

EXACT = 2**53  # integers up to here are exact in a browser
_UNITS = (("d", 86400.0), ("h", 3600.0), ("min", 60.0), ("s", 1.0), ("ms", 1e-3), ("µs", 1e-6), ("ns", 1e-9))


@dataclass(frozen=True, slots=True)
class TimeAxis:
    """The clock of a picture."""

    coordinates: np.ndarray  # datetime64[us] without timezone, or float64; (n_events,)
    ticks: np.ndarray  # the column's values as numbers, for sorting, (n_events,)
    title: str
    unit: str  # unit of differences

    @property
    def is_date(self) -> bool:
        """Whether the coordinates are dates."""
        return self.coordinates.dtype.kind == "M"

    def lengths(self, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """Return the differences in the browser's unit: milliseconds for dates."""
        differences = ends - starts
        return differences / np.timedelta64(1, "ms") if self.is_date else differences.astype(np.float64)

    def move(self, coordinates: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """Return the coordinates plus ``lengths``, which are in the unit of `lengths`."""
        if not self.is_date:
            return coordinates + lengths
        return coordinates + np.round(lengths * 1000).astype("timedelta64[us]")

    def bounds(self, *coordinates: np.datetime64 | float) -> list[str | float]:
        """Return coordinates in plotly's form for the range of an axis."""
        if self.is_date:
            return [str(np.datetime_as_string(coordinate, unit="us")) for coordinate in coordinates]
        return [float(coordinate) for coordinate in coordinates]

    def text(self, coordinate: np.datetime64 | float) -> str:
        """Return a coordinate as readable text."""
        if not self.is_date:
            return f"{coordinate:.15g}" if float(coordinate).is_integer() else f"{coordinate:.10g}"
        date, _, clock = np.datetime_as_string(coordinate, unit="us").partition("T")
        return f"{date} {clock.rstrip('0').rstrip('.') if '.' in clock else clock}"

    def hover_format(self) -> str:
        """Return the shortest format of the browser that shows the dates exactly."""
        for unit, text in (("D", "%Y-%m-%d"), ("s", "%Y-%m-%d %H:%M:%S")):
            if (self.coordinates == self.coordinates.astype(f"datetime64[{unit}]")).all():
                return text
        return "%Y-%m-%d %H:%M:%S.%f"

    def length_text(self, length: float) -> str:
        """Return a difference in the unit of `lengths` as readable text."""
        if not self.is_date:
            return f"{length:.10g} {self.unit}"
        unit, seconds = _fitting_unit(length / 1000)
        return f"{length / 1000 / seconds:.4g} {unit}"


def row_axis(n_events: int) -> TimeAxis:
    """Return the row numbers as a clock, for streams without a time column."""
    rows = np.arange(n_events)
    return TimeAxis(rows.astype(np.float64), rows, "row", "rows")


def time_axis(column: pd.Series, name: str) -> TimeAxis:
    """Return the coordinates of a time column: dates, durations or numbers.

    Integers beyond 2**53 are shown relative to the smallest.
    """
    n_nulls = int(column.isna().sum())
    if n_nulls:
        raise OrderError(f"timeline: {n_nulls} of {len(column)} values of time column {name!r} are null")
    if _is_date(column):
        return _date_axis(pd.DatetimeIndex(column), name)
    if column.dtype.kind == "m":
        index = pd.TimedeltaIndex(column)
        seconds = index.total_seconds().to_numpy()
        unit, size = _fitting_unit(float(np.abs(seconds).max(initial=0.0)))
        return TimeAxis(seconds / size, index.asi8, f"{name} (duration, {unit})", unit)
    if _is_number(column):
        return _number_axis(column, name)
    raise CepError(
        f"timeline: time column {name!r} has type {column.dtype}; a timestamp, duration or number is needed. "
        "time=None draws by row number"
    )


def numbers(column: pd.Series) -> np.ndarray | None:
    """Return a numeric column as float64 with NaN for null and infinite values; None for other columns."""
    if not _is_number(column):
        return None
    values = column.to_numpy(dtype=np.float64, na_value=np.nan)
    return np.where(np.isfinite(values), values, np.nan)


def _date_axis(index: pd.DatetimeIndex, name: str) -> TimeAxis:
    if index.tz is None:
        return TimeAxis(index.as_unit("us").to_numpy(), index.asi8, f"{name} (time)", "s")
    utc, local, zone = index.tz_convert(None), index.tz_localize(None), str(index.tz)
    if (local - utc).nunique() > 1:  # in local time the repeated hour would be drawn twice
        local, zone = utc, "UTC"
    return TimeAxis(local.as_unit("us").to_numpy(), index.asi8, f"{name} (time, {zone})", "s")


def _number_axis(column: pd.Series, name: str) -> TimeAxis:
    ticks = column.to_numpy()
    if ticks.dtype.kind not in "iuf":  # nullable, Arrow and decimal columns
        kind = np.int64 if pd.api.types.is_integer_dtype(column.dtype) else np.float64
        ticks = column.to_numpy(dtype=kind)
    if ticks.dtype.kind in "iu" and len(ticks) and max(int(ticks.max()), -int(ticks.min())) > EXACT:
        origin = ticks.min()
        return TimeAxis(
            (ticks - origin).astype(np.float64), ticks, f"{name} (its own unit, since {origin})", ""
        )
    return TimeAxis(ticks.astype(np.float64), ticks, f"{name} (its own unit)", "units")


def _is_date(column: pd.Series) -> bool:
    if column.dtype.kind == "M":  # also for Arrow columns, which pandas 2.2 does not call datetime
        return True
    return column.dtype == object and pd.api.types.infer_dtype(column) in ("datetime", "datetime64", "date")


def _is_number(column: pd.Series) -> bool:
    if pd.api.types.is_bool_dtype(column) or pd.api.types.is_complex_dtype(column):
        return False
    if pd.api.types.is_numeric_dtype(column):
        return True
    kinds = ("integer", "floating", "mixed-integer-float", "decimal")
    return column.dtype == object and pd.api.types.infer_dtype(column, skipna=True) in kinds


def _fitting_unit(seconds: float) -> tuple[str, float]:
    """Return the largest unit that fits into ``seconds``, and its length in seconds; seconds for 0."""
    return next(((unit, size) for unit, size in _UNITS if abs(seconds) >= size), ("s", 1.0))
