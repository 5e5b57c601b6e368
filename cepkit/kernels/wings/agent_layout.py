"""Columns and arrays of the kernels in `cepkit.kernels.wings.agent_steps`, which has their meaning."""

from typing import NamedTuple

import numpy as np

EVENTS, PARTIALS = 0, 1  # kinds of work
# Ways to allocate threads.
STATIC, STATE_DYNAMIC, FULLY_DYNAMIC, IN_STREAM_ORDER = range(4)
# Rules for removing events and partial matches: by watermarks, once their window has passed, or never.
WATERMARK, WINDOW, NOTHING = range(3)
# Results of a call. MORE_BLOCKS and all later codes mean that an array is too small.
WENT_ON, IDLE, FINISHED, STOPPED, MORE_BLOCKS, MORE_LOG, MORE_MATCHES, MORE_TRACE, MORE_ITEMS = range(9)
NEVER = 1e300
END = 1 << 62

# Columns of ``Network.stages``.
(COMPONENT, N_COMPONENTS, NEXT, BRANCH, IS_START, IS_LOOP, IN_ORDER, HAS_AGENT, IS_TESTED, IS_FUSED, GROUP,
 N_EVENT_WORKERS, N_MATCH_WORKERS) = range(13)  # fmt: skip
# Rows of ``Network.events`` and of ``Network.places``.
PLACE, POSITION, EXPIRY = range(3)
# Last index of ``Network.cost``: cost per item, look, comparison, buffer, sent partial match.
ITEM, LOOK, COMPARE, LOCK, SEND = range(5)
# Indices of ``Network.options``.
(ALLOCATION, BATCH, CHUNK, IS_SCOPED, REMOVAL, IS_KEPT, START_END, BACKLOG, IS_TRACED, IS_REAL,
 SOURCE_BY_THREADS, ROUTE, IS_RISING, IS_TIMED) = range(14)  # fmt: skip
# Columns of ``ItemBlocks.header``; rows of ``ItemBlocks.limits``; states of a block.
STAGE, N_ROWS, LEAST_LAST, MOST_LIMIT, LONGEST, PASS_OF, CHAIN = range(7)
LAST, LIMIT = range(2)
FREE, FILLING, WAITING, HELD, RETIRED = range(5)
# Fields of an entry of ``ItemBlocks.log``.
NUMBER, TICKET, LOW, HIGH, IS_ALIVE = range(5)
# Indices of ``control``, the numbers that threads share, each on its own cache line: those of the run, of a
# stage, and of a thread. After EVENTS_… comes PARTIALS_…, so ``EVENTS_LOW + kind`` is the index of a kind.
LINE = 8  # numbers in a cache line
(STOP, CURSOR, OUTSTANDING, N_ENDED, PASS_LOCK, SOURCE_LOCK, FREE_LOCK, N_FREE, N_MADE, PASS, N_SINCE,
 NEXT_PASS, N_MATCHES, N_TRACED, N_WAITING, N_FOUND) = range(16)  # fmt: skip
(TICKETS, EVENT_HEAD, EVENT_TAIL, HEAD, TAIL, EVENTS_LOW, PARTIALS_LOW, EVENTS_NEXT, PARTIALS_NEXT,
 EVENTS_HELD, PARTIALS_HELD, PARTIALS_QUEUED) = range(12)  # fmt: skip
MARK, EPOCH = range(2)
N_OF_RUN, N_OF_STAGE, N_OF_THREAD = 16, 12, 2
# Columns of ``Own.hand``: the step that a thread is at.
(PHASE, KIND, AT_STAGE, FIRST, STOP_AT, HELD_TICKET, N_BLOCKS, N_RANGES, N_SPARE, OPEN_NEXT, OPEN_LOOP,
 CHAIN_NEXT, CHAIN_LOOP, OWN_CHAIN, FOREIGN, RANDOM, LONGEST_TAKEN, N_TAKEN, N_COMPARED, N_TO_NEXT,
 N_TO_LOOP, N_MATCHED, N_LOOKED, N_TESTED) = range(24)  # fmt: skip
NOTHING_TAKEN, TAKEN, JOINED = range(3)  # phases of a step
# Columns of ``Own.counts``; the first three are pairs, one column per kind of work.
LOOKED, COMPARED, N_ITEMS, N_SENT, N_LOOPED, N_LOCKS, N_COMPLETE = 0, 2, 4, 6, 7, 8, 9
N_COUNTS = 10
# Columns of ``Own.time``: when the current step began, what it costs; busy time; latencies of its matches.
BEGUN, TAKES, BUSY, LATENCY, MOST_LATENCY = range(5)
# Columns of a trace.
(BY_THREAD, OF_STAGE, ACTION, BEGIN, UNTIL, WITH_ITEMS, WITH_COMPARED, WITH_SENT, WITH_LOOPED, WITH_MATCHES,
 EVENTS_REMOVED, PARTIALS_REMOVED, WITH_LOOKED, WITH_TESTED) = range(14)  # fmt: skip
