"""The meaning of SQL's MATCH_RECOGNIZE, executed literally: backtracking in the order of preference.

Patterns and expressions are nested dicts. This module knows nothing of the package, so that a bug of the
package cannot hide from its own test. It is meant for short partitions: a match may take exponential time.

Patterns: ``{"var": name}``, ``{"seq": [p, …]}``, ``{"alt": [p, …]}`` (left first), ``{"quant": p, "min": n,
"max": n or None, "greedy": bool}``, ``{"permute": [p, …]}``, ``{"exclude": p}``, ``{"anchor": "start" or
"end"}`` and ``{"empty": True}``.

Expressions: ``{"lit": v}``, ``{"col": name, "var"?, "index"?, "sem"?}``, ``{"op": name, "args": […]}``,
``{"nav": "first" | "last" | "prev" | "next", "arg": e, "offset"?, "sem"?}``, ``{"agg": name, "args": […],
"star"?, "var"?, "distinct"?, "sem"?}``, ``{"classifier": variable or None}``, ``{"match_number": True}``,
``{"match_rowtime": column}``, ``{"timed_out": True}``,
``{"fn": name, "args": […]}``, ``{"cast": e, "type": name}``, ``{"array": […]}``, ``{"is": e, "truth": bool}``
for IS TRUE and IS FALSE, and ``{"distinct": [e, e]}`` for IS DISTINCT FROM.
"""

from __future__ import annotations

import itertools
import math
import operator
import re
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

Row = Mapping[str, Any]
Rows = Sequence[Row]
Tree = Mapping[str, Any]

# The rows of a partial match, from its first row on: the variable of each, and whether `{- -}` excludes it.
Labels = tuple[tuple[str, bool], ...]


class MatchError(Exception):
    """A run-time error of SQL; the message is its kind."""


SKIP_TO_FIRST_ROW = "skip_to_first_row_of_match"
SKIP_TO_MISSING_VARIABLE = "skip_to_variable_not_in_match"


@dataclass(frozen=True)
class Query:
    """One MATCH_RECOGNIZE clause.

    ``rows_per_match`` is ``one``, ``all`` (empty matches are shown), ``all_omit_empty`` or
    ``all_with_unmatched``. ``skip`` is ``past_last_row``, ``to_next_row``, ``to_first`` or ``to_last``. The
    last two need ``skip_variable``. ``order_by`` has column, descending, nulls first. ``within`` has column
    and bound: the last row minus the first must stay below it. ``timed_out`` says that one row per match also
    has the partial matches that ran out of time.
    """

    pattern: Tree
    define: Mapping[str, Tree] = field(default_factory=dict)
    measures: Sequence[tuple[str, Tree]] = ()
    subset: Mapping[str, Sequence[str]] = field(default_factory=dict)
    rows_per_match: str = "one"
    skip: str = "past_last_row"
    skip_variable: str | None = None
    partition_by: Sequence[str] = ()
    order_by: Sequence[tuple[str, bool, bool]] = ()
    within: tuple[str, Any] | None = None
    timed_out: bool = False


@dataclass(frozen=True)
class Match:
    """A match in a partition: its number, its first row, and what each of its rows is mapped to.

    A partial match that ran out of time has no number.
    """

    number: int | None
    start: int
    labels: Labels

    def rows(self) -> range:
        """Return the positions of the rows of the match, in the partition."""
        return range(self.start, self.start + len(self.labels))


# --- from a table to a table -------------------------------------------------------------------------------


def result(query: Query, rows: Rows) -> list[dict[str, Any]]:
    """Return the output rows, partition by partition.

    One row per match has the partition columns and the measures. All rows per match have the columns of the
    input and the measures.
    """
    now = latest(query, rows)
    return [
        output
        for partition in partitions(query, rows)
        for output in result_of_partition(query, partition, now)
    ]


def latest(query: Query, rows: Rows) -> Any:
    """Return the latest time of a table; None without a time bound."""
    if query.within is None:
        return None
    return max((row[query.within[0]] for row in rows if row[query.within[0]] is not None), default=None)


def partitions(query: Query, rows: Rows) -> list[list[Row]]:
    """Return the partitions in the order of their first rows, each sorted. Null is a key like any other."""
    rows_of_key: dict[tuple, list[Row]] = {}
    for row in rows:
        rows_of_key.setdefault(tuple(row[name] for name in query.partition_by), []).append(row)
    found = []
    for partition in rows_of_key.values():
        for column, descending, nulls_first in reversed(query.order_by):
            nulls = [row for row in partition if row[column] is None]
            others = [row for row in partition if row[column] is not None]
            others.sort(
                key=operator.itemgetter(column), reverse=descending
            )  # `reverse` keeps the order of ties
            partition = [*nulls, *others] if nulls_first else [*others, *nulls]
        found.append(partition)
    return found


