"""Pictures of parallel runs: what threads did over time, where they worked, and how long buffers were."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from cepkit.errors import CepError, require_columns, whole_number
from cepkit.parallel.model import (
    AgentRates,
    agent_loads,
    event_buffer_sizes,
    match_buffer_sizes,
    thread_shares,
)
from cepkit.parallel.trace import ACTIONS, LENGTHS, Trace, _time_until, clock_unit
from cepkit.plots.scene import (
    DASHES,
    LANE,
    Item,
    Look,
    PlotAxis,
    PlotPanel,
    PlotScene,
    lane_height,
    lanes,
    lines,
    look_of,
    span,
)

# Compute and draw the work of threads over time, in a lane each, and their busy shares.

SOURCE_LABEL = "source"
PATTERNS = {"source": ".", "events": "", "partials": "/", "removal": "x"}
ACTION_WORDS = {
    "source": "delivers events", "events": "takes events", "partials": "takes partial matches",
    "removal": "removes old items",
}  # fmt: skip
_DIM = 0.14


def threads_scene(
    trace: Trace, part: Sequence[float] = (), *, title: str = "", alone: str | None = None,
    most: int = 3000, n_bins: int = 120, most_segments: int = 12_000, header: Sequence[str] = (),
    table: Sequence[dict] = (),
) -> PlotScene:  # fmt: skip
    """Return the work of each thread in a part of a run: single actions, or shares of bins."""
    part = part or (0.0, trace.makespan)
    segments = thread_segments(trace, *part, most=most, n_bins=n_bins, most_segments=most_segments)
    unit, size = clock_unit(trace.makespan)
    threads = trace.threads()
    shown = [k for k, thread in enumerate(segments.threads) if thread >= 0 or (segments.lane == k).any()]
    lane_of = np.full(len(segments.threads), -1.0)
    lane_of[shown] = np.arange(len(shown))
    names = [SOURCE_LABEL if thread < 0 else str(thread) for thread in segments.threads.tolist()]
    items = []
    for a, agent in enumerate([None, *trace.agents], -1):
        for k, action in enumerate(ACTIONS):
            members = np.flatnonzero((segments.agent == a) & (segments.action == k))
            if not len(members):
                continue
            kind = f"{SOURCE_LABEL if agent is None else agent}, {ACTION_WORDS[action]}"
            bottom = lane_of[segments.lane[members]] + LANE / 2
            low, high = (np.asarray(segments[c], float)[members] for c in (6, 7))
            start, end = segments.start[members], segments.end[members]
            amount = 100 * (high - low) if segments.n_bins else segments.items[members]
            items.append(
                Item(
                    kind="bars", look=Look(kind, a % 7 if a >= 0 else -1, pattern=PATTERNS[action]),
                    x=start, x1=end, y=bottom - LANE * low, y1=bottom - LANE * high,
                    opacity=1.0 if alone in (None, agent) else _DIM,
                    words="thread {thread}: {kind}, from {start} {unit} for {length} {unit}, "
                    + ("{amount} % of this bin" if segments.n_bins else "{amount} taken"),
                    fields={
                        "thread": [names[lane] for lane in segments.lane[members].tolist()],
                        "kind": kind, "unit": unit, "amount": amount,
                        "start": start / size, "length": (end - start) / size,
                    },
                    pick=lambda i, segments=segments, members=members, agent=agent, action=action: {
                        "thread": int(segments.threads[segments.lane[members[i]]]), "agent": agent,
                        "action": action, "start": float(segments.start[members[i]]),
                        "end": float(segments.end[members[i]]),
                    },
                )
            )  # fmt: skip
    marks = agent_marks(segments, *part)
    letters = marks_of(list(trace.agents))
    items.append(
        Item(
            kind="texts", look=Look(), x=np.array([time for _, time, _ in marks], float),
            y=np.array([lane_of[lane] for lane, _, _ in marks], float),
            texts=[letters[a] for _, _, a in marks],
        )
    )  # fmt: skip
    rows = [row for k, row in enumerate(threads.itertuples()) if k in shown]
    kinds = [action for k, action in enumerate(ACTIONS) if (segments.action == k).any()]
    present = [agent for a, agent in enumerate(trace.agents) if (segments.agent == a).any()]
    bins = f", height: part of the time, in {segments.n_bins:,} bins" if segments.n_bins else ""
    return PlotScene(
        title=title, note=("measured" if trace.measured else "simulated") + bins,
        panels=(
            PlotPanel(
                x=lines(clock_title("time since the start of the run", unit, trace.measured), part, size),
                y=lanes([_lane(row) for row in rows]), height=lane_height(len(rows)), items=tuple(items),
                hints=tuple(_hint(row) for row in rows),
            ),
        ),
        hint="Drag to look closer, double-click to see all. Point at a segment or press arrow keys.",
        about=f"{len(rows)} threads over time", empty="" if len(segments.lane) else "no thread did anything",
        legend=(
            *(("bars", Look(agent, trace.agents.index(agent) % 7)) for agent in present),
            *(("bars", Look(ACTION_WORDS[action], pattern=PATTERNS[action])) for action in kinds),
        ),
        header=tuple(header), table=tuple(table),
    )  # fmt: skip


def busy_scene(trace: Trace, *, title: str = "") -> PlotScene:
    """Return the busy share of each thread as a bar, in the colour of its main agent."""
    threads = trace.threads()
    threads = threads[(threads["thread"] >= 0) | (threads["busy"] > 0)]
    items = []
    for lane, row in enumerate(threads.itertuples()):
        place = trace.agents.index(row.agent) % 7 if not pd.isna(row.agent) else -1
        pattern = PATTERNS.get(row.role, "")
        items.append(
            Item(
                kind="bars", look=Look("" if place < 0 else str(row.agent), place, pattern=pattern),
                x=np.zeros(1), x1=np.array([100.0 * row.share]), y=np.array([lane + LANE / 2]),
                y1=np.array([lane - LANE / 2]), words="{hint}, {n} taken",
                fields={"hint": _hint(row), "n": np.array([float(row.items)])},
            )
        )  # fmt: skip
    workers = threads.loc[threads["thread"] >= 0, "share"]
    mean = 100 * float(workers.mean()) if len(workers) else 0.0
    ends = np.array([len(threads) - 0.5, -0.5])
    items.append(Item(kind="line", look=Look(dash="dash"), x=np.array([mean, mean]), y=ends, width=1.0))
    return PlotScene(
        title=title, note="measured" if trace.measured else "simulated",
        panels=(
            PlotPanel(
                x=PlotAxis(0.0, 110.0, f"busy (% of the time; mean of the threads {mean:.0f} %, dashed)"),
                y=lanes([_lane(row) for row in threads.itertuples()]), items=tuple(items),
                height=lane_height(len(threads)),
                notes=tuple(f"{100 * share:.0f} %" for share in threads["share"]),
            ),
        ),
        legend=tuple(("bars", Look(agent, a % 7)) for a, agent in enumerate(trace.agents)),
    )  # fmt: skip


def _lane(row) -> str:
    name = SOURCE_LABEL if row.thread < 0 else str(row.thread)
    return name if pd.isna(row.agent) else f"{name} · {row.agent}"


def _hint(row) -> str:
    name = SOURCE_LABEL if row.thread < 0 else row.thread
    mostly = "" if pd.isna(row.agent) else f", mostly agent {row.agent}, {ACTION_WORDS[row.role]}"
    return f"thread {name}: busy {100 * row.share:.0f} %{mostly}"


def clock_title(what: str, unit: str, measured: bool | None) -> str:
    return f"{'virtual ' if measured is False else ''}{what}{f' ({unit})' if unit else ''}"


def marks_of(names: list[str]) -> list[str]:
    """Return a short, unique mark for each name, for places without room for names."""
    short = [name[:2] for name in names]
    return short if len(set(short)) == len(short) else [str(n) for n in range(1, len(names) + 1)]


# Compute rectangles for the work of threads in a part of a run: one per action, or in bins.

MOST_ACTIONS = 3000  # return more actions in bins
MOST_SEGMENTS = 25_000  # most segments in bins
BINS, FEWEST_BINS = 240, 10
_DUST = 1e-9  # rounding error of a share of a bin


class Segments(NamedTuple):
    """Rectangles of work; the lane of a thread is its index in ``threads``."""

    # Rows are sorted by lane, then by ``start``. A segment fills the height of its lane from ``low`` to
    # ``high``, with 0 at the bottom. A single action fills the whole height, and in a bin the height is the
    # share of the time.

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
    trace: Trace, begin: float = 0.0, until: float | None = None, *, most: int = MOST_ACTIONS,
    n_bins: int = BINS, most_segments: int = MOST_SEGMENTS,
) -> Segments:  # fmt: skip
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
        if len(group) <= most_segments or n_bins <= FEWEST_BINS:
            break
        n_bins = max(FEWEST_BINS, min(n_bins - 1, n_bins * most_segments // len(group)))
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
    """Return the places of the agents' marks in the lanes, which make lanes readable without colours."""
    # The part from ``begin`` to ``until`` is divided into blocks. A block can have a mark in its middle if
    # one agent took at least a quarter of the block and half of the work in it. A mark is placed where the
    # agent changes, and in every fifth block of the same agent.
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


