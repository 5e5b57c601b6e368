"""Streams of sequence queries: cut into batches, saved and restored, the matches are those of all events."""

from __future__ import annotations

from random import Random

import numba
import pandas as pd
import pytest

import cepkit as cep
from cepkit.errors import CepError, CepWarning, OrderError, UnsupportedQueryError
from tests.oracle import generate_sequences as gs

FAMILIES = ["any", "next", "strict", "partition", "negation", "window", "kleene", "after_match", "all"]
if not numba.config.DISABLE_JIT:
    FAMILIES = ["any", "negation", "after_match"]  # each is a shape to compile
SEEDS = range(6) if numba.config.DISABLE_JIT else range(3)


def drawn(seed: int, family: str) -> gs.Case:
    return gs.case(seed, None if numba.config.DISABLE_JIT else 0, family)


def refusal(case: gs.Case) -> str | None:
    """Return why the language refuses a query: the definition has a meaning for more queries."""
    try:
        cep.sequence_query(case.query)
    except CepError as refused:
        return str(refused)
    return None


def test_the_language_has_most_random_cases():
    refusals = [refusal(drawn(seed, family)) for seed in SEEDS for family in FAMILIES]
    assert refusals.count(None) >= 0.8 * len(refusals)


def pushed(case: gs.Case, cuts: list[int], tmp_path=None) -> pd.DataFrame:
    frame = gs.to_frame(case.rows)
    stream = cep.stream(case.query, frame.head(0), rows="all")
    made = []
    for begin, end in zip([0, *cuts], [*cuts, len(frame)], strict=True):
        made.append(stream.push(frame.iloc[begin:end]))
        if tmp_path is not None:
            stream.save(tmp_path / "stream")
            stream = cep.stream.load(tmp_path / "stream")
    made.append(stream.close())
    return pd.concat([part for part in made if len(part)]) if any(map(len, made)) else made[-1]


@pytest.mark.filterwarnings("ignore:without a window", "ignore:the column of event types, .* never has")
@pytest.mark.parametrize("is_saved", [False, True])
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("seed", SEEDS)
def test_batches_do_not_matter(seed, family, is_saved, tmp_path):
    case = drawn(seed, family)
    if refused := refusal(case):
        pytest.skip(refused)
    rng = Random(seed)
    n = len(case.rows)
    cuts = sorted(rng.randint(0, n) for _ in range(rng.randint(0, 4)))
    whole = cep.match(gs.to_frame(case.rows), case.query).to_frame(rows="all")
    found = pushed(case, cuts, tmp_path if is_saved else None)
    pd.testing.assert_frame_equal(
        found.reset_index(drop=True), whole.reset_index(drop=True), check_dtype=False
    )


TICKS = {"t": "int64", "kind": "string"}
TEXT = "PATTERN SEQ(A a, B b) WITHIN 3"


def rows(text: str, start: int = 0) -> list[dict]:
    return [{"t": start + i, "kind": kind} for i, kind in enumerate(text)]


def test_a_match_comes_with_its_last_event():
    stream = cep.stream(TEXT, TICKS, event_type="kind", order_by="t")
    assert stream.push(rows("AX")) == []
    assert stream.push(rows("BA", 2)) == [{"a_t": 0, "b_t": 2}]
    assert stream.push(rows("XB", 4)) == [{"a_t": 3, "b_t": 5}]
    assert repr(stream) == "Stream of 'SEQ(A a, B b)': 6 events, 2 matches, 4 rows kept"
    assert stream.close() == []
    assert repr(stream).startswith("Closed stream")
    with pytest.raises(CepError, match="the stream is closed"):
        stream.push([])


def test_a_match_that_may_be_forbidden_waits():
    text = "PATTERN SEQ(A a, B b, !C c) WITHIN 3"
    stream = cep.stream(text, TICKS, event_type="kind", order_by="t")
    assert stream.push(rows("AB")) == []
    assert stream.push(rows("XX", 2)) == []
    assert stream.push(rows("A", 4)) == [{"a_t": 0, "b_t": 1}]
    assert stream.push(rows("BC", 5)) == []
    assert stream.push(rows("AB", 7)) == []
    assert stream.close() == [{"a_t": 7, "b_t": 8}]


@pytest.mark.parametrize("text", ["SEQ(!A a, B b, C c)", "SEQ(!A a, B b, C c, !D d)"])
def test_a_forbidden_match_stays_forbidden_when_the_forbidding_event_is_forgotten(text):
    stream = cep.stream(f"PATTERN {text} WITHIN 8", TICKS, event_type="kind", order_by="t")
    made = [stream.push([{"t": 0, "kind": "A"}, {"t": 3, "kind": "B"}, {"t": 5, "kind": "C"}])]
    made += [stream.push(rows("X", time)) for time in range(6, 60)]
    assert [*made, stream.close()] == 56 * [[]]


def test_events_out_of_the_window_are_forgotten():
    stream = cep.stream(TEXT, TICKS, event_type="kind", order_by="t")
    for start in range(0, 1000, 10):
        stream.push(rows("XXAXXXXXBX", start))
    assert stream.retained == 4


def test_without_a_window_all_is_kept():
    with pytest.warns(CepWarning, match="without a window the stream keeps every event"):
        stream = cep.stream("PATTERN SEQ(A a, B b)", TICKS, event_type="kind", order_by="t")
    stream.push(rows("AXXX"))
    assert stream.retained == 4
    assert stream.push(rows("B", 100)) == [{"a_t": 0, "b_t": 100}]


def test_mistakes():
    with pytest.raises(UnsupportedQueryError, match=r"\['threads'\] are options of regex streams"):
        cep.stream(TEXT, TICKS, event_type="kind", order_by="t", threads=2)
    stream = cep.stream(TEXT, TICKS, event_type="kind", order_by="t")
    stream.push(rows("AX", 5))
    with pytest.raises(OrderError, match="1 of the batch's 1 rows come before the newest event so far"):
        stream.push(rows("B"))
    assert stream.push(rows("B", 7)) == [{"a_t": 5, "b_t": 7}]


def test_every_stream_tells_the_same(tmp_path):
    ticks = {"t": "int64", "kind": "string", "k": "string"}
    stream = cep.stream(TEXT, ticks, event_type="kind", order_by="t", partition_by="k", rows="all")
    assert (stream.keys, stream.evicted, stream.ended, stream.retained) == (0, 0, 0, 0)
    assert stream.result_schema.names == ["match", "variable", "t", "kind", "k"]
    batch = [{"t": t, "kind": kind, "k": k} for t, (kind, k) in enumerate(["Ax", "Ay", "Bx"])]
    made = stream.push(batch)
    assert [(row["match"], row["variable"], row["t"]) for row in made] == [(0, "a", 0), (0, "b", 2)]
    assert stream.keys == 2
    assert repr(stream).endswith("3 events, 2 keys, 1 match, 3 rows kept")
    stream.save(tmp_path / "stream")
    loaded = cep.stream.load(tmp_path / "stream")
    assert repr(loaded) == repr(stream) and loaded.options == stream.options
    assert loaded.result_schema == stream.result_schema
    for own in (stream, loaded):
        made = own.push([{"t": 3, "kind": "B", "k": "y"}])
        assert [(row["match"], row["t"]) for row in made] == [(1, 1), (1, 3)]
        assert own.flush() == []
        own.push([{"t": 100, "kind": "X", "k": "z"}])
        assert own.keys == 1  # the window has forgotten the others
