"""Queries of MATCH_RECOGNIZE on many streams: the search in Python, by kernels, and streams in batches."""

from __future__ import annotations

import datetime
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import pyarrow as pa

import cepkit as cep
from cepkit.errors import CepError, OrderError, UnsupportedQueryError
from cepkit.language.expressions import trees as ex
from cepkit.language.match_recognize import patterns as rp
from cepkit.language.match_recognize.parsing import parse_match_recognize
from cepkit.language.match_recognize.query import RowPatternQuery, SortKey
from cepkit.results.match_recognize import search as row_pattern_search
from tests.campaigns.tally import KERNELS, PYTHON, Tally, cuts_of
from tests.oracle import generate_match_recognize as gm
from tests.oracle import match_recognize as oracle
from tests.support.row_patterns import expression_tree, oracle_query

LANGUAGE = "match_recognize"
SCHEMA = pa.schema(
    [
        ("p", pa.int64()),
        ("k", pa.string()),
        ("t", pa.timestamp("s")),
        ("x", pa.int64()),
        ("y", pa.int64()),
        ("n", pa.int64()),
    ]
)
Answers = dict[int, list[Any]]


def check_row_patterns(seed: int, n_streams: int, tally: Tally, *, compiled: bool = False) -> None:
    """Compare one random query, or one with a WINDOW, on random streams. No query is compiled."""
    random = Random(f"row patterns {seed}")
    if random.random() < 0.2:
        _check_window(seed, n_streams, tally, random)
    else:
        _check_query(seed, n_streams, tally, random)


def _check_query(seed: int, n_streams: int, tally: Tally, random: Random) -> None:
    if random.random() < 0.25:
        drawn = gm.random_late_query(random)
    else:
        drawn = gm.random_query(random, depth=random.choice([1, 2, 2, 2, 3]))
    if random.random() < 0.5:  # streams do not sort
        drawn = replace(drawn, order_by=(SortKey("t"),))
    query = replace(drawn, partition_by=("p", *drawn.partition_by))
    rows_of = _rows_of_streams(random, seed, n_streams)
    asked = oracle_query(drawn)
    expected, failing = _expected(asked, rows_of)
    rows_of = {number: rows for number, rows in rows_of.items() if number not in failing[1:]}
    table = _table_of(rows_of)
    text = str(query)
    assert parse_match_recognize(text) == query, text
    tally.add(LANGUAGE, [*expected.values()])

    def say(number: int) -> str:
        return f"check_row_patterns({seed}, {n_streams}), stream {number}\n{text}\n{rows_of.get(number)}"

    if failing:
        _check_error(tally, text, table, failing[0], say)
        rows_of = {number: rows for number, rows in rows_of.items() if number != failing[0]}
        table = _table_of(rows_of)
        expected, _ = _expected(asked, rows_of)  # the latest time may be another one now
    names = ["k", "t", "x", "y"] if query.rows_per_match != "one" else list(drawn.partition_by)
    names += [name for name, _ in query.measures]
    if not table.num_rows:
        return
    for way in ("frame", "table in another order", "stream", "stream, saved"):
        for tier in (PYTHON, KERNELS) if way == "frame" else (PYTHON,):
            if way == "stream, saved" and random.random() < 0.5:
                continue
            n_counted = None
            try:
                with warnings.catch_warnings(), _tier(tier):
                    warnings.simplefilter("ignore", cep.CepWarning)
                    if way == "frame":
                        found = cep.match(table, text).to_frame()
                    elif way == "table in another order":
                        found = cep.match(table.take(random.sample(range(len(table)), len(table))), text)
                        found = found.to_frame()
                    else:
                        found, bounds = _streamed(text, table, random, saved=way.endswith("saved"))
                        n_counted = _n_divided(table, bounds)
            except UnsupportedQueryError:
                tally.not_run[LANGUAGE, way, tier] += 1
                continue
            except CepError as error:
                # Streams do not sort, and the rows are in the order of t alone.
                is_unsorted = isinstance(error, OrderError) and drawn.order_by != (SortKey("t"),)
                if way.startswith("stream") and (is_unsorted or "has no type before it runs" in str(error)):
                    tally.not_run[LANGUAGE, way, tier] += 1
                else:
                    tally.fail(LANGUAGE, way, tier, f"{error!r}\n{say(0)}")
                continue
            tally.compare(LANGUAGE, way, tier, expected, _by_stream(found, names), say, n_counted)


