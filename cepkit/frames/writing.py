"""Write files completely or not at all, and tables to a Parquet file, block by block."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow as pa

from cepkit.errors import CepError, WrongTypeError, reason_of, short_text
from cepkit.frames.conversion import check_texts_of_table

# Write a file completely or not at all, in the place that a path names.

_KINDS = (
    (stat.S_ISFIFO, "a pipe"), (stat.S_ISCHR, "a device"), (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)  # fmt: skip


class UnwritableFileError(CepError, OSError):
    """The result cannot be written to this path."""


def file_of(what: str, path: str | os.PathLike) -> Path:
    """Return ``path``, the argument of the call ``what``, as the path of a file."""
    if not isinstance(path, str | os.PathLike) or not isinstance(os.fspath(path), str):
        raise WrongTypeError(f"{what}: path={short_text(repr(path))}: give the name of a file")
    target = Path(path)
    if not target.name or "\0" in str(target):
        raise CepError(f"{what}: path={short_text(repr(path))}: give the name of a file")
    if os.path.isdir(target):
        raise CepError(f"{what}: {target} is a folder; give the name of a file")
    return target


def file_to_write(path: str | os.PathLike, name: object = None) -> Path:
    """Return the file that a path names: the path itself, or the target of a symbolic link."""
    name = str(path) if name is None else name
    try:
        path = Path(path)
        target = Path(os.path.realpath(path)) if path.is_symlink() else path
        mode = target.stat().st_mode
    except FileNotFoundError:
        return target
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise UnwritableFileError(f"{name} cannot be written: {reason_of(error)}") from None
    if stat.S_ISDIR(mode):
        raise UnwritableFileError(f"{name} is a folder; give the name of a file")
    if not stat.S_ISREG(mode):
        kind = next((kind for is_kind, kind in _KINDS if is_kind(mode)), "no file")
        raise UnwritableFileError(
            f"{name} is {kind}, and a written file would take its place. Give the name of a file, or write "
            f"to the standard output and redirect it: `cepkit match … --out - > {path}`"
        )
    return target


@contextmanager
def replace_file(path: str | os.PathLike) -> Iterator[Path]:
    """Yield the path of a part to write. The part becomes the file when the block ends without an error.

    The part lies in the folder of the file. Nothing is left of it after an error.
    """
    target = file_to_write(path)
    if not os.path.isdir(target.parent):
        raise UnwritableFileError(
            f"{path} cannot be written: there is no folder {str(target.parent)!r}; make it first"
        )
    part = target.with_name(f".{os.urandom(8).hex()}.part")
    try:
        yield part
        with part.open("rb") as file:
            os.fsync(file.fileno())
        os.replace(part, target)
    except CepError:
        raise
    except OSError as error:
        raise UnwritableFileError(f"{path} cannot be written: {reason_of(error)}") from error
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


# Write tables to a Parquet file, block by block.


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
            message = _unwritable_column(empty if fitting is None else fitting)
            if message is None:
                raise
            raise CepError(message) from error
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
        field if not pa.types.is_null(field.type) else first_field
        for field, first_field in zip(schema, first, strict=True)
    ]
    return pa.schema(fields)


def _with_types(table: pa.Table, schema: pa.Schema) -> pa.Table:
    if table.schema.equals(schema):
        return table
    try:
        return table.cast(schema)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError) as error:
        raise CepError(f"a later match does not fit the types of the file: {error}") from error
