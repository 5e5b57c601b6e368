"""Agents of the hybrid protocol: the steps of a thread, on real threads or in virtual time.

A *stage* joins events with partial matches. Each stage has two queues and two logs, one of each kind. A
thread takes a *batch* from a queue, enters it into the log of its kind, joins it with the other log, and
passes on the results. Nothing is locked while pairs are tested::

      source                      stage s                                         stage s + 1
     _deliver ───► event queue ───take───► event log ◄────────┐
                   EVENT_HEAD..TAIL        EVENTS_LOW..NEXT   │ a batch joins
                                                              │ the other log ──► partial queue …
     stage s - 1 ► partial queue ──take──► partial log ◄──────┘       │
                   HEAD..TAIL              PARTIALS_LOW..NEXT         └─► ``FullMatches`` after the last stage

**Records.** ``Network`` describes the run and never changes. ``ItemBlocks`` holds the partial matches: a
block is a group of rows that belong to one stage and move together. ``FullMatches`` holds the matches.
``Own`` has one row per thread (the last one is the source), and only this thread writes it. ``control`` holds
the shared numbers, each on its own cache line; threads access them only through `atomic`.

**Life of a partial match.** The state of its block says where it is::

     FREE ───────► FILLING ──────► WAITING ─────► HELD ──────────────► RETIRED ────────────► FREE
       _add_partial       _publish       _end_step    _remove_expired          _free_retired

1. An event of a first stage begins a partial match (`_deliver`). A join extends one (`_join_batch`).
2. `_route_hits` copies the result into the thread's open block, or into ``FullMatches`` after the last stage.
3. A full block, and any open block at the end of a step, is closed and published: it enters the queue of its
   stage. A thread may also keep the block (OWN_CHAIN) and continue with it without the queue.
4. A thread takes the block and joins it with the event log. The block stays WAITING until that step ends.
5. The block is HELD. Later batches of events join with it, until no later event can.
6. The block is RETIRED and finally FREE again; see "Removal".

**Why each pair meets exactly once.** `_take_batch` first claims an index of the log (…_NEXT) and marks the
entry as unfinished (NUMBER is ``-i - 1``). It then draws a ticket, fills the entry and stores NUMBER
``i + 1``. `_gather_partners` reads only entries with lower tickets. So of two batches exactly one finds the
other: the one with the higher ticket, since the other batch had claimed its index before it drew its own
ticket. A reader waits for an unfinished entry. It reads NUMBER again after the other fields, because the
index may have been used again in the meantime.

**Removal.** One thread at a time (PASS_LOCK) computes marks: the lowest stream positions that can still reach
each buffer. `_write_marks` finds pending work in the queues, in the hands of threads (MARK for events, state
WAITING for blocks) and at the source (CURSOR). A step first makes its results visible there, then increments
N_ENDED, then lets go of its batch. If N_ENDED changed while the marks were computed, they are discarded.
Entries whose limit is below the mark lose IS_ALIVE. Their blocks are RETIRED with the number of the pass,
because a current step may still read them. They become FREE once every thread's EPOCH (the pass at which its
step began) is later.

**Locks.** FREE_LOCK guards the stack of free blocks; it is the only lock that a thread waits to take.
PASS_LOCK and SOURCE_LOCK are only tried: a thread that fails does other work. FREE_LOCK is always the last
lock taken, so no deadlock is possible.

**End and interrupts.** OUTSTANDING counts undelivered events, events in queues and hands, and blocks that are
not yet HELD. The run is finished when it is 0. A call returns early if STOP is set or an array is too small
(MORE_…). The caller then grows the array while no kernel runs, and calls again. PHASE and the other columns
of ``Own.hand`` say where each thread continues.
"""

import numpy as np
from numba import types as T

import cepkit.kernels.wings.agent_layout as col
import cepkit.kernels.wings.atomic as atomic
from cepkit.kernels.jit import Record, njit
from cepkit.kernels.wings.agent_layout import FullMatches, ItemBlocks, Joins, Network, Own


def _arrays(*types):
    """Return the array types for codes: ``i2`` is int64 with 2 dimensions; capitals are read-only."""
    scalars = {"i": T.int64, "f": T.float64, "b": T.uint8, "s": T.int32}
    return tuple(T.Array(scalars[kind.lower()], int(n), "C", readonly=kind.isupper()) for kind, n in types)


_WORLD = _arrays("I2", "B2", "F2", "I2", "F3", "F1", "I1", "B1")
# The functions that `cepkit.parallel.join_source` writes for a query; kernels take their addresses.
_join = atomic.function_at(
    T.int64, T.int64, T.int64, T.int64, *_arrays("i2", "i2", "i3", "s3", "i3", "I2"), T.int64, T.int64,
    T.int64, *_arrays("i1", "i1", "i1", "i2", "i1", "i1"), *_WORLD,
)  # fmt: skip
_completes = atomic.function_at(T.boolean, T.int64, *_arrays("i1", "i1"), *_WORLD)
_TYPES = (
    Record([T.int64, T.int64, T.Tuple(_WORLD)], Joins),
    Record(_arrays("I2", "I2", "I1", "I2", "I2", "F1", "B3", "I2", "F3", "I1"), Network),
    Record(_arrays("i3", "s3", "i3", "i2", "i1", "i2", "i1", "i4", "i1"), ItemBlocks),
    Record(_arrays("i2", "s2", "i1", "f1"), FullMatches),
    Record(_arrays("i2", "i2", "i3", "i3", "i2", "i2", "i2", "i2", "i3", "f2", "i3"), Own),
    *_arrays("i1", "f2"),
)
_PAIRS_PER_STEP = 64  # of a simulated step, in the limit of a call
_OPTIONS = {"nogil": True, "error_model": "numpy", "cache": True, "_nrt": False, "no_cfunc_wrapper": True}
_HELPER = {"nogil": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True, "_nrt": False}
# A call copies the descriptions of all its array arguments, about 100 numbers: too slow for each pair.
_INLINED = {**_HELPER, "forceinline": True}


# --- shared numbers


@njit(**_INLINED)
def _of_stage(stage, what):
    return (col.N_OF_RUN + stage * col.N_OF_STAGE + what) * col.LINE


@njit(**_INLINED)
def _of_thread(n_stages, r, what):
    return (col.N_OF_RUN + n_stages * col.N_OF_STAGE + r * col.N_OF_THREAD + what) * col.LINE