# Compare the threads that worked for each agent with the allocation of the cost model.

COLUMNS = ("agent", "modelled", "busy", "home")
THREAD_WORDS = {"modelled": "by the cost model", "busy": "busy, on average", "home": "mostly for it"}
_PATTERNS = {"modelled": "/", "busy": "", "home": "."}
_PIXELS = 62


def allocation_frame(trace: Trace, rates: Sequence[AgentRates] | None = None) -> pd.DataFrame:
    """Return how many threads worked for each agent, and the allocation of the cost model."""
    # Source: HYPERSONIC, section IV: T_i = T load_i / sum_j load_j.
    agents = trace.agents_frame()
    threads = trace.threads()
    agent_of_thread = threads.loc[threads["thread"] >= 0, "agent"].astype(object)
    modelled = np.full(len(agents), np.nan)
    if rates is not None:
        check_rates(trace, rates)
        half = trace.n_threads / max(1, len(agents)) / 2
        loads = [
            load
            for branch in rates
            if branch.agents
            for load in agent_loads(branch, [half] * len(branch.agents), [half] * len(branch.agents))
        ]
        modelled = np.array(thread_shares(loads, trace.n_threads), np.float64)
    return pd.DataFrame(
        {
            "agent": list(trace.agents),
            "modelled": modelled,
            "busy": agents["busy"].to_numpy() / trace.makespan if trace.makespan else 0.0,
            "home": [int((agent_of_thread == agent).sum()) for agent in trace.agents],
        }
    )


