"""Write the Python source of a branch's kernels: conditions on a path, tests of events, and the search."""

# The search supports every strategy and condition. It walks depth first over partial matches, event by event,
# and can pause and continue at any event.

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from cepkit.compile.sequence_program import (
    EACH,
    EARLIER,
    LAST,
    PREVIOUS,
    BoundBranch,
    BoundCondition,
    SequenceProgram,
)
from cepkit.compile.shared.term_writing import (
    VECTOR,
    KernelSource,
    TermWriter,
    decorator,
    helper_lines,
    module_header,
    shared_text,
)
from cepkit.compile.shared.terms import Term
from cepkit.events import BOOLEAN, FLOAT, NULL_CODE, TEXT


class PathWriter(TermWriter):
    """Writes functions ``name(path, first, last, y, …)`` that test whether a condition holds on a path."""

    # The names in the code, beside the arrays, constants, tables and functions of `TermWriter`:
    # - ``path[d]``: the place of the event at depth d of the partial match; ``last``: the largest depth
    # - ``first[c]``: the depth at which component c begins; ``g1``: the depth in the loop of component 1
    # - ``y``: the place of an event outside the path: an absent event, or one that may end a loop
    # - ``v0``: the value of an event or an aggregate; ``v0_there``: whether the event exists
    # - ``v0_0``, ``v0_n``: a value that the aggregate takes, and how many it took so far

    def __init__(
        self, terms: Iterable[Term], dtypes: Mapping[str, str], functions: tuple[str, ...], *,
        is_group: tuple[bool, ...], python: bool,
    ):  # fmt: skip
        super().__init__(terms, dtypes, functions, python=python)
        self.is_group = is_group
        self.names: dict[Term, str] = {}
        self.parameters = ", ".join(["path", "first", "last", "y", *self.arguments()])

    def leaf(self, term: Term) -> str:
        """Return the name of the element or aggregate in the current function; a column is that at ``y``."""
        return self.load(term.data, "y") if term.op == "column" else self.names[term]

    def valid(self, term: Term) -> list[str]:
        if term.op == "element" and term.args:
            return [f"{self.value(term)}_there"]
        return super().valid(term)

    def similarity(self, term: Term) -> str:
        """Return the code of a function of two arrays; null if one of the events is missing."""
        code = super().similarity(term)
        optional = [arg for arg in term.args if arg.op == "element" and isinstance(arg.data[1], int)]
        if not optional:
            return code
        return f"({code} if {' and '.join(f'{self.value(arg)} >= 0' for arg in optional)} else NAN)"

    def load(self, column: str, place: str) -> str:
        """Return the code that reads ``column`` at ``place``, in the width used for computation."""
        # For an array column, the code is the place itself.
        i = self.columns.index(column)
        dtype = self.dtypes[column]
        if dtype == VECTOR:
            return place
        if dtype in ("int64", "float64", "object"):
            return f"c{i}[{place}]"
        return f"np.{'float64' if dtype == 'float32' else 'int64'}(c{i}[{place}])"

    def condition(
        self, name: str, term: Term, component_of: Mapping[str, int], *, top: int, taking: int | None = None,
        taken: int | None = None, beside: str | None = None,
    ) -> list[str]:  # fmt: skip
        """Return the lines of the function ``name``."""
        body: list[str] = []
        depth = 1

        def add(*lines: str) -> None:
            body.extend("    " * depth + line for line in lines)

        def end(c: int) -> str:
            if c == taken:
                return f"g{c}"
            return "last" if c == top else f"first[{c + 1}] - 1"

        leaves = list(dict.fromkeys(_leaves(term)))
        elements = [leaf for leaf in leaves if leaf.op == "element"]
        groups = [leaf for leaf in leaves if leaf.op == "group"]
        back = {leaf.data[0] for leaf in elements if leaf.data[1] == PREVIOUS}
        back |= {leaf.data[1] for leaf in groups if leaf.data[2] == EARLIER}
        looped = [leaf.data[0] for leaf in elements if leaf.data[1] in (EACH, PREVIOUS)]
        looped += [leaf.data[1] for leaf in groups if leaf.data[2] == EARLIER]
        at: dict[str, str] = {}
        n_loops = 0
        for variable in dict.fromkeys(looped):
            if variable == beside:
                continue
            c = component_of[variable]
            if c == taking:
                if variable in back:
                    add(f"if last == first[{c}]:", "    return True")
                at[variable] = "last"
            elif self.is_group[c]:
                begin = f"first[{c}] + 1" if variable in back else f"first[{c}]"
                until = "last" if c == top else f"first[{c + 1}] - 1"
                add(f"for g{c} in range({begin}, {until} + 1):")
                at[variable] = f"g{c}"
                depth += 1
                n_loops += 1
            else:
                at[variable] = f"first[{c}]"
        self.names = {leaf: f"v{i}" for i, leaf in enumerate([*elements, *groups])}
        for leaf in elements:
            variable, which, column = leaf.data
            v = self.names[leaf]
            if variable == beside:
                add(f"{v} = {self.load(column, 'y')}")
            elif which in (EACH, PREVIOUS):
                back_by = " - 1" if which == PREVIOUS else ""
                add(f"{v} = {self.load(column, f'path[{at[variable]}{back_by}]')}")
            elif which == LAST:
                add(f"{v} = {self.load(column, f'path[{end(component_of[variable])}]')}")
            else:
                c = component_of[variable]
                add(f"{v} = {_null(leaf)}", f"{v}_there = first[{c}] + {which - 1} <= {end(c)}")
                add(f"if {v}_there:")
                add(f"    {v} = {self.load(column, f'path[first[{c}] + {which - 1}]')}")
        for leaf in groups:
            c = component_of[leaf.data[1]]
            until = f"{at[leaf.data[1]]} - 1" if leaf.data[2] == EARLIER else end(c)
            add(*self._group(leaf, f"first[{c}]", until))
        holds = self.true(term)
        add(*([f"if not {holds}:", "    return False"] if n_loops else [f"return {holds}"]))
        if n_loops:
            body.append("    return True")
        return [f"def {name}({self.parameters}):", *body]

    def _group(self, leaf: Term, low: str, high: str) -> list[str]:
        """Return the lines that compute an aggregate over the events from depth ``low`` to ``high``."""
        function, v = leaf.data[0], self.names[leaf]
        if function == "count":
            return [f"{v} = {high} - {low} + 1"]
        arg = leaf.args[0]
        items = list(dict.fromkeys(_leaves(arg)))
        self.names.update({item: f"{v}_{i}" for i, item in enumerate(items)})
        reads = [f"{self.names[item]} = {self.load(item.data[2], 'path[d]')}" for item in items]
        if function in ("first", "last"):
            d = low if function == "first" else high
            return [f"d = {d}", *reads, f"{v} = {self.stored(arg)}"]
        if function == "values":
            add = [*reads, f"{v} = {self.longer(v, arg)}"]
            return [f"{v} = None", f"for d in range({low}, {high} + 1):", *("    " + line for line in add)]
        value_test = self.all(self.present(arg))
        x = self.value(arg)
        new = {
            "count_of": f"{v} + 1", "sum": f"{v} + {x}", "min": f"min({v}, {x})", "max": f"max({v}, {x})",
        }[function]  # fmt: skip
        is_count = function == "count_of"
        lines = [f"{v} = 0" if is_count else f"{v} = {_null(leaf)}", f"{v}_n = 0"]
        lines += [f"for d in range({low}, {high} + 1):", *("    " + read for read in reads)]
        lines += [f"    if {value_test}:"]
        lines += [f"        {v} = {new}" if is_count else f"        {v} = {x} if {v}_n == 0 else {new}"]
        return [*lines, f"        {v}_n += 1"]


