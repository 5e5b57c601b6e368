"""What a user takes out of an explorer: files, pictures, a page, the Python call, the command line."""

from __future__ import annotations

import ast
import html
import re
import shlex
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from cepkit.errors import CepError
from cepkit.events import TIME, ColumnType
from cepkit.explorer.board import Board
from cepkit.explorer.presenter import Presenter
from cepkit.explorer.running.texts import columns_of
from cepkit.explorer.text import EXCLUSIVE, TextReading, is_rows, is_sase
from cepkit.frames.pandas import as_pandas
from cepkit.frames.writing import file_of
from cepkit.insight.why_not import cell
from cepkit.language.cheat_sheet import say_query
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.durations import count_text, counted
from cepkit.language.expressions.printing import print_expression
from cepkit.language.sequences.printing import duration_text
from cepkit.plots import theme
from cepkit.plots.drawing import Picture, png, size_of, without_controls
from cepkit.values import dataclass

_NAME = re.compile(r"[^\W\d]\w*")
_LISTS = ("partition_by", "order_by", "evaluation_order")
_WORDS = ("event_type", "strategy", "scope", "after_match", "keep")


@dataclass(frozen=True)
class Commanded:
    """The command line of a query: ``line``, or ``reason`` if there is none, and a ``note`` on its file."""

    line: str
    reason: str = ""
    note: str = ""


def command_or_reason(
    reading: TextReading | None, call: Mapping[str, Any], file: tuple[str, bool],
    schema: Mapping[str, ColumnType], *, is_spark: bool = False,
) -> Commanded:  # fmt: skip
    """Return the command line of a query, or the reason why it has none; ``file`` is of `file_of_frame`."""
    if reading is None or reading.query is None:
        return Commanded("", "write a query without mistakes first")
    path, is_known = file
    note = "" if is_known else f"{path} is a placeholder for the file of your data"
    try:
        line = command_of(reading, call, path, schema)
    except CepError as error:
        return Commanded("", str(error))
    return Commanded(line + (" --engine spark" if is_spark else ""), "", note)


def command_of(
    reading: TextReading, call: Mapping[str, Any], file: str, schema: Mapping[str, ColumnType] | None = None
) -> str:
    r"""Return the command line that runs the query of a text on a file."""
    words = ["cepkit", "match", file, *_query_words(reading, dict(call), schema or {})]
    return " ".join(map(shlex.quote, words))


def _parts(
    reading: TextReading, call: Mapping[str, Any]
) -> tuple[str, list[tuple[str, Any]], dict[str, Any]]:
    """Return the pattern, the predicates by name, and the other keywords of a text with a call."""
    text, keywords = reading.text, {name: value for name, value in call.items() if value is not None}
    if is_rows(text) or is_sase(text):
        return text.strip(), [], keywords
    pieces = [(piece.name, text[piece.start : piece.stop]) for piece in reading.pieces]
    pattern = next(words.strip() for name, words in pieces if name is None)
    define = {name: words for name, words in pieces if name not in (None, "within")}
    define |= keywords.pop("define", None) or {}
    for words in (words for name, words in pieces if name == "within"):
        amount = EXCLUSIVE.sub("", words).strip().strip("'\"")
        window = {"within": int(amount) if amount.isascii() and amount.isdecimal() else amount}
        keywords = {**window, **({"within_closed": False} if EXCLUSIVE.search(words) else {}), **keywords}
    return pattern, list(define.items()), keywords


def _query_words(
    reading: TextReading, call: dict[str, Any], schema: Mapping[str, ColumnType]
) -> Iterator[str]:
    """Yield the pattern and the options."""
    pattern, define, call = _parts(reading, call)
    yield pattern
    for name, value in define:
        yield from _named("--define", "predicate", name, value)
    if (within := call.pop("within", None)) is not None:
        yield from _option("--within", _window(within, call.get("order_by"), schema))
    if not call.pop("within_closed", True):
        yield "--within-exclusive"
    if call.pop("strict_time", False):
        yield "--strict-time"
    for name, value in call.items():
        yield from _keyword(name, value)


