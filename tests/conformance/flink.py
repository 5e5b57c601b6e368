"""Cases of FlinkCEP's test suite as sequence queries, and what FlinkCEP means where its words mean more."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from cepkit.language.expressions import trees as ex
from cepkit.language.sequences import patterns as sq
from cepkit.language.sequences.construction import sequence_query
from tests.conformance.cases import Asked, Found, NotExpressible, Tree, bag, expression

ALWAYS = {"lit": True}
# Without a key the partition is the stream.
STEP_OF_CONTIGUITY = {"strict": "partition", "relaxed": "next", "nondeterministic_relaxed": "any"}
KIND_OF_SKIP = {
    "no_skip": "none",
    "skip_to_next": "to_next",
    "skip_past_last_event": "past_last",
    "skip_to_first": "to_first",
    "skip_to_last": "to_last",
}
NOT_NEXT = "nothing says of the very next event alone what it must not be"
Steps = Sequence[Tree]


@dataclass
class FlinkPattern:
    """Reads steps; ``where`` collects their conditions, ``name_of`` the steps that variables stand for.

    A step without a name is no part of the answer.
    """

    n_events: int
    where: list[ex.Expression] = field(default_factory=list)
    name_of: dict[str, str | None] = field(default_factory=dict)

    def sequence(self, steps: Steps) -> sq.SequencePattern:
        """Return the steps one after the other."""
        # A greedy loop at the end of a pattern of FlinkCEP reports each of its prefixes, as without "greedy".
        parts = tuple(
            self.part({**step, "greedy": step.get("greedy") and step is not steps[-1]}) for step in steps
        )
        made = (None, *(STEP_OF_CONTIGUITY.get(step["contiguity"]) for step in steps[1:]))
        return sq.SequenceOf(parts, made) if len(parts) > 1 else parts[0]

    def part(self, step: Tree) -> sq.SequencePattern:
        """Return one step, as often as it is asked for."""
        if step["contiguity"] == "not_next":
            raise NotExpressible(NOT_NEXT)
        body = self.sequence(step["group"]) if step.get("group") else self.event(step)
        if step["contiguity"] == "not_followed_by":
            return sq.AbsentPattern(body)
        low, high = step["quantifier"]["min"], step["quantifier"]["max"]
        if step["quantifier"]["kind"] != "single":
            low = 0 if step["optional"] and low == 1 else low
            body = sq.Loop(
                body,
                low,
                self.n_events if step.get("group") and high is None else high,  # no more rounds than events
                inner=STEP_OF_CONTIGUITY[step["inner_contiguity"]],
                preference="greedy" if step["greedy"] else "all",
                until=self.until(step.get("until")),
            )
        return sq.Loop(body, 0, 1) if step["optional"] and low else body

    def event(self, step: Tree) -> sq.EventPattern:
        """Return the event of a step; its conditions go into ``where``."""
        variable = f"{re.sub('[^a-z0-9]+', '_', step['name'] or 'unnamed')}_{len(self.name_of)}"
        self.name_of[variable] = step["name"]
        if step["condition"] != ALWAYS:
            for part in ex.conjuncts(expression(step["condition"], lambda tree: self.value(tree, variable))):
                self.where += with_first(part)
        return sq.EventPattern(variable)

    def value(self, tree: Tree, variable: str) -> ex.Expression:
        """Return a value of the event itself, or one over the events of a step before it."""
        if "agg" not in tree:
            return ex.Reference(variable, tree["field"])
        of = self.variable_of(tree["step"])
        if tree["agg"] == "first":
            return ex.Reference(of, tree["field"])  # of a single event
        index = ex.ALL_BEFORE if of == variable else None
        return ex.Aggregate(tree["agg"], ex.Reference(of, tree["field"], index))

    def variable_of(self, name: str | None) -> str | None:
        """Return the variable of a step."""
        return next(
            (variable for variable, of in self.name_of.items() if name is not None and of == name), None
        )

    def until(self, tree: Tree | None) -> ex.Expression | None:
        """Return what ends a loop."""
        return None if tree is None else expression(tree, lambda part: ex.Attribute(part["field"]))


def with_first(condition: ex.Expression) -> list[ex.Expression]:
    """Return the condition and, when it looks at the events before, what it asks where there is none.

    The sum of none is 0 there. That is asked of every event, as it follows from the condition: the sums of
    these cases are never negative and must stay small.
    """
    match condition:
        case ex.Comparison("<" | "<=", ex.Arithmetic("+", ex.Aggregate("sum"), own), limit):
            return [condition, ex.Comparison(condition.operator, own, limit)]
    return [condition]


def flink(case: Tree, options: Sequence[Steps] | None = None, order: Sequence[Tree] | None = None) -> Asked:
    """Return a case of FlinkCEP.

    ``options``: alternatives that together say the same as its steps; ``order``: its events in the order in
    which they are processed.
    """
    options = [case["pattern"]] if options is None else options
    order = case["events"] if order is None else order
    reader = FlinkPattern(len(order))
    patterns = tuple(map(reader.sequence, options))
    skip = case["after_match_skip"]
    limits = [this["within"] for this in case["pattern"] if this.get("within")]
    windows = {limit["scope"]: limit["ms"] for limit in limits}
    if limits and len(case["pattern"]) == 2 and case["pattern"][1]["contiguity"] == "not_followed_by":
        windows = {"first_to_last": limits[0]["ms"]}  # the gap behind the only event is the window
    query = sequence_query(
        sq.AnyOf(patterns) if len(patterns) > 1 else patterns[0],
        where=reader.where,
        strategy="next",
        scope="edge",
        within=windows.get("first_to_last"),
        gap_within=windows.get("previous_to_current"),
        within_closed=False,
        order_by="ts" if windows else None,
        partition_by=case.get("key"),
        after_match=(KIND_OF_SKIP[skip["mode"]], reader.variable_of(skip.get("step"))),
    )
    names = ("id", "name", "price", "volume", "type", "ts")
    rows = [{name: event.get(name) for name in names} for event in order]

    def answer(found: Found) -> list[Any]:
        made = []
        for match in found:
            steps: dict[str, list[int]] = {}
            for variable, row in match:
                if name := reader.name_of[variable]:
                    steps.setdefault(name, []).append(order[row]["pos"])
            made.append(sorted(steps.items()))
        return bag(made)

    expected = case["expected_matches"]
    if expected is not None:
        expected = bag(sorted(match["steps"].items()) for match in expected)
    return Asked(query, rows, expected, answer)


# The same said otherwise: what FlinkCEP means by a step, in steps that mean here what they mean there.


def neither(*conditions: Tree) -> list[Tree]:
    """Return that none of the conditions holds."""
    return [{"op": "not", "args": [condition]} for condition in conditions]


def both(condition: Tree, more: Sequence[Tree]) -> Tree:
    """Return that the condition holds, and those."""
    return {"op": "and", "args": [condition, *more]} if more else condition


def step(contiguity: str, condition: Tree, name: str | None = None) -> Tree:
    """Return a step of one event."""
    quantifier = {"kind": "single", "min": 1, "max": 1}
    return {
        "name": name, "contiguity": contiguity, "quantifier": quantifier, "inner_contiguity": None,
        "optional": False, "greedy": False, "condition": condition,
    }  # fmt: skip


def with_greedy_loops(steps: Steps) -> list[Steps]:
    """Return greedy loops that leave none of their events behind: none occurs in front of the next step."""
    made = []
    for this, following in zip(steps, [*steps[1:], None], strict=True):
        made.append(this)
        if this["greedy"] and following:
            until = [this["until"]] if this.get("until") else []
            made.append(step("not_followed_by", both(this["condition"], neither(*until))))
    return [made]


def with_until_of_first(steps: Steps) -> list[Steps]:
    """Return loops whose first event does not fulfil their until; where one would, relaxed waiting ends."""
    made = []
    for this in steps:
        if until := this.get("until"):
            if this["contiguity"] == "relaxed":
                made.append(step("not_followed_by", both(this["condition"], [until])))
            this = {**this, "condition": both(this["condition"], neither(until))}
        made.append(this)
    return [made]


def with_absence_in_loops(steps: Steps) -> list[Steps]:
    """Return endless loops that end in front of an event which must not occur after them."""
    pairs = zip(steps, [*steps[1:], {"contiguity": None}], strict=True)
    return [
        [
            {**this, "until": following["condition"]}
            if following["contiguity"] in ("not_followed_by", "not_next") and is_endless(this)
            else this
            for this, following in pairs
        ]
    ]


def is_endless(step: Tree) -> bool:
    return step["quantifier"]["kind"] != "single" and step["quantifier"]["max"] is None


def without_last(steps: Steps) -> list[Steps]:
    """Return an optional last step behind an absent event as none of both, or both."""
    return [steps[:-2], [*steps[:-1], {**steps[-1], "optional": False}]]


def without_not_next(steps: Steps) -> list[Steps]:
    """Return the two ways to go on: with the very next event, or behind another one that may come next."""
    [at] = [i for i, this in enumerate(steps) if this["contiguity"] == "not_next"]
    before, unwanted, behind = steps[:at], steps[at]["condition"], steps[at + 1 :]
    if not behind:
        return [[*before, step("strict", neither(unwanted)[0])]]
    following, *rest = behind
    at_once = {
        **following,
        "contiguity": "strict",
        "condition": both(following["condition"], neither(unwanted)),
    }
    skipped = [unwanted] if following["contiguity"] != "relaxed" else [unwanted, following["condition"]]
    one, *more = neither(*skipped)
    return [[*before, at_once, *rest], [*before, step("strict", both(one, more)), following, *rest]]


def processed(case: Tree) -> tuple[list[Tree], list[int]]:
    """Return the events of a stream with watermarks, in order of time, and the positions of late ones."""
    events, watermark, on_time, late = case["events"], float("-inf"), [], []
    for item in case["stream"]:
        if "watermark" in item:
            new = item["watermark"]
            watermark = max(watermark, float("inf") if new == "end_of_stream" else new)
        elif case["time"] == "event" and events[item["event"]]["ts"] <= watermark:
            late.append(item["event"])
        else:
            on_time.append(events[item["event"]])
    if case["time"] == "event":
        names = ["ts", case["tie_breaker"]] if case.get("tie_breaker") else ["ts"]
        on_time.sort(key=lambda event: [event[name] for name in names])
    return on_time, late
