"""The text of trees. The modules named ``printing`` register the spelling of each type."""

from __future__ import annotations

from functools import singledispatch


@singledispatch
def text_of(tree: object) -> str:
    """Return the text of a tree or a query, in one canonical spelling."""
    raise TypeError(f"no text is defined for {type(tree).__name__}")
