"""K-Slack: a buffer that brings late rows back into order, as a stage before any stream."""

from __future__ import annotations

import copy
import heapq
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from cepkit.errors import CepError, OrderError, UnsupportedQueryError, nearest, warn
from cepkit.events import TIME
from cepkit.frames.arrow import ArrowSource
from cepkit.language.expressions.durations import duration_ticks, unit_missing
from cepkit.language.query_parts import Duration
from cepkit.planning.clocks import CLOCKS
from cepkit.streaming.batches import Kind, StreamSchema, kind_of_batch, schema_of, table_of_batch
from cepkit.streaming.saved import Saved, duration_as_json, save_file
from cepkit.streaming.search import StreamStatus
from cepkit.streaming.stream import AFTER_BUFFER, JoinStream, Stream, open_packed, pack_stream, split_late
from cepkit.values import asdict, dataclass, replace

if TYPE_CHECKING:
    from cepkit.widgets.panels import StreamBoard

MOST_LATE = 100_000  # late rows that are kept for the user
_MOST_CHUNKS = 64  # of the table of late rows, before it becomes one

LATE = ("pass", "drop")


@dataclass(frozen=True, slots=True)
class OrderMetrics:
    """How far a sequence of rows is from the order of its clock."""

    n: int = 0  # number of rows
    out_of_order: int = 0  # rows that come after a later row
    max_delay: int | float = 0  # the most that such a row comes late, in ticks of the clock
    latency: float = 0.0  # mean time that rows wait in a buffer, in ticks of the clock; 0 without a buffer
    dropped: int = 0  # late rows that were dropped

    @property
    def out_of_order_share(self) -> float:
        """The share of rows that come after a later row."""
        return self.out_of_order / self.n if self.n else 0.0

    @property
    def error(self) -> float:
        """The share of rows that are dropped or in a wrong place."""
        total = self.n + self.dropped
        return (self.out_of_order + self.dropped) / total if total else 0.0

    def with_row(self, delay: int | float) -> OrderMetrics:
        """Return the metrics with one more row, which comes this much late."""
        n, late = self.n + 1, self.out_of_order + (delay > 0)
        return replace(self, n=n, out_of_order=late, max_delay=max(self.max_delay, delay))


def order_metrics(time: np.ndarray) -> OrderMetrics:
    """Return how many events are late, and by how much at most."""
    time = np.asarray(time)
    if not len(time):
        return OrderMetrics()
    delay = np.maximum.accumulate(time) - time
    return OrderMetrics(len(time), int((delay > 0).sum()), delay.max().item())


class SlackBuffer:
    """The buffer of K-Slack over plain times; `KSlack` is the same for frames.

    Source: Li, Tufte, Shkapenyuk, Papadimos, Johnson, Maier, "Event Stream Processing with Out-of-Order Data
    Arrival", 2007, for a fixed K. Mutschler, Philippsen, "Distributed Low-Latency Out-of-Order Event
    Processing", 2013, for a K that grows. As in Siddhi, the buffer releases rows only when a row is later
    than all before it.
    """

    def __init__(
        self, slack: int | float | None = None, most: int | float | None = None, *, holds_ties: bool = False
    ):
        self.slack, self.most, self.holds_ties = slack or 0, most, holds_ties
        self.is_fixed = slack is not None
        self.newest: int | float | None = None
        self.n = 0
        self._waiting: list[tuple[int | float, int]] = []
        self._least: int | float | None = None

    def push(self, time: int | float) -> list[int]:
        """Add the next row; return the numbers of the rows that leave, in order."""
        heapq.heappush(self._waiting, (time, self.n))
        self.n += 1
        self._least = time if self._least is None else min(self._least, time)
        if self.newest is not None and time <= self.newest:
            return []
        self.newest = time
        if not self.is_fixed:
            slack = max(self.slack, time - self._least)
            self.slack = slack if self.most is None else min(self.most, slack)
        self._least = None
        return self._leave(time - self.slack)

    def flush(self) -> list[int]:
        """Return the numbers of all rows that still wait, in order."""
        return self._leave(None)

    def _leave(self, until: int | float | None) -> list[int]:
        left = []
        while self._waiting and (until is None or self._is_before(self._waiting[0][0], until)):
            left.append(heapq.heappop(self._waiting)[1])
        return left

    def _is_before(self, time: int | float, until: int | float) -> bool:
        return time < until if self.holds_ties else time <= until

    def copy(self) -> SlackBuffer:
        """Return a buffer with the same rows and numbers."""
        buffer = copy.copy(self)
        buffer._waiting = list(self._waiting)
        return buffer

    def save(self) -> dict[str, Any]:
        names = ("slack", "most", "holds_ties", "is_fixed", "newest", "n", "_waiting", "_least")
        return {name: getattr(self, name) for name in names}

    @classmethod
    def load(cls, saved: Mapping[str, Any]) -> SlackBuffer:
        buffer = cls()
        vars(buffer).update(saved)
        buffer._waiting = [(time, number) for time, number in saved["_waiting"]]
        return buffer


