"""How fast parallel engines are, real and simulated; printed by ``run.py agents``.

Wall times need idle cores: of more turns those count in which other programs, and the host, took least. A
core's speed changes from second to second: compared is what one turn gave, the one whose ratio is the median.
All else is CPU time, the least of several runs in turns.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

import numpy as np
import pandas as pd
from rows import Measured, Options, Row, beside, in_turns

from cepkit.compile.sequences.program import compile_sequence
from cepkit.frames.building import build_events
from cepkit.frames.pandas import PandasSource
from cepkit.language.sequences.construction import sequence_query
from cepkit.parallel.agents.agents import Agents
from cepkit.parallel.agents.crew import Crew, RunSettings
from cepkit.parallel.agents.threads import run_agents
from cepkit.parallel.simulation import calibrate_costs, simulate_agents
from cepkit.planning.planner import choose_engine

CHEAP, EXPENSIVE = "{b}.x > {a}.x", "corr({a}.h, {b}.h) > 0.3"
COUNTED = RunSettings(keep=False)
OTHERS = 0.05  # of a core: what others may take of a turn
T = TypeVar("T")


def stream(n: int, n_types: int, seed: int = 0, length: int = 20) -> pd.DataFrame:
    """Return events of equally frequent types, each with a number and an array of so many numbers."""
    draw = np.random.default_rng(seed)
    kinds = np.array([*"ABCDEF"])[draw.integers(0, n_types, n)]
    arrays = list(np.cumsum(draw.normal(size=(n, length)), axis=1))
    return pd.DataFrame({"t": np.arange(n), "kind": kinds, "x": draw.random(n), "h": arrays})


def prepared(n: int, n_types: int, condition: str, within: int):
    """Return program and events: one of each type in turn, a condition between neighbours."""
    names = "abcdef"[:n_types]
    parts = ", ".join(f"{name.upper()} {name}" for name in names)
    where = " AND ".join(condition.format(a=a, b=b) for a, b in pairwise(names))
    text = f"PATTERN SEQ({parts}) WHERE {where} WITHIN {within} events"
    source = PandasSource(stream(n, n_types))
    query = sequence_query(text, event_type="kind", order_by="t", strategy="any")
    program = compile_sequence(query, source.schema)
    return program, build_events(source, program)


def load() -> float:
    """Return how many processes wanted a core during the last minute."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")


def used() -> float:
    """Return the seconds for which cores were taken since the machine began; nan if nothing tells."""
    try:
        taken = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    except OSError:
        return float("nan")
    names = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
    of = dict(zip(names, taken, strict=False))
    return sum(int(ticks) for name, ticks in of.items() if name not in ("idle", "iowait")) / 100


def quiet_turns(repeats: int, turn: Callable[[], T]) -> tuple[list[T], str]:
    """Return what turns gave that others disturbed least, and in words how much that was, and the load."""
    before, tried = load(), []
    while sum(others <= OTHERS for others, _ in tried) < repeats and len(tried) < 4 * repeats:
        taken, began, own = used(), time.perf_counter(), time.process_time()
        given = turn()
        taken, own = used() - taken, time.process_time() - own
        tried.append((max(0.0, taken - own) / (time.perf_counter() - began), given))
    kept = sorted(tried, key=lambda of: of[0])[:repeats]
    how = f"{repeats} of {len(tried)} turns, others took {kept[-1][0]:.2f} cores at most"
    return [given for _, given in kept], f"{how}; load {before:.1f} before, {load():.1f} after"


