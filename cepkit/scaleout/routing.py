"""Routings: which nodes of a stage get each item of a stream. Items are events or partial matches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from cepkit.errors import CepError, whole_number

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True)
class Traffic:
    """The items of one stream, in the global order of events."""

    n: int  # number of items
    key: np.ndarray | None = None  # int64, (n,): the number of each item's key. Only `ByKey` needs it.


@dataclass(frozen=True, slots=True)
class Deliveries:
    """What a routing sends: item ``item[i]`` goes to node ``node[i]``."""

    # item, node: int64, (n_deliveries,): sorted by item, then by node
    item: np.ndarray
    node: np.ndarray

    def to(self, node: int) -> np.ndarray:
        """Return the items of a node, rising; int64."""
        return self.item[self.node == node]


@dataclass(frozen=True, slots=True)
class Routing(ABC):
    """A rule that says which nodes of a stage get an item."""

    @property
    @abstractmethod
    def n_nodes(self) -> int:
        """Number of nodes."""

    @property
    @abstractmethod
    def share(self) -> float:
        """The share of all items that each node gets on average, from 0 to 1."""

    @abstractmethod
    def sends(self, traffic: Traffic) -> Deliveries:
        """Return the nodes of every item."""

    @abstractmethod
    def words(self) -> str:
        """Return the rule in words, to complete "items go …"."""


def _dealt(n: int, nodes_of_turn: np.ndarray) -> Deliveries:
    """Deal ``n`` items in turn: item i goes to the nodes in row ``i % len(nodes_of_turn)``."""
    turns, width = nodes_of_turn.shape
    item = np.repeat(np.arange(n, dtype=np.int64), width)
    return Deliveries(item, nodes_of_turn[np.arange(n) % turns].reshape(-1).astype(np.int64))


@dataclass(frozen=True, slots=True)
class RoundRobin(Routing):
    """Item i goes to node ``i % nodes``."""

    nodes: int

    def __post_init__(self) -> None:
        whole_number("RoundRobin: nodes", self.nodes, 1)

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return self.nodes

    @property
    def share(self) -> float:
        """The share of all items that each node gets on average, from 0 to 1."""
        return 1 / self.nodes

    def sends(self, traffic: Traffic) -> Deliveries:
        """Return the nodes of every item."""
        return _dealt(traffic.n, np.arange(self.nodes)[:, None])

    def words(self) -> str:
        """Return the rule in words, to complete "items go …"."""
        return f"in turn to {self.nodes} nodes" if self.nodes > 1 else "to 1 node"


@dataclass(frozen=True, slots=True)
class ToAll(Routing):
    """Every item goes to all nodes."""

    nodes: int

    def __post_init__(self) -> None:
        whole_number("ToAll: nodes", self.nodes, 1)

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return self.nodes

    @property
    def share(self) -> float:
        """The share of all items that each node gets on average, from 0 to 1."""
        return 1.0

    def sends(self, traffic: Traffic) -> Deliveries:
        """Return the nodes of every item."""
        return _dealt(traffic.n, np.arange(self.nodes)[None, :])

    def words(self) -> str:
        """Return the rule in words, to complete "items go …"."""
        return f"to all {self.nodes} nodes" if self.nodes > 1 else "to 1 node"


@dataclass(frozen=True, slots=True)
class ByKey(Routing):
    """All items of a key go to one node."""

    nodes: int

    def __post_init__(self) -> None:
        whole_number("ByKey: nodes", self.nodes, 1)

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return self.nodes

    @property
    def share(self) -> float:
        """The share of all items that each node gets on average, from 0 to 1."""
        return 1 / self.nodes

    def sends(self, traffic: Traffic) -> Deliveries:
        """Return the nodes of every item."""
        if traffic.key is None:
            raise CepError("ByKey: the items have no key")
        mixed = np.asarray(traffic.key).astype(np.uint64) * _GOLDEN >> np.uint64(33)
        node = (mixed % np.uint64(self.nodes)).astype(np.int64)
        return Deliveries(np.arange(traffic.n, dtype=np.int64), node)

    def words(self) -> str:
        """Return the rule in words, to complete "items go …"."""
        return f"by key to {self.nodes} nodes" if self.nodes > 1 else "to 1 node"


@dataclass(frozen=True, slots=True)
class _Grid(Routing):
    """Nodes in groups of equal size. Node ``g * members + m`` is member m of group g, a row of the grid."""

    groups: int
    members: int

    def __post_init__(self) -> None:
        name = type(self).__name__
        whole_number(f"{name}: groups", self.groups, 1)
        whole_number(f"{name}: members", self.members, 1)

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return self.groups * self.members


@dataclass(frozen=True, slots=True)
class ToGroup(_Grid):
    """Items go to the groups of a grid in turn, each to all members of its group.

    Node ``g * members + m`` is member m of group g. A group is a row of the grid.
    """

    @property
    def share(self) -> float:
        """The share of all items that each node gets on average, from 0 to 1."""
        return 1 / self.groups

    def sends(self, traffic: Traffic) -> Deliveries:
        """Return the nodes of every item."""
        return _dealt(traffic.n, np.arange(self.n_nodes).reshape(self.groups, self.members))

    def words(self) -> str:
        """Return the rule in words, to complete "items go …"."""
        if self.groups == 1:
            return ToAll(self.members).words()
        if self.members == 1:
            return RoundRobin(self.groups).words()
        return f"in turn to one of {self.groups} groups, to all its {self.members} members"


@dataclass(frozen=True, slots=True)
class ToMember(_Grid):
    """Items go to the members of a grid in turn, each to the same member of every group.

    Together with `ToGroup` every pair of items meets at exactly one node.
    """

    @property
    def share(self) -> float:
        """The share of all items that each node gets on average, from 0 to 1."""
        return 1 / self.members

    def sends(self, traffic: Traffic) -> Deliveries:
        """Return the nodes of every item."""
        return _dealt(traffic.n, np.arange(self.n_nodes).reshape(self.groups, self.members).T)

    def words(self) -> str:
        """Return the rule in words, to complete "items go …"."""
        if self.groups == 1:
            return RoundRobin(self.members).words()
        if self.members == 1:
            return ToAll(self.groups).words()
        return f"in turn to one of {self.members} members in each of {self.groups} groups"
