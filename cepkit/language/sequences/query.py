"""A sequence query as a value: a pattern of events, the conditions on them, and how events are selected."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from cepkit.language.expressions import functions as fn
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.trees import text_of
from cepkit.language.query_parts import Duration, Query
from cepkit.language.sequences.patterns import (
    AbsentPattern,
    Loop,
    SequencePattern,
    WholeQuery,
    event_patterns,
    group_variables,
)


@dataclass(frozen=True, slots=True)
class SequenceQuery(Query, WholeQuery):
    """A sequence of events with its conditions, windows and columns; made by `sequence_query`.

    Parameters
    ----------
    pattern : SequencePattern
        Its events have no ``conditions``; these are moved into ``where``.
    where : tuple of Expression
        Conditions that must all hold. Columns belong to variables (`Reference`); a plain column is an error.
    strategy : str
        One of ``STRATEGIES``: what may be skipped between two events, unless the pattern says so itself.
    scope : str
        Applies under ``next``. ``run`` skips no event that could continue the partial match in any way;
        ``edge`` skips no event that could continue it in the same way.
    within : str or timedelta or int, optional
        Longest time from the first to the last event.
    within_closed : bool
        Whether a match may last exactly ``within``; also applies to ``gap_within``.
    within_events : int, optional
        Largest number of events of the partition from the first to the last, both included.
    gap_within : str or timedelta or int, optional
        Longest time between two successive events of the match.
    strict_time : bool
        Whether successive events must differ in time.
    partition_by, order_by : tuple of str
        Columns.
    event_type : str, optional
        The column of event types. Required if an event of the pattern has a type.
    after_match : tuple of (str, str or None)
        How a match excludes others: ``("none", None)``, ``("past_last", None)``, ``("to_next", None)``,
        ``("to_first", variable)``, ``("to_last", variable)``.
    evaluation_order : tuple of str
        The variables in the order in which an engine searches for their events; if empty, the engine
        chooses. It does not change the matches.
    measures : tuple of (str, Expression), optional
        Output columns by name; None means the default ones.
    params, functions, sources
        As in `RegexQuery`.

    Examples
    --------
    >>> import cepkit as cep
    >>> print(cep.sequence_query("PATTERN SEQ(A a, B b) WITHIN 6 EVENTS"))
    PATTERN SEQ(A a, B b)
    WHERE skip_till_any_match
    WITHIN 6 EVENTS
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
        """Variables of the events that a match contains, in reading order."""
        absent = self.absent_variables
        names = (event.variable for event in event_patterns(self.pattern))
        return tuple(dict.fromkeys(name for name in names if name not in absent))

    @property
    def absent_variables(self) -> frozenset[str]:
        """Variables of the events that must not occur."""
        return frozenset(
            node.body.variable for node in self.pattern.walk() if isinstance(node, AbsentPattern)
        )

    @property
    def group_variables(self) -> frozenset[str]:
        """Variables that can name several events."""
        return group_variables(self.pattern)

    def trees(self) -> Iterator[tuple[str, ex.Expression]]:
        """Yield (role, tree) of every condition (``where``), loop end (``pattern``) and measure."""
        yield from (("where", tree) for tree in self.where)
        for node in self.pattern.walk():
            if isinstance(node, Loop) and node.until is not None:
                yield "pattern", node.until
        yield from ((f"measure {name!r}", tree) for name, tree in self.measures or ())

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(f"<query {self}>")

    def __str__(self) -> str:
        return text_of(self)
