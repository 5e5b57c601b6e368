"""Codes that the kernels of row patterns and their callers share. This module has no kernels."""

from typing import NamedTuple

import numpy as np

# Instead of a state.
MATCH, NO_STATE = -1, -2  # the match is complete, nothing can follow
NO_CONDITION = -1  # of a state that takes every row
UNKNOWN = 65535  # a cell of a table that nobody computed yet
# Where the next match can begin.
PAST_LAST_ROW, TO_NEXT_ROW, TO_FIRST, TO_LAST = range(4)
# Cells of ``at``, the state between calls.
PARTITION, PLACE, N_MATCHES, N_STATES, TARGET = range(5)
# Cells of each chain in the ``at`` of `mark_places`; PLACE is the same.
AT_SET, LOW = 0, 2
# Cells of the ``at`` of `find_separate_matches`.
STATE, N_BEGUN, N_ENDED = range(3)
# What a kernel returns.
DONE, ASKS, IS_FULL, WORKED, NO_TARGET = range(5)
# Aggregates.
COUNT, SUM, SUM_FROM_ZERO, MIN, MAX = range(5)

# Conditions on the rows of a match so far, for the kernel `search_rows`.
#
# A *register* belongs to a partial match: the place or the label of a row, or a running total. A float has
# its bits as an integer. Null is NULL, and NaN among floats. These are columns of the table of registers.
RULE, ARGUMENT = range(2)
# What a row of its variables does to a register: nothing; the place or the label of the row, or what the
# register of the argument had before, if there is one; or one more value from the column of the argument.
STAYS, FIRST_PLACE, FIRST_LABEL, LAST_PLACE, LAST_LABEL, COUNT_ROWS = range(6)
COUNT_INTEGERS, SUM_INTEGERS, MIN_INTEGERS, MAX_INTEGERS = range(6, 10)
COUNT_FLOATS, SUM_FLOATS, MIN_FLOATS, MAX_FLOATS = range(10, 14)
# Columns of the table of states. TAKES and LIVE are masks of registers. A loop prefers to follow itself.
FIRST_FOLLOWER, CAN_END, CONDITION, CODE, CODE_END, LABEL, IS_TARGET, IS_LOOP, TAKES, LIVE = range(10)
# Columns of the stack of a partial match: the next choice, the state that took rows, and where these rows
# end, at least and now. The registers follow.
NEXT_CHOICE, TAKEN, BEGIN, END, REGISTERS = range(5)
BLOCK = 32  # places
# Cells of ``at`` in `search_rows`, after the first ones above.
DEPTH, LIMIT, WORK, WORK_LIMIT, BUDGET, PATIENCE, UNTIL, WIDTH, AFTER = range(5, 14)
NUMBER_AT, START_AT, ENDERS, N_CELLS = range(14, 18)
TOO_MUCH_WORK = 5  # what the kernel returns, beside those above

# Instructions: operation, target, left, right, more. The target is a slot, or REQUIRED: the value must be
# true. Left and right are slots, except in the first ones.
OPERATION, SLOT, LEFT, RIGHT, MORE = range(5)
REQUIRED = -1
LOAD_FLOAT, LOAD_INTEGER = 0, 1  # column ``right`` at the place of register ``left``, ``more`` places away
LOAD_REGISTER, LOAD_BIT = 2, 3  # register ``left``, or the bit ``left`` of the conditions on nearby rows
HERE = -1  # instead of a register: the current place
# 4 to 9 and 10 to 15 compare floats and integers by ==, !=, <, <=, >, >=. Null makes them false.
COMPARE_FLOATS, COMPARE_INTEGERS = 4, 10
AND, OR, NOT, IS_NULL_FLOAT, IS_NULL_INTEGER = range(16, 21)
ADD_FLOATS, SUBTRACT_FLOATS, MULTIPLY_FLOATS, DIVIDE_FLOATS, REMAINDER_OF_FLOATS = range(21, 26)
ADD_INTEGERS, SUBTRACT_INTEGERS, MULTIPLY_INTEGERS, DIVIDE_INTEGERS, REMAINDER_OF_INTEGERS = range(26, 31)
NEGATE_FLOAT, ABS_FLOAT, NEGATE_INTEGER, ABS_INTEGER, TO_FLOAT = range(31, 36)


# What `search_rows` takes.


class RowMachine(NamedTuple):
    """An automaton with registers."""

    states: np.ndarray  # int64, (n_states + 3, 10): then the start, the start at a first row, and the end
    followers: np.ndarray  # int64: what can follow each of them, and MATCH, the preferred one first
    code: np.ndarray  # int64, (n_instructions, 5)
    registers: np.ndarray  # int64, (n_registers, 2)
    start_values: np.ndarray  # int64, (n_registers,): before the first row


class SearchedPlaces(NamedTuple):
    """What the search knows of each place."""

    bounds: np.ndarray  # int64, (n_partitions + 1,): the first place of each partition
    mark: np.ndarray  # uint16, (n_places,): as `mark_places` writes it, plus 1 at a first place; or empty
    sets: np.ndarray  # uint64, (n_sets,): the states of each set as bits
    first_choice: np.ndarray  # int16, (2 * n_sets,): NO_STATE if no match begins at a place with this mark
    holds: np.ndarray  # uint64, (n_places,): the conditions on nearby rows that hold, as bits
    floats: np.ndarray  # float64, (n_columns, n_places)
    integers: np.ndarray  # int64, (n_columns, n_places)
    clock: np.ndarray  # int64, (n_places,), nondecreasing in a partition; or empty
    lows: (
        np.ndarray
    )  # float64, (n_columns, n_blocks): no value is less, of floats and then integers; or empty
    highs: np.ndarray  # the same for the greatest values
    every_of_block: (
        np.ndarray
    )  # uint64, (n_blocks,): the states that all places of a block have in their sets
    any_of_block: np.ndarray  # the same for some place


class SearchWork(NamedTuple):
    """Room for the work, and the state between calls."""

    stack: np.ndarray  # int64, (rows of the longest partition + 2, 4 + n_registers)
    slots: np.ndarray  # int64: values of instructions, with the constants
    ends: np.ndarray  # float64, (2, n_slots): room for least and greatest values; NaN for constants
    memo: np.ndarray  # int64, (a power of two, 1 + n_registers): partial matches that lead to no match
    at: np.ndarray  # int64, (N_CELLS,)


class MatchRoom(NamedTuple):
    """Room for the matches, as `FoundRows` has them."""

    first_match_of_partition: np.ndarray
    start_of_match: np.ndarray
    end_of_match: np.ndarray
    states: np.ndarray
