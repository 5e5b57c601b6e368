"""Agents of the hybrid protocol: the steps of a thread, taken on real threads or in virtual time.

A stage is a join: it has a queue of partial matches and one of events, and a log of each kind for what was
taken. A thread takes a batch, enters it into the log under the stage's next ticket, and joins it with what
the other log has under lower tickets: so each pair meets once, at the later of the two. Partial matches live
in blocks, which the queues pass on, or which a thread keeps to go on with them; they are used again when no
event to come can extend them.

Nothing is locked while pairs are tested. Whoever stops in the middle, for larger arrays or an interrupt,
goes on there.
"""

from functools import cache
from typing import NamedTuple

import numpy as np
from numba import njit
from numba import types as T

from cepkit.kernels import atomic

EVENTS, PARTIALS = 0, 1  # the kinds of work
# How threads are allocated.
STATIC, STATE_DYNAMIC, FULLY_DYNAMIC, IN_STREAM_ORDER = range(4)
# Which events and partial matches are removed: by watermarks, or when their window has passed, or none.
WATERMARK, WINDOW, NOTHING = range(3)
# What a call ends with. From MORE_BLOCKS on an array is too small.
WENT_ON, IDLE, FINISHED, STOPPED, MORE_BLOCKS, MORE_LOG, MORE_MATCHES, MORE_TRACE, MORE_ITEMS = range(9)
NEVER = 1e300
END = 1 << 62

# Columns of ``Network.stages``.
(COMPONENT, N_COMPONENTS, NEXT, BRANCH, IS_START, IS_LOOP, IN_ORDER, HAS_AGENT, IS_TESTED, IS_FUSED, GROUP,
 N_EVENT_WORKERS, N_MATCH_WORKERS) = range(13)  # fmt: skip
# Rows of ``Network.events`` and of ``Network.places``.
PLACE, POSITION, EXPIRY = range(3)
# What ``Network.cost`` holds by stage and kind: per item, look, comparison, buffer, sent partial match.
ITEM, LOOK, COMPARE, LOCK, SEND = range(5)
# What ``Network.options`` holds.
(ALLOCATION, BATCH, CHUNK, IS_SCOPED, REMOVAL, IS_KEPT, START_END, BACKLOG, IS_TRACED, IS_REAL,
 SOURCE_BY_THREADS, ROUTE, IS_RISING, IS_TIMED) = range(14)  # fmt: skip
# Columns of ``Blocks.header``, rows of ``Blocks.limits``; states of blocks.
STAGE, N_ROWS, LEAST_LAST, MOST_LIMIT, LONGEST, PASS_OF, CHAIN = range(7)
LAST, LIMIT = range(2)
FREE, FILLING, WAITING, HELD, RETIRED = range(5)
# Fields of an entry of ``Blocks.log``.
NUMBER, TICKET, LOW, HIGH, IS_ALIVE = range(5)
# ``control``: numbers that threads share, each on a cache line of its own; those of the run, of each stage
# and of each thread.
_LINE = 8
(STOP, CURSOR, OUTSTANDING, N_ENDED, PASS_LOCK, SOURCE_LOCK, FREE_LOCK, N_FREE, N_MADE, PASS, N_SINCE,
 NEXT_PASS, N_MATCHES, N_TRACED, N_WAITING, N_FOUND) = range(16)  # fmt: skip
(TICKETS, EVENT_HEAD, EVENT_TAIL, HEAD, TAIL, EVENTS_LOW, PARTIALS_LOW, EVENTS_NEXT, PARTIALS_NEXT,
 EVENTS_HELD, PARTIALS_HELD, PARTIALS_QUEUED) = range(12)  # fmt: skip
MARK, EPOCH = range(2)
N_OF_RUN, N_OF_STAGE, N_OF_THREAD = 16, 12, 2
# Columns of ``Own.hand``: what a thread is at.
(PHASE, KIND, AT_STAGE, FIRST, STOP_AT, HELD_TICKET, N_BLOCKS, N_RANGES, N_SPARE, OPEN_NEXT, OPEN_LOOP,
 CHAIN_NEXT, CHAIN_LOOP, OWN_CHAIN, FOREIGN, RANDOM, LONGEST_TAKEN, N_TAKEN, N_COMPARED, N_TO_NEXT,
 N_TO_LOOP, N_MATCHED, N_LOOKED, N_TESTED) = range(24)  # fmt: skip
NOTHING_TAKEN, TAKEN, JOINED = range(3)  # phases
# Columns of ``Own.counts``; the first three pairs are by kind of work.
LOOKED, COMPARED, N_ITEMS, N_SENT, N_LOOPED, N_LOCKS, N_COMPLETE = 0, 2, 4, 6, 7, 8, 9
N_COUNTS = 10
# Columns of ``Own.time``: when a thread began what it is at and what that costs; latencies of its matches.
BEGUN, TAKES, BUSY, LATENCY, MOST_LATENCY = range(5)
# Columns of a trace.
(BY_THREAD, OF_STAGE, ACTION, BEGIN, UNTIL, WITH_ITEMS, WITH_COMPARED, WITH_SENT, WITH_LOOPED, WITH_MATCHES,
 EVENTS_REMOVED, PARTIALS_REMOVED, WITH_LOOKED, WITH_TESTED) = range(14)  # fmt: skip
N_TRACE_COLUMNS = 14
BY_SOURCE, BY_EVENTS, BY_PARTIALS, BY_REMOVAL = range(4)
MOST_HITS = 256  # that a join finds at once


class Network(NamedTuple):
    """Stages and threads of a run, and the events."""

    stages: np.ndarray  # int64, (n_stages, 13); the first stage of a branch starts its partial matches
    events: np.ndarray  # int64, (3, n): what each stage takes, stage by stage, in stream order
    first_event: np.ndarray  # int64, (n_stages + 1,)
    deliveries: np.ndarray  # int64, (2, n): stage and position of what the source passes on, in stream order
    places: np.ndarray  # int64, (3, n_places), by place
    arrival: np.ndarray  # float64, (n_places,), by position, ns
    serves: np.ndarray  # uint8, (n_stages, n_threads, 2)
    home: np.ndarray  # int64, (n_threads, 2): stage and kind
    cost: np.ndarray  # float64, (n_stages, 2, 5), ns
    options: np.ndarray  # int64, (14,)


