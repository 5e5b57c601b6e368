"""The matches of a sequence query in a Spark frame: lazy, counted and made by the cluster."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from cepkit.compile.sequences.program import SequenceProgram
from cepkit.engines.aggregates import aggregate_matches
from cepkit.engines.measures.sequence_measures import default_measures
from cepkit.engines.shared.sequence_set import EMPTY, KnownMatches
from cepkit.errors import UnsupportedQueryError, whole_number
from cepkit.events import Events
from cepkit.frames import spark_sequences as tasks
from cepkit.frames.spark import EmptySource, check_convertible, too_many
from cepkit.frames.spark_samples import Drawn, First
from cepkit.frames.spark_slices import Slices, slices_of
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.parsing import parse_expression
from cepkit.language.numbers import count_text
from cepkit.language.sequences.query import SequenceQuery
from cepkit.planning.planner import Engine, choose_engine
from cepkit.spark_matches import LazyMatches, bound_to, clearly, collected, repair_workers, warn_of_one_task

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_DEFAULT_TASKS = 200  # Spark's own
_NOT_HERE = (
    "matches in a Spark frame are not taken one by one: they are made on its machines, and may be any "
    "number; look at some with head() or sample(), or go through to_frame().toLocalIterator()"
)


def match(
    frame: DataFrame,
    value: SequenceQuery,
    engine: str = "auto",
    *,
    boundaries: tuple[int | float, ...] | None = None,
) -> SparkSequenceMatches:
    """Bind a sequence query to a Spark frame, with every check that needs no look at the rows.

    Parameters
    ----------
    frame, value, engine
        As for `cepkit.match`.
    boundaries : tuple of int or float, optional
        Ticks of the clock at which slices begin; None: chosen when the query runs. They change no answer.

    Raises
    ------
    OrderError
        Without ``order_by``, or when a column of it has no order.
    UnsupportedQueryError
        For a streaming frame, for functions that are not declared pure, and, with ``partition_by``, when
        events must follow each other directly in the whole stream.
    CepError
        Of the kinds of `cepkit.match`, in the same words.

    Warns
    -----
    CepWarning
        Without ``partition_by``, when one task has to see all events.
    """
    program, source = bound_to(frame, value)
    _refuse_strict(program)
    chosen = choose_engine(program, engine)
    slices, instead = None, ""
    if not value.partition_by:
        slices, instead = slices_of(program, source, _n_tasks(frame))
        slices = slices and replace(slices, boundaries=boundaries)
    matches = SparkSequenceMatches(frame, source, program, chosen, slices)
    if instead:
        warn_of_one_task(instead)
    repair_workers(frame)
    return matches


def _n_tasks(frame: DataFrame) -> int:
    try:
        return max(1, int(frame.sparkSession.conf.get("spark.sql.shuffle.partitions")))
    except ValueError:  # some clusters say "auto"
        return _DEFAULT_TASKS


def _refuse_strict(program: SequenceProgram) -> None:
    if not program.query.partition_by:
        return
    for bound in program.branches:
        for i, component in enumerate(bound.branch.components):
            if (i and component.step == "strict") or (component.high != 1 and component.inner == "strict"):
                raise UnsupportedQueryError(
                    f"'strict' in front of {component.variable!r}: no event of the whole stream may stand "
                    "between, and with partition_by a Spark task sees the events of its own partitions only. "
                    "Use strategy='partition', which looks at the partition, or leave out partition_by"
                )


class SparkSequenceMatches(LazyMatches):
    """The matches of a sequence query in a Spark frame, in canonical order.

    Made by ``df.cep.match``. Nothing runs before it is asked for, and every question runs the query again;
    ``to_frame()`` can be cached or written as any frame.

    Notes
    -----
    The order of matches is that of ``order_by`` at their last event. Matches that end in different partitions
    and are equal in it stand in the order of ``partition_by``, null first; pandas decides by the row's place
    in the frame, which Spark does not know. Matches with the same last event are in the order they have on
    pandas. A match's number is its place in this order, from 0.

    Without ``partition_by`` tasks share a stream by time when a window limits matches; see
    `cepkit.frames.spark_slices.Slices`.
    """

    has_ranks = True
    _tell_measures = staticmethod(tasks.measured)
    _tell_rows = staticmethod(tasks.matched_rows)

    def __init__(
        self,
        frame: DataFrame,
        source: EmptySource,
        program: SequenceProgram,
        engine: Engine,
        slices: Slices | None = None,
    ):
        self._slices = slices
        super().__init__(frame, source, program, engine)

    # --- how many

    def count(self, method: str = "exact") -> int:
        """Return the exact number of matches, an integer of any size; every task counts its own.

        Raises
        ------
        UnsupportedQueryError
            For ``method="estimate"``: a sample for an estimate is drawn from all events at once.
        """
        if method != "exact":
            raise UnsupportedQueryError(
                f"method={method!r}: matches in a Spark frame are counted exactly; for an estimate, match a "
                "part of the events: df.limit(…) or df.filter(…), then toPandas().cep.match(…)"
            )
        return sum(int(row[0], 16) for row in clearly(self._run(tasks.counted).collect))

    def __len__(self) -> int:
        n = self.count()
        if n >= 2**63:
            raise OverflowError(f"there are {count_text(n)} matches; len() ends at 2^63, count() does not")
        return n

    def __bool__(self) -> bool:
        return not clearly(self._run(tasks.found_any).isEmpty)

    def count_by_last(self) -> DataFrame:
        """Return how many matches end at which event, as a lazy Spark frame.

        Returns
        -------
        pyspark.sql.DataFrame
            The partition and order columns, which tell the row, and ``count``, of type decimal(38, 0); a line
            for every event where a match ends, in stream order. A larger number is an error of the job.
        """
        names = list(dict.fromkeys((*self.query.partition_by, *self.query.order_by)))
        self._check_free("count", among=names)
        event = self._event_columns(0)
        column = dict(zip((*self.query.order_by, *self.query.partition_by), event, strict=True))
        run = self._run(tasks.ended)
        ordered = run.repartition(*event).orderBy(*event)
        return ordered.select(*(column[name] for name in names), f"c{len(event)}").toDF(*names, "count")

    # --- a look

    def head(self, n: int = 5) -> pd.DataFrame:
        """Return the first ``n`` matches as a pandas DataFrame; no task makes many more."""
        n = whole_number("n", n)
        run = self._run(First(n))
        place = self._place_columns(len(self._names))
        return collected(self._result(run.orderBy(*place).limit(n)))

    def sample(self, n: int, seed: int = 0) -> pd.DataFrame:
        """Return ``n`` matches drawn uniformly without replacement as a pandas DataFrame, in their order.

        Parameters
        ----------
        n : int
            All matches when there are no more; they come to the driver, so think of thousands.
        seed : int
            The same seed draws the same matches of the same data, however many tasks there are; other ones
            than on pandas.

        Notes
        -----
        One job; matches are counted, and only those drawn are made. See
        `cepkit.frames.spark_samples.Drawn`.
        """
        behind = len(self._names)
        event = self._event_columns(behind)
        place, time = f"c{behind + len(event)}", f"c{behind + len(event) + 1}"
        drawn = self._run(Drawn(max(0, n), seed)).orderBy(time, *event).limit(max(0, n))
        return collected(self._result(drawn.orderBy(*event, place)))

    def __iter__(self) -> Iterator[Any]:
        raise TypeError(_NOT_HERE)

    def __getitem__(self, key: int | slice) -> Any:
        raise TypeError(_NOT_HERE)

    # --- frames

    def aggregate(self, **aggregates: str) -> pd.Series:
        """Return aggregates over the events of all matches, each counted as often as it is matched.

        Parameters
        ----------
        **aggregates : str
            Name and text of each: ``count``, ``sum``, ``avg``, ``min`` or ``max`` of a column of a variable,
            ``"sum(b.price)"``; ``"count(b)"`` is the number of (match, event) pairs, ``"count()"`` the number
            of matches.

        Returns
        -------
        pandas.Series
            The values under their names; null where there is no match. Counts and sums of integers are exact,
            of any size; sums of floating-point numbers may differ in the last digits with the number of
            tasks.

        Notes
        -----
        Every task aggregates its own matches; where they are not counted without looking at each, and in
        slices of a stream without partitions, it makes them in blocks.
        """
        none = KnownMatches(Events(0, {}, np.empty(0, np.int32), 0), EMPTY)
        aggregate_matches(self._program, none, self._source, aggregates)  # its errors, before any job
        parts = {name: _parts(name, text) for name, text in aggregates.items()}
        trees = [tree for own in parts.values() for tree in own]
        nodes = [node for tree in trees for node in tree.walk()]
        used = {node.name for node in nodes if isinstance(node, ex.Reference)}
        check_convertible(self._source, used)
        columns = [name for name in self._source.names if name in {*used, *self._columns}]
        run = self._run(tasks.Aggregated(tuple(map(str, trees))), columns)
        values = zip(*(tasks.from_text(row[0]) for row in clearly(run.collect)), strict=True)
        values_of_tree = list(map(list, values)) or [[] for _ in trees]
        made = {}
        for name, own in parts.items():
            made[name] = _merged(own, values_of_tree[: len(own)])
            del values_of_tree[: len(own)]
        return pd.Series(made, dtype=object)

    def tag(self) -> DataFrame:
        """Return the frame that was searched with ``match`` and ``variable`` behind, null where none.

        Returns
        -------
        pyspark.sql.DataFrame
            Lazy, with the rows in no particular order. It matches twice, as ``to_frame("all")`` does, and
            joins the frame with its matched rows. The job fails when a row belongs to more than one match:
            ``to_frame(rows="all")`` has each of them.
        """
        self._check_free("match", "variable")
        names = [*self.query.order_by, *self.query.partition_by]
        rows, place = self._with_rows(tasks.tagged_rows, list(dict.fromkeys(names)))
        joined = self._joined(rows, place, "inner", None)
        key_of_name = {name: f"r{i}" for i, name in enumerate(dict.fromkeys(names), start=1)}
        tags = joined.select(*key_of_name.values(), "number", "r0")
        if self._slices is not None:
            tags = _one_per_row(tags, list(key_of_name.values()))
        place_of_name = {name: f"f{i}" for i, name in enumerate(self._source.names)}
        frame = self._frame.toDF(*(f"f{i}" for i in range(len(self._source.names))))
        same = self._same_event([place_of_name[n] for n in names], [key_of_name[n] for n in names])
        tagged = frame.join(tags, same, "left").select(*frame.columns, "number", "r0")
        return tagged.toDF(*self._source.names, "match", "variable")

    # --- how the frames are made

    def _run(self, tell: tasks.Tell, columns: list[str] | None = None, limit: int | None = None) -> DataFrame:
        return tasks.run_tasks(
            self._frame, self._source, self._program, self.engine.run,
            self._columns if columns is None else columns, tell, slices=self._slices, limit=limit,
        )  # fmt: skip

    @property
    def _names(self) -> list[str]:
        query = self.query
        measures = default_measures(query) if query.measures is None else query.measures
        return [*query.partition_by, *(name for name, _ in measures)]

    def _numbers(self, limit: int | None) -> DataFrame:
        from pyspark.sql import Window
        from pyspark.sql import functions as F

        event = self._event_columns(0)
        count, total = F.col(f"c{len(event)}"), F.col("total")
        up_to_here = Window.orderBy(*event).rowsBetween(Window.unboundedPreceding, Window.currentRow)
        run = self._run(tasks.numbered_ends, limit=limit).withColumn("total", F.sum(count).over(up_to_here))
        number = total - count
        if limit is not None:
            number = F.when(total > limit, _raised("ResultTooLargeError", too_many(limit))).otherwise(number)
        # The condition keeps Spark from leaving out the column where nobody looks at it.
        return run.select(*event, number.alias("number")).where("number >= 0")


def _raised(error: str, message: str) -> Column:
    """Return a bigint whose computation raises an error of cepkit."""
    from pyspark.sql import functions as F

    return F.raise_error(F.lit(f"cepkit.errors.{error}: {message}")).cast("bigint")


def _one_per_row(tags: DataFrame, keys: list[str]) -> DataFrame:
    """Return the tags of rows; computing those of a row with several is an error."""
    from pyspark.sql import functions as F

    # Each task has refused rows that it matched twice; a row may be matched in two slices.
    tags = tags.groupBy(*keys).agg(
        F.count(F.lit(1)).alias("n"), F.min("number").alias("number"), F.min("r0").alias("r0")
    )
    number = F.when(F.col("n") > 1, _raised("CepError", tasks.SHARED_ROW)).otherwise(F.col("number"))
    # The condition keeps Spark from leaving out the column where nobody looks at it.
    return tags.withColumn("number", number).where("number >= 0")


def _parts(name: str, text: str) -> list[ex.Aggregate]:
    """Return the aggregates that the tasks have to compute for one: an average is a sum and a count."""
    tree = parse_expression(text, role=f"aggregate {name!r}", references=True)
    functions = ("sum", "count") if tree.function == "avg" else (tree.function,)
    return [replace(tree, function=function) for function in functions]


def _merged(parts: list[ex.Aggregate], values: list[list[int | float | None]]) -> int | float | None:
    """Return an aggregate from the values of its parts in every task."""
    known = [[value for value in of_part if value is not None] for of_part in values]
    if len(parts) == 2:
        total, n = _sum(known[0]), sum(known[1])
        if not n or total in (math.inf, -math.inf) or total != total:
            return total if n else None
        return float(Fraction(total) / n)
    if parts[0].function == "count":
        return sum(known[0])
    if not known[0]:
        return None
    return {"sum": _sum, "min": min, "max": max}[parts[0].function](known[0])


def _sum(values: list[int | float]) -> int | float:
    """Return the sum, the same in any order; of integers exact."""
    if all(isinstance(value, float) and math.isfinite(value) for value in values):
        return math.fsum(values)
    return sum(values)
