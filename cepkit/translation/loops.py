"""Regexes and row patterns with loops, and proofs that two conditions never hold for the same row."""

from __future__ import annotations

import math
from collections.abc import Iterator

from cepkit.language.expressions import trees as ex
from cepkit.language.match_recognize import patterns as rp
from cepkit.language.match_recognize.query import RowPatternQuery
from cepkit.language.regex import patterns as pt
from cepkit.language.regex.query import RegexQuery
from cepkit.translation.chains import refuse
from cepkit.translation.to_chains import check_clauses, without_open_end

# The outcomes of a comparison (less, equal, greater) under which it is true.
_TRUE_FOR = {"<": "l", "<=": "le", ">": "g", ">=": "ge", "==": "e", "!=": "lg"}
_MIRROR = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}


def are_disjoint(one: ex.Expression, other: ex.Expression) -> bool:
    """Return whether two conditions can be proved never to hold together. Without a proof it is False.

    Both must be conditions of the same row. A proof is a pair of their parts: a condition and its ``not``,
    two comparisons of the same values, or comparisons of a value with constants.
    """
    if isinstance(one, ex.Or):
        return all(are_disjoint(option, other) for option in one.operands)
    if isinstance(other, ex.Or):
        return all(are_disjoint(one, option) for option in other.operands)
    return any(_contradict(a, b) for a in ex.conjuncts(one) for b in ex.conjuncts(other))


def _contradict(one: ex.Expression, other: ex.Expression) -> bool:
    if one == ex.Literal(False) or other == ex.Literal(False):
        return True
    if (isinstance(one, ex.Not) and one.operand == other) or (
        isinstance(other, ex.Not) and other.operand == one
    ):
        return True
    for value, outcomes, constant in _comparisons(one):
        for value_2, outcomes_2, constant_2 in _comparisons(other):
            if value == value_2 and not _can_both(outcomes, constant, outcomes_2, constant_2):
                return True
    return False


def _comparisons(tree: ex.Expression) -> Iterator[tuple[ex.Expression, str, object]]:
    """Yield (left, outcomes, right) of a comparison, in both directions; IN has a list of constants."""
    if isinstance(tree, ex.Comparison):
        yield tree.left, _TRUE_FOR[tree.operator], tree.right
        yield tree.right, _TRUE_FOR[_MIRROR[tree.operator]], tree.left
    if isinstance(tree, ex.In) and all(isinstance(option, ex.Literal) for option in tree.options):
        yield tree.operand, "e", tuple(tree.options)


def _can_both(outcomes: str, constant: object, outcomes_2: str, constant_2: object) -> bool:
    """Return whether a value can compare in both ways with the right sides; True without a proof."""
    if constant == constant_2 and not isinstance(constant, tuple):
        return bool(set(outcomes) & set(outcomes_2))
    firsts, seconds = _values(constant), _values(constant_2)
    if firsts is None or seconds is None:
        return True
    return any(_overlap(outcomes, first, outcomes_2, second) for first in firsts for second in seconds)


def _values(constant: object) -> list | None:
    """Return the constants if they are all numbers or all texts, else None."""
    items = constant if isinstance(constant, tuple) else (constant,)
    values = []
    for item in items:
        if isinstance(item, ex.Negative) and isinstance(item.operand, ex.Literal):
            item = ex.Literal(-item.operand.value)  # type: ignore[operator]  # only numbers have a sign
        if not isinstance(item, ex.Literal) or item.value is None:
            return None
        values.append(item.value)
    return values


def _overlap(outcomes: str, one: object, outcomes_2: str, two: object) -> bool:
    """Return whether some value compares with ``one`` and with ``two`` as the outcomes say."""
    if isinstance(one, bool) or isinstance(two, bool) or isinstance(one, str) != isinstance(two, str):
        return True
    if isinstance(one, str) or isinstance(two, str):
        # The order of texts may be that of categories, so only equality is a proof; times may have
        # several spellings of one value, so their texts prove nothing.
        is_word = all(isinstance(text, str) and not any(c.isdigit() for c in text) for text in (one, two))
        return not (outcomes == "e" and outcomes_2 == "e" and one != two and is_word)
    points = sorted({float(one), float(two)})  # type: ignore[arg-type]  # both are numbers here
    tried = [-math.inf, *points, (points[0] + points[-1]) / 2, math.inf]
    return any(_compare(x, one) in outcomes and _compare(x, two) in outcomes_2 for x in tried)


def _compare(x: float, constant: object) -> str:
    limit = float(constant)  # type: ignore[arg-type]  # a number
    return "l" if x < limit else "g" if x > limit else "e"


# Regexes and row patterns with loops that end at their first possible last row.
#
# A pattern ``X z`` has unique ends if its conditions read only the row itself and rows before it, and ``z``,
# a single row, can never be one of the rows of ``X``. Its match ends at the first row after its start that is
# a ``z``, since no row between them can be one. Hence a start has at most one end. Two matches that overlap
# end at the same ``z``. The earliest end with the earliest start (regex) and the leftmost start with any
# preference (SQL) are then the same match. Both continue after ``z``, so all matches are the same.


