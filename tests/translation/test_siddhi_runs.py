"""The SiddhiQL that `translate` prints gives the same matches in `cepkit.siddhi`."""

from __future__ import annotations

import re
from random import Random

import pandas as pd
import pytest

import cepkit as cep
from cepkit.errors import UnsupportedQueryError
from tests.support.sizes import seeds
from tests.support.translations import run_query

TESTS = (
    "b.x > a.x",
    "b.y == a.y",
    "c.x >= b.x",
    "c.x > a.x + 1",
    "a.x > 1",
    "b.x in (1, 2, 3)",
    "not (c.x < b.y)",
)


def drawn(random: Random) -> cep.SequenceQuery:
    """Return a sequence that SiddhiQL can often say."""
    n, typed = random.randint(1, 3), random.random() < 0.6
    events = ", ".join(f"{random.choice('ABC') if typed else '_'} {name}" for name in "abc"[:n])
    conditions = ["skip_till_next_match" if typed or random.random() < 0.5 else "partition_contiguity"]
    conditions += ["[k]"] * (random.random() < 0.4)
    known = [text for text in TESTS if all(f"{name}." not in text for name in "abc"[n:])]
    conditions += random.sample(known, min(len(known), random.choice([0, 1, 2])))
    return cep.sequence_query(
        f"PATTERN SEQ({events}) WHERE {' AND '.join(conditions)}", order_by="t",
        event_type="kind" if typed else None, within_closed=random.random() < 0.5,
        within=random.choice([None, f"{random.randint(2, 9)} s"]),
    )  # fmt: skip


def run_siddhi_app(text: str, rows: list[dict]) -> list[tuple[int, ...]]:
    """Return the rows of each match, as row numbers, sorted."""
    frame = pd.DataFrame(rows).assign(ms=[row["t"] * 1000 for row in rows])
    streams = dict.fromkeys(re.findall(r"\b[abc]=(\w+)", text))
    frames = {name: frame if name == "Events" else frame[frame["kind"] == name] for name in streams}
    found = cep.siddhi(text, frames, order_by="ms").to_frame("Matches")
    place = {row["t"]: i for i, row in enumerate(rows)}
    return sorted(tuple(place[int(t)] for t in match) for match in found.itertuples(index=False))


@pytest.mark.parametrize("seed", seeds(4, 8))
def test_siddhi_finds_the_matches_of_the_sequence(seed, full):
    random, n_run, n_matches = Random(seed), 0, 0
    for _ in range(200 if full else 15):
        query = drawn(random)
        try:
            text = cep.translate(query, "siddhi")
        except UnsupportedQueryError:
            continue
        t, rows = 0, []
        for _ in range(random.randint(4, 14)):
            t += random.randint(1, 3)
            rows.append(
                {"kind": random.choice("ABBC"), "k": random.choice("pq"), "t": t, "x": random.randint(0, 4),
                 "y": random.randint(0, 2)}
            )  # fmt: skip
        wanted = run_query(query, rows)
        assert run_siddhi_app(text, rows) == wanted, f"{query}\n{text}\n{rows}"
        n_run, n_matches = n_run + 1, n_matches + len(wanted)
    assert n_run > 5 and n_matches > 0
