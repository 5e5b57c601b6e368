"""Check a parsed MATCH_RECOGNIZE: names of variables, and what functions of rows may contain."""

from __future__ import annotations

import re
from collections.abc import Iterator

from cepkit.errors import PatternSyntaxError, nearest
from cepkit.language.expressions import trees as ex
from cepkit.language.match_recognize import patterns as rp
from cepkit.language.match_recognize.query import WITH_TIMED_OUT, RowPatternQuery

Span = tuple[int, int]


def check_query(query: RowPatternQuery) -> None:
    """Raise for names that do not exist, and for functions of rows in wrong places."""
    primary = [variable.name for variable in rp.row_variables(query.pattern)]
    known = [*dict.fromkeys([*primary, *(name for name, _ in query.subset)])]
    _check_subsets(query, primary)
    for name, _ in query.define:
        if name not in primary:
            hint = nearest(name, primary)
            message = f"DEFINE: the pattern has no variable {name!r}{hint and '.' + hint}"
            raise _error(query, message, _place(query, name, after=r"\s+AS\b"))
    target = query.after_match_variable
    if target is not None and target not in known:
        hint = nearest(target, known)
        place = _place(query, target, before=r"\bSKIP\s+TO\s+(?:FIRST\s+|LAST\s+)?")
        raise _error(query, f"AFTER MATCH: no variable {target!r}{hint and '.' + hint}", place)
    if query.rows_per_match == "all_with_unmatched":
        for node in _nodes(query.pattern):
            if isinstance(node, rp.Exclusion):
                message = "PATTERN: WITH UNMATCHED ROWS does not go with an exclusion, {- … -}"
                raise _error(query, message, node.span)
    if query.timed_out and query.within is None:
        raise _error(
            query, "WITH TIMED OUT MATCHES needs WITHIN, as in WITHIN INTERVAL '1' HOUR", _shown(query)
        )
    for clause, trees in (("DEFINE", query.define), ("MEASURES", query.measures)):
        for name, tree in trees:
            _check_expression(query, f"{clause} {name}", tree, known, in_define=clause == "DEFINE")


def _shown(query: RowPatternQuery) -> Span | None:
    """Return where the query asks for partial matches that ran out of time."""
    found = re.search(r"\bWITH\s+TIMED\s+OUT\s+MATCHES\b", query.source, re.IGNORECASE)
    return found.span() if found else None


def _check_subsets(query: RowPatternQuery, primary: list[str]) -> None:
    seen: list[str] = []
    for name, members in query.subset:
        if name in primary or name in seen:
            place = _place(query, name, after=r"\s*=\s*\(")
            raise _error(query, f"SUBSET: {name!r} is defined already", place)
        seen.append(name)
        for member in members:
            if member not in primary:
                hint = nearest(member, primary)
                message = f"SUBSET: the pattern has no variable {member!r}{hint and '.' + hint}"
                raise _error(query, message, _place(query, member, before=r"\bSUBSET\b[^)]*?"))


def _nodes(pattern: rp.RowPattern) -> Iterator[rp.RowPattern]:
    yield pattern
    for part in pattern.children():
        yield from _nodes(part)


def _check_expression(
    query: RowPatternQuery, role: str, tree: ex.Expression, known: list[str], *, in_define: bool
) -> None:
    for node in tree.walk():
        variable = _variable_of(node)
        if variable is not None and variable not in known:
            hint = nearest(variable, known)
            raise _error(query, f"{role}: no variable {variable!r}{hint and '.' + hint}", node.span)
        if isinstance(node, rp.MatchRowtime | rp.TimedOut):
            _check_of_the_match(query, role, node, in_define)
        if isinstance(node, rp.OverWindow):
            raise _error(query, f"{role}: OVER belongs to the list after SELECT", node.span)
        if isinstance(node, rp.Navigation | rp.RowAggregate):
            if in_define and node.final:
                raise _error(query, f"{role}: FINAL is for MEASURES only", node.span)
            _check_arguments(query, role, node)


def _check_of_the_match(
    query: RowPatternQuery, role: str, node: rp.MatchRowtime | rp.TimedOut, in_define: bool
) -> None:
    """Raise for functions of the whole match where there is none, or no clock."""
    name = "TIMED_OUT()" if isinstance(node, rp.TimedOut) else "MATCH_ROWTIME()"
    if in_define:
        raise _error(query, f"{role}: {name} is for MEASURES only", node.span)
    if isinstance(node, rp.TimedOut) and not query.timed_out:
        raise _error(query, f"{role}: {name} needs {WITH_TIMED_OUT}", node.span)
    if isinstance(node, rp.MatchRowtime) and node.operand is None:
        raise _error(query, f"{role}: {name} needs ORDER BY; its first column is the time", node.span)


def _variable_of(node: ex.Expression) -> str | None:
    """Return the variable that a node names, or None."""
    if isinstance(node, ex.Reference | rp.Classifier | rp.RowAggregate):
        return node.variable
    return None


def _check_arguments(query: RowPatternQuery, role: str, node: rp.Navigation | rp.RowAggregate) -> None:
    """Raise if an argument has functions of rows, or names several variables."""
    name = node.function.upper()
    arguments = (node.operand,) if isinstance(node, rp.Navigation) else node.arguments
    match node:
        case rp.Navigation(function="prev" | "next", operand=rp.Navigation(function="first" | "last")):
            return  # the walk checks the inner one
    named: dict[str | None, ex.Expression] = {}
    for argument in arguments:
        for part in argument.walk():
            if isinstance(part, rp.Navigation | rp.RowAggregate | rp.MatchRowtime | rp.TimedOut):
                if not isinstance(part, rp.Navigation | rp.RowAggregate):
                    raise _error(query, f"{role}: a function of the match cannot be inside {name}", part.span)
                message = f"{role}: {part.function.upper()} cannot be inside {name}"
                raise _error(query, message, part.span)
            if isinstance(part, ex.Attribute | ex.Reference | rp.Classifier):
                named[_variable_of(part)] = part
    if len(named) > 1:
        other = [*named.values()][-1]
        raise _error(query, f"{role}: one {name} takes columns of one variable", other.span)
    if isinstance(node, rp.Navigation) and not named:
        raise _error(query, f"{role}: {name} takes a column or CLASSIFIER()", node.span)


def _place(query: RowPatternQuery, name: str, before: str = "", after: str = "") -> Span | None:
    """Return where a name is between two regular expressions; None if it is nowhere."""
    spelled = rf"{before}(?P<name>[\"`]?(?<!\w){re.escape(name)}(?!\w)[\"`]?){after}"
    found = re.search(spelled, query.source, re.IGNORECASE)
    return found.span("name") if found else None


def _error(query: RowPatternQuery, message: str, span: Span | None) -> PatternSyntaxError:
    """Return the error at a span of the text, or at its start."""
    start, stop = span or (0, 1)
    return PatternSyntaxError(message, query.source, start, stop - start)
