"""State graph → code of the conditions between two events, and of the nearest event that a link forbids."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from cepkit.compile.counting.state_graph import LinkAbsence, StateGraph, elements_of
from cepkit.compile.sequences.program import SequenceProgram
from cepkit.compile.shared.bound_query import Inputs, Term
from cepkit.compile.shared.term_writing import VECTOR, TermWriter, decorator, module_header
from cepkit.events import LIST

Key = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class CountingKernel:
    """The text of a module, the name of its function, and the keys of the arrays that the function reads.

    The arrays come in the order of the keys, before the constants. A writer may add keys to these:

    - ``("members", pool)``: the places that pass the pool's test, int64, ascending
    - ``("column", pool, i)``: the values of column i at these places
    - ``("ends", source pool, target pool)``: for each member of the target pool, how many of the source pool
    may precede it
    - ``("begins", link)``: for each member of the target pool, the first of the source pool that absences and
    gap allow
    - ``("limit", link)``: for each member of the source pool, the last place for the next event

    """

    text: str
    name: str
    arrays: tuple[Key, ...]


class ConditionWriter(TermWriter):
    """Writes the code of the conditions between two events; no other module writes conditions of links."""

    def __init__(self, program: SequenceProgram, graph: StateGraph, dtypes: Mapping[str, str]):
        # Conditions on single events are left out: graphs that differ in these alone share their kernels.
        terms = graph.terms
        functions, python = tuple(program.functions), not program.compiled
        used = {leaf.data[-1] for leaf in elements_of(terms)}
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
        """Return the name of an element in the code being written."""
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
        self,
        terms: tuple[Term, ...],
        *,
        vectors: Mapping[Term, str],
        scalars: Mapping[Term, str],
        bounds: Iterable[tuple[str, str, str]] = (),
        at: str = "r",
    ) -> tuple[list[str], str]:
        """Return the lines before a loop over ``at``, and the code that is true where all terms hold."""
        lines = []
        for leaf, array in vectors.items():
            if leaf.kind == LIST:
                self.names[leaf] = array if "," in array else f"{array}, {at}"
            else:
                self.names[leaf] = self.wide(leaf.data[-1], f"{array}[{at}]")
        for leaf, value in scalars.items():
            column = leaf.data[-1]
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
        self,
        name: str,
        arguments: list[tuple[str, str]],
        body: list[str],
        outputs: list[tuple[str, str]],
        *,
        reorders_sums: bool = False,
        constants: Iterable[str] = (),
    ) -> CountingKernel:
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
    """Return the name of the array of a key."""
    return "".join([str(key[0]), "_".join(map(str, key[1:]))])


def over(low: str | int, high: str) -> str:
    """Return the head of a loop over r. Unsigned numbers let it become vector instructions."""
    return f"for r in range(np.uint64({low}), np.uint64({high})):"


def indented(lines: Iterable[str], by: int = 1) -> list[str]:
    """Return the lines with ``by`` more levels of indentation."""
    return ["    " * by + line for line in lines]


# Absences → Python source of the kernel that finds the nearest event that a link forbids.


def write_absence(writer: ConditionWriter, link: int, absence: LinkAbsence) -> CountingKernel:
    """Write the kernel that finds where an absence with conditions on one neighbour forbids a link.

    Blocks of events are tested at once, up to the first one with a hit.
    """
    graph, graph_link = writer.graph, writer.graph.links[link]
    ahead = absence.side == "earlier"
    pool = graph.pool_of_component(graph_link.source if ahead else graph_link.target)
    absent = graph.tests.index(absence.test)
    every = elements_of(absence.terms)
    absent_leaves = [leaf for leaf in every if leaf.data[0] == absence.variable]
    lines, test = writer.condition(
        absence.terms,
        vectors={leaf: writer.column(absent, leaf.data[-1]) for leaf in absent_leaves},
        scalars={
            leaf: f"{writer.column(pool, leaf.data[-1])}[a]" for leaf in every if leaf not in absent_leaves
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
