"""What a user gets: default settings, a fresh process, an empty cache and then a warm one.

Each table yields rows. Times are CPU seconds of the process without the thread for work that can wait. What a
ratio compares ran in turns, in processes that lived at the same time. Times on the wall stand in the JSON.
"""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from cases import CASES, FIRST, HARD, KEYS, PAGE_WORKS, PAGES, THREADS, WORKLOADS, Case
from children import Child, Taken, children, empty_cache, middle, settle, turns
from rows import Measured, Options, Row

CALLS = (1, 2, 3, 10)  # the calls of a process that are printed
SMALL = (100, 1_000, 10_000, 100_000)
LARGE = 10_000_000
TURNS_S = 20.0  # a work that takes longer is timed once


@contextmanager
def _kept_frame(name: str, n_rows: int) -> Iterator[Path]:
    """Yield a file with the frame of a case, which all of its processes read."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "frame.pickle"
        path.write_bytes(pickle.dumps(CASES[name].frame(n_rows), protocol=5))
        yield path


def _first_calls(name: str, frame: Path, cache: Path, work: str, n_calls: int, **more: str) -> list[Taken]:
    """Return what the first calls of a fresh process take. Then wait for what compiles in the background."""
    with children((name, frame, {"CEPKIT_CACHE": str(cache), **more})) as [child]:
        taken = [child.call(work) for _ in range(n_calls)]
    settle(cache)
    return taken


def _milliseconds(figures: dict[str, Taken]) -> tuple[dict[str, float], dict[str, float]]:
    cpu = {name: 1e3 * taken.cpu for name, taken in figures.items()}
    return cpu, {name: 1e3 * taken.wall for name, taken in figures.items()}


# --- tables: each gives its rows as calls that measure them, so that a failure ends one row only ------------


def calls(options: Options) -> Iterator[Measured]:
    """The first, second, third and tenth call with an empty and a warm cache; then beside peers, in turns."""
    for name, case in WORKLOADS.items():
        for n_rows in options.rows or (*SMALL, 1_000_000):
            for work in case.works(case.frame(10)) if case.fits("", n_rows) else ():
                label = f"calls {name} {work} {n_rows:,}"
                if options.wants(label):
                    yield partial(_calls, label, name, work, n_rows, options.rounds)


def _calls(label: str, name: str, work: str, n_rows: int, rounds: int) -> Iterator[Row]:
    with _kept_frame(name, n_rows) as frame, empty_cache() as cache:
        yield Row(f"{label}, empty", *_numbered(_first_calls(name, frame, cache, work, max(CALLS))))
        settings = {"CEPKIT_CACHE": str(cache)}
        others = settings | {"CEPKIT_TIER": "compiled"}, settings | {"POLARS_MAX_THREADS": "1"}
        with children((name, frame, settings)) as [child]:
            taken = [child.call(work) for _ in range(max(CALLS))]
            yield Row(f"{label}, warm", *_numbered(taken))
            with children(*((name, frame, other) for other in others)) as [compiled, peers]:
                asked = Asked(label, CASES[name], work, n_rows, rounds, taken[2])
                yield _beside(asked, child, compiled, peers)


def _numbered(taken: Sequence[Taken]) -> tuple[dict[str, float], str, dict[str, float]]:
    cpu, wall = _milliseconds({f"{i}.": taken[i - 1] for i in CALLS})
    return cpu, "", wall


@dataclass(frozen=True)
class Asked:
    """What is compared with peers."""

    label: str
    case: Case
    work: str
    n_rows: int
    rounds: int
    third: Taken  # the third call of the process

    def of_peers(self, peers: Child) -> list[str]:
        """Return the peers that do the same at this size. Some names end with their kind of work."""
        works = list(self.case.works(self.case.frame(10)))
        names = [name for name in peers.works() if name not in works and self.case.fits(name, self.n_rows)]
        return [name for name in names if "," not in name or name.endswith(f", {self.work}")]


def _beside(asked: Asked, child: Child, compiled: Child, peers: Child) -> Row:
    names, third, rounds = asked.of_peers(peers), asked.third, asked.rounds
    once = {peer: peers.call(peer) for peer in names}  # how long it takes, and whether it agrees
    for peer in set(names) - set(asked.case.differ):
        found = once[peer].answer
        assert found == third.answer, f"{peer} has {found} rows, and cepkit has {third.answer}"
    quick = [peer for peer in names if once[peer].wall < TURNS_S / (rounds + 1)]
    works = (child, asked.work), (compiled, asked.work), *((peers, peer) for peer in quick)
    ours, tier, *others = (middle(taken) for taken in turns(rounds, *works))
    times = {**{peer: once[peer].cpu for peer in names}, **dict(zip(quick, others, strict=True))}
    figures = {"default": 1e3 * ours, "compiled": 1e3 * tier, "default / compiled": ours / tier}
    figures |= {"third / compiled": third.cpu / tier} | {peer: 1e3 * time for peer, time in times.items()}
    figures |= {f"{peer} / third": times[peer] / third.cpu for peer in names if peer.startswith("C ")}
    idioms = {peer: time for peer, time in times.items() if not peer.startswith("C ")}
    if idioms:
        best = min(idioms, key=idioms.__getitem__)
        figures[f"best ({best}) / third"] = idioms[best] / third.cpu
    return Row(f"{asked.label}, in turns", figures)


def first(options: Options) -> Iterator[Measured]:
    """The first and the second query of a process after the import, by kind; 10,000 rows."""
    for name in FIRST:
        for n_rows in options.rows or (10_000,):
            if options.wants(f"{name} {n_rows:,}"):
                yield partial(_first, name, n_rows)


def _first(name: str, n_rows: int) -> Iterator[Row]:
    with _kept_frame(name, n_rows) as frame, empty_cache() as cache:
        empty, _ = _first_calls(name, frame, cache, "call", 2)
        warm, second = _first_calls(name, frame, cache, "call", 2)
    cpu, wall = _milliseconds({"empty": empty, "warm": warm, "warm, second": second})
    is_parallel = name in ("first simulate", "first Hybrid")
    yield Row(f"{name} {n_rows:,}", cpu, "<= 2,000" if is_parallel else "empty <= 600, warm <= 250", wall)


def heads(options: Options) -> Iterator[Measured]:
    """Pages of a result of many matches, after the frame is prepared. Each page has a process of its own."""
    for name, case in PAGES.items():
        for n_rows in options.rows or (min(3_000_000, (case.most_rows or {}).get("", 3_000_000)),):
            for page in PAGE_WORKS:
                if options.wants(f"{name} {page} {n_rows:,}"):
                    yield partial(_head, name, page, n_rows)


def _head(name: str, page: str, n_rows: int) -> Iterator[Row]:
    figures: dict[str, Taken] = {}
    with _kept_frame(name, n_rows) as frame, empty_cache() as cache:
        for kind in ("empty", "warm"):
            with children((name, frame, {"CEPKIT_CACHE": str(cache)})) as [child]:
                figures |= {f"preparing {kind}": child.call("prepare"), kind: child.call(page)}
            settle(cache)
    cpu, wall = _milliseconds(figures)
    yield Row(f"{name} {page} {n_rows:,}", cpu, "<= 100" if page == "head" else "", wall)


def next_matches(options: Options) -> Iterator[Measured]:
    """Skip till next with 390 keys, counted and listed, beside C."""
    for n_rows in options.rows or (LARGE,):
        for work, asked in (("count", "<= 2 x C"), ("frame", "<= 3 x C")):
            if options.wants(f"next {work} {n_rows:,}"):
                yield partial(_next, work, n_rows, options.rounds, asked)


def _next(work: str, n_rows: int, rounds: int, asked: str) -> Iterator[Row]:
    with _kept_frame("next", n_rows) as frame, empty_cache() as cache:
        _first_calls("next", frame, cache, work, 2)
        settings = {"CEPKIT_CACHE": str(cache)}
        with children(("next", frame, settings), ("next", frame, settings)) as [child, other]:
            twin = f"C twin, {work}"
            has_twin = twin in other.works()
            ours, *theirs = turns(min(3, rounds), (child, work), *([(other, twin)] if has_twin else []))
    figures = {work: 1e3 * middle(ours)}
    for taken in theirs:
        assert taken[0].answer == ours[0].answer, "the twin finds other matches"
        figures |= {"C twin": 1e3 * middle(taken), f"{work} / C": middle(ours) / middle(taken)}
    yield Row(f"next {work} {n_rows:,}", figures, asked, {work: 1e3 * middle(ours, "wall")})


def threads(options: Options) -> Iterator[Measured]:
    """Two threads beside one, frame to result, on the wall, which needs two idle cores; and CPU time."""
    for name in THREADS:
        for n_rows in options.rows or (LARGE,):
            if options.wants(f"{name} {n_rows:,}"):
                yield partial(_threads, name, n_rows, options.rounds)


def _threads(name: str, n_rows: int, rounds: int) -> Iterator[Row]:
    [work] = CASES[name].works(CASES[name].frame(10))
    with _kept_frame(name, n_rows) as frame, empty_cache() as cache:
        _first_calls(name, frame, cache, work, 3)
        settings = [{"CEPKIT_CACHE": str(cache), "CEPKIT_THREADS": n} for n in ("1", "2")]
        with children(*((name, frame, setting) for setting in settings)) as [one, two]:
            for child in (one, two):
                child.call(work)
            single, double = turns(min(3, rounds), (one, work), (two, work))
    ratios = sorted(b.wall / a.wall for a, b in zip(single, double, strict=True))
    figures = {"1 thread": 1e3 * middle(single, "wall"), "2 threads": 1e3 * middle(double, "wall")}
    figures |= {"2 / 1": ratios[len(ratios) // 2], "2 / 1, CPU": middle(double) / middle(single)}
    yield Row(f"{name} {n_rows:,}", figures, "2 / 1 <= 0.65")


def keys(options: Options) -> Iterator[Measured]:
    """As many keys as rows: a first call on a frame, with warm kernels, beside a shift of pandas."""
    for name in KEYS:
        for n_rows in options.rows or (1_000_000,):
            if options.wants(f"{name} {n_rows:,}"):
                yield partial(_keys, name, n_rows, options.rounds)


def _keys(name: str, n_rows: int, rounds: int) -> Iterator[Row]:
    with _kept_frame(name, n_rows) as frame, empty_cache() as cache:
        _first_calls(name, frame, cache, "first call", 3)
        with children((name, frame, {"CEPKIT_CACHE": str(cache)})) as [child]:
            ours, theirs = map(middle, turns(rounds, (child, "first call"), (child, "pandas shift")))
    figures = {"first call": 1e3 * ours, "pandas shift": 1e3 * theirs, "pandas / ours": theirs / ours}
    yield Row(f"{name} {n_rows:,}", figures, "first call <= 500")


def hard(options: Options) -> Iterator[Measured]:
    """Queries that leave the fast path, at three sizes: a time must not grow faster than its size."""
    for name in HARD:
        if options.wants(name):
            yield partial(_hard, name, options.rows or (5_000, 10_000, 20_000))


def _hard(name: str, sizes: tuple[int, ...]) -> Iterator[Row]:
    [work] = CASES[name].works(CASES[name].frame(10))
    figures = {}
    with empty_cache() as cache:
        for n_rows in sizes:
            with _kept_frame(name, n_rows) as frame:
                figures[f"{n_rows:,}"] = _first_calls(name, frame, cache, work, 2)[-1]
    cpu, wall = _milliseconds(figures)
    rates = [n / time / 1e3 for n, time in zip(sizes, cpu.values(), strict=True)]
    yield Row(name, cpu | {"M rows/s at last": rates[-1]}, "", wall)
