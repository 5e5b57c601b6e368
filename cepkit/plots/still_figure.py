"""A figure of plotly as SVG text, without a browser. It draws what the figures of cepkit consist of."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from cepkit.plots import drawing, theme
from cepkit.plots.still_axes import Axis, axis_of, get, milliseconds, ranged, with_template
from cepkit.plots.still_traces import (
    DASHES,
    KNOWN,
    Bars,
    Legend,
    Page,
    bars_of,
    cell_edges,
    coordinates,
    draw_bars,
    draw_heatmap,
    draw_scatter,
    entries_of,
    legend_of,
    modes_of,
    read_words,
    write_words,
)
from cepkit.values import dataclass, replace

WIDTH, HEIGHT = 860.0, 450.0
_TICK = 12  # font size


def figure_svg(figure: Mapping[str, Any]) -> str:
    """Return a figure of plotly as SVG."""
    styled = with_template(figure)
    layout = styled["layout"]
    traces = [
        trace for trace in styled["data"] if trace["type"] in KNOWN and trace.get("visible", True) is True
    ]
    axes = _axes(traces, layout)
    bars = _bars(traces, axes, layout)
    axes = _with_ranges(axes, traces, bars, layout)
    frame = _frame(layout, axes, legend_of(layout, entries_of(traces, styled["data"], layout)))
    axes = {name: _between(axis, axes, frame) for name, axis in axes.items()}
    page = Page([], {})
    below, above = _shapes(layout, axes, frame)
    parts = [
        *below, *(part for axis in axes.values() for part in _grid(axis, axes, frame)),
        *_traces(traces, axes, bars, page),
        *(part for axis in axes.values() for part in _axis(axis, axes, frame)), *above,
        *frame.legend.draw(frame.left, frame.top, frame.right, frame.bottom, page),
        *_notes(layout, axes, frame), *_title(layout, frame),
    ]  # fmt: skip
    label = re.sub("<[^>]*>", " ", str(get(layout, "title.text", "") or "figure"))
    definitions = f"<defs>{''.join(page.definitions)}</defs>" if page.definitions else ""
    return drawing.document(frame.width, frame.height, label, [definitions, *parts])


@dataclass(frozen=True, slots=True)
class Frame:
    """The plot area in the picture, in pixels."""

    width: float
    height: float
    left: float
    top: float
    right: float
    bottom: float
    legend: Legend


# --- axes ---------------------------------------------------------------------------------------------------


def _ids(trace: Mapping[str, Any]) -> tuple[str, str]:
    return trace.get("xaxis") or "x", trace.get("yaxis") or "y"


def _axes(traces: list[dict], layout: Mapping[str, Any]) -> dict[str, Axis]:
    """Return the axes of a figure by their names."""
    names = [
        f"{matched[1]}{matched[2]}" for name in layout if (matched := re.fullmatch(r"([xy])axis(\d*)", name))
    ]
    names = {*names, *(axis_id for trace in traces for axis_id in _ids(trace))}
    axes = {}
    for name in sorted(names, key=lambda axis_id: (axis_id[0], int(axis_id[1:] or 1))):
        axis_traces = [trace for trace in traces if name in _ids(trace)]
        values = [coordinates(trace)[name[0] == "y"] for trace in axis_traces]
        axes[name] = axis_of(name, layout.get(f"{name[0]}axis{name[1:]}") or {}, values)
    return axes


def _bars(traces: list[dict], axes: Mapping[str, Axis], layout: Mapping[str, Any]) -> dict[int, Bars]:
    """Return the places of the bars of each trace of bars."""
    groups: dict[tuple[str, str], list[int]] = {}
    for k, trace in enumerate(traces):
        if trace["type"] == "bar":
            groups.setdefault(_ids(trace), []).append(k)
    bars_of_number = {}
    for (x, y), numbers in groups.items():
        group_bars = bars_of([traces[k] for k in numbers], [(axes[x], axes[y])] * len(numbers), layout)
        bars_of_number |= dict(zip(numbers, group_bars, strict=True))
    return bars_of_number


def _with_ranges(
    axes: Mapping[str, Axis], traces: list[dict], bars: Mapping[int, Bars], layout: Mapping[str, Any]
) -> dict[str, Axis]:
    """Return axes whose ranges hold all that is drawn."""
    extents: dict[str, list] = {name: [] for name in axes}
    for shape in layout.get("shapes") or ():
        for letter in "xy":
            axis, ends = axes.get(str(shape.get(f"{letter}ref"))), (shape.get(letter + n) for n in "01")
            if axis is not None and None not in (ends := tuple(ends)):
                places = axis.place(np.array(ends))
                extents[axis.name].append((float(places.min()), float(places.max()), True, True))
    for k, trace in enumerate(traces):
        for name in _ids(trace):
            extents[name] += _extent(axes[name], trace, bars.get(k))
    shared: dict[str, list[str]] = {}
    for name in axes:
        first = name
        while (other := axes[first].given.get("matches")) in axes and other != first:
            first = other
        shared.setdefault(first, []).append(name)
    ranged_axes = {}
    for names in shared.values():
        together = [extent for name in names for extent in extents[name]]
        fixed = next((axes[name] for name in names if axes[name].given.get("range")), None)
        for name in names:
            axis = ranged(axes[name], together)
            if fixed is not None and not axes[name].given.get("range"):
                fixed_axis = ranged(fixed, together)
                axis = replace(axis, low=fixed_axis.low, high=fixed_axis.high)
            ranged_axes[name] = axis
    return {name: ranged_axes[name] for name in axes}


def _extent(axis: Axis, trace: Mapping[str, Any], bars: Bars | None) -> list[tuple[float, float, bool, bool]]:
    """Return the range that a trace needs on an axis."""
    if bars is not None:
        is_length = bars.is_wide == axis.is_x
        ends = (
            np.concatenate([bars.starts, bars.ends])
            if is_length
            else np.concatenate([bars.centres - bars.widths / 2, bars.centres + bars.widths / 2])
        )
        ends = ends[~np.isnan(ends)]
        low, high = (float(ends.min()), float(ends.max())) if ends.size else (0.0, 1.0)
        return [(low, high, is_length and low != 0, is_length and high != 0)] if ends.size else []
    places = axis.place(coordinates(trace)[not axis.is_x])
    places = places[~np.isnan(places)]
    if not places.size:
        return []
    if trace["type"] == "heatmap":
        edges = cell_edges(places)
        return [(float(edges.min()), float(edges.max()), False, False)]
    has_room = not axis.is_x or "markers" in modes_of(trace)
    return [(float(places.min()), float(places.max()), has_room, has_room)]


def _frame(layout: Mapping[str, Any], axes: Mapping[str, Axis], legend: Legend) -> Frame:
    """Return the place of the plots on the page."""
    width, height = float(layout.get("width") or WIDTH), float(layout.get("height") or HEIGHT)
    margin = {"l": 80.0, "r": 80.0, "t": 100.0, "b": 80.0} | {
        name: float(value) for name, value in (layout.get("margin") or {}).items() if name in "lrtb"
    }
    left, right = margin["l"], max(margin["r"], legend.room_at_right())
    bottom = margin["b"]
    for axis in axes.values():
        if not axis.is_visible:
            continue
        title = 1.6 * 14 if get(axis.given, "title.text") else 0.0
        if not axis.is_x and axis.given.get("side") != "right":
            room = _label_width(axis) + 10 + title
            anchor = axes.get(str(axis.given.get("anchor") or "x"))
            if anchor is None or get(anchor.given, "domain", (0.0, 1.0))[0] == 0:
                left = max(left, min(room, 0.45 * width))
        if axis.is_x and axis.given.get("showticklabels") is not False and title:
            bottom = max(bottom, 22 + title)
    return Frame(width, height, left, margin["t"], width - right, height - bottom, legend)


def _label_width(axis: Axis) -> float:
    if axis.given.get("showticklabels") is False:
        return 0.0
    size = get(axis.given, "tickfont.size", _TICK)
    return max((read_words(text).width(size) for _, text in axis.between(300, 0).ticks()), default=0.0)


def _between(axis: Axis, axes: Mapping[str, Axis], frame: Frame) -> Axis:
    """Return an axis with its place on the page."""
    below = axes.get(str(axis.given.get("overlaying")))
    low, high = (below or axis).given.get("domain") or (0.0, 1.0)
    if axis.is_x:
        room = frame.right - frame.left
        return axis.between(frame.left + low * room, frame.left + high * room)
    room = frame.bottom - frame.top
    return axis.between(frame.bottom - low * room, frame.bottom - high * room)


def _across(axis: Axis, axes: Mapping[str, Axis], frame: Frame) -> tuple[float, float]:
    """Return the pixels between which the lines of an axis' ticks run, its own side first."""
    anchor = axes.get(str(axis.given.get("anchor") or ("y" if axis.is_x else "x")))
    if anchor is not None:
        ends = (anchor.start, anchor.end)
    else:
        ends = (frame.bottom, frame.top) if axis.is_x else (frame.left, frame.right)
    return ends[::-1] if axis.given.get("side") in ("top", "right") else ends


