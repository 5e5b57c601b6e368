"""Anchored graph → Python source of the kernels that count matches, anchor by anchor, and walk over them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property

from cepkit.compile.counting import AT_LEAST, MODULAR, ConditionWriter, CountingKernel, indented, over
from cepkit.compile.counting_paths import DEEPER, DEPTH, DONE, END, FULL, LONGER, N_ITEMS, N_MATCHES, REASON
from cepkit.compile.sequence_program import SequenceProgram
from cepkit.compile.shared.terms import Term
from cepkit.compile.state_graph import AnchoredGraph, elements_of

# Anchored graph → Python source of the kernels that count matches, anchor by anchor.

# Anchored graph → what its kernels share: the arrays that they read, and the code of conditions.
#
# The kernels read *anchors*, the events that may be the first of a match, and *entries*, the events that any
# other state accepts. Both are in the order of their places. The entries of an anchor are those in its
# window: from ``first[k]`` to ``until[k]``. ``mask[e]`` has a bit for each state that accepts entry e.


class AnchoredWriter(ConditionWriter):
    """Writes the kernels of an anchored graph; see `ConditionWriter` for the parameters."""

    # The names in the code; the arrays are those of `CountingKernel`:
    # - ``k``: an anchor; ``y0``: its value of column 0
    # - ``e``: an entry; ``m``: its mask of states; ``x0``: its value of column 0
    # - ``x``: the entry that follows e in the match; ``w0``: its value of column 0; ``am``: its states
    # - ``z2``, ``zw2``: the number of paths from k to e in state 2, and the sum of their weights
    # - ``all1``, ``sum1``: both of all entries so far in state 1
    # - ``listcount1[r]``, ``listcolumn1_0[r]``: the numbers of single entries in state 1, and their values of
    #   column 0; ``n1``: how many these are

    def __init__(self, program: SequenceProgram, graph: AnchoredGraph, dtypes: Mapping[str, str]):
        super().__init__(program, graph, dtypes)
        self.n_states = len(graph.states)
        self.states = range(1, self.n_states)
        self.has_gap, self.strict = graph.has_gap, program.window.strict_time
        leaves = elements_of(graph.terms)
        number = {leaf: self.columns.index(leaf.column) for leaf in leaves}
        self.of_anchor = sorted({i for leaf, i in number.items() if leaf.data[0] == graph.anchor})
        self.of_entry = sorted({i for leaf, i in number.items() if leaf.data[0] != graph.anchor})
        self.mask_dtype = "uint8" if self.n_states <= 8 else "int64"

    # --- conditions

    def load(self, prefix: str, kind: str, at: str) -> list[str]:
        """Return the lines that load the columns of the anchor or entry ``at``."""
        numbers = self.of_anchor if kind == "anchor" else self.of_entry
        return [f"{prefix}{i} = {self._cell(i, self._values(kind, i), at)}" for i in numbers]

    def _values(self, kind: str, i: int) -> str:
        return self.array(kind, i, dtype=self.dtypes[self.columns[i]])

    def _cell(self, i: int, array: str, at: str) -> str:
        return self.wide(self.columns[i], f"{array}[{at}]")

    def test(
        self, terms: tuple[Term, ...], *more: str, earlier: Mapping[Term, str] | None = None, later: str = "x"
    ) -> str | None:
        """Return the code that is true where the terms and the code in ``more`` hold; None: always."""
        # ``earlier`` has the code of the leaves that read the earlier entry of a link. Leaves that read no
        # anchor either are columns with the prefix ``later``.
        for leaf in elements_of(terms):
            i = self.columns.index(leaf.column)
            if leaf.data[0] == self.graph.anchor:
                self.names[leaf] = f"y{i}"
            else:
                self.names[leaf] = (earlier or {}).get(leaf, f"{later}{i}")
        parts = dict.fromkeys([*more, *map(self.true, sorted(terms, key=self.is_costly))])
        sign = " and " if any(map(self.is_costly, terms)) else " & "
        return sign.join(f"({part})" for part in parts) if parts else None

    def accepts(self, state: int, *more: str) -> str:
        """Return the code that is true if entry e with the mask m may be in the state."""
        conditions = self.graph.given[self.graph.states[state].component]
        return self.test(conditions, f"m & {1 << state} != 0", *more)

    def enters(self, e: int, later: str = "x", entry: str = "e") -> str | None:
        """Return the code that is true if an edge leads from the anchor to an entry; None: always."""
        near = [f"{entry} < {self.array('near')}[k]"] if self.has_gap else []
        return self.test(self.graph.link(e).terms, *near, later=later)

    def follows(self, e: int) -> str | None:
        """Return the code that is true if an edge leads from entry e to entry x; None: always."""
        link = self.graph.link(e)
        earlier = {leaf: f"x{self.columns.index(leaf.column)}" for leaf in link.earlier}
        limits = [f"{self.array('later')}[e] <= x"] if self.strict else []
        limits += [f"{self.array('gap')}[e] > x"] if self.has_gap else []
        return self.test(link.terms, *limits, earlier=earlier, later="w")

    def is_free(self, e: int) -> bool:
        """Return whether any entry may follow any earlier one along an edge."""
        return not (self.graph.link(e).terms or self.strict or self.has_gap)

    def precedes(self, t: int) -> str | None:
        """Return the code that is true if entry e in state t can precede entry x, in a state of mask am."""
        ways = []
        for e in self.graph.out_of(t):
            test = self.follows(e)
            bit = f"am & {1 << self.graph.edges[e].target} != 0"
            ways.append(f"(({bit}) & ({test}))" if test else f"({bit})")
        return f"({' | '.join(ways)})" if ways else None


# Anchored graph → Python source of the kernels that count matches, anchor by anchor.

# Indices of ``at``, where kernels keep what they need to continue.
AT_ANCHOR, AT_ENTRY = range(2)


def write_anchored_count(
    program: SequenceProgram, graph: AnchoredGraph, dtypes: Mapping[str, str], arithmetic: str, *,
    weighted: int | None = None,
) -> CountingKernel:  # fmt: skip
    """Write the kernel that counts the matches by their last entry."""
    # For each anchor, the kernel goes through the entries in its window and keeps how many paths from the
    # anchor end in each state. If a condition links two entries, it keeps the number of every entry.
    # Source: the counting of GRETA (Poppe et al., VLDB 2017) per event.
    # Differs: the graph begins with one given event, so nothing is taken back.
    return AnchoredCountWriter(program, graph, dtypes, arithmetic, weighted).write("count")


class AnchoredCountWriter(AnchoredWriter):
    """Writes ``count`` and ``options``, which counts the matches with a given end by the entry before it."""

    def __init__(self, program, graph, dtypes, arithmetic, weighted=None):
        super().__init__(program, graph, dtypes)
        self.arithmetic, self.weighted = arithmetic, weighted
        self.dtype = "float64" if arithmetic == AT_LEAST else "uint64"
        edges = range(len(graph.edges))
        inner = [e for e in edges if graph.edges[e].source > 0]
        self.summed = sorted({graph.edges[e].source for e in inner if self.is_free(e)})
        self.listed = sorted({graph.edges[e].source for e in inner if not self.is_free(e)})
        # What the kernel adds up: numbers of matches, and sums of weights.
        self.kinds = ["z"] if weighted is None else ["z", "zw"]

    def _scratch(self, kind: str, *key: int) -> str:
        return self.array(kind, *key, dtype=self.dtype)

    def _total(self, kind: str, s: int) -> str:
        """Return the variable with the total of all entries in state ``s``, of paths or of weights."""
        return f"{'all' if kind == 'z' else 'sum'}{s}"

    def _list(self, kind: str, s: int) -> str:
        """Return the name of the array with the paths of each entry of state ``s``, or with their weights."""
        return self._scratch("listcount" if kind == "z" else "listsum", s)

    def _reduced(self, *names: str) -> list[str]:
        return [f"{name} %= modulus" for name in names] if self.arithmetic == MODULAR else []

    def write(self, name: str) -> CountingKernel:
        """Return the kernel that counts ("count"), or another of this name that goes through options."""
        counts = name == "count"
        high = f"{self.array('until')}[k]" if counts else "x"
        body = [f"q, resume, work = at[{AT_ANCHOR}], at[{AT_ENTRY}], 0"]
        if not counts:
            body += self.load("w", "entry", "x")
        loop = ["k = q"] if counts else ["k, am = alive[q], states[q]"]
        loop += [*self.load("y", "anchor", "k"), f"low, high = {self.array('first')}[k], {high}"]
        if self.weighted == 0:
            loop += [f"weight_of_anchor = {self.array('weight', dtype='uint64')}[k]"]
        totals = [self._total(kind, s) for s in self.summed for kind in self.kinds]
        loop += [f"{total} = ZERO" for total in totals] + [f"n{s} = 0" for s in self.listed]
        if self.listed:
            loop += ["if resume >= 0:", "    low = resume"]
            loop += [f"    {total} = {self._scratch('totals')}[{i}]" for i, total in enumerate(totals)]
            loop += [f"    n{s} = at[{2 + i}]" for i, s in enumerate(self.listed)]
        step = [f"m = {self.array('mask', dtype=self.mask_dtype)}[e]", *self.load("x", "entry", "e")]
        for t in self.states:
            step += self._into(t)
        step += self._keep()
        step += self._result() if counts else self._option()
        loop += [over("low", "high").replace("for r", "for e"), *indented(step)]
        if self.listed:
            pause = [f"at[{AT_ANCHOR}], at[{AT_ENTRY}] = q, np.int64(e) + 1"]
            pause += [f"{self._scratch('totals')}[{i}] = {total}" for i, total in enumerate(totals)]
            pause += [f"at[{2 + i}] = n{s}" for i, s in enumerate(self.listed)]
            loop += indented(["if work > work_limit:", *indented([*pause, "return q"])])
        loop += ["q, resume, work = q + 1, -1, work + max(0, high - low) + 1"]
        body += ["while q < stop and work <= work_limit:", *indented(loop)]
        body += [f"at[{AT_ANCHOR}], at[{AT_ENTRY}] = q, -1", "return q"]
        arguments = [("stop", "T.int64"), ("work_limit", "T.int64"), ("modulus", "T.uint64"), ("at", "I1")]
        if not counts:
            arguments += [("x", "T.int64"), ("alive", "I1"), ("states", "I1")]
        array_type = "F1" if self.dtype == "float64" else "U1"
        outputs = [("out", array_type)] + ([] if self.weighted is None else [("out_sum", array_type)])
        constants = (f"ZERO, ONE = np.{self.dtype}(0), np.{self.dtype}(1)",)
        return self.module(name, arguments, [line for line in body if line], outputs, constants=constants)

    def _into(self, t: int) -> list[str]:
        """Return the lines that compute z and zw, the numbers of paths that end with entry e in state t."""
        parts: dict[str, list[str]] = {kind: [] for kind in self.kinds}
        sums = []
        for e in self.graph.into(t):
            s = self.graph.edges[e].source
            if s == 0:
                test = self.enters(e)
                begun = {"z": "ONE", "zw": "weight_of_anchor" if self.weighted == 0 else None}
                for kind in self.kinds:
                    if begun[kind]:
                        parts[kind].append(
                            begun[kind] if test is None else f"({begun[kind]} if {test} else ZERO)"
                        )
            elif self.is_free(e):
                for kind in self.kinds:
                    parts[kind].append(self._total(kind, s))
            else:
                sums += self._sum(e)
        whole = {kind: " + ".join(summands) or "ZERO" for kind, summands in parts.items()}
        accepts = self.accepts(t)
        weighs = self.weighted is not None and self.graph.states[t].component == self.weighted
        after = [f"zw += {self.array('weight', dtype='uint64')}[e] * z"] if weighs else []
        lines = []
        if not sums and not self.is_costly_state(t):
            lines += [f"{kind} = {whole[kind]} if {accepts} else ZERO" for kind in self.kinds]
            lines += [*self._reduced("z"), *after, *self._reduced(*self.kinds[1:])]
        else:
            lines += [f"{kind} = ZERO" for kind in self.kinds]
            accepted = [
                *(f"{kind} = {whole[kind]}" for kind in self.kinds), *sums, *self._reduced(*self.kinds),
            ]  # fmt: skip
            accepted += [*after, *(self._reduced("zw") if after else [])]
            lines += [f"if {accepts}:", *indented(accepted)]
        return [*lines, *(f"{kind}{t} = {kind}" for kind in self.kinds)]

    def is_costly_state(self, t: int) -> bool:
        """Return whether a condition on an entry in the state calls a function of the user."""
        terms = [*self.graph.given[self.graph.states[t].component]]
        terms += [term for e in self.graph.into(t) for term in self.graph.link(e).terms]
        return any(map(self.is_costly, terms))

    def _sum(self, e: int) -> list[str]:
        """Return the lines that add to z what an edge brings from the entries in the list of its source."""
        s, link = self.graph.edges[e].source, self.graph.link(e)
        names = {leaf: self.columns.index(leaf.column) for leaf in link.earlier}
        earlier = {leaf: self._cell(i, self._kept(s, i), "r") for leaf, i in names.items()}
        limits = [f"{self.array('listlater', s)}[r] <= e"] if self.strict else []
        limits += [f"{self.array('listgap', s)}[r] > e"] if self.has_gap else []
        test = self.test(link.terms, *limits, earlier=earlier)
        lines = [f"work += n{s}", over("0", f"n{s}")]
        return lines + [f"    {kind} += {self._list(kind, s)}[r] if {test} else ZERO" for kind in self.kinds]

    def _kept(self, s: int, i: int) -> str:
        """Return the array with column ``i`` of the entries in the list of state ``s``."""
        return self.array("listcolumn", s, i, dtype=self.dtypes[self.columns[i]])

    def _keep(self) -> list[str]:
        """Return the lines that add the numbers of entry e to the totals, or to the lists, of its states."""
        lines = []
        for s in self.summed:
            for kind in self.kinds:
                total = self._total(kind, s)
                lines += [f"{total} += {kind}{s}", *self._reduced(total)]
        for s in self.listed:
            kept = [f"{self._list(kind, s)}[n{s}] = {kind}{s}" for kind in self.kinds]
            out = [e for e in self.graph.out_of(s) if not self.is_free(e)]
            columns = {self.columns.index(leaf.column) for e in out for leaf in self.graph.link(e).earlier}
            kept += [f"{self._kept(s, i)}[n{s}] = {self._values('entry', i)}[e]" for i in sorted(columns)]
            kept += [f"{self.array('listlater', s)}[n{s}] = {self.array('later')}[e]"] if self.strict else []
            kept += [f"{self.array('listgap', s)}[n{s}] = {self.array('gap')}[e]"] if self.has_gap else []
            some = " or ".join(f"{kind}{s} != ZERO" for kind in self.kinds)
            lines += [f"if {some}:", *indented([*kept, f"n{s} += 1"])]
        return lines

    def _add(self, out: str, names: list[str]) -> list[str]:
        """Return the lines that add variables to what the output ``out`` has for entry e."""
        if self.arithmetic == MODULAR:
            return [f"{out}[e] = ({out}[e] + {' + '.join(names)}) % modulus"]
        return [f"{out}[e] += {' + '.join(names)}"]

    def _result(self) -> list[str]:
        """Return the lines that add the matches that end with entry e to the output."""
        lines = self._add("out", [f"z{t}" for t in self.graph.finals])
        if self.weighted is not None:
            lines += self._add("out_sum", [f"zw{t}" for t in self.graph.finals])
        return lines

    def _option(self) -> list[str]:
        """Return the lines that add the matches in which entry e is just before entry x to the output."""
        lines = []
        for t in self.states:
            if ways := self.precedes(t):
                lines += [f"z = z{t} if {ways} else ZERO", *self._add("out", ["z"])]
        return lines


# Anchored graph → Python source of the kernels that walk over matches and follow one by its number.

_NEVER = 1 << 62


def write_reach(program: SequenceProgram, graph: AnchoredGraph, dtypes: Mapping[str, str]) -> CountingKernel:
    """Write the kernel that finds the first entry of each state for each anchor."""
    writer = AnchoredWriter(program, graph, dtypes)
    wanted = [s for s in writer.states if graph.out_of(s)]
    body = ["k, work = begin, 0", "while k < stop and work <= work_limit:"]
    loop = [*writer.load("y", "anchor", "k"), *(f"r{s} = NEVER" for s in wanted)]
    step = [f"m = {writer.array('mask', dtype=writer.mask_dtype)}[e]", *writer.load("x", "entry", "e")]
    for t in wanted:
        ways = []
        for e in graph.into(t):
            s = graph.edges[e].source
            ways += [(writer.enters(e) or "True") if s == 0 else f"(r{s} < e)"] if s != t else []
        test = writer.accepts(t, f"r{t} == NEVER", " | ".join(f"({way})" for way in ways))
        step += [f"if {test}:", f"    r{t} = e"]
    step += [f"if {' and '.join(f'r{s} < NEVER' for s in wanted)}:", "    break"] if wanted else []
    loop += [f"for e in range({writer.array('first')}[k], {writer.array('until')}[k]):", *indented(step)]
    loop += ["    work += 1", *(f"out[k * {writer.n_states} + {s}] = r{s}" for s in wanted)]
    loop += ["k, work = k + 1, work + 1"]
    body += [*indented(loop), "return k"]
    arguments = [("begin", "T.int64"), ("stop", "T.int64"), ("work_limit", "T.int64")]
    return writer.module("reach", arguments, body, [("out", "I1")], constants=(f"NEVER = {_NEVER}",))


class AnchoredWalkWriter(AnchoredWriter):
    """Writes the kernel that finds all matches in canonical order, and one that narrows a path's anchors."""

    # The walk goes from the last event of a match back to the first. Depth d of its path has ``entry[d]``,
    # and the anchors that are possible for the path so far: ``alive[begin[d]:begin[d + 1]]``, with the states
    # in which the entry can be. Anchors and earlier entries are tried in the order of their places.

    def _leads(self, t: int) -> str | None:
        """Return the code that is true if a path from anchor k to entry e in state t may exist; None: yes."""
        tests = [self.enters(e) for e in self.graph.into(t) if self.graph.edges[e].source == 0]
        if None in tests:
            return None
        ways = list(filter(None, tests))
        for e in self.graph.into(t):
            s = self.graph.edges[e].source
            if s > 0:
                ways.append(f"{self.array('reach')}[k * {self.n_states} + {s}] < e")
        return " | ".join(f"({way})" for way in ways)

    @cached_property
    def _prunes(self) -> bool:
        """Whether a path may be unable to begin with its anchor; if not, only its last event can mislead."""
        return any(self._leads(t) is not None for t in self.states if self.graph.out_of(t))

    def _new_states(self, condition_on: Callable[[int], str | None], prunes: bool = True) -> list[str]:
        """Return the lines that write the mask of the states in which entry e can be to ``new``."""
        # ``condition_on(t)`` returns the code of a condition for state t, or None if e cannot be in t.
        bits = []
        for t in self.states:
            if (condition := condition_on(t)) is None:
                continue
            leads = self._leads(t) if prunes else None
            test = self.accepts(t, *filter(None, [condition, leads]))
            bits.append(f"({1 << t} if {test} else 0)")
        return [f"new = {' | '.join(bits) or '0'}"]

    def _narrow(self, high: str, out_alive: str, out_states: str, n: str) -> list[str]:
        """Return the lines that write which anchors of ``alive`` stay possible when entry e precedes x."""
        lines = [f"for q in range(low, {high}):", "    k, am = alive[q], states[q]"]
        body = [*self.load("y", "anchor", "k"), *self._new_states(self.precedes)]
        body += [f"{out_alive}[{n}], {out_states}[{n}] = k, new"]
        body += [f"{n} += 1 if (new != 0) & ({self.array('first')}[k] <= e) else 0"]
        return [*lines, *indented(body)]

    def _finish(self, low: str, high: str, n: str, out_alive: str, out_states: str) -> list[str]:
        """Return the lines that write the anchors for which entry e can be the last event of a match."""
        body = [*self.load("y", "anchor", "k")]
        body += self._new_states(lambda t: "True" if self.graph.states[t].is_final else None, self._prunes)
        body += ["if new != 0:", f"    {out_alive}[{n}], {out_states}[{n}] = k, new", f"    {n} += 1"]
        return [f"for k in range({low}, {high}):", *indented(body)]

    def _is_leaf(self) -> str:
        """Return the code that is true if anchor k can directly precede entry x in a state of the mask am."""
        ways = []
        for e in self.graph.out_of(0):
            test = self.enters(e, "w", "x")
            bit = f"am & {1 << self.graph.edges[e].target} != 0"
            ways.append(f"(({bit}) & ({test}))" if test else f"({bit})")
        return " | ".join(ways)

    def _entry(self) -> list[str]:
        """Return the lines that load the mask and the columns of entry e."""
        return [f"m = {self.array('mask', dtype=self.mask_dtype)}[e]", *self.load("x", "entry", "e")]

    def narrowing(self) -> CountingKernel:
        """Write the kernel that leaves, of a path's anchors, those that a further entry e keeps possible."""
        body = ["n = 0", *self._entry(), "if x < 0:"]
        body += indented(self._finish("low", "stop", "n", "out_alive", "out_states"))
        body += ["    return n", *self.load("w", "entry", "x")]
        body += self._narrow("stop", "out_alive", "out_states", "n")
        leaf = [*self.load("y", "anchor", "k"), f"leaves[q] = 1 if {self._is_leaf()} else 0"]
        body += ["for q in range(low, stop):", "    k, am = alive[q], states[q]", *indented(leaf), "return n"]
        arguments = [(name, "T.int64") for name in ("x", "e", "low", "stop")]
        arguments += [("alive", "I1"), ("states", "I1")]
        outputs = [("out_alive", "I1"), ("out_states", "I1"), ("leaves", "I1")]
        return self.module("narrow", arguments, body, outputs)

    def walk(self) -> CountingKernel:
        """Write the kernel that finds all matches in canonical order."""
        goes_on = sum(1 << s for s in self.states if self.graph.out_of(s))
        mask, first = self.array("mask", dtype=self.mask_dtype), self.array("first")
        lines_of_name = {
            "FINISH": self._finish("lowest[number]", "highest[number]", "n", "alive", "states"),
            "NARROW": self._narrow("j", "alive", "states", "n"), "ENTRY": self._entry(),
            "SHORT": _SHORT if self._takes_three else [], "TARGET": self.load("w", "entry", "x"),
            "ANCHOR": self.load("y", "anchor", "k"), "COMPONENT": self._component(),
        }  # fmt: skip
        text = _WALK.replace("IS_LEAF", self._is_leaf())
        body = []
        for line in text.splitlines():
            name = line.strip()
            indent = (len(line) - len(line.lstrip())) // 4
            body += indented(lines_of_name[name], indent) if name in lines_of_name else [line]
        body = [
            line.replace("MASK", mask).replace("FROM", first).replace("GOES_ON", str(goes_on))
            for line in body
        ]
        outputs = [("out_position", "I1"), ("out_component", 'T.Array(T.int16, 1, "C")')]
        outputs += [("out_first", "I1"), ("report", "I1")]
        arguments = [("stop", "T.int64"), ("work_limit", "T.int64")]
        names = ["ends", "lowest", "highest", "position", "position_of_anchor", "place", "place_of_anchor"]
        arguments += [(name, "read_only(T.int64)") for name in names]
        arguments += [("component", "read_only(T.int16)")]
        arguments += [(name, "I1") for name in ("entry", "turn", "cursor", "begin", "alive", "states")]
        return self.module("walk", arguments, body, outputs)

    @property
    def _takes_three(self) -> bool:
        """Whether every match has an entry between its anchor and its last event."""
        return not any(self.graph.states[self.graph.edges[e].target].is_final for e in self.graph.out_of(0))

    def _component(self) -> list[str]:
        """Return the lines that write the component of event i, of d + 2 events, to ``out_component[p]``."""
        components = self.graph.branch.branch.components
        if len(self.graph.loops) > 1:
            return ["out_component[p] = component[entry[d + 1 - i]]"]
        loop = (*self.graph.loops, len(components))[0]  # without a loop, no event has this component
        before = [c for c in range(loop) for _ in range(components[c].low)]
        after = [c for c in range(loop + 1, len(components)) for _ in range(components[c].low)]
        code = str(loop)
        if after:
            for number, c in enumerate(after):
                code = f"({c} if i == d + {2 - len(after) + number} else {code})"
        for number, c in enumerate(before):
            code = f"({c} if i == {number} else {code})"
        return [f"out_component[p] = {code}"]


