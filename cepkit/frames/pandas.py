"""pandas DataFrames as sources of events, with the dtypes of pandas 2 and 3: numpy, Arrow and masked."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from cepkit.engines.reducing import one_chunk, vectors_of_arrow
from cepkit.engines.regex_measures import Measured, Picked
from cepkit.engines.shared.places import usable_threads
from cepkit.errors import CepError
from cepkit.events import (
    BOOLEAN,
    DURATION,
    FLOAT,
    INTEGER,
    NULL_CODE,
    NULL_INTEGER,
    OTHER,
    TEXT,
    TIME,
    Column,
    ColumnType,
    Frame,
)
from cepkit.frames.arrow import (
    INTEGERS,
    NOT_FOR_ARROW,
    are_texts_valid,
    array_of_series,
    arrow_of_series,
    check_free,
    column_of_arrow,
    decimals_once,
    field_of,
    has_view,
    invalid_text,
    kept_decimals,
    list_item,
    objects_of_texts,
    path_of,
    repeated_column,
    type_of_arrow,
    type_of_field,
    without_view,
    zone_of,
)
from cepkit.frames.reuse import addresses_of, equals_by_step, keep, recall
from cepkit.progress import run_on_threads

try:
    from pandas.api.internals import create_dataframe_from_blocks as frame_of_blocks
except ImportError:  # pandas 2
    frame_of_blocks = None

_PANDAS = int(pd.__version__.split(".")[0])
_OBJECTS = np.dtype(object), pd.array([], dtype=object).dtype
_MANY_ROWS = 1 << 18  # whose values threads take
_times = getattr(pd.arrays.DatetimeArray, "_simple_new", None)
_TIMES = {np.dtype(f"M8[{unit}]") for unit in ("s", "ms", "us", "ns")}
_INFERRED = {
    "string": TEXT, "boolean": BOOLEAN, "integer": INTEGER, "floating": FLOAT,
    "mixed-integer-float": FLOAT, "decimal": FLOAT, "datetime": TIME, "datetime64": TIME, "date": TIME,
    "timedelta": DURATION, "timedelta64": DURATION, "time": DURATION,
}  # fmt: skip


class ColumnTypes(Mapping[str, ColumnType]):
    """The types of columns by name. Each is found when it is first asked for: objects must be looked at."""

    def __init__(
        self, names: Iterable[str], find: Callable[[str], ColumnType], has_field: Callable[[object], bool]
    ):
        self._types: dict[str, ColumnType | None] = dict.fromkeys(names)
        self._find, self._has_field = find, has_field

    def __getitem__(self, name: str) -> ColumnType:
        if name not in self._types and self._has_field(name):
            return self._find(name)
        column_type = self._types[name]
        if column_type is None:
            column_type = self._types[name] = self._find(name)
        return column_type

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and (name in self._types or self._has_field(name))

    def __iter__(self) -> Iterator[str]:
        return iter(self._types)

    def __len__(self) -> int:
        return len(self._types)


class _SeriesByName:
    """The columns of a frame and the levels of its index, by name."""

    # `PandasSource` has its types from here. If it found them itself, its schema would refer to it, and
    # Python would keep the values of the frame until it collects garbage.

    def __init__(self, frame: pd.DataFrame, owner: pd.DataFrame):
        self.frame, self.owner = frame, owner
        self.n_equal: dict[str, np.ndarray | None] = {}  # of times: None if they do not rise
        is_unique = frame.columns.is_unique
        self.duplicates = frozenset(() if is_unique else frame.columns[frame.columns.duplicated()])
        self.level_of_name = index_levels(frame)
        self._known: dict[str, pd.Series] = {}

    def series(self, name: str) -> pd.Series:
        """Return a column or a level by its name."""
        if name in self._known:
            return self._known[name]
        if self.has_field(name):
            return self._field(name)
        if name in self.duplicates:
            raise repeated_column(name)
        if name in self.level_of_name:
            level = self.frame.index.get_level_values(self.level_of_name[name])
            column = pd.Series(level, copy=False)
        else:
            column = self.frame[name]
            if isinstance(column.dtype, pd.ArrowDtype) and has_view(column.dtype.pyarrow_dtype):
                column = _without_view(column)
            if _PANDAS < 3:  # the frame may change
                return column
        self._known[name] = column
        return column

    def has_field(self, name: object) -> bool:
        """Return whether a name means a field of structs, such as ``user.id``."""
        if not isinstance(name, str) or "." not in name or name in self.frame.columns:
            return False
        path = path_of(name, self.frame.columns)
        if path is None or path[0] in self.duplicates:
            return False
        structs = self._structs(path[0])
        return structs is not None and type_of_field(structs.type, path[1]) is not None

    def _structs(self, name: str) -> pa.Array | None:
        """Return a column of structs or dicts as an Arrow array; None for other columns."""
        series = self.frame[name]
        if isinstance(series.dtype, pd.ArrowDtype):
            return arrow_of_series(series, name) if pa.types.is_struct(series.dtype.pyarrow_dtype) else None
        first = series.first_valid_index() if series.dtype == object else None
        if first is None or not isinstance(series.dropna().iloc[0], dict):
            return None
        array = arrow_of_objects(series)
        return array if array is not None and pa.types.is_struct(array.type) else None

    def _field(self, name: str) -> pd.Series:
        """Return a field of a column of structs."""
        column, fields = path_of(name, self.frame.columns) or ("", [])
        values = array_of_arrow(one_chunk(field_of(self._structs(column), fields)))
        series = pd.Series(values, index=self.frame.index)
        if _PANDAS >= 3:
            self._known[name] = series
        return series

    def type(self, name: str) -> ColumnType:
        """Return the type of a column."""
        if name in self.duplicates:
            return ColumnType(OTHER)
        series = self.series(name)
        if not isinstance(series.dtype, np.dtype):
            return type_of_series(series)
        kind = series.dtype.kind
        if kind == "O":  # nobody need look at the objects again
            if recall(self.owner, ("texts", name), [series.to_numpy()]) is not None:
                return ColumnType(TEXT, nullable=True)
            if (kept := recall(self.owner, ("decimals", name), [series.to_numpy()])) is not None:
                return ColumnType(FLOAT, nullable=True, scale=int(kept[1][1]))
        if kind == "M":
            self.n_equal[name] = equals_by_step(series.to_numpy().view(np.int64))
        return type_of_series(series, self.n_equal.get(name) is not None)


class PandasSource:
    """A pandas DataFrame as a source of columns (see ``frames/building.py``)."""

    # The levels of its index are columns, too, by their names. A DatetimeIndex without a name is ``index``,
    # as in ``reset_index``. A column hides a level with the same name.

    def __init__(self, frame: pd.DataFrame):
        labels = list(frame.columns)
        _check_names(frame.columns, labels)
        _check_unicode(labels)
        self.owner = frame
        self._isolated = frame = _isolated(frame)
        self.n_rows = len(frame)
        by_name = _SeriesByName(frame, self.owner)
        self._series, self.duplicates = by_name.series, by_name.duplicates
        self._n_equal, self._columns = by_name.n_equal, dict[str, Column]()
        names = [name for name in labels if isinstance(name, str)]
        self.schema = ColumnTypes([*names, *by_name.level_of_name], by_name.type, by_name.has_field)
        self._arrow_types: dict[str, pa.DataType | None] = {}

    @cached_property
    def frame(self) -> pd.DataFrame:
        """The rows of the frame, without Arrow's view types."""
        return _without_views(self._isolated)

    def is_untyped(self, name: str) -> bool:
        """Return whether a column has missing objects only, Arrow's type null, or floats and no rows."""
        if name in self.duplicates:
            return False
        series = self._series(name)
        dtype = series.dtype
        if not isinstance(dtype, np.dtype):
            return isinstance(dtype, pd.ArrowDtype) and pa.types.is_null(dtype.pyarrow_dtype)
        if dtype.kind == "O":  # empty lists make objects or floats
            return _has_only_missing(series)
        return dtype == np.float64 and not len(series)

    @property
    def clock(self) -> str | None:
        """Name of the index if it is a DatetimeIndex; it orders the rows unless a query says otherwise."""
        return index_clock(self._isolated)

    def column(self, name: str) -> Column:
        """Return a column; it is kept unless the frame may change."""
        is_safe = _PANDAS >= 3 and name not in self.duplicates  # before pandas 3 the frame may have changed
        if not is_safe:
            return column_of_series(self._series(name), name, self.owner)
        if name in self._columns:
            return self._columns[name]
        series = self._series(name)
        column = column_of_series(series, name, self.owner, self.schema[name])
        if name in self._n_equal:
            n_equal = self._n_equal[name]
            column = replace(column, is_rising=n_equal is not None, n_equal=n_equal)
        if isinstance(series.dtype, np.dtype | pd.CategoricalDtype) and series.dtype != object:
            self._columns[name] = column  # most of these share the memory of the frame
        return column

    def storage(self, name: str) -> Hashable | None:
        dtype = self._series(name).dtype if name not in self.duplicates else None
        if isinstance(dtype, pd.CategoricalDtype):
            return "category", str(dtype.categories.dtype)
        return None if pd.api.types.is_object_dtype(dtype) and self.schema[name].kind != TEXT else dtype

    def item(self, name: str, index: int) -> Column:
        return list_item(arrow_of_series(self._series(name), name), index, name)

    def vectors(self, name: str) -> np.ndarray:
        array = arrow_of_series(self._series(name), name)
        return vectors_of_arrow(array, name, lambda row: self._isolated.index[row])

    def decimals(self, name: str) -> Column:
        """Return a column of decimals as integers."""
        series = self._series(name)
        if series.dtype != object:
            return kept_decimals(arrow_of_series(series, name), name, self.owner)

        def read(copies: Sequence[np.ndarray]) -> pa.Array:
            return arrow_of_series(pd.Series(copies[0], dtype=object, copy=False), name)

        return decimals_once(self.owner, name, [series.to_numpy()], read)

    def arrow(self, name: str, rows: np.ndarray) -> pa.Array:
        """Return the values of a column in these rows."""
        series = self._series(name)
        if isinstance(series.dtype, np.dtype) and series.dtype.kind in "iumM":
            return pa.array(series.to_numpy()[rows], from_pandas=True)  # quicker than a Series of a few rows
        series = series.take(rows)
        # Some rows of objects may have another type than the whole column, or none; the column's type counts.
        kind = self._type_of_objects(name) if series.dtype == object else None
        if kind is not None and pa.types.is_duration(kind):
            series = pd.to_timedelta(series)
        elif kind is not None and pa.types.is_timestamp(kind) and kind.unit == "ns":
            series = pd.to_datetime(series)
        values = without_view(arrow_of_series(series, name, kind))
        # Texts as Python objects are valid.
        if series.dtype != object and not are_texts_valid(values):
            raise invalid_text(pa.array(self._series(name), from_pandas=True), name)
        return values

    def _type_of_objects(self, name: str) -> pa.DataType | None:
        """Return the Arrow type of a column of objects; None if they have none."""
        if name not in self._arrow_types:
            if self.schema[name].kind == TEXT:
                self._arrow_types[name] = pa.string()
            else:
                whole = arrow_of_objects(self._series(name))
                self._arrow_types[name] = None if whole is None else whole.type
        return self._arrow_types[name]

    # --- results

    def result(self, columns: Mapping[str, Measured]) -> pd.DataFrame:
        """Return the result columns as a frame; values of a column keep its dtype."""
        taken = self._taken([values for values in columns.values() if isinstance(values, Picked)])
        arrays = {
            name: next(taken) if isinstance(values, Picked) else array_of_arrow(values)
            for name, values in columns.items()
        }
        return frame_of_arrays(arrays)

    def _taken(self, picked: list[Picked]) -> Iterator[Any]:
        """Yield the picked values of each column; threads take many rows, since numpy and Arrow let them."""
        arrays = [self._series(values.column).array for values in picked]
        take = lambda i: arrays[i].take(picked[i].rows)  # noqa: E731
        threads = usable_threads() if picked and len(picked[0].rows) >= _MANY_ROWS else 1
        if threads < 2:
            return map(take, range(len(picked)))
        return iter(run_on_threads(take, len(picked), threads))

    def rows(self, rows: np.ndarray, columns: Mapping[str, np.ndarray]) -> pd.DataFrame:
        """Return these rows of the frame with their index, and ``columns`` before the frame's columns."""
        return _with_columns(self.frame.take(rows), columns, 0)

    def tagged(self, columns: Mapping[str, pd.api.extensions.ExtensionArray]) -> pd.DataFrame:
        """Return the whole frame with ``columns`` after its own columns."""
        # pandas 3 copies on write; with pandas 2 a write to the result would change the frame.
        frame = self.frame.copy(deep=_PANDAS < 3)
        return _with_columns(frame, columns, frame.shape[1])

    def index_labels(self, rows: np.ndarray) -> pd.Index:
        return self._isolated.index.take(rows)


