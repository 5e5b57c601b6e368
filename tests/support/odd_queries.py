"""Simple queries over odd tables from a seed, and what they answer: rows as plain values, or an error."""

from __future__ import annotations

import operator
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from random import Random
from typing import Any

import pandas as pd
import pyarrow as pa

import cepkit as cep
from cepkit.errors import CepError
from tests.support.odd_frames import NANOSECONDS, OddColumn, OddTable, plain_rows, plain_value

NUMBERS = (
    "0", "1", "2.5", "-1", "3.0", "9007199254740993", "9007199254740993.0", "9223372036854775807",
    "-9223372036854775807", "1e300", "-0.0", "0.1", "18446744073709551615.0", "100", "16777217",
)  # fmt: skip
TIMES = (
    "2024-03-31 02:30", "2024-03-31 01:00", "2024-10-27 02:30", "2024-10-27", "1970-01-01",
    "2024-03-31 01:00:00.5", "1677-09-21 00:12:43", "2262-04-11 23:47:17", "0001-01-01", "9999-12-31",
    "2024-03-10T07:00:00+00:00",
)  # fmt: skip
DURATIONS = ("0 s", "1 min", "90 min", "1 ns", "1.5 s", "300 days")
SIGNS = ("=", "!=", "<", "<=", ">", ">=")
_ROUND = re.compile(r"\d+\.\d+")


@dataclass(frozen=True)
class OddQuery:
    """A call on a frame; ``text`` says it for the message of a failure."""

    text: str
    call: Callable[[Any], Any]


@dataclass(frozen=True)
class Outcome:
    """Rows with the names of their columns, or an error."""

    names: list[str] | None = None
    rows: list[tuple] | None = None
    error: BaseException | None = None

    @property
    def is_fault(self) -> bool:
        """Whether the error is none of cepkit's."""
        return self.error is not None and not isinstance(self.error, CepError)


def answer(query: OddQuery, frame: Any) -> Outcome:
    """Return what a query answers. A warning that is not cepkit's is an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", cep.errors.CepWarning)
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas")
        try:
            found = query.call(frame)
            return Outcome(*plain_rows(found))  # Spark begins its job now
        except Exception as error:
            return Outcome(error=error)


def difference(one: Outcome, other: Outcome, *, knows_less: bool = False) -> str:
    """Return how two outcomes differ, an empty text where they do not.

    ``knows_less`` says that the other frame has columns without types: it may have rows in place of an error,
    or another error.
    """
    if "whole number of ticks" in f"{one.error}{other.error}":
        return ""  # polars keeps some times in a finer unit
    for outcome in (one, other):
        if outcome.is_fault:
            return f"{type(outcome.error).__name__}: {outcome.error}"
    if one.error is not None and knows_less:
        return ""
    if one.error is not None and other.error is not None:
        if type(one.error) is type(other.error) and _shape(one.error) == _shape(other.error):
            return ""
        return (
            f"{type(one.error).__name__}: {one.error}\n-- and --\n{type(other.error).__name__}: {other.error}"
        )
    if one.error is not None or other.error is not None:
        error, rows = (one.error, other.rows) if one.error is not None else (other.error, one.rows)
        return f"{type(error).__name__}: {error}\n-- and the rows --\n{rows}"
    if one.names != other.names:
        return f"names {one.names} and {other.names}"
    assert one.rows is not None and other.rows is not None
    if len(one.rows) != len(other.rows):
        return f"{len(one.rows)} rows and {len(other.rows)}: {one.rows} and {other.rows}"
    for i, (left, right) in enumerate(zip(one.rows, other.rows, strict=True)):
        if not _alike(left, right):
            return f"row {i} of {one.names}: {left} and {right}"
    return ""


def _alike(one: Any, other: Any) -> bool:
    if isinstance(one, tuple | list) and isinstance(other, tuple | list):
        return len(one) == len(other) and all(map(_alike, one, other))
    return one == other and isinstance(one, bool) == isinstance(other, bool)


def _shape(error: BaseException) -> str:
    """Return the text of an error without units of times and cures, which differ between kinds of frames."""
    text = re.sub(r"(time|duration)\[(s|ms|us|ns)\]", r"\1", str(error))
    text = re.sub(r"decimal128\(\d+", "decimal128(", text.replace("large_", ""))
    text = re.sub(r"(time32|time64|timestamp)\[(s|ms|us|ns)", "time[", text)
    text = re.sub(r"list of \w+", "list", text)  # empty lists say nothing about their items
    text = re.sub(r"(Did you mean|make (times|numbers) of it first|it holds).*", "", text)
    return re.sub(r"\b(s|ms|us|ns)\b", "unit", text)


# --- queries -----------------------------------------------------------------------------------------------


def draw_query(draw: Random, table: OddTable) -> OddQuery:
    """Return a random query over the columns of a table."""
    makers = [_regex, _sequence, _row_pattern, _window]
    if table.key is None:
        makers = [*makers, _regex, _tag, _sequence, _row_pattern, _join, _holding]
    return draw.choice(makers)(draw, table)


def quote(name: str) -> str:
    """Return a name as the text of regex and sequence queries writes it."""
    return name if re.fullmatch(r"[A-Za-z_]\w*", name) and name not in _WORDS else f"`{name}`"


_WORDS = {"select", "and", "or", "not", "null", "first", "SEQ", "last", "in", "is", "like"}


def sql_quote(name: str) -> str:
    """Return a name as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'


