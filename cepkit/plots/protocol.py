"""The steps of a protocol as a figure to play: what is in every queue and buffer, and who does what."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from cepkit.errors import column_not_found
from cepkit.plots import theme
from cepkit.plots.text import escaped

if TYPE_CHECKING:
    import plotly.graph_objects as go

LANE_PIXELS = 30
STEP_MS = 1100
WRONG = theme.PALETTE[4]
_COLUMNS = (
    "step",
    "who",
    "what",
    "outcome",
    "agent",
    "kind",
    "place",
    "position",
    "item",
    "ticket",
    "in_hand",
)
_COLOURS = {"event": theme.PALETTE[0], "partial": theme.PALETTE[1], "match": theme.PALETTE[2]}
_SHAPES = {"event": "square", "partial": "diamond-wide", "match": "hexagon"}
_ARROW = {"symbol": "triangle-right", "size": 15, "color": theme.INK}
_SILENT = {"hoverinfo": "skip", "showlegend": False}
_NAMES = {"event": "event", "partial": "partial match", "match": "match"}


def protocol_figure(steps: pd.DataFrame, *, title: str | None = None, first: int = 0) -> go.Figure:
    """Draw the steps of a protocol, with a slider and a button to play them.

    Parameters
    ----------
    steps : pandas.DataFrame
        As `cepkit.experiments.hybrid_steps.protocol_steps` gives them: a row per step, place and item, with
        ``step, who, what, outcome, agent, kind, place, position, item, ticket, in_hand``.
    title : str, optional
        Taken literally.
    first : int
        The step that is shown at first.

    Returns
    -------
    plotly.graph_objects.Figure
        A frame per step. A lane per place: events are squares, partial matches diamonds, matches hexagons.
        What a worker holds has a thick edge, what the step removed is a cross; the arrow points at who acts.

    Raises
    ------
    ColumnNotFoundError
        When a column is missing.
    """
    import plotly.graph_objects as go

    for name in _COLUMNS:
        if name not in steps.columns:
            raise column_not_found("protocol_figure", name, steps.columns)
    lanes = _lanes(steps)
    numbers = list(dict.fromkeys(steps["step"]))
    by_step = dict(list(steps.groupby("step", sort=False)))
    width = max(3, int(steps["position"].max()) + 1) if len(steps) else 3
    frames, outcomes, before = [], [], None
    for number in numbers:
        now = by_step[number]
        outcomes += [now["outcome"].iloc[0]] if now["outcome"].iloc[0] else []
        traces = _traces(now, before, lanes, width, len(numbers) - 1, ", ".join(outcomes))
        frames.append(go.Frame(data=traces, name=str(number), traces=list(range(len(traces)))))
        before = now
    active = numbers.index(first) if first in numbers else 0
    shown = frames[active].data if frames else ()
    figure = go.Figure(data=(*shown, *_legend()), frames=frames, layout={"template": "none"})
    _lay_out(figure, steps, lanes, width, numbers, active, title)
    return figure


def _lanes(steps: pd.DataFrame) -> dict[str, int]:
    """Return the lane of each place from the top; those of watermarks are columns at the right."""
    places = steps.drop_duplicates("place")
    names = [row.place for row in places.itertuples() if not row.kind.endswith("watermark")]
    return {name: lane for lane, name in enumerate(names)}


def _traces(
    now: pd.DataFrame, before: pd.DataFrame | None, lanes, width: int, last: int, outcome: str
) -> list:
    """Return the traces of a step, the same number of each."""
    import plotly.graph_objects as go

    items = now[now["item"].notna() & ~now["kind"].str.endswith("watermark")]
    who, what, number = (now[name].iloc[0] for name in ("who", "what", "step"))
    made = [_items(items, form, lanes) for form in _SHAPES]
    gone = _removed(now, before)
    acts = [lanes[who]] if who in lanes else []
    marks = now[now["kind"].str.endswith("watermark")]
    said = f"{escaped(who)} {escaped(what)}" if who else "before the first step"
    wrong = {"size": 13, "color": WRONG}
    made += [
        _texts(gone["position"], [lanes[of] for of in gone["place"]], gone["item"], wrong, symbol="x"),
        go.Scatter(x=[-0.62] * len(acts), y=acts, mode="markers", marker=_ARROW, **_SILENT),
        _texts([width - 0.1] * len(marks), [lanes[of] for of in _queues_of(marks, now)], marks["item"]),
        _texts([-0.45], [-1.15], [f"{number} of {last}: {said}"], {"size": 14}),
        _texts([width - 0.1], [lanes.get("matches", len(lanes) - 1)], [outcome], wrong),
    ]
    return made


def _texts(x, y, texts, font: dict | None = None, symbol: str | None = None) -> go.Scatter:
    """Return texts to the right of points, which have a symbol or none."""
    import plotly.graph_objects as go

    return go.Scatter(
        x=list(x),
        y=list(y),
        text=[escaped(text) for text in texts],
        mode="markers+text" if symbol else "text",
        marker={"symbol": symbol, "size": 12, "color": WRONG} if symbol else None,
        textposition="middle right",
        textfont={"size": 12, "color": theme.INK} | (font or {}),
        **_SILENT,
    )


def _form(items: pd.DataFrame) -> pd.Series:
    """Return what each item is: in an event's place an event, as is what the source holds."""
    return items["kind"].map(
        lambda kind: "match" if kind == "matches" else "partial" if kind.startswith("partial") else "event"
    )


