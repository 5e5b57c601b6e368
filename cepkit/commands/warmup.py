"""Prepare kernels before their first use: those of all queries, and those of bundled queries."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import pandas as pd

from cepkit.api.matching import match
from cepkit.commands.demo import m_shape
from cepkit.compile.interpreted.instructions import ELEMENTARY
from cepkit.compile.shared.loading import load_kernels
from cepkit.datasets import load_sample
from cepkit.engines.interpreted.counting import KERNELS as ANCHORED
from cepkit.engines.interpreted.regex import KERNELS as REGEX
from cepkit.engines.interpreted.walk import KERNELS as WALK
from cepkit.engines.interpreted.walk import ORDERED_KERNELS as ORDERED
from cepkit.engines.match_recognize.finding import SEARCHING
from cepkit.engines.match_recognize.found_rows import FINDING
from cepkit.engines.match_recognize.measuring import MEASURING
from cepkit.engines.next.engine import CHAIN
from cepkit.engines.next.places import KERNELS as NEXT
from cepkit.engines.regex import BLOCKS
from cepkit.engines.shared.kernels import COUNTING
from cepkit.engines.shared.match_set import LINEAGE
from cepkit.engines.shared.places import PATHS, WINDOWS
from cepkit.engines.shared.sequence_set import ORDER
from cepkit.errors import TieWarning
from cepkit.idioms.asking import KERNELS as GROUPS
from cepkit.language.regex.query import RegexQuery
from cepkit.parallel.agents.agent_run import KERNELS as AGENTS
from cepkit.parallel.agents.agents import INTERPRETED as JOINS
from cepkit.shedding.simulation.scene import QUEUE
from cepkit.shedding.tree.machine import KERNELS as TREE
from cepkit.windows.aggregating import SUMS
from cepkit.windows.ranges import PARTNERS, RANGES

# Modules of kernels that serve every query.
INTERPRETING = (
    REGEX, COUNTING, ANCHORED, ORDERED, WALK, WINDOWS, PATHS, LINEAGE, ELEMENTARY, TREE, QUEUE, FINDING,
    SEARCHING, MEASURING, GROUPS, SUMS, RANGES, PARTNERS, AGENTS, JOINS, BLOCKS, NEXT, CHAIN, ORDER,
)  # fmt: skip


def warmup() -> Iterator[tuple[str, float]]:
    """Make machine code of the shipped kernels, compile bundled queries; yield names and seconds.

    `cepkit.compile.shared.loading.load` keeps the kernels on disk for all processes of the user. A kernel
    from disk loads in some hundredths of a second. The kernels that serve every query come with the package:
    they take tenths of a second here, or in a first query without `warmup`.
    """
    for name in INTERPRETING:
        began = time.perf_counter()
        load_kernels(name, quick=False)
        yield name.rsplit(".", 1)[-1], time.perf_counter() - began
    for name, query, frame in bundled_queries():
        began = time.perf_counter()
        with _compile_all(), warnings.catch_warnings():
            warnings.simplefilter("ignore", TieWarning)  # nobody looks at these matches
            match(frame, query).lineage()  # the labels of the rows have their own kernel
        yield name, time.perf_counter() - began


@contextmanager
def _compile_all() -> Iterator[None]:
    """Compile the kernels of new queries, which are interpreted otherwise."""
    before = os.environ.get("CEPKIT_TIER")
    os.environ["CEPKIT_TIER"] = "compiled"
    try:
        yield
    finally:
        if before is None:
            del os.environ["CEPKIT_TIER"]
        else:
            os.environ["CEPKIT_TIER"] = before


def count_steps() -> int:
    """Return how many steps `warmup` has."""
    return len(INTERPRETING) + 2  # peaks, trades


def bundled_queries() -> Iterator[tuple[str, RegexQuery, pd.DataFrame]]:
    """Yield the query of the demo, over each bundled sample of prices, with the name of the sample."""
    yield "peaks", m_shape(), load_sample("peaks")
    yield "trades", m_shape(), load_sample("trades")
