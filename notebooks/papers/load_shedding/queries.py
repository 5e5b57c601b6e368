"""Queries of the DARLING paper on stocks (A), soccer sensors (B) and buses (C), and streams for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from cepkit.datasets.bars import stock_bars
from cepkit.datasets.city import LINES, bus_positions
from cepkit.datasets.soccer import soccer_sensors
from cepkit.errors import CepError, nearest
from cepkit.language.sequences.construction import sequence_query
from cepkit.language.sequences.patterns import SequenceQuery
from papers.recorded import recorded

VARIABLES = "abcdefgh"
ARTEFACT, PAPER = "artefact", "paper"
EVENT_TYPE = {"stocks": "symbol", "soccer": "sid", "buses": "line"}
# True durations. The artefact calls the window of buses 10^7 ms, but compares it with microseconds. It
# subtracts times of stocks as numbers such as 200802010959, where the next minute is 41 later.
WINDOWS = {
    "stocks": ("5 min", "15 min", "30 min", "60 min", "90 min"),
    "soccer": ("1 ms", "7 ms", "15 ms", "50 ms", "100 ms", "300 ms"),
    "buses": ("5 s", "10 s", "15 s", "30 s", "60 s", "100 s"),
}
STOCKS = ("GOOG", "AAPL", "MSFT", "NFLX", "INTC", "YHOO", "EBAY")
# A goalkeeper and seven others. The artefact's patterns end at 49; its sample file also has 47.
DEFENDERS = (61, 53, 23, 57, 59, 19, 49, 47)
# The eighth line is 27, as in patterns_examples.txt of the artefact. It is the busiest line, not a rare one.
BUSES = ("15", "39", "145", "38", "25", "46", "40", "27")

Types = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class QueryTemplate:
    """A query of the paper with a free length, window and constant."""

    name: str  # name in `QUERIES`
    data: str  # ``"stocks"``, ``"soccer"`` or ``"buses"``
    types: Types  # event types of the longest query, in order
    shortest: int  # least number of event types; the negated type counts
    window: str  # window of the paper's table
    # The readings of the query, and the constant of each. ``"artefact"`` is the text in the authors'
    # repository, ``"paper"`` is table 1.
    constants: dict[str, float]
    # ``conditions(n_types, constant, reading)`` returns the conditions on the variables a, b, c, …
    conditions: Callable[[int, float, str], list[str]]
    # Constants of an experiment that changes the number of partial matches; empty for other queries.
    sweep: tuple[float, ...] = ()
    # repeated, absent: place of the type that repeats, or must not occur
    repeated: int | None = None
    absent: int | None = None

    @property
    def lengths(self) -> range:
        """The possible lengths."""
        return range(self.shortest, len(self.types) + 1)

    @property
    def windows(self) -> tuple[str, ...]:
        """The windows of the paper's sweeps, from short to long."""
        return WINDOWS[self.data]

    def query(
        self,
        length: int | None = None,
        *,
        window: str | None = None,
        constant: float | None = None,
        reading: str = ARTEFACT,
    ) -> SequenceQuery:
        """Return the query."""
        types = self.first_types(length)
        if reading not in self.constants:
            known = ", ".join(map(repr, self.constants))
            raise CepError(f"{self.name}: no reading {reading!r}. Readings: {known}")
        constant = self.constants[reading] if constant is None else constant
        parts = []
        for place, name in enumerate(types):
            kind = name if isinstance(name, int) else f"'{name}'"
            absent, repeated = place == self.absent, place == self.repeated
            parts.append(f"{'!' * absent}{kind}{'+' * repeated} {VARIABLES[place]}{'[]' * repeated}")
        where = " AND ".join(self.conditions(len(types), constant, reading))
        return sequence_query(
            f"PATTERN SEQ({', '.join(parts)})" + (f" WHERE {where}" if where else ""),
            within=self.window if window is None else window,
            order_by="ts",
            event_type=EVENT_TYPE[self.data],
        )

    def first_types(self, length: int | None = None) -> Types:
        """Return the event types of the query of a length; None means the longest."""
        length = len(self.types) if length is None else length
        if length not in self.lengths:
            raise CepError(
                f"{self.name}: length is {length!r}. It must be from {self.shortest} to {len(self.types)}"
            )
        return self.types[:length]


def _neighbours(
    column: str, sign: str, *, factor: bool = True, repeated: int | None = None, absent: int | None = None
) -> Callable[[int, float, str], list[str]]:
    """Return conditions that compare each type with the one before it, or, if that is absent, before that."""
    # The artefact begins with the third type, the paper with the second. The paper compares with ``>``.

    def conditions(n_types: int, constant: float, reading: str) -> list[str]:
        operator = {ARTEFACT: sign, PAPER: ">"}.get(reading, "<")
        written = []
        for place in range(1 if reading == PAPER else 2, n_types):
            before = place - 1 - (absent is not None and place - 1 == absent)
            if place == absent or before < 0:
                continue
            names = [VARIABLES[p] + "[i]" * (p == repeated) for p in (place, before)]
            scaled = f" * {constant:.10g}" if factor else ""
            written.append(f"{names[0]}.{column} {operator} {names[1]}.{column}{scaled}")
        return written

    return conditions


