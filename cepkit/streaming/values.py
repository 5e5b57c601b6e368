"""Values of batches: fitted to the types of a schema, and codes of texts that do not change."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Iterable, Sequence
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from cepkit.errors import CepError
from cepkit.events import NULL_CODE, NULL_INTEGER, NUMBERS, TEXT, TIME
from cepkit.frames.arrow import INTEGERS, NOT_FOR_ARROW, type_of_arrow, without_view
from cepkit.frames.pandas import arrow_of_objects

# Codes of texts that do not change while a stream brings new ones.

_FEWEST_NEW = 1 << 14  # texts before the first look for texts that nothing needs


class TextCodes:
    """Codes of texts in the order of their first occurrence; a missing text is -1."""

    # Codes of forgotten texts are used again. ``ranked`` are all texts of a column in their own order. Codes
    # are then ranks, and no text is forgotten.

    def __init__(self, ranked: Sequence[str] = ()):
        self._is_ranked = len(ranked) > 0
        self._n_new, self._n_new_until_due = 0, _FEWEST_NEW
        self._restore([*ranked], [])

    def _restore(self, texts: list[str], free: list[int]) -> None:
        """Set the texts by code, and the codes without a text."""
        self._room = np.array([*texts, None], dtype=object)
        self._n_codes, self._free = len(texts), free
        has_none = set(free)
        self.code_of_text = {text: code for code, text in enumerate(texts) if code not in has_none}
        self._changed = [*range(len(texts))]

    def __len__(self) -> int:
        """Return the number of codes; those of forgotten texts are among them."""
        return self._n_codes

    @property
    def texts(self) -> np.ndarray:
        """The texts by code, as objects; a view that later texts do not change."""
        # A code without a text has the text that it had before.
        return self._room[: self._n_codes]

    def encode(self, codes: np.ndarray, categories: np.ndarray) -> np.ndarray:
        """Translate codes of ``categories`` into codes of this object, int32. O(values + categories)."""
        translated = np.full(len(categories) + 1, NULL_CODE, np.int32)  # -1 reads the last one
        is_copied = False
        for i, text in enumerate(categories):
            code = self.code_of_text.get(text)
            if code is None:
                if self._free and not is_copied:
                    self._room, is_copied = self._room.copy(), True
                code = self._add(text)
            translated[i] = code
        return translated[codes]

    def _add(self, text: str) -> int:
        if self._free:
            code = self._free.pop()
        else:
            code, self._n_codes = self._n_codes, self._n_codes + 1
        self.code_of_text[text] = code
        if code >= len(self._room):
            room = np.empty(2 * len(self._room) + 8, dtype=object)
            room[: len(self._room)] = self._room
            self._room = room
        self._room[code] = text
        self._changed.append(code)
        self._n_new += 1
        return code

    def take_changed(self) -> np.ndarray:
        """Return the codes with other texts than at the last call, int64."""
        changed, self._changed = self._changed, []
        return np.array(changed, np.int64)

    @property
    def has_changed(self) -> bool:
        """Whether a code has another text than at the last `take_changed`."""
        return bool(self._changed)

    # --- forgetting

    @property
    def is_due(self) -> bool:
        """Whether a look for texts that nothing needs pays, after many new ones."""
        return not self._is_ranked and self._n_new >= self._n_new_until_due

    def forget(self, is_needed: np.ndarray, looked_at: int = 0) -> None:
        """Forget the texts that nothing needs."""
        if self._is_ranked:
            return
        needed = np.zeros(self._n_codes, bool)
        needed[: len(is_needed)] = is_needed[: self._n_codes]
        for code in np.flatnonzero(~needed).tolist():
            text = self._room[code]
            if self.code_of_text.get(text) == code:
                del self.code_of_text[text]
                self._free.append(code)
        self._n_new = 0
        self._n_new_until_due = max(_FEWEST_NEW, len(self.code_of_text), looked_at // 8)

    # --- saving

    def pack(self) -> pa.Table:
        """Return the texts by code, and which codes are free."""
        is_free = np.zeros(self._n_codes, bool)
        is_free[self._free] = True
        return pa.table({"text": pa.array(self.texts.tolist(), pa.large_string()), "is_free": is_free})

    def unpack(self, packed: pa.Table) -> None:
        is_free = packed.column("is_free").to_pylist() if "is_free" in packed.schema.names else []
        free = [code for code, is_one in enumerate(is_free) if is_one]
        self._restore(packed.column("text").to_pylist(), free)


# Values of a batch in the types of a schema: each value fits without loss, or the batch is refused.

_NULL = type(None)
_TEXTS = pa.string(), pa.large_string()
_FLOATS = frozenset((float, int, _NULL))
_FLOAT32 = pa.float32().id
_EXACT: dict[int, frozenset[type]] = {
    **{of.id: frozenset((int, _NULL)) for of in INTEGERS},
    **{of.id: frozenset((str, _NULL)) for of in _TEXTS},
    pa.float64().id: _FLOATS,
    pa.bool_().id: frozenset((bool, _NULL)),
    pa.binary().id: frozenset((bytes, _NULL)),
    pa.date32().id: frozenset((dt.date, _NULL)),
}
"""Types of Python, by id of the Arrow type, whose values Arrow takes without loss, or refuses."""

_TICKS = frozenset((int, _NULL))
_TIMES = frozenset((dt.datetime, pd.Timestamp, _NULL, type(pd.NaT)))
_DURATIONS = frozenset((dt.timedelta, pd.Timedelta, _NULL, type(pd.NaT)))
_PER_UNIT = {"s": (1_000_000, 0), "ms": (1_000, 0), "us": (1, 0), "ns": (1, 1)}
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_TEXT_OR_NONE = frozenset((str, _NULL))
_GREATEST_FLOAT32 = float(np.finfo(np.float32).max)
_MOST_SHOWN = 60


# Integers as times: the range of dates that they probably mean, and how far a jump is, in seconds.
_MEANT = pd.Timestamp("2000-01-01").timestamp(), pd.Timestamp("2060-01-01").timestamp()
_FAR = 10 * 365 * 86_400
_UNIT_NAMES = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}


def array_of_values(values: list, wanted: pa.Field, before: pa.Scalar | None = None) -> pa.Array:
    """Return Python values as an array; ``before`` is the newest time so far, if the column is the clock."""
    if _are_exact(values, wanted.type):
        try:
            array = _without_nulls(pa.array(values, type=wanted.type, from_pandas=True), wanted)
        except NOT_FOR_ARROW as error:
            raise _no_fit(values, wanted, error) from None
        if pa.types.is_timestamp(wanted.type):
            whole = [value for value in values if type(value) is int]
            _check_unit(whole, wanted, None if before is None else before.value)
        return array
    if pa.types.is_timestamp(wanted.type) and _TEXT_OR_NONE.issuperset(map(type, values)):
        return fit(pa.array(values, pa.string()), wanted)
    try:
        return fit(_inferred(values, wanted.type), wanted)
    except (CepError, *NOT_FOR_ARROW) as error:
        raise _no_fit(values, wanted, error) from None


def _check_unit(ticks: Sequence[int], wanted: pa.Field, before: int | None) -> None:
    """Raise for integers that are dates in another unit than that of their column."""
    # Times near the time before, or near others of the batch, are right: a stream may begin in 1970.
    unit, per_second = wanted.type.unit, PER_SECOND[wanted.type.unit]
    if not ticks or _MEANT[0] <= min(ticks) / per_second <= max(ticks) / per_second < _MEANT[1]:
        return
    meant = {tick: other for tick in ticks if (other := _unit_meant(tick, unit)) is not None}
    near = [before] if before is not None else [tick for tick in ticks if tick not in meant]
    for tick, other in meant.items():
        if any(abs(tick - near_one) <= _FAR * per_second for near_one in near):
            continue
        moment = pd.Timestamp(tick * (10**9 // PER_SECOND[other]))
        raise CepError(
            f"batch: column {wanted.name!r} is {type_text(wanted)}, and {tick} is no time of our years in "
            f"{_UNIT_NAMES[unit]}; in {_UNIT_NAMES[other]} it is {moment}. Declare the column as "
            f"'{pa.timestamp(other, wanted.type.tz)}', or convert the values. A clock without dates is int64"
        )


def _unit_meant(tick: int, unit: str) -> str | None:
    """Return the other unit in which an integer is a date of our years, if it is none in its own unit."""
    low, high = _MEANT
    meant = [name for name, per_second in PER_SECOND.items() if low <= tick / per_second < high]
    return meant[0] if meant and meant[0] != unit else None


def array_of_pandas(values: Any, wanted: pa.Field) -> pa.Array | pa.ChunkedArray:
    """Return the array of a pandas column in the wanted type, see `fit`."""
    if isinstance(values.dtype, pd.SparseDtype):
        values = values.to_dense()
    # The rows that a stream keeps must not change with the frame. Texts never change.
    if isinstance(values.dtype, np.dtype):
        values = np.array(values)  # also times, which Arrow reads faster so
        of = _ARROW_TYPES.get(values.dtype)
        if of is not None and of == wanted.type and len(values) and not _has_missing(values):
            return pa.Array.from_buffers(of, len(values), [None, pa.py_buffer(values)], 0)  # in less time
    elif not isinstance(values.dtype, pd.StringDtype | pd.ArrowDtype):
        values = values.copy()
    array = None
    if values.dtype == object:
        array = arrow_of_objects(pd.Series(values, dtype=object, copy=False))
    try:
        array = pa.array(values, from_pandas=True) if array is None else array
    except NOT_FOR_ARROW as error:
        raise CepError(f"batch: column {wanted.name!r} must be {type_text(wanted)}: {error}") from None
    return fit(array, wanted)


_ARROW_TYPES = {np.dtype(of.to_pandas_dtype()): of for of in (*INTEGERS, pa.float32(), pa.float64())} | {
    np.dtype(f"M8[{unit}]"): pa.timestamp(unit) for unit in PER_SECOND
}


def _has_missing(values: np.ndarray) -> bool:
    """Return whether numbers have a NaN, or times a missing one."""
    if values.dtype.kind == "M":
        return np.minimum.reduce(values.view(np.int64)) == NULL_INTEGER
    return values.dtype.kind == "f" and bool(np.isnan(np.minimum.reduce(values)))


def type_text(wanted: pa.Field) -> str:
    """Return the type of a column as users write it."""
    return f"{wanted.type}{'' if wanted.nullable else ' not null'}"


def fit(array: pa.Array | pa.ChunkedArray, wanted: pa.Field) -> pa.Array | pa.ChunkedArray:
    """Return the values in the wanted type, or raise `CepError` if a cast is lossy or surprising."""
    if array.type != wanted.type:
        array = _plain(array)
        if pa.types.is_timestamp(wanted.type) and type_of_arrow(array.type).kind == TEXT:
            array = _times_of_texts(array, wanted)
    if array.type != wanted.type:
        array_type, wanted_type = type_of_arrow(array.type), type_of_arrow(wanted.type)
        is_alike = array_type.kind == wanted_type.kind or {array_type.kind, wanted_type.kind} <= set(NUMBERS)
        if array_type.kind == wanted_type.kind == TIME:
            is_alike = (array_type.timezone is None) == (wanted_type.timezone is None)
        if not (is_alike or pa.types.is_null(array.type)):
            raise CepError(
                f"batch: column {wanted.name!r} must be {type_text(wanted)}, it is {array.type}; "
                "cast it, or begin a stream with another schema"
            )
        try:
            cast = array.cast(wanted.type)
            _check_loss(array, cast)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise CepError(
                f"batch: column {wanted.name!r} must be {type_text(wanted)}, it is {array.type}: {error}"
            ) from None
        array = cast
    return _without_nulls(array, wanted)


def _times_of_texts(array: pa.Array | pa.ChunkedArray, wanted: pa.Field) -> pa.Array | pa.ChunkedArray:
    """Return texts of ISO 8601 as times. A text without a zone is in the zone of the column."""
    zone, problem = wanted.type.tz, ""
    for unit, read_as in product((wanted.type.unit, "ns"), dict.fromkeys((zone, None))):
        try:
            times = array.cast(pa.timestamp(unit, read_as)).cast(pa.timestamp(wanted.type.unit, read_as))
            return times if read_as == zone else pc.assume_timezone(times, zone)
        except pa.ArrowInvalid as error:
            problem = problem or str(error)
    example = "2026-01-31T10:00:00" + ("" if zone is None else "Z")
    raise CepError(
        f"batch: column {wanted.name!r} must be {type_text(wanted)}, and not all of its texts are such "
        f"times, as '{example}': {problem}"
    )


def _without_nulls(array: pa.Array | pa.ChunkedArray, wanted: pa.Field) -> pa.Array | pa.ChunkedArray:
    if array.null_count and not wanted.nullable:
        raise CepError(
            f"batch: column {wanted.name!r} must be {type_text(wanted)}, it has {array.null_count:,} nulls "
            f"among {len(array):,} values"
        )
    return array


def _plain(array: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Return an array without encoded runs, views and dictionaries, which Arrow casts to few types."""
    if isinstance(array, pa.ChunkedArray):
        return pa.chunked_array([_plain(part) for part in array.chunks or [pa.array([], array.type)]])
    array = without_view(array)
    return _plain(array.dictionary_decode()) if pa.types.is_dictionary(array.type) else array


