"""A stream, event by event, with the live partial matches at each event."""

from __future__ import annotations

from collections.abc import Sequence

import traitlets

from cepkit.plots.stills.tables import stacked, table_svg
from cepkit.widgets.base import View, browser_half, counted

NEXT_MATCH = -1


class Stepper(View):
    """A stream, event by event.

    Parameters
    ----------
    position : int
        Number of events read so far, from 0 to ``n_events``.
    n_events : int
        Number of events.
    event : list of (str, str)
        Names and values of the last event read.
    live : list of dict
        ``state``: its id; ``label``; ``n``: number of partial matches in it; ``examples``: some of them.
    completed : list of str
        Matches that this event completed.
    note : str
        A remark about the shown matches.
    wanted : dict
        Written by the browser: ``to``, the requested position, or -1 for the next event that completes a
        match; ``n`` counts the requests. Empty before the first one.
    """

    _esm, _css = browser_half("stepper")

    # Python -> browser
    position = traitlets.Int().tag(sync=True)
    n_events = traitlets.Int().tag(sync=True)
    event = traitlets.List().tag(sync=True)
    live = traitlets.List(traitlets.Dict()).tag(sync=True)
    completed = traitlets.List(traitlets.Unicode()).tag(sync=True)
    note = traitlets.Unicode().tag(sync=True)
    # browser -> Python
    wanted = traitlets.Dict().tag(sync=True)

    def __init__(
        self, *, position: int = 0, n_events: int = 0, event: Sequence[Sequence[str]] = (),
        live: Sequence[dict] = (), completed: Sequence[str] = (), note: str = "",
        wanted: dict | None = None,
    ) -> None:  # fmt: skip
        super().__init__(
            position=position, n_events=n_events, event=[list(pair) for pair in event], live=list(live),
            completed=list(completed), note=note, wanted=wanted or {},
        )  # fmt: skip

    def _summary(self) -> str:
        live = sum(int(state.get("n", 0)) for state in self.live)
        return f"event {self.position:,} of {self.n_events:,}, {counted(live, 'live partial match')}"

    def _place(self) -> str:
        """Return the place in words; an event has the number of its row, as everywhere in the board."""
        if self.position and self.event and self.event[0][0] == "row":
            return f"row {self.event[0][1]}, {self.n_events - self.position:,} left"
        return f"event {self.position:,} of {self.n_events:,}"

    def _still(self) -> str:
        place = self._place()
        parts = [table_svg((), self.event, caption=place)]
        rows = [
            (state.get("label", ""), state.get("n", 0), "; ".join(state.get("examples", ())))
            for state in self.live
        ]
        if rows:
            parts.append(table_svg(("state", "live", "examples"), rows, right=(1,)))
        if self.completed:
            parts.append(table_svg(("completed",), [(text,) for text in self.completed]))
        return stacked(parts, place)