def buffer_models(trace: Trace, rates: Sequence[AgentRates]) -> pd.DataFrame:
    """Return the lengths of buffers that the models expect, for `lengths_scene`."""
    # The models assume that events stay for a window. Removal by watermarks keeps fewer items. A source that
    # is faster than the agents fills queues and buffers with more.
    # Source: HYPERSONIC, section IV-A; partial matches by the simplex model.
    check_rates(trace, rates)
    sizes = {
        ("e·W", "event_buffer"): [n for branch in rates for n in event_buffer_sizes(branch)],
        ("m·W/(i−1)", "partial_buffer"): [n for branch in rates for n in match_buffer_sizes(branch)],
    }
    rows = [
        (model, length, agent, float(value))
        for (model, length), values in sizes.items()
        for agent, value in zip(trace.agents, values, strict=True)
    ]
    frame = pd.DataFrame(rows, columns=["model", "length", "agent", "value"])
    return frame[np.isfinite(frame["value"])].reset_index(drop=True)


def check_rates(trace: Trace, rates: Sequence[AgentRates]) -> None:
    """Raise CepError unless every agent of a trace has rates."""
    n = sum(len(branch.agents) for branch in rates)
    if n != len(trace.agents):
        raise CepError(f"rates of {n} agents. The run has {len(trace.agents)}: {list(trace.agents)}")


def allocation_scene(allocation: pd.DataFrame, *, title: str = "") -> PlotScene:
    """Return bars for the threads of each agent: by the model, busy on average, and working mostly for it."""
    require_columns("allocation_scene", COLUMNS, allocation.columns)
    names = [name for name in COLUMNS[1:] if allocation[name].notna().any()]
    height = LANE / max(len(names), 1)
    items = []
    for a, agent in enumerate(allocation["agent"]):
        for k, name in enumerate(names):
            value, top = float(allocation[name].iloc[a]), a - LANE / 2 + k * height
            items.append(
                Item(
                    kind="bars", look=Look(str(agent), a % 7, pattern=_PATTERNS[name]), x=np.zeros(1),
                    x1=np.array([value]), y=np.array([top + 0.94 * height]), y1=np.array([top]),
                    words="{agent}: {n} threads {how}",
                    fields={"agent": str(agent), "n": np.array([value]), "how": THREAD_WORDS[name]},
                )
            )  # fmt: skip
    low, high = span(allocation[names].to_numpy(float).ravel())
    panel = PlotPanel(
        x=PlotAxis(low, high, "threads"), y=lanes(list(map(str, allocation["agent"]))), items=tuple(items),
        height=max(100, _PIXELS * len(allocation)),
    )  # fmt: skip
    return PlotScene(
        title=title, panels=(panel,), empty="no agents" if allocation.empty else "",
        legend=tuple(("bars", Look(THREAD_WORDS[name], pattern=_PATTERNS[name])) for name in names),
    )  # fmt: skip