def check_unique_ends(
    target: str, clause: str, pattern: object, parts: tuple, define: dict[str, ex.Expression | None]
) -> None:
    """Raise unless the last part is a single row that no other part can be."""
    last = parts[-1]
    if not isinstance(last, pt.Variable | rp.RowVariable):
        refuse(
            target, f"{clause}: {pattern}",
            "regexes prefer the earliest end and SQL the leftmost start; they agree for patterns of a fixed "
            "number of rows, and for patterns whose last part is a single row that ends all loops",
        )  # fmt: skip
    before = [name for part in parts[:-1] for name in _names(part)]
    end = define.get(last.name)
    for name in dict.fromkeys(before):
        condition = define.get(name)
        if end is None or condition is None or not are_disjoint(condition, end):
            refuse(
                target, f"{clause}: {pattern}",
                "regexes prefer the earliest end and SQL the leftmost start. They agree if no row can be "
                f"both {last.name} and {name}; write conditions that exclude each other",
            )  # fmt: skip


def _names(part: pt.Pattern | rp.RowPattern) -> list[str]:
    if isinstance(part, pt.Variable | rp.RowVariable):
        return [part.name]
    if isinstance(part, pt.AnyEvent):
        return ["."]
    return [name for child in part.children() for name in _names(child)]


def row_pattern_of_regex(target: str, query: RegexQuery) -> rp.RowPattern:
    """Return the pattern of a regex whose ends are unique as a row pattern; names are as in the regex."""
    pattern = without_open_end(query.pattern)
    parts = pattern.parts if isinstance(pattern, pt.Sequence) else (pattern,)
    define: dict[str, ex.Expression | None] = {
        name: tree for name, tree in query.define
    } | {name: ex.Attribute(name) for name in query.undefined_variables()}  # fmt: skip
    for name, tree in query.define:
        for node in tree.walk(literals=False):
            if isinstance(node, ex.Aggregate):
                refuse(
                    target, f"define {name!r}: {node}",
                    "in a pattern with loops a condition may read the row and rows before it only",
                )  # fmt: skip
    check_unique_ends(target, "pattern", query.pattern, parts, define)
    return as_row_pattern(pattern)


def as_row_pattern(pattern: pt.Pattern) -> rp.RowPattern:
    """Return a regex pattern as a row pattern with greedy loops; any event is the variable ``.``."""
    match pattern:
        case pt.Variable(name=name):
            return rp.RowVariable(name)
        case pt.AnyEvent():
            return rp.RowVariable(".")
        case pt.Empty():
            return rp.NoRow()
        case pt.Sequence(parts=parts):
            return rp.Concatenation(tuple(map(as_row_pattern, parts)))
        case pt.Alternative(options=options):
            return rp.Alternation(tuple(map(as_row_pattern, options)))
        case pt.Repeat(body=body, low=low, high=high):
            return rp.Quantified(as_row_pattern(body), low, high)
    raise TypeError(f"no row pattern for {type(pattern).__name__}")


def regex_pattern_of_rows(
    target: str, query: RowPatternQuery, define: dict[str, ex.Expression | None]
) -> pt.Pattern:
    """Return the pattern of a clause whose ends are unique as a regex pattern; names are as in the clause."""
    check_clauses(target, query)
    pattern = query.pattern
    parts = pattern.parts if isinstance(pattern, rp.Concatenation) else (pattern,)
    check_unique_ends(target, "PATTERN", pattern, parts, define)
    if query.after_match != "past_last_row":
        refuse(
            target, f"AFTER MATCH SKIP {query.after_match.replace('_', ' ').upper()}",
            "a regex continues after the last row of a match",
        )  # fmt: skip
    return _as_regex(target, pattern, {name for name, tree in define.items() if tree is not None})


def _as_regex(target: str, pattern: rp.RowPattern, defined: set[str]) -> pt.Pattern:
    match pattern:
        case rp.RowVariable(name=name):
            return pt.Variable(name) if name in defined else pt.AnyEvent()
        case rp.NoRow():
            return pt.Empty()
        case rp.Concatenation(parts=parts):
            return pt.seq(*(_as_regex(target, part, defined) for part in parts))
        case rp.Alternation(options=options):
            return pt.any_of_patterns(*(_as_regex(target, option, defined) for option in options))
        case rp.Exclusion(body=body):
            return _as_regex(target, body, defined)
        case rp.Quantified(body=body, low=low, high=high):
            return pt.Repeat(_as_regex(target, body, defined), low, high)
    what = "anchors" if isinstance(pattern, rp.Anchor) else "permutations"
    refuse(target, f"PATTERN: {pattern}", f"a regex has no {what}")
