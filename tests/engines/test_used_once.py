"""Each event in one match: queues of pairs against a loop, on pandas and on Spark."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

import cepkit as cep
from cepkit.engines import after_match
from tests.support.sizes import seeds

CASES = 25  # of a seed


def frame_of(draw: np.random.Generator, n: int) -> pd.DataFrame:
    return pd.DataFrame({
        "u": draw.choice(list("pq"), n), "t": np.sort(draw.integers(0, 2 * n + 1, n)),
        "kind": draw.choice(["in", "out", "other"], n), "p": draw.integers(0, 3, n),
        "q": draw.integers(0, 3, n), "i": np.arange(n),
    })  # fmt: skip


def pairs_of(frame, fits, *, is_newest: bool) -> list[tuple[int, int]]:
    """Return the pairs of a loop over the rows: each takes the oldest or the newest free row that fits."""
    used: set[int] = set()
    rows, pairs = frame.to_dict("records"), []
    for b, last in enumerate(rows):
        free = [a for a in range(b) if a not in used and b not in used and fits(rows[a], last)]
        if free:
            first = free[-1] if is_newest else free[0]
            pairs.append((first, b))
            used |= {first, b}
    return pairs


def random_query(draw: np.random.Generator):
    """Return the text of a query of pairs, its keywords, and which rows fit."""
    typed, join = bool(draw.random() < 0.7), str(draw.choice(["", "a.p = b.q", "a.p = b.p", "a.p <= b.q"]))
    within = int(draw.integers(0, 12)) if draw.random() < 0.6 else None
    closed, strict, by_user = (bool(draw.random() < share) for share in (0.7, 0.3, 0.5))
    where = f" WHERE {join}" if join else ""
    text = f"PATTERN SEQ({'in a, out b' if typed else '_ a, _ b'}){where}"
    keywords = {"order_by": ["t", "i"], "event_type": "kind", "strict_time": strict}
    if within is not None:
        keywords |= {"within": within, "within_closed": closed}
    if by_user:
        keywords["partition_by"] = "u"

    def fits(first, last) -> bool:
        lasted = last["t"] - first["t"]
        return (
            (not typed or (first["kind"], last["kind"]) == ("in", "out"))
            and (within is None or (lasted <= within if closed else lasted < within))
            and not (strict and lasted == 0)
            and not (by_user and first["u"] != last["u"])
            and {"": True, "a.p = b.q": first["p"] == last["q"], "a.p = b.p": first["p"] == last["p"],
                 "a.p <= b.q": first["p"] <= last["q"]}[join]
        )  # fmt: skip

    return text, keywords, fits


def found_pairs(found) -> list[tuple[int, int]]:
    rows = found.to_frame()
    return [*zip(rows["a_i"].astype(int), rows["b_i"].astype(int), strict=True)]


def test_badges_and_their_own_exits():
    doors = pd.DataFrame({"t": [0, 1, 2, 3, 9, 10], "kind": list("IIOOIO")})
    for policy, wanted in (("once", [[0, 2], [1, 3], [9, 10]]), ("once_newest", [[1, 2], [0, 3], [9, 10]])):
        found = doors.cep.match("PATTERN SEQ(I a, O b)", event_type="kind", order_by="t", after_match=policy)
        assert found.to_frame()[["a_t", "b_t"]].values.tolist() == wanted
    assert "each event is used once" in str(doors.cep.explain(found.query))


@pytest.mark.filterwarnings("ignore:the column of event types")
@pytest.mark.parametrize("seed", seeds(2, 200))
def test_pairs_are_those_of_a_loop(seed, monkeypatch):
    n_queues = 0
    for number in range(CASES):
        draw = np.random.default_rng([seed, number])
        frame, (text, keywords, fits) = frame_of(draw, int(draw.integers(0, 30))), random_query(draw)
        for policy in ("once", "once_newest"):
            wanted = pairs_of(frame, fits, is_newest=policy == "once_newest")
            note = f"[{seed}, {number}] {text} {keywords}"
            found = cep.match(frame, text, after_match=policy, **keywords)
            assert found_pairs(found) == wanted, note
            n_queues += after_match.pairs_once(found._found.program, found._found.events) is not None
            with monkeypatch.context() as patch:
                patch.setattr(after_match, "pairs_once", lambda *_: None)  # all matches are looked at
                assert found_pairs(cep.match(frame, text, after_match=policy, **keywords)) == wanted, note
    assert CASES < n_queues < 2 * CASES


def test_a_long_queue_takes_no_list_of_all_pairs():
    n = 20_000
    frame = pd.DataFrame({"t": range(2 * n), "kind": ["in"] * n + ["out"] * n})
    found = frame.cep.match("PATTERN SEQ(in a, out b)", event_type="kind", order_by="t", after_match="once")
    assert found.count() == n and found[n - 1]["b_t"] == 2 * n - 1


@pytest.mark.parametrize("policy", ["once", "once_newest"])
def test_spark_pairs_the_same_events(policy, spark, full):
    """Each key is a random frame of its own."""
    draw = np.random.default_rng(3)
    frame = pd.concat([frame_of(draw, 20).assign(u=f"{u}") for u in range(5000 if full else 100)])
    keywords = {"event_type": "kind", "order_by": ["t", "i"], "partition_by": "u", "after_match": policy}
    for text in ("PATTERN SEQ(in a, out b) WITHIN 20", "PATTERN SEQ(in a, out b) WHERE a.p = b.q"):
        wanted = frame.cep.match(text, **keywords).to_frame()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            rows = spark.createDataFrame(frame).cep.match(text, **keywords).to_frame().toPandas()
        by = ["u", "b_i"]
        assert len(wanted) > 100
        assert rows.sort_values(by).values.tolist() == wanted.sort_values(by).values.tolist()


def test_the_other_word_names_the_keyword():
    with pytest.raises(TypeError, match="used once with after_match='once'"):
        cep.match(pd.DataFrame({"t": [0], "k": ["I"]}), "PATTERN SEQ(I a, O b)", event_type="k", reuse="none")