# Compute and draw the lengths of the agents' queues and buffers over time.

# Compute the lengths of queues and buffers in a part of a run, in bins of equal length.

BINS_OF_LENGTHS = 240


class Occupancy(NamedTuple):
    """Lengths by kind (index into LENGTHS), agent and bin; 0 before an agent's first reading."""

    edges: np.ndarray  # float64, (n_bins + 1,): ns since the start of the run
    mean: np.ndarray  # float64, (4, n_agents, n_bins): mean over the time of the bin
    least: np.ndarray  # int64, (4, n_agents, n_bins): least length during the bin or read in it
    greatest: np.ndarray  # int64, (4, n_agents, n_bins)


def occupancy(
    trace: Trace, begin: float = 0.0, until: float | None = None, n_bins: int = BINS_OF_LENGTHS
) -> Occupancy:
    """Return the lengths of all queues and buffers from ``begin`` to ``until``, in bins."""
    whole_number("occupancy: n_bins", n_bins, 1)
    read, n = trace.lengths_read, len(trace.agents)
    until = run_end(trace) if until is None else until
    edges = np.linspace(begin, until, n_bins + 1)
    mean = np.zeros((len(LENGTHS), n, n_bins))
    least, greatest = np.zeros((2, len(LENGTHS), n, n_bins), np.int64)
    for agent in range(n if until > begin else 0):
        rows = np.flatnonzero(read.agent == agent)
        rows = rows[np.argsort(read.time[rows], kind="stable")]
        for k, name in enumerate(LENGTHS):
            statistics = lengths_in_bins(read.time[rows], getattr(read, name)[rows], edges, at_edges=True)
            mean[k, agent], least[k, agent], greatest[k, agent] = statistics
    return Occupancy(edges, mean, least, greatest)


