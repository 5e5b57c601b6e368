"""Register the engine ``tree`` and the views of replays and utilities with the rooms below."""

from __future__ import annotations

import pandas as pd

from cepkit.planning.planner import register_engine, register_engine_class
from cepkit.results.views import one_of, view_of
from cepkit.shedding.simulation.replay import ReplayResult
from cepkit.shedding.tree.engine import ENGINE

register_engine(ENGINE)
register_engine_class("Tree", 'cep.shedding.Tree(order="cost")')


@view_of.register(pd.DataFrame)
def _(of, what, settings):
    from cepkit.shedding.views import UtilityView  # imports the packages of the widgets

    one_of(what, ("utility",), "a DataFrame")
    return UtilityView(of, **settings)


@view_of.register(ReplayResult)
def _(of, what, settings):
    from cepkit.shedding.views import LoadView, utility_view_of

    views = {"load": LoadView, "utility": utility_view_of}
    return views[one_of(what, tuple(views), "the result of replay")](of, **settings)
