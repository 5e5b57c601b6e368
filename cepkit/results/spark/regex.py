"""The matches of a regex query on Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from cepkit.compile.regex.program import Program
from cepkit.engines.measures.regex_measures import measure_expressions
from cepkit.engines.regex_aggregates import aggregate_regex
from cepkit.engines.shared.match_set import MatchSet
from cepkit.events import Events
from cepkit.frames.arrow import check_free
from cepkit.frames.spark import tasks
from cepkit.results.spark.found import SparkFound
from cepkit.results.spark.jobs import collect, run_job

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class RegexOnSpark(SparkFound[Program]):
    """Matches of contiguous rows; no two matches end at the same event."""

    has_ranks = False
    _tell_measures = staticmethod(tasks.measured)
    _tell_rows = staticmethod(tasks.matched_rows)

    def count(self) -> int:
        """Return the exact number of matches; every task counts its own."""
        from pyspark.sql import functions as F

        counts = self._run(tasks.counted)
        return run_job(counts.agg(F.sum("c0")).collect)[0][0] or 0

    def any(self) -> bool:
        """Return whether a match exists."""
        return not run_job(self._run(tasks.placed).isEmpty)

    def _ends(self) -> DataFrame:
        from pyspark.sql import functions as F

        n_columns = len(self._event_columns(0))
        return self._run(tasks.placed).withColumn(f"c{n_columns}", F.lit(1).cast("decimal(38, 0)"))

    def head(self, n: int) -> pd.DataFrame:
        """Return the first ``n`` matches."""
        return collect(self.in_order(None).limit(n))

    def sample(self, n: int, seed: int) -> pd.DataFrame:
        """Return a sample of ``n`` matches; the same seed draws the same matches as on pandas."""
        total = self.count()
        drawn = np.random.default_rng(seed).choice(total, size=min(n, total), replace=False)
        numbered = self._with_numbers(self.measured, self._place_columns(len(self.names)))
        chosen = numbered.where(numbered["number"].isin(drawn.tolist()))
        return collect(self._result(chosen.orderBy("number")))

    def _check_aggregates(self, aggregates: Mapping[str, str]) -> None:
        none = np.empty(0, np.int64)
        nothing = MatchSet(Events(0, {}, none.astype(np.int32), 0), none, none)
        aggregate_regex(self.program, nothing, self.source, aggregates)

    def _tell_aggregates(self, texts: tuple[str, ...]) -> Callable:
        return tasks.RegexTaskAggregates(texts)

    def tag(self) -> DataFrame:
        """Return the searched frame with ``match`` and ``variable``; the query runs twice."""
        check_free(("match", "variable"), self.source.names)
        rows, place = self._with_rows(tasks.tagged, self.source.names)
        joined = self._join(rows, place, "left", None)
        columns = [f"r{i}" for i in range(1, len(self.source.names) + 1)]
        return joined.select(*columns, "number", "r0").toDF(*self.source.names, "match", "variable")

    def _run(self, tell: tasks.Emit, columns: list[str] | None = None, limit: int | None = None) -> DataFrame:
        columns = self._columns if columns is None else columns
        return tasks.run_tasks(self.frame, self.source, self.program, columns, tell, limit=limit)

    @property
    def names(self) -> list[str]:
        """Names of the result's columns."""
        return [*self.query.partition_by, *(name for name, _ in measure_expressions(self.program.query))]

    def _numbers(self, limit: int | None) -> DataFrame:
        return self._with_numbers(self._run(tasks.placed, limit=limit), self._event_columns(0), limit)
