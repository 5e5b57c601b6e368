"""Streams: cut anywhere, on any number of threads, saved and loaded at any point, the same matches."""

import copy
import gc
import json
import math
import pickle
import zipfile
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from random import Random

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import cepkit as cep
from cepkit.errors import CepError, ColumnNotFoundError, OrderError, PredicateError, UnsupportedQueryError
from cepkit.language.expressions.functions import _REGISTRY
from cepkit.streaming import saved as state_files
from tests.oracle import naive
from tests.support.regex_streams import (
    JUMPS,
    PEAKS,
    SHAPES,
    TRADES,
    assert_same,
    case_and_frame,
    expected,
    open_case,
    open_stream,
    pieces,
    run,
    trades,
)
from tests.support.sizes import JIT, seeds

# --- the whole = its parts --------------------------------------------------------------------------------


def naive_rows(case):
    found = naive.matches(case.pattern, case.define, case.rows, **case.keywords())
    return [(match[0], match[-1], len(match)) for match in found]


@cache
def defined_rows(seed, shape):
    """Return the matches of a random case, which several sizes of batches have in common."""
    return naive_rows(case_and_frame(seed, shape)[0])


@pytest.mark.filterwarnings("ignore::cepkit.errors.CepWarning")
@pytest.mark.parametrize("sizes", [[1], [2], [7], [1000], [0, 1, 3, 15]], ids=str)
@pytest.mark.parametrize("shape", SHAPES)
def test_chunks_of_any_size_give_what_the_definition_gives(shape, sizes):
    n_found = 0
    for seed in range(4 if JIT else 2):
        case, frame = case_and_frame(seed, shape)
        stream = open_case(case)
        found = run(stream, pieces(frame, seed, sizes))
        assert list(found.columns) == [*case.partition_by, "first", "last", "n"]
        wanted = defined_rows(seed, shape)
        assert list(found[["first", "last", "n"]].itertuples(index=False, name=None)) == wanted
        assert found.drop(columns=["first", "last", "n"]).equals(
            frame.loc[found["last"].to_numpy(np.int64), list(case.partition_by)].reset_index(drop=True)
        )
        assert (stream.events, stream.matches) == (40, len(wanted))
        n_found += len(wanted)
    assert n_found


@pytest.mark.parametrize("query", [PEAKS, JUMPS], ids=["peaks", "jumps"])
@pytest.mark.parametrize("seed", seeds(3, 6))
def test_results_are_the_frames_of_match(seed, query):
    frame = trades(seed)
    wanted = expected(frame, query)
    assert len(wanted) > 3
    assert_same(run(open_stream(query), pieces(frame, seed)), wanted)


@pytest.mark.parametrize("seed", seeds(3, 6))
def test_all_rows_with_their_variables(seed):
    frame = trades(seed)
    wanted = frame.cep.match(**PEAKS).to_frame(rows="all").reset_index(drop=True)
    stream = open_stream(PEAKS, rows="all")
    assert_same(run(stream, pieces(frame, seed)), wanted)
    threaded = open_stream(PEAKS, rows="all", threads=3)
    assert_same(run(threaded, pieces(frame, seed + 1)), wanted)
    assert threaded.result_schema.names == list(wanted.columns)


@pytest.mark.parametrize("seed", seeds(2, 4))
def test_labels_know_the_rows_before_a_match(seed):
    # The first row of a match is labelled by what came three rows before it, in an earlier batch.
    query = {
        "query": "up (big | .) down",
        "define": {
            "up": "price > prev(price, 3)",
            "big": "price > prev(price, 2)",
            "down": "price < prev(price)",
        },
        "partition_by": "symbol",
        "order_by": "ts",
    }  # fmt: skip
    frame = trades(seed)
    wanted = frame.cep.match(**query).to_frame(rows="all").reset_index(drop=True)
    assert len(wanted) and set(wanted["variable"]) == {"up", "big", ".", "down"}
    assert_same(run(open_stream(query, rows="all"), pieces(frame, seed, [1, 2, 5])), wanted)


def test_default_measures_are_places_in_the_stream():
    query = {"query": ". rise", "define": {"rise": "price > prev(price)"}}
    frame = trades(0, 50)
    found = run(open_stream(query, {"price": "int64"}), pieces(frame, 0))
    assert_same(found, frame.cep.match(**query).to_frame())


def test_a_batch_is_sorted_and_ties_keep_their_order():
    frame = trades(3, 60)
    shuffled = frame.sample(frac=1, random_state=1)
    half = frame["ts"].iloc[30]
    batches = [shuffled[shuffled["ts"] < half], shuffled[shuffled["ts"] >= half]]
    wanted = expected(shuffled, PEAKS)
    assert len(wanted) and shuffled["ts"].duplicated().any()
    assert_same(run(open_stream(PEAKS), batches), wanted)


# --- threads ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [2, 8])
@pytest.mark.parametrize("seed", seeds(2, 4))
def test_threads_change_nothing(seed, threads):
    frame = trades(seed, 2000, n_symbols=11)
    wanted = expected(frame, PEAKS)
    with open_stream(PEAKS, threads=threads, pulse_every=10 + 50 * seed) as stream:
        assert_same(run(stream, pieces(frame, seed)), wanted)
    with pytest.raises(CepError, match="the stream is closed"):
        stream.push(frame)


