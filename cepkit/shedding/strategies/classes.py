"""What a warm-up says of windows and partial matches: the matches they led to, and classes of them."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cepkit.errors import MissingDependencyError
from cepkit.kernels.wings import tree_layout as kernel
from cepkit.shedding.strategies.strategy import Training
from cepkit.values import asdict, dataclass, replace

if TYPE_CHECKING:
    from cepkit.shedding.tree_machine import Ancestry, TreeMachine, TreeMatches
    from cepkit.shedding.tree_program import TreeProgram


# What a warm-up says: sizes of windows, the parents of partial matches, and the matches they led to.


def generations(lineage: Ancestry) -> list[np.ndarray]:
    """Return the rows in groups, so that the parents of a row are in earlier groups."""
    depth = np.zeros(len(lineage.left) + 1, np.int64)  # the last entry serves parents that do not exist
    has_parent = (lineage.left >= 0) | (lineage.right >= 0)
    while True:
        deeper = np.where(has_parent, np.maximum(depth[lineage.left], depth[lineage.right]) + 1, 0)
        if np.array_equal(deeper, depth[:-1]):
            break
        depth[:-1] = deeper
    order = np.argsort(depth[:-1], kind="stable")
    return np.split(order, np.cumsum(np.bincount(depth[:-1]))[:-1]) if len(order) else []


def inherited(lineage: Ancestry, value: np.ndarray, combine: np.ufunc, nothing: int) -> np.ndarray:
    """Return the values of partial matches, combined with those of all that they came from."""
    # The last row serves parents that do not exist.
    values = np.concatenate([value, np.full((1, *value.shape[1:]), nothing, value.dtype)])
    for rows in generations(lineage):
        parents = combine(values[lineage.left[rows]], values[lineage.right[rows]])
        values[rows] = combine(values[rows], parents)
    return values[:-1]


def first_positions(lineage: Ancestry) -> np.ndarray:
    """Return the position of the first event of each partial match, int64, (n,)."""
    return inherited(lineage, lineage.position, np.minimum, np.iinfo(np.int64).max)


def lengths(lineage: Ancestry) -> np.ndarray:
    """Return the number of events of each partial match, int64, (n,)."""
    return inherited(lineage, lineage.takes_event.astype(np.int64), np.add, 0)


def members(lineage: Ancestry, n_leaves: int) -> np.ndarray:
    """Return the last event of each leaf in each partial match, int64, (n, n_leaves); -1: none."""
    member = np.full((len(lineage.left), n_leaves), -1, np.int64)
    takes = np.flatnonzero(lineage.takes_event & (lineage.node < n_leaves))
    member[takes, lineage.node[takes]] = lineage.position[takes]
    return inherited(lineage, member, np.maximum, -1)


def contributions(lineage: Ancestry) -> np.ndarray:
    """Return Gamma+: how many matches each partial match led to, itself included, int64, (n,)."""
    # Source: Zhao, Hung, Weidlich, ICDE 2020.
    return sum_of_descendants(lineage, lineage.is_match.astype(np.int64)) + lineage.is_match


def consumptions(lineage: Ancestry) -> np.ndarray:
    """Return Gamma-: the cost of what came from each partial match, weighted by length, float64, (n,)."""
    # Source: Zhao, Hung, Weidlich, ICDE 2020.
    return sum_of_descendants(lineage, lineage.cost * lengths(lineage))


def sum_of_descendants(lineage: Ancestry, value: np.ndarray) -> np.ndarray:
    """Return the sum of the values of all that came from each partial match."""
    total = np.append(value, np.zeros(1, value.dtype))
    for rows in reversed(generations(lineage)):
        for parent in (lineage.left[rows], lineage.right[rows]):
            np.add.at(total, parent, total[rows])
    return total[:-1] - value


class MatchEvents(NamedTuple):
    """The events of all matches of a warm-up: one entry for each event of each match."""

    match: np.ndarray
    row: np.ndarray
    place: np.ndarray


def events_of_matches(lineage: Ancestry) -> MatchEvents:
    match = row = np.flatnonzero(lineage.is_match)
    first = first_positions(lineage)
    matches, rows = [], []
    while len(row):
        takes = lineage.takes_event[row]
        matches.append(match[takes])
        rows.append(row[takes])
        parents = np.concatenate([lineage.left[row], lineage.right[row]])
        exists = parents >= 0
        match, row = np.concatenate([match, match])[exists], parents[exists]
    match, row = (np.concatenate(part) if part else np.zeros(0, np.int64) for part in (matches, rows))
    return MatchEvents(match, row, lineage.position[row] - first[match])


def completed(lineage: Ancestry) -> np.ndarray:
    """Return which partial matches are matches or led to one, bool, (n,)."""
    return contributions(lineage) > 0


# Windows of a sequence: each event of the first type opens one. Their sizes, positions and numbers.

SMOOTHING = 0.1  # of the mean size of windows
NO_LIMIT = 1 << 62


def opening_types(program: TreeProgram) -> frozenset[int]:
    """Return the numbers of the types that can begin a match."""
    code = program.code
    return frozenset(
        program.leaves[leaves[order[0]]].type
        for leaves, orders in zip(code.leaf_of_component, code.branch_of_order, strict=True)
        for order in orders
    )


def present_types(program: TreeProgram) -> frozenset[int]:
    """Return the numbers of the types whose events can be in a match; others must be absent."""
    return frozenset(leaf.type for leaf in program.leaves if not leaf.is_absent)


class StreamClock:
    """Where the events of a machine are on the axis that its window measures: ticks, or events.

    A window of a number of events counts the positions of the whole stream.
    """

    def __init__(self, machine: TreeMachine):
        window = machine.program.program.window
        self._counts = window.within is None
        if not self._counts:
            self.span = math.floor(window.within) if window.closed else math.ceil(window.within) - 1
        elif window.within_events is not None:
            self.span = window.within_events - 1
        else:
            self.span = NO_LIMIT

    def at(self, machine: TreeMachine, positions: Any) -> Any:
        """Return the places of events on the axis."""
        return positions if self._counts else machine.times_of(positions)


class OpeningWindows(NamedTuple):
    """The windows that events of a warm-up opened."""

    opening: np.ndarray
    end: np.ndarray

    @property
    def mean_size(self) -> float:
        """N: mean number of events in a window, with the opening one; 1 without windows."""
        return float((self.end - self.opening).mean()) if len(self.opening) else 1.0


def windows_of(opens: np.ndarray, time: np.ndarray, partition: np.ndarray, span: int) -> OpeningWindows:
    """Return the windows in a stream. A window ends with the stream position of its last event in time."""
    opening, end, is_complete = [], [], []
    for number in np.unique(partition[opens]):
        positions = np.flatnonzero(partition == number)
        starts = positions[opens[positions]]
        last = np.searchsorted(time[positions], time[starts] + span, side="right")
        opening.append(starts)
        end.append(positions[last - 1] + 1)
        is_complete.append(last < len(positions))
    if not opening:
        return OpeningWindows(np.zeros(0, np.int64), np.zeros(0, np.int64))
    windows = np.concatenate(opening), np.concatenate(end)
    kept = np.concatenate(is_complete)
    if not kept.any():
        kept[:] = True
    order = np.argsort(windows[0][kept], kind="stable")
    return OpeningWindows(windows[0][kept][order], windows[1][kept][order])


def events_by_cell(
    windows: OpeningWindows, type_of_event: np.ndarray, partition: np.ndarray, n_types: int, n_bins: int,
    bin_size: int,
) -> np.ndarray:  # fmt: skip
    """Return S: the mean number of events of each type in each bin of positions of a window."""
    share = np.zeros((n_types, n_bins))
    if not len(windows.opening):
        return share
    owner = partition[windows.opening]
    edge = windows.opening[:, None] + np.arange(n_bins + 1) * bin_size
    edge[:, -1] = windows.end
    edge = np.minimum(edge, windows.end[:, None])
    for number in np.unique(owner):
        of_partition = edge[owner == number]
        for t in range(n_types):
            places = np.flatnonzero((partition == number) & (type_of_event == t))
            share[t] += np.diff(np.searchsorted(places, of_partition), axis=1).sum(axis=0)
    return share / len(windows.opening)


class OpenWindows:
    """How many windows are open now, and how large windows are, as events pass."""

    def __init__(self, span: int, size: float):
        self.span = span
        self.size = size
        self._opened: dict[int, deque[tuple[int, int]]] = {}

    def add(self, position: int, time: int, partition: int, *, opens: bool) -> int:
        """Return the number of windows that contain the next event, its own included."""
        opened = self._opened.setdefault(partition, deque())
        while opened and time - opened[0][1] > self.span:
            self.size += SMOOTHING * (position - opened.popleft()[0] - self.size)
        if opens:
            opened.append((position, time))
        return len(opened)

    def save(self) -> dict[str, Any]:
        """Return the open windows and the mean size."""
        flat = [(key, *window) for key, opened in self._opened.items() for window in opened]
        return {"size": self.size, "opened": np.array(flat, np.int64).reshape(-1, 3)}

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Take back what `save` returned."""
        self.size = float(saved["size"])
        self._opened = {}
        for partition, position, time in np.asarray(saved["opened"]).tolist():
            self._opened.setdefault(partition, deque()).append((position, time))


