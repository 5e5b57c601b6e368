"""Figures with small JSON and a still: shared attributes appear once, numbers are as precise as needed."""

from __future__ import annotations

import base64
import copy
import json
import os
import re
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cepkit.progress import collect_later

with collect_later():
    from plotly.graph_objects import Figure
    from plotly.io._json import to_json_plotly

PLOTLY = "application/vnd.plotly.v1+json"
# Variables of the environment with which plotly may show figures in another way.
_OTHER_RENDERERS = (
    "PLOTLY_RENDERER", "COLAB_NOTEBOOK_ID", "AZURE_NOTEBOOKS_HOST", "VSCODE_PID", "NTERACT_EXE",
    "COCALC_PROJECT_ID", "DATABRICKS_RUNTIME_VERSION",
)  # fmt: skip
FEWEST_NUMBERS = 4  # shorter lists do not become typed arrays
PRECISION = 1e-5  # largest error in single precision, as a share of the values' range: far below a pixel

# Attributes that work the same in a template as in the trace or axis. `linecolor` does not: it draws the
# line of an axis only when the axis itself has it.
_OF_TRACES = (
    "cliponaxis", "hoverinfo", "hovertemplate", "line.dash", "line.width", "marker.line.width",
    "marker.size", "mode", "showlegend", "textfont.color", "textfont.size", "textposition", "width",
)  # fmt: skip
_OF_LINES = ("legendgroup", "line.color", "line.dash", "marker.color", "marker.symbol", "name")
_OF_AXES = (
    "automargin", "fixedrange", "gridcolor", "rangemode", "showgrid", "tickformat", "tickmode", "ticks",
    "ticktext", "tickvals", "zeroline",
)  # fmt: skip
_OF_NOTES = ("font.color", "font.size", "showarrow", "xanchor", "yanchor", "xref", "yref")
_OF_SHAPES = ("layer", "line.color", "line.dash", "line.width", "type")


class LeanFigure(Figure):
    """A figure of plotly without its default template, with `lean` JSON and a still."""

    # In Python its traces keep all their attributes; saved in a notebook it takes half of the bytes. The
    # still is a PNG for pages that do not run plotly, such as GitHub's and those of nbconvert.

    def __init__(self, data: Any = None, layout: Any = None, *others: Any, **named: Any):
        with collect_later():  # the first figure reads plotly's rules
            super().__init__(data, layout, *others, **named)
        if layout is None and not isinstance(data, (dict, Figure)):
            self.layout.template = "none"  # the default template takes 7 KB

    def to_dict(self) -> dict:
        """Return the figure as plotly's JSON after `lean`."""
        return lean(super().to_dict())

    def svg(self) -> str:
        """Return the figure as SVG text, as `figure_svg` draws it without a browser."""
        from cepkit.plots.still_figure import figure_svg

        return figure_svg(self.to_dict())

    def _repr_mimebundle_(self, *arguments: Any, **keywords: Any) -> Any:
        if _is_shown_as_json():
            bundle = {PLOTLY: json.loads(to_json_plotly(self.to_dict()))}
        else:
            bundle = super()._repr_mimebundle_(*arguments, **keywords)
        if not bundle or PLOTLY not in bundle or "image/png" in bundle:
            return bundle
        from cepkit.plots.drawing import still_bundle

        try:
            # JupyterLab shows it in its own size until the mouse enters: then plotly draws the figure.
            image, metadata = still_bundle(self.svg(), "", scale=1)
        except Exception:  # a user's own attributes; the figure itself can be shown
            return bundle
        return {**bundle, "image/png": image["image/png"]}, metadata

    def _ipython_display_(self) -> None:
        if not self._shown_with_still():
            super()._ipython_display_()

    def show(self, *arguments: Any, **keywords: Any) -> None:
        """Show the figure. Without arguments, in a notebook, it comes with its still."""
        if arguments or keywords or not self._shown_with_still():
            super().show(*arguments, **keywords)

    def _shown_with_still(self) -> bool:
        """Show the figure with its still in a notebook; return whether this was possible."""
        bundle = self._repr_mimebundle_()
        if not isinstance(bundle, tuple):
            return False
        from IPython.display import display

        display(bundle[0], metadata=bundle[1], raw=True)
        return True


def _is_shown_as_json() -> bool:
    """Return whether plotly shows the JSON of a figure here, by its rules for a process without settings."""
    # plotly imports nbformat to find this out, which takes a second.
    if "plotly.io._renderers" in sys.modules or "IPython" not in sys.modules:
        return False
    if any(name in os.environ for name in _OTHER_RENDERERS) or Path("/kaggle/input").exists():
        return False
    kind = type(sys.modules["IPython"].get_ipython())
    return kind.__name__ == "ZMQInteractiveShell" and kind.__module__.startswith("ipykernel.")