def _grid(axis: Axis, axes: Mapping[str, Axis], frame: Frame) -> list[str]:
    """Return the lines of the grid of an axis."""
    if not axis.is_visible or axis.given.get("showgrid") is False:
        return []
    if axis.kind == "category" and axis.given.get("showgrid") is None and axis.given.get("gridcolor") is None:
        return []
    near, far = _across(axis, axes, frame)
    lines = [_crossing(axis, float(axis.scale(place)), near, far) for place, _ in axis.ticks()]
    return [drawing.path("".join(lines), stroke=axis.given.get("gridcolor") or theme.GRID, stroke_width=1.0)]


def _crossing(axis: Axis, at: float, near: float, far: float) -> str:
    at, near, far = (drawing.number(pixel, 1) for pixel in (at, near, far))
    return f"M{at},{near}V{far}" if axis.is_x else f"M{near},{at}H{far}"


def _axis(axis: Axis, axes: Mapping[str, Axis], frame: Frame) -> list[str]:
    """Return the line, the ticks, their texts and the title of an axis."""
    if not axis.is_visible:
        return []
    near, far = _across(axis, axes, frame)
    out = 1 if near > far else -1  # the direction away from the plot
    parts = []
    if line := axis.given.get("linecolor"):
        ends = drawing.number(axis.start), drawing.number(axis.end), drawing.number(near)
        d = f"M{ends[0]},{ends[2]}H{ends[1]}" if axis.is_x else f"M{ends[2]},{ends[0]}V{ends[1]}"
        parts.append(drawing.path(d, stroke=line, stroke_width=float(axis.given.get("linewidth") or 1)))
    size, room = float(get(axis.given, "tickfont.size", _TICK)), 0.0
    if axis.given.get("showticklabels") is not False:
        texts, room = _tick_texts(axis, near, out, size)
        parts += texts
    if axis.given.get("ticks") == "outside":
        marks = [_crossing(axis, float(axis.scale(place)), near, near + 5 * out) for place, _ in axis.ticks()]
        parts.append(drawing.path("".join(marks), stroke=axis.given.get("tickcolor") or theme.INK))
    words = read_words(get(axis.given, "title.text"))
    if words.lengths != (0,):
        middle, size = (axis.start + axis.end) / 2, float(get(axis.given, "title.font.size", 13))
        standoff = float(get(axis.given, "title.standoff", 6))
        at = near + out * (room + 4 + standoff)
        if axis.is_x:
            across = "top" if out > 0 else "bottom"
            parts.append(write_words(middle, at, words, size=size, anchor="middle", across=across))
        else:
            at += out * words.height(size) / 2
            at = max(at, words.height(size) / 2 + 2)
            parts.append(write_words(at, middle, words, size=size, anchor="middle", angle=-90))
    return parts


