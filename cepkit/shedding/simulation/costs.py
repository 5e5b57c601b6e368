"""What each unit of work costs in virtual time, and how to measure the prices on this machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from itertools import combinations
from math import inf
from time import perf_counter

import numpy as np

from cepkit.errors import CepError, nearest
from cepkit.events import Events
from cepkit.shedding.tree.machine import TreeMachine
from cepkit.shedding.tree.program import TreeProgram

# What each unit of work costs in virtual time: the work of the tree, and the work of a shedder.


@dataclass(frozen=True)
class Prices:
    """Seconds per unit of work. One table serves all strategies, and nothing is set for a single strategy."""

    event: float = 2e-7  # take an event out of its buffer and hand it to the tree
    condition: float = 1e-6  # f: evaluate a condition on a pair of partial matches
    # create, remove: V_n and V_r: create a partial match, and remove one
    create: float = 5e-7
    remove: float = 2e-7
    admit: float = 1e-7  # put an arriving event into its buffer. Every strategy pays it, also ``"none"``.
    drop: float = 1e-7  # take a waiting event out of its buffer without processing it
    lookup: float = 1e-7  # read one entry of a table of utilities or a threshold
    classify: float = 5e-7  # find the class of a partial match or an event with a decision tree
    sort: float = 1e-7  # sort or select one item among others, per item
    draw: float = 1e-7  # draw a random number
    utility: float = 2e-7  # y: evaluate the utility of one condition for one event
    array: float = 1e-7  # put a pointer to an event into an array of utilities, or take it out
    update: float = 5e-8  # add to a counter, a moving average or a drift detector
    others: Mapping[str, float] = ()  # type: ignore[assignment]

    def __post_init__(self) -> None:
        object.__setattr__(self, "others", tuple(sorted(dict(self.others).items())))
        for name, seconds in self.table().items():
            if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds < inf:
                raise CepError(f"price {name}={seconds!r}: expected seconds, 0 or more")

    def table(self) -> dict[str, float]:
        """Return all prices by name."""
        prices = {item.name: getattr(self, item.name) for item in fields(self) if item.name != "others"}
        return {**prices, **dict(self.others)}

    def __getitem__(self, name: str) -> float:
        """Return the price of a unit of work by name."""
        if (price := dict(self.others).get(name)) is not None:
            return price
        if name in (prices := self.table()):
            return prices[name]
        raise CepError(
            f"there is no price of {name!r}.{nearest(name, prices)} Prices: {list(prices)}. "
            f"For work of your own, give others={{{name!r}: seconds}}"
        )


_ITEMS = 100_000  # items of a timed step of a shedder
_REPEATS = 5
_OUTLIERS = 0.02  # share of the slowest events to leave out: the machine did something else


def measure_prices(
    tree: TreeProgram, events: Events, positions: np.ndarray, *, repeats: int = _REPEATS, seed: int = 0
) -> Prices:
    """Measure the prices of work on this machine, for the conditions of one pattern.

    Two measurements differ. For reproducible runs, measure once and keep the result.
    """
    counts, seconds = _time_events(tree, events, positions, repeats)
    kept = seconds <= np.quantile(seconds, 1 - _OUTLIERS)
    event, condition, create, remove = fit_prices(counts[kept], seconds[kept])
    prices = {name: _least(step, repeats) / _ITEMS for name, step in _steps(seed).items()}
    return Prices(
        event=event, condition=condition, create=create, remove=remove,
        admit=prices["array"], drop=prices["array"],
        lookup=prices["lookup"], classify=prices["classify"], sort=prices["sort"], draw=prices["draw"],
        utility=prices["utility"], array=prices["array"], update=prices["update"],
    )  # fmt: skip


def _time_events(
    tree: TreeProgram, events: Events, positions: np.ndarray, repeats: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the work of each event, and the least of its measured times."""
    least = np.full(len(positions), np.inf)
    counts = np.ones((len(positions), 4))
    for _ in range(repeats):
        machine = TreeMachine(tree, events)
        for i, position in enumerate(positions.tolist()):
            start = perf_counter()
            outcome = machine.feed(position)
            least[i] = min(least[i], perf_counter() - start)
            counts[i, 1:] = outcome.evaluated.sum(), outcome.created, outcome.removed
    return counts, least


def fit_prices(counts: np.ndarray, seconds: np.ndarray) -> tuple[float, float, float, float]:
    """Return the prices of 0 or more with the least squares of differences."""
    best, best_prices = np.inf, np.zeros(4)
    for n in range(1, 5):
        for chosen in combinations(range(4), n):
            work = counts[:, chosen]
            prices, *_ = np.linalg.lstsq(work, seconds, rcond=None)
            if (prices >= 0).all():
                error = float(((work @ prices - seconds) ** 2).sum())
                if error < best:
                    best, best_prices = error, np.zeros(4)
                    best_prices[list(chosen)] = prices
    event, condition, create, remove = best_prices.tolist()
    return event, condition, create, remove


def _steps(seed: int) -> dict[str, Callable[[], object]]:
    """Return the steps of shedders, each on many items at once."""
    generator = np.random.default_rng(seed)
    values = generator.random(_ITEMS)
    table, cells = generator.random(1000), generator.integers(0, 1000, _ITEMS)
    sample = np.sort(generator.random(1000))
    threshold = generator.random(15)
    counter = np.zeros(1000)

    def classify() -> np.ndarray:
        node = np.zeros(_ITEMS, np.int64)
        for _ in range(4):  # a tree of depth 4
            node = 2 * node + 1 + (values > threshold[np.minimum(node, 14)])
        return node

    return {
        "lookup": lambda: table[cells],
        "classify": classify,
        "sort": lambda: np.sort(values),
        "draw": lambda: generator.random(_ITEMS),
        "utility": lambda: np.searchsorted(sample, values),
        "array": lambda: np.add(cells, 1),
        "update": lambda: np.add.at(counter, cells, 1.0),
    }


def _least(step: Callable[[], object], repeats: int) -> float:
    """Return the least of several times of a step."""
    times = []
    for _ in range(max(2, repeats)):
        start = perf_counter()
        step()
        times.append(perf_counter() - start)
    return min(times)
