"""The Python call and the command line that find the matches of an explorer."""

from __future__ import annotations

import ast
import re
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cepkit.errors import CepError
from cepkit.events import TIME, ColumnType
from cepkit.explorer.query.text import EXCLUSIVE, TextReading, is_rows, is_sase
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.printing import print_expression
from cepkit.language.sequences.printing import duration_text

# The command line that finds the matches of an explorer: ``cepkit match FILE PATTERN …``.

_NAME = re.compile(r"[^\W\d]\w*")
_LISTS = {
    "partition_by": "--partition-by",
    "order_by": "--order-by",
    "evaluation_order": "--evaluation-order",
}
_WORDS = {
    "event_type": "--event-type",
    "strategy": "--strategy",
    "scope": "--scope",
    "after_match": "--after-match",
}


@dataclass(frozen=True)
class Commanded:
    """The command line of a query: ``line``, or ``reason`` if there is none, and a ``note`` on its file."""

    line: str
    reason: str = ""
    note: str = ""


def command_or_reason(
    reading: TextReading | None,
    call: Mapping[str, Any],
    file: tuple[str, bool],
    schema: Mapping[str, ColumnType],
    *,
    is_spark: bool = False,
) -> Commanded:
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
    reading: TextReading,
    call: Mapping[str, Any],
    file: str,
    schema: Mapping[str, ColumnType] | None = None,
) -> str:
    r"""Return the command line that runs the query of a text on a file."""
    words = ["cepkit", "match", file, *_query_words(reading, dict(call), schema or {})]
    return " ".join(map(shlex.quote, words))


def _query_words(
    reading: TextReading, call: dict[str, Any], schema: Mapping[str, ColumnType]
) -> Iterator[str]:
    """Yield the pattern and the options."""
    text = reading.text
    pieces = [(piece.name, text[piece.start : piece.stop].strip()) for piece in reading.pieces]
    define = call.pop("define", None) or {}
    if is_rows(text) or is_sase(text):
        yield text.strip()
    else:
        yield next(words for name, words in pieces if name is None)
        for name, words in pieces:
            if name not in (None, "within"):
                yield from _option("--define", f"{name}={words}")
        for name, value in define.items():
            yield from _named("--define", "predicate", name, value)
        for words in (words for name, words in pieces if name == "within"):
            call["within"] = EXCLUSIVE.sub("", words).strip().strip("'\"")
            call["within_closed"] = EXCLUSIVE.search(words) is None
    within, closed = call.pop("within", None), call.pop("within_closed", True)
    if within is not None:
        yield from _option("--within", _window(within, call.get("order_by"), schema))
    if not closed:
        yield "--within-exclusive"
    if call.pop("strict_time", False):
        yield "--strict-time"
    for name, value in call.items():
        if value is not None:
            yield from _keyword(name, value)


def _keyword(name: str, value: Any) -> Iterator[str]:
    if name in _LISTS:
        for column in [value] if isinstance(value, str) else value:
            if "," in column or column != column.strip():
                raise CepError(f"{name}: a command line cannot name the column {column!r}; rename it")
        yield from _option(_LISTS[name], value if isinstance(value, str) else ",".join(value))
    elif name in _WORDS:
        yield from _option(_WORDS[name], value)
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
    """Return an option for a predicate or a measure."""
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
    """Return the file of a frame, and whether it is known; otherwise the file is a placeholder.

    A notebook knows the file when the last cell that assigned ``name`` read it without further steps, as in
    ``df = pd.read_parquet("trades.parquet")``.

    """
    shell = sys.modules.get("IPython")
    interpreter = shell.get_ipython() if shell is not None else None
    space = getattr(interpreter, "user_ns", {})
    read = file_in_cells(space.get("In", []), name) if space.get(name) is frame else None
    return (f"{name}.parquet", False) if read is None else (read, True)


def file_in_cells(cells: Sequence[str], name: str) -> str | None:
    r"""Return the file that the cells read into a variable; None when they may have changed it afterwards."""
    read: str | None = None
    for cell in cells:
        if not re.search(rf"(?<!\w){re.escape(name)}(?!\w)", cell):
            continue
        try:
            tree = ast.parse(cell)
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
    text = reading.text
    if is_rows(text) or is_sase(text):
        lines = [_quote(text.strip())]
        call = dict(call)
    else:
        pieces = [(piece.name, text[piece.start : piece.stop]) for piece in reading.pieces]
        lines = [_quote(words.strip()) for key, words in pieces if key is None]
        define = {key: _quote(words) for key, words in pieces if key not in (None, "within")}
        define |= {key: _spell(value) for key, value in (call.get("define") or {}).items()}
        if define:
            entries = "".join(f"        {_quote(key)}: {value},\n" for key, value in define.items())
            lines.append(f"define={{\n{entries}    }}")
        call = {key: value for key, value in call.items() if key != "define"}
        for words in (words for key, words in pieces if key == "within"):
            amount = EXCLUSIVE.sub("", words).strip().strip("'\"")
            lines.append(f"within={amount if amount.isascii() and amount.isdecimal() else _quote(amount)}")
            if EXCLUSIVE.search(words):
                lines.append("within_closed=False")
    lines += [f"{key}={_spell(value)}" for key, value in call.items() if value is not None]
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
    shell = sys.modules.get("IPython")
    interpreter = shell.get_ipython() if shell is not None else None
    names = getattr(interpreter, "user_ns", {})
    return next((name for name, value in names.items() if value is frame and not name.startswith("_")), "df")
