"""Tables of results for the figures of the DARLING paper, kept beside its notebook.

`keep_results` computes them in virtual time and keeps them as CSV. Each row has its parameters.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pandas as pd

import cepkit
from cepkit.errors import CepError, nearest
from papers.load_shedding.figures import (
    DRAWN,
    LONG,
    OURS,
    SEEDS,
    SHORT,
    recorded_sweep,
    sweep,
)
from papers.tables import keep_table, kept_table

DIGITS = 4  # significant
FEW = tuple(range(5))  # seeds of the short streams of figure 6
# Panels, scale, strategies and seeds of each sweep. Figures 7 and 8 show the replays of figure 6. Figure 10
# is not kept: `claims.overheads` computes it.
SWEEPS = (
    ("6", LONG, (*DRAWN, "none"), SEEDS),
    ("6", SHORT, (*DRAWN, "none", OURS), FEW),
    ("9", SHORT, (*DRAWN, OURS), SEEDS),
)


def rounded(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table whose numbers have four significant digits."""
    made = table.copy()
    for name in made.select_dtypes("number"):
        made[name] = [float(f"{value:.{DIGITS}g}") for value in made[name].astype(float)]
    return made


def _figures() -> pd.DataFrame:
    parts = [
        sweep(panels, strategies=names, seeds=seeds, scale=scale, progress=False)
        for panels, scale, names, seeds in SWEEPS
    ]
    return pd.concat(parts, ignore_index=True)


def _recorded() -> pd.DataFrame:
    return recorded_sweep(["6", "9"], strategies=(*DRAWN, "none", OURS))


TABLES: Mapping[str, Callable[[], pd.DataFrame]] = {
    "figures": _figures,
    "recorded": _recorded,
}


def _known(name: str) -> str:
    if name not in TABLES:
        raise CepError(f"results {name!r} do not exist.{nearest(name, TABLES)} There are {list(TABLES)}")
    return name


def file_of(folder: str | os.PathLike, name: str) -> Path:
    """Return the file of a kept table."""
    return Path(folder, f"load_shedding_{_known(name)}.csv")


def keep_results(folder: str | os.PathLike, names: Sequence[str] = tuple(TABLES)) -> None:
    """Compute tables of results and keep them."""
    for name in names:
        keep(TABLES[_known(name)](), folder, name)


def keep(table: pd.DataFrame, folder: str | os.PathLike, name: str) -> None:
    """Write one table with the call that makes it, and the version of cepkit that made it."""
    call = f'papers.load_shedding.results.keep_results("results", ["{name}"])'
    keep_table(rounded(table), file_of(folder, name), f"{call}  # cepkit {cepkit.__version__}")


def kept(folder: str | os.PathLike, name: str) -> pd.DataFrame:
    """Return one kept table."""
    return kept_table(file_of(folder, name))


def kept_results(folder: str | os.PathLike) -> pd.DataFrame:
    """Return the panels on generated streams, for `papers.claims.examine`."""
    # The recorded streams are of another size than the paper's, so they cannot refute its claims.
    return kept(folder, "figures")
