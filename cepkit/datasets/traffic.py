"""Seeded reports of road sensors that resemble a city's traffic feed; independent of patterns."""

from __future__ import annotations

import numpy as np
import pandas as pd

from cepkit.datasets.trades import check_count, start_ticks, steady

# Measured on two months of 449 sensors of a city, 7,135,969 reports.
N_SENSORS = 449
ROUND_S = 300
# Mean number of vehicles in a round, by hour of the day.
COUNT_OF_HOUR = (
    *(0.181, 0.166, 0.256, 0.762, 2.753, 5.632, 5.746, 4.782, 5.134, 5.239, 5.410, 5.488),
    *(5.898, 6.382, 6.222, 4.712, 3.217, 2.177, 1.724, 1.553, 1.220, 0.684, 0.323, 0.242),
)
# Distribution functions of the sensors' means.
PROBABILITY = (0.0, 0.01, 0.05, 0.25, 0.50, 0.75, 0.95, 0.99, 1.0)
MEAN_COUNT = (0.01, 0.0233, 0.0896, 0.712, 1.915, 4.40, 10.6, 13.8, 16.0)
MEAN_SPEED = (6.0, 9.16, 21.9, 33.4, 42.7, 54.3, 77.8, 93.4, 105.0)
UNCHANGED_EMPTY, UNCHANGED_BUSY = 0.96, 0.19  # share of speeds equal to the report before
PRESENT, LATE = 0.927, 0.223

# Found by trial, so that the figures above and the correlations between rounds hold.
_LOAD_SD, _LOAD_PERSISTENCE = 0.60, 0.98  # of the logarithm of a sensor's load
_COUNT_PERSISTENCE = 0.30  # share of vehicles that are also counted in the next round
_SPEED_SD, _SPEED_SD_RELATIVE, _SPEED_PERSISTENCE = 4.5, 0.18, 0.56  # km/h, and per km/h of the mean
_BUSY_SLOWDOWN = 0.05  # slowdown per vehicle above the sensor's mean, relative to that mean
_KEPT_BUSY = 0.165  # the rest of UNCHANGED_BUSY is drawn and happens to be equal
_SILENT_STEP, _SILENT = 16, 0.60  # every 16th sensor reports 0 km/h in this share of its empty rounds
_OUTAGES = ((0.50, 0.0, 0.0), (0.40, 0.0, 0.1), (0.10, 0.25, 0.8))  # of rounds: share, missing from, to


