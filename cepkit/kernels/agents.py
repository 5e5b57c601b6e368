"""Agents of the hybrid protocol in virtual time: one thread of the machine plays any number of theirs.

A thread takes one step at a time: it takes an item, or scans one buffer for it. The thread whose clock is least
goes next, so that a run is one interleaving of the real protocol, and the same every time.
"""

from typing import NamedTuple

import numpy as np
from numba import njit
from numba import types as T

I1, F1, B1 = T.Array(T.int64, 1, "C"), T.Array(T.float64, 1, "C"), T.Array(T.uint8, 1, "C")
I2, F2, B2 = T.Array(T.int64, 2, "C"), T.Array(T.float64, 2, "C"), T.Array(T.uint8, 2, "C")
I3, S2 = T.Array(T.int64, 3, "C"), T.Array(T.int32, 2, "C")
RI1, RF1, RB1 = (T.Array(t, 1, "C", readonly=True) for t in (T.int64, T.float64, T.uint8))
RI2, RF2, RB2 = (T.Array(t, 2, "C", readonly=True) for t in (T.int64, T.float64, T.uint8))
RS2 = T.Array(T.int32, 2, "C", readonly=True)
_WORLD = (RI2, RB2, RF2, RI2, RF1, RI1, RB1)
JOIN_EVENTS = T.FunctionType(T.int64(T.int64, I1, I1, RI1, T.int64, T.int64, I1, I1, *_WORLD))
JOIN_PARTIALS = T.FunctionType(
    T.int64(T.int64, T.int64, RI1, T.int64, T.int64, RI2, RS2, I1, I1, I1, I1, *_WORLD)
)
COMPLETES = T.FunctionType(T.boolean(T.int64, I1, I1, *_WORLD))

_HELPER = {"nogil": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True, "_nrt": False}

EVENTS, PARTIALS = 0, 1  # the kinds of workers, by what they take
# How threads are allocated.
STATIC, STATE_DYNAMIC, FULLY_DYNAMIC, IN_STREAM_ORDER = range(4)
# Why a run stops.
FINISHED, PAUSED, MORE_PARTIALS, MORE_QUEUE, MORE_BUFFER, MORE_MATCHES, MORE_ITEMS = range(7)
# What is written to the totals.
N_MATCHES, N_TICKETS, N_STEPS, N_ITEMS, N_FREE, DELIVERED, N_SENT, N_LOCKS, MOST_PARTIALS, RANDOM = range(10)
# The costs of a run in virtual time.
BASE, COMPARE, LOCK, SEND, ROUTE = range(5)
NEVER = 1e300
_END = 1 << 62


class Network(NamedTuple):
    """Stages and threads of a run; nothing of it changes.

    A stage is a join; the first of every branch starts its partial matches.
    """

    component_of_stage: np.ndarray  # int64, (n_stages,)
    n_components_of_stage: np.ndarray
    next_of_stage: np.ndarray  # the stage behind it, -1: its partial matches are matches
    branch_of_stage: np.ndarray
    is_start: np.ndarray  # uint8, (n_stages,)
    is_loop: np.ndarray
    in_order: np.ndarray  # whether its events come behind all those bound before
    has_agent: np.ndarray  # all but starts without a loop
    first_event_of_stage: np.ndarray  # int64, (n_stages + 1,)
    place_of_event: np.ndarray  # int64, (n,): what each stage takes, in stream order
    position_of_place: np.ndarray  # int64, (n_places,)
    last_position_of_place: np.ndarray  # of what may be in the window that begins there
    stage_of_stream: np.ndarray  # int64, (n_delivered,): which stage the source serves next, in stream order
    arrival_of_position: np.ndarray  # float64, (n_places,)
    serves: np.ndarray  # uint8, (n_stages, n_threads * 2)
    home_stage: np.ndarray  # int64, (n_threads,)
    home_kind: np.ndarray
    cost: np.ndarray  # float64, (5,)


