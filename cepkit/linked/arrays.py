"""Bundles of arrays that the kernels of partial matches share with their caller."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class PatternTables(NamedTuple):
    """A pattern as arrays; made by `cepkit.linked.kernel_machine`."""

    coverable: np.ndarray  # uint8, (n_components,)
    kleene: np.ndarray  # uint8, (n_components,)
    first_condition: np.ndarray  # int64, (n_components + n_absences + 1,): by the component that decides
    condition: np.ndarray  # int64, (n_conditions, 6)
    factor: np.ndarray  # float64, (n_conditions,): of the right side
    absence: np.ndarray  # int64, (n_absences, 3)
    looks_back: np.ndarray  # uint8, (n_components,): whether an absence is decided by it
    settings: np.ndarray  # int64, (3,): window (-1: none), successive events differ in time, any closure


class EventArrays(NamedTuple):
    """Events by position; the arrays are longer than there are events."""

    time: np.ndarray  # int64
    partition: np.ndarray  # int64
    accepted: np.ndarray  # int64: a bit per component, then a bit per absence
    integers: np.ndarray  # int64, (n_columns, n_events)
    floats: np.ndarray  # float64, (n_columns, n_events)
    rank: np.ndarray  # int64: number of the event among the verified ones of its partition
    following: np.ndarray  # int64: the next verified event of the partition
    preceding: np.ndarray  # int64: the one before
    negated_before: np.ndarray  # int64, (n_absences, n_events): the event before that must not occur


class ChainStore(NamedTuple):
    """Chains or runs, and the slots that are free."""

    field: np.ndarray  # int64, (n_slots, 8)
    free: np.ndarray  # int64, (n_slots,): the first report[N_FREE] are free


class PartitionArrays(NamedTuple):
    """What is kept per partition; lists are numbered partition * n_components + component."""

    first_of_list: np.ndarray  # int64, (n_lists,)
    last_of_list: np.ndarray  # int64, (n_lists,)
    first_recent: np.ndarray  # int64, (n_lists,)
    last_event: np.ndarray  # int64, (n_partitions,): the latest verified event
    oldest: np.ndarray  # int64, (n_partitions,): the oldest verified event within the window
    n_live: np.ndarray  # int64, (n_partitions,)
    last_negated: np.ndarray  # int64, (n_partitions * n_absences,)


class Scratch(NamedTuple):
    """Room to work in."""

    candidate: np.ndarray  # int64, (n, 4)
    run_start: np.ndarray  # int64, (n + 1,)
    level: np.ndarray  # int64, (n, 4)
    event_of: np.ndarray  # int64, (n_components,): latest event of each component of a partial match
    first_of: np.ndarray  # int64, (n_components,): the first one
    product: np.ndarray  # int64, (8,)


class Output(NamedTuple):
    """Where matches go: ``items`` one match after the other, each from first to last event."""

    items: np.ndarray  # int64, (n,)
    component: np.ndarray  # int64, (n,) or (1,): of each item, where a component is a Kleene closure
    length: np.ndarray  # int64, (n_matches,): items of each match
    spare: np.ndarray  # int64, (n,): for sorting
    rows: np.ndarray  # int64, (n_rows, n_components): coverages
    total: np.ndarray  # int64, (8,): number of matches that left report[N_FOUND], in digits of 31 bits
    nodes: np.ndarray  # int64, (n_components,): partial matches made, by component
