"""`Matches`, the result of a query on a frame in memory; for Spark frames see `SparkMatches`."""

from __future__ import annotations

import html
import os
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal, overload

import pandas as pd

from cepkit.errors import whole_number
from cepkit.events import Frame, Source
from cepkit.frames.pandas import as_pandas
from cepkit.language.regex.query import RegexQuery
from cepkit.limits import MemoryLimit
from cepkit.progress import show_progress
from cepkit.results.doors import open_door
from cepkit.results.found import (
    CURE,
    LIMIT,
    PER_NUMBER,
    FoundMatches,
    Limit,
    Match,
    Part,
    bounded,
    bounds_of,
    check_key,
    check_rows,
    length_of,
    limit_of,
    matches_of_part,
    most_needed,
    number_of,
    number_of_items,
)
from cepkit.results.in_memory import (
    SHOWN,
    TOGETHER,
    all_matches,
    call_for_more,
    check_building,
    chunks_of,
    count_matches,
    counts_by_last,
    headline,
    how_many_more,
    html_of_table,
    lineage_frame,
    matched_rows,
    paragraphs,
    tag_columns,
    text_of_table,
)

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from cepkit.engines.counting.estimate import CountEstimate
    from cepkit.language.sequences.query import SequenceQuery
    from cepkit.planning.planner import Engine
    from cepkit.widgets.base import View


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
        return count_matches(self._found, method, samples, seed)

    def __len__(self) -> int:
        """Return the exact number of matches if it is below 2^63."""
        return length_of(self.count())

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
        return counts_by_last(self._found, self._source)

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
        check_building(self._found, self._source, n)
        return self._frame(self._found.first(n))

    @show_progress("drawing matches")
    @bounded
    def sample(self, n: int, seed: int = 0) -> Frame:
        """Return a uniform sample of ``n`` matches without replacement, as a frame in match order.

        The sample has all matches when there are fewer than ``n``. The same seed draws the same matches.

        Notes
        -----
        Time O(count + n x events in a window), memory O(events x digits of their numbers of matches + n).
        Where a search would take long, matches of the query without some of its conditions are drawn, until
        ``n`` of them fulfil these, too.

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
        check_building(self._found, self._source, n, PER_NUMBER)
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
        check = partial(check_building, self._found, self._source, bytes_each=PER_NUMBER, is_asked=True)
        check(number_of_items("take: numbers", numbers))
        n, wanted = self.count(), []
        for number in numbers:
            wanted.append(number_of(number, n))
            if len(wanted) % TOGETHER == 0:  # an iterator does not say how many numbers it has
                check(len(wanted))
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
        if isinstance(key, slice):
            most = most_needed(key)
            n = self.count() if most is None else len(self._found.first(most))
            matches = self._found.narrow(range(*bounds_of(key, n)))
            return Matches(matches, self._source, self._engine, self._native, self._memory_limit)
        check_key(key)
        most = most_needed(slice(key + 1))
        if most is None:
            number = number_of(key, self.count())
            part = self._found.take([number])
        else:  # without a count of all
            part = self._found.first(most)
            number = number_of(key, len(part))
            part = part.take(slice(number, number + 1))
        return next(self._one_by_one(part, number))

    def __iter__(self) -> Iterator[Match]:
        """Yield the matches in their order."""
        number = 0
        for part in self._found.blocks(TOGETHER):
            yield from self._one_by_one(part, number)
            number += len(part)

    def _one_by_one(self, part: Part, first_number: int) -> Iterator[Match]:
        return matches_of_part(self._found, part, first_number, self._source, self._native)

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
        size = whole_number("size", size, 1)
        return chunks_of(self._found, size, self._frame, self._memory_limit)

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
        most = limit_of(limit, LIMIT)
        if rows == "one":
            return self._frame(all_matches(self._found, most, self._source))
        return self._native(matched_rows(self._found, all_matches(self._found, most), self._source))

    def _frame(self, part: Part) -> Frame:
        return self._native(self._source.result(self._found.measure(part, self._source)))

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
        from cepkit.results.in_memory import write_matches

        return write_matches(
            self._found, self._source, self.count, path, rows, self._memory_limit, overwrite=overwrite
        )

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
            part, first = all_matches(self._found, limit_of(limit, LIMIT)), 0
        else:
            first = number_of(number, self.count())
            part = self._found.take([first])
        return lineage_frame(self._found, part, first, self._source)

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
        most = max(LIMIT, self._found.events.n_events)
        part = all_matches(self._found, most)  # more matches than events share rows
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
        from cepkit.results.in_memory import draw_matches

        return draw_matches(
            self._found, self._source, value=value, partitions=partitions, max_events=max_events
        )

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
    def _shown(self) -> pd.DataFrame:
        return as_pandas(self._source.result(self._found.measure(self._found.glance(SHOWN), self._source)))

    def _headline(self) -> str:
        return headline(self._found, len(self._shown))

    @cached_property
    def _around(self) -> tuple[str, str]:
        """What to say before the shown matches, and what after them."""
        n_shown = len(self._shown)
        more = how_many_more(self._found, n_shown)
        return self._headline(), more if n_shown else more or self._found.hint

    @show_progress("searching")
    def __repr__(self) -> str:
        head, more = self._around
        return text_of_table(head, self._shown, more) if len(self._shown) else f"{head}\n{more}"

    @show_progress("searching")
    def _repr_html_(self) -> str:
        head, more = self._around
        head = f"<p><b>{html.escape(head)}</b></p>"
        if not len(self._shown):
            return head + paragraphs(more)
        return html_of_table(head, self._shown, f"{more}; {call_for_more(self._found)}" if more else "")
