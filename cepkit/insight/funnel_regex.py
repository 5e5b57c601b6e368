"""The funnel of a regex: count the matches of longer and longer beginnings of its pattern."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from cepkit.compile.regex.matching_source import write_matching
from cepkit.compile.regex.program import Kernel, Program, compile_regex
from cepkit.engines.regex.matching import advance, match_regex
from cepkit.engines.shared.python_kernels import plain_module
from cepkit.events import Events
from cepkit.insight.funnel import BranchFunnel, ConditionCount, Count, StepCount
from cepkit.language.expressions import trees as ex
from cepkit.language.regex.patterns import AnyEvent, Pattern, Repeat, Sequence, Variable, seq, variables
from cepkit.language.regex.positions import is_nullable
from cepkit.language.regex.query import RegexQuery

_FEW = 5_000  # events that plain Python reads faster than a kernel compiles


def beginnings(pattern: Pattern, most: int | None = None) -> list[Pattern]:
    """Return the beginnings of a regex pattern, from the shortest to the whole; each needs at least one row.

    ``most`` limits their number; the shortest ones and the whole pattern remain.
    """
    parts = pattern.parts if isinstance(pattern, Sequence) else ()
    made = [seq(*parts[:i]) for i in range(1, len(parts))]
    made = [part for part in made if not is_nullable(part)]
    return [*(made if most is None else made[: most - 1]), pattern]


def count_regex_funnel(
    program: Program,
    events: Events,
    n_matches: int | None = None,
    most_steps: int | None = None,
    *,
    with_conditions: bool = True,
) -> tuple[BranchFunnel, ...]:
    """Count the matches of every beginning of a regex, at most ``most_steps`` beginnings.

    ``n_matches`` is the number of matches of the whole pattern, if known. With ``with_conditions=False``,
    neither ``n_alone`` nor the conditions are counted.

    The regex engine runs once for each step, and once for each condition that reads no matched rows.
    """
    n_rows = events.n_events
    parts = beginnings(program.query.pattern, most_steps)
    steps: list[StepCount] = []
    before, n_before = 0, n_rows
    for part in parts:
        is_whole = part is parts[-1]
        n = n_matches if is_whole and n_matches is not None else _count(_cut_off(program, part), events)
        own = _own_part(part, before)
        n_alone = _n_alone(program, events, own) if with_conditions else None
        conditions = tuple(_conditions(program, events, own)) if with_conditions else ()
        steps.append(StepCount(str(own), None, n_rows, n_alone, Count(n), None, n_before, n, conditions))
        before, n_before = _length(part), n
    return (BranchFunnel(tuple(steps), Count(n_before), Count(n_before), 1.0),)


def _length(pattern: Pattern) -> int:
    return len(pattern.parts) if isinstance(pattern, Sequence) else 1


def _own_part(beginning: Pattern, n_before: int) -> Pattern:
    """Return the parts of a beginning after its first ``n_before`` parts."""
    return seq(*beginning.parts[n_before:]) if n_before else beginning


def _cut_off(program: Program, part: Pattern) -> Program:
    """Return the compiled query of a beginning of the pattern."""
    query = program.query
    used = {variable.name for variable in variables(part)}
    define = tuple((name, tree) for name, tree in query.define if name in used)
    shorter = replace(query, pattern=part, define=define, measures=None, sources=())
    return compile_regex(shorter, program.schema)


def _count(program: Program, events: Events) -> int:
    """Return the number of matches."""
    if events.n_events > _FEW or not program.compiled:
        return len(match_regex(program, events))
    inputs = program.inputs(events.columns)
    dtypes = {name: values.dtype.name for name, values in inputs.columns.items()}
    source = write_matching(
        program.plan, dtypes, functions=tuple(program.functions), compiled=program.compiled
    )
    kernel = Kernel(plain_module(program, source.text)["advance"], source, is_compiled=False)
    state = kernel.new_state(max(1, events.n_partitions))
    _, last = advance(kernel, state, np.asarray(events.partition_of_event), inputs, 0)
    return len(last)


# --- predicates of a single row


def looks_at_match(tree: ex.Expression) -> bool:
    """Return whether a predicate depends on the rows matched earlier."""
    return any(isinstance(node, ex.Aggregate) for node in tree.walk())


def row_query(query: RegexQuery, name: str, condition: ex.Expression | None) -> RegexQuery:
    """Return the query whose matches are the rows at which a condition, or a boolean column, holds."""
    define = () if condition is None else ((name, condition),)
    return replace(query, pattern=Variable(name), define=define, measures=None, within=None, sources=())


def _n_alone(program: Program, events: Events, part: Pattern) -> int | None:
    """Return how many rows fulfil the predicate of a part of the pattern; None if it is not defined."""
    while isinstance(part, Repeat):
        part = part.body
    if isinstance(part, AnyEvent):
        return events.n_events
    if not isinstance(part, Variable) or part.name in program.automaton.dropped:
        return None
    tree = dict(program.query.define).get(part.name)
    if tree is not None and looks_at_match(tree):
        return None
    return _count(compile_regex(row_query(program.query, part.name, tree), program.schema), events)


def _conditions(program: Program, events: Events, part: Pattern) -> Iterator[ConditionCount]:
    """Yield the conditions of the predicates in a part of the pattern."""
    defined = dict(program.query.define)
    for name in dict.fromkeys(variable.name for variable in variables(part)):
        if name in program.automaton.dropped:
            continue  # no match can reach it, so its columns are not read
        if name not in defined:
            n = _count(compile_regex(row_query(program.query, name, None), program.schema), events)
            yield ConditionCount(0, name, True, events.n_events, n)
            continue
        for number, condition in enumerate(ex.conjuncts(defined[name])):
            if looks_at_match(condition):
                yield ConditionCount(number, f"{name}: {condition}", False, None, None)
                continue
            n = _count(compile_regex(row_query(program.query, name, condition), program.schema), events)
            yield ConditionCount(number, f"{name}: {condition}", True, events.n_events, n)
