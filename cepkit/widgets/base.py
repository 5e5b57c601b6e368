"""Parts of all widgets: their browser files, numbers as bytes, a text without addresses, a still picture."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import anywidget
import numpy as np
import traitlets

from cepkit.cache import shipped
from cepkit.errors import nearest
from cepkit.plots.drawing import lines_svg, still_bundle

WIDGET = "application/vnd.jupyter.widget-view+json"
# In a notebook that is opened again, JupyterLab says after the still that it found no model. These rules hide
# that text, and themselves. JupyterLab applies them if it trusts the notebook, and only then it looks for a
# model.
_CHILD = ".jp-OutputArea-child"
QUIET = (
    '<style class="cepkit-quiet">'
    f"{_CHILD}:has(.cepkit-quiet),"
    f"{_CHILD}:has(.cepkit-quiet) + {_CHILD} + {_CHILD} > .jp-OutputArea-output:not(:has(*))"
    "{display:none}</style>"
)
# A transparent PNG of one pixel.
_NO_PICTURE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNgYAAAAAMAASsJTYQAAAAASUVORK5CYII="
# Dark pages of VS Code and of Colab; that of JupyterLab has a rule of its own.
_DARK = ':is(.vscode-dark, .vscode-high-contrast, html[theme="dark"]) '
_ROOT_CLASS = re.compile(r"\.cepkit-widget\b")  # in common.css


def browser_half(stem: str, *modules: str) -> tuple[str, str]:
    """Return the ES module and the stylesheet of a widget, as texts for ``_esm`` and ``_css``."""
    # The module imports nothing, so a notebook needs no server. It begins with drawing.js and ``modules``,
    # and the stylesheet with the rules of common.css, for this widget only.
    scripts = [name for name in modules if name.endswith(".js")]
    styles = [name for name in modules if name.endswith(".css")]
    esm = "\n".join(_read(name) for name in ("drawing.js", *scripts, f"{stem}.js"))
    common = _ROOT_CLASS.sub(f".cepkit-{stem}", _read("common.css"))
    return esm, "\n".join([common, *map(_read, (f"{stem}.css", *styles))]).replace(".vscode-dark ", _DARK)


def _read(name: str) -> str:
    return shipped("widgets", name).read_text(encoding="utf-8")


class Numbers(traitlets.Bytes):
    """A trait of numbers of 8 bytes as little-endian bytes; ``dtype`` is their type."""

    dtype = np.dtype("<f8")

    def validate(self, obj: Any, value: Any) -> bytes:
        """Return the bytes of ``value``."""
        if isinstance(value, (bytes, bytearray, memoryview)):
            value = bytes(value)
            if len(value) % 8:
                place, kind = f"{type(obj).__name__}.{self.name}", self.dtype.name
                raise traitlets.TraitError(
                    f"{place}: {len(value)} bytes are not a whole number of {kind} values of 8 bytes"
                )
            return value
        try:
            return np.ascontiguousarray(value, self.dtype).tobytes()
        except (TypeError, ValueError):
            self.error(obj, value)


class Floats(Numbers):
    """A trait of float64 as little-endian bytes. It takes anything that numpy can turn into numbers."""

    info_text = "numbers, or the bytes of little-endian float64"


class Integers(Numbers):
    """A trait of int64 as little-endian bytes. It takes anything that numpy can turn into integers."""

    info_text = "integers, or the bytes of little-endian int64"
    dtype = np.dtype("<i8")


class View(anywidget.AnyWidget):
    """A widget with one ES module and one stylesheet. They draw its traits and report the user's actions.

    Assign a new value to change a trait, as in ``view.rows = [*view.rows, row]``. A change in place does
    nothing.
    """

    def __init__(self, **values: Any):
        traits = self.traits()
        unknown = [name for name in values if name not in traits]
        if unknown:
            raise TypeError(
                f"{type(self).__name__} has no trait {unknown[0]!r}.{nearest(unknown[0], traits)}"
            )
        # A copy, so that a later change of the argument changes nothing. None means the default.
        copies = {traitlets.List: list, traitlets.Dict: dict}
        chosen = {}
        for name, value in values.items():
            if value is not None:
                copy = copies.get(type(traits[name]))
                chosen[name] = value if copy is None else copy(value)
            elif traits[name].allow_none:
                chosen[name] = None
        super().__init__(**chosen)

    def _summary(self) -> str:
        """Return a short description of the content, for `repr`."""
        return ""

    def _still(self) -> str:
        """Return a picture as SVG text for pages without a kernel, such as a notebook on GitHub."""
        return lines_svg([repr(self)])

    def __repr__(self) -> str:
        # Tests compare notebook outputs as text, so it contains no address and no model id.
        return f"{type(self).__name__}({self._summary()})"

    def _ipython_display_(self) -> None:
        show_with_still(self._repr_mimebundle_(), self._still, self.__repr__)


def show_with_still(alive: Any, draw: Callable[[], str], describe: Callable[[], str]) -> Callable[[], None]:
    """Show a widget and its still; return a function that draws the still again."""
    # A saved notebook has no widget, and JupyterLab draws a widget's output in no other way. So the still is
    # an output of its own. The live widget hides it by a rule of common.css; in a saved notebook, ``QUIET``
    # hides what JupyterLab says instead of the widget. A still takes longer to draw, so an empty picture
    # keeps its place. It has the same text, because tools that compare notebooks may not follow an update.
    from IPython.display import display

    bundle = alive[0] if isinstance(alive, tuple) else alive
    if bundle and WIDGET in bundle and _chooses():
        data, metadata = still_bundle(draw(), describe())
        display({**data, WIDGET: bundle[WIDGET]}, metadata=metadata, raw=True)
        return
    place: dict[str, Any] = {}
    if bundle and WIDGET in bundle:
        place = {"display_id": uuid4().hex}
        display({"text/html": QUIET}, raw=True)
        display({"image/png": _NO_PICTURE, "text/plain": describe()}, raw=True, **place)
        display({WIDGET: bundle[WIDGET]}, raw=True)
        place["update"] = True

    def show_still() -> None:
        data, metadata = still_bundle(draw(), describe())
        display(data, metadata=metadata, raw=True, **place)

    show_still()
    return show_still if place else lambda: None


def _chooses() -> bool:
    """Whether the page shows one form of an output: VS Code and Colab do, and follow no rules for several."""
    from IPython import get_ipython

    shell = get_ipython()
    return "google.colab" in sys.modules or "__vsc_ipynb_file__" in getattr(shell, "user_ns", ())
