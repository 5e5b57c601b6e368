"""How fast matches are walked, drawn and found: thread-CPU seconds of one process on one thread.

Limits to hold them against: a match of SEQ3 is 24 bytes, so that 20 GB/s of stores would be 8e8
matches per second.
"""

from __future__ import annotations

import time
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
from cepkit.language.sequences.patterns import EventPattern, SequenceOf
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
