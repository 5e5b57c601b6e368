"""A moment of a stream as traits of the stepper: the event, live partial matches, completed matches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cepkit.explorer.match_recognize.walk import RowStepping
    from cepkit.explorer.running.result import Result
    from cepkit.insight.stepping import Stepping


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
