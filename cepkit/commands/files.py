"""Find, read and write files for the command line: tables and stubs; and texts for a terminal."""

from __future__ import annotations

import ast
import glob
import importlib.util
import io
import os
import re
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa

from cepkit.datasets import sample, sample_names
from cepkit.errors import CepError, nearest, reason_of
from cepkit.frames.arrow import check_texts_of_frame, check_texts_of_table
from cepkit.frames.writing import Reading, UnwritableFileError, file_to_write, read_text, replace_file
from cepkit.pipelines.ingest import EVENTS, is_result
from cepkit.pipelines.spark_session import setting
from cepkit.progress import show_progress
from cepkit.values import dataclass

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


# Texts for a terminal: a character that would move the cursor or hide text is shown by its number.

# Control characters but for line ends and tabs, marks that turn the direction of texts, and half characters.
_UNSAFE = re.compile(
    "[\0-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def printable(text: object) -> str:
    r"""Return a text as a terminal may show it."""
    return _UNSAFE.sub(lambda sign: ascii(sign[0])[1:-1], str(text))


def tell(text: object, *, error: bool = False) -> None:
    """Print a text on stdout, or on stderr with ``error``."""
    # A text for a closed stream is dropped. A text that stderr cannot take is dropped too, because the result
    # matters more.
    line = f"{printable(text)}\n"
    if not error:
        write_out(line)
    elif sys.stderr is not None:
        try:
            sys.stderr.write(line)
            sys.stderr.flush()
        except OSError:
            end_stream(sys.stderr)


def write_out(content: str | bytes) -> None:
    """Write a text or bytes to stdout. Raise as `tell` does."""
    if sys.stdout is None:
        return
    with said_of_stdout():
        if isinstance(content, str):
            sys.stdout.write(content)
        else:
            sys.stdout.flush()
            buffer = getattr(sys.stdout, "buffer", None)  # a captured stdout may have none
            if buffer is None:
                sys.stdout.write(content.decode())
            else:
                buffer.write(content)
        sys.stdout.flush()


@contextmanager
def said_of_stdout() -> Iterator[None]:
    """Raise UnwritableFileError when the block cannot write to stdout."""
    try:
        yield
    except BrokenPipeError:  # the reader, such as `head`, has stopped
        raise
    except OSError as error:
        end_stream(sys.stdout)
        raise UnwritableFileError(f"the standard output cannot be written: {reason_of(error)}") from error


def end_stream(stream: Any) -> None:
    """Send the rest of a stream to the null device, so that Python does not fail when it ends."""
    with suppress(OSError, ValueError, AttributeError):  # a captured stream has no number
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)


def open_closed_streams() -> None:
    """Open the null device for standard streams that are closed, so that no file gets their numbers."""
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(number)


# Find, read and write the files of tables for the command line.

SAMPLE, STDIN = "sample:", "-"
_SAMPLES = ("sample:trades", "sample:tweets", "sample:peaks")  # the samples that are tables
_CSV = re.compile(r"\.(csv|tsv)(\.(gz|bz2|xz|zst))?$", re.IGNORECASE)
_PARQUET = re.compile(r"\.(parquet|pq)$", re.IGNORECASE)
_ADDRESS = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]+://")


class UnreadableFileError(CepError, ValueError):
    """The file exists but is not a table of the kind that its name says."""


class TableNotFoundError(CepError, FileNotFoundError):
    """No file has this name."""


def table_files(names: Sequence[str]) -> list[str]:
    """Return the files for the names on the command line."""
    files = [file for name in names for file in _files_of(name)]
    if len({_is_parquet(file) for file in files}) > 1:
        raise UnreadableFileError(
            f"{files[0]!r} and the other files are not of the same kind; give only Parquet or none of it"
        )
    return files


def original_file(name: str) -> str:
    """Return the file in an original format for a name on the command line of ``cepkit ingest``."""
    if name in _SAMPLES:
        texts = ", ".join(SAMPLE + other for other in sample_names() if SAMPLE + other not in _SAMPLES)
        raise UnreadableFileError(
            f"{name} is a table and needs no `cepkit ingest`: `cepkit match {name} …` reads it. "
            f"Samples in original formats: {texts}"
        )
    return str(sample(name.removeprefix(SAMPLE))) if name.startswith(SAMPLE) else name


