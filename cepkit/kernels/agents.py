"""Agents of the hybrid protocol in virtual time: one thread of the machine plays any number of theirs.

A thread takes one step at a time: it takes an item, or scans one buffer for it. The thread whose clock is
least goes next, so that a run is one interleaving of the real protocol, and the same every time.
"""

from functools import cache
from typing import NamedTuple

import numpy as np
from numba import njit
from numba import types as T

EVENTS, PARTIALS = 0, 1  # the kinds of workers, by what they take
# How threads are allocated.
STATIC, STATE_DYNAMIC, FULLY_DYNAMIC, IN_STREAM_ORDER = range(4)
# Why a run stops.
FINISHED, PAUSED, MORE_PARTIALS, MORE_QUEUE, MORE_BUFFER, MORE_MATCHES, MORE_ITEMS = range(7)
NEVER = 1e300
_END = 1 << 62

# Columns of ``Network.stages``.
COMPONENT, N_COMPONENTS, NEXT, BRANCH, IS_START, IS_LOOP, IN_ORDER, HAS_AGENT = range(8)
# Rows of ``Network.places``.
POSITION, EXPIRY = range(2)
# What ``Network.cost`` holds: per item, comparison, lock, sent partial match, and delivered event.
BASE, COMPARE, LOCK, SEND, ROUTE = range(5)
# Rows of ``Partials.of``: position of the last event, last position of an event that may join, free numbers.
LAST, LIMIT, FREE = range(3)
# Columns of ``Queues.at``; LEAST_… of the numbers whose last positions rise.
HEAD, TAIL, LEAST_HEAD, LEAST_TAIL, EVENT_HEAD, EVENT_TAIL = range(6)
# Rows of ``Buffers.at``: where a thread's events begin and end, its partial matches, their least limit.
LOW, HIGH, N_HELD, LEAST_LIMIT = range(4)
# Rows of ``Threads.time``.
CLOCK, BUSY, ENDED, WAITS = range(4)
# Columns of ``Threads.hand``; KIND -1: empty.
KIND, STAGE, ITEM, TICKET, BUFFER, FOREIGN = range(6)
# What ``Counts.of_run`` and the columns of ``Counts.of_stage`` hold; the latter by kind of worker.
N_MATCHES, N_TICKETS, N_STEPS, N_ITEMS, N_FREE, N_DELIVERED, N_SENT, N_LOCKS, RANDOM = range(9)
COMPARED, TAKEN = 0, 2


class Network(NamedTuple):
    """Stages and threads of a run. A stage is a join; the first of a branch starts its partial matches."""

    stages: np.ndarray  # int64, (n_stages, 8)
    place_of_event: np.ndarray  # int64: the events that each stage takes, stage by stage, in stream order
    stage_of_delivery: np.ndarray  # int64: whom the source serves, in stream order
    places: np.ndarray  # int64, (2, n_places)
    arrival: np.ndarray  # float64, (n_places,), by position
    serves: np.ndarray  # uint8, (n_stages, n_threads, 2)
    home: np.ndarray  # int64, (n_threads, 2): stage and kind
    cost: np.ndarray  # float64, (5,)


class Partials(NamedTuple):
    """Partial matches by number, each a row."""

    items: np.ndarray  # int64, (n, width): places, component by component
    sizes: np.ndarray  # int32, (n, n_components)
    of: np.ndarray  # int64, (3, n)


class Queues(NamedTuple):
    """What waits for each stage; rings, whose numbers go on rising."""

    partial: np.ndarray  # int64, (n_stages, length)
    time: np.ndarray  # float64, (n_stages, length): when it arrives
    least: np.ndarray  # int64, (n_stages, length)
    at: np.ndarray  # int64, (n_stages, 6)


class Buffers(NamedTuple):
    """What each thread keeps for each stage, tickets rising."""

    event: np.ndarray  # int64, (n_stages, n_threads, length)
    event_ticket: np.ndarray
    partial: np.ndarray
    partial_ticket: np.ndarray
    at: np.ndarray  # int64, (4, n_stages, n_threads)
    locked_until: np.ndarray  # float64, (n_stages, n_threads, 2)


class Threads(NamedTuple):
    """Clocks and hands; the last clock is that of the source."""

    time: np.ndarray  # float64, (4, n_threads + 1)
    hand: np.ndarray  # int64, (n_threads, 6)


