"""Tables of results: made by sweeps, shown in notebooks, and kept as CSV with the call that made them."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from cepkit.errors import CepError, whole_number
from cepkit.progress import show_progress

# --- sweeps -----------------------------------------------------------------------------------------------


def sweep(
    run: Callable[..., Mapping[str, Any]],
    points: Iterable[Mapping[str, Any]],
    *,
    workers: int = 1,
    progress: bool = False,
) -> pd.DataFrame:
    """Run a function at all points, ``workers`` of them at once; a row has a point and its result."""
    whole_number("sweep: workers", workers, 1)
    points = list(points)

    def row_of(point: Mapping[str, Any]) -> dict[str, Any]:
        try:
            result = run(**point)
        except Exception as error:
            error.add_note(f"at the point {dict(point)}")
            raise
        return {**point, **result}

    pool, rows = ThreadPoolExecutor(workers), []
    with show_progress("points", len(points), takes_checkpoints=False) if progress else nullcontext() as bar:
        try:
            for row in pool.map(row_of, points) if workers > 1 else map(row_of, points):
                rows.append(row)
                if bar:
                    bar(1)
        finally:
            pool.shutdown(cancel_futures=True)
    return pd.DataFrame(rows)


# --- tables for readers: texts at the left, numbers grouped and at the right ------------------------------

MOST_DECIMALS = 4
_MARKUP = re.compile(r"([\\`*_\[\]<>|$~#])")


@dataclass(frozen=True, slots=True, repr=False)
class MarkdownTable:
    """A table that notebooks show as Markdown, and everything else as text."""

    texts: pd.DataFrame
    is_number: tuple[bool, ...]

    def _repr_markdown_(self) -> str:
        return markdown_of(self.texts, self.is_number)

    def __repr__(self) -> str:
        return plain_text_of(self.texts, self.is_number)


def table_of(frame: pd.DataFrame) -> MarkdownTable:
    """Return a frame as a table for readers, with its index unless that only numbers the rows."""
    numbered = isinstance(frame.index, pd.RangeIndex) and frame.index.name is None
    flat = frame.reset_index(drop=numbered).rename_axis(columns=None)
    is_number = [
        pd.api.types.is_numeric_dtype(of) and not pd.api.types.is_bool_dtype(of) for of in flat.dtypes
    ]
    columns = {str(name): _texts(flat.iloc[:, i].tolist()) for i, name in enumerate(flat.columns)}
    return MarkdownTable(pd.DataFrame(columns), tuple(is_number))


def markdown_of(texts: pd.DataFrame, is_number: Sequence[bool]) -> str:
    r"""Return a table in Markdown."""
    marks = ["---:" if right else ":---" for right in is_number]
    rows = [[_MARKUP.sub(r"\\\1", cell) for cell in row] for row in [list(texts), *texts.to_numpy().tolist()]]
    return "\n".join("| " + " | ".join(row) + " |" for row in [rows[0], marks, *rows[1:]])


def plain_text_of(texts: pd.DataFrame, is_number: Sequence[bool]) -> str:
    """Return a table as text."""
    columns = [[name, *texts[name]] for name in texts]
    widths = [max(map(len, column)) for column in columns]
    padded = [
        [cell.rjust(width) if right else cell.ljust(width) for cell in column]
        for column, width, right in zip(columns, widths, is_number, strict=True)
    ]
    return "\n".join("  ".join(row).rstrip() for row in zip(*padded, strict=True))


def _texts(values: list[Any]) -> list[str]:
    """Return the cells of a column. Its numbers have as many decimals as the one that needs most."""
    numbers = [value for value in values if isinstance(value, float) and math.isfinite(value)]
    decimals = max((len(f"{value:.4g}".partition(".")[2]) for value in numbers), default=0)
    number = f"{{:,.{decimals}f}}" if decimals <= MOST_DECIMALS else "{:,.4g}"
    return [_text(value, number) for value in values]


def _text(value: Any, number: str) -> str:
    if isinstance(value, (bool, str)):
        return str(value)
    if pd.api.types.is_scalar(value) and pd.isna(value):
        return ""
    if isinstance(value, int):
        return f"{value:,}"
    return number.format(value) if isinstance(value, float) else str(value)


# --- kept tables ------------------------------------------------------------------------------------------

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
