"""An interpreter of the Java text of FlinkCEP that `translate` prints, by Flink's documented rules.

``next`` takes the very next event, ``followedBy`` the next one that fits, ``followedByAny`` any later one
that fits; the same holds between the rounds of a loop. A window excludes its end. A greedy loop takes an
event that could also be the next step.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

_STEPS = ("begin", "next", "followedBy", "followedByAny", "notFollowedBy")
_CALL = re.compile(r"\.(?:<Event>)?(\w+)\(")


@dataclass
class Step:
    """One step of a pattern."""

    how: str
    name: str
    tests: list[tuple[str, list[str]]] = field(default_factory=list)
    low: int = 1
    high: int | None = 1
    inner: str = "followedBy"
    greedy: bool = False
    until: list[tuple[str, list[str]]] = field(default_factory=list)


@dataclass
class FlinkPattern:
    """The steps, the window in milliseconds, and what happens after a match."""

    steps: list[Step]
    within: int | None
    gap: int | None
    skip: tuple[str, str | None]
    key: str | None


def calls_of(text: str) -> Iterator[tuple[str, str]]:
    """Yield the name and the arguments of each call in a chain of calls."""
    at = text.index("Pattern.<Event>begin")
    at += len("Pattern")
    while found := _CALL.match(text, at):
        depth, end = 1, found.end()
        quoted = False
        while depth:
            char = text[end]
            quoted ^= char == '"'
            depth += 0 if quoted else (char == "(") - (char == ")")
            end += 1
        yield found[1], text[found.end() : end - 1]
        at = end + len(text[end:]) - len(text[end:].lstrip())


def read_pattern(text: str) -> FlinkPattern:
    """Return the pattern of a printed text."""
    steps: list[Step] = []
    made = FlinkPattern(steps, None, None, ("noSkip", None), None)
    for name, inside in calls_of(text):
        if name in _STEPS:
            steps.append(Step(name, re.match(r'"(\w+)"', inside)[1]))
            if name == "begin":
                made.skip = re.search(r'AfterMatchSkipStrategy\.(\w+)\((?:"(\w+)")?\)', inside).groups()
            continue
        step = steps[-1]
        match name:
            case "where":
                step.tests.append(_test(inside))
            case "until":
                step.until.append(_test(inside))
            case "optional":
                step.low = 0
            case "oneOrMore":
                step.high = None
            case "timesOrMore":
                step.low, step.high = int(inside), None
            case "times":
                bounds = [int(one) for one in inside.split(",")]
                step.low, step.high = bounds[0], bounds[-1]
            case "greedy":
                step.greedy = True
            case "consecutive":
                step.inner = "next"
            case "allowCombinations":
                step.inner = "followedByAny"
            case "within":
                limit = int(re.search(r"ofMillis\((\d+)\)", inside)[1])
                if "PREVIOUS" in inside:
                    made.gap = limit
                else:
                    made.within = limit
            case _:
                raise AssertionError(name)
    if found := re.search(r"keyBy\(e -> e\.get(\w+)\(\)\)", text):
        made.key = found[1].lower()
    return made


def _test(inside: str) -> tuple[str, list[str]]:
    """Return a condition as Python text, and the names of the events that it gets from the context."""
    others = re.findall(r'Event (\w+) = ctx\.getEventsForPattern\("(\w+)"\)', inside)
    expression = re.search(r"return (.*);\n", inside)[1] if others else inside.partition("-> ")[2]
    assert others or inside.startswith("SimpleCondition.of(e -> ")
    if not others:
        expression = expression.removesuffix(")")
    expression = re.sub(r"\b(\w+)\.get(\w+)\(\)", lambda m: f"{m[1]}[{m[2].lower()!r}]", expression)
    expression = re.sub(r"Objects\.equals\((.*?), (.*?)\)", r"(\1 == \2)", expression)
    expression = re.sub(r'("[^"]*")\.equals\(([^)]*)\)', r"(\1 == \2)", expression)
    expression = expression.replace("&&", "and").replace("||", "or").replace("true", "True")
    expression = re.sub(r"!(?!=)", " not ", expression.replace("false", "False")).strip()
    return expression, others


def run_flink(text: str, rows: list[dict]) -> list[tuple[int, ...]]:
    """Return the rows of each match, as row numbers, sorted; ``t`` is in seconds."""
    pattern = read_pattern(text)
    found = []
    for key in dict.fromkeys(row[pattern.key] if pattern.key else None for row in rows):
        places = [i for i, row in enumerate(rows) if pattern.key is None or row[pattern.key] == key]
        own = [rows[i] for i in places]
        kept = _after(pattern, sorted(_matches(pattern, own), key=lambda run: (run[-1][1], run[0][1])))
        found += [tuple(places[r] for _, r in run) for run in kept]
    return sorted(found)


Run = tuple[tuple[str, int], ...]


def _matches(pattern: FlinkPattern, rows: list[dict]) -> set[Run]:
    """Return all matches of one key: the step and the row of each event."""
    found: set[Run] = set()
    for start in range(len(rows)):
        if _holds(pattern.steps[0], rows, start, ()):
            _grow(pattern, rows, 0, 1, ((pattern.steps[0].name, start),), found)
        if pattern.steps[0].low == 0:
            raise AssertionError("an optional first step")
    return found


def _grow(pattern: FlinkPattern, rows: list[dict], place: int, n: int, run: Run, found: set[Run]) -> None:
    """Add all matches that continue a run, which has ``n`` rounds of step ``place``."""
    steps, step = pattern.steps, pattern.steps[place]
    if n >= step.low and all(one.low == 0 for one in steps[place + 1 :]):
        found.add(run)
    last = run[-1][1]
    proceeds = []  # step, how, the absent steps in between
    if n >= step.low:
        absent: list[Step] = []
        for later in range(place + 1, len(steps)):
            if steps[later].how == "notFollowedBy":
                absent.append(steps[later])
                continue
            proceeds.append((later, steps[later].how, tuple(absent)))
            if steps[later].low > 0:
                break
    taking = step.high is None or n < step.high
    ended = False
    skipped_take, skipped = False, set()
    for row in range(last + 1, len(rows)):
        if not _in_windows(pattern, rows, run, row):
            break
        if step.until and any(_true(test, rows, row, run) for test in step.until):
            ended = True
        can_take = taking and not ended and _holds(step, rows, row, run)
        took = can_take and _may(step.inner, row == last + 1, skipped_take)
        if took:
            _grow(pattern, rows, place, n + 1, (*run, (step.name, row)), found)
        for later, how, absent in proceeds:
            can = _holds(steps[later], rows, row, run)
            broken = any(_holds(one, rows, r, run) for one in absent for r in range(last + 1, row))
            if (
                can
                and not broken
                and _may(how, row == last + 1, later in skipped)
                and not (step.greedy and took)
            ):
                _grow(pattern, rows, later, 1, (*run, (steps[later].name, row)), found)
            if can:
                skipped.add(later)
        skipped_take |= can_take


def _may(how: str, is_next: bool, has_skipped: bool) -> bool:
    return {"next": is_next, "followedBy": not has_skipped, "followedByAny": True}[how]


def _in_windows(pattern: FlinkPattern, rows: list[dict], run: Run, row: int) -> bool:
    lasted = (rows[row]["t"] - rows[run[0][1]]["t"]) * 1000
    waited = (rows[row]["t"] - rows[run[-1][1]]["t"]) * 1000
    return (pattern.within is None or lasted < pattern.within) and (
        pattern.gap is None or waited < pattern.gap
    )


def _holds(step: Step, rows: list[dict], row: int, run: Run) -> bool:
    return all(_true(test, rows, row, run) for test in step.tests)


def _true(test: tuple[str, list], rows: list[dict], row: int, run: Run) -> bool:
    expression, others = test
    names: dict[str, Any] = {"e": rows[row]}
    for java, variable in others:
        names[java] = rows[next(r for name, r in run if name == variable)]
    return bool(eval(expression, {}, names))


def _after(pattern: FlinkPattern, matches: list[Run]) -> list[Run]:
    """Return the matches that the strategy keeps; they are in the order of their last and first rows."""
    kind, variable = pattern.skip
    if kind == "noSkip":
        return matches
    kept: list[Run] = []
    horizon, taken = 0, set()
    for run in matches:
        first = run[0][1]
        if first < horizon or first in taken:
            continue
        kept.append(run)
        taken.add(first)
        rows = [r for name, r in run if variable is None or name == variable]
        horizon = {
            "skipPastLastEvent": run[-1][1] + 1, "skipToNext": horizon,
            "skipToFirst": rows[0], "skipToLast": rows[-1],
        }[kind]  # fmt: skip
    return kept
