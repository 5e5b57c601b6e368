"""Random patterns of SiddhiQL: the engine gives the matches of the definition."""

from __future__ import annotations

import warnings

import pytest

import cepkit as cep
from cepkit.language.siddhi.printing import parse_siddhi
from tests.oracle.generate_siddhi import STREAMS, frames_of_events, random_events, random_query
from tests.oracle.siddhi import Race, matches_of
from tests.support.sizes import seeds

DEFINED = " ".join(f"define stream {name} (x int);" for name in STREAMS)


def compare(seed: int) -> bool:
    """Compare one case; return whether it has a match."""
    text, events = random_query(seed), random_events(seed)
    app = parse_siddhi(text)
    assert parse_siddhi(str(app)) == app
    end = events[-1].time + 4000
    try:
        expected = matches_of(app.elements[0], events, 0, end)
    except Race:
        expected = None
    options = {"order_by": ["at", "place"], "start": 0, "complete_until": end}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", cep.CepWarning)
            found = cep.siddhi(DEFINED + text, frames_of_events(events), **options)
    except cep.UnsupportedQueryError as error:
        assert expected is None or "may be empty" in str(error), f"{seed}: {text}"
        return False
    except cep.CepError as error:
        assert "each state may be empty" in str(error), f"{seed}: {text}"
        return False
    rows = [(time, list(values)) for _, time, values in found._rows["Out"]]
    assert rows == expected, f"{seed}: {text}"
    return bool(rows)


def test_a_match_is_read_before_earlier_states_take_the_event():
    assert compare(21243)


@pytest.mark.parametrize("seed", seeds(2, 240))
def test_random_patterns(seed):
    assert any([compare(number) for number in range(50 * seed, 50 * seed + 50)])
