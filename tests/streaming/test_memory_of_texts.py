"""Streams forget texts that nothing needs: the same matches, and no more memory than live matches take."""

from __future__ import annotations

from random import Random

import numpy as np
import pandas as pd
import pytest

import cepkit as cep
from cepkit.language.expressions.functions import _REGISTRY
from cepkit.streaming import values as codes
from cepkit.streaming.values import TextCodes
from tests.support.sizes import seeds

SCHEMA = {"i": "int64 not null", "k": "string", "user": "string", "other": "string", "n": "int64"}
MEASURES = {"first": "first(i)", "last": "last(i)", "rows": "count()"}
# Every place where a text can wait: in partial matches, in earlier rows, in constants and in tables.
QUERIES = {
    "the same user": {
        "query": ". same+ else_",
        "define": {"same": "user = first(user)", "else_": "user != first(user)"},
    },
    "the row before": {
        "query": "a b",
        "define": {"a": "prev(user) = user", "b": "prev(user, 2) = prev(user) or user is null"},
    },
    "constants": {
        "query": "a b* c",
        "define": {
            "a": "user in ('u3', 'u50', 'u120')",
            "b": "user like 'u%5' or n > 2",
            "c": "user != 'u7'",
        },
    },
    "two columns": {
        "query": "a . b",
        "define": {"a": "user = other", "b": "other = first(user) or prev(other) = user or user = 'u90'"},
    },
    "by key": {
        "query": ". up+ down",
        "define": {"up": "user >= 'u' and n >= prev(n)", "down": "user like '%1%' or user = first(other)"},
        "partition_by": "k",
    },
    "python": {
        "query": ". same+ end",
        "define": {"same": "is_alike(user, first(user))", "end": "user in ('u4', 'u60') or n = 3"},
    },
}


@pytest.fixture(autouse=True)
def forget_often(monkeypatch):
    monkeypatch.setattr(codes, "_FEWEST_NEW", 3)


@pytest.fixture
def is_alike():
    """A function that reads texts in Python."""
    cep.pure(lambda one, other: None not in (one, other) and one[-1] == other[-1], name="is_alike")
    yield
    _REGISTRY.pop("is_alike", None)


def events(seed: int, n: int = 160) -> pd.DataFrame:
    """Return rows whose texts are new for ever, but come back now and then."""
    rng, newest, rows = Random(seed), 0, []

    def text() -> str | None:
        nonlocal newest
        if rng.random() < 0.35:
            newest += 1
            return f"u{newest}"
        if rng.random() < 0.1:
            return rng.choice([None, "u3", "u50", "u7"])
        return f"u{max(0, newest - rng.choice([0, 0, 1, 2, 5]))}"

    for i in range(n):
        user = text()
        other = user if rng.random() < 0.3 else text()
        rows.append({"i": i, "k": rng.choice("xyz"), "user": user, "other": other, "n": rng.randrange(4)})
    return pd.DataFrame(rows)


@pytest.mark.parametrize("seed", seeds(1, 3))
@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("rows", ["one", "all"])
def test_a_stream_that_forgets_texts_finds_the_same(name, rows, seed, tmp_path, is_alike):
    query, frame, rng = QUERIES[name], events(seed), Random(seed)
    given = {"measures": MEASURES, "order_by": "i", **query}
    threads = rng.choice([1, 2]) if "partition_by" in query else 1
    stream = cep.stream(schema=SCHEMA, rows=rows, threads=threads, **given)
    found, at = [], 0
    while at < len(frame):
        size = rng.choice([0, 1, 2, 5, 17])
        found.append(stream.push(frame.iloc[at : at + size].reset_index(drop=True)))
        at += size
        if rng.random() < 0.15:
            path = tmp_path / "state"
            stream.save(path)
            stream.close()
            stream = cep.stream.load(path)
    found.append(stream.close())
    wanted = frame.cep.match(**given).to_frame(rows).reset_index(drop=True)
    found = pd.concat([part for part in found if len(part)] or found[:1], ignore_index=True)
    pd.testing.assert_frame_equal(found, wanted, check_dtype=False)
    assert len(wanted) > 3


