"""Aggregates over all matches of a state graph, computed along its edges without making matches."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from cepkit.compile.counting.counting import MODULAR, WRAPPING
from cepkit.engines.counting.counts import WORD, PathCounter, moduli, number_of, total_of
from cepkit.engines.counting.layout import Entries
from cepkit.events import NULL_INTEGER

_KEPT_BITS = 128  # floats keep this many bits below the highest bit of the largest float


@dataclass(frozen=True, slots=True)
class _Weights:
    """Integers, as ``mantissa * 2^shift``."""

    mantissa: np.ndarray  # int64
    shift: np.ndarray  # int64, >= 0

    @property
    def largest(self) -> int:
        return max(
            (abs(m) << s for m, s in zip(self.mantissa.tolist(), self.shift.tolist(), strict=True)), default=0
        )

    def residues(self, modulus: int) -> np.ndarray:
        """Return the residues for a modulus of 2^64 or below 2^31."""
        if modulus == WORD:
            shift = np.minimum(self.shift, 63).astype(np.uint64)
            return np.where(self.shift < 64, self.mantissa.view(np.uint64) << shift, np.uint64(0))
        powers = np.array([pow(2, s, modulus) for s in range(int(self.shift.max(initial=0)) + 1)], np.uint64)
        mantissa_residues = np.mod(self.mantissa, modulus).astype(np.uint64)
        return mantissa_residues * powers[self.shift] % np.uint64(modulus)


def aggregate(
    counter: PathCounter,
    component: int,
    values: np.ndarray | None,
    function: str,
    present: np.ndarray | None = None,
) -> int | float | None:
    """Return an aggregate of a component's events over all matches.

    Sums take a pass of the counting kernel per 31 bits of the result. Extremes need no counting, only the
    events that are part of a match; see `Entries.taking_part`.

    Source: Poppe, Lei, Rundensteiner, Maier, "GRETA", PVLDB 11(1), 2017, section 5: count and sum are
    computed along the edges together.
    """
    layout = counter.layout
    if values is None:
        values = np.zeros(layout.places.n, np.int64)
    members = layout.members(layout.graph.pool_of_component(component))
    member_values = values[members]
    has_value = (
        member_values == member_values if member_values.dtype.kind == "f" else member_values != NULL_INTEGER
    )
    if present is not None:
        has_value = present[members]
    if function in ("min", "max"):
        taken = member_values[has_value & taking_part(counter, component)]
        return None if not len(taken) else (taken.min() if function == "min" else taken.max()).item()
    n = _sum(counter, component, _integers(has_value.astype(np.int64)))
    if function == "count" or not n:
        return n if function == "count" else None
    infinite = _infinite_sum(counter, component, member_values)
    if infinite is not None:
        return infinite
    weights, unit = _weights(np.where(has_value, member_values, 0))
    total = _sum(counter, component, weights) * unit
    if function == "total":
        return total
    if function == "avg":
        return _round_to_float(Fraction(total) / n)
    return _round_to_float(total) if member_values.dtype.kind == "f" else int(total)


def taking_part(counter: PathCounter, component: int) -> np.ndarray:
    """Return which members of a component's pool are part of a match, bool."""
    layout = counter.layout
    return Entries.of(layout).taking_part(layout, component)


def _sum(counter: PathCounter, component: int, weights: _Weights) -> int:
    """Return the sum of the weights of a component's events over all matches."""
    graph, n_matches, largest = counter.graph, counter.total(), weights.largest
    if not n_matches or not largest:
        return 0
    states = [s for s, state in enumerate(graph.states) if state.component == component]
    loops = any(edge.source == edge.target and edge.source in states for edge in graph.edges)
    most = n_matches * largest * (counter.layout.size(states[0]) if loops else len(states))
    used = moduli(2 * most, counter.most_terms, largest=1 << 31)
    residues = []
    for modulus in used:
        arithmetic = WRAPPING if modulus == WORD else MODULAR
        sums = counter.pass_over(arithmetic, modulus, component=component, weight=weights.residues(modulus))[
            1
        ]
        residues.append(np.array([total_of(sums) % modulus], np.uint64))
    total = int(number_of(residues, used)[0])
    product = 1
    for modulus in used:
        product *= modulus
    return total - product if total > product // 2 else total


def _integers(values: np.ndarray) -> _Weights:
    return _Weights(values, np.zeros(len(values), np.int64))


def _weights(values: np.ndarray) -> tuple[_Weights, int | Fraction]:
    """Return the values as integers of a unit, and the unit."""
    if values.dtype.kind != "f":
        return _integers(values.astype(np.int64, copy=False)), 1
    mantissa, exponent = np.frexp(values.astype(np.float64, copy=False))
    exponent = exponent.astype(np.int64) - 53
    used = exponent[mantissa != 0]
    if not len(used):
        return _integers(np.zeros(len(values), np.int64)), 1
    least = max(int(used.min()), int(used.max()) + 53 - _KEPT_BITS)
    shift = exponent - least
    # Bits below the unit are rounded away.
    whole = np.rint(np.ldexp(mantissa, 53 + np.minimum(shift, 0))).astype(np.int64)
    return _Weights(whole, np.maximum(shift, 0)), Fraction(2) ** least


def _infinite_sum(counter: PathCounter, component: int, values: np.ndarray) -> float | None:
    """Return the sum if infinite values are part of a match, otherwise None."""
    if values.dtype.kind != "f" or not np.isinf(values).any():
        return None
    part = taking_part(counter, component)
    up, down = bool((values[part] == np.inf).any()), bool((values[part] == -np.inf).any())
    values[np.isinf(values)] = 0.0
    return float("nan") if up and down else float("inf") if up else float("-inf") if down else None


def ratio(total: int | float | Fraction, n: int) -> float:
    """Return ``total / n`` as a float; both may be larger than any float."""
    is_infinite = isinstance(total, float) and not math.isfinite(total)
    return total if is_infinite else _round_to_float(Fraction(total) / n)


def _round_to_float(number: int | Fraction) -> float:
    try:
        return float(number)
    except OverflowError:
        return float("inf") if number > 0 else float("-inf")
