"""Random conditions with functions, as text and as plain Python: what each function means for one row."""

from __future__ import annotations

import calendar
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random
from typing import Any

Row = dict[str, Any]
Rows = list[Row]
WORDS = ("ab", "Ab-c", "a b", "x1-y22", "", "BÄr", "10.1.2.3", "10.9.0.1")


@dataclass(frozen=True)
class Said:
    """An expression: its text, where {} is before the name of each column, and its value at a row."""

    text: str
    of: Callable[[Rows, int], Any]

    def at(self, before: str) -> str:
        """Return the text for columns with something before their names, such as ``a.``."""
        return self.text.replace("{}", before)


def column(name: str) -> Said:
    return Said("{}" + name, lambda rows, i: rows[i][name])


def constant(value: Any) -> Said:
    text = "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value).lower()
    return Said(text, lambda rows, i: value)


def call(form: str, of: Callable[..., Any], *parts: Said, lenient: bool = False) -> Said:
    """Return a function; ``form`` has %s for each argument. A null or an error makes a null."""

    def value(rows: Rows, i: int) -> Any:
        values = [part.of(rows, i) for part in parts]
        if not lenient and None in values:
            return None
        try:
            result = of(*values)
        except (ArithmeticError, ValueError):
            return None
        return None if isinstance(result, float) and math.isnan(result) else result

    return Said(form % tuple(part.text for part in parts), value)


def previous(part: Said) -> Said:
    return Said(f"prev({part.text})", lambda rows, i: part.of(rows, i - 1) if i else None)


def following(part: Said, offset: int) -> Said:
    def value(rows: Rows, i: int) -> Any:
        return part.of(rows, i + offset) if i + offset < len(rows) else None

    return Said(f"next({part.text}, {offset})", value)


def _split(text: str, number: int) -> str | None:
    return text.split("-")[number - 1] if number <= len(text.split("-")) else None


def _cut(text: str, start: int, length: int) -> str:
    return "" if start == 0 or len(text) < -start else text[start - (start > 0) :][:length] if start else ""


