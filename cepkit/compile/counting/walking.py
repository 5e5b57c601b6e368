"""State graph → Python source of the kernels that walk its matches backwards, in order, without dead ends."""

from __future__ import annotations

from cepkit.compile.counting.path_source import INT1, INT2, INT3, READ, SHORT1, PathModuleWriter

# Places in the reports of the walks. Then the reasons why a walk stopped early, besides the limit on work.
END, DEPTH, PHASE, N_MATCHES, N_ITEMS, WORK, DONE, SEEK, REASON = range(9)
DEEPER, LONGER, FULL = 1, 2, 3


def write_line_walk(writer: PathModuleWriter) -> str:
    """Write the walk of a line of states."""
    helpers = writer.over_links("find", "w, latest, found", _FIND_IN_LINE, alive="(v[j] >= w)")
    helpers.append(_FIRST_FROM.splitlines())
    if writer.n_states is None:
        loads, stores = [], ["                for s in range(1, N):"]
        stores += ["                    row[m + np.uint64(s)] = position[entry[s]]"]
    else:
        loads = [f"            p{s} = position[entry[{s}]]" for s in range(1, writer.n_states)]
        stores = [f"                row[m + np.uint64({s})] = p{s}" for s in range(1, writer.n_states)]
    text = _LINE.replace("            LOADS", "\n".join(loads)).replace(
        "                STORES", "\n".join(stores)
    )
    types = ["T.int64"] * 2 + [READ] * 7 + writer.value_types
    types += [INT1, INT1, INT1, INT2, *[INT1] * 4, INT1, INT1]
    return writer.path_module(helpers, (text, types))


def write_walk(writer: PathModuleWriter) -> str:
    """Write the walk of any graph.

    The walk visits a row of events once, with the set of states in which each event can be. If a row has
    several ways through the states, each way is a match: those whose components end earlier come first.
    """
    helpers = writer.finding()
    helpers += [
        text.splitlines() for text in (_FIRST_FROM, _WRITE_LEAVES, _GO_ON, _OTHER_WAY, _WRITE_COMPONENTS)
    ]
    types = ["T.int64"] * 2 + [READ] * 8 + writer.value_types
    types += [INT1, INT1, INT1, SHORT1, *[INT1] * 6, INT2, INT3, *[INT1] * 3]
    types += [INT1, SHORT1, INT1, INT1]
    return writer.path_module(helpers, (_WALK, types))


# The first entry from lo to hi at place p or later; mostly it is near the one given.
_FIRST_FROM = """def first_from(place, lo, hi, near, p):
    near, step = min(max(near, lo), hi), 1
    if near < hi and place[near] < p:
        lo = near + 1
        while near + step < hi and place[near + step] < p:
            lo = near + step + 1
            step *= 2
        hi = min(hi, near + step)
    else:
        hi = near
        while near - step >= lo and place[near - step] >= p:
            hi = near - step
            step *= 2
        lo = max(lo, near - step)
    while lo < hi:
        middle = (lo + hi) >> 1
        if place[middle] < p:
            lo = middle + 1
        else:
            hi = middle
    return lo"""

_FIND_IN_LINE = """    LOADS
    if lo >= hi:
        return 0
    v = latest[lo:hi]
    n = np.uint64(0)
    for j in range(len(v)):
        found[n] = lo + j
        n += np.uint64(1) if CONDITION else np.uint64(0)
    return np.int64(n)"""

