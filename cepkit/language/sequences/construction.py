"""Make sequence queries from text, patterns and keywords, and check them without columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from typing import Any

from cepkit.errors import CepError
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.operands import Operand
from cepkit.language.query_parts import Duration, as_mapping
from cepkit.language.sequences.checks import WHOLE_CHECKS
from cepkit.language.sequences.parsing import parse_sase
from cepkit.language.sequences.patterns import SequencePattern
from cepkit.language.sequences.query import SequenceQuery
from cepkit.language.sequences.reading import READERS, make_query, window


def sequence_query(
    pattern: str | SequencePattern | SequenceQuery | Any,
    *,
    where: str | Operand | ex.Expression | Iterable[str | Operand | ex.Expression] | None = None,
    strategy: str | None = None,
    scope: str = "run",
    within: Duration | None = None,
    within_closed: bool = True,
    within_events: int | None = None,
    gap_within: Duration | None = None,
    strict_time: bool = False,
    partition_by: str | Iterable[str] | None = None,
    order_by: str | Iterable[str] | None = None,
    event_type: str | None = None,
    after_match: str | None = None,
    evaluation_order: Iterable[str] | None = None,
    measures: Mapping[str, str | Operand | ex.Expression] | None = None,
    params: Mapping[str, Any] | None = None,
) -> SequenceQuery:
    """Return the query of an event sequence, checked as far as possible without columns.

    Parameters
    ----------
    pattern : str, SequencePattern, SequenceQuery or QueryBuilder
        Text that begins with PATTERN, a pattern of events, or a query. The other arguments add what it
        leaves out.
    where : str, Operand or Expression, or several, optional
        Conditions that must all hold: ``"b.price > a.price and b[i].x > b[i-1].x"``.
    strategy : str, optional
        One of ``STRATEGIES`` or a SASE name. None means the pattern's own strategy, else ``any``.
    scope : str
        ``run`` or ``edge``: which events are relevant under ``next``.
    within, gap_within : str or timedelta or int, optional
        Longest time from the first to the last event, and between two successive ones; zero is allowed.
    within_closed : bool
        Whether a match may last exactly that long.
    within_events : int, optional
        Largest number of events of the partition from the first to the last, both included.
    strict_time : bool
        Whether successive events must differ in time.
    partition_by, order_by : str or iterable of str, optional
        Columns.
    event_type : str, optional
        The column of event types.
    after_match : str, optional
        ``none``, ``past_last``, ``to_next``, ``to_first(b)`` or ``to_last(b)``, also in SQL's words:
        ``skip past last row``.
    evaluation_order : iterable of str, optional
        All variables in search order. Only for sequences of single events.
    measures : mapping of str to expression, optional
        Output columns: values of events (``a.price``), aggregates of a variable (``avg(b.price)``,
        ``count(b)``) and, with plain columns, of the whole match (``first(ts)``, ``count()``).
    params : mapping of str to value, optional
        A value for every parameter that is used, and for no other. They replace the query's own values.

    Returns
    -------
    SequenceQuery
        The query. Conditions on single events are in ``where``; durations in text have one spelling.

    Raises
    ------
    PatternSyntaxError
        If a text cannot be parsed.
    PredicateError
        If a condition or measure does not fit the events of the pattern.
    CepError
        If the pattern or the combination of arguments makes no sense, or something is given twice.

    Notes
    -----
    `cepkit.language.sequences.checks.check_ready` checks the columns of types and time later. Time is linear
    in the size of the trees.

    Examples
    --------
    >>> query = sequence_query(
    ...     "PATTERN SEQ(Check+ c[], Pay p) WHERE [card] AND c.result = 'refused' WITHIN 5 minutes",
    ...     event_type="kind", order_by="ts", measures={"refused": "count(c)", "paid": "p.amount"})
    >>> print(query)
    PATTERN SEQ(Check+ c[], Pay p)
    WHERE skip_till_any_match AND [card] AND c.result == 'refused'
    WITHIN 5 min
    event_type: kind
    order_by: ts
    measures:
      refused: count(c)
      paid: p.amount
    >>> sequence_query("PATTERN SEQ(A a, B b) WHERE b.price > c.price")
    Traceback (most recent call last):
    cepkit.errors.PredicateError: where: no event of the pattern is named 'c'; there are ['a', 'b'].
      PATTERN SEQ(A a, B b) WHERE b.price > c.price
                                            ^^^^^^^
    """
    query, said = _begin_query(pattern)
    given = {
        "where": where,
        "strategy": strategy,
        "scope": None if isinstance(scope, str) and scope == "run" else scope,
        "within": within,
        "within_closed": None if within_closed is True else within_closed,
        "within_events": within_events,
        "gap_within": gap_within,
        "strict_time": None if strict_time is False else strict_time,
        "partition_by": partition_by,
        "order_by": order_by,
        "event_type": event_type,
        "after_match": after_match,
        "evaluation_order": evaluation_order,
        "measures": measures,
    }
    given = {name: value for name, value in given.items() if value is not None}
    twice = [name for name in given if name in said]
    if twice:
        raise CepError(f"{', '.join(twice)}: given both in the query and as a keyword; give it once")
    more = given.pop("where", ())
    more = more if isinstance(more, Iterable) and not isinstance(more, str) else (more,)
    query = replace(
        query, within=window("within", query.within), gap_within=window("gap_within", query.gap_within)
    )
    query = replace(query, **{name: READERS[name](value) for name, value in given.items() if name in READERS})
    if query.within is None and query.gap_within is None:
        query = replace(query, within_closed=True)  # it belongs to a window; without one, queries are equal
    query = replace(query, params=tuple({**dict(query.params), **as_mapping("params", params)}.items()))
    query = make_query(query, more, given.get("measures"))
    for check in WHOLE_CHECKS:
        check(query)
    return query


def _begin_query(pattern: Any) -> tuple[SequenceQuery, set[str]]:
    """Return the query made from ``pattern`` alone, and the names of the settings that it contains."""
    pattern = getattr(pattern, "query", pattern)  # if it is a QueryBuilder
    if isinstance(pattern, str):
        parts = parse_sase(pattern)
        values = {item.name: getattr(parts, item.name) for item in fields(parts)}
        values = {name: value for name, value in values.items() if value not in (None, ())}
        said = set(values) - {"pattern"}
        if "where" in values:
            values["where"] = ex.conjuncts(values["where"])
        return SequenceQuery(**values, sources=(("pattern", pattern), ("where", pattern))), said
    if isinstance(pattern, SequencePattern):
        return SequenceQuery(pattern), set()
    if isinstance(pattern, SequenceQuery):
        said = {
            item.name
            for item in fields(pattern)
            if item.name not in ("pattern", "params", "functions", "sources")
            and getattr(pattern, item.name) != item.default
        }
        return pattern, said
    kind = type(pattern).__name__
    raise CepError(f"expected text that begins with PATTERN, a pattern of events or a query, got {kind}")
