"""What Spark's tasks find of a query: frames of matches, of their rows and of their numbers, all lazy."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import pandas as pd

from cepkit.compile.shared.bound_query import BoundQuery
from cepkit.errors import CepError
from cepkit.frames import spark as tasks
from cepkit.frames.spark import EmptySource
from cepkit.language.expressions import trees as ex
from cepkit.language.regex.query import RegexQuery
from cepkit.language.sequences.query import SequenceQuery
from cepkit.planning.planner import Engine
from cepkit.results.spark.aggregates import merged_series, parts_of
from cepkit.results.spark.jobs import clearly, raised

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


class SparkFound(ABC):
    """What Spark's tasks find of a query, as `SparkMatches` asks for it.

    A match is told from others by its place: the order and partition columns at its last event and, where
    several matches end there, its rank among them.
    """

    has_ranks: bool

    def __init__(self, frame: DataFrame, source: EmptySource, program: BoundQuery, engine: Engine):
        self.frame, self.source, self.program, self.engine = frame, source, program, engine
        self._columns = tasks.needed_columns(program, source)
        self.measured = self._run(self._tell_measures)  # the result columns of every match, then its place

    # --- what differs between kinds of queries

    @abstractmethod
    def _run(self, tell: Callable, columns: list[str] | None = None, limit: int | None = None) -> DataFrame:
        """Return what ``tell`` says of the matches of every task, lazily."""

    @property
    @abstractmethod
    def names(self) -> list[str]:
        """Names of the result's columns."""

    @abstractmethod
    def count(self) -> int:
        """Return the exact number of matches; every task counts its own."""

    @abstractmethod
    def any(self) -> bool:
        """Return whether there is a match."""

    @abstractmethod
    def head(self, n: int) -> pd.DataFrame:
        """Return the first ``n`` matches with their measures."""

    @abstractmethod
    def sample(self, n: int, seed: int) -> pd.DataFrame:
        """Return ``n`` matches drawn uniformly without replacement, in their order."""

    @abstractmethod
    def tag(self) -> DataFrame:
        """Return the searched frame with ``match`` and ``variable`` as its last columns."""

    @abstractmethod
    def _ends(self) -> DataFrame:
        """Return the event columns where matches end, ``c0``, ``c1``, …, and last how many end there."""

    @abstractmethod
    def _numbers(self, limit: int | None) -> DataFrame:
        """Return the event columns of matches, ``c0``, ``c1``, …, and the ``number`` of the first there."""

    @abstractmethod
    def _check_aggregates(self, aggregates: Mapping[str, str]) -> None:
        """Raise the error for aggregates that cannot be computed."""

    @abstractmethod
    def _tell_aggregates(self, texts: tuple[str, ...]) -> Callable:
        """Return what a task runs to tell its aggregates."""

    _tell_measures: Callable
    _tell_rows: Callable

    @property
    def query(self) -> RegexQuery | SequenceQuery:
        """The query as a value."""
        return self.program.query

    # --- frames

    def in_order(self, limit: int | None) -> DataFrame:
        """Return a row per match with its measures, sorted in the order of the matches."""
        place = self._place_columns(len(self.names))
        if limit is None:
            # Spark samples what it sorts, and would match for the sample alone: the exchange keeps matches.
            return self._result(self.measured.repartition(*place).orderBy(*place))
        run = self._run(self._tell_measures, limit=limit)
        return self._result(self._numbered(run, place, limit).orderBy("number"))

    def matched_rows(self, columns: list[str], limit: int | None) -> DataFrame:
        """Return ``match``, ``variable`` and these columns of every matched row.

        The rows are sorted by match, then in stream order.
        """
        self._check_free("match", "variable", among=columns)
        rows, place = self._with_rows(self._tell_rows, columns, limit)
        joined = self._joined(rows, place, "inner", limit)
        order = [f"r{1 + columns.index(name)}" for name in self.query.order_by]
        shown = [f"r{i}" for i in range(1, len(columns) + 1)]
        ordered = joined.orderBy("number", *order)
        return ordered.select("number", "r0", *shown).toDF("match", "variable", *columns)

    @property
    def event_names(self) -> list[str]:
        """Names of the partition and order columns, which tell a row."""
        return list(dict.fromkeys((*self.query.partition_by, *self.query.order_by)))

    def count_by_last(self) -> DataFrame:
        """Return ``count``, how many matches end at an event, with the columns that tell the event."""
        names = self.event_names
        self._check_free("count", among=names)
        event = self._event_columns(0)
        column = dict(zip((*self.query.order_by, *self.query.partition_by), event, strict=True))
        ordered = self._ends().repartition(*event).orderBy(*event)
        return ordered.select(*(column[name] for name in names), f"c{len(event)}").toDF(*names, "count")

    def aggregate(self, aggregates: Mapping[str, str]) -> pd.Series:
        """Return aggregates over the events of all matches; every task aggregates its own matches."""
        self._check_aggregates(aggregates)  # its errors, before any job
        parts = {name: parts_of(name, text) for name, text in aggregates.items()}
        trees = [tree for own in parts.values() for tree in own]
        nodes = [node for tree in trees for node in tree.walk()]
        used = {node.name for node in nodes if isinstance(node, ex.Reference | ex.Attribute)}
        used &= set(self.source.names)
        tasks.check_convertible(self.source, used)
        columns = [name for name in self.source.names if name in {*used, *self._columns}]
        run = self._run(self._tell_aggregates(tuple(map(str, trees))), columns)
        values = zip(*(tasks.from_text(row[0]) for row in clearly(run.collect)), strict=True)
        return merged_series(parts, list(map(list, values)) or [[] for _ in trees])

    # --- how the frames are made

    def _event_columns(self, n_before: int, letter: str = "c") -> list[str]:
        """Return the names of the columns that tell the last event of a match, after ``n_before`` others."""
        n_columns = len(self.query.order_by) + len(self.query.partition_by)
        return [f"{letter}{i}" for i in range(n_before, n_before + n_columns)]

    def _place_columns(self, n_before: int, letter: str = "c") -> list[str]:
        """Return the names of the columns that tell a match, after ``n_before`` others."""
        event = self._event_columns(n_before, letter)
        return [*event, f"{letter}{n_before + len(event)}"] if self.has_ranks else event

    def _result(self, run: DataFrame) -> DataFrame:
        return run.select(*(f"c{i}" for i in range(len(self.names)))).toDF(*self.names)

    def _numbered(self, run: DataFrame, place: list[str], limit: int | None = None) -> DataFrame:
        """Return the matches with a last column ``number``; computing one beyond ``limit`` is an error."""
        from pyspark.sql import Window
        from pyspark.sql import functions as F

        up_to_here = Window.orderBy(*place).rowsBetween(Window.unboundedPreceding, Window.currentRow)
        number: Column = F.count(F.lit(1)).over(up_to_here) - F.lit(1)
        numbered = run.withColumn("number", number)
        if limit is None:
            return numbered
        problem = raised("ResultTooLargeError", tasks.too_many(limit))
        number = F.when(F.col("number") >= limit, problem).otherwise(F.col("number"))
        # The condition keeps Spark from leaving out the column where nobody looks at it.
        return numbered.withColumn("number", number).where("number >= 0")

    def _with_rows(self, tell: Callable, columns: list[str], limit: int | None = None):
        """Return rows: their variable ``r0``, ``columns``, the place of their match; and its names."""
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

    def _joined(self, rows: DataFrame, place: list[str], how: str, limit: int | None) -> DataFrame:
        """Join rows with the numbers of their matches; no two matches have the same place."""
        from pyspark.sql import functions as F

        event = self._event_columns(0)
        joined = rows.join(self._numbers(limit), self._same_event(place[: len(event)], event), how)
        if not self.has_ranks:
            return joined
        return joined.withColumn("number", F.col("number") + F.col(place[-1]))

    def _same_event(self, these: list[str], those: list[str]) -> list[Column]:
        """Return the conditions that columns, those of the order first, tell the same event."""
        from pyspark.sql import functions as F

        pairs = [(F.col(this), F.col(that)) for this, that in zip(these, those, strict=True)]
        n_order = len(self.query.order_by)
        return [r == n for r, n in pairs[:n_order]] + [r.eqNullSafe(n) for r, n in pairs[n_order:]]

    def _check_free(self, *names: str, among: list[str] | None = None) -> None:
        for name in names:
            if name in (self.source.names if among is None else among):
                raise CepError(
                    f"the frame has a column {name!r} already; rename it, cepkit adds one of this name"
                )

    def needed(self) -> DataFrame:
        """Return the frame without the columns that the query does not look at."""
        names = self._columns
        return tasks.numbered_columns(self.frame, self.source, names).toDF(*names)
