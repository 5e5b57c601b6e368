"""Work of every kind that takes minutes, to be ended in the middle."""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd

import cepkit as cep

N = 250_000
PAIRS = "PATTERN SEQ(A a, B b) WHERE a.x > b.x + :n"
TRIPLES = (
    "PATTERN SEQ(A a, B b, B c) WHERE a.x > b.x AND c.x > a.x + b.x"  # a sample tests the last condition
)
CALL = {"event_type": "kind", "order_by": "ts"}


@cache
def events(n: int) -> pd.DataFrame:
    """Return many events of type A and many B after them: 10^10 pairs and more, all in one window."""
    x = np.random.default_rng(1).random(2 * n)
    return pd.DataFrame(
        {"ts": range(2 * n), "kind": ["A"] * n + ["B"] * n, "x": x, "k": np.arange(2 * n) % 4}
    )


def matches(engine="auto", query=PAIRS):
    params = {"n": 5.0} if ":n" in query else None
    return events(N).cep.match(query, engine=engine, params=params, **CALL)


def rows():
    """Return the matches of a regex; every row looks at all partial matches of its key."""
    frame = pd.DataFrame({"k": np.arange(1_500_000) % 3, "x": 1})
    define = {"e": "sum(x) < :n", "full": "sum(x) >= :n"}
    return frame.cep.match(". e* full", define=define, params={"n": 2**60}, partition_by="k")


WORKS = {
    "count": lambda: matches().count(),
    "walk": lambda: sum(map(len, matches(query="PATTERN SEQ(A a, B b) WHERE a.x > b.x").chunks())),
    "aggregate": lambda: matches().aggregate(s="sum(a.x)"),
    "search": lambda: matches("search").count(),
    "ordered": lambda: matches("ordered").count(),
    "linked": lambda: matches("linked", "PATTERN SEQ(A a, B b) WHERE a.x > b.x").count(),
    "sase_runs": lambda: matches("sase_runs", "PATTERN SEQ(A a, B b) WHERE a.x > b.x").count(),
    "estimate": lambda: matches(query=TRIPLES).count(method="estimate"),
    "funnel": lambda: cep.funnel(events(N), PAIRS, params={"n": 5.0}, **CALL),
    "sequential": lambda: matches(cep.Sequential()).count(),
    "hybrid": lambda: matches(cep.Hybrid(threads=2)).count(),
    "rip": lambda: matches(cep.RIP(threads=2)).count(),
    "state": lambda: matches(cep.StateParallel()).count(),
    "data": lambda: matches(cep.DataParallel(threads=2), PAIRS + " AND [k]").count(),
    "regex": lambda: rows().count(),
}
