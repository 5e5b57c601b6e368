"""Odd tables from a seed, and each of them as many kinds of frames: the values are the same in all.

A table has columns of every type, with missing values, NaN, infinities, the extremes of integers and times,
times around the changes of the clocks, and names that a query must quote. Its values are written once, as
Arrow arrays. A pandas frame holds them in numpy, nullable or Arrow dtypes, categories or objects.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, replace
from decimal import Decimal
from random import Random
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

INTEGERS = tuple(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))
UNITS = ("s", "ms", "us", "ns")
NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kathmandu", "Australia/Lord_Howe")
TEXTS = ("A", "B", "C", "a", "", " ", "ä", "\U0001f600", "a'b", "\x00", "NaN", "None", "1", "2024-03-31")
PLAIN_NAMES = ("price", "size", "x", "y", "Price", "größe", "_", "x1")
ODD_NAMES = (
    "the price",
    "select",
    "a.b",
    "and",
    "",
    "  ",
    "2x",
    "null",
    "a-b",
    "first",
    "SEQ",
    "x\ny",
    "日本",
    "$v",
)
# Moments around a change of the clocks in Berlin, New York and on Lord Howe Island, in seconds of 1970.
CLOCK_CHANGES = (1711846800, 1729990800, 1710054000, 1730613600, 1712415600, 1728142200)
_LOWEST, _GREATEST = -(2**63) + 1, 2**63 - 1  # -2^63 means missing


@dataclass(frozen=True)
class OddColumn:
    """A column: its name, its kind for the writer of queries, and its values as an Arrow array."""

    name: str
    kind: str  # number, text, time, duration, clock, truth, nothing or other
    values: pa.Array

    @property
    def type(self) -> pa.DataType:
        """The Arrow type."""
        return self.values.type


@dataclass(frozen=True)
class OddTable:
    """Columns of equal length. ``n`` numbers the rows, ``kind`` has event types, and the others are odd."""

    columns: tuple[OddColumn, ...]
    n_rows: int
    index: str = "range"  # of the pandas forms
    key: str | None = None  # the only partition column that queries may name, with the order column ``n``

    def named(self, *kinds: str) -> list[str]:
        """Return the names of the columns of some kinds."""
        return [column.name for column in self.columns if column.kind in kinds]


# --- the values --------------------------------------------------------------------------------------------


def draw_table(draw: Random, *, n_rows: int | None = None, is_for_spark: bool = False) -> OddTable:
    """Return a random table of up to 12 rows and 2 to 7 columns."""
    n = draw.choice([0, 1, 1, 2, 3, 5, 8, 12]) if n_rows is None else n_rows
    names = list(draw.sample(PLAIN_NAMES, 5))
    if not is_for_spark:
        names = [draw.choice(ODD_NAMES) if draw.random() < 0.2 else name for name in names]
    names = list(dict.fromkeys(names))[: draw.randint(1, 5)]
    columns = [
        OddColumn("n", "number", _row_numbers(draw, n)),
        OddColumn("kind", "text", _event_types(draw, n)),
    ]
    columns += [_draw_column(draw, name, n, is_for_spark) for name in names]
    if not is_for_spark and draw.random() < 0.06 and len(columns) > 3:  # two columns of one name
        columns[-1] = replace(columns[-1], name=columns[-2].name)
    index = draw.choice(["range", "range", "reversed", "equal", "two levels", "texts"])
    return OddTable(tuple(columns), n, index)


def draw_stacked(draw: Random, n_tables: int) -> OddTable:
    """Return small tables with the columns of one, as the partitions ``case`` of a single table for Spark."""
    case = [i for i in range(n_tables) for _ in range(draw.choice([1, 1, 2, 3, 5, 8, 12]))]
    draw.shuffle(case)
    n = len(case)
    numbers = pa.array(draw.sample(range(n), n), pa.int64())
    table = draw_table(draw, n_rows=n, is_for_spark=True)
    columns = (
        OddColumn("case", "number", pa.array(case, pa.int64())), OddColumn("n", "number", numbers),
        *table.columns[1:],
    )  # fmt: skip
    return OddTable(columns, n, "range", "case")


def _row_numbers(draw: Random, n: int) -> pa.Array:
    numbers = list(range(n))
    if draw.random() < 0.3:
        draw.shuffle(numbers)
    return pa.array(numbers, pa.int64())


def _event_types(draw: Random, n: int) -> pa.Array:
    missing = draw.choice([0.0, 0.0, 0.2, 1.0 if draw.random() < 0.2 else 0.3])
    values = [None if draw.random() < missing else draw.choice("ABC") for _ in range(n)]
    return pa.array(values, pa.string())


def _draw_column(draw: Random, name: str, n: int, is_for_spark: bool) -> OddColumn:
    makers = [_integers, _integers, _floats, _times, _times, _texts, _truths, _durations, _decimals, _days]
    if not is_for_spark:
        makers += [_clocks, _nothing, _others]
    kind, values, of = draw.choice(makers)(draw, n, is_for_spark)
    missing = draw.choice([0.0, 0.0, 0.3, 1.0 if draw.random() < 0.3 else 0.1])
    values = [None if draw.random() < missing else value for value in values]
    return OddColumn(name, kind, _array(values, of))


def _array(values: list, of: pa.DataType) -> pa.Array:
    """Return an Arrow array; times of all types are given as ticks."""
    if pa.types.is_float16(of):
        return pa.array([None if value is None else np.float16(value) for value in values], of)
    if pa.types.is_temporal(of):
        wide = pa.int32() if of.bit_width == 32 else pa.int64()
        return pa.array(values, wide).view(of)
    return pa.array(values, of)


def _integers(draw: Random, n: int, is_for_spark: bool) -> tuple:
    of = draw.choice([name for name in INTEGERS if not (is_for_spark and name.startswith("u"))])
    info = np.iinfo(of)
    least, greatest = int(info.min), int(info.max)
    edges = [greatest, greatest - 1, max(least, _LOWEST), max(least + 1, _LOWEST)]
    if of == "uint64":  # beyond 2^63 - 1 there is an error, now and then
        edges = [_GREATEST, _GREATEST - 1, 2**53 + 1, greatest if draw.random() < 0.1 else 7]
    if of == "int64" and draw.random() < 0.1:
        edges.append(-(2**63))
    big = [2**53, 2**53 + 1, 2**53 - 1] if greatest > 2**53 else []
    few = [value for value in (0, 1, 2, 3, 5, 100) if value <= greatest]
    pool = draw.choice([few, [*few, *edges], [*few, *big], few + edges + big])
    return "number", [draw.choice(pool) for _ in range(n)], pa.type_for_alias(of)


def _floats(draw: Random, n: int, is_for_spark: bool) -> tuple:
    of = draw.choice(["float", "double", "double"] + ["halffloat"] * (not is_for_spark))
    few = [0.0, 1.0, 2.5, -1.0, 3.0]
    odd = [float("nan"), float("inf"), float("-inf"), -0.0]
    extreme = {"double": [1e308, 5e-324, 2.0**53 + 2, 0.1], "float": [3e38, 1e-45, 16777217.0, 0.1],
               "halffloat": [65504.0, 6e-8, 0.1]}[of]  # fmt: skip
    pool = draw.choice([few, few + odd, few + extreme, few + odd + extreme])
    return "number", [draw.choice(pool) for _ in range(n)], pa.type_for_alias(of)


def _decimals(draw: Random, n: int, is_for_spark: bool) -> tuple:
    of = draw.choice([pa.decimal128(9, 2), pa.decimal128(38, 10), pa.decimal128(18, 0)])
    pool = [Decimal(0), Decimal(1), Decimal(2), Decimal(-5), Decimal("100000")]
    pool += [Decimal("0.25"), Decimal("1.10")] if of.scale else [Decimal(2**53 + 1)]
    return "number", [draw.choice(pool) for _ in range(n)], of


def _texts(draw: Random, n: int, is_for_spark: bool) -> tuple:
    of = draw.choice([pa.string(), pa.string(), pa.large_string(), pa.string_view()])
    pool = draw.choice([TEXTS[:3], TEXTS, TEXTS[3:9]])
    if is_for_spark:
        of, pool = pa.string(), [text for text in pool if text != "\x00"]
    return "text", [draw.choice(pool) for _ in range(n)], of


def _truths(draw: Random, n: int, is_for_spark: bool) -> tuple:
    return "truth", [draw.random() < 0.5 for _ in range(n)], pa.bool_()


def _times(draw: Random, n: int, is_for_spark: bool) -> tuple:
    unit = "us" if is_for_spark else draw.choice(UNITS)
    zone = draw.choice(ZONES) if draw.random() < 0.5 else None
    if is_for_spark and zone is not None:
        zone = "UTC"
    factor = 10**9 // NANOSECONDS[unit]
    begin = draw.choice([*CLOCK_CHANGES, 1704067200, 0])
    few = [(begin + step) * factor for step in (-7200, -3600, -1, 0, 1, 1800, 3600, 7200)]
    edges = [_GREATEST, _GREATEST - 1, _LOWEST, _LOWEST + 1, 0, -1, 1]
    if is_for_spark:  # from year 1 to year 9999
        edges = [-62135596800 * factor, 253402300799 * factor, 0, -1, 1]
    pool = draw.choice([few, few, [*few, few[0] + 1], few + edges])
    return "time", [draw.choice(pool) for _ in range(n)], pa.timestamp(unit, zone)


def _days(draw: Random, n: int, is_for_spark: bool) -> tuple:
    days = [draw.choice([0, 1, 19813, 19814, 20023, -1, -719162, 2932896]) for _ in range(n)]
    if is_for_spark or draw.random() < 0.5:
        return "time", days, pa.date32()
    return "time", [day * 86_400_000 for day in days], pa.date64()


def _durations(draw: Random, n: int, is_for_spark: bool) -> tuple:
    unit = "us" if is_for_spark else draw.choice(UNITS)
    factor = 10**9 // NANOSECONDS[unit]
    few = [0, factor, 60 * factor, -factor, 90 * 60 * factor, 1]
    edges = [] if is_for_spark else [_GREATEST, _LOWEST]
    pool = draw.choice([few, few + edges])
    return "duration", [draw.choice(pool) for _ in range(n)], pa.duration(unit)


def _clocks(draw: Random, n: int, is_for_spark: bool) -> tuple:
    unit = draw.choice(UNITS)
    of = pa.time32(unit) if unit in ("s", "ms") else pa.time64(unit)
    factor = 10**9 // NANOSECONDS[unit]
    return "clock", [draw.choice([0, 1, 34200 * factor, 86400 * factor - 1]) for _ in range(n)], of


def _nothing(draw: Random, n: int, is_for_spark: bool) -> tuple:
    return "nothing", [None] * n, pa.null()


def _others(draw: Random, n: int, is_for_spark: bool) -> tuple:
    of, pool = draw.choice(
        [(pa.binary(), [b"", b"a", b"\x00"]), (pa.struct([("a", pa.int64())]), [{"a": 1}, {"a": 2}]),
         (pa.list_(pa.int64()), [[], [1], [1, 2]])]
    )  # fmt: skip
    return "other", [draw.choice(pool) for _ in range(n)], of


# --- the forms ---------------------------------------------------------------------------------------------


def forms_of(table: OddTable, draw: Random) -> dict[str, Any]:
    """Return the table as frames of every kind, by the name of the kind; not if a library refuses it."""
    made: dict[str, Any] = {"arrow": arrow_table(table), "arrow in parts": _in_parts(table, draw)}
    made["arrow without types"] = _without_types(made["arrow"])
    for name, how in (("pandas", "usual"), ("pandas mixed", "mixed"), ("pandas objects", "objects")):
        frame = pandas_frame(table, draw, how)
        if frame is not None:
            made[name] = frame
    try:
        frame = pl.from_arrow(made["arrow"], rechunk=False)
        if _keeps_values(table, frame.to_arrow()):
            made["polars"] = frame
    except Exception:  # polars has no such type, no such time zone, or refuses equal names
        pass
    return made


def _keeps_values(table: OddTable, other: pa.Table) -> bool:
    """Return whether another library has the names of a table, and its times in their units."""
    if other.column_names != [column.name for column in table.columns]:
        return False
    for column, theirs in zip(table.columns, other.columns, strict=True):
        of = column.type
        has_unit = pa.types.is_timestamp(of) or pa.types.is_duration(of) or pa.types.is_time(of)
        if has_unit and column.type.unit != theirs.type.unit:
            return False
    return True


def arrow_table(table: OddTable) -> pa.Table:
    """Return the table in Arrow."""
    return pa.Table.from_arrays(
        [column.values for column in table.columns], names=[column.name for column in table.columns]
    )


def _in_parts(table: OddTable, draw: Random) -> pa.Table:
    """Return the table as slices of longer arrays, in several chunks, and with dictionaries."""
    arrays = []
    for column in table.columns:
        array = column.values
        if column.kind in ("text", "number", "time") and not pa.types.is_float16(array.type):
            array = _encode(array, draw)
        padded = pa.concat_arrays([array[:1], array, array[:1]])
        array = padded.slice(min(1, len(array)), len(array))
        cuts = sorted(draw.randint(0, len(array)) for _ in range(draw.randint(0, 3)))
        parts = [array[low:high] for low, high in zip([0, *cuts], [*cuts, len(array)], strict=True)]
        arrays.append(pa.chunked_array(parts, array.type))
    return pa.Table.from_arrays(arrays, names=[column.name for column in table.columns])


def _without_types(table: pa.Table) -> pa.Table:
    """Return the table; a column without values has Arrow's type null."""
    columns = [
        pa.nulls(table.num_rows) if column.null_count == len(column) else column for column in table.columns
    ]
    return pa.Table.from_arrays(columns, names=table.column_names)


