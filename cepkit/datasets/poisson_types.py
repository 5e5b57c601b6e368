"""Seeded events of several independent types; independent of patterns."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from cepkit.datasets.trades import check, check_count, start_ticks
from cepkit.errors import CepError

MOST_X = 999  # largest value of x


def poisson_types(
    rates: Mapping[str, float],
    duration_s: float,
    seed: int = 0,
    *,
    n_keys: int = 1,
    start: str = "2024-01-01 00:00:00",
) -> pd.DataFrame:
    """Return events of several types, each from its own Poisson process.

    Parameters
    ----------
    rates : mapping of str to float
        Events per second of each type, at least 0.
    duration_s : float
        Length of the stream, at least 0.
    seed : int
        Seed, at least 0. The same arguments give the same frame.
    n_keys : int
        Number of keys, at least 1.
    start : str
        Time at which the stream begins.

    Returns
    -------
    pandas.DataFrame
        Sorted by time. Columns ``ts`` (datetime64[us], no zone), ``type`` (categorical, the types of
        ``rates`` in their order), ``x`` (int64, uniform from 0 to 999) and ``key`` (int64, uniform below
        ``n_keys``).

    Raises
    ------
    CepError
        If an argument is out of range, or no type is given.

    Notes
    -----
    Time and memory O(n_events log n_events). ``(a.x + b.x) % 1000 < 1000 * s`` holds for a share s of all
    pairs, independently for each pair of a sequence, like a selectivity in cost models.

    Examples
    --------
    >>> poisson_types({"A": 1.0, "B": 0.2}, 4.0, seed=1)["type"].tolist()
    ['B', 'A', 'A', 'A', 'A']
    """
    if not rates:
        raise CepError("poisson_types: rates names no type. It must give at least one, as in {'A': 1.0}")
    for name, rate in rates.items():
        check(f"poisson_types: rate of {name!r}", rate, 0)
    check("poisson_types: duration_s", duration_s, 0)
    check_count("poisson_types: seed", seed, 0)
    check_count("poisson_types: n_keys", n_keys, 1)
    start_us = start_ticks("poisson_types", start)
    rng_time, rng_x, rng_key = np.random.default_rng(seed).spawn(3)
    counts = rng_time.poisson([rate * duration_s for rate in rates.values()])
    n_events = int(counts.sum())
    # For a fixed number of events, the times of a Poisson process are uniform.
    time_us = (rng_time.random(n_events) * duration_s * 1e6).astype(np.int64)
    order = np.argsort(time_us, kind="stable")
    codes = np.repeat(np.arange(len(rates)), counts)
    return pd.DataFrame(
        {
            "ts": (start_us + time_us[order]).view("datetime64[us]"),
            "type": pd.Categorical.from_codes(codes[order], list(rates)),
            "x": rng_x.integers(0, MOST_X, n_events, endpoint=True),
            "key": rng_key.integers(0, n_keys, n_events),
        }
    )