def _keyword(name: str, value: Any) -> Iterator[str]:
    """Yield the options of the command line for a keyword of a call."""
    option = f"--{name.replace('_', '-')}"
    if name in _LISTS:
        for column in [value] if isinstance(value, str) else value:
            if "," in column or column != column.strip():
                raise CepError(f"{name}: a command line cannot name the column {column!r}; rename it")
        yield from _option(option, value if isinstance(value, str) else ",".join(value))
    elif name in _WORDS:
        yield from _option(option, value)
    elif name == "measures":
        for key, measure in value.items():
            yield from _named("--measure", "measure", key, measure)
    elif name == "params":
        for key, param in value.items():
            yield from _option("--param", f"{key}={_value_text(key, param)}")
    elif name != "engine":
        raise CepError(f"{name}: a command line has no option for it")


def _option(name: str, value: str) -> Sequence[str]:
    return [f"{name}={value}"] if value.startswith("-") else [name, value]


def _named(option: str, noun: str, name: str, value: Any) -> Sequence[str]:
    """Return the option for a value with a name, such as ``--define p=x > 1``."""
    if isinstance(value, ex.Expression):
        value = print_expression(value)
    if not isinstance(value, str):
        raise CepError(
            f"the {noun} {name!r} is a Python function; a command line takes only text. Use the Python cell"
        )
    if not _NAME.fullmatch(name):
        raise CepError(f"the {noun} {name!r} has a name that a command line cannot have; rename it")
    return _option(option, f"{name}={value.strip()}")


def _window(within: Any, order_by: Any, schema: Mapping[str, ColumnType]) -> str:
    """Return a window with its unit; a plain number has the unit of the clock."""
    text = duration_text(within)
    clock = schema.get(order_by if isinstance(order_by, str) else next(iter(order_by or ()), ""))
    is_time = clock is not None and clock.kind == TIME and clock.unit is not None
    return f"{text} {clock.unit}" if is_time and text.isdecimal() else text


def _value_text(name: str, value: Any) -> str:
    """Return the value of a parameter as text that the command line reads as the same value."""
    if isinstance(value, bool | int | float):
        return str(value)
    if isinstance(value, str) and "\n" not in value:
        quote = "'" if not value.endswith("'") else '"'
        return f"{quote}{value}{quote}"
    raise CepError(f"params: a command line cannot pass {name!r}, which is of type {type(value).__name__}")


# --- the file of a frame

_READERS = {"read_parquet", "read_csv", "load_sample"}
_HARMLESS = {"parse_dates", "dtype_backend", "engine"}  # keywords that change neither rows nor values
_IN_PLACE = {"insert", "pop", "update"}  # methods that change the frame


def file_of_frame(frame: Any, name: str) -> tuple[str, bool]:
    """Return the file of a frame, and whether it is known; otherwise the file is a placeholder."""
    space = _names_of_user()
    read = file_in_cells(space.get("In", []), name) if space.get(name) is frame else None
    return (f"{name}.parquet", False) if read is None else (read, True)


def file_in_cells(cells: Sequence[str], name: str) -> str | None:
    r"""Return the file that the cells read into a variable; None when they may have changed it afterwards."""
    read: str | None = None
    for source in cells:
        if not re.search(rf"(?<!\w){re.escape(name)}(?!\w)", source):
            continue
        try:
            tree = ast.parse(source)
        except SyntaxError:  # magics of IPython
            return None
        assigned: list[ast.AST] = []  # names that a statement of the cell assigns to
        for node in ast.walk(tree):
            targets = [target for target in getattr(node, "targets", ()) if _is_name(target, name)]
            if targets and isinstance(node, ast.Assign) and node in tree.body:
                read = _file_of_call(node.value)
                assigned += targets
            elif node not in assigned and _may_change(node, name):
                read = None
    return read


