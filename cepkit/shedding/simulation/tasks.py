"""A replay of the rows of one key, as a task of Spark runs it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from cepkit.errors import CepError
from cepkit.events import Source
from cepkit.frames.arrow import ArrowSource
from cepkit.frames.empty import with_types
from cepkit.shedding.simulation.inputs import ReplaySettings, make_scene
from cepkit.shedding.simulation.replay import COLUMNS, ReplayResult

PROBLEM = "problem"


@dataclass(frozen=True)
class ReplayTask:
    """Replays a table and returns its summary, one row per pattern."""

    settings: ReplaySettings

    def __call__(self, rows: pa.Table) -> list[dict[str, Any]]:
        """Return the summary; if the rows cannot be replayed, the reason instead."""
        try:
            source: Source = ArrowSource(rows)
            for query in self.settings.queries:
                source = with_types(source, query)
            run = make_scene(self.settings, source).run(self.settings.strategy, self.settings.seed)
            made = [one.summary() for one in ReplayResult(run, source, lambda frame: frame).patterns]
        except CepError as problem:
            made = [{"pattern": str(query.pattern), PROBLEM: str(problem)} for query in self.settings.queries]
        return [{**dict.fromkeys(types_of_columns()), **row} for row in made]


def types_of_columns() -> dict[str, str]:
    """Return the Spark type of each column of a summary."""
    return {**COLUMNS, PROBLEM: "string"}
