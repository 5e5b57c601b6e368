"""Objects that are no frames, and how to make a frame of them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import pandas as pd
from pandas.api.typing import DataFrameGroupBy, SeriesGroupBy


def no_frame(given: Any) -> str:
    """Return the error message for an object that is no frame: what to write instead."""
    if isinstance(given, pd.Series):
        return "a pandas Series has no columns; call to_frame('value') first"
    if isinstance(given, DataFrameGroupBy | SeriesGroupBy):
        by = repr(given.keys) if isinstance(given.keys, str | list) else "…"
        return f"search the frame itself and name the groups: df.cep.match(…, partition_by={by})"
    if isinstance(given, str | os.PathLike):
        path = os.fspath(given)
        read = "read_csv" if ".csv" in path.lower() or ".tsv" in path.lower() else "read_parquet"
        return f"{path!r} is the path of a file; read it first: pd.{read}({path!r}).cep.match(…)"
    if isinstance(given, Mapping):
        return "a mapping of columns is not a frame yet; make one first: pd.DataFrame(columns).cep.match(…)"
    if isinstance(given, list | tuple):
        return (
            f"a {type(given).__name__} of events is not a frame yet; make one first: "
            "pd.DataFrame(events).cep.match(…)"
        )
    return (
        f"cannot search a {type(given).__module__}.{type(given).__name__}; "
        "a frame is a pandas, polars or Spark DataFrame or an Arrow table"
    )
