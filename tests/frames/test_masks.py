"""Truth values of rows and functions of the frame as conditions of a regex."""

from __future__ import annotations

from random import Random

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import cepkit as cep
from tests.support.sizes import seeds

FRAME = pd.DataFrame(
    {"ts": pd.date_range("2026-01-01 05:00", periods=4, freq="30min"), "p": [1, 2, 3, 4]}, index=list("abcd")
)
EARLY = FRAME["ts"].dt.hour == 5
KEPT = {  # condition, and the rows where it holds
    "Series": (EARLY, [0, 1]),
    "in another order": (EARLY[::-1], [0, 1]),
    "nullable": (EARLY.astype("boolean").where(FRAME["p"] != 2), [0]),
    "array": (np.array([True, False, True, False]), [0, 2]),
    "list with a null": ([True, False, True, None], [0, 2]),
    "Arrow": (pa.array([True, None, False, True]), [0, 3]),
    "function of the frame": (lambda df: df["p"] > 2, [2, 3]),
    "function of a row, as pandas applies it": (lambda row: row.p > 2, [2, 3]),
    "function of a column": (lambda p: p > 2, [2, 3]),
}


@pytest.mark.filterwarnings("ignore:.*is not declared pure")
@pytest.mark.parametrize("name", KEPT)
def test_conditions_of_rows(name):
    condition, rows = KEPT[name]
    found = FRAME.cep.match("r", define={"r": condition}, order_by="ts")
    assert found.lineage()["position"].tolist() == rows
    tagged = found.tag()
    assert list(tagged.columns) == ["ts", "p", "match", "variable"]  # the frame gets no column
    assert tagged["match"].notna().to_numpy().nonzero()[0].tolist() == rows


@pytest.mark.parametrize("frame", [pl.from_pandas(FRAME), pa.Table.from_pandas(FRAME, preserve_index=False)])
def test_other_frames(frame):
    for condition in (EARLY.to_numpy(), frame["p"].to_pandas() < 3, lambda df: df["p"].to_pandas() < 3):
        assert cep.match(frame, "r+ end", define={"r": condition, "end": "p = 3"}, order_by="ts").count() == 1


@pytest.mark.parametrize("seed", seeds(3, 300))
def test_masks_equal_texts(seed):
    """Conditions as texts and as truth values give the same matches, by partition, in any order of rows."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"t": rng.permutation(60), "k": rng.integers(0, 3, 60), "p": rng.integers(0, 9, 60)})
    rules = {"partition_by": "k", "order_by": "t", "keep": Random(seed).choice([None, "longest"])}
    for pattern in ("low high", "low . high+ low", "(low | high){2,3} low"):
        texts = frame.cep.match(pattern, **{**rules, "define": {"low": "p < 4", "high": "p > 3"}})
        masks = {"low": frame["p"] < 4, "high": lambda df: (df["p"] > 3).sample(frac=1, random_state=seed)}
        by_masks = frame.cep.match(pattern, **{**rules, "define": masks})
        pd.testing.assert_frame_equal(texts.lineage(), by_masks.lineage())


WRONG = {  # condition, and what the error says
    "length": (EARLY[:2], "2 truth values for a frame of 4 rows"),
    "index": (EARLY.rename(index={"a": "x"}), "the index of the Series is not that of the frame"),
    "numbers": (FRAME["p"], "expected truth values, got values of type int64"),
    "two axes": ([[True]] * 4, "expected a truth value for each row, got list"),
    "nothing": (lambda df: None, "expected a truth value for each row, got NoneType"),
    "no such column": (lambda df: df.q > 2, "the function of the frame failed with AttributeError"),
    "no such attribute": (lambda p: p.hour == 5, "A function with one other argument gets the frame"),
}


@pytest.mark.filterwarnings("ignore:.*is not declared pure")
@pytest.mark.parametrize("name", WRONG)
def test_wrong_conditions_of_rows(name):
    condition, message = WRONG[name]
    with pytest.raises(cep.CepError, match=message):
        FRAME.cep.match("r", define={"r": condition}, order_by="ts")


def test_what_has_no_rows_says_what_to_do():
    with pytest.raises(cep.CepError, match="'r' is both a predicate of define and a column"):
        FRAME.assign(r=True).cep.match("r", define={"r": EARLY})
    for call in (cep.regex_query, lambda *given, **rest: cep.stream(*given, {"ts": "int64"}, **rest)):
        with pytest.raises(cep.CepError, match="elsewhere make them a column of this name"):
            call("r", define={"r": EARLY}, order_by="ts")


@pytest.mark.spark
def test_on_spark(session):
    frame = session.createDataFrame(FRAME)
    with pytest.raises(cep.CepError, match="elsewhere make them a column of this name"):
        frame.cep.match("r", define={"r": EARLY}, order_by="ts")
