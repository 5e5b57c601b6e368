"""A part of a Spark frame, small enough to be looked at at once, and jobs on all of it that can be ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import pandas as pd

from cepkit.errors import OrderError

MOST_ROWS = 100_000  # of the part
_CELLS = 1 << 20  # of the hash by which keys are chosen
_ATTEMPTS = 4


def part_of(
    frame: Any, partition_by: Sequence[str], order_by: Sequence[str], most: int = MOST_ROWS
) -> tuple[pd.DataFrame, str]:
    """Return a part of a Spark frame as a pandas one, and in words which part; no words when it is all.

    Parameters
    ----------
    frame : pyspark.sql.DataFrame
    partition_by, order_by : sequence of str
        With keys the part has all rows of some of them, chosen by a hash; else, and where a single key has
        more than ``most`` rows, it has the first rows in time.
    most : int
        Rows of the part, at most.

    Raises
    ------
    OrderError
        Without ``order_by``, as `cepkit.match` on a Spark frame.

    Notes
    -----
    Two jobs, one that counts and one that collects; up to four of the latter where keys differ in size.
    """
    from pyspark.sql import functions as F

    from cepkit.results.spark.jobs import collected

    if not order_by:
        raise OrderError(
            "order_by is missing: a Spark frame has no order of rows; name the columns that put the events "
            "of a partition into one"
        )
    n = frame.count()
    if n <= most:
        return _sorted(collected(frame), order_by), ""
    if partition_by:
        cell = F.pmod(F.xxhash64(*(F.col(f"`{name}`") for name in partition_by)), F.lit(_CELLS))
        share = 0.8 * most / n
        for _ in range(_ATTEMPTS):
            part = collected(frame.where(cell < F.lit(int(share * _CELLS))).limit(most + 1))
            if 0 < len(part) <= most:
                keys = f"all rows of some keys of {', '.join(partition_by)}"
                return _sorted(part, order_by), f"a sample of {len(part):,} of {n:,} rows: {keys}"
            share = share / 2 if len(part) else share * 4
    part = collected(frame.orderBy(*(F.col(f"`{name}`") for name in order_by)).limit(most))
    return part, f"a sample of {len(part):,} of {n:,} rows: the first ones by {', '.join(order_by)}"


@contextmanager
def stoppable(session: Any) -> Iterator[Callable[[], Any]]:
    """Yield a function that ends the jobs which this thread starts meanwhile; any thread may call it."""
    from pyspark.sql.utils import is_remote

    name = f"cepkit explorer {uuid4().hex}"
    if is_remote():
        session.addTag(name)
        try:
            yield lambda: session.interruptTag(name)
        finally:
            session.removeTag(name)
        return
    context = session.sparkContext  # of a tag only the thread that set it may end the jobs
    context.setJobGroup(name, "the explorer's query on all rows", interruptOnCancel=True)
    try:
        yield lambda: context.cancelJobGroup(name)
    finally:
        for of_group in ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel"):
            context.setLocalProperty(of_group, None)


def _sorted(part: pd.DataFrame, order_by: Sequence[str]) -> pd.DataFrame:
    return part.sort_values(list(order_by), kind="stable", ignore_index=True)
