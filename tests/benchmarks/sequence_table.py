"""How fast event sequences are, beside peers and what is asked; printed by ``run.py --sequences``.

CPU seconds, the least of several runs; what is compared ran in turns in one process on one thread.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import peers
import sequence_walks as walks
import sequences as seq

import cepkit as cep
from cepkit.engines.counting.engine import counter_of
from cepkit.engines.shared.kernels import accepted
from cepkit.engines.shared.places import Places
from cepkit.language.expressions import trees as ex

RISING = "PATTERN SEQ(A a, B b, C c) WHERE a.x < b.x AND b.x < c.x WITHIN {within}"
NEGATION = "PATTERN SEQ(A a, !B b, C c) WHERE a.x < b.x WITHIN {within}"


@dataclass(frozen=True)
class Row:
    """A line of the table: ``measured`` and ``peers`` in seconds where nothing else is said."""

    what: str
    measured: float
    asked: str = ""
    peer: str = ""
    peers: float | None = None
    unit: str = "s"

    @property
    def ratio(self) -> float | None:
        """How many times as fast as the peer."""
        return None if self.peers is None else self.peers / self.measured

    def __str__(self) -> str:
        measured = (
            f"{self.measured:,.4f} {self.unit}"
            if self.measured < 100
            else f"{self.measured:,.0f} {self.unit}"
        )
        peer = "" if self.peers is None else f"{self.peer} {self.peers:.4f} s"
        ratio = "" if self.ratio is None else f"{self.ratio:,.2f}"
        return f"{self.what:<66} {measured:>18}  {peer:<36} {ratio:>9}  {self.asked}"


def in_turns(repeats: int, *works: Callable[[], object]) -> list[tuple[float, object]]:
    """Return for each work the least CPU seconds of the process and its result, after one warm-up."""
    results, least = [work() for work in works], [float("inf")] * len(works)
    for _ in range(repeats):
        for i, work in enumerate(works):
            began = time.process_time()
            results[i] = work()
            least[i] = min(least[i], time.process_time() - began)
    return list(zip(least, results, strict=True))


def matched(frame, text: str):
    """Return the matches of a query in a frame of the benchmarks."""
    return cep.match(frame, text, event_type="kind", order_by="t")


# --- rows -------------------------------------------------------------------------------------------------


def materialised(repeats: int, n: int = 10**6, within: int = 4600) -> Iterator[Row]:
    """All matches as a frame, from a frame, beside polars; 2.1 % of the events are A, B or C."""
    frame = seq.stream(n, 0.021)
    other, text = peers.as_polars(frame), RISING.format(within=within)
    ours, *theirs = in_turns(
        repeats,
        lambda: matched(frame, text).to_frame(),
        lambda: peers.rising_polars(other, within),
        lambda: peers.rising_polars_buckets(other, within),
    )
    made = sorted(zip(*(ours[1][name].tolist() for name in ("a_t", "b_t", "c_t")), strict=True))
    for name, asked, (cost, found) in zip(
        ("join_where", "joins by stretches"), (">= 1.5", ""), theirs, strict=True
    ):
        assert sorted(found.rows()) == made, "polars found other matches"
        what = f"a. SEQ(A,B,C) rising, {n:,} events, {len(made):,} matches to a frame"
        yield Row(what, ours[0], asked, f"polars {name}", cost)


def counted(repeats: int, n: int = 10**6, windows=(10_000, 100_000)) -> Iterator[Row]:
    """Numbers of matches beside C, from the same masks and from the same columns."""
    for within in windows:
        yield from _counted(repeats, seq.Case("", "seq3", seq.PLAIN, seq.RISING_ALL, within, n, 0.021))


def _counted(repeats: int, case: seq.Case) -> Iterator[Row]:
    graph, places, accept = seq.prepared(case)
    program, events, twin = places.program, places.events, seq.c_twin()

    def of_masks() -> int:
        return counter_of(graph, places, accept).total()

    def of_columns() -> int:
        fresh = Places(program, events)
        return counter_of(graph, fresh, accepted(fresh)).total()

    what = f"b. SEQ(A,B,C) rising, {case.n:,} events, W={case.within:,}, counted from"
    if twin is None:
        for start, (cost, _) in zip(
            ("masks", "columns"), in_turns(repeats, of_masks, of_columns), strict=True
        ):
            yield Row(f"{what} {start}", cost, ">= 0.8 of C")
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
    yield Row(f"{what} masks", own, ">= 0.8", "C twin", c_own)
    yield Row(f"{what} columns", cost, ">= 0.8", "C twin", c_cost)


def large(repeats: int, n: int = 10**5, windows=(3000, 30_000)) -> Iterator[Row]:
    """Numbers and samples of very many matches."""
    graph, places, accept = seq.prepared(seq.Case("", "seq3", seq.PLAIN, seq.RISING_ALL, windows[-1], n))
    twin, tests = seq.c_twin(), seq.tests_of_abc(graph)
    works = [lambda: counter_of(graph, places, accept).total()]
    works += [lambda: int(seq.call_twin(twin.seq3, places, accept, tests).sum())] if twin is not None else []
    (cost, total), *theirs = in_turns(repeats, *works)
    assert all(found == total for _, found in theirs), "the twin counts otherwise"
    what = f"c. SEQ(A,B,C) rising, {n:,} events, {total:.2g} matches counted"
    yield Row(what, cost, "<= 0.2 s", *(("C twin", theirs[0][0]) if theirs else ()))
    for within in windows:
        row = walks.drawn("", walks.rising(3, within), walks.stream(n, 3))
        yield Row(f"c. 1,000 matches drawn of {row['matches']:.2g}", row["sample_s"], "<= 0.1 s")


def unary(repeats: int, n: int = 10**6, windows=(100, 100_000)) -> Iterator[Row]:
    """Without conditions between events the window does not matter."""
    made = [seq.prepared(seq.Case("", "unary", seq.PLAIN, (), within, n)) for within in windows]
    near, far = in_turns(repeats, *(lambda a=a: counter_of(*a).total() for a in made))
    what = f"d. SEQ(A,B,C), {n:,} events, W={windows[1]:,} ({n / far[0] / 1e6:.0f} M events/s)"
    yield Row(what, far[0], ">= 0.83", f"W={windows[0]:,}", near[0])


def closures(repeats: int, n: int = 30_000, within: int = 1200) -> Iterator[Row]:
    """A loop of rising events: exact numbers beyond 2^61."""
    rising_ends = (seq.less("a", "b", (None, 1)), seq.RISING, seq.less("b", "c", (ex.LAST, None)))
    for name, where in (("all rising", rising_ends), ("B rising", (seq.RISING,))):
        arguments = seq.prepared(seq.Case("", "kleene", seq.KLEENE, where, within, n))
        ((cost, total),) = in_turns(min(3, repeats), lambda a=arguments: counter_of(*a).total())
        yield Row(f"e. SEQ(A,B+,C) {name}, {n:,} events, {total:.2g} matches counted", cost, "<= 1 s")


def negated(repeats: int, n: int = 10_000, n_large: int = 100_000, within: int = 300) -> Iterator[Row]:
    """A correlated negation, from a frame to the number, beside DuckDB on a table."""
    for size, formulations in ((n, ["NOT EXISTS"]), (n_large, list(peers.NEGATIONS)[1:])):
        frame = seq.stream(size)
        ((cost, total),) = in_turns(
            repeats, lambda f=frame: matched(f, NEGATION.format(within=within)).count()
        )
        for name in formulations:
            theirs, found = peers.no_b_duckdb(frame, within, name)
            assert found == total, (name, found, total)
            what = f"f. SEQ(A,!B,C) a.x < b.x, {size:,} events, {total:,} matches"
            yield Row(what, cost, ">= 10" if name == "NOT EXISTS" else "", f"DuckDB {name}", theirs)


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
    yield Row(f"h. {n_queries} queries of one shape over {n:,} events", cost, "")
    yield Row("h. modules of kernels loaded for them (accepting, counting)", made, "<= 2", unit="modules")


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
    yield Row(
        f"g. SEQ(A,B,C) rising, {found:.2g} matches walked", found / cost / 1e6, ">= 100", unit="M matches/s"
    )
    yield Row("g. resident memory beyond that after the first block (Linux)", peak, "<= 64", unit="MB")


_START = """
import sys, time
sys.path.insert(0, {folder!r})
{before}
import sequences as seq
import cepkit as cep
frame = seq.stream(10_000)
times = [time.process_time()]
found = cep.match(frame, {text!r}, event_type="kind", order_by="t")
for look in (found.count, lambda: found.head(5), lambda: found.sample(1000, seed=0)):
    look()
    times.append(time.process_time())
