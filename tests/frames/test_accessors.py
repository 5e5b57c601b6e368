"""The accessor ``cep`` on the frames of polars and DuckDB, whichever library is imported first."""

import subprocess
import sys

import pandas as pd
import pyarrow as pa
import pytest

import cepkit as cep

polars, duckdb = pytest.importorskip("polars"), pytest.importorskip("duckdb")
EVENTS = pd.DataFrame({"t": range(4), "kind": ["a", "b", "a", "b"]})
EXPECTED = pd.DataFrame({"x_t": [0, 2], "y_t": [1, 3]})
CALL = "PATTERN SEQ(a x, b y)", {"event_type": "kind", "order_by": "t", "strategy": "next"}


@pytest.mark.parametrize("first", ["cepkit", "polars, duckdb"])
def test_the_accessor_comes_with_either_import_order(first):
    code = f"""
import sys
import {first}
import cepkit, importlib.util
assert {first == "cepkit"} == ("polars" not in sys.modules and "duckdb" not in sys.modules)
importlib.util.find_spec("polars")  # a look is no import
import polars, duckdb
for kind in (polars.DataFrame, polars.LazyFrame, duckdb.DuckDBPyRelation):
    assert isinstance(kind.cep, property), kind
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_same_answer_from_all_frames():
    query, keywords = CALL
    frame = polars.from_pandas(EVENTS)
    found = frame.cep.match(query, **keywords).to_frame()
    assert isinstance(found, polars.DataFrame) and found.to_pandas().equals(EXPECTED)
    with pytest.warns(cep.CepWarning, match="LazyFrame is collected for this call"):
        assert frame.lazy().cep.match(query, **keywords).to_frame().equals(found)
    relation = duckdb.from_arrow(pa.Table.from_pandas(EVENTS))
    if duckdb.__version__.startswith("1.1."):
        pytest.skip("DuckDB 1.1 does not export Arrow's stream")
    assert relation.cep.match(query, **keywords).to_frame().to_pandas().equals(EXPECTED)
    assert relation.cep.runs(by="kind", order_by="t").num_rows == 4
    with pytest.warns(cep.CepWarning, match="LazyFrame"):
        assert cep.match({"a": frame.lazy(), "b": frame[:0].lazy()}, "a a", order_by="t").count() == 2
