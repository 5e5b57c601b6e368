"""Traits of the widget that shows why events are not a match."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from cepkit.explorer.match_recognize.reasons import reasons_of_rows
from cepkit.explorer.partial_bars import (
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
from cepkit.insight.row_conditions import failing_conditions
from cepkit.insight.stepping import Stepping
from cepkit.insight.value_text import cell
from cepkit.insight.why_not import WhyNot
from cepkit.insight.why_not_regex import MOST_PARTIALS, Fate, fates_at, names_in, predicates_at
from cepkit.insight.why_not_text import explain_sequence_rows
from cepkit.language.expressions.durations import duration_ticks
from cepkit.language.sequences.printing import duration_text

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
    own = [
        (position, name)
        for position, name, is_reached in zip(positions, names, table["reached"], strict=True)
        if is_reached
    ]
    if answer.matches:
        return [PartialBar(tuple(own), positions[-1], MATCHED, ("all conditions hold",))]
    end = positions[min(len(own), len(positions) - 1)]
    return [PartialBar(tuple(own) or ((end, ""),), end, FAILED, tuple(texts[:MOST_CONDITIONS]))]


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
    told = tuple(text.replace(" there: ", ": ").removesuffix(" there") for text in failing[:MOST_CONDITIONS])
    text = words.get(group.outcome, told)
    return PartialBar(tuple((stepping.position_of(start), "") for start in starts), end, group.outcome, text)


def _failing(result: Result, stepping: Stepping, fate: Fate, there: str) -> list[str]:
    """Return the conditions that a partial match fails at its end, in words."""
    program = result.program
    wanted = names_in(program.automaton.names, fate.wanted)
    failing = failing_conditions(program, result.data.source, stepping, wanted, fate.start, fate.end)
    told = [f"{name} fails{there}: {text}" for name, text in failing]
    within = program.query.within
    if not told and within is not None:
        told.append(f"the window of {duration_text(within)} is over{there}")
    return list(dict.fromkeys(told))


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
    found = result.matches._found.whole
    own = np.flatnonzero((found.first <= position) & (found.last >= position))
    partition = result.events.partition_of_event
    own = own[partition[found.last[own]] == partition[position]]
    if not len(own):
        return "in no match"
    chosen = result.choose(int(own[0]))
    return (
        f"in match {int(own[0]):,}, as {dict(zip(chosen.positions, chosen.variables, strict=True))[position]}"
    )
