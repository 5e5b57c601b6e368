"""Seeded reports of a city: GPS positions of its buses as in Dublin's SIRI files, and of its road sensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from cepkit.datasets.trades import check_count, start_ticks, steady
from cepkit.values import dataclass

# Seeded GPS reports of a city's buses, as in Dublin's SIRI files; independent of patterns.


@dataclass(frozen=True, slots=True)
class BusLine:
    """A line: its reports among 10,000, and mean and standard deviation of distance (m) and delay (s)."""

    reports: float
    dist_mean: float
    dist_sd: float
    delay_mean: float
    delay_sd: float


# Measured on the 25 busiest lines among the first 10,000 rows of siri.20130131.csv of
# github.com/rafaeltc/dublin-bus-data at 0c512ac.
_MEASURED = {
    "27": (682, 6251, 4270, -141, 231), "145": (578, 12083, 8795, -373, 151),
    "39": (493, 6167, 4763, -351, 329), "16": (469, 1834, 2160, -7, 47),
    "65": (465, 11526, 11561, -536, 443), "15": (415, 4376, 3187, -78, 131),
    "46": (406, 5996, 3087, -286, 484), "40": (383, 6359, 3209, 122, 439),
    "83": (369, 6578, 1660, -67, 133), "7": (347, 6992, 4815, -375, 386),
    "67": (321, 12387, 6983, -98, 205), "66": (315, 10890, 7475, -64, 199),
    "25": (309, 6222, 4589, -39, 82), "33": (292, 14674, 8640, -282, 511),
    "41": (281, 6650, 4880, -349, 343), "68": (266, 9640, 4964, -377, 296),
    "84": (262, 24158, 6380, -682, 473), "38": (213, 7878, 5390, -86, 117),
    "171": (210, 7458, 912, -173, 196), "56": (200, 5399, 3357, -335, 314),
    "13": (192, 6175, 3506, 365, 467), "4": (183, 5034, 2579, 13, 49), "150": (154, 1795, 703, -24, 29),
    "31": (143, 6382, 4734, -270, 195), "747": (138, 4990, 3403, -132, 201),
}  # fmt: skip
# Published for a month: data_distributions.json of github.com/koralchapnik/darling at 27510c8.
_PUBLISHED = {
    "145": (14773, 9450, -146, 552), "15": (4845, 3065, -262, 401), "39": (5273, 4130, -177, 459),
    "38": (6378, 4751, -217, 380), "25": (6766, 4690, -51, 164), "66": (8295, 6908, -9, 503),
    "27": (6410, 4141, -288, 378), "13": (6361, 3876, -215, 219), "46": (5183, 3969, -78, 237),
    "40": (4477, 3240, -124, 236),
}  # fmt: skip
# 55 further lines share the other reports; the month has more than 80 lines.
_OTHERS, _OTHER_REPORTS = 55, 10_000 - sum(row[0] for row in _MEASURED.values())
LINES = {name: BusLine(row[0], *_PUBLISHED.get(name, row[1:])) for name, row in _MEASURED.items()}
LINES |= {
    f"{900 + i}": BusLine(
        0.06 * 0.94**i * _OTHER_REPORTS, 5000 + 90 * i, 3200 + 70 * i, -60 - 4 * i, 150 + 6 * i
    )
    for i in range(_OTHERS)
}

CENTER = (-6.266155, 53.350140)  # longitude and latitude, from which `dist` counts
# Distribution function of the seconds between two reports of a vehicle.
_PROBABILITY = (0.0, 0.01, 0.05, 0.25, 0.50, 0.75, 0.95, 0.99, 1.0)
REPORT_S = (1.0, 2.0, 4.0, 18.0, 20.0, 21.0, 25.0, 59.0, 80.0)
AT_STOP, CONGESTION, NO_STOP, NO_PATTERN = 0.307, 0.0036, 0.092, 0.273
SPEED = 5.0  # metres per second by which the distance of a moving bus changes
DELAY_PERSISTENCE = 0.979  # of a delay, from report to report
_STAYS = 0.90  # chance that a bus at a stop is still there at the next report
_UNPLANNED = 0.17  # share of vehicles that always report no delay
_OWN = 0.9  # share of the variance of delays that is between the vehicles of a line
OPERATORS = ("CD", "D1", "D2", "HN", "PO", "RD", "SL", "CF")


def bus_positions(
    n_events: int, *, n_vehicles: int = 246, seed: int = 0, start: str = "2013-01-31 08:00:00"
) -> pd.DataFrame:
    """Return the reports of buses: each reports every 20 seconds where it is and how late it is.

    Parameters
    ----------
    n_events : int
        Number of reports, at least 0.
    n_vehicles : int
        Number of buses, from 80 to 100,000. By default they send 12.8 reports in a second. That is the mean
        of a month. About 1,000 buses drive at day.
    seed : int
        Seed, at least 0. The same arguments give the same frame.
    start : str
        Time of the first report.

    Returns
    -------
    pandas.DataFrame
        Sorted by time. Columns ``ts`` (datetime64[us], no zone, whole seconds), ``line`` (categorical),
        ``direction`` (int8, always 0), ``journey_pattern`` (str, or None), ``time_frame`` (str, the day),
        ``vehicle_journey`` (int64), ``operator`` (categorical), ``congestion`` (int8, 0 or 1), ``lon`` and
        ``lat`` (float64, degrees), ``delay`` (int64, seconds; negative is early), ``block``, ``vehicle``
        (int64), ``stop`` (str, or None), ``at_stop`` (int8, 0 or 1) and ``dist`` (float64, metres from the
        centre of Dublin, see `distance_m`).

    Raises
    ------
    CepError
        If an argument is out of range.

    Notes
    -----
    O(n_events log n_events).

    Source: Chapnik, Kolchinsky, Schuster, "DARLING", PVLDB 15(3), 2022, section 5.1: a month of Dublin's
    buses, 33,097,325 reports of more than 80 lines.
    Differs: the reports are generated. A bus drives to the end of its line and back on a straight road. Its
    delay stays near a mean of its own.

    Examples
    --------
    >>> bus_positions(1000, seed=1)["line"].isin(["27", "145", "39"]).mean().round(1)
    np.float64(0.2)
    """
    check_count("bus_positions: n_events", n_events, 0)
    check_count("bus_positions: n_vehicles", n_vehicles, len(LINES), 100_000)
    check_count("bus_positions: seed", seed, 0)
    start_us = start_ticks("bus_positions", start)
    rng_vehicle, rng_time, rng_road, rng_delay, rng_text = np.random.default_rng(seed).spawn(5)
    line_of_vehicle = _lines(n_vehicles)
    # Enough reports that all vehicles still send at the end of the stream.
    n_reports = 16 + int(1.3 * n_events / n_vehicles)
    shape = (n_vehicles, n_reports)
    gap_s = np.maximum(1, np.rint(np.interp(rng_time.random(shape), _PROBABILITY, REPORT_S)))
    second = np.floor(20 * rng_time.random(n_vehicles))[:, None] + np.cumsum(gap_s, axis=1) - gap_s[:, :1]
    at_stop = _stops(rng_road, shape)
    dist = _distances(rng_vehicle, line_of_vehicle, gap_s, at_stop)
    delay = _delays(rng_vehicle, rng_delay, line_of_vehicle, shape)

    # Reports of one second come in any order.
    order = np.lexsort((rng_time.random(second.size), second.ravel()))[:n_events]
    vehicle = order // n_reports
    line = line_of_vehicle[vehicle]
    angle = 2 * np.pi * np.random.default_rng([seed, 1]).random(len(LINES))[line]
    lon, lat = _coordinates(dist.ravel()[order], angle)
    ts_us = start_us + second.ravel()[order].astype(np.int64) * 1_000_000
    names = list(LINES)
    block = 1000 * np.array([int(name) for name in names])[line] + vehicle
    pattern = np.array([f"{int(name):04d}1001" for name in names], dtype=object)[line]
    pattern[rng_vehicle.permutation(n_vehicles)[vehicle] < NO_PATTERN * n_vehicles] = None
    stop = (1 + (dist.ravel()[order] / 400).astype(np.int64) + 80 * line).astype(str).astype(object)
    stop[rng_text.random(len(order)) < NO_STOP] = None
    return pd.DataFrame(
        {
            "ts": ts_us.view("datetime64[us]"), "line": pd.Categorical.from_codes(line, names),
            "direction": np.zeros(len(order), np.int8), "journey_pattern": pattern,
            "time_frame": np.array(ts_us.view("datetime64[us]"), dtype="datetime64[D]").astype(str),
            "vehicle_journey": 1 + 7 * vehicle,
            "operator": pd.Categorical.from_codes(line % len(OPERATORS), list(OPERATORS)),
            "congestion": (rng_text.random(len(order)) < CONGESTION).astype(np.int8), "lon": lon, "lat": lat,
            "delay": delay.ravel()[order], "block": block, "vehicle": 33_000 + vehicle, "stop": stop,
            "at_stop": at_stop.ravel()[order].astype(np.int8), "dist": distance_m(lon, lat),
        }
    )  # fmt: skip


def distance_m(lon: Any, lat: Any, functions: Any = np) -> Any:
    """Return the distances in metres from the centre of Dublin, on the WGS84 ellipsoid."""
    # ``functions`` are those of numpy, or of Spark for columns of Spark.
    # Source: 47 CFR 73.208: degrees of the mean latitude in kilometres. Within 50 km of the centre the error
    # is below 2 m.
    cos, middle = functions.cos, functions.radians((lat + CENTER[1]) / 2)
    km_lat = 111.13209 - 0.56605 * cos(2 * middle) + 0.00120 * cos(4 * middle)
    km_lon = 111.41513 * cos(middle) - 0.09455 * cos(3 * middle) + 0.00012 * cos(5 * middle)
    return 1000 * functions.hypot(km_lat * (lat - CENTER[1]), km_lon * (lon - CENTER[0]))


def _lines(n_vehicles: int) -> np.ndarray:
    """Return the line of each vehicle: at least one per line, otherwise by the lines' shares of reports."""
    reports = np.array([line.reports for line in LINES.values()])
    n_of_line = np.ones(len(LINES), dtype=np.int64)
    wanted = reports / reports.sum() * n_vehicles
    for _ in range(n_vehicles - len(LINES)):
        n_of_line[np.argmax(wanted / (n_of_line + 0.5))] += 1
    return np.repeat(np.arange(len(LINES)), n_of_line)


