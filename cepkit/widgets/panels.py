"""Small widgets of the explorer: cases, reasons, the funnel, sliders, the stepper, buttons to take."""

from __future__ import annotations

import traitlets

from cepkit.plots.stills.tables import lines_svg, stacked, table_svg
from cepkit.widgets.base import View, browser_half, counted

# The kept cases of an explorer, each with a tick or a cross.

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

    def _summary(self) -> str:
        n_held = sum(case["holds"] is True for case in self.cases)
        return f"{counted(len(self.cases), 'case')}, {n_held} hold" if self.cases else "0 cases"

    def _still(self) -> str:
        if not self.cases:
            return lines_svg(["No cases are kept."])
        rows = [(_MARKS[case["holds"]], _wish(case["must"]), case["label"]) for case in self.cases]
        return table_svg(("", "case", "rows"), rows)


def _wish(must: bool) -> str:
    return "must match" if must else "must not match"


# Why an event is in no match: the conditions that it meets, and the others.


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

    def _summary(self) -> str:
        n_unmet = sum(line.get("is_met") is False for line in self.lines)
        return f"{counted(len(self.lines), 'line')}, {n_unmet} not met"

    def _still(self) -> str:
        if not (self.title or self.lines):
            return lines_svg(["No event in question."])
        marks = {True: "✓ ", False: "✗ ", None: "  "}
        lines = [f"{marks[line.get('is_met')]}{line['text']}" for line in self.lines]
        return lines_svg([*lines, *filter(None, [self.note])], title=self.title)


# The number of partial matches that reach each step of a query.


class FunnelView(View):
    """The steps of a query with the number of partial matches that reach each.

    Parameters
    ----------
    stages : list of dict
        ``label``; ``n``: the count as text; ``share``: length of the bar, from 0 to 1; ``selectivity``: the
        share of the step before that this step keeps, or None; ``note``: shown for the selected step.
    busy : bool
        Whether new counts are being computed; the old ones stay visible.
    selected : int or None
        Written by both sides: the selected step, from 0.
    """

    _esm, _css = browser_half("funnel_view")

    # Python -> browser
    stages = traitlets.List(traitlets.Dict()).tag(sync=True)
    busy = traitlets.Bool().tag(sync=True)
    # browser -> Python
    selected = traitlets.Int(None, allow_none=True).tag(sync=True)

    def _summary(self) -> str:
        return counted(len(self.stages), "step")

    def _still(self) -> str:
        if not self.stages:
            return lines_svg(["No steps yet."])
        rows = [
            (
                stage.get("label", ""),
                stage.get("n", ""),
                f"{100 * stage.get('share', 0.0):.3g} %",
                "" if stage.get("selectivity") is None else f"{stage['selectivity']:.3g}",
                stage.get("note", ""),
            )
            for stage in self.stages
        ]
        header = ("step", "partial matches", "share", "selectivity", "note")
        return table_svg(header, rows, right=(1, 2, 3))


# Sliders for the constants of a query.


class SliderPanel(View):
    """Sliders for the constants of a query.

    Parameters
    ----------
    sliders : list of dict
        ``id``; ``label``: the place of the constant, such as ``"price >"``; ``value``, ``low``, ``high``;
        ``step``, or None for any value; ``unit``; ``text``: the value in Python's notation; ``stops``: all
        values of a logarithmic slider, rising, or an empty list.
    locked : str
        Why no slider can be moved now. Empty if they can.
    moved : dict
        Written by the browser, at most once per frame of the screen: ``id``, ``value`` and ``n``, which
        counts the movements of this panel. Empty before the first movement.
    gesture : int
        Written by the browser: the number of the drag that ``moved`` belongs to; 0 outside of drags.
    wanted_step : dict
        Written by the browser: ``what`` is ``"undo"`` or ``"redo"``, and ``n`` counts the wishes.
    """

    _esm, _css = browser_half("slider_panel")

    # Python -> browser
    sliders = traitlets.List(traitlets.Dict()).tag(sync=True)
    locked = traitlets.Unicode().tag(sync=True)
    # browser -> Python
    moved = traitlets.Dict().tag(sync=True)
    gesture = traitlets.Int().tag(sync=True)
    wanted_step = traitlets.Dict().tag(sync=True)

    def _summary(self) -> str:
        return counted(len(self.sliders), "slider")

    def _still(self) -> str:
        if not self.sliders:
            return lines_svg(["No constants to move."])
        rows = [
            (
                slider.get("label", slider["id"]),
                slider.get("text") or f"{slider['value']:g}",
                slider.get("unit") or "",
                f"{slider['low']:g} … {slider['high']:g}",
            )
            for slider in self.sliders
        ]
        return table_svg(("constant", "value", "unit", "range"), rows, right=(1, 3))


# A stream, event by event, with the live partial matches at each event.

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
    event = traitlets.List(traitlets.List()).tag(sync=True)
    live = traitlets.List(traitlets.Dict()).tag(sync=True)
    completed = traitlets.List(traitlets.Unicode()).tag(sync=True)
    note = traitlets.Unicode().tag(sync=True)
    # browser -> Python
    wanted = traitlets.Dict().tag(sync=True)

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


# Buttons that take matches, pictures and code out of an explorer.


class TakeBar(View):
    """Buttons that download matches and pictures, and copy code.

    Parameters
    ----------
    items : list of dict
        One button each. ``id``; ``title``: its text; ``note``: what it takes; ``copies``: the text that it
        copies, or an empty text for a download; ``locked``: why it cannot be used, or an empty text.
    told : str
        The size of the result in words.
    wanted : dict
        Written by the browser: ``id`` of a download, ``by`` (a name of the page) and ``n``, which counts the
        wishes.

    Notes
    -----
    Python answers a wish by a message with its ``by`` and ``n``: ``file`` and ``mime`` of the buffer that
    comes with it, and a ``note``; or ``error``, a sentence on what is wrong.
    """

    _esm, _css = browser_half("take_bar", "copying.js")

    # Python -> browser
    items = traitlets.List(traitlets.Dict()).tag(sync=True)
    told = traitlets.Unicode().tag(sync=True)
    # browser -> Python
    wanted = traitlets.Dict().tag(sync=True)

    def _summary(self) -> str:
        return ", ".join([*(item["title"] for item in self.items), *([self.told] if self.told else [])])

    def _still(self) -> str:
        return lines_svg([f"Take away: {self._summary()}"])
