"""The conditions that fail when a partial match of a regex reads a row, and the values they compare."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from cepkit.compile.regex.automaton import ANY
from cepkit.compile.regex.program import Program, compile_regex
from cepkit.errors import CepError
from cepkit.events import Source
from cepkit.insight.partial_matches import RegexPartials, rows_looked_back
from cepkit.insight.stepping import Stepping
from cepkit.insight.value_text import cell
from cepkit.language.expressions import trees as ex
from cepkit.language.regex.parsing import parse_pattern
from cepkit.language.regex.patterns import Variable


def failing_conditions(
    program: Program, source: Source, stepping: Stepping, names: tuple[str, ...], start: int, k: int
) -> list[tuple[str, str]]:
    """Return the conditions that row ``k`` fails as the next row of a partial match: (predicate, condition).

    The partial match has the rows from ``start`` to ``k - 1`` of the partition in ``stepping``, and may take
    one of the predicates ``names`` next. Each condition runs as a query of its own on these rows, in time
    O(conditions x (k - start)).

    """
    defined = dict(program.query.define)
    failing = []
    for name in dict.fromkeys(names):
        if name == ANY:
            continue
        if name not in defined:
            failing.append((name, f"column {name} is not true"))
            continue
        for condition in ex.conjuncts(defined[name]):
            if not _holds(program, stepping, name, condition, start, k):
                values = ", ".join(_values(source, stepping, condition, start, k))
                failing.append((name, f"{condition}{values and f' ({values})'}"))
    return failing


def _holds(
    program: Program, stepping: Stepping, name: str, condition: ex.Expression, start: int, k: int
) -> bool:
    """Return whether a condition holds at row ``k`` of a match of the rows ``start`` to ``k``."""
    n_before = ex.Comparison("==", ex.Aggregate("count"), ex.Literal(k - start))
    pattern = parse_pattern(f". .* {name}") if k > start else Variable(name)
    define = ((name, ex.And((condition, n_before)) if k > start else condition),)
    query = replace(program.query, pattern=pattern, define=define, measures=None, within=None, sources=())
    low = max(0, start - rows_looked_back(query))
    try:
        partials = RegexPartials(compile_regex(query, program.schema), stepping.part(low, k + 1), start - low)
    except (CepError, KeyError):  # a condition that cannot run alone is assumed to hold
        return True
    _, last = partials.read(start - low, k + 1 - low)
    return bool(len(last)) and int(last[-1]) == k - low


def _values(
    source: Source, stepping: Stepping, condition: ex.Expression, start: int, k: int
) -> Iterator[str]:
    """Yield ``close = 23.4`` for every distinct term that the condition compares."""
    seen: set[ex.Expression] = set()
    for term in _terms(condition):
        if term not in seen:
            seen.add(term)
            value = _value(source, stepping, term, start, k)
            if value is not None:
                yield f"{term} = {value or 'null'}"


def _terms(tree: ex.Expression) -> Iterator[ex.Expression]:
    """Yield the attributes of a condition; ``prev`` and aggregates count as single terms."""
    match tree:
        case ex.Attribute() | ex.Previous() | ex.Aggregate():
            yield tree
        case _:
            for child in tree.children():
                yield from _terms(child)


def _value(source: Source, stepping: Stepping, term: ex.Expression, start: int, k: int) -> str | None:
    """Return the value of a simple term as text, or None if the term is more than a column's value."""

    def column(name: str, low: int, high: int) -> list[Any]:
        positions = np.array([stepping.position_of(i) for i in range(low, high)], np.int64)
        return source.arrow(name, stepping.events.rows(positions)).to_pylist()

    match term:
        case ex.Attribute(name=name) if name in source.schema:
            return cell(column(name, k, k + 1)[0])
        case ex.Previous(operand=ex.Attribute(name=name), offset=offset) if name in source.schema:
            return cell(column(name, k - offset, k - offset + 1)[0]) if k >= offset else ""
        case ex.Aggregate(function="count", operand=None):
            return str(k - start)
        case ex.Aggregate(function="first" | "last" | "min" | "max" as function, operand=operand):
            if not (isinstance(operand, ex.Attribute) and operand.name in source.schema) or k <= start:
                return None
            values = column(operand.name, start, k)
            if function in ("first", "last"):
                return cell(values[0 if function == "first" else -1])
            known = [value for value in values if value is not None and value == value]
            return cell({"min": min, "max": max}[function](known)) if known else ""
    return None
