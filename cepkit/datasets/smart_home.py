"""Seeded sensor events of a home with one resident, each with its activity; independent of patterns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from cepkit.datasets.activities import AREAS, Activity, activities
from cepkit.datasets.sensor_windows import window_attributes
from cepkit.datasets.trades import check, check_count, start_ticks
from cepkit.errors import CepError, nearest

# Measured together with the table of activities: seconds from ON to OFF, and from OFF to the next ON of the
# run. Least, quantiles 5, 25, 50, 75, 95 %, greatest.
_QUANTILES = (0.0, 0.05, 0.25, 0.50, 0.75, 0.95, 1.0)
ON_S = (1.03, 1.10, 1.13, 1.69, 2.97, 6.6, 14.0)
OFF_S = (0.13, 0.40, 0.75, 1.40, 3.0, 9.0, 25.0)
DOORS = 0.17  # share of the pairs at the outside door that are OPEN and CLOSE

_SAME_AREA = 0.42  # probability that a pair stays in the area of the pair before, beyond the shares
# Factor by which an activity follows more often than in the table. Without it, activities with fixed hours
# would be missed too often, because the simulated resident has no habits except the table.
_HABITS = {
    "Bathe": 1.5,
    "Cook_Breakfast": 1.6,
    "Cook_Dinner": 0.85,
    "Cook_Lunch": 2.2,
    "Dress": 1.4,
    "Evening_Meds": 0.6,
    "Exercise": 5.0,
    "Morning_Meds": 2.6,
    "Read": 1.6,
    "Sleep_Out_Of_Bed": 5.0,
    "Step_Out": 1.7,
    "Toilet": 1.25,
    "Wake_Up": 1.5,
    "Work_At_Table": 0.8,
}
_PUNCTUAL = 1.3  # exponent of the shares of the hours
_WAKES_S, _WAKES_SD_S = 7.8 * 3600, 1800  # when a night's sleep ends at the latest, in seconds of the day
_ALIKE = 0.8  # share of the runs whose length in seconds and in events have the same quantile
_REST_SPREAD = 7.0  # of the logarithm: the rests of a run differ greatly, one takes most of the time


@dataclass(frozen=True, slots=True)
class HomeParameters:
    """Parameters of `smart_home`.

    Parameters
    ----------
    n_days : int
        Number of days, at least 0; a day has about 2,050 events.
    start : str
        Time at which the first night begins.
    burst_activities : tuple of str
        Activities whose runs are moved into bursts; empty for none.
    n_bursts : int
        Number of random times, at least 1, at which the moved runs take place, one after another.
    burst_share : float
        Share of the runs of these activities that are moved, from 0 to 1; the others keep their times.
    burst_gap_s : float
        Mean seconds between the events of a burst, at least 1e-3.
    window : int
        Number of events in the window of the attributes, at least 2.
    """

    n_days: int = 30
    start: str = "2011-06-15 00:00:00"
    burst_activities: tuple[str, ...] = ()
    n_bursts: int = 3
    burst_share: float = 1.0
    burst_gap_s: float = 0.5
    window: int = 30


def smart_home(parameters: HomeParameters | None = None, *, seed: int = 0) -> pd.DataFrame:
    """Return the sensor events of a home, each with its activity and the attributes of its window.

    Activities follow each other in runs that depend on the hour and on the activity before. A run is a number
    of pairs of events, ON and OFF, from sensors in the areas of the activity.

    Parameters
    ----------
    parameters : HomeParameters, optional
        The parameters; None means 30 days without bursts.
    seed : int
        Seed, at least 0. The same arguments give the same frame.

    Returns
    -------
    pandas.DataFrame
        Sorted by time. Columns ``ts`` (datetime64[us], no zone, all different), ``activity`` (categorical,
        the 30 of `activities`), ``sensor`` (categorical, the area: 7), ``value`` (categorical: ON, OFF, OPEN,
        CLOSE), and those of `window_attributes`. Either the activity or the sensor can serve as the type of
        an event.

    Raises
    ------
    CepError
        If a parameter is out of range, or an activity does not exist.

    Notes
    -----
    O(events x areas).

    Source: Yankovitch, Kolchinsky, Schuster, "HYPERSONIC", SIGMOD 2022, section 7: 13,956,534 measurements of
    smart homes with 33 attributes. The type of an event is the activity; conditions compare
    ``activity_change``. The activities follow figures of a month of one home.
    Differs: one home, generated; 7 areas, hence 25 attributes, and ``value``. The paper says that most
    partial matches consist of few events close together, so an engine that splits the stream by time
    has one busy thread. ``burst_activities`` creates this situation.

    Examples
    --------
    >>> events = smart_home(HomeParameters(n_days=2), seed=1)
    >>> events["ts"].is_unique, "activity_change" in events
    (True, True)
    """
    parameters = HomeParameters() if parameters is None else parameters
    _check(parameters, seed)
    rng_run, rng_event, rng_burst = np.random.default_rng(seed).spawn(3)
    start_us = start_ticks("smart_home", parameters.start)
    activity_of_run, start_s, n_of_run, lasts_s = _runs(rng_run, parameters.n_days, start_us // 1_000_000)
    run, offset_s, area, is_on = _events(rng_event, activity_of_run, n_of_run, lasts_s)
    time_s = start_s[run] + offset_s
    if parameters.burst_activities:
        _move_into_bursts(rng_burst, parameters, activity_of_run[run], run, time_s)

    order = np.argsort(time_s, kind="stable")
    us = np.rint(time_s[order] * 1e6).astype(np.int64)
    us = np.maximum.accumulate(us - np.arange(len(us))) + np.arange(len(us))  # all times different
    is_door = (area == AREAS.index("OutsideDoor")) & (_uniform_of_pair(rng_event, run) < DOORS)
    value = np.where(is_door, 2, 0) + np.where(is_on, 0, 1)
    events = pd.DataFrame(
        {
            "ts": (start_us + us).view("datetime64[us]"),
            "activity": pd.Categorical.from_codes(
                activity_of_run[run][order], [activity.name for activity in activities()]
            ),
            "sensor": pd.Categorical.from_codes(area[order], list(AREAS)),
            "value": pd.Categorical.from_codes(value[order], ["ON", "OFF", "OPEN", "CLOSE"]),
        }
    )
    return pd.concat([events, window_attributes(events, window=parameters.window)], axis=1)


def casas_lines(parameters: HomeParameters | None = None, *, seed: int = 0) -> list[str]:
    """Return the events of `smart_home` in CASAS format, with runs marked at their first and last event.

    A line is ``date time sensor value``, followed by ``Activity begin`` or ``Activity end`` at the ends of a
    run. A run of one event is not marked, nor is Other_Activity.

    Parameters
    ----------
    parameters : HomeParameters, optional
    seed : int
        Seed, at least 0. The same arguments give the same lines.

    Returns
    -------
    list of str
        Text lines without line breaks.

    Raises
    ------
    CepError
        If a parameter is out of range.

    Examples
    --------
    >>> casas_lines(HomeParameters(n_days=1), seed=1)[0].split()[2:]
    ['Bedroom', 'ON', 'Sleep', 'begin']
    """
    events = smart_home(parameters, seed=seed)
    activity = events["activity"].astype(str).to_numpy()
    is_first = np.append(True, activity[1:] != activity[:-1])[: len(events)]
    is_last = np.append(is_first[1:], True)[: len(events)]
    marked = (activity != "Other_Activity") & ~(is_first & is_last)
    lines = []
    for row, first, last in zip(events.itertuples(), marked & is_first, marked & is_last, strict=True):
        mark = f" {row.activity} begin" if first else f" {row.activity} end" if last else ""
        lines.append(f"{row.ts:%Y-%m-%d %H:%M:%S.%f} {row.sensor} {row.value}{mark}")
    return lines


def _runs(
    rng: np.random.Generator, n_days: int, start_s: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return activity, start (seconds from the beginning), number of events and duration of each run."""
    table = activities()
    number = {activity.name: a for a, activity in enumerate(table)}
    hours = np.array([activity.hours for activity in table])
    # By previous activity and hour: cumulative weights of the following activities.
    followers = np.zeros((len(table), len(table)))
    for activity in table:
        for name, share in activity.followers.items():
            followers[number[activity.name], number[name]] = share * _HABITS.get(name, 1.0)
    weights = followers[:, None, :] * (hours**_PUNCTUAL).T[None, :, :]
    none_fits = weights.sum(axis=2) == 0
    weights = np.where(none_fits[:, :, None], followers[:, None, :], weights)
    cumulated = np.cumsum(weights / weights.sum(axis=2, keepdims=True), axis=2)

    grid = np.linspace(0, 1, 201)
    single = [np.mean([_quantile(u, activity.n_events) < 1.5 for u in grid]) for activity in table]

    runs: list[tuple[int, float, int, float]] = []
    now, current, end = 0.0, number["Sleep"], n_days * 86_400
    while now < end:
        drawn = rng.random(5)
        activity = table[current]
        n_events = max(1, round(_quantile(drawn[0], activity.n_events)))
        lasts = 0.0
        if n_events > 1:
            alike = (drawn[0] - single[current]) / (1 - single[current])
            lasts = _quantile(alike if drawn[4] < _ALIKE else drawn[1], activity.lasts_s)
        of_day = (start_s + now) % 86_400
        if activity.name == "Sleep" and of_day < _WAKES_S:
            wakes = _WAKES_S + _WAKES_SD_S * rng.standard_normal()
            lasts = min(lasts, max(600.0, wakes - of_day))
        runs.append((current, now, n_events, lasts))
        now += lasts + _quantile(drawn[2], activity.pause_s)
        hour = int((start_s + now) // 3600 % 24)
        current = min(len(table) - 1, int(np.searchsorted(cumulated[current, hour], drawn[3], side="right")))
    columns = np.array(runs).reshape(-1, 4).T
    return columns[0].astype(np.int64), columns[1], columns[2].astype(np.int64), columns[3]


def _quantile(uniform: float, quantiles: tuple[float, ...]) -> float:
    """Return a value between quantiles 5, 25, 50, 75, 95 % and, if six are given, the greatest."""
    greatest = quantiles[5] if len(quantiles) == 6 else 1.3 * quantiles[4]
    return float(np.exp(np.interp(uniform, _QUANTILES, np.log([quantiles[0], *quantiles[:5], greatest]))))


def _events(
    rng: np.random.Generator, activity_of_run: np.ndarray, n_of_run: np.ndarray, lasts_s: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return run, seconds from the run's start, area, and whether it is an ON, of each event."""
    n_events = int(n_of_run.sum())
    run = np.repeat(np.arange(len(n_of_run)), n_of_run)
    first = np.cumsum(n_of_run) - n_of_run
    place = np.arange(n_events) - first[run]
    is_on = place % 2 == 0

    uniform = rng.random(n_events)
    to_off, to_on = (np.interp(uniform, _QUANTILES, np.log(seconds)) for seconds in (ON_S, OFF_S))
    gap = np.exp(np.where(is_on, to_on, to_off))
    gap[place == 0] = 0.0
    # Pauses before ONs fill what the gaps leave of a run's duration; gaps that are too long are cut.
    busy_s = _sum_of_run(gap, run, len(n_of_run))
    rest = np.exp(_REST_SPREAD * rng.standard_normal(n_events)) * (is_on & (place > 0))
    rests = _sum_of_run(rest, run, len(n_of_run))
    free_s = np.maximum(0.0, lasts_s - busy_s)
    scale = lasts_s / np.maximum(busy_s, 1e-9)
    gap *= np.where(rests > 0, np.minimum(1.0, scale), scale)[run]
    gap += rest * np.where(rests > 0, free_s / np.maximum(rests, 1e-9), 0.0)[run]
    elapsed = np.cumsum(gap)
    offset_s = elapsed - elapsed[first][run] if n_events else elapsed

    # One area per pair: drawn by the shares of the activity, or the same as that of the pair before.
    table = np.array([_cumulated_areas(activity) for activity in activities()])
    drawn = (table[activity_of_run[run]] <= rng.random(n_events)[:, None]).sum(axis=1)
    is_drawn = is_on & ((rng.random(n_events) >= _SAME_AREA) | (place == 0))
    area = drawn[np.maximum.accumulate(np.where(is_drawn, np.arange(n_events), 0))]
    return run, offset_s, area, is_on


def _cumulated_areas(activity: Activity) -> np.ndarray:
    shares = np.array([activity.areas.get(area, 0.0) for area in AREAS])
    return np.cumsum(shares / shares.sum())[:-1]


def _sum_of_run(values: np.ndarray, run: np.ndarray, n_runs: int) -> np.ndarray:
    return np.bincount(run, weights=values, minlength=n_runs)


def _uniform_of_pair(rng: np.random.Generator, run: np.ndarray) -> np.ndarray:
    """Return a number from 0 to 1 per event, equal for the two events of a pair."""
    n = len(run)
    first = np.flatnonzero(np.diff(run, prepend=-1))
    place = np.arange(n) - np.repeat(first, np.diff(first, append=n))
    return rng.random(n)[np.arange(n) - place % 2]


def _move_into_bursts(
    rng: np.random.Generator,
    parameters: HomeParameters,
    activity: np.ndarray,
    run: np.ndarray,
    time_s: np.ndarray,
) -> None:
    """Give new times to the events of chosen runs, so that they follow one another at ``n_bursts`` times."""
    names = [entry.name for entry in activities()]
    chosen = np.isin(activity, [names.index(name) for name in parameters.burst_activities])
    n_runs = int(run[-1]) + 1 if len(run) else 0
    moved = np.flatnonzero(chosen & (rng.random(n_runs) < parameters.burst_share)[run])
    burst_of_run = rng.integers(0, parameters.n_bursts, n_runs)
    begins_s = np.sort(rng.random(parameters.n_bursts)) * parameters.n_days * 86_400
    gap_s = rng.exponential(parameters.burst_gap_s, len(moved))
    burst = burst_of_run[run[moved]]
    for b in range(parameters.n_bursts):
        here = burst == b
        time_s[moved[here]] = begins_s[b] + np.cumsum(gap_s[here])


def _check(parameters: HomeParameters, seed: int) -> None:
    if not isinstance(parameters, HomeParameters):
        raise CepError(f"smart_home: parameters is a {type(parameters).__name__}. Pass HomeParameters(…)")
    check_count("smart_home: n_days", parameters.n_days, 0)
    check_count("smart_home: n_bursts", parameters.n_bursts, 1)
    check("smart_home: burst_share", parameters.burst_share, 0, 1)
    check("smart_home: burst_gap_s", parameters.burst_gap_s, 1e-3)
    check_count("smart_home: window", parameters.window, 2)
    check_count("smart_home: seed", seed, 0)
    names = [activity.name for activity in activities()]
    for name in parameters.burst_activities:
        if name not in names:
            raise CepError(
                f"smart_home: burst_activities names {name!r}, which does not exist.{nearest(name, names)} "
                f"Activities: {', '.join(names)}"
            )
