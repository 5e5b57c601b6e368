"""Edges of a chain → code: what arrays a kernel gets, and the conditions on the two events of an edge."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from cepkit.compile.chain import Chain, EdgeAbsence
from cepkit.compile.regex.matching_source import decorator, module_header
from cepkit.compile.sequences.program import SequenceProgram
from cepkit.compile.shared.term_writing import VECTOR, TermWriter
from cepkit.compile.shared.terms import Term
from cepkit.events import LIST

Key = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class ChainKernel:
    """The text of a module, and keys of the arrays that its function gets, in order, before the constants.

    Keys are ``("members", pool)`` int64 places that pass the test of the pool, ascending; ``("column", pool,
    i)`` column i at these places; ``("ends", source pool, target pool)`` per member of the target pool how
    many of the source pool may precede it; ``("begins", edge)`` per member of its target pool the first of
    the source pool that absences and gap leave; ``("limit", edge)`` per member of its source pool the last
    place where the next event may be; and what a writer adds.
    """

    text: str
    name: str
    arrays: tuple[Key, ...]


@dataclass(frozen=True)
class ChainShape:
    """What the kernels of a chain depend on besides its terms.

    A pool is the places that pass one test; states with the same test share it.
    """

    chain: Chain
    has_gap: bool

    @cached_property
    def tests(self) -> tuple[int, ...]:
        """The test of each pool."""
        tests = [state.test for state in self.chain.states]
        tests += [absence.test for edge in self.chain.edges for absence in edge.absences]
        return tuple(dict.fromkeys(tests))

    def pool(self, state: int) -> int:
        """Return the pool of a state's events."""
        return self.tests.index(self.chain.states[state].test)

    def into(self, state: int) -> list[int]:
        """Return the edges that lead into a state."""
        return [e for e, edge in enumerate(self.chain.edges) if edge.target == state]

    def out_of(self, state: int) -> list[int]:
        """Return the edges that lead out of a state."""
        return [e for e, edge in enumerate(self.chain.edges) if edge.source == state]

    def is_one(self, state: int) -> bool:
        """Whether exactly one partial match ends in every member of the pool: it begins there."""
        return self.chain.states[state].is_first and not self.into(state)

    @cached_property
    def stored(self) -> tuple[int, ...]:
        """The states whose numbers of partial matches are kept, in order."""
        states = range(len(self.chain.states))
        return tuple(s for s in states if self.out_of(s) and not self.is_one(s))

    @cached_property
    def finals(self) -> tuple[int, ...]:
        """The states in which a match may end; all of the last component, so they share a pool."""
        return tuple(s for s, state in enumerate(self.chain.states) if state.is_final)

    def has_begins(self, edge: int) -> bool:
        """Whether something besides the window bounds how far back the edge reaches."""
        return self.has_gap or any(a.side != "earlier" for a in self.chain.edges[edge].absences)

    def has_limit(self, edge: int) -> bool:
        """Whether an absence bounds how far ahead the edge reaches, for each of its first events."""
        return any(a.side == "earlier" for a in self.chain.edges[edge].absences)


