"""Batches of a stream as kernel inputs, with the same dtypes and codes in every batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cepkit.compile.regex.program import Program
from cepkit.compile.shared.bound_query import BoundQuery, Inputs, used_tables
from cepkit.compile.shared.terms import Members
from cepkit.errors import UnsupportedQueryError
from cepkit.events import TEXT, Column, ColumnType
from cepkit.frames.arrow import ArrowSource
from cepkit.frames.building import partition_codes
from cepkit.streaming.batches import stable_column
from cepkit.streaming.codes import Key, TextCodes


class BatchCoder:
    """Converts tables to columns and kernel inputs of a program; the codes of texts never change.

    Raises
    ------
    UnsupportedQueryError
        When the query orders texts whose columns have no common ordered categories.
    """

    def __init__(self, program: Program):
        check_text_orders(program)
        self.codes_of_column = text_codes_of_columns(program)
        # This class codes the texts, so the program needs no common categories.
        self.program = replace(program, text_groups=(), ordered_text=frozenset())
        terms = [t for root in (*program.plan.terms(), *program.plan.slots) for t in root.walk()]
        self._constants = [
            program.constants[i] for i in sorted({t.data for t in terms if t.op == "constant"})
        ]
        self._tables = [program.tables[i] for i in sorted(used_tables(terms))]
        self._known: dict[str, int] = {}  # how many texts of a column the inputs cover
        self._inputs: Inputs | None = None

    def columns(self, source: ArrowSource) -> dict[str, Column]:
        """Return the columns that predicates read, with the rows of ``source``."""
        columns = {}
        for name in self.program.columns:
            derived = self.program.derived.get(name)
            column = source.item(derived.column, derived.index) if derived else source.column(name)
            of = type_of_column(self.program, name)
            columns[name] = stable_column(column, of, name, self.codes_of_column.get(name))
        for name, codes in self.codes_of_column.items():  # a later column may have added texts
            columns[name] = replace(columns[name], categories=codes.texts)
        return columns

    def inputs(self, columns: Mapping[str, Column]) -> Inputs:
        """Return the kernel inputs; only texts that are new since the last call are looked up."""
        if not self.program.compiled:
            return self.program.inputs(columns)
        n_texts = {name: len(codes) for name, codes in self.codes_of_column.items()}
        if self._inputs is None or n_texts != self._known:
            self._look_up(columns)
            self._known = n_texts
        arrays = {name: np.ascontiguousarray(columns[name].values) for name in self.program.columns}
        return self._inputs.with_columns(arrays)

    def _look_up(self, columns: Mapping[str, Column]) -> None:
        news = {}
        for name, column in columns.items():
            news[name] = column.take(slice(0))
            if column.categories is not None:
                categories = column.categories[self._known.get(name, 0) :]
                news[name] = replace(news[name], categories=categories)
        found = self.program.inputs(news)
        if self._inputs is not None:
            constants = [
                new if constant.text is None else old if new < 0 else self._known[constant.column] + new
                for constant, old, new in zip(
                    self._constants, self._inputs.constants, found.constants, strict=True
                )
            ]
            tables = [
                new if isinstance(table, Members) else np.concatenate([old, new[1:]])
                for table, old, new in zip(self._tables, self._inputs.tables, found.tables, strict=True)
            ]
            found = replace(found, constants=tuple(constants), tables=tuple(tables))
        self._inputs = found

    # --- saving

    def pack(self) -> dict[str, pa.Table]:
        """Return the texts by code; one table per shared list, named after its first column."""
        packed = {}
        for name, codes in self.codes_of_column.items():
            if self._first_column(codes) == name:
                packed[name] = pa.table({"text": pa.array(codes.texts.tolist(), pa.large_string())})
        return packed

    def unpack(self, packed: Mapping[str, pa.Table]) -> None:
        """Restore the codes that `pack` returned."""
        for name, table in packed.items():
            texts = np.array(table.column("text").to_pylist(), dtype=object)
            self.codes_of_column[name].encode(np.arange(len(texts)), texts)

    def _first_column(self, codes: TextCodes) -> str:
        return next(name for name, own in self.codes_of_column.items() if own is codes)


def type_of_column(program: BoundQuery, name: str) -> ColumnType:
    """Return the type of a column that a program reads, or of an item of a list."""
    derived = program.derived.get(name)
    return replace(program.schema[derived.column].item, nullable=True) if derived else program.schema[name]


def check_text_orders(program: BoundQuery) -> None:
    """Refuse a query that orders texts of columns without common ordered categories."""
    for group in program.text_groups:
        orders = {type_of_column(program, name).ordered for name in group}
        if group & program.ordered_text and (len(orders) > 1 or None in orders):
            names = sorted(group)
            raise UnsupportedQueryError(
                f"the query orders the texts of {names} (<, >, min or max of a text), but the order of texts "
                "is unknown while a stream is open; declare them in the schema as "
                "pandas.CategoricalDtype([…], ordered=True), all with the same categories, or compare numbers"
            )


def text_codes_of_columns(program: BoundQuery) -> dict[str, TextCodes]:
    """Return the codes of every text column that predicates read; compared columns share their codes."""
    groups = [group for group in program.text_groups if len(group) > 1]
    codes_of: dict[str, TextCodes] = {}
    for name in program.columns:
        of = type_of_column(program, name)
        if of.kind != TEXT or name in codes_of:
            continue
        group = sorted(next((g for g in groups if name in g), {name}))
        orders = {type_of_column(program, one).ordered for one in group}
        order = next(iter(orders)) if len(orders) == 1 else None
        codes = TextCodes(order or ())
        codes_of |= {one: codes for one in group if one in program.columns}
    return codes_of


def keys_of_batch(source: ArrowSource, partition_by: tuple[str, ...]) -> tuple[np.ndarray, list[Key]]:
    """Return the index of each event's key, and the distinct keys of a batch; null equals NaN.

    Returns
    -------
    own : ndarray of int, shape (n_events,)
        Indices into ``keys``.
    keys : list of tuple
        Each occurs. Without ``partition_by`` the only key is ``()``.
    """
    own, n_keys = partition_codes(source, partition_by)
    row = np.full(n_keys, -1, np.int64)
    row[own[::-1]] = np.arange(len(own))[::-1]
    occurs = row >= 0
    if not occurs.all():
        own, row = (np.cumsum(occurs) - 1)[own], row[occurs]
    values = []
    for name in partition_by:
        array = source.arrow(name, row)
        if pa.types.is_floating(array.type):
            array = pc.if_else(pc.is_nan(array), pa.scalar(None, array.type), array)
        values.append(array.to_pylist())
    return own, list(zip(*values, strict=True)) if partition_by else [()] * len(row)
