"""Runs, sessions and funnels on many streams, and each stream is a partition of one frame."""

from __future__ import annotations

import warnings
from random import Random
from typing import Any

import numpy as np
import pandas as pd

import cepkit as cep
from tests.campaigns.tally import NeedsCompilationError, Tally, tier_of
from tests.oracle import idioms as oracle

LANGUAGE = "idioms"
KINDS = ("view", "cart", "buy", "help")


def check_idioms(seed: int, n_streams: int, tally: Tally, *, compiled: bool) -> None:
    """Compare runs, sessions and a funnel on random streams."""
    rng, random = np.random.default_rng([8, seed]), Random(f"idioms {seed}")
    sizes = rng.integers(1, 10, n_streams)
    n = int(sizes.sum())
    price = rng.integers(0, 5, n).astype(float)
    price[rng.random(n) < 0.15] = np.nan
    frame = pd.DataFrame(
        {"p": np.repeat(np.arange(n_streams), sizes), "kind": rng.choice(KINDS, n), "price": price,
         "ts": rng.permutation(4 * n)[:n] // rng.integers(1, 4 * n_streams)}
    )  # fmt: skip
    rows = [
        {**row, "price": None if row["price"] != row["price"] else row["price"]}
        for row in frame.to_dict("records")
    ]
    tier, inside = tier_of(compiled)
    with warnings.catch_warnings(), inside:
        warnings.simplefilter("ignore", cep.CepWarning)
        for check in (_check_runs, _check_sessions, _check_funnel):
            try:
                way, expected, found = check(frame, rows, random)
            except NeedsCompilationError:
                tally.not_run[LANGUAGE, check.__name__.removeprefix("_check_"), tier] += 1
                continue

            def say(number: int, way: str = way) -> str:
                own = [row for row in rows if row["p"] == number]
                return f"check_idioms({seed}, {n_streams}), stream {number}, {way}\n{own}"

            numbers = [0] if check is _check_funnel else range(n_streams)  # a funnel counts over all streams
            full = {number: expected.get(number, []) for number in numbers}
            tally.add(LANGUAGE, [*full.values()])
            tally.compare(LANGUAGE, way.partition(":")[0], tier, full, found, say)


def _check_runs(frame: pd.DataFrame, rows: list[dict], random: Random) -> tuple[str, Any, Any]:
    offset, least = random.randint(1, 3), random.randint(0, 4)

    def rises(own: list[dict], i: int) -> bool | None:
        if i < offset or own[i]["price"] is None or own[i - offset]["price"] is None:
            return None
        return own[i]["price"] > own[i - offset]["price"]

    def is_high(own: list[dict], i: int) -> bool | None:
        return None if own[i]["price"] is None else own[i]["price"] > least

    def either(own: list[dict], i: int) -> bool | None:
        return own[i]["kind"] == "view" or is_high(own, i)

    text, holds = random.choice(
        [(f"price > prev(price, {offset})", rises), (f"price > {least}", is_high),
         (f"kind == 'view' or price > {least}", either)]
    )  # fmt: skip
    found = cep.runs(frame, text, partition_by="p", order_by="ts", measures={"top": "max(price)"})
    return f"runs: {text}", _groups(oracle.runs(rows, holds, "p", "ts"), rows), _listed(found, "run")


def _check_sessions(frame: pd.DataFrame, rows: list[dict], random: Random) -> tuple[str, Any, Any]:
    gap = random.randint(0, 6)
    found = cep.sessions(frame, gap=gap, partition_by="p", order_by="ts", measures={"top": "max(price)"})
    return f"sessions: {gap}", _groups(oracle.sessions(rows, gap, "p", "ts"), rows), _listed(found, "session")


def _check_funnel(frame: pd.DataFrame, rows: list[dict], random: Random) -> tuple[str, Any, Any]:
    steps = [random.choice(KINDS[:3]) for _ in range(random.randint(2, 3))]
    mode, closed = random.choice(["any", "strict"]), random.random() < 0.5
    within = random.randint(1, 20) if random.random() < 0.6 else None
    tests = [lambda row, kind=kind: row["kind"] == kind for kind in steps]
    levels = oracle.levels(rows, tests, "p", "ts", mode, within, closed)
    found = cep.funnel(
        frame, steps, mode=mode, within=within, within_closed=closed, partition_by="p", order_by="ts",
        event_type="kind",
    )  # fmt: skip
    reached = [sum(level >= n for level in levels.values()) for n in range(1, len(steps) + 1)]
    return f"funnel: {steps} {mode} {within} {closed}", {0: reached}, {0: found["reached"].tolist()}


def _groups(groups: list[oracle.Group], rows: list[dict]) -> dict[int, list[tuple]]:
    made: dict[int, list[tuple]] = {}
    for group in groups:
        prices = [rows[i]["price"] for i in group.rows if rows[i]["price"] is not None]
        ends = rows[group.rows[0]]["ts"], rows[group.rows[-1]]["ts"]
        made.setdefault(group.key, []).append(
            (group.number, *ends, len(group.rows), max(prices, default=None))
        )
    return made


def _listed(found: pd.DataFrame, noun: str) -> dict[int, list[tuple]]:
    made: dict[int, list[tuple]] = {}
    for number, *values in found[["p", noun, "start", "end", "length", "top"]].itertuples(
        index=False, name=None
    ):
        made.setdefault(number, []).append(tuple(None if value != value else value for value in values))
    return made
