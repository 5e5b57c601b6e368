"""Compute and plot the work of threads over time, in a lane each, and their busy shares."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd

from cepkit.errors import CepError, require_columns, whole_number
from cepkit.parallel.trace import ACTIONS, IDLE, Trace, _time_until, clock_unit
from cepkit.plots import theme
from cepkit.plots.theme import cut, escaped

if TYPE_CHECKING:
    import plotly.graph_objects as go


LANE = 0.84  # height of a lane, as a share of the distance between two
SOURCE_LABEL = "source"
MOST_STATES_IN_HINT = 4

# Each kind of work has a pattern and an opacity of its background in the agent's colour.
_PATTERNS = {"source": ".", "events": "", "partials": "/", "removal": "x"}
_GROUND = {"source": 0.35, "events": 1.0, "partials": 0.4, "removal": 0.15}
ACTION_WORDS = {
    "source": "delivers events", "events": "takes events", "partials": "takes partial matches",
    "removal": "removes old items",
}  # fmt: skip


class ActionKind(NamedTuple):
    """An agent and a kind of work for it. ``agent`` is None for the source."""

    agent: str | None
    action: str


def action_lanes(
    actions: pd.DataFrame,
    *,
    n_threads: int | None = None,
    measured: bool | None = None,
    title: str | None = None,
) -> go.Figure:
    """Draw every action as a bar in the lane of its thread; gaps are idle time."""
    from cepkit.plots.lean import LeanFigure

    columns = ("thread", "agent", "action", "start", "end", "n_items", "compared", "sent")
    _check("action_lanes", actions, columns)
    makespan = float(actions["end"].max()) if len(actions) else 0.0
    unit, size = clock_unit(makespan)
    figure = LeanFigure()
    colours = _colours(actions["agent"])
    for kind, rows in _by_kind(actions):
        lengths = (rows["end"] - rows["start"]).to_numpy() / size
        figure.add_bar(
            orientation="h",
            base=rows["start"].to_numpy() / size,
            x=lengths,
            y=rows["thread"].to_numpy(),
            width=LANE,
            marker=_marker(kind, colours),
            legendgroup=_group(kind),
            showlegend=False,
            # For a bar with a base, plotly's value is the end, so the length is in customdata.
            customdata=np.column_stack([rows[["n_items", "compared", "sent"]], lengths]),
            hovertemplate=f"<b>{_label(kind)}</b><br>thread %{{y}}<br>from %{{base:.6~g}} {unit}, "
            f"for %{{customdata[3]:.4~g}} {unit}<br>%{{customdata[0]:,}} taken, "
            "%{customdata[1]:,} compared, %{customdata[2]:,} sent<extra></extra>",
        )
    main = _main_agents(actions.assign(time=actions["end"] - actions["start"]))
    lanes, lines = _lanes(actions["thread"], n_threads), run_title(title, measured)
    _lay_out(figure, lanes, main, unit, makespan / size, measured, lines, actions, colours)
    return figure


def state_lanes(
    states: pd.DataFrame,
    *,
    n_threads: int | None = None,
    measured: bool | None = None,
    title: str | None = None,
) -> go.Figure:
    """Draw the shares of actions in each bin of time, stacked in the thread's lane; gaps are idle."""
    from cepkit.plots.lean import LeanFigure

    _check("state_lanes", states, ("thread", "bin", "start", "end", "agent", "action", "share"))
    makespan = float(states["end"].max()) if len(states) else 0.0
    unit, size = clock_unit(makespan)
    figure = LeanFigure()
    work = states[states["action"] != IDLE]
    colours = _colours(states["agent"])
    below = work.groupby(["thread", "bin"], observed=True)["share"].cumsum() - work["share"]
    work = work.assign(
        low=work["thread"] + LANE / 2 - LANE * (below + work["share"]),
        high=work["thread"] + LANE / 2 - LANE * below,
    )
    for kind, rows in _by_kind(work):
        x, y = _outlines(rows.sort_values(["thread", "bin"]), size)
        marker = _marker(kind, colours)
        figure.add_scatter(
            x=x, y=y, mode="lines", line={"width": 0, "color": marker["color"], "shape": "hv"},
            fill="toself", fillcolor=marker["color"], fillpattern=marker["pattern"],
            legendgroup=_group(kind), showlegend=False, hoverinfo="skip",
        )  # fmt: skip
    if len(states):
        figure.add_traces(_hints(states, unit, size))
    working = set(work["thread"])  # a source without work needs no lane
    lanes = [lane for lane in _lanes(states["thread"], n_threads) if lane >= 0 or lane in working]
    main = _main_agents(work.assign(time=work["share"]))
    n_bins = states["bin"].nunique()
    lines = run_title(title, measured, f"height: part of the time, in {n_bins:,} bins" if n_bins else "")
    _lay_out(figure, lanes, main, unit, makespan / size, measured, lines, work, colours)
    return figure


