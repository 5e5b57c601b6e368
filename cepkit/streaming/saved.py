"""Files of saved state: text, numbers and Arrow tables in one file. Loading a file runs no code."""

from __future__ import annotations

import errno
import io
import json
import os
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any, NamedTuple

import numpy as np
import pyarrow as pa

from cepkit.compile.shared.kernel_source import VERSION as KERNEL_VERSION
from cepkit.errors import CepError
from cepkit.frames.replacing import file_of, replace_file

FORMAT_VERSION = 2  # of the file; 1 had another layout for each kind of query
_FORMAT = "cepkit state"
_HEADER, _CHECKSUM = "header.json", "checksum"  # the checksum covers the other values and members
_MOST_COUNTED = 1 << 62  # kernels add to it in 64 bits
_MOST_SAID = 200  # characters of the reason for damage
_EPOCH = (1980, 1, 1, 0, 0, 0)  # time of every member, so that equal states give equal bytes


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

    def counter(self, name: str, least: int = 0) -> int:
        """Return a whole number of the header, at least ``least``; raise ValueError if it is none."""
        return _counter(name, self.header[name], least)

    def counters(self, name: str, n: int, least: int = 0) -> list[int]:
        """Return a list of ``n`` whole numbers of the header. Raises as `counter`."""
        values = self.header[name]
        if not isinstance(values, list) or len(values) != n:
            raise ValueError(f"{name} is not a list of {n} whole numbers")
        return [_counter(name, value, least) for value in values]

    def with_part(self, name: str, part: Saved) -> Saved:
        """Add a part with its own header, arrays and tables under a name."""
        return Saved(
            {**self.header, name: part.header},
            {**self.arrays, **{f"{name}/{key}": array for key, array in part.arrays.items()}},
            {**self.tables, **{f"{name}/{key}": table for key, table in part.tables.items()}},
        )


def _counter(name: str, value: Any, least: int) -> int:
    if type(value) is not int or not least <= value < _MOST_COUNTED:
        raise ValueError(f"{name} is {value!r}, not a whole number from {least} on")
    return value


def save_file(path: str | os.PathLike, saved: Saved) -> None:
    """Write a state file completely or not at all; a crash leaves the old file unchanged."""
    with replace_file(file_of("save", path)) as part, part.open("wb") as file:
        _write(file, saved, zipfile.ZIP_DEFLATED)


def save_bytes(saved: Saved) -> bytes:
    """Return the content of a state file, not compressed. Raises as `save_file`."""
    file = io.BytesIO()
    _write(file, saved, zipfile.ZIP_STORED)
    return file.getvalue()


def _write(file: IO[bytes], saved: Saved, compression: int) -> None:
    header = {"format": _FORMAT, "version": FORMAT_VERSION, "kernels": KERNEL_VERSION, **saved.header}
    for name, array in saved.arrays.items():
        if array.dtype == object:
            raise CepError(f"{name} holds Python objects, which cannot be saved")
    with zipfile.ZipFile(file, "w", compression, compresslevel=1) as members:
        checksum = 0
        for name, content in _members(saved):
            _add(members, name, content)
            checksum = _checksum(name, content, checksum)
        text = json.dumps(header, indent=1)
        header[_CHECKSUM] = _checksum(_HEADER, text.encode(), checksum)
        _add(members, _HEADER, json.dumps(header, indent=1).encode())


def _members(saved: Saved) -> Iterator[tuple[str, Any]]:
    for name, array in saved.arrays.items():
        buffer = io.BytesIO()
        np.lib.format.write_array(buffer, np.ascontiguousarray(array), allow_pickle=False)
        yield f"arrays/{name}.npy", buffer.getbuffer()
    for name, table in saved.tables.items():
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
        yield f"tables/{name}.arrow", memoryview(sink.getvalue())


def _checksum(name: str, content: Any, before: int) -> int:
    return zlib.crc32(content, zlib.crc32(name.encode(), before))


def _add(members: zipfile.ZipFile, name: str, content: Any) -> None:
    member = zipfile.ZipInfo(name, _EPOCH)
    member.compress_type = members.compression
    with members.open(member, "w", force_zip64=True) as file:
        file.write(content)


def load_file(path: str | os.PathLike, kind: str) -> Saved:
    """Return the content of a file that `save_file` wrote; its header must have this ``kind``."""
    with file_of("load", path).open("rb") as file:
        return _read(file, str(path), kind)


def load_bytes(content: bytes, name: str, kind: str) -> Saved:
    """Return what `save_bytes` wrote; messages call it by ``name``. Raises as `load_file`."""
    return _read(io.BytesIO(content), name, kind)


def _read(file: IO[bytes], path: str, kind: str) -> Saved:
    with said_as_damage(path):
        with zipfile.ZipFile(file) as members:
            header = json.loads(members.read(_HEADER))
            _check_header(path, header, kind)
            arrays, tables, checksum = {}, {}, 0
            for name in members.namelist():
                if name == _HEADER:
                    continue
                content = members.read(name)
                checksum = _checksum(name, content, checksum)
                folder, _, rest = name.partition("/")
                if folder == "arrays":
                    array = np.lib.format.read_array(io.BytesIO(content), allow_pickle=False)
                    arrays[rest.removesuffix(".npy")] = array
                elif folder == "tables":
                    with pa.ipc.open_file(pa.py_buffer(content)) as reader:
                        tables[rest.removesuffix(".arrow")] = reader.read_all()
        if _CHECKSUM not in header:  # every file of this version has one
            raise ValueError("it has no checksum")
        known = header.pop(_CHECKSUM)
        if known != _checksum(_HEADER, json.dumps(header, indent=1).encode(), checksum):
            raise ValueError("its parts do not belong together")
    return Saved(header, arrays, tables)


@contextmanager
def said_as_damage(path: str | os.PathLike) -> Iterator[None]:
    """Raise one CepError for whatever goes wrong while the content of a file is read."""
    try:
        yield
    except CepError:
        raise
    except Exception as error:
        # Damage may name a place before the beginning of the file. Other errors of the disk are no damage.
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise
        reason = str(error)[:_MOST_SAID] or type(error).__name__
        raise CepError(
            f"{path} is not a state file of cepkit, or it is damaged: {reason}. Load an earlier copy, or "
            "open a new stream"
        ) from error


def kind_of_file(path: str | os.PathLike) -> str | None:
    """Return the kind of state in a file; None if it is no state file."""
    try:
        with zipfile.ZipFile(path) as members:
            return json.loads(members.read(_HEADER)).get("kind")
    except Exception:  # `load_file` says what is wrong
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
