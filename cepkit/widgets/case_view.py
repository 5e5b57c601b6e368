"""The kept cases of an explorer, each with a tick or a cross."""

from __future__ import annotations

from collections.abc import Sequence

import traitlets

from cepkit.plots.stills.tables import lines_svg, table_svg
from cepkit.widgets.base import View, browser_half, counted

_MARKS = {True: "✓", False: "✗", None: "?"}


class CaseView(View):
    """Kept cases: rows that must match or must not match.

    Parameters
    ----------
    cases : list of dict
        ``kind``, ``must``, ``label``; ``holds``: whether the case holds, or None if that is not known;
        ``text``: the reason.
    offers : list of dict
        ``id`` and ``text`` of what the user can keep now, the most likely first.
    stale : bool
        Whether the ticks belong to an earlier query.
    wanted : dict
        Written by the browser: ``act`` (keep, drop, show or test), ``what`` and ``must`` of a new case, or
        the ``number`` of a case, ``by`` (a name of the page) and ``n``, which counts the wishes.

    Notes
    -----
    Python answers a wish by a message with its ``by`` and ``n``: ``text`` is the text of a test, ``error`` a
    sentence on what is wrong.
    """

    _esm, _css = browser_half("case_view", "copying.js")

    # Python -> browser
    cases = traitlets.List(traitlets.Dict()).tag(sync=True)
    offers = traitlets.List(traitlets.Dict()).tag(sync=True)
    stale = traitlets.Bool().tag(sync=True)
    # browser -> Python
    wanted = traitlets.Dict().tag(sync=True)

    def __init__(
        self, *, cases: Sequence[dict] = (), offers: Sequence[dict] = (), stale: bool = False,
        wanted: dict | None = None,
    ) -> None:  # fmt: skip
        super().__init__(cases=list(cases), offers=list(offers), stale=stale, wanted=wanted or {})

    def _summary(self) -> str:
        n_held = sum(one["holds"] is True for one in self.cases)
        return f"{counted(len(self.cases), 'case')}, {n_held} hold" if self.cases else "0 cases"

    def _still(self) -> str:
        if not self.cases:
            return lines_svg(["No cases are kept."])
        rows = [(_MARKS[one["holds"]], _wish(one["must"]), one["label"]) for one in self.cases]
        return table_svg(("", "case", "rows"), rows)


def _wish(must: bool) -> str:
    return "must match" if must else "must not match"
