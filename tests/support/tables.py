"""Tables of cases in ``tests/fixtures``: a line is a case, with " ; " between values as Python has them."""

from __future__ import annotations

import ast
import builtins
import math
from pathlib import Path
from typing import Any

from cepkit import errors

FIXTURES = Path(__file__).parents[1] / "fixtures"
_NAMES = {**vars(builtins), **vars(errors)}


def cases(file: str, section: str) -> list[Any]:
    """Return the cases after the line ``## section``: tuples, or values where each case has one."""
    lines = (FIXTURES / f"{file}.txt").read_text("utf-8").splitlines()
    first = lines.index(f"## {section}") + 1
    after = (i for i, line in enumerate(lines[first:], first) if line.startswith("## "))
    texts = [line.split(" ; ") for line in lines[first : next(after, None)] if line and line[:2] != "# "]
    made = [tuple(map(_value, parts)) for parts in texts]
    return [case[0] for case in made] if len(made[0]) == 1 else made


def _value(text: str) -> Any:
    """Return a literal, infinity, or the class of an error."""
    if text.lstrip("-") == "inf":
        return math.copysign(math.inf, -1 if text[0] == "-" else 1)
    is_name = text.isidentifier() and text not in ("None", "True", "False")
    return _NAMES[text] if is_name else ast.literal_eval(text)
