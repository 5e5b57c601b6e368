"""Queries as plain patterns and events as plain arrays, with conditions as comparisons of two events."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

import numpy as np

from cepkit.compile.sequence_program import EACH, LAST, PREVIOUS, BoundBranch, BoundCondition, SequenceProgram
from cepkit.compile.sequence_source import PathWriter, test_of
from cepkit.compile.shared.bound_query import BoundQuery
from cepkit.compile.shared.term_writing import KernelSource, decorator, module_header, stored_dtype
from cepkit.compile.shared.terms import Term
from cepkit.engines.shared.places import Places, accepted, dtypes_of, kernel
from cepkit.engines.shared.sequence_set import MatchBlock
from cepkit.events import BOOLEAN, FLOAT, NULL_INTEGER, TEXT, Events
from cepkit.language.expressions.trees import MIRRORED, NEGATED
from cepkit.language.sequences.branches import Branch
from cepkit.language.sequences.patterns import SequenceQuery
from cepkit.linked.patterns import (
    ABSENT,
    MOST_BITS,
    Copying,
    EventComparison,
    PlainAbsence,
    PlainEvents,
    PlainMatches,
    PlainPattern,
)
from cepkit.values import dataclass

# The conditions of a sequence query as comparisons of two events, for LinkedCEP and the run engines.


@dataclass(frozen=True, slots=True)
class TermComparison:
    """The relation ``left_term sign right_term`` of two events; components as in `EventComparison`."""

    left: int
    sign: str
    right: int
    left_term: Term
    right_term: Term


def comparisons_of(bound: BoundBranch, condition: BoundCondition) -> tuple[TermComparison, ...] | None:
    """Return a condition as comparisons that must all hold, or None when that is impossible."""
    # It is possible for a comparison, and for comparisons joined by "and". Each side must look at one event.
    # In a Kleene closure, that is its latest event, or each event when it is added.
    comparisons = []
    for term, holds in _conjuncts(condition.term, True):
        comparison = _comparison(bound, condition, term, holds) if term.op == "compare" else None
        if comparison is None:
            return None
        comparisons.append(comparison)
    return tuple(comparisons)


def _conjuncts(term: Term, wanted: bool) -> Iterator[tuple[Term, bool]]:
    """Yield the terms that must be true (or false) for ``term`` to be ``wanted``."""
    if term.op == "not":
        yield from _conjuncts(term.args[0], not wanted)
    elif term.op == ("and" if wanted else "or"):
        for arg in term.args:
            yield from _conjuncts(arg, wanted)
    else:
        yield term, wanted


def _comparison(
    bound: BoundBranch, condition: BoundCondition, term: Term, holds: bool
) -> TermComparison | None:
    """Return a comparison as one of two events, or None if a side looks at several events."""
    sides = [_side(bound, condition, arg) for arg in term.args]
    if None in sides:
        return None
    (left, which_left), (right, which_right) = sides
    sign = term.data if holds else NEGATED[term.data]
    left_term, right_term = term.args
    if left == right:
        # An event of a Kleene closure and the one before it.
        if not condition.condition.each or {which_left, which_right} != {EACH, PREVIOUS}:
            return None
        if which_left == PREVIOUS:
            left_term, right_term, sign = right_term, left_term, MIRRORED[sign]
    elif not all(_names_one_event(bound, condition, c, which) for c, which in sides):
        return None
    return TermComparison(left, sign, right, left_term, right_term)


def _side(bound: BoundBranch, condition: BoundCondition, side: Term) -> tuple[int, str] | None:
    """Return the component that a side looks at and which of its events, or None when it looks at several."""
    leaves = [leaf for leaf in side.walk() if leaf.op in ("element", "group")]
    if not leaves or any(leaf.op == "group" for leaf in leaves):
        return None
    component = condition.component_of_variable
    absence = condition.condition.absence
    absent = None if absence is None else bound.branch.absences[absence].variable
    sides = {(ABSENT if leaf.data[0] == absent else component[leaf.data[0]], leaf.data[1]) for leaf in leaves}
    return sides.pop() if len(sides) == 1 else None


def _names_one_event(bound: BoundBranch, condition: BoundCondition, c: int, which: str | int) -> bool:
    """Return whether a comparison with another component means this event of component ``c``."""
    if c == ABSENT or not bound.branch.components[c].is_group:
        return which == EACH
    if condition.condition.absence is not None:
        return False
    if c == condition.condition.decided_at:
        return which == EACH and condition.condition.each
    return which == LAST


# Write the source of a kernel that computes values of single events for all events.


def write_values(program: SequenceProgram, terms: Sequence[Term], dtypes: Mapping[str, str]) -> KernelSource:
    """Write the kernel that computes ``terms`` from the columns of each event."""
    python = not program.compiled
    writer = PathWriter(program.terms(), dtypes, tuple(program.functions), is_group=(False,), python=python)
    outs = [f"out{i}" for i in range(len(terms))]
    types = ["T.int64", "T.int64", *writer.argument_types()]
    types += [f'T.Array(T.{stored_dtype(term)}, 1, "C")' for term in terms]
    lines = [*module_header().splitlines(), *writer.helpers]
    if not python:
        lines += decorator(types, user_functions=bool(program.functions))
    lines += [f"def values({', '.join(['start', 'stop', *writer.arguments(), *outs])}):"]
    lines += ["    for y in range(start, stop):"]
    for out, term in zip(outs, terms, strict=True):
        leaves = dict.fromkeys(leaf for leaf in term.walk() if leaf.op == "element")
        writer.names = {leaf: f"x{n}" for n, leaf in enumerate(leaves)}
        lines += [f"        {name} = {writer.load(leaf.column, 'y')}" for leaf, name in writer.names.items()]
        lines += [f"        {out}[y] = {writer.stored(term)}"]
    return KernelSource("\n".join(lines) + "\n", ())


# Queries as plain patterns and events as plain arrays, as LinkedCEP and the run engines need them.

# --- what the engines run -----------------------------------------------------------------------------------


def linked_query_unsupported(program: BoundQuery) -> str | None:
    """Return why LinkedCEP and the run engines cannot run a program, None when they can."""
    if not isinstance(program, SequenceProgram):
        return "it runs event sequences only"
    if len(program.branches) != 1:
        return f"it runs a single sequence; any_of, all_of and optional parts make {len(program.branches)}"
    bound = program.branches[0]
    if reason := _branch_reason(bound.branch) or _query_reason(program.query):
        return reason
    components, absences = bound.branch.components, bound.branch.absences
    if len(components) + len(absences) > MOST_BITS:
        return f"it runs at most {MOST_BITS} events, absent ones among them"
    for condition in bound.conditions:
        a = condition.condition.absence
        if a is not None and any(
            components[c].is_group and c > absences[a].after for c in condition.component_of_variable.values()
        ):
            return (
                f"condition {condition.condition.conjunct + 1} ties an absent event to a later Kleene closure"
            )
        if comparisons_of(bound, condition) is None:
            return f"condition {condition.condition.conjunct + 1} is no comparison of two events"
    window, clock = program.window, program.clock
    is_timed = window.within is not None or window.strict_time
    if is_timed and clock in program.schema and program.schema[clock].kind == FLOAT:
        return f"it counts whole ticks, and the clock {clock!r} is of floating point"
    return None


def describe_engine(
    program: SequenceProgram, *, chains: bool, copying: Copying | None = None
) -> list[tuple[str, str]]:
    """Return the labels and texts of the engine for `explain`."""
    lines = []
    if chains:
        names, pattern = variables_of(program), _pattern(program, None)
        together = [name for name, is_coverable in zip(names, pattern.coverable, strict=True) if is_coverable]
        alone = [name for name in names if name not in together]
        text = f"for {', '.join(together)}" if together else "none: every component is tied to other events"
        lines.append(("chains", text + (f"; single partial matches for {', '.join(alone)}" if alone else "")))
    by = "combining chains, without making matches" if chains else "making every match, one at a time"
    lines.append(("counting", f"by {by}"))
    if copying is not None:
        lines.append(("copies", f"{copying.copies}: a new partial match gets {copying}"))
    return lines


def variables_of(program: SequenceProgram) -> tuple[str, ...]:
    return tuple(component.variable for component in program.branches[0].branch.components)


# --- a program as a plain pattern ---------------------------------------------------------------------------


def _pattern(program: SequenceProgram, window_ticks: int | None) -> PlainPattern:
    bound = program.branches[0]
    branch = bound.branch
    conditions: list[EventComparison] = []
    of_absence: list[list[EventComparison]] = [[] for _ in branch.absences]
    for condition in bound.conditions:
        absence = condition.condition.absence
        target = conditions if absence is None else of_absence[absence]
        target += [
            EventComparison(c.left, c.sign, c.right, _name(c.left_term), _name(c.right_term))
            for c in comparisons_of(bound, condition) or ()
        ]
    return PlainPattern(
        len(branch.components),
        window_ticks,
        tuple(conditions),
        frozenset(c for c, component in enumerate(branch.components) if component.high is None),
        tuple(
            PlainAbsence(absence.after, tuple(beside))
            for absence, beside in zip(branch.absences, of_absence, strict=True)
        ),
        program.window.strict_time,
    )


def _name(term: Term) -> str:
    """Return the name of the column with the values of a side, the same name for every event."""
    if term.op == "element":
        return f"column {term.column}"
    return f"{term.kind} {term.op} {term.data}({', '.join(map(_name, term.args))})"


class PlainQuery:
    """A program as a plain pattern, and its events as plain events in stream order."""

    def __init__(self, program: SequenceProgram, events: Events):
        self.program, self.events = program, events
        self.bound = program.branches[0]
        self.places = Places(program, events)
        self.pattern = _pattern(program, self._window_ticks())

    @cached_property
    def time(self) -> np.ndarray:
        """Ticks of every position; zeros when neither a window nor strict times need them."""
        window = self.program.window
        if window.within is None and not window.strict_time:
            return np.zeros(self.events.n_events, np.int64)
        return self.places.time[self.places.place_of_position]

    def _window_ticks(self) -> int | None:
        window, time = self.program.window, self.time
        if window.within is None or not len(time):
            return None
        if window.is_empty:
            return 0
        # Differences of ticks are whole numbers.
        ticks = math.floor(window.within) if window.closed else math.ceil(window.within) - 1
        # A window that all events fit into is dropped. So sums of times and window cannot overflow.
        return None if ticks >= int(time[-1]) - int(time[0]) else ticks

    @cached_property
    def plain(self) -> PlainEvents:
        program, bound, place = self.program, self.bound, self.places.place_of_position
        accept = accepted(self.places)
        if program.window.is_empty:
            accept[:] = 0

        def rows(all_terms) -> np.ndarray:
            tests = [test_of(program, terms) for terms in all_terms]
            return accept[np.array(tests, np.int64)][:, place]

        return PlainEvents(
            self.time, rows(bound.accepts), self.events.partition_of_event,
            rows(bound.absent_accepts) if bound.absent_accepts else None,
            {name: values[place] for name, values in self._columns().items()},
        )  # fmt: skip

    def _columns(self) -> dict[str, np.ndarray]:
        """Return the values of all sides of comparisons, by place."""
        compared = [comparisons_of(self.bound, condition) or () for condition in self.bound.conditions]
        sides = [side for some in compared for c in some for side in (c.left_term, c.right_term)]
        terms = {_name(side): side for side in sides}
        inputs, n = self.places.inputs, self.places.n
        arrays = {name: inputs.columns[term.column] for name, term in terms.items() if term.op == "element"}
        computed = {name: term for name, term in terms.items() if name not in arrays}
        if computed:
            source = write_values(self.program, list(computed.values()), dtypes_of(inputs))
            outs = [np.empty(n, stored_dtype(term)) for term in computed.values()]
            kernel(self.program, source.text, "values")(0, n, *inputs.arguments(), *outs)
            arrays |= dict(zip(computed, outs, strict=True))
        return {name: _with_null(values, terms[name]) for name, values in arrays.items()}

    def block(self, matches: PlainMatches, begin: int = 0) -> MatchBlock:
        """Return matches in canonical order, their positions shifted by ``begin``."""
        n = len(matches.first_item_of_match) - 1
        component = matches.component_of_item
        if component is None:
            component = np.tile(np.arange(matches.n_components), n)
        block = MatchBlock(
            matches.event_of_item + begin, component.astype(np.int16), matches.first_item_of_match,
            np.zeros(n, np.int16),
        )  # fmt: skip
        return block if matches.component_of_item is None else block.sorted()


def _with_null(values: np.ndarray, term: Term) -> np.ndarray:
    if values.dtype.kind == "f":
        return values.astype(np.float64, copy=False)
    if term.kind in (TEXT, BOOLEAN):  # a missing code is negative
        return np.where(values < 0, NULL_INTEGER, values.astype(np.int64))
    return values.astype(np.int64, copy=False)


def _branch_reason(branch: Branch) -> str | None:
    if branch.options:
        return "it runs no alternatives (any_of)"
    for component in branch.components:
        name = component.variable
        for strategy in (component.step, component.inner):
            if strategy != "any":
                return f"{name!r} has strategy {strategy!r}; it runs 'any' only"
        if component.rounds or (component.low, component.high) not in ((1, 1), (1, None)):
            return f"{name!r} is repeated a certain number of times; it runs single events and '+' only"
        if component.preference != "all" or component.until is not None:
            return f"the loop of {name!r} has a preference or an 'until'; it runs neither"
    for absence in branch.absences:
        if absence.spanning or absence.before != absence.after + 1:
            return (
                f"{absence.variable!r} must be absent over several events; it looks between neighbours only"
            )
        if not 0 <= absence.after < len(branch.components) - 1:
            return (
                f"{absence.variable!r} must be absent at an edge of the window; it looks between events only"
            )
    return None


def _query_reason(query: SequenceQuery) -> str | None:
    if query.selects:
        return "it reports every match and has no after_match policies, and no GREEDY at the end"
    for name in ("within_events", "gap_within"):
        if getattr(query, name) is not None:
            return f"it has no {name}"
    return None
