"""The matches of a query in a Spark frame: lazy, counted and turned into frames by the cluster."""

from __future__ import annotations

import html
import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pandas as pd
import pyarrow as pa

from cepkit import errors
from cepkit.compile.shared.bound_query import Bound
from cepkit.engines.measures.regex_measures import measure_expressions
from cepkit.errors import CepError, OrderError, UnsupportedQueryError, warn, whole_number
from cepkit.events import ColumnType
from cepkit.frames import spark as tasks
from cepkit.frames.spark import EmptySource
from cepkit.language.regex.query import RegexQuery
from cepkit.language.sequences.query import SequenceQuery
from cepkit.planning.planner import Engine, choose_engine
from cepkit.planning.validation import compile_checked

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from cepkit.explorer.explorer import Explorer
    from cepkit.widgets.lineage_view import LineageView

T = TypeVar("T")
Q = TypeVar("Q", RegexQuery, SequenceQuery)


def schema_of(frame: DataFrame) -> dict[str, ColumnType]:
    """Return the column types of a Spark frame; no job runs."""
    return EmptySource(frame).schema


def match(frame: DataFrame, value: RegexQuery, engine: str = "auto") -> SparkMatches:
    """Bind a query to a Spark frame, with every check that needs no look at the rows; see `cepkit.match`.

    Raises
    ------
    OrderError
        Without ``order_by``, or when a column of it has no order.
    UnsupportedQueryError
        For a streaming frame, and for functions that are not declared pure.
    CepError
        Of the kinds of `cepkit.match`, in the same words.

    Warns
    -----
    CepWarning
        Without ``partition_by``: the whole frame goes through one task.
    """
    program, source = bound_to(frame, value)
    matches = SparkMatches(frame, source, program, choose_engine(program, engine))
    if not value.partition_by:
        warn_of_one_task()
    repair_workers(frame)
    return matches


def bound_to(frame: DataFrame, value: Q) -> tuple[Bound, EmptySource]:
    """Return a query bound to a Spark frame, and the columns of this; no job runs. Raises as `match`."""
    if frame.isStreaming:
        raise UnsupportedQueryError(
            "a streaming DataFrame has no end, and this version matches frames that have one; "
            "write the stream to a table and match that"
        )
    if not value.order_by:
        raise OrderError(
            "order_by is missing: a Spark frame has no order of rows; name the columns that put the events "
            "of a partition into one: a time, completed by further columns where times repeat"
        )
    source = EmptySource(frame)
    _check_functions(dict(value.functions))
    program = compile_checked(value, source)
    if late := program.functions.keys() - dict(value.functions).keys():  # registered after the query was made
        functions = (*value.functions, *((name, program.functions[name]) for name in sorted(late)))
        program = replace(program, query=replace(value, functions=functions))
    _check_functions(program.functions)
    return program, source


def warn_of_one_task(or_with: str = "") -> None:
    """Warn that the whole frame goes through one task; ``or_with`` is another way out beside partitions."""
    warn(
        "without partition_by all events are one stream, which one Spark task has to hold and match alone; "
        f"with partition_by{or_with and ' or ' + or_with} the tasks share the work",
    )


def repair_workers(frame: DataFrame) -> None:
    """Let the session's workers run this Python where that can be set."""
    from cepkit.pipelines.spark_session import worker_python

    worker_python(frame.sparkSession)


def _check_functions(functions: dict[str, object]) -> None:
    from pyspark import cloudpickle

    impure = [name for name, function in functions.items() if not function.pure]
    if impure:
        raise UnsupportedQueryError(
            f"{impure} is not declared pure, and on Spark several processes evaluate the events, some of "
            "them twice; declare it with @cep.pure if its result depends on its arguments alone"
        )
    for name, function in functions.items():
        try:
            cloudpickle.dumps(function.call)
        except Exception as error:  # whatever the object's own pickling raises
            raise CepError(
                f"function {name!r} cannot be sent to Spark's workers: {type(error).__name__}: {error}"
            ) from error