class Matches(NamedTuple):
    """Matches in the order in which they were found."""

    items: np.ndarray  # int64, (n, width)
    sizes: np.ndarray  # int32, (n, n_components)
    branch: np.ndarray  # int64, (n,)
    time: np.ndarray  # float64, (n,)


class Counts(NamedTuple):
    """What a run did."""

    of_run: np.ndarray  # int64, (9,)
    of_stage: np.ndarray  # int64, (n_stages, 4)


class Scratch(NamedTuple):
    """Room for a path and for what a scan finds."""

    path: np.ndarray
    first: np.ndarray
    hits: np.ndarray
    report: np.ndarray


def _arrays(*types):
    """Return the array types that letters name: ``i2`` int64, 2 dimensions; capitals are read-only."""
    scalars = {"i": T.int64, "f": T.float64, "b": T.uint8, "s": T.int32}
    return tuple(T.Array(scalars[kind.lower()], int(n), "C", readonly=kind.isupper()) for kind, n in types)


_WORLD = _arrays("I2", "B2", "F2", "I2", "F1", "I1", "B1")
_PATH = _arrays("i1", "i1")
JOIN_EVENTS = T.FunctionType(
    T.int64(T.int64, *_PATH, *_arrays("I1"), T.int64, T.int64, *_arrays("i1", "i1"), *_WORLD)
)
JOIN_PARTIALS = T.FunctionType(
    T.int64(
        T.int64, T.int64, *_arrays("I1"), T.int64, T.int64, *_arrays("I2", "S2"), *_PATH,
        *_arrays("i1", "i1"), *_WORLD,
    )
)  # fmt: skip
COMPLETES = T.FunctionType(T.boolean(T.int64, *_PATH, *_WORLD))
_TYPES = (
    T.Tuple(_WORLD),  # what conditions read; see `cepkit.compile.join_source`
    T.NamedTuple(_arrays("I2", "I1", "I1", "I2", "F1", "B3", "I2", "F1"), Network),
    T.NamedTuple(_arrays("i2", "s2", "i2"), Partials),
    T.NamedTuple(_arrays("i2", "f2", "i2", "i2"), Queues),
    T.NamedTuple(_arrays("i3", "i3", "i3", "i3", "i3", "f3"), Buffers),
    T.NamedTuple(_arrays("f2", "i2"), Threads),
    T.NamedTuple(_arrays("i2", "s2", "i1", "f1"), Matches),
    T.NamedTuple(_arrays("i1", "i2"), Counts),
    T.NamedUniTuple(_arrays("i1")[0], 4, Scratch),
)
_HELPER = {"nogil": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True, "_nrt": False}


# --- partial matches


@njit(**_HELPER)
def _extended(net, partials, counts, source, stage, place):
    """Return a new partial match: ``source`` (-1: none) with the event at ``place`` added."""
    free = counts.of_run[N_FREE] - 1
    counts.of_run[N_FREE] = free
    new = partials.of[FREE, free]
    items, sizes, c = partials.items[new], partials.sizes[new], net.stages[stage, COMPONENT]
    last = net.places[POSITION, place]
    at, total = 0, 0
    if source < 0:
        for k in range(net.stages[stage, N_COMPONENTS]):
            sizes[k] = 0
    else:
        old_items, old_sizes = partials.items[source], partials.sizes[source]
        for k in range(net.stages[stage, N_COMPONENTS]):
            sizes[k] = old_sizes[k]
            total += old_sizes[k]
            if k <= c:
                at = total
        for i in range(at):
            items[i] = old_items[i]
        for i in range(at, total):
            items[i + 1] = old_items[i]
        last = max(last, partials.of[LAST, source])
    items[at] = place
    sizes[c] += 1
    partials.of[LAST, new], partials.of[LIMIT, new] = last, net.places[EXPIRY, items[0]]
    return new


@njit(**_HELPER)
def _copied(partials, counts, source, n_items, n_components):
    """Return a copy of a partial match; every queue owns what is in it."""
    free = counts.of_run[N_FREE] - 1
    counts.of_run[N_FREE] = free
    new = partials.of[FREE, free]
    for i in range(n_items):
        partials.items[new, i] = partials.items[source, i]
    for c in range(n_components):
        partials.sizes[new, c] = partials.sizes[source, c]
    partials.of[LAST, new], partials.of[LIMIT, new] = partials.of[LAST, source], partials.of[LIMIT, source]
    return new


@njit(**_HELPER)
def _released(partials, counts, partial):
    """Make the number of a partial match free."""
    partials.of[FREE, counts.of_run[N_FREE]] = partial
    counts.of_run[N_FREE] += 1


