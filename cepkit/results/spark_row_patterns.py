"""MATCH_RECOGNIZE and WINDOW on Spark frames: lazy jobs in which each task searches whole partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd
import pyarrow as pa

from cepkit.engines.match_recognize.bound import bind_row_query, bind_window
from cepkit.engines.match_recognize.found_rows import RowOrder
from cepkit.engines.regex_measures import Measured, Picked
from cepkit.errors import CepError, UnsupportedQueryError, warn
from cepkit.events import ColumnType, Events, plain_values
from cepkit.frames.arrow import ArrowSource, check_free
from cepkit.frames.spark import (
    EmptySource,
    Order,
    PartTask,
    Results,
    check_convertible,
    check_keys,
    check_ordered,
    check_total_order,
    key_columns,
    numbered_columns,
    rows_by_key,
    run_tasks,
)
from cepkit.language.expressions import trees as ex
from cepkit.language.match_recognize.query import (
    RowPatternQuery,
    SelectedRows,
    SortKey,
    UserCall,
    WindowedRows,
    clauses_that_drop,
)
from cepkit.pipelines.spark_session import worker_python
from cepkit.results.found import FoundResult, FoundTable, Limit, check_exact, limit_of, number_of
from cepkit.results.in_memory import in_arrow
from cepkit.results.row_pattern_search import RowPatternSearch, match_of_item, place_of_item, row_of_item
from cepkit.results.rows_in_memory import (
    NO_AGGREGATES,
    NO_MATCHES,
    ROWS_CURE,
    ROWS_ENGINE,
    SEVERAL_MATCHES,
    RowWindowSearch,
    check_times_out,
    kept_rows,
)
from cepkit.results.spark_binding import check_functions
from cepkit.results.spark_found import REFUSALS, of_all_columns, text_of_lazy
from cepkit.results.spark_tasks import collect, largest_key, run_job, warn_of_key
from cepkit.values import dataclass, replace

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


# The work of the tasks of Spark for MATCH_RECOGNIZE: each searches whole partitions.

Told = list[tuple[str, Measured]]
Tell = Callable[[RowPatternSearch], Told]


LATEST = "latest time"  # the name of a column


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsTask(PartTask):
    """A task that searches the rows of MATCH_RECOGNIZE."""

    # With ``has_latest`` the last column is the latest time of the whole table, in each row.

    query: RowPatternQuery | SelectedRows
    params: Mapping[str, Any] | None
    tell: Tell
    has_latest: bool = False
    complete_until: Any = None
    undecided: bool = False

    def search(
        self, prepared: Any, table: pa.Table, low: Any, high: Any
    ) -> Iterator[tuple[ArrowSource, Results]]:
        """Yield the rows of a task and what it reports of their matches."""
        latest = None
        if self.has_latest:
            last = len(self.columns) - 1
            name = self.columns[last]
            latest = plain_values(ArrowSource(table.select([last]).slice(0, 1)).column(name))[0]
            table = table.remove_column(last)
        source = ArrowSource(table)
        bound = bind_row_query(self.query, source.schema, self.params, self.complete_until)
        search = RowPatternSearch(replace(bound, undecided=self.undecided), source, latest)
        check_order(source, search.order, bound.query.partition_by, bound.query.keys)
        yield source, self.tell(search)


def check_order(
    source: ArrowSource, order: RowOrder, partition_by: tuple[str, ...], order_by: Sequence[SortKey]
) -> None:
    """Raise `OrderError` for rows of one partition that are equal in ORDER BY."""
    n, sizes = order.n_partitions, np.diff(order.first_place_of_partition)
    partition = np.repeat(np.arange(n, dtype=np.int32), sizes)
    rows = None if order.row_of_place is None else order.rows_between(0, order.n_places)
    events = Events(source.n_rows, {}, partition, n, rows)
    check_total_order(source, events, Order(partition_by, tuple(key.column for key in order_by)))


def tell_count(search: RowPatternSearch | RowWindowSearch) -> Told:
    """Return the number of matches that a task found, and the largest of its keys."""
    count = ("count", pa.array([search.n_matches], pa.int64()))
    query = search.bound if isinstance(search, RowWindowSearch) else search.bound.query
    return [count, *largest_key(search.source, query.partition_by)]


def tell_result(search: RowPatternSearch | RowWindowSearch) -> Told:
    """Return the columns of the result, and those that sort it."""
    shown = [(name, column.measured()) for name, column in search.projection.columns.items()]
    return [*shown, *((f"key {i}", key.measured()) for i, key in enumerate(search.projection.keys))]


@dataclass(frozen=True, slots=True)
class TellDrawn:
    """The columns of the result, and a number for each row that does not depend on the tasks."""

    seed: int

    def __call__(self, search: RowPatternSearch) -> Told:
        """Return the columns, and last the numbers. The rows with the least numbers are the sample."""
        columns, source = tell_result(search), search.source
        n_rows = (
            len(columns[0][1].rows if isinstance(columns[0][1], Picked) else columns[0][1]) if columns else 0
        )
        texts = pa.table({f"c{i}": in_arrow(values, source) for i, (_, values) in enumerate(columns)})
        seen: dict[str, int] = {}
        numbers = []
        for row in range(n_rows):
            text = repr(texts.slice(row, 1).to_pylist())
            seen[text] = seen.get(text, 0) + 1  # equal rows get different numbers
            digest = blake2b(f"{self.seed} {seen[text]} {text}".encode(), digest_size=8).digest()
            numbers.append(int.from_bytes(digest, "big") >> 1)
        return [*columns, ("drawn", pa.array(numbers, pa.int64()))]


def _keys_as_text(search: RowPatternSearch, rows: np.ndarray) -> list[str]:
    """Return a text for the partition of each of these rows. Equal keys have equal texts in every task."""
    names = search.bound.query.partition_by
    columns = [search.source.arrow(name, rows).to_pylist() for name in names]
    return [repr([_plain_key(value) for value in key]) for key in zip(*columns, strict=True)] or [
        "" for _ in rows
    ]


def _plain_key(value: Any) -> Any:
    if isinstance(value, float):
        return None if value != value else value + 0.0  # NaN is null, and -0.0 is 0.0
    return value


def _first_rows(search: RowPatternSearch) -> np.ndarray:
    return search.order.rows(search.order.first_place_of_partition[:-1])


@dataclass(frozen=True, slots=True)
class TellItems:
    """The matched rows: partition, number of the match in it, variable, place, and columns of the row."""

    # After them, a row for each partition with the number of its matches, and place -1.

    columns: tuple[str, ...]

    def __call__(self, search: RowPatternSearch) -> Told:
        matches, first = search.found, _first_rows(search)
        match, numbers = match_of_item(matches), np.arange(len(first))
        texts = np.array([*_keys_as_text(search, first), None], dtype=object)
        partition = np.concatenate([matches.partition_of_match[match], numbers])
        of_all = np.diff(matches.first_match_of_partition)
        labels = np.array([*search.bound.labels, None], dtype=object)
        states = np.concatenate([matches.states, np.full(len(first), -1)])
        place = np.concatenate([place_of_item(matches), np.full(len(first), -1)])
        rows = np.concatenate([row_of_item(search), first])
        return [
            ("partition", pa.array(texts[partition], pa.string())),
            ("number", pa.array(np.concatenate([matches.number_of_match[match], of_all]), pa.int64())),
            ("variable", pa.array(labels[states], pa.string())),
            ("place", pa.array(place, pa.int64())),
            *((name, Picked(name, rows)) for name in self.columns),
        ]


@dataclass(frozen=True, slots=True)
class TellTagged:
    """All rows: partition, number of the match in it, variable, place, and columns; null if unmatched."""

    columns: tuple[str, ...]
    overlap: str

    def __call__(self, search: RowPatternSearch) -> Told:
        """Return one row for each row of the frame, with its first match, and those of partitions."""
        rows, source = row_of_item(search), search.source
        item = np.full(source.n_rows, -1, np.int64)
        item[rows[::-1]] = np.arange(len(rows))[::-1]
        shared = len(rows) - int(np.count_nonzero(item >= 0))
        if shared and self.overlap == "error":
            raise CepError(f"{shared:,} {SEVERAL_MATCHES}")
        items, first = TellItems(())(search), _first_rows(search)
        item = np.concatenate([item, len(rows) + np.arange(len(first))])
        where = pa.array(item, mask=item < 0)
        all_rows = np.concatenate([np.arange(source.n_rows), first])
        return [
            *((name, in_arrow(values, source).take(where)) for name, values in items),
            *((name, Picked(name, all_rows)) for name in self.columns),
        ]


# What the jobs of MATCH_RECOGNIZE and of a WINDOW share: partitions of rows, types, ORDER BY and LIMIT.


def check_clause(query: RowPatternQuery) -> None:
    """Raise for a clause without ORDER BY, and for functions that Spark's workers cannot call."""
    check_ordered(query.order_by, "ORDER BY")
    nodes = (node for _, tree in (*query.define, *query.measures) for node in tree.walk(literals=False))
    check_functions({n.registered.name: n.registered for n in nodes if isinstance(n, UserCall)})


