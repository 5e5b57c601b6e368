"""Instructions of interpreted conditions, and arrays and numbers that belong together in kernel arguments."""

# Arrays are int64 unless noted. An instruction is a row: operation, target, left, right. Left and right are
# numbers of registers. A register holds a float or an integer; a truth value is the integer 0 or 1. The
# target is a register, except in ``REQUIRE``: there it is the mask of the positions that need it.

from typing import NamedTuple

import numpy as np

# 0 to 5: the comparisons ==, !=, <, <=, >, >= of floats; 6 to 11: those of integers. Null is NaN in
# floats, so each of these is false.
COMPARE_FLOATS, COMPARE_INTEGERS = 0, 6
AND, OR, REQUIRE = 12, 13, 14
ADD_FLOATS, SUBTRACT_FLOATS, MULTIPLY_FLOATS, DIVIDE_FLOATS = 15, 16, 17, 18
ADD_INTEGERS, SUBTRACT_INTEGERS, MULTIPLY_INTEGERS = 19, 20, 21
NEGATE_FLOAT, NEGATE_INTEGER, ABS_FLOAT, ABS_INTEGER = 22, 23, 24, 25
TO_FLOAT = 26  # an integer as a float
FLOAT_OR_NAN = 27  # the left float if the truth on the right is 1, else NaN
INTEGER_OR_NULL = 28  # the left integer if the truth on the right is 1, else null

SUBTRACT_TIMES, ADD_TIMES = 29, 30  # a result that does not fit is the nearest integer that does, but null

SIGNS = ("==", "!=", "<", "<=", ">", ">=")
CODES = {
    **{f"{sign} floats": COMPARE_FLOATS + i for i, sign in enumerate(SIGNS)},
    **{f"{sign} integers": COMPARE_INTEGERS + i for i, sign in enumerate(SIGNS)},
    "and": AND, "or": OR,
    "+ floats": ADD_FLOATS, "- floats": SUBTRACT_FLOATS,
    "* floats": MULTIPLY_FLOATS, "/ floats": DIVIDE_FLOATS,
    "+ integers": ADD_INTEGERS, "- integers": SUBTRACT_INTEGERS, "* integers": MULTIPLY_INTEGERS,
    "- times": SUBTRACT_TIMES, "+ times": ADD_TIMES,
    "negative floats": NEGATE_FLOAT, "negative integers": NEGATE_INTEGER,
    "abs floats": ABS_FLOAT, "abs integers": ABS_INTEGER,
    "to float": TO_FLOAT, "float or nan": FLOAT_OR_NAN, "integer or null": INTEGER_OR_NULL,
}  # fmt: skip
OF_FLOATS = frozenset(
    {
        ADD_FLOATS,
        SUBTRACT_FLOATS,
        MULTIPLY_FLOATS,
        DIVIDE_FLOATS,
        NEGATE_FLOAT,
        ABS_FLOAT,
        TO_FLOAT,
        FLOAT_OR_NAN,
    }
)  # operations with a float as their result

# What a partial match does with a value that it carries.
KEEP, COUNT, SUM, MAX, MIN = range(5)
# Columns of the table of carried values: what happens, whether it is a float, its register, the register of
# the event's value, the register of whether that is known (-1: always), whether the carried value can be
# null, and whether it is a code, which is null below zero.
ACTION, IS_FLOAT, CARRIED, GIVEN, KNOWN, IS_NULLABLE, IS_CODE = range(7)

# Where the search of a regex continues after a match: after its last row, at its last row, at the row after
# its first one, at the first or at the last row of a name.
PAST_LAST, TO_LAST, TO_NEXT, TO_FIRST_OF, TO_LAST_OF = range(5)

# Conditions on a path, the events of a partial match: where an event is. A depth is an offset from a base.
# Bases from 0 on are components: the depth at which they begin.
AT_LAST, AT_OTHER, AT_LOOP, AT_INNER_LOOP, AT_TIME_LIMIT, NOWHERE = -1, -2, -3, -4, -5, -6
# Values over the events of a loop.
NUMBER, NUMBER_KNOWN, TOTAL, LOWEST, HIGHEST, FIRST, LAST = range(7)


# Arguments.


class Conditions(NamedTuple):
    """Conditions on a path, the events of a partial match; see `cepkit.compile.interpreted_walk`."""

    conditions: np.ndarray  # (n, 9); the columns of all tables are constants of `interpreted_walk`
    loops: np.ndarray  # (n, 3): component, offset, base of the end
    loads: np.ndarray  # (n, 7)
    groups: np.ndarray  # (n, 9)
    code: np.ndarray  # (n, 4): instructions; see above
    floats: np.ndarray  # float64, (n_values, n_places): what conditions read of single events
    integers: np.ndarray  # (n_values, n_places)
    rf: np.ndarray  # float64, (n_registers,): registers, with the constants
    ri: np.ndarray  # (n_registers,)


