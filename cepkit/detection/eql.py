"""`eql`: run queries of EQL on frames."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from cepkit.compile.shared.loading import load_kernels
from cepkit.detection.columns import EventColumns
from cepkit.detection.conditions import ELASTIC, ENDGAME, EqlConditions
from cepkit.errors import CepError, UnsupportedQueryError, nearest
from cepkit.events import Frame
from cepkit.frames.sources import collected, source_of_frame
from cepkit.frames.united import are_frames, unite
from cepkit.language.eql import EVENT, JOIN, SEQUENCE, EqlField, EqlItem, EqlPipe, EqlQuery, parse_eql
from cepkit.language.expressions import trees as ex
from cepkit.planning.queries import names_keywords
from cepkit.progress import checkpoint
from cepkit.values import dataclass, replace

# Sequences, samples and joins of EQL: the events of their items, by key, as rows of positions.

KERNELS = "cepkit.kernels.groups"


@dataclass(frozen=True, slots=True)
class ItemEvents:
    """The events of an item, in order, and the code of their keys; events without a key are left out."""

    item: EqlItem
    positions: np.ndarray  # int64, (n,)
    keys: np.ndarray  # int64, (n,)


def find_sequences(query: EqlQuery, conditions: EqlConditions, ignores_case: bool) -> np.ndarray:
    """Return the events of each sequence, sample or join, int64, (n, n_items); -1 for a missing item."""
    columns = conditions.columns
    span = -1 if query.maxspan is None else columns.ticks_of("maxspan", query.maxspan)
    items = [replace(item, runs=1) for item in query.items for _ in range(item.runs)]
    until = [] if query.until is None else [query.until]
    events = list(_events_of_items(query, [*items, *until], conditions, ignores_case))
    ends = events.pop() if until else None
    checkpoint()
    if query.kind != SEQUENCE:
        rows = list(_joined(events, ends) if query.kind == JOIN else _sampled(events))
        results = np.array(rows, np.int64).reshape(-1, len(items))
        return results if query.kind == JOIN else results[_order_of_samples(query, conditions, results)]
    places = [i for i, item in enumerate(items) if not item.is_missing]
    events_of_match, keys = _followed([events[i] for i in places], ends, columns, span)
    matches = np.full((len(events_of_match), len(items)), -1)
    matches[:, places] = events_of_match
    is_kept = _without_missing(matches, keys, events, columns.ticks, span)
    return matches[is_kept]


def _events_of_items(
    query: EqlQuery, items: Sequence[EqlItem], conditions: EqlConditions, ignores_case: bool
) -> Iterator[ItemEvents]:
    """Yield the events of each item, with codes of keys that all items share."""
    positions_of_event: dict[int, np.ndarray] = {}
    for item in items:
        if id(item.event) not in positions_of_event:
            positions_of_event[id(item.event)] = np.flatnonzero(conditions.mask(item.event))
    positions = [positions_of_event[id(item.event)] for item in items]
    border = np.cumsum([0, *map(len, positions)])  # the events of item i are from border[i] to border[i + 1]
    joint, is_valid = np.zeros(border[-1], np.int64), np.ones(border[-1], bool)
    for place in range(len(query.by) + len(items[0].by)):
        numbers: dict[Any, int] = {}
        codes = np.empty(border[-1], np.int64)
        for i, item in enumerate(items):
            node = (*query.by, *item.by)[place]
            local, values = conditions.values(node, positions[i][:, None])
            keys = [key_of_value(value, ignores_case) for value in values]
            code_of_key = np.array([numbers.setdefault(key, len(numbers)) for key in keys], np.int64)
            codes[border[i] : border[i + 1]] = code_of_key[local]
            if not (isinstance(node, EqlField) and node.is_optional):
                is_null = np.array([value is None for value in values], bool)
                is_valid[border[i] : border[i + 1]] &= ~is_null[local]
        joint = pd.factorize(joint * len(numbers) + codes)[0] if len(codes) else codes
    for i, item in enumerate(items):
        part = slice(border[i], border[i + 1])
        yield ItemEvents(item, positions[i][is_valid[part]], joint[part][is_valid[part]])


def key_of_value(value: Any, ignores_case: bool) -> Any:
    """Return a value as a key; lists and dictionaries are equal if their texts are."""
    if isinstance(value, str):
        return value.lower() if ignores_case else value
    return str(value) if isinstance(value, list | dict) else value


def _followed(
    events: Sequence[ItemEvents], ends: ItemEvents | None, columns: EventColumns, span: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the events of each sequence of these items, in the order of last events, and its key."""
    stages = [*enumerate(events), *([(-1, ends)] if ends is not None else [])]
    position = np.concatenate([item.positions for _, item in stages])
    stage = np.concatenate([np.full(len(item.positions), number) for number, item in stages])
    key = np.concatenate([item.keys for _, item in stages])
    order = np.lexsort((-stage, position))  # of one event, later items come first, so it is not two of them
    position, stage, key = (np.ascontiguousarray(part[order], np.int64) for part in (position, stage, key))
    ticks = columns.ticks[position] if len(position) else position
    n_stages, forks = len(events), np.array([item.item.forks for item in events])
    waiting = np.full((int(key.max(initial=-1)) + 1, n_stages), -1)
    before, first, done = np.empty((3, len(position)), np.int64)  # the kernel fills them
    n_done = load_kernels(KERNELS).follow(
        position, stage, key, ticks, span if ticks.dtype.kind == "i" else float(span), forks, waiting,
        before, first, done,
    )  # fmt: skip
    entry = done[:n_done]
    keys, followed = key[entry], np.empty((n_done, n_stages), np.int64)
    for place in range(n_stages - 1, -1, -1):
        followed[:, place] = position[entry]
        entry = before[entry]
    return followed, keys


