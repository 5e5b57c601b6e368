"""Kernel of the left-deep evaluation tree: events one by one, counted conditions and partial matches.

A partial match is a row of ``pool``: the columns below, then one member per component of its tree. A member
is a position, or the number of a cell for a component that takes several events. A cell adds one event to an
earlier cell, so that sets share their beginnings. No query changes the code: trees are tables, and conditions
are the instructions of `cepkit.kernels.interpreted_walk`.

Source: ZStream, left-deep trees; DARLING, section 3.
"""

import numpy as np
from numba import types as T

from cepkit.kernels.interpreted_walk import CONDITIONS, NEEDS, holds
from cepkit.kernels.jit import Record, njit
from cepkit.kernels.opcodes import NOWHERE
from cepkit.kernels.shedding.tree_layout import (
    ABSENT_LEAF,
    AFTER,
    AFTER_OF_FIRST,
    ALIVE,
    ALIVE_AFTER,
    ALLOWED_ALONE,
    AT,
    BASE,
    BEFORE,
    BEFORE_OF_FIRST,
    BIN_SIZE,
    CELL_BEFORE,
    CELL_FIRST,
    CELL_LAST,
    CELL_SIZE,
    CELL_USERS,
    COMPLETE,
    COMPONENT,
    CREATED,
    DONE,
    ENDS_BY_EVENTS,
    FIRST,
    FIRST_ABSENCE,
    FIRST_BESIDE,
    FIRST_CLOSE,
    FIRST_JOIN,
    FIRST_ORDER,
    FIRST_OWN,
    FIRST_ROW,
    FIRST_UNARY,
    FOUND,
    FREE,
    FREE_CELL,
    FREE_SLOT,
    FROM,
    FROM_END,
    GAP,
    HAS_SKIP,
    HELD,
    HIGH,
    ID,
    IS_ABSENT,
    IS_BEGUN,
    IS_CLOSED,
    IS_FULL,
    IS_GROUP,
    IS_LEARNING,
    IS_NEXT,
    IS_RIGHT,
    IS_ROOT,
    IS_STRICT,
    KEEPS,
    KILLS,
    LAST,
    LAST_ABSENCE,
    LAST_BESIDE,
    LAST_CLOSE,
    LAST_JOIN,
    LAST_ORDER,
    LAST_OWN,
    LAST_UNARY,
    LEFT,
    LEFT_FIRST,
    LENGTH,
    LENGTH_AFTER,
    LOG_BASE,
    LOG_BIN,
    LOG_COST,
    LOG_ID,
    LOG_LEFT,
    LOG_NODE,
    LOG_POSITION,
    LOG_RIGHT,
    LOG_STATE,
    LOG_TYPE,
    LONGEST,
    LOW,
    MEMBERS,
    MOST_ALIVE,
    MOST_COMPLETE,
    MOST_SEEN,
    MOST_WORK,
    N_ALIVE,
    N_COMPLETE,
    N_COMPONENTS,
    N_COUNTS,
    N_FREE,
    N_FREE_CELLS,
    N_LEAVES,
    N_NODES,
    N_WAITING,
    NEEDS_CELLS,
    NEEDS_LOG,
    NEEDS_PATH,
    NEEDS_SLOTS,
    NEXT_ID,
    NODE,
    NOT_ABSENT,
    ONLY_TYPED,
    PAIRS,
    PARENT,
    PARTITION,
    PEER,
    RELATION,
    REMOVED,
    RIGHT,
    RIGHT_FIRST,
    STATE,
    STATUS,
    STOP,
    SWEEP,
    TO,
    TO_END,
    TOO_MANY,
    TOTAL_LENGTH,
    TREE,
    TRIES,
    TYPE_TEST,
    WAITS,
    WITHIN,
    WITHIN_EVENTS,
    Learned,
    TreeEvents,
    Trees,
    TreeState,
)  # fmt: skip

