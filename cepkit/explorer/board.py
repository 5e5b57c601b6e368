"""The layout of the explorer's widgets, the calls that their changes trigger, and its selectors."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from typing import Any

import ipywidgets

from cepkit.engines.sequence_measures import default_measures
from cepkit.errors import CepError
from cepkit.events import BOOLEAN, DURATION, FLOAT, INTEGER, NUMBERS, TEXT, TIME, ColumnType
from cepkit.explorer.running.worker import call_later
from cepkit.explorer.text import is_rows, is_sase, settings_in
from cepkit.language.expressions.parsing import parse_expression
from cepkit.language.expressions.printing import print_expression, quoted_name
from cepkit.language.match_recognize.query import RowsQuery
from cepkit.language.regex import RegexQuery
from cepkit.language.sequences.patterns import SequenceQuery
from cepkit.plots.drawing import stacked
from cepkit.values import dataclass
from cepkit.widgets.panels import (
    CaseView,
    DataBar,
    FunnelView,
    NfaView,
    QueryEditor,
    ReasonView,
    SliderPanel,
    Stepper,
    TakeBar,
)
from cepkit.widgets.scene_view import MatchTable
from cepkit.widgets.timeline_view import TimelineView

HELD_S = 0.1  # changes that leave together wait no longer than this


class Board:
    """The widgets of an explorer; traits that Python sets through it trigger no calls."""

    def __init__(self, text: str, columns: list[dict[str, str]], names: list[str]):
        self.code = ""  # Python code of the call, to copy into a cell
        self.bar = DataBar()
        self.editor = QueryEditor(text=text, columns=columns, names=names)
        self.sliders, self.nfa, self.timeline = SliderPanel(), NfaView(), TimelineView(busy=True)
        self.table, self.funnel, self.stepper = MatchTable(total=""), FunnelView(), Stepper()
        self.reasons, self.take, self.cases = ReasonView(), TakeBar(), CaseView()
        # The first screen has the question, the events and the matches. The bar opens one of the others.
        parts = {
            "bar": [self.bar], "editor": [self.editor], "sliders": [self.sliders],
            "timeline": [self.timeline], "wide": [self.nfa, self.stepper], "table": [self.table],
            "side": [self.reasons, self.funnel, self.cases, self.take],
        }  # fmt: skip
        for name, there in parts.items():
            for part in there:
                part.layout.grid_area = name  # data_bar.css places the areas by the width of the board
        self._parts = ipywidgets.VBox([part for there in parts.values() for part in there])
        self._parts.add_class("cepkit-data_bar-parts")
        self.box = ipywidgets.VBox([self._parts])
        self.box.add_class("cepkit-data_bar-board")
        self.box.add_class("cepkit-board")
        self._writing = threading.local()
        self._lock = threading.RLock()  # hold_sync collects the changes of a single thread
        self._held: ExitStack | None = None  # keeps the changes of all widgets
        self.reasons.observe(self._open_reasons, ["title", "lines", "note"])
        self.cases.observe(self._open_cases, "cases")

    def _open_reasons(self, change: Any) -> None:
        """Open the reasons when there are some, and close them with the last one."""
        has_some = bool(self.reasons.title or self.reasons.lines or self.reasons.note)
        if has_some or self.bar.opened == "reasons":
            self.bar.opened = "reasons" if has_some else ""

    def _open_cases(self, change: Any) -> None:
        if len(change["new"]) > len(change["old"]):
            self.bar.opened = "cases"

    def add_button(self, text: str, tooltip: str, pressed: Callable[[], None]) -> None:
        """Add a button below the editor."""
        button = ipywidgets.Button(description=text, tooltip=tooltip)
        button.on_click(lambda _: pressed())
        button.layout.grid_area = "more"
        self._parts.children = [*self._parts.children[:1], button, *self._parts.children[1:]]

    def observe(self, widget: Any, trait: str, wish: Callable[[Any], Any]) -> None:
        """Call ``wish`` with the new value when the browser, or the user's Python, sets a trait."""

        def handle(change: Any) -> None:
            if getattr(self._writing, "depth", 0):
                return
            self._hold()
            try:
                wish(change["new"])
            except (CepError, IndexError, ValueError) as error:  # the wish came too late
                self.give_reasons(str(error).split("\n")[0])
            if self.editor.status["state"] != "running":  # otherwise matches follow at once
                self.release()

        widget.observe(handle, trait)

    def _hold(self) -> None:
        """Keep changes until `release`. They leave together, the table first: each message takes time."""
        with self._lock:
            if self._held is None:
                self._held = ExitStack()
                for widget in sorted(self._parts.children, key=lambda widget: widget is self.table):
                    self._held.enter_context(widget.hold_sync())
                call_later(HELD_S, self.release)

    def release(self) -> None:
        """Send the kept changes."""
        with self._lock:
            held, self._held = self._held, None
            if held is not None:
                held.close()

    def set(self, widget: Any, traits: Mapping[str, Any]) -> None:
        """Set traits of a widget in a single message."""
        with self._lock, widget.hold_sync():
            self._writing.depth = getattr(self._writing, "depth", 0) + 1
            try:
                for name, value in traits.items():
                    setattr(widget, name, value)
            finally:
                self._writing.depth -= 1

    def say(
        self, state: str, message: str, *, progress: float | None = None, version: int | None = None,
        errors: list[dict] | None = None,
    ) -> None:  # fmt: skip
        """Show the state of the newest run, the edit ``version`` it belongs to, and mistakes in the text."""
        traits: dict[str, Any] = {} if version is None else {"version": version}
        if errors is not None:
            traits["errors"] = errors
        status = {"state": state, "message": message, "progress": progress}
        self.set(self.editor, {**traits, "status": status})

    def still(self) -> str:
        """Return the query, automaton, timeline and table as SVG text for pages without a kernel."""
        head = [self.bar] if self.bar.key else []
        shown = (*head, self.editor, self.nfa, self.timeline, self.table)
        return stacked([widget._still() for widget in shown], "explorer")

    def give_reasons(self, title: str, lines: list[dict] | None = None, note: str = "") -> None:
        """Show why events are not a match."""
        self.set(self.reasons, {"title": title, "lines": lines or [], "note": note})


