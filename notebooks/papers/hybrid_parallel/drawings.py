"""Pictures of the HYPERSONIC paper: panels of its figures and steps of the protocol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from cepkit.errors import require_columns
from cepkit.plots import theme
from cepkit.plots.charts import SweepPanel
from cepkit.plots.theme import escaped
from papers.hybrid_parallel.results import along, judged
from papers.hybrid_parallel.workloads import CHANGE, CORRELATION, SENSORS

if TYPE_CHECKING:
    import plotly.graph_objects as go


# --- panels: a row per stream, a panel per parameter ------------------------------------------------------

LETTERS = {CHANGE: "abc", CORRELATION: "abc", SENSORS: "def"}  # of figure 6; stocks have two conditions here
LETTERS_OF_TWO = {CHANGE: "ab", CORRELATION: "ab", SENSORS: "cd"}  # of figures 7 to 10
_X_TITLES = {"window_min": "window, min", "threads": "cores", "length": "components"}


def panels_of(
    rows: pd.DataFrame,
    value: str,
    xs: Sequence[str],
    *,
    streams: Sequence[str] = (CHANGE, CORRELATION, SENSORS),
    letters: Mapping[str, str] = LETTERS,
    **looks: object,
) -> list[SweepPanel]:
    """Return the panels of a figure with means over data sets, lettered as in the paper."""
    made: list[SweepPanel] = []
    for stream in streams:
        own = rows[rows["stream"] == stream].dropna(subset=[value])
        for x in xs:
            line = judged(along(own, x))
            line = (
                line.assign(system=line["system"].str.removeprefix("hybrid, ")) if "system" in line else line
            )
            title = f"{letters[stream][list(_X_TITLES).index(x)]}  {stream}"
            made.append(SweepPanel(line, x, value, title, x_title=_X_TITLES[x], spread=True, **looks))
    return made


# --- the steps of the protocol -----------------------------------------------------------------------------

LANE_PIXELS = 30
STRIDE = 4  # widths between two steps along x, more than any text needs
EDGE, HELD_EDGE = 1, 4  # pixels
WRONG = theme.PALETTE[4]
_STEP_COLUMNS = (
    *("step", "who", "what", "outcome", "agent", "kind", "place", "position", "item", "ticket", "in_hand"),
)
_COLOURS = {"event": theme.PALETTE[0], "partial": theme.PALETTE[1], "match": theme.PALETTE[2]}
_SHAPES = {"event": "square", "partial": "diamond-wide", "match": "hexagon"}
_LOWERED = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
_NAMES = {"event": "event", "partial": "partial match", "match": "match"}
_LOOKS = {
    form: {
        "mode": "markers+text",
        "marker": {"symbol": symbol, "size": 13, "color": _COLOURS[form] + theme.TINT_ALPHA},
        "textfont": {"size": 12, "color": theme.INK},
        "hovertemplate": "<b>%{text}</b> in %{y}<extra></extra>",
    }
    for form, symbol in _SHAPES.items()
} | {
    name: {"mode": mode, "marker": marker, "textfont": {"size": size, "color": colour}, "hoverinfo": "skip"}
    for name, mode, marker, size, colour in (
        ("removed", "markers+text", {"symbol": "x", "size": 12, "color": WRONG}, 13, WRONG),
        ("acts", "markers", {"symbol": "triangle-right", "size": 15, "color": theme.INK}, 12, theme.INK),
        ("watermark", "text", None, 12, theme.INK),
        ("said", "text", None, 14, theme.INK),
        ("outcome", "text", None, 13, WRONG),
    )
}


def protocol_figure(steps: pd.DataFrame, *, title: str | None = None, first: int = 0) -> go.Figure:
    """Draw a step of a protocol. Each frame of the figure is the range of x that shows another step."""
    from cepkit.plots.lean import LeanFigure

    require_columns("protocol_figure", _STEP_COLUMNS, steps.columns)
    lanes = _lanes(steps)
    numbers = list(dict.fromkeys(steps["step"]))
    by_step = dict(list(steps.groupby("step", sort=False)))
    width = max(3, int(steps["position"].max()) + 1) if len(steps) else 3
    made, outcomes, before = [], [], None
    for place, step in enumerate(numbers):
        now = by_step[step]
        outcomes += [now["outcome"].iloc[0]] if now["outcome"].iloc[0] else []
        made.append(_points(now, before, lanes, width, len(numbers) - 1, ", ".join(outcomes)))
        for points in made[-1].values():
            points["x"] += place * STRIDE * width
        before = now
    active = numbers.index(first) if first in numbers else 0
    strip = {name: pd.concat([points[name] for points in made], ignore_index=True) for name in _LOOKS if made}
    figure = LeanFigure(data=[*(_trace(name, points) for name, points in strip.items()), *_legend()])
    figure.frames = [
        {"name": str(step), "layout": {"xaxis": {"range": step_range(place, width)}}}
        for place, step in enumerate(numbers)
    ]
    _lay_out(figure, steps, lanes, width, numbers, active, title)
    return figure


def step_range(place: int, width: int) -> list[float]:
    """Return the range of x that shows a step; ``place`` is its number in drawing order, from 0."""
    return [round(place * STRIDE * width + edge, 1) for edge in (-0.8, width + 0.9)]


def _lanes(steps: pd.DataFrame) -> dict[str, int]:
    """Return the lane of each place, from the top; watermarks have no lane, but columns at the right."""
    places = steps.drop_duplicates("place")
    names = [row.place for row in places.itertuples() if not row.kind.endswith("watermark")]
    return {name: lane for lane, name in enumerate(names)}


def _points(
    now: pd.DataFrame, before: pd.DataFrame | None, lanes, width: int, last: int, outcome: str
) -> dict[str, pd.DataFrame]:
    """Return the points of a step, by look: ``x, y, text, edge``."""
    items = now[now["item"].notna() & ~now["kind"].str.endswith("watermark")]
    who, what, step = (now[name].iloc[0] for name in ("who", "what", "step"))
    form = _form(items)
    made = {name: _items(items[form == name], lanes) for name in _SHAPES}
    gone = _removed_items(now, before)
    acts = [lanes[who]] if who in lanes else []
    marks = now[now["kind"].str.endswith("watermark")]
    said = f"{escaped(who)} {escaped(what)}" if who else "before the first step"
    at_outcome = lanes.get("matches", len(lanes) - 1)
    return made | {
        "removed": _texts(gone["position"], [lanes[of] for of in gone["place"]], gone["item"]),
        "acts": _texts([-0.62] * len(acts), acts, [""] * len(acts)),
        "watermark": _texts(
            [width - 0.1] * len(marks), [lanes[of] for of in _queues_of(marks, now)], marks["item"]
        ),
        "said": _texts([-0.45], [-1.15], [f"{step} of {last}: {said}"], is_markup=True),
        "outcome": _texts([width - 0.1], [at_outcome], [outcome]),
    }


def _texts(x, y, texts, *, is_markup: bool = False) -> pd.DataFrame:
    """Return points with their texts, escaped unless they are markup."""
    shown = [words if is_markup else escaped(words) for words in texts]
    return pd.DataFrame({"x": np.asarray(x, float), "y": list(y), "text": pd.Series(shown, dtype=object)})


def _trace(look: str, points: pd.DataFrame) -> go.Scatter:
    """Return the points of one look in all steps as a plotly trace."""
    import plotly.graph_objects as go

    of_look = _LOOKS[look]
    if look in _SHAPES:
        edges = {"color": _COLOURS[look], "width": points["edge"].to_numpy(np.uint8)}
        of_look = of_look | {"marker": of_look["marker"] | {"line": edges}}
    if of_look["mode"] != "markers":
        of_look = of_look | {"text": points["text"].tolist(), "textposition": "middle right"}
    return go.Scatter(x=points["x"].to_numpy(), y=points["y"].to_numpy(float), showlegend=False, **of_look)


def _form(items: pd.DataFrame) -> pd.Series:
    """Return "event", "partial" or "match" for each item; the source holds events."""
    return items["kind"].map(
        lambda kind: "match" if kind == "matches" else "partial" if kind.startswith("partial") else "event"
    )


def _items(own: pd.DataFrame, lanes: dict[str, int]) -> pd.DataFrame:
    tickets = ["" if pd.isna(ticket) else f"{ticket}".translate(_LOWERED) for ticket in own["ticket"]]
    texts = [f"{escaped(item)}{ticket}" for item, ticket in zip(own["item"], tickets, strict=True)]
    points = _texts(own["position"], [lanes[place] for place in own["place"]], texts, is_markup=True)
    return points.assign(edge=np.where(own["in_hand"].to_numpy(bool), HELD_EDGE, EDGE))


def _legend() -> list[go.Scatter]:
    import plotly.graph_objects as go

    looks = [
        (_NAMES[form], {"symbol": _SHAPES[form], "color": colour + theme.TINT_ALPHA, "line": line})
        for form, colour in _COLOURS.items()
        for line in [{"color": colour, "width": EDGE}]
    ]
    looks.append(("in hand", {"symbol": "square-open", "color": theme.INK, "line": {"width": HELD_EDGE}}))
    looks.append(("removed", {"symbol": "x", "color": WRONG}))
    return [
        go.Scatter(x=[None], y=[None], mode="markers", marker={"size": 12, **marker}, name=name)
        for name, marker in looks
    ]


def _removed_items(now: pd.DataFrame, before: pd.DataFrame | None) -> pd.DataFrame:
    """Return the items that the step removed from buffers, at positions after the remaining items."""
    if before is None:
        return now.iloc[:0]
    held = before[before["item"].notna() & before["kind"].str.endswith("buffer")]
    still = set(zip(now["place"], now["ticket"].fillna(-1), strict=True))
    is_gone = [pair not in still for pair in zip(held["place"], held["ticket"].fillna(-1), strict=True)]
    gone = held[np.array(is_gone, bool)]
    n_left = now[now["item"].notna()].groupby("place").size().reindex(gone["place"], fill_value=0)
    return gone.assign(position=n_left.to_numpy() + gone.groupby("place").cumcount().to_numpy())


def _queues_of(marks: pd.DataFrame, now: pd.DataFrame) -> list[str]:
    queues = now[now["kind"].str.endswith("queue")].drop_duplicates("place")
    named = {(row.agent, row.kind): row.place for row in queues.itertuples()}
    return [named[row.agent, row.kind.replace("watermark", "queue")] for row in marks.itertuples()]


def _lay_out(figure, steps, lanes: dict[str, int], width: int, numbers: list, active: int, title) -> None:
    kinds = steps.drop_duplicates("place").set_index("place")["kind"]
    words = {"source": "source", "matches": "matches"}
    labels = [words.get(kinds[place], f"{escaped(place)} {kinds[place]}") for place in lanes]
    has_marks = steps["kind"].str.endswith("watermark").any()
    lines = [escaped(title)] if title else [""]
    top, bottom = 70, 20
    figure.update_layout(
        title=theme.title_at_left(lines),
        xaxis={"range": step_range(active, width), "visible": False, "fixedrange": True},
        yaxis={
            "range": [len(lanes) - 0.4, -1.8], "tickmode": "array", "tickvals": list(lanes.values()),
            "ticktext": labels, "automargin": True, "fixedrange": True, "showgrid": False,
            "zeroline": False, "ticks": "",
        },
        hovermode="closest",
        legend={"orientation": "h", "x": 0, "y": 1, "yanchor": "bottom", "itemclick": False},
        margin={"l": 60, "r": 20, "t": top, "b": bottom},
        **theme.layout(top + bottom + LANE_PIXELS * (len(lanes) + 2)),
    )  # fmt: skip
    for lane, kind in zip(lanes.values(), kinds[list(lanes)], strict=True):
        if kind in ("event queue", "partial queue", "matches"):
            edge = {"color": theme.GRID, "width": 0.7 if kind == "partial queue" else 2}
            figure.add_hline(y=lane - 0.5, line=edge, layer="below")
    if has_marks:
        figure.add_annotation(
            text="may still come: from", showarrow=False, y=-1.15,
            x=(width + 0.7) / (width + 1.7), xref="paper", xanchor="left",
            font={"size": 11, "color": theme.INK},
        )  # fmt: skip
    if not numbers:
        figure.add_annotation(text="no steps", showarrow=False, x=0.5, y=0.5, xref="paper", yref="paper")
