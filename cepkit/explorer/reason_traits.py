"""Traits of the widget that shows why events are not a match."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cepkit.explorer.running.result import Result
from cepkit.insight.row_conditions import failing_conditions
from cepkit.insight.stepping import Stepping
from cepkit.insight.value_text import cell
from cepkit.insight.why_not_regex import MOST_PARTIALS, Fate, fate_text, fates_at, names_in, predicates_at
from cepkit.insight.why_not_text import explain_sequence_rows


class _WithoutLabels:
    """A source whose rows are named by number, since several rows may have the same index label."""

    frame = None

    def __init__(self, source: Any):
        self._source = source

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)


def reason_traits(result: Result, positions: Sequence[int]) -> dict[str, Any]:
    """Return the traits for events that a person expects in one match; a regex uses the last one."""
    return _of_sequence(result, positions) if result.is_sequence else _of_row(result, int(positions[-1]))


def _of_sequence(result: Result, positions: Sequence[int]) -> dict[str, Any]:
    rows = result.events.rows(np.array(sorted(set(positions)), np.int64))
    source, find = _WithoutLabels(result.data.source), result.matches.engine.run
    answer = explain_sequence_rows(result.program, source, result.events, find, rows.tolist())
    lines = [{"text": text, "is_met": False} for text in answer.reasons]
    if answer.matches:
        lines = [{"text": "all conditions hold", "is_met": True}]
    return {"title": answer.headline, "lines": lines, "note": "; ".join(answer.more)}


def _of_row(result: Result, position: int) -> dict[str, Any]:
    """Return the traits for a row of a regex: the predicates, and the fates of the partial matches there."""
    program, events = result.program, result.events
    partition = int(events.partition_of_event[position])
    stepping = result.stepping(None if events.n_partitions < 2 else partition)
    k = stepping.index_of(position)
    label = result.event(position)[0][1]
    lines = [
        {"text": f"{name} holds{'' if is_met else ' not'}: {tree}", "is_met": is_met}
        for name, tree, is_met in predicates_at(program, stepping, k)
    ]
    fates, is_whole = fates_at(stepping, k)
    shown = fates[:MOST_PARTIALS]
    for fate in shown:
        begun = f"from {_event(result, stepping, fate.start)}"
        words = fate_text(
            program.automaton.names, fate, k, _number, lambda end: _event(result, stepping, end)
        )
        is_met = True if fate.is_match else None if fate.end > k else False
        lines.append({"text": f"the partial match {begun} {words}", "is_met": is_met})
        if fate is shown[0] and fate.wanted is not None:
            lines += _failing(result, stepping, fate, k)
    if not fates:
        lines.append({"text": "no partial match was live before this row", "is_met": None})
    elif len(fates) > len(shown):
        n_more = len(fates) - len(shown)
        text = f"{n_more:,} more partial {'match was' if n_more == 1 else 'matches were'} live"
        lines.append({"text": text, "is_met": None})
    time = _time(result, position)
    title = f"{_place(result, position)}: row {label}{time and f' ({time})'}"
    note = "" if is_whole else "partial matches that began long before are left out"
    return {"title": title, "lines": lines, "note": note}


def _failing(result: Result, stepping: Stepping, fate: Fate, k: int) -> list[dict[str, Any]]:
    """Return lines for the conditions that a partial match fails at its end."""
    program = result.program
    wanted = names_in(program.automaton.names, fate.wanted)
    there = "" if fate.end == k else " there"
    failing = failing_conditions(program, result.data.source, stepping, wanted, fate.start, fate.end)
    lines = [{"text": f"{name} fails{there}: {text}", "is_met": False} for name, text in failing]
    within = program.query.within
    if not lines and within is not None:
        lines.append({"text": f"the window of {within} is over{there}", "is_met": False})
    return lines


def _number(k: int) -> str:
    return f"event {k + 1:,}"


def _event(result: Result, stepping: Stepping, k: int) -> str:
    time = _time(result, stepping.position_of(k)).rpartition(" ")[2]  # the title has the day
    return f"{_number(k)}{time and f' ({time})'}"


def _time(result: Result, position: int) -> str:
    """Return the value of the first order column; empty without one."""
    order_by = result.program.query.order_by
    row = result.events.rows(np.array([position]))
    return cell(result.data.source.arrow(order_by[0], row).to_pylist()[0]) if order_by else ""


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
