"""State graph → the parts that kernels along its paths share, and which events can be part of a match."""

from __future__ import annotations

from collections.abc import Mapping

from cepkit.compile.counting.conditions import ConditionWriter
from cepkit.compile.counting.state_graph import Link, StateGraph
from cepkit.compile.sequences.program import SequenceProgram
from cepkit.compile.shared.term_writing import decorator, module_header
from cepkit.events import LIST

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
    follows, loops, leaves = 0, 0, [0] * n_components
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
    """Writes modules of kernels that follow the paths of one graph; see `ConditionWriter` for the parameters.

    ``values`` are the arguments that conditions read: places of the entries, limits by absent events,
    columns, constants and tables.

    """

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
        """Return the lines before the functions, with the tables of the graph."""
        arrays, numbers = tables_of(self.graph)
        lines = [f"{name} = np.array({values}, np.int64)" for name, values in arrays.items()]
        return [*self.head(), *lines, f"{', '.join(numbers)} = {', '.join(map(str, numbers.values()))}"]

    def decorated(self, lines: list[str]) -> list[str]:
        """Return decorators; none in plain Python."""
        return [] if self.python else lines

    # --- what holds between two events

    def link_lines(self, k: int, *, sliced: bool) -> tuple[list[str], str]:
        """Return the lines that load the values of the later entry ``i`` for link k, and the condition.

        The earlier entry is ``lo + j``, with j from 0 on, and below ``hi``. The lines may raise ``lo``. With
        ``sliced``, the lines slice the arrays of the earlier entries, and conditions read them at j.
        Otherwise conditions read whole arrays at the unsigned index ``g``.

        """
        link, at = self.links[k], "j" if sliced else "g"
        earlier, later = link.leaves()
        number = {leaf: self.columns.index(leaf.data[-1]) for leaf in (*earlier, *later)}
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
        """Return a function ``name(k, i, lo, hi, …)`` for link k, with the functions that it calls.

        Links with equal code share a function. ``body`` contains LOADS, and CONDITION as an expression.
        ``alive`` is a further condition for links after the first event of a match.

        """
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
            kind = "a" if link.source == link.target else "b"
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
    """Write the kernel that finds the latest starts of the paths that end at each event.

    The kernel looks at preceding entries from the nearest on, and stops where none can have a later start
    than the latest found.
    """
    helpers = writer.over_links("best_of", "cell, latest", _BEST)
    types = ["T.int64"] * 4 + [READ] * 4 + writer.value_types + [INT1]
    return writer.path_module(helpers, (_STARTS, types))


def write_reach_back(writer: PathModuleWriter) -> str:
    """Write the kernel that goes back from the ends of matches to all events that they can contain.

    An entry is part of a match when ``latest >= needed``: conditions link neighbours only, so the latest
    start and the earliest end belong to one match. Others are skipped.
    """
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
