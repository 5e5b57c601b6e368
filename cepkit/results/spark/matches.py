"""The matches of a query in a Spark frame, as users hold them; other frames have `Matches`."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import pandas as pd

from cepkit.errors import UnsupportedQueryError, whole_number
from cepkit.language.numbers import count_text
from cepkit.language.regex.query import RegexQuery
from cepkit.language.sequences.query import SequenceQuery
from cepkit.planning.planner import Engine
from cepkit.results.arguments import Limit, check_rows, limit_of, number_of
from cepkit.results.doors import open_door
from cepkit.results.spark.found import SparkFound

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from cepkit.widgets.view import View

_ONE_BY_ONE = (
    "matches in a Spark frame are not taken one by one: they are made on its machines, and may be any "
    "number; look at some with head() or sample(), or go through to_frame().toLocalIterator()"
)
_IN_PARTS = (
    "chunks(): matches in a Spark frame come from its machines in parts of their own; go through "
    "to_frame().toLocalIterator(), or write to_frame() to a table and read that in parts"
)
_NOT_DRAWN = (
    "plot() draws the rows of a frame in memory, and a Spark frame may have any number; view() and explore() "
    "look at a part of it, or take a part yourself: df.limit(…) or df.filter(…), then "
    "toPandas().cep.match(…).plot()"
)


class SparkMatches:
    """The matches of a query in a Spark frame.

    `cepkit.match` and ``df.cep.match`` return it for Spark frames, for regex and for sequence queries. It has
    the methods of `Matches`, with the same arguments and meaning. Nothing runs before it is asked for, and
    every question runs the query again; ``to_frame()`` can be cached or written as any frame. What a Spark
    frame cannot do raises `UnsupportedQueryError` with the reason.

    Notes
    -----
    Matches are in the order of ``order_by`` at their last event. Matches that end in different partitions and
    are equal in it come in the order of ``partition_by``, null first; pandas decides by the row's place in
    the frame, which Spark does not know. Matches with the same last event are in the order they have on
    pandas. A match's number is its place in this order, from 0.

    Without ``partition_by``, tasks share a stream by time when a window limits the matches of a sequence
    query; see `cepkit.frames.spark_slices.Slices`.

    Examples
    --------
    >>> df.cep.match("PATTERN SEQ(a x, b y)", event_type="kind", order_by="ts")  # doctest: +SKIP
    matches of 'SEQ(a x, b y)' in a Spark frame: x_ts: bigint, y_ts: bigint
    nothing has run yet: head(), count() and the rows of to_frame() start Spark jobs
    """

    def __init__(self, found: SparkFound[Any]):
        self._found = found

    # --- what ran

    @property
    def query(self) -> RegexQuery | SequenceQuery:
        """The query as a value.

        Examples
        --------
        >>> matches.query.pattern  # doctest: +SKIP
        <pattern SEQ(a x, b y)>
        """
        return self._found.query

    @property
    def engine(self) -> Engine:
        """The engine that looks for the matches in every task.

        Examples
        --------
        >>> matches.engine.name  # doctest: +SKIP
        'chain'
        """
        return self._found.engine

    @property
    def run(self) -> None:
        """None: tasks of a Spark frame send back matches, and nothing of their run.

        Examples
        --------
        >>> matches.run is None  # doctest: +SKIP
        True
        """
        return None

    # --- how many

    def count(self, method: str = "exact", *, samples: int = 10_000, seed: int = 0) -> int:
        """Return the exact number of matches, an integer of any size; every task counts its own.

        Parameters
        ----------
        method : str
            ``"exact"``; see Raises.
        samples, seed : int
            Of an estimate; see Raises.

        Raises
        ------
        UnsupportedQueryError
            For ``method="estimate"``: a sample for an estimate is drawn from all events at once.

        Examples
        --------
        >>> matches.count()  # doctest: +SKIP
        1275
        """
        if method != "exact":
            raise UnsupportedQueryError(
                f"method={method!r}: matches in a Spark frame are counted exactly; for an estimate, match a "
                "part of the events: df.limit(…) or df.filter(…), then toPandas().cep.match(…)"
            )
        return self._found.count()

    def __len__(self) -> int:
        """Return the exact number of matches, when it is below 2^63."""
        n = self.count()
        if n >= 2**63:
            raise OverflowError(f"there are {count_text(n)} matches; len() ends at 2^63, count() does not")
        return n

    def __bool__(self) -> bool:
        """Return whether there is a match."""
        return self._found.any()

    def count_by_last(self) -> DataFrame:
        """Return how many matches end at which event, as a lazy Spark frame.

        Returns
        -------
        pyspark.sql.DataFrame
            The partition and order columns, which tell the row, and ``count``, of type decimal(38, 0). It has
            a line for every event where a match ends, in stream order. A larger number is an error of the
            job.

        Examples
        --------
        >>> matches.count_by_last().show()  # doctest: +SKIP
        """
        return self._found.count_by_last()

    # --- some of them

    def head(self, n: int = 5) -> pd.DataFrame:
        """Return the first ``n`` matches as a pandas DataFrame.

        Examples
        --------
        >>> matches.head(2)  # doctest: +SKIP
        """
        return self._found.head(whole_number("n", n))

    def sample(self, n: int, seed: int = 0) -> pd.DataFrame:
        """Return ``n`` matches drawn uniformly without replacement, as a pandas DataFrame in their order.

        Parameters
        ----------
        n : int
            How many; all matches when there are no more. They come to the driver, so think of thousands.
        seed : int
            The same seed draws the same matches of the same data, however many tasks there are. For a regex
            query they are those drawn from a pandas frame; for a sequence query they are others.

        Examples
        --------
        >>> matches.sample(1000, seed=1)  # doctest: +SKIP
        """
        return self._found.sample(whole_number("n", n), whole_number("seed", seed))

    def take(self, numbers: Sequence[int]) -> NoReturn:
        """Raise the reason why matches in a Spark frame are not taken by their numbers.

        Raises
        ------
        UnsupportedQueryError
            Always: they are made on the cluster's machines, and may be any number.

        Examples
        --------
        >>> matches.take([0])  # doctest: +SKIP
        Traceback (most recent call last):
        cepkit.errors.UnsupportedQueryError: matches in a Spark frame are not taken one by one: …
        """
        raise UnsupportedQueryError(_ONE_BY_ONE)

    def __getitem__(self, key: int | slice) -> NoReturn:
        """Raise the reason why matches in a Spark frame are not taken by their numbers."""
        raise UnsupportedQueryError(_ONE_BY_ONE)

    def __iter__(self) -> NoReturn:
        """Raise the reason why matches in a Spark frame are not taken one by one."""
        raise UnsupportedQueryError(_ONE_BY_ONE)

    # --- frames

    def chunks(self, size: int = 65_536) -> NoReturn:
        """Raise the reason why matches in a Spark frame do not come in chunks.

        Raises
        ------
        UnsupportedQueryError
            Always: Spark has parts of its own.

        Examples
        --------
        >>> matches.chunks()  # doctest: +SKIP
        Traceback (most recent call last):
        cepkit.errors.UnsupportedQueryError: chunks(): matches in a Spark frame come from its machines in …
        """
        raise UnsupportedQueryError(_IN_PARTS)

    def to_frame(self, rows: str = "one", *, limit: Limit = "auto") -> DataFrame:
        """Return the matches as a Spark frame; no job runs before its rows are asked for.

        Parameters
        ----------
        rows : str
            ``"one"``: one row per match, with the partition columns and the measures. ``"all"``: the matched
            rows of the frame. Two columns come first: ``match`` (its number) and ``variable`` (the name in
            the pattern that the row stands for, ``"."`` for any event).
        limit : int, "auto" or None
            The largest number of matches wanted. When there are more, the job that computes the frame fails
            with an error that says so. ``"auto"`` is what this kind of frame can bear: 1,000,000 in memory,
            any number on Spark. None: any number.

        Returns
        -------
        pyspark.sql.DataFrame
            Sorted in the order of the matches; within a match in stream order.

        Notes
        -----
        ``"all"`` matches twice: for the rows, and for the numbers of the matches, whose places in the order
        (not their rows) one task sorts.

        Examples
        --------
        >>> matches.to_frame().write.parquet("matches")  # doctest: +SKIP
        """
        check_rows(rows)
        most = limit_of(limit, None)
        if rows == "one":
            return self._found.in_order(most)
        return self._found.matched_rows(self._found.source.names, most)

    def aggregate(self, **aggregates: str) -> pd.Series:
        """Return aggregates over the events of all matches; an event counts as often as it is matched.

        Parameters
        ----------
        **aggregates : str
            Name and text of each: ``count``, ``sum``, ``avg``, ``min`` or ``max`` of a column of a variable,
            as ``"sum(b.price)"``. ``"count(b)"`` is the number of (match, event) pairs and ``"count()"`` the
            number of matches. In regex queries, ``"sum(price)"`` takes all rows of the matches.

        Returns
        -------
        pandas.Series
            The values under their names; null where there is no match. Counts and sums of integers are exact,
            of any size. Sums of floating-point numbers may differ in the last digits with the number of
            tasks.

        Notes
        -----
        Every task aggregates its own matches. It makes them in blocks where they cannot be counted without
        being made, and in slices of a stream without partitions.

        Examples
        --------
        >>> matches.aggregate(n="count()", total="sum(y.price)")  # doctest: +SKIP
        """
        return self._found.aggregate(aggregates)

    def lineage(self, number: int | None = None, *, limit: Limit = "auto") -> DataFrame:
        """Return which row stands for what: one line per matched row, as a lazy Spark frame.

        Parameters
        ----------
        number : int, optional
            Number of the one match wanted; a job counts the matches first. None: all matches.
        limit : int, "auto" or None
            The largest number of matches wanted, as in `to_frame`.

        Returns
        -------
        pyspark.sql.DataFrame
            ``match``, ``variable``, and the partition and order columns, which tell the row; by match, then
            in stream order.

        Raises
        ------
        IndexError
            When no match has this number.

        Examples
        --------
        >>> matches.lineage(0).show()  # doctest: +SKIP
        """
        names = self._found.event_names
        if number is None:
            return self._found.matched_rows(names, limit_of(limit, None))
        number = number_of(number, self.count())
        rows = self._found.matched_rows(names, None)
        return rows.where(rows["match"] == number)

    def tag(self) -> DataFrame:
        """Return the searched frame with two more columns, ``match`` and ``variable``, null where none.

        Returns
        -------
        pyspark.sql.DataFrame
            Lazy, with the rows in no particular order. The job fails when a row belongs to more than one
            match: ``to_frame(rows="all")`` has each of them.

        Notes
        -----
        It matches twice, as ``to_frame("all")`` does.

        Examples
        --------
        >>> matches.tag().groupBy("match").count()  # doctest: +SKIP
        """
        return self._found.tag()

    # --- pictures

    def explore(self) -> Any:
        """Open the pattern explorer on the query and a part of the frame; see `cepkit.explore`.

        Examples
        --------
        >>> matches.explore()  # doctest: +SKIP
        """
        return open_door("explore")(self._found.frame, self.query)

    def plot(self, value: str | None = None, *, partitions: int = 4, max_events: int = 5000) -> NoReturn:
        """Raise the reason why matches in a Spark frame are not drawn, with the ways to see a part of them.

        Raises
        ------
        UnsupportedQueryError
            Always: a picture shows rows in memory.

        Examples
        --------
        >>> matches.plot()  # doctest: +SKIP
        Traceback (most recent call last):
        cepkit.errors.UnsupportedQueryError: plot() draws the rows of a frame in memory, …
        """
        raise UnsupportedQueryError(_NOT_DRAWN)

    def view(self, what: str = "lineage", **settings: Any) -> View:
        """Return a view of the matches in a part of the frame that is small enough to look into.

        Parameters
        ----------
        what : str
            ``"lineage"``: the matches page by page, with their events and what they share.
        **settings
            ``rows``: of the part, 100,000 at most. Settings of the view: ``title``, ``size`` of a page.

        Returns
        -------
        LineageView
            Its ``part`` says which part: all rows of some keys, or the earliest events; empty when it is all.
            Numbers of matches and positions of events are those in the part.

        Notes
        -----
        Spark counts the frame and hands over the part's columns that the query reads. The search in the part,
        and that of every page, takes place here. The part is chosen as for `explore`.

        See Also
        --------
        cepkit.view

        Examples
        --------
        >>> matches.view(rows=10_000)  # doctest: +SKIP
        """
        return open_door("view")(self, what, **settings)

    # --- reprs

    def _lines(self) -> tuple[str, str]:
        by = f", partitioned by {', '.join(self.query.partition_by)}" if self.query.partition_by else ""
        columns = zip(self._found.names, self._found.measured.schema, strict=False)
        shown = ", ".join(f"{name}: {field.dataType.simpleString()}" for name, field in columns)
        return (
            f"matches of {str(self.query.pattern)!r} in a Spark frame{by}: {shown}",
            "nothing has run yet: head(), count() and the rows of to_frame() start Spark jobs",
        )

    def __repr__(self) -> str:
        return "\n".join(self._lines())

    def _repr_html_(self) -> str:
        what, lazy = map(html.escape, self._lines())
        return f"<p><b>{what}</b></p><p>{lazy}</p>"