class Blocks(NamedTuple):
    """Partial matches by block and row, and what is known of the blocks."""

    items: np.ndarray  # int64, (n_blocks, n_rows, width): places, component by component
    sizes: np.ndarray  # int32, (n_blocks, n_rows, n_components)
    limits: np.ndarray  # int64, (2, n_blocks, n_rows): position of the last event; of the last that may join
    header: np.ndarray  # int64, (n_blocks, 16): 7 are used, and no two rows share a cache line
    state: np.ndarray  # int64, (n_blocks,)
    queue: np.ndarray  # int64, (n_stages, n_blocks): rings; number << 24 | block
    free: np.ndarray  # int64, (n_blocks,): a stack
    log: np.ndarray  # int64, (2, n_stages, length, 5): rings; of events from LOW to HIGH, of blocks LOW
    memo: np.ndarray  # int64, (n,): what pairs of events came to; see `cepkit.parallel.compile.join_source`


class Found(NamedTuple):
    """Matches in the order in which they were found."""

    items: np.ndarray  # int64, (n, width)
    sizes: np.ndarray  # int32, (n, n_components)
    branch: np.ndarray  # int64, (n,)
    time: np.ndarray  # float64, (n,), ns


class Own(NamedTuple):
    """What each thread has for itself; the last one is the source."""

    hand: np.ndarray  # int64, (n_threads, 24)
    spare: np.ndarray  # int64, (n_threads, n): free blocks
    lists: np.ndarray  # int64, (n_threads, 3, n): blocks, and where ranges of events begin and end
    out: np.ndarray  # int64, (n_threads, 3, MOST_HITS)
    path: np.ndarray  # int64, (n_threads, width)
    first: np.ndarray  # int64, (n_threads, n_components)
    at: np.ndarray  # int64, (n_threads, 4): where a join goes on
    report: np.ndarray  # int64, (n_threads, 3)
    counts: np.ndarray  # int64, (n_threads, n_stages, 10)
    time: np.ndarray  # float64, (n_threads, 5)
    marks: np.ndarray  # int64, (n_threads, 2, n_stages)


def _arrays(*types):
    """Return the array types that letters name: ``i2`` int64, 2 dimensions; capitals are read-only."""
    scalars = {"i": T.int64, "f": T.float64, "b": T.uint8, "s": T.int32}
    return tuple(T.Array(scalars[kind.lower()], int(n), "C", readonly=kind.isupper()) for kind, n in types)


_WORLD = _arrays("I2", "B2", "F2", "I2", "F3", "F1", "I1", "B1")
JOIN = T.FunctionType(
    T.int64(
        T.int64, T.int64, T.int64, *_arrays("i2", "i2", "i3", "s3", "i3", "I2"), T.int64, T.int64, T.int64,
        *_arrays("i1", "i1", "i1", "i2", "i1", "i1"), *_WORLD,
    )
)  # fmt: skip
COMPLETES = T.FunctionType(T.boolean(T.int64, *_arrays("i1", "i1"), *_WORLD))
_TYPES = (
    JOIN,
    COMPLETES,
    T.Tuple(_WORLD),  # what conditions read; see `cepkit.parallel.compile.join_source`
    T.NamedTuple(_arrays("I2", "I2", "I1", "I2", "I2", "F1", "B3", "I2", "F3", "I1"), Network),
    T.NamedTuple(_arrays("i3", "s3", "i3", "i2", "i1", "i2", "i1", "i4", "i1"), Blocks),
    T.NamedTuple(_arrays("i2", "s2", "i1", "f1"), Found),
    T.NamedTuple(_arrays("i2", "i2", "i3", "i3", "i2", "i2", "i2", "i2", "i3", "f2", "i3"), Own),
    *_arrays("i1", "f2"),
)
_HELPER = {"nogil": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True, "_nrt": False}
# A call copies the descriptions of all arrays that it is given, some 100 numbers: too much for a pair.
_INLINED = {**_HELPER, "forceinline": True}


# --- shared numbers


@njit(**_INLINED)
def _of_stage(stage, what):
    return (N_OF_RUN + stage * N_OF_STAGE + what) * _LINE


@njit(**_INLINED)
def _of_thread(n_stages, r, what):
    return (N_OF_RUN + n_stages * N_OF_STAGE + r * N_OF_THREAD + what) * _LINE


@njit(**_INLINED)
def _locked(control, lock):
    while not atomic.swap(control, lock * _LINE, 0, 1):
        pass


# --- blocks


@njit(**_INLINED)
def _has_spare(free, control, own, r, need):
    """Let a thread have ``need`` free blocks; return False when there are not so many."""
    hand = own.hand[r]
    if hand[N_SPARE] >= need:
        return True
    _locked(control, FREE_LOCK)
    n_free = atomic.load(control, N_FREE * _LINE)
    while hand[N_SPARE] < need and n_free > 0:
        n_free -= 1
        block = free[n_free]
        own.spare[r, hand[N_SPARE]] = block
        hand[N_SPARE] += 1
        if block >= atomic.load(control, N_MADE * _LINE):
            atomic.store(control, N_MADE * _LINE, block + 1)
    atomic.store(control, N_FREE * _LINE, n_free)
    atomic.store(control, FREE_LOCK * _LINE, 0)
    return hand[N_SPARE] >= need


@njit(**_INLINED)
def _published(blocks, control, block, stage):
    """Put a block into the queue of a stage."""
    header = blocks.header[block]
    n_blocks = len(blocks.state)
    atomic.add(control, OUTSTANDING * _LINE, 1)
    atomic.add(control, N_WAITING * _LINE, header[N_ROWS])
    atomic.add(control, _of_stage(stage, PARTIALS_QUEUED), header[N_ROWS])
    atomic.store(blocks.state, block, WAITING)
    number = atomic.add(control, _of_stage(stage, TAIL), 1)
    atomic.store(blocks.queue, stage * n_blocks + number % n_blocks, number << 24 | block)


@njit(**_INLINED)
def _passed_on(blocks, control, own, r, to):
    """Publish the blocks that a thread filled, for the next stage or (OPEN_LOOP) for its own one."""
    hand = own.hand[r]
    chain = CHAIN_NEXT if to == OPEN_NEXT else CHAIN_LOOP
    block = hand[chain]
    hand[chain] = -1
    while block >= 0:
        after = blocks.header[block, CHAIN]
        _published(blocks, control, block, blocks.header[block, STAGE])
        block = after


@njit(**_INLINED)
def _closed(blocks, own, r, to):
    """Add the block that a thread fills to those that it has filled."""
    hand = own.hand[r]
    chain = CHAIN_NEXT if to == OPEN_NEXT else CHAIN_LOOP
    if hand[to] >= 0:
        blocks.header[hand[to], CHAIN] = hand[chain]
        hand[chain] = hand[to]
        hand[to] = -1


