"""Values of a plotly figure: templates applied, typed arrays read, dates as milliseconds."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

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
    for of, shared in (("annotations", "annotationdefaults"), ("shapes", "shapedefaults")):
        layout[of] = [_merged(general.get(shared), one) for one in layout.get(of) or ()]
    counts: dict[str, int] = {}
    traces = []
    for trace in figure.get("data") or ():
        kind = trace.get("type", "scatter")
        looks = (template.get("data") or {}).get(kind) or [{}]
        traces.append(_merged(looks[counts.get(kind, 0) % len(looks)], trace) | {"type": kind})
        counts[kind] = counts.get(kind, 0) + 1
    return {"data": traces, "layout": layout}


def _merged(general: Any, own: Any) -> Any:
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
        return np.array([[np.nan if one is None else one for one in row] for row in values])
    return pd.Series(list(values)).to_numpy()


def kind_of(values: np.ndarray) -> str:
    """Return the type of axis for values: ``"linear"``, ``"date"`` or ``"category"``."""
    if values.dtype.kind == "M":
        return "date"
    known = [one for one in values.ravel().tolist() if one is not None and one == one]
    if values.dtype.kind in "biuf" or not known:
        return "linear"
    if all((isinstance(one, str) and _DATE.match(one)) or hasattr(one, "isoformat") for one in known):
        return "date"
    return "linear" if all(isinstance(one, (int, float)) for one in known) else "category"


def milliseconds(values: Sequence[Any] | np.ndarray) -> np.ndarray:
    """Return dates as milliseconds since 1970, NaN for what is no date; numbers are milliseconds already."""
    values = np.asarray(values)
    if values.dtype.kind in "iuf":
        return values.astype(float)
    given = pd.Series(values if values.dtype.kind == "M" else values.tolist())
    ticks = pd.to_datetime(given, format="mixed", errors="coerce")
    ticks = ticks.dt.tz_localize(None) if ticks.dt.tz is not None else ticks
    made = ticks.to_numpy("datetime64[us]")
    return np.where(np.isnat(made), np.nan, made.astype(np.int64) / 1000.0)
