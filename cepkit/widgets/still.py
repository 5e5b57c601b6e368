"""Still pictures of widgets as HTML and SVG text; nothing here knows a trait."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

import numpy as np

from cepkit.plots import theme

MOST_COLUMNS_DRAWN = 600  # of pixels: a line of more points is drawn by the extremes in each


def table_html(
    header: Sequence[str], rows: Iterable[Sequence[object]], *, caption: str = "", right: Iterable[int] = ()
) -> str:
    """Return an HTML table of texts taken literally; columns of the numbers ``right`` are right-aligned.

    Examples
    --------
    >>> table_html(["a<b"], [[1], [2]], right=[0])[:60]
    '<table><thead><tr><th align="right">a&lt;b</th></tr></thead>'
    """
    numbers = frozenset(right)

    def cells(tag: str, texts: Sequence[object]) -> str:
        return "".join(
            f'<{tag} align="{"right" if k in numbers else "left"}">{html.escape(str(text))}</{tag}>'
            for k, text in enumerate(texts)
        )

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    title = f"<caption>{html.escape(caption)}</caption>" if caption else ""
    head = f"<thead><tr>{cells('th', header)}</tr></thead>" if header else ""
    return f"<table>{title}{head}<tbody>{body}</tbody></table>"


def svg(width: float, height: float, label: str, parts: Iterable[str]) -> str:
    """Return one ``<svg>`` element of ready parts, in the page's own text colour where there is one."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{number(width)}" height="{number(height)}" '
        f'viewBox="0 0 {number(width)} {number(height)}" role="img" aria-label="{html.escape(label)}" '
        f'color="{theme.INK}" style="color:{theme.PAGE_INK};max-width:100%;height:auto" '
        f'font-family="{html.escape(theme.SANS)}" font-size="12">{"".join(parts)}</svg>'
    )


def text(x: float, y: float, content: object, *, anchor: str = "start", extra: str = "") -> str:
    """Return an SVG text; ``extra`` are further attributes."""
    return (
        f'<text x="{number(x)}" y="{number(y)}" text-anchor="{anchor}" fill="currentColor" {extra}>'
        f"{html.escape(str(content))}</text>"
    )


def number(value: float) -> str:
    """Return a length in pixels, short."""
    return f"{round(float(value), 1) + 0.0:g}"


def line_path(x: np.ndarray, y: np.ndarray, columns: np.ndarray) -> str:
    """Return the path of a line through points in pixels; where many share a column, its extremes alone.

    Parameters
    ----------
    x, y : numpy.ndarray
        Pixels, shape (n,); NaN in ``y`` breaks the line.
    columns : numpy.ndarray
        The column of each point, int64, ascending.
    """
    if len(x) > 2 * MOST_COLUMNS_DRAWN:
        drawn = np.zeros(len(x), bool)
        starts = np.flatnonzero(np.diff(columns, prepend=columns[0] - 1))
        for first, end in zip(starts, [*starts[1:], len(x)], strict=True):
            part = y[first:end]
            drawn[[first, end - 1]] = True
            if not np.isnan(part).all():
                drawn[[first + int(np.nanargmin(part)), first + int(np.nanargmax(part))]] = True
        x, y = x[drawn], y[drawn]
    words, is_drawing = [], False
    for px, py in zip(x.tolist(), y.tolist(), strict=True):
        if py != py:
            is_drawing = False
            continue
        words.append(f"{'L' if is_drawing else 'M'}{number(px)},{number(py)}")
        is_drawing = True
    return "".join(words)
