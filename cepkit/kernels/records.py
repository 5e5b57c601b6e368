"""Arrays and numbers that belong together in the arguments of kernels. Arrays are int64 unless noted."""

from typing import NamedTuple

import numpy as np


class Conditions(NamedTuple):
    """Conditions on a path, the events of a partial match; see `cepkit.compile.interpreted.walk`."""

    conditions: np.ndarray  # (n, 9); the columns of all tables are constants of `interpreted_walk`
    loops: np.ndarray  # (n, 3): component, offset, base of the end
    loads: np.ndarray  # (n, 7)
    groups: np.ndarray  # (n, 9)
    code: np.ndarray  # (n, 4): instructions; see `cepkit.kernels.opcodes`
    floats: np.ndarray  # float64, (n_values, n_places): what conditions read of single events
    integers: np.ndarray  # (n_values, n_places)
    rf: np.ndarray  # float64, (n_registers,): registers, with the constants
    ri: np.ndarray  # (n_registers,)


class Branch(NamedTuple):
    """Components of a branch, and the lists of what must hold for them."""

    least: np.ndarray  # (n,): the fewest events of each component
    most: np.ndarray  # (n,)
    inner_mode: np.ndarray  # (n,): which events may follow inside a loop
    begin_mode: np.ndarray  # (n,): which events may begin the component
    preference: np.ndarray  # (n,)
    spans: np.ndarray  # (4n + 1, 2) of ``listed``: on taking, on completion, ends of loops; then absences
    listed: np.ndarray  # (n, 1): conditions or absences
    absences: np.ndarray  # (n, 7)


class Task(NamedTuple):
    """Numbers of a call that searches matches of a branch."""

    stop: int  # the first place where no match begins
    low: int  # positions where a match may end, from here to before ``high``
    high: int
    fill: int  # whether to write matches, or only count them
    work_limit: int  # events to look at
    is_run_scope: int  # whether strategy ``next`` counts the events of the whole run as relevant


class Limits(NamedTuple):
    """Where the next events of a match may be, by place; see `cepkit.engines.shared.places`."""

    tests: np.ndarray  # (n_components,): row of ``accept`` of each component
    absent_tests: np.ndarray  # (n_absences,)
    accept: np.ndarray  # uint8, (n_tests, n_places)
    later: np.ndarray  # (n_places,), as all others
    window_end: np.ndarray
    gap_end: np.ndarray
    time_start: np.ndarray
    time_end: np.ndarray
    position: np.ndarray


class Path(NamedTuple):
    """The state of a walk between calls, by depth."""

    path: np.ndarray  # places of the events
    component: np.ndarray
    first: np.ndarray  # (n_components,): depth at which each component begins
    cursor: np.ndarray  # the next event to look at
    open_: np.ndarray  # what may still be tried


class Output(NamedTuple):
    """What a search writes."""

    count_of_last: np.ndarray  # (n_places,)
    out_place: np.ndarray  # (n_items,): places of the events of all matches
    out_size: np.ndarray  # (n_matches, n_components)
