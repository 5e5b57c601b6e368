"""Why an event is in no match: the conditions that it meets, and the others."""

from __future__ import annotations

from collections.abc import Sequence

import traitlets

from cepkit.plots.stills.tables import lines_svg
from cepkit.widgets.base import View, browser_half, counted


class ReasonView(View):
    """Reasons, one per line. Each condition is met or not met.

    Parameters
    ----------
    title : str
        The event in question.
    lines : list of dict
        ``text``; ``is_met``: True, False, or None for a line that is not a condition.
    note : str
        A next step to try, or a limit of these reasons.
    """

    _esm, _css = browser_half("reason_view")

    # Python -> browser
    title = traitlets.Unicode().tag(sync=True)
    lines = traitlets.List(traitlets.Dict()).tag(sync=True)
    note = traitlets.Unicode().tag(sync=True)

    def __init__(self, *, title: str = "", lines: Sequence[dict] = (), note: str = "") -> None:
        super().__init__(title=title, lines=list(lines), note=note)

    def _summary(self) -> str:
        n_unmet = sum(line.get("is_met") is False for line in self.lines)
        return f"{counted(len(self.lines), 'line')}, {n_unmet} not met"

    def _still(self) -> str:
        if not (self.title or self.lines):
            return lines_svg(["No event in question."])
        marks = {True: "✓ ", False: "✗ ", None: "  "}
        lines = [f"{marks[line.get('is_met')]}{line['text']}" for line in self.lines]
        return lines_svg([*lines, *filter(None, [self.note])], title=self.title)
