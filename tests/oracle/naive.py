"""The meaning of a regex query, executed literally on lists of dicts: slow, exhaustive, without an automaton.

It takes queries that have passed the checks, knows the trees of ``cepkit.language`` and nothing else of
cepkit, so that a bug of the package cannot hide from its own test.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import reduce
from typing import Any

from cepkit.language import row_patterns as pt
from cepkit.language.expressions import trees as ex

Row = Mapping[str, Any]
Rows = Sequence[Row]
Functions = Mapping[str, Callable[..., Any]]
Holds = Callable[[str, int], bool]


# --- matches ---------------------------------------------------------------------------------------------


def matches(
    pattern: pt.Pattern,
    define: Mapping[str, ex.Expression],
    rows: Rows,
    *,
    partition_by: Sequence[str] | None = None,
    **options: Any,
) -> list[tuple[int, ...]]:
    """Return the matches of all partitions, each as its positions in ``rows``, ordered by the last of them.

    ``rows`` are in stream order. Null is a partition key like any other. ``options``: of ``longest_matches``.
    """
    positions_of_key: dict[tuple, list[int]] = {}
    for position, row in enumerate(rows):
        key = tuple(without_nan(row[name]) for name in partition_by or ())
        positions_of_key.setdefault(key, []).append(position)
    found = []
    for positions in positions_of_key.values():
        partition = [rows[position] for position in positions]
        for first, last in longest_matches(pattern, define, partition, **options):
            found.append(tuple(positions[first : last + 1]))
    return sorted(found, key=lambda match: (match[-1], match[0]))


def longest_matches(
    pattern: pt.Pattern,
    define: Mapping[str, ex.Expression],
    rows: Rows,
    *,
    order_by: str | None = None,
    within: int | None = None,
    within_closed: bool = True,
    params: Mapping[str, Any] | None = None,
    functions: Functions | None = None,
    after_match: tuple[str, str | None] = ("past_last", None),
    keep: str = "shortest",
) -> list[tuple[int, int]]:
    """Return (first, last) of the matches of one partition.

    From a clean slate the earliest end, at that end the earliest start; then a clean slate after it. With
    another ``after_match`` or ``keep``, each match has the earliest start, and there the earliest or the
    latest end; ``next_start`` says where the next one may start. ``within`` limits the last row's
    ``order_by`` minus the first row's, in ticks, inclusive when closed.
    """
    ends_of_start = [
        ends(pattern, start, len(rows), _holds(define, rows, start, params, functions))
        for start in range(len(rows))
    ]

    def spelled(start: int, last: int) -> bool:
        return last + 1 in ends_of_start[start] and in_window(
            rows, start, last, order_by=order_by, within=within, within_closed=within_closed
        )

    found, clean = [], 0
    while (after_match, keep) != (("past_last", None), "shortest") and clean < len(rows):
        lasts = [last for last in range(clean, len(rows)) if spelled(clean, last)]
        if lasts:
            found.append((clean, max(lasts) if keep == "longest" else min(lasts)))
            names = labels(pattern, define, rows, *found[-1], params=params, functions=functions)
            clean = next_start(after_match, *found[-1], names)
        else:
            clean += 1
    for last in range(clean, len(rows)):
        starts = [start for start in range(clean, last + 1) if spelled(start, last)]
        if starts:
            found.append((starts[0], last))
            clean = last + 1
    return found


def next_start(after_match: tuple[str, str | None], first: int, last: int, names: list[str]) -> int:
    """Return the row where the next match may start; ``names`` are those of the rows first..last."""
    kind, name = after_match
    if name:
        rows = [first + i for i, other in enumerate(names) if other == name]
        if not rows or (target := rows[0 if kind == "to_first" else -1]) == first:
            raise ValueError("the search cannot go on at the row of the name")
        return target
    return {"past_last": last + 1, "to_last": max(last, first + 1), "to_next": first + 1}[kind]


def ends(pattern: pt.Pattern, position: int, stop: int, holds: Holds) -> set[int]:
    """Return every end such that rows position..end-1 (none when equal) spell a word of ``pattern``.

    ``holds(name, i)`` says whether predicate ``name`` is true at row i < ``stop``.
    """

    def after(part: pt.Pattern, places: set[int]) -> set[int]:
        return {end for place in places for end in ends(part, place, stop, holds)}

    match pattern:
        case pt.Empty():
            return {position}
        case pt.AnyEvent():
            return {position + 1} if position < stop else set()
        case pt.Variable(name=name):
            return {position + 1} if position < stop and holds(name, position) else set()
        case pt.Alternative(options=options):
            return {end for option in options for end in ends(option, position, stop, holds)}
        case pt.Sequence(parts=parts):
            reached = {position}
            for part in parts:
                reached = after(part, reached)
            return reached
        case pt.Repeat(body=body, low=low, high=high):
            fresh = {position}
            for _ in range(low):
                fresh = after(body, fresh)
            reached = fresh
            for _ in range(stop if high is None else high - low):
                # A place reached before was reached with more repetitions to spare.
                fresh = after(body, fresh) - reached
                reached = reached | fresh
            return reached
    raise TypeError(f"no meaning for pattern {type(pattern).__name__}")


def begins(pattern: pt.Pattern, position: int, stop: int, holds: Holds) -> bool:
    """Return whether rows position..stop-1 are the beginning of a word of ``pattern``, or a whole one.

    ``holds`` as for ``ends``. Every predicate is taken to be true of some row.
    """

    def any_begins(part: pt.Pattern, places: set[int]) -> bool:
        return any(begins(part, place, stop, holds) for place in places)

    def after(part: pt.Pattern, places: set[int]) -> set[int]:
        return {end for place in places for end in ends(part, place, stop, holds)}

    if position == stop:
        return True
    match pattern:
        case pt.Sequence(parts=parts):
            reached = {position}
            for part in parts:
                if any_begins(part, reached):
                    return True
                reached = after(part, reached)
            return stop in reached
        case pt.Alternative(options=options):
            return any(begins(option, position, stop, holds) for option in options)
        case pt.Repeat(body=body, high=high):
            reached = {position}
            for _ in range(stop - position if high is None else high):
                if any_begins(body, reached):
                    return True
                reached = after(body, reached)
            return stop in reached
    return stop in ends(pattern, position, stop, holds)


def live_starts(
    pattern: pt.Pattern,
    define: Mapping[str, ex.Expression],
    rows: Rows,
    *,
    params: Mapping[str, Any] | None = None,
    functions: Functions | None = None,
    **window: Any,
) -> list[list[int]]:
    """Return for every row of one partition where the partial matches begin that are live after it.

    They begin after the last row of the last match, lie within the window, and their rows up to this one are
    the beginning of a word. A match leaves none. ``window``: of ``longest_matches``.
    """
    found = longest_matches(pattern, define, rows, params=params, functions=functions, **window)
    lasts, clean, live = {last for _, last in found}, 0, []
    for row in range(len(rows)):
        if row in lasts:
            clean = row + 1
        live.append(
            [
                start
                for start in range(clean, row + 1)
                if begins(pattern, start, row + 1, _holds(define, rows, start, params, functions))
                and in_window(rows, start, row, **window)
            ]
        )
    return live


def matches_of_the_live(
    pattern: pt.Pattern,
    define: Mapping[str, ex.Expression],
    rows: Rows,
    most: int,
    overflow: str,
    *,
    params: Mapping[str, Any] | None = None,
    functions: Functions | None = None,
    **window: Any,
) -> tuple[list[tuple[int, int]], int]:
    """Return (first, last) of the matches of one partition with at most ``most`` live partial matches.

    Also the number of those that were given up. At each row, live partial matches or the row itself may be
    complete: the earliest one is the match, and leaves none. Otherwise those that are no longer the beginning
    of a word end. Then the row begins one. ``"shed"``: it does not if ``most`` are live. ``"oldest"``: the
    oldest one ends if more are.
    """
    tests = [_holds(define, rows, start, params, functions) for start in range(len(rows))]
    found, live, n_given_up = [], [], 0
    for row in range(len(rows)):
        possible = [start for start in (*live, row) if in_window(rows, start, row, **window)]
        complete = [s for s in possible if row + 1 in ends(pattern, s, row + 1, tests[s])]
        if complete:
            found.append((complete[0], row))
            live = []
            continue
        live = [start for start in possible if begins(pattern, start, row + 1, tests[start])]
        if len(live) > most:
            n_given_up += 1
            del live[0 if overflow == "oldest" else -1]
    return found, n_given_up


def in_window(
    rows: Rows,
    start: int,
    last: int,
    *,
    order_by: str | None = None,
    within: int | None = None,
    within_closed: bool = True,
) -> bool:
    """Return whether two rows lie within one window."""
    if within is None:
        return True
    ticks = rows[last][order_by] - rows[start][order_by]
    return ticks <= within if within_closed else ticks < within


def _holds(define, rows, start, params, functions) -> Holds:
    """Return the test of a predicate at a row of the match that begins at ``start``."""
    known: dict[tuple[str, int], bool] = {}

    def holds(name: str, row: int) -> bool:
        if (name, row) not in known:
            # A boolean column serves as a predicate without a definition.
            expression = define[name] if name in define else ex.Attribute(name)
            known[name, row] = _truth(evaluate(expression, rows, row, start, params, functions)) is True
        return known[name, row]

    return holds


# --- labels ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Leaf(pt.Pattern):
    """A numbered occurrence of a variable, or of any event (name ".")."""

    number: int
    name: str


def labels(
    pattern: pt.Pattern,
    define: Mapping[str, ex.Expression],
    rows: Rows,
    first: int,
    last: int,
    *,
    params: Mapping[str, Any] | None = None,
    functions: Functions | None = None,
) -> list[str]:
    """Return the variable of each row of the match first..last, "." where it was any event.

    Of all labellings the one whose sequence of leaf numbers (see ``expanded``) is lexicographically smallest.
    """
    holds = _holds(define, rows, first, params, functions)
    spellings = _smallest_spellings(expanded(pattern), first, last + 1, holds)
    if last + 1 not in spellings:
        raise ValueError(f"rows {first}..{last} spell no word of the pattern")
    return [name for _, name in spellings[last + 1]]


def expanded(pattern: pt.Pattern, numbers: itertools.count | None = None) -> pt.Pattern:
    """Return ``pattern`` with only ``? * +`` left and its leaves numbered from 1 in reading order.

    x{2} = x x, x{2,} = x x+, x{1,3} = x (x x?)?, x{0,2} = (x x?)?; the copies are numbered one by one.
    """
    numbers = numbers or itertools.count(1)
    match pattern:
        case pt.Empty():
            return pattern
        case pt.AnyEvent():
            return Leaf(next(numbers), ".")
        case pt.Variable(name=name):
            return Leaf(next(numbers), name)
        case pt.Sequence(parts=parts):
            return pt.Sequence(tuple(expanded(part, numbers) for part in parts))
        case pt.Alternative(options=options):
            return pt.Alternative(tuple(expanded(option, numbers) for option in options))
        case pt.Repeat(body=body, low=low, high=None):
            copies = [expanded(body, numbers) for _ in range(max(1, low))]
            return pt.seq(*copies[:-1], pt.Repeat(copies[-1], min(1, low), None))
        case pt.Repeat(body=body, low=low, high=high):
            copies = [expanded(body, numbers) for _ in range(high)]
            optional: tuple[pt.Pattern, ...] = ()
            for copy in reversed(copies[low:]):
                optional = (pt.seq(copy, *optional).optional(),)
            return pt.seq(*copies[:low], *optional)
    raise TypeError(f"no meaning for pattern {type(pattern).__name__}")


Spelling = tuple[tuple[int, str], ...]


def _smallest_spellings(pattern: pt.Pattern, position: int, stop: int, holds: Holds) -> dict[int, Spelling]:
    """Return for every end of the expanded ``pattern`` the smallest sequence of (leaf number, name).

    Spellings of the same rows are equally long, so the smallest whole is made of smallest parts.
    """
    match pattern:
        case pt.Empty():
            return {position: ()}
        case Leaf(number=number, name=name):
            fits = position < stop and (name == "." or holds(name, position))
            return {position + 1: ((number, name),)} if fits else {}
        case pt.Alternative(options=options):
            best: dict[int, Spelling] = {}
            for option in options:
                _keep_smallest(best, (), _smallest_spellings(option, position, stop, holds))
            return best
        case pt.Sequence(parts=parts):
            best = {position: ()}
            for part in parts:
                longer: dict[int, Spelling] = {}
                for middle, spelling in best.items():
                    _keep_smallest(longer, spelling, _smallest_spellings(part, middle, stop, holds))
                best = longer
            return best
        case pt.Repeat(body=body, low=low, high=high):
            best = _smallest_spellings(body, position, stop, holds)
            if high is None:
                for middle in range(position + 1, stop):
                    if middle in best:  # final: a round that consumes nothing changes no spelling
                        _keep_smallest(best, best[middle], _smallest_spellings(body, middle, stop, holds))
            return {position: ()} | best if low == 0 else best
    raise TypeError(f"no spelling for pattern {type(pattern).__name__}")


def _keep_smallest(best: dict[int, Spelling], before: Spelling, spellings: dict[int, Spelling]) -> None:
    for end, spelling in spellings.items():
        best[end] = min(best.get(end, before + spelling), before + spelling)


# --- values ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Place:
    """Where an expression is evaluated: at ``row`` of a partition, its aggregates over rows ``matched``."""

    rows: Rows
    row: int
    matched: range
    params: Mapping[str, Any]
    functions: Functions

    def value(self, expression: ex.Expression) -> Any:
        """Return the value of ``expression`` here, None for null; NaN is null."""
        return without_nan(_value(expression, self))

    def value_at(self, row: int, expression: ex.Expression) -> Any:
        """Return the value of ``expression`` at another row; null before the first of the partition."""
        return replace(self, row=row).value(expression) if row >= 0 else None


def evaluate(
    expression: ex.Expression,
    rows: Rows,
    row: int,
    start: int,
    params: Mapping[str, Any] | None = None,
    functions: Functions | None = None,
) -> Any:
    """Return the value of a predicate's expression at ``row`` of a match that began at ``start``.

    Aggregates range over rows start..row-1: the current row is not yet part of the match.
    """
    return Place(rows, row, range(start, row), params or {}, functions or {}).value(expression)


def evaluate_measure(
    expression: ex.Expression,
    rows: Rows,
    first: int,
    last: int,
    params: Mapping[str, Any] | None = None,
    functions: Functions | None = None,
) -> Any:
    """Return the value of a measure of the match first..last: a bare attribute is that of the last row."""
    return Place(rows, last, range(first, last + 1), params or {}, functions or {}).value(expression)


def _value(expression: ex.Expression, place: Place) -> Any:
    match expression:
        case ex.Literal(value=value):
            return value
        case ex.Attribute(name=name):
            return place.rows[place.row][name]
        case ex.Parameter(name=name):
            return place.params[name]
        case ex.Previous(operand=operand, offset=offset):
            return place.value_at(place.row - offset, operand)
        case ex.Aggregate(function=function, operand=operand):
            return _aggregate(function, operand, place)
        case ex.And(operands=operands):
            return kleene_and([_truth(place.value(operand)) for operand in operands])
        case ex.Or(operands=operands):
            return kleene_or([_truth(place.value(operand)) for operand in operands])
        case ex.In(operand=operand, options=options):
            value = place.value(operand)
            return kleene_or([_apply(operator.eq, value, place.value(option)) for option in options])
        case ex.IsNull(operand=operand):
            return place.value(operand) is None
        case ex.IsDistinct(left=left, right=right):
            return place.value(left) != place.value(right)
        case ex.Not(operand=operand):
            return _apply(operator.not_, place.value(operand))
        case ex.Negative(operand=operand):
            return _apply(operator.neg, place.value(operand))
        case ex.Subscript(operand=operand, index=index):
            return _apply(lambda items: _item(items, index), place.value(operand))
        case ex.Like(operand=operand, pattern=pattern):
            return _apply(lambda text: like(text, pattern), place.value(operand))
        case ex.Comparison(operator=symbol, left=left, right=right):
            return _apply(COMPARISONS[symbol], place.value(left), place.value(right))
        case ex.Arithmetic(operator=symbol, left=left, right=right):
            return _apply(ARITHMETIC[symbol], place.value(left), place.value(right))
        case ex.Call(function=name, arguments=arguments):
            function = {**FUNCTIONS, **ARRAY_FUNCTIONS, **place.functions}[name]
            return _apply(function, *(place.value(argument) for argument in arguments))
    raise TypeError(f"no meaning for expression {type(expression).__name__}")


def _aggregate(function: str, operand: ex.Expression | None, place: Place) -> Any:
    if operand is None:
        return len(place.matched)
    values = [place.value_at(row, operand) for row in place.matched]
    if function == "delta" and values:
        # at the current row in a predicate, at the last row of the match in a measure
        values = [values[0], place.value(operand)]
    return aggregated(function, values)


def aggregated(function: str, values: Sequence[Any]) -> Any:
    """Return the aggregate of ``values``, in order; ``delta`` is the last minus the first."""
    present = [value for value in values if value is not None]
    match function:
        case "collect":
            return list(values)
        case "count":
            return len(present)
        case "first":
            return values[0] if values else None
        case "last":
            return values[-1] if values else None
        case "delta":
            return _apply(operator.sub, values[-1], values[0]) if values else None
    if function == "distinct":
        return len(dict.fromkeys(present))
    if function == "count_if":
        return sum(value is True for value in present)
    if not present:
        return None
    match function:
        case "share":
            return sum(value is True for value in present) / len(present)
        case "mode":
            return max(present, key=present.count)
        case "max":
            return max(present)
        case "median":
            ranked = sorted(present)
            return (ranked[(len(ranked) - 1) // 2] + ranked[len(ranked) // 2]) / 2
        case "var" | "std":
            exact = [Fraction(value) for value in present]
            spread = sum((value - sum(exact) / len(exact)) ** 2 for value in exact) / len(exact)
            return math.sqrt(spread) if function == "std" else float(spread)
        case "min":
            return min(present)
        # Left to right; the built-in sum compensates rounding from Python 3.12 on.
        case "sum":
            return reduce(operator.add, present)
        case "avg":
            return reduce(operator.add, present) / len(present)
    raise ValueError(f"no aggregate {function!r}")


def _fold(function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """Return ``function`` of two arguments as one of any number, applied from left to right."""
    return lambda *arguments: reduce(function, arguments)


def _apply(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call ``function``, a null argument giving null."""
    return None if any(argument is None for argument in arguments) else function(*arguments)


