"""Compilation of a query for a frame, with every check and warning that needs no rows."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from cepkit.engines.measures.regex_measures import measure_expressions
from cepkit.errors import CepError, column_not_found, nearest, warn
from cepkit.events import NULL_INTEGER, Events, Source
from cepkit.language.expressions.functions import registered_functions
from cepkit.language.expressions.trees import Attribute, Comparison, Literal, Reference
from cepkit.language.regex.query import RegexQuery
from cepkit.planning.clocks import check_clock
from cepkit.planning.plans import Plans, Same, key_or_none, known_types

if TYPE_CHECKING:
    from cepkit.compile.regex.program import Program
    from cepkit.compile.sequences.program import SequenceProgram
    from cepkit.language.sequences.query import SequenceQuery

_programs = Plans(128)


def compile_checked(value: RegexQuery | SequenceQuery, source: Source) -> Program | SequenceProgram:
    """Compile ``value`` for a source, with every check that needs no rows, also of the measures.

    A query without ``order_by`` is ordered by the clock of the source, if it has one. The same query and
    equal types return the same program, which has the types of the columns that it needs.

    """
    key = key_or_none(Same(value), registered_functions())
    return _programs.get(key, source, partial(_compile, value))


def _compile(value: RegexQuery | SequenceQuery, source: Source) -> Program | SequenceProgram:
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
        from cepkit.compile.regex.program import compile_regex
        from cepkit.engines.measures.regex_measures import measure
        from cepkit.engines.shared.match_set import MatchSet

        program = compile_regex(value, source.schema)
        measure(value, MatchSet(no_events, none, none), source)
    else:
        from cepkit.compile.sequences.program import compile_sequence
        from cepkit.engines.measures.sequence_measures import sequence_measures
        from cepkit.engines.shared.sequence_set import EMPTY
        from cepkit.language.sequences.checks import check_ready

        check_ready(value)
        if value.event_type is not None:
            check_columns(source, "event_type", (value.event_type,))
        program = compile_sequence(value, source.schema)
        sequence_measures(program, no_events, EMPTY, source)
    _check_result_names(value)
    _warn_of_bare_durations(value, source)
    _warn_of_null_comparisons(value)
    if not program.pure:
        impure = [name for name, function in program.functions.items() if not function.pure]
        warn(
            f"{impure} is not declared pure, so the events are matched on one thread; "
            "declare it with @cep.pure if its result depends on its arguments alone",
        )
    return replace(program, schema=known_types(source.schema))


def check_columns(source: Source, role: str, names: tuple[str, ...]) -> None:
    """Raise the error for names that no column has or that several columns have."""
    for name in names:
        if not isinstance(name, str) or name not in source.schema:
            raise column_not_found(role, name, source.schema)
        if name in source.duplicates:
            raise CepError(f"{role}: column {name!r} occurs more than once; rename or drop one of them")


def _warn_of_bare_durations(value: RegexQuery | SequenceQuery, source: Source) -> None:
    """Warn of a window without a unit on a clock with a unit: on another clock it lasts another time."""
    clock = source.schema.get(value.order_by[0]) if value.order_by else None
    if clock is None or clock.unit is None:
        return
    for name in ("within", "gap_within"):
        duration = getattr(value, name, None)
        if duration is not None and not isinstance(duration, str | timedelta):
            warn(
                f"{name}={duration} is read as {duration} {clock.unit}, the unit of column "
                f"{value.order_by[0]!r}; write '{duration} {clock.unit}', or the unit that you mean",
            )


def _warn_of_null_comparisons(value: RegexQuery | SequenceQuery) -> None:
    for role, tree in value.trees():
        for node in tree.walk(literals=False):
            if isinstance(node, Comparison) and any(
                isinstance(side, Literal) and side.value is None for side in (node.left, node.right)
            ):
                kept = node.right if isinstance(node.left, Literal) else node.left
                wanted = f"{kept} is not null" if node.operator == "!=" else f"{kept} is null"
                warn(
                    f"{role}: '{node}' is never true because nothing equals or differs from NULL; "
                    f"write '{wanted}'",
                )


def _check_ambiguous_names(value: RegexQuery | SequenceQuery, source: Source) -> None:
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
    from cepkit.engines.measures.sequence_measures import default_measures

    return default_measures(value)


def _check_result_names(value: RegexQuery | SequenceQuery) -> None:
    names = [*value.partition_by, *(name for name, _ in _measures(value))]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise CepError(f"the result would have the columns {twice} twice; give the measures other names")


def warn_of_unknown_types(program: SequenceProgram, events: Events) -> None:
    """Warn of event types that a sequence query names and the column of event types does not have."""
    name = program.query.event_type
    column = events.columns.get(name)
    if column is None or not events.n_events:
        return
    from cepkit.language.sequences.patterns import event_patterns

    wanted = dict.fromkeys(event.event_type for event in event_patterns(program.query.pattern))
    if column.categories is not None:
        types = list(column.categories)
        unknown = [
            event_type for event_type in wanted if isinstance(event_type, str) and event_type not in types
        ]
    else:
        unknown = [
            event_type
            for event_type in wanted
            if event_type is not None and not (column.values == event_type).any()
        ]
        types = [
            event_type
            for event_type in np.unique(column.values[:10_000]).tolist()
            if event_type != NULL_INTEGER
        ]
    if unknown:
        shown = f"{types[:20]}{' …' if len(types) > 20 else ''}" if types else "no values"
        warn(
            f"the column of event types, {name!r}, never has {', '.join(map(repr, unknown))}."
            f"{nearest(str(unknown[0]), map(str, types))} It has {shown}"
        )