def test_pulses_bring_out_what_a_silent_key_would_hold_back():
    frame = trades(1, 400, n_symbols=1)
    stream = open_stream(PEAKS, threads=2, pulse_every=50)
    found = []
    for batch in pieces(frame, 0, [10]):
        found.append(stream.push(batch))
        for (
            inbox
        ) in stream._search._threads._inboxes:  # all that was given is done: the longest queue is empty
            inbox.join()
        found.append(stream.push(batch.iloc[:0]))
        known = expected(frame.iloc[: stream.events], PEAKS)
        waiting = known.iloc[stream.matches :]
        oldest = frame.iloc[max(0, stream.events - 50)]["ts"]
        assert (waiting["end"] >= oldest).all()
    assert stream.matches > 0
    found.append(stream.close())
    assert_same(pd.concat([f for f in found if len(f)], ignore_index=True), expected(frame, PEAKS))


def test_an_error_in_a_thread_ends_the_stream_and_is_told():
    stream = open_stream(JUMPS, threads=2, max_live=2)
    quiet = pd.DataFrame({"ts": range(9), "symbol": "A", "price": 5})
    stream.push(quiet)
    with pytest.raises(
        CepError, match=r"the stream cannot continue: the partition symbol='A' has \d live partial"
    ):
        stream.flush()
    with pytest.raises(CepError, match="cannot continue"):
        stream.push(quiet.assign(ts=99))


def test_the_threads_of_a_forgotten_stream_end():
    stream = open_stream(PEAKS, threads=2)
    stream.push(trades(0))
    threads = stream._search._threads._threads
    del stream
    gc.collect()
    for thread in threads:
        thread.join(timeout=60)
    assert not any(thread.is_alive() for thread in threads)


def test_threads_need_keys():
    with pytest.raises(CepError, match="threads=4 needs partition_by"):
        cep.stream("a", {"a": "bool"}, threads=4)


# --- save and load ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("query", [PEAKS, JUMPS], ids=["peaks", "jumps"])
@pytest.mark.parametrize("seed", seeds(2, 4))
def test_a_loaded_stream_goes_on_as_if_nothing_had_happened(seed, query, threads, tmp_path):
    rng, frame, path = Random(seed), trades(seed), tmp_path / "stream.cep"
    stream, found = open_stream(query, threads=threads, pulse_every=60), []
    for batch in pieces(frame, seed):
        found.append(stream.push(batch))
        if rng.random() < 0.3:
            stream.save(path)
            before = repr(stream)
            if rng.random() < 0.5:  # what the old one does from here on is of no importance
                stream.push(batch.assign(ts=10**6))
            stream = cep.stream.load(path)
            assert repr(stream) == before
    found.append(stream.flush())
    shown = pd.concat([f for f in found if len(f)], ignore_index=True)
    assert_same(shown.astype({"symbol": object}), expected(frame, query).astype({"symbol": object}))


@pytest.mark.filterwarnings("ignore::cepkit.errors.CepWarning")
@pytest.mark.parametrize("shape", SHAPES)
def test_any_state_can_be_saved(shape, tmp_path):
    path = tmp_path / "stream.cep"
    for seed in range(3):
        case, frame = case_and_frame(seed, shape)
        stream, found = open_case(case), []
        for batch in pieces(frame, seed, [9]):
            found += stream.push(batch)[["first", "last", "n"]].to_numpy().tolist()
            stream.save(path)
            stream = cep.stream.load(path)
        assert [tuple(row) for row in found] == naive_rows(case)


def test_saving_twice_gives_the_same_bytes_and_no_leftovers(tmp_path):
    stream = open_stream(PEAKS, rows="all", idle_after=500)
    stream.push(trades(0))
    stream.save(tmp_path / "a")
    cep.stream.load(tmp_path / "a").save(tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a", "b"]


def test_parameters_windows_and_orders_are_saved(tmp_path):
    sizes = pd.CategoricalDtype(["small", "middle", "large"], ordered=True)
    schema = {"ts": "timestamp[ms, UTC]", "size": sizes, "price": "float64"}
    query = {
        "query": ". a b",
        "define": {"a": "size < 'large' and price > :least", "b": "size >= first(size) and ts > :begin"},
        "order_by": "ts",
        "within": pd.Timedelta("1500 ms"),
        "within_closed": False,
        "params": {"least": np.float64(0.5), "begin": pd.Timestamp("2024-01-01", tz="UTC")},
        "measures": {"end": "last(ts)", "size": "first(size)"},
    }
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "ts": pd.date_range("2024-01-01", periods=200, freq="500ms", tz="UTC", unit="ms"),
            "size": pd.Categorical.from_codes(rng.integers(-1, 3, 200), dtype=sizes),
            "price": rng.random(200),
        }
    )
    wanted = frame.cep.match(**query).to_frame()
    assert len(wanted) > 3
    stream = open_stream(query, schema)
    found = [stream.push(frame[:80])]
    stream.save(tmp_path / "s")
    stream = cep.stream.load(tmp_path / "s")
    found.append(stream.push(frame[80:]))
    assert_same(pd.concat(found, ignore_index=True), wanted)


