"""What the wing of LinkedCEP registers: its engines, which run only when they are named."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from cepkit.linked.engine import linked_sequence, sase_sequence, siddhi_like_sequence
from cepkit.linked.query import described, linked_query_unsupported
from cepkit.planning.planner import Engine, register_engine


def _register(name: str, summary: str, run: Callable, *, chains: bool) -> None:
    details = partial(described, chains=chains)
    register_engine(Engine(name, summary, linked_query_unsupported, run, automatic=False, details=details))


# The ways of the papers, for comparison. They say what they made in ``matches.run``.
_register("linked", "LinkedCEP: chains of partial matches, combined at the end", linked_sequence, chains=True)
_register("sase_runs", "a run per partial match, kept together as in SASE", sase_sequence, chains=False)
_register(
    "siddhi_like_runs",
    "a run per partial match, kept by component as in Siddhi",
    siddhi_like_sequence,
    chains=False,
)
