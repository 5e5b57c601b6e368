"""Parts of all widgets, and views that draw a scene, among them matches with the events that they share."""

from __future__ import annotations

import re
import sys
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import anywidget
import numpy as np
import pandas as pd
import traitlets

from cepkit.cache import shipped
from cepkit.errors import CepError, column_not_found, nearest, whole_number
from cepkit.language.expressions.durations import count_text, counted
from cepkit.plots.drawing import lines_svg, still_bundle, table_svg
from cepkit.plots.lineage import MOST_CHAINS, Lit, chains_of_page, lineage_page, lineage_scene, lit_by
from cepkit.plots.scene import PlotScene, scene_figure, scene_svg, sent

if TYPE_CHECKING:
    import plotly.graph_objects as go


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


class SceneView(View):
    """A view that draws a scene. ``selected`` is None or a dict that says which mark is selected."""

    _esm, _css = browser_half("scene_view")
    # Python -> browser
    title = traitlets.Unicode("").tag(sync=True)
    scene = traitlets.Dict().tag(sync=True)  # see `cepkit.plots.scene.PlotScene`
    frames = traitlets.List().tag(sync=True)  # panel, x0, x1, y0, y1, kind: around what is selected
    extent = traitlets.List(traitlets.Float()).tag(sync=True)  # what zooming out shows; empty: no zoom
    can_turn = traitlets.List(traitlets.Bool()).tag(sync=True)  # pages before and after; empty: no pages
    # browser -> Python
    window = traitlets.List(traitlets.Float()).tag(sync=True)  # the visible part of the extent
    picked = traitlets.List(traitlets.Int()).tag(sync=True)  # panel, item, mark; or -1, row of the table, 0
    turned = traitlets.Dict().tag(sync=True)  # by, n
    selected = traitlets.Dict(default_value=None, allow_none=True)

    def __init__(self, title: str, extent: Sequence[float] = (), **traits: Any):
        super().__init__(title=title, extent=list(extent), window=list(extent), **traits)
        self._light, self._is_picking = None, False
        self._redraw()
        self.observe(self._redraw, ["window", "title"])
        self.observe(self._select, "picked")
        self.observe(self._mark, "selected")

    @abstractmethod
    def _draw(self, window: Sequence[float], chosen: dict | None, *, is_fine: bool) -> PlotScene:
        """Return the scene of a part of the extent; it has fewer marks if it is not fine."""

    def _frames(self, chosen: dict) -> list[list]:
        """Return the frames around what is selected."""
        return []

    def _lit(self, chosen: dict | None) -> Any:
        """Return the part of the selection that changes the scene."""
        return None

    def _pick_row(self, row: int) -> dict | None:
        """Return what a row of the table selects."""
        return None

    def _redraw(self, change: Any = None) -> None:
        low, high = self.window if len(self.window) == 2 else self.extent or (0.0, 1.0)
        if self.extent:
            low, high = max(low, self.extent[0]), min(high, self.extent[1])
            if change is not None and not high > low:
                return
        chosen = self.selected
        self._light, self._shown = self._lit(chosen), self._draw((low, high), chosen, is_fine=True)
        self.scene = sent(self._shown)

    def _select(self, change: Any) -> None:
        if not self._is_picking:
            self._is_picking = True
            try:
                self.selected = self._picked(*change["new"]) if change["new"] else None
            finally:
                self._is_picking = False

    def _picked(self, panel: int, item: int, mark: int) -> dict | None:
        if panel < 0:
            return self._pick_row(item)
        part = self._shown.panels[panel]
        pick = part.pick_lane if item < 0 else part.items[item].pick
        return pick(mark) if pick is not None else None

    def _mark(self, change: Any) -> None:
        chosen = change["new"]
        with self.hold_sync():
            if self._lit(chosen) != self._light:
                self._redraw()
            self.frames = [] if chosen is None else self._frames(chosen)
            if not self._is_picking:  # Python selects, so the browser picked nothing
                self._is_picking, self.picked = True, []
                self._is_picking = False

    def _still_scene(self) -> PlotScene:
        return self._draw(self.extent or (0.0, 1.0), None, is_fine=False)

    def figure(self) -> go.Figure:
        """Return the picture as a plotly figure."""
        return scene_figure(self._still_scene())

    def svg(self) -> str:
        """Return the picture as SVG text."""
        return scene_svg(self._still_scene())

    def _still(self) -> str:
        return self.svg()


