"""The cost model of load shedding: how often conditions hold, and the utilities of events that follow.

A condition on events of several types becomes a `PassShare` for each of them. It takes columns of events of
one type and returns, for each event, the share of the sampled other events for which the condition holds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from itertools import pairwise
from math import log, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from cepkit.compile.interpreted_columns import ColumnReader, constants_of
from cepkit.compile.shared.terms import Term
from cepkit.events import BOOLEAN, FLOAT
from cepkit.language.expressions.trees import MIRRORED, NEGATED
from cepkit.shedding.tree_program import LeafCondition, Role, leaves_of_term
from cepkit.values import dataclass, replace

if TYPE_CHECKING:
    from cepkit.events import Events
    from cepkit.shedding.tree_program import TreeProgram


# Detect that a stream has changed since its statistics: in the rates of types and in attributes.

N_VALUES = 1000  # n: values of an attribute that are compared at a time
_FEWEST = 50  # values that stand for a type
_LEVEL = sqrt(-0.5 * log(1e-4 / 2))  # of the two-sample test of Kolmogorov and Smirnov at 1 in 10,000
_RATE = ""  # the name of the gaps between events, beside those of attributes
Columns = Mapping[str, np.ndarray]


class DriftWatch:
    """Watch the gaps between the events of each type and the values of their attributes.

    The statistic of Kolmogorov and Smirnov compares the last n values with those of the statistics. There is
    an alarm when two tests in a row differ. Values that follow each other are alike in many streams, so both
    samples count as fewer independent values, by their autocorrelation.

    Source: DARLING, section 4.1, asks for a detector and names no test.
    Callers give the time of the events, not of their arrival: a peak of arrivals alone changes neither the
    partial matches in a window nor the shares of the types.
    """

    def __init__(
        self, gaps: Mapping[int, np.ndarray], samples: Mapping[int, Columns],
        values_at: Callable[[int, np.ndarray], Columns],
    ):  # fmt: skip
        self._values_at = values_at
        self._samples = {
            (at, name): SeenValues.of(values)
            for at, columns in samples.items()
            for name, values in {_RATE: gaps.get(at, _NONE), **columns}.items()
        }
        self._last: dict[int, float] = {}
        self._pending: dict[int, list[int]] = {at: [] for at in samples}
        self._gaps: dict[int, list[float]] = {at: [] for at in samples}
        self._carried: dict[int, Columns] = {}  # attributes of events before a restart
        self._wanted = dict.fromkeys(samples, N_VALUES)
        self._differed: set[tuple[int, str]] = set()
        self.alarms: dict[str, float] = {}
        self.n_tests = 0

    def see(self, event_type: int, positions: list[int], times: list[float]) -> None:
        """Take in events of a type that arrive, with their times in the unit of the gaps."""
        pending, gaps, at = self._pending[event_type], self._gaps[event_type], 0
        while at < len(positions):
            stop = at + self._wanted[event_type] - len(pending)
            pending += positions[at:stop]
            newest = times[at:stop]
            gaps += [b - a for a, b in pairwise([self._last.get(event_type, newest[0]), *newest])]
            self._last[event_type] = newest[-1]
            if len(pending) >= self._wanted[event_type]:
                self._compare(event_type, newest[-1])
                pending, gaps = self._pending[event_type], self._gaps[event_type]
            at = stop

    def _compare(self, event_type: int, time: float) -> None:
        values = {_RATE: np.array(self._gaps[event_type][1:]), **self._pending_values(event_type)}
        self._gaps[event_type], self._pending[event_type] = [], []
        self._carried.pop(event_type, None)
        self._wanted[event_type] = N_VALUES
        for name, newest in values.items():
            self.n_tests += 1
            key = event_type, name
            if not self._samples[key].differs(SeenValues.of(newest)):
                self._differed.discard(key)
            elif key in self._differed:
                self.alarms[f"{name or 'rate'} of type {event_type}"] = time
            else:
                self._differed.add(key)

    def _pending_values(self, event_type: int) -> dict[str, np.ndarray]:
        columns = self._values_at(event_type, np.array(self._pending[event_type], np.int64))
        carried = self._carried.get(event_type, {})
        return {
            name: np.concatenate([carried.get(name, _NONE), np.asarray(columns[name], np.float64)])
            for at, name in self._samples
            if at == event_type and name != _RATE
        }

    def save(self) -> dict[str, Any]:
        """Return the state as numbers, texts, lists, mappings and arrays."""
        return {
            "gaps": {str(at): list(gaps) for at, gaps in self._gaps.items()},
            "last": {str(at): last for at, last in self._last.items()},
            "pending": {str(at): self._pending_values(at) for at in self._pending},
            "wanted": {str(at): n - len(self._pending[at]) for at, n in self._wanted.items()},
            "differed": sorted(map(list, self._differed)),
            "alarms": dict(self.alarms),
            "n_tests": self.n_tests,
        }

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Take back what `save` returned."""
        self._gaps = {int(at): list(gaps) for at, gaps in saved["gaps"].items()}
        self._last = {int(at): last for at, last in saved["last"].items()}
        self._carried = {int(at): dict(values) for at, values in saved["pending"].items()}
        self._pending = {at: [] for at in self._pending}
        self._wanted = {int(at): n for at, n in saved["wanted"].items()}
        self._differed = {(at, name) for at, name in saved["differed"]}
        self.alarms, self.n_tests = dict(saved["alarms"]), saved["n_tests"]