def _leaves(term: Term) -> Iterator[Term]:
    """Yield the elements and aggregates of ``term``, but not the arguments of aggregates."""
    if term.op in ("element", "group"):
        yield term
        return
    for arg in term.args:
        yield from _leaves(arg)


def _null(term: Term) -> str:
    return (
        "NAN" if term.kind == FLOAT else str(NULL_CODE) if term.kind in (TEXT, BOOLEAN) else "np.int64(NULL)"
    )


# Only kernels call these functions; without wrappers for Python they compile in half the time (measured).
HELPER = '@njit(nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True, _nrt=False)'
NO_LIMIT = 1 << 40  # means no limit on the events of a component
MODES = {"any": 0, "next": 1, "partition": 2, "strict": 3}
PREFERENCES = {"all": 0, "greedy": 1, "reluctant": 2}
_KERNELS = "cepkit.kernels.interpreted_walk"
# Indices of the search's report.
START, DEPTH, ENTERING, N_MATCHES, N_ITEMS, WORK, DONE = range(7)


def tests_of(program: SequenceProgram) -> tuple[tuple[Term, ...], ...]:
    """Return the distinct conditions on single events; each is a row of ``accept``."""
    # Leaves of equal conditions on different variables differ only in the variable, so it is left out.
    return tuple(_row_of_test(program))


