"""The kept table of all figures, for ten seeds and for recorded data."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from papers.recorded import has_recorded
from papers.scatter_gather.figures import measure_seeds, recorded_order
from papers.tables import keep_table, kept_table

SEEDS = tuple(range(10))
FILE = "scatter_gather.csv"


def compute_results(seeds: Iterable[int] = SEEDS) -> pd.DataFrame:
    """Return all points of all figures for some seeds, and for recorded data if this machine has them."""
    # A seed takes one to two minutes.
    made = [measure_seeds(seeds)]
    if has_recorded("crypto trades"):
        made.append(recorded_order())
    return pd.concat(made, ignore_index=True)


def keep_results(folder: str | os.PathLike = "results", seeds: Iterable[int] = SEEDS) -> None:
    """Compute the table and write it to a folder."""
    keep_table(compute_results(seeds), Path(folder, FILE), "results.keep_results('results')")


def kept_results(folder: str | os.PathLike = "results", file: str = FILE) -> pd.DataFrame:
    """Return a kept table: ``data``, ``figure``, ``measure``, ``series``, ``x``, ``value``."""
    return kept_table(Path(folder, file))