def loses_types(table: OddTable) -> bool:
    """Return whether a column has no value, so that a form without types knows less about the table."""
    return any(not pa.types.is_null(c.type) and not _has_value(c.values) for c in table.columns)


def _has_value(array: pa.Array) -> bool:
    """Return whether an array has a value; among objects, NaN is missing."""
    if "float" in str(array.type) or "double" in str(array.type):
        return any(value is not None and value == value for value in array.to_pylist())
    return array.null_count < len(array)


def _encode(array: pa.Array, draw: Random) -> pa.Array:
    if draw.random() < 0.6:
        return array
    try:
        encoded = array.dictionary_encode()
        width = draw.choice([pa.int8(), pa.uint8(), pa.int16(), pa.int32(), pa.int64()])
        return pa.DictionaryArray.from_arrays(encoded.indices.cast(width), encoded.dictionary)
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
        return array


def pandas_frame(table: OddTable, draw: Random, how: str) -> pd.DataFrame | None:
    """Return the table in pandas, None if pandas has no way to hold one of its columns like this.

    ``how`` is "usual" for numpy's dtypes, "objects", or "mixed" for any dtype of each column.
    """
    series = []
    for column in table.columns:
        ways = {"usual": ["numpy", "nullable", "objects", "arrow"], "objects": ["objects", "arrow"]}.get(how)
        ways = ways or draw.sample(["nullable", "arrow", "category", "objects", "numpy"], 5)
        made = next((made for way in ways if (made := _series(column, way, draw)) is not None), None)
        if made is None:
            return None
        series.append(made)
    frame = pd.concat(series, axis=1, keys=range(len(series))) if series else pd.DataFrame()
    frame.columns = pd.Index([column.name for column in table.columns], dtype=object)
    frame.index = _index(table, draw)
    return frame


