"""Kept cases as the text of a `pytest` module that needs nothing but pandas and cepkit."""

from __future__ import annotations

import inspect
import math
import re
import textwrap
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa

from cepkit.api.matching import match
from cepkit.errors import CepError
from cepkit.explorer.cases import MATCH, ROWS, Case, holds
from cepkit.explorer.query.code import code_of
from cepkit.explorer.query.text import TextReading, applicable, collect_warnings
from cepkit.frames.pandas import as_pandas

if TYPE_CHECKING:
    from cepkit.compile.shared.bound_query import BoundQuery
    from cepkit.explorer.running.result import Result

MOST_LITERAL = 200  # rows of a frame that is written out; a longer one is read from the file of the data
# Rows before and after the case within its key; None: all. A match shows itself in its own rows. Where no
# match is found, a test needs the rows around, so that it says something about a later query, too.
_MARGINS_OF_FOUND = (0, 20, 100, None)
_MARGINS_OF_MISSING = (20, 0, 100, None)
_MOST_MATCHES = 100_000
_WIDTH = 100
_ASSERTIONS = {
    (MATCH, True): "assert rows in found",
    (MATCH, False): "assert rows not in found",
    ("range", True): "assert any(own <= rows for own in found)",
    ("touches", False): "assert not any(own & rows for own in found)",
    (ROWS, True): "assert any(rows <= own for own in found)",
    (ROWS, False): "assert not any(rows <= own for own in found)",
}
_SAID = {
    (MATCH, True): "A match has exactly these rows.",
    (MATCH, False): "No match has exactly these rows.",
    ("range", True): "A match lies within these rows.",
    ("touches", False): "No match takes one of these rows.",
    (ROWS, True): "A match has all of these rows.",
    (ROWS, False): "No match has all of these rows.",
}


@dataclass(frozen=True)
class CaseQuery:
    """The query that the cases belong to."""

    reading: TextReading  # the text in the editor, without mistakes
    call: Mapping[str, Any]  # further keywords of the call
    result: Result  # the result of this query
    file: str  # the file of the frame, or a placeholder
    is_known: bool  # whether the file is known


def write_tests(cases: Sequence[tuple[Case, bool | None]], tested: CaseQuery) -> str:
    """Return a `pytest` module with a test of each case.

    A test writes out the rows that its case needs: the smallest part of its keys in which the case holds, or
    fails, as in the whole frame. Where no match is found, the rows around the case are included. If these
    are more than `MOST_LITERAL` rows, the test reads the file of the frame.
    """
    used: set[str] = set()
    tests = [_test(case, is_held, tested, used) for case, is_held in cases]
    call = {name: value for name, value in tested.call.items() if name not in ("measures", "engine")}
    call = applicable(tested.reading.text, call)  # parameters of the measures are not needed
    code = textwrap.indent(code_of(tested.reading, call, "df"), "    ")
    functions = "".join(f"{source}\n\n\n" for source in _sources(call, tested.result.program))
    text = "\n\n".join(tests)
    imports = [f"import {name}\n" for name in ("datetime", "decimal") if f"{name}." in text]
    sample = "from cepkit.datasets import load_sample\n" if " = load_sample(" in text else ""
    return (
        '"""Cases that a query has to keep; run them with pytest."""\n\n'
        f"{''.join(imports)}{chr(10) if imports else ''}"
        f"import pandas as pd\n\nimport cepkit  # noqa: F401  it adds df.cep\n{sample}\n\n"
        f"{functions}"
        'def find_matches(df):\n    """Return the index labels of the rows of every match."""\n'
        f'{code}\n    rows = matches.to_frame("all", limit=None)\n'
        '    return [set(own.index) for _, own in rows.groupby("match")]\n\n\n'
        f"{text}"
    )


def _test(case: Case, is_held: bool | None, tested: CaseQuery, used: set[str]) -> str:
    program = tested.result.program
    names = _columns_to_read(program)
    key = case.relation, case.must
    small = _smallest(case, is_held, tested, names)
    if small is None:
        frame, rows = _reference(tested), case.rows
        labels: Sequence[Any] = rows
        if _is_index_needed(tested, names):
            labels = _labels(tested.result, np.array(rows, np.int64)) or rows
    else:
        shown, text = small
        labels = _labels(tested.result, np.array(shown, np.int64)) or shown
        index = "".join(_wrapped("index=", "[", list(map(_spell, labels)), "]", 8))
        frame = f"    df = pd.DataFrame(\n        {{\n{text}        }},\n{index}    )\n"
        label_of_row = dict(zip(shown, labels, strict=True))
        labels = [label_of_row[row] for row in case.rows]
    wanted = _set_text(labels)
    name = _name(case, used)
    return (
        f'def {name}():\n    """{_SAID[key]}"""\n{frame}{wanted}    found = find_matches(df)\n'
        f"    {_ASSERTIONS[key]}\n"
    )