def condition(draw: Random, table: OddTable, name_of: Callable[[str], str], previous: str | None) -> str:
    """Return a random comparison; ``previous`` is how the value of the row before is written."""
    column = draw.choice(table.columns)
    x, kind = name_of(column.name), column.kind
    if draw.random() < 0.06:
        kind = draw.choice(["number", "text", "time", "duration", "truth"])
    sign = draw.choice(SIGNS)
    if draw.random() < 0.12:
        return f"{x} is {draw.choice(['', 'not '])}null"
    if previous is not None and draw.random() < 0.2 and kind not in ("nothing", "other"):
        return f"{x} {sign if kind != 'truth' else '='} {previous.format(x)}"
    alike = [other.name for other in table.columns if other.kind == column.kind]
    if draw.random() < 0.15 and kind not in ("truth", "other"):
        return f"{x} {sign} {name_of(draw.choice(alike))}"
    match kind:
        case "number":
            if draw.random() < 0.2:
                options = ", ".join(draw.choice(NUMBERS) for _ in range(draw.choice([1, 3, 12])))
                return f"{x} in ({options})"
            if draw.random() < 0.3:
                how = draw.choice(
                    ["{0} + 1", "{0} * {0}", "{0} / 2", "{0} % 3", "-{0}", "{0} - 2", "abs({0})"]
                )
                return f"{how.format(x)} {sign} {draw.choice(NUMBERS)}"
            return f"{x} {sign} {draw.choice(NUMBERS)}"
        case "text":
            text = draw.choice(["'A'", "'B'", "'a'", "''", "'ä'", "'a''b'", "'NaN'", "'2024-03-31'"])
            other = [f"{x} {sign} {text}", f"{x} like 'A%'", f"{x} like '_'", f"{x} in ('A', 'B')"]
            return draw.choice(other)
        case "time":
            return f"{x} {sign} '{draw.choice(TIMES)}'"
        case "duration" | "clock":
            return f"{x} {sign} '{draw.choice(DURATIONS)}'"
        case "truth":
            return draw.choice([x, f"not {x}", f"{x} = true", f"{x} != false"])
        case _:
            return draw.choice([f"{x} {sign} 1", f"{x} = 'A'", f"{x} > '2024-01-01'", f"{x} is null"])


def measures(
    draw: Random, table: OddTable, name_of: Callable[[str], str], functions: list[str]
) -> dict[str, str]:
    """Return random measures by name."""
    made = {"rows": "count()"} if draw.random() < 0.5 else {}
    for i in range(draw.randint(0 if made else 1, 3)):
        column = draw.choice(table.columns)
        function = draw.choice(functions)
        made[f"m{i}"] = f"{function}({name_of(column.name)})"
    if draw.random() < 0.05:
        made["big"] = draw.choice(
            ["9223372036854775808", "9223372036854775807", "-9223372036854775808", "1e400"]
        )
    return made


_FUNCTIONS = ["first", "last", "min", "max", "sum", "avg", "count", "delta", "collect"]


def _keywords(draw: Random, table: OddTable) -> dict[str, Any]:
    if table.key is not None:
        return {"order_by": "n", "partition_by": [table.key]}
    made: dict[str, Any] = {}
    if draw.random() < 0.7:
        made["order_by"] = "n" if draw.random() < 0.7 else draw.choice(table.columns).name
    if draw.random() < 0.4:
        made["partition_by"] = [draw.choice(table.columns).name]
    return made


def _regex_call(draw: Random, table: OddTable) -> tuple[str, dict[str, Any]]:
    pattern = draw.choice(["p_", "p_", "p_ q_", "p_+ q_", "p_ q_?", ". p_", "(p_|q_)+ p_", ".{2}"])
    define = {name: condition(draw, table, quote, "prev({0})") for name in ("p_", "q_") if name in pattern}
    if draw.random() < 0.2 and "p_" in define:
        define["p_"] = f"{define['p_']} {draw.choice(['and', 'or'])} {condition(draw, table, quote, None)}"
    return pattern, {"define": define, **_keywords(draw, table)}