def _is_name(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _file_of_call(node: ast.expr) -> str | None:
    """Return the file that a call such as ``pd.read_csv("x.csv")`` reads, or None."""
    if not isinstance(node, ast.Call) or len(node.args) != 1 or not isinstance(node.args[0], ast.Constant):
        return None
    reader = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    file, keywords = node.args[0].value, {keyword.arg for keyword in node.keywords}
    if reader not in _READERS or not keywords <= _HARMLESS or not isinstance(file, str):
        return None
    return f"sample:{file}" if reader == "load_sample" else file


def _may_change(node: ast.AST, name: str) -> bool:
    """Return whether a part of a cell may change the variable in place or assign to it otherwise."""
    if isinstance(node, ast.Call):
        is_method = isinstance(node.func, ast.Attribute) and _is_name(node.func.value, name)
        is_in_place = is_method and node.func.attr in _IN_PLACE
        return is_in_place or (is_method and any(keyword.arg == "inplace" for keyword in node.keywords))
    if isinstance(node, ast.Attribute | ast.Subscript):
        is_store = isinstance(node.ctx, ast.Store | ast.Del)
        root: ast.AST = node
        while isinstance(root, ast.Attribute | ast.Subscript):
            root = root.value
        return is_store and _is_name(root, name)
    return _is_name(node, name) and isinstance(node.ctx, ast.Store | ast.Del)


# The Python call that an explorer shows, as a cell to copy.


def code_of(reading: TextReading, call: Mapping[str, Any], name: str = "df") -> str:
    r"""Return Python that runs the query of a text: ``matches = df.cep.match(…)``."""
    pattern, define, call = _parts(reading, call)
    lines = [_quote(pattern)]
    if define:
        entries = "".join(f"        {_quote(key)}: {_spell(value)},\n" for key, value in define)
        lines.append(f"define={{\n{entries}    }}")
    lines += [f"{key}={_spell(value)}" for key, value in call.items()]
    return f"matches = {name}.cep.match(\n" + "".join(f"    {line},\n" for line in lines) + ")"


def _quote(text: str) -> str:
    """Return a text in double quotes, or in triple quotes if it has several lines."""
    lines = text.split("\n")
    is_plain = all(map(str.isprintable, lines)) and "\\" not in text and not text.endswith('"')
    if len(lines) > 1 and is_plain and '"""' not in text:
        return f'"""\n{text}"""'
    return '"' + "".join(map(_spell_character, text)) + '"'


def _spell_character(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    return character if character.isprintable() else repr(character)[1:-1]


def _spell(value: Any) -> str:
    """Return a value as Python code."""
    if isinstance(value, str):
        return _quote(value)
    if isinstance(value, ex.Expression):
        return _quote(print_expression(value))
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_spell(key)}: {_spell(part)}" for key, part in value.items()) + "}"
    if isinstance(value, list | tuple) and all(isinstance(part, str) for part in value):
        return "[" + ", ".join(map(_spell, value)) + "]" if len(value) != 1 else _spell(value[0])
    if callable(value) and hasattr(value, "__name__"):
        return value.__name__
    return repr(value)


def name_of_frame(frame: Any) -> str:
    """Return the name of a frame in the notebook, or ``df`` if it has none."""
    names = _names_of_user().items()
    return next((name for name, value in names if value is frame and not name.startswith("_")), "df")


def _names_of_user() -> dict[str, Any]:
    shell = sys.modules.get("IPython")
    return getattr(shell and shell.get_ipython(), "user_ns", {})


# A stand-alone page of an explorer: one HTML file with its style and pictures in it.

