"""Users change the frames that results give them. No other frame changes then."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

import cepkit as cep

SQL = """MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts
    MEASURES A.price AS p, A.price AS again, C.ts AS t, COUNT(B.price) AS many, A.zoned AS zone,
        A.took AS time, A.ok AS good, A.name AS label, AVG(B.price) AS mean, PREV(A.n) AS before
    {rows} PATTERN (A B+ C) DEFINE B AS price < PREV(price), C AS price > PREV(price))"""


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    rng, n = np.random.default_rng(7), 3000
    seconds = pd.to_timedelta(np.arange(n), unit="s").as_unit("us")
    times = pd.Timestamp("2024-01-31") + seconds
    return pd.DataFrame(
        {
            "k": rng.integers(0, 5, n),
            "ts": times,
            "price": rng.integers(0, 50, n).astype(float),
            "n": pd.array(rng.integers(0, 9, n), "Int64"),
            "name": rng.choice(["a", "b"], n),
            "ok": rng.random(n) < 0.5,
            "kind": pd.Categorical(rng.choice(["x", "y"], n)),
            "zoned": times.tz_localize("UTC"),
            "took": seconds,
        }
    )


def regex(frame: pd.DataFrame) -> cep.Matches:
    measures = {"first": "first(price)", "n": "count()", "t": "last(ts)", "mean": "avg(price)"}
    given = {"define": {"low": "price < 10", "high": "price > 20"}, "partition_by": "k", "order_by": "ts"}
    return cep.match(frame, "low+ high", measures=measures, **given)


def sequence(frame: pd.DataFrame) -> cep.Matches:
    text = "PATTERN SEQ(a a, b b) WHERE a.price < 3 AND b.price > 45 WITHIN 20 s"
    measures = {"p": "a.price", "took": "b.ts - a.ts"}
    given = {"event_type": "name", "order_by": "ts", "partition_by": "k"}
    return cep.match(frame, text, measures=measures, **given)


SIDDHI = """from every e1=s[price > 45] -> e2=s[price < 3] within 1 min
    select e1.price as p, e2.price as q insert into X"""
RESULTS: dict[str, Callable[[pd.DataFrame], Callable[[], pd.DataFrame]]] = {
    "SQL": lambda frame: cep.match(frame, SQL.format(rows="")).to_frame,
    "SQL, all rows": lambda frame: cep.match(frame, SQL.format(rows="ALL ROWS PER MATCH")).to_frame,
    "SQL, the matched rows": lambda frame: lambda: cep.match(frame, SQL.format(rows="")).to_frame("all"),
    "SQL, tagged": lambda frame: cep.match(frame, SQL.format(rows="")).tag,
    "SQL, head": lambda frame: cep.match(frame, SQL.format(rows="")).head,
    "regex": lambda frame: regex(frame).to_frame,
    "regex, head": lambda frame: regex(frame).head,
    "regex, tagged": lambda frame: regex(frame).tag,
    "regex, lineage": lambda frame: regex(frame).lineage,
    "sequence": lambda frame: sequence(frame).to_frame,
    "sequence, lineage": lambda frame: sequence(frame).lineage,
    "Siddhi": lambda frame: cep.siddhi(SIDDHI, s=frame, order_by="ts").to_frame,
    "runs": lambda frame: lambda: cep.runs(frame, "price > prev(price)"),
    "sessions": lambda frame: lambda: cep.sessions(frame, gap="5 s", partition_by="k", order_by="ts"),
}  # fmt: skip


@pytest.mark.parametrize("what", RESULTS)
def test_a_changed_result_changes_no_other(frame: pd.DataFrame, what: str) -> None:
    before, make = frame.copy(), RESULTS[what](frame)
    whole, other = make(), make()
    kept = other.copy()
    assert len(whole) > 1
    for place, name in enumerate(whole.columns):
        column = whole[name].copy()
        column.iloc[0] = column.iloc[-1]
        expected = whole.assign(**{name: column})
        whole.iloc[0, place] = column.iloc[-1]
        pd.testing.assert_frame_equal(whole, expected)
    pd.testing.assert_frame_equal(other, kept)
    pd.testing.assert_frame_equal(make(), kept)
    pd.testing.assert_frame_equal(frame, before)