def test_functions_must_be_registered_where_a_stream_is_loaded(tmp_path):
    try:
        cep.pure(lambda x: x % 2 == 1, name="is_odd")
        stream = cep.stream(". odd", {"x": "int64"}, define={"odd": "is_odd(x)"}, measures={"x": "last(x)"})
        assert stream.push([{"x": 1}, {"x": 2}]) == []
        stream.save(tmp_path / "s")
        _REGISTRY.pop("is_odd")
        with pytest.raises(PredicateError, match=r"calls \['is_odd'\], which are not registered here"):
            cep.stream.load(tmp_path / "s")
        cep.pure(lambda x: x % 2 == 1, name="is_odd")
        assert cep.stream.load(tmp_path / "s").push([{"x": 3}]) == [{"x": 3}]
    finally:
        _REGISTRY.pop("is_odd", None)


def changed_header(path, **changes):
    """Write the file again with another header."""
    with zipfile.ZipFile(path) as members:
        contents = {name: members.read(name) for name in members.namelist()}
    contents["header.json"] = json.dumps({**json.loads(contents["header.json"]), **changes}).encode()
    with zipfile.ZipFile(path, "w") as members:
        for name, content in contents.items():
            members.writestr(name, content)


def test_files_of_other_versions_and_other_files_are_refused(tmp_path):
    path = tmp_path / "s"
    open_stream(PEAKS).save(path)
    good = path.read_bytes()
    for other in (99, 1):
        changed_header(path, version=other)
        with pytest.raises(
            CepError, match=f"another version of cepkit wrote .*: its format is {other}, this version"
        ):
            cep.stream.load(path)
    changed_header(path, version=state_files.FORMAT_VERSION, kernels=-1)
    with pytest.raises(CepError, match="the layout of kernel state is -1"):
        cep.stream.load(path)
    for wrong in (b"", b"not a zip file", good[: len(good) // 2]):
        path.write_bytes(wrong)
        with pytest.raises(CepError, match="not a state file of cepkit, or it is damaged"):
            cep.stream.load(path)
    with pytest.raises(FileNotFoundError):
        cep.stream.load(tmp_path / "nothing")


def test_a_file_with_pickled_objects_is_refused(tmp_path):
    path = tmp_path / "s"
    open_stream(PEAKS).save(path)
    with zipfile.ZipFile(path) as members:
        contents = {name: members.read(name) for name in members.namelist()}
    assert "arrays/search/keys/free.npy" in contents
    with zipfile.ZipFile(path, "w") as members:
        for name, content in contents.items():
            if name == "arrays/search/keys/free.npy":
                with members.open(name, "w") as file:
                    np.lib.format.write_array(file, np.array([print], dtype=object), allow_pickle=True)
            else:
                members.writestr(name, content)
    with pytest.raises(CepError, match="damaged"):
        cep.stream.load(path)


def test_a_failed_save_leaves_the_file_that_was_there(tmp_path):
    path = tmp_path / "s"
    open_stream(PEAKS).save(path)
    good = path.read_bytes()
    saved = state_files.Saved({"kind": "stream"}, {"bad": np.array([print], dtype=object)}, {})
    with pytest.raises(CepError, match="bad holds Python objects"):
        state_files.save_file(path, saved)
    with pytest.raises(TypeError):
        state_files.save_file(path, state_files.Saved({"kind": print}, {}, {}))
    assert path.read_bytes() == good and len(list(tmp_path.iterdir())) == 1


# --- what is kept -----------------------------------------------------------------------------------------


def test_short_matches_keep_few_rows():
    frame = trades(0, 20_000, n_symbols=20)
    stream = cep.stream(
        ". rise rise rise",
        TRADES,
        define={"rise": "price > prev(price)"},
        partition_by="symbol",
        measures={"low": "first(price)", "top": "last(price)"},
    )
    most = 0
    for begin in range(0, len(frame), 100):
        stream.push(frame.iloc[begin : begin + 100])
        most = max(most, stream._search.n_retained)
    assert stream.matches > 300
    assert (
        most <= 2 * 3 * 20 + 100 + 20
    )  # twice three rows a symbol, one batch, a quarter of the state's room


def test_nothing_is_kept_of_what_can_match_no_more():
    stream = open_stream(PEAKS)
    stream.push(pd.DataFrame({"ts": [1, 2, 3, 4], "symbol": ["A"] * 4, "price": [5, 7, 6, 4]}))
    assert (stream.matches, stream.status().rows) == (1, 0)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("seed", seeds(2, 4))
def test_idle_keys_start_afresh_wherever_the_stream_is_cut(seed, threads):
    frame = trades(seed, 900, n_symbols=20)
    # The same with the pauses as a second key, which a frame as a whole can have.
    pause = frame.groupby("symbol")["ts"].diff() > 25
    runs = frame.assign(run=pause.groupby(frame["symbol"]).cumsum())
    wanted = expected(runs, {**PEAKS, "partition_by": ["symbol", "run"]}).drop(columns="run")
    assert len(wanted) > 3 and len(wanted) != len(expected(frame, PEAKS))
    stream = open_stream(PEAKS, idle_after=25, threads=threads)
    assert_same(run(stream, pieces(frame, seed)), wanted)
    last = runs.groupby(["symbol", "run"])["ts"].max().groupby("symbol").last()
    n_later_runs = len(runs[["symbol", "run"]].drop_duplicates()) - len(last)
    assert stream.status().forgotten == n_later_runs + int((frame["ts"].max() - last > 25).sum())
    assert stream.status().keys == int((frame["ts"].max() - last <= 25).sum())
    assert stream.status().ended > 0


def test_codes_of_forgotten_keys_are_given_again():
    stream = open_stream(PEAKS, idle_after=10)
    for ts in range(0, 10_000, 5):
        stream.push([{"ts": ts, "symbol": f"S{ts}", "price": 1}])
    assert stream.status().keys <= 3 and stream._search._keys.n_codes <= 4
    assert stream.status().forgotten == 2000 - stream.status().keys


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("low", ["price <= first(price)", "price < prev(price)"])
@pytest.mark.parametrize("seed", range(4))
def test_within_ends_keys_and_changes_no_match(seed, low, threads):
    frame = trades(seed, 400, n_symbols=40)
    first_symbol = np.arange(len(frame)) // 50
    frame["symbol"] = frame["symbol"] + first_symbol.astype(str)  # symbols come and go
    query = {
        "query": "high low+ high",
        "define": {"high": "price > 20", "low": low},
        "partition_by": "symbol",
        "order_by": "ts",
        "within": 12 + 9 * seed,
        "measures": {"begin": "first(ts)", "end": "last(ts)", "total": "sum(price)"},
    }
    stream = open_stream(query, threads=threads)
    assert_same(run(stream, pieces(frame, seed)), expected(frame, query))
    # A condition that reads the row before the first one needs the key for ever.
    assert (stream.status().keys == frame["symbol"].nunique()) == ("prev" in low)
    assert (stream.status().forgotten, stream.status().ended) == (0, 0)


def test_a_forgotten_key_takes_its_rows_along():
    # B gets the code of A; the row before its first one is not A's.
    stream = cep.stream(
        "(fresh | .) up",
        TRADES,
        define={"fresh": "prev(price) is null", "up": "price > prev(price)"},
        partition_by="symbol",
        order_by="ts",
        rows="all",
        idle_after=10,
    )
    stream.push([{"ts": 0, "symbol": "A", "price": 6}, {"ts": 1, "symbol": "A", "price": 5}])
    stream.push([{"ts": 100, "symbol": "C", "price": 1}])
    assert (stream.status().forgotten, stream.status().ended) == (1, 1)
    found = stream.push([{"ts": 101, "symbol": "B", "price": 1}, {"ts": 102, "symbol": "B", "price": 2}])
    assert stream._search._keys.n_codes == 2
    assert [(row["symbol"], row["variable"]) for row in found] == [("B", "fresh"), ("B", "up")]


@pytest.mark.parametrize("query", [PEAKS, JUMPS], ids=["list", "queue"])
def test_too_many_live_starts_name_the_key_and_change_nothing(query):
    frame = trades(2, 200, n_symbols=3).assign(ts=range(200))
    stream, found, refused = open_stream(query, max_live=4), [], 0
    twin = open_stream(query)
    for begin in range(0, 200, 10):
        batch = frame.iloc[begin : begin + 10]
        try:
            found.append(stream.push(batch))
        except CepError as error:
            assert "the partition symbol='S" in str(error) and "more than max_live=4" in str(error)
            refused += 1
            continue
        pd.testing.assert_frame_equal(found[-1], twin.push(batch))
    assert refused and stream.events == 200 - 10 * refused


# --- errors -----------------------------------------------------------------------------------------------

GOOD = {"ts": [10, 11], "symbol": ["A", "A"], "price": [5, 6]}
BAD = {
    "missing": ({"ts": [10], "symbol": ["A"], "prise": [5]}, ColumnNotFoundError, "Did you mean 'prise'"),
    "type": ({**GOOD, "price": ["5", "6"]}, CepError, "'price' must be int64 not null, it is"),
    "loss": ({**GOOD, "price": [5.0, 6.5]}, CepError, "'price' must be int64 not null, it is double"),
    "null": ({**GOOD, "price": pd.array([5, None], "Int64")}, CepError, "it has 1 nulls among 2 values"),
    "behind": ({**GOOD, "ts": [1, 12]}, OrderError, r"1 of the batch's 2 rows .* \(ts = 5\)"),
    "no time": ({**GOOD, "ts": pd.array([None, 12], "Int64")}, OrderError, "'ts' has 1 missing values of 2"),
    "no frame": (17, CepError, "a batch is a pandas or polars DataFrame"),
}


@pytest.mark.parametrize("bad", BAD)
def test_a_refused_batch_has_no_effect(bad):
    batch, error, message = BAD[bad]
    batch = pd.DataFrame(batch) if isinstance(batch, dict) else batch
    stream, twin = open_stream(PEAKS), open_stream(PEAKS)
    first = pd.DataFrame({"ts": [1, 2, 5], "symbol": ["A"] * 3, "price": [5, 7, 6]})
    stream.push(first), twin.push(first)
    before = repr(stream)
    with pytest.raises(error, match=message):
        stream.push(batch)
    assert repr(stream) == before
    last = pd.DataFrame({"ts": [5], "symbol": ["A"], "price": [4]})
    found = stream.push(last)
    assert len(found) == 1
    pd.testing.assert_frame_equal(found, twin.push(last))


def test_a_function_that_raises_leaves_the_stream_as_it_was():
    def careful(price):
        if price == 13:
            raise ValueError("unlucky")
        return price > 5

    stream = cep.stream(
        ". a a", {"price": "int64"}, define={"a": cep.pure(careful)}, measures={"n": "count()"}
    )
    try:
        assert stream.push([{"price": 1}, {"price": 6}]) == []
        with pytest.raises(ValueError, match="unlucky"):
            stream.push([{"price": 2}, {"price": 13}])
        assert stream.events == 2
        assert stream.push([{"price": 7}]) == [{"n": 3}]
    finally:
        _REGISTRY.pop("careful", None)


def test_options_are_checked_before_work():
    for wrong in ({"rows": "some"}, {"threads": 0}, {"pulse_every": 1.5}, {"max_live": 0}):
        with pytest.raises(CepError, match=next(iter(wrong))):
            open_stream(PEAKS, **wrong)
    with pytest.raises(CepError, match="idle_after needs a clock"):
        cep.stream("a", {"a": "bool"}, idle_after=3)
    with pytest.raises(CepError, match="expected a positive duration"):
        open_stream(PEAKS, idle_after=-3)
    with pytest.raises(CepError, match=r"rename \['match'\]"):
        cep.stream("a", {"a": "bool", "match": "int64"}, rows="all")
    with pytest.raises(ColumnNotFoundError, match="Did you mean 'price'"):
        cep.stream("a", TRADES, define={"a": "prise > 1"})


# --- texts ------------------------------------------------------------------------------------------------


def test_texts_are_compared_with_constants_and_texts_that_come_later():
    schema = {"s": "string", "u": "string", "n": "int64"}
    query = {
        "query": "new (same | like)+ end",
        "define": {
            "new": "s == 'new'",
            "same": "s == u or s == prev(u)",
            "like": "s like '%x%'",
            "end": "s in ('end', 'stop')",
        },
        "measures": {"first": "first(n)", "last": "last(n)"},
    }  # fmt: skip
    rng = Random(0)
    words = ["new", "new", "new", "end", "stop", *"abc"]
    rows = []
    for n in range(600):
        word = rng.choice([*words, f"x{n}", f"{n}"])  # a third of the texts were never seen before
        rows.append({"s": word, "u": rng.choice([word, "a", None]), "n": n})
    frame = pd.DataFrame(rows).astype({"s": "string", "u": "string"})
    wanted = frame.cep.match(**query).to_frame()
    assert len(wanted) > 5
    assert_same(run(open_stream(query, schema), pieces(frame, 1)), wanted)


def test_texts_without_an_order_of_their_own_cannot_be_ordered():
    for test in ("s > prev(s)", "s == max(s)"):
        with pytest.raises(UnsupportedQueryError, match=r"orders the texts of \['s'\].*CategoricalDtype"):
            cep.stream(". a", {"s": "string"}, define={"a": test})


def test_other_texts_than_the_ordered_ones_are_refused():
    size = pd.CategoricalDtype(["S", "M", "L"], ordered=True)
    stream = cep.stream(
        ". up", {"size": size}, define={"up": "size > prev(size)"}, measures={"to": "last(size)"}
    )
    assert stream.push([{"size": "L"}, {"size": "S"}]) == []
    with pytest.raises(CepError, match=r"holds 'XL', but its ordered categories are \['S', 'M', 'L'\]"):
        stream.push([{"size": "XL"}])
    assert stream.push([{"size": None}, {"size": "M"}, {"size": "L"}]) == [{"to": "L"}]


def test_a_batch_without_texts_of_ordered_categories():
    size = pd.CategoricalDtype(["S", "M", "L"], ordered=True)
    frame = pd.DataFrame({"size": pd.Series(["S", None, "L"], dtype=size)})
    stream = cep.stream(
        ". up", frame.head(0), define={"up": "size > prev(size, 2)"}, measures={"to": "last(size)"}
    )
    found = [stream.push(frame.iloc[begin:end]) for begin, end in [(0, 0), (0, 1), (1, 2), (2, 3), (3, 3)]]
    assert [len(own) for own in found] == [0, 0, 0, 1, 0]


# --- schemas and frames -----------------------------------------------------------------------------------


def test_a_schema_can_be_given_in_many_ways():
    from cepkit.streaming.batches import schema_of

    wanted = pa.schema(
        [
            pa.field("t", pa.timestamp("us", "UTC")),
            pa.field("n", pa.int64(), False),
            pa.field("x", pa.float64()),
            pa.field("s", pa.large_string()),
        ]
    )
    text = {"t": "timestamp[us, UTC]", "n": "int64 NOT NULL", "x": "double", "s": "large_string"}
    assert schema_of(text).arrow.equals(wanted)
    assert schema_of({**text, "t": pa.timestamp("us", "UTC"), "x": float}).arrow.equals(wanted)
    assert schema_of(wanted).arrow.equals(wanted)
    frame = pd.DataFrame(
        {"t": pd.DatetimeIndex([], tz="UTC").as_unit("us"), "n": np.empty(0, np.int64), "x": 0.5}
    )
    frame["s"] = pd.Series([], dtype=pd.ArrowDtype(pa.large_string()))
    assert schema_of(frame).arrow.equals(wanted)
    table = pa.Table.from_pylist([], schema=wanted)
    assert schema_of(table).arrow.equals(wanted)
    polars = pytest.importorskip("polars")
    nullable = pa.schema([field.with_nullable(True) for field in wanted])
    assert schema_of(polars.from_arrow(table)).arrow.equals(nullable)


def test_schemas_that_cannot_be_read():
    from cepkit.streaming.batches import schema_of

    with pytest.raises(CepError, match=r"'x' has the unknown type 'in64'. Did you mean 'int64'"):
        schema_of({"x": "in64"})
    for wrong in ({}, {"x": object()}, {1: "int64"}, 17, pa.schema([("a", pa.int64()), ("a", pa.int64())])):
        with pytest.raises(CepError, match="schema"):
            schema_of(wrong)


@pytest.mark.parametrize("kind", ["pandas", "arrow", "batch", "polars", "rows"])
def test_results_are_of_the_kind_of_the_batch(kind):
    polars = pytest.importorskip("polars")
    frame = trades(0, 100).rename_axis(None)
    table = pa.Table.from_pandas(frame, preserve_index=False)
    batch, type_of_result = {
        "pandas": (frame, pd.DataFrame),
        "arrow": (table, pa.Table),
        "batch": (table.to_batches()[0], pa.Table),
        "polars": (polars.from_arrow(table), polars.DataFrame),
        "rows": (table.to_pylist(), list),
    }[kind]
    stream = open_stream(PEAKS)
    found = stream.push(batch)
    assert isinstance(found, type_of_result)
    assert isinstance(stream.push(batch[:0] if kind != "batch" else batch.slice(0, 0)), type_of_result)
    rows = {
        "pandas": lambda: found.to_dict("records"),
        "polars": lambda: found.to_dicts(),
        "rows": lambda: found,
    }
    wanted = expected(frame, PEAKS).to_dict("records")
    assert rows.get(kind, lambda: found.to_pylist())() == wanted


def test_every_type_keeps_its_values():
    n = 200
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "t": pd.to_datetime(rng.integers(0, 10**15, n)).sort_values().tz_localize("Europe/Berlin"),
            "d": pd.to_timedelta(rng.integers(0, 10**9, n), unit="us"),
            "u": rng.integers(0, 255, n).astype(np.uint8),
            "f": rng.random(n).astype(np.float32),
            "b": rng.random(n) < 0.6,
            "g": pd.array(rng.integers(0, 4, n), "Int16"),
            "c": pd.Categorical(rng.choice(["p", "q"], n)),
        }
    )
    frame.loc[frame.index[::9], ["g", "c"]] = None
    query = {
        "query": "b up+ .",
        "define": {"up": "u >= prev(u) or f > 0.5 and g is not null and d > '100 s' and c == 'p'"},
        "partition_by": ["c", "g"],
        "order_by": "t",
        "within": "2 days",
        "measures": {
            "t": "last(t)", "d": "first(d)", "u": "last(u)", "f": "last(f)", "b": "first(b)",
            "total": "sum(u)",
        },
    }  # fmt: skip
    wanted = frame.cep.match(**query).to_frame()
    assert len(wanted) > 3
    found = run(open_stream(query, frame), pieces(frame, 0, [1, 4, 9]))
    assert_same(found.astype({"c": object}), wanted.astype({"c": object}))