def busy_bars(threads: pd.DataFrame, *, measured: bool | None = None, title: str | None = None) -> go.Figure:
    """Draw the busy share of each thread as a bar, in the colour of the agent that took most of its time."""
    from cepkit.plots.lean import LeanFigure

    _check("busy_bars", threads, ("thread", "agent", "role", "busy", "share", "items"))
    figure = LeanFigure()
    colours = _colours(threads["agent"])
    unit, size = clock_unit(float(threads["busy"].max()) if len(threads) else 0.0)
    renamed = threads.rename(columns={"role": "action"})
    for kind, rows in _by_kind(renamed):
        figure.add_bar(
            orientation="h",
            x=100 * rows["share"].to_numpy(),
            y=rows["thread"].to_numpy(),
            width=LANE,
            marker=_marker(kind, colours),
            legendgroup=_group(kind),
            showlegend=False,
            text=[f"{100 * share:.0f} %" for share in rows["share"]],
            textposition="outside",
            textfont={"size": 11},
            cliponaxis=False,
            customdata=np.stack([rows["busy"].to_numpy() / size, rows["items"].to_numpy(np.float64)], axis=1),
            hovertemplate=f"<b>thread %{{y}}</b>, mostly {_label(kind)}<br>busy %{{x:.1f}} %, "
            f"%{{customdata[0]:.4~g}} {unit}<br>%{{customdata[1]:,}} taken<extra></extra>",
        )
    main = dict(zip(threads["thread"], threads["agent"].astype(object), strict=True))
    lanes, lines = _lanes(threads["thread"], None), run_title(title, measured)
    _lay_out(figure, lanes, main, "", 100.0, measured, lines, renamed, colours)
    workers = threads.loc[threads["thread"] >= 0, "share"]
    mean = 100 * float(workers.mean()) if len(workers) else 0.0
    figure.add_vline(x=mean, line={"color": theme.INK, "dash": "dash", "width": 1})
    axis = {"text": f"busy (% of the time; mean of the threads {mean:.0f} %, dashed)"}
    figure.update_xaxes(title=axis, range=[0, 110], tickvals=[0, 20, 40, 60, 80, 100])
    return figure


def clock_title(what: str, unit: str, measured: bool | None) -> str:
    """Return the title of a time axis."""
    return f"{'virtual ' if measured is False else ''}{what}{f' ({unit})' if unit else ''}"


def run_title(title: str | None, measured: bool | None, note: str = "") -> list[str]:
    """Return the lines of a figure's title; the last line has "measured" or "simulated", and the note."""
    clock = {None: "", True: "measured", False: "simulated"}[measured]
    lines = [", ".join(part for part in (clock, note) if part)]
    return [escaped(title), *(line for line in lines if line)] if title else lines


# --- parts


