"""Regex queries run through the public calls and compared with the definition."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pandas as pd

import cepkit as cep
from cepkit.language.expressions.parsing import parse_expression
from tests.oracle import generate, naive


def plain(value):
    """Return a result as naive.py gives it: plain Python, one null."""
    if isinstance(value, list | tuple | np.ndarray):
        return [plain(item) for item in value]
    if value is None or value is pd.NA or value is pd.NaT or (isinstance(value, float) and math.isnan(value)):
        return None
    return value.item() if isinstance(value, np.generic) else value


def same(found, expected):
    if isinstance(expected, list):
        return len(found) == len(expected) and all(map(same, found, expected))
    if isinstance(expected, float) and found is not None:
        return math.isclose(found, expected, rel_tol=1e-12)
    return found == expected


def partition_of(rows, partition_by, row):
    """Return the positions of the rows that have the key of ``row``."""
    key = [plain(rows[row][name]) for name in partition_by]
    return [i for i, other in enumerate(rows) if [plain(other[name]) for name in partition_by] == key]


def check(
    pattern,
    define,
    rows,
    *,
    partition_by=(),
    params=None,
    measures=(),
    functions=None,
    frame=None,
    **keywords,
):
    """Run a query through the public API, compare all it says with the definition, return the matches."""
    frame = generate.to_frame(rows) if frame is None else frame
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=cep.CepWarning)  # of dead suffixes and nullable patterns
        found = cep.match(
            frame, pattern, define=define, params=params or None, partition_by=list(partition_by) or None,
            measures={f"m{i}": text for i, text in enumerate(measures)} if measures else None, **keywords,
        )  # fmt: skip
    options = {name: keywords.get(name) for name in ("order_by", "within")}
    options["within_closed"] = keywords.get("within_closed", True)
    if "after_match" in keywords:
        kind, _, name = keywords["after_match"].rstrip(")").partition("(")
        options["after_match"] = kind.removesuffix("_row"), name or None
        options["keep"] = keywords.get("keep", "shortest")
    expected = naive.matches(
        pattern, define, rows, partition_by=partition_by, params=params, functions=functions, **options
    )
    lineage = found.lineage()
    assert [tuple(part.position) for _, part in lineage.groupby("match")] == expected
    assert len(found) == found.count() == len(expected)
    table = found.to_frame()
    assert len(table) == len(expected)
    variables = found.to_frame("all")["variable"].tolist()
    place = 0
    for m, match in enumerate(expected):
        own = partition_of(rows, partition_by, match[0])
        partition = [rows[i] for i in own]
        first, last = own.index(match[0]), own.index(match[-1])
        labels = naive.labels(pattern, define, partition, first, last, params=params, functions=functions)
        assert variables[place : place + len(labels)] == labels
        place += len(labels)
        for i, text in enumerate(measures):
            value = naive.evaluate_measure(parse_expression(text), partition, first, last, params, functions)
            got = plain(table[f"m{i}"].iloc[m])
            assert same(got, plain(value)), f"measure {text} of match {match}: {got!r}, expected {value!r}"
    return expected
