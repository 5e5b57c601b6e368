"""The tiers in which a query runs: as users have it, interpreted, compiled. Their answers are compared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

import cepkit as cep
from cepkit.engines import regex, search
from cepkit.engines.counting import anchored, counts, layout
from cepkit.engines.shared import places as kernels
from cepkit.engines.shared import python_kernels
from cepkit.parallel import agents
from tests.support.sizes import JIT, seeds

TIERS = ("default", "interpreted", "compiled") if JIT else ("default",)  # without the JIT they are one
_CHEAP_TIERS = tuple(tier for tier in TIERS if tier != "compiled")
ENGINES = (agents, anchored, counts, kernels, layout, regex, python_kernels, search)


def seeds_of_tiers(n: int, of: int, name: str = "seed") -> pytest.MarkDecorator:
    """Parametrize a random family by tier and seed: ``n`` seeds in each tier, and one in the compiled tier.

    Machine code costs a second for each shape. Without the JIT, all seeds run the text that is compiled.
    """
    pairs = [(tier, seed) for tier in _CHEAP_TIERS for seed in seeds(n, of)]
    if "compiled" in TIERS:
        pairs += [("compiled", seed) for seed in seeds(1, of)]
    return pytest.mark.parametrize(("tier", name), pairs, indirect=["tier"])


def use_tier(tier: str, monkeypatch: Any) -> None:
    """Run queries in one of the tiers. What cannot be interpreted is compiled in all of them."""
    if tier == "compiled":
        monkeypatch.setenv("CEPKIT_TIER", "compiled")
    elif tier == "interpreted":
        interpret(monkeypatch)


def interpret(monkeypatch: Any) -> None:
    """Interpret every query that can be interpreted, and compile nothing in the background."""
    instead = {"reason_to_compile": None, "compile_if_it_pays": None, "is_ready": False}
    for module in ENGINES:
        for name, answer in instead.items():
            if hasattr(module, name):
                monkeypatch.setattr(module, name, lambda *_, answer=answer: answer)


def run_as_python(monkeypatch: Any) -> None:
    """Run the kernels that are generated for sequences as Python, as without the JIT."""

    def load(program: Any, text: str, name: str) -> Callable[..., Any]:
        return np.errstate(all="ignore")(python_kernels.plain_module(program, text)[name])

    for module in (kernels, layout, search):
        monkeypatch.setattr(module, "kernel", load)


def sequence_stream(n: int) -> pd.DataFrame:
    """Return events of four types with a key, a clock, an integer and a float that may be null."""
    rng = np.random.default_rng(8)
    return pd.DataFrame({
        "kind": rng.choice(list("ABCD"), n), "k": rng.integers(0, 4, n), "t": np.arange(n),
        "x": rng.integers(0, 50, n), "y": np.where(rng.random(n) < 0.1, np.nan, rng.random(n)),
    })  # fmt: skip


def check_tiers(
    monkeypatch: Any,
    frame: pd.DataFrame,
    query: str,
    begin: Callable[[], None],
    *,
    n_shown: int | None = None,
    least: int = 1000,
    tier: str = "interpreted",
    **keywords: Any,
) -> None:
    """Compare the count and the matches of a query, compiled and after ``begin`` switched interpretation on.

    ``n_shown`` limits the matches that are compared; there must be more than ``least``.
    """

    def answers() -> tuple[tuple[int, int], pd.DataFrame, str]:
        keywords.update(event_type="kind", order_by="t")
        matches = cep.match(frame, query, **keywords)
        shown = matches.to_frame("all") if n_shown is None else matches.head(n_shown)
        # Kernels that only count are others than those that also list.
        n_alone = cep.match(frame, query, **keywords).count()
        return (matches.count(), n_alone), shown, matches.run.tier

    with monkeypatch.context() as patched:
        patched.setenv("CEPKIT_TIER", "compiled")
        compiled = answers()
    begin()
    found = answers()
    assert (compiled[2], found[2]) == ("compiled", tier)
    assert found[0] == compiled[0]
    assert compiled[0][0] == compiled[0][1] > least
    pd.testing.assert_frame_equal(found[1], compiled[1])
