"""Every sequence engine against the definition, on random queries and streams."""

from __future__ import annotations

from functools import cache

import generate_sequences as gs
import numba
import numpy as np
import pytest
from naive_sequences import SequenceMatch, sequence_matches

from cepkit.compile.sequence import SequenceProgram, compile_sequence
from cepkit.engines.reuse import report_matches
from cepkit.frames.building import build_events
from cepkit.frames.pandas import PandasSource
from cepkit.planner import ENGINES
from cepkit.sequence_set import MatchBlock, SequenceSet

SEQUENCE_ENGINES = [name for name, engine in ENGINES.items() if engine.run is not None]
FAMILIES = list(gs.FAMILIES)
N_SHAPES = 3 if numba.config.DISABLE_JIT == 0 else 0
# Without the JIT every case has a shape of its own; with it a few shapes have many streams each.
SEEDS = range(150) if numba.config.DISABLE_JIT else range(60)


def bound(case: gs.Case):
    source = PandasSource(gs.to_frame(case.rows))
    program = compile_sequence(case.query, source.schema)
    return program, build_events(source, program)


def as_matches(program: SequenceProgram, block: MatchBlock) -> list[SequenceMatch]:
    """Return a block as the oracle writes matches."""
    made = []
    for m, b in enumerate(block.branch_of_match.tolist()):
        branch = program.branches[b].branch
        items = slice(block.first_item_of_match[m], block.first_item_of_match[m + 1])
        events, components = block.event_of_item[items], block.component_of_item[items]
        made.append(
            SequenceMatch(
                tuple(
                    (component.variable, tuple(events[components == c].tolist()))
                    for c, component in enumerate(branch.components)
                ),
                branch.options,
            )
        )
    return made


def all_of(found: SequenceSet) -> MatchBlock:
    return found.ending(0, found.events.n_events)


def shape_seed(seed: int) -> int | None:
    return None if numba.config.DISABLE_JIT else seed % N_SHAPES


@cache
def expected(seed: int, family: str) -> tuple[gs.Case, list[SequenceMatch]]:
    case = gs.case(seed, shape_seed(seed), family)
    return case, sequence_matches(case.query, case.rows)


@pytest.mark.parametrize("engine", SEQUENCE_ENGINES)
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("seed", SEEDS)
def test_engine_is_the_definition(seed, family, engine):
    case, wanted = expected(seed, family)
    program, events = bound(case)
    if reason := ENGINES[engine].unsupported(program):
        pytest.skip(reason)
    found = report_matches(program, ENGINES[engine].run(program, events))
    assert as_matches(program, all_of(found)) == wanted
    assert found.count() == len(wanted)
    positions, counts = found.ends()
    lasts = [match.rows[-1] for match in wanted]
    assert np.repeat(positions, np.asarray(counts, dtype=np.int64)).tolist() == lasts
