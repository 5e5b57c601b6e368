"""The cheat sheet for a frame: its entries name columns that the frame has."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from cepkit.events import BOOLEAN, FLOAT, INTEGER, LIST, TEXT, TIME, ColumnType
from cepkit.language.cheat_sheet import CHEAT_SHEET, SheetEntry
from cepkit.language.expressions.printing import quoted_name

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
    found: dict[str, str] = {}
    for own, kinds in _KINDS_OF_COLUMN.items():
        fitting = [name for kind in kinds for name, of in schema.items() if of.kind == kind]
        free = [name for name in fitting if quoted_name(name) not in found.values()]
        if free or fitting:
            found[own] = quoted_name((free or fitting)[0])
    return found


def _with_columns(entry: SheetEntry, column_of: Mapping[str, str]) -> str:
    """Return the text of an entry with the columns of a frame; texts in quotes stay."""
    if not column_of:
        return entry.text
    own = re.compile(rf"(?<![\w:])({'|'.join(column_of)})(?!\w|\()")
    parts = _QUOTED.split(entry.text)
    parts[::2] = [own.sub(lambda found: column_of[found[1]], part) for part in parts[::2]]
    return "".join(parts)
