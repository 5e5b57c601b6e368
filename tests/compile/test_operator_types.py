"""What numba remembers of the types of operators changes no answer."""

from __future__ import annotations

import numba
import numpy as np
import pytest
from numba import types

from cepkit.kernels import jit

pytestmark = pytest.mark.skipif(numba.config.DISABLE_JIT, reason="compiles")


def count_searches(monkeypatch) -> list:
    """Return a list that grows by one for each operator or function whose types numba looks for."""
    searched = []
    search = types.BaseFunction.get_call_type

    def note(function, context, args, kws):
        searched.append((function, args))
        return search(function, context, args, kws)

    monkeypatch.setattr(types.Function, "get_call_type", note)
    jit._remember_types_of_calls()
    return searched


def test_each_operator_is_looked_up_once_for_the_same_types(monkeypatch):
    searched = count_searches(monkeypatch)

    def sums(x, y):
        return x * y + x * y - x * y, x * 1.5 + y * 1.5

    for _ in range(2):
        compiled = jit.njit(sums)
        assert compiled(3, 4) == (12, 10.5)
        assert compiled(0.5, 4.0) == (2.0, 6.75)
        assert compiled(np.int8(3), np.float32(4)) == (12, 10.5)
    assert len(searched) == len(set(searched)) > 5


def test_functions_that_depend_on_the_options_of_the_caller_are_looked_up_again(monkeypatch):
    """A division by zero is an error in Python and infinite in numpy, also within a function of numpy."""
    count_searches(monkeypatch)
    values = np.array([1.0, 0.0])

    def ratio(x):
        return x[0] / x[1], np.mean(x)

    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            jit.njit(ratio)(values)
        assert jit.njit(ratio, error_model="numpy")(values) == (np.inf, 0.5)


def test_what_has_no_types_is_an_error_each_time(monkeypatch):
    count_searches(monkeypatch)

    def wrong(x):
        return x + "a"

    for _ in range(2):
        with pytest.raises(numba.TypingError, match="No implementation of function"):
            jit.njit(wrong)(1)
