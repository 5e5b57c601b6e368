"""Seeded sensor events of a home with one resident, each with its activity and its window of events."""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd

from cepkit.datasets.trades import check, check_count, place_in_run, start_ticks
from cepkit.errors import CepError, column_not_found, nearest
from cepkit.values import dataclass

# Activities of a smart home as a table: their hours, lengths, places and followers.

AREAS = ("Bathroom", "Bedroom", "Kitchen", "LivingRoom", "LoungeChair", "OutsideDoor", "WorkArea")

# Measured on 30 days of a home with one resident, 61,578 sensor events in 2,731 runs of 30 activities.
# One entry per activity: name | runs by the hour in which they begin, 0 to 23, in ninths of the most frequent
# hour | events in a run, quantiles 5, 25, 50, 75, 95 % | seconds that a run with several events lasts, same
# quantiles | seconds until the next run, same quantiles and the longest. Indented: shares of the areas of
# its events | shares of the activities that follow.
_TABLE = """
Other_Activity | 011011129735843443633331 | 1 2 13 24 51 | 1.7 22 60 160 3000 | 0.27 1.2 3.6 9.3 160 20000
    Bedroom 0.51 LoungeChair 0.18 LivingRoom 0.12 WorkArea 0.08 OutsideDoor 0.05 Kitchen 0.05 | Toilet 0.187
    Watch_TV 0.101 Relax 0.090 Personal_Hygiene 0.083 Work_At_Table 0.081 Leave_Home 0.067 Step_Out 0.048
    Enter_Home 0.040 Morning_Meds 0.039 Dress 0.036 Go_To_Sleep 0.032 Evening_Meds 0.031 Cook_Dinner 0.029
    Cook_Lunch 0.027 Read 0.027 Eat_Breakfast 0.021 Eat_Lunch 0.011 Eat_Dinner 0.009 Bathe 0.007
    Cook_Breakfast 0.006 Phone 0.006
Toilet | 000010017557955454832211 | 6.7 16 24 30 46 | 41 87 130 190 300 | 2.3 6.3 9.1 17 56 130
    Bathroom 1.00 | Other_Activity 0.986
Personal_Hygiene | 000000039512300101224472 | 16 32 44 60 83 | 68 210 290 390 600 | 2.8 5.3 10 17 48 65
    Bathroom 1.00 | Other_Activity 0.992 Dress 0.008
Watch_TV | 000000004945112552643520 | 1 1 8 12 25 | 430 1100 1800 3800 9100 | 0.11 0.74 1.1 2.3 5.9 85
    LivingRoom 0.90 Bedroom 0.05 LoungeChair 0.03 | Other_Activity 1.000
Relax | 000000000338753496132310 | 1 1 1 1 12 | 1400 2900 4700 6700 8800 | 0.28 1 1.1 1.9 4.2 9.8
    LivingRoom 0.93 LoungeChair 0.05 | Other_Activity 1.000
Work_At_Table | 000000000223418822926100 | 1 1 1 1 14 | 500 990 2400 3400 6500 | 1.1 1.1 4.2 7.1 19 180
    WorkArea 0.99 | Other_Activity 0.989 Cook_Lunch 0.011
Sleep | 253352430000000000000094 | 12 19 26 39 64 | 3600 8300 11000 14000 18000 | 16 28 37 41 62 1300
    Bedroom 1.00 | Wake_Up 0.953 Other_Activity 0.047
Wake_Up | 263462499000000000000000 | 2 2 4 4 4.9 | 1.1 3.4 3.9 4.6 9.5 | 0.96 4.4 7.8 11 19 49
    Bedroom 0.94 OutsideDoor 0.04 LoungeChair 0.02 | Bed_Toilet_Transition 0.614 Personal_Hygiene 0.169
    Other_Activity 0.157 Bathe 0.036 Toilet 0.024
Go_To_Sleep | 243362430000000000000093 | 2 2 4 4 6 | 1.1 2.8 3.7 6.7 10 | 10 17 30 40 100 130
    Bedroom 0.98 | Sleep 1.000
Enter_Home | 000000000839323565127500 | 4 5 5 7 7 | 8.3 10 11 14 19 | 0.78 1.1 1.7 2 2.4 4
    OutsideDoor 1.00 | Other_Activity 1.000
Leave_Home | 000000008650093220380000 | 4 4 5 5 7 | 9.2 10 11 14 19 | 0.1 0.81 3000 5400 13000 16000
    OutsideDoor 1.00 | Other_Activity 0.595 Enter_Home 0.405
Bed_Toilet_Transition | 395694750000000000000000 | 22 26 30 32 36 | 170 220 280 330 550 | 3.8 10 12 13 16 49
    Bathroom 1.00 | Go_To_Sleep 0.800 Other_Activity 0.182 Sleep 0.018
Step_Out | 000000149112322210000000 | 12 16 18 20 23 | 28 44 52 250 470 | 0.29 0.72 2.4 2.9 5.6 2100
    OutsideDoor 0.90 Bedroom 0.10 | Other_Activity 0.981 Enter_Home 0.019
Cook_Dinner | 000000000000000003910100 | 27 56 100 200 290 | 89 160 420 790 1200 | 0.63 2.9 4.9 6.9 11 140
    Kitchen 1.00 | Eat_Dinner 0.755 Other_Activity 0.245
Eat_Dinner | 000000000000000003920100 | 2.4 6 8 8 11 | 330 810 1000 1400 2100 | 1.6 4 5.4 8.1 13 16
    WorkArea 0.99 | Wash_Dinner_Dishes 0.480 Cook_Dinner 0.420 Other_Activity 0.100
Morning_Meds | 000000049210000000000000 | 1 1 12 16 26 | 26 38 49 54 61 | 0.76 1.7 3.6 7.4 27 32
    Kitchen 1.00 | Other_Activity 0.512 Cook_Breakfast 0.488
Dress | 000000009511100000000011 | 1 10 14 20 26 | 36 110 210 290 390 | 1.1 5.4 110 200 320 350
    Bedroom 0.98 LoungeChair 0.02 | Other_Activity 0.878 Sleep 0.049 Toilet 0.024 Step_Out 0.024 Phone 0.024
Eat_Breakfast | 000000038910000000000000 | 1 1 10 12 16 | 260 1200 1300 1700 2100 | 2 4.4 6.3 8 13 180
    WorkArea 0.99 | Wash_Breakfast_Dishes 0.583 Other_Activity 0.333 Wash_Dinner_Dishes 0.028 Exercise 0.028
    Cook_Breakfast 0.028
Eat_Lunch | 000000000000910000000000 | 1 6 8 8 15 | 650 820 1000 1100 1400 | 2.8 3.5 5 6.5 11 12
    WorkArea 1.00 | Wash_Lunch_Dishes 0.743 Other_Activity 0.229 Cook_Lunch 0.029
Evening_Meds | 000000000000000000001292 | 1 4 6 14 25 | 33 43 67 87 140 | 0.7 1.1 4.4 21 96 120
    Bathroom 1.00 | Personal_Hygiene 0.559 Other_Activity 0.412 Go_To_Sleep 0.029
Cook_Lunch | 000000000001910000000000 | 52 130 140 160 200 | 130 480 550 610 720 | 1.5 2.9 4.8 6.6 9.2 14
    Kitchen 1.00 | Eat_Lunch 0.719 Other_Activity 0.281
Read | 000000000000940000000000 | 1 1 1 10 13 | 690 1000 2500 4900 5400 | 0.22 0.8 1.1 1.2 4.4 9.9
    LivingRoom 0.88 LoungeChair 0.05 WorkArea 0.05 Bedroom 0.03 | Other_Activity 1.000
Cook_Breakfast | 000000049510000000000000 | 18 140 180 200 220 | 54 430 600 650 690 | 1.1 1.4 3.7 6.6 11 12
    Kitchen 1.00 | Other_Activity 0.552 Eat_Breakfast 0.448
Wash_Dinner_Dishes | 000000001000000000931000 | 13 26 39 50 96 | 32 70 130 170 410 | 0.93 2.7 4.8 6.5 16 23
    Kitchen 0.99 | Other_Activity 0.862 Work_At_Table 0.138
Wash_Lunch_Dishes | 000000000000910000000000 | 24 32 40 55 90 | 65 94 130 180 320 | 2.4 4.6 5.2 6.7 15 20
    Kitchen 1.00 | Other_Activity 1.000
Wash_Breakfast_Dishes | 000000009900000000000000 | 10 14 20 26 46 | 30 33 52 84 150 | 2.9 4.5 5.2 7.4 17 30
    Kitchen 1.00 | Other_Activity 1.000
Bathe | 000000039000000050000000 | 79 96 110 140 160 | 710 910 1000 1200 1300 | 3.4 4.5 8.4 22 39 51
    Bathroom 1.00 | Other_Activity 1.000
Phone | 000000003303303900000000 | 1 1 6 12 16 | 210 390 680 1100 1600 | 0.28 0.46 1.1 2.1 2.6 2.6
    LivingRoom 0.88 LoungeChair 0.07 Bedroom 0.05 | Other_Activity 1.000
Exercise | 000000000905300000000000 | 1 1 1 7 41 | 380 440 510 590 650 | 0.64 0.91 1.1 1.8 2.2 2.3
    Bedroom 0.76 LivingRoom 0.20 WorkArea 0.03 | Other_Activity 1.000
Sleep_Out_Of_Bed | 000000000009000000000500 | 1 1 1 4.5 7.3 | 6800 6800 6800 6800 6800 | 0.9 1.3 1.9 4.9 7.3 8
    LivingRoom 1.00 | Other_Activity 1.000
"""