class EdgeWriter(TermWriter):
    """Writes conditions on two events; the arrays that the code reads become arguments of the kernel."""

    def __init__(self, program: SequenceProgram, chain: Chain, dtypes: Mapping[str, str]):
        super().__init__(program.terms(), {}, tuple(program.functions), python=not program.compiled)
        self.dtypes = dict(dtypes)
        self.numbers = list(dtypes)  # columns are known to the text by number
        self.user_functions = bool(program.functions)
        self.chain = chain
        self.shape = ChainShape(chain, program.window.gap_within is not None)
        self.names: dict[Term, str] = {}
        self.found: dict[Key, str] = {}  # arrays and their numba types

    def leaf(self, term: Term) -> str:
        """Return the name of the element in the code being written."""
        return self.names[term]

    def similarity(self, term: Term) -> str:
        """Return the code of a function of two arrays; the name of one is its column and row."""
        return f"{term.data}({', '.join(map(self.leaf, term.args))})"

    # --- arrays

    def array(self, *key: str | int, dtype: str = "int64") -> str:
        """Return the name of the array of a key, which becomes an argument of the kernel."""
        item, n_axes = ("float64", 2) if dtype == VECTOR else (dtype, 1)
        self.found[key] = f'T.Array(T.{item}, {n_axes}, "C")'
        return self.array_name(key)

    def column(self, pool: int, name: str) -> str:
        """Return the name of the array of a column at the members of a pool."""
        return self.array("column", pool, self.numbers.index(name), dtype=self.dtypes[name])

    def wide(self, name: str, text: str) -> str:
        """Return the code of a value of column ``name`` in the width that terms compute with."""
        dtype = self.dtypes[name]
        if dtype in ("int64", "float64", "object"):
            return text
        return f"np.{'float64' if dtype == 'float32' else 'int64'}({text})"

    def ends(self, edge: int) -> str:
        """Return the name of the array of how many members may precede each one of the target."""
        of = self.chain.edges[edge]
        return self.array("ends", self.shape.pool(of.source), self.shape.pool(of.target))

    # --- conditions

    def leaves_of(self, edge: int) -> tuple[list[Term], list[Term]]:
        """Return the leaves of the edge's terms: of its earlier and of its later event."""
        of = self.chain.edges[edge]
        every = list(dict.fromkeys(t for root in of.terms for t in root.walk() if t.op == "element"))
        return [t for t in every if t in of.earlier], [t for t in every if t not in of.earlier]

    def tested(
        self,
        terms: tuple[Term, ...],
        *,
        vectors: Mapping[Term, str],
        scalars: Mapping[Term, str],
        bounds: Iterable[tuple[str, str, str]] = (),
    ) -> tuple[list[str], str | None]:
        """Return the lines before a loop over r and the code that is true at r when all holds, None for all.

        Parameters
        ----------
        terms : tuple of Term
            What is tested.
        vectors : mapping of Term to str
            Leaves that are the value at r in an array; for array columns ``array, row``, or ``array``.
        scalars : mapping of Term to str
            Leaves that have one value, read before the loop.
        bounds : iterable of (str, str, str)
            Array, sign, value: further tests at r.
        """
        lines = []
        for leaf, array in vectors.items():
            if leaf.kind == LIST:
                self.names[leaf] = array if "," in array else f"{array}, r"
            else:
                self.names[leaf] = self.wide(leaf.data[-1], f"{array}[r]")
        for leaf, value in scalars.items():
            column = leaf.data[-1]
            if leaf.kind == LIST:
                self.names[leaf] = value.replace("[", ", ").removesuffix("]")
                continue
            self.names[leaf] = f"y{self.numbers.index(column)}"
            lines.append(f"{self.names[leaf]} = {self.wide(column, value)}")
        more = []
        for array, sign, value in bounds:
            lines.append(f"bound{len(more)} = {value}")
            more.append(f"{array}[r] {sign} bound{len(more)}")
        # Without jumps, unless a function of the user should be called only where it decides.
        sign = " and " if any(self.is_costly(term) for term in terms) else " & "
        parts = dict.fromkeys([*more, *map(self.true, sorted(terms, key=self.is_costly))])
        return list(dict.fromkeys(lines)), sign.join(f"({part})" for part in parts) or None

    # --- the module

    def module(
        self,
        name: str,
        arguments: list[tuple[str, str]],
        body: list[str],
        outputs: list[tuple[str, str]],
        *,
        reorders_sums: bool = False,
        constants: Iterable[str] = (),
    ) -> ChainKernel:
        """Return the module of one function: ``arguments``, the arrays found, constants, ``outputs``."""
        keys = tuple(self.found)
        names = [self.array_name(key) for key in keys]
        types = [*(t for _, t in arguments), *self.found.values(), *self.argument_types()]
        types += [t for _, t in outputs]
        names = [*(n for n, _ in arguments), *names, *self.arguments(), *(n for n, _ in outputs)]
        lines = [*module_header().splitlines(), *self.similarities]
        lines += ['U1 = T.Array(T.uint64, 1, "C")', *constants, "", ""]
        if not self.python:
            line = decorator(types, user_functions=self.user_functions)[0]
            more = 'nogil=True, fastmath={"reassoc"}' if reorders_sums else "nogil=True"
            lines.append(line.replace("nogil=True", more))
        lines += [f"def {name}({', '.join(names)}):", *("    " + line for line in body)]
        return ChainKernel("\n".join(lines) + "\n", name, keys)

    @staticmethod
    def array_name(key: Key) -> str:
        """Return the name of the array of a key."""
        return "".join([str(key[0]), "_".join(map(str, key[1:]))])


