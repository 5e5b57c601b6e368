"""Cases of other engines' test suites as sequence queries, and the rules by which some of them differ.

A case is equal, or it stands in one of two tables with the reason: what no query says, and what means
something else here. Where another spelling says what the other engine means, that spelling is equal.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

from tests.conformance import flink as fl
from tests.conformance import siddhi_sequences as si
from tests.conformance.cases import (
    CONSUMPTION,
    FOLDER,
    NESTED,
    SINGLE,
    Asked,
    Found,
    NotExpressible,
    by_the_clock_alone,
    cases,
    core,
    opencep,
)
from tests.conformance.flink import flink, processed
from tests.conformance.siddhi_sequences import siddhi
from tests.conformance.verdicts import DIFFERS, EQUAL, OPEN, REFUSED, Verdict
from tests.oracle.naive_sequences import sequence_matches

N_CASES_OF_FILE = {"flink_cep_nfa": 109, "flink_cep_event_time": 7, "opencep": 16, "core_ceql": 8}
N_CASES_OF_FILE["siddhi_pattern_sequence"] = 196


def named(prefix: str, names: str) -> Iterator[str]:
    """Yield the names with what they all begin with."""
    return (f"{prefix}{name}" for name in names.split())


# --- what no query says ----------------------------------------------------------------------------------

NOT_ASKED: Mapping[str, tuple[str, ...]] = {
    fl.NOT_NEXT: (
        "flink/GroupITCase/testGroupNotNext",
        *named("flink/NotPatternITCase/testNotNext", "AfterOneOrMoreSkipTillNext NoMatchesAtTheEnd"),
        "flink/NotPatternITCase/testNotNext",
    ),
    SINGLE: tuple(
        named("opencep/PolicyTests/", "singleType1Policy singleType2Policy freezePolicy freezePolicy2")
    ),
    NESTED: ("opencep/KC_tests/KC_AND_IndexCondition_02_",),
    CONSUMPTION: (
        "core/consumption_policy/Evaluation_on_the_example_stream_of_the_papers_with_consume_by_any",
    ),
    si.RUNNING_AGGREGATE: ("siddhi/CountPatternTestCase/testQuery19",),
    si.LAST_BUT_ONE: ("siddhi/SequenceTestCase/testQuery22",),
    si.EVERY_OF_A_PART: (
        "siddhi/EveryPatternTestCase/testQuery5",
        "siddhi/ComplexPatternTestCase/testQuery2",
        "siddhi/AbsentWithEveryPatternTestCase/testQuery5",
        "siddhi/EveryAbsentPatternTestCase/testQueryAbsent42",
        "siddhi/EveryAbsentSequenceTestCase/testQueryAbsent19",
    ),
    si.EVERY_WAIT: (
        "siddhi/AbsentPatternTestCase/testQueryAbsent41",
        "siddhi/AbsentWithEverySequenceTestCase/testQuery3",
        *named("siddhi/EveryAbsentPatternTestCase/testQueryAbsent", "1 2 3 21 22 23 24 27 28 29 32 45 46"),
        *named("siddhi/LogicalAbsentPatternTestCase/testQueryAbsent", "46 47 48 49 50 52 54 57 61 62"),
        *named("siddhi/EveryAbsentSequenceTestCase/testQueryAbsent", "1 4_2 6 7 10 13 15 16"),
        *named("siddhi/LogicalAbsentSequenceTestCase/testQueryAbsent", "46 48 50 53 54 57 60 61 63"),
    ),
    si.WAIT_OR_EVENT: (
        "siddhi/LogicalAbsentPatternTestCase/testQueryAbsent18",
        *named("siddhi/LogicalAbsentSequenceTestCase/testQueryAbsent", "17 18 44"),
    ),
}

# --- what means something else ---------------------------------------------------------------------------

GREEDY = "FlinkCEP's greedy loop takes each event that fits. Our loop goes on only where it could end"
UNTIL_OF_FIRST = "FlinkCEP's until is asked of the first event of the loop too"
ABSENT_IN_LOOP = "FlinkCEP: what must not occur after a loop must not occur in it either"
ABSENT_BEFORE_OPTIONAL = "FlinkCEP does not wait for what must not occur where only optional steps follow"
START_ORDER = "FlinkCEP reports what starts first first; here what ends first discards the others"
MISSING_STEP = "FlinkCEP refuses to skip to a step that a match lacks while it runs"
LATE_ONLY = "the case asks which events are late, not what matches"
EQUAL_TIMES = "OpenCEP: rows with equal times follow each other in either order"
INCOMPLETE = "OpenCEP's stored output lacks matches of its own definition"
ONE_MATCH = "Siddhi makes one match without every"
ONE_RUN = "Siddhi: an event that a sequence takes does not start another"
ONCE = "Siddhi: a match of both sides of an or counts once"
AS_MANY = "Siddhi counts as many as it can, where none would do too"

DIFFERENT: Mapping[str, tuple[str, ...]] = {
    GREEDY: (
        *named("flink/GreedyITCase/testGreedyZeroOrMore", "InBetween WithDummyEventsAfterQuantifier"),
        *named("flink/GreedyITCase/testGreedyZeroOrMore", "BeforeGroupPattern"),
        "flink/GreedyITCase/testGreedyZeroOrMore",
        "flink/GreedyITCase/testGreedyOneOrMore",
        "flink/GreedyITCase/testGreedyOneOrMoreWithDummyEventsAfterQuantifier",
        "flink/GreedyITCase/testGreedyUntilOneOrMoreWithDummyEventsAfterQuantifier",
        "flink/AfterMatchSkipITCase/testSkipToFirstDiscarding",
    ),
    UNTIL_OF_FIRST: (
        "flink/UntilConditionITCase/testUntilConditionFollowedByAnyZeroOrMore",
        "flink/GreedyITCase/testGreedyUntilOneOrMoreWithDummyEventsBeforeQuantifier",
    ),
    ABSENT_IN_LOOP: (
        "flink/NotPatternITCase/testNotFollowedByNextAfterOneOrMoreEager",
        "flink/NotPatternITCase/testNotFollowedByAnyAfterOneOrMoreCombinations",
    ),
    ABSENT_BEFORE_OPTIONAL: ("flink/NotPatternITCase/testNotFollowByBeforeTimesWithin",),
    START_ORDER: ("flink/AfterMatchSkipITCase/testSkipBeforeOtherAlreadyCompleted",),
    MISSING_STEP: (
        *named("flink/AfterMatchSkipITCase/testSkipTo", "FirstNonExistentPosition LastNonExistentPosition"),
    ),
    LATE_ONLY: ("flink/CEPOperatorTest/testCEPOperatorSideOutputLateElementsEventTime",),
    EQUAL_TIMES: (
        *named("opencep/NegationTests/", "MultipleNotBeginAndEnd MultipleNotMiddle"),
        "opencep/MultiPattern_tests/threeSharingSubtrees#1",
        *named("opencep/MultiPattern_tests/multipleParentsForInternalNode", "#3 #4"),
    ),
    INCOMPLETE: tuple(named("opencep/KC_tests/KleeneClosure", "Seq And")),
    ONE_MATCH: (
        *named("siddhi/LogicalPatternTestCase/testQuery", "13 14"),
        *named("siddhi/CountPatternTestCase/testQuery", "1 2 5 21"),
        "siddhi/EveryPatternTestCase/testQuery2",
        "siddhi/SequenceTestCase/testQuery29",
        *named("siddhi/AbsentPatternTestCase/testQueryAbsent", "37 40"),
        "siddhi/LogicalAbsentPatternTestCase/testQueryAbsent33",
        "siddhi/AbsentSequenceTestCase/testQueryAbsent37",
        "siddhi/LogicalAbsentSequenceTestCase/testQueryAbsent33",
    ),
    ONE_RUN: tuple(named("siddhi/SequenceTestCase/testQuery", "4 18 20_2")),
    ONCE: (
        "siddhi/SequenceTestCase/testQuery7",
        "siddhi/LogicalAbsentPatternTestCase/testQueryAbsent29",
        "siddhi/LogicalAbsentSequenceTestCase/testQueryAbsent29",
    ),
    AS_MANY: ("siddhi/CountPatternTestCase/testQuery9",),
}
REASON_OF_CASE = {name: reason for reason, names in DIFFERENT.items() for name in names}
REASON_NOT_ASKED = {name: reason for reason, names in NOT_ASKED.items() for name in names}


# --- the cases -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """A case, or one pattern of several; ``otherwise`` is another spelling of a reason's cases."""

    file: str
    number: int
    ask: Callable[[], Asked]
    otherwise: Callable[[str], Asked] | None = None