def frame_of_arrays(arrays: Mapping[str, Any]) -> pd.DataFrame:
    """Return a frame of arrays, without copies."""
    labels, plain = _labels(tuple(arrays)).view(), list(arrays.values())
    is_plain = [type(array) is np.ndarray or isinstance(array.dtype, pd.StringDtype) for array in plain]
    if frame_of_blocks and plain and all(is_plain):
        blocks = [(_block_of(array), np.array([i])) for i, array in enumerate(plain)]
        return frame_of_blocks(blocks, pd.RangeIndex(len(plain[0])), labels)
    # pandas would infer a type from objects without a dtype.
    data = [
        pd.Series(array, dtype=object, copy=False) if array.dtype in _OBJECTS else array for array in plain
    ]
    frame = pd.DataFrame(dict(enumerate(data)), copy=False)
    frame.columns = labels
    return frame


def _block_of(array: Any) -> Any:
    """Return the values of a column as a block of pandas has them."""
    if type(array) is not np.ndarray:
        return array
    is_time = _times is not None and array.dtype in _TIMES  # pandas does the same in much more time
    return _times(array[None], dtype=array.dtype) if is_time else array[None]


@lru_cache(maxsize=128)
def _labels(names: tuple[str, ...]) -> pd.Index:
    return pd.DataFrame(dict.fromkeys(names, ())).columns


