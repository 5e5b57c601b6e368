"""State graph → Python source of the kernels that count the paths of a window and find paths by number."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from cepkit.compile.counting_paths import (
    INT1,
    INT2,
    INT3,
    READ,
    SOURCES,
    PathModuleWriter,
    finding_text,
    tables_of,
    write_line_walk,
    write_reach_back,
    write_starts,
    write_walk,
)
from cepkit.compile.state_graph import StateGraph

DIGIT = 31  # bits of a digit of a large number
# Indices in the report of counting, then in the report of the descent.
STATE, ENTRY, COUNTED = range(3)
LEVEL, SCAN, PHASE, FOUND, IS_FULL = range(5)


def write_window_counts(writer: PathModuleWriter) -> str:
    """Write the kernels that count the paths within a window, and find those of a line by their numbers."""
    # Counting stops after it looked at ``work_limit`` pairs; the next call continues from the report.
    helpers = writer.over_links("total", "cell, count", _TOTAL)
    types = ["T.int64"] * 2 + [READ] * 7 + writer.value_types + [INT1, INT1]
    kernels = [(_counting("", _COUNT_CELL, "counts"), types)]
    if writer.is_line:
        types = ["T.int64"] * 2 + [READ] * 4 + writer.value_types + [INT1, READ, INT1, INT2]
        kernels.append((_DRAW, types))
    return writer.path_module(helpers, *kernels)


def write_fitting(writer: PathModuleWriter) -> str:
    """Write the kernel that checks which rows of entries, one per state of a line, are paths."""
    helpers = writer.over_links("n_held", "every", _N_HELD)
    types = [INT2, READ, READ, *writer.value_types, INT1]
    return writer.path_module(helpers, (_FITS, types))


def write_window_digits(writer: PathModuleWriter) -> str:
    """Write the counting kernel for numbers of any size: ``count[cell, n]`` is digit n to the base 2^31."""
    helpers = writer.over_links("total", "cell, sums, count", _ADD)
    types = ["T.int64"] * 2 + [READ] * 7 + writer.value_types + [INT1, INT2, INT1]
    return writer.path_module(helpers, (_counting("sums, ", _DIGITS_OF_CELL, "digits"), types))


def write_descent(writer: PathModuleWriter) -> str:
    """Write the kernel that finds a match by its number among those that end at one event."""
    helpers = [*writer.finding(), *(text.splitlines() for text in _NUMBERS)]
    types = ["T.int64"] * 2 + [READ] * 6 + writer.value_types + [INT2, *[INT1] * 7]
    types += [INT3, INT1, INT2, INT1]
    return writer.path_module(helpers, (_DESCENT, types))


def _counting(scratch: str, cell: str, name: str) -> str:
    """Return the text of a counting kernel for one kind of scratch arrays."""
    text = _COUNTING.replace("            CELL", cell).replace("SCRATCH", scratch)
    return text.replace("NAME", name)


_TOTAL = """    LOADS
    if lo >= hi:
        return 0
    v = count[cell + lo : cell + hi]
    z = 0
    for j in range(len(v)):
        z += v[j] if CONDITION else 0
    return z"""

_ADD = """    LOADS
    for j in range(hi - lo):
        if CONDITION:
            for n in range(len(sums)):
                sums[n] += count[cell + lo + j, n]"""

_COUNTING = """def NAME(work_limit, w, lows, highs, offset, cell, low, high, latest, VALUES, SCRATCHcount,
           report):
    s, i, work = report[0], report[1], 0
    while s < N:
        if GOES_ON[s] == 0:
            s, i = s + 1, -1
            continue
        if i < 0:
            i = lows[s]
        while i < highs[s]:
            CELL
            work += 4
            i += 1
            if work > work_limit:
                report[0], report[1] = s, i
                return
        s, i = s + 1, -1
    report[0], report[1], report[2] = s, i, 1
