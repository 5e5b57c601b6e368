"""The state of a regex kernel: rows of single partitions, and the whole state as arrays for a file."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from cepkit.compile.regex.program import State
from cepkit.compile.shared.state_layout import StateArray
from cepkit.errors import CepError

_NO_VALUES = (
    "_start",
    "_mask",
    "_head",
    "_tail",
)  # ends of the names of arrays that hold no values of columns


def live_starts(state: State, partitions: np.ndarray | slice = slice(None)) -> np.ndarray:
    """Return the number of live partial matches of each of these partitions, int64."""
    n_live = state.arrays["live"][partitions].copy()
    for name, head in state.arrays.items():
        if name.endswith("_head"):
            n_live += state.arrays[f"{name.removesuffix('_head')}_tail"][partitions] - head[partitions]
    return n_live


def copy_partitions(state: State, partitions: np.ndarray) -> dict[str, np.ndarray]:
    """Return the state of these partitions, for `put_back`. O(partitions x capacity)."""
    return {name: array[partitions] for name, array in state.arrays.items()}


def put_back(state: State, partitions: np.ndarray, copies: Mapping[str, np.ndarray]) -> None:
    """Restore the state that `copy_partitions` returned; the arrays may have grown in the meantime."""
    for name, copy in copies.items():
        if copy.ndim == 1:
            state.arrays[name][partitions] = copy
        else:
            state.arrays[name][partitions, : copy.shape[1]] = copy


def forget_partitions(state: State, partitions: np.ndarray) -> int:
    """Reset partitions to their state before any event; return how many partial matches this ends."""
    n_ended = int(live_starts(state, partitions).sum())
    for array in state.layout:
        if array.per in ("partition", "ring"):
            state.arrays[array.name][partitions] = array.fill
    return n_ended


def values_in_use(state: State) -> list[np.ndarray]:
    """Return the integers of a state that may be codes of texts: all but counters, positions and masks."""
    packed = pack_state(state)
    return [
        values
        for name, values in packed.items()
        if values.dtype.kind == "i" and not name.endswith(_NO_VALUES) and name not in ("live", "ordinal")
    ]


def pack_state(state: State) -> dict[str, np.ndarray]:
    """Return the arrays of a state for a file, with zeros in unused cells."""
    packed = {}
    for array in state.layout:
        values = state.arrays[array.name]
        if array.per in ("list", "queue"):
            first, stop = _cells_in_use(state, array)
            width = max(1, int(stop.max(initial=0)))
            cell = np.arange(width)
            in_use = (cell >= first[:, None]) & (cell < stop[:, None])
            values = np.where(in_use, values[:, :width], np.zeros((), values.dtype))
        packed[array.name] = values
    return packed


def _cells_in_use(state: State, array: StateArray) -> tuple[np.ndarray, np.ndarray]:
    if array.per == "list":
        return np.zeros_like(state.arrays["live"]), state.arrays["live"]
    queue = array.name.split("_")[0]
    return state.arrays[f"{queue}_head"], state.arrays[f"{queue}_tail"]


def unpack_state(layout: tuple[StateArray, ...], arrays: Mapping[str, np.ndarray]) -> State:
    """Return the state that `pack_state` stored in ``arrays``."""
    wanted = {array.name: array.dtype for array in layout}
    found = {name: values.dtype.name for name, values in arrays.items()}
    if wanted != found:
        raise CepError(
            f"the saved state does not fit this query's kernel: it has {found}, the kernel needs {wanted}"
        )
    return State(layout, {name: np.array(values) for name, values in arrays.items()})
