"""The work on one bucket of keys: it holds rows until the watermark passes them, then searches them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cepkit.errors import CepError, OrderError, UnsupportedQueryError
from cepkit.events import Events
from cepkit.frames.arrow import ArrowSource
from cepkit.frames.building import partition_codes
from cepkit.frames.spark import Order, check_total_order
from cepkit.language.match_recognize.query import RowsQuery
from cepkit.language.regex import RegexQuery
from cepkit.language.row_patterns import Pattern, Repeat
from cepkit.language.sequences.patterns import SequenceQuery
from cepkit.streaming.batches import StreamSchema, ordered_batch
from cepkit.streaming.chains import open_search
from cepkit.streaming.saved import Saved, load_bytes, save_bytes
from cepkit.streaming.search import Options
from cepkit.streaming.windows import Sides
from cepkit.values import dataclass, field
from cepkit.windows.running import Chain, keys_of_window
from cepkit.windows.spark import check_order
from cepkit.windows.values import Window

BucketQuery = RegexQuery | SequenceQuery | Window | RowsQuery | Sides | Chain
_KIND = "bucket of a Spark stream"


@dataclass(frozen=True)
class BucketPlan:
    """What all buckets of a stream share; it travels to Spark's workers."""

    query: BucketQuery
    # The columns that a bucket receives; the first column of ``query.order_by`` has the event times.
    schema: StreamSchema
    n_buckets: int = 1
    # The query and the settings as plain values. State of another identity is refused.
    identity: Mapping[str, Any] = field(default_factory=dict)
    # What opens searches with a latency bound, see `cepkit.shedding.live_stream`. Without it, no row is ever
    # dropped.
    shedding: Any = None

    def open_search(self) -> Any:
        """Return a `Search` that has seen no event."""
        if self.shedding is not None:
            return self.shedding.open_search(self.query, self.schema)
        return open_search(self.query, self.schema, Options())

    @property
    def partition_by(self) -> tuple[str, ...]:
        """Columns whose values share nothing with other values, so that buckets may divide them."""
        return keys_of_buckets(self.query)

    @property
    def sides(self) -> Sides | None:
        """The join that the rows come to; None if they have one side."""
        first = steps_of(self.query)[0]
        return first if isinstance(first, Sides) else None

    @property
    def clock(self) -> str:
        """Name of the column with the times of events; for a join, those of both sides."""
        return self.query.order_by[0] if self.sides is None else " or ".join(self.sides.clocks)

    def clock_of(self, rows: pa.Table) -> pa.ChunkedArray:
        return rows.column(self.clock) if self.sides is None else self.sides.clock_of(rows)


def steps_of(query: Any) -> tuple[Any, ...]:
    """Return the steps of a chain; another query is its only step."""
    return query.steps if isinstance(query, Chain) else (query,)


def refuse_unbounded(query: Any) -> None:
    """Raise for a regex query whose matches have no greatest length."""
    if not isinstance(query, RegexQuery) or query.within is not None:
        return
    if any(isinstance(part, Repeat) and part.high is None for part in _parts(query.pattern)):
        raise UnsupportedQueryError(
            f"matches of {str(query.pattern)!r} have no greatest length, so the state of the stream "
            "could grow without limit; give within=…, as in within='1 hour', or a greatest number of "
            "repetitions, as in a{1,100}. If your data end every match, call configure(unbounded=True)"
        )


def _parts(pattern: Pattern) -> list[Pattern]:
    return [pattern, *(part for child in pattern.children() for part in _parts(child))]


def keys_of_buckets(query: BucketQuery) -> tuple[str, ...]:
    """Return the columns by which buckets may divide the rows; none when one bucket needs all of them."""
    # The steps of a chain must share a key: it has the same values in the rows and in the results of each
    # step.
    if isinstance(query, Chain):
        first, *others = query.steps
        names = keys_of_buckets(first)
        if isinstance(first, Sides) and others:  # only a shared column has its name in the result, too
            names = tuple(left for left, right in first.keys.items() if left == right)
        keys_of_steps = [keys_of_buckets(step) for step in others]
        return tuple(name for name in names if all(name in keys for keys in keys_of_steps))
    if isinstance(query, Sides):
        return tuple(query.keys)
    return keys_of_window(query) if isinstance(query, Window) else query.partition_by


