"""Random cases that the tree engine runs: every construct, but only by skip-till-any-match."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from cepkit.language.expressions.trees import with_parts
from cepkit.language.sequences import patterns as sq
from cepkit.shedding.tree_program import tree_unsupported
from tests.oracle import generate_sequences as gs
from tests.support.sequence_runs import bound

FAMILIES = ("any", "window", "negation", "kleene", "optional", "alternatives")


def without_contiguity(pattern: sq.SequencePattern) -> sq.SequencePattern:
    """Return a pattern that skips any events, with loops that no event ends."""
    made = with_parts(pattern, sq.SequencePattern, without_contiguity)
    if isinstance(made, sq.Loop):
        return replace(made, inner=None, preference="all", until=None)
    if isinstance(made, sq.SequenceOf):
        return replace(made, steps=(None,) * len(made.steps))
    return made


def tree_case(shape_seed: int, seed: int, family: str) -> gs.Case:
    """Return a case that the tree runs; its keywords may ask for an order of evaluation."""
    for attempt in range(300):
        number = 1000 * shape_seed + attempt
        drawn = gs.case(1000 * number + seed, number, family)
        policy = ("none", None) if attempt % 4 else ("past_last", None)
        query = replace(
            drawn.query, strategy="any", pattern=without_contiguity(drawn.query.pattern), after_match=policy
        )
        shape = Random(f"order {number}")
        if shape.random() < 0.4:
            names = list(query.variables)
            shape.shuffle(names)
            query = replace(query, evaluation_order=tuple(names))
        case = replace(drawn, query=query)
        if gs.n_candidates(case) <= gs.MOST_CANDIDATES and tree_unsupported(bound(case)[0]) is None:
            return case
    raise RuntimeError(f"no case for shape {shape_seed}")