def read_pandas(
    files: Sequence[str], times: Sequence[str] = (), reading: Reading | None = None
) -> tuple[pd.DataFrame, list[str]]:
    """Return the rows of the files, one file after the other, and notes on the reading."""
    reading = reading or Reading()
    with show_progress("reading"):
        frames = [_read_one(file, reading) for file in files]
    for file, frame in zip(files[1:], frames[1:], strict=True):
        _same_columns(files[0], frames[0].columns, file, frame.columns)
    frame = frames[0] if len(frames) == 1 else pd.concat(frames, ignore_index=True)
    notes = [*dict.fromkeys(reading.notes)]
    for name in times:
        if _is_parquet(files[0]):
            break  # its columns have types
        if name in frame.columns and pd.api.types.infer_dtype(frame[name], skipna=True) == "string":
            frame[name], note = _as_time(frame[name])
            notes.append(f"column {name!r} {note}")
    return frame, notes


def read_spark(
    spark: SparkSession, files: Sequence[str], times: Sequence[str], reading: Reading
) -> tuple[DataFrame, list[str]]:
    """Return the rows of the files as a Spark frame, and notes on the reading; see `read_pandas`."""
    if _is_parquet(files[0]):
        return spark.read.parquet(*files), []
    if others := [file for file in files if not _is_csv(file)]:
        raise UnreadableFileError(f"{others[0]!r}: --engine spark reads CSV and Parquet only; leave it out")
    separator = reading.delimiter or ("\t" if ".tsv" in files[0].lower() else ",")
    encoding = reading.encoding or "utf-8"
    # As in pandas, the type of times has a zone only when the text has one.
    with setting(spark, "spark.sql.timestampType", "TIMESTAMP_NTZ"):
        frame = spark.read.csv(list(files), header=True, inferSchema=True, sep=separator, encoding=encoding)
    texts = [name for name, kind in frame.dtypes if kind == "string" and name in times]
    return frame, [f"column {name!r} is text for Spark and is sorted as text" for name in texts]


@dataclass(frozen=True)
class WrittenResult:
    """The place and the format of a written result."""

    path: Path | None  # none: stdout
    format: str  # ``table``, ``json``, ``jsonl``, ``csv`` or ``parquet``
    is_given: bool  # whether the user wants the whole result, and not only a look at its first rows

    @property
    def is_stdout(self) -> bool:
        """Whether the whole result goes to stdout."""
        return self.is_given and self.path is None

    def write(self, frame: pd.DataFrame) -> None:
        """Write a frame. A file is never incomplete."""
        if self.path is None:
            if self.format == "table":
                write_out(printable(_text_of(frame, self.format)))
            elif self.format != "parquet":
                write_out(_text_of(frame, self.format).encode())  # UTF-8, whatever the terminal shows
            elif not hasattr(sys.stdout, "buffer"):  # a captured stdout may have none
                raise UnwritableFileError("--format parquet: this stdout takes text only; use --out FILE")
            else:
                write_out(frame.to_parquet(None, index=False))
            return
        with replace_file(self.path) as part:
            if self.format == "parquet":
                frame.to_parquet(part, index=False)
            else:
                part.write_text(_text_of(frame, self.format), encoding="utf-8", newline="")


def output_of(name: str | None, format: str | None, inputs: Sequence[str]) -> WrittenResult:
    """Return where and how to write a result, after a check that it can be written."""
    if name in (None, "-"):
        is_given = name == "-" or format not in (None, "table")
        if is_given and sys.stdout is None:
            raise UnwritableFileError(
                "the standard output is closed, and the result cannot be written; use --out FILE"
            )
        if format == "parquet" and sys.stdout.isatty():
            raise UnwritableFileError("--format parquet: a terminal cannot show it; use --out FILE or a pipe")
        return WrittenResult(None, format or "table", is_given)
    path = Path(name)
    ending = _FORMAT_OF_ENDING.get(path.suffix.lower())
    if format is None and ending is None:
        raise UnwritableFileError(
            f"--out {name!r}: expected a name that ends in .parquet, .csv, .json or .jsonl, or a --format"
        )
    if os.path.isdir(path):
        raise UnwritableFileError(f"--out {name!r} is a folder; name a file in it")
    folder = file_to_write(path, f"--out {name!r}").parent
    if not folder.is_dir():
        raise UnwritableFileError(f"--out {name!r}: there is no folder {str(folder)!r}")
    if not os.access(folder, os.W_OK):
        raise UnwritableFileError(f"--out {name!r}: the folder {str(folder)!r} is not writable")
    if path.exists() and any(os.path.exists(file) and path.samefile(file) for file in inputs):
        raise UnwritableFileError(f"--out {name!r} is one of the input files; choose another name")
    written_format = format or str(ending)
    if written_format == "json" and ending == "jsonl":
        written_format = ending
    return WrittenResult(path, written_format, True)


