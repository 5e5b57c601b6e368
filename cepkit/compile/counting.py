"""State graph → Python source of conditions between events, and of the kernels that count matches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from cepkit.compile.sequence_program import SequenceProgram
from cepkit.compile.shared.bound_query import Inputs
from cepkit.compile.shared.term_writing import VECTOR, TermWriter, decorator, module_header
from cepkit.compile.shared.terms import Term
from cepkit.compile.state_graph import LinkAbsence, StateGraph, elements_of
from cepkit.events import LIST
from cepkit.values import dataclass

# State graph → code of the conditions between two events, and of the nearest event that a link forbids.

Key = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class CountingKernel:
    """The text of a module, the name of its function, and the keys of the arrays that the function reads."""

    # The arrays come in the order of the keys, before the constants. Scratch arrays have others. A chain has:
    # - ``("members", pool)``: the places that pass the pool's test, int64, ascending
    # - ``("column", pool, i)``: the values of column i at these places
    # - ``("ends", source pool, target pool)``: for each member of the target pool, how many of the source
    #   pool may precede it
    # - ``("begins", link)``: for each member of the target pool, the first of the source pool that absences
    #   and gap allow
    # - ``("limit", link)``: for each member of the source pool, the last place for the next event
    # An anchored graph has:
    # - ``("first",)``, ``("until",)``: the entries in the window of each anchor
    # - ``("near",)``: for each anchor, the first entry that is too late to be the next event
    # - ``("mask",)``: for each entry, the states that accept it
    # - ``("later",)``, ``("gap",)``: for each entry, the first one that may follow it, and that is too late
    # - ``("anchor", i)``, ``("entry", i)``: the values of column i at the anchors and at the entries
    # - ``("reach",)``: for each anchor and state, the first entry that is in this state on a path
    # - ``("weight",)``: the weight of each entry, or of each anchor

    text: str
    name: str
    arrays: tuple[Key, ...]


class ConditionWriter(TermWriter):
    """Writes the code of the conditions between two events; no other module writes conditions of links."""

    def __init__(self, program: SequenceProgram, graph: StateGraph, dtypes: Mapping[str, str]):
        # Conditions on single events are left out: graphs that differ in these alone share their kernels.
        terms = graph.terms
        functions, python = tuple(program.functions), not program.compiled
        used = {leaf.column for leaf in elements_of(terms)}
        columns = {name: dtype for name, dtype in dtypes.items() if name in used}
        super().__init__(terms, columns, functions, python=python)
        self.program, self.graph = program, graph
        self.names: dict[Term, str] = {}
        self.found: dict[Key, str] = {}  # the arrays that the code reads, and their numba types
        self._whole = TermWriter(program.terms(), {}, functions, python=python)

    def constants_of(self, inputs: Inputs) -> list:
        """Return the constants, tables and texts that kernels get, in their order."""
        whole = self._whole
        pairs = (
            (whole.constants, inputs.constants, self.constants),
            (whole.tables, inputs.tables, self.tables),
            (whole.texts, inputs.texts, self.texts),
        )
        return [
            value
            for keys, values, used in pairs
            for key, value in zip(keys, values, strict=True)
            if key in used
        ]

    def leaf(self, term: Term) -> str:
        return self.names[term]

    def similarity(self, term: Term) -> str:
        """Return the code of a function of two arrays, which appear as ``column, row``."""
        return f"{term.data}({', '.join(map(self.leaf, term.args))})"

    def wide(self, name: str, text: str) -> str:
        """Return the code of a value of column ``name``, converted to the type in which terms compute."""
        dtype = self.dtypes[name]
        if dtype in ("int64", "float64", "object"):
            return text
        return f"np.{'float64' if dtype == 'float32' else 'int64'}({text})"

    # --- arrays

    def array(self, *key: str | int, dtype: str = "int64") -> str:
        """Return the name of the array of a key, and make the array an argument of the kernel."""
        item, n_axes = ("float64", 2) if dtype == VECTOR else (dtype, 1)
        self.found[key] = f'T.Array(T.{item}, {n_axes}, "C")'
        return array_name(key)

    def column(self, pool: int, name: str) -> str:
        """Return the name of the array of a column at the members of a pool."""
        return self.array("column", pool, self.columns.index(name), dtype=self.dtypes[name])

    # --- conditions

    def condition(
        self, terms: tuple[Term, ...], *, vectors: Mapping[Term, str], scalars: Mapping[Term, str],
        bounds: Iterable[tuple[str, str, str]] = (), at: str = "r",
    ) -> tuple[list[str], str]:  # fmt: skip
        """Return the lines before a loop over ``at``, and the code that is true where all terms hold."""
        lines = []
        for leaf, array in vectors.items():
            if leaf.kind == LIST:
                self.names[leaf] = array if "," in array else f"{array}, {at}"
            else:
                self.names[leaf] = self.wide(leaf.column, f"{array}[{at}]")
        for leaf, value in scalars.items():
            column = leaf.column
            if leaf.kind == LIST:
                self.names[leaf] = value.replace("[", ", ").removesuffix("]")
                continue
            self.names[leaf] = f"y{self.columns.index(column)}"
            lines.append(f"{self.names[leaf]} = {self.wide(column, value)}")
        parts = []
        for array, sign, value in bounds:
            lines.append(f"bound{len(parts)} = {value}")
            parts.append(f"{array}[{at}] {sign} bound{len(parts)}")
        parts = dict.fromkeys([*parts, *map(self.true, sorted(terms, key=self.is_costly))])
        # The code has no jumps, except to call functions of the user only where they decide.
        sign = " and " if any(map(self.is_costly, terms)) else " & "
        return list(dict.fromkeys(lines)), sign.join(f"({part})" for part in parts) or "True"

    # --- modules

    def head(self) -> list[str]:
        """Return the first lines of every module."""
        return [*module_header().splitlines(), *self.helpers]

    def compiled(self, types: list[str], options: str = "") -> list[str]:
        """Return the decorator that compiles the next function for these types; none in plain Python."""
        if self.python:
            return []
        (line,) = decorator(types, user_functions=bool(self.functions))
        return [line.replace("nogil=True", f"nogil=True{options}")]

    def module(
        self, name: str, arguments: list[tuple[str, str]], body: list[str], outputs: list[tuple[str, str]], *,
        reorders_sums: bool = False, constants: Iterable[str] = (),
    ) -> CountingKernel:  # fmt: skip
        """Return a module with one function of ``arguments``, the arrays, the constants and ``outputs``."""
        keys = tuple(self.found)
        n = len(self.columns)  # these come as arrays of pools
        types = [*(t for _, t in arguments), *self.found.values(), *self.argument_types()[n:]]
        names = [*(name for name, _ in arguments), *map(array_name, keys), *self.arguments()[n:]]
        lines = [*self.head(), 'U1 = T.Array(T.uint64, 1, "C")', *constants, "", ""]
        options = ', fastmath={"reassoc"}' if reorders_sums else ""
        lines += self.compiled([*types, *(t for _, t in outputs)], options)
        lines += [f"def {name}({', '.join([*names, *(name for name, _ in outputs)])}):", *indented(body)]
        return CountingKernel("\n".join(lines) + "\n", name, keys)


def array_name(key: Key) -> str:
    return "".join([str(key[0]), "_".join(map(str, key[1:]))])


def over(low: str | int, high: str) -> str:
    """Return the head of a loop over r. Unsigned numbers let it become vector instructions."""
    return f"for r in range(np.uint64({low}), np.uint64({high})):"


def indented(lines: Iterable[str], by: int = 1) -> list[str]:
    """Return the lines with ``by`` more levels of indentation."""
    return ["    " * by + line for line in lines]


# Absences → Python source of the kernel that finds the nearest event that a link forbids.


def write_absence(writer: ConditionWriter, link: int, absence: LinkAbsence) -> CountingKernel:
    """Write the kernel that finds where an absence with conditions on one neighbour forbids a link."""
    # ``first[a]`` to ``stop[a]`` are the absent events that may forbid something to neighbour a. The kernel
    # tests them in blocks of 64, up to the first block with a hit, from the side of the neighbour.
    graph, graph_link = writer.graph, writer.graph.links[link]
    ahead = absence.side == "earlier"
    pool = graph.pool_of_component(graph_link.source if ahead else graph_link.target)
    absent = graph.tests.index(absence.test)
    every = elements_of(absence.terms)
    absent_leaves = [leaf for leaf in every if leaf.data[0] == absence.variable]
    lines, test = writer.condition(
        absence.terms,
        vectors={leaf: writer.column(absent, leaf.column) for leaf in absent_leaves},
        scalars={
            leaf: f"{writer.column(pool, leaf.column)}[a]" for leaf in every if leaf not in absent_leaves
        },
    )
    body = [
        "work = 0",
        "for a in range(begin, len(out)):",
        "    low, high = first[a], stop[a]",
        f"    found = {1 << 62 if ahead else 0}",
        *indented(lines),
        "    while low < high:",
        f"        {'b, c = low, min(high, low + 64)' if ahead else 'b, c = max(low, high - 64), high'}",
        "        some = 0",
        f"        {over('b', 'c')}",
        f"            some |= 1 if {test} else 0",
        "        work += c - b",
        "        if some:",
        f"            for r in range({'b, c' if ahead else 'c - 1, b - 1, -1'}):",
        f"                if {test}:",
        f"                    found = {writer.array('members', absent)}[r]",
        "                    break",
        "            break",
        f"        {'low = c' if ahead else 'high = b'}",
        "    out[a] = found",
        "    if work > work_limit:",
        "        return a + 1",
        "return len(out)",
    ]
    arguments = [("begin", "T.int64"), ("work_limit", "T.int64")]
    return writer.module("nearest", arguments, body, [("first", "I1"), ("stop", "I1"), ("out", "I1")])


# State graph → Python source of the kernels that count matches by their last event, without enumeration.

# Arithmetic of counts: modulo 2^64, modulo an argument of the kernel, or as floats. The floats are upper
# bounds, since they may count windows that are a little too wide.
WRAPPING, MODULAR, AT_LEAST = "wrapping", "modular", "at least"
_BLOCK = 64


def write_counting(
    program: SequenceProgram, graph: StateGraph, dtypes: Mapping[str, str], arithmetic: str = WRAPPING, *,
    weighted: int | None = None,
) -> CountingKernel:  # fmt: skip
    """Write the kernel that counts the matches of a state graph by their last event."""
    # The kernel keeps, for each event and state, the number of partial matches that end there and begin
    # within the window. It reads this number at the members of the last pool. Before each member, it takes
    # back the partial matches that begin with an event that left the window since the previous member. Their
    # contribution is linear, so the kernel computes it along the edges from these first events alone and
    # subtracts it. Then it adds the events that came since.
    # Source: the counting of GRETA (Poppe et al., VLDB 2017) per event.
    # Differs: the paper does not take back partial matches.
    return _CountWriter(program, graph, dtypes, arithmetic, weighted).write()


class _CountWriter(ConditionWriter):
    """Writes ``count``; its arrays are those of `CountingKernel`, and further ones are scratch."""

    # A *member* of a pool is a place that passes its test. The names in the code:
    # - ``m``, ``p``: a member of the last pool, where matches end, and its place; ``s``: its window's begin
    # - ``low0``: the first member of pool 0 in the window; ``lost``: the first one after those that leave now
    # - ``high1``: the members of state 1 before this one have their numbers; ``newest``: the last place taken
    # - ``count1[x]``: the number of partial matches that end at member x of state 1; ``count_sum1[x]``: the
    #   sum of their weights; ``z``, ``zw``: both for the member at hand; ``n``, ``nw``: both for the matches
    # - ``ends0_1[x]``: how many members of pool 0 may precede member x of pool 1; ``a``, ``b``: from, until
    # - ``y0``: the value of column 0 at the other event; ``column1_0[r]``: at member r of pool 1
    # - ``change1[x]``: how many partial matches member x loses; ``n1``: how many members of state 1 changed
    # - ``where1``, ``value1``, ``changed1_0``: these members, their changes, and their values of column 0
    # - ``e2``: how many of them may precede the member at hand along edge 2
    # - ``base``: the place from which upper bounds are counted; nothing is taken back from them

    def __init__(self, program, graph, dtypes, arithmetic, weighted):
        super().__init__(program, graph, dtypes)
        self.arithmetic, self.weighted = arithmetic, weighted
        self.dtype = "float64" if arithmetic == AT_LEAST else "uint64"
        self.first = next(s for s, state in enumerate(graph.states) if state.is_first)
        self.last_pool = graph.pool(graph.finals[0])
        # States for which the kernel keeps the numbers of partial matches.
        self.stored = [s for s in range(len(graph.states)) if graph.out_of(s) and not self.is_one(s)]
        self.low_pools = tuple(dict.fromkeys(graph.pool(s) for s in (self.first, *self.stored)))

    def is_one(self, state: int) -> bool:
        """Return whether every partial match in the state begins there, so that each event has one."""
        return self.graph.states[state].is_first and not self.graph.into(state)

    def ends(self, edge: int) -> str:
        """Return the name of the array with the number of possible predecessors of each target."""
        graph_edge = self.graph.edges[edge]
        return self.array("ends", self.graph.pool(graph_edge.source), self.graph.pool(graph_edge.target))

    def begins(self, edge: int) -> str | None:
        """Return the array of the first source member that absences and gap allow; None without a limit."""
        is_limited = self.graph.has_gap or self.graph.link(edge).has_near
        return self.array("begins", self.graph.edges[edge].link) if is_limited else None

    def limit(self, edge: int) -> str | None:
        """Return the array of the last place that absences allow for a target; None without a limit."""
        has_far = self.graph.link(edge).has_far
        return self.array("limit", self.graph.edges[edge].link) if has_far else None

    # --- names

    def numbers_of(self, kind: str, state: int) -> str:
        return self.array(kind, state, dtype=self.dtype)

    def low(self, state: int) -> str:
        """Return the variable that holds the index of the first member of the state's pool in the window."""
        return f"low{self.graph.pool(state)}"

    def weigh(self, state: int) -> bool:
        """Return whether the weight of an event in the state counts."""
        return self.weighted is not None and self.graph.states[state].component == self.weighted

    def weight(self, state: int) -> str:
        return self.array("weight", self.graph.pool(state), dtype="uint64")

    def less(self, left: str, right: str) -> str:
        """Return the code of a difference of two counts."""
        if self.arithmetic != MODULAR:
            return f"{left} - {right}"
        return f"{left} - {right} if {left} >= {right} else {left} + (modulus - {right})"

    def reduce(self, *names: str) -> list[str]:
        return [f"{name} %= modulus" for name in names] if self.arithmetic == MODULAR else []

    @property
    def sums(self) -> list[str]:
        return ["z"] if self.weighted is None else ["z", "zw"]

    # --- the module

    def write(self) -> CountingKernel:
        """Return the kernel that counts the matches of the query, with the arrays it needs."""
        members = self.array("members", self.last_pool)
        pointers = [f"low{i}" for i in self.low_pools] + [f"high{s}" for s in self.stored]
        saved = ["base", "newest", *pointers]
        body = [f"{name} = at[{i}]" for i, name in enumerate(saved)]
        body += ["work, m = 0, begin", "while m < stop and work <= work_limit:"]
        inner = [f"p, s = {members}[m], window_start[m]"]
        inner += self._forgetting()
        inner += [line for s in self.stored for line in self._adding(s)]
        inner += self._reading()
        inner += ["newest = p", "m += 1"]
        body += indented(inner)
        body += [f"at[{i}] = {name}" for i, name in enumerate(saved)]
        body += ["return m"]
        arguments = [("begin", "T.int64"), ("stop", "T.int64"), ("work_limit", "T.int64")]
        arguments += [("modulus", "T.uint64"), ("at", "I1"), ("window_start", "I1")]
        array_type = "F1" if self.dtype == "float64" else "U1"
        outputs = [("out", array_type)] + ([] if self.weighted is None else [("out_sum", array_type)])
        return self.module(
            "count", arguments, body, outputs,
            reorders_sums=self.arithmetic == AT_LEAST,  # the order of a sum does not matter for a bound
            constants=[f"ZERO, ONE = np.{self.dtype}(0), np.{self.dtype}(1)"],
        )  # fmt: skip

    def _ahead(self, pointer: str, pool: int) -> list[str]:
        """Return the lines that move a pointer to the pool's first member in the window."""
        members = self.array("members", pool)
        return [f"while {pointer} < len({members}) and {members}[{pointer}] < s:", f"    {pointer} += 1"]

    def _forgetting(self) -> list[str]:
        """Return the lines that take back the partial matches that begin before the window's begin ``s``."""
        lows = [line for i in self.low_pools for line in self._ahead(f"low{i}", i)]
        afresh = [f"high{s} = {self.low(s)}" for s in self.stored]
        if self.arithmetic == AT_LEAST:
            # A bound may count too much, so nothing is taken back. Now and then, all is counted again.
            return ["if newest < s or 8 * (s - base) > p - s:", *indented([*lows, *afresh, "base = s"])]
        low = self.low(self.first)
        taking = [line for t in self.stored for line in self._taking_back(t)]
        lines = [f"lost = {low}", *self._ahead("lost", self.graph.pool(self.first))]
        if taking:
            lines += [f"if newest >= s and lost > {low}:", *indented(taking)]
        lines += lows
        return lines + (["if newest < s:", *indented(afresh)] if afresh else [])

    def _adding(self, t: int) -> list[str]:
        """Return the lines that count the partial matches in the new members of state ``t``."""
        members = self.array("members", self.graph.pool(t))
        final = self.graph.states[t].is_final
        lines = [f"while high{t} < len({members}) and {members}[high{t}] {'<=' if final else '<'} p:"]
        body = [f"x = high{t}", *self._into(t)]
        body += [f"{self.numbers_of('count', t)}[x] = z"]
        if self.weighted is not None:
            body += [f"{self.numbers_of('count_sum', t)}[x] = zw"]
        return [*lines, *indented([*body, f"high{t} += 1"])]

    def _reading(self) -> list[str]:
        """Return the lines that write the number of matches that end at member m of the last pool."""
        lines = ["n = ZERO", *(["nw = ZERO"] if self.weighted is not None else [])]
        for t in self.graph.finals:
            if t in self.stored:
                lines += [f"z = {self.numbers_of('count', t)}[m]"]
                if self.weighted is not None:
                    lines += [f"zw = {self.numbers_of('count_sum', t)}[m]"]
            else:
                lines += ["x = m", *self._into(t)]
            lines += ["n += z", *(["nw += zw"] if self.weighted is not None else [])]
        lines += [*self.reduce("n"), "out[m] = n"]
        if self.weighted is not None:
            lines += [*self.reduce("nw"), "out_sum[m] = nw"]
        return lines

    def _into(self, t: int) -> list[str]:
        """Return the lines that compute z, the number of partial matches in member x of state ``t``."""
        lines = [f"z = {'ONE' if self.graph.states[t].is_first else 'ZERO'}"]
        if self.weighted is not None:
            lines += ["zw = ZERO"]
        for e in self.graph.into(t):
            lines += self._edge(e)
        return [*lines, *self._weighed(t)]

    def _weighed(self, t: int) -> list[str]:
        """Return the lines that add the weight of member x of state ``t`` to the sum, once for each match."""
        lines = self.reduce(*self.sums)
        if self.weigh(t):
            lines += [f"zw += {self.weight(t)}[x] * z", *self.reduce("zw")]
        return lines

    def _edge(self, e: int) -> list[str]:
        """Return the lines that add to z the partial matches that an edge brings to member x."""
        s, t = self.graph.edges[e].source, self.graph.edges[e].target
        pool = self.graph.pool(s)
        lines = [f"a, b = {self.low(s)}, {self.ends(e)}[x]"]
        if begins := self.begins(e):
            lines += [f"a = max(a, {begins}[x])"]
        bounds = []
        if limit := self.limit(e):
            bounds = [(limit, ">=", f"{self.array('members', self.graph.pool(t))}[x]")]
        link = self.graph.link(e)
        numbers, weights = None, None
        if not self.is_one(s):
            numbers = self.numbers_of("count", s)
            weights = None if self.weighted is None else self.numbers_of("count_sum", s)
        elif self.weigh(s):
            weights = self.weight(s)
        if numbers is None and weights is None and not link.terms and not bounds:
            return [*lines, "if a < b:", f"    z += np.{self.dtype}(b - a)"]
        vectors = {leaf: self.column(pool, leaf.column) for leaf in link.leaves()[0]}
        return [
            *lines,
            "if a < b:",
            "    work += b - a",
            *indented(self._sum(e, ("a", "b"), vectors, bounds, numbers, weights)),
        ]

    def _sum(self, e, span, vectors, bounds, numbers: str | None, weights: str | None) -> list[str]:
        """Return the lines that add to z (and zw) the numbers of the members that fulfil the edge's terms."""
        # ``span`` has the code of the first index r and of the end. Without ``numbers``, a member counts 1.
        pool = self.graph.pool(self.graph.edges[e].target)
        link = self.graph.link(e)
        scalars = {leaf: f"{self.column(pool, leaf.column)}[x]" for leaf in link.leaves()[1]}
        lines, test = self.condition(link.terms, vectors=vectors, scalars=scalars, bounds=bounds)
        lines += [over(*span)]
        values = {"z": "ONE" if numbers is None else f"{numbers}[r]"}
        if weights is not None:
            values["zw"] = f"{weights}[r]"
        for name, value in values.items():
            lines += [f"    {name} += {value} if {test} else ZERO"]
        return lines

    # --- taking back what began before the window

    def _needs_change(self, t: int) -> bool:
        """Return whether a change in state ``t`` changes other states, or later members of this one."""
        return any(self.graph.edges[e].target in self.stored for e in self.graph.out_of(t))

    def _taking_back(self, t: int) -> list[str]:
        """Return the lines that subtract from state ``t`` the partial matches that begin before ``lost``."""
        edges = self.graph.into(t)
        pushed = [e for e in edges if self.is_one(self.graph.edges[e].source)]
        pulled = [e for e in edges if e not in pushed]
        count = self.numbers_of("count", t)
        direct = bool(pushed) and not pulled and not self._needs_change(t) and self.weighted is None
        if direct:
            return [line for e in pushed for line in self._push(e, count, None)]
        low, high = self.low(t), f"high{t}"
        needs = self._needs_change(t)
        lines = [f"n{t} = 0"] if needs else []
        change = self.numbers_of("change", t) if pushed else None
        change_sum = self.numbers_of("change_sum", t) if pushed and self.weighted is not None else None
        for name in filter(None, (change, change_sum)):
            lines += [f"for x in range({low}, {high}):", f"    {name}[x] = ZERO"]
        for e in pushed:
            lines += self._push(e, change, change_sum)
        begins_here = self.graph.states[t].is_first
        body = [f"z = {f'{change}[x]' if change else 'ZERO'}"]
        if self.weighted is not None:
            body += [f"zw = {f'{change_sum}[x]' if change_sum else 'ZERO'}"]
        if begins_here:
            body += ["z += ONE if x < lost else ZERO"]
        for e in pulled:
            lines += [f"e{e} = 0"]
            body += self._pull(e)
        body += self._weighed(t)
        kept = [f"w = {count}[x]", f"{count}[x] = {self.less('w', 'z')}"]
        if self.weighted is not None:
            total = self.numbers_of("count_sum", t)
            kept += [f"w = {total}[x]", f"{total}[x] = {self.less('w', 'zw')}"]
        if needs:
            kept += self._keep_change(t)
        body += ["if z != ZERO:" if self.weighted is None else "if z != ZERO or zw != ZERO:", *indented(kept)]
        if pushed and not pulled:
            # If few members changed, most blocks are unchanged.
            loop = [f"for block in range({low}, {high}, {_BLOCK}):"]
            inner = [f"end = min(block + {_BLOCK}, {high})", "some = ZERO", over("block", "end")]
            inner += [f"    some |= {change}[r]", "if some != ZERO:"]
            inner += ["    for x in range(block, end):", *indented(body, 2)]
            return [*lines, *loop, *indented(inner)]
        loop = [f"for x in range({low}, {high}):", *indented(body)]
        others = {self.graph.edges[e].source for e in pulled} - {t}
        if others and not pushed and not begins_here:
            loop = [f"if {' + '.join(f'n{s}' for s in sorted(others))} > 0:", *indented(loop)]
        return [*lines, *loop]

    def _push(self, e: int, change: str, change_sum: str | None) -> list[str]:
        """Return the lines that add to ``change`` what the members of an edge's target lose along it."""
        s, t = self.graph.edges[e].source, self.graph.edges[e].target
        link, pool = self.graph.link(e), self.graph.pool(t)
        ends, high = self.ends(e), f"high{t}"
        bounds = []
        if begins := self.begins(e):
            bounds += [(begins, "<=", "a")]
        if limit := self.limit(e):
            bounds += [(self.array("members", pool), "<=", f"{limit}[a]")]
        earlier, later = link.leaves()
        inner, test = self.condition(
            link.terms, bounds=bounds,
            vectors={leaf: self.column(pool, leaf.column) for leaf in later},
            scalars={leaf: f"{self.column(self.graph.pool(s), leaf.column)}[a]" for leaf in earlier},
        )  # fmt: skip
        loop = [over("x", high), f"    w = ONE if {test} else ZERO"]
        if change != self.numbers_of("count", t):
            loop += [f"    {change}[r] += w"]
        elif self.arithmetic == MODULAR:
            loop += [f"    {change}[r] = {self.less(f'{change}[r]', 'w')}"]
        else:
            loop += [f"    {change}[r] -= w"]
        if change_sum is not None and self.weigh(s):
            inner += [f"u = {self.weight(s)}[a]"]
            loop += [f"    {change_sum}[r] += u if {test} else ZERO"]
        inner = [f"while x < {high} and {ends}[x] <= a:", "    x += 1", f"work += {high} - x", *inner, *loop]
        return [f"x = {self.low(t)}", f"for a in range({self.low(s)}, lost):", *indented(inner)]

    def _changed(self, s: int) -> dict[tuple[str, str | int], str]:
        """Return the names of the arrays that list the changed members of a state, by what they hold."""
        arrays = {("member", ""): self.array("where", s), ("change", ""): self.numbers_of("value", s)}
        if self.weighted is not None:
            arrays["change", "sum"] = self.numbers_of("value_sum", s)
        for e in self.graph.out_of(s):
            if self.graph.edges[e].target not in self.stored:
                continue
            for leaf in self.graph.link(e).leaves()[0]:
                column = leaf.column
                if leaf.kind == LIST:
                    continue
                i = self.columns.index(column)
                arrays["column", column] = self.array("changed", s, i, dtype=self.dtypes[column])
            if self.limit(e):
                arrays["limit", e] = self.array("changed_limit", e)
        return arrays

    def _keep_change(self, t: int) -> list[str]:
        """Return the lines that append member x and its change z to the list of changed members."""
        lines = []
        for (what, which), array in self._changed(t).items():
            if what == "member":
                value = "x"
            elif what == "change":
                value = "zw" if which else "z"
            elif what == "limit":
                value = f"{self.limit(which)}[x]"
            else:
                value = f"{self.column(self.graph.pool(t), which)}[x]"
            lines += [f"{array}[n{t}] = {value}"]
        return [*lines, f"n{t} += 1"]

    def _pull(self, e: int) -> list[str]:
        """Return the lines that add to z what member x loses because members of the edge's source changed."""
        s, t = self.graph.edges[e].source, self.graph.edges[e].target
        arrays = self._changed(s)
        lines = [f"b = {self.ends(e)}[x]"]
        member = arrays["member", ""]
        lines += [f"while e{e} < n{s} and {member}[e{e}] < b:", f"    e{e} += 1"]
        bounds = []
        if begins := self.begins(e):
            bounds += [(member, ">=", f"{begins}[x]")]
        if self.limit(e):
            bounds += [(arrays["limit", e], ">=", f"{self.array('members', self.graph.pool(t))}[x]")]
        vectors = {
            leaf: f"{self.column(self.graph.pool(s), leaf.column)}, {member}[r]"
            if leaf.kind == LIST
            else arrays["column", leaf.column]
            for leaf in self.graph.link(e).leaves()[0]
        }
        numbers, weights = arrays["change", ""], arrays.get(("change", "sum"))
        inner = self._sum(e, ("0", f"e{e}"), vectors, bounds, numbers, weights)
        return [*lines, f"if e{e} > 0:", f"    work += e{e}", *indented(inner)]
