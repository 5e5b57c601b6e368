"""An empty frame has an empty result, whatever types its columns have."""

from __future__ import annotations

import pandas as pd
import pyarrow as pa
import pytest

import cepkit as cep

ROWS = pd.DataFrame({
    "t": pd.to_datetime([1, 2]), "k": ["A", "B"], "x": [1.0, 2.0], "s": ["p", "q"], "i": [1, 2],
    "o": [True, False],
})  # fmt: skip
FRAMES = {
    "typed": ROWS.iloc[:0],
    "categories": ROWS.astype({"k": "category", "s": "category"}).iloc[:0],
    "objects": ROWS.astype(object).iloc[:0],
    "names": pd.DataFrame(columns=list(ROWS.columns)),
    "lists": pd.DataFrame({name: [] for name in ROWS.columns}),
    "arrow": ROWS.convert_dtypes(dtype_backend="pyarrow").iloc[:0],
}
NAMES = ", ".join(f"'{name}'" for name in "abcdefghijk")
DEFINES = {
    "numbers and texts": {"a": "x > 1 and s = 'p'", "b": f"x < prev(x) and s in [{NAMES}] and k like 'A%'"},
    "times": {"a": "t > '2024-01-31' and i % 2 = 1", "b": "delta(t) < '5 min' and s != first(s)"},
}
SEQUENCES = {
    "chain": "SEQ(A a, B b) WHERE a.x < b.x AND a.s = 'p' WITHIN 5 s",
    "anchored chain": "SEQ(A a, B+ b, A c) WHERE b[i].x > a.x WITHIN 5 s",
    "ordered": "SEQ(A a, B b, A c) WHERE a.x < c.x WITHIN 5 s",
    "search": "SEQ(A a, B+ b, !A n, B c) WHERE avg(b.x) > c.i AND n.x < a.x WITHIN 5 s",
}


def check(found, frame: pd.DataFrame) -> None:
    assert found.count() == 0
    assert not found
    assert len(found.to_frame()) == len(found.to_frame("all")) == len(found.lineage()) == 0
    assert list(found.to_frame("all").columns)[-len(frame.columns) :] == list(frame.columns)
    assert len(found.head(3)) == len(found.sample(3)) == 0
    assert "0 matches" in repr(found) or "no match" in repr(found).lower()
    assert found.aggregate(n="count()")["n"] == 0


@pytest.mark.parametrize("kind", FRAMES)
@pytest.mark.parametrize("define", DEFINES)
@pytest.mark.parametrize("partition_by", [None, "s"])
def test_regex_queries(kind, define, partition_by):
    frame = FRAMES[kind]
    measures = {"n": "count()", "most": "max(x)", "first": "first(s)"}
    query = {"define": DEFINES[define], "order_by": "t", "measures": measures, "partition_by": partition_by}
    check(cep.match(frame, "a b", **query), frame)
    assert len(cep.tag(frame, "a b", **query)) == 0
    cep.funnel(frame, "a b", **query)
    assert str(cep.explain(frame, "a b", **query))


@pytest.mark.parametrize("kind", FRAMES)
@pytest.mark.parametrize("engine", SEQUENCES)
@pytest.mark.parametrize("partition_by", [None, "s"])
def test_sequences(kind, engine, partition_by):
    frame, text = FRAMES[kind], f"PATTERN {SEQUENCES[engine]}"
    query = {"event_type": "k", "order_by": "t", "partition_by": partition_by}
    check(cep.match(frame, text, **query, engine=engine.split()[-1]), frame)
    check(cep.match(frame, text, **query), frame)
    cep.funnel(frame, text, **query)
    assert str(cep.explain(frame, text, **query))


def test_a_frame_with_rows_keeps_its_errors():
    with pytest.raises(cep.CepError, match="cannot be compared"):
        cep.match(ROWS, "a", define={"a": "x = 'p'"})
    with pytest.raises(cep.CepError, match="not found"):
        cep.match(FRAMES["names"], "a", define={"a": "missing > 1"})


@pytest.mark.parametrize(
    ("measure", "expected"),
    [
        ("o IS DISTINCT FROM 'a'", True),
        ("TIMESTAMP '2024-01-01 00:00:00' IS NOT DISTINCT FROM o", False),
        ("o IS DISTINCT FROM s", True),
        ("o IS DISTINCT FROM :name", True),
        ("GREATEST(o, s)", None),
        ("LEAST('a', o, o)", None),
        ("COALESCE(o, s)", "p"),
        ("NULLIF(o, 'a')", None),
    ],
)
@pytest.mark.parametrize("n_rows", [0, 1])
def test_a_column_without_values_has_the_type_of_the_values_beside_it(measure, expected, n_rows):
    frame = ROWS.assign(o=pd.Series([None, None], dtype=object)).iloc[:n_rows]
    text = f"MATCH_RECOGNIZE (ORDER BY t MEASURES {measure} AS m PATTERN (a) DEFINE a AS i > 0)"
    made = cep.match(frame, text, params={"name": "a"}).to_frame()["m"]
    assert made.astype(object).where(made.notna(), None).to_list() == [expected] * n_rows


@pytest.mark.parametrize("condition", ["x >= '5 s'", "x > 5"])
def test_a_column_without_values_is_what_the_query_makes_of_it(condition):
    """Durations have sums and means, too."""
    frame = pa.table({"t": [1, 2], "x": pa.nulls(2)})
    text = (
        f"MATCH_RECOGNIZE (ORDER BY t MEASURES AVG(x) AS m, SUM(x) AS s PATTERN (a) DEFINE a AS {condition})"
    )
    assert cep.match(frame, text).count() == 0
    assert cep.match(frame, "a", define={"a": condition}, measures={"s": "sum(x)"}).count() == 0
