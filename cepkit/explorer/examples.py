"""Examples of queries and the cheat sheet, made from the columns of a frame."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
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
from cepkit.explorer.running.data import SearchedFrame, is_identifier, measures_first
from cepkit.explorer.text import applicable, collect_warnings, read_text
from cepkit.language.cheat_sheet import CHEAT_SHEET, SheetEntry, say_query
from cepkit.language.expressions.durations import NANOSECONDS
from cepkit.language.expressions.printing import quoted_name
from cepkit.language.sequences.printing import type_text
from cepkit.values import dataclass

MOST_EXAMPLES = 5
_ROWS = 20_000  # the first rows say what the columns are like
_WINDOWS = (
    "1 us", "10 us", "100 us", "1 ms", "10 ms", "100 ms", "1 s", "10 s", "1 min", "5 min", "10 min", "30 min",
    "1 h", "6 h", "1 d", "1 w", "30 d", "365 d",
)  # fmt: skip
_GAPS = 20  # a window has room for about this many usual gaps between two rows of a key


@dataclass(frozen=True, slots=True)
class Example:
    """A query that fits a frame."""

    title: str  # the query in a few words
    text: str  # the text for the editor
    sentence: str = ""  # the query in one plain sentence

    def trait(self) -> dict[str, str]:
        return {"title": self.title, "text": self.text, "sentence": self.sentence}


class _Parts:
    """The first rows of a frame, key by key in the order of time, and the columns that examples use."""

    def __init__(self, data: SearchedFrame, call: Mapping[str, Any]):
        self.data = data
        self.keys = _names(call.get("partition_by"))
        self.clock = next(iter(_names(call.get("order_by"))), None)
        self.event_type = call.get("event_type")
        group, times = np.zeros(data.source.n_rows, np.int64), []
        for name in self.keys:
            if data.schema[name].kind not in (LIST, OTHER):  # these values have no order
                _, code = np.unique(data.source.column(name).values, return_inverse=True)
                group = group * (int(code.max(initial=0)) + 1) + code
        if self.clock is not None and data.schema[self.clock].kind not in (LIST, OTHER):
            times = [data.source.column(self.clock).values]
        self.rows = np.lexsort([*times, group])
        self.is_first = np.diff(group[self.rows], prepend=-1) != 0

    def values(self, name: str) -> np.ndarray:
        """Return the values of a column, key by key, as numbers; NaN for missing and infinite ones."""
        return _as_numbers(self.data.source.column(name))[self.rows]

    def changes(self, name: str, distance: int = 1) -> np.ndarray:
        """Return the differences of a column between rows of one key that lie some rows apart."""
        values, key = self.values(name), np.cumsum(self.is_first)
        changes = (values[distance:] - values[:-distance])[key[distance:] == key[:-distance]]
        return changes[np.isfinite(changes)]

    def columns(self, *kinds: str) -> list[str]:
        """Return the columns of some kinds, the first kind first, without keys, clock and event type."""
        taken = {*self.keys, self.clock, self.event_type, *self.data.source.duplicates}
        schema = self.data.schema
        return [name for kind in kinds for name in schema if schema[name].kind == kind and name not in taken]


def head_of(data: SearchedFrame) -> SearchedFrame:
    """Return the first rows of a frame, so that long columns need not be read."""
    rows = np.arange(min(_ROWS, data.source.n_rows))
    return data if len(rows) == data.source.n_rows else SearchedFrame(data.source.rows(rows, {}))


def examples_of(head: SearchedFrame, call: Mapping[str, Any]) -> list[Example]:
    """Return up to five examples for the first rows of a frame; the first one has matches, if any has."""
    if not head.source.n_rows:
        return []
    parts = _Parts(head, call)
    drafts = list(chain(_of_events(parts), _of_numbers(parts), _of_texts(parts), _of_rows(parts)))
    examples: list[Example] = []
    has_matches = False
    for title, text in drafts:
        query = _bound(head, text, call)
        if query is None:
            continue
        example = Example(title, text, say_query(query))
        if not has_matches and (has_matches := _has_matches(head, query)):
            examples.insert(0, example)
        else:
            examples.append(example)
        if len(examples) == MOST_EXAMPLES:
            break
    return examples


def _bound(data: SearchedFrame, text: str, call: Mapping[str, Any]) -> Any:
    """Return the query of a text; None if it does not fit the frame."""
    query = read_text(text, applicable(text, call)).query
    with suppress(CepError), collect_warnings():
        if query is not None:
            data.compile(query)
            return query
    return None


def _has_matches(data: SearchedFrame, query: Any) -> bool:
    with suppress(CepError), collect_warnings():
        return data.run(data.compile(query)).count() > 0
    return False


def _names(given: Any) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given or ())


# --- values


def _as_numbers(column: Column) -> np.ndarray:
    """Return a column as floats, with NaN for null."""
    values = column.values
    if column.type.kind == FLOAT:
        return np.where(np.isfinite(values), values, np.nan).astype(np.float64)
    is_null = values == (-1 if column.type.kind in (TEXT, BOOLEAN) else NULL_INTEGER)
    return np.where(is_null, np.nan, values.astype(np.float64))


# --- texts


def _of_numbers(parts: _Parts) -> Iterator[tuple[str, str]]:
    """Yield titles and texts of examples with a measure."""
    names = measures_first(parts.columns(FLOAT, INTEGER))
    moving = (name for name in names if not is_identifier(name) and _rises_and_falls(parts, name))
    name = next(moving, None)
    if name is None:
        return
    x = quoted_name(name)
    yield (
        f"{name} rises 3 times in a row, then falls",
        f"rise{{3,}} drop\nrise: {x} > prev({x})\ndrop: {x} < prev({x})",
    )
    large = _usual(parts.changes(name))
    jump = f"jump: {x} > prev({x}) + {large}\nback: {x} <= first({x})"
    yield f"{name} jumps by more than {large} and comes back", f". jump .{{,5}} back\n{jump}"
    window, gain = _window(parts), _usual(parts.changes(name, _GAPS // 2))
    if window and gain:
        far = f"far: {x} >= first({x}) + {gain}\nwithin: {window}"
        yield f"{name} gains {gain} within {window}", f". .* far\n{far}"
    if not window:
        yield f"{name} is above its mean so far, twice", f". high{{2}}\nhigh: {x} > avg({x})"


def _of_events(parts: _Parts) -> Iterator[tuple[str, str]]:
    """Yield titles and texts of examples with types of events, in the order in which a key has them."""
    kinds = _kinds_in_order(parts)
    if len(kinds) < 2:
        return
    a, b, c, *_ = *(type_text(kind) for kind, _ in kinds), ""
    letters = [re.sub(r"\W", "", str(kind))[:1].lower() for kind, _ in kinds]
    x, y, z, *_ = *(letters if len({*letters}) == len(letters) and all(letters) else "abc"[: len(kinds)]), ""
    window = _window_after(parts, kinds[0][1], kinds[1][1])
    if window is None:
        return
    longer = next((text for text in _WINDOWS if text == window), None)
    following = _WINDOWS[min(_WINDOWS.index(longer) + 1, len(_WINDOWS) - 1)] if longer else window
    yield f"{a}, later {b}, within {window}", f"PATTERN SEQ({a} {x}, {b} {y})\nWITHIN {window}"
    if c:
        title = f"{a}, later {b}, later {c}, within {following}"
        yield title, f"PATTERN SEQ({a} {x}, {b} {y}, {c} {z})\nWITHIN {following}"
        title = f"{a}, later {c}, with no {b} between"
        yield title, f"PATTERN SEQ({a} {x}, !{b} {y}, {c} {z})\nWITHIN {following}"
    yield f"{a} with no {b} within {window}", f"PATTERN SEQ({a} {x}, !{b} {y})\nWITHIN {window}"


def _kinds_in_order(parts: _Parts) -> list[tuple[Any, int]]:
    """Return up to three frequent event types with their codes, the one that comes first in a key first."""
    if parts.event_type is None or parts.event_type not in parts.data.schema:
        return []
    column = parts.data.source.column(parts.event_type)
    if column.type.kind not in (TEXT, INTEGER):
        return []
    values = column.values[parts.rows]
    codes, n = np.unique(values, return_counts=True)
    start = np.flatnonzero(parts.is_first)
    length = np.diff(np.append(start, len(values)))
    place = (np.arange(len(values)) - np.repeat(start, length)) / np.repeat(length, length)
    null = NULL_CODE if column.type.kind == TEXT else NULL_INTEGER
    most = [code for code in codes[np.argsort(-n, kind="stable")].tolist() if code != null][:3]
    most.sort(key=lambda code: round(float(place[values == code].mean()), 1))
    return [(str(column.texts[code]) if column.type.kind == TEXT else code, code) for code in most]


def _window_after(parts: _Parts, first: int, second: int) -> str | None:
    """Return a window in which events of a type usually follow those of another one in their key."""
    if parts.clock is None or parts.data.schema[parts.clock].kind not in (TIME, INTEGER):
        return None
    values = parts.data.source.column(parts.event_type or "").values[parts.rows]
    time = parts.values(parts.clock)
    where = np.flatnonzero(values == second)
    asked = np.flatnonzero(values == first)
    after = np.searchsorted(where, asked, side="right")
    asked, after = asked[after < len(where)], where[after[after < len(where)]]
    key = np.cumsum(parts.is_first)
    gaps = (time[after] - time[asked])[key[after] == key[asked]]
    gaps = gaps[np.isfinite(gaps) & (gaps > 0)]
    return _round_window(parts, float(np.median(gaps))) if len(gaps) else _window(parts)


def _of_texts(parts: _Parts) -> Iterator[tuple[str, str]]:
    """Yield titles and texts of examples that need no numbers."""
    taken = [parts.event_type] if parts.event_type else []
    for name in [*taken, *parts.columns(TEXT)][:1]:
        x = quoted_name(name)
        lines = f"same: {x} == prev({x})\nchanged: {x} != prev({x})"
        yield f"the same {name} in successive rows, then another", f". same+ changed\n{lines}"
    for name in parts.columns(BOOLEAN)[:1]:
        x = quoted_name(name)
        yield f"{name} turns true", f"was_off turns_on\nwas_off: not {x}\nturns_on: {x}"


def _usual(changes: np.ndarray) -> str:
    """Return the size that one rise in ten exceeds; an empty text if there is no rise."""
    rises = changes[changes > 0]
    if not len(rises):
        return ""
    usual, largest = float(np.quantile(rises, 0.9)), float(rises.max())
    return _round(usual if usual < largest else largest / 2)


def _of_rows(parts: _Parts) -> Iterator[tuple[str, str]]:
    """Yield titles and texts of examples that need a clock alone."""
    window = _window(parts)
    if parts.clock is None or window is None:
        return
    clock, pause = quoted_name(parts.clock), _pause(parts)
    limit = pause if pause.isdecimal() else f"'{pause}'"
    yield f"a pause of more than {pause}", f". late\nlate: {clock} - prev({clock}) > {limit}"
    yield f"5 rows within {window}", f".{{5}}\nwithin: {window}"


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
    return _round_window(parts, float(np.median(gaps)) * _GAPS) if len(gaps) else None


def _round_window(parts: _Parts, ticks: float) -> str:
    """Return the first round window of at least some ticks of the clock."""
    unit = _unit(parts)
    if unit is None:
        return str(math.ceil(ticks))
    fitting = (text for text in _WINDOWS if _nanoseconds(text) >= ticks * NANOSECONDS[unit])
    return next(fitting, _WINDOWS[-1])


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
