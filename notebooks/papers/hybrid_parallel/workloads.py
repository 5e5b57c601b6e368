"""Events and queries for the experiments of the HYPERSONIC paper: stocks, sensors, and Poisson streams."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from cepkit.compile.sequence_program import SequenceProgram
from cepkit.datasets.bars import BarParameters, minute_bars
from cepkit.datasets.constant_rate import poisson_types
from cepkit.datasets.smart_home import HomeParameters, smart_home
from cepkit.errors import CepError
from cepkit.events import Events
from cepkit.frames.building import build_events
from cepkit.frames.pandas import PandasSource
from cepkit.planning.plans import compile_checked
from cepkit.planning.queries import Arguments, as_query
from papers.recorded import has_recorded, recorded

PATTERNS = ("SEQ", "Kleene")
VARIABLES = "abcdefgh"
REPEATED = 3  # the component that is a loop in "Kleene"
CHANGE, CORRELATION, SENSORS = "stocks, price change", "stocks, correlation", "sensors"
HISTORY = 20  # earlier prices of an event, as in the paper
LEAST_CORRELATION = 0.5


@dataclass(frozen=True, eq=False)
class Workload:
    """Events, and a family of patterns to search in them."""

    name: str  # name of the stream and its condition, such as ``"sensors"``
    frame: pd.DataFrame  # events with ``ts`` and the columns below
    event_type: str  # column of event types
    types: tuple[str, ...]  # event types of the longest pattern, in order; at most 8
    value: str  # column that conditions compare
    slack: float  # constant of the condition
    windows_min: tuple[float, ...]  # windows in minutes. Sweeps over other parameters use the third.
    # Condition on neighbours a and b. ``"difference"``: ``a.value - b.value < slack``. ``"sum"``: ``(a.value
    # + b.value) % 1000 < slack``, which is true for a fixed share of pairs, independently of other pairs.
    # ``"corr"``: ``corr(a.history, b.history) > slack``.
    condition: str = "difference"
    repeated: int = REPEATED  # component that is a loop in ``"Kleene"``, from 0

    def query(self, window_min: float, *, length: int | None = None, pattern: str = "SEQ") -> str:
        """Return the text of a query."""
        length = len(self.types) if length is None else length
        least = self.repeated + 1 if pattern == "Kleene" else 2
        if pattern not in PATTERNS or not least <= length <= len(self.types):
            raise CepError(
                f"workload {self.name!r}: no pattern {pattern!r} of {length} components. There are "
                f"{list(PATTERNS)} of {least} to {len(self.types)}"
            )
        loop = self.repeated if pattern == "Kleene" else -1
        parts = [
            f"'{kind}'{'+' * (c == loop)} {VARIABLES[c]}{'[]' * (c == loop)}"
            for c, kind in enumerate(self.types[:length])
        ]
        conditions = []
        for c in range(length - 1):
            one, other = (VARIABLES[c], VARIABLES[c + 1])
            one, other = one + "[LEN]" * (c == loop), other + "[1]" * (c + 1 == loop)
            conditions.append(self._condition(one, other))
        if loop >= 0:
            conditions.append(self._condition(VARIABLES[loop] + "[i-1]", VARIABLES[loop] + "[i]"))
        where = " AND ".join(conditions)
        return f"PATTERN SEQ({', '.join(parts)}) WHERE {where} WITHIN {window_min * 60:g} s"

    def _condition(self, one: str, other: str) -> str:
        if self.condition == "corr":
            return f"corr({one}.history, {other}.history) > {self.slack}"
        one, other = f"{one}.{self.value}", f"{other}.{self.value}"
        if self.condition == "sum":
            return f"({one} + {other}) % 1000 < {self.slack}"
        return f"{one} - {other} < {self.slack}"


def poisson(
    *, rate: float = 1.0, duration_s: float = 3000.0, selectivity: float = 0.3, seed: int = 7
) -> Workload:
    """Return a workload of four independent event types, as cost models assume."""
    events = poisson_types(dict.fromkeys("ABCD", rate), duration_s, seed)
    slack = round(1000 * selectivity)
    return Workload("Poisson", events, "type", tuple("ABCD"), "x", slack, (5 / 60, 8 / 60, 10 / 60), "sum")


def stocks(*, n_symbols: int = 40, n_days: int = 2, n_types: int = 6, seed: int = 7) -> Workload:
    """Return a workload of minute bars. Types are the shares with most bars, and conditions compare changes.

    Source: HYPERSONIC, section VII: the change since the last price, compared with that of the other share.
    Differs: fewer shares and days; the bars of a minute are spread over the minute.
    """
    bars = minute_bars(BarParameters(n_symbols=n_symbols, n_days=n_days, distinct_times=True), seed=seed)
    return _of_stocks(bars, n_types)


def _of_stocks(bars: pd.DataFrame, n_types: int = 6) -> Workload:
    counts = bars["symbol"].value_counts()
    types = tuple(sorted(counts.index, key=lambda symbol: (-counts[symbol], symbol))[:n_types])
    return Workload(CHANGE, bars, "symbol", types, "log_return", 0.0, (5.0, 10.0, 15.0, 20.0))


def correlated(workload: Workload) -> Workload:
    """Return a workload of stocks with the paper's other condition: neighbours have correlated prices."""
    # Source: HYPERSONIC, section VII: the correlation of two shares by their 20 earlier prices. The paper
    # does not print the least correlation. Here it is 0.5.
    return replace(workload, name=CORRELATION, condition="corr", slack=LEAST_CORRELATION)