def read_cases() -> dict[str, Case]:
    """Return all cases by their names."""
    made: dict[str, Case] = {}
    for number, case in enumerate(cases("flink_cep_nfa.json")):
        made[case["id"]] = Case("flink_cep_nfa", number, partial(flink, case), partial(flink_otherwise, case))
    for number, case in enumerate(cases("flink_cep_event_time.json")):
        order, _ = processed(case)
        made[case["id"]] = Case("flink_cep_event_time", number, partial(flink, case, order=order))
    for number, case in enumerate(cases("opencep.json")):
        table = opencep_inputs()[case["input"]]
        for n, pattern in enumerate(case["patterns"], 1):
            name = case["id"] if len(case["patterns"]) == 1 else f"{case['id']}#{n}"
            expected = [match["events"] for match in case["expected_matches"] if match.get("pattern", 1) == n]
            made[name] = Case(
                "opencep",
                number,
                partial(opencep, pattern, table, expected),
                partial(opencep_otherwise, pattern, table, expected),
            )
    for number, case in enumerate(cases("core_ceql.json")):
        made[case["id"]] = Case("core_ceql", number, partial(core, case))
    for number, case in enumerate(cases("siddhi_pattern_sequence.json")):
        made[case["id"]] = Case("siddhi_pattern_sequence", number, partial(siddhi, case))
    return made


