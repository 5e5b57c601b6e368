"""Events and queries for the experiments of the HYPERSONIC paper: stocks, sensors, and Poisson streams."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from cepkit.compile.sequences.program import SequenceProgram
from cepkit.datasets.minute_bars import BarParameters, minute_bars
from cepkit.datasets.poisson_types import poisson_types
from cepkit.datasets.smart_home import HomeParameters, smart_home
from cepkit.errors import CepError
from cepkit.events import Events
from cepkit.frames.building import build_events
from cepkit.frames.pandas import PandasSource
from cepkit.planning.arguments import Arguments
from cepkit.planning.queries import as_query
from cepkit.planning.validation import compile_checked

PATTERNS = ("SEQ", "Kleene")
VARIABLES = "abcdefgh"
REPEATED = 3  # the component that is a loop in "Kleene"


@dataclass(frozen=True, eq=False)
class Workload:
    """Events, and a family of patterns to search in them.

    Parameters
    ----------
    name : str
        Name, such as ``"stocks"`` or ``"sensors"``.
    frame : pandas.DataFrame
        Events with ``ts`` and the columns below.
    event_type : str
        Column of event types.
    types : tuple of str
        Event types of the longest pattern, in order; at most 8.
    value : str
        Column that conditions compare.
    slack : float
        Constant of the condition.
    windows_min : tuple of float
        Windows in minutes. Sweeps over other parameters use the third.
    condition : str
        Condition on neighbours a and b. ``"difference"``: ``a.value - b.value < slack``. ``"sum"``:
        ``(a.value + b.value) % 1000 < slack``, which is true for a fixed share of pairs, independently of
        other pairs. ``"corr"``: ``corr(a.history, b.history) > slack``.
    """

    name: str
    frame: pd.DataFrame
    event_type: str
    types: tuple[str, ...]
    value: str
    slack: float
    windows_min: tuple[float, ...]
    condition: str = "difference"

    def query(self, window_min: float, *, length: int | None = None, pattern: str = "SEQ") -> str:
        """Return the text of a query.

        Parameters
        ----------
        window_min : float
            Window in minutes.
        length : int, optional
            Number of components, from 2 to the number of types; default: all types.
        pattern : str
            ``"SEQ"``, or ``"Kleene"`` with a loop as the fourth component.

        Raises
        ------
        CepError
            When the pattern is unknown or the length is out of range.
        """
        length = len(self.types) if length is None else length
        least = REPEATED + 1 if pattern == "Kleene" else 2
        if pattern not in PATTERNS or not least <= length <= len(self.types):
            raise CepError(
                f"workload {self.name!r}: no pattern {pattern!r} of {length} components. There are "
                f"{list(PATTERNS)} of {least} to {len(self.types)}"
            )
        loop = REPEATED if pattern == "Kleene" else -1
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
    """Return a workload of four independent event types, as cost models assume.

    Parameters
    ----------
    rate : float
        Events per second of each type.
    duration_s : float
    selectivity : float
        Share of pairs of neighbours that satisfy the condition.
    seed : int
    """
    events = poisson_types(dict.fromkeys("ABCD", rate), duration_s, seed)
    slack = round(1000 * selectivity)
    return Workload("Poisson", events, "type", tuple("ABCD"), "x", slack, (5 / 60, 8 / 60, 10 / 60), "sum")


def stocks(*, n_symbols: int = 40, n_days: int = 2, n_types: int = 6, seed: int = 7) -> Workload:
    """Return a workload of minute bars. Types are the shares with most bars, and conditions compare changes.

    Notes
    -----
    Source: HYPERSONIC, section VII: the change since the last price, compared with that of the other share.
    Differs: fewer shares and days; the bars of a minute are spread over the minute.
    """
    bars = minute_bars(BarParameters(n_symbols=n_symbols, n_days=n_days, distinct_times=True), seed=seed)
    return _of_stocks("stocks", bars, n_types)


def _of_stocks(name: str, bars: pd.DataFrame, n_types: int = 6) -> Workload:
    counts = bars["symbol"].value_counts()
    types = tuple(sorted(counts.index, key=lambda symbol: (-counts[symbol], symbol))[:n_types])
    return Workload(name, bars, "symbol", types, "log_return", 0.0, (5.0, 10.0, 15.0, 20.0))


EVENING = ("Enter_Home", "Toilet", "Other_Activity", "Relax", "Cook_Dinner", "Eat_Dinner")


def sensors(
    *, n_days: int = 10, seed: int = 7, burst_share: float = 0.0, n_bursts: int = 3, burst_gap_s: float = 2.0
) -> Workload:
    """Return a workload of the sensors of a home. Types are the activities of an evening.

    Parameters
    ----------
    n_days, seed, n_bursts, burst_gap_s
        See `smart_home`.
    burst_share : float
        Share of the runs of these activities to move into ``n_bursts`` bursts.

    Notes
    -----
    Source: HYPERSONIC, section VII: conditions compare changes of the activity level.
    """
    burst = {"burst_activities": EVENING, "burst_share": burst_share} if burst_share else {}
    parameters = HomeParameters(n_days=n_days, n_bursts=n_bursts, burst_gap_s=burst_gap_s, **burst)
    return _of_sensors("sensors", smart_home(parameters, seed=seed))


def _of_sensors(name: str, events: pd.DataFrame) -> Workload:
    return Workload(name, events, "activity", EVENING, "activity_change", 0.0, (20.0, 30.0, 45.0, 60.0))


def real_workloads(folder: str | os.PathLike | None) -> list[Workload]:
    """Return the workloads of recorded data whose files exist.

    Parameters
    ----------
    folder : str or path, optional
        Folder with ``nasdaq100_minute_close.parquet`` (``ts, symbol, close``) or ``casas_activity.parquet``
        (``ts, activity, activity_change``); None: no workloads.

    Notes
    -----
    Prices of one minute are spread over the minute, in row order, as in `minute_bars`.
    """
    if folder is None:
        return []
    made, folder = [], Path(folder)
    if (file := folder / "nasdaq100_minute_close.parquet").is_file():
        made.append(_of_stocks("recorded stocks", _with_returns(pd.read_parquet(file))))
    if (file := folder / "casas_activity.parquet").is_file():
        columns = ["ts", "activity", "activity_change"]
        made.append(_of_sensors("recorded sensors", pd.read_parquet(file, columns=columns)))
    return made


def _with_returns(prices: pd.DataFrame) -> pd.DataFrame:
    prices = prices.sort_values(["ts", "symbol"], kind="stable").reset_index(drop=True)
    close = np.log(prices["close"].astype(float))
    of_minute = prices.groupby("ts", observed=True)["symbol"]
    place = of_minute.cumcount() / of_minute.transform("size")
    return prices.assign(
        log_return=close - close.groupby(prices["symbol"], observed=True).shift(),
        ts=prices["ts"].astype("datetime64[us]") + pd.to_timedelta((place * 60e6).astype(int), unit="us"),
    )


def prepared(workload: Workload, window_min: float, **of_query: object) -> tuple[SequenceProgram, Events]:
    """Return the compiled program of `Workload.query`, and the events."""
    given = Arguments(event_type=workload.event_type, order_by="ts")
    source = PandasSource(workload.frame)
    program = compile_checked(as_query(workload.query(window_min, **of_query), given), source)
    return program, build_events(source, program)
