"""Matches that are built within the limits of a result: of memory, and of the number of matches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from cepkit.events import Frame, Source
from cepkit.language.numbers import count_text
from cepkit.limits import MemoryLimit, bound_memory, check_memory, fits_memory
from cepkit.progress import show_progress
from cepkit.results.arguments import CURE, PER_CELL, check_limit
from cepkit.results.found import FoundMatches, Part

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
