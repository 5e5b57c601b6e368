"""Traces of runs of agents: one written out, random ones, and large ones."""

import random

import numpy as np

from cepkit.parallel.trace import LENGTHS, Actions, Lengths, Trace

AGENTS = ("b", "c+", "d")
COUNTS = Actions._fields[5:]


def trace_of(rows: list[dict], readings: list[dict] = (), *, n_threads=2, agents=AGENTS, measured=False):
    """Return the trace of plain rows; what a row does not name is 0."""
    done = Actions(*([row.get(name, 0) for row in rows] for name in Actions._fields))
    read = Lengths(*([row.get(name, 0) for row in readings] for name in Lengths._fields))
    return Trace(measured, n_threads, agents, done, read)


def row(thread: int, agent: int, action: int, start: float, end: float, **counts: int) -> dict:
    """Return a row of a trace; counts that are not named are 0."""
    return {"thread": thread, "agent": agent, "action": action, "start": start, "end": end, **counts}


def drawn(seed: int) -> tuple[Trace, list[dict], list[dict]]:
    """Return a random trace and its rows."""
    draw = random.Random(seed)
    n_threads, agents = draw.randint(1, 5), AGENTS[: draw.randint(1, 3)]
    rows = []
    for thread in range(draw.choice([-1, 0]), n_threads):
        now = 0.0
        for _ in range(draw.choice([0, 1, 3, 30])):
            now += draw.choice([0.0, 0.0, draw.random() * 50])
            end = now + draw.choice([0.0, draw.random() * 20, draw.randint(1, 9)])
            action = 0 if thread < 0 else draw.randrange(4)
            agent = -1 if action == 0 else draw.randrange(len(agents))
            counts = {name: draw.randint(0, 9) for name in COUNTS}
            rows.append(row(thread, agent, action, now, end, **counts))
            now = end
    draw.shuffle(rows)
    readings = []
    for _ in range(draw.choice([0, 1, 20])):
        lengths = {name: draw.randint(0, 9) for name in LENGTHS}
        readings.append({"time": draw.random() * 100, "agent": draw.randrange(len(agents)), **lengths})
    return trace_of(rows, readings, n_threads=n_threads, agents=agents), rows, readings


def busy_trace(n_threads: int, n_each: int, n_agents: int, seed: int = 0) -> Trace:
    """Return a trace of threads that serve all agents in all ways, with a reading per action."""
    rng = np.random.default_rng(seed)
    length, gap = rng.exponential(100, (2, n_threads, n_each))
    end = (length + gap).cumsum(axis=1).ravel()
    n = len(end)
    agent, action = rng.integers(0, n_agents, n), rng.integers(1, 4, n)
    one = np.ones(n, np.int64)
    thread = np.repeat(np.arange(n_threads), n_each)
    done = Actions(thread, agent, action, end - length.ravel(), end, *([one] * 8))
    read = Lengths(end, agent, *rng.integers(0, 50, (4, n)))
    return Trace(False, n_threads, tuple("bcdefgh"[:n_agents]), done, read)


def overlap(row: dict, low: float, high: float) -> float:
    """Return how much of the time of a row lies between two times."""
    return max(0.0, min(row["end"], high) - max(row["start"], low))


EXAMPLE = trace_of(
    [
        row(-1, -1, 0, 0, 10, n_items=3),
        row(1, 1, 2, 40, 90, n_items=2, compared=4, n_matches=1),
        row(0, 0, 1, 10, 30, n_items=1, compared=5, sent=2),
        row(0, 0, 3, 30, 40, removed_events=6),
        row(0, 1, 1, 90, 100, n_items=1, compared=2, looped=1),
    ],
    [
        {"time": 20, "agent": 0, "event_queue": 4, "event_buffer": 1},
        {"time": 70, "agent": 0, "event_queue": 1, "event_buffer": 3},
        {"time": 50, "agent": 1, "partial_queue": 2},
    ],
)