def reorder(
    time: np.ndarray, slack: int | float | None = None, most: int | float | None = None
) -> tuple[np.ndarray, OrderMetrics]:
    """Return the rows in the order in which K-Slack releases them, and the metrics of this order."""
    buffer, left, waited = SlackBuffer(slack, most), [], 0
    times = np.asarray(time).tolist()
    for value in times:
        released = buffer.push(value)
        left += released
        waited += sum(buffer.newest - times[row] for row in released)
    last = buffer.flush()
    waited += sum(buffer.newest - times[row] for row in last)
    left += last
    rows = np.array(left, np.int64)
    after = order_metrics(np.asarray(time)[rows])
    latency = waited / len(rows) if len(rows) else 0.0
    return rows, OrderMetrics(after.n, after.out_of_order, after.max_delay, latency)


def _delay(newest: int | float | None, time: int | float) -> int | float:
    """Return how much a row comes after the newest one before it; 0 if it is the newest."""
    return 0 if newest is None else max(0, newest - time)


class KSlack:
    """A buffer that brings late rows back into order, before a stream.

    It holds rows until a row is K later than they are. Rows that are later than K still come out of order.

    Parameters
    ----------
    slack : str, timedelta, int or float, optional
        A fixed K, such as ``"100 ms"``. None: K begins at 0 and grows with the delays that occur.
    most : str, timedelta, int or float, optional
        The largest K if it grows.
    order_by : str, optional
        The clock. Default: the only column of times.
    late : {"pass", "drop"}
        What happens to rows that K was too small for: they pass out of order, or they are dropped and
        counted. `cepkit.stream` refuses rows before its newest event, so use ``"drop"`` before it;
        ``late_rows`` keeps the newest 100,000 of them, and ``take_late_rows()`` hands them out.

    Raises
    ------
    CepError
        For a slack below 0, a fixed slack with ``most``, and unknown ways to treat late rows.

    Notes
    -----
    Only a row that is later than all before it releases rows. See `SlackBuffer` for the sources.

    Examples
    --------
    >>> import cepkit as cep
    >>> import pandas as pd
    >>> slack = cep.KSlack(2, order_by="ts")
    >>> slack.push(pd.DataFrame({"ts": [1, 3, 2, 5]}))["ts"].tolist()
    [1, 2, 3]
    >>> slack.close()["ts"].tolist()
    [5]
    >>> slack.before.out_of_order, slack.after.out_of_order
    (1, 0)
    """

    def __init__(
        self, slack: Duration | float | None = None, *, most: Duration | float | None = None,
        order_by: str | None = None, late: str = "pass",
    ):  # fmt: skip
        if slack is not None and most is not None:
            raise CepError(f"KSlack: slack={slack!r} is fixed, so most={most!r} has no effect. Give only one")
        if late not in LATE:
            raise CepError(
                f"KSlack: late={late!r} is not known.{nearest(str(late), LATE)} Write one of {[*LATE]}"
            )
        for name, value in (("slack", slack), ("most", most)):
            if isinstance(value, bool) or not isinstance(value, int | float | str | timedelta | None):
                raise CepError(f"KSlack: {name}={value!r}. Give a duration, such as '100 ms'")
            if isinstance(value, int | float) and not value >= 0:
                raise CepError(f"KSlack: {name}={value!r} is below 0")
        self._given = {"slack": slack, "most": most, "order_by": order_by, "late": late}
        self._order_by, self._late = order_by, late
        self._schema: StreamSchema | None = None
        self._kind = Kind("pandas")
        self._buffer: SlackBuffer | None = None
        self._rows: dict[int, int] = {}  # row of `_table` by number of arrival
        self._table: pa.Table | None = None
        self._waiting_time: dict[int, int | float] = {}
        self._newest_out: int | float | None = None
        self._before, self._after = OrderMetrics(), OrderMetrics()
        self._waited = 0.0
        self._dropped: pa.Table | None = None
        self._forgets_late = False

    def open_before(self, stream: Stream) -> SortedStream:
        """Return a stream with this buffer before it. It drops late rows, since a stream cannot go back."""
        if self._buffer is not None:
            raise CepError("KSlack: this buffer has rows already. Give each stream a buffer of its own")
        if isinstance(stream, JoinStream) or not isinstance(stream, Stream):
            raise UnsupportedQueryError(
                "KSlack: a join reads two streams. Push each side through a buffer of its own: "
                "pairs.push(left=slack.push(rows))"
            )
        if self._order_by is None and stream.query.order_by:
            self._order_by = stream.query.order_by[0]
        self._late = "drop"
        self._open(stream.schema, holds_ties=len(stream.query.order_by) > 1)
        return SortedStream(self, stream)

    # --- rows

    def push(self, batch: Any) -> Any:
        """Add a batch and return the rows that leave, as the same kind of frame.

        Parameters
        ----------
        batch : DataFrame, table or list of dict
            As for `cepkit.Stream.push`, with rows in the order of arrival. A list of dicts needs no schema.

        Raises
        ------
        CepError
            When the clock is missing or has no order, or a column has another type than before.
        OrderError
            When the clock is null, with the number of such rows.
        """
        if self._schema is None:
            self._open(schema_of(pa.Table.from_pylist(batch) if isinstance(batch, list) else batch))
        assert self._schema is not None and self._buffer is not None and self._table is not None
        table = table_of_batch(batch, self._schema)
        times = self._times(table)
        self._kind = kind_of_batch(batch)
        first = self._buffer.n
        offset = len(self._table)
        waiting = pa.concat_tables([self._table, table])
        out: list[int] = []
        for number, time in enumerate(times, start=first):
            self._rows[number] = offset + number - first
            self._waiting_time[number] = time
            self._before = self._before.with_row(_delay(self._buffer.newest, time))
            out += self._release(self._buffer.push(time))
        return self._send(waiting, out)

    def flush(self) -> Any:
        """Return no rows: only later rows release rows. `close` returns all rows that wait."""
        self._check_open()
        return self._send(self._table, [])

    def close(self) -> Any:
        """Return all rows that still wait, in order."""
        self._check_open()
        assert self._buffer is not None
        return self._send(self._table, self._release(self._buffer.flush()))

    # --- what `SortedStream` needs

    def mark(self) -> dict[str, Any]:
        """Return the state of the buffer; `go_back` returns to it."""
        assert self._buffer is not None
        copied = {name: copy.copy(getattr(self, name)) for name in ("_rows", "_waiting_time")}
        return {**vars(self), **copied, "_buffer": self._buffer.copy()}

    def go_back(self, mark: Mapping[str, Any]) -> None:
        """Return to the state of `mark`, which can be used once."""
        vars(self).update(mark)

    def drop(self, late: pa.Table) -> None:
        """Count rows that left the buffer as dropped, since the stream has passed them, and keep them."""
        if late.num_rows:
            self._keep_late(late)
            after, n = self._after, late.num_rows
            self._after = replace(after, n=after.n - n, dropped=after.dropped + n)

    def pack(self) -> Saved:
        """Return the content of the buffer for a file."""
        self._check_open()
        assert self._schema is not None and self._table is not None and self._buffer is not None
        header = {
            "given": {
                name: duration_as_json(value) if name in ("slack", "most") else value
                for name, value in self._given.items()
            },
            "order_by": self._order_by,
            "late": self._late,
            "frame": self._kind.name,
            "buffer": self._buffer.save(),
            "numbers": list(self._rows),
            "newest_out": self._newest_out,
            "waited": self._waited,
            "before": asdict(self._before),
            "after": asdict(self._after),
        }
        rows = self._table.take(pa.array(list(self._rows.values()), pa.int64()))
        dropped = self._late_table()
        return Saved(header, {}, {"waiting": rows, "dropped": dropped})

    @classmethod
    def unpack(cls, saved: Saved, schema: StreamSchema) -> KSlack:
        """Return the buffer that `pack` described."""
        header = saved.header
        k_slack = cls(**header["given"])
        k_slack._order_by, k_slack._late = header["order_by"], header["late"]
        k_slack._schema, k_slack._kind = schema, Kind(header["frame"])
        k_slack._buffer = SlackBuffer.load(header["buffer"])
        k_slack._table = saved.tables["waiting"].cast(schema.arrow)
        k_slack._rows = {number: row for row, number in enumerate(header["numbers"])}
        k_slack._waiting_time = dict(zip(header["numbers"], k_slack._times(k_slack._table), strict=True))
        k_slack._newest_out, k_slack._waited = header["newest_out"], header["waited"]
        k_slack._before, k_slack._after = OrderMetrics(**header["before"]), OrderMetrics(**header["after"])
        k_slack._dropped = saved.tables["dropped"].cast(schema.arrow)
        return k_slack

    def _release(self, numbers: list[int]) -> list[int]:
        """Count rows that leave the buffer; return those that are not dropped."""
        assert self._buffer is not None and self._buffer.newest is not None
        kept = []
        for number in numbers:
            time = self._waiting_time.pop(number)
            delay = _delay(self._newest_out, time)
            if not delay:
                self._newest_out = time
            elif self._late == "drop":
                self._after = replace(self._after, dropped=self._after.dropped + 1)
                kept.append(-1 - number)
                continue
            self._waited += self._buffer.newest - time
            after = self._after.with_row(delay)
            self._after = replace(after, latency=self._waited / after.n)
            kept.append(number)
        return kept

    def _send(self, waiting: pa.Table | None, out: list[int]) -> Any:
        """Keep the rows that wait, and return those that leave; negative numbers are dropped rows."""
        assert waiting is not None
        sent = [self._rows.pop(number) for number in out if number >= 0]
        dropped = [self._rows.pop(-1 - number) for number in out if number < 0]
        if dropped:
            self._keep_late(waiting.take(pa.array(dropped, pa.int64())))
        left = list(self._rows)
        self._table = waiting.take(pa.array([self._rows[number] for number in left], pa.int64()))
        self._rows = {number: row for row, number in enumerate(left)}
        return self.as_frame(waiting.take(pa.array(sent, pa.int64())))

    def as_frame(self, table: pa.Table) -> Any:
        """Return rows as the kind of frame of the last batch."""
        return self._kind.native(table, {name: name for name in table.schema.names})

    # --- the clock

    def _open(self, schema: StreamSchema, *, holds_ties: bool = False) -> None:
        """Note the clock and the unit of a stream. Raise if there is no clock."""
        columns = schema.columns
        if self._order_by is None:
            times = [name for name, column_type in columns.items() if column_type.kind == TIME]
            if len(times) != 1:
                raise CepError(
                    f"KSlack: name the clock with order_by='…'; the columns of times are {times}, and the "
                    f"columns {[*columns]}"
                )
            self._order_by = times[0]
        name = self._order_by
        if name not in columns:
            raise CepError(
                f"KSlack: order_by {name!r} is no column.{nearest(name, columns)} Columns: {[*columns]}"
            )
        if columns[name].kind not in CLOCKS:
            raise CepError(
                f"KSlack: order_by {name!r} is of type {columns[name]}. Give a column of times or numbers"
            )
        slack, most = (self._ticks(part, columns[name].unit) for part in ("slack", "most"))
        self._buffer = SlackBuffer(slack, most, holds_ties=holds_ties)
        self._schema, self._table = schema, schema.arrow.empty_table()

    def _ticks(self, name: str, unit: str | None) -> int | float | None:
        """Return a duration that the user gave in ticks of the clock."""
        value = self._given[name]
        if value is None:
            return None
        if unit is None:
            if not isinstance(value, int | float):
                raise unit_missing(name, value, str(self._order_by))
            return value
        ticks = duration_ticks(value, unit)
        if ticks < 0:
            raise CepError(f"KSlack: {name}={value!r} is below 0")
        return ticks

    def _times(self, table: pa.Table) -> list[int | float]:
        assert self._order_by is not None
        if nulls := table.column(self._order_by).null_count:
            raise OrderError(f"KSlack: {nulls:,} of {len(table):,} rows have no time in {self._order_by!r}")
        return ArrowSource(table.select([self._order_by])).column(self._order_by).values.tolist()

    def _check_open(self) -> None:
        if self._schema is None:
            raise CepError("KSlack: no batch has arrived yet. Call push(batch) first")

    # --- what it did

    @property
    def slack(self) -> int | float:
        """The current K, in ticks of the clock."""
        return 0 if self._buffer is None else self._buffer.slack

    @property
    def waiting(self) -> int:
        """The number of rows that wait."""
        return len(self._rows)

    @property
    def before(self) -> OrderMetrics:
        """The order in which rows arrived."""
        return self._before

    @property
    def after(self) -> OrderMetrics:
        """The order in which rows left, and how long they waited in ticks of the clock."""
        return self._after

    @property
    def late_rows(self) -> Any:
        """The rows that were dropped, the newest 100,000, as the kind of frame of the last batch."""
        self._check_open()
        return self.as_frame(self._late_table())

    def take_late_rows(self) -> Any:
        """Return `late_rows`, and forget them; `after` continues to count them."""
        rows, self._dropped = self.late_rows, None
        return rows

    def _late_table(self) -> pa.Table:
        assert self._schema is not None
        return self._schema.arrow.empty_table() if self._dropped is None else self._dropped

    def _keep_late(self, rows: pa.Table) -> None:
        """Keep late rows for the user, the newest ones of many."""
        late = pa.concat_tables([self._late_table(), rows.cast(self._late_table().schema)])
        if late.num_rows > MOST_LATE:
            if not self._forgets_late:
                self._forgets_late = True
                warn(
                    f"KSlack: more than {MOST_LATE:,} late rows; only the newest are kept. Call "
                    "take_late_rows() now and then, and give a larger slack to lose fewer"
                )
            late = late.slice(late.num_rows - MOST_LATE)
        n_chunks = max((column.num_chunks for column in late.columns), default=0)
        self._dropped = late.combine_chunks() if n_chunks > _MOST_CHUNKS else late

    def __repr__(self) -> str:
        words = [repr(self._given["slack"])] if self._given["slack"] is not None else []
        words += [
            f"{name}={self._given[name]!r}" for name in ("most", "order_by") if self._given[name] is not None
        ]
        words += ["late='drop'"] if self._late == "drop" else []
        return f"KSlack({', '.join(words)}): {self.before.n:,} rows, {self.waiting:,} waiting, K {self.slack}"


