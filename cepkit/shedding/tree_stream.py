"""The events of a tree machine as arrays that its kernel reads. New events join them, and old ones leave."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from cepkit.compile.interpreted_columns import ColumnReader, constants_of
from cepkit.engines.interpreted_walk import read_value
from cepkit.errors import CepError
from cepkit.events import NULL_CODE, TEXT, Column, Events, shared_categories
from cepkit.shedding.tree_program import TreeProgram

_CHUNK = 1 << 16
_FEWEST = 1 << 10
_OF_EVENTS = ("kind", "partition", "time", "rank", "chain", "accept", "floats", "integers")


class TreeStream:
    """The events of a machine from position ``base`` to before ``end``."""

    def __init__(self, program: TreeProgram):
        code, bound = program.code, program.program
        self.program, self.base, self.end, self.n_partitions = program, 0, 0, 1
        self.bound = replace(bound, text_groups=())  # this class codes the texts
        self.texts: dict[str, list[str]] = {}  # by column; columns that are compared share a list
        self.float_registers = np.zeros(code.n_registers)
        self.integer_registers = np.zeros(code.n_registers, np.int64)
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
        columns = dict(columns)
        if not self.end:
            self.texts = {}
            for group in self.program.program.text_groups:
                names = sorted(group)
                is_ordered = bool(group & self.program.program.ordered_text)
                shared = shared_categories([columns[name] for name in names], is_ordered)
                columns.update(zip(names, shared, strict=True))
                texts = list(shared[0].texts)
                for name in names:
                    self.texts[name] = texts
            for name in self.bound.columns:
                if columns[name].type.kind == TEXT:
                    self.texts.setdefault(name, list(columns[name].texts))
        coded = {name: self._code(name, columns[name]) for name in self.texts}
        for name, column in coded.items():  # another column may have added texts
            columns[name] = replace(column, categories=np.array(self.texts[name], dtype=object))
        return columns

    def _code(self, name: str, column: Column) -> Column:
        texts = self.texts[name]
        code_of = {text: code for code, text in enumerate(texts)}
        news = [text for text in column.texts if text not in code_of]
        if news and name in self.program.program.ordered_text:
            raise CepError(
                f"column {name!r} is compared by order, and {news[0]!r} is a new text. "
                "Give ordered categories with all texts"
            )
        for text in news:
            code_of[text] = len(texts)
            texts.append(text)
        recode = np.array([code_of[text] for text in column.texts] + [NULL_CODE], np.int64)
        return replace(column, values=recode[column.values])

    # --- values

    def _read(self, columns: Mapping[str, Column], start: int, stop: int) -> None:
        """Compute what tests and conditions read of the new events."""
        code, inputs = self.program.code, self.bound.inputs(columns)
        constants = constants_of(self.bound, inputs)
        for register, is_float, number, value in code.constants:
            constant = value if number is None else constants[0][number]
            (self.float_registers if is_float else self.integer_registers)[register] = constant
        arrays = {name: values for name, values in inputs.columns.items() if values.ndim == 1}
        with np.errstate(all="ignore"):
            for first in range(0, stop - start, _CHUNK):
                rows = slice(first, min(first + _CHUNK, stop - start))
                to = slice(start + rows.start, start + rows.stop)
                reader = ColumnReader({name: values[rows] for name, values in arrays.items()}, *constants)
                for row, term in zip(self.accept, code.tests, strict=False):
                    row[to] = reader.true(term)
                for row, value in zip(self.floats, code.floats, strict=True):
                    row[to] = read_value(reader, value)
                for row, value in zip(self.integers, code.integers, strict=True):
                    row[to] = read_value(reader, value)

    def _set_kinds(self, start: int, stop: int) -> None:
        kind = self.kind[start:stop]
        kind[:] = -1
        if self.bound.window.is_empty:
            return
        tests = list(enumerate(self.program.code.type_tests))
        for number, test in tests:
            if test is None:
                kind[:] = number
        for number, test in tests:
            if test is not None:
                kind[self.accept[test, start:stop] != 0] = number

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
        groups: dict[int, list[str]] = {}
        for name, texts in self.texts.items():
            groups.setdefault(id(texts), []).append(name)
        return {
            **{name: getattr(self, name) for name in names},
            **{name: getattr(self, name)[..., :n].copy() for name in _OF_EVENTS},
            "n_of_partition": self._n_of_partition.copy(),
            "texts": [{"columns": names, "texts": list(self.texts[names[0]])} for names in groups.values()],
        }

    def restore(self, saved: Mapping[str, object]) -> None:
        """Take back what `save` returned."""
        for name in ("base", "end", "n_partitions"):
            setattr(self, name, int(saved[name]))
        for name in ("float_registers", "integer_registers", *_OF_EVENTS):
            setattr(self, name, np.array(saved[name], order="C"))
        self._n_of_partition = np.array(saved["n_of_partition"])
        self.texts = {}
        for group in saved["texts"]:
            texts = list(group["texts"])
            for name in group["columns"]:
                self.texts[name] = texts