def _index(table: OddTable, draw: Random) -> pd.Index:
    n = table.n_rows
    return {
        "range": lambda: pd.RangeIndex(n),
        "reversed": lambda: pd.Index(range(n)[::-1]),
        "equal": lambda: pd.Index([7] * n),
        "two levels": lambda: pd.MultiIndex.from_arrays(
            [[i % 2 for i in range(n)], [0] * n], names=[None, None]
        ),
        "texts": lambda: pd.Index([f"row {i}" for i in range(n)], dtype=object),
    }[table.index]()


def _series(column: OddColumn, way: str, draw: Random) -> pd.Series | None:
    """Return a column as a Series, None where this way cannot hold it."""
    array, of = column.values, column.type
    if way == "arrow":
        return pd.Series(pd.arrays.ArrowExtensionArray(pa.chunked_array([array], of)))
    if way == "objects":
        objects = _objects(array, draw)
        return None if objects is None else pd.Series(objects, dtype=object)
    if way == "category":
        return _categories(array, column, draw)
    if way == "nullable":
        if pa.types.is_integer(of):
            return pd.Series(array.to_pylist(), dtype=str(of).replace("int", "Int").replace("uI", "UI"))
        if pa.types.is_boolean(of):
            return pd.Series(array.to_pylist(), dtype="boolean")
        if column.kind == "text":
            return pd.Series(array.to_pylist(), dtype=draw.choice(["string[python]", "string[pyarrow]"]))
        if pa.types.is_float32(of) or pa.types.is_float64(of):
            dtype = "Float32" if pa.types.is_float32(of) else "Float64"
            return pd.Series(array.to_pylist(), dtype=dtype)
        return None
    if pa.types.is_floating(of):
        values = [np.nan if value is None else value for value in array.to_pylist()]
        return _maybe_read_only(np.array(values, dtype=of.to_pandas_dtype()), draw)
    if pa.types.is_timestamp(of) or pa.types.is_duration(of):
        ticks = array.view(pa.int64()).fill_null(-(2**63)).to_numpy(zero_copy_only=False)
        letter = "M8" if pa.types.is_timestamp(of) else "m8"
        series = _maybe_read_only(ticks.view(f"{letter}[{of.unit}]"), draw)
        zone = getattr(of, "tz", None)
        return series if zone is None else series.dt.tz_localize("UTC").dt.tz_convert(zone)
    if column.kind == "text":
        return pd.Series(array.to_pylist(), dtype="str")
    if array.null_count or not (pa.types.is_integer(of) or pa.types.is_boolean(of)):
        return None
    return _maybe_read_only(np.array(array.to_pylist(), dtype=of.to_pandas_dtype()), draw)