@njit(**_INLINED)
def _take_lock(control, lock):
    while not atomic.swap(control, lock * col.LINE, 0, 1):
        pass


# --- blocks


@njit(**_INLINED)
def _take_spare_blocks(free, control, own, r, need):
    """Take free blocks until a thread has ``need`` spare ones; return False if too few are free."""
    hand = own.hand[r]
    if hand[col.N_SPARE] >= need:
        return True
    _take_lock(control, col.FREE_LOCK)
    n_free = atomic.load(control, col.N_FREE * col.LINE)
    while hand[col.N_SPARE] < need and n_free > 0:
        n_free -= 1
        block = free[n_free]
        own.spare[r, hand[col.N_SPARE]] = block
        hand[col.N_SPARE] += 1
        if block >= atomic.load(control, col.N_MADE * col.LINE):
            atomic.store(control, col.N_MADE * col.LINE, block + 1)
    atomic.store(control, col.N_FREE * col.LINE, n_free)
    atomic.store(control, col.FREE_LOCK * col.LINE, 0)
    return hand[col.N_SPARE] >= need


@njit(**_INLINED)
def _publish(blocks, control, block, stage):
    """Append a block to the partial-match queue of a stage."""
    header = blocks.header[block]
    n_blocks = len(blocks.state)
    atomic.add(control, col.OUTSTANDING * col.LINE, 1)
    atomic.add(control, col.N_WAITING * col.LINE, header[col.N_ROWS])
    atomic.add(control, _of_stage(stage, col.PARTIALS_QUEUED), header[col.N_ROWS])
    atomic.store(blocks.state, block, col.WAITING)
    number = atomic.add(control, _of_stage(stage, col.TAIL), 1)
    atomic.store(blocks.queue, stage * n_blocks + number % n_blocks, number << 24 | block)


@njit(**_INLINED)
def _publish_closed(blocks, control, own, r, to):
    """Publish the blocks that a thread has closed, for the next stage or (OPEN_LOOP) for the same stage."""
    hand = own.hand[r]
    chain = col.CHAIN_NEXT if to == col.OPEN_NEXT else col.CHAIN_LOOP
    block = hand[chain]
    hand[chain] = -1
    while block >= 0:
        after = blocks.header[block, col.CHAIN]
        _publish(blocks, control, block, blocks.header[block, col.STAGE])
        block = after


@njit(**_INLINED)
def _close_open_block(blocks, own, r, to):
    """Close the block that a thread is filling, and chain it to the thread's closed blocks."""
    hand = own.hand[r]
    chain = col.CHAIN_NEXT if to == col.OPEN_NEXT else col.CHAIN_LOOP
    if hand[to] >= 0:
        blocks.header[hand[to], col.CHAIN] = hand[chain]
        hand[chain] = hand[to]
        hand[to] = -1


@njit(**_INLINED)
def _add_partial(blocks, own, r, to, stage, n_components, n_items, last, limit):
    """Add the partial match in a thread's path to its open block; take a spare block if it has none."""
    hand, path, first = own.hand[r], own.path[r], own.first[r]
    block = hand[to]
    if block < 0:
        hand[col.N_SPARE] -= 1
        block = own.spare[r, hand[col.N_SPARE]]
        hand[to] = block
        header = blocks.header[block]
        header[col.STAGE], header[col.N_ROWS], header[col.LONGEST] = stage, 0, 0
        header[col.LEAST_LAST], header[col.MOST_LIMIT] = col.END, -1
        atomic.store(blocks.state, block, col.FILLING)
    header = blocks.header[block]
    row = header[col.N_ROWS]
    for i in range(n_items):
        blocks.items[block, row, i] = path[i]
    for c in range(n_components):
        blocks.sizes[block, row, c] = first[c + 1] - first[c]
    blocks.limits[col.LAST, block, row], blocks.limits[col.LIMIT, block, row] = last, limit
    header[col.N_ROWS] = row + 1
    header[col.LEAST_LAST] = min(header[col.LEAST_LAST], last)
    header[col.MOST_LIMIT] = max(header[col.MOST_LIMIT], limit)
    header[col.LONGEST] = max(header[col.LONGEST], n_items)


@njit(**_INLINED)
def _is_full(blocks, block):
    """Return whether a block has no row left."""
    return blocks.header[block, col.N_ROWS] == blocks.items.shape[1]


@njit(**_INLINED)
def _write_path(items, sizes, path, first, n_components, component, block, row, place):
    """Write a row (-1: no row) extended by an event into a path; return the number of its events."""
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
def _continues_with_own(net, control, own):
    """Return whether threads continue with the partial matches that they made themselves."""
    # They do if every thread serves all agents and enough work waits for all of them, because a block made by
    # another thread must come from its cache. In virtual time this does not matter.
    if not net.options[col.IS_REAL] or net.options[col.ALLOCATION] != col.FULLY_DYNAMIC:
        return False
    enough = min(len(own.hand) * net.options[col.BATCH], net.options[col.BACKLOG])
    return atomic.load(control, col.N_WAITING * col.LINE) >= enough


@njit(**_INLINED)
def _skips_queue(net, control, own, stage):
    """Return whether a stage's results skip the queue: the thread that made them continues with them."""
    return net.stages[stage, col.IS_FUSED] or _continues_with_own(net, control, own)


@njit(**_INLINED)
def _needs_path(net, stage):
    """Return whether the events of a result are needed, so that it is not enough to count results."""
    own = net.stages[stage]
    return own[col.IS_TESTED] or own[col.IS_LOOP] or own[col.NEXT] >= 0 or net.options[col.IS_KEPT]


