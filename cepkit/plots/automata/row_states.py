"""The automaton of a row pattern in the form that pictures show."""

from __future__ import annotations

from collections.abc import Sequence

from cepkit.compile.match_recognize.automaton import MATCH, RowAutomaton
from cepkit.compile.regex.automaton import States


def shown_states(automaton: RowAutomaton) -> tuple[int, ...]:
    """Return the number from 1 that pictures give to each state; states that behave alike share one.

    Repetitions are written out, so ``A+`` has two states for ``A`` that behave alike.

    Examples
    --------
    >>> from cepkit.compile.match_recognize.automaton import build_row_automaton
    >>> from cepkit.language.match_recognize.patterns import Concatenation, Quantified, RowVariable
    >>> a, b = RowVariable("A"), RowVariable("B")
    >>> shown_states(build_row_automaton(Concatenation((Quantified(a, 1, None), b))))
    (1, 1, 2)
    """
    own = list(zip(automaton.variable_of_state, automaton.excluded, strict=True))
    group, n_groups = _numbered(own), 0
    while n_groups != max(group, default=0):
        n_groups = max(group, default=0)
        group = _numbered(
            [
                (group[state], *(_once(side, group) for side in automaton.follow[state]))
                for state in range(len(own))
            ]
        )
    return tuple(group)


def _numbered(values: list) -> list[int]:
    """Return a number for each value, from 1 in the order of the first of each."""
    number: dict = {}
    return [number.setdefault(value, len(number) + 1) for value in values]


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

    Examples
    --------
    >>> from cepkit.compile.match_recognize.automaton import build_row_automaton
    >>> from cepkit.language.match_recognize.patterns import Concatenation, Quantified, RowVariable
    >>> a, b = RowVariable("A"), RowVariable("B")
    >>> made = row_states(build_row_automaton(Concatenation((Quantified(a, 1, None), b))))
    >>> made.transitions, made.accepting
    (((0, 'A', 1), (1, '1: A', 1), (1, '2: B', 2)), (2,))
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
