"""Cases of Siddhi's test suite as whole SiddhiQL texts, with the frames of their streams."""

from __future__ import annotations

import json
import warnings
from typing import Any

import pandas as pd
import pytest

import cepkit as cep
from cepkit.language.siddhi.printing import parse_siddhi
from tests.conformance.cases import Tree
from tests.conformance.verdicts import OPEN, REFUSED, Verdict, verdict_of

_OPERATORS = {"=": "==", "<>": "!="}
# Two waits end at the same time. The two cases expect different orders of Siddhi's threads, from one state.
RACES = ("LogicalAbsentPatternTestCase/testQueryAbsent47", "LogicalAbsentPatternTestCase/testQueryAbsent48")
# These tests stop, in ms, before the end that the record has: it counts waits that end early. Those of joins
# stop later than the record says, since rows that it has leave a window later.
STOPS = {
    "AbsentPatternTestCase/testQueryAbsent41": 100,
    "EveryAbsentPatternTestCase/testQueryAbsent1": 3200,
    "EveryAbsentPatternTestCase/testQueryAbsent22": 2300,
    "LogicalAbsentSequenceTestCase/testQueryAbsent66": 1300,
    "JoinTestCase/joinTest1": 2000,
    "JoinTestCase/joinTest3": 1000,
    "JoinTestCase/joinTest4": 3500,
}


def text_of_expression(tree: Tree) -> str:
    """Return an expression of a case in SiddhiQL."""
    if "lit" in tree:
        return json.dumps(tree["lit"])
    if "field" in tree:
        index = f"[{tree['index']}]" if tree.get("index") is not None else ""
        return f"{tree['of']}{index}.{tree['field']}" if tree.get("of") else tree["field"]
    arguments = [text_of_expression(one) for one in tree.get("args", ())]
    if "fn" in tree:
        return f"{tree['fn']}({', '.join(arguments)})"
    operator = _OPERATORS.get(tree["op"], tree["op"])
    if operator == "not":
        return f"not ({arguments[0]})"
    if operator == "is_null":
        return f"{arguments[0]} is null"
    return "(" + f" {operator} ".join(arguments) + ")"


def text_of_pattern(tree: Tree, sign: str) -> str:
    """Return a pattern of a case in SiddhiQL; ``sign`` is between its states."""
    match tree:
        case {"seq": parts}:
            return f" {sign} ".join(text_of_pattern(part, sign) for part in parts)
        case {"every": body}:
            return f"every ({text_of_pattern(body, sign)})"
        case {"count": body, "min": low, "max": high}:
            return f"{text_of_pattern(body, sign)}<{low}:{'' if high is None else high}>"
        case {"logical": operator, "args": [left, right]}:
            both = f"{text_of_pattern(left, sign)} {operator} {text_of_pattern(right, sign)}"
            return f"({both})"
        case {"absent": event}:
            wait = f" for {tree['for_ms']} milliseconds" if tree.get("for_ms") is not None else ""
            return f"not {_source(event)}{wait}"
        case {"event": event}:
            name = f"{event['ref']}=" if event.get("ref") else ""
            return f"{name}{_source(event)}"
    raise AssertionError(tree)


def _source(event: Tree) -> str:
    filters = event.get("filters") or ([event["filter"]] if event.get("filter") else [])
    window = event.get("window")
    text = event["stream"] + "".join(f"[{text_of_expression(one)}]" for one in filters)
    if window is not None:
        parameters = ", ".join(text_of_expression(one) for one in window["params"])
        text += f"#window.{window['name']}({parameters})"
    return text


def _definitions(case: Tree) -> list[str]:
    lines = []
    for name, attributes in case["streams"].items():
        listed = ", ".join(f"{one['name']} {one['type']}" for one in attributes)
        lines.append(f"define stream {name} ({listed});")
    return lines


def _after_from(case: Tree) -> list[str]:
    columns = [f"{text_of_expression(one['expr'])} as {one['name']}" for one in case["select"]]
    lines = [f"select {', '.join(columns) or '*'}"]
    if case.get("group_by"):
        lines.append("group by " + ", ".join(map(text_of_expression, case["group_by"])))
    if case.get("having"):
        lines.append("having " + text_of_expression(case["having"]))
    events = case.get("output_events", "current_events").replace("_", " ")
    return [*lines, f"insert {events} into Out;"]