@pytest.mark.parametrize("n_rows", [0, 3])
def test_keys_of_no_type_are_null(n_rows):
    frame = pd.DataFrame({"k": pd.array([None] * n_rows, pd.ArrowDtype(pa.null())), "x": range(n_rows)})
    stream = cep.stream(". up", frame, define={"up": "x > 0"}, partition_by="k", measures={"x": "last(x)"})
    found = stream.push(frame)
    assert found["x"].tolist() == [1][:n_rows] and found["k"].isna().all()


@pytest.mark.parametrize(
    "query",
    [
        {"query": ". up", "define": {"up": "x > prev(x)"}, "measures": {"x": "last(x)"}},
        {
            "query": "PATTERN SEQ(_ a, _ b) WITHIN 10",
            "strategy": "next",
            "order_by": "x",
            "measures": {"x": "b.x"},
        },
        {
            "query": "PATTERN SEQ(_ a, _ b) WITHIN 10",
            "after_match": "past_last",
            "order_by": "x",
            "measures": {"x": "b.x"},
        },
    ],
)
def test_keys_beyond_the_calendar_are_kept(query, tmp_path):
    times = pa.array([-(2**63) + 2, 0, None], pa.int64()).view(pa.timestamp("ms", "America/New_York"))
    rows = pa.table({"k": times.take(pa.array([0, 1, 2, 0, 1, 2])), "x": [1, 2, 3, 4, 5, 6]})
    stream = open_stream(query, rows.schema, partition_by="k")
    assert stream.push(rows.slice(0, 3)).num_rows == 0
    stream.save(tmp_path / "state")
    for opened in (stream, cep.Stream.load(tmp_path / "state")):
        found = opened.push(rows.slice(3))
        assert found["x"].to_pylist() == [4, 5, 6]
        assert found["k"].combine_chunks().view(pa.int64()).to_pylist() == [-(2**63) + 2, 0, None]


