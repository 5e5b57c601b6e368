"""How fast the kernels of event sequences are, beside C and what is asked; printed by ``run.py sequences``.

CPU seconds, the least of several runs; what is compared ran in turns in one process on one thread.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import sequence_walks as walks
import sequences as seq
from peers import c_twin
from rows import Measured, Options, Row, beside, in_turns

import cepkit as cep
from cepkit.engines.counting.engine import counter_of
from cepkit.engines.shared.kernels import accepted
from cepkit.engines.shared.places import Places
from cepkit.language.expressions import trees as ex

RISING = "PATTERN SEQ(A a, B b, C c) WHERE a.x < b.x AND b.x < c.x WITHIN {within}"


def matched(frame, text: str):
    """Return the matches of a query in a frame of the benchmarks."""
    return cep.match(frame, text, event_type="kind", order_by="t")


# --- rows -------------------------------------------------------------------------------------------------


def counted(repeats: int, n: int = 10**6, windows=(10_000, 100_000)) -> Iterator[Row]:
    """Numbers of matches beside C, from the same masks and from the same columns."""
    for within in windows:
        yield from _counted(repeats, seq.Case("", "seq3", seq.PLAIN, seq.RISING_ALL, within, n, 0.021))


def _counted(repeats: int, case: seq.Case) -> Iterator[Row]:
    graph, places, accept = seq.prepared(case)
    program, events, twin = places.program, places.events, c_twin("sequences.c")

    def of_masks() -> int:
        return counter_of(graph, places, accept).total()

    def of_columns() -> int:
        fresh = Places(program, events)
        return counter_of(graph, fresh, accepted(fresh)).total()

    what = f"a. SEQ(A,B,C) rising, {case.n:,} events, W={case.within:,}, counted from"
    if twin is None:
        for start, (cost, _) in zip(
            ("masks", "columns"), in_turns(repeats, of_masks, of_columns), strict=True
        ):
            yield beside(f"{what} {start}", cost, ">= 0.8 of C")
        return
    masks = [accept[test] for test in seq.tests_of_abc(graph)]
    kind, t, x = (events.columns[name].values for name in ("kind", "t", "x"))
    assert kind.dtype == np.int8
    out = np.zeros(case.n, np.uint64)  # the twin writes how many matches end where
    (own, total), (c_own, c_total), (cost, again), (c_cost, c_again) = in_turns(
        repeats,
        of_masks,
        lambda: seq.called(twin.seq3, case.n, *masks, x, places.window_start, out),
        of_columns,
        lambda: seq.called(twin.seq3_of_columns, case.n, kind, t, x, case.within),
    )
    assert total == c_total == again == c_again == int(out.sum()), "the twin counts otherwise"
    yield beside(f"{what} masks", own, ">= 0.8", "C twin", c_own)
    yield beside(f"{what} columns", cost, ">= 0.8", "C twin", c_cost)


def large(repeats: int, n: int = 10**5, windows=(3000, 30_000)) -> Iterator[Row]:
    """Numbers and samples of very many matches."""
    graph, places, accept = seq.prepared(seq.Case("", "seq3", seq.PLAIN, seq.RISING_ALL, windows[-1], n))
    twin, tests = c_twin("sequences.c"), seq.tests_of_abc(graph)
    works = [lambda: counter_of(graph, places, accept).total()]
    works += [lambda: int(seq.call_twin(twin.seq3, places, accept, tests).sum())] if twin is not None else []
    (cost, total), *theirs = in_turns(repeats, *works)
    assert all(found == total for _, found in theirs), "the twin counts otherwise"
    what = f"b. SEQ(A,B,C) rising, {n:,} events, {total:.2g} matches counted"
    yield beside(what, cost, "<= 0.2 s", *(("C twin", theirs[0][0]) if theirs else ()))
    for within in windows:
        row = walks.drawn("", walks.rising(3, within), walks.stream(n, 3))
        yield beside(f"b. 1,000 matches drawn of {row['matches']:.2g}", row["sample_s"], "<= 0.1 s")


def unary(repeats: int, n: int = 10**6, windows=(100, 100_000)) -> Iterator[Row]:
    """Without conditions between events the window does not matter."""
    made = [seq.prepared(seq.Case("", "unary", seq.PLAIN, (), within, n)) for within in windows]
    near, far = in_turns(repeats, *(lambda a=a: counter_of(*a).total() for a in made))
    what = f"c. SEQ(A,B,C), {n:,} events, W={windows[1]:,} ({n / far[0] / 1e6:.0f} M events/s)"
    yield beside(what, far[0], ">= 0.83", f"W={windows[0]:,}", near[0])


def closures(repeats: int, n: int = 30_000, within: int = 1200) -> Iterator[Row]:
    """A loop of rising events: exact numbers beyond 2^61."""
    rising_ends = (seq.less("a", "b", (None, 1)), seq.RISING, seq.less("b", "c", (ex.LAST, None)))
    for name, where in (("all rising", rising_ends), ("B rising", (seq.RISING,))):
        arguments = seq.prepared(seq.Case("", "kleene", seq.KLEENE, where, within, n))
        ((cost, total),) = in_turns(min(3, repeats), lambda a=arguments: counter_of(*a).total())
        yield beside(f"d. SEQ(A,B+,C) {name}, {n:,} events, {total:.2g} matches counted", cost, "<= 1 s")


def shapes(n_queries: int = 250, n: int = 100_000, within: int = 300) -> Iterator[Row]:
    """Many queries of one shape, from text to the number: constants are arguments of one kernel."""
    frame = seq.stream(n)
    text = "PATTERN SEQ(A a, B b, C c) WHERE a.x + {} < b.x AND b.x < c.x WITHIN {}"
    matched(frame, RISING.format(within=within)).count()  # numba, and what all shapes share

    def kernels() -> set[str]:
        return {name for name in sys.modules if name.startswith("cepkit_kernel_")}

    before, began = kernels(), time.process_time()
    totals = {matched(frame, text.format((i + 1) / 1000, within + i)).count() for i in range(n_queries)}
    cost = time.process_time() - began
    assert len(totals) > n_queries // 2
    made = len(kernels() - before)
    yield beside(f"f. {n_queries} queries of one shape over {n:,} events", cost, "")
    yield Row("f. kernels loaded for them (accepting, counting)", {"modules": made}, "<= 2")


_WALK = """
import os, sys, time
sys.path.insert(0, {folder!r})
import sequence_walks as walks
walk = walks.PathWalk(walks.prepared(walks.rising(3, {within}), walks.stream({n}, 3)))
next(walk.blocks())
resident = lambda: int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
before, peak, began, found = resident(), 0, time.process_time(), 0
for block in walk.blocks():
    peak = max(peak, resident())
    found += len(block)
    if found >= {most}:
        break
print(found, time.process_time() - began, peak - before)
"""


def enumerated(n: int = 10**5, within: int = 3000, most: int = 12 * 10**8) -> Iterator[Row]:
    """Walking over more than 1e9 matches, in a process of its own."""
    found, cost, peak = map(float, _child(_WALK.format(folder=_FOLDER, n=n, within=within, most=most)))
    what = f"e. SEQ(A,B,C) rising, {found:.2g} matches walked"
    yield Row(what, {"M matches/s": found / cost / 1e6, "MB more on Linux": peak}, ">= 100, <= 64")


_FOLDER = str(Path(__file__).parent)


def _child(code: str, **environment: str) -> list[str]:
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return run.stdout.split()


def table(options: Options) -> Iterator[Measured]:
    """Numbers of matches beside C, samples and walks of very many matches; the prepared events are known."""
    parts = (counted, large, unary, closures)
    for part in (*(partial(part, options.rounds) for part in parts), enumerated, shapes):
        if options.wants(f"sequences {(part.func if isinstance(part, partial) else part).__name__}"):
            yield part
