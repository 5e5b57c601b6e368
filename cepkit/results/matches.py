"""`Matches`, the result of a query on a frame in memory; `SparkMatches`, the same on a Spark frame."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

import pandas as pd

from cepkit.doors import open_door
from cepkit.errors import CepError, PredicateError, in_short, nearest, short_text, whole_number
from cepkit.events import Frame
from cepkit.progress import show_progress
from cepkit.results.found import FoundResult, Limit, Match, bounded, check_overlap, check_rows, length_of

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from cepkit.engines.counting.estimate import CountEstimate
    from cepkit.planning.planner import Engine
    from cepkit.widgets.scene_view import View

REASON = "reason"  # the column that says why a row is set aside


class Matches:
    """The matches of a query in a frame.

    `cepkit.match`, `cepkit.sql` and ``df.cep.match`` return it for pandas, polars and Arrow frames. Matches
    are sorted by their last event; matches with the same last event are compared backwards, event by event.
    The number of a match is its position in this order, from 0.

    Matches of MATCH_RECOGNIZE are sorted by partition, in the order of the first rows of the partitions, and
    in a partition as they are found. MATCH_NUMBER() counts from 1 in each partition. WHERE, ORDER BY, OFFSET
    and LIMIT of a SELECT change the rows of `to_frame`, `head` and `sample`. All other methods are about the
    matches of the clause, and so is `len`. The text of the result says both: ``3 matches of 'A B+' in 8
    rows; WHERE keeps 2 of 3 rows``. A WINDOW with a row pattern has `count` and `to_frame` only. A method
    that a kind of query does not have raises `UnsupportedQueryError` with the reason.

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

    _set_aside: Frame | None = None  # the rows that the query could not search

    def __init__(self, found: FoundResult):
        self._found = found

    # --- what ran

    @property
    def query(self) -> Any:
        """The query as a value.

        Examples
        --------
        >>> import cepkit as cep
        >>> import pandas as pd
        >>> cep.match(pd.DataFrame({"x": [1, 2]}), "PATTERN SEQ(_ a, _ b)").query.pattern
        <pattern SEQ(_ a, _ b)>
        """
        return self._found.query

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
        return self._found.engine

    @property
    def run(self) -> Any:
        """The engine's record of its run; None for engines that keep none.

        The regex engine returns a `Run`: tested partial matches, blocks, threads, and the tier. A new query
        is interpreted (``tier="interpreted"``) until a kernel of its own is compiled. Counting and searches
        return a `SearchRun` with the tier. ``linked`` and the engines of runs return a `PartialMatchRun`:
        numbers of partial matches, copies and chains. Parallel engines return a `ParallelRun`: makespan,
        busy threads, comparisons and the trace.

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
        return self._found.count(method, samples, seed)

    if not TYPE_CHECKING:  # checkers know all attributes

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_"):
                raise AttributeError(name)
            names = [known for known in dir(type(self)) if not known.startswith("_")]
            hint = nearest(name, names)
            if hasattr(pd.DataFrame, name) or name == "to_pandas":
                hint = " A DataFrame has it: call to_frame() first"
            raise in_short(AttributeError(f"matches have no {name!r}.{hint}"))

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
        return self._found.count_by_last()

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
        return self._found.head(whole_number("n", n))

    @show_progress("drawing matches")
    @bounded
    def sample(self, n: int, seed: int = 0) -> Frame:
        """Return a uniform sample of ``n`` matches without replacement, as a frame in match order.

        The sample has all matches when there are fewer than ``n``. The same seed draws the same matches.

        Notes
        -----
        Time O(count + n x events in a window), memory O(events x digits of their match counts + n). Where
        the exact search would take long, cepkit leaves out some conditions, draws matches of this easier
        query, and keeps those that also fulfil the conditions left out, until there are ``n``.

        Examples
        --------
        >>> import cepkit as cep
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"kind": list("ab") * 50, "ts": range(100)})
        >>> matches = cep.match(frame, "PATTERN SEQ(a x, b y)", event_type="kind", order_by="ts")
        >>> len(matches.sample(3)), matches.count()
        (3, 1275)
        """
        return self._found.sample(whole_number("n", n), whole_number("seed", seed))

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
        return self._found.take(numbers)

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
        return Matches(self._found.narrow(key)) if isinstance(key, slice) else self._found.match(key)

    def __iter__(self) -> Iterator[Match]:
        """Yield the matches in their order."""
        return self._found.matches()

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
        return self._found.chunks(whole_number("size", size, 1))

    @show_progress("building matches")
    @bounded
    def to_frame(self, rows: str = "one", *, limit: Limit = "auto", order: bool = True) -> Frame:
        """Return the matches as a frame of the same kind as the searched frame.

        Parameters
        ----------
        rows : str
            ``"one"``: one row per match, with the partition columns and the measures. ``"all"``: the matched
            rows of the frame with their own index. The first two columns are then ``match`` (its number) and
            ``variable`` (the name of the row in the pattern, ``"."`` for any event). For MATCH_RECOGNIZE,
            ``"one"`` has the rows that the query asks for. One row per match has the partition columns and
            the measures. All rows per match have the partition columns, the order columns, the measures and
            the other columns of the input. A DuckDB relation gives an Arrow table.
        limit : int, "auto" or None
            The largest number of matches wanted; None for any number. ``"auto"`` is 1,000,000 in memory and
            any number on Spark and for MATCH_RECOGNIZE.
        order : bool
            False lets Spark leave out the sort, and the two shuffles before it. Results in memory are in
            order anyway.

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
        return self._found.to_frame(rows, limit, in_order=order)

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
        check_rows(rows)
        return self._found.write_parquet(path, rows, overwrite)

    @show_progress("aggregating matches")
    @bounded
    def aggregate(self, aggregates: Mapping[str, str] | None = None, /, **named: str) -> pd.Series:
        """Return aggregates over the events of all matches; an event counts once for every match it is in.

        Parameters
        ----------
        aggregates : mapping of str to str, optional
            Aggregates by name, for names that are no words of Python: ``{"total price": "sum(b.price)"}``.
        **named : str
            Names and texts of the aggregates: ``count``, ``sum``, ``avg``, ``min``, ``max``, ``median``,
            ``std``, ``var`` or ``distinct`` of a column of a variable, as ``"sum(b.price)"``, or ``collect``
            for a list of its numbers or texts, in any order. ``"count(b)"`` is the number of (match, event)
            pairs and ``"count()"`` the number of matches. In regex queries, ``"sum(price)"`` uses all matched
            rows.

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
        When the conditions link neighbouring events only, no match is built for the first five.
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
        if aggregates is not None and not isinstance(aggregates, Mapping):
            raise PredicateError(
                f"aggregate() takes aggregates by name, as n='count()' or {{'n': 'count()'}}, not "
                f"{short_text(repr(aggregates))}"
            )
        return self._found.aggregate({**(aggregates or {}), **named})

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
            ``match``, ``variable``, ``position`` (in the stream; for MATCH_RECOGNIZE, in the frame) and
            ``index`` (label of the row in the frame), sorted by match, then by position. An empty match has
            no row.

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
        return self._found.lineage(number, limit)

    @show_progress("building matches")
    @bounded
    def tag(self, overlap: str = "error") -> Frame:
        """Return the searched frame with two extra columns, ``match`` and ``variable``; null if unmatched.

        Parameters
        ----------
        overlap : str
            What to do with a row in several matches: ``"error"`` raises, and ``"first"`` gives it the lowest
            number of a match. Then ``match.notna()`` says whether a row is in any match.

        Raises
        ------
        CepError
            When a row belongs to more than one match, unless ``overlap="first"``.

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
        check_overlap(overlap)
        return self._found.tag(overlap)

    @show_progress("searching")
    @bounded
    def undecided(self) -> Frame:
        """Return the matches that later events may still forbid, with the columns of ``to_frame()``.

        These candidates are not in ``to_frame()``. Each ends with an absence, such as ``!payment p``, whose
        time is not over at ``complete_until``, by default the last time in the data; see `cepkit.match`. An
        ``after_match`` is applied to the candidates alone. For MATCH_RECOGNIZE they are the partial matches
        that have not timed out.

        Examples
        --------
        >>> import cepkit as cep
        >>> import pandas as pd
        >>> orders = pd.DataFrame({"minute": [0, 1, 14, 15], "id": [1, 2, 2, 3],
        ...                        "kind": ["order", "order", "payment", "order"]})
        >>> unpaid = cep.match(orders, "PATTERN SEQ(order o, !payment p) WHERE [id] WITHIN 10",
        ...                    event_type="kind", order_by="minute")
        >>> unpaid.to_frame()
           id  o_minute
        0   1         0
        1   2         1
        >>> unpaid.undecided()
           id  o_minute
        0   3        15
        """
        return self._found.undecided()

    def quarantined(self) -> Frame:
        """Return the rows of the frame that the query could not search, with the reason.

        `cepkit.match` sets rows aside with ``on_error="quarantine"`` only.

        Returns
        -------
        frame
            A frame of the same kind, in the order of the frame: ``reason``, and the columns of the frame. On
            Spark it is lazy, and the rows have no particular order.

        Raises
        ------
        CepError
            Without ``on_error="quarantine"``, since such rows are errors then.

        Examples
        --------
        >>> import cepkit as cep
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"ts": [1, None, 3], "x": [5, 7, 9]})
        >>> import warnings
        >>> with warnings.catch_warnings(action="ignore"):  # it says how many rows are left out
        ...     matches = cep.match(frame, "up", define={"up": "x > 1"}, order_by="ts", on_error="quarantine")
        >>> matches.quarantined()
                    reason  ts  x
        1  ts has no value NaN  7
        """
        if self._set_aside is None:
            raise CepError(
                "no rows are set aside: a row that cannot be searched is an error. "
                "match(…, on_error='quarantine') leaves such rows out"
            )
        return self._set_aside

    # --- pictures

    def explore(self) -> Any:
        """Open the pattern explorer on the query and the frame that was searched; see `cepkit.explore`.

        Examples
        --------
        >>> matches.explore()  # doctest: +SKIP
        """
        more = {} if self._found.params is None else {"params": self._found.params}
        return open_door("explore")(self._found.frame, self.query, **more)

    @show_progress("building matches")
    @bounded
    def plot(self, value: str | None = None, *, partitions: int = 4, max_events: int = 5000) -> go.Figure:
        """Draw the first matches over the events of their partitions.

        Parameters
        ----------
        value : str, optional
            Column to draw; None for the numeric column that the conditions read most often.
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
        return self._found.drawn("plot").plot(value, partitions, max_events)

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

    @show_progress("searching")
    def __repr__(self) -> str:
        return self._found.text()

    @show_progress("searching")
    def _repr_html_(self) -> str | None:
        return self._found.html()


class SparkMatches(Matches):
    """The matches of a query in a Spark frame.

    `cepkit.match`, `cepkit.sql` and ``df.cep.match`` return it for Spark frames. It has the methods of
    `Matches`, with the same arguments and meaning. Results are lazy, and every method call runs the query
    again; ``to_frame()`` can be cached or written as any frame. Methods that Spark cannot support raise
    `UnsupportedQueryError` with the reason: `take`, ``matches[number]``, iteration, `chunks`, `plot`,
    `write_parquet`, and an estimate of `count`.

    Notes
    -----
    `head` and `sample` return pandas DataFrames, which the driver must hold. `to_frame`, `lineage`, `tag` and
    `count_by_last` return lazy Spark frames. ``limit="auto"`` means any number of matches, and a job fails if
    there are more than ``limit``.

    Matches are sorted by ``order_by`` at their last event. Ties between partitions are sorted by
    ``partition_by``, null first; pandas uses the row's position in the frame, which Spark does not know.
    Matches with the same last event are in the same order as on pandas. The number of a match is its position
    in this order, from 0. Partitions of MATCH_RECOGNIZE are sorted by their columns, null first. Without
    ORDER BY its rows have no order.

    The partition and order columns identify a row in `lineage` and `count_by_last`, whose ``count`` is of
    type decimal(38, 0). ``to_frame("all")`` and `tag` run the query twice: for the rows, and for the numbers
    of the matches. The rows of `tag` have no particular order. Every task aggregates its own matches, so sums
    of floats may differ in the last digits with the number of tasks. `sample` draws the same matches for any
    number of tasks; those of a regex query equal the ones on pandas. `view` shows a part of the frame, at
    most ``rows`` rows, by default 100,000; its ``part`` names the part.

    Without ``partition_by``, tasks share a stream by time when a window limits the matches of a sequence
    query; see `cepkit.frames.spark.Slices`.

    Examples
    --------
    >>> df.cep.match("PATTERN SEQ(a x, b y)", event_type="kind", order_by="ts")  # doctest: +SKIP
    matches of 'SEQ(a x, b y)' in a Spark frame: x_ts: bigint, y_ts: bigint
    nothing has run yet: head(), count() and the rows of to_frame() start Spark jobs
    """
