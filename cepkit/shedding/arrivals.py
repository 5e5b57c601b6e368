"""When events arrive, as schedules in virtual time, and what each unit of work costs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import combinations
from math import inf
from time import perf_counter
from typing import Any, Protocol

import numpy as np

from cepkit.errors import CepError, nearest
from cepkit.events import Events
from cepkit.shedding.tree_machine import TreeMachine
from cepkit.shedding.tree_program import TreeProgram
from cepkit.values import dataclass, fields

# When events arrive: schedules as values, in seconds of virtual time.

BOOST = ((0.03, 0.30), (0.40, 0.10), (0.60, 0.20), (0.90, 0.10))  # of DARLING's authors: start and share
REGULAR_LOAD = 0.5  # rho: share of its time that the server works outside of peaks


class Arrivals(Protocol):
    """A schedule of arrivals."""

    def times(self, n: int, service: float, seed: int) -> np.ndarray:
        """Return the seconds at which ``n`` events arrive, float64, never falling."""
        ...

    def peaks(self, n: int) -> tuple[tuple[int, int], ...]:
        """Return the peaks among ``n`` events, each as its first event and the event after its last."""
        ...


@dataclass(frozen=True)
class ConstantArrivals:
    """Events arrive at equal distances."""

    # Arrivals per second, divided by the events that the server can process in a second.
    load: float = REGULAR_LOAD

    def __post_init__(self) -> None:
        _check_positive("load", self.load)

    def times(self, n: int, service: float, seed: int) -> np.ndarray:
        """Return when events arrive."""
        return np.arange(1, n + 1) * (service / self.load)

    def peaks(self, n: int) -> tuple[tuple[int, int], ...]:
        """Return the whole run as the only peak if the load is above 1, otherwise no peak."""
        return ((0, n),) if self.load > 1 and n else ()


@dataclass(frozen=True)
class PoissonArrivals(ConstantArrivals):
    """Events arrive at random, independently of each other. ``load`` is the mean."""

    def times(self, n: int, service: float, seed: int) -> np.ndarray:
        return np.cumsum(np.random.default_rng([seed, n]).exponential(service / self.load, n))


@dataclass(frozen=True)
class PeakArrivals:
    """Events arrive at equal distances, and much faster in peaks.

    Source: DARLING, section 5.1, with the peaks of the authors' programs.
    """

    load: float = REGULAR_LOAD  # load outside of the peaks, as for `ConstantArrivals`
    factor: float = 1000.0  # how many times faster events arrive in a peak
    # Start and length of each peak, as shares of the events. The default has 70 % of the events in peaks.
    shares: tuple[tuple[float, float], ...] = BOOST
    poisson: bool = False  # whether the distances are random, with the same means

    def __post_init__(self) -> None:
        _check_positive("load", self.load)
        _check_positive("factor", self.factor)
        end = 0.0
        for peak in self.shares:
            start, share = peak
            if not (end <= start + 1e-9 and share > 0 and start + share <= 1 + 1e-9):
                raise CepError(
                    f"shares={self.shares}: peaks are (start, share) from 0 to 1, in order and apart; "
                    f"{peak} is not"
                )
            end = start + share

    def times(self, n: int, service: float, seed: int) -> np.ndarray:
        """Return when events arrive."""
        gap = np.full(n, service / self.load)
        for start, stop in self.peaks(n):
            gap[start:stop] /= self.factor
        if self.poisson:
            gap *= np.random.default_rng([seed, n]).exponential(1.0, n)
        return np.cumsum(gap)

    def peaks(self, n: int) -> tuple[tuple[int, int], ...]:
        """Return the first event of each peak and the event after its last."""
        return tuple((round(start * n), round((start + share) * n)) for start, share in self.shares)


@dataclass(frozen=True)
class OverloadArrivals:
    """More events than the server can process arrive all the time.

    DARLING's figure 9 has an "overload rate" that the paper does not define. This is one reading of it.
    """

    excess: float = 0.4  # r: events arrive at (1 + r) times the server's capacity

    def __post_init__(self) -> None:
        _check_positive("excess", self.excess)

    def times(self, n: int, service: float, seed: int) -> np.ndarray:
        return ConstantArrivals(1.0 + self.excess).times(n, service, seed)

    def peaks(self, n: int) -> tuple[tuple[int, int], ...]:
        return ((0, n),) if n else ()


@dataclass(frozen=True)
class ColumnArrivals:
    """Events arrive at the times of a column."""

    column: str  # column of times, durations, or numbers in seconds. Its times must not fall in stream order.
    speed: float = 1.0  # how many times faster than the column says

    def __post_init__(self) -> None:
        _check_positive("speed", self.speed)
        if not isinstance(self.column, str):
            raise CepError(f"ColumnArrivals: column={self.column!r}: expected the name of a column")

    def times(self, n: int, service: float, seed: int) -> np.ndarray:
        """Raise: the replay puts the values of the column in the place of this schedule."""
        raise CepError(f"the times of column {self.column!r} are in the frame; give arrivals to cep.replay")

    def peaks(self, n: int) -> tuple[tuple[int, int], ...]:
        """Return no peaks: the column does not name any."""
        return ()


@dataclass(frozen=True, eq=False)
class GivenArrivals:
    """Events arrive at given times, those of the warm-up too."""

    # float64, (n_events,): one number per row of the frame. They must not fall in stream order.
    seconds: np.ndarray

    def __post_init__(self) -> None:
        try:
            seconds = np.asarray(self.seconds)
            if seconds.dtype.kind in "mM":  # times and durations
                seconds = np.where(
                    np.isnat(seconds), np.nan, (seconds - seconds.min()) / np.timedelta64(1, "s")
                )
            seconds = np.asarray(seconds, np.float64)
        except (TypeError, ValueError):
            raise CepError("arrivals: expected numbers, the seconds of each row") from None
        if seconds.ndim != 1:
            raise CepError(f"arrivals: expected one number per row, got an array of shape {seconds.shape}")
        if n_missing := int(np.count_nonzero(~np.isfinite(seconds))):
            raise CepError(f"arrivals: {n_missing:,} of {len(seconds):,} times are missing or infinite")
        object.__setattr__(self, "seconds", seconds)

    def times(self, n: int, service: float, seed: int) -> np.ndarray:
        """Return when events arrive."""
        if n != len(self.seconds):
            raise CepError(f"arrivals: {len(self.seconds):,} times for {n:,} events; give one per row")
        return self.seconds

    def peaks(self, n: int) -> tuple[tuple[int, int], ...]:
        """Return no peaks: the times do not name any."""
        return ()


ARRIVALS: dict[str, Callable[[], Arrivals]] = {
    "constant": ConstantArrivals,
    "poisson": PoissonArrivals,
    "peaks": PeakArrivals,
    "overload": OverloadArrivals,
}


def as_arrivals(given: Any) -> Arrivals:
    """Return a schedule for its name, for a schedule, or for times in stream order."""
    if given is None:
        return PeakArrivals()
    if isinstance(given, str):
        if given not in ARRIVALS:
            raise CepError(
                f"arrivals={given!r} is not known.{nearest(given, ARRIVALS)} Schedules: {list(ARRIVALS)}. "
                f"For the times of a column, give cep.shedding.ColumnArrivals({given!r})"
            )
        return ARRIVALS[given]()
    if isinstance(given, type):
        raise CepError(f"arrivals={given.__name__} is a class. Give a value: {given.__name__}(…)")
    if callable(getattr(given, "times", None)):
        return given
    return GivenArrivals(given)


def check_order(seconds: np.ndarray) -> np.ndarray:
    """Return times in stream order; raise where they fall."""
    falls = np.flatnonzero(np.diff(seconds) < 0)
    if len(falls):
        at = int(falls[0])
        raise CepError(
            f"arrivals: event {at + 1:,} of the stream arrives at {seconds[at + 1]:g} s, before event "
            f"{at:,} at {seconds[at]:g} s. Arrivals must not fall in stream order"
        )
    return seconds


def schedule(arrivals: Arrivals, n_warm: int, n: int, service: float, seed: int) -> np.ndarray:
    """Return when the events of the warm-up and the ``n`` events after it arrive, float64, (n_warm + n,)."""
    # The warm-up has the regular load. Given times include it.
    if isinstance(arrivals, GivenArrivals):
        return check_order(arrivals.times(n_warm + n, service, seed))
    warm = np.arange(1, n_warm + 1) * (service / REGULAR_LOAD)
    times = np.asarray(arrivals.times(n, service, seed), np.float64)
    if times.shape != (n,):
        raise CepError(f"arrivals: {arrivals!r} made {times.shape} times for {n:,} events")
    return check_order(GivenArrivals(np.concatenate([warm, times + (warm[-1] if n_warm else 0.0)])).seconds)


def _check_positive(name: str, value: float) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < inf:
        raise CepError(f"{name}={value!r}: expected a number above 0")


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

    def of_work(self, evaluated: Any, created: Any, removed: Any = 0) -> Any:
        """Return the price of an event with these counts of work in its tree; of several, with arrays."""
        return self.event + self.condition * evaluated + self.create * created + self.remove * removed

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


def measure_prices(tree: TreeProgram, events: Events, positions: np.ndarray) -> Prices:
    """Measure the prices of work on this machine, for the conditions of one pattern.

    Two measurements differ. For reproducible runs, measure once and keep the result.
    """
    counts, seconds = _time_events(tree, events, positions)
    kept = seconds <= np.quantile(seconds, 1 - _OUTLIERS)
    event, condition, create, remove = fit_prices(counts[kept], seconds[kept])
    prices = {name: _least(step) / _ITEMS for name, step in _steps().items()}
    return Prices(
        event=event, condition=condition, create=create, remove=remove, admit=prices["array"],
        drop=prices["array"], **prices,
    )  # fmt: skip


def _time_events(tree: TreeProgram, events: Events, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the work of each event, and the least of its measured times."""
    least = np.full(len(positions), np.inf)
    counts = np.ones((len(positions), 4))
    for _ in range(_REPEATS):
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


def _steps() -> dict[str, Callable[[], object]]:
    """Return the steps of shedders, each on many items at once."""
    generator = np.random.default_rng(0)
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


def _least(step: Callable[[], object]) -> float:
    """Return the least of several times of a step."""
    times = []
    for _ in range(_REPEATS):
        start = perf_counter()
        step()
        times.append(perf_counter() - start)
    return min(times)