def traffic(
    n_rounds: int,
    *,
    n_sensors: int = N_SENSORS,
    seed: int = 0,
    start: str = "2014-08-01 00:00:00",
    distinct_times: bool = False,
) -> pd.DataFrame:
    """Return the reports of road sensors, one report per sensor every five minutes.

    Parameters
    ----------
    n_rounds : int
        Number of rounds of reports, at least 0.
    n_sensors : int
        Number of sensors, from 1 to 100,000.
    seed : int
        Seed, at least 0. The same arguments give the same frame.
    start : str
        Time of the first round.
    distinct_times : bool
        Whether the reports of a round are spread over its five minutes in row order: report k of n is
        300 s * k / n later. If False, all have the time of the round, so a window of less than 300 s holds
        reports of one time only. If True, late reports come in time order.

    Returns
    -------
    pandas.DataFrame
        In order of arrival. Columns ``ts`` (datetime64[ms], no zone), ``sensor`` (int32, six digits),
        ``avg_speed`` (int16, km/h), ``vehicle_count`` (int16, in five minutes). Some reports are missing,
        and many arrive one round late, so rows are not sorted by time.

    Raises
    ------
    CepError
        If an argument is out of range.

    Notes
    -----
    O(n_rounds x n_sensors).

    Source: Ali, Gao, Mileo, "CityBench", ISWC 2015: traffic of Aarhus. Counts are Poisson with the sensor's
    mean, the share of the hour and a slowly changing load. A speed mostly stays the same while no vehicle
    passes.
    Differs: no weekends and no road network; neighbouring sensors are independent.

    Examples
    --------
    >>> frame = traffic(288, seed=1)  # a day
    >>> len(frame), frame["sensor"].nunique()
    (119110, 449)
    """
    check_count("traffic: n_rounds", n_rounds, 0)
    check_count("traffic: n_sensors", n_sensors, 1, 100_000)
    check_count("traffic: seed", seed, 0)
    start_ms = start_ticks("traffic", start) // 1000
    rng_sensor, rng_count, rng_speed, rng_arrival = np.random.default_rng(seed).spawn(4)
    # The speed of a road does not depend on its traffic; every quantile of the means occurs once.
    place = (np.arange(n_sensors) + 0.5) / n_sensors
    mean_count = np.exp(np.interp(rng_sensor.permutation(place), PROBABILITY, np.log(MEAN_COUNT)))
    mean_speed = np.interp(rng_sensor.permutation(place), PROBABILITY, MEAN_SPEED)
    sensor = 150_000 + rng_sensor.choice(800_000, n_sensors, replace=False)

    hour = (start_ms // 1000 + np.arange(n_rounds) * ROUND_S) // 3600 % 24
    profile = np.array(COUNT_OF_HOUR)[hour] / np.mean(COUNT_OF_HOUR)
    load = steady(rng_count, (n_rounds, n_sensors), _LOAD_PERSISTENCE) * _LOAD_SD
    rate = mean_count * profile[:, None] * np.exp(load - _LOAD_SD**2 / 2)
    count = rng_count.poisson(rate * (1 - _COUNT_PERSISTENCE))
    for r in range(1, n_rounds):
        count[r] += rng_count.binomial(count[r - 1], _COUNT_PERSISTENCE)
    speed = _speeds(rng_speed, count, mean_count, mean_speed)

    present = rng_arrival.random((n_rounds, n_sensors)) >= _missing(rng_arrival, n_rounds)[:, None]
    # Two sensors in five are punctual. The others are late at different rates that average to LATE.
    often = np.maximum(0.0, rng_sensor.permutation(place) - 0.4) * (LATE / 0.18)
    late = (rng_arrival.random((n_rounds, n_sensors)) < often) & (not distinct_times)
    round_of, number = np.nonzero(present)
    arrival = np.lexsort((number, round_of + late[present]))
    ts_ms = start_ms + round_of * (1000 * ROUND_S)
    if distinct_times:
        ts_ms += number * (1000 * ROUND_S) // n_sensors
    return pd.DataFrame(
        {
            "ts": ts_ms[arrival].view("datetime64[ms]"),
            "sensor": sensor[number[arrival]].astype(np.int32),
            "avg_speed": speed[present][arrival].astype(np.int16),
            "vehicle_count": count[present][arrival].astype(np.int16),
        }
    )


def citybench_lines(n_rounds: int, *, sensor: int = 158505, seed: int = 0) -> list[str]:
    """Return the reports of one sensor in CityBench's format, with the header line.

    Both measured times are the seconds that a road segment of some length takes at that speed.

    Parameters
    ----------
    n_rounds : int
        Number of rounds of reports, at least 0; some reports are missing.
    sensor : int
        REPORT_ID of all lines.
    seed : int
        Seed, at least 0. The same arguments give the same lines.

    Returns
    -------
    list of str
        Text lines without line breaks.

    Raises
    ------
    CepError
        If an argument is out of range.

    Examples
    --------
    >>> citybench_lines(2, seed=3)[0].split(",")[2]
    'avgSpeed'
    """
    frame = traffic(n_rounds, n_sensors=1, seed=seed).sort_values("ts")
    rng = np.random.default_rng(seed)
    metres = int(rng.integers(200, 6000))
    first = int(rng.integers(10_000_000, 20_000_000))
    lines = ["status,avgMeasuredTime,avgSpeed,extID,medianMeasuredTime,TIMESTAMP,vehicleCount,_id,REPORT_ID"]
    for row in frame.itertuples():
        seconds = round(3.6 * metres / row.avg_speed) if row.avg_speed else 0
        number = first + N_SENSORS * int((row.ts - frame["ts"].iloc[0]).total_seconds() // ROUND_S)
        time = row.ts.isoformat(timespec="seconds")
        lines.append(
            f"OK,{seconds},{row.avg_speed},616,{seconds},{time},{row.vehicle_count},{number},{sensor}"
        )
    return lines


def _speeds(
    rng: np.random.Generator, count: np.ndarray, mean_count: np.ndarray, mean_speed: np.ndarray
) -> np.ndarray:
    """Return the speeds of all rounds: unchanged, or drawn around the sensor's mean and the last speed."""
    n_rounds, n_sensors = count.shape
    silent = np.zeros(n_sensors, bool)
    silent[np.argsort(mean_count)[_SILENT_STEP // 2 :: _SILENT_STEP]] = True
    keeps = rng.random(count.shape) < np.where(count == 0, UNCHANGED_EMPTY, _KEPT_BUSY)
    goes_silent = silent & (count == 0) & (rng.random(count.shape) < _SILENT)
    sd = _SPEED_SD / mean_speed + _SPEED_SD_RELATIVE
    noise = rng.standard_normal(count.shape) * sd * np.sqrt(1 - _SPEED_PERSISTENCE**2)
    busy = np.clip((count - mean_count) / np.maximum(mean_count, 1.0), -1.0, 5.0)
    deviation = rng.standard_normal(n_sensors) * sd
    speed = np.zeros(count.shape)
    shown = np.rint(mean_speed * np.maximum(0.02, 1 + deviation))
    is_silent = np.zeros(n_sensors, bool)
    for r in range(n_rounds):
        drawn = _SPEED_PERSISTENCE * deviation + noise[r]
        deviation = np.where(keeps[r], deviation, drawn)
        at_speed = np.rint(mean_speed * np.maximum(0.02, 1 + deviation - _BUSY_SLOWDOWN * busy[r]))
        shown = np.where(keeps[r], shown, at_speed)
        is_silent = (is_silent | goes_silent[r]) & (count[r] == 0)
        speed[r] = np.where(is_silent, 0.0, np.maximum(1.0, shown))
    return speed


def _missing(rng: np.random.Generator, n_rounds: int) -> np.ndarray:
    """Return the share of missing reports in each round: mostly zero, sometimes large."""
    share, low, high = (np.array(column) for column in zip(*_OUTAGES, strict=True))
    kind = rng.choice(len(share), n_rounds, p=share)
    return low[kind] + (high - low)[kind] * rng.random(n_rounds)
