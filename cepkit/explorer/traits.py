"""Answers as traits of widgets: why events are no match, the moments of a stream, and the funnel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa

from cepkit.explorer.bars import (
    FAILED,
    MATCHED,
    MOST_BARS,
    OPEN,
    REPLACED,
    FateGroup,
    PartialBar,
    describe_group,
    group_fates,
)
from cepkit.explorer.running.result import Result
from cepkit.insight.funnel import FunnelResult
from cepkit.insight.funnels import MOST_WORK, beginnings, count_funnel, count_regex_funnel, exact_count
from cepkit.insight.row_pattern_reading import RowReader, count_row_funnel
from cepkit.insight.row_pattern_why_not import RowExplainer
from cepkit.insight.stepping import Stepping
from cepkit.insight.why_not import MOST_ROWS, WhyNot, cell
from cepkit.insight.why_not_regex import (
    MOST_PARTIALS,
    Fate,
    failing_conditions,
    fates_at,
    names_in,
    predicates_at,
)
from cepkit.insight.why_not_text import explain_sequence_rows
from cepkit.language.expressions.durations import duration_ticks
from cepkit.language.match_recognize.printing import print_sql, sql_variable
from cepkit.language.sequences.printing import duration_text

if TYPE_CHECKING:
    from cepkit.engines.match_recognize.row_match_set import RowPartition
    from cepkit.explorer.bars import RowStepping


# A moment of a stream as traits of the stepper: the event, live partial matches, completed matches.


def moment_traits(
    result: Result, stepping: Stepping | RowStepping, position: int, sampled: str
) -> dict[str, Any]:
    """Return the traits of the stepper's widget for the moment after ``position`` events."""
    moment, labels = stepping.after(position), result.automaton.labels
    notes = [moment.note] if moment.note else []
    if not moment.is_whole and not moment.note:
        notes.append("partial matches that began long before are left out")
    if result.is_sequence and result.program.query.after_match[0] != "none":
        notes.append("all matches are listed, also those that after_match leaves out")
    if sampled:
        notes.append(sampled)
    return {
        "position": position,
        "n_events": stepping.n,
        "event": result.event(stepping.position_of(position - 1)) if position else [],
        "live": [
            {"state": state, "label": labels[state], "n": n, "examples": list(examples)}
            for state, n, examples in moment.live
        ],
        "completed": [", ".join(map(stepping.name_of, match)) for match in moment.completed],
        "note": "; ".join(notes),
    }


# The funnel of a query as traits of its widget.

STEPS = 8  # most steps of a regex
_LITTLE_WORK = 1 << 23  # events tested for one number of the first funnel
_TALLIED = 20_000  # events tested one by one


def funnels(result: Result) -> Iterator[tuple[list[dict[str, Any]], bool]]:
    """Yield the steps of a result's funnel, and whether they are final.

    The first funnel of a sequence takes a few tenths of a second; its numbers may be lower bounds. If they
    are, a second funnel follows, which looks at more events.

    """
    if not result.is_sequence:
        yield _of_rows(result) if result.is_rows else _of_regex(result), True
        return
    funnel = _count_sequence(result, _LITTLE_WORK)
    is_final = all(step.partial.exact for branch in funnel.branches for step in branch.steps)
    yield _funnel_of_sequence(funnel), is_final
    if not is_final:
        yield _funnel_of_sequence(_count_sequence(result, MOST_WORK)), True


def _count_sequence(result: Result, most_work: int) -> FunnelResult:
    program, engine = result.program, result.matches.engine
    n_matches = result.count() if program.query.after_match[0] == "none" else None
    branches = count_funnel(
        program, result.events, engine.run, count=partial(exact_count, most_work=most_work),
        n_matches=n_matches, most_tallied=_TALLIED,
    )  # fmt: skip
    return FunnelResult(program.query, branches)


