"""Contiguous runs of rows for which a condition holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cepkit.errors import UnsupportedQueryError, underline
from cepkit.events import Events, Frame, Source
from cepkit.idioms.asking import Groups, answer, as_measures, free_name, group_rows, kept_query
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.parsing import check_built, parse_expression
from cepkit.language.regex.construction import regex_query
from cepkit.language.regex.query import RegexQuery
from cepkit.planning.arguments import names_keywords


@dataclass(frozen=True, slots=True)
class ConditionRuns:
    """The longest runs of rows that a query of one row finds."""

    query: RegexQuery
    noun: str = "run"
    gap: None = None
    takes_all: bool = False

    def group(
        self, query: RegexQuery, source: Source, events: Events, is_member: np.ndarray | None, of_events: bool
    ) -> Groups:
        """Return the runs."""
        return group_rows(events, is_member, of_events=of_events)


@names_keywords
def runs(
    frame: Frame,
    condition: str | ex.Expression | Callable[..., Any],
    *,
    partition_by: str | Sequence[str] | None = None,
    order_by: str | Sequence[str] | None = None,
    rows: str = "one",
    measures: Mapping[str, str] | None = None,
    params: Mapping[str, Any] | None = None,
) -> Frame:
    """Find the contiguous runs of rows for which a condition holds.

    A run is as long as possible: the row before it and the row after it, in its partition, do not fulfil the
    condition. A missing value does not fulfil it.

    Parameters
    ----------
    frame : DataFrame or table
        As for `match`.
    condition : str
        A condition on a row, which may look back with ``prev(x)`` and ``prev(x, 2)``. A predicate of `match`
        in any form; aggregates over the run are not possible in it.
    partition_by : str or list of str, optional
        Columns. Rows with equal values form a partition; runs never cross partitions.
    order_by : str or list of str, optional
        Columns that sort the rows, as for `match`. Default in memory: a DatetimeIndex, or else the order of
        the rows. Spark needs a total order.
    rows : str
        ``"one"``: one row per run. ``"all"``: the rows of the frame with the further column ``run``, the
        number of the run that a row belongs to.
    measures : mapping of str to str, optional
        Further columns for ``rows="one"``, such as ``{"gain": "last(price) - first(price)"}``.
    params : mapping of str to value, optional
        Values of ``:name`` in the condition and the measures.

    Returns
    -------
    DataFrame or table
        The same kind as the frame; lazy on Spark. One row per run, ordered by the last row of the runs:
        the columns of ``partition_by``, ``run`` (its number in the partition, from 1), ``start`` and ``end``
        (the first column of ``order_by`` at the first and last row; without one, the positions of these
        rows), ``length`` (its number of rows), and the measures. With ``rows="all"``, ``run`` is null for
        rows outside of runs.

    Raises
    ------
    UnsupportedQueryError
        For aggregates in the condition.
    CepError
        As `match`: for text that cannot be read, unknown columns, and types that do not fit.

    Notes
    -----
    Time O(rows), and the time to sort the rows and the partitions. pandas has no such call: its idiom is a
    comparison with ``shift``, a ``cumsum`` of the changes and a ``groupby``, which needs care at the borders
    of the groups (pandas-dev/pandas 5494 and 10540).

    Examples
    --------
    >>> import cepkit as cep
    >>> import pandas as pd
    >>> walk = pd.DataFrame({"price": [10, 12, 13, 11, 14, 15, 16]})
    >>> cep.runs(walk, "price > prev(price)", measures={"top": "max(price)"})
       run  start  end  length  top
    0    1      1    2       2   13
    1    2      4    6       3   16
    >>> cep.runs(walk, "price > prev(price)", rows="all")["run"].tolist()
    [<NA>, 1, 1, <NA>, 2, 2, 2]
    """
    query = kept_query(
        _query_of_row, free_name("condition", frame), condition, partition_by=partition_by, order_by=order_by,
        params=params, **as_measures(measures),
    )  # fmt: skip
    return answer(frame, ConditionRuns(query), rows)


def _query_of_row(name: str, condition: Any, **keywords: Any) -> RegexQuery:
    _refuse_aggregates(condition)
    return regex_query(name, define={name: condition}, **keywords)


def _refuse_aggregates(condition: object) -> None:
    tree = condition
    if isinstance(condition, str):
        tree = parse_expression(condition, role="condition")
    if not isinstance(tree, ex.Expression):
        return
    check_built(tree, ex.Expression.children, "condition")
    for node in tree.walk(literals=False):
        if isinstance(node, ex.Aggregate):
            text = condition if isinstance(condition, str) and node.span else str(node)
            place = node.span if isinstance(condition, str) and node.span else (0, len(text))
            raise UnsupportedQueryError(
                f"condition: {node} ranges over the rows of a match, and a run is found row by row; look "
                "back with prev(x), or use match with a pattern\n"
                f"{underline(text, place[0], place[1] - place[0])}"
            )
