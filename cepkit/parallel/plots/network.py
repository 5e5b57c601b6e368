"""Draw the agents of a query with their queues and threads as SVG text."""

from __future__ import annotations

import html
from dataclasses import dataclass
from itertools import accumulate

import pandas as pd

from cepkit.errors import CepError, nearest, require_columns
from cepkit.plots import theme
from cepkit.plots.drawing import ADVANCE, FONT_SIZE, document, element, number, path, text
from cepkit.plots.text import cut

_COLUMNS = ("agent", "events", "start", "next", "loops")
_QUEUES = (
    ("events", "event_threads", "taken_events"),
    ("partial matches", "partial_threads", "taken_partials"),
)
_MARGIN, _LINE, _PADDING, _ARROW = 8.0, 15.0, 6.0, 7.0
_ABOVE = 34.0  # room for the line from the source to the agents
_BELOW = 34.0  # room for loops and for arrows past other agents
_LEAST_GAP = 48.0
_ROUND = (34.0, 18.0)  # radii of the source and of the matches
Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class _Box:
    """The box of an agent: a cell with its label, then a cell per queue."""

    row: dict
    left: float
    right: float
    edges: tuple[float, ...]  # top of every cell and bottom of the last one
    cells: tuple[tuple[str, ...], ...]

    def middle_of(self, cell: int) -> float:
        return (self.edges[cell] + self.edges[cell + 1]) / 2


def network_svg(agents: pd.DataFrame, *, title: str | None = None) -> str:
    """Return a drawing of agents as SVG text, from left to right.

    The source sends events to the event queues, and events of the first component as partial matches
    (dashed). An agent is a box with a part per queue, which shows the number of threads that take from it.
    """
    _check(agents)
    top = _MARGIN + _ABOVE + (_LINE + _MARGIN if title else 0.0)
    boxes, gap = _boxes(agents.to_dict("records"), top)
    y = max((box.middle_of(2) for box in boxes.values()), default=top)
    below = max((box.edges[-1] for box in boxes.values()), default=top) + _BELOW - _LINE
    last = max((box.right for box in boxes.values()), default=_MARGIN + 2 * _ROUND[0])
    source, matches = (_MARGIN + _ROUND[0], y), (last + gap + _ROUND[0], y)
    parts = []
    for name, centre, colour in (("source", source, theme.INK), ("matches", matches, theme.ACCEPT_GREEN)):
        shape = {"cx": number(centre[0]), "cy": number(y), "rx": _ROUND[0], "ry": _ROUND[1]}
        drawn = element("ellipse", **shape, stroke=_ink(colour), **_tint(colour))
        parts.append(_group("node", name, drawn + text(centre[0], y + 4, name, anchor="middle")))
    order = [*boxes, None]  # None: the matches
    for k, (label, box) in enumerate(boxes.items()):
        parts += [_draw_box(box), _arrow_of_events(box, source, top - _ABOVE + 10)]
        partials = (box.left, box.middle_of(2))
        if not pd.isna(box.row["start"]):
            began, said = (source[0] + _ROUND[0], y), cut(str(box.row["start"]))
            name = f"source->{label}:partials"
            parts.append(_arrow(name, began, partials, said, None if k == 0 else below, dash="5 2"))
        target = None if pd.isna(box.row["next"]) else box.row["next"]
        end = (boxes[target].left, boxes[target].middle_of(2)) if target else (matches[0] - _ROUND[0], y)
        name = f"{label}->{target}:partials" if target else f"{label}->matches"
        sends = (box.right, box.middle_of(2))
        said = _number(box.row, "sent")
        parts.append(_arrow(name, sends, end, said, None if order[k + 1] == target else below))
        if box.row["loops"]:
            name = f"{label}->{label}:partials"
            parts.append(_arrow(name, (box.right, sends[1] + 8), (box.left, partials[1] + 8), "loop", below))
    width = max(matches[0] + _ROUND[0], _width(title or "")) + _MARGIN
    parts += [text(width / 2, _MARGIN + FONT_SIZE, title, anchor="middle")] if title else []
    return document(width, below + _MARGIN, title or f"network of {len(agents)} agents", parts)


def _boxes(rows: list[dict], top: float) -> tuple[dict[str, _Box], float]:
    """Return the box of every agent by label, from left to right, and the gap between two boxes."""
    cells = [_cells(row) for row in rows]
    events = [cut(str(row["events"])) for row in rows]
    beside = [_number(row, "sent") for row in rows]
    beside += [cut(str(row["start"])) for row in rows if not pd.isna(row["start"])]
    lines = [line for own in cells for part in own for line in part]
    width = max([*map(_width, lines), *(_width(of) + 12 for of in events)], default=0.0) + 2 * _PADDING
    gap = max([_LEAST_GAP, *(_width(of) + 34 for of in beside)])
    made, left = {}, _MARGIN + 2 * _ROUND[0] + gap
    for row, own in zip(rows, cells, strict=True):
        heights = [len(part) * _LINE + _PADDING for part in own]
        edges = tuple(accumulate(heights, initial=top))
        made[row["agent"]] = _Box(row, left, left + width, edges, own)
        left += width + gap
    return made, gap