_I1, _I2, _I3 = (T.Array(T.int64, n, "C") for n in (1, 2, 3))
_READ, _READ2 = (T.Array(T.int64, n, "C", readonly=True) for n in (1, 2))
_U2 = T.Array(T.uint8, 2, "C", readonly=True)
_B3 = T.Array(T.uint8, 3, "C", readonly=True)
_OPTIONS = {"nogil": True, "error_model": "numpy", "_nrt": False, "no_cfunc_wrapper": True}
_HELPER = {**_OPTIONS, "no_cpython_wrapper": True}
_ARRIVALS, _TREES = Record([*[_READ] * 4, _U2], TreeEvents), Record([_READ2] * 7, Trees)
_STATE = Record([_I1, _I2, _I2, *[_I1] * 7], TreeState)


@njit(**_HELPER)
def _bounds(row, component, cells, is_group):
    """Return the first and the last position of a member."""
    member = row[MEMBERS + component]
    if is_group:
        return cells[member, CELL_FIRST], cells[member, CELL_LAST]
    return member, member


@njit(**_HELPER)
def _is_within(begin, end, limit):
    """Return whether a later time is at most ``limit`` away; 64 bits without a sign hold the distance."""
    return np.uint64(end - begin) <= np.uint64(limit)


@njit(**_HELPER)
def _fits(first, last, limits, time, rank):
    """Return whether two events of a partition fit into the window."""
    base = limits[BASE]
    if limits[WITHIN] >= 0 and not np.uint64(time[last - base] - time[first - base]) <= np.uint64(
        limits[WITHIN]
    ):
        return False
    return limits[WITHIN_EVENTS] == 0 or rank[last - base] - rank[first - base] < limits[WITHIN_EVENTS]


@njit(**_HELPER)
def _follows(before, after, is_next, limits, time):
    """Return whether a component may begin at one position after another one ended."""
    if after <= before:
        return False
    base = limits[BASE]
    begin, end = time[before - base], time[after - base]
    if limits[IS_STRICT] and begin == end:
        return False
    return not is_next or limits[GAP] < 0 or _is_within(begin, end, limits[GAP])


@njit(**_HELPER)
def _in_order(parent, left, right, nodes, orders, groups, pool, cells, limits, time):
    """Return whether the events of two sides are in the order that their join wants."""
    own = nodes[parent]
    tree = own[TREE]
    for x in range(own[FIRST_ORDER], own[LAST_ORDER]):
        one, other = orders[x, LEFT], orders[x, RIGHT]
        one_first, one_last = _bounds(pool[left], one, cells, groups[tree, one])
        other_first, other_last = _bounds(pool[right], other, cells, groups[tree, other])
        relation = orders[x, RELATION]
        if relation == LEFT_FIRST:
            if not _follows(one_last, other_first, orders[x, IS_NEXT], limits, time):
                return False
        elif relation == RIGHT_FIRST:
            if not _follows(other_last, one_first, orders[x, IS_NEXT], limits, time):
                return False
        elif one_first == other_first:
            return False
    return True


@njit(**_HELPER)
def _write_path(left, right, tree, n_components, groups, pool, cells, base, path, first):
    """Write the events of one or two partial matches by component, and return their number."""
    d = 0
    for c in range(n_components):
        first[c] = d
        member = pool[left, MEMBERS + c]
        if member < 0 and right >= 0:
            member = pool[right, MEMBERS + c]
        if member < 0:
            continue
        if groups[tree, c]:
            size = cells[member, CELL_SIZE]
            for x in range(d + size - 1, d - 1, -1):
                path[x] = cells[member, CELL_LAST] - base
                member = cells[member, CELL_BEFORE]
            d += size
        else:
            path[d] = member - base
            d += 1
    first[n_components] = d
    return d


@njit(**_HELPER)
def _all_true(low, high, listed, query, path, first, last, y, own_counts, n_conditions):
    """Return whether all conditions of a list hold. Count them, up to the first one that does not hold."""
    for x in range(low, high):
        q, number = listed[x, 0], listed[x, 1]
        own_counts[N_COUNTS + number] += 1
        if not holds(q, query, path, first, last, y):
            return False
        own_counts[N_COUNTS + n_conditions + number] += 1
    return True


@njit(**_HELPER)
def _sum_of(own_counts, n_conditions):
    """Return how many conditions the event evaluated so far."""
    n = 0
    for x in range(N_COUNTS, N_COUNTS + n_conditions):
        n += own_counts[x]
    return n


