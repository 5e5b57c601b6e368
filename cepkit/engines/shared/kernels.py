"""Kernels of sequence queries, loaded with the functions and column types that they need."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache, partial
from typing import NamedTuple, Protocol

import numpy as np

from cepkit.compile.interpreted.columns import ColumnReader, constants_of
from cepkit.compile.interpreted.instructions import reading_unsupported
from cepkit.compile.sequences.program import SequenceProgram
from cepkit.compile.sequences.search_source import tests_of, write_accepting
from cepkit.compile.shared.bound_query import Inputs
from cepkit.compile.shared.loading import interpreting, load, reason_to_compile
from cepkit.compile.shared.term_writing import VECTOR
from cepkit.engines.shared.placing import even_cuts, in_slices
from cepkit.progress import checkpoint

COUNTING = "cepkit.kernels.interpreted_counting"  # the kernels that interpret sequences
_EVENTS_PER_CHUNK = 1 << 16  # their columns fit the cache
_EVENTS_PER_CALL = 1 << 20  # events tested between two checkpoints
_WORK_PER_CALL_AS_PYTHON = 1 << 10


def kernel(program: SequenceProgram, text: str, name: str) -> Callable:
    """Load a generated module with the user's functions, and return its function ``name``."""
    user = {f"u{i}": function.in_kernel for i, function in enumerate(program.functions.values())}
    run = getattr(load(text, user), name)
    # A kernel that runs as Python would warn of overflows. The decorator sets the error state in each call.
    return run if hasattr(run, "py_func") else np.errstate(all="ignore")(run)


def dtypes_of(inputs: Inputs) -> dict[str, str]:
    """Return the dtype of every column that kernels read."""
    return {
        column: VECTOR if array.ndim == 2 else _name_of(array.dtype)
        for column, array in inputs.columns.items()
    }


@lru_cache(maxsize=100)
def _name_of(dtype: np.dtype) -> str:
    return dtype.name  # numpy writes it again each time


def per_call(run: Callable, amount: int) -> int:
    """Return how much work a kernel may do in one call: ``amount``, or less if it runs as Python."""
    return amount if hasattr(run, "py_func") else min(amount, _WORK_PER_CALL_AS_PYTHON)


def _reading_unsupported(program: SequenceProgram) -> str | None:
    terms = (term for terms in tests_of(program) for term in terms)
    return next(filter(None, map(reading_unsupported, terms)), None)


def chunk_readers(
    columns: Mapping[str, np.ndarray], n_events: int, constants: tuple
) -> Iterator[tuple[slice, ColumnReader]]:
    """Yield the events chunk by chunk, each with a reader of its columns."""
    for start in range(0, n_events, _EVENTS_PER_CHUNK):
        checkpoint()
        rows = slice(start, start + _EVENTS_PER_CHUNK)
        yield rows, ColumnReader({name: values[rows] for name, values in columns.items()}, *constants)


def _accepted_by_columns(places: PlacedEvents, threads: int) -> np.ndarray:
    """Return the same as `accepted`, computed by numpy."""
    tests = tests_of(places.program)
    accept = np.zeros((len(tests), places.n), np.uint8)
    constants = constants_of(places.program, places.inputs)

    def test(begin: int, stop: int) -> None:
        columns = {name: values[begin:stop] for name, values in places.inputs.columns.items()}
        with np.errstate(all="ignore"):
            for rows, reader in chunk_readers(columns, stop - begin, constants):
                for row, terms in zip(accept[:, begin:stop], tests, strict=True):
                    row[rows] = reader.all(map(reader.true, terms))

    in_slices(test, even_cuts(places.n), threads=threads)
    return accept


class PlacedEvents(Protocol):
    """The events of a program in any order."""

    @property
    def program(self) -> SequenceProgram:
        """The program."""
        ...

    @property
    def inputs(self) -> Inputs:
        """The columns in this order."""
        ...

    @property
    def n(self) -> int:
        """Number of events."""
        ...


class InStreamOrder(NamedTuple):
    """The events of a program in stream order."""

    program: SequenceProgram
    inputs: Inputs
    n: int


Loader = Callable[[SequenceProgram, str, str], Callable]  # takes what `kernel` takes


def accepted(
    places: PlacedEvents, load_as: Loader | None = None, *, otherwise: Loader = kernel, threads: int = 1
) -> np.ndarray:
    """Return which places fulfil the conditions on single events, uint8, (n_tests, n_places).

    ``load_as`` loads the kernel. By default numpy computes the same where it can, and ``otherwise`` loads it.

    """
    program, inputs = places.program, places.inputs
    accept = np.zeros((len(tests_of(program)), places.n), np.uint8)
    dtypes = dtypes_of(inputs)
    text = program.once(("accepting", *dtypes.items()), partial(write_accepting, program, dtypes)).text
    if load_as is None and not (reason_to_compile(text, COUNTING) or _reading_unsupported(program)):
        return interpreting(text, _accepted_by_columns, places.n)(places, threads)
    run = (load_as or otherwise)(program, text, "accepting")
    with np.errstate(all="ignore"):  # a kernel that runs as Python warns of overflows
        cuts = [*range(0, places.n, per_call(run, _EVENTS_PER_CALL)), places.n]
        in_slices(lambda *own: run(*own, *inputs.arguments(), accept), cuts, threads=threads)
    return accept