class Agents(NamedTuple):
    """What changes during a run."""

    item_of_partial: np.ndarray  # int64, (n_partials, width)
    size_of_partial: np.ndarray  # int32, (n_partials, n_components)
    last_of_partial: np.ndarray  # int64, (n_partials,): position of the last event
    expiry_of_partial: np.ndarray  # int64, (n_partials,): last position of an event that may join
    free: np.ndarray  # int64, (n_partials,)
    queue: np.ndarray  # int64, (n_stages, length)
    queue_time: np.ndarray  # float64, (n_stages, length)
    queue_head: np.ndarray  # int64, (n_stages,)
    queue_tail: np.ndarray
    least: np.ndarray  # int64, (n_stages, length): numbers of the queue's items, their last positions rising
    least_head: np.ndarray
    least_tail: np.ndarray
    event_head: np.ndarray  # int64, (n_stages,)
    event_tail: np.ndarray
    event_buffer: np.ndarray  # int64, (n_stages, n_threads, length)
    event_ticket: np.ndarray
    event_low: np.ndarray  # int64, (n_stages, n_threads)
    event_high: np.ndarray
    partial_buffer: np.ndarray  # int64, (n_stages, n_threads, length)
    partial_ticket: np.ndarray
    n_partials: np.ndarray  # int64, (n_stages, n_threads)
    least_expiry: np.ndarray  # int64, (n_stages, n_threads)
    locked_until: np.ndarray  # float64, (n_stages, n_threads * 2)
    clock: np.ndarray  # float64, (n_threads + 1,); the last is the source
    busy: np.ndarray  # float64, (n_threads,)
    ended: np.ndarray  # float64, (n_threads,): when each did something last
    waits_since: np.ndarray  # float64, (n_threads,), NEVER: does not wait
    hand_kind: np.ndarray  # int64, (n_threads,), -1: nothing
    hand_stage: np.ndarray
    hand_item: np.ndarray
    hand_ticket: np.ndarray
    next_buffer: np.ndarray
    last_stage: np.ndarray
    compared: np.ndarray  # int64, (n_stages, 2)
    taken: np.ndarray
    out_item: np.ndarray  # int64, (n_matches, width)
    out_size: np.ndarray  # int32, (n_matches, n_components)
    out_branch: np.ndarray  # int64, (n_matches,)
    out_time: np.ndarray  # float64, (n_matches,)
    path: np.ndarray  # int64, scratch
    first: np.ndarray
    hits: np.ndarray
    report: np.ndarray
    totals: np.ndarray  # int64, (10,)


class World(NamedTuple):
    """What conditions read; see `cepkit.compile.join_source`."""

    limits: np.ndarray
    accept: np.ndarray
    floats: np.ndarray
    integers: np.ndarray
    float_constants: np.ndarray
    integer_constants: np.ndarray
    tables: np.ndarray


# --- partial matches


@njit(**_HELPER)
def _load(st, n_components, partial):
    """Put the path of a partial match into the scratch arrays."""
    d = 0
    for c in range(n_components):
        st.first[c] = d
        d += st.size_of_partial[partial, c]
    st.first[n_components] = d
    for i in range(d):
        st.path[i] = st.item_of_partial[partial, i]


@njit(**_HELPER)
def _extended(net, st, source, stage, place):
    """Return a new partial match: ``source`` (-1: none) with the event at ``place`` added."""
    free = st.totals[N_FREE] - 1
    st.totals[N_FREE] = free
    new = st.free[free]
    n, c = net.n_components_of_stage[stage], net.component_of_stage[stage]
    last = net.position_of_place[place]
    if source < 0:
        for k in range(n):
            st.size_of_partial[new, k] = 0
        st.item_of_partial[new, 0] = place
        low = place
    else:
        at, total = 0, 0
        for k in range(n):
            size = st.size_of_partial[source, k]
            st.size_of_partial[new, k] = size
            total += size
            if k <= c:
                at += size
        for i in range(at):
            st.item_of_partial[new, i] = st.item_of_partial[source, i]
        st.item_of_partial[new, at] = place
        for i in range(at, total):
            st.item_of_partial[new, i + 1] = st.item_of_partial[source, i]
        low = st.item_of_partial[new, 0]
        last = max(last, st.last_of_partial[source])
    st.size_of_partial[new, c] += 1
    st.last_of_partial[new] = last
    st.expiry_of_partial[new] = net.last_position_of_place[low]
    return new


@njit(**_HELPER)
def _push(net, st, stage, partial, time):
    """Put a partial match into the queue of a stage; wake those who wait for it."""
    length = st.queue.shape[1]
    tail = st.queue_tail[stage]
    st.queue[stage, tail % length], st.queue_time[stage, tail % length] = partial, time
    st.queue_tail[stage] = tail + 1
    # The numbers whose last positions rise: the first of them has the least of all that wait.
    last, end = st.last_of_partial[partial], st.least_tail[stage]
    while end > st.least_head[stage]:
        other = st.least[stage, (end - 1) % length]
        if st.last_of_partial[st.queue[stage, other % length]] < last:
            break
        end -= 1
    st.least[stage, end % length] = tail
    st.least_tail[stage] = end + 1
    _wake(net, st, stage, time)


