"""What a registered function gets and gives, in every language: times, texts, constants, missing values."""

from __future__ import annotations

import re
from random import Random

import numba
import pandas as pd
import pytest

import cepkit as cep
from cepkit.errors import CepError
from tests.support.sizes import seeds

ROWS = pd.DataFrame(
    {
        "ts": pd.to_datetime(
            ["1969-12-31 23:59", "2026-01-01 05:30", "2026-01-02 05:00", "2026-01-03 06:00"]
        ),
        "s": ["Ab1", "cd", None, "x9"],
        "x": [1, 2, 3, 4],
    }
)


def hour_of(t):
    return (t // 3_600_000_000) % 24


@pytest.fixture(autouse=True)
def functions():
    cep.pure(hour_of, name="hour_of")
    cep.pure(numba.njit(hour_of), name="hour_in_kernel")
    cep.pure(lambda t: t.hour, name="hour_of_time", times="datetime")
    cep.pure(lambda d: d.total_seconds() / 3600, name="hours", times="datetime")
    cep.pure(lambda text, pattern: re.search(pattern, text) is not None, name="has")
    cep.pure(numba.njit(lambda text, n: len(text) > n), name="longer")


def answers(frame: pd.DataFrame, test: str, value: str) -> list:
    """Return the rows that fulfil a test in each language, with a value of each."""
    in_sequence = re.sub(r"\b(ts|s|x)\b(?!')", r"a.\1", test)
    regex = cep.match(frame, "r", define={"r": test}, order_by="x", measures={"x": "first(x)"})
    sequence = cep.match(frame, f"PATTERN SEQ(_ a) WHERE {in_sequence}", order_by="x", measures={"x": "a.x"})
    rows = f"ORDER BY x MEASURES A.x AS x, {value} AS v PATTERN (A) DEFINE A AS {test.replace('==', '=')}"
    sql = cep.sql(f"SELECT * FROM f MATCH_RECOGNIZE ({rows})", f=frame).to_frame()
    siddhi = cep.siddhi(f"from S[{test}] select x, {value} as v insert into Out;", S=frame, order_by="x")
    window = cep.window(frame, {"n": f"count_if({test})"}, length=1, order_by="x")
    measured = cep.match(frame, "r", define={"r": "true"}, order_by="x", measures={"v": f"first({value})"})
    found = regex.to_frame().x.tolist()
    assert sequence.to_frame().x.tolist() == sql.x.tolist() == siddhi.to_frame().x.tolist() == found
    assert frame.x[window.n == 1].tolist() == found
    values = measured.to_frame().v[frame.x.isin(found).to_numpy()].tolist()
    assert sql.v.tolist() == siddhi.to_frame().v.tolist() == values
    return list(zip(found, values, strict=True))


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("name", ["hour_of", "hour_in_kernel", "hour_of_time"])
def test_times_have_one_form_for_every_unit(unit, name):
    frame = ROWS.assign(ts=ROWS.ts.astype(f"datetime64[{unit}]"))
    assert answers(frame, f"{name}(ts) == 5", f"{name}(ts)") == [(2, 5), (3, 5)]
    assert answers(frame, f"{name}(ts) > 10", f"{name}(ts)") == [(1, 23)]


@pytest.mark.parametrize("unit", ["s", "ns"])
def test_zones_and_durations(unit):
    ts = ROWS.ts.astype(f"datetime64[{unit}]")
    frame = ROWS.assign(ts=ts.dt.tz_localize("America/New_York"))
    assert answers(frame, "hour_of_time(ts) == 5", "hour_of_time(ts)") == [(2, 5), (3, 5)]
    assert answers(frame, "hour_of(ts) == 10", "hour_of(ts)") == [(2, 10), (3, 10)]
    near = cep.match(frame, "PATTERN SEQ(_ a, _ b) WHERE hours(b.ts - a.ts) < 24", order_by="ts")
    assert near.count() == 1


def test_texts_and_constants():
    assert answers(ROWS, "has(s, '[0-9]')", "has(s, '[0-9]')") == [(1, True), (4, True)]
    assert answers(ROWS, "has(s, 'A') or has(s, 'c')", "has(s, 'A')") == [(1, True), (2, False)]
    assert answers(ROWS, "longer(s, 2)", "longer(s, 1)") == [(1, True)]


def test_a_condition_without_any_value():
    frame = ROWS.assign(s=pd.Series([None] * 4, dtype="str"))
    for test in ["has(s, 'A') and x > 1", "has(s, 'A')"]:
        assert answers(frame, test, "x") == []
    assert answers(frame, "has(s, 'A') or x > 3", "x") == [(4, 4)]


@pytest.mark.parametrize("test", ["if(has(s, 'A'), x > 0, x > 1)", "if(has(s, 'A') and x > 1, 1, 2) == 1"])
def test_a_registered_function_inside_another_one(test):
    with pytest.raises(CepError, match="does not go inside another function"):
        cep.match(ROWS, "r", define={"r": test}, order_by="x")


def test_a_time_that_a_function_cannot_take():
    cep.pure(lambda t: t.hour, name="hour_without_form")
    with pytest.raises(CepError, match=r"microseconds since 1970; cep.pure.*times='datetime'"):
        cep.match(ROWS, "r", define={"r": "hour_without_form(ts) = 5"}, order_by="x").count()
    with pytest.raises(CepError, match="times='ns': write 'us'"):
        cep.pure(hour_of, times="ns")


def test_a_function_registered_after_the_text_was_read():
    text = (
        "SELECT * FROM f MATCH_RECOGNIZE (ORDER BY x MEASURES A.x AS x PATTERN (A) DEFINE A AS late_even(x))"
    )
    with pytest.raises(CepError, match="no function 'LATE_EVEN'"):
        cep.sql(text, f=ROWS)
    cep.pure(lambda x: x % 2 == 0, name="late_even")
    assert cep.sql(text, f=ROWS).to_frame().x.tolist() == [2, 4]
    cep.pure(lambda x: x > 3, name="late_even")
    assert cep.sql(text, f=ROWS).to_frame().x.tolist() == [4]
    with pytest.raises(CepError, match=r"LATE_EVEN.. takes 1 argument; 2 given"):
        cep.sql(text.replace("(x)", "(x, 1)"), f=ROWS)


@pytest.mark.parametrize("seed", seeds(3, 400))
def test_random_frames(seed):
    random = Random(seed)
    n, unit = random.randrange(1, 12), random.choice(["s", "ms", "us", "ns"])
    minutes = [random.randrange(-3000, 3000) for _ in range(n)]
    frame = pd.DataFrame(
        {
            "ts": (pd.Timestamp(0) + pd.to_timedelta(minutes, unit="min")).astype(f"datetime64[{unit}]"),
            "s": random.choices(["Ab1", "cd", "9", None], k=n),
            "x": range(n),
        }
    )
    hour = random.randrange(24)
    name = random.choice(["hour_of", "hour_in_kernel", "hour_of_time"])
    wanted = [
        (x, minute // 60 % 24)
        for x, minute, text in zip(frame.x, minutes, frame.s, strict=True)
        if minute // 60 % 24 < hour and not pd.isna(text) and re.search("[0-9]", text)
    ]
    assert answers(frame, f"{name}(ts) < {hour} and has(s, '[0-9]')", f"{name}(ts)") == wanted


@pytest.mark.spark
@pytest.mark.filterwarnings("ignore::cepkit.CepWarning")
def test_on_spark(spark):
    frame = spark.createDataFrame(ROWS.dropna())
    regex = cep.match(frame, "r", define={"r": "has(s, '[0-9]') and hour_of_time(ts) < 20"}, order_by="x")
    assert regex.count() == 1
    sequence = cep.match(
        frame, "PATTERN SEQ(_ a) WHERE has(a.s, '[0-9]') AND hour_of(a.ts) < 20", order_by="x"
    )
    assert sequence.count() == 1
    rows = "ORDER BY x MEASURES A.x AS x PATTERN (A) DEFINE A AS HAS(s, '[0-9]')"
    found = cep.sql(f"SELECT * FROM f MATCH_RECOGNIZE ({rows})", f=frame).to_frame()
    assert [row.x for row in found.collect()] == [1, 4]
    siddhi = cep.siddhi("from S[has(s, '[0-9]')] select x insert into Out;", S=frame, order_by="x")
    assert sorted(row.x for row in siddhi.to_frame().collect()) == [1, 4]
