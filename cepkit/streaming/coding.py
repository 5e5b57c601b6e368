"""Batches of a stream as kernel inputs, with the same dtypes and codes in every batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cepkit.compile.interpreted.columns import column_before_matching
from cepkit.compile.regex.program import Program
from cepkit.compile.shared.bound_query import BoundQuery, Inputs, used_tables
from cepkit.compile.shared.decimals import check_sizes, digits_of, is_exact, with_scale
from cepkit.compile.shared.terms import Exact, Later, Members
from cepkit.errors import UnsupportedQueryError
from cepkit.events import TEXT, Column
from cepkit.frames.arrow import ArrowSource, exact_decimals
from cepkit.frames.building import partition_codes
from cepkit.streaming.batches import stable_column
from cepkit.streaming.values import Key, TextCodes


class CodeMarks:
    """Marks for codes of texts that are needed. Values that may be codes count as codes."""

    def __init__(self, n_codes: int):
        self.is_needed = np.zeros(n_codes, bool)
        self.n_seen = 0

    def add(self, values: np.ndarray) -> None:
        """Mark the codes among these values."""
        self.n_seen += values.size
        self.is_needed[values[(values >= 0) & (values < len(self.is_needed))]] = True


class BatchCoder:
    """Converts tables to columns and kernel inputs of a program; the codes of texts never change."""

    def __init__(self, program: Program):
        _refuse_later_rows(program)
        check_text_orders(program)
        self.codes_of_column = text_codes_of_columns(program)
        # This class codes the texts, so the program needs no common categories.
        self.program = replace(program, text_groups=(), ordered_text=frozenset())
        terms = [t for root in (*program.plan.terms(), *program.plan.slots) for t in root.walk()]
        self._numbers_of_constants = sorted({t.data for t in terms if t.op == "constant"})
        self._constants = [program.constants[i] for i in self._numbers_of_constants]
        self._n_rows = 0  # of decimals so far, which a sum may hold
        self._tables = [program.tables[i] for i in sorted(used_tables(terms))]
        self._inputs: Inputs | None = None
        exact = [derived for derived in program.derived.values() if isinstance(derived, Exact)]
        scales = [program.schema[derived.column].scale or 0 for derived in exact]
        self._scale = max([digits_of(program.constants), *scales])

    def columns(self, source: ArrowSource) -> dict[str, Column]:
        """Return the columns that predicates read, with the rows of ``source``."""
        columns, computed = {}, {}
        for name in self.program.columns:
            derived = self.program.derived.get(name)
            if isinstance(derived, Exact):  # all batches have the scale of the schema
                values = source.arrow(derived.column, np.arange(source.n_rows))
                scale = self.program.schema[derived.column].scale
                columns[name] = exact_decimals(values, derived.column, scale)
                continue
            column = column_before_matching(name, self.program.derived, source, computed)
            column_type = self.program.type_of(name)
            columns[name] = stable_column(column, column_type, name, self.codes_of_column.get(name))
        for name, codes in self.codes_of_column.items():  # a later column may have added texts
            columns[name] = replace(columns[name], categories=codes.texts)
        return with_scale(columns, self._scale)

    def inputs(self, columns: Mapping[str, Column]) -> Inputs:
        """Return the kernel inputs. Only codes whose texts changed since the last call are looked up."""
        if not self.program.compiled:
            return self.program.inputs(columns)
        if self._inputs is None or any(codes.has_changed for codes in self.codes_of_column.values()):
            self._inputs = self._look_up(columns, self._inputs)
        if any(map(is_exact, columns.values())):
            self._n_rows += max(len(column.values) for column in columns.values())
            constants = dict(zip(self._numbers_of_constants, self._inputs.constants, strict=True))
            check_sizes(self.program.terms(), columns, constants, self._n_rows)
        return self._inputs.with_columns(self.program.arrays(columns))

    @property
    def inputs_so_far(self) -> list | None:
        """The arguments of kernels after the columns; None if texts came that they do not know."""
        if self._inputs is None or any(codes.has_changed for codes in self.codes_of_column.values()):
            return None
        return [*self._inputs.constants, *self._inputs.tables, *self._inputs.texts]

    def _look_up(self, columns: Mapping[str, Column], before: Inputs | None) -> Inputs:
        """Return the inputs ``before`` with constants and tables that know the texts of all codes."""
        changed = {codes: codes.take_changed() for codes in self._every}
        news = {}
        for name, column in columns.items():
            news[name] = column.take(slice(0))
            if column.categories is not None:
                changed_codes = changed[self.codes_of_column[name]]
                news[name] = replace(news[name], categories=column.categories[changed_codes])
        inputs = self.program.inputs(news)
        constants = list(inputs.constants)
        for i, constant in enumerate(self._constants):
            if constant.text is not None:
                changed_codes, new = changed[self.codes_of_column[constant.column]], int(inputs.constants[i])
                constants[i] = int(changed_codes[new]) if new >= 0 else before.constants[i] if before else new
        tables = list(inputs.tables)
        for i, table in enumerate(self._tables):
            if not isinstance(table, Members):
                codes = self.codes_of_column[table.column]
                tables[i] = np.zeros(len(codes) + 1, np.uint8)
                if before is not None:
                    tables[i][: len(before.tables[i])] = before.tables[i]
                tables[i][changed[codes] + 1] = inputs.tables[i][1:]
        return replace(inputs, constants=tuple(constants), tables=tuple(tables))

    @property
    def _every(self) -> set[TextCodes]:
        """The codes of all columns; compared columns share theirs."""
        return set(self.codes_of_column.values())

    # --- forgetting

    @property
    def is_due(self) -> bool:
        """Whether a look for texts that nothing needs pays."""
        return any(codes.is_due for codes in self._every)

    def new_marks(self) -> CodeMarks:
        """Return marks for codes that are needed, with those of constants."""
        marks = CodeMarks(max((len(codes) for codes in self._every), default=0))
        for constant in self.program.constants:
            if constant.text is not None:
                code = self.codes_of_column[constant.column].code_of_text.get(constant.text)
                marks.add(np.array([] if code is None else [code], np.int64))
        return marks

    def forget(self, marks: CodeMarks) -> None:
        """Forget the texts of all codes without a mark."""
        for codes in self._every:
            codes.forget(marks.is_needed, marks.n_seen)

    # --- saving

    def pack(self) -> dict[str, pa.Table]:
        """Return the texts by code; one table per shared list, named after its first column."""
        packed = {}
        for name, codes in self.codes_of_column.items():
            if self._first_column(codes) == name:
                packed[name] = codes.pack()
        return packed

    def unpack(self, packed: Mapping[str, pa.Table]) -> None:
        for name, table in packed.items():
            self.codes_of_column[name].unpack(table)

    def _first_column(self, codes: TextCodes) -> str:
        return next(name for name, column_codes in self.codes_of_column.items() if column_codes is codes)


def _refuse_later_rows(program: BoundQuery) -> None:
    if later := next((name for name, derived in program.derived.items() if isinstance(derived, Later)), None):
        raise UnsupportedQueryError(
            f"{later} reads a row that a stream does not have yet. Add a name for that row to the pattern, "
            "and compare it with prev(x) there"
        )


def check_text_orders(program: BoundQuery) -> None:
    """Refuse a query that orders texts of columns without common ordered categories."""
    for group in program.text_groups:
        orders = {program.type_of(name).ordered for name in group}
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
        column_type = program.type_of(name)
        if column_type.kind != TEXT or name in codes_of:
            continue
        group = sorted(next((g for g in groups if name in g), {name}))
        orders = {program.type_of(column).ordered for column in group}
        order = next(iter(orders)) if len(orders) == 1 else None
        codes = TextCodes(order or ())
        codes_of |= {column: codes for column in group if column in program.columns}
    return codes_of


def keys_of_batch(source: ArrowSource, partition_by: tuple[str, ...]) -> tuple[np.ndarray, list[Key]]:
    """Return the index of each event's key, and the distinct keys of a batch; null equals NaN."""
    key_of_event, n_keys = partition_codes(source, partition_by)
    row = np.full(n_keys, -1, np.int64)
    row[key_of_event[::-1]] = np.arange(len(key_of_event))[::-1]
    occurs = row >= 0
    if not occurs.all():
        key_of_event, row = (np.cumsum(occurs) - 1)[key_of_event], row[occurs]
    values = []
    for name in partition_by:
        array = source.arrow(name, row)
        if pa.types.is_floating(array.type):
            array = pc.if_else(pc.is_nan(array), pa.scalar(None, array.type), array)
        values.append(array.to_pylist())
    return key_of_event, list(zip(*values, strict=True)) if partition_by else [()] * len(row)