def _month_later(moment: datetime, n: int) -> datetime:
    months = moment.year * 12 + moment.month - 1 + n
    last = calendar.monthrange(moment.year, moment.month)[1]
    days = calendar.monthrange(months // 12, months % 12 + 1)[1]
    day = days if moment.day == last else min(moment.day, days)
    return moment.replace(year=months // 12, month=months % 12 + 1, day=day)


class Sayer:
    """Draws expressions."""

    def __init__(self, seed: int):
        self.rng = Random(seed)

    def of(self, *choices: Callable[[], Said]) -> Said:
        return self.rng.choice(choices)()

    def text(self, depth: int = 1) -> Said:
        if depth == 0:
            return column("s")
        inner, rng = lambda: self.text(depth - 1), self.rng
        n, length = rng.choice((-2, 1, 2, 3)), rng.choice((0, 1, 2, 9))
        return self.of(
            lambda: call("lower(%s)", str.lower, inner()),
            lambda: call("upper(%s)", str.upper, inner()),
            lambda: call("trim(%s)", str.strip, inner()),
            lambda: call("reverse(%s)", lambda t: t[::-1], inner()),
            lambda: call(f"substr(%s, {n}, {length})", lambda t: _cut(t, n, length), inner()),
            lambda: call("replace(%s, 'a', 'zz')", lambda t: t.replace("a", "zz"), inner()),
            lambda: call("split_part(%s, '-', 2)", lambda t: _split(t, 2), inner()),
            lambda: call("concat(%s, '-', %s)", lambda t, u: f"{t}-{u}", inner(), inner()),
            lambda: call("regexp_replace(%s, '[0-9]+', '#')", lambda t: re.sub("[0-9]+", "#", t), inner()),
            lambda: call("regexp_extract(%s, '([a-z])-(.)', 2)",
                         lambda t: (m := re.search("([a-z])-(.)", t)) and m[2], inner()),
            lambda: call("coalesce(%s, 'ab')", lambda t: "ab" if t is None else t, inner(), lenient=True),
            lambda: call("if(%s, %s, 'no')", lambda c, t: t if c else "no", self.truth(0), inner(),
                     lenient=True),
            lambda: call("dayname(%s)", lambda m: f"{m:%a}", column("ts")),
            lambda: call("to_char(%s, 'YYYY/MM/DD HH24')", lambda m: f"{m:%Y/%m/%d %H}", column("ts")),
        )  # fmt: skip

    def number(self, depth: int = 1) -> Said:
        if depth == 0:
            return self.of(lambda: column("x"), lambda: column("i"))
        inner = lambda: self.number(depth - 1)  # noqa: E731
        moment = column("ts")
        fields = {
            "year": lambda m: m.year, "month": lambda m: m.month, "day": lambda m: m.day,
            "hour": lambda m: m.hour, "minute": lambda m: m.minute, "second": lambda m: m.second,
            "weekday": lambda m: m.weekday(), "dayofweek": lambda m: m.weekday(),
            "day_of_week": lambda m: m.isoweekday(), "week": lambda m: m.isocalendar()[1],
            "quarter": lambda m: (m.month + 2) // 3, "day_of_year": lambda m: m.timetuple().tm_yday,
        }  # fmt: skip
        field = self.rng.choice([*fields])
        return self.of(
            lambda: call(f"{field}(%s)", fields[field], moment),
            lambda: call(f"{field}(%s)", fields[field], moment),
            lambda: call("length(%s)", len, self.text(depth - 1)),
            lambda: call("strpos(%s, 'b')", lambda t: t.find("b") + 1, self.text(depth - 1)),
            lambda: call("regexp_count(%s, '[a-c]')", lambda t: len(re.findall("[a-c]", t)),
                     self.text(depth - 1)),
            lambda: call("sin(%s)", math.sin, inner()),
            lambda: call("atan2(%s, 2)", lambda v: math.atan2(v, 2), inner()),
            lambda: call("coalesce(%s, 1)", lambda v: 1 if v is None else v, inner(), lenient=True),
            lambda: call("nullif(%s, 2)", lambda v: None if v == 2 else v, inner(), lenient=True),
            lambda: call("if(%s, %s, 0)", lambda c, v: v if c else 0, self.truth(0), inner(), lenient=True),
            lambda: call("haversine(%s, 10, 50, 11)", _distance, inner()),
            lambda: call("round(%s, 1)", lambda v: _rounded(v), column("x")),
            lambda: call("trunc(%s)", math.trunc, column("x")),
            lambda: call("date_diff('hour', '2026-01-01', %s)",
                         lambda m: int((m - datetime(2026, 1, 1)) / timedelta(hours=1)), moment),
            lambda: call("mod(%s, 3)", lambda v: math.fmod(v, 3), inner()),
        )  # fmt: skip

    def moment(self) -> Said:
        moment, n = column("ts"), self.rng.choice((-13, 1, 2))
        return self.of(
            lambda: call("date(%s)", lambda m: datetime(m.year, m.month, m.day), moment),
            lambda: call("date_trunc('month', %s)", lambda m: datetime(m.year, m.month, 1), moment),
            lambda: call("date_trunc('hour', %s)", lambda m: m.replace(minute=0, second=0, microsecond=0),
                     moment),
            lambda: call(f"date_add('day', {n}, %s)", lambda m: m + timedelta(days=n), moment),
            lambda: call(f"add_months(%s, {n})", lambda m: _month_later(m, n), moment),
            lambda: call("last_day(%s)",
                         lambda m: datetime(m.year, m.month, calendar.monthrange(m.year, m.month)[1]),
                         moment),
        )  # fmt: skip

    def of_rows(self) -> Said:
        """Return a number of this row and of the row before, or of a later one."""
        part, other = self.number(self.rng.choice((0, 1))), self.number(0)
        before = previous(other)
        return self.of(
            lambda: call("coalesce(%s, %s)", lambda a, b: b if a is None else a, before, part, lenient=True),
            lambda: call("if(%s > 1, %s, %s)", lambda a, b, c: b if a is not None and a > 1 else c,
                         before, part, other, lenient=True),
            lambda: call("nullif(%s, %s)", lambda a, b: None if a is not None and a == b else a, part, before,
                         lenient=True),
            lambda: call("coalesce(%s, %s, 2) + zeroifnull(%s)",
                         lambda a, b, c: (2 if b is None else b) + (c or 0) if a is None else a + (c or 0),
                         before, part, previous(column("x")), lenient=True),
            lambda: call("case(%s > 1, %s, %s = 2, 7, 3)",
                         lambda a, b, c: b if a is not None and a > 1 else 7 if c == 2 else 3,
                         before, part, other, lenient=True),
            lambda: call("atan2(%s, %s)", math.atan2, before, other),
            lambda: call("round(cos(%s - %s) * 1000)", lambda a, b: round(math.cos(a - b) * 1000),
                         before, other),
            lambda: call("round(haversine(%s, 10, %s, 11))", lambda a, b: round(_distance(a, b)),
                         before, other),
            lambda: following(part, self.rng.choice((1, 2))),
            lambda: following(part, 1),
        )  # fmt: skip

    def truth(self, depth: int = 1, *, with_previous: bool = False) -> Said:
        rng, sign = self.rng, self.rng.choice(("<", ">=", "=", "!="))
        compare = {"<": lambda a, b: a < b, ">=": lambda a, b: a >= b, "=": lambda a, b: a == b,
                   "!=": lambda a, b: a != b}[sign]  # fmt: skip
        day = datetime(2026, rng.choice((1, 2)), rng.choice((1, 15, 28)))

        def against(part: Said, others: list[Any]) -> Said:
            is_earlier = with_previous and "prev(" not in part.text and "next(" not in part.text
            is_earlier = is_earlier and rng.random() < 0.6
            return call(
                f"%s {sign} %s", compare, part, previous(part) if is_earlier else constant(rng.choice(others))
            )

        equality = "=" if sign in ("=", "<") else "!="
        same = lambda a, b: (a == b) is (equality == "=")  # noqa: E731

        def texts() -> Said:
            part = self.text(depth)
            other = previous(part) if with_previous and rng.random() < 0.6 else constant(rng.choice(WORDS))
            return call(f"%s {equality} %s", same, part, other)

        if with_previous and rng.random() < 0.3:
            return against(self.of_rows(), [0, 1, 2, 5])
        return self.of(
            lambda: against(self.number(depth), [0, 1, 2, 5]),
            lambda: against(self.number(depth), [0, 1, 2, 5]),
            texts,
            lambda: call(f"%s {sign} '{day}'", lambda m: compare(m, day), self.moment()),
            lambda: call("contains(%s, 'b')", lambda t: "b" in t, self.text(depth)),
            lambda: call("regexp_like(%s, '^[a-y]+[ -]')", lambda t: bool(re.search("^[a-y]+[ -]", t)),
                     self.text(depth)),
            lambda: call("%s ilike 'A_%%'", lambda t: len(t) > 1 and t[0] in "aA", self.text(depth)),
            lambda: call("is_weekend(%s)", lambda m: m.weekday() > 4, column("ts")),
            lambda: call("ip_in(%s, '10.0.0.0/13')", _in_network, column("s")),
            lambda: call("%s is distinct from %s", lambda a, b: a != b, self.number(depth), constant(1),
                     lenient=True),
            lambda: call("%s is null", lambda v: v is None, self.number(depth), lenient=True),
        )  # fmt: skip


def _in_network(text: str) -> bool:
    if not re.fullmatch(r"\d+\.\d+\.\d+\.\d+", text):
        raise ValueError(text)
    return text.startswith(("10.0.", "10.1.", "10.2.", "10.3.", "10.4.", "10.5.", "10.6.", "10.7."))


def _rounded(value: float) -> float:
    """Return a number with a digit after the point; halves of what is printed go away from zero."""
    tenths = f"{abs(value):.12f}"
    whole, digits = tenths.split(".")
    up = int(whole) * 10 + int(digits[0]) + (digits[1] >= "5")
    return math.copysign(up / 10, value) if up else 0.0


def _distance(lat: float, other_lat: float = 50) -> float:
    """Return the distance on a sphere of two places of the longitudes 10 and 11, in km."""
    one, other = (math.radians(lat), math.radians(10)), (math.radians(other_lat), math.radians(11))
    rise = math.sin((other[0] - one[0]) / 2) ** 2
    side = math.cos(one[0]) * math.cos(other[0]) * math.sin((other[1] - one[1]) / 2) ** 2
    return 2 * 6371.0088 * math.asin(math.sqrt(min(1.0, rise + side)))


def rows_of(seed: int, n: int = 40) -> Rows:
    """Return random rows with nulls; ``id`` counts them."""
    rng = Random(seed)

    def some(value: Any) -> Any:
        return None if rng.random() < 0.15 else value

    begin = datetime(2026, 1, 1)
    return [
        {
            "id": i,
            "s": some(rng.choice(WORDS)),
            "x": some(rng.choice((-2.5, -0.35, 0.0, 1.0, 2.0, 2.25, 17.5))),
            "i": some(rng.randrange(-2, 6)),
            "ts": some(begin + timedelta(minutes=rng.randrange(90_000), seconds=rng.randrange(60))),
        }
        for i in range(n)
    ]
