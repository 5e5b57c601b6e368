"""What a saved stream holds: packing an open stream into plain values, arrays and tables, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from cepkit.frames.batches import StreamSchema
from cepkit.parallel.replicas import Found, gather
from cepkit.state import Saved, duration_as_json, query_as_json
from cepkit.streams.codes import KeyCodes

if TYPE_CHECKING:
    from cepkit.regex_streaming import Stream


def saved_stream(stream: Stream) -> Saved:
    """Return the content of a stream's file; its threads have nothing left to do."""
    ready, n_rows = gather(stream._ready, stream._empty)
    options = {**vars(stream.options), "idle_after": duration_as_json(stream.options.idle_after)}
    header = {
        "kind": "stream",
        "query": query_as_json(stream.query),
        "options": options,
        "ordered": {name: list(texts) for name, texts in stream.schema.ordered.items()},
        "frame": stream._kind.name,
        "counts": [stream._n_events, stream._n_matches, stream._n_evicted],
        "n_codes": stream._keys.n_codes,
        "replicas": [],
    }
    arrays = {
        "ready/last": np.array([found.last[m] for found, m in stream._ready], np.int64),
        "ready/n_rows": n_rows,
        "keys/free": np.array(stream._keys.free, np.int64),
        "keys/newest": stream._keys.newest_of_code[: stream._keys.n_codes],
    }
    tables = {"schema": stream.schema.arrow.empty_table(), "ready": ready, "keys": _table_of_keys(stream)}
    tables |= {f"texts/{name}": table for name, table in stream._coder.packed().items()}
    if stream._newest is not None:
        tables["newest"] = stream._newest
    for r, replica in enumerate(stream._replicas):
        counters, own, tables[f"replica/{r}"] = replica.packed()
        header["replicas"].append(counters)
        arrays |= {f"replica/{r}/{name}": array for name, array in own.items()}
    return Saved(header, arrays, tables)


def saved_schema(saved: Saved) -> StreamSchema:
    """Return the schema of a saved stream."""
    ordered = {name: tuple(texts) for name, texts in saved.header["ordered"].items()}
    return StreamSchema(saved.tables["schema"].schema, ordered)


def restore_stream(stream: Stream, saved: Saved) -> None:
    """Give a stream opened with the saved query, schema and options what it had when it was saved."""
    header, arrays, tables = saved
    stream._coder.unpack(saved.below("texts/").tables)
    _restore_keys(stream._keys, saved)
    for r, (replica, counters) in enumerate(zip(stream._replicas, header["replicas"], strict=True)):
        replica.unpack(counters, saved.below(f"replica/{r}/").arrays, tables[f"replica/{r}"])
    stream._newest = tables.get("newest")
    stream._n_events, stream._n_matches, stream._n_evicted = header["counts"]
    first_row = np.concatenate([[0], np.cumsum(arrays["ready/n_rows"])])
    ready = Found(arrays["ready/last"], tables["ready"], first_row)
    stream._ready = [(ready, m) for m in range(len(ready.last))]


def _table_of_keys(stream: Stream) -> pa.Table:
    """Return the keys column by column, and the code of each."""
    codes = stream._keys.code_of_key
    columns = {"code": pa.array(codes.values(), pa.int64())}
    for i, name in enumerate(stream.query.partition_by):
        columns[f"key{i}"] = pa.array([key[i] for key in codes], stream.schema.arrow.field(name).type)
    return pa.table(columns)


def _restore_keys(keys: KeyCodes, saved: Saved) -> None:
    codes, *parts = (column.to_pylist() for column in saved.tables["keys"].columns)
    every = list(zip(*parts, strict=True)) if parts else [()] * len(codes)
    keys.code_of_key = dict(zip(every, codes, strict=True))
    keys.key_of_code = [None] * saved.header["n_codes"]
    for key, code in keys.code_of_key.items():
        keys.key_of_code[code] = key
    keys.free = saved.arrays["keys/free"].tolist()
    keys.newest_of_code = saved.arrays["keys/newest"]