@njit(**_HELPER)
def _wake(net, st, stage, time):
    n_threads = len(st.waits_since)
    for r in range(n_threads):
        if st.waits_since[r] < NEVER and net.serves[stage, 2 * r] + net.serves[stage, 2 * r + 1]:
            st.clock[r] = min(st.clock[r], max(time, st.waits_since[r]))


@njit(**_HELPER)
def _send(completes, world, net, st, partial, stage, time):
    """Send a new partial match on: to its own stage again, to the next one, or to the matches."""
    n = net.n_components_of_stage[stage]
    _load(st, n, partial)
    done = completes(
        stage, st.path, st.first, world.limits, world.accept, world.floats, world.integers,
        world.float_constants, world.integer_constants, world.tables,
    )  # fmt: skip
    kept = False
    if done:
        after = net.next_of_stage[stage]
        if after < 0:
            m = st.totals[N_MATCHES]
            st.totals[N_MATCHES] = m + 1
            for i in range(st.first[n]):
                st.out_item[m, i] = st.path[i]
            for c in range(n):
                st.out_size[m, c] = st.size_of_partial[partial, c]
            st.out_branch[m], st.out_time[m] = net.branch_of_stage[stage], time
        else:
            _push(net, st, after, partial, time)
            kept = True
    if net.is_loop[stage]:
        if kept:  # every queue owns what is in it
            free = st.totals[N_FREE] - 1
            st.totals[N_FREE] = free
            copy = st.free[free]
            for i in range(st.first[n]):
                st.item_of_partial[copy, i] = st.item_of_partial[partial, i]
            for c in range(n):
                st.size_of_partial[copy, c] = st.size_of_partial[partial, c]
            st.last_of_partial[copy] = st.last_of_partial[partial]
            st.expiry_of_partial[copy] = st.expiry_of_partial[partial]
            partial = copy
        _push(net, st, stage, partial, time)
        kept = True
    if not kept:
        _release(st, partial)


@njit(**_HELPER)
def _release(st, partial):
    st.free[st.totals[N_FREE]] = partial
    st.totals[N_FREE] += 1


# --- what can still arrive


@njit(**_HELPER)
def _event_watermark(net, st, stage):
    """Return the least position of the events that may still reach the buffers of a stage."""
    mark = _source_watermark(net, st)
    if not net.has_agent[stage]:
        return mark
    if st.event_head[stage] < st.event_tail[stage]:
        mark = min(mark, net.position_of_place[net.place_of_event[st.event_head[stage]]])
    for r in range(len(st.hand_kind)):
        if st.hand_kind[r] == EVENTS and st.hand_stage[r] == stage:
            mark = min(mark, net.position_of_place[st.hand_item[r]])
    return mark


@njit(**_HELPER)
def _source_watermark(net, st):
    delivered = st.totals[DELIVERED]
    if delivered >= len(net.stage_of_stream):
        return _END
    stage = net.stage_of_stream[delivered]
    return net.position_of_place[net.place_of_event[st.event_tail[stage]]]


@njit(**_HELPER)
def _partial_watermark(net, st, stage):
    """Return the least last position of the partial matches that may still reach the buffers of a stage."""
    mark = _source_watermark(net, st)
    s = stage
    while True:
        if st.least_head[s] < st.least_tail[s]:
            number = st.least[s, st.least_head[s] % st.queue.shape[1]]
            mark = min(mark, st.last_of_partial[st.queue[s, number % st.queue.shape[1]]])
        for r in range(len(st.hand_kind)):
            if st.hand_kind[r] == PARTIALS and st.hand_stage[r] == s:
                mark = min(mark, st.last_of_partial[st.hand_item[r]])
        if net.is_loop[s]:
            mark = min(mark, _event_watermark(net, st, s))
        if net.is_start[s]:
            return mark
        s -= 1
        if net.has_agent[s]:
            mark = min(mark, _event_watermark(net, st, s))


# --- steps


@njit(**_HELPER)
def _remove_events(net, st, stage, r):
    """Drop the oldest of a thread's events that no partial match to come can take."""
    mark = _partial_watermark(net, st, stage)
    low, high = st.event_low[stage, r], st.event_high[stage, r]
    while low < high:
        place = st.event_buffer[stage, r, low]
        limit = net.position_of_place[place] if net.in_order[stage] else net.last_position_of_place[place]
        if limit >= mark:
            break
        low += 1
    st.event_low[stage, r] = low
    if low == high:
        st.event_low[stage, r] = st.event_high[stage, r] = 0