def _name(case: Case, used: set[str]) -> str:
    words = re.sub(r"[^a-z0-9]+", "_", case.label.lower()).strip("_")[:60].strip("_")
    name = f"test_{words or 'rows'}_must_{'' if case.must else 'not_'}match"
    while name in used:
        name += "_too"
    used.add(name)
    return name


def _columns_to_read(program: BoundQuery) -> list[str]:
    """Return the columns of the frame that the query reads."""
    query = program.query
    names = [*query.partition_by, *query.order_by]
    names += [getattr(query, "event_type", None)]
    for name in program.columns_to_read:
        of = program.derived.get(name)
        names.append(name if of is None else of.column)
    return [name for name in dict.fromkeys(names) if name is not None]


# --- the smallest frame


def _smallest(
    case: Case, is_held: bool | None, tested: CaseQuery, names: Sequence[str]
) -> tuple[list[int], str] | None:
    """Return the rows and the columns, as text, of the smallest frame that shows the case as it is.

    None: the frame has to be read from the file.

    """
    result, tried = tested.result, set()
    query = replace(result.program.query, measures=None)
    if is_held is None:
        return None
    for rows in _parts(case, result, _MARGINS_OF_FOUND if is_held == case.must else _MARGINS_OF_MISSING):
        if len(rows) > MOST_LITERAL or len(rows) in tried:
            continue
        tried.add(len(rows))
        columns = [_column(result.data.source.arrow(name, rows)) for name in names]
        if any(column is None for column in columns):
            return None
        frame = pd.DataFrame({name: of[0] for name, of in zip(names, columns, strict=True)}, index=rows)
        if not names:
            frame = pd.DataFrame(index=rows)
        with collect_warnings():  # the editor shows them
            matches = match(frame, query)
            n = matches.count()
        if n > _MOST_MATCHES:
            return None
        found = as_pandas(matches.to_frame("all"))
        if holds(case, [own.index.tolist() for _, own in found.groupby("match")]) == is_held:
            lines = [_entry(name, of[1]) for name, of in zip(names, columns, strict=True)]
            return rows.tolist(), "".join(lines)
    return None


def _parts(case: Case, result: Result, margins: Sequence[int | None]) -> Iterator[np.ndarray]:
    """Yield the rows from the first to the last row of a case in its keys, with ``margins`` around them."""
    events = result.events
    positions = np.flatnonzero(np.isin(events.rows(np.arange(events.n_events)), case.rows))
    of_event = events.partition_of_event
    keys = [np.flatnonzero(of_event == key) for key in np.unique(of_event[positions])]
    for margin in margins:
        parts = []
        for own in keys:
            place = np.searchsorted(own, positions[np.isin(positions, own)])
            more = len(own) if margin is None else margin
            parts.append(own[max(0, place[0] - more) : place[-1] + 1 + more])
        yield events.rows(np.sort(np.concatenate(parts)))


def _column(values: pa.Array) -> tuple[Any, tuple[str, list[str], str]] | None:
    """Return a column and its text in three parts: beginning, values, end. None if text cannot have it."""
    of = values.type
    if pa.types.is_dictionary(of):
        values = values.cast(of.value_type)
        of = values.type
    plain, has_null = values.to_pylist(), values.null_count > 0
    if pa.types.is_timestamp(of):
        zone = f", {of.tz}" if of.tz else ""
        dtype = f"datetime64[{of.unit}{zone}]"
        texts = [None if one is None else str(one) for one in values.cast(pa.timestamp(of.unit)).to_pandas()]
        texts = [None if one in (None, "NaT") else f"{one}{'+00:00' if of.tz else ''}" for one in texts]
        return pd.array(texts, dtype=dtype), ("pd.array([", list(map(_spell, texts)), f'], dtype="{dtype}")')
    if pa.types.is_duration(of):
        dtype, ticks = f"timedelta64[{of.unit}]", values.cast(pa.int64()).to_pylist()
        if has_null:
            return None
        return pd.array(ticks, dtype=dtype), ("pd.array([", list(map(repr, ticks)), f'], dtype="{dtype}")')
    if pa.types.is_integer(of) or pa.types.is_boolean(of):
        dtype = "boolean" if pa.types.is_boolean(of) else "UInt64" if str(of) == "uint64" else "Int64"
        if has_null:
            texts = list(map(repr, plain))
            return pd.array(plain, dtype=dtype), ("pd.array([", texts, f'], dtype="{dtype}")')
        dtype = "bool" if pa.types.is_boolean(of) else dtype.lower()
        return np.array(plain, dtype=dtype), ("[", list(map(repr, plain)), "]")
    if pa.types.is_floating(of):
        numbers = [math.nan if one is None else one for one in plain]
        texts = [repr(one) if math.isfinite(one) else f'float("{one}")' for one in numbers]
        return np.array(numbers, np.float64), ("[", texts, "]")
    if pa.types.is_string(of) or pa.types.is_large_string(of) or str(of) == "string_view":
        texts = list(map(_spell, plain))
        if not any(one is not None for one in plain):
            return pd.array(plain, dtype="str"), ("pd.array([", texts, '], dtype="str")')
        return pd.array(plain, dtype="str"), ("[", texts, "]")
    if (pa.types.is_decimal(of) or pa.types.is_date(of)) and not has_null:
        module = "decimal." if pa.types.is_decimal(of) else ""
        texts = [f"{module}{one!r}" for one in plain]
        return np.array(plain, object), ("[", texts, "]")
    if pa.types.is_list(of) and pa.types.is_primitive(of.value_type) and not has_null:
        if any(one is None or one != one or math.isinf(one) for row in plain for one in row):
            return None
        return pd.Series(plain, dtype=object).array, ("[", list(map(repr, plain)), "]")
    return None