class LazyMatches(ABC):
    """What can be asked of the matches in a Spark frame whatever the kind of query.

    A match is told from others by its place: the order and partition columns at its last event and, where
    several matches end there, its rank among them.
    """

    has_ranks: bool

    def __init__(self, frame: DataFrame, source: EmptySource, program: Bound, engine: Engine):
        self._frame, self._source, self._program, self.engine = frame, source, program, engine
        self._columns = tasks.needed_columns(program, source)
        self._measured = self._run(self._tell_measures)

    @abstractmethod
    def _run(self, tell: Callable, columns: list[str] | None = None, limit: int | None = None) -> DataFrame:
        """Return what ``tell`` says of the matches of every task, lazily."""

    @property
    @abstractmethod
    def _names(self) -> list[str]:
        """Names of the result's columns."""

    @abstractmethod
    def _numbers(self, limit: int | None) -> DataFrame:
        """Return the event columns of matches, ``c0``, ``c1``, …, and the ``number`` of the first there."""

    _tell_measures: Callable
    _tell_rows: Callable

    @property
    def query(self) -> RegexQuery | SequenceQuery:
        """The query as a value."""
        return self._program.query

    # --- frames

    def to_frame(self, rows: str = "one", *, limit: int | None = None) -> DataFrame:
        """Return the matches as a Spark frame; no job runs before its rows are asked for.

        Parameters
        ----------
        rows : str
            ``"one"``: one row per match with the partition columns and the measures; ``"all"``: the matched
            rows of the frame with ``match`` (its number) and ``variable`` (the name in the pattern that the
            row stands for, ``"."`` for any event) in front.
        limit : int, optional
            The largest number of matches wanted; when there are more, the job that computes the frame fails
            with an error that says so.

        Returns
        -------
        pyspark.sql.DataFrame
            Sorted in the order of the matches; within a match in stream order.

        Notes
        -----
        ``"all"`` matches twice: for the rows, and for the numbers of the matches, whose places in the order
        (not their rows) one task sorts.
        """
        if rows not in ("one", "all"):
            raise CepError(f"rows={rows!r}: write 'one' (a row per match) or 'all' (the matched rows)")
        if rows == "all":
            return self._matched_rows(self._source.names, limit)
        place = self._place_columns(len(self._names))
        if limit is None:
            # Spark samples what it sorts, and would match for the sample alone: the exchange keeps matches.
            return self._result(self._measured.repartition(*place).orderBy(*place))
        run = self._run(self._tell_measures, limit=limit)
        return self._result(self._numbered(run, place, limit).orderBy("number"))

    def lineage(self) -> DataFrame:
        """Return which row stands for what: one line per matched row, as a lazy Spark frame.

        Returns
        -------
        pyspark.sql.DataFrame
            ``match``, ``variable``, and the partition and order columns, which tell the row; by match, then
            in stream order.
        """
        return self._matched_rows(list(dict.fromkeys((*self.query.partition_by, *self.query.order_by))), None)

    # --- how the frames are made

    def _event_columns(self, behind: int, letter: str = "c") -> list[str]:
        """Names of the columns that tell the last event of a match, behind so many others."""
        n_columns = len(self.query.order_by) + len(self.query.partition_by)
        return [f"{letter}{i}" for i in range(behind, behind + n_columns)]

    def _place_columns(self, behind: int, letter: str = "c") -> list[str]:
        """Names of the columns that tell a match."""
        event = self._event_columns(behind, letter)
        return [*event, f"{letter}{behind + len(event)}"] if self.has_ranks else event

    def _result(self, run: DataFrame) -> DataFrame:
        return run.select(*(f"c{i}" for i in range(len(self._names)))).toDF(*self._names)

    def _numbered(self, run: DataFrame, place: list[str], limit: int | None = None) -> DataFrame:
        """Return the matches with their ``number`` behind; computing one beyond ``limit`` is an error."""
        from pyspark.sql import Window
        from pyspark.sql import functions as F

        up_to_here = Window.orderBy(*place).rowsBetween(Window.unboundedPreceding, Window.currentRow)
        number: Column = F.count(F.lit(1)).over(up_to_here) - F.lit(1)
        numbered = run.withColumn("number", number)
        if limit is None:
            return numbered
        problem = F.raise_error(F.lit(f"cepkit.errors.ResultTooLargeError: {tasks.too_many(limit)}"))
        number = F.when(F.col("number") >= limit, problem.cast("bigint")).otherwise(F.col("number"))
        # The condition keeps Spark from leaving out the column where nobody looks at it.
        return numbered.withColumn("number", number).where("number >= 0")

    def _with_rows(self, tell: Callable, columns: list[str], limit: int | None = None):
        """Return rows: their variable ``r0``, ``columns``, the place of their match; and its names."""
        tasks.check_convertible(self._source, columns)
        for name in columns:
            if name in self._source.duplicates:
                raise CepError(f"column {name!r} occurs more than once; rename or drop one of them")
        wanted = [name for name in self._source.names if name in {*columns, *self._columns}]
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

    def _matched_rows(self, columns: list[str], limit: int | None) -> DataFrame:
        self._check_free("match", "variable", among=columns)
        rows, place = self._with_rows(self._tell_rows, columns, limit)
        joined = self._joined(rows, place, "inner", limit)
        order = [f"r{1 + columns.index(name)}" for name in self.query.order_by]
        shown = [f"r{i}" for i in range(1, len(columns) + 1)]
        ordered = joined.orderBy("number", *order)
        return ordered.select("number", "r0", *shown).toDF("match", "variable", *columns)

    def _check_free(self, *names: str, among: list[str] | None = None) -> None:
        for name in names:
            if name in (self._source.names if among is None else among):
                raise CepError(
                    f"the frame has a column {name!r} already; rename it, cepkit adds one of this name"
                )

    def explore(self) -> Explorer:
        """Open the pattern explorer on the query and a sample of the frame; see `cepkit.explore`."""
        from cepkit.explorer.explorer import Explorer  # the widgets' packages load with the first explorer

        return Explorer(self._frame, self.query)

    def view(self, what: str = "lineage", **settings: Any) -> LineageView:
        """Return a view of the matches in a part of the frame that is small enough to be looked into.

        Parameters
        ----------
        what : str
            ``"lineage"``: the matches page by page, with their events and what they share.
        **settings
            ``rows``: of the part, 100,000 at most; of the view: ``title``, ``size`` of a page.

        Returns
        -------
        LineageView
            Its ``part`` says which part: all rows of some keys, or the earliest events; empty when it is all.
            Numbers of matches and positions of events are those in the part.

        Notes
        -----
        Spark counts the frame and hands over the part's columns that the query reads; the search in it, and
        that of every page, takes place here. The part is chosen as that of `explore`.

        See Also
        --------
        cepkit.view
        """
        from cepkit.views import view

        return view(self, what, **settings)

    def needed(self) -> DataFrame:
        """Return the frame without the columns that the query does not look at."""
        names = self._columns
        return tasks.numbered_columns(self._frame, self._source, names).toDF(*names)

    # --- reprs

    def _lines(self) -> tuple[str, str]:
        by = f", partitioned by {', '.join(self.query.partition_by)}" if self.query.partition_by else ""
        columns = zip(self._names, self._measured.schema, strict=False)
        shown = ", ".join(f"{name}: {field.dataType.simpleString()}" for name, field in columns)
        return (
            f"matches of {str(self.query.pattern)!r} in a Spark frame{by}: {shown}",
            "nothing has run yet: head(), count() and the rows of to_frame() start Spark jobs",
        )

    def __repr__(self) -> str:
        return "\n".join(self._lines())

    def _repr_html_(self) -> str:
        what, lazy = map(html.escape, self._lines())
        return f"<p><b>{what}</b></p><p>{lazy}</p>"


