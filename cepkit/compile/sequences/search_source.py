"""Write the Python source of a branch's kernels: the tests of single events, and the search.

The search supports every strategy and condition. It walks depth first over partial matches, event by event,
and can pause and continue at any event.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cepkit.compile.sequences.ordered_source import PathWriter
from cepkit.compile.sequences.program import BoundBranch, BoundCondition, SequenceProgram
from cepkit.compile.shared.bound_query import Term
from cepkit.compile.shared.term_writing import KernelSource, decorator, helper_lines, module_header

# Only kernels call these functions; without wrappers for Python they compile in half the time (measured).
HELPER = '@njit(nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True, _nrt=False)'
NO_LIMIT = 1 << 40  # means no limit on the events of a component
MODES = {"any": 0, "next": 1, "partition": 2, "strict": 3}
PREFERENCES = {"all": 0, "greedy": 1, "reluctant": 2}
# Indices of the search's report.
START, DEPTH, ENTERING, N_MATCHES, N_ITEMS, WORK, DONE = range(7)


def tests_of(program: SequenceProgram) -> tuple[tuple[Term, ...], ...]:
    """Return the distinct conditions on single events; each is a row of ``accept``.

    Leaves of equal conditions on different variables differ only in the variable, so it is left out.

    """
    return tuple(_row_of_test(program))


def test_of(program: SequenceProgram, terms: tuple[Term, ...]) -> int:
    """Return the row of ``accept`` for the conditions of a component or an absence."""
    return _row_of_test(program)[_anonymous(terms)]


def _row_of_test(program: SequenceProgram) -> dict[tuple[Term, ...], int]:
    def number() -> dict[tuple[Term, ...], int]:
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
        lines += [
            f"        {name} = {writer.load(leaf.data[-1], 'y')}" for leaf, name in writer.names.items()
        ]
        test = " and ".join(writer.true(term) for term in terms) or "True"
        lines += [f"        out{i}[y] = 1 if {test} else 0"]
    return KernelSource("\n".join(lines) + "\n", ())


def write_search(program: SequenceProgram, bound: BoundBranch, dtypes: Mapping[str, str]) -> KernelSource:
    """Write the kernel that finds the matches of a branch.

    The search ends early if an output is full or once it has visited ``work_limit`` events; the next call
    continues at that event.
    """
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
        """Return the kernel of `write_search`."""
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
        components = self.components
        tables = {
            "LOW": [c.low for c in components],
            "HIGH": [NO_LIMIT if c.high is None else c.high for c in components],
            "INNER": [MODES[c.inner] for c in components],
            "STEP": [MODES[c.step] for c in components],
            "PREFERENCE": [PREFERENCES[c.preference] for c in components],
        }
        self.lines += [f"{name} = np.array({values}, np.int64)" for name, values in tables.items()]
        self.lines += [f"N = {self.n}", f"RUN_SCOPE = {self.program.query.scope == 'run'}", "", ""]

    def _dispatch(self, name: str, calls_of: dict[int, list[str]]) -> None:
        """Write ``name(c, …)``, which returns whether all conditions of component c hold."""
        lines = [f"def {name}(c, {self.writer.parameters}):"]
        for c, calls in sorted(calls_of.items()):
            lines += [f"    if c == {c}:", f"        return {' and '.join(calls)}"]
        self._function([*lines, "    return True"])

    def _call(self, name: str, *, first: str = "") -> str:
        return f"{name}({first}{self.writer.parameters})"

    def _conditions(self) -> None:
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
        self.has_until = bool(ends)
        if ends:
            lines = [f"def ends(c, {self.writer.parameters}):"]
            for c, calls in ends.items():
                lines += [f"    if c == {c}:", f"        return {calls[0]}"]
            self._function([*lines, "    return False"])

    def _condition(self, i: int, bound: BoundCondition) -> None:
        at, each = bound.condition.decided_at, bound.condition.each
        self._function(
            self.writer.condition(
                f"holds{i}", bound.term, bound.component_of_variable, top=at, taking=at if each else None
            )
        )

    # --- absent events

    def _absences(self) -> None:
        """Write ``free_at(c, …)`` to test absences when component c begins, and ``free(…)`` for a match."""
        at_begin: dict[int, list[str]] = {}
        at_end: list[str] = []
        for a, absence in enumerate(self.branch.absences):
            begun = self._free_of(a)
            call = f"free{a}(absent_tests[{a}], accept, time_start, time_end, {self.writer.parameters})"
            if begun:
                at_begin.setdefault(absence.before, []).append(call)
            else:
                at_end.append(call)
        self._free("free_at", "c, ", at_begin)
        self._free("free", "", {None: at_end} if at_end else {})

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

    def _free(self, name: str, c: str, calls_of: dict) -> None:
        lines = [f"def {name}({c}absent_tests, accept, time_start, time_end, {self.writer.parameters}):"]
        for component, calls in calls_of.items():
            if component is None:
                lines += [f"    return {' and '.join(calls)}"]
            else:
                lines += [f"    if c == {component}:", f"        return {' and '.join(calls)}"]
        self._function([*lines, "    return True"])

    # --- the walk

    def _search(self) -> None:
        int1, byte2 = "read_only(T.int64)", 'T.Array(T.uint8, 2, "C")'
        arguments = ["stop", "low", "high", "fill", "work_limit", "tests", "absent_tests", "accept"]
        arguments += ["later", "window_end", "gap_end", "time_start", "time_end", "position"]
        arguments += [*self.writer.arguments(), "path", "component", "first", "cursor", "open"]
        arguments += ["count_of_last", "out_place", "out_size", "report"]
        types = [*["T.int64"] * 5, int1, int1, byte2, *[int1] * 6, *self.writer.argument_types()]
        types += [*["I1"] * 5, "I1", "I1", "I2", "I1"]
        if not self.python:
            self.lines += decorator(types, user_functions=bool(self.program.functions))
        values = ", ".join(self.writer.arguments())
        values = f", {values}" if values else ""
        ends = f"not ends(c, path, first, d, j{values})" if self.has_until else "True"
        text = _SEARCH.replace("ARGUMENTS", ", ".join(arguments)).replace("VALUES", values)
        self.lines += text.replace("NOT_ENDED", ends).splitlines()


# The walk. For every depth, the bits of ``open`` say what may still be tried there. 1: the loop may take a
# later event. 2: the next component may begin. 4: the event at the cursor was taken and may begin the next
# component as well. 8 and 16: taking and beginning are possible at all, which decides what is relevant.
_SEARCH = """def search(ARGUMENTS):
    s, d, entering = report[0], report[1], report[2]
    n_matches, n_items, work, done = 0, 0, 0, 0
    first_test = tests[0]
    while True:
        if d < 0:
            s += 1
            while s < stop and not accept[first_test, s]:
                s += 1
            work += 1
            if s >= stop:
                done = 1
                break
            path[0], component[0], first[0] = s, 0, 0
            if not admits(0, path, first, 0, 0VALUES):
                continue
            d, entering = 0, 1
        c = component[d]
        if entering:
            size = d - first[c] + 1
            complete = size >= LOW[c] and closes(c, path, first, d, 0VALUES)
            if complete and c == N - 1:
                x = position[path[d]]
                wanted = low <= x < high
                if wanted and fill:
                    if n_matches >= out_size.shape[0] or n_items + d + 1 > len(out_place):
                        break
                wanted = wanted and free(absent_tests, accept, time_start, time_end, path, first, d, 0VALUES)
                if wanted and fill:
                    for i in range(d + 1):
                        out_place[n_items + i] = path[i]
                    for i in range(N - 1):
                        out_size[n_matches, i] = first[i + 1] - first[i]
                    out_size[n_matches, N - 1] = d + 1 - first[N - 1]
                    n_items += d + 1
                    n_matches += 1
                elif wanted:
                    count_of_last[path[d]] += 1
                    n_matches += 1
            state = 0
            if size < HIGH[c]:
                state |= 9
            if complete and c < N - 1:
                state |= 18
            open[d], cursor[d], entering = state, path[d] + 1, 0
        state, j = open[d], cursor[d]
        p = path[d]
        if state & 3 == 0 or j >= window_end[s] or j >= gap_end[p] or position[j] >= high:
            d -= 1
            continue
        work += 1
        if work > work_limit:
            break
        if state & 4:
            open[d], cursor[d] = state & ~4, j + 1
            if state & 2 and (STEP[c + 1] == 1 or STEP[c + 1] >= 2):
                open[d] &= ~2
            begins = True
        else:
            takes = begins = False
            path[d + 1] = j
            if state & 8:
                if NOT_ENDED:
                    takes = accept[tests[c], j] and j >= later[p] and admits(c, path, first, d + 1, 0VALUES)
                else:
                    state &= ~9
            if state & 16 and accept[tests[c + 1], j] and j >= later[p]:
                first[c + 1] = d + 1
                begins = admits(c + 1, path, first, d + 1, 0VALUES)
            hit_take, hit_begin = takes, begins
            near = j == p + 1
            if takes:
                takes = state & 1 != 0 and (
                    INNER[c] < 2 or (near and (INNER[c] == 2 or position[j] == position[p] + 1))
                )
            if begins:
                begins = state & 2 != 0 and (
                    STEP[c + 1] < 2 or (near and (STEP[c + 1] == 2 or position[j] == position[p] + 1))
                )
            if hit_take and hit_begin:
                if PREFERENCE[c] == 1:
                    begins = False
                elif PREFERENCE[c] == 2:
                    takes = False
            if INNER[c] >= 2 or (INNER[c] == 1 and (hit_take or (RUN_SCOPE and hit_begin))):
                state &= ~1
            if c < N - 1 and not (takes and begins):
                if STEP[c + 1] >= 2 or (STEP[c + 1] == 1 and (hit_begin or (RUN_SCOPE and hit_take))):
                    state &= ~2
            if takes:
                if begins:
                    open[d] = state | 4
                else:
                    open[d], cursor[d] = state, j + 1
                d += 1
                component[d], entering = c, 1
                continue
            open[d], cursor[d] = state, j + 1
        if begins:
            path[d + 1] = j
            first[c + 1] = d + 1
            if free_at(c + 1, absent_tests, accept, time_start, time_end, path, first, d + 1, 0VALUES):
                d += 1
                component[d], entering = c + 1, 1
    report[0], report[1], report[2] = s, d, entering
    report[3], report[4], report[5], report[6] = n_matches, n_items, report[5] + work, done
"""


# Write the Python source of the kernel that tests given matches against each condition of a branch.


def write_checking(
    program: SequenceProgram,
    bound: BoundBranch,
    dtypes: Mapping[str, str],
    conditions: Sequence[int],
    absences: Sequence[int],
    *,
    interpreted: bool = False,
) -> KernelSource:
    """Write the kernel that tests given events against each condition and absence of a branch separately."""
    writer = _CheckingWriter(program, bound, dtypes)
    writer.python = writer.python or interpreted
    return writer.write_checks(conditions, absences)


class _CheckingWriter(SearchWriter):
    def write_checks(self, conditions: Sequence[int], absences: Sequence[int]) -> KernelSource:
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