_NONE = np.empty(0)


@dataclass(frozen=True, eq=False)
class SeenValues:
    """Values in the order of their events, sorted, and how many independent values they are worth."""

    values: np.ndarray
    n_independent: float

    @classmethod
    def of(cls, values: np.ndarray) -> SeenValues:
        """Return the series of some values; NaN are left out."""
        values = np.asarray(values, np.float64)
        values = values[~np.isnan(values)]
        if len(values) < _FEWEST:
            return cls(values, 0.0)
        # Four values less: short series hide long correlations.
        return cls(np.sort(values), max(0.0, len(values) / correlation_time(values) - 4.0))

    def differs(self, other: SeenValues) -> bool:
        """Return whether two series have different distributions."""
        n, m = self.n_independent, other.n_independent
        if not n or not m:
            return False
        at = np.concatenate([self.values, other.values])
        one, two = (np.searchsorted(own.values, at, side="right") / len(own.values) for own in (self, other))
        return float(np.abs(one - two).max()) > _LEVEL * sqrt(1 / n + 1 / m)


def correlation_time(values: np.ndarray) -> float:
    """Return how many values in a row are worth one independent value, at least 1."""
    # Source: Geyer, "Practical Markov Chain Monte Carlo", 1992: the initial positive sequence, here of ranks.
    ranks = np.unique(values, return_inverse=True)[1].astype(np.float64)
    spread, n = ranks - ranks.mean(), len(ranks)
    if not spread.any():
        return 1.0
    power = np.abs(np.fft.rfft(spread, 2 * n)) ** 2
    shares = np.fft.irfft(power)[: n - n % 2]
    pairs = shares[0::2] / shares[0] + shares[1::2] / shares[0]
    n_positive = int(np.argmax(pairs <= 0)) if (pairs <= 0).any() else len(pairs)
    return max(1.0, 2.0 * float(pairs[:n_positive].sum()) - 1.0)


SAMPLE = 1000  # events that stand for the events of a type
_BLOCK = 128  # events that are compared with a sample at a time


@dataclass(frozen=True)
class Known:
    """Constants and tables of a query by number, as conditions read them."""

    constants: Mapping[int, int | float]
    tables: Mapping[int, np.ndarray]


@dataclass(frozen=True, eq=False)
class PassShare:
    """The probability that a condition holds, as a function of columns of events of one type."""

    of: Callable[[Columns], np.ndarray]  # takes the columns of n events and returns n numbers from 0 to 1
    is_ranked: bool  # whether one or two binary searches per event are enough
    is_own: bool  # whether the condition reads no other event. The numbers are then 0 or 1.