def read_windows(training: Training) -> tuple[OpeningWindows, np.ndarray, np.ndarray]:
    """Return the windows of a warm-up, and the type and the partition of each of its events."""
    machine = training.machine
    clock, positions = StreamClock(machine), np.arange(training.n_events)
    types, partition = machine.types_of_events()[: training.n_events], machine.partitions_of(positions)
    opens = np.isin(types, list(opening_types(training.program)))
    return windows_of(opens, clock.at(machine, positions), partition, clock.span), types, partition


class WindowsNow(OpenWindows):
    """The windows that are open now in the stream of a pattern, from its warm-up on."""

    def __init__(self, training: Training, size: float):
        machine, self.opening = training.machine, opening_types(training.program)
        self._clock = StreamClock(machine)
        super().__init__(self._clock.span, size)
        types = machine.types_of_events()[: training.n_events]
        for position in np.flatnonzero(np.isin(types, list(self.opening))).tolist():
            self.take(machine, position, int(types[position]))
        self.size = size

    def take(self, machine: TreeMachine, position: int, event_type: int) -> int:
        """Return the number of windows that contain the next event, its own included."""
        time, partition = int(self._clock.at(machine, position)), int(machine.partitions_of(position))
        return self.add(position, time, partition, opens=event_type in self.opening)


