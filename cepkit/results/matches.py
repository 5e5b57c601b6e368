"""`Matches`, the result of a query on a frame in memory; for Spark frames see `SparkMatches`."""

from __future__ import annotations

import html
import os
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
import pandas as pd

from cepkit.errors import CepError, short_text, whole_number
from cepkit.events import Frame, Source
from cepkit.language.numbers import count_text
from cepkit.language.regex.query import RegexQuery
from cepkit.language.sequences.query import SequenceQuery
from cepkit.limits import MemoryLimit, bound_memory, check_memory, fits_memory
from cepkit.planning.planner import Engine
from cepkit.progress import checkpoint, show_progress
from cepkit.results.arguments import (
    CURE,
    LIMIT,
    PER_CELL,
    PER_NUMBER,
    Limit,
    bounded,
    bounds_of,
    check_key,
    check_limit,
    check_rows,
    limit_of,
    number_of,
    number_of_items,
)
from cepkit.results.doors import open_door
from cepkit.results.found import FoundMatches, Part
from cepkit.results.match import Match, plain_value
from cepkit.results.tagging import lineage_frame, table_of_part, tag_columns

if TYPE_CHECKING:
    import plotly.graph_objects as go
    import pyarrow as pa

    from cepkit.engines.counting.estimate import CountEstimate
    from cepkit.plots.timeline.selection import Totals
    from cepkit.widgets.base import View

SHOWN = 10  # matches in a repr
_TOGETHER = 1000  # matches that iteration builds at once
_IN_GROUP = 1 << 18  # matches in a row group of a Parquet file
_NOT_SEEN = "none in the part that was searched so far; count() searches all of it"