def pattern_app(case: Tree) -> str:
    """Return the SiddhiQL text of a case with a pattern or a sequence."""
    pattern = text_of_pattern(case["pattern"], "->" if case["kind"] == "pattern" else ",")
    within = f" within {case['within_ms']} milliseconds" if case["within_ms"] is not None else ""
    return "\n".join([*_definitions(case), f"from {pattern}{within}", *_after_from(case)])


def window_app(case: Tree) -> str:
    """Return the SiddhiQL text of a case with a window or a join."""
    if case["kind"] == "window":
        source = _source(case["source"])
    else:
        sides = []
        for which in ("left", "right"):
            name = f" as {case[which]['ref']}" if case[which].get("ref") else ""
            alone = " unidirectional" if case["trigger"] == which else ""
            sides.append(f"{_source(case[which])}{name}{alone}")
        on = f" on {text_of_expression(case['on'])}" if case["on"] is not None else ""
        source = f"{sides[0]} {case['join_type'].replace('_', ' ')} {sides[1]}{on}"
    return "\n".join([*_definitions(case), f"from {source}", *_after_from(case)])


def _value(value: Any, kind: str) -> Any:
    return str(value) if kind == "string" and value is not None else value


def frames_of(case: Tree) -> dict[str, pd.DataFrame]:
    """Return the events of each stream, with the columns ``now`` and ``place`` that order them."""
    frames = {}
    time = "ts" if case["clock"] == "event_time" else "t_ms"
    for name, attributes in case["streams"].items():
        events = [event for event in case["events"] if event["stream"] == name]
        columns: dict[str, Any] = {
            one["name"]: pd.Series([_value(event["data"].get(one["name"]), one["type"]) for event in events])
            for one in attributes
        }
        columns["now"] = pd.array([event[time] for event in events], "int64")
        columns["place"] = pd.array([event["pos"] for event in events], "int64")
        frames[name] = pd.DataFrame(columns)
    return frames


# --- runs


def name_of(case: Tree) -> str:
    """Return the name of a case without that of its suite."""
    return case["id"].removeprefix("siddhi/")


def run(case: Tree, text: str) -> list[Any]:
    """Return the rows of a case, by kind."""
    assert parse_siddhi(str(parse_siddhi(text))) == parse_siddhi(text)
    options = {"order_by": ["now", "place"]}
    if case["clock"] == "wall":
        last = max(event["t_ms"] for event in case["events"])
        options |= {"start": 0, "complete_until": max(last, STOPS.get(name_of(case), case["end_ms"]))}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cep.CepWarning)
        return cep.siddhi(text, frames_of(case), **options)._rows["Out"]


def agree(found: Any, expected: Any) -> bool:
    """Return whether values are equal; the record has floats of 32 bits."""
    if isinstance(expected, list):
        return len(found) == len(expected) and all(map(agree, found, expected))
    if isinstance(expected, float) and isinstance(found, int | float):
        return found == pytest.approx(expected, rel=1e-5, abs=1e-9)
    return found == expected


RACE = "the answer depends on the order of Siddhi's threads"


def check_pattern(case: Tree) -> None:
    """Compare the rows of a pattern or a sequence, and when they come."""
    rows = run(case, pattern_app(case))
    assert agree([list(values) for _, _, values in rows], case["expected_rows"])
    for (_, time, _), latest in zip(rows, case["expected_not_later_than_ms"], strict=True):
        assert case["clock"] != "wall" or time <= latest


def check_window(case: Tree) -> None:
    """Compare the rows of a window or a join."""
    rows = run(case, window_app(case))
    for kind in ("current", "expired"):
        expected = [row for batch in case["expected_batches"] for row in batch[kind]]
        assert agree([list(values) for of, _, values in rows if of == kind], expected), kind


def verdict_of_pattern(case: Tree) -> Verdict:
    """Return what comes of a pattern or a sequence."""
    if name_of(case) not in RACES:
        return verdict_of(lambda: check_pattern(case))
    try:
        run(case, pattern_app(case))
    except cep.UnsupportedQueryError as error:
        return Verdict(REFUSED if "depends on the order of its threads" in str(error) else OPEN, RACE)
    return Verdict(OPEN, "a race has an answer")
