"""Compiles the kernels of the bundled queries ahead of their first use; it knows queries and samples only."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pandas as pd

from cepkit.api import match
from cepkit.datasets import load_sample
from cepkit.demo import m_shape
from cepkit.experiments.match_regex_benchmarks import BENCHMARKS, benchmark_data
from cepkit.language.query import RegexQuery


def warmup() -> Iterator[tuple[str, float]]:
    """Compile the bundled queries one by one and yield the name of each with the seconds it took.

    The kernels are kept on disk for all processes of the user, see `cepkit.compile.loading.load`; what is
    there already takes some hundredths of a second.

    Examples
    --------
    >>> name, seconds = next(warmup())
    >>> name
    'peaks'
    """
    for name, query, frame in bundled_queries():
        began = time.perf_counter()
        match(frame, query).lineage()  # the labels of the rows have a kernel of their own
        yield name, time.perf_counter() - began


def bundled_queries() -> Iterator[tuple[str, RegexQuery, pd.DataFrame]]:
    """Yield the queries of the demo and of the benchmarks: name, query, and events of its columns."""
    yield "peaks", m_shape(), load_sample("peaks")
    yield "trades", m_shape(), load_sample("trades")
    for name, benchmark in BENCHMARKS.items():
        if benchmark.pattern is not None:
            yield name, benchmark.query(), benchmark.prepared(benchmark_data(benchmark, repetitions=1))