@njit(**_HELPER)
def _take_slot(node, partition, first, last, length, info, pool):
    """Return the row of a new partial match."""
    slot = info[FREE_SLOT]
    info[FREE_SLOT] = pool[slot, AFTER]
    info[N_FREE] -= 1
    row = pool[slot]
    row[NODE], row[ID], row[FIRST], row[LAST] = node, info[NEXT_ID], first, last
    row[LENGTH], row[STATUS], row[PARTITION], row[IS_CLOSED] = length, HELD, partition, 1
    for x in range(MEMBERS, len(row)):
        row[x] = -1
    info[NEXT_ID] += 1
    info[LONGEST] = max(info[LONGEST], length)
    return slot


@njit(**_HELPER)
def _new_cell(position, before, info, cells):
    """Return a new cell with one event more than the cell ``before``; -1: none."""
    cell = info[FREE_CELL]
    info[FREE_CELL] = cells[cell, CELL_BEFORE]
    info[N_FREE_CELLS] -= 1
    cells[cell, CELL_LAST], cells[cell, CELL_BEFORE], cells[cell, CELL_USERS] = position, before, 1
    cells[cell, CELL_FIRST] = position if before < 0 else cells[before, CELL_FIRST]
    cells[cell, CELL_SIZE] = 1 if before < 0 else cells[before, CELL_SIZE] + 1
    if before >= 0:
        cells[before, CELL_USERS] += 1
    return cell


@njit(**_HELPER)
def _give_back(slot, tree, n_components, groups, info, pool, cells):
    """Free the row of a partial match, and the cells that no other one uses."""
    for c in range(n_components):
        cell = pool[slot, MEMBERS + c]
        if cell < 0 or not groups[tree, c]:
            continue
        while cell >= 0:
            cells[cell, CELL_USERS] -= 1
            if cells[cell, CELL_USERS] > 0:
                break
            before = cells[cell, CELL_BEFORE]
            cells[cell, CELL_BEFORE] = info[FREE_CELL]
            info[FREE_CELL] = cell
            info[N_FREE_CELLS] += 1
            cell = before
    pool[slot, STATUS] = FREE
    pool[slot, AFTER] = info[FREE_SLOT]
    info[FREE_SLOT] = slot
    info[N_FREE] += 1
    return 0


@njit(**_HELPER)
def _store(slot, limits, info, pool, heads, sizes, chain):
    """Keep a partial match for later events."""
    row = pool[slot]
    at = row[PARTITION] * limits[N_NODES] + row[NODE]
    row[STATUS] = ALIVE
    row[BEFORE], row[AFTER] = -1, heads[at]
    if heads[at] >= 0:
        pool[heads[at], BEFORE] = slot
    heads[at] = slot
    sizes[at] += 1
    first = row[FIRST] - limits[BASE]
    row[BEFORE_OF_FIRST], row[AFTER_OF_FIRST] = -1, chain[first]
    if chain[first] >= 0:
        pool[chain[first], BEFORE_OF_FIRST] = slot
    chain[first] = slot
    info[N_ALIVE] += 1
    info[TOTAL_LENGTH] += row[LENGTH]
    info[MOST_SEEN] = max(info[MOST_SEEN], info[N_ALIVE])
    return 0


@njit(**_HELPER)
def _take_out(slot, limits, info, pool, heads, sizes, chain):
    """Take a partial match out of the lists; its row stays in use."""
    row = pool[slot]
    at = row[PARTITION] * limits[N_NODES] + row[NODE]
    if row[BEFORE] >= 0:
        pool[row[BEFORE], AFTER] = row[AFTER]
    else:
        heads[at] = row[AFTER]
    if row[AFTER] >= 0:
        pool[row[AFTER], BEFORE] = row[BEFORE]
    sizes[at] -= 1
    if row[BEFORE_OF_FIRST] >= 0:
        pool[row[BEFORE_OF_FIRST], AFTER_OF_FIRST] = row[AFTER_OF_FIRST]
    else:
        chain[row[FIRST] - limits[BASE]] = row[AFTER_OF_FIRST]
    if row[AFTER_OF_FIRST] >= 0:
        pool[row[AFTER_OF_FIRST], BEFORE_OF_FIRST] = row[BEFORE_OF_FIRST]
    info[N_ALIVE] -= 1
    info[TOTAL_LENGTH] -= row[LENGTH]
    row[STATUS] = HELD
    return 0