@njit(**_HELPER)
def _loaded(partials, partial, n_components, path, first):
    """Write the path of a partial match; return its number of events."""
    d = 0
    for c in range(n_components):
        first[c] = d
        d += partials.sizes[partial, c]
    first[n_components] = d
    for i in range(d):
        path[i] = partials.items[partial, i]
    return d


@njit(**_HELPER)
def _pushed(queues, partials, stage, partial, time):
    """Put a partial match into the queue of a stage."""
    length = queues.partial.shape[1]
    at = queues.at[stage]
    tail = at[TAIL]
    queues.partial[stage, tail % length], queues.time[stage, tail % length] = partial, time
    at[TAIL] = tail + 1
    # Numbers whose last positions rise: the first has the least of all that wait.
    end = at[LEAST_TAIL]
    while end > at[LEAST_HEAD]:
        other = queues.least[stage, (end - 1) % length]
        if partials.of[LAST, queues.partial[stage, other % length]] < partials.of[LAST, partial]:
            break
        end -= 1
    queues.least[stage, end % length] = tail
    at[LEAST_TAIL] = end + 1


@njit(**_HELPER)
def _woken(serves, times, stage, time):
    """Let those who wait for a stage go on at ``time``."""
    for r in range(serves.shape[1]):
        if times[WAITS, r] < NEVER and (serves[stage, r, 0] or serves[stage, r, 1]):
            times[CLOCK, r] = min(times[CLOCK, r], max(time, times[WAITS, r]))


# --- what can still arrive


@njit(**_HELPER)
def _event_watermark(net, queues, hand, counts, stage):
    """Return the least position of the events that may still reach the buffers of a stage."""
    mark, delivered = _END, counts.of_run[N_DELIVERED]
    if delivered < len(net.stage_of_delivery):
        event = queues.at[net.stage_of_delivery[delivered], EVENT_TAIL]
        mark = net.places[POSITION, net.place_of_event[event]]
    if net.stages[stage, HAS_AGENT]:
        if queues.at[stage, EVENT_HEAD] < queues.at[stage, EVENT_TAIL]:
            event = queues.at[stage, EVENT_HEAD]
            mark = min(mark, net.places[POSITION, net.place_of_event[event]])
        for r in range(len(hand)):
            if hand[r, KIND] == EVENTS and hand[r, STAGE] == stage:
                mark = min(mark, net.places[POSITION, hand[r, ITEM]])
    return mark


@njit(**_HELPER)
def _partial_watermark(net, queues, partials, hand, counts, stage):
    """Return the least last position of the partial matches that may still reach the buffers of a stage."""
    mark, s, length = _END, stage, queues.partial.shape[1]
    while True:
        if queues.at[s, LEAST_HEAD] < queues.at[s, LEAST_TAIL]:
            number = queues.least[s, queues.at[s, LEAST_HEAD] % length]
            mark = min(mark, partials.of[LAST, queues.partial[s, number % length]])
        for r in range(len(hand)):
            if hand[r, KIND] == PARTIALS and hand[r, STAGE] == s:
                mark = min(mark, partials.of[LAST, hand[r, ITEM]])
        # What a stage's events make reaches the next one, and in a loop the stage itself.
        if s < stage or net.stages[s, IS_LOOP] or net.stages[s, IS_START]:
            mark = min(mark, _event_watermark(net, queues, hand, counts, s))
        if net.stages[s, IS_START]:
            return mark
        s -= 1


@njit(**_HELPER)
def _events_removed(net, queues, partials, buffers, hand, counts, stage, r):
    """Drop the oldest of a thread's events that no partial match to come can take."""
    mark = _partial_watermark(net, queues, partials, hand, counts, stage)
    limits = net.places[POSITION if net.stages[stage, IN_ORDER] else EXPIRY]
    low, high = buffers.at[LOW, stage, r], buffers.at[HIGH, stage, r]
    while low < high and limits[buffers.event[stage, r, low]] < mark:
        low += 1
    buffers.at[LOW, stage, r] = 0 if low == high else low
    buffers.at[HIGH, stage, r] = 0 if low == high else high


