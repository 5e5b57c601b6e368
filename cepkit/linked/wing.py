"""Register the engines of LinkedCEP, which run only when the user names them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from cepkit.linked.engine import linked_sequence, sase_sequence, siddhi_like_sequence
from cepkit.linked.query import describe_engine, linked_query_unsupported
from cepkit.planning.planner import Engine, register_engine


def _register(name: str, summary: str, run: Callable, *, chains: bool) -> None:
    details = partial(describe_engine, chains=chains)
    register_engine(Engine(name, summary, linked_query_unsupported, run, automatic=False, details=details))


# The methods of the papers, for comparison. ``matches.run`` has their counters.
_register("linked", "LinkedCEP: chains of partial matches, combined at the end", linked_sequence, chains=True)
_register("sase_runs", "a run per partial match, kept together as in SASE", sase_sequence, chains=False)
_siddhi = "a run per partial match, kept by component as in Siddhi"
_register("siddhi_like_runs", _siddhi, siddhi_like_sequence, chains=False)
