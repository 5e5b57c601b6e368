"""Results of `@cep.pure` functions that are no numbers: the error names the function and the value."""

from __future__ import annotations

import pandas as pd
import pytest

import cepkit as cep
from cepkit.language.expressions import functions

FRAME = pd.DataFrame({"kind": list("ab") * 3, "ts": range(6), "x": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]})
CALLS = {
    "regex": lambda: cep.match(FRAME, "p", define={"p": "odd_result(x) > 1"}).count(),
    "sequence": lambda: cep.match(
        FRAME, "PATTERN SEQ(a p, b q) WHERE odd_result(p.x) > 1", event_type="kind", order_by="ts"
    ).count(),
    "runs": lambda: cep.runs(FRAME, "odd_result(x) > 1"),
}


@pytest.fixture
def odd_result(monkeypatch):
    """Register a function that returns a fixed value, for one test."""
    monkeypatch.setattr(functions, "_REGISTRY", dict(functions._REGISTRY))

    def register(value):
        cep.pure(lambda x: value, name="odd_result")

    return register


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(("value", "shown"), [(None, "None"), ("x", "'x'"), (pd.NA, "<NA>")])
def test_a_result_that_is_no_number_is_named(value, shown, call, odd_result):
    odd_result(value)
    with pytest.raises(cep.CepError, match=f"function 'odd_result' returned {shown} of type"):
        CALLS[call]()


@pytest.mark.parametrize(("value", "shown"), [("x", "'x'"), (pd.NA, "<NA>")])
def test_siddhi_names_the_call_and_the_value(value, shown, odd_result):
    odd_result(value)
    with pytest.raises(cep.CepError, match=rf"odd_result\(x\) > 1 compares {shown} of type"):
        cep.siddhi("from T[odd_result(x) > 1] select x insert into O", T=FRAME).count()


@pytest.mark.parametrize(("value", "n"), [(None, 0), ("x", 6), (True, 6), (2, 6)])
def test_results_that_are_truth_values_stay_truth_values(value, n, odd_result):
    odd_result(value)
    assert cep.match(FRAME, "p", define={"p": "odd_result(x)"}).count() == n
