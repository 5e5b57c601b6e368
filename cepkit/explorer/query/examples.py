"""Examples of queries and the cheat sheet, made from the columns of a frame."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np

from cepkit.errors import CepError
from cepkit.events import (
    BOOLEAN,
    FLOAT,
    INTEGER,
    LIST,
    NULL_CODE,
    NULL_INTEGER,
    OTHER,
    TEXT,
    TIME,
    Column,
    ColumnType,
)
from cepkit.explorer.query.text import applicable, collect_warnings, read_text
from cepkit.explorer.running.data import SearchedFrame
from cepkit.language.cheat_sheet import CHEAT_SHEET, SheetEntry, say_query
from cepkit.language.expressions.durations import NANOSECONDS
from cepkit.language.expressions.printing import quoted_name
from cepkit.language.sequences.printing import type_text

# Examples of queries, made from the columns of a frame. Each one can be read and bound to the columns.

MOST_EXAMPLES = 5
MOST_TYPES = 12  # a column of event types has at most this many values
_ROWS = 20_000  # the first rows say what the columns are like
_TYPE_NAMES = ("type", "kind", "event", "action", "status", "state", "category", "side", "activity")
_KEY_NAMES = ("symbol", "id", "key", "user", "device", "sensor", "item", "customer", "session", "account")
_WINDOWS = (
    "1 us",
    "10 us",
    "100 us",
    "1 ms",
    "10 ms",
    "100 ms",
    "1 s",
    "10 s",
    "1 min",
    "5 min",
    "10 min",
    "1 h",
    "6 h",
    "1 d",
    "1 w",
    "30 d",
    "365 d",
)
_GAPS = 20  # a window has room for about this many usual gaps between two rows of a key


@dataclass(frozen=True, slots=True)
class Example:
    """A query that fits a frame."""

    title: str  # the query in a few words
    text: str  # the text for the editor
    # Keywords of `cepkit.match` that the text needs and the call does not have.
    call: Mapping[str, Any] = field(default_factory=dict)
    sentence: str = ""  # the query in one plain sentence

    def trait(self) -> dict[str, str]:
        """Return the example for the widget."""
        return {"title": self.title, "text": self.text, "sentence": self.sentence}


@dataclass(frozen=True, slots=True)
class _Parts:
    """The columns that examples use, and the keywords that the call lacks."""

    data: SearchedFrame
    keys: tuple[str, ...]
    clock: str | None
    event_type: str | None
    types: tuple[Any, ...]
    rows_of_key: np.ndarray  # the first rows of the frame, key by key
    is_first: np.ndarray  # whether the row is the first of its key

    def values(self, name: str) -> np.ndarray:
        """Return the values of a column, key by key, as numbers; NaN for missing and infinite ones."""
        return _as_numbers(self.data.source.column(name))[self.rows_of_key]

    def changes(self, name: str, distance: int = 1) -> np.ndarray:
        """Return the differences of a column between rows of one key that lie some rows apart."""
        values, key = self.values(name), np.cumsum(self.is_first)
        changes = (values[distance:] - values[:-distance])[key[distance:] == key[:-distance]]
        return changes[np.isfinite(changes)]


def examples_of(data: SearchedFrame, call: Mapping[str, Any]) -> list[Example]:
    """Return up to five examples for a frame, or none if its columns suit none.

    Only the first rows are looked at.
    """
    if not data.source.n_rows:
        return []
    parts, detected = _parts_of(_head_of(data), call)
    events = _of_events(parts, "partition_by" in call)
    drafts = chain(_of_numbers(parts), events, _of_texts(parts), _of_rows(parts))
    examples: list[Example] = []
    for title, text, needs in drafts:
        keywords = {name: detected[name] for name in needs if name in detected}
        sentence = _checked(data, text, {**call, **keywords})
        if sentence is not None:
            examples.append(Example(title, text, keywords, sentence))
    return examples[:MOST_EXAMPLES]


def _head_of(data: SearchedFrame) -> SearchedFrame:
    """Return the first rows of a frame, so that long columns need not be read."""
    rows = np.arange(min(_ROWS, data.source.n_rows))
    return data if len(rows) == data.source.n_rows else SearchedFrame(data.source.rows(rows, {}))


def _checked(data: SearchedFrame, text: str, call: Mapping[str, Any]) -> str | None:
    """Return the sentence of a text; None if it does not fit the frame."""
    reading = read_text(text, applicable(text, call))
    if reading.query is None:
        return None
    try:
        with collect_warnings():
            data.compile(reading.query)
    except CepError:
        return None
    return say_query(reading.query)


# --- columns


def _parts_of(data: SearchedFrame, call: Mapping[str, Any]) -> tuple[_Parts, dict[str, Any]]:
    """Return the columns for the examples, and those of them that the call does not name."""
    detected: dict[str, Any] = {}
    n_values = {name: _n_values(data, name) for name in data.schema if _can_be_counted(data, name)}
    chosen = call.get("order_by")
    clock = next(iter([chosen] if isinstance(chosen, str) else chosen or ()), None)
    if clock is None:
        clock = next(iter(_columns(data, TIME)), None)
        detected |= {} if clock is None else {"order_by": clock}
    event_type = call.get("event_type")
    chosen = call.get("partition_by")
    keys = (chosen,) if isinstance(chosen, str) else tuple(chosen or ())
    if event_type is None:
        few = [name for name, n in n_values.items() if 2 <= n <= MOST_TYPES and name not in keys]
        few = [name for name in few if _suits(name, _TYPE_NAMES) or not _suits(name, _KEY_NAMES)]
        event_type = _best(few, _TYPE_NAMES)
        detected |= {} if event_type is None else {"event_type": event_type}
    if not keys:
        n_rows, taken = data.source.n_rows, (event_type, clock)
        key = _best([n for n, k in n_values.items() if 2 <= k <= n_rows / 4 and n not in taken], _KEY_NAMES)
        keys = () if key is None else (key,)
        detected |= {} if key is None else {"partition_by": [key]}
    types = () if event_type not in n_values else _frequent(data.source.column(event_type))
    rows, is_first = _key_by_key(data, keys)
    return _Parts(data, keys, clock, event_type, types, rows, is_first), detected


def _columns(data: SearchedFrame, *kinds: str) -> list[str]:
    """Return the columns of some kinds, the first kind first."""
    usable = {name: dtype for name, dtype in data.schema.items() if name not in data.source.duplicates}
    return [name for kind in kinds for name, dtype in usable.items() if dtype.kind == kind]


def _can_be_counted(data: SearchedFrame, name: str) -> bool:
    column_type = data.schema[name]
    is_key = column_type.kind == INTEGER and _suits(name, _KEY_NAMES + _TYPE_NAMES)
    return (column_type.kind == TEXT or is_key) and name not in data.source.duplicates


def _n_values(data: SearchedFrame, name: str) -> int:
    return len(np.unique(data.source.column(name).values))


def _suits(name: str, words: tuple[str, ...]) -> bool:
    parts = name.lower().replace("-", "_").split("_")
    return any(word in parts or name.lower().endswith(word) for word in words)


def _best(names: list[str], words: tuple[str, ...]) -> str | None:
    """Return the first of the names that suits, else the first text."""
    return next((name for name in names if _suits(name, words)), next(iter(names), None))


def _frequent(column: Column) -> tuple[Any, ...]:
    """Return the three most frequent values of a column in the order of their first rows."""
    values, first, n = np.unique(column.values, return_index=True, return_counts=True)
    most = np.argsort(-n, kind="stable")[:3]
    values = values[most[np.argsort(first[most])]]
    if column.type.kind == TEXT:
        return tuple(str(column.texts[code]) for code in values if code != NULL_CODE)
    return tuple(int(value) for value in values if value != NULL_INTEGER)


def _as_numbers(column: Column) -> np.ndarray:
    values = column.values
    if column.type.kind == FLOAT:
        return np.where(np.isfinite(values), values, np.nan).astype(np.float64)
    is_null = values == (-1 if column.type.kind in (TEXT, BOOLEAN) else NULL_INTEGER)
    return np.where(is_null, np.nan, values.astype(np.float64))


def _key_by_key(data: SearchedFrame, keys: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Return the first rows of a frame sorted by key, and whether each is the first of its key."""
    group = np.zeros(data.source.n_rows, np.int64)
    for name in keys:
        if data.schema[name].kind in (LIST, OTHER):
            continue  # these values have no order
        _, code = np.unique(data.source.column(name).values, return_inverse=True)
        group = group * (int(code.max(initial=0)) + 1) + code
    rows = np.argsort(group, kind="stable")
    return rows, np.diff(group[rows], prepend=-1) != 0


