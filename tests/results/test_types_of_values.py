"""One condition selects the same rows in windows, regexes, sequences, MATCH_RECOGNIZE and streams.

The columns have all types and the values of their borders. The conditions are random, and of the right types.
"""

from __future__ import annotations

import contextlib
import datetime
import re
from decimal import Decimal
from random import Random

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import cepkit as cep
from cepkit.errors import CepError
from tests.support.sizes import seeds

MIDNIGHTS = pd.date_range("2026-03-27", periods=6)
pytestmark = pytest.mark.filterwarnings("ignore::cepkit.errors.CepWarning")  # of comparisons with null
FRAME = pd.DataFrame({
    "row": range(6),
    "whole": [1, 2, 3, -4, 0, 2**62], "small": np.array([1, -128, 127, 0, 5, 6], np.int8),
    "float": [1.5, np.nan, np.inf, -0.0, 1e300, 2], "empty": pd.Series([None] * 6, dtype="float64"),
    "decimal": [Decimal(n) for n in ("1.50", "-2.25", "3", "0", "99999999999.5", "1")],
    "text": ["a", "B1", None, "", "1.5", "ünï"], "kind": pd.Categorical(["p", "q", "p", None, "q", "p"]),
    "size": pd.Categorical(["lo", "hi"] * 3, ["lo", "hi"], ordered=True), "is_on": [True, False, None] * 2,
    "at": MIDNIGHTS, "zoned": MIDNIGHTS.tz_localize("Europe/Berlin"), "day": MIDNIGHTS.date,
    "pause": pd.to_timedelta([1, 2, None, 4, 5, 6], unit="h"),
    "clock": [datetime.time(1, 2, second) for second in range(6)],
})  # fmt: skip
TABLE = pa.table({name: pa.Array.from_pandas(FRAME[name]) for name in FRAME})
FRAMES = {"pandas": FRAME, "arrow": TABLE, "polars": pl.from_arrow(TABLE)}
NAME = re.compile(rf"('[^']*')|\b({'|'.join([*FRAME, 'raw'])})\b(?!\()")


