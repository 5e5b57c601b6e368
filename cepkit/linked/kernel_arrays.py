"""The bundles of arrays that LinkedCEP's kernels share with their caller."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class PatternTables(NamedTuple):
    """A pattern as arrays. `cepkit.linked.kernel_machine` fills them."""

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