def new_texts(begin: int, n: int) -> pd.DataFrame:
    number = np.arange(begin, begin + n)
    return pd.DataFrame({"i": number, "user": [f"user {i // 2}" for i in number.tolist()]})


@pytest.mark.parametrize("rows", ["one", "all"])
def test_the_texts_and_the_saved_state_of_a_stream_stay_few(rows, tmp_path):
    query = {"query": ". same", "define": {"same": "user = first(user) and user like 'user %'"}}
    schema = {"i": "int64 not null", "user": "string"}
    stream = cep.stream(schema=schema, rows=rows, order_by="i", measures={"i": "last(i)"}, **query)
    sizes, n_matches = [], 0
    for begin in range(0, 20_000, 500):
        n_matches += len(stream.push(new_texts(begin, 500))) // (1 + (rows == "all"))
        [texts] = stream._search._coder._every
        assert len(texts) <= 1500
        if begin % 5000 == 4500:
            stream.save(tmp_path / "state")
            sizes.append((tmp_path / "state").stat().st_size)
    assert n_matches == 10_000
    assert max(sizes) < 1.3 * sizes[0]


def test_codes_of_forgotten_texts_are_given_again():
    texts = TextCodes()
    assert texts.encode(np.array([0, 1, 2]), np.array(["a", "b", "c"], object)).tolist() == [0, 1, 2]
    before = texts.texts
    texts.forget(np.array([False, True, False]))
    assert texts.encode(np.array([0, 1, 2, -1]), np.array(["b", "d", "a"], object)).tolist() == [1, 2, 0, -1]
    assert before.tolist() == ["a", "b", "c"]  # earlier batches keep their texts
    assert texts.texts.tolist() == ["a", "b", "d"]
    again = TextCodes()
    texts.forget(np.array([False, False, True]))
    again.unpack(texts.pack())
    assert again.code_of_text == texts.code_of_text == {"d": 2}
    assert len(again) == 3


def test_ranks_are_not_forgotten():
    texts = TextCodes(("low", "high"))
    texts.forget(np.zeros(2, bool))
    assert texts.code_of_text == {"low": 0, "high": 1}


@pytest.mark.parametrize("policy", ["past_last", "to_next", "to_first(b)"])
def test_an_after_match_policy_forgets_what_is_over(policy, monkeypatch, tmp_path):
    monkeypatch.setattr("cepkit.streaming.sequence_stream._FEWEST_OF_POLICY", 8)
    rng = np.random.default_rng(len(policy))
    n = 3000
    frame = pd.DataFrame({
        "ts": np.arange(n), "kind": rng.choice(list("ab"), n), "key": [f"k{i // 20}" for i in range(n)],
    })  # fmt: skip
    given = {
        "query": "PATTERN SEQ(a a, b b) WITHIN 15", "event_type": "kind", "order_by": "ts",
        "partition_by": "key", "after_match": policy, "strategy": "next",
        "measures": {"first": "first(a.ts)", "last": "first(b.ts)"},
    }  # fmt: skip
    stream = cep.stream(schema=frame.iloc[:0], **given)
    found = []
    for begin in range(0, n, 50):
        found.append(stream.push(frame.iloc[begin : begin + 50]))
        search = stream._search
        assert len(search._codes) + len(search._reporter.taken) <= 100
        if begin % 500 == 0:
            stream.save(tmp_path / "state")
            stream = cep.stream.load(tmp_path / "state")
    found.append(stream.close())
    wanted = frame.cep.match(**given).to_frame()
    found = pd.concat([part for part in found if len(part)], ignore_index=True)
    pd.testing.assert_frame_equal(found, wanted, check_dtype=False)
