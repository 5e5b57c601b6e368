"""Removes the conditions that the counting engine cannot run from a sequence query, and lists them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from cepkit.compile.counting.state_graph import state_graph_of
from cepkit.compile.sequences.program import BoundBranch, SequenceProgram


@dataclass(frozen=True, slots=True)
class Dropped:
    """The numbers of the conditions and absences that a branch leaves out."""

    conditions: tuple[int, ...] = ()
    absences: tuple[int, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.conditions or self.absences)


@dataclass(frozen=True, slots=True)
class Relaxed:
    """A program for the counting engine, and what its branches leave out. It has all matches of the query."""

    program: SequenceProgram
    dropped: tuple[Dropped, ...]


def relax(program: SequenceProgram) -> Relaxed | str:
    """Return the program without the conditions that the counting engine cannot run, or why it has none.

    It leaves out each condition and absence that prevents a state graph even alone: those that link events
    that are not neighbours, read whole loops, or forbid events at the edges of the window. A reason completes
    "it …".

    """
    policy = program.query.after_match[0]
    if policy != "none":
        return f"reports matches by after_match={policy!r}, which looks at every one"
    relaxed = [_relax_branch(program, bound) for bound in program.branches]
    for branch in relaxed:
        if isinstance(branch, str):
            return branch
    bare = replace(program, branches=tuple(bound for bound, _ in relaxed))
    called = {term.data for root in bare.terms() for term in root.walk() if term.op == "call"}
    functions = {name: function for name, function in program.functions.items() if name in called}
    bare = replace(bare, functions=functions)
    if not bare.compiled:
        return f"cannot be counted with {', '.join(bare.reasons_for_python)}, a plain Python function"
    return Relaxed(bare, tuple(dropped for _, dropped in relaxed))


def _relax_branch(program: SequenceProgram, bound: BoundBranch) -> tuple[BoundBranch, Dropped] | str:
    bare = _with(bound, (), ())
    reason = state_graph_of(program, bare)
    if isinstance(reason, str):
        return reason
    conditions = [i for i, condition in enumerate(bound.conditions) if condition.condition.absence is None]
    absences = range(len(bound.branch.absences))
    kept = [i for i in conditions if not isinstance(state_graph_of(program, _with(bound, (i,), ())), str)]
    kept_absences = [
        a for a in absences if not isinstance(state_graph_of(program, _with(bound, (), (a,))), str)
    ]
    dropped = Dropped(
        tuple(i for i in conditions if i not in kept), tuple(a for a in absences if a not in kept_absences)
    )
    relaxed = _with(bound, kept, kept_absences)
    reason = state_graph_of(program, relaxed)
    return reason if isinstance(reason, str) else (relaxed, dropped)


def _with(bound: BoundBranch, conditions, absences) -> BoundBranch:
    """Return the branch with only these conditions and absences, and the absences' own conditions."""
    number_of_absence = {a: number for number, a in enumerate(absences)}
    kept_conditions = [bound.conditions[i] for i in conditions]
    for condition in bound.conditions:
        if condition.condition.absence in number_of_absence:
            absence = number_of_absence[condition.condition.absence]
            kept_conditions.append(
                replace(condition, condition=replace(condition.condition, absence=absence))
            )
    return replace(
        bound,
        branch=replace(bound.branch, absences=tuple(bound.branch.absences[a] for a in absences)),
        absent_accepts=tuple(bound.absent_accepts[a] for a in absences),
        conditions=tuple(kept_conditions),
    )
