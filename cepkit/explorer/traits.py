"""Answers as traits of widgets: why events are no match, the moments of a stream, and the funnel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from cepkit.explorer.running.result import (
    FAILED,
    MATCHED,
    MOST_BARS,
    OPEN,
    REPLACED,
    FateGroup,
    PartialBar,
    Result,
    describe_group,
    group_fates,
)
from cepkit.insight.funnel import BranchFunnel, FunnelResult, beginnings
from cepkit.insight.funnels import MOST_WORK, count_funnel, count_regex_funnel, exact_count
from cepkit.insight.moments import Stepping
from cepkit.insight.row_pattern_why_not import RowExplainer, RowReader, count_row_funnel
from cepkit.insight.why_not import MOST_ROWS, WhyNot, cell
from cepkit.insight.why_not_regex import (
    MOST_PARTIALS,
    Fate,
    failing_conditions,
    fates_at,
    names_in,
    predicates_at,
)
from cepkit.insight.why_not_text import explain_sequence_rows, tell_event
from cepkit.language.expressions.durations import duration_ticks
from cepkit.language.match_recognize.printing import print_sql, sql_variable
from cepkit.language.sequences.printing import duration_text


def moment_traits(result: Result, stepping: Stepping, position: int, sampled: str) -> dict[str, Any]:
    """Return the traits of the stepper's widget for the moment after ``position`` events."""
    moment, labels = stepping.after(position), result.automaton.labels
    notes = [moment.note] if moment.note else []
    if not moment.is_whole and not moment.note:
        notes.append("partial matches that began long before are left out")
    if result.is_sequence and result.program.query.selects:
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
    """Yield the steps of a result's funnel, and whether they are final."""
    # The first funnel of a sequence is quick; if its numbers are lower bounds, a second one looks at more.
    if not result.is_sequence:
        yield _of_rows(result) if result.is_rows else _of_regex(result), True
        return
    funnel = _count_sequence(result, _LITTLE_WORK)
    is_final = all(step.partial.exact for branch in funnel.branches for step in branch.steps)
    yield _funnel_of_sequence(funnel), is_final
    if not is_final:
        yield _funnel_of_sequence(_count_sequence(result, MOST_WORK)), True


def _count_sequence(result: Result, most_work: int) -> FunnelResult:
    """Return the funnel of a sequence; counts stop after some work."""
    program, engine = result.program, result.matches.engine
    n_matches = result.count() if not program.query.selects else None
    branches = count_funnel(
        program, result.events, engine.run, count=partial(exact_count, most_work=most_work),
        n_matches=n_matches, most_tallied=_TALLIED,
    )  # fmt: skip
    return FunnelResult(program.query, branches)


def _funnel_of_sequence(funnel: FunnelResult) -> list[dict[str, Any]]:
    """Return the stages of the funnel of a sequence."""
    best = max(funnel.branches, key=lambda branch: branch.complete.n)
    labels, notes = [], []
    kinds = ["any event" if step.event_type is None else str(step.event_type) for step in best.steps]
    for step, kind in zip(best.steps, kinds, strict=True):
        tried = f"; {step.passed:,} of {step.looked_at:,} events tried pass" if step.looked_at else ""
        labels.append(kind if kinds.count(kind) == 1 else f"{kind} ({step.variable})")
        notes.append(
            f"{step.n_alone:,} of {step.n_of_type:,} events fulfil the conditions on single events{tried}"
        )
    n = len(funnel.branches)
    title = "matches" if n == 1 else f"matches of the alternative with most, of {n}"
    return _stages(best, labels, notes, title, "; ".join(funnel.words()))


def _of_regex(result: Result) -> list[dict[str, Any]]:
    """Return the stages of the funnel of a regex."""
    program, n_rows = result.program, result.events.n_events
    [branch] = count_regex_funnel(
        program, result.events, result.matches.count(), STEPS, with_conditions=False
    )
    labels = [str(part) for part, _ in beginnings(program.query.pattern, STEPS)]
    notes = [f"matches of this beginning alone; {n_rows:,} rows"] * (len(labels) - 1)
    return _stages(branch, labels, [*notes, ""])


