"""The plan cache, and the compilation of a query for a frame with every check that needs no rows."""

from __future__ import annotations

import datetime
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import fields, replace
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pandas as pd

from cepkit.engines.regex_measures import measure_expressions
from cepkit.errors import CepError, column_not_found, keep_warnings, nearest, warn
from cepkit.events import NULL_INTEGER, ColumnType, Events, Source
from cepkit.language.expressions.functions import registered_functions
from cepkit.language.expressions.trees import Attribute, Comparison, Literal, Reference
from cepkit.language.regex import RegexQuery
from cepkit.planning.clocks import check_clock, warn_of_bare_duration
from cepkit.progress import free_after_fork

if TYPE_CHECKING:
    from cepkit.compile.regex_program import Program
    from cepkit.compile.sequence_program import SequenceProgram
    from cepkit.language.sequences.patterns import SequenceQuery


# The plan cache: the queries and the programs of earlier calls, found again by value.

_T = TypeVar("_T")
_MOST_ITEMS = 1000  # of a list or mapping in a key
_MOST_PARTS = 10_000  # of a key; a query built in Python may contain one part very often
_lock = threading.Lock()
free_after_fork(_lock)


class Recent:
    """A mapping that drops what was used least recently. Threads may share it."""

    def __init__(self, most: int):
        self._most = most
        self._kept: OrderedDict[Hashable, Any] = OrderedDict()

    def get(self, key: Hashable) -> Any:
        """Return the value of a key, or None."""
        with _lock:
            if (value := self._kept.get(key)) is not None:
                self._kept.move_to_end(key)
            return value

    def keep(self, key: Hashable, value: Any) -> None:
        """Keep the value of a key; another value of the key gives way."""
        with _lock:
            self._kept[key] = value
            self._kept.move_to_end(key)
            if len(self._kept) > self._most:
                self._kept.popitem(last=False)

    def clear(self) -> None:
        """Drop everything."""
        with _lock:
            self._kept.clear()

    def __len__(self) -> int:
        return len(self._kept)


# --- keys


class Same:
    """An object that equals itself only, and lives as long as a key holds it."""

    __slots__ = ("item",)

    def __init__(self, item: object):
        self.item = item

    def __eq__(self, other: object) -> bool:
        return type(other) is Same and other.item is self.item

    def __hash__(self) -> int:
        return id(self.item)


class NotAValueError(Exception):
    """A key would need an object that may change, or whose equality says too little."""


# Equal numbers of different types, such as 1, 1.0 and True, are different values here; so are 0.0 and -0.0.
_SPELLED = (
    float, complex, Decimal, datetime.date, datetime.time, datetime.timedelta, datetime.tzinfo, np.generic,
    type(pd.NaT), type(pd.NA),
)  # fmt: skip


def key_of(value: Any) -> Hashable:
    """Return a key that is equal for equal values. Functions are equal to themselves only."""
    return _key(value, [_MOST_PARTS])


def _key(value: Any, budget: list[int]) -> Hashable:
    """Return a value as part of a key; ``budget`` limits how many parts the key has."""
    budget[0] -= 1
    if budget[0] < 0:
        raise NotAValueError
    kind = type(value)
    if kind is str or value is None:
        return value
    if kind is int or kind is bool:
        return kind, value
    if kind is dict or kind is list or issubclass(kind, tuple):
        if len(value) > _MOST_ITEMS:
            raise NotAValueError
        items = value.items() if kind is dict else value
        return kind, *(_key(item, budget) for item in items)
    if isinstance(value, _SPELLED):
        return kind, repr(value)
    if getattr(kind, "__dataclass_params__", None) is not None and kind.__dataclass_params__.frozen:
        return kind, *(_key(getattr(value, item.name), budget) for item in fields(value))
    if kind is Same:
        return value
    if callable(value):
        return kind, Same(value)
    raise NotAValueError


def key_or_none(*values: Any) -> Hashable | None:
    """Return the key of several values, or None if one of them has none."""
    try:
        return key_of(values)
    except (NotAValueError, RecursionError):
        return None


# --- what depends on the types of a source


class _Types(Mapping[str, ColumnType]):
    """The types of a source, with a note of each one that somebody asked for."""

    def __init__(self, schema: Mapping[str, ColumnType], asked: dict[str, ColumnType]):
        self._schema, self.asked = schema, asked

    def __getitem__(self, name: str) -> ColumnType:
        column_type = self.asked[name] = self._schema[name]
        return column_type

    def __contains__(self, name: object) -> bool:
        return name in self._schema

    def __iter__(self) -> Iterator[str]:
        return iter(self._schema)

    def __len__(self) -> int:
        return len(self._schema)


def known_types(schema: Mapping[str, ColumnType]) -> Mapping[str, ColumnType]:
    """Return the types that somebody asked for, for a result that is kept; other schemas are unchanged."""
    return dict(schema.asked) if isinstance(schema, _Types) else schema