def _funnel_of_sequence(made: FunnelResult) -> list[dict[str, Any]]:
    best = max(made.branches, key=lambda branch: branch.complete.n)
    most = max([1, *(step.partial.n for step in best.steps), best.complete.n])
    steps = []
    for step in best.steps:
        kind = "any event" if step.event_type is None else str(step.event_type)
        tried = f"{step.passed:,} of {step.looked_at:,} events tried pass" if step.looked_at else ""
        alone = f"{step.n_alone:,} of {step.n_of_type:,} events fulfil the conditions on single events"
        share = step.passed / step.looked_at if step.looked_at else None
        steps.append(
            _step(f"{step.variable} ({kind})", str(step.partial), step.partial.n / most, share,
                  "; ".join(part for part in (alone, tried) if part))
        )  # fmt: skip
    of_branch = "" if len(made.branches) == 1 else f" of the alternative with most, of {len(made.branches)}"
    last = best.complete if best.reported is None else best.reported
    words = "; ".join(made.words())
    return [*steps, _step(f"matches{of_branch}", str(last), last.n / most, None, words)]


def _of_regex(result: Result) -> list[dict[str, Any]]:
    program, n_rows = result.program, result.events.n_events
    [branch] = count_regex_funnel(
        program, result.events, result.matches.count(), STEPS, with_conditions=False
    )
    labels = [str(part) for part in beginnings(program.query.pattern, STEPS)]
    most = max(1, *(step.partial.n for step in branch.steps))
    steps = []
    for label, step in zip(labels, branch.steps, strict=True):
        note = f"matches of this beginning alone; {n_rows:,} rows" if label != labels[-1] else ""
        share = step.passed / step.looked_at if step.looked_at else None
        steps.append(_step(label, str(step.partial), step.partial.n / most, share, note))
    return steps


def _of_rows(result: Result) -> list[dict[str, Any]]:
    searched = result.data.searched(result.program)
    n_matches = result.count() + result.matches._found.n_empty
    [branch] = count_row_funnel(searched, n_matches, STEPS, with_conditions=False)
    most = max(1, n_matches, *(step.partial.n for step in branch.steps))
    steps = []
    for step in branch.steps:
        note = f"rows from which this beginning matches, of {step.n_of_type:,}"
        share = step.passed / step.looked_at if step.looked_at else None
        steps.append(_step(step.variable, str(step.partial), step.partial.n / most, share, note))
    words = "; ".join(FunnelResult(result.program.query, (branch,)).words())
    return [*steps, _step("matches", f"{n_matches:,}", n_matches / most, None, words)]


def _step(label: str, n: str, share: float, selectivity: float | None, note: str = "") -> dict[str, Any]:
    return {"label": label, "n": n, "share": share, "selectivity": selectivity, "note": note}


# Why clicked rows are not a match of MATCH_RECOGNIZE, as traits of a board.

_RIVALS = ("preference", "after_match")


def reasons_of_rows(
    result: Result, source: Any, positions: Sequence[int]
) -> tuple[dict[str, Any], list[PartialBar]]:
    """Return the traits for clicked rows, and their bar on the timeline.

    Several rows mean the match from the first to the last of them. One row is read as the first row of the
    longest partial match that begins there.

    """
    searched = result.data.searched(result.program)
    ordered = np.array(sorted(set(positions)), np.int64)
    partition_of_row = searched.events.partition_of_event[ordered]
    part = searched.partition(int(partition_of_row[-1]))
    places = np.searchsorted(part.positions, ordered[partition_of_row == partition_of_row[-1]]).tolist()
    if len(places) == 1:
        return _reading_of_row(result, source, part, places[0])
    low, high = places[0], min(places[-1], places[0] + MOST_ROWS - 1)
    answer = _explain(result, source, part, low, high)
    texts = list(dict.fromkeys(answer.reasons))
    lines = [{"text": text, "is_met": False} for text in texts]
    if answer.matches:
        lines = [{"text": "all conditions hold", "is_met": True}]
    traits = {"title": answer.headline, "lines": lines, "note": "; ".join(answer.more)}
    return traits, [_bar(answer, part, low, high)]