# Level d has chosen the event of state d and looks for that of state d - 1. Level N chooses the last event.
_LINE = f"""def walk(stop, work_limit, ends, first, position, low, high, window_start, latest, VALUES, start,
         entry, first_in_window, candidate, cursor, n_candidates, scan, scan_end, out, report):
    e, d, n, seek = report[{END}], report[{DEPTH}], report[{N_MATCHES}], report[{SEEK}]
    work, done, room = 0, 0, len(out) // N
    w = window_start[ends[e]] if e >= 0 else 0
    while True:
        if d == N:
            if e + 1 >= stop:
                done = 1
                break
            e += 1
            d = N - 1
            entry[d] = ends[e]
            w = window_start[ends[e]]
            for s in range(N - 1):
                first_in_window[s] = first_from(place, first[s], first[s + 1], first_in_window[s], w)
        elif cursor[d] == n_candidates[d]:
            if scan[d] >= scan_end[d]:
                d += 1
                continue
            if work > work_limit:
                break
            lo, hi = scan[d], min(scan_end[d], scan[d] + candidate.shape[1])
            n_candidates[d] = find(LINK[d - 1], entry[d], lo, hi, w, latest, candidate[d], VALUES)
            scan[d], cursor[d] = hi, 0
            work += hi - lo + 16
            continue
        elif d > 1:
            c = cursor[d]
            cursor[d] = c + 1
            d -= 1
            entry[d] = candidate[d + 1, c]
        else:
            c = cursor[1]
            until = min(n_candidates[1], c + room - n)
            if c == until:
                break
            found, row, m = candidate[1, c:until], out[n * N : (n + until - c) * N], np.uint64(0)
            LOADS
            for t in range(len(found)):
                row[m] = position[np.uint64(found[t])]
                STORES
                m += np.uint64(N)
            n += until - c
            work += until - c
            cursor[1] = until
            continue
        i = entry[d]
        scan[d] = start[d - 1] if seek >= 0 else max(first_in_window[d - 1], low[i])
        scan_end[d] = high[i]
        cursor[d] = n_candidates[d] = 0
        if d == 1:
            seek = -1
    report[{END}], report[{DEPTH}], report[{N_MATCHES}], report[{SEEK}] = e, d, n, seek
    report[{WORK}] += work
    report[{DONE}] = done
"""

# Depth d counts events from the last one, which has depth 0. In phase 1 the event at depth d is new, in phase
# 2 a match is to be written, in phase 0 the walk looks for the event before. In the arrays that a match is
# copied from, depth 0 is the last cell. While each event so far can be in one state only, `several` is 0 and
# the components are known.
_WALK = f"""def walk(stop, work_limit, ends, end_states, position, low, high, window_start, offset, latest,
         VALUES, start, path_state, path_position, path_component, entry, states, stays, nexts, tied, several,
         sources_of, candidates, cursor, n_candidates, scan, out_event, out_component, first_item, report):
    e, d, phase, seek = report[{END}], report[{DEPTH}], report[{PHASE}], report[{SEEK}]
    n, n_items = report[{N_MATCHES}], report[{N_ITEMS}]
    work, done, reason, back = 0, 0, 0, len(entry) - 1
    is_leaf = seek < 0 and FIRST_EDGE[1] == 0
    w = window_start[ends[e]] if e >= 0 else 0
    first_in_window = first_from(place, 0, len(place), ends[max(e, 0)], w)
    while True:
        if d < 0:
            if e + 1 >= stop:
                done = 1
                break
            e += 1
            d, phase = 0, 1
            entry[0], states[0], tied[0], several[0] = ends[e], end_states[e], 0, 0
            w = window_start[ends[e]]
            first_in_window = first_from(place, 0, ends[e] + 1, first_in_window, w)
        if phase == 1:
            i, of = entry[d], states[d]
            path_position[back - d] = position[i]
            if of & (of - 1):
                several[d] = 1
            else:
                s = 0
                while of >> s > 1:
                    s += 1
                path_component[back - d] = COMPONENT[s]
            stay, goes = sources(of TABLES)
            sources_of[d, 0], sources_of[d, 1] = stay, goes
            scan[d] = max(low[i], first_in_window) if stay | goes else high[i]
            cursor[d] = n_candidates[d] = 0
            phase = 2 if of & 1 else 0
            if seek > d:
                scan[d] = start[d + 1]
                phase = 0
            elif seek == d:
                seek = -1
                write_components(0, d, path_state, path_component TABLES)
            elif phase == 2 and several[d]:
                path_state[d] = 0
                go_on(d, path_state, nexts TABLES)
                write_components(0, d, path_state, path_component TABLES)
        if phase == 2:
            if n + 1 >= len(first_item) or n_items + d + 1 > len(out_event):
                reason = {LONGER} if n == 0 else {FULL}
                break
            events, made = path_position[back - d :], out_event[n_items : n_items + d + 1]
            components, named = path_component[back - d :], out_component[n_items : n_items + d + 1]
            for t in range(len(made)):
                made[t] = events[t]
                named[t] = components[t]
            n_items += d + 1
            n += 1
            work += d + 1
            first_item[n] = n_items
            phase = 0
            if tied[d]:
                t = other_way(d, path_state, stays, nexts TABLES)
                if t > 0:
                    go_on(t - 1, path_state, nexts TABLES)
                    write_components(0, d, path_state, path_component TABLES)
                    phase = 2
                    continue
        c = cursor[d]
        if c < n_candidates[d]:
            if d + 1 >= len(entry):
                reason = {DEEPER}
                break
            if is_leaf and several[d] == 0 and candidates[d, 1, c] | candidates[d, 2, c] == 1:
                c = write_leaves(
                    n, n_items, c, n_candidates[d], candidates[d], position, path_position[back - d :],
                    path_component[back - d :], out_event, out_component, first_item,
                )
                if c == cursor[d]:
                    reason = {LONGER} if n == 0 else {FULL}
                    break
                n, n_items = n + c - cursor[d], n_items + (c - cursor[d]) * (d + 2)
                work += (c - cursor[d]) * (d + 2)
                cursor[d] = c
                continue
            cursor[d] = c + 1
            stay, goes = candidates[d, 1, c], candidates[d, 2, c]
            entry[d + 1], stays[d + 1], nexts[d + 1] = candidates[d, 0, c], stay, goes
            states[d + 1], tied[d + 1], several[d + 1] = stay | goes, tied[d] | (stay & goes), several[d]
            d += 1
            phase = 1
            continue
        i = entry[d]
        lo = scan[d]
        if lo >= high[i]:
            d -= 1
            continue
        if work > work_limit:
            break
        hi = min(high[i], lo + candidates.shape[2])
        n_candidates[d] = find(
            i, lo, hi, w, sources_of[d, 0], sources_of[d, 1], offset, latest, VALUES, candidates[d]
        )
        cursor[d], scan[d] = 0, hi
        work += hi - lo + 4
    report[{END}], report[{DEPTH}], report[{PHASE}], report[{SEEK}] = e, d, phase, seek
    report[{N_MATCHES}], report[{N_ITEMS}] = n, n_items
    report[{WORK}] += work
    report[{DONE}], report[{REASON}] = done, reason
"""

