"""The cases of the benchmark: a frame of any size, what a user writes, and what one could write instead.

This module imports what a user imports. What a peer needs is imported when the peer is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

import cepkit as cep

Works = Mapping[str, Callable[[], object]]


def _none(frame: pd.DataFrame) -> Works:
    return {}


@dataclass(frozen=True)
class Case:
    """What is measured. Works and peers have the same number of rows, except peers in ``differ``.

    ``peers`` gives the C twin (names that begin with "C") and plain idioms. They take a prepared frame.
    """

    what: str
    frame: Callable[[int], pd.DataFrame]
    works: Callable[[pd.DataFrame], Works]
    peers: Callable[[pd.DataFrame], Works] = _none
    differ: tuple[str, ...] = ()
    most_rows: Mapping[str, int] | None = None  # of works and peers that are slow; "" for the whole case

    def fits(self, work: str, n_rows: int) -> bool:
        """Return whether a work or peer runs at a size."""
        return n_rows <= (self.most_rows or {}).get(work, n_rows)


# --- frames -------------------------------------------------------------------------------------------------


def paper_trades(n_rows: int) -> pd.DataFrame:
    """Return trades with 390 symbols, as the MatchRegex paper has them."""
    from cepkit.datasets import PAPER_TRADES, trades

    frame = trades(min(n_rows, 10_000), repetitions=max(1, -(-n_rows // 10_000)), **PAPER_TRADES)
    return frame.head(n_rows)


def typed(n_rows: int, share: float = 0.021, n_keys: int = 390, seed: int = 0) -> pd.DataFrame:
    """Return events one tick apart with a type, a number and a key; ``share`` of them are A, B or C."""
    rng = np.random.default_rng(seed)
    kind = rng.choice([*"ABCD"], n_rows, p=[share / 3] * 3 + [1 - share])
    kind = pd.Categorical(kind, categories=[*"ABCD"])
    numbers = {"x": rng.random(n_rows), "key": rng.integers(0, n_keys, n_rows)}
    return pd.DataFrame({"t": np.arange(n_rows), "kind": kind, **numbers})


def walk(n_rows: int, n_keys: int = 390, seed: int = 7) -> pd.DataFrame:
    """Return trades of a random walk per key; few keys have most of the rows."""
    rng = np.random.default_rng(seed)
    share = 1 / np.arange(1, n_keys + 1)
    key = rng.choice(n_keys, n_rows, p=share / share.sum())
    order = np.argsort(key, kind="stable")
    step = np.empty(n_rows)
    step[order] = np.cumsum(rng.integers(-1, 2, n_rows))
    names = np.array([f"S{i:03}" for i in range(n_keys)])
    times = pd.Timestamp("2024-01-01") + pd.to_timedelta(np.cumsum(rng.integers(1, 50, n_rows)), unit="ms")
    return pd.DataFrame({"symbol": names[key], "ts": times, "price": 1000 + step * 0.25})


def clicks(n_rows: int, seed: int = 7) -> pd.DataFrame:
    """Return clicks of 390 users, one every second and a half on average, with prices of a random walk."""
    rng = np.random.default_rng(seed)
    times = pd.Timestamp("2024-01-31") + pd.to_timedelta(np.cumsum(rng.integers(1, 3000, n_rows)), unit="ms")
    return pd.DataFrame(
        {
            "ts": times,
            "user": rng.integers(0, 390, n_rows),
            "kind": rng.choice(["view", "view", "help", "cart", "buy"], n_rows),
            "price": np.round(100 + np.cumsum(rng.normal(0, 0.01, n_rows)), 2),
        }
    )


def many_keys(n_rows: int) -> pd.DataFrame:
    """Return as many different text keys as rows, as objects, as Arrow's texts and as categories."""
    keys = np.random.default_rng(3).permutation(n_rows)
    texts = pd.Series([f"user-{key:07}" for key in keys], dtype=object)
    x = np.random.default_rng(4).random(n_rows)
    frame = pd.DataFrame({"ts": np.arange(n_rows), "x": x, "object": texts})
    return frame.assign(arrow=texts.astype("string[pyarrow]"), category=texts.astype("category"))


# --- queries ------------------------------------------------------------------------------------------------