def _items(items: pd.DataFrame, form: str, lanes: dict[str, int]) -> go.Scatter:
    import plotly.graph_objects as go

    own = items[_form(items) == form]
    tickets = ["" if pd.isna(ticket) else f"<sub>{ticket}</sub>" for ticket in own["ticket"]]
    colour = _COLOURS[form]
    hints = [
        f"<b>{escaped(row.item)}</b> in {escaped(row.place)}"
        + ("" if pd.isna(row.ticket) else f", ticket {row.ticket}")
        + (", in hand" if row.in_hand else "")
        for row in own.itertuples()
    ]
    return go.Scatter(
        x=own["position"],
        y=[lanes[place] for place in own["place"]],
        mode="markers+text",
        text=[f"{escaped(item)}{ticket}" for item, ticket in zip(own["item"], tickets, strict=True)],
        textposition="middle right",
        textfont={"size": 12, "color": theme.INK},
        marker={
            "symbol": _SHAPES[form],
            "size": 13,
            "color": colour + theme.TINT_ALPHA,
            "line": {"color": colour, "width": [3.5 if held else 1.2 for held in own["in_hand"]]},
        },
        showlegend=False,
        hovertext=hints,
        hovertemplate="%{hovertext}<extra></extra>",
    )


def _legend() -> list[go.Scatter]:
    import plotly.graph_objects as go

    looks = [
        (_NAMES[form], {"symbol": _SHAPES[form], "color": colour + theme.TINT_ALPHA, "line": line})
        for form, colour in _COLOURS.items()
        for line in [{"color": colour, "width": 1.2}]
    ]
    looks.append(("in hand", {"symbol": "square-open", "color": theme.INK, "line": {"width": 3.5}}))
    looks.append(("removed", {"symbol": "x", "color": WRONG}))
    return [
        go.Scatter(x=[None], y=[None], mode="markers", marker={"size": 12, **marker}, name=name)
        for name, marker in looks
    ]


def _removed(now: pd.DataFrame, before: pd.DataFrame | None) -> pd.DataFrame:
    """Return the items that the step took out of buffers, behind those that are left."""
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
    top, bottom = 70, 118
    shown = {"mode": "immediate", "transition": {"duration": 0}, "frame": {"duration": 0, "redraw": False}}
    played = {
        "fromcurrent": True,
        "transition": {"duration": 0},
        "frame": {"duration": STEP_MS, "redraw": False},
    }
    controls = {"font": {"color": theme.INK}, "bgcolor": theme.GRID, "bordercolor": theme.INK}
    slider = {
        "active": active,
        "steps": [
            {"label": str(number), "method": "animate", "args": [[str(number)], shown]} for number in numbers
        ],
        "currentvalue": {"visible": False},
        "pad": {"t": 24},
        "x": 0.16,
        "len": 0.84,
        "tickcolor": theme.INK,
        **controls,
    }
    buttons = {
        "type": "buttons",
        "direction": "left",
        "showactive": False,
        "x": 0,
        "y": 0,
        "xanchor": "left",
        "yanchor": "top",
        "pad": {"t": 34},
        "buttons": [
            {"label": "play", "method": "animate", "args": [None, played]},
            {"label": "pause", "method": "animate", "args": [[None], shown]},
        ],
        **controls,
    }
    figure.update_layout(
        title=theme.title_at_left(lines),
        xaxis={"range": [-0.8, width + 0.9], "visible": False, "fixedrange": True},
        yaxis={
            "range": [len(lanes) - 0.4, -1.8],
            "tickmode": "array",
            "tickvals": list(lanes.values()),
            "ticktext": labels,
            "automargin": True,
            "fixedrange": True,
            "showgrid": False,
            "zeroline": False,
            "ticks": "",
        },
        hovermode="closest",
        legend={"orientation": "h", "x": 0, "y": 1, "yanchor": "bottom", "itemclick": False},
        sliders=[slider] if len(numbers) > 1 else [],
        updatemenus=[buttons] if len(numbers) > 1 else [],
        margin={"l": 60, "r": 20, "t": top, "b": bottom},
        **theme.layout(top + bottom + LANE_PIXELS * (len(lanes) + 2)),
    )
    for lane, kind in zip(lanes.values(), kinds[list(lanes)], strict=True):
        if kind in ("event queue", "partial queue", "matches"):
            edge = {"color": theme.GRID, "width": 0.7 if kind == "partial queue" else 2}
            figure.add_hline(y=lane - 0.5, line=edge, layer="below")
    if has_marks:
        figure.add_annotation(
            text="may still come: from", x=width - 0.1, y=-1.15, xanchor="left", showarrow=False,
            font={"size": 11, "color": theme.INK},
        )  # fmt: skip
    if not numbers:
        figure.add_annotation(text="no steps", showarrow=False, x=0.5, y=0.5, xref="paper", yref="paper")
