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
CHAIN = "PATTERN SEQ(A a, B b, C c) WHERE a.x < b.x WITHIN 30"
RESULTS: dict[str, Callable] = {
    "counted": lambda: cep.match(ROWS, CHAIN, **CALL),
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


USERS = ROWS.assign(user=ROWS.x % 7)
STEPS = ["kind == 'A'", "kind == 'B'", "kind == 'C'"]
FUNNEL = {
    "to_frame": lambda found: found.to_frame().to_string(),
    "times": lambda found: str(found.times()),
    "users": lambda found: str(found.users),
    "repr": repr,
}
EXPLANATION = {"text": str, "svg": lambda found: found.svg(), "states": lambda found: str(found.states)}
OTHERS: dict[str, tuple[Callable, dict[str, Callable]]] = {
    "funnel": (lambda: cep.funnel(USERS, STEPS, order_by="t", partition_by="user", within=30), FUNNEL),
    "explained sequence": (lambda: cep.explain(ROWS, CHAIN, **CALL), EXPLANATION),
    "explained rows": (lambda: cep.explain(ROWS, SQL), EXPLANATION),
}


def looked_at(make: Callable, looks: list[Callable]) -> list:
    """Return what threads see that look at one result at once."""
    found, seen, barrier = make(), [None] * len(looks), threading.Barrier(len(looks))

    def look(i: int) -> None:
        barrier.wait()
        try:
            seen[i] = looks[i](found)
        except Exception as error:
            seen[i] = error

    threads = [threading.Thread(target=look, args=(i,)) for i in range(len(looks))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    return seen


def check_first_looks(make: Callable, looks: dict[str, Callable], n_turns: int) -> None:
    """Let threads look first at new results: all in the same way, or each in another way."""
    names = list(looks)
    expected = {name: looks[name](make()) for name in names if name != "repr"}
    for turn in range(n_turns):
        chosen = [names[turn // 2 % len(names)]] * THREADS if turn % 2 == 0 else (names * THREADS)[:THREADS]
        seen = looked_at(make, [looks[name] for name in chosen])
        for name, answer in zip(chosen, seen, strict=True):
            assert not isinstance(answer, Exception), f"{name}: {answer!r}"
            if name != "repr":  # it says the number of matches only after they were counted
                assert answer == expected[name], name


@pytest.mark.parametrize("kind", [*RESULTS, *OTHERS])
def test_eight_threads_see_what_one_thread_sees(kind, full):
    make, looks = OTHERS[kind] if kind in OTHERS else (RESULTS[kind], LOOKS)
    check_first_looks(make, looks, 200 if full else 25)


@pytest.mark.spark
def test_eight_threads_see_what_one_thread_sees_on_spark(spark, full):
    if not full:
        pytest.skip("sixteen threads wait for jobs of Spark, a minute; --full runs them")
    rows = spark.createDataFrame(ROWS)
    looks = {
        "count": lambda found: found.count(), "frame": lambda found: found.to_frame().toPandas().to_string(),
        "repr": repr,
    }  # fmt: skip
    check_first_looks(lambda: cep.match(rows, CHAIN, **CALL), looks, 2)


@pytest.mark.parametrize("name", [name for name in RESULTS if name != "rows"])
def test_a_result_is_pickled_after_each_look(name):
    fresh = pickle.loads(pickle.dumps(RESULTS[name]()))
    for look in LOOKS.values():
        found = RESULTS[name]()
        expected = look(found)
        assert look(pickle.loads(pickle.dumps(found))) == expected == look(fresh)
