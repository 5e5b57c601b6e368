"""The command line ``cepkit match FILE PATTERN …``: it reads arguments and prints results."""

from __future__ import annotations

import argparse
import re
import shlex
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import pandas as pd

import cepkit
from cepkit.commands import INTERRUPTED, raise_at_ctrl_c
from cepkit.commands.files import end_stream, open_closed_streams, printable, said_of_stdout, tell
from cepkit.errors import CepError, CepWarning, nearest
from cepkit.language.expressions.durations import counted
from cepkit.language.match_recognize.parsing import parse_match_recognize
from cepkit.language.match_recognize.query import RowPatternQuery, SelectedRows, refuse_windows
from cepkit.language.query_parts import is_match_recognize
from cepkit.language.regex import RegexQuery
from cepkit.progress import show_progress

USER_ERROR = 2
MOST_WRITTEN = 10_000_000  # matches in a file
FORMATS = ("table", "json", "csv", "parquet")
_SHOWN = 10  # rows of a table unless --limit says otherwise
_NAME = re.compile(r"[^\W\d]\w*")

_MATCH_EXAMPLE = """example:
  cepkit match sample:trades ". rise+ drop+ rise+ drop* deep" \\
      --define "rise=price > first(price) and price >= prev(price)" \\
      --define "drop=price >= first(price) and price < prev(price)" \\
      --define "deep=price < first(price) and price < prev(price)" \\
      --partition-by symbol --order-by ts,seq --measure "rows=count()" --measure "top=max(price)"

A pattern is a regex over the names of --define and over boolean columns: blanks mean "then", '|' means "or",
'*' '+' '?' {n,m} are the usual repetitions, '.' is any row. In a predicate, first(x), max(x), count() … use
the rows of the match before the current row, and prev(x) uses the row before. In a measure they use the whole
match. A match is reported at its earliest end, with its earliest start. The search then continues after it.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # print ? for characters that the terminal lacks
    try:
        raise_at_ctrl_c()
        return _run(arguments)
    except KeyboardInterrupt:
        tell("cepkit: interrupted", error=True)
        return INTERRUPTED


def _run(arguments: Sequence[str] | None) -> int:
    """Run a command, and return its exit code."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.command is None:
        parser.print_help()
        return 0
    try:
        with _print_warnings():
            options.run(options)
        return 0
    except CepError as error:
        tell(f"cepkit {options.command}: {_as_options(str(error))}", error=True)
        return USER_ERROR
    except MemoryError:
        tell(f"cepkit {options.command}: the rows do not fit into memory; use --engine spark", error=True)
        return USER_ERROR
    except BrokenPipeError:  # the reader, such as `head`, has stopped
        end_stream(sys.stdout)
        return 0
    except Exception as error:
        if not type(error).__module__.startswith(("pyspark.", "py4j.")):
            raise  # a bug of cepkit needs the full traceback
        tell(f"cepkit {options.command}: Spark failed: {_first_line(error)}", error=True)
        return USER_ERROR
    except KeyboardInterrupt:
        tell(f"cepkit {options.command}: interrupted", error=True)
        return INTERRUPTED


def _first_line(error: Exception) -> str:
    """Return the first line of Spark's message, without pages of Java."""
    java = getattr(error, "java_exception", None)
    message = None if java is None else java.getMessage()
    return (message or str(error)).strip().splitlines()[0]


# --- the commands -------------------------------------------------------------------------------------------


