"""Patterns, events and matches as plain arrays, for LinkedCEP and the run engines.

The module knows neither queries nor frames. Any arrays of events will do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

from cepkit.errors import CepError, OrderError, column_not_found, nearest, whole_number
from cepkit.events import sums_before
from cepkit.values import dataclass, field

SIGNS = ("<", "<=", ">", ">=", "==", "!=")
ABSENT = -1
OUTPUTS = ("all", "count", "latest")
MOST_BITS = 62  # one bit per component and per absence
COPIES = ("pointer", "references", "deep")
ATTRIBUTES = 4  # of an event in a deep copy: those of the paper's streams
MOST_ATTRIBUTES = 1 << 16

BoundEvents = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class EventComparison:
    """The relation ``left sign factor * right`` between events of two components."""

    # A comparison with a missing value (NaN, the smallest int64) is false, also with ``!=``.

    # left, right: components from 0, or `ABSENT` for the absent event of a `PlainAbsence`. A Kleene closure
    # means its latest event when the other component comes later, and each of its events when the other
    # component comes earlier. The same Kleene closure twice means an event (left) and the one before it
    # (right).
    left: int
    sign: str
    right: int
    # left_column, right_column: columns of the events. Two integer columns are compared as integers when
    # ``factor`` is 1.
    left_column: str
    right_column: str
    factor: float = 1.0

    @property
    def components(self) -> tuple[int, ...]:
        """The components without duplicates and without the absent event."""
        return tuple(dict.fromkeys(j for j in (self.left, self.right) if j != ABSENT))


@dataclass(frozen=True, slots=True)
class PlainAbsence:
    """No accepted event with all ``conditions`` may occur between component ``after`` and the next one."""

    after: int
    conditions: tuple[EventComparison, ...] = ()


@dataclass(frozen=True)
class PlainPattern:
    """A sequence of components, matched with skip-till-any-match."""

    n_components: int
    window_ticks: int | None = None  # longest time from the first to the last event, inclusive
    # Between components. Conditions on single events belong in ``accepts_of_component`` of the events.
    conditions: tuple[EventComparison, ...] = ()
    kleene: frozenset[int] = frozenset()  # components that stand for one or more events
    absences: tuple[PlainAbsence, ...] = ()
    strict_time: bool = False  # whether successive events must differ in time

    def __post_init__(self) -> None:
        for name in ("conditions", "absences"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        object.__setattr__(self, "kleene", frozenset(self.kleene))
        if self.n_components < 1 or self.n_components + len(self.absences) > MOST_BITS:
            raise CepError(
                f"a pattern has {self.n_components} components and {len(self.absences)} absences. "
                f"It must have from 1 to {MOST_BITS} of them"
            )
        if self.window_ticks is not None and self.window_ticks < 0:
            raise CepError(f"window_ticks is {self.window_ticks}. It must be at least 0, or None")
        for absence in self.absences:
            if not 0 <= absence.after < self.n_components - 1:
                raise CepError(
                    f"an absence is after component {absence.after} of {self.n_components}. "
                    "It must be between two components"
                )
        for condition, is_absence in self._all_conditions():
            self._check(condition, is_absence)
        for j in self.kleene:
            self._check_component(j)

    def _all_conditions(self) -> list[tuple[EventComparison, bool]]:
        """Return the conditions, each with whether it is one on an absent event."""
        pairs = [(condition, False) for condition in self.conditions]
        return pairs + [(condition, True) for absence in self.absences for condition in absence.conditions]

    def _check(self, condition: EventComparison, is_absence: bool) -> None:
        """Raise if a condition does not fit the pattern."""
        for j in condition.components:
            self._check_component(j)
        if condition.sign not in SIGNS:
            raise CepError(f"{condition.sign!r} is no comparison. Comparisons: {list(SIGNS)}")
        if is_absence and self.kleene & {*condition.components}:
            raise CepError(f"{condition}: a condition of an absence must not name a Kleene closure")
        n_absent = (condition.left, condition.right).count(ABSENT)
        if n_absent != is_absence:
            raise CepError(
                f"{condition}: a condition of an absence must name the absent event once, others must not"
            )
        if condition.left == condition.right and condition.left not in self.kleene:
            raise CepError(
                f"{condition} names component {condition.left} twice. "
                "A condition on a single event belongs in accepts_of_component"
            )

    def _check_component(self, j: int) -> None:
        """Raise if a component does not exist."""
        if not 0 <= j < self.n_components:
            raise CepError(f"component {j} does not exist. Components: 0 to {self.n_components - 1}")

    @cached_property
    def coverable(self) -> tuple[bool, ...]:
        """Whether the events of each component may share a chain."""
        # They may when the component is no Kleene closure and no condition names it with another event.
        # Partition keys do not count as conditions.
        named = set(self.kleene)
        for condition, is_absence in self._all_conditions():
            if is_absence or len(condition.components) > 1:
                named.update(condition.components)
        return tuple(j not in named for j in range(self.n_components))


@dataclass(frozen=True, slots=True)
class Copying:
    """What an engine copies when an event extends a partial match."""

    # Matches and counters do not depend on it, except ``copied_bytes`` and ``peak_bytes``. Conditions read
    # the columns of the stream in any case.
    # Source: Qiu et al., LinkedCEP, section 3.2.1: a deep copy creates a new temporary match and copies "all
    # attribute values and references" to it.

    # ``pointer``: the new partial match points to the one that it extends. A copy costs the same at any
    # length. ``references``: it has the positions of all its events. ``deep``: it also has the attributes of
    # these events. So a copy writes ``8 * (1 + length * (1 + payload))`` bytes.
    copies: str = "pointer"
    # Attributes of each event, 8 bytes each, at least 0. Only with ``deep``, where it is 4 by default.
    payload: int | None = None

    def __post_init__(self) -> None:
        if self.copies not in COPIES:
            hint = nearest(self.copies, COPIES) if isinstance(self.copies, str) else ""
            raise CepError(f"copies={self.copies!r} is not known.{hint} Ways: {list(COPIES)}")
        if self.payload is not None:
            whole_number("payload", self.payload, 0, MOST_ATTRIBUTES)
            if self.copies != "deep":
                raise CepError(
                    f"payload={self.payload} with copies={self.copies!r}: only deep copies take attributes. "
                    "Use copies='deep', or leave payload out"
                )

    @property
    def number(self) -> int:
        """The number of the way, as kernels know it."""
        return COPIES.index(self.copies)

    @property
    def n_attributes(self) -> int:
        """The number of attributes of an event that a copy takes along."""
        if self.copies != "deep":
            return 0
        return ATTRIBUTES if self.payload is None else int(self.payload)

    def __str__(self) -> str:
        if self.copies == "deep":
            return f"a reference and {self.n_attributes} attributes of each event"
        return "a reference to each event" if self.copies == "references" else "a pointer to the one before"


POINTER = Copying()


@dataclass(frozen=True)
class PlainEvents:
    """Events in stream order."""

    time: np.ndarray  # ticks. They must not fall.
    accepts_of_component: np.ndarray  # whether the type and the single-event conditions of a component hold
    partition_of_event: np.ndarray | None = None  # codes from 0; None: one partition
    accepts_of_absence: np.ndarray | None = None  # the same for the events that must not occur
    # The columns of every `EventComparison`, integers or floats.
    columns: Mapping[str, np.ndarray] = field(default_factory=dict)

    @property
    def n_events(self) -> int:
        return len(self.time)

    def take(self, rows: slice) -> PlainEvents:
        """Return a range of the events."""
        partition, absent = self.partition_of_event, self.accepts_of_absence
        return PlainEvents(
            self.time[rows], self.accepts_of_component[:, rows],
            None if partition is None else partition[rows], None if absent is None else absent[:, rows],
            {name: values[rows] for name, values in self.columns.items()},
        )  # fmt: skip

    def accepted(self, pattern: PlainPattern) -> np.ndarray:
        """Return the bits of every event, int64, (n_events,): one per component, then one per absence."""
        n_absences = len(pattern.absences)
        absent = self.accepts_of_absence
        if absent is None:
            absent = np.zeros((0, self.n_events), np.uint8)
        for name, array, wanted in (
            ("accepts_of_component", self.accepts_of_component, pattern.n_components),
            ("accepts_of_absence", absent, n_absences),
        ):
            if np.shape(array) != (wanted, self.n_events):
                raise CepError(f"{name} has shape {np.shape(array)}. It must be {(wanted, self.n_events)}")
        bits = np.zeros(self.n_events, np.int64)
        for k, accepts in enumerate((*self.accepts_of_component, *absent)):
            bits |= np.asarray(accepts, bool).astype(np.int64) << k
        return bits

    def check(self, pattern: PlainPattern, latest: int | None) -> None:
        """Raise when times fall, begin before ``latest``, or a column is missing or has another length."""
        time = np.asarray(self.time)
        if time.dtype.kind not in "iu":
            raise CepError(f"time has dtype {time.dtype}. It must be whole ticks, int64")
        falls = np.flatnonzero(time[1:] < time[:-1])
        if len(falls):
            raise OrderError(f"time falls at event {falls[0] + 1}. Events must be in stream order")
        if latest is not None and self.n_events and time[0] < latest:
            raise OrderError(
                f"the events begin at {time[0]}, before {latest}. Events must be in stream order"
            )
        partition = self.partition_of_event
        if partition is not None and (
            np.shape(partition) != (self.n_events,) or (self.n_events and np.min(partition) < 0)
        ):
            raise CepError("partition_of_event must have a code of at least 0 for every event")
        for condition, _ in pattern._all_conditions():
            for name in (condition.left_column, condition.right_column):
                if name not in self.columns:
                    raise column_not_found("condition", name, list(self.columns))
                values = np.asarray(self.columns[name])
                if values.shape != (self.n_events,) or values.dtype.kind not in "iufb":
                    raise CepError(f"column {name!r} must have a number for each of {self.n_events} events")


@dataclass(frozen=True)
class PlainMatches:
    """Matches in canonical order: by last event, then by the events before it backwards, then component."""

    # An engine with ``ordered=False`` gives them in its own order.

    n_matches: int  # exact, also when the engine only counts matches
    n_components: int
    event_of_item: np.ndarray  # int64: positions from the first event ever pushed
    first_item_of_match: np.ndarray  # int64, (matches + 1,)
    component_of_item: np.ndarray | None = None  # int64: none: a match has one event per component

    @property
    def positions(self) -> np.ndarray:
        """Events of each match of a pattern without Kleene closure, int64, (n_matches, n_components)."""
        if self.component_of_item is not None:
            raise CepError(
                "matches with a Kleene closure have no table of positions. Use event_of_item or bound"
            )
        return self.event_of_item.reshape(-1, self.n_components)

    def bound(self) -> list[BoundEvents]:
        """Return every match as a tuple of positions per component. O(items); for small results."""
        component = self.component_of_item
        if component is None:
            return [tuple((x,) for x in match) for match in self.positions.tolist()]
        bound_events = []
        for start, stop in zip(self.first_item_of_match[:-1], self.first_item_of_match[1:], strict=True):
            events_of_component = [[] for _ in range(self.n_components)]
            for i in range(start, stop):
                events_of_component[component[i]].append(int(self.event_of_item[i]))
            bound_events.append(tuple(tuple(events) for events in events_of_component))
        return bound_events


@dataclass
class Counters:
    """Counters of an engine since its start."""

    # int64, (n_components,): partial matches made, by their last component. In LinkedCEP, the events in
    # chains.
    nodes_of_component: np.ndarray
    copies: int = 0  # partial matches that extend another one
    chains: int = 0  # chains made. A run is a chain of one event.
    peak_live: int = 0  # most chains or runs in memory at a time
    # Bytes that were written to make partial matches of references, or of references and attributes.
    copied_bytes: int = 0
    slot_bytes: int = 72  # memory of one chain or run

    @property
    def peak_bytes(self) -> int:
        """Memory of the live chains or runs at their peak, without the events."""
        return self.slot_bytes * self.peak_live

    @property
    def nodes(self) -> int:
        """The number of partial matches, complete ones included."""
        return int(self.nodes_of_component.sum())

    @property
    def complete(self) -> int:
        """The number of partial matches that end in the last component."""
        return int(self.nodes_of_component[-1])

    @property
    def intermediate(self) -> int:
        """The number of partial matches that end before the last component."""
        return self.nodes - self.complete

    @property
    def mean_chain_length(self) -> float:
        """Events per chain; NaN without chains."""
        return self.nodes / self.chains if self.chains else float("nan")


def sorted_matches(
    items: np.ndarray, lengths: np.ndarray, components: np.ndarray, n_components: int
) -> PlainMatches:
    """Return matches of different lengths in canonical order. O(matches x longest)."""
    first = sums_before(lengths)
    longest = int(lengths.max(initial=0))
    keys = np.full((2 * longest, len(lengths)), -1, np.int64)
    for d in range(longest):
        has = lengths > d
        at = first[1:][has] - 1 - d
        # lexsort sorts by the last key first: events from the last one backwards, then components.
        keys[2 * longest - 1 - d, has] = items[at]
        keys[longest - 1 - d, has] = components[at]
    order = np.lexsort(keys) if longest else np.arange(len(lengths))
    sizes = lengths[order]
    new_first = sums_before(sizes)
    source = np.repeat(first[:-1][order] - new_first[:-1], sizes) + np.arange(len(items))
    return PlainMatches(len(lengths), n_components, items[source], new_first, components[source])


def join_matches(parts: Sequence[PlainMatches], n_components: int) -> PlainMatches:
    """Return the matches of several calls, one call after the other."""
    if not parts:
        return PlainMatches(0, n_components, np.empty(0, np.int64), np.zeros(1, np.int64))
    sizes = np.concatenate([np.diff(part.first_item_of_match) for part in parts])
    first = sums_before(sizes)
    components = [part.component_of_item for part in parts]
    return PlainMatches(
        sum(part.n_matches for part in parts), n_components,
        np.concatenate([part.event_of_item for part in parts]), first,
        None if components[0] is None else np.concatenate(components),
    )  # fmt: skip