M_SHAPE = ". rise+ drop+ rise+ drop* deep"
M_SHAPE_DEFINE = {
    "rise": "price > first(price) and price >= prev(price)",
    "drop": "price >= first(price) and price < prev(price)",
    "deep": "price < first(price) and price < prev(price)",
}
LEAST_SIZE = 100
LARGE = {"large": f"size > {LEAST_SIZE}", "rise": "price > prev(price)", "drop": "price < prev(price)"}
RISING = "PATTERN SEQ(A a, B b, C c) WHERE a.x < b.x AND b.x < c.x WITHIN {}"
ABSENT = "PATTERN SEQ(A a, !B b, C c) WHERE a.x < b.x WITHIN {}"
KEYED = "PATTERN SEQ(A a, B b, C c) WHERE [key] AND a.x < b.x AND b.x < c.x WITHIN {}"
WITHIN, KEYED_WITHIN, NEXT_WITHIN = 4600, 400_000, 40_000
DROP, RISE = "price < PREV(price)", "price > PREV(price)"
SQL_SHAPE = f"""MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY ts
  MEASURES FIRST(A.ts) AS start, LAST(C.price) AS top, LAST(D.price) AS bottom, LAST(E.ts) AS stop
  PATTERN (A B+ C+ D+ E+) DEFINE B AS {DROP}, C AS {RISE}, D AS {DROP}, E AS {RISE})"""
SIDDHI = """from every e1=Trades[size > 100] -> e2=Trades[symbol == e1.symbol and price > e1.price * 1.01]
  within 1 sec select e1.price as low, e2.price as high insert into Jumps"""
STEPS = ["view", "cart", "buy"]
BY_SYMBOL = {"partition_by": "symbol", "order_by": "ts"}
BY_USER = {"partition_by": "user", "order_by": "ts"}
TYPED = {"event_type": "kind", "order_by": "t"}


def _regex(pattern: str, define: Mapping[str, str]) -> Callable[[pd.DataFrame], Works]:
    def works(frame: pd.DataFrame) -> Works:
        return {"frame": lambda: cep.match(frame, pattern, define=define, **BY_SYMBOL).to_frame()}

    return works


def _sequence(text: str, *looks: str, **more: str) -> Callable[[pd.DataFrame], Works]:
    def works(frame: pd.DataFrame) -> Works:
        ask = lambda: cep.match(frame, text, **TYPED, **more)  # noqa: E731
        asked = {"count": lambda: ask().count(), "frame": lambda: ask().to_frame(limit=None)}
        return {look: asked[look] for look in looks}

    return works


def _peers(name: str) -> Callable[[pd.DataFrame], Works]:
    def peers(frame: pd.DataFrame) -> Works:
        import peers

        return getattr(peers, name)(frame)

    return peers


def _window(frame: pd.DataFrame) -> Works:
    by_time = frame.set_index("ts")
    return {"frame": lambda: cep.window(by_time, {"mean": "avg(price)", "n": "count()"}, time="15 s")}


WORKLOADS = {
    "W1": Case(
        "regex: M shapes that look at their first row", paper_trades, _regex(M_SHAPE, M_SHAPE_DEFINE),
        _peers("m_shapes"), most_rows={"DuckDB": 10**6, "Python loop": 10**6},
    ),
    "W2": Case(
        "regex: a large trade, rises, a drop", paper_trades, _regex("large rise+ drop", LARGE),
        _peers("large_trades"), differ=("numpy and re",),
    ),
    "W3": Case(
        "sequence: rising A, B, C, 2 % of the events", typed,
        _sequence(RISING.format(WITHIN), "frame", "count"), _peers("rising"),
        most_rows={"polars join_where": 10**6, "polars stretches": 10**6, "Python loop": 10**5},
    ),
    "W4": Case(
        "sequence: no greater B between A and C", typed,
        _sequence(ABSENT.format(WITHIN), "frame", "count"), _peers("absent"),
        most_rows={"DuckDB not exists": 10**5, "DuckDB stretches": 10**6, "Python loop": 10**5},
    ),
    "W5": Case(
        "sequence: rising A, B, C of one key", typed,
        _sequence(KEYED.format(KEYED_WITHIN), "frame", "count"), _peers("keyed"),
        most_rows={"DuckDB": 10**6, "polars": 10**6, "Python loop": 10**5},
    ),
    "next": Case(
        "sequence: rising A, B, C of one key, skip till next", lambda n: typed(n, 0.75),
        _sequence(KEYED.format(NEXT_WITHIN), "frame", "count", strategy="next"), _peers("keyed_next"),
        most_rows={"Python loop": 10**5},
    ),
    "sql": Case(
        "MATCH_RECOGNIZE: M shapes", walk,
        lambda frame: {"frame": lambda: cep.match(frame, SQL_SHAPE).to_frame()}, _peers("letters"),
    ),
    "runs": Case(
        "runs of rising prices", clicks,
        lambda frame: {"frame": lambda: cep.runs(frame, "price > prev(price)", **BY_USER)},
        _peers("runs"),
    ),
    "sessions": Case(
        "sessions of users", clicks,
        lambda frame: {"frame": lambda: cep.sessions(frame, gap="30 min", **BY_USER)}, _peers("sessions"),
    ),
    "funnel": Case(
        "funnel of three steps within a day", clicks,
        lambda frame: {
            "frame": lambda: list(
                cep.funnel(frame, STEPS, within="1 day", event_type="kind", **BY_USER).to_frame()["reached"]
            )
        },
        _peers("funnel"),
    ),
    "window": Case("means of the last 15 seconds", clicks, _window, _peers("rolling")),
    "siddhi": Case(
        "SiddhiQL: jumps within a second", paper_trades,
        lambda frame: {"frame": lambda: cep.siddhi(SIDDHI, Trades=frame, order_by="ts").to_frame()},
        most_rows={"": 10**5},
    ),
}  # fmt: skip