def test_objects_of_times_keep_their_nanoseconds():
    times = [pd.Timestamp(1, unit="ns"), pd.Timestamp(2, unit="ns"), None]
    frame = pd.DataFrame({"n": [1, 2, 3], "t": pd.Series(times, dtype=object)})
    for size, schema in ((1, {"n": "int64", "t": "timestamp[ns]"}), (3, frame)):
        stream = cep.stream(
            "p", schema, define={"p": "t is not null"}, measures={"t": "last(t)"}, order_by="n"
        )
        found = [stream.push(frame.iloc[at : at + size]) for at in range(0, 3, size)]
        assert [pd.Timestamp(t).value for part in found for t in part["t"]] == [1, 2]


def test_a_column_without_name_gives_no_result_its_type():
    frame = pd.DataFrame({"n": [1, 2], "": [True, False], "t": pd.to_datetime(["2024-01-01", "2024-01-02"])})
    stream = cep.stream("p", frame, define={"p": "n > 0"}, measures={"t": "max(t)", "x": "last(``)"})
    found = stream.push(frame)
    assert found["t"].tolist() == frame["t"].tolist() and found["x"].tolist() == [True, False]


def test_views_of_texts_are_a_schema():
    frame = pd.DataFrame({"k": pd.array(["a", "b", "a"], pd.ArrowDtype(pa.string_view())), "n": [1, 2, 3]})
    stream = cep.stream("p", frame, define={"p": "k = 'a'"}, measures={"n": "last(n)"})
    assert stream.push(frame)["n"].tolist() == [1, 3]


