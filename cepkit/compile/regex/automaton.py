"""Build the automaton of a regex pattern: on positions for kernels, on states for readers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import singledispatch

from cepkit.errors import CepError, UnsupportedQueryError, short_text
from cepkit.language.regex.patterns import Alternative, AnyEvent, Empty, Pattern, Repeat, Sequence, Variable
from cepkit.limits import DRAWN_STATES, POSITIONS

ANY = "."


@dataclass(frozen=True, slots=True)
class Positions:
    """The position automaton: a position is one occurrence of a predicate in the pattern.

    The state of a partial match is a set of positions: those that its newest event can match. A mask has bit
    p for position p. A match is reported at its earliest end, so an accepting position has no successors, and
    positions reachable only through one are left out.

    """

    names: tuple[str, ...]  # predicate of each position, in reading order; "." for any event
    first: int  # mask: positions of the first event of a match
    accepting: int  # mask: positions of the last event of a match
    follow: tuple[int, ...]  # mask of the positions that may come next, per position
    nullable: bool  # whether the pattern could also match no event (such a match is never reported)
    dropped: tuple[str, ...]  # names only at positions that no match can reach

    def mask_of_name(self, name: str) -> int:
        """Return the mask of the positions at which predicate ``name`` is tested."""
        return sum(1 << p for p, other in enumerate(self.names) if other == name)

    def follow_of_mask(self, mask: int) -> int:
        """Return the union of the successors of the positions in ``mask``."""
        return _union(follow for p, follow in enumerate(self.follow) if mask >> p & 1)

    def reachable_from(self, mask: int) -> int:
        """Return the mask of positions reachable in one or more steps."""
        seen, frontier = 0, self.follow_of_mask(mask)
        while frontier & ~seen:
            seen |= frontier
            frontier = self.follow_of_mask(seen)
        return seen


@dataclass(frozen=True, slots=True)
class _Fragment:
    nullable: bool
    first: int
    last: int


def positions(pattern: Pattern) -> Positions:
    """Build the position automaton of ``pattern``.

    Source: Aho, Lam, Sethi, Ullman, "Compilers", 2nd ed., section 3.9; used by Hirzel, "Partition and
    Compose", DEBS 2012, section 3.1.
    Differs: accepting positions lose their successors, since a report ends all partial matches.
    """
    size = _size(pattern)
    if size > POSITIONS:
        raise UnsupportedQueryError(
            f"pattern {short_text(str(pattern))!r} has {size:,} positions once its repetitions are written "
            f'out; the limit is {POSITIONS}. Count inside a predicate instead, as in "count() < {size}"'
        )
    names: list[str] = []
    follow: list[int] = []
    whole = _fragment(pattern, names, follow)
    if not names:
        raise CepError(f"pattern {str(pattern)!r} matches no event; name at least one predicate")
    follow = [0 if whole.last >> p & 1 else mask for p, mask in enumerate(follow)]
    every = Positions(tuple(names), whole.first, whole.last, tuple(follow), whole.nullable, ())
    return _without_unreachable(every)


@dataclass(frozen=True, slots=True)
class States:
    """The automaton in the form of the paper: at most one transition per state and predicate name.

    State 0 is the start. States are numbered as they are found; predicates are visited in reading order.

    """

    n_states: int
    transitions: tuple[tuple[int, str, int], ...]  # (state, predicate, next state)
    accepting: tuple[int, ...]
    positions_of_state: tuple[int, ...]  # mask of the positions of each state; 0 for the start


def states(automaton: Positions) -> States:
    """Build the state automaton from ``automaton`` by subsets, one transition per state and predicate.

    A state is the set of positions that may come next.

    Source: Hirzel, "Partition and Compose", DEBS 2012, section 3.1 and figure 4.
    """
    order = list(dict.fromkeys(automaton.names))
    # A state: the positions that may come next, and whether the pattern may end here.
    start = (automaton.first, False)
    number = {start: 0}
    entered = [0]
    transitions = []
    for state, (following, _) in enumerate(queue := [start]):
        for name in order:
            taken = following & automaton.mask_of_name(name)
            if not taken:
                continue
            target = (automaton.follow_of_mask(taken), bool(taken & automaton.accepting))
            if target[1]:
                target = (0, True)  # the report of a match ends all partial matches
            if target not in number:
                if len(queue) == DRAWN_STATES:
                    raise CepError(f"the automaton has more than {DRAWN_STATES} states; it cannot be drawn")
                number[target] = len(queue)
                queue.append(target)
                entered.append(taken)
            else:
                entered[number[target]] |= taken
            transitions.append((state, name, number[target]))
    accepting = tuple(state for state, (_, accepts) in enumerate(queue) if accepts)
    return States(len(queue), tuple(transitions), accepting, tuple(entered))


@singledispatch
def _fragment(pattern: Pattern, names: list[str], follow: list[int]) -> _Fragment:
    raise TypeError(f"no automaton construction for {type(pattern).__name__}")


@_fragment.register
def _(pattern: Variable, names: list[str], follow: list[int]) -> _Fragment:
    return _leaf(pattern.name, names, follow)


@_fragment.register
def _(pattern: AnyEvent, names: list[str], follow: list[int]) -> _Fragment:
    return _leaf(ANY, names, follow)


@_fragment.register
def _(pattern: Empty, names: list[str], follow: list[int]) -> _Fragment:
    return _Fragment(True, 0, 0)


@_fragment.register
def _(pattern: Sequence, names: list[str], follow: list[int]) -> _Fragment:
    whole = _Fragment(True, 0, 0)
    for part in pattern.parts:
        whole = _join(whole, _fragment(part, names, follow), follow)
    return whole


@_fragment.register
def _(pattern: Alternative, names: list[str], follow: list[int]) -> _Fragment:
    options = [_fragment(option, names, follow) for option in pattern.options]
    return _Fragment(
        any(option.nullable for option in options),
        _union(option.first for option in options),
        _union(option.last for option in options),
    )


@_fragment.register
def _(pattern: Repeat, names: list[str], follow: list[int]) -> _Fragment:
    whole = _Fragment(True, 0, 0)
    if not _size(pattern.body):
        return whole  # any number of rounds without an event is no event
    body = whole
    copies = pattern.low if pattern.high is not None else max(1, pattern.low)
    for _ in range(copies):
        body = _fragment(pattern.body, names, follow)
        whole = _join(whole, body, follow)
    if pattern.high is None:
        _connect(body.last, body.first, follow)
        return _Fragment(whole.nullable or pattern.low == 0, whole.first, whole.last)
    extras = [_fragment(pattern.body, names, follow) for _ in range(pattern.high - pattern.low)]
    tail = _Fragment(True, 0, 0)
    for extra in reversed(extras):  # x (x (x)?)?
        tail = _join(extra, tail, follow)
        tail = _Fragment(True, tail.first, tail.last)
    return _join(whole, tail, follow)


def _leaf(name: str, names: list[str], follow: list[int]) -> _Fragment:
    names.append(name)
    follow.append(0)
    bit = 1 << (len(names) - 1)
    return _Fragment(False, bit, bit)


def _join(left: _Fragment, right: _Fragment, follow: list[int]) -> _Fragment:
    _connect(left.last, right.first, follow)
    return _Fragment(
        left.nullable and right.nullable,
        left.first | (right.first if left.nullable else 0),
        right.last | (left.last if right.nullable else 0),
    )


def _connect(last: int, first: int, follow: list[int]) -> None:
    for p in range(len(follow)):
        if last >> p & 1:
            follow[p] |= first


def _union(masks: Iterable[int]) -> int:
    whole = 0
    for mask in masks:
        whole |= mask
    return whole


def _size(pattern: Pattern) -> int:
    match pattern:
        case Sequence(parts=inner) | Alternative(options=inner):
            return sum(map(_size, inner))
        case Repeat(body=body, low=low, high=high):
            return _size(body) * (max(1, low) if high is None else high)
        case Empty():
            return 0
    return 1


def _without_unreachable(automaton: Positions) -> Positions:
    kept_mask = automaton.first | automaton.reachable_from(automaton.first)
    kept = [p for p in range(len(automaton.names)) if kept_mask >> p & 1]

    def renumbered(mask: int) -> int:
        return _union(1 << new for new, old in enumerate(kept) if mask >> old & 1)

    names = tuple(automaton.names[p] for p in kept)
    return Positions(
        names,
        renumbered(automaton.first),
        renumbered(automaton.accepting),
        tuple(renumbered(automaton.follow[p]) for p in kept),
        automaton.nullable,
        tuple(name for name in dict.fromkeys(automaton.names) if name not in names),
    )
