"""Why a row of a regex query is in no match: the partial matches that met it, and which predicates held."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from cepkit.compile.automaton import ANY
from cepkit.compile.program import compile_regex
from cepkit.engines.regex import advance
from cepkit.errors import PredicateError
from cepkit.explorer.stepping import LOOK_BACK, plain_kernel
from cepkit.language.patterns import Variable

if TYPE_CHECKING:
    from cepkit.explorer.result import Result

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
    names = program.automaton.names
    lines = [
        {"text": f"{name} holds{'' if is_met else ' not'}: {tree}", "is_met": is_met}
        for name, tree, is_met in _alone(result, stepping, k)
    ]
    walk = stepping.walk_to(k)
    for before in range(walk.begin, k):
        walk.after(before)
    starts, masks = walk.partials()
    walk.after(k)
    after = dict(zip(*(array.tolist() for array in walk.partials()), strict=True))
    completed = walk.after(k).completed
    for start, mask in list(zip(starts.tolist(), masks.tolist(), strict=True))[:MOST_PARTIALS]:
        wanted = _names(names, program.automaton.follow_of_mask(mask))
        if completed:
            is_it = completed[0][0] == start
            text = (
                "is completed" if is_it else f"ends: the match from event {completed[0][0] + 1:,} is reported"
            )
            lines.append({"text": f"the partial match from event {start + 1:,} {text}", "is_met": is_it})
        elif start in after:
            taken = _names(names, after[start])
            lines.append(
                {"text": f"the partial match from event {start + 1:,} takes it as {taken}", "is_met": True}
            )
        else:
            text = f"the partial match from event {start + 1:,} needs {wanted} here, and ends"
            lines.append({"text": text, "is_met": False})
    if not len(starts):
        lines.append({"text": "no partial match was live before this row", "is_met": None})
    elif len(starts) > MOST_PARTIALS:
        lines.append(
            {"text": f"{len(starts) - MOST_PARTIALS:,} more partial matches were live", "is_met": None}
        )
    title = f"row {label}: {_place(result, position)}"
    note = "" if walk.is_whole else "partial matches that began long before are left out"
    return {"title": title, "lines": lines, "note": note}


def _place(result: Result, position: int) -> str:
    """Return whether the row is in a match."""
    found = result.matches._matchset
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
        if name == ANY:
            continue
        define = ((name, defined[name]),) if name in defined else ()
        alone = replace(query, pattern=Variable(name), define=define, measures=None, within=None, sources=())
        try:
            program = compile_regex(alone, result.data.schema)
        except PredicateError:  # it looks at the match so far
            continue
        low = max(0, k - LOOK_BACK)
        own = stepping.part(low, k + 1)
        own = replace(own, columns={of: own.columns[of] for of in program.columns})
        inputs = program.inputs(own.columns)
        kernel = plain_kernel(program, inputs)
        _, last = advance(kernel, kernel.new_state(1), np.zeros(own.n_events, np.int32), inputs, low)
        told.append((name, str(defined.get(name, f"column {name}")), bool(len(last)) and int(last[-1]) == k))
    return told