# Writes the matches that begin at the candidates from c on, up to a candidate that does not only begin one.
_WRITE_LEAVES = """def write_leaves(n, n_items, c, until, candidates, position, events, components, out_event,
                 out_component, first_item):
    size = len(events) + 1
    entries, stays, nexts = candidates[0, :until], candidates[1, :until], candidates[2, :until]
    n_free = min(len(first_item) - 1 - n, (len(out_event) - n_items) // size)
    while c < until and stays[c] | nexts[c] == 1 and n_free > 0:
        n_free -= 1
        made, named = out_event[n_items : n_items + size], out_component[n_items : n_items + size]
        made[0], named[0] = position[entries[c]], 0
        made, named = made[1:], named[1:]
        for t in range(len(made)):
            made[t], named[t] = events[t], components[t]
        n_items += size
        n += 1
        c += 1
        first_item[n] = n_items
    return c"""

# Sets the states of all events after the one at depth d. The next component begins as soon as it can.
_GO_ON = """def go_on(d, path_state, nexts TABLES):
    s = path_state[d]
    for t in range(d, 0, -1):
        s = FIRST_STATE[COMPONENT[s] + 1] if (nexts[t] >> s) & 1 else s + 1 - ((LOOPS >> s) & 1)
        path_state[t - 1] = s"""

# Finds the next way through the states: the last event that began a component, and could have stayed in the
# one before, now stays. Returns its depth + 1, or 0 when no other way exists.
_OTHER_WAY = """def other_way(d, path_state, stays, nexts TABLES):
    for t in range(1, d + 1):
        s = path_state[t]
        if (stays[t] & nexts[t]) >> s & 1 and COMPONENT[path_state[t - 1]] > COMPONENT[s]:
            path_state[t - 1] = s + 1 - ((LOOPS >> s) & 1)
            return t
    return 0"""

_WRITE_COMPONENTS = """def write_components(low, high, path_state, path_component TABLES):
    back = len(path_component) - 1
    for t in range(low, high + 1):
        path_component[back - t] = COMPONENT[path_state[t]]"""
