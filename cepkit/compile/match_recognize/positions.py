"""Rows of variables that have the same place in every match, as in ``A B+ C``."""

from __future__ import annotations

from collections.abc import Iterable

from cepkit.compile.match_recognize.automaton import MATCH, RowAutomaton


def fixed_position(
    automaton: RowAutomaton, members: Iterable[str], *, from_first: bool, offset: int
) -> tuple[bool, int] | None:
    """Return the place of a variable's row if all matches have it at the same distance from an end."""
    wanted = {s for s, name in enumerate(automaton.variable_of_state) if name in set(members)}
    after = [{state for side in lists for state in side} for lists in automaton.follow]
    start = after[automaton.start]
    if MATCH in start:
        return None
    before: list[set[int]] = [set() for _ in after]
    for state, targets in enumerate(after[:-1]):
        for target in targets - {MATCH}:
            before[target].add(state)
    enders = {state for state, targets in enumerate(after[:-1]) if MATCH in targets}
    found = None
    if from_first or (offset == 0 and _occurs_once(after, wanted)):
        found = _distance(start, [own - {MATCH} for own in after], enders, wanted, offset)
    if found is not None:
        return True, found
    if not from_first or (offset == 0 and _occurs_once(after, wanted)):
        found = _distance(enders, before, start, wanted, offset)
    return None if found is None else (False, found)


def is_run(automaton: RowAutomaton, members: Iterable[str]) -> bool:
    """Return whether all rows between two rows of a variable are rows of it, in every match."""
    wanted = {s for s, name in enumerate(automaton.variable_of_state) if name in set(members)}
    after = [{state for side in lists for state in side} for lists in automaton.follow]
    left = {target for state in wanted for target in after[state]} - wanted
    return not _reaches(after, left - {MATCH}, wanted)


def _occurs_once(after: list[set[int]], wanted: set[int]) -> bool:
    """Return whether no wanted state can follow a wanted state, sooner or later."""
    return not _reaches(after, {target for state in wanted for target in after[state]}, wanted)


def _reaches(after: list[set[int]], first: Iterable[int], wanted: set[int]) -> bool:
    """Return whether a wanted state is among some states, or can follow them sooner or later."""
    waiting, seen = list(first), set()
    while waiting:
        state = waiting.pop()
        if state in wanted:
            return True
        if state != MATCH and state not in seen:
            seen.add(state)
            waiting.extend(after[state])
    return False


def _distance(
    first: set[int], steps: list[set[int]], last: set[int], wanted: set[int], offset: int
) -> int | None:
    """Return the number of steps from the first states to the wanted one, if it is the same on all ways."""
    now, left = set(first), offset
    for distance in range(len(steps)):
        if now <= wanted:
            if left == 0:
                return distance
            left -= 1
        elif now & wanted:
            return None
        if not now or now & last:  # a match may end here
            return None
        now = set().union(*(steps[state] for state in now))
    return None
