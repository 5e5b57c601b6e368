"""The matches of a sequence query on Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from cepkit.compile.sequences.program import SequenceProgram
from cepkit.engines.aggregates import aggregate_matches
from cepkit.engines.measures.sequence_measures import default_measures
from cepkit.engines.shared.sequence_set import EMPTY, KnownMatches
from cepkit.errors import CepError, ResultTooLargeError
from cepkit.events import Events
from cepkit.frames.arrow import check_free
from cepkit.frames.spark import sequences as tasks
from cepkit.frames.spark.samples import Drawn, First
from cepkit.frames.spark.slices import Slices
from cepkit.frames.spark.tasks import EmptySource, too_many
from cepkit.planning.planner import Engine
from cepkit.results.spark.found import SparkFound
from cepkit.results.spark.jobs import collect, refuse, run_job

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class SequencesOnSpark(SparkFound[SequenceProgram]):
    """Matches of an event sequence; several may end at one event, so a place has a rank.

    Without ``partition_by``, tasks divide the stream by time if a window limits the matches; see
    `cepkit.frames.spark.slices.Slices`.

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

    def count(self) -> int:
        """Return the exact number of matches, an integer of any size; every task counts its own."""
        return sum(int(row[0], 16) for row in run_job(self._run(tasks.counted).collect))

    def any(self) -> bool:
        """Return whether a match exists."""
        return not run_job(self._run(tasks.found_any).isEmpty)

    def _ends(self) -> DataFrame:
        return self._run(tasks.ended)

    def head(self, n: int) -> pd.DataFrame:
        """Return the first ``n`` matches; no task builds many more."""
        run = self._run(First(n))
        place = self._place_columns(len(self.names))
        return collect(self._result(run.orderBy(*place).limit(n)))

    def sample(self, n: int, seed: int) -> pd.DataFrame:
        """Return a sample of ``n`` matches from one job; see `cepkit.frames.spark.samples.Drawn`."""
        n_before = len(self.names)
        event = self._event_columns(n_before)
        place, time = f"c{n_before + len(event)}", f"c{n_before + len(event) + 1}"
        drawn = self._run(Drawn(n, seed)).orderBy(time, *event).limit(n)
        return collect(self._result(drawn.orderBy(*event, place)))

    def _check_aggregates(self, aggregates: Mapping[str, str]) -> None:
        none = KnownMatches(Events(0, {}, np.empty(0, np.int32), 0), EMPTY)
        aggregate_matches(self.program, none, self.source, aggregates)

    def _tell_aggregates(self, texts: tuple[str, ...]) -> Callable:
        return tasks.SequenceTaskAggregates(texts)

    def tag(self) -> DataFrame:
        """Return the searched frame with ``match`` and ``variable``; a row in several matches is an error."""
        check_free(("match", "variable"), self.source.names)
        names = [*self.query.order_by, *self.query.partition_by]
        rows, place = self._with_rows(tasks.tagged_rows, list(dict.fromkeys(names)))
        joined = self._join(rows, place, "inner", None)
        key_of_name = {name: f"r{i}" for i, name in enumerate(dict.fromkeys(names), start=1)}
        tags = joined.select(*key_of_name.values(), "number", "r0")
        if self._slices is not None:
            tags = _one_per_row(tags, list(key_of_name.values()))
        place_of_name = {name: f"f{i}" for i, name in enumerate(self.source.names)}
        frame = self.frame.toDF(*(f"f{i}" for i in range(len(self.source.names))))
        same = self._same_event([place_of_name[n] for n in names], [key_of_name[n] for n in names])
        tagged = frame.join(tags, same, "left").select(*frame.columns, "number", "r0")
        return tagged.toDF(*self.source.names, "match", "variable")

    def _run(self, tell: tasks.Tell, columns: list[str] | None = None, limit: int | None = None) -> DataFrame:
        return tasks.run_tasks(
            self.frame, self.source, self.program, self.engine.of_sequences,
            self._columns if columns is None else columns, tell, slices=self._slices, limit=limit,
        )  # fmt: skip

    @property
    def names(self) -> list[str]:
        """Names of the result's columns."""
        query = self.program.query
        measures = default_measures(query) if query.measures is None else query.measures
        return [*query.partition_by, *(name for name, _ in measures)]

    def _numbers(self, limit: int | None) -> DataFrame:
        from pyspark.sql import Window
        from pyspark.sql import functions as F

        event = self._event_columns(0)
        count, total = F.col(f"c{len(event)}"), F.col("total")
        up_to_here = Window.orderBy(*event).rowsBetween(Window.unboundedPreceding, Window.currentRow)
        run = self._run(tasks.numbered_ends, limit=limit).withColumn("total", F.sum(count).over(up_to_here))
        numbered = run.withColumn("number", total - count)
        if limit is not None:
            numbered = refuse(numbered, total > limit, ResultTooLargeError, too_many(limit))
        return numbered.select(*event, "number")


def _one_per_row(tags: DataFrame, keys: list[str]) -> DataFrame:
    """Return one tag per row; a row with several tags is an error of the job."""
    from pyspark.sql import functions as F

    # Each task refuses rows that it matched twice, but two slices may match the same row.
    tags = tags.groupBy(*keys).agg(
        F.count(F.lit(1)).alias("n"), F.min("number").alias("number"), F.min("r0").alias("r0")
    )
    return refuse(tags, F.col("n") > 1, CepError, tasks.SHARED_ROW)
