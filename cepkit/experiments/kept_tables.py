"""Tables of results that are kept as CSV beside the notebooks, with the call that made them."""

from __future__ import annotations

import os
from pathlib import Path

import pandas as pd

from cepkit.errors import CepError

_CALL = "# made by: "


def keep_table(table: pd.DataFrame, path: str | os.PathLike, call: str) -> None:
    """Write a table of results, after a line with the call that made it."""
    if not call.strip() or "\n" in call:
        raise CepError(f"a kept table needs the call that made it, in one line, not {call!r:.80}")
    Path(path).write_text(
        f"{_CALL}{call}\n{table.to_csv(index=False, float_format='%.6g')}", encoding="utf-8"
    )


def kept_table(path: str | os.PathLike) -> pd.DataFrame:
    """Return a table that `keep_table` wrote. ``attrs["made_by"]`` is the call that made it."""
    try:
        first, _, _ = Path(path).read_text(encoding="utf-8").partition("\n")
    except OSError as error:
        raise CepError(f"there is no kept table {path}: {error.strerror}") from error
    if not first.startswith(_CALL):
        raise CepError(f"{path} does not begin with {_CALL!r} and the call that made it")
    table = pd.read_csv(path, skiprows=1)
    table.attrs["made_by"] = first.removeprefix(_CALL)
    return table