def prepare_workers(frame: DataFrame, partition_by: Sequence[str]) -> None:
    """Let workers run this Python. Warn if all rows are one partition."""
    if not partition_by:
        warn(
            "without PARTITION BY all rows are one partition, which a single Spark task must hold and "
            "match; with PARTITION BY the tasks share the work"
        )
    worker_python(frame.sparkSession)  # workers that are found elsewhere run this Python


def send_partitions(
    frame: DataFrame, source: EmptySource, names: set[str], partition_by: Sequence[str],
    clock: str | None = None,
) -> tuple[tuple[str, ...], DataFrame]:  # fmt: skip
    """Return the columns that tasks get, and the rows, with all rows of a partition in one task."""
    # With a ``clock`` each row also gets the latest time of the whole table, in one more column. A cross join
    # with a frame of one row adds it. So the result stays lazy, and its job reads the table twice.
    names = {source.path(name)[0] for name in names}
    check_convertible(source, names)
    check_keys(source, partition_by, "PARTITION BY")
    received = tuple(name for name in source.names if name in names)
    if twice := sorted(source.duplicates & names):
        raise CepError(f"column {twice[0]!r} occurs more than once; rename or drop one of them")
    if clock is None:
        return received, rows_by_key(frame, source, received, partition_by)
    from pyspark.sql import functions as F

    plain = numbered_columns(frame, source, received)
    latest = plain.agg(F.max(f"e{received.index(clock)}").alias("latest"))
    timed = plain.crossJoin(F.broadcast(latest))
    return (*received, LATEST), timed.repartition(*key_columns(source, received, partition_by))