def _without_missing(
    matches: np.ndarray, keys: np.ndarray, events: Sequence[ItemEvents], ticks: np.ndarray, span: int
) -> np.ndarray:
    """Return which matches have no event of their missing items."""
    # Between two items that are there, no event may be. Before the first one, it may not be within the span
    # of the last one, and after the last one not within the span of the first one. If items on both ends are
    # missing, a match is dropped when events of both lie within one span, as Elastic does.
    is_kept = np.ones(len(matches), bool)
    there = [i for i, item in enumerate(events) if not item.item.is_missing]
    if len(there) == len(events) or not len(matches):
        return is_kept
    n = len(ticks) + 1
    first, last = matches[:, there[0]], matches[:, there[-1]]
    leading, trailing = np.full((2, len(matches)), -1)  # the nearest event of missing items on both ends
    for i, missing in enumerate(events):
        if not missing.item.is_missing:
            continue
        places = np.sort(missing.keys * n + missing.positions)
        if i < there[0]:
            low, high = np.searchsorted(ticks, ticks[last] - span, "left") - 1, first
        elif i > there[-1]:
            low, high = last, np.searchsorted(ticks, ticks[first] + span, "right")
        else:
            before, after = max(j for j in there if j < i), min(j for j in there if j > i)
            low, high = matches[:, before], matches[:, after]
        begin = np.searchsorted(places, keys * n + low, "right")
        end = np.searchsorted(places, keys * n + high, "left")
        has_event = end > begin
        if i < there[0]:
            leading[has_event] = np.maximum(leading, places[end - 1] % n if len(places) else -1)[has_event]
        elif i > there[-1]:
            nearest = places[np.minimum(begin, len(places) - 1)] % n if len(places) else leading
            is_nearer = has_event & ((trailing < 0) | (nearest < trailing))
            trailing[is_nearer] = nearest[is_nearer]
        else:
            is_kept &= ~has_event
    if there[0] > 0 and there[-1] < len(events) - 1:
        is_both = (leading >= 0) & (trailing >= 0)
        return is_kept & ~(is_both & (ticks[trailing] - ticks[leading] <= span))
    return is_kept & (leading < 0) & (trailing < 0)


def _joined(events: Sequence[ItemEvents], ends: ItemEvents | None) -> Iterator[list[int]]:
    """Yield the joins: of each key the first event of every item, in any order, again and again."""
    entries = [
        (position, number, key)
        for number, item in [*enumerate(events), *([(len(events), ends)] if ends is not None else [])]
        for position, key in zip(item.positions.tolist(), item.keys.tolist(), strict=True)
    ]
    waiting: dict[int, dict[int, int]] = {}
    for position, number, key in sorted(entries):
        if number == len(events):
            waiting.pop(key, None)
            continue
        parts = waiting.setdefault(key, {})
        parts.setdefault(number, position)
        if len(parts) == len(events):
            yield [parts[place] for place in range(len(events))]
            del waiting[key]


def _sampled(events: Sequence[ItemEvents]) -> Iterator[list[int]]:
    """Yield a sample of each key that has one: different events for all items, the first possible ones."""
    positions_of_key: dict[int, list[list[int]]] = {}  # of each item
    for number, item in enumerate(events):
        for position, key in zip(item.positions.tolist(), item.keys.tolist(), strict=True):
            positions = positions_of_key.setdefault(key, [[] for _ in events])
            if len(positions[number]) < len(events):  # more are never needed for different events
                positions[number].append(position)

    def complete(sample: list[int], positions: list[list[int]]) -> Iterator[list[int]]:
        """Yield all samples that begin with these events."""
        if len(sample) == len(positions):
            yield sample
            return
        for position in positions[len(sample)]:
            if position not in sample:
                yield from complete([*sample, position], positions)

    for positions in positions_of_key.values():
        yield from islice(complete([], positions), 1)


