"""Arrays of `cepkit.kernels.wings.linked`, their columns, and the numbers in them."""

from typing import NamedTuple

import numpy as np

# Fields of a chain (a run is a chain of one event). A slot is one cache line, hence a table, not columns.
HEAD, TAIL = 0, 1  # first and last event; those between follow in the partition's verified sub-stream
PRED, PRED_TAIL = 2, 3  # chain of the previous component (-1: none) and its last event that belongs to this
FIRST_TIME = 4  # time of the newest possible first event
NEXT = 5  # next chain of the list
ROW = 5  # row of the coverage; chains of the last component are in no list
RECENT = 6  # next chain that the partition's latest event has joined
COMPONENT = 7
N_FIELDS = 8

STATE, CHAIN, CHAIN_TAIL, CHAIN_TIME, N_COMBINED = range(5)  # fields of a candidate
LEVEL_HEAD, LEVEL_TAIL, CURRENT, LEVEL_COMPONENT = 0, 1, 2, 3  # fields of a level of an enumeration

LEFT, SIGN, RIGHT, LEFT_COLUMN, RIGHT_COLUMN, IS_FLOAT = 0, 1, 2, 3, 4, 5  # fields of a condition
ABSENT = -1  # the absent event as a component of a condition
AFTER, DECIDED_AT, MODE = 0, 1, 2  # fields of an absence
DROP_ALL, DROP_TESTED, LOOK_BACK = 0, 1, 2
WINDOW, STRICT_TIME, HAS_KLEENE, COPIES, ATTRIBUTES, IS_ORDERED = range(6)  # settings

ALL, COUNT, LATEST = 0, 1, 2  # outputs
# Indices of a report; the last ones are running totals.
CONSUMED, REASON, NEED, N_FOUND, N_ITEMS, N_FREE, N_COPIES, CHAINS, PEAK_LIVE, N_ROWS = range(10)
WIDEST, COPIED = 10, 11  # events of the longest copy, and values that copies have written
REPORT_LENGTH = 12
LONGEST = N_ROWS  # for runs: number of events of the longest run
MORE_CANDIDATES, MORE_SLOTS, MORE_LEVELS, MORE_MATCHES, MORE_ITEMS, MORE_ROWS, MORE_WIDTH = range(1, 8)

NO_TIME = np.iinfo(np.int64).min


class PatternTables(NamedTuple):
    """A pattern as arrays; `cepkit.linked.kernel_machine` fills them."""

    coverable: np.ndarray  # uint8, (n_components,)
    kleene: np.ndarray  # uint8, (n_components,)
    first_condition: (
        np.ndarray
    )  # int64, (n_components + n_absences + 1,): by deciding component, then absence
    condition: np.ndarray  # int64, (n_conditions, 6)
    factor: np.ndarray  # float64, (n_conditions,): multiplies the right side
    absence: np.ndarray  # int64, (n_absences, 3)
    looks_back: np.ndarray  # uint8, (n_components,): whether the component decides an absence
    settings: np.ndarray  # int64, (6,): window (-1: none), successive events differ in time, has a closure,
    # way of copying, attributes of an event in a deep copy, whether matches are in canonical order


class EventArrays(NamedTuple):
    """Events by position. The arrays have spare room at their end."""

    time: np.ndarray  # int64
    partition: np.ndarray  # int64
    accepted: np.ndarray  # int64: one bit per component, then one bit per absence
    integers: np.ndarray  # int64, (n_columns, n_events)
    floats: np.ndarray  # float64, (n_columns, n_events)
    rank: np.ndarray  # int64: number of the event among the verified events of its partition
    following: np.ndarray  # int64: the next verified event of the partition
    preceding: np.ndarray  # int64: the previous verified event of the partition
    negated_before: np.ndarray  # int64, (n_absences, n_events): the previous event that must not occur
    payload: np.ndarray  # int64, (n_events, n_attributes): what a deep copy takes; no columns otherwise


class ChainStore(NamedTuple):
    """Chains or runs, and the free slots."""

    field: np.ndarray  # int64, (n_slots, 8)
    free: np.ndarray  # int64, (n_slots,): the first report[N_FREE] entries are free slots
    positions: (
        np.ndarray
    )  # int64, (n_slots, 1 + longest): number of events, then events; without copies (n, 0)
    payload: np.ndarray  # int64, (n_slots, longest * n_attributes): their attributes; only of deep copies


class PartitionArrays(NamedTuple):
    """The state of each partition. The number of a list is partition * n_components + component."""

    first_of_list: np.ndarray  # int64, (n_lists,)
    last_of_list: np.ndarray  # int64, (n_lists,)
    first_recent: np.ndarray  # int64, (n_lists,)
    last_event: np.ndarray  # int64, (n_partitions,): the latest verified event
    oldest: np.ndarray  # int64, (n_partitions,): the oldest verified event within the window
    n_live: np.ndarray  # int64, (n_partitions,)
    last_negated: np.ndarray  # int64, (n_partitions * n_absences,)


class Scratch(NamedTuple):
    """Buffers for intermediate results."""

    candidate: np.ndarray  # int64, (n, 5)
    run_start: np.ndarray  # int64, (n + 1,)
    level: np.ndarray  # int64, (n, 4)
    event_of: np.ndarray  # int64, (n_components,): latest event of each component of a partial match
    first_of: np.ndarray  # int64, (n_components,): first event of each component of a partial match
    product: np.ndarray  # int64, (8,)


class Output(NamedTuple):
    """The matches found. ``items`` holds one match after the other, each from first to last event."""

    items: np.ndarray  # int64, (n,)
    component: np.ndarray  # int64, (n,): component of each item; (1,) without a Kleene closure
    length: np.ndarray  # int64, (n_matches,): items of each match
    spare: np.ndarray  # int64, (n,): for sorting
    rows: np.ndarray  # int64, (n_rows, n_components): coverages
    total: np.ndarray  # int64, (8,): matches counted before report[N_FOUND], in digits of 31 bits
    nodes: np.ndarray  # int64, (n_components,): partial matches made, by component