# --- the first query of a process, of each kind -------------------------------------------------------------


def _asked(kind: str) -> Callable[[pd.DataFrame], Works]:
    def works(frame: pd.DataFrame) -> Works:
        return {"call": lambda: CALLS[kind][1](frame)}

    return works


def _rising(frame: pd.DataFrame, **more: object):
    return cep.match(frame, RISING.format(60), **TYPED, **more)


def _drops(frame: pd.DataFrame):
    define = {"rise": "price > first(price)", "drop": "price < first(price) and price < prev(price)"}
    return cep.match(frame, ". rise+ drop", define=define, **BY_SYMBOL)


def _joined(frame: pd.DataFrame) -> pd.DataFrame:
    sides = cep.Window(time="1 s"), cep.Window(length=1)
    other = frame[["ts", "symbol", "size"]]
    return cep.join(frame, other, left=sides[0], right=sides[1], on="symbol", order_by="ts")


def _busy(n_rows: int) -> pd.DataFrame:
    return typed(n_rows, 0.75)


CALLS: dict[str, tuple[Callable[[int], pd.DataFrame], Callable[[pd.DataFrame], object]]] = {
    "regex": (paper_trades, lambda frame: _drops(frame).to_frame()),
    "sequence count": (_busy, lambda frame: _rising(frame).count()),
    "sequence list": (_busy, lambda frame: _rising(frame).to_frame(limit=None)),
    "next list": (_busy, lambda frame: _rising(frame, strategy="next").to_frame(limit=None)),
    "MATCH_RECOGNIZE": (walk, lambda frame: cep.match(frame, SQL_SHAPE).to_frame()),
    "window": (
        paper_trades, lambda frame: cep.window(frame, {"mean": "avg(price)"}, time="15 s", order_by="ts"),
    ),
    "join": (paper_trades, _joined),
    "sessions": (clicks, lambda frame: cep.sessions(frame, gap="30 min", **BY_USER)),
    "runs": (clicks, lambda frame: cep.runs(frame, "price > prev(price)", **BY_USER)),
    "funnel": (_busy, lambda frame: cep.funnel(frame, RISING.format(60), **TYPED).to_frame()),
    "funnel of steps": (
        clicks, lambda frame: cep.funnel(frame, STEPS, within="1 day", event_type="kind", **BY_USER),
    ),
    "sample": (_busy, lambda frame: _rising(frame).sample(1000, seed=0)),
    "why_not": (_busy, lambda frame: str(cep.why_not(frame, RISING.format(60), rows=[3, 20, 40], **TYPED))),
    "simulate": (
        _busy,
        lambda frame: cep.simulate(frame, RISING.format(30), engine=cep.Hybrid(threads=4), **TYPED).n_matches,
    ),
    "Hybrid": (_busy, lambda frame: _rising(frame, engine=cep.Hybrid(threads=2)).count()),
    "plot": (paper_trades, lambda frame: _drops(frame).plot() and 1),
    "siddhi": (
        paper_trades, lambda frame: cep.siddhi(SIDDHI, Trades=frame.head(1000), order_by="ts").to_frame(),
    ),
}  # fmt: skip
FIRST = {f"first {kind}": Case(f"first {kind}", made, _asked(kind)) for kind, (made, _) in CALLS.items()}


# --- pages, threads, keys -----------------------------------------------------------------------------------


def _pages(text: str, keywords: Mapping[str, str], **more: str) -> Callable[[pd.DataFrame], Works]:
    def works(frame: pd.DataFrame) -> Works:
        found = lambda: cep.match(frame, text, **keywords, **more)  # noqa: E731
        return {
            "prepare": lambda: cep.match(frame, "PATTERN SEQ(A a) WITHIN 1", **keywords).count(),
            "head": lambda: found().head(10),
            "item": lambda: found()[2] and 1,
            "repr": lambda: repr(found())[:0],
            "sample": lambda: found().sample(10, seed=0),
        }

    return works


