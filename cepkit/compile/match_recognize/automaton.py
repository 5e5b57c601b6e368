"""Turn a row pattern into an automaton whose transitions are sorted by preference."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from cepkit.errors import UnsupportedQueryError
from cepkit.language.match_recognize import patterns as rp
from cepkit.limits import INSTRUCTIONS, INSTRUCTIONS_FOLLOWED, TRANSITIONS

MATCH = -1  # in lists of transitions: the match is complete

# Kinds of instructions. Their arguments are numbers of instructions, except where a comment says otherwise.
_TAKE, _SPLIT, _AT_START, _AT_END, _BEGIN, _END, _DONE = range(7)


@dataclass(frozen=True, slots=True)
class RowAutomaton:
    """States that take one row each, and what can follow them.

    ``follow[s][side]`` has the states that can come after state ``s``, the preferred ones first. ``MATCH``
    ends a list. The last entry of ``follow`` is for the start. ``side`` is 1 at the first row of the
    partition, plus 2 after its last row.

    """

    variable_of_state: tuple[str, ...]
    excluded: tuple[bool, ...]
    follow: tuple[tuple[tuple[int, ...], ...], ...]

    @property
    def start(self) -> int:
        """The index of the start in ``follow``."""
        return len(self.variable_of_state)


def build_row_automaton(pattern: rp.RowPattern, *, every_way: bool = False) -> RowAutomaton:
    """Return the automaton of a pattern.

    Bounded repetitions are written out. A repetition that is not required ends its quantifier if it takes no
    row, as in Perl. ``every_way`` keeps what comes after ``MATCH``, which is never preferred.
    """
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
            found, n = _transitions(writer.instructions, begin, side, state_of, every_way, most)
            lists.append(found)
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
        if len(self.instructions) >= INSTRUCTIONS:
            raise _too_large()
        self.instructions.append(instruction)
        return len(self.instructions) - 1

    def write(self, pattern: rp.RowPattern, after: int, *, excluded: bool) -> int:
        """Write a pattern before instruction ``after``, and return the first instruction."""
        match pattern:
            case rp.RowVariable(name=name):
                return self.add(_TAKE, after, name, excluded)
            case rp.NoRow():
                return after
            case rp.Anchor(at_start=at_start):
                return self.add(_AT_START if at_start else _AT_END, after)
            case rp.Concatenation(parts=parts):
                return self._in_turn(parts, after, excluded)
            case rp.Alternation(options=options):
                firsts = [self.write(option, after, excluded=excluded) for option in reversed(options)]
                return self.add(_SPLIT, tuple(reversed(firsts)))
            case rp.Permutation(parts=parts):
                orders = reversed(list(itertools.permutations(parts)))
                firsts = [self._in_turn(order, after, excluded) for order in orders]
                return self.add(_SPLIT, tuple(reversed(firsts)))
            case rp.Exclusion(body=body):
                return self.write(body, after, excluded=True)
            case rp.Quantified():
                return self._quantified(pattern, after, excluded)
        raise TypeError(f"no automaton for {type(pattern).__name__}")

    def _in_turn(self, parts: tuple[rp.RowPattern, ...], after: int, excluded: bool) -> int:
        for part in reversed(parts):
            after = self.write(part, after, excluded=excluded)
        return after

    def _quantified(self, pattern: rp.Quantified, after: int, excluded: bool) -> int:
        first = after
        if pattern.high is None:
            first = self._loop(pattern, after, excluded)
        else:
            for _ in range(pattern.high - pattern.low):
                first = self._once(pattern, first, after, excluded)
        for _ in range(pattern.low):
            before, first = first, self.write(pattern.body, first, excluded=excluded)
            if first == before:  # the body is no row: further rounds change nothing
                break
        return first

    def _once(self, pattern: rp.Quantified, again: int, after: int, excluded: bool) -> int:
        """Write one repetition that is not required: then ``again``, or ``after`` if it took no row."""
        loop = self.n_loops
        self.n_loops += 1
        end = self.add(_END, loop, again, after)
        body = self.add(_BEGIN, loop, self.write(pattern.body, end, excluded=excluded))
        return self.add(_SPLIT, (body, after) if pattern.greedy else (after, body))

    def _loop(self, pattern: rp.Quantified, after: int, excluded: bool) -> int:
        split = self.add(_SPLIT, ())  # its targets are known later
        loop = self.n_loops
        self.n_loops += 1
        end = self.add(_END, loop, split, after)
        body = self.add(_BEGIN, loop, self.write(pattern.body, end, excluded=excluded))
        self.instructions[split] = (_SPLIT, (body, after) if pattern.greedy else (after, body))
        return split


def _transitions(
    instructions: list[tuple], begin: int, side: int, state_of: dict[int, int], every_way: bool, most: int
) -> tuple[tuple[int, ...], int]:
    """Return the states that can be reached without a row, the preferred ones first.

    The second value is the number of instructions that were followed, ``most`` at most. ``idle`` has the
    loops whose present repetition has taken no row.

    """
    found: dict[int, None] = {}
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
            found.setdefault(state_of[number])
        elif kind == _DONE:
            found.setdefault(MATCH)
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
    return tuple(found), len(seen)
