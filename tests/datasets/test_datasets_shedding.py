"""The generators for load shedding against the figures they imitate: G1 (large stocks), G5 and G6."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from cepkit.datasets import bus_positions, soccer_sensors, stock_bars
from cepkit.datasets.bars import BARS_OF_DAY, STOCKS
from cepkit.datasets.city import CENTER, LINES, distance_m
from cepkit.datasets.soccer import BALL, FIRST_PS, HALF_LENGTH, SENSORS, TEAM_A, TEAM_B, WIDTH

SEEDS = [0, 1, 2]

# G1: logarithms of volumes of seven stocks in a day, ranks of volumes, returns of 81 stocks.
G1_LOG_VOLUME_SD = (1.0, 1.8)
G1_RANK_CORRELATION, G1_CORRELATION = 0.46, 0.14
G1_RETURN_SD = (4e-4, 1.4e-3)

# G5: 21 s of three sensors, and speeds in m/s of a tracked match.
G5_BALL_HZ, G5_PLAYER_HZ = 1953, (205, 219)
G5_SHARES = {8: 0.83, 13: 0.09, 61: 0.08}
G5_REST = {"v": 0.12e6, "log_sd": 0.60, "leg_a": 1.4e6, "ball_a": 5.5e6}
G5_SPEED = {
    "field": {0.25: 1.06, 0.5: 1.64, 0.75: 2.91, 0.95: 4.91, 0.99: 6.56},
    "goalkeeper": {0.25: 0.55, 0.5: 0.96, 0.75: 1.37, 0.95: 2.46, 0.99: 3.73},
    "ball": {0.5: 4.21, 0.75: 8.73, 0.95: 16.75, 0.99: 22.72},
}
G5_PERSISTENCE = {"player": 0.80, "ball": 0.40}  # autocorrelation of the speed over 1 s
# Share of the time that the ball is so near a goalkeeper, in metres of a pitch of 105 m; ours has 68 m.
G5_NEAR = {10: 0.038, 20: 0.123, 40: 0.454}

# G6: 10,000 reports of one night, and means of a month.
G6_RATE_HZ, G6_TOP_1, G6_TOP_10 = 12.8, 0.07, 0.46
G6_GAP_S = {0.01: 2, 0.05: 4, 0.25: 18, 0.5: 20, 0.75: 21, 0.95: 25, 0.99: 59}
G6_DELAY_S = {0.05: -854, 0.25: -349, 0.5: -13, 0.75: 0, 0.95: 165}
G6_DIST_M = {0.25: 2300, 0.5: 6743, 0.75: 10693, 0.95: 20901}
G6_AT_STOP, G6_CONGESTION, G6_NO_STOP, G6_NO_PATTERN = 0.307, 0.0036, 0.092, 0.273
G6_DELAY_PERSISTENCE, G6_SPEED = 0.98, 5.0


# ---------------------------------------------------------------- large stocks


@pytest.fixture(scope="module", params=SEEDS)
def bars(request):
    """About 40 days of eight stocks."""
    return stock_bars(200_000, seed=request.param)


def test_bars_have_the_published_means(bars):
    for name, of_stock in bars.groupby("symbol", observed=True):
        stock = STOCKS[name]
        assert of_stock["open"].mean() == pytest.approx(stock.open_mean, rel=0.04)
        # A price takes days to return to its mean, so 40 days say little about its deviation.
        assert stock.open_sd / 2.5 < of_stock["open"].std() < stock.open_sd * 2
        assert of_stock["volume"].mean() == pytest.approx(stock.volume_mean, rel=0.12)
        assert of_stock["volume"].std() == pytest.approx(stock.volume_sd, rel=0.35)
        assert G1_LOG_VOLUME_SD[0] < np.log(of_stock["volume"]).std() < G1_LOG_VOLUME_SD[1]
    n_days = bars["ts"].dt.normalize().nunique()
    assert len(bars) / 8 / n_days == pytest.approx(BARS_OF_DAY, rel=0.03)


def test_stocks_move_together(bars):
    minute = (bars["ts"] - bars["ts"].dt.normalize()).dt.total_seconds() // 60
    session = bars[(minute >= 570) & (minute < 960)]
    pairs = np.triu_indices(8, 1)
    volume = session.pivot(index="ts", columns="symbol", values="volume")
    assert np.median(volume.corr("spearman").to_numpy()[pairs]) == pytest.approx(
        G1_RANK_CORRELATION, abs=0.08
    )
    close = np.log(session.pivot(index="ts", columns="symbol", values="close"))
    returns = close.diff()[close.index.to_series().diff() == pd.Timedelta(minutes=1)]
    assert np.median(returns.corr().to_numpy()[pairs]) == pytest.approx(G1_CORRELATION, abs=0.04)
    assert returns.std().between(*G1_RETURN_SD).all()
    # Whole cents make the returns of SIRI, which costs three dollars, jump back.
    assert returns.drop(columns="SIRI").apply(lambda values: values.autocorr()).abs().max() < 0.08
    zero = (returns.drop(columns="SIRI") == 0).mean()
    assert 0.08 < zero.mean() < 0.26


def test_columns_of_stock_bars():
    frame = stock_bars(5000, stocks=["MSFT", "AAPL"], seed=3)
    assert len(frame) == 5000
    assert not frame.duplicated(["ts", "symbol"]).any()
    assert frame["ts"].dt.day_of_week.max() < 5 and frame["ts"].dt.hour.between(4, 19).all()
    assert (frame["low"] <= frame[["open", "close"]].min(axis=1)).all() and (frame["low"] > 0).all()
    assert (frame["high"] >= frame[["open", "close"]].max(axis=1)).all() and (frame["volume"] > 0).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_the_bars_of_a_stock_do_not_depend_on_the_others(seed):
    alone = stock_bars(300, stocks=["NFLX"], seed=seed)
    among = stock_bars(6000, seed=seed)
    among = among[among["symbol"] == "NFLX"].head(300).reset_index(drop=True)
    days = alone["ts"].max().normalize()
    assert alone["ts"].equals(among["ts"][: len(alone)]) and days >= among["ts"].iloc[0].normalize()


# ---------------------------------------------------------------- soccer


def of_sensor(frame: pd.DataFrame, sensor: int) -> pd.DataFrame:
    return frame[frame["sid"] == sensor].reset_index(drop=True)


@pytest.mark.parametrize("seed", SEEDS)
def test_sensors_at_rest_are_those_of_the_recorded_stream(seed):
    frame = soccer_sensors(50_000, sensors=[61, 8, 13], in_play=False, seed=seed)
    check_rest(frame)
    assert frame["ts_ps"].iloc[0] >= FIRST_PS


def check_rest(frame: pd.DataFrame) -> None:
    """Compare 50,000 events of three sensors at rest with the figures of G5."""
    assert frame["ts_ps"].is_monotonic_increasing and frame["ts_ps"].is_unique
    shares = frame["sid"].value_counts(normalize=True)
    for sensor, share in G5_SHARES.items():
        assert shares[sensor] == pytest.approx(share, abs=0.03)
        own = of_sensor(frame, sensor)
        period_ps = own["ts_ps"].diff().dropna()
        rate = 1e12 / period_ps.median()
        if sensor == BALL:
            assert rate == pytest.approx(G5_BALL_HZ, rel=0.001) and period_ps.max() < 1e9
        else:
            low, high = G5_PLAYER_HZ
            assert low - 1 < rate < high + 1
        assert 50 < (period_ps.quantile(0.75) - period_ps.quantile(0.25)) / 1.35 < 900
        assert own["v"].median() == pytest.approx(G5_REST["v"], rel=0.2)
        assert np.log(own["v"]).std() == pytest.approx(G5_REST["log_sd"], abs=0.1)
        acceleration = G5_REST["ball_a" if sensor == BALL else "leg_a"]
        assert own["a"].mean() == pytest.approx(acceleration, rel=0.25)
        assert 0.7 < own["v"].autocorr() < 0.95 and abs(own["v"].autocorr(50)) < 0.25
        for kind in "va":
            length = np.sqrt((own[[f"{kind}{axis}" for axis in "xyz"]].astype(float) ** 2).sum(axis=1))
            assert length.between(9990, 10_005).all()


def test_the_figures_of_sensors_are_those_of_the_original(reference):
    frame = pd.read_parquet(reference / "data" / "debs2013_mini.parquet")
    check_rest(frame)


@pytest.fixture(scope="module", params=SEEDS)
def match(request):
    """Bodies of players and ball for 20 minutes: speeds in m/s, and places, every 40 ms."""
    from cepkit.datasets import soccer

    rng_match, rng_ball = np.random.default_rng(request.param).spawn(2)
    players = soccer._players(rng_match, 25 * 1200)
    return players, soccer._ball(rng_ball, players)


def speed_of(track) -> np.ndarray:
    return np.hypot(*track.velocity.T)


def autocorrelation(values: np.ndarray, lag: int) -> float:
    return np.corrcoef(values[:-lag], values[lag:])[0, 1]


def test_speeds_in_play_are_those_of_a_tracked_match(match):
    players, ball = match
    speeds = [speed_of(player) for player in players]
    of_role = {
        "goalkeeper": np.concatenate([speeds[0], speeds[8]]),
        "field": np.concatenate([values for p, values in enumerate(speeds) if p % 8]),
        "ball": speed_of(ball),
    }
    for role, quantiles in G5_SPEED.items():
        for q, wanted in quantiles.items():
            assert np.quantile(of_role[role], q) == pytest.approx(wanted, rel=0.35), (role, q)
    persistence = np.mean([autocorrelation(values, 25) for p, values in enumerate(speeds) if p % 8])
    assert persistence == pytest.approx(G5_PERSISTENCE["player"], abs=0.05)
    assert autocorrelation(of_role["ball"], 25) == pytest.approx(G5_PERSISTENCE["ball"], abs=0.1)


def test_the_ball_is_near_a_goalkeeper_as_often_as_in_a_tracked_match(match):
    players, ball = match
    scale = 2 * HALF_LENGTH / 105_000
    for metres, share in G5_NEAR.items():
        near = [(np.hypot(*(ball.place - players[p].place).T) < metres * scale).mean() for p in (0, 8)]
        assert np.mean(near) == pytest.approx(share, abs=0.02 + 0.35 * share)
    carried = np.min([np.hypot(*(ball.place - player.place).T) for player in players], axis=0) < 1
    assert 0.3 < carried.mean() < 0.6


@pytest.mark.parametrize("seed", SEEDS)
def test_columns_of_sensors(seed):
    frame = soccer_sensors(20_000, seed=seed)
    assert len(frame) == 20_000 and set(frame["sid"]) == set(SENSORS) and len(SENSORS) == 37
    assert frame["ts_ps"].is_unique and frame["ts_ps"].is_monotonic_increasing
    assert frame["ts_ps"].min() > 2**53, "picoseconds of the recorded stream are not exact as floats"
    assert str(frame["ts"].dtype) == "datetime64[ns]"
    assert (frame["ts"].astype("int64") == frame["ts_ps"] // 1000).all()
    assert frame["x"].between(-4000, WIDTH + 4000).all()
    assert frame["y"].between(-HALF_LENGTH - 4000, HALF_LENGTH + 4000).all()
    assert all(frame[name].dtype.kind == "i" for name in frame.columns[1:])
    # Goalkeepers are at their ends; sensors of one player are near each other.
    assert of_sensor(frame, 13)["y"].mean() < -15_000 < 15_000 < of_sensor(frame, 61)["y"].mean()
    for player in (*TEAM_A, *TEAM_B):
        left, right = (of_sensor(frame, sensor) for sensor in player[:2])
        # A silent sensor says nothing about the place of its player.
        both = pd.merge_asof(left, right, on="ts_ps", direction="nearest", tolerance=10_000_000_000)
        assert (both["x_x"] - both["x_y"]).abs().max() < 800


@pytest.mark.parametrize("seed", SEEDS)
def test_a_sensor_does_not_depend_on_the_others(seed):
    alone = soccer_sensors(400, sensors=[61], seed=seed)
    among = of_sensor(soccer_sensors(5000, sensors=[61, 8, 13], seed=seed), 61)
    same = alone["ts_ps"].isin(among["ts_ps"])
    assert same[:300].all()


@pytest.mark.parametrize("seed", range(12))
def test_a_sensor_can_be_silent_for_a_second(seed):
    frame = soccer_sensors(20_000, sensors=[53], seed=seed)
    gap_s = frame["ts_ps"].diff().dropna() / 1e12
    # 94 s have two or three holes on average.
    assert (gap_s > 0.1).sum() <= 12 and gap_s.max() < 8
    assert gap_s.median() == pytest.approx(1 / 212, rel=0.05)


# ---------------------------------------------------------------- buses


@pytest.fixture(scope="module", params=SEEDS)
def buses(request):
    return bus_positions(60_000, seed=request.param)


def test_reports_have_the_rate_and_the_shares_of_the_original(buses):
    seconds = (buses["ts"].iloc[-1] - buses["ts"].iloc[0]).total_seconds()
    assert len(buses) / seconds == pytest.approx(G6_RATE_HZ, rel=0.05)
    share = buses["line"].value_counts(normalize=True)
    assert len(share) == len(LINES) == 80
    assert share.iloc[0] == pytest.approx(G6_TOP_1, abs=0.015)
    assert share.iloc[:10].sum() == pytest.approx(G6_TOP_10, abs=0.05)
    gap_s = buses.groupby("vehicle")["ts"].diff().dt.total_seconds()
    for q, wanted in G6_GAP_S.items():
        assert gap_s.quantile(q) == pytest.approx(wanted, abs=1, rel=0.05)
    assert (buses["at_stop"] == 1).mean() == pytest.approx(G6_AT_STOP, abs=0.02)
    assert buses["congestion"].mean() == pytest.approx(G6_CONGESTION, abs=0.0012)
    assert buses["stop"].isna().mean() == pytest.approx(G6_NO_STOP, abs=0.01)
    assert buses["journey_pattern"].isna().mean() == pytest.approx(G6_NO_PATTERN, abs=0.03)


def test_delays_and_distances_are_those_of_the_original(buses):
    for q, wanted in G6_DELAY_S.items():
        assert buses["delay"].quantile(q) == pytest.approx(wanted, abs=220)
    for q, wanted in G6_DIST_M.items():
        assert buses["dist"].quantile(q) == pytest.approx(wanted, rel=0.2)
    of_vehicle = buses.groupby("vehicle")
    varying = of_vehicle["delay"].filter(lambda values: values.std() > 0).index
    planned = buses.loc[varying].groupby("vehicle")["delay"]
    persistence = planned.apply(lambda values: values.astype(float).autocorr()).median()
    assert persistence == pytest.approx(G6_DELAY_PERSISTENCE, abs=0.03)
    step_s = of_vehicle["ts"].diff().dt.total_seconds()
    speed = of_vehicle["dist"].diff().abs() / step_s
    assert speed[speed > 0.05].mean() == pytest.approx(G6_SPEED, rel=0.15)
    for name, of_line in buses.groupby("line", observed=True):
        line = LINES[name]
        if of_line["vehicle"].nunique() >= 5:
            assert of_line["dist"].mean() == pytest.approx(line.dist_mean, rel=0.3)
            assert of_line["dist"].std() == pytest.approx(line.dist_sd, rel=0.25)


def test_delays_of_lines_have_the_published_means():
    frames = [bus_positions(8000, n_vehicles=1000, seed=seed) for seed in range(10)]
    delay = pd.concat(frames).groupby("line", observed=True)["delay"]
    for name in ("15", "39", "145", "38", "25", "46", "40", "27", "13", "66"):
        line, own = LINES[name], delay.get_group(name)
        # A sixth of the vehicles reports no delay at all.
        assert own.mean() == pytest.approx(0.83 * line.delay_mean, abs=0.3 * line.delay_sd)
        assert own.std() == pytest.approx(line.delay_sd, rel=0.3)


def test_columns_of_buses(buses):
    assert buses["ts"].is_monotonic_increasing and str(buses["ts"].dtype) == "datetime64[us]"
    assert (buses["ts"].dt.microsecond == 0).all()
    same = buses["ts"].diff().dt.total_seconds() == 0
    assert same.mean() > 0.85
    assert buses.duplicated(["line", "ts"], keep=False).mean() == pytest.approx(0.24, abs=0.06)
    assert buses.groupby("vehicle")["line"].nunique().max() == 1
    assert (buses["direction"] == 0).all() and buses["dist"].min() >= 0
    lon, lat = buses["lon"].to_numpy(), buses["lat"].to_numpy()
    assert distance_m(lon, lat) == pytest.approx(buses["dist"].to_numpy())


def test_distances_are_those_of_the_original(reference):
    frame = pd.read_parquet(reference / "data" / "dublin_bus_20130131.parquet")
    assert distance_m(frame["lon"].to_numpy(), frame["lat"].to_numpy()) == pytest.approx(
        frame["dist"].to_numpy(float), abs=1.0
    )
    assert distance_m(np.array([CENTER[0]]), np.array([CENTER[1]])) == pytest.approx([0.0])


def test_the_figures_of_buses_are_those_of_the_original(reference):
    frame = pd.read_parquet(reference / "data" / "dublin_bus_20130131.parquet")
    share = frame["line"].value_counts(normalize=True)
    assert share.iloc[0] == pytest.approx(G6_TOP_1, abs=0.005)
    assert share.iloc[:10].sum() == pytest.approx(G6_TOP_10, abs=0.005)
    for q, wanted in G6_DELAY_S.items():
        assert frame["delay"].quantile(q) == pytest.approx(wanted, abs=1)
    for q, wanted in G6_DIST_M.items():
        assert frame["dist"].quantile(q) == pytest.approx(wanted, rel=0.01)