def condition_share(
    condition: LeafCondition, leaf: int, samples: Mapping[int, Columns], known: Known
) -> PassShare | None:
    """Return phi: the probability that a condition holds for events of a leaf's type."""
    # A comparison whose sides add up values of single events is ranked: its sum over the other events is
    # sorted once. The same holds for the absolute value of such a sum next to a constant. Any other condition
    # is tried with each item of the samples. Events of different leaves are independent of one another, and
    # the attributes of one event are not. An event that can have two roles in a closure has the mean of both.
    # Source: DARLING, section 4.3. Differs: any condition and any number of attributes.
    roles = [role for role in condition.roles if role[0] == leaf]
    if not roles or condition.reason_unknown is not None:
        return None
    others = [role for role in condition.roles if role[0] != leaf]
    if any(_size(samples[at]) == 0 for at in {role[0] for role in condition.roles} - {leaf}):
        return None
    if len(condition.roles) == 1:
        return PassShare(_truth(condition, roles[0], known), True, True)
    if len(roles) == 1:
        return _share_of_role(condition, roles[0], others, samples, known)
    if _size(samples[leaf]) == 0:
        return None
    parts = [
        _share_of_role(condition, role, [r for r in condition.roles if r != role], samples, known)
        for role in roles
    ]
    return PassShare(
        lambda columns: sum(part.of(columns) for part in parts) / len(parts),
        all(part.is_ranked for part in parts),
        False,
    )


def sampled_columns(columns: Columns, size: int, seed: int) -> Columns:
    """Return a random sample of ``size`` events; where fewer were seen, each comes equally often."""
    n = _size(columns)
    if n == 0:
        return columns
    rng = np.random.default_rng(seed)
    # The numbers from 0 to ``size``, modulo ``n``, have each row equally often, give or take one.
    rows = rng.permutation(size) % n if size > n else rng.permutation(n)[:size]
    return {name: values[rows] for name, values in columns.items()}


def _size(columns: Columns) -> int:
    return min((len(values) for values in columns.values()), default=0)


def _drawn(columns: Columns, role: Role, size: int) -> Columns:
    """Return the sample of a role, in an order of its own, so that roles are independent of one another."""
    order = np.random.default_rng([role[0], int(role[1])])
    n = _size(columns)
    rows = order.permutation(np.arange(size) % n)
    return {name: values[rows] for name, values in columns.items()}


class _RoleReader(ColumnReader):
    """Reads terms whose leaves are events in roles. Values of different roles are broadcast."""

    def __init__(self, condition: LeafCondition, values: Mapping[Role, Columns], known: Known):
        super().__init__({}, known.constants, known.tables)
        self._condition, self._values_of_role = condition, values

    def leaf(self, term: Term):
        """Return the values of the event in the leaf's role. An aggregate is that of a single event."""
        columns = self._values_of_role[self._condition.role(term)]
        if term.op == "element":
            return _values(columns, term)
        if term.data[0] == "count_of":
            return np.int64(1)
        return _ItemReader(columns, self.constants, self.tables).stored(term.args[0])


class _ItemReader(ColumnReader):
    """Reads the argument of an aggregate, whose leaves are all the same event."""

    def leaf(self, term: Term):
        return _values(self.columns, term)


def _values(columns: Columns, term: Term) -> np.ndarray:
    values = columns[term.column]
    return values.astype(np.float64 if values.dtype.kind == "f" else np.int64, copy=False)


def _truth(condition: LeafCondition, own: Role, known: Known) -> Callable[[Columns], np.ndarray]:
    def holds(columns: Columns) -> np.ndarray:
        true = _RoleReader(condition, {own: columns}, known).true(condition.term)
        return np.broadcast_to(np.asarray(true, np.float64), (_size(columns),))

    return holds


