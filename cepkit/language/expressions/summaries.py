"""Aggregates of all values of the rows at once: what they mean, for measures, windows and SQL alike.

A new aggregate is one entry of ``SUMMARIES``. It has no running form, so conditions cannot hold it.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Summary:
    """What an aggregate computes from the values that are not null, in the order of their rows."""

    compute: Callable[[list[Any]], float | int | None]  # of one value or more
    meaning: str  # for the cheat sheet
    of_numbers: bool = True  # False: of values of any type
    of_nothing: int | None = None  # the result without values
    sql: str | None = None  # its name in MATCH_RECOGNIZE, if it has no other there


def _median(values: list[Any]) -> float | None:
    return float(statistics.median(values))


def _variance(values: list[Any]) -> float | None:
    """Return the mean square distance from the mean; infinite values have none."""
    if not all(map(math.isfinite, values)):
        return None
    mean = math.fsum(values) / len(values)
    return math.fsum((value - mean) ** 2 for value in values) / len(values)


def _deviation(values: list[Any]) -> float | None:
    variance = _variance(values)
    return None if variance is None else math.sqrt(variance)


SUMMARIES = {
    "median": Summary(_median, "the middle value", sql="median"),
    "std": Summary(_deviation, "the standard deviation of all values"),
    "var": Summary(_variance, "the variance of all values"),
    "distinct": Summary(lambda values: len(set(values)), "how many different values", False, 0),
}
SUMMARY_SPELLINGS = {
    **{name: name for name in SUMMARIES}, "stdev": "std", "stddev": "std", "variance": "var",
    "nunique": "distinct", "count_distinct": "distinct",
}  # fmt: skip
SUMMED = ("sum", "avg", *(name for name, summary in SUMMARIES.items() if summary.of_numbers))


def reason_for_measures_only(function: str) -> str | None:
    """Return why only measures can have an aggregate, to complete "it …"; None if conditions can, too."""
    if function == "collect":
        return "makes a list"
    return "needs all rows of a match" if function in SUMMARIES else None