def _maybe_read_only(values: np.ndarray, draw: Random) -> pd.Series:
    """Return a Series whose array may be read-only, or part of a wider array."""
    way = draw.choice(["plain", "read-only", "strided"])
    if way == "strided":
        wide = np.zeros((len(values), 2), values.dtype)
        wide[:, 0] = values
        return pd.Series(wide[:, 0], copy=False)
    values = values.copy()
    values.flags.writeable = way == "plain"
    return pd.Series(values, copy=False)


def _objects(array: pa.Array, draw: Random) -> np.ndarray | None:
    of = array.type
    plain = _moments(array, draw) if pa.types.is_temporal(of) else array.to_pylist()
    if plain is None:
        return None
    nulls: list[Any] = draw.choice([[None], [None, pd.NA], [None, float("nan")]])
    made = np.empty(len(plain), dtype=object)
    made[:] = [draw.choice(nulls) if value is None else value for value in plain]
    return made


def _moments(array: pa.Array, draw: Random) -> list | None:
    """Return times as Python's or pandas' objects; None if they would have another unit, or have none."""
    of = array.type
    try:
        if pa.types.is_date32(of) or (pa.types.is_time64(of) and of.unit == "us"):
            return array.to_pylist()
        if (pa.types.is_timestamp(of) or pa.types.is_duration(of)) and of.unit == "us":
            return array.to_pylist()
        if pa.types.is_timestamp(of) and of.unit == "ns":
            ticks = array.view(pa.int64()).to_pylist()
            return [None if tick is None else pd.Timestamp(tick, unit="ns", tz=of.tz) for tick in ticks]
    except (ValueError, OverflowError):
        pass
    return None