def _check(agents: pd.DataFrame) -> None:
    require_columns("network_svg", _COLUMNS, agents.columns)
    labels = agents["agent"].tolist()
    if len(set(labels)) < len(labels):
        raise CepError(f"network_svg: agents {labels}. Give each agent a label of its own")
    unknown = [name for name in agents["next"].dropna() if name not in labels]
    if unknown:
        near = nearest(str(unknown[0]), map(str, labels))
        raise CepError(f"network_svg: next agent {unknown[0]!r} is not known.{near} There are {labels}")


def _cells(row: dict) -> tuple[tuple[str, ...], ...]:
    cells = [(cut(str(row["agent"])),)]
    for queue, threads, taken in _QUEUES:
        lines = [queue]
        n_threads, n_taken = _number(row, threads), _number(row, taken)
        lines += [f"{n_threads} thread{'' if n_threads == '1' else 's'}"] if n_threads else []
        lines += [f"{n_taken} taken"] if n_taken else []
        cells.append(tuple(lines))
    return tuple(cells)


def _draw_box(box: _Box) -> str:
    parts = []
    for cell, lines in enumerate(box.cells):
        top, height = box.edges[cell], box.edges[cell + 1] - box.edges[cell]
        place = dict(
            zip(("x", "y", "width", "height"), (box.left, top, box.right - box.left, height), strict=True)
        )
        filling = {"fill": "none"} if cell else _tint(theme.STATE_BLUE)
        parts.append(
            element("rect", **{k: number(v) for k, v in place.items()}, stroke=theme.STATE_BLUE, **filling)
        )
        middle = (box.left + box.right) / 2
        parts += [text(middle, top + k * _LINE, line, anchor="middle") for k, line in enumerate(lines, 1)]
    return _group("node", box.row["agent"], "".join(parts))


def _arrow_of_events(box: _Box, source: Point, above: float) -> str:
    """Return the arrow from the source to the event queue, above the other agents."""
    end, turn = (box.left, box.middle_of(1)), box.left - 14
    begin = f"M{number(source[0])},{number(source[1] - _ROUND[1])}"
    line = f"{begin}V{number(above)}H{number(turn)}V{number(end[1])}"
    words = text(turn + 6, box.edges[0] - 6, cut(str(box.row["events"])))
    return _line(f"source->{box.row['agent']}:events", line, end, words)


def _arrow(
    name: str, begin: Point, end: Point, words: str, below: float | None, dash: str | None = None
) -> str:
    """Return an arrow to the right, past other agents at height ``below`` if given."""
    line, x, y = f"M{number(begin[0])},{number(begin[1])}", begin[0], end[1]
    if below is not None:
        line += f"h7V{number(below)}H{number(end[0] - 20)}V{number(y)}"
        x, y = min(begin[0], end[0]) + 7, below
    elif y != begin[1]:
        line += f"h7V{number(y)}"
    said = text(x + 10, y - 4, words) if words else ""
    return _line(name, line, end, said, dash)


def _line(name: str, line: str, end: Point, words: str, dash: str | None = None) -> str:
    """Return a line that continues to the right to ``end``, with an arrow head there."""
    line += f"H{number(end[0] - _ARROW)}"
    corners = [end, *((end[0] - _ARROW, end[1] + side) for side in (-3, 3))]
    head = element(
        "polygon", points=" ".join(f"{number(x)},{number(y)}" for x, y in corners), fill="currentColor"
    )
    drawn = path(line, fill="none", stroke="currentColor", stroke_width=1.2, stroke_dasharray=dash)
    return _group("edge", name, drawn + head + words)


def _group(kind: str, name: str, part: str) -> str:
    return f'<g class="{kind}"><title>{html.escape(str(name), quote=False)}</title>{part}</g>'


def _ink(colour: str) -> str:
    return "currentColor" if colour == theme.INK else colour


def _tint(colour: str) -> dict[str, str]:
    return {"fill": _ink(colour), "fill_opacity": number(int(theme.TINT_ALPHA, 16) / 255)}


def _width(words: str) -> float:
    return ADVANCE * FONT_SIZE * len(words)


def _number(row: dict, name: str) -> str:
    value = row.get(name)
    return "" if value is None or pd.isna(value) else f"{int(value):,}"
