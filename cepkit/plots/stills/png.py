"""SVG text as PNG. A PNG is shown in every page of a notebook: without a kernel, untrusted, or sanitised."""

from __future__ import annotations

import base64
import io
import re
from pathlib import Path
from typing import Any

from cepkit.plots import theme

SCALE = 1.5  # pixels of the file per pixel of the picture
_COLOURS = 64  # a palette takes a quarter of the bytes, and the eye sees no difference
_FONTS = [str(Path(__file__).parent / name) for name in ("DejaVuSans.ttf", "DejaVuSansMono.ttf")]
_NOT_IN_FONTS = re.compile("[^\u0000-\u045f\u1e9e\u2000-\u27ff]")
_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_THIN = 'stroke-width="1"', 'stroke-width="1.01"'  # resvg takes ten times as long for lines of up to a pixel
_SIZE = re.compile(r'<svg [^>]*?width="([\d.]+)" height="([\d.]+)"')


def png(svg: str, scale: float = SCALE, *, is_small: bool = True) -> bytes:
    """Return SVG text as the bytes of a PNG file with a transparent ground.

    The text colour of the page becomes `theme.INK`, which is readable on light and dark paper. Equal texts
    give equal bytes, because the fonts come with the package. Other fonts are used only for characters that
    those fonts lack. A small file has a palette, in which pale and narrow marks may lose their colour.
    """
    import resvg_py
    from PIL import Image

    full = resvg_py.svg_to_bytes(
        svg_string=svg.replace(theme.PAGE_INK, theme.INK).replace(*_THIN),
        zoom=scale,
        font_files=_FONTS,
        skip_system_fonts=not _NOT_IN_FONTS.search(svg),
        font_family="DejaVu Sans",
        sans_serif_family="DejaVu Sans",
        serif_family="DejaVu Sans",
        monospace_family="DejaVu Sans Mono",
    )
    if not is_small:
        return bytes(full)
    small = io.BytesIO()
    with Image.open(io.BytesIO(full)) as image:
        palette = image.convert("RGBA").quantize(_COLOURS, method=Image.Quantize.FASTOCTREE)
    palette.save(small, "PNG", optimize=True)
    return small.getvalue()


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
        # A bundle of MIME types would get the whole text of the picture, as every str does.
        from IPython.display import display

        width, height = size_of(self)
        data, metadata = still_bundle(self, f"Picture({width:g} x {height:g} pixels)")
        display(data, metadata=metadata, raw=True)
