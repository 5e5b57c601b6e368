"""How windows, joins and chains are read, in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cepkit.windows.chains import Chain, said
from cepkit.windows.values import ALL, SIDES, Join, Window

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
    own = " of its group" if window.group_by else ""
    where = "" if window.where is None else f" for which {window.where} is true"
    if window.time is None:
        n, of_all = window.length, ", of all groups together" if window.group_by else ""
        what = f"batches of {n:,} rows" if window.tumbling else f"the last {n:,} rows"
        return f"{what}{where}{of_all}" + (f"; an aggregate ranges over those{own}" if own else "")
    clock = order_by[0] if order_by else "the clock"
    if window.tumbling:
        return f"the rows{own}{where} in batches of {window.time}, which begin at multiples of it"
    return f"the rows{own}{where} with {clock} > now - {window.time}"


def _lines_of_join(join: Join) -> Lines:
    lines = [("join", repr(join))]
    for which, side in enumerate(SIDES):
        window = getattr(join, side)
        held = "no row waits; a row only meets rows that wait on the other side"
        if window is not None:
            held = _held(window, join.order_by[which : which + 1] or window.order_by)
        lines.append((side, held))
    pairs = " and ".join(f"left.{one} = right.{other}" for one, other in join.on) or "all pairs"
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