def _and(conditions: Callable[[int, float, str], list[str]], own: str) -> Callable[..., list[str]]:
    """Return the conditions and one more, on the absent type."""
    return lambda n_types, constant, reading: [*conditions(n_types, constant, reading), own]


NEAR_MM = 50_000


def _near(one: str, other: str, reading: str, limit: float = NEAR_MM) -> str:
    """Return a condition on the distance of two sensors: along x in the artefact, in the plane in print."""
    if reading != PAPER:
        return f"abs({one}.x - {other}.x) <= {limit:.10g}"
    squares = " + ".join(
        f"({one}.{axis} - {other}.{axis}) * ({one}.{axis} - {other}.{axis})" for axis in "xy"
    )
    return f"{squares} <= {limit * limit:.12g}"


EXAMPLE = "example"


def _goal(n_types: int, constant: float, reading: str) -> list[str]:
    faster = {ARTEFACT: "a.v > b.v", PAPER: "a.v > c.v", EXAMPLE: "c.v > a.v"}[reading]
    return [_near("a", "b", reading), f"{faster} * {constant:.10g}"]


def _defence(n_types: int, constant: float, reading: str) -> list[str]:
    return [_near(VARIABLES[place], "a", reading, constant) for place in range(1, n_types)]


def _increasing(n_types: int, constant: float, reading: str) -> list[str]:
    # The constant is a factor, so that it can change the number of matches; it is 1 in both texts.
    factor = "" if constant == 1 else f" * {constant:.10g}"
    names = [VARIABLES[place] + "[i]" * (place == 1) for place in range(n_types)]
    first = 1 if reading == PAPER else 2
    return [f"{names[place - 1]}.v{factor} < {names[place]}.v" for place in range(first, n_types)]


def _no_goal(n_types: int, constant: float, reading: str) -> list[str]:
    return [_near("a", "c", reading), f"b.v < {constant:.10g}"]


QUERIES = {
    template.name: template
    for template in (
        QueryTemplate(
            "Q1A", "stocks", STOCKS, 2, "60 min", {ARTEFACT: 1.05, PAPER: 1.05}, _neighbours("volume", "<"),
        ),
        QueryTemplate(
            "Q2A", "stocks", STOCKS, 2, "60 min", {ARTEFACT: 1.05, PAPER: 1.05},
            _neighbours("open", "<", repeated=1), repeated=1,
        ),
        # Prices of these stocks fall along the sequence, so the conditions of both texts rarely hold. The
        # reading "falling" turns them round.
        QueryTemplate(
            "Q3A", "stocks", STOCKS, 3, "60 min", {ARTEFACT: 1.1, PAPER: 1.1, "falling": 1.1},
            _and(_neighbours("open", ">", absent=1), "b.open < 15"), absent=1,
        ),
        QueryTemplate(
            "Q1B", "soccer", (61, 8, 13), 3, "50 ms", {ARTEFACT: 1.5, PAPER: 1.2, EXAMPLE: 1.2}, _goal,
        ),
        QueryTemplate(
            "Q2B", "soccer", DEFENDERS, 2, "50 ms", {ARTEFACT: NEAR_MM, PAPER: NEAR_MM}, _defence,
        ),
        QueryTemplate(
            "Q3B", "soccer", DEFENDERS, 2, "50 ms", {ARTEFACT: 1.0, PAPER: 1.0}, _increasing, repeated=1,
        ),
        QueryTemplate(
            "Q4B", "soccer", (61, 13, 8), 3, "50 ms", {ARTEFACT: 120_000, PAPER: 120_000}, _no_goal, absent=1,
        ),
        QueryTemplate(
            "Q1C", "buses", BUSES, 2, "10 s", {ARTEFACT: 0.5, PAPER: 0.5}, _neighbours("dist", ">"),
        ),
        QueryTemplate(
            "Q2C", "buses", BUSES, 2, "10 s", {ARTEFACT: 0.5, PAPER: 0.5},
            _neighbours("dist", ">", repeated=1), repeated=1,
        ),
        QueryTemplate(
            "Q3C", "buses", BUSES, 3, "10 s", {ARTEFACT: 0.5, PAPER: 0.5},
            _and(_neighbours("dist", ">", absent=1), "b.delay > 200"), absent=1,
        ),
        # Queries of the artefact whose constant changes the number of partial matches.
        QueryTemplate(
            "partial matches A", "stocks", ("AAPL", "MSFT", "INTC"), 3, "60 min", {ARTEFACT: 0},
            lambda n_types, constant, reading: [
                "a.volume > c.volume * 1.03", "b.volume > c.volume", "c.volume > 100000",
                f"b.volume > {constant:.10g}",
            ],
            sweep=(0, 25_000, 50_000, 75_000, 100_000),
        ),
        QueryTemplate(
            "partial matches B", "soccer", (61, 8, 13), 3, "50 ms", {ARTEFACT: 0},
            lambda n_types, constant, reading: [
                _near("a", "c", reading, 100_000), "b.v > c.v", "c.v > 100000", f"b.v > {constant:.10g}",
            ],
            sweep=(0, 53_705, 71_560, 86_259, 100_000),
        ),
        QueryTemplate(
            "partial matches C", "buses", ("145", "15", "39"), 3, "20 s", {ARTEFACT: 0},
            lambda n_types, constant, reading: [
                "a.dist > 0", "b.dist > c.dist", "c.dist > 5356", f"b.dist > {constant:.10g}",
            ],
            sweep=(0, 1309, 2105, 3675, 5356),
        ),
    )
}  # fmt: skip