def _regex(draw: Random, table: OddTable) -> OddQuery:
    pattern, keywords = _regex_call(draw, table)
    keywords["measures"] = measures(draw, table, quote, _FUNCTIONS)
    whole = draw.random() < 0.3
    return OddQuery(
        f"match({pattern!r}, {keywords}){'.all' if whole else ''}",
        lambda frame: cep.match(frame, pattern, **keywords).to_frame(*(["all"] if whole else [])),
    )


def _tag(draw: Random, table: OddTable) -> OddQuery:
    pattern, keywords = _regex_call(draw, table)
    return OddQuery(f"tag({pattern!r}, {keywords})", lambda frame: cep.tag(frame, pattern, **keywords))


def _holding(draw: Random, table: OddTable) -> OddQuery:
    """Return a query for the rows on which one condition holds."""
    text = condition(draw, table, quote, None)
    measured = {"row": "first(n)"}
    return OddQuery(
        f"match('p_', define={text!r})",
        lambda frame: cep.match(frame, "p_", define={"p_": text}, measures=measured).to_frame(),
    )


def _sequence(draw: Random, table: OddTable) -> OddQuery:
    shape = draw.choice(
        ["SEQ(A a, B b)", "SEQ(A a, B b)", "SEQ(A a, B+ b, C c)", "SEQ(A a, !B n, C c)", "SEQ(_ a, _ b)"]
    )
    conditions = []
    for _ in range(draw.randint(0, 2)):
        if draw.random() < 0.5:
            alike = draw.choice(table.columns)
            x, sign = quote(alike.name), draw.choice(SIGNS)
            last = "b" if "_ b" in shape or "B b)" in shape else "c"
            conditions.append(f"a.{x} {sign} {last}.{x}")
        else:
            conditions.append(condition(draw, table, lambda name: f"a.{quote(name)}", None))
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    within = draw.choice(["", " WITHIN 5", " WITHIN 3 EVENTS", " WITHIN 1 h"])
    keywords = _keywords(draw, table)
    if "_ " not in shape or draw.random() < 0.3:
        keywords["event_type"] = "kind" if draw.random() < 0.8 else draw.choice(table.columns).name
    keywords["measures"] = measures(
        draw, table, lambda name: f"a.{quote(name)}", ["first", "last", "min", "max", "sum", "count"]
    )
    text = f"PATTERN {shape}{where}{within}"
    return OddQuery(
        f"match({text!r}, {keywords})", lambda frame: cep.match(frame, text, **keywords).to_frame()
    )


def _row_pattern(draw: Random, table: OddTable) -> OddQuery:
    order = "n" if draw.random() < 0.7 else draw.choice(table.columns).name
    direction = draw.choice(["", " DESC", " NULLS FIRST", " DESC NULLS LAST"])
    partition = f"PARTITION BY {sql_quote(draw.choice(table.columns).name)} " if draw.random() < 0.4 else ""
    if table.key is not None:
        order, direction, partition = "n", "", f"PARTITION BY {table.key} "
    measured = []
    for i in range(draw.randint(1, 3)):
        function = draw.choice(["FIRST", "LAST", "MIN", "MAX", "SUM", "AVG", "COUNT", "ARRAY_AGG"])
        measured.append(f"{function}({sql_quote(draw.choice(table.columns).name)}) AS m{i}")
    rows = draw.choice(["ONE ROW PER MATCH", "ONE ROW PER MATCH", "ALL ROWS PER MATCH"])
    pattern = draw.choice(["p_", "p_ q_", "p_+ q_", "any_ p_", "p_*? q_"])
    define = [
        f"{name} AS {condition(draw, table, sql_quote, 'PREV({0})')}"
        for name in ("p_", "q_")
        if name in pattern
    ]
    text = (
        f"MATCH_RECOGNIZE ({partition}ORDER BY {sql_quote(order)}{direction} MEASURES {', '.join(measured)} "
        f"{rows} PATTERN ({pattern}) DEFINE {', '.join(define)})"
    )
    return OddQuery(text, lambda frame: cep.match(frame, text).to_frame())


