"""The automaton of a row pattern as tables for kernels, for conditions that depend on nearby rows alone."""

# From the last row of a partition to the first one, such an automaton is deterministic. The conditions that
# hold at a row and the set of states for the next row give the set for the row. A state is in the set if it
# can take the row and leads to a match. The tables have the sets that occur in the data, and no others.

from __future__ import annotations

import threading
from functools import cached_property, lru_cache

import numpy as np

from cepkit.compile.shared.row_automaton import RowAutomaton
from cepkit.kernels.row_codes import MATCH, NO_CONDITION, NO_STATE, UNKNOWN
from cepkit.values import dataclass

# Sets are tables only within these limits. Other automata have a kernel that looks at every transition.
MOST_STATES, MOST_CONDITIONS, MOST_CELLS = 64, 7, 20_000


class TooManySetsError(Exception):
    """The data leads to more sets than the tables may have."""


@dataclass(frozen=True)
class Transitions:
    automaton: RowAutomaton
    condition_of_state: tuple[int, ...]  # the number of a condition, or ``NO_CONDITION``

    @cached_property
    def conditions(self) -> np.ndarray:
        """``condition_of_state``, int64, (n_states,)."""
        return np.array(self.condition_of_state, np.int64)

    @cached_property
    def first_follower(self) -> np.ndarray:
        """The first item of each list in ``followers``, int64, (n_states + 3,)."""
        return np.cumsum([0, *map(len, self.lists)], dtype=np.int64)

    @cached_property
    def followers(self) -> np.ndarray:
        """What can follow each state, then the start, then the start at the first row of a partition."""
        return np.array([state for states in self.lists for state in states], np.int64)

    @cached_property
    def can_end(self) -> np.ndarray:
        """Whether a match can end with each state at the last row of a partition, uint8, (n_states,)."""
        return np.array([MATCH in lists[2] for lists in self.automaton.follow[:-1]], np.uint8)

    @cached_property
    def lists(self) -> list[tuple[int, ...]]:
        *others, start = self.automaton.follow
        return [*(lists[0] for lists in others), start[0], start[1]]


@dataclass(frozen=True, slots=True)
class StepTables:
    """The tables of the kernel `find_separate_matches`; ``shift`` is the number of bits of a state."""

    # ``before`` is the state of places without a match.

    shift: np.uint64
    before: int
    step: np.ndarray
    borders: np.ndarray


