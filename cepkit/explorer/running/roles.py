"""The roles of a frame's columns, as a person would guess them from names and first rows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from cepkit.events import (
    DURATION,
    FLOAT,
    INTEGER,
    NUMBERS,
    TEXT,
    TIME,
    Column,
    ColumnType,
    Source,
    nulls,
)
from cepkit.values import dataclass

MOST_TYPES = 24  # a column of event types has at most this many values
_REPEATS = 1.5  # rows of a key, on average
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_DATE = re.compile(r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d|$)")

# Words of names, the most telling first.
_CLOCKS = [
    "ts", "timestamp", "datetime", "time", "date", "at", "when", "epoch", "created", "occurred",
    "logged", "t", "tick", "ms", "seconds", "minute", "step",
]  # fmt: skip
_TYPES = [
    "event", "action", "activity", "concept", "type", "kind", "status", "state", "level", "severity",
    "stage", "step", "outcome", "result", "operation", "op", "method", "command", "verb", "signal",
    "phase", "mode", "category",
]  # fmt: skip
_KEYS = [
    "symbol", "ticker", "instrument", "isin", "stock", "asset", "coin", "pair", "case", "order",
    "ticket", "incident", "trace", "job", "task", "claim", "shipment", "parcel", "trip", "flight",
    "user", "visitor", "customer", "account", "client", "member", "person", "patient", "player",
    "driver", "employee", "student", "uid", "cookie", "email", "card", "session", "device", "sensor",
    "machine", "host", "server", "vehicle", "car", "truck", "meter", "station", "node", "service",
    "container", "pod", "unit", "engine", "pump", "room", "zone", "site", "ip", "source", "item", "sku",
    "product", "store", "shop", "entity", "group", "key", "id",
]  # fmt: skip
_PERSONS = _KEYS[_KEYS.index("user") : _KEYS.index("session")]
_MEASURES = ["price", "close", "value", "amount"]
_IDS = {"id", "ids", "uuid", "guid"}
_OF_IDENTIFIERS = {*_IDS, "number", "no", "nr", "code", "name", "concept", "hash", "ref"}
_OF_NUMBERS = [
    "row", "index", "idx", "request", "transaction", "txn", "trade", "message", "msg", "record", "line",
    "seq", "sequence", "port", "zip",
]  # fmt: skip
_FREE_TEXTS = {"page", "url", "path", "message", "msg", "text", "comment", "description", "referrer", "agent"}


def _words(name: str) -> list[str]:
    words = [word.lower() for word in _WORD.findall(name)]
    joined = name.lower()
    if len(words) == 1 and joined.endswith("id") and joined[:-2] in {*_KEYS, *_OF_NUMBERS, *_TYPES}:
        return [joined[:-2], "id"]
    return words


def _rank(name: str, telling: list[str]) -> int | None:
    """Return the place of a name among telling words; None if it has none of them."""
    return min((telling.index(word) for word in _words(name) if word in telling), default=None)


def is_identifier(name: str) -> bool:
    """Return whether the name is one of an identifier or a code, whose size says nothing."""
    words = [word for word in _words(name) if not word.isdecimal()]
    known = {*_KEYS, *_OF_IDENTIFIERS, *_OF_NUMBERS, *_TYPES}
    return bool(words) and (words[-1] in _IDS or all(word in known for word in words))


def measures_first(names: Iterable[str]) -> list[str]:
    """Return columns of numbers, measures before identifiers, and prices first."""
    return sorted(names, key=lambda name: (is_identifier(name), _rank(name, _MEASURES) is None))


@dataclass(frozen=True, slots=True)
class Roles:
    """The guessed columns; None where nothing fits."""

    clock: str | None
    key: str | None
    event_type: str | None

    def call(self) -> dict[str, Any]:
        """Return the guess as keywords of `cepkit.match`."""
        key = None if self.key is None else [self.key]
        named = {"partition_by": key, "order_by": self.clock, "event_type": self.event_type}
        return {name: value for name, value in named.items() if value is not None}


def guess_roles(head: Source, source: Source, call: Mapping[str, Any]) -> Roles:
    """Return the roles of columns that ``call`` does not have; ``head`` has the first rows of ``source``."""
    usable = {name: dtype for name, dtype in head.schema.items() if name not in head.duplicates}
    taken = {name for role in call.values() for name in ([role] if isinstance(role, str) else role or ())}
    clock = None if "order_by" in call else _clock(head, usable)
    free = [name for name in usable if name not in taken and name != clock]
    n_values = {name: _n_values(head, name) for name in free if usable[name].kind in (TEXT, INTEGER)}
    has_measures = any(_measures(usable, {clock}))
    event_type = None if "event_type" in call else _event_type(usable, n_values, has_measures)
    n_values.pop(event_type, None)
    key = None if "partition_by" in call else _key(head, source, usable, n_values)
    if event_type is None and "event_type" not in call and not has_measures:
        few = [name for name, n in n_values.items() if usable[name].kind == TEXT and 2 <= n <= MOST_TYPES]
        event_type = next((name for name in few if name != key), None)
    return Roles(clock, key, event_type)


def _measures(usable: Mapping[str, ColumnType], taken: set[str | None]) -> Iterable[str]:
    numbers = (name for name, dtype in usable.items() if dtype.kind in NUMBERS and name not in taken)
    return (name for name in numbers if not is_identifier(name))


def _n_values(source: Source, name: str) -> int:
    return len(np.unique(source.column(name).values))


# --- the clock: a column of times that rises


def _clock(head: Source, usable: Mapping[str, ColumnType]) -> str | None:
    times = [name for name, dtype in usable.items() if dtype.kind in (TIME, DURATION)]
    told = {name: _rises(head.column(name)) for name in times}
    whole = {name: rises for name, rises in told.items() if rises is not None}
    if not whole:
        numbers = [name for name, dtype in usable.items() if dtype.kind in (INTEGER, FLOAT)]
        named = {name: _rises(head.column(name)) for name in numbers if _rank(name, _CLOCKS) is not None}
        whole = {name: rises for name, rises in named.items() if rises is not None and rises[0] == 1.0}
    if not whole:
        texts = [name for name, dtype in usable.items() if dtype.kind == TEXT]
        return next((name for name in texts if _has_dates(head.column(name))), None)

    def order(name: str) -> tuple:
        rank, (share, strictly) = _rank(name, _CLOCKS), whole[name]
        return -(share == 1.0), len(_CLOCKS) if rank is None else rank, -share, -strictly

    return min(whole, key=order)


def _rises(column: Column) -> tuple[float, float] | None:
    """Return the share of steps without a fall, and the share of rises; None with missing values."""
    if nulls(column).any():
        return None
    steps = np.diff(column.values)
    return (float((steps >= 0).mean()), float((steps > 0).mean())) if len(steps) else (1.0, 1.0)


def _has_dates(column: Column) -> bool:
    texts = [str(text) for text in column.texts[:50]]
    return bool(texts) and all(_DATE.match(text) for text in texts)


# --- types of events: texts of few values; keys: identifiers that repeat


def _event_type(
    usable: Mapping[str, ColumnType], n_values: Mapping[str, int], has_measures: bool
) -> str | None:
    few = [name for name, n in n_values.items() if 2 <= n <= MOST_TYPES]
    few = [name for name in few if usable[name].kind == TEXT or not has_measures]
    named = [name for name in few if _rank(name, _TYPES) is not None and _words(name)[-1] not in _IDS]
    return min(named, key=lambda name: (usable[name].kind != TEXT, _rank(name, _TYPES)), default=None)


def _key(
    head: Source, source: Source, usable: Mapping[str, ColumnType], n_values: Mapping[str, int]
) -> str | None:
    n_values = {name: n + int(nulls(head.column(name)).sum()) for name, n in n_values.items()}
    rank = {name: _rank(name, _KEYS) for name in n_values if is_identifier(name)}
    named = sorted((name for name in rank if rank[name] is not None), key=lambda name: rank[name] or 0)
    persons = [n_values[name] for name in named if n_values[name] > 1 and _rank(name, _PERSONS) is not None]
    n_most = 10 * min(persons, default=np.inf)  # most clicks belong to no order, but all to a person
    named.sort(key=lambda name: "order" in _words(name) and n_values[name] > n_most)
    for name in named:
        if n_values[name] < 2:
            continue
        if n_values[name] * _REPEATS <= head.n_rows:
            return name
        is_part = head.n_rows < source.n_rows and n_values[name] < head.n_rows
        if is_part and _n_values(source, name) * _REPEATS <= source.n_rows:
            return name
    texts = [name for name in n_values if usable[name].kind == TEXT and not _FREE_TEXTS & {*_words(name)}]
    return next((name for name in texts if 2 <= n_values[name] <= head.n_rows / 20), None)
