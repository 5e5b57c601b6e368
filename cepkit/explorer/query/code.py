"""The call that an explorer shows, as a cell to copy."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from cepkit.explorer.query.text import EXCLUSIVE, Reading
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.printing import print_expression
from cepkit.language.sequences.parsing import is_sase


def code_of(reading: Reading, call: Mapping[str, Any], name: str = "df") -> str:
    r"""Return Python that runs the query of a text: ``matches = df.cep.match(…)``.

    Parameters
    ----------
    reading : Reading
        Of the text in the editor; a mistaken text is quoted as it is.
    call : mapping of str to value
        The keywords beside it, an engine among them where one is named.
    name : str
        Of the frame.

    Notes
    -----
    Functions are written by their names.

    Examples
    --------
    >>> from cepkit.explorer.query.text import read_text
    >>> text = "a b\na: x > 1\nb: x < 'it''s'"
    >>> print(code_of(read_text(text, {}), {"order_by": "t"}))
    matches = df.cep.match(
        "a b",
        define={
            "a": "x > 1",
            "b": "x < 'it''s'",
        },
        order_by="t",
    )
    """
    text = reading.text
    if is_sase(text):
        lines = [_quoted(text.strip())]
        call = dict(call)
    else:
        said = [(piece.name, text[piece.start : piece.stop]) for piece in reading.pieces]
        lines = [_quoted(own.strip()) for of, own in said if of is None]
        define = {of: _quoted(own) for of, own in said if of not in (None, "within")}
        define |= {of: _spelled(value) for of, value in (call.get("define") or {}).items()}
        if define:
            entries = "".join(f"        {_quoted(of)}: {value},\n" for of, value in define.items())
            lines.append(f"define={{\n{entries}    }}")
        call = {of: value for of, value in call.items() if of != "define"}
        for own in (own for of, own in said if of == "within"):
            amount = EXCLUSIVE.sub("", own).strip().strip("'\"")
            lines.append(f"within={amount if amount.isdecimal() else _quoted(amount)}")
            if EXCLUSIVE.search(own):
                lines.append("within_closed=False")
    lines += [f"{of}={_spelled(value)}" for of, value in call.items() if value is not None]
    return f"matches = {name}.cep.match(\n" + "".join(f"    {line},\n" for line in lines) + ")"


def _quoted(text: str) -> str:
    """Return a text in double quotes, over several lines where it has them."""
    if "\n" in text and '"""' not in text and "\\" not in text and not text.endswith('"'):
        return f'"""\n{text}"""'
    plain = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{plain}"'


def _spelled(value: Any) -> str:
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, ex.Expression):
        return _quoted(print_expression(value))
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_spelled(key)}: {_spelled(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list | tuple) and all(isinstance(one, str) for one in value):
        return "[" + ", ".join(map(_spelled, value)) + "]" if len(value) != 1 else _spelled(value[0])
    if callable(value) and hasattr(value, "__name__"):
        return value.__name__
    return repr(value)


def name_of_frame(frame: Any) -> str:
    """Return the name of a frame in the notebook, ``df`` where it has none."""
    shell = sys.modules.get("IPython")
    found = shell.get_ipython() if shell is not None else None
    names = getattr(found, "user_ns", {})
    return next((name for name, one in names.items() if one is frame and not name.startswith("_")), "df")
