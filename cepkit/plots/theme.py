"""Colours, symbols and texts of all pictures. They have paper: no ink can be read on white and on black."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from cepkit.compile.shared.row_automaton import ANY
from cepkit.language.row_patterns import variables

# Symbols differ where colours do.

PAPER = "#ffffff"
INK = "#57606a"  # of texts and lines: contrast 6.4
GRID = "rgba(118,123,132,0.28)"
_BAND = "rgba(86,180,233,{:.3g})"
BAND, DARKEST_BAND = 0.17, 0.34  # opacity of one band, and where most bands overlap
STATE_BLUE = "#0a7bbc"
ACCEPT_GREEN = "#009e73"
TINT_ALPHA = "2b"  # opacity of a state's fill, as two hexadecimal digits

MONOSPACE = "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace"
SANS = "system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif"
MONOSPACE_ADVANCE = 0.61  # width of a character, as a share of the font size

# Okabe and Ito's palette without black. Black and white are read on its blue, and paper shows its yellow.
# `widgets/common.css` has it, too.
PALETTE = ("#0a7bbc", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#a29500")
SYMBOLS = (
    "circle", "square", "diamond", "triangle-up", "cross", "triangle-down", "star", "x", "pentagon",
    "bowtie", "hexagon", "hourglass",
)  # fmt: skip


class Style(NamedTuple):
    """Colour and symbol of the marks of one pattern variable."""

    colour: str
    symbol: str


def band_colour(depth: int, most: int) -> str:
    """Return the colour where ``depth`` bands overlap, in a picture where up to ``most`` bands overlap."""
    # The colour is never opaque, so marks below any number of bands stay visible.
    share = math.log(depth) / math.log(most) if most > 1 else 0.0
    return _BAND.format(BAND + (DARKEST_BAND - BAND) * share)


def strip_colour(depth: int, most: int) -> str:
    """Return the colour of a strip where ``depth`` bands overlap, from pale to full with their number."""
    return _BAND.format(0.15 + 0.85 * depth / most)


def edge_colour(most: int) -> str:
    """Return the colour of the edges of bands when up to ``most`` bands overlap."""
    return _BAND.format(0.6 if most == 1 else min(0.15, max(0.02, 1.5 / most)))


def layout(height: int) -> dict:
    """Return the layout of all figures: paper, ink, the page's fonts."""
    return {
        "paper_bgcolor": PAPER, "plot_bgcolor": PAPER, "font": {"color": INK, "family": SANS, "size": 12},
        "height": height,
    }  # fmt: skip


def title_at_left(lines: Sequence[str]) -> dict:
    """Return a plotly title from lines of plotly's markup; the lines after the first one are smaller."""
    return {
        "text": lines[0],
        "subtitle": {"text": "<br>".join(lines[1:]), "font": {"size": 12}},
        "font": {"size": 16}, "x": 0, "xref": "paper", "xanchor": "left", "y": 1, "yanchor": "top",
        "pad": {"t": 14},
    }  # fmt: skip


def variables_of(query: Any) -> tuple[str, ...]:
    """Return the variables of a query in the order of its pattern, which is the order of their colours."""
    if (names := getattr(query, "variables", None)) is not None:
        return tuple(names)
    if (rows := getattr(query, "rows", None)) is not None:
        return variables_of(rows)
    return tuple(dict.fromkeys(variable.name for variable in variables(query.pattern)))


def style_of_variables(names: Sequence[str]) -> dict[str, Style]:
    """Return a colour and a symbol for each name, in the given order; ``"."`` has a hollow grey circle."""
    styles, n_named = {}, 0
    for name in dict.fromkeys(names):
        if name == ANY:
            styles[name] = Style(INK, "circle-open")
            continue
        # 7 colours and 12 symbols have no common divisor, so a pair repeats only after 84 names.
        styles[name] = Style(PALETTE[n_named % len(PALETTE)], SYMBOLS[n_named % len(SYMBOLS)])
        n_named += 1
    return styles


# Texts for plotly: names are shown literally and cut to fit.

NAME_CHARACTERS = 40


def escaped(text: object) -> str:
    """Return ``text`` so that plotly shows it literally: no tags, no entities, no ``%{…}``."""
    return html.escape(str(text), quote=False).replace("%{", "%&#123;")


def cut(name: str) -> str:
    """Return the name, cut when it is longer than ``NAME_CHARACTERS``."""
    return name if len(name) <= NAME_CHARACTERS else name[: NAME_CHARACTERS - 1] + "…"