def _check_loss(array: pa.Array | pa.ChunkedArray, cast: pa.Array | pa.ChunkedArray) -> None:
    """Raise `pa.ArrowInvalid` for a loss that Arrow's safe cast does not see."""
    if cast.type in (pa.float32(), pa.float16()) and not pa.types.is_integer(array.type):
        whole = array.cast(pa.float64())
        if pc.any(pc.and_(pc.is_inf(cast), pc.is_finite(whole))).as_py():
            raise pa.ArrowInvalid(f"a number is beyond the range of {cast.type}")
    elif pa.types.is_timestamp(array.type) and pa.types.is_date(cast.type):
        back = cast.cast(array.type)
        if not pc.all(pc.equal(back, array), min_count=0).as_py():
            raise pa.ArrowInvalid("a date has no time of day")


# --- Python values


def _are_exact(values: list, of: pa.DataType) -> bool:
    """Return whether Arrow takes all the values without loss, or refuses them, as far as their types say."""
    exact = _EXACT.get(of.id)
    if exact is not None:
        return exact.issuperset(map(type, values))
    if of.id == _FLOAT32:
        return _FLOATS.issuperset(map(type, values)) and not any(map(_is_too_great, values))
    if pa.types.is_temporal(of) and _TICKS.issuperset(map(type, values)):
        return True
    if pa.types.is_timestamp(of):
        return _TIMES.issuperset(map(type, values)) and all(map(fitting_time(of), values))
    if pa.types.is_duration(of):
        return _DURATIONS.issuperset(map(type, values)) and all(map(_fitting_duration(of), values))
    return False


