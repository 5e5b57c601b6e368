"""Regexes and row patterns with loops that end at their first possible last row.

A pattern ``X z`` has unique ends if its conditions read only the row itself and rows before it, and ``z``, a
single row, can never be one of the rows of ``X``. Its match ends at the first row after its start that is a
``z``, since no row between them can be one. Hence a start has at most one end. Two matches that overlap end
at the same ``z``. The earliest end with the earliest start (regex) and the leftmost start with any preference
(SQL) are then the same match. Both continue after ``z``, so all matches are the same.
"""

from __future__ import annotations

from cepkit.language.expressions import trees as ex
from cepkit.language.match_recognize import patterns as rp
from cepkit.language.match_recognize.query import RowPatternQuery
from cepkit.language.regex import patterns as pt
from cepkit.language.regex.query import RegexQuery
from cepkit.translation.from_match_recognize import check_clauses
from cepkit.translation.from_regex import without_open_end
from cepkit.translation.proofs import are_disjoint
from cepkit.translation.refusing import refuse


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
        own = define.get(name)
        if end is None or own is None or not are_disjoint(own, end):
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
