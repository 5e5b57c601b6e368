"""Random patterns of FlinkCEP, answered by its automaton and by our sequences."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import cepkit as cep
from tests.conformance.flink import (
    flink,
    is_endless,
    with_absence_in_loops,
    with_greedy_loops,
    with_until_of_first,
)
from tests.support.peers import Case, Event

PROGRAM = Path(__file__).with_name("Flink.java")
SIGNS = ("<", "<=", ">", ">=", "=", "<>")
CALL_OF_CONTIGUITY = {
    None: "begin", "strict": "next", "relaxed": "followedBy", "nondeterministic_relaxed": "followedByAny",
    "not_followed_by": "notFollowedBy",
}  # fmt: skip
CALL_OF_INNER = {"strict": "consecutive", "relaxed": "", "nondeterministic_relaxed": "allowCombinations"}
Step = dict[str, Any]


class _Patterns:
    """Steps of a random pattern, as cases of FlinkCEP's test suite have them."""

    # At most one of what needs other steps to mean the same here: ``feature`` names it.

    def __init__(self, seed: int):
        self.random = random.Random(f"flink {seed}")
        self.feature = self.random.choice(("", "", "absent", "greedy", "optional", "skip", "until"))
        n_steps = self.random.choice((2, 3, 3, 4))
        self.steps: list[Step] = []
        for number in range(n_steps):
            self.steps.append(self.step(number, is_last=number == n_steps - 1))
        self.window = self.gap = None
        if self.random.random() < 0.4:
            self.window = self.random.choice((2, 4, 7))
        modes = ("skip_to_next", "skip_past_last_event", "skip_to_first", "skip_to_last")
        mode = self.random.choice(modes)
        self.skip: dict[str, str] = {"mode": mode if self.feature == "skip" else "no_skip"}
        if self.skip["mode"] in ("skip_to_first", "skip_to_last"):
            self.skip["step"] = self.random.choice([step["name"] for step in self.steps if is_sure(step)])

    def step(self, number: int, *, is_last: bool) -> Step:
        contiguity = None
        if number:
            contiguity = self.random.choice(("strict", "relaxed", "relaxed", "nondeterministic_relaxed"))
            if self.feature == "absent" and not is_last and self.may_be_absent_after(self.steps[-1]):
                contiguity = "not_followed_by"
        is_absent = contiguity == "not_followed_by"
        # What is forbidden after an endless loop becomes its until, which reads no other step.
        condition = self.condition(is_absent, is_until=is_absent and is_endless(self.steps[-1]))
        made = {
            "name": f"s{number}", "contiguity": contiguity, "inner_contiguity": None, "optional": False,
            "greedy": False, "condition": condition, "until": None,
            "quantifier": {"kind": "single", "min": 1, "max": 1},
        }  # fmt: skip
        if is_absent:
            return made
        if self.random.random() < (0.6 if self.feature in ("greedy", "until") else 0.3):
            # Before a loop of 1 to 2 events FlinkCEP also forbids events between the two.
            bounds = ((1, None), (1, None), (2, None), (2, 2), (1, 2), (2, 3))
            is_after_absent = number > 0 and self.steps[-1]["contiguity"] == "not_followed_by"
            low, high = self.random.choice(bounds[:4] if is_after_absent else bounds)
            made["quantifier"] = {"kind": "times", "min": low, "max": high}
            made["inner_contiguity"] = self.random.choice(tuple(CALL_OF_INNER))
            if self.feature == "greedy" and high is None and not is_last:
                made["greedy"] = made["inner_contiguity"] != "nondeterministic_relaxed"
            if self.feature == "until" and high is None:
                made["until"] = self.condition(is_until=True)
        if self.feature == "optional" and number and not is_last:
            made["optional"] = self.random.random() < 0.5
        return made

    def may_be_absent_after(self, step: Step) -> bool:
        """Return whether to say what must not occur after a step."""
        # After a loop with an upper limit it depends on the number of rounds what FlinkCEP forbids.
        is_plain = is_single(step) or is_endless(step)
        return is_plain and step["contiguity"] != "not_followed_by" and self.random.random() < 0.6

    def condition(self, is_absent: bool = False, is_until: bool = False) -> dict[str, Any]:
        """Return a condition on the kind of an event, on its number, or on both."""
        # FlinkCEP takes an event that is forbidden before a step for this step if it completes the match.
        # Here the two have different kinds.
        before = self.steps[-1] if self.steps else None
        is_after_absent = before is not None and before["contiguity"] == "not_followed_by"
        kinds = "aabbc".replace(kind_of(before), "") if is_after_absent else "aabbc"
        kind = {"op": "=", "args": [{"field": "name"}, {"lit": self.random.choice(kinds)}]}
        others = [step["name"] for step in self.steps if is_sure(step) and is_single(step)]
        if self.random.random() < 0.6:
            return kind
        right: dict[str, Any] = {"lit": self.random.randint(0, 4)}
        if not is_until and others and self.random.random() < 0.6:
            right = {"agg": "first", "step": self.random.choice(others), "field": "volume"}
        number = {"op": self.random.choice(SIGNS), "args": [{"field": "volume"}, right]}
        needs_kind = is_absent or is_after_absent
        if not needs_kind and self.random.random() < 0.3:
            return number
        return {"op": "and", "args": [kind, number]}

    def text(self) -> str:
        """Return the pattern in the words of ``Flink.java``."""
        mode, *step = self.skip.values()
        mode = "none" if mode == "no_skip" else mode.removeprefix("skip_").removesuffix("_event")
        skip = " ".join([mode, *step])
        cells = [skip, str(self.window or ""), ""]
        for step in self.steps:
            until = "" if step["until"] is None else condition_text(step["until"])
            calls = [CALL_OF_CONTIGUITY[step["contiguity"]], step["name"], quantifier_text(step)]
            cells.append("|".join([*calls, condition_text(step["condition"]), until]))
        return "\t".join(cells)

    def case(self, events: list[Event]) -> dict[str, Any]:
        """Return the case in the form of FlinkCEP's test suite."""
        steps = [dict(step) for step in self.steps]
        if self.window:
            steps[-1]["within"] = {"ms": self.window, "scope": "first_to_last"}
        rows = [
            {"pos": place, "name": kind, "volume": x, "ts": time}
            for place, (_, time, kind, x) in enumerate(events)
        ]
        return {"pattern": steps, "after_match_skip": self.skip, "events": rows, "expected_matches": None}