def middle(pairs: Iterable[tuple[float, float]]) -> tuple[float, float]:
    """Return the pair whose ratio is the median."""
    pairs = sorted(pairs, key=lambda pair: pair[1] / pair[0])
    return pairs[len(pairs) // 2]


def crew(threads: int) -> Crew:
    """Return threads that take whatever waits."""
    return Crew("fully_dynamic", threads)


# --- rows -------------------------------------------------------------------------------------------------


def two_threads(repeats: int, n: int = 20_000, within: int = 600) -> Iterator[Row]:
    """Two real threads beside one, in turns.

    No value is asked of the ratio, because it depends on the load of the machine, and the row says how much
    others took. On two idle cores, the notebook of HYPERSONIC saved 1.78 for agents and 1.58 for RIP.
    """
    for name, condition in (("correlations", EXPENSIVE), ("comparisons", CHEAP)):
        agents = Agents(*prepared(n, 4, condition, within))
        run_agents(agents, crew(2), COUNTED)
        turns, how = quiet_turns(
            repeats, lambda a=agents: [run_agents(a, crew(threads), COUNTED) for threads in (2, 1)]
        )
        what = f"a. SEQ of 4, {name}, {n:,} events, {turns[0][0].n_matches:,} matches: 2 threads"
        two, one = middle([(two.makespan / 1e9, one.makespan / 1e9) for two, one in turns])
        yield beside(f"{what}, wall", two, how, "1", one)
        two, one = middle([(float(two.busy.max()) / 1e9, one.busy[0] / 1e9) for two, one in turns])
        yield beside(f"{what}, CPU of the busier one", two, "", "1 thread", one)


def beside_auto(repeats: int, sizes=((4000, 100), (40_000, 300))) -> Iterator[Row]:
    """One thread of agents beside the engine that is chosen without asking."""
    for name, condition, asked in (("correlations", EXPENSIVE, ">= 0.3"), ("comparisons", CHEAP, "")):
        for n, within in sizes:
            program, events = prepared(n, 3, condition, within)
            engine = choose_engine(program)
            for how, keep in (("counted", False), ("materialised", True)):

                def found(keep=keep, p=program, e=events):
                    return run_agents(Agents(p, e), crew(1), RunSettings(keep=keep)).n_matches

                def auto(keep=keep, p=program, e=events, chosen=engine):
                    matches = chosen.run(p, e)
                    return len(matches.ending(0, e.n_events)) if keep else matches.count()

                (own, total), (theirs, again) = in_turns(repeats, found, auto)
                assert total == again, "the engines find other matches"
                what = f"b. SEQ of 3, {name}, {n:,} events, {total:,} matches {how}: 1 thread"
                yield beside(what, own, asked, f"auto: {engine.name}", theirs)


def simulated(repeats: int, n: int = 40_000, within: int = 300, threads=(6, 12, 24)) -> Iterator[Row]:
    """Items a second of the simulator, which does the same again for the same arguments."""
    agents = Agents(*prepared(n, 4, CHEAP, within))
    for number in threads:
        runs = []

        def simulate(number=number, runs=runs):
            runs.append(simulate_agents(agents, crew(number), COUNTED))
            return runs[-1]

        ((cost, run),) = in_turns(min(3, repeats), simulate)
        same = {(r.makespan, r.n_matches, r.n_items, r.busy.tobytes(), r.compared.tobytes()) for r in runs}
        assert len(same) == 1, "a simulation differs from the one before"
        what = f"c. simulated, {number} threads: {run.n_items:,} items, {run.n_matches:,} matches"
        rates = {"M items/s": run.n_items / cost / 1e6, "M pairs/s": run.looked.sum() / cost / 1e6}
        yield Row(what, rates, ">= 5")


def predicted(repeats: int, n: int = 40_000, n_arrays: int = 20_000, within: int = 300) -> Iterator[Row]:
    """The makespan of the simulator, with costs measured in the same turn, beside that of real threads."""
    for name, condition, size in (("comparisons", CHEAP, n), ("correlations", EXPENSIVE, n_arrays)):
        for n_types, n_events, crews in (
            (2, 5 * size, [Crew("state_dynamic", 1), Crew("state_dynamic", 2)]),
            (3, size, [crew(1), crew(2), Crew("state_dynamic", 2)]),
            (4, size, [crew(1), crew(2)]),
        ):
            program, events = prepared(n_events, n_types, condition, within)
            agents = Agents(program, events)
            run_agents(agents, crew(1), COUNTED)
            for of in crews:

                def turn(program=program, events=events, agents=agents, of=of):
                    costs = calibrate_costs(program, events, crew=of)
                    real = run_agents(agents, of, COUNTED)
                    run = simulate_agents(agents, of, COUNTED, costs=costs)
                    assert run.n_matches == real.n_matches
                    # Real threads pass events on themselves, when they have nothing else to do.
                    source = costs.delivery * events.n_events / of.n_threads
                    virtual = (run.makespan + source) / 1e9, (run.busy.mean() + source) / 1e9
                    return virtual[0], real.makespan / 1e9, virtual[1], real.busy.mean() / 1e9

                turns, how = quiet_turns(repeats, turn)
                what = f"d. SEQ of {n_types}, {name}, {of}: predicted"
                makespan, wall = middle([turn[:2] for turn in turns])
                yield beside(what, makespan, f"0.80 to 1.33; {how}", "wall", wall)
                if of.n_threads == 1 or of.allocation == "fully_dynamic":  # else threads wait and look
                    busy, own = middle([turn[2:] for turn in turns])
                    yield beside(f"{what}, by thread", busy, "0.80 to 1.33", "CPU", own)


def traced(repeats: int, n: int = 20_000, within: int = 300) -> Iterator[Row]:
    """What it costs to write every step down."""
    for name, condition in (("comparisons", CHEAP), ("correlations", EXPENSIVE)):
        agents = Agents(*prepared(n, 4, condition, within))
        with_trace = replace(COUNTED, trace=True)
        busy = {False: [], True: []}
        for _ in range(repeats + 1):
            for is_traced, settings in ((False, COUNTED), (True, with_trace)):
                busy[is_traced].append(float(run_agents(agents, crew(1), settings).busy[0]) / 1e9)
        asked = ">= 0.9"
        yield beside(
            f"e. SEQ of 4, {name}: 1 thread, traced", min(busy[True]), asked, "not", min(busy[False])
        )
        (plain, _), (own, run) = in_turns(
            repeats,
            lambda a=agents: simulate_agents(a, crew(24), COUNTED),
            lambda a=agents, t=with_trace: simulate_agents(a, crew(24), t),
        )
        what = f"e. SEQ of 4, {name}: 24 threads simulated, {len(run.trace.done.start):,} steps traced"
        yield beside(what, own, asked, "not", plain)


def table(options: Options) -> Iterator[Measured]:
    """Agents with threads, real and simulated, beside the engine that is chosen without asking."""
    for part in (two_threads, beside_auto, simulated, predicted, traced):
        if options.wants(f"agents {part.__name__}"):
            yield partial(part, options.rounds)
