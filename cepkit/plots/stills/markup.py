"""Plotly's texts, which have a few HTML tags, as SVG text."""

from __future__ import annotations

import html
from dataclasses import dataclass
from html.parser import HTMLParser

from cepkit.plots import drawing

LINE_HEIGHT = 1.3  # of the font size, as plotly has it
_LOOKS = {
    "b": ' font-weight="bold"',
    "i": ' font-style="italic"',
    "sup": ' baseline-shift="super" font-size="70%"',
    "sub": ' baseline-shift="sub" font-size="70%"',
}


@dataclass(frozen=True, slots=True)
class FigureText:
    """A text of plotly: the lines as SVG, and their lengths in characters."""

    lines: tuple[str, ...]
    lengths: tuple[int, ...]

    def width(self, size: float) -> float:
        """Return the approximate width in pixels at a font size."""
        return max(self.lengths, default=0) * drawing.ADVANCE * size

    def height(self, size: float) -> float:
        """Return the height in pixels at a font size."""
        return len(self.lines) * LINE_HEIGHT * size


class _MarkupParser(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.lines, self.lengths, self.open = [""], [0], []

    def handle_starttag(self, tag: str, attrs: list) -> None:
        if tag == "br":
            self.lines.append("")
            self.lengths.append(0)
        elif tag in _LOOKS:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in self.open:
            self.open.remove(tag)

    def handle_data(self, data: str) -> None:
        part = html.escape(data, quote=False)
        looks = "".join(_LOOKS[tag] for tag in self.open)
        self.lines[-1] += f"<tspan{looks}>{part}</tspan>" if looks else part
        self.lengths[-1] += len(data)


def read_words(text: object) -> FigureText:
    """Return plotly's text as lines of SVG."""
    reader = _MarkupParser()
    reader.feed("" if text is None else str(text))
    reader.close()
    return FigureText(tuple(reader.lines), tuple(reader.lengths))


def write_words(
    x: float, y: float, words: FigureText, *, size: float, colour: str = "", anchor: str = "start",
    across: str = "middle", angle: float = 0.0,
) -> str:  # fmt: skip
    """Return the lines of a text at a point."""
    room = words.height(size)
    top = y - {"top": 0.0, "middle": room / 2, "bottom": room}[across]
    looks = f' font-size="{drawing.number(size)}"' + (f' fill="{html.escape(colour)}"' if colour else "")
    looks += f' text-anchor="{anchor}"' if anchor != "start" else ""
    if angle:
        looks += f' transform="rotate({drawing.number(angle)} {drawing.number(x)} {drawing.number(y)})"'
    return "".join(
        f'<text xml:space="preserve" x="{drawing.number(x)}" '
        f'y="{drawing.number(top + (k + 0.78) * LINE_HEIGHT * size)}"{looks}>{line}</text>'
        for k, line in enumerate(words.lines)
        if line.strip()
    )
