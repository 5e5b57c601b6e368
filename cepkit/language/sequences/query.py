"""A sequence query as a value: a pattern of events, the conditions on them, and how they are selected."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from cepkit.errors import underline
from cepkit.language.expressions import functions as fn
from cepkit.language.expressions import trees as ex
from cepkit.language.query_parts import Duration
from cepkit.language.sequences.patterns import (
    AbsentPattern,
    Loop,
    SequencePattern,
    WholeQuery,
    event_patterns,
    group_variables,
)
from cepkit.language.spelling import text_of


@dataclass(frozen=True, slots=True)
class SequenceQuery(WholeQuery):
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
        return text_of(self)