def _check(who: str, frame: pd.DataFrame, names: Sequence[str]) -> None:
    require_columns(who, names, frame.columns)
    role = "role" if "role" in names else "action"
    unknown = [action for action in frame[role].dropna().unique() if action not in (*ACTIONS, IDLE)]
    if unknown:
        raise CepError(f"{who}: {role} {unknown[0]!r} is not known. There are {list(ACTIONS)}")


def _by_kind(rows: pd.DataFrame) -> list[tuple[ActionKind, pd.DataFrame]]:
    """Return the rows of each agent and action, ordered by agents, then by ACTIONS."""
    agents, actions = rows["agent"].astype(object), rows["action"].astype(object)
    kinds = []
    for agent in [None, *agents_in(rows["agent"])]:
        is_of_agent = agents.isna() if agent is None else agents == agent
        for action in ACTIONS:
            work = rows[is_of_agent & (actions == action)]
            if len(work):
                kinds.append((ActionKind(agent, action), work))
    return kinds


def agents_in(column: pd.Series) -> list[str]:
    """Return the agents of a column, in the order of its categories or of appearance."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        return list(column.cat.categories)
    return list(dict.fromkeys(column.dropna()))


def _colours(column: pd.Series) -> dict[str | None, str]:
    agents = enumerate(agents_in(column))
    return {None: theme.INK} | {agent: theme.PALETTE[a % len(theme.PALETTE)] for a, agent in agents}


def _marker(kind: ActionKind, colours: dict[str | None, str]) -> dict:
    """Return the colour and pattern of a kind of work."""
    colour = colours[kind.agent]
    if not _PATTERNS[kind.action]:
        return {"color": colour, "line": {"width": 0}, "pattern": {"shape": ""}}
    red, green, blue = (int(colour[c : c + 2], 16) for c in (1, 3, 5))
    ground = f"rgba({red},{green},{blue},{_GROUND[kind.action]})"
    pattern = {"shape": _PATTERNS[kind.action], "fgcolor": colour, "bgcolor": ground}
    pattern |= {"size": 5, "solidity": 0.4}
    return {"color": colour, "line": {"width": 0}, "pattern": pattern}


def _group(kind: ActionKind) -> str:
    return SOURCE_LABEL if kind.agent is None else f"agent {kind.agent}"


def _label(kind: ActionKind) -> str:
    who = SOURCE_LABEL if kind.agent is None else escaped(cut(kind.agent))
    return f"{who}, {ACTION_WORDS[kind.action]}"


def _lanes(threads: pd.Series, n_threads: int | None) -> list[int]:
    lanes = sorted(set(threads.tolist()))
    if n_threads is None:
        return lanes
    return [*(lane for lane in lanes if lane < 0), *range(n_threads)]


def _main_agents(rows: pd.DataFrame) -> dict[int, object]:
    """Return the agent that took most time of each thread; ``rows`` need a column ``time``."""
    work = rows[rows["agent"].notna()]
    spent = work.groupby(["thread", "agent"], observed=True)["time"].sum()
    if spent.empty:
        return {}
    return {thread: agent for thread, agent in spent.groupby("thread").idxmax()}


def _outlines(rows: pd.DataFrame, size: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the closed outlines of runs of neighbouring bins, separated by NaN.

    Lines go along x first, then along y: to the right at the bottom, and back at the top.

    """
    thread, number = rows["thread"].to_numpy(), rows["bin"].to_numpy()
    start, end = rows["start"].to_numpy() / size, rows["end"].to_numpy() / size
    low, high = rows["low"].to_numpy(), rows["high"].to_numpy()
    breaks = np.flatnonzero((np.diff(thread) != 0) | (np.diff(number) != 1)) + 1
    x, y = [], []
    for run in np.split(np.arange(len(rows)), breaks):
        left, right = start[run], end[run]
        below, above = _corners(low[run]), _corners(high[run][::-1])
        x += [left[below], right[-1:], right[::-1][above], left[:1], left[:1], [np.nan]]
        y += [low[run][below], low[run][-1:], high[run][::-1][above], high[run][:1], low[run][:1], [np.nan]]
    return np.concatenate(x).astype(np.float32), np.concatenate(y).astype(np.float32)


