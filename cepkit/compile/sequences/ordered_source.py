"""Write the Python source of a search in a given order, and of conditions on a partial match."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from cepkit.compile.sequences.program import (
    EACH,
    EARLIER,
    LAST,
    PREVIOUS,
    BoundBranch,
    BoundCondition,
    SequenceProgram,
)
from cepkit.compile.shared.term_writing import VECTOR, TermWriter, decorator, module_header
from cepkit.compile.shared.terms import Term
from cepkit.events import BOOLEAN, FLOAT, NULL_CODE, TEXT
from cepkit.values import dataclass

# Write conditions on a partial match as functions of its path: the places of its events, in order.


class PathWriter(TermWriter):
    """Writes functions ``name(path, first, last, y, …)`` that test whether a condition holds on a path."""

    # ``path[d]`` is the place of the d-th event, and component c begins at ``first[c]``. ``last`` is the
    # index of the last event in ``path``. ``y`` is the place of an event outside the path: an absent event,
    # or one that may end a loop.

    def __init__(
        self,
        terms: Iterable[Term],
        dtypes: Mapping[str, str],
        functions: tuple[str, ...],
        *,
        is_group: tuple[bool, ...],
        python: bool,
    ):
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
        self,
        name: str,
        term: Term,
        component_of: Mapping[str, int],
        *,
        top: int,
        taking: int | None = None,
        taken: int | None = None,
        beside: str | None = None,
    ) -> list[str]:
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


# Write the Python source of a search that binds single events in a given order, by lists of their type.
#
# Each level iterates over the events that one component accepts, between the bound neighbours and in the
# window. Conditions and absences are tested at the level that binds the last of their events.

# Indices of the search's report.
LEVEL, N_MATCHES, WORK, DONE = range(4)
# An array argument: ("limit", name), ("members", c), ("rank", c or ~a), ("column", c or ~a, number).
# ~a means absence a, c means component c.
Key = tuple[str, int | str] | tuple[str, int, int]


@dataclass(frozen=True, slots=True)
class OrderedKernel:
    """The text of a search and the arrays that it needs, in order."""

    text: str
    arrays: tuple[Key, ...]


def unordered(bound: BoundBranch) -> str | None:
    """Return why a branch can only be searched in its own order, as text that completes "it …"; else None."""
    for component in bound.branch.components:
        if component.high != 1 or component.is_group:
            return f"repeats {component.variable!r}; only single events have an order to choose"
        if component.step != "any":
            return "may not skip any event between two of a match (strategy 'any' may)"
    for condition in bound.conditions:
        for leaf in condition.term.walk():
            if leaf.op == "group" or (leaf.op == "element" and leaf.data[1] not in (EACH, LAST, 1)):
                return f"condition {condition.condition.conjunct + 1} uses a group of events"
    return None


def components_of_condition(own: BoundCondition) -> frozenset[int]:
    """Return the components whose events a condition uses."""
    return frozenset(own.component_of_variable.values())


def components_of_absence(bound: BoundBranch, a: int) -> frozenset[int]:
    """Return the components whose events decide whether an absent event occurs."""
    absence, last = bound.branch.absences[a], len(bound.branch.components) - 1
    edges = {absence.after, absence.before}
    if absence.after < 0:
        edges = {last, absence.before}
    if absence.before > last:
        edges = {absence.after, 0} if absence.after >= 0 else {last, 0}
    conditions = (condition for condition in bound.conditions if condition.condition.absence == a)
    return frozenset(edges).union(*(components_of_condition(condition) for condition in conditions))


def write_ordered(
    program: SequenceProgram, bound: BoundBranch, order: tuple[int, ...], dtypes: Mapping[str, str]
) -> OrderedKernel:
    """Write the kernel that finds the matches of a branch by binding its components in a given order."""
    # Source: Kolchinsky, Schuster, "Join Query Optimization Techniques for Complex Event Processing
    # Applications", PVLDB 11(11), 2018: evaluation in another order than that of the pattern.
    # Differs: all events are available from the start, so earlier events are found in lists of their type;
    # nothing is buffered until the rarer event arrives.
    return _OrderedWriter(program, bound, order, dtypes).write()


class _OrderedWriter:
    def __init__(self, program, bound, order, dtypes):
        self.program, self.bound, self.order = program, bound, order
        self.n, self.absences = len(order), bound.branch.absences
        self.writer = PathWriter(
            program.terms(), dtypes, tuple(program.functions), is_group=(False,) * len(order), python=False
        )
        self.columns = self.writer.columns
        self.name_of_array: dict[Key, str] = {}
        level_of = {c: level for level, c in enumerate(order)}
        self.conditions: list[list[BoundCondition]] = [[] for _ in order]
        for condition in bound.conditions:
            if condition.condition.absence is None:
                at = max((level_of[c] for c in components_of_condition(condition)), default=0)
                self.conditions[at].append(condition)
        self.absent: list[list[int]] = [[] for _ in order]
        for a in range(len(self.absences)):
            self.absent[max(level_of[c] for c in components_of_absence(bound, a))].append(a)

    def write(self) -> OrderedKernel:
        body = [line for level in range(self.n) for line in self._level(level)]
        keys = tuple(self.name_of_array)
        scalars = ["fill", "work_limit", "low", "high", "low_place", "high_place"]
        n_columns = sum(dtype != "object" for dtype in self.writer.dtypes.values())
        scratch = ["cursor", "stop", "place", "index", "count_of_last", "out", "report"]
        arguments = [*scalars, *self.name_of_array.values(), *self.writer.arguments()[n_columns:], *scratch]
        types = [*["T.int64"] * 6, *(f"read_only(T.{self._dtype(key)})" for key in keys)]
        types += [*self.writer.argument_types()[n_columns:], *["I1"] * 5, "I2", "I1"]
        lines = [*module_header().splitlines(), *self.writer.helpers]
        lines += decorator(types, user_functions=bool(self.program.functions))
        lines += [f"def search({', '.join(arguments)}):", *_HEAD.splitlines()]
        lines += [*(f"        {line}" for line in body), *_TAIL.splitlines()]
        return OrderedKernel("\n".join(lines) + "\n", keys)

    # --- names

    def _array(self, *key: str | int) -> str:
        return self.name_of_array.setdefault(key, f"{key[0]}{len(self.name_of_array)}")

    def _dtype(self, key: Key) -> str:
        return self.writer.dtypes[self.columns[key[2]]] if key[0] == "column" else "int64"

    def _limit(self, name: str, place: str) -> str:
        return f"{self._array('limit', name)}[{place}]"

    def _leaves(self, condition: BoundCondition) -> list[tuple[Term, int]]:
        """Return the elements that a condition uses, with their component, or ~a for absence a."""
        component_of, a = condition.component_of_variable, condition.condition.absence
        absent = None if a is None else self.absences[a].variable
        leaves = dict.fromkeys(leaf for leaf in condition.term.walk() if leaf.op == "element")
        return [(leaf, ~a if leaf.data[0] == absent else component_of[leaf.data[0]]) for leaf in leaves]

    def _value(self, leaf: Term, of: int) -> str:
        owner = f"n{~of}" if of < 0 else f"v{of}"
        return f"{owner}_{self.columns.index(leaf.data[2])}"

    def _load(self, leaf: Term, of: int, cell: str) -> str:
        column = leaf.data[2]
        array = self._array("column", of, self.columns.index(column))
        dtype = self.writer.dtypes[column]
        wide = "" if dtype in ("int64", "float64") else "np.float64" if dtype == "float32" else "np.int64"
        return f"{self._value(leaf, of)} = {wide}({array}{cell})"

    def _true(self, condition: BoundCondition) -> str:
        self.writer.names = {
            leaf: self._value(leaf, component) for leaf, component in self._leaves(condition)
        }
        return self.writer.true(condition.term)

    # --- a level

    def _level(self, level: int) -> list[str]:
        c, is_last_level = self.order[level], level == self.n - 1
        lines = [f"    p{b} = place[{b}]" for b in self.order[:level]]
        lines += self._loads(level, lambda k: k != c and k >= 0, lambda k: f"[index[{k}]]")
        lines += self._innermost(level) if is_last_level else self._outer(level)
        return [f"if level == {level}:", *lines]

    def _loads(self, level: int, is_wanted, cell) -> list[str]:
        """Return the lines that read the values for this level's conditions."""
        absent = [b for b in self.bound.conditions if b.condition.absence in self.absent[level]]
        leaves = [
            pair for condition in (*self.conditions[level], *absent) for pair in self._leaves(condition)
        ]
        lines = (
            self._load(leaf, component, cell(component)) for leaf, component in leaves if is_wanted(component)
        )
        return [f"    {line}" for line in dict.fromkeys(lines)]

    def _own(self, level: int, place: str, cell: str) -> list[str]:
        """Return the lines that read the event of this level."""
        c = self.order[level]
        return [f"    p{c} = {place}", *self._loads(level, lambda component: component == c, lambda _: cell)]

    def _tests(self, level: int, *, with_position: bool) -> tuple[list[str], list[list[str]]]:
        """Return the conditions of a level, and the lines that ``continue`` if an absent event occurs."""
        tests = []
        if with_position and self.order[level] == self.n - 1:
            place = self._limit("position", f"p{self.n - 1}")
            tests.append(f"(low <= {place} and {place} < high)")
        tests += [self._true(condition) for condition in self.conditions[level]]
        scans = []
        for a in self.absent[level]:
            absent = [b for b in self.bound.conditions if b.condition.absence == a]
            begin, end = (f"{self._array('rank', ~a)}[{bound}]" for bound in self._between(a))
            if not absent:
                tests.append(f"({end} <= {begin})")
                continue
            loads = [
                self._load(leaf, component, "[y]")
                for condition in absent
                for leaf, component in self._leaves(condition)
                if component < 0
            ]
            scans.append(
                [
                    "    free = True",
                    f"    for y in range({begin}, {end}):",
                    *(f"        {line}" for line in dict.fromkeys(loads)),
                    f"        if {' and '.join(map(self._true, absent))}:",
                    "            free = False",
                    "            break",
                    "    if not free:",
                    "        continue",
                ]
            )
        return tests, scans

    def _between(self, a: int) -> tuple[str, str]:
        absence, last = self.absences[a], self.n - 1
        low = self._limit("time_start", f"p{last}") if absence.after < 0 else f"p{absence.after} + 1"
        high = self._limit("time_end", "p0") if absence.before > last else f"p{absence.before}"
        return low, high

    def _outer(self, level: int) -> list[str]:
        c = self.order[level]
        tests, scans = self._tests(level, with_position=True)
        lines = ["    cursor[level] = i + 1", *self._own(level, f"{self._array('members', c)}[i]", "[i]")]
        if tests:
            lines += [f"    if not ({' and '.join(tests)}):", "        continue"]
        lines += [line for scan in scans for line in scan]
        lines += [f"    place[{c}], index[{c}] = p{c}, i", *self._reach(level + 1)]
        return [*lines, f"    level = {level + 1}", "    continue"]

    def _reach(self, level: int) -> list[str]:
        """Return the lines that find the first and last candidate of a level."""
        c, bound, last = self.order[level], set(self.order[:level]), self.n - 1
        below, above = [b for b in bound if b < c], [b for b in bound if b > c]
        lows = [self._limit("later", f"p{max(below)}") if below
                else self._limit("window_begin", f"p{max(bound)}")]  # fmt: skip
        highs = [self._limit("earlier", f"p{min(above)}") if above
                 else self._limit("window_end", f"p{min(bound)}")]  # fmt: skip
        if self.program.window.gap_within is not None:
            lows += [self._limit("gap_begin", f"p{c + 1}")] if c + 1 in bound else []
            highs += [self._limit("gap_end", f"p{c - 1}")] if c - 1 in bound else []
        if c == last:
            lows, highs = [*lows, "low_place"], [*highs, "high_place"]
        rank = self._array("rank", c)
        lines = [f"    lo, hi = {lows[0]}, {highs[0]}"]
        lines += [f"    lo = max(lo, {more})" for more in lows[1:]]
        lines += [f"    hi = min(hi, {more})" for more in highs[1:]]
        return [*lines, f"    cursor[{level}], stop[{level}] = {rank}[lo], {rank}[hi]"]

    def _innermost(self, level: int) -> list[str]:
        c, last, members = self.order[level], self.n - 1, self._array("members", self.order[level])
        lines = ["    j = stop[level]", "    if fill:", "        while i < j:"]
        tests, scans = self._tests(level, with_position=True)
        body = [*self._own(level, f"{members}[i]", "[i]"), "    i += 1"]
        if tests:
            body += [f"    if not ({' and '.join(tests)}):", "        continue"]
        body += [line for scan in scans for line in scan]
        body += [
            "    if n_matches >= out.shape[0]:",
            "        i -= 1",
            "        is_full = True",
            "        break",
        ]
        body += [f"    out[n_matches, {b}] = p{b}" for b in range(self.n)]
        lines += [f"        {line}" for line in [*body, "    n_matches += 1"]]
        lines += ["        work += i - cursor[level]", "        cursor[level] = i"]
        lines += ["        if is_full:", "            break", "    else:"]
        return [*lines, *(f"    {line}" for line in self._counting(level, c == last)), "    level -= 1"]

    def _counting(self, level: int, counts_by_own: bool) -> list[str]:
        """Return the lines that count all candidates, in slices, which the compiler vectorises."""
        tests, scans = self._tests(level, with_position=False)
        reads = self._own(level, f"{self._array('members', self.order[level])}[a]", "[a]")
        # The same reads, on slices.
        used = [name for name in self.name_of_array.values() if any(f"{name}[a]" in line for line in reads)]
        lines = [f"    {name}_a = {name}[i:j]" for name in used]
        for name in used:
            reads = [line.replace(f"{name}[a]", f"{name}_a[a]") for line in reads]
        lines += ["    z = np.int64(0)", f"    for a in range(len({used[0]}_a)):"]
        lines += [f"    {line}" for line in reads]
        is_costly = any(self.writer.is_costly(condition.term) for condition in self.conditions[level])
        holds = (" and " if is_costly else " & ").join(tests) or "True"
        if scans:
            lines += [f"        if not ({holds}):", "            continue"]
            lines += [f"    {line}" for scan in scans for line in scan]
            holds = "True"
        if counts_by_own:
            lines.append(f"        count_of_last[p{self.n - 1}] += 1 if {holds} else 0")
        else:
            lines.append(f"        z += 1 if {holds} else 0")
        lines.append("    if i < j:")
        lines.append("        work += j - i")
        if not counts_by_own:
            lines.append(f"        count_of_last[p{self.n - 1}] += z")
        return lines


_HEAD = """    level = report[0]
    n_matches, work, done, is_full = 0, 0, 0, False
    while True:
        if level < 0:
            done = 1
            break
        i = cursor[level]
        if i >= stop[level]:
            level -= 1
            continue
        work += 1
        if work > work_limit:
            break"""
_TAIL = """    report[0], report[1], report[2], report[3] = level, n_matches, report[2] + work, done"""
