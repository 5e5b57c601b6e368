"""Codes of texts: the same numbers whatever hashes the texts, in the order of their first rows."""

from __future__ import annotations

from random import Random

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import cepkit as cep
from cepkit.frames.pandas import PandasSource

ODD = ["", "a", "A", "a\0", "ä", "a\u0308", "日本", "🙂", " ", "nan", "None"]
MISSING = [None, float("nan"), pd.NA]


class Name(str):
    """A text of the user's own class."""


def objects(draw: Random, n: int) -> np.ndarray:
    """Return texts as objects: few or many different ones, the same objects or equal ones, some missing."""
    n_texts = draw.choice([1, 3, n // 9 + 1, n])
    known = [draw.choice(ODD) + str(draw.randrange(n_texts)) for _ in range(n_texts)] + ODD
    if draw.random() < 0.3:
        known += ["\ud800", "a\udfff"]  # Arrow has no half characters
    if draw.random() < 0.3:
        known = [Name(text) if draw.random() < 0.2 else text for text in known]
    is_copied, share = draw.random() < 0.5, draw.choice([0, 0.2])
    values = np.empty(n, object)
    for row in range(n):
        text = draw.choice(known)
        copied = (text + "!")[:-1] if is_copied and type(text) is str else text
        values[row] = draw.choice(MISSING) if draw.random() < share else copied
    return values


@pytest.mark.parametrize("seed", range(30))
def test_codes_of_objects(seed):
    draw = Random(f"codes {seed}")
    values = objects(draw, draw.choice([1, 20, 400]))
    column = PandasSource(pd.DataFrame({"k": pd.Series(values, dtype=object)})).column("k")
    texts = list(dict.fromkeys(value for value in values if isinstance(value, str)))
    codes = [texts.index(value) if isinstance(value, str) else -1 for value in values]
    assert column.values.tolist() == codes and column.values.dtype == np.int64
    assert column.texts.tolist() == texts


@pytest.mark.parametrize("of", [pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string())])
def test_codes_of_arrow(of):
    values = pa.array(["b", None, "a", "b", ""]).cast(of)
    column = PandasSource(pd.DataFrame({"k": pd.Series(values, dtype=pd.ArrowDtype(of))})).column("k")
    assert column.values.tolist() == [0, -1, 1, 0, 2] and column.texts.tolist() == ["b", "a", ""]


def test_a_dictionary_with_null_among_its_values():
    values = pa.DictionaryArray.from_arrays(pa.array([1, 0, None, 2]), pa.array([None, "a", "b"]))
    column = PandasSource(pd.DataFrame({"k": pd.Series(pd.arrays.ArrowExtensionArray(values))})).column("k")
    texts = [None if code < 0 else column.texts[code] for code in column.values]
    assert texts == ["a", None, None, "b"]


def test_objects_of_a_class_of_texts_may_change():
    class Changing(Name):
        pass

    names = np.array([Changing(f"key {i}") for i in range(30_000)], object)
    frame = pd.DataFrame({"k": names, "x": np.arange(30_000)})
    first = cep.match(frame, ". .", partition_by="k").count()
    frame["k"] = "one"
    assert (first, cep.match(frame, ". .", partition_by="k").count()) == (0, 15_000)
