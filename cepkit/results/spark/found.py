"""Lazy Spark frames of the matches of a query, of their rows, their numbers and aggregates."""

from __future__ import annotations

import html
import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import pandas as pd

from cepkit.compile.regex.program import Program
from cepkit.compile.sequences.program import SequenceProgram
from cepkit.errors import CepError, ResultTooLargeError
from cepkit.frames.arrow import check_free
from cepkit.frames.spark import tasks
from cepkit.frames.spark.tasks import EmptySource
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.parsing import parse_expression
from cepkit.language.regex.query import RegexQuery
from cepkit.language.sequences.query import SequenceQuery
from cepkit.planning.planner import Engine
from cepkit.results.found import FoundResult, Limit, check_exact, limit_of, number_of
from cepkit.results.spark.jobs import refuse, run_job

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType


# Aggregates on Spark: the partial aggregates of the tasks, and how they are merged.


def parts_of(name: str, text: str) -> list[ex.Aggregate]:
    """Return the aggregates that the tasks compute for one aggregate; an average is a sum and a count."""
    tree = parse_expression(text, role=f"aggregate {name!r}", references=True)
    assert isinstance(tree, ex.Aggregate)  # results refuse other texts before
    functions = ("sum", "count") if tree.function == "avg" else (tree.function,)
    return [replace(tree, function=function) for function in functions]


def merge_series(
    parts: Mapping[str, list[ex.Aggregate]], values_of_part: list[list[int | float | None]]
) -> pd.Series:
    """Return the aggregates by name.

    ``parts`` come from `parts_of`. ``values_of_part`` has one list per part, with one value per task.

    """
    aggregates, begin = {}, 0
    for name, aggregate_parts in parts.items():
        aggregates[name] = _merge(aggregate_parts, values_of_part[begin : begin + len(aggregate_parts)])
        begin += len(aggregate_parts)
    return pd.Series(aggregates, dtype=object)


def _merge(parts: list[ex.Aggregate], values: list[list[int | float | None]]) -> int | float | None:
    """Return one aggregate from the values of its parts in every task."""
    present = [[value for value in of_part if value is not None] for of_part in values]
    if len(parts) == 2:
        total, n = _sum(present[0]), sum(present[1])
        if not n or total in (math.inf, -math.inf) or total != total:
            return total if n else None
        return float(Fraction(total) / n)
    if parts[0].function == "count":
        return sum(present[0])
    if not present[0]:
        return None
    return {"sum": _sum, "min": min, "max": max}[parts[0].function](present[0])


def _sum(values: list[int | float]) -> int | float:
    """Return the sum, which does not depend on the order; sums of integers are exact."""
    if all(isinstance(value, float) and math.isfinite(value) for value in values):
        return math.fsum(values)
    return sum(values)


# Lazy Spark frames of the matches of a query, of their rows and of their numbers.

ONE_BY_ONE = (
    "matches in a Spark frame are not taken one by one: Spark's machines compute them, and there may be any "
    "number of them; use head() or sample() for some, or iterate over to_frame().toLocalIterator()"
)
IN_PARTS = (
    "chunks(): the matches in a Spark frame lie in partitions of its own; iterate over "
    "to_frame().toLocalIterator(), or write to_frame() to a table and read that in parts"
)
BY_TASKS = (
    "write_parquet(): the tasks of Spark write the matches of a Spark frame, each its own part: "
    "matches.to_frame().write.parquet(path)"
)
NOT_DRAWN = (
    "plot() draws the rows of a frame in memory, and a Spark frame may have any number; view() and explore() "
    "show a part of it, or take a part yourself: df.limit(…) or df.filter(…), then "
    "toPandas().cep.match(…).plot()"
)
REFUSALS = {
    **dict.fromkeys(("take", "match", "narrow", "matches"), ONE_BY_ONE),
    "chunks": IN_PARTS, "write_parquet": BY_TASKS, "plot": NOT_DRAWN,
}  # fmt: skip

OneProgram = TypeVar("OneProgram", Program, SequenceProgram)


