"""Functions of values: one meaning in regexes, sequences, MATCH_RECOGNIZE and streams, on all frames."""

from __future__ import annotations

import math
import re
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import cepkit as cep
from cepkit.errors import PredicateError
from cepkit.language.expressions.functions import _REGISTRY
from tests.oracle.functions import Sayer, rows_of
from tests.support.sizes import seeds
from tests.support.tables import cases


def arrow_table(rows):
    schema = [
        ("id", pa.int64()),
        ("s", pa.string()),
        ("x", pa.float64()),
        ("i", pa.int64()),
        ("ts", pa.timestamp("us")),
    ]
    return pa.Table.from_pylist(rows, pa.schema(schema))


def frames(rows):
    """Return the rows as frames of several kinds."""
    table = arrow_table(rows)
    plain = table.to_pandas()
    nullable = plain.convert_dtypes().assign(ts=plain["ts"].astype("M8[ns]"))
    arrow = plain.assign(
        **{name: plain[name].astype(pd.ArrowDtype(table.schema.field(name).type)) for name in "sxi"}
    )
    return {
        "numpy": plain, "nullable": nullable, "arrow": arrow, "table": table,
        "categories": plain.assign(s=plain["s"].astype("category"), ts=plain["ts"].astype("M8[ms]")),
    }  # fmt: skip


def ids(result):
    frame = result.to_frame()
    frame = frame.to_pandas() if isinstance(frame, pa.Table) else frame
    return sorted(frame["id"].astype(int))


def by_regex(frame, said):
    return ids(cep.match(frame, "r", define={"r": said.at("")}, order_by="id", measures={"id": "first(id)"}))


def by_sequence(frame, said):
    text = f"PATTERN SEQ(_ a) WHERE skip_till_any_match AND {said.at('a.')}"
    return ids(cep.match(frame, text, order_by="id", measures={"id": "a.id"}))


def by_sql(frame, said):
    condition = re.sub(r"\b(weekday|dayofweek)\(", "WEEKDAY(", said.at(""))
    condition = re.sub(r'"', "'", condition)
    text = f"MATCH_RECOGNIZE (ORDER BY id MEASURES R.id AS id PATTERN (R) DEFINE R AS {condition})"
    return ids(cep.sql(f"SELECT * FROM t {text}", t=frame))


def by_stream(rows, said):
    table = arrow_table(rows)
    stream = cep.stream(
        "r", schema=table.schema, define={"r": said.at("")}, order_by="id", measures={"id": "first(id)"}
    )
    parts = [stream.push(table.slice(begin, 7)) for begin in range(0, len(table), 7)]
    parts.append(stream.close())
    return sorted(value for part in parts if part is not None for value in pa.table(part)["id"].to_pylist())


@pytest.mark.parametrize("seed", seeds(12, 2500))
def test_all_languages_agree_with_plain_python(seed):
    rows, sayer = rows_of(seed), Sayer(seed)
    said = sayer.truth(2)
    wanted = [i for i in range(len(rows)) if said.of(rows, i) is True]
    kinds = frames(rows)
    frame = kinds[[*kinds][seed % len(kinds)]]
    assert by_regex(frame, said) == wanted, said.text
    assert by_sequence(frame, said) == wanted, said.text
    assert by_sql(frame, said) == wanted, said.text
    if seed % 4 == 0:
        assert by_stream(rows, said) == wanted, said.text


@pytest.mark.parametrize("seed", seeds(24, 2500))
def test_functions_of_the_row_before(seed):
    rows, sayer = rows_of(seed), Sayer(seed + 10**6)
    said = sayer.truth(2, with_previous=True)
    wanted = [i for i in range(len(rows)) if said.of(rows, i) is True]
    kinds = frames(rows)
    assert by_regex(kinds[[*kinds][seed % len(kinds)]], said) == wanted, said.text
    if (
        re.search(r"\bcase\(|haversine|round\(cos|atan2", said.text) is None
    ):  # SQL writes CASE, and rounds halves away
        assert by_sql(kinds["numpy"], said) == wanted, said.text
    if seed % 4 == 0 and "next(" not in said.text:
        assert by_stream(rows, said) == wanted, said.text


