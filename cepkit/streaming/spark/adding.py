"""Add a step to the results of a streaming Spark frame: the same Spark operator runs all steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cepkit.planning.arguments import QueryKeywords, read_arguments, takes_query_keywords
from cepkit.planning.queries import Query
from cepkit.results.doors import open_door
from cepkit.windows.chains import Chain, as_value
from cepkit.windows.values import Window, window_of

if TYPE_CHECKING:
    from typing import Unpack

    from pyspark.sql import DataFrame

CHAIN = "chain in a Spark stream"


class NextStep:
    """What can read the results of a step: a query or a window. ``rows.cep`` returns it."""

    def __init__(self, frames: tuple[DataFrame, ...], steps: tuple[Any, ...]):
        self._frames, self._steps = frames, steps

    @takes_query_keywords
    def match(self, query: Query, **keywords: Unpack[QueryKeywords]) -> Any:
        """Find the matches of a query in the results."""
        return self._with(as_value(query, read_arguments(type(self).match, keywords)))

    def window(self, aggregates: Any = None, **settings: Any) -> Any:
        """Compute running aggregates of the results over a window, with the parameters of `cepkit.window`."""
        return self._with(window_of(aggregates, **settings) if settings else _window(aggregates))

    def _with(self, step: Any) -> Any:
        steps = step.steps if isinstance(step, Chain) else (step,)
        return open_door(CHAIN)(self._frames, Chain((*self._steps, *steps)))


def _window(given: Any) -> Window:
    return given if isinstance(given, Window) else Window(given)
