"""A push that fails leaves every kind of stream as it was: the next pushes give what they give without it."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pandas as pd
import pytest

import cepkit as cep
from cepkit.errors import CepError
from cepkit.streaming.stream import JoinStream
from tests.support.sizes import seeds

SCHEMA = {"ts": "int64", "k": "string", "kind": "string", "x": "int64"}
RISES = {"define": {"up": "x > prev(x)"}, "order_by": "ts", "partition_by": "k"}
TYPED = {"event_type": "kind", "order_by": "ts"}
SUMS = cep.Window({"n": "count()", "total": "sum(x)"}, length=5, order_by="ts", group_by="k")
ROWS = """MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES A.ts AS a, LAST(B.x) AS b ONE ROW PER MATCH
    AFTER MATCH SKIP TO NEXT ROW PATTERN (A B+ C) DEFINE B AS B.x > A.x, C AS C.x < A.x)"""
PAIRS = cep.Join(
    cep.Window(time=6), cep.Window(length=4), on="k", order_by="ts", measures={"n": "count()"}
)  # fmt: skip


UPS = cep.regex_query(
    "up up", define={"up": "x > prev(x)"}, order_by="ts", partition_by="k",
    measures={"ts": "last(ts)", "x": "max(x)"},
)  # fmt: skip


def opened(query: Any, **keywords: Any) -> Callable[[], Any]:
    is_join = query is PAIRS or (isinstance(query, list) and query[0] is PAIRS)
    return lambda: cep.stream(query, {"left": SCHEMA, "right": SCHEMA} if is_join else SCHEMA, **keywords)


STREAMS: dict[str, Callable[[], Any]] = {
    "regex": opened("up+ up", **RISES),
    "regex, rows": opened(". up up", rows="all", **RISES),
    "regex, idle": opened("up up", idle_after=4, **RISES),
    "regex, oldest": opened(". up up", max_live=1, overflow="oldest", idle_after=9, **RISES),
    "regex, shed": opened(". up up", max_live=1, overflow="shed", **RISES),
    "sequence": opened("PATTERN SEQ(A a, B b) WHERE b.x > a.x WITHIN 8", **TYPED),
    "sequence, next": opened("PATTERN SEQ(A a, B+ b[]) WITHIN 8", strategy="next", partition_by="k", **TYPED),
    "sequence, absence": opened("PATTERN SEQ(A a, !B b) WITHIN 5", **TYPED),
    "sequence, policy": opened("PATTERN SEQ(A a, B b) WITHIN 9", after_match="past_last", **TYPED),
    "sequence, once": opened("PATTERN SEQ(A a, B b) WITHIN 9", after_match="once", **TYPED),
    "sequence, oldest": opened("PATTERN SEQ(A a, B b)", max_live=2, overflow="oldest", **TYPED),
    "sequence, shed": opened("PATTERN SEQ(A a, B b)", max_live=2, overflow="shed", idle_after=5, **TYPED),
    "rows": opened(ROWS),
    "rows, idle": opened(ROWS, idle_after=4),
    "rows, oldest": opened(ROWS, max_live=1, overflow="oldest"),
    "window": opened(SUMS),
    "window in time": opened(cep.Window({"top": "max(x)"}, time=6, order_by="ts", emit="all")),
    "window, shed": opened(
        cep.Window({"top": "max(x)"}, time=6, order_by="ts", emit="all"), max_live=3, overflow="shed"
    ),
    "join, shed": opened(PAIRS, max_live=2, overflow="shed"),
    "after a buffer": lambda: cep.stream(
        [cep.KSlack(2, order_by="ts"), "PATTERN SEQ(A a, B b) WITHIN 9"], SCHEMA, **TYPED
    ),
    "join": opened(PAIRS),
    "chain": opened([SUMS, "PATTERN SEQ(_ a, _ b) WHERE b.total > a.total WITHIN 6"], order_by="ts"),
    "chain of a regex": opened([UPS, SUMS]),
    "chain of a join": opened([PAIRS, cep.Window({"most": "max(n)"}, length=3)]),
}  # fmt: skip
HERE = Path(cep.__file__).parent
ROOMS = tuple(
    str(HERE / room) for room in ("compile", "engines", "frames", "windows", "events.py", "results")
)


class _Failure(MemoryError):
    """What no code expects."""


@contextmanager
def failing_at(n: int) -> Iterator[list[int]]:
    """Let the n-th call of a function of the lower rooms fail; yield a list with the number of calls."""
    calls = [0]

    def trace(frame: Any, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(ROOMS):
            calls[0] += 1
            if calls[0] == n:
                raise _Failure

    before = sys.getprofile()
    sys.setprofile(trace)
    try:
        yield calls
    finally:
        sys.setprofile(before)


def batches_of(seed: int) -> list[list[dict[str, Any]]]:
    rng, ts, batches = Random(seed), 0, []
    for _ in range(8):
        rows = []
        for _ in range(rng.randint(1, 6)):
            ts += rng.randint(0, 2)
            rows.append({"ts": ts, "k": rng.choice("ab"), "kind": rng.choice("ABC"), "x": rng.randint(0, 9)})
        batches.append(rows)
    return batches


def push(stream: Any, batch: list[dict], which: int) -> Any:
    if isinstance(stream, JoinStream):
        return stream.push(**{["left", "right"][which % 2]: batch})
    return stream.push(batch)


def seen_of(stream: Any) -> tuple:
    opened = getattr(stream, "stream", stream)  # after a buffer
    status = replace(opened.status(), state_bytes=0)  # codes of keys may be free
    return opened.events, opened.matches, status, repr(stream)


def rest_of(stream: Any) -> list:
    return [*(stream.finish() if hasattr(stream, "finish") else []), *stream.close()]


@pytest.mark.parametrize("kind", STREAMS)
@pytest.mark.parametrize("seed", seeds(2, 60))
def test_a_push_that_fails_has_no_effect(kind, seed):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cep.CepWarning)
        failing, calm = STREAMS[kind](), STREAMS[kind]()
    rng, n_failures = Random(f"{seed} {kind}"), 0
    for number, batch in enumerate(batches_of(seed)):
        bad = rng.choice(batch)
        late = [{**bad, "ts": -1}] if number >= 2 and kind != "after a buffer" else []
        for wrong in ({**bad, "x": "?", "kind": 5}, {**bad, "ts": None}, {"ts": bad["ts"]}, *late):
            before = seen_of(failing)
            with pytest.raises(cep.CepError):
                push(failing, [*batch, wrong], number)
            assert seen_of(failing) == before
        with failing_at(0) as calls:
            expected = push(calm, batch, number)
        for _ in range(3):
            before = seen_of(failing)
            with failing_at(rng.randint(1, max(1, calls[0]))):
                try:
                    found = push(failing, batch, number)
                except _Failure:
                    found, n_failures = None, n_failures + 1
            if found is not None:
                break
            assert seen_of(failing) == before
        else:
            found = push(failing, batch, number)
        assert found == expected
        assert seen_of(failing)[:2] == seen_of(calm)[:2]
    assert rest_of(failing) == rest_of(calm)
    assert n_failures


@pytest.mark.parametrize("is_join", [False, True])
def test_a_push_beyond_memory_limit_is_refused_and_has_no_effect(is_join):
    if is_join:
        window = cep.Window(time=10, order_by="t")
        schema = {side: {"t": "int64"} for side in ("left", "right")}
        opened = cep.stream(cep.Join(left=window, right=window), schema, memory_limit="1 MB")
        few = {"left": [{"t": 2}], "right": [{"t": 3}]}
        with pytest.raises(CepError, match=r"memory_limit is 1\.0 MB\. Push fewer"):
            opened.push(left=[{"t": 1}] * 3000 + [{"t": 9}], right=[{"t": 2}] * 3000)
        opened.push(**few)
    else:
        text = "PATTERN SEQ(A a, B b, C c) WITHIN 9"
        opened = cep.stream(
            text, {"k": "string", "t": "int64"}, event_type="k", order_by="t", memory_limit="1 MB"
        )
        with pytest.raises(CepError, match=r"memory_limit is 1\.0 MB\. Push fewer"):
            opened.push([{"k": kind, "t": 1} for kind in "ABC" for _ in range(100)])
        assert len(opened.push([{"k": kind, "t": 1} for kind in "ABC"])) == 1
    assert opened.events in (2, 3)


@pytest.mark.parametrize("kind", ["regex, idle", "rows, idle"])
def test_a_push_that_fails_while_it_forgets_keys_has_no_effect(kind):
    failing, calm = STREAMS[kind](), STREAMS[kind]()
    n_forgetting = 0
    for number, batch in enumerate(batches_of(51)):
        before = seen_of(failing)
        with failing_at(0) as calls:
            expected = push(calm, batch, number)
        for n in range(1, calls[0]):
            with failing_at(n):
                try:
                    found = push(failing, batch, number)
                except _Failure:
                    assert seen_of(failing) == before
                else:
                    break  # the first pushes prepare what the others find
        else:
            found = push(failing, batch, number)
        assert found == expected and seen_of(failing) == seen_of(calm)
        n_forgetting += calm.status().forgotten > 0
    assert n_forgetting > 1 and rest_of(failing) == rest_of(calm)


DTYPES = ["int64", "float64", "Int64", "category", "datetime64[us]", "datetime64[us, UTC]"]
OPENED = {
    "regex": lambda frame: cep.stream("up{3}", frame, define={"up": "true"}, measures={"first": "first(x)"}),
    "window": lambda frame: cep.stream(cep.Window({"first": "first(x)"}, length=3), frame),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", OPENED)
def test_a_frame_that_changes_after_its_push_changes_no_result(kind, dtype):
    frame = pd.DataFrame({"x": pd.Series([1, 2, 3]).astype("int64").astype(dtype)})
    stream, pushed = OPENED[kind](frame.iloc[:0]), frame.iloc[:2].copy()
    stream.push(pushed)
    pushed.loc[:, "x"] = frame["x"].iloc[2]
    assert stream.push(frame.iloc[2:])["first"].tolist() == frame["x"].iloc[:1].tolist()
