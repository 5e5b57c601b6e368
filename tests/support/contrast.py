"""Contrast as WCAG measures it: 4.5 between a text and its ground is level AA, 3 suits marks."""

from __future__ import annotations

from tests.support.widget_page import set_theme

# Texts with less contrast than 4.5, as [text, class, contrast]. A control that is off may be pale. A text
# with a line of paper around it, as on bars, is read against that line, others against what lies below them.
PALE = """
() => {
  const pen = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (colour, below = [255, 255, 255]) => {
    pen.clearRect(0, 0, 1, 1);
    pen.fillStyle = "#000";
    pen.fillStyle = colour;
    pen.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = pen.getImageData(0, 0, 1, 1).data;
    return [r, g, b].map((value, k) => (value * a) / 255 + below[k] * (1 - a / 255));
  };
  const light = (colour) => {
    const linear = (v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    const [r, g, b] = colour.map((v) => linear(v / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ratio = (one, other) => {
    const [low, high] = [light(one), light(other)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  };
  const groundOf = (node) => {
    const above = [];
    for (let at = node; at; at = at.parentElement) above.unshift(getComputedStyle(at));
    return above.reduce((ground, style) => rgba(style.backgroundColor, ground), [255, 255, 255]);
  };
  const shapeBelow = (node, ground) => {
    const { x, y, width, height } = node.getBoundingClientRect();
    const shapes = document.elementsFromPoint(x + width / 2, y + height / 2).filter(
      (one) => one instanceof SVGGeometryElement && getComputedStyle(one).fill !== "none"
    );
    return shapes.reverse().reduce((below, one) => {
      const style = getComputedStyle(one);
      const share = Number(style.fillOpacity) * Number(style.opacity);
      return rgba(style.fill, below).map((v, k) => v * share + below[k] * (1 - share));
    }, ground);
  };
  const touchable = document.createElement("style");
  touchable.textContent = "* { pointer-events: all !important; transition: none !important }";
  document.head.append(touchable);
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode.parentElement;
    const words = walker.currentNode.textContent.trim();
    if (!words || !node.checkVisibility({ opacityProperty: true, visibilityProperty: true })) continue;
    if (node.closest("style, :disabled, [aria-disabled=true], [aria-hidden=true], option")) continue;
    const style = getComputedStyle(node);
    const isDrawn = node instanceof SVGElement;
    const outline = isDrawn && style.stroke !== "none" && style.paintOrder.startsWith("stroke");
    const page = groundOf(isDrawn ? node.ownerSVGElement : node);
    const ground = outline ? rgba(style.stroke) : isDrawn ? shapeBelow(node, page) : page;
    let share = 1;
    for (let at = node; at; at = at.parentElement) share *= Number(getComputedStyle(at).opacity);
    const full = rgba(isDrawn ? style.fill : style.color, ground);
    const ink = full.map((v, k) => v * share + ground[k] * (1 - share));
    const value = Math.round(ratio(ink, ground) * 100) / 100;
    if (value < 4.5) found.push([words.slice(0, 30), node.getAttribute("class") ?? node.tagName, value]);
  }
  touchable.remove();
  return found;
}
"""


def luminance(colour: str) -> float:
    channels = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(ink: str, paper: str) -> float:
    """Return the contrast of two colours, from 1 to 21."""
    low, high = sorted([luminance(ink), luminance(paper)])
    return (high + 0.05) / (low + 0.05)


def pale_texts(page) -> dict[str, list]:
    """Return the texts of a page that are not read in the light theme and in the dark one."""
    found = {}
    for name in ("light", "dark"):
        set_theme(page, name)
        found[name] = page.evaluate(PALE)
    return found