def test_of(program: SequenceProgram, terms: tuple[Term, ...]) -> int:
    """Return the row of ``accept`` for the conditions of a component or an absence."""
    return _row_of_test(program)[_anonymous(terms)]


def _row_of_test(program: SequenceProgram) -> dict[tuple[Term, ...], int]:
    """Return the row of each test of single events in the table of accepted events."""

    def number() -> dict[tuple[Term, ...], int]:
        """Return a number for each different test of single events, in the order of branches."""
        rows: dict[tuple[Term, ...], int] = {}
        for bound in program.branches:
            for terms in (*bound.accepts, *bound.absent_accepts):
                rows.setdefault(_anonymous(terms), len(rows))
        return rows

    return program.once("tests", number)


def _anonymous(terms: tuple[Term, ...]) -> tuple[Term, ...]:
    return tuple(without_variable(term) for term in terms)


def without_variable(term: Term) -> Term:
    """Return a term whose leaves name no variable."""
    data = ("", *term.data[1:]) if term.op == "element" else term.data
    args = tuple(without_variable(arg) for arg in term.args)
    return Term(term.op, args, term.kind, term.unit, term.nullable, data, term.level)


def write_accepting(program: SequenceProgram, dtypes: Mapping[str, str]) -> KernelSource:
    """Write the kernel that tests which events fulfil the conditions on single events."""
    python = not program.compiled
    writer = PathWriter(program.terms(), dtypes, tuple(program.functions), is_group=(False,), python=python)
    lines = [*module_header().splitlines(), *writer.helpers]
    types = ["T.int64", "T.int64", *writer.argument_types(), 'T.Array(T.uint8, 2, "C")']
    if not python:
        lines += decorator(types, user_functions=bool(program.functions))
    lines += [f"def accepting({', '.join(['start', 'stop', *writer.arguments(), 'out'])}):"]
    tests = tests_of(program)
    lines += [f"    out{i} = out[{i}]" for i in range(len(tests))]
    lines += ["    for y in range(np.uint64(start), np.uint64(stop)):"]  # signed: no vector code
    for i, terms in enumerate(tests):
        leaves = [leaf for term in terms for leaf in term.walk() if leaf.op == "element"]
        writer.names = {leaf: f"x{n}" for n, leaf in enumerate(dict.fromkeys(leaves))}
        lines += [f"        {name} = {writer.load(leaf.column, 'y')}" for leaf, name in writer.names.items()]
        test = " and ".join(writer.true(term) for term in terms) or "True"
        lines += [f"        out{i}[y] = 1 if {test} else 0"]
    return KernelSource("\n".join(lines) + "\n", ())


def write_search(program: SequenceProgram, bound: BoundBranch, dtypes: Mapping[str, str]) -> KernelSource:
    """Write the kernel that finds the matches of a branch."""
    # The search ends early if an output is full or once it has visited ``work_limit`` events; the next call
    # continues at that event.
    key = ("search", *dtypes.items())
    return program.once(key, lambda: SearchWriter(program, bound, dtypes).write(), of=bound)


def is_decided_at_begin(bound: BoundBranch, a: int) -> bool:
    """Return whether absence ``a`` can be tested when the component after it begins."""
    absence, components = bound.branch.absences[a], bound.branch.components
    if absence.spanning or absence.after < 0 or absence.before >= len(components):
        return False
    conditions = (condition for condition in bound.conditions if condition.condition.absence == a)
    named = {c for condition in conditions for c in condition.component_of_variable.values()}
    return all(c < absence.before or (c == absence.before and not components[c].is_group) for c in named)


