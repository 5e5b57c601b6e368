"""Streams of sequence queries: cut into batches, saved and restored, the matches are those of all events."""

from __future__ import annotations

import warnings
from dataclasses import replace
from random import Random

import pandas as pd
import pytest

import cepkit as cep
from cepkit.errors import CepError, CepWarning, OrderError, UnsupportedQueryError
from cepkit.language.sequences.patterns import SequenceQuery
from tests.oracle import generate_sequences as gs
from tests.support.sizes import seeds
from tests.support.tiers import interpret

N_CASES = 6  # of a family and a seed


def is_in_language(query: SequenceQuery) -> bool:
    """Return whether the language has a query: the definition has a meaning for more."""
    try:
        cep.sequence_query(query)
    except CepError:
        return False
    return True


def check(query: SequenceQuery, rows: list[dict], rng: Random, path=None) -> int:
    """Compare a stream that is cut anywhere, and saved after each batch, with one frame."""
    frame = gs.to_frame(rows)
    cuts = sorted(rng.randint(0, len(frame)) for _ in range(rng.randint(0, 4)))
    stream = cep.stream(query, frame.head(0), rows="all")
    made = []
    for begin, end in zip([0, *cuts], [*cuts, len(frame)], strict=True):
        made.append(stream.push(frame.iloc[begin:end]))
        if path is not None:
            stream.save(path)
            stream = cep.stream.load(path)
    made.append(stream.close())
    found = pd.concat([part for part in made if len(part)] or made[-1:])
    if isinstance(query.complete_until, int) and len(frame):  # a stream knows the last time that it has seen
        query = replace(query, complete_until=max(query.complete_until, int(frame["t"].iloc[-1])))
    whole = cep.match(frame, query).to_frame(rows="all")
    pd.testing.assert_frame_equal(
        found.reset_index(drop=True), whole.reset_index(drop=True), check_dtype=False
    )
    return len(whole)


@pytest.mark.filterwarnings("ignore::cepkit.errors.CepWarning")
@pytest.mark.parametrize("family", gs.FAMILIES)
@pytest.mark.parametrize("seed", seeds(1, 60))
def test_batches_do_not_matter(seed, family, tmp_path, monkeypatch):
    interpret(monkeypatch)
    n_run = 0
    for number in range(N_CASES * seed, N_CASES * (seed + 1)):
        case = gs.case(number, number, family)
        if is_in_language(case.query) and not case.query.ends_greedily:
            n_run += 1
            try:
                check(case.query, case.rows, Random(number), tmp_path / "state" if number % 2 else None)
            except BaseException as error:
                error.add_note(f"gs.case({number}, {number}, {family!r})")
                raise
    assert n_run > N_CASES / 2


@pytest.mark.filterwarnings("ignore::cepkit.errors.CepWarning")
@pytest.mark.parametrize("where", ["", "b.x > a.x", "b.y <= a.y AND a.x > 1", "b.g = a.g AND b.x != a.x"])
def test_a_match_is_kept_when_the_event_that_forbids_another_is_forgotten(where, monkeypatch):
    interpret(monkeypatch)
    text = f"PATTERN SEQ(!B b, _ a) {'WHERE' if where else ''} {where} WITHIN 12 GAP 1"
    n_rows = 0
    for seed in range(20):
        rng = Random(f"{where} {seed}")
        query = cep.sequence_query(
            text, strategy="next", partition_by=["k", "f"], order_by="t", event_type="kind",
            scope=rng.choice(["run", "edge"]), after_match=rng.choice(["none", "past_last", "to_next"]),
            within_closed=rng.random() < 0.7,
        )  # fmt: skip
        n_rows += check(query, gs.stream(rng, query, rng.randint(1, 9), 2), rng)
    assert n_rows > 20


TICKS = {"t": "int64", "kind": "string"}
TEXT = "PATTERN SEQ(A a, B b) WITHIN 3"


def rows(text: str, start: int = 0) -> list[dict]:
    return [{"t": start + i, "kind": kind} for i, kind in enumerate(text)]


def test_a_match_comes_with_its_last_event():
    stream = cep.stream(TEXT, TICKS, event_type="kind", order_by="t")
    assert stream.push(rows("AX")) == []
    assert stream.push(rows("BA", 2)) == [{"a_t": 0, "b_t": 2}]
    assert stream.push(rows("XB", 4)) == [{"a_t": 3, "b_t": 5}]
    assert repr(stream) == "Stream of 'SEQ(A a, B b)': 6 events, 2 matches, 3 rows kept"
    assert stream.close() == []
    assert repr(stream).startswith("Closed stream")
    with pytest.raises(CepError, match="the stream is closed"):
        stream.push([])


def test_a_match_that_may_be_forbidden_waits(tmp_path):
    text = "PATTERN SEQ(A a, B b, !C c) WITHIN 3"
    stream = cep.stream(text, TICKS, event_type="kind", order_by="t")
    assert stream.push(rows("AB")) == []
    assert stream.push(rows("XX", 2)) == []
    assert stream.push(rows("A", 4)) == [{"a_t": 0, "b_t": 1}]
    assert stream.push(rows("BC", 5)) == []
    assert stream.push(rows("AB", 7)) == []
    path = tmp_path / "stream"
    stream.save(path)
    for until, n in ((None, 0), (9, 0), (10, 1), ("end", 1)):
        assert cep.stream.load(path).close(complete_until=until) == n * [{"a_t": 7, "b_t": 8}]
    with pytest.raises(CepError, match="complete_until='soon': the clock has numbers, so give a number"):
        stream.close(complete_until="soon")
    assert stream.flush() == stream.close() == []