@njit(**_HELPER)
def _remove_partials(net, st, stage, r):
    """Drop a thread's partial matches that no event to come can extend."""
    mark = _event_watermark(net, st, stage)
    if st.least_expiry[stage, r] >= mark:
        return
    n, kept, least = st.n_partials[stage, r], 0, _END
    for i in range(n):
        partial = st.partial_buffer[stage, r, i]
        expiry = st.expiry_of_partial[partial]
        if expiry < mark:
            _release(st, partial)
            continue
        least = min(least, expiry)
        st.partial_buffer[stage, r, kept] = partial
        st.partial_ticket[stage, r, kept] = st.partial_ticket[stage, r, i]
        kept += 1
    st.n_partials[stage, r], st.least_expiry[stage, r] = kept, least


@njit(**_HELPER)
def _deliver(completes, world, net, st):
    """Let the source pass its next event on; return why it cannot, or FINISHED."""
    n_threads = len(st.hand_kind)
    if st.totals[N_FREE] < 2:
        return MORE_PARTIALS
    stage = net.stage_of_stream[st.totals[DELIVERED]]
    place = net.place_of_event[st.event_tail[stage]]
    if net.is_start[stage]:
        after = net.next_of_stage[stage]
        for s in (stage, after):
            if s >= 0 and st.queue_tail[s] - st.queue_head[s] >= st.queue.shape[1]:
                return MORE_QUEUE
        if st.totals[N_MATCHES] >= len(st.out_branch):
            return MORE_MATCHES
    time = st.clock[n_threads]
    st.event_tail[stage] += 1
    st.totals[DELIVERED] += 1
    if net.is_start[stage]:
        partial = _extended(net, st, -1, stage, place)
        _send(completes, world, net, st, partial, stage, time)
    if not net.is_start[stage] or net.is_loop[stage]:
        _wake(net, st, stage, time)
    st.clock[n_threads] = next_delivery(net, st, time)
    return FINISHED


@njit(nogil=True, cache=True)
def next_delivery(net, st, time):
    """Return when the source passes its next event on, after ``time``; NEVER behind the last."""
    delivered = st.totals[DELIVERED]
    if delivered >= len(net.stage_of_stream):
        return NEVER
    place = net.place_of_event[st.event_tail[net.stage_of_stream[delivered]]]
    return max(time, net.arrival_of_position[net.position_of_place[place]]) + net.cost[ROUTE]


@njit(**_HELPER)
def _has_work(net, st, stage, kind, time):
    """Return whether an item waits."""
    if kind == EVENTS:
        return st.event_head[stage] < st.event_tail[stage]
    head = st.queue_head[stage]
    return head < st.queue_tail[stage] and st.queue_time[stage, head % st.queue.shape[1]] <= time


@njit(**_HELPER)
def _choose(net, st, r, allocation, time):
    """Return the work that a thread takes next, ``2 * stage + kind``, or -1."""
    n_stages, stage, kind = len(net.next_of_stage), net.home_stage[r], net.home_kind[r]
    if allocation == IN_STREAM_ORDER:
        best, least = -1, _END
        for s in range(n_stages - 1, -1, -1):
            if not net.has_agent[s]:
                continue
            if _has_work(net, st, s, PARTIALS, time):
                last = st.last_of_partial[st.queue[s, st.queue_head[s] % st.queue.shape[1]]]
                if last < least:
                    best, least = 2 * s + PARTIALS, last
            if _has_work(net, st, s, EVENTS, time):
                position = net.position_of_place[net.place_of_event[st.event_head[s]]]
                if position < least:
                    best, least = 2 * s + EVENTS, position
        return best
    if _has_work(net, st, stage, kind, time):
        return 2 * stage + kind
    if allocation == STATIC:
        return -1
    if _has_work(net, st, stage, 1 - kind, time):
        return 2 * stage + 1 - kind
    if allocation == STATE_DYNAMIC:
        return -1
    foreign = st.last_stage[r]
    for k in range(2):
        if net.has_agent[foreign] and _has_work(net, st, foreign, (kind + k) % 2, time):
            return 2 * foreign + (kind + k) % 2
    st.totals[RANDOM] = (st.totals[RANDOM] * 1103515245 + 12345) % 2147483648
    start = (st.totals[RANDOM] >> 8) % n_stages
    for i in range(n_stages):
        s = (start + i) % n_stages
        for k in range(2):
            if net.has_agent[s] and _has_work(net, st, s, (kind + k) % 2, time):
                st.last_stage[r] = s
                return 2 * s + (kind + k) % 2
    return -1