# Classes of partial matches: clusters by cost and use, and trees that predict them from attributes.

GAP = "gap"
MOST_CLUSTERS = 8  # the gap statistic tries no more
REFERENCES = 5  # uniform samples of the gap statistic
MOST_SAMPLED = 5000  # partial matches of one group that are clustered
MOST_DEPTH = 4  # of a decision tree
MISSING = np.float32(np.iinfo(np.int64).min)


def require_scikit_learn() -> None:
    """Raise an error that says what to install, when scikit-learn is missing."""
    if find_spec("sklearn") is None:
        raise MissingDependencyError(
            "the strategy Zhao needs scikit-learn, which is not installed. "
            'Install it with `pip install "cepkit[papers]"`'
        )


@dataclass(frozen=True)
class ClassTree:
    """A decision tree as arrays, so that it can be saved and read without scikit-learn."""

    feature: np.ndarray
    threshold: np.ndarray
    left: np.ndarray
    right: np.ndarray
    label: np.ndarray

    def predict(self, rows: np.ndarray) -> np.ndarray:
        at = np.zeros(len(rows), np.int64)
        while True:
            feature = self.feature[at]
            inner = np.flatnonzero(feature >= 0)
            if not len(inner):
                return self.label[at]
            node = at[inner]
            goes_left = rows[inner, feature[inner]] <= self.threshold[node]
            at[inner] = np.where(goes_left, self.left[node], self.right[node])


ONE_CLASS = ClassTree(*(np.array([value]) for value in (-1, 0.0, 0, 0, 0)))


def to_features(columns: list[np.ndarray]) -> np.ndarray:
    """Return columns of attribute values side by side, float32. Missing values become the smallest int64."""
    features = np.stack([np.asarray(column, np.float64) for column in columns], axis=1).astype(np.float32)
    features[~np.isfinite(features)] = MISSING
    return features


def cluster(points: np.ndarray, n_clusters: int | str, seed: int) -> np.ndarray:
    """Return the cluster of each point by k-means, numbered by first appearance."""
    # Source: Tibshirani, Walther, Hastie, "Estimating the number of clusters in a data set via the gap
    # statistic", JRSS B 63(2), 2001: the least k with Gap(k) >= Gap(k + 1) - s(k + 1).
    spread = points.std(axis=0)
    scaled = points / np.where(spread > 0, spread, 1.0)
    n_distinct = len(np.unique(scaled, axis=0))
    if n_clusters == GAP:
        k = _clusters_by_gap(scaled, min(MOST_CLUSTERS, n_distinct), seed)
    else:
        k = min(int(n_clusters), n_distinct)
    labels = _k_means(scaled, k, seed)[0]
    first = np.unique(labels, return_index=True)[1]
    number = np.empty(k, np.int64)
    number[labels[np.sort(first)]] = np.arange(len(first))
    return number[labels]


