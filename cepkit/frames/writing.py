"""Write files completely or not at all, and tables to a Parquet file, block by block."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import re
import stat
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.parsers import expat

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pa_json

from cepkit.errors import CepError, WrongTypeError, reason_of, short_text
from cepkit.frames.arrow import check_texts_of_table
from cepkit.frames.pandas import series_of_arrow

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
    """Yield the path of a part to write. The part becomes the file when the block ends without an error."""
    # The part lies in the folder of the file. Nothing is left of it after an error.
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
    """Write tables into one Parquet file, each as a row group, and return the number of rows."""
    # The file gets its name when it is complete, and replaces an older one only then. Nothing is left of a
    # file that is not complete.
    import pyarrow.parquet as pq

    schema, writer, n = None, None, 0
    last_tried = empty  # for the message of an error
    with replace_file(target) as part:
        try:
            for table in tables:
                last_tried = table
                if schema is None:
                    schema = _known_types(empty.schema, table.schema)
                    writer = pq.ParquetWriter(part, schema)
                check_texts_of_table(table, n)
                last_tried = _with_types(table, schema)
                writer.write_table(last_tried, row_group_size=max(1, table.num_rows))
                n += table.num_rows
            if writer is None:
                writer = pq.ParquetWriter(part, empty.schema)
                writer.write_table(empty)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            message = _unwritable_column(last_tried)
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
    """Return a table with the types of the file."""
    if table.schema.equals(schema):
        return table
    try:
        return table.cast(schema)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError) as error:
        raise CepError(f"a later match does not fit the types of the file: {error}") from error


# Rows of files of text, known by their content: CSV with any delimiter, JSON, logs, Zeek and XES.

_MESSAGE = r"(?P<host>\S+) (?P<program>[^\s:\[]+)(?:\[(?P<pid>\d{1,18})\])?: ?(?P<message>.*)$"
_QUOTED = r'(?:[^"\\]|\\.)*'
# Lines of logs, by RE2. The group ts is the time, in the format after the pattern.
_LOGS = {
    "a log of Apache or nginx": (
        r"^(?P<host>\S+) (?P<ident>\S+) (?P<user>\S+) \[(?P<ts>[^\]]+)\] "
        rf'"(?:(?P<method>[A-Z]+) (?P<path>\S+)(?: (?P<protocol>HTTP/[\d.]+))?|{_QUOTED})" '
        rf'(?P<status>\d{{3}}) (?P<size>\d{{1,18}}|-)(?: "(?P<referrer>{_QUOTED})" "(?P<agent>{_QUOTED})")?',
        "%d/%b/%Y:%H:%M:%S %z",
    ),
    "syslog (RFC 5424)": (
        r"^<(?P<priority>\d{1,3})>1 (?P<ts>\S+) (?P<host>\S+) (?P<program>\S+) (?P<procid>\S+) (?P<id>\S+) "
        r"(?P<data>-|\[.*?\]) ?(?P<message>.*)$",
        "ISO8601",
    ),
    "syslog": (
        rf"^(?:<(?P<priority>\d{{1,3}})>)?(?P<ts>[A-Z][a-z]{{2}} [ \d]\d [\d:]{{8}}) {_MESSAGE}",
        "%Y %b %d %H:%M:%S",
    ),
    "syslog with ISO times": (
        rf"^(?P<ts>\d{{4}}-\d\d-\d\d[T ][\d:.]+(?:Z|[+-]\d\d:?\d\d)?) {_MESSAGE}",
        "ISO8601",
    ),
}
_NUMBERS = ("status", "size", "pid", "priority")
_HEAD, _MOST_TRIED = 1 << 16, 10  # bytes and lines that tell what a text is
KINDS = "CSV, JSON Lines, JSON, Zeek, XES, and logs of Apache, nginx and syslog"


@dataclass
class Reading:
    """How to read a file of text, and what was found out about it."""

    delimiter: str | None = None
    encoding: str | None = None
    decimal: str | None = None
    notes: list[str] = field(default_factory=list)
    quarantine: list[dict[str, Any]] = field(default_factory=list)  # lines that are no events
    file: str = ""  # that is read now

    def leave_out(self, faults: Sequence[tuple[int, str]], lines: Sequence[str], n_lines: int) -> None:
        """Note the lines with these numbers and faults; raise if they are most of all."""
        if not faults:
            return
        shown = "; ".join(f"line {number}: {short_text(fault)}" for number, fault in faults[:3])
        if 2 * len(faults) > n_lines:
            raise CepError(f"{len(faults):,} of {n_lines:,} lines cannot be read ({shown})")
        more = ", …" * (len(faults) > 3)
        self.notes.append(f"cepkit leaves out {len(faults):,} of {n_lines:,} lines ({shown}{more})")
        self.quarantine += [
            {"file": self.file, "line": number, "reason": fault, "text": "".join(lines[number - 1 : number])}
            for number, fault in faults
        ]


def read_text(source: str | bytes, reading: Reading, modified: pd.Timestamp, *, is_csv: bool) -> pd.DataFrame:
    """Return the rows of a file or of its content; ``modified`` gives the times of syslog their year."""
    with _opened(source) as lines:
        head = _decoded(lines.read(_HEAD), reading, is_part=True)
    kind = None if is_csv or reading.delimiter else _kind_of(head.lstrip("\ufeff \t\r\n"))
    if kind is None:
        return _read_csv(source, head, reading, is_csv)
    reading.notes.append(f"the file is read as {kind}")
    with _opened(source) as lines:
        content = lines.read()
    if kind == "XES":
        return _read_xes(content)
    text = _decoded(content, reading)
    if kind == "JSON":
        return _read_json(text, reading)
    return _read_zeek(text, reading) if kind == "Zeek" else _read_log(text, kind, reading, modified)


def _opened(source: str | bytes) -> Any:
    """Return a file for reading, decompressed by the ending of its name."""
    if isinstance(source, bytes):
        return io.BytesIO(source)
    ending = Path(source).suffix.lower()
    if ending == ".zst":
        return pa.input_stream(source, compression="zstd")
    return {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}.get(ending, open)(source, "rb")


def _decoded(content: bytes, reading: Reading, *, is_part: bool = False) -> str:
    """Return bytes as text."""
    encoding = reading.encoding or "utf-8-sig"
    try:
        return content.decode(encoding)
    except LookupError:
        raise CepError(f"no encoding {encoding!r}; write one as in latin-1 or utf-16") from None
    except UnicodeDecodeError as error:
        if is_part and error.start > len(content) - 4:  # the part ends within a character
            return content[: error.start].decode(encoding)
        raise CepError(
            f"byte {error.start} is no text in {reading.encoding or 'UTF-8'}; name the encoding of the file, "
            "as in --encoding latin-1"
        ) from None


def _lines_of(text: str) -> list[str]:
    """Return the lines of a text; only line feeds end them, unlike those of `str.splitlines`."""
    return text.replace("\r\n", "\n").removesuffix("\n").split("\n")


def _kind_of(text: str) -> str | None:
    """Return what a text is by its first lines; None for a table with a delimiter."""
    if re.match(r"\{|\[\s*\{", text):
        return "JSON"
    if re.search(r"^#fields\s", text, re.MULTILINE):
        return "Zeek"
    if re.match(r"<\?xml|<log\b|<!--", text):
        return "XES"
    lines = [line for line in text.splitlines() if line.strip()][:_MOST_TRIED]
    for kind, (pattern, _) in _LOGS.items():
        if 2 * sum(re.match(pattern, line) is not None for line in lines) > len(lines):
            return kind
    return None


# --- CSV


def _read_csv(source: str | bytes, head: str, reading: Reading, is_csv: bool) -> pd.DataFrame:
    """Return the frame of a CSV file; the delimiter is found in its first line."""
    header, *rows = _lines_of(head)[: _MOST_TRIED + 1]
    delimiter, usual = reading.delimiter, ","
    if delimiter is None:
        unquoted = re.sub(r'"[^"]*"', "", header)
        usual = "\t" if isinstance(source, str) and ".tsv" in source.lower() else ","
        delimiter = max(usual + ",;\t|", key=unquoted.count)
        if not is_csv and delimiter not in unquoted:
            raise CepError(f"the content is none of {KINDS}; a CSV of one column has a name with .csv")
        if delimiter != usual:
            reading.notes.append(f"the columns are divided by {delimiter!r}")
    elif len(delimiter) != 1:
        raise CepError(f"the delimiter {delimiter!r} is not one character")
    decimal = reading.decimal or "."
    if reading.decimal is None and delimiter != ",":
        cells = [cell.strip() for row in rows for cell in row.split(delimiter)]
        marks = {mark for mark in ",." if any(re.fullmatch(rf"[+-]?\d+\{mark}\d+", cell) for cell in cells)}
        if marks == {","}:
            decimal = ","
            reading.notes.append("numbers have a decimal comma; --decimal . reads them as they are")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", pd.errors.ParserWarning)
        frame = pd.read_csv(
            io.BytesIO(source) if isinstance(source, bytes) else source, sep=delimiter, low_memory=False,
            encoding=reading.encoding, decimal=decimal, on_bad_lines="warn",
        )  # fmt: skip
    texts = "\n".join(str(warning.message) for warning in caught)
    if bad := [(int(number), fault) for number, fault in re.findall(r"Skipping line (\d+): (.*)", texts)]:
        with _opened(source) as content:
            lines = _lines_of(_decoded(content.read(), reading))
        reading.leave_out(bad, lines, len(frame) + len(bad))
    return frame


# --- Zeek

_ZEEK_TYPES = {
    "count": "Int64", "int": "Int64", "port": "Int64", "double": "float64", "bool": "boolean",
    "time": "float64", "interval": "float64",
}  # fmt: skip


def _read_zeek(text: str, reading: Reading) -> pd.DataFrame:
    """Return the rows of a log of Zeek with the types of its header."""
    lines = _lines_of(text)
    heads = "\n".join(line for line in lines if line.startswith("#"))
    header = dict(re.findall(r"^#(\w+)[ \t](.*)$", heads, re.MULTILINE))
    separator = header.get("separator", r"\x09").encode().decode("unicode_escape")
    names, kinds = (header.get(entry, "").split(separator) for entry in ("fields", "types"))
    kind_of_name = dict(zip(names, kinds, strict=False))
    rows, left_out = [], []
    for number, line in enumerate(lines, 1):
        n_fields = line.count(separator) + 1
        if not line or line[0] == "#":
            continue
        if n_fields == len(names):
            rows.append(line)
        else:
            left_out.append((number, f"{n_fields} fields, not {len(names)}"))
    reading.leave_out(left_out, lines, len(rows) + len(left_out))
    frame = pd.read_csv(
        io.StringIO("\n".join(rows)), sep=separator, names=names, index_col=False, quoting=3,
        dtype={name: _ZEEK_TYPES.get(kind, "str") for name, kind in kind_of_name.items()},
        na_values=[header.get("unset_field", "-"), header.get("empty_field", "(empty)")],
        keep_default_na=False, true_values=["T"], false_values=["F"],
    )  # fmt: skip
    for name, kind in kind_of_name.items():
        if kind in ("time", "interval"):
            to_ticks = pd.to_datetime if kind == "time" else pd.to_timedelta
            frame[name] = to_ticks(frame[name], unit="s").dt.round("us")
    return frame


# --- JSON


def _read_json(text: str, reading: Reading) -> pd.DataFrame:
    """Return the objects of JSON Lines, of an array, or of the only array in an object, with dotted names."""
    content = text.encode()
    try:
        table = pa_json.read_json(io.BytesIO(content))
        schema = pa.schema([field.with_type(_without_times(field.type)) for field in table.schema])
        if schema != table.schema:
            table = pa_json.read_json(io.BytesIO(content), parse_options=pa_json.ParseOptions(schema))
    except pa.ArrowException:  # no object in each line, or values of several types
        table = None
    if table is None or table.num_rows < 2:  # the only object may have all rows
        return pd.json_normalize(_objects_of(text, reading))
    while any(pa.types.is_struct(column.type) for column in table.schema):
        table = table.flatten()
    return pd.DataFrame({name: series_of_arrow(table[name]) for name in table.column_names})


def _without_times(arrow_type: pa.DataType) -> pa.DataType:
    """Return a type with texts for times, whose zones Arrow would drop."""
    if pa.types.is_struct(arrow_type):
        return pa.struct([field.with_type(_without_times(field.type)) for field in arrow_type])
    if pa.types.is_list(arrow_type):
        return pa.list_(_without_times(arrow_type.value_type))
    return pa.string() if pa.types.is_timestamp(arrow_type) else arrow_type


def _objects_of(text: str, reading: Reading) -> list[dict]:
    """Return the objects of a JSON text: a list, or one a line."""
    whole = _value_of(text)
    if isinstance(whole, dict):
        lists = [value for value in whole.values() if isinstance(value, list)]
        whole = lists[0] if len(lists) == 1 else [whole]
    lines = [str(value) for value in whole] if isinstance(whole, list) else _lines_of(text)
    if not isinstance(whole, list):
        whole = [_value_of(line) for line in lines]
    bad = [(n, "no object of JSON") for n, value in enumerate(whole, 1) if not isinstance(value, dict)]
    reading.leave_out(bad, lines, len(whole))
    return [value for value in whole if isinstance(value, dict) and value]


def _value_of(text: str) -> Any:
    try:
        return json.loads(text) if text.strip() else {}
    except (ValueError, RecursionError):
        return None


# --- logs of servers


def _read_log(text: str, kind: str, reading: Reading, modified: pd.Timestamp) -> pd.DataFrame:
    """Return the fields of lines. What a line lacks, and ``-``, is null."""
    pattern, time_format = _LOGS[kind]
    rows = _lines_of(text)
    lines = pa.array(rows, pa.large_string())
    fields = pc.extract_regex(lines, pattern)
    missing = pa.array(["", "-"], pa.large_string())
    frame = pd.DataFrame()
    for field_type, column in zip(fields.type, fields.flatten(), strict=True):
        column = pc.if_else(pc.is_in(column, missing), None, column)
        is_number = field_type.name in _NUMBERS
        frame[field_type.name] = series_of_arrow(column.cast(pa.int64()) if is_number else column)
    frame["ts"] = _times_of(frame["ts"], time_format, reading, modified)
    is_empty = np.array(pc.equal(pc.utf8_trim_whitespace(lines), ""))
    is_bad = frame["ts"].isna() & ~is_empty
    reading.leave_out([(int(i) + 1, f"no line of {kind}") for i in np.flatnonzero(is_bad)], rows, len(rows))
    return frame[~(is_bad | is_empty)].reset_index(drop=True)


def _times_of(texts: pd.Series, time_format: str, reading: Reading, modified: pd.Timestamp) -> pd.Series:
    """Return texts as times; texts without a year get that of the file, or the year before."""
    if not time_format.startswith("%Y"):
        return pd.to_datetime(texts, format=time_format, errors="coerce", utc=True)
    reading.notes.append(f"the lines have no year; the last ones are of {modified.year}")
    texts = f"{modified.year} " + texts.str.replace(r"\s+", " ", regex=True)
    times = pd.to_datetime(texts, format=time_format, errors="coerce")
    return times.mask(times > modified + pd.Timedelta(days=1), times - pd.DateOffset(years=1))


# --- XES


def _read_xes(content: bytes) -> pd.DataFrame:
    """Return the events of a log in XES; the attributes of their case have the prefix ``case:``."""
    events: list[dict[str, Any]] = []
    case: dict[str, Any] = {}
    dates: set[str] = set()
    path: list[str] = []

    def start(tag: str, attributes: dict[str, str]) -> None:
        parent = path[-1] if path else ""
        path.append(tag.rpartition(":")[2])
        if path[-1] == "trace":
            case.clear()
        elif path[-1] == "event":
            events.append(dict(case) if parent == "trace" else {})
        elif "key" in attributes and parent in ("trace", "event"):
            is_of_case = parent == "trace"
            name = f"case:{attributes['key']}" if is_of_case else attributes["key"]
            row = case if is_of_case else events[-1]
            row[name] = _XES.get(path[-1], str)(attributes.get("value", ""))
            if path[-1] == "date":
                dates.add(name)

    def refuse(*_: Any) -> None:
        raise CepError("it has a document type, which is refused")

    parser = expat.ParserCreate()
    parser.StartElementHandler, parser.StartDoctypeDeclHandler = start, refuse
    parser.EndElementHandler = lambda tag: path.pop()
    parser.Parse(content, True)
    if not events:
        raise CepError("it has no event of XES")
    frame = pd.DataFrame(events)
    for name in dates & {*frame}:
        frame[name] = pd.to_datetime(frame[name], utc=True, format="ISO8601")
    return frame


_XES = {"int": int, "float": float, "boolean": "true".__eq__}
