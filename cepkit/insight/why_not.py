"""`WhyNot`, the result of ``df.cep.why_not``: why expected events are not a match, in words."""

from __future__ import annotations

import html
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from cepkit.errors import CepError, nearest, short_text
from cepkit.events import Events, Source
from cepkit.insight.funnel import FunnelResult
from cepkit.language.expressions.durations import counted
from cepkit.values import dataclass, field

MOST_ROWS = 1000  # of an expected match


@dataclass(frozen=True)
class WhyNot:
    """Why expected events are not a match; prints as text.

    Parameters
    ----------
    headline : str
        Whether the events match, and the variable of each.
    reasons : tuple of str
        Everything that prevents the next event.
    kinds : tuple of str
        The kind of each reason: ``condition``, ``window``, ``absence``, … or ``after_match``. See
        `cepkit.insight.partial_matches.KINDS` and `cepkit.insight.why_not_regex.KINDS`.
    more : tuple of str
        Further information, for example the candidates for a missing event.
    matches : bool
        Whether the events are a reported match.
    number : int, optional
        The number of this match. For MATCH_RECOGNIZE it is MATCH_NUMBER(), from 1 in each partition.

    Examples
    --------
    >>> import cepkit as cep
    >>> import pandas as pd
    >>> scans = pd.DataFrame({"kind": ["Order", "Scan", "Ready"], "ts": [1, 2, 9]})
    >>> query = "PATTERN SEQ(Order o, Ready r) WITHIN 5"
    >>> why = cep.why_not(scans, query, rows=[0, 2], event_type="kind", order_by="ts")
    >>> why
    no match: o = row 0, r = row 2; row 2 cannot follow row 0
    - the time from row 0 to row 2 is 8, more than 5
    >>> why.kinds
    ('window',)
    """

    headline: str
    reasons: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    more: tuple[str, ...] = ()
    matches: bool = False
    number: int | None = None
    table: pd.DataFrame | None = None

    def to_frame(self) -> pd.DataFrame:
        """Return the explanation as a table.

        Returns
        -------
        pandas.DataFrame
            A row per expected event in stream order: ``index`` (label of the row), ``event_type`` (if the
            query has a column of types), ``variable``, ``reached`` (whether the longest partial match
            contains the event), ``reason`` (why it cannot be next; empty for other events). Without expected
            events, the rows of `FunnelResult.to_frame`.

        Examples
        --------
        >>> import pandas as pd
        >>> scans = pd.DataFrame({"kind": ["Order", "Scan", "Ready"], "ts": [1, 2, 9]})
        >>> query = "PATTERN SEQ(Order o, Ready r) WITHIN 5"
        >>> why = scans.cep.why_not(query, rows=[0, 2], event_type="kind", order_by="ts")
        >>> why.to_frame()[["index", "variable", "reached"]]
           index variable  reached
        0      0        o     True
        1      2        r    False
        """
        return pd.DataFrame() if self.table is None else self.table.copy()

    def _lines(self) -> list[str]:
        return [
            self.headline, *(f"- {reason}" for reason in self.reasons), *(f"  {line}" for line in self.more),
        ]  # fmt: skip

    def __repr__(self) -> str:
        return "\n".join(self._lines())

    def _repr_html_(self) -> str:
        reasons = "".join(f"<li>{html.escape(reason)}</li>" for reason in self.reasons)
        more = "".join(f"<p>{html.escape(line)}</p>" for line in self.more)
        return f"<p><b>{html.escape(self.headline)}</b></p><ul>{reasons}</ul>{more}"


def funnel_summary(result: FunnelResult) -> WhyNot:
    """Return where most partial matches are lost, for a call without rows."""
    total, pattern = result.count(), short_text(str(result.query.pattern))
    more = () if total.n else ("name rows=[…] of an expected match to see why each row fails",)
    return WhyNot(
        f"{total} match{'' if total.n == 1 and total.exact else 'es'} of {pattern!r}", tuple(result.words()),
        ("funnel",) * len(result.words()), more, bool(total.n), None, result.to_frame(),
    )  # fmt: skip


def reading_table(
    labels: Sequence[Any], variables: Sequence[str | None], reached: int, reasons: Iterable[str]
) -> pd.DataFrame:
    """Return the table of `WhyNot`; the row after the reached ones, or the last row, has the reasons."""
    n = len(labels)
    texts = [""] * n
    texts[min(reached, n - 1)] = "; ".join(reasons)
    return pd.DataFrame(
        {
            "index": labels, "variable": pd.array(list(variables), dtype="string"),
            "reached": np.arange(n) < reached, "reason": pd.array(texts, dtype="string"),
        }
    )  # fmt: skip


# --- named rows