def is_sure(step: Mapping[str, Any]) -> bool:
    return step["contiguity"] != "not_followed_by" and not step["optional"]


def is_single(step: Mapping[str, Any]) -> bool:
    return step["quantifier"]["kind"] == "single"


def kind_of(step: Mapping[str, Any]) -> str:
    """Return the kind that a condition asks for."""
    tree = step["condition"]
    return (tree["args"][0] if tree["op"] == "and" else tree)["args"][1]["lit"]


def condition_text(tree: Mapping[str, Any]) -> str:
    if tree["op"] == "and":
        return "&".join(map(condition_text, tree["args"]))
    left, right = tree["args"]
    sign = {"=": "==", "<>": "!="}.get(tree["op"], tree["op"])
    other = f"@{right['step']}" if "agg" in right else right["lit"]
    return f"{'type' if left['field'] == 'name' else 'x'} {sign} {other}"


def quantifier_text(step: Mapping[str, Any]) -> str:
    """Return the calls for how often a step comes."""
    calls = []
    if not is_single(step):
        low, high = step["quantifier"]["min"], step["quantifier"]["max"]
        calls = [f"times,{low},{high}" if high else "oneOrMore" if low == 1 else f"timesOrMore,{low}"]
        calls += [CALL_OF_INNER[step["inner_contiguity"]], "greedy" * step["greedy"]]
    return " ".join(filter(None, [*calls, "optional" * step["optional"]]))


REWRITES = {"absent": with_absence_in_loops, "greedy": with_greedy_loops, "until": with_until_of_first}


def random_case(seed: int) -> Case:
    """Return the text of a pattern and its events."""
    source, time, events = random.Random(seed), 0, []
    for _ in range(source.randint(3, 12)):
        time += source.choice((1, 1, 1, 2, 3))
        events.append(("Event", time, source.choice("aaabbbc"), source.randint(0, 4)))
    return _Patterns(seed).text(), events


def ours(seed: int, case: Case) -> Counter:
    """Return the matches of `cepkit.match`."""
    pattern = _Patterns(seed)
    tree = pattern.case(case[1])
    asked = flink(tree, REWRITES[pattern.feature](tree["pattern"]) if pattern.feature in REWRITES else None)
    found = cep.match(asked.frame(), asked.query)
    lineage = found.lineage()
    rows = zip(lineage["match"], lineage["variable"], lineage["position"].tolist(), strict=True)
    matches: dict[int, list[tuple[str, int]]] = {}
    for match, variable, row in rows:
        matches.setdefault(match, []).append((variable, row))
    return Counter(repr(one) for one in asked.answer([*matches.values()]))


def counted(case: Case, rows: Iterable[tuple[str, ...]]) -> Counter:
    """Return how often each match occurs."""
    made = Counter()
    for row in rows:
        steps: dict[str, list[int]] = {}
        for cell in row:
            name, place = cell.split()
            steps.setdefault(name, []).append(int(place))
        made[repr(sorted(steps.items()))] += 1
    return made


def rule(text: str, error: cep.CepError | None, missing: Counter) -> str | None:
    """Return the named rule by which the answers may differ."""
    return None if text.startswith("none\t") else "which of several matches is reported first"
