"""The layout of the explorer's widgets, and the calls that their changes trigger."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import ipywidgets

from cepkit.errors import CepError
from cepkit.plots.stills.tables import stacked
from cepkit.widgets.editor import DataBar, QueryEditor
from cepkit.widgets.nfa_view import NfaView
from cepkit.widgets.panels import CaseView, FunnelView, ReasonView, SliderPanel, Stepper, TakeBar
from cepkit.widgets.tables import MatchTable
from cepkit.widgets.timeline_view import TimelineView


class Board:
    """The widgets of an explorer; traits that Python sets through it trigger no calls."""

    def __init__(self, text: str, columns: list[dict[str, str]], names: list[str]):
        self.bar = DataBar()
        self.editor = QueryEditor(text=text, columns=columns, names=names)
        self.sliders, self.nfa, self.timeline = SliderPanel(), NfaView(), TimelineView(busy=True)
        self.table, self.funnel, self.stepper = MatchTable(total=""), FunnelView(), Stepper()
        self.reasons, self.take, self.cases = ReasonView(), TakeBar(), CaseView()
        parts = {
            "bar": self.bar, "take": self.take, "editor": self.editor, "sliders": self.sliders,
            "cases": self.cases, "timeline": self.timeline,
            "table": self.table, "reasons": self.reasons, "nfa": self.nfa, "funnel": self.funnel,
            "stepper": self.stepper,
        }  # fmt: skip
        for name, part in parts.items():
            part.layout.grid_area = name  # data_bar.css places the areas by the width of the board
        self._parts = ipywidgets.VBox(list(parts.values()))
        self._parts.add_class("cepkit-data_bar-parts")
        self.box = ipywidgets.VBox([self._parts])
        self.box.add_class("cepkit-data_bar-board")
        self.box.add_class("cepkit-board")
        self._writing = threading.local()
        self._lock = threading.RLock()  # hold_sync collects the changes of a single thread

    def add_button(self, text: str, tooltip: str, pressed: Callable[[], None]) -> None:
        """Add a button below the editor."""
        button = ipywidgets.Button(description=text, tooltip=tooltip)
        button.on_click(lambda _: pressed())
        button.layout.grid_area = "more"
        self._parts.children = [*self._parts.children[:3], button, *self._parts.children[3:]]

    def observe(self, widget: Any, trait: str, wish: Callable[[Any], Any]) -> None:
        """Call ``wish`` with the new value when the browser, or the user's Python, sets a trait."""

        def handle(change: Any) -> None:
            if getattr(self._writing, "depth", 0):
                return
            try:
                wish(change["new"])
            except (CepError, IndexError, ValueError) as error:  # the wish came too late
                self.give_reasons(str(error).split("\n")[0])

        widget.observe(handle, trait)

    @contextmanager
    def quietly(self) -> Iterator[None]:
        """Suspend the observers in this thread while it sets traits."""
        self._writing.depth = getattr(self._writing, "depth", 0) + 1
        try:
            yield
        finally:
            self._writing.depth -= 1

    def set(self, widget: Any, traits: Mapping[str, Any]) -> None:
        """Set traits of a widget in a single message."""
        with self._lock, self.quietly(), widget.hold_sync():
            for name, value in traits.items():
                setattr(widget, name, value)

    def say(
        self,
        state: str,
        message: str,
        *,
        progress: float | None = None,
        version: int | None = None,
        errors: list[dict] | None = None,
    ) -> None:
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
