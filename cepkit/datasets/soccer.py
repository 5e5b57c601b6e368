"""Seeded positions of the sensors of a soccer match, as in the DEBS 2013 stream; independent of patterns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from cepkit.datasets.trades import check_count, steady
from cepkit.errors import CepError
from cepkit.values import dataclass

BALL = 8
# Sensors of the players: the legs, and for goalkeepers also the arms. The first player is the goalkeeper.
# Source: datasets/original/metadata.txt of github.com/polimi-mt-acg/DEBS-2013-soccer-monitoring.
TEAM_A = ((13, 14, 97, 98), (47, 16), (49, 88), (19, 52), (53, 54), (23, 24), (57, 58), (59, 28))
TEAM_B = ((61, 62, 99, 100), (63, 64), (65, 66), (67, 68), (69, 38), (71, 40), (73, 74), (75, 44))
SENSORS = (BALL, *(sensor for player in (*TEAM_A, *TEAM_B) for sensor in player))

# Measured on 21 s of the recorded stream: rates in Hz, and positions are in mm.
BALL_HZ, PLAYER_HZ = 1953.1, (205.0, 219.0)
JITTER_PS = 300.0
WIDTH, HALF_LENGTH = 52_483.0, 33_965.0  # x runs across the pitch, y from goal to goal
FIRST_PS = 10_634_757_171_903_878
# Median speeds in m/s, and how much the speed now says about that a second later. They are those of a tracked
# match of 2019, in which players have one position each.
PLAYER_SPEED, GOALKEEPER_SPEED = 1.64, 0.96
# Speeds of a sensor on a resting leg or ball, in m/s, and the median accelerations, in m/s2.
REST_SPEED, LEG_ACCELERATION, BALL_ACCELERATION = 0.12, 1.4, 5.5

# Found by trial, so that the figures in tests/datasets/test_datasets_shedding.py hold.
_GRID_HZ = 25
_STEADY_S, _PACE_S = 12.0, 30.0  # relaxation of a player's velocity and of the pace
_PACE_SPREAD, _GOALKEEPER_SPREAD = 0.42, 0.45  # of the logarithm of the pace
_SPREAD_X, _SPREAD_Y, _SPREAD_GOALKEEPER = 7.5, 14.0, 3.0  # metres around the home of a player
_REST_SHARE, _REST_MEAN_S, _ONE_TOUCH = 0.06, 8.0, 0.5
_CARRY_MEAN_S = 3.5
_FLIGHT_SPEED, _FLIGHT_SPREAD = 10.0, 0.47
_REACH_M = 30.0  # how far a pass goes
_HOLES_PER_S, _HOLE_S = 1 / 40, 0.8


@dataclass(frozen=True, slots=True)
class _Track:
    """Position and velocity of a body over time: metres, arrays of shape (n_steps, 2)."""

    place: np.ndarray
    velocity: np.ndarray


def soccer_sensors(
    n_events: int, *, sensors: Sequence[int] = SENSORS, in_play: bool = True, seed: int = 0
) -> pd.DataFrame:
    """Return the events of sensors in the shoes of players, on the arms of goalkeepers, and in the ball.

    Parameters
    ----------
    n_events : int
        Number of events, at least 0. All sensors together send about 9,500 in a second.
    sensors : sequence of int
        Numbers in `SENSORS`. The ball is 8. The left leg of goalkeeper A is 13, that of goalkeeper B is 61.
    in_play : bool
        Whether the match runs. If False, the players wait near the halfway line, and the ball rests beside
        the pitch, as before the kick-off.
    seed : int
        Seed, at least 0. The same arguments give the same frame.

    Returns
    -------
    pandas.DataFrame
        Sorted by time. Columns ``ts`` (datetime64[ns], no zone, from an arbitrary day of 1970), ``sid``
        (int16, the sensor), ``ts_ps`` (int64, the same time in picoseconds; all are different), ``x``, ``y``,
        ``z`` (int32, mm), ``v`` (int32, um/s), ``a`` (int32, um/s2), and the directions ``vx``, ``vy``,
        ``vz``, ``ax``, ``ay``, ``az`` (int16, 10,000 is one). ``x`` runs across the pitch from 0 to 52,483,
        ``y`` from the goal of team A at -33,965 to the goal of team B at 33,965.

    Raises
    ------
    CepError
        If an argument is out of range, or a sensor is unknown.

    Notes
    -----
    O(n_events) time and memory, and 25 steps per second of the match.

    Source: Mutschler, Ziekow, Jerzak, "The DEBS 2013 grand challenge", DEBS 2013: 8 players per team with
    sensors at 200 Hz, and a ball at 2,000 Hz. Rates, jitter and speeds at rest follow 21 s of the recorded
    stream. Speeds in play follow an optically tracked match.
    Differs: a player moves around a home place at a changing pace, without tactics. The ball is carried,
    passed or rests. One of the four balls plays.

    Examples
    --------
    >>> frame = soccer_sensors(1000, sensors=[61, 8, 13], seed=1)
    >>> int((frame["sid"] == 8).sum()), frame["ts_ps"].is_unique
    (824, True)
    """
    check_count("soccer_sensors: n_events", n_events, 0)
    check_count("soccer_sensors: seed", seed, 0)
    for sensor in sensors:
        if sensor not in SENSORS:
            names = ", ".join(map(str, SENSORS))
            raise CepError(f"soccer_sensors: no sensor {sensor!r}. Sensors: {names}")
    if not sensors or len(set(sensors)) < len(sensors):
        raise CepError("soccer_sensors: sensors must name at least one sensor, and each once")
    rng_rate, rng_match, rng_ball = np.random.default_rng(seed).spawn(3)
    low, high = PLAYER_HZ
    rate_of_sensor = dict(zip(SENSORS, (low + (high - low) * rng_rate.random(len(SENSORS))), strict=True))
    rate_of_sensor[BALL] = BALL_HZ
    # Holes take at most a tenth of the events of a stream that is not short.
    seconds = 1.12 * n_events / sum(rate_of_sensor[sensor] for sensor in sensors) + 2.5
    n_steps = int(seconds * _GRID_HZ) + 2
    players = _players(rng_match, n_steps) if in_play else _waiting(rng_match, n_steps)
    resting = _Track(np.tile([-7.159, -9.407], (n_steps, 1)), np.zeros((n_steps, 2)))
    ball = _ball(rng_ball, players) if in_play else resting
    body_of_sensor = {
        sensor: (player, place) for player, legs in enumerate((*TEAM_A, *TEAM_B))
        for place, sensor in enumerate(legs)
    }  # fmt: skip
    parts = []
    for sensor in sorted(sensors):
        rng = np.random.default_rng([seed, sensor])  # the same events whichever sensors are named
        time_ps = _times(rng, rate_of_sensor[sensor], seconds, holes=sensor != BALL)
        if sensor == BALL:
            part = _ball_sensor(rng, ball, time_ps / 1e12)
        else:
            player, place = body_of_sensor[sensor]
            part = _body_sensor(rng, players[player], time_ps / 1e12, place)
        parts.append({"sid": np.full(len(time_ps), sensor), "ts_ps": FIRST_PS + time_ps, **part})
    return _frame(parts, n_events)


def _frame(parts: list[dict[str, np.ndarray]], n_events: int) -> pd.DataFrame:
    """Return the earliest readings of all sensors in order of time, no two of them at the same time."""
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    order = np.argsort(columns["ts_ps"], kind="stable")[:n_events]  # the earliest events
    columns = {name: values[order] for name, values in columns.items()}
    # Equal times become different ones: each is at least one picosecond after the one before.
    number = np.arange(len(order))
    columns["ts_ps"] = np.maximum.accumulate(columns["ts_ps"] - number) + number
    small = dict.fromkeys(("sid", "vx", "vy", "vz", "ax", "ay", "az"), np.int16)
    return pd.DataFrame(
        {
            "ts": (columns["ts_ps"] // 1000).view("datetime64[ns]"),
            "sid": columns["sid"].astype(np.int16),
            "ts_ps": columns["ts_ps"],
            **{
                name: np.rint(values).astype(small.get(name, np.int32))
                for name, values in columns.items()
                if name not in ("sid", "ts_ps")
            },
        }
    )


def _times(rng: np.random.Generator, rate_hz: float, seconds: float, *, holes: bool) -> np.ndarray:
    """Return the times of a sensor in picoseconds: a constant period with jitter, and rare holes."""
    period = 1e12 / rate_hz
    n = int(seconds * rate_hz)
    times = (rng.random() + np.arange(n)) * period + JITTER_PS * rng.standard_normal(n)
    keeps = np.ones(n, bool)
    for _ in range(rng.poisson(seconds * _HOLES_PER_S) if holes else 0):
        begin = rng.random() * seconds * 1e12
        keeps &= (times < begin) | (times > begin + rng.exponential(_HOLE_S) * 1e12)
    return np.sort(np.maximum(0, times[keeps]).astype(np.int64))


# ---------------------------------------------------------------- bodies, in metres, every 40 ms


def _homes() -> np.ndarray:
    """Return the places around which players move: goalkeeper, three defenders, three in midfield, one."""
    across = np.array([26.2, 13.0, 26.2, 39.5, 13.0, 26.2, 39.5, 26.2])
    along = np.array([-30.5, -17.0, -19.0, -17.0, -3.0, -5.0, -3.0, 9.0])
    return np.concatenate([np.stack([across, along], axis=1), np.stack([across, -along], axis=1)])


def _players(rng: np.random.Generator, n_steps: int) -> list[_Track]:
    """Return the tracks of 16 players: a pull to their home, a friction, random pushes, and a pace."""
    homes = _homes()
    is_goalkeeper = np.arange(len(homes)) % 8 == 0
    speed = np.where(is_goalkeeper, GOALKEEPER_SPEED, PLAYER_SPEED)[:, None]
    # The median of a Rayleigh distribution is 1.177 standard deviations.
    sd = speed / 1.177 * np.ones(2)
    spread = np.where(is_goalkeeper[:, None], _SPREAD_GOALKEEPER, [_SPREAD_X, _SPREAD_Y])
    pull = (sd / spread) ** 2
    dt = 1 / _GRID_HZ
    log_pace = steady(rng, (n_steps, len(homes)), np.exp(-dt / _PACE_S))
    pace = np.exp(log_pace * np.where(is_goalkeeper, _GOALKEEPER_SPREAD, _PACE_SPREAD))[:, :, None]
    push = rng.standard_normal((n_steps, len(homes), 2)) * sd * np.sqrt(2 / _STEADY_S)
    # The way is that of a steady player whose clock runs at the pace.
    away = rng.standard_normal((len(homes), 2)) * spread
    velocity = rng.standard_normal((len(homes), 2)) * sd
    place, moving = np.empty(push.shape), np.empty(push.shape)
    for k in range(n_steps):
        step = dt * pace[k]
        velocity = velocity - step * (velocity / _STEADY_S + pull * away) + push[k] * np.sqrt(step)
        away = away + step * velocity
        place[k], moving[k] = homes + away, velocity * pace[k]
    # Nobody runs far from the pitch.
    place[:, :, 0] = np.clip(place[:, :, 0], -2.0, WIDTH / 1000 + 2.0)
    place[:, :, 1] = np.clip(place[:, :, 1], -HALF_LENGTH / 1000 - 1.0, HALF_LENGTH / 1000 + 1.0)
    return [_Track(place[:, p], moving[:, p]) for p in range(len(homes))]


def _waiting(rng: np.random.Generator, n_steps: int) -> list[_Track]:
    """Return the tracks of players that wait near the halfway line."""
    tracks = []
    for player in range(16):
        home = np.array([25.0 + 3.0 * rng.random(), -6.5 + 6.5 * rng.random()])
        sway = 0.08 * steady(rng, (n_steps, 2), np.exp(-1 / _GRID_HZ / 20.0))
        home[1] = min(home[1], 0.0) if player < 8 else home[1] + 0.5
        tracks.append(_Track(home + sway, np.zeros((n_steps, 2))))
    return tracks


def _ball(rng: np.random.Generator, players: list[_Track]) -> _Track:
    """Return the track of the ball: players carry it and pass it, and sometimes it rests."""
    n_steps = len(players[0].place)
    place = np.empty((n_steps, 2))
    k, owner = 0, int(rng.integers(16))
    while k < n_steps:
        chance = rng.random()
        rests = chance < _REST_SHARE
        lasts = rng.exponential(_REST_MEAN_S if rests else _CARRY_MEAN_S)
        if chance > 1 - _ONE_TOUCH:  # the player sends the ball on at once
            lasts = 0.0
        end = min(n_steps, k + 1 + int(lasts * _GRID_HZ))
        place[k:end] = players[owner].place[k] if rests else players[owner].place[k:end]
        k, here = end, place[end - 1]
        if k >= n_steps:
            break
        now = np.array([track.place[k] for track in players])
        away = np.hypot(*(now - here).T)
        weight = np.exp(-away / _REACH_M) * (away > 2.0)
        weight *= np.where((np.arange(16) < 8) == (owner < 8), 2.0, 1.0)
        weight[[0, 8]] *= 0.45  # few passes go to goalkeepers
        owner = int(rng.choice(16, p=weight / weight.sum()))
        speed = _FLIGHT_SPEED * np.exp(_FLIGHT_SPREAD * rng.standard_normal())
        n = max(2, int(away[owner] / speed * _GRID_HZ))
        end = min(n_steps, k + n)
        goal = players[owner].place[min(n_steps - 1, k + n)]
        # The ball slows down: it has three quarters of its way after six tenths of the time.
        part = (1 + np.arange(end - k)) / n
        part = part * (1.45 - 0.45 * part)
        place[k:end] = here + part[:, None] * (goal - here)
        k = end
    velocity = np.gradient(place, 1 / _GRID_HZ, axis=0)
    return _Track(place, velocity)


# ---------------------------------------------------------------- sensors, in mm and um


def _smooth(rng: np.random.Generator, n: int, persistence: float) -> np.ndarray:
    """Return standard normal noise of shape (n, 3), which decays by ``persistence`` per step."""
    kernel = persistence ** np.arange(60)
    kernel /= np.sqrt((kernel**2).sum())
    return np.stack([np.convolve(rng.standard_normal(n + 59), kernel, "valid") for _ in range(3)], axis=1)


def _at(track: _Track, seconds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the positions and velocities at some times, shape (n, 3)."""
    grid = np.arange(len(track.place)) / _GRID_HZ
    flat = np.zeros(len(seconds))
    place = np.stack([np.interp(seconds, grid, track.place[:, i]) for i in range(2)] + [flat], axis=1)
    velocity = np.stack([np.interp(seconds, grid, track.velocity[:, i]) for i in range(2)] + [flat], axis=1)
    return place, velocity