def _match(given: argparse.Namespace) -> None:
    from cepkit.commands.files import output_of, table_files

    keywords, clause = _query_keywords(given)
    if clause is not None and given.rows != "one":
        raise CepError(
            "--rows: MATCH_RECOGNIZE says it in the query; write ALL ROWS PER MATCH before PATTERN"
        )
    files = table_files(given.files)
    output = output_of(given.out, given.format, files)
    began = time.perf_counter()
    frame, size = _read(given, files, keywords, clause)
    read = time.perf_counter()
    matches = frame.cep.match(given.pattern, **keywords)
    n_matches = n_rows = matches.count()
    first = partial(_first_rows, matches, given.rows)
    all_rows = partial(matches.to_frame, rows=given.rows, limit=None)
    if clause is not None:  # the result of a SELECT has rows of its own
        rows = matches.to_frame()
        is_pandas = isinstance(rows, pd.DataFrame)
        n_rows = len(rows) if is_pandas else rows.count()
        first = rows.head if is_pandas else rows.limit
        all_rows = lambda: rows  # noqa: E731
    limit = _SHOWN if given.limit is None else given.limit
    shown = _as_pandas(first(limit)) if limit and n_rows and not output.is_stdout else None
    done = time.perf_counter()
    pattern = matches.query.pattern if clause is None else clause.pattern
    in_result = "" if n_rows == n_matches else f"; {_counted(n_rows, 'row')} in the result"
    _say(f"{_counted(n_matches, 'match')} of {str(pattern)!r} in {size}{in_result}")
    if shown is not None:
        tell(shown.to_string(max_colwidth=60, index=given.rows == "one"))
        _say_more(matches, n_rows, given.rows, len(shown), limit)
    if not n_matches:
        _say("`cepkit explain` with the same arguments shows how cepkit read the query")
    _say(f"read in {read - began:.2f} s, matched in {done - read:.2f} s")
    if not output.is_given:
        return
    is_part = output.is_stdout and given.limit is not None
    n_written = min(n_rows, given.limit) if is_part else n_rows
    if n_written > MOST_WRITTEN:
        noun, cure = "matches", "Narrow the query with a shorter --within or --partition-by"
        if clause is not None:
            noun, cure = "rows", "Write LIMIT in the query"
        raise CepError(
            f"--out {given.out or '-'}: {n_rows:,} {noun} are too many for a file, which takes at most "
            f"{MOST_WRITTEN:,}. {cure}"
        )
    written = _as_pandas(first(given.limit) if is_part else all_rows())
    output.write(written)
    if not output.is_stdout:
        _say(f"{_counted(len(written), 'row')} written to {output.path}")


_REPLACED = (
    "define", "partition_by", "order_by", "measure", "event_type", "strategy", "after_match", "keep",
    "scope", "within", "within_exclusive", "strict_time", "evaluation_order",
)  # fmt: skip


def _say(line: str) -> None:
    """Print a line for the user on stderr, so that stdout has nothing but the table."""
    tell(line, error=True)


def _say_more(matches: Any, n_matches: int, rows: str, n_shown: int, limit: int) -> None:
    """Say how many matches or rows the table does not show."""
    if rows == "one":
        if n_matches > limit:
            ways = ""
            if n_matches <= MOST_WRITTEN:
                ways = f"; --limit {n_matches} prints all, --out FILE writes all"
            _say(f"… {n_matches - limit:,} more{ways}")
        return
    n_rows = _count_rows(matches)
    if n_rows is None and n_shown == limit:
        _say("… --out FILE writes all rows")
    elif n_rows is not None and n_rows > n_shown:
        _say(f"… {n_rows - n_shown:,} more rows; --out FILE writes all")


def _count_rows(matches: Any) -> int | None:
    """Return the number of rows of all matches; None on Spark, where counting them is a job of its own."""
    if not matches._found.is_in_memory:
        return None
    if isinstance(matches.query, RegexQuery):
        return int(matches._found.whole.first_item_of_match[-1])
    return int(sum(matches.aggregate(**{f"n_{v}": f"count({v})" for v in matches.query.variables})))


def _explain(given: argparse.Namespace) -> None:
    """Print how a query would run."""
    from cepkit.commands.files import table_files

    keywords, clause = _query_keywords(given)
    frame, _ = _read(given, table_files(given.files), keywords, clause)
    tell(frame.cep.explain(given.pattern, **keywords))


