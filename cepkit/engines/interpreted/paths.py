"""Follow the paths of a state graph by interpretation: its links become tests on numbers of entries."""

from __future__ import annotations

import numpy as np

from cepkit.compile.counting.path_tables import values_of
from cepkit.compile.interpreted.columns import ColumnReader, constants_of
from cepkit.compile.interpreted.pairs import numbers_of
from cepkit.engines.interpreted.buffers import Buffer, PickedColumns
from cepkit.engines.interpreted.counting import counting_tests_of

_WIDE = 1 << 62  # no place or entry is as far away


def path_values(layout, place: np.ndarray, limits: list[np.ndarray]) -> tuple[np.ndarray | int, ...]:
    """Return the values of kernels for every graph; the arguments are those of `Entries`."""
    graph, n, numbers, rows_of_link = layout.graph, len(place), Buffer(np.uint64), []
    columns = PickedColumns(layout.inputs.columns, place)
    reader = ColumnReader(columns, *constants_of(layout.program, layout.inputs))
    nears, fars = layout.writer.nears, layout.writer.fars
    near_of, far_of = (
        dict(zip(nears, limits, strict=False)),
        dict(zip(fars, limits[len(nears) :], strict=True)),
    )

    def row(*parts: np.ndarray | int) -> list[int]:
        return [numbers.add(np.broadcast_to(np.asarray(part, np.int64).view(np.uint64), n)) for part in parts]

    for k, tests in enumerate(counting_tests_of(graph)):
        with np.errstate(all="ignore"):
            made = numbers_of(tests, reader, reader, (n, n))
        rows = [] if made.alive is None else [row(0, np.where(made.alive, 0, 1), 0)]
        rows += [row(np.arange(n), near_of[k], _WIDE)] if k in near_of else []
        rows += [row(far_of[k], place, _WIDE)] if k in far_of else []
        rows_of_link.append(rows + numbers.add_tests(made))
    return place, *values_of(graph, rows_of_link, numbers.whole())
