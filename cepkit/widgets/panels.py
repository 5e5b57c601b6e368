"""The widgets of the explorer: editor, selectors, automaton, cases, reasons, steps; the board of a stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import traitlets

from cepkit.language.expressions.durations import counted
from cepkit.plots.drawing import lines_svg, stacked, table_svg
from cepkit.plots.layered import automaton_picture
from cepkit.widgets.scene_view import View, browser_half, show_with_still

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd
    import plotly.graph_objects as go


_MARKS = {True: "✓", False: "✗", None: "?"}


class CaseView(View):
    """Kept cases: rows that must match or must not match."""

    # Python answers a wish by a message with its ``by`` and ``n``: the ``text`` of a test, or an ``error``.

    _esm, _css = browser_half("case_view", "copying.js")

    # Python -> browser
    # ``kind``, ``must``, ``label``; ``holds``: whether the case holds, or None if that is not known;
    # ``text``: the reason
    cases = traitlets.List(traitlets.Dict()).tag(sync=True)
    # ``id`` and ``text`` of what the user can keep now, the most likely first
    offers = traitlets.List(traitlets.Dict()).tag(sync=True)
    stale = traitlets.Bool().tag(sync=True)  # whether the ticks belong to an earlier query
    # browser -> Python
    # written by the browser: ``act`` (keep, drop, show or test), ``what`` and ``must`` of a new case, or the
    # ``number`` of a case, ``by`` (a name of the page) and ``n``, which counts the wishes
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


class ReasonView(View):
    """Reasons, one per line. Each condition is met or not met."""

    _esm, _css = browser_half("reason_view")

    # Python -> browser
    title = traitlets.Unicode().tag(sync=True)  # the event in question
    # ``text``; ``is_met``: True, False, or None for a line that is not a condition
    lines = traitlets.List(traitlets.Dict()).tag(sync=True)
    note = traitlets.Unicode().tag(sync=True)  # A next step to try, or a limit of these reasons

    def _summary(self) -> str:
        n_unmet = sum(line.get("is_met") is False for line in self.lines)
        return f"{counted(len(self.lines), 'line')}, {n_unmet} not met"

    def _still(self) -> str:
        if not (self.title or self.lines):
            return lines_svg(["No event in question."])
        marks = {True: "✓ ", False: "✗ ", None: "  "}
        lines = [f"{marks[line.get('is_met')]}{line['text']}" for line in self.lines]
        return lines_svg([*lines, *filter(None, [self.note])], title=self.title)


class FunnelView(View):
    """The steps of a query with the number of partial matches that reach each."""

    _esm, _css = browser_half("funnel_view")

    # Python -> browser
    # ``label``; ``n``: the count as text; ``share``: its ratio to the first step; ``kept``: its ratio to the
    # step before, or None; ``note``: shown for the selected step
    stages = traitlets.List(traitlets.Dict()).tag(sync=True)
    busy = traitlets.Bool().tag(sync=True)  # whether new counts are being computed; the old ones stay visible
    # browser -> Python
    # written by both sides: the selected step, from 0
    selected = traitlets.Int(None, allow_none=True).tag(sync=True)

    def _summary(self) -> str:
        return counted(len(self.stages), "step")

    def _still(self) -> str:
        if not self.stages:
            return lines_svg(["No steps yet."])
        rows = [
            (
                stage.get("label", ""), stage.get("n", ""), f"{100 * stage.get('share', 0.0):.3g} %",
                "" if stage.get("kept") is None else f"{100 * stage['kept']:.3g} %", stage.get("note", ""),
            )
            for stage in self.stages
        ]  # fmt: skip
        header = ("step", "partial matches", "of first", "of before", "note")
        return table_svg(header, rows, right=(1, 2, 3))


class SliderPanel(View):
    """Sliders for the constants of a query."""

    _esm, _css = browser_half("slider_panel")

    # Python -> browser
    # ``id``; ``label``: the place of the constant, such as ``"price >"``; ``value``, ``low``, ``high``;
    # ``step``, or None for any value; ``unit``; ``text``: the value in Python's notation; ``stops``: all
    # values of a logarithmic slider, rising, or an empty list
    sliders = traitlets.List(traitlets.Dict()).tag(sync=True)
    locked = traitlets.Unicode().tag(sync=True)  # Why no slider can be moved now. Empty if they can.
    # browser -> Python
    # Written by the browser, at most once per frame of the screen: ``id``, ``value`` and ``n``, which counts
    # the movements of this panel. Empty before the first movement.
    moved = traitlets.Dict().tag(sync=True)
    # written by the browser: the number of the drag that ``moved`` belongs to; 0 outside of drags
    gesture = traitlets.Int().tag(sync=True)
    # written by the browser: ``what`` is ``"undo"`` or ``"redo"``, and ``n`` counts the wishes
    wanted_step = traitlets.Dict().tag(sync=True)

    def _summary(self) -> str:
        return counted(len(self.sliders), "slider")

    def _still(self) -> str:
        if not self.sliders:
            return lines_svg(["No constants to move."])
        rows = [
            (
                slider.get("label", slider["id"]), slider.get("text") or f"{slider['value']:g}",
                slider.get("unit") or "", f"{slider['low']:g} … {slider['high']:g}",
            )
            for slider in self.sliders
        ]  # fmt: skip
        return table_svg(("constant", "value", "unit", "range"), rows, right=(1, 3))


# A stream, event by event, with the live partial matches at each event.

NEXT_MATCH = -1


class Stepper(View):
    """A stream, event by event."""

    _esm, _css = browser_half("stepper")

    # Python -> browser
    position = traitlets.Int().tag(sync=True)  # number of events read so far, from 0 to ``n_events``
    n_events = traitlets.Int().tag(sync=True)  # number of events
    event = traitlets.List(traitlets.List()).tag(sync=True)  # names and values of the last event read
    # ``state``: its id; ``label``; ``n``: number of partial matches in it; ``examples``: some of them
    live = traitlets.List(traitlets.Dict()).tag(sync=True)
    completed = traitlets.List(traitlets.Unicode()).tag(sync=True)  # matches that this event completed
    note = traitlets.Unicode().tag(sync=True)  # A remark about the shown matches
    # browser -> Python
    # Written by the browser: ``to``, the requested position, or -1 for the next event that completes a match;
    # ``n`` counts the requests. Empty before the first one.
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


class TakeBar(View):
    """Buttons that download matches and pictures, and copy code."""

    # Python answers a wish by a message with its ``by`` and ``n``: ``file``, ``mime`` and ``note`` of the
    # buffer that comes with it, or an ``error``.

    _esm, _css = browser_half("take_bar", "copying.js")

    # Python -> browser
    # One button each. ``id``; ``title``: its text; ``note``: what it takes; ``copies``: the text that it
    # copies, or an empty text for a download; ``locked``: why it cannot be used, or an empty text.
    items = traitlets.List(traitlets.Dict()).tag(sync=True)
    told = traitlets.Unicode().tag(sync=True)  # the size of the result in words
    # browser -> Python
    # written by the browser: ``id`` of a download, ``by`` (a name of the page) and ``n``, which counts the
    # wishes
    wanted = traitlets.Dict().tag(sync=True)

    def _summary(self) -> str:
        return ", ".join([*(item["title"] for item in self.items), *([self.told] if self.told else [])])

    def _still(self) -> str:
        return lines_svg([f"Take away: {self._summary()}"])


# An editor for the text of a query, with highlighting, completions, errors and the state of the run.

STATES = ("idle", "running", "done", "failed", "cancelled")
# The reserved words of queries, for highlighting and completion, in any case.
KEYWORDS = (
    *("PATTERN", "SEQ", "WHERE", "WITHIN", "AND", "OR", "NOT", "IF", "UNTIL"),
    *("IN", "BETWEEN", "IS", "LIKE", "NULL", "TRUE", "FALSE"),
    *("STRICT", "PARTITION", "NEXT", "ANY", "INNER", "GREEDY", "RELUCTANT"),
    *("skip_till_any_match", "skip_till_next_match", "strict_contiguity", "partition_contiguity"),
)
# Those of SQL's MATCH_RECOGNIZE.
KEYWORDS_OF_SQL = (
    *("SELECT", "FROM", "WHERE", "LIMIT", "AS", "MATCH_RECOGNIZE", "PARTITION", "ORDER", "BY", "MEASURES"),
    *("ONE", "ALL", "ROW", "ROWS", "PER", "MATCH", "SHOW", "OMIT", "EMPTY", "MATCHES", "WITH", "UNMATCHED"),
    *("AFTER", "SKIP", "PAST", "TO", "NEXT", "FIRST", "LAST", "PATTERN", "SUBSET", "DEFINE", "WITHIN"),
    *("PERMUTE", "PREV", "RUNNING", "FINAL", "CLASSIFIER", "MATCH_NUMBER", "DISTINCT", "INTERVAL"),
    *("AND", "OR", "NOT", "IN", "BETWEEN", "IS", "LIKE", "NULL", "TRUE", "FALSE", "CASE", "WHEN", "THEN"),
    *("ELSE", "END", "CAST", "ASC", "DESC", "NULLS", "COUNT", "SUM", "AVG", "MIN", "MAX"),
)


class QueryEditor(View):
    """An editor for the text of a query."""

    _esm, _css = browser_half(
        "query_editor", "query_painting.js", "query_completion.js", "query_help.js", "query_help.css"
    )

    # Python -> browser
    # Written by both sides: the query. The browser writes it 200 ms after the last key.
    text = traitlets.Unicode().tag(sync=True)  # and back
    # The edit (see ``edited``) that ``errors`` and ``status`` are about. Errors of an older edit stay visible
    # in paler colours until new ones arrive.
    version = traitlets.Int().tag(sync=True)
    # ``start``, ``end``: characters of ``text`` to underline; ``line``: from 1; ``message``: the error text
    # with its caret lines
    errors = traitlets.List(traitlets.Dict()).tag(sync=True)
    # ``name``, ``dtype`` and ``note`` of the columns of the data, shown beside the text
    columns = traitlets.List(traitlets.Dict()).tag(sync=True)
    # event types and functions, for completion in addition to columns and keywords
    names = traitlets.List(traitlets.Unicode()).tag(sync=True)
    functions = traitlets.List(traitlets.Unicode()).tag(sync=True)  # those of ``names`` that are functions
    keywords = traitlets.List(traitlets.Unicode(), list(KEYWORDS)).tag(sync=True)  # reserved words
    # The query in words. Empty before the first query without mistakes.
    sentence = traitlets.Unicode().tag(sync=True)
    # ``title``, ``text`` and ``sentence`` of queries that one click writes into the editor
    examples = traitlets.List(traitlets.Dict()).tag(sync=True)
    # the cheat sheet in groups: ``title``, and ``entries`` with ``text``, ``meaning`` and ``kind`` (where the
    # text belongs, see `cepkit.language.cheat_sheet`)
    sheet = traitlets.List(traitlets.Dict()).tag(sync=True)
    marked = traitlets.List(traitlets.Unicode()).tag(sync=True)  # names to mark in the text
    # ``state``: ``"idle"``, ``"running"``, ``"done"``, ``"failed"`` or ``"cancelled"``; ``message``;
    # ``progress``: from 0 to 1, or None if it is not known
    status = traitlets.Dict(default_value={"state": "idle", "message": "", "progress": None}).tag(sync=True)
    # browser -> Python
    edited = traitlets.Int().tag(sync=True)  # written by the browser: number of edits of the text
    cancel = traitlets.Int().tag(sync=True)  # written by the browser: number of clicks on the cancel button
    # written by the browser: ``what`` is ``"undo"`` or ``"redo"``, and ``n`` counts the wishes
    wanted_step = traitlets.Dict().tag(sync=True)

    @traitlets.validate("status")
    def _check_status(self, proposal: Any) -> dict:
        state = proposal["value"].get("state")
        if state not in STATES:
            raise traitlets.TraitError(f"QueryEditor.status: state {state!r} is not one of {list(STATES)}")
        return {"message": "", "progress": None, **proposal["value"]}

    def _summary(self) -> str:
        errors = f", {counted(len(self.errors), 'error')}" if self.errors else ""
        return f"{counted(len(self.text), 'character')}, {self.status['state']}{errors}"

    def _still(self) -> str:
        messages = [line for error in self.errors for line in str(error.get("message", "")).split("\n")]
        return lines_svg([*self.text.split("\n"), *messages], is_code=True)


class DataBar(View):
    """Selectors for the columns of a query, and a control that picks and searches the shown key."""

    _esm, _css = browser_half("data_bar", "data_bar_steps.js", "data_bar_steps.css")

    # Python -> browser
    # One selector each. ``name``: the keyword that it sets; ``label``; ``many``: whether several choices are
    # possible; ``choices``: list of dict with ``value`` and ``note``; ``chosen``: list of values; ``empty``:
    # the text for no choice; ``locked``: why it cannot be changed, or an empty text; ``needed``: whether the
    # query needs a choice; ``takes_text``: whether the user may add ``name = expression``.
    fields = traitlets.List(traitlets.Dict()).tag(sync=True)
    # The language of the query, such as ``"regex"``. Empty before there is a query.
    language = traitlets.Unicode().tag(sync=True)
    rows = traitlets.Unicode().tag(sync=True)  # the size of the data in words
    # A sentence about a choice, for example a mistake. Empty for nothing.
    note = traitlets.Unicode().tag(sync=True)
    # The shown key: ``text`` such as ``"symbol = AAA"``; ``place``, from 1, and ``n``, the number of keys;
    # ``matches`` in words. Empty if the data has no keys.
    key = traitlets.Dict().tag(sync=True)
    # A page of keys: ``search``, ``order`` and ``page`` of the wish; ``n_pages``; ``told``: the number of
    # keys in words; ``rows``: list of dict with ``id``, ``text`` and ``matches``; ``shown``: the id of the
    # shown key. Before the first page it may have the ``order`` alone.
    found = traitlets.Dict().tag(sync=True)
    # ``undo`` and ``redo``: the change that each takes back or makes again, in words. Empty for no change.
    steps = traitlets.Dict(default_value={"undo": "", "redo": ""}).tag(sync=True)
    # the past queries, the newest first: ``number``, ``text``, ``note`` on the choices, ``matches``, ``took``
    # and ``at`` in words
    runs = traitlets.List(traitlets.Dict()).tag(sync=True)
    # Written by both sides: the part that is shown beside the matches, such as ``"funnel"``. Empty for none.
    opened = traitlets.Unicode().tag(sync=True)
    # The newest ``asked`` that Python has seen. The browser learns that Python is there.
    answered = traitlets.Int().tag(sync=True)
    # browser -> Python
    # written by the browser: ``name``, ``values`` and ``n``, which counts the choices
    chosen = traitlets.Dict().tag(sync=True)
    # written by the browser: ``search``, ``order``, ``page`` and ``n`` for the next page of keys
    wanted_keys = traitlets.Dict().tag(sync=True)
    # written by the browser: ``id`` of a key, or ``step`` to a neighbour of the shown one, and ``n``
    wanted_key = traitlets.Dict().tag(sync=True)
    # written by the browser: ``what`` is ``"undo"`` or ``"redo"``, and ``n`` counts the wishes
    wanted_step = traitlets.Dict().tag(sync=True)
    # written by the browser: ``number`` of a past query to bring back, and ``n``
    wanted_run = traitlets.Dict().tag(sync=True)
    asked = traitlets.Int().tag(sync=True)  # written by the browser after an action of the user

    @property
    def key_text(self) -> str:
        """The shown key in words; empty without keys."""
        return key_text(self.key)

    def _summary(self) -> str:
        parts = (self.language, self.rows, self.key_text)
        return ", ".join(part for part in parts if part)

    def _still(self) -> str:
        chosen = (
            f"{field['label']}: {', '.join(field['chosen'])}" for field in self.fields if field["chosen"]
        )
        line = "; ".join([*chosen, self.key_text]).strip("; ")
        return lines_svg([line or "No columns are chosen."])


def key_text(key: dict[str, Any]) -> str:
    """Return the shown key in words.

    Examples
    --------
    >>> key_text({"text": "symbol = AAA", "place": 1, "n": 40, "matches": ""})
    'symbol = AAA, 1 of 40 keys'
    """
    if not key:
        return ""
    return f"{key['text']}, {key['place']:,} of {counted(key['n'], 'key')}"


class NfaView(View):
    """An automaton, drawn at the places that Python computed."""

    _esm, _css = browser_half("nfa_view")

    # Python -> browser
    # ``id`` (int or str), ``label``, ``x`` and ``y`` of the centre in pixels, ``is_start``, ``is_final``,
    # optionally ``tooltip``. A circle has a radius of 17 pixels; the outer circle of a final state has 21. An
    # arrow of 26 pixels points at the start from the left.
    states = traitlets.List(traitlets.Dict()).tag(sync=True)
    # ``source``, ``target``: ids; ``label``, which may have several lines; ``path``: an SVG path that ends 7
    # pixels before the circle, where the widget draws the head of the arrow; ``x``, ``y``: centre of the last
    # line of the label; optionally ``tooltip``
    transitions = traitlets.List(traitlets.Dict()).tag(sync=True)
    # width, height: size of the drawing; its upper left corner is (0, 0)
    width = traitlets.Float().tag(sync=True)
    height = traitlets.Float().tag(sync=True)
    # ``state``: id, ``n``: number of live partial matches there, an int or a text
    live = traitlets.List(traitlets.Dict()).tag(sync=True)
    lit = traitlets.List().tag(sync=True)  # ids of the states that the selected match passes
    told = traitlets.Unicode().tag(sync=True)  # text about the selected state, shown below the picture
    # ``name`` and ``text``: what the names on the arrows mean, shown below the picture
    conditions = traitlets.List(traitlets.Dict()).tag(sync=True)
    # whether there is no editor, timeline or stepper that reacts to the view
    is_alone = traitlets.Bool(False).tag(sync=True)
    # browser -> Python
    # written by both sides: id of the selected state
    selected = traitlets.Union(
        [traitlets.Int(), traitlets.Unicode()], default_value=None, allow_none=True
    ).tag(sync=True)

    def figure(self) -> go.Figure:
        """Return the picture, with the current live and lit states, as a plotly figure."""
        from cepkit.plots.layered import nfa_figure

        live = {live_state["state"]: live_state["n"] for live_state in self.live}
        return nfa_figure(self.states, self.transitions, self.width, self.height, live=live, lit=self.lit)

    def svg(self) -> str:
        """Return the picture as SVG text."""
        return self._still()

    def to_frame(self) -> pd.DataFrame:
        """Return one row per transition: ``source``, ``target``, ``label``."""
        import pandas as pd

        return pd.DataFrame(self.transitions, columns=["source", "target", "label"])

    def _summary(self) -> str:
        transitions = counted(len(self.transitions), "transition")
        return f"{counted(len(self.states), 'state')}, {transitions}"

    def _still(self) -> str:
        if not self.states:
            return lines_svg(["No automaton yet."])
        live = {state["state"]: state["n"] for state in self.live}
        return automaton_picture(
            self.states, self.transitions, self.width, self.height, live=live, lit=self.lit,
            conditions=self.conditions,
        )  # fmt: skip


_COURSE = 60  # figures of a course, one a second


class StreamBoard(View):
    """What a stream holds and does, with the course of the last minute; see `cepkit.Stream.board`."""

    _esm, _css = browser_half("stream_board")

    # Python -> browser
    title = traitlets.Unicode().tag(sync=True)  # the query of the stream
    # ``label``; ``now``: the newest figure as text; ``course``: the last figures as numbers
    figures = traitlets.List(traitlets.Dict()).tag(sync=True)
    note = traitlets.Unicode().tag(sync=True)  # what was lost, and what grows

    def follow(self, figures: Mapping[str, tuple[float, str]], note: str) -> None:
        """Show newer figures, by label a number and its text; those with a new label begin a course."""
        course_of = {figure["label"]: figure["course"] for figure in self.figures}
        self.note = note
        self.figures = [
            {"label": label, "now": text, "course": [*course_of.get(label, []), number][-_COURSE:]}
            for label, (number, text) in figures.items()
        ]
        self._show_still()

    def _ipython_display_(self) -> None:
        # A saved notebook shows the newest figures, not those of the moment when the board was displayed.
        self._show_still = show_with_still(self._repr_mimebundle_(), self._still, self.__repr__)

    def _show_still(self) -> None:
        """Draw the still again, once the board is displayed."""

    def _summary(self) -> str:
        return self.title

    def _still(self) -> str:
        rows = [(figure["label"], figure["now"]) for figure in self.figures]
        return (
            table_svg(("", "now"), rows, caption=self.title, right=[1])
            if rows
            else lines_svg(["No events yet."])
        )