LOGS = pd.DataFrame({
    "ts": pd.to_datetime(["2026-01-02 23:30", "2026-01-03 03:00", "2026-01-05 12:00"]),
    "url": ["/a?x=1", "/B/Login", "/wp-admin"], "x": [3.0, None, 1.0], "ip": ["10.1.2.3", "::1", "none"],
})  # fmt: skip
SHOWN = {
    "lower(url) like '%login%'": LOGS.url.str.lower().str.contains("login"),
    "url ilike '%LOGIN%'": LOGS.url.str.contains("login", case=False),
    "regexp_like(url, '^/wp')": LOGS.url.str.match("/wp"),
    "regexp_like(url, 'LOGIN', 'i')": LOGS.url.str.contains("login", case=False),
    "length(url) > 7": LOGS.url.str.len() > 7,
    "len(url) = 6": LOGS.url.str.len() == 6,
    "substr(url, 1, 2) = '/B'": LOGS.url.str[:2] == "/B",
    "hour(ts) >= 22": LOGS.ts.dt.hour >= 22,
    "dayofweek(ts) >= 5": LOGS.ts.dt.day_of_week >= 5,
    "weekday(ts) = 0": LOGS.ts.dt.day_of_week == 0,
    "date(ts) = '2026-01-03'": LOGS.ts.dt.normalize() == "2026-01-03",
    "day(ts) != day(prev(ts))": (LOGS.ts.dt.day != LOGS.ts.dt.day.shift()) & (LOGS.index > 0),
    "ts > date_trunc('month', prev(ts)) + '3 d'": LOGS.index == 2,
    "coalesce(x, 0) = 0": LOGS.x.fillna(0) == 0,
    "sin(x) > 0.5": np.sin(LOGS.x) > 0.5,
    "x is distinct from prev(x)": pd.Series([True, True, True]),
    "x is not distinct from null": LOGS.x.isna(),
    "x > next(x)": LOGS.x > LOGS.x.shift(-1),
    "x > next(x, 2)": LOGS.x > LOGS.x.shift(-2),
    "ip_in(ip, '10.0.0.0/8')": LOGS.ip == "10.1.2.3",
    "ip_in(ip, '::/64')": LOGS.ip == "::1",
    "if(x > 2, url, 'none') != 'none'": LOGS.x > 2,
    "case(x > 2, 1, x > 0, 2, 3) = 2": LOGS.index == 2,
    "nullif(x, 3) is null": LOGS.x.isin([3]) | LOGS.x.isna(),
    "split_part(url, '/', 3) = 'Login'": LOGS.url.str.split("/").str[2] == "Login",
}


@pytest.mark.parametrize("condition", SHOWN)
def test_conditions_of_logs_hold_as_in_pandas(condition):
    found = LOGS.cep.match("r", define={"r": condition}, order_by="ts").to_frame("all")
    assert found["ts"].tolist() == LOGS.ts[np.asarray(SHOWN[condition], bool)].tolist()


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_fields_of_times_are_those_of_the_clock_in_their_zone(unit):
    """Clocks in Berlin go back at 01:00 UTC on 2024-10-25, and forward at 01:00 UTC on 2024-03-31."""
    utc = pd.date_range("2024-03-30 20:00", "2024-10-28", freq="97min").as_unit(unit)
    frame = pd.DataFrame({"ts": utc.tz_localize("UTC").tz_convert("Europe/Berlin")})
    for condition, mask in {
        "hour(ts) = 2": frame.ts.dt.hour == 2,
        "date(ts) = '2024-10-27'": frame.ts.dt.date == pd.Timestamp("2024-10-27").date(),
        "is_weekend(ts) and hour(ts) < 1": (frame.ts.dt.day_of_week > 4) & (frame.ts.dt.hour < 1),
        "to_char(ts, 'DD HH24') = '31 03'": frame.ts.dt.strftime("%d %H") == "31 03",
        "month(date_add('hour', 3, ts)) != month(ts)": (
            (frame.ts + pd.Timedelta("3h")).dt.month != frame.ts.dt.month
        ),
    }.items():
        found = frame.cep.match("r", define={"r": condition}, order_by="ts").to_frame("all")
        assert mask.any() and found["ts"].tolist() == frame.ts[mask].tolist(), condition


