"""Register the parallel engines, their remark for `explain` and their views with the rooms below."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cepkit.parallel.agents.agents import parallel_note
from cepkit.parallel.agents.outcome import ParallelRun, view_of_trace
from cepkit.parallel.trace import Trace
from cepkit.planning.planner import register_engine_class, register_remark
from cepkit.results.views import OF_RUNS, one_of, view_of

if TYPE_CHECKING:
    from cepkit.widgets.base import View

register_engine_class("Hybrid", "cep.Hybrid(threads=4)")
register_engine_class("RIP", "cep.RIP(threads=4)")
register_engine_class("DataParallel", "cep.DataParallel(threads=4)")
register_engine_class("StateParallel", "cep.StateParallel()")
register_engine_class("Sequential", "cep.Sequential()")
register_remark("parallel", parallel_note)


@view_of.register(Trace)
def _(of: Trace, what: str | None, settings: dict) -> View:
    return view_of_trace(of, one_of(what, OF_RUNS, "a trace"), **settings)


@view_of.register(ParallelRun)
def _(of: ParallelRun, what: str | None, settings: dict) -> View:
    return of.view(what or OF_RUNS[0], **settings)
