"""What `Matches` is made of: the parts it builds, its counts, its files, its picture and its text."""

from __future__ import annotations

import html
import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa

from cepkit.engines.measures.regex_measures import Picked
from cepkit.errors import CepError, short_text
from cepkit.events import Frame, Source
from cepkit.frames.arrow import check_free
from cepkit.frames.writing import check_target, write_blocks
from cepkit.language.expressions.durations import count_text
from cepkit.limits import MemoryLimit, bound_memory, check_memory, fits_memory
from cepkit.plots.timeline.selection import Totals
from cepkit.plots.timeline.timeline import plot_matches
from cepkit.progress import checkpoint, show_progress
from cepkit.results.found import CURE, LIMIT, PER_CELL, FoundMatches, Part, check_limit, check_rows

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from cepkit.engines.counting.estimate import CountEstimate


# Matches that are built within the limits of a result: of memory, and of the number of matches.

_MANY_COLUMNS = 1000  # few matches that fit with this many columns need no other check
_LISTED_AT_ONCE = 1 << 16  # matches that are listed without a count of them
TOGETHER = 1000  # matches that are built at once without a check of their memory


def number_of_columns(found: FoundMatches[Any], source: Source) -> int:
    """Return the number of columns of a frame with a row for each match."""
    return len(found.measure(found.nothing, source))


def all_matches(found: FoundMatches[Any], limit: int | None, source: Source | None = None) -> Part:
    """Return all matches if there are at most ``limit``; the columns of ``source`` need memory as well."""
    most = found.at_most()
    are_few = most <= _LISTED_AT_ONCE and (limit is None or most <= limit)
    if are_few and fits_memory(found.bytes_to_build(most)):  # nobody need count them first
        part = found.all()
        _check_frame(found, len(part), source)
        return part
    n = found.count()
    check_limit(n, limit)
    _check_frame(found, n, source)
    return found.all()


def _check_frame(found: FoundMatches[Any], n: int, source: Source | None) -> None:
    if n > TOGETHER or not fits_memory(_bytes_of(found, n, _MANY_COLUMNS)):
        n_columns = 0 if source is None else number_of_columns(found, source)
        check_memory(_bytes_of(found, n, n_columns), f"{count_text(n)} matches")


def check_building(
    found: FoundMatches[Any], source: Source, n: int, bytes_each: int = 0, *, is_asked: bool = False
) -> None:
    """Raise if the frame of ``n`` matches, or of all if there are no more, takes too much memory.

    ``bytes_each`` is what each match takes besides. ``is_asked`` says that all ``n`` matches are built, even
    if some of them are the same.

    """
    if n <= TOGETHER:
        return
    n_columns = number_of_columns(found, source)
    needed = _bytes_of(found, n, n_columns) + bytes_each * n
    if fits_memory(needed):
        return  # without counting the matches
    if not is_asked and (there := found.count()) < n:
        n, needed = there, _bytes_of(found, there, n_columns) + bytes_each * there
    check_memory(needed, f"{count_text(n)} matches")


def _bytes_of(found: FoundMatches[Any], n: int, n_columns: int) -> int:
    return found.bytes_to_build(n) + PER_CELL * n * n_columns


def chunks_of(
    found: FoundMatches[Any], size: int, frame_of: Callable[[Part], Frame], memory_limit: MemoryLimit
) -> Iterator[Frame]:
    """Yield all matches as frames of at most ``size`` rows, each built within the limit of memory."""
    blocks = found.blocks(size)
    while True:
        with show_progress("building matches"), bound_memory(memory_limit, CURE):
            part = next(blocks, None)
            frame = None if part is None else frame_of(part)
        if part is None:
            return
        yield frame


# The numbers of matches: all of them, those that end at each row, and what is known without a count.


def count_matches(found: FoundMatches[Any], method: str, samples: int, seed: int) -> int | CountEstimate:
    """Return the number of matches, or an estimate of it; see `Matches.count`."""
    if not isinstance(method, str) or method not in ("exact", "estimate"):
        raise CepError(f"method={short_text(repr(method))}: a count is 'exact' or an 'estimate'")
    return found.count() if method == "exact" else found.estimate(samples, seed)