def _expected(asked: Any, rows_of: dict[int, list[dict[str, Any]]]) -> tuple[Answers, list[int]]:
    """Return the rows that the oracle finds in each stream, and the streams where AFTER MATCH fails."""
    times = [row["t"] for rows in rows_of.values() for row in rows]
    now = max(times, default=0) if asked.within else None
    expected: Answers = {}
    failing: list[int] = []
    for number, rows in rows_of.items():
        try:
            parts = [oracle.result_of_partition(asked, part, now) for part in oracle.partitions(asked, rows)]
        except oracle.MatchError:
            failing.append(number)
            continue
        expected[number] = sorted((_plain(row) for part in parts for row in part), key=repr)
    return expected, failing


def _check_error(tally: Tally, text: str, table: pa.Table, number: int, say: Any) -> None:
    try:
        found = cep.match(table, text).to_frame()
    except CepError as error:
        if "AFTER MATCH SKIP TO" in str(error):
            tally.compared[LANGUAGE, "errors of SKIP TO", PYTHON] += 1
            return
        found = repr(error)
    tally.fail(LANGUAGE, "errors of SKIP TO", PYTHON, f"no error but {found}\n{say(number)}")


def _tier(tier: str) -> Any:
    """Return what lets kernels find the matches in tables of any size, or nothing."""
    if tier == PYTHON:
        return nullcontext()
    return patch.multiple(row_pattern_search, FEWEST_ROWS=0)


def _rows_of_streams(random: Random, seed: int, n_streams: int) -> dict[int, list[dict[str, Any]]]:
    rows_of = {}
    for number in range(n_streams):
        own = Random(f"row patterns {seed} {number}")
        rows = gm.random_rows(own, own.choice([1, 2, 3, 4, 4, 5, 5, 6, 7]))
        begin = own.randint(0, 12)
        for row in rows:
            row["t"] += begin
        rows_of[number] = rows
    return rows_of


def _table_of(rows_of: Mapping[int, list[dict[str, Any]]]) -> pa.Table:
    rows = [{"p": number, **row} for number, own in rows_of.items() for row in own]
    rows.sort(key=lambda row: row["t"])
    return pa.Table.from_pylist([{**row, "n": n} for n, row in enumerate(rows)], SCHEMA)


def _by_stream(table: pa.Table, names: Sequence[str]) -> Answers:
    found: Answers = {}
    for row in table.to_pylist():
        found.setdefault(row["p"], []).append(_plain({name: row[name] for name in names}))
    return {number: sorted(rows, key=repr) for number, rows in found.items()}


def _plain(value: Any) -> Any:
    """Return a value as both sides write it: times as seconds, maps as sorted items."""
    if isinstance(value, datetime.datetime):
        return int(value.replace(tzinfo=datetime.UTC).timestamp())
    if isinstance(value, dict):
        return tuple(sorted(((key, _plain(one)) for key, one in value.items()), key=repr))
    if isinstance(value, list | tuple):
        made = [_plain(one) for one in value]
        if made and all(isinstance(one, tuple) and len(one) == 2 for one in made):
            return tuple(sorted(made, key=repr))
        return tuple(made)
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _streamed(
    text: str, table: pa.Table, random: Random, *, saved: bool
) -> tuple[pa.Table, list[tuple[int, int]]]:
    stream = cep.stream(text, table.schema)
    bounds = cuts_of(random, table.num_rows, 8)
    made = []
    with tempfile.TemporaryDirectory() as folder:
        for begin, end in bounds:
            made.append(stream.push(table.slice(begin, end - begin)))
            if saved and random.random() < 0.4:
                stream.save(Path(folder) / "state")
                stream = cep.stream.load(Path(folder) / "state")
        made.append(stream.close())
    return pa.concat_tables(made), bounds


