"""Chain → Python source of the kernels that count its matches by their last event, without enumerating."""

from __future__ import annotations

from collections.abc import Mapping

from cepkit.compile.chain import Chain
from cepkit.compile.chain_edges import ChainKernel, EdgeWriter, indented, over
from cepkit.compile.sequences.program import SequenceProgram
from cepkit.events import LIST

# How numbers of matches are computed: modulo 2^64, modulo a number that the kernel is given, or as floats of
# at least the true size, for windows that are a little too wide.
WRAPPING, MODULAR, AT_LEAST = "wrapping", "modular", "at least"
_BLOCK = 64


def write_counting(
    program: SequenceProgram,
    chain: Chain,
    dtypes: Mapping[str, str],
    arithmetic: str = WRAPPING,
    *,
    weighted: int | None = None,
) -> ChainKernel:
    """Write the kernel that counts the matches of a chain by their last event.

    Parameters
    ----------
    program : SequenceProgram
        For its constants, tables and functions.
    chain : Chain
        One of its chains.
    dtypes : mapping of str to str
        numpy dtype of every column that kernels read.
    arithmetic : str
        ``WRAPPING``, ``MODULAR`` or ``AT_LEAST``.
    weighted : int, optional
        A component: then the weights of its events are also added up over all matches.

    Returns
    -------
    ChainKernel
        ``count(begin, stop, work_limit, modulus, at, window_start, *arrays, *constants, out)`` writes the
        numbers for the members of the last pool from ``begin`` to ``stop`` and returns where it ended, when
        more than ``work_limit`` edges were looked at. ``at`` (int64, -1 in its second place, else 0, at
        first) is what it goes on with. ``window_start`` belongs to the members of the last pool. Weighted,
        ``out_sum`` follows. Scratch of the size of the pool: ``("count", state)``, ``("change", state)``,
        ``("where", state)``, ``("value", state)``, ``("changed", state, column)``, and their sums.

    Notes
    -----
    What is kept per event and state is the number of partial matches that end there and begin within the
    window. The members of the last pool, places where it is read, set the pace: before each, begins that
    left the window since the last one are taken back together (the change they made is linear, so it is
    computed along the edges from them alone and subtracted), then the members since then are added.
    Time per last event O(edges from lost begins + edges into new members); memory O(members).
    Source: the counting of GRETA (Poppe et al., VLDB 2017) per event; the taking back is this package's.
    """
    return _CountWriter(program, chain, dtypes, arithmetic, weighted).write()


