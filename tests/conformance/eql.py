"""EQL's own public test queries, with the ids that each of them finds."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

import pandas as pd

import cepkit as cep
from tests.conformance.cases import FOLDER
from tests.conformance.verdicts import Verdict, verdict_of

# The suite asks these with case. EQL of Elastic heeds case, and writes '=' as '=='.
WITH_CASE = {"eql/e036", "eql/e114", "eql/e123", "eql/e132"}
_UNIX = 116_444_736_000_000_000  # 1970 in units of 100 ns since 1601


@cache
def log() -> pd.DataFrame:
    """Return the events of the suite."""
    rows = json.loads((FOLDER / "eql.json").read_text())["events"]
    columns: dict[str, Any] = {}
    for name in dict.fromkeys(name for row in rows for name in row):
        values = [row.get(name) for row in rows]
        is_whole = {type(value) for value in values} <= {int, type(None)}
        columns[name] = pd.Series(values, dtype="Int64" if is_whole else object)
    ticks = columns.pop("timestamp").astype("int64") - _UNIX
    return pd.DataFrame({"timestamp": pd.to_datetime(ticks * 100, unit="ns"), **columns})


def verdict_of_eql(case: Any) -> Verdict:
    """Return what comes of a query."""

    def check() -> None:
        text, dialect = case["query"], "endgame"
        if case["id"] in WITH_CASE:
            text, dialect = re.sub(r"(?<![=!<>])=(?!=)", "==", text), "elastic"
        found = cep.eql(
            text, log(), order_by=["timestamp", "serial_event_id"], event_category="event_type",
            dialect=dialect,
        )  # fmt: skip
        assert found["serial_event_id"].tolist() == case["expected_event_ids"]

    return verdict_of(check)
