"""Arrays of `cepkit.kernels.wings.tree`, their columns, and the numbers in them."""

# Arrays are int64 unless noted.

from typing import NamedTuple

import numpy as np

# Columns of the pool.
(
    NODE, ID, FIRST, LAST, LENGTH, STATUS, BEFORE, AFTER, BEFORE_OF_FIRST, AFTER_OF_FIRST, PARTITION,
    IS_CLOSED,
) = range(12)  # fmt: skip
MEMBERS = 12
FREE, HELD, ALIVE, COMPLETE = range(4)  # statuses
# Columns of cells.
CELL_LAST, CELL_BEFORE, CELL_FIRST, CELL_SIZE, CELL_USERS = range(5)
# Columns of nodes: leaves come first, then inner nodes.
(
    PARENT, PEER, IS_RIGHT, KEEPS, TRIES, STATE, TREE, IS_ROOT, TYPE_TEST, FIRST_UNARY, LAST_UNARY, IS_GROUP,
    LOW, HIGH, COMPONENT, IS_ABSENT, FIRST_OWN, LAST_OWN, FIRST_CLOSE, LAST_CLOSE, FIRST_ORDER, LAST_ORDER,
    FIRST_JOIN, LAST_JOIN,
) = range(24)  # fmt: skip
N_NODE_COLUMNS = 24
NOT_ABSENT, KILLS, ALLOWED_ALONE, ALLOWED_BESIDE = range(4)  # values of IS_ABSENT
# Columns of orders: a component of the left side, one of the right side, and what their events must be.
LEFT, RIGHT, RELATION, IS_NEXT = range(4)
LEFT_FIRST, RIGHT_FIRST, DIFFERENT = range(3)
# Columns of trees.
N_COMPONENTS, FIRST_ABSENCE, LAST_ABSENCE, WAITS = range(4)
# Columns of absences.
ABSENT_LEAF, FROM, FROM_END, TO, TO_END, FIRST_BESIDE, LAST_BESIDE = range(7)
# Limits of a call.
(
    BASE, STOP, WITHIN, WITHIN_EVENTS, GAP, IS_STRICT, N_NODES, N_LEAVES, BIN_SIZE, IS_LEARNING, HAS_SKIP,
    MOST_ALIVE, MOST_COMPLETE, LOG_BASE, FIRST_ROW, MOST_WORK, ENDS_BY_EVENTS,
    ONLY_TYPED,
) = range(18)  # fmt: skip
N_LIMITS = 18
# Columns of counts: created, removed, matches, pairs, then the partial matches after the event and their
# events; then evaluations by condition, then how many held.
CREATED, REMOVED, FOUND, PAIRS, ALIVE_AFTER, LENGTH_AFTER = range(6)
N_COUNTS = 6
# The state of the machine in numbers.
(
    AT, IS_BEGUN, FREE_SLOT, N_FREE, FREE_CELL, N_FREE_CELLS, NEXT_ID, N_ALIVE, TOTAL_LENGTH, N_COMPLETE,
    LONGEST, N_WAITING, SWEEP, MOST_SEEN,
) = range(14)  # fmt: skip
N_INFO = 14
# Why a call ended.
DONE, NEEDS_SLOTS, NEEDS_CELLS, NEEDS_PATH, NEEDS_LOG, TOO_MANY, IS_FULL = range(7)
# Columns of the log of what a machine learns.
(
    LOG_ID, LOG_LEFT, LOG_RIGHT, LOG_NODE, LOG_COST, LOG_POSITION, LOG_TYPE, LOG_BIN, LOG_STATE,
) = range(9)  # fmt: skip
N_LOG_COLUMNS = 9


class TreeEvents(NamedTuple):
    """The events from position ``limits[BASE]`` on."""

    kind: np.ndarray  # (n_events,): type; -1: none of them
    partition: np.ndarray  # (n_events,)
    time: np.ndarray  # (n_events,), ticks
    rank: np.ndarray  # (n_events,): number in its partition
    accept: np.ndarray  # uint8, (n_tests, n_events): which events fulfil tests of single events


class Trees(NamedTuple):
    """The trees. A pair is a row of conditions or of ``accept``, and the number of the query's condition."""

    nodes: np.ndarray
    listed: np.ndarray  # pairs
    unary: np.ndarray  # pairs
    orders: np.ndarray
    trees: np.ndarray
    absences: np.ndarray
    groups: np.ndarray  # (n_trees, n_components): whether a component takes several events


class TreeState(NamedTuple):
    """Partial matches and the work to do."""

    info: np.ndarray
    pool: np.ndarray
    cells: np.ndarray
    heads: np.ndarray  # (n_partitions * n_nodes,): lists of partial matches
    sizes: np.ndarray  # (n_partitions * n_nodes,)
    chain: np.ndarray  # (n_events,): lists by first event
    stack: np.ndarray  # partial matches, or leaves as -1 - leaf
    complete: np.ndarray  # matches
    path: np.ndarray  # scratch
    first: np.ndarray  # scratch


class Learned(NamedTuple):
    """Pairs of an event and a partial match by type, bin and state, and what a machine learns."""

    skip: np.ndarray  # uint8, (n_types, n_bins, n_states): which pairs to leave out
    considered: np.ndarray  # the same shape, as the next two
    contributed: np.ndarray  # pairs that made a partial match
    skipped: np.ndarray
    log: np.ndarray  # (n, 9): the partial matches that were made
