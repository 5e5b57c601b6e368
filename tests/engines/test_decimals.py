"""Exact decimals in conditions and results of all languages, and where 64 bits do not suffice."""

from __future__ import annotations

import pickle
import re
from decimal import Decimal as D
from fractions import Fraction
from random import Random

import pandas as pd
import pyarrow as pa
import pytest

import cepkit as cep
from cepkit.errors import CepError
from tests.support.sizes import seeds

MONEY = pd.DataFrame({"i": [1, 2, 3], "x": [D("1.10"), D("1.20"), D("1.30")]})


def test_differences_and_sums_are_exact():
    assert cep.match(MONEY, "r", define={"r": "x - prev(x) = 0.1"}, order_by="i").count() == 2
    rows = "ORDER BY i MEASURES R.x AS x PATTERN (R) DEFINE R AS x - PREV(x) = 0.10"
    assert cep.sql(f"SELECT * FROM m MATCH_RECOGNIZE ({rows})", m=MONEY).count() == 2
    dimes = pd.DataFrame({"x": [D("0.10")] * 3})
    result = cep.match(dimes, ". . .", measures={"s": "sum(x)", "m": "avg(x)"}).to_frame()
    assert result.s.tolist() == [D("0.30")] and result.m.tolist() == [0.1]


def test_limits_between_two_decimals():
    """A constant may have more digits than the column, and lie between two of its values."""
    limits = {
        "x >= 1.195": [2, 3],
        "x > 1.195": [2, 3],
        "x < 1.205": [1, 2],
        "x <= 1.205": [1, 2],
        "x = 1.205": [],
    }
    limits |= {
        "x >= 1.2": [2, 3],
        "x > 1.2": [3],
        "x < 1.2": [1],
        "x <= 1.2": [1, 2],
        "x != 1.205": [1, 2, 3],
    }
    for test, wanted in limits.items():
        found = cep.match(MONEY, "r", define={"r": test}, order_by="i", measures={"i": "first(i)"})
        assert found.to_frame().i.tolist() == wanted, test


# Tests of a row by the row before, with the answer of exact numbers.
TESTS = {
    "x - prev(x) = 0.1": lambda p, r: r.x - p.x == Fraction("0.1"),
    "x > 1.005": lambda p, r: r.x > Fraction("1.005"),
    "x >= 0.3": lambda p, r: r.x >= Fraction("0.3"),
    "0.305 > x": lambda p, r: Fraction("0.305") > r.x,
    "x != 0.30": lambda p, r: r.x != Fraction("0.3"),
    "x = 0.3000001": lambda p, r: False,
    "x in (0.1, 0.2, 0.3)": lambda p, r: r.x in (Fraction(1, 10), Fraction(2, 10), Fraction(3, 10)),
    "x + y = 0.3": lambda p, r: r.x + r.y == Fraction("0.3"),
    "x * n = 0.6": lambda p, r: r.x * r.n == Fraction("0.6"),
    "x * y < 0.02": lambda p, r: r.x * r.y < Fraction("0.02"),
    "x * y * 0.5 = 0.01": lambda p, r: r.x * r.y / 2 == Fraction("0.01"),
    "x - y > prev(y) + 0.05": lambda p, r: r.x - r.y > p.y + Fraction("0.05"),
    "x > n - 0.9": lambda p, r: r.x > r.n - Fraction("0.9"),
    "x = n * 0.1": lambda p, r: r.x == r.n / 10,
    "x + (n - 0.9) > 0.2": lambda p, r: r.x + r.n - Fraction("0.9") > Fraction("0.2"),
    "x - y >= n * 0.3 - 0.2": lambda p, r: r.x - r.y >= r.n * Fraction("0.3") - Fraction("0.2"),
    "greatest(x, n - 0.9) = x": lambda p, r: r.x >= r.n - Fraction("0.9"),
    "-x < y - 0.4": lambda p, r: -r.x < r.y - Fraction("0.4"),
    "abs(x - 0.2) = 0.1": lambda p, r: abs(r.x - Fraction("0.2")) == Fraction("0.1"),
    "greatest(x, y, 0.2) = 0.2": lambda p, r: max(r.x, r.y, Fraction("0.2")) == Fraction("0.2"),
    "x = :limit": lambda p, r: r.x == Fraction("0.2"),
}


class Row:
    """A row with exact numbers."""

    def __init__(self, row):
        self.x, self.y, self.n = Fraction(row.x), Fraction(row.y), Fraction(int(row.n))


def frame_of(random: Random) -> tuple[pd.DataFrame, list[Row]]:
    n = random.randrange(2, 12)
    cents = [D(random.randrange(-5, 40)) / 100 for _ in range(n)]
    tenths = [D(random.randrange(0, 5)) / 10 for _ in range(n)]
    numbers = [random.randrange(0, 4) for _ in range(n)]
    frame = pd.DataFrame({"i": range(n), "x": cents, "y": tenths, "n": numbers})
    return frame, [Row(row) for row in frame.itertuples()]