@njit(**_HELPER)
def _log(slot, left, right, cost, cell, limits, info, pool, log):
    """Write a new partial match to the log of what a machine learns."""
    at = pool[slot, ID] - limits[LOG_BASE]
    row = log[at]
    row[LOG_ID], row[LOG_NODE], row[LOG_COST] = pool[slot, ID], pool[slot, NODE], cost
    row[LOG_LEFT] = pool[left, ID] if left >= 0 else -1
    row[LOG_RIGHT] = pool[right, ID] if right >= 0 else -1
    row[LOG_POSITION] = info[AT]
    row[LOG_TYPE], row[LOG_BIN], row[LOG_STATE] = cell
    return 0


@njit(**_HELPER)
def _cell_of(kind, first, state, position, limits, skip):
    """Return the cell of the tables for an event and a partial match: type, bin of its place, state."""
    b = min((position - first) // limits[BIN_SIZE], skip.shape[1] - 1)
    return kind, b, state


@njit(**_HELPER)
def _absent_kills(slot, is_over, of_trees, query, arrivals, limits, state, own_counts):
    """Return whether an absent event forbids a match: one after it if its window is over, else any other."""
    nodes, trees, absences, groups = of_trees.nodes, of_trees.trees, of_trees.absences, of_trees.groups
    time, n_conditions = arrivals.time, (len(own_counts) - N_COUNTS) // 2
    pool, cells, heads, path, first = state.pool, state.cells, state.heads, state.path, state.first
    row = pool[slot]
    tree = nodes[row[NODE], TREE]
    n_components, base = trees[tree, N_COMPONENTS], limits[BASE]
    last = -1
    for x in range(trees[tree, FIRST_ABSENCE], trees[tree, LAST_ABSENCE]):
        own = absences[x]
        if (own[TO] < 0) != is_over:
            continue
        reading = nodes[own[ABSENT_LEAF], IS_ABSENT]
        low, high = -1, -1
        if own[FROM] >= 0:
            begin, end = _bounds(row, own[FROM], cells, groups[tree, own[FROM]])
            low = end if own[FROM_END] else begin
        if own[TO] >= 0:
            begin, end = _bounds(row, own[TO], cells, groups[tree, own[TO]])
            high = end if own[TO_END] else begin
        at = heads[row[PARTITION] * limits[N_NODES] + own[ABSENT_LEAF]]
        while at >= 0:
            y = pool[at, FIRST]
            if own[FROM] >= 0 and y <= low:
                break
            is_between = own[TO] < 0 or y < high
            if is_between and own[FROM] < 0 and limits[WITHIN] >= 0:
                is_between = _is_within(time[y - base], time[row[LAST] - base], limits[WITHIN])
            if is_between and own[TO] < 0 and limits[WITHIN] >= 0:
                is_between = _is_within(time[row[FIRST] - base], time[y - base], limits[WITHIN])
            if is_between:
                kills = reading in (KILLS, ALLOWED_ALONE) or pool[at, IS_CLOSED] == 0
                if own[FIRST_BESIDE] < own[LAST_BESIDE] and pool[at, IS_CLOSED]:
                    if last < 0:
                        last = _write_path(
                            slot, -1, tree, n_components, groups, pool, cells, base, path, first
                        ) - 1  # fmt: skip
                    held = _all_true(
                        own[FIRST_BESIDE], own[LAST_BESIDE], of_trees.listed, query, path, first, last,
                        y - base, own_counts, n_conditions,
                    )  # fmt: skip
                    kills = held == (reading == KILLS)
                if kills:
                    return True
            at = pool[at, AFTER]
    return False


@njit(**_HELPER)
def _finish(slot, info, pool, complete, own_counts):
    """Report a complete match."""
    n_conditions = (len(own_counts) - N_COUNTS) // 2
    pool[slot, STATUS] = COMPLETE
    pool[slot, BEFORE], pool[slot, AFTER] = _sum_of(own_counts, n_conditions), own_counts[CREATED]
    complete[info[N_COMPLETE]] = slot
    info[N_COMPLETE] += 1
    own_counts[FOUND] += 1
    return 0


@njit(
    [
        (
            _I1, _ARRIVALS, _TREES, CONDITIONS, _STATE, _I2,
            Record([_B3, *[_I3] * 3, _I2], Learned),
        )
    ],
    cache=True, **_OPTIONS,
)  # fmt: skip
def advance(limits, arrivals, of_trees, query, state, counts, learned):
    """Process the events from position ``info[AT]`` to before ``limits[STOP]``; return why the call ended.

    After `NEEDS_SLOTS`, `NEEDS_CELLS`, `NEEDS_PATH` and `NEEDS_LOG`, the caller makes room and calls again.
    ``counts``, (n_events or 1, n_counts), gets what each event cost. Time O(conditions evaluated + partial
    matches created and tried).
    """
    base, n_nodes, n_leaves = limits[BASE], limits[N_NODES], limits[N_LEAVES]
    n_conditions = (counts.shape[1] - N_COUNTS) // 2
    kind, partition, time, rank, accept = arrivals
    nodes, listed, unary, orders, trees, _, groups = of_trees
    info, pool, cells, heads, sizes, chain, stack, complete, path, first = state
    skip, considered, contributed, skipped, log = learned
    learning = limits[IS_LEARNING] != 0
    skipping = limits[HAS_SKIP] != 0
    work = 0
    while True:
        p = info[AT]
        if p >= limits[STOP]:
            return DONE
        own = p - base
        count = counts[p - limits[FIRST_ROW]]
        t, k = kind[own], partition[own]
        if t < 0 and limits[ONLY_TYPED]:
            info[AT] += 1
            continue
        if not info[IS_BEGUN]:
            # Partial matches whose window is over.
            while info[SWEEP] < p:
                s = info[SWEEP] - base
                is_over = limits[WITHIN] >= 0 and not np.uint64(time[own] - time[s]) <= np.uint64(
                    limits[WITHIN]
                )
                if not is_over and limits[ENDS_BY_EVENTS]:
                    is_over = chain[s] < 0
                    if partition[s] == k:
                        is_over = rank[own] - rank[s] >= limits[WITHIN_EVENTS]
                if not is_over:
                    break
                while chain[s] >= 0:
                    slot = chain[s]
                    _take_out(slot, limits, info, pool, heads, sizes, chain)
                    node = pool[slot, NODE]
                    tree = nodes[node, TREE]
                    count[REMOVED] += 1
                    if nodes[node, IS_ROOT] and not _absent_kills(
                        slot, True, of_trees, query, arrivals, limits, state, count
                    ):  # fmt: skip
                        _finish(slot, info, pool, complete, count)
                    else:
                        _give_back(slot, tree, trees[tree, N_COMPONENTS], groups, info, pool, cells)
                info[SWEEP] += 1
            if t >= 0:
                for leaf in range(n_leaves - 1, -1, -1):
                    test = nodes[leaf, TYPE_TEST]
                    if test < 0 or accept[test, own]:
                        stack[info[N_WAITING]] = -1 - leaf
                        info[N_WAITING] += 1
            info[IS_BEGUN] = 1
        while info[N_WAITING] > 0:
            item = stack[info[N_WAITING] - 1]
            if len(path) < 2 * info[LONGEST] + 4:
                return NEEDS_PATH
            n_tried = 0
            if item < 0:
                leaf = -1 - item
                here = nodes[leaf]
                if here[IS_GROUP]:
                    n_tried = sizes[k * n_nodes + leaf]
                if info[N_FREE_CELLS] < n_tried + 2:
                    return NEEDS_CELLS
            else:
                here = nodes[pool[item, NODE]]
                if here[TRIES] and pool[item, IS_CLOSED]:
                    n_tried = sizes[k * n_nodes + here[PEER]]
            if info[N_FREE] < n_tried + 2:
                if len(pool) - info[N_FREE] - info[N_COMPLETE] > limits[MOST_ALIVE]:
                    return TOO_MANY
                return NEEDS_SLOTS
            if learning and info[NEXT_ID] - limits[LOG_BASE] + n_tried + 2 > len(log):
                return NEEDS_LOG
            info[N_WAITING] -= 1
            work += 1 + n_tried
            tree = here[TREE]
            n_components = trees[tree, N_COMPONENTS]
            if item < 0:
                # A new event at a leaf: its own conditions, then a partial match of this event.
                passes = True
                for x in range(here[FIRST_UNARY], here[LAST_UNARY]):
                    number = unary[x, 1]
                    count[N_COUNTS + number] += 1
                    if not accept[unary[x, 0], own]:
                        passes = False
                        break
                    count[N_COUNTS + n_conditions + number] += 1
                if here[IS_ABSENT] == NOT_ABSENT or here[IS_ABSENT] == KILLS:
                    if not passes:
                        continue
                elif here[IS_ABSENT] == ALLOWED_ALONE and passes:
                    continue
                n_before = _sum_of(count, n_conditions) if learning else 0
                c = here[COMPONENT]
                old = heads[k * n_nodes + leaf]
                if skipping and skip[t, 0, 0] and here[IS_ABSENT] == NOT_ABSENT:
                    skipped[t, 0, 0] += 1
                else:
                    slot = _take_slot(leaf, k, p, p, 1, info, pool)
                    if here[IS_ABSENT] == NOT_ABSENT:
                        pool[slot, MEMBERS + c] = _new_cell(p, -1, info, cells) if here[IS_GROUP] else p
                    else:
                        pool[slot, IS_CLOSED] = int(passes)
                    path[0] = own
                    for x in range(n_components + 1):
                        first[x] = int(x > c)
                    passes = True
                    if here[FIRST_OWN] < here[LAST_OWN]:
                        for x in range(here[FIRST_OWN], here[LAST_OWN]):
                            if query.conditions[listed[x, 0], NEEDS] == NOWHERE and not _all_true(
                                x, x + 1, listed, query, path, first, 0, 0, count, n_conditions
                            ):
                                passes = False
                                break
                    if passes:
                        count[CREATED] += 1
                        if here[IS_GROUP]:
                            pool[slot, IS_CLOSED] = int(
                                here[LOW] <= 1
                                and _all_true(
                                    here[FIRST_CLOSE], here[LAST_CLOSE], listed, query, path, first, 0, 0,
                                    count, n_conditions,
                                )
                            )  # fmt: skip
                        if learning:
                            cost = _sum_of(count, n_conditions) - n_before
                            cell = (t, 0, 0)
                            considered[t, 0, 0] += 1
                            contributed[t, 0, 0] += 1
                            _log(slot, -1, -1, cost, cell, limits, info, pool, log)
                        stack[info[N_WAITING]] = slot
                        info[N_WAITING] += 1
                    else:
                        info[NEXT_ID] -= 1
                        _give_back(slot, tree, n_components, groups, info, pool, cells)
                if not here[IS_GROUP]:
                    continue
                # Every set of the leaf, with the new event.
                while old >= 0:
                    one, old = old, pool[old, AFTER]
                    before = pool[one, MEMBERS + c]
                    size = cells[before, CELL_SIZE]
                    if here[HIGH] >= 0 and size >= here[HIGH]:
                        continue
                    if not _follows(cells[before, CELL_LAST], p, True, limits, time):
                        continue
                    if not _fits(cells[before, CELL_FIRST], p, limits, time, rank):
                        continue
                    count[PAIRS] += 1
                    cell = _cell_of(t, cells[before, CELL_FIRST], 1, p, limits, skip)
                    if skipping and skip[cell]:
                        skipped[cell] += 1
                        continue
                    n_before = _sum_of(count, n_conditions) if learning else 0
                    if learning:
                        considered[cell] += 1
                    d = _write_path(one, -1, tree, n_components, groups, pool, cells, base, path, first)
                    path[d] = own
                    for x in range(c + 1, n_components + 1):
                        first[x] = d + 1
                    if not _all_true(
                        here[FIRST_OWN], here[LAST_OWN], listed, query, path, first, d, 0, count, n_conditions
                    ):
                        if learning and pool[one, ID] >= limits[LOG_BASE]:
                            cost = _sum_of(count, n_conditions) - n_before
                            log[pool[one, ID] - limits[LOG_BASE], LOG_COST] += cost
                        continue
                    slot = _take_slot(leaf, k, pool[one, FIRST], p, size + 1, info, pool)
                    pool[slot, MEMBERS + c] = _new_cell(p, before, info, cells)
                    count[CREATED] += 1
                    pool[slot, IS_CLOSED] = int(
                        here[LOW] <= size + 1
                        and _all_true(
                            here[FIRST_CLOSE], here[LAST_CLOSE], listed, query, path, first, d, 0, count,
                            n_conditions,
                        )
                    )  # fmt: skip
                    if learning:
                        contributed[cell] += 1
                        cost = _sum_of(count, n_conditions) - n_before
                        _log(slot, one, -1, cost, cell, limits, info, pool, log)
                    stack[info[N_WAITING]] = slot
                    info[N_WAITING] += 1
                continue
            # A new partial match: a match, or one to combine with its peers.
            node = pool[item, NODE]
            if here[IS_ROOT]:
                if _absent_kills(item, False, of_trees, query, arrivals, limits, state, count):
                    _give_back(item, tree, n_components, groups, info, pool, cells)
                elif trees[tree, WAITS]:
                    _store(item, limits, info, pool, heads, sizes, chain)
                else:
                    _finish(item, info, pool, complete, count)
                continue
            if here[PEER] < 0 and here[PARENT] >= 0 and pool[item, IS_CLOSED]:
                # A pattern of one component that takes several events: its sets are matches, and grow.
                begin, end = pool[item, FIRST], pool[item, LAST]
                slot = _take_slot(here[PARENT], k, begin, end, pool[item, LENGTH], info, pool)
                if learning:
                    _log(slot, item, -1, 0, (t, 0, 0), limits, info, pool, log)
                pool[slot, MEMBERS] = pool[item, MEMBERS]
                cells[pool[item, MEMBERS], CELL_USERS] += 1
                stack[info[N_WAITING]] = slot
                info[N_WAITING] += 1
            elif here[TRIES] and pool[item, IS_CLOSED]:
                parent = here[PARENT]
                up = nodes[parent]
                peer = heads[k * n_nodes + here[PEER]]
                while peer >= 0:
                    one, peer = peer, pool[peer, AFTER]
                    if not pool[one, IS_CLOSED]:
                        continue
                    begin = min(pool[item, FIRST], pool[one, FIRST])
                    end = max(pool[item, LAST], pool[one, LAST])
                    if not _fits(begin, end, limits, time, rank):
                        continue
                    left, right = (one, item) if here[IS_RIGHT] else (item, one)
                    if not _in_order(parent, left, right, nodes, orders, groups, pool, cells, limits, time):
                        continue
                    count[PAIRS] += 1
                    cell = _cell_of(t, pool[one, FIRST], nodes[pool[one, NODE], STATE], p, limits, skip)
                    if skipping and skip[cell]:
                        skipped[cell] += 1
                        continue
                    n_before = _sum_of(count, n_conditions) if learning else 0
                    if learning:
                        considered[cell] += 1
                    if up[FIRST_JOIN] < up[LAST_JOIN]:
                        d = _write_path(
                            left, right, tree, n_components, groups, pool, cells, base, path, first
                        )  # fmt: skip
                        if not _all_true(
                            up[FIRST_JOIN],
                            up[LAST_JOIN],
                            listed,
                            query,
                            path,
                            first,
                            d - 1,
                            0,
                            count,
                            n_conditions,
                        ):
                            if learning and pool[one, ID] >= limits[LOG_BASE]:
                                cost = _sum_of(count, n_conditions) - n_before
                                log[pool[one, ID] - limits[LOG_BASE], LOG_COST] += cost
                            continue
                    slot = _take_slot(
                        parent, k, begin, end, pool[item, LENGTH] + pool[one, LENGTH], info, pool
                    )  # fmt: skip
                    for c in range(n_components):
                        member = max(pool[left, MEMBERS + c], pool[right, MEMBERS + c])
                        pool[slot, MEMBERS + c] = member
                        if member >= 0 and groups[tree, c]:
                            cells[member, CELL_USERS] += 1
                    count[CREATED] += 1
                    if learning:
                        contributed[cell] += 1
                        cost = _sum_of(count, n_conditions) - n_before
                        _log(slot, left, right, cost, cell, limits, info, pool, log)
                    stack[info[N_WAITING]] = slot
                    info[N_WAITING] += 1
            if here[KEEPS]:
                _store(item, limits, info, pool, heads, sizes, chain)
                if info[N_ALIVE] > limits[MOST_ALIVE]:
                    return TOO_MANY
            else:
                _give_back(item, tree, n_components, groups, info, pool, cells)
        count[ALIVE_AFTER], count[LENGTH_AFTER] = info[N_ALIVE], info[TOTAL_LENGTH]
        info[IS_BEGUN] = 0
        info[AT] += 1
        if info[AT] < limits[STOP] and (
            info[N_COMPLETE] >= limits[MOST_COMPLETE] or work > limits[MOST_WORK]
        ):
            return IS_FULL


@njit([(_TREES, _STATE, _I1, _I1, _I1, _I2)], cache=True, **_OPTIONS)
def take_matches(of_trees, state, out_position, out_component, out_first, out_match):
    """Write the complete matches and free their rows.

    Positions and components have shape (n_items,). ``out_first``, (n_matches + 1,), gets the first item of
    each match. ``out_match``, (n_matches, 4), gets the number of the tree, the id, and the sums of
    evaluations and creations before the match.
    """
    nodes, trees, groups = of_trees.nodes, of_trees.trees, of_trees.groups
    info, pool, cells, complete = state.info, state.pool, state.cells, state.complete
    at = 0
    for m in range(info[N_COMPLETE]):
        slot = complete[m]
        row = pool[slot]
        tree = nodes[row[NODE], TREE]
        out_first[m] = at
        out_match[m, 0], out_match[m, 1] = tree, row[ID]
        out_match[m, 2], out_match[m, 3] = row[BEFORE], row[AFTER]
        for c in range(trees[tree, N_COMPONENTS]):
            member = row[MEMBERS + c]
            n = cells[member, CELL_SIZE] if groups[tree, c] else 1
            for x in range(at + n - 1, at - 1, -1):
                out_component[x] = c
                if groups[tree, c]:
                    out_position[x] = cells[member, CELL_LAST]
                    member = cells[member, CELL_BEFORE]
                else:
                    out_position[x] = member
            at += n
        _give_back(slot, tree, trees[tree, N_COMPONENTS], groups, info, pool, cells)
    out_first[info[N_COMPLETE]] = at
    info[N_COMPLETE] = 0


@njit([(_READ, _READ, _TREES, _STATE)], cache=True, **_OPTIONS)
def remove(slots, limits, of_trees, state):
    """Remove the partial matches of these rows of the pool."""
    info, pool, cells, heads, sizes, chain, _, _, _, _ = state
    for x in range(len(slots)):
        slot = slots[x]
        tree = of_trees.nodes[pool[slot, NODE], TREE]
        _take_out(slot, limits, info, pool, heads, sizes, chain)
        n_components = of_trees.trees[tree, N_COMPONENTS]
        _give_back(slot, tree, n_components, of_trees.groups, info, pool, cells)


@njit([(_READ, _ARRIVALS, _TREES, CONDITIONS, _STATE, _I2)], cache=True, **_OPTIONS)
def finish_waiting(limits, arrivals, of_trees, query, state, counts):
    """Report the matches that wait for the end of their windows, as if no event followed."""
    nodes, trees = of_trees.nodes, of_trees.trees
    info, pool, cells, heads, sizes, chain, _, complete, _, _ = state
    for slot in range(len(pool)):
        node = pool[slot, NODE]
        if pool[slot, STATUS] == ALIVE and nodes[node, IS_ROOT]:
            tree = nodes[node, TREE]
            _take_out(slot, limits, info, pool, heads, sizes, chain)
            if _absent_kills(slot, True, of_trees, query, arrivals, limits, state, counts[0]):
                _give_back(slot, tree, trees[tree, N_COMPONENTS], of_trees.groups, info, pool, cells)
            else:
                _finish(slot, info, pool, complete, counts[0])