def _window(draw: Random, table: OddTable) -> OddQuery:
    aggregates = measures(
        draw, table, quote, ["sum", "count", "min", "max", "avg", "first", "last", "delta", "std", "distinct"]
    )
    keywords: dict[str, Any] = {"length": draw.choice([1, 2, 3])}
    order = "n" if draw.random() < 0.5 else draw.choice(table.columns).name
    if draw.random() < 0.4:
        keywords = {"time": draw.choice([2, 5, "1 h", "2 days"])}
    keywords["order_by"] = order
    if table.key is not None:
        keywords = {"time": draw.choice([2, 5]), "order_by": "n", "group_by": table.key}
    elif draw.random() < 0.3:
        keywords["group_by"] = draw.choice(table.columns).name
    if draw.random() < 0.3:
        keywords["where"] = condition(draw, table, quote, None)
    if draw.random() < 0.2:
        keywords["emit"] = "all"
    return OddQuery(
        f"window({aggregates}, {keywords})", lambda frame: cep.window(frame, aggregates, **keywords)
    )


def _join(draw: Random, table: OddTable) -> OddQuery:
    keywords: dict[str, Any] = {
        "left": cep.Window(length=draw.choice([1, 3])), "right": cep.Window(length=2), "order_by": "n",
        "on": draw.choice(table.columns).name, "how": draw.choice(["inner", "left", "outer"]),
    }  # fmt: skip
    if draw.random() < 0.3:
        x = draw.choice(table.columns).name
        keywords["where"] = f"left.{quote(x)} {draw.choice(SIGNS)} right.{quote(x)}"
    return OddQuery(f"join({keywords})", lambda frame: cep.join(frame, frame, **keywords))


# --- comparisons with a known answer -----------------------------------------------------------------------

COMPARE = {
    "=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt,
    ">=": operator.ge,
}  # fmt: skip


def draw_comparison(draw: Random, table: OddTable) -> tuple[OddColumn, str, str, list[int]] | None:
    """Return a column, a sign, a constant, and the rows on which the comparison holds; None without them."""
    columns = [column for column in table.columns if column.kind not in ("truth", "nothing", "other")]
    column, sign = draw.choice(columns), draw.choice(SIGNS)
    values = plain_rows(pa.table({"x": column.values}))[1]
    if column.kind == "number":
        constant = draw.choice(NUMBERS)
        wanted: Any = int(constant) if re.fullmatch(r"-?\d+", constant) else float(constant)
        if pa.types.is_decimal(column.type):
            wanted = Decimal(constant)
        elif not pa.types.is_integer(column.type):
            values = [(None if value is None else float(value),) for (value,) in values]
    elif column.kind == "text":
        text = draw.choice(["A", "B", "a", "", "ä", "a'b", "NaN", "None"])
        constant, wanted = "'" + text.replace("'", "''") + "'", text
    elif column.kind == "time":
        text, zone = draw.choice(TIMES), getattr(column.type, "tz", None)
        moment = pd.Timestamp(text)
        if moment.tzinfo is not None and zone is None:
            return None
        if moment.tzinfo is None and zone is not None:
            moment = moment.tz_localize(zone, ambiguous="NaT", nonexistent="NaT")
        if moment is pd.NaT:  # the clocks change
            return None
        constant, wanted = f"'{text}'", plain_value(moment)
    else:
        text = draw.choice(DURATIONS)
        number, unit = text.split()
        factor = {"s": 1, "min": 60, "days": 86400}.get(unit)
        wanted = int(float(number) * (1 if factor is None else factor * 10**9))
        constant = f"'{text}'"
        if wanted % NANOSECONDS[column.type.unit]:
            return None  # no whole number of ticks
    test = COMPARE[sign]
    rows = [i for i, (value,) in enumerate(values) if value is not None and test(value, wanted)]
    return column, sign, constant, rows


def rows_that_hold(frame: Any, name: str, sign: str, constant: str) -> dict[str, list[int]]:
    """Return the numbers of the rows on which a comparison holds, by each language. The column is alone."""
    condition = f"{quote(name)} {sign} {constant}"
    row_pattern = (
        f"MATCH_RECOGNIZE (ORDER BY row_ MEASURES row_ AS r PATTERN (p_) "
        f"DEFINE p_ AS {sql_quote(name)} {sign} {constant})"
    )
    sequence = f"PATTERN SEQ(_ a) WHERE a.{condition}"
    found = {
        "regex": cep.match(frame, "p_", define={"p_": condition}, measures={"r": "first(row_)"}).to_frame(),
        "sequence": cep.match(frame, sequence, measures={"r": "a.row_"}, order_by="row_").to_frame(),
        "row pattern": cep.match(frame, row_pattern).to_frame(),
        "window": cep.window(frame, {"r": "last(row_)"}, length=1, where=condition, order_by="row_"),
    }
    return {language: [row[-1] for row in plain_rows(made)[1]] for language, made in found.items()}