def result_of_partition(query: Query, rows: Rows, now: Any = None) -> list[dict[str, Any]]:
    """Return the output rows of one partition. ``now`` is the latest time of the table, if it has others."""
    found = matches(query, rows)
    if query.timed_out:
        late = timed_out(query, rows, latest(query, rows) if now is None else now)
        found = sorted([*found, *late], key=lambda match: match.start)
    if query.rows_per_match == "one":
        return [
            {name: rows[match.start][name] for name in query.partition_by}
            | measures_at(query, rows, match, match.start + len(match.labels) - 1)
            for match in found
        ]
    by_row: list[tuple[int, int, dict[str, Any]]] = []
    for match in found:
        if not match.labels and query.rows_per_match != "all_omit_empty":
            measures = measures_at(query, rows, match, match.start - 1)
            by_row.append((match.number, match.start, {**rows[match.start], **measures}))
        for position, (_, excluded) in zip(match.rows(), match.labels, strict=True):
            if not excluded:
                measures = measures_at(query, rows, match, position)
                by_row.append((match.number, position, {**rows[position], **measures}))
    if query.rows_per_match == "all_with_unmatched":
        matched = {position for match in found for position in (match.start, *match.rows())}
        nothing = {name: None for name, _ in query.measures}
        by_row += [(0, i, {**row, **nothing}) for i, row in enumerate(rows) if i not in matched]
        by_row.sort(key=lambda item: (item[1], item[0]))  # unmatched rows stand where they stand in the input
    return [output for _, _, output in by_row]


def measures_at(query: Query, rows: Rows, match: Match, position: int) -> dict[str, Any]:
    """Return the measures at a row of a match. They are final at its last row."""
    context = Context(rows, match.start, match.labels, position, match.number, query.subset, past=True)
    return {name: value(tree, context) for name, tree in query.measures}


def result_of_window(
    query: Query, rows: Rows, ends: Sequence[int], *, seek: bool = False
) -> list[dict[str, Any]]:
    """Return one row for each row of a partition, for the clause in a WINDOW.

    ``ends`` has the end of each row's frame, exclusive. The frame begins at the row. The measures are final.
    They are null for a row without a match of its own, and for the rows that earlier matches skip.
    """
    nothing = {name: None for name, _ in query.measures}
    outputs, resume = [], 0
    for current, end in enumerate(ends):
        found, frame = None, rows[current:end]  # navigation does not leave the frame either
        if current >= resume:
            starts = range(current, end) if seek else range(current, min(current + 1, end))
            found = next(filter(None, (match_at(query, frame, s - current, 1) for s in starts)), None)
        if found is None or not found.labels:
            outputs.append({**rows[current], **nothing})
            continue
        last = found.start + len(found.labels) - 1
        outputs.append({**rows[current], **measures_at(query, frame, found, last)})
        resume = current + (1 if query.skip == "to_next_row" else next_start(query, found))
    return outputs


# --- matches -----------------------------------------------------------------------------------------------


def matches(query: Query, rows: Rows) -> list[Match]:
    """Return the matches of one partition in the order in which they are found."""
    found, start = [], 0
    while start < len(rows):
        match = match_at(query, rows, start, len(found) + 1)
        if match is None:
            start += 1
        else:
            found.append(match)
            start = next_start(query, match)
    return found


def match_at(query: Query, rows: Rows, start: int, number: int) -> Match | None:
    """Return the preferred match that begins at a row, or None."""
    for labels in ways(query, rows, start, number, query.pattern, ()):
        return Match(number, start, labels)
    return None


def timed_out(query: Query, rows: Rows, now: Any) -> list[Match]:
    """Return the partial matches that ran out of time.

    Each begins at a row where a match is searched and not found. It takes all rows that are in time, and
    would need one more. The first in the order of preference counts. ``now`` is the latest time.
    """
    assert query.within is not None
    column, bound = query.within
    found, start, number = [], 0, 1
    while start < len(rows):
        match = match_at(query, rows, start, number)
        if match is not None:
            start, number = next_start(query, match), number + 1
            continue
        begin = rows[start][column]
        if begin is not None and now - begin >= bound:
            waiting: list[Labels] = []
            for _ in ways(query, rows, start, number, query.pattern, (), waiting):
                raise AssertionError("no way leads to a match")
            if waiting and waiting[0]:
                found.append(Match(None, start, waiting[0]))
        start += 1
    return found