def _tick_texts(axis: Axis, near: float, out: int, size: float) -> tuple[list[str], float]:
    """Return the texts of the ticks, and their room; long names on a horizontal axis are turned."""
    ticks = [(float(axis.scale(place)), read_words(text)) for place, text in axis.ticks()]
    if not ticks:
        return [], 0.0
    hue = get(axis.given, "tickfont.color", "")
    if not axis.is_x:
        anchor = "end" if out < 0 else "start"
        texts = [
            write_words(near + 5 * out, at, words, size=size, colour=hue, anchor=anchor)
            for at, words in ticks
        ]
        return texts, 5 + max(words.width(size) for _, words in ticks)
    across, angle = "top" if out > 0 else "bottom", float(axis.given.get("tickangle") or 0)
    gap = min((abs(b[0] - a[0]) for a, b in itertools.pairwise(ticks)), default=1e9)
    widest = max(words.width(size) for _, words in ticks)
    if not angle and widest > gap and axis.kind == "category":
        angle = 30.0
    if angle:
        anchor = "start" if (angle > 0) == (out > 0) else "end"
        texts = [
            write_words(at, near + 10 * out, words, size=size, colour=hue, anchor=anchor, angle=angle)
            for at, words in ticks
        ]
        return texts, 10 + widest * abs(np.sin(np.radians(angle))) + size
    every = max(1, int(np.ceil((widest + 6) / gap))) if len(ticks) > 1 else 1
    texts = [
        write_words(at, near + 4 * out, words, size=size, colour=hue, anchor="middle", across=across)
        for at, words in ticks[::every]
    ]
    return texts, 4 + max(words.height(size) for _, words in ticks)


