"""Files of saved state: text, numbers and Arrow tables in one file. Loading a file runs no code."""

from __future__ import annotations

import errno
import io
import json
import os
import struct
import zipfile
import zlib
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import pyarrow as pa

from cepkit.compile.shared.kernel_source import VERSION as KERNEL_VERSION
from cepkit.errors import CepError

FORMAT_VERSION = 2  # of the file; 1 had another layout for each kind of query
_FORMAT = "cepkit state"
# What zipfile, json, numpy and Arrow raise for damaged content. zipfile reads some damage as a method of
# compression or encryption that it does not know.
_DAMAGED = (
    zipfile.BadZipFile, zlib.error, KeyError, ValueError, EOFError, NotImplementedError, RuntimeError,
    OverflowError, struct.error, pa.ArrowException,
)  # fmt: skip
_EPOCH = (1980, 1, 1, 0, 0, 0)  # time of every member, so that equal states give equal bytes


# What reading a damaged file may raise: also sizes that do not fit into memory, and too many brackets.
_DAMAGE = (
    zipfile.BadZipFile, zlib.error, pa.ArrowException, EOFError, LookupError, ValueError, TypeError,
    AttributeError, NotImplementedError, RuntimeError, MemoryError, OverflowError,
)  # fmt: skip


class Saved(NamedTuple):
    """The content of a file: plain values, numpy arrays and Arrow tables by name."""

    header: dict[str, Any]
    arrays: dict[str, np.ndarray]
    tables: dict[str, pa.Table]

    def part(self, name: str) -> Saved:
        """Return the part that `with_part` added under this name."""
        folder = f"{name}/"
        return Saved(
            self.header[name],
            {name.removeprefix(folder): a for name, a in self.arrays.items() if name.startswith(folder)},
            {name.removeprefix(folder): t for name, t in self.tables.items() if name.startswith(folder)},
        )

    def with_part(self, name: str, part: Saved) -> Saved:
        """Add a part with its own header, arrays and tables under a name."""
        return Saved(
            {**self.header, name: part.header},
            {**self.arrays, **{f"{name}/{key}": array for key, array in part.arrays.items()}},
            {**self.tables, **{f"{name}/{key}": table for key, table in part.tables.items()}},
        )


def save_file(path: str | os.PathLike, saved: Saved) -> None:
    """Write a state file completely or not at all; a crash leaves the old file unchanged.

    Raises
    ------
    CepError
        When an array holds Python objects.
    """
    path = Path(path)
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            _write(file, saved, zipfile.ZIP_DEFLATED)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def save_bytes(saved: Saved) -> bytes:
    """Return the content of a state file, not compressed. Raises as `save_file`."""
    file = io.BytesIO()
    _write(file, saved, zipfile.ZIP_STORED)
    return file.getvalue()


def _write(file: IO[bytes], saved: Saved, compression: int) -> None:
    names = [
        *(f"arrays/{name}.npy" for name in saved.arrays),
        *(f"tables/{name}.arrow" for name in saved.tables),
    ]
    own = {"format": _FORMAT, "version": FORMAT_VERSION, "kernels": KERNEL_VERSION, "members": names}
    header = {**own, **saved.header}
    for name, array in saved.arrays.items():
        if array.dtype == object:
            raise CepError(f"{name} holds Python objects, which cannot be saved")
    with zipfile.ZipFile(file, "w", compression, compresslevel=1) as members:
        _add(members, "header.json", json.dumps(header, indent=1).encode())
        for name, array in saved.arrays.items():
            buffer = io.BytesIO()
            np.lib.format.write_array(buffer, np.ascontiguousarray(array), allow_pickle=False)
            _add(members, f"arrays/{name}.npy", buffer.getbuffer())
        for name, table in saved.tables.items():
            sink = pa.BufferOutputStream()
            with pa.ipc.new_file(sink, table.schema) as writer:
                writer.write_table(table)
            _add(members, f"tables/{name}.arrow", sink.getvalue())


def _add(members: zipfile.ZipFile, name: str, content: Any) -> None:
    member = zipfile.ZipInfo(name, _EPOCH)
    member.compress_type = members.compression
    with members.open(member, "w", force_zip64=True) as file:
        file.write(content)


def load_file(path: str | os.PathLike, kind: str) -> Saved:
    """Return the content of a file that `save_file` wrote; its header must have this ``kind``.

    Raises
    ------
    FileNotFoundError
        When the file does not exist.
    CepError
        When the file is no state file, is damaged, or has the state layout of another version of cepkit.
    """
    path = Path(path)
    return _read(path, str(path), kind)


def load_bytes(content: bytes, name: str, kind: str) -> Saved:
    """Return what `save_bytes` wrote; messages call it by ``name``. Raises as `load_file`."""
    return _read(io.BytesIO(content), name, kind)


def _read(file: Path | IO[bytes], path: str, kind: str) -> Saved:
    try:
        with zipfile.ZipFile(file) as members:
            header = json.loads(members.read("header.json"))
            _check_header(path, header, kind)
            arrays, tables = {}, {}
            if missing := sorted({*header.get("members", ())} - {*members.namelist()}):
                raise CepError(f"{path} is damaged: it lacks {', '.join(missing)}")
            for name in members.namelist():
                folder, _, rest = name.partition("/")
                if folder == "arrays":
                    content = io.BytesIO(members.read(name))
                    arrays[rest.removesuffix(".npy")] = np.lib.format.read_array(content, allow_pickle=False)
                elif folder == "tables":
                    with pa.ipc.open_file(pa.py_buffer(members.read(name))) as reader:
                        tables[rest.removesuffix(".arrow")] = reader.read_all()
    except CepError:
        raise
    except OSError as error:
        if error.errno not in (None, errno.EINVAL):  # damage may name a place before the begin of the file
            raise
        raise CepError(f"{path} is damaged: {error}") from error
    except _DAMAGED as error:
        raise CepError(f"{path} is not a state file of cepkit, or it is damaged: {error}") from error
    return Saved(header, arrays, tables)


def kind_of_file(path: str | os.PathLike) -> str | None:
    """Return the kind of state in a file; None if it is no state file."""
    try:
        with zipfile.ZipFile(path) as members:
            return json.loads(members.read("header.json")).get("kind")
    except (OSError, AttributeError, *_DAMAGED):
        return None


def _check_header(path: str, header: Any, kind: str) -> None:
    if not isinstance(header, dict) or header.get("format") != _FORMAT:
        raise CepError(f"{path} is not a state file of cepkit")
    for name, known in (("version", FORMAT_VERSION), ("kernels", KERNEL_VERSION)):
        if header.get(name) != known:
            what = "its format" if name == "version" else "the layout of kernel state"
            raise CepError(
                f"another version of cepkit wrote {path}: {what} is {header.get(name)}, this version "
                f"reads {known}; load the file with the version that wrote it, or open a new stream"
            )
    if header.get("kind") != kind:
        raise CepError(f"{path} holds a {header.get('kind')}, not a {kind}")