class BranchTables(NamedTuple):
    """Components of a branch, and the lists of what must hold for them."""

    least: np.ndarray  # (n,): the fewest events of each component
    most: np.ndarray  # (n,)
    inner_mode: np.ndarray  # (n,): which events may follow inside a loop
    begin_mode: np.ndarray  # (n,): which events may begin the component
    preference: np.ndarray  # (n,)
    spans: np.ndarray  # (4n + 1, 2) of ``listed``: on taking, on completion, ends of loops; then absences
    listed: np.ndarray  # (n, 1): conditions or absences
    absences: np.ndarray  # (n, 7)


class SearchTask(NamedTuple):
    """Numbers of a call that searches matches of a branch."""

    stop: int  # the first place where no match begins
    low: int  # positions where a match may end, from here to before ``high``
    high: int
    fill: int  # whether to write matches, or only count them
    work_limit: int  # events to look at
    is_run_scope: int  # whether strategy ``next`` counts the events of the whole run as relevant


class PlaceLimits(NamedTuple):
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


class WalkPath(NamedTuple):
    """The state of a walk between calls, by depth."""

    path: np.ndarray  # places of the events
    component: np.ndarray
    first: np.ndarray  # (n_components,): depth at which each component begins
    cursor: np.ndarray  # the next event to look at
    open_: np.ndarray  # what may still be tried


class SearchOutput(NamedTuple):
    """What a search writes."""

    count_of_last: np.ndarray  # (n_places,)
    out_place: np.ndarray  # (n_items,): places of the events of all matches
    out_size: np.ndarray  # (n_matches, n_components)


class AutomatonTables(NamedTuple):
    """A regex query for `cepkit.kernels.interpreting`."""

    code: np.ndarray  # (n, 4): instructions; see above
    carried: np.ndarray  # (n_carried, 7): what partial matches carry; its columns are there, too
    follow: np.ndarray  # (n_bytes, 256): successors of each byte of a mask
    masks: np.ndarray  # (4,): all positions, first and accepting ones, those where the earliest start counts
    rf: np.ndarray  # float64, (n_registers,): registers, with the constants
    ri: np.ndarray  # (n_registers,)


class RowTask(NamedTuple):
    """Numbers of a call that advances partial matches; event j has the number ``row_base + j``."""

    start: int
    stop: int
    row_base: int
    room: int  # matches that fit the output
    work_limit: int  # partial matches to visit before the call ends early


class LiveStarts(NamedTuple):
    """The partial matches of each partition."""

    live: np.ndarray  # (n_partitions,): how many
    place: np.ndarray  # (n_partitions, 2): the first cell of each partition, and its number of cells
    start: np.ndarray  # (n_cells,)
    mask: np.ndarray  # (n_cells,)
    floats: np.ndarray  # float64, (n, n_cells): what they carry
    integers: np.ndarray  # (n, n_cells)


class Levels(NamedTuple):
    """Events to search in any order; limits and tests belong to the level that binds their last event."""

    levels: np.ndarray  # (n, 11); the columns of all tables are constants of `interpreted_ordered`
    bounds: np.ndarray  # (n, 3)
    tests: np.ndarray  # (n, 4)
    absences: np.ndarray  # (n, 6)
    joints: np.ndarray  # (n, 9): conditions on several events
    loads: np.ndarray  # (n, 4)
    code: np.ndarray  # (n, 4): instructions; see above
    floats: np.ndarray  # float64, what joint conditions read, by member
    rf: np.ndarray  # float64, (n_registers,): registers, with the constants
    bits_of_rf: np.ndarray  # a view of them
    ri: np.ndarray  # (n_registers,)
    places: np.ndarray  # of members; then limits, and the integers that joint conditions read, by member
    numbers: np.ndarray  # uint64, what tests compare


class Cursors(NamedTuple):
    """The state of each level of an ordered search."""

    cursor: np.ndarray  # the next member
    stop: np.ndarray  # the end of the members
    begin: np.ndarray  # where the block of members begins whose tests are known
    end: np.ndarray  # where it ends
    index: np.ndarray  # the member that is bound
    place: np.ndarray  # its place, by component
    held: np.ndarray  # uint8, (n, members in a block): whether the members of the block pass all tests


class PoolGraph(NamedTuple):
    """A state graph to count by; its columns are constants of `interpreted_counting`."""

    states: np.ndarray  # (n_states, 5)
    edges: np.ndarray  # (n_edges, 6), in the order of their targets
    first_edge: np.ndarray  # (n_states + 1,): first edge into each state
    tests: np.ndarray  # (n_tests, 3)
    first_test: np.ndarray  # (n_links + 1,): first test of each link
    first_member: np.ndarray  # (n_pools + 1,): where the members of each pool begin in ``places``
    places: np.ndarray  # of the members, then limits of edges
    numbers: np.ndarray  # uint64, what tests compare


