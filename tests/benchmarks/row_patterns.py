"""What a search of MATCH_RECOGNIZE takes, part by part, and its kernels by hand in C."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
from cases import DROP, RISE, walk
from peers import c_twin
from rows import Measured, Options, Row, in_turns

import cepkit as cep
from cepkit.compile.match_recognize.automaton import set_tables
from cepkit.compile.match_recognize.compiled import reach_of
from cepkit.compile.match_recognize.registers import write_rows
from cepkit.engines.match_recognize import finding
from cepkit.engines.match_recognize.bound import prepare_rows
from cepkit.engines.match_recognize.found_rows import RowInput
from cepkit.frames.pandas import PandasSource
from cepkit.frames.row_order import order_of_rows
from cepkit.kernels.row_patterns.codes import UNKNOWN
from cepkit.language.match_recognize.parsing import parse_match_recognize
from cepkit.language.match_recognize.query import RowPatternQuery


@dataclass(frozen=True)
class Query:
    """A query whose conditions look at the row before."""

    name: str
    pattern: str
    define: str
    measures: str

    def text(self) -> str:
        return f"""MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY ts MEASURES {self.measures}
          PATTERN ({self.pattern}) DEFINE {self.define})"""


QUERIES = [
    Query(
        "M shape", "A B{2,} C{2,} D{2,} E{2,}", f"B AS {DROP}, C AS {RISE}, D AS {DROP}, E AS {RISE}",
        "FIRST(A.ts) AS start, LAST(C.price) AS top, LAST(D.price) AS bottom, LAST(E.ts) AS stop",
    ),
    Query(
        "M shape of single steps or more", "A B+ C+ D+ E+",
        f"B AS {DROP}, C AS {RISE}, D AS {DROP}, E AS {RISE}",
        "FIRST(A.ts) AS start, LAST(C.price) AS top, LAST(D.price) AS bottom, LAST(E.ts) AS stop",
    ),
    Query(
        "A B+ C", "A B+ C", f"B AS {DROP}, C AS {RISE}",
        "A.price AS top, LAST(B.price) AS bottom, COUNT(B.price) AS n, C.ts AS stop",
    ),
]  # fmt: skip


def _seconds(work: Callable[[], object], repeats: int) -> float:
    [(cost, _)] = in_turns(repeats, work)
    return cost


def parts(frame: pd.DataFrame, query: Query, repeat: int) -> Iterator[tuple[str, float]]:
    """Yield the times of the conditions and the kernels, and of the same kernels in C."""
    source, tree = PandasSource(frame), parse_match_recognize(query.text())
    assert isinstance(tree, RowPatternQuery)
    program, _ = prepare_rows(tree, source.schema)
    order = order_of_rows(source, tree.partition_by, tree.order_by)
    reach = reach_of([condition for _, condition in tree.define])
    given = RowInput(source.schema, source.column, lambda name: np.empty(0), order, reach)
    rows = finding.NearbyRows(given, order, (0, order.n_partitions))
    written = write_rows(program.automaton, dict(tree.define), program.members, rows)
    search = finding._KernelSearch(program, written, given)
    blocks = list(search.blocks(finding._ROWS_OF_BLOCK))
    yield (
        "order, known frame",
        _seconds(lambda: order_of_rows(source, tree.partition_by, tree.order_by), repeat),
    )
    yield "conditions", _seconds(lambda: [search.truths(*block) for block in blocks], repeat)
    tables = set_tables(search.transitions, len(search.conditions))
    assert tables is not None
    whole = _seconds(search.found, repeat)
    yield "conditions and kernels", whole
    twin = c_twin("row_patterns.c")
    if twin is None:
        return
    twin.find_matches.restype, twin.mark_places.restype = ctypes.c_int64, None
    found = search.found()
    assert found is not None
    symbol, bounds = (
        np.concatenate([search.truths(*block) for block in blocks]),
        order.first_place_of_partition,
    )
    symbol[bounds[1:] - 1] |= np.uint8(tables.last_place)
    following = np.where(tables.following == UNKNOWN, 0, tables.following).astype(np.uint16)
    mark, own_mark = np.empty(len(frame), np.uint16), np.empty(len(frame), np.uint16)
    start, end = np.empty(len(frame), np.int64), np.empty(len(frame), np.int64)
    states = np.empty(len(frame), np.int16)

    def run() -> int:
        n = len(bounds) - 1
        call(twin.mark_places, len(mark), symbol, tables.n_bits, following, mark)
        choices = tables.choice.shape[1], tables.choice, tables.first_choice
        return call(twin.find_matches, n, bounds, mark, *choices, start, end, states)

    steps = tables.steps()
    assert steps is not None

    def own() -> None:
        search.mark(symbol, tables, bounds, own_mark)
        own_mark[bounds[:-1]] |= 1
        _ = search.separate_matches(own_mark, steps).states

    n = run()
    assert n == found.n_matches and np.array_equal(start[:n], found.start_of_match), "the twin differs"
    assert np.array_equal(end[:n], found.end_of_match), "the twin differs"
    yield "kernels", _seconds(own, repeat)
    yield "kernels by hand in C", _seconds(run, repeat)


def call(function: Callable, *given: np.ndarray | int) -> int:
    """Call a function of the twin."""
    return function(
        *(
            one.ctypes.data_as(ctypes.c_void_p) if isinstance(one, np.ndarray) else ctypes.c_int64(one)
            for one in given
        )
    )


def _compared(query: Query, n_rows: int, repeats: int) -> Iterator[Row]:
    frame = walk(n_rows)
    frame = frame.assign(symbol=frame["symbol"].str[1:].astype(np.int64))
    cep.match(frame, query.text()).to_frame()  # the frame is known from now on
    times = dict(parts(frame, query, repeats))
    figures = {what: 1e3 * cost for what, cost in times.items()}
    if "kernels by hand in C" in times:
        figures["C / kernels"] = times["kernels by hand in C"] / times["kernels"]
    yield Row(f"row patterns {query.name}, {n_rows:,}", figures)


def table(options: Options) -> Iterator[Measured]:
    """The parts of a search of MATCH_RECOGNIZE, and its kernels by hand in C."""
    for n_rows in options.rows or (1_000_000,):
        for query in QUERIES:
            if options.wants(f"row patterns {query.name} {n_rows:,}"):
                yield partial(_compared, query, n_rows, options.rounds)