_FORMAT_OF_ENDING = {
    ".parquet": "parquet", ".csv": "csv", ".json": "json", ".jsonl": "jsonl", ".txt": "table",
}  # fmt: skip


def _text_of(frame: pd.DataFrame, format: str) -> str:
    """Return a frame as text that ends with a line end."""
    if format == "csv":
        return frame.to_csv(index=False)
    if format == "table":
        return frame.to_string(index=False) + "\n"
    has_nanoseconds = any("[ns" in str(dtype) for dtype in frame.dtypes)
    text = frame.to_json(
        orient="records", lines=format == "jsonl", force_ascii=False, date_format="iso",
        date_unit="ns" if has_nanoseconds else "us",
    )  # fmt: skip
    return text if text.endswith("\n") else text + "\n"


def _files_of(name: str) -> list[str]:
    """Return the files that a name means: standard input, a sample, an address, a path or a pattern."""
    if name == STDIN:
        return [name]
    if name.startswith(SAMPLE):
        path = sample(name.removeprefix(SAMPLE))
        if name not in _SAMPLES:
            raise UnreadableFileError(
                f"{name!r} is a raw file and no table; make a table of it with `cepkit ingest`. "
                f"Samples that are tables: {', '.join(_SAMPLES)}"
            )
        return [str(path)]
    if _ADDRESS.match(name):
        return [name]
    if not name:
        raise TableNotFoundError("an empty text names no file; give the name of a file, or . for this folder")
    try:
        return _files_of_path(name, Path(name).expanduser())
    except RuntimeError:  # from `expanduser`
        raise TableNotFoundError(f"no file {name!r}: the home folder of its user is not known") from None
    except CepError:
        raise
    except OSError as error:
        raise TableNotFoundError(f"no file {name!r}: {reason_of(error)}") from None


def _files_of_path(name: str, path: Path) -> list[str]:
    """Return the files that a path or a pattern means. Raise if there is none."""
    if path.is_dir():
        return [str(_table_folder(path))]
    if path.is_file():
        return [str(path)]
    paths = sorted(glob.glob(str(path), recursive=True)) if glob.has_magic(name) else []
    if not paths:
        raise _not_found(name, path)
    files = [file for file in paths if os.path.isfile(file)]
    if not files:
        raise TableNotFoundError(
            f"no file matches {name!r}; only folders such as {paths[0]!r} match. Name a folder of Parquet "
            f"files, or files in the folders: {os.path.join(name, '*.csv')!r}"
        )
    return files


def _table_folder(path: Path) -> Path:
    folder = path / EVENTS if is_result(path) else path
    if next(folder.rglob("*.parquet"), None) is None:
        raise UnreadableFileError(f"the folder {str(path)!r} holds no Parquet file")
    return folder


def _not_found(name: str, path: Path) -> TableNotFoundError:
    """Return the error for a file that does not exist."""
    if glob.has_magic(name):
        return TableNotFoundError(f"no file matches {name!r}")
    if not path.parent.is_dir():
        return TableNotFoundError(f"no file {name!r}: there is no folder {str(path.parent)!r}")
    names = [entry.name for entry in path.parent.iterdir()]
    return TableNotFoundError(
        f"no file {name!r}.{nearest(path.name, names)} Bundled tables: {', '.join(_SAMPLES)}"
    )


def _is_csv(file: str) -> bool:
    return _CSV.search(file) is not None


def _is_parquet(file: str) -> bool:
    return _PARQUET.search(file) is not None or os.path.isdir(file)


def _read_one(file: str, reading: Reading) -> pd.DataFrame:
    """Return the frame of a file."""
    if _ADDRESS.match(file):
        raise UnreadableFileError(f"{file!r} is an address; only --engine spark can read it")
    reading.file = file
    try:
        if _is_parquet(file):
            return _read_parquet(file)
        if file != STDIN:
            modified = pd.Timestamp.fromtimestamp(os.path.getmtime(file))
            return read_text(file, reading, modified, is_csv=_is_csv(file))
        content = b"" if sys.stdin is None else sys.stdin.buffer.read()
        if content.startswith(b"PAR1"):
            return _read_parquet(io.BytesIO(content))
        return read_text(content, reading, pd.Timestamp.now(), is_csv=False)
    except MemoryError:
        raise
    except (EOFError, OSError, ValueError, pa.ArrowException, ImportError, CepError) as error:
        raise UnreadableFileError(f"cannot read {file!r}: {_first_line(error)}") from error
    except Exception as error:  # pandas and the packages for compressed files have no common error for damage
        reason = f"{type(error).__name__}: {_first_line(error)}"
        raise UnreadableFileError(f"cannot read {file!r}: the file is damaged ({reason})") from error


