"""Plan the matching of a regex query: what is tested where, and what a partial match must remember."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from cepkit.compile.shared.row_automaton import Positions
from cepkit.compile.shared.terms import EVENT, START, Term, conjuncts_of
from cepkit.language.expressions.trees import MIRRORED
from cepkit.values import dataclass, replace

# Values that a partial match takes from its start or accumulates on the way; other start terms are
# computed from them.
SLOTS = ("first", "count", "count_of", "sum", "max", "min", "values")
_FIXED = ("first", "count")  # slots that never change after the start


@dataclass(frozen=True, slots=True)
class Conjunct:
    """A condition that must hold at every position of ``mask``."""

    term: Term
    mask: int


@dataclass(frozen=True, slots=True)
class StartBound:
    """A comparison ``event sign start``: one side depends only on the event, the other only on the start."""

    event: Term
    sign: str
    start: Term


@dataclass(frozen=True, slots=True)
class Target:
    """An accepting position directly after a queue: its conditions, with at most one of them as a bound."""

    position: int
    conjuncts: tuple[Term, ...]
    bound: StartBound | None


@dataclass(frozen=True, slots=True)
class Queue:
    """A position whose partial matches are ordered by start and wait together."""

    # The position loops to itself as long as conditions hold that depend only on the event, on a window, or
    # on a bound of the start. All other positions that follow it are accepting. So a waiting start costs
    # nothing per event: old starts are dropped from the front, and the others are checked only if an event
    # can beat the bound of a target, or can break the condition of the loop for some of them.

    position: int
    windows: tuple[Term, ...]
    loops: tuple[StartBound, ...]
    targets: tuple[Target, ...]
    slots: tuple[Term, ...]

    @property
    def bounds(self) -> tuple[StartBound | None, ...]:
        """The bounds of the targets, None for a target without one, followed by the bounds of the loop."""
        return (*(target.bound for target in self.targets), *self.loops)

    @property
    def expires_first(self) -> bool:
        """Return whether every target also tests the windows; then expired starts may be dropped first."""
        return all(set(self.windows) <= set(target.conjuncts) for target in self.targets)


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that determines the source of the kernels."""

    # ``dominated`` is the mask of positions where only the earliest start matters, because nothing after them
    # depends on the start. ``slots`` are the values that each partial match carries.

    automaton: Positions
    event_conjuncts: tuple[Conjunct, ...]
    start_conjuncts: tuple[Conjunct, ...]
    dominated: int
    slots: tuple[Term, ...]
    queues: tuple[Queue, ...]
    most: int | None = None  # partial matches of a partition
    overflow: str = "error"  # what a further one does; see `cepkit.stream`

    def terms(self) -> Iterator[Term]:
        for conjunct in (*self.event_conjuncts, *self.start_conjuncts):
            yield conjunct.term


def plan_matching(
    automaton: Positions, truths: Iterable[tuple[str, Term]], window: Term | None, clock: Term | None
) -> Plan:
    """Return the plan of a query from its automaton, the condition of each name, its window and its clock."""
    # Source: Hirzel, "Partition and Compose", DEBS 2012, section 3.2 (incremental aggregation).
    # Differs: one record per start with a set of positions instead of one per (start, state); starts that can
    # no longer be distinguished are dropped; queues.
    masks: dict[Term, int] = {}
    for name, truth in truths:
        mask = automaton.mask_of_name(name)
        for term in conjuncts_of(truth):
            if not mask & automaton.first:
                term = _with_past(term)
            masks[term] = masks.get(term, 0) | mask
    if window is not None:
        masks[window] = (1 << len(automaton.names)) - 1
    conjuncts = [Conjunct(term, mask) for term, mask in masks.items() if term.op != "always"]
    event = tuple(c for c in conjuncts if c.term.level < START)
    start = tuple(c for c in conjuncts if c.term.level == START)
    queues = tuple(_queues(automaton, start, clock))
    queued = sum(1 << queue.position for queue in queues)
    # A target that only a queue leads to is tested only there.
    only_queued = [
        1 << p
        for p in range(len(automaton.names))
        if automaton.accepting >> p & 1
        and not automaton.first >> p & 1
        and all(queued >> q & 1 for q, follow in enumerate(automaton.follow) if follow >> p & 1)
    ]
    in_list = [c for c in start if c.mask & ~sum(only_queued)]
    ready = [bound.start for queue in queues for bound in queue.bounds if bound]
    slots = [*_slots(c.term for c in in_list), *(s for queue in queues for s in queue.slots), *_slots(ready)]
    slots = tuple(dict.fromkeys(slots))
    dependent = 0
    for conjunct in start:
        dependent |= conjunct.mask
    dominated = sum(
        1 << p
        for p in range(len(automaton.names))
        if not automaton.reachable_from(1 << p) & dependent
        and not (queued | automaton.accepting) >> p & 1  # an accepting position keeps no start
    )
    if queues:
        dominated = 0  # queue and list share the order of starts, so little can be gained
    return Plan(automaton, event, start, dominated, slots, queues)


def of_every_start(plan: Plan, most: int | None = None, overflow: str = "error") -> Plan:
    """Return the plan with a single list of all partial matches, at most ``most`` for a partition."""
    slots = tuple(_slots(conjunct.term for conjunct in plan.start_conjuncts))
    return replace(plan, dominated=0, queues=(), slots=slots, most=most, overflow=overflow)