def index_levels(frame: pd.DataFrame) -> dict[str, int]:
    """Return the levels of the index that serve as columns, by name."""
    names = list(frame.index.names)
    if names == [None] and isinstance(frame.index, pd.DatetimeIndex):
        names = ["index"]
    return {
        name: level
        for level, name in enumerate(names)
        if isinstance(name, str) and name not in frame.columns and names.count(name) == 1
    }


def index_clock(frame: pd.DataFrame) -> str | None:
    """Return the name of the index if it is a DatetimeIndex that no column hides, else None."""
    return next(iter(index_levels(frame)), None) if isinstance(frame.index, pd.DatetimeIndex) else None


def _check_names(columns: pd.Index, labels: list) -> None:
    """Raise for names of columns that no query can write."""
    if columns.nlevels > 1 and labels:
        raise CepError(
            f"each column has {columns.nlevels} names, as {columns[0]}; a query needs one. Flatten them: "
            "df.columns = ['_'.join(map(str, names)) for names in df.columns]"
        )
    if labels and not any(isinstance(name, str) for name in labels):
        raise CepError(
            f"no column has a text as its name, the first one is {columns[0]!r}; give them names: "
            "df.columns = ['ts', 'price', …]"
        )


def _check_unicode(labels: list) -> None:
    """Raise for a name that no result can have: only valid Unicode is text for Arrow and the display."""
    for name in labels:
        if isinstance(name, str) and not name.isascii():
            try:
                name.encode()
            except UnicodeEncodeError:
                raise CepError(
                    f"a column has the name {name!a}, which is not valid Unicode; rename it: "
                    f"df.rename(columns={{{name!a}: 'name'}})"
                ) from None