# Skips an end before which no entry can follow an anchor.
_SHORT = """j = e - 1
if lowest[number] < highest[number]:
    low = FROM[lowest[number]]
    while j >= low and MASK[j] & GOES_ON == 0:
        j -= 1
    if j < low:
        continue
else:
    continue""".splitlines()
# The walk. ``turn[d]`` is the next anchor of depth d, and ``cursor[d]`` the next entry.
_WALK = f"""number, d, work = report[{END}], report[{DEPTH}], 0
n_matches, n_items, reason = report[{N_MATCHES}], report[{N_ITEMS}], 0
while True:
    if d < 0:
        number += 1
        if number >= stop:
            report[{DONE}] = 1
            break
        if highest[number] - lowest[number] + 1 > len(alive):
            number, reason = number - 1, {DEEPER}
            break
        e, n = ends[number], 0
        work += highest[number] - lowest[number] + 1
        SHORT
        ENTRY
        FINISH
        if n == 0:
            continue
        entry[0], begin[0], turn[0], begin[1] = e, 0, 0, n
        cursor[0], d = FROM[alive[0]], 0
    x, low, high = entry[d], begin[d], begin[d + 1]
    j, e = turn[d], cursor[d]
    while e < x and MASK[e] & GOES_ON == 0:
        e += 1
    cursor[d] = e
    if j < high and (e >= x or place_of_anchor[alive[j]] <= place[e]):
        k, am = alive[j], states[j]
        TARGET
        ANCHOR
        if IS_LEAF:
            if n_matches + 1 >= len(out_first) or n_items + d + 2 > len(out_position):
                reason = {FULL} if n_matches else {LONGER}
                break
            out_position[n_items], out_component[n_items] = position_of_anchor[k], 0
            p = n_items + 1
            for i in range(1, d + 2):
                out_position[p] = position[entry[d + 1 - i]]
                COMPONENT
                p += 1
            n_items += d + 2
            n_matches += 1
            out_first[n_matches] = n_items
        turn[d] = j + 1
        continue
    if e >= x:
        d -= 1
        continue
    if work > work_limit:
        break
    if d + 3 > len(entry) or high + (j - low) + 1 > len(alive):
        reason = {DEEPER}
        break
    work += j - low + 1
    cursor[d] = e + 1
    n = high
    TARGET
    ENTRY
    NARROW
    if n > high:
        d += 1
        entry[d], begin[d + 1], turn[d] = e, n, high
        cursor[d] = FROM[alive[high]]
report[{END}], report[{DEPTH}], report[{REASON}] = number, d, reason
report[{N_MATCHES}], report[{N_ITEMS}] = n_matches, n_items
"""
