"""Bound predicates + automaton → plan: what is tested where, and what a partial match must remember."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from cepkit.compile.regex.automaton import Positions
from cepkit.compile.shared.terms import EVENT, START, Term

# What a partial match remembers of its start, or adds up on its way; other start terms are computed from
# these.
SLOTS = ("first", "count", "count_of", "sum", "max", "min")
_FIXED = ("first", "count")  # slots that do not change after the start


@dataclass(frozen=True, slots=True)
class Conjunct:
    """One condition that must hold at every position of ``mask``."""

    term: Term
    mask: int


@dataclass(frozen=True, slots=True)
class Bound:
    """``event sign start``: a comparison whose sides depend on the event alone and on the start alone."""

    event: Term
    sign: str
    start: Term


@dataclass(frozen=True, slots=True)
class Target:
    """An accepting position behind a queue: the conditions tested per entry, and the bound, one more."""

    position: int
    conjuncts: tuple[Term, ...]
    bound: Bound | None


@dataclass(frozen=True, slots=True)
class Queue:
    """A position whose partial matches stand in the order of their starts and leave from the front.

    The position loops to itself while conditions hold that only the event or a window decides, and all else
    it leads to is accepting. Then nothing needs to be done per waiting start: old ones are dropped from the
    front, and the rest is looked at only when the bound of a target can be beaten.
    """

    position: int
    windows: tuple[Term, ...]
    targets: tuple[Target, ...]
    slots: tuple[Term, ...]

    @property
    def expires_first(self) -> bool:
        """Whether every target tests the windows too: then expired starts may go before the targets look."""
        return all(set(self.windows) <= set(target.conjuncts) for target in self.targets)


@dataclass(frozen=True, slots=True)
class Plan:
    """All that the kernels' source is written from.

    ``dominated`` is the mask of positions where only the earliest start matters, since nothing that follows
    depends on the start. ``slots`` are what each partial match carries.
    """

    automaton: Positions
    event_conjuncts: tuple[Conjunct, ...]
    start_conjuncts: tuple[Conjunct, ...]
    dominated: int
    slots: tuple[Term, ...]
    queues: tuple[Queue, ...]

    def terms(self) -> Iterator[Term]:
        """Yield every condition."""
        for conjunct in (*self.event_conjuncts, *self.start_conjuncts):
            yield conjunct.term


def plan_matching(
    automaton: Positions, truths: Iterable[tuple[str, Term]], window: Term | None, clock: Term | None
) -> Plan:
    """Lay out the matching of a bound regex query.

    Parameters
    ----------
    automaton : Positions
        The pattern.
    truths : iterable of (str, Term)
        The bound predicate of every name in ``automaton.names`` but ``.``.
    window : Term, optional
        A condition on every row but the first: the whole match lies within the query's window.
    clock : Term, optional
        The first order column, which never falls within a partition; conditions on its distance from the
        start are windows.

    Returns
    -------
    Plan
        Conjuncts of equal terms are merged over positions.

    Notes
    -----
    Source: Hirzel, "Partition and Compose", DEBS 2012, section 3.2 (incremental aggregation).
    Differs: one record per start with a set of positions instead of one per (start, state); starts that
    cannot be told apart any more are dropped; queues.
    """
    masks: dict[Term, int] = {}
    for name, truth in truths:
        mask = automaton.mask_of_name(name)
        for term in _conjuncts(truth):
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
    # A target whose only way in is a queue is tested there alone.
    only_queued = [
        1 << p
        for p in range(len(automaton.names))
        if automaton.accepting >> p & 1
        and not automaton.first >> p & 1
        and all(queued >> q & 1 for q, follow in enumerate(automaton.follow) if follow >> p & 1)
    ]
    in_list = [c for c in start if c.mask & ~sum(only_queued)]
    ready = [target.bound.start for queue in queues for target in queue.targets if target.bound]
    slots = [*_slots(c.term for c in in_list), *(s for queue in queues for s in queue.slots), *_slots(ready)]
    slots = tuple(dict.fromkeys(slots))
    dependent = 0
    for conjunct in start:
        dependent |= conjunct.mask
    dominated = sum(
        1 << p
        for p in range(len(automaton.names))
        if not automaton.reachable_from(1 << p) & dependent
        and not (queued | automaton.accepting) >> p & 1  # at an accepting position no start stays
    )
    if queues:
        dominated = 0  # the order of starts is spread over a queue and a list; there is little left to gain
    return Plan(automaton, event, start, dominated, slots, queues)


def _conjuncts(truth: Term) -> Iterator[Term]:
    if truth.op == "and":
        for arg in truth.args:
            yield from _conjuncts(arg)
    else:
        yield truth


def _with_past(term: Term) -> Term:
    """Return the term where it is known that the previous row exists: after the first row of a match."""
    if term.op == "previous":  # what is inside is taken at another row, of which nothing is known
        return replace(term, nullable=term.args[0].nullable) if term.data == 1 else term
    if term.op in SLOTS:
        return term
    args = tuple(map(_with_past, term.args))
    if args == term.args:
        return term
    if term.op in ("compare", "and", "or", "not", "+", "-", "*", "negative"):
        return replace(term, args=args, nullable=any(arg.nullable for arg in args))
    return replace(term, args=args)


def _slots(terms: Iterable[Term]) -> list[Term]:
    return list(dict.fromkeys(term for root in terms for term in root.walk() if term.op in SLOTS))


def _queues(automaton: Positions, start: tuple[Conjunct, ...], clock: Term | None) -> Iterator[Queue]:
    for q, follow in enumerate(automaton.follow):
        others = [t for t in range(len(automaton.follow)) if follow >> t & 1 and t != q]
        if not follow >> q & 1 or not others or not _enters_at_one_age(automaton, q):
            continue
        if any(not automaton.accepting >> t & 1 for t in others):
            continue
        own = [c.term for c in start if c.mask >> q & 1]
        if not all(_is_window(term, clock) for term in own):
            continue
        per_target = {t: tuple(c.term for c in start if c.mask >> t & 1) for t in others}
        if not any(per_target.values()):
            continue  # nothing depends on the start: the earliest one is enough
        every = [*own, *(term for terms in per_target.values() for term in terms)]
        if not all(slot.op in _FIXED for slot in _slots(every)):
            continue
        targets = tuple(Target(t, *_with_bound(terms)) for t, terms in per_target.items())
        # The start's side of a bound is kept ready; only what else is tested needs the slots.
        slots = _slots([*own, *(term for target in targets for term in target.conjuncts)])
        yield Queue(q, tuple(own), targets, tuple(slots))


def _enters_at_one_age(automaton: Positions, q: int) -> bool:
    """Whether partial matches enter ``q`` a fixed number of rows after their start: in order of starts."""
    before = [p for p, follow in enumerate(automaton.follow) if follow >> q & 1 and p != q]
    if automaton.first >> q & 1:
        return not before
    ages = {_age(automaton, p, frozenset()) for p in before}
    return len(ages) == 1 and None not in ages


def _age(automaton: Positions, p: int, above: frozenset[int]) -> int | None:
    """Return the fixed number of rows between a start and position ``p``, or None when it varies."""
    before = [q for q, follow in enumerate(automaton.follow) if follow >> p & 1]
    if p in above or p in before:
        return None
    ages = {0} if automaton.first >> p & 1 else set()
    for q in before:
        age = _age(automaton, q, above | {p})
        ages.add(None if age is None else age + 1)
    return ages.pop() if len(ages) == 1 else None


def _is_window(term: Term, clock: Term | None) -> bool:
    """Whether the condition, once false for a start, is false for it and all earlier starts from then on."""
    if clock is None or term.op != "compare" or term.data not in ("<", "<="):
        return False
    left, right = term.args
    return (
        left.op == "-"
        and left.args[0] == clock
        and left.args[1].op == "first"
        and left.args[1].args[0] == clock
        and right.op == "constant"
    )


def _with_bound(terms: tuple[Term, ...]) -> tuple[tuple[Term, ...], Bound | None]:
    """Take the first condition that can be a bound out of ``terms``."""
    for i, term in enumerate(terms):
        if bound := _bound(term):
            return terms[:i] + terms[i + 1 :], bound
    return terms, None


def _bound(term: Term) -> Bound | None:
    """Return the term as a bound when its sides separate and its start side cannot be null."""
    if term.op != "compare" or term.data not in ("<", "<=", ">", ">="):
        return None
    left, right = term.args
    if left.level <= EVENT and right.level == START and _of_start_alone(right) and _never_null(right):
        return Bound(left, term.data, right)
    if right.level <= EVENT and left.level == START and _of_start_alone(left) and _never_null(left):
        return Bound(right, {"<": ">", "<=": ">=", ">": "<", ">=": "<="}[term.data], left)
    return None


def _of_start_alone(term: Term) -> bool:
    if term.op == "first":
        return True
    if term.op in ("column", "previous", "call", "count"):
        return False
    return all(map(_of_start_alone, term.args))


def _never_null(term: Term) -> bool:
    # In floats null is NaN, which no comparison finds; in integers it is a number and would spoil the bound.
    return term.kind == "float" or not term.nullable