@njit(**_HELPER)
def _wait_until(net, st, r, allocation):
    """Return when a partial match that was sent already will have arrived for a thread."""
    until = NEVER
    for s in range(len(net.next_of_stage)):
        if net.serves[s, 2 * r + PARTIALS] and st.queue_head[s] < st.queue_tail[s]:
            until = min(until, st.queue_time[s, st.queue_head[s] % st.queue.shape[1]])
    return until


@njit(**_HELPER)
def _take(net, st, r, stage, kind):
    """Take an item of a queue and insert it into the thread's own buffer."""
    length = st.event_buffer.shape[2]
    ticket = st.totals[N_TICKETS]
    if kind == EVENTS:
        low, high = st.event_low[stage, r], st.event_high[stage, r]
        if high >= length:
            if low < length // 2:
                return MORE_BUFFER
            for i in range(low, high):
                st.event_buffer[stage, r, i - low] = st.event_buffer[stage, r, i]
                st.event_ticket[stage, r, i - low] = st.event_ticket[stage, r, i]
            st.event_low[stage, r], high = 0, high - low
        item = net.place_of_event[st.event_head[stage]]
        st.event_head[stage] += 1
        st.event_buffer[stage, r, high], st.event_ticket[stage, r, high] = item, ticket
        st.event_high[stage, r] = high + 1
    else:
        n = st.n_partials[stage, r]
        if n >= length:
            return MORE_BUFFER
        head = st.queue_head[stage]
        item = st.queue[stage, head % st.queue.shape[1]]
        st.queue_head[stage] = head + 1
        if st.least[stage, st.least_head[stage] % st.queue.shape[1]] == head:
            st.least_head[stage] += 1
        st.partial_buffer[stage, r, n], st.partial_ticket[stage, r, n] = item, ticket
        st.n_partials[stage, r] = n + 1
        st.least_expiry[stage, r] = min(st.least_expiry[stage, r] if n else _END, st.expiry_of_partial[item])
    st.totals[N_TICKETS] += 1
    st.hand_kind[r], st.hand_stage[r], st.hand_item[r], st.hand_ticket[r] = kind, stage, item, ticket
    st.next_buffer[r] = 0
    st.taken[stage, kind] += 1
    return FINISHED


@njit(**_HELPER)
def _next_buffer(net, st, r):
    """Return the next thread whose buffer of the other kind is to be scanned, -1: none is left."""
    stage, other = st.hand_stage[r], 1 - st.hand_kind[r]
    for q in range(st.next_buffer[r], len(st.hand_kind)):
        if net.serves[stage, 2 * q + other]:
            return q
    return -1


@njit(**_HELPER)
def _scan(join_events, join_partials, completes, world, net, st, r, q):
    """Scan the buffer of thread ``q`` for the item in the hands of thread ``r``."""
    stage, kind, item, ticket = st.hand_stage[r], st.hand_kind[r], st.hand_item[r], st.hand_ticket[r]
    # Tickets rise within a buffer; what came later finds this item itself.
    if kind == EVENTS:
        low, high = 0, st.n_partials[stage, q]
        while high > low and st.partial_ticket[stage, q, high - 1] > ticket:
            high -= 1
    else:
        low, high = st.event_low[stage, q], st.event_high[stage, q]
        while high > low and st.event_ticket[stage, q, high - 1] > ticket:
            high -= 1
    most = high - low
    if most > len(st.hits):
        return MORE_BUFFER
    if st.totals[N_FREE] < 2 * most + 2:
        return MORE_PARTIALS
    after = net.next_of_stage[stage]
    if st.queue_tail[stage] - st.queue_head[stage] + most > st.queue.shape[1]:
        return MORE_QUEUE
    if after >= 0 and st.queue_tail[after] - st.queue_head[after] + most > st.queue.shape[1]:
        return MORE_QUEUE
    if after < 0 and st.totals[N_MATCHES] + most > len(st.out_branch):
        return MORE_MATCHES
    st.report[0] = 0
    n = 0
    if most and kind == EVENTS:
        n = join_partials(
            stage, item, st.partial_buffer[stage, q], low, high, st.item_of_partial, st.size_of_partial,
            st.path, st.first, st.hits, st.report, world.limits, world.accept, world.floats, world.integers,
            world.float_constants, world.integer_constants, world.tables,
        )  # fmt: skip
    elif most:
        n_components = net.n_components_of_stage[stage]
        _load(st, n_components, item)
        if st.first[n_components] + 1 > st.item_of_partial.shape[1]:
            return MORE_ITEMS
        n = join_events(
            stage, st.path, st.first, st.event_buffer[stage, q], low, high, st.hits, st.report, world.limits,
            world.accept, world.floats, world.integers, world.float_constants, world.integer_constants,
            world.tables,
        )  # fmt: skip
    if n and kind == EVENTS:
        for i in range(n):
            used = 0
            for c in range(net.n_components_of_stage[stage]):
                used += st.size_of_partial[st.hits[i], c]
            if used + 1 > st.item_of_partial.shape[1]:
                return MORE_ITEMS
    compared = st.report[0]
    st.compared[stage, kind] += compared
    st.totals[N_LOCKS] += 1
    st.totals[N_SENT] += n
    lock = 2 * q + 1 - kind
    begin = max(st.clock[r], st.locked_until[stage, lock])
    end = begin + net.cost[LOCK] + compared * net.cost[COMPARE] + n * net.cost[SEND]
    st.locked_until[stage, lock] = end
    for i in range(n):
        hit = st.hits[i]
        if kind == EVENTS:
            new = _extended(net, st, hit, stage, item)
        else:
            new = _extended(net, st, item, stage, hit)
        _send(completes, world, net, st, new, stage, end)
    st.busy[r] += end - begin
    st.clock[r] = st.ended[r] = end
    return FINISHED


