"""The kernels along paths once more, for every graph: its states, links and conditions are tables.

No query changes their texts, so they come with the package as bitcode and serve queries whose own kernels are
not compiled yet. Conditions are tests on numbers, as in `cepkit.kernels.interpreted_counting`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from cepkit.compile.counting.path_source import READ, SOURCES, PathModuleWriter, finding_text, tables_of
from cepkit.compile.counting.ranking import (
    write_descent,
    write_fitting,
    write_window_counts,
    write_window_digits,
)
from cepkit.compile.counting.reach import write_reach_back, write_starts
from cepkit.compile.counting.state_graph import StateGraph
from cepkit.compile.counting.walking import write_line_walk, write_walk

WRITERS: tuple[Callable[[PathModuleWriter], str], ...] = (
    write_starts, write_reach_back, write_line_walk, write_walk, write_window_counts, write_fitting,
    write_window_digits, write_descent,
)  # fmt: skip
_ARRAYS = ("COMPONENT", "FIRST_STATE", "LEAVES", "SOURCE", "LINK", "FIRST_EDGE", "GOES_ON")
_NUMBERS = ("N", "N_COMPONENTS", "FOLLOWS", "LOOPS")
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

    graph_arguments = "".join(f", {name}" for name in (*_ARRAYS, *_NUMBERS))
    values = f"place, WITHIN, STATES, first_test, tests, numbers{graph_arguments}"
    value_types = [  # noqa: RUF012 - no writer changes it
        *[READ] * 4, "I2", 'T.Array(T.uint64, 1, "C")', *[READ] * len(_ARRAYS), *["T.int64"] * len(_NUMBERS)
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
    of = [link.source for link in graph.links]
    states = [sum(1 << s for s, state in enumerate(graph.states) if state.component == c) for c in of]
    first_test = np.cumsum([0, *map(len, rows_of_link)])
    tests = [row for rows in rows_of_link for row in rows]
    return (
        np.array([link.source == link.target for link in graph.links], np.int64),
        np.array(states, np.int64), first_test.astype(np.int64), np.array(tests, np.int64).reshape(-1, 3),
        numbers, *(np.array(arrays[name], np.int64) for name in _ARRAYS),
        *(scalars[name] for name in _NUMBERS),
    )  # fmt: skip