class SearchWriter:
    """Writes the functions that test a partial match of a branch, and the walk over all partial matches."""

    # The names in the code, beside those of `PathWriter`; c is a component and y a place:
    # - ``holds0``: tests condition 0; ``admits``: all conditions on an event that component c takes
    # - ``closes``: tests all conditions on component c when it is complete; ``ends``: UNTIL, on the event y
    # - ``free0``: tests that no event of absence 0 occurs; ``absent0_1``: condition 1 on such an event
    # - ``free_at``: tests the absences that are decided when component c begins, or at the end of a match
    # - in ``search``: ``s`` is the place of the first event, ``d`` the depth, ``c`` its component, ``p`` the
    #   place of the event at this depth, and ``j`` the place of the event that may come next, ``cursor[d]``
    # - ``open_[d]``, ``tries``: what may be tried at depth d, in bits; `interpreted_walk` explains them

    def __init__(self, program: SequenceProgram, bound: BoundBranch, dtypes: Mapping[str, str]):
        self.program, self.bound, self.branch = program, bound, bound.branch
        self.components = self.branch.components
        self.n = len(self.components)
        self.python = not program.compiled
        self.writer = PathWriter(
            program.terms(), dtypes, tuple(program.functions),
            is_group=tuple(c.is_group for c in self.components), python=self.python,
        )  # fmt: skip
        self.lines: list[str] = []

    def write(self) -> KernelSource:
        """Return the source of the kernel: tables, conditions, absent events, and the search."""
        self.lines = [*module_header().splitlines(), *self.writer.helpers]
        self._tables()
        self._conditions()
        self._absences()
        self._search()
        return KernelSource("\n".join(self.lines) + "\n", ())

    def _function(self, lines: list[str]) -> None:
        if not self.python:
            self.lines.append(HELPER)
        self.lines += [*lines, "", ""]

    def _tables(self) -> None:
        """Write constants of the kernel: one array with an entry for each component."""
        components = self.components
        tables = {
            "least": [c.low for c in components],
            "most": [NO_LIMIT if c.high is None else c.high for c in components],
            "inner_mode": [MODES[c.inner] for c in components],
            "begin_mode": [MODES[c.step] for c in components],
            "preference": [PREFERENCES[c.preference] for c in components],
        }
        self.lines += [f"{name} = np.array({values}, np.int64)" for name, values in tables.items()]
        self.lines += [f"is_run_scope = {self.program.query.scope == 'run'}", "", ""]

    def _dispatch(self, name: str, calls_of: dict[int, list[str]], *, otherwise: bool = True) -> None:
        """Write ``name(c, …)``, which returns whether all conditions of component c hold."""
        absent = "absent, " if name == "free_at" else ""
        lines = [f"def {name}(c, {absent}{self.writer.parameters}):"]
        if absent:
            lines.append("    absent_tests, accept, time_start, time_end = absent")
        for c, calls in sorted(calls_of.items()):
            lines += [f"    if c == {c}:", f"        return {' and '.join(calls)}"]
        self._function([*lines, f"    return {otherwise}"])

    def _call(self, name: str) -> str:
        return f"{name}({self.writer.parameters})"

    def _conditions(self) -> None:
        """Write the functions of all conditions, and those that say when a component takes or ends."""
        admits: dict[int, list[str]] = {}
        closes: dict[int, list[str]] = {}
        for i, bound in enumerate(self.bound.conditions):
            condition = bound.condition
            if condition.absence is not None:
                continue
            self._condition(i, bound)
            calls_of = admits if condition.each else closes
            calls_of.setdefault(condition.decided_at, []).append(self._call(f"holds{i}"))
        self._dispatch("admits", admits)
        self._dispatch("closes", closes)
        ends = {}
        for c, term in enumerate(self.bound.untils):
            if term is not None:
                component_of = {component.variable: i for i, component in enumerate(self.components[: c + 1])}
                self._function(self.writer.condition(f"ends{c}", term, component_of, top=c))
                ends[c] = [self._call(f"ends{c}")]
        self._dispatch("ends", ends, otherwise=False)

    def _condition(self, i: int, bound: BoundCondition) -> None:
        """Write the function of one condition, for the component that decides it."""
        at, each = bound.condition.decided_at, bound.condition.each
        self._function(
            self.writer.condition(
                f"holds{i}", bound.term, bound.component_of_variable, top=at, taking=at if each else None
            )
        )

    # --- absent events

    def _absences(self) -> None:
        """Write ``free_at(c, …)`` to test absences when component c begins; n stands for a match."""
        calls_of: dict[int, list[str]] = {}
        for a, absence in enumerate(self.branch.absences):
            call = f"free{a}(absent_tests[{a}], accept, time_start, time_end, {self.writer.parameters})"
            calls_of.setdefault(absence.before if self._free_of(a) else self.n, []).append(call)
        self._dispatch("free_at", calls_of)

    def _free_of(self, a: int) -> bool:
        """Write ``free{a}``; return whether it can be tested when the component after the absence begins."""
        absence = self.branch.absences[a]
        conditions = [b for b in self.bound.conditions if b.condition.absence == a]
        begun = is_decided_at_begin(self.bound, a)
        top = absence.before if begun else self.n - 1
        names = []
        for i, bound in enumerate(conditions):
            name = f"absent{a}_{i}"
            component_of = bound.component_of_variable
            self._function(
                self.writer.condition(name, bound.term, component_of, top=top, beside=absence.variable)
            )
            names.append(name)
        self._function(self._absence(a, absence, names, top))
        return begun

    def _absence(self, a: int, absence, names: list[str], top: int) -> list[str]:
        """Return the lines that look for an absent event between two components."""

        def end(c: int) -> str:
            return "last" if c == top else f"first[{c + 1}] - 1"

        if absence.spanning:
            low, high = f"path[first[{absence.after}]] + 1", f"path[{end(absence.before)}]"
        else:
            low = "time_start[path[last]]" if absence.after < 0 else f"path[{end(absence.after)}] + 1"
            high = "time_end[path[0]]" if absence.before >= self.n else f"path[first[{absence.before}]]"
        tests = "".join(f" and {self._call(name)}" for name in names)
        return [
            f"def free{a}(test, accept, time_start, time_end, {self.writer.parameters}):",
            f"    for y in range({low}, {high}):",
            f"        if accept[test, y]{tests}:",
            "            return False",
            "    return True",
        ]

    # --- the walk

    def _search(self) -> None:
        """Write the search itself, from its shared text."""
        int1, byte2 = "read_only(T.int64)", 'T.Array(T.uint8, 2, "C")'
        arguments = ["stop", "low", "high", "fill", "work_limit", "tests", "absent_tests", "accept"]
        arguments += ["later", "window_end", "gap_end", "time_start", "time_end", "position"]
        arguments += [*self.writer.arguments(), "path", "component", "first", "cursor", "open_"]
        arguments += ["count_of_last", "out_place", "out_size", "report"]
        types = [*["T.int64"] * 5, int1, int1, byte2, *[int1] * 6, *self.writer.argument_types()]
        types += [*["I1"] * 5, "I1", "I1", "I2", "I1"]
        if not self.python:
            self.lines += decorator(types, user_functions=bool(self.program.functions))
        values = "".join(f", {name}" for name in self.writer.arguments())
        text = shared_text(_KERNELS, "    absent =").replace(", branch, query)", f"{values})")
        self.lines += [f"def search({', '.join(arguments)}):", *text.splitlines()]