def counts_by_last(found: FoundMatches[Any], source: Source) -> pd.DataFrame:
    """Return the number of matches that end at each row; see `Matches.count_by_last`."""
    positions, counts = found.ends()
    rows = found.events.rows(np.asarray(positions, np.int64))
    columns = {"index": source.index_labels(rows)}
    query = found.program.query
    for name in dict.fromkeys((*query.partition_by, *query.order_by)):
        columns[name] = source.arrow(name, rows).to_pandas()
    columns["count"] = counts if isinstance(counts, np.ndarray) else np.array(counts, dtype=object)
    return pd.DataFrame(columns)


def at_least(found: FoundMatches[Any], n_seen: int) -> tuple[int, bool]:
    """Return a cheap lower bound of the number of matches after ``n_seen`` were built; say if exact."""
    n, is_exact = found.at_least()
    return max(n, n_seen), is_exact


# The picture of a result: its first matches, and the totals that the title says.


def draw_matches(
    found: FoundMatches[Any], source: Source, *, value: str | None, partitions: int, max_events: int
) -> go.Figure:
    """Draw the first matches over the events of their partitions; see `Matches.plot`."""
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
        found.program.query, source, found.events, found.program.columns,
        found.events.partition_of_event[part.last], marks, partial(_totals, found, part),
        value=value, partitions=partitions, max_events=max_events,
    )  # fmt: skip


def _totals(found: FoundMatches[Any], part: Part, n_partitions: int) -> Totals:
    """Return the totals for a picture of ``part`` without building more matches."""
    events = found.events
    n, is_exact = at_least(found, len(part))
    n_partitions_matched = n_events_matched = None
    if is_exact:
        is_whole = n == len(part)
        ends = part.last if is_whole else np.asarray(found.ends()[0], np.int64)
        n_partitions_matched = len(np.unique(events.partition_of_event[ends]))
        if is_whole:
            n_events_matched = len(np.unique(found.items(part).event_of_item))
    return Totals(events.n_events, n_partitions, n, is_exact, n_partitions_matched, n_events_matched)


# The text of a result: how many matches there are, its first rows, and how to get the others.

SHOWN = 10  # rows in the text of a result
_NOT_SEEN = "none in the part that was searched so far; count() searches all of it"


def headline(found: FoundMatches[Any], n_shown: int) -> str:
    """Return how many matches there are, and in what; ``n_shown`` of them are built."""
    query, events = found.program.query, found.events
    n, is_exact = at_least(found, n_shown)
    # A category without rows has a code but is no partition.
    n_partitions = int(np.count_nonzero(np.bincount(events.partition_of_event)))
    plural, by = "" if n_partitions == 1 else "s", query.partition_by
    parts = f", {n_partitions:,} partition{plural} by {', '.join(by)}" if by else ""
    if n == 0:
        count = "no match" if is_exact else "no match so far"
    else:
        count = "1 match" if n == 1 and is_exact else f"{count_text(n, exact=is_exact)} matches"
    return f"{count} of {str(query.pattern)!r} in {events.n_events:,} events{parts}"


def how_many_more(found: FoundMatches[Any], n_shown: int) -> str:
    """Return how many matches there are besides ``n_shown``; empty if there are no more."""
    n, is_exact = at_least(found, n_shown)
    more = n - n_shown
    if not is_exact:
        if not n:
            return _NOT_SEEN
        return f"… {count_text(more, exact=False)} more" if more > 0 else "… perhaps more"
    return f"… {count_text(more)} more" if more > 0 else ""


def call_for_more(found: FoundMatches[Any]) -> str:
    """Return the call that shows more matches, as HTML."""
    n, is_exact = at_least(found, 0)
    if not is_exact:
        return "<code>count()</code> finds all of them"
    if n > LIMIT:
        return "<code>sample(…)</code> draws from all of them"
    return "<code>to_frame()</code> has them all"


def text_of_table(head: str, table: pd.DataFrame, more: str) -> str:
    """Return the first rows of a result as text, between what is said before and after them."""
    return "\n".join(part for part in (head, table.to_string(max_rows=SHOWN), more) if part)


def html_of_table(head: str, table: pd.DataFrame, more: str) -> str:
    """Return the first rows of a result as HTML, between what is said before and after them as HTML."""
    return head + table.to_html(max_rows=SHOWN, border=0) + (f"<p>{more}</p>" if more else "")


def paragraphs(text: str) -> str:
    """Return each line of a text as a paragraph of HTML."""
    return "".join(f"<p>{html.escape(line)}</p>" for line in text.splitlines())


