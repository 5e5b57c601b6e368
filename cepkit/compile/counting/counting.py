"""State graph → Python source of the kernels that count matches by their last event, without enumeration."""

from __future__ import annotations

from collections.abc import Mapping

from cepkit.compile.counting.conditions import ConditionWriter, CountingKernel, indented, over
from cepkit.compile.counting.state_graph import StateGraph
from cepkit.compile.sequences.program import SequenceProgram
from cepkit.events import LIST

# Arithmetic of counts: modulo 2^64, modulo an argument of the kernel, or as floats. The floats are upper
# bounds, since they may count windows that are a little too wide.
WRAPPING, MODULAR, AT_LEAST = "wrapping", "modular", "at least"
_BLOCK = 64


def write_counting(
    program: SequenceProgram,
    graph: StateGraph,
    dtypes: Mapping[str, str],
    arithmetic: str = WRAPPING,
    *,
    weighted: int | None = None,
) -> CountingKernel:
    """Write the kernel that counts the matches of a state graph by their last event.

    The kernel keeps, for each event and state, the number of partial matches that end there and begin
    within the window. It reads this number at the members of the last pool. Before each member, it takes
    back the partial matches that begin with an event that left the window since the previous member. Their
    contribution is linear, so the kernel computes it along the edges from these first events alone and
    subtracts it. Then it adds the events that came since.

    Source: the counting of GRETA (Poppe et al., VLDB 2017) per event.
    Differs: the paper does not take back partial matches.
    """
    return _CountWriter(program, graph, dtypes, arithmetic, weighted).write()


class _CountWriter(ConditionWriter):
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
        """Return the name of the array of the first members that absences and gap allow; None: no limit."""
        is_limited = self.graph.has_gap or self.graph.link(edge).has_near
        return self.array("begins", self.graph.edges[edge].link) if is_limited else None

    def limit(self, edge: int) -> str | None:
        """Return the name of the array of the last places that absences allow; None: no limit."""
        has_far = self.graph.link(edge).has_far
        return self.array("limit", self.graph.edges[edge].link) if has_far else None

    # --- names

    def number(self, kind: str, state: int) -> str:
        return self.array(kind, state, dtype=self.dtype)

    def low(self, state: int) -> str:
        """Return the name of the number of the first member of the state's pool in the window."""
        return f"low{self.graph.pool(state)}"

    def weigh(self, state: int) -> bool:
        """Return whether the events of this state have weights."""
        return self.weighted is not None and self.graph.states[state].component == self.weighted

    def weight(self, state: int) -> str:
        return self.array("weight", self.graph.pool(state), dtype="uint64")

    def less(self, left: str, right: str) -> str:
        """Return the code of ``left - right``."""
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
        members = self.array("members", pool)
        return [f"while {pointer} < len({members}) and {members}[{pointer}] < s:", f"    {pointer} += 1"]

    def _forgetting(self) -> list[str]:
        """Return the lines that let the window begin at ``s``."""
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
        body += [f"{self.number('count', t)}[x] = z"]
        if self.weighted is not None:
            body += [f"{self.number('count_sum', t)}[x] = zw"]
        return [*lines, *indented([*body, f"high{t} += 1"])]

    def _reading(self) -> list[str]:
        lines = ["n = ZERO", *(["nw = ZERO"] if self.weighted is not None else [])]
        for t in self.graph.finals:
            if t in self.stored:
                lines += [f"z = {self.number('count', t)}[m]"]
                if self.weighted is not None:
                    lines += [f"zw = {self.number('count_sum', t)}[m]"]
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
            numbers = self.number("count", s)
            weights = None if self.weighted is None else self.number("count_sum", s)
        elif self.weigh(s):
            weights = self.weight(s)
        if numbers is None and weights is None and not link.terms and not bounds:
            return [*lines, "if a < b:", f"    z += np.{self.dtype}(b - a)"]
        vectors = {leaf: self.column(pool, leaf.data[-1]) for leaf in link.leaves()[0]}
        return [
            *lines,
            "if a < b:",
            "    work += b - a",
            *indented(self._sum(e, ("a", "b"), vectors, bounds, numbers, weights)),
        ]

    def _sum(self, e, span, vectors, bounds, numbers: str | None, weights: str | None) -> list[str]:
        """Return the lines that add to z (and zw) the array elements that fulfil the edge's terms."""
        pool = self.graph.pool(self.graph.edges[e].target)
        link = self.graph.link(e)
        scalars = {leaf: f"{self.column(pool, leaf.data[-1])}[x]" for leaf in link.leaves()[1]}
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
        count = self.number("count", t)
        direct = bool(pushed) and not pulled and not self._needs_change(t) and self.weighted is None
        if direct:
            return [line for e in pushed for line in self._push(e, count, None)]
        low, high = self.low(t), f"high{t}"
        needs = self._needs_change(t)
        lines = [f"n{t} = 0"] if needs else []
        change = self.number("change", t) if pushed else None
        change_sum = self.number("change_sum", t) if pushed and self.weighted is not None else None
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
            total = self.number("count_sum", t)
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
        """Return the lines that write the contribution of an edge's lost source events to its target."""
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
            vectors={leaf: self.column(pool, leaf.data[-1]) for leaf in later},
            scalars={leaf: f"{self.column(self.graph.pool(s), leaf.data[-1])}[a]" for leaf in earlier},
        )  # fmt: skip
        loop = [over("x", high), f"    w = ONE if {test} else ZERO"]
        if change != self.number("count", t):
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
        """Return the arrays that list the changed members of a state, by their content."""
        arrays = {("member", ""): self.array("where", s), ("change", ""): self.number("value", s)}
        if self.weighted is not None:
            arrays["change", "sum"] = self.number("value_sum", s)
        for e in self.graph.out_of(s):
            if self.graph.edges[e].target not in self.stored:
                continue
            for leaf in self.graph.link(e).leaves()[0]:
                column = leaf.data[-1]
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
        """Return the lines that add to z the contribution of the source's changed members to member x."""
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
            leaf: f"{self.column(self.graph.pool(s), leaf.data[-1])}, {member}[r]"
            if leaf.kind == LIST
            else arrays["column", leaf.data[-1]]
            for leaf in self.graph.link(e).leaves()[0]
        }
        numbers, weights = arrays["change", ""], arrays.get(("change", "sum"))
        inner = self._sum(e, ("0", f"e{e}"), vectors, bounds, numbers, weights)
        return [*lines, f"if e{e} > 0:", f"    work += e{e}", *indented(inner)]