def why_one_bucket(query: BucketQuery) -> str:
    """Return why one bucket needs all rows of a query without keys."""
    first = steps_of(query)[0]
    if keys_of_buckets(first):
        return "the steps share no key"
    if isinstance(first, Sides):
        return _why_one_bucket_of_sides(first)
    if isinstance(first, RowsQuery):
        return "without PARTITION BY all rows are one partition"
    if not isinstance(first, Window):
        return "without partition_by all events are one stream"
    if first.time is None:
        return "a window of rows counts the rows of all groups together"
    return "without group_by the window ranges over all rows"


def _why_one_bucket_of_sides(sides: Sides) -> str:
    if not sides.join.on:
        return "without on every row may meet every other one"
    if not sides.is_timed:
        return "a window of rows counts the rows of all keys together"
    if sides.join.measures:
        return "measures range over the pairs of all keys"
    return "the keys of the sides have different types"


@dataclass(frozen=True)
class Received:
    """What a bucket returns for the rows of a micro-batch."""

    matches: pa.Table
    late: pa.Table  # rows that came after the bucket had passed their time
    n_rows: int
    changed: bool  # whether the bucket must be saved
    shed: Mapping[str, float] = field(default_factory=dict)  # what load shedding did


class Bucket:
    """A search with the rows that it holds back."""

    # Rows may come in any order. A row waits until the watermark is after its time; then it is searched with
    # all others in the order of the query. So the matches do not depend on how the stream was cut into
    # micro-batches. A row is late if its bucket has already passed its time; it is not searched.

    def __init__(self, plan: BucketPlan):
        self.plan = plan
        self._search = plan.open_search()
        self._held = plan.schema.arrow.empty_table()
        self._passed: int | None = None  # all rows before it are searched, in ticks
        self._wakes_at: int | None = None  # when the search has something to do even without rows
        self._n_events = 0
        self.n_bytes = 0  # of the saved state
        self.timer: int | None = None  # the timer that Spark has for the bucket, in milliseconds

    # --- rows in, matches out

    def receive(self, rows: pa.Table, watermark: int | None) -> Received:
        """Take rows in any order, and search those before the watermark."""
        sheds = self.plan.shedding is not None
        before = self._search.begin_counts() if sheds else {}
        n_rows = rows.num_rows
        time = self._ticks(rows)
        is_late = np.zeros(n_rows, bool) if self._passed is None else time < self._passed
        late = rows.filter(pa.array(is_late))
        if n_rows > late.num_rows:
            fresh = rows.filter(pa.array(~is_late)) if late.num_rows else rows
            self._held = pa.concat_tables([self._held, fresh])
        results = []
        if watermark is not None and (self._passed is None or watermark > self._passed):
            ready = self._take_ready(watermark)
            if ready.num_rows:
                results.append(self._advance(ready))
            if self._wakes_at is not None and self._wakes_at <= watermark:
                results.append(self._search.pass_time(watermark)[0])
                self._wakes_at = self._search.wakes_at
            if results:  # a bucket without work stays as it was saved
                self._passed = watermark
        changed = bool(results) or n_rows > late.num_rows
        shed = self._search.counts(before) if sheds else {}
        return Received(pa.concat_tables([self._search.empty, *results]), late, n_rows, changed, shed)

    def _ticks(self, rows: pa.Table) -> np.ndarray:
        column = self.plan.clock_of(rows)
        if column.null_count:
            raise OrderError(
                f"order_by: column {self.plan.clock!r} is null in {column.null_count:,} of {rows.num_rows:,} "
                "rows of a micro-batch; an event needs a time. Filter these rows first"
            )
        return pc.cast(column, pa.int64()).to_numpy()

    def _take_ready(self, watermark: int) -> pa.Table:
        is_ready = self._ticks(self._held) < watermark
        ready = self._held.filter(pa.array(is_ready))
        if ready.num_rows:
            self._held = self._held.filter(pa.array(~is_ready)).combine_chunks()
        return ready

    def _advance(self, ready: pa.Table) -> pa.Table:
        table, keys = ready, None
        if by := self.plan.query.order_by:
            table, keys = ordered_batch(ready, None, by, self.plan.schema)
        self._refuse_ties(table)
        results, _ = self._search.advance(table, keys, self._n_events)
        self._n_events += table.num_rows
        self._wakes_at = self._search.wakes_at
        return results

    def _refuse_ties(self, table: pa.Table) -> None:
        if (sides := self.plan.sides) is None:
            _check_order(table, Order(self.plan.partition_by, self.plan.query.order_by))
        elif sides.is_ordered:
            for side_rows, clock in zip(sides.tables(table), sides.clocks, strict=True):
                check_order(ArrowSource(side_rows), Order((), (clock,)))

    # --- what Spark and the user want to know

    @property
    def next_timer(self) -> int | None:
        """The watermark, in milliseconds, from which the bucket has something to do without new rows."""
        times = [] if self._wakes_at is None else [-(-self._wakes_at // 1000)]
        if self._held.num_rows:
            times.append(int(self._ticks(self._held).min()) // 1000 + 1)
        return min(times, default=None)

    def counts(self) -> dict[str, int]:
        """Return the numbers of held rows, of rows kept for later matches, and of live partial matches."""
        kept = self._search.n_retained
        live = self._search.n_live
        return {"held": self._held.num_rows, "kept": kept, "live": kept if live is None else live}

    # --- saving

    def pack(self) -> bytes:
        header = {
            "kind": _KIND, "identity": dict(self.plan.identity), "n_events": self._n_events,
            "passed": self._passed, "wakes_at": self._wakes_at, "timer": self.timer,
        }  # fmt: skip
        saved = Saved(header, {}, {"held": self._held})
        content = save_bytes(saved.with_part("search", self._search.pack(self._n_events)))
        self.n_bytes = len(content)
        return content

    @classmethod
    def unpack(cls, plan: BucketPlan, content: bytes) -> Bucket:
        """Return the bucket that `pack` wrote."""
        saved = load_bytes(content, "the checkpoint of the stream", _KIND)
        header = saved.header
        if differ := _differences(header["identity"], plan.identity):
            raise CepError(
                f"the checkpoint holds the state of another query: {differ}. Restart the query that "
                "wrote it, or begin with an empty checkpoint folder"
            )
        bucket = cls(plan)
        bucket._search.unpack(saved.part("search"))
        bucket._held = saved.tables["held"].cast(plan.schema.arrow)
        bucket._n_events, bucket._passed = header["n_events"], header["passed"]
        bucket._wakes_at, bucket.timer = header["wakes_at"], header["timer"]
        bucket.n_bytes = len(content)
        return bucket


def _check_order(table: pa.Table, order: Order) -> None:
    """Raise for rows in stream order that the order does not tell apart."""
    source = ArrowSource(table)
    events = Events(table.num_rows, {}, *partition_codes(source, order.partition_by))
    check_total_order(source, events, order)


def _differences(saved: Mapping[str, Any], current: Mapping[str, Any]) -> str:
    """Return in words which values of two identities differ; empty if none does."""
    saved, current = json.loads(json.dumps(dict(saved))), json.loads(json.dumps(dict(current)))
    names = [name for name in {**saved, **current} if saved.get(name) != current.get(name)]
    return "; ".join(f"{name} was {saved.get(name)!r}, and is {current.get(name)!r}" for name in names)