def over(low: str | int, high: str) -> str:
    """Return the head of a loop over r that becomes vector instructions, which signed numbers do not."""
    return f"for r in range(np.uint64({low}), np.uint64({high})):"


def indented(lines: Iterable[str], by: int = 1) -> list[str]:
    """Return the lines further to the right."""
    return ["    " * by + line for line in lines]


def write_killing(
    program: SequenceProgram,
    chain: Chain,
    dtypes: Mapping[str, str],
    edge: int,
    absence: EdgeAbsence,
) -> ChainKernel:
    """Write the kernel that finds where an absence with conditions on one neighbour forbids an edge.

    Returns
    -------
    ChainKernel
        ``kills(*arrays, *constants, first, stop, out)`` writes for member a of the neighbour's pool the place
        of the nearest event that must not occur, among members ``first[a]`` to ``stop[a]`` of the absent
        event's pool: behind it (``side`` earlier; else far ahead) or before it (later; else -1).

    Notes
    -----
    Time O(members x events looked at); blocks of events are tested at once, up to the first one with a hit.
    """
    writer = EdgeWriter(program, chain, dtypes)
    shape, of = writer.shape, chain.edges[edge]
    ahead = absence.side == "earlier"
    pool = shape.pool(of.source if ahead else of.target)
    absent = shape.tests.index(absence.test)
    every = list(dict.fromkeys(t for root in absence.terms for t in root.walk() if t.op == "element"))
    own = [leaf for leaf in every if leaf.data[0] == absence.variable]
    lines, test = writer.tested(
        absence.terms,
        vectors={leaf: writer.column(absent, leaf.data[-1]) for leaf in own},
        scalars={leaf: f"{writer.column(pool, leaf.data[-1])}[a]" for leaf in every if leaf not in own},
    )
    body = [
        f"for a in range(len({writer.array('members', pool)})):",
        "    low, high = first[a], stop[a]",
        f"    found = {1 << 62 if ahead else -1}",
        *indented(lines),
        "    while low < high:",
        f"        {'b, c = low, min(high, low + 64)' if ahead else 'b, c = max(low, high - 64), high'}",
        "        some = 0",
        f"        {over('b', 'c')}",
        f"            some |= 1 if {test} else 0",
        "        if some:",
        f"            for r in range({'b, c' if ahead else 'c - 1, b - 1, -1'}):",
        f"                if {test}:",
        f"                    found = {writer.array('members', absent)}[r]",
        "                    break",
        "            break",
        f"        {'low = c' if ahead else 'high = b'}",
        "    out[a] = found",
    ]
    return writer.module("kills", [], body, [("first", "I1"), ("stop", "I1"), ("out", "I1")])


def write_reaching(program: SequenceProgram, chain: Chain, dtypes: Mapping[str, str]) -> ChainKernel:
    """Write the kernel that finds the best begin and end of a match through every event.

    Returns
    -------
    ChainKernel
        ``reach(*arrays, *constants)``. ``("since", pool)`` are the first places in whose window the members
        are, ``("until", pool)`` the first behind their window. Written are ``("latest", state)``, the latest
        place where a partial match may begin that ends in the member within its window (-1: none), and
        ``("earliest", state)``, the earliest place where such a match may end that goes on from it (far
        ahead: nowhere).

    Notes
    -----
    Time O(edges within a window). Conditions link neighbours only, so the latest begin and the earliest end
    belong to one match, and it is within the window when any match through the event is.
    """
    writer = EdgeWriter(program, chain, dtypes)
    states = range(len(chain.states))
    body = [line for t in states for line in _latest(writer, t)]
    body += [line for s in reversed(states) for line in _earliest(writer, s)]
    return writer.module("reach", [], body, [], constants=[f"FAR = {1 << 62}"])