@njit(**_INLINED)
def _route_hits(net, blocks, found, own, control, joins, r, stage, n_hits, time):
    """Route the results in a thread's ``out``: into a block for a queue, into the matches, or nowhere."""
    hand, counts, out, path, first = own.hand[r], own.counts[r, stage], own.out[r], own.path[r], own.first[r]
    after, is_loop, is_tested = (
        net.stages[stage, col.NEXT], net.stages[stage, col.IS_LOOP], net.stages[stage, col.IS_TESTED]
    )  # fmt: skip
    n_components, is_kept, is_real = (
        net.stages[stage, col.N_COMPONENTS], net.options[col.IS_KEPT], net.options[col.IS_REAL]
    )  # fmt: skip
    component, position = net.stages[stage, col.COMPONENT], net.places[col.POSITION]
    expiry = net.places[col.EXPIRY]
    n_matched, n_sent, n_looped = 0, 0, 0
    latency, most_latency = 0.0, own.time[r, col.MOST_LATENCY]
    needs_path = _needs_path(net, stage)
    if not needs_path:  # results are only counted
        n_matched, n_hits = n_hits, 0
        is_timed = not is_real and net.options[col.IS_TIMED]  # these latencies are in virtual time
        if not is_real and not is_timed and n_matched > 0:
            latency, most_latency = time * n_matched, max(most_latency, time)
        for i in range(n_matched if is_timed else 0):
            last = max(position[out[2, i]], blocks.limits[col.LAST, out[0, i], out[1, i]])
            since = time - net.arrival[last]
            latency += since
            most_latency = max(most_latency, since)
    for i in range(n_hits):
        block, row, place = out[0, i], out[1, i], out[2, i]
        last, n_items, goes_on = position[place], 0, True
        if row >= 0:
            last = max(last, blocks.limits[col.LAST, block, row])
        if needs_path:
            n_items = _write_path(
                blocks.items, blocks.sizes, path, first, n_components, component, block, row, place
            )
        if is_tested:
            if row < 0 and not _completes(
                joins.completes, (len(net.stages) + stage, path, first, *joins.world)
            ):
                continue  # it cannot begin a match
            goes_on = _completes(joins.completes, (stage, path, first, *joins.world))
        if goes_on and after < 0:
            n_matched += 1
            since = time - net.arrival[last]
            latency += since
            most_latency = max(most_latency, since)
            if is_kept:
                m = atomic.add(control, col.N_FOUND * col.LINE, 1)
                for k in range(n_items):
                    found.items[m, k] = path[k]
                for k in range(n_components):
                    found.sizes[m, k] = first[k + 1] - first[k]
                found.branch[m], found.time[m] = net.stages[stage, col.BRANCH], time
        elif goes_on:
            n_sent += 1
            _add_partial(
                blocks, own, r, col.OPEN_NEXT, after, n_components, n_items, last, expiry[path[0]]
            )  # fmt: skip
            if _is_full(blocks, hand[col.OPEN_NEXT]):
                _close_open_block(blocks, own, r, col.OPEN_NEXT)
                if is_real and not _skips_queue(net, control, own, stage):
                    _publish_closed(blocks, control, own, r, col.OPEN_NEXT)
        if is_loop:
            n_looped += 1
            _add_partial(
                blocks, own, r, col.OPEN_LOOP, stage, n_components, n_items, last, expiry[path[0]]
            )  # fmt: skip
            if _is_full(blocks, hand[col.OPEN_LOOP]):
                _close_open_block(blocks, own, r, col.OPEN_LOOP)
                if is_real:
                    _publish_closed(blocks, control, own, r, col.OPEN_LOOP)
    own.time[r, col.LATENCY] += latency
    own.time[r, col.MOST_LATENCY] = most_latency
    hand[col.N_MATCHED] += n_matched
    hand[col.N_TO_NEXT] += n_sent
    hand[col.N_TO_LOOP] += n_looped
    counts[col.N_COMPLETE] += n_matched
    counts[col.N_SENT] += n_sent
    counts[col.N_LOOPED] += n_looped


# --- watermarks and removal


