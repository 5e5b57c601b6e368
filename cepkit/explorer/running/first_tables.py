"""The table of a result before all of its matches are counted or listed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cepkit.engines.counting.engine import CountedMatches
from cepkit.explorer.running.pages import CANONICAL, PAGE, Pages
from cepkit.explorer.table.texts import columns_and_rows
from cepkit.frames.pandas import as_pandas
from cepkit.insight.first_matches import matches_of_first_ends

if TYPE_CHECKING:
    from cepkit.explorer.running.result import Result

COUNTING, NOT_COUNTED = "counting …", "not counted"  # in place of a total


def first_page(result: Result) -> dict[str, Any]:
    """Return the traits of the table for the first page, before the matches are counted."""
    traits = Pages(result.opened).traits(1, CANONICAL)
    if result.opening.is_all:
        return traits
    note = "the first matches; other pages, orders and filters follow when all are counted"
    return {**traits, "total": COUNTING, "n_pages": "…", "sortable": [], "limit_note": note}


def totals(result: Result) -> dict[str, Any]:
    """Return the traits of the table that depend on the number of matches, without the rows."""
    pages, names = result.pages, Pages(result.opened).frame([]).columns
    return {
        "total": f"{pages.n:,}", "n_pages": str(pages.n_pages), "limit_note": pages.limit_note,
        "sortable": [str(name) for name in names] if pages.is_sortable and pages.n > 1 else [],
    }  # fmt: skip


def first_look(result: Result) -> dict[str, Any] | None:
    """Return a table of matches that are cheap to find, or None if these are all matches."""
    if not result.is_sequence:
        return None
    found = result.matches._found.whole
    n, is_exact = found.at_least()
    if is_exact:
        return None
    frame = as_pandas(result.matches._frame(found.glance(PAGE)))
    return {
        **columns_and_rows(frame), "numbers": [""] * len(frame), "page": 1, "n_pages": "1",
        "can_filter": True, "filtered": "",
        "total": f"≥ {max(n, len(frame)):,}", "order": "canonical", "sortable": [], "busy": True,
        "limit_note": "some matches; numbers and order follow when all are counted",
    }  # fmt: skip


def first_rows(result: Result) -> dict[str, Any] | None:
    """Return the first page of counted matches without compiling anything, or None if that is costly."""
    if not result.is_sequence or result.program.query.after_match[0] != "none":
        return None
    if not isinstance(result.matches._found.whole, CountedMatches):
        return None
    n_rows = min(PAGE, result.matches.count())
    block = matches_of_first_ends(result.program, result.events, result.ends, result.counts_of_ends, n_rows)
    if block is None:
        return None
    frame = as_pandas(result.matches._frame(block))
    table = result.pages.describe(frame, list(range(n_rows)), 1, CANONICAL)
    return {**table, "busy": True}
