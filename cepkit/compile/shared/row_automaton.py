"""The automaton of a row pattern: by preference for SQL, on positions for regexes, on states for readers."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from cepkit.errors import CepError, UnsupportedQueryError, short_text
from cepkit.language import row_patterns as pt
from cepkit.limits import DRAWN_STATES, INSTRUCTIONS, INSTRUCTIONS_FOLLOWED, POSITIONS, TRANSITIONS
from cepkit.values import dataclass

ANY = "."  # the name of any row
ACCEPT = -1  # in lists of transitions: the match is complete

# Kinds of instructions. Their arguments are numbers of instructions, except where a comment says otherwise.
_TAKE, _SPLIT, _AT_START, _AT_END, _BEGIN, _END, _DONE = range(7)


@dataclass(frozen=True, slots=True)
class RowAutomaton:
    """The automaton of a row pattern: states that take one row each, and the states that can follow."""

    # ``follow[s][side]`` has the states that can come after state ``s``, the preferred ones first. ``ACCEPT``
    # ends a list. The last entry of ``follow`` is for the start. ``side`` is 1 at the first row of the
    # partition, plus 2 after its last row.

    variable_of_state: tuple[str, ...]
    excluded: tuple[bool, ...]
    follow: tuple[tuple[tuple[int, ...], ...], ...]

    @property
    def start(self) -> int:
        """The index of the start in ``follow``."""
        return len(self.variable_of_state)


def fewest_rows(automaton: RowAutomaton) -> int:
    """Return the fewest rows that a match has, whatever the conditions say."""
    reached, newest, n_rows = {automaton.start}, {automaton.start}, 0
    while True:
        after = {state for entry in newest for side in automaton.follow[entry] for state in side}
        if ACCEPT in after or after <= reached:
            return n_rows
        newest, n_rows = after - reached, n_rows + 1
        reached |= newest


def build_row_automaton(pattern: pt.Pattern, *, every_way: bool = False) -> RowAutomaton:
    """Return the automaton of a pattern."""
    # Bounded repetitions are written out. A repetition that is not required ends its quantifier if it takes
    # no row, as in Perl. ``every_way`` keeps what comes after ``ACCEPT``, which is never preferred.
    writer = _Writer()
    entry = writer.write(pattern, writer.add(_DONE), excluded=False)
    takes = [i for i, (kind, *_) in enumerate(writer.instructions) if kind == _TAKE]
    takes.sort(key=lambda i: -i)  # instructions are written from the end of the pattern
    state_of = {instruction: state for state, instruction in enumerate(takes)}
    begins = [*(writer.instructions[take][1] for take in takes), entry]
    has_anchors = any(kind in (_AT_START, _AT_END) for kind, *_ in writer.instructions)
    follow, n_transitions, n_followed = [], 0, 0
    for begin in begins:
        lists = []
        for side in range(4 if has_anchors else 1):
            most = INSTRUCTIONS_FOLLOWED - n_followed
            states, n = _transitions(writer.instructions, begin, side, state_of, every_way, most)
            lists.append(states)
            n_followed += n
        lists = tuple(lists if has_anchors else lists * 4)
        n_transitions += sum(map(len, lists))
        if n_transitions > TRANSITIONS:
            raise _too_large()
        follow.append(lists)
    return RowAutomaton(
        tuple(writer.instructions[take][2] for take in takes),
        tuple(writer.instructions[take][3] for take in takes),
        tuple(follow),
    )


def _too_large() -> UnsupportedQueryError:
    return UnsupportedQueryError("PATTERN: the bounds of the quantifiers are too large; use smaller ones")


class _Writer:
    """Writes instructions from the end of a pattern to its start."""

    def __init__(self) -> None:
        self.instructions: list[tuple] = []
        self.n_loops = 0

    def add(self, *instruction) -> int:
        """Add an instruction and return its number."""
        if len(self.instructions) >= INSTRUCTIONS:
            raise _too_large()
        self.instructions.append(instruction)
        return len(self.instructions) - 1

    def write(self, pattern: pt.Pattern, after: int, *, excluded: bool) -> int:
        """Write a pattern before instruction ``after``, and return the first instruction."""
        match pattern:
            case pt.Variable(name=name):
                return self.add(_TAKE, after, name, excluded)
            case pt.AnyEvent():
                return self.add(_TAKE, after, ANY, excluded)
            case pt.Empty():
                return after
            case pt.Anchor(at_start=at_start):
                return self.add(_AT_START if at_start else _AT_END, after)
            case pt.Sequence(parts=parts):
                return self._in_turn(parts, after, excluded)
            case pt.Alternative(options=options):
                firsts = [self.write(option, after, excluded=excluded) for option in reversed(options)]
                return self.add(_SPLIT, tuple(reversed(firsts)))
            case pt.Permutation(parts=parts):
                orders = reversed(list(itertools.permutations(parts)))
                firsts = [self._in_turn(order, after, excluded) for order in orders]
                return self.add(_SPLIT, tuple(reversed(firsts)))
            case pt.Exclusion(body=body):
                return self.write(body, after, excluded=True)
            case pt.Repeat():
                return self._repeated(pattern, after, excluded)
        raise TypeError(f"no automaton for {type(pattern).__name__}")

    def _in_turn(self, parts: tuple[pt.Pattern, ...], after: int, excluded: bool) -> int:
        """Write the parts of a sequence before instruction ``after``; return the first instruction."""
        for part in reversed(parts):
            after = self.write(part, after, excluded=excluded)
        return after

    def _repeated(self, pattern: pt.Repeat, after: int, excluded: bool) -> int:
        """Write all rounds of a repetition before instruction ``after``; return the first instruction."""
        low, high = pattern.low, pattern.high
        if not any(isinstance(part, pt.Variable | pt.AnyEvent) for part in pattern.body.walk()):
            low, high = min(low, 1), min(low, 1)  # without a row, further rounds change nothing
        first = after
        if high is None:
            first = self._round(pattern, None, after, excluded, is_required=low > 0)
            low -= low > 0  # the last required round is the first one of the loop
        else:
            for _ in range(high - low):
                first = self._round(pattern, first, after, excluded)
        for _ in range(low):
            first = self.write(pattern.body, first, excluded=excluded)
        return first

    def _round(
        self, pattern: pt.Repeat, again: int | None, after: int, excluded: bool, *, is_required: bool = False
    ) -> int:
        """Write one round of a repetition, and return its first instruction."""
        # After the round comes instruction ``again``, or another round of this loop if it is None. A round
        # that took no row leads to ``after``.
        split = self.add(_SPLIT, ())  # its targets are known later
        loop = self.n_loops
        self.n_loops += 1
        end = self.add(_END, loop, split if again is None else again, after)
        body = self.add(_BEGIN, loop, self.write(pattern.body, end, excluded=excluded))
        self.instructions[split] = (_SPLIT, (body, after) if pattern.greedy else (after, body))
        return body if is_required else split


def _transitions(
    instructions: list[tuple], begin: int, side: int, state_of: dict[int, int], every_way: bool, most: int
) -> tuple[tuple[int, ...], int]:
    """Return the states that follow an instruction without a row between, the preferred ones first."""
    # The second value is the number of instructions that were followed, ``most`` at most. ``idle`` has the
    # loops whose present repetition has taken no row.
    reached: dict[int, None] = {}
    seen: set[tuple[int, frozenset[int]]] = set()
    waiting: list[tuple[int, frozenset[int]]] = [(begin, frozenset())]
    while waiting:
        at = waiting.pop()
        if at in seen:
            continue
        seen.add(at)
        if len(seen) > most:
            raise _too_large()
        number, idle = at
        kind, *arguments = instructions[number]
        if kind == _TAKE:
            reached.setdefault(state_of[number])
        elif kind == _DONE:
            reached.setdefault(ACCEPT)
            if not every_way:
                break
        elif kind == _SPLIT:
            waiting.extend((target, idle) for target in reversed(arguments[0]))
        elif kind == _BEGIN:
            waiting.append((arguments[1], idle | {arguments[0]}))
        elif kind == _END:
            loop, again, after = arguments
            waiting.append((after if loop in idle else again, idle - {loop}))
        elif side & (1 if kind == _AT_START else 2):
            waiting.append((arguments[0], idle))
    return tuple(reached), len(seen)


# The automaton of a regex, for kernels and for readers.


@dataclass(frozen=True, slots=True)
class Positions:
    """The position automaton: a position is one occurrence of a predicate in the pattern."""

    # The state of a partial match is a set of positions: those that its newest event can match. A mask has
    # bit p for position p. A match is reported at its earliest end, so an accepting position has no
    # successors, and positions reachable only through one are left out.

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
        while new := frontier & ~seen:
            seen |= new
            frontier = self.follow_of_mask(new)
        return seen


def positions(pattern: pt.Pattern, *, longest: bool = False) -> Positions:
    """Build the position automaton of a regex: the states of its automaton, at earliest ends of matches."""
    # ``longest`` keeps what follows the earliest ends.
    # Source: Aho, Lam, Sethi, Ullman, "Compilers", 2nd ed., section 3.9; used by Hirzel, "Partition and
    # Compose", DEBS 2012, section 3.1.
    # Differs: accepting positions lose their successors, since a report ends all partial matches.
    size = _size(pattern)
    if size > POSITIONS:
        raise UnsupportedQueryError(
            f"pattern {short_text(str(pattern))!r} has {size:,} positions once its repetitions are written "
            f'out; the limit is {POSITIONS}. Count inside a predicate instead, as in "count() < {size}"'
        )
    automaton = build_row_automaton(pattern, every_way=True)
    names, lists = automaton.variable_of_state, [sides[0] for sides in automaton.follow]
    if not names:
        raise CepError(f"pattern {str(pattern)!r} matches no event; name at least one predicate")
    *follow, first = (_union(1 << state for state in states if state != ACCEPT) for states in lists)
    ends = [ACCEPT in states for states in lists]
    follow = [0 if is_end and not longest else mask for mask, is_end in zip(follow, ends, strict=False)]
    accepting = _union(1 << p for p in range(len(names)) if ends[p])
    return _without_unreachable(Positions(names, first, accepting, tuple(follow), ends[-1], ()))


@dataclass(frozen=True, slots=True)
class States:
    """The automaton as Hirzel draws it: at most one transition for each state and name of a predicate."""

    # State 0 is the start. States are numbered as they are found; predicates are visited in reading order.

    n_states: int
    transitions: tuple[tuple[int, str, int], ...]  # (state, predicate, next state)
    accepting: tuple[int, ...]
    positions_of_state: tuple[int, ...]  # mask of the positions of each state; 0 for the start


def states(automaton: Positions) -> States:
    """Build the state automaton from ``automaton`` by subsets, one transition per state and predicate."""
    # A state is the set of positions that may come next.
    # Source: Hirzel, "Partition and Compose", DEBS 2012, section 3.1 and figure 4.
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
            if target[1] and not automaton.follow_of_mask(automaton.accepting):
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


def _union(masks: Iterable[int]) -> int:
    """Return the mask with the bits of all masks."""
    whole = 0
    for mask in masks:
        whole |= mask
    return whole


def _size(pattern: pt.Pattern) -> int:
    """Return the number of positions of a regex pattern, without writing out its repetitions."""
    if isinstance(pattern, pt.Variable | pt.AnyEvent):
        return 1
    inner = sum(map(_size, pattern.children()))
    if isinstance(pattern, pt.Repeat):
        return inner * (max(1, pattern.low) if pattern.high is None else pattern.high)
    return inner


def _without_unreachable(automaton: Positions) -> Positions:
    """Return an automaton without the positions that no match can reach."""
    kept_mask = automaton.first | automaton.reachable_from(automaton.first)
    kept = [p for p in range(len(automaton.names)) if kept_mask >> p & 1]

    def renumbered(mask: int) -> int:
        return _union(1 << new for new, old in enumerate(kept) if mask >> old & 1)

    names = tuple(automaton.names[p] for p in kept)
    return Positions(
        names, renumbered(automaton.first), renumbered(automaton.accepting),
        tuple(renumbered(automaton.follow[p]) for p in kept), automaton.nullable,
        tuple(name for name in dict.fromkeys(automaton.names) if name not in names),
    )  # fmt: skip