def check_types(told: Told) -> Told:
    """Return the columns of no rows. Raise if the type of one depends on its values."""
    for name, values in told:
        if not isinstance(values, Picked) and pa.types.is_null(values.type):
            raise CepError(
                f"the column {name!r} has no type before it runs, and Spark needs one; write it as in "
                f"CAST(… AS BIGINT) AS {name}"
            )
    return told


def order_and_name(run: DataFrame, names: Sequence[str], selected: SelectedRows | None) -> DataFrame:
    """Return the rows in the order of a SELECT, with these names, and without the columns that only sort."""
    from pyspark.sql import functions as F

    if selected is not None and selected.order_by:
        keys = []
        for i, key in enumerate(selected.order_by, len(names)):
            is_float = run.schema[i].dataType.typeName() in ("float", "double")
            column = F.nanvl(f"c{i}", F.lit(None)) if is_float else F.col(f"c{i}")  # NaN is null
            keys.append(sort_key(column, key.descending, key.nulls_first))
        run = run.orderBy(*keys)
    if selected is not None and selected.offset:
        run = run.offset(selected.offset)
    if selected is not None and selected.limit is not None:
        run = run.limit(selected.limit)
    return run.select(*(f"c{i}" for i in range(len(names)))).toDF(*names)


def sort_key(column: Column, descending: bool, nulls_first: bool) -> Column:
    if descending:
        return column.desc_nulls_first() if nulls_first else column.desc_nulls_last()
    return column.asc_nulls_first() if nulls_first else column.asc_nulls_last()