def named_positions(
    source: Source, events: Events, rows: Any, variables: Sequence[str], absent: Iterable[str] = ()
) -> dict[int, str | None]:
    """Return the positions of the named rows, each with its variable or None."""
    index = _index(source)
    if isinstance(rows, Mapping):
        for name in rows:
            if name in absent:
                raise CepError(f"rows: {name!r} must not occur in a match; name rows of {list(variables)}")
            if name not in variables:
                raise CepError(
                    f"rows: {name!r} is no variable of the pattern.{nearest(str(name), variables)} "
                    f"Variables: {list(variables)}"
                )
        pairs = [(label, name) for name, labels in rows.items() for label in _labels(labels, index)]
    else:
        pairs = [(label, None) for label in _labels(rows, index)]
    if not pairs:
        raise CepError(
            "rows: no row is named; without rows, why_not() says where most partial matches are lost"
        )
    if len(pairs) > MOST_ROWS:
        raise CepError(f"rows: {len(pairs):,} rows are more than {MOST_ROWS:,}; name the rows of one match")
    numbers = [_number(label, index) for label, _ in pairs]
    twice = sorted({number for number in numbers if numbers.count(number) > 1})
    if twice:
        raise CepError(f"rows: {index[twice[0]]!r} is named twice; a match has an event only once")
    position_of_row = np.empty(events.n_events, np.int64)
    position_of_row[events.rows(np.arange(events.n_events))] = np.arange(events.n_events)
    return {int(position_of_row[row]): name for row, (_, name) in zip(numbers, pairs, strict=True)}


def _index(source: Source) -> pd.Index:
    frame = getattr(source, "frame", None)
    return frame.index if isinstance(frame, pd.DataFrame) else pd.RangeIndex(source.n_rows)


def _labels(labels: Any, index: pd.Index) -> list[Any]:
    """Return labels as a list; one label may be a text, or a tuple for an index of levels."""
    is_label = isinstance(labels, str | bytes) or (isinstance(labels, tuple) and index.nlevels > 1)
    if is_label or not isinstance(labels, Iterable):
        return [labels]
    return list(labels)


def _number(label: Any, index: pd.Index) -> int:
    """Return the position of the row with a label. Raise if there is none or several."""
    try:
        with warnings.catch_warnings():  # pandas warns when labels of several levels are not sorted
            warnings.simplefilter("ignore", pd.errors.PerformanceWarning)
            place = index.get_loc(label)
    except (KeyError, TypeError, pd.errors.InvalidIndexError):
        place = None
    if isinstance(place, slice):
        place = np.arange(len(index))[place]
    elif isinstance(place, np.ndarray):
        place = np.flatnonzero(place)
    if place is None or (isinstance(place, np.ndarray) and not len(place)):
        there = f"They go from {index[0]!r} to {index[-1]!r}" if len(index) else "The frame has no rows"
        raise CepError(f"rows: no row of the frame has the label {label!r}. {there}")
    if isinstance(place, np.ndarray):
        if len(place) > 1:
            raise CepError(
                f"rows: {len(place):,} rows have the label {label!r}; call reset_index() first "
                "and name row numbers"
            )
        place = place[0]
    return int(place)


# --- rows of one partition, read as a match of contiguous rows


@dataclass
class RowsRead:
    """Rows of a partition, read as one match."""

    # low, high: the first and the last row, numbered within their partition
    low: int
    high: int
    taken: list[Any] = field(default_factory=list)  # what the pattern takes each row that was reached as
    # kinds, reasons: what stops the reading; empty for rows that are a match of the pattern
    kinds: list[str] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)

    @property
    def reached(self) -> int:
        """Number of rows that form a partial match."""
        return len(self.taken)

    def stop(self, kind: str, reason: str) -> None:
        self.kinds.append(kind)
        self.reasons.append(reason)


