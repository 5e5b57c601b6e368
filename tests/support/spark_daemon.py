"""The parent of Spark's Python workers in tests. It imports what they need once, before they are forked."""

import gc
from importlib import import_module

import numba
from pyspark.daemon import manager

MODULES = (
    "pyspark.worker",
    "cepkit.engines.after_match",
    "cepkit.engines.interpreted_walk",
    "cepkit.engines.regex_measures",
    "cepkit.frames.spark",
    "cepkit.results.spark_row_patterns",
    "cepkit.results.spark_tasks",
    "cepkit.streaming.spark_tasks",
    "cepkit.windows.spark",
)

if __name__ == "__main__":
    for name in MODULES:
        import_module(name)
    numba.njit("int64(int64)")(lambda x: x)  # numba loads its own modules when it compiles
    gc.freeze()
    manager()
