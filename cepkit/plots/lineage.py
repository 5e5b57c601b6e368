"""Matches with their events and the events that they share, and the chains of partial matches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pandas as pd

from cepkit.compile.shared.row_automaton import ANY
from cepkit.errors import require_columns
from cepkit.language.expressions.durations import counted
from cepkit.plots.automata import shown_name
from cepkit.plots.scene import Item, Look, PlotAxis, PlotPanel, PlotScene, lanes, look_of, span

COLUMNS = ("match", "variable", "position", "index")
MOST_EVENTS = 300  # largest number of columns of a page
MOST_COMPARED = 30  # matches of a query in a comparison
MOST_CHAINS = 80  # largest number of drawn chains
_ROW, _BARS, _DIM = 18, 46, 0.22
_DASHED = "Dashed: from the first event of a chain to the last event that it shares with the chain before."


class LineagePage(NamedTuple):
    """Matches in rows and their events in columns."""

    numbers: tuple[int, ...]  # of the matches
    positions: np.ndarray  # int64, (n_events,): rising
    rows: tuple[str, ...]  # names of the events' rows; "" if unknown
    times: tuple[str, ...]  # of the events; all "" if they say the same as the rows
    n_matches_of_event: np.ndarray  # int64, (n_events,): among the matches of the page
    match_of_item: np.ndarray  # int64, (n_items,): row
    event_of_item: np.ndarray  # int64, (n_items,): column
    variable_of_item: tuple[str, ...]
    variables: tuple[str, ...]  # in the order of their first occurrence
    n_left_out: int  # items whose events have no column

    @property
    def n_shared(self) -> int:
        """Number of events in more than one match of the page."""
        return int((self.n_matches_of_event > 1).sum())

    @property
    def labels(self) -> tuple[str, ...]:
        """The row and the time of each event, or its position in the stream if its row is unknown."""
        pairs = zip(self.rows, self.times, strict=True)
        texts = (" · ".join(filter(None, pair)) for pair in pairs)
        return tuple(
            label or f"position {at}" for label, at in zip(texts, self.positions.tolist(), strict=True)
        )

    @property
    def axes(self) -> list[tuple[str, tuple[str, ...]]]:
        """The texts below the columns, line by line, and what each line has."""
        lines = [("row", self.rows), ("time", self.times)]
        return [(name, texts) for name, texts in lines if any(texts)]


def lineage_page(
    rows: pd.DataFrame, chains: pd.DataFrame | None = None, *, most_events: int = MOST_EVENTS
) -> LineagePage:
    """Return the matches of ``rows`` side by side."""
    require_columns("lineage", COLUMNS, rows.columns)
    position = rows["position"].to_numpy(np.int64)
    wanted = position
    if chains is not None and len(position):
        chain_positions = chains["position"].to_numpy(np.int64)
        wanted = np.append(
            position,
            chain_positions[(chain_positions >= position.min()) & (chain_positions <= position.max())],
        )
    positions = np.unique(wanted)[:most_events]
    kept = np.isin(position, positions)
    shown = rows[kept]
    numbers = tuple(dict.fromkeys(rows["match"].tolist()))
    place = {number: row for row, number in enumerate(numbers)}
    event = np.searchsorted(positions, position[kept])
    match = np.array([place[number] for number in shown["match"].tolist()], np.int64)
    pairs = np.unique(np.stack([event, match]), axis=1)
    row_of = dict(zip(position.tolist(), map(str, rows["index"].tolist()), strict=True))
    time_of: dict[int, str] = {}
    if "time" in rows.columns:
        time_of = dict(zip(position.tolist(), map(str, rows["time"].tolist()), strict=True))
    if time_of == row_of:
        time_of = {}
    return LineagePage(
        numbers, positions, tuple(row_of.get(at, "") for at in positions.tolist()),
        tuple(time_of.get(at, "") for at in positions.tolist()),
        np.bincount(pairs[0], minlength=len(positions)), match, event,
        tuple(map(str, shown["variable"].tolist())),
        tuple(dict.fromkeys(map(str, rows["variable"].tolist()))), int((~kept).sum()),
    )  # fmt: skip


class PageChain(NamedTuple):
    """A chain of partial matches of LinkedCEP on a page."""

    number: int
    variable: str
    lane: int
    events: tuple[int, ...]  # columns
    before: int  # number of the chain that it continues; -1: none
    shared: int  # how many events of the chain before it continues
    tail: int | None  # column of the last of them
    matches: tuple[int, ...] | None  # rows, for chains of the last component


def chains_of_page(page: LineagePage, chains: pd.DataFrame | None) -> tuple[list[PageChain], list[str], int]:
    """Return the first chains with all events on the page, the variables of their lanes, and their number."""
    if chains is None or not len(page.positions):
        return [], [], 0
    column = {at: e for e, at in enumerate(page.positions.tolist())}
    is_whole = chains.groupby("chain")["position"].transform(lambda places: places.isin(column).all())
    numbers = chains.loc[is_whole.astype(bool), "chain"].unique()
    shown = chains[chains["chain"].isin(numbers[:MOST_CHAINS])]
    last = int(chains["component"].max())
    lane_names: list[str] = []
    until: list[int] = []  # last used column of each lane
    drawn = []
    ordered = shown.sort_values(["component", "chain", "position"])
    for (component, number), rows in ordered.groupby(["component", "chain"], sort=True):
        events = tuple(column[at] for at in rows["position"].tolist())
        name = str(rows["variable"].iloc[0])
        lane = next(
            (k for k, other in enumerate(lane_names) if other == name and until[k] < events[0]),
            len(lane_names),
        )
        if lane == len(lane_names):
            lane_names.append(name)
            until.append(-1)
        until[lane] = events[-1]
        before, shared = int(rows["before"].iloc[0]), int(rows["shared"].iloc[0])
        tail = chains.loc[chains["chain"] == before, "position"].tolist()[:shared]
        matches = _matches_of(page, chains, int(number)) if int(component) == last else None
        drawn.append(
            PageChain(
                int(number), name, lane, events, before, shared, column.get(tail[-1]) if tail else None,
                matches,
            )
        )  # fmt: skip
    return drawn, lane_names, len(numbers)


def _matches_of(page: LineagePage, chains: pd.DataFrame, chain: int) -> tuple[int, ...]:
    """Return the rows of the matches that have one event of each level of a chain."""
    levels = [events for _, events in levels_of(chains, chain)]
    rows = []
    for row in range(len(page.numbers)):
        items = page.positions[page.event_of_item[page.match_of_item == row]].tolist()
        if len(items) == len(levels) and all(at in events for at, events in zip(items, levels, strict=True)):
            rows.append(row)
    return tuple(rows)


class Lit(NamedTuple):
    """What belongs to the selection: rows of matches, columns of events, and numbers of chains."""

    rows: frozenset[int]
    columns: frozenset[int]
    chains: frozenset[int]


def lit_by(page: LineagePage, chains: Sequence[PageChain], chosen: dict) -> Lit:
    """Return what belongs to a selected match, event or chain."""
    rows, columns, numbers = set(), set(), set()
    chain_of = {chain.number: chain for chain in chains}

    def follow(chain: PageChain | None) -> None:
        while chain is not None and chain.number not in numbers:
            numbers.add(chain.number)
            chain = chain_of.get(chain.before)

    if "match" in chosen:
        rows = {row for row, number in enumerate(page.numbers) if str(number) == chosen["match"]}
        columns = {e for row in rows for e in page.event_of_item[page.match_of_item == row].tolist()}
        for chain in chains:
            if rows & set(chain.matches or ()):
                follow(chain)
    elif "event" in chosen:
        columns = set(np.flatnonzero(page.positions == chosen["event"]).tolist())
        rows = {int(r) for r, e in zip(page.match_of_item, page.event_of_item, strict=True) if e in columns}
    else:
        chain, n_shared = chain_of.get(chosen["chain"]), None
        rows = set(chain.matches or ()) if chain is not None else set()
        follow(chain)
        while chain is not None:  # of a chain that is continued, only the shared events belong to it
            columns |= set(chain.events[:n_shared])
            n_shared, chain = chain.shared, chain_of.get(chain.before)
    return Lit(frozenset(rows), frozenset(columns), frozenset(numbers))


def lineage_scene(
    page: LineagePage, *, title: str = "", note: str = "", chains: Sequence[PageChain] = (),
    lane_names: Sequence[str] = (), variables: Sequence[str] = (), n_rows: int = 0, lit: Lit | None = None,
) -> PlotScene:  # fmt: skip
    """Return the matches in rows; bars above them show in how many matches each event is."""
    names = list(dict.fromkeys([*variables, *page.variables, *lane_names]))
    looks = _looks(names)
    n, labels = len(page.positions), list(page.labels)
    axis = PlotAxis(
        -0.5, max(n, 5) - 0.5, " · ".join(name for name, _ in page.axes) or "event",
        names=tuple(map("\n".join, zip(*(texts for _, texts in page.axes), strict=True))) or tuple(labels),
    )  # fmt: skip
    place = np.arange(n, dtype=float)
    counts = page.n_matches_of_event.astype(float)
    bars = Item(
        kind="bars", look=Look(), x=place - 0.3, x1=place + 0.3, y=np.zeros(n), y1=counts,
        opacity=np.array([1.0 if lit is None or e in lit.columns else _DIM for e in range(n)]),
        words="event {label}: in {n} of the {all} matches shown",
        fields={"label": labels, "n": counts, "all": str(len(page.numbers))},
        pick=lambda e: {"event": int(page.positions[e])},
    )  # fmt: skip
    low, high = span(counts)
    panels = [
        PlotPanel(x=axis, y=PlotAxis(low, high), height=_BARS, items=(bars,), label="in how many matches")
    ]
    of_row = [page.event_of_item[page.match_of_item == row] for row in range(len(page.numbers))]
    shade = [1.0 if lit is None or row in lit.rows else _DIM for row in range(len(page.numbers))]
    items = [_line(events.tolist(), row, shade[row]) for row, events in enumerate(of_row) if len(events)]
    variable_of_item = np.array(page.variable_of_item, dtype=object)
    for variable in page.variables:
        members = np.flatnonzero(variable_of_item == variable)
        rows = page.match_of_item[members]
        items.append(
            Item(
                kind="points", look=looks[variable], x=page.event_of_item[members].astype(float),
                y=rows.astype(float), opacity=np.array([shade[row] for row in rows.tolist()]),
            )
        )  # fmt: skip
    words = [
        ", ".join(
            f"{page.variable_of_item[i]} = {labels[page.event_of_item[i]]}"
            for i in np.flatnonzero(page.match_of_item == row).tolist()
        )
        for row in range(len(page.numbers))
    ]
    matches = [str(number) for number in page.numbers]
    items.append(
        _strip(np.arange(len(matches)), -0.5, max(n, 1) - 0.5, "{match}", {"match": [
            f"match {number}: {text}" for number, text in zip(matches, words, strict=True)
        ]}, lambda row: {"match": matches[row]})
    )  # fmt: skip
    rows = [f"match {number}" for number in matches] + [""] * (n_rows - len(matches))
    panels.append(
        PlotPanel(
            x=axis, y=lanes(rows), height=_ROW * max(1, len(rows)), items=tuple(items),
            pick_lane=lambda row: {"match": matches[row]},
        )
    )  # fmt: skip
    if lane_names:
        panels.append(_chains_panel(chains, lane_names, axis, looks, lit))
    parts = "a match, an event or a chain" if lane_names else "a match or an event"
    return PlotScene(
        title=title, note=note, panels=tuple(panels),
        hint=f"Point at {parts}, or click it, to see what belongs to it.",
        about=f"{len(matches)} matches and their {n} events", empty="" if matches else "no match",
        legend=tuple(("points", replace(look, name=shown_name(name))) for name, look in looks.items()),
        below=_DASHED if lane_names else "",
    )  # fmt: skip


def _looks(names: Sequence[str]) -> dict[str, Look]:
    """Return the looks of variables in the order of the pattern."""
    named = [name for name in names if name != ANY]
    return {name: look_of(name, named.index(name) if name in named else -1) for name in names}


def comparison_scene(
    labels: Sequence[str], lineages: Mapping[str, pd.DataFrame], *, totals: Mapping[str, int],
    variables: Sequence[str] = (), title: str = "",
) -> PlotScene:  # fmt: skip
    """Return the matches of several queries over one short stream, a panel per query."""
    of_rows = (name for rows in lineages.values() for name in rows["variable"])
    looks = _looks(list(dict.fromkeys([*variables, *of_rows])))
    axis = PlotAxis(-0.5, max(len(labels), 1) - 0.5, names=tuple(labels))
    panels = []
    for name, lineage in lineages.items():
        numbers = lineage["match"].unique()[:MOST_COMPARED].tolist()
        lane, rows = {match: k for k, match in enumerate(numbers)}, lineage[lineage["match"].isin(numbers)]
        items = [
            _line(positions.tolist(), lane[match], 1.0)
            for match, positions in rows.groupby("match", sort=False)["position"]
        ]
        for variable, marks in rows.groupby("variable", sort=False):
            places, matches = marks["position"].tolist(), marks["match"].tolist()
            hints = [f"match {m}: {labels[p]}, {variable}" for m, p in zip(matches, places, strict=True)]
            items.append(
                Item(
                    kind="points", look=looks[variable], x=np.array(places, float),
                    y=np.array([lane[match] for match in matches], float), words="{hint}",
                    fields={"hint": hints},
                )
            )  # fmt: skip
        panels.append(
            PlotPanel(
                x=axis, y=lanes([""] * len(numbers)), height=_ROW * max(1, len(numbers)), items=tuple(items),
                label=_panel_name(name, totals[name], len(numbers)),
            )
        )  # fmt: skip
    return PlotScene(
        title=title, panels=tuple(panels), about="matches of several queries",
        legend=tuple(("points", replace(look, name=shown_name(name))) for name, look in looks.items()),
    )  # fmt: skip


def _panel_name(name: str, n: int, n_shown: int) -> str:
    count = "no match" if n == 0 else counted(n, "match")
    return f"{name}: {count}" + (f", the first {n_shown} shown" if n > n_shown else "")


def _line(columns: Sequence[int], lane: float, opacity: float) -> Item:
    """Return a line from the first to the last event of a row."""
    ends = np.array([min(columns), max(columns)], float)
    return Item(kind="line", look=Look(), x=ends, y=np.full(2, float(lane)), width=1.0, opacity=opacity)


def _strip(lane: np.ndarray, low, high, words: str, fields: dict, pick) -> Item:
    """Return invisible bars in lanes that can be pointed at."""
    n = len(lane)
    return Item(
        kind="bars", look=Look(), x=np.broadcast_to(np.asarray(low, float), n), y=lane + 0.45, y1=lane - 0.45,
        x1=np.broadcast_to(np.asarray(high, float), n), opacity=0.0, words=words, fields=fields, pick=pick,
    )  # fmt: skip


def _chains_panel(
    chains: Sequence[PageChain], lane_names: Sequence[str], axis: PlotAxis, looks: dict[str, Look],
    lit: Lit | None,
) -> PlotPanel:  # fmt: skip
    """Return the panel with the chains of LinkedCEP."""
    items, chain_of = [], {chain.number: chain for chain in chains}
    for chain in chains:
        shade = 1.0 if lit is None or chain.number in lit.chains else _DIM
        before, places = chain_of.get(chain.before), np.array(chain.events, float)
        if before is not None and chain.tail is not None:
            ends, levels = (chain.events[0], chain.tail), (chain.lane, before.lane)
            items.append(
                Item(
                    kind="line", look=Look(dash="dash"), x=np.array(ends, float), y=np.array(levels, float),
                    width=1.0, opacity=shade,
                )
            )  # fmt: skip
        bar = _line(chain.events, chain.lane, 0.45 * shade)
        items.append(replace(bar, look=looks[chain.variable], width=6.0))
        level = np.full(len(places), float(chain.lane))
        items.append(Item(kind="points", look=looks[chain.variable], x=places, y=level, opacity=shade))
    words = [
        f"chain {chain.number} of {chain.variable}: {len(chain.events)} events"
        + (f", after the first {chain.shared} of chain {chain.before}" if chain.before >= 0 else "")
        + (f", in {len(chain.matches)} of the matches shown" if chain.matches is not None else "")
        for chain in chains
    ]
    first, last = ([chain.events[end] for chain in chains] for end in (0, -1))
    items.append(
        _strip(
            np.array([chain.lane for chain in chains], float), np.array(first) - 0.4, np.array(last) + 0.4,
            "{chain}", {"chain": words}, lambda k: {"chain": chains[k].number},
        )
    )  # fmt: skip
    shown = [name if not k or lane_names[k - 1] != name else "" for k, name in enumerate(lane_names)]
    return PlotPanel(
        x=axis, y=lanes(shown), height=_ROW * len(lane_names), items=tuple(items), label="chains"
    )  # fmt: skip


def levels_of(chains: pd.DataFrame, chain: int) -> list[tuple[int, frozenset[int]]]:
    """Return the component and the events of each level of a chain, from the first one to the chain."""
    # ``chains`` is the result of ``matches.run.chains_frame()``. A match of the chain has one event of each
    # level. Its matches are the combinations that fit into the window.
    of_chain = dict(tuple(chains.groupby("chain")))
    levels, take = [], None
    while chain >= 0:
        rows = of_chain[chain]
        positions = rows["position"].tolist()[:take]
        levels.insert(0, (int(rows["component"].iloc[0]), frozenset(positions)))
        chain, take = int(rows["before"].iloc[0]), int(rows["shared"].iloc[0])
    return levels
