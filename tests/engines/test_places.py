"""Windows as places: searched for few events, by kernels for many, and by their definition."""

from random import Random

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import cepkit as cep
from cepkit.engines.shared import places as module
from cepkit.engines.shared.places import Places, accepted_places
from cepkit.language.sequences.patterns import EventPattern, SequenceOf, SequenceQuery
from tests.support.sequence_runs import prepared


def places_of(rng: Random, closed: bool) -> tuple[Places, list, list]:
    n = rng.randint(1, 40)
    whole = rng.random() < 0.7
    times = sorted(rng.randint(-20, 20) if whole else rng.randint(-40, 40) / 4 for _ in range(n))
    keys = [rng.choice("pq") for _ in range(n)] if rng.random() < 0.3 else ["p"] * n
    frame = pd.DataFrame({"t": times, "k": keys, "kind": "A"})
    query = SequenceQuery(
        SequenceOf((EventPattern("a", "A"), EventPattern("b", "A")), (None, None)), (),
        within=rng.choice([0, 1, 3, 100]), within_closed=closed, event_type="kind", order_by=("t",),
        partition_by=("k",),
    )  # fmt: skip
    return Places(*prepared(query, frame)), times, keys


@pytest.mark.parametrize("closed", [True, False])
@pytest.mark.parametrize("few", [(0, 1 << 40), (0, 0), (1 << 15, 1)])
def test_windows_begin_where_the_definition_says(few, closed, monkeypatch):
    monkeypatch.setattr(module, "_FEW", few[0])
    monkeypatch.setattr(module, "_FEW_OF", few[1])
    for seed in range(60):
        rng = Random(seed)
        places, times, keys = places_of(rng, closed)
        within = places.program.window.within
        time = [times[p] for p in places.position_of_place]
        key = [keys[p] for p in places.position_of_place]
        starts = []
        for p in range(places.n):
            inside = [s for s in range(p + 1) if key[s] == key[p] and time[p] - time[s] <= within]
            if not closed:
                inside = [s for s in inside if time[p] - time[s] < within]
            starts.append(min(inside, default=p))
        some = np.array(sorted(rng.sample(range(places.n), rng.randint(0, places.n))), np.int64)
        again = np.concatenate([some, some])
        assert places.window_start_of(again).tolist() == [starts[p] for p in again]
        assert places.window_start.tolist() == starts


def test_times_near_the_end_of_integers_are_not_searched():
    frame = pd.DataFrame({"t": [-(2**63) + 2, 5, 7], "kind": "A"})
    pattern = SequenceOf((EventPattern("a", "A"), EventPattern("b", "A")), (None, None))
    query = SequenceQuery(pattern, (), within=10, event_type="kind", order_by=("t",))
    assert Places(*prepared(query, frame))._search_starts() is None


@pytest.mark.parametrize("few", [0, 1 << 15])
@pytest.mark.parametrize("n", [0, 1, 31, 200])
def test_accepted_places_are_listed(n, few, monkeypatch):
    monkeypatch.setattr(module, "_FEW", few)
    accept = np.random.default_rng(n).integers(0, 2, n).astype(np.uint8)
    assert accepted_places(accept).tolist() == [p for p in range(n) if accept[p]]


@pytest.mark.parametrize("closed", [True, False])
def test_windows_of_times_that_are_far_apart(closed):
    """Differences of some times are beyond 64 bits, and wrap around without a test for it."""
    edge = 2**63 - 1
    times = [-edge, -edge + 3, -edge + 5, -5, 5, edge - 4, edge]
    wanted = [
        (one, two) for i, one in enumerate(times) for two in times[i + 1 :] if two - one <= 5 - (not closed)
    ]
    given = {"event_type": "kind", "order_by": "t", "within_closed": closed}
    query, within = "PATTERN SEQ(A a, A b)", 5
    for frame in (
        pd.DataFrame({"t": times, "kind": "A"}),
        pa.table({"t": times, "kind": ["A"] * len(times)}),
    ):
        found = cep.match(frame, f"{query} WITHIN {within}", **given).to_frame()
        rows = found if isinstance(found, pd.DataFrame) else found.to_pandas()
        assert sorted(zip(rows["a_t"].tolist(), rows["b_t"].tolist(), strict=True)) == sorted(wanted)
        sums = cep.window(frame, {"n": "count()"}, time=within, order_by="t")
        counts = sums["n"].to_pylist() if isinstance(sums, pa.Table) else sums["n"].tolist()
        assert counts == [sum(0 <= t - s < within for s in times) for t in times]
