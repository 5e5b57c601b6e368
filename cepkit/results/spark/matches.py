"""`SparkMatches`, the result of a query on a Spark frame; for other frames see `Matches`."""

from __future__ import annotations

import html
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import pandas as pd

from cepkit.errors import UnsupportedQueryError, whole_number
from cepkit.language.regex.query import RegexQuery
from cepkit.language.sequences.query import SequenceQuery
from cepkit.planning.planner import Engine
from cepkit.results.doors import open_door
from cepkit.results.found import Limit, check_rows, length_of, limit_of, number_of
from cepkit.results.spark.found import SparkFound

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from cepkit.widgets.base import View

_ONE_BY_ONE = (
    "matches in a Spark frame are not taken one by one: Spark's machines compute them, and there may be any "
    "number of them; use head() or sample() for some, or iterate over to_frame().toLocalIterator()"
)
_IN_PARTS = (
    "chunks(): the matches in a Spark frame lie in partitions of its own; iterate over "
    "to_frame().toLocalIterator(), or write to_frame() to a table and read that in parts"
)
_BY_TASKS = (
    "write_parquet(): the tasks of Spark write the matches of a Spark frame, each its own part: "
    "matches.to_frame().write.parquet(path)"
)
_NOT_DRAWN = (
    "plot() draws the rows of a frame in memory, and a Spark frame may have any number; view() and explore() "
    "show a part of it, or take a part yourself: df.limit(…) or df.filter(…), then "
    "toPandas().cep.match(…).plot()"
)