def next_start(query: Query, match: Match) -> int:
    """Return the first row at which the next match can begin."""
    if not match.labels or query.skip == "to_next_row":
        return match.start + 1
    if query.skip == "past_last_row":
        return match.start + len(match.labels)
    variables = query.subset.get(query.skip_variable or "", (query.skip_variable,))
    mapped = [
        position
        for position, (variable, _) in zip(match.rows(), match.labels, strict=True)
        if variable in variables
    ]
    if not mapped:
        raise MatchError(SKIP_TO_MISSING_VARIABLE)
    target = mapped[0] if query.skip == "to_first" else mapped[-1]
    if target == match.start:
        raise MatchError(SKIP_TO_FIRST_ROW)
    return target


def ways(
    query: Query,
    rows: Rows,
    start: int,
    number: int,
    pattern: Tree,
    labels: Labels,
    waiting: list[Labels] | None = None,
) -> Iterator[Labels]:
    """Yield the partial matches that continue ``labels`` with a pattern, the preferred ones first.

    ``waiting`` collects the partial matches for which there is no next row, or none in time.
    """
    position = start + len(labels)

    def continued(part: Tree, before: Labels) -> Iterator[Labels]:
        return ways(query, rows, start, number, part, before, waiting)

    match pattern:
        case {"var": variable}:
            longer = (*labels, (variable, False))
            if waiting is not None and not (position < len(rows) and in_time(query, rows, start, position)):
                waiting.append(labels)
            if position < len(rows) and can_take(query, rows, start, number, longer):
                yield longer
        case {"seq": parts}:
            yield from in_turn(parts, labels, continued)
        case {"alt": options}:
            for option in options:
                yield from continued(option, labels)
        case {"permute": parts}:
            for order in itertools.permutations(parts):
                yield from in_turn(order, labels, continued)
        case {"quant": body, "min": least, "max": most, "greedy": greedy}:
            yield from repetitions(body, least, most, greedy, labels, continued)
        case {"exclude": body}:
            n = len(labels)
            for longer in continued(body, labels):
                yield (*longer[:n], *((variable, True) for variable, _ in longer[n:]))
        case {"anchor": side}:
            if position == (0 if side == "start" else len(rows)):
                yield labels
        case {"empty": True}:
            yield labels
        case _:
            raise TypeError(f"no pattern: {pattern}")


Continue = Callable[[Tree, Labels], Iterator[Labels]]


def in_turn(parts: Sequence[Tree], labels: Labels, continued: Continue) -> Iterator[Labels]:
    """Yield the ways of one part after the other."""
    if not parts:
        yield labels
        return
    for longer in continued(parts[0], labels):
        yield from in_turn(parts[1:], longer, continued)


def repetitions(
    body: Tree, least: int, most: int | None, greedy: bool, labels: Labels, continued: Continue
) -> Iterator[Labels]:
    """Yield the ways of a repetition.

    A repetition that is not required and takes no row is the last one, as in Perl. A partial match that was
    reached before, after as many repetitions, is not followed again: all that comes of it came before.
    """
    seen: set[tuple[int, Labels]] = set()

    def after(times: int, labels: Labels) -> Iterator[Labels]:
        key = (times if most is not None else min(times, least), labels)
        if key in seen:
            return
        seen.add(key)
        if not greedy and times >= least:
            yield labels
        if most is None or times < most:
            for longer in continued(body, labels):
                if longer == labels and times >= least:
                    yield labels
                else:
                    yield from after(times + 1, longer)
        if greedy and times >= least:
            yield labels

    yield from after(0, labels)


def in_time(query: Query, rows: Rows, start: int, position: int) -> bool:
    """Return whether a row is in the time bound of a match that begins at row ``start``."""
    if query.within is None:
        return True
    column, bound = query.within
    first, last = rows[start][column], rows[position][column]
    return first is not None and last is not None and last - first < bound


def can_take(query: Query, rows: Rows, start: int, number: int, labels: Labels) -> bool:
    """Return whether the last row of a partial match satisfies the definition of its variable."""
    position = start + len(labels) - 1
    if not in_time(query, rows, start, position):
        return False
    condition = query.define.get(labels[-1][0])
    if condition is None:  # a variable without a definition takes every row
        return True
    return value(condition, Context(rows, start, labels, position, number, query.subset)) is True