_REFUSALS = {
    **REFUSALS,
    "write_parquet": "write_parquet(): the tasks of Spark write the rows of the result, each its own part: "
    "to_frame().write.parquet(path)",
    "plot": "plot() reads rows one by one, which a Spark frame does not allow; take a part of them: "
    "df.limit(…) or df.filter(…), then toPandas().cep.match(…).plot()",
    "aggregate": NO_AGGREGATES,
    "": "MATCH_RECOGNIZE in a Spark frame has no such matches; lineage() has all matched rows",
}
_EXACTLY = "matches of MATCH_RECOGNIZE are counted exactly"


def _counted(run: Callable[[Any], DataFrame], method: str) -> int:
    """Return the sum of what tasks count."""
    check_exact(method, _EXACTLY)
    rows = run_job(run(tell_count).collect)
    warn_of_key(rows)
    return sum(row[0] for row in rows)


class RowsOnSpark(FoundResult):
    """The matches of MATCH_RECOGNIZE in a Spark frame."""

    engine = ROWS_ENGINE
    cure = ROWS_CURE
    is_in_memory = False
    refusals: ClassVar = _REFUSALS

    def __init__(
        self, frame: DataFrame, query: RowPatternQuery | SelectedRows,
        params: Mapping[str, Any] | None = None, complete_until: Any = None, *, undecided: bool = False,
    ):  # fmt: skip
        if frame.isStreaming:
            raise UnsupportedQueryError(
                "MATCH_RECOGNIZE does not run on a streaming DataFrame: a match may need rows that are still "
                "to come. Write the stream to a table and match that"
            )
        self.frame, self.params, self.source = frame, params, EmptySource(frame)
        self._complete_until, self._undecided = complete_until, undecided
        check_clause(query.rows if isinstance(query, SelectedRows) else query)
        self.bound = bind_row_query(query, self.source.schema, params, complete_until)
        self.query = self.bound.query.whole
        self._nothing = RowPatternSearch(self.bound, self.source)
        self._result = self._run(tell_result)  # checks types of measures before any job
        prepare_workers(frame, self.bound.query.partition_by)

    # --- jobs

    def _run(self, tell: Tell, columns: list[str] | None = None) -> DataFrame:
        """Return what ``tell`` returns for each task as a lazy frame with columns ``c0``, ``c1``, …."""
        # The tasks get the columns that the query reads, and further ``columns``. All rows of a partition of
        # the query are in one task. For WITH TIMED OUT MATCHES they also get the latest time of the table.
        bound, source, query = self.bound, self.source, self.bound.query
        keys = [key.column for key in query.keys]
        names = {*bound.columns, *query.partition_by, *keys, *(columns or ())}
        if query.rows.rows_per_match != "one":
            names |= set(source.names)
        clock = None
        if query.rows.timed_out and query.partition_by and bound.program.within is not None:
            clock = bound.program.within[0]
        received, shuffled = send_partitions(self.frame, source, names, query.partition_by, clock)
        nothing = check_types(tell(self._nothing))
        return run_tasks(
            shuffled, source, nothing, RowsTask, columns=received, query=query.whole, params=self.params,
            tell=tell, has_latest=clock is not None, complete_until=self._complete_until,
            undecided=self._undecided, place=(*query.partition_by, *keys),
        )  # fmt: skip

    def undecided(self) -> DataFrame:
        check_times_out(self.bound)
        given = self.frame, self.query, self.params, self._complete_until
        return RowsOnSpark(*given, undecided=True).to_frame()

    def count(self, method: str = "exact", samples: int = 10_000, seed: int = 0) -> int:
        return _counted(self._run, method)

    def to_frame(self, rows: str = "one", limit: Limit = "auto", *, in_order: bool = True) -> DataFrame:
        _refuse_limit(limit)
        if rows == "one":
            return self._shown(self._result)
        return self._matched(self.source.names, in_order=in_order)

    def _shown(self, run: DataFrame) -> DataFrame:
        """Return the columns of the result in its order, without those that only sort."""
        return order_and_name(run, self._names, self.bound.selected)

    @property
    def _names(self) -> list[str]:
        return list(self._nothing.projection.columns)

    def head(self, n: int) -> pd.DataFrame:
        """Return some rows of the result, the first ones if the query has ORDER BY."""
        return collect(self.to_frame().limit(n))

    def sample(self, n: int, seed: int) -> pd.DataFrame:
        """Return a uniform sample of the rows of the result; the number of tasks does not change it."""
        selected = self.bound.selected
        if selected is not None and (selected.limit is not None or selected.offset):
            clause = "OFFSET" if selected.limit is None else "LIMIT"
            raise UnsupportedQueryError(f"sample() on Spark draws from a whole result; leave out {clause}")
        run = self._run(TellDrawn(seed))
        drawn = run.orderBy(run.columns[-1]).limit(n)
        return collect(self._shown(drawn))

    # --- the matched rows

    def lineage(self, number: int | None, limit: Limit) -> DataFrame:
        _refuse_limit(limit)
        number = None if number is None else number_of(number, self.count())
        keys = [*self.bound.query.partition_by, *(key.column for key in self.bound.query.keys)]
        return self._matched([*dict.fromkeys(keys)], number)

    def _matched(self, columns: list[str], number: int | None = None, *, in_order: bool = True) -> DataFrame:
        """Return the rows of all matches, or of one, with these columns."""
        from pyspark.sql import functions as F

        check_free(("match", "variable"), columns)
        run = self._numbered(self._run(TellItems(tuple(columns)), columns), columns)
        if number is not None:
            run = run.where(run["match"] == number)
        shown = [F.col(f"c{4 + i}") for i in range(len(columns))]
        ordered = run.orderBy("match", "c3") if in_order else run
        return ordered.select("match", "c2", *shown).toDF("match", "variable", *columns)

    def tag(self, overlap: str = "error") -> DataFrame:
        """Return the frame with ``match`` and ``variable`` as its last columns, in no particular order."""
        from pyspark.sql import functions as F

        names = self.source.names
        check_free(("match", "variable"), names)
        run = self._numbered(self._run(TellTagged(tuple(names), overlap), names), names)
        shown = [F.col(f"c{4 + i}") for i in range(len(names))]
        return run.select(*shown, "match", "c2").toDF(*names, "match", "variable")

    def _numbered(self, run: DataFrame, columns: list[str]) -> DataFrame:
        """Add the column ``match``: the number of the match among all partitions."""
        # ``run`` has a text for the partition, ``c0``, the number of the match in it, ``c1``, the place,
        # ``c3``, and ``columns``. One task sorts the partitions, not the rows. The partitions and the rows
        # have one exchange, so Spark runs the query once.
        from pyspark.sql import Window
        from pyspark.sql import functions as F

        keys = [f"c{4 + columns.index(name)}" for name in self.bound.query.partition_by]
        rows = run.repartition(*keys) if keys else run.repartition(1)
        counted = rows.groupBy(F.col("c0").alias("partition")).agg(
            of_all_columns(F.max(F.when(F.col("c3") < 0, F.col("c1")).otherwise(F.lit(0))), rows).alias("n"),
            *(F.first(key).alias(f"k{i}") for i, key in enumerate(keys)),
        )
        order = [sort_key(F.col(f"k{i}"), False, True) for i in range(len(keys))] or [F.lit(0)]
        before = Window.orderBy(*order).rowsBetween(Window.unboundedPreceding, -1)
        n = F.when(F.col("partition").isNotNull(), F.col("n"))  # rows without a match have no partition
        first = counted.select("partition", F.coalesce(F.sum(n).over(before), F.lit(0)).alias("before_it"))
        joined = rows.join(first, rows["c0"].eqNullSafe(first["partition"]), "left")
        joined = joined.withColumn("match", F.col("before_it") + F.col("c1") - F.lit(1))
        return joined.where("if(before_it is null, true, coalesce(c3, 0) >= 0)")

    def text(self) -> str:
        text = text_of_lazy(self.bound.query.rows, self._names, self._result)
        clauses = "" if self.bound.selected is None else clauses_that_drop(self.bound.selected)
        return text + (f"; count() counts the matches before {clauses}" if clauses else "")


