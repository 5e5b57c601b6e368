"""Chain → what its generated kernels share: the condition of a link between two events, latest starts.

Kernels know *entries*: events that a state accepts, by rising place. Where the states form a line, each has
entries of its own; otherwise all states share one list, and the set of states of an event is a mask. A table
by state and entry is one array: entry i of state s has the cell ``offset[s] + i``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cepkit.compile.chain import Chain, EdgeAbsence
from cepkit.compile.regex.matching_source import KernelSource, decorator, module_header
from cepkit.compile.sequences.path_writing import PathWriter
from cepkit.compile.sequences.program import SequenceProgram
from cepkit.compile.shared.bound_query import Inputs
from cepkit.compile.shared.terms import Term
from cepkit.events import LIST

READ, INT1, INT2, SHORT1 = "read_only(T.int64)", "I1", "I2", 'T.Array(T.int16, 1, "C")'


@dataclass(frozen=True, slots=True)
class Link:
    """What must hold between an event of component ``source`` and the next one, of component ``target``.

    All edges of a chain between states of the two components are this one.
    """

    source: int
    target: int
    terms: tuple[Term, ...]
    earlier: frozenset[Term]
    absences: tuple[EdgeAbsence, ...]

    @property
    def has_near(self) -> bool:
        """Whether an absence sets the later event a first place for the earlier one."""
        return any(absence.side != "earlier" for absence in self.absences)

    @property
    def has_far(self) -> bool:
        """Whether an absence sets the earlier event a last place for the later one."""
        return any(absence.side == "earlier" for absence in self.absences)

    @property
    def is_free(self) -> bool:
        """Whether any two events will do."""
        return not (self.terms or self.absences)


def links_of(chain: Chain) -> tuple[Link, ...]:
    """Return the links of a chain, in the order of its edges."""
    found: dict[tuple[int, int], Link] = {}
    for edge in chain.edges:
        pair = chain.states[edge.source].component, chain.states[edge.target].component
        found.setdefault(pair, Link(*pair, edge.terms, edge.earlier, edge.absences))
    return tuple(found.values())


def is_line(chain: Chain) -> bool:
    """Whether matches take the states one after the other, each once."""
    last = len(chain.states) - 1
    pairs = [(edge.source, edge.target) for edge in chain.edges]
    finals = [s for s, state in enumerate(chain.states) if state.is_final]
    return last > 0 and finals == [last] and pairs == [(s, s + 1) for s in range(last)]


class ChainWriter:
    """Writes modules of kernels for one chain.

    Parameters
    ----------
    program : SequenceProgram
        For its constants and functions.
    chain : Chain
        What is walked.
    dtypes : mapping of str to str
        numpy dtype of every column of the program.
    """

    def __init__(self, program: SequenceProgram, chain: Chain, dtypes: Mapping[str, str]):
        self.program, self.chain, self.links = program, chain, links_of(chain)
        self.python = not program.compiled
        # What conditions on single events need besides would make kernels of equal chains differ.
        terms = [term for link in self.links for term in link.terms]
        terms += [term for link in self.links for absence in link.absences for term in absence.terms]
        used = {leaf.data[-1] for term in terms for leaf in term.walk() if leaf.op == "element"}
        columns = {name: dtype for name, dtype in dtypes.items() if name in used}
        self.writer, self._whole = (
            PathWriter(every, columns, tuple(program.functions), is_group=(), python=self.python)
            for every in (terms, program.terms())
        )
        self.nears = [k for k, link in enumerate(self.links) if link.has_near]
        self.fars = [k for k, link in enumerate(self.links) if link.has_far]
        names = ["place", *(f"near{k}" for k in self.nears), *(f"far{k}" for k in self.fars)]
        self.values = ", ".join(names + self.writer.arguments())
        self.value_types = [READ] * len(names) + self.writer.argument_types()

    def arguments(self, inputs: Inputs, rows: np.ndarray | slice = slice(None)) -> list:
        """Return the columns at these rows, constants and tables that the kernels get, in their order."""
        own, whole = self.writer, self._whole
        return [
            *(inputs.columns[name][rows] for name in own.columns),
            *(
                value
                for key, value in zip(whole.constants, inputs.constants, strict=True)
                if key in own.constants
            ),
            *(table for key, table in zip(whole.tables, inputs.tables, strict=True) if key in own.tables),
            *(texts for key, texts in zip(whole.texts, inputs.texts, strict=True) if key in own.texts),
        ]

    # --- modules

    def module(self, helpers: list[list[str]], *kernels: tuple[str, list[str]]) -> KernelSource:
        """Return a module: tables of the chain's shape, helping functions, and kernels with their types."""
        lines = [*module_header().splitlines(), *self.writer.similarities, *self.tables, "", ""]
        for helper in helpers:
            lines += [*([] if self.python else [_helper(self.program)]), *helper, "", ""]
        for text, types in kernels:
            if not self.python:
                lines += decorator(types, user_functions=bool(self.program.functions))
            lines += [*text.replace("VALUES", self.values).splitlines(), "", ""]
        return KernelSource("\n".join(lines), ())

    @cached_property
    def tables(self) -> list[str]:
        """The lines that say which states there are and what precedes what."""
        states, edges = self.chain.states, sorted(self.chain.edges, key=lambda edge: edge.target)
        n, n_components = len(states), states[-1].component + 1
        number = {(link.source, link.target): k for k, link in enumerate(self.links)}
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
            "LINK": [number[component[edge.source], component[edge.target]] for edge in edges],
            "FIRST_EDGE": [sum(edge.target < s for edge in edges) for s in range(n + 1)],
            "GOES_ON": [int(any(edge.source == s for edge in edges)) for s in range(n)],
        }
        lines = [f"{name} = np.array({values}, np.int64)" for name, values in arrays.items()]
        return [*lines, f"N, N_COMPONENTS, FOLLOWS, LOOPS = {n}, {n_components}, {follows}, {loops}"]

    # --- what holds between two events

    def link_lines(self, k: int, *, lists: bool) -> tuple[list[str], str]:
        """Return the lines that load what link k needs of the later event ``i``, and the condition.

        The earlier event is number ``j`` of the entries from ``lo`` to ``hi``. With ``lists`` arrays are cut.
        """
        link, writer = self.links[k], self.writer
        leaves = [leaf for term in link.terms for leaf in term.walk() if leaf.op == "element"]
        lines, names, cut = [], {}, []
        for number, leaf in enumerate(dict.fromkeys(leaves)):
            column = leaf.data[-1]
            if leaf.kind == LIST:  # by its place among all entries
                names[leaf] = ("lo + j" if lists else "g") if leaf in link.earlier else "i"
            elif leaf in link.earlier:
                names[leaf] = writer.load(column, "j" if lists else "g")
                cut.append(f"c{writer.columns.index(column)}")
            else:
                names[leaf] = f"x{number}" if lists else f"x{k}_{number}"
                lines.append(f"{names[leaf]} = {writer.load(column, 'i')}")
        conditions = []
        if link.has_far:
            lines.append("p = place[i]")
            cut.append(f"far{k}")
            conditions.append(f"(far{k}[{'j' if lists else 'g'}] >= p)")
        if link.has_near:
            if lists:
                lines.append(f"lo = min(hi, max(lo, near{k}[i]))")
            else:
                conditions.append(f"(lo + j >= near{k}[i])")
        if lists:
            lines += [f"{array} = {array}[lo:hi]" for array in dict.fromkeys(cut)]
        writer.names = names
        costly = any(writer.is_costly(term) for term in link.terms)
        conditions += [writer.true(term) for term in link.terms]
        return lines, (" and " if costly else " & ").join(conditions) or "True"

    def over_links(self, name: str, arguments: str, body: str, *, alive: str = "") -> list[list[str]]:
        """Return functions ``name0(i, lo, hi, …)`` … for the links, and ``name(k, i, …)`` that chooses.

        Links with equal code share one, since each is compiled by itself; of a single one none is chosen.

        ``body`` has LOADS, and CONDITION as an expression; ``alive`` is a further condition, for links whose
        earlier event need not be the first of a match.
        """
        rest = f"{arguments}, {self.values}"
        links_of_body: dict[tuple[str, ...], list[int]] = {}
        for k, link in enumerate(self.links):
            loads, condition = self.link_lines(k, lists=True)
            if alive and (link.source > 0 or link.source == link.target):
                costly = any(self.writer.is_costly(term) for term in link.terms)
                sign = "and" if costly or " and " in condition else "&"
                condition = f"{alive} {sign} ({condition})"
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
            loads, condition = self.link_lines(k, lists=False)
            before += [f"    {load}" for load in loads]
            mask = sum(1 << s for s, state in enumerate(self.chain.states) if state.component == link.source)
            kind = "a" if link.source == link.target else "b"
            if any(self.writer.is_costly(term) for term in link.terms):
                checks.append(f"        if {kind} & {mask} and not ({condition}):")
                checks.append(f"            {kind} &= ~{mask}")
            else:  # without jumps
                checks.append(f"        {kind} &= -1 if {condition} else ~{mask}")
        if checks:
            checks.insert(0, "        g = np.uint64(lo + j)")
        text = _FIND.replace("VALUES", self.values)
        text = text.replace("        CHECKS", "\n".join(checks)).replace("    LOADS", "\n".join(before))
        return [_SOURCES.splitlines(), text.splitlines()]


