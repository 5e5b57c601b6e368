"""Patterns and sequences of SiddhiQL on many streams, planned once, against the definition."""

from __future__ import annotations

import warnings
from typing import Any

import cepkit as cep
from cepkit.language.siddhi.printing import parse_siddhi
from cepkit.siddhiql.binding import run_app
from cepkit.siddhiql.planning import plan_app
from tests.campaigns.tally import PYTHON, Tally
from tests.oracle.generate_siddhi import STREAMS, frames_of_events, random_events, random_query
from tests.oracle.siddhi import Race, matches_of

LANGUAGE = "siddhi"
DEFINED = " ".join(f"define stream {name} (x int);" for name in STREAMS)
RACE = "depends on the order of threads"


def check_siddhi(seed: int, n_streams: int, tally: Tally, *, compiled: bool = False) -> None:
    """Compare one random query on random streams. One of them is a call with frames, too."""
    text = random_query(seed)
    app = parse_siddhi(DEFINED + text)
    assert parse_siddhi(str(app)) == app, text
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", cep.CepWarning)
            plan = plan_app(app, {name: (("x", "int"),) for name in STREAMS}, 1, True)
    except cep.CepError as error:
        if not any(known in str(error) for known in ("may be empty", "order of its threads")):
            tally.fail(LANGUAGE, "events", PYTHON, f"check_siddhi({seed}): {error!r}\n{text}")
        tally.not_run[LANGUAGE, "events", PYTHON] += 1
        return
    streams = {number: random_events(1000 * seed + number) for number in range(n_streams)}
    pattern = next(element for element in app.elements)
    expected, found = {}, {}
    for number, events in streams.items():
        end = events[-1].time + 4000
        try:
            expected[number] = matches_of(pattern, events, 0, end)
        except Race:
            expected[number] = [RACE]
        given = [(event.stream, (event.time, event.values["x"])) for event in events]
        try:
            rows = run_app(plan, given, len(given), 0, end)["Out"]
            found[number] = [(time, list(values)) for _, time, values in rows]
        except cep.UnsupportedQueryError as error:
            found[number] = [RACE] if "order of its threads" in str(error) else [str(error)]

    def say(number: int) -> str:
        return f"check_siddhi({seed}, {n_streams}), stream {number}\n{text}\n{streams[number]}"

    tally.add(LANGUAGE, [*expected.values()])
    tally.compare(LANGUAGE, "events", PYTHON, expected, found, say)
    tally.compare(LANGUAGE, "frames", PYTHON, {0: expected[0]}, {0: _by_frames(text, streams[0])}, say)


def _by_frames(text: str, events: Any) -> list[Any]:
    options = {"order_by": ["at", "place"], "start": 0, "end": events[-1].time + 4000}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", cep.CepWarning)
            found = cep.siddhi(DEFINED + text, frames_of_events(events), **options)
    except cep.UnsupportedQueryError:
        return [RACE]
    return [(time, list(values)) for _, time, values in found._rows["Out"]]