class SparkFound(FoundResult, Generic[OneProgram]):
    """The matches of a query that Spark's tasks find.

    The place of a match identifies it: the order and partition columns at its last event and, if several
    matches can end there, its rank among them.

    """

    is_in_memory = False
    refusals: ClassVar = REFUSALS
    has_ranks: bool

    def __init__(self, frame: DataFrame, source: EmptySource, program: OneProgram, engine: Engine):
        self._frame, self.source, self.program, self.engine = frame, source, program, engine
        self._columns = tasks.needed_columns(program, source)
        self.measured = self._run(self._tell_measures)  # result columns of every match, then its place

    # --- what differs between kinds of queries

    @abstractmethod
    def _run(self, tell: Callable, columns: list[str] | None = None, limit: int | None = None) -> DataFrame:
        """Return a lazy frame of the rows that ``tell`` yields for the matches of every task."""

    @property
    @abstractmethod
    def names(self) -> list[str]:
        """Names of the result's columns."""

    @abstractmethod
    def n_matches(self) -> int:
        """Return the exact number of matches; every task counts its own."""

    @abstractmethod
    def _ends(self) -> DataFrame:
        """Return the columns of events where matches end, ``c0``, ``c1``, …, and last their number."""

    @abstractmethod
    def _numbers(self, limit: int | None) -> DataFrame:
        """Return the event columns of matches, ``c0``, ``c1``, …, and the ``number`` of the first match."""

    @abstractmethod
    def _check_aggregates(self, aggregates: Mapping[str, str]) -> None:
        """Raise `CepError` for aggregates that cannot be computed."""

    @abstractmethod
    def _tell_aggregates(self, texts: tuple[str, ...]) -> Callable:
        """Return the function that a task calls to compute its aggregates."""

    _tell_measures: Callable
    _tell_rows: Callable

    @property
    def query(self) -> RegexQuery | SequenceQuery:
        """The query as a value."""
        return self.program.query

    @property
    def frame(self) -> DataFrame:
        """The frame that was searched."""
        return self._frame

    def count(self, method: str = "exact", samples: int = 10_000, seed: int = 0) -> int:
        """Return the exact number of matches."""
        check_exact(
            method,
            "matches in a Spark frame are counted exactly; for an estimate, match a part of the events: "
            "df.limit(…) or df.filter(…), then toPandas().cep.match(…)",
        )
        return self.n_matches()

    def drawn(self, what: str) -> Any:
        """Return these matches for a view, which shows a part of the frame; nothing else draws them."""
        return self if what == "view" else self.refuse(what)

    def text(self) -> str:
        """Return the pattern and the columns of the result; no job runs."""
        return text_of_lazy(self.query, self.names, self.measured)

    def html(self) -> str:
        """Return the text as HTML."""
        what, lazy = map(html.escape, self.text().split("\n"))
        return f"<p><b>{what}</b></p><p>{lazy}</p>"

    # --- frames

    def to_frame(self, rows: str = "one", limit: Limit = "auto") -> DataFrame:
        """Return the matches as a lazy frame."""
        most = limit_of(limit, None)
        return self.in_order(most) if rows == "one" else self.matched_rows(self.source.names, most)

    def lineage(self, number: int | None, limit: Limit) -> DataFrame:
        """Return one row per matched row as a lazy frame."""
        if number is None:
            return self.matched_rows(self.event_names, limit_of(limit, None))
        return self.matched_rows(self.event_names, None, number_of(number, self.count()))

    def in_order(self, limit: int | None) -> DataFrame:
        """Return a row per match with its measures, in match order."""
        place = self._place_columns(len(self.names))
        if limit is None:
            # Spark samples before it sorts, and would match again for the sample; the exchange keeps rows.
            return self._result(self.measured.repartition(*place).orderBy(*place))
        run = self._run(self._tell_measures, limit=limit)
        return self._result(self._with_numbers(run, place, limit).orderBy("number"))

    def matched_rows(self, columns: list[str], limit: int | None, number: int | None = None) -> DataFrame:
        """Return ``match``, ``variable`` and these columns of the matched rows, by match, in stream order.

        ``number`` is the only match wanted; None for all matches.

        """
        check_free(("match", "variable"), columns)
        rows, place = self._with_rows(self._tell_rows, columns, limit)
        joined = self._join(rows, place, "inner", limit)
        if number is not None:
            joined = joined.where(joined["number"] == number)
        order = [f"r{1 + columns.index(name)}" for name in self.query.order_by]
        shown = [f"r{i}" for i in range(1, len(columns) + 1)]
        ordered = joined.orderBy("number", *order)
        return ordered.select("number", "r0", *shown).toDF("match", "variable", *columns)

    @property
    def event_names(self) -> list[str]:
        """Names of the partition and order columns, which identify a row."""
        return list(dict.fromkeys((*self.query.partition_by, *self.query.order_by)))

    def count_by_last(self) -> DataFrame:
        """Return the number of matches that end at each event, with the columns that identify the event."""
        names = self.event_names
        check_free(("count",), names)
        event = self._event_columns(0)
        column = dict(zip((*self.query.order_by, *self.query.partition_by), event, strict=True))
        ordered = self._ends().repartition(*event).orderBy(*event)
        return ordered.select(*(column[name] for name in names), f"c{len(event)}").toDF(*names, "count")

    def aggregate(self, aggregates: Mapping[str, str]) -> pd.Series:
        """Return aggregates over the events of all matches; every task aggregates its own matches."""
        self._check_aggregates(aggregates)  # before any job
        parts = {name: parts_of(name, text) for name, text in aggregates.items()}
        trees = [tree for aggregate_parts in parts.values() for tree in aggregate_parts]
        nodes = [node for tree in trees for node in tree.walk()]
        used = {node.name for node in nodes if isinstance(node, ex.Reference | ex.Attribute)}
        used = set(self.source.names) & used
        tasks.check_convertible(self.source, used)
        columns = [name for name in self.source.names if name in {*used, *self._columns}]
        run = self._run(self._tell_aggregates(tuple(map(str, trees))), columns)
        values = zip(*(tasks.from_text(row[0]) for row in run_job(run.collect)), strict=True)
        return merge_series(parts, list(map(list, values)) or [[] for _ in trees])

    # --- how the frames are made

    def _event_columns(self, n_before: int, letter: str = "c") -> list[str]:
        """Return the columns that identify the last event of a match, numbered from ``n_before``."""
        n_columns = len(self.query.order_by) + len(self.query.partition_by)
        return [f"{letter}{i}" for i in range(n_before, n_before + n_columns)]

    def _place_columns(self, n_before: int, letter: str = "c") -> list[str]:
        """Return the columns that identify a match, numbered from ``n_before``."""
        event = self._event_columns(n_before, letter)
        return [*event, f"{letter}{n_before + len(event)}"] if self.has_ranks else event

    def _result(self, run: DataFrame) -> DataFrame:
        return run.select(*(f"c{i}" for i in range(len(self.names)))).toDF(*self.names)

    def _with_numbers(self, run: DataFrame, place: list[str], limit: int | None = None) -> DataFrame:
        """Add the column ``number`` to the matches; a number beyond ``limit`` is an error of the job."""
        from pyspark.sql import Window
        from pyspark.sql import functions as F

        up_to_here = Window.orderBy(*place).rowsBetween(Window.unboundedPreceding, Window.currentRow)
        number: Column = F.count(F.lit(1)).over(up_to_here) - F.lit(1)
        numbered = run.withColumn("number", number)
        if limit is None:
            return numbered
        return refuse(numbered, F.col("number") >= limit, ResultTooLargeError, tasks.too_many(limit))

    def _with_rows(
        self, tell: Callable, columns: list[str], limit: int | None = None
    ) -> tuple[DataFrame, list[str]]:
        """Return matched rows (variable ``r0``, ``columns``, place of the match) and the place's columns."""
        tasks.check_convertible(self.source, columns)
        for name in columns:
            if name in self.source.duplicates:
                raise CepError(f"column {name!r} occurs more than once; rename or drop one of them")
        wanted = [name for name in self.source.names if name in {*columns, *self._columns}]
        run = self._run(tell, wanted, limit)
        first_place = 1 + len(wanted)
        place = self._place_columns(first_place)
        run = run.select("c0", *(f"c{1 + wanted.index(name)}" for name in columns), *place)
        run = run.toDF(*(f"r{i}" for i in range(1 + len(columns) + len(place))))
        return run, self._place_columns(1 + len(columns), "r")

    def _join(self, rows: DataFrame, place: list[str], how: str, limit: int | None) -> DataFrame:
        """Join rows with the numbers of their matches; no two matches have the same place."""
        from pyspark.sql import functions as F

        event = self._event_columns(0)
        joined = rows.join(self._numbers(limit), self._same_event(place[: len(event)], event), how)
        if not self.has_ranks:
            return joined
        return joined.withColumn("number", F.col("number") + F.col(place[-1]))

    def _same_event(self, these: list[str], those: list[str]) -> list[Column]:
        """Return the conditions that two lists of columns, order columns first, identify the same event."""
        from pyspark.sql import functions as F

        types = {field.name: field.dataType for field in self.source.fields}
        names = (*self.query.order_by, *self.query.partition_by)
        # A collation may take two texts for one, and tasks do not: they compare the bytes.
        exact = [
            (lambda name: F.col(name).cast("binary")) if is_collated(types[column]) else F.col
            for column in names
        ]
        pairs = [
            (convert(this), convert(that)) for convert, this, that in zip(exact, these, those, strict=True)
        ]
        n_order = len(self.query.order_by)
        return [r == n for r, n in pairs[:n_order]] + [r.eqNullSafe(n) for r, n in pairs[n_order:]]

    def needed_columns(self) -> DataFrame:
        """Return the frame with only the columns that the query reads."""
        names = self._columns
        return tasks.numbered_columns(self._frame, self.source, names).toDF(*names)


def is_collated(of: DataType) -> bool:
    """Return whether two different texts of a type may be equal."""
    return getattr(of, "collation", "UTF8_BINARY") != "UTF8_BINARY"


def text_of_lazy(query: Any, names: Iterable[str], run: DataFrame, where: str = "a Spark frame") -> str:
    """Return the pattern of a query and the columns of its lazy result."""
    by = f", partitioned by {', '.join(query.partition_by)}" if query.partition_by else ""
    columns = zip(names, run.schema, strict=False)
    shown = ", ".join(f"{name}: {field.dataType.simpleString()}" for name, field in columns)
    return (
        f"matches of {str(query.pattern)!r} in {where}{by}: {shown}\n"
        "nothing has run yet: head(), count() and the rows of to_frame() start Spark jobs"
    )
