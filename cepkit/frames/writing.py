"""Write tables to a Parquet file, block by block."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa

from cepkit.errors import CepError, WrongTypeError, short_text


def file_of(what: str, path: str | os.PathLike) -> Path:
    """Return ``path``, the argument of the call ``what``, as the path of a file.

    Raises
    ------
    CepError
        When it names no file, or a folder.
    """
    if not isinstance(path, str | os.PathLike) or not isinstance(os.fspath(path), str):
        raise WrongTypeError(f"{what}: path={short_text(repr(path))}: give the name of a file")
    target = Path(path)
    if not target.name or "\0" in str(target):
        raise CepError(f"{what}: path={short_text(repr(path))}: give the name of a file")
    if target.is_dir():
        raise CepError(f"{what}: {target} is a folder; give the name of a file")
    return target


def check_target(path: str | os.PathLike, *, overwrite: bool) -> Path:
    """Return the path of a file to write; raise if the file exists or its folder does not.

    Raises
    ------
    CepError
        When the file exists and ``overwrite`` is False, or it cannot be a file.
    """
    if isinstance(path, str | os.PathLike) and os.path.isdir(path):
        target = Path(path)
        raise CepError(
            f"{target} is a folder; give the name of a file, as in {str(target / 'matches.parquet')!r}"
        )
    target = file_of("write_parquet", path)
    if target.exists() and not overwrite:
        raise CepError(f"{target} exists already; give another name, or overwrite=True")
    if not target.absolute().parent.is_dir():
        raise CepError(f"{target}: the folder does not exist; make it first")
    return target


def write_blocks(target: Path, empty: pa.Table, tables: Iterable[pa.Table]) -> int:
    """Write tables into one Parquet file, each as a row group, and return the number of rows.

    The file gets its name when it is complete, and replaces an older one only then. Nothing is left of a file
    that is not complete.

    Parameters
    ----------
    target : Path
    empty : pyarrow.Table
        A table without rows. Its types count; where one is unknown, that of the first table counts.
    tables : iterable of pyarrow.Table

    Raises
    ------
    CepError
        When the values of a later table do not fit the type of their column.
    """
    import pyarrow.parquet as pq

    part = target.with_name(f"{target.name}.{os.getpid()}.part")
    schema, writer, n = None, None, 0
    try:
        for table in tables:
            if schema is None:
                schema = _known_types(empty.schema, table.schema)
                writer = pq.ParquetWriter(part, schema)
            writer.write_table(_with_types(table, schema), row_group_size=max(1, table.num_rows))
            n += table.num_rows
        if writer is None:
            writer = pq.ParquetWriter(part, empty.schema)
            writer.write_table(empty)
        writer.close()
        with part.open("rb") as file:
            os.fsync(file.fileno())
        os.replace(part, target)
    except BaseException:
        if writer is not None:
            writer.close()
        part.unlink(missing_ok=True)
        raise
    return n


def _known_types(schema: pa.Schema, first: pa.Schema) -> pa.Schema:
    """Return a schema with the types of another one where its own types are null."""
    fields = [
        own if not pa.types.is_null(own.type) else other for own, other in zip(schema, first, strict=True)
    ]
    return pa.schema(fields)


def _with_types(table: pa.Table, schema: pa.Schema) -> pa.Table:
    if table.schema.equals(schema):
        return table
    try:
        return table.cast(schema)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError) as error:
        raise CepError(f"a later match does not fit the types of the file: {error}") from error