def _body_sensor(
    rng: np.random.Generator, track: _Track, seconds: np.ndarray, place: int
) -> dict[str, np.ndarray]:
    """Return the columns of a sensor on a leg (place 0 or 1) or an arm (2 or 3)."""
    position, velocity = _at(track, seconds)
    speed = np.hypot(velocity[:, 0], velocity[:, 1])
    ahead = velocity / np.maximum(speed, 1e-6)[:, None]
    # A leg swings around the body: it rests while the other one goes ahead.
    stride = 2 * np.pi * np.cumsum((0.7 + 0.35 * speed) * np.diff(seconds, prepend=seconds[:1]))
    swing = 0.5 * np.cos(stride + np.pi * (place % 2)) * (1.0 if place < 2 else 0.5)
    side = np.array([[-0.12, 0.0, 0.0], [0.12, 0.0, 0.0], [-0.3, 0.0, 1.0], [0.3, 0.0, 1.0]])[place]
    height = 0.1 * np.abs(swing) * np.minimum(1.0, speed)
    position = position + side + ahead * (0.25 * swing * np.minimum(1.0, speed / 2))[:, None]
    position[:, 2] += height
    velocity = velocity * (1 + swing)[:, None]
    return _columns(rng, position, velocity, LEG_ACCELERATION, 0.83)