# --- what the axes hold -------------------------------------------------------------------------------------


def _traces(traces: list[dict], axes: Mapping[str, Axis], bars: Mapping[int, Bars], page: Page) -> list[str]:
    """Return what the traces draw."""
    parts = []
    order = ("heatmap", "bar", "scattergl", "scatter")  # plotly draws bars before lines
    for k in sorted(range(len(traces)), key=lambda k: order.index(traces[k]["type"])):
        trace, ids = traces[k], _ids(traces[k])
        x, y = axes[ids[0]], axes[ids[1]]
        if trace["type"] == "bar":
            drawn = draw_bars(trace, bars[k], x, y, k, page)
        elif trace["type"] == "heatmap":
            drawn = draw_heatmap(trace, x, y)
        else:
            drawn = draw_scatter(trace, x, y, k)
        if trace.get("cliponaxis") is False and "lines" not in modes_of(trace):
            parts += drawn
        else:
            parts.append(_clipped(drawn, x, y, page))
    return parts


def _clipped(parts: list[str], x: Axis, y: Axis, page: Page) -> str:
    """Return parts that end at the borders of a plot."""
    if not parts:
        return ""
    left, right = sorted((x.start, x.end))
    top, bottom = sorted((y.start, y.end))
    key = ("clip", x.name, y.name)
    if key not in page.patterns:
        page.patterns[key] = f"c{len(page.patterns)}"
        box = drawing.element(
            "rect", x=left - 5, y=top - 5, width=right - left + 10, height=bottom - top + 10
        )
        page.definitions.append(f'<clipPath id="{page.patterns[key]}">{box}</clipPath>')
    return f'<g clip-path="url(#{page.patterns[key]})">{"".join(parts)}</g>'


# --- notes, shapes, title -----------------------------------------------------------------------------------