# The selectors of the board: which columns, strategies and measures a query can use, and what is chosen.

CHOSEN = ("partition_by", "order_by", "event_type", "strategy", "measures")
DRAWN = "value"
KINDS_OF_KEYS = (TEXT, BOOLEAN, INTEGER)
KINDS_OF_CLOCKS = (TIME, DURATION, INTEGER, FLOAT, TEXT)
KINDS_OF_TYPES = (TEXT, INTEGER, BOOLEAN)
STRATEGIES = {
    "any": "skips any events", "next": "skips events that cannot continue the match",
    "partition": "skips no event of the key", "strict": "skips no event",
}  # fmt: skip
_OF_COLUMN = ("first", "last", "min", "max", "avg")  # measures of a number, offered for every match
_SHOWN_COLUMNS = 6  # columns of numbers with measures


@dataclass(frozen=True)
class Data:
    """The part of a frame that its selectors need."""

    schema: Mapping[str, ColumnType]
    duplicates: frozenset[str] = frozenset()

    def columns(self, kinds: tuple[str, ...]) -> list[str]:
        """Return the columns of some kinds, the first kind first."""
        names = [name for name in self.schema if name not in self.duplicates]
        return [name for kind in kinds for name in names if self.schema[name].kind == kind]


def language_of(text: str) -> str:
    """Return the language of a text: ``"SQL"``, ``"PATTERN"``, ``"regex"``, or an empty text."""
    if is_rows(text):
        return "SQL"
    return "" if not text.strip() else "PATTERN" if is_sase(text) else "regex"


def lacks_event_type(text: str, call: Mapping[str, Any], mistakes: Iterable[str]) -> bool:
    """Return whether a sequence is not understood because no column has the types of its events."""
    if not is_sase(text) or call.get("event_type"):
        return False
    return any(message.startswith("event_type:") for message in mistakes)


def fields_of(
    data: Data, call: Mapping[str, Any], text: str, query: RegexQuery | SequenceQuery | RowsQuery | None,
    drawn: tuple[list[str], str], needs_event_type: bool = False,
) -> list[dict[str, Any]]:  # fmt: skip
    """Return the fields of the editor: the columns that each keyword of a call may name."""
    if is_rows(text):
        return _fields_of_rows(query, drawn)
    settings, is_sequence = settings_in(text), is_sase(text)
    keys = _columns(data, KINDS_OF_KEYS, call.get("partition_by"))
    clocks = _columns(data, KINDS_OF_CLOCKS, call.get("order_by"))
    types = _columns(data, KINDS_OF_TYPES, call.get("event_type"))
    strategies = [{"value": name, "note": note} for name, note in STRATEGIES.items()]
    only = "" if is_sequence or not text.strip() else "only for PATTERN queries"
    strategy = settings.strategy or call.get("strategy") or "any"
    chosen_measures = measures_of_default(query) if call.get("measures") is None else call["measures"]
    return [
        {
            **_field("partition_by", "Key columns", keys, settings.partition_by or call.get("partition_by")),
            "many": True, "empty": "none",
            "locked": "the query names them in WHERE [ ]" if settings.partition_by else "",
        },
        {
            **_field("order_by", "Clock", clocks, call.get("order_by")),
            "many": True, "empty": "order of the rows",
        },
        {
            **_field("event_type", "Event type", types, call.get("event_type")),
            "empty": "none", "needed": needs_event_type, "locked": only,
        },
        {
            **_field("strategy", "Strategy", strategies, None if only else strategy),
            "empty": "contiguous",
            "locked": only or ("the query names it in WHERE" if settings.strategy else ""),
        },
        _field_of_drawn(drawn),
        {
            **_field("measures", "Measures", _measures(data, call, query), chosen_measures),
            "many": True, "empty": "default", "takes_text": True,
        },
    ]  # fmt: skip


