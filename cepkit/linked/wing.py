"""Register the engines of LinkedCEP, which run only when the user names them."""

from __future__ import annotations

from functools import partial

from cepkit.linked.engine import PlainlyMatched
from cepkit.linked.query import describe_engine, linked_query_unsupported
from cepkit.planning.planner import Engine, register_engine


def _register(name: str, summary: str) -> None:
    run = partial(PlainlyMatched, name=name)
    details = partial(describe_engine, chains=name == "linked")
    register_engine(Engine(name, summary, linked_query_unsupported, run, automatic=False, details=details))


# The methods of the papers, for comparison. ``matches.run`` has their counters.
_register("linked", "LinkedCEP: chains of partial matches, combined at the end")
_register("sase_runs", "a run per partial match, kept together as in SASE")
_register("siddhi_like_runs", "a run per partial match, kept by component as in Siddhi")
