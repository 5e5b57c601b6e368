"""The expected cost of an event in a left-deep evaluation tree, by DARLING's equations 5 to 10."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import inf, prod

from cepkit.errors import CepError

PRINTED, CORRECTED = "printed", "corrected"
FORMS = (PRINTED, CORRECTED)
MOST_SETS = 1e12  # partial matches of a Kleene closure; more than any memory holds
_MOST_EVENTS, _LARGEST_TERM = 160, 1e150  # of a match in sums; 160! is still a float


@dataclass(frozen=True, slots=True)
class CostedCondition:
    """A condition of a pattern with what it costs and how often it holds."""

    components: frozenset[int]  # numbers of the components that it reads, at least one
    cost_s: float  # f_c: seconds of one evaluation
    selectivity: float  # SEL(c): share of the combinations for which it holds, 0 to 1

    def __post_init__(self) -> None:
        _not_negative("cost_s", self.cost_s)
        if not self.components:
            raise CepError("a condition reads at least one component")
        if not 0 <= self.selectivity <= 1:
            raise CepError(f"selectivity={self.selectivity}: expected a share from 0 to 1")


@dataclass(frozen=True, slots=True)
class Leaf:
    """A component of a pattern: its type and how often such events arrive."""

    event_type: str
    rate_hz: float  # R: events per second
    is_kleene: bool = False  # whether it takes several events
    is_negated: bool = False  # whether its events must be absent
    most: int | None = None  # how many events a Kleene closure takes at most. The corrected form uses this.
    # Share of the events that fit after a given event in a Kleene closure, by the conditions between them.
    # The corrected form uses this.
    extending: float = 1.0

    def __post_init__(self) -> None:
        _not_negative("rate_hz", self.rate_hz)


@dataclass(frozen=True, slots=True)
class CostTree:
    """A left-deep evaluation tree with measured costs.

    The first inner node joins components 0 and 1. Inner node k joins inner node k - 1 with component k. A
    condition belongs to the lowest node that knows all of its components. A negated component joins nothing:
    its events wait in the leaf until a match is complete.
    """

    leaves: tuple[Leaf, ...]  # one per component, in the order of the tree
    conditions: tuple[CostedCondition, ...]
    window_s: float  # w, in seconds
    # create_s, remove_s: V_n and V_r: seconds to create and to remove a partial match
    create_s: float
    remove_s: float
    is_sequence: bool = True  # whether components must arrive in an order. The corrected form uses this.
    place_of_leaf: tuple[int, ...] = ()  # place of each leaf in this order; empty: the order of the leaves

    def __post_init__(self) -> None:
        for name in ("window_s", "create_s", "remove_s"):
            _not_negative(name, getattr(self, name))
        if not self.leaves:
            raise CepError("a tree needs at least one leaf")
        for condition in self.conditions:
            if max(condition.components) >= len(self.leaves) or min(condition.components) < 0:
                raise CepError(
                    f"a condition reads component {max(condition.components)}; "
                    f"the tree has the components 0 to {len(self.leaves) - 1}"
                )


def leaf_conditions(tree: CostTree, leaf: int) -> tuple[CostedCondition, ...]:
    """Return the conditions of a leaf: those that read its component alone."""
    return tuple(c for c in tree.conditions if c.components == {leaf})


def node_conditions(tree: CostTree, node: int) -> tuple[CostedCondition, ...]:
    """Return the conditions of inner node ``node`` >= 1: the last component that they read is ``node``.

    Those of negated components are not among them.

    """
    return tuple(
        c for c in tree.conditions
        if len(c.components) > 1 and max(c.components) == node and not _reads_negated(tree, c)
    )  # fmt: skip


def condition_cost(conditions: Iterable[CostedCondition]) -> float:
    """Return L_cond: seconds to evaluate all conditions of a node for one combination.

    Source: DARLING, equation 5.
    """
    return sum(condition.cost_s for condition in conditions)


def selectivity(conditions: Iterable[CostedCondition]) -> float:
    """Return SEL: the share of combinations that satisfy all conditions, as if they were independent."""
    return prod(condition.selectivity for condition in conditions)


def stored_in_leaf(tree: CostTree, leaf: int, form: str = CORRECTED) -> float:
    """Return PM(L): how many partial matches a leaf holds.

    Source: DARLING, equation 10, first case.
    Differs: for a Kleene closure, the paper replaces the rate R by 2^R, which depends on the unit of time.
    The corrected form counts the non-empty sets of the events in a window. Their number is Poisson with mean
    n = R SEL w, so it expects e^n - 1 sets. With conditions between neighbours, which hold for a share s, it
    expects n^k s^(k - 1) / k! sets of k events.
    """
    _check_form(form)
    part, share = tree.leaves[leaf], selectivity(leaf_conditions(tree, leaf))
    if not part.is_kleene:
        return part.rate_hz * share * tree.window_s
    if form == PRINTED:
        return min(MOST_SETS, _power_of_two(part.rate_hz) * share * tree.window_s)
    return min(MOST_SETS, _sets(part, part.rate_hz * share * tree.window_s))


def new_in_leaf(tree: CostTree, leaf: int, form: str = CORRECTED) -> float:
    """Return PM(L, T): how many partial matches an event of the leaf's type creates there.

    Source: DARLING, equation 8.
    Differs: for a Kleene closure, the paper multiplies by 2^R w. In the corrected form, the event extends
    each set in the leaf and begins one: SEL e^n sets.
    """
    _check_form(form)
    part, share = tree.leaves[leaf], selectivity(leaf_conditions(tree, leaf))
    if not part.is_kleene:
        return share
    if form == PRINTED:
        return min(MOST_SETS, share * _power_of_two(part.rate_hz) * tree.window_s)
    shorter = part if part.most is None else replace(part, most=part.most - 1)
    return min(MOST_SETS, share * (1 + part.extending * _sets(shorter, part.rate_hz * share * tree.window_s)))


def stored_matches(tree: CostTree, node: int, form: str = CORRECTED) -> float:
    """Return PM(N): how many partial matches an inner node holds. Node 0 is leaf 0.

    Source: DARLING, equation 10, second case.
    Differs: in a sequence, the events of a combination also need their order, which is one of n! orders of
    n events. So the corrected form divides by n!. A set in a Kleene closure counts with all its events.
    """
    if _is_ordered(tree, form):
        return min(MOST_SETS, _passing(tree, node) * _in_order(tree, node))
    stored = 1.0
    for k in range(node + 1):
        if not tree.leaves[k].is_negated:
            stored *= stored_in_leaf(tree, k, form)
    return min(_passing(tree, node) * stored, MOST_SETS)


def new_matches(tree: CostTree, node: int, leaf: int, form: str = CORRECTED) -> float:
    """Return PM(N, T): how many partial matches an event of a leaf's type creates at an inner node.

    Source: DARLING, equations 8 and 9.
    Differs: the event is the newest one. So in a sequence, it creates partial matches only at nodes where
    its component is the last one, and the corrected form is 0 elsewhere.
    """
    if node < leaf or tree.leaves[leaf].is_negated or tree.leaves[node].is_negated:
        return 0.0
    if _is_ordered(tree, form):
        return min(MOST_SETS, selectivity(node_conditions(tree, node)) * _tried(tree, node, leaf))
    new = new_in_leaf(tree, leaf, form)
    if leaf > 0:
        new *= selectivity(node_conditions(tree, leaf)) * stored_matches(tree, leaf - 1, form)
    for k in range(leaf + 1, node + 1):
        if not tree.leaves[k].is_negated:
            new *= selectivity(node_conditions(tree, k)) * stored_in_leaf(tree, k, form)
    return min(new, MOST_SETS)


def event_cost(tree: CostTree, leaf: int, form: str = CORRECTED) -> float:
    """Return Z(T): the expected seconds to process an event of a leaf's type.

    Source: DARLING, equations 6 and 7. Differs: equation 7 leaves out the conditions of the leaf itself;
    the corrected form adds them. In a sequence, the engine compares the order before it evaluates a
    condition, and a new event is after all events of the leaves to its right. So the corrected form charges
    no conditions there.
    """
    _check_form(form)
    joined = [k for k, part in enumerate(tree.leaves) if not part.is_negated]
    handling = tree.create_s + tree.remove_s
    cost = condition_cost(leaf_conditions(tree, leaf)) if form == CORRECTED else 0.0
    cost += new_in_leaf(tree, leaf, form) * handling
    if tree.leaves[leaf].is_negated:
        return cost
    whole = new_in_leaf(tree, leaf, form)
    if not _is_ordered(tree, form):
        cost += whole * _peer_cost_of_leaf(tree, leaf, joined, form)
    for node in joined[1:]:
        whole = new_matches(tree, node, leaf, form)
        cost += whole * handling
        if _is_ordered(tree, form):
            cost += _tried(tree, node, leaf) * condition_cost(node_conditions(tree, node))
        else:
            cost += whole * _peer_cost_of_node(tree, node, joined, form)
    return cost + whole * _absence_cost(tree, form)


def _peer_cost_of_leaf(tree: CostTree, leaf: int, joined: list[int], form: str) -> float:
    """Return L_peer of a leaf, equation 6: seconds to combine one of its partial matches with all peers."""
    if leaf == joined[0]:
        return _peer_cost_of_node(tree, leaf, joined, form)
    return condition_cost(node_conditions(tree, leaf)) * stored_matches(tree, leaf - 1, form)


def _peer_cost_of_node(tree: CostTree, node: int, joined: list[int], form: str) -> float:
    """Return L_peer of an inner node, equation 6; the root has no peer."""
    if node == joined[-1]:
        return 0.0
    peer = joined[joined.index(node) + 1]
    return condition_cost(node_conditions(tree, peer)) * stored_in_leaf(tree, peer, form)


def _absence_cost(tree: CostTree, form: str) -> float:
    """Return the seconds to compare a complete match with the events of negated components.

    These events lie between two components. In the corrected form, a gap of k components in order is the
    (k + 1)-th part of the window.

    """
    n_joined = sum(not part.is_negated for part in tree.leaves)
    share = 1 / (n_joined + 1) if _is_ordered(tree, form) else 1.0
    return sum(
        share * stored_in_leaf(tree, k, form)
        * condition_cost(c for c in tree.conditions if len(c.components) > 1 and k in c.components)
        for k, part in enumerate(tree.leaves)
        if part.is_negated
    )  # fmt: skip


def _is_last(tree: CostTree, leaf: int, node: int) -> bool:
    """Return whether a leaf's component may be the newest one of a combination at a node."""
    if not tree.is_sequence:
        return True
    place = tree.place_of_leaf or range(len(tree.leaves))
    return all(place[leaf] >= place[k] for k in range(node + 1) if not tree.leaves[k].is_negated)