class SparkMatches:
    """The matches of a query in a Spark frame.

    `cepkit.match` and ``df.cep.match`` return it for Spark frames. It has the methods of `Matches`, with the
    same arguments and meaning. Results are lazy, and every method call runs the query again; ``to_frame()``
    can be cached or written as any frame. Methods that Spark cannot support raise `UnsupportedQueryError`
    with the reason.

    Notes
    -----
    Matches are sorted by ``order_by`` at their last event. Ties between partitions are sorted by
    ``partition_by``, null first; pandas uses the row's position in the frame, which Spark does not know.
    Matches with the same last event are in the same order as on pandas. The number of a match is its position
    in this order, from 0.

    Without ``partition_by``, tasks share a stream by time when a window limits the matches of a sequence
    query; see `cepkit.frames.spark.slices.Slices`.

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
        """The engine that finds the matches in every task.

        Examples
        --------
        >>> matches.engine.name  # doctest: +SKIP
        'chain'
        """
        return self._found.engine

    @property
    def run(self) -> None:
        """None: the tasks return matches, but no record of their runs.

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
            Only ``"exact"``.
        samples, seed : int
            Not used; `Matches.count` has them for estimates.

        Raises
        ------
        UnsupportedQueryError
            For ``method="estimate"``, which needs all events in one place.

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
        """Return the exact number of matches if it is below 2^63."""
        return length_of(self.count())

    def __bool__(self) -> bool:
        """Return whether a match exists."""
        return self._found.any()

    def count_by_last(self) -> DataFrame:
        """Return the number of matches that end at each event, as a lazy Spark frame.

        Returns
        -------
        pyspark.sql.DataFrame
            The partition and order columns, which identify the event, and ``count``, of type decimal(38, 0).
            One row for every event where a match ends, in stream order. The job fails when a number is too
            large for the type.

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
        """Return a uniform sample of ``n`` matches without replacement, as a pandas DataFrame in match order.

        Parameters
        ----------
        n : int
            Size of the sample, all matches if there are fewer. The driver must hold it.
        seed : int
            The same seed draws the same matches from the same data, for any number of tasks. For a regex
            query the sample equals the one on pandas; for a sequence query it differs.

        Examples
        --------
        >>> matches.sample(1000, seed=1)  # doctest: +SKIP
        """
        return self._found.sample(whole_number("n", n), whole_number("seed", seed))

    def take(self, numbers: Sequence[int]) -> NoReturn:
        """Raise `UnsupportedQueryError`: use `head`, `sample` or `to_frame`.

        Examples
        --------
        >>> matches.take([0])  # doctest: +SKIP
        """
        raise UnsupportedQueryError(_ONE_BY_ONE)

    def __getitem__(self, key: int | slice) -> NoReturn:
        """Raise `UnsupportedQueryError`: use `head`, `sample` or `to_frame`."""
        raise UnsupportedQueryError(_ONE_BY_ONE)

    def __iter__(self) -> NoReturn:
        """Raise `UnsupportedQueryError`: iterate over ``to_frame().toLocalIterator()``."""
        raise UnsupportedQueryError(_ONE_BY_ONE)

    # --- frames

    def chunks(self, size: int = 65_536) -> NoReturn:
        """Raise `UnsupportedQueryError`: iterate over ``to_frame().toLocalIterator()``.

        Examples
        --------
        >>> matches.chunks()  # doctest: +SKIP
        """
        raise UnsupportedQueryError(_IN_PARTS)

    def to_frame(self, rows: str = "one", *, limit: Limit = "auto") -> DataFrame:
        """Return the matches as a lazy Spark frame.

        Parameters
        ----------
        rows : str
            ``"one"``: one row per match, with the partition columns and the measures. ``"all"``: the matched
            rows of the frame. The first two columns are then ``match`` (its number) and ``variable`` (the
            name of the row in the pattern, ``"."`` for any event).
        limit : int, "auto" or None
            The largest number of matches wanted. If there are more, the job that computes the frame fails.
            ``"auto"`` and None mean any number.

        Returns
        -------
        pyspark.sql.DataFrame
            Sorted by match, then in stream order.

        Notes
        -----
        ``"all"`` runs the query twice: for the rows, and for the numbers of the matches. One task sorts the
        places of the matches, not their rows.

        Examples
        --------
        >>> matches.to_frame().write.parquet("matches")  # doctest: +SKIP
        """
        check_rows(rows)
        most = limit_of(limit, None)
        if rows == "one":
            return self._found.in_order(most)
        return self._found.matched_rows(self._found.source.names, most)

    def write_parquet(
        self, path: str | os.PathLike, rows: str = "one", *, overwrite: bool = False
    ) -> NoReturn:
        """Raise `UnsupportedQueryError`: the tasks of Spark write, with ``to_frame().write.parquet(path)``.

        Examples
        --------
        >>> matches.to_frame().write.parquet("matches")  # doctest: +SKIP
        """
        raise UnsupportedQueryError(_BY_TASKS)

    def aggregate(self, **aggregates: str) -> pd.Series:
        """Return aggregates over the events of all matches; an event counts once for every match it is in.

        Parameters
        ----------
        **aggregates : str
            Names and texts of the aggregates, as for `Matches.aggregate`.

        Returns
        -------
        pandas.Series
            The values by name; null without a match. Counts and sums of integers are exact, of any size. Sums
            of floats may differ in the last digits with the number of tasks.

        Notes
        -----
        Every task aggregates its own matches. It builds them in blocks if they cannot be counted without
        being built, and in slices of a stream without partitions.

        Examples
        --------
        >>> matches.aggregate(n="count()", total="sum(y.price)")  # doctest: +SKIP
        """
        return self._found.aggregate(aggregates)

    def lineage(self, number: int | None = None, *, limit: Limit = "auto") -> DataFrame:
        """Return one row per matched row, with its match and its variable, as a lazy Spark frame.

        Parameters
        ----------
        number : int, optional
            Number of the only match wanted; a job counts the matches first. None for all matches.
        limit : int, "auto" or None
            The largest number of matches wanted, as in `to_frame`.

        Returns
        -------
        pyspark.sql.DataFrame
            ``match``, ``variable``, and the partition and order columns, which identify the row; sorted by
            match, then in stream order.

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
        return self._found.matched_rows(names, None, number_of(number, self.count()))

    def tag(self) -> DataFrame:
        """Return the searched frame with two extra columns, ``match`` and ``variable``; null if unmatched.

        Returns
        -------
        pyspark.sql.DataFrame
            Lazy, in no particular order. The job fails when a row belongs to more than one match; use
            ``to_frame(rows="all")`` then. It runs the query twice, as that call does.

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
        """Raise `UnsupportedQueryError`: use `view` or `explore`, which show a part of the frame.

        Examples
        --------
        >>> matches.plot()  # doctest: +SKIP
        """
        raise UnsupportedQueryError(_NOT_DRAWN)

    def view(self, what: str = "lineage", **settings: Any) -> View:
        """Return an interactive view of the matches in a small part of the frame.

        Parameters
        ----------
        what : str
            ``"lineage"``: the matches page by page, with their events and the events they share.
        **settings
            ``rows``: the most rows of the part, by default 100,000. ``title``. ``size`` of a page.

        Returns
        -------
        LineageView
            Its ``part`` names the part: all rows of some keys, or the earliest events; empty for the whole
            frame. Matches and events are numbered within the part.

        Notes
        -----
        Spark counts the frame and returns the columns of the part that the query reads; the driver searches
        the part. The part is chosen as for `explore`.

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
