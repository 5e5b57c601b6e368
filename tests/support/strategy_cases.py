"""Streams, warm-ups and a small server in virtual time, to test shedding strategies one by one."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from cepkit.events import Events
from cepkit.frames.building import build_events
from cepkit.frames.pandas import PandasSource
from cepkit.language.sequences.construction import sequence_query
from cepkit.shedding.arrivals import Prices
from cepkit.shedding.strategies.strategy import Event, Load, Shedder, Training
from cepkit.shedding.tree_machine import TreeMachine
from cepkit.shedding.tree_program import TreeProgram
from tests.support.sequence_runs import prepared

ABC = "PATTERN SEQ(A a, B b, C c) WHERE skip_till_any_match AND b.x > a.x AND c.x > b.x WITHIN 20 seconds"


def frame_of(types: str, *, seconds=None, values=None) -> pd.DataFrame:
    """Return a stream with one event per letter, a second apart."""
    n = len(types)
    seconds = np.arange(n) if seconds is None else np.asarray(seconds)
    values = np.zeros(n) if values is None else np.asarray(values, np.float64)
    time = pd.Timestamp("2024-01-01") + pd.to_timedelta(seconds, unit="s")
    return pd.DataFrame({"type": list(types), "time": time, "x": values})


def random_frame(seed: int, n: int, letters: str = "ABCD") -> pd.DataFrame:
    """Return a stream of random types and values; few events are tied in time."""
    generator = np.random.default_rng(seed)
    types = "".join(generator.choice(list(letters), n))
    return frame_of(
        types, seconds=np.cumsum(generator.integers(1, 3, n)), values=generator.integers(0, 100, n)
    )


def machine_of(frame: pd.DataFrame, text: str, n_bins: int = 12, bin_size: int = 2) -> TreeMachine:
    """Return a machine for a query over a frame."""
    program, events = prepared(sequence_query(text, event_type="type", order_by="time"), frame)
    tree = TreeProgram.of(program)
    assert isinstance(tree, TreeProgram), tree
    return TreeMachine(tree, events, n_bins=n_bins, bin_size=bin_size)


def events_of(frame: pd.DataFrame, machine: TreeMachine) -> Events:
    """Return the events of a frame for the query of a machine."""
    return build_events(PandasSource(frame), machine.program.program)


def train(
    frame: pd.DataFrame,
    text: str,
    n_events: int | None = None,
    *,
    bins: tuple[int, int] = (12, 2),
    prices=None,
    **changes,
) -> Training:
    """Return what a warm-up over the first events of a frame measures, with this number and size of bins."""
    machine = machine_of(frame, text, *bins)
    n_events = len(frame) if n_events is None else n_events
    prices, types = prices or Prices().table(), machine.types_of_events()
    machine.learning = True
    service, alive, own = [], [], []
    n_conditions = len(machine.program.conditions)
    passed, evaluated = np.zeros((2, n_conditions), np.int64)
    for position in range(n_events):
        before = machine.n_alive
        outcome = machine.feed(position)
        if types[position] < 0:
            continue
        passed += outcome.passed
        evaluated += outcome.evaluated
        service.append(seconds_of(outcome, prices))
        alive.append(before)
        own.append(int(types[position]))
    machine.learning = False
    made = Training(
        machine.program, events_of(frame, machine), n_events, 1.0,
        np.bincount(own, minlength=len(machine.program.types)) / n_events, float(np.mean(service)), passed,
        evaluated, prices, machine, 0, np.array(service), np.array(own), np.array(alive),
    )  # fmt: skip
    return replace(made, **changes)


def seconds_of(outcome, prices) -> float:
    """Return the time that the tree takes for an event."""
    work = {"condition": int(outcome.evaluated.sum()), "create": outcome.created, "remove": outcome.removed}
    return prices["event"] + sum(prices[name] * units for name, units in work.items())


@dataclass
class Served:
    """What a run found, dropped and charged."""

    matches: list = field(default_factory=list)
    dropped: list[int] = field(default_factory=list)
    charged: Counter = field(default_factory=Counter)
    latency: list[float] = field(default_factory=list)
    pairs: int = 0
    created: int = 0


def serve(training: Training, shedder: Shedder, arrivals: np.ndarray, *, swap=None, swap_at=-1) -> Served:
    """Serve the events after a warm-up with one shedder in virtual time.

    ``swap`` replaces the shedder before the event ``swap_at``.
    """
    machine, prices, service = training.machine, training.prices, training.service
    served, types = Served(), machine.types_of_events()
    waiting: deque[int] = deque()
    clock, latency, gap, at, last = 0.0, 0.0, service * 2, 0, None
    positions = [p for p in range(training.n_events, len(types)) if types[p] >= 0]

    def load() -> Load:
        oldest = arrivals[waiting[0]] if waiting else clock
        return Load(clock, len(waiting), oldest, 1 / max(gap, 1e-12), service, latency, machine.n_alive)

    def pay() -> float:
        seconds = sum(prices[name] * units for name, units in shedder.charged.items())
        served.charged.update(shedder.charged)
        shedder.charged.clear()
        return seconds

    while at < len(positions) or waiting:
        while at < len(positions) and (arrivals[positions[at]] <= clock or not waiting):
            p = positions[at]
            clock = max(clock, arrivals[p])
            gap += 0.02 * (arrivals[p] - (last if last is not None else arrivals[p] - gap) - gap)
            last, at = arrivals[p], at + 1
            waiting.append(p)
            for gone in shedder.admit(Event(p, int(types[p]), arrivals[p]), load()):
                waiting.remove(gone)
                served.dropped.append(gone)
            clock += pay()
        if not waiting:
            continue
        p = waiting.popleft()
        event = Event(p, int(types[p]), arrivals[p])
        if p >= swap_at >= 0 and swap is not None:
            shedder, swap = swap(shedder), None
        may = shedder.before(event, load(), machine)
        clock += pay()
        if may:
            outcome = machine.feed(p)
            clock += seconds_of(outcome, prices)
            served.matches += outcome.matches
            served.pairs += outcome.pairs
            served.created += outcome.created
            shedder.after(event, load(), outcome)
            clock += pay()
        else:
            served.dropped.append(p)
        latency += 0.02 * (clock - arrivals[p] - latency)
        served.latency.append(clock - arrivals[p])
    return served