def _reads_negated(tree: CostTree, condition: CostedCondition) -> bool:
    return any(tree.leaves[component].is_negated for component in condition.components)


def _is_ordered(tree: CostTree, form: str) -> bool:
    return form == CORRECTED and tree.is_sequence


def _passing(tree: CostTree, node: int) -> float:
    """Return the share of combinations that satisfy the conditions of all inner nodes up to ``node``."""
    return prod(selectivity(node_conditions(tree, k)) for k in range(1, node + 1))


def _tried(tree: CostTree, node: int, leaf: int) -> float:
    """Return how many combinations in order a new event makes an inner node evaluate."""
    if node < leaf or not _is_last(tree, leaf, node):
        return 0.0
    return min(MOST_SETS, _passing(tree, node - 1) * _in_order(tree, node, leaf))


def _in_order(tree: CostTree, node: int, newest: int | None = None) -> float:
    """Return the expected combinations in order of the events of the leaves up to ``node``.

    With the leaf of the newest event, only combinations with this event count. Otherwise n events have one
    of n! orders, and sets of k events in a Kleene closure bring k events.

    """
    factor, n_single, sets = 1.0, 0, [1.0]  # sets[k]: with k events in closures, apart from the newest one
    for k in range(node + 1):
        part, share = tree.leaves[k], selectivity(leaf_conditions(tree, k))
        mean = part.rate_hz * share * tree.window_s
        if part.is_negated:
            continue
        if k == newest:
            factor *= share
        elif not part.is_kleene:
            factor *= mean
            n_single += 1
        if part.is_kleene:
            sets = _multiply(sets, _sizes(part, mean, k == newest))
    terms = (
        count / math.factorial(n_single + n) for n, count in enumerate(sets) if n_single + n <= _MOST_EVENTS
    )
    return min(MOST_SETS, factor * sum(terms))


