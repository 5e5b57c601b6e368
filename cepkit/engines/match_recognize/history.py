"""What the conditions of a query need to know of a partial match before the current row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cepkit.compile.match_recognize.aggregates import AGGREGATES
from cepkit.compile.match_recognize.compiled import RowTotal
from cepkit.errors import PredicateError
from cepkit.language.expressions import trees as ex
from cepkit.language.match_recognize import patterns as rp

LABELS = ("labels",)  # a part of the history: the variables of all rows


@dataclass(frozen=True)
class Needs:
    """The history that the conditions of a query need.

    ``parts`` has (``first`` or ``last``, variable, number of rows), (``total``, aggregate) and
    ``("labels",)``. A condition depends on the row, on rows a fixed distance away, and on the parts. With
    ``needs_start`` it depends on the first row as well. ``variables`` are those whose conditions need more
    than rows a fixed distance away.

    """

    parts: tuple[tuple, ...]
    needs_start: bool
    variables: tuple[str, ...]


def history_needs(define: Mapping[str, ex.Expression], members: Mapping[str, frozenset[str]]) -> Needs:
    """Return what the conditions need; ``members`` has the variables that a name stands for."""
    sizes: dict[tuple[str, str], int] = {}
    totals: dict[rp.RowAggregate, None] = {}
    labels = needs_start = False
    variables: dict[str, None] = {}
    for name, tree in define.items():
        for node, from_first, offset in _looks(tree):
            if isinstance(node, rp.MatchNumber):
                needs_start = True
            elif isinstance(node, rp.RowAggregate):
                totals[node] = None
                needs_start |= any(isinstance(part, rp.MatchNumber) for part in node.walk())
            else:
                labels |= isinstance(node, rp.Classifier)
                variable = None if isinstance(node, ex.Attribute) else node.variable
                own = variable is None or name in members[variable]
                if own and not from_first and offset == 0:
                    if isinstance(node, rp.Classifier):
                        variables[name] = None
                    continue  # the current row
                if variable is None:
                    variables[name] = None
                    needs_start = True
                    continue
                rows = offset if own and not from_first else offset + 1
                key = ("first" if from_first else "last", variable)
                sizes[key] = max(sizes.get(key, 0), rows)
            variables[name] = None
    parts: list[tuple] = [(end, variable, rows) for (end, variable), rows in sizes.items()]
    parts += [("total", tree) for tree in totals]
    return Needs((*parts, *([LABELS] if labels else ())), needs_start or labels, tuple(variables))


def _looks(tree: ex.Expression, from_first: bool = False, offset: int = 0):
    """Yield columns, aggregates, labels and match numbers with the row of the variable that they look at."""
    if isinstance(tree, rp.Navigation):
        if tree.function in ("first", "last"):
            from_first, offset = tree.function == "first", tree.offset or 0
        yield from _looks(tree.operand, from_first, offset)
    elif isinstance(tree, ex.Attribute | ex.Reference | rp.RowAggregate | rp.Classifier | rp.MatchNumber):
        yield tree, from_first, offset
    else:
        for part in tree.children():
            yield from _looks(part, from_first, offset)


class MatchHistory:
    """Steps from one partial match to the next; the state is a tuple with one entry for each part."""

    def __init__(
        self,
        needs: Needs,
        members: Mapping[str, frozenset[str]],
        totals: Mapping[rp.RowAggregate, RowTotal],
    ):
        self.parts, self.members, self.totals = needs.parts, members, totals
        self.start: tuple = tuple(
            (AGGREGATES[part[1].function].start, frozenset()) if part[0] == "total" else ()
            for part in needs.parts
        )
        self.place_of = {part[:2]: i for i, part in enumerate(needs.parts)}

    def step(self, state: tuple, trial: Trial) -> tuple:
        """Return the state after the row of a trial."""
        return tuple(map(lambda part, entry: self._grown(part, entry, trial), self.parts, state))

    def _grown(self, part: tuple, entry: tuple, trial: Trial) -> tuple:
        kind = part[0]
        if kind == "labels":
            return (*entry, trial.variable)
        if kind == "total":
            return self.grown_total(self.totals[part[1]], entry, trial)
        _, variable, n_rows = part
        if trial.variable not in self.members[variable] or (kind == "first" and len(entry) == n_rows):
            return entry
        return (*entry, trial.row)[-n_rows:]

    def grown_total(self, total: RowTotal, entry: tuple, trial: Trial) -> tuple:
        """Return state and distinct values of an aggregate after the row of a trial."""
        if total.variable is not None and trial.variable not in self.members[total.variable]:
            return entry
        value, seen = entry
        if total.tree.distinct:
            more = set(seen)
            value = next_total(total, trial, trial.row, value, more)
            return value, frozenset(more)
        return next_total(total, trial, trial.row, value, set()), seen


class Trial:
    """A partial match and the row that it may take next, as conditions see it."""

    def __init__(self, history: MatchHistory, columns: Mapping[str, Sequence[Any]], n_rows: int):
        self.history, self.columns, self.n_rows = history, columns, n_rows
        self.start = self.row = self.number = self.low = 0
        self.variable = ""
        self.state: tuple = ()

    def nth(self, variable: str | None, from_first: bool, offset: int, final: bool) -> int:
        """Return a row of a variable from its first or last one, the current row included; -1 if none."""
        if variable is None:
            row = self.start + offset if from_first else self.row - offset
            return row if self.start <= row <= self.row else -1
        own = self.variable in self.history.members[variable]
        if own and not from_first:
            if offset == 0:
                return self.row
            offset -= 1
        rows = self.state[self.history.place_of["first" if from_first else "last", variable]]
        if offset < len(rows):
            return rows[offset if from_first else -1 - offset]
        return self.row if own and from_first and offset == len(rows) else -1

    def label(self, row: int) -> str | None:
        """Return the variable of a row up to the current one."""
        if row == self.row:
            return self.variable
        labels = self.state[self.history.place_of[LABELS]]
        return labels[row - self.start] if self.start <= row < self.row else None

    def total(self, aggregate: RowTotal) -> Any:
        """Return an aggregate over the rows up to the current one."""
        entry = self.state[self.history.place_of["total", aggregate.tree]]
        value, _ = self.history.grown_total(aggregate, entry, self)
        return AGGREGATES[aggregate.function].result(value)


def next_total(aggregate: RowTotal, place: Any, row: int, state: Any, seen: set) -> Any:
    """Return the state of an aggregate after one more row; ``seen`` has the values of DISTINCT."""
    if not aggregate.arguments:
        return state + 1  # COUNT(*)
    values = [argument(place, row) for argument in aggregate.arguments]
    item = values[0] if len(values) == 1 else tuple(values)
    if item is None and aggregate.function != "array_agg":
        return state
    try:
        if aggregate.tree.distinct:
            if item in seen:
                return state
            seen.add(item)
        return AGGREGATES[aggregate.function].add(state, item)
    except TypeError:  # objects, whose type is not known before
        name, kind = aggregate.function.upper(), type(item).__name__
        raise PredicateError(f"{name}() is not defined for values of type {kind}") from None
