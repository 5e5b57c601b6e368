"""Search sequences of any kind by interpretation: the arrays that the walking kernel reads."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from cepkit.compile.interpreted.columns import constants_of
from cepkit.compile.interpreted.instructions import EventValue
from cepkit.compile.interpreted.walk import ConditionCode, WalkCode
from cepkit.compile.shared.loading import load_kernels
from cepkit.engines.interpreted.values import read_value
from cepkit.engines.shared.kernels import chunk_readers

KERNELS = "cepkit.kernels.interpreted_walk"


def interpreted_walk(places, code: WalkCode) -> Callable:
    """Return a function that takes the arguments of a generated search and interprets the branch instead.

    The arguments are those of `cepkit.compile.sequences.search_source.write_search`.

    """
    tables = *code.tables, *data_of(places, code)
    return partial(_run, int(places.program.query.scope == "run"), tables)


def _run(is_run_scope: int, tables: tuple, *given) -> None:
    """Call the kernel with the arguments of a generated search. They end with 9 arrays of its state."""
    first, limits, state = given[:5], given[5:14], given[-9:]
    load_kernels(KERNELS).walk(*first, is_run_scope, *limits, *tables, *state)


def data_of(places, code: ConditionCode) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return what conditions read: the values of single events, then the registers with the constants."""
    constants = constants_of(places.program, places.inputs)
    floats = np.empty((len(code.floats), places.n))
    integers = np.empty((len(code.integers), places.n), np.int64)
    rows: list[tuple[np.ndarray, EventValue]] = [
        *zip(floats, code.floats, strict=True),
        *zip(integers, code.integers, strict=True),
    ]
    columns = {name: values for name, values in places.inputs.columns.items() if values.ndim == 1}
    with np.errstate(all="ignore"):
        for own, reader in chunk_readers(columns, places.n, constants):
            for row, value in rows:
                row[own] = read_value(reader, value)
    registers = np.zeros(code.n_registers), np.zeros(code.n_registers, np.int64)
    for register, is_float, number, value in code.constants:
        registers[0 if is_float else 1][register] = value if number is None else constants[0][number]
    return floats, integers, *registers