def _fields_of_rows(query: Any, drawn: tuple[list[str], str]) -> list[dict[str, Any]]:
    """Return the selectors for MATCH_RECOGNIZE, whose clauses say everything but the drawn column."""
    is_bound = isinstance(query, RowsQuery)
    measures = [name for name, _ in query.rows.measures] if is_bound else []
    roles = {
        "partition_by": ("Key columns", query.partition_by if is_bound else (), "PARTITION BY"),
        "order_by": ("Clock", [key.column for key in query.keys] if is_bound else (), "ORDER BY"),
        "event_type": ("Event type", (), "DEFINE"),
        "strategy": ("Strategy", (), "AFTER MATCH"),
        "measures": ("Measures", measures, "MEASURES"),
    }
    empty = {"order_by": "order of the rows", "strategy": "preference", "measures": "default"}
    fields = [
        {
            **_field(name, label, [{"value": choice, "note": ""} for choice in chosen], list(chosen)),
            "many": True, "empty": empty.get(name, "none"), "locked": f"SQL says it in {clause}",
        }
        for name, (label, chosen, clause) in roles.items()
    ]  # fmt: skip
    return [*fields[:4], _field_of_drawn(drawn), fields[4]]


def _field_of_drawn(drawn: tuple[list[str], str]) -> dict[str, Any]:
    return _field(DRAWN, "Drawn", [{"value": name, "note": ""} for name in drawn[0]], drawn[1] or None)


def _field(name: str, label: str, choices: list[dict[str, str]], chosen: Any) -> dict[str, Any]:
    values = [chosen] if isinstance(chosen, str) else list(chosen or ())
    field = {"name": name, "label": label, "choices": choices, "chosen": values}
    return {**field, "many": False, "empty": "", "locked": "", "needed": False, "takes_text": False}


def _columns(data: Data, kinds: tuple[str, ...], chosen: Any) -> list[dict[str, str]]:
    """Return columns as choices; a chosen column is a choice whatever its type is."""
    chosen_names = [chosen] if isinstance(chosen, str) else list(chosen or ())
    names = dict.fromkeys([*data.columns(kinds), *(name for name in chosen_names if name in data.schema)])
    return [{"value": name, "note": str(data.schema[name])} for name in names]


# --- measures


def measures_of_default(query: RegexQuery | SequenceQuery | RowsQuery | None) -> dict[str, str]:
    """Return the measures of a query that names none, as texts by name."""
    if query is None or isinstance(query, RowsQuery):
        return {}
    if isinstance(query, SequenceQuery):
        return {name: print_expression(tree) for name, tree in default_measures(query)}
    ends = {
        f"{end}_{name}": f"{end}({quoted_name(name)})" for end in ("first", "last") for name in query.order_by
    }
    return {**ends, "count": "count()"}


def measures_offered(data: Data, query: RegexQuery | SequenceQuery | RowsQuery | None) -> dict[str, str]:
    """Return some measures by name that fit a query: of its clock, and of the columns of numbers."""
    if query is None or isinstance(query, RowsQuery):
        return {}
    taken = {*query.partition_by, *query.order_by}
    numbers = [name for name in data.columns(NUMBERS) if name not in taken][:_SHOWN_COLUMNS]
    offered = measures_of_default(query)
    if isinstance(query, SequenceQuery):
        for variable in query.variables:
            if variable in query.group_variables:
                offered |= {
                    f"{variable}_{how}_{name}": f"{how}({variable}.{quoted_name(name)})"
                    for name in numbers
                    for how in ("min", "max", "avg")
                }
            else:
                offered |= {f"{variable}_{name}": f"{variable}.{quoted_name(name)}" for name in numbers}
        return offered
    offered |= {f"{how}_{name}": f"{how}({quoted_name(name)})" for name in numbers for how in _OF_COLUMN}
    return offered


def _measures(
    data: Data, call: Mapping[str, Any], query: RegexQuery | SequenceQuery | RowsQuery | None
) -> list[dict[str, str]]:
    """Return the measures that the editor offers."""
    measures = {name: _as_text(value) for name, value in (call.get("measures") or {}).items()}
    offered = measures | measures_offered(data, query) | measures
    return [{"value": name, "note": text} for name, text in offered.items()]


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else print_expression(value)


def choose_measures(
    data: Data, call: Mapping[str, Any], query: RegexQuery | SequenceQuery | RowsQuery | None,
    names: Iterable[str],
) -> dict[str, Any] | None:  # fmt: skip
    """Return the measures with these names or texts ``name = expression``; None for the default ones."""
    measures = {**measures_offered(data, query), **(call.get("measures") or {})}
    chosen: dict[str, Any] = {}
    for name in names:
        label, equals, expression = name.partition("=")
        if not equals:
            if name not in measures:
                raise CepError(f"measures: {name!r} is not known; write 'name = expression'")
            chosen[name] = measures[name]
            continue
        label, expression = label.strip(), expression.strip()
        if not label.isidentifier():
            raise CepError(f"measures: {label!r} is no name; write 'name = expression', as in rows = count()")
        parse_expression(expression, role=f"measure {label!r}")
        chosen[label] = expression
    texts = [(name, _as_text(value)) for name, value in chosen.items()]
    return None if texts in ([], list(measures_of_default(query).items())) else chosen