"""

_COUNT_CELL = """            z = 0
            if latest[offset[s] + i] >= w:
                z = 1 if s == 0 else 0
                for edge in range(FIRST_EDGE[s], FIRST_EDGE[s + 1]):
                    lo, hi = max(low[i], lows[SOURCE[edge]]), high[i]
                    z += total(LINK[edge], i, lo, hi, cell[SOURCE[edge]], count, VALUES)
                    work += hi - lo
            count[cell[s] + i] = z"""

_DIGITS_OF_CELL = """            for n in range(len(sums)):
                sums[n] = 0
            if latest[offset[s] + i] >= w:
                sums[0] = 1 if s == 0 else 0
                for edge in range(FIRST_EDGE[s], FIRST_EDGE[s + 1]):
                    lo, hi = max(low[i], lows[SOURCE[edge]]), high[i]
                    total(LINK[edge], i, lo, hi, cell[SOURCE[edge]], sums, count, VALUES)
                    work += (hi - lo) * len(sums)
            carry = 0
            for n in range(len(sums)):
                z = sums[n] + carry
                count[cell[s] + i, n] = z & 2147483647
                carry = z >> 31"""

# Finds a match's events from the last to the first. It skips entries, 64 at a time and then one by one, while
# the number is not below the count of their paths.
_DRAW = """def draw(begin, work_limit, lows, cell, low, high, VALUES, count, last, rank, out):
    work = 0
    for m in range(begin, len(last)):
        i, r = last[m], rank[m]
        out[m, N - 1] = i
        for s in range(N - 2, -1, -1):
            lo, hi, k = max(low[i], lows[s]), high[i], LINK[s]
            work += hi - lo
            if r < 0:
                rank[m] = total(k, i, lo, hi, cell[s], count, VALUES)
                break
            while lo < hi:
                z = total(k, i, lo, min(hi, lo + 64), cell[s], count, VALUES)
                if r < z:
                    break
                r -= z
                lo += 64
            while lo < hi:
                z = total(k, i, lo, lo + 1, cell[s], count, VALUES)
                if r < z:
                    break
                r -= z
                lo += 1
            i = min(lo, hi - 1)
            out[m, s] = i
        if work > work_limit:
            return m + 1
    return len(last)
"""

_N_HELD = """    LOADS
    n = 0
    for j in range(hi - lo):
        n += 1 if CONDITION else 0
    return n"""

_FITS = """def fits(rows, low, high, VALUES, out):
    for m in range(len(out)):
        good = 1
        for s in range(N - 1):
            i, j = rows[m, s + 1], rows[m, s]
            if j < low[i] or j >= high[i] or n_held(LINK[s], i, j, j + 1, 0, VALUES) == 0:
                good = 0
                break
        out[m] = good
"""

# Numbers are digits to the base 2^31, the lowest first. Carries beyond the highest digit are lost.
_NUMBERS = (
    """def add(number, other):
    carry = 0
    for n in range(len(number)):
        z = number[n] + other[n] + carry
        number[n] = z & 2147483647
        carry = z >> 31""",
    """def add_product(number, one, other):
    for m in range(len(number)):
        if one[m] == 0:
            continue
        carry = 0
        for n in range(m, len(number)):
            z = number[n] + one[m] * other[n - m] + carry
            number[n] = z & 2147483647
            carry = z >> 31""",
    """def is_less(number, other):
    for n in range(len(number) - 1, -1, -1):
        if number[n] != other[n]:
            return number[n] < other[n]
    return False""",
    """def subtract(number, other):
    borrow = 0
    for n in range(len(number)):
        z = number[n] - other[n] - borrow
        borrow = 1 if z < 0 else 0
        number[n] = z + 2147483648 if z < 0 else z""",
    """def ways_on(s, a, b, way_of, part TABLES):
    for n in range(len(part)):
        part[n] = 0
    if (b >> s) & 1:
        add(part, way_of[FIRST_STATE[COMPONENT[s] + 1]])
    if (a >> s) & 1:
        add(part, way_of[s + 1 - ((LOOPS >> s) & 1)])""",
)

# In phase 1 the event at depth d is new; in phase 0 the kernel looks for the event before it.
_DESCENT = """def descend(work_limit, w, lows, offset, cell, low, high, latest, VALUES, count, rest, weight,
            part, entry, states, stays, nexts, ways, path_state, candidates, report):
    d, scan, phase, work = report[0], report[1], report[2], 0
    while True:
        i = entry[d]
        if phase == 1:
            if states[d] & 1:
                if is_less(rest, ways[d, 0]):
                    break
                subtract(rest, ways[d, 0])
            stay, goes = sources(states[d] TABLES)
            if stay | goes == 0:
                report[3] = -1
                return
            s = 0
            while (states[d] >> s) & 1 == 0 or FIRST_EDGE[s] == FIRST_EDGE[s + 1]:
                s += 1
            scan = max(low[i], lows[SOURCE[FIRST_EDGE[s]]])
            phase = 0
        if work > work_limit:
            report[0], report[1], report[2] = d, scan, phase
            return
        stay, goes = sources(states[d] TABLES)
        lo, hi = scan, min(high[i], scan + candidates.shape[1])
        if d + 1 >= len(entry):
            report[0], report[1], report[2], report[4] = d, scan, phase, 1
            return
        n = find(i, lo, hi, w, stay, goes, offset, latest, VALUES, candidates)
        work += 16 * (hi - lo) + 16
        scan = hi
        for c in range(n):
            j, a, b = candidates[0, c], candidates[1, c], candidates[2, c]
            for t in range(len(weight)):
                weight[t] = 0
            for s in range(N):
                if (a | b) >> s & 1:
                    ways_on(s, a, b, ways[d], part TABLES)
                    add_product(weight, part, count[cell[s] + j])
            if is_less(rest, weight):
                for s in range(N):
                    if (a | b) >> s & 1:
                        ways_on(s, a, b, ways[d], ways[d + 1, s] TABLES)
                d += 1
                entry[d], stays[d], nexts[d], states[d] = j, a, b, a | b
                phase = 1
                break
            subtract(rest, weight)
        if phase == 0 and scan >= high[i]:
            report[0], report[3] = d, -1
            return
    s = 0
    path_state[d] = 0
    for t in range(d, 0, -1):
        target = FIRST_STATE[COMPONENT[s] + 1] if (nexts[t] >> s) & 1 else -1
        if target >= 0 and not is_less(rest, ways[t - 1, target]):
            subtract(rest, ways[t - 1, target])
            target = -1
        s = target if target >= 0 else s + 1 - ((LOOPS >> s) & 1)
        path_state[t - 1] = s
    report[0], report[3] = d, 1