# --- expressions -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Context:
    """Where an expression is evaluated: a match, or a partial one, and the current row.

    The match may be seen up to ``position`` (running) or to its end (final). ``past`` says that the labels of
    rows after the current one are known, as in measures. ``row`` is set inside FIRST, LAST, PREV, NEXT and
    inside aggregates: every column and every label is then that row's.
    """

    rows: Rows
    start: int
    labels: Labels
    position: int
    number: int | None
    subset: Mapping[str, Sequence[str]]
    past: bool = False
    row: int | None = None

    def at(self, row: int) -> Context:
        """Return the context in which all values are those of one row."""
        return replace(self, row=row)

    def mapped(self, variable: str | None, semantics: str | None) -> list[int]:
        """Return the rows of the match that are mapped to a variable, or all for None."""
        wanted = None if variable is None else self.subset.get(variable, (variable,))
        end = self.start + len(self.labels) if semantics == "final" else self.position + 1
        return [
            position
            for position, (label, _) in enumerate(self.labels, self.start)
            if position < end and (wanted is None or label in wanted)
        ]

    def label(self, row: int) -> str | None:
        """Return the variable to which a row is mapped; None outside the match."""
        known = row - self.start < len(self.labels) and (self.past or row <= self.position)
        return self.labels[row - self.start][0] if row >= self.start and known else None


def value(tree: Tree, context: Context) -> Any:
    """Return the value of an expression; None is null."""
    match tree:
        case {"lit": constant}:
            return constant
        case {"match_number": True}:
            return context.number
        case {"match_rowtime": column}:
            rows = context.mapped(None, "final")
            return context.rows[rows[-1]][column] if rows else None
        case {"timed_out": True}:
            return context.number is None
        case {"col": column}:
            row = context.row
            if row is None:
                row = one_row(context.mapped(tree.get("var"), tree.get("sem")), tree.get("index", -1))
            return None if row is None else context.rows[row][column]
        case {"classifier": variable}:
            row = context.row
            if row is None:
                row = one_row(context.mapped(variable, tree.get("sem")), -1)
            return None if row is None else context.label(row)
        case {"nav": _}:
            row = row_of(tree, context)
            return None if row is None else value(innermost(tree), context.at(row))
        case {"agg": function}:
            return aggregate(function, tree, context)
        case {"op": "and", "args": parts}:
            values = [value(part, context) for part in parts]
            return False if any(v is False for v in values) else None if None in values else True
        case {"op": "or", "args": parts}:
            values = [value(part, context) for part in parts]
            return True if any(v is True for v in values) else None if None in values else False
        case {"op": "in", "args": [part, *options]}:
            one, others = value(part, context), [value(option, context) for option in options]
            found = one is not None and any(one == other for other in others if other is not None)
            return True if found else None if one is None or None in others else False
        case {"op": "is_null", "args": [part]}:
            return value(part, context) is None
        case {"op": "is_not_null", "args": [part]}:
            return value(part, context) is not None
        case {"op": name, "args": parts}:
            return strict(OPERATORS[name], [value(part, context) for part in parts])
        case {"fn": "if", "args": [condition, *options]}:
            chosen = options[:1] if value(condition, context) is True else options[1:]
            return value(chosen[0], context) if chosen else None
        case {"fn": "nullif", "args": parts}:
            one, other = [value(part, context) for part in parts]
            return None if one == other else one
        case {"fn": "coalesce", "args": parts}:
            return next((v for part in parts if (v := value(part, context)) is not None), None)
        case {"fn": "concat_ws", "args": [separator, items]}:
            return value(separator, context).join(v for v in value(items, context) if v is not None)
        case {"fn": name, "args": parts}:
            return strict(FUNCTIONS[name], [value(part, context) for part in parts])
        case {"cast": part, "type": kind}:
            return strict(lambda v: cast(v, kind), [value(part, context)])
        case {"is": part, "truth": truth}:
            return value(part, context) is truth
        case {"distinct": [left, right]}:
            one, other = value(left, context), value(right, context)
            return one is not other if one is None or other is None else one != other
        case {"array": parts}:
            return [value(part, context) for part in parts]
    raise TypeError(f"no expression: {tree}")