class SetTables:
    """The sets of states of an automaton, and the tables of `cepkit.kernels.row_finding`."""

    # Threads may share them: a set keeps its number, and a table that grows is replaced. A symbol has a bit
    # for each condition, and ``last_place`` for the last place of a partition.

    def __init__(self, transitions: Transitions, n_conditions: int):
        self.n_bits, self.last_place = n_conditions + 1, 1 << n_conditions
        self._transitions, self._lock, self._n_cells = transitions, threading.Lock(), 0
        self._lists = transitions.lists
        self._n_states = len(transitions.condition_of_state)
        self._before_end = sum(1 << s for s, can in enumerate(transitions.can_end) if can)
        self._enders = self._states_before(MATCH)
        self._before = [self._states_before(state) for state in range(self._n_states)]
        self._allowed: dict[int, int] = {}
        self._sets: list[int] = []
        self._number_of_set: dict[int, int] = {}
        self.following = np.full(0, UNKNOWN, np.uint16)
        self.choice = np.full((0, self._n_states), NO_STATE, np.int16)
        self._first_choice = np.full((0, 2), NO_STATE, np.int16)
        self._steps: tuple[int, StepTables | None] = (0, None)  # for how many sets they are
        self._number(-1)  # after the last row

    def fill(self, cell: int) -> None:
        """Compute the set of states that a cell of the table leads to, unless another thread has."""
        with self._lock:
            if self.following[cell] != UNKNOWN:
                return  # another thread was faster
            if self._n_cells == MOST_CELLS:
                raise TooManySetsError
            self._n_cells += 1
            number, symbol = cell >> self.n_bits, cell & ((1 << self.n_bits) - 1)
            before = self._before_end if symbol & self.last_place else self._states_before_set(number)
            self.following[cell] = self._number(before & self._allowed_by(symbol))

    @property
    def first_choice(self) -> np.ndarray:
        """The first state of a match at a place with each mark, or NO_STATE, int16, (2 * n_sets,)."""
        return self._first_choice.reshape(-1)

    @property
    def enders(self) -> int:
        """The states with which a match can end, as bits."""
        return self._enders | self._before_end

    def states_of_sets(self) -> np.ndarray:
        """Return the states of each set as bits, uint64, (n_sets,)."""
        return np.array([states & (2**64 - 1) for states in self._sets], np.uint64)

    def steps(self) -> StepTables | None:
        """Return the tables of separate matches, or None if a match may be empty."""
        n_sets, steps = self._steps
        if n_sets != len(self._sets):
            with self._lock:
                n_sets, steps = self._steps = len(self._sets), self._make_steps()
        return steps

    def _make_steps(self) -> StepTables | None:
        """Return tables by which vectors of rows step, or None if a match can end with its first row."""
        first, n_states = self.first_choice, self._n_states
        if (first == MATCH).any():
            return None
        choice = np.repeat(self.choice, 2, axis=0)  # two rows for a symbol: the second for first places
        choice[1::2] = MATCH  # the first place of a partition continues no match
        n_bits = n_states.bit_length()
        step = np.full((len(first), 1 << n_bits), n_states, np.uint16)  # state n_states: no match is open
        borders = np.zeros_like(step)  # 1: a match begins; 2: one ends; 3: both
        begins = first >= 0
        begun = np.where(begins, first, n_states)[:, None]
        step[:, :n_states], step[:, n_states] = np.where(choice >= 0, choice, begun), begun[:, 0]
        borders[:, :n_states] = np.where(choice >= 0, 0, 2 + begins[:, None])
        borders[:, n_states] = begins
        return StepTables(np.uint64(n_bits), n_states, step.reshape(-1), borders.reshape(-1))

    def _states_before(self, state: int) -> int:
        """Return the states that ``state`` can follow, as bits."""
        return sum(1 << s for s, targets in enumerate(self._lists[: self._n_states]) if state in targets)

    def _states_before_set(self, number: int) -> int:
        """Return, as bits, the states from which a row leads into a state of this set."""
        states_before, states = self._enders, self._sets[number]
        while states:
            lowest = states & -states  # the lowest bit alone
            states_before |= self._before[lowest.bit_length() - 1]
            states ^= lowest
        return states_before

    def _allowed_by(self, symbol: int) -> int:
        """Return the states whose conditions hold, as bits."""
        if symbol not in self._allowed:
            self._allowed[symbol] = sum(
                1 << s
                for s, condition in enumerate(self._transitions.condition_of_state)
                if condition == NO_CONDITION or symbol >> condition & 1
            )
        return self._allowed[symbol]

    def _number(self, states: int) -> int:
        """Return the number of a set, which gets its rows in the tables. -1 is the set after the last row."""
        if states in self._number_of_set:
            return self._number_of_set[states]
        number = len(self._sets)
        if number == len(self.choice):
            room = max(16, 2 * number)
            self.choice = _grown(self.choice, room, NO_STATE)
            self._first_choice = _grown(self._first_choice, room, NO_STATE)
            self.following = _grown(self.following, room << self.n_bits, UNKNOWN)
        in_set = 0 if number == 0 else states
        chosen = [
            next((state for state in targets if state == MATCH or in_set >> state & 1), NO_STATE)
            for targets in self._lists
        ]
        self.choice[number] = chosen[: self._n_states]
        self._first_choice[number] = chosen[self._n_states :]
        self._sets.append(states)
        self._number_of_set[states] = number
        return number


def _grown(table: np.ndarray, room: int, empty: int) -> np.ndarray:
    """Return a table with more rows, the new ones filled with ``empty``."""
    grown = np.full((room, *table.shape[1:]), empty, table.dtype)
    grown[: len(table)] = table
    return grown


@lru_cache(maxsize=16)
def set_tables(transitions: Transitions, n_conditions: int) -> SetTables | None:
    """Return the tables of an automaton, or None if it is too large for them."""
    if len(transitions.condition_of_state) > MOST_STATES or n_conditions > MOST_CONDITIONS:
        return None
    return SetTables(transitions, n_conditions)