# --- texts


def _of_numbers(parts: _Parts):
    """Yield title, text and needed keywords of examples with a column of numbers."""
    taken = {*parts.keys, parts.clock, parts.event_type}
    names = [name for name in _columns(parts.data, FLOAT, INTEGER) if name not in taken]
    name = next((name for name in names if _rises_and_falls(parts, name)), None)
    if name is None:
        return
    x, needs = quoted_name(name), ("partition_by", "order_by")
    drops = f"rise: {x} > prev({x})\ndrop: {x} < prev({x})"
    yield f"{name} rises 3 times in a row, then falls", f". rise{{3,}} drop\n{drops}", needs
    large = _usual(parts.changes(name))
    jump = f"jump: {x} > prev({x}) + {large}\nback: {x} <= first({x})"
    yield f"{name} jumps by more than {large} and comes back", f". jump .{{,5}} back\n{jump}", needs
    window, gain = _window(parts), _usual(parts.changes(name, _GAPS // 2))
    if window and gain:
        far = f"far: {x} >= first({x}) + {gain}\nwithin: {window}"
        yield f"{name} gains {gain} within {window}", f". .* far\n{far}", needs
    if not window:
        high = f"high: {x} > avg({x})"
        yield f"{name} is above its mean so far, twice", f". high{{2}}\n{high}", needs


def _of_events(parts: _Parts, has_key: bool):
    """Yield title, text and needed keywords of examples with types of events."""
    window = _window(parts)
    if len(parts.types) < 2 or window is None:
        return
    a, b, *others = (type_text(value) for value in parts.types)
    key = "" if has_key or not parts.keys else f"WHERE [{', '.join(map(quoted_name, parts.keys))}]\n"
    needs, end = ("event_type", "order_by"), f"\n{key}WITHIN {window}"
    yield f"{a}, later {b}, within {window}", f"PATTERN SEQ({a} a, {b} b){end}", needs
    if others:
        c = others[0]
        yield (
            f"{a}, later {b}, with no {c} between",
            f"PATTERN SEQ({a} a, !{c} c, {b} b){end}",
            needs,
        )


def _of_texts(parts: _Parts):
    """Yield title, text and needed keywords of examples that need no numbers."""
    taken = {*parts.keys, parts.clock}
    for name in [name for name in _columns(parts.data, TEXT) if name not in taken][:1]:
        x = quoted_name(name)
        lines = f"same: {x} == prev({x})\nchanged: {x} != prev({x})"
        yield (
            f"the same {name} in successive rows, then another",
            f". same+ changed\n{lines}",
            ("partition_by", "order_by"),
        )
    for name in _columns(parts.data, BOOLEAN)[:1]:
        x = quoted_name(name)
        text = f"was_off turns_on\nwas_off: not {x}\nturns_on: {x}"
        yield f"{name} turns true", text, ("partition_by", "order_by")


def _usual(changes: np.ndarray) -> str:
    """Return the size that one rise in ten exceeds; an empty text if there is no rise."""
    rises = changes[changes > 0]
    if not len(rises):
        return ""
    usual, largest = float(np.quantile(rises, 0.9)), float(rises.max())
    return _round(usual if usual < largest else largest / 2)


def _of_rows(parts: _Parts):
    """Yield title, text and needed keywords of examples that need a clock alone."""
    window, needs = _window(parts), ("partition_by", "order_by")
    if parts.clock is None or window is None:
        return
    clock, pause = quoted_name(parts.clock), _pause(parts)
    limit = pause if pause.isdecimal() else f"'{pause}'"
    yield f"a pause of more than {pause}", f". late\nlate: {clock} - prev({clock}) > {limit}", needs
    yield f"5 rows within {window}", f".{{5}}\nwithin: {window}", needs


def _rises_and_falls(parts: _Parts, name: str) -> bool:
    changes = parts.changes(name)
    return bool((changes > 0).any() and (changes < 0).any())


def _round(value: float) -> str:
    """Return a positive number with two digits as text."""
    digits = 1 - math.floor(math.log10(value))
    rounded = round(value, digits)
    return str(int(rounded)) if rounded == int(rounded) else str(rounded)


def _window(parts: _Parts) -> str | None:
    """Return a window with room for some rows of a key; None without a clock."""
    gaps = _gaps(parts)
    if not len(gaps):
        return None
    ticks = float(np.median(gaps)) * _GAPS
    unit = _unit(parts)
    if unit is None:
        return str(math.ceil(ticks))
    fitting = [text for text in _WINDOWS if _nanoseconds(text) >= ticks * NANOSECONDS[unit]]
    return next(iter(fitting), _WINDOWS[-1])


def _pause(parts: _Parts) -> str:
    """Return a time that few gaps between two rows of a key exceed."""
    ticks, unit = float(np.quantile(_gaps(parts), 0.95)), _unit(parts)
    if unit is None:
        return str(math.floor(ticks))
    fitting = [text for text in _WINDOWS if _nanoseconds(text) < ticks * NANOSECONDS[unit]]
    return next(reversed(fitting), _WINDOWS[0])


def _gaps(parts: _Parts) -> np.ndarray:
    """Return the positive gaps of the clock between two rows of a key, in ticks."""
    if parts.clock is None or parts.data.schema[parts.clock].kind not in (TIME, INTEGER):
        return np.empty(0)
    gaps = parts.changes(parts.clock)
    return gaps[gaps > 0]


def _unit(parts: _Parts) -> str | None:
    """Return the unit of the clock; None for a clock of whole numbers."""
    clock_type = parts.data.schema[parts.clock or ""]
    return None if clock_type.kind == INTEGER else clock_type.unit or "ns"


def _nanoseconds(window: str) -> int:
    number, unit = window.split()
    return int(number) * NANOSECONDS[unit]


# The cheat sheet for a frame: its entries name columns that the frame has.

# The columns that the entries use, with the kinds of columns that can take their places.
_KINDS_OF_COLUMN = {
    "x": (FLOAT, INTEGER), "y": (FLOAT, INTEGER), "name": (TEXT,), "ts": (TIME,), "flag": (BOOLEAN,),
    "v": (LIST,), "w": (LIST,),
}  # fmt: skip
_QUOTED = re.compile(r"('[^']*'|`[^`]*`)")


def sheet_of(schema: Mapping[str, ColumnType]) -> list[dict[str, Any]]:
    """Return the groups of the cheat sheet for the widget."""
    column_of = _columns_of(schema)
    return [
        {
            "title": title,
            "entries": [
                {"text": _with_columns(entry, column_of), "meaning": entry.meaning, "kind": entry.kind}
                for entry in entries
            ],
        }
        for title, entries in CHEAT_SHEET.items()
    ]


def _columns_of(schema: Mapping[str, ColumnType]) -> dict[str, str]:
    """Return the column of a frame for each column of the sheet, as text spells it."""
    column_of: dict[str, str] = {}
    for sheet_column, kinds in _KINDS_OF_COLUMN.items():
        fitting = [name for kind in kinds for name, column_type in schema.items() if column_type.kind == kind]
        free = [name for name in fitting if quoted_name(name) not in column_of.values()]
        if free or fitting:
            column_of[sheet_column] = quoted_name((free or fitting)[0])
    return column_of


def _with_columns(entry: SheetEntry, column_of: Mapping[str, str]) -> str:
    """Return the text of an entry with the columns of a frame; texts in quotes stay."""
    if not column_of:
        return entry.text
    name_pattern = re.compile(rf"(?<![\w:])({'|'.join(column_of)})(?!\w|\()")
    parts = _QUOTED.split(entry.text)
    parts[::2] = [name_pattern.sub(lambda word: column_of[word[1]], part) for part in parts[::2]]
    return "".join(parts)
