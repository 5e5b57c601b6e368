"""Tables of results for the figures of the DARLING paper, kept beside its notebook.

`keep_results` computes them in virtual time and keeps them as CSV. `kept_results` reads them for claims.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pandas as pd

from cepkit.errors import CepError, nearest
from papers.load_shedding import studies
from papers.load_shedding.figures import (
    CONTINUOUS,
    DRAWN,
    NO_DROPS,
    PARTIAL_MATCHES,
    PEAKS,
    SEEDS,
    WINDOW,
    recorded_sweep,
    sweep,
)
from papers.tables import keep_table, kept_table

DIGITS = 4  # significant
N_EVENTS = 10_000
RECORDED_EVENTS = 5_000
_KEYS = ["data", "stream", "by", "load", "x", "strategy"]
_MEASURES = {
    PEAKS: ["recall", "mean_latency", "within_bound", "peak_bytes"],
    CONTINUOUS: ["recall", "mean_latency", "within_bound"],
    NO_DROPS: ["latency_overhead"],
}
_FACTS = {WINDOW: "window_events", PARTIAL_MATCHES: "partial_matches_per_window"}


def shortened(table: pd.DataFrame) -> pd.DataFrame:
    """Return what the figures draw, in four digits."""
    measures = list(dict.fromkeys(name for names in _MEASURES.values() for name in names))
    made = table.reindex(columns=[*_KEYS, *_FACTS.values(), *measures])
    for load, names in _MEASURES.items():
        made.loc[made["load"] == load, [name for name in measures if name not in names]] = float("nan")
    for by, name in _FACTS.items():
        made.loc[made["by"] != by, name] = float("nan")
    return rounded(made)


def rounded(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table whose numbers have four significant digits."""
    made = table.copy()
    for name in made.select_dtypes("number"):
        made[name] = [float(f"{value:.{DIGITS}g}") for value in made[name].astype(float)]
    return made


def _figures(seeds: Sequence[int]) -> pd.DataFrame:
    return shortened(sweep(strategies=DRAWN, seeds=seeds, n_events=N_EVENTS))


def _recorded(seeds: Sequence[int]) -> pd.DataFrame:
    return shortened(recorded_sweep(strategies=DRAWN, n_events=RECORDED_EVENTS))


def _reasons(seeds: Sequence[int]) -> pd.DataFrame:
    return rounded(studies.explanations(seeds[:1], N_EVENTS))


def _rooms(seeds: Sequence[int]) -> pd.DataFrame:
    return rounded(studies.rooms(seeds[:3], RECORDED_EVENTS))


def _backlog(seeds: Sequence[int]) -> pd.DataFrame:
    return rounded(studies.backlogs(seeds[:3], RECORDED_EVENTS))


TABLES: Mapping[str, Callable[[Sequence[int]], pd.DataFrame]] = {
    "figures": _figures, "recorded": _recorded, "reasons": _reasons, "rooms": _rooms, "backlog": _backlog,
}  # fmt: skip


def _known(name: str) -> str:
    if name not in TABLES:
        raise CepError(f"results {name!r} do not exist.{nearest(name, TABLES)} There are {list(TABLES)}")
    return name


def file_of(folder: str | os.PathLike, name: str) -> Path:
    """Return the file of a kept table."""
    return Path(folder, f"load_shedding_{_known(name)}.csv")


def keep_results(
    folder: str | os.PathLike, names: Sequence[str] = tuple(TABLES), *, seeds: Sequence[int] = SEEDS
) -> None:
    """Compute tables of results and keep them."""
    for name in names:
        keep(TABLES[_known(name)](seeds), folder, name)


def keep(table: pd.DataFrame, folder: str | os.PathLike, name: str) -> None:
    """Write one table with the call that makes it."""
    call = f'papers.load_shedding.results.keep_results("results", ["{name}"])'
    keep_table(table, file_of(folder, name), call)


def kept(folder: str | os.PathLike, name: str) -> pd.DataFrame:
    """Return one kept table."""
    return kept_table(file_of(folder, name))


def kept_results(folder: str | os.PathLike) -> pd.DataFrame:
    """Return the panels on generated and on recorded data, for `papers.claims.examine`."""
    return pd.concat([kept(folder, "figures"), kept(folder, "recorded")], ignore_index=True)
