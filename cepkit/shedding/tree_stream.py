"""The events of a tree machine as arrays that its kernel reads. New events join them, and old ones leave."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from cepkit.compile.interpreted_columns import constants_of
from cepkit.engines.interpreted_walk import read_values, registers_of
from cepkit.engines.shared.places import chunk_readers
from cepkit.errors import CepError
from cepkit.events import TEXT, Column, Events, shared_categories
from cepkit.shedding.tree_program import TreeProgram
from cepkit.streaming.values import TextCodes

_FEWEST = 1 << 10
_OF_EVENTS = ("kind", "partition", "time", "rank", "chain", "accept", "floats", "integers")


class TreeStream:
    """The events of a machine from position ``base`` to before ``end``."""

    def __init__(self, program: TreeProgram):
        code, bound = program.code, program.program
        self.program, self.base, self.end, self.n_partitions = program, 0, 0, 1
        self.bound = replace(bound, text_groups=())  # this class codes the texts
        self.codes: dict[str, TextCodes] = {}  # by column; columns that are compared share their codes
        self.float_registers, self.integer_registers = np.zeros(0), np.zeros(0, np.int64)
        self.kind, self.partition, self.time, self.rank, self.chain = (
            np.zeros(0, np.int64) for _ in range(5)
        )
        self.accept = np.zeros((max(1, len(code.tests)), 0), np.uint8)
        self.floats = np.zeros((len(code.floats), 0))
        self.integers = np.zeros((len(code.integers), 0), np.int64)
        self._n_of_partition = np.zeros(0, np.int64)

    def extend(self, events: Events, keep: int) -> None:
        """Add events. Events before position ``keep`` may leave."""
        start = self._make_room(events.n_events, keep)
        stop = start + events.n_events
        columns = self._coded(events.columns)
        self._read(columns, start, stop)
        partition = np.zeros(events.n_events, np.int64)
        if events.n_partitions > 1:
            partition[:] = events.partition_of_event
        self.partition[start:stop] = partition
        self.n_partitions = max(self.n_partitions, events.n_partitions)
        self._set_kinds(start, stop)
        self._set_times(columns, start, stop)
        self._set_ranks(events, partition, start, stop)
        self.chain[start:stop] = -1
        self.end += events.n_events

    def set_place_after(self, time: int) -> None:
        """Give the place after the last event a time and no type. The next event takes the place."""
        at = self._make_room(1, self.base)
        self.kind[at] = self.partition[at] = self.chain[at] = -1
        self.time[at] = time

    # --- room

    def _make_room(self, n_new: int, keep: int) -> int:
        """Make room for new events and return the index of the first one; events before ``keep`` may go."""
        n_old = self.end - self.base
        if n_old + n_new <= len(self.kind):
            return n_old
        n_dropped = min(keep, self.end) - self.base
        n_kept = n_old - n_dropped
        room = max(_FEWEST, n_kept + n_new, 2 * n_kept) if self.end else n_new
        for name in _OF_EVENTS:
            old = getattr(self, name)
            new = np.zeros((*old.shape[:-1], room), old.dtype)
            new[..., :n_kept] = old[..., n_dropped:n_old]
            setattr(self, name, new)
        self.base += n_dropped
        return n_kept

    # --- texts

    def _coded(self, columns: Mapping[str, Column]) -> dict[str, Column]:
        """Return the columns with codes that stay the same from batch to batch."""
        columns, ordered = dict(columns), self.program.program.ordered_text
        if not self.end:
            self.codes = {}
            for group in self.program.program.text_groups:
                names = sorted(group)
                shared = shared_categories([columns[name] for name in names], bool(group & ordered))
                columns.update(zip(names, shared, strict=True))
                self.codes |= dict.fromkeys(names, TextCodes(shared[0].texts))
            for name in self.bound.columns:
                if columns[name].type.kind == TEXT:
                    self.codes.setdefault(name, TextCodes(columns[name].texts))
        for name, codes in self.codes.items():
            column = columns[name]
            if name in ordered and (news := [t for t in column.texts if t not in codes.code_of_text]):
                raise CepError(
                    f"column {name!r} is compared by order, and {news[0]!r} is a new text. "
                    "Give ordered categories with all texts"
                )
            columns[name] = replace(column, values=codes.encode(column.values, column.texts))
        for name, codes in self.codes.items():  # another column may have added texts
            columns[name] = replace(columns[name], categories=codes.texts)
        return columns

    # --- values

    def _read(self, columns: Mapping[str, Column], start: int, stop: int) -> None:
        """Compute what tests and conditions read of the new events."""
        code, inputs = self.program.code, self.bound.inputs(columns)
        constants = constants_of(self.bound, inputs)
        self.float_registers, self.integer_registers = registers_of(code, constants[0])
        arrays = {name: values for name, values in inputs.columns.items() if values.ndim == 1}
        with np.errstate(all="ignore"):
            for rows, reader in chunk_readers(arrays, stop - start, constants):
                to = slice(start + rows.start, min(start + rows.stop, stop))
                for row, term in zip(self.accept, code.tests, strict=False):
                    row[to] = reader.true(term)
                read_values(reader, code, self.floats, self.integers, to)

    def _set_kinds(self, start: int, stop: int) -> None:
        accept = self.accept[:, start:stop] != 0
        self.kind[start:stop] = self.program.code.types_of(stop - start, accept.__getitem__)
        if self.bound.window.is_empty:
            self.kind[start:stop] = -1

    def _set_times(self, columns: Mapping[str, Column], start: int, stop: int) -> None:
        clock = self.bound.clock
        if clock in columns and columns[clock].values.dtype.kind != "f":
            self.time[start:stop] = columns[clock].values

    def _set_ranks(self, events: Events, partition: np.ndarray, start: int, stop: int) -> None:
        if self.bound.window.within_events is None:
            return
        if len(self._n_of_partition) < self.n_partitions:
            more = np.zeros(self.n_partitions - len(self._n_of_partition), np.int64)
            self._n_of_partition = np.concatenate([self._n_of_partition, more])
        rank = self.rank[start:stop]
        rank[events.by_partition] = np.arange(events.n_events) - events.bounds_by_partition[0]
        rank += self._n_of_partition[partition]
        self._n_of_partition += np.bincount(partition, minlength=self.n_partitions)

    # --- keeping

    def save(self) -> dict[str, object]:
        """Return what `restore` needs."""
        n = self.end - self.base
        names = ("base", "end", "n_partitions", "float_registers", "integer_registers")
        groups: dict[TextCodes, list[str]] = {}
        for name, codes in self.codes.items():
            groups.setdefault(codes, []).append(name)
        return {
            **{name: getattr(self, name) for name in names},
            **{name: getattr(self, name)[..., :n].copy() for name in _OF_EVENTS},
            "n_of_partition": self._n_of_partition.copy(),
            "texts": [{"columns": names, "texts": codes.texts.tolist()} for codes, names in groups.items()],
        }

    def restore(self, saved: Mapping[str, object]) -> None:
        """Take back what `save` returned."""
        for name in ("base", "end", "n_partitions"):
            setattr(self, name, int(saved[name]))
        for name in ("float_registers", "integer_registers", *_OF_EVENTS):
            setattr(self, name, np.array(saved[name], order="C"))
        self._n_of_partition = np.array(saved["n_of_partition"])
        self.codes = {}
        for group in saved["texts"]:
            self.codes |= dict.fromkeys(group["columns"], TextCodes(group["texts"]))
