"""What is kept between two calls on a frame: never an old answer, never a frame that lives on."""

import gc
import pickle
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import cepkit as cep
from cepkit.frames import reuse
from tests.support.sizes import seeds

DEFINE = {"rise": "price > prev(price)", "drop": "price < prev(price)"}


@pytest.fixture(autouse=True)
def small_frames_count(monkeypatch):
    """Keep the results of frames of any size, and begin and end without any."""
    monkeypatch.setattr(reuse, "FEWEST_ROWS", 1)
    reuse.forget_all()
    yield
    reuse.forget_all()


def found(frame, order_by=("ts",)):
    return cep.match(
        frame, ". rise drop", define=DEFINE, partition_by="symbol", order_by=list(order_by),
        measures={"first": "first(row)", "last": "last(row)", "top": "max(price)", "n": "count()"},
    ).to_frame()  # fmt: skip


def random_frame(rng, n, dtype):
    symbols = np.array(["A", "BB", "", "dééé", "E" * 40], object)
    symbol = pd.Series(symbols[rng.integers(0, len(symbols), n)], dtype=dtype)
    return pd.DataFrame({
        "ts": rng.integers(0, 3 * n, n), "symbol": symbol,
        "price": rng.integers(0, 9, n), "row": np.arange(n),
    })  # fmt: skip


def change(frame, rng):
    """Change a frame in one of many ways and return what it is afterwards, often the same object."""
    n = len(frame)
    i, j = rng.integers(0, n, 2)
    way = rng.integers(0, 12)
    if way == 0:
        frame.loc[i, "ts"] = int(rng.integers(0, 3 * n))
    elif way == 1:
        frame["ts"] = rng.permutation(frame["ts"].to_numpy())
    elif way == 2:
        frame.loc[i, "symbol"] = "BB" if frame.loc[i, "symbol"] != "BB" else "A"
    elif way == 3:
        frame.sort_values("ts", inplace=True, kind="stable")
        frame.reset_index(drop=True, inplace=True)
    elif way == 4:
        frame.drop(index=i, inplace=True)
        frame.reset_index(drop=True, inplace=True)
    elif way == 5:
        for name in ("ts", "symbol"):
            frame.loc[[i, j], name] = frame.loc[[j, i], name].to_numpy()
    elif way == 6:
        frame["ts"] += int(rng.integers(1, 5))
    elif way == 7:
        frame.columns = [{"ts": "price", "price": "ts"}.get(name, name) for name in frame.columns]
    elif way == 8:
        frame.loc[i, "symbol"] = None
    elif way == 9:
        frame["symbol"] = frame["symbol"].to_numpy(dtype=object)[::-1]
        frame["symbol"] = frame["symbol"].astype("str" if rng.integers(2) else object)
    elif way == 10:
        frame["price"] = rng.permutation(frame["price"].to_numpy())
    else:
        return frame.copy() if rng.integers(2) else frame.iloc[::-1].reset_index(drop=True)
    return frame