@dataclass(frozen=True, slots=True)
class Activity:
    name: str
    hours: tuple[float, ...]  # share of the runs that begin in each hour, 0 to 23; the sum is 1
    n_events: tuple[float, ...]  # events in a run: quantiles 5, 25, 50, 75 and 95 %
    lasts_s: tuple[float, ...]  # seconds from the first to the last event of a run, same quantiles
    pause_s: tuple[float, ...]  # seconds from a run to the next one, same quantiles and the longest
    # areas, followers: shares of the areas of its events, and of the activities after it
    areas: dict[str, float]
    followers: dict[str, float]


@cache
def activities() -> tuple[Activity, ...]:
    """Return the activities, in alphabetical order."""
    entries: list[str] = []
    for line in _TABLE.strip().splitlines():
        if not line.startswith(" "):
            entries.append(line)
        elif entries[-1].count("|") == 4:  # the second line of an entry begins another part
            entries[-1] += f" | {line.strip()}"
        else:
            entries[-1] += f" {line.strip()}"
    return tuple(sorted(map(_activity, entries), key=lambda activity: activity.name))


def _activity(entry: str) -> Activity:
    name, hours, *numbers, areas, followers = (part.strip() for part in entry.split("|"))
    total = sum(map(int, hours))
    n_events, lasts_s, pause_s = (tuple(map(float, part.split())) for part in numbers)
    return Activity(
        name=name, hours=tuple(int(hour) / total for hour in hours), n_events=n_events, lasts_s=lasts_s,
        pause_s=pause_s, areas=_shares(areas), followers=_shares(followers),
    )  # fmt: skip


