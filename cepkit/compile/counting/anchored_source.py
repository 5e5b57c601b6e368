"""Anchored graph → what its kernels share: the arrays that they read, and the code of conditions.

The kernels read *anchors*, the events that may be the first of a match, and *entries*, the events that any
other state accepts. Both are in the order of their places. The entries of an anchor are those in its window:
from ``first[k]`` to ``until[k]``. ``mask[e]`` has a bit for each state that accepts entry e.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cepkit.compile.counting.anchored_graph import AnchoredGraph
from cepkit.compile.counting.conditions import ConditionWriter, Key
from cepkit.compile.counting.state_graph import elements_of
from cepkit.compile.sequences.program import SequenceProgram
from cepkit.compile.shared.terms import Term


@dataclass(frozen=True, slots=True)
class AnchoredKernel:
    """The text of a module, the name of its function, and the keys of the arrays that the function reads.

    - ``("first",)``, ``("until",)``: the entries in the window of each anchor
    - ``("near",)``: for each anchor, the first entry that is too late to be the next event
    - ``("mask",)``: for each entry, the states that accept it
    - ``("later",)``: for each entry, the first one that may follow it
    - ``("gap",)``: for each entry, the first one that is too late to be the next event
    - ``("anchor", i)``, ``("entry", i)``: the values of column i at the anchors and at the entries
    - ``("reach",)``: for each anchor and state, the first entry that is in this state on a path
    - ``("weight",)``: the weight of each entry, or of each anchor
    - all others: scratch arrays with a cell per state, or per entry in a window (``list…``)

    """

    text: str
    name: str
    arrays: tuple[Key, ...]


class AnchoredWriter(ConditionWriter):
    """Writes the kernels of an anchored graph; see `ConditionWriter` for the parameters.

    In the code, y0… are columns of the anchor k, x0… those of the entry e, and w0… those of the entry x that
    follows e in the match.

    """

    def __init__(self, program: SequenceProgram, graph: AnchoredGraph, dtypes: Mapping[str, str]):
        super().__init__(program, graph, dtypes)
        self.n_states = len(graph.states)
        self.states = range(1, self.n_states)
        self.has_gap, self.strict = graph.has_gap, program.window.strict_time
        leaves = elements_of(graph.terms)
        number = {leaf: self.columns.index(leaf.data[-1]) for leaf in leaves}
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
        self,
        terms: tuple[Term, ...],
        *more: str,
        earlier: Mapping[Term, str] | None = None,
        later: str = "x",
    ) -> str | None:
        """Return the code that is true where the terms and the code in ``more`` hold; None: always.

        ``earlier`` has the code of the leaves that read the earlier entry of a link. Leaves that read no
        anchor either are columns with the prefix ``later``.

        """
        for leaf in elements_of(terms):
            i = self.columns.index(leaf.data[-1])
            if leaf.data[0] == self.graph.anchor:
                self.names[leaf] = f"y{i}"
            else:
                self.names[leaf] = (earlier or {}).get(leaf, f"{later}{i}")
        parts = dict.fromkeys([*more, *map(self.true, sorted(terms, key=self.is_costly))])
        sign = " and " if any(map(self.is_costly, terms)) else " & "
        return sign.join(f"({part})" for part in parts) if parts else None

    def accepts(self, state: int, *more: str) -> str:
        """Return the code that is true if entry e with the mask m may be in the state."""
        own = self.graph.given[self.graph.states[state].component]
        return self.test(own, f"m & {1 << state} != 0", *more)

    def enters(self, e: int, later: str = "x", entry: str = "e") -> str | None:
        """Return the code that is true if an edge leads from the anchor to an entry; None: always."""
        near = [f"{entry} < {self.array('near')}[k]"] if self.has_gap else []
        return self.test(self.graph.link(e).terms, *near, later=later)

    def follows(self, e: int) -> str | None:
        """Return the code that is true if an edge leads from entry e to entry x; None: always."""
        link = self.graph.link(e)
        earlier = {leaf: f"x{self.columns.index(leaf.data[-1])}" for leaf in link.earlier}
        limits = [f"{self.array('later')}[e] <= x"] if self.strict else []
        limits += [f"{self.array('gap')}[e] > x"] if self.has_gap else []
        return self.test(link.terms, *limits, earlier=earlier, later="w")

    def is_free(self, e: int) -> bool:
        """Return whether any entry may follow any earlier one along an edge."""
        return not (self.graph.link(e).terms or self.strict or self.has_gap)

    def precedes(self, t: int) -> str | None:
        """Return the code that is true if entry e in state t can precede entry x, in a state of ``am``."""
        ways = []
        for e in self.graph.out_of(t):
            test = self.follows(e)
            bit = f"am & {1 << self.graph.edges[e].target} != 0"
            ways.append(f"(({bit}) & ({test}))" if test else f"({bit})")
        return f"({' | '.join(ways)})" if ways else None

    # --- modules

    def assemble(
        self,
        name: str,
        arguments: list[tuple[str, str]],
        body: list[str],
        outputs: list[tuple[str, str]],
        constants: tuple[str, ...] = (),
    ) -> AnchoredKernel:
        """Return the module with one function."""
        made = self.module(name, arguments, body, outputs, constants=constants)
        return AnchoredKernel(made.text, made.name, made.arrays)