def _share_of_role(
    condition: LeafCondition, own: Role, others: list[Role], samples: Mapping[int, Columns], known: Known
) -> PassShare:
    size = max(_size(samples[role[0]]) for role in others)
    drawn = {role: _drawn(samples[role[0]], role, size) for role in others}
    compared = _separate(condition, own)
    if compared is not None:
        return PassShare(_ranked(condition, compared, own, drawn, size, known), True, False)
    return PassShare(_tried(condition, own, drawn, size, known), False, False)


# --- conditions that are tried with every item of the sample


def _tried(condition: LeafCondition, own: Role, drawn: Mapping[Role, Columns], size: int, known: Known):
    def share(columns: Columns) -> np.ndarray:
        n = _size(columns)
        shares = np.empty(n)
        for start in range(0, n, _BLOCK):
            rows = slice(start, min(n, start + _BLOCK))
            block = {name: values[rows, None] for name, values in columns.items()}
            true = _RoleReader(condition, {**drawn, own: block}, known).true(condition.term)
            shares[rows] = np.broadcast_to(true, (len(shares[rows]), size)).mean(axis=1)
        return shares

    return share


# --- comparisons of sums: rank the events among the sorted sums of the others


@dataclass(frozen=True)
class _Addend:
    """A value of one event times constants, added or subtracted; without a value only the constants."""

    term: Term | None
    factors: tuple[tuple[str, Term], ...] = ()  # ("*" or "/", a constant term)
    sign: int = 1


@dataclass(frozen=True)
class _Comparison:
    """``own + rest sign 0``; with a limit: ``abs(own + rest) sign limit``."""

    own: tuple[_Addend, ...]
    rest: tuple[_Addend, ...]
    sign: str
    limit: Term | None = None


def _separate(condition: LeafCondition, own: Role) -> _Comparison | None:
    """Return the comparison of a condition whose sides separate into the event and the others, or None."""
    term, is_negated = condition.term, False
    while term.op == "not":
        term, is_negated = term.args[0], not is_negated
    if term.op != "compare" or any(arg.kind == BOOLEAN for arg in term.args):
        return None
    (left, right), sign = term.args, term.data
    if is_negated:
        sign = NEGATED[sign]
    if right.op == "abs" and not any(leaves_of_term(left)):
        left, right, sign = right, left, MIRRORED[sign]
    if left.op == "abs" and not any(leaves_of_term(right)):
        if sign in ("==", "!="):
            return None
        addends, limit = _addends(left.args[0]), right
    else:  # bring all addends to the left side
        moved = [replace(addend, sign=-addend.sign) for addend in _addends(right)]
        addends, limit = [*_addends(left), *moved], None
    of_event = [
        addend for addend in addends if addend.term is not None and own in _roles(condition, addend.term)
    ]
    if any(len(_roles(condition, addend.term)) > 1 for addend in of_event):
        return None
    rest = [addend for addend in addends if addend not in of_event]
    return _Comparison(tuple(of_event), tuple(rest), sign, limit)


def _roles(condition: LeafCondition, term: Term) -> set[Role]:
    return {condition.role(part) for part in leaves_of_term(term)}


def _addends(term: Term) -> list[_Addend]:
    """Return the parts of a sum. Integers must divide without a remainder, so only floats are divided."""
    if not any(leaves_of_term(term)):
        return [_Addend(None, (("*", term),))]
    args = term.args
    if term.op == "+":
        return [addend for arg in args for addend in _addends(arg)]
    if term.op == "-":
        first, *further = args
        return [*_addends(first), *(replace(a, sign=-a.sign) for arg in further for a in _addends(arg))]
    if term.op == "negative":
        return [replace(addend, sign=-addend.sign) for addend in _addends(args[0])]
    if term.op in ("*", "/") and len(args) == 2 and term.kind == FLOAT:
        value, factor = args if not any(leaves_of_term(args[1])) else args[::-1]
        if not any(leaves_of_term(factor)) and (term.op == "*" or value is args[0]):
            return [replace(a, factors=(*a.factors, (term.op, factor))) for a in _addends(value)]
    return [_Addend(term)]