def _with_columns(frame: pd.DataFrame, columns: Mapping[str, object], place: int) -> pd.DataFrame:
    check_free(columns, frame.columns)
    for offset, (name, values) in enumerate(columns.items()):
        frame.insert(place + offset, name, values)
    return frame


def array_of_arrow(values: pa.Array | pa.ChunkedArray) -> Any:
    """Return an Arrow array as an array for a frame. It is new, so users may write to it."""
    arrow_type = values.type
    is_plain = arrow_type.id in _PLAIN_TYPES and getattr(arrow_type, "tz", None) is None
    if is_plain and isinstance(values, pa.Array) and not values.null_count:
        return values.to_numpy().copy()
    series = series_of_arrow(values)
    # pandas shares the memory of Arrow's numbers, which is read-only.
    return series.array.copy() if series.dtype.kind in "iufmM" else series.array


_PLAIN_TYPES = {of.id for of in (*INTEGERS, pa.float64(), pa.timestamp("s"))}


def series_of_arrow(array: pa.Array | pa.ChunkedArray) -> pd.Series:
    """Return an Arrow array as a Series; integers and booleans with nulls keep their types."""
    if pa.types.is_integer(array.type) and array.null_count:
        dtype = pd.UInt64Dtype() if pa.types.is_uint64(array.type) else pd.Int64Dtype()
        return array.to_pandas(types_mapper=lambda arrow_type: dtype)
    if pa.types.is_boolean(array.type) and array.null_count:
        return array.to_pandas(types_mapper=lambda arrow_type: pd.BooleanDtype())
    item = array.type.value_type if pa.types.is_list(array.type) else array.type
    if item == pa.time64("ns"):  # Python's times have no nanoseconds
        return pd.Series(pd.arrays.ArrowExtensionArray(array))
    if _has_integers_and_nulls_in_lists(array):  # as floats they would lose digits
        objects = np.empty(len(array), object)
        for i, items in enumerate(array.to_pylist()):
            objects[i] = None if items is None else np.array(items, object if None in items else None)
        return pd.Series(objects)
    return array.to_pandas()


