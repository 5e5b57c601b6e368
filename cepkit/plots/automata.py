"""The automata of regexes, row patterns and sequences, in the form that pictures show."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from operator import attrgetter

from cepkit.compile.shared.row_automaton import ACCEPT as MATCH
from cepkit.compile.shared.row_automaton import ANY, RowAutomaton, States
from cepkit.language.sequences.branches import Branch, Component
from cepkit.values import dataclass

# The edges of an automaton with their labels.

LABEL_CHARACTERS = 24  # width of a label's line


@dataclass(frozen=True, slots=True)
class Edge:
    """All transitions from one state to another."""

    source: int
    target: int
    names: tuple[str, ...]  # predicates, "." for any event; in the order of the transitions

    def label_lines(self) -> list[str]:
        """Return the lines of the edge's label, with "any" for ``"."``."""
        names = ", ".join(shown_name(name) for name in self.names)
        return textwrap.wrap(names, LABEL_CHARACTERS, break_long_words=False, break_on_hyphens=False)

    def tooltip(self, define: Mapping[str, str]) -> str:
        """Return one line per predicate: its name, and its text when ``define`` has one."""
        return "\n".join(_explain(name, define) for name in self.names)


def edges(states: States) -> list[Edge]:
    """Return one edge per pair of connected states, in the order of their first transitions."""
    names_of_pair: dict[tuple[int, int], list[str]] = {}
    for source, name, target in states.transitions:
        names_of_pair.setdefault((source, target), []).append(name)
    return [Edge(source, target, tuple(names)) for (source, target), names in names_of_pair.items()]


def shown_name(name: str) -> str:
    """Return the name of a predicate in pictures: ``"any"`` for ``"."``."""
    return "any" if name == ANY else name


def state_tooltip(states: States, state: int) -> str:
    start = ", start: no event matched yet" if state == 0 else ""
    return f"state {state}{start}{', accepting: a match ends here' if state in states.accepting else ''}"


def _explain(name: str, define: Mapping[str, str]) -> str:
    if name == ANY:
        return "any: every event"
    return f"{name}: {' '.join(define[name].splitlines())}" if name in define else name


# The automaton of a row pattern in the form that pictures show.


def shown_states(automaton: RowAutomaton) -> tuple[int, ...]:
    """Return the number from 1 that pictures give to each state; states that behave alike share one."""
    # PERMUTE and bounded repetitions are written out, so several states may behave alike.
    return _shown_states(automaton)


@lru_cache(maxsize=8)
def _shown_states(automaton: RowAutomaton) -> tuple[int, ...]:
    """Divide the states until those of a group have equal choices."""
    # Only states with a choice in a new group are looked at again. So a chain takes time in proportion to its
    # length.
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
        for earlier in {earlier for state in moved for earlier in before[state]}:
            changed.setdefault(group[earlier], set()).add(earlier)
    return tuple(_numbered(group))


def _numbered(values: list) -> list[int]:
    """Return a number for each value, from 1 in the order of the first of each."""
    number: dict = {}
    return [number.setdefault(value, len(number) + 1) for value in values]


def _choices(lists: Sequence[tuple[int, ...]], group: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    return tuple(_once(targets, group) for targets in lists)


def _once(states: tuple[int, ...], group: Sequence[int]) -> tuple[int, ...]:
    """Return the groups of states, each once; ``MATCH`` stays."""
    return tuple(dict.fromkeys(state if state == MATCH else group[state] for state in states))


def choices_of(automaton: RowAutomaton) -> list[tuple[str, tuple[int, ...]]]:
    """Return name and choices of the start and of each shown state, the preferred choices first."""
    # A choice is the number of a shown state, or ``MATCH``. Choices at the sides of a partition are included.
    group = shown_states(automaton)
    first = {number: state for state, number in reversed(list(enumerate(group)))}
    choices = []
    for state in [automaton.start, *(first[number] for number in sorted(first))]:
        name = "" if state == automaton.start else automaton.variable_of_state[state]
        every = tuple(choice for side in automaton.follow[state] for choice in side)
        choices.append((name, _once(every, group)))
    return choices


def row_states(automaton: RowAutomaton) -> States:
    """Return the automaton of a row pattern with numbered choices; state 0 is the start."""
    # The other states are those of `shown_states`. The label of a transition is the variable of its row. If
    # several choices leave a state, the number of the choice comes first: 1 is preferred.
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


# The automata of sequences.


def sequence_states(
    branches: Sequence[Branch],
    name_of: Callable[[Branch, int], str] | None = None,
    loop_of: Callable[[Component], str] = attrgetter("variable"),
) -> tuple[States, tuple[tuple[int, ...], ...]]:
    """Return the automaton of a sequence query, and the state after each component of each branch."""
    # Branches share the states of their common beginning. A component of more than one event has a loop. The
    # edge after an absence names it, as in ``"c, no x before"``. The edge to the last component also names
    # the absences after it. ``name_of`` and ``loop_of`` return other names for components and their loops.
    transitions: list[tuple[int, str, int]] = []
    state_after: dict[tuple, int] = {}
    accepting, of_branch = [], []
    for branch in branches:
        state, state_of_component = 0, []
        for c, component in enumerate(branch.components):
            name = (name_of or _name)(branch, c)
            key = state, name, component.low, component.high
            if key not in state_after:
                state_after[key] = len(state_after) + 1
                transitions.append((state, name, state_after[key]))
                if component.high != 1:
                    transitions.append((state_after[key], loop_of(component), state_after[key]))
            state = state_after[key]
            state_of_component.append(state)
        accepting.append(state)
        of_branch.append(tuple(state_of_component))
    n_states = len(state_after) + 1
    accepting = tuple(dict.fromkeys(accepting))
    return States(n_states, tuple(transitions), accepting, (0,) * n_states), tuple(of_branch)


def _name(branch: Branch, c: int) -> str:
    """Return the name of a component, with the events that are absent around it."""
    is_last = c == len(branch.components) - 1
    before = [absence.variable for absence in branch.absences if absence.before == c]
    after = [absence.variable for absence in branch.absences if is_last and absence.before > c]
    name = branch.components[c].variable
    name += f", no {' or '.join(before)} before" if before else ""
    return name + (f", no {' or '.join(after)} after" if after else "")
