"""Calls of ``df.cep.match`` as text."""

from __future__ import annotations

from typing import Any


def call_text(query: str, keywords: dict[str, Any], before: str = "") -> str:
    """Return the call of ``df.cep.match`` with a query as Python text and its keywords that say something."""
    given = [f"{name}={_spelled(value)}" for name, value in keywords.items() if value not in (None, (), {})]
    one_line = f"df.cep.match({', '.join([query, *given])})"
    if len(one_line) <= 100 and "\n" not in one_line:
        return before + one_line
    inner = "".join(f"    {argument},\n" for argument in (query, *given))
    return f"{before}df.cep.match(\n{inner})"


def _spelled(value: Any) -> str:
    if isinstance(value, tuple):
        return repr(value[0]) if len(value) == 1 else repr(list(value))
    return repr(value)


def long_text(text: str) -> str:
    """Return a text of several lines as Python spells it."""
    is_plain = "\n" in text and "".join(text.split("\n")).isprintable()  # Python changes other line ends
    if not is_plain or '"""' in text or "\\" in text or text.endswith('"'):
        return repr(text)
    return f'"""{text}"""'