def test_a_frame_of_one_row_may_have_a_time_beyond_the_calendar():
    times = pa.array([2**62], pa.int64()).view(pa.timestamp("ms"))
    frame = pd.DataFrame({"n": [1], "t": pd.array(times, dtype=pd.ArrowDtype(times.type))})
    stream = cep.stream("p", frame, define={"p": "t > '2024-01-01'"}, measures={"n": "last(n)"})
    assert stream.push(frame)["n"].tolist() == [1]


def test_binary_keys_of_polars_are_kept():
    frame = pl.DataFrame({"k": [b"a", b"b", b"a", b"b"], "x": [1, 2, 3, 4]})
    query = {"query": ". up", "define": {"up": "x > prev(x)"}, "partition_by": "k", "order_by": "x"}
    found = open_stream(query, frame).push(frame)
    assert found["k"].to_list() == [b"a", b"b"]


# --- streams of streams -----------------------------------------------------------------------------------


def test_matches_are_the_stream_of_the_next_query():
    frame = trades(5, 600)
    first = open_stream(PEAKS)
    second_query = {
        "query": ". higher",
        "define": {"higher": "top > prev(top) and rows >= 3"},
        "partition_by": "symbol",
        "order_by": "end",
        "measures": {"begin": "first(begin)", "end": "last(end)", "tops": "sum(top)"},
    }
    second = open_stream(second_query, first.result_schema)
    found = [second.push(first.push(batch)) for batch in pieces(frame, 0)]
    wanted = expected(expected(frame, PEAKS), second_query)
    assert len(wanted) > 3
    assert_same(pd.concat([f for f in found if len(f)], ignore_index=True), wanted)


