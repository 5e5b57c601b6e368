"""The plan cache: a call after other calls gives what the first call of a process gives."""

from __future__ import annotations

import datetime
import gc
import os
import threading
import warnings
import weakref
from contextlib import contextmanager
from random import Random

import numpy as np
import pandas as pd
import pytest

import cepkit as cep
from cepkit.language.expressions import functions
from cepkit.planning import plans, queries
from cepkit.planning import plans as validation
from cepkit.planning.queries import Arguments
from tests.support.odd_frames import draw_table, forms_of, plain_rows
from tests.support.odd_queries import draw_query
from tests.support.sizes import seeds

UP = {"up": "price > prev(price)"}


@pytest.fixture(autouse=True)
def no_plans(monkeypatch):
    """Each test begins without plans and without functions of other tests, and queries run at once."""
    forget_plans()
    monkeypatch.setenv("CEPKIT_TIER", "")
    monkeypatch.setattr(functions, "_REGISTRY", {})


def forget_plans():
    """Drop all plans, as in a new process."""
    queries._queries.clear()
    validation._programs.clear()


@contextmanager
def counted_plans(monkeypatch):
    """Count the queries that are read and the programs that are compiled."""
    counts = {"read": 0, "compiled": 0}

    def counting(what, function):
        def call(*args):
            counts[what] += 1
            return function(*args)

        return call

    with monkeypatch.context() as patch:
        patch.setattr(queries, "_read_query", counting("read", queries._read_query))
        patch.setattr(validation, "_compile", counting("compiled", validation._compile))
        yield counts


def walk(prices=(10, 12, 13, 11, 14), **more):
    """Return a frame of prices."""
    return pd.DataFrame({"price": list(prices), "kind": list("abcab")[: len(prices)], **more})