def of_events(test: str) -> str:
    """Return a test of a row by the row before as one of two events of a sequence."""
    test = re.sub(r"\bprev\((\w)\)", r"@\1", test)
    return re.sub(r"@(\w)", r"a.\1", re.sub(r"(?<![@\w:.])([xyn])\b", r"b.\1", test))


def pairs_of(ends: list[int]) -> list[int]:
    """Return the ends of matches of two rows, which share no row."""
    kept: list[int] = []
    for end in ends:
        if not kept or end - 1 > kept[-1]:
            kept.append(end)
    return kept


@pytest.mark.parametrize("seed", seeds(6, 600))
@pytest.mark.parametrize("form", ["objects", "arrow", "wide"])
def test_conditions_equal_exact_numbers(seed, form):
    random = Random(f"{seed} {form}")
    frame, rows = frame_of(random)
    test = random.choice(list(TESTS))
    if form != "objects":
        of = pd.ArrowDtype(pa.decimal128(18, 2) if form == "arrow" else pa.decimal128(38, 18))
        frame = frame.astype({"x": of, "y": of})
    wanted = [i for i in range(1, len(rows)) if TESTS[test](rows[i - 1], rows[i])]
    call = {"order_by": "i", "params": {"limit": D("0.2")} if ":" in test else None}
    regex = cep.match(frame, ". r", define={"r": test}, measures={"i": "last(i)"}, **call)
    assert regex.to_frame().i.tolist() == pairs_of(wanted), test
    where = f"strict_contiguity AND {of_events(test)}"
    sequence = cep.match(frame, f"PATTERN SEQ(_ a, _ b) WHERE {where}", measures={"i": "b.i"}, **call)
    assert sorted(sequence.to_frame().i) == wanted, where
    define = f"PREV(i) >= 0 AND {test.replace(':limit', '0.20')}"
    clauses = f"ORDER BY i MEASURES R.i AS i PATTERN (R) DEFINE R AS {define}"
    assert cep.sql(f"SELECT * FROM f MATCH_RECOGNIZE ({clauses})", f=frame).to_frame().i.tolist() == wanted, (
        test
    )
    if "prev" not in test:
        window = cep.window(frame, {"m": f"count_if({test})"}, length=1, **call)
        assert [i for i in frame.i[window.m == 1] if i] == wanted, test


MEASURES = {
    "sum(x)": lambda rows: sum(row.x for row in rows),
    "min(x)": lambda rows: min(row.x for row in rows),
    "max(x)": lambda rows: max(row.x for row in rows),
    "first(x) - last(y)": lambda rows: rows[0].x - rows[-1].y,
    "sum(x * n)": lambda rows: sum(row.x * row.n for row in rows),
    "sum(x) + 0.005": lambda rows: sum(row.x for row in rows) + Fraction("0.005"),
    "sum(x) * sum(y)": lambda rows: sum(row.x for row in rows) * sum(row.y for row in rows),
    "sum(x) % 0.07": lambda rows: sum(row.x for row in rows) % Fraction("0.07"),
    "-delta(x)": lambda rows: rows[0].x - rows[-1].x,
}


@pytest.mark.parametrize("seed", seeds(4, 400))
def test_measures_equal_exact_numbers(seed):
    random = Random(seed)
    frame, rows = frame_of(random)
    measures = {str(k): text for k, text in enumerate(MEASURES)} | {"mean": "avg(x)"}
    result = cep.match(frame, "a a", define={"a": "true"}, order_by="i", measures=measures).to_frame()
    of_v = {name: re.sub(r"\b([xyn])\b", r"v.\1", text) for name, text in measures.items()}
    where = "WHERE strict_contiguity AND count(v) = 2 AND v[1].i % 2 = 0"
    sequence = cep.match(frame, f"PATTERN SEQ(_+ v[]) {where}", order_by="i", measures=of_v).to_frame()
    window = cep.window(frame, measures, length=2, order_by="i")
    pairs = [rows[k : k + 2] for k in range(0, len(rows) - 1, 2)]
    windows = [rows[max(0, k - 1) : k + 1] for k in range(len(rows))]
    for k, compute in enumerate(MEASURES.values()):
        for column, parts in ((result, pairs), (sequence, pairs), (window, windows)):
            values = column[str(k)].tolist()
            assert all(isinstance(value, D) for value in values)
            assert list(map(Fraction, values)) == [compute(part) for part in parts], measures[str(k)]
    assert result["mean"].tolist() == [float(sum(row.x for row in pair) / 2) for pair in pairs]
    every = cep.match(frame, "a a", define={"a": "true"}, order_by="i").aggregate(s="sum(x)", m="max(y)")
    used = [row for pair in pairs for row in pair]
    assert Fraction(every["s"]) == sum(row.x for row in used) and Fraction(every["m"]) == max(
        r.y for r in used
    )


