"""How a stream goes: the progress of its micro-batches, what writes them, and why it failed."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from cepkit.errors import CepError
from cepkit.results.spark.tasks import error_of_task
from cepkit.values import dataclass

if TYPE_CHECKING:
    import plotly.graph_objects as go
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

_STATE = {"held": "held", "kept": "kept", "live": "live_partial_matches", "state_bytes": "state_bytes"}
_COLUMNS = {
    "batch": "int64",
    "at": "datetime64[ms]",
    "rows": "int64",
    "late_rows": "int64",
    "matches": "int64",
    **dict.fromkeys(_STATE.values(), "Int64"),
    "watermark": "datetime64[ms]",
    "watermark_lag": "timedelta64[ms]",
    "seconds": "float64",
}
MOST_LATENCY = "most_latency"  # the only number of load shedding whose greatest value counts, not the sum
_OF_SHEDDING = {
    "processed_rows": "int64",
    "dropped_rows": "int64",
    "dropped_partial_matches": "int64",
    "estimated_recall": "float64",
    "mean_latency": "float64",
    "max_latency": "float64",
    "buckets_that_learn": "Int64",
}
_STATE_OF_SHEDDING = ("estimated_recall", "buckets_that_learn")
_PANELS = {
    "in and out": ["rows", "late_rows", "dropped_rows", "matches", "results"],
    "waiting afterwards": ["held", "kept", "live_partial_matches"],
}


def progress_frame(
    queries: Iterable[StreamingQuery], name: str, n_buckets: int, types: Sequence[str] = ()
) -> pd.DataFrame:
    """Return a row per micro-batch of these queries that reports under this name."""
    dropped = {f"dropped {event_type}": "int64" for event_type in types}
    more = {**_OF_SHEDDING, **dropped} if types else {}
    types_of_columns = {**_COLUMNS, **more}
    rows: list[dict[str, Any]] = []
    for query in queries:
        for batch in query.recentProgress:
            if name in batch["observedMetrics"]:
                observed = batch["observedMetrics"][name].asDict()
                shed = _shed(observed, types, n_buckets) if types else {}
                rows.append({**_row_of(batch, observed, n_buckets), **shed})
    frame = pd.DataFrame(rows, columns=list(types_of_columns)).astype(types_of_columns)
    shown = [*_STATE.values(), *(name for name in _STATE_OF_SHEDDING if name in more)]
    frame[shown] = frame[shown].ffill()
    newest = (frame["watermark"] + frame["watermark_lag"]).cummax().ffill()
    frame["watermark_lag"] = (newest - frame["watermark"]).astype("timedelta64[ms]")
    return frame


def draw_progress(progress: pd.DataFrame, title: str) -> go.Figure:
    """Draw what goes in and out of each micro-batch, and what waits after it."""
    from cepkit.plots.charts import SweepPanel, sweep_figure

    panels = []
    for heading, wanted in _PANELS.items():
        names = [name for name in wanted if name in progress]
        shown = progress[["batch", *names]].set_axis(["batch", *(n.replace("_", " ") for n in names)], axis=1)
        rows = (
            shown.melt("batch", var_name="what", value_name="number").dropna().astype({"number": "float64"})
        )
        panels.append(SweepPanel(rows, "batch", "number", heading, x_title="micro-batch", y_title="rows"))
    return sweep_figure(panels, series="what", title=title)


def _row_of(one: Any, observed: dict[str, Any], n_buckets: int) -> dict[str, Any]:
    times = one["eventTime"]
    watermark = _time(times.get("watermark"))
    newest = _time(times.get("max"))
    is_whole = (observed["n_buckets"] or 0) >= n_buckets
    return {
        "batch": one["batchId"],
        "at": _time(one["timestamp"]),
        "rows": observed["rows"] or 0,
        "late_rows": observed["late"] or 0,
        "matches": observed["found"] or 0,
        **{shown: observed[name] if is_whole else None for name, shown in _STATE.items()},
        "watermark": watermark,
        # pandas takes a column that has only NaT for times, and casts no times to durations.
        "watermark_lag": np.timedelta64("NaT", "ms") if pd.isna(newest - watermark) else newest - watermark,
        "seconds": one["durationMs"].get("triggerExecution", 0) / 1000,
    }


def _shed(observed: dict[str, Any], types: Sequence[str], n_buckets: int) -> dict[str, Any]:
    """Return the columns of load shedding of a micro-batch; all numbers that Spark observed are floats."""
    numbers = {name: 0.0 if value is None else value for name, value in observed.items()}
    dropped = {f"dropped {event_type}": round(numbers[f"dropped_{i}"]) for i, event_type in enumerate(types)}
    n, is_whole = numbers["latencies"], numbers["n_buckets"] >= n_buckets
    return {
        "processed_rows": round(numbers["processed"]),
        "dropped_rows": sum(dropped.values()),
        "dropped_partial_matches": round(numbers["partial"]),
        "estimated_recall": numbers["recall_found"] / numbers["recall_wanted"]
        if is_whole and numbers["recall_wanted"]
        else math.nan,
        "mean_latency": numbers["latency_seconds"] / n if n else math.nan,
        "max_latency": numbers[MOST_LATENCY] if n else math.nan,
        "buckets_that_learn": round(numbers["learns"]) if is_whole else None,
        **dropped,
    }


def _time(text: str | None) -> Any:
    """Return a time of Spark's reports; a watermark of 1970 is none."""
    if text is None:
        return pd.NaT
    time = pd.Timestamp(text).tz_localize(None)
    return pd.NaT if time == pd.Timestamp(0) else time