def _at(ref: Any, value: Any, axes: Mapping[str, Axis], frame: Frame, letter: str, *, is_note: bool) -> float:
    """Return the pixel of a coordinate that refers to an axis, to the domain of an axis, or to the paper."""
    name, _, suffix = str(ref or letter).partition(" ")
    axis = axes.get(name)
    if axis is None or suffix == "domain":
        if axis is not None:
            start, end = axis.start, axis.end
        else:
            start, end = (frame.left, frame.right) if letter == "x" else (frame.bottom, frame.top)
        return start + float(value) * (end - start)
    if axis.kind == "date" and not isinstance(value, (int, float)):
        return float(axis.scale(milliseconds([value])[0]))
    if axis.kind == "log" and not is_note:  # notes have logarithms on such axes, shapes have values
        return float(axis.pixels(np.array([value]))[0])
    return float(axis.scale(float(value)))


def _notes(layout: Mapping[str, Any], axes: Mapping[str, Axis], frame: Frame) -> list[str]:
    """Return the texts and arrows of a figure."""
    parts = []
    for note in layout.get("annotations") or ():
        words, size = read_words(note.get("text")), float(get(note, "font.size", 12))
        if note.get("visible") is False or note.get("x") is None or note.get("y") is None:
            continue
        x = _at(note.get("xref"), note["x"], axes, frame, "x", is_note=True) + float(note.get("xshift") or 0)
        y = _at(note.get("yref"), note["y"], axes, frame, "y", is_note=True) - float(note.get("yshift") or 0)
        has_arrow = note.get("showarrow", True) is not False
        hue, (tx, ty) = get(note, "font.color", ""), (x, y)
        if has_arrow:
            tx, ty = _tail(note, x, y, axes, frame)
            parts.append(_arrow(tx, ty, x, y, note, note.get("arrowcolor") or hue or theme.INK))
        along, across = note.get("xanchor") or "auto", note.get("yanchor") or "auto"
        if along == "auto":
            along = _by_third(note["x"]) if note.get("xref") == "paper" and not has_arrow else "center"
        if across == "auto":
            third = _by_third(note["y"]) if note.get("yref") == "paper" and not has_arrow else "center"
            across = {"left": "bottom", "right": "top", "center": "middle"}[third]
        anchor = {"left": "start", "right": "end"}.get(along, "middle")
        angle = float(note.get("textangle") or 0)
        parts.append(
            write_words(tx, ty, words, size=size, colour=hue, anchor=anchor, across=across, angle=angle)
        )
    return parts


def _tail(
    note: Mapping[str, Any], x: float, y: float, axes: Mapping[str, Axis], frame: Frame
) -> tuple[float, float]:
    """Return where the arrow of a note begins: in pixels from its head, or at a coordinate of an axis."""
    tail = []
    for letter, head, usual in (("x", x, -10), ("y", y, -30)):
        ref, value = note.get(f"a{letter}ref"), note.get(f"a{letter}", usual)
        if ref in axes:
            tail.append(_at(ref, value, axes, frame, letter, is_note=True))
        else:
            tail.append(head + float(value))
    return tail[0], tail[1]


def _arrow(x0: float, y0: float, x1: float, y1: float, note: Mapping[str, Any], hue: str) -> str:
    """Return an arrow from its tail to its head."""
    width = float(note.get("arrowwidth") or 1.5)
    length = float(np.hypot(x1 - x0, y1 - y0))
    if not length:
        return ""
    along = np.array([x1 - x0, y1 - y0]) / length
    tip, side = np.array([x1, y1]), np.array([-along[1], along[0]])
    size = 0.0 if note.get("arrowhead") == 0 else 4 * width * float(note.get("arrowsize") or 1)
    back = tip - along * size
    corners = [drawing.point(*point) for point in (tip, back + side * size / 2.4, back - side * size / 2.4)]
    line = drawing.path(f"M{drawing.point(x0, y0)}L{drawing.point(*back)}", stroke=hue, stroke_width=width)
    return line + (drawing.path(f"M{'L'.join(corners)}Z", fill=hue) if size else "")


