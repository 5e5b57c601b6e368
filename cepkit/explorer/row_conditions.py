"""Which conditions fail when a partial match of a regex meets a row, and the values that they compare."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from cepkit.compile.regex.automaton import ANY
from cepkit.compile.regex.program import compile_regex
from cepkit.engines.regex.matching import advance
from cepkit.errors import CepError
from cepkit.explorer.running.pages import cell
from cepkit.explorer.stepping import LOOK_BACK, Stepping, plain_kernel
from cepkit.language.expressions import trees as ex
from cepkit.language.regex.parsing import parse_pattern
from cepkit.language.regex.patterns import Variable

if TYPE_CHECKING:
    from cepkit.explorer.running.result import Result


def failing_conditions(
    result: Result, stepping: Stepping, names: tuple[str, ...], start: int, k: int
) -> list[tuple[str, str]]:
    """Return what keeps row ``k`` from a partial match: a predicate's name and a condition that fails.

    Parameters
    ----------
    result : Result
        Of a regex query.
    stepping : Stepping
        Of the partition; ``start`` and ``k`` are numbers of its events.
    names : tuple of str
        Predicates that the partial match may take next.
    start : int
        Where it began; its rows are those before ``k``.

    Notes
    -----
    Each condition is asked as a query of its own, on these rows alone. Time O(conditions x (k - start)).
    """
    defined = dict(result.program.query.define)
    told = []
    for name in dict.fromkeys(names):
        if name == ANY:
            continue
        if name not in defined:
            told.append((name, f"column {name} is not true"))
            continue
        for condition in ex.conjuncts(defined[name]):
            if not _holds(result, stepping, name, condition, start, k):
                values = ", ".join(_values(result, stepping, condition, start, k))
                told.append((name, f"{condition}{values and f' ({values})'}"))
    return told


def _holds(
    result: Result, stepping: Stepping, name: str, condition: ex.Expression, start: int, k: int
) -> bool:
    """Return whether a condition holds at row ``k`` of a match of the rows ``start`` to ``k``."""
    n_before = ex.Comparison("==", ex.Aggregate("count"), ex.Literal(k - start))
    pattern = parse_pattern(f". .* {name}") if k > start else Variable(name)
    define = ((name, ex.And((condition, n_before)) if k > start else condition),)
    query = replace(
        result.program.query, pattern=pattern, define=define, measures=None, within=None, sources=()
    )
    try:
        program = compile_regex(query, result.data.schema)
        low = max(0, start - LOOK_BACK)
        own = stepping.part(low, k + 1)
        own = replace(own, columns={of: own.columns[of] for of in program.columns})
    except (CepError, KeyError):  # a condition that cannot stand alone is not blamed
        return True
    inputs = program.inputs(own.columns)
    kernel = plain_kernel(program, inputs)
    state = kernel.new_state(1)
    for begin, stop in ((low, start), (start, k + 1)):
        state.arrays["live"][0] = 0  # of the rows in front, only the values remain
        rows = slice(begin - low, stop - low)
        part = inputs.with_columns({of: values[rows] for of, values in inputs.columns.items()})
        _, last = advance(kernel, state, np.zeros(stop - begin, np.int32), part, begin)
    return bool(len(last)) and int(last[-1]) == k


def _values(
    result: Result, stepping: Stepping, condition: ex.Expression, start: int, k: int
) -> Iterator[str]:
    """Yield ``close = 23.4`` for what the condition compares, each once."""
    seen: set[ex.Expression] = set()
    for term in _terms(condition):
        if term not in seen:
            seen.add(term)
            value = _value(result, stepping, term, start, k)
            if value is not None:
                yield f"{term} = {value or 'null'}"


def _terms(tree: ex.Expression) -> Iterator[ex.Expression]:
    """Yield the attributes of a condition, and what is said of rows before, as wholes."""
    match tree:
        case ex.Attribute() | ex.Previous() | ex.Aggregate():
            yield tree
        case _:
            for child in tree.children():
                yield from _terms(child)


def _value(result: Result, stepping: Stepping, term: ex.Expression, start: int, k: int) -> str | None:
    """Return the value of a simple term as text, None where it is more than a column's value."""
    source = result.data.source

    def column(name: str, low: int, high: int) -> list[Any]:
        positions = np.array([stepping.position_of(i) for i in range(low, high)], np.int64)
        return source.arrow(name, result.events.rows(positions)).to_pylist()

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