def _ingest(given: argparse.Namespace) -> None:
    """Make a table of raw files, and print what was left out."""
    from cepkit.commands.files import original_file
    from cepkit.pipelines import ingest

    options = _read_named("--option", given.option)
    reserved = {"source", "target", "format", "spark", "mode", "period"} & set(options)
    if reserved:
        raise CepError(
            f"--option {sorted(reserved)[0]!r} is not an option of a format; see cepkit ingest --help"
        )
    source = [original_file(name) for name in given.source]
    report = ingest(given.format, source, given.target, mode=given.mode, period=given.period, **options)
    tell(report)
    key, order = report.partition_by, ",".join(report.order_by)
    target = shlex.quote(given.target)
    tell(f"\nnext: cepkit match {target} PATTERN --partition-by {key} --order-by {order} …")


def _examples(given: argparse.Namespace) -> None:
    from cepkit.commands.demo import EXAMPLES

    for description, command in EXAMPLES:
        tell(f"# {description}\n{command}\n")


def _demo(given: argparse.Namespace) -> None:
    from cepkit.commands.demo import demo

    tell(demo())


def _warmup(given: argparse.Namespace) -> None:
    """Load or compile all kernels, and print the time of each."""
    from tqdm import tqdm

    from cepkit.cache import cache_folder
    from cepkit.commands.ship import count_steps, warmup

    began = time.perf_counter()
    with show_progress("kernels", count_steps(), takes_checkpoints=False) as bar:
        for name, seconds in warmup():
            if sys.stdout is not None:
                with said_of_stdout():
                    tqdm.write(f"{name:<12} {seconds:6.2f} s", file=sys.stdout)
            if bar is not None:
                bar(1)
    tell(f"done in {time.perf_counter() - began:.1f} s; the kernels are in {cache_folder()}")


# --- from arguments to frames -------------------------------------------------------------------------------


def _types(options: argparse.Namespace) -> None:
    """Write the files that type checkers read."""
    from cepkit.commands.files import write_stubs

    for path in write_stubs(Path(options.folder)):
        tell(str(path))
    tell("Run this again after an upgrade of pandas, polars or Spark.")


def _query_keywords(given: argparse.Namespace) -> tuple[dict[str, Any], RowPatternQuery | None]:
    """Return the keywords of ``df.cep.match``, and the clauses of a text of MATCH_RECOGNIZE."""
    # Raise for arguments in a wrong form, and for options that the clauses replace.
    params = {name: _value(text) for name, text in _read_named("--param", given.param).items()}
    until = None if given.complete_until is None else _value(given.complete_until)
    keywords = {
        "define": _read_named("--define", given.define) or None, "params": params or None,
        "partition_by": _column_names(given.partition_by) or None,
        "order_by": _column_names(given.order_by) or None,
        "measures": _read_named("--measure", given.measure) or None, "event_type": given.event_type,
        "strategy": given.strategy, "after_match": given.after_match, "keep": given.keep,
        "scope": given.scope or "run", "within": given.within, "within_closed": not given.within_exclusive,
        "strict_time": given.strict_time, "evaluation_order": _column_names(given.evaluation_order) or None,
        "complete_until": until,
    }  # fmt: skip
    if not is_match_recognize(given.pattern):
        return keywords, None
    if replaced := [f"--{name.replace('_', '-')}" for name in _REPLACED if getattr(given, name)]:
        raise CepError(f"{', '.join(replaced)}: MATCH_RECOGNIZE has clauses for this, and takes --param only")
    query = refuse_windows(parse_match_recognize(given.pattern), "the command line")
    taken = {name: keywords[name] for name in ("params", "complete_until") if keywords[name] is not None}
    return taken, query.rows if isinstance(query, SelectedRows) else query


def _within(text: str | None, frame: Any, order_by: Sequence[str] | None) -> str | int | None:
    """Return the window, as a number when it has no unit and the clock is a plain number."""
    kinds = {name: str(kind) for name, kind in dict(frame.dtypes).items()}  # for pandas and for Spark
    clock = kinds.get(order_by[0], "") if order_by else ""
    if text is not None and text.isdecimal() and len(text) < 20 and _PLAIN_NUMBER.match(clock):
        return int(text)
    return text


