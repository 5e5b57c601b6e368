"""A trace in a folder of Parquet files; reading one runs no code."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cepkit.errors import CepError
from cepkit.parallel.trace.trace import ACTIONS, Actions, Lengths, Trace

FILES = ("actions.parquet", "lengths.parquet")
VERSION = 1
_FORMAT = "cepkit trace"


def write_trace(trace: Trace, path: Path) -> None:
    """Write a trace; see `Trace.save`."""
    if path.exists() and not _is_trace(path):
        raise CepError(f"trace: {str(path)!r} is there and is no trace. Name a folder that is free")
    about = {"version": VERSION, "measured": bool(trace.measured), "n_threads": trace.n_threads}
    about["agents"] = list(trace.agents)
    written = path.with_name(f"{path.name}.{os.getpid()}.part")
    written.mkdir(parents=True)
    try:
        for name, rows in zip(FILES, (trace.done, trace.lengths_read), strict=True):
            columns = {of: pa.array(values) for of, values in rows._asdict().items()}
            columns["agent"] = _as_words(rows.agent, trace.agents)
            if "action" in columns:
                columns["action"] = _as_words(rows.action, ACTIONS)
            table = pa.table(columns).replace_schema_metadata({_FORMAT: json.dumps(about)})
            pq.write_table(table, written / name, compression="zstd")
        if path.exists():
            shutil.rmtree(path)
        written.rename(path)
    finally:
        shutil.rmtree(written, ignore_errors=True)


def read_trace(path: Path) -> Trace:
    """Return a trace; see `Trace.load`."""
    if not _is_trace(path):
        raise CepError(f"trace: {str(path)!r} holds no trace. Trace.save writes a folder of {list(FILES)}")
    tables = [pq.read_table(path / name) for name in FILES]
    about = json.loads((tables[0].schema.metadata or {}).get(_FORMAT.encode(), b"{}"))
    if about.get("version") != VERSION:
        raise CepError(
            f"trace: {str(path)!r} is of version {about.get('version')}; this cepkit reads version {VERSION}"
        )
    agents = tuple(about["agents"])
    rows = []
    for table in tables:
        columns = {name: table.column(name) for name in table.column_names}
        for name, words in (("agent", agents), ("action", ACTIONS)):
            if name in columns:
                columns[name] = _as_codes(columns[name], words)
        rows.append({name: np.asarray(values) for name, values in columns.items()})
    return Trace(about["measured"], about["n_threads"], agents, Actions(**rows[0]), Lengths(**rows[1]))


def _is_trace(path: Path) -> bool:
    return path.is_dir() and all((path / name).is_file() for name in FILES)


def _as_words(codes: np.ndarray, words: Sequence[str]) -> pa.DictionaryArray:
    codes = pa.array(codes, mask=codes < 0, type=pa.int32())
    return pa.DictionaryArray.from_arrays(codes, pa.array(words, pa.string()))


def _as_codes(column: pa.ChunkedArray, words: Sequence[str]) -> np.ndarray:
    found = pc.index_in(column.cast(pa.string()), value_set=pa.array(words, pa.string()))
    return pc.fill_null(found, -1).to_numpy().astype(np.int64)
