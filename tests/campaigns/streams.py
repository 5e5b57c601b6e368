"""Many streams in one frame: the key column ``u`` tells them apart, and each keeps its times and its ties."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import pandas as pd

import cepkit as cep
from tests.support.hostile_runs import NeedsKernel

Row = dict[str, Any]
Stream = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Answer:
    """How many streams a query ran on, and how many of them have a match."""

    n_streams: int
    n_with_match: int


class Differs(Exception):
    """The answer is not that of the definition."""


@dataclass(frozen=True, slots=True)
class Mixed:
    """Streams in one frame: its rows, and the place in stream order of each row of each stream."""

    streams: Sequence[Sequence[Row]]
    rows: Sequence[Row]
    places: Sequence[Sequence[int]]

    @property
    def last_time(self) -> int:
        """The last time of all rows."""
        return max((row["t"] for row in self.rows), default=0)


def mixed(random: Random, streams: Sequence[Stream], *, in_turn: bool = False) -> Mixed:
    """Return the rows of all streams in a random order; rows of one stream and time keep theirs.

    All streams begin at about the time of the first one. With ``in_turn`` each begins after the one before.
    """
    start = next((stream[0]["t"] for stream in streams if stream), 0)
    key = random.choice([int, str, "key {:03}".format])
    moved: list[list[Row]] = []
    for number, stream in enumerate(streams):
        start += 0 if in_turn else random.choice([0, 0, 1, -1, 3])
        moved.append([{**row, "u": key(number), "t": row["t"] - stream[0]["t"] + start} for row in stream])
        if in_turn and stream:
            start = moved[-1][-1]["t"] + random.choice([1, 2, 5])
    order = [(number, row) for number, stream in enumerate(moved) for row in range(len(stream))]
    random.shuffle(order)
    if random.random() < 0.5:
        order.sort(key=lambda item: moved[item[0]][item[1]]["t"])
    waiting: dict[tuple[int, int], deque[int]] = {}
    for number, stream in enumerate(moved):
        for row, event in enumerate(stream):
            waiting.setdefault((number, event["t"]), deque()).append(row)
    order = [(number, waiting[number, moved[number][row]["t"]].popleft()) for number, row in order]
    places = [[0] * len(stream) for stream in moved]
    in_time = sorted(order, key=lambda item: moved[item[0]][item[1]]["t"])
    for place, (number, row) in enumerate(in_time):
        places[number][row] = place
    return Mixed(moved, [moved[number][row] for number, row in order], places)


def same(found: Any, expected: Any, what: str) -> None:
    """Raise an error that shows both unless they are equal."""
    if found == expected:
        return
    if isinstance(found, list) and isinstance(expected, list):
        pairs = zip([*found, None], [*expected, None], strict=False)
        at = next((i for i, (one, other) in enumerate(pairs) if one != other), 0)
        what += f", {len(found)} and {len(expected)}, from number {at}"
        found, expected = found[at : at + 3], expected[at : at + 3]
    raise Differs(f"{what}:\n  found    {found}\n  expected {expected}")


def lineage_of(found: Any) -> list[list[tuple[int, str]]]:
    """Return the rows of each match, as places in stream order, with their variables."""
    table = found.lineage(limit=None)
    rows: dict[int, list[tuple[int, str]]] = {}
    columns = (table[name].tolist() for name in ("match", "position", "variable"))
    for match, place, variable in zip(*columns, strict=True):
        rows.setdefault(match, []).append((place, variable))
    return [*rows.values()]


def pushed(random: Random, frame: pd.DataFrame, query: Any, found: Any, **options: Any) -> None:
    """Compare a stream that gets the frame in some batches with the matches of the whole frame."""
    cuts = sorted(random.randint(0, len(frame)) for _ in range(random.randint(0, 4)))
    try:
        stream = cep.stream(query, frame.head(0), rows="all", **options)
    except (cep.UnsupportedQueryError, NeedsKernel):
        return
    made = [
        stream.push(frame.iloc[begin:end]) for begin, end in zip([0, *cuts], [*cuts, len(frame)], strict=True)
    ]
    made.append(stream.close())
    parts = pd.concat([part for part in made if len(part)] or made[-1:], ignore_index=True)
    whole = found.to_frame("all", limit=None).reset_index(drop=True)
    try:
        pd.testing.assert_frame_equal(parts, whole, check_dtype=False)
    except AssertionError as error:
        raise Differs(f"the stream of {len(made)} batches: {error}") from None
