"""State graph → Python source of the kernels along its paths: the events that take part, and all matches."""

from __future__ import annotations

from collections.abc import Mapping

from cepkit.compile.counting import ConditionWriter
from cepkit.compile.sequence_program import SequenceProgram
from cepkit.compile.shared.term_writing import decorator, module_header
from cepkit.compile.state_graph import Link, StateGraph
from cepkit.events import LIST

# State graph → the parts that kernels along its paths share, and which events can be part of a match.

# These kernels read *entries*: events that a state accepts, by ascending place. If the states form a line,
# each state has its own entries. Otherwise all states share one list, and a mask says which states an event
# is in. A table by state and entry is one array: entry i of state s has the cell ``offset[s] + i``.
#
# All entries share the same arrays of columns, so that links with equal code share a compiled function.

READ, INT1, INT2, INT3 = "read_only(T.int64)", "I1", "I2", 'T.Array(T.int64, 3, "C")'
SHORT1 = 'T.Array(T.int16, 1, "C")'


class PathModuleWriter:
    """The form of the modules of kernels that follow paths. VALUES and TABLES stand for arguments of all."""

    values: str
    value_types: list[str]
    graph_arguments = ""  # arguments of functions that read no conditions
    is_line = True
    n_states: int | None = None  # None: an argument
    has_user_functions = False

    def path_module(self, helpers: list[list[str]], *kernels: tuple[str, list[str]]) -> str:
        """Return a module with tables of the graph, helper functions, and kernels with their types."""
        lines = [*self.first_lines(), "", ""]
        # Only kernels call helpers. Without the wrappers for Python they compile faster.
        options = 'nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True'
        njit = f"@njit({options}{'' if self.has_user_functions else ', _nrt=False'})"
        for helper in helpers:
            lines += [*self.decorated([njit]), *helper, "", ""]
        for text, types in kernels:
            lines += self.decorated(decorator(types, user_functions=self.has_user_functions))
            lines += [*text.splitlines(), "", ""]
        return "\n".join(lines).replace("VALUES", self.values).replace(" TABLES", self.graph_arguments)

    def first_lines(self) -> list[str]:
        """Return the lines before the functions."""
        return module_header().splitlines()

    def decorated(self, lines: list[str]) -> list[str]:
        """Return decorators; none in plain Python."""
        return lines


def tables_of(graph: StateGraph) -> tuple[dict[str, list[int]], dict[str, int]]:
    """Return the arrays and numbers that define the states and edges of a graph, by their names."""
    states, edges = graph.states, sorted(graph.edges, key=lambda edge: edge.target)
    n, n_components = len(states), states[-1].component + 1
    component = [state.component for state in states]
    follows, loops, leaves = 0, 0, [0] * n_components  # states as bits
    for edge in edges:
        if edge.source == edge.target:
            loops |= 1 << edge.source
        elif component[edge.source] == component[edge.target]:
            follows |= 1 << edge.source
        else:
            leaves[component[edge.source]] |= 1 << edge.source
    arrays = {
        "COMPONENT": component,
        "FIRST_STATE": [component.index(c) for c in range(n_components)],
        "LEAVES": leaves,  # by component, the states from which the next one can begin
        "SOURCE": [edge.source for edge in edges],
        "LINK": [edge.link for edge in edges],
        "FIRST_EDGE": [sum(edge.target < s for edge in edges) for s in range(n + 1)],
        "GOES_ON": [int(any(edge.source == s for edge in edges)) for s in range(n)],
    }
    return arrays, {"N": n, "N_COMPONENTS": n_components, "FOLLOWS": follows, "LOOPS": loops}