_PLAIN_NUMBER = re.compile(r"u?int|bigint|smallint|tinyint|float|double|decimal", re.IGNORECASE)


def _read(
    given: argparse.Namespace, files: list[str], keywords: dict[str, Any], clause: RowPatternQuery | None
) -> tuple[Any, str]:
    """Return the frame of the chosen engine, and its size and name in words; print notes."""
    # The window in the keywords becomes a number if the clock is a plain number.
    from cepkit.commands.files import STDIN, output_of, read_pandas, read_spark
    from cepkit.frames.writing import Reading

    named = given.files[0] if len(given.files) == 1 and len(files) == 1 else f"{len(files)} files"
    named = "the standard input" if named == STDIN else named
    # Files without types may have the clocks as text.
    times = [key.column for key in clause.order_by] if clause else _column_names(given.order_by)
    delimiter = {"\\t": "\t", "tab": "\t"}.get(given.delimiter, given.delimiter)
    reading = Reading(delimiter, given.encoding, given.decimal)
    quarantine = given.quarantine and output_of(given.quarantine, None, files)
    if given.engine == "pandas":
        frame, notes = read_pandas(files, times, reading)
        size = f"{_counted(len(frame), 'row')} of {named}"
    else:
        from cepkit.pipelines import spark_session

        # An error in a task is raised here as well. Spark's log would repeat it as pages of Java.
        session = spark_session(conf={"spark.log.level": "OFF"})
        frame, notes = read_spark(session, files, times, reading)
        size = f"{named} on Spark"  # counting the rows would be a separate job
    for note in notes:
        _say(f"note: {note}")
    if quarantine:
        quarantine.write(pd.DataFrame(reading.quarantine, columns=["file", "line", "reason", "text"]))
    if clause is None:
        keywords["within"] = _within(given.within, frame, keywords["order_by"])
    return frame, size


def _first_rows(matches: Any, rows: str, limit: int) -> Any:
    """Return the first rows of a result."""
    if rows == "one":
        return matches.head(limit)
    if matches._found.is_in_memory:
        return matches[:limit].to_frame(rows="all").head(limit)  # enough, as every match has a row
    return matches.to_frame(rows="all").limit(limit)


def _as_pandas(frame: Any) -> Any:
    """Return a Spark frame as a pandas frame of the same types, or a pandas frame unchanged."""
    if isinstance(frame, pd.DataFrame):
        return frame
    return frame.toArrow().to_pandas(types_mapper=pd.ArrowDtype)


def _as_options(message: str) -> str:
    """Return a message with Python's keywords as options: ``within='5 s'`` becomes ``--within '5 s'``."""
    names = "event_type|order_by|partition_by|within|strategy|scope|after_match|keep"
    return re.sub(
        rf"\b({names})=('[^']*')", lambda option: f"--{option[1].replace('_', '-')} {option[2]}", message
    )


def _read_named(option: str, texts: Sequence[str]) -> dict[str, str]:
    """Return the texts of ``NAME=TEXT`` arguments by name."""
    text_of_name: dict[str, str] = {}
    for text in texts:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not _NAME.fullmatch(name) or not value or value.startswith("="):
            raise CepError(f"{option} {text!r}: expected NAME=…, as in {option} {_EXAMPLES[option]!r}")
        if name in text_of_name:
            raise CepError(f"{option}: {name!r} is given twice")
        text_of_name[name] = value
    return text_of_name


_EXAMPLES = {
    "--define": "rise=price > prev(price)",
    "--measure": "top=max(price)",
    "--param": "limit=0.5",
    "--option": "date=2000-01-03",
}


def _column_names(texts: Sequence[str]) -> list[str]:
    """Return the column names of arguments such as ``symbol`` and ``ts,seq``."""
    return [name.strip() for text in texts for name in text.split(",") if name.strip()]


def _value(text: str) -> int | float | bool | str:
    """Return the value of a parameter's text: a number, true or false, else the text without quotes."""
    for read in (int, float):
        try:
            return read(text)
        except ValueError:
            continue
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    quoted = re.fullmatch(r"(['\"])(.*)\1", text)
    return quoted[2] if quoted else text


