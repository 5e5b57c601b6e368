"""The text of a result: how many matches there are, its first rows, and how to get the others."""

from __future__ import annotations

import html
from typing import Any

import numpy as np
import pandas as pd

from cepkit.language.numbers import count_text
from cepkit.results.arguments import LIMIT
from cepkit.results.found import FoundMatches
from cepkit.results.in_memory.counting import at_least

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
        said = "no match" if is_exact else "no match so far"
    else:
        said = "1 match" if n == 1 and is_exact else f"{count_text(n, exact=is_exact)} matches"
    return f"{said} of {str(query.pattern)!r} in {events.n_events:,} events{parts}"


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
