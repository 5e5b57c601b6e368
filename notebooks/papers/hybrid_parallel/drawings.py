"""Panels of the HYPERSONIC paper's figures: generated data in one row, recorded data in the next."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from cepkit.plots.sweeps import SweepPanel
from papers.hybrid_parallel.results import along
from papers.hybrid_parallel.workloads import CHANGE, CORRELATION, SENSORS

RECORDED_STOCKS, RECORDED_HOME = ("NASDAQ 100", "NASDAQ bars"), "CASAS home"
UP_TO, RIP_IS = "printed: up to 1,000", "printed: RIP close to 1"
_GROUNDS = {"stocks": (CHANGE, CORRELATION), "sensors": (SENSORS,)}
_RECORDED = {"stocks": RECORDED_STOCKS, "sensors": (RECORDED_HOME,)}
_X_TITLES = {"window_min": "window, min", "threads": "cores", "length": "components"}


def panels_of(
    generated: pd.DataFrame,
    recorded: pd.DataFrame,
    value: str,
    xs: Sequence[str],
    *,
    grounds: Sequence[str] = tuple(_GROUNDS),
    with_printed: bool = False,
    **looks: object,
) -> list[SweepPanel]:
    """Return the panels of a figure, a row per data set and a panel per x."""
    made: list[SweepPanel] = []
    for ground in grounds:
        own = generated[generated["stream"].isin(_GROUNDS[ground])]
        real = recorded[recorded["stream"].isin(_GROUNDS[ground])]
        named = [(name, real[real["data"] == name]) for name in _RECORDED[ground]]
        for name, rows in [(f"{ground}, generated", own), *named]:
            for x in xs:
                line = _name_patterns(_drop_points(along(rows, x), x))
                if with_printed and len(line):
                    line = pd.concat([line, _printed(line[x].max(), x, value, ground)])
                made.append(SweepPanel(line, x, value, name, x_title=_X_TITLES[x], **looks))
    return made


def _name_patterns(rows: pd.DataFrame) -> pd.DataFrame:
    if "pattern" not in rows or rows["pattern"].isna().all():  # fusion has one pattern
        rows = rows.assign(pattern="SEQ")
    is_correlated = rows["stream"] == CORRELATION
    rows = rows.assign(pattern=rows["pattern"].where(~is_correlated, "correlation"))
    return rows.assign(system=rows["system"].str.removeprefix("hybrid, ")) if "system" in rows else rows


def _drop_points(rows: pd.DataFrame, x: str) -> pd.DataFrame:
    """Return the rows of lines with two points or more."""
    keys = [name for name in ("stream", "pattern", "cost_model") if name in rows and rows[name].notna().all()]
    return rows[rows.groupby(keys)[x].transform("nunique") > 1] if len(rows) else rows


def _printed(at: float, x: str, value: str, ground: str) -> pd.DataFrame:
    marks = [(UP_TO, 1000.0), *([(RIP_IS, 1.0)] if ground == "sensors" else [])]
    return pd.DataFrame([{x: at, value: y, "system": name, "pattern": "SEQ"} for name, y in marks])
