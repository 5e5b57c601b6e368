"""Groups of neighbouring rows of a partition: runs, sessions and transactions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cepkit.errors import CepError, PredicateError, UnsupportedQueryError, require_columns, underline
from cepkit.events import Frame
from cepkit.frames.arrow import path_of
from cepkit.frames.united import takes_frames
from cepkit.idioms.asking import (
    Grouping,
    answer,
    as_measures,
    column_names,
    free_name,
    kept_query,
    parameters_of,
)
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.parsing import check_built, parse_expression
from cepkit.language.query_parts import Duration
from cepkit.language.regex import RegexQuery, regex_query
from cepkit.planning.queries import names_keywords

Condition = str | ex.Expression | Callable[..., Any]


@takes_frames
@names_keywords
def runs(
    frame: Frame, condition: Condition | None = None, *, by: str | Sequence[str] | None = None,
    partition_by: str | Sequence[str] | None = None, order_by: str | Sequence[str] | None = None,
    gap: Duration | None = None, min_length: int = 1, from_row_before: bool = False, rows: str = "one",
    measures: Mapping[str, str] | None = None, params: Mapping[str, Any] | None = None,
) -> Frame:  # fmt: skip
    """Find runs: neighbouring rows for which a condition holds, or which have equal values.

    A run is as long as possible. With ``condition``, its neighbours in the partition do not fulfil the
    condition; a missing value does not fulfil it. With ``by``, all rows of a run have the same values in
    these columns, and each row of the frame is in a run. With both, a run fulfils both.

    Parameters
    ----------
    frame : DataFrame or table
        As for `match`.
    condition : str, optional
        A condition on a row, which may look back with ``prev(x)`` and ``prev(x, 2)``. A predicate of `match`
        in any form; aggregates over the run are not possible in it.
    by : str or list of str, optional
        Columns whose values do not change within a run. Missing values equal each other.
    partition_by : str or list of str, optional
        Columns. Rows with equal values form a partition; runs never cross partitions.
    order_by : str or list of str, optional
        Columns that sort the rows, as for `match`. Default in memory: a DatetimeIndex, or else the order of
        the rows. Spark needs a total order.
    gap : str, timedelta or int, optional
        Longest time between two rows of a run, such as ``"30 min"``, or ticks of the clock.
    min_length : int
        Shorter runs are left out.
    from_row_before : bool
        Let each run begin with the row before it, with which ``prev`` compares its first row: the run of
        ``price > prev(price)`` then begins at the lowest price. Only without ``by``.
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
        the columns of ``partition_by`` and ``by``, ``run`` (its number in the partition, from 1), ``start``
        and ``end`` (the first column of ``order_by`` at the first and last row; without one, the positions of
        these rows), ``length`` (its number of rows), and the measures. With ``by`` also ``until``, the place
        of the next row of the partition, and ``open``: true for the last run, which has no next row, so that
        its ``until`` is its ``end``. With ``rows="all"``, ``run`` is null for rows outside of runs.

    Raises
    ------
    UnsupportedQueryError
        For aggregates in the condition.
    CepError
        Without a condition and ``by``. As `match`: for text that cannot be read, unknown columns, and types
        that do not fit.

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

    How long a machine was in each state:

    >>> log = pd.DataFrame({"minute": [0, 5, 9, 20, 22], "state": ["up", "up", "down", "up", "up"]})
    >>> states = cep.runs(log, by="state", order_by="minute")
    >>> states.assign(minutes=states.until - states.start)
      state  run  start  end  length  until   open  minutes
    0    up    1      0    5       2      9  False        9
    1  down    2      9    9       1     20  False       11
    2    up    3     20   22       2     22   True        2
    """
    columns = _columns_of(frame, by)
    if condition is None and not columns:
        raise CepError(
            "runs: give a condition on rows, as 'price > prev(price)', or columns whose values stay the "
            "same, as by='state'"
        )
    if from_row_before and columns:
        raise CepError(
            "from_row_before=True: the row before a run of equal values has another value. Leave it out"
        )
    if isinstance(min_length, bool) or not isinstance(min_length, int) or min_length < 1:
        raise CepError(f"min_length={min_length!r}: expected a whole number of rows, at least 1")
    shared = {"partition_by": partition_by, "order_by": order_by}
    if condition is None:
        query = kept_query(regex_query, ".", params=params, **shared, **as_measures(measures))
    else:
        query = kept_query(
            _query_of_row, free_name("condition", frame), condition, params=params, **shared,
            **as_measures(measures),
        )  # fmt: skip
    begins = kept_query(_query_of_changes, free_name("change", frame), columns, **shared) if columns else None
    grouping = Grouping(
        query, "run", takes_all=condition is None, begins=begins, by=columns, gap=gap, least=min_length,
        from_row_before=from_row_before,
    )  # fmt: skip
    try:
        return answer(frame, grouping, rows)
    except PredicateError:
        if not isinstance(condition, str) or condition not in column_names(frame):
            raise
        raise PredicateError(
            f"runs: {condition!r} is a column, not a condition; for runs of equal values write "
            f"by={condition!r}"
        ) from None


def _columns_of(frame: Frame, by: str | Sequence[str] | None) -> tuple[str, ...]:
    given = () if by is None else by
    columns = (given,) if isinstance(given, str) else tuple(given)
    names = [name for name in column_names(frame) if name is not None]
    # Fields of structs, such as user.id, are found when the query is bound.
    require_columns("by", [name for name in columns if path_of(name, names) is None], names)
    return columns


def _query_of_row(name: str, condition: Any, **keywords: Any) -> RegexQuery:
    _refuse_aggregates(condition)
    return regex_query(name, define={name: condition}, **keywords)


def _query_of_changes(name: str, columns: tuple[str, ...], **keywords: Any) -> RegexQuery:
    """Return the rows whose values differ from those of the row before."""
    changes: list[ex.Expression] = []
    for column in map(ex.Attribute, columns):
        before = ex.Previous(column)
        is_missing, was_missing = ex.IsNull(column), ex.IsNull(before)
        changes += [
            ex.And((is_missing, ex.Not(was_missing))),
            ex.And((ex.Not(is_missing), was_missing)),
            ex.Comparison("!=", column, before),
        ]
    return regex_query(name, define={name: ex.Or(tuple(changes))}, **keywords)


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


@takes_frames
@names_keywords
def sessions(
    frame: Frame, *, gap: Duration | None = None, max_span: Duration | None = None,
    new: Condition | None = None, partition_by: str | Sequence[str] | None = None,
    order_by: str | Sequence[str] | None = None, rows: str = "one", measures: Mapping[str, str] | None = None,
    params: Mapping[str, Any] | None = None,
) -> Frame:  # fmt: skip
    """Divide the rows of each partition into sessions, at pauses longer than ``gap``.

    A row begins a new session if it comes more than ``gap`` after the row before it in its partition, if it
    comes more than ``max_span`` after the first row of the session, or if the condition ``new`` holds. A
    pause of exactly ``gap`` does not begin one.

    Parameters
    ----------
    frame : DataFrame or table
        As for `match`.
    gap : str, timedelta or int, optional
        Longest pause within a session, such as ``"30 min"``, or ticks of the clock.
    max_span : str, timedelta or int, optional
        Longest time from the first row of a session to its last.
    new : str, optional
        A condition on a row that begins a session, such as ``"page == 'login'"``, or
        ``"ts - prev(ts) > patience"`` for a gap from a column.
    partition_by : str or list of str, optional
        Columns, such as the user.
    order_by : str or list of str, optional
        Columns; the first is the clock. Default in memory: a DatetimeIndex. Spark needs a total order.
    rows : str
        ``"one"``: one row per session. ``"all"``: the rows of the frame with the further column ``session``.
    measures : mapping of str to str, optional
        Further columns for ``rows="one"``, such as ``{"pages": "count()", "last_page": "last(page)"}``.
    params : mapping of str to value, optional
        Values of ``:name`` in ``new`` and the measures.

    Returns
    -------
    DataFrame or table
        The same kind as the frame; lazy on Spark. One row per session, ordered by the last row of the
        sessions: the columns of ``partition_by``, ``session`` (its number in the partition, from 1),
        ``start`` and ``end`` (the times of the first and last row), ``length`` (its number of rows), and the
        measures.

    Raises
    ------
    CepError
        Without any of ``gap``, ``max_span`` and ``new``; without a clock, for unknown columns, missing times,
        and a gap that does not fit the clock.

    Notes
    -----
    Time O(rows), and the time to sort the rows and the partitions.

    Examples
    --------
    >>> import cepkit as cep
    >>> import pandas as pd
    >>> clicks = pd.DataFrame({"user": list("aabaa"), "ts": pd.to_datetime(
    ...     ["2024-01-31 09:00", "2024-01-31 09:30", "2024-01-31 09:40", "2024-01-31 10:01",
    ...      "2024-01-31 10:02"])})
    >>> cep.sessions(clicks, gap="30 min", partition_by="user", order_by="ts")
      user  session               start                 end  length
    0    a        1 2024-01-31 09:00:00 2024-01-31 09:30:00       2
    1    b        1 2024-01-31 09:40:00 2024-01-31 09:40:00       1
    2    a        2 2024-01-31 10:01:00 2024-01-31 10:02:00       2
    >>> cep.sessions(clicks, gap="30 min", partition_by="user", order_by="ts", rows="all")["session"].tolist()
    [1, 1, 1, 2, 2]
    """
    if gap is None and max_span is None and new is None:
        raise CepError(
            "sessions: say where a session ends: gap='30 min' between two rows, max_span='1 day' in all, or "
            "new=\"page == 'login'\" for rows that begin one"
        )
    begins, _, rest = _marks(frame, new, None, partition_by, order_by, params, measures)
    return answer(
        frame, Grouping(rest, "session", takes_all=True, begins=begins, gap=gap, span=max_span), rows
    )


@takes_frames
@names_keywords
def transaction(
    frame: Frame, *, by: str | Sequence[str] | None = None, starts_with: Condition | None = None,
    ends_with: Condition | None = None, max_span: Duration | None = None, max_pause: Duration | None = None,
    order_by: str | Sequence[str] | None = None, rows: str = "one", measures: Mapping[str, str] | None = None,
    params: Mapping[str, Any] | None = None,
) -> Frame:  # fmt: skip
    """Group the rows of each key into transactions, from a first row to a last, as Splunk's command does.

    A transaction begins with the first row of its key, after the end of another one, at a row that fulfils
    ``starts_with``, and at a row that comes too late for ``max_pause`` or ``max_span``. It ends with a row
    that fulfils ``ends_with``. With ``starts_with``, a group without such a first row is no transaction.

    Parameters
    ----------
    frame : DataFrame or table
        As for `match`.
    by : str or list of str, optional
        Columns whose values the rows of a transaction share; rows of other keys may lie between them.
    starts_with, ends_with : str, optional
        Conditions on a row, such as ``"action == 'login'"``.
    max_span : str, timedelta or int, optional
        Longest time from the first row of a transaction to its last, such as ``"1 hour"``.
    max_pause : str, timedelta or int, optional
        Longest time between two of its rows.
    order_by : str or list of str, optional
        Columns; the first is the clock. Default in memory: a DatetimeIndex. Spark needs a total order.
    rows : str
        ``"one"``: one row per transaction. ``"all"``: the rows of the frame with the further column
        ``transaction``.
    measures : mapping of str to str, optional
        Further columns for ``rows="one"``, such as ``{"seconds": "last(ts) - first(ts)"}``.
    params : mapping of str to value, optional
        Values of ``:name`` in the conditions and the measures.

    Returns
    -------
    DataFrame or table
        The same kind as the frame; lazy on Spark. One row per transaction, ordered by the last row: the
        columns of ``by``, ``transaction`` (its number for the key, from 1), ``start``, ``end``, ``length``
        and the measures; with ``ends_with`` also ``closed``, whether its last row fulfils the condition.

    Raises
    ------
    CepError
        Without any of ``starts_with``, ``ends_with``, ``max_span`` and ``max_pause``; as `sessions`.

    Notes
    -----
    Time O(rows), and the time to sort the rows and the keys.
    ``Differs:`` Splunk leaves out transactions that nothing closed; here ``closed`` says so, and nothing is
    missing.

    Examples
    --------
    >>> import cepkit as cep
    >>> import pandas as pd
    >>> log = pd.DataFrame({"t": range(7), "user": list("aabaaba"), "action":
    ...     ["view", "login", "login", "view", "logout", "view", "login"]})
    >>> cep.transaction(log, by="user", starts_with="action == 'login'", ends_with="action == 'logout'",
    ...                 order_by="t")
      user  transaction  start  end  length  closed
    0    a            1      1    4       3    True
    1    b            1      2    5       2   False
    2    a            2      6    6       1   False
    """
    if all(limit is None for limit in (starts_with, ends_with, max_span, max_pause)):
        raise CepError(
            "transaction: say where one begins or ends: starts_with=, ends_with=, max_span= or max_pause="
        )
    begins, ends, rest = _marks(frame, starts_with, ends_with, by, order_by, params, measures)
    grouping = Grouping(
        rest, "transaction", takes_all=True, begins=begins, ends=ends, only_begun=begins is not None,
        gap=max_pause, span=max_span,
    )  # fmt: skip
    return answer(frame, grouping, rows)


def _marks(
    frame: Frame, begin: Condition | None, end: Condition | None, partition_by: Any, order_by: Any,
    params: Any, measures: Mapping[str, str] | None,
) -> tuple[RegexQuery | None, RegexQuery | None, RegexQuery]:  # fmt: skip
    """Return the queries of rows that begin and end a group, and that of all rows with the measures."""
    shared = {"partition_by": partition_by, "order_by": order_by}
    name = free_name("condition", frame)
    measured = tuple((measures or {}).values())
    given: Mapping[str, Any] = params or {}
    used: set[str] = set()

    def params_of(*conditions: Any) -> dict[str, Any] | None:
        """Return the parameters of conditions; a query refuses those that it does not use."""
        names = parameters_of(*conditions)
        if names is None:
            names = set(given)
        used.update(names)
        return {key: value for key, value in given.items() if key in names} or None

    def mark(condition: Condition | None) -> RegexQuery | None:
        if condition is None:
            return None
        return kept_query(_query_of_row, name, condition, params=params_of(condition), **shared)

    marks = mark(begin), mark(end)
    rest = kept_query(regex_query, ".", params=params_of(*measured), **shared, **as_measures(measures))
    unused = sorted(set(given) - used)
    if unused:
        raise CepError(
            f"params: {unused[0]!r} is used by no condition and no measure; write :{unused[0]} in one"
        )
    return *marks, rest
