"""The functions of single values in MATCH_RECOGNIZE, with the types of their results."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cepkit.compile.match_recognize.arithmetic import logarithm, remainder, rounded
from cepkit.compile.match_recognize.functions.numbers import NUMBER_FUNCTIONS
from cepkit.compile.match_recognize.functions.texts import TEXT_FUNCTIONS
from cepkit.events import BOOLEAN, FLOAT, INTEGER, OTHER, TEXT


def _element_at(items: Sequence[Any] | Mapping[Any, Any], key: Any) -> Any:
    """Return the value of a key, or the item of a list, counted from 1, or from its end below 0."""
    if isinstance(items, Mapping):
        return items.get(key)
    if key == 0:
        raise ValueError("lists begin at 1")
    place = key - 1 if key > 0 else len(items) + key
    return items[place] if 0 <= place < len(items) else None


def _joined(items: Sequence[Any], separator: str, instead_of_null: str | None = None) -> str:
    texts = (instead_of_null if item is None else str(item) for item in items)
    return separator.join(text for text in texts if text is not None)


def _joined_with(separator: str, *items: Any) -> str:
    lists = (item if isinstance(item, list | tuple) else [item] for item in items)
    return _joined([part for parts in lists for part in parts], separator)


def _without(item: Any, other: Any) -> Any:
    return None if item == other else item


# The type of the first argument, where no type is written. A null argument makes a null.
STRICT_FUNCTIONS: dict[str, tuple[Callable[..., Any], str | None]] = {
    "abs": (abs, None), "sqrt": (math.sqrt, FLOAT), "exp": (math.exp, FLOAT), "ln": (math.log, FLOAT),
    "log": (logarithm, FLOAT), "log2": (math.log2, FLOAT), "log10": (math.log10, FLOAT),
    "floor": (math.floor, INTEGER), "ceil": (math.ceil, INTEGER), "ceiling": (math.ceil, INTEGER),
    "round": (rounded, None), "sign": (lambda x: (x > 0) - (x < 0), INTEGER), "power": (math.pow, FLOAT),
    "mod": (remainder, None), "least": (min, None), "greatest": (max, None), "lower": (str.lower, TEXT),
    "upper": (str.upper, TEXT), "length": (len, INTEGER), "concat": (lambda *x: "".join(map(str, x)), TEXT),
    "contains": (operator.contains, BOOLEAN), "starts_with": (str.startswith, BOOLEAN),
    "ends_with": (str.endswith, BOOLEAN), "cardinality": (len, INTEGER), "array_join": (_joined, TEXT),
    "element_at": (_element_at, OTHER),
} | NUMBER_FUNCTIONS | TEXT_FUNCTIONS  # fmt: skip
# These take nulls.
LENIENT_FUNCTIONS: dict[str, tuple[Callable[..., Any], str | None]] = {
    "concat_ws": (
        lambda separator, *items: None if separator is None else _joined_with(separator, *items),
        TEXT,
    ),
    "nullif": (_without, None),
}
