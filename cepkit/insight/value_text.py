"""Values and rows as text for readers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd


def cell(value: Any) -> str:
    """Return a value as text; nulls become empty."""
    if isinstance(value, list | tuple | np.ndarray):
        shown = ", ".join(cell(one) for one in value[:8])
        return f"[{shown}{', …' if len(value) > 8 else ''}]"
    if value is None or value is pd.NA or value is pd.NaT or (isinstance(value, float) and value != value):
        return ""
    if isinstance(value, float | np.floating):
        return f"{value:.6g}"
    return str(value)


def row_text(label: Any) -> str:
    """Return the index label of a row in words."""
    label = label.item() if isinstance(label, np.generic) else label
    return f"row {label!r}" if isinstance(label, str) else f"row {label}"