@pytest.mark.parametrize(
    ("condition", "words"),
    cases("functions_of_values", "errors"),
)
def test_errors_say_what_to_write(condition, words):
    with pytest.raises(cep.CepError, match=re.escape(words)):
        LOGS.cep.match("r", define={"r": condition}, order_by="ts")


COUNTED = pd.DataFrame({
    "row": [0, 1, 2, 3, 4], "at": pd.date_range("2026-03-27", periods=5), "whole": [1, 2, -3, 10**18, 4],
    "float": [1.0, 2.0, np.nan, 3.5, -1e300], "decimal": [Decimal(n) for n in ("1", "-2", "3", "4.5", "0")],
    "raw": [b"a", b"b", None, b"", b"c"], "text": ["a", "b", "c", None, ""],
})  # fmt: skip
ADDED = {
    "date_add('day', {n}, at)": lambda at, n: at + pd.DateOffset(days=n),
    "date_add('hour', {n}, at)": lambda at, n: at + pd.Timedelta(hours=n),
    "add_months(at, {n})": lambda at, n: at + pd.DateOffset(months=n),
}


@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin"])
@pytest.mark.parametrize("column", ["whole", "float", "decimal"])
@pytest.mark.parametrize("call", ADDED)
def test_numbers_of_units_may_be_floats_and_any_number_without_a_time_is_null(call, column, zone):
    frame = COUNTED.assign(at=COUNTED["at"].dt.tz_localize(zone))
    said, add = call.format(n=column), ADDED[call]
    for moment in frame["at"]:
        text = str(moment + pd.Timedelta("24h"))
        expected = [
            row for row, (n, at) in enumerate(zip(frame[column], frame["at"], strict=True))
            if n == n and n == int(n) and abs(n) < 10**9 and add(at, int(n)) >= pd.Timestamp(text)
        ]  # fmt: skip
        query = {"define": {"r": f"{said} >= '{text}'"}, "order_by": "row", "measures": {"row": "first(row)"}}
        assert cep.match(frame, "r", **query).to_frame()["row"].tolist() == expected, text


@pytest.mark.parametrize("unit", ["s", "ms", "us"])
def test_a_zone_keeps_its_last_offset_beyond_the_calendar(unit):
    hours = {
        "9999-12-31 22:30": 23,
        "10000-01-01 22:30": 23,
        "33658-09-27 01:46:40": 2,
        "-0044-03-15 12:00": 12,
    }
    ticks = np.array(list(hours), f"M8[{unit}]")
    frame = pd.DataFrame({"at": pd.Series(ticks).dt.tz_localize("UTC").astype(f"M8[{unit}, Europe/Berlin]")})
    for row, hour in enumerate(hours.values()):
        found = cep.match(frame.iloc[[row]], "r", define={"r": f"hour(at) = {hour}"}, order_by="at")
        assert found.count() == 1, list(hours)[row]


@pytest.mark.parametrize(
    ("condition", "rows"),
    [
        ("hour('2026-01-02 05:00') = 5", [0, 1, 2, 3, 4]),
        ("from_unixtime(9223372036854775807) is null", [0, 1, 2, 3, 4]),
        ("from_unixtime(whole) is null", [3]),
        ("date_add('day', 3.5, at) is null", [0, 1, 2, 3, 4]),
    ],
)
def test_functions_of_constants_and_of_times_beyond_64_bits(condition, rows):
    found = cep.match(
        COUNTED, "r", define={"r": condition}, order_by="row", measures={"row": "first(row)"}
    ).to_frame()
    window = cep.window(COUNTED, {"n": "count()"}, length=1, where=condition)
    assert found["row"].tolist() == rows and len(window) == len(rows)


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("day('x') = 1", "'x' is compared with a time but is not one"),
        ("day('') = 1", "'' is compared with a time but is not one"),
        ("trunc('1 h') = 1", r"trunc\(\) takes a number and how many digits, or a time and its unit"),
        ("trunc(whole, 'day') = 1", r"trunc\(\) takes a number and how many digits, or a time and its unit"),
        ("contains('a', 1)", r"contains\(\) of a text takes a text, not a whole number"),
        ("contains(text, float)", r"contains\(\) of a text takes a text, not a number"),
        ("ends_with(true, 2.5)", r"ends_with\(\) takes a text"),
        ("concat(whole, raw) = 'a'", r"concat\(\) takes numbers, texts, times and truth values"),
    ],
)
def test_values_that_a_function_does_not_take_are_an_error(condition, message):
    with pytest.raises(PredicateError, match=f"^predicate 'r': {message}"):
        cep.match(COUNTED, "r", define={"r": condition}, order_by="row")
    with pytest.raises(PredicateError, match=f"^where: {message}"):
        cep.window(COUNTED, {"n": "count()"}, length=1, where=condition)