_STYLE = """
:root { color-scheme: light dark; --ink: #1f2328; --soft: #59636e; --line: #d1d9e0; --paper: #fff;
  --tint: #f6f8fa; --good: #00734f; --bad: #b8420a; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --soft: #9198a1; --line: #3d444d;
  --paper: #111; --tint: #1b1f24; --good: #3ccf9e; --bad: #ff9b6b; } }
* { box-sizing: border-box; }
body { max-width: 860px; margin: 0 auto; padding: 32px 24px 48px; background: var(--paper); color: var(--ink);
  --jp-content-font-color1: var(--ink); font: 15px/1.5 system-ui, "Segoe UI", "DejaVu Sans", sans-serif; }
h1 { margin: 0 0 4px; font-size: 22px; line-height: 1.3; }
h2 { margin: 28px 0 8px; font-size: 15px; }
p { margin: 0 0 8px; }
.soft { color: var(--soft); }
figure { overflow-x: auto; margin: 16px 0 0; }
figure svg { display: block; width: 100%; height: auto; }
pre { overflow-x: auto; margin: 0; padding: 12px 14px; border: 1px solid var(--line); border-radius: 6px;
  background: var(--tint); font: 13px/1.5 ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums; }
th, td { padding: 4px 14px 4px 0; border-bottom: 1px solid var(--line); text-align: left;
  white-space: nowrap; }
th { font-weight: 600; }
.right { text-align: right; }
ul { margin: 0; padding: 0; list-style: none; }
.kept { color: var(--good); }
.lost { color: var(--bad); }
"""
# The page loads nothing: the policy forbids scripts and all addresses except the pictures in it.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def page_html(
    sentence: str, facts: Sequence[str], pictures: Sequence[str], sections: Mapping[str, str]
) -> str:
    """Return the text of a page that opens without a network and without scripts."""
    body = [
        f"<h1>{_escape(sentence[:1].upper() + sentence[1:])}</h1>",
        f'<p class="soft">{_escape(" · ".join(filter(None, facts)))}</p>',
        *(f"<figure>{picture}</figure>" for picture in pictures),
        *(f"<h2>{title}</h2>\n{content}" for title, content in sections.items() if content),
    ]
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{_escape(sentence.split(';')[0])}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        + "\n".join(body)
        + "\n</body>\n</html>\n"
    )


def _escape(text: str) -> str:
    return html.escape(without_controls(text), quote=False)


def _code(text: str) -> str:
    return f"<pre>{_escape(text)}</pre>"


def _table(frame: pd.DataFrame, told: str) -> str:
    """Return a frame as a table of HTML."""
    if not len(frame):
        return "<p>No matches.</p>"
    sides = [' class="right"' if column["align"] == "right" else "" for column in columns_of(frame)]
    names = zip(sides, frame.columns, strict=True)
    head = "".join(f"<th{side}>{_escape(str(name))}</th>" for side, name in names)
    rows = (
        "".join(f"<td{side}>{_escape(text)}</td>" for side, text in zip(sides, row, strict=True))
        for row in zip(*([cell(value) for value in frame[name]] for name in frame.columns), strict=True)
    )
    body = "\n".join(f"<tr>{row}</tr>" for row in rows)
    note = f'<p class="soft">{_escape(told)}</p>' if told else ""
    return f'<div class="wide"><table>\n<tr>{head}</tr>\n{body}\n</table></div>{note}'


def _cases(cases: Sequence[tuple[str, bool | None]]) -> str:
    """Return the kept cases in words, each with whether it holds."""
    marks = {True: '<b class="kept">✓</b>', False: '<b class="lost">✗</b>', None: "<b>?</b>"}
    items = "\n".join(f"<li>{marks[is_held]} {_escape(text)}</li>" for text, is_held in cases)
    return f"<ul>\n{items}\n</ul>" if items else ""


# What a user takes out of an explorer: matches as files, pictures, a page, a Python cell, a command line.

MOST_ROWS = 500_000  # rows in a downloaded file
MOST_ON_PAGE = 50  # matches in the table of a page
OF_PAGE = ("partition_by", "order_by", "event_type", "strategy")  # choices that a page names
_SCALE, _MARGIN = 2.0, 20
CSV, PARQUET, PNG, SVG, HTML, CELL, LINE = "csv", "parquet", "png", "svg", "html", "cell", "line"
ALL_CSV, ALL_PARQUET = "all csv", "all parquet"  # without the filters of the table; only while it has some
_TABLES = {CSV: CSV, PARQUET: PARQUET, ALL_CSV: CSV, ALL_PARQUET: PARQUET}  # the formats
_TITLES = {
    CSV: "CSV", PARQUET: "Parquet", ALL_CSV: "CSV, all", ALL_PARQUET: "Parquet, all", PNG: "PNG", SVG: "SVG",
    HTML: "HTML", CELL: "Python", LINE: "Shell",
}  # fmt: skip
_NOTES = {
    PNG: "The picture of query, automaton, timeline and table as PNG",
    SVG: "The picture of query, automaton, timeline and table as SVG",
    HTML: "One page that opens without a network: picture, sentence, query, first matches and code",
    CELL: "Copy the Python cell that finds these matches",
    LINE: "Copy the command line that finds these matches",
}


