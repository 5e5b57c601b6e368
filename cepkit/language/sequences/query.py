"""A sequence query as a value: a pattern of events, the conditions on them, and how they are selected."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from cepkit.errors import CepError, underline
from cepkit.language.expressions import functions as fn
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.operands import Operand
from cepkit.language.query_parts import Duration
from cepkit.language.regex.query import _listed
from cepkit.language.sequences.checks import WHOLE_CHECKS
from cepkit.language.sequences.parsing import parse_sase
from cepkit.language.sequences.patterns import (
    AbsentPattern,
    Loop,
    SequencePattern,
    event_patterns,
    group_variables,
)
from cepkit.language.sequences.printing import sase_text
from cepkit.language.sequences.reading import READERS, as_mapping, made_query, window


@dataclass(frozen=True, slots=True)
class SequenceQuery:
    """Events in an order, with all that belongs to them; made by `sequence_query`.

    Parameters
    ----------
    pattern : SequencePattern
        Without ``conditions`` on its events: they stand in ``where``.
    where : tuple of Expression
        All must hold. Columns are those of variables (`Reference`); a column alone is an error.
    strategy : str
        One of ``STRATEGIES``: what may be skipped between two events, where the pattern does not say.
    scope : str
        Under ``next``: ``run`` skips no event that could continue the partial match in any way, ``edge`` none
        that could continue it in the same way.
    within : str or timedelta or int, optional
        Longest time from the first to the last event.
    within_closed : bool
        Whether a match that lasts exactly ``within`` is one (and the same for ``gap_within``).
    within_events : int, optional
        Most events of the partition from the first to the last, both counted.
    gap_within : str or timedelta or int, optional
        Longest time between two successive events of the match.
    strict_time : bool
        Whether successive events must differ in time.
    partition_by, order_by : tuple of str
        Columns.
    event_type : str, optional
        The column of event types; needed where an event of the pattern has a type.
    after_match : tuple of (str, str or None)
        What a match takes from others: ``("none", None)``, ``("past_last", None)``, ``("to_next", None)``,
        ``("to_first", variable)``, ``("to_last", variable)``.
    evaluation_order : tuple of str
        The variables in the order in which an engine is to look for their events; empty: it chooses. It
        changes no match.
    measures : tuple of (str, Expression), optional
        None for the default ones.
    params, functions, sources
        As in `RegexQuery`.
    """

    pattern: SequencePattern
    where: tuple[ex.Expression, ...] = ()
    strategy: str = "any"
    scope: str = "run"
    within: Duration | None = None
    within_closed: bool = True
    within_events: int | None = None
    gap_within: Duration | None = None
    strict_time: bool = False
    partition_by: tuple[str, ...] = ()
    order_by: tuple[str, ...] = ()
    event_type: str | None = None
    after_match: tuple[str, str | None] = ("none", None)
    evaluation_order: tuple[str, ...] = ()
    measures: tuple[tuple[str, ex.Expression], ...] | None = None
    params: tuple[tuple[str, Any], ...] = ()
    functions: tuple[tuple[str, fn.RegisteredFunction], ...] = ()
    sources: tuple[tuple[str, str], ...] = field(default=(), compare=False, repr=False)

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables of events that a match has, in reading order."""
        absent = self.absent_variables
        names = (event.variable for event in event_patterns(self.pattern))
        return tuple(dict.fromkeys(name for name in names if name not in absent))

    @property
    def absent_variables(self) -> frozenset[str]:
        """The variables of events that must not occur."""
        return frozenset(
            node.body.variable for node in self.pattern.walk() if isinstance(node, AbsentPattern)
        )

    @property
    def group_variables(self) -> frozenset[str]:
        """The variables that stand for several events."""
        return group_variables(self.pattern)

    def parameters(self) -> tuple[str, ...]:
        """Return the names of the parameters that conditions and measures use, in reading order."""
        used = (
            node.name for _, tree in self.trees() for node in tree.walk() if isinstance(node, ex.Parameter)
        )
        return tuple(dict.fromkeys(used))

    def trees(self) -> Iterator[tuple[str, ex.Expression]]:
        """Yield (role, tree) of every condition (``where``), end of a loop (``pattern``) and measure."""
        yield from (("where", tree) for tree in self.where)
        for node in self.pattern.walk():
            if isinstance(node, Loop) and node.until is not None:
                yield "pattern", node.until
        yield from ((f"measure {name!r}", tree) for name, tree in self.measures or ())

    def underlined(self, role: str, node: ex.Expression | SequencePattern) -> str:
        """Return the text of ``role`` with carets under ``node``, a part of its tree."""
        text = dict(self.sources).get(role)
        if text is None or node.span is None:
            return underline(str(node), 0, len(str(node)))
        return underline(text, node.span[0], node.span[1] - node.span[0])

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(f"<query {self}>")

    def __str__(self) -> str:
        lines = [sase_text(self)]
        lines += [f"event_type: {self.event_type}"] if self.event_type is not None else []
        lines += [f"order_by: {', '.join(self.order_by)}"] if self.order_by else []
        lines += [f"scope: {self.scope}"] if self.scope != "run" else []
        lines += ["strict_time: true"] if self.strict_time else []
        kind, variable = self.after_match
        lines += [f"after_match: {kind}{f'({variable})' if variable else ''}"] if kind != "none" else []
        lines += [f"evaluation_order: {', '.join(self.evaluation_order)}"] if self.evaluation_order else []
        lines += _listed("measures", ": ", self.measures or ())
        lines += _listed("params", " = ", ((name, repr(value)) for name, value in self.params))
        return "\n".join(lines)


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
    """Return the query of an event sequence, checked as far as no columns are needed.

    Parameters
    ----------
    pattern : str, SequencePattern, SequenceQuery or QueryBuilder
        Text that begins with PATTERN (`cepkit.language.sequences.parsing`), events of `cepkit.language.builder`, or a
        query, to which the other arguments add what it does not say.
    where : str, Operand or Expression, or several, optional
        Conditions that must hold, all of them: ``"b.price > a.price and b[i].x > b[i-1].x"``.
    strategy : str, optional
        One of ``STRATEGIES`` or SASE's name of one; None: what the pattern says, else ``any``.
    scope : str
        ``run`` or ``edge``: what is relevant under ``next``.
    within, gap_within : str or timedelta or int, optional
        Longest time from the first to the last event, and between two successive ones; zero is allowed.
    within_closed : bool
        Whether a match that lasts exactly as long is one.
    within_events : int, optional
        Most events of the partition from the first to the last, both counted.
    strict_time : bool
        Whether successive events must differ in time.
    partition_by, order_by : str or iterable of str, optional
        Columns.
    event_type : str, optional
        The column of event types.
    after_match : str, optional
        ``none``, ``past_last``, ``to_next``, ``to_first(b)`` or ``to_last(b)``, also as SQL has it:
        ``skip past last row``.
    evaluation_order : iterable of str, optional
        All variables, those whose events are to be looked for first in front; for sequences of single events.
    measures : mapping of str to expression, optional
        Output columns: values of events (``a.price``), aggregates of a variable (``avg(b.price)``,
        ``count(b)``) and, with bare columns, of the whole match (``first(ts)``, ``count()``).
    params : mapping of str to value, optional
        The values of all parameters that are used, and of no others; they replace those of a given query.

    Returns
    -------
    SequenceQuery
        Conditions of single events stand in ``where``; durations in text are in one spelling.

    Raises
    ------
    PatternSyntaxError
        When a text cannot be read.
    PredicateError
        When a condition or measure does not fit the events of the pattern.
    CepError
        When the pattern, or what is said together, makes no sense, or something is said twice.

    Notes
    -----
    Columns of types and time are asked for by `cepkit.language.sequences.checks.check_ready`. Time is linear
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
    query, said = _begun(pattern)
    given = {
        "where": where,
        "strategy": strategy,
        "scope": None if scope == "run" else scope,
        "within": within,
        "within_closed": None if within_closed else within_closed,
        "within_events": within_events,
        "gap_within": gap_within,
        "strict_time": strict_time or None,
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
    query = replace(query, params=tuple({**dict(query.params), **as_mapping("params", params)}.items()))
    query = made_query(query, more, given.get("measures"))
    for check in WHOLE_CHECKS:
        check(query)
    return query


def _begun(pattern: Any) -> tuple[SequenceQuery, set[str]]:
    """Return the query that ``pattern`` makes alone, and the names of what it says."""
    pattern = getattr(pattern, "query", pattern)  # of a QueryBuilder
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