def _k_means(points: np.ndarray, k: int, seed: int) -> tuple[np.ndarray, float]:
    """Return the labels and the sum of squared distances to the centres."""
    if k <= 1:
        return np.zeros(len(points), np.int64), float(((points - points.mean(axis=0)) ** 2).sum())
    from sklearn.cluster import KMeans
    from threadpoolctl import threadpool_limits

    # With several threads, sums have no fixed order, and the clusters could differ from run to run.
    with threadpool_limits(limits=1):
        clusters = KMeans(k, n_init=4, random_state=seed).fit(points)
    return clusters.labels_.astype(np.int64), float(clusters.inertia_)


def _clusters_by_gap(points: np.ndarray, most: int, seed: int) -> int:
    if most < 2:
        return 1
    generator = np.random.default_rng(seed)
    low, high = points.min(axis=0), points.max(axis=0)
    references = [generator.uniform(low, high, points.shape) for _ in range(REFERENCES)]
    tiny = np.finfo(float).tiny
    gaps, errors = [], []
    for k in range(1, most + 1):
        dispersion = np.log(max(_k_means(points, k, seed)[1], tiny))
        others = np.log([max(_k_means(sample, k, seed)[1], tiny) for sample in references])
        gaps.append(others.mean() - dispersion)
        errors.append(others.std() * np.sqrt(1 + 1 / REFERENCES))
        if k > 1 and gaps[k - 2] >= gaps[k - 1] - errors[k - 1]:
            return k - 1
    return most


def grow_tree(rows: np.ndarray, labels: np.ndarray, seed: int) -> ClassTree:
    """Return a decision tree from attribute values to clusters."""
    if len(np.unique(labels)) < 2 or not rows.shape[1]:
        return replace(ONE_CLASS, label=labels[:1].astype(np.int64))
    from sklearn.tree import DecisionTreeClassifier

    classifier = DecisionTreeClassifier(max_depth=MOST_DEPTH, random_state=seed).fit(rows, labels)
    inner = classifier.tree_
    return ClassTree(
        np.where(inner.children_left >= 0, inner.feature, -1).astype(np.int64),
        inner.threshold.astype(np.float64),
        inner.children_left.astype(np.int64),
        inner.children_right.astype(np.int64),
        classifier.classes_[inner.value[:, 0, :].argmax(axis=1)].astype(np.int64),
    )


# The cost model of Zhao et al.: classes of partial matches, what each class consumes and contributes.


class NodeShape:
    """Which partial matches of a tree are kept, and what they are made of."""

    def __init__(self, program: TreeProgram):
        code, n_leaves = program.code.nodes, program.n_leaves
        self.program = program
        self.kept = (code[:, kernel.KEEPS] > 0) & (code[:, kernel.STATE] > 0) & (code[:, kernel.IS_ROOT] == 0)
        self.leaves = [(leaf,) for leaf in range(n_leaves)] + [node.leaves for node in program.nodes]
        self.ancestors: list[list[int]] = [[] for _ in range(n_leaves)]
        for node in program.nodes:
            parts = [part for part in (node.left, node.right) if part >= 0]
            ancestors = [ancestor for part in parts for ancestor in self.ancestors[part]]
            self.ancestors.append([*ancestors, *(part for part in parts if self.kept[part])])
        roots = np.flatnonzero(code[:, kernel.IS_ROOT] == 1)
        self.roots = roots[np.argsort(code[roots, kernel.TREE], kind="stable")]

    def of_type(self, number: int) -> list[int]:
        """Return the leaves of a type, without those of absent events."""
        leaves = self.program.leaves
        return [leaf for leaf, part in enumerate(leaves) if part.type == number and not part.is_absent]

    def joins(self, leaf: int) -> int:
        """Return the node at which a new event of a leaf makes a longer partial match; -1: none."""
        row = self.program.code.nodes[leaf]
        return int(row[kernel.PARENT]) if row[kernel.TRIES] == 1 else -1

    def members_of_matches(self, found: TreeMatches) -> np.ndarray:
        """Return the last event of each leaf in each match, int64, (n_matches, n_leaves); -1: none."""
        member = np.full((len(found), self.program.n_leaves), -1, np.int64)
        match = found.by_tree.match_of_item
        for tree, leaves in enumerate(self.program.code.leaf_of_component):
            in_tree = found.trees[match] == tree
            leaf = np.array(leaves, np.int64)[found.by_tree.component_of_item[in_tree]]
            np.maximum.at(member, (match[in_tree], leaf), found.positions[in_tree])
        return member

    def root_of(self, member: np.ndarray) -> np.ndarray:
        """Return the root of the tree of each match, by the last event of each leaf."""
        leaf = np.argmax(member >= 0, axis=1)
        tree_of_leaf = np.array([part.tree for part in self.program.leaves])
        tree_of_root = self.program.code.nodes[self.roots, kernel.TREE]
        return self.roots[np.searchsorted(tree_of_root, tree_of_leaf[leaf])]