@pytest.mark.parametrize("text", ["SEQ(!A a, B b, C c)", "SEQ(!A a, B b, C c, !D d)"])
def test_a_forbidden_match_stays_forbidden_when_the_forbidding_event_is_forgotten(text):
    stream = cep.stream(f"PATTERN {text} WITHIN 8", TICKS, event_type="kind", order_by="t")
    made = [stream.push([{"t": 0, "kind": "A"}, {"t": 3, "kind": "B"}, {"t": 5, "kind": "C"}])]
    made += [stream.push(rows("X", time)) for time in range(6, 60)]
    assert [*made, stream.close()] == 56 * [[]]


def test_events_out_of_the_window_are_forgotten():
    stream = cep.stream(TEXT, TICKS, event_type="kind", order_by="t")
    for start in range(0, 1000, 10):
        stream.push(rows("BXAAXXXXBX", start))
    assert stream.status().rows == 1


@pytest.mark.parametrize(
    ("query", "n_kept"),
    [
        ("PATTERN SEQ(A a, B b) WITHIN 100", 2),
        ("PATTERN SEQ(A a, !Y y, B b) WITHIN 100", 3),
        ("PATTERN SEQ(A a, B b)", 2),
        ("PATTERN SEQ(A a, B b) WITHIN 100 EVENTS", 99),
        ("PATTERN SEQ(A a, _ b) WITHIN 100", 100),
    ],
)
def test_events_that_no_pattern_names_are_not_kept(query, n_kept, tmp_path):
    """They count for a window of events, and the time of the last one is the time of the stream."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CepWarning)
        stream = cep.stream(query, TICKS, event_type="kind", order_by="t")
    batches = [rows("AXXXY"), rows("B" + "X" * 44, 5), rows("X" * 50, 50)]
    matches = [match for batch in batches for match in stream.push(batch)]
    assert stream.status().rows == n_kept
    assert len(matches) == (0 if "!Y" in query else 99 if "_" in query else 1)


def test_the_time_of_the_stream_is_that_of_events_that_are_not_kept(tmp_path):
    stream = cep.stream("PATTERN SEQ(A a, !B b) WITHIN 9", TICKS, event_type="kind", order_by="t")
    assert stream.push(rows("A" + "X" * 9)) == []
    stream.save(tmp_path / "state")
    for opened in (stream, cep.stream.load(tmp_path / "state")):
        assert opened.close() == [{"a_t": 0}]


def test_without_a_window_all_is_kept():
    with pytest.warns(CepWarning, match="without a window the stream keeps every event of the pattern"):
        stream = cep.stream("PATTERN SEQ(A a, B b)", TICKS, event_type="kind", order_by="t")
    stream.push(rows("AAXX"))
    assert stream.status().rows == 2
    assert stream.push(rows("B", 100)) == [{"a_t": 0, "b_t": 100}, {"a_t": 1, "b_t": 100}]


def test_mistakes():
    with pytest.raises(
        UnsupportedQueryError, match=r"threads=2: a stream of event sequences does not take it"
    ):
        cep.stream(TEXT, TICKS, event_type="kind", order_by="t", threads=2)
    stream = cep.stream(TEXT, TICKS, event_type="kind", order_by="t")
    stream.push(rows("AX", 5))
    with pytest.raises(OrderError, match="1 of the batch's 1 rows come before the newest event so far"):
        stream.push(rows("B"))
    assert stream.push(rows("B", 7)) == [{"a_t": 5, "b_t": 7}]


def test_every_stream_tells_the_same(tmp_path):
    ticks = {"t": "int64", "kind": "string", "k": "string"}
    stream = cep.stream(TEXT, ticks, event_type="kind", order_by="t", partition_by="k", rows="all")
    status = stream.status()
    assert (status.keys, status.forgotten, status.ended, status.rows, status.newest) == (0, 0, 0, 0, None)
    assert stream.result_schema.names == ["match", "variable", "t", "kind", "k"]
    batch = [{"t": t, "kind": kind, "k": k} for t, (kind, k) in enumerate(["Ax", "Ay", "Bx"])]
    made = stream.push(batch)
    assert [(row["match"], row["variable"], row["t"]) for row in made] == [(0, "a", 0), (0, "b", 2)]
    assert stream.status().keys == 2
    assert repr(stream).endswith("3 events, 2 keys, 1 match, 3 rows kept")
    stream.save(tmp_path / "stream")
    loaded = cep.stream.load(tmp_path / "stream")
    assert repr(loaded) == repr(stream) and loaded.options == stream.options
    assert loaded.result_schema == stream.result_schema
    for own in (stream, loaded):
        made = own.push([{"t": 3, "kind": "B", "k": "y"}])
        assert [(row["match"], row["t"]) for row in made] == [(1, 1), (1, 3)]
        assert own.flush() == []
        own.push([{"t": 100, "kind": "A", "k": "z"}])
        assert own.status().keys == 1  # the window has forgotten the others
