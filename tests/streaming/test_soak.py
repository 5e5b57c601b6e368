"""Streams that run for long, in virtual time: what they hold does not grow after the first window."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

import cepkit as cep
from cepkit.streaming.stream import JoinStream
from tests.support.sizes import is_full

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


def events_of(number: int, size: int, rng: np.random.Generator) -> pd.DataFrame:
    """Return a batch: a key of ten events each, a hot key with a third of them, and keys that pause."""
    place = number * size + np.arange(size)
    keys = np.where(place % 3 == 0, "hot", "k" + pd.Series(place // 10).astype(str))
    keys = np.where(place % 500 == 0, "rare", keys)
    kinds, values = rng.choice(list("ABCX"), size), rng.integers(0, 100, size)
    return pd.DataFrame({"t": place, "k": keys, "kind": kinds, "x": values})


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_stream_holds_stays_as_it_is_after_the_first_window(kind, monkeypatch):
    monkeypatch.setattr("cepkit.streaming.sequence_stream._FEWEST_OF_POLICY", 100)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        stream = KINDS[kind]()
    size, n_batches = (1000, 400) if is_full() else (250, 40)
    rng, held = np.random.default_rng(1), []
    for number in range(n_batches):
        batch = events_of(number, size, rng)
        if kind == "rows, closed":
            batch["t"] = pd.to_datetime(batch["t"], unit="s")
        if kind == "after a buffer":  # some come late, and a few too late
            late = batch["t"] - np.where(rng.random(size) < 0.1, rng.integers(0, 30, size), 0)
            batch["t"] = late.clip(lower=0)
        if isinstance(stream, JoinStream):
            stream.push(batch[::2], batch[1::2])
        else:
            stream.push(batch)
        inner = getattr(stream, "stream", stream)
        n_retained, status = inner._n_retained, stream.status()  # which drops what nothing needs
        held.append((status.keys, n_retained, status.state_bytes))
    first, last = (np.array(part).max(axis=0) for part in (held[8 : n_batches // 2], held[n_batches // 2 :]))
    assert (last <= 1.25 * first + 10).all(), (first, last)
    assert status.matches and not status.grows
    assert (status.late > 0) == (kind == "after a buffer")
    assert (status.forgotten > 0) == (", idle" in kind or kind == "after a buffer")
    n_left = len(stream.finish()) if kind == "after a buffer" else 0
    n_left += len(stream.close())
    assert stream.status().matches == status.matches + n_left