def tables_of(plan: Plan) -> tuple[np.ndarray, np.ndarray]:
    """Return the successors of each byte of a mask, int64, (n_bytes, 256), and masks that kernels read."""
    # The masks are those of all positions, the first, the accepting and the dominated positions.
    follow = plan.automaton.follow
    table = np.zeros((-(-len(follow) // 8), 256), np.int64)
    byte = np.arange(256)  # every byte of a mask, with a bit for each of eight positions
    for p, successors in enumerate(follow):
        table[p // 8] |= np.where(byte >> (p % 8) & 1, successors, 0)
    every = (1 << len(follow)) - 1
    masks = every, plan.automaton.first, plan.automaton.accepting, plan.dominated
    return table, np.array(masks, np.int64)


def _with_past(term: Term) -> Term:
    """Return the term without null checks for the previous row, which exists after the first row."""
    if term.op == "previous":  # its argument belongs to another row, whose predecessor is unknown
        return replace(term, nullable=term.args[0].nullable) if term.data == 1 else term
    if term.op in SLOTS:
        return term
    args = tuple(map(_with_past, term.args))
    if args == term.args:
        return term
    if term.op in ("compare", "and", "or", "not", "+", "-", "*", "negative", "elapsed"):
        return replace(term, args=args, nullable=any(arg.nullable for arg in args))
    return replace(term, args=args)


def _slots(terms: Iterable[Term]) -> list[Term]:
    """Return the values that partial matches must carry so that these terms can be computed."""
    return list(dict.fromkeys(term for root in terms for term in root.walk() if term.op in SLOTS))


def _queues(automaton: Positions, start: tuple[Conjunct, ...], clock: Term | None) -> Iterator[Queue]:
    """Yield the positions of an automaton at which partial matches can wait in a queue."""
    for q, follow in enumerate(automaton.follow):
        others = [t for t in range(len(automaton.follow)) if follow >> t & 1 and t != q]
        if not follow >> q & 1 or not others:
            continue
        if any(not automaton.accepting >> t & 1 for t in others) or not _enters_at_one_age(automaton, q):
            continue
        loop_terms = [c.term for c in start if c.mask >> q & 1]
        windows = [term for term in loop_terms if _is_window(term, clock)]
        loops = [_bound(term) for term in loop_terms if term not in windows]
        if None in loops:
            continue
        per_target = {t: tuple(c.term for c in start if c.mask >> t & 1) for t in others}
        if not any(per_target.values()) and not loops:
            continue  # independent of the start: the earliest one is enough
        every = [*loop_terms, *(term for terms in per_target.values() for term in terms)]
        if not all(slot.op in _FIXED for slot in _slots(every)):
            continue
        targets = tuple(Target(t, *_with_bound(terms)) for t, terms in per_target.items())
        # The start's side of the bounds is stored; only the other conditions need the slots.
        slots = _slots([*windows, *(term for target in targets for term in target.conjuncts)])
        yield Queue(q, tuple(windows), tuple(bound for bound in loops if bound), targets, tuple(slots))


def _enters_at_one_age(automaton: Positions, q: int) -> bool:
    """Return whether all partial matches reach position ``q`` the same number of rows after their start."""
    before = [p for p, follow in enumerate(automaton.follow) if follow >> q & 1 and p != q]
    if automaton.first >> q & 1:
        return not before
    known = _ages(automaton)
    ages = {known.get(p) for p in before}
    return len(ages) == 1 and None not in ages


def _ages(automaton: Positions) -> dict[int, int]:
    """Return how many rows after its start a partial match reaches each position; without those that vary."""
    level, seen, vary, age, ages = automaton.first, 0, 0, 0, {}
    while level:
        vary |= level & seen
        level &= ~seen
        seen |= level
        ages |= {p: age for p in range(len(automaton.follow)) if level >> p & 1}
        age += 1
        level = automaton.follow_of_mask(level)
    vary |= automaton.reachable_from(vary)
    return {p: age for p, age in ages.items() if not vary >> p & 1}


def _is_window(term: Term, clock: Term | None) -> bool:
    """Return whether a condition limits the time since the start, so that older starts fail it, too."""
    if clock is None or term.op != "compare" or term.data not in ("<", "<="):
        return False
    left, right = term.args
    return (
        left.op in ("-", "elapsed")
        and left.args[0] == clock
        and left.args[1].op == "first"
        and left.args[1].args[0] == clock
        and right.op == "constant"
    )


def _with_bound(terms: tuple[Term, ...]) -> tuple[tuple[Term, ...], StartBound | None]:
    """Return the conditions without the first one that can be a bound, and this bound; None without one."""
    for i, term in enumerate(terms):
        if bound := _bound(term):
            return terms[:i] + terms[i + 1 :], bound
    return terms, None


def _bound(term: Term) -> StartBound | None:
    """Return the term as a bound if its sides separate and the start's side cannot be null, else None."""
    if term.op != "compare" or term.data not in ("<", "<=", ">", ">="):
        return None
    left, right = term.args
    if left.level <= EVENT and right.level == START and _of_start_alone(right) and _never_null(right):
        return StartBound(left, term.data, right)
    if right.level <= EVENT and left.level == START and _of_start_alone(left) and _never_null(left):
        return StartBound(right, MIRRORED[term.data], left)
    return None


def _of_start_alone(term: Term) -> bool:
    """Return whether a term reads nothing but the first row of a match."""
    if term.op == "first":
        return True
    if term.op in ("column", "previous", "call", "count"):
        return False
    return all(map(_of_start_alone, term.args))


def _never_null(term: Term) -> bool:
    # Null is NaN in floats, and every comparison with it is false. In integers it is a number and would
    # spoil the bound.
    return term.kind == "float" or not term.nullable
