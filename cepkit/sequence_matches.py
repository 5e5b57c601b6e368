"""The matches of a sequence query as users hold them: made when looked at, however many there are."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterator
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from cepkit.compile.sequences.program import SequenceProgram
from cepkit.engines.aggregates import aggregate_matches
from cepkit.engines.counting.estimate import CountEstimate, estimate_count, exactly
from cepkit.engines.measures.sequence_measures import sequence_measures, variables_of_items
from cepkit.engines.shared.sequence_set import KnownMatches, MatchBlock, SequenceSet
from cepkit.errors import CepError, ResultTooLargeError, whole_number
from cepkit.formatting import count_text
from cepkit.matches import Match, no_such_match, plain_value
from cepkit.planning.planner import Engine

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from cepkit.explorer.explorer import Explorer

SHOWN = 10  # matches in a repr
DRAWN = 200  # matches in a picture
LIMIT = 1_000_000  # matches of a frame, unless another limit is given
_PART = "none in the part that was looked at; count() looks at all of it"
_HINT = "df.cep.why_not(…) says what stopped the matches you expected"


class SequenceMatches:
    """The matches of a sequence query in a frame, in canonical order.

    Made by ``df.cep.match`` and ``cep.match``. The order is that of the last event, then backwards event by
    event. The frame must not be changed while they are in use.

    Notes
    -----
    Nothing is enumerated to be counted where the conditions link neighbouring events only; see `explain`.
    Memory is bounded by the part that is asked for.
    """

    def __init__(
        self,
        program: SequenceProgram,
        source: Any,
        found: SequenceSet,
        engine: Engine,
        native: Callable | None = None,
    ):
        self._program, self._source, self._found, self.engine = program, source, found, engine
        self._native = native or (lambda frame: frame)

    # --- how many

    @property
    def query(self):
        """The query as a value."""
        return self._program.query

    @property
    def run(self):
        """What the engine did, where it tells; else None.

        Of ``linked`` and the run engines a `PartialMatchRun`: the numbers of partial matches, copies and
        chains, as of counting the matches. Of parallel engines a `ParallelRun`: makespan, busy threads,
        comparisons, and the trace.
        """
        return getattr(self._found, "run", None)

    def count(self, method: str = "exact", *, samples: int = 10_000, seed: int = 0) -> int | CountEstimate:
        """Return the number of matches, an integer of any size, or an estimate of it.

        Parameters
        ----------
        method : str
            ``"exact"``; or ``"estimate"``: conditions that keep the matches from being counted without
            enumeration are left out, the rest is counted, and a uniform sample of it tells which share
            fulfils them.
        samples, seed : int
            Of an estimate: how many matches are drawn; the same seed draws the same.

        Returns
        -------
        int or CountEstimate
            An estimate has ``value``, ``low`` and ``high`` (95 % confidence), and says when it is exact.

        Raises
        ------
        UnsupportedQueryError
            Of an estimate, when leaving out conditions is not enough: under an after-match policy, under a
            strategy other than ``any``, with ``until``.

        Notes
        -----
        See `cepkit.engines.counting.estimate.estimate_count`.

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
        if method not in ("exact", "estimate"):
            raise CepError(f"method={method!r}: a count is 'exact' or an 'estimate'")
        if method == "exact":
            return self._found.count()
        if isinstance(self._found, KnownMatches) and self.query.after_match[0] == "none":
            return exactly(self._found.count())  # a slice
        return estimate_count(self._program, self._found.events, samples=samples, seed=seed)

    def __len__(self) -> int:
        n = self.count()
        if n >= 2**63:
            raise OverflowError(f"there are {count_text(n)} matches; len() ends at 2^63, count() does not")
        return n

    def __bool__(self) -> bool:
        return self._found.any()

    def count_by_last(self) -> pd.DataFrame:
        """Return how many matches end at which row.

        Returns
        -------
        pandas.DataFrame
            ``index`` (label of the row in the frame), the partition and order columns, and ``count``; a line
            for every row where a match ends, in stream order.
        """
        positions, counts = self._found.ends()
        rows = self._found.events.rows(np.asarray(positions, np.int64))
        made = {"index": self._source.index_labels(rows)}
        for name in dict.fromkeys((*self.query.partition_by, *self.query.order_by)):
            made[name] = self._source.arrow(name, rows).to_pandas()
        made["count"] = counts if isinstance(counts, np.ndarray) else np.array(counts, dtype=object)
        return pd.DataFrame(made)

    # --- a look

    def head(self, n: int = 5):
        """Return the first ``n`` matches as a frame, as ``to_frame`` would."""
        return self._frame(self._first(whole_number("n", n)))

    def _first(self, n: int) -> MatchBlock:
        return self._found.first(n)

    def sample(self, n: int, seed: int = 0):
        """Return ``n`` matches drawn uniformly without replacement as a frame, in the order of the matches.

        Parameters
        ----------
        n : int
            All matches when there are no more.
        seed : int
            The same seed draws the same matches.
        """
        return self._frame(self._found.sample(whole_number("n", n), whole_number("seed", seed)))

    def take(self, numbers: list[int]):
        """Return the matches of these numbers, which rise, as a frame; nothing else is made for them."""
        return self._frame(self._found.take([int(number) for number in numbers]))

    def __getitem__(self, key: int | slice) -> Match | SequenceMatches:
        """Return a match by its number, or the matches of a slice: of at most a million numbers."""
        n = self.count()
        if isinstance(key, slice):
            numbers = range(*key.indices(n))
            if numbers.step < 0:
                raise CepError("matches keep their order; a slice has no negative step")
            n_wanted = -((numbers.start - numbers.stop) // numbers.step)  # len() ends at 2^63
            if n_wanted > LIMIT:
                raise ResultTooLargeError(
                    f"the slice has {count_text(n_wanted)} matches, more than {LIMIT:,}; go through chunks()"
                )
            block = self._found.take(list(numbers))
            part = KnownMatches(self._found.events, block)
            return SequenceMatches(self._program, self._source, part, self.engine, self._native)
        if not isinstance(key, int | np.integer):
            raise TypeError(f"a match has a number, got {key!r}; columns are those of to_frame()")
        if not -n <= key < n:
            raise no_such_match(int(key), n)
        number = int(key) % n
        return next(self._matches(self._found.take([number]), number))

    def __iter__(self) -> Iterator[Match]:
        number = 0
        for block in self._found.blocks(1000):
            yield from self._matches(block, number)
            number += len(block)

    def _matches(self, block: MatchBlock, number: int) -> Iterator[Match]:
        table = self._as_pandas(self._source.result(self._measured(block)))
        variables = self._variables(block)
        rows = self._found.events.rows(block.event_of_item)
        for i in range(len(block)):
            items = slice(block.first_item_of_match[i], block.first_item_of_match[i + 1])
            frame = self._source.rows(rows[items], {"variable": variables[items]})
            # Column by column: a row as one Series would have one type.
            measures = {name: plain_value(table[name].iloc[i]) for name in table.columns}
            yield Match(number + i, measures, self._native(frame))

    # --- frames

    def chunks(self, size: int = 65_536) -> Iterator[Any]:
        """Return an iterator over all matches as frames of ``size`` rows; memory does not grow with them."""
        size = whole_number("size", size, 1)
        return (self._frame(block) for block in self._found.blocks(size))

    def to_frame(self, rows: str = "one", *, limit: int | None = LIMIT):
        """Return the matches as a frame of the kind that was searched.

        Parameters
        ----------
        rows : str
            ``"one"``: one row per match with the partition columns and the measures; ``"all"``: the matched
            rows of the frame under their own index, with ``match`` (its number) and ``variable`` in front.
        limit : int, optional
            The largest number of matches wanted; None: any.

        Returns
        -------
        DataFrame or table
            In the order of the matches; within a match in stream order.

        Raises
        ------
        ResultTooLargeError
            When there are more than ``limit`` matches; the message says how many.
        """
        if rows not in ("one", "all"):
            raise CepError(f"rows={rows!r}: write 'one' (a row per match) or 'all' (the matched rows)")
        block = self._all(limit)
        if rows == "one":
            return self._frame(block)
        numbers = {"match": block.match_of_item, "variable": self._variables(block)}
        return self._native(self._source.rows(self._found.events.rows(block.event_of_item), numbers))

    def _all(self, limit: int | None) -> MatchBlock:
        n = self.count()
        if limit is not None and n > whole_number("limit", limit):
            raise ResultTooLargeError(
                f"there are {count_text(n)} matches, more than limit={limit:,}; take a part with head(), "
                "sample() or a slice, go through chunks(), or ask for aggregate()"
            )
        return self._found.ending(0, self._found.events.n_events)

    def _frame(self, block: MatchBlock):
        return self._native(self._source.result(self._measured(block)))

    def _measured(self, block: MatchBlock):
        return sequence_measures(self._program, self._found.events, block, self._source)

    def aggregate(self, **aggregates: str) -> pd.Series:
        """Return aggregates over the events of all matches, each counted as often as it is matched.

        Parameters
        ----------
        **aggregates : str
            Name and text of each: ``count``, ``sum``, ``avg``, ``min`` or ``max`` of a column of a variable,
            ``"sum(b.price)"``; ``"count(b)"`` is the number of (match, event) pairs, ``"count()"`` the number
            of matches.

        Returns
        -------
        pandas.Series
            The values under their names; null where there is no match. Counts and sums of integers are exact,
            of any size.

        Notes
        -----
        Where the conditions link neighbouring events only, nothing is enumerated.
        Source: Poppe et al., "GRETA", PVLDB 2017.
        """
        return aggregate_matches(self._program, self._found, self._source, aggregates)

    def lineage(self, number: int | None = None, *, limit: int = LIMIT) -> pd.DataFrame:
        """Return which row stands for what: one line per matched row.

        Parameters
        ----------
        number : int, optional
            Of the one match wanted; None: all.
        limit : int
            The largest number of matches wanted.

        Returns
        -------
        pandas.DataFrame
            ``match``, ``variable``, ``position`` (place in the stream), ``index`` (label of the row in the
            frame); by match, then by position.
        """
        if number is None:
            block, first = self._all(limit), 0
        else:
            n = self.count()
            if not -n <= number < n:
                raise no_such_match(number, n)
            first = number % n
            block = self._found.take([first])
        matches = block.match_of_item if first < 2**62 else block.match_of_item.astype(object)
        return pd.DataFrame(
            {
                "match": matches + first,
                "variable": self._variables(block),
                "position": block.event_of_item,
                "index": self._source.index_labels(self._found.events.rows(block.event_of_item)),
            }
        )

    def _variables(self, block: MatchBlock) -> np.ndarray:
        names = np.array(self.query.variables, dtype=object)
        return names[variables_of_items(self._program, block)]

    def tag(self):
        """Return the frame that was searched with ``match`` and ``variable`` behind, null where none.

        Raises
        ------
        CepError
            When a row belongs to more than one match: ``to_frame(rows="all")`` has each of them.
        """
        events = self._found.events
        block = self._all(LIMIT)
        rows = events.rows(block.event_of_item)
        shared = len(rows) - len(np.unique(rows))
        if shared:
            raise CepError(
                f"{shared:,} matched rows belong to several matches, and a tagged row has one; "
                "use after_match='past_last', or to_frame(rows='all')"
            )
        match, variable = np.full(events.n_events, -1, np.int64), np.full(events.n_events, None, dtype=object)
        match[rows], variable[rows] = block.match_of_item, self._variables(block)
        columns = {
            "match": pd.arrays.IntegerArray(match, match < 0),
            "variable": pd.array(variable, dtype="string"),
        }
        return self._native(self._source.tagged(columns))

    # --- pictures

    def explore(self) -> Explorer:
        """Open the pattern explorer on the query and the frame that was searched; see `cepkit.explore`."""
        from cepkit.explorer.explorer import Explorer  # the widgets' packages load with the first explorer

        return Explorer(self._source.frame, self.query)

    def plot(self, value: str | None = None, *, partitions: int = 4, max_events: int = 5000) -> go.Figure:
        """Draw the first matches over the events of their partitions.

        Parameters
        ----------
        value : str, optional
            Column to draw; default: the first number that a condition looks at.
        partitions : int
            How many of the partitions with matches to show.
        max_events : int
            At most so many events are drawn; the title says what is left out.

        Returns
        -------
        plotly.graph_objects.Figure
        """
        from cepkit.plots.timeline.found import plot_matches

        events = self._found.events
        block = self._found.glance(DRAWN)

        def marks(numbers: np.ndarray) -> pd.DataFrame:
            chosen = block.take(numbers)
            return pd.DataFrame(
                {
                    "match": numbers[chosen.match_of_item],
                    "variable": self._variables(chosen),
                    "position": chosen.event_of_item,
                }
            )

        return plot_matches(
            self.query, self._source, events, self._program.columns, events.partition_of_event[block.last],
            marks, partial(self._totals, block), value=value, partitions=partitions, max_events=max_events,
        )  # fmt: skip

    def _totals(self, block: MatchBlock, n_partitions: int):
        """Return what there is, for a picture that has ``block``, without enumerating more."""
        from cepkit.plots.timeline.selection import Totals

        events = self._found.events
        n, is_exact = self._at_least(len(block))
        n_partitions_matched = n_events_matched = None
        if is_exact:
            is_whole = n == len(block)
            ends = block.last if is_whole else np.asarray(self._found.ends()[0], np.int64)
            n_partitions_matched = len(np.unique(events.partition_of_event[ends]))
            n_events_matched = len(np.unique(block.event_of_item)) if is_whole else None
        return Totals(events.n_events, n_partitions, n, is_exact, n_partitions_matched, n_events_matched)

    def _at_least(self, n_seen: int) -> tuple[int, bool]:
        """Return what is cheap to know of the number of matches, ``n_seen`` of which were made."""
        n, is_exact = self._found.at_least()
        return max(n, n_seen), is_exact  # a look at a smaller part may find what the first one did not

    def view(self, what: str = "lineage", **settings: Any):
        """Return a view to look into.

        Parameters
        ----------
        what : str
            ``"lineage"``: the matches page by page, with their events and what they share; of the engine
            ``linked`` also its chains. ``"threads"`` and ``"buffers"``: what a parallel engine did, when it
            was asked for a trace.
        **settings
            Of the view: ``title``, ``size`` of a page.

        See Also
        --------
        cepkit.view
        """
        from cepkit.views import view

        return view(self, what, **settings)

    # --- reprs

    @cached_property
    def _headline(self) -> str:
        events, by = self._found.events, self.query.partition_by
        n, is_exact = self._at_least(len(self._shown))
        n_partitions = int(np.count_nonzero(np.bincount(events.partition_of_event)))
        plural = "" if n_partitions == 1 else "s"
        parts = f", {n_partitions:,} partition{plural} by {', '.join(by)}" if by else ""
        if n == 0:
            found = "no match" if is_exact else "no match so far"
        else:
            found = "1 match" if n == 1 and is_exact else f"{count_text(n, exact=is_exact)} matches"
        return f"{found} of {str(self.query.pattern)!r} in {events.n_events:,} events{parts}"

    def _as_pandas(self, frame) -> pd.DataFrame:
        return frame if isinstance(frame, pd.DataFrame) else frame.to_pandas()

    @cached_property
    def _shown(self) -> pd.DataFrame:
        return self._as_pandas(self._source.result(self._measured(self._found.glance(SHOWN))))

    @cached_property
    def _more(self) -> str:
        n, is_exact = self._at_least(len(self._shown))
        more = n - len(self._shown)
        if not is_exact:
            return _PART if not n else "… and more" if more > 0 else "… perhaps more"
        return f"… {count_text(more)} more" if more > 0 else ""

    def __repr__(self) -> str:
        if not len(self._shown):
            return f"{self._headline}\n{self._more or _HINT}"
        table = self._shown.to_string(max_rows=SHOWN)
        return "\n".join(part for part in (self._headline, table, self._more) if part)

    def _repr_html_(self) -> str:
        head = f"<p><b>{html.escape(self._headline)}</b></p>"
        if not len(self._shown):
            return f"{head}<p>{html.escape(self._more or _HINT)}</p>"
        call = "sample(…)</code> draws from" if self._at_least(0)[1] else "count()</code> looks for"
        more = f"<p>{self._more}; <code>{call} all of them</p>" if self._more else ""
        return head + self._shown.to_html(max_rows=SHOWN, border=0) + more
