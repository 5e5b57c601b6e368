"""Tags of rows that belong to several matches: each row has the first of them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import cepkit as cep
from cepkit.errors import CepError
from cepkit.results import in_memory
from tests.support.sizes import seeds

FAILURES = "PATTERN SEQ(_ x, _ f IF (fail = 1)) WITHIN 3 min"
ROWS = (
    "MATCH_RECOGNIZE (PARTITION BY u ORDER BY t MEASURES COUNT(*) AS n AFTER MATCH SKIP TO NEXT ROW "
    "PATTERN (A+ B) DEFINE A AS v < 3, B AS v >= 3)"
)
QUERIES = {
    "any": ("PATTERN SEQ(a x, b y) WITHIN 6", {"partition_by": "u"}),
    "one stream": ("PATTERN SEQ(a x, b y) WHERE x.v = y.v WITHIN 6", {}),
    "rows": (ROWS, {}),
}


def log(seed: int, n: int = 60) -> pd.DataFrame:
    draw = np.random.default_rng(seed)
    return pd.DataFrame({
        "u": draw.choice(list("pq"), n), "t": range(n), "kind": draw.choice(list("abc"), n),
        "v": draw.integers(0, 5, n),
    })  # fmt: skip


def keywords_of(name: str) -> dict:
    return {} if name == "rows" else {"event_type": "kind", "order_by": "t", **QUERIES[name][1]}


def firsts(lineage: pd.DataFrame) -> dict:
    """Return the first match of each matched row, and its variable there."""
    first: dict = {}
    for match, variable, place in lineage[["match", "variable", "position"]].itertuples(index=False):
        if place not in first or match < first[place][0]:
            first[place] = (match, variable)
    return first


def test_rows_before_a_failure_are_labelled():
    frame = pd.DataFrame({"t": pd.date_range("2026", periods=12, freq="min"), "fail": [0] * 8 + [1, 0, 1, 0]})
    tagged = frame.cep.tag(FAILURES, order_by="t", overlap="first")
    assert tagged.index[tagged["match"].notna()].tolist() == [5, 6, 7, 8, 9, 10]
    with pytest.raises(CepError, match="overlap='first' takes the first match of each row"):
        frame.cep.tag(FAILURES, order_by="t")
    with pytest.raises(CepError, match="overlap='any': a row in several matches is an 'error'"):
        frame.cep.tag(FAILURES, order_by="t", overlap="any")


@pytest.mark.parametrize("seed", seeds(2, 100))
@pytest.mark.parametrize("name", QUERIES)
def test_a_row_has_its_first_match(name, seed, monkeypatch):
    monkeypatch.setattr(in_memory, "_IN_GROUP", 1 + seed % 40)
    frame = log(seed)
    found = cep.match(frame, QUERIES[name][0], **keywords_of(name))
    wanted = firsts(found.lineage())
    tagged = found.tag(overlap="first")
    has_match = tagged["match"].notna()
    assert tagged.index[has_match].tolist() == sorted(wanted) and len(wanted) <= len(found.lineage())
    pairs = tagged.loc[has_match, ["match", "variable"]].itertuples(index=False, name=None)
    assert [*pairs] == [wanted[place] for place in sorted(wanted)]


@pytest.mark.parametrize("name", QUERIES)
def test_spark_tags_the_same_rows(name, spark):
    frame = log(7)
    wanted = cep.tag(frame, QUERIES[name][0], overlap="first", **keywords_of(name))
    tagged = cep.tag(spark.createDataFrame(frame), QUERIES[name][0], overlap="first", **keywords_of(name))
    rows = tagged.toPandas().sort_values("t")
    assert rows["match"].notna().tolist() == wanted["match"].notna().tolist()
    by_user = [tags.groupby("u")["match"].rank("dense").fillna(0) for tags in (rows, wanted)]
    assert by_user[0].tolist() == by_user[1].tolist()  # partitions may have another order
    assert rows["variable"].fillna("").tolist() == wanted["variable"].fillna("").tolist()
