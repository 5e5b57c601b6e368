"""Static pictures as SVG text and as PNG, for documents and for pages that run no JavaScript."""

from __future__ import annotations

import base64
import html
import io
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cepkit.plots import theme

if TYPE_CHECKING:
    from PIL import Image

# SVG text as PNG. A PNG is shown in every page of a notebook: without a kernel, untrusted, or sanitised.

SCALE = 1.5  # pixels of the file per pixel of the picture
_COLOURS = 48  # a palette takes a third of the bytes, and the eye sees no difference
_APART = 14  # the least difference of two colours of a palette in red, green or blue, of 255
_FONTS = [str(Path(__file__).parent / "fonts" / name) for name in ("DejaVuSans.ttf", "DejaVuSansMono.ttf")]
_NOT_IN_FONTS = re.compile("[^\u0000-\u045f\u1e9e\u2000-\u27ff]")
_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_THIN = 'stroke-width="1"', 'stroke-width="1.01"'  # resvg takes ten times as long for lines of up to a pixel
_SIZE = re.compile(r'<svg [^>]*?width="([\d.]+)" height="([\d.]+)"')


def png(svg: str, scale: float = SCALE, *, is_small: bool = True) -> bytes:
    """Return SVG text as the bytes of a PNG file."""
    # Equal texts give equal bytes, because the fonts come with the package. Other fonts are used only for
    # characters that those fonts lack. A small file has a palette.
    import resvg_py
    from PIL import Image

    full = resvg_py.svg_to_bytes(
        svg_string=svg.replace(*_THIN), zoom=scale, font_files=_FONTS,
        skip_system_fonts=not _NOT_IN_FONTS.search(svg), font_family="DejaVu Sans",
        sans_serif_family="DejaVu Sans", serif_family="DejaVu Sans", monospace_family="DejaVu Sans Mono",
    )  # fmt: skip
    if not is_small:
        return bytes(full)
    small = io.BytesIO()
    with Image.open(io.BytesIO(full)) as image:
        picture, palette = image.convert("RGB"), Image.new("P", (1, 1))
    palette.putpalette(_frequent_colours(picture).tobytes())
    picture.quantize(palette=palette, dither=Image.Dither.NONE).save(small, "PNG", optimize=True)
    return small.getvalue()


def _frequent_colours(picture: Image.Image) -> np.ndarray:
    """Return the most frequent colours of a picture that differ visibly, uint8, (n_colours, 3)."""
    # Areas and lines keep their exact colours. What lies between two of them is the edge of a letter.
    counted = picture.getcolors(picture.width * picture.height)
    left = np.array([colour for _, colour in sorted(counted, key=lambda pair: (-pair[0], pair[1]))])
    chosen = []
    while len(left) and len(chosen) < _COLOURS:
        chosen.append(left[0])
        left = left[np.abs(left - left[0]).max(axis=1) > _APART]
    return np.array(chosen, np.uint8)


def size_of(svg: str) -> tuple[float, float]:
    """Return the width and height of SVG text in pixels."""
    width, height = _SIZE.search(svg).groups()
    return float(width), float(height)


def still_bundle(svg: str, words: str, scale: float = SCALE) -> tuple[dict[str, str], dict[str, Any]]:
    """Return a picture as a notebook's output: its data and its metadata by MIME type."""
    image = base64.b64encode(png(svg, scale)).decode("ascii")
    width, _ = size_of(svg)
    return {"image/png": image, "text/plain": words}, {"image/png": {"width": round(width)}}


def without_controls(text: str) -> str:
    r"""Return a text in which a sign takes the place of each character that XML cannot have."""
    return _NOT_IN_XML.sub("\ufffd", text)


class Picture(str):
    """SVG text that a notebook shows as a picture."""

    __slots__ = ()

    def __new__(cls, svg: str) -> Picture:
        """Return the picture without characters that XML cannot have."""
        return super().__new__(cls, without_controls(svg))

    def _ipython_display_(self) -> None:
        """Show the picture in a notebook."""
        # A bundle of MIME types would get the whole text of the picture, as every str does.
        from IPython.display import display

        width, height = size_of(self)
        data, metadata = still_bundle(self, f"Picture({width:g} x {height:g} pixels)")
        display(data, metadata=metadata, raw=True)


