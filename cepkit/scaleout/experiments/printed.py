"""The numbers that the text of the thesis prints for figures 5.1 to 5.20, and tables 5.1 and 5.2."""

from __future__ import annotations

import pandas as pd

# Figure, what, series, x, value, unit. The curves themselves are not in the text.
_NUMBERS = (
    ("5.1", "longest interval that runs", "1 node", None, 30, "s"),
    ("5.1", "interval at which the node is killed", "1 node", None, 35, "s"),
    ("5.10", "longest pattern, worst case", "1 node", 1, 3, "s"),
    ("5.10", "longest pattern, worst case", "by state", 3, 3, "s"),
    ("5.16", "longest window in table 5.2", "1 node", 1, 100, "events"),
    ("5.16", "longest window in table 5.2", "5 nodes", 5, 500, "events"),
    ("5.20", "least rise of the latency of joins", "all", None, 44, "%"),
    ("5.20", "greatest rise of the latency of joins", "all", None, 67, "%"),
)
SINGLE, SCALED, SLACK = "1 node", "5 nodes", "5 nodes, K-Slack"
MEASURES = {
    "out_of_order": ("out of order", "%", 100.0),
    "most_delay_ms": ("greatest delay", "ms", 1.0),
    "latency_ms": ("mean latency", "ms", 1.0),
    "error": ("error", "%", 100.0),
}
TABLES = {
    "table 5.1": {
        "out_of_order": (0.0, 0.58, 0.07),
        "most_delay_ms": (0.0, 92.0, 30.0),
        "latency_ms": (0.243, 0.349, 55.58),
        "error": (0.0, 0.08, 0.03),
    },
    "table 5.2": {
        "out_of_order": (0.0, 3.40, 0.05),
        "most_delay_ms": (0.0, 33.0, 202.0),
        "latency_ms": (0.366, 0.504, 261.06),
        "error": (0.0, 6.60, 1.00),
    },
}


def paper_numbers() -> pd.DataFrame:
    """Return the numbers in the text of the thesis on its figures.

    Source: Suhothayan, 2019, sections 5.3 and 5.4.
    """
    return pd.DataFrame(_NUMBERS, columns=["figure", "what", "series", "x", "value", "unit"])


def paper_table(name: str) -> pd.DataFrame:
    """Return table 5.1 or 5.2 as printed: a row per measure, a column per system."""
    rows = {f"{MEASURES[of][0]}, {MEASURES[of][1]}": values for of, values in TABLES[name].items()}
    return pd.DataFrame.from_dict(rows, orient="index", columns=[SINGLE, SCALED, SLACK])


def beside_paper(results: pd.DataFrame, name: str) -> pd.DataFrame:
    """Return table 5.1 or 5.2 as printed, and the medians over seeds here for each kind of weights."""
    own = results.loc[(results["figure"] == name) & results["data"].str.startswith("seed")]
    rows = {}
    for measure, (words, unit, factor) in MEASURES.items():
        rows[f"{words}, {unit}", "thesis"] = TABLES[name][measure]
        found = own.loc[own["measure"].str.startswith(f"{measure}, ")]
        medians = (
            found.groupby(["measure", "series"], sort=False)["value"]
            .median()
            .unstack()[[SINGLE, SCALED, SLACK]]
        )
        for kind, values in medians.iterrows():
            rows[f"{words}, {unit}", str(kind).removeprefix(f"{measure}, ")] = tuple(
                float(f"{value * factor:.3g}") for value in values
            )
    shown = pd.DataFrame.from_dict(rows, orient="index", columns=[SINGLE, SCALED, SLACK])
    # Order and latency do not depend on the weights, so one row says them.
    kept = [
        (measure, "here" if source == "equal weights" and not measure.startswith("error") else source)
        for measure, source in rows
    ]
    shown.index = pd.MultiIndex.from_tuples(kept, names=["measure", "source"])
    is_shown = [measure.startswith("error") or source in ("thesis", "here") for measure, source in kept]
    return shown.loc[is_shown]
