"""A frame as the rows that a query of MATCH_RECOGNIZE searches."""

from __future__ import annotations

from cepkit.engines.match_recognize.bound import BoundRowQuery
from cepkit.engines.match_recognize.row_match_set import SearchedRows
from cepkit.events import Events, Source
from cepkit.frames.building import partition_codes
from cepkit.frames.row_order import plain_values, rows_in_order
from cepkit.progress import checkpoint


def searched_rows(source: Source, bound: BoundRowQuery) -> SearchedRows:
    """Return the rows of a frame in the order of the query, with the columns that it reads."""
    query = bound.query
    order = rows_in_order(source, query.keys)
    checkpoint()
    partition, n_partitions = partition_codes(source, query.partition_by)
    columns = {name: source.column(name) for name in bound.columns}
    values = {name: plain_values(column) for name, column in columns.items()}
    if order is not None:
        partition = partition[order]
        columns = {name: column.take(order) for name, column in columns.items()}
        values = {name: column[order] for name, column in values.items()}
    events = Events(source.n_rows, columns, partition, n_partitions, order)
    return SearchedRows(bound, events, values)
