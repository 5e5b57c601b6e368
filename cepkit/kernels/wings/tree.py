"""Kernel of the left-deep evaluation tree: events one by one, counted conditions and partial matches."""

# A partial match is a row of ``pool``: the columns below, then one member per component of its tree. A member
# is a position, or the number of a cell for a component that takes several events. A cell adds one event to
# an earlier cell, so that sets share their beginnings. No query changes the code: trees are tables, and
# conditions are the instructions of `cepkit.kernels.interpreted_walk`.
# Source: ZStream, left-deep trees; DARLING, section 3.

import numpy as np
from numba import types as T

import cepkit.kernels.wings.tree_layout as col
from cepkit.kernels.interpreted_walk import CONDITIONS, NEEDS, holds
from cepkit.kernels.jit import Record, njit
from cepkit.kernels.records import NOWHERE
from cepkit.kernels.wings.tree_layout import Learned, TreeEvents, Trees, TreeState

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
    member = row[col.MEMBERS + component]
    if is_group:
        return cells[member, col.CELL_FIRST], cells[member, col.CELL_LAST]
    return member, member


@njit(**_HELPER)
def _is_within(begin, end, limit):
    """Return whether a later time is at most ``limit`` away; 64 bits without a sign hold the distance."""
    return np.uint64(end - begin) <= np.uint64(limit)


@njit(**_HELPER)
def _fits(first, last, limits, time, rank):
    """Return whether two events of a partition fit into the window."""
    base = limits[col.BASE]
    if limits[col.WITHIN] >= 0 and not np.uint64(time[last - base] - time[first - base]) <= np.uint64(
        limits[col.WITHIN]
    ):
        return False
    return (
        limits[col.WITHIN_EVENTS] == 0 or rank[last - base] - rank[first - base] < limits[col.WITHIN_EVENTS]
    )


@njit(**_HELPER)
def _follows(before, after, is_next, limits, time):
    """Return whether a component may begin at one position after another one ended."""
    if after <= before:
        return False
    base = limits[col.BASE]
    begin, end = time[before - base], time[after - base]
    if limits[col.IS_STRICT] and begin == end:
        return False
    return not is_next or limits[col.GAP] < 0 or _is_within(begin, end, limits[col.GAP])


@njit(**_HELPER)
def _in_order(parent, left, right, nodes, orders, groups, pool, cells, limits, time):
    """Return whether the events of two sides are in the order that their join wants."""
    own = nodes[parent]
    tree = own[col.TREE]
    for x in range(own[col.FIRST_ORDER], own[col.LAST_ORDER]):
        one, other = orders[x, col.LEFT], orders[x, col.RIGHT]
        one_first, one_last = _bounds(pool[left], one, cells, groups[tree, one])
        other_first, other_last = _bounds(pool[right], other, cells, groups[tree, other])
        relation = orders[x, col.RELATION]
        if relation == col.LEFT_FIRST:
            if not _follows(one_last, other_first, orders[x, col.IS_NEXT], limits, time):
                return False
        elif relation == col.RIGHT_FIRST:
            if not _follows(other_last, one_first, orders[x, col.IS_NEXT], limits, time):
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
        member = pool[left, col.MEMBERS + c]
        if member < 0 and right >= 0:
            member = pool[right, col.MEMBERS + c]
        if member < 0:
            continue
        if groups[tree, c]:
            size = cells[member, col.CELL_SIZE]
            for x in range(d + size - 1, d - 1, -1):
                path[x] = cells[member, col.CELL_LAST] - base
                member = cells[member, col.CELL_BEFORE]
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
        own_counts[col.N_COUNTS + number] += 1
        if not holds(q, query, path, first, last, y):
            return False
        own_counts[col.N_COUNTS + n_conditions + number] += 1
    return True


@njit(**_HELPER)
def _sum_of(own_counts, n_conditions):
    """Return how many conditions the event evaluated so far."""
    n = 0
    for x in range(col.N_COUNTS, col.N_COUNTS + n_conditions):
        n += own_counts[x]
    return n


