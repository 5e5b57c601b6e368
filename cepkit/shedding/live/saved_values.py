"""State of strategies and machines as JSON and arrays for files of saved streams, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from cepkit.errors import CepError
from cepkit.streaming.saved import Saved

_ARRAY, _ITEMS = "array", "items"


def pack_values(value: Any) -> Saved:
    """Return numbers, texts, lists, mappings and arrays as the content of a file."""
    arrays: dict[str, np.ndarray] = {}
    return Saved({"value": _as_json(value, arrays)}, arrays, {})


def _as_json(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        if value.dtype == object:
            return {_ITEMS: _as_json(value.tolist(), arrays)}
        name = f"a{len(arrays)}"
        arrays[name] = value
        return {_ARRAY: name}
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) for key in value) or value.keys() in ({_ARRAY}, {_ITEMS}):
            raise CepError(f"saved state has the keys {list(value)[:3]}; expected texts other than 'array'")
        return {key: _as_json(item, arrays) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_as_json(item, arrays) for item in value]
    raise CepError(f"saved state holds a {type(value).__name__}, which a file of a stream cannot hold")


def unpack_values(saved: Saved) -> Any:
    """Return what `pack_values` took; tuples are lists then."""
    return _of_json(saved.header["value"], saved.arrays)


def _of_json(value: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    if isinstance(value, dict):
        if value.keys() == {_ARRAY}:
            return arrays[value[_ARRAY]]
        if value.keys() == {_ITEMS}:
            items = np.empty(len(value[_ITEMS]), object)
            items[:] = value[_ITEMS]
            return items
        return {key: _of_json(item, arrays) for key, item in value.items()}
    return [_of_json(item, arrays) for item in value] if isinstance(value, list) else value
