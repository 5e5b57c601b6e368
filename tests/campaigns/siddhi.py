"""Random patterns of SiddhiQL, each in a partition with many keys."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pandas as pd

import cepkit as cep
from cepkit.language.siddhi.printing import parse_siddhi
from tests.campaigns.streams import Answer, same
from tests.oracle.generate_siddhi import STREAMS, random_events, random_query
from tests.oracle.siddhi import Given, Race, matches_of

Keyed = tuple[Given, str]  # an event and its key
DEFINED = " ".join(f"define stream {name} (x int, u string);" for name in STREAMS)


def answer(seed: int, n_streams: int) -> Answer:
    """Compare a pattern by key: the first event of a key starts a pattern of this key."""
    text, random = random_query(seed), Random(f"keys {seed}")
    query = parse_siddhi(text).elements[0]
    read = sorted({source.stream for source in query.sources()})
    streams = {}
    for number in range(n_streams):
        delay, events = random.choice([0, 100, 1000, 4000]), random_events(n_streams * seed + number)
        known = [replace(event, time=event.time + delay) for event in events if event.stream in read]
        streams[f"u{number:03}"] = known
    end = max((events[-1].time for events in streams.values() if events), default=0) + 4000
    expected = {}
    for key, events in [*streams.items()]:
        try:
            expected[key] = matches_of(query, events, events[0].time, end) if events else []
        except Race:
            del streams[key]
    names = random.sample([*streams], len(streams))
    rows = [(event, key) for key in names for event in streams[key]]
    rows.sort(key=lambda row: row[0].time)  # ties of a key stay as they are
    keys = ", ".join(f"u of {name}" for name in read)
    found = cep.siddhi(
        f"{DEFINED} partition with ({keys}) begin {text}; end", _frames(rows, read),
        order_by=["at", "place"], start=0, complete_until=end,
    )  # fmt: skip
    made = sorted(((time, list(values)) for _, time, values in found._rows["Out"]), key=repr)
    wanted = [row for key in streams for row in expected[key]]
    same(made, sorted(wanted, key=repr), "rows")
    return Answer(len(streams), sum(bool(expected[key]) for key in streams))


def _frames(rows: list[Keyed], read: list[str]) -> dict[str, pd.DataFrame]:
    """Return a frame for each stream, with the columns ``at`` and ``place`` that order the events."""
    frames = {}
    for name in read:
        own = [(place, event, key) for place, (event, key) in enumerate(rows) if event.stream == name]
        frames[name] = pd.DataFrame(
            {
                "x": pd.array([event.values["x"] for _, event, _ in own], "Int64"),
                "u": pd.array([key for _, _, key in own], "string"),
                "at": pd.array([event.time for _, event, _ in own], "int64"),
                "place": pd.array([place for place, _, _ in own], "int64"),
            }
        )
    return frames