def _corners(heights: np.ndarray) -> np.ndarray:
    """Return the first of each run of equal heights."""
    return np.flatnonzero(np.append(True, heights[1:] != heights[:-1]))


def _hints(states: pd.DataFrame, unit: str, size: float) -> list[go.Heatmap]:
    """Return hover texts for each bin on invisible cells, one heatmap per thread."""
    import plotly.graph_objects as go

    if not len(states):
        return []
    bins = states.drop_duplicates("bin").sort_values("bin")
    edges = np.append(bins["start"].to_numpy(), bins["end"].to_numpy()[-1:]) / size
    agents = states["agent"].astype(object).where(states["agent"].notna(), None)
    words = [
        IDLE if action == IDLE else _label(ActionKind(agent, action))
        for agent, action in zip(agents, states["action"].astype(object), strict=True)
    ]
    lines = pd.DataFrame(
        {"thread": states["thread"], "bin": states["bin"], "share": states["share"], "word": words}
    )
    heatmaps = []
    for thread, rows in lines.groupby("thread"):
        shares = rows.pivot_table(index="bin", columns="word", values="share", aggfunc="sum", fill_value=0.0)
        shares = shares.reindex(bins["bin"], fill_value=0.0)
        shown = shares.sum().sort_values(ascending=False, kind="stable").index[:MOST_STATES_IN_HINT]
        text = "".join(f"<br>%{{customdata[{k}]}} % {word}" for k, word in enumerate(shown))
        heatmaps.append(
            go.Heatmap(
                x0=float(edges[:2].mean()),  # middle of the first bin; bins have equal lengths
                dx=float(edges[-1] / (len(edges) - 1)),
                y=[thread],
                z=np.zeros((1, len(bins)), np.uint8),
                customdata=np.rint(100 * shares[shown].to_numpy()).astype(np.uint8)[None],
                colorscale=[[0, "rgba(0,0,0,0)"], [1, "rgba(0,0,0,0)"]],
                showscale=False,
                hovertemplate=f"<b>thread %{{y}}</b>, about %{{x:.4~g}} {unit}{text}<extra></extra>",
            )
        )
    return heatmaps


