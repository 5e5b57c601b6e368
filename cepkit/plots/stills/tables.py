"""Tables and lines of text as SVG, and pictures below each other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cepkit.plots import drawing, theme
from cepkit.plots.stills.png import Picture, size_of

WIDTH = 760.0
_ROW, _PAD, _MOST_ROWS = 20.0, 14.0, 24
_LINE = 18.0


def lines_svg(lines: Iterable[object], *, is_code: bool = False, title: str = "") -> Picture:
    """Return lines of text."""
    texts = [str(line).replace("\t", "    ") for line in lines]
    most = int((WIDTH - 8) / (theme.MONOSPACE_ADVANCE if is_code else drawing.ADVANCE) / drawing.FONT_SIZE)
    texts = [text if len(text) <= most else f"{text[: most - 1]}…" for text in texts]
    top = 24.0 if title else 4.0
    parts = [drawing.text(4, 16, drawing.fitting(title, WIDTH, 14), size=14)] if title else []
    parts += [_spaced(4, top + _LINE * (k + 0.75), text) for k, text in enumerate(texts) if text.strip()]
    if is_code:
        parts = [f'<g font-family="{theme.MONOSPACE}">', *parts, "</g>"]
    return drawing.document(WIDTH, top + _LINE * max(len(texts), 1) + 4, title or " ".join(texts[:3]), parts)


def _spaced(x: float, y: float, words: str) -> str:
    return drawing.text(x, y, words).replace("<text ", '<text xml:space="preserve" ', 1)


def table_svg(
    header: Sequence[object], rows: Iterable[Sequence[object]], *, caption: str = "",
    right: Iterable[int] = (),
) -> Picture:  # fmt: skip
    """Return a table of plain texts, at most 24 rows of it."""
    listed, numbers = [[str(cell) for cell in row] for row in rows], frozenset(right)
    shown = listed[:_MOST_ROWS]
    grid = [[str(name) for name in header], *shown] if header else shown
    n = max((len(row) for row in grid), default=0)
    widths = _widths([max((len(row[k]) for row in grid if k < len(row)), default=0) for k in range(n)])
    edges = [4.0]
    for width in widths:
        edges.append(edges[-1] + width)
    top = 24.0 if caption else 4.0
    parts = [drawing.text(4, 16, drawing.fitting(caption, WIDTH), size=12)] if caption else []
    for r, row in enumerate(grid):
        y = top + _ROW * (r + 0.7)
        for k, cell in enumerate(row):
            words = drawing.fitting(cell, widths[k] - _PAD + 6)
            at_right = k in numbers
            x = edges[k + 1] - _PAD if at_right else edges[k]
            parts.append(drawing.text(x, y, words, anchor="end" if at_right else "start"))
        if header and r == 0:
            line = f"M0,{top + _ROW:g}H{edges[-1]:g}"
            parts.append(drawing.path(line, stroke="currentColor", stroke_opacity=0.5))
    bottom = top + _ROW * len(grid)
    if len(listed) > len(shown):
        parts.append(drawing.text(4, bottom + 14, f"{len(listed) - len(shown):,} more rows"))
        bottom += _ROW
    return drawing.document(WIDTH, bottom + 6, caption or "table", parts)


def _widths(longest: Sequence[int]) -> list[float]:
    """Return the widths of columns for their longest texts; wide columns give way in a wide table."""
    widths = [max(30.0, n * drawing.ADVANCE * drawing.FONT_SIZE * 1.08 + _PAD) for n in longest]
    limit = WIDTH
    while sum(min(width, limit) for width in widths) > WIDTH - 8 and limit > 40:
        limit -= 10
    return [min(width, limit) for width in widths]


def stacked(pictures: Sequence[str], label: str) -> Picture:
    """Return pictures below each other; those wider than the page are made smaller."""
    parts, y = [], 0.0
    for picture in pictures:
        width, height = size_of(picture)
        share = min(1.0, WIDTH / width) if width else 1.0
        place = f'<svg x="0" y="{drawing.number(y)}" width="{drawing.number(width * share)}" '
        place += f'height="{drawing.number(height * share)}"'
        head = f'width="{drawing.number(width)}" height="{drawing.number(height)}"'
        parts.append(picture.replace("<svg ", place + " ", 1).replace(f" {head}", "", 1))
        y += height * share + 10
    return drawing.document(WIDTH, max(y - 10, 1.0), label, parts)
