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


# Streams with an overload after their warm-up.

# The tree takes most of the time, as in the experiments.
SLOW_TREE = Prices(event=2e-4, condition=1e-3, create=5e-4, remove=2e-4)
WHERE = "WHERE skip_till_any_match AND b.x > a.x"
QUERIES = {
    "sequence": f"PATTERN SEQ(A a, B b, C c) {WHERE} WITHIN 25 seconds",
    "same type": f"PATTERN SEQ(A a, B b, A c) {WHERE} WITHIN 25 seconds",
    "and": f"PATTERN AND(A a, B b, C c) {WHERE} WITHIN 10 seconds",
    "or": "PATTERN SEQ(A a, OR(B b, C c), D d) WHERE skip_till_any_match WITHIN 15 seconds",
    "kleene": "PATTERN SEQ(A a, B+ b[], C c) WHERE skip_till_any_match AND b[i].x > a.x WITHIN 10 seconds",
    "events": f"PATTERN SEQ(A a, B b, C c) {WHERE} WITHIN 20 EVENTS",
}


def arrivals_of(seed: int, n: int, service: float, factor: float) -> np.ndarray:
    """Return Poisson arrivals with a peak in the middle third."""
    gap = np.full(n, service / 0.5)
    gap[n // 3 : 2 * n // 3] = service / factor
    return np.cumsum(np.random.default_rng(seed).exponential(gap))


class Prepared:
    """A stream with an overload after its warm-up, and a tight bound."""

    def __init__(self, seed: int, text: str, n: int = 180, **changes):
        self.frame, self.text, self.n, self.seed = random_frame(seed, n), text, n, seed
        changes = {"prices": SLOW_TREE.table(), **changes}
        service = train(self.frame, text, n // 3, **changes).service
        self.changes = {"latency_bound": 8 * service, **changes}
        self.arrivals = arrivals_of(seed, n, service, factor=30.0)

    def train(self):
        """Return a new warm-up. Each run continues with the machine of its own."""
        return train(self.frame, self.text, self.n // 3, seed=self.seed, **self.changes)

    def run(self, strategy=None, **swap):
        """Return what a strategy finds."""
        training = self.train()
        return serve(
            training, Shedder() if strategy is None else strategy.begin(training), self.arrivals, **swap
        )