@pytest.mark.filterwarnings("ignore::cepkit.TieWarning", "ignore:The inplace keyword")
@pytest.mark.parametrize("dtype", ["str", object, "category", pd.ArrowDtype(pa.string())], ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_a_frame_that_changes_between_calls_never_gets_an_old_answer(seed, dtype):
    rng = np.random.default_rng(seed)
    frame = random_frame(rng, 60, dtype)
    if dtype == "category":
        frame["symbol"] = frame["symbol"].cat.set_categories(["", "A", "BB", "E" * 40, "dééé"])
    for _ in range(25):
        orders = [("ts",), ("ts", "row"), ("ts", "price", "row"), ("symbol", "ts")]
        order_by = orders[rng.integers(3 if frame["symbol"].hasnans else 4)]
        own = found(frame, order_by)
        fresh = pd.DataFrame({name: frame[name].copy() for name in frame}, copy=True)
        pd.testing.assert_frame_equal(own, found(fresh, order_by))
        pd.testing.assert_frame_equal(own, found(frame, order_by))
        frame = change(frame, rng)


@pytest.mark.parametrize("form", ["objects", "arrow", "table"])
@pytest.mark.parametrize("seed", seeds(1, 3))
def test_decimals_that_change_never_give_an_old_answer(seed, form):
    rng = np.random.default_rng(seed)
    n, kind = 40, pa.decimal128(12, 2)
    frame = pd.DataFrame({"ts": np.arange(n), "symbol": "A", "row": np.arange(n)})

    def prices():
        digits = int(rng.integers(0, 3))  # the scale may change
        return [Decimal(int(cents)).scaleb(-digits) for cents in rng.integers(100, 110, n)]

    def changed(frame):
        if form == "objects" and rng.integers(2) and "price" in frame:
            frame.at[int(rng.integers(n)), "price"] = Decimal("1.05")
            return frame
        values = prices()
        return frame.assign(price=values if form == "objects" else pd.array(values, pd.ArrowDtype(kind)))

    frame = changed(frame)
    for _ in range(12):
        searched = pa.Table.from_pandas(frame) if form == "table" else frame
        first, again = found(searched), found(searched)
        reuse.forget_all()
        assert str(first) == str(again) == str(found(searched))
        floats = found(
            frame.assign(price=frame["price"].astype(float))
        )  # prices of 3 digits keep their order
        assert [*first["first"]] == [*floats["first"]] if form != "table" else True
        frame = changed(frame) if rng.integers(3) else frame


def test_decimals_that_another_type_reads_in_the_same_memory_are_read_again():
    values = pa.array([Decimal(x) for x in ("6.00", "1.25", "0.30")], pa.decimal128(10, 2))
    thousandths = pa.Array.from_buffers(pa.decimal128(10, 3), len(values), values.buffers())
    frame = pd.DataFrame({"price": pd.arrays.ArrowExtensionArray(values)})
    define = {"high": "price > 5", "low": "price == 1.25"}
    assert cep.match(frame, "high low", define=define).count() == 1
    frame["price"] = pd.arrays.ArrowExtensionArray(thousandths)
    assert cep.match(frame, "high low", define=define).count() == 0


@pytest.mark.filterwarnings("ignore::cepkit.TieWarning")
@pytest.mark.parametrize("seed", range(3))
def test_arrays_that_are_written_in_place_never_give_an_old_answer(seed):
    rng = np.random.default_rng(seed)
    ts, price = rng.integers(0, 99, 50), rng.integers(0, 9, 50)
    symbol = np.array([*"ABC"], object)[rng.integers(0, 3, 50)]
    # Neither frame nor table copies the arrays.
    columns = {"ts": ts, "price": price, "row": np.arange(50)}
    frame = pd.DataFrame(
        {name: pd.Series(values, copy=False) for name, values in columns.items()}, copy=False
    )
    frame["symbol"] = pd.Series(symbol, dtype=object, copy=False)
    table = pa.table({**columns, "symbol": [str(text) for text in symbol]})
    for _ in range(20):
        for of in (frame, table):
            own = cep.match(of, ". rise drop", define=DEFINE, partition_by="symbol", order_by="ts")
            # What the frame holds now, in new arrays.
            rows = {name: np.array(of[name]) for name in ("ts", "price", "row", "symbol")}
            new = cep.match(
                pd.DataFrame(rows), ". rise drop", define=DEFINE, partition_by="symbol", order_by="ts"
            )
            assert own.lineage()["index"].tolist() == new.lineage()["index"].tolist()
        array = (ts, price)[rng.integers(2)]
        array[rng.integers(0, 50)] = rng.integers(0, 9)
        symbol[rng.integers(0, 50)] = "C"


ROWS = """MATCH_RECOGNIZE (PARTITION BY key, symbol ORDER BY ts
    MEASURES FIRST(a.price) AS first, MAX(b.price) AS top, LAST(c.row) AS last
    PATTERN (a b+ c) DEFINE b AS price > PREV(price), c AS price < PREV(price))"""


@pytest.mark.parametrize("dtype", [np.int64, np.int8, np.float64], ids=["int64", "int8", "float64"])
@pytest.mark.parametrize("seed", seeds(1, 3))
def test_a_frame_that_changes_never_gets_old_rows_of_sql(seed, dtype):
    rng = np.random.default_rng(seed)
    n = 2_500  # more than Python searches
    frame = random_frame(rng, n, object)
    frame["ts"], frame["key"] = np.arange(n) // 2, rng.integers(-2, 3, n).astype(dtype)
    for _ in range(15):
        own = cep.match(frame, ROWS).to_frame()
        fresh = pd.DataFrame({name: frame[name].copy() for name in frame}, copy=True)
        pd.testing.assert_frame_equal(own, cep.match(fresh, ROWS).to_frame())
        for _ in range(2):  # the second call keeps columns in order, and the third one reads them
            pd.testing.assert_frame_equal(own, cep.match(frame, ROWS).to_frame())
        name = rng.choice(["ts", "key", "price", "row", "symbol"])
        if name == "symbol":
            frame.loc[rng.integers(n), name] = "BB"
        elif rng.integers(2):
            frame.loc[rng.integers(n), name] = frame[name].dtype.type(rng.integers(0, 4))
        else:
            frame[name] = rng.permutation(frame[name].to_numpy())
    assert len(own) > 100


def test_an_equal_text_at_the_address_of_another_one_is_not_taken_for_it():
    # Texts made at run time end when the frame drops them. New ones often get the same addresses.
    answers = []
    frame = pd.DataFrame({"x": range(40)})
    for round_ in range(5):
        frame["key"] = pd.Series([f"key {i % (round_ + 2)}" for i in range(40)], dtype=object)
        found = cep.match(
            frame, "any any", define={"any": "x >= 0"}, partition_by="key", measures={"n": "count()"}
        )
        answers.append(found.to_frame()["key"].nunique())
    assert answers == [2, 3, 4, 5, 6]


def test_unsorted_rows_and_texts_are_prepared_once(monkeypatch):
    frame = random_frame(np.random.default_rng(0), 100, "str")
    frame["ts"] = frame["ts"].to_numpy()[::-1]
    first = found(frame, ("ts", "row"))
    made = []
    monkeypatch.setattr(reuse, "copies_of", lambda values: made.append(values))
    pd.testing.assert_frame_equal(first, found(frame, ("ts", "row")))
    assert not made


@pytest.mark.filterwarnings("ignore::cepkit.TieWarning")
@pytest.mark.parametrize("order_by", ["ts", "row"])
def test_places_in_partitions_are_kept_for_the_next_call(order_by):
    frame = random_frame(np.random.default_rng(1), 100, "str")
    calls = [
        frame.cep.match(pattern, define=DEFINE, partition_by="symbol", order_by=order_by)
        for pattern in (". rise drop", ". rise drop", ". rise+ drop")
    ]
    frames = [matches.to_frame() for matches in calls]
    places = [matches._found.whole.events._prepared["place in partition"] for matches in calls]
    assert places[0] is places[1] is places[2]
    assert frames[0]["count"].eq(3).all() and len(frames[0]) > 5
    copy = pickle.loads(pickle.dumps(calls[0]))
    pd.testing.assert_frame_equal(copy.to_frame(), frames[0])
    assert copy._found.whole.events.keep.owner is None


def test_nothing_is_kept_longer_than_its_frame():
    frame = random_frame(np.random.default_rng(0), 100, "str")
    table = pa.Table.from_pandas(frame)
    found(frame), found(table)
    both = reuse.kept_bytes()
    assert both > 0
    del table
    gc.collect()
    assert 0 < reuse.kept_bytes() < both
    del frame
    gc.collect()
    assert reuse.kept_bytes() == 0


def test_the_oldest_results_make_room_for_new_ones(monkeypatch):
    frames = [random_frame(np.random.default_rng(seed), 200, "str") for seed in range(5)]
    found(frames[0])
    monkeypatch.setattr(reuse, "MOST_BYTES", 2 * reuse.kept_bytes() + 1000)
    for frame in frames:
        found(frame)
        assert reuse.kept_bytes() <= reuse.MOST_BYTES
    assert reuse.kept_bytes() > 0


def test_texts_that_the_frame_holds_itself_take_no_room(monkeypatch):
    frame = random_frame(np.random.default_rng(0), 200, pd.ArrowDtype(pa.string()))
    frame["symbol"] = frame["symbol"] + "E" * 1000
    monkeypatch.setattr(reuse, "MOST_BYTES", 20_000)
    found(frame, ("row",))
    assert any(what == ("texts", "symbol") for _, what in reuse._kept)
    assert 0 < reuse.kept_bytes() <= 20_000


def test_small_frames_keep_nothing(monkeypatch):
    monkeypatch.undo()
    frame = random_frame(np.random.default_rng(0), 1000, "str")
    found(frame)
    assert reuse.kept_bytes() == 0


def test_kept_results_cannot_be_written():
    frame = random_frame(np.random.default_rng(0), 50, object)
    found(frame)
    for kept in reuse._kept.values():
        assert not any(array.flags.writeable for array in kept.result)


def test_a_polars_frame_that_changes_gets_the_answer_of_now():
    polars = pytest.importorskip("polars")
    rng = np.random.default_rng(0)
    frame = polars.from_pandas(random_frame(rng, 60, "str"))
    for _ in range(4):
        own = found(frame)
        assert own.equals(found(frame.clone()))
        frame[int(rng.integers(0, 60)), "symbol"] = "A"
        frame.replace_column(0, polars.Series("ts", rng.integers(0, 99, 60)))


class Frame:
    """An object that only the garbage collector frees, as a frame in a cycle of references."""

    def __init__(self):
        self.cycle = self


def test_frames_that_end_as_garbage_while_a_result_is_kept():
    """Python may collect garbage at any step of `keep`."""
    thresholds = gc.get_threshold()
    try:
        for i in range(4_000):
            gc.set_threshold(1 + i % 20)
            reuse.keep(Frame(), "x", (np.arange(3),), (np.arange(3),))
            reuse.kept_bytes()
    finally:
        gc.set_threshold(*thresholds)