def lengths_in_bins(
    time: np.ndarray, values: np.ndarray, edges: np.ndarray, *, at_edges: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the mean, least and greatest length in bins of equal width, from readings in order of time."""
    # ``at_edges``: whether all readings at the start of a bin count for it; else only the last of them.
    time, values = np.append(0.0, time), np.append(0, values)  # empty at the start
    last = np.searchsorted(time, edges, side="right") - 1
    held = np.append(0.0, np.cumsum(values[:-1] * np.diff(time)))  # the integral up to each reading
    width = (edges[-1] - edges[0]) / (len(edges) - 1)
    mean = np.diff(held[last] + values[last] * (edges - time[last])) / width
    least, greatest = values[last[:-1]], values[last[:-1]]
    number = np.clip(np.searchsorted(edges, time, side="right") - 1, 0, len(edges) - 2)
    inside = (time > (edges[0] if at_edges else edges[number])) & (time <= edges[-1])
    np.minimum.at(least, number[inside], values[inside])
    np.maximum.at(greatest, number[inside], values[inside])
    return mean, least, greatest


def run_end(trace: Trace) -> float:
    """Return the end of a run or its last reading, whichever is later, in ns."""
    return max(trace.makespan, float(trace.lengths_read.time.max(initial=0.0)))


# Draw the lengths of the agents' queues and buffers over time.

WORDS = {
    "event_queue": "events in queues", "partial_queue": "partial matches in queues",
    "event_buffer": "events in buffers", "partial_buffer": "partial matches in buffers",
}  # fmt: skip
MODEL_NOTE = (
    "Dotted lines: how many items the cost model expects in a window W. e·W: events arrive at rate e. "
    "m·W/(i−1): partial matches with i−1 events arrive at rate m."
)
NOTHING = "All queues and buffers were empty."
STATISTICS = ("mean", "least", "greatest")
_PANEL, _FAINT = 104, 0.3


def lengths_scene(
    trace: Trace, part: Sequence[float] = (), *, models: pd.DataFrame | None = None, title: str = "",
    alone: str | None = None, n_bins: int = 150,
) -> PlotScene:  # fmt: skip
    """Return a panel per queue and buffer, with a line per agent and a level per model."""
    begin, until = part or (0.0, run_end(trace))
    unit, size = clock_unit(run_end(trace))
    occupied = occupancy(trace, begin, until, n_bins)
    edges, of_agents = occupied.edges, trace.agents_frame()
    middle = (edges[:-1] + edges[1:]) / 2
    axis = lines(clock_title("time since the start of the run", unit, trace.measured), (begin, until), size)
    looks = [look_of(name, a, dash=DASHES[a % len(DASHES)]) for a, name in enumerate(trace.agents)]
    panels = []
    for p, name in enumerate(LENGTHS):
        levels = [] if models is None else models[models["length"] == name].to_dict("records")
        most = max(1.0, float(occupied.greatest[p].max(initial=0)))
        low, high = span([most, *(level["value"] for level in levels if level["value"] <= 4 * most)])
        items = []
        for a, agent in enumerate(trace.agents):
            mean, least, greatest = (np.asarray(values[p, a], float) for values in occupied[1:])
            items.append(
                Item(
                    kind="line", look=looks[a], x=middle, y=mean, least=least, greatest=greatest,
                    opacity=1.0 if alone in (None, agent) else _FAINT,
                    words="agent {agent}, {what}: {mean} on average, {least} to {greatest}, at {time} {unit}",
                    fields={
                        "agent": agent, "what": WORDS[name], "mean": mean, "least": least,
                        "greatest": greatest, "time": middle / size, "unit": unit,
                    },
                    pick=lambda b, name=name, agent=agent, values=(mean, least, greatest): {
                        "length": name, "agent": agent, "start": float(edges[b]), "end": float(edges[b + 1]),
                        **dict(zip(STATISTICS, (float(value[b]) for value in values), strict=True)),
                    },
                )
            )  # fmt: skip
        for level in levels:
            look = looks[trace.agents.index(level["agent"])]
            items.append(
                Item(
                    kind="line", look=look_of(level["agent"], trace.agents.index(level["agent"]), dash="dot"),
                    x=np.array([axis.low, axis.high]), y=np.full(2, level["value"]), width=1.2,
                    opacity=1.0 if alone in (None, look.name) else _FAINT,
                )
            )  # fmt: skip
        notes = [
            f"{level['agent']} {level['value']:.4g}{'' if level['value'] <= high else ' (above)'}"
            for level in levels
        ]
        panels.append(
            PlotPanel(
                x=axis, y=PlotAxis(low, high), height=_PANEL, items=tuple(items), label=WORDS[name],
                notes=(f"{levels[0]['model']}:", *notes[:6]) if levels else (),
            )
        )  # fmt: skip
    return PlotScene(
        title=title, note="measured" if trace.measured else "simulated", panels=tuple(panels),
        hint="Drag to look closer, double-click to see all. Point at a line or press arrow keys to read it. "
        "Areas reach from least to greatest.",
        about="lengths of queues and buffers",
        empty="" if any(read.max(initial=0) for read in trace.lengths_read[2:]) else NOTHING,
        legend=tuple(("line", look) for look in looks),
        header=("agent", *(f"{words}: mean, most" for words in WORDS.values())),
        table=tuple(_row(a, look, of_agents, models, look.name == alone) for a, look in enumerate(looks)),
        below="" if models is None or models.empty else MODEL_NOTE,
    )  # fmt: skip


def _row(a: int, look, of_agents: pd.DataFrame, models: pd.DataFrame | None, is_on: bool) -> dict:
    cells = []
    for name in LENGTHS:
        levels = (
            []
            if models is None
            else models[(models["length"] == name) & (models["agent"] == look.name)].to_dict("records")
        )
        modelled = "".join(f" ({level['model']} {level['value']:.4g})" for level in levels)
        mean, most = of_agents[f"mean_{name}"].iloc[a], of_agents[f"most_{name}"].iloc[a]
        cells.append({"text": f"{mean:,.4g}, {most:,}{modelled}"})
    return {"name": look.name, "look": look, "kind": "line", "is_on": is_on, "cells": cells}
