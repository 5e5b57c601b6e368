"""How the wings of the house are loaded: rooms above planning whose engines run only when they are named."""

from __future__ import annotations

from collections.abc import Callable

_loaders: list[Callable[[], None]] = []


def add_wings(load: Callable[[], None]) -> None:
    """Add a function that imports wings; `load_wings` calls it once."""
    _loaders.append(load)


def load_wings() -> None:
    """Import all wings, so that their engines are registered."""
    while _loaders:
        _loaders.pop()()