@cache
def opencep_inputs() -> Mapping[str, Any]:
    """Return the tables that cases of OpenCEP share."""
    return json.loads((FOLDER / "opencep.json").read_text())["inputs"]


REWRITES: Mapping[str, Callable[[fl.Steps], list[fl.Steps]]] = {
    GREEDY: fl.with_greedy_loops,
    UNTIL_OF_FIRST: lambda steps: fl.with_greedy_loops(*fl.with_until_of_first(steps)),
    ABSENT_IN_LOOP: fl.with_absence_in_loops,
    ABSENT_BEFORE_OPTIONAL: fl.without_last,
    # FlinkCEP ends a loop in front of an event that must not come next, as for other absent events.
    fl.NOT_NEXT: lambda steps: fl.without_not_next(*fl.with_absence_in_loops(steps)),
}


def flink_otherwise(case: Mapping[str, Any], reason: str) -> Asked:
    """Return a case of FlinkCEP in steps that mean here what its own mean there."""
    return flink(case, REWRITES[reason](case["pattern"]))


def opencep_otherwise(pattern: Mapping[str, Any], *rest: Any) -> Asked:
    """Return a pattern of OpenCEP in which equal times have no order."""
    table, expected, _ = rest
    return opencep(by_the_clock_alone(pattern), table, expected)


CASES = read_cases()
ASKED = [name for name in CASES if name not in REASON_NOT_ASKED]
SAID_OTHERWISE = {
    name: reason
    for name, reason in (REASON_OF_CASE | REASON_NOT_ASKED).items()
    if reason in (*REWRITES, EQUAL_TIMES)
}