@njit(**_INLINED)
def _added(blocks, spare, hand, path, first, to, stage, n_components, n_items, last, limit):
    """Add the partial match in a thread's path to the block that it fills; return whether that is full."""
    block = hand[to]
    if block < 0:
        hand[N_SPARE] -= 1
        block = spare[hand[N_SPARE]]
        hand[to] = block
        header = blocks.header[block]
        header[STAGE], header[N_ROWS], header[LONGEST] = stage, 0, 0
        header[LEAST_LAST], header[MOST_LIMIT] = END, -1
        atomic.store(blocks.state, block, FILLING)
    header = blocks.header[block]
    row = header[N_ROWS]
    for i in range(n_items):
        blocks.items[block, row, i] = path[i]
    for c in range(n_components):
        blocks.sizes[block, row, c] = first[c + 1] - first[c]
    blocks.limits[LAST, block, row], blocks.limits[LIMIT, block, row] = last, limit
    header[N_ROWS] = row + 1
    header[LEAST_LAST], header[MOST_LIMIT] = min(header[LEAST_LAST], last), max(header[MOST_LIMIT], limit)
    header[LONGEST] = max(header[LONGEST], n_items)
    return row + 1 == blocks.items.shape[1]


@njit(**_INLINED)
def _path_of(items, sizes, path, first, n_components, component, block, row, place):
    """Write a row (-1: none) with an event added into a path; return its number of events."""
    d, s = 0, 0
    for k in range(n_components):
        first[k] = d
        if row >= 0:
            for _ in range(sizes[block, row, k]):
                path[d] = items[block, row, s]
                d += 1
                s += 1
        if k == component:
            path[d] = place
            d += 1
    first[n_components] = d
    return d


@njit(**_INLINED)
def _keeps_own(net, control, own):
    """Return whether threads go on with the partial matches that they made themselves.

    They do where all serve all agents, while so much waits that no other one lacks work: what another thread
    made has to come from its cache. That does not matter in virtual time.
    """
    if not net.options[IS_REAL] or net.options[ALLOCATION] != FULLY_DYNAMIC:
        return False
    enough = min(len(own.hand) * net.options[BATCH], net.options[BACKLOG])
    return atomic.load(control, N_WAITING * _LINE) >= enough


@njit(**_INLINED)
def _goes_on_itself(net, control, own, stage):
    """Return whether the thread that a stage's partial matches are from takes them for the next one."""
    return net.stages[stage, IS_FUSED] or _keeps_own(net, control, own)


@njit(**_INLINED)
def _needs_path(net, stage):
    """Return whether pairs that fit are more than counted."""
    own = net.stages[stage]
    return own[IS_TESTED] or own[IS_LOOP] or own[NEXT] >= 0 or net.options[IS_KEPT]


@njit(**_INLINED)
def _kept(net, blocks, found, own, control, completes, world, r, stage, n_hits, time):
    """Let the pairs in a thread's ``out`` go where they belong: to a queue, to the matches, or nowhere."""
    hand, counts, out, path, first = own.hand[r], own.counts[r, stage], own.out[r], own.path[r], own.first[r]
    after, is_loop, is_tested = (
        net.stages[stage, NEXT], net.stages[stage, IS_LOOP], net.stages[stage, IS_TESTED]
    )  # fmt: skip
    n_components, is_kept, is_real = (
        net.stages[stage, N_COMPONENTS], net.options[IS_KEPT], net.options[IS_REAL]
    )  # fmt: skip
    component, position, expiry = net.stages[stage, COMPONENT], net.places[POSITION], net.places[EXPIRY]
    n_matched, n_sent, n_looped = 0, 0, 0
    latency, most_latency = 0.0, own.time[r, MOST_LATENCY]
    needs_path = _needs_path(net, stage)
    if not needs_path:  # they are only counted
        n_matched, n_hits = n_hits, 0
        is_timed = not is_real and net.options[IS_TIMED]  # latencies are those of virtual time
        if not is_real and not is_timed and n_matched > 0:
            latency, most_latency = time * n_matched, max(most_latency, time)
        for i in range(n_matched if is_timed else 0):
            last = max(position[out[2, i]], blocks.limits[LAST, out[0, i], out[1, i]])
            since = time - net.arrival[last]
            latency += since
            most_latency = max(most_latency, since)
    for i in range(n_hits):
        block, row, place = out[0, i], out[1, i], out[2, i]
        last, n_items, goes_on = position[place], 0, True
        if row >= 0:
            last = max(last, blocks.limits[LAST, block, row])
        if needs_path:
            n_items = _path_of(
                blocks.items, blocks.sizes, path, first, n_components, component, block, row, place
            )
        if is_tested:
            if row < 0 and not completes(len(net.stages) + stage, path, first, *world):
                continue  # it begins nothing
            goes_on = completes(stage, path, first, *world)
        if goes_on and after < 0:
            n_matched += 1
            since = time - net.arrival[last]
            latency += since
            most_latency = max(most_latency, since)
            if is_kept:
                m = atomic.add(control, N_FOUND * _LINE, 1)
                for k in range(n_items):
                    found.items[m, k] = path[k]
                for k in range(n_components):
                    found.sizes[m, k] = first[k + 1] - first[k]
                found.branch[m], found.time[m] = net.stages[stage, BRANCH], time
        elif goes_on:
            n_sent += 1
            if _added(blocks, own.spare[r], hand, path, first, OPEN_NEXT, after, n_components, n_items, last,
                      expiry[path[0]]):  # fmt: skip
                _closed(blocks, own, r, OPEN_NEXT)
                if is_real and not _goes_on_itself(net, control, own, stage):
                    _passed_on(blocks, control, own, r, OPEN_NEXT)
        if is_loop:
            n_looped += 1
            if _added(blocks, own.spare[r], hand, path, first, OPEN_LOOP, stage, n_components, n_items, last,
                      expiry[path[0]]):  # fmt: skip
                _closed(blocks, own, r, OPEN_LOOP)
                if is_real:
                    _passed_on(blocks, control, own, r, OPEN_LOOP)
    own.time[r, LATENCY] += latency
    own.time[r, MOST_LATENCY] = most_latency
    hand[N_MATCHED] += n_matched
    hand[N_TO_NEXT] += n_sent
    hand[N_TO_LOOP] += n_looped
    counts[N_COMPLETE] += n_matched
    counts[N_SENT] += n_sent
    counts[N_LOOPED] += n_looped


# --- what can still arrive, and what is removed


