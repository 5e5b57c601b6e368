"""Plans for windows: events in turn, with a heartbeat, so that all nodes know every moment of output."""

from __future__ import annotations

from collections.abc import Iterable

from cepkit.errors import UnsupportedQueryError, nearest, whole_number
from cepkit.scaleout.plan.plans import Feed, ScatterPlan, Stage
from cepkit.scaleout.plan.routing import RoundRobin
from cepkit.windows.values import Window, aggregate_name

MERGEABLE = ("sum", "count", "avg", "min", "max", "std", "var")
_NEEDS_ALL = {
    "median": "the middle value of all events does not follow from the middle values of parts",
    "percentile": "a percentile of all events does not follow from percentiles of parts",
    "quantile": "a quantile of all events does not follow from quantiles of parts",
    "distinct": "parts can share values, so their numbers of values do not add up",
    "count_distinct": "parts can share values, so their numbers of values do not add up",
    "nunique": "parts can share values, so their numbers of values do not add up",
    "mode": "the most frequent value of all events can be rare in every part",
}


def check_mergeable(functions: Iterable[str]) -> None:
    """Raise UnsupportedQueryError for aggregates that small partial results of nodes do not determine."""
    for name in functions:
        if name in MERGEABLE:
            continue
        if name in _NEEDS_ALL:
            raise UnsupportedQueryError(
                f"{name} cannot run over several nodes: {_NEEDS_ALL[name]}. Use one node, or one of "
                f"{[*MERGEABLE]}"
            )
        raise UnsupportedQueryError(
            f"aggregate {name!r} is not known.{nearest(str(name), MERGEABLE)} Over several nodes run "
            f"{[*MERGEABLE]}"
        )


def check_window_aggregates(window: Window) -> None:
    """Raise UnsupportedQueryError for aggregates that partial results of nodes do not determine."""
    for role, tree in window.trees():
        for node in tree.walk(literals=False):
            name = aggregate_name(node)
            if name is None or name in ("first", "last", "delta"):
                continue  # the gather knows the first and the last event of each window
            try:
                check_mergeable([name])
            except UnsupportedQueryError as error:
                raise UnsupportedQueryError(f"{role}: {node}: {error}") from None


def window_plan(nodes: int, *, title: str = "window", functions: Iterable[str] = ()) -> ScatterPlan:
    """Return the plan of a window with running aggregates.

    Source: Suhothayan, 2019, 3.1.1.
    Differs: a heartbeat has number and time of every event, so each partial result is as of the event that
    the output is for. With the thesis' rules, a node expires events only by its own ones.
    """
    whole_number("nodes", nodes, 1)
    check_mergeable(functions)
    feed = Feed("events", RoundRobin(nodes), heartbeat=nodes > 1)
    stage = Stage("window", "keeps partial aggregates of its own events in the window", (feed,))
    gather = "merges the partial aggregates as of each event, in the order of nodes"
    return ScatterPlan(title, (stage,), gather, "window", "windows")
