"""A replay of the rows of one key, as a task of Spark runs it."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from cepkit.errors import CepError
from cepkit.frames.empty import with_types
from cepkit.frames.pandas import PandasSource
from cepkit.shedding.simulation.inputs import ReplaySettings, make_scene
from cepkit.shedding.simulation.replay import COLUMNS, ReplayResult

PROBLEM = "problem"


@dataclass(frozen=True)
class ReplayTask:
    """Replays a pandas frame and returns its summary, one row per pattern.

    Parameters
    ----------
    settings : ReplaySettings
    """

    settings: ReplaySettings

    def __call__(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Return the summary; a row with the reason if the rows cannot be replayed."""
        try:
            source = PandasSource(rows.reset_index(drop=True))
            for query in self.settings.queries:
                source = with_types(source, query)
            scene = make_scene(self.settings, source)
            run = scene.run(self.settings.strategy, self.settings.seed)
            return ReplayResult(run, source, lambda frame: frame).to_frame().assign(**{PROBLEM: None})
        except CepError as problem:
            names = [str(query.pattern) for query in self.settings.queries]
            return pd.DataFrame({"pattern": names, PROBLEM: str(problem)}).reindex(
                columns=[*COLUMNS, PROBLEM]
            )


def types_of_columns() -> dict[str, str]:
    """Return the Spark type of each column of a summary."""
    return {**COLUMNS, PROBLEM: "string"}