@njit(**_HELPER)
def _marked(net, blocks, own, control, r):
    """Write the least positions that may still reach the buffers; return False when a step ended meanwhile.

    Then something may have moved from where it was not yet seen to where it was no longer seen.
    """
    n_stages, marks = len(net.stages), own.marks[r]
    n_ended = atomic.load(control, N_ENDED * _LINE)
    cursor = atomic.load(control, CURSOR * _LINE)
    source = net.deliveries[1, cursor] if cursor < net.deliveries.shape[1] else END
    for s in range(n_stages):
        head, tail = (
            atomic.load(control, _of_stage(s, EVENT_HEAD)), atomic.load(control, _of_stage(s, EVENT_TAIL))
        )  # fmt: skip
        marks[EVENTS, s], marks[PARTIALS, s] = source, END
        if head < tail and net.stages[s, HAS_AGENT]:
            marks[EVENTS, s] = min(source, net.events[POSITION, head])
    for z in range(len(own.hand)):
        mark = atomic.load(control, _of_thread(n_stages, z, MARK))
        if mark >= 0:
            s = mark % n_stages
            marks[EVENTS, s] = min(marks[EVENTS, s], mark // n_stages)
    for b in range(atomic.load(control, N_MADE * _LINE)):
        if atomic.load(blocks.state, b) == WAITING:
            s = blocks.header[b, STAGE]
            marks[PARTIALS, s] = min(marks[PARTIALS, s], blocks.header[b, LEAST_LAST])
    for s in range(n_stages):
        # What a stage's events make reaches the next one, and in a loop the stage itself.
        if not net.stages[s, IS_START]:
            before = s - 1
            marks[PARTIALS, s] = min(marks[PARTIALS, s], marks[PARTIALS, before], marks[EVENTS, before])
        if net.stages[s, IS_LOOP] or net.stages[s, IS_START]:
            marks[PARTIALS, s] = min(marks[PARTIALS, s], marks[EVENTS, s])
    return atomic.load(control, N_ENDED * _LINE) == n_ended


@njit(**_HELPER)
def _removed(net, blocks, own, control, trace, r, now):
    """Remove what can take part in no match to come."""
    if not atomic.swap(control, PASS_LOCK * _LINE, 0, 1):
        return
    n_stages, length, n_logged = len(net.stages), blocks.log.shape[2], 0
    is_marked = _marked(net, blocks, own, control, r)
    number = atomic.load(control, PASS * _LINE)
    for s in range(n_stages if is_marked else 0):
        n_events, n_partials = 0, 0
        for kind in range(2):
            low_at, next_at = (
                (_of_stage(s, EVENTS_LOW), _of_stage(s, EVENTS_NEXT))
                if kind == EVENTS
                else (_of_stage(s, PARTIALS_LOW), _of_stage(s, PARTIALS_NEXT))
            )
            low, end = atomic.load(control, low_at), atomic.load(control, next_at)
            is_tight = net.stages[s, IN_ORDER] and net.options[REMOVAL] == WATERMARK
            limits = net.events[POSITION if is_tight else EXPIRY]
            mark, is_first, gone = own.marks[r, 1 - kind, s], True, 0
            for i in range(low, end):
                at = ((kind * n_stages + s) * length + i % length) * 5
                if atomic.load(blocks.log, at + NUMBER) != i + 1:
                    is_first = False  # is just being written
                    continue
                entry = blocks.log[kind, s, i % length]
                if entry[IS_ALIVE]:
                    block = entry[LOW]
                    if kind == EVENTS:
                        is_gone, n = limits[entry[HIGH] - 1] < mark, entry[HIGH] - entry[LOW]
                    else:
                        is_gone = atomic.load(blocks.state, block) == HELD
                        is_gone = is_gone and blocks.header[block, MOST_LIMIT] < mark
                        n = blocks.header[block, N_ROWS]
                    if is_gone:
                        atomic.store(blocks.log, at + IS_ALIVE, 0)
                        gone += n
                        if kind == PARTIALS:
                            blocks.header[block, PASS_OF] = number
                            atomic.store(blocks.state, block, RETIRED)
                if is_first and entry[IS_ALIVE]:
                    is_first = False
                if is_first:
                    low = i + 1
            atomic.store(control, low_at, low)
            n_logged += end - low
            atomic.add(control, _of_stage(s, EVENTS_HELD if kind == EVENTS else PARTIALS_HELD), -gone)
            if kind == EVENTS:
                n_events = gone
            else:
                n_partials = gone
        if net.options[IS_TRACED] and n_events + n_partials > 0:
            if net.options[IS_REAL]:  # behind the begin of every step whose items are removed
                now = np.float64(atomic.nanoseconds())
            row = trace[atomic.add(control, N_TRACED * _LINE, 1)]
            row[:] = 0
            row[BY_THREAD], row[OF_STAGE], row[ACTION], row[BEGIN], row[UNTIL] = r, s, BY_REMOVAL, now, now
            row[EVENTS_REMOVED], row[PARTIALS_REMOVED] = n_events, n_partials
    if is_marked:
        _freed(net, blocks, own, control, number)
        atomic.store(control, PASS * _LINE, number + 1)
        atomic.store(control, N_SINCE * _LINE, 0)
        n_used = len(blocks.free) - atomic.load(control, N_FREE * _LINE)
        atomic.store(control, NEXT_PASS * _LINE, 8 + (n_logged + n_used) // 8)
    atomic.store(control, PASS_LOCK * _LINE, 0)


@njit(**_HELPER)
def _freed(net, blocks, own, control, number):
    """Make the blocks free that were retired before every step that is under way began."""
    oldest = number
    for z in range(len(own.hand)):
        oldest = min(oldest, atomic.load(control, _of_thread(len(net.stages), z, EPOCH)))
    _locked(control, FREE_LOCK)
    n_free = atomic.load(control, N_FREE * _LINE)
    for b in range(atomic.load(control, N_MADE * _LINE)):
        if atomic.load(blocks.state, b) == RETIRED and blocks.header[b, PASS_OF] < oldest:
            atomic.store(blocks.state, b, FREE)
            blocks.free[n_free] = b
            n_free += 1
    atomic.store(control, N_FREE * _LINE, n_free)
    atomic.store(control, FREE_LOCK * _LINE, 0)


# --- a thread's step


@njit(**_INLINED)
def _waits(control, stage, kind):
    """Return whether an item waits for a stage."""
    if kind == EVENTS:
        tail = atomic.load(control, _of_stage(stage, EVENT_TAIL))
        return atomic.load(control, _of_stage(stage, EVENT_HEAD)) < tail
    return atomic.load(control, _of_stage(stage, HEAD)) < atomic.load(control, _of_stage(stage, TAIL))


@njit(**_INLINED)
def _waits_in_group(net, control, stage, kind):
    """Return the stage of an agent for which an item waits, the one whose event came first; or -1."""
    if net.stages[stage, GROUP] == stage and not net.stages[stage, IS_FUSED]:
        return stage if _waits(control, stage, kind) else -1
    best, least = -1, END
    for s in range(len(net.stages)):
        is_own = net.stages[s, GROUP] == net.stages[stage, GROUP] and net.stages[s, HAS_AGENT]
        if is_own and _waits(control, s, kind):
            position = s
            if kind == EVENTS:  # others may have taken the last one meanwhile
                head = atomic.load(control, _of_stage(s, EVENT_HEAD))
                position = net.events[POSITION, min(head, net.first_event[s + 1] - 1)]
            if position < least:
                best, least = s, position
    return best


@njit(**_INLINED)
def _chosen(net, control, hand, r):
    """Return the work that a thread takes next, ``2 * stage + kind``, or -1."""
    allocation, n_stages = net.options[ALLOCATION], len(net.stages)
    if allocation == IN_STREAM_ORDER:
        for i in range(2 * n_stages):
            s, kind = n_stages - 1 - i % n_stages, PARTIALS if i < n_stages else EVENTS
            if net.stages[s, HAS_AGENT] and _waits(control, s, kind):
                return 2 * s + kind
        return -1
    home, kind = net.home[r, 0], net.home[r, 1]
    if home < 0:  # there is no agent: beginnings are all
        return -1
    for other in range(1 if allocation == STATIC else 2):
        wanted = kind if other == 0 else 1 - kind
        s = _waits_in_group(net, control, home, wanted)
        if s >= 0:
            return 2 * s + wanted
    if allocation != FULLY_DYNAMIC:
        return -1
    hand[RANDOM] = (hand[RANDOM] * 1103515245 + 12345) % 2147483648
    start = (hand[RANDOM] >> 8) % n_stages
    for i in range(-1, n_stages):  # the last successful one first
        s = hand[FOREIGN] if i < 0 else (start + i) % n_stages
        for other in range(2):
            wanted = kind if other == 0 else 1 - kind
            if net.stages[s, HAS_AGENT] and _waits(control, s, wanted):
                hand[FOREIGN] = s
                return 2 * s + wanted
    return -1


@njit(**_INLINED)
def _has_room(net, blocks, own, control, stage, kind):
    """Return whether the log of a stage takes one more entry of every thread."""
    low = atomic.load(control, _of_stage(stage, EVENTS_LOW if kind == EVENTS else PARTIALS_LOW))
    end = atomic.load(control, _of_stage(stage, EVENTS_NEXT if kind == EVENTS else PARTIALS_NEXT))
    return end - low + len(own.hand) < blocks.log.shape[2]


@njit(**_INLINED)
def _has_rows(net, own, control, trace):
    """Return whether a trace takes what every thread may write until it asks again."""
    n_rows = len(own.hand) * (2 * len(net.stages) + 4)
    return not net.options[IS_TRACED] or atomic.load(control, N_TRACED * _LINE) + n_rows <= len(trace)


@njit(**_INLINED)
def _given_away(net, blocks, control, own, hand):
    """Pass on a thread's own blocks when others may lack work, down to one that is between fused agents."""
    while hand[OWN_CHAIN] >= 0:
        block = hand[OWN_CHAIN]
        stage = blocks.header[block, STAGE]
        if _goes_on_itself(net, control, own, stage - 1):
            return
        hand[OWN_CHAIN] = blocks.header[block, CHAIN]
        _published(blocks, control, block, stage)
        atomic.add(control, OUTSTANDING * _LINE, -1)  # it was counted as the thread's own


@njit(**_INLINED)
def _taken(net, blocks, own, control, r, work):
    """Take a batch of a queue, or (-1) a block of the thread's own; return False when others were faster."""
    hand, n_stages, n_blocks = own.hand[r], len(net.stages), len(blocks.state)
    stage, kind = work // 2, work % 2
    if work < 0:
        block = hand[OWN_CHAIN]
        stage, kind = blocks.header[block, STAGE], PARTIALS
        hand[OWN_CHAIN] = blocks.header[block, CHAIN]
        hand[FIRST] = block
    elif kind == EVENTS:
        at = _of_stage(stage, EVENT_HEAD)
        head, tail = atomic.load(control, at), atomic.load(control, _of_stage(stage, EVENT_TAIL))
        n = min(tail - head, net.options[BATCH])
        if n <= 0:
            return False
        # In hand before it leaves the queue: watermarks see it here or there.
        mark = _of_thread(n_stages, r, MARK)
        atomic.store(control, mark, net.events[POSITION, head] * n_stages + stage)
        if not atomic.swap(control, at, head, head + n):
            atomic.store(control, mark, -1)
            return False
        hand[FIRST], hand[STOP_AT], hand[N_TAKEN] = head, head + n, n
        atomic.add(control, _of_stage(stage, EVENTS_HELD), n)
    else:
        at = _of_stage(stage, HEAD)
        head = atomic.load(control, at)
        value = atomic.load(blocks.queue, stage * n_blocks + head % n_blocks)
        if value >> 24 != head or not atomic.swap(control, at, head, head + 1):
            return False
        hand[FIRST] = value & ((1 << 24) - 1)
    if kind == PARTIALS:
        n = blocks.header[hand[FIRST], N_ROWS]
        hand[N_TAKEN] = n
        atomic.add(control, _of_stage(stage, PARTIALS_HELD), n)
        if work >= 0:
            atomic.add(control, _of_stage(stage, PARTIALS_QUEUED), -n)
    if work >= 0:
        atomic.add(control, N_WAITING * _LINE, -hand[N_TAKEN])
    atomic.store(control, _of_thread(n_stages, r, EPOCH), atomic.load(control, PASS * _LINE))
    hand[KIND], hand[AT_STAGE] = kind, stage
    # Into the log: first its place there, then the ticket, so that who has a higher one finds this entry.
    i = atomic.add(control, _of_stage(stage, EVENTS_NEXT if kind == EVENTS else PARTIALS_NEXT), 1)
    length = blocks.log.shape[2]
    entry, at = blocks.log[kind, stage, i % length], ((kind * n_stages + stage) * length + i % length) * 5
    atomic.store(blocks.log, at + NUMBER, -i - 1)
    hand[HELD_TICKET] = atomic.add(control, _of_stage(stage, TICKETS), 1)
    entry[TICKET], entry[LOW], entry[HIGH], entry[IS_ALIVE] = hand[HELD_TICKET], hand[FIRST], hand[STOP_AT], 1
    atomic.store(blocks.log, at + NUMBER, i + 1)
    return True


@njit(**_INLINED)
def _gathered(net, blocks, own, control, r):
    """List what a thread's batch is to be joined with: blocks, or ranges of events."""
    hand, lists, n_stages = own.hand[r], own.lists[r], len(net.stages)
    stage, kind, ticket = hand[AT_STAGE], hand[KIND], hand[HELD_TICKET]
    other, length = 1 - kind, blocks.log.shape[2]
    low = atomic.load(control, _of_stage(stage, EVENTS_LOW if other == EVENTS else PARTIALS_LOW))
    end = atomic.load(control, _of_stage(stage, EVENTS_NEXT if other == EVENTS else PARTIALS_NEXT))
    n, position = 0, net.events[POSITION]
    least, most = 0, 0
    if kind == EVENTS:
        least, most = position[hand[FIRST]], position[hand[STOP_AT] - 1]
    else:
        least, most = blocks.header[hand[FIRST], LEAST_LAST], blocks.header[hand[FIRST], MOST_LIMIT]
    is_pruned, in_order = net.options[IS_SCOPED], net.stages[stage, IN_ORDER]
    longest = blocks.header[hand[FIRST], LONGEST] if kind == PARTIALS else 0
    for i in range(low, end):
        at = ((other * n_stages + stage) * length + i % length) * 5
        number = atomic.load(blocks.log, at + NUMBER)
        while number != i + 1 and abs(number) <= i + 1:  # its thread is about to write it
            number = atomic.load(blocks.log, at + NUMBER)
        if number != i + 1:
            continue  # was removed, its place is used again
        # In this order: the number is looked at again when all of the entry has been read.
        a, b = atomic.load(blocks.log, at + LOW), atomic.load(blocks.log, at + HIGH)
        is_alive, other_ticket = (
            atomic.load(blocks.log, at + IS_ALIVE), atomic.load(blocks.log, at + TICKET)
        )  # fmt: skip
        if atomic.load(blocks.log, at + NUMBER) != i + 1 or not is_alive or other_ticket > ticket:
            continue
        if other == PARTIALS:
            header = blocks.header[a]
            if is_pruned and (header[MOST_LIMIT] < least or (in_order and header[LEAST_LAST] >= most)):
                continue
            longest = max(longest, header[LONGEST])
            lists[0, n] = a
            n += 1
        else:
            if is_pruned and (position[a] > most or (in_order and position[b - 1] <= least)):
                continue
            if n and lists[2, n - 1] == a:
                lists[2, n - 1] = b
            else:
                lists[1, n], lists[2, n] = a, b
                n += 1
    hand[LONGEST_TAKEN] = longest
    if kind == EVENTS:
        lists[1, 0], lists[2, 0] = hand[FIRST], hand[STOP_AT]
        hand[N_BLOCKS], hand[N_RANGES] = n, 1
    else:
        lists[0, 0] = hand[FIRST]
        hand[N_BLOCKS], hand[N_RANGES] = 1, n
    at = own.at[r]
    at[0], at[1], at[2], at[3] = 0 if n else hand[N_BLOCKS], 0, 0, -1


@njit(**_INLINED)
def _joined(join, completes, world, net, blocks, found, own, control, r, now):
    """Join a thread's batch with what was gathered; return WENT_ON when all is done."""
    hand, at, report, out = own.hand[r], own.at[r], own.report[r], own.out[r]
    stage, kind = hand[AT_STAGE], hand[KIND]
    cost, counts = net.cost[stage, kind], own.counts[r, stage]
    need = 2 * (MOST_HITS // blocks.items.shape[1] + 2)
    n_threads = len(own.hand)
    # In virtual time each match has a time of its own.
    is_counted = net.options[IS_REAL] and not _needs_path(net, stage)
    while at[0] < hand[N_BLOCKS]:
        if atomic.load(control, STOP * _LINE):
            return STOPPED
        if not _has_spare(blocks.free, control, own, r, need):
            return MORE_BLOCKS
        room = len(found.branch) - n_threads * MOST_HITS - net.options[CHUNK]
        if net.options[IS_KEPT] and atomic.load(control, N_FOUND * _LINE) > room:
            return MORE_MATCHES
        if hand[LONGEST_TAKEN] + 1 > blocks.items.shape[2]:
            return MORE_ITEMS
        n = join(
            stage, hand[N_BLOCKS], hand[N_RANGES], own.lists[r], blocks.header, blocks.items, blocks.sizes,
            blocks.limits, net.events, net.options[IS_SCOPED], net.options[IS_RISING], is_counted, at,
            own.path[r], own.first[r], out, report, blocks.memo, *world
        )  # fmt: skip
        counts[COMPARED + kind] += report[0]
        hand[N_COMPARED] += report[0]
        hand[N_LOOKED] += report[1]
        hand[N_TESTED] += report[2]
        counts[LOOKED + kind] += report[1]
        own.time[r, TAKES] += report[2] * cost[COMPARE] + report[1] * cost[LOOK] + n * cost[SEND]
        time = now + own.time[r, TAKES]
        if net.options[IS_REAL]:
            time = np.float64(atomic.nanoseconds()) if net.options[IS_TRACED] else 0.0
        _kept(net, blocks, found, own, control, completes, world, r, stage, n, time)
    return WENT_ON


@njit(**_INLINED)
def _ended(net, blocks, own, control, trace, r, now):
    """Pass on what a thread's step has made, and let go of its batch."""
    hand, n_stages = own.hand[r], len(net.stages)
    stage, kind = hand[AT_STAGE], hand[KIND]
    _closed(blocks, own, r, OPEN_NEXT)
    _closed(blocks, own, r, OPEN_LOOP)
    if _goes_on_itself(net, control, own, stage):
        while hand[CHAIN_NEXT] >= 0:  # without a queue
            block = hand[CHAIN_NEXT]
            hand[CHAIN_NEXT] = blocks.header[block, CHAIN]
            blocks.header[block, CHAIN] = hand[OWN_CHAIN]
            hand[OWN_CHAIN] = block
            atomic.add(control, OUTSTANDING * _LINE, 1)
            atomic.store(blocks.state, block, WAITING)
    else:
        _passed_on(blocks, control, own, r, OPEN_NEXT)
    _passed_on(blocks, control, own, r, OPEN_LOOP)
    if net.options[IS_TRACED]:
        row = trace[atomic.add(control, N_TRACED * _LINE, 1)]
        row[BY_THREAD], row[OF_STAGE], row[ACTION] = r, stage, BY_EVENTS + kind
        row[BEGIN], row[UNTIL], row[WITH_ITEMS] = own.time[r, BEGUN], now, hand[N_TAKEN]
        row[WITH_COMPARED], row[WITH_MATCHES] = hand[N_COMPARED], hand[N_MATCHED]
        row[WITH_SENT], row[WITH_LOOPED] = hand[N_TO_NEXT], hand[N_TO_LOOP]
        row[EVENTS_REMOVED], row[PARTIALS_REMOVED] = 0, 0
        row[WITH_LOOKED], row[WITH_TESTED] = hand[N_LOOKED], hand[N_TESTED]
    own.time[r, BUSY] += now - own.time[r, BEGUN]
    # Before the batch is let go: who reads watermarks now reads them again.
    atomic.add(control, N_ENDED * _LINE, 1)
    if kind == EVENTS:
        atomic.store(control, _of_thread(n_stages, r, MARK), -1)
        atomic.add(control, OUTSTANDING * _LINE, -hand[N_TAKEN])
    else:
        atomic.store(blocks.state, hand[FIRST], HELD)
        atomic.add(control, OUTSTANDING * _LINE, -1)
    atomic.store(control, _of_thread(n_stages, r, EPOCH), END)
    hand[PHASE] = NOTHING_TAKEN
    if net.options[REMOVAL] != NOTHING:
        since = atomic.add(control, N_SINCE * _LINE, 1)
        if since >= atomic.load(control, NEXT_PASS * _LINE):
            _removed(net, blocks, own, control, trace, r, now)


@njit(**_HELPER)
def _delivered(completes, world, net, blocks, found, own, control, trace, r, now):
    """Pass on the source's next events; return FINISHED when there are none."""
    n_deliveries = net.deliveries.shape[1]
    cursor = atomic.load(control, CURSOR * _LINE)
    if cursor >= n_deliveries:
        return FINISHED
    if not _has_rows(net, own, control, trace):
        return MORE_TRACE
    if not _has_spare(blocks.free, control, own, r, 2 * net.options[CHUNK] + 2):
        return MORE_BLOCKS
    if net.options[IS_KEPT]:
        room = len(found.branch) - len(own.hand) * MOST_HITS - net.options[CHUNK]
        if atomic.load(control, N_FOUND * _LINE) > room:
            return MORE_MATCHES
    hand, end = own.hand[r], min(cursor + net.options[CHUNK], n_deliveries)
    if not net.options[IS_REAL]:  # those behind the first may be still to arrive
        for i in range(end - 1, cursor, -1):
            if net.arrival[net.deliveries[1, i]] > now:
                end = i
    n_done, n_waiting, was = 0, 0, -1
    hand[N_TO_NEXT], hand[N_TO_LOOP], hand[N_MATCHED] = 0, 0, 0  # of the thread's last step
    for s in range(len(net.stages)):
        own.marks[r, 0, s], own.marks[r, 1, s] = own.counts[r, s, N_SENT], own.counts[r, s, N_LOOPED]
    for i in range(cursor, end):
        stage, position = net.deliveries[0, i], net.deliveries[1, i]
        event_at = _of_stage(stage, EVENT_TAIL)
        event = atomic.load(control, event_at)
        if net.stages[stage, IS_START] and position < net.options[START_END]:
            if was >= 0 and was != stage:  # blocks are of one stage
                _closed(blocks, own, r, OPEN_NEXT)
                _closed(blocks, own, r, OPEN_LOOP)
            was = stage
            own.out[r, 0, 0], own.out[r, 1, 0], own.out[r, 2, 0] = -1, -1, net.events[PLACE, event]
            _kept(net, blocks, found, own, control, completes, world, r, stage, 1, now)
        atomic.store(control, event_at, event + 1)
        if net.stages[stage, HAS_AGENT]:
            n_waiting += 1
        else:
            n_done += 1
    _closed(blocks, own, r, OPEN_NEXT)
    _closed(blocks, own, r, OPEN_LOOP)
    _passed_on(blocks, control, own, r, OPEN_NEXT)
    _passed_on(blocks, control, own, r, OPEN_LOOP)
    atomic.add(control, N_WAITING * _LINE, n_waiting)
    for s in range(-1, len(net.stages) if net.options[IS_TRACED] else -1):
        n_sent = own.counts[r, s, N_SENT] - own.marks[r, 0, s] if s >= 0 else 0
        n_looped = own.counts[r, s, N_LOOPED] - own.marks[r, 1, s] if s >= 0 else 0
        if s < 0 or n_sent + n_looped > 0:
            row = trace[atomic.add(control, N_TRACED * _LINE, 1)]
            row[:] = 0
            row[BY_THREAD], row[OF_STAGE], row[ACTION], row[BEGIN], row[UNTIL] = r, s, BY_SOURCE, now, now
            row[WITH_ITEMS] = end - cursor if s < 0 else 0
            row[WITH_SENT], row[WITH_LOOPED] = n_sent, n_looped
            row[WITH_MATCHES] = hand[N_MATCHED] if s < 0 else 0
    atomic.add(control, N_ENDED * _LINE, 1)
    atomic.store(control, CURSOR * _LINE, end)
    atomic.add(control, OUTSTANDING * _LINE, -n_done)
    return WENT_ON


@njit(**_INLINED)
def _advanced(join, completes, world, net, blocks, found, own, control, trace, r, now):
    """Let a thread end what it is at, take a batch and join it; return what came of it."""
    hand = own.hand[r]
    if hand[PHASE] == JOINED:
        _ended(net, blocks, own, control, trace, r, now)
        if net.options[IS_REAL] and net.options[IS_TRACED]:
            now = np.float64(atomic.nanoseconds())
    if hand[PHASE] == NOTHING_TAKEN:
        if not _has_rows(net, own, control, trace):
            return MORE_TRACE
        work, random, foreign = -1, hand[RANDOM], hand[FOREIGN]
        _given_away(net, blocks, control, own, hand)
        if hand[OWN_CHAIN] < 0:
            work = _chosen(net, control, hand, r)
            if work < 0:
                return IDLE
            if not _has_room(net, blocks, own, control, work // 2, work % 2):
                hand[RANDOM], hand[FOREIGN] = random, foreign  # it chooses again
                return MORE_LOG
        elif not _has_room(net, blocks, own, control, blocks.header[hand[OWN_CHAIN], STAGE], PARTIALS):
            return MORE_LOG
        if not _taken(net, blocks, own, control, r, work):
            return WENT_ON
        _gathered(net, blocks, own, control, r)
        stage, kind, counts = hand[AT_STAGE], hand[KIND], own.counts[r, hand[AT_STAGE]]
        cost = net.cost[stage, kind]
        n_buffers = net.stages[stage, N_MATCH_WORKERS if kind == EVENTS else N_EVENT_WORKERS]
        counts[N_ITEMS + kind] += hand[N_TAKEN]
        counts[N_LOCKS] += n_buffers
        own.time[r, BEGUN] = now
        own.time[r, TAKES] = hand[N_TAKEN] * cost[ITEM] + n_buffers * cost[LOCK]
        hand[N_COMPARED], hand[N_LOOKED], hand[N_TESTED] = 0, 0, 0
        hand[N_TO_NEXT], hand[N_TO_LOOP], hand[N_MATCHED] = 0, 0, 0
        hand[PHASE] = TAKEN
    code = _joined(join, completes, world, net, blocks, found, own, control, r, now)
    if code == WENT_ON:
        hand[PHASE] = JOINED
    return code


# --- threads


def _work(join, completes, world, net, blocks, found, own, control, trace, r, n_spins):
    """Let a real thread work until all is done, another one stops, or there was nothing to do for long."""
    n_waited = 0
    while not atomic.load(control, STOP * _LINE):
        now = np.float64(atomic.nanoseconds()) if net.options[IS_TRACED] else 0.0
        code = _advanced(join, completes, world, net, blocks, found, own, control, trace, r, now)
        if code == IDLE:
            if atomic.load(control, OUTSTANDING * _LINE) == 0:
                # Whose pass is under way may have begun before the source was at its end.
                while atomic.load(control, PASS_LOCK * _LINE) and not atomic.load(control, STOP * _LINE):
                    pass
                _removed(net, blocks, own, control, trace, r, now)
                return FINISHED
            is_wanted = atomic.load(control, N_WAITING * _LINE) < net.options[BACKLOG]
            if is_wanted and atomic.swap(control, SOURCE_LOCK * _LINE, 0, 1):
                code = _delivered(completes, world, net, blocks, found, own, control, trace, r, now)
                atomic.store(control, SOURCE_LOCK * _LINE, 0)
        if code == WENT_ON:
            n_waited = 0
        elif code >= MORE_BLOCKS:
            atomic.swap(control, STOP * _LINE, 0, code)
            return code
        else:
            n_waited += 1
            if n_waited > n_spins:
                return IDLE
    return STOPPED


@njit(**_INLINED)
def _woken(net, control, clock, n_threads, now):
    """Let a thread that waits go on, for every stage for which something waits."""
    for stage in range(len(net.stages)):
        for kind in range(2 if net.stages[stage, HAS_AGENT] else 0):
            if _waits(control, stage, kind):
                for r in range(n_threads):
                    if clock[r] >= NEVER and net.serves[stage, r, kind]:
                        clock[r] = now
                        break


def _simulate(join, completes, world, net, blocks, found, own, control, trace, clock, held, n_steps):
    """Play all threads in virtual time: the one whose clock is least goes next.

    ``clock`` has the threads' clocks, that of the source, and when the last step ended; ``held`` the bytes
    of an event and of a partial match by stage, then those held and their greatest number.
    """
    n_threads, n_stages = len(own.hand) - 1, len(net.stages)
    n_deliveries = net.deliveries.shape[1]
    for _ in range(n_steps):
        r, now, waits = n_threads, clock[n_threads], False
        for z in range(n_threads):
            waits |= clock[z] >= NEVER
            if clock[z] < now:
                r, now = z, clock[z]
        if now >= NEVER:
            _removed(net, blocks, own, control, trace, n_threads, clock[n_threads + 1])
            return FINISHED
        n_passed = atomic.load(control, CURSOR * _LINE)
        if r == n_threads:
            if atomic.load(control, N_WAITING * _LINE) >= net.options[BACKLOG]:
                clock[r] = NEVER  # a step that ends lets it go on
                continue
            code = _delivered(completes, world, net, blocks, found, own, control, trace, r, now)
        else:
            code = _advanced(join, completes, world, net, blocks, found, own, control, trace, r, now)
            if code == IDLE and net.options[SOURCE_BY_THREADS]:
                cursor = atomic.load(control, CURSOR * _LINE)
                if cursor < n_deliveries:
                    arrival = net.arrival[net.deliveries[1, cursor]]
                    if arrival > now:
                        clock[r] = arrival
                        continue
                    code = _delivered(completes, world, net, blocks, found, own, control, trace, r, now)
                    if code == WENT_ON:
                        clock[n_threads + 1] = max(clock[n_threads + 1], now)
                        continue
        if code >= MORE_BLOCKS:
            return code
        n_passed = atomic.load(control, CURSOR * _LINE) - n_passed
        if code in (IDLE, FINISHED):
            clock[r] = NEVER
        elif r < n_threads:
            clock[r] = now + own.time[r, TAKES]
            clock[n_threads + 1] = max(clock[n_threads + 1], clock[r])
        else:
            clock[n_threads + 1] = max(clock[n_threads + 1], now)
        cursor = atomic.load(control, CURSOR * _LINE)
        if not net.options[SOURCE_BY_THREADS] and cursor < n_deliveries:
            if r == n_threads:
                passed = now + (n_passed - 1) * net.options[ROUTE]
                clock[r] = max(passed, net.arrival[net.deliveries[1, cursor]]) + net.options[ROUTE]
            elif clock[n_threads] >= NEVER:
                clock[n_threads] = max(now, net.arrival[net.deliveries[1, cursor]])
        if waits or clock[r] >= NEVER:
            _woken(net, control, clock, n_threads, now)
        n_bytes = 0.0
        for s in range(n_stages):
            n_partials = atomic.load(control, _of_stage(s, PARTIALS_HELD))
            n_partials += atomic.load(control, _of_stage(s, PARTIALS_QUEUED))
            n_bytes += held[0, s] * atomic.load(control, _of_stage(s, EVENTS_HELD)) + held[1, s] * n_partials
        held[0, n_stages] = n_bytes
        held[1, n_stages] = max(held[1, n_stages], n_bytes)
    return WENT_ON


@cache
def work():
    """Return the kernel of a real thread; it is compiled once on a machine."""
    return njit(T.int64(*_TYPES, T.int64, T.int64), nogil=True, cache=True, error_model="numpy")(_work)


@cache
def simulation():
    """Return the kernel of all threads in virtual time; it is compiled once on a machine."""
    types = T.int64(*_TYPES, *_arrays("f1", "f2"), T.int64)
    return njit(types, nogil=True, cache=True, error_model="numpy")(_simulate)
