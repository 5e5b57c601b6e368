"""The automaton of a row pattern in the form that pictures show."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from cepkit.compile.match_recognize.automaton import MATCH, RowAutomaton
from cepkit.compile.regex.automaton import States


def shown_states(automaton: RowAutomaton) -> tuple[int, ...]:
    """Return the number from 1 that pictures give to each state; states that behave alike share one.

    Repetitions are written out, so ``A+`` has two states for ``A`` that behave alike.
    """
    return _shown_states(automaton)


@lru_cache(maxsize=8)
def _shown_states(automaton: RowAutomaton) -> tuple[int, ...]:
    """Divide the states until those of a group have equal choices.

    Only states with a choice in a new group are looked at again. So a chain takes time in proportion to its
    length.

    """
    sides = [lists[:1] if len(set(lists)) == 1 else lists for lists in automaton.follow[: automaton.start]]
    before: list[list[int]] = [[] for _ in sides]
    for state, lists in enumerate(sides):
        for target in {target for targets in lists for target in targets if target != MATCH}:
            before[target].append(state)
    group = _numbered(list(zip(automaton.variable_of_state, automaton.excluded, strict=True)))
    members: dict[int, set[int]] = {}
    for state, number in enumerate(group):
        members.setdefault(number, set()).add(state)
    changed = {number: set(states) for number, states in members.items()}
    while changed:
        number, looked_at = changed.popitem()
        parts: dict[tuple, list[int]] = {}
        for state in looked_at:
            parts.setdefault(_choices(sides[state], group), []).append(state)
        # A state that was not looked at has the choices of all others that were not.
        other = next((state for state in members[number] if state not in looked_at), None)
        largest = max(parts, key=lambda choices: len(parts[choices]))
        parts.pop(largest if other is None else _choices(sides[other], group), None)  # these states stay
        moved = [state for states in parts.values() for state in states]
        for states in parts.values():
            members[number].difference_update(states)
            members[len(members) + 1] = set(states)
            for state in states:
                group[state] = len(members)
        for one in {one for state in moved for one in before[state]}:
            changed.setdefault(group[one], set()).add(one)
    return tuple(_numbered(group))


def _numbered(values: list) -> list[int]:
    """Return a number for each value, from 1 in the order of the first of each."""
    number: dict = {}
    return [number.setdefault(value, len(number) + 1) for value in values]


def _choices(lists: Sequence[tuple[int, ...]], group: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    return tuple(_once(targets, group) for targets in lists)


def _once(states: tuple[int, ...], group: Sequence[int]) -> tuple[int, ...]:
    """Return the groups of states, each once; ``MATCH`` stays."""
    return tuple(dict.fromkeys(one if one == MATCH else group[one] for one in states))


def choices_of(automaton: RowAutomaton) -> list[tuple[str, tuple[int, ...]]]:
    """Return name and choices of the start and of each shown state, the preferred choices first.

    A choice is the number of a shown state, or ``MATCH``. Choices at the sides of a partition are included.

    """
    group = shown_states(automaton)
    first = {number: state for state, number in reversed(list(enumerate(group)))}
    found = []
    for state in [automaton.start, *(first[number] for number in sorted(first))]:
        name = "" if state == automaton.start else automaton.variable_of_state[state]
        every = tuple(one for side in automaton.follow[state] for one in side)
        found.append((name, _once(every, group)))
    return found


def row_states(automaton: RowAutomaton) -> States:
    """Return the automaton of a row pattern with numbered choices; state 0 is the start.

    The other states are those of `shown_states`. The label of a transition is the variable of its row. If
    several choices leave a state, the number of the choice comes first: 1 is preferred.
    """
    ways: list[tuple[int, str, int]] = []
    accepting: list[int] = []
    states = choices_of(automaton)
    for state, (_, choices) in enumerate(states):
        for rank, target in enumerate(choices, 1):
            if target == MATCH:
                accepting.append(state)
                continue
            name = states[target][0]
            ways.append((state, f"{rank}: {name}" if len(choices) > 1 else name, target))
    return States(len(states), tuple(ways), tuple(accepting), (0,) * len(states))


def texts_of_choices(ways: States, texts: dict[str, str]) -> dict[str, str]:
    """Return the conditions of variables by the labels of transitions."""
    return {
        name: texts[variable]
        for _, name, _ in ways.transitions
        if (variable := name.rpartition(": ")[2]) in texts
    }
