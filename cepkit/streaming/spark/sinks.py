"""Functions for Spark's ``foreachBatch`` that write every match once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class ParquetByBatch:
    """Writes each micro-batch into a folder of its own; a repeated batch replaces its folder."""

    path: str  # the folder of the matches. Reading it gives a further column ``batch``.
    late: str | None = None  # the folder of the late rows
    has_late_rows: bool = False  # whether the batches have the column ``late``

    def __call__(self, batch: DataFrame, number: int) -> None:
        """Write a micro-batch; Spark calls it with the number of the batch."""
        from pyspark.sql import functions as F

        if not self.has_late_rows:
            batch.write.mode("overwrite").parquet(f"{self.path}/batch={number}")
            return
        batch.persist()
        try:
            matches = batch.where(F.col("late").isNull()).drop("late")
            matches.write.mode("overwrite").parquet(f"{self.path}/batch={number}")
            if self.late is not None:
                late = batch.where(F.col("late").isNotNull()).select("late.*")
                late.write.mode("overwrite").parquet(f"{self.late}/batch={number}")
        finally:
            batch.unpersist()