"""


# The kernels along paths once more, for every graph: its states, links and conditions are tables.
#
# No query changes their texts, so they come with the package as bitcode and serve queries whose own kernels
# are not compiled yet. Conditions are tests on numbers, as in `cepkit.kernels.interpreted_counting`.

WRITERS: tuple[Callable[[PathModuleWriter], str], ...] = (
    write_starts, write_reach_back, write_line_walk, write_walk, write_window_counts, write_fitting,
    write_window_digits, write_descent,
)  # fmt: skip
_ARRAYS = ("COMPONENT", "FIRST_STATE", "LEAVES", "SOURCE", "LINK", "FIRST_EDGE", "GOES_ON")
_TABLE_NUMBERS = ("N", "N_COMPONENTS", "FOLLOWS", "LOOPS")
_PASSES = """def passes(k, e, i, first_test, tests, numbers):
    for t in range(first_test[k], first_test[k + 1]):
        if numbers[tests[t, 0] + e] - numbers[tests[t, 1] + i] > numbers[tests[t, 2] + i]:
            return False
    return True"""
_CHECKS = """        for k in range(len(WITHIN)):
            own = a if WITHIN[k] else b
            if own & STATES[k] and not passes(k, lo + j, i, first_test, tests, numbers):
                a &= ~STATES[k] if WITHIN[k] else -1
                b &= -1 if WITHIN[k] else ~STATES[k]"""


class TablePathWriter(PathModuleWriter):
    """Writes modules for every graph; for their values see `values_of`."""

    graph_arguments = "".join(f", {name}" for name in (*_ARRAYS, *_TABLE_NUMBERS))
    values = f"place, WITHIN, STATES, first_test, tests, numbers{graph_arguments}"
    value_types = [  # noqa: RUF012 - no writer changes it
        *[READ] * 4, "I2", 'T.Array(T.uint64, 1, "C")',
        *[READ] * len(_ARRAYS), *["T.int64"] * len(_TABLE_NUMBERS),
    ]  # fmt: skip

    def over_links(self, name: str, arguments: str, body: str, *, alive: str = "") -> list[list[str]]:
        """Return a function ``name(k, i, lo, hi, …)`` for every link; see `GraphPathWriter.over_links`."""
        condition = "passes(k, lo + j, i, first_test, tests, numbers)"
        body = body.replace("CONDITION", f"{alive} and {condition}" if alive else condition)
        lines = [line for line in body.splitlines() if line.strip() != "LOADS"]
        return [_PASSES.splitlines(), [f"def {name}(k, i, lo, hi, {arguments}, VALUES):", *lines]]

    def finding(self) -> list[list[str]]:
        """Return ``sources`` and ``find``: the entries that can precede one, with their states as masks."""
        return [_PASSES.splitlines(), SOURCES.splitlines(), finding_text([], _CHECKS.splitlines())]


@cache
def text_of(write: Callable[[PathModuleWriter], str]) -> str:
    """Return the text of a module for every graph."""
    return write(TablePathWriter())


def values_of(
    graph: StateGraph, rows_of_link: list[list[list[int]]], numbers: np.ndarray
) -> tuple[np.ndarray | int, ...]:
    """Return the arguments of kernels for every graph after the places of the entries."""
    arrays, scalars = tables_of(graph)
    components = [link.source for link in graph.links]
    states = [sum(1 << s for s, state in enumerate(graph.states) if state.component == c) for c in components]
    first_test = np.cumsum([0, *map(len, rows_of_link)])
    tests = [row for rows in rows_of_link for row in rows]
    return (
        np.array([link.source == link.target for link in graph.links], np.int64),
        np.array(states, np.int64), first_test.astype(np.int64), np.array(tests, np.int64).reshape(-1, 3),
        numbers, *(np.array(arrays[name], np.int64) for name in _ARRAYS),
        *(scalars[name] for name in _TABLE_NUMBERS),
    )  # fmt: skip
