"""Static pictures as SVG text, for documents and for pages that run no JavaScript."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

import numpy as np

from cepkit.plots import theme
from cepkit.plots.stills.png import Picture

FONT_SIZE = 12
ADVANCE = 0.56  # average width of a sans-serif character, as a share of the font size
MOST_COLUMNS = 600  # pixel columns; a longer line is drawn by the extremes of each column


def document(width: float, height: float, label: str, parts: Iterable[str]) -> Picture:
    """Return an ``<svg>`` element with the given parts; its ``currentColor`` is the page's text colour."""
    attributes = theme.svg_attributes(label) | {"class": "cepkit-picture"}
    written = " ".join(f'{name}="{html.escape(value)}"' for name, value in attributes.items())
    return Picture(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{number(width)}" height="{number(height)}" '
        f'viewBox="0 0 {number(width)} {number(height)}" {written} font-family="{html.escape(theme.SANS)}" '
        f'font-size="{FONT_SIZE}" fill="currentColor">{"".join(parts)}</svg>'
    )


def text(x: float, y: float, words: object, *, anchor: str = "start", size: int | None = None) -> str:
    """Return a text element; ``y`` is its base line."""
    more = f' font-size="{size}"' if size else ""
    more += f' text-anchor="{anchor}"' if anchor != "start" else ""
    return f'<text x="{number(x)}" y="{number(y)}"{more}>{html.escape(str(words), quote=False)}</text>'


def fitting(words: object, width: float, size: int = FONT_SIZE) -> str:
    """Return the beginning of a text that fits into ``width`` pixels."""
    words, n = str(words), max(1, int(width / (ADVANCE * size)))
    return words if len(words) <= n else words[: n - 1] + "…"


def path(d: str, **attributes: object) -> str:
    """Return a path element; underscores in names of attributes become hyphens."""
    return f'<path d="{html.escape(d)}"{_written(attributes)}/>'


def element(tag: str, **attributes: object) -> str:
    """Return an empty element."""
    return f"<{tag}{_written(attributes)}/>"


def rectangles(x0: Sequence[float], y0: Sequence[float], x1: Sequence[float], y1: Sequence[float]) -> str:
    """Return one path of all rectangles."""
    boxes = zip(*(np.round(coordinates, 2).tolist() for coordinates in (x0, y0, x1, y1)), strict=True)
    return "".join(f"M{a:g},{b:g}H{c:g}V{d:g}H{a:g}Z" for a, b, c, d in boxes)


def line(x: Sequence[float], y: Sequence[float]) -> str:
    """Return the path of a line through points, to a tenth of a pixel; NaN breaks the line."""
    words, is_open = [], False
    for a, b in zip(np.asarray(x, float).tolist(), np.asarray(y, float).tolist(), strict=True):
        if a != a or b != b:
            is_open = False
            continue
        words.append(f"{'L' if is_open else 'M'}{point(a, b, 1)}")
        is_open = True
    return "".join(words)


def extremes(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the visible points of a long line: the first, last, least and greatest of each pixel column."""
    if len(x) <= 2 * MOST_COLUMNS:
        return x, y
    columns = x.astype(np.int64)
    is_drawn = np.zeros(len(x), bool)
    starts = np.flatnonzero(np.diff(columns, prepend=columns[0] - 1))
    for first, end in zip(starts, [*starts[1:], len(x)], strict=True):
        part = y[first:end]
        is_drawn[[first, end - 1]] = True
        if not np.isnan(part).all():
            is_drawn[[first + int(np.nanargmin(part)), first + int(np.nanargmax(part))]] = True
    return x[is_drawn], y[is_drawn]


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Return round numbers from ``low`` to ``high``, at most ``most`` + 1 of them."""
    if not high > low:
        return [low]
    step = 10.0 ** np.floor(np.log10((high - low) / most))
    step *= next(factor for factor in (1, 2, 5, 10) if (high - low) / (step * factor) <= most)
    first = np.ceil(low / step - 1e-9)
    return [float(step * k) + 0.0 for k in np.arange(first, high / step + 1e-9)]


def tick_text(value: float) -> str:
    """Return a number as the text of a tick."""
    return f"{value:,.10g}" if abs(value) < 1e6 else f"{value:.3g}"


def number(value: float, digits: int = 2) -> str:
    """Return a coordinate, rounded to ``digits`` digits after the point."""
    return f"{round(float(value), digits) + 0.0:.10g}"


def point(x: float, y: float, digits: int = 2) -> str:
    """Return a point of a path."""
    return f"{number(x, digits)},{number(y, digits)}"


def _written(attributes: dict) -> str:
    texts = {
        name.rstrip("_").replace("_", "-"): number(value) if isinstance(value, float) else str(value)
        for name, value in attributes.items()
        if value is not None
    }
    return "".join(f' {name}="{html.escape(text)}"' for name, text in texts.items())