def find_query(name: str) -> QueryTemplate:
    """Return a query of the paper by its name, such as ``"Q1A"``; raise CepError if there is none."""
    if name not in QUERIES:
        known = ", ".join(QUERIES)
        raise CepError(f"there is no query {name!r}.{nearest(name, QUERIES)} Queries: {known}")
    return QUERIES[name]


def generated_stream(
    data: str, types: Sequence[str | int], n_events: int, *, seed: int = 0, in_play: bool = False
) -> pd.DataFrame:
    """Return a generated stream that has only the events of some types."""
    _check_data(data)
    if data == "stocks":
        return stock_bars(n_events, stocks=list(types), seed=seed, distinct_times=True)
    if data == "soccer":
        frame = soccer_sensors(n_events, sensors=list(types), in_play=in_play, seed=seed)
        return frame.astype(dict.fromkeys("xyz", np.int64))  # squares of distances exceed 32 bits
    if unknown := [name for name in types if name not in LINES]:
        raise CepError(f"there is no bus line {unknown[0]!r}")
    share = sum(LINES[name].reports for name in types) / sum(line.reports for line in LINES.values())
    n_reports = 500 + int(1.3 * n_events / share)
    return _only(bus_positions(n_reports, seed=seed), "line", types).head(n_events)


def recorded_stream(data: str, types: Sequence[str | int], n_events: int | None = None) -> pd.DataFrame:
    """Return a recorded stream that has only the events of some types."""
    frame = recorded(_check_data(data))
    if data == "soccer":
        names = {f"{axis}_mm": axis for axis in "xyz"}
        frame = frame.rename(columns=names).astype(dict.fromkeys("xyz", np.int64))
        frame.insert(0, "ts", (frame["ts_ps"] // 1000).to_numpy().view("datetime64[ns]"))
    if data == "buses":
        frame = frame[frame["ts"] < frame["ts"].iloc[0].normalize() + pd.Timedelta("35 min")]
    own = _only(frame, EVENT_TYPE[data], types)
    found = set(own[EVENT_TYPE[data]])
    if missing := [name for name in types if name not in found]:
        raise MissingTypesError(f"the recorded data {data!r} have no events of the types {missing}")
    if data == "stocks":
        if not own["full_day"].all():
            own = own[own["in_full_universe_window"]].reset_index(drop=True)
        of_minute = own.groupby("ts")
        place = of_minute.cumcount() / of_minute["volume"].transform("size")
        own["ts"] = own["ts"].astype("datetime64[us]") + pd.to_timedelta(
            (place * 60e6).astype(int), unit="us"
        )
    return own if n_events is None else own.head(n_events)


class MissingTypesError(CepError, LookupError):
    """Recorded data have no event of a type that the query needs."""


def _only(frame: pd.DataFrame, column: str, types: Sequence[str | int]) -> pd.DataFrame:
    """Return the rows of some types, with new row numbers and without other categories."""
    own = frame[frame[column].isin(list(types))].reset_index(drop=True)
    if isinstance(own[column].dtype, pd.CategoricalDtype):
        own[column] = own[column].cat.remove_unused_categories()
    return own


def _check_data(data: str) -> str:
    """Return the name in `RECORDED` of the data; raise CepError if there are none."""
    names = {"stocks": "minute bars", "soccer": "soccer", "buses": "buses"}
    if data not in names:
        raise CepError(f"there are no data {data!r}.{nearest(data, names)} Data: {', '.join(names)}")
    return names[data]