def _entry(name: str, text: tuple[str, list[str], str]) -> str:
    begin, values, end = text
    name = f"{_spell(name)}: "
    if len(values) > 1 and len(set(values)) == 1 and begin == "[":
        return f"            {name}[{values[0]}] * {len(values)},\n"
    return "".join(_wrapped(name, begin, values, end, 12))


def _spell(value: Any) -> str:
    """Return a value as Python text, with double quotes where possible."""
    text = repr(value)
    is_plain = isinstance(value, str) and text.startswith("'") and '"' not in text and "\\'" not in text
    return f'"{text[1:-1]}"' if is_plain else text


def _wrapped(name: str, begin: str, values: Sequence[str], end: str, indent: int) -> Iterator[str]:
    """Yield the lines of a list, in one line if it fits."""
    pad = " " * indent
    line = f"{pad}{name}{begin}{', '.join(values)}{end},\n"
    if len(line) <= _WIDTH:
        yield line
        return
    yield f"{pad}{name}{begin}\n"
    row = ""
    for value in values:
        if row and len(pad) + 6 + len(row) + len(value) > _WIDTH:
            yield f"{pad}    {row.rstrip()}\n"
            row = ""
        row += f"{value}, "
    yield f"{pad}    {row.rstrip()}\n"
    yield f"{pad}{end},\n"


# --- the frame from its file


def _reference(tested: CaseQuery) -> str:
    reader = "read_parquet"
    note = "" if tested.is_known else "  # a placeholder: the file of your frame"
    file = tested.file
    if file.startswith("sample:"):
        read = f"load_sample({_spell(file.removeprefix('sample:'))})"
    else:
        reader = "read_csv" if re.search(r"\.(csv|tsv)", file) else reader
        read = f"pd.{reader}({_spell(file)})"
    clock = next(iter(tested.result.program.query.order_by), None)
    times = ""
    if reader == "read_csv" and clock is not None and tested.result.data.schema[clock].kind == "time":
        times = f"    df[{_spell(clock)}] = pd.to_datetime(df[{_spell(clock)}])\n"
    numbered = "    df.index = range(len(df))\n"
    if _is_index_needed(tested, _columns_to_read(tested.result.program)):
        numbered = ""
    return f"    df = {read}{note}\n{times}{numbered}"


def _is_index_needed(tested: CaseQuery, names: Collection[str]) -> bool:
    """Return whether the query reads a level of the frame's index."""
    index = getattr(getattr(tested.result.data.source, "frame", None), "index", None)
    return any(name in names for name in getattr(index, "names", ()))


def _labels(result: Result, rows: np.ndarray) -> list[Any] | None:
    """Return the index labels of rows if text can have them; None: use the numbers of the rows."""
    if not result.names.has_labels:
        return None
    given = result.data.source.index_labels(rows)
    labels = [one.item() if isinstance(one, np.generic) else one for one in given]
    return labels if all(isinstance(one, int | str) for one in labels) else None


def _set_text(labels: Sequence[Any]) -> str:
    """Return the statement that assigns a set of labels to ``rows``."""
    if len(labels) > 1 and all(isinstance(one, int) for one in labels):
        steps = {after - before for before, after in pairwise(labels)}
        if steps == {1}:
            return f"    rows = set(range({labels[0]}, {labels[-1] + 1}))\n"
    text = "".join(_wrapped("rows = ", "{", list(map(_spell, labels)), "}", 4))
    return text.removesuffix(",\n") + "\n"


# --- functions


def _sources(call: Mapping[str, Any], program: BoundQuery) -> Iterator[str]:
    """Yield the sources of the Python functions of a query."""
    given = {of.__name__: of for of in (call.get("define") or {}).values() if callable(of)}
    for name, function in given.items():
        try:
            source = textwrap.dedent(inspect.getsource(function)).rstrip()
            source = source[source.index("def ") :] if source.startswith("@") else source
        except (OSError, TypeError):
            source = ""
        if not source.startswith("def "):
            raise CepError(f"the test needs the source of predicate {name!r}; define it by `def` in a cell")
        yield source
    for name in program.functions:
        if name not in given and not any(name == own for own, _ in (call.get("define") or {}).items()):
            yield f"# Register the function {name!r} here, as your notebook does."
