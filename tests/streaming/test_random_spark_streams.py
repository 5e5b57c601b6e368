"""Random queries in streams of Spark: any files, any lateness, and the matches of a finished frame."""

from __future__ import annotations

import itertools
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import reduce
from pathlib import Path
from random import Random
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cepkit as cep
from cepkit.errors import CepError
from cepkit.language.regex.query import RegexQuery
from cepkit.pipelines.spark_session import setting
from cepkit.streaming.batches import schema_of
from tests.support.sizes import seeds
from tests.support.spark_cases import plain, rows_of
from tests.support.stream_cases import MS, regex_case, sequence_case, with_clock

pytest.importorskip("pyspark")

N_OF_KIND = 5  # queries of each kind in one stream of Spark
N_CUTS = 3
N_FILES = 3
DELAYS = (0, 1, 4)  # of the watermark, in milliseconds


@dataclass(frozen=True)
class Drawn:
    """A query, its rows, and the longest delay of a row."""

    query: Any
    frame: pd.DataFrame
    delay: int

    def stream(self, spark: Any, folder: Path) -> Any:
        """Return the streaming frame of the files in a folder."""
        types = spark.createDataFrame(self.table(self.frame.head(0))).schema
        files = spark.readStream.schema(types).option("maxFilesPerTrigger", 1).parquet(str(folder))
        return files.withWatermark("ts", f"{self.delay} milliseconds")

    @property
    def end(self) -> pd.Timestamp:
        """The time of the row after all, which can be a match alone."""
        return self.frame["ts"].max() + pd.Timedelta("1D")

    def table(self, frame: pd.DataFrame) -> pa.Table:
        """Return rows as a table with the types of all rows."""
        return pa.Table.from_pandas(frame, schema=schema_of(self.frame).arrow, preserve_index=False)

    def write(self, folder: Path, seed: int) -> None:
        """Cut the rows in the order of a random arrival into files; the last file has a row after all.

        One row in eight arrives after all others.
        """
        rng = Random(f"arrival {seed}")
        slack = rng.choice([2, 6, 12]) * MS
        arrival = [(rng.random() < 1 / 8, time + rng.random() * slack) for time in self.frame["t"]]
        order = sorted(range(len(self.frame)), key=lambda row: arrival[row])
        cuts = sorted(rng.choices(range(1, len(order)), k=N_FILES - 1))
        parts = [self.frame.iloc[order[a:b]] for a, b in itertools.pairwise([0, *cuts, len(order)])]
        end = self.frame.tail(1).assign(ts=self.end, n=-1)
        folder.mkdir(parents=True)
        for number, part in enumerate([*parts, end]):
            path = folder / f"{number}.parquet"
            pq.write_table(self.table(part), path)
            os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))


def draw(spark: Any, folder: Path, seed: int, n_of_kind: int) -> list[Drawn]:
    """Return random queries of both kinds that streams of Spark take, and that have matches or not."""
    found: list[Drawn] = []
    for make in (regex_case, sequence_case):
        seeds = iter(range(1000 * seed, 1000 * (seed + 1)))
        n_before = len(found)
        while len(found) - n_before < n_of_kind:
            drawn = _drawn(make, next(seeds))
            if drawn is None:
                continue
            try:
                matches_of(drawn.stream(spark, folder), drawn.query)
                cep.match(drawn.frame, drawn.query)
            except CepError:  # such as a query without a window
                continue
            found.append(drawn)
    return found


def _drawn(make: Callable[[int], Any], seed: int) -> Drawn | None:
    """Return a random query with a time as its clock; None if its frame is too short for files."""
    query, frame = with_clock(*make(seed))
    if len(frame) < N_FILES:
        return None
    within = None if query.within is None else timedelta(microseconds=query.within)
    query = replace(query, order_by=("ts", "n"), within=within)
    return Drawn(query, frame.assign(ts=pd.to_datetime(frame["t"], unit="us", utc=True)), DELAYS[seed % 3])


def matches_of(stream: Any, query: Any) -> Any:
    """Return the matches of a query in a stream, with its late rows."""
    found = stream.cep.match(query).configure(late="rows")
    found = found.configure(unbounded=True) if isinstance(query, RegexQuery) else found
    return found.configure(buckets=3) if query.partition_by else found