def test_a_bounded_number_of_rows_whatever_the_number_of_batches():
    stream = open_stream(PEAKS)
    for ts in range(300):
        stream.push([{"ts": ts, "symbol": f"S{ts % 3}", "price": 300 - ts}])
    assert stream._search.n_retained <= 2 * 3 + 10
    assert repr(stream).startswith("Stream of '. rise+ drop+ low': 300 events, 3 keys, 0 matches, ")


@pytest.mark.parametrize("threads", [513, 10**9, 2**70])
def test_a_stream_has_as_many_threads_as_an_engine_at_most(threads, monkeypatch):
    monkeypatch.setattr("cepkit.streaming.replicas.threading.Thread", None)
    with pytest.raises(CepError, match=r"threads=.*: expected a whole number, 512 at most"):
        open_stream(PEAKS, threads=threads)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_stream_that_cannot_be_pickled_says_how_to_save_it(threads):
    with open_stream(PEAKS, threads=threads) as stream:
        for call in (pickle.dumps, copy.deepcopy):
            with pytest.raises(CepError, match=r"Write it into a file with save\(path\)"):
                call(stream)


# --- memory of keys


def test_a_key_with_many_open_matches_takes_no_memory_from_others(tmp_path):
    schema = {"k": "int64", "t": "int64", "x": "int64"}
    define = {"up": "x > prev(x)", "end": "x < first(x)"}

    def batch(keys, x, t):
        return pd.DataFrame({"k": keys, "t": np.arange(t, t + len(x)), "x": x})

    def n_bytes(opened):
        return sum(array.nbytes for array in opened._search._replicas[0].state.arrays.values())

    opened = cep.stream(". up+ end", schema, define=define, partition_by="k", order_by="t")
    opened.push(batch(np.arange(20_000), np.zeros(20_000, int), 0))
    before = n_bytes(opened)
    opened.push(batch(np.zeros(3000, int), np.arange(1, 3001), 20_000))
    assert n_bytes(opened) < 3 * before
    opened.save(tmp_path / "hot.state")
    opened = cep.stream.load(tmp_path / "hot.state")
    assert n_bytes(opened) < 3 * before
    last = opened.push(batch(np.array([7, 0]), np.array([5, -1]), 30_000))
    assert last[["k", "count"]].to_numpy().tolist() == [[0, 3002]]


