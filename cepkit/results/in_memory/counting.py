"""The numbers of matches: all of them, those that end at each row, and what is known without a count."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from cepkit.errors import CepError, short_text
from cepkit.events import Source
from cepkit.results.found import FoundMatches

if TYPE_CHECKING:
    from cepkit.engines.counting.estimate import CountEstimate


def count_matches(found: FoundMatches[Any], method: str, samples: int, seed: int) -> int | CountEstimate:
    """Return the number of matches, or an estimate of it; see `Matches.count`."""
    if not isinstance(method, str) or method not in ("exact", "estimate"):
        raise CepError(f"method={short_text(repr(method))}: a count is 'exact' or an 'estimate'")
    return found.count() if method == "exact" else found.estimate(samples, seed)


def counts_by_last(found: FoundMatches[Any], source: Source) -> pd.DataFrame:
    """Return the number of matches that end at each row; see `Matches.count_by_last`."""
    positions, counts = found.ends()
    rows = found.events.rows(np.asarray(positions, np.int64))
    made = {"index": source.index_labels(rows)}
    query = found.program.query
    for name in dict.fromkeys((*query.partition_by, *query.order_by)):
        made[name] = source.arrow(name, rows).to_pandas()
    made["count"] = counts if isinstance(counts, np.ndarray) else np.array(counts, dtype=object)
    return pd.DataFrame(made)


def at_least(found: FoundMatches[Any], n_seen: int) -> tuple[int, bool]:
    """Return a cheap lower bound of the number of matches after ``n_seen`` were built; say if exact."""
    n, is_exact = found.at_least()
    return max(n, n_seen), is_exact