def _by_third(share: Any) -> str:
    return "left" if float(share) <= 1 / 3 else "right" if float(share) >= 2 / 3 else "center"


def _shapes(layout: Mapping[str, Any], axes: Mapping[str, Axis], frame: Frame) -> tuple[list[str], list[str]]:
    """Return the shapes below and above the traces."""
    below, above = [], []
    for shape in layout.get("shapes") or ():
        kind = shape.get("type", "rect")
        looks = {
            "fill": shape.get("fillcolor") or "none", "stroke": get(shape, "line.color", theme.INK),
            "stroke_width": float(get(shape, "line.width", 2)),
            "stroke_dasharray": DASHES.get(get(shape, "line.dash", "")), "opacity": shape.get("opacity"),
        }  # fmt: skip
        if kind == "path":
            d = _path_of(str(shape.get("path") or ""), shape, axes, frame)
        else:
            x0, x1 = (_at(shape.get("xref"), shape[n], axes, frame, "x", is_note=False) for n in ("x0", "x1"))
            y0, y1 = (_at(shape.get("yref"), shape[n], axes, frame, "y", is_note=False) for n in ("y0", "y1"))
            if kind == "line":
                d = f"M{drawing.point(x0, y0)}L{drawing.point(x1, y1)}"
            elif kind == "circle":
                rx, ry, y = abs(x1 - x0) / 2, abs(y1 - y0) / 2, (y0 + y1) / 2
                a, b = drawing.point(min(x0, x1), y), drawing.point(max(x0, x1), y)
                arc = f"A{drawing.point(rx, ry)} 0 1 1 "
                d = f"M{a}{arc}{b}{arc}{a}Z"
            else:
                d = drawing.rectangles([x0], [y0], [x1], [y1])
        if d:
            (below if shape.get("layer") == "below" else above).append(drawing.path(d, **looks))
    return below, above


def _path_of(d: str, shape: Mapping, axes: Mapping[str, Axis], frame: Frame) -> str:
    """Return the path of a shape in pixels; it has absolute commands with points only."""
    commands, is_x = [], True
    for word in re.findall(r"[A-Za-z]|[^A-Za-z,\s]+", d):
        if word.isalpha():
            commands.append(word)
            continue
        letter, is_x = "x" if is_x else "y", not is_x
        at = _at(shape.get(f"{letter}ref"), float(word), axes, frame, letter, is_note=False)
        commands.append(drawing.number(at) + " ")
    return "".join(commands)


def _title(layout: Mapping[str, Any], frame: Frame) -> list[str]:
    """Return the title of a figure."""
    title = layout.get("title") or {}
    words = read_words(title.get("text"))
    if words.lengths == (0,):
        return []
    size, share = float(get(title, "font.size", 17)), float(title.get("x", 0.05))
    is_plot = title.get("xref") == "paper"
    left, right = (frame.left, frame.right) if is_plot else (0.0, frame.width)
    x = left + share * (right - left) + float(get(title, "pad.l", 0))
    anchor = title.get("xanchor") or "auto"
    anchor = _by_third(share) if anchor == "auto" else anchor
    anchor = {"left": "start", "right": "end"}.get(anchor, "middle")
    smaller = read_words(get(title, "subtitle.text"))
    small = float(get(title, "subtitle.font.size", 12))
    y = title.get("y")
    if isinstance(y, (int, float)):
        top = (1 - y) * frame.height + float(get(title, "pad.t", 0))
        top -= 0 if title.get("yanchor") == "top" else words.height(size) / 2
    else:
        top = frame.top / 2 - words.height(size) / 2
    return [
        write_words(x, top, words, size=size, anchor=anchor, across="top"),
        write_words(
            x, top + words.height(size), smaller, size=small, anchor=anchor, across="top",
            colour=get(title, "subtitle.font.color", ""),
        ),
    ]  # fmt: skip
