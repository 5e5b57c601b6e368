"""`SparkStreamRows`, the result of a window on a streaming Spark frame."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from cepkit.errors import CepError, whole_number
from cepkit.frames.spark import check_convertible
from cepkit.streaming.spark.results import SparkStreamResults
from cepkit.windows.values import ALL, Window


class SparkStreamRows(SparkStreamResults):
    """The rows that a window emits in a streaming Spark frame.

    ``stream.cep.window(…)`` returns it. `to_frame` is a streaming frame with the columns of the stream and
    the aggregates, and `writeStream` writes it as any streaming frame. Nothing runs until Spark starts that
    writer.

    Notes
    -----
    Rows wait for the watermark as for `SparkStreamMatches`. So all outputs together are the rows that
    `cepkit.window` returns for all rows that were not late, however Spark cuts the stream into micro-batches.
    With ``emit="all"`` a row of a window of time expires when the watermark passes its time.

    A window of time with ``group_by`` has its groups in buckets, which Spark's tasks share. Other windows
    need all rows in one bucket.

    Examples
    --------
    >>> sums = stream.withWatermark("ts", "1 minute").cep.window(
    ...     {"total": "sum(price)"}, time="15 s", group_by="symbol", order_by=["ts", "n"])  # doctest: +SKIP
    >>> sums.writeStream.option("checkpointLocation", "state").start("sums")  # doctest: +SKIP
    """

    @property
    def query(self) -> Window:
        """The window as a value.

        Examples
        --------
        >>> sums.query  # doctest: +SKIP
        Window({'total': 'sum(price)'}, time='15 s', group_by='symbol', order_by=['ts', 'n'])
        """
        assert isinstance(self._query, Window)
        return self._query

    @property
    def n_buckets(self) -> int:
        """Number of buckets: two per shuffle partition of Spark for groups in time, otherwise one.

        Examples
        --------
        >>> sums.n_buckets  # doctest: +SKIP
        400
        """
        return self._plan.n_buckets

    def configure(self, *, buckets: int | None = None, late: str | None = None) -> SparkStreamRows:
        """Return the same rows with other settings. A checkpoint belongs to its settings.

        Parameters
        ----------
        buckets : int, optional
            Number of buckets of groups, as for `SparkStreamMatches.configure`.
        late : str, optional
            ``"count"``: late rows appear in `progress` only. ``"rows"``: `to_frame` has a last column
            ``late`` with the late rows as structs, in rows of their own; it is null for results.

        Raises
        ------
        CepError
            For a wrong value.

        Examples
        --------
        >>> sums.configure(buckets=8, late="rows").n_buckets  # doctest: +SKIP
        8
        """
        if buckets is not None and not self._keys:
            raise CepError(f"buckets: {why_one_bucket(self.query)}, which is one bucket")
        n_buckets = self._n_buckets if buckets is None else whole_number("buckets", buckets, 1)
        return SparkStreamRows(self._frame, self._source, self.query, n_buckets, late or self._late)

    @property
    def progress(self) -> pd.DataFrame:
        """How the stream goes, as `SparkStreamMatches.progress`; ``results`` counts the rows that came out.

        ``kept`` is the number of rows in the windows.

        Examples
        --------
        >>> sums.progress[["batch", "rows", "late_rows", "results"]]  # doctest: +SKIP
        """
        return super().progress.drop(columns="live_partial_matches").rename(columns={"matches": "results"})

    def explain(self) -> WindowExplanation:
        """Say how the window is read and how the stream runs, without running it.

        Examples
        --------
        >>> sums.explain()  # doctest: +SKIP
        """
        window = self.query
        rows = "a row for each row that arrives"
        if window.emit == ALL:
            rows += ", and one for each row that leaves"
            rows += ", when the watermark passes its time" if window.time is not None else ""
        notes = self._notes(f"{why_one_bucket(window)}, which one task must hold")
        return WindowExplanation((("window", repr(window)), ("result", rows), *notes))

    @property
    def _text(self) -> str:
        return repr(self.query)

    @property
    def _title(self) -> str:
        return f"rows of {self._text}"

    def _needed_columns(self) -> list[str]:
        check_convertible(self._source, self._source.names)
        return self._source.names


@dataclass(frozen=True, repr=False)
class WindowExplanation:
    """How a window is read and how it runs in a stream; prints as text."""

    lines: tuple[tuple[str, str], ...]  # labels and texts

    def __str__(self) -> str:
        return "\n".join(f"{label:12} {text}" for label, text in self.lines)

    __repr__ = __str__


def why_one_bucket(window: Window) -> str:
    """Return why one bucket needs all rows of a window without keys."""
    if window.time is None:
        return "a window of rows counts the rows of all groups together"
    return "without group_by the window ranges over all rows"
