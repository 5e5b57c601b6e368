"""Register the engine of scatter–gather with the rooms below."""

from __future__ import annotations

from cepkit.planning.planner import register_engine_class

register_engine_class("ScatterGather", "cep.ScatterGather(nodes=4)")