def _order_of_samples(query: EqlQuery, conditions: EqlConditions, samples: np.ndarray) -> list[int]:
    columns = [conditions.values(node, samples[:, :1]) for node in (*query.by, *query.items[0].by)]
    keys = [[sort_key(values[code]) for code in codes.tolist()] for codes, values in columns]
    return sorted(range(len(samples)), key=lambda i: [column[i] for column in keys])


def sort_key(value: Any) -> tuple:
    """Return a key that puts null first, then truths and numbers, then times, then texts."""
    if value is None:
        return (0, 0)
    if isinstance(value, int | float):
        return (1, value)
    return (2, value) if isinstance(value, pd.Timestamp | pd.Timedelta) else (3, str(value))


CATEGORY = "event.category"


@names_keywords
def eql(
    text: str, events: Frame, *, order_by: str | Sequence[str] | None = None, event_category: str = CATEGORY,
    fields: Mapping[str, str | None] | None = None, dialect: str = ELASTIC,
) -> Frame:  # fmt: skip
    """Run a query of EQL on events, with the answer that Elastic gives.

    Parameters
    ----------
    text : str
        A query of EQL: ``process where …``, ``sequence``, ``sample`` or ``join``, with pipes.
    events : DataFrame or table, or mapping of str to them
        pandas, Arrow or polars; a row is an event. A mapping has the events of each category.
    order_by : str or list of str, optional
        Columns; the first is the clock. Default: ``@timestamp``, or a DatetimeIndex. Rows that are equal in
        them keep their order.
    event_category : str
        The field with the category of the event, such as ``"process"``.
    fields : mapping of str to str or None, optional
        The columns of fields, such as ``{"process.name": "exe"}``. Without an entry, a field is the column
        of its name, or an entry of the dictionaries in the column before the dot. None stands for a field
        that no event has.
    dialect : str
        ``"elastic"`` or ``"endgame"``. In EQL of Endgame, comparisons and functions ignore case, ``==``
        knows wildcards, ``=`` is ``==``, and a field without a column is null.

    Returns
    -------
    DataFrame or table
        The same kind as the frame. For single events: their rows, in order. Otherwise one row per event of
        each sequence, ordered by last events, samples by their keys. Two columns come first: ``sequence``,
        its number from 1, and ``step``, the number of the item from 1. Items that are missing have no row.
        ``| count`` gives one row per key with ``count`` and ``percent``, and ``| unique_count`` has both as
        first columns.

    Raises
    ------
    PatternSyntaxError
        If the text is not EQL.
    ColumnNotFoundError
        For a field without a column. Optional fields, ``?user.id``, are null instead.
    PredicateError
        For unknown functions, and for values that cannot be compared.
    UnsupportedQueryError
        For Spark frames.
    CepError
        For ``maxspan`` without a clock.

    Notes
    -----
    A condition is computed once for each distinct combination of the values that it reads. Sequences take
    time O(events of the items). For each key, a sequence waits at most once for each item: a newer one
    replaces an older one. A missing event ``![…]`` drops complete sequences, it does not end partial ones.
    Differs: all events are in the result, where Elastic gives ten without ``head``. A whole number beside
    ``:`` is compared as text. Texts after ``regex`` are regular expressions of Python.
    Source: Elastic, "EQL syntax reference".

    Examples
    --------
    >>> import cepkit as cep
    >>> import pandas as pd
    >>> log = pd.DataFrame({
    ...     "@timestamp": pd.to_datetime("2024-05-01 09:00") + pd.to_timedelta([0, 1, 2, 9], unit="min"),
    ...     "event.category": ["process", "process", "network", "network"],
    ...     "process.name": ["cmd.exe", "certutil.exe", "certutil.exe", "cmd.exe"], "pid": [4, 7, 7, 4]})
    >>> cep.eql('''sequence by pid with maxspan=5m
    ...     [process where process.name : "CERT*"]
    ...     [network where true]''', log)[["sequence", "step", "process.name", "pid"]]
       sequence  step  process.name  pid
    1         1     1  certutil.exe    7
    2         1     2  certutil.exe    7
    """
    if dialect not in (ELASTIC, ENDGAME):
        raise CepError(f"dialect={dialect!r}.{nearest(dialect, (ELASTIC, ENDGAME))} 'elastic' or 'endgame'")
    query = parse_eql(text)
    if are_frames(events):
        events = unite(events, event_category)
    columns, native = columns_of("EQL", events, order_by, fields)
    conditions = EqlConditions(columns, text, dialect, event_category)
    return native(_Answer(query, conditions, dialect == ENDGAME).frame())