def lean(figure: dict) -> dict:
    """Return plotly's JSON of the same picture in fewer bytes; it changes the argument."""
    # An attribute that all traces of a type have, mostly with one value, moves to the figure's template. The
    # same holds for the axes of a letter and for annotations. Lists of numbers become typed arrays. Double
    # precision becomes single where nobody could see a difference: not for times since 1970 or whole numbers.
    layout = figure.setdefault("layout", {})
    template = layout.setdefault("template", {})
    of_data, of_layout = template.setdefault("data", {}), template.setdefault("layout", {})
    for kind in dict.fromkeys(trace.get("type", "scatter") for trace in figure["data"]):
        traces = [trace for trace in figure["data"] if trace.get("type", "scatter") == kind]
        shared = of_data.setdefault(kind, [{"type": kind}])
        if len(shared) == 1:
            _share(traces, _OF_TRACES, shared[0])
            if not figure.get("frames"):
                of_data[kind] = _take_looks(traces, shared[0])
    for note in layout.get("annotations", ()):
        note.update({name: _short(note[name]) for name in ("x", "y") if name in note})
    for letter in "xy":
        axes = [layout[name] for name in layout if re.fullmatch(letter + r"axis\d*", name)]
        for axis in axes:
            axis.update({"domain": [_short(end) for end in axis["domain"]]} if "domain" in axis else {})
            if axis.get("title") == {}:
                del axis["title"]
        _share(axes, _OF_AXES, of_layout.setdefault(f"{letter}axis", {}))
    _share(layout.get("annotations", ()), _OF_NOTES, of_layout.setdefault("annotationdefaults", {}))
    _share(layout.get("shapes", ()), _OF_SHAPES, of_layout.setdefault("shapedefaults", {}))
    for name in [name for name, shared in of_layout.items() if shared == {}]:
        del of_layout[name]
    for trace in figure["data"]:
        for name in ("x", "y", "z", "base", "width", "customdata"):
            if name in trace:
                trace[name] = _typed(trace[name])
    return figure


def _short(place):
    """Return a place without rounding errors of binary fractions: 0.28 for 0.27999999999999997."""
    return float(f"{place:.12g}") if isinstance(place, float) else place


def _share(items: Sequence[dict], names: Sequence[str], shared: dict) -> None:
    """Move the commonest value of each attribute that all items have into ``shared``."""
    for name in names:
        values = [_value(item, name) for item in items]
        if len(values) < 2 or None in values or _value(shared, name) is not None:
            continue
        [(commonest, n)] = Counter(values).most_common(1)
        if n > 1:
            _put(shared, name, commonest)
            for item, value in zip(items, values, strict=True):
                if value == commonest:
                    _drop(item, name)


def _take_looks(traces: Sequence[dict], shared: dict) -> list[dict]:
    """Move the looks of the traces to templates, and return the templates; plotly applies them in turn."""
    # Panels with the same lines repeat their looks. Without a repetition all traces share ``shared``.
    looks = [{name: _value(trace, name) for name in _OF_LINES} for trace in traces]
    # Each template repeats the shared attributes, so it pays only for three traces or more.
    period = next((k for k in range(1, len(looks) // 3 + 1) if looks[k:] == looks[:-k]), None)
    if period is None:
        return [shared]
    for trace in traces:
        for name in _OF_LINES:
            if _value(trace, name) is not None:
                _drop(trace, name)
    templates = [copy.deepcopy(shared) for _ in range(period)]
    for template, look in zip(templates, looks, strict=False):
        for name, value in look.items():
            if value is not None:
                _put(template, name, value)
    return templates


def _value(item: dict, name: str):
    """Return a value that can be shared (a text, a number, or a tuple of them), or None."""
    *path, last = name.split(".")
    for part in path:
        item = item.get(part, {})
    value = item.get(last)
    if isinstance(value, (list, tuple)):
        return tuple(value) if all(isinstance(part, (str, int, float)) for part in value) else None
    return value if isinstance(value, (str, int, float)) else None


def _put(item: dict, name: str, value) -> None:
    *path, last = name.split(".")
    for part in path:
        item = item.setdefault(part, {})
    item[last] = list(value) if isinstance(value, tuple) else value


def _drop(item: dict, name: str) -> None:
    """Delete a value, and each dict that becomes empty."""
    first, _, rest = name.partition(".")
    if rest:
        _drop(item[first], rest)
    if not rest or not item[first]:
        del item[first]


def _typed(values):
    """Return numbers as plotly's typed array of the smallest fitting type; other values as they are."""
    if isinstance(values, dict) and values.get("dtype") == "f8":
        numbers = np.frombuffer(base64.b64decode(values["bdata"]), np.float64)
        shape = values.get("shape")
        numbers = numbers.reshape([int(n) for n in shape.split(",")]) if shape else numbers
    elif isinstance(values, (list, tuple)) and len(values) >= FEWEST_NUMBERS and _are_numbers(values):
        numbers = np.array([np.nan if value is None else value for value in values], np.float64)
    else:
        return values
    numbers = _smallest(numbers)
    typed_array = {
        "dtype": numbers.dtype.str[1:],
        "bdata": base64.b64encode(numbers.tobytes()).decode("ascii"),
    }
    return typed_array | ({"shape": ", ".join(str(n) for n in numbers.shape)} if numbers.ndim > 1 else {})


def _are_numbers(values) -> bool:
    return all(value is None or type(value) in (int, float) for value in values)


def _smallest(numbers: np.ndarray) -> np.ndarray:
    """Return numbers in the smallest type that shows no difference."""
    finite = numbers[np.isfinite(numbers)]
    if len(finite) == numbers.size and (finite == np.trunc(finite)).all():
        most = np.abs(finite).max(initial=0)
        kinds = (kind for kind in (np.int8, np.int16, np.int32) if most <= np.iinfo(kind).max)
        return numbers.astype(next(kinds, np.float64))
    single = numbers.astype(np.float32)
    column = numbers.reshape(len(numbers), -1)
    lost = np.nan_to_num(np.abs(single.astype(np.float64).reshape(column.shape) - column), nan=0.0)
    spans = np.array(
        [np.ptp(series[np.isfinite(series)]) if np.isfinite(series).any() else 0.0 for series in column.T]
    )
    return single if (lost <= PRECISION * spans).all() else numbers