def _explain(result: Result, source: Any, part: RowPartition, low: int, high: int) -> WhyNot:
    searched = result.data.searched(result.program)
    return RowExplainer(
        searched, source, {int(position): None for position in part.positions[low : high + 1]}
    ).explain()


def _reading_of_row(
    result: Result, source: Any, part: RowPartition, k: int
) -> tuple[dict[str, Any], list[PartialBar]]:
    """Return the traits of a row: the variables that it can be, and the match that would begin there."""
    bound = result.program
    reader = RowReader(bound, part, k)
    fitting = set(reader.could_be(k))
    lines: list[dict[str, Any]] = []
    for name, tree in bound.query.define:
        text = f"{sql_variable(name)}: {print_sql(tree)}"
        if name in bound.program.needs.variables:
            lines.append({"text": f"{text}, which needs the rows before in the match", "is_met": None})
        else:
            is_met = name in fitting
            words = f"{sql_variable(name)} {'holds' if is_met else 'does not hold'}: {print_sql(tree)}"
            lines.append({"text": words, "is_met": is_met})
    high = _longest(reader, k)
    answer = _explain(result, source, part, k, high)
    row = result.row_of(int(part.positions[k]))
    if answer.matches:
        lines.append({"text": f"{answer.headline.removeprefix('they match: ')}.", "is_met": True})
    else:
        lines.append({"text": f"Read from {row} on: {answer.headline}.", "is_met": None})
        lines += [{"text": text, "is_met": False} for text in dict.fromkeys(answer.reasons)]
    unique = {(line["text"], line["is_met"]): line for line in lines}
    traits = {"title": f"{_place_of_row(result, part, k)}: {row}", "lines": list(unique.values()), "note": ""}
    return traits, [_bar(answer, part, k, high)]


def _longest(reader: RowReader, k: int) -> int:
    """Return the row where the longest partial match from row ``k`` ends or fails.

    A match that the search would find ends it earlier.

    """
    ways, row = reader.beginning(), k
    whole = None
    while row < reader.part.n_rows and row < k + MOST_ROWS:
        advanced = reader.advance(ways, row)
        if not advanced.ways:
            break
        ways = advanced.ways
        row += 1
        if reader.ending(ways, row) is not None:
            whole = row - 1
    return whole if whole is not None else min(row, reader.part.n_rows - 1, k + MOST_ROWS - 1)


def _place_of_row(result: Result, part: RowPartition, k: int) -> str:
    """Return in words which match contains a row."""
    position = int(part.positions[k])
    whole = result.matches._found.whole
    numbers = np.flatnonzero((whole.first <= position) & (whole.last >= position))
    numbers = numbers[whole.partition[numbers] == part.code]
    if not len(numbers):
        return "in no match"
    chosen = result.choose(int(numbers[0]))
    variable = dict(zip(chosen.positions, chosen.variables, strict=True))[position]
    return f"in match {int(numbers[0]):,}, as {sql_variable(variable)}"


def _bar(answer: WhyNot, part: RowPartition, low: int, high: int) -> PartialBar:
    """Return the bar of the longest partial match among rows; ``answer.table`` has a row for each."""
    table = answer.table
    names = ["" if name is None or name is pd.NA else str(name) for name in table["variable"]]
    positions = part.positions[low : high + 1].tolist()
    reached = [
        (position, name)
        for position, name, is_reached in zip(positions, names, table["reached"], strict=True)
        if is_reached
    ]
    if answer.matches:
        return PartialBar(tuple(reached), positions[-1], MATCHED, ("a match",))
    end = positions[min(len(reached), len(positions) - 1)]
    outcome = REPLACED if answer.kinds and answer.kinds[0] in _RIVALS else FAILED
    return PartialBar(tuple(reached) or ((end, ""),), end, outcome, tuple(dict.fromkeys(answer.reasons))[:3])


# Traits of the widget that shows why events are not a match.

