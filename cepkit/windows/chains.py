"""`Chain`: operators and queries. Each step reads the result of the step before."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from cepkit.errors import CepError
from cepkit.planning.arguments import Arguments
from cepkit.planning.queries import as_query
from cepkit.windows.values import Join, Operator

_OWN_SETTINGS = (
    "cep.Window and cep.Join contain their own settings; give order_by, where and measures there, not to "
    "the call"
)


@dataclass(frozen=True)
class Chain:
    """Operators in the order of the events: windows, queries, and a join only as the first."""

    steps: tuple[Any, ...]

    def __post_init__(self) -> None:
        if not self.steps:
            raise CepError("a chain needs one operator at least, as in [cep.Window(…), 'PATTERN SEQ(…)']")
        for number, step in enumerate(self.steps[1:], start=2):
            if isinstance(step, Join):
                raise CepError(
                    f"step {number} of the chain is a join, which reads two streams; only the first step can "
                    "be one"
                )

    @property
    def order_by(self) -> tuple[str, ...]:
        """The order columns of the first step."""
        return self.steps[0].order_by

    @property
    def partition_by(self) -> tuple[str, ...]:
        """No column: each step has its own keys."""
        return ()

    def trees(self) -> Iterator[tuple[str, Any]]:
        """Yield (role, tree) of every expression of every step."""
        for step in self.steps:
            yield from step.trees()

    def __str__(self) -> str:
        return " → ".join(said(step) for step in self.steps)


def said(step: Any) -> str:
    """Return an operator or a query in one line."""
    return repr(step) if isinstance(step, Operator) else str(getattr(step, "pattern", step))


def as_value(query: Any, given: Arguments) -> Any:
    """Return a query, an operator, or a list of them as a value; the keywords belong to the queries."""
    if isinstance(query, list | tuple):
        is_query = [not isinstance(step, Operator) for step in query]
        if not any(is_query) and given != Arguments():
            raise CepError(_OWN_SETTINGS)
        return Chain(
            tuple(
                as_value(step, given if own else Arguments())
                for step, own in zip(query, is_query, strict=True)
            )
        )
    if isinstance(query, Operator):
        if given != Arguments():
            raise CepError(_OWN_SETTINGS)
        return query
    return as_query(query, given)