# Write the Python source of the kernel that tests given matches against each condition of a branch.


class CheckingWriter(SearchWriter):
    """Writes the kernel that tests given events against each condition and absence of a branch separately."""

    def write_checks(
        self, conditions: Sequence[int], absences: Sequence[int], *, interpreted: bool
    ) -> KernelSource:
        self.python = self.python or interpreted
        # A condition's function also exists twice: for Python and for kernels.
        helpers = helper_lines(self.program.terms(), python=self.python)
        self.lines = [*module_header().splitlines(), *helpers]
        body, k = [], 0
        values = ", ".join(self.writer.arguments())
        values = f", {values}" if values else ""
        for i in conditions:
            self._condition(i, self.bound.conditions[i])
            condition = self.bound.conditions[i].condition
            c = condition.decided_at
            begin = f"first[{c}]" if condition.each else f"first[{c}] + size[m, {c}] - 1"
            body += [
                "        holds = 1",
                f"        for d in range({begin}, first[{c}] + size[m, {c}]):",
                f"            if not holds{i}(path, first, d, 0{values}):",
                "                holds = 0",
                f"        out[m, {k}] = holds",
            ]
            k += 1
        for a in absences:
            begun = self._free_of(a)
            d = f"first[{self.branch.absences[a].before}]" if begun else "len(path) - 1"
            call_arguments = f"absent_tests[{a}], accept, time_start, time_end, path, first, {d}, 0{values}"
            body.append(f"        out[m, {k}] = 1 if free{a}({call_arguments}) else 0")
            k += 1
        arguments = ["n", "item", "first_item", "size", "absent_tests", "accept", "time_start", "time_end"]
        arguments += [*self.writer.arguments(), "first", "out"]
        int1, byte2 = "read_only(T.int64)", 'T.Array(T.uint8, 2, "C")'
        types = ["T.int64", "I1", int1, "I2", int1, byte2, int1, int1, *self.writer.argument_types()]
        if not self.python:
            self.lines += decorator([*types, "I1", byte2], user_functions=bool(self.program.functions))
        self.lines += [
            f"def check({', '.join(arguments)}):",
            "    for m in range(n):",
            "        path = item[first_item[m]:first_item[m + 1]]",
            "        d = 0",
            f"        for c in range({self.n}):",
            "            first[c] = d",
            "            d += size[m, c]",
            *body,
        ]
        return KernelSource("\n".join(self.lines) + "\n", ())