MOST_CONDITIONS = 3  # conditions beside a bar
MOST_STARTS = 20  # first events marked on a bar


class _WithoutLabels:
    """A source whose rows are named by number, since several rows may have the same index label."""

    frame = None

    def __init__(self, source: Any):
        self._source = source

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)


def reason_traits(result: Result, positions: Sequence[int]) -> dict[str, Any]:
    """Return the traits for events that a person expects in one match; a regex uses the last one.

    The result keeps the bars of the partial matches for the timeline.

    """
    if result.is_sequence:
        traits, bars = _of_sequence(result, positions)
    elif result.is_rows:
        source = result.data.source if result.names.has_labels else _WithoutLabels(result.data.source)
        traits, bars = reasons_of_rows(result, source, positions)
    else:
        traits, bars = _of_row(result, int(positions[-1]))
    result.bars = (int(positions[-1]), bars)
    return traits


def _of_sequence(result: Result, positions: Sequence[int]) -> tuple[dict[str, Any], list[PartialBar]]:
    ordered = np.array(sorted(set(positions)), np.int64)
    source, find = result.data.source, result.matches.engine.run
    source = source if result.names.has_labels else _WithoutLabels(source)
    rows = [result.label_of(position) for position in ordered.tolist()]
    answer = explain_sequence_rows(result.program, source, result.events, find, rows)
    texts = list(dict.fromkeys(answer.reasons))
    lines = [{"text": text, "is_met": False} for text in texts]
    if answer.matches:
        lines = [{"text": "all conditions hold", "is_met": True}]
    traits = {"title": answer.headline, "lines": lines, "note": "; ".join(answer.more)}
    return traits, _bar_of_events(answer, ordered.tolist(), texts)


def _bar_of_events(answer: WhyNot, positions: list[int], texts: list[str]) -> list[PartialBar]:
    """Return the bar of the longest partial match among the events; ``answer.table`` has a row for each."""
    table = answer.table
    names = ["" if name is None or name is pd.NA else str(name) for name in table["variable"]]
    reached = [
        (position, name)
        for position, name, is_reached in zip(positions, names, table["reached"], strict=True)
        if is_reached
    ]
    if answer.matches:
        return [PartialBar(tuple(reached), positions[-1], MATCHED, ("all conditions hold",))]
    end = positions[min(len(reached), len(positions) - 1)]
    return [PartialBar(tuple(reached) or ((end, ""),), end, FAILED, tuple(texts[:MOST_CONDITIONS]))]


def _of_row(result: Result, position: int) -> tuple[dict[str, Any], list[PartialBar]]:
    """Return the traits for a row of a regex: the predicates, and the fates of the partial matches there."""
    program, events = result.program, result.events
    partition = int(events.partition_of_event[position])
    stepping = result.stepping(None if events.n_partitions < 2 else partition)
    k = stepping.index_of(position)
    lines = [
        {"text": f"{name} {'holds' if is_met else 'does not hold'}: {tree}", "is_met": is_met}
        for name, tree, is_met in predicates_at(program, stepping, k)
    ]
    fates, is_whole = fates_at(stepping, k)
    groups, bars = group_fates(fates), []
    shown = groups[:MOST_PARTIALS]

    def row(other: int) -> str:
        return result.row_of(stepping.position_of(other))

    def at(other: int) -> str:
        return _with_time(row(other), _time(result, stepping.position_of(other)).rpartition(" ")[2])

    for group in shown:
        late = _late(result, stepping, group)
        words = describe_group(program.automaton.names, group, k, row, at, late)
        lines.append({"text": words, "is_met": True if group.outcome == MATCHED else None})
        failing = []
        if group is shown[0] and group.outcome == FAILED and not late:
            there = "" if group.fate.end == k else " there"
            failing = _failing(result, stepping, group.fate, there)
            lines += [{"text": text, "is_met": False} for text in failing]
        if late and group is shown[0]:
            failing = [f"the window of {late} is over"]
        bars.append(_bar_of_fate(stepping, group, tuple(failing)))
    if not fates:
        lines.append({"text": "No partial match was open before this row.", "is_met": None})
    elif len(groups) > len(shown):
        n_more = sum(len(group.starts) for group in groups[len(shown) :])
        text = f"{n_more:,} more partial {'match was' if n_more == 1 else 'matches were'} open at this row."
        lines.append({"text": text, "is_met": None})
    title = f"{_place(result, position)}: {_with_time(result.row_of(position), _time(result, position))}"
    note = "" if is_whole else "partial matches that began long before are left out"
    unique = {(line["text"], line["is_met"]): line for line in lines}
    return {"title": title, "lines": list(unique.values()), "note": note}, bars[:MOST_BARS]


