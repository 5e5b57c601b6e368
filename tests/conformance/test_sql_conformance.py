"""`cepkit.sql` gives the answers of Trino, Flink and Esper to their cases, in memory and on Spark."""

from __future__ import annotations

import json
import warnings
from functools import reduce
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import cepkit as cep
from cepkit.errors import CepError, PatternSyntaxError, PredicateError
from tests.support.row_pattern_cases import (
    FOLDER,
    bag,
    cases,
    names_of_output,
    needs_query,
    select_of_case,
    select_of_esper,
    select_of_window,
    table_of_case,
)

pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="no reference cases beside the checkout")

SQL = [
    parameter
    for file in ("trino_match_recognize.json", "flink_sql_match_recognize.json")
    for parameter in cases(file)
    if parameter.values[0]["surface"] == "from_clause"
]


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


@pytest.mark.parametrize("case", SQL)
def test_answers_of_sql_engines(case):
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


def test_what_is_refused(capsys):
    refused = [(case["id"], reason) for case in (one.values[0] for one in SQL) if (reason := refusal(case))]
    with capsys.disabled():
        print(f"\n{len(SQL)} cases of Trino and Flink in FROM, {len(refused)} of them refused:")
        for name, reason in refused:
            print(f"  {name}: {reason}")
    assert len(refused) <= 7


# --- Esper -------------------------------------------------------------------------------------------------

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
ESPER = cases("esper_rowrecog.json")


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


@pytest.mark.parametrize("case", ESPER)
def test_answers_of_esper(case):
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


def test_how_the_cases_of_esper_are_read(capsys):
    read = [
        (parameter.values[0]["id"].partition("/")[2], reading(parameter.values[0])) for parameter in ESPER
    ]
    with capsys.disabled():
        print(f"\n{len(read) - len(BOTH_SIDES)} of {len(read)} cases of Esper are equal:")
        for how in dict.fromkeys(one for _, one in read):
            own = [name for name, one in read if one == how and name not in BOTH_SIDES]
            print(f"  {len(own):2}  {how}" + (f": {', '.join(own)}" if how != WHOLE else ""))
        for name, why in BOTH_SIDES.items():
            print(f"  not equal: {name}: {why}")
    assert {name for name, _ in read} >= set(BOTH_SIDES)


# --- Spark -------------------------------------------------------------------------------------------------

N_JOBS = 12
WINDOWS = [
    parameter
    for parameter in cases("trino_match_recognize.json")
    if parameter.values[0]["surface"] == "window_clause"
]


def on_spark(text: str) -> str:
    """Return the text with a total order of the rows, which Spark needs."""
    if "\nORDER BY" in text:
        head, _, rest = text.partition("\nORDER BY ")
        line, _, rest = rest.partition("\n")
        return f"{head}\nORDER BY {line}, position\n{rest}"
    first = "\n" + text.partition("\n")[2].partition("\n")[0]
    if first.startswith("\nPARTITION BY"):
        return text.replace(first, f"{first}\nORDER BY position", 1)
    return text.replace("\n", "\nORDER BY position\n", 1)


def spark_case(case: dict[str, Any]) -> tuple[str, pa.Table, list[str], list[list[Any]]]:
    """Return the text and the table of a case, and the columns and rows of its answer."""
    if case["id"].startswith("esper"):
        text, table = select_of_esper(case), esper_table(case)
        fields = [one["name"] for one in case["measures"]]
        return text, table, [f"measured {field}" for field in fields], answer(case, table, fields)
    if case["surface"] == "window_clause":
        outputs = case["output"] or sorted(case["measures"], key=lambda one: one["name"])
        names = [one["name"] for one in outputs]
        return on_spark(select_of_window(case)), table_of_case(case), names, case["expected_rows"]
    return on_spark(select_of_case(case)), table_of_case(case), names_of_output(case), case["expected_rows"]


@pytest.fixture(scope="module")
def one_task(spark):
    pytest.importorskip("pyspark")
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", "1")
    yield spark
    spark.conf.set("spark.sql.shuffle.partitions", before)


@pytest.mark.slow
@pytest.mark.parametrize("job", range(N_JOBS))
def test_spark_gives_the_same_rows(one_task, job):
    """Each job runs a twelfth of the cases; the rows of all of them come back as text."""
    from pyspark.sql import functions as F

    every = [parameter.values[0] for parameter in [*SQL, *WINDOWS, *ESPER]]
    frames, expected = [], {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cep.CepWarning)  # one task
        for case in [case for case in every if not refusal(case)][job::N_JOBS]:
            text, table, names, rows = spark_case(case)
            found = cep.sql(text, t=one_task.createDataFrame(table)).to_frame()
            if case.get("expected_error"):
                with pytest.raises(Exception, match="has no row of"):
                    found.collect()
                continue
            cells = [F.array(F.col(f"`{name}`")).alias(f"cell {i}") for i, name in enumerate(names)]
            row = F.to_json(F.struct(*cells))
            frames.append(found.select(F.lit(case["id"]).alias("id"), row.alias("row")))
            expected[case["id"]] = bag(rows)
        made = reduce(lambda one, other: one.unionAll(other), frames).collect()
    found = {name: [] for name in expected}
    for name, text in made:
        found[name].append([cell[0] for cell in json.loads(text).values()])
    assert {name: bag(rows) for name, rows in found.items()} == expected
