"""Compute and draw the work of threads over time, in a lane each, and their busy shares."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from cepkit.errors import whole_number
from cepkit.parallel.trace import ACTIONS, Trace, _time_until, clock_unit
from cepkit.plots.scene import LANE, Item, Look, PlotAxis, PlotPanel, PlotScene, lane_height, lanes, lines

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
    """Return the title of a time axis."""
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
    most_segments: int = MOST_SEGMENTS,
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