PAGE_WORKS = ("head", "item", "repr", "sample")
SUMS = "PATTERN SEQ(A a, B b, C c) WHERE a.x + b.x < 2 * c.x - 0.4 WITHIN {}"
PAGES = {
    "head rising": Case("one key, rising A, B, C", _busy, _pages(RISING.format(3600), TYPED)),
    "head sums": Case(
        "one key, a.x + b.x < 2 * c.x - 0.4", _busy, _pages(SUMS.format(3600), TYPED), most_rows={"": 10**5}
    ),
    "head next": Case("one key, next", _busy, _pages(RISING.format(3600), TYPED, strategy="next")),
}


def _by_key(name: str) -> Callable[[pd.DataFrame], Works]:
    pattern, define = "low up", {"low": "x < 0.5", "up": "x > prev(x)"}

    def first(frame: pd.DataFrame) -> int:
        own = frame[["ts", "x", name]].copy()  # nothing is known of a copy
        return cep.match(own, pattern, define=define, partition_by=name, order_by="ts").count()

    return lambda frame: {"first call": lambda: first(frame)}


KEYS = {
    f"keys {name}": Case(f"as many keys as rows, {name}", many_keys, _by_key(name), _peers(f"shifts_{name}"))
    for name in ("object", "arrow", "category")
}

THREADS = {
    "threads regex": Case("W1", paper_trades, _regex(M_SHAPE, M_SHAPE_DEFINE)),
    "threads any": Case(
        "rising A, B, C of one key, listed", typed, _sequence(KEYED.format(KEYED_WITHIN), "frame")
    ),
    "threads counting": Case(
        "rising A, B, C of one key, counted", lambda n: typed(n, 0.3),
        _sequence(KEYED.format(KEYED_WITHIN), "count"),
    ),
    "threads next": Case(
        "the same, skip till next", lambda n: typed(n, 0.75),
        _sequence(KEYED.format(NEXT_WITHIN), "frame", strategy="next"),
    ),
    "threads MATCH_RECOGNIZE": Case("M shapes", walk, WORKLOADS["sql"].works),
}  # fmt: skip


# --- queries that take a slow path --------------------------------------------------------------------------


def _row_pattern(pattern: str, define: str) -> Callable[[pd.DataFrame], Works]:
    subset = "SUBSET U = (B, C) " if "U." in define else ""
    text = f"""MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY ts MEASURES FIRST(ts) AS start, LAST(ts) AS stop
      PATTERN ({pattern}) {subset}DEFINE {define})"""
    return lambda frame: {"frame": lambda: cep.match(frame, text).to_frame()}


_DEFINES = {
    "M shape": ("A B+ C+ D", f"B AS {RISE}, C AS {DROP}, D AS price < A.price"),
    "M shape with FIRST and LAST": (
        "A B+ C+ D+ E+",
        f"B AS {DROP}, C AS {RISE}, D AS {DROP} AND price > LAST(B.price), "
        f"E AS {RISE} AND price < FIRST(B.price)",
    ),
    "SUM": ("A B+", "B AS SUM(B.price) < 5000"),
    "COUNT": ("A B+ C", f"B AS {RISE}, C AS COUNT(B.price) > 2"),
    "MAX": ("A B+ C", f"B AS {RISE}, C AS price < MAX(B.price) - 1"),
    "AVG": ("A B+ C", f"B AS {RISE}, C AS price < AVG(B.price)"),
    "SUBSET": ("A B+ C+ D", f"B AS {RISE}, C AS {DROP}, D AS price > AVG(U.price)"),
    "CLASSIFIER": ("A (B | C)+ D", f"B AS {RISE}, C AS {DROP} AND PREV(CLASSIFIER()) = 'B', D AS {DROP}"),
    "LAST(B, 1)": ("A B+ C", f"B AS {RISE}, C AS price < LAST(B.price, 1)"),
    "LAST(B) and A": ("A B+ C", "B AS price > A.price, C AS price < LAST(B.price) AND price < A.price"),
}
HARD = {
    **{
        f"hard {name}": Case(f"MATCH_RECOGNIZE with {name} in DEFINE", walk, _row_pattern(*query))
        for name, query in _DEFINES.items()
    },
    "hard loop": Case(
        "regex: . any* low, complementary conditions", walk,
        lambda frame: {
            "frame": lambda: cep.match(
                frame, ". any* low", order_by="ts",
                define={"any": "price >= first(price) - 1000", "low": "price < first(price) - 1000"},
            ).to_frame()
        },
    ),
}  # fmt: skip

CASES: dict[str, Case] = {**WORKLOADS, **FIRST, **PAGES, **KEYS, **THREADS, **HARD}