def _sum(reader: _RoleReader, addends: tuple[_Addend, ...], n: int) -> np.ndarray:
    """Return a sum of addends per event, float64, (n,); NaN where a value is missing."""
    total = np.zeros(n)
    for addend in addends:
        value = 1.0 if addend.term is None else reader.as_float(addend.term)
        for operation, factor in addend.factors:
            by = float(reader.as_float(factor))
            value = value * by if operation == "*" else value / by if by else np.nan
        total = total + value if addend.sign > 0 else total - value
    return total


def _ranked(
    condition: LeafCondition, compared: _Comparison, own: Role, drawn: Mapping[Role, Columns], size: int,
    known: Known,
) -> Callable[[Columns], np.ndarray]:  # fmt: skip
    others = _RoleReader(condition, drawn, known)
    rest = _sum(others, compared.rest, size)
    rest = np.sort(rest[~np.isnan(rest)])
    limit = None if compared.limit is None else float(others.as_float(compared.limit))
    sign, n_valid = compared.sign, len(rest)

    def share(columns: Columns) -> np.ndarray:
        mine = _sum(_RoleReader(condition, {own: columns}, known), compared.own, _size(columns))
        if limit is None:
            n = _count(rest, sign, -mine)
        elif limit < 0:
            n = np.full(len(mine), 0 if sign in ("<", "<=") else n_valid)
        elif sign in ("<=", ">"):
            inside = _count(rest, "<=", limit - mine) - _count(rest, "<", -limit - mine)
            n = inside if sign == "<=" else n_valid - inside
        else:
            inside = np.maximum(_count(rest, "<", limit - mine) - _count(rest, "<=", -limit - mine), 0)
            n = inside if sign == "<" else n_valid - inside
        return np.where(np.isnan(mine), 0.0, n / size)

    return share


def _count(sorted_values: np.ndarray, sign: str, at: np.ndarray) -> np.ndarray:
    """Return for each limit how many values ``x`` fulfil ``x sign limit``."""
    if sign in ("<", ">="):
        below = np.searchsorted(sorted_values, at, side="left")
        return below if sign == "<" else len(sorted_values) - below
    up_to = np.searchsorted(sorted_values, at, side="right")
    if sign in ("<=", ">"):
        return up_to if sign == "<=" else len(sorted_values) - up_to
    equal = up_to - np.searchsorted(sorted_values, at, side="left")
    return equal if sign == "==" else len(sorted_values) - equal


Samples = Mapping[int, Columns]  # events that were seen, by type


@dataclass(frozen=True, eq=False)
class StreamColumns:
    """The columns of a stream as the conditions of a program read them."""

    program: TreeProgram
    events: Events

    @cached_property
    def known(self) -> Known:
        """Constants and tables of the query."""
        return Known(*constants_of(self.program.program, self._inputs))

    @cached_property
    def _inputs(self):
        return self.program.program.inputs(self.events.columns)

    @property
    def columns(self) -> Columns:
        """All columns that conditions read."""
        return self._inputs.columns

    @cached_property
    def type_of_event(self) -> np.ndarray:
        """Number of the type of each event in ``program.types``, -1 for other types; int64, (n_events,)."""
        reader = ColumnReader(self.columns, self.known.constants, self.known.tables)
        code = self.program.code
        return code.types_of(
            self.events.n_events, lambda test: np.asarray(reader.true(code.tests[test]), np.bool_)
        )

    @cached_property
    def clock(self) -> np.ndarray | None:
        """The times of the events by the clock of the window; None for a window that counts events."""
        bound = self.program.program
        if bound.clock not in self.events.columns or bound.window.within is None:
            return None
        return self.events.columns[bound.clock].values

    @cached_property
    def rows_of_type(self) -> tuple[np.ndarray, ...]:
        """The events of each type, int64."""
        return tuple(np.flatnonzero(self.type_of_event == i) for i in range(len(self.program.types)))

    @cached_property
    def read(self) -> frozenset[str]:
        """Names of the columns that conditions read, without that of the types."""
        parts = (part for test in self.program.conditions for part in test.bound.term.walk())
        return frozenset(part.column for part in parts if part.op == "element")

    def take(self, positions: np.ndarray | slice) -> dict[str, np.ndarray]:
        """Return the columns of some events that conditions read."""
        columns = self.columns
        return {name: columns[name][positions] for name in columns if name in self.read}