class Sayer:
    """Random expressions of each type, as texts."""

    def __init__(self, seed: int):
        self.draw = Random(seed)

    def one(self, *texts: str) -> str:
        return self.draw.choice(texts)

    def number(self, depth: int) -> str:
        if depth <= 0 or self.draw.random() < 0.25:
            return self.one("whole", "small", "float", "decimal", "empty", "1", "-1", "2.5", "1e308", "null")
        x, y, t, s, c = self._number, self._number, self._time, self._text, self._condition
        return {
            0: lambda: f"({x(depth)} {self.one('+', '-', '*', '/', '//', '%')} {y(depth)})",
            1: lambda: f"{self.one('abs', 'floor', 'ceil', 'sign', 'sqrt', 'trunc', 'exp')}({x(depth)})",
            2: lambda: f"{self.one('least', 'greatest', 'coalesce', 'mod', 'power')}({x(depth)}, {y(depth)})",
            3: lambda: f"if({c(depth)}, {x(depth)}, {y(depth)})",
            4: lambda: f"{self.one('length', 'ascii', 'to_number')}({s(depth)})",
            5: lambda: f"{self.one('hour', 'day', 'month', 'dow', 'week', 'minute')}({t(depth)})",
            6: lambda: f"date_diff('{self.one('hour', 'day', 'month')}', {t(depth)}, {t(depth)})",
            7: lambda: f"strpos({s(depth)}, {s(depth)})",
            8: lambda: f"-{x(depth)}",
        }[self.draw.randrange(9)]()

    def text(self, depth: int) -> str:
        if depth <= 0 or self.draw.random() < 0.35:
            return self.one("text", "kind", "size", "'a'", "''", "'ünï'")
        s, x, t = self._text, self._number, self._time
        return {
            0: lambda: f"{self.one('lower', 'upper', 'trim', 'reverse')}({s(depth)})",
            1: lambda: f"concat({s(depth)}, {self.draw.choice([s, x, t])(depth)})",
            2: lambda: f"substr({s(depth)}, {self.one('1', '2', '-1')})",
            3: lambda: f"{self.one('coalesce', 'nullif')}({s(depth)}, {s(depth)})",
            4: lambda: f"if({self._condition(depth)}, {s(depth)}, {s(depth)})",
            5: lambda: f"to_char({t(depth)}, '{self.one('YYYY', 'DD HH24')}')",
            6: lambda: f"replace({s(depth)}, 'a', {s(depth)})",
        }[self.draw.randrange(7)]()

    def time(self, depth: int) -> str:
        if depth <= 0 or self.draw.random() < 0.4:
            return self.one("at", "at", "day", "zoned")
        t = self._time
        return {
            0: lambda: f"date_trunc('{self.one('day', 'month', 'hour', 'week')}', {t(depth)})",
            1: lambda: f"date_add('{self.one('day', 'hour', 'month')}', {self._number(depth)}, {t(depth)})",
            2: lambda: f"({t(depth)} {self.one('+', '-')} {self.one('pause', 'clock')})",
            3: lambda: f"{self.one('least', 'greatest', 'coalesce')}({t(depth)}, {t(depth)})",
            4: lambda: f"if({self._condition(depth)}, {t(depth)}, {t(depth)})",
        }[self.draw.randrange(5)]()

    def condition(self, depth: int) -> str:
        if depth <= 0:
            return "is_on"
        x, s, c, t = self._number, self._text, self._condition, self._time
        sign = self.one("=", "!=", "<", "<=", ">", ">=")
        return {
            0: lambda: f"({x(depth)} {sign} {x(depth)})",
            1: lambda: f"({s(depth)} {sign} {s(depth)})",
            2: lambda: f"({t(depth)} {sign} {self.draw.choice([t(depth), repr('2026-03-29')])})",
            3: lambda: f"({self.draw.choice([x, s, c])(depth)} is {self.one('', 'not ')}null)",
            4: lambda: f"({x(depth)} in ({x(depth)}, {x(depth)}, null))",
            5: lambda: f"({x(depth)} between {x(depth)} and {x(depth)})",
            6: lambda: f"({c(depth)} {self.one('and', 'or')} {c(depth)})",
            7: lambda: f"(not {c(depth)})",
            8: lambda: f"({s(depth)} like '{self.one('a%', '%1%', '_')}')",
            9: lambda: f"({x(depth)} is distinct from {x(depth)})",
        }[self.draw.randrange(10)]()

    def _number(self, depth: int) -> str:
        return self.number(depth - 1)

    def _text(self, depth: int) -> str:
        return self.text(depth - 1)

    def _time(self, depth: int) -> str:
        return self.time(depth - 1)

    def _condition(self, depth: int) -> str:
        return self.condition(depth - 1)


def rows_of(result) -> list[int]:
    frame = pl.DataFrame(result) if isinstance(result, pa.Table) else result
    return sorted(map(int, frame["row"]))


def in_window(frame, condition):
    return cep.window(frame, {"n": "count()"}, length=1, where=condition, order_by="row")


def in_regex(frame, condition):
    query = {"define": {"a": condition}, "order_by": "row", "measures": {"row": "first(row)"}}
    return cep.match(frame, "a", **query).to_frame()


def in_sequence(frame, condition):
    text = f"PATTERN SEQ(_ a) WHERE {of_variable(condition, 'a')}"
    return cep.match(frame, text, order_by="row", measures={"row": "a.row"}).to_frame()


def in_rows(frame, condition):
    text = f"PATTERN (A) DEFINE A AS {of_variable(condition, 'A')}"
    clause = f"MATCH_RECOGNIZE (ORDER BY row MEASURES A.row AS row {text})"
    return cep.sql(f"SELECT row FROM frame {clause}", frame=frame).to_frame()


def in_stream(frame, condition):
    query = {"define": {"a": condition}, "order_by": "row", "measures": {"row": "first(row)"}}
    return cep.stream("a", frame, **query).push(frame)


def of_variable(condition: str, variable: str) -> str:
    """Return a condition whose columns are those of a variable."""
    return NAME.sub(lambda name: name[1] or f"{variable}.{name[2]}", condition)


