"""Write the Python source of the functions that agents call to join partial matches with events.

One call searches a whole buffer. The functions have the same types for all queries, so the kernels that call
them compile once, not once per query.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cepkit.compile.sequence_program import SequenceProgram
from cepkit.compile.sequence_source import HELPER, PathWriter, test_of
from cepkit.compile.shared.term_writing import VECTOR, KernelSource, module_header, shared_text
from cepkit.compile.shared.terms import Term
from cepkit.parallel.joins import JoinPlan, LevelJoin, memo_partner

_HIGH = 1 << 40  # no limit on the events of a component
# Arrays that every function gets: limits by place, accepted tests, columns by kind, constants.
WORLD = (
    "limits", "accept", "floats", "integers", "vectors", "float_constants", "integer_constants", "tables"
)  # fmt: skip
WORLD_TYPES = (
    'T.Array(T.int64, 2, "C", readonly=True)', 'T.Array(T.uint8, 2, "C", readonly=True)',
    'T.Array(T.float64, 2, "C", readonly=True)', 'T.Array(T.int64, 2, "C", readonly=True)',
    'T.Array(T.float64, 3, "C", readonly=True)',
    "read_only(T.float64)", "read_only(T.int64)", "read_only(T.uint8)",
)  # fmt: skip
# A call copies the descriptors of all its arrays, which is too slow for every pair.
_INLINED = HELPER.replace("_nrt=False", "_nrt=False, forceinline=True")
_KERNELS = "cepkit.kernels.wings.agent_joins"
_ATOMIC = "import cepkit.kernels.wings.atomic as atomic"
_PASSED = 'PASSED = "join", "completes"  # kernels get their addresses'
_MEMO_BITS = 15  # a memo has at least 2^15 numbers
# Rows of ``limits``.
LATER, GAP_END, WINDOW_END, TIME_START, TIME_END = range(5)


class WorldWriter(PathWriter):
    """Writer of conditions that read columns, constants and tables from the `WORLD` arrays."""

    def __init__(self, program: SequenceProgram, dtypes: Mapping[str, str], is_group: tuple[bool, ...]):
        super().__init__(program.terms(), dtypes, tuple(program.functions), is_group=is_group, python=False)
        self.row_of_column = {name: i for names in columns_by_kind(dtypes) for i, name in enumerate(names)}

    def arguments(self) -> list[str]:
        return list(WORLD)

    def load(self, column: str, place: str) -> str:
        """Return the code that reads ``column`` at ``place``."""
        if self.dtypes[column] == VECTOR:
            return place
        array = "floats" if self.dtypes[column].startswith("float") else "integers"
        return f"{array}[{self.row_of_column[column]}, {place}]"

    def matrix(self, column: str) -> str:
        return f"vectors[{self.row_of_column[column]}]"

    def constant(self, term: Term) -> str:
        is_float = self.constants[term.data]
        of_kind = [data for data, floating in self.constants.items() if floating == is_float]
        array = "float_constants" if is_float else "integer_constants"
        return f"{array}[{of_kind.index(term.data)}]"

    def join(self, sign: str, truths: Sequence[str], term: Term) -> str:
        """Return joined truths; the code of a null is no place in a table."""
        if term.op != "table":
            return super().join(sign, truths, term)
        return "(" + " and ".join(f"({test})" for test in truths) + ")"

    def table(self, number: int, code: str, wanted: bool) -> str:
        start, _ = self._limits(self.tables.index(number))
        return f"tables[{start} + {code} + 1] == {int(wanted)}"

    def _limits(self, number: int) -> tuple[str, str]:
        """Return the code of the first cell of a table in its array, and of the first one after it."""
        first = sum(not floating for floating in self.constants.values()) + number
        return f"integer_constants[{first}]", f"integer_constants[{first + len(self.tables)}]"

    def member(self, number: int, value: str, wanted: bool) -> str:
        i = self.tables.index(number)
        array = "float_constants" if self.table_types[i] == "float64" else "integer_constants"
        start, stop = self._limits(i)
        return f"is_member({array}, {start}, {stop}, {value}, {wanted})"


def columns_by_kind(dtypes: Mapping[str, str]) -> tuple[list[str], list[str], list[str]]:
    """Return the columns of floats, of integers and of vectors, in the order of their rows in `WORLD`."""
    floats = [name for name, dtype in dtypes.items() if dtype.startswith("float")]
    vectors = [name for name, dtype in dtypes.items() if dtype == VECTOR]
    return floats, [name for name in dtypes if name not in (*floats, *vectors)], vectors


def write_joins(
    program: SequenceProgram, plans: Sequence[JoinPlan], dtypes: Mapping[str, str]
) -> KernelSource:
    """Write the functions of the plans of a program, one per branch."""
    return _JoinWriter(program, plans, dtypes).write()


class _JoinWriter:
    """Writes the module of the functions that join: one for each stage, and one that picks the stage."""

    def __init__(self, program: SequenceProgram, plans: Sequence[JoinPlan], dtypes: Mapping[str, str]):
        self.program, self.plans, self.dtypes = program, plans, dtypes
        self.lines: list[str] = []

    def write(self) -> KernelSource:
        """Return the text of the module."""
        stages = [(plan, join) for plan in self.plans for join in plan.joins]
        writer = WorldWriter(self.program, self.dtypes, ())
        self.lines = [*module_header().splitlines(), _ATOMIC, _PASSED, *writer.helpers]
        tables = {
            "N": [len(plan.joins) for plan, _ in stages],
            "COMPONENT": [join.component for _, join in stages],
            "HIGH": [_HIGH if join.high is None else join.high for _, join in stages],
            "IN_ORDER": [int(plan.is_appending(join)) for plan, join in stages],
        }
        self.lines += [f"{name} = np.array({values}, np.int64)" for name, values in tables.items()] + ["", ""]
        for number, plan in enumerate(self.plans):
            self._conditions(number, plan)
        for stage, (plan, join) in enumerate(stages):
            self._fits(stage, self.plans.index(plan), len(plan.joins), join)
        for name in ("loaded", "first_beyond"):
            self._function(shared_text(_KERNELS, f"def {name}(").splitlines())
        self._dispatch(stages)
        self._completing(stages)
        walk = shared_text(_KERNELS, "    k, row, r, begin =").replace(_CALL, _CALL_OF_SCAN)
        self._add_kernel(f"{_JOIN}\n{walk}".replace("WORLD_NAMES", ", ".join(WORLD)).splitlines())
        return KernelSource("\n".join(self.lines) + "\n", ())

    def _function(self, lines: list[str]) -> None:
        """Add a helper function."""
        self.lines += [_INLINED, *lines, "", ""]

    def _add_kernel(self, lines: list[str]) -> None:
        """Add a function that threads call."""
        # User functions may allocate, and the cache does not notice changes of their callees.
        cache = "" if self.program.functions else ", cache=True, _nrt=False"
        types = {"JOIN_TYPES": _JOIN_TYPES, "WORLD": ", ".join(WORLD_TYPES)}
        for line in lines:
            options = (
                f'nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True{cache}'
            )
            code = line.replace("OPTIONS", options)
            if code.startswith("@njit"):
                for name, type_text in types.items():
                    code = code.replace(name, type_text)
            self.lines.append(code)
        self.lines += ["", ""]

    def _conditions(self, number: int, plan: JoinPlan) -> None:
        components = plan.bound.branch.components
        writer = WorldWriter(self.program, self.dtypes, tuple(c.is_group for c in components))
        for join in plan.joins:
            for i in (*join.taking, *join.completing):
                condition = plan.bound.conditions[i]
                is_taking, c = i in join.taking, condition.condition.decided_at
                # Another order may decide it later, with the same meaning.
                is_late = condition.condition.each and not is_taking and c != join.component
                taking = join.component if is_taking else None
                taken = c if is_late and components[c].is_group else None
                of_variable, name = condition.component_of_variable, f"holds{number}_{i}"
                self._function(
                    writer.condition(name, condition.term, of_variable, top=-1, taking=taking, taken=taken)
                )
            for a in join.absences:
                self._absence(writer, number, plan, a)

    def _absence(self, writer: WorldWriter, number: int, plan: JoinPlan, a: int) -> None:
        absence, n = plan.bound.branch.absences[a], len(plan.joins)
        names = []
        for i, condition in enumerate(plan.bound.conditions):
            if condition.condition.absence == a:
                names.append(f"absent{number}_{i}")
                of_variable = condition.component_of_variable
                self._function(
                    writer.condition(names[-1], condition.term, of_variable, top=-1, beside=absence.variable)
                )

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
                f"    for y in range({low}, {high}):", f"        if accept[{row}, y]{tests}:",
                "            return False", "    return True",
            ]
        )  # fmt: skip

    def _fits(self, stage: int, number: int, n: int, join: LevelJoin) -> None:
        """Write ``placed{stage}(path, first, h, …)`` and ``held{stage}``."""
        # They test order and limits, and the conditions, of the event at depth h.
        c, world = join.component, ", ".join(WORLD)
        lines = [f"def placed{stage}(path, first, h, {world}):", "    e = path[h]"]
        if join.after is not None or join.is_loop:
            gap = f" or e >= limits[{GAP_END}, b]"
            if join.after != c - 1:  # the event before it is its neighbour only within a loop
                gap = f" or (first[{c}] < h and e >= limits[{GAP_END}, b])" if join.is_loop else ""
            lines += ["    if h > 0:", "        b = path[h - 1]"]
            lines += [f"        if e < limits[{LATER}, b]{gap}:", "            return False"]
        if join.before is not None:
            # Only the last event of a loop is its neighbour: see `_completing`.
            gap = f" or b >= limits[{GAP_END}, e]" if join.before == c + 1 and not join.is_loop else ""
            lines += ["    b = path[h + 1]", f"    if b < limits[{LATER}, e]{gap}:", "        return False"]
        self._function([*lines, f"    return path[first[{n}] - 1] < limits[{WINDOW_END}, path[0]]"])
        tests = [_call(f"holds{number}_{i}", "h", "e") for i in join.taking] or ["True"]
        lines = [f"def held{stage}(path, first, h, {world}):", "    e = path[h]"]
        self._function([*lines, f"    return {' and '.join(tests)}"])

    def _dispatch(self, stages: list[tuple[JoinPlan, LevelJoin]]) -> None:
        world = ", ".join(WORLD)
        # Nothing joins the first event of a branch, unless it repeats.
        joining = [s for s, (plan, join) in enumerate(stages) if join is not plan.joins[0] or join.is_loop]
        for stage in joining:
            plan, join = stages[stage]
            has_loop, is_last = any(level.is_loop for level in plan.joins), join is plan.joins[-1]
            test = ["    compared = 0", *(_COUNT if is_last else ()), *_TEST]
            lines = self._scan_of_loops(len(plan.joins), test) if has_loop else self._scan(plan, join, test)
            if not is_last:
                lines = [lines[0], "    counted = 0  # fitting pairs go to the next join", *lines[1:]]
            scan = "\n".join(lines).replace("STAGE", str(stage)).replace("WORLD", world)
            self._function(scan.splitlines())
        arguments = "c, items, sizes, b, row, path, first, events, low, high, n, rising, counted, out, memo"
        lines = [f"def scan(stage, {arguments}, {world}):"]
        for stage in joining:
            lines += [f"    if stage == {stage}:", f"        return scan{stage}({arguments}, {world})"]
        self._function([*lines, "    return n, 0, 0, high"])

    def _scan_of_loops(self, n: int, test: list[str]) -> list[str]:
        """Return a scan of partial matches with n components and any number of events per component."""
        # Sizes after the n-th belong to other branches and are not read.
        head = [*_SCAN_HEAD, "    rising = False"]
        return [*head, f"    h = loaded(items, sizes, b, row, c, {n}, path, first)", *test]

    def _scan(self, plan: JoinPlan, join: LevelJoin, test: list[str]) -> list[str]:
        """Return a scan of partial matches with one event per bound component."""
        # Their path is a tuple. The loop cannot write to it, so the values of its events are read once.
        bound = plan.order[: plan.joins.index(join)]
        first = [sum(other < c for other in (*bound, join.component)) for c in range(len(plan.joins) + 1)]
        h = first[join.component]
        parts = [f"items[b, row, {d}]" for d in range(len(bound))]
        names = [f"p{d}" for d in range(len(bound))]
        loads = [f"    {name} = {part}" for name, part in zip(names, parts, strict=True)]
        whole = [*names[:h], "e", *names[h:]]
        partner = memo_partner(plan, join)
        if partner is not None:
            d = sum(other < partner for other in bound)
            test = [line.replace("PARTNER", f"p{d}") for line in (*_SCAN_BY_WORDS, *_SCAN_WITH_MEMO)]
        body = [line.replace("path[h] = e", f"path = ({', '.join(whole)},)") for line in test]
        return [
            *_SCAN_HEAD, *loads, *self._trimming(plan, join, names),
            f"    h, first = {h}, ({', '.join(map(str, first))},)", *body,
        ]  # fmt: skip

    def _trimming(self, plan: JoinPlan, join: LevelJoin, names: list[str]) -> list[str]:
        """Return lines that reduce the range to events in order and within limits, if places rise."""
        if not names or not plan.is_appending(join):
            return ["    rising = False"]
        end = f"limits[{WINDOW_END}, {names[0]}]"
        if join.after == join.component - 1:
            end = f"min({end}, limits[{GAP_END}, {names[-1]}])"
        return [
            "    if rising:", f"        later, end = limits[{LATER}, {names[-1]}], {end}",
            "        while low < high and events[0, low] < later:", "            low += 1",
            "        while low < high and events[0, high - 1] >= end:", "            high -= 1",
        ]  # fmt: skip

    def _completing(self, stages: list[tuple[JoinPlan, LevelJoin]]) -> None:
        world = ", ".join(WORLD)
        lines = [
            "@njit([(T.int64, I1, I1, WORLD,)], OPTIONS)",
            f"def completes(stage, path, first, {world}):",
        ]
        for stage, (plan, join) in enumerate(stages):
            c, number = join.component, self.plans.index(plan)
            tests = [f"first[{c + 1}] - first[{c}] >= {join.low}"] if join.low > 1 else []
            if join.is_in_front:
                tests.append(f"path[first[{c + 1}]] < limits[{GAP_END}, path[first[{c + 1}] - 1]]")
            tests += [_call(f"holds{number}_{i}", f"first[{c + 1}] - 1", "0") for i in join.completing]
            tests += [f"free{number}_{a}(path, first, {world})" for a in join.absences]
            if tests:
                lines += [f"    if stage == {stage}:", f"        return {' and '.join(tests)}"]
            if join is plan.joins[0] and join.taking:
                lines += [f"    if stage == {len(stages) + stage}:"]
                both = [f"{name}{stage}(path, first, 0, {world})" for name in ("placed", "held")]
                lines += [f"        return {' and '.join(both)}"]
        self._add_kernel([*lines, "    return True"])


def memo_size(n: int) -> int:
    """Return how many numbers the memo of all agents has, for ``n`` events."""
    # The upper half of a number is the place of a bound event. The lower half has two bits for each of 16
    # consecutive events in ``events``: tested, and true. The number is at (place * 40503 + word) modulo the
    # size, where ``word`` counts groups of 16 events. There are no more words than numbers, so index and
    # place identify the word. Threads read and write single numbers. If one overwrites another's, a pair is
    # tested again.
    return 1 << max(_MEMO_BITS, (n >> 4).bit_length())


def _call(name: str, last: str, place: str) -> str:
    return f"{name}(path, first, {last}, {place}, {', '.join(WORLD)})"


_SCAN_HEAD = [
    "def scanSTAGE(c, items, sizes, b, row, path, first, events, low, high, n, rising, counted, out, memo, "
    "WORLD):"
]
_COUNT = """    if counted and rising:
        for i in range(low, high):
            e = events[0, i]
            path[h] = e
            n += 1 if heldSTAGE(path, first, h, WORLD) else 0
        return n, high - low, high - low, high""".splitlines()
_TEST = """    for i in range(low, high):
        e = events[0, i]
        path[h] = e
        if not (rising or placedSTAGE(path, first, h, WORLD)):
            continue
        compared += 1
        if heldSTAGE(path, first, h, WORLD):
            if not counted:
                out[0, n], out[1, n], out[2, n] = b, row, e
            n += 1
            if n == out.shape[1] and not counted:
                return n, compared, compared, i + 1
    return n, compared, compared, high""".splitlines()
# 16 events at a time, if all events are in order and within limits.
_SCAN_BY_WORDS = """    i, begin, tested = low, low, 0
    while rising and i < high:
        word = i >> 4
        end = min(high, word + 1 << 4)
        m = (PARTNER * 40503 + word) & (len(memo) - 1)
        known = atomic.load(memo, m)
        if known >> 32 != PARTNER:
            known = PARTNER << 32
        of_these = ((1 << end - i) - 1) << (i & 15)
        new = of_these & ~(known >> 16)
        if new:
            for j in range(i, end):
                if new >> (j & 15) & 1:
                    e = events[0, j]
                    path[h] = e
                    tested += 1
                    if heldSTAGE(path, first, h, WORLD):
                        known |= 1 << (j & 15)
            known |= of_these << 16
            atomic.put(memo, m, known)
        held = known & of_these
        if counted:  # the bits that are set
            held -= held >> 1 & 0x5555
            held = (held & 0x3333) + (held >> 2 & 0x3333)
            held = held + (held >> 4) & 0x0F0F
            n += held + (held >> 8) & 31
            held = 0
        while held:
            while not held >> (i & 15) & 1:
                i += 1
            out[0, n], out[1, n], out[2, n] = b, row, events[0, i]
            held &= held - 1
            n += 1
            if n == out.shape[1]:
                return n, i + 1 - begin, tested, i + 1
        i = end
    if rising:
        return n, high - begin, tested, high""".splitlines()
_SCAN_WITH_MEMO = """    compared, tested, word, m, known = 0, 0, -1, 0, 0
    for i in range(low, high):
        e = events[0, i]
        path[h] = e
        if not placedSTAGE(path, first, h, WORLD):
            continue
        compared += 1
        if i >> 4 != word:
            word = i >> 4
            m = (PARTNER * 40503 + word) & (len(memo) - 1)
            known = atomic.load(memo, m)
            if known >> 32 != PARTNER:
                known = PARTNER << 32
        bit = 1 << (i & 15)
        if not known >> 16 & bit:
            tested += 1
            known |= bit << 16
            if heldSTAGE(path, first, h, WORLD):
                known |= bit
            atomic.put(memo, m, known)
        if known & bit:
            if not counted:
                out[0, n], out[1, n], out[2, n] = b, row, e
            n += 1
            if n == out.shape[1] and not counted:
                return n, compared, tested, i + 1
    return n, compared, tested, high""".splitlines()
_JOIN_TYPES = (
    'T.int64, T.int64, T.int64, T.Array(T.int64, 2, "C"), T.Array(T.int64, 2, "C"), '
    'T.Array(T.int64, 3, "C"), T.Array(T.int32, 3, "C"), T.Array(T.int64, 3, "C"), '
    'T.Array(T.int64, 2, "C", readonly=True), T.int64, T.int64, T.int64, I1, I1, I1, '
    'T.Array(T.int64, 2, "C"), I1, I1'
)
_JOIN = """@njit([(JOIN_TYPES, WORLD,)], OPTIONS)
def join(
    stage, n_blocks, n_ranges, lists, header, items, sizes, spans, events, scoped, rising, counted, at, path,
    first, out, report, memo, WORLD_NAMES
):
    c, in_order, most = COMPONENT[stage], IN_ORDER[stage], HIGH[stage]"""
# `_JOIN` is the head of a kernel. Its body is that of the interpreting kernel, with other arguments of the
# scan: the second in place of the first.
_CALL = "own, listed, query, limits, blocks, state, events, part, rising, counted"
_CALL_OF_SCAN = """stage, c, items, sizes, b, row, path, first, events, low, high, n, rising, counted,
                        out, memo, WORLD_NAMES"""