def samples_of_warm_up(stream: StreamColumns, n_events: int, size: int = SAMPLE, seed: int = 0) -> Samples:
    """Return a uniform sample of the first events of each type, without replacement, as a reservoir would."""
    kinds, draw = stream.type_of_event[:n_events], np.random.default_rng(seed)
    samples = {}
    for number in range(len(stream.program.types)):
        positions = np.flatnonzero(kinds == number)
        if len(positions) > size:
            positions = np.sort(draw.choice(positions, size, replace=False))
        samples[number] = stream.take(positions)
    return samples


# Utilities of events of a pattern: how likely they fulfil all conditions that read them.

AS_PRINTED, AS_KILLER = "printed", "kills"
NEGATIONS = (AS_PRINTED, AS_KILLER)


@dataclass(frozen=True, eq=False)
class LeafUtility:
    """The utility of an event as one component: the product of its shares, or 1 minus the product.

    A component without conditions makes every event a sure one.
    """

    shares: tuple[PassShare, ...]
    is_inverted: bool = False

    def of(self, columns: Columns, n: int) -> np.ndarray:
        """Return the utility of each event, float64, (n,)."""
        product = np.ones(n)
        for share in self.shares:
            product = product * share.of(columns)
        return 1.0 - product if self.is_inverted else product


class PatternUtilities:
    """The utility of events for one pattern.

    Source: DARLING, equation 11. The paper does not say what dropping a negated event does. It makes false
    matches, and with both meanings an event that kills for sure goes last in the reading ``"kills_if"``.
    An event that fits several components has the utility of the best one.
    """

    def __init__(
        self, program: TreeProgram, seen: Samples, known: Known, *, negation: str = AS_PRINTED, size: int
    ):
        samples = {
            at: sampled_columns(seen[leaf.type], size, seed=at) for at, leaf in enumerate(program.leaves)
        }
        self._of_type: dict[int, list[LeafUtility]] = {}
        self.unknown: tuple[str, ...] = tuple(
            test.text for test in program.conditions if test.bound.reason_unknown is not None
        )
        for at, leaf in enumerate(program.leaves):
            shares = [
                condition_share(test.bound, at, samples, known)
                for test in program.conditions
                if at in test.leaves
            ]
            known_shares = tuple(share for share in shares if share is not None)
            is_allowed = leaf.is_absent and program.negation == "allowed_if"
            utility = LeafUtility(known_shares, is_allowed and negation == AS_KILLER and bool(known_shares))
            self._of_type.setdefault(leaf.type, []).append(utility)

    def n_conditions(self, event_type: int) -> int:
        """Return |C_type(T)|: how many conditions are evaluated for the utility of an event."""
        return sum(len(leaf.shares) for leaf in self._of_type.get(event_type, ()))

    def n_ranked(self) -> int:
        """Return how many pairs of a condition and a component have a sorted sample."""
        return sum(
            share.is_ranked and not share.is_own
            for leaves in self._of_type.values()
            for leaf in leaves
            for share in leaf.shares
        )

    def of(self, event_type: int, columns: Columns, n: int) -> np.ndarray:
        """Return the utilities of ``n`` events of a type from 0 to 1, float64, (n,)."""
        with np.errstate(all="ignore"):
            leaves = [leaf.of(columns, n) for leaf in self._of_type.get(event_type, ())]
        return np.clip(np.max(leaves, axis=0), 0.0, 1.0) if leaves else np.ones(n)
