"""Write tables to a Parquet file, block by block."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa

from cepkit.errors import CepError
from cepkit.frames.replacing import file_of, file_to_write, replace_file
from cepkit.frames.texts import check_texts_of_table


def check_target(path: str | os.PathLike, *, overwrite: bool) -> Path:
    """Return the path of a file to write; raise if the file exists or its folder does not."""
    if isinstance(path, str | os.PathLike) and os.path.isdir(path):
        target = Path(path)
        raise CepError(
            f"{target} is a folder; give the name of a file, as in {str(target / 'matches.parquet')!r}"
        )
    target = file_of("write_parquet", path)
    if file_to_write(target).exists() and not overwrite:
        raise CepError(f"{target} exists already; give another name, or overwrite=True")
    if not os.path.isdir(target.parent):
        raise CepError(f"{target}: the folder does not exist; make it first")
    return target


def write_blocks(target: Path, empty: pa.Table, tables: Iterable[pa.Table]) -> int:
    """Write tables into one Parquet file, each as a row group, and return the number of rows.

    The file gets its name when it is complete, and replaces an older one only then. Nothing is left of a file
    that is not complete.
    """
    import pyarrow.parquet as pq

    schema, writer, fitting, n = None, None, None, 0
    with replace_file(target) as part:
        try:
            for table in tables:
                fitting = table
                if schema is None:
                    schema = _known_types(empty.schema, table.schema)
                    writer = pq.ParquetWriter(part, schema)
                check_texts_of_table(table, n)
                fitting = _with_types(table, schema)
                writer.write_table(fitting, row_group_size=max(1, table.num_rows))
                n += table.num_rows
            if writer is None:
                writer = pq.ParquetWriter(part, empty.schema)
                writer.write_table(empty)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            told = _unwritable_column(empty if fitting is None else fitting)
            if told is None:
                raise
            raise CepError(told) from error
        finally:
            if writer is not None:
                writer.close()
    return n


def _unwritable_column(table: pa.Table) -> str | None:
    """Return the error message for the first column that Parquet cannot hold; None if it holds all."""
    import pyarrow.parquet as pq

    for name in table.schema.names:
        try:
            pq.write_table(table.select([name]), pa.BufferOutputStream())
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            return (
                f"column {name!r} of type {table.schema.field(name).type} does not fit Parquet ({error}); "
                "cast the column, or drop it"
            )
    return None


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
