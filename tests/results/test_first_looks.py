"""Several threads look first at one result: each gets what one thread gets."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

import cepkit as cep

N, THREADS = 400, 8
_RNG = np.random.default_rng(3)
ROWS = pd.DataFrame({"t": np.arange(N), "kind": _RNG.choice(list("ABC"), N), "x": _RNG.integers(0, 50, N)})
CALL = {"event_type": "kind", "order_by": "t"}
SQL = (
    "SELECT * FROM f MATCH_RECOGNIZE (ORDER BY t MEASURES LAST(B.x) AS m PATTERN (A B+) "
    "DEFINE B AS B.x > PREV(B.x))"
)
RESULTS: dict[str, Callable] = {
    "counted": lambda: cep.match(ROWS, "PATTERN SEQ(A a, B b, C c) WHERE a.x < b.x WITHIN 30", **CALL),
    "counted loop": lambda: cep.match(
        ROWS, "PATTERN SEQ(A a, B+ b, C c) WHERE b[i].x > a.x WITHIN 12", **CALL
    ),
    "long counts": lambda: cep.match(ROWS, "PATTERN SEQ(A a, B+ b, C c) WITHIN 150", **CALL),
    "listed": lambda: cep.match(ROWS, "PATTERN SEQ(A a, B b, C c) WHERE a.x + b.x < c.x WITHIN 20", **CALL),
    "next": lambda: cep.match(ROWS, "PATTERN SEQ(A a, B b, C c) WITHIN 30", strategy="next", **CALL),
    "ordered": lambda: cep.match(ROWS, "PATTERN SEQ(A a, B b) WITHIN 20", engine="ordered", **CALL),
    "regex": lambda: cep.match(ROWS, ". up+ down", define={"up": "x > prev(x)", "down": "x < prev(x)"}),
    "rows": lambda: cep.match(ROWS, SQL),
}
LOOKS: dict[str, Callable] = {
    "count": lambda found: found.count(),
    "head": lambda found: found.head(5).to_string(),
    "sample": lambda found: found.sample(7, seed=1).to_string() if hasattr(found, "sample") else None,
    "last": lambda found: found.to_frame().tail(5).to_string() if found.count() < 10**5 else None,
    "lineage": lambda found: found.lineage().to_string() if found.count() < 10**4 else None,
    "item": lambda found: str(found[found.count() - 1]) if found.count() < 2**62 else None,
    "repr": repr,
    "bool": bool,
}


def looked_at(make: Callable, looks: list[str]) -> list:
    """Return what threads see that look at one result at once."""
    found, seen, barrier = make(), [None] * len(looks), threading.Barrier(len(looks))

    def look(i: int) -> None:
        barrier.wait()
        try:
            seen[i] = LOOKS[looks[i]](found)
        except Exception as error:
            seen[i] = error

    threads = [threading.Thread(target=look, args=(i,)) for i in range(len(looks))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    return seen


@pytest.mark.parametrize("kind", RESULTS)
def test_eight_threads_see_what_one_thread_sees(kind):
    names = list(LOOKS)
    expected = {name: LOOKS[name](RESULTS[kind]()) for name in names if name != "repr"}
    for turn in range(25):
        looks = names if turn % 2 else [names[turn // 2 % len(names)]] * THREADS
        seen = looked_at(RESULTS[kind], looks)
        for name, own in zip(looks, seen, strict=True):
            assert not isinstance(own, Exception), f"{name}: {own!r}"
            if name != "repr":  # it says the number of matches only after they were counted
                assert own == expected[name], name


def test_a_result_with_a_lock_is_pickled():
    found = RESULTS["counted"]()
    assert pickle.loads(pickle.dumps(found)).count() == found.count()
