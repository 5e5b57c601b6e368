"""Values of a page of matches as texts: grouped numbers, times with equal digits, and the full values."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd

from cepkit.insight.value_text import cell

NUMBER, TIME, DURATION, TEXT = "number", "time", "duration", "text"
SHOWN_DIGITS = 6  # significant digits of a number that is no integer
_DAY_S = 86_400


def kind_of(dtype: Any) -> str:
    """Return the kind of the values of a dtype: ``number``, ``time``, ``duration`` or ``text``."""
    types = pd.api.types
    if types.is_datetime64_any_dtype(dtype):
        return TIME
    if types.is_timedelta64_dtype(dtype):
        return DURATION
    is_number = types.is_numeric_dtype(dtype) and not types.is_bool_dtype(dtype)
    return NUMBER if is_number and not types.is_complex_dtype(dtype) else TEXT


def columns_of(frame: pd.DataFrame) -> list[dict[str, str]]:
    """Return the columns of a frame as a trait of the table widget."""
    made = []
    for name, dtype in frame.dtypes.items():
        kind = kind_of(dtype)
        zone = getattr(dtype, "tz", None) if kind == TIME else None
        side = "right" if kind in (NUMBER, DURATION) else "left"
        made.append(
            {"name": str(name), "align": side, "kind": kind, "zone": "" if zone is None else str(zone)}
        )
    return made


def columns_and_rows(frame: pd.DataFrame) -> dict[str, Any]:
    """Return a frame as traits of the table widget."""
    return {"columns": columns_of(frame), "rows": cells(frame), "full": full_cells(frame)}


def cells(frame: pd.DataFrame) -> list[list[str]]:
    """Return the values of a frame as texts to show; missing values are empty."""
    return _by_row([shown_texts(frame.iloc[:, k]) for k in range(frame.shape[1])])


def full_cells(frame: pd.DataFrame) -> list[list[str]]:
    """Return the values of a frame as texts with all digits, for copies."""
    return _by_row([[full_text(value) for value in frame.iloc[:, k]] for k in range(frame.shape[1])])


def _by_row(columns: list[list[str]]) -> list[list[str]]:
    return [list(row) for row in zip(*columns, strict=True)]


def shown_texts(values: pd.Series) -> list[str]:
    """Return the values of a column as texts to show."""
    kind = kind_of(values.dtype)
    if kind == NUMBER:
        return [number_text(value) for value in values]
    if kind == TIME:
        return _time_texts(values)
    if kind == DURATION:
        return ["" if value is pd.NaT else duration_text(value.value) for value in values.astype("m8[ns]")]
    return [cell(value) for value in values]


def full_text(value: Any) -> str:
    """Return a value as text with all its digits; missing values are empty."""
    if isinstance(value, float | np.floating) and value == value:
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(float(value))
    if isinstance(value, list | tuple | np.ndarray):
        return f"[{', '.join(full_text(one) for one in value)}]"
    return cell(value)


def number_text(value: Any) -> str:
    """Return a number with grouped digits; six significant digits if it is no integer."""
    if isinstance(value, int | np.integer):
        return f"{int(value):,}"
    if not isinstance(value, float | np.floating) or not math.isfinite(value):
        return cell(value)
    size = abs(float(value))
    if size and not 1e-4 <= size < 1e15:
        return f"{value:.{SHOWN_DIGITS}g}"
    decimals = max(0, SHOWN_DIGITS - 1 - math.floor(math.log10(size))) if size else 0
    text = f"{value:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _time_texts(values: pd.Series) -> list[str]:
    """Return times in their own zone, with equal numbers of digits; only dates if all are midnights."""
    own = values.dt.tz_localize(None) if getattr(values.dtype, "tz", None) is not None else values
    texts = ["" if one is pd.NaT else one.isoformat(sep=" ", timespec="nanoseconds") for one in own]
    digits = max((len(text[20:].rstrip("0")) for text in texts), default=0)
    if all(text[11:].strip("0:.") == "" for text in texts):
        return [text[:10] for text in texts]
    return [text[: 20 + digits if digits else 19] for text in texts]


def duration_text(ns: int) -> str:
    """Return a duration as text, as ``00:01:20.5`` or ``2 days 00:00:00``."""
    sign, (seconds, part) = "-" if ns < 0 else "", divmod(abs(ns), 10**9)
    days, seconds = divmod(seconds, _DAY_S)
    decimals = f".{part:09d}".rstrip("0").rstrip(".")
    before = f"{days:,} {'day' if days == 1 else 'days'} " if days else ""
    return f"{sign}{before}{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}{decimals}"
