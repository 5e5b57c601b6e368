"""Why a row of a regex query is in no match: the partial matches that met it, and which predicates held."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from cepkit.compile.regex.automaton import ANY
from cepkit.compile.regex.program import compile_regex
from cepkit.engines.regex.matching import advance
from cepkit.explorer.row_conditions import failing_conditions
from cepkit.explorer.running.pages import cell
from cepkit.explorer.stepping import LOOK_BACK, Stepping, plain_kernel
from cepkit.language.expressions import trees as ex
from cepkit.language.regex.patterns import Variable

if TYPE_CHECKING:
    from cepkit.explorer.running.result import Result

MOST_PARTIALS = 4  # whose meeting with the row is told


def reasons_of_row(result: Result, position: int) -> dict[str, Any]:
    """Return the traits of the reasons' widget for a row.

    Parameters
    ----------
    result : Result
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
        for name, tree, is_met in _alone(result, stepping, k)
    ]
    walk = stepping.walk_to(k)
    for before in range(walk.begin, k):
        walk.after(before)
    fates = _fates(walk, k, program.automaton.follow_of_mask)
    told = fates[:MOST_PARTIALS]
    for fate in told:
        begun = _event(result, stepping, fate.start, "from")
        text = f"the partial match {begun} {_words(result, stepping, fate, k)}"
        lines.append({"text": text, "is_met": True if fate.is_match else None if fate.end > k else False})
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
    note = "" if walk.is_whole else "partial matches that began long before are left out"
    return {"title": title, "lines": lines, "note": note}


@dataclass(frozen=True)
class _Fate:
    """What becomes of a partial match that a row meets.

    Parameters
    ----------
    start, end : int
        Where it began, and the event at which it ends; past the last one that is looked at, it still lives.
    taken : int
        Positions of the automaton as which it takes the row; 0 where it ends there.
    wanted : int or None
        Positions it could go on with where it ends; None where it does not fail.
    rival : int or None
        Where the match began that is complete at the end.
    """

    start: int
    end: int
    taken: int
    wanted: int | None = None
    rival: int | None = None

    @property
    def is_match(self) -> bool:
        return self.rival == self.start


def _fates(walk: Any, k: int, follow: Callable[[int], int]) -> list[_Fate]:
    """Return what becomes of the partial matches before event ``k``, what tells most in front.

    That is the match, then those that fail, the longest first, then those that a match ends, then those that
    go on as far as is looked.
    """
    before = _partials(walk)
    waiting, taken, fates = list(before), dict.fromkeys(before, 0), []
    for j in range(k, walk.stop):
        completed = walk.after(j).completed
        after = _partials(walk)
        if j == k:
            taken |= {start: after.get(start, 0) for start in waiting}
        for start in waiting:
            if completed:
                fates.append(_Fate(start, j, taken[start], None, completed[0][0]))
            elif start not in after:
                fates.append(_Fate(start, j, taken[start], follow(before[start])))
        waiting = [start for start in waiting if start in after and not completed]
        before = after
        if not waiting:
            break
    fates += [_Fate(start, walk.stop, taken[start]) for start in waiting]
    return sorted(
        fates,
        key=lambda fate: (not fate.is_match, fate.wanted is None, fate.rival is None, -fate.end, fate.start),
    )


def _partials(walk: Any) -> dict[int, int]:
    """Return the positions of the live partial matches by their starts."""
    return dict(zip(*(array.tolist() for array in walk.partials()), strict=True))


def _words(result: Result, stepping: Stepping, fate: _Fate, k: int) -> str:
    names = result.program.automaton.names
    takes = f"takes it as {_names(names, fate.taken)}" if fate.taken else ""
    there = "here" if fate.end == k else _event(result, stepping, fate.end, "at")
    if fate.is_match:
        return f"{takes}, and is completed {there}" if takes else "is completed"
    if fate.rival is not None:
        rival = f"the match from event {fate.rival + 1:,} is reported"
        return f"{takes}, and ends {there}: {rival}" if takes else f"ends: {rival}"
    if fate.wanted is None:
        return f"{takes}, and goes on"
    wanted = _names(names, fate.wanted)
    return (
        f"{takes}, and ends {there}, where it needs {wanted}" if takes else f"needs {wanted} here, and ends"
    )


def _failing(result: Result, stepping: Stepping, fate: _Fate, k: int) -> list[dict[str, Any]]:
    """Return lines for the conditions that a partial match fails at its end."""
    names = result.program.automaton.names
    wanted = tuple(name for p, name in enumerate(names) if fate.wanted >> p & 1)
    there = "" if fate.end == k else " there"
    failing = failing_conditions(result, stepping, wanted, fate.start, fate.end)
    lines = [{"text": f"{name} fails{there}: {text}", "is_met": False} for name, text in failing]
    within = result.program.query.within
    if not lines and within is not None:
        lines.append({"text": f"the window of {within} is over{there}", "is_met": False})
    return lines


def _event(result: Result, stepping: Stepping, k: int, before: str) -> str:
    time = _time(result, stepping.position_of(k)).rpartition(" ")[2]  # the day stands in the title
    return f"{before} event {k + 1:,}{time and f' ({time})'}"


def _time(result: Result, position: int) -> str:
    """Return the value of the column that orders the events, empty without one."""
    order_by = result.program.query.order_by
    row = result.events.rows(np.array([position]))
    return cell(result.data.source.arrow(order_by[0], row).to_pylist()[0]) if order_by else ""


def _place(result: Result, position: int) -> str:
    """Return whether the row is in a match."""
    found = result.matches._found.whole
    own = np.flatnonzero((found.first <= position) & (found.last >= position))
    partition = result.events.partition_of_event
    own = own[partition[found.last[own]] == partition[position]]
    if not len(own):
        return "in no match"
    return f"in match {int(own[0]):,}, as {dict(zip(*_told(result, int(own[0])), strict=True))[position]}"


def _told(result: Result, number: int) -> tuple[tuple[int, ...], tuple[str, ...]]:
    chosen = result.chosen(number)
    return chosen.positions, chosen.variables


def _names(names: tuple[str, ...], mask: int) -> str:
    own = (names[p] for p in range(len(names)) if mask >> p & 1)
    return " or ".join(dict.fromkeys("any" if name == ANY else name for name in own)) or "nothing"


def _alone(result: Result, stepping: Any, k: int) -> list[tuple[str, str, bool]]:
    """Return name, text and truth of every predicate that looks at the row and those before it alone."""
    query, told = result.program.query, []
    defined = dict(query.define)
    for name in dict.fromkeys(result.program.automaton.names):
        if name == ANY or (name in defined and _looks_at_match(defined[name])):
            continue
        define = ((name, defined[name]),) if name in defined else ()
        alone = replace(query, pattern=Variable(name), define=define, measures=None, within=None, sources=())
        program = compile_regex(alone, result.data.schema)
        low = max(0, k - LOOK_BACK)
        own = stepping.part(low, k + 1)
        own = replace(own, columns={of: own.columns[of] for of in program.columns})
        inputs = program.inputs(own.columns)
        kernel = plain_kernel(program, inputs)
        _, last = advance(kernel, kernel.new_state(1), np.zeros(own.n_events, np.int32), inputs, low)
        told.append((name, str(defined.get(name, f"column {name}")), bool(len(last)) and int(last[-1]) == k))
    return told


def _looks_at_match(tree: ex.Expression) -> bool:
    """Return whether a predicate's truth depends on the rows matched before."""
    return any(isinstance(node, ex.Aggregate) for node in tree.walk())
