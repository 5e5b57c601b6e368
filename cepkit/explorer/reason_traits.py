"""What the reasons' widget shows of a row of a regex: the partial matches that met it, and what held."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from cepkit.events import Events
from cepkit.insight.row_conditions import failing_conditions
from cepkit.insight.stepping import Stepping
from cepkit.insight.value_text import cell
from cepkit.insight.why_not_regex import (
    MOST_PARTIALS,
    Fate,
    fate_text,
    fates_at,
    names_in,
    predicates_at,
)


class ReadResult(Protocol):
    """The result of a regex query, as far as the reasons read it."""

    program: Any
    events: Events
    data: Any
    matches: Any

    def stepping(self, partition: int | None) -> Stepping:
        """Return the events of a partition, to go through one by one."""
        ...

    def event(self, position: int) -> list[list[str]]:
        """Return an event as names and values."""
        ...

    def chosen(self, number: int) -> Any:
        """Return what the explorer shows of a match."""
        ...


def reason_traits(result: ReadResult, position: int) -> dict[str, Any]:
    """Return the traits of the reasons' widget for a row.

    Parameters
    ----------
    result : ReadResult
        Of a regex query.
    position : int
        The row's place in the stream.
    """
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
    told = fates[:MOST_PARTIALS]
    for fate in told:
        begun = f"from {_event(result, stepping, fate.start)}"
        words = fate_text(
            program.automaton.names, fate, k, _number, lambda end: _event(result, stepping, end)
        )
        is_met = True if fate.is_match else None if fate.end > k else False
        lines.append({"text": f"the partial match {begun} {words}", "is_met": is_met})
        if fate is told[0] and fate.wanted is not None:
            lines += _failing(result, stepping, fate, k)
    if not fates:
        lines.append({"text": "no partial match was live before this row", "is_met": None})
    elif len(fates) > len(told):
        n_more = len(fates) - len(told)
        text = f"{n_more:,} more partial {'match was' if n_more == 1 else 'matches were'} live"
        lines.append({"text": text, "is_met": None})
    time = _time(result, position)
    title = f"{_place(result, position)}: row {label}{time and f' ({time})'}"
    note = "" if is_whole else "partial matches that began long before are left out"
    return {"title": title, "lines": lines, "note": note}


def _failing(result: ReadResult, stepping: Stepping, fate: Fate, k: int) -> list[dict[str, Any]]:
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


def _event(result: ReadResult, stepping: Stepping, k: int) -> str:
    time = _time(result, stepping.position_of(k)).rpartition(" ")[2]  # the day stands in the title
    return f"{_number(k)}{time and f' ({time})'}"


def _time(result: ReadResult, position: int) -> str:
    """Return the value of the column that orders the events, empty without one."""
    order_by = result.program.query.order_by
    row = result.events.rows(np.array([position]))
    return cell(result.data.source.arrow(order_by[0], row).to_pylist()[0]) if order_by else ""


def _place(result: ReadResult, position: int) -> str:
    """Return whether the row is in a match."""
    found = result.matches._found.whole
    own = np.flatnonzero((found.first <= position) & (found.last >= position))
    partition = result.events.partition_of_event
    own = own[partition[found.last[own]] == partition[position]]
    if not len(own):
        return "in no match"
    chosen = result.chosen(int(own[0]))
    return (
        f"in match {int(own[0]):,}, as {dict(zip(chosen.positions, chosen.variables, strict=True))[position]}"
    )