def _n_divided(table: pa.Table, bounds: Sequence[tuple[int, int]]) -> int:
    """Return how many streams have rows in more than one batch."""
    batches: dict[int, set[int]] = {}
    streams = table.column("p").to_pylist()
    for number, (begin, end) in enumerate(bounds):
        for stream in streams[begin:end]:
            batches.setdefault(stream, set()).add(number)
    return sum(len(own) > 1 for own in batches.values())


# --- WINDOW


def _check_window(seed: int, n_streams: int, tally: Tally, random: Random) -> None:
    drawn = gm.random_window(random)
    columns = (("p", ex.Attribute("p")), ("n", ex.Attribute("n")), *drawn.columns)
    rows_query: RowPatternQuery = replace(drawn.rows, partition_by=("p", *drawn.rows.partition_by))
    query = replace(drawn, rows=rows_query, columns=columns)
    asked = oracle_query(drawn.rows)
    added = [
        (name, expression_tree(tree.operand)) for name, tree in drawn.columns
        if isinstance(tree, rp.OverWindow) and isinstance(tree.operand, rp.RowAggregate)
    ]  # fmt: skip
    asked = replace(asked, measures=[*asked.measures, *added])
    rows_of = _rows_of_streams(random, seed, n_streams)
    expected: Answers = {}
    for number, rows in rows_of.items():
        try:
            expected[number] = sorted((_plain(row) for row in _windowed(drawn, asked, rows)), key=repr)
        except oracle.MatchError:
            continue
    rows_of = {number: rows_of[number] for number in expected}
    if not rows_of:
        return
    table, text = _table_of(rows_of), str(query)
    assert parse_match_recognize(text) == query, text
    tally.add(LANGUAGE, [*expected.values()])

    def say(number: int) -> str:
        return f"check_row_patterns({seed}, {n_streams}), stream {number}\n{text}\n{rows_of[number]}"

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cep.CepWarning)
        try:
            found = cep.match(table, text).to_frame()
        except UnsupportedQueryError:
            tally.not_run[LANGUAGE, "WINDOW", PYTHON] += 1
            return
        except CepError as error:
            tally.fail(LANGUAGE, "WINDOW", PYTHON, f"{error!r}\n{say(0)}")
            return
    names = [name for name, _ in drawn.columns]
    tally.compare(LANGUAGE, "WINDOW", PYTHON, expected, _by_stream(found, names), say)


def _windowed(drawn: Any, asked: oracle.Query, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the columns of the SELECT for the rows of one stream."""
    source_of = {
        name: tree.operand.name if isinstance(tree, rp.OverWindow) and isinstance(tree.operand, ex.Attribute)
        else name
        for name, tree in drawn.columns
    }  # fmt: skip
    counts = {
        name for name, tree in drawn.columns
        if isinstance(tree, rp.OverWindow) and getattr(tree.operand, "function", "") == "count"
    }  # fmt: skip
    made = []
    for part in oracle.partitions(asked, rows):
        after = len(part) if drawn.frame_end is None else drawn.frame_end
        ends = [min(len(part), i + 1 + after) for i in range(len(part))]
        for row in oracle.result_of_window(asked, part, ends, seek=drawn.seek):
            shown = {name: row[source] for name, source in source_of.items()}
            # Without a match, the frame of a function OVER the window is empty: its count is 0.
            made.append({name: 0 if name in counts and own is None else own for name, own in shown.items()})
    return made