@njit(**_HELPER)
def _take_slot(node, partition, first, last, length, info, pool):
    """Return the row of a new partial match."""
    slot = info[col.FREE_SLOT]
    info[col.FREE_SLOT] = pool[slot, col.AFTER]
    info[col.N_FREE] -= 1
    row = pool[slot]
    row[col.NODE], row[col.ID], row[col.FIRST], row[col.LAST] = node, info[col.NEXT_ID], first, last
    row[col.LENGTH], row[col.STATUS], row[col.PARTITION], row[col.IS_CLOSED] = length, col.HELD, partition, 1
    for x in range(col.MEMBERS, len(row)):
        row[x] = -1
    info[col.NEXT_ID] += 1
    info[col.LONGEST] = max(info[col.LONGEST], length)
    return slot


@njit(**_HELPER)
def _new_cell(position, before, info, cells):
    """Return a new cell with one event more than the cell ``before``; -1: none."""
    cell = info[col.FREE_CELL]
    info[col.FREE_CELL] = cells[cell, col.CELL_BEFORE]
    info[col.N_FREE_CELLS] -= 1
    cells[cell, col.CELL_LAST], cells[cell, col.CELL_BEFORE] = position, before
    cells[cell, col.CELL_USERS] = 1
    cells[cell, col.CELL_FIRST] = position if before < 0 else cells[before, col.CELL_FIRST]
    cells[cell, col.CELL_SIZE] = 1 if before < 0 else cells[before, col.CELL_SIZE] + 1
    if before >= 0:
        cells[before, col.CELL_USERS] += 1
    return cell


@njit(**_HELPER)
def _give_back(slot, tree, n_components, groups, info, pool, cells):
    """Free the row of a partial match, and the cells that no other one uses."""
    for c in range(n_components):
        cell = pool[slot, col.MEMBERS + c]
        if cell < 0 or not groups[tree, c]:
            continue
        while cell >= 0:
            cells[cell, col.CELL_USERS] -= 1
            if cells[cell, col.CELL_USERS] > 0:
                break
            before = cells[cell, col.CELL_BEFORE]
            cells[cell, col.CELL_BEFORE] = info[col.FREE_CELL]
            info[col.FREE_CELL] = cell
            info[col.N_FREE_CELLS] += 1
            cell = before
    pool[slot, col.STATUS] = col.FREE
    pool[slot, col.AFTER] = info[col.FREE_SLOT]
    info[col.FREE_SLOT] = slot
    info[col.N_FREE] += 1
    return 0


@njit(**_HELPER)
def _store(slot, limits, info, pool, heads, sizes, chain):
    """Keep a partial match for later events."""
    row = pool[slot]
    at = row[col.PARTITION] * limits[col.N_NODES] + row[col.NODE]
    row[col.STATUS] = col.ALIVE
    row[col.BEFORE], row[col.AFTER] = -1, heads[at]
    if heads[at] >= 0:
        pool[heads[at], col.BEFORE] = slot
    heads[at] = slot
    sizes[at] += 1
    first = row[col.FIRST] - limits[col.BASE]
    row[col.BEFORE_OF_FIRST], row[col.AFTER_OF_FIRST] = -1, chain[first]
    if chain[first] >= 0:
        pool[chain[first], col.BEFORE_OF_FIRST] = slot
    chain[first] = slot
    info[col.N_ALIVE] += 1
    info[col.TOTAL_LENGTH] += row[col.LENGTH]
    info[col.MOST_SEEN] = max(info[col.MOST_SEEN], info[col.N_ALIVE])
    return 0


