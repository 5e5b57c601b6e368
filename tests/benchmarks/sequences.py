"""Print how fast matches are counted, beside C and DuckDB; ``python tests/benchmarks/sequences.py``.

Times are the least thread-CPU time of several runs, after a warm-up; quote the ratios. C and the engine get
the same: columns, windows as places, and which places fulfil the conditions on single events.
"""

from __future__ import annotations

import argparse
import ctypes
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from cepkit.compile.counting.state_graph import StateGraph
from cepkit.compile.sequences.program import compile_sequence
from cepkit.engines.counting.engine import counter_of, graph_of, walk_of
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


RISING, LARGER = less("b", "b", ("i-1", "i")), less("a", "b", (None, "i"))


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
CASES = (
    *(
        Case(f"SEQ(A,B,C) rising, 2 % of 1 M, W={within:,}", "seq3", PLAIN, RISING_ALL, within, 10**6, 0.021)
        for within in (10_000, 100_000)
    ),
    *(
        Case(f"SEQ(A,B,C) rising, 100 k, W={within:,}", "seq3", PLAIN, RISING_ALL, within, 10**5)
        for within in (300, 3000, 30_000)
    ),
    *(Case(f"SEQ(A,B,C), 1 M, W={within:,}", "unary", PLAIN, (), within, 10**6) for within in (100, 10**5)),
    *(
        Case(f"SEQ(A,B+,C) B rising, 30 k, W={within:,}", "kleene", KLEENE, (RISING,), within, 30_000)
        for within in (300, 600, 1200)
    ),
    *(
        Case(f"SEQ(A,B+,C) all B > A, 1 M, W={within:,}", "anchored", KLEENE, (LARGER,), within, 10**6)
        for within in (6, 12, 40)
    ),
    Case("SEQ(A,!B,C) a.x < b.x, 1 M, W=300", "absent", ABSENT, (less("a", "b"),), 300, 10**6),
)


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


def least(work: Callable[[], object], repeats: int) -> tuple[float, object]:
    """Return the least thread-CPU time of ``work`` after a warm-up, and its result."""
    result, times = work(), []
    for _ in range(repeats):
        began = time.thread_time()
        result = work()
        times.append(time.thread_time() - began)
    return min(times), result


def c_twin() -> ctypes.CDLL | None:
    """Compile and load ``sequences.c``; None without gcc."""
    compiler = shutil.which("gcc")
    if compiler is None:
        return None
    library = Path(tempfile.mkdtemp()) / "sequences.so"
    source = Path(__file__).with_suffix(".c")
    subprocess.run([compiler, "-O3", "-march=native", "-shared", "-fPIC", source, "-o", library], check=True)
    twin = ctypes.CDLL(str(library))
    for name in {"seq3_of_columns", *(case.twin for case in CASES)}:
        getattr(twin, name).restype = ctypes.c_int64
    return twin


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


def in_duckdb(case: Case) -> tuple[float, int]:
    """Return CPU seconds and result of the negation as ``NOT EXISTS``, on one thread."""
    import duckdb

    frame = stream(case.n, case.share)
    connection = duckdb.connect()
    connection.execute("SET threads = 1")
    connection.register("frame", frame)
    connection.execute("CREATE TABLE e AS SELECT * FROM frame")
    began = time.process_time()
    n = connection.execute(
        "SELECT count(*) FROM e a, e c WHERE a.kind = 'A' AND c.kind = 'C' AND c.t > a.t AND c.t <= a.t + ?"
        " AND NOT EXISTS (SELECT 1 FROM e b WHERE b.kind = 'B' AND b.t > a.t AND b.t < c.t AND a.x < b.x)",
        [case.within],
    ).fetchone()[0]
    return time.process_time() - began, n


def _n_walked(graph: StateGraph, places: Places, accept: np.ndarray) -> int:
    """Make all matches as blocks, and return how many events they have."""
    return sum(len(block.event_of_item) for block in walk_of(graph, places, accept).blocks())


def run(repeats: int = 7, *, duckdb_events: int = 10_000) -> dict[str, float]:
    """Print the table and return rate of the engine / rate of the peer, by name."""
    twin, ratios = c_twin(), {}
    for case in CASES:
        graph, places, accept = prepared(case)
        cost, counts = least(lambda a=(graph, places, accept): counter_of(*a).by_place(), repeats)
        total = counter_of(graph, places, accept).total()
        line = f"{case.name:<44} {total:>12.3g} matches {1e3 * cost:>9.2f} ms {case.n / cost / 1e6:>8.1f} M/s"
        if twin is not None:
            function, tests = getattr(twin, case.twin), tests_of_abc(graph)
            c_cost, c_counts = least(lambda f=function, a=(places, accept, tests): call_twin(f, *a), repeats)
            modulo = [int(n) % 2**64 for n in counts]  # as the twin counts
            assert np.array_equal(np.array(modulo, np.uint64), c_counts), "the twin counts otherwise"
            ratios[f"{case.name}: engine / C twin"] = c_cost / cost
            line += f"   C twin {1e3 * c_cost:>9.2f} ms   ratio {c_cost / cost:.2f}"
        print(line, flush=True)
        if case.twin == "anchored" and total < 10**7:
            cost, n_items = least(lambda a=(graph, places, accept): _n_walked(*a), repeats)
            rates = f"{case.n / cost / 1e6:>8.1f} M/s, {n_items / cost / 1e6:.1f} M events of matches/s"
            print(f"{'   all matches as blocks':<44} {'':>20} {1e3 * cost:>9.2f} ms {rates}", flush=True)
    case = Case(f"SEQ(A,!B,C), {duckdb_events:,}", "absent", ABSENT, CASES[-1].where, 300, duckdb_events)
    graph, places, accept = prepared(case)
    cost, n = least(lambda: counter_of(graph, places, accept).total(), repeats)
    peer, n_peer = in_duckdb(case)
    assert n == n_peer, (n, n_peer)
    ratios[f"{case.name}: engine / DuckDB NOT EXISTS"] = peer / cost
    print(
        f"{case.name:<44} {n:>12,} matches {1e3 * cost:>9.2f} ms   "
        f"DuckDB {peer:>8.2f} s    ratio {peer / cost:.0f}"
    )
    return ratios


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=7)
    run(parser.parse_args().repeats)
