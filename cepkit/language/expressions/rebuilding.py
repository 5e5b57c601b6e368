"""Read the parts of trees, and rebuild trees with some of their parts replaced."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from functools import cache
from typing import TypeVar

Tree = TypeVar("Tree")


def parts_of(tree: object, kind: type[Tree]) -> Iterator[Tree]:
    """Yield the direct parts of a tree that are of class ``kind``, in reading order."""
    for name in _names_of_fields(type(tree)):
        value = getattr(tree, name)
        if isinstance(value, tuple):
            for part in value:
                if isinstance(part, kind):
                    yield part
        elif isinstance(value, kind):
            yield value


@cache
def _names_of_fields(kind: type) -> tuple[str, ...]:
    return tuple(item.name for item in fields(kind))


def with_parts(tree: Tree, kind: type[Tree], change: Callable[[Tree], Tree]) -> Tree:
    """Return the tree with ``change`` applied to its direct parts of class ``kind``."""
    changed = {}
    for name in _names_of_fields(type(tree)):
        value = getattr(tree, name)
        if isinstance(value, kind):
            changed[name] = change(value)
        elif isinstance(value, tuple) and any(isinstance(part, kind) for part in value):
            changed[name] = tuple(change(part) if isinstance(part, kind) else part for part in value)
    return replace(tree, **changed) if changed else tree


def rebuilt(tree: Tree, kind: type[Tree], change: Callable[[Tree], Tree]) -> Tree:
    """Return the tree with ``change`` applied to every node of class ``kind``, children before parents."""
    return change(with_parts(tree, kind, lambda part: rebuilt(part, kind, change)))