class _CountWriter(EdgeWriter):
    def __init__(self, program, chain, dtypes, arithmetic, weighted):
        super().__init__(program, chain, dtypes)
        self.arithmetic, self.weighted = arithmetic, weighted
        self.dtype = "float64" if arithmetic == AT_LEAST else "uint64"
        self.first = next(s for s, state in enumerate(chain.states) if state.is_first)
        self.last_pool = self.shape.pool(self.shape.finals[0])
        sources = (self.first, *self.shape.stored)
        self.low_pools = tuple(dict.fromkeys(self.shape.pool(s) for s in sources))

    # --- names

    def number(self, kind: str, state: int) -> str:
        return self.array(kind, state, dtype=self.dtype)

    def low(self, state: int) -> str:
        """Return the name of the first member of the state's pool that is within the window."""
        return f"low{self.shape.pool(state)}"

    def weigh(self, state: int) -> bool:
        """Whether the events of this state have weights."""
        return self.weighted is not None and self.chain.states[state].component == self.weighted

    def weight(self, state: int) -> str:
        return self.array("weight", self.shape.pool(state), dtype="uint64")

    def less(self, left: str, right: str) -> str:
        """Return the code of ``left - right``."""
        if self.arithmetic != MODULAR:
            return f"{left} - {right}"
        return f"{left} - {right} if {left} >= {right} else {left} + (modulus - {right})"

    def reduced(self, *names: str) -> list[str]:
        return [f"{name} %= modulus" for name in names] if self.arithmetic == MODULAR else []

    @property
    def sums(self) -> list[str]:
        return ["z"] if self.weighted is None else ["z", "zw"]

    # --- the module

    def write(self) -> ChainKernel:
        members = self.array("members", self.last_pool)
        pointers = [f"low{i}" for i in self.low_pools] + [f"high{s}" for s in self.shape.stored]
        saved = ["base", "newest", *pointers]
        body = [f"{name} = at[{i}]" for i, name in enumerate(saved)]
        body += ["work, m = 0, begin", "while m < stop and work <= work_limit:"]
        inner = [f"p, s = {members}[m], window_start[m]"]
        inner += self._forgetting()
        inner += [line for s in self.shape.stored for line in self._adding(s)]
        inner += self._reading()
        inner += ["newest = p", "m += 1"]
        body += indented(inner)
        body += [f"at[{i}] = {name}" for i, name in enumerate(saved)]
        body += ["return m"]
        arguments = [("begin", "T.int64"), ("stop", "T.int64"), ("work_limit", "T.int64")]
        arguments += [("modulus", "T.uint64"), ("at", "I1"), ("window_start", "I1")]
        of = "F1" if self.dtype == "float64" else "U1"
        outputs = [("out", of)] + ([] if self.weighted is None else [("out_sum", of)])
        return self.module(
            "count", arguments, body, outputs,
            reorders_sums=self.arithmetic == AT_LEAST,  # a bound: the order of a sum does not matter
            constants=[f"ZERO, ONE = np.{self.dtype}(0), np.{self.dtype}(1)"],
        )  # fmt: skip

    def _ahead(self, pointer: str, pool: int) -> list[str]:
        members = self.array("members", pool)
        return [f"while {pointer} < len({members}) and {members}[{pointer}] < s:", f"    {pointer} += 1"]

    def _forgetting(self) -> list[str]:
        """Return the lines that let the window begin at ``s``."""
        lows = [line for i in self.low_pools for line in self._ahead(f"low{i}", i)]
        afresh = [f"high{s} = {self.low(s)}" for s in self.shape.stored]
        if self.arithmetic == AT_LEAST:
            # Too much may be counted here, so nothing is taken back: now and then all is counted anew.
            return ["if newest < s or 8 * (s - base) > p - s:", *indented([*lows, *afresh, "base = s"])]
        low = self.low(self.first)
        taking = [line for t in self.shape.stored for line in self._taking_back(t)]
        lines = [f"lost = {low}", *self._ahead("lost", self.shape.pool(self.first))]
        if taking:
            lines += [f"if newest >= s and lost > {low}:", *indented(taking)]
        lines += lows
        return lines + (["if newest < s:", *indented(afresh)] if afresh else [])

    def _adding(self, t: int) -> list[str]:
        """Return the lines that count what ends in the members of state ``t`` since the last time."""
        members = self.array("members", self.shape.pool(t))
        final = self.chain.states[t].is_final
        lines = [f"while high{t} < len({members}) and {members}[high{t}] {'<=' if final else '<'} p:"]
        body = [f"x = high{t}", *self._into(t)]
        body += [f"{self.number('count', t)}[x] = z"]
        if self.weighted is not None:
            body += [f"{self.number('count_sum', t)}[x] = zw"]
        return [*lines, *indented([*body, f"high{t} += 1"])]

    def _reading(self) -> list[str]:
        lines = ["n = ZERO", *(["nw = ZERO"] if self.weighted is not None else [])]
        for t in self.shape.finals:
            if t in self.shape.stored:
                lines += [f"z = {self.number('count', t)}[m]"]
                if self.weighted is not None:
                    lines += [f"zw = {self.number('count_sum', t)}[m]"]
            else:
                lines += ["x = m", *self._into(t)]
            lines += ["n += z", *(["nw += zw"] if self.weighted is not None else [])]
        lines += [*self.reduced("n"), "out[m] = n"]
        if self.weighted is not None:
            lines += [*self.reduced("nw"), "out_sum[m] = nw"]
        return lines

    def _into(self, t: int) -> list[str]:
        """Return the lines that add up, as z, all that ends in member x of state ``t``."""
        lines = [f"z = {'ONE' if self.chain.states[t].is_first else 'ZERO'}"]
        if self.weighted is not None:
            lines += ["zw = ZERO"]
        for e in self.shape.into(t):
            lines += self._edge(e)
        return [*lines, *self._weighed(t)]

    def _weighed(self, t: int) -> list[str]:
        lines = self.reduced(*self.sums)
        if self.weigh(t):
            lines += [f"zw += {self.weight(t)}[x] * z", *self.reduced("zw")]
        return lines

    def _edge(self, e: int) -> list[str]:
        """Return the lines that add to z what comes along an edge into member x of its target."""
        s, t = self.chain.edges[e].source, self.chain.edges[e].target
        shape, pool = self.shape, self.shape.pool(s)
        lines = [f"a, b = {self.low(s)}, {self.ends(e)}[x]"]
        if shape.has_begins(e):
            lines += [f"a = max(a, {self.array('begins', e)}[x])"]
        bounds = []
        if shape.has_limit(e):
            bounds = [(self.array("limit", e), ">=", f"{self.array('members', shape.pool(t))}[x]")]
        terms = self.chain.edges[e].terms
        numbers, weights = None, None
        if not shape.is_one(s):
            numbers = self.number("count", s)
            weights = None if self.weighted is None else self.number("count_sum", s)
        elif self.weigh(s):
            weights = self.weight(s)
        if numbers is None and weights is None and not terms and not bounds:
            return [*lines, "if a < b:", f"    z += np.{self.dtype}(b - a)"]
        earlier, _ = self.leaves_of(e)
        vectors = {leaf: self.column(pool, leaf.data[-1]) for leaf in earlier}
        return [
            *lines,
            "if a < b:",
            "    work += b - a",
            *indented(self._sum(e, ("a", "b"), vectors, bounds, numbers, weights)),
        ]

    def _sum(self, e, span, vectors, bounds, numbers: str | None, weights: str | None) -> list[str]:
        """Return the lines that add to z (and zw) what stands in arrays, where the edge's terms hold."""
        pool = self.shape.pool(self.chain.edges[e].target)
        scalars = {leaf: f"{self.column(pool, leaf.data[-1])}[x]" for leaf in self.leaves_of(e)[1]}
        terms = self.chain.edges[e].terms
        lines, test = self.tested(terms, vectors=vectors, scalars=scalars, bounds=bounds)
        lines += [over(*span)]
        values = {"z": "ONE" if numbers is None else f"{numbers}[r]"}
        if weights is not None:
            values["zw"] = f"{weights}[r]"
        for name, value in values.items():
            lines += [f"    {name} += {value if test is None else f'{value} if {test} else ZERO'}"]
        return lines

    # --- taking back what began before the window

    def _needs_change(self, t: int) -> bool:
        """Whether the change in state ``t`` causes changes in others, or in later members of it."""
        return any(self.chain.edges[e].target in self.shape.stored for e in self.shape.out_of(t))

    def _taking_back(self, t: int) -> list[str]:
        """Return the lines that subtract what begins from ``low`` to ``lost`` from the members of a state."""
        shape = self.shape
        edges = shape.into(t)
        pushed = [e for e in edges if shape.is_one(self.chain.edges[e].source)]
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
        begins_here = self.chain.states[t].is_first
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
            # Where few changed, most blocks did not at all.
            loop = [f"for block in range({low}, {high}, {_BLOCK}):"]
            inner = [f"end = min(block + {_BLOCK}, {high})", "some = ZERO", over("block", "end")]
            inner += [f"    some |= {change}[r]", "if some != ZERO:"]
            inner += ["    for x in range(block, end):", *indented(body, 2)]
            return [*lines, *loop, *indented(inner)]
        loop = [f"for x in range({low}, {high}):", *indented(body)]
        others = {self.chain.edges[e].source for e in pulled} - {t}
        if others and not pushed and not begins_here:
            loop = [f"if {' + '.join(f'n{s}' for s in sorted(others))} > 0:", *indented(loop)]
        return [*lines, *loop]

    def _push(self, e: int, change: str, change_sum: str | None) -> list[str]:
        """Return the lines that write what the lost begins, of the edge's source, made in its target."""
        s, t = self.chain.edges[e].source, self.chain.edges[e].target
        shape, pool = self.shape, self.shape.pool(t)
        ends, high = self.ends(e), f"high{t}"
        bounds = []
        if shape.has_begins(e):
            bounds += [(self.array("begins", e), "<=", "a")]
        if shape.has_limit(e):
            bounds += [(self.array("members", pool), "<=", f"{self.array('limit', e)}[a]")]
        earlier, later = self.leaves_of(e)
        inner, test = self.tested(
            self.chain.edges[e].terms, bounds=bounds,
            vectors={leaf: self.column(pool, leaf.data[-1]) for leaf in later},
            scalars={leaf: f"{self.column(shape.pool(s), leaf.data[-1])}[a]" for leaf in earlier},
        )  # fmt: skip
        loop = [over("x", high), f"    w = {'ONE' if test is None else f'ONE if {test} else ZERO'}"]
        if change != self.number("count", t):
            loop += [f"    {change}[r] += w"]
        elif self.arithmetic == MODULAR:
            loop += [f"    {change}[r] = {self.less(f'{change}[r]', 'w')}"]
        else:
            loop += [f"    {change}[r] -= w"]
        if change_sum is not None and self.weigh(s):
            inner += [f"u = {self.weight(s)}[a]"]
            loop += [f"    {change_sum}[r] += {'u' if test is None else f'u if {test} else ZERO'}"]
        inner = [f"while x < {high} and {ends}[x] <= a:", "    x += 1", f"work += {high} - x", *inner, *loop]
        return [f"x = {self.low(t)}", f"for a in range({self.low(s)}, lost):", *indented(inner)]

    def _changed(self, s: int) -> dict[tuple[str, str | int], str]:
        """Return the arrays that keep changed members of a state, by what they hold."""
        arrays = {("member", ""): self.array("where", s), ("change", ""): self.number("value", s)}
        if self.weighted is not None:
            arrays["change", "sum"] = self.number("value_sum", s)
        for e in self.shape.out_of(s):
            if self.chain.edges[e].target not in self.shape.stored:
                continue
            for leaf in self.leaves_of(e)[0]:
                column = leaf.data[-1]
                if leaf.kind == LIST:
                    continue
                i = self.numbers.index(column)
                arrays["column", column] = self.array("changed", s, i, dtype=self.dtypes[column])
            if self.shape.has_limit(e):
                arrays["limit", e] = self.array("changed_limit", e)
        return arrays

    def _keep_change(self, t: int) -> list[str]:
        """Return the lines that append member x with its change z to those that changed."""
        lines = []
        for (what, which), array in self._changed(t).items():
            if what == "member":
                value = "x"
            elif what == "change":
                value = "zw" if which else "z"
            elif what == "limit":
                value = f"{self.array('limit', which)}[x]"
            else:
                value = f"{self.column(self.shape.pool(t), which)}[x]"
            lines += [f"{array}[n{t}] = {value}"]
        return [*lines, f"n{t} += 1"]

    def _pull(self, e: int) -> list[str]:
        """Return the lines that add to z what changed members of the edge's source make in member x."""
        s, t = self.chain.edges[e].source, self.chain.edges[e].target
        shape, arrays = self.shape, self._changed(s)
        lines = [f"b = {self.ends(e)}[x]"]
        member = arrays["member", ""]
        lines += [f"while e{e} < n{s} and {member}[e{e}] < b:", f"    e{e} += 1"]
        bounds = []
        if shape.has_begins(e):
            bounds += [(member, ">=", f"{self.array('begins', e)}[x]")]
        if shape.has_limit(e):
            bounds += [(arrays["limit", e], ">=", f"{self.array('members', shape.pool(t))}[x]")]
        earlier, _ = self.leaves_of(e)
        vectors = {
            leaf: f"{self.column(shape.pool(s), leaf.data[-1])}, {member}[r]"
            if leaf.kind == LIST
            else arrays["column", leaf.data[-1]]
            for leaf in earlier
        }
        numbers, weights = arrays["change", ""], arrays.get(("change", "sum"))
        inner = self._sum(e, ("0", f"e{e}"), vectors, bounds, numbers, weights)
        return [*lines, f"if e{e} > 0:", f"    work += e{e}", *indented(inner)]