def _shares(text: str) -> dict[str, float]:
    words = text.split()
    return {name: float(share) for name, share in zip(words[::2], words[1::2], strict=True)}


# Attributes of a sliding window of sensor events: counts, spans, entropy.

WINDOW = 30
DAY_S = 86_400


def window_attributes(
    events: pd.DataFrame, *, clock: str = "ts", area: str = "sensor", window: int = WINDOW
) -> pd.DataFrame:
    """Return attributes of the window that ends with each event.

    Parameters
    ----------
    events : pandas.DataFrame
        Events of one home, sorted by time.
    clock : str
        Column of times, datetime64.
    area : str
        Column of the places or sensors to count, without missing values. A categorical column gives one
        result column per category; any other column gives one per value that occurs, sorted.
    window : int
        Number of events in a window, at least 2. The first windows are shorter.

    Returns
    -------
    pandas.DataFrame
        One row per event, with the same index. Columns, with their names in the UCI data set in brackets:

        * ``last_event_hour`` [lastSensorEventHours] int16, ``last_event_seconds`` [lastSensorEventSeconds]
          float64, since midnight, ``day_of_week`` [lastSensorDayOfWeek] int16, Monday is 0;
        * ``window_duration`` [windowDuration], ``since_last_event`` [timeSinceLastSensorEvent]: float64,
          seconds;
        * ``prev_dominant1``, ``prev_dominant2`` [prevDominantSensor1, 2] categorical: the most frequent area
          in the windows that ended ``window`` and twice ``window`` events ago; missing before that;
        * ``complexity`` [complexity] float64: entropy of the areas, in bits;
        * ``activity_change`` [activityChange] float64, from 0 to 1: the share of the window's duration that
          passed until its middle event, number ``n // 2`` of n counted from 0; 0 for a window without
          duration. Above 0.5, events are more frequent in the second half;
        * ``area_transitions`` [areaTransitions] int16: successive events with different areas;
        * ``num_distinct_sensors`` [numDistinctSensors] int16: areas in the window;
        * ``count_AREA`` [sensorCount-AREA] int16: events of the area in the window;
        * ``elapsed_AREA`` [sensorElTime-AREA] float64: seconds since the area's last event, at most 86,400,
          which is also the value if it never had one.

    Raises
    ------
    ColumnNotFoundError
    CepError
        If ``window`` is below 2.

    Notes
    -----
    O(events x areas).

    Source: UCI Machine Learning Repository, "Human Activity Recognition from Continuous Ambient Sensor
    Data", 2019, description of the attributes.
    Differs: counts are counts, not weighted by age; times are exact to the microsecond, not whole seconds;
    windows slide over midnight. The number of distinct sensors, always 0 in the data set, is counted.

    Examples
    --------
    >>> events = pd.DataFrame({"ts": pd.to_datetime([0, 3, 4], unit="s"), "sensor": ["A", "B", "B"]})
    >>> window_attributes(events)[["activity_change", "count_B", "elapsed_A"]]
       activity_change  count_B  elapsed_A
    0             0.00        0        0.0
    1             1.00        1        3.0
    2             0.75        2        4.0
    """
    check_count("window_attributes: window", window, 2)
    for role, name in (("clock", clock), ("area", area)):
        if name not in events.columns:
            raise column_not_found(role, name, events.columns)
    values = events[area].astype("category")
    names = [str(name) for name in values.cat.categories]
    code = values.cat.codes.to_numpy()
    us = events[clock].to_numpy().astype("datetime64[us]").astype(np.int64)
    n = len(us)
    end = np.arange(n)
    start = np.maximum(0, end - window + 1)
    size = end - start + 1

    is_area = code[:, None] == np.arange(len(names))
    until = np.zeros((n + 1, len(names)), dtype=np.int64)
    np.cumsum(is_area, axis=0, out=until[1:])
    count = until[end + 1] - until[start]
    share = count / size[:, None]
    entropy = -(share * np.log2(np.where(share > 0, share, 1.0))).sum(axis=1)
    duration = us - us[start]
    half = us[start + size // 2] - us[start]
    changes = np.zeros(n, dtype=np.int64)
    np.cumsum(code[1:] != code[:-1], out=changes[1:])
    never = np.iinfo(np.int64).min // 2
    seen = np.maximum.accumulate(np.where(is_area, us[:, None], never), axis=0)
    elapsed = np.minimum((us[:, None] - seen) / 1e6, DAY_S)
    dominant = pd.Series(count.argmax(axis=1) if names else [], dtype=np.int64)
    day_us = us % (DAY_S * 1_000_000)
    return pd.DataFrame(
        {
            "last_event_hour": (day_us // 3_600_000_000).astype(np.int16),
            "last_event_seconds": day_us / 1e6,
            "day_of_week": ((us // (DAY_S * 1_000_000) + 3) % 7).astype(np.int16),  # 1970 began on a Thursday
            "window_duration": duration / 1e6,
            "since_last_event": np.diff(us, prepend=us[:1]) / 1e6,
            "prev_dominant1": pd.Categorical.from_codes(dominant.shift(window, fill_value=-1), names),
            "prev_dominant2": pd.Categorical.from_codes(dominant.shift(2 * window, fill_value=-1), names),
            "complexity": np.maximum(0.0, entropy),
            "activity_change": np.where(duration > 0, half / np.maximum(duration, 1), 0.0),
            "area_transitions": (changes - changes[start]).astype(np.int16),
            "num_distinct_sensors": (count > 0).sum(axis=1).astype(np.int16),
            **{f"count_{name}": count[:, a].astype(np.int16) for a, name in enumerate(names)},
            **{f"elapsed_{name}": elapsed[:, a] for a, name in enumerate(names)},
        },
        index=events.index,
    )


# Seeded sensor events of a home with one resident, each with its activity; independent of patterns.

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
    "Bathe": 1.5, "Cook_Breakfast": 1.6, "Cook_Dinner": 0.85, "Cook_Lunch": 2.2, "Dress": 1.4,
    "Evening_Meds": 0.6, "Exercise": 5.0, "Morning_Meds": 2.6, "Read": 1.6, "Sleep_Out_Of_Bed": 5.0,
    "Step_Out": 1.7, "Toilet": 1.25, "Wake_Up": 1.5, "Work_At_Table": 0.8,
}  # fmt: skip
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
    first = np.cumsum(n_of_run) - n_of_run  # the first event of each run
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
    area = drawn[np.maximum.accumulate(np.where(is_drawn, np.arange(n_events), 0))]  # of the last drawn
    return run, offset_s, area, is_on


def _cumulated_areas(activity: Activity) -> np.ndarray:
    shares = np.array([activity.areas.get(area, 0.0) for area in AREAS])
    return np.cumsum(shares / shares.sum())[:-1]


def _sum_of_run(values: np.ndarray, run: np.ndarray, n_runs: int) -> np.ndarray:
    return np.bincount(run, weights=values, minlength=n_runs)


def _uniform_of_pair(rng: np.random.Generator, run: np.ndarray) -> np.ndarray:
    """Return a number from 0 to 1 per event, equal for the two events of a pair."""
    place, _ = place_in_run(run)
    first_of_pair = np.arange(len(run)) - place % 2
    return rng.random(len(run))[first_of_pair]


def _move_into_bursts(
    rng: np.random.Generator, parameters: HomeParameters, activity: np.ndarray, run: np.ndarray,
    time_s: np.ndarray,
) -> None:  # fmt: skip
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