def _bar_of_fate(stepping: Stepping, group: FateGroup, failing: tuple[str, ...]) -> PartialBar:
    starts = group.starts[:MOST_STARTS]
    end = stepping.position_of(min(group.fate.end, stepping.n - 1))
    words = {MATCHED: ("complete",), OPEN: ("still open",), REPLACED: ("ended by another match",)}
    texts = tuple(text.replace(" there: ", ": ").removesuffix(" there") for text in failing[:MOST_CONDITIONS])
    text = words.get(group.outcome, texts)
    return PartialBar(tuple((stepping.position_of(start), "") for start in starts), end, group.outcome, text)


def _failing(result: Result, stepping: Stepping, fate: Fate, there: str) -> list[str]:
    """Return the conditions that a partial match fails at its end, in words."""
    program = result.program
    wanted = names_in(program.automaton.names, fate.wanted)
    failing = failing_conditions(program, result.data.source, stepping, wanted, fate.start, fate.end)
    reasons = [f"{name} fails{there}: {text}" for name, text in failing]
    within = program.query.within
    if not reasons and within is not None:
        reasons.append(f"the window of {duration_text(within)} is over{there}")
    return list(dict.fromkeys(reasons))


def _late(result: Result, stepping: Stepping, group: FateGroup) -> str:
    """Return the window in words if all partial matches of a group end because it is over; else nothing."""
    query = result.program.query
    if query.within is None or group.outcome != FAILED:
        return ""
    places = [stepping.position_of(group.starts[-1]), stepping.position_of(group.fate.end)]
    clock = query.order_by[0]
    times = result.data.source.arrow(clock, result.events.rows(np.array(places)))
    first, last = (times.cast(pa.int64()) if pa.types.is_temporal(times.type) else times).to_pylist()
    unit = result.program.schema[clock].unit
    if first is None or last is None:
        return ""
    limit = query.within if unit is None else duration_ticks(query.within, unit)
    is_over = last - first > limit if query.within_closed else last - first >= limit
    return duration_text(query.within) if is_over else ""


def _with_time(row: str, time: str) -> str:
    return f"{row} ({time})" if time else row


def _time(result: Result, position: int) -> str:
    """Return the value of the first order column, as the timeline shows it; empty without one."""
    order_by = result.program.query.order_by
    if not order_by:
        return ""
    row = result.events.rows(np.array([position]))
    [value] = result.data.source.arrow(order_by[0], row).to_pylist()
    if not isinstance(value, datetime):
        return cell(value)
    text = cell(value.replace(tzinfo=None))  # the zone is named at the axis
    return text.rstrip("0") if "." in text else text


def _place(result: Result, position: int) -> str:
    """Return in words which match contains the row."""
    whole = result.matches._found.whole
    numbers = np.flatnonzero((whole.first <= position) & (whole.last >= position))
    partition = result.events.partition_of_event
    numbers = numbers[partition[whole.last[numbers]] == partition[position]]
    if not len(numbers):
        return "in no match"
    chosen = result.choose(int(numbers[0]))
    variable = dict(zip(chosen.positions, chosen.variables, strict=True))[position]
    return f"in match {int(numbers[0]):,}, as {variable}"