class MatchTable(View):
    _esm, _css = browser_half("match_table", "match_heads.js", "match_heads.css")

    # Python -> browser
    # ``name`` and ``align``: ``"left"`` or ``"right"``. A column with a ``kind`` can be filtered:
    # ``"number"``, ``"time"``, ``"duration"`` or ``"text"``. Times begin with ten letters of a date; ``zone``
    # names their time zone. The browser does not repeat equal dates.
    columns = traitlets.List(traitlets.Dict()).tag(sync=True)
    rows = traitlets.List(traitlets.List(traitlets.Unicode())).tag(sync=True)  # cells of the page
    # The same values with all digits, for copies. It may be empty.
    full = traitlets.List(traitlets.List(traitlets.Unicode())).tag(sync=True)
    # Number of the match in each row. They are sent as text, since a browser counts only up to 2^53.
    numbers = traitlets.List(traitlets.CUnicode()).tag(sync=True)
    # the shown page, from 1; also sent as text
    page = traitlets.Int(1).tag(
        sync=True, to_json=lambda page, _: str(page), from_json=lambda text, _: int(text)
    )
    # n_pages, total: numbers of pages and of matches. ``total`` may be a bound such as ``"≥ 10,000"``. If
    # ``n_pages`` is a plain number, the browser does not go beyond it.
    n_pages = traitlets.CUnicode("1").tag(sync=True)
    total = traitlets.CUnicode("0").tag(sync=True)
    # ``"canonical"``, ``"reverse"``, ``"<column> up"`` or ``"<column> down"``
    order = traitlets.Unicode("canonical").tag(sync=True)
    # Columns to sort by. Empty if there are too many matches, as ``limit_note`` then says.
    sortable = traitlets.List(traitlets.Unicode()).tag(sync=True)
    limit_note = traitlets.Unicode().tag(sync=True)  # A remark about the shown matches
    # whether another page is being computed; the old one stays visible
    busy = traitlets.Bool().tag(sync=True)
    filters = traitlets.Dict().tag(sync=True)  # the filters of the columns, as the user typed them
    mistakes = traitlets.Dict().tag(sync=True)  # what is wrong with the filter of a column
    # How many matches pass the filters, in words. Empty without filters.
    filtered = traitlets.Unicode().tag(sync=True)
    # The query of the shown matches in words, while the editor has another one. Empty otherwise.
    outdated = traitlets.Unicode().tag(sync=True)
    can_filter = traitlets.Bool().tag(sync=True)  # whether filters can be typed now
    # The histogram of a column: ``kind``, ``says`` (the column in words), ``bars`` and ``between``. A bar has
    # ``label``, ``low``, ``high``, the number ``n`` of its matches, and how many of them pass the filters
    # (``kept``). A filter of several bars is the first ``low``, ``between``, and the last ``high``. For
    # texts, ``between`` is a comma and each bar has the value ``low``.
    heads = traitlets.Dict().tag(sync=True)
    heads_busy = traitlets.Bool().tag(sync=True)  # whether other histograms are being computed
    # browser -> Python
    # Written by the browser: digits. An assignment to ``page`` also changes it, so that the next request for
    # any page is a change.
    wanted_page = traitlets.Unicode("1").tag(sync=True)
    # Written by the browser. An assignment to ``order`` also changes it.
    wanted_order = traitlets.Unicode("canonical").tag(sync=True)
    # Written by the browser: all filters. An assignment to ``filters`` also changes it.
    wanted_filters = traitlets.Dict().tag(sync=True)
    # written by both sides: names of the columns that are not shown
    hidden = traitlets.List(traitlets.Unicode()).tag(sync=True)
    # written by both sides: number of the selected match
    selected = traitlets.CUnicode(None, allow_none=True).tag(sync=True)

    @traitlets.observe("page", "order", "filters")
    def _follow(self, change: Any) -> None:
        name, new = change["name"], change["new"]
        setattr(self, f"wanted_{name}", dict(new) if name == "filters" else str(new))

    def _summary(self) -> str:
        rows, columns = counted(len(self.rows), "row"), counted(len(self.columns), "column")
        return f"{rows} x {columns}, page {self.page} of {self.n_pages}, {_n_matches(self.total)}"

    def _still(self) -> str:
        if not self.rows:
            without = "Running …" if self.busy else "Not run yet."
            return lines_svg(["No match." if self.total else without])
        places = [k for k, column in enumerate(self.columns) if column["name"] not in self.hidden]
        shown = [self.columns[k] for k in places]
        right = [k for k, column in enumerate(shown) if column.get("align") == "right"]
        n = self.filtered or _n_matches(_grouped(self.total))
        caption = f"{n}, page {_grouped(self.page)} of {_grouped(self.n_pages)}"
        rows = [[row[k] for k in places] for row in self.rows]
        return table_svg([column["name"] for column in shown], rows, caption=caption, right=right)


def _n_matches(number: str) -> str:
    return f"{number} match" if number == "1" else f"{number} matches"


def _grouped(number: str) -> str:
    return f"{int(number):,}" if str(number).isdecimal() else str(number)


# Matches with their events, the events that they share, and the chains of LinkedCEP: the Python half.

PAGE = 24  # matches on a page


