"""What the wing of load shedding registers with the rooms below: the view of utilities."""

from __future__ import annotations

import pandas as pd

from cepkit.results.views import one_of, view_of


@view_of.register(pd.DataFrame)
def _(of, what, settings):
    from cepkit.shedding.view import UtilityView  # the widgets' packages load with the first view

    one_of(what, ("utility",), "a DataFrame")
    return UtilityView(of, **settings)
