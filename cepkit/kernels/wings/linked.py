"""Kernels of two engines for skip-till-any sequences: linked chains of partial matches, and separate runs."""

import numpy as np
from numba import types as T

import cepkit.kernels.wings.linked_layout as col
from cepkit.kernels.jit import Record, njit
from cepkit.kernels.wings.linked_layout import (
    ChainStore,
    EventArrays,
    Output,
    PartitionArrays,
    PatternTables,
    Scratch,
)

NULL = np.iinfo(np.int64).min
# Initial values of variables that are passed on. A literal would have its own type and specialisation.
ZERO, NONE, NO_COMPONENT = np.int64(0), np.int64(-1), np.int64(-2)
LIMB_BITS, LIMB_MASK = 31, (1 << 31) - 1
SMALL = 1 << 61  # counts below this fit in one integer

# The arguments ``pattern``, ``events``, ``store``, ``parts``, ``work`` and ``out`` are bundles of arrays.
_U1, _I1, _I2 = T.Array(T.uint8, 1, "C"), T.Array(T.int64, 1, "C"), T.Array(T.int64, 2, "C")
_F1, _F2 = T.Array(T.float64, 1, "C"), T.Array(T.float64, 2, "C")
_PATTERN = Record([_U1, _U1, _I1, _I2, _F1, _I2, _U1, _I1], PatternTables)
_EVENTS = Record([_I1, _I1, _I1, _I2, _F2, _I1, _I1, _I1, _I2, _I2], EventArrays)
_STORE, _PARTS = Record([_I2, _I1, _I2, _I2], ChainStore), Record([_I1] * 7, PartitionArrays)
_WORK = Record([_I2, _I1, _I2, _I1, _I1, _I1], Scratch)
_OUT = Record([_I1, _I1, _I1, _I1, _I2, _I1, _I1], Output)
_ARGUMENTS = _PATTERN, _EVENTS, _STORE, _PARTS, _WORK, _OUT


# --- conditions -------------------------------------------------------------------------------------------
#
# Nothing here allocates, so reference counting is off: it would cost 10 ns for each array that is taken
# from a tuple or passed to a function. Two thirds of the compile time depend on the number of operations in
# the text. So code for both kernels is written once, and only the two kernels can be called from Python.

_KERNEL = {"cache": True, "nogil": True, "error_model": "numpy", "_nrt": False, "no_cfunc_wrapper": True}
_HELPER = {**_KERNEL, "cache": False, "no_cpython_wrapper": True}
_INLINED = {**_HELPER, "forceinline": True}


@njit(**_HELPER)
def _compare(sign, x, y):
    if sign == 0:
        return x < y
    if sign == 1:
        return x <= y
    if sign == 2:
        return x > y
    if sign == 3:
        return x >= y
    if sign == 4:
        return x == y
    return x != y


@njit(**_INLINED)
def _holds(condition, factor, integers, floats, k, left, right):
    """Return whether condition k holds for two events; it never holds for a missing value."""
    a, b = condition[k, col.LEFT_COLUMN], condition[k, col.RIGHT_COLUMN]
    if condition[k, col.IS_FLOAT]:
        x, y = floats[a, left], factor[k] * floats[b, right]
        return x == x and y == y and _compare(condition[k, col.SIGN], x, y)
    m, n = integers[a, left], integers[b, right]
    return m != NULL and n != NULL and _compare(condition[k, col.SIGN], m, n)


@njit(**_INLINED)
def _bind(field, event_of, first_of, chain, tail):
    """Write the events of the partial match that ends at ``tail`` of ``chain`` to scratch. O(length)."""
    before = -1
    while chain >= 0:
        component = field[chain, col.COMPONENT]
        if component != before:
            event_of[component] = tail
            before = component
        first_of[component] = tail
        tail = field[chain, col.PRED_TAIL]
        chain = field[chain, col.PRED]


@njit(**_INLINED)
def _fits(first_condition, condition, factor, integers, floats, event_of, j, e, takes):
    """Return whether the conditions decided at component j hold for the bound events and ``e``."""
    for k in range(first_condition[j], first_condition[j + 1]):
        left, right = condition[k, col.LEFT], condition[k, col.RIGHT]
        if left == right and not takes:
            continue
        one = e if left == j else event_of[left]
        other = e if right == j and left != right else event_of[right]
        if not _holds(condition, factor, integers, floats, k, one, other):
            return False
    return True


@njit(**_HELPER)
def _is_absent_event(pattern, events, work, absence, y, j, e):
    """Return whether ``y`` fulfils the conditions on an absent event; component j is bound to ``e``."""
    n_components = len(pattern.kleene)
    for k in range(
        pattern.first_condition[n_components + absence], pattern.first_condition[n_components + absence + 1]
    ):
        left, right = pattern.condition[k, col.LEFT], pattern.condition[k, col.RIGHT]
        other = right if left == col.ABSENT else left
        event = e if other == j else work.event_of[other]
        one, two = y if left == col.ABSENT else event, y if right == col.ABSENT else event
        if not _holds(pattern.condition, pattern.factor, events.integers, events.floats, k, one, two):
            return False
    return True


