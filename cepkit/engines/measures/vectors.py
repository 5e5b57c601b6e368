"""Array columns as matrices, prepared for the functions that compare arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cepkit.compile.shared.bound_query import BoundQuery
from cepkit.compile.shared.terms import Prepared
from cepkit.errors import CepError
from cepkit.events import FLOAT, LIST, Column, ColumnType

_VECTORS = ColumnType(LIST, nullable=True, item=ColumnType(FLOAT, nullable=True))


def vectors_of_arrow(
    array: pa.Array | pa.ChunkedArray, name: str, label: Callable[[int], object] = lambda row: row
) -> np.ndarray:
    """Return an array column as a matrix."""
    array = one_chunk(array)
    n_items = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
    rows = np.flatnonzero(n_items)
    if not len(rows):
        return np.full((len(array), 0), np.nan)
    length = int(n_items[rows[0]])
    others = rows[n_items[rows] != length]
    if len(others):
        row, first = _shown(label(int(others[0]))), _shown(label(int(rows[0])))
        raise CepError(
            f"column {name!r}: the array of row {row} has {n_items[others[0]]} numbers, that of row {first} "
            f"has {length}; compared arrays must have one length: cut or fill them first"
        )
    items = pc.list_flatten(array)  # skips missing arrays
    items = pc.fill_null(items.cast(pa.float64(), safe=False), np.nan).to_numpy(zero_copy_only=False)
    if len(rows) == len(array):
        return items.reshape(len(array), length)
    whole = np.full((len(array), length), np.nan)
    whole[rows] = items.reshape(len(rows), length)
    return whole


def one_chunk(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return the values of an Arrow array without chunks."""
    if isinstance(array, pa.ChunkedArray):
        array = array.chunk(0) if array.num_chunks == 1 else array.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    return array


def _shown(label: object) -> str:
    return repr(label.item() if isinstance(label, np.generic) else label)


def prepare(vectors: np.ndarray, function: str) -> np.ndarray:
    """Return a matrix in which ``function`` of two rows is a sum over their numbers.

    Powers of two first scale the rows to a size near 1. This changes no digit, and squares neither overflow
    nor vanish.
    """
    if function == "l2" or not vectors.size:
        return vectors
    with np.errstate(all="ignore"):
        rows = _near_one(vectors)
        if function == "corr":
            is_constant = vectors.max(axis=1) == vectors.min(axis=1)
            rows = rows - rows.mean(axis=1, keepdims=True)
            rows -= rows.mean(axis=1, keepdims=True)  # rounding leaves a part of the mean
            rows[is_constant] = 0.0
            rows = _near_one(rows)
        return rows / np.sqrt(np.square(rows).sum(axis=1, keepdims=True))


def _near_one(rows: np.ndarray) -> np.ndarray:
    exponent = np.frexp(np.abs(rows).max(axis=1, keepdims=True))[1]
    return np.ldexp(rows, -exponent)


def similarity(function: str, one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return ``function`` of each pair of rows of two prepared matrices as kernels compute it, (n_rows,).

    Rows without a result give NaN.

    """
    total = np.zeros(len(one))
    with np.errstate(all="ignore"):
        for k in range(one.shape[1]):
            term = one[:, k] - other[:, k]
            total += term * term if function == "l2" else one[:, k] * other[:, k]
        return np.sqrt(total) if function == "l2" else np.clip(total, -1.0, 1.0)


def compare_rows(function: str, one: np.ndarray, other: np.ndarray, names: tuple[str, str]) -> np.ndarray:
    """Return ``function`` of each pair of rows of two matrices; errors use the column ``names``."""
    lengths = _lengths([(function, *names)], dict(zip(names, (one, other), strict=True)))
    sides = (
        prepare(_of_length(side, lengths[name]), function)
        for side, name in zip((one, other), names, strict=True)
    )
    return similarity(function, *sides)


def prepared_columns(program: BoundQuery, vectors: Callable[[str], np.ndarray]) -> dict[str, Column]:
    """Return the array columns that a program compares, prepared, by the names that it gives them."""
    wanted = {name: of for name, of in program.derived.items() if isinstance(of, Prepared)}
    if not wanted:
        return {}
    matrix_of = {name: vectors(name) for name in dict.fromkeys(of.column for of in wanted.values())}
    calls = [term for root in program.terms() for term in root.walk() if term.op == "similarity"]
    pairs = [tuple(wanted[_leaf_column(arg)].column for arg in call.args) for call in calls]
    length_of = _lengths([(call.data, *pair) for call, pair in zip(calls, pairs, strict=True)], matrix_of)
    return {
        name: Column(_VECTORS, prepare(_of_length(matrix_of[of.column], length_of[of.column]), of.function))
        for name, of in wanted.items()
    }


def _leaf_column(leaf) -> str:
    return leaf.data if leaf.op == "column" else leaf.data[-1]


def _lengths(calls: list[tuple[str, str, str]], matrix_of: Mapping[str, np.ndarray]) -> dict[str, int]:
    """Return the length of every column; a column of missing arrays gets that of a column it meets."""
    length_of = {name: matrix.shape[1] for name, matrix in matrix_of.items()}
    for _ in length_of:
        for _, one, other in calls:
            longest = max(length_of[one], length_of[other])
            length_of |= {name: longest for name in (one, other) if not length_of[name]}
    for function, one, other in calls:
        if length_of[one] != length_of[other]:
            raise CepError(
                f"{function}() compares arrays of one length: those of column {one!r} have {length_of[one]} "
                f"numbers, those of {other!r} {length_of[other]}; cut the longer ones first"
            )
    return length_of


def _of_length(matrix: np.ndarray, length: int) -> np.ndarray:
    return matrix if matrix.shape[1] else np.full((len(matrix), max(1, length)), np.nan)
