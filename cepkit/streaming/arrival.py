"""Sort the batches of a stream, and refuse rows before the newest event."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cepkit.errors import OrderError
from cepkit.frames.arrow import ArrowSource
from cepkit.frames.building import stream_order
from cepkit.streaming.batches import StreamSchema


def ordered_batch(
    table: pa.Table, newest: pa.Table | None, by: tuple[str, ...], schema: StreamSchema
) -> tuple[pa.Table, pa.Table]:
    """Return a batch in stream order, and its order columns ``by``.

    ``newest`` has the order columns of the newest event so far, one row.
    """
    keys = _order_columns(table, by, schema)
    order = stream_order(ArrowSource(keys), by)
    if order is not None:
        table, keys = table.take(pa.array(order)), keys.take(pa.array(order))
    if newest is not None and (n_late := count_late(keys, newest, by)):
        shown = ", ".join(f"{name} = {newest.column(name)[0]}" for name in by)
        raise OrderError(
            f"{n_late:,} of the batch's {len(keys):,} rows come before the newest event so far "
            f"({shown}); a stream cannot go back: sort its source, or remove late rows before push()"
        )
    return table, keys


def count_late(keys: pa.Table, newest: pa.Table, by: tuple[str, ...]) -> int:
    """Return how many of the first rows of a sorted batch come before the newest event so far."""
    order = stream_order(ArrowSource(pa.concat_tables([newest, keys])), by)
    return 0 if order is None else int(np.flatnonzero(order == 0)[0])


def _order_columns(table: pa.Table, by: tuple[str, ...], schema: StreamSchema) -> pa.Table:
    """Return the order columns, with ordered categories as ranks."""
    columns = {}
    for name in by:
        columns[name] = table.column(name)
        if name in schema.ordered:
            columns[name] = pc.index_in(columns[name], pa.array(schema.ordered[name], columns[name].type))
    return pa.table(columns)