def _latest(writer: EdgeWriter, t: int) -> list[str]:
    shape, pool = writer.shape, writer.shape.pool(t)
    members = writer.array("members", pool)
    lines = [*(f"low{e} = 0" for e in shape.into(t)), f"for x in range(len({members})):"]
    body = [f"z = {f'{members}[x]' if writer.chain.states[t].is_first else -1}"]
    body += [f"w = {writer.array('since', pool)}[x]"]
    for e in shape.into(t):
        of = writer.chain.edges[e]
        source = shape.pool(of.source)
        before = writer.array("members", source)
        body += [f"while low{e} < len({before}) and {before}[low{e}] < w:", f"    low{e} += 1"]
        body += [f"a, b = low{e}, {writer.ends(e)}[x]"]
        if shape.has_begins(e):
            body += [f"a = max(a, {writer.array('begins', e)}[x])"]
        bounds = [(writer.array("limit", e), ">=", f"{members}[x]")] if shape.has_limit(e) else []
        earlier, later = writer.leaves_of(e)
        inner, test = writer.tested(
            of.terms, bounds=bounds,
            vectors={leaf: writer.column(source, leaf.data[-1]) for leaf in earlier},
            scalars={leaf: f"{writer.column(pool, leaf.data[-1])}[x]" for leaf in later},
        )  # fmt: skip
        value = f"{writer.array('latest', of.source)}[r]"
        inner += [over("a", "b"), f"    u = {value if test is None else f'{value} if {test} else -1'}"]
        body += ["if a < b:", *indented([*inner, "    z = u if u > z else z"])]
    body += [f"{writer.array('latest', t)}[x] = z if z >= w else -1"]
    return [*lines, *indented(body)]


def _earliest(writer: EdgeWriter, s: int) -> list[str]:
    shape, pool = writer.shape, writer.shape.pool(s)
    members = writer.array("members", pool)
    lines = []
    body = [f"z = {f'{members}[x]' if writer.chain.states[s].is_final else 'FAR'}"]
    body += [f"w = {writer.array('until', pool)}[x]"]
    for e in shape.out_of(s):
        of = writer.chain.edges[e]
        target = shape.pool(of.target)
        behind, ends = writer.array("members", target), writer.ends(e)
        lines += [f"low{e} = high{e} = len({behind})"]
        body += [f"while low{e} > 0 and {ends}[low{e} - 1] > x:", f"    low{e} -= 1"]
        body += [f"while high{e} > 0 and {behind}[high{e} - 1] >= w:", f"    high{e} -= 1"]
        bounds = [(writer.array("begins", e), "<=", "x")] if shape.has_begins(e) else []
        bounds += [(behind, "<=", f"{writer.array('limit', e)}[x]")] if shape.has_limit(e) else []
        earlier, later = writer.leaves_of(e)
        inner, test = writer.tested(
            of.terms, bounds=bounds,
            vectors={leaf: writer.column(target, leaf.data[-1]) for leaf in later},
            scalars={leaf: f"{writer.column(pool, leaf.data[-1])}[x]" for leaf in earlier},
        )  # fmt: skip
        value = f"{writer.array('earliest', of.target)}[r]"
        inner += [over(f"low{e}", f"high{e}")]
        inner += [f"    u = {value if test is None else f'{value} if {test} else FAR'}"]
        body += [f"if low{e} < high{e}:", *indented([*inner, "    z = u if u < z else z"])]
    body += [f"{writer.array('earliest', s)}[x] = z"]
    return [*lines, f"for x in range(len({members}) - 1, -1, -1):", *indented(body)]