def _categories(array: pa.Array, column: OddColumn, draw: Random) -> pd.Series | None:
    if column.kind == "text" or array.type in (pa.int64(), pa.float64()):
        values = array.to_pylist()
        known = list(dict.fromkeys(value for value in values if value is not None and value == value))
        unused = ["unused"] if column.kind == "text" else [array.type.to_pandas_dtype()(4)]
        known += [value for value in unused if value not in known]
        draw.shuffle(known)
        categories = pd.Index(known, dtype=object if column.kind == "text" else array.type.to_pandas_dtype())
        return pd.Series(pd.Categorical(values, categories=categories))
    return None


# --- results as plain values -------------------------------------------------------------------------------


def plain_rows(frame: Any) -> tuple[list[str], list[tuple]]:
    """Return the names of the columns and the rows of a frame; times and durations are nanoseconds."""
    if isinstance(frame, pl.DataFrame):
        frame = frame.to_arrow()
    elif hasattr(frame, "toArrow"):
        frame = frame.toArrow()
    if isinstance(frame, pa.Table):
        names, columns = frame.column_names, [_plain_arrow(column) for column in frame.columns]
    else:
        names = list(frame.columns)
        columns = [_plain_series(frame.iloc[:, i]) for i in range(frame.shape[1])]
    return names, list(zip(*columns, strict=True))