class SparkMatches(LazyMatches):
    """The matches of a query in a Spark frame, in the order of their last event.

    Made by ``df.cep.match``. Nothing runs before it is asked for, and every question runs the query again;
    ``to_frame()`` can be cached or written as any frame.

    Notes
    -----
    The order of matches is that of ``order_by`` at their last event. Matches of different partitions that are
    equal in it stand in the order of ``partition_by``, null first; pandas decides by the row's place in the
    frame, which Spark does not know. A match's number is its place in this order, from 0.
    """

    has_ranks = False
    _tell_measures = staticmethod(tasks.measured)
    _tell_rows = staticmethod(tasks.matched_rows)

    # --- how many

    def count(self) -> int:
        """Return the exact number of matches; every task counts its own."""
        from pyspark.sql import functions as F

        counts = self._run(tasks.counted)
        return clearly(lambda: counts.agg(F.sum("c0")).first()[0]) or 0

    def __len__(self) -> int:
        return self.count()

    def __bool__(self) -> bool:
        return not clearly(self._run(tasks.placed).isEmpty)

    # --- a look

    def head(self, n: int = 5) -> pd.DataFrame:
        """Return the first ``n`` matches as a pandas DataFrame."""
        return collected(self.to_frame().limit(whole_number("n", n)))

    def sample(self, n: int, seed: int = 0) -> pd.DataFrame:
        """Return ``n`` matches drawn uniformly without replacement as a pandas DataFrame, in their order.

        Parameters
        ----------
        n : int
            All matches when there are no more; the numbers drawn are sent to Spark, so think of thousands.
        seed : int
            The same seed draws the same matches, here and from a pandas frame.
        """
        total = self.count()
        drawn = np.random.default_rng(seed).choice(total, size=min(n, total), replace=False)
        numbered = self._numbered(self._measured, self._place_columns(len(self._names)))
        chosen = numbered.where(numbered["number"].isin(drawn.tolist()))
        return collected(self._result(chosen.orderBy("number")))

    def tag(self) -> DataFrame:
        """Return the frame that was searched with ``match`` and ``variable`` behind, null where none.

        Returns
        -------
        pyspark.sql.DataFrame
            Lazy, with the rows in no particular order. It matches twice, as ``to_frame("all")`` does.
        """
        self._check_free("match", "variable")
        rows, place = self._with_rows(tasks.tagged, self._source.names)
        joined = self._joined(rows, place, "left", None)
        columns = [f"r{i}" for i in range(1, len(self._source.names) + 1)]
        return joined.select(*columns, "number", "r0").toDF(*self._source.names, "match", "variable")

    # --- how the frames are made

    def _run(self, tell: tasks.Emit, columns: list[str] | None = None, limit: int | None = None) -> DataFrame:
        columns = self._columns if columns is None else columns
        return tasks.run_tasks(self._frame, self._source, self._program, columns, tell, limit=limit)

    @property
    def _names(self) -> list[str]:
        return [*self.query.partition_by, *(name for name, _ in measure_expressions(self.query))]

    def _numbers(self, limit: int | None) -> DataFrame:
        return self._numbered(self._run(tasks.placed, limit=limit), self._event_columns(0), limit)


def collected(frame: DataFrame) -> pd.DataFrame:
    """Return the rows of a Spark frame; integers and booleans with nulls stay what they are."""
    table: pa.Table = clearly(frame.toArrow)
    nullable = dict.fromkeys((pa.int8(), pa.int16(), pa.int32(), pa.int64()), pd.Int64Dtype())
    nullable[pa.bool_()] = pd.BooleanDtype()
    columns = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        columns[name] = column.to_pandas(types_mapper=nullable.get if column.null_count else None)
    return pd.DataFrame(columns, columns=table.column_names)


def clearly(job: Callable[[], T]) -> T:
    """Run a job; an error that cepkit raised in a task is raised as itself, out of Spark's wrapping."""
    from pyspark.errors import PySparkException

    try:
        return job()
    except PySparkException as error:
        found = re.search(r"cepkit\.errors\.(\w+): (.*)", str(error))
        if found is None:
            raise
        raise getattr(errors, found[1])(found[2].strip()) from None
