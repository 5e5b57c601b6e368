"""Register the engines of LinkedCEP, which run only when the user names them."""

from __future__ import annotations

from functools import partial

from cepkit.linked.engine import SUMMARIES, PlainlyMatched
from cepkit.linked.query import describe_engine, linked_query_unsupported
from cepkit.planning.planner import Engine, register_engine, register_engine_class


def _register(name: str, summary: str) -> None:
    run = partial(PlainlyMatched, name=name)
    details = partial(describe_engine, chains=name == "linked")
    register_engine(Engine(name, summary, linked_query_unsupported, run, automatic=False, details=details))


# The methods of the papers, for comparison. ``matches.run`` has their counters.
for _name, _summary in SUMMARIES.items():
    _register(_name, _summary)
register_engine_class("PartialMatchEngine", "PartialMatchEngine('linked', copies='deep')")
