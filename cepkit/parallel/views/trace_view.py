"""The common half of the views of a trace: a range of time, which the browser may ask for more closely."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import traitlets

from cepkit.errors import CepError
from cepkit.parallel.model.rates import AgentRates
from cepkit.parallel.plots.threads import clock_title
from cepkit.parallel.trace.trace import Trace, clock_unit
from cepkit.widgets.base import View


class TraceView(View):
    """A view of a trace over time. ``window`` is the visible part of the time, [from, to] in ns."""

    heading: ClassVar[str]  # the title of a view without one of its own
    # Python -> browser
    title = traitlets.Unicode("").tag(sync=True)
    agents = traitlets.List(traitlets.Dict()).tag(sync=True)  # name, mark
    x_label = traitlets.Unicode("").tag(sync=True)
    unit = traitlets.Unicode("ns").tag(sync=True)
    unit_ns = traitlets.Float(1.0).tag(sync=True)  # ns in one unit; times below are in ns
    extent = traitlets.List(traitlets.Float()).tag(sync=True)  # start and end of the run
    shown = traitlets.List(traitlets.Float()).tag(sync=True)  # the part of the time in the columns
    version = traitlets.Int(0).tag(sync=True)  # counts changes of the columns
    # browser -> Python
    window = traitlets.List(traitlets.Float()).tag(sync=True)
    selected = traitlets.Dict(default_value=None, allow_none=True).tag(sync=True)

    def __init__(self, trace: Trace, *, rates: Sequence[AgentRates] | None = None, title: str = ""):
        if not isinstance(trace, Trace):
            raise CepError(
                f"{type(self).__name__}: expected a Trace, got {type(trace).__name__}. Give matches.run.trace"
            )
        self._trace, self._rates = trace, rates
        extent = [0.0, self._end()]
        unit, size = clock_unit(extent[1])
        marks = zip(trace.agents, marks_of(list(trace.agents)), strict=True)
        super().__init__(
            title=title or self.heading,
            agents=[{"name": name, "mark": mark} for name, mark in marks],
            x_label=clock_title("time since the start of the run", unit, trace.measured),
            unit=unit,
            unit_ns=size,
            extent=extent,
            window=extent,
            **self._fixed_traits(),
            **self._columns(*extent),
        )
        self.observe(self._look_closer, "window")

    @abstractmethod
    def svg(self) -> str:
        """Return the view as SVG text."""

    def _still(self) -> str:
        return self.svg()

    def _end(self) -> float:
        """Return the end of the time, in ns."""
        return self._trace.makespan

    @abstractmethod
    def _fixed_traits(self) -> dict[str, Any]:
        """Return the traits that do not depend on the visible part of the time."""

    @abstractmethod
    def _columns(self, low: float, high: float) -> dict[str, Any]:
        """Return the traits of a part of the time."""

    def _look_closer(self, change) -> None:
        low, high = change["new"] if len(change["new"]) == 2 else self.extent
        low, high = max(low, self.extent[0]), min(high, self.extent[1])
        if not high > low:
            return
        with self.hold_sync():
            for name, value in self._columns(low, high).items():
                setattr(self, name, value)
            self.version += 1


def marks_of(names: list[str]) -> list[str]:
    """Return a short, unique mark for each name, for places without room for names."""
    short = [name[:2] for name in names]
    return short if len(set(short)) == len(short) else [str(n) for n in range(1, len(names) + 1)]