class ClassModel:
    """Classes of partial matches by node, age and attributes, with their consumption and contribution.

    Source: Zhao, Hung, Weidlich, "Load Shedding for Complex Event Processing: Input-based and State-based
    Techniques", ICDE 2020, and AthenaCEP, its code.
    Differs: the work on a partial match itself counts, because pairs that fail are tried with it. The age is
    the one at the creation, so that a partial match has one class.
    """

    def __init__(self, training: Training, n_clusters: int | str, time_slices: int, interval: int):
        self.shape = NodeShape(training.program)
        self._clock, self._slices = StreamClock(training.machine), time_slices
        self.trees: dict[tuple[int, int], ClassTree] = {}
        self.first_class: dict[tuple[int, int], int] = {}
        self._learn(training, n_clusters, interval)

    @property
    def n_classes(self) -> int:
        return len(self.consumption)

    def classes_of_node(self, node: int) -> np.ndarray:
        return self._node_classes[node]

    def _learn(self, training: Training, n_clusters: int | str, interval: int) -> None:
        machine, prices = training.machine, training.prices
        lineage = machine.ancestry
        seconds = lineage.cost * prices["condition"] + prices["create"] + prices["remove"]
        priced = lineage._replace(cost=seconds)
        ids = np.flatnonzero(self.shape.kept[lineage.node] & ~lineage.is_match)
        weighted = seconds * lengths(lineage)
        spent, useful = (consumptions(priced) + weighted)[ids], contributions(lineage)[ids].astype(np.float64)
        node, member = lineage.node[ids], members(lineage, training.program.n_leaves)[ids]
        n_nodes = len(self.shape.leaves)
        count = np.maximum(np.bincount(lineage.node, minlength=n_nodes), 1)
        self.work_of_node = np.bincount(lineage.node, weighted, minlength=n_nodes) / count
        slices, generator = self._slices_of(machine, member), np.random.default_rng([training.seed, 3])
        node_of_class: list[int] = []
        for node_number in np.flatnonzero(self.shape.kept):
            for part in range(self._slices):
                rows = np.flatnonzero((node == node_number) & (slices == part))
                if len(rows) > MOST_SAMPLED:
                    rows = np.sort(generator.choice(rows, MOST_SAMPLED, replace=False))
                key = int(node_number), part
                self.first_class[key] = len(node_of_class)
                if not len(rows):
                    labels = np.zeros(1, np.int64)
                    self.trees[key] = grow_tree(np.zeros((1, 0), np.float32), labels, training.seed)
                else:
                    points = np.stack([spent[rows], useful[rows]], axis=1)
                    labels = cluster(points, n_clusters, training.seed)
                    features = self._features(machine, key[0], member[rows])
                    self.trees[key] = grow_tree(features, labels, training.seed)
                node_of_class += [key[0]] * (int(labels.max()) + 1)
        self._set_classes(node_of_class)
        class_of_row = np.zeros(len(ids), np.int64)
        for node_number in np.unique(node):
            rows = np.flatnonzero(node == node_number)
            class_of_row[rows] = self.classify(machine, int(node_number), member[rows])
        n_batches = max(1.0, training.n_events / interval)
        self.consumption = np.bincount(class_of_row, spent, minlength=len(node_of_class)) / n_batches
        self.contribution = np.bincount(class_of_row, useful, minlength=len(node_of_class)) / n_batches

    def _set_classes(self, node_of_class: Sequence[int]) -> None:
        self.node_of_class = np.asarray(node_of_class, np.int64)
        self._node_classes = [np.flatnonzero(self.node_of_class == n) for n in range(len(self.shape.leaves))]

    def _features(self, machine: TreeMachine, node: int, member: np.ndarray) -> np.ndarray:
        """Return the attributes of the events of partial matches side by side, float32."""
        columns = []
        for leaf in self.shape.leaves[node]:
            at = member[:, leaf]
            values = machine.values_of(np.maximum(at, 0))
            columns += [np.where(at >= 0, column, float(MISSING)) for column in values.T]
        return to_features(columns) if columns else np.zeros((len(member), 0), np.float32)

    def _slices_of(self, machine: TreeMachine, member: np.ndarray) -> np.ndarray:
        """Return the time slice of partial matches: how much of the window had passed at their creation."""
        if self._slices == 1 or self._clock.span >= NO_LIMIT or not len(member):
            return np.zeros(len(member), np.int64)
        last = member.max(axis=1)
        first = np.where(member >= 0, member, last[:, None]).min(axis=1)
        age = self._clock.at(machine, last) - self._clock.at(machine, first)
        return np.clip(age * self._slices // (self._clock.span + 1), 0, self._slices - 1).astype(np.int64)

    def classify(self, machine: TreeMachine, node: int, member: np.ndarray) -> np.ndarray:
        """Return the classes of partial matches of one node."""
        members = np.full(member.shape, -1, np.int64)
        leaves = list(self.shape.leaves[node])
        members[:, leaves] = member[:, leaves]
        part, features = self._slices_of(machine, members), self._features(machine, node, members)
        classes = np.zeros(len(members), np.int64)
        for slice_number in np.unique(part):
            rows = part == slice_number
            key = node, int(slice_number)
            classes[rows] = self.first_class[key] + self.trees[key].predict(features[rows])
        return classes

    def classify_all(self, machine: TreeMachine, node: np.ndarray, member: np.ndarray) -> np.ndarray:
        """Return the classes of partial matches of any nodes; -1 for nodes without classes."""
        classes = np.full(len(node), -1, np.int64)
        for node_number in np.unique(node):
            if self.shape.kept[node_number]:
                rows = node == node_number
                classes[rows] = self.classify(machine, int(node_number), member[rows])
        return classes

    def update(
        self, machine: TreeMachine, node: np.ndarray, member: np.ndarray, matches: np.ndarray,
        smoothing: float,
    ) -> int:  # fmt: skip
        """Add new partial matches and matches to the moving averages; return the number of additions."""
        spent, useful = np.zeros(self.n_classes), np.zeros(self.n_classes)
        n = 0
        for node_number in np.unique(node):
            rows = member[node == node_number]
            kept = [int(node_number)] if self.shape.kept[node_number] else []
            for ancestor in [*self.shape.ancestors[node_number], *kept]:
                np.add.at(spent, self.classify(machine, ancestor, rows), self.work_of_node[node_number])
                n += len(rows)
        root_of_match = self.shape.root_of(matches) if len(matches) else np.zeros(0, np.int64)
        for root in np.unique(root_of_match):
            rows = matches[root_of_match == root]
            for ancestor in self.shape.ancestors[root]:
                classes = self.classify(machine, ancestor, rows)
                np.add.at(useful, classes, 1.0)
                np.add.at(spent, classes, self.work_of_node[root])
                n += 2 * len(rows)
        self.consumption += smoothing * (spent - self.consumption)
        self.contribution += smoothing * (useful - self.contribution)
        return n

    def shares(self) -> tuple[np.ndarray, np.ndarray]:
        """Return Delta+ and Delta-: the share of each class of all contribution and consumption."""
        return tuple(
            value / total if (total := value.sum()) > 0 else np.zeros(len(value))
            for value in (self.contribution, self.consumption)
        )  # type: ignore[return-value]

    def save(self) -> Mapping[str, Any]:
        """Return trees, classes and moving averages."""
        return {
            "trees": [
                {"node": node, "slice": part, "first": self.first_class[node, part], **asdict(tree)}
                for (node, part), tree in self.trees.items()
            ],
            "node_of_class": self.node_of_class,
            "work_of_node": self.work_of_node,
            "consumption": self.consumption,
            "contribution": self.contribution,
        }

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Take back what `save` returned."""
        self.trees, self.first_class = {}, {}
        for tree in saved["trees"]:
            arrays = dict(tree)
            key = int(arrays.pop("node")), int(arrays.pop("slice"))
            self.first_class[key] = int(arrays.pop("first"))
            self.trees[key] = ClassTree(**arrays)
        self._set_classes(saved["node_of_class"])
        self.work_of_node = np.asarray(saved["work_of_node"])
        self.consumption = np.array(saved["consumption"], np.float64)
        self.contribution = np.array(saved["contribution"], np.float64)
