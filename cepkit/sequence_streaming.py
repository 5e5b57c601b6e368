"""Open streams of sequence queries: batches of events in, each match out when nothing can undo it."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pyarrow as pa

from cepkit.compile.sequences.program import SequenceProgram, compile_sequence
from cepkit.engines.after_match import Reporter
from cepkit.engines.measures.regex_measures import Picked
from cepkit.engines.measures.sequence_measures import sequence_measures, variables_of_items
from cepkit.engines.shared.places import Places
from cepkit.engines.shared.sequence_set import EMPTY, MatchBlock, SequenceSet
from cepkit.errors import CepError, warn
from cepkit.events import Events
from cepkit.frames.arrival import ordered_batch
from cepkit.frames.arrow import ArrowSource
from cepkit.frames.batches import Kind, StreamSchema, kind_of_batch, table_of_batch
from cepkit.frames.building import build_events
from cepkit.language.sequences.query import SequenceQuery
from cepkit.planning.planner import choose_engine
from cepkit.planning.validation import compile_checked
from cepkit.state import Saved, save_file, sequence_as_json


class SequenceStream:
    """An open stream of a sequence query; made by `cepkit.stream`. One thread at a time may use it.

    It keeps the events that later matches may contain (all of them where no window bounds a match) and looks
    at them again with every batch, so batches should not be much smaller than the window.
    """

    def __init__(self, query: SequenceQuery, schema: StreamSchema, rows: str, kind: Kind):
        bound = schema.without_nulls(query.order_by)  # events without their place in time are refused before
        program = compile_checked(query, bound.source())
        choose_engine(program)
        self.query, self.schema, self._rows, self._kind = query, schema, rows, kind
        if taken := [n for n in ("match", "variable") if rows == "all" and n in schema.columns]:
            raise CepError(
                f"rows='all' adds the columns 'match' and 'variable'; the schema has {taken}, rename"
            )
        window = program.window
        if window.within is None and window.within_events is None:
            warn(
                "without a window every event of the stream is kept, since any later one may belong to a "
                "match with it; give the query a WITHIN",
            )
        self._program = program
        source = bound.source()
        none = Events(0, {}, np.empty(0, np.int32), 0)
        self._column_of_result = {name: name for name in schema.arrow.names}
        if rows == "one":
            measured = sequence_measures(program, none, EMPTY, source)
            self._column_of_result = {n: m.column for n, m in measured.items() if isinstance(m, Picked)}
        self._reporter = Reporter(program)
        self._kept = schema.arrow.empty_table()
        self._position_of_kept = np.empty(0, np.int64)
        self._newest: pa.Table | None = None  # the order columns of the newest event
        self._done = (-1, 0)  # the last event of the matches handed out, and how many of them end there
        self._codes: dict[tuple, int] = {}  # of partitions with matches, under an after-match policy
        self._n_events = self._n_matches = 0
        self._closed = False

    # --- events in, matches out

    def push(self, batch: Any) -> Any:
        """Take the next events and return the matches that are complete, in canonical order.

        Nothing of a batch has an effect when it is refused.

        Parameters
        ----------
        batch : DataFrame, table or list of dict
            pandas, polars, Arrow table or record batch, with at least the schema's columns. Its rows may
            stand in any order, but none may come before the newest event of earlier batches; ties keep the
            order in which they come.

        Returns
        -------
        DataFrame, table or list of dict
            As the batch; the columns of `SequenceMatches.to_frame`. A match that an absent event behind it
            could still forbid waits for the end of its window, and those behind it in the order wait with it.

        Raises
        ------
        ColumnNotFoundError, CepError
            When a column is missing or its values do not fit.
        OrderError
            When rows come before the newest event so far or have no value to be ordered by.
        """
        self._check_open()
        table, newest = table_of_batch(batch, self.schema), self._newest
        kind = kind_of_batch(batch)
        if self.query.order_by and table.num_rows:
            table, keys = ordered_batch(table, newest, self.query.order_by, self.schema)
            newest = keys.slice(len(keys) - 1)
        position = np.arange(self._n_events, self._n_events + table.num_rows)
        whole = pa.concat_tables([self._kept, table.select(self._kept.schema.names)]).combine_chunks()
        position = np.concatenate([self._position_of_kept, position])
        made = kind.native(self._advance(whole, position, is_last=False), self._column_of_result)
        self._newest, self._kind = newest, kind
        self._n_events += table.num_rows
        return made

    def close(self) -> Any:
        """Return the matches that waited for the end of their window, and take no more events."""
        self._check_open()
        made = self._advance(self._kept, self._position_of_kept, is_last=True)
        self._closed = True
        return self._kind.native(made, self._column_of_result)

    def flush(self) -> Any:
        """Return the matches that are complete and not yet handed out: none, `push` returns all of them."""
        self._check_open()
        none = Events(0, {}, np.empty(0, np.int32), 0)
        made = self._results(self._program, ArrowSource(self._kept), none, EMPTY)
        return self._kind.native(made, self._column_of_result)

    def _advance(self, whole: pa.Table, position: np.ndarray, *, is_last: bool) -> pa.Table:
        source = ArrowSource(whole)
        program = compile_sequence(self.query, source.schema)
        events = build_events(source, program)
        found = choose_engine(program).run(program, events)
        block = self._complete(program, events, found, position, is_last=is_last)
        done = self._done
        if len(block):
            last = position[block.last]
            n_there = int((last == last[-1]).sum())
            done = (int(last[-1]), n_there + (done[1] if done[0] == last[-1] else 0))
        if self._reporter.policy != "none":
            block = self._reported(source, events, block, position)
        made = self._results(program, source, events, block)
        keep = self._needed(program, events)
        self._kept, self._position_of_kept, self._done = whole.filter(pa.array(keep)), position[keep], done
        self._n_matches += len(block)
        return made

    def _complete(
        self,
        program: SequenceProgram,
        events: Events,
        found: SequenceSet,
        position: np.ndarray,
        *,
        is_last: bool,
    ) -> MatchBlock:
        """Return the matches that are complete and were not handed out before."""
        done, n_there = self._done
        first_new = int(np.searchsorted(position, done))
        block = found.ending(first_new, events.n_events)
        again = int((position[block.last] == done).sum())
        block = block.take(slice(min(n_there, again), None))
        if is_last or not _waits(program) or not len(block):
            return block
        window, time = program.window, events.columns[program.clock].values
        age = time[-1] - time[block.first]
        decided = age > window.within if window.closed else age >= window.within
        n_decided = len(block) if decided.all() else int(np.argmin(decided))
        if self._reporter.policy != "none" and n_decided < len(block):
            # A policy looks at all matches with one last event together.
            n_decided = int(np.searchsorted(block.last, block.last[n_decided]))
        return block.take(slice(0, n_decided))

    def _reported(
        self, source: ArrowSource, events: Events, block: MatchBlock, position: np.ndarray
    ) -> MatchBlock:
        rows = events.rows(block.last)
        parts = [source.arrow(name, rows).to_pylist() for name in self.query.partition_by]
        keys = list(zip(*parts, strict=True)) if parts else [()] * len(block)
        codes = np.array([self._codes.setdefault(key, len(self._codes)) for key in keys], np.int64)
        return self._reporter.reported(block, codes, position)

    def _needed(self, program: SequenceProgram, events: Events) -> np.ndarray:
        """Return which events later matches may need, bool, (n_events,)."""
        window, n = program.window, events.n_events
        keep = np.ones(n, bool)
        if n == 0 or (window.within is None and window.within_events is None):
            return keep
        if window.within is not None:
            time = events.columns[program.clock].values
            # A match that waits began at most one window ago; an event that forbids it, one more before.
            n_windows = 1 + _waits(program) * (2 if _looks_back(program) else 1)
            keep &= time[-1] - time <= n_windows * window.within
        elif window.within_events is not None:
            places = Places(program, events)
            left = places.end_of_partition - np.arange(n)
            keep[places.position_of_place[left >= window.within_events]] = False
        if any(
            c.step == "strict" or c.inner == "strict" for b in program.branches for c in b.branch.components
        ):
            # Neighbours in the stream stay neighbours only where nothing between them is left out.
            keep[int(np.argmax(keep)) :] = True
        return keep

    def _results(
        self, program: SequenceProgram, source: ArrowSource, events: Events, block: MatchBlock
    ) -> pa.Table:
        if self._rows == "one":
            return source.result(sequence_measures(program, events, block, source))
        names = np.array(self.query.variables, dtype=object)[variables_of_items(program, block)]
        numbers = {"match": block.match_of_item + self._n_matches, "variable": names}
        return source.rows(events.rows(block.event_of_item), numbers)

    def _check_open(self) -> None:
        if self._closed:
            raise CepError("the stream is closed; open another one with cep.stream")

    def __enter__(self) -> SequenceStream:
        return self

    def __exit__(self, error: type | None, *_: object) -> None:
        self._closed = True

    # --- a look

    @property
    def events(self) -> int:
        """Number of events taken."""
        return self._n_events

    @property
    def matches(self) -> int:
        """Number of matches handed out."""
        return self._n_matches

    @property
    def retained(self) -> int:
        """Number of events kept for later matches."""
        return len(self._position_of_kept)

    def __repr__(self) -> str:
        events, matches = f"{self.events:,} event", f"{self.matches:,} match"
        parts = [
            events if self.events == 1 else events + "s",
            matches if self.matches == 1 else matches + "es",
            f"{self.retained:,} row{'' if self.retained == 1 else 's'} kept",
        ]
        state = "Closed stream" if self._closed else "Stream"
        return f"{state} of {str(self.query.pattern)!r}: {', '.join(parts)}"

    # --- saving

    def save(self, path: str | os.PathLike) -> None:
        """Write the stream into one file, from which `cepkit.stream.load` goes on as if nothing had happened.

        The file is written whole or not at all. It holds data and the query's text, no code.

        Raises
        ------
        CepError
            When a parameter's value cannot be written as text.
        """
        self._check_open()
        horizon = self._reporter.horizon
        header = {
            "kind": "stream",
            "sequence": sequence_as_json(self.query),
            "rows": self._rows,
            "ordered": {name: list(texts) for name, texts in self.schema.ordered.items()},
            "frame": self._kind.name,
            "counts": [self._n_events, self._n_matches, *self._done],
        }
        arrays = {
            "position": self._position_of_kept,
            "horizon/code": np.array(list(horizon), np.int64),
            "horizon/position": np.array(list(horizon.values()), np.int64),
            "taken": np.array(sorted(self._reporter.taken), np.int64),
        }
        keys = {f"k{i}": [key[i] for key in self._codes] for i in range(len(self.query.partition_by))}
        types = [(f"k{i}", self.schema.arrow.field(n).type) for i, n in enumerate(self.query.partition_by)]
        tables = {"schema": self.schema.arrow.empty_table(), "kept": self._kept}
        tables["keys"] = pa.table(keys, schema=pa.schema(types))
        if self._newest is not None:
            tables["newest"] = self._newest
        save_file(path, Saved(header, arrays, tables))

    def restore(self, saved: Saved) -> None:
        """Take over what a stream of the same query had when it was saved."""
        counts = saved.header["counts"]
        self._n_events, self._n_matches, self._done = counts[0], counts[1], (counts[2], counts[3])
        self._kept = saved.tables["kept"].cast(self.schema.arrow)
        self._position_of_kept = saved.arrays["position"]
        self._newest = saved.tables.get("newest")
        rows = [tuple(row.values()) for row in saved.tables["keys"].to_pylist()]
        n_codes = len(rows) if self.query.partition_by else len(saved.arrays["horizon/code"])
        self._codes = {
            key: code for code, key in enumerate(rows if self.query.partition_by else [()] * n_codes)
        }
        codes, positions = saved.arrays["horizon/code"].tolist(), saved.arrays["horizon/position"].tolist()
        self._reporter.horizon = dict(zip(codes, positions, strict=True))
        self._reporter.taken = set(saved.arrays["taken"].tolist())


def _waits(program: SequenceProgram) -> bool:
    """Whether an event behind a match may forbid it."""
    return any(a.before >= len(b.branch.components) for b in program.branches for a in b.branch.absences)


def _looks_back(program: SequenceProgram) -> bool:
    """Whether an event in front of a match may forbid it."""
    return any(a.after < 0 for b in program.branches for a in b.branch.absences)