def _is_too_great(value: float | None) -> bool:
    """Return whether a finite number becomes infinite as a 32-bit float."""
    return value is not None and _GREATEST_FLOAT32 < abs(value) < math.inf


def fitting_time(of: pa.DataType) -> Callable[[Any], bool]:
    micros, nanos = _PER_UNIT[of.unit]

    def fits(value: Any) -> bool:
        if value is None or value is pd.NaT:
            return True
        if (value.tzinfo is None) != (of.tz is None) or value.microsecond % micros:
            return False
        return bool(nanos) or not getattr(value, "nanosecond", 0)

    return fits


def _fitting_duration(of: pa.DataType) -> Callable[[Any], bool]:
    micros, nanos = _PER_UNIT[of.unit]

    def fits(value: Any) -> bool:
        if value is None or value is pd.NaT:
            return True
        return value.microseconds % micros == 0 and (bool(nanos) or not getattr(value, "nanoseconds", 0))

    return fits


def _inferred(values: list, of: pa.DataType) -> pa.Array:
    """Return the values in the type that they have themselves."""
    if all(map(_is_missing, values)):
        return pa.nulls(len(values), of)
    if pa.types.is_timestamp(of) or pa.types.is_date(of) or pa.types.is_duration(of):
        _check_parts(values, of)
    if pa.types.is_struct(of) or pa.types.is_map(of) or pa.types.is_decimal(of):
        return pa.array(
            values, type=of, from_pandas=True
        )  # a text of digits is no decimal, so nothing is lost
    return pa.array(values, from_pandas=True)


