"""The generators against the figures they imitate: G8 (ABC stream) and G9 (traffic of a city)."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest

from cepkit.datasets.city import COUNT_OF_HOUR, N_SENSORS, traffic
from cepkit.datasets.constant_rate import abc_stream, poisson_types

# G9, two months of 449 sensors.
G9_QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
G9_COUNT = (0, 0, 1, 4, 15, 28)
G9_SPEED = (13, 30, 43, 57, 83, 105)
G9_SENSOR_MEAN_COUNT = {0.05: 0.0896, 0.5: 1.915, 0.95: 10.6}
G9_SENSOR_MEAN_SPEED = {0.05: 21.9, 0.5: 42.7, 0.95: 77.8}
G9_COUNT_ZERO, G9_SPEED_ZERO = 0.458, 0.0238
G9_UNCHANGED, G9_UNCHANGED_EMPTY, G9_UNCHANGED_BUSY = 0.536, 0.96, 0.19
G9_LAG1_SPEED, G9_LAG1_COUNT = 0.758, 0.721
G9_PRESENT, G9_LATE = 0.927, 0.223

SEEDS = [0, 1, 2]


# ---------------------------------------------------------------- ABC


def run_lengths(frame):
    codes = frame["type"].cat.codes.to_numpy()
    starts = np.flatnonzero(np.diff(codes, prepend=-1))
    return np.diff([*starts, len(codes)])


def test_columns_of_the_abc_stream():
    frame = abc_stream(1000, seed=4)
    assert list(frame) == ["ts", "type", "x", "key"]
    assert list(frame["type"].cat.categories) == ["A", "B", "C"]
    assert frame["ts"].iloc[0] == pd.Timestamp("2024-01-01")
    assert (frame["ts"].diff().dropna() == pd.Timedelta(seconds=1)).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_attributes_do_not_depend_on_the_types(seed):
    frame, sticky = abc_stream(500, seed=seed), abc_stream(500, seed=seed, stay=0.9)
    assert frame["x"].equals(sticky["x"]) and not frame["type"].equals(sticky["type"])


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("n_types, stay", [(3, 0.0), (3, 0.5), (3, 0.8), (8, 0.0), (8, 0.9), (1, 0.3)])
def test_types_are_uniform_and_come_again_as_often_as_told(seed, n_types, stay):
    frame = abc_stream(100_000, n_types=n_types, stay=stay, seed=seed)
    shares = frame["type"].value_counts(normalize=True)
    assert shares.to_numpy() == pytest.approx(np.full(n_types, 1 / n_types), abs=0.015)
    again = stay + (1 - stay) / n_types
    if n_types > 1:
        assert run_lengths(frame).mean() == pytest.approx(1 / (1 - again), rel=0.05)
    else:
        assert run_lengths(frame).tolist() == [100_000]


def test_attributes_are_uniform_in_their_ranges():
    ranges = {"low": (-5, 5), "one": (7, 7), "wide": (0, 10**12)}
    frame = abc_stream(50_000, attributes=ranges, seed=1)
    assert list(frame) == ["ts", "type", *ranges]
    for name, (low, high) in ranges.items():
        assert low <= frame[name].min() and frame[name].max() <= high
        assert frame[name].mean() == pytest.approx((low + high) / 2, abs=0.02 * (high - low))
    assert set(frame["low"]) == set(range(-5, 6))


# ---------------------------------------------------------------- traffic


@pytest.fixture(scope="module", params=SEEDS)
def days(request):
    """Six days of all sensors, 0.7 million reports."""
    return traffic(6 * 288, seed=request.param)


def figures(frame: pd.DataFrame, n_rounds: int) -> dict:
    """Return the figures of G9 that a feed has."""
    ordered = frame.sort_values(["sensor", "ts"], kind="stable")
    of_sensor = ordered.groupby("sensor")
    before = of_sensor.shift()
    follows = (ordered["ts"] - before["ts"]) == pd.Timedelta(minutes=5)
    unchanged = (ordered["avg_speed"] == before["avg_speed"])[follows]
    empty = (ordered["vehicle_count"] == 0)[follows]
    means = of_sensor[["avg_speed", "vehicle_count"]].mean()
    return {
        "count": frame["vehicle_count"].quantile(G9_QUANTILES).tolist(),
        "speed": frame["avg_speed"].quantile(G9_QUANTILES).tolist(),
        "mean count": {q: means["vehicle_count"].quantile(q) for q in G9_SENSOR_MEAN_COUNT},
        "mean speed": {q: means["avg_speed"].quantile(q) for q in G9_SENSOR_MEAN_SPEED},
        "count zero": (frame["vehicle_count"] == 0).mean(),
        "speed zero": (frame["avg_speed"] == 0).mean(),
        "unchanged": [unchanged.mean(), unchanged[empty].mean(), unchanged[~empty].mean()],
        "lag 1 speed": correlation_of_sensors(ordered["sensor"], ordered["avg_speed"], before["avg_speed"]),
        "lag 1 count": correlation_of_sensors(
            ordered["sensor"], ordered["vehicle_count"], before["vehicle_count"]
        ),
        "late": (frame["ts"] < frame["ts"].cummax()).mean(),
        "present": len(frame) / (n_rounds * frame["sensor"].nunique()),
        "hours": frame.groupby(frame["ts"].dt.hour)["vehicle_count"].mean().to_numpy(),
    }


def correlation_of_sensors(sensor: pd.Series, now: pd.Series, before: pd.Series) -> float:
    """Return the median over the sensors of the correlation of two columns."""
    x, y = (values[before.notna()] for values in (now, before))
    x, y = (values - values.groupby(sensor).transform("mean") for values in (x, y))
    xy, xx, yy = (values.groupby(sensor).sum() for values in (x * y, x * x, y * y))
    return float((xy / np.sqrt(xx * yy)).median())


def check_figures(found: dict) -> None:
    """Compare figures of a feed with those of G9."""
    for got, wanted in zip(found["count"], G9_COUNT, strict=True):
        assert got == pytest.approx(wanted, abs=1 + 0.15 * wanted)
    for got, wanted in zip(found["speed"], G9_SPEED, strict=True):
        assert got == pytest.approx(wanted, abs=5)
    for q, wanted in G9_SENSOR_MEAN_COUNT.items():
        assert found["mean count"][q] == pytest.approx(wanted, rel=0.2)
    for q, wanted in G9_SENSOR_MEAN_SPEED.items():
        assert found["mean speed"][q] == pytest.approx(wanted, abs=6)
    assert found["count zero"] == pytest.approx(G9_COUNT_ZERO, abs=0.04)
    assert found["speed zero"] == pytest.approx(G9_SPEED_ZERO, abs=0.01)
    wanted = [G9_UNCHANGED, G9_UNCHANGED_EMPTY, G9_UNCHANGED_BUSY]
    assert found["unchanged"] == pytest.approx(wanted, abs=0.03)
    assert found["lag 1 speed"] == pytest.approx(G9_LAG1_SPEED, abs=0.06)
    assert found["lag 1 count"] == pytest.approx(G9_LAG1_COUNT, abs=0.06)
    assert found["late"] == pytest.approx(G9_LATE, abs=0.015)
    assert found["present"] == pytest.approx(G9_PRESENT, abs=0.02)
    assert found["hours"] == pytest.approx(np.array(COUNT_OF_HOUR), rel=0.15, abs=0.05)


def test_columns_of_traffic():
    frame = traffic(20, seed=4)
    assert frame["sensor"].nunique() == N_SENSORS and frame["sensor"].between(100_000, 999_999).all()
    assert (frame["avg_speed"] >= 0).all() and (frame["vehicle_count"] >= 0).all()
    assert not frame.duplicated(["sensor", "ts"]).any()
    assert set(frame["ts"].dt.minute % 5) == {0} and set(frame["ts"].dt.second) == {0}


@pytest.mark.parametrize("seed", SEEDS)
def test_another_seed_has_other_sensors(seed):
    frame, other = (traffic(30, n_sensors=20, seed=own) for own in (seed, seed + 1))
    assert set(frame["sensor"]).isdisjoint(other["sensor"])


def test_traffic_has_the_figures_of_the_city(days):
    check_figures(figures(days, 6 * 288))


def test_late_reports_are_one_round_late_and_of_sensors_that_often_are(days):
    newest = days["ts"].cummax()
    late = days["ts"] < newest
    assert set((newest - days["ts"])[late]) == {pd.Timedelta(minutes=5)}
    of_sensor = late.groupby(days["sensor"]).mean()
    assert (of_sensor == 0).mean() == pytest.approx(0.4, abs=0.02) and of_sensor.max() > 0.6


def test_the_figures_are_those_of_the_original(reference):
    frame = pd.read_parquet(reference / "data" / "aarhus_traffic.parquet")
    n_rounds = frame["ts"].nunique()
    check_figures(figures(frame, n_rounds))


# ---------------------------------------------------------------- independent types


@pytest.mark.parametrize("seed", SEEDS)
def test_independent_types_come_by_poisson_processes(seed):
    rates = {"A": 2.0, "rare": 0.5, "none": 0.0}
    frame = poisson_types(rates, 4000.0, seed, n_keys=3)
    pd.testing.assert_frame_equal(frame, poisson_types(rates, 4000.0, seed, n_keys=3))
    assert frame["ts"].is_monotonic_increasing and list(frame["type"].cat.categories) == list(rates)
    assert [str(frame[name].dtype) for name in ("ts", "x", "key")] == ["datetime64[us]", "int64", "int64"]
    assert frame["ts"].iloc[-1] < pd.Timestamp("2024-01-01") + pd.Timedelta(4000, "s")
    assert not (frame["type"] == "none").any()
    for name, rate in rates.items():
        gaps = frame.loc[frame["type"] == name, "ts"].diff().dropna().dt.total_seconds()
        if rate:
            # Exponential gaps: mean and standard deviation are the same; 2000 to 8000 of them.
            assert gaps.mean() == pytest.approx(1 / rate, rel=0.1)
            assert gaps.std() == pytest.approx(1 / rate, rel=0.1)
    assert frame["key"].value_counts(normalize=True).tolist() == pytest.approx([1 / 3] * 3, abs=0.03)
    # The sum of two values, modulo 1000, is below 1000 s for a share s, whatever one of them is.
    x = frame["x"].to_numpy()
    for s, first in itertools.product((0.1, 0.5), (x < 300, x >= 300)):
        holds = (x[:-1] + x[1:]) % 1000 < 1000 * s
        assert holds[first[:-1]].mean() == pytest.approx(s, abs=0.04)