def _has_integers_and_nulls_in_lists(array: pa.Array | pa.ChunkedArray) -> bool:
    if not pa.types.is_list(array.type) or not pa.types.is_integer(array.type.value_type):
        return False
    chunks = array.chunks if isinstance(array, pa.ChunkedArray) else [array]
    return any(chunk.flatten().null_count for chunk in chunks)


def type_of_series(series: pd.Series, is_rising: bool | None = None) -> ColumnType:
    """Return the column type of a Series. If its times rise, missing ones are the first ones."""
    dtype = series.dtype
    if isinstance(dtype, np.dtype) and dtype.kind in "iuf":
        return ColumnType(FLOAT, nullable=True) if dtype.kind == "f" else ColumnType(INTEGER)
    if isinstance(dtype, pd.ArrowDtype):
        return type_of_arrow(dtype.pyarrow_dtype, nullable=series.hasnans)
    if isinstance(dtype, pd.CategoricalDtype):
        inner, _ = _read_categories(dtype.categories)
        ordered = tuple(dtype.categories) if dtype.ordered and inner.kind == TEXT else None
        return ColumnType(inner.kind, inner.unit, inner.timezone, True, ordered)
    if isinstance(dtype, pd.StringDtype):
        return ColumnType(TEXT, nullable=True)
    if isinstance(dtype, pd.DatetimeTZDtype):
        return ColumnType(TIME, dtype.unit, zone_of(dtype) or "UTC", series.hasnans)
    if dtype.kind in "mM":
        ticks = series.to_numpy().view(np.int64)[: 1 if is_rising else None]
        has_missing = len(ticks) > 0 and int(ticks.min()) == NULL_INTEGER  # five times as fast as hasnans
        return ColumnType(
            TIME if dtype.kind == "M" else DURATION, np.datetime_data(dtype)[0], None, has_missing
        )
    # The dtype decides, not the values: the code of a kernel must not depend on the data.
    nullable = pd.api.types.is_extension_array_dtype(dtype)
    if dtype.kind == "b":
        return ColumnType(BOOLEAN, nullable=nullable)
    if dtype.kind in "iu":
        return ColumnType(INTEGER, nullable=nullable and not _has_least_integer(series))
    if dtype.kind == "f":
        return ColumnType(FLOAT, nullable=True)
    return _type_of_objects(series)