class GraphPathWriter(ConditionWriter, PathModuleWriter):
    """Writes modules of kernels that follow the paths of a graph; for parameters see `ConditionWriter`."""

    # ``values`` are the arguments that conditions read: places of the entries, limits by absent events,
    # columns, constants and tables.

    def __init__(self, program: SequenceProgram, graph: StateGraph, dtypes: Mapping[str, str]):
        super().__init__(program, graph, dtypes)
        self.links = graph.links
        self.nears = [k for k, link in enumerate(self.links) if link.has_near]
        self.fars = [k for k, link in enumerate(self.links) if link.has_far]
        names = ["place", *(f"near{k}" for k in self.nears), *(f"far{k}" for k in self.fars)]
        self.values = ", ".join([*names, *self.arguments()])
        self.value_types = [READ] * len(names) + self.argument_types()
        self.is_line, self.n_states = graph.is_line, len(graph.states)
        self.has_user_functions = bool(self.functions)

    # --- modules

    def first_lines(self) -> list[str]:
        arrays, numbers = tables_of(self.graph)
        lines = [f"{name} = np.array({values}, np.int64)" for name, values in arrays.items()]
        return [*self.head(), *lines, f"{', '.join(numbers)} = {', '.join(map(str, numbers.values()))}"]

    def decorated(self, lines: list[str]) -> list[str]:
        return [] if self.python else lines

    # --- what holds between two events

    def link_lines(self, k: int, *, sliced: bool) -> tuple[list[str], str]:
        """Return the lines that load the values of the later entry ``i`` for link k, and the condition."""
        # The earlier entry is ``lo + j``, with j from 0 on, and below ``hi``. The lines may raise ``lo``.
        # With ``sliced``, the lines slice the arrays of the earlier entries, and conditions read them at j.
        # Otherwise conditions read whole arrays at the unsigned index ``g``.
        link, at = self.links[k], "j" if sliced else "g"
        earlier, later = link.leaves()
        number = {leaf: self.columns.index(leaf.column) for leaf in (*earlier, *later)}
        arrays = {leaf: f"c{number[leaf]}" for leaf in earlier}
        cut = [array for leaf, array in arrays.items() if leaf.kind != LIST]
        if sliced:
            arrays = {leaf: f"{c}, lo + j" if leaf.kind == LIST else c for leaf, c in arrays.items()}
        bounds = [(f"far{k}", ">=", "place[i]")] if link.has_far else []
        lines, condition = self.condition(
            link.terms, vectors=arrays, scalars={leaf: f"c{number[leaf]}[i]" for leaf in later},
            bounds=bounds, at=at,
        )  # fmt: skip
        if link.has_near and sliced:
            lines.append(f"lo = min(hi, max(lo, near{k}[i]))")
        elif link.has_near:
            condition = self._after(f"(lo + j >= near{k}[i])", link, condition)
        if sliced:
            cut += [array for array, _, _ in bounds]
            lines += [f"{array} = {array}[lo:hi]" for array in dict.fromkeys(cut)]
        return lines, condition

    def _after(self, cheap: str, link: Link, condition: str) -> str:
        """Return the code of both conditions. It calls a user's function only if the cheap one holds."""
        is_costly = any(map(self.is_costly, link.terms)) or " and " in condition
        return f"{cheap} {'and' if is_costly else '&'} ({condition})"

    def over_links(self, name: str, arguments: str, body: str, *, alive: str = "") -> list[list[str]]:
        """Return a function ``name(k, i, lo, hi, …)`` for link k, with the functions that it calls."""
        # Links with equal code share a function. ``body`` contains LOADS, and CONDITION as an expression.
        # ``alive`` is a further condition for links after the first event of a match.
        rest = f"{arguments}, VALUES"
        links_of_body: dict[tuple[str, ...], list[int]] = {}
        for k, link in enumerate(self.links):
            loads, condition = self.link_lines(k, sliced=True)
            if alive and (link.source > 0 or link.source == link.target):
                condition = self._after(alive, link, condition)
            lines = []
            for line in body.replace("CONDITION", condition).splitlines():
                lines += [f"    {load}" for load in loads] if line.strip() == "LOADS" else [line]
            links_of_body.setdefault(tuple(lines), []).append(k)
        if len(links_of_body) == 1:
            return [[f"def {name}(k, i, lo, hi, {rest}):", *body] for body in links_of_body]
        helpers, choose = [], [f"def {name}(k, i, lo, hi, {rest}):"]
        for number, (body, links) in enumerate(links_of_body.items()):
            helpers.append([f"def {name}{number}(i, lo, hi, {rest}):", *body])
            is_last = number == len(links_of_body) - 1
            choose += [] if is_last else [f"    if {' or '.join(f'k == {k}' for k in links)}:"]
            choose.append(f"{'    ' if is_last else '        '}return {name}{number}(i, lo, hi, {rest})")
        return [*helpers, choose]

    def finding(self) -> list[list[str]]:
        """Return ``sources`` and ``find``: the entries that can precede one, with their states as masks."""
        before, checks = [], []
        for k, link in enumerate(self.links):
            if link.is_free:
                continue
            loads, condition = self.link_lines(k, sliced=False)
            before += [f"    {load}" for load in loads]
            mask = sum(1 << s for s, state in enumerate(self.graph.states) if state.component == link.source)
            kind = "a" if link.source == link.target else "b"  # a: the same component, b: the one before
            if any(map(self.is_costly, link.terms)):
                checks.append(f"        if {kind} & {mask} and not ({condition}):")
                checks.append(f"            {kind} &= ~{mask}")
            else:  # without jumps
                checks.append(f"        {kind} &= -1 if {condition} else ~{mask}")
        if checks:
            checks.insert(0, "        g = np.uint64(lo + j)")
        return [SOURCES.splitlines(), finding_text(before, checks)]


def finding_text(before: list[str], checks: list[str]) -> list[str]:
    """Return ``find`` with lines before its loop, and lines in the loop that narrow the masks a and b."""
    text = _FIND.replace("        CHECKS", "\n".join(checks)).replace("    LOADS", "\n".join(before))
    return text.splitlines()