def _item(items: Sequence, index: int) -> Any:
    return items[index] if -len(items) <= index < len(items) else None


def without_nan(value: Any) -> Any:
    return None if isinstance(value, float) and math.isnan(value) else value


def _truth(value: Any) -> bool | None:
    return None if value is None else bool(value)


def kleene_and(values: Sequence[bool | None]) -> bool | None:
    """Return False when one is, else null when one is, else True."""
    return False if False in values else None if None in values else True


def kleene_or(values: Sequence[bool | None]) -> bool | None:
    """Return True when one is, else null when one is, else False."""
    return True if True in values else None if None in values else False


def like(text: str, pattern: str) -> bool:
    """Return whether the whole ``text`` fits: ``%`` any run of characters, ``_`` any one."""
    if not pattern:
        return not text
    if pattern[0] == "%":
        return any(like(text[i:], pattern[1:]) for i in range(len(text) + 1))
    return text != "" and pattern[0] in ("_", text[0]) and like(text[1:], pattern[1:])


def _null_when_undefined(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``function`` with null where Python raises for want of a value."""

    def or_null(*arguments: Any) -> Any:
        try:
            return function(*arguments)
        except (ZeroDivisionError, ValueError):
            return None

    return or_null


def _exp(x):
    try:
        return math.exp(x)
    except OverflowError:
        return math.inf


def _power(base, exponent):
    try:
        return math.pow(base, exponent)
    except OverflowError:
        return math.copysign(math.inf, base) if exponent % 2 == 1 else math.inf


def _of_arrays(function: Callable[[list[Fraction], list[Fraction]], float | None]) -> Callable[..., Any]:
    """Return ``function`` of two arrays as exact numbers; null where one is empty or has a null in it."""

    def or_null(x: Sequence, y: Sequence) -> float | None:
        if len(x) == 0 or len(y) == 0 or any(without_nan(item) is None for item in (*x, *y)):
            return None
        if len(x) != len(y):
            raise ValueError(f"arrays of {len(x)} and {len(y)} numbers")
        return function([Fraction(item) for item in x], [Fraction(item) for item in y])

    return or_null


def _corr(x: list[Fraction], y: list[Fraction]) -> float | None:
    """Return the correlation of Pearson: the cosine of what is left when each array's mean is taken off."""
    centred = [[item - sum(items) / len(items) for item in items] for items in (x, y)]
    return _cosine(*centred)


def _cosine(x: list[Fraction], y: list[Fraction]) -> float | None:
    dot, product = sum(map(operator.mul, x, y)), sum(map(operator.mul, x, x)) * sum(map(operator.mul, y, y))
    return math.copysign(math.sqrt(dot * dot / product), dot) if product else None


def _l2(x: list[Fraction], y: list[Fraction]) -> float:
    return math.sqrt(sum((one - other) ** 2 for one, other in zip(x, y, strict=True)))


def _rounded(rounding: Callable[[float], int]) -> Callable[[Any], Any]:
    """Return ``rounding`` with the type of its argument: integers stay integers, floats floats."""
    return lambda x: x if isinstance(x, int) or math.isinf(x) else float(rounding(x))


COMPARISONS: Functions = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
ARITHMETIC: Functions = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": _null_when_undefined(operator.truediv),
    "//": _null_when_undefined(operator.floordiv),
    "%": _null_when_undefined(operator.mod),
}
ARRAY_FUNCTIONS: Functions = {
    "corr": _of_arrays(_corr),
    "cosine": _of_arrays(_cosine),
    "l2": _of_arrays(_l2),
}

FUNCTIONS: Functions = {
    "abs": abs,
    "sqrt": _null_when_undefined(math.sqrt),
    "exp": _exp,
    "log": _null_when_undefined(math.log),
    "log2": _null_when_undefined(math.log2),
    "log10": _null_when_undefined(math.log10),
    "floor": _rounded(math.floor),
    "ceil": _rounded(math.ceil),
    "round": _rounded(round),  # halves to the even neighbour, as Python and IEEE do
    "sign": lambda x: (x > 0) - (x < 0),
    "power": _null_when_undefined(_power),
    "least": min,
    "greatest": max,
    "bit_and": _fold(operator.and_),
    "bit_or": _fold(operator.or_),
    "bit_xor": _fold(operator.xor),
    "starts_with": str.startswith,
    "ends_with": str.endswith,
    "contains": operator.contains,
}