def columns_of(language: str, events: Frame, order_by: Any, fields: Any) -> tuple[EventColumns, Any]:
    """Return the columns of a frame in memory, and the function that makes results of its kind."""
    if type(events).__module__.startswith("pyspark."):
        raise UnsupportedQueryError(
            f"{language} runs on frames in memory, and this one is of Spark; select the rows and columns "
            "that the rule needs, and call toPandas() or toArrow()"
        )
    source, native = source_of_frame(collected(events))
    return EventColumns(source, order_by, fields), native


class _Answer:
    """The events of a query, from pipe to pipe: int64 (n_results, n_items), -1 for a missing item."""

    def __init__(self, query: EqlQuery, conditions: EqlConditions, ignores_case: bool):
        self._query, self._conditions, self._ignores_case = query, conditions, ignores_case
        self._counts: dict[str, np.ndarray] = {}
        self._table: dict[str, pa.Array] | None = None

    def frame(self) -> Frame:
        """Return the events of the query as a frame."""
        query, columns = self._query, self._conditions.columns
        if query.kind == EVENT:
            positions = np.flatnonzero(self._conditions.mask(query.items[0].event))[:, None]
        else:
            positions = find_sequences(query, self._conditions, self._ignores_case)
        for pipe in query.pipes:
            positions = self._piped(pipe, positions)
        if self._table is not None:
            return columns.source.result(self._table)
        is_there = positions >= 0
        added = {name: np.repeat(counts, is_there.sum(axis=1)) for name, counts in self._counts.items()}
        if query.kind != EVENT:
            number, step = np.nonzero(is_there)
            added = {"sequence": number + 1, "step": step + 1, **added}
        return columns.frame(positions[is_there], added)

    def _piped(self, pipe: EqlPipe, positions: np.ndarray) -> np.ndarray:
        """Return the results that a pipe lets through, in its order."""
        if self._table is not None:
            raise UnsupportedQueryError(f"count ends a query, and | {pipe.name} follows it")
        self._conditions.counts = self._counts
        picked: Any
        match pipe.name, pipe.arguments:
            case "head" | "tail" as name, (ex.Literal(value=int(count)),):
                picked = slice(0, count) if name == "head" else slice(max(0, len(positions) - count), None)
            case "filter", (condition,):
                picked = self._conditions.truth(condition, positions)[0]
            case "sort", _:
                keys = self._keys(pipe, positions)
                picked = sorted(range(len(keys)), key=lambda i: [sort_key(value) for value in keys[i]])
            case _:
                return self._grouped(pipe, positions)
        self._counts = {name: counts[picked] for name, counts in self._counts.items()}
        return positions[picked]

    def _grouped(self, pipe: EqlPipe, positions: np.ndarray) -> np.ndarray:
        """Return the first result of each key. ``count`` puts the least counts first."""
        keys = self._keys(pipe, positions)
        number_of_key: dict[tuple, int] = {}
        numbers = np.array([number_of_key.setdefault(key, len(number_of_key)) for key in keys], np.int64)
        first = np.unique(numbers, return_index=True)[1]
        if pipe.name == "unique":
            self._counts = {name: counts[first] for name, counts in self._counts.items()}
            return positions[first]
        counts = np.bincount(numbers, minlength=len(first)).astype(np.int64)
        order = np.argsort(counts, kind="stable") if pipe.name == "count" else np.arange(len(counts))
        if pipe.name == "count" and not pipe.arguments:
            order, counts = np.zeros(1, np.int64), np.array([len(keys)])
        self._counts = {"count": counts[order], "percent": counts[order] / max(1, len(keys))}
        if pipe.name == "count":
            distinct = [list(number_of_key)[i] for i in order.tolist()] if pipe.arguments else []
            names = [self._query.text[slice(*(node.span or (0, 0)))] for node in pipe.arguments]
            shown = {name: pa.array([key[i] for key in distinct]) for i, name in enumerate(names)}
            self._table = {name: pa.array(counts) for name, counts in self._counts.items()} | shown
            return positions
        return positions[first[order]]

    def _keys(self, pipe: EqlPipe, positions: np.ndarray) -> list[tuple]:
        """Return the values of a pipe's expressions for each result."""
        columns = []
        for node in pipe.arguments:
            codes, values = self._conditions.values(node, positions)
            cased = [key_of_value(value, self._ignores_case) for value in values]
            columns.append([cased[code] for code in codes.tolist()])
        return list(zip(*columns, strict=True)) if columns else [()] * len(positions)