def _type_of_objects(series: pd.Series) -> ColumnType:
    inferred = _inferred_name(series)
    if inferred == "empty":
        return ColumnType(TEXT, nullable=True)
    kind = _INFERRED.get(inferred)
    if kind in (TIME, DURATION):
        array = arrow_of_objects(series)
        if array is None:
            return ColumnType(OTHER)
        return type_of_arrow(array.type, nullable=array.null_count > 0)
    if inferred == "decimal":
        array = arrow_of_objects(series)
        return ColumnType(FLOAT, nullable=True) if array is None else type_of_arrow(array.type)
    if kind is not None:
        return ColumnType(kind, nullable=kind != INTEGER or not _has_least_integer(series))
    present = series.dropna()
    if len(present) and isinstance(present.iloc[0], list | tuple | np.ndarray):
        array = arrow_of_objects(series)
        if array is not None:
            return type_of_arrow(array.type)
    return ColumnType(OTHER, nullable=True)


def _has_least_integer(series: pd.Series) -> bool:
    """Return whether -2^63 is a value and none is missing; with missing ones it would mean null."""
    return not series.hasnans and len(series) > 0 and int(series.min()) == NULL_INTEGER


def _isolated(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a copy that shares the values. From pandas 3 on, later changes of ``frame`` do not reach it."""
    return frame.copy(deep=False) if _PANDAS >= 3 else frame


def _without_views(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame with plain types instead of Arrow's view types, whose rows pandas cannot take yet."""
    has_views = [isinstance(dtype, pd.ArrowDtype) and has_view(dtype.pyarrow_dtype) for dtype in frame.dtypes]
    if not any(has_views):
        return frame
    series = [
        _without_view(frame.iloc[:, i]) if is_view else frame.iloc[:, i]
        for i, is_view in enumerate(has_views)
    ]
    plain_frame = pd.concat(series, axis=1, keys=range(len(series)))
    plain_frame.columns = frame.columns
    return plain_frame


def _without_view(series: pd.Series) -> pd.Series:
    plain = without_view(one_chunk(pa.array(series, from_pandas=True)))
    return pd.Series(pd.arrays.ArrowExtensionArray(plain), index=series.index, copy=False)


def _has_only_missing(objects: pd.Series) -> bool:
    if len(objects) and not _is_missing(objects.iloc[0]):
        return False  # nobody need look at all objects
    return pd.api.types.infer_dtype(objects, skipna=True) == "empty"


def _inferred_name(objects: pd.Series) -> str:
    """Return what pandas calls the type of objects, the missing ones aside."""
    name = pd.api.types.infer_dtype(objects, skipna=True)
    if _PANDAS < 3 and name in ("mixed", "date"):  # for pandas 2, pd.NA among times is a type of its own
        return pd.api.types.infer_dtype(objects.dropna())
    return name


def arrow_of_objects(series: pd.Series) -> pa.Array | None:
    """Return a column of objects as an Arrow array; None if Arrow refuses them."""
    inferred = _inferred_name(series)
    if inferred.startswith("timedelta"):
        durations = _durations_of_objects(series)  # Arrow reads only objects of nanoseconds correctly
        if durations is None:
            return None
        series = durations
    elif inferred.startswith("datetime") and _has_nanoseconds(series):
        with suppress(ValueError):  # Arrow would cut them off; objects in several zones stay as they are
            series = pd.to_datetime(series)
    try:
        return array_of_series(series)
    except NOT_FOR_ARROW:
        return None


def _durations_of_objects(series: pd.Series) -> pd.Series | None:
    """Return objects as durations; None if no unit holds all of them exactly."""
    with suppress(ValueError):
        return pd.to_timedelta(series)
    with suppress(ValueError):  # pandas 2 reads all objects as nanoseconds
        units = [pd.Timedelta(value).as_unit("us", round_ok=False).asm8 for value in series]
        return pd.Series(np.array(units, "timedelta64[us]"), index=series.index)
    return None


def _has_nanoseconds(series: pd.Series) -> bool:
    return any(isinstance(value, pd.Timestamp) and value.nanosecond for value in series)


def column_of_series(
    series: pd.Series, name: str, owner: object | None = None, column_type: ColumnType | None = None
) -> Column:
    """Return the values of a Series as a column, without a copy where the layout allows it."""
    # The codes of texts are kept for ``owner``, the frame with the column, and for its next call.
    # ``column_type`` is that of the Series if it is known. Finding the type of times reads the whole Series.
    dtype = series.dtype
    if isinstance(dtype, np.dtype) and dtype.kind == "O" and owner is not None:
        kept_texts = recall(owner, ("texts", name), [series.to_numpy()])
        if kept_texts is not None:
            return Column(ColumnType(TEXT, nullable=True), *kept_texts)
    column_type = type_of_series(series) if column_type is None else column_type
    if isinstance(dtype, np.dtype) and (dtype.kind == "i" or dtype.str[1:] in ("f4", "f8", "u1", "u2", "u4")):
        return Column(column_type, series.to_numpy())
    if isinstance(dtype, pd.ArrowDtype) or (isinstance(dtype, pd.StringDtype) and dtype.storage == "pyarrow"):
        return column_of_arrow(pa.array(series, from_pandas=True), name, owner)
    if isinstance(dtype, pd.CategoricalDtype):
        return _categorical(series, column_type, name)
    if column_type.kind == TEXT:
        return _text(series, column_type, name, owner)
    if column_type.kind in (TIME, DURATION):
        if dtype.kind == "O":
            return column_of_arrow(arrow_of_objects(series), name)
        naive = series.dt.tz_convert("UTC").dt.tz_localize(None) if column_type.timezone else series
        return Column(column_type, naive.to_numpy().view(np.int64))
    if column_type.kind == BOOLEAN:
        if dtype == np.bool_:
            return Column(column_type, series.to_numpy().view(np.int8))
        filled = series.astype("boolean").astype("Int8").to_numpy(dtype=np.int8, na_value=NULL_CODE)
        return Column(column_type, filled)
    if column_type.kind == FLOAT:
        if dtype.kind == "f" and isinstance(dtype, np.dtype) and dtype.itemsize in (4, 8):
            return Column(column_type, series.to_numpy())
        series = series if dtype.kind == "O" else series.astype("Float64")
        return Column(column_type, series.to_numpy(np.float64, na_value=np.nan))
    if column_type.kind == INTEGER:
        return _integers(series, column_type, name)
    values = np.empty(len(series), dtype=object)
    for row, value in enumerate(series):  # an assignment of all values would look into arrays
        values[row] = None if _is_missing(value) else value
    return Column(column_type, values)


def _text(series: pd.Series, of: ColumnType, name: str, owner: object | None) -> Column:
    """Return texts as codes and categories, and keep these for the next call."""
    # The copy holds the texts, so no other object takes their addresses.
    objects = np.array(series.to_numpy(dtype=object))
    result = _codes_of_objects(objects)
    if owner is not None and series.dtype == object and not any(map(_may_change, set(map(type, objects)))):
        keep(owner, ("texts", name), (objects,), result)
    return Column(of, *result)


def _codes_of_objects(objects: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the code of each text, int64, -1 for missing ones, and the texts of the codes."""
    sample = objects[:_SAMPLE]
    if len(pd.unique(addresses_of(sample))) * _FEW > len(sample):  # most texts are objects of their own
        return _codes_of_texts(objects)
    place_of_row, places = pd.factorize(addresses_of(objects))
    if len(places) * _FEW > len(objects):
        return _codes_of_texts(objects)
    first_row = np.empty(len(places), np.int64)
    first_row[place_of_row[::-1]] = np.arange(len(objects) - 1, -1, -1)
    code_of_place, texts = _codes_of_texts(objects[first_row])
    return code_of_place[place_of_row], texts


_SAMPLE, _FEW = 1 << 14, 8


def _codes_of_texts(objects: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the same as `_codes_of_objects`. For pandas 2, a text ends at its first character 0."""
    try:
        encoded = pa.array(objects, pa.large_string(), from_pandas=True).dictionary_encode()
    except NOT_FOR_ARROW:  # half characters
        code_of_text: dict[str, int] = {}
        codes = [
            code_of_text.setdefault(value, len(code_of_text)) if isinstance(value, str) else NULL_CODE
            for value in objects
        ]
        return np.array(codes, np.int64), np.array([*code_of_text], object)
    codes = pc.fill_null(encoded.indices.cast(pa.int64()), NULL_CODE)
    return codes.to_numpy(zero_copy_only=False), objects_of_texts(encoded.dictionary)


def _may_change(kind: type) -> bool:
    """Return whether objects of a kind of texts may change: those of subclasses may."""
    return issubclass(kind, str) and kind is not str


def _categorical(series: pd.Series, of: ColumnType, name: str) -> Column:
    """Return a categorical as a column of the type of its categories."""
    if of.kind != TEXT:
        values = column_of_series(pd.Series(series.dtype.categories), name).values
        null = {FLOAT: np.nan, BOOLEAN: NULL_CODE, OTHER: None}.get(of.kind, NULL_INTEGER)
        if of.kind == INTEGER:
            values = values.astype(np.int64)
        return Column(of, np.append(values, np.array([null], values.dtype))[series.cat.codes.to_numpy()])
    return Column(of, series.array.codes, _read_categories(series.dtype.categories)[1])


_categories: dict[int, tuple[weakref.ref, ColumnType, np.ndarray | None]] = {}  # by their id


def _read_categories(categories: pd.Index) -> tuple[ColumnType, np.ndarray | None]:
    """Return the type of categories, and texts as objects. Both are kept as long as the categories live."""
    number = id(categories)
    kept = _categories.get(number)
    if kept is None or kept[0]() is not categories:
        column_type = type_of_series(pd.Series(categories))
        texts = np.array(categories, dtype=object) if column_type.kind == TEXT else None
        kept = weakref.ref(categories, lambda ended: _categories.pop(number, None)), column_type, texts
        _categories[number] = kept
    return kept[1:]


def _integers(series: pd.Series, of: ColumnType, name: str) -> np.ndarray:
    """Return integers as a column. Raise if one does not fit 64 bits."""
    dtype = series.dtype
    if dtype.kind == "O":
        array = arrow_of_objects(series)
        if array is None:
            raise CepError(f"column {name!r} has integers beyond 64 bits; make them floats or texts")
        return column_of_arrow(array, name)
    if dtype.kind == "u" and dtype.itemsize == 8:
        return column_of_arrow(pa.array(series, from_pandas=True), name)
    if not of.nullable:
        return Column(of, series.to_numpy(dtype=getattr(dtype, "numpy_dtype", dtype)))
    values = series.to_numpy(dtype=np.int64, na_value=NULL_INTEGER)
    if int((values == NULL_INTEGER).sum()) != int(series.isna().sum()):
        raise CepError(
            f"column {name!r} has nulls and the value -2^63, which means null here; drop one of them"
        )
    return Column(of, values)


def _is_missing(value: object) -> bool:
    return value is None or value is pd.NA or (isinstance(value, float) and value != value)


def as_pandas(frame: Frame) -> pd.DataFrame:
    """Return a pandas, polars or Arrow frame as a pandas DataFrame."""
    return frame if isinstance(frame, pd.DataFrame) else frame.to_pandas()
