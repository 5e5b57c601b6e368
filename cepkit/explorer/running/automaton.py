"""The automaton of a query for a widget, and the states that a match visits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cepkit.compile.regex.program import Program
from cepkit.compile.sequences.program import SequenceProgram
from cepkit.compile.shared.row_automaton import ANY, States, states
from cepkit.engines.match_recognize.bound import BoundRowQuery
from cepkit.errors import CepError
from cepkit.language.expressions.printing import times_text
from cepkit.language.match_recognize.printing import print_sql
from cepkit.language.sequences.branches import Branch, Component
from cepkit.language.sequences.printing import type_text
from cepkit.plots.automata import choices_of, edges, row_states, sequence_states, shown_name
from cepkit.plots.layered import LINE_HEIGHT, automaton_traits
from cepkit.values import dataclass, field

MOST_STATES = 120  # of a drawn automaton
MOST_BRANCHES = 12


@dataclass(frozen=True)
class Automaton:
    """The states of a query and the transitions between them."""

    # State 0 is the start. A sequence has a state per component; branches with the same beginning share
    # states.
    states: States
    labels: tuple[str, ...]  # labels of the states
    tooltips: dict[str, str] = field(default_factory=dict)  # explanations of the names of transitions
    # Only for a sequence: the state of every component of every drawn branch.
    state_of_component: tuple[tuple[int, ...], ...] = ()
    note: str = ""  # what is left out

    @property
    def masks(self) -> tuple[int, ...]:
        """Only for a regex: the positions of each state; 0 for the start."""
        return self.states.positions_of_state

    def names_of(self, state: int) -> list[str]:
        """Return the names of the events that lead to a state, as in the text of the query."""
        if not 0 <= state < len(self.labels):
            raise CepError(f"the automaton has no state {state}. States: 0 to {len(self.labels) - 1}")
        return ["." if name == "any" else name for name in self.labels[state].split(", ") if name]


NO_AUTOMATON = Automaton(States(1, (), (), (0,)), ("",))  # for too many states
NOTHING_DRAWN: dict[str, Any] = {"states": [], "transitions": [], "width": 0.0, "height": 0.0}


def automaton_of(program: Program | SequenceProgram | BoundRowQuery) -> Automaton:
    if isinstance(program, SequenceProgram):
        return _of_sequence(program)
    if isinstance(program, BoundRowQuery):
        return _of_rows(program)
    drawn = states(program.automaton)
    names = program.automaton.names
    labels = [""] + [
        ", ".join(dict.fromkeys(shown_name(names[p]) for p in range(len(names)) if mask >> p & 1))
        for mask in drawn.positions_of_state[1:]
    ]
    tooltips = {name: f"{name}: {tree}" for name, tree in program.query.define}
    return Automaton(drawn, tuple(labels), {**tooltips, ANY: "any row"})


def _of_rows(bound: BoundRowQuery) -> Automaton:
    drawn = row_states(bound.program.automaton)
    names = [name for name, _ in choices_of(bound.program.automaton)]
    texts = {name: print_sql(tree) for name, tree in bound.query.define}
    tooltips = {}
    for _, label, target in drawn.transitions:
        variable, rank = names[target], label.rpartition(": ")[0]
        choice = f"\nchoice {rank}; 1 is preferred" if rank else ""
        tooltips[label] = f"{variable}: {texts.get(variable, 'any row')}{choice}"
    return Automaton(drawn, tuple(names), tooltips)


def _of_sequence(program: SequenceProgram) -> Automaton:
    drawn = [bound.branch for bound in program.branches[:MOST_BRANCHES]]
    states, state_of_component = sequence_states(drawn, _name, _loop_label)
    labels, tooltips = [""] * states.n_states, {}
    for branch, numbers in zip(drawn, state_of_component, strict=True):
        for c, state in enumerate(numbers):
            labels[state] = branch.components[c].variable
            tooltips[_name(branch, c)] = "\n".join([_name(branch, c), *_conditions(branch, c)])
    left = len(program.branches) - len(drawn)
    note = f"{left} more alternatives are not drawn" if left else ""
    return Automaton(states, tuple(labels), tooltips, state_of_component, note)


def _name(branch: Branch, c: int) -> str:
    """Return the label of the transition into a component: absent events before it, and its event."""
    component = branch.components[c]
    absent = [
        f"!{type_text(absence.event_type)} {absence.variable}"
        for absence in branch.absences
        if absence.before == c or (c == len(branch.components) - 1 and absence.before > c)
    ]
    return ", ".join([*absent, f"{type_text(component.event_type)} {component.variable}"])


def _loop_label(component: Component) -> str:
    times = times_text(component.low, component.high)
    return f"{type_text(component.event_type)}{times} {component.variable}"


def _conditions(branch: Branch, c: int) -> list[str]:
    decided = (test for test in branch.conditions if test.absence is None and test.decided_at == c)
    return [str(test.expression) for test in decided]


# --- drawing


def draw_automaton(automaton: Automaton) -> dict[str, Any]:
    """Return the traits of an automaton's widget: ``states``, ``transitions``, ``width``, ``height``."""
    states = automaton.states
    if states.n_states > MOST_STATES:
        raise CepError(f"the automaton has {states.n_states} states; at most {MOST_STATES} are drawn")
    traits = automaton_traits(states)
    for state, label in zip(traits["states"], automaton.labels, strict=True):
        state["tooltip"] = f"after {label}" if state["id"] else "before the first event"
    if automaton.tooltips:
        names_of = {(edge.source, edge.target): edge.names for edge in edges(states)}
        for transition in traits["transitions"]:
            names = names_of[transition["source"], transition["target"]]
            transition["tooltip"] = "\n".join(automaton.tooltips.get(name, name) for name in names)
    return traits | {"height": traits["height"] - LINE_HEIGHT}


def state_of_events(
    automaton: Automaton, variables: Sequence[str], components: Sequence[int] | None = None, branch: int = 0
) -> list[int]:
    """Return the state that each event of a match leads to; empty if the branch is not drawn."""
    if components is not None:
        if branch >= len(automaton.state_of_component):
            return []
        states = automaton.state_of_component[branch]
        return [states[c] for c in components]
    if not automaton.states.transitions:
        return []
    follow = {(state, name): target for state, name, target in automaton.states.transitions}
    state, reached = 0, []
    for variable in variables:
        state = follow[state, variable]
        reached.append(state)
    return reached