def outcome_of(query, frame):
    """Return all that a user sees of a call: rows or the error, and the warnings."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            rows = repr(plain_rows(query.call(frame)))
        except Exception as error:
            rows = f"{type(error).__name__}: {error}"
    return rows, [str(one.message) for one in said]


@pytest.mark.parametrize("seed", seeds(8, 40))
def test_a_call_after_others_gives_the_same_as_the_first_one(seed):
    draw = Random(f"plans {seed}")
    table = draw_table(draw, n_rows=draw.randint(2, 12))
    asked = [draw_query(draw, table) for _ in range(3)]
    forms = forms_of(table, draw)
    calls = [(query, frame) for query in asked for frame in forms.values()]
    first = []
    for query, frame in calls:
        forget_plans()
        first.append(outcome_of(query, frame))
    order = draw.choices(range(len(calls)), k=2 * len(calls))
    for i in order:
        assert outcome_of(*calls[i]) == first[i], calls[i][0].text


@pytest.mark.parametrize("register", [None, cep.pure, cep.function])
def test_a_second_call_neither_reads_nor_compiles(monkeypatch, register):
    if register is not None:
        register(lambda price: price > 3, name="is_dear")
    with counted_plans(monkeypatch) as counts:
        for prices in ((1, 2, 3), (3, 2, 5), (9, 1, 4)):
            cep.match(walk(prices), "up", define=UP).to_frame()
            cep.match(walk(prices), "PATTERN SEQ(a x, b y)", event_type="kind").to_frame()
    assert counts == {"read": 2, "compiled": 2}


def test_a_column_of_another_type_gets_a_program_of_its_own(monkeypatch):
    frames = [walk(), walk((1.5, 0.5, 2.5)), walk(more=[None] * 5), walk().astype({"price": "Int64"})]
    with counted_plans(monkeypatch) as counts:
        for _ in range(2):
            assert [len(cep.match(frame, "up", define=UP)) for frame in frames] == [3, 1, 3, 3]
    assert counts == {"read": 1, "compiled": 4}


def test_columns_that_the_query_does_not_read_may_change(monkeypatch):
    with counted_plans(monkeypatch) as counts:
        for other in ([1] * 5, [1.5] * 5, list("abcde"), [None] * 5):
            assert len(cep.match(walk(other=other), "up", define=UP)) == 3
    assert counts["compiled"] == 1


def test_a_new_column_may_make_a_name_ambiguous():
    assert len(cep.match(walk(), "up", define=UP)) == 3
    with pytest.raises(cep.CepError, match="both a predicate of define and a column"):
        cep.match(walk(up=[True] * 5), "up", define=UP)
    assert len(cep.match(walk(), "up", define=UP)) == 3


@pytest.mark.parametrize(
    "values",
    [
        (1, True, 1.0), (0.0, -0.0), ("1", 1), (datetime.date(2024, 1, 1), datetime.datetime(2024, 1, 1)),
        (pd.Timestamp("2024-01-01T00:00Z"), pd.Timestamp("2024-01-01T01:00+01:00")), (np.int64(1), 1),
        ((1, 2), [1, 2]), ({"a": 1}, {"a": 1.0}), ({"a": 1, "b": 2}, {"b": 2, "a": 1}), (None, "None"),
        (Arguments(within=1), Arguments(within=True)),
    ],
)  # fmt: skip
def test_keys_tell_values_of_different_types_apart(values):
    keys = [plans.key_or_none(value) for value in values]
    assert len(set(keys)) == len(values) and None not in keys
    assert keys == [plans.key_or_none(value) for value in values]


def test_an_object_that_may_change_has_no_key():
    for value in (np.array([1, 2]), object(), {1, 2}, bytearray(b"a"), [0] * 2000):
        assert plans.key_or_none(value) is None


@pytest.mark.parametrize("least", [3, 3.5, -1])
def test_each_value_of_a_parameter_counts(least):
    frame = walk((1, 2, 3, 4, 5))
    for value in (2, least, 2.5, least):
        found = cep.match(frame, "big", define={"big": "price > :least"}, params={"least": value})
        assert len(found) == sum(price > value for price in frame.price)
        with pytest.raises(cep.CepError, match="they cannot be compared"):  # True equals 1
            cep.match(frame, "big", define={"big": "price > :least"}, params={"least": True})


def test_a_list_as_an_argument_may_change_between_two_calls():
    keys = ["kind"]
    one = cep.match(walk(), ". up", define=UP, partition_by=keys).to_frame()
    keys.append("price")
    two = cep.match(walk(), ". up", define=UP, partition_by=keys)
    assert list(one.columns)[:1] == ["kind"] and list(two.to_frame().columns)[:2] == ["kind", "price"]


def test_a_function_that_is_registered_again_is_another_one():
    for limit in (11, 13, 11):

        def is_big(price, limit=limit):
            return price >= limit

        cep.pure(is_big)
        found = cep.match(walk(), "big", define={"big": "is_big(price)"})
        assert len(found) == (walk().price >= limit).sum()
    cep.function(is_big)
    with pytest.warns(cep.errors.CepWarning, match="is not declared pure"):
        cep.match(walk(), "big", define={"big": "is_big(price)"})


@pytest.mark.filterwarnings("ignore:.*is not declared pure")
def test_functions_of_define_are_known_by_identity():
    for limit in (11, 13, 12):
        found = cep.match(walk(), "big", define={"big": lambda price, limit=limit: price >= limit})
        assert len(found) == (walk().price >= limit).sum()


def test_warnings_come_with_each_call():
    define = {**UP, "never": "price > 3"}
    for _ in range(3):
        with pytest.warns(cep.errors.CepWarning) as said:
            cep.match(walk(), "up", define=define, order_by="price", within=3)
        assert any("never" in str(one.message) for one in said)
        assert {one.filename for one in said} == {__file__}


def test_a_warning_that_is_an_error_stays_one():
    for _ in range(2):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(cep.errors.CepWarning):
                cep.match(walk(), "up", define={**UP, "never": "price > 3"})


def test_errors_are_not_kept():
    for _ in range(2):
        with pytest.raises(cep.errors.ColumnNotFoundError, match="size"):
            cep.match(walk(), "up", define={"up": "size > 1"})
    assert len(cep.match(walk(size=[1, 2, 3, 4, 5]), "up", define={"up": "size > 1"})) == 4


def test_texts_of_one_frame_are_no_texts_of_the_next():
    query = {"query": "PATTERN SEQ(a x, b y) WHERE x.kind < y.kind", "event_type": "kind"}
    for kinds in ("ab", "ba", "xaxb", "bxax", "aab"):
        frame = pd.DataFrame({"kind": list(kinds)})
        pairs = sum(kinds[i] == "a" and kinds[j] == "b" for j in range(len(kinds)) for i in range(j))
        for form in (frame, frame.astype("category"), frame.astype(object)):
            assert cep.match(form, **query).count() == pairs


def test_categories_with_an_order_of_their_own():
    for order in ("abc", "cba", "bac"):
        kind = pd.Categorical(list("abcab"), categories=list(order), ordered=True)
        found = cep.match(walk().assign(kind=kind), "low", define={"low": "kind < 'b'"})
        assert len(found) == sum(order.index(one) < order.index("b") for one in "abcab")


def test_plans_keep_no_frame_alive():
    frame = walk(ts=pd.date_range("2024-01-01", periods=5))
    gone = weakref.ref(frame)
    values = weakref.ref(frame["price"].array)
    for call in (
        {"query": "up", "define": UP, "order_by": "ts", "within": "1 h"},
        {"query": "PATTERN SEQ(a x, b y) WITHIN 3 d", "event_type": "kind", "order_by": "ts"},
    ):
        cep.match(frame, **call).to_frame()
    assert len(validation._programs._kept) == 2
    del frame
    gc.collect()
    assert gone() is None and values() is None


def test_the_number_of_plans_is_limited():
    for number in range(200):
        cep.match(walk(), "up", define={"up": f"price > {number}"})
    assert len(queries._queries) <= 128 and len(validation._programs._kept) <= 128


def test_threads_share_plans():
    frames = [walk((1, 2, 3)), walk((1.5, 0.5, 2.5)), walk((3, 2, 1))]
    calls = [{"query": "up", "define": UP}, {"query": "PATTERN SEQ(a x, b y)", "event_type": "kind"}]
    wanted = [[cep.match(frame, **call).to_frame() for frame in frames] for call in calls]
    faults = []

    def ask(number):
        draw = Random(number)
        for _ in range(20):
            i, j = draw.randrange(2), draw.randrange(3)
            if draw.random() < 0.2:
                forget_plans()
            if not cep.match(frames[j], **calls[i]).to_frame().equals(wanted[i][j]):
                faults.append((i, j))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_process_reads_plans():
    cep.match(walk(), "up", define=UP)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        process = os.fork()
    if not process:
        os._exit(0 if len(cep.match(walk(), "up", define=UP)) == 3 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0