def _check_parts(values: Iterable[Any], of: pa.DataType) -> None:
    """Raise `ValueError` for parts of times that Arrow cuts off when it infers a type."""
    is_time = fitting_time(of) if pa.types.is_timestamp(of) else None
    is_duration = _fitting_duration(of) if pa.types.is_duration(of) else None
    for value in values:
        if is_time is not None and isinstance(value, dt.datetime) and not is_time(value):
            zone = "a" if of.tz is not None else "no"
            raise ValueError(f"times of this column have {zone} time zone, and no part below 1 {of.unit}")
        if is_duration is not None and isinstance(value, dt.timedelta) and not is_duration(value):
            raise ValueError(f"durations of this column have no part below 1 {of.unit}")


def _is_missing(value: Any) -> bool:
    return value is None or value is pd.NA or value is pd.NaT or (isinstance(value, float) and value != value)


def _no_fit(values: list, wanted: pa.Field, error: Exception) -> CepError:
    """Return the error for values that do not fit; it names the first such value."""
    if isinstance(error, CepError) and len(values) == 1 and _is_missing(values[0]):
        return error
    for value in values:
        try:
            if _are_exact([value], wanted.type):
                pa.array([value], type=wanted.type, from_pandas=True)
            else:
                fit(_inferred([value], wanted.type), wanted.with_nullable(True))
        except (CepError, *NOT_FOR_ARROW) as own:
            reason = "" if isinstance(own, CepError) else f": {own}"
            shown = _shown(value)
            return CepError(
                f"batch: column {wanted.name!r} must be {type_text(wanted)}, and {shown} of type "
                f"{type(value).__name__} does not fit without loss{reason}"
            )
    if isinstance(error, CepError):
        return error
    return CepError(f"batch: column {wanted.name!r} must be {type_text(wanted)}: {error}")


def _shown(value: Any) -> str:
    text = repr(value).encode("ascii", "backslashreplace").decode()
    return text if len(text) <= _MOST_SHOWN else f"{text[: _MOST_SHOWN - 1]}…"