MORNING = ("Sleep", "Wake_Up", "Other_Activity", "Morning_Meds", "Cook_Breakfast", "Eat_Breakfast")
_WAKE_UP = 1


def sensors(*, n_days: int = 10, seed: int = 7) -> Workload:
    """Return a workload of the sensors of a home. Types are the activities of a morning."""
    # Source: HYPERSONIC, section VII: conditions compare changes of the activity level, and patterns help to
    # predict the next activity of a person. So the six activities are those that most often follow each
    # other. `MORNING` is the sequence of six different activities that occurs within an hour in most homes:
    # in all of the seeds 20 to 39. The paper does not print its activities.
    return _of_sensors(smart_home(HomeParameters(n_days=n_days), seed=seed))


def _of_sensors(events: pd.DataFrame) -> Workload:
    windows = (30.0, 45.0, 60.0, 90.0)
    return Workload(SENSORS, events, "activity", MORNING, "activity_change", 0.0, windows, repeated=_WAKE_UP)


def recorded_workloads(*, stock_days: int = 2, home_days: int = 10) -> dict[str, list[Workload]]:
    """Return the workloads of recorded data that this machine has, by the name of the data."""
    # Prices of one minute are spread over the minute, in row order, as in `minute_bars`.
    made = {}
    for data, name in (("NASDAQ 100", "minute closes"), ("NASDAQ bars", "minute bars")):
        if has_recorded(name):
            change = _of_stocks(add_histories(_first_days(recorded(name), stock_days)))
            made[data] = [change, correlated(change)]
    if has_recorded("activities"):
        made["CASAS home"] = [_of_sensors(_first_days(recorded("activities"), home_days))]
    return made


def _first_days(events: pd.DataFrame, n_days: int) -> pd.DataFrame:
    day = events["ts"].dt.normalize()
    return events[day.isin(np.sort(day.unique())[:n_days])].reset_index(drop=True)


def add_histories(prices: pd.DataFrame) -> pd.DataFrame:
    """Return minute prices as `minute_bars` does: distinct times, changes, and earlier prices."""
    prices = prices.sort_values(["ts", "symbol"], kind="stable").reset_index(drop=True)
    close = prices["close"].astype(float)
    of_minute = prices.groupby("ts", observed=True)["symbol"]
    place = of_minute.cumcount() / of_minute.transform("size")
    history = np.full(len(prices), None, dtype=object)
    for rows in prices.groupby("symbol", observed=True).indices.values():
        if len(rows) > HISTORY:
            windows = np.lib.stride_tricks.sliding_window_view(close.to_numpy()[rows], HISTORY)
            history[rows[HISTORY:]] = list(windows[:-1])
    log_close = np.log(close)
    return prices.assign(
        log_return=log_close - log_close.groupby(prices["symbol"], observed=True).shift(),
        history=history,
        ts=prices["ts"].astype("datetime64[us]") + pd.to_timedelta((place * 60e6).astype(int), unit="us"),
    )


def prepared(workload: Workload, window_min: float, **of_query: object) -> tuple[SequenceProgram, Events]:
    """Return the compiled program of `Workload.query`, and the events."""
    given = Arguments(event_type=workload.event_type, order_by="ts")
    source = PandasSource(workload.frame)
    program = compile_checked(as_query(workload.query(window_min, **of_query), given), source)
    return program, build_events(source, program)