@njit(**_HELPER)
def _take_out(slot, limits, info, pool, heads, sizes, chain):
    """Take a partial match out of the lists; its row stays in use."""
    row = pool[slot]
    at = row[col.PARTITION] * limits[col.N_NODES] + row[col.NODE]
    if row[col.BEFORE] >= 0:
        pool[row[col.BEFORE], col.AFTER] = row[col.AFTER]
    else:
        heads[at] = row[col.AFTER]
    if row[col.AFTER] >= 0:
        pool[row[col.AFTER], col.BEFORE] = row[col.BEFORE]
    sizes[at] -= 1
    if row[col.BEFORE_OF_FIRST] >= 0:
        pool[row[col.BEFORE_OF_FIRST], col.AFTER_OF_FIRST] = row[col.AFTER_OF_FIRST]
    else:
        chain[row[col.FIRST] - limits[col.BASE]] = row[col.AFTER_OF_FIRST]
    if row[col.AFTER_OF_FIRST] >= 0:
        pool[row[col.AFTER_OF_FIRST], col.BEFORE_OF_FIRST] = row[col.BEFORE_OF_FIRST]
    info[col.N_ALIVE] -= 1
    info[col.TOTAL_LENGTH] -= row[col.LENGTH]
    row[col.STATUS] = col.HELD
    return 0


@njit(**_HELPER)
def _log(slot, left, right, cost, cell, limits, info, pool, log):
    """Write a new partial match to the log of what a machine learns."""
    at = pool[slot, col.ID] - limits[col.LOG_BASE]
    row = log[at]
    row[col.LOG_ID], row[col.LOG_NODE], row[col.LOG_COST] = pool[slot, col.ID], pool[slot, col.NODE], cost
    row[col.LOG_LEFT] = pool[left, col.ID] if left >= 0 else -1
    row[col.LOG_RIGHT] = pool[right, col.ID] if right >= 0 else -1
    row[col.LOG_POSITION] = info[col.AT]
    row[col.LOG_TYPE], row[col.LOG_BIN], row[col.LOG_STATE] = cell
    return 0