class LineageView(SceneView):
    """Matches in rows and their events in columns, with the events that matches share.

    The bars at the top show how many of the shown matches have an event. Click an event to highlight all
    matches that have it. Click a match to highlight its events. With the chains of LinkedCEP, click a chain
    to highlight the chains that it continues and, for a chain of the last component, its matches. Marks
    differ in shape and colour by variable. Keys: up and down go through the matches, left and right through
    the events, page up and page down turn pages, Escape clears the selection.

    Parameters
    ----------
    rows : pandas.DataFrame or callable
        One row per matched event, as ``matches.lineage()`` returns them: ``match``, ``variable``,
        ``position``, ``index`` and, optionally, ``time`` (a text). Or a function that returns the rows of
        the matches from one number up to, but without, another.
    n_matches : int, optional
        Number of matches; needed with a function.
    chains : pandas.DataFrame, optional
        Result of ``matches.run.chains_frame()``.
    size : int
        Number of matches on a page.
    title : str
        Heading of the view.
    part : str
        Source of the matches as a text, if these are not all matches.
    variables : sequence of str
        Variables in the order of the pattern, which chooses their colours.

    Notes
    -----
    ``selected`` is None or a dict with one entry: ``match`` (its number, a text), ``event`` (its position in
    the stream) or ``chain`` (its number).
    """

    wanted = traitlets.Unicode("0")  # number of the first match
    first = traitlets.Unicode("0")  # number of the first match shown

    def __init__(
        self, rows: pd.DataFrame | Callable[[int, int], pd.DataFrame], *, n_matches: int | None = None,
        chains: pd.DataFrame | None = None, size: int = PAGE, title: str = "", part: str = "",
        variables: Sequence[str] = (),
    ):  # fmt: skip
        if isinstance(rows, pd.DataFrame):
            lineage_page(rows.head(0))  # raises if a column is missing
            numbers = pd.unique(rows["match"])
            place = pd.Series(np.arange(len(numbers)), index=numbers).loc[rows["match"]].to_numpy()
            frame, n_matches = rows, len(numbers)
            rows = lambda low, high: frame[(place >= low) & (place < high)]  # noqa: E731
        elif n_matches is None or not callable(rows):
            raise CepError(
                "LineageView: rows must be the frame of matches.lineage(), or a function with n_matches"
            )
        for name in ("chain", "component", "variable", "position", "before", "shared"):
            if chains is not None and name not in chains.columns:
                raise column_not_found("LineageView: chains", name, chains.columns)
        self._rows, self._n, self._chains, self.part = rows, n_matches, chains, part
        self._variables, self._size = variables, whole_number("LineageView: size", size, 1)
        self._read(0)
        super().__init__(title, can_turn=self._turns())
        self.observe(lambda change: self._turn(change["new"]), "wanted")
        self.observe(lambda change: self._turn_by(change["new"].get("by", 0)), "turned")

    @property
    def note(self) -> str:
        """Which matches are shown, and how many events they share."""
        page, first = self._page, int(self.first)
        last = first + len(page.numbers)
        if not page.numbers:
            return "no match" + (f", in {self.part}" if self.part else "")
        note = f"matches {first:,} to {last - 1:,} of {count_text(self._n)}"
        note += f", {page.n_shared:,} of {len(page.positions):,} events shared"
        if page.n_left_out:
            note += f", {page.n_left_out:,} matched events left out, since there are too many columns"
        if self._n_chains > MOST_CHAINS:
            note += f", the first {MOST_CHAINS} of {self._n_chains:,} chains"
        return note + (f", in {self.part}" if self.part else "")

    def to_frame(self) -> pd.DataFrame:
        """Return the rows of the shown matches, in the form of ``matches.lineage()``."""
        return self._shown_rows

    def _summary(self) -> str:
        of_chains = "" if self._chains is None else f", {self._chains['chain'].nunique()} chains"
        return f"{count_text(self._n)} matches{of_chains}" + (f" in {self.part}" if self.part else "")

    # --- parts

    def _turns(self) -> list[bool]:
        return [int(self.first) > 0, int(self.first) + self._size < self._n]

    def _turn_by(self, n_pages: int) -> None:
        self.wanted = str(max(0, int(self.first) + n_pages * self._size))

    def _turn(self, wanted: str) -> None:
        first = int(wanted) if wanted.isdigit() else 0
        with self.hold_sync():
            self.first = str(max(0, min(first, self._n - 1)))
            self._read(int(self.first))
            self.can_turn = self._turns()
            self.selected = None
            self._redraw()

    def _read(self, first: int) -> None:
        rows = self._rows(first, min(first + self._size, self._n))
        self._page, self._shown_rows = lineage_page(rows, self._chains), rows.reset_index(drop=True)
        self._drawn_chains, self._lanes, self._n_chains = chains_of_page(self._page, self._chains)

    def _lit(self, chosen: dict | None) -> Lit | None:
        return None if chosen is None else lit_by(self._page, self._drawn_chains, chosen)

    def _draw(self, window: Sequence[float], chosen: dict | None, *, is_fine: bool) -> PlotScene:
        return lineage_scene(
            self._page, title=self.title, note=self.note, chains=self._drawn_chains, lane_names=self._lanes,
            variables=self._variables, n_rows=min(self._size, self._n), lit=self._lit(chosen),
        )  # fmt: skip

    def _frames(self, chosen: dict) -> list[list]:
        columns = sorted(self._lit(chosen).columns)
        return [
            [p, e - 0.5, e + 0.5, panel.y.low, panel.y.high, "column"]
            for p, panel in enumerate(self._shown.panels) for e in columns
        ]  # fmt: skip