def _stops(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """Return whether each vehicle is at a stop in each of its reports."""
    begins = AT_STOP * (1 - _STAYS) / (1 - AT_STOP)
    drawn = rng.random(shape)
    at_stop = np.empty(shape, bool)
    at_stop[:, 0] = drawn[:, 0] < AT_STOP
    for r in range(1, shape[1]):
        at_stop[:, r] = drawn[:, r] < np.where(at_stop[:, r - 1], _STAYS, begins)
    return at_stop


def _distances(
    rng: np.random.Generator, line_of_vehicle: np.ndarray, gap_s: np.ndarray, at_stop: np.ndarray
) -> np.ndarray:
    """Return the distance of every report: a way to the end of the line and back, which stops interrupt."""
    # The way u goes from 0 to 1 and back with constant speed. The distance is far * u^k. So mean and
    # deviation of the distances are those of the line if k^2 / (2 k + 1) is the square of their ratio.
    mean, sd = (np.array([getattr(line, name) for line in LINES.values()])[line_of_vehicle]
                for name in ("dist_mean", "dist_sd"))  # fmt: skip
    square = (sd / mean) ** 2
    power = square + np.sqrt(square**2 + square)
    far = mean * (power + 1)
    # The vehicles of a line begin at different places of it.
    n_of_line = np.bincount(line_of_vehicle)
    first = np.cumsum(n_of_line) - n_of_line
    number = np.arange(len(line_of_vehicle)) - first[line_of_vehicle]
    begin = 2 * (number + rng.random(len(number))) / n_of_line[line_of_vehicle]
    moved = np.cumsum(np.where(at_stop, 0.0, gap_s), axis=1) * (SPEED / far)[:, None]
    way = (begin[:, None] + moved) % 2
    return far[:, None] * np.minimum(way, 2 - way) ** power[:, None]


def _delays(
    rng_vehicle: np.random.Generator,
    rng: np.random.Generator,
    line_of_vehicle: np.ndarray,
    shape: tuple[int, int],
) -> np.ndarray:
    """Return the delay of every report in seconds: a mean of the vehicle, and changes around it."""
    mean, sd = (np.array([getattr(line, name) for line in LINES.values()])[line_of_vehicle]
                for name in ("delay_mean", "delay_sd"))  # fmt: skip
    deviation = rng_vehicle.standard_normal(shape[0])
    changes = steady(rng, shape[::-1], DELAY_PERSISTENCE).T
    delay = mean[:, None] + sd[:, None] * (np.sqrt(_OWN) * deviation[:, None] + np.sqrt(1 - _OWN) * changes)
    unplanned = rng_vehicle.random(shape[0]) < _UNPLANNED
    return np.where(unplanned[:, None], 0.0, np.rint(delay)).astype(np.int64)


def _coordinates(dist: np.ndarray, angle: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return longitudes and latitudes at distances from the centre, with six decimals as in the files."""
    lon, lat = CENTER
    near_lon, near_lat = np.array([lon, lon + 1e-3]), np.array([lat + 1e-3, lat])
    metres_per_lat, metres_per_lon = distance_m(near_lon, near_lat) * 1000  # a degree north, a degree east
    east, north = dist * np.sin(angle), dist * np.cos(angle)
    return (lon + east / metres_per_lon).round(6), (lat + north / metres_per_lat).round(6)


# Seeded reports of road sensors that resemble a city's traffic feed; independent of patterns.

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
    n_rounds: int, *, n_sensors: int = N_SENSORS, seed: int = 0, start: str = "2014-08-01 00:00:00",
    distinct_times: bool = False,
) -> pd.DataFrame:  # fmt: skip
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
