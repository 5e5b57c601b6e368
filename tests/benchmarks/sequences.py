"""Queries on sequences as the counting engine and the C twin get them.

Both get the same: columns, windows as places, and which places fulfil the conditions on single events.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from cepkit.compile.counting.state_graph import StateGraph
from cepkit.compile.sequences.program import compile_sequence
from cepkit.engines.counting.engine import graph_of
from cepkit.engines.shared.kernels import accepted
from cepkit.engines.shared.places import Places
from cepkit.frames.building import build_events
from cepkit.frames.pandas import PandasSource
from cepkit.language.expressions import trees as ex
from cepkit.language.sequences.patterns import AbsentPattern, EventPattern, Loop, SequenceOf
from cepkit.language.sequences.query import SequenceQuery

A, B, C = (EventPattern(name, name.upper()) for name in "abc")


def less(left: str, right: str, index: tuple[str | None, str | None] = (None, None)) -> ex.Expression:
    """Return ``left.x < right.x``."""
    return ex.Comparison("<", ex.Reference(left, "x", index[0]), ex.Reference(right, "x", index[1]))


RISING = less("b", "b", ("i-1", "i"))


@dataclass(frozen=True)
class Case:
    """A query on a stream, and the function of the C twin that does the same."""

    name: str
    twin: str
    parts: tuple
    where: tuple[ex.Expression, ...]
    within: int
    n: int
    share: float = 1.0  # of A, B and C among all events


PLAIN, KLEENE, ABSENT = (A, B, C), (A, Loop(B, 1, None), C), (A, AbsentPattern(B), C)
RISING_ALL = (less("a", "b"), less("b", "c"))


def stream(n: int, share: float = 1.0, seed: int = 0) -> pd.DataFrame:
    """Return ``n`` events with a random attribute, ``share`` of them of the types A, B and C."""
    rng = np.random.default_rng(seed)
    kind = rng.choice([*"ABCD"], n, p=[share / 3] * 3 + [1 - share])
    kind = pd.Categorical(kind, categories=[*"ABCD"])
    return pd.DataFrame({"t": np.arange(n), "kind": kind, "x": rng.random(n)})


def called(function: Callable, *arguments: np.ndarray | int) -> int:
    """Call a function of the twin."""
    native = (
        argument.ctypes.data_as(ctypes.c_void_p)
        if isinstance(argument, np.ndarray)
        else ctypes.c_int64(argument)
        for argument in arguments
    )
    return function(*native)


def prepared(case: Case) -> tuple[StateGraph, Places, np.ndarray]:
    """Return what both sides get."""
    query = SequenceQuery(
        SequenceOf(case.parts, (None,) * len(case.parts)), case.where,
        within=case.within, event_type="kind", order_by=("t",),
    )  # fmt: skip
    source = PandasSource(stream(case.n, case.share))
    program = compile_sequence(query, source.schema)
    places = Places(program, build_events(source, program))
    graph = graph_of(program, program.branches[0])
    assert isinstance(graph, StateGraph), graph
    assert places.window_start is not None and places.window_end is not None
    return graph, places, accepted(places)


def call_twin(function: Callable, places: Places, accept: np.ndarray, tests: list[int]) -> np.ndarray:
    """Return how many matches end at each place, according to the twin."""
    out = np.zeros(places.n, np.uint64)
    x = places.events.columns["x"].values if "x" in places.events.columns else np.empty(places.n)
    called(function, places.n, *(accept[test] for test in tests), x, places.window_start, out)
    return out


def tests_of_abc(graph: StateGraph) -> list[int]:
    """Return the tests of A, B and C, the absent one too."""
    tests = [state.test for state in graph.states]
    absent = [absence.test for link in graph.links for absence in link.absences]
    return [tests[0], *absent, *tests[1:]]