def _ball_sensor(rng: np.random.Generator, track: _Track, seconds: np.ndarray) -> dict[str, np.ndarray]:
    position, velocity = _at(track, seconds)
    position[:, 2] += 0.08 + 0.01 * np.hypot(velocity[:, 0], velocity[:, 1]) ** 1.5
    return _columns(rng, position, velocity, BALL_ACCELERATION, 0.9)


def _columns(
    rng: np.random.Generator, position: np.ndarray, velocity: np.ndarray, acceleration: float,
    persistence: float,
) -> dict[str, np.ndarray]:  # fmt: skip
    """Return the columns of a sensor from metres: with noise, and speeds apart from their directions."""
    n = len(position)
    loud = np.exp(0.35 * _smooth(rng, n, 0.97)[:, :1])
    # The median length of three standard normal values is 1.538.
    velocity = velocity + REST_SPEED / 1.538 * loud * _smooth(rng, n, persistence)
    pushed = acceleration / 1.538 * np.exp(0.3 * _smooth(rng, n, 0.97)[:, :1]) * _smooth(rng, n, persistence)
    position = position + 0.006 * _smooth(rng, n, 0.97)
    v, a = np.linalg.norm(velocity, axis=1), np.linalg.norm(pushed, axis=1)
    columns = {name: 1e3 * position[:, i] for i, name in enumerate("xyz")}
    columns |= {"v": 1e6 * v, "a": 1e6 * a}
    columns |= {f"v{name}": 9999 * velocity[:, i] / np.maximum(v, 1e-9) for i, name in enumerate("xyz")}
    columns |= {f"a{name}": 9999 * pushed[:, i] / np.maximum(a, 1e-9) for i, name in enumerate("xyz")}
    return columns