def _sizes(leaf: Leaf, mean: float, has_newest: bool) -> list[float]:
    """Return n^k s^(k - 1) for sets of k events; or n^k s^k for k events before the newest one."""
    most = _MOST_EVENTS if leaf.most is None else min(leaf.most, _MOST_EVENTS)
    sizes = [1.0 if has_newest else 0.0, mean * (leaf.extending if has_newest else 1.0)]
    while len(sizes) <= most - has_newest:
        sizes.append(min(_LARGEST_TERM, sizes[-1] * mean * leaf.extending))
    return sizes[: most + 1 - has_newest]


def _multiply(one: list[float], other: list[float]) -> list[float]:
    """Return the product of two polynomials, up to the degree that counts."""
    product = [0.0] * min(len(one) + len(other) - 1, _MOST_EVENTS + 1)
    for i, a in enumerate(one):
        if a:
            for j, b in enumerate(other[: len(product) - i]):
                product[i + j] = min(_LARGEST_TERM, product[i + j] + a * b)
    return product


def _power_of_two(rate: float) -> float:
    return 2.0**rate if rate < 1000 else MOST_SETS


def _sets(leaf: Leaf, mean: float) -> float:
    """Return the expected number of sets of a Kleene closure among a Poisson number of events."""
    s, most = leaf.extending, leaf.most
    if most is not None and most <= 64:
        return sum(mean**k * s ** (k - 1) / math.factorial(k) for k in range(1, most + 1))
    if s == 0:
        return mean
    return math.expm1(mean * s) / s if mean * s < 700 else MOST_SETS


def _check_form(form: str) -> None:
    if form not in FORMS:
        raise CepError(f"form={form!r}: expected {' or '.join(map(repr, FORMS))}")


def _not_negative(name: str, value: float) -> None:
    if not (value >= 0 and value < inf):
        raise CepError(f"{name}={value}: expected a number that is not negative")
