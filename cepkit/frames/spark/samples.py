"""The first matches, or a random sample, where no task knows the matches of the others."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

import numpy as np
import pandas as pd
import pyarrow as pa

from cepkit.frames.spark.sequences import Results, Searched

_GOLDEN = 0x9E3779B97F4A7C15  # constant of splitmix64, as the two below
_MIX = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


@dataclass(frozen=True, slots=True)
class First:
    """The first ``n`` matches of a task, and the others at the time of the last one."""

    n: int

    def __call__(self, searched: Searched) -> Iterator[Results]:
        """Yield the result columns and the places of these matches."""
        numbers, ranks = self._numbers(searched)
        yield [*searched.measures(searched.matches.take(numbers)), ("rank", pa.array(ranks, pa.int64()))]

    def _numbers(self, searched: Searched) -> tuple[list[int], list[int]]:
        positions, counts = searched.matches.ends()
        numbers: list[int] = []
        ranks: list[int] = []
        first, stop = 0, len(positions)
        for end in range(len(positions)):
            if end >= stop:
                break
            n_taken = min(int(counts[end]), self.n)
            numbers += range(first, first + n_taken)
            ranks += range(n_taken)
            first += int(counts[end])
            if len(numbers) >= self.n and stop == len(positions):
                # The task cannot decide which partition comes first at the same time.
                stop = self._end_of_time(searched, np.asarray(positions), end)
        return numbers, ranks

    def _end_of_time(self, searched: Searched, positions: np.ndarray, end: int) -> int:
        rows = searched.events.rows(positions[end:].astype(np.int64))
        is_same = np.ones(len(rows), bool)
        for name in searched.query.order_by:
            values = searched.source.column(name).values[rows]
            is_same &= values == values[0]
        return end + int(np.append(is_same, False).argmin())


@dataclass(frozen=True, slots=True)
class Drawn:
    """The matches of a task that may be in a uniform sample of ``n`` matches of all tasks.

    Every match has a random waiting time, exponential and independent of the others; the sample is the ``n``
    shortest times. Matches with the same last event need no separate times: the shortest of N waiting times
    is a single one divided by N, and the next ones follow in the same way.

    The sample depends on ``seed`` and the last events of the matches, not on the number of tasks.

    Source: Efraimidis, Spirakis, "Weighted random sampling with a reservoir", Information Processing Letters
    97(5), 2006.
    """

    n: int
    seed: int

    def __call__(self, searched: Searched) -> Iterator[Results]:
        """Yield result columns, order and partition columns, place in the sample, and waiting time."""
        positions, counts = searched.matches.ends()
        rows = searched.events.rows(np.asarray(positions, np.int64))
        hashes = _hashes(searched, rows, self.seed)
        drawn = sorted(_shortest(counts, hashes, self.n))
        block = searched.matches.take([number for number, _ in drawn])
        times = np.array([time for _, time in drawn], np.float64)
        yield [
            *searched.measures(block),
            ("place", pa.array(np.arange(len(drawn)))),
            ("time", pa.array(times)),
        ]


def _shortest(counts: np.ndarray | list[int], hashes: np.ndarray, n: int) -> list[tuple[int, float]]:
    """Return the numbers of the ``n`` matches with the shortest waiting times, and the times' logarithms."""
    if n < 1 or not len(counts):
        return []
    logs = np.array([math.log(int(count)) for count in counts])
    uniform = ((hashes >> np.uint64(11)).astype(np.float64) + 0.5) / 2.0**53
    first_time = np.log(-np.log1p(-uniform)) - logs
    ends = np.argsort(first_time, kind="stable")[:n]
    waiting = [(float(first_time[end]), int(end)) for end in ends]
    heapq.heapify(waiting)
    first_number = np.concatenate([[0], np.cumsum(np.array([int(count) for count in counts], dtype=object))])
    randoms = {int(end): Random(int(hashes[end])) for end in ends}
    taken: dict[int, set[int]] = {int(end): set() for end in ends}
    drawn: list[tuple[int, float]] = []
    while waiting and len(drawn) < n:
        time, end = heapq.heappop(waiting)
        count, own, random = int(counts[end]), taken[end], randoms[end]
        rank = random.randrange(count)
        while rank in own:
            rank = random.randrange(count)
        own.add(rank)
        drawn.append((int(first_number[end]) + rank, time))
        if (n_left := count - len(own)) > 0:
            step = math.log(random.expovariate(1.0) or 5e-324) - math.log(n_left)
            heapq.heappush(waiting, (float(np.logaddexp(time, step)), end))
    return drawn


def _hashes(searched: Searched, rows: np.ndarray, seed: int) -> np.ndarray:
    """Return a random uint64 per event that depends on ``seed`` and the event's key columns."""
    query = searched.query
    # As a text, a seed of any size works.
    mixed = np.full(len(rows), Random(f"cepkit {seed}").getrandbits(64), np.uint64)
    for name in (*query.order_by, *query.partition_by):
        array = searched.source.arrow(name, rows)
        mixed = _mix(mixed ^ pd.util.hash_array(_values(array), categorize=False).astype(np.uint64))
        mixed += array.is_valid().to_numpy(zero_copy_only=False)
    return mixed


def _values(array: pa.Array) -> np.ndarray:
    """Return the values in a type that does not depend on nulls; nulls get some value."""
    of = array.type
    if pa.types.is_integer(of) or pa.types.is_temporal(of):
        return array.cast(pa.int32() if pa.types.is_date32(of) else pa.int64()).fill_null(0).to_numpy()
    if pa.types.is_floating(of):
        return array.fill_null(0.0).to_numpy()
    return np.array([str(value) for value in array.to_pylist()], dtype=object)


def _mix(numbers: np.ndarray) -> np.ndarray:
    """Return the numbers after splitmix64, a one-to-one mix of their bits."""
    numbers = numbers + np.uint64(_GOLDEN)
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(_MIX[0])
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(_MIX[1])
    return numbers ^ (numbers >> np.uint64(31))