@njit(**_HELPER)
def _is_violated(pattern, events, store, parts, work, p, e, j, chain, tail):
    """Return whether the partial match that e extends as component j breaks an absence decided at j."""
    _bind(store.field, work.event_of, work.first_of, chain, tail)
    n_absences = len(pattern.absence)
    for a in range(n_absences):
        if pattern.absence[a, col.MODE] != col.LOOK_BACK or pattern.absence[a, col.DECIDED_AT] != j:
            continue
        i = pattern.absence[a, col.AFTER]
        stop = e if i + 1 == j else work.first_of[i + 1]
        y = parts.last_negated[p * n_absences + a]
        while y > work.event_of[i]:
            if y < stop and _is_absent_event(pattern, events, work, a, y, j, e):
                return True
            y = events.negated_before[a, y]
    return False


@njit(**_HELPER)
def _drop_before_absent(pattern, events, store, parts, work, p, e, shared_list):
    """Remove from the lists what can no longer be extended because ``e`` is an event that must not occur."""
    n_components, n_absences = len(pattern.kleene), len(pattern.absence)
    for a in range(n_absences):
        if not events.accepted[e] >> (n_components + a) & 1:
            continue
        i = pattern.absence[a, col.AFTER]
        at = p * n_components + (0 if shared_list else i)
        if pattern.absence[a, col.MODE] != col.LOOK_BACK:
            before, c = NONE, parts.first_of_list[at]
            while c >= 0:
                after = store.field[c, col.NEXT]
                dead = store.field[c, col.COMPONENT] == i and store.field[c, col.TAIL] != e
                if dead and pattern.absence[a, col.MODE] == col.DROP_TESTED:
                    _bind(store.field, work.event_of, work.first_of, c, store.field[c, col.TAIL])
                    dead = _is_absent_event(pattern, events, work, a, e, NO_COMPONENT, e)
                if dead:  # its successors still need it, so the slot is not free before it expires
                    _unlink(store.field, parts.first_of_list, parts.last_of_list, at, before, c)
                    parts.n_live[p] -= 1
                else:
                    before = c
                c = after
        events.negated_before[a, e] = parts.last_negated[p * n_absences + a]
        parts.last_negated[p * n_absences + a] = e


# --- slots and lists --------------------------------------------------------------------------------------


@njit(**_INLINED)
def _unlink(field, first_of_list, last_of_list, at, before, c):
    after = field[c, col.NEXT]
    if before < 0:
        first_of_list[at] = after
    else:
        field[before, col.NEXT] = after
    if after < 0:
        last_of_list[at] = before


@njit(**_INLINED)
def _append(field, first_of_list, last_of_list, at, c):
    if last_of_list[at] < 0:
        first_of_list[at] = c
    else:
        field[last_of_list[at], col.NEXT] = c
    last_of_list[at] = c


@njit(**_INLINED)
def _release(field, free, n_free, c):
    """Free a slot; return the number of free slots."""
    field[c, col.TAIL] = -1
    free[n_free] = c
    return n_free + 1


@njit(**_INLINED)
def _begin(field, c, e, pred, pred_tail, first_time, component):
    """Write a chain of one event to its slot."""
    field[c, col.HEAD] = e
    field[c, col.TAIL] = e
    field[c, col.PRED] = pred
    field[c, col.PRED_TAIL] = pred_tail
    field[c, col.FIRST_TIME] = first_time
    field[c, col.NEXT] = -1
    field[c, col.RECENT] = -1
    field[c, col.COMPONENT] = component


@njit(**_INLINED)
def _copy(positions, payload, attribute_of, n_attributes, new, e, pred, pred_tail):
    """Write the partial match that ``e`` makes of that at ``pred_tail`` of chain ``pred`` to row ``new``."""
    # A row of ``positions`` has the number of events, then their positions. The row of ``payload`` has the
    # attributes of these events, one event after the other. ``attribute_of`` has those of every event.
    # Returns the number of events.
    # Unsigned indices: numba need not ask whether an index counts from the end.
    row, n_values, n = np.uint64(new), np.uint64(n_attributes), np.uint64(0)
    if pred >= 0:
        old = np.uint64(pred)
        n = np.uint64(positions[old, 0])
        for i in range(np.uint64(1), n + np.uint64(1)):
            positions[row, i] = positions[old, i]
        for i in range(n * n_values):
            payload[row, i] = payload[old, i]
        if positions[row, n] != pred_tail:  # the chain has grown, or its newest events are not earlier
            positions[row, n] = pred_tail
            at = (n - np.uint64(1)) * n_values
            for i in range(n_values):
                payload[row, at + i] = attribute_of[np.uint64(pred_tail), i]
    positions[row, n + np.uint64(1)] = e
    at = n * n_values
    for i in range(n_values):
        payload[row, at + i] = attribute_of[np.uint64(e), i]
    positions[row, 0] = n + np.uint64(1)
    return np.int64(n + np.uint64(1))


@njit(**_HELPER)
def _is_recent(events, parts, tail, limit):
    """Return whether the next event of the partition may still read a chain, expired or not."""
    return tail == parts.last_event[events.partition[tail]] and events.time[tail] >= limit