# The matched rows as a frame, as lineage, as a table for a file, and as tags of all rows.


def lineage_frame(found: FoundMatches[Any], part: Part, first_number: int, source: Source) -> pd.DataFrame:
    """Return ``match``, ``variable``, ``position`` and ``index`` of every row of a part.

    The matches of the part are numbered from ``first_number``; ``source`` is the searched frame.

    """
    items = found.items(part)
    check_memory(PER_CELL * 4 * len(items.event_of_item), f"the rows of {len(part):,} matches")
    match = items.match_of_item
    positions = items.event_of_item.astype(np.int64, copy=False)
    if first_number:
        match = (match if first_number < 2**62 else match.astype(object)) + first_number
    return pd.DataFrame(
        {
            "match": match,
            "variable": found.variables(part),
            "position": positions,
            "index": source.index_labels(found.events.rows(positions)),
        }
    )


def matched_rows(found: FoundMatches[Any], part: Part, source: Source) -> Frame:
    """Return the matched rows of the frame, after ``match`` and ``variable``."""
    items = found.items(part)
    cells = len(items.event_of_item) * (2 + len(source.schema))
    check_memory(PER_CELL * cells, f"the rows of {len(part):,} matches")
    numbers = {"match": items.match_of_item, "variable": found.variables(part)}
    events = items.event_of_item.astype(np.int64, copy=False)
    return source.rows(found.events.rows(events), numbers)


def table_of_part(
    found: FoundMatches[Any], part: Part, first_number: int, source: Source, rows: str
) -> pa.Table:
    """Return a part as an Arrow table with the columns of `Matches.to_frame`, without an index."""
    data: dict[str, Any] = {}
    if rows == "one":
        for name, values in found.measure(part, source).items():
            data[name] = source.arrow(values.column, values.rows) if isinstance(values, Picked) else values
        return pa.table(data)
    items = found.items(part)
    data["match"] = pa.array(items.match_of_item + first_number, pa.int64())
    data["variable"] = pa.array(found.variables(part), pa.string())
    row_of_item = found.events.rows(items.event_of_item.astype(np.int64, copy=False))
    check_free(data, source.schema)
    data |= {name: source.arrow(name, row_of_item) for name in source.schema if name not in source.duplicates}
    return pa.table(data)


def tag_columns(found: FoundMatches[Any], part: Part) -> dict[str, Any]:
    """Return the columns ``match`` and ``variable`` for every row of the frame; null for unmatched rows."""
    items, events = found.items(part), found.events
    rows = events.rows(items.event_of_item.astype(np.int64, copy=False))
    match, variable = np.full(events.n_events, -1, np.int64), np.full(events.n_events, None, dtype=object)
    match[rows] = items.match_of_item
    shared = len(rows) - int(np.count_nonzero(match >= 0))
    if shared:
        raise CepError(
            f"{shared:,} matched rows belong to several matches, and a tagged row has one; "
            "use after_match='past_last', or to_frame(rows='all')"
        )
    variable[rows] = found.variables(part)
    return {"match": pd.arrays.IntegerArray(match, match < 0), "variable": pd.array(variable, dtype="string")}


# All matches as a Parquet file, in constant memory.

_IN_GROUP = 1 << 18  # matches in a row group of a Parquet file


def write_matches(
    found: FoundMatches[Any], source: Source, count: Callable[[], int], path: str | os.PathLike, rows: str,
    memory_limit: MemoryLimit, *, overwrite: bool,
) -> int:  # fmt: skip
    """Write all matches, and return the number of rows; see `Matches.write_parquet`.

    ``count`` counts the matches once the name of the file is checked.

    """
    check_rows(rows)
    target = check_target(path, overwrite=overwrite)
    n = count()
    empty = table_of_part(found, found.nothing, 0, source, rows)
    with (
        show_progress("matches", n, takes_checkpoints=False) as progress,
        bound_memory(memory_limit, CURE),
    ):
        return write_blocks(target, empty, tables_of(found, source, rows, progress))


def tables_of(
    found: FoundMatches[Any], source: Source, rows: str, progress: Callable[[float], None] | None = None
) -> Iterator[pa.Table]:
    """Yield all matches as Arrow tables."""
    number = 0
    for part in found.blocks(_IN_GROUP):
        checkpoint()
        yield table_of_part(found, part, number, source, rows)
        number += len(part)
        if progress is not None:
            progress(len(part))