class _Watched:
    """A source that notes the types that a compilation asks for, and whether it asks for anything else."""

    def __init__(self, source: Source):
        self._source = source
        self.asked: dict[str, ColumnType] = {}
        self.needs_types_only = True
        self.schema = _Types(source.schema, self.asked)
        self.duplicates, self.clock = source.duplicates, source.clock

    def arrow(self, name: str, rows: np.ndarray) -> Any:
        """Return values as an Arrow array; without rows, the types decide what it is."""
        self.needs_types_only &= not len(rows)  # rows that are read decide, too
        self.schema[name]  # notes that the column is read
        return self._source.arrow(name, rows)

    def __getattr__(self, name: str) -> Any:
        self.needs_types_only = False
        return getattr(self._source, name)


class Plans:
    """Results of a function of a query and the types of a source, for queries that were seen before."""

    # A result is used again for sources with the same names of columns, and equal types in all columns whose
    # type the function asked for. It must hold neither the source nor its schema: `known_types` has the
    # types.

    def __init__(self, most: int):
        self._kept = Recent(most)

    def get(self, key: Hashable | None, source: Source, make: Callable[[Any], _T]) -> _T:
        """Return ``make(source)``, or the result for an equal key and equal types; it warns each time."""
        # No key, or None, keeps nothing. Errors are not kept.
        storage = getattr(source, "storage", None)
        if key is None or storage is None:
            return make(source)
        key = key, source.clock, source.duplicates, tuple(source.schema)
        entries: tuple = self._kept.get(key) or ()
        for types, result, messages in entries:
            if all(
                source.schema[name] == column_type and storage(name) == how
                for name, column_type, how in types
            ):
                _say(messages)
                return result
        watched = _Watched(source)
        result, messages = _made(lambda: make(watched))
        if watched.needs_types_only:
            types = tuple((name, column_type, storage(name)) for name, column_type in watched.asked.items())
            if all(how is not None for _, _, how in types):
                self._kept.keep(key, ((types, result, messages), *entries[: _MOST_SCHEMAS - 1]))
        return result

    def clear(self) -> None:
        """Drop everything."""
        self._kept.clear()


_MOST_SCHEMAS = 8  # of one query and the same names of columns


def remembered(kept: Recent, key: Hashable | None, make: Callable[[], _T]) -> _T:
    """Return ``make()``, or what it returned for an equal key. It warns each time; errors are not kept."""
    if key is None:
        return make()
    if (entry := kept.get(key)) is None:
        entry = _made(make)
        kept.keep(key, entry)
        return entry[0]
    _say(entry[1])
    return entry[0]


def _made(make: Callable[[], _T]) -> tuple[_T, tuple]:
    """Return a result and the warnings on the way, which are issued at the end."""
    messages: list = []
    try:
        with keep_warnings() as messages:
            result = make()
    finally:
        _say(messages)
    return result, tuple(messages)


def _say(said: Iterable) -> None:
    """Warn again with warnings that were kept."""
    for message, category in said:
        warn(message, category)


# Compilation of a query for a frame, with every check and warning that needs no rows.

_programs = Plans(128)


def compile_checked(value: RegexQuery | SequenceQuery, source: Source) -> Program | SequenceProgram:
    """Compile ``value`` for a source, with every check that needs no rows, also of the measures."""
    # A query without ``order_by`` is ordered by the clock of the source, if it has one. The same query and
    # equal types return the same program, which has the types of the columns that it needs.
    key = key_or_none(Same(value), registered_functions())
    return _programs.get(key, source, partial(_compile, value))


def _compile(value: RegexQuery | SequenceQuery, source: Source) -> Program | SequenceProgram:
    """Return the program of a query for the columns of a frame. Raise for what does not fit."""
    if not value.order_by and source.clock is not None:
        value = replace(value, order_by=(source.clock,))
    check_columns(source, "partition_by", value.partition_by)
    check_columns(source, "order_by", value.order_by)
    check_clock(value, source)
    _check_ambiguous_names(value, source)
    none = np.empty(0, np.int64)
    no_events = Events(0, {}, np.empty(0, np.int32), 0)
    program: Program | SequenceProgram
    if isinstance(value, RegexQuery):
        from cepkit.compile.regex_program import compile_regex
        from cepkit.engines.regex_measures import measure
        from cepkit.engines.shared.match_set import MatchSet

        program = compile_regex(value, source.schema)
        # Computing the measures of an empty result finds their errors before any rows are read.
        measure(value, MatchSet(no_events, none, none), source, lambda _: np.empty(0, object))
    else:
        from cepkit.compile.sequence_program import compile_sequence
        from cepkit.engines.sequence_measures import sequence_measures
        from cepkit.engines.shared.sequence_set import EMPTY
        from cepkit.language.sequences.checks import check_ready

        check_ready(value)
        if value.event_type is not None:
            check_columns(source, "event_type", (value.event_type,))
        program = compile_sequence(value, source.schema)
        sequence_measures(program, no_events, EMPTY, source)
    _check_result_names(value)
    if value.order_by and (clock := source.schema.get(value.order_by[0])) is not None:
        for role in ("within", "gap_within"):
            warn_of_bare_duration(role, getattr(value, role, None), clock, value.order_by[0])
    _warn_of_null_comparisons(value)
    if not program.pure:
        impure = [name for name, function in program.functions.items() if not function.pure]
        warn(
            f"{impure} is not declared pure, so the events are matched on one thread; "
            "declare it with @cep.pure if its result depends on its arguments alone"
        )
    return replace(program, schema=known_types(source.schema))


