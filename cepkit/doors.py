"""Functions of higher rooms that lower ones call by name, such as the explorer; they load on first use."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from cepkit.errors import CepError

_PLACE_OF_DOOR: dict[str, str] = {}


def name_door(name: str, place: str) -> None:
    """Register the function that lower rooms call by ``name``, as ``"cepkit.results.views:view"``."""
    # ``"explore"`` takes a frame and a query. ``"view"`` takes matches, the name of a view and settings.
    _PLACE_OF_DOOR[name] = place


def open_door(name: str) -> Callable[..., Any]:
    """Return the function that `name_door` registered."""
    if name not in _PLACE_OF_DOOR:
        raise CepError(f"nothing is registered as {name!r}; import cepkit first")
    module, _, attribute = _PLACE_OF_DOOR[name].partition(":")
    return getattr(import_module(module), attribute)
