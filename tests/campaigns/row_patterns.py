"""Random queries of MATCH_RECOGNIZE, each on many partitions of one table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from functools import partial
from random import Random
from typing import Any

import pyarrow as pa

import cepkit as cep
from cepkit.language.match_recognize.query import RowPatternQuery, WindowedRows
from tests.campaigns.streams import Answer, Differs, same
from tests.oracle.generate_match_recognize import random_late_query, random_query, random_rows, random_window
from tests.oracle.match_recognize import MatchError, partitions, result, result_of_window
from tests.support.row_patterns import oracle_query

SCHEMA = pa.schema(
    {"u": pa.string(), "k": pa.string(), "t": pa.timestamp("s"), "x": pa.int64(), "y": pa.int64(),
     "i": pa.int64()}
)  # fmt: skip
Rows = list[dict[str, Any]]
Query = RowPatternQuery | WindowedRows
Expected = Callable[[Rows], Rows]


def answer(seed: int, n_streams: int) -> Answer:
    """Compare a query that stands in a FROM clause."""
    random = Random(f"row patterns {seed}")
    late, depth = random.random() < 0.2, random.choice([2, 2, 2, 3])
    query = random_late_query(random) if late else random_query(random, depth=depth)
    query = replace(query, partition_by=("u", *query.partition_by))
    asked = oracle_query(query)

    streams = _streams(random, n_streams, query, partial(result, asked))
    rows = _shuffled(random, streams)
    wanted = result(asked, rows)
    found = cep.match(_table(rows), str(query)).to_frame(limit=None).to_pylist()
    same([*map(plain_row, found)], [*map(plain_row, wanted)], "rows")
    return Answer(len(streams), len({row["u"] for row in wanted if _is_matched(row)}))


def answer_windows(seed: int, n_streams: int) -> Answer:
    """Compare a query that stands in a WINDOW clause."""
    random = Random(f"row windows {seed}")
    query = random_window(random, depth=2)
    query = replace(query, rows=replace(query.rows, partition_by=("u", *query.rows.partition_by)))
    asked = oracle_query(query.rows)

    def expected(rows: Rows) -> Rows:
        made = []
        for partition in partitions(asked, rows):
            after = len(partition) if query.frame_end is None else query.frame_end
            ends = [min(len(partition), i + 1 + after) for i in range(len(partition))]
            made += result_of_window(asked, partition, ends, seek=query.seek)
        return made

    streams = _streams(random, n_streams, query, expected)
    rows = _shuffled(random, streams)
    names = [name for name, _ in query.rows.measures]
    wanted = {row["i"]: plain([row[name] for name in names]) for row in expected(rows)}
    table = cep.match(_table(rows), str(query)).to_frame(limit=None).to_pylist()
    found = [plain([row[f"o{i}"] for i in range(len(names))]) for row in table]
    same(found, [wanted[row["i"]] for row in rows], "rows")
    with_match = {row["u"] for row in rows if any(value is not None for value in wanted[row["i"]])}
    return Answer(len(streams), len(with_match))


def _streams(random: Random, n_streams: int, query: Query, expected: Expected) -> list[Rows]:
    """Return streams without an error; test that a match without a row to continue at is refused."""
    streams: list[Rows] = []
    for number in range(n_streams):
        rows = random_rows(random, random.randint(0, 8))
        streams.append([{**row, "u": f"u{number:03}", "i": 100 * number + i} for i, row in enumerate(rows)])
    clause = query.rows if isinstance(query, WindowedRows) else query
    if clause.after_match not in ("to_first", "to_last"):
        return streams
    kept = [rows for rows in streams if not _has_error(expected, rows)]
    refused = next((rows for rows in streams if rows not in kept), None)
    if refused is not None:
        try:
            cep.match(_table(refused), str(query)).to_frame(limit=None)
        except cep.CepError as error:
            if "AFTER MATCH SKIP TO" not in str(error):
                raise
        else:
            raise Differs(f"no error for {refused}")
    return kept


def _has_error(expected: Expected, rows: Rows) -> bool:
    try:
        expected(rows)
    except MatchError:
        return True
    return False


def _shuffled(random: Random, streams: list[Rows]) -> Rows:
    rows = [row for stream in streams for row in stream]
    return random.sample(rows, len(rows))


def _table(rows: Rows) -> pa.Table:
    return pa.Table.from_pylist(rows, SCHEMA)


def _is_matched(row: dict[str, Any]) -> bool:
    """Return whether a row belongs to a match, as far as its measures show."""
    return any(row[name] is not None for name in row.keys() - set(SCHEMA.names))


def plain_row(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row of plain values."""
    return {name: plain(value) for name, value in row.items()}


def plain(value: Any) -> Any:
    """Return a value with numbers for times, pairs for maps, and None for NaN."""
    match value:
        case dict():
            return [[plain(key), plain(item)] for key, item in value.items()]
        case list() | tuple():
            return [*map(plain, value)]
        case datetime():
            return int((value - datetime(1970, 1, 1)).total_seconds())
    return None if value != value else value