@njit(**_HELPER)
def _partials_removed(net, queues, partials, buffers, hand, counts, stage, r):
    """Drop a thread's partial matches that no event to come can extend."""
    mark = _event_watermark(net, queues, hand, counts, stage)
    if buffers.at[LEAST_LIMIT, stage, r] >= mark:
        return
    own, tickets = buffers.partial[stage, r], buffers.partial_ticket[stage, r]
    kept, least = 0, _END
    for i in range(buffers.at[N_HELD, stage, r]):
        limit = partials.of[LIMIT, own[i]]
        if limit < mark:
            _released(partials, counts, own[i])
        else:
            least = min(least, limit)
            own[kept], tickets[kept] = own[i], tickets[i]
            kept += 1
    buffers.at[N_HELD, stage, r], buffers.at[LEAST_LIMIT, stage, r] = kept, least


# --- steps


@njit(**_HELPER)
def _waits_there(queues, stage, kind, time):
    """Return whether an item waits for a stage."""
    at = queues.at[stage]
    if kind == EVENTS:
        return at[EVENT_HEAD] < at[EVENT_TAIL]
    return at[HEAD] < at[TAIL] and queues.time[stage, at[HEAD] % queues.time.shape[1]] <= time


@njit(**_HELPER)
def _oldest(net, queues, partials, time):
    """Return the work that comes first in the stream, ``2 * stage + kind``, or -1."""
    best, least = -1, _END
    for s in range(len(net.stages) - 1, -1, -1):
        if net.stages[s, HAS_AGENT]:
            if _waits_there(queues, s, PARTIALS, time):
                last = partials.of[LAST, queues.partial[s, queues.at[s, HEAD] % queues.partial.shape[1]]]
                if last < least:
                    best, least = 2 * s + PARTIALS, last
            if _waits_there(queues, s, EVENTS, time):
                position = net.places[POSITION, net.place_of_event[queues.at[s, EVENT_HEAD]]]
                if position < least:
                    best, least = 2 * s + EVENTS, position
    return best


@njit(**_HELPER)
def _chosen(net, queues, hand, counts, r, allocation, time):
    """Return the work that a thread takes next, ``2 * stage + kind``, or -1."""
    stage, kind = net.home[r, 0], net.home[r, 1]
    if _waits_there(queues, stage, kind, time):
        return 2 * stage + kind
    if allocation == STATIC:
        return -1
    if _waits_there(queues, stage, 1 - kind, time):
        return 2 * stage + 1 - kind
    if allocation == STATE_DYNAMIC:
        return -1
    counts.of_run[RANDOM] = (counts.of_run[RANDOM] * 1103515245 + 12345) % 2147483648
    start, n_stages = (counts.of_run[RANDOM] >> 8) % len(net.stages), len(net.stages)
    for i in range(-1, n_stages):  # the last successful one first
        s = hand[r, FOREIGN] if i < 0 else (start + i) % n_stages
        for other in (kind, 1 - kind):
            if net.stages[s, HAS_AGENT] and _waits_there(queues, s, other, time):
                hand[r, FOREIGN] = s
                return 2 * s + other
    return -1


@njit(**_HELPER)
def _arrival_for(net, queues, r):
    """Return when something that was sent already will have arrived for a thread."""
    until, length = NEVER, queues.partial.shape[1]
    for s in range(len(net.stages)):
        if net.serves[s, r, PARTIALS] and queues.at[s, HEAD] < queues.at[s, TAIL]:
            until = min(until, queues.time[s, queues.at[s, HEAD] % length])
    return until


@njit(**_HELPER)
def _taken(net, queues, partials, buffers, counts, stage, kind, r):
    """Insert the next item of a queue into a thread's buffer; return it, or -1 where there is no room."""
    length, ticket, at = buffers.event.shape[2], counts.of_run[N_TICKETS], queues.at[stage]
    if kind == EVENTS:
        low, high = buffers.at[LOW, stage, r], buffers.at[HIGH, stage, r]
        if high >= length:
            if low < length // 2:
                return -1
            for i in range(low, high):
                buffers.event[stage, r, i - low] = buffers.event[stage, r, i]
                buffers.event_ticket[stage, r, i - low] = buffers.event_ticket[stage, r, i]
            buffers.at[LOW, stage, r], high = 0, high - low
        item = net.place_of_event[at[EVENT_HEAD]]
        at[EVENT_HEAD] += 1
        buffers.event[stage, r, high], buffers.event_ticket[stage, r, high] = item, ticket
        buffers.at[HIGH, stage, r] = high + 1
    else:
        n = buffers.at[N_HELD, stage, r]
        if n >= length:
            return -1
        item = queues.partial[stage, at[HEAD] % queues.partial.shape[1]]
        if queues.least[stage, at[LEAST_HEAD] % queues.partial.shape[1]] == at[HEAD]:
            at[LEAST_HEAD] += 1
        at[HEAD] += 1
        buffers.partial[stage, r, n], buffers.partial_ticket[stage, r, n] = item, ticket
        buffers.at[N_HELD, stage, r] = n + 1
        least = buffers.at[LEAST_LIMIT, stage, r] if n else _END
        buffers.at[LEAST_LIMIT, stage, r] = min(least, partials.of[LIMIT, item])
    counts.of_run[N_TICKETS] = ticket + 1
    counts.of_stage[stage, TAKEN + kind] += 1
    return item


