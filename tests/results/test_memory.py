"""However many matches there are, looking at some of them takes little memory."""

import gc
import tracemalloc
from itertools import islice

import numpy as np
import pandas as pd
import pytest

import cepkit as cep
from cepkit.engines.counting import walking
from cepkit.engines.counting.walking import PathWalk
from cepkit.engines.shared.sequence_set import LineBlock
from cepkit.frames.pandas import PandasSource
from tests.support.sizes import JIT

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
        pytest.param("PATTERN SEQ(A a, B+ b[], C c) WHERE b[i].x > b[i-1].x WITHIN 900", 6000),
    ],
)
@pytest.mark.slow
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


CALLS = {  # the most memory in multiples of the columns, the result included
    "funnel": (2.2, lambda frame: cep.funnel(frame, RISING, **TYPED).to_frame()),
    "list": (2.6, lambda frame: cep.match(frame, RISING, **TYPED).to_frame(limit=None)),
}
RISING = "PATTERN SEQ(A a, B b, C c) WHERE a.x < b.x AND b.x < c.x WITHIN 60"
TYPED = {"event_type": "kind", "order_by": "t"}


@pytest.mark.skipif(not JIT, reason="plain Python makes other arrays")
@pytest.mark.parametrize("call", CALLS)
def test_memory_stays_near_the_columns_where_few_rows_are_named(call):
    rng, n = np.random.default_rng(0), 400_000
    kind = pd.Categorical(rng.choice([*"ABCD"], n, p=[0.25 / 3] * 3 + [0.75]))
    frame = pd.DataFrame({"t": np.arange(n), "kind": kind, "x": rng.random(n)})
    most, ask = CALLS[call]
    ask(frame.head(1000))  # kernels load
    gc.collect()  # garbage of other tests would move the moment when that of this call is freed
    tracemalloc.start()
    try:
        assert len(ask(frame))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < most * frame.memory_usage(index=False, deep=True).sum()


def test_all_matches_of_a_line_are_a_block(monkeypatch):
    """Blocks that are joined would take the memory of the matches again."""
    frame = frame_of(4000)
    wanted = cep.match(frame, RISING, **TYPED).to_frame()
    monkeypatch.setattr(walking, "MOST_PER_BLOCK", 16)
    matches = cep.match(frame, RISING, **TYPED)
    assert 16 < matches.count() == len(wanted)
    assert isinstance(matches._found.all(), LineBlock)
    pd.testing.assert_frame_equal(matches.to_frame(), wanted)


def test_all_matches_are_walked_once(monkeypatch):
    """The matches take less memory than what a walk needs, so that they are kept in its place."""
    frame = frame_of(4000)
    matches = cep.match(frame, RISING, **TYPED)
    wanted, n = matches.to_frame(), matches.count()
    monkeypatch.setattr(PathWalk, "__init__", None)
    pd.testing.assert_frame_equal(matches.to_frame(), wanted)
    pd.testing.assert_frame_equal(matches.head(7), wanted.head(7))
    pd.testing.assert_frame_equal(pd.concat(matches.chunks(n // 3), ignore_index=True), wanted)
    pd.testing.assert_frame_equal(matches[n - 5 : n].to_frame(), wanted.tail(5).reset_index(drop=True))
    monkeypatch.undo()
    pd.testing.assert_frame_equal(matches.sample(9, 1), cep.match(frame, RISING, **TYPED).sample(9, 1))


@pytest.mark.parametrize(
    "query",
    [
        "MATCH_RECOGNIZE (ORDER BY ts MEASURES B.v AS top PATTERN (A B+) DEFINE B AS v > PREV(v))",
        "high low",
        "PATTERN SEQ(a x, b y) WITHIN 9",
    ],
)
def test_a_result_and_its_frame_end_without_the_collector_of_garbage(query):
    """A cycle of references would keep the values of the frame until Python looks for garbage."""
    frame = pd.DataFrame({"ts": range(3000), "kind": list("ab") * 1500, "v": list(range(30)) * 100})
    options = {
        "MATCH": {},
        "high ": {"order_by": "ts", "define": {"high": "v > 20", "low": "v < 10"}},
        "PATTE": {"order_by": "ts", "event_type": "kind"},
    }[query[:5]]
    cep.match(frame, query, **options).to_frame()  # kernels load
    gc.collect()
    gc.freeze()  # nobody looks at older objects again, which takes long
    gc.disable()
    before = sources_in_memory()  # of other tests
    try:
        found = cep.match(frame, query, **options)
        assert len(found.to_frame()) and sources_in_memory() == before + 1
        del found
        assert sources_in_memory() == before
    finally:
        gc.enable()


def sources_in_memory() -> int:
    """Return how many frames are held as sources of columns."""
    return sum(type(held) is PandasSource for held in gc.get_objects())
