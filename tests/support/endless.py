"""Streams of each kind that run for ever in virtual time, and their events, with keys that come and go."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

import cepkit as cep

SCHEMA = {"t": "int64", "k": "string", "kind": "string", "x": "int64"}
KEYED = {"partition_by": "k", "order_by": "t"}
TYPED = {"event_type": "kind", "order_by": "t"}
RISES = {"define": {"up": "x > prev(x)", "down": "x < prev(x)"}}
SHAPE = "PATTERN (A B+ C) DEFINE B AS x > PREV(x), C AS x < PREV(x)"
TIMED = cep.Window({"n": "count()", "top": "max(x)"}, time=400, order_by="t", group_by="k")
SIDE = cep.Window(time=40)

KINDS: dict[str, Callable[[], Any]] = {
    "regex, idle": lambda: cep.stream("up+ down", SCHEMA, idle_after=400, **KEYED, **RISES),
    "regex, within": lambda: cep.stream(
        "high any* low", SCHEMA, define={"high": "x > 90", "any": "x >= 10", "low": "x < 10"},
        within=400, **KEYED
    ),
    "rows, idle": lambda: cep.stream(
        f"MATCH_RECOGNIZE (PARTITION BY k ORDER BY t MEASURES MATCH_NUMBER() AS n {SHAPE})",
        SCHEMA, idle_after=400,
    ),
    "rows, closed": lambda: cep.stream(
        "MATCH_RECOGNIZE (PARTITION BY k ORDER BY t PATTERN (A B) WITHIN INTERVAL '400' SECOND "
        "DEFINE A AS x > 90, B AS x < 10)", {**SCHEMA, "t": "timestamp[s]"}
    ),
    "sequence, next": lambda: cep.stream(
        "PATTERN SEQ(A a, B b, C c) WHERE [k] AND b.x > a.x WITHIN 400", SCHEMA, strategy="next", **TYPED
    ),
    "sequence, any": lambda: cep.stream(
        "PATTERN SEQ(A a, B b, C c) WHERE [k] AND b.x > a.x WITHIN 400", SCHEMA, strategy="any", **TYPED
    ),
    "sequence, absence": lambda: cep.stream("PATTERN SEQ(A a, !B b) WHERE [k] WITHIN 200", SCHEMA, **TYPED),
    "sequence, policy": lambda: cep.stream(
        "PATTERN SEQ(A a, C c) WITHIN 40", SCHEMA, after_match="past_last", partition_by="k", **TYPED
    ),
    "window": lambda: cep.stream(TIMED, SCHEMA),
    "join": lambda: cep.stream(
        cep.Join(SIDE, SIDE, on="k", order_by="t", measures={"n": "count()"}),
        {"left": SCHEMA, "right": SCHEMA},
    ),
    "chain": lambda: cep.stream([TIMED, cep.Window({"most": "max(n)"}, length=20)], SCHEMA),
    "after a buffer": lambda: cep.stream(
        [cep.KSlack(10, order_by="t", late="drop"), "up+ down"], SCHEMA, idle_after=400, **KEYED, **RISES
    ),
}  # fmt: skip


def events_of(kind: str, number: int, size: int, rng: np.random.Generator) -> list[pd.DataFrame]:
    """Return what is pushed: a key of ten events each, a hot key with a third of them, keys that pause."""
    place = number * size + np.arange(size)
    keys = np.where(place % 3 == 0, "hot", "k" + pd.Series(place // 10).astype(str))
    keys = np.where(place % 500 == 0, "rare", keys)
    kinds, values = rng.choice(list("ABCX"), size), rng.integers(0, 100, size)
    if kind == "after a buffer":  # some come late, and a few too late
        place = (place - np.where(rng.random(size) < 0.1, rng.integers(0, 30, size), 0)).clip(0)
    batch = pd.DataFrame({"t": place, "k": keys, "kind": kinds, "x": values})
    if kind == "rows, closed":
        batch["t"] = pd.to_datetime(batch["t"], unit="s")
    return [batch[::2], batch[1::2]] if kind == "join" else [batch]
