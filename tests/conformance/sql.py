"""The cases of Trino, Flink and Esper through `cepkit.sql`."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import cepkit as cep
from cepkit.errors import CepError, PatternSyntaxError, PredicateError
from cepkit.language.match_recognize.parsing import parse_match_recognize
from tests.conformance.verdicts import DIFFERS, EQUAL, OPEN, REFUSED, Verdict, verdict_of
from tests.support.row_pattern_cases import (
    bag,
    names_of_output,
    needs_query,
    select_of_case,
    select_of_esper,
    select_of_window,
    table_of_case,
)


def refusal(case: dict[str, Any]) -> str | None:
    """Return the reason for which the text of a case does not run."""
    if needs_query(case):
        return "a sub-query does not run here"
    return None


def values_of(rows: list[dict[str, Any]], names: list[str]) -> list[list[Any]]:
    return [[value_of(row[name]) for name in names] for row in rows]


def value_of(value: Any) -> Any:
    if isinstance(value, list):
        return [value_of(one) for one in value]
    return value.timestamp() if hasattr(value, "timestamp") else value


def check_sql(case: dict[str, Any]) -> None:
    """Compare the rows of a case of Trino or Flink in FROM, or its error."""
    text, table = select_of_case(case), table_of_case(case)
    if reason := refusal(case):
        with pytest.raises((PatternSyntaxError, PredicateError), match=reason):
            cep.sql(text, t=table)
    elif case["expected_error"]:
        with pytest.raises(CepError, match="has no row of"):
            cep.sql(text, t=table)
    else:
        found = cep.sql(text, t=table)
        rows = values_of(found.to_frame().to_pylist(), names_of_output(case))
        assert bag(rows) == bag(case["expected_rows"])


def check_window(case: dict[str, Any]) -> None:
    """Compare the rows of a case of Trino with a WINDOW, or its error."""
    text, table = select_of_window(case), table_of_case(case)
    if refusal(case):
        with pytest.raises(PatternSyntaxError, match="a sub-query does not run here"):
            parse_match_recognize(text)
        return
    query = parse_match_recognize(text)
    assert parse_match_recognize(str(query)) == query
    if case["expected_error"]:
        with pytest.raises(CepError, match="has no row of"):
            cep.match(table, str(query))
    else:
        found = cep.match(table, str(query)).to_frame()
        assert bag([list(row.values()) for row in found.to_pylist()]) == bag(case["expected_rows"])


def verdict_of_sql(case: dict[str, Any]) -> Verdict:
    """Return what comes of a case of Trino or Flink."""
    found = verdict_of(lambda: (check_sql if case["surface"] == "from_clause" else check_window)(case))
    reason = refusal(case)
    return Verdict(REFUSED, reason) if reason and found.outcome == EQUAL else found


# --- Esper ---

# How the reports of a continuous engine are read as answers of SQL to finished rows.
WHOLE = "the answer for all rows"
LAST_LOOK = "the last look at everything is the answer for all rows; the interval only delays reports"
REPORTS = "a later report of a match replaces an earlier one; empty matches are not reported"
BATCHES = "each batch of the window is a partition"
WINDOW = "a look shows the matches whose rows are all in the window, found in all rows so far"
COUNTS = "a match exists when Esper reports one"
# The case that has no such reading.
BOTH_SIDES = {
    "RowRecogIntervalOrTerminated/RowRecogIntervalOrTerminated#6": (
        "A (B* | C*): Esper reports A C after A alone, but SQL prefers the left side, B* without a row"
    )
}


def reading(case: dict[str, Any]) -> str:
    kind = case["data_window"]["kind"]
    if case["batch_expected"]:
        return WHOLE
    if kind in ("time", "time_batch"):
        return WINDOW if kind == "time" else BATCHES
    if last_look(case) is not None:
        return LAST_LOOK if case["interval"] else WHOLE
    return REPORTS if case["interval"] else COUNTS


def last_look(case: dict[str, Any]) -> dict[str, Any] | None:
    """Return the fields and rows of the last look at everything visible."""
    looks = [step for step in case["steps"] if step.get("expect_all")]
    return {"fields": looks[-1]["fields"], "rows": looks[-1]["expect_all"]} if looks else None


def esper_table(case: dict[str, Any]) -> pa.Table:
    """Return the events with their number, their time and the number of their batch."""
    times, now = {}, 0
    for step in case["steps"]:
        now = step.get("time_ms", now)
        if "event" in step:
            times[step["event"]] = now
    n = len(case["events"])
    frame = pd.DataFrame([{**dict.fromkeys(case["columns"]), **row} for row in case["events"]])
    time = [times.get(i, 0) for i in range(n)]
    first = min(time, default=0)
    batch = [(one - first) // 5000 for one in time]
    table = pa.Table.from_pandas(frame.assign(event=range(n), time=time, batch=batch), preserve_index=False)
    no_type = [i for i, field in enumerate(table.schema) if pa.types.is_null(field.type)]
    for i in no_type:
        table = table.set_column(i, table.column_names[i], table.column(i).cast(pa.string()))
    return table


def answer(case: dict[str, Any], table: pa.Table, fields: list[str], *keys: str) -> list[list[Any]]:
    found = cep.sql(select_of_esper(case, keys), t=table).to_frame()
    return measured(found, fields)


def measured(found: pa.Table, fields: list[str]) -> list[list[Any]]:
    return values_of(found.to_pylist(), [f"measured {field}" for field in fields])


def check_esper(case: dict[str, Any]) -> None:
    """Compare the reports of a case of Esper with the rows for all events, or for all events so far."""
    table, how = esper_table(case), reading(case)
    steps = case["steps"]
    new = [step for step in steps if step.get("expect_new")]
    if how in (WHOLE, LAST_LOOK):
        expected = case["batch_expected"] or last_look(case)
        assert bag(answer(case, table, expected["fields"])) == bag(expected["rows"])
    elif how == REPORTS:
        fields = new[0]["fields"]
        last = {row[0]: row for step in new for row in step["expect_new"]}
        rows = [row for row in answer(case, table, fields) if row[0] is not None]
        assert (bag(rows) == bag(list(last.values()))) is (case["id"].partition("/")[2] not in BOTH_SIDES)
    elif how == BATCHES:
        rows = [row for step in new for row in step["expect_new"]]
        assert bag(answer(case, table, new[0]["fields"], "batch")) == bag(rows)
    elif how == WINDOW:
        n_looks = 0
        for moment, n_events, step in looks_of(case):
            fields = step["fields"] or last_look(case)["fields"]
            assert bag(visible(case, table.slice(0, n_events), moment, fields)) == bag(step["expect_all"])
            n_looks += 1
        assert n_looks > 5
    else:
        assert how == COUNTS
        reported, n_events = 0, 0
        for step in steps:
            n_events += "event" in step
            reported += bool(step.get("expect_some_new"))
            if "expect_new" in step or "expect_some_new" in step:
                fields = [case["measures"][0]["name"]]
                assert len(answer(case, table.slice(0, n_events), fields)) == reported


def looks_of(case: dict[str, Any]) -> list[tuple[int, int, dict[str, Any]]]:
    """Return the time, the number of events so far, and the step of each look at everything visible."""
    found, now, n_events = [], 0, 0
    for step in case["steps"]:
        now, n_events = step.get("time_ms", now), n_events + ("event" in step)
        if "expect_all" in step:
            found.append((now, n_events, step))
    return found


def visible(case: dict[str, Any], table: pa.Table, now: int, fields: list[str]) -> list[list[Any]]:
    """Return the matches whose rows are all in the window of time."""
    width = 1000 * int(case["data_window"]["arg"].split()[0])
    found = cep.sql(select_of_esper(case), t=table)
    rows = measured(found.to_frame(), fields)
    lineage = found.lineage().assign(time=lambda one: table["time"].to_numpy()[one["position"]])
    first = lineage.groupby("match")["time"].min()
    return [row for row, time in zip(rows, first, strict=True) if time > now - width]


def verdict_of_esper(case: dict[str, Any]) -> Verdict:
    """Return what comes of a case of Esper."""
    found = verdict_of(lambda: check_esper(case))
    rule = BOTH_SIDES.get(case["id"].partition("/")[2])
    return found if rule is None else Verdict(DIFFERS if found.outcome == EQUAL else OPEN, rule)