@njit(**_HELPER)
def _cell_of(kind, first, state, position, limits, skip):
    """Return the cell of the tables for an event and a partial match: type, bin of its place, state."""
    b = min((position - first) // limits[col.BIN_SIZE], skip.shape[1] - 1)
    return kind, b, state


@njit(**_HELPER)
def _absent_kills(slot, is_over, of_trees, query, arrivals, limits, state, own_counts):
    """Return whether an absent event forbids a match: one after it if its window is over, else any other."""
    nodes, trees, absences, groups = of_trees.nodes, of_trees.trees, of_trees.absences, of_trees.groups
    time, n_conditions = arrivals.time, (len(own_counts) - col.N_COUNTS) // 2
    pool, cells, heads, path, first = state.pool, state.cells, state.heads, state.path, state.first
    row = pool[slot]
    tree = nodes[row[col.NODE], col.TREE]
    n_components, base = trees[tree, col.N_COMPONENTS], limits[col.BASE]
    last = -1
    for x in range(trees[tree, col.FIRST_ABSENCE], trees[tree, col.LAST_ABSENCE]):
        own = absences[x]
        if (own[col.TO] < 0) != is_over:
            continue
        reading = nodes[own[col.ABSENT_LEAF], col.IS_ABSENT]
        low, high = -1, -1
        if own[col.FROM] >= 0:
            begin, end = _bounds(row, own[col.FROM], cells, groups[tree, own[col.FROM]])
            low = end if own[col.FROM_END] else begin
        if own[col.TO] >= 0:
            begin, end = _bounds(row, own[col.TO], cells, groups[tree, own[col.TO]])
            high = end if own[col.TO_END] else begin
        at = heads[row[col.PARTITION] * limits[col.N_NODES] + own[col.ABSENT_LEAF]]
        while at >= 0:
            y = pool[at, col.FIRST]
            if own[col.FROM] >= 0 and y <= low:
                break
            is_between = own[col.TO] < 0 or y < high
            if is_between and own[col.FROM] < 0 and limits[col.WITHIN] >= 0:
                is_between = _is_within(time[y - base], time[row[col.LAST] - base], limits[col.WITHIN])
            if is_between and own[col.TO] < 0 and limits[col.WITHIN] >= 0:
                is_between = _is_within(time[row[col.FIRST] - base], time[y - base], limits[col.WITHIN])
            if is_between:
                kills = reading in (col.KILLS, col.ALLOWED_ALONE) or pool[at, col.IS_CLOSED] == 0
                if own[col.FIRST_BESIDE] < own[col.LAST_BESIDE] and pool[at, col.IS_CLOSED]:
                    if last < 0:
                        last = _write_path(
                            slot, -1, tree, n_components, groups, pool, cells, base, path, first
                        ) - 1  # fmt: skip
                    held = _all_true(
                        own[col.FIRST_BESIDE], own[col.LAST_BESIDE], of_trees.listed, query, path, first,
                        last, y - base, own_counts, n_conditions,
                    )  # fmt: skip
                    kills = held == (reading == col.KILLS)
                if kills:
                    return True
            at = pool[at, col.AFTER]
    return False


@njit(**_HELPER)
def _finish(slot, info, pool, complete, own_counts):
    """Report a complete match."""
    n_conditions = (len(own_counts) - col.N_COUNTS) // 2
    pool[slot, col.STATUS] = col.COMPLETE
    pool[slot, col.BEFORE], pool[slot, col.AFTER] = _sum_of(own_counts, n_conditions), own_counts[col.CREATED]
    complete[info[col.N_COMPLETE]] = slot
    info[col.N_COMPLETE] += 1
    own_counts[col.FOUND] += 1
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
    """Process the events from position ``info[AT]`` to before ``limits[STOP]``; return why the call ended."""
    # After `NEEDS_SLOTS`, `NEEDS_CELLS`, `NEEDS_PATH` and `NEEDS_LOG`, the caller makes room and calls again.
    # ``counts``, (n_events or 1, n_counts), gets what each event cost. Time O(conditions evaluated + partial
    # matches created and tried).
    base, n_nodes, n_leaves = limits[col.BASE], limits[col.N_NODES], limits[col.N_LEAVES]
    n_conditions = (counts.shape[1] - col.N_COUNTS) // 2
    kind, partition, time, rank, accept = arrivals
    nodes, listed, unary, orders, trees, _, groups = of_trees
    info, pool, cells, heads, sizes, chain, stack, complete, path, first = state
    skip, considered, contributed, skipped, log = learned
    learning = limits[col.IS_LEARNING] != 0
    skipping = limits[col.HAS_SKIP] != 0
    work = 0
    while True:
        p = info[col.AT]
        if p >= limits[col.STOP]:
            return col.DONE
        own = p - base
        count = counts[p - limits[col.FIRST_ROW]]
        t, k = kind[own], partition[own]
        if t < 0 and limits[col.ONLY_TYPED]:
            info[col.AT] += 1
            continue
        if not info[col.IS_BEGUN]:
            # Partial matches whose window is over.
            while info[col.SWEEP] < p:
                s = info[col.SWEEP] - base
                is_over = limits[col.WITHIN] >= 0 and not np.uint64(time[own] - time[s]) <= np.uint64(
                    limits[col.WITHIN]
                )
                if not is_over and limits[col.ENDS_BY_EVENTS]:
                    is_over = chain[s] < 0
                    if partition[s] == k:
                        is_over = rank[own] - rank[s] >= limits[col.WITHIN_EVENTS]
                if not is_over:
                    break
                while chain[s] >= 0:
                    slot = chain[s]
                    _take_out(slot, limits, info, pool, heads, sizes, chain)
                    node = pool[slot, col.NODE]
                    tree = nodes[node, col.TREE]
                    count[col.REMOVED] += 1
                    if nodes[node, col.IS_ROOT] and not _absent_kills(
                        slot, True, of_trees, query, arrivals, limits, state, count
                    ):  # fmt: skip
                        _finish(slot, info, pool, complete, count)
                    else:
                        _give_back(slot, tree, trees[tree, col.N_COMPONENTS], groups, info, pool, cells)
                info[col.SWEEP] += 1
            if t >= 0:
                for leaf in range(n_leaves - 1, -1, -1):
                    test = nodes[leaf, col.TYPE_TEST]
                    if test < 0 or accept[test, own]:
                        stack[info[col.N_WAITING]] = -1 - leaf
                        info[col.N_WAITING] += 1
            info[col.IS_BEGUN] = 1
        while info[col.N_WAITING] > 0:
            item = stack[info[col.N_WAITING] - 1]
            if len(path) < 2 * info[col.LONGEST] + 4:
                return col.NEEDS_PATH
            n_tried = 0
            if item < 0:
                leaf = -1 - item
                here = nodes[leaf]
                if here[col.IS_GROUP]:
                    n_tried = sizes[k * n_nodes + leaf]
                if info[col.N_FREE_CELLS] < n_tried + 2:
                    return col.NEEDS_CELLS
            else:
                here = nodes[pool[item, col.NODE]]
                if here[col.TRIES] and pool[item, col.IS_CLOSED]:
                    n_tried = sizes[k * n_nodes + here[col.PEER]]
            if info[col.N_FREE] < n_tried + 2:
                if len(pool) - info[col.N_FREE] - info[col.N_COMPLETE] > limits[col.MOST_ALIVE]:
                    return col.TOO_MANY
                return col.NEEDS_SLOTS
            if learning and info[col.NEXT_ID] - limits[col.LOG_BASE] + n_tried + 2 > len(log):
                return col.NEEDS_LOG
            info[col.N_WAITING] -= 1
            work += 1 + n_tried
            tree = here[col.TREE]
            n_components = trees[tree, col.N_COMPONENTS]
            if item < 0:
                # A new event at a leaf: its own conditions, then a partial match of this event.
                passes = True
                for x in range(here[col.FIRST_UNARY], here[col.LAST_UNARY]):
                    number = unary[x, 1]
                    count[col.N_COUNTS + number] += 1
                    if not accept[unary[x, 0], own]:
                        passes = False
                        break
                    count[col.N_COUNTS + n_conditions + number] += 1
                if here[col.IS_ABSENT] == col.NOT_ABSENT or here[col.IS_ABSENT] == col.KILLS:
                    if not passes:
                        continue
                elif here[col.IS_ABSENT] == col.ALLOWED_ALONE and passes:
                    continue
                n_before = _sum_of(count, n_conditions) if learning else 0
                c = here[col.COMPONENT]
                old = heads[k * n_nodes + leaf]
                if skipping and skip[t, 0, 0] and here[col.IS_ABSENT] == col.NOT_ABSENT:
                    skipped[t, 0, 0] += 1
                else:
                    slot = _take_slot(leaf, k, p, p, 1, info, pool)
                    if here[col.IS_ABSENT] == col.NOT_ABSENT:
                        pool[slot, col.MEMBERS + c] = (
                            _new_cell(p, -1, info, cells) if here[col.IS_GROUP] else p
                        )
                    else:
                        pool[slot, col.IS_CLOSED] = int(passes)
                    path[0] = own
                    for x in range(n_components + 1):
                        first[x] = int(x > c)
                    passes = True
                    if here[col.FIRST_OWN] < here[col.LAST_OWN]:
                        for x in range(here[col.FIRST_OWN], here[col.LAST_OWN]):
                            if query.conditions[listed[x, 0], NEEDS] == NOWHERE and not _all_true(
                                x, x + 1, listed, query, path, first, 0, 0, count, n_conditions
                            ):
                                passes = False
                                break
                    if passes:
                        count[col.CREATED] += 1
                        if here[col.IS_GROUP]:
                            low, high, closes = (
                                here[col.FIRST_CLOSE],
                                here[col.LAST_CLOSE],
                                here[col.LOW] <= 1,
                            )
                            closes = closes and _all_true(
                                low, high, listed, query, path, first, 0, 0, count, n_conditions
                            )
                            pool[slot, col.IS_CLOSED] = int(closes)
                        if learning:
                            cost = _sum_of(count, n_conditions) - n_before
                            cell = (t, 0, 0)
                            considered[t, 0, 0] += 1
                            contributed[t, 0, 0] += 1
                            _log(slot, -1, -1, cost, cell, limits, info, pool, log)
                        stack[info[col.N_WAITING]] = slot
                        info[col.N_WAITING] += 1
                    else:
                        info[col.NEXT_ID] -= 1
                        _give_back(slot, tree, n_components, groups, info, pool, cells)
                if not here[col.IS_GROUP]:
                    continue
                # Every set of the leaf, with the new event.
                while old >= 0:
                    one, old = old, pool[old, col.AFTER]
                    before = pool[one, col.MEMBERS + c]
                    size = cells[before, col.CELL_SIZE]
                    if here[col.HIGH] >= 0 and size >= here[col.HIGH]:
                        continue
                    if not _follows(cells[before, col.CELL_LAST], p, True, limits, time):
                        continue
                    if not _fits(cells[before, col.CELL_FIRST], p, limits, time, rank):
                        continue
                    count[col.PAIRS] += 1
                    cell = _cell_of(t, cells[before, col.CELL_FIRST], 1, p, limits, skip)
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
                    low, high = here[col.FIRST_OWN], here[col.LAST_OWN]
                    if not _all_true(low, high, listed, query, path, first, d, 0, count, n_conditions):
                        if learning and pool[one, col.ID] >= limits[col.LOG_BASE]:
                            cost = _sum_of(count, n_conditions) - n_before
                            log[pool[one, col.ID] - limits[col.LOG_BASE], col.LOG_COST] += cost
                        continue
                    slot = _take_slot(leaf, k, pool[one, col.FIRST], p, size + 1, info, pool)
                    pool[slot, col.MEMBERS + c] = _new_cell(p, before, info, cells)
                    count[col.CREATED] += 1
                    low, high, closes = here[col.FIRST_CLOSE], here[col.LAST_CLOSE], here[col.LOW] <= size + 1
                    closes = closes and _all_true(
                        low, high, listed, query, path, first, d, 0, count, n_conditions
                    )
                    pool[slot, col.IS_CLOSED] = int(closes)
                    if learning:
                        contributed[cell] += 1
                        cost = _sum_of(count, n_conditions) - n_before
                        _log(slot, one, -1, cost, cell, limits, info, pool, log)
                    stack[info[col.N_WAITING]] = slot
                    info[col.N_WAITING] += 1
                continue
            # A new partial match: a match, or one to combine with its peers.
            node = pool[item, col.NODE]
            if here[col.IS_ROOT]:
                if _absent_kills(item, False, of_trees, query, arrivals, limits, state, count):
                    _give_back(item, tree, n_components, groups, info, pool, cells)
                elif trees[tree, col.WAITS]:
                    _store(item, limits, info, pool, heads, sizes, chain)
                else:
                    _finish(item, info, pool, complete, count)
                continue
            if here[col.PEER] < 0 and here[col.PARENT] >= 0 and pool[item, col.IS_CLOSED]:
                # A pattern of one component that takes several events: its sets are matches, and grow.
                begin, end = pool[item, col.FIRST], pool[item, col.LAST]
                slot = _take_slot(here[col.PARENT], k, begin, end, pool[item, col.LENGTH], info, pool)
                if learning:
                    _log(slot, item, -1, 0, (t, 0, 0), limits, info, pool, log)
                pool[slot, col.MEMBERS] = pool[item, col.MEMBERS]
                cells[pool[item, col.MEMBERS], col.CELL_USERS] += 1
                stack[info[col.N_WAITING]] = slot
                info[col.N_WAITING] += 1
            elif here[col.TRIES] and pool[item, col.IS_CLOSED]:
                parent = here[col.PARENT]
                up = nodes[parent]
                peer = heads[k * n_nodes + here[col.PEER]]
                while peer >= 0:
                    one, peer = peer, pool[peer, col.AFTER]
                    if not pool[one, col.IS_CLOSED]:
                        continue
                    begin = min(pool[item, col.FIRST], pool[one, col.FIRST])
                    end = max(pool[item, col.LAST], pool[one, col.LAST])
                    if not _fits(begin, end, limits, time, rank):
                        continue
                    left, right = (one, item) if here[col.IS_RIGHT] else (item, one)
                    if not _in_order(parent, left, right, nodes, orders, groups, pool, cells, limits, time):
                        continue
                    count[col.PAIRS] += 1
                    cell = _cell_of(
                        t, pool[one, col.FIRST], nodes[pool[one, col.NODE], col.STATE], p, limits, skip
                    )
                    if skipping and skip[cell]:
                        skipped[cell] += 1
                        continue
                    n_before = _sum_of(count, n_conditions) if learning else 0
                    if learning:
                        considered[cell] += 1
                    if up[col.FIRST_JOIN] < up[col.LAST_JOIN]:
                        d = _write_path(
                            left, right, tree, n_components, groups, pool, cells, base, path, first
                        )  # fmt: skip
                        low, high, last = up[col.FIRST_JOIN], up[col.LAST_JOIN], d - 1
                        if not _all_true(low, high, listed, query, path, first, last, 0, count, n_conditions):
                            if learning and pool[one, col.ID] >= limits[col.LOG_BASE]:
                                cost = _sum_of(count, n_conditions) - n_before
                                log[pool[one, col.ID] - limits[col.LOG_BASE], col.LOG_COST] += cost
                            continue
                    slot = _take_slot(
                        parent, k, begin, end, pool[item, col.LENGTH] + pool[one, col.LENGTH], info, pool
                    )  # fmt: skip
                    for c in range(n_components):
                        member = max(pool[left, col.MEMBERS + c], pool[right, col.MEMBERS + c])
                        pool[slot, col.MEMBERS + c] = member
                        if member >= 0 and groups[tree, c]:
                            cells[member, col.CELL_USERS] += 1
                    count[col.CREATED] += 1
                    if learning:
                        contributed[cell] += 1
                        cost = _sum_of(count, n_conditions) - n_before
                        _log(slot, left, right, cost, cell, limits, info, pool, log)
                    stack[info[col.N_WAITING]] = slot
                    info[col.N_WAITING] += 1
            if here[col.KEEPS]:
                _store(item, limits, info, pool, heads, sizes, chain)
                if info[col.N_ALIVE] > limits[col.MOST_ALIVE]:
                    return col.TOO_MANY
            else:
                _give_back(item, tree, n_components, groups, info, pool, cells)
        count[col.ALIVE_AFTER], count[col.LENGTH_AFTER] = info[col.N_ALIVE], info[col.TOTAL_LENGTH]
        info[col.IS_BEGUN] = 0
        info[col.AT] += 1
        if info[col.AT] < limits[col.STOP] and (
            info[col.N_COMPLETE] >= limits[col.MOST_COMPLETE] or work > limits[col.MOST_WORK]
        ):
            return col.IS_FULL


@njit([(_TREES, _STATE, _I1, _I1, _I1, _I2)], cache=True, **_OPTIONS)
def take_matches(of_trees, state, out_position, out_component, out_first, out_match):
    """Write the complete matches and free their rows."""
    # Positions and components have shape (n_items,). ``out_first``, (n_matches + 1,), gets the first item of
    # each match. ``out_match``, (n_matches, 4), gets the number of the tree, the id, and the sums of
    # evaluations and creations before the match.
    nodes, trees, groups = of_trees.nodes, of_trees.trees, of_trees.groups
    info, pool, cells, complete = state.info, state.pool, state.cells, state.complete
    at = 0
    for m in range(info[col.N_COMPLETE]):
        slot = complete[m]
        row = pool[slot]
        tree = nodes[row[col.NODE], col.TREE]
        out_first[m] = at
        out_match[m, 0], out_match[m, 1] = tree, row[col.ID]
        out_match[m, 2], out_match[m, 3] = row[col.BEFORE], row[col.AFTER]
        for c in range(trees[tree, col.N_COMPONENTS]):
            member = row[col.MEMBERS + c]
            n = cells[member, col.CELL_SIZE] if groups[tree, c] else 1
            for x in range(at + n - 1, at - 1, -1):
                out_component[x] = c
                if groups[tree, c]:
                    out_position[x] = cells[member, col.CELL_LAST]
                    member = cells[member, col.CELL_BEFORE]
                else:
                    out_position[x] = member
            at += n
        _give_back(slot, tree, trees[tree, col.N_COMPONENTS], groups, info, pool, cells)
    out_first[info[col.N_COMPLETE]] = at
    info[col.N_COMPLETE] = 0


@njit([(_READ, _READ, _TREES, _STATE)], cache=True, **_OPTIONS)
def remove(slots, limits, of_trees, state):
    """Remove the partial matches of these rows of the pool."""
    info, pool, cells, heads, sizes, chain, _, _, _, _ = state
    for x in range(len(slots)):
        slot = slots[x]
        tree = of_trees.nodes[pool[slot, col.NODE], col.TREE]
        _take_out(slot, limits, info, pool, heads, sizes, chain)
        n_components = of_trees.trees[tree, col.N_COMPONENTS]
        _give_back(slot, tree, n_components, of_trees.groups, info, pool, cells)


@njit([(_READ, _ARRIVALS, _TREES, CONDITIONS, _STATE, _I2)], cache=True, **_OPTIONS)
def finish_waiting(limits, arrivals, of_trees, query, state, counts):
    """Report the matches that wait for the end of their windows, as if no event followed."""
    nodes, trees = of_trees.nodes, of_trees.trees
    info, pool, cells, heads, sizes, chain, _, complete, _, _ = state
    for slot in range(len(pool)):
        node = pool[slot, col.NODE]
        if pool[slot, col.STATUS] == col.ALIVE and nodes[node, col.IS_ROOT]:
            tree = nodes[node, col.TREE]
            _take_out(slot, limits, info, pool, heads, sizes, chain)
            if _absent_kills(slot, True, of_trees, query, arrivals, limits, state, counts[0]):
                _give_back(slot, tree, trees[tree, col.N_COMPONENTS], of_trees.groups, info, pool, cells)
            else:
                _finish(slot, info, pool, complete, counts[0])


# The queue of a server that drops nothing.

_GIVEN, _SECONDS = T.Array(T.float64, 1, "C", readonly=True), T.Array(T.float64, 1, "C")


@njit([(_GIVEN, _GIVEN, T.float64, T.float64, _SECONDS, _SECONDS, _I1)], cache=True, **_OPTIONS)
def serve_in_turn(arrivals, seconds, admit, now, starts, ends, waiting):
    """Write when a server begins and ends each event, and how many wait then; return when it is done."""
    # The server first admits all events that have arrived, ``admit`` seconds each, then serves the oldest one
    # for its ``seconds``. ``arrivals``, nondecreasing, and ``now``, when it begins, are seconds. O(n_events).
    n, n_admitted = len(arrivals), 0
    for i in range(n):
        while True:
            while n_admitted < n and arrivals[n_admitted] <= now:
                now += admit
                n_admitted += 1
            if n_admitted > i:
                break
            now = arrivals[n_admitted]
        starts[i] = now
        now += seconds[i]
        ends[i] = now
        waiting[i] = n_admitted - i - 1
    return now