def test_a_registered_function_wins_over_one_of_the_same_name():
    try:
        cep.pure(lambda x: x == 3, name="is_weekend")
        assert LOGS.cep.match("r", define={"r": "is_weekend(x)"}, order_by="ts").count() == 1
    finally:
        _REGISTRY.pop("is_weekend", None)
    assert LOGS.cep.match("r", define={"r": "is_weekend(ts)"}, order_by="ts").count() == 1


def test_questions_about_conditions_with_functions():
    define = {"late": "hour(ts) >= 22", "login": "lower(url) like '%login%'"}
    assert "login" in str(LOGS.cep.why_not("login late", define=define, order_by="ts"))
    text = "PATTERN SEQ(_ a, _ b) WHERE lower(b.url) = '/b/login' AND length(a.url) > 100"
    assert "length(a.url) > 100" in str(LOGS.cep.why_not(text, order_by="ts", rows=[0, 1]))
    event = cep.event("b")
    assert str(event["url"].apply("lower").like("a%")) == "lower(b.url) like 'a%'"


def test_a_stream_has_no_next_row():
    with pytest.raises(cep.UnsupportedQueryError, match="reads a row that a stream does not have yet"):
        cep.stream("r", schema={"x": "int64"}, define={"r": "x > next(x)"})


@pytest.mark.parametrize("seed", seeds(3, 60))
def test_functions_of_two_events(seed, tier):
    """Pairs of events under any match, with numbers of both in one function."""
    rows = [row for row in rows_of(seed, 14) if row["x"] is not None]
    forms = {
        "haversine(a.x, a.i, b.x, b.i) < 900": lambda a, b: distance(a["x"], a["i"], b["x"], b["i"]) < 900,
        "coalesce(b.i, a.x) = 2": lambda a, b: (a["x"] if b["i"] is None else b["i"]) == 2,
        "if(a.i > b.i, a.x, b.x) > 1": lambda a, b: (a["x"] if is_above(a["i"], b["i"]) else b["x"]) > 1,
        "lower(a.s) = lower(b.s)": lambda a, b: (
            None not in (a["s"], b["s"]) and a["s"].lower() == b["s"].lower()
        ),
        "abs(atan2(a.x, b.x)) < 1": lambda a, b: abs(math.atan2(a["x"], b["x"])) < 1,
    }
    text, holds = [*forms.items()][seed % len(forms)]
    query = f"PATTERN SEQ(_ a, _ b) WHERE {text}"
    found = cep.match(arrow_table(rows), query, order_by="id", measures={"a": "a.id", "b": "b.id"}).to_frame()
    wanted = {(a["id"], b["id"]) for i, a in enumerate(rows) for b in rows[i + 1 :] if holds(a, b)}
    assert set(zip(found["a"].to_pylist(), found["b"].to_pylist(), strict=True)) == wanted


def is_above(one, other):
    return one is not None and other is not None and one > other


def distance(lat, lon, other_lat, other_lon):
    if None in (lat, lon, other_lat, other_lon):
        return math.inf
    one, other = np.radians([lat, lon]), np.radians([other_lat, other_lon])
    rise = np.sin((other[0] - one[0]) / 2) ** 2
    side = np.cos(one[0]) * np.cos(other[0]) * np.sin((other[1] - one[1]) / 2) ** 2
    return 2 * 6371.0088 * np.arcsin(np.sqrt(rise + side))
