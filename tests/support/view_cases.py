"""What views of results show in tests: rates of agents, a table of utilities, and a replay."""

from __future__ import annotations

from functools import cache

import pandas as pd

import cepkit as cep
from cepkit.parallel.model import AgentRates

RATES = AgentRates((0.5, 1.0, 2.0, 0.25), window=10.0, selectivities=(1.0, 0.1, 0.2, 0.5))
GOOD = {"event_type": ["A", "B"], "utility": [0.5, 1], "position": [0, 1], "n": [1, 2]}


@cache
def replayed(shedding: str = "random_input"):
    """Return a replay of 800 events of two types that drops some of them in its peaks."""
    frame = pd.DataFrame({"kind": list("ab") * 400, "ts": range(800)})
    return cep.replay(
        frame, "PATTERN SEQ(a x, b y) WITHIN 20", latency_bound="100 us", shedding=shedding,
        event_type="kind", order_by="ts",
    )  # fmt: skip
