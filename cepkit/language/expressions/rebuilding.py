"""Rebuild trees with some of their parts replaced."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import TypeVar

Tree = TypeVar("Tree")


def rebuilt(tree: Tree, kind: type[Tree], change: Callable[[Tree], Tree]) -> Tree:
    """Return the tree with ``change`` applied to every node of class ``kind``, children before parents.

    Examples
    --------
    >>> from cepkit.language.expressions.trees import Attribute, Expression
    >>> from cepkit.language.expressions.parsing import parse_expression
    >>> def upper(node):
    ...     return Attribute(node.name.upper()) if isinstance(node, Attribute) else node
    >>> str(rebuilt(parse_expression("price > 2 * cost"), Expression, upper))
    'PRICE > 2 * COST'
    """
    changed = {}
    for item in fields(tree):
        value = getattr(tree, item.name)
        if isinstance(value, kind):
            changed[item.name] = rebuilt(value, kind, change)
        elif isinstance(value, tuple) and any(isinstance(part, kind) for part in value):
            changed[item.name] = tuple(
                rebuilt(part, kind, change) if isinstance(part, kind) else part for part in value
            )
    return change(replace(tree, **changed) if changed else tree)