def _simulate(join_events, join_partials, completes, world, net, st, allocation, n_steps):
    """Run until all is done, an array is full, or ``n_steps`` steps were taken; return which.

    Called again with larger arrays it goes on; the run does not depend on where it stopped.
    """
    n_threads = len(st.hand_kind)
    for _ in range(n_steps):
        r, time = n_threads, st.clock[n_threads]
        for z in range(n_threads):
            if st.clock[z] < time:
                r, time = z, st.clock[z]
        if time >= NEVER:
            return FINISHED
        if r == n_threads:
            why = _deliver(completes, world, net, st)
            if why != FINISHED:
                return why
        elif st.hand_kind[r] < 0:
            work = _choose(net, st, r, allocation, time)
            if work < 0:
                if st.waits_since[r] >= NEVER:
                    st.waits_since[r] = time
                st.clock[r] = max(_wait_until(net, st, r, allocation), time)
                continue
            why = _take(net, st, r, work // 2, work % 2)
            if why != FINISHED:
                return why
            st.waits_since[r] = NEVER
            st.clock[r] = time + net.cost[BASE]
            st.busy[r] += net.cost[BASE]
            st.ended[r] = st.clock[r]
            st.totals[N_ITEMS] += 1
        else:
            q = _next_buffer(net, st, r)
            if q >= 0:
                why = _scan(join_events, join_partials, completes, world, net, st, r, q)
                if why != FINISHED:
                    return why
                st.next_buffer[r] = q + 1
            if _next_buffer(net, st, r) < 0:
                stage, kind = st.hand_stage[r], st.hand_kind[r]
                if kind == EVENTS:
                    _remove_events(net, st, stage, r)
                else:
                    _remove_partials(net, st, stage, r)
                st.hand_kind[r] = -1
        st.totals[N_STEPS] += 1
    return PAUSED


_NETWORK_TYPE = T.NamedTuple(
    (RI1, RI1, RI1, RI1, RB1, RB1, RB1, RB1, RI1, RI1, RI1, RI1, RI1, RF1, RB2, RI1, RI1, RF1), Network
)
_AGENTS_TYPE = T.NamedTuple(
    (
        I2, S2, I1, I1, I1, I2, F2, I1, I1, I2, I1, I1, I1, I1, I3, I3, I2, I2, I3, I3, I2, I2, F2,
        F1, F1, F1, F1, I1, I1, I1, I1, I1, I1, I2, I2, I2, S2, I1, F1, I1, I1, I1, I1, I1,
    ),
    Agents,
)  # fmt: skip
simulate = njit(
    T.int64(
        JOIN_EVENTS, JOIN_PARTIALS, COMPLETES, T.NamedTuple(_WORLD, World), _NETWORK_TYPE, _AGENTS_TYPE,
        T.int64, T.int64,
    ),
    nogil=True, cache=True, error_model="numpy",
)(_simulate)  # fmt: skip
