"""Say a query of MATCH_RECOGNIZE in one plain sentence."""

from __future__ import annotations

from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.rebuilding import rebuilt
from cepkit.language.expressions.saying import (
    join_words,
    say_condition,
    say_duration,
    say_times,
)
from cepkit.language.match_recognize import patterns as rp
from cepkit.language.match_recognize.printing import print_sql
from cepkit.language.match_recognize.query import RowPatternQuery

_SKIPS = {
    "past_last_row": "the search continues after the last row",
    "to_next_row": "the search continues at the next row",
    "to_first": "the search continues at the first row of",
    "to_last": "the search continues at the last row of",
}
_ROWS = {
    "one": "one row per match",
    "all": "all rows of each match",
    "all_omit_empty": "all rows of each match, without empty ones",
    "all_with_unmatched": "all rows, also those without a match",
}
_SIMPLE = (
    ex.And, ex.Or, ex.Not, ex.Comparison, ex.In, ex.IsNull, ex.Like, ex.Attribute, ex.Literal, ex.Arithmetic,
    ex.Negative, ex.Parameter, ex.Previous,
)  # fmt: skip


def say_rows(query: RowPatternQuery) -> str:
    """Return a query of MATCH_RECOGNIZE in one plain sentence, without a full stop."""
    defined = dict(query.define)
    words = [_say(query.pattern, frozenset(defined))]
    if query.within is not None:
        words.append(f"in less than {say_duration(query.within)}")
    if query.partition_by:
        words.append(f"per {join_words(query.partition_by)}")
    names = dict.fromkeys(variable.name for variable in rp.row_variables(query.pattern))
    meanings = [f"{name} means that {_condition(name, defined[name])}" for name in names if name in defined]
    subsets = [f"{name} is {join_words(of)} together" for name, of in query.subset]
    skip = _SKIPS[query.after_match]
    if query.after_match_variable is not None:
        skip += f" {query.after_match_variable}"
    return "; ".join([", ".join(words), *meanings, *subsets, _ROWS[query.rows_per_match], skip])


def _condition(variable: str, tree: ex.Expression) -> str:
    """Return a condition in words if it is simple, else its text."""

    def plain(node: ex.Expression) -> ex.Expression:
        if isinstance(node, ex.Reference) and node.variable == variable and node.name is not None:
            return ex.Attribute(node.name)
        if isinstance(node, rp.Navigation) and node.function == "prev" and node.offset != 0:
            return ex.Previous(node.operand, node.offset or 1) if _is_column(node.operand) else node
        return node

    simple = rebuilt(tree, ex.Expression, plain)
    if all(isinstance(node, _SIMPLE) for node in simple.walk()):
        return say_condition(simple)
    return print_sql(tree)


def _is_column(tree: ex.Expression) -> bool:
    return isinstance(tree, ex.Attribute)


def _say(pattern: rp.RowPattern, defined: frozenset[str]) -> str:
    def say(part: rp.RowPattern) -> str:
        return _say(part, defined)

    match pattern:
        case rp.RowVariable(name=name):
            return f"a row {name}" if name in defined else f"any row {name}"
        case rp.NoRow():
            return "no row"
        case rp.Anchor(at_start=at_start):
            return (
                "from the first row of the partition" if at_start else "up to the last row of the partition"
            )
        case rp.Concatenation(parts=parts):
            return ", then ".join(map(say, parts))
        case rp.Alternation(options=options):
            return "either " + " or else ".join(_in_brackets(option, defined) for option in options)
        case rp.Permutation(parts=parts):
            return f"in any order: {join_words([_in_brackets(part, defined) for part in parts])}"
        case rp.Exclusion(body=body):
            return f"{_in_brackets(body, defined)} (not shown)"
        case rp.Quantified():
            return _say_repeat(pattern, defined)
    raise TypeError(f"no words for {type(pattern).__name__}")


def _in_brackets(pattern: rp.RowPattern, defined: frozenset[str]) -> str:
    is_single = isinstance(pattern, rp.RowVariable | rp.NoRow | rp.Anchor | rp.Exclusion)
    is_row = isinstance(pattern, rp.Quantified) and isinstance(pattern.body, rp.RowVariable)
    text = _say(pattern, defined)
    return text if is_single or is_row else f"({text})"


def _say_repeat(pattern: rp.Quantified, defined: frozenset[str]) -> str:
    body, low, high = pattern.body, pattern.low, pattern.high
    if isinstance(body, rp.RowVariable):
        rows = f"rows {body.name}"
        said = say_times(low, high, _say(body, defined), lambda n: f"{n} {rows}")
    else:
        group = f"({_say(body, defined)})"
        said = say_times(low, high, group, lambda n: f"{group} {n} times")
    return said if pattern.greedy else f"{said}, as few as possible"