print(*(b - a for a, b in zip(times, times[1:])))
"""


def started() -> Iterator[Row]:
    """The first query of a process, with an empty and with a filled cache of kernels."""
    # numba imports scipy's linear algebra where there is scipy, which this package does not need.
    for install, before in (("", 'sys.modules["scipy"] = None'), (", scipy installed", "")):
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o700)
            for cache in ("empty", "filled"):
                code = _START.format(folder=_FOLDER, text=RISING.format(within=300), before=before)
                costs = map(float, _child(code, CEPKIT_CACHE=folder))
                asked = "<= 1 s", "", ""
                for look, cost, limit in zip(
                    ("count", "then head", "then sample"), costs, asked, strict=True
                ):
                    yield Row(f"i. first query, {cache} cache{install}: {look}", cost, limit)


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


def run(repeats: int = 7, out: Path | None = None) -> list[Row]:
    """Print the table and return its rows; ``out`` gets them as JSON."""
    rows = []
    parts = (materialised, counted, large, unary, closures, negated)
    for part in (*(lambda p=part: p(repeats) for part in parts), enumerated, shapes, started):
        for row in part():
            print(row, flush=True)
            rows.append(row)
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
    print(f"\n{platform.python_version()}, {platform.machine()}, load {load:.1f}")
    if out is not None:
        out.write_text(json.dumps([{**vars(row), "ratio": row.ratio} for row in rows], indent=1))
    return rows