@cache
def asked(name: str, otherwise: bool = False) -> Asked:
    """Return what is asked."""
    return CASES[name].otherwise(SAID_OTHERWISE[name]) if otherwise else CASES[name].ask()


@cache
def defined(name: str, otherwise: bool = False) -> Found:
    """Return the matches by definition."""
    return matches_of(asked(name, otherwise))


def matches_of(case: Asked) -> Found:
    """Return the matches by definition."""
    found = sequence_matches(case.query, case.rows)
    return [tuple((variable, row) for variable, rows in match.events for row in rows) for match in found]


# --- what holds of a difference --------------------------------------------------------------------------


def has_all_expected(case: Asked, found: Found) -> bool:
    """Return whether each expected match is one."""
    answer = case.answer(found)
    return all(answer.count(one) >= case.expected.count(one) for one in case.expected)


def is_among_expected(case: Asked, found: Found) -> bool:
    """Return whether each match is expected."""
    return all(one in case.expected for one in case.answer(found))


def is_first(case: Asked, found: Found) -> bool:
    """Return whether the match that ends first, and of those starts first, is the expected one."""
    return case.answer([min(found, key=lambda match: (match[-1][1], match[0][1]))]) == case.expected


def is_once(case: Asked, found: Found) -> bool:
    """Return whether the matches are expected, when of those with the same events only the first counts."""
    first: dict[tuple[int, ...], Any] = {}
    for match in found:
        first.setdefault(tuple(row for _, row in match), match)
    return case.answer([*first.values()]) == case.expected


def is_by_start(case: Asked, _found: Found) -> bool:
    """Return whether the matches are expected, when those that start first discard the others."""
    policy, variable = case.query.after_match
    assert policy == "to_first"
    unlimited = replace(case, query=replace(case.query, after_match=("none", None)))
    kept, start = [], 0
    for match in sorted(matches_of(unlimited), key=lambda match: (match[0][1], match[-1][1])):
        if match[0][1] >= start:
            kept.append(match)
            start = next(row for of, row in match if of == variable)
    return case.answer(kept) == case.expected


WHAT_HOLDS: Mapping[str, Callable[[Asked, Found], bool]] = {
    UNTIL_OF_FIRST: has_all_expected,
    ABSENT_IN_LOOP: has_all_expected,
    ABSENT_BEFORE_OPTIONAL: is_among_expected,
    START_ORDER: is_by_start,
    MISSING_STEP: lambda case, found: case.expected is None and bool(found),
    LATE_ONLY: lambda case, found: case.expected is None,
    ONE_MATCH: is_first,
    ONE_RUN: has_all_expected,
    ONCE: is_once,
    AS_MANY: has_all_expected,
    INCOMPLETE: lambda case, found: not is_among_expected(case, found),
}


# --- what comes of a case ---------------------------------------------------------------------------------


def verdict(name: str) -> Verdict:
    """Return whether a case is equal, by the definition; the engines are compared with that."""
    try:
        case = asked(name)
    except NotExpressible as reason:
        is_known = str(reason) == REASON_NOT_ASKED.get(name)
        if not is_known or name not in SAID_OTHERWISE:
            return Verdict(REFUSED if is_known else OPEN, str(reason))
        other = asked(name, True)
        is_equal = other.answer(defined(name, True)) == other.expected
        return Verdict(REFUSED if is_equal else OPEN, f"{reason}; equal in another spelling")
    found = defined(name)
    reason = REASON_OF_CASE.get(name)
    if case.answer(found) == case.expected:
        return Verdict(EQUAL) if reason is None else Verdict(OPEN, f"equal, but listed: {reason}")
    if reason is None:
        return Verdict(OPEN)
    if name in SAID_OTHERWISE:
        other = asked(name, True)
        holds = other.answer(defined(name, True)) == other.expected
    else:
        holds = WHAT_HOLDS[reason](case, found)
    return Verdict(DIFFERS if holds else OPEN, reason)