class SortedStream:
    """A stream after a `KSlack`: rows may arrive late by the slack.

    A row that comes before the newest event of the stream is dropped, counted and kept in
    ``slack.late_rows``. A batch that the stream refuses has no effect on the buffer either.

    ``slack`` is the buffer, with its metrics and late rows, and ``stream`` the stream after it.
    """

    def __init__(self, slack: KSlack, stream: Stream):
        self.slack, self.stream = slack, stream

    def push(self, batch: Any) -> Any:
        """Add rows, late ones among them, and return the matches that are complete.

        A refused batch has no effect: the buffer and the stream are as before, so no row is lost.
        """
        # Refuses nulls in all order columns, not only in the clock.
        split_late(self.stream, table_of_batch(batch, self.stream.schema))
        return self._pass_on(lambda: self.slack.push(batch))

    def push_row(self, row: Any) -> Any:
        """Add a row, as `push` of a list with it."""
        return self.push([row])

    def _pass_on(self, release: Callable[[], Any]) -> Any:
        """Give the rows that leave the buffer to the stream; an error takes the buffer back."""
        mark = self.slack.mark()
        try:
            released = release()
            table = table_of_batch(released, self.stream.schema)
            late, others = split_late(self.stream, table)
            if late.num_rows:
                self.slack.drop(late)
                released = self.slack.as_frame(others)
            return self.stream.push(released)
        except BaseException:
            self.slack.go_back(mark)
            raise

    def flush(self) -> Any:
        """Return the matches that are complete; rows in the buffer wait for later rows."""
        return self.stream.flush()

    def finish(self) -> Any:
        """Release all rows of the buffer, and return the matches that are then complete."""
        return self._pass_on(self.slack.close)

    def close(self, *, complete_until: Any = None) -> Any:
        """Close the stream as `cepkit.Stream.close` does; call `finish` first for the buffer's rows."""
        if self.slack.waiting:
            raise CepError(
                f"{self.slack.waiting:,} rows wait in the buffer. Call finish() first, then close()"
            )
        return self.stream.close(complete_until=complete_until)

    def status(self) -> StreamStatus:
        """Return the status of the stream, with the rows that came too late for the buffer."""
        return replace(self.stream.status(), late=self.slack.after.dropped)

    def board(self) -> StreamBoard:
        """Return a widget that shows this status and follows it, as `cepkit.Stream.board`."""
        return self.stream._board_of(self.status)

    def __enter__(self) -> SortedStream:
        return self

    def __exit__(self, *error: Any) -> None:
        self.stream.__exit__(*error)

    def save(self, path: Any) -> None:
        """Write the buffer and the stream into one file, from which `cepkit.stream.load` continues."""
        stream, slack = pack_stream(self.stream), self.slack.pack()
        saved = Saved({"kind": AFTER_BUFFER}, {}, {})
        save_file(path, saved.with_part("stream", stream).with_part("slack", slack))

    def __repr__(self) -> str:
        return f"{self.slack!r}, then {self.stream!r}"


def open_saved_stream(saved: Saved, shedding: Any = None, clock: Any = None) -> SortedStream:
    """Open the stream that `SortedStream.save` wrote; the parameters are those of `Stream.load`."""
    stream = open_packed(saved.part("stream"), shedding, clock)
    return SortedStream(KSlack.unpack(saved.part("slack"), stream.schema), stream)