def one_row(rows: Sequence[int], index: int) -> int | None:
    """Return the row with an index from the front, or negative from the back; None if there is none."""
    return rows[index] if -len(rows) <= index < len(rows) else None


def row_of(tree: Tree, context: Context) -> int | None:
    """Return the row to which FIRST, LAST, PREV or NEXT go; None outside the match or the partition.

    FIRST and LAST count rows of a variable. PREV and NEXT count rows of the partition. They begin at the row
    of an inner FIRST or LAST, otherwise at the last row of the variable.
    """
    inner, kind = tree["arg"], tree["nav"]
    if kind in ("first", "last"):
        rows, offset = context.mapped(variable_of(inner), tree.get("sem")), tree.get("offset", 0)
        return one_row(rows, offset if kind == "first" else -1 - offset)
    if inner.get("nav") in ("first", "last"):
        row = row_of(inner, context)
    else:
        row = one_row(context.mapped(variable_of(inner), tree.get("sem")), -1)
    if row is None:
        return None
    offset = tree.get("offset", 1)
    row += offset if kind == "next" else -offset
    return row if 0 <= row < len(context.rows) else None


def innermost(tree: Tree) -> Tree:
    """Return what a navigation evaluates at its row."""
    inner = tree["arg"]
    return innermost(inner) if tree["nav"] in ("prev", "next") and "nav" in inner else inner


def variable_of(tree: Any) -> str | None:
    """Return the variable that an argument of a navigation or an aggregate names; None for all rows.

    Its columns and CLASSIFIER() all name the same one.
    """
    found = set(variables_in(tree))
    if len(found) > 1:
        raise TypeError(f"several variables in one argument: {tree}")
    return found.pop() if found else None


def variables_in(tree: Any) -> Iterator[str | None]:
    """Yield the variable of every column and of every CLASSIFIER() of a tree."""
    if isinstance(tree, Mapping):
        if "col" in tree:
            yield tree.get("var")
        elif "classifier" in tree:
            yield tree["classifier"]
        else:
            for part in tree.values():
                yield from variables_in(part)
    elif isinstance(tree, list | tuple):
        for part in tree:
            yield from variables_in(part)


def aggregate(function: str, tree: Tree, context: Context) -> Any:
    """Return an aggregate over the rows of a variable, running or final. It leaves nulls out."""
    arguments = list(tree.get("args", ()))
    rows = context.mapped(tree["var"] if "var" in tree else variable_of(arguments), tree.get("sem"))
    if not arguments:
        return len(rows)  # count(*) and count(A.*)
    columns = [[value(argument, context.at(row)) for row in rows] for argument in arguments]
    values = columns[0]
    if function == "array_agg":
        return (list(dict.fromkeys(values)) if tree.get("distinct") else values) or None
    if function == "count_if":
        return sum(item is True for item in values)
    if function == "map_agg":
        entries: dict[Any, Any] = {}
        for key, item in zip(*columns, strict=True):
            if key is not None:
                entries.setdefault(key, item)
        return entries or None
    if function in ("max_by", "min_by"):
        pairs = [pair for pair in zip(values, columns[1], strict=True) if pair[1] is not None]
        best = {"max_by": max, "min_by": min}[function](pairs, key=operator.itemgetter(1), default=None)
        return None if best is None else best[0]
    present = [item for item in values if item is not None]
    if tree.get("distinct"):
        present = list(dict.fromkeys(present))
    if function == "count":
        return len(present)
    if function in ("stddev", "stddev_samp", "variance", "var_samp") and len(present) < 2:
        return None
    return AGGREGATES[function](present) if present else None


AGGREGATES: dict[str, Callable[[list], Any]] = {
    "sum": sum,
    "min": min,
    "max": max,
    "avg": lambda values: sum(values) / len(values),
    "bool_and": all,
    "every": all,
    "bool_or": any,
    "arbitrary": operator.itemgetter(0),
    "any_value": operator.itemgetter(0),
    "median": lambda values: float(statistics.median(map(Fraction, values))),
    "variance": lambda values: float(statistics.variance(map(Fraction, values))),
    "var_samp": lambda values: float(statistics.variance(map(Fraction, values))),
    "var_pop": lambda values: float(statistics.pvariance(map(Fraction, values))),
    "stddev": lambda values: math.sqrt(statistics.variance(map(Fraction, values))),
    "stddev_samp": lambda values: math.sqrt(statistics.variance(map(Fraction, values))),
    "stddev_pop": lambda values: math.sqrt(statistics.pvariance(map(Fraction, values))),
}