def check_columns(source: Source, role: str, names: tuple[str, ...]) -> None:
    """Raise the error for names that no column has or that several columns have."""
    for name in names:
        if not isinstance(name, str) or name not in source.schema:
            raise column_not_found(role, name, source.schema)
        if name in source.duplicates:
            raise CepError(f"{role}: column {name!r} occurs more than once; rename or drop one of them")


def _warn_of_null_comparisons(value: RegexQuery | SequenceQuery) -> None:
    """Warn of comparisons with null, which are never true."""
    for role, tree in value.trees():
        for node in tree.walk(literals=False):
            if isinstance(node, Comparison) and any(
                isinstance(side, Literal) and side.value is None for side in (node.left, node.right)
            ):
                kept = node.right if isinstance(node.left, Literal) else node.left
                wanted = f"{kept} is not null" if node.operator == "!=" else f"{kept} is null"
                warn(
                    f"{role}: '{node}' is never true because nothing equals or differs from NULL; "
                    f"write '{wanted}'"
                )


def _check_ambiguous_names(value: RegexQuery | SequenceQuery, source: Source) -> None:
    """Raise if an expression reads a name that several columns have."""
    for role, expression in [*value.trees(), *(("measures", tree) for _, tree in _measures(value))]:
        names = {
            part.name for part in expression.walk(literals=False) if isinstance(part, Attribute | Reference)
        }
        check_columns(source, role, tuple(sorted(names & source.duplicates)))


def _measures(value: RegexQuery | SequenceQuery) -> tuple[tuple[str, Any], ...]:
    if isinstance(value, RegexQuery):
        return measure_expressions(value)
    if value.measures is not None:
        return value.measures
    from cepkit.engines.sequence_measures import default_measures

    return default_measures(value)


def _check_result_names(value: RegexQuery | SequenceQuery) -> None:
    names = [*value.partition_by, *(name for name, _ in _measures(value))]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise CepError(f"the result would have the columns {twice} twice; give the measures other names")


_TYPES_COMPARED = 10_000  # so that a column of many texts costs no time


def warn_of_unknown_types(program: Program | SequenceProgram, events: Events) -> None:
    """Warn of event types that a query names and the column of event types does not have."""
    for name, wanted in _named_types(program.query).items():
        column = events.columns.get(name)
        if column is None or not events.n_events:
            continue
        if column.categories is not None:
            types = column.categories.tolist()
            unknown = [event_type for event_type in wanted if event_type not in types]
            types = types[:_TYPES_COMPARED]
        else:
            unknown = [event_type for event_type in wanted if not (column.values == event_type).any()]
            types = [
                event_type
                for event_type in np.unique(column.values[:_TYPES_COMPARED]).tolist()
                if event_type != NULL_INTEGER
            ]
        if unknown:
            shown = f"{types[:20]}{' …' if len(types) > 20 else ''}" if types else "no values"
            warn(
                f"the column of event types, {name!r}, never has {', '.join(map(repr, unknown))}."
                f"{nearest(str(unknown[0]), map(str, types))} It has {shown}"
            )


def _named_types(query: RegexQuery | SequenceQuery) -> dict[str, list[Any]]:
    """Return the event types that a query names, by the column of event types."""
    if isinstance(query, RegexQuery):
        texts, named = dict(query.sources), {}
        for name, tree in query.define:
            match tree:  # a name of the pattern that is a value of the column has no text of its own
                case Comparison("==", Attribute(column), Literal(value)) if value == name:
                    if f"predicate {name!r}" not in texts:
                        named.setdefault(column, []).append(name)
        return named
    if getattr(query, "event_type", None) is None:  # also rows of MATCH_RECOGNIZE
        return {}
    from cepkit.language.sequences.patterns import event_patterns

    wanted = dict.fromkeys(event.event_type for event in event_patterns(query.pattern))
    return {query.event_type: [event_type for event_type in wanted if event_type is not None]}
