"""Slices of time of a stream without partitions, so that several Spark tasks can match it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cepkit.compile.sequences.program import SequenceProgram
from cepkit.frames.spark.tasks import SLICE_COLUMNS, EmptySource

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

_WINDOWS_PER_SLICE = 4  # least length of a slice, so that few of its events are copies
_DAY_US = 86_400_000_000
_MOST_TICKS = 2**63 - 1
_ROUNDING = 1e-12  # more than the rounding error of a floating-point time plus a window


@dataclass(frozen=True, slots=True)
class Slices:
    """Slices of a stream by its clock.

    A slice owns the matches whose last event has a time from its ``low`` up to, but without, its ``high``. It
    gets the events of this time and of one window before. When later events can rule out a match, it also
    gets the events of one window after.

    Source: Balkesen, Dindar, Wetter, Tatbul, "RIP: Run-based Intra-query Parallelism for Scalable Complex
    Event Processing", DEBS 2013.
    Differs: there a slice owns the matches that start in it and gets the events of a window after it; here
    it owns the matches that end in it. Both find every match once. The end decides a match's place in the
    order, so one slice here knows all matches with the same last event, and their ranks.
    """

    clock: str  # column of times
    within: int | float  # the window, in ticks of the clock
    looks_ahead: bool  # whether an event must be absent after the last one of a match
    n_tasks: int  # number of tasks that share the slices
    # Ticks at which slices begin, strictly rising. None: Spark chooses them when it runs, at most one slice
    # per task. The slices then have about the same number of events, and none is shorter than four windows.
    boundaries: tuple[int | float, ...] | None = None

    def copies(self, events: DataFrame, clock: Column) -> DataFrame:
        """Return every event once per slice that needs it, with ``SLICE_COLUMNS`` after its columns.

        Lazy. Spark reads the events twice when it chooses the boundaries.
        """
        from pyspark.sql import functions as F

        timed = events.withColumn("tick", clock)
        whole = timed.schema["tick"].dataType.typeName() == "long"
        reach = min(math.ceil(min(self.within, _MOST_TICKS)), _MOST_TICKS) if whole else float(self.within)
        begin = _move(F.col("low"), -reach)
        end = _move(F.col("high"), reach) if self.looks_ahead else F.col("high")
        # A limit is null at the ends of time, and when adding a window overflows.
        limits = [F.col("tick") >= begin, F.col("tick") < end]
        needed = [F.coalesce(limit, F.lit(True)) for limit in limits]
        copies = timed.join(F.broadcast(self._table(timed)), needed)
        return copies.select(*events.columns, *SLICE_COLUMNS)

    def _table(self, timed: DataFrame) -> DataFrame:
        """Return the slices: number, first tick, and first tick after it; null at the ends of time."""
        from pyspark.sql import functions as F

        tick_type = timed.schema["tick"].dataType.simpleString()
        if self.boundaries is None:
            table = self._choose_begins(timed, tick_type)
        else:
            begins = F.array(*(F.lit(tick).cast(tick_type) for tick in self.boundaries))
            table = timed.sparkSession.range(1).select(begins.cast(f"array<{tick_type}>").alias("begins"))
        end = F.array(F.lit(None).cast(tick_type))
        lows, highs = F.concat(end, "begins").alias("low"), F.concat("begins", end).alias("high")
        table = table.select(F.posexplode(F.arrays_zip(lows, highs)).alias("slice", "limits"))
        return table.select("slice", "limits.low", "limits.high")

    def _choose_begins(self, timed: DataFrame, of: str) -> DataFrame:
        """Return the ticks ``begins`` at which slices begin."""
        from pyspark.sql import functions as F

        none = F.array().cast(f"array<{of}>")
        timed = timed.where("not isnan(tick)") if of == "double" else timed
        if self.n_tasks < 2:
            return timed.sparkSession.range(1).select(none.alias("begins"))
        shares = [i / self.n_tasks for i in range(1, self.n_tasks)]
        quantiles = timed.agg(
            F.percentile_approx("tick", shares).alias("quantiles"), F.min("tick").alias("least")
        )
        shortest = float(_WINDOWS_PER_SLICE * self.within)

        def with_next(begins: Column, tick: Column) -> Column:
            last = F.element_at(begins, -1)
            is_far = F.coalesce(F.try_subtract(tick, last) >= shortest, F.lit(True))
            return F.when((tick > last) & is_far, F.concat(begins, F.array(tick))).otherwise(begins)

        begins = F.aggregate(F.coalesce("quantiles", none), F.array("least"), with_next)
        return quantiles.select(F.slice(begins, 2, self.n_tasks).alias("begins"))


def _move(limit: Column, by: int | float) -> Column:
    """Return a limit moved by ``by``, and a little further when floating point rounds."""
    from pyspark.sql import functions as F

    if isinstance(by, float):
        by = F.lit(by) + F.lit(math.copysign(_ROUNDING, by)) * (F.abs(limit) + F.lit(abs(by)))
    return F.try_add(limit, by if not isinstance(by, int) else F.lit(by).cast("bigint"))


def ticks(clock: Column, of: DataType) -> Column | None:
    """Return a clock of Spark type ``of`` as bigint or double, in a task's ticks; None for other types."""
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    match of:
        case T.ByteType() | T.ShortType() | T.IntegerType() | T.LongType():
            return clock.cast("bigint")
        case T.FloatType() | T.DoubleType() | T.DecimalType():
            return clock.cast("double")
        case T.DateType():
            return F.unix_date(clock).cast("bigint") * 86_400
        case T.TimestampType():
            return F.unix_micros(clock)
        case T.TimestampNTZType():  # from its parts, which no time zone shifts
            seconds = F.hour(clock) * 3600 + F.minute(clock) * 60 + F.extract(F.lit("SECOND"), clock)
            days = F.unix_date(clock.cast("date")).cast("bigint")
            return days * _DAY_US + (seconds * 1_000_000).cast("bigint")
    return None


def slices_of(program: SequenceProgram, source: EmptySource, n_tasks: int) -> tuple[Slices | None, str]:
    """Return the slices for a query without partitions, or what the query lacks for them."""
    from pyspark.sql import functions as F

    needed = []
    if program.window.within is None:
        needed.append("a time window (within)")
    if program.query.after_match[0] != "none":
        needed.append("after_match='none'")
    clock_type = source.fields[source.names.index(program.clock)].dataType
    if ticks(F.lit(None), clock_type) is None:
        needed.append(f"a clock of numbers, dates or timestamps instead of {clock_type.simpleString()}")
    if needed:
        return None, " and ".join(needed)
    looks_ahead = any(
        absence.before >= len(bound.branch.components)
        for bound in program.branches
        for absence in bound.branch.absences
    )
    return Slices(program.clock, program.window.within, looks_ahead, n_tasks), ""


def send_slices(events: DataFrame, source: EmptySource, columns: Sequence[str], slices: Slices) -> DataFrame:
    """Return the events of each slice, with a task for every slice."""
    from pyspark.sql import functions as F

    clock_type = source.fields[source.names.index(slices.clock)].dataType
    copies = slices.copies(events, ticks(F.col(f"e{columns.index(slices.clock)}"), clock_type))
    return spread_slices(copies, slices)


def spread_slices(copies: DataFrame, slices: Slices) -> DataFrame:
    """Return the copies of `Slices.copies` with the slices spread over the tasks."""
    from pyspark.sql import functions as F

    if hasattr(copies, "repartitionById"):  # since Spark 4.1
        return copies.repartitionById(slices.n_tasks, F.col("slice") % slices.n_tasks)
    return copies.repartition(slices.n_tasks, "slice")
