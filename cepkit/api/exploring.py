"""Open the explorer."""

from __future__ import annotations

import os
from typing import Any, Unpack

from cepkit.api.searching import check_names
from cepkit.events import Frame
from cepkit.planning.arguments import QueryKeywords, takes_query_keywords
from cepkit.planning.planner import EngineValue
from cepkit.planning.queries import Query
from cepkit.results.doors import open_door


@takes_query_keywords
def explore(
    frame: Frame,
    query: Query | None = None,
    *,
    value: str | None = None,
    engine: str | EngineValue = "auto",
    **keywords: Unpack[QueryKeywords],
) -> Any:
    """Open the pattern explorer: an editor for a query, with its matches beside it, in a notebook.

    Parameters
    ----------
    frame, query, engine
        As for `match`; the query may be typed later. For a Spark frame, the explorer shows a sample of at
        most 100,000 rows, and ``run_on_all`` runs the query on all rows.
    **keywords
    value : str, optional
        Column of numbers that the timeline draws; default: the first one that the query looks at.

    Returns
    -------
    Explorer
        ``query`` and ``matches`` are those of the last result; ``wait()`` waits for it. ``save(path)`` keeps
        the query and the choices, and ``cepkit.explore.load(path, frame)`` opens them again.

    Raises
    ------
    CepError
        For unknown columns. The editor shows what is wrong with the query.
    TypeError
        For unknown keywords, with the nearest name.

    Examples
    --------
    >>> import cepkit as cep
    >>> import pandas as pd
    >>> walk = pd.DataFrame({"price": [10, 12, 13, 11, 14, 12, 9]})
    >>> cep.explore(walk, "up+ down", define={"up": "price > 11", "down": "price <= 11"}).wait()
    Explorer(7 rows, done, 2 matches)
    """
    return open_door("explore")(frame, query, value=value, engine=engine, **check_names(explore, keywords))


def _load_explorer(path: str | os.PathLike, frame: Frame | None = None) -> Any:
    """Open an explorer that ``Explorer.save`` wrote, with a frame; see `cepkit.Explorer.load`."""
    explorer: Any = open_door("explore")
    return explorer.load(path, frame)


explore.__dict__["load"] = _load_explorer