N_TRACE_COLUMNS = 14
BY_SOURCE, BY_EVENTS, BY_PARTIALS, BY_REMOVAL = range(4)
MOST_HITS = 256  # results of one call of a join


class Network(NamedTuple):
    """Stages, threads and events of a run."""

    stages: np.ndarray  # int64, (n_stages, 13); the first stage of a branch starts its partial matches
    events: np.ndarray  # int64, (3, n): events of each stage, by stage, in stream order
    first_event: np.ndarray  # int64, (n_stages + 1,)
    deliveries: np.ndarray  # int64, (2, n): stage and position of each delivery, in stream order
    places: np.ndarray  # int64, (3, n_places), by place
    arrival: np.ndarray  # float64, (n_places,), by position, ns
    serves: np.ndarray  # uint8, (n_stages, n_threads, 2)
    home: np.ndarray  # int64, (n_threads, 2): stage and kind
    cost: np.ndarray  # float64, (n_stages, 2, 5), ns
    options: np.ndarray  # int64, (14,)


class ItemBlocks(NamedTuple):
    """Partial matches by block and row, and the state of the blocks."""

    items: np.ndarray  # int64, (n_blocks, n_rows, width): places, component by component
    sizes: np.ndarray  # int32, (n_blocks, n_rows, n_components)
    limits: np.ndarray  # int64, (2, n_blocks, n_rows): position of the last event; of the last that may join
    header: np.ndarray  # int64, (n_blocks, 16): 7 are used; no two rows share a cache line
    state: np.ndarray  # int64, (n_blocks,)
    queue: np.ndarray  # int64, (n_stages, n_blocks): rings; number << 24 | block
    free: np.ndarray  # int64, (n_blocks,): a stack
    log: np.ndarray  # int64, (2, n_stages, length, 5): rings; events are LOW to HIGH, a block is LOW
    memo: np.ndarray  # int64, (n,): tests of pairs of events; see `cepkit.parallel.join_source`


class FullMatches(NamedTuple):
    """Matches in the order of discovery."""

    items: np.ndarray  # int64, (n, width)
    sizes: np.ndarray  # int32, (n, n_components)
    branch: np.ndarray  # int64, (n,)
    time: np.ndarray  # float64, (n,), ns


class Own(NamedTuple):
    """The private arrays of each thread; the last thread is the source."""

    hand: np.ndarray  # int64, (n_threads, 24)
    spare: np.ndarray  # int64, (n_threads, n): free blocks
    lists: np.ndarray  # int64, (n_threads, 3, n): blocks, and the begins and ends of ranges of events
    out: np.ndarray  # int64, (n_threads, 3, MOST_HITS)
    path: np.ndarray  # int64, (n_threads, width)
    first: np.ndarray  # int64, (n_threads, n_components)
    at: np.ndarray  # int64, (n_threads, 4): where a paused join continues
    report: np.ndarray  # int64, (n_threads, 3)
    counts: np.ndarray  # int64, (n_threads, n_stages, 10)
    time: np.ndarray  # float64, (n_threads, 5)
    marks: np.ndarray  # int64, (n_threads, 2, n_stages)


class World(NamedTuple):
    """What conditions of joins read; see `WORLD` in `cepkit.parallel.join_source`."""

    limits: np.ndarray  # int64, (5, n_places)
    accept: np.ndarray  # uint8, (n_tests, n_places)
    floats: np.ndarray  # float64, (n, n_places)
    integers: np.ndarray  # int64, (n, n_places)
    vectors: np.ndarray  # float64, (n, n_places, width); interpreted joins have their tables here, as 64 bits
    float_constants: np.ndarray  # float64
    integer_constants: np.ndarray  # int64
    texts: np.ndarray  # uint8


class Joins(NamedTuple):
    """The functions of a query by their addresses, and what they read."""

    join: int
    completes: int
    world: tuple[np.ndarray, ...]  # the fields of `World`


class JoinPartners(NamedTuple):
    """What a batch meets: ``lists`` has blocks, and the begins and ends of ranges of events."""

    n_blocks: int
    n_ranges: int
    lists: np.ndarray


class JoinBlocks(NamedTuple):
    """Partial matches; see `ItemBlocks`."""

    header: np.ndarray
    items: np.ndarray
    sizes: np.ndarray
    spans: np.ndarray


class JoinMode(NamedTuple):
    """Whether partial matches end by their limits, places rise, and matches are only counted."""

    scoped: int
    rising: int
    counted: int


class JoinState(NamedTuple):
    """The arrays of the thread; see `Own`. ``memo`` is shared."""

    at: np.ndarray
    path: np.ndarray
    first: np.ndarray
    out: np.ndarray
    report: np.ndarray
    memo: np.ndarray
