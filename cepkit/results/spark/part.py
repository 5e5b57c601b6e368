"""A part of a Spark frame that fits into memory, and jobs on the whole frame that can be cancelled."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import pandas as pd

from cepkit.errors import OrderError

MOST_ROWS = 100_000  # of the part
_CELLS = 1 << 20  # of the hash that chooses keys
_ATTEMPTS = 4


def part_of(
    frame: Any, partition_by: Sequence[str], order_by: Sequence[str], most: int = MOST_ROWS
) -> tuple[pd.DataFrame, str]:
    """Return a part of a Spark frame as a pandas frame, and a description; empty for the whole frame.

    With ``partition_by`` the part has all rows of some keys, which a hash chooses. Otherwise, or if a single
    key has more than ``most`` rows, it has the first ``most`` rows in time.

    One job counts and one collects; up to four collect when keys differ in size.
    """
    from pyspark.sql import functions as F

    from cepkit.results.spark.jobs import collect

    names = frame.columns
    # Numbered columns, since names may have dots and backticks, or differ only in case.
    plain = frame.toDF(*(f"c{i}" for i in range(len(names))))

    def keyed(columns: Sequence[str]) -> list[Any]:
        return [F.col(f"c{names.index(name)}") for name in columns]

    if not order_by:
        raise OrderError(
            "order_by is missing: the rows of a Spark frame have no order; name the columns that sort the "
            "events of a partition"
        )
    n = frame.count()
    if n <= most:
        return _sort_rows(collect(frame), order_by), ""
    if partition_by:
        cell = F.pmod(F.xxhash64(*keyed(partition_by)), F.lit(_CELLS))
        share = 0.8 * most / n
        for _ in range(_ATTEMPTS):
            part = collect(plain.where(cell < F.lit(int(share * _CELLS))).limit(most + 1).toDF(*names))
            if 0 < len(part) <= most:
                keys = f"all rows of some keys of {', '.join(partition_by)}"
                return _sort_rows(part, order_by), f"a sample of {len(part):,} of {n:,} rows: {keys}"
            share = share / 2 if len(part) else share * 4
    part = collect(plain.orderBy(*keyed(order_by)).limit(most).toDF(*names))
    return part, f"a sample of {len(part):,} of {n:,} rows: the first ones by {', '.join(order_by)}"


@contextmanager
def stoppable(session: Any) -> Iterator[Callable[[], Any]]:
    """Yield a function that cancels the jobs this thread starts meanwhile; any thread may call it."""
    from pyspark.sql.utils import is_remote

    name = f"cepkit explorer {uuid4().hex}"
    if is_remote():
        session.addTag(name)
        try:
            yield lambda: session.interruptTag(name)
        finally:
            session.removeTag(name)
        return
    context = session.sparkContext  # only the thread that set a tag may cancel its jobs
    context.setJobGroup(name, "the explorer's query on all rows", interruptOnCancel=True)
    try:
        yield lambda: context.cancelJobGroup(name)
    finally:
        for of_group in ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel"):
            context.setLocalProperty(of_group, None)


def _sort_rows(part: pd.DataFrame, order_by: Sequence[str]) -> pd.DataFrame:
    return part.sort_values(list(order_by), kind="stable", ignore_index=True)
