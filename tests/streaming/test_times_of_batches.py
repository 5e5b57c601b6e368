"""Times of a stream as JSON has them: ISO texts are read, and integers of another unit are one error."""

from __future__ import annotations

import pandas as pd
import pyarrow as pa
import pytest

import cepkit as cep
from cepkit.errors import CepError

PAIR = "PATTERN SEQ(fail a, ok b) WITHIN 5 min"
ZONED, PLAIN = "timestamp[us, tz=UTC]", "timestamp[us]"
TEN = pd.Timestamp("2026-01-01 10:00")
UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
AS_FRAME = {
    "rows": lambda rows: rows,
    "pandas": pd.DataFrame,
    "arrow": pa.Table.from_pylist,
    "categories": lambda rows: pd.DataFrame(rows).astype({"ts": "category"}),
}


def opened(ts: str):
    return cep.stream(PAIR, {"ts": ts, "k": "string"}, event_type="k", order_by="ts")


def pushed(stream, *times, kind: str = "rows"):
    rows = [{"ts": time, "k": name} for time, name in zip(times, ("fail", "ok"), strict=False)]
    found = stream.push(AS_FRAME[kind](rows))
    rows = found.to_dict("records") if kind in ("pandas", "categories") else found
    return rows.to_pylist() if kind == "arrow" else rows


@pytest.mark.parametrize("kind", AS_FRAME)
@pytest.mark.parametrize(
    ("ts", "texts"),
    [
        (ZONED, ["2026-01-01T10:00:00Z", "2026-01-01T10:00:01.250000Z"]),
        (ZONED, ["2026-01-01T11:00:00+01:00", "2026-01-01 04:30:01.25-0530"]),
        (ZONED, ["2026-01-01T10:00:00", "2026-01-01 10:00:01.25"]),  # in the zone of the column
        ("timestamp[ms, tz=Europe/Berlin]", ["2026-01-01T11:00", "2026-01-01T11:00:01.25"]),
        (PLAIN, ["2026-01-01T10:00:00", "2026-01-01 10:00:01.25"]),
        ("timestamp[ms]", ["2026-01-01T10:00:00.000000000", "2026-01-01T10:00:01.250000"]),
        ("timestamp[ns]", ["2026-01-01", "2026-01-01 00:00:01.250000000"]),
    ],
)
def test_texts_of_iso_8601_are_times(kind, ts, texts):
    [row] = pushed(opened(ts), *texts, kind=kind)
    first, last = (pd.Timestamp(row[name]) for name in ("a_ts", "b_ts"))
    midnight_or_ten = TEN.normalize() if texts[0] == "2026-01-01" else TEN
    assert first.tz_convert("UTC").tz_localize(None) == midnight_or_ten if first.tzinfo else midnight_or_ten
    assert last - first == pd.Timedelta("1.25 s")


@pytest.mark.parametrize("kind", AS_FRAME)
@pytest.mark.parametrize(
    ("ts", "text", "problem"),
    [
        (ZONED, "yesterday", "as '2026-01-31T10:00:00Z': Failed to parse string: 'yesterday'"),
        (PLAIN, "2026-01-01T10:00:00Z", "as '2026-01-31T10:00:00': .*expected no zone offset"),
        ("timestamp[s]", "2026-01-01T10:00:00.5", "as '2026-01-31T10:00:00': Failed to parse string"),
    ],
)
def test_other_texts_are_one_error(kind, ts, text, problem):
    stream = opened(ts)
    with pytest.raises(
        CepError, match=f"column 'ts' must be .* not all of its texts are such times, {problem}"
    ):
        pushed(stream, text, kind=kind)
    assert stream.events == 0


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("meant", UNITS)
@pytest.mark.parametrize("is_first", [True, False])
def test_integers_of_another_unit_are_an_error(unit, meant, is_first):
    """In microseconds, milliseconds since 1970 are a day of 1970, and an hour lasts 3.6 s."""
    stream, ticks = opened(f"timestamp[{unit}]"), int(TEN.timestamp()) * UNITS[meant]
    if not is_first:
        pushed(stream, int(TEN.timestamp()) * UNITS[unit] - UNITS[unit])
    if unit == meant:
        assert len(pushed(stream, ticks, ticks + UNITS[unit])) == 1 + (not is_first)
        return
    name = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}[meant]
    problem = rf"in {name} it is 2026-01-01 10:00:00. Declare the column as 'timestamp\[{meant}\]'"
    with pytest.raises(CepError, match=problem):
        pushed(stream, ticks, ticks + 3600 * UNITS[meant])
    assert stream.events == (not is_first)


def test_a_stream_may_begin_in_1970():
    """Small numbers and numbers without a unit are times; so are those that follow them."""
    stream = opened(PLAIN)
    assert len(pushed(stream, 0, 1)) == 1
    for second in range(900, 2400, 300):  # 1,200 s in microseconds are also seconds of 2008
        assert len(pushed(stream, second * 10**6, second * 10**6 + 1)) >= 1
    assert len(pushed(opened(PLAIN), 0, 2 * 10**8)) == 1
    clock = cep.stream("PATTERN SEQ(fail a, ok b) WITHIN 300000", {"ts": "int64", "k": "string"},
                       event_type="k", order_by="ts")  # fmt: skip
    assert len(pushed(clock, 1767261600000, 1767261600000 + 1000)) == 1
