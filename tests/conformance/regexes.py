"""Cases of the paper and of Esper's match_recognize, as far as they ask what a regex query can answer."""

from __future__ import annotations

import re

import pandas as pd

import cepkit as cep
from tests.conformance.cases import Tree
from tests.conformance.verdicts import OPEN, REFUSED, Verdict, verdict_of

# --- the paper's rules ------------------------------------------------------------------------------------


def check_paper(case: Tree) -> None:
    """Compare the matches of a rule of the paper."""
    names = sorted({name for labels in case["labels"] for name in labels})
    frame = pd.DataFrame([{name: name in labels for name in names} for labels in case["labels"]])
    keywords = {}
    if "partition" in case:
        frame["key"] = case["partition"]
        keywords["partition_by"] = "key"
    lineage = cep.match(frame, case["pattern"], **keywords).lineage()
    found = [part["position"].tolist() for _, part in lineage.groupby("match")]
    assert found == case["expected_matches"]


# --- Esper ---

# Why a case is not run. Esper's match_recognize has the rule of a regex query: earliest end, earliest start,
# past the last row. What follows is beyond a regex query.
OVERLAPS = "after_match to_next_row: the matches asked for overlap, those of a regex query never do"
EXPIRES = "a time window takes rows out of the stream while it runs; within= limits a match instead"
INTERVAL = "an interval waits for a longer match; a regex query reports the first end"
RELUCTANT = "a reluctant quantifier chooses other variables for the same rows; a regex query has one choice"
NOT_RUN = {
    "RowRecogAfter/RowRecogSkipToNextRow#1": OVERLAPS,
    "RowRecogAfter/RowRecogVariableMoreThenOnce#1": OVERLAPS,
    "RowRecogDataWin/RowRecogTimeBatchWindow#1": EXPIRES,
    "RowRecogGreedyness/RowRecogReluctantZeroToMany#1": RELUCTANT,
    "RowRecogInterval/RowRecogPartitioned#1": INTERVAL,
    "RowRecogInterval/RowRecogMultiCompleted#1": INTERVAL,
    "RowRecogIntervalOrTerminated/RowRecogIntervalOrTerminated#1": INTERVAL,
    "RowRecogIntervalOrTerminated/RowRecogIntervalOrTerminated#4": INTERVAL,
    "RowRecogIntervalOrTerminated/RowRecogIntervalOrTerminated#6": INTERVAL,
    "RowRecogPrev/RowRecogTimeWindowPartitionedSimple#1": EXPIRES,
    "RowRecogPrev/RowRecogTimeWindowPartitioned#1": EXPIRES,
}

# How a reference names the row of another variable: it is the first row, or it lies a number of rows back.
REFERENCES = {
    "RowRecogAfter/RowRecogAfterSkipPastLast#1": {"A.value": "first(value)"},
    "RowRecogOps/RowRecogConcatenation#1": {"A.value": "first(value)"},
    "RowRecogOps/RowRecogPartitionBy#1": {"A.value": "first(value)"},
    "RowRecogArrayAccess/RowRecogMultiDepends#1": {
        "A[0].intPrimitive": "first(intPrimitive)",
        "B[0].intPrimitive": "prev(intPrimitive, 3)",
        "A[1].intPrimitive": "prev(intPrimitive, 2)",
        "B[1].intPrimitive": "prev(intPrimitive)",
    },
    "RowRecogArrayAccess/RowRecogMeasuresClausePresence#3": {"A[0].intPrimitive": "first(intPrimitive)"},
}


def name_of(case):
    return case["id"].removeprefix("esper/")


def reason_against(case):
    """Return why a case is not one for a regex query, by its options alone; None when it is one."""
    if case["after_match_skip"]["mode"] != "past_last_row":
        return OVERLAPS
    if case["interval"] is not None:
        return INTERVAL
    if case["data_window"]["kind"] not in ("none", "keepall"):
        return EXPIRES
    return RELUCTANT if re.search(r"[*+?}]\?", case["pattern"]) else None


def translated(case):
    """Return pattern and define in cepkit's words."""
    define = {}
    for variable, condition in case["define"].items():
        text = condition["expr"]
        for theirs, ours in REFERENCES.get(name_of(case), {}).items():
            text = text.replace(theirs, ours)
        define[variable] = re.sub(rf"\b{variable}\.", "", text)
    pattern = case["pattern"].replace("{,", "{0,")
    for variable in set(re.findall(r"[A-Z]", pattern)) - set(define):
        define[variable] = "true"
    return pattern, define


def measured(ast, rows_of_variable, events):
    """Return the value of a measure of one match, given the numbers of the events that each variable took."""
    if "lit" in ast:
        return ast["lit"]
    if "op" in ast:
        one, other = (measured(arg, rows_of_variable, events) for arg in ast["args"])
        return None if one is None or other is None else one * other
    if "event" in ast:
        return rows_of_variable.get(ast["event"], [])
    column = ast.get("arg") or ast.get("args", [ast])[0]
    values = [events[i][column["col"]] for i in rows_of_variable.get(column["var"], [])]
    if "agg" in ast:
        present = [value for value in values if value is not None]
        if ast["agg"] == "count":
            return len(present)
        return {"max": max, "min": min}[ast["agg"]](present, default=None)
    place = {"first": 0, "last": -1}.get(ast.get("nav"), ast.get("index", -1))
    return values[place] if -len(values) <= place < len(values) else None


def numbers(value):
    """Return the events of an expected value as a list of their numbers, however it is written."""
    if isinstance(value, dict):
        return [value["event"]]
    if isinstance(value, list):
        return [item["event"] for item in value]
    return value


def check_esper(case: Tree) -> None:
    """The same rows, delivered after the same event."""
    events, measures = case["events"], {measure["name"]: measure["ast"] for measure in case["measures"]}
    pattern, define = translated(case)
    found = cep.match(
        pd.DataFrame(events), pattern, define=define, partition_by=case["partition_by"] or None
    ).lineage()
    ours = {}  # rows by the number of the event that completes them
    for _, match in found.groupby("match"):
        rows = {variable: part["position"].tolist() for variable, part in match.groupby("variable")}
        ours.setdefault(int(match["position"].iloc[-1]), []).append(
            {name: measured(ast, rows, events) for name, ast in measures.items()}
        )
    fed, n_checked = [], 0
    for step in case["steps"]:
        if "event" in step:
            fed.append(step["event"])
        elif "expect_some_new" in step:
            assert any(event in ours for event in fed)
            fed, n_checked = [], n_checked + 1
        elif "expect_new" in step:
            delivered = [row for event in fed for row in ours.get(event, [])]
            fields = step.get("fields") or []
            got = [[row[field] for field in fields] for row in delivered]
            got = [[value or None if isinstance(value, list) else value for value in row] for row in got]
            expected = [
                [numbers(v) if "event" in measures[f] else v for f, v in zip(fields, row, strict=True)]
                for row in step["expect_new"]
            ]
            assert sorted(got, key=repr) == sorted(expected, key=repr)
            fed, n_checked = [], n_checked + 1
    assert n_checked


def verdict_of_esper(case: Tree) -> Verdict:
    """Return what comes of a case of Esper as a regex query."""
    reason = reason_against(case)
    if reason is None:
        return verdict_of(lambda: check_esper(case))
    return Verdict(REFUSED if NOT_RUN.get(name_of(case)) == reason else OPEN, reason)
