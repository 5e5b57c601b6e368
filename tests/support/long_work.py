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


ROW_PATTERN = """MATCH_RECOGNIZE (ORDER BY ts MEASURES COUNT(*) AS n
  PATTERN (a b*? c) DEFINE b AS b.x > 2 * FIRST(x), c AS c.x > SUM(a.x) + 5)"""


def every_pair() -> None:
    """Join some ten million pairs."""
    frame = events(2_000).assign(one=1)
    cep.join(
        frame, frame, left=cep.Window(length=4_000), right=cep.Window(length=4_000), on="one", order_by="ts",
        measures={"n": "count()", "s": "sum(left.x)"},
    )  # fmt: skip


def patterns_of_siddhi() -> None:
    """Find patterns by the rules of Siddhi, with many partial matches."""
    text = "from every e1=S[x > 0.5] -> e2=S[x > e1.x + 0.49] select e1.x as y insert into B"
    cep.siddhi(text, S=events(50_000)[["ts", "x"]], order_by="ts").to_frame()


def windows_at_once() -> None:
    """Compute many aggregates of a window over all rows."""
    aggregates = {f"a{i}": f"distinct(x + {i})" for i in range(20)}
    cep.window(events(N), aggregates, length=N // 2)


# Work of the other engines. It has threads of its own, Python loops or long kernels.
MORE_WORKS = {
    "hybrid of 8": lambda: matches(cep.Hybrid(8, "static"), TRIPLES).count(),
    "rip of windows": lambda: matches(
        cep.RIP(4, multiple=2), "PATTERN SEQ(A a, B b) WHERE a.x > b.x + 5 WITHIN 200000"
    ).count(),
    "nodes": lambda: matches(cep.ScatterGather(nodes=4), PAIRS + " AND [k]").count(),
    "row pattern": lambda: cep.match(events(N), ROW_PATTERN).count(),
    "window": windows_at_once,
    "join": every_pair,
    "siddhi": patterns_of_siddhi,
    "simulate": lambda: cep.simulate(events(N), PAIRS, params={"n": 5.0}, engine=cep.Hybrid(4), **CALL),
    "replay": lambda: cep.replay(
        events(N),
        "PATTERN SEQ(A a, B b) WHERE a.x > b.x WITHIN 100000",
        latency_bound=1e9,
        warm_up=N + 50,
        **CALL,
    ),
    "frame": lambda: matches(query="PATTERN SEQ(A a, B b) WHERE a.x > b.x").to_frame(limit=None),
    "sample": lambda: matches(query=TRIPLES).sample(1000),
    "tag": lambda: cep.tag(events(N), ". e* f", define={"e": "sum(x) < 1000000", "f": "sum(x) >= 1000000"}),
}