def _of_rows(result: Result) -> list[dict[str, Any]]:
    """Return the stages of the funnel of a MATCH_RECOGNIZE."""
    searched = result.data.searched(result.program)
    n_matches = result.count() + result.matches._found.n_empty
    [branch] = count_row_funnel(searched, n_matches, STEPS, with_conditions=False)
    notes = [f"rows from which this beginning matches, of {step.n_of_type:,}" for step in branch.steps]
    words = "; ".join(FunnelResult(result.program.query, (branch,)).words())
    return _stages(branch, [step.variable for step in branch.steps], notes, "matches", words)


def _stages(
    branch: BranchFunnel, labels: Sequence[str], notes: Sequence[str], title: str = "", words: str = ""
) -> list[dict[str, Any]]:
    """Return the stages of a funnel; with a title, the matches are a stage of their own."""
    counts = [step.partial for step in branch.steps]
    if title:
        counts.append(branch.complete if branch.reported is None else branch.reported)
    stages: list[dict[str, Any]] = []
    n_before = 0
    for label, count, note in zip([*labels, title], counts, [*notes, words], strict=False):
        kept = count.n / n_before if n_before else None
        share = count.n / (counts[0].n or 1)
        stages.append({"label": label, "n": str(count), "share": share, "kept": kept, "note": note})
        n_before = count.n
    return stages


# Why clicked rows are not a match of MATCH_RECOGNIZE, as traits of a board.

_RIVALS = ("preference", "after_match")


def _of_clicked_rows(
    result: Result, source: Any, positions: Sequence[int]
) -> tuple[dict[str, Any], list[PartialBar]]:
    """Return the traits for clicked rows, and their bar; one row is read as the first of a partial match."""
    searched = result.data.searched(result.program)
    ordered = np.array(sorted(set(positions)), np.int64)
    partition_of_row = searched.events.partition_of_event[ordered]
    part = searched.partition(int(partition_of_row[-1]))
    places = np.searchsorted(part.positions, ordered[partition_of_row == partition_of_row[-1]]).tolist()
    reader, low = RowReader(result.program, part, places[0]), places[0]
    high = min(places[-1], low + MOST_ROWS - 1) if len(places) > 1 else _longest(reader, low)
    shown = part.positions[low : high + 1]
    answer = RowExplainer(searched, source, {int(position): None for position in shown}).explain()
    traits = _traits_of(answer) if len(places) > 1 else _reading_of_row(result, answer, reader, low)
    outcome = REPLACED if answer.kinds and answer.kinds[0] in _RIVALS else FAILED
    return traits, [_bar(answer, shown.tolist(), outcome)]


def _reading_of_row(result: Result, answer: WhyNot, reader: RowReader, k: int) -> dict[str, Any]:
    """Return the traits of a row: the variables that it can be, and the match that would begin there."""
    bound, fitting = result.program, set(reader.could_be(k))
    lines: list[dict[str, Any]] = []
    for name, tree in bound.query.define:
        text, is_met = print_sql(tree), name in fitting
        if name in bound.program.needs.variables:
            words = f"{sql_variable(name)}: {text}, which needs the rows before in the match"
            lines.append({"text": words, "is_met": None})
        else:
            words = f"{sql_variable(name)} {'holds' if is_met else 'does not hold'}: {text}"
            lines.append({"text": words, "is_met": is_met})
    position = int(reader.part.positions[k])
    row = result.row_of(position)
    if answer.matches:
        lines.append({"text": f"{answer.headline.removeprefix('they match: ')}.", "is_met": True})
    else:
        lines.append({"text": f"Read from {row} on: {answer.headline}.", "is_met": None})
        lines += [{"text": text, "is_met": False} for text in answer.reasons]
    place = _place(result, position)
    return {"title": f"{place}: {row}", "lines": _unique(lines), "note": ""}


def _longest(reader: RowReader, k: int) -> int:
    """Return the row where the longest partial match from row ``k`` ends or fails."""
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
    """Return the traits for events that a person expects in one match; a regex uses the last one."""
    source = result.data.source if result.names.has_labels else _WithoutLabels(result.data.source)
    if result.is_sequence:
        traits, bars = _of_sequence(result, source, positions)
    elif result.is_rows:
        traits, bars = _of_clicked_rows(result, source, positions)
    else:
        traits, bars = _of_row(result, int(positions[-1]))
    result.bars = (int(positions[-1]), bars)
    return traits