@pytest.mark.parametrize("seed", seeds(2, 10))
def test_keys_of_all_sizes_keep_their_open_matches(seed, tmp_path):
    rng = np.random.default_rng(seed)
    n = 4000
    rows = pd.DataFrame(
        {
            "k": np.minimum(rng.geometric(0.05, n), 60),
            "t": np.arange(n),
            "x": np.arange(n) * (rng.random(n) < 0.99),
        }
    )
    given = {
        "define": {"up": "x > prev(x)", "end": "x < first(x) or x > 3 * first(x) + 500"},
        "partition_by": "k", "order_by": "t",
    }  # fmt: skip
    opened, parts = cep.stream(". up+ end", rows, **given), []
    for begin in range(0, n, 500):
        parts.append(opened.push(rows.iloc[begin : begin + 500]))
        opened.save(tmp_path / "open.state")
        opened = cep.stream.load(tmp_path / "open.state")
    expected = cep.match(rows, ". up+ end", **given).to_frame()
    pd.testing.assert_frame_equal(pd.concat(parts, ignore_index=True), expected)


def test_a_state_of_the_layout_before_goes_on():
    path = Path(__file__).parent / "states" / "regex_with_slabs_of_one_size.state"
    found = cep.stream.load(path).push([{"k": "a", "t": 50, "x": 1}, {"k": "b", "t": 51, "x": 0}])
    assert [(row["k"], row["first_t"], row["count"]) for row in found] == [("a", 0, 41), ("b", 41, 3)]


def test_a_state_without_the_clock_of_its_rows_goes_on():
    path = Path(__file__).parent / "states" / "regex_without_clock.state"
    stream = cep.stream.load(path)
    assert (stream.status().oldest, stream.status().lag, stream.status().rate) == (None, 6, None)
    assert stream.push([{"k": "a", "t": datetime(2026, 1, 1, 0, 1), "x": 1}]) == [{"k": "a", "top": 9}]


def test_status_says_how_long_ago_the_oldest_open_event_came_and_how_many_come():
    minute = timedelta(minutes=1)
    rows = [
        {"t": datetime(2026, 1, 1) + i * minute, "k": "a", "x": x, "kind": "AB"[x > 5]}
        for i, x in enumerate([9, 1, 2, 3])
    ]
    schema = {"t": "timestamp[s]", "k": "string", "x": "int64", "kind": "string"}
    up = {"up": "x > prev(x)", "end": "x > 9"}
    streams = [
        cep.stream(". up+ end", schema, define=up, measures={"n": "count()"}, partition_by="k", order_by="t"),
        cep.stream("PATTERN SEQ(A a, C c) WITHIN 150 seconds", schema, event_type="kind", order_by="t"),
        cep.stream(cep.Window({"n": "count()"}, time="150 seconds", order_by="t"), schema),
    ]
    for stream in streams:
        stream.push(rows)
    clauses = "MEASURES COUNT(*) AS n PATTERN (A B+ C) DEFINE B AS x > A.x, C AS x < A.x"
    by_row = cep.stream(f"SELECT * FROM r MATCH_RECOGNIZE (ORDER BY t {clauses})", schema)
    for row in rows:
        by_row.push_row(row)
    for stream in (*streams, by_row):
        status = stream.status()
        oldest = rows[1]["t"]
        assert (status.oldest, status.lag_time) == (oldest, rows[3]["t"] - oldest)
        assert math.isclose(status.rate, 3 / 180)
        assert "0.0167 events per second" in status._repr_html_()
    pairs = cep.stream(
        cep.Join(cep.Window(time="1 hour", order_by="t"), cep.Window(time="1 hour", order_by="t"), on="k"),
        {"left": schema, "right": schema},
    )
    pairs.push(left=rows), pairs.push(right=rows[2:])
    assert (pairs.status().newest, pairs.status().oldest) == (rows[3]["t"], rows[0]["t"])


@pytest.mark.parametrize("rows", ["one", "all"])
def test_a_stream_takes_the_columns_that_its_query_reads(rows, tmp_path):
    schema = {"t": "int64", "k": "string", "x": "int64", "note": "string"}
    up = {"define": {"up": "x > prev(x)"}, "order_by": "t", "partition_by": "k", "rows": rows}
    batch = pd.DataFrame({"t": [1, 2, 3], "k": list("aab"), "x": [1, 2, 3], "note": ["u", "v", "w"]})
    found = cep.stream(". up", schema, **up).push(batch)
    if rows == "all":
        assert found["note"].tolist() == ["u", "v"]
        with pytest.raises(CepError, match="note"):
            cep.stream(". up", schema, **up).push(batch.drop(columns="note"))
    else:
        for less in (batch.drop(columns="note"), batch.assign(note=[1.5, None, {}])):
            stream = cep.stream(". up", schema, **up)
            pd.testing.assert_frame_equal(stream.push(less), found)
            stream.save(tmp_path / "state")
            again = cep.Stream.load(tmp_path / "state")
            assert again.push_row((4, "b", 9, 7)) == stream.push_row({"t": 4, "k": "b", "x": 9}) != []


@pytest.mark.parametrize("query", ["a", "PATTERN SEQ(_ a) WHERE a.x in (a.y - null, 1) WITHIN 3"])
def test_a_condition_may_name_columns_that_it_does_not_need(query):
    frame = pd.DataFrame({"t": [0, 1], "x": [1, 2], "y": [3, 4]})
    define = {"define": {"a": "x in (y - null, 1)"}} if query == "a" else {}
    measure = "first(t)" if query == "a" else "a.t"
    stream = cep.stream(query, frame, order_by="t", measures={"t": measure}, **define)
    assert stream.push(frame)["t"].tolist() == [0]