@njit(**_HELPER)
def _next_buffer(serves, stage, other, q):
    """Return the first thread from ``q`` on whose buffer is to be scanned, or -1."""
    for z in range(q, serves.shape[1]):
        if serves[stage, z, other]:
            return z
    return -1


@njit(**_HELPER)
def _lacking(net, queues, partials, matches, counts, scratch, stage, most):
    """Return which array is too small for ``most`` new partial matches of a stage, or FINISHED."""
    after, length = net.stages[stage, NEXT], queues.partial.shape[1]
    if most > len(scratch.hits):
        return MORE_BUFFER
    if counts.of_run[N_FREE] < 2 * most:
        return MORE_PARTIALS
    if after < 0 and counts.of_run[N_MATCHES] + most > len(matches.branch):
        return MORE_MATCHES
    for s in (stage, after):
        if s >= 0 and queues.at[s, TAIL] - queues.at[s, HEAD] + most > length:
            return MORE_QUEUE
    return FINISHED


def _simulate(
    join_events, join_partials, completes, world, net, partials, queues, buffers, threads, matches, counts,
    scratch, allocation, n_steps,
):  # fmt: skip
    """Run until all is done, an array is full, or ``n_steps`` steps were taken; return which.

    Called again, with larger arrays, it goes on; a run does not depend on where it stopped.
    """
    times, hand, serves = threads.time, threads.hand, net.serves
    n_threads = len(hand)
    for _ in range(n_steps):
        r, time = n_threads, times[CLOCK, n_threads]
        for z in range(n_threads):
            if times[CLOCK, z] < time:
                r, time = z, times[CLOCK, z]
        if time >= NEVER:
            return FINISHED
        stage, n_new, end = 0, 0, time
        if r == n_threads:  # the source passes its next event on
            stage = net.stage_of_delivery[counts.of_run[N_DELIVERED]]
            is_start = net.stages[stage, IS_START]
            if is_start:
                lacking = _lacking(net, queues, partials, matches, counts, scratch, stage, 1)
                if lacking != FINISHED:
                    return lacking
            event = queues.at[stage, EVENT_TAIL]
            queues.at[stage, EVENT_TAIL] = event + 1
            counts.of_run[N_DELIVERED] += 1
            if is_start:
                place = net.place_of_event[event]
                scratch.hits[0] = _extended(net, partials, counts, -1, stage, place)
                n_new = 1
            _woken(serves, times, stage, time)
            times[CLOCK, r] = NEVER
            if counts.of_run[N_DELIVERED] < len(net.stage_of_delivery):
                event = queues.at[net.stage_of_delivery[counts.of_run[N_DELIVERED]], EVENT_TAIL]
                arrival = net.arrival[net.places[POSITION, net.place_of_event[event]]]
                times[CLOCK, r] = max(time, arrival) + net.cost[ROUTE]
        elif hand[r, KIND] < 0:  # a thread takes an item, or waits
            work = (
                _oldest(net, queues, partials, time)
                if allocation == IN_STREAM_ORDER
                else _chosen(net, queues, hand, counts, r, allocation, time)
            )
            if work < 0:
                times[WAITS, r] = min(times[WAITS, r], time)
                times[CLOCK, r] = max(_arrival_for(net, queues, r), time)
                continue
            stage, kind, ticket = work // 2, work % 2, counts.of_run[N_TICKETS]
            item = _taken(net, queues, partials, buffers, counts, stage, kind, r)
            if item < 0:
                return MORE_BUFFER
            counts.of_run[N_ITEMS] += 1
            hand[r, KIND], hand[r, STAGE], hand[r, ITEM], hand[r, TICKET] = kind, stage, item, ticket
            hand[r, BUFFER] = _next_buffer(serves, stage, 1 - kind, 0)
            times[WAITS, r] = NEVER
            times[BUSY, r] += net.cost[BASE]
            times[CLOCK, r] = times[ENDED, r] = time + net.cost[BASE]
        else:  # it scans a buffer
            stage, kind, item, q = hand[r, STAGE], hand[r, KIND], hand[r, ITEM], hand[r, BUFFER]
            # Tickets rise within a buffer; what came later finds this item itself.
            tickets = buffers.partial_ticket[stage, q] if kind == EVENTS else buffers.event_ticket[stage, q]
            low = 0 if kind == EVENTS else buffers.at[LOW, stage, q]
            high = buffers.at[N_HELD, stage, q] if kind == EVENTS else buffers.at[HIGH, stage, q]
            while high > low and tickets[high - 1] > hand[r, TICKET]:
                high -= 1
            lacking = _lacking(net, queues, partials, matches, counts, scratch, stage, high - low)
            if lacking != FINISHED:
                return lacking
            scratch.report[0] = 0
            n_components, width = net.stages[stage, N_COMPONENTS], partials.items.shape[1]
            if high > low and kind == EVENTS:
                n_new = join_partials(
                    stage, item, buffers.partial[stage, q], low, high, partials.items, partials.sizes,
                    scratch.path, scratch.first, scratch.hits, scratch.report, *world
                )  # fmt: skip
            elif high > low:
                _loaded(partials, item, n_components, scratch.path, scratch.first)
                n_new = join_events(
                    stage, scratch.path, scratch.first, buffers.event[stage, q], low, high, scratch.hits,
                    scratch.report, *world
                )  # fmt: skip
            if n_new and net.stages[stage, IS_LOOP]:
                for i in range(n_new if kind == EVENTS else 1):
                    source = scratch.hits[i] if kind == EVENTS else item
                    if partials.sizes[source].sum() >= width:
                        return MORE_ITEMS
            compared = scratch.report[0]
            counts.of_stage[stage, COMPARED + kind] += compared
            counts.of_run[N_LOCKS] += 1
            counts.of_run[N_SENT] += n_new
            begin = max(time, buffers.locked_until[stage, q, 1 - kind])
            end = begin + net.cost[LOCK] + compared * net.cost[COMPARE] + n_new * net.cost[SEND]
            buffers.locked_until[stage, q, 1 - kind] = end
            times[BUSY, r] += end - begin
            times[CLOCK, r] = times[ENDED, r] = end
            for i in range(n_new):
                source, place = (scratch.hits[i], item) if kind == EVENTS else (item, scratch.hits[i])
                scratch.hits[i] = _extended(net, partials, counts, source, stage, place)
            hand[r, BUFFER] = _next_buffer(serves, stage, 1 - kind, q + 1)
        # New partial matches go to their own stage again, to the next one, or to the matches.
        for i in range(n_new):
            partial, after = scratch.hits[i], net.stages[stage, NEXT]
            n_components = net.stages[stage, N_COMPONENTS]
            n_items = _loaded(partials, partial, n_components, scratch.path, scratch.first)
            goes_on = completes(stage, scratch.path, scratch.first, *world)
            loops = net.stages[stage, IS_LOOP]
            if goes_on and after < 0:
                m = counts.of_run[N_MATCHES]
                counts.of_run[N_MATCHES] = m + 1
                for k in range(n_items):
                    matches.items[m, k] = scratch.path[k]
                for c in range(n_components):
                    matches.sizes[m, c] = partials.sizes[partial, c]
                matches.branch[m], matches.time[m] = net.stages[stage, BRANCH], end
            elif goes_on:
                sent = _copied(partials, counts, partial, n_items, n_components) if loops else partial
                _pushed(queues, partials, after, sent, end)
                _woken(serves, times, after, end)
            if loops:
                _pushed(queues, partials, stage, partial, end)
                _woken(serves, times, stage, end)
            elif not goes_on or after < 0:
                _released(partials, counts, partial)
        if r < n_threads and hand[r, KIND] >= 0 and hand[r, BUFFER] < 0:  # all is scanned
            if hand[r, KIND] == EVENTS:
                _events_removed(net, queues, partials, buffers, hand, counts, hand[r, STAGE], r)
            else:
                _partials_removed(net, queues, partials, buffers, hand, counts, hand[r, STAGE], r)
            hand[r, KIND] = -1
        counts.of_run[N_STEPS] += 1
    return PAUSED


@cache
def simulation():
    """Return the kernel; making it takes some 12 s, once on a machine."""
    types = T.int64(JOIN_EVENTS, JOIN_PARTIALS, COMPLETES, *_TYPES, T.int64, T.int64)
    return njit(types, nogil=True, cache=True, error_model="numpy")(_simulate)
