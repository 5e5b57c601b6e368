"""`JoinStream`: an open stream of a join, with two inputs, and of a chain that begins with a join."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from cepkit.errors import CepError, nearest
from cepkit.streaming.batches import Kind, StreamSchema, kind_of_batch, schema_of, table_of_batch
from cepkit.streaming.operators.chains import ChainSearch
from cepkit.streaming.operators.join_search import JoinSearch
from cepkit.streaming.saved import Saved, kind_of_file, load_file, query_as_json, query_of_json, save_file
from cepkit.streaming.search import Options, Ready
from cepkit.windows.chains import Chain, said
from cepkit.windows.values import SIDES, Join

_KIND = "stream of a join"


class JoinStream:
    """An open stream of a join; call `cepkit.stream` to open one. Only one thread at a time may use it."""

    def __init__(self, query: Join | Chain, schemas: tuple[StreamSchema, ...], options: Options):
        self.query, self.schemas, self.options = query, schemas, options
        first = query if isinstance(query, Join) else query.steps[0]
        rest = () if isinstance(query, Join) else query.steps[1:]
        self._search = JoinSearch(first, schemas, Options() if rest else options)
        self._then = None
        if rest:
            self._then = ChainSearch(Chain(rest), StreamSchema(self._search.empty.schema), options)
        self._kind = Kind("rows")
        self._n_events = self._n_results = 0
        self._closed = False

    def push(self, left: Any = None, right: Any = None) -> Any:
        """Read the next rows of one side or of both, and return the complete results.

        A result is complete when both sides have reached its time. A refused batch has no effect.
        """
        self._check_open()
        batches = [batch for batch in (left, right) if batch is not None]
        if not batches:
            raise CepError("push() needs rows of one side, as in push(left=rows)")
        tables = tuple(
            None if batch is None else table_of_batch(batch, schema)
            for batch, schema in zip((left, right), self.schemas, strict=True)
        )
        ready = self._search.advance(tables)
        self._n_events += sum(table.num_rows for table in tables if table is not None)
        self._kind = kind_of_batch(batches[0])
        return self._results(self._follow(ready))

    def _follow(self, ready: Ready) -> Ready:
        return ready if self._then is None else self._then.advance(ready[0], None, 0)

    def _results(self, ready: Ready) -> Any:
        self._n_results += ready[0].num_rows
        return self._kind.native(ready[0], {})

    def flush(self) -> Any:
        """Return no results: a row waits until the other side has reached its time."""
        self._check_open()
        return self._results((self.result_schema.empty_table(), np.empty(0, np.int64)))

    def close(self) -> Any:
        """Close the stream and return the remaining results."""
        self._check_open()
        self._closed = True
        ready = self._follow(self._search.finish())
        if self._then is not None:
            rest = self._then.finish(0)
            ready = (pa.concat_tables([ready[0], rest[0]]), np.concatenate([ready[1], rest[1]]))
        return self._results(ready)

    def _check_open(self) -> None:
        if self._closed:
            raise CepError("the stream is closed; open another one with cep.stream")

    def __enter__(self) -> JoinStream:
        return self

    def __exit__(self, error: type | None, *_: object) -> None:
        self._closed = True

    @property
    def events(self) -> int:
        """Number of rows read, of both sides."""
        return self._n_events

    @property
    def matches(self) -> int:
        """Number of results returned."""
        return self._n_results

    @property
    def retained(self) -> int:
        """Number of rows kept for later results."""
        return self._search.n_retained + (0 if self._then is None else self._then.n_retained)

    @property
    def result_schema(self) -> pa.Schema:
        """The schema of the results, which another stream can use as its input schema."""
        return (self._search if self._then is None else self._then).empty.schema

    def __repr__(self) -> str:
        state = "Closed stream" if self._closed else "Stream"
        text = said(self.query) if isinstance(self.query, Join) else str(self.query)
        counts = f"{self.events:,} events, {self.matches:,} results, {self.retained:,} rows kept"
        return f"{state} of {text}: {counts}"

    def save(self, path: str | os.PathLike) -> None:
        """Write the stream into one file, from which `cepkit.stream.load` continues."""
        self._check_open()
        tables = {side: schema.arrow.empty_table() for side, schema in zip(SIDES, self.schemas, strict=True)}
        header = {
            "kind": _KIND,
            "query": query_as_json(self.query),
            "options": vars(self.options),
            "ordered": [
                {name: list(texts) for name, texts in schema.ordered.items()} for schema in self.schemas
            ],
            "counts": [self._n_events, self._n_results],
        }
        saved = Saved(header, {}, tables).with_part("search", self._search.pack())
        if self._then is not None:
            saved = saved.with_part("then", self._then.pack(0))
        save_file(path, saved)


def is_saved_join(path: str | os.PathLike) -> bool:
    """Return whether a file holds the stream of a join."""
    return kind_of_file(path) == _KIND


def load_join(path: str | os.PathLike) -> JoinStream:
    """Open a stream that `JoinStream.save` wrote."""
    saved = load_file(path, _KIND)
    header = saved.header
    schemas = tuple(
        StreamSchema(saved.tables[side].schema, {name: tuple(texts) for name, texts in ordered.items()})
        for side, ordered in zip(SIDES, header["ordered"], strict=True)
    )
    stream = JoinStream(query_of_json(header["query"]), schemas, Options(**header["options"]))
    stream._search.unpack(saved.part("search"))
    if stream._then is not None:
        stream._then.unpack(saved.part("then"))
    stream._n_events, stream._n_results = saved.counters("counts", 2)
    return stream


def join_stream(query: Join | Chain, schema: Any, options: Options) -> JoinStream:
    """Open a stream with two inputs; ``schema`` has one schema for each side."""
    if not isinstance(schema, Mapping) or set(schema) != set(SIDES):
        names = list(schema) if isinstance(schema, Mapping) else type(schema).__name__
        wrong = (
            next((str(name) for name in names if name not in SIDES), "") if isinstance(names, list) else ""
        )
        raise CepError(
            f"schema: a join reads two streams, so it needs {{'left': …, 'right': …}}, got {names}."
            f"{nearest(wrong, SIDES)}"
        )
    return JoinStream(query, (schema_of(schema["left"]), schema_of(schema["right"])), options)
