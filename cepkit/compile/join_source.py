"""Joins → Python source of the functions that agents call: which events and partial matches fit together.

One call looks through a whole buffer. The functions of all queries have the same types, so that the kernels
that call them are compiled once, not once per query.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cepkit.compile.joins import Join, JoinPlan
from cepkit.compile.path_writing import PathWriter
from cepkit.compile.search_source import HELPER, test_of
from cepkit.compile.sequence import SequenceProgram
from cepkit.compile.source import KernelSource, module_header
from cepkit.compile.terms import Term

_HIGH = 1 << 40  # no limit on the events of a component
# What every function is given of the events: limits by place, accepted tests, columns by kind, constants.
WORLD = ("limits", "accept", "floats", "integers", "float_constants", "integer_constants", "tables")
WORLD_TYPES = (
    'T.Array(T.int64, 2, "C", readonly=True)', 'T.Array(T.uint8, 2, "C", readonly=True)',
    'T.Array(T.float64, 2, "C", readonly=True)', 'T.Array(T.int64, 2, "C", readonly=True)',
    "read_only(T.float64)", "read_only(T.int64)", "read_only(T.uint8)",
)  # fmt: skip
# Rows of ``limits``.
LATER, GAP_END, WINDOW_END, TIME_START, TIME_END = range(5)


class WorldWriter(PathWriter):
    """Writes conditions that read columns, constants and tables from the arrays of the world."""

    def __init__(self, program: SequenceProgram, dtypes: Mapping[str, str], is_group: tuple[bool, ...]):
        super().__init__(program.terms(), dtypes, tuple(program.functions), is_group=is_group, python=False)
        self.row_of_column = world_rows(dtypes)

    def arguments(self) -> list[str]:
        """Return the names of the arguments."""
        return list(WORLD)

    def load(self, column: str, place: str) -> str:
        """Return the code that reads ``column`` at ``place``."""
        array = "floats" if self.dtypes[column].startswith("float") else "integers"
        return f"{array}[{self.row_of_column[column]}, {place}]"

    def value(self, term: Term) -> str:
        """Return the code of the value."""
        if term.op == "constant":
            is_float = self.constants[term.data]
            of_kind = [data for data, floating in self.constants.items() if floating == is_float]
            array = "float_constants" if is_float else "integer_constants"
            return f"{array}[{of_kind.index(term.data)}]"
        return super().value(term)

    def _holds(self, term: Term, wanted: bool) -> str:
        if term.op != "table":
            return super()._holds(term, wanted)
        code = self.value(term.args[0])
        n_integers = sum(not floating for floating in self.constants.values())
        start = f"integer_constants[{n_integers + self.tables.index(term.data)}]"
        tests = [*self.valid(term.args[0]), f"tables[{start} + {code} + 1] == {int(wanted)}"]
        return "(" + " and ".join(f"({test})" for test in tests) + ")"


def world_rows(dtypes: Mapping[str, str]) -> dict[str, int]:
    """Return the row of each column in the array of its kind."""
    floats = [name for name, dtype in dtypes.items() if dtype.startswith("float")]
    integers = [name for name, dtype in dtypes.items() if not dtype.startswith("float")]
    return {name: i for names in (floats, integers) for i, name in enumerate(names)}


def write_joins(
    program: SequenceProgram, plans: Sequence[JoinPlan], dtypes: Mapping[str, str]
) -> KernelSource:
    """Write the functions of the plans of a program, one per branch.

    Returns
    -------
    KernelSource
        Stages are the joins of all plans, numbered through. Partial matches are paths: the places of their
        events by component; ``first[c]`` is where component c begins, ``first[n]`` their number. All
        functions end in the arrays of `WORLD`.

        ``join_events(stage, path, first, events, low, high, out, report, *WORLD)`` returns how many of the
        places ``events[low:high]`` extend the path by join ``stage``, and writes them to ``out``.

        ``join_partials(stage, place, ids, low, high, item_of_partial, size_of_partial, path, first, out,
        report, *WORLD)`` the same for an event and the partial matches ``ids[low:high]``, whose paths and
        sizes of components are rows of two arrays. Both add to ``report[0]`` the pairs in order and in the
        window, whose conditions were looked at.

        ``completes(stage, path, first, *WORLD)``: whether what is bound may go on to the next join.

    Notes
    -----
    Time O(high - low) and the conditions; no memory.
    """
    return _JoinWriter(program, plans, dtypes).write()


class _JoinWriter:
    def __init__(self, program: SequenceProgram, plans: Sequence[JoinPlan], dtypes: Mapping[str, str]):
        self.program, self.plans, self.dtypes = program, plans, dtypes
        self.lines: list[str] = []

    def write(self) -> KernelSource:
        stages = [(plan, join) for plan in self.plans for join in plan.joins]
        self.lines = module_header().splitlines()
        tables = {
            "N": [len(plan.joins) for plan, _ in stages],
            "COMPONENT": [join.component for _, join in stages],
            "HIGH": [_HIGH if join.high is None else join.high for _, join in stages],
        }
        self.lines += [f"{name} = np.array({values}, np.int64)" for name, values in tables.items()] + ["", ""]
        for number, plan in enumerate(self.plans):
            self._conditions(number, plan)
        for stage, (plan, join) in enumerate(stages):
            self._fits(stage, self.plans.index(plan), len(plan.joins), join)
        self._dispatch(stages)
        self._compiled(_SCANS.replace("WORLD_NAMES", ", ".join(WORLD)).splitlines())
        return KernelSource("\n".join(self.lines) + "\n", ())

    def _function(self, lines: list[str]) -> None:
        self.lines += [HELPER, *lines, "", ""]

    def _compiled(self, lines: list[str]) -> None:
        # User functions may allocate, and nothing tells a cache when what they call changes.
        cache = "" if self.program.functions else ", cache=True, _nrt=False"
        types = {"WORLD": ", ".join(WORLD_TYPES), **_SCAN_TYPES}
        for line in lines:
            made = line.replace("OPTIONS", f'nogil=True, error_model="numpy"{cache}')
            if made.startswith("@njit"):
                for name, of in types.items():
                    made = made.replace(name, of)
            self.lines.append(made)
        self.lines += ["", ""]

    def _conditions(self, number: int, plan: JoinPlan) -> None:
        components = plan.bound.branch.components
        writer = WorldWriter(self.program, self.dtypes, tuple(c.is_group for c in components))
        for join in plan.joins:
            for i in (*join.taking, *join.completing):
                one = plan.bound.conditions[i]
                taking = join.component if i in join.taking else None
                name = f"holds{number}_{i}"
                of = one.component_of_variable
                self._function(writer.condition(name, one.term, of, top=-1, taking=taking))
            for a in join.absences:
                self._absence(writer, number, plan, a)

    def _absence(self, writer: WorldWriter, number: int, plan: JoinPlan, a: int) -> None:
        absence, n = plan.bound.branch.absences[a], len(plan.joins)
        names = []
        for i, one in enumerate(plan.bound.conditions):
            if one.condition.absence == a:
                names.append(f"absent{number}_{i}")
                of = one.component_of_variable
                self._function(writer.condition(names[-1], one.term, of, top=-1, beside=absence.variable))

        def end(c: int) -> str:
            return f"path[first[{c + 1}] - 1]"

        if absence.spanning:
            low, high = f"path[first[{absence.after}]] + 1", end(absence.before)
        else:
            low = f"limits[{TIME_START}, {end(n - 1)}]" if absence.after < 0 else f"{end(absence.after)} + 1"
            high = f"limits[{TIME_END}, path[0]]" if absence.before >= n else f"path[first[{absence.before}]]"
        row = test_of(self.program, plan.bound.absent_accepts[a])
        tests = "".join(f" and {_call(name, '0', 'y')}" for name in names)
        self._function(
            [
                f"def free{number}_{a}(path, first, {', '.join(WORLD)}):",
                f"    for y in range({low}, {high}):",
                f"        if accept[{row}, y]{tests}:",
                "            return False",
                "    return True",
            ]
        )

    def _fits(self, stage: int, number: int, n: int, join: Join) -> None:
        """Write ``fits{stage}(path, first, h, …)`` for the event at depth h: 0 out of place, 1 no, 2 yes."""
        c = join.component
        lines = [f"def fits{stage}(path, first, h, {', '.join(WORLD)}):", "    e = path[h]"]
        if join.after is not None or join.is_loop:
            gap = f" or e >= limits[{GAP_END}, b]"
            if join.after != c - 1:  # then the event in front is its neighbour only within a loop
                gap = f" or (first[{c}] < h and e >= limits[{GAP_END}, b])" if join.is_loop else ""
            lines += ["    if h > 0:", "        b = path[h - 1]"]
            lines += [f"        if e < limits[{LATER}, b]{gap}:", "            return 0"]
        if join.before is not None:
            gap = f" or b >= limits[{GAP_END}, e]" if join.before == c + 1 else ""
            lines += ["    b = path[h + 1]", f"    if b < limits[{LATER}, e]{gap}:", "        return 0"]
        lines += [f"    if path[first[{n}] - 1] >= limits[{WINDOW_END}, path[0]]:", "        return 0"]
        tests = [_call(f"holds{number}_{i}", "h", "e") for i in join.taking]
        if tests:
            lines += [f"    if not ({' and '.join(tests)}):", "        return 1"]
        self._function([*lines, "    return 2"])

    def _dispatch(self, stages: list[tuple[JoinPlan, Join]]) -> None:
        world = ", ".join(WORLD)
        lines = [f"def fits(stage, path, first, h, {world}):"]
        for stage in range(len(stages)):
            lines += [f"    if stage == {stage}:", f"        return fits{stage}(path, first, h, {world})"]
        self._function([*lines, "    return 0"])
        lines = [
            "@njit([(T.int64, I1, I1, WORLD,)], OPTIONS)",
            f"def completes(stage, path, first, {world}):",
        ]
        for stage, (plan, join) in enumerate(stages):
            c, number = join.component, self.plans.index(plan)
            tests = [f"first[{c + 1}] - first[{c}] >= {join.low}"] if join.low > 1 else []
            tests += [_call(f"holds{number}_{i}", f"first[{c + 1}] - 1", "0") for i in join.completing]
            tests += [f"free{number}_{a}(path, first, {world})" for a in join.absences]
            if tests:
                lines += [f"    if stage == {stage}:", f"        return {' and '.join(tests)}"]
        self._compiled([*lines, "    return True"])


def _call(name: str, last: str, place: str) -> str:
    return f"{name}(path, first, {last}, {place}, {', '.join(WORLD)})"


_SCAN_TYPES = {
    "EVENTS_TYPES": "T.int64, I1, I1, read_only(T.int64), T.int64, T.int64, I1, I1",
    "PARTIALS_TYPES": "T.int64, T.int64, read_only(T.int64), T.int64, T.int64, "
    'T.Array(T.int64, 2, "C", readonly=True), T.Array(T.int32, 2, "C", readonly=True), I1, I1, I1, I1',
}
_SCANS = """@njit([(EVENTS_TYPES, WORLD,)], OPTIONS)
def join_events(stage, path, first, events, low, high, out, report, WORLD_NAMES):
    c, n_components = COMPONENT[stage], N[stage]
    h = first[c + 1]
    if h - first[c] >= HIGH[stage]:
        return 0
    for d in range(first[n_components], h, -1):
        path[d] = path[d - 1]
    for i in range(c + 1, n_components + 1):
        first[i] += 1
    n, compared = 0, 0
    for i in range(low, high):
        e = events[i]
        path[h] = e
        fit = fits(stage, path, first, h, WORLD_NAMES)
        compared += fit > 0
        if fit == 2:
            out[n] = e
            n += 1
    for i in range(c + 1, n_components + 1):
        first[i] -= 1
    for d in range(h, first[n_components]):
        path[d] = path[d + 1]
    report[0] += compared
    return n


@njit([(PARTIALS_TYPES, WORLD,)], OPTIONS)
def join_partials(
    stage, place, ids, low, high, item_of_partial, size_of_partial, path, first, out, report, WORLD_NAMES
):
    c, n_components = COMPONENT[stage], N[stage]
    n, compared = 0, 0
    for i in range(low, high):
        items, sizes = item_of_partial[ids[i]], size_of_partial[ids[i]]
        if sizes[c] >= HIGH[stage]:
            continue
        d, s = 0, 0
        h = 0
        for k in range(n_components):
            first[k] = d
            for _ in range(sizes[k]):
                path[d] = items[s]
                d += 1
                s += 1
            if k == c:
                h = d
                path[d] = place
                d += 1
        first[n_components] = d
        fit = fits(stage, path, first, h, WORLD_NAMES)
        compared += fit > 0
        if fit == 2:
            out[n] = ids[i]
            n += 1
    report[0] += compared
    return n"""