def _lay_out(figure, lanes, main, unit: str, length: float, measured, lines, work, colours) -> None:
    """Set axes, legend, title and size; ``main``: agent of each lane, ``length``: end of the time axis."""
    _add_legend(figure, work, colours)
    agents = ["" if pd.isna(main.get(row)) else f" · {escaped(cut(main[row]))}" for row in lanes]
    ticks = [SOURCE_LABEL if row < 0 else f"{row}{agent}" for row, agent in zip(lanes, agents, strict=True)]
    lane_pixels = max(9, min(24, 480 // max(1, len(lanes))))
    top, bottom = 30 + 18 * len(lines), 60
    line = {"gridcolor": theme.GRID, "linecolor": theme.GRID, "zeroline": False, "ticks": ""}
    bounds = [min(lanes, default=0) - 0.5, max(lanes, default=0) + 0.5]
    figure.update_layout(
        title=theme.title_at_left(lines),
        xaxis={
            "title": {"text": clock_title("time since the start of the run", unit, measured)},
            "range": [0, length or 1.0], **line,
        },
        yaxis={
            "title": {"text": "thread"}, "range": bounds[::-1], "tickmode": "array", "tickvals": lanes,
            "ticktext": ticks, "tickfont": {"size": 11 if lane_pixels >= 13 else 8}, "automargin": True,
            **line, "showgrid": False,
        },
        barmode="overlay", hovermode="closest", legend={"tracegroupgap": 4, "itemsizing": "constant"},
        margin={"l": 60, "r": 20, "t": top, "b": bottom},
        **theme.layout(top + bottom + max(lane_pixels * len(lanes), 150)),
    )  # fmt: skip
    if not len(work):
        figure.add_annotation(
            text="no thread did anything", showarrow=False, x=0.5, y=0.5, xref="paper", yref="paper"
        )


def _add_legend(figure: go.Figure, work: pd.DataFrame, colours: dict[str | None, str]) -> None:
    """Add an entry per agent, which shows or hides its bars, and one per kind of work."""
    kinds = [kind for kind, _ in _by_kind(work)]
    for agent in dict.fromkeys(kind.agent for kind in kinds if kind.agent is not None):
        marker = {"color": colours[agent], "line": {"width": 0}}
        group = {"legendgroup": _group(ActionKind(agent, "events")), "legendgrouptitle": None}
        figure.add_bar(x=[None], y=[None], marker=marker, name=escaped(cut(agent)), **group)
    for action in [action for action in ACTIONS if any(kind.action == action for kind in kinds)]:
        marker = _marker(ActionKind(None, action), colours)
        figure.add_bar(x=[None], y=[None], marker=marker, name=ACTION_WORDS[action], legendgroup="work")


# Compute rectangles for the work of threads in a part of a run: one per action, or in bins.

MOST_ACTIONS = 3000  # return more actions in bins
MOST_SEGMENTS = 25_000  # most segments in bins
BINS, FEWEST_BINS = 240, 10
_DUST = 1e-9  # rounding error of a share of a bin


class Segments(NamedTuple):
    """Rectangles of work; the lane of a thread is its index in ``threads``.

    Rows are sorted by lane, then by ``start``. A segment fills the height of its lane from ``low`` to
    ``high``, with 0 at the bottom. A single action fills the whole height, and in a bin the height is the
    share of the time.

    """

    threads: np.ndarray  # int64, (n_lanes,)
    lane: np.ndarray  # int32, (n_segments,)
    agent: np.ndarray  # int32, (n_segments,): index into the trace's agents; -1: the source
    action: np.ndarray  # int32, (n_segments,): index into ACTIONS
    start: np.ndarray  # float64, (n_segments,): ns since the start of the run
    end: np.ndarray  # float64, (n_segments,)
    low: np.ndarray  # float32, (n_segments,)
    high: np.ndarray  # float32, (n_segments,)
    items: np.ndarray  # float64, (n_segments,): taken by the action; NaN in bins
    n_bins: int  # 0: every segment is one action

    @property
    def busy(self) -> float:
        """Time in all segments, in ns; actions at the ends of the part count in full."""
        return float(((self.end - self.start) * (self.high.astype(float) - self.low)).sum())


def thread_segments(
    trace: Trace,
    begin: float = 0.0,
    until: float | None = None,
    *,
    most: int = MOST_ACTIONS,
    n_bins: int = BINS,
) -> Segments:
    """Return the work of every thread from ``begin`` to ``until``."""
    whole_number("thread_segments: n_bins", n_bins, 1)
    until = trace.makespan if until is None else until
    done, threads = trace.done, trace.threads()["thread"].to_numpy()
    rows = np.flatnonzero((done.end > begin) & (done.start < until))
    lane = np.searchsorted(threads, done.thread[rows])
    order = np.lexsort((done.end[rows], done.start[rows], lane))
    rows, lane = rows[order], lane[order]
    kind = (done.agent[rows] + 1) * len(ACTIONS) + done.action[rows]
    start, end = done.start[rows], done.end[rows]
    if len(rows) <= most:
        n = len(rows)
        items = done.n_items[rows].astype(np.float64)
        return _segments(threads, lane, kind, start, end, np.zeros(n), np.ones(n), items, 0)
    rows_of_lane = np.split(np.arange(len(lane)), np.searchsorted(lane, np.arange(1, len(threads))))
    groups = [
        (t, code, members[kind[members] == code])
        for t, members in enumerate(rows_of_lane)
        for code in np.unique(kind[members])
    ]
    while True:
        edges = np.linspace(begin, until, n_bins + 1)
        spent = [np.diff(_time_until(edges, start[members], end[members])) for _, _, members in groups]
        share = np.array(spent) * (n_bins / (until - begin))
        group, number = np.nonzero(share > _DUST)
        if len(group) <= MOST_SEGMENTS or n_bins <= FEWEST_BINS:
            break
        n_bins = max(FEWEST_BINS, min(n_bins - 1, n_bins * MOST_SEGMENTS // len(group)))
    lane_of_group = np.array([t for t, _, _ in groups])
    kind_of_group = np.array([code for _, code, _ in groups])
    order = np.lexsort((group, number, lane_of_group[group]))
    group, number = group[order], number[order]
    lane, high = lane_of_group[group], np.minimum(share[group, number], 1.0)
    # Stack the segments within a lane and bin.
    is_first = np.ones(len(group), bool)
    is_first[1:] = (np.diff(lane) != 0) | (np.diff(number) != 0)
    total = np.cumsum(high)
    base = (total - high)[is_first]
    top = total - np.repeat(base, np.diff(np.append(np.flatnonzero(is_first), len(group))))
    items = np.full(len(group), np.nan)
    return _segments(
        threads, lane, kind_of_group[group], edges[number], edges[number + 1], top - high, top, items, n_bins
    )


def _segments(threads, lane, kind, start, end, low, high, items, n_bins: int) -> Segments:
    narrow = (np.asarray(part, np.int32) for part in (lane, kind // len(ACTIONS) - 1, kind % len(ACTIONS)))
    low, high = (np.asarray(np.clip(part, 0.0, 1.0), np.float32) for part in (low, high))
    return Segments(threads, *narrow, start, end, low, high, items, n_bins)


def agent_marks(
    segments: Segments, begin: float, until: float, n_blocks: int = 36
) -> list[tuple[int, float, int]]:
    """Return the places of the agents' marks in the lanes, which make lanes readable without colours.

    The part from ``begin`` to ``until`` is divided into blocks. A block can have a mark in its middle if one
    agent took at least a quarter of the block and half of the work in it. A mark is placed where the agent
    changes, and in every fifth block of the same agent.
    """
    if not until > begin or not len(segments.lane):
        return []
    size = (until - begin) / n_blocks
    start, end = (np.clip((time - begin) / size, 0.0, n_blocks) for time in (segments.start, segments.end))
    first = np.minimum(start.astype(np.int64), n_blocks - 1)
    last = np.maximum(np.minimum(np.ceil(end).astype(np.int64) - 1, n_blocks - 1), first)
    times = last - first + 1
    row = np.repeat(np.arange(len(start)), times)
    block = np.arange(len(row)) - np.repeat(np.cumsum(times) - times, times) + first[row]
    part = np.minimum(end[row], block + 1) - np.maximum(start[row], block)
    n_agents = int(segments.agent.max()) + 2
    spent = np.zeros((len(segments.threads), n_blocks, n_agents))
    share = (segments.high - segments.low)[row] * np.maximum(part, 0.0)
    np.add.at(spent, (segments.lane[row], block, segments.agent[row] + 1), share)
    agent, most = spent.argmax(axis=2) - 1, spent.max(axis=2)
    marks = []
    for lane in range(len(segments.threads)):
        before, at = -1, -n_blocks
        for b in range(n_blocks):
            busiest = int(agent[lane, b])
            is_clear = most[lane, b] >= max(0.25, 0.5 * spent[lane, b].sum())
            if busiest >= 0 and is_clear and (busiest != before or b - at >= 5):
                marks.append((lane, begin + (b + 0.5) * size, busiest))
                before, at = busiest, b
    return marks