@pytest.mark.parametrize("seed", range(20))
def test_divisions_that_round_down_keep_all_digits(seed):
    """Python divides decimals with 28 digits, and columns have up to 38."""
    random = Random(seed)
    x, y = random.randrange(-(10**38) + 1, 10**38), random.randrange(1, 10 ** random.randint(1, 37))
    decimals = pd.ArrowDtype(pa.decimal128(38, 0))
    frame = pd.DataFrame({"x": pd.array([D(x)], decimals), "y": pd.array([D(y)], decimals)})
    measures = {"rest": "first(x) % first(y)", "quotient": "first(x) // first(y)"}
    found = cep.match(frame, ".", measures=measures).to_frame()
    assert [*map(int, found["rest"])] == [x % y] and [*map(int, found["quotient"])] == [x // y]


@pytest.mark.parametrize("measure", ["delta(x)", "sum(x) + max(x)", "last(x) * last(x)", "max(x) + 1"])
def test_decimals_of_results_have_at_most_38_digits(measure):
    """Spark, Parquet and polars hold no more."""
    of = pa.decimal128(38, 10)
    table = pa.table({"i": [1, 2, 3], "x": pa.array([D("1.10"), D("1.20"), D("1.30")], of)})
    window = cep.window(table, {"y": measure}, length=2, order_by="i")
    matches = cep.match(table, ". .", measures={"y": measure}).to_frame()
    assert window.schema.field("y").type == matches.schema.field("y").type
    assert pa.types.is_decimal128(window.schema.field("y").type)
    polars = pytest.importorskip("polars")
    in_polars = cep.window(polars.from_arrow(table), {"y": measure}, length=2, order_by="i")
    assert in_polars["y"].to_list() == window["y"].to_pylist()


LONG = "12345678901234567.89"  # a float keeps 17 of its digits


@pytest.mark.parametrize(
    "condition",
    [
        f"x = {LONG}", f"x in ({LONG}, 2)", f"x - {LONG} = 0", f"x between {LONG} and {LONG}",
        f"-x = -{LONG}", f"x = -(-{LONG})",
    ],
)  # fmt: skip
def test_written_numbers_keep_all_digits_beside_decimals(condition):
    numbers = [D("12345678901234567.88"), D(LONG), D("0.10")]
    table = pa.table({"i": [0, 1, 2], "x": pa.array(numbers, pa.decimal128(38, 2))})
    expected = [1]
    found = cep.match(table, "r", define={"r": condition}, measures={"i": "last(i)"}).to_frame()
    assert found["i"].to_pylist() == expected
    rows = f"MATCH_RECOGNIZE (ORDER BY i MEASURES i AS i PATTERN (r) DEFINE r AS {condition})"
    assert cep.match(table, rows).to_frame()["i"].to_pylist() == expected
    kept = cep.window(table, {"m": "last(i)"}, length=1, order_by="i", where=condition)
    assert kept["i"].to_pylist() == expected


def test_written_numbers_keep_all_digits_in_text_copies_and_measures():
    query = cep.regex_query("r", define={"r": f"x = {LONG} or x = -{LONG}"})
    assert LONG in str(query) and pickle.loads(pickle.dumps(query)) == query
    assert query != cep.regex_query("r", define={"r": f"x = {LONG[:-1]}8 or x = -{LONG}"})
    table = pa.table({"x": pa.array([D("0.10")], pa.decimal128(38, 2)), "f": [2.0]})
    measures = {"sum": f"last(x) + {LONG}", "product": f"last(f) * {LONG}"}
    [row] = cep.match(table, ".", measures=measures).to_frame().to_pylist()
    assert row == {"sum": D("12345678901234567.99"), "product": 2 * float(LONG)}
    assert cep.match(table, "r", define={"r": "x > 1e-999999999999"}).count() == 1


@pytest.mark.parametrize("indices", [pa.int8(), pa.uint8(), pa.uint32()])
def test_decimals_in_a_dictionary_are_keys(indices):
    values = pa.array([D(2**53 + 1), D(2**53)], pa.decimal128(18, 0))
    keys = pa.DictionaryArray.from_arrays(pa.array([0, None, 1, 0], indices), values)
    found = cep.match(pa.table({"k": keys}), "r", define={"r": "k is not null"}, partition_by="k").to_frame()
    assert sorted(found["k"].to_pylist()) == [D(2**53), D(2**53 + 1), D(2**53 + 1)]


@pytest.mark.parametrize("seed", seeds(2, 100))
def test_streams_equal_frames(seed):
    random = Random(seed)
    frame, _ = frame_of(random)
    table = pa.Table.from_pandas(frame, preserve_index=False)
    table = table.cast(
        pa.schema([(name, pa.decimal128(18, 2) if name in "xy" else pa.int64()) for name in frame])
    )
    call = {
        "define": {"r": "x > prev(x) + 0.05 and x * y >= 0.01"},
        "order_by": "i",
        "measures": {"s": "sum(x)"},
    }
    stream, received = cep.stream("r", table, **call), []
    for k in range(len(table)):
        received += stream.push(table[k : k + 1]).to_pylist()
    assert received == cep.match(table, "r", **call).to_frame().select(["s"]).to_pylist()


def test_types_of_results():
    table = pa.table({"i": [1, 2], "x": pa.array([D("1.10"), D("2.25")], pa.decimal128(18, 2))})
    measures = {"s": "sum(x)", "low": "min(x)", "x": "first(x)", "m": "avg(x)"}
    result = cep.match(table, "a a", define={"a": "true"}, order_by="i", measures=measures).to_frame()
    types = {name: str(result.schema.field(name).type) for name in measures}
    assert types == {
        "s": "decimal128(38, 2)", "low": "decimal128(18, 2)", "x": "decimal128(18, 2)", "m": "double",
    }  # fmt: skip


def test_numbers_that_do_not_fit_64_bits_are_one_error():
    long = pd.DataFrame({"i": [1, 2], "x": [D("9" * 17 + ".5")] * 2})
    assert cep.match(long, "r", define={"r": "x > 1.0001 and x < 1e30"}, order_by="i").count() == 2
    for test in ("x * x > 1", "x + 0.001 > 1", "sum(x * 4) > 1", "x * 100 > 1"):
        with pytest.raises(CepError, match=r"more than 64 bits.*cast the column to float64"):
            cep.match(long, ". r", define={"r": test}, order_by="i").count()
    huge = pd.DataFrame({"i": [1, 2], "x": [D("9" * 30)] * 2})
    with pytest.raises(CepError, match="do not fit 64 bits"):
        cep.match(huge, "r", define={"r": "x > 1"}, order_by="i").count()
    measured = cep.match(huge, "a a", define={"a": "true"}, order_by="i", measures={"s": "sum(x)"}).to_frame()
    assert measured.s.tolist() == [D("1" + "9" * 29 + "8")]
    with pytest.raises(CepError, match="exceed 64 bits"):
        cep.window(huge, {"s": "sum(x)"}, length=2, order_by="i")


def test_next_to_floats_decimals_are_floats():
    frame = MONEY.assign(f=[1.1, 1.2, 5.0])
    assert cep.match(frame, "r", define={"r": "x = f"}, order_by="i").count() == 2
    assert cep.match(frame, "r", define={"r": "x / 2 = 0.55"}, order_by="i").count() == 1
    assert cep.match(frame, "r", define={"r": "sqrt(x) > 1.1"}, order_by="i").count() == 1


@pytest.mark.spark
@pytest.mark.filterwarnings("ignore::cepkit.CepWarning")
def test_on_spark(spark):
    frame = spark.createDataFrame(MONEY).selectExpr("i", "CAST(x AS DECIMAL(12, 2)) AS x")
    measures = {"s": "sum(x)", "x": "first(x)"}
    for data in (frame, spark.createDataFrame(MONEY)):
        found = cep.match(
            data, "a r", define={"a": "true", "r": "x - prev(x) = 0.1"}, order_by="i", measures=measures
        )
        assert [(row.s, row.x) for row in found.to_frame().collect()] == [(D("2.30"), D("1.10"))]
    types = dict(found.to_frame().dtypes)
    assert types["s"].startswith("decimal(38,")
    sequence = cep.match(
        frame, "PATTERN SEQ(_ a, _ b) WHERE b.x - a.x = 0.1", order_by="i", measures={"x": "b.x"}
    )
    assert sequence.count() == 2 and dict(sequence.to_frame().dtypes)["x"] == "decimal(12,2)"
    rows = "ORDER BY i MEASURES SUM(x) AS s PATTERN (A R) DEFINE R AS x - PREV(x) = 0.10"
    sql = cep.sql(f"SELECT * FROM m MATCH_RECOGNIZE ({rows})", m=frame).to_frame()
    assert [row.s for row in sql.collect()] == [D("2.30")] and dict(sql.dtypes)["s"] == "decimal(38,2)"
    window = cep.window(frame, {"s": "sum(x)"}, length=2, order_by="i")
    assert sorted(row.s for row in window.collect()) == [D("1.10"), D("2.30"), D("2.50")]
