"""How fast matches are walked, drawn and found; ``python tests/benchmarks/sequence_walks.py``.

Thread-CPU seconds of one process on one thread. Limits to hold them against: a match of SEQ3 is 24 bytes, so
that 20 GB/s of stores would be 8e8 matches per second.
"""

from __future__ import annotations

import argparse
import json
import time
import tracemalloc
from itertools import pairwise

import numpy as np
import pandas as pd

from cepkit.compile.counting.state_graph import state_graph_of
from cepkit.compile.sequences.program import compile_sequence
from cepkit.engines.counting.counts import PathCounter
from cepkit.engines.counting.layout import Layout
from cepkit.engines.counting.walking import PathWalk
from cepkit.engines.shared.kernels import accepted
from cepkit.engines.shared.places import Places
from cepkit.frames.building import build_events
from cepkit.frames.pandas import PandasSource
from cepkit.language.expressions import trees as ex
from cepkit.language.sequences.patterns import EventPattern, Loop, SequenceOf
from cepkit.language.sequences.query import SequenceQuery

TYPES = "ABCDEF"


def rising(n_components: int, within: int) -> SequenceQuery:
    """Return the query for events of successive types, one higher than the other."""
    names = TYPES[:n_components].lower()
    parts = tuple(EventPattern(name, name.upper()) for name in names)
    where = tuple(
        ex.Comparison("<", ex.Reference(one, "x"), ex.Reference(other, "x")) for one, other in pairwise(names)
    )
    return _query(parts, where, within)


def rising_closure(within: int) -> SequenceQuery:
    """Return the query for a, a rising closure of b, and c."""
    parts = (EventPattern("a", "A"), Loop(EventPattern("b", "B"), 1, None), EventPattern("c", "C"))
    where = (ex.Comparison("<", ex.Reference("b", "x", "i-1"), ex.Reference("b", "x", "i")),)
    return _query(parts, where, within)


def _query(parts: tuple, where: tuple, within: int) -> SequenceQuery:
    pattern = SequenceOf(parts, (None,) * len(parts))
    return SequenceQuery(pattern, where, within=within, event_type="kind", order_by=("t",))


def stream(n_events: int, n_types: int, seed: int = 0) -> pd.DataFrame:
    """Return events one tick apart, of random types and values."""
    rng = np.random.default_rng(seed)
    kind = rng.choice(list(TYPES[:n_types]), n_events)
    return pd.DataFrame({"t": np.arange(n_events), "kind": kind, "x": rng.random(n_events)})


def prepared(query: SequenceQuery, frame: pd.DataFrame) -> Layout:
    """Return what counting and walking take."""
    source = PandasSource(frame)
    program = compile_sequence(query, source.schema)
    places = Places(program, build_events(source, program))
    return Layout(state_graph_of(program, program.branches[0]), places, accepted(places))


def walked(what: str, query: SequenceQuery, frame: pd.DataFrame, n_matches: int) -> dict:
    """Return how fast blocks are made, up to ``n_matches`` matches, and the memory this takes."""
    layout = prepared(query, frame)
    PathWalk(layout)
    fresh = Layout(layout.graph, layout.places, layout.accept)
    began = time.thread_time()
    walk = PathWalk(fresh)
    laid_out = time.thread_time() - began
    next(walk.blocks(16))
    began, found, n_items = time.thread_time(), 0, 0
    for block in walk.blocks():
        found += len(block)
        n_items += len(block.event_of_item)
        if found >= n_matches:
            break
    cost = time.thread_time() - began
    tracemalloc.start()
    for number, _ in enumerate(walk.blocks()):
        if number == 20:
            break
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return {
        "what": what, "matches": found, "seconds": cost, "matches_per_s": found / cost,
        "events_per_s": n_items / cost, "layout_s": laid_out, "peak_mb": peak / 1e6,
    }  # fmt: skip


def drawn(what: str, query: SequenceQuery, frame: pd.DataFrame, n: int = 1000) -> dict:
    """Return what a sample of ``n`` costs, and one match found by its number."""
    layout = prepared(query, frame)
    counts = PathCounter(layout).by_place()
    walk = PathWalk(layout)
    total = walk.numbering(counts).total
    walk.sample(2, 0, counts)
    walk.take([0], counts)
    costs = []
    for seed in range(3):
        began = time.thread_time()
        assert len(walk.sample(n, seed, counts)) == n
        costs.append(time.thread_time() - began)
    began = time.thread_time()
    walk.take([total // 3], counts)
    return {"what": what, "matches": total, "sample_s": min(costs), "take_s": time.thread_time() - began}


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--matches", type=int, default=10**8, help="walk over at most so many")
    parser.add_argument("--json", help="also write the rows here")
    options = parser.parse_args()
    three, four, six = stream(100_000, 3), stream(100_000, 4), stream(30_000, 6)
    rows = [
        walked("SEQ3 within 30", rising(3, 30), three, options.matches),
        walked("SEQ3 within 300", rising(3, 300), three, options.matches),
        walked("SEQ3 within 3000", rising(3, 3000), three, options.matches),
        walked("SEQ4 within 300", rising(4, 300), four, options.matches),
        walked("SEQ6 within 300", rising(6, 300), six, options.matches),
        walked("SEQ(A, B+, C) within 300", rising_closure(300), three, options.matches // 5),
    ]
    for row in rows:
        print(
            f"{row['what']:<28} {row['matches']:>12,} matches {row['matches_per_s'] / 1e6:8.1f} M/s "
            f"{row['events_per_s'] / 1e6:8.1f} M events/s  layout {row['layout_s']:.4f} s  "
            f"peak {row['peak_mb']:.1f} MB",
            flush=True,
        )
    samples = [
        drawn("SEQ3 within 3000", rising(3, 3000), three),
        drawn("SEQ3 within 30000", rising(3, 30000), three),
        drawn("SEQ4 within 1000", rising(4, 1000), four),
        drawn("SEQ6 within 1000", rising(6, 1000), six),
        drawn("SEQ(A, B+, C) within 1200", rising_closure(1200), stream(30_000, 3)),
    ]
    for row in samples:
        print(
            f"{row['what']:<28} {row['matches']:>26,} matches  sample(1000) {row['sample_s']:.4f} s  "
            f"take one {row['take_s']:.4f} s",
            flush=True,
        )
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"walks": rows, "samples": samples}, file, indent=1)


if __name__ == "__main__":
    main()
