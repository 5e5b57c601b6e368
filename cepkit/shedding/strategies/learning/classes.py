"""Classes of partial matches: clusters by cost and use, and trees that predict them from attributes."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np

from cepkit.errors import MissingDependencyError

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
        """Return the cluster of each row."""
        at = np.zeros(len(rows), np.int64)
        while True:
            feature = self.feature[at]
            inner = np.flatnonzero(feature >= 0)
            if not len(inner):
                return self.label[at]
            node = at[inner]
            goes_left = rows[inner, feature[inner]] <= self.threshold[node]
            at[inner] = np.where(goes_left, self.left[node], self.right[node])

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return the tree as a mapping that ``ClassTree(**mapping)`` takes back."""
        return {name: getattr(self, name) for name in ("feature", "threshold", "left", "right", "label")}


ONE_CLASS = ClassTree(*(np.array([value]) for value in (-1, 0.0, 0, 0, 0)))


def to_features(columns: list[np.ndarray]) -> np.ndarray:
    """Return columns of attribute values side by side, float32. Missing values become the smallest int64."""
    made = np.stack([np.asarray(column, np.float64) for column in columns], axis=1).astype(np.float32)
    made[~np.isfinite(made)] = MISSING
    return made


def cluster(points: np.ndarray, n_clusters: int | str, seed: int) -> np.ndarray:
    """Return the cluster of each point by k-means, numbered by first appearance.

    Source: Tibshirani, Walther, Hastie, "Estimating the number of clusters in a data set via the gap
    statistic", JRSS B 63(2), 2001: the least k with Gap(k) >= Gap(k + 1) - s(k + 1).
    """
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
        made = KMeans(k, n_init=4, random_state=seed).fit(points)
    return made.labels_.astype(np.int64), float(made.inertia_)


def _clusters_by_gap(points: np.ndarray, most: int, seed: int) -> int:
    if most < 2:
        return 1
    generator = np.random.default_rng(seed)
    low, high = points.min(axis=0), points.max(axis=0)
    references = [generator.uniform(low, high, points.shape) for _ in range(REFERENCES)]
    tiny = np.finfo(float).tiny
    gaps, errors = [], []
    for k in range(1, most + 1):
        own = np.log(max(_k_means(points, k, seed)[1], tiny))
        others = np.log([max(_k_means(sample, k, seed)[1], tiny) for sample in references])
        gaps.append(others.mean() - own)
        errors.append(others.std() * np.sqrt(1 + 1 / REFERENCES))
        if k > 1 and gaps[k - 2] >= gaps[k - 1] - errors[k - 1]:
            return k - 1
    return most


def grow_tree(rows: np.ndarray, labels: np.ndarray, seed: int, depth: int = MOST_DEPTH) -> ClassTree:
    """Return a decision tree from attribute values to clusters."""
    if len(np.unique(labels)) < 2 or not rows.shape[1]:
        return ClassTree(**{**ONE_CLASS.to_arrays(), "label": labels[:1].astype(np.int64)})
    from sklearn.tree import DecisionTreeClassifier

    made = DecisionTreeClassifier(max_depth=depth, random_state=seed).fit(rows, labels)
    inner = made.tree_
    return ClassTree(
        np.where(inner.children_left >= 0, inner.feature, -1).astype(np.int64),
        inner.threshold.astype(np.float64),
        inner.children_left.astype(np.int64),
        inner.children_right.astype(np.int64),
        made.classes_[inner.value[:, 0, :].argmax(axis=1)].astype(np.int64),
    )