def _read_parquet(file: Any) -> pd.DataFrame:
    """Return the frame of a Parquet file. Raise for texts that are no valid UTF-8."""
    try:
        frame = pd.read_parquet(file)
    except pa.ArrowException:  # pandas 2 makes objects of texts at once
        from pyarrow.parquet import read_table

        check_texts_of_table(read_table(file))
        raise
    check_texts_of_frame(frame)
    return frame


def _same_columns(file: str, columns: pd.Index, other: str, others: pd.Index) -> None:
    """Raise if two files have different columns."""
    missing = [name for name in columns if name not in others]
    more = [name for name in others if name not in columns]
    if missing or more:
        raise UnreadableFileError(
            f"{other!r} has other columns than {file!r}: {missing} missing, {more} more; all files need the "
            "same columns"
        )


def _as_time(texts: pd.Series) -> tuple[pd.Series, str]:
    """Return the texts as times, or unchanged when they share no format of times, and a note about it."""
    for keywords in ({}, {"utc": True}, {"dayfirst": True}):
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                times = pd.to_datetime(texts, **keywords)
        except (ValueError, TypeError, OverflowError):
            continue
        if any("infer" in str(warning.message) for warning in caught):
            continue
        if pd.api.types.is_datetime64_any_dtype(times):
            present = times.dropna()
            return times, f"is read as time: {texts[present.index[0]]!r} is {present.iloc[0]}"
    return (texts, "is no time (the first value has no known format, or others differ); it is sorted as text")


def _first_line(error: BaseException) -> str:
    return str(error).strip().split("\n")[0] or type(error).__name__


# Stubs of frames with ``cep``, for type checkers and editors that do not run Python.
#
# No stub can add an attribute to a class of another library. But pyright, and with it Pylance in VS Code,
# reads the folder ``typings`` of a project first. A copy of the file that defines a frame's class has the
# attribute.

# The modules that define the classes of frames, and the classes in them.
CLASSES = {
    "pandas.core.frame": "DataFrame",
    "polars.dataframe.frame": "DataFrame",
    "polars.lazyframe.frame": "LazyFrame",
    "pyspark.sql.dataframe": "DataFrame",
}
_IMPORTED = "from cepkit.accessor import CepAccessor as _CepAccessor"
_ATTRIBUTE = "    @property\n    def cep(self) -> _CepAccessor: ..."


def write_stubs(folder: Path) -> list[Path]:
    """Write the stubs of the frames that are installed, and return their paths."""
    written = []
    for module, name in CLASSES.items():
        if (source := _source_of(module)) is None:
            continue
        package = folder / module.partition(".")[0]
        if (package / "__init__.pyi").exists():
            raise CepError(f"{package} has stubs of its own; add the attribute 'cep' there")
        path = folder.joinpath(*module.split(".")).with_suffix(".pyi")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(with_accessor(source.read_text("utf-8"), name), "utf-8")
        written.append(path)
    return written


def _source_of(module: str) -> Path | None:
    """Return the file that type checkers read for a module: in a package of stubs, or the module's own."""
    package, *inner = module.split(".")
    for name, suffix in ((f"{package}-stubs", ".pyi"), (package, ".pyi"), (package, ".py")):
        spec = importlib.util.find_spec(name)
        for folder in (spec.submodule_search_locations or ()) if spec else ():
            if (path := Path(folder, *inner).with_suffix(suffix)).exists():
                return path
    return None


def with_accessor(source: str, name: str) -> str:
    """Return the text of a module in which a class has the attribute ``cep``, after its docstring."""
    lines = source.splitlines()
    nodes = ast.parse(source).body
    (node,) = (node for node in nodes if isinstance(node, ast.ClassDef) and node.name == name)
    first = node.body[0]
    is_docstring = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    inside = first.end_lineno if is_docstring else first.lineno - 1
    before = min(part.lineno for part in (node, *node.decorator_list)) - 1
    return "\n".join([*lines[:before], _IMPORTED, *lines[before:inside], _ATTRIBUTE, *lines[inside:], ""])