class Parcel(NamedTuple):
    file: str
    mime: str
    content: bytes
    note: str = ""


class Taker:
    """Makes the files of an explorer and answers the buttons of its board."""

    def __init__(
        self, board: Board, present: Presenter, command: Callable[[], Commanded],
        cases: Callable[[], list[tuple[str, bool | None]]],
    ):  # fmt: skip
        self._board, self._present = board, present
        self._command, self._cases = command, cases
        present.shown.when_counted.append(lambda result: self.offer())
        board.observe(board.take, "wanted", lambda wish: wish and self._fulfil(wish))
        board.table.observe(lambda _: self.offer(), "filtered")
        self.offer()

    # --- files

    def picture(self) -> Picture:
        """Return query, automaton, timeline and table as SVG text with a margin."""
        svg = self._board.still()
        width, height = (length + 2 * _MARGIN for length in size_of(svg))
        inner = svg.replace("<svg ", f'<svg x="{_MARGIN}" y="{_MARGIN}" ', 1)
        return Picture(
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" '
            f'viewBox="0 0 {width:g} {height:g}"><rect width="100%" height="100%" fill="{theme.PAPER}"/>'
            f"{inner}</svg>"
        )

    def png(self) -> bytes:
        return png(self.picture(), _SCALE, is_small=False)

    def page(self) -> str:
        """Return the text of a stand-alone HTML page."""
        board, shown = self._board, self._present.shown
        result, matches, command = shown.result_for("to_html"), shown.matches, self._command()
        n, frame = matches.count(), as_pandas(matches.head(MOST_ON_PAGE))
        note = f"The first {len(frame)} of {count_text(n)} matches." if n > len(frame) else ""
        fields = [field for field in board.bar.fields if field["name"] in OF_PAGE and field["chosen"]]
        chosen = (f"{field['label']}: {', '.join(field['chosen'])}" for field in fields)
        key = board.bar.key_text
        lines = filter(None, [command.note and f"# {command.note}", command.line])
        sections = {
            "Matches": _table(frame, note),
            "Query": _code(board.editor.text),
            "Kept cases": _cases(self._cases()),
            "Python": _code(board.code),
            "Command line": _code("\n".join(lines) or f"# {command.reason}"),
        }
        rows = f"{result.data.source.n_rows:,} rows"
        facts = [_found_text(n), rows, *chosen, key and f"drawn: {key}"]
        pictures = [widget._still() for widget in (board.timeline, board.nfa)]
        return page_html(say_query(result.program.query), facts, pictures, sections)

    def parcel(self, what: str) -> Parcel:
        """Return a file that the user may take, such as a picture or a table."""
        if what == PNG:
            return Parcel("matches.png", "image/png", self.png())
        if what == SVG:
            return Parcel("matches.svg", "image/svg+xml", self.picture().encode())
        if what == HTML:
            return Parcel("matches.html", "text/html", self.page().encode())
        if what not in _TABLES:
            raise CepError(f"{what!r} is no file; known: {[*_TABLES, PNG, SVG, HTML]}")
        frame, name, note = self._rows(is_filtered=what in (CSV, PARQUET))
        if _TABLES[what] == CSV:
            return Parcel(f"{name}.csv", "text/csv", frame.to_csv(index=False).encode(), note)
        content = frame.to_parquet(None, index=False)
        return Parcel(f"{name}.parquet", "application/vnd.apache.parquet", content, note)

    def _rows(self, *, is_filtered: bool) -> tuple[pd.DataFrame, str, str]:
        """Return the matches, those that pass the filters or all, a name for their file, and a note."""
        shown = self._present.shown
        if shown.matches is None:
            raise CepError("no matches are found yet; write a query first")
        matches = shown.matches
        kept = self._kept_numbers() if is_filtered else None
        if kept is not None:
            part = kept[:MOST_ROWS]
            note = "" if len(part) == len(kept) else f"The file has the first {MOST_ROWS:,} of {len(kept):,}"
            listing = shown.result.pages.listing
            first = "" if listing.is_whole else "first-"
            name = f"{len(part)}-of-{first}{listing.n}-matches"
            return as_pandas(matches.take(part.tolist())), name, note
        n = matches.count()
        if n <= MOST_ROWS:
            return as_pandas(matches.to_frame(limit=None)), "matches", ""
        in_memory = matches._found.is_in_memory
        part = matches[:MOST_ROWS].to_frame(limit=None) if in_memory else matches.head(MOST_ROWS)
        frame = as_pandas(part)
        return frame, f"first-{len(frame)}-matches", _limit_note(n)

    def _kept_numbers(self) -> np.ndarray | None:
        """Return the numbers of the matches that pass the filters of the table; None without filters."""
        if not self._board.table.filtered:
            return None
        return self._present.shown.result.pages.listing.keep(self._present.table.filters).numbers

    # --- buttons

    def offer(self) -> None:
        """Show the buttons for the newest result and the newest text."""
        board, result = self._board, self._present.shown.result
        n = None if result is None else self._present.shown.matches.count()
        unknown = "No matches are counted yet" if n is None else ""
        command, code = self._command(), board.code
        filtered = "" if n is None else board.table.filtered
        warning = "" if n is None or n <= MOST_ROWS else _limit_note(n)
        summary = "" if n is None else _found_text(n)
        notes, remarks = dict(_NOTES), {LINE: command.note}
        for name, format in _TABLES.items():
            of_all = warning or f"Download {summary} as {_TITLES[format]}"
            is_part = filtered and name == format
            notes[name] = f"Download {filtered} as {_TITLES[format]}" if is_part else of_all
            remarks[name] = "" if is_part else warning
        copies = {CELL: code, LINE: command.line}
        locked = dict.fromkeys((*_TABLES, HTML), unknown)
        locked |= {CELL: "" if code else "Write a query first", LINE: "" if command.line else command.reason}
        items = [
            {
                "id": name, "title": title, "note": notes[name], "told": remarks.get(name, ""),
                "copies": copies.get(name, ""), "locked": locked.get(name, ""),
            }
            for name, title in _TITLES.items()
            if filtered or name not in (ALL_CSV, ALL_PARQUET)
        ]  # fmt: skip
        board.set(board.take, {"items": items, "told": filtered or summary})

    def _fulfil(self, wish: dict[str, Any]) -> None:
        threading.Thread(target=self._send, args=(wish,), name="cepkit takes", daemon=True).start()

    def _send(self, wish: dict[str, Any]) -> None:
        """Send a file to the browser, or say why not."""
        answer = {"by": wish.get("by"), "n": wish.get("n")}
        try:
            parcel = self.parcel(wish["id"])
        except Exception as error:  # the browser waits for an answer
            self._board.take.send({**answer, "error": str(error).split("\n")[0] or type(error).__name__})
            return
        size = {"file": parcel.file, "mime": parcel.mime, "note": parcel.note}
        self._board.take.send({**answer, **size}, buffers=[parcel.content])


def _found_text(n: int) -> str:
    return counted(n, "match") if n < 10**15 else f"{count_text(n)} matches"


def _limit_note(n: int) -> str:
    whole = "to_frame(limit=None)" if n <= 10**8 else "chunks()"
    part = f"The file has the first {MOST_ROWS:,} of {count_text(n)} matches"
    return f"{part}. In Python, explorer.matches.{whole} has all of them"


def write_file(path: str | Path, content: str | bytes) -> Path:
    """Write a file, and return its path."""
    path = file_of("explorer", path).expanduser()
    if not path.parent.is_dir():
        raise CepError(f"there is no folder {str(path.parent)!r}; make it first")
    if isinstance(content, str):
        path.write_text(content, encoding="utf-8")
    else:
        path.write_bytes(content)
    return path