@njit(**_HELPER)
def _write_marks(net, blocks, own, control, r):
    """Write the lowest positions that may still reach the buffers; return False if a step ended meanwhile."""
    # In that case an item may have moved from a place not yet visited to a place already visited.
    n_stages, marks = len(net.stages), own.marks[r]
    n_ended = atomic.load(control, col.N_ENDED * col.LINE)
    cursor = atomic.load(control, col.CURSOR * col.LINE)
    source = net.deliveries[1, cursor] if cursor < net.deliveries.shape[1] else col.END
    for s in range(n_stages):
        head = atomic.load(control, _of_stage(s, col.EVENT_HEAD))
        tail = atomic.load(control, _of_stage(s, col.EVENT_TAIL))
        marks[col.EVENTS, s], marks[col.PARTIALS, s] = source, col.END
        if head < tail and net.stages[s, col.HAS_AGENT]:
            marks[col.EVENTS, s] = min(source, net.events[col.POSITION, head])
    for z in range(len(own.hand)):
        mark = atomic.load(control, _of_thread(n_stages, z, col.MARK))
        if mark >= 0:
            s = mark % n_stages
            marks[col.EVENTS, s] = min(marks[col.EVENTS, s], mark // n_stages)
    for b in range(atomic.load(control, col.N_MADE * col.LINE)):
        if atomic.load(blocks.state, b) == col.WAITING:
            s = blocks.header[b, col.STAGE]
            marks[col.PARTIALS, s] = min(marks[col.PARTIALS, s], blocks.header[b, col.LEAST_LAST])
    for s in range(n_stages):
        # Results of a stage's events reach the next stage and, in a loop, the same stage.
        if not net.stages[s, col.IS_START]:
            before = s - 1
            marks[col.PARTIALS, s] = min(
                marks[col.PARTIALS, s], marks[col.PARTIALS, before], marks[col.EVENTS, before]
            )
        if net.stages[s, col.IS_LOOP] or net.stages[s, col.IS_START]:
            marks[col.PARTIALS, s] = min(marks[col.PARTIALS, s], marks[col.EVENTS, s])
    return atomic.load(control, col.N_ENDED * col.LINE) == n_ended


@njit(**_HELPER)
def _remove_expired(net, blocks, own, control, trace, r, now):
    """Remove events and partial matches that cannot be part of any later match."""
    if not atomic.swap(control, col.PASS_LOCK * col.LINE, 0, 1):
        return
    n_stages, length, n_logged = len(net.stages), blocks.log.shape[2], 0
    is_marked = _write_marks(net, blocks, own, control, r)
    number = atomic.load(control, col.PASS * col.LINE)
    for s in range(n_stages if is_marked else 0):
        n_events, n_partials = 0, 0
        for kind in range(2):
            low_at = _of_stage(s, col.EVENTS_LOW + kind)
            low = atomic.load(control, low_at)
            end = atomic.load(control, _of_stage(s, col.EVENTS_NEXT + kind))
            is_tight = net.stages[s, col.IN_ORDER] and net.options[col.REMOVAL] == col.WATERMARK
            limits = net.events[col.POSITION if is_tight else col.EXPIRY]
            mark, is_first, gone = own.marks[r, 1 - kind, s], True, 0
            for i in range(low, end):
                at = ((kind * n_stages + s) * length + i % length) * 5
                if atomic.load(blocks.log, at + col.NUMBER) != i + 1:
                    is_first = False  # is still being written
                    continue
                entry = blocks.log[kind, s, i % length]
                if entry[col.IS_ALIVE]:
                    block = entry[col.LOW]
                    if kind == col.EVENTS:
                        is_gone, n = limits[entry[col.HIGH] - 1] < mark, entry[col.HIGH] - entry[col.LOW]
                    else:
                        is_gone = atomic.load(blocks.state, block) == col.HELD
                        is_gone = is_gone and blocks.header[block, col.MOST_LIMIT] < mark
                        n = blocks.header[block, col.N_ROWS]
                    if is_gone:
                        atomic.store(blocks.log, at + col.IS_ALIVE, 0)
                        gone += n
                        if kind == col.PARTIALS:
                            blocks.header[block, col.PASS_OF] = number
                            atomic.store(blocks.state, block, col.RETIRED)
                if is_first and entry[col.IS_ALIVE]:
                    is_first = False
                if is_first:
                    low = i + 1
            atomic.store(control, low_at, low)
            n_logged += end - low
            atomic.add(control, _of_stage(s, col.EVENTS_HELD + kind), -gone)
            if kind == col.EVENTS:
                n_events = gone
            else:
                n_partials = gone
        if net.options[col.IS_TRACED] and n_events + n_partials > 0:
            if net.options[col.IS_REAL]:  # after the begin of every step whose items are removed
                now = np.float64(atomic.nanoseconds())
            row = trace[atomic.add(control, col.N_TRACED * col.LINE, 1)]
            row[:] = 0
            row[col.BY_THREAD], row[col.OF_STAGE], row[col.ACTION], row[col.BEGIN] = r, s, col.BY_REMOVAL, now
            row[col.UNTIL] = now
            row[col.EVENTS_REMOVED], row[col.PARTIALS_REMOVED] = n_events, n_partials
    if is_marked:
        _free_retired(net, blocks, own, control, number)
        atomic.store(control, col.PASS * col.LINE, number + 1)
        atomic.store(control, col.N_SINCE * col.LINE, 0)
        n_used = len(blocks.free) - atomic.load(control, col.N_FREE * col.LINE)
        atomic.store(control, col.NEXT_PASS * col.LINE, 8 + (n_logged + n_used) // 8)
    atomic.store(control, col.PASS_LOCK * col.LINE, 0)


@njit(**_HELPER)
def _free_retired(net, blocks, own, control, number):
    """Free the blocks that were retired before every current step began."""
    oldest = number
    for z in range(len(own.hand)):
        oldest = min(oldest, atomic.load(control, _of_thread(len(net.stages), z, col.EPOCH)))
    _take_lock(control, col.FREE_LOCK)
    n_free = atomic.load(control, col.N_FREE * col.LINE)
    for b in range(atomic.load(control, col.N_MADE * col.LINE)):
        if atomic.load(blocks.state, b) == col.RETIRED and blocks.header[b, col.PASS_OF] < oldest:
            atomic.store(blocks.state, b, col.FREE)
            blocks.free[n_free] = b
            n_free += 1
    atomic.store(control, col.N_FREE * col.LINE, n_free)
    atomic.store(control, col.FREE_LOCK * col.LINE, 0)


# --- a step of a thread


@njit(**_INLINED)
def _has_waiting(control, stage, kind):
    """Return whether an item waits in a queue of a stage."""
    if kind == col.EVENTS:
        tail = atomic.load(control, _of_stage(stage, col.EVENT_TAIL))
        return atomic.load(control, _of_stage(stage, col.EVENT_HEAD)) < tail
    return atomic.load(control, _of_stage(stage, col.HEAD)) < atomic.load(control, _of_stage(stage, col.TAIL))


@njit(**_INLINED)
def _find_waiting_in_group(net, control, stage, kind):
    """Return the stage of an agent with a waiting item, the earliest event first; -1 if nothing waits."""
    if net.stages[stage, col.GROUP] == stage and not net.stages[stage, col.IS_FUSED]:
        return stage if _has_waiting(control, stage, kind) else -1
    best, least = -1, col.END
    for s in range(len(net.stages)):
        is_own = net.stages[s, col.GROUP] == net.stages[stage, col.GROUP] and net.stages[s, col.HAS_AGENT]
        if is_own and _has_waiting(control, s, kind):
            position = s
            if kind == col.EVENTS:  # other threads may have taken the last one meanwhile
                head = atomic.load(control, _of_stage(s, col.EVENT_HEAD))
                position = net.events[col.POSITION, min(head, net.first_event[s + 1] - 1)]
            if position < least:
                best, least = s, position
    return best


@njit(**_INLINED)
def _choose_work(net, control, hand, r):
    """Return the work that a thread should take next, ``2 * stage + kind``, or -1."""
    allocation, n_stages = net.options[col.ALLOCATION], len(net.stages)
    if allocation == col.IN_STREAM_ORDER:
        for i in range(2 * n_stages):
            s, kind = n_stages - 1 - i % n_stages, col.PARTIALS if i < n_stages else col.EVENTS
            if net.stages[s, col.HAS_AGENT] and _has_waiting(control, s, kind):
                return 2 * s + kind
        return -1
    home, kind = net.home[r, 0], net.home[r, 1]
    if home < 0:  # without agents, the source does all the work
        return -1
    for other in range(1 if allocation == col.STATIC else 2):
        wanted = kind if other == 0 else 1 - kind
        s = _find_waiting_in_group(net, control, home, wanted)
        if s >= 0:
            return 2 * s + wanted
    if allocation != col.FULLY_DYNAMIC:
        return -1
    hand[col.RANDOM] = (hand[col.RANDOM] * 1103515245 + 12345) % 2147483648
    start = (hand[col.RANDOM] >> 8) % n_stages
    for i in range(-1, n_stages):  # first the stage that last had work
        s = hand[col.FOREIGN] if i < 0 else (start + i) % n_stages
        for other in range(2):
            wanted = kind if other == 0 else 1 - kind
            if net.stages[s, col.HAS_AGENT] and _has_waiting(control, s, wanted):
                hand[col.FOREIGN] = s
                return 2 * s + wanted
    return -1


@njit(**_INLINED)
def _has_log_room(net, blocks, own, control, stage, kind):
    """Return whether the log of a stage has room for one more entry from every thread."""
    low = atomic.load(control, _of_stage(stage, col.EVENTS_LOW + kind))
    end = atomic.load(control, _of_stage(stage, col.EVENTS_NEXT + kind))
    return end - low + len(own.hand) < blocks.log.shape[2]


@njit(**_INLINED)
def _has_trace_room(net, own, control, trace):
    """Return whether the trace has room for one more step of every thread."""
    n_rows = len(own.hand) * (2 * len(net.stages) + 4)
    return not net.options[col.IS_TRACED] or atomic.load(control, col.N_TRACED * col.LINE) + n_rows <= len(
        trace
    )


@njit(**_INLINED)
def _share_own_blocks(net, blocks, control, own, hand):
    """Publish a thread's own blocks if others may lack work; stop at a block between fused agents."""
    while hand[col.OWN_CHAIN] >= 0:
        block = hand[col.OWN_CHAIN]
        stage = blocks.header[block, col.STAGE]
        if _skips_queue(net, control, own, stage - 1):
            return
        hand[col.OWN_CHAIN] = blocks.header[block, col.CHAIN]
        _publish(blocks, control, block, stage)
        atomic.add(control, col.OUTSTANDING * col.LINE, -1)  # it was already counted as the thread's own


@njit(**_INLINED)
def _take_batch(net, blocks, own, control, r, work):
    """Take a batch from a queue, or (-1) a block of the thread's own; return False if others were faster."""
    hand, n_stages, n_blocks = own.hand[r], len(net.stages), len(blocks.state)
    stage, kind = work // 2, work % 2
    if work < 0:
        block = hand[col.OWN_CHAIN]
        stage, kind = blocks.header[block, col.STAGE], col.PARTIALS
        hand[col.OWN_CHAIN] = blocks.header[block, col.CHAIN]
        hand[col.FIRST] = block
    elif kind == col.EVENTS:
        at = _of_stage(stage, col.EVENT_HEAD)
        head, tail = atomic.load(control, at), atomic.load(control, _of_stage(stage, col.EVENT_TAIL))
        n = min(tail - head, net.options[col.BATCH])
        if n <= 0:
            return False
        # In hand before it leaves the queue, so that watermarks see it in one place or the other.
        mark = _of_thread(n_stages, r, col.MARK)
        atomic.store(control, mark, net.events[col.POSITION, head] * n_stages + stage)
        if not atomic.swap(control, at, head, head + n):
            atomic.store(control, mark, -1)
            return False
        hand[col.FIRST], hand[col.STOP_AT], hand[col.N_TAKEN] = head, head + n, n
        atomic.add(control, _of_stage(stage, col.EVENTS_HELD), n)
    else:
        at = _of_stage(stage, col.HEAD)
        head = atomic.load(control, at)
        value = atomic.load(blocks.queue, stage * n_blocks + head % n_blocks)
        if value >> 24 != head or not atomic.swap(control, at, head, head + 1):
            return False
        hand[col.FIRST] = value & ((1 << 24) - 1)
    if kind == col.PARTIALS:
        n = blocks.header[hand[col.FIRST], col.N_ROWS]
        hand[col.N_TAKEN] = n
        atomic.add(control, _of_stage(stage, col.PARTIALS_HELD), n)
        if work >= 0:
            atomic.add(control, _of_stage(stage, col.PARTIALS_QUEUED), -n)
    if work >= 0:
        atomic.add(control, col.N_WAITING * col.LINE, -hand[col.N_TAKEN])
    atomic.store(control, _of_thread(n_stages, r, col.EPOCH), atomic.load(control, col.PASS * col.LINE))
    hand[col.KIND], hand[col.AT_STAGE] = kind, stage
    # Log entry: first its index, then the ticket. A thread with a higher ticket then finds this entry.
    i = atomic.add(control, _of_stage(stage, col.EVENTS_NEXT + kind), 1)
    length = blocks.log.shape[2]
    entry, at = blocks.log[kind, stage, i % length], ((kind * n_stages + stage) * length + i % length) * 5
    atomic.store(blocks.log, at + col.NUMBER, -i - 1)
    hand[col.HELD_TICKET] = atomic.add(control, _of_stage(stage, col.TICKETS), 1)
    entry[col.TICKET], entry[col.LOW] = hand[col.HELD_TICKET], hand[col.FIRST]
    entry[col.HIGH], entry[col.IS_ALIVE] = hand[col.STOP_AT], 1
    atomic.store(blocks.log, at + col.NUMBER, i + 1)
    return True


@njit(**_INLINED)
def _gather_partners(net, blocks, own, control, r):
    """List the partners of a thread's batch: blocks, or ranges of events."""
    hand, lists, n_stages = own.hand[r], own.lists[r], len(net.stages)
    stage, kind, ticket = hand[col.AT_STAGE], hand[col.KIND], hand[col.HELD_TICKET]
    other, length = 1 - kind, blocks.log.shape[2]
    low = atomic.load(control, _of_stage(stage, col.EVENTS_LOW + other))
    end = atomic.load(control, _of_stage(stage, col.EVENTS_NEXT + other))
    n, position = 0, net.events[col.POSITION]
    if kind == col.EVENTS:
        least, most = position[hand[col.FIRST]], position[hand[col.STOP_AT] - 1]
    else:
        least = blocks.header[hand[col.FIRST], col.LEAST_LAST]
        most = blocks.header[hand[col.FIRST], col.MOST_LIMIT]
    is_pruned, in_order = net.options[col.IS_SCOPED], net.stages[stage, col.IN_ORDER]
    longest = blocks.header[hand[col.FIRST], col.LONGEST] if kind == col.PARTIALS else 0
    for i in range(low, end):
        at = ((other * n_stages + stage) * length + i % length) * 5
        number = atomic.load(blocks.log, at + col.NUMBER)
        while number != i + 1 and abs(number) <= i + 1:  # its thread is about to write it
            number = atomic.load(blocks.log, at + col.NUMBER)
        if number != i + 1:
            continue  # it was removed and its place is used again
        # The order matters: the number is read again after all other fields.
        a, b = atomic.load(blocks.log, at + col.LOW), atomic.load(blocks.log, at + col.HIGH)
        is_alive, other_ticket = (
            atomic.load(blocks.log, at + col.IS_ALIVE), atomic.load(blocks.log, at + col.TICKET)
        )  # fmt: skip
        if atomic.load(blocks.log, at + col.NUMBER) != i + 1 or not is_alive or other_ticket > ticket:
            continue
        if other == col.PARTIALS:
            header = blocks.header[a]
            if is_pruned and (
                header[col.MOST_LIMIT] < least or (in_order and header[col.LEAST_LAST] >= most)
            ):
                continue
            longest = max(longest, header[col.LONGEST])
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
    hand[col.LONGEST_TAKEN] = longest
    if kind == col.EVENTS:
        lists[1, 0], lists[2, 0] = hand[col.FIRST], hand[col.STOP_AT]
        hand[col.N_BLOCKS], hand[col.N_RANGES] = n, 1
    else:
        lists[0, 0] = hand[col.FIRST]
        hand[col.N_BLOCKS], hand[col.N_RANGES] = 1, n
    at = own.at[r]
    at[0], at[1], at[2], at[3] = 0 if n else hand[col.N_BLOCKS], 0, 0, -1


@njit(**_INLINED)
def _join_batch(joins, net, blocks, found, own, control, r, now):
    """Join a thread's batch with its partners; return WENT_ON once all pairs are tested."""
    hand, at, report, out = own.hand[r], own.at[r], own.report[r], own.out[r]
    stage, kind = hand[col.AT_STAGE], hand[col.KIND]
    cost, counts = net.cost[stage, kind], own.counts[r, stage]
    need = 2 * (col.MOST_HITS // blocks.items.shape[1] + 2)
    n_threads = len(own.hand)
    # In virtual time each match has its own time, so results cannot only be counted.
    is_counted = net.options[col.IS_REAL] and not _needs_path(net, stage)
    while at[0] < hand[col.N_BLOCKS]:
        if atomic.load(control, col.STOP * col.LINE):
            return col.STOPPED
        if not _take_spare_blocks(blocks.free, control, own, r, need):
            return col.MORE_BLOCKS
        room = len(found.branch) - n_threads * col.MOST_HITS - net.options[col.CHUNK]
        if net.options[col.IS_KEPT] and atomic.load(control, col.N_FOUND * col.LINE) > room:
            return col.MORE_MATCHES
        if hand[col.LONGEST_TAKEN] + 1 > blocks.items.shape[2]:
            return col.MORE_ITEMS
        n = _join(joins.join, (
            stage, hand[col.N_BLOCKS], hand[col.N_RANGES], own.lists[r], blocks.header, blocks.items,
            blocks.sizes, blocks.limits, net.events, net.options[col.IS_SCOPED], net.options[col.IS_RISING],
            is_counted, at,
            own.path[r], own.first[r], out, report, blocks.memo, *joins.world
        ))  # fmt: skip
        counts[col.COMPARED + kind] += report[0]
        hand[col.N_COMPARED] += report[0]
        hand[col.N_LOOKED] += report[1]
        hand[col.N_TESTED] += report[2]
        counts[col.LOOKED + kind] += report[1]
        own.time[r, col.TAKES] += (
            report[2] * cost[col.COMPARE] + report[1] * cost[col.LOOK] + n * cost[col.SEND]
        )
        time = now + own.time[r, col.TAKES]
        if net.options[col.IS_REAL]:
            time = np.float64(atomic.nanoseconds()) if net.options[col.IS_TRACED] else 0.0
        _route_hits(net, blocks, found, own, control, joins, r, stage, n, time)
    return col.WENT_ON


@njit(**_INLINED)
def _end_step(net, blocks, own, control, trace, r, now):
    """Publish the results of a thread's step and let go of its batch."""
    hand, n_stages = own.hand[r], len(net.stages)
    stage, kind = hand[col.AT_STAGE], hand[col.KIND]
    _close_open_block(blocks, own, r, col.OPEN_NEXT)
    _close_open_block(blocks, own, r, col.OPEN_LOOP)
    if _skips_queue(net, control, own, stage):
        while hand[col.CHAIN_NEXT] >= 0:  # they skip the queue
            block = hand[col.CHAIN_NEXT]
            hand[col.CHAIN_NEXT] = blocks.header[block, col.CHAIN]
            blocks.header[block, col.CHAIN] = hand[col.OWN_CHAIN]
            hand[col.OWN_CHAIN] = block
            atomic.add(control, col.OUTSTANDING * col.LINE, 1)
            atomic.store(blocks.state, block, col.WAITING)
    else:
        _publish_closed(blocks, control, own, r, col.OPEN_NEXT)
    _publish_closed(blocks, control, own, r, col.OPEN_LOOP)
    if net.options[col.IS_TRACED]:
        row = trace[atomic.add(control, col.N_TRACED * col.LINE, 1)]
        row[col.BY_THREAD], row[col.OF_STAGE], row[col.ACTION] = r, stage, col.BY_EVENTS + kind
        row[col.BEGIN], row[col.UNTIL], row[col.WITH_ITEMS] = own.time[r, col.BEGUN], now, hand[col.N_TAKEN]
        row[col.WITH_COMPARED], row[col.WITH_MATCHES] = hand[col.N_COMPARED], hand[col.N_MATCHED]
        row[col.WITH_SENT], row[col.WITH_LOOPED] = hand[col.N_TO_NEXT], hand[col.N_TO_LOOP]
        row[col.EVENTS_REMOVED], row[col.PARTIALS_REMOVED] = 0, 0
        row[col.WITH_LOOKED], row[col.WITH_TESTED] = hand[col.N_LOOKED], hand[col.N_TESTED]
    own.time[r, col.BUSY] += now - own.time[r, col.BEGUN]
    # Before the batch is let go: a thread that is reading watermarks will discard them.
    atomic.add(control, col.N_ENDED * col.LINE, 1)
    if kind == col.EVENTS:
        atomic.store(control, _of_thread(n_stages, r, col.MARK), -1)
        atomic.add(control, col.OUTSTANDING * col.LINE, -hand[col.N_TAKEN])
    else:
        atomic.store(blocks.state, hand[col.FIRST], col.HELD)
        atomic.add(control, col.OUTSTANDING * col.LINE, -1)
    atomic.store(control, _of_thread(n_stages, r, col.EPOCH), col.END)
    hand[col.PHASE] = col.NOTHING_TAKEN
    if net.options[col.REMOVAL] != col.NOTHING:
        since = atomic.add(control, col.N_SINCE * col.LINE, 1)
        if since >= atomic.load(control, col.NEXT_PASS * col.LINE):
            _remove_expired(net, blocks, own, control, trace, r, now)


@njit(**_HELPER)
def _deliver(joins, net, blocks, found, own, control, trace, r, now):
    """Deliver the source's next events; return FINISHED if no events are left."""
    n_deliveries = net.deliveries.shape[1]
    cursor = atomic.load(control, col.CURSOR * col.LINE)
    if cursor >= n_deliveries:
        return col.FINISHED
    if not _has_trace_room(net, own, control, trace):
        return col.MORE_TRACE
    if not _take_spare_blocks(blocks.free, control, own, r, 2 * net.options[col.CHUNK] + 2):
        return col.MORE_BLOCKS
    if net.options[col.IS_KEPT]:
        room = len(found.branch) - len(own.hand) * col.MOST_HITS - net.options[col.CHUNK]
        if atomic.load(control, col.N_FOUND * col.LINE) > room:
            return col.MORE_MATCHES
    hand, end = own.hand[r], min(cursor + net.options[col.CHUNK], n_deliveries)
    if not net.options[col.IS_REAL]:  # later events may not have arrived yet
        for i in range(end - 1, cursor, -1):
            if net.arrival[net.deliveries[1, i]] > now:
                end = i
    n_done, n_waiting, was = 0, 0, -1
    # Values of the thread's last step.
    hand[col.N_TO_NEXT], hand[col.N_TO_LOOP], hand[col.N_MATCHED] = 0, 0, 0
    for s in range(len(net.stages)):
        own.marks[r, 0, s], own.marks[r, 1, s] = own.counts[r, s, col.N_SENT], own.counts[r, s, col.N_LOOPED]
    for i in range(cursor, end):
        stage, position = net.deliveries[0, i], net.deliveries[1, i]
        event_at = _of_stage(stage, col.EVENT_TAIL)
        event = atomic.load(control, event_at)
        if net.stages[stage, col.IS_START] and position < net.options[col.START_END]:
            if was >= 0 and was != stage:  # a block belongs to one stage
                _close_open_block(blocks, own, r, col.OPEN_NEXT)
                _close_open_block(blocks, own, r, col.OPEN_LOOP)
            was = stage
            own.out[r, 0, 0], own.out[r, 1, 0], own.out[r, 2, 0] = -1, -1, net.events[col.PLACE, event]
            _route_hits(net, blocks, found, own, control, joins, r, stage, 1, now)
        atomic.store(control, event_at, event + 1)
        if net.stages[stage, col.HAS_AGENT]:
            n_waiting += 1
        else:
            n_done += 1
    _close_open_block(blocks, own, r, col.OPEN_NEXT)
    _close_open_block(blocks, own, r, col.OPEN_LOOP)
    _publish_closed(blocks, control, own, r, col.OPEN_NEXT)
    _publish_closed(blocks, control, own, r, col.OPEN_LOOP)
    atomic.add(control, col.N_WAITING * col.LINE, n_waiting)
    for s in range(-1, len(net.stages) if net.options[col.IS_TRACED] else -1):
        n_sent = own.counts[r, s, col.N_SENT] - own.marks[r, 0, s] if s >= 0 else 0
        n_looped = own.counts[r, s, col.N_LOOPED] - own.marks[r, 1, s] if s >= 0 else 0
        if s < 0 or n_sent + n_looped > 0:
            row = trace[atomic.add(control, col.N_TRACED * col.LINE, 1)]
            row[:] = 0
            row[col.BY_THREAD], row[col.OF_STAGE], row[col.ACTION], row[col.BEGIN] = r, s, col.BY_SOURCE, now
            row[col.UNTIL] = now
            row[col.WITH_ITEMS] = end - cursor if s < 0 else 0
            row[col.WITH_SENT], row[col.WITH_LOOPED] = n_sent, n_looped
            row[col.WITH_MATCHES] = hand[col.N_MATCHED] if s < 0 else 0
    atomic.add(control, col.N_ENDED * col.LINE, 1)
    atomic.store(control, col.CURSOR * col.LINE, end)
    atomic.add(control, col.OUTSTANDING * col.LINE, -n_done)
    return col.WENT_ON


@njit(**_INLINED)
def _advance(joins, net, blocks, found, own, control, trace, r, now):
    """Let a thread end its last step, take a batch and join it; return how the call ended."""
    hand = own.hand[r]
    if hand[col.PHASE] == col.JOINED:
        _end_step(net, blocks, own, control, trace, r, now)
        if net.options[col.IS_REAL] and net.options[col.IS_TRACED]:
            now = np.float64(atomic.nanoseconds())
    if hand[col.PHASE] == col.NOTHING_TAKEN:
        if not _has_trace_room(net, own, control, trace):
            return col.MORE_TRACE
        work, random, foreign = -1, hand[col.RANDOM], hand[col.FOREIGN]
        _share_own_blocks(net, blocks, control, own, hand)
        if hand[col.OWN_CHAIN] < 0:
            work = _choose_work(net, control, hand, r)
            if work < 0:
                return col.IDLE
            if not _has_log_room(net, blocks, own, control, work // 2, work % 2):
                # The next call chooses the same work.
                hand[col.RANDOM], hand[col.FOREIGN] = random, foreign
                return col.MORE_LOG
        elif not _has_log_room(
            net, blocks, own, control, blocks.header[hand[col.OWN_CHAIN], col.STAGE], col.PARTIALS
        ):
            return col.MORE_LOG
        if not _take_batch(net, blocks, own, control, r, work):
            return col.WENT_ON
        _gather_partners(net, blocks, own, control, r)
        stage, kind, counts = hand[col.AT_STAGE], hand[col.KIND], own.counts[r, hand[col.AT_STAGE]]
        cost = net.cost[stage, kind]
        n_buffers = net.stages[stage, col.N_MATCH_WORKERS if kind == col.EVENTS else col.N_EVENT_WORKERS]
        counts[col.N_ITEMS + kind] += hand[col.N_TAKEN]
        counts[col.N_LOCKS] += n_buffers
        own.time[r, col.BEGUN] = now
        own.time[r, col.TAKES] = hand[col.N_TAKEN] * cost[col.ITEM] + n_buffers * cost[col.LOCK]
        hand[col.N_COMPARED], hand[col.N_LOOKED], hand[col.N_TESTED] = 0, 0, 0
        hand[col.N_TO_NEXT], hand[col.N_TO_LOOP], hand[col.N_MATCHED] = 0, 0, 0
        hand[col.PHASE] = col.TAKEN
    code = _join_batch(joins, net, blocks, found, own, control, r, now)
    if code == col.WENT_ON:
        hand[col.PHASE] = col.JOINED
    return code


# --- threads


@njit(T.int64(*_TYPES, T.int64, T.int64), **_OPTIONS)
def work(joins, net, blocks, found, own, control, trace, r, n_spins):
    """Let a real thread work until the run is finished, another thread stops it, or it idles too long."""
    n_waited = 0
    while not atomic.load(control, col.STOP * col.LINE):
        now = np.float64(atomic.nanoseconds()) if net.options[col.IS_TRACED] else 0.0
        code = _advance(joins, net, blocks, found, own, control, trace, r, now)
        if code == col.IDLE:
            if atomic.load(control, col.OUTSTANDING * col.LINE) == 0:
                # A pass that is under way may have begun before the source reached its end.
                while atomic.load(control, col.PASS_LOCK * col.LINE) and not atomic.load(
                    control, col.STOP * col.LINE
                ):
                    pass
                _remove_expired(net, blocks, own, control, trace, r, now)
                return col.FINISHED
            is_wanted = atomic.load(control, col.N_WAITING * col.LINE) < net.options[col.BACKLOG]
            if is_wanted and atomic.swap(control, col.SOURCE_LOCK * col.LINE, 0, 1):
                code = _deliver(joins, net, blocks, found, own, control, trace, r, now)
                atomic.store(control, col.SOURCE_LOCK * col.LINE, 0)
        if code == col.WENT_ON:
            n_waited = 0
        elif code >= col.MORE_BLOCKS:
            atomic.swap(control, col.STOP * col.LINE, 0, code)
            return code
        else:
            n_waited += 1
            if n_waited > n_spins:
                return col.IDLE
    return col.STOPPED


@njit(**_INLINED)
def _wake_threads(net, control, clock, n_threads, now):
    """Wake one waiting thread for every stage and kind with waiting items."""
    for stage in range(len(net.stages)):
        for kind in range(2 if net.stages[stage, col.HAS_AGENT] else 0):
            if _has_waiting(control, stage, kind):
                for r in range(n_threads):
                    if clock[r] >= col.NEVER and net.serves[stage, r, kind]:
                        clock[r] = now
                        break


@njit(T.int64(*_TYPES, *_arrays("f1", "f2"), T.int64), **_OPTIONS)
def simulate(joins, net, blocks, found, own, control, trace, clock, held, n_steps):
    """Simulate all threads in virtual time; the thread with the earliest clock goes next."""
    # ``n_steps`` limits the call. A step that looks at many pairs counts as several. ``clock`` holds the
    # clocks of the threads and of the source, and the end of the last step. ``held`` holds the bytes of an
    # event and of a partial match by stage, then the current and the largest total.
    n_threads, n_stages = len(own.hand) - 1, len(net.stages)
    n_deliveries = net.deliveries.shape[1]
    n_done = 0
    while n_done < n_steps:
        n_done += 1
        r, now, waits = n_threads, clock[n_threads], False
        for z in range(n_threads):
            waits |= clock[z] >= col.NEVER
            if clock[z] < now:
                r, now = z, clock[z]
        if now >= col.NEVER:
            _remove_expired(net, blocks, own, control, trace, n_threads, clock[n_threads + 1])
            return col.FINISHED
        n_passed = atomic.load(control, col.CURSOR * col.LINE)
        if r == n_threads:
            if atomic.load(control, col.N_WAITING * col.LINE) >= net.options[col.BACKLOG]:
                clock[r] = col.NEVER  # the end of a step wakes it
                continue
            code = _deliver(joins, net, blocks, found, own, control, trace, r, now)
        else:
            code = _advance(joins, net, blocks, found, own, control, trace, r, now)
            if code == col.IDLE and net.options[col.SOURCE_BY_THREADS]:
                cursor = atomic.load(control, col.CURSOR * col.LINE)
                if cursor < n_deliveries:
                    arrival = net.arrival[net.deliveries[1, cursor]]
                    if arrival > now:
                        clock[r] = arrival
                        continue
                    code = _deliver(joins, net, blocks, found, own, control, trace, r, now)
                    if code == col.WENT_ON:
                        clock[n_threads + 1] = max(clock[n_threads + 1], now)
                        continue
        if code >= col.MORE_BLOCKS:
            return code
        n_passed = atomic.load(control, col.CURSOR * col.LINE) - n_passed
        if code in (col.IDLE, col.FINISHED):
            clock[r] = col.NEVER
        elif r < n_threads:
            n_done += (own.hand[r, col.N_LOOKED] + own.hand[r, col.N_TESTED]) // _PAIRS_PER_STEP
            clock[r] = now + own.time[r, col.TAKES]
            clock[n_threads + 1] = max(clock[n_threads + 1], clock[r])
        else:
            clock[n_threads + 1] = max(clock[n_threads + 1], now)
        cursor = atomic.load(control, col.CURSOR * col.LINE)
        if not net.options[col.SOURCE_BY_THREADS] and cursor < n_deliveries:
            if r == n_threads:
                passed = now + (n_passed - 1) * net.options[col.ROUTE]
                clock[r] = max(passed, net.arrival[net.deliveries[1, cursor]]) + net.options[col.ROUTE]
            elif clock[n_threads] >= col.NEVER:
                clock[n_threads] = max(now, net.arrival[net.deliveries[1, cursor]])
        if waits or clock[r] >= col.NEVER:
            _wake_threads(net, control, clock, n_threads, now)
        n_bytes = 0.0
        for s in range(n_stages):
            n_partials = atomic.load(control, _of_stage(s, col.PARTIALS_HELD))
            n_partials += atomic.load(control, _of_stage(s, col.PARTIALS_QUEUED))
            n_bytes += (
                held[0, s] * atomic.load(control, _of_stage(s, col.EVENTS_HELD)) + held[1, s] * n_partials
            )
        held[0, n_stages] = n_bytes
        held[1, n_stages] = max(held[1, n_stages], n_bytes)
    return col.WENT_ON
