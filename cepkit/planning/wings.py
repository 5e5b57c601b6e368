"""Loads the wings: packages above planning with engines that run only when the user names them."""

from __future__ import annotations

from collections.abc import Callable

_loaders: list[Callable[[], None]] = []


def add_wings(load: Callable[[], None]) -> None:
    """Register a function that imports wings; `load_wings` calls it once."""
    _loaders.append(load)


def load_wings() -> None:
    """Import all wings, which register their engines."""
    while _loaders:
        _loaders.pop()()