SOURCES = """def sources(states TABLES):
    stay = ((states >> 1) & FOLLOWS) | (states & LOOPS)
    goes = 0
    for c in range(1, N_COMPONENTS):
        if (states >> FIRST_STATE[c]) & 1:
            goes |= LEAVES[c - 1]
    return stay, goes"""

# Finds the entries that can precede entry i, with the states from which i continues their component (a) or
# begins the next one (b).
_FIND = """def find(i, lo, hi, w, stay, goes, offset, latest, VALUES, found):
    alive = found[1, : hi - lo]
    for j in range(len(alive)):
        alive[j] = 0
    every, s = stay | goes, 0
    while every:
        if every & 1:
            row, bit = latest[offset[s] + lo : offset[s] + hi], 1 << s
            for j in range(len(alive)):
                alive[j] |= bit if row[j] >= w else 0
        every >>= 1
        s += 1
    entries, stays, nexts, n = found[0], found[1], found[2], np.uint64(0)
    LOADS
    for j in range(len(alive)):
        a, b = alive[j] & stay, alive[j] & goes
        CHECKS
        entries[n], stays[n], nexts[n] = lo + j, a, b
        n += np.uint64(1) if (a | b) != 0 else np.uint64(0)
    return np.int64(n)"""


# State graph → Python source of the kernels that say which events can be part of a match.


def write_starts(writer: PathModuleWriter) -> str:
    """Write the kernel that finds the latest starts of the paths that end at each event."""
    # The kernel looks at preceding entries from the nearest on, and stops where none can have a later start
    # than the latest found.
    helpers = writer.over_links("best_of", "cell, latest", _BEST)
    types = ["T.int64"] * 4 + [READ] * 4 + writer.value_types + [INT1]
    return writer.path_module(helpers, (_STARTS, types))


def write_reach_back(writer: PathModuleWriter) -> str:
    """Write the kernel that goes back from the ends of matches to all events that they can contain."""
    # An entry is part of a match when ``latest >= needed``: conditions link neighbours only, so the latest
    # start and the earliest end belong to one match. Others are skipped.
    helpers = writer.over_links("bring", "w, cell, needed", _BRING)
    types = ["T.int64"] * 4 + [READ] * 4 + writer.value_types + [INT1]
    return writer.path_module(helpers, (_BACK, types))


_BEST = """    LOADS
    if lo >= hi:
        return -1
    v = latest[cell + lo : cell + hi]
    best = -1
    for j in range(len(v)):
        best = max(best, v[j] if CONDITION else -1)
    return best"""

_STARTS = """def starts(s, begin, end, work_limit, offset, low, high, window_start, VALUES, latest):
    work = 0
    for i in range(begin, end):
        if latest[offset[s] + i] < 0:
            continue
        best = -1
        for edge in range(FIRST_EDGE[s], FIRST_EDGE[s + 1]):
            lo, hi = low[i], high[i]
            while lo < hi and place[hi - 1] > best:
                near = max(lo, hi - 64)
                best = max(best, best_of(LINK[edge], i, near, hi, offset[SOURCE[edge]], latest, VALUES))
                work += 64
                hi = near
        latest[offset[s] + i] = best if best >= window_start[i] else -1
        if work > work_limit:
            return i + 1
    return end
"""

_BRING = """    LOADS
    if lo < hi:
        v = needed[cell + lo : cell + hi]
        for j in range(len(v)):
            v[j] = min(v[j], w) if CONDITION else v[j]
    return 0"""

_BACK = """def back(s, begin, end, work_limit, offset, low, high, latest, VALUES, needed):
    work = 0
    for i in range(end - 1, begin - 1, -1):
        w = needed[offset[s] + i]
        if latest[offset[s] + i] < w:
            continue
        for edge in range(FIRST_EDGE[s], FIRST_EDGE[s + 1]):
            bring(LINK[edge], i, low[i], high[i], w, offset[SOURCE[edge]], needed, VALUES)
            work += high[i] - low[i]
        if work > work_limit:
            return i
    return begin
"""


# State graph → Python source of the kernels that walk its matches backwards, in order, without dead ends.

# Places in the reports of the walks. Then the reasons why a walk stopped early, besides the limit on work.
END, DEPTH, PHASE, N_MATCHES, N_ITEMS, WORK, DONE, SEEK, REASON = range(9)
DEEPER, LONGER, FULL = 1, 2, 3


def write_line_walk(writer: PathModuleWriter) -> str:
    """Return the source of the kernel that writes matches of a sequence without branches."""
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
    """Return the source of the kernel that writes matches of a pattern with branches."""
    # The walk visits a row of events once, with the set of states in which each event can be. If a row has
    # several ways through the states, each way is a match: those whose components end earlier come first.
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
