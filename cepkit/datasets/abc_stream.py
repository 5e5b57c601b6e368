"""Seeded events of types A, B, C, …: with an adjustable rate of repeated types, or of independent types."""

from __future__ import annotations

import string
from collections.abc import Mapping

import numpy as np
import pandas as pd

from cepkit.datasets.trades import check, check_count, start_ticks
from cepkit.errors import CepError

ATTRIBUTES = {"x": (0, 99), "key": (0, 9)}


def abc_stream(
    n_events: int,
    *,
    n_types: int = 3,
    stay: float = 0.0,
    attributes: Mapping[str, tuple[int, int]] | None = None,
    gap_s: float = 1.0,
    seed: int = 0,
    start: str = "2024-01-01 00:00:00",
) -> pd.DataFrame:
    """Return random events, one every ``gap_s`` seconds.

    Parameters
    ----------
    n_events : int
        Number of events, at least 0.
    n_types : int
        Number of types, from 1 to 26; they are named ``A``, ``B``, ….
    stay : float
        Probability, from 0 to 1, that an event copies the type of the event before. Otherwise all types are
        equally likely, including the same one. So the same type follows with p = stay + (1 - stay) / n_types,
        and a type occurs 1 / (1 - p) times in a row on average.
    attributes : mapping of str to (int, int), optional
        Smallest and largest value of each attribute, drawn as a uniform whole number; None means ``x``
        from 0 to 99 and ``key`` from 0 to 9.
    gap_s : float
        Seconds between two events, at least 1e-6.
    seed : int
        Seed, at least 0. The same arguments give the same frame; ``stay`` does not change the attributes.
    start : str
        Time of the first event.

    Returns
    -------
    pandas.DataFrame
        Columns ``ts`` (datetime64[us], no zone, all different), ``type`` (categorical, all ``n_types``
        categories), and the attributes (int64).

    Raises
    ------
    CepError
        If an argument is out of range.

    Notes
    -----
    O(n_events x attributes).

    Source: Qiu et al., LinkedCEP, section 4.1: 100,000 events of types named by capital letters, with
    attributes and an adjustable number of types and range of values.
    Differs: ``stay`` is new. Chains of partial matches pay off if a type occurs several times in a row. With
    independent types (``stay`` 0) the mean is 1.5 times with three types, and less with more types.

    Examples
    --------
    >>> "".join(abc_stream(20, stay=0.8, seed=3)["type"])
    'BBBBBBBBBBBBBBBBBCBB'
    """
    attributes = ATTRIBUTES if attributes is None else attributes
    check_count("abc_stream: n_events", n_events, 0)
    check_count("abc_stream: n_types", n_types, 1, 26)
    check("abc_stream: stay", stay, 0, 1)
    check("abc_stream: gap_s", gap_s, 1e-6)
    check_count("abc_stream: seed", seed, 0)
    start_us = start_ticks("abc_stream", start)
    for name, (low, high) in attributes.items():
        if low > high or name in ("ts", "type"):
            raise CepError(
                f"abc_stream: attribute {name!r} from {low} to {high}. "
                "Its name must not be ts or type, and its smallest value must come first"
            )

    rng_type, rng_attributes = np.random.default_rng(seed).spawn(2)
    drawn = rng_type.integers(0, n_types, n_events)
    stays = rng_type.random(n_events) < stay
    stays[:1] = False
    latest_drawn = np.maximum.accumulate(np.where(stays, 0, np.arange(n_events)))
    gaps_us = np.rint(np.arange(n_events) * gap_s * 1e6).astype(np.int64)
    return pd.DataFrame(
        {
            "ts": (start_us + gaps_us).view("datetime64[us]"),
            "type": pd.Categorical.from_codes(drawn[latest_drawn], list(string.ascii_uppercase[:n_types])),
            **{
                name: rng_attributes.integers(low, high, n_events, endpoint=True)
                for name, (low, high) in attributes.items()
            },
        }
    )


# Seeded events of several independent types; independent of patterns.

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