@njit([(_EVENTS, _STORE, _PARTS, T.int64, _I1)], **_KERNEL)
def sweep(events, store, parts, limit, report):
    """Free every slot whose first event is older than ``limit``, in a list or not. O(slots + lists)."""
    n_components = len(parts.first_of_list) // max(1, len(parts.last_event))
    for at in range(len(parts.first_of_list)):
        latest = parts.last_event[at // n_components]
        if latest >= 0 and events.time[latest] < limit:
            parts.first_recent[at] = -1
        before, c = NONE, parts.first_of_list[at]
        while c >= 0:
            after = store.field[c, col.NEXT]
            tail = store.field[c, col.TAIL]
            if store.field[c, col.FIRST_TIME] < limit and not _is_recent(events, parts, tail, limit):
                _unlink(store.field, parts.first_of_list, parts.last_of_list, at, before, c)
                parts.n_live[events.partition[tail]] -= 1
            else:
                before = c
            c = after
    report[col.N_FREE] = 0
    for c in range(len(store.field)):
        tail = store.field[c, col.TAIL]
        if tail < 0 or (
            store.field[c, col.FIRST_TIME] < limit and not _is_recent(events, parts, tail, limit)
        ):
            report[col.N_FREE] = _release(store.field, store.free, report[col.N_FREE], c)


@njit(**_HELPER)
def _add_to_total(total, term):
    carry = 0
    for i in range(len(total)):
        digit = total[i] + term[i] + carry
        total[i] = digit & LIMB_MASK
        carry = digit >> LIMB_BITS


# --- runs -------------------------------------------------------------------------------------------------


@njit([(*_ARGUMENTS, T.int64, T.int64, T.int64, T.int64, _I1)], **_KERNEL)
def advance_runs(pattern, events, store, parts, work, out, start, stop, output, by_state, report):
    """Advance separate runs over the events from ``start`` to ``stop``; every partial match is one run."""
    # With ``by_state`` 0, each partition has one list of runs, and
    # every event that a component or an absence accepts visits all of it (SASE). With ``by_state`` 1, each
    # component has a list, and an event visits only those that it may extend (the pending lists of Siddhi).
    # ``report[REASON]`` says which array was too small, ``report[CONSUMED]`` is the first unprocessed event.
    # O(visited runs) time per event, O(live runs) memory.
    # ``settings[COPIES]`` says what a copy takes along: nothing but a pointer to the run that it extends (0),
    # the positions of all events (1), or also their attributes (2). A copy costs O(1), O(length) or O(length
    # x attributes).
    # Source: Agrawal et al., "Efficient pattern matching over event streams", SIGMOD 2008; Suhothayan et al.,
    # "Siddhi", GCE 2011.
    kleene, first_condition, condition, factor = (
        pattern.kleene, pattern.first_condition, pattern.condition, pattern.factor
    )  # fmt: skip
    looks_back, window, strict = (
        pattern.looks_back,
        pattern.settings[col.WINDOW],
        pattern.settings[col.STRICT_TIME],
    )
    time, partition, accepts = events.time, events.partition, events.accepted
    integers, floats = events.integers, events.floats
    field, free = store.field, store.free
    first_of_list, last_of_list, n_live = parts.first_of_list, parts.last_of_list, parts.n_live
    event_of, first_of = work.event_of, work.first_of
    items, item_component, length_of, nodes = out.items, out.component, out.length, out.nodes
    n_components = len(kleene)
    last = n_components - 1
    has_kleene = pattern.settings[col.HAS_KLEENE]
    copies, n_attributes = pattern.settings[col.COPIES], pattern.settings[col.ATTRIBUTES]
    positions, payload, attribute_of = store.positions, store.payload, events.payload
    report[col.REASON] = 0
    for e in range(start, stop):
        report[col.CONSUMED] = e
        accepted = accepts[e]
        if accepted == 0:
            continue
        if copies and has_kleene and report[col.WIDEST] + 2 > positions.shape[1]:
            report[col.REASON], report[col.NEED] = col.MORE_WIDTH, report[col.WIDEST] + 2
            return
        p, t = partition[e], time[e]
        limit = t - window if window >= 0 and t > col.NO_TIME + window else col.NO_TIME
        live = n_live[p]
        if report[col.N_FREE] < 2 * live + 1:
            report[col.REASON], report[col.NEED] = col.MORE_SLOTS, 2 * live + 1
            return
        if output == col.ALL and accepted >> last & 1:
            # An event of a Kleene closure can both begin and continue it: at most two matches per run.
            bound = 2 * live + 1 if has_kleene else live + 1
            most_items = bound * (report[col.LONGEST] + 1 if has_kleene else n_components)
            if report[col.N_FOUND] + bound > len(length_of):
                report[col.REASON], report[col.NEED] = col.MORE_MATCHES, bound
                return
            if report[col.N_ITEMS] + most_items > len(items):
                report[col.REASON], report[col.NEED] = col.MORE_ITEMS, most_items
                return
        # The loops count in variables of their own, which need no memory.
        n_free, n_found, write = report[col.N_FREE], report[col.N_FOUND], np.uint64(report[col.N_ITEMS])
        n_made, n_copied, n_values, widest, longest = (
            ZERO,
            ZERO,
            ZERO,
            report[col.WIDEST],
            report[col.LONGEST],
        )
        for visit in range((n_components if by_state else 1) + 1):
            # The last visit is to no list: the event begins a new run.
            begins_run = visit == (n_components if by_state else 1)
            i = last - visit if by_state else 0
            if begins_run:
                if not accepted & 1:
                    break
                at, c, before = p * n_components, NONE, NONE
            else:
                extends = (i < last and accepted >> (i + 1) & 1) or (kleene[i] and accepted >> i & 1)
                if by_state and not extends:
                    continue
                at, before = p * n_components + i, NONE
                c = first_of_list[at]
                if c < 0:
                    continue
            while True:
                own, tail, first_time = -1, -1, t
                if c >= 0:
                    tail = field[c, col.TAIL]
                    if tail == e:  # this event made all runs from here on
                        break
                    first_time = field[c, col.FIRST_TIME]
                    if first_time < limit:
                        after = field[c, col.NEXT]
                        _unlink(field, first_of_list, last_of_list, at, before, c)
                        n_free = _release(field, free, n_free, c)
                        n_live[p] -= 1
                        c = after
                        if c < 0:
                            break
                        continue
                    own = field[c, col.COMPONENT]
                if not (strict and c >= 0 and time[tail] == t):
                    for takes in range(2 if has_kleene and c >= 0 else 1):
                        j = own if takes else own + 1
                        if j > last or not accepted >> j & 1 or (takes and not kleene[j]):
                            continue
                        fits = True
                        if first_condition[j] < first_condition[j + 1] and c >= 0:
                            _bind(field, event_of, first_of, c, tail)
                            fits = _fits(
                                first_condition, condition, factor, integers, floats, event_of, j, e, takes
                            )
                        if fits and looks_back[j] and not takes:
                            fits = not _is_violated(pattern, events, store, parts, work, p, e, j, c, tail)
                        if not fits:
                            continue
                        # The run, or a copy of run c, extended by this event.
                        nodes[j] += 1
                        n_made += 1
                        n_copied += np.int64(c >= 0)
                        new = free[n_free - 1]
                        if copies:  # a complete match, too, is a copy; its slot is free again at once
                            n_events = _copy(positions, payload, attribute_of, n_attributes, new, e, c, tail)
                            widest = max(widest, n_events)
                            n_values += 1 + n_events * (1 + n_attributes)
                        if j == last:
                            if output == col.ALL:
                                length = n_components
                                if has_kleene:
                                    length = 1 + (field[c, col.RECENT] if c >= 0 else 0)
                                    length_of[n_found] = length
                                write += np.uint64(length)
                                place = write - np.uint64(1)
                                items[place] = e
                                if has_kleene:
                                    item_component[place] = j
                                node, x = c, tail
                                if copies and not has_kleene:
                                    node = -1
                                    for i in range(length - 1, 0, -1):
                                        place -= np.uint64(1)
                                        items[place] = positions[new, np.uint64(i)]
                                while node >= 0:
                                    place -= np.uint64(1)
                                    items[place] = x
                                    if has_kleene:
                                        item_component[place] = field[node, col.COMPONENT]
                                    x = field[node, col.PRED_TAIL]
                                    node = field[node, col.PRED]
                            n_found += 1
                            if not kleene[j]:
                                continue
                        n_free -= 1
                        _begin(field, new, e, c, tail, first_time, j)
                        if has_kleene:  # the length of a run; the field has no other use here
                            field[new, col.RECENT] = 1 + (field[c, col.RECENT] if c >= 0 else 0)
                            longest = max(longest, field[new, col.RECENT])
                        to = p * n_components + (j if by_state else 0)
                        _append(field, first_of_list, last_of_list, to, new)
                        n_live[p] += 1
                if c < 0:
                    break
                # Read the next run only now, because an added run may have become the next one.
                before = c
                c = field[c, col.NEXT]
                if c < 0:
                    break
        report[col.N_FREE], report[col.N_FOUND], report[col.N_ITEMS] = n_free, n_found, np.int64(write)
        report[col.CHAINS] += n_made
        report[col.N_COPIES] += n_copied
        report[col.WIDEST], report[col.LONGEST] = widest, longest
        report[col.COPIED] += n_values
        if accepted >> n_components:
            _drop_before_absent(pattern, events, store, parts, work, p, e, 1 - by_state)
        report[col.PEAK_LIVE] = max(report[col.PEAK_LIVE], len(free) - n_free)
    report[col.CONSUMED] = stop


# --- chains -----------------------------------------------------------------------------------------------


@njit(**_HELPER)
def _spill(report, product, total):
    product[:] = 0
    product[0] = report[col.N_FOUND] & LIMB_MASK
    product[1] = report[col.N_FOUND] >> LIMB_BITS
    _add_to_total(total, product)
    report[col.N_FOUND] = 0


@njit(**_HELPER)
def _add_large(field, rank, candidate, k, first_rank, product, total):
    """Add the number of combinations of a candidate that does not fit in an integer."""
    product[:] = 0
    product[0] = 1
    c, tail = candidate[k, col.CHAIN], candidate[k, col.CHAIN_TAIL]
    while c >= 0:
        width = rank[tail] - _head_rank(field, rank, first_rank, c) + 1
        carry = 0
        for d in range(len(product)):
            digit = product[d] * width + carry
            product[d] = digit & LIMB_MASK
            carry = digit >> LIMB_BITS
        tail = field[c, col.PRED_TAIL]
        c = field[c, col.PRED]
    _add_to_total(total, product)


@njit(**_HELPER)
def _is_before(left, i, right, k, n):
    """Return whether the match at left[i] sorts before that at right[k] (n events, last position first)."""
    for d in range(n - 1, -1, -1):
        if left[i + d] != right[k + d]:
            return left[i + d] < right[k + d]
    return False


@njit(**_HELPER)
def _merge(items, spare, n, run_start, n_runs):
    """Merge sorted runs of matches of n events each into one sorted run. O(items x log runs)."""
    width = 1
    while width < n_runs:
        for r in range(0, n_runs - width, 2 * width):
            start, middle = run_start[r], run_start[r + width]
            stop = run_start[min(r + 2 * width, n_runs)]
            if not _is_before(items, middle, items, middle - n, n):
                continue
            length = middle - start
            for i in range(length):
                spare[i] = items[start + i]
            a, b, at = ZERO, middle, start
            while a < length and b < stop:
                if _is_before(items, b, spare, a, n):
                    for i in range(n):
                        items[at + i] = items[b + i]
                    b += n
                else:
                    for i in range(n):
                        items[at + i] = spare[a + i]
                    a += n
                at += n
            while a < length:
                items[at] = spare[a]
                a += 1
                at += 1
        width *= 2


@njit(**_INLINED)
def _head_rank(field, rank, first_rank, c):
    """Return the number of the first event of chain c that is in the window."""
    return max(rank[field[c, col.HEAD]], first_rank if field[c, col.PRED] < 0 else 0)


@njit(**_HELPER)
def _write_products(chains, scratch, output, start, n, e, oldest, has_kleene, report):
    """Write the matches of the candidates from ``start`` to ``n`` that end with ``e``, in canonical order."""
    field, rank, following = chains
    candidate, level, run_start, n_components = scratch
    items, item_component, length_of, spare = output
    last, first_rank = n_components - 1, rank[oldest]
    write, m = report[col.N_ITEMS], report[col.N_FOUND]
    n_runs, base = ZERO, write
    k = start
    while k < n:
        # Chains with the same events (a group) are processed together, event by event. That is the canonical
        # order if no third component comes before.
        c, top_tail = candidate[k, col.CHAIN], candidate[k, col.CHAIN_TAIL]
        group_stop, top, group_head = k + 1, e, -1
        if c >= 0:
            group_head = field[c, col.HEAD]
            top = group_head
            if field[c, col.PRED] < 0 and rank[top] < first_rank:
                top = oldest  # older events of the first chain are outside the window
            while group_stop < n and candidate[group_stop, col.CHAIN_TAIL] == top_tail:
                if field[candidate[group_stop, col.CHAIN], col.HEAD] != group_head:
                    break
                group_stop += 1
        while True:
            for member in range(k, group_stop):
                first_item, depth = write, 0
                c = candidate[member, col.CHAIN]
                top_component = field[c, col.COMPONENT] if c >= 0 else last
                node, tail = -1, -1
                if c >= 0:
                    node, tail = field[c, col.PRED], field[c, col.PRED_TAIL]
                while node >= 0:
                    head = field[node, col.HEAD]
                    if field[node, col.PRED] < 0 and rank[head] < first_rank:
                        head = oldest
                    level[depth, col.LEVEL_HEAD] = head
                    level[depth, col.LEVEL_TAIL] = tail
                    level[depth, col.CURRENT] = head
                    level[depth, col.LEVEL_COMPONENT] = field[node, col.COMPONENT]
                    depth += 1
                    tail = field[node, col.PRED_TAIL]
                    node = field[node, col.PRED]
                length = depth + (2 if c >= 0 else 1)
                more = True
                while more:
                    # The first event changes fastest.
                    x = level[depth - 1, col.CURRENT] if depth else top
                    stop_at = level[depth - 1, col.LEVEL_TAIL] if depth else top
                    while True:
                        items[write] = x
                        for i in range(1, depth):
                            items[write + i] = level[depth - 1 - i, col.CURRENT]
                        items[write + depth] = top
                        items[write + length - 1] = e
                        if has_kleene:
                            for i in range(depth):
                                item_component[write + i] = level[depth - 1 - i, col.LEVEL_COMPONENT]
                            item_component[write + depth] = top_component
                            item_component[write + length - 1] = last
                            length_of[m] = length
                        write += length
                        m += 1
                        if x == stop_at:
                            break
                        x = following[x]
                    i = depth - 2
                    while i >= 0 and level[i, col.CURRENT] == level[i, col.LEVEL_TAIL]:
                        level[i, col.CURRENT] = level[i, col.LEVEL_HEAD]
                        i -= 1
                    more = i >= 0
                    if more:
                        level[i, col.CURRENT] = following[level[i, col.CURRENT]]
                if n_runs == 0:
                    run_start[0] = base
                    n_runs = 1
                elif not has_kleene and _is_before(
                    items, first_item, items, first_item - n_components, n_components
                ):
                    if n_runs == len(run_start) - 1:
                        run_start[n_runs] = first_item
                        _merge(items, spare, n_components, run_start, n_runs)
                        n_runs = 1
                    run_start[n_runs] = first_item
                    n_runs += 1
            if c < 0 or top == top_tail:
                break
            top = following[top]
        k = group_stop
    run_start[n_runs] = write
    report[col.N_ITEMS], report[col.N_FOUND] = write, m
    if n_runs > 1 and not has_kleene:
        _merge(items, spare, n_components, run_start, n_runs)


@njit(**_INLINED)
def _write_products_as_found(chains, scratch, output, start, n, e, oldest, has_kleene, report):
    """Write the matches of the candidates from ``start`` to ``n`` that end with ``e``, chain after chain."""
    field, rank, following = chains
    candidate, level, _, n_components = scratch
    items, item_component, length_of, _ = output
    last = n_components - 1
    first_rank = rank[oldest]
    write, m = report[col.N_ITEMS], report[col.N_FOUND]
    for k in range(start, n):
        # The events of the two latest chains, c and d, change fastest. They need no table of levels.
        c, tail, head = candidate[k, col.CHAIN], candidate[k, col.CHAIN_TAIL], e
        d, d_head, depth = -1, -1, 0
        if c >= 0:
            d, head = field[c, col.PRED], field[c, col.HEAD]
            if d < 0 and rank[head] < first_rank:
                head = oldest
        else:
            tail = e
        if d >= 0:
            node, node_tail, d_head = field[d, col.PRED], field[d, col.PRED_TAIL], field[d, col.HEAD]
            if node < 0 and rank[d_head] < first_rank:
                d_head = oldest
            while node >= 0:
                first = field[node, col.HEAD]
                if field[node, col.PRED] < 0 and rank[first] < first_rank:
                    first = oldest
                level[depth, col.LEVEL_HEAD] = first
                level[depth, col.LEVEL_TAIL] = node_tail
                level[depth, col.CURRENT] = first
                level[depth, col.LEVEL_COMPONENT] = field[node, col.COMPONENT]
                depth += 1
                node_tail = field[node, col.PRED_TAIL]
                node = field[node, col.PRED]
        has_d = np.int64(d >= 0)
        length = depth + 1 + (c >= 0) + has_d
        n_pairs = candidate[k, col.N_COMBINED]
        for i in range(depth):
            n_pairs //= rank[level[i, col.LEVEL_TAIL]] - rank[level[i, col.LEVEL_HEAD]] + 1
        if depth == 0 and has_d and not has_kleene:  # three components, as in most patterns; no branch inside
            x, y, at = head, d_head, np.uint64(write)
            for _ in range(n_pairs):
                items[at] = y
                items[at + np.uint64(1)] = x
                items[at + np.uint64(2)] = e
                at += np.uint64(3)
                is_tail = np.int64(x == tail)
                y += is_tail * (following[np.uint64(y)] - y)
                after = following[np.uint64(x)]
                x = after + is_tail * (head - after)
            write += 3 * n_pairs
            m += n_pairs
            continue
        more = True
        while more:
            x, y = head, d_head
            # One loop for both chains: chains are short, so two loops would end at hardly predictable times.
            for _ in range(n_pairs):
                for i in range(depth):
                    items[write + i] = level[depth - 1 - i, col.CURRENT]
                at = write + depth + has_d
                items[at - has_d] = y
                items[at] = x  # a match of one event has it in one place only
                items[write + length - 1] = e
                if has_kleene:
                    for i in range(depth):
                        item_component[write + i] = level[depth - 1 - i, col.LEVEL_COMPONENT]
                    if has_d:
                        item_component[at - 1] = field[d, col.COMPONENT]
                    item_component[at] = field[c, col.COMPONENT] if c >= 0 else last
                    item_component[write + length - 1] = last
                    length_of[m] = length
                write += length
                m += 1
                after_x, after_y = following[x], following[y]
                y = after_y if x == tail else y
                x = head if x == tail else after_x
            i = depth - 1
            while i >= 0 and level[i, col.CURRENT] == level[i, col.LEVEL_TAIL]:
                level[i, col.CURRENT] = level[i, col.LEVEL_HEAD]
                i -= 1
            more = i >= 0
            if more:
                level[i, col.CURRENT] = following[level[i, col.CURRENT]]
    report[col.N_ITEMS], report[col.N_FOUND] = write, m


@njit([(*_ARGUMENTS, T.int64, T.int64, T.int64, _I1)], **_KERNEL)
def advance_chains(pattern, events, store, parts, work, out, start, stop, output, report):
    """Advance linked chains over events; this is the corrected CoverMatch and CombineMatch."""
    # Arguments and report as in `advance_runs`. ``output`` ALL writes matches in canonical order. COUNT adds
    # up their number without writing them. LATEST writes one coverage per chain of the last component and
    # keeps it at the chain's newest event.
    # O(chains of the previous component) time per event, plus O(matches x log chains) for ALL. O(live chains)
    # memory.
    # Source: Qiu et al., "LinkedCEP", algorithms 1 and 2.
    coverable, kleene, first_condition, condition, factor = (
        pattern.coverable, pattern.kleene, pattern.first_condition, pattern.condition, pattern.factor
    )  # fmt: skip
    looks_back, window, strict = (
        pattern.looks_back,
        pattern.settings[col.WINDOW],
        pattern.settings[col.STRICT_TIME],
    )
    time, partition, accepts = events.time, events.partition, events.accepted
    integers, floats = events.integers, events.floats
    rank, following, preceding = events.rank, events.following, events.preceding
    field, free = store.field, store.free
    first_of_list, last_of_list, first_recent = parts.first_of_list, parts.last_of_list, parts.first_recent
    last_event, oldest = parts.last_event, parts.oldest
    candidate, event_of, first_of = work.candidate, work.event_of, work.first_of
    rows, nodes = out.rows, out.nodes
    n_components = len(kleene)
    last = n_components - 1
    has_kleene = pattern.settings[col.HAS_KLEENE]
    copies, n_attributes = pattern.settings[col.COPIES], pattern.settings[col.ATTRIBUTES]
    positions, payload, attribute_of = store.positions, store.payload, events.payload
    report[col.REASON] = 0
    for e in range(start, stop):
        report[col.CONSUMED] = e
        accepted = accepts[e]
        if accepted == 0:
            continue
        if copies and has_kleene and report[col.WIDEST] + 2 > positions.shape[1]:
            report[col.REASON], report[col.NEED] = col.MORE_WIDTH, report[col.WIDEST] + 2
            return
        p, t = partition[e], time[e]
        limit = t - window if window >= 0 and t > col.NO_TIME + window else col.NO_TIME
        latest = last_event[p]
        # An event outside the window may have been removed together with its chains.
        same = latest >= 0 and time[latest] >= limit
        same = same and accepts[latest] == accepted and accepted >> n_components == 0
        # The event joins the verified sub-stream. The steps before the last check for room may run twice.
        preceding[e] = latest
        rank[e] = 0
        if latest >= 0:
            following[latest] = e
            rank[e] = rank[latest] + 1
        if oldest[p] < 0:
            oldest[p] = e
        while time[oldest[p]] < limit:
            oldest[p] = following[oldest[p]]
        first_rank = rank[oldest[p]]
        n_free = report[col.N_FREE]

        # Candidates: the chains that the event may follow, by component; found before any chain is changed.
        n, first_last = ZERO, ZERO
        n_candidates = len(candidate)
        for j in range(n_components):
            if not accepted >> j & 1:
                continue
            if j == last:
                first_last = n
            if j == 0:
                if n == n_candidates:
                    n += 1
                    break
                candidate[n, col.STATE] = 0
                candidate[n, col.CHAIN] = -1
                candidate[n, col.CHAIN_TAIL] = -1
                candidate[n, col.CHAIN_TIME] = t
                n += 1
            for takes in range(2 if kleene[j] else 1):
                if j == 0 and not takes:
                    continue
                at = p * n_components + (j if takes else j - 1)
                before, c = NONE, first_of_list[at]
                while c >= 0:
                    after, tail, first_time = field[c, col.NEXT], field[c, col.TAIL], field[c, col.FIRST_TIME]
                    if first_time < limit:
                        # Chains of the latest event are still read, so their slots must not be reused.
                        if tail == latest:
                            before = c
                        else:
                            _unlink(field, first_of_list, last_of_list, at, before, c)
                            n_free = _release(field, free, n_free, c)
                        c = after
                        continue
                    if strict:
                        head, pred = field[c, col.HEAD], field[c, col.PRED]
                        while tail >= 0 and time[tail] == t:
                            tail = preceding[tail] if tail != head else -1
                        if tail >= 0 and pred < 0:
                            first_time = time[tail]
                    fits = tail >= 0 and first_time >= limit
                    if fits and first_condition[j] < first_condition[j + 1]:
                        _bind(field, event_of, first_of, c, tail)
                        fits = _fits(
                            first_condition, condition, factor, integers, floats, event_of, j, e, takes
                        )
                    if fits and looks_back[j] and not takes:
                        fits = not _is_violated(pattern, events, store, parts, work, p, e, j, c, tail)
                    if fits:
                        if n >= n_candidates:
                            n = n_candidates + 1
                            break
                        candidate[n, col.STATE] = j
                        candidate[n, col.CHAIN] = c
                        candidate[n, col.CHAIN_TAIL] = tail
                        candidate[n, col.CHAIN_TIME] = first_time
                        n += 1
                    before = c
                    c = after
        report[col.N_FREE] = n_free
        if n > n_candidates:
            report[col.REASON], report[col.NEED] = col.MORE_CANDIDATES, 2 * n_candidates
            return
        if n_free < n:
            report[col.REASON], report[col.NEED] = col.MORE_SLOTS, n
            return

        # Matches that end here: the matches of each candidate of the last component are a product of chains.
        if accepted >> last & 1 and output == col.LATEST:
            if report[col.N_ROWS] + n - first_last > len(rows):
                report[col.REASON], report[col.NEED] = col.MORE_ROWS, n - first_last
                return
        elif accepted >> last & 1:
            n_matches, n_items = 0.0, 0.0
            for k in range(first_last, n):
                c, tail = candidate[k, col.CHAIN], candidate[k, col.CHAIN_TAIL]
                depth, size, magnitude = 0, 1, 1.0
                while c >= 0:
                    width = rank[tail] - _head_rank(field, rank, first_rank, c) + 1
                    size *= width
                    magnitude *= width
                    depth += 1
                    tail = field[c, col.PRED_TAIL]
                    c = field[c, col.PRED]
                candidate[k, col.N_COMBINED] = size
                n_matches += magnitude
                n_items += magnitude * (depth + 1)
                if output == col.ALL and depth > len(work.level):
                    report[col.REASON], report[col.NEED] = col.MORE_LEVELS, depth
                    return
                if output == col.COUNT:
                    # Nothing can interrupt this event any more, so its matches are counted once.
                    if magnitude < SMALL:
                        report[col.N_FOUND] += size
                        if report[col.N_FOUND] >= SMALL:
                            _spill(report, work.product, out.total)
                    else:
                        _add_large(field, rank, candidate, k, first_rank, work.product, out.total)
            if output == col.ALL:
                if report[col.N_FOUND] + n_matches > len(out.length):
                    report[col.REASON], report[col.NEED] = col.MORE_MATCHES, int(min(n_matches, 1e18))
                    return
                if report[col.N_ITEMS] + n_items > len(out.items):
                    report[col.REASON], report[col.NEED] = col.MORE_ITEMS, int(min(n_items, 1e18))
                    return
                chains, scratch = (
                    (field, rank, following),
                    (candidate, work.level, work.run_start, n_components),
                )
                output_arrays = out.items, out.component, out.length, out.spare
                if pattern.settings[col.IS_ORDERED]:
                    _write_products(
                        chains, scratch, output_arrays, first_last, n, e, oldest[p], has_kleene, report
                    )
                else:
                    _write_products_as_found(
                        chains, scratch, output_arrays, first_last, n, e, oldest[p], has_kleene, report
                    )

        # The event enters chains: it joins the latest chain if that has the same predecessors.
        if accepted >> n_components:
            _drop_before_absent(pattern, events, store, parts, work, p, e, ZERO)
        k = 0
        for j in range(n_components):
            at = p * n_components + j
            old, newest = first_recent[at], -1
            first_recent[at] = -1
            if not same:
                while old >= 0 and j == last and not kleene[j]:
                    n_free = _release(field, free, n_free, old)
                    old = field[old, col.RECENT]
                old = -1
            while k < n and candidate[k, col.STATE] == j:
                pred, pred_tail = candidate[k, col.CHAIN], candidate[k, col.CHAIN_TAIL]
                nodes[j] += 1
                if pred >= 0:
                    report[col.N_COPIES] += 1
                found, c = old, -1
                while found >= 0 and (
                    field[found, col.PRED] != pred or field[found, col.PRED_TAIL] != pred_tail
                ):
                    found = field[found, col.RECENT]
                if found >= 0:
                    # Candidates are in the order of the lists, so those skipped here do not occur later.
                    while old != found:
                        after = field[old, col.RECENT]
                        if j == last:
                            n_free = _release(field, free, n_free, old)
                        old = after
                    old = field[found, col.RECENT]
                    c = found
                    field[c, col.TAIL] = e
                    field[c, col.RECENT] = -1
                    if j == 0:
                        field[c, col.FIRST_TIME] = t
                    if output == col.LATEST and j == last:
                        rows[field[c, col.ROW], j] = e
                    new = c
                else:
                    report[col.CHAINS] += 1
                    new = free[n_free - 1]
                    if coverable[j] or j < last or kleene[j]:
                        n_free -= 1
                        c = free[n_free]
                        _begin(field, c, e, pred, pred_tail, candidate[k, col.CHAIN_TIME], j)
                        if j < last or kleene[j]:
                            _append(field, first_of_list, last_of_list, at, c)
                    if output == col.LATEST and j == last:
                        _bind(field, event_of, first_of, pred, pred_tail)
                        event_of[j] = e
                        for i in range(n_components):
                            rows[report[col.N_ROWS], i] = event_of[i]
                        if coverable[j]:
                            field[c, col.ROW] = report[col.N_ROWS]
                        report[col.N_ROWS] += 1
                if copies:
                    n_events = _copy(positions, payload, attribute_of, n_attributes, new, e, pred, pred_tail)
                    report[col.WIDEST] = max(report[col.WIDEST], n_events)
                    report[col.COPIED] += 1 + n_events * (1 + n_attributes)
                if coverable[j]:
                    if newest < 0:
                        first_recent[at] = c
                    else:
                        field[newest, col.RECENT] = c
                    newest = c
                k += 1
            while old >= 0 and j == last:
                n_free = _release(field, free, n_free, old)
                old = field[old, col.RECENT]
        report[col.N_FREE] = n_free
        last_event[p] = e
        report[col.PEAK_LIVE] = max(report[col.PEAK_LIVE], len(free) - n_free)
    report[col.CONSUMED] = stop
