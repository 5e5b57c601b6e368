"""Cases of other engines' test suites as sequence queries on streams.

What is in their files (patterns and conditions as trees, events, expected matches) is translated into what
cepkit is asked and what is expected; nothing here knows how a query is run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas as pd

from cepkit.language.expressions import trees as ex
from cepkit.language.sequences import patterns as sq
from cepkit.language.sequences.construction import sequence_query
from cepkit.language.sequences.patterns import SequenceQuery

FOLDER = Path(__file__).resolve().parents[3] / "shared" / "conformance"

Tree = Mapping[str, Any]
Found = Sequence[tuple[tuple[str, int], ...]]  # of each match the variables and rows, in order


def cases(file: str) -> list[dict[str, Any]]:
    """Return the cases of a file; none where there is no such file."""
    path = FOLDER / file
    return json.loads(path.read_text())["cases"] if path.is_file() else []


class NotExpressible(Exception):
    """The case asks what no sequence query says; the message is the reason."""


@dataclass(frozen=True)
class Asked:
    """A query on a stream, and what another engine says to it.

    ``rows`` are in stream order; ``answer`` writes the matches, as variables and rows, the way ``expected``
    is written.
    """

    query: SequenceQuery
    rows: Sequence[Mapping[str, Any]]
    expected: Any
    answer: Callable[[Found], Any]

    def frame(self) -> pd.DataFrame:
        """Return the rows as a frame of dtypes that have a null."""
        columns = dict.fromkeys(name for row in self.rows for name in row)
        return pd.DataFrame({name: _column([row.get(name) for row in self.rows]) for name in columns})


def _column(values: Sequence[Any]) -> pd.Series:
    kinds = {type(value) for value in values if value is not None}
    dtype = "string" if kinds == {str} else "Int64" if kinds == {int} else "Float64"
    return pd.Series(values, dtype=dtype)


def bag(items: Iterable[Any]) -> list[Any]:
    """Return the items in an order that depends on nothing but them."""
    return sorted(items, key=repr)


# --- expressions -----------------------------------------------------------------------------------------

COMPARISONS = {"=": "==", "<>": "!=", "<": "<", ">": ">", "<=": "<=", ">=": ">="}
FUNCTIONS = ("contains", "starts_with")


def expression(tree: Tree, leaf: Callable[[Tree], ex.Expression]) -> ex.Expression:
    """Return a condition; ``leaf`` makes what a suite has of its own, such as values of events."""
    if "lit" in tree:
        return ex.Literal(tree["lit"])
    if "op" not in tree:
        return leaf(tree)
    operator, arguments = tree["op"], tree["args"]
    if operator == "is_type":
        [kind] = arguments
        return ex.Comparison("==", leaf({"field": "type"}), ex.Literal(kind["lit"]))
    parts = tuple(expression(argument, leaf) for argument in arguments)
    if operator in COMPARISONS:
        return ex.Comparison(COMPARISONS[operator], *parts)
    if operator in ("+", "-", "*", "/"):
        return ex.Arithmetic(operator, *parts)
    if operator in FUNCTIONS:
        return ex.Call(operator, parts)
    made = {"and": ex.And, "or": ex.Or}.get(operator)
    return made(parts) if made else {"not": ex.Not, "is_null": ex.IsNull}[operator](*parts)


# --- OpenCEP ---------------------------------------------------------------------------------------------

SINGLE = "a policy takes one event of several that fit, or none after another"
NESTED = "conditions on pairs of events of a nested loop"
CLOCK = "the clock"


def opencep(pattern: Tree, table: Tree, expected: Iterable[Sequence[int]]) -> Asked:
    """Return one pattern of a case of OpenCEP."""
    policy = pattern.get("policy") or {}
    if policy.get("strategy") or policy.get("freeze"):
        raise NotExpressible(SINGLE)
    names = {column: re.sub(r"\W+", "_", column.lower()) for column in table["columns"]}
    clock, kind = names[table["time_column"]], names[table["type_column"]]
    rows = []
    for i, values in enumerate(table["rows"]):
        row = dict(zip(names.values(), values, strict=True))
        time = datetime.strptime(str(row[clock]), "%Y%m%d%H%M").replace(tzinfo=UTC)
        rows.append({**row, clock: int(time.timestamp()), "row": i})
    rows.sort(key=lambda row: row[clock])
    names |= {"InternalIndexAttributeName": "row", CLOCK: clock}

    def value(tree: Tree) -> ex.Expression:
        if "kleene_each" in tree:
            [of] = tree["kleene_each"]
            index = tree["index"] + 1 if "index" in tree else None
            return expression(tree["relation"], lambda part: ex.Reference(of, names[part["field"]], index))
        if "kleene_pairwise" in tree:
            raise NotExpressible(NESTED)
        return ex.Reference(tree["of"], names[tree["field"]])

    query = sequence_query(
        opencep_part(pattern["structure"]),
        where=[*ex.conjuncts(expression(pattern["condition"], value))] if pattern["condition"] else None,
        within=int(pattern["within_s"]),
        order_by=clock,
        event_type=kind,
        complete_until="end",  # OpenCEP decides all that waits when its input ends
    )

    def answer(found: Found) -> list[Any]:
        return bag(sorted(rows[row]["row"] for _, row in match) for match in found)

    return Asked(query, rows, bag(sorted(events) for events in expected), answer)


def opencep_part(tree: Tree) -> sq.SequencePattern:
    """Return a part of a pattern."""
    match tree:
        case {"event": kind, "name": name}:
            return sq.EventPattern(name, kind)
        case {"seq": parts}:
            return sq.SequenceOf(tuple(map(opencep_part, parts)), (None,) * len(parts))
        case {"and": parts}:
            return sq.AllOf(tuple(map(opencep_part, parts)))
        case {"or": parts}:
            return sq.AnyOf(tuple(map(opencep_part, parts)))
        case {"not": part}:
            return sq.AbsentPattern(opencep_part(part))
        case {"kleene": part, "min": low, "max": high}:
            return sq.Loop(opencep_part(part), low, high)
    raise ValueError(f"no pattern for {tree}")


def by_the_clock_alone(pattern: Tree) -> Tree:
    """Return a sequence of events that says of equal times what OpenCEP says: any order of rows.

    Its events come in any order, with times that do not decrease. An absent event stands in front of,
    between and behind them, with a time between those of its neighbours.
    """
    parts = pattern["structure"]["seq"]
    present = [part["name"] for part in parts if "event" in part]
    conditions = conjuncts(pattern["condition"])
    times = [not_later(one, other) for one, other in pairwise(present)]
    in_front, between, behind = [], [], []
    for i, part in enumerate(parts):
        if "not" not in part:
            continue
        event = part["not"]
        before = [other["name"] for other in parts[:i] if "event" in other][-1:]
        after = [other["name"] for other in parts[i:] if "event" in other][:1]
        own = [tree for tree in conditions if names_event(tree, event["name"])]
        conditions = [tree for tree in conditions if tree not in own]
        for place, added in (("in_front", in_front), ("between", between), ("behind", behind)):
            name = f"{event['name']}_{place}"
            added.append({"not": {"event": event["event"], "name": name}})
            times += [renamed(tree, event["name"], name) for tree in own]
            times += [not_later(other, name) for other in before] + [
                not_later(name, other) for other in after
            ]
    together = {"and": [*(part for part in parts if "event" in part), *between]}
    return {
        **pattern,
        "structure": {"seq": [*in_front, together, *behind]},
        "condition": {"op": "and", "args": [*conditions, *times]},
    }


def conjuncts(condition: Tree | None) -> list[Tree]:
    """Return what must hold, one by one."""
    if condition is None:
        return []
    return [*condition["args"]] if condition.get("op") == "and" else [condition]


def not_later(one: str, other: str) -> Tree:
    """Return that the time of one event is not after that of another."""
    return {"op": "<=", "args": [{"field": CLOCK, "of": one}, {"field": CLOCK, "of": other}]}


def names_event(tree: Any, name: str) -> bool:
    """Return whether a condition names the event."""
    return tree.get("of") == name or any(names_event(part, name) for part in tree.get("args", ()))


def renamed(tree: Tree, name: str, new: str) -> Tree:
    """Return a condition about another event."""
    changed = {**tree, "of": new} if tree.get("of") == name else dict(tree)
    return changed | ({"args": [renamed(part, name, new) for part in tree["args"]]} if "args" in tree else {})


# --- CORE ------------------------------------------------------------------------------------------------

CONSUMPTION = "after a match all events are used up, but not for the matches that end with the same event"


@dataclass
class CorePattern:
    """Reads a pattern of CORE's language; ``where`` collects what is asked of its events."""

    where: list[ex.Expression] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)  # by the names that filters use

    def part(self, tree: Tree) -> sq.SequencePattern:
        """Return a part of a pattern; alternatives of single events are one event that is either."""
        match tree:
            case {"as": {"event": kind}, "name": name}:
                return self.event(kind, name)
            case {"event": kind}:
                return self.event(kind, kind)
            case {"seq": [left, right]}:
                return sq.SequenceOf((self.part(left), self.part(right)), (None, "any"))
            case {"seq_strict": [left, right]}:
                return sq.SequenceOf((self.part(left), self.part(right)), (None, "strict"))
            case {"or": options} if all("event" in option for option in options):
                event = self.event(None, "")
                kinds = tuple(ex.Literal(option["event"]) for option in options)
                self.where.append(ex.In(ex.Reference(event.variable, "type"), kinds))
                return event
            case {"not_event": unwanted}:
                event = self.event(None, "")
                self.where.append(ex.Not(self.is_unwanted(unwanted, event.variable)))
                return event
            case {"filter": inner, "where": condition}:
                made = self.part(inner)
                self.where += ex.conjuncts(self.condition(condition))
                return made
        raise ValueError(f"no pattern for {tree}")

    def event(self, kind: str | None, name: str) -> sq.EventPattern:
        """Return an event of a variable of its own."""
        variable = f"{name.lower() or 'event'}_{len(self.variables)}"
        self.variables[name or variable] = variable
        return sq.EventPattern(variable, kind)

    def condition(self, tree: Tree) -> ex.Expression:
        """Return a condition of a filter."""
        if "on" not in tree:
            return expression(tree, self.condition)
        variable = self.variables[tree["on"]]
        return expression(tree["cond"], lambda part: ex.Reference(variable, part["field"]))

    def is_unwanted(self, tree: Tree, variable: str) -> ex.Expression:
        """Return whether the event is one that a NOT names."""
        if "event" in tree:
            return ex.Comparison("==", ex.Reference(variable, "type"), ex.Literal(tree["event"]))
        condition = expression(tree["where"]["cond"], lambda part: ex.Reference(variable, part["field"]))
        return ex.And((self.is_unwanted(tree["filter"], variable), condition))


def core(case: Tree) -> Asked:
    """Return a case of CORE: how many sets of events match, by the event they end with."""
    asked, reader = case["query"], CorePattern()
    if asked.get("consume") not in (None, "none"):
        raise NotExpressible(CONSUMPTION)
    pattern = reader.part(asked["pattern"])
    within = asked.get("within") or {}
    query = sequence_query(
        pattern,
        where=reader.where,
        within_events=int(within["n"]) if within.get("unit") == "events" else None,
        within=int(within["n"]) if "attribute" in within else None,
        within_closed=False,
        order_by=within.get("attribute"),
        partition_by=asked.get("partition_by"),
        event_type="type",
    )
    rows = [{"type": event["type"], **event["data"]} for event in case["events"]]

    def answer(found: Found) -> list[int]:
        sets = {tuple(row for _, row in match) for match in found}
        return [sum(rows[-1] == i for rows in sets) for i in range(len(case["events"]))]

    return Asked(query, rows, [step["count"] for step in case["steps"]], answer)
