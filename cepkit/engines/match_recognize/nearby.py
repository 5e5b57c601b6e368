"""The conditions of a row pattern at all rows of some partitions, if they depend on nearby rows alone."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from cepkit.compile.match_recognize.navigations import distance_of
from cepkit.compile.match_recognize.vectors.reader import VectorReader
from cepkit.compile.match_recognize.vectors.vector import NotVectorizedError, Vector
from cepkit.engines.match_recognize.found_rows import RowOrder
from cepkit.engines.match_recognize.history import MatchHistory, Trial
from cepkit.engines.match_recognize.matching import RowProgram
from cepkit.engines.match_recognize.row_input import RowInput
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.rebuilding import rebuilt
from cepkit.language.match_recognize import patterns as rp


def without_variables(tree: ex.Expression) -> ex.Expression:
    """Return a condition with columns alone. In a condition on nearby rows, all mean the current row."""

    def change(node: ex.Expression) -> ex.Expression:
        return ex.Attribute(node.name or "") if isinstance(node, ex.Reference) else node

    return rebuilt(tree, ex.Expression, change)


class NearbyRows(VectorReader):
    """Reads conditions at the places of some partitions. ``at`` is the distance to the row that is read."""

    def __init__(self, given: RowInput, order: RowOrder, partitions: tuple[int, int]):
        first, until = partitions
        bounds = order.first_place_of_partition[first : until + 1]
        self._low, self._high = int(bounds[0]), int(bounds[-1])
        super().__init__(self._high - self._low, given.schema, given.params)
        self._given = given
        self._starts, self._ends = bounds[:-1] - self._low, bounds[1:] - self._low
        self._outside: dict[int, np.ndarray] = {}

    def column(self, name: str, at: Any) -> Vector:
        """Return a column some rows away. Rows of other partitions count as missing in `of_match`."""
        placed = self._given.placed(name)
        start = placed.n_before + self._low + max(-placed.n_before, min(placed.n_after, at or 0))
        here, whole = slice(start, start + self.n), placed.vector
        missing = tuple(places[here] for places in whole.missing)
        return Vector(whole.values[here], whole.type, missing, whole.texts)

    def rows_of(self, variable: str | None) -> int:
        """Return 0: a variable means the current row."""
        return 0

    def of_match(self, tree: ex.Expression, at: Any) -> Vector:
        """Return a navigation. It is missing where its row is in another partition."""
        if not isinstance(tree, rp.Navigation):
            raise NotVectorizedError
        distance = distance_of(tree)
        operand = tree.operand
        if tree.function in ("prev", "next") and isinstance(operand, rp.Navigation):
            operand = operand.operand
        if any(isinstance(node, rp.Navigation) for node in operand.walk()):
            raise NotVectorizedError
        found = self.value(operand, distance)
        return found.with_missing(self._beyond(distance)) if distance else found

    def _beyond(self, distance: int) -> np.ndarray:
        """Return the places from which a distance leads out of the partition."""
        if distance not in self._outside:
            found = []
            for step in range(min(abs(distance), int((self._ends - self._starts).max()))):
                places = self._starts + step if distance < 0 else self._ends - 1 - step
                found.append(places[places < self._ends] if distance < 0 else places[places >= self._starts])
            self._outside[distance] = np.concatenate(found)
        return self._outside[distance]


def truths_by_python(
    program: RowProgram, name: str, plain: Mapping[str, np.ndarray], order: RowOrder, first: int, until: int
) -> np.ndarray:
    """Return where the condition of a variable holds in some partitions, computed row by row."""
    condition, truths = program.conditions[name], []
    history = MatchHistory(program.needs, program.members, program.totals)
    bounds = order.first_place_of_partition[first : until + 1].tolist()
    for start, stop in pairwise(bounds):
        rows = order.rows_between(start, stop)
        columns = {column: values[rows].tolist() for column, values in plain.items()}
        trial = Trial(history, columns, stop - start)
        trial.variable = name
        for row in range(stop - start):
            trial.start = trial.row = row
            truths.append(condition(trial, -1) is True)
    return np.array(truths, bool)