def _of_sequence(
    result: Result, source: Any, positions: Sequence[int]
) -> tuple[dict[str, Any], list[PartialBar]]:
    """Return why some rows are no match of a sequence, and bars for the timeline."""
    ordered, find = sorted(set(positions)), result.matches.engine.run
    story = tell_event(result.program, source, result.events, ordered[0]) if len(ordered) == 1 else None
    if story is not None and not story.is_match:
        title = _with_time(result.row_of(ordered[0]), _time(result, ordered[0]))
        bar = PartialBar(story.reached, story.end, FAILED, (story.text.rpartition("; ")[2].rstrip("."),))
        return {"title": title, "lines": [{"text": story.text, "is_met": None}], "note": ""}, [bar]
    if story is not None:
        ordered = [position for position, _ in story.reached]
    rows = [result.label_of(position) for position in ordered]
    answer = explain_sequence_rows(result.program, source, result.events, find, rows)
    traits = _traits_of(answer)
    if story is None and len(ordered) == 1:
        traits["title"] = _with_time(result.row_of(ordered[0]), _time(result, ordered[0]))
    return traits, [_bar(answer, ordered)]


def _traits_of(answer: WhyNot) -> dict[str, Any]:
    lines = [{"text": text, "is_met": False} for text in answer.reasons]
    if answer.matches:
        lines = [{"text": "all conditions hold", "is_met": True}]
    return {"title": answer.headline, "lines": _unique(lines), "note": "; ".join(answer.more)}


def _unique(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return list({(line["text"], line["is_met"]): line for line in lines}.values())


def _bar(answer: WhyNot, positions: list[int], outcome: str = FAILED) -> PartialBar:
    """Return the bar of the longest partial match among events; ``answer.table`` has a row for each."""
    table = answer.table
    names = ["" if name is None or name is pd.NA else str(name) for name in table["variable"]]
    rows = zip(positions, names, table["reached"], strict=True)
    reached = tuple((position, name) for position, name, is_reached in rows if is_reached)
    if answer.matches:
        return PartialBar(reached, positions[-1], MATCHED, ("all conditions hold",))
    end = positions[min(len(reached), len(positions) - 1)]
    texts = tuple(dict.fromkeys(answer.reasons))[:MOST_CONDITIONS]
    return PartialBar(reached or ((end, ""),), end, outcome, texts)


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
    groups = group_fates(fates)
    shown, bars = groups[:MOST_PARTIALS], []

    def row(other: int) -> str:
        return result.row_of(stepping.position_of(other))

    def at(other: int) -> str:
        return _with_time(row(other), _time(result, stepping.position_of(other)).rpartition(" ")[2])

    for group in shown:
        late = _late(result, stepping, group)
        words = describe_group(program.automaton.names, group, k, row, at, late)
        lines.append({"text": words, "is_met": True if group.outcome == MATCHED else None})
        failing = []
        if group is shown[0] and late:
            failing = [f"the window of {late} is over"]
        elif group is shown[0] and group.outcome == FAILED:
            failing = _failing(result, stepping, group.fate, "" if group.fate.end == k else " there")
            lines += [{"text": text, "is_met": False} for text in failing]
        bars.append(_bar_of_fate(stepping, group, tuple(failing)))
    if not fates:
        lines.append({"text": "No partial match was open before this row.", "is_met": None})
    elif len(groups) > len(shown):
        n_more = sum(len(group.starts) for group in groups[len(shown) :])
        text = f"{n_more:,} more partial {'match was' if n_more == 1 else 'matches were'} open at this row."
        lines.append({"text": text, "is_met": None})
    title = f"{_place(result, position)}: {_with_time(result.row_of(position), _time(result, position))}"
    note = "" if is_whole else "partial matches that began long before are left out"
    return {"title": title, "lines": _unique(lines), "note": note}, bars[:MOST_BARS]


def _bar_of_fate(stepping: Stepping, group: FateGroup, failing: tuple[str, ...]) -> PartialBar:
    """Return the bar of partial matches that ended in the same way."""
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
    shown = sql_variable(variable) if result.is_rows else variable
    return f"in match {int(numbers[0]):,}, as {shown}"