def _helper(program: SequenceProgram) -> str:
    # Only kernels call these: without the wrappers for Python they compile faster.
    options = 'nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True'
    return f"@njit({options}{'' if program.functions else ', _nrt=False'})"


def write_max_starts(writer: ChainWriter) -> KernelSource:
    """Write the kernel of the forward pass.

    Returns
    -------
    KernelSource
        ``starts(s, begin, end, work_limit, offset, low, high, window_start, *values, latest)`` replaces what
        is not negative in ``latest``, for entries ``begin`` to ``end`` of state s, by the latest place at
        which a path that ends there can begin, -1 where none does; returns the entry at which it stopped.

    Notes
    -----
    Time O(entries x window) at worst; what can precede an entry is looked at from the nearest on, and nothing
    that is not behind the latest start found can be better.
    """
    helpers = writer.over_links("best_of", "cell, latest", _BEST)
    types = ["T.int64"] * 4 + [READ] * 4 + writer.value_types + [INT1]
    return writer.module(helpers, (_STARTS, types))


def write_absence(writer: ChainWriter, k: int, number: int) -> KernelSource:
    """Write the kernel that finds, for an event of link k, the nearest event of one of its absences.

    Returns
    -------
    KernelSource
        ``nearest(begin, work_limit, own, absent, lo, hi, *columns, *constants, *tables, out)`` looks from
        place ``own[m]`` at ``absent[lo[m] : hi[m]]``, from the nearest on, and brings ``out[own[m]]`` there
        when that is a narrower limit; returns the m at which it stopped.
    """
    absence = writer.links[k].absences[number]
    leaves = [leaf for term in absence.terms for leaf in term.walk() if leaf.op == "element"]
    names = {
        leaf: writer.writer.load(leaf.data[-1], "z" if leaf.data[0] == absence.variable else "x")
        for leaf in leaves
    }
    writer.writer.names = names
    condition = " and ".join(writer.writer.true(term) for term in absence.terms) or "True"
    backwards = absence.side != "earlier"
    text = _NEAREST.replace("CONDITION", condition)
    text = text.replace("RANGE", "range(hi[m] - 1, lo[m] - 1, -1)" if backwards else "range(lo[m], hi[m])")
    text = text.replace("LIMIT", "max" if backwards else "min")
    values = ", ".join(writer.writer.arguments())
    text = text.replace("VALUES", f"{values}, " if values else "")
    types = ["T.int64", "T.int64", *[READ] * 4, *writer.writer.argument_types(), INT1]
    return writer.module([], (text, types))


_SOURCES = """def sources(states):
    stay = ((states >> 1) & FOLLOWS) | (states & LOOPS)
    goes = 0
    for c in range(1, N_COMPONENTS):
        if (states >> FIRST_STATE[c]) & 1:
            goes |= LEAVES[c - 1]
    return stay, goes"""

# The entries before entry i, with the states in which it can follow them in the same component (a) and in the
# next one (b).
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

_NEAREST = """def nearest(begin, work_limit, own, absent, lo, hi, VALUESout):
    work = 0
    for m in range(begin, len(own)):
        x = own[m]
        for n in RANGE:
            z = absent[n]
            work += 1
            if CONDITION:
                out[x] = LIMIT(out[x], z)
                break
        if work > work_limit:
            return m + 1
    return len(own)
"""
