"""Run experiments over a grid of parameters. Each result is kept, so an interrupted sweep can continue."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing, nullcontext
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from cepkit.errors import CepError, whole_number
from cepkit.progress import show_progress

_SWEEP = "sweep.json"
_POINTS = "points"
_FORMAT = 1


class SweepMismatchError(CepError, ValueError):
    """The folder contains the results of another sweep or version."""


class PointError(CepError, RuntimeError):
    """Points of a sweep raised an error.

    The message names the points. ``__cause__`` is the first error. ``done`` is the frame of the other points.

    """

    def __init__(self, message: str, done: pd.DataFrame):
        super().__init__(message)
        self.done = done


def sweep(
    run: Callable[..., Mapping[str, Any]],
    grid: Mapping[str, Iterable[Any]] | Sequence[Mapping[str, Any]],
    path: str | os.PathLike | None = None,
    *,
    version: str = "",
    name: str = "",
    workers: int = 1,
    progress: bool = True,
) -> pd.DataFrame:
    """Run every point of a grid, and keep each result as soon as it exists.

    The parameters identify a point, in any order: 2 and 2.0 are equal, 1 and True are not. Every point has
    a Parquet file, which is written under another name and then renamed.
    """
    if not callable(run):
        raise CepError(f"sweep: run is a {type(run).__name__}; a function of a point's parameters is needed")
    whole_number("sweep: workers", workers, 1)
    points = _points(grid)
    keys = [_key(point) for point in points]
    if len(set(keys)) < len(keys):
        twice = next(k for k, key in enumerate(keys) if key in keys[:k])
        raise CepError(f"sweep: point {_point_text(points[twice])} is in the grid twice")
    if path is not None and not isinstance(path, (str, os.PathLike)):
        raise CepError(f"sweep: path is a {type(path).__name__}; a folder's name is needed")
    name = name or getattr(run, "__name__", type(run).__name__)
    folder = None if path is None else _open_folder(Path(path), name, version, points)
    results = {} if folder is None else _read_results(folder, keys, points)
    failed: dict[str, Exception] = {}
    todo = {key: point for key, point in zip(keys, points, strict=True) if key not in results}
    with (
        show_progress("points", len(points), takes_checkpoints=False) if progress else nullcontext() as bar,
        closing(_run_points(run, todo, folder, workers)) as rows,
    ):
        done = bar or (lambda n: None)
        done(len(results))
        for key, row in rows:
            if isinstance(row, Exception):
                failed[key] = row
            else:
                results[key] = _result_of(row, todo[key])
            done(1)
    if failed:
        rows = [(point, results[key]) for point, key in zip(points, keys, strict=True) if key in results]
        errors = [(todo[key], failed[key]) for key in todo if key in failed]
        raise PointError(_error_text(errors, len(points), folder), _frame(rows)) from errors[0][1]
    return _frame([(point, results[key]) for point, key in zip(points, keys, strict=True)])


# --- points


def _points(grid) -> list[dict[str, Any]]:
    if isinstance(grid, Mapping):
        values = {name: _as_list(name, of) for name, of in grid.items()}
        return [dict(zip(values, row, strict=True)) for row in product(*values.values())]
    is_text = isinstance(grid, (str, bytes))
    grid = list(grid) if isinstance(grid, Iterable) and not is_text else None
    if grid is None or not all(isinstance(point, Mapping) for point in grid):
        raise CepError("sweep: the grid is neither a dict of lists nor a list of dicts")
    points = [dict(point) for point in grid]
    other = next((point for point in points if set(point) != set(points[0])), None)
    if other is not None:
        raise CepError(
            f"sweep: point {_point_text(other)} has other parameters than the first, {list(points[0])}"
        )
    return points


def _as_list(name: str, values) -> list:
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise CepError(f"sweep: parameter {name!r} of the grid is {values!r}; a list of its values is needed")
    return list(values)


def _plain(value: Any, where: str) -> Any:
    """Return a value as JSON can store it; numpy numbers become Python's."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, (list, tuple)):
        return [_plain(part, where) for part in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise CepError(
        f"sweep: {where} is a {type(value).__name__}; numbers, texts, booleans, None and lists can be kept"
    )


def _key(point: Mapping[str, Any]) -> str:
    """Return a key for a point, the same for equal parameters in any order."""
    plain = {str(name): _canonical(_plain(value, f"parameter {name!r}")) for name, value in point.items()}
    text = json.dumps(plain, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def _canonical(value: Any) -> Any:
    if isinstance(value, list):
        return [_canonical(part) for part in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _point_text(point: Mapping[str, Any]) -> str:
    return f"({', '.join(f'{name}={value!r}' for name, value in point.items())})"


# --- results


def _run_points(
    run: Callable, points: Mapping[str, dict], folder: Path | None, workers: int
) -> Iterator[tuple[str, pa.Table | Exception]]:
    """Run points and yield the key of each with its row or its error, as soon as it ends. Rows are kept."""

    def run_point(key: str) -> pa.Table | Exception:
        try:
            row = _row(points[key], run(**points[key]))
        except Exception as error:  # the other points still run
            return error
        if folder is not None:
            _keep(folder, key, row)
        return row

    if workers == 1:
        yield from ((key, run_point(key)) for key in points)
        return
    with ThreadPoolExecutor(workers) as pool:
        try:
            key_of = {pool.submit(run_point, key): key for key in points}
            for future in as_completed(key_of):
                yield key_of[future], future.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _row(point: Mapping[str, Any], found: Any) -> pa.Table:
    """Return a point and its result as a table of one row, with the values that a file would return."""
    if not isinstance(found, Mapping):
        raise CepError(f"sweep: the result is a {type(found).__name__}; a dict is needed")
    clash = next((name for name in found if name in point), None)
    if clash is not None:
        raise CepError(f"sweep: the result has {clash!r}, which is a parameter. Choose another name")
    columns = {}
    for name, value in {**point, **found}.items():
        try:
            columns[str(name)] = pa.array([_plain(value, f"{name!r}")])
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as refusal:
            raise CepError(f"sweep: {name!r} cannot be kept: {refusal}") from None
    return pa.table(columns)


def _result_of(row: pa.Table, point: Mapping[str, Any]) -> dict[str, Any]:
    (values,) = row.to_pylist()
    return {name: value for name, value in values.items() if name not in point}


def _frame(rows: list[tuple[dict, dict]]) -> pd.DataFrame:
    whole = [point | result for point, result in rows]
    columns = list(dict.fromkeys(name for row in whole for name in row))
    return pd.DataFrame({name: [row.get(name) for row in whole] for name in columns}, columns=columns)


def _error_text(failed: list[tuple[dict, Exception]], n_points: int, folder: Path | None) -> str:
    point, error = failed[0]
    text = f"sweep: point {_point_text(point)} raised {type(error).__name__}: {error}"
    if len(failed) > 1:
        text += f" (and {len(failed) - 1} more: {', '.join(_point_text(of) for of, _ in failed[1:4])}"
        text += ", …)" if len(failed) > 4 else ")"
    where = "are in the error's `done`" if folder is None else f"are kept in {str(folder)!r}"
    return f"{text}. {n_points - len(failed)} of {n_points} points {where}"


# --- files


def _open_folder(path: Path, name: str, version: str, points: list[dict]) -> Path:
    """Return the folder of the results, made if necessary; raise when it belongs to another sweep."""
    about = {
        "format": _FORMAT,
        "sweep": name,
        "version": version,
        "parameters": sorted(str(of) for of in (points[0] if points else ())),
    }
    is_new = not path.exists() or (path.is_dir() and not any(path.iterdir()))
    if is_new:
        path.mkdir(parents=True, exist_ok=True)
        _write_file(path / _SWEEP, lambda at: at.write_text(json.dumps(about, indent=1), encoding="utf-8"))
        return path
    try:
        found = json.loads((path / _SWEEP).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise SweepMismatchError(
            f"sweep: {str(path)!r} exists and holds no sweep. Name another folder"
        ) from None
    for what, wanted in about.items():
        if found.get(what) != wanted:
            raise SweepMismatchError(
                f"sweep: {str(path)!r} holds results of another sweep: {what} {found.get(what)!r}, not "
                f"{wanted!r}. Name another folder, or remove this one"
            )
    return path


def _read_results(folder: Path, keys: list[str], points: list[dict]) -> dict[str, dict[str, Any]]:
    whole = zip(keys, (_file(folder, key) for key in keys), points, strict=True)
    return {key: _result_of(pq.read_table(file), point) for key, file, point in whole if file.is_file()}


def _keep(folder: Path, key: str, row: pa.Table) -> None:
    file = _file(folder, key)
    file.parent.mkdir(exist_ok=True)
    _write_file(file, lambda at: pq.write_table(row, at))


def _file(folder: Path, key: str) -> Path:
    return folder / _POINTS / f"{key}.parquet"


def _write_file(file: Path, write: Callable[[Path], object]) -> None:
    """Write a file under another name and rename it, so that it is never incomplete."""
    part = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        write(part)
        part.replace(file)
    finally:
        part.unlink(missing_ok=True)
