"""Register the engine ``tree`` and the view of utilities with the rooms below."""

from __future__ import annotations

import pandas as pd

from cepkit.planning.planner import register_engine
from cepkit.results.views import one_of, view_of
from cepkit.shedding.tree.engine import ENGINE

register_engine(ENGINE)


@view_of.register(pd.DataFrame)
def _(of, what, settings):
    from cepkit.shedding.view import UtilityView  # imports the packages of the widgets

    one_of(what, ("utility",), "a DataFrame")
    return UtilityView(of, **settings)