def strict(function: Callable[..., Any], values: Sequence[Any]) -> Any:
    """Return a function of values; null if one is null, or where the function is not defined."""
    if any(item is None for item in values):
        return None
    try:
        return function(*values)
    except (ZeroDivisionError, OverflowError):
        return None


def like(text: str, pattern: str, escape: str | None = None) -> bool:
    """Return whether a text fits: ``%`` is any run of characters, ``_`` any one, others are themselves."""
    if not pattern:
        return not text
    if pattern[0] == escape:
        return text[:1] == pattern[1] and like(text[1:], pattern[2:], escape)
    if pattern[0] == "%":
        return any(like(text[i:], pattern[1:], escape) for i in range(len(text) + 1))
    return bool(text) and pattern[0] in ("_", text[0]) and like(text[1:], pattern[1:], escape)


def cast(item: Any, kind: str) -> Any:
    """Return a value as another type: a number, or a text that may be cut."""
    if found := re.fullmatch(r"varchar(?:\((\d+)\))?", kind):
        text = str(item).lower() if isinstance(item, bool) else str(item)
        return text[: int(found[1]) if found[1] else None]
    if kind.startswith("decimal"):
        return Fraction(item)
    return {"bigint": int, "integer": int, "double": float}[kind](item)


def remainder(one: Any, other: Any) -> Any:
    """Return what is left of a division that rounds towards zero, as SQL says."""
    exact = Fraction(one) - Fraction(other) * math.trunc(Fraction(one) / Fraction(other))
    return int(exact) if isinstance(one, int) and isinstance(other, int) else float(exact)


def substring(text: str, start: int, length: int | None = None) -> str:
    """Return characters from a place on: from 1, or below 0 from the end. Place 0 has none, as in Trino."""
    place = start if start >= 0 else len(text) + 1 + start
    if place < 1:
        return ""
    stop = len(text) + 1 if length is None else place + length
    return "".join(char for i, char in enumerate(text, 1) if place <= i < stop)


def split_part(text: str, between: str, number: int) -> str | None:
    """Return the part with a number, from 1; null after the last one, and below 1."""
    parts = dict(enumerate(text.split(between), 1))
    return parts.get(number)


def padding(text: str, n: int, fill: str) -> str:
    """Return the characters that a text lacks, from a text that repeats."""
    return "".join(fill[i % len(fill)] for i in range(n - len(text)))


def trim(text: str, signs: str | None, side: str) -> str:
    """Return a text without white space, or without some characters, at its ends."""
    while text and side != "right" and (text[0].isspace() if signs is None else text[0] in signs):
        text = text[1:]
    while text and side != "left" and (text[-1].isspace() if signs is None else text[-1] in signs):
        text = text[:-1]
    return text


OPERATORS: dict[str, Callable[..., Any]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": lambda one, other: remainder(one, other),
    "neg": operator.neg,
    "not": operator.not_,
    "||": operator.add,
    "like": like,
    "between": lambda item, low, high: low <= item <= high,
}
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": abs,
    "lower": str.lower,
    "upper": str.upper,
    "floor": math.floor,
    "ceil": math.ceil,
    "trunc": lambda x: float(int(x)),
    "reverse": lambda text: "".join(reversed(text)),
    "char_length": len,
    "length": len,
    "substring": substring,
    "substr": substring,
    "strpos": lambda text, part: next((i + 1 for i in range(len(text) + 1) if text[i:].startswith(part)), 0),
    "split_part": split_part,
    "lpad": lambda text, n, fill=" ": padding(text, n, fill) + text[:n],
    "rpad": lambda text, n, fill=" ": text[:n] + padding(text, n, fill),
    "trim": lambda text, signs=None: trim(text, signs, "both"),
    "ltrim": lambda text, signs=None: trim(text, signs, "left"),
    "rtrim": lambda text, signs=None: trim(text, signs, "right"),
    "replace": lambda text, old, new="": new.join(text.split(old)),
    "starts_with": lambda text, part: text[: len(part)] == part,
    "array_join": lambda items, separator, null=None: separator.join(
        item if item is not None else null for item in items if item is not None or null is not None
    ),
    "element_at": lambda items, key: items.get(key),
    "mod": lambda one, other: remainder(one, other),
    "round": lambda item: math.copysign(math.floor(abs(Fraction(item)) + Fraction(1, 2)), item),
    "log": lambda base, item: math.log(item) / math.log(base),
}
