"""Cases of sequence queries as engines take them, and what engines find as the oracle writes it."""

from __future__ import annotations

import pandas as pd

from cepkit.compile.sequence_program import SequenceProgram, compile_sequence
from cepkit.engines.shared.sequence_set import MatchBlock, SequenceSet
from cepkit.events import Events
from cepkit.frames.building import build_events
from cepkit.frames.pandas import PandasSource
from cepkit.language.sequences.patterns import SequenceQuery
from tests.oracle import generate_sequences as gs
from tests.oracle.naive_sequences import SequenceMatch


def prepared(query: SequenceQuery, frame: pd.DataFrame) -> tuple[SequenceProgram, Events]:
    """Return the program and the events of a query."""
    source = PandasSource(frame)
    program = compile_sequence(query, source.schema)
    return program, build_events(source, program)


def bound(case: gs.Case) -> tuple[SequenceProgram, Events]:
    """Return the program and the events of a case."""
    return prepared(case.query, gs.to_frame(case.rows))


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
    """Return every match."""
    return found.ending(0, found.events.n_events)