# Static pictures as SVG text, for documents and for pages that run no JavaScript.

FONT_SIZE = 12
ADVANCE = 0.56  # average width of a sans-serif character, as a share of the font size
MOST_COLUMNS = 600  # pixel columns; a longer line is drawn by the extremes of each column


def document(width: float, height: float, label: str, parts: Iterable[str]) -> Picture:
    """Return an ``<svg>`` element with the given parts on paper; its ``currentColor`` is `theme.INK`."""
    written = f'class="cepkit-picture" role="img" aria-label="{html.escape(label)}" color="{theme.INK}"'
    paper = element("rect", width="100%", height="100%", fill=theme.PAPER)
    return Picture(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{number(width)}" height="{number(height)}" '
        f'viewBox="0 0 {number(width)} {number(height)}" {written} '
        f'style="max-width:100%;height:auto" font-family="{html.escape(theme.SANS)}" '
        f'font-size="{FONT_SIZE}" fill="currentColor">{paper}{"".join(parts)}</svg>'
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
    columns = x.astype(np.int64)  # x is in pixels
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
    return f"{number(x, digits)},{number(y, digits)}"


def _written(attributes: dict) -> str:
    """Return the attributes of an element of SVG."""
    texts = {
        name.rstrip("_").replace("_", "-"): number(value) if isinstance(value, float) else str(value)
        for name, value in attributes.items()
        if value is not None
    }
    return "".join(f' {name}="{html.escape(text)}"' for name, text in texts.items())


# Tables and lines of text as SVG, and pictures below each other.

WIDTH = 760.0
_ROW, _PAD, _MOST_ROWS = 20.0, 14.0, 24
_LINE = 18.0


def lines_svg(lines: Iterable[object], *, is_code: bool = False, title: str = "") -> Picture:
    """Return lines of text as a picture."""
    texts = [str(line).replace("\t", "    ") for line in lines]
    most = int((WIDTH - 8) / (theme.MONOSPACE_ADVANCE if is_code else ADVANCE) / FONT_SIZE)
    texts = [text if len(text) <= most else f"{text[: most - 1]}…" for text in texts]
    top = 24.0 if title else 4.0
    parts = [text(4, 16, fitting(title, WIDTH, 14), size=14)] if title else []
    parts += [_spaced(4, top + _LINE * (k + 0.75), text) for k, text in enumerate(texts) if text.strip()]
    if is_code:
        parts = [f'<g font-family="{theme.MONOSPACE}">', *parts, "</g>"]
    return document(WIDTH, top + _LINE * max(len(texts), 1) + 4, title or " ".join(texts[:3]), parts)


def _spaced(x: float, y: float, words: str) -> str:
    return text(x, y, words).replace("<text ", '<text xml:space="preserve" ', 1)


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
    parts = [text(4, 16, fitting(caption, WIDTH), size=12)] if caption else []
    for r, row in enumerate(grid):
        y = top + _ROW * (r + 0.7)
        for k, cell in enumerate(row):
            words = fitting(cell, widths[k] - _PAD + 6)
            at_right = k in numbers
            x = edges[k + 1] - _PAD if at_right else edges[k]
            parts.append(text(x, y, words, anchor="end" if at_right else "start"))
        if header and r == 0:
            line = f"M0,{top + _ROW:g}H{edges[-1]:g}"
            parts.append(path(line, stroke="currentColor", stroke_opacity=0.5))
    bottom = top + _ROW * len(grid)
    if len(listed) > len(shown):
        parts.append(text(4, bottom + 14, f"{len(listed) - len(shown):,} more rows"))
        bottom += _ROW
    return document(WIDTH, bottom + 6, caption or "table", parts)


def _widths(longest: Sequence[int]) -> list[float]:
    """Return the widths of columns for their longest texts; wide columns give way in a wide table."""
    widths = [max(30.0, n * ADVANCE * FONT_SIZE * 1.08 + _PAD) for n in longest]
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
        place = f'<svg x="0" y="{number(y)}" width="{number(width * share)}" '
        place += f'height="{number(height * share)}"'
        head = f'width="{number(width)}" height="{number(height)}"'
        parts.append(picture.replace("<svg ", place + " ", 1).replace(f" {head}", "", 1))
        y += height * share + 10
    return document(WIDTH, max(y - 10, 1.0), label, parts)
