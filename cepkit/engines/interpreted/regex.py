"""Interpret a regex query: numpy computes what depends on events alone, a kernel advances partial matches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from cepkit.compile.interpreted.columns import ColumnReader
from cepkit.compile.interpreted.instructions import ROW, EventValue
from cepkit.compile.interpreted.regex import RegexCode
from cepkit.compile.regex.program import State, new_state
from cepkit.compile.shared.bound_query import Inputs, Term
from cepkit.compile.shared.loading import load_kernels
from cepkit.engines.interpreted.walk import read_value
from cepkit.events import FLOAT
from cepkit.kernels.opcodes import IS_FLOAT
from cepkit.kernels.records import AutomatonTables, LiveStarts, RowTask
from cepkit.progress import checkpoint

_EVENTS_PER_CHUNK = 1 << 15  # the columns of a chunk fit the cache
_WORK_PER_CALL = 1 << 22
_LIST_FULL = 1
KERNELS = "cepkit.kernels.interpreting"
_LIVE = "live", "list_start", "list_mask", "list_floats", "list_integers"  # arrays of the state


@dataclass(frozen=True, slots=True)
class Interpreter:
    """Stands for a kernel of one query: it has a state, and `advance` runs it over events."""

    code: RegexCode

    def new_state(self, n_partitions: int, capacity: int = 8) -> State:
        """Return the initial state; see `cepkit.compile.regex.program.Kernel`."""
        return new_state(self.code.state_arrays(), n_partitions, capacity)

    def advance(
        self,
        state: State,
        partition: np.ndarray,
        inputs: Inputs,
        row_base: int,
        progress: Callable[[int], None] | None,
        note: Callable[[int, int], None],
    ) -> tuple[np.ndarray, np.ndarray]:
        """Advance ``state`` over events and return the first and last events of the matches that end there.

        ``note`` gets the number of visited partial matches and the most live starts of a partition.
        """
        run = load_kernels(KERNELS).advance
        spans: list[tuple[np.ndarray, np.ndarray]] = []
        automaton, report = self._automaton(inputs), np.zeros(5, np.int64)
        room = min(len(partition), _EVENTS_PER_CHUNK)
        out = np.empty(room, np.int64), np.empty(room, np.int64)
        code = self.code
        with np.errstate(all="ignore"):  # without the JIT, kernels warn of overflows
            for low in range(0, len(partition), _EVENTS_PER_CHUNK):
                checkpoint()
                high = min(low + _EVENTS_PER_CHUNK, len(partition))
                chunk_partitions = np.ascontiguousarray(partition[low:high])
                chunk = _Chunk(code, state, chunk_partitions, inputs, slice(low, high))
                fulfilled, of_floats, of_integers = chunk.compute()
                done = 0
                while done < len(chunk_partitions):
                    rows = RowTask(done, len(chunk_partitions), row_base + low, room, _WORK_PER_CALL)
                    live = LiveStarts(*(state.arrays[name] for name in _LIVE))
                    n_found = run(
                        rows, chunk_partitions, fulfilled, of_floats, of_integers, automaton, live, *out,
                        report,
                    )  # fmt: skip
                    done, _, work, most, reason = report.tolist()
                    note(work, most)
                    if n_found:
                        spans.append((out[0][:n_found].copy(), out[1][:n_found].copy()))
                    if reason == _LIST_FULL:
                        state.grow("list")
                    checkpoint()
                if progress is not None:
                    progress(len(chunk_partitions))
        if not spans:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        return np.concatenate([first for first, _ in spans]), np.concatenate([last for _, last in spans])

    def label(
        self, partition: np.ndarray, n_partitions: int, inputs: Inputs, event_of_item: np.ndarray,
        first_item: np.ndarray,
    ) -> np.ndarray:  # fmt: skip
        """Return the mask of positions that each row of given matches reaches, int64, (n_items,)."""
        code, state, n = self.code, self.new_state(n_partitions), len(event_of_item)
        n_floats = sum(value.is_float for value in code.values)
        fulfilled, mask = np.empty(n, np.int64), np.zeros(n, np.int64)
        of_floats = np.empty((n_floats, n))
        of_integers = np.empty((len(code.values) - n_floats, n), np.int64)
        order = np.argsort(event_of_item, kind="stable")
        rising = event_of_item[order]
        with np.errstate(all="ignore"):
            for low in range(0, len(partition), _EVENTS_PER_CHUNK):
                checkpoint()
                rows = slice(low, min(low + _EVENTS_PER_CHUNK, len(partition)))
                chunk_partitions = np.ascontiguousarray(partition[rows])
                whole = _Chunk(code, state, chunk_partitions, inputs, rows).compute()
                begin, end = np.searchsorted(rising, [rows.start, rows.stop])
                items, events = order[begin:end], rising[begin:end] - low
                fulfilled[items] = whole[0][events]
                of_floats[:, items] = whole[1][:, events]
                of_integers[:, items] = whole[2][:, events]
            n_carried = int(code.carried[:, IS_FLOAT].sum())
            load_kernels(KERNELS).reach(
                first_item.astype(np.int64), fulfilled, of_floats, of_integers, self._automaton(inputs),
                np.empty((n_carried, 1)), np.empty((len(code.carried) - n_carried, 1), np.int64), mask,
            )  # fmt: skip
        return mask

    def _automaton(self, inputs: Inputs) -> AutomatonTables:
        """Return the automaton, and registers with the constants of the query."""
        code = self.code
        floats, integers = np.zeros(self.code.n_registers), np.zeros(self.code.n_registers, np.int64)
        constants = dict(zip(self.code.writer.constants, inputs.constants, strict=True))
        for register, is_float, number, value in self.code.constants:
            (floats if is_float else integers)[register] = value if number is None else constants[number]
        return AutomatonTables(code.code, code.carried, code.follow, code.masks, floats, integers)


class _Chunk:
    """A run of events: the columns that instructions read, and the state that earlier values come from."""

    def __init__(self, code: RegexCode, state: State, partition: np.ndarray, inputs: Inputs, rows: slice):
        self.code, self.state, self.partition = code, state, partition
        writer = code.writer
        self.number, self._made = None, {}
        if writer.uses_ordinal:
            self.number = np.empty(len(partition), np.int64)
            load_kernels(KERNELS).number_rows(partition, state.arrays["ordinal"], self.number)
        self.reader = ColumnReader(
            {name: values[rows] for name, values in inputs.columns.items()},
            dict(zip(writer.constants, inputs.constants, strict=True)),
            dict(zip(writer.tables, inputs.tables, strict=True)),
            self._earlier,
            self.number,
        )

    def _earlier(self, arg: Term, distance: int) -> np.ndarray:
        """Return the values ``distance`` rows before in the partition; the state keeps the last ones."""
        if (arg, distance) not in self._made:
            self._made[arg, distance] = self._take_earlier(arg, distance)
        return self._made[arg, distance]

    def _take_earlier(self, arg: Term, distance: int) -> np.ndarray:
        dtype = np.float64 if arg.kind == FLOAT else np.int64
        values = np.broadcast_to(self.reader.stored(arg), len(self.partition))
        values = np.ascontiguousarray(values, dtype)
        past = self.state.arrays[f"past{self.code.writer.pasts.index((arg, distance))}"]
        earlier = np.empty(len(values), dtype)
        load_kernels(KERNELS).take_earlier(
            self.partition,
            earlier.view(np.int64) if self.number is None else self.number,
            values.view(np.int64),
            past.view(np.int64).reshape(len(past), -1),
            earlier.view(np.int64),
        )
        return earlier

    def compute(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the mask of each event, and the floats and integers that instructions read."""
        code, n_events = self.code, len(self.partition)
        with np.errstate(all="ignore"):
            terms = [(conjunct.term, conjunct.mask) for conjunct in code.plan.event_conjuncts]
            fulfilled = self.reader.masks(terms, int(code.masks[0]), n_events)
            n_floats = sum(value.is_float for value in code.values)
            floats = np.empty((n_floats, n_events))
            integers = np.empty((len(code.values) - n_floats, n_events), np.int64)
            for row, value in zip([*floats, *integers], code.values, strict=True):
                row[:] = self._event_value(value)
            for arg, distance in code.writer.pasts:  # also those that nothing read in this chunk
                self._earlier(arg, distance)
        return fulfilled, floats, integers

    def _event_value(self, value: EventValue) -> np.ndarray:
        if value.what == ROW:
            return self.number
        return read_value(self.reader, value)
