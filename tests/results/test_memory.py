"""However many matches there are, looking at some of them takes little memory."""

import tracemalloc
from itertools import islice

import numba
import numpy as np
import pandas as pd
import pytest

import cepkit as cep

JIT = not numba.config.DISABLE_JIT
MOST = 64 << 20


def frame_of(n: int) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    kind = pd.Categorical(rng.choice(list("ABCD"), n))
    return pd.DataFrame({"t": np.arange(n), "kind": kind, "x": rng.random(n)})


def looked_at(matches, n: int) -> dict:
    """Look at matches in every way that shows a part; what was seen, by way."""
    count = matches.count()
    chunks = list(islice((0 < len(chunk) <= n for chunk in matches.chunks(n)), 3))
    return {
        "count": count,
        "head": len(matches.head(20)),
        "chunks": sum(chunks),
        "iteration": sum(1 for _ in islice(matches, 200)),
        "sample": len(matches.sample(200, seed=1)),
        "one": [matches[k] is not None for k in (0, count // 3, count - 1)],
        "slice": len(matches[count // 2 : count // 2 + 50].to_frame()),
    }


@pytest.mark.skipif(not JIT, reason="plain Python takes hours for so many pairs of events")
@pytest.mark.parametrize(
    ("query", "n"),
    [
        ("PATTERN SEQ(A a, B b, C c, D d) WHERE a.x < b.x AND b.x < c.x AND c.x < d.x", 24_000),
        pytest.param(
            "PATTERN SEQ(A a, B+ b[], C c) WHERE b[i].x > b[i-1].x WITHIN 900", 6000, marks=pytest.mark.slow
        ),
    ],
)
@pytest.mark.long
def test_a_look_at_very_many_matches_takes_little_memory(query, n):
    options = {"event_type": "kind", "order_by": "t"}
    looked_at(cep.match(frame_of(300), query, **options), 100)  # kernels, and what numba keeps of them
    frame = frame_of(n)
    tracemalloc.start()
    try:
        seen = looked_at(cep.match(frame, query, **options), 1 << 16)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert seen.pop("count") >= 10**12
    assert seen.pop("one") == [True] * 3
    assert seen == {"head": 20, "chunks": 3, "iteration": 200, "sample": 200, "slice": 50}
    assert peak < MOST, peak