class Matches:
    """The matches of a query in a frame.

    `cepkit.match` and ``df.cep.match`` return it for pandas, polars and Arrow frames. Matches are sorted by
    their last event; matches with the same last event are compared backwards, event by event. The number of
    a match is its position in this order, from 0.

    Matches, measures and rows are computed on demand, from the frame as it was at the call. With pandas 3 or
    later, changes that you make to a pandas frame afterwards do not reach them. With pandas 2 they do: do not
    change the frame then.

    Notes
    -----
    Memory is bounded by the part that you request, and by ``memory_limit`` of `cepkit.match`: a larger part
    raises `ResultTooLargeError` with the figure. When the conditions link neighbouring events only, matches
    are counted without being built; `cepkit.explain` says whether this is so.

    Examples
    --------
    >>> import cepkit as cep
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"kind": list("abb"), "ts": [1, 2, 3], "price": [5, 7, 9]})
    >>> cep.match(frame, "PATTERN SEQ(a x, b y)", event_type="kind", order_by="ts")
    2 matches of 'SEQ(a x, b y)' in 3 events
       x_ts  y_ts
    0     1     2
    1     1     3
    """

    _cure = CURE

    def __init__(
        self,
        found: FoundMatches[Any],
        source: Source,
        engine: Engine,
        native: Callable[[Frame], Frame] | None = None,
        memory_limit: MemoryLimit = "auto",
    ):
        self._found, self._source, self._engine = found, source, engine
        self._native = native or (lambda frame: frame)
        self._memory_limit = memory_limit

    # --- what ran

    @property
    def query(self) -> RegexQuery | SequenceQuery:
        """The query as a value.

        Examples
        --------
        >>> import cepkit as cep
        >>> import pandas as pd
        >>> cep.match(pd.DataFrame({"x": [1, 2]}), "PATTERN SEQ(_ a, _ b)").query.pattern
        <pattern SEQ(_ a, _ b)>
        """
        return self._found.program.query

    @property
    def engine(self) -> Engine:
        """The engine that finds the matches.

        Examples
        --------
        >>> import cepkit as cep
        >>> import pandas as pd
        >>> cep.match(pd.DataFrame({"x": [1, 2]}), "up", define={"up": "x > 1"}).engine.name
        'regex'
        """
        return self._engine

    @property
    def run(self) -> Any:
        """The engine's record of its run; None for engines that keep none.

        The regex engine returns a `Run`: tested partial matches, blocks, threads, and the tier. A new query
        is interpreted (``tier="interpreted"``) until a kernel of its own is compiled. The counting engine
        returns a `CountingRun` with the tier, and searches return a `SearchRun`. ``linked`` and the
        engines of runs return a `PartialMatchRun`: numbers of partial matches, copies and chains. Parallel
        engines return a `ParallelRun`: makespan, busy threads, comparisons and the trace.

        Examples
        --------
        >>> import cepkit as cep
        >>> import pandas as pd
        >>> cep.match(pd.DataFrame({"x": [1, 2]}), "up", define={"up": "x > 1"}).run.threads
        1
        """
        return self._found.run

    # --- how many

    @overload
    def count(self, method: Literal["exact"] = "exact", *, samples: int = 10_000, seed: int = 0) -> int: ...
    @overload
    def count(
        self, method: Literal["estimate"], *, samples: int = 10_000, seed: int = 0
    ) -> CountEstimate: ...
    @overload
    def count(self, method: str, *, samples: int = 10_000, seed: int = 0) -> int | CountEstimate: ...
    @show_progress("counting matches")
    @bounded
    def count(self, method: str = "exact", *, samples: int = 10_000, seed: int = 0) -> int | CountEstimate:
        """Return the number of matches, an integer of any size, or an estimate of it.

        Parameters
        ----------
        method : str
            ``"exact"`` or ``"estimate"``. Some conditions can be tested only on matches that are built. An
            estimate counts the matches without these conditions, and draws a uniform sample to estimate the
            share that fulfils them. See `cepkit.engines.counting.estimate.estimate_count`.
        samples, seed : int
            For an estimate: the size of the sample. The same seed draws the same sample.

        Returns
        -------
        int or CountEstimate
            An estimate has ``value``, ``low`` and ``high`` (95 % confidence), and says when it is exact. The
            estimate of a regex query is always exact.

        Raises
        ------
        UnsupportedQueryError
            For an estimate with an after-match policy, a strategy other than ``any``, or ``until``.

        Notes
        -----
        Counting engines take O(events + pairs of events in a window) and count again for each 62 bits of a
        number; searches take O(partial matches). Memory O(events + digits of the number).

        Examples
        --------
        >>> import cepkit as cep
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"x": range(400)})
        >>> matches = cep.match(frame, "PATTERN SEQ(_ a, _ b, _ c) WHERE a.x + b.x < c.x")
        >>> matches.count("estimate")
        about 5.33e6 (95 % between 5.22e6 and 5.43e6; 10,000 samples of 1.06e7)
        >>> matches.count()
        5313300
        """
        if not isinstance(method, str) or method not in ("exact", "estimate"):
            raise CepError(f"method={short_text(repr(method))}: a count is 'exact' or an 'estimate'")
        return self._found.count() if method == "exact" else self._found.estimate(samples, seed)

    def __len__(self) -> int:
        """Return the exact number of matches if it is below 2^63."""
        n = self.count()
        if n >= 2**63:
            raise OverflowError(f"there are {count_text(n)} matches; len() ends at 2^63, use count()")
        return n

    @show_progress("searching")
    def __bool__(self) -> bool:
        """Return whether a match exists."""
        return self._found.any()

    @show_progress("counting matches")
    @bounded
    def count_by_last(self) -> pd.DataFrame:
        """Return the number of matches that end at each row.

        Returns
        -------
        pandas.DataFrame
            ``index`` (label of the row in the frame), the partition and order columns, and ``count``. One
            row for every event where a match ends, in stream order.

        Examples
        --------
        >>> import cepkit as cep
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"kind": list("aabb")})
        >>> cep.match(frame, "PATTERN SEQ(a x, b y)", event_type="kind").count_by_last()
           index  count
        0      2      2
        1      3      2
        """
        positions, counts = self._found.ends()
        rows = self._found.events.rows(np.asarray(positions, np.int64))
        made = {"index": self._source.index_labels(rows)}
        for name in dict.fromkeys((*self.query.partition_by, *self.query.order_by)):
            made[name] = self._source.arrow(name, rows).to_pandas()
        made["count"] = counts if isinstance(counts, np.ndarray) else np.array(counts, dtype=object)
        return pd.DataFrame(made)

    # --- some of them

    @show_progress("building matches")
    @bounded
    def head(self, n: int = 5) -> Frame:
        """Return the first ``n`` matches as a frame, as `to_frame` would.

        Examples
        --------
        >>> import cepkit as cep
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"kind": list("abb"), "ts": [1, 2, 3]})
        >>> cep.match(frame, "PATTERN SEQ(a x, b y)", event_type="kind", order_by="ts").head(1)
           x_ts  y_ts
        0     1     2
        """
        n = whole_number("n", n)
        self._check_memory(n)
        return self._frame(self._found.first(n))

    @show_progress("drawing matches")
    @bounded
    def sample(self, n: int, seed: int = 0) -> Frame:
        """Return a uniform sample of ``n`` matches without replacement, as a frame in match order.

        The sample has all matches when there are fewer than ``n``. The same seed draws the same matches.

        Notes
        -----
        Time O(count + n x events in a window), memory O(events x digits of their numbers of matches + n).

        Examples
        --------
        >>> import cepkit as cep
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"kind": list("ab") * 50, "ts": range(100)})
        >>> matches = cep.match(frame, "PATTERN SEQ(a x, b y)", event_type="kind", order_by="ts")
        >>> len(matches.sample(3)), matches.count()
        (3, 1275)
        """
        n, seed = whole_number("n", n), whole_number("seed", seed)
        self._check_memory(n, PER_NUMBER)
        return self._frame(self._found.sample(n, seed))

    @show_progress("building matches")
    @bounded
    def take(self, numbers: Sequence[int]) -> Frame:
        """Return the matches with these numbers, in this order, as a frame.

        Raises
        ------
        IndexError
            When no match has one of the numbers.
        WrongTypeError
            When they are no whole numbers, such as a mask of True and False.

        Examples
        --------
        >>> import cepkit as cep
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"kind": list("abb"), "ts": [1, 2, 3]})
        >>> matches = cep.match(frame, "PATTERN SEQ(a x, b y)", event_type="kind", order_by="ts")
        >>> matches.take([0, -1])
           x_ts  y_ts
        0     1     2
        1     1     3
        """
        self._check_memory(number_of_items("take: numbers", numbers), PER_NUMBER, is_asked=True)
        n, wanted = self.count(), []
        for number in numbers:
            wanted.append(number_of(number, n))
            if len(wanted) % _TOGETHER == 0:  # an iterator does not say how many numbers it has
                self._check_memory(len(wanted), PER_NUMBER, is_asked=True)
        return self._frame(self._found.take(wanted))

    @overload
    def __getitem__(self, key: int) -> Match: ...
    @overload
    def __getitem__(self, key: slice) -> Matches: ...
    @show_progress("building matches")
    @bounded
    def __getitem__(self, key: int | slice) -> Match | Matches:
        """Return the match with this number, or the matches of a slice, numbered from 0.

        A slice of a sequence query has at most a million matches.
        """
        n = self.count()
        if isinstance(key, slice):
            found = self._found.narrow(range(*bounds_of(key, n)))
            return Matches(found, self._source, self._engine, self._native, self._memory_limit)
        check_key(key)
        number = number_of(key, n)
        return next(self._to_matches(self._found.take([number]), number))

    def __iter__(self) -> Iterator[Match]:
        """Yield the matches in their order."""
        number = 0
        for part in self._found.blocks(_TOGETHER):
            yield from self._to_matches(part, number)
            number += len(part)

    def _to_matches(self, part: Part, number: int) -> Iterator[Match]:
        table = as_pandas(self._measure(part))
        variables, items = self._found.variables(part), self._found.items(part)
        rows = self._found.events.rows(items.event_of_item.astype(np.int64, copy=False))
        for i in range(len(part)):
            own = slice(items.first_item_of_match[i], items.first_item_of_match[i + 1])
            frame = self._source.rows(rows[own], {"variable": variables[own]})
            # A row taken as one Series would have a single type.
            measures = {name: plain_value(table[name].iloc[i]) for name in table.columns}
            yield Match(number + i, measures, self._native(frame))

    # --- frames

    def chunks(self, size: int = 65_536) -> Iterator[Frame]:
        """Iterate over all matches as frames of at most ``size`` rows, in bounded memory.

        Examples
        --------
        >>> import cepkit as cep
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"kind": list("aabb"), "ts": range(4)})
        >>> matches = cep.match(frame, "PATTERN SEQ(a x, b y)", event_type="kind", order_by="ts")
        >>> sum(len(chunk) for chunk in matches.chunks(3))
        4
        """
        return self._chunks(whole_number("size", size, 1))

    def _chunks(self, size: int) -> Iterator[Frame]:
        blocks = self._found.blocks(size)
        while True:
            with show_progress("building matches"), bound_memory(self._memory_limit, CURE):
                part = next(blocks, None)
                frame = None if part is None else self._frame(part)
            if part is None:
                return
            yield frame

    @show_progress("building matches")
    @bounded
    def to_frame(self, rows: str = "one", *, limit: Limit = "auto") -> Frame:
        """Return the matches as a frame of the same kind as the searched frame.

        Parameters
        ----------
        rows : str
            ``"one"``: one row per match, with the partition columns and the measures. ``"all"``: the matched
            rows of the frame with their own index. The first two columns are then ``match`` (its number) and
            ``variable`` (the name of the row in the pattern, ``"."`` for any event).
        limit : int, "auto" or None
            The largest number of matches wanted; None for any number. ``"auto"`` is 1,000,000 in memory and
            any number on Spark.

        Returns
        -------
        DataFrame or table
            Sorted by match, then in stream order.

        Raises
        ------
        ResultTooLargeError
            When there are more than ``limit`` matches; the message says how many.

        Notes
        -----
        If a row of a regex query fits several variables, each variable takes as many rows as it can, from
        left to right.
        Time and memory O(matched rows). A result beyond ``memory_limit`` of `cepkit.match` is refused.

        Examples
        --------
        >>> import cepkit as cep
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"kind": list("abb"), "ts": [1, 2, 3]})
        >>> matches = cep.match(frame, "PATTERN SEQ(a x, b y)", event_type="kind", order_by="ts")
        >>> matches.to_frame("all")
           match variable kind  ts
        0      0        x    a   1
        1      0        y    b   2
        0      1        x    a   1
        2      1        y    b   3
        """
        check_rows(rows)
        part = self._all(limit_of(limit, LIMIT), self._n_columns if rows == "one" else 0)
        if rows == "one":
            return self._frame(part)
        items = self._found.items(part)
        cells = len(items.event_of_item) * (2 + len(self._source.schema))
        check_memory(PER_CELL * cells, f"the rows of {len(part):,} matches")
        numbers = {"match": items.match_of_item, "variable": self._found.variables(part)}
        events = items.event_of_item.astype(np.int64, copy=False)
        return self._native(self._source.rows(self._found.events.rows(events), numbers))

    def _all(self, limit: int | None, n_columns: int = 0) -> Part:
        """Return all matches; ``n_columns`` is the number of columns of the frame to make."""
        n = self._found.count()
        check_limit(n, limit)
        check_memory(self._bytes_of(n, n_columns), f"{count_text(n)} matches")
        return self._found.all()

    def _check_memory(self, n: int, bytes_each: int = 0, *, is_asked: bool = False) -> None:
        """Raise if the frame of ``n`` matches, or of all if there are no more, takes too much memory.

        ``bytes_each`` is what each match takes besides. ``is_asked`` says that all ``n`` matches are built,
        even if some of them are the same.
        """
        if n <= _TOGETHER:
            return
        needed = self._bytes_of(n, self._n_columns) + bytes_each * n
        if fits_memory(needed):
            return  # without counting the matches
        if not is_asked and (there := self._found.count()) < n:
            n, needed = there, self._bytes_of(there, self._n_columns) + bytes_each * there
        check_memory(needed, f"{count_text(n)} matches")

    def _bytes_of(self, n: int, n_columns: int) -> int:
        return self._found.bytes_to_build(n) + PER_CELL * n * n_columns

    @cached_property
    def _n_columns(self) -> int:
        return len(self._found.measure(self._found.nothing, self._source))

    def _frame(self, part: Part) -> Frame:
        return self._native(self._measure(part))

    def _measure(self, part: Part) -> Frame:
        return self._source.result(self._found.measure(part, self._source))

    def write_parquet(self, path: str | os.PathLike, rows: str = "one", *, overwrite: bool = False) -> int:
        """Write all matches into a Parquet file, in constant memory, and return the number of rows written.

        The file gets its name when it is complete. Nothing is left of an interrupted call.

        Parameters
        ----------
        path : str or path
            The file.
        rows : str
            ``"one"`` or ``"all"``, as for `to_frame`. The index of a pandas frame is not written.
        overwrite : bool
            Whether a file of this name is replaced.

        Returns
        -------
        int
            The number of rows.

        Raises
        ------
        CepError
            When the file exists and ``overwrite`` is False, or its folder does not exist.

        Notes
        -----
        Time O(matches). The engine builds some 262,000 matches at a time. Engines that search build all
        matches with the same last event together.

        Examples
        --------
        >>> import cepkit as cep
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"kind": list("aabb"), "ts": range(4)})
        >>> matches = cep.match(frame, "PATTERN SEQ(a x, b y)", event_type="kind", order_by="ts")
        >>> matches.write_parquet("pairs.parquet")  # doctest: +SKIP
        4
        """
        from cepkit.frames.writing import check_target, write_blocks

        check_rows(rows)
        target = check_target(path, overwrite=overwrite)
        n = self.count()
        empty = table_of_part(self._found, self._found.nothing, 0, self._source, rows)
        with (
            show_progress("matches", n, takes_checkpoints=False) as progress,
            bound_memory(self._memory_limit, CURE),
        ):
            return write_blocks(target, empty, self._tables(rows, progress))

    def _tables(self, rows: str, progress: Callable[[float], None] | None) -> Iterator[pa.Table]:
        """Yield all matches as Arrow tables."""
        number = 0
        for part in self._found.blocks(_IN_GROUP):
            checkpoint()
            yield table_of_part(self._found, part, number, self._source, rows)
            number += len(part)
            if progress is not None:
                progress(len(part))

    @show_progress("aggregating matches")
    @bounded
    def aggregate(self, **aggregates: str) -> pd.Series:
        """Return aggregates over the events of all matches; an event counts once for every match it is in.

        Parameters
        ----------
        **aggregates : str
            Names and texts of the aggregates: ``count``, ``sum``, ``avg``, ``min`` or ``max`` of a column of
            a variable, as ``"sum(b.price)"``. ``"count(b)"`` is the number of (match, event) pairs and
            ``"count()"`` the number of matches. In regex queries, ``"sum(price)"`` uses all matched rows.

        Returns
        -------
        pandas.Series
            The values by name; null without a match. Counts and sums of integers are exact, of any size.

        Raises
        ------
        PredicateError
            When a text is not one aggregate of one column, or the column has no numbers.
        ColumnNotFoundError
            When the column does not exist.

        Notes
        -----
        When the conditions link neighbouring events only, no match is built.
        Source: Poppe et al., "GRETA", PVLDB 2017.

        Examples
        --------
        >>> import cepkit as cep
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"kind": list("aab"), "price": [1, 2, 5]})
        >>> matches = cep.match(frame, "PATTERN SEQ(a x, b y)", event_type="kind")
        >>> matches.aggregate(n="count()", total="sum(x.price)", top="max(y.price)").to_dict()
        {'n': 2, 'total': 3, 'top': 5}
        """
        return self._found.aggregate(self._source, aggregates)

    @show_progress("building matches")
    @bounded
    def lineage(self, number: int | None = None, *, limit: Limit = "auto") -> pd.DataFrame:
        """Return one row per matched row, with its match and its variable.

        Parameters
        ----------
        number : int, optional
            Number of the only match wanted; None for all matches.
        limit : int, "auto" or None
            The largest number of matches wanted, as in `to_frame`.

        Returns
        -------
        pandas.DataFrame
            ``match``, ``variable``, ``position`` (in the stream) and ``index`` (label of the row in the
            frame), sorted by match, then by position.

        Raises
        ------
        IndexError
            When no match has this number.
        ResultTooLargeError
            When there are more than ``limit`` matches; the message says how many.

        Examples
        --------
        >>> import cepkit as cep
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"kind": list("abb")}, index=["r", "s", "t"])
        >>> cep.match(frame, "PATTERN SEQ(a x, b y)", event_type="kind").lineage(1)
           match variable  position index
        0      1        x         0     r
        1      1        y         2     t
        """
        if number is None:
            return lineage_frame(self._found, self._all(limit_of(limit, LIMIT)), 0, self._source)
        first = number_of(number, self.count())
        return lineage_frame(self._found, self._found.take([first]), first, self._source)

    @show_progress("building matches")
    @bounded
    def tag(self) -> Frame:
        """Return the searched frame with two extra columns, ``match`` and ``variable``; null if unmatched.

        Raises
        ------
        CepError
            When a row belongs to more than one match; use ``to_frame(rows="all")`` then.

        Examples
        --------
        >>> import cepkit as cep
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"kind": list("abc")})
        >>> cep.match(frame, "PATTERN SEQ(a x, b y)", event_type="kind").tag()
          kind  match variable
        0    a      0        x
        1    b      0        y
        2    c   <NA>     <NA>
        """
        part = self._all(max(LIMIT, self._found.events.n_events))  # more matches than events share rows
        return self._native(self._source.tagged(tag_columns(self._found, part)))

    # --- pictures

    def explore(self) -> Any:
        """Open the pattern explorer on the query and the frame that was searched; see `cepkit.explore`.

        Examples
        --------
        >>> matches.explore()  # doctest: +SKIP
        """
        return open_door("explore")(self._source.frame, self.query)

    @show_progress("building matches")
    @bounded
    def plot(self, value: str | None = None, *, partitions: int = 4, max_events: int = 5000) -> go.Figure:
        """Draw the first matches over the events of their partitions.

        Parameters
        ----------
        value : str, optional
            Column to draw; None for the first numeric column in a condition.
        partitions : int
            The largest number of partitions shown; only partitions with matches are shown.
        max_events : int
            The largest number of events drawn; the title says how many are left out.

        Returns
        -------
        plotly.graph_objects.Figure

        Examples
        --------
        >>> import cepkit as cep
        >>> import pandas as pd
        >>> matches = cep.match(pd.DataFrame({"x": [1, 2]}), "up", define={"up": "x > 1"})
        >>> matches.plot("x").layout.title.text.startswith("up")
        True
        """
        from cepkit.plots.timeline.found import plot_matches

        found = self._found
        part = found.for_picture()

        def marks(numbers: np.ndarray) -> pd.DataFrame:
            chosen = part.take(numbers)
            items = found.items(chosen)
            return pd.DataFrame(
                {
                    "match": numbers[items.match_of_item],
                    "variable": found.variables(chosen),
                    "position": items.event_of_item,
                }
            )

        return plot_matches(
            self.query, self._source, found.events, found.program.columns,
            found.events.partition_of_event[part.last], marks, partial(self._totals, part),
            value=value, partitions=partitions, max_events=max_events,
        )  # fmt: skip

    def _totals(self, part: Part, n_partitions: int) -> Totals:
        """Return the totals for a picture of ``part`` without building more matches."""
        from cepkit.plots.timeline.selection import Totals

        events = self._found.events
        n, is_exact = self._at_least(len(part))
        n_partitions_matched = n_events_matched = None
        if is_exact:
            is_whole = n == len(part)
            ends = part.last if is_whole else np.asarray(self._found.ends()[0], np.int64)
            n_partitions_matched = len(np.unique(events.partition_of_event[ends]))
            if is_whole:
                n_events_matched = len(np.unique(self._found.items(part).event_of_item))
        return Totals(events.n_events, n_partitions, n, is_exact, n_partitions_matched, n_events_matched)

    def _at_least(self, n_seen: int) -> tuple[int, bool]:
        """Return a cheap lower bound of the number of matches after ``n_seen`` were built; say if exact."""
        n, is_exact = self._found.at_least()
        return max(n, n_seen), is_exact

    def view(self, what: str = "lineage", **settings: Any) -> View:
        """Return an interactive view: a widget in a notebook, otherwise a picture.

        Parameters
        ----------
        what : str
            ``"lineage"``: the matches page by page, with their events and the events they share; with the
            engine ``linked`` also its chains. ``"threads"`` and ``"buffers"``: the run of a parallel engine
            with ``trace=True``.
        **settings
            Settings of the view: ``title``, and ``size`` of a page.

        See Also
        --------
        cepkit.view

        Examples
        --------
        >>> import cepkit as cep
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"kind": list("aabb")})
        >>> cep.match(frame, "PATTERN SEQ(a x, b y)", event_type="kind").view()
        LineageView(4 matches)
        """
        return open_door("view")(self, what, **settings)

    # --- reprs

    @cached_property
    def _headline(self) -> str:
        events, by = self._found.events, self.query.partition_by
        n, is_exact = self._at_least(len(self._shown))
        # A category without rows has a code but is no partition.
        n_partitions = int(np.count_nonzero(np.bincount(events.partition_of_event)))
        plural = "" if n_partitions == 1 else "s"
        parts = f", {n_partitions:,} partition{plural} by {', '.join(by)}" if by else ""
        if n == 0:
            found = "no match" if is_exact else "no match so far"
        else:
            found = "1 match" if n == 1 and is_exact else f"{count_text(n, exact=is_exact)} matches"
        return f"{found} of {str(self.query.pattern)!r} in {events.n_events:,} events{parts}"

    @cached_property
    def _shown(self) -> pd.DataFrame:
        return as_pandas(self._measure(self._found.glance(SHOWN)))

    @cached_property
    def _more(self) -> str:
        n, is_exact = self._at_least(len(self._shown))
        more = n - len(self._shown)
        if not is_exact:
            if not n:
                return _NOT_SEEN
            return f"… {count_text(more, exact=False)} more" if more > 0 else "… perhaps more"
        return f"… {count_text(more)} more" if more > 0 else ""

    @property
    def _call(self) -> str:
        """The call that shows more matches, as HTML."""
        n, is_exact = self._at_least(0)
        if not is_exact:
            return "<code>count()</code> finds all of them"
        if n > LIMIT:
            return "<code>sample(…)</code> draws from all of them"
        return "<code>to_frame()</code> has them all"

    @show_progress("searching")
    def __repr__(self) -> str:
        if not len(self._shown):
            return f"{self._headline}\n{self._more or self._found.hint}"
        table = self._shown.to_string(max_rows=SHOWN)
        return "\n".join(part for part in (self._headline, table, self._more) if part)

    @show_progress("searching")
    def _repr_html_(self) -> str:
        head = f"<p><b>{html.escape(self._headline)}</b></p>"
        if not len(self._shown):
            return f"{head}<p>{html.escape(self._more or self._found.hint)}</p>"
        more = f"<p>{self._more}; {self._call}</p>" if self._more else ""
        return head + self._shown.to_html(max_rows=SHOWN, border=0) + more


def as_pandas(frame: Frame) -> pd.DataFrame:
    """Return a pandas, polars or Arrow frame as a pandas DataFrame."""
    return frame if isinstance(frame, pd.DataFrame) else frame.to_pandas()
