"""`Chain`: operators and queries in a row, and how windows, joins and chains are read, in words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from cepkit.errors import CepError
from cepkit.planning.queries import Arguments, as_query
from cepkit.windows.values import ALL, SIDES, Join, Operator, Window

# `Chain`: operators and queries. Each step reads the result of the step before.

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
                as_value(step, given if takes_keywords else Arguments())
                for step, takes_keywords in zip(query, is_query, strict=True)
            )
        )
    if isinstance(query, Operator):
        if given != Arguments():
            raise CepError(_OWN_SETTINGS)
        return query
    return as_query(query, given)


# How windows, joins and chains are read, in words.

Lines = tuple[tuple[str, str], ...]
IN_MEMORY = "in memory, over the rows in order; engine=cep.ScatterGather(nodes=4) divides them among nodes"


@dataclass(frozen=True, repr=False)
class OperatorExplanation:
    """How a window, a join or a chain is read and how it runs; prints as text."""

    lines: Lines  # labels and texts

    def __str__(self) -> str:
        return "\n".join(f"{label:12} {text}" for label, text in self.lines)

    __repr__ = __str__


def lines_of(query: Any, *, is_stream: bool = False) -> Lines:
    """Return labels and texts that say how a window, a join or a chain is read.

    ``is_stream`` says that time is a watermark.

    """
    if isinstance(query, Chain):
        steps = [(f"step {i}", said(step)) for i, step in enumerate(query.steps, start=1)]
        return (*steps, ("result", "the results of the last step; each step reads those of the step before"))
    if isinstance(query, Join):
        return _lines_of_join(query)
    return _lines_of_window(query, is_stream=is_stream)


def _lines_of_window(window: Window, *, is_stream: bool) -> Lines:
    rows = "a row for each row that arrives"
    if window.emit == ALL:
        rows += ", and one for each row that leaves"
        rows += ", when the watermark passes its time" if window.time is not None and is_stream else ""
    return ("window", repr(window)), ("holds", _held(window, window.order_by)), ("result", rows)


def _held(window: Window, order_by: tuple[str, ...]) -> str:
    """Return which rows a window holds."""
    of_group = " of its group" if window.group_by else ""
    where = "" if window.where is None else f" for which {window.where} is true"
    if window.time is None:
        n, of_all = window.length, ", of all groups together" if window.group_by else ""
        what = f"batches of {n:,} rows" if window.tumbling else f"the last {n:,} rows"
        return f"{what}{where}{of_all}" + (f"; an aggregate ranges over those{of_group}" if of_group else "")
    clock = order_by[0] if order_by else "the clock"
    if window.tumbling:
        return f"the rows{of_group}{where} in batches of {window.time}, which begin at multiples of it"
    return f"the rows{of_group}{where} with {clock} > now - {window.time}"


def _lines_of_join(join: Join) -> Lines:
    lines = [("join", repr(join))]
    for which, side in enumerate(SIDES):
        window = getattr(join, side)
        held = "no row waits; a row only meets rows that wait on the other side"
        if window is not None:
            held = _held(window, join.order_by[which : which + 1] or window.order_by)
        lines.append((side, held))
    pairs = (
        " and ".join(f"left.{left_key} = right.{right_key}" for left_key, right_key in join.on) or "all pairs"
    )
    if join.where is not None:
        pairs += f", where {join.where}"
    lines.append(("pairs", pairs))
    arrivals = {"both": "either side", "left": "the left side", "right": "the right side"}[join.trigger]
    alone = {"inner": "", "left": "of the left side ", "right": "of the right side ", "outer": ""}[join.how]
    rows = f"a row for each pair that a row of {arrivals} makes on arrival"
    if join.how != "inner":
        rows += f"; also a row for each arrival {alone}without a partner"
    lines.append(("result", rows))
    return tuple(lines)
