"""The Python call that an explorer shows, as a cell to copy."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from cepkit.explorer.query.text import EXCLUSIVE, TextReading, is_rows, is_sase
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.printing import print_expression


def code_of(reading: TextReading, call: Mapping[str, Any], name: str = "df") -> str:
    r"""Return Python that runs the query of a text: ``matches = df.cep.match(…)``."""
    text = reading.text
    if is_rows(text) or is_sase(text):
        lines = [_quote(text.strip())]
        call = dict(call)
    else:
        said = [(piece.name, text[piece.start : piece.stop]) for piece in reading.pieces]
        lines = [_quote(own.strip()) for of, own in said if of is None]
        define = {of: _quote(own) for of, own in said if of not in (None, "within")}
        define |= {of: _spell(value) for of, value in (call.get("define") or {}).items()}
        if define:
            entries = "".join(f"        {_quote(of)}: {value},\n" for of, value in define.items())
            lines.append(f"define={{\n{entries}    }}")
        call = {of: value for of, value in call.items() if of != "define"}
        for own in (own for of, own in said if of == "within"):
            amount = EXCLUSIVE.sub("", own).strip().strip("'\"")
            lines.append(f"within={amount if amount.isascii() and amount.isdecimal() else _quote(amount)}")
            if EXCLUSIVE.search(own):
                lines.append("within_closed=False")
    lines += [f"{of}={_spell(value)}" for of, value in call.items() if value is not None]
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
        return "{" + ", ".join(f"{_spell(key)}: {_spell(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list | tuple) and all(isinstance(one, str) for one in value):
        return "[" + ", ".join(map(_spell, value)) + "]" if len(value) != 1 else _spell(value[0])
    if callable(value) and hasattr(value, "__name__"):
        return value.__name__
    return repr(value)


def name_of_frame(frame: Any) -> str:
    """Return the name of a frame in the notebook, or ``df`` if it has none."""
    shell = sys.modules.get("IPython")
    found = shell.get_ipython() if shell is not None else None
    names = getattr(found, "user_ns", {})
    return next((name for name, one in names.items() if one is frame and not name.startswith("_")), "df")
