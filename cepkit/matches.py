"""The matches of a query as users hold them: counted, looked at, sampled, turned into frames and pictures."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from cepkit.compile.regex.program import Program
from cepkit.engines.measures.regex_measures import measure
from cepkit.engines.regex.matching import Run, label_rows
from cepkit.engines.shared.match_set import MatchSet
from cepkit.errors import CepError, ResultTooLargeError, column_not_found, whole_number
from cepkit.language.numbers import count_text

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from cepkit.explorer.explorer import Explorer

SHOWN = 10  # matches in a repr


@dataclass(frozen=True)
class Match:
    """One match: its number, its measures by name, and its rows in stream order."""

    number: int
    measures: dict[str, Any]
    rows: Any  # a frame of the kind that was searched, with the column ``variable``

    def __getitem__(self, name: str) -> Any:
        if name not in self.measures:
            raise column_not_found(f"match {self.number}", name, self.measures)
        return self.measures[name]

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self.measures.items())
        return f"Match({self.number}: {shown}; {len(self.rows)} rows)"


def no_such_match(number: int, n_matches: int) -> IndexError:
    """Return the error for a number that no match has."""
    there = f"there are {count_text(n_matches)}, numbered from 0" if n_matches else "there is none"
    sign = "-" if number < 0 else ""
    return IndexError(f"no match has number {sign}{count_text(abs(number))}; {there}")


def plain_value(value: Any) -> Any:
    """Return the Python value of a number of numpy; others as they are."""
    return value.item() if isinstance(value, np.integer | np.floating | np.bool_) else value


class Matches:
    """The matches of a query in a frame, in the order of their last event.

    Made by ``df.cep.match`` and ``cep.match``. Measures, rows and labels are computed when they are asked
    for; the frame must not be changed in between.
    """

    def __init__(
        self, program: Program, source: Any, matchset: MatchSet, run: Run, native: Callable | None = None
    ):
        self._program, self._source, self._matchset, self._run = program, source, matchset, run
        self._native = native or (lambda frame: frame)

    # --- how many

    @property
    def query(self):
        """The query as a value."""
        return self._program.query

    def count(self) -> int:
        """Return the exact number of matches."""
        return len(self._matchset)

    def __len__(self) -> int:
        return len(self._matchset)

    def __bool__(self) -> bool:
        return len(self._matchset) > 0

    # --- a look

    def head(self, n: int = 5):
        """Return the first ``n`` matches as a frame, as ``to_frame`` would."""
        return self._frame(slice(0, whole_number("n", n)))

    def sample(self, n: int, seed: int = 0):
        """Return ``n`` matches drawn uniformly without replacement as a frame, in the order of the matches.

        Parameters
        ----------
        n : int
            All matches when there are no more.
        seed : int
            The same seed draws the same matches.
        """
        rng = np.random.default_rng(whole_number("seed", seed))
        drawn = rng.choice(len(self), size=min(whole_number("n", n), len(self)), replace=False)
        return self._frame(np.sort(drawn))

    def take(self, numbers: list[int]):
        """Return the matches of these numbers, which rise, as a frame; as ``to_frame`` would."""
        return self._frame(np.asarray(numbers, np.int64))

    def __getitem__(self, key: int | slice) -> Match | Matches:
        if isinstance(key, slice):
            return Matches(self._program, self._source, self._matchset.take(key), self._run, self._native)
        if not isinstance(key, int | np.integer):
            raise TypeError(f"a match has a number, got {key!r}; columns are those of to_frame()")
        if not -len(self) <= key < len(self):
            raise no_such_match(int(key), len(self))
        number = int(key) % len(self)
        return next(self._matches(np.array([number])))

    def __iter__(self) -> Iterator[Match]:
        for start in range(0, len(self), 1000):
            yield from self._matches(np.arange(start, min(start + 1000, len(self))))

    def _matches(self, numbers: np.ndarray) -> Iterator[Match]:
        part = self._matchset.take(numbers)
        columns = measure(self.query, part, self._source)
        table = self._as_pandas(self._source.result(columns))
        variables = self._variables(part)
        lineage = part.lineage
        rows = part.events.rows(lineage.event_of_item.astype(np.int64))
        for i, number in enumerate(numbers):
            items = slice(lineage.first_item_of_match[i], lineage.first_item_of_match[i + 1])
            frame = self._source.rows(rows[items], {"variable": variables[items]})
            # Column by column: a row as one Series would have one type.
            measures = {name: plain_value(table[name].iloc[i]) for name in table.columns}
            yield Match(int(number), measures, self._native(frame))

    # --- frames

    def to_frame(self, rows: str = "one", *, limit: int | None = None):
        """Return the matches as a frame of the kind that was searched.

        Parameters
        ----------
        rows : str
            ``"one"``: one row per match with the partition columns and the measures; ``"all"``: the matched
            rows of the frame under their own index, with ``match`` (its number) and ``variable`` (the name in
            the pattern that the row stands for, ``"."`` for any event) in front.
        limit : int, optional
            The largest number of matches wanted.

        Returns
        -------
        DataFrame or table
            In the order of the matches; within a match in stream order.

        Raises
        ------
        ResultTooLargeError
            When there are more than ``limit`` matches.

        Notes
        -----
        Where a row can stand for several names, every name takes as many rows as it can, left to right.
        """
        if rows not in ("one", "all"):
            raise CepError(f"rows={rows!r}: write 'one' (a row per match) or 'all' (the matched rows)")
        if limit is not None and len(self) > whole_number("limit", limit):
            raise ResultTooLargeError(
                f"there are {len(self):,} matches, more than limit={limit:,}; "
                "take a part with head, sample or a slice"
            )
        if rows == "one":
            return self._frame(slice(None))
        lineage = self._matchset.lineage
        numbers = {"match": lineage.match_of_item, "variable": self._variables(self._matchset)}
        events = lineage.event_of_item.astype(np.int64)
        return self._native(self._source.rows(self._matchset.events.rows(events), numbers))

    def _frame(self, part: slice | np.ndarray):
        matchset = self._matchset.take(part)
        return self._native(self._source.result(measure(self.query, matchset, self._source)))

    def lineage(self) -> pd.DataFrame:
        """Return which row stands for what: one line per matched row.

        Returns
        -------
        pandas.DataFrame
            ``match``, ``variable``, ``position`` (place in the stream), ``index`` (label of the row in the
            frame); by match, then by position.
        """
        lineage = self._matchset.lineage
        events = lineage.event_of_item.astype(np.int64)
        return pd.DataFrame(
            {
                "match": lineage.match_of_item,
                "variable": self._variables(self._matchset),
                "position": events,
                "index": self._source.index_labels(self._matchset.events.rows(events)),
            }
        )

    def _variables(self, part: MatchSet) -> np.ndarray:
        names = np.array(self._program.automaton.names, dtype=object)
        return names[label_rows(self._program, part)]

    def tag(self):
        """Return the frame that was searched with ``match`` and ``variable`` behind, null where none."""
        n = self._matchset.events.n_events
        match, variable = np.full(n, -1, np.int64), np.full(n, None, dtype=object)
        lineage = self._matchset.lineage
        rows = self._matchset.events.rows(lineage.event_of_item.astype(np.int64))
        match[rows] = lineage.match_of_item
        variable[rows] = self._variables(self._matchset)
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
            Column to draw; default: the first number that a predicate looks at.
        partitions : int
            How many of the partitions with matches to show.
        max_events : int
            At most so many events are drawn; the title says what is left out.

        Returns
        -------
        plotly.graph_objects.Figure
        """
        from cepkit.plots.timeline.found import plot_matches
        from cepkit.plots.timeline.selection import Totals

        found = self._matchset

        def marks(numbers: np.ndarray) -> pd.DataFrame:
            chosen = found.take(numbers)
            return pd.DataFrame(
                {
                    "match": numbers[chosen.lineage.match_of_item],
                    "variable": self._variables(chosen),
                    "position": chosen.lineage.event_of_item,
                }
            )

        def totals(n_partitions: int) -> Totals:
            n_matched = len(np.unique(found.lineage.event_of_item))
            n_with = len(np.unique(found.partition))
            return Totals(found.events.n_events, n_partitions, len(self), True, n_with, n_matched)

        return plot_matches(
            self.query, self._source, found.events, self._program.columns, found.partition, marks, totals,
            value=value, partitions=partitions, max_events=max_events,
        )  # fmt: skip

    def view(self, what: str = "lineage", **settings: Any):
        """Return a view to look into.

        Parameters
        ----------
        what : str
            ``"lineage"``: the matches page by page, with their events and what they share.
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
        events, by = self._matchset.events, self.query.partition_by
        n = len(self)
        # A category without rows has a code of its own, but is no partition.
        n_partitions = int(np.count_nonzero(np.bincount(events.partition_of_event)))
        plural = "" if n_partitions == 1 else "s"
        parts = f", {n_partitions:,} partition{plural} by {', '.join(by)}" if by else ""
        found = "no match" if n == 0 else "1 match" if n == 1 else f"{n:,} matches"
        return f"{found} of {str(self.query.pattern)!r} in {events.n_events:,} events{parts}"

    def _as_pandas(self, frame) -> pd.DataFrame:
        return frame if isinstance(frame, pd.DataFrame) else frame.to_pandas()

    def _shown(self) -> pd.DataFrame:
        part = self._matchset.take(slice(0, SHOWN))
        return self._as_pandas(self._source.result(measure(self.query, part, self._source)))

    def __repr__(self) -> str:
        if not self:
            return self._headline + "\n" + _HINT
        more = f"\n… {len(self) - SHOWN:,} more" if len(self) > SHOWN else ""
        return f"{self._headline}\n{self._shown().to_string(max_rows=SHOWN)}{more}"

    def _repr_html_(self) -> str:
        head = f"<p><b>{html.escape(self._headline)}</b></p>"
        if not self:
            return f"{head}<p>{html.escape(_HINT)}</p>"
        more = (
            f"<p>… {len(self) - SHOWN:,} more; <code>to_frame()</code> has them all</p>"
            if len(self) > SHOWN
            else ""
        )
        return head + self._shown().to_html(max_rows=SHOWN, border=0) + more


_HINT = "df.cep.explain(…) with the same arguments shows how the query was read"
