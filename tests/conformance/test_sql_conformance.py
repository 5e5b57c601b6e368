"""`cepkit.sql` on Spark gives the answers of Trino, Flink and Esper to their cases."""

from __future__ import annotations

import json
import warnings
from functools import reduce
from typing import Any

import pyarrow as pa
import pytest

import cepkit as cep
from tests.conformance.sql import (
    answer,
    esper_table,
    refusal,
)
from tests.support.row_pattern_cases import (
    FOLDER,
    bag,
    cases,
    names_of_output,
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
ESPER = cases("esper_rowrecog.json")


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