def _plain_series(series: pd.Series) -> list:
    dtype = series.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        of = _plain_series(pd.Series(dtype.categories))
        return [None if code < 0 else of[code] for code in series.cat.codes]
    if isinstance(dtype, pd.ArrowDtype):
        return _plain_arrow(pa.chunked_array([pa.array(series)]))
    if dtype.kind in "mM":
        unit = dtype.unit if isinstance(dtype, pd.DatetimeTZDtype) else np.datetime_data(dtype)[0]
        naive = (
            series.dt.tz_convert("UTC").dt.tz_localize(None) if dtype.kind == "M" and series.dt.tz else series
        )
        ticks = naive.to_numpy().view(np.int64).tolist()
        return [None if tick == -(2**63) else tick * NANOSECONDS[unit] for tick in ticks]
    return [plain_value(value) for value in series.array]


def _plain_arrow(array: pa.ChunkedArray) -> list:
    of = array.type
    if pa.types.is_dictionary(of):
        if pa.types.is_string_view(of.value_type):
            return array.to_pylist()
        return _plain_arrow(
            pa.chunked_array([part.dictionary_decode() for part in array.chunks], of.value_type)
        )
    if pa.types.is_temporal(of) and not pa.types.is_interval(of):
        wide = pa.int32() if of.bit_width == 32 else pa.int64()
        factor = 86_400 * 10**9 if pa.types.is_date32(of) else 10**6 if pa.types.is_date64(of) else None
        factor = factor or NANOSECONDS[of.unit]
        ticks = array.combine_chunks().view(wide).to_pylist()
        return [None if tick is None else tick * factor for tick in ticks]
    if pa.types.is_list(of) or pa.types.is_large_list(of):
        made = []
        for part in array.chunks:
            items, ends = _plain_arrow(pa.chunked_array([part.values])), part.offsets.to_pylist()
            valid = part.is_valid().to_pylist()
            made += [items[ends[i] : ends[i + 1]] if valid[i] else None for i in range(len(part))]
        return made
    return [plain_value(value) for value in array.to_pylist()]


def plain_value(value: Any) -> Any:
    """Return a value as plain Python, None for every kind of missing value."""
    if isinstance(value, np.ndarray | list | tuple):
        return [plain_value(item) for item in value]
    if value is None or value is pd.NA or value is pd.NaT:
        return None
    if isinstance(value, dict):
        return {name: plain_value(item) for name, item in value.items()}
    if isinstance(value, np.datetime64 | np.timedelta64):
        if np.isnat(value):
            return None
        return int(value.astype(np.int64)) * NANOSECONDS[np.datetime_data(value)[0]]
    if isinstance(value, pd.Timestamp | pd.Timedelta):
        return int(value.asm8.astype(np.int64)) * NANOSECONDS[value.unit]
    if isinstance(value, dt.datetime):
        value = value.astimezone(dt.UTC).replace(tzinfo=None) if value.tzinfo else value
        return _nanoseconds(value - dt.datetime(1970, 1, 1))
    if isinstance(value, dt.date):
        return (value - dt.date(1970, 1, 1)).days * 86_400 * 10**9
    if isinstance(value, dt.timedelta):
        return _nanoseconds(value)
    if isinstance(value, dt.time):
        return _nanoseconds(dt.datetime.combine(dt.date(1970, 1, 1), value) - dt.datetime(1970, 1, 1))
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and value != value:
        return None
    return value


def _nanoseconds(of: dt.timedelta) -> int:
    return of // dt.timedelta(microseconds=1) * 1000