def in_one_frame(frames: list[Any]) -> Any:
    """Return the rows of several frames as one frame: a column of structs for each of them."""
    from pyspark.sql import functions as F

    parts = []
    for own, frame in enumerate(frames):
        row = F.struct(*(F.col(f"`{name}`") for name in frame.columns))
        columns = [row if number == own else F.lit(None).cast(of.schema) for number, of in enumerate(frames)]
        parts.append(frame.select(*(column.alias(f"q{number}") for number, column in enumerate(columns))))
    return reduce(lambda one, other: one.unionAll(other), parts)


def rows_of_frame(table: pa.Table, number: int) -> list[dict[str, Any]]:
    """Return the rows of one frame of `in_one_frame`."""
    return [row for row in table.column(f"q{number}").to_pylist() if row is not None]


def counted(rows: list[dict[str, Any]]) -> Counter:
    return Counter(tuple(map(plain, row.values())) for row in rows)


def streamed(spark: Any, drawn: list[Drawn], folder: Path, seed: int) -> pa.Table:
    """Return what one stream of Spark writes that runs all queries on their files."""
    frames = []
    for number, one in enumerate(drawn):
        one.write(folder / f"in{number}", 100 * seed + number)
        frames.append(matches_of(one.stream(spark, folder / f"in{number}"), one.query).to_frame())
    written: list[pa.Table] = []
    writer = in_one_frame(frames).writeStream.option("checkpointLocation", str(folder / "state"))
    writer = writer.foreachBatch(lambda batch, number: written.append(batch.toArrow()))
    writer.trigger(availableNow=True).start().awaitTermination()
    return pa.concat_tables(written)


def compare(spark: Any, drawn: list[Drawn], folder: Path, seed: int) -> tuple[int, int]:
    """Compare a stream with batches on Spark and with pandas; return how many matches and late rows."""
    written, accepted, found = streamed(spark, drawn, folder, seed), [], []
    n_late = 0
    for number, one in enumerate(drawn):
        rows = rows_of_frame(written, number)
        late = [row.pop("late") for row in rows]
        matches = counted([row for row, is_late in zip(rows, late, strict=True) if is_late is None])
        found.append(Counter({row: n for row, n in matches.items() if plain(one.end) not in row}))
        late = {row["n"] for row in late if row is not None}
        n_late += len(late)
        kept = one.frame[~one.frame["n"].isin(late)]
        accepted.append(kept.sample(frac=1, random_state=seed).reset_index(drop=True))
    batches = [
        spark.createDataFrame(one.table(frame)).cep.match(one.query).to_frame()
        for one, frame in zip(drawn, accepted, strict=True)
    ]
    at_once = in_one_frame(batches).toArrow()
    for number, (one, frame) in enumerate(zip(drawn, accepted, strict=True)):
        wanted = Counter(rows_of(cep.match(frame, one.query).to_frame())[1])
        assert found[number] == wanted, f"stream of query {number}: {one.query}"
        assert counted(rows_of_frame(at_once, number)) == wanted, f"batch of query {number}: {one.query}"
    return sum(one.total() for one in found), n_late


@pytest.mark.filterwarnings("ignore::cepkit.errors.CepWarning")
@pytest.mark.parametrize("seed", seeds(1, 30))
def test_random_queries_in_streams_of_spark(seed, spark, tmp_path, full):
    """Thirty cases: ten random queries with three cuts; without --full, four queries until rows are late."""
    n_of_kind = N_OF_KIND if full else 2
    made = []
    # One watermark serves all streams. With the greatest one, rows of the other streams are late.
    policy = setting(spark, "spark.sql.streaming.multipleWatermarkPolicy", "max")
    with setting(spark, "spark.sql.shuffle.partitions", "1"), policy:
        drawn = draw(spark, tmp_path, seed, n_of_kind)
        for cut in range(N_CUTS):
            made.append(compare(spark, drawn, tmp_path / str(cut), 10 * seed + cut))
            print(f"cut {cut} of {len(drawn)} queries: {made[-1][0]} matches, {made[-1][1]} late rows")
            if not full and all(made[-1]):
                break
    n_found, n_late = map(sum, zip(*made, strict=True))
    assert n_found and n_late