def _refuse_limit(limit: Limit) -> None:
    """Raise for a number of matches that the tasks, each with its own partitions, do not know."""
    if limit_of(limit, None) is not None:
        raise UnsupportedQueryError(
            f"limit={limit}: MATCH_RECOGNIZE in a Spark frame has no limit of matches. Write LIMIT in the "
            "query"
        )


TellWindow = Callable[[RowWindowSearch], Told]


class RowWindowOnSpark(FoundTable):
    """The rows of a Spark frame, with measures of a row pattern in a WINDOW."""

    engine = ROWS_ENGINE
    is_in_memory = False
    refusals: ClassVar = {"": NO_MATCHES}

    def __init__(self, frame: DataFrame, query: WindowedRows, params: Mapping[str, Any] | None = None):
        self.frame, self.query, self._params = frame, query, params
        self._source = EmptySource(frame)
        check_clause(query.rows)
        self._nothing = RowWindowSearch(bind_window(query, self._source.schema, params), self._source)
        self._result = self._run(tell_result)  # checks types before any job
        prepare_workers(frame, query.rows.partition_by)

    def _run(self, tell: TellWindow) -> DataFrame:
        """Return what ``tell`` returns for each task as a lazy frame with columns ``c0``, ``c1``, …."""
        source = self._source
        names = set(_columns_to_read(self.query, source.schema))
        received, shuffled = send_partitions(self.frame, source, names, self._nothing.bound.partition_by)
        return run_tasks(
            shuffled, source, check_types(tell(self._nothing)), RowWindowTask, columns=received,
            query=self.query, params=self._params, tell=tell,
            place=(*self.query.rows.partition_by, *(key.column for key in self.query.rows.order_by)),
        )  # fmt: skip

    def count(self, method: str = "exact", samples: int = 10_000, seed: int = 0) -> int:
        return _counted(self._run, method)

    def to_frame(self, rows: str = "one", limit: Limit = "auto", *, in_order: bool = True) -> DataFrame:
        self.refuse_matched(rows)
        names = list(self._nothing.projection.columns)
        return order_and_name(self._result, names, self._nothing.bound.selected)

    def text(self) -> str:
        run = self.to_frame()
        text = text_of_lazy(self.query.rows, run.columns, run, "the frames of a Spark frame")
        return text.replace("head(), ", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class RowWindowTask(PartTask):
    """A task that searches the rows of a WINDOW with a row pattern."""

    query: WindowedRows
    params: Mapping[str, Any] | None
    tell: TellWindow

    def search(
        self, prepared: Any, table: pa.Table, low: Any, high: Any
    ) -> Iterator[tuple[ArrowSource, Results]]:
        """Yield the rows of a task and what it reports of the matches in their windows."""
        source = ArrowSource(table)
        keep = kept_rows(self.query, source, self.params)
        if keep is not None:
            source = ArrowSource(table.filter(pa.array(keep)).combine_chunks())
        bound = bind_window(replace(self.query, where=None), source.schema, self.params)
        search = RowWindowSearch(bound, source)
        check_order(source, search.order, bound.partition_by, bound.order_by)
        yield source, self.tell(search)


def _columns_to_read(query: WindowedRows, schema: Mapping[str, ColumnType]) -> list[str]:
    """Return the columns that the query names, in any case; all of them for ``SELECT *``."""
    if query.columns is None:
        return list(schema)
    clause = query.rows
    trees = [tree for _, tree in (*clause.define, *clause.measures, *query.columns)]
    trees += [] if query.where is None else [query.where]
    names = {name for tree in trees for name in ex.columns_in(tree)}
    names |= {*clause.partition_by, *(key.column for key in (*clause.order_by, *query.order_by))}
    names |= {query.frame_end} if isinstance(query.frame_end, str) else set()
    asked = {name.lower() for name in names}
    return [name for name in schema if name.lower() in asked]
