"""All matches as a Parquet file, in constant memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from cepkit.events import Source
from cepkit.frames.writing import check_target, write_blocks
from cepkit.limits import MemoryLimit, bound_memory
from cepkit.progress import checkpoint, show_progress
from cepkit.results.arguments import CURE, check_rows
from cepkit.results.found import FoundMatches
from cepkit.results.tagging import table_of_part

if TYPE_CHECKING:
    import pyarrow as pa

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
