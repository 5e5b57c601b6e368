"""Write and read a trace as a folder of Parquet files. Reading runs no code from the files."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cepkit.errors import CepError, short_text

FILES = ("actions.parquet", "lengths.parquet")
VERSION = 1
_FORMAT = "cepkit trace"

Words = Mapping[str, Sequence[str]]  # names of the codes, by column


def write_tables(
    path: Path, about: Mapping[str, Any], tables: Sequence[Mapping[str, np.ndarray]], words: Words
) -> None:
    """Write the tables of a trace, one per name in ``FILES``, all or none."""
    import pyarrow.parquet as pq  # takes long to import, and most processes write no trace

    if path.exists() and not _is_trace(path):
        raise CepError(f"trace: {str(path)!r} exists and is not a trace. Give the path of a new folder")
    head = {_FORMAT: json.dumps({"version": VERSION, **about})}
    written = path.with_name(f"{path.name}.{os.getpid()}.part")
    written.mkdir(parents=True)
    try:
        for name, columns in zip(FILES, tables, strict=True):
            arrays = {
                column: _as_words(values, words[column]) if column in words else pa.array(values)
                for column, values in columns.items()
            }
            table = pa.table(arrays).replace_schema_metadata(head)
            pq.write_table(table, written / name, compression="zstd")
        if path.exists():
            shutil.rmtree(path)
        written.rename(path)
    finally:
        shutil.rmtree(written, ignore_errors=True)


def read_tables(path: Path) -> tuple[dict[str, Any], list[pa.Table]]:
    """Return ``about`` and the tables that `write_tables` wrote; `columns_of` converts a table."""
    import pyarrow.parquet as pq

    if not _is_trace(path):
        raise CepError(f"trace: {str(path)!r} is not a trace. Trace.save writes a folder of {list(FILES)}")
    try:
        tables = [pq.read_table(path / name) for name in FILES]
        about = json.loads((tables[0].schema.metadata or {}).get(_FORMAT.encode(), b"{}"))
    except (pa.ArrowException, OSError, ValueError, RecursionError) as error:
        reason = str(error).split("\n")[0]
        raise CepError(f"trace: {str(path)!r} is damaged: {short_text(reason)}") from None
    if about.get("version") != VERSION:
        raise CepError(
            f"trace: {str(path)!r} has version {about.get('version')}. This cepkit reads version {VERSION}"
        )
    return about, tables


def columns_of(table: pa.Table, words: Words) -> dict[str, np.ndarray]:
    """Return the columns of a table as arrays, and words as codes, with -1 for a missing word."""
    return {
        name: _as_codes(table.column(name), words[name]) if name in words else np.asarray(table.column(name))
        for name in table.column_names
    }


def _is_trace(path: Path) -> bool:
    return path.is_dir() and all((path / name).is_file() for name in FILES)


def _as_words(codes: np.ndarray, words: Sequence[str]) -> pa.DictionaryArray:
    codes = pa.array(codes, mask=codes < 0, type=pa.int32())
    return pa.DictionaryArray.from_arrays(codes, pa.array(words, pa.string()))


def _as_codes(column: pa.ChunkedArray, words: Sequence[str]) -> np.ndarray:
    texts, values = column.cast(pa.string()), pa.array(words, pa.string())
    codes = pc.index_in(texts, value_set=values)  # pyright: ignore[reportAttributeAccessIssue]
    return pc.fill_null(codes, -1).to_numpy().astype(np.int64)
