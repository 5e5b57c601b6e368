"""Cases of Siddhi's test suite as sequence queries: patterns under skip till next match, sequences strict.

`tests.conformance.siddhiql` asks the same cases in Siddhi's own language. Here they test sequence engines.

Siddhi has clocks: ``not X for 1 sec`` waits from the event before it, in front from the start of the test.
That is said with conditions on the time of X and of the event that follows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.trees import rebuilt
from cepkit.language.sequences import patterns as sq
from cepkit.language.sequences.construction import sequence_query
from tests.conformance.cases import Asked, Found, NotExpressible, Tree, bag, expression

EVERY_OF_A_PART = "every around a part of the pattern starts that part anew while the rest goes on"
EVERY_WAIT = "every around a wait makes matches by time alone"
WAIT_OR_EVENT = "what follows a wait or an event would have to be written twice, once for each"
WAIT_BEHIND_SEVERAL = "a wait that begins with an event which is not always the same"
RUNNING_AGGREGATE = "the select counts matches"
LAST_BUT_ONE = "a condition on the last but one event of a group"


@dataclass
class SiddhiPattern:
    """Reads a pattern; ``where`` collects the conditions, ``groups`` the counted events."""

    case: Tree
    where: list[ex.Expression] = field(default_factory=list)
    groups: set[str] = field(default_factory=set)
    n_absent: int = 0
    over: ex.Expression | None = None  # when the wait in front of the next event is over
    is_first: bool = True  # nothing but absent events so far

    @property
    def is_sequence(self) -> bool:
        """Whether every event of the streams must match."""
        return self.case["kind"] == "sequence"

    def sequence(self, parts: Sequence[Tree]) -> sq.SequencePattern:
        """Return the parts one after the other."""
        made: list[sq.SequencePattern] = []
        steps: list[str | None] = []
        anchor = None if self.case["clock"] == "event_time" else ex.Literal(0)  # when a wait begins
        for i, part in enumerate(parts):
            waits = self.over is not None and not self.is_first
            added, anchor = self.part(part, anchor, is_last=i == len(parts) - 1)
            made += added
            # What breaks a sequence during a wait is absent there, and may be skipped otherwise.
            steps += [None if isinstance(one, sq.AbsentPattern) or not waits else "any" for one in added]
            self.is_first = self.is_first and all(isinstance(one, sq.AbsentPattern) for one in added)
        if self.over is not None:
            self.where.append(ex.Comparison("<=", self.over, ex.Literal(self.case["end_ms"])))
        if not self.is_sequence:
            steps = [None] * len(made)
        return sq.SequenceOf(tuple(made), tuple(steps)) if len(made) > 1 else made[0]

    def part(
        self, tree: Tree, anchor: ex.Expression | None, is_last: bool
    ) -> tuple[list[sq.SequencePattern], ex.Expression | None]:
        """Return a part, and the time a wait behind it begins with (None: not always the same)."""
        match tree:
            case {"absent": absent}:
                return self.absent(absent, anchor, tree.get("for_ms"), is_last), None
            case {"count": body, "min": low, "max": high}:
                ref = body["event"]["ref"]
                self.groups.add(ref)
                # An event that ends a count is not taken by it.
                preference = "all" if high == 1 else "reluctant"
                return [sq.Loop(self.event(body["event"]), low, high, preference=preference)], None
            case {"event": event}:
                return [self.event(event)], ex.Reference(event["ref"], "t")
            case {"logical": "and", "args": args}:
                return self.all_of(args, anchor, is_last), None
            case {"logical": "or", "args": args}:
                return [self.any_of(args, anchor, is_last)], None
        raise NotExpressible(EVERY_WAIT if "for_ms" in repr(tree) else EVERY_OF_A_PART)

    def event(self, tree: Tree) -> sq.EventPattern:
        """Return an event; it does not come before a wait is over."""
        ref = tree["ref"]
        if self.over is not None:
            self.where.append(ex.Comparison(">=", ex.Reference(ref, "t"), self.over))
            self.over = None
        self.where += self.conditions(ref, tree.get("filter"))
        return sq.EventPattern(ref, tree["stream"])

    def absent(
        self, tree: Tree, anchor: ex.Expression | None, wait: int | None = None, is_last: bool = False
    ) -> list[sq.SequencePattern]:
        """Return what is absent during a wait that begins with ``anchor``, or in front of the next event."""
        variable = self.new_absent()
        self.where += self.conditions(variable, tree.get("filter"))
        made: list[sq.SequencePattern] = [sq.AbsentPattern(sq.EventPattern(variable, tree["stream"]))]
        if wait is None:
            return made
        if anchor is None:
            raise NotExpressible(WAIT_BEHIND_SEVERAL)
        self.over = ex.Arithmetic("+", anchor, ex.Literal(wait))
        self.where.append(ex.Comparison("<", ex.Reference(variable, "t"), self.over))
        if self.is_sequence and not self.is_first:
            # A wait in a sequence is broken by an event of another stream, too.
            other = self.new_absent()
            own = ex.Comparison("!=", ex.Reference(other, "stream"), ex.Literal(tree["stream"]))
            self.where.append(own)
            if is_last:
                self.where.append(ex.Comparison("<", ex.Reference(other, "t"), self.over))
            made.append(sq.AbsentPattern(sq.EventPattern(other)))
        return made

    def new_absent(self) -> str:
        """Return a variable for an absent event."""
        self.n_absent += 1
        return f"x{self.n_absent}"

    def all_of(
        self, args: Sequence[Tree], anchor: ex.Expression | None, is_last: bool
    ) -> list[sq.SequencePattern]:
        """Return what is asked together; in a pattern a wait goes on behind the event asked with it."""
        absent = [arg for arg in args if "absent" in arg]
        present = [arg for arg in args if "absent" not in arg]
        if not absent:
            return [sq.AllOf(tuple(part for arg in present for part in self.part(arg, None, False)[0]))]
        made = [
            part
            for arg in absent
            for part in self.absent(arg["absent"], anchor, arg.get("for_ms"), is_last and not present)
        ]
        if not present:
            return made
        waits = [arg for arg in absent if "for_ms" in arg and not self.is_sequence]
        if waits:
            self.over = None
        made += self.part(present[0], None, False)[0]
        for arg in waits:
            made += self.absent(arg["absent"], anchor, arg["for_ms"])
        return made

    def any_of(self, args: Sequence[Tree], anchor: ex.Expression | None, is_last: bool) -> sq.SequencePattern:
        """Return the alternative; of a wait and an event, whatever comes first."""
        waits = [arg for arg in args if "for_ms" in arg]
        events = [arg["event"] for arg in args if "event" in arg]
        if not waits:
            return sq.AnyOf(tuple(self.event(event) for event in events))
        if events and not is_last:
            raise NotExpressible(WAIT_OR_EVENT)
        options = []
        for arg in waits:
            parts = self.absent(arg["absent"], anchor, arg["for_ms"], is_last)
            for event in events:
                unwanted = {"stream": event["stream"], "filter": event.get("filter")}
                parts += self.absent(unwanted, anchor, arg["for_ms"], is_last)
            options.append(sq.SequenceOf(tuple(parts), (None,) * len(parts)) if len(parts) > 1 else parts[0])
        if events:
            over, self.over = self.over, None
            options += [self.event(event) for event in events]
            self.where += [ex.Comparison("<", ex.Reference(event["ref"], "t"), over) for event in events]
        return sq.AnyOf(tuple(options))

    def conditions(self, variable: str, tree: Tree | None) -> list[ex.Expression]:
        """Return the filter of an event as conjuncts."""
        if tree is None:
            return []

        def value(part: Tree) -> ex.Expression:
            return self.value(part, variable)

        return [
            asked
            for conjunct in ex.conjuncts(expression(without_choice(tree), value))
            for asked in of_first_and_later(conjunct, variable)
        ]

    def value(self, tree: Tree, variable: str | None) -> ex.Expression:
        """Return the value of a field; the last event of ``variable`` is the one before that being taken."""
        of, index = tree.get("of", variable), tree.get("index")
        if index is None or (of not in self.groups and of != variable):
            return ex.Reference(of, tree["field"])
        if isinstance(index, int):
            return ex.Reference(of, tree["field"], index + 1)
        if index != "last":
            raise NotExpressible(LAST_BUT_ONE)
        return ex.Reference(of, tree["field"], ex.BEFORE if of == variable else ex.LAST)


def without_choice(tree: Tree) -> Tree:
    """Return a condition with if-then-else as and, or, not."""
    if tree.get("fn") == "ifThenElse":
        test, then, otherwise = tree["args"]
        other = {"op": "and", "args": [{"op": "not", "args": [test]}, otherwise]}
        return {"op": "or", "args": [{"op": "and", "args": [test, then]}, other]}
    if tree.get("fn") == "instanceOfFloat":
        return {"op": "not", "args": [{"op": "is_null", "args": tree["args"]}]}
    if "op" not in tree:
        return tree
    return {"op": tree["op"], "args": [without_choice(part) for part in tree["args"]]}


def of_first_and_later(condition: ex.Expression, variable: str) -> list[ex.Expression]:
    """Return what is asked of the first event of a group, and of those that have one before them."""
    match condition:
        case ex.Or((ex.And((ex.IsNull(ex.Reference(index=ex.BEFORE)), first)), ex.And((ex.Not(_), later)))):

            def of_first(node: ex.Expression) -> ex.Expression:
                own = isinstance(node, ex.Reference) and node.variable == variable
                return replace(node, index=1) if own else node

            return [rebuilt(first, ex.Expression, of_first), later]
    return [condition]


def siddhi(case: Tree) -> Asked:
    """Return a case of Siddhi: the rows that it selects."""
    if any("fn" in item["expr"] for item in case["select"]):
        raise NotExpressible(RUNNING_AGGREGATE)
    parts, after_match = started(case["pattern"])
    reader = SiddhiPattern(case)
    pattern = reader.sequence(parts)
    if "having" in case:
        expr_of = {item["name"]: item["expr"] for item in case["select"]}

        def value(tree: Tree) -> ex.Expression:
            return reader.value(tree if "of" in tree else expr_of[tree["field"]], None)

        reader.where.append(expression(without_choice(case["having"]), value))
    fields = dict.fromkeys(column["name"] for columns in case["streams"].values() for column in columns)
    rows = [
        {
            "stream": event["stream"],
            "t": event["ts"] if case["clock"] == "event_time" else event["t_ms"],
            **{name: event["data"].get(name) for name in fields},
        }
        for event in case["events"]
    ]
    times = [row["t"] for row in rows]
    query = sequence_query(
        pattern,
        where=reader.where,
        strategy="next" if case["kind"] == "pattern" else "strict",
        within=case["within_ms"] if case["within_ms"] is not None else max(times) - min(times),
        order_by="t",
        event_type="stream",
        after_match=after_match,
        complete_until="end",  # a condition of ``where`` asks whether a wait is over when the test ends
    )

    def answer(found: Found) -> list[list[Any]]:
        made = []
        for match in found:
            events: dict[str, list[Mapping[str, Any]]] = {}
            for variable, row in match:
                events.setdefault(variable, []).append(rows[row])
            made.append([selected(item["expr"], events, reader.groups) for item in case["select"]])
        return bag(made)

    return Asked(query, rows, bag(case["expected_rows"]), answer)


def started(pattern: Tree) -> tuple[Sequence[Tree], str]:
    """Return the parts, and which matches a match takes from others.

    ``every`` around one event in front lets any such event start a match; around the whole it starts behind
    the last.
    """
    parts = pattern.get("seq", [pattern])
    first = parts[0]
    if "every" not in first:
        return parts, "none"
    inner = first["every"]
    within = inner.get("seq", [inner])
    if "for_ms" in repr(within):
        raise NotExpressible(EVERY_WAIT)
    is_single = len(within) == 1 and ("event" in inner or "count" in inner or inner.get("logical") == "or")
    if is_single:
        return [inner, *parts[1:]], "none"
    if len(parts) > 1:
        raise NotExpressible(EVERY_OF_A_PART)
    return within, "past_last"


def selected(tree: Tree, events: Mapping[str, Sequence[Mapping[str, Any]]], groups: set[str]) -> Any:
    """Return a value of a match; of a group without an index those of all."""
    if "lit" in tree:
        return tree["lit"]
    values = [event[tree["field"]] for event in events.get(tree["of"], ())]
    index = tree.get("index")
    if index is None and tree["of"] in groups:
        return values
    if index is None:
        index = 0
    elif isinstance(index, str):
        index = len(values) - 1 - int(index.partition("-")[2] or 0)
    return values[index] if 0 <= index < len(values) else None