# Functions for Spark's ``foreachBatch`` that write every match once.


@dataclass(frozen=True)
class ParquetByBatch:
    """Writes each micro-batch into a folder of its own; a repeated batch replaces its folder."""

    path: str  # the folder of the matches. Reading it gives a further column ``batch``.
    late: str | None = None  # the folder of the late rows
    has_late_rows: bool = False  # whether the batches have the column ``late``

    def __call__(self, batch: DataFrame, number: int) -> None:
        """Write a micro-batch; Spark calls it with the number of the batch."""
        from pyspark.sql import functions as F

        if not self.has_late_rows:
            batch.write.mode("overwrite").parquet(f"{self.path}/batch={number}")
            return
        batch.persist()
        try:
            matches = batch.where(F.col("late").isNull()).drop("late")
            matches.write.mode("overwrite").parquet(f"{self.path}/batch={number}")
            if self.late is not None:
                late = batch.where(F.col("late").isNotNull()).select("late.*")
                late.write.mode("overwrite").parquet(f"{self.late}/batch={number}")
        finally:
            batch.unpersist()


# Why a streaming query failed, in one error: state of another query, or a checkpoint that is damaged.

# What Spark says when it cannot read a file of a checkpoint.
_DAMAGE = (
    "CANNOT_LOAD_STATE_STORE", "STATE_STORE_MISSING", "MISSING_STATE_DIRECTORY", "checksum mismatch",
    "Unexpected end-of-input", "JsonParseException", "Incomplete log file", "Malformed log file",
)  # fmt: skip


def error_of_stream(error: Exception) -> CepError | None:
    """Return the error of cepkit for a failure of a streaming query; None for other failures."""
    if (task_error := error_of_task(error)) is not None:
        return task_error
    text = str(error)
    damage = next((line.strip() for line in text.splitlines() if any(word in line for word in _DAMAGE)), None)
    if damage is None:
        return None
    return CepError(
        f"the checkpoint of the stream is damaged: {damage[:200]}. Restore the folder from a copy that was "
        "made while the query did not run, or begin with an empty checkpoint folder and an empty result"
    )


def with_clear_errors(call: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method of Spark's writer or query that raises the errors of `error_of_stream`."""

    @functools.wraps(call)
    def made(*given: Any, **more: Any) -> Any:
        try:
            return call(*given, **more)
        except Exception as error:
            stream_error = error_of_stream(error)
            if stream_error is None:
                raise
            raise stream_error from error

    return made