class EntryGraph(NamedTuple):
    """A state graph with conditions on the first event of a match, its anchor; see `interpreted_anchored`."""

    first: np.ndarray  # (n_anchors,): the entries in the window of each anchor
    until: np.ndarray  # (n_anchors,)
    bits_of_anchor: np.ndarray  # bits that hold without tests that read both
    bits_of_entry: np.ndarray
    n_states: int
    finals: int  # mask of the final states
    edges: np.ndarray  # (n_edges, 7), in the order of their targets
    tests: np.ndarray  # (n, 4): between an entry and the anchor, with the bits that fail
    links: np.ndarray  # (n, 4): between two entries
    numbers: np.ndarray  # uint64, what tests compare


class EntryLists(NamedTuple):
    """Scratch to count by a graph of entries. Numbers of paths are uint64 or float64."""

    allowed: np.ndarray  # a cell per entry in a window
    totals: np.ndarray  # (n_states + n_edges,): paths to each state with the entry, and along each edge
    listed: np.ndarray  # (n_lists * room,): the entries of each list
    listed_number: np.ndarray  # (n_lists * room,): their numbers of paths


class ChainTask(NamedTuple):
    """Numbers of a walk over a chain from the last event to the first."""

    n_listed: int
    is_single: int
    chunk: int  # the first event of the arrays by event of a chunk
    limit: int  # no match begins here or later; such events serve earlier ones
    low: int  # matches end from here on
    fill: int  # whether to write matches, from the last one to the first
    within: int  # the longest time from the first to the last event; -1: no limit
    gap: int  # the longest time between neighbours


class ChainEvents(NamedTuple):
    """Events of a walk over a chain."""

    listed: np.ndarray  # int32, as `next_chain.classify` writes it
    component: np.ndarray  # uint8
    accept: np.ndarray  # uint8, (n_tests, n_events)
    partition: np.ndarray  # int32, (n_events,)
    time: np.ndarray  # (n_events,)
    components: np.ndarray  # (n_components, 4)
    numbers: np.ndarray  # (n_rows, width): what tests compare of the events of the chunk
    known: np.ndarray  # uint8, (n_rows, width)
    n_nulls: np.ndarray  # (n_rows,)


class Stacks(NamedTuple):
    """The stacks of each partition, one for each component but the first. They remain between calls."""

    base: np.ndarray  # where their entries begin
    size: np.ndarray  # int32
    room: np.ndarray  # int32
    entry: np.ndarray  # the number that a test compares
    ends: np.ndarray  # the event << 32 | the event after the last one of its match, or 0


class ChainOutput(NamedTuple):
    """What a walk over a chain writes."""

    out: np.ndarray  # int32, (n_matches, n_components)
    following: np.ndarray  # int32, (n_components - 3, n_events): next events of the components between
    count_of_last: np.ndarray  # (n_events,), or empty
    count_of_block: np.ndarray  # by blocks of last events, if matches are written


class NextReach(NamedTuple):
    """Places of accepted events, and which ones may be next. Those with a limit are int32."""

    bounds: np.ndarray  # (n_partitions + 1,): first place of each partition
    passed: np.ndarray  # int32: bits of the tests that an event passes
    later: np.ndarray  # the first place that may be next, or empty: any later one
    window_end: np.ndarray
    gap_end: np.ndarray  # or empty


class EdgeTask(NamedTuple):
    """Numbers of a search for the next places along an edge."""

    way: int
    k: int  # the partition of ``stop - 1``
    begin: int
    stop: int
    end: int  # later places are out of reach for all these places
    source: int  # bits of the events that need a target; 0: all
    target: int  # bits of the events that may be one


class EdgeValues(NamedTuple):
    """Tests and what they read."""

    tests: np.ndarray  # (n, 8)
    floats: np.ndarray  # float64, (n_values, n_places)
    integers: np.ndarray  # (n_values, n_places)


class EdgeScratch(NamedTuple):
    """A stack of places and their numbers, or a hash table with -1 in ``places``."""

    stack: np.ndarray  # int32
    numbers: np.ndarray
    places: np.ndarray  # int32


class NextEdges(NamedTuple):
    """Components, and the edges between events."""

    components: np.ndarray  # (n_components, 6)
    edges: np.ndarray  # (n_edges, 3): whether tests look at more than the last event; the span of the tests
    targets: np.ndarray  # int32, (n_edges, n_places): the next place, or the next one to test
    first_bit: int  # of the events where matches begin


class NextClock(NamedTuple):
    """Positions, and the ends of windows where ``window_end`` is empty."""

    position: np.ndarray  # int32, (n_places,)
    time: np.ndarray  # (n_places,)
    within: int


class NextPath(NamedTuple):
    """The state of a walk between calls, by depth."""

    path: np.ndarray
    component: np.ndarray
    first: np.ndarray  # (n_components + 1,)
    pending: np.ndarray  # where the next component may begin
