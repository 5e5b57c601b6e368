"""Lazy Spark frames of the matches of a query, of their rows, their numbers and aggregates."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from fractions import Fraction
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd

from cepkit.compile.regex_program import Program
from cepkit.engines.regex_measures import measure_expressions
from cepkit.engines.sequence_measures import default_measures
from cepkit.errors import CepError, ResultTooLargeError
from cepkit.frames.arrow import check_free
from cepkit.frames.spark import (
    EmptySource,
    Slices,
    check_convertible,
    from_text,
    needed_columns,
    numbered_columns,
    rows_by_key,
    run_tasks,
    send_slices,
    slices_of,
    too_many,
)
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.parsing import parse_expression
from cepkit.language.expressions.vocabulary import SUMMARIES
from cepkit.language.regex import RegexQuery
from cepkit.language.sequences.patterns import SequenceQuery
from cepkit.planning.planner import Engine, choose_engine
from cepkit.planning.plans import compile_checked
from cepkit.results import spark_tasks as tasks
from cepkit.results.found import FoundResult, Limit, check_exact, limit_of, number_of
from cepkit.results.spark_tasks import collect, refuse, run_job

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType


# Aggregates on Spark: the partial aggregates of the tasks, and how they are merged.


def parts_of(name: str, text: str) -> tuple[str, list[ex.Aggregate]]:
    """Return the function of an aggregate, and the aggregates of every task that it is merged from."""
    tree = parse_expression(text, role=f"aggregate {name!r}", references=True)
    assert isinstance(tree, ex.Aggregate)  # results refuse other texts before
    needed = {"avg": ("sum", "count"), **dict.fromkeys(SUMMARIES, ("collect",))}
    functions = needed.get(tree.function, (tree.function,))
    return tree.function, [replace(tree, function=function) for function in functions]


def merged(function: str, values: list[list[Any]]) -> Any:
    """Return one aggregate over all tasks; `values` lists the value of every task for each of its parts."""
    present = [[value for value in of_part if value is not None] for of_part in values]
    if function in ("collect", *SUMMARIES):
        items = list(chain.from_iterable(present[0]))
        return items if function == "collect" else SUMMARIES[function].of(items)
    if function == "avg":
        total, n = _sum(present[0]), sum(present[1])  # the parts of a mean: sums and counts
        if not n or total in (math.inf, -math.inf) or total != total:
            return total if n else None
        return float(Fraction(total) / n)
    if function == "count":
        return sum(present[0])
    if not present[0]:
        return None
    return {"sum": _sum, "min": min, "max": max}[function](present[0])


def _sum(values: list[int | float]) -> int | float:
    """Return the sum, which does not depend on the order; sums of integers are exact."""
    if all(isinstance(value, float) and math.isfinite(value) for value in values):
        return math.fsum(values)
    return sum(values)


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
    "undecided": "undecided: a regex matches rows, and no event of it may be absent",
    "chunks": IN_PARTS, "write_parquet": BY_TASKS, "plot": NOT_DRAWN,
}  # fmt: skip


class SparkFound(FoundResult):
    """The matches of a regex or a sequence that Spark's tasks find."""

    # The place of a match identifies it: the order and partition columns at its last event, and its rank
    # among the matches that end there.
    #
    # Without ``partition_by``, tasks divide the stream of a sequence by time if a window limits the matches;
    # see `cepkit.frames.spark.Slices`.

    is_in_memory = False
    refusals: ClassVar = REFUSALS

    def __init__(
        self, frame: DataFrame, source: EmptySource, program: Any, engine: Engine,
        slices: Slices | None = None,
    ):  # fmt: skip
        self.frame, self.source, self.program, self.engine = frame, source, program, engine
        self.query: RegexQuery | SequenceQuery = program.query
        self._slices, self._columns = slices, needed_columns(program, source)
        self.measured = self._run(tasks.measured)  # result columns of every match, then its place

    def _run(self, tell: tasks.Tell, columns: list[str] | None = None, limit: int | None = None) -> DataFrame:
        """Return a lazy frame of the rows that ``tell`` yields for the matches of every task."""
        names, slices = self._columns if columns is None else columns, self._slices
        if slices is None:
            rows = rows_by_key(self.frame, self.source, names, self.query.partition_by)
        else:
            events = numbered_columns(self.frame, self.source, names)
            rows = send_slices(events, self.source, names, slices)
        engine = None if isinstance(self.program, Program) else self.engine.of_sequences
        nothing = next(iter(tell(tasks.nothing_found(self.program, self.source, names))))
        return run_tasks(
            rows, self.source, nothing, tasks.QueryTask, columns=tuple(names), in_slices=slices is not None,
            query=self.query, schema=self.program.schema, engine=engine, tell=tell, limit=limit,
            complete_until=getattr(self.program, "complete_until", None),
            place=(*self.query.partition_by, *self.query.order_by),
        )  # fmt: skip

    def undecided(self) -> DataFrame:
        """Return the matches that an event after the end of the data may still forbid."""
        if isinstance(self.query, RegexQuery):
            self.refuse("undecided")
        program = compile_checked(replace(self.query, undecided=True), self.source)
        program = replace(program, complete_until=self.program.complete_until)
        engine = choose_engine(program) if self.engine.unsupported(program) else self.engine
        return SparkFound(self.frame, self.source, program, engine, self._slices).to_frame()

    @property
    def names(self) -> list[str]:
        """Return the names of the columns of the result."""
        query = self.query
        if isinstance(query, RegexQuery):
            measures = measure_expressions(query)
        else:
            measures = default_measures(query) if query.measures is None else query.measures
        return [*query.partition_by, *(name for name, _ in measures)]

    def count(self, method: str = "exact", samples: int = 10_000, seed: int = 0) -> int:
        """Return the exact number of matches."""
        check_exact(
            method,
            "matches in a Spark frame are counted exactly; for an estimate, match a part of the events: "
            "df.limit(…) or df.filter(…), then toPandas().cep.match(…)",
        )
        rows = run_job(self._run(tasks.counted).collect)
        if self._slices is None:
            tasks.warn_of_key(rows, *self._cure_of_hot_keys())
        return sum(int(row[0], 16) for row in rows)

    def _cure_of_hot_keys(self) -> list[str]:
        """Return what helps if a key has most rows, where slices of time do."""
        if isinstance(self.program, Program) or slices_of(self.program, self.source, 1)[0] is None:
            return []
        return ["where there are many cores, spread_by='time' lets tasks share slices of time, with all keys"]

    def any(self) -> bool:
        return not run_job(self._run(tasks.found_any).isEmpty)

    def head(self, n: int) -> pd.DataFrame:
        """Return the first ``n`` matches; no task builds many more."""
        run = self._run(tasks.First(n))
        return collect(self._result(run.orderBy(*self._place_columns(len(self.names))).limit(n)))

    def sample(self, n: int, seed: int) -> pd.DataFrame:
        """Return a sample of ``n`` matches; for a regex the same matches as on pandas."""
        n_before = len(self.names)
        if isinstance(self.program, Program):
            total = self.count()
            numbers = np.random.default_rng(seed).choice(total, size=min(n, total), replace=False)
            numbered = self._with_numbers(self.measured, self._place_columns(n_before))
            chosen = numbered.where(numbered["number"].isin(numbers.tolist()))
            return collect(self._result(chosen.orderBy("number")))
        event = self._event_columns(n_before)
        place, time = f"c{n_before + len(event)}", f"c{n_before + len(event) + 1}"
        drawn = self._run(tasks.Drawn(n, seed)).orderBy(time, *event).limit(n)
        return collect(self._result(drawn.orderBy(*event, place)))

    def drawn(self, what: str) -> Any:
        """Return these matches for a view, which shows a part of the frame; nothing else draws them."""
        return self if what == "view" else self.refuse(what)

    def text(self) -> str:
        return text_of_lazy(self.query, self.names, self.measured)

    def html(self) -> str:
        what, lazy = map(html.escape, self.text().split("\n"))
        return f"<p><b>{what}</b></p><p>{lazy}</p>"

    # --- frames

    def to_frame(self, rows: str = "one", limit: Limit = "auto", *, in_order: bool = True) -> DataFrame:
        most = limit_of(limit, None)
        if rows == "one":
            return self._matches(most, in_order=in_order)
        return self.matched_rows(self.source.names, most, in_order=in_order)

    def lineage(self, number: int | None, limit: Limit) -> DataFrame:
        if number is None:
            return self.matched_rows(self.event_names, limit_of(limit, None))
        return self.matched_rows(self.event_names, None, number_of(number, self.count()))

    def _matches(self, limit: int | None, *, in_order: bool = True) -> DataFrame:
        """Return a row per match with its measures."""
        from pyspark.sql import functions as F

        if limit is None and not in_order:
            return self._result(self.measured)
        # Spark samples before it sorts, and counts for a limit, and would match again for each of them; the
        # exchange keeps rows.
        place = self._place_columns(len(self.names))
        run = self.measured if limit is None else self._run(tasks.measured, limit=limit)
        run = run.repartition(*place)
        if limit is not None:
            total = run.agg(of_all_columns(F.count(F.lit(1)), run).alias("number"))
            both = run.crossJoin(F.broadcast(total))
            run = refuse(both, F.col("number") > limit, ResultTooLargeError, too_many(limit))
        return self._result(run.orderBy(*place) if in_order else run)

    def matched_rows(
        self, columns: list[str], limit: int | None, number: int | None = None, *, in_order: bool = True
    ) -> DataFrame:
        """Return ``match``, ``variable`` and these columns of the matched rows, by match, in stream order."""
        # ``number`` is the only match wanted; None for all matches.
        check_free(("match", "variable"), columns)
        joined = self._numbered_rows(tasks.matched_rows, columns, limit)
        if number is not None:
            joined = joined.where(joined["number"] == number)
        order = [f"r{1 + columns.index(name)}" for name in self.query.order_by]
        shown = [f"r{i}" for i in range(1, len(columns) + 1)]
        ordered = joined.orderBy("number", *order) if in_order else joined
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
        ordered = self._run(tasks.ended).repartition(*event).orderBy(*event)
        return ordered.select(*(column[name] for name in names), f"c{len(event)}").toDF(*names, "count")

    def aggregate(self, aggregates: Mapping[str, str]) -> pd.Series:
        """Return aggregates over the events of all matches; the tasks compute parts of them."""
        tasks.nothing_found(self.program, self.source, self._columns).found.aggregate(aggregates)  # a check
        parts = {name: parts_of(name, text) for name, text in aggregates.items()}
        trees = [tree for _, of_name in parts.values() for tree in of_name]
        nodes = [node for tree in trees for node in tree.walk()]
        used = {node.name for node in nodes if isinstance(node, ex.Reference | ex.Attribute)}
        used = set(self.source.names) & used
        check_convertible(self.source, used)
        columns = [name for name in self.source.names if name in {*used, *self._columns}]
        run = self._run(tasks.TaskAggregates(tuple(map(str, trees))), columns)
        tasks_values = [from_text(row[0]) for row in run_job(run.collect)]
        of_tree = iter([[values[i] for values in tasks_values] for i in range(len(trees))])
        results = {
            name: merged(function, [next(of_tree) for _ in of_name])
            for name, (function, of_name) in parts.items()
        }
        return pd.Series(results, dtype=object)

    # --- how the frames are made

    def _event_columns(self, n_before: int, letter: str = "c") -> list[str]:
        """Return the columns that identify the last event of a match, numbered from ``n_before``."""
        n_columns = len(self.query.order_by) + len(self.query.partition_by)
        return [f"{letter}{i}" for i in range(n_before, n_before + n_columns)]

    def _place_columns(self, n_before: int, letter: str = "c") -> list[str]:
        """Return the columns that identify a match, numbered from ``n_before``."""
        event = self._event_columns(n_before, letter)
        return [*event, f"{letter}{n_before + len(event)}"]

    def _result(self, run: DataFrame) -> DataFrame:
        return run.select(*(f"c{i}" for i in range(len(self.names)))).toDF(*self.names)

    def _with_numbers(self, run: DataFrame, place: list[str]) -> DataFrame:
        """Add the column ``number`` to the matches."""
        from pyspark.sql import Window
        from pyspark.sql import functions as F

        up_to_here = Window.orderBy(*place).rowsBetween(Window.unboundedPreceding, Window.currentRow)
        number: Column = F.count(F.lit(1)).over(up_to_here) - F.lit(1)
        return run.withColumn("number", number)

    def _numbered_rows(self, tell: tasks.Tell, columns: list[str], limit: int | None = None) -> DataFrame:
        """Return matched rows: variable ``r0``, ``columns``, place of the match, and its ``number``."""
        check_convertible(self.source, columns)
        for name in columns:
            if name in self.source.duplicates:
                raise CepError(f"column {name!r} occurs more than once; rename or drop one of them")
        wanted = [name for name in self.source.names if name in {*columns, *self._columns}]
        run = self._run(tell, wanted, limit)
        first_place = 1 + len(wanted)
        place = self._place_columns(first_place)
        run = run.select("c0", *(f"c{1 + wanted.index(name)}" for name in columns), *place)
        rows = run.toDF(*(f"r{i}" for i in range(1 + len(columns) + len(place))))
        *last, rank = self._place_columns(1 + len(columns), "r")
        event = self._event_columns(0)
        rows = rows.repartition(*last)
        joined = rows.join(self._numbers(rows, last, rank, limit), self._same_event(last, event))
        joined = joined.withColumn("number", joined["number"] + joined[rank])
        return joined.where("if(number >= 0, r0, null) is not null")  # Spark does not ask this before

    def _same_event(self, these: list[str], those: list[str]) -> list[Column]:
        """Return the conditions that two lists of columns, order columns first, identify the same event."""
        # Spark adds conditions that values are not null to an equality, and then shares no exchange.
        pairs = zip(self._exact(these), self._exact(those), strict=True)
        return [this.eqNullSafe(that) for this, that in pairs]

    def _exact(self, event: list[str]) -> list[Column]:
        """Return the columns that identify an event as tasks compare them."""
        from pyspark.sql import functions as F

        # A collation may take two texts for one, and tasks do not: they compare the bytes.
        types = {field.name: field.dataType for field in self.source.fields}
        names = (*self.query.order_by, *self.query.partition_by)
        return [
            F.col(column).cast("binary") if is_collated(types[name]) else F.col(column)
            for column, name in zip(event, names, strict=True)
        ]

    def needed_columns(self) -> DataFrame:
        """Return the frame with only the columns that the query reads."""
        names = self._columns
        return numbered_columns(self.frame, self.source, names).toDF(*names)

    def _numbers(self, rows: DataFrame, last: list[str], rank: str, limit: int | None) -> DataFrame:
        """Return the event columns of matches, ``c0``, ``c1``, …, and the ``number`` of the first match."""
        # The ends of matches and the matched rows have one exchange, so Spark runs the query once.
        from pyspark.sql import Window
        from pyspark.sql import functions as F

        event = self._event_columns(0)
        count, total = F.col("count"), F.col("total")
        up_to_here = Window.orderBy(*event).rowsBetween(Window.unboundedPreceding, Window.currentRow)
        exact = [column.alias(f"k{i}") for i, column in enumerate(self._exact(last))]
        ends = rows.groupBy(*exact).agg(
            *(F.first(this).alias(that) for this, that in zip(last, event, strict=True)),
            of_all_columns(F.max(rank) + F.lit(1), rows).alias("count"),
        )
        run = ends.withColumn("total", F.sum(count).over(up_to_here))
        numbered = run.withColumn("number", total - count)
        if limit is not None:
            numbered = refuse(numbered, total > limit, ResultTooLargeError, too_many(limit))
        return numbered.select(*event, "number")

    def tag(self, overlap: str = "error") -> DataFrame:
        """Return the input frame with the match and the variable of each row."""
        check_free(("match", "variable"), self.source.names)
        names = [*self.query.order_by, *self.query.partition_by]
        joined = self._numbered_rows(tasks.TaggedRows(overlap), list(dict.fromkeys(names)))
        key_of_name = {name: f"r{i}" for i, name in enumerate(dict.fromkeys(names), start=1)}
        tags = joined.select(*key_of_name.values(), "number", "r0")
        if self._slices is not None:
            tags = _one_per_row(tags, list(key_of_name.values()), overlap)
        place_of_name = {name: f"f{i}" for i, name in enumerate(self.source.names)}
        frame = self.frame.toDF(*(f"f{i}" for i in range(len(self.source.names))))
        same = self._same_event([place_of_name[n] for n in names], [key_of_name[n] for n in names])
        tagged = frame.join(tags, same, "left").select(*frame.columns, "number", "r0")
        return tagged.toDF(*self.source.names, "match", "variable")


def of_all_columns(number: Column, rows: DataFrame) -> Column:
    """Return a number of rows, not below 0, in a way that needs all their columns."""
    # Spark reads only columns that are needed, and shares an exchange only if it has the same columns.
    from pyspark.sql import functions as F

    return F.greatest(number, F.least(number, *map(F.count, rows.columns)))


def _one_per_row(tags: DataFrame, keys: list[str], overlap: str) -> DataFrame:
    """Return the first tag of each row; a row with several tags may be an error of the job."""
    from pyspark.sql import functions as F

    # Each task tells a row once, but two slices may match the same row.
    first = F.min(F.struct("number", "r0"))
    tags = tags.groupBy(*keys).agg(
        F.count(F.lit(1)).alias("n"), first["number"].alias("number"), first["r0"].alias("r0")
    )
    return tags if overlap == "first" else refuse(tags, F.col("n") > 1, CepError, tasks.SHARED_ROW)


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