def _counted(n: int, noun: str) -> str:
    return f"no {noun}" if n == 0 else counted(n, noun)


@contextmanager
def _print_warnings() -> Iterator[None]:
    """Print the warnings of cepkit in one line each, and hide the warnings of other packages."""

    def show(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        if issubclass(category, CepWarning):
            tell(f"warning: {message}", error=True)

    with warnings.catch_warnings():
        warnings.simplefilter("default")
        warnings.showwarning = show
        yield


# --- the parser ---------------------------------------------------------------------------------------------


class _Parser(argparse.ArgumentParser):
    """A parser whose errors have two lines: the problem, and how to get help."""

    known: Sequence[str] = ()  # options to propose instead of a misspelt one

    def error(self, message: str) -> NoReturn:
        """Print a mistake of the command line with the nearest command, and exit."""
        unknown = re.match(
            r"(?:unrecognized arguments: |argument COMMAND: invalid choice: ')([^\s']+)", message
        )
        if unknown:
            message += nearest(unknown[1].split("=")[0], self.known)
        self.exit(
            USER_ERROR, f"{self.prog}: {printable(message)}\n`{self.prog} --help` shows how to use it\n"
        )


def _parser() -> _Parser:
    """Return the parser of the command line."""
    parser = _Parser(
        prog="cepkit",
        description="Find temporal patterns in event data. Begin with `cepkit demo` or `cepkit examples`.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"cepkit {cepkit.__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for name, (run, summary, add_arguments) in _COMMANDS.items():
        command = commands.add_parser(
            name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.",
            formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False,
        )  # fmt: skip
        add_arguments(command)
        command.set_defaults(run=run)
        parser.known = [*parser.known, name, *re.findall(r"--[a-z-]+", command.format_usage())]
    return parser


def _add_match(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `cepkit match`."""
    add = parser.add_argument
    _add_query(parser)
    add("--rows", choices=("one", "all"), default="one", help="one row per match, or all rows (default: one)")
    add(
        "--limit",
        type=_limit,
        metavar="N",
        help=f"print at most N rows (default: {_SHOWN} of a table, else all)",
    )
    add(
        "--out",
        metavar="FILE",
        help="write the whole result to FILE (.parquet, .csv, .json, .jsonl); '-': stdout",
    )
    add("--format", choices=FORMATS, help="table (default), json, csv or parquet; without --out: to stdout")


def _add_explain(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `cepkit explain`."""
    _add_match(parser)
    parser.epilog = (
        f"It takes all arguments of `cepkit match`; --rows, --limit, --out and --format change nothing.\n\n"
        f"{_MATCH_EXAMPLE.replace('cepkit match', 'cepkit explain')}"
    )


def _add_query(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    parser.epilog = _MATCH_EXAMPLE
    add(
        "files",
        nargs="+",
        metavar="FILE",
        help="Parquet, CSV, JSON Lines, JSON, Zeek, XES, logs of Apache, nginx and syslog, '-' for stdin, a"
        " folder of Parquet, a target of `cepkit ingest`, a pattern such as 'days/*.csv', or sample:trades,"
        " sample:tweets, sample:peaks; several are read one after the other",
    )
    add(
        "pattern",
        metavar="PATTERN",
        help="a regex over predicates, 'PATTERN SEQ(…) …', or SQL's MATCH_RECOGNIZE, also in a SELECT",
    )
    for option, metavar, text in (
        ("--define", "NAME=EXPR", "a predicate; may be repeated"),
        ("--partition-by", "COLUMN[,…]", "search the rows of each key separately"),
        ("--order-by", "COLUMN[,…]", "the order of events, the clock first; default: the order of the file"),
        ("--measure", "NAME=EXPR", "a result column; default: the first and last clock, and the count"),
        ("--param", "NAME=VALUE", "the value of :NAME in predicates and measures"),
    ):
        add(option, action="append", default=[], metavar=metavar, help=text)
    for option, metavar, text in (
        ("--event-type", "COLUMN", "column of event types; for event sequences"),
        ("--strategy", "NAME", "any (default), next, partition or strict; for event sequences"),
        (
            "--after-match",
            "POLICY",
            "where the next match may begin: past_last, to_last, to_next_row, to_first(b) …",
        ),
        ("--keep", "NAME", "shortest (default) or longest; for regexes"),
        (
            "--delimiter",
            "TEXT",
            "what divides the columns of a CSV, such as ';' or tab; default: by its header",
        ),
        ("--encoding", "NAME", "the encoding of a text, as in latin-1; default: utf-8"),
        ("--quarantine", "FILE", "write the lines that are no events to FILE (.csv, .parquet, .jsonl)"),
        ("--decimal", "MARK", "the decimal mark in a CSV, '.' or ','; default: by its first lines"),
        ("--scope", "NAME", "run (default) or edge; for event sequences with --strategy next"),
    ):
        add(option, metavar=metavar, help=text)
    add("--within", metavar="TIME", help="longest match, as in '5 min'; a plain number has the clock's unit")
    add("--within-exclusive", action="store_true", help="a match that lasts exactly --within does not count")
    add("--strict-time", action="store_true", help="successive events of a sequence differ in time")
    add(
        "--complete-until",
        metavar="TIME",
        help="the data have all events up to TIME, or 'end': an absence that ends later is undecided",
    )
    add(
        "--evaluation-order", action="append", default=[], metavar="NAME[,…]",
        help="all variables of a sequence in search order; it changes only the time of the search",
    )  # fmt: skip
    add("--engine", choices=("pandas", "spark"), default="pandas", help="the engine that reads and searches")


def _add_ingest(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `cepkit ingest`, with the options of all formats."""
    add = parser.add_argument
    from cepkit.pipelines import FORMATS

    lines = ["formats and their options:"]
    for name, file_format in FORMATS.items():
        lines.append(f"  {name:<16}{file_format.description}")
        lines += [
            f"    --option {option}=…  {details.description}"
            for option, details in file_format.options.items()
        ]
    parser.epilog = "\n".join([*lines, "", "example:", "  cepkit ingest inet sample:inet trades"])
    add("format", metavar="FORMAT", help=", ".join(FORMATS))
    add("source", nargs="+", metavar="SOURCE", help="files, folders, patterns, or a bundled sample:NAME")
    add("target", metavar="TARGET", help="a new or empty folder, or one with an earlier result")
    add("--mode", choices=("replace", "error"), default="replace", help="what to do with an earlier result")
    add("--period", choices=("day", "month", "year"), help="time per folder; default: by number of rows")
    add("--option", action="append", default=[], metavar="NAME=VALUE", help="an option of the format")


def _add_types(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "folder", nargs="?", default="typings", metavar="FOLDER", help="default: typings, which pyright reads"
    )


def _no_arguments(parser: argparse.ArgumentParser) -> None:
    pass


def _limit(text: str) -> int:
    if not text.isdecimal() or len(text) > 18:
        raise argparse.ArgumentTypeError(f"expected a number of rows, got {text!r}")
    return int(text)


_Command = tuple[Callable[[argparse.Namespace], None], str, Callable[[argparse.ArgumentParser], None]]
_COMMANDS: Mapping[str, _Command] = {
    "demo": (_demo, "show what cepkit does, in a few seconds", _no_arguments),
    "match": (_match, "find the matches of a pattern in files", _add_match),
    "explain": (_explain, "show how cepkit reads a pattern and would run it", _add_explain),
    "examples": (_examples, "list commands to copy, on the bundled samples", _no_arguments),
    "ingest": (
        _ingest,
        "convert original files to ordered Parquet, with a quality report (on Spark)",
        _add_ingest,
    ),
    "warmup": (_warmup, "compile bundled patterns and parallel engines for a quick first use", _no_arguments),
    "types": (_types, "write stubs, so that pyright and VS Code know df.cep", _add_types),
}

if __name__ == "__main__":
    sys.exit(main())