class RowsExplainer(ABC):
    """Explains rows of one partition; ``named`` maps their positions in the stream to a variable or None."""

    a_match = "a match"  # in the reason for rows that are not named

    def __init__(
        self, source: Source, events: Events, partition_by: Sequence[str], named: Mapping[int, str | None]
    ):
        self.source, self.events, self.named = source, events, dict(sorted(named.items()))
        self.positions, self._partition_by = list(self.named), partition_by

    def explain(self) -> WhyNot:
        """Return why the rows of the question are no match."""
        if strays := self._strays():
            return strays
        self.of_partition = self.enter(int(self.events.partition_of_event[self.positions[0]]))
        places = np.searchsorted(self.of_partition, self.positions).tolist()
        read = RowsRead(places[0], places[-1])
        return self._with_gap(read, places) if len(places) <= places[-1] - places[0] else self.answer(read)

    @abstractmethod
    def enter(self, partition: int) -> np.ndarray:
        """Prepare to read a partition, and return the rising positions of its rows."""

    @abstractmethod
    def answer(self, read: RowsRead) -> WhyNot:
        """Read the rows, and return the explanation."""

    @abstractmethod
    def again(self, named: Mapping[int, str | None]) -> RowsExplainer:
        """Return the same for other rows."""

    def names_of_taken(self, read: RowsRead) -> list[str]:
        """Return the variable of each row that was reached."""
        return read.taken

    # --- words

    def label(self, position: int) -> str:
        """Return the row at a position of the stream in words: ``row 17``."""
        return row_text(self.source.index_labels(self.events.rows(np.array([position])))[0])

    def row(self, k: int) -> str:
        return self.label(int(self.of_partition[k]))

    def rows(self, low: int, high: int) -> str:
        """Return a range of rows of the partition in words: ``rows 3 to 7``."""
        first, last = self.row(low), self.row(high)
        return first if low == high else f"rows {first.removeprefix('row ')} to {last.removeprefix('row ')}"

    def stopped(self, read: RowsRead, more: Sequence[str] = ()) -> WhyNot:
        """Return the answer for rows that begin a match until one row cannot follow."""
        head = f"no match: {self.rows(read.low, read.high)}"
        if read.reached > read.high - read.low:
            head += "; a partial match"
        elif read.reached:
            last, following = (self.row(read.low + read.reached + d) for d in (-1, 0))
            head += f"; {following} cannot follow {last}"
        else:
            head += f"; {self.row(read.low)} cannot be the first row of a match"
        return self.refusal(head, read, more)

    def refusal(self, head: str, read: RowsRead, more: Sequence[str] = ()) -> WhyNot:
        table = self.table(self.names_of_taken(read), read.reached, read.reasons)
        return WhyNot(head, tuple(read.reasons), tuple(read.kinds), tuple(more), False, None, table)

    def table(self, variables: Sequence[str], reached: int, reasons: Iterable[str]) -> pd.DataFrame:
        n = len(self.positions)
        labels = self.source.index_labels(self.events.rows(np.array(self.positions, np.int64)))
        return reading_table(labels, [*variables, *[None] * n][:n], reached, reasons)

    # --- rows that cannot be read together

    def _strays(self) -> WhyNot | None:
        """Return the explanation for rows of several partitions, or None for one partition."""
        codes = self.events.partition_of_event[self.positions]
        distinct_codes, counts = np.unique(codes, return_counts=True)
        if len(distinct_codes) < 2:
            return None
        most = distinct_codes[int(np.argmax(counts))]
        other = self._key(self.positions[int(np.argmax(codes == most))])
        read = RowsRead(0, len(self.positions) - 1)
        for position, code in zip(self.positions, codes, strict=True):
            if code != most:
                key = self._key(position)
                read.stop("partition", f"{self.label(position)} belongs to {key}, the others to {other}")
        return self.refusal("no match: the rows are of several partitions", read)

    def _key(self, position: int) -> str:
        row = self.events.rows(np.array([position]))
        values = ((name, self.source.arrow(name, row).to_pylist()[0]) for name in self._partition_by)
        return ", ".join(f"{name} {cell(value)}" for name, value in values)

    def _with_gap(self, read: RowsRead, places: list[int]) -> WhyNot:
        """Return the explanation for rows with unnamed rows of the partition between them."""
        every = range(places[0], places[-1] + 1)
        between = sorted(set(every) - set(places))
        n_more = len(between) - 1
        others = f" and {counted(n_more, 'other row')}" if n_more else ""
        read.stop(
            "skipped",
            f"{self.row(between[0])}{others} {'are' if n_more else 'is'} not named, but {self.a_match} has "
            "every row of its partition from its first to its last",
        )
        more = []
        if len(every) <= MOST_ROWS:
            whole = self.again({int(self.of_partition[k]): None for k in every} | self.named).explain()
            more = [f"with every row between: {whole.headline}", *whole.reasons]
        return self.refusal(f"no match: {', '.join(map(self.label, self.positions))}", read, more)


# Values and rows as text for readers.


def cell(value: Any) -> str:
    """Return a value as text; nulls become empty."""
    if isinstance(value, list | tuple | np.ndarray):
        shown = ", ".join(cell(element) for element in value[:8])
        return f"[{shown}{', …' if len(value) > 8 else ''}]"
    if value is None or value is pd.NA or value is pd.NaT or (isinstance(value, float) and value != value):
        return ""
    if isinstance(value, float | np.floating):
        return f"{value:.6g}"
    return str(value)


def row_text(label: Any) -> str:
    """Return the index label of a row in words."""
    label = label.item() if isinstance(label, np.generic) else label
    return f"row {label!r}" if isinstance(label, str) else f"row {label}"