@pytest.mark.parametrize("seed", seeds(40, 4000))
def test_a_condition_selects_the_same_rows_everywhere(seed):
    draw = Random(seed)
    for case in range(3):
        condition = Sayer(100 * seed + case).condition(draw.choice([1, 2, 2, 3, 4]))
        frame = FRAMES[draw.choice(list(FRAMES))]
        # Remainders of SQL have the sign of the dividend, and infinity minus infinity is a number there.
        last = draw.choice([in_stream, in_stream if re.search(r"[-+*/%]", condition) else in_rows])
        selected = {}
        for engine in (in_window, in_regex, in_sequence, last):
            with contextlib.suppress(CepError):  # what an engine does not compute, it refuses
                selected[engine.__name__] = rows_of(engine(frame, condition))
        assert len(set(map(str, selected.values()))) <= 1, (condition, selected)


def test_most_random_conditions_run():
    n_run = 0
    for seed in range(60):
        with contextlib.suppress(CepError):
            in_regex(FRAME, Sayer(seed).condition(2))
            n_run += 1
    assert n_run > 30


@pytest.mark.parametrize(
    ("condition", "rows"),
    [
        ("power(float, 0) = 1", [0, 2, 3, 4, 5]),
        ("power(1, float) = 1", [0, 2, 3, 4, 5]),
        ("power(empty, 0) is null", [0, 1, 2, 3, 4, 5]),
        ("least(day, at) = '2026-03-29'", [2]),
        ("greatest(at, day) < '2026-03-29'", [0, 1]),
        ("size < 'hi'", [0, 2, 4]),
        ("size < size", []),
        ("size < kind", [0, 1, 2, 4, 5]),
        ("lower(size) < 'ho'", [1, 3, 5]),
        ("if(is_on, size, text) > 'k'", [0, 5]),
        ("null < null", []),
        ("(null between empty and null) is null", [0, 1, 2, 3, 4, 5]),
        ("not (null is distinct from null)", [0, 1, 2, 3, 4, 5]),
        ("(not (whole < null)) is null", [0, 1, 2, 3, 4, 5]),
        ("case('' is not null, whole, 7) = 2", [1]),
        ("trunc(float, -float) is null", [0, 1, 2]),
    ],
)
def test_borders(condition, rows):
    assert rows_of(in_window(FRAME, condition)) == rows
    assert rows_of(in_regex(FRAME, condition)) == rows
    assert rows_of(in_sequence(FRAME, condition)) == rows


@pytest.mark.parametrize("engine", [in_window, in_regex, in_sequence])
def test_a_text_that_is_no_category_is_an_error(engine):
    with pytest.raises(CepError, match=r"'zz' is not one of the ordered categories \['lo', 'hi'\]"):
        engine(FRAME, "size < 'zz'")


@pytest.mark.parametrize("function", ["sum", "max"])
def test_a_decimal_that_no_frame_holds_is_an_error(function):
    frame = pd.DataFrame({"row": [0, 1], "long": [Decimal("1.5"), Decimal("99999999999999999999.5")]})
    message = "a decimal of the result has more than 38 digits; cast the column to float64 first"
    regex = {"define": {"a": "row >= 0"}, "keep": "longest", "measures": {"m": f"{function}(long * long)"}}
    sequence = {"measures": {"m": f"{function}(a.long * a.long)"}}
    for pattern, query in {"a+": regex, "PATTERN SEQ(_+ a[]) WITHIN 3": sequence}.items():
        with pytest.raises(CepError, match=message):
            cep.match(frame, pattern, order_by="row", **query).to_frame()


@pytest.mark.parametrize(
    ("condition", "rows"),
    [("nvl(false, decimal)", []), ("date_add('hour', float, zoned) is null", [0, 1, 2, 4])],
)
def test_borders_of_sql(condition, rows):
    assert rows_of(in_rows(FRAME, condition)) == rows


@pytest.mark.parametrize("number", ["9223372036854775807", "at"])
def test_rows_multiply_no_bytes(number):
    frame = pd.DataFrame({"row": [0], "raw": pd.Series([b"x"], dtype=object), "at": MIDNIGHTS[:1]})
    with pytest.raises(CepError, match="values of types int and bytes do not go together"):
        in_rows(frame, f"{number} * raw IS NULL")
