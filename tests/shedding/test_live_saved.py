"""Saved streams with a latency bound: statistics and utilities survive, and nothing is counted twice."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import cepkit as cep
from cepkit.errors import CepError
from cepkit.shedding.buffers import UNKNOWN
from cepkit.shedding.live_report import pack_values, unpack_values
from tests.support.live_cases import QUERY, SETTINGS, arrivals_of, capacity, drive, frame_of, joined, opened

N = 2000
STRATEGIES = {
    "darling": cep.Darling(split="rate", drift=False), "drift": cep.Darling(), "random": "random",
    "random_input": "random_input", "cohesive": cep.Cohesive(),
}  # fmt: skip


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_restored_stream_goes_on_as_if_it_was_never_closed(tmp_path, name):
    """It is restored in the warm-up and afterwards."""
    shedding = STRATEGIES[name]
    n = 1000
    frame = frame_of(n, 1).assign(place=lambda own: own["kind"].str.upper() + (own.index // 50).astype(str))
    z = capacity(frame, partition_by="k")
    arrivals = arrivals_of(n, 2 * z, 6.0)
    given = {"shedding": shedding, "latency_bound": 75 * z, "warm_up": 250, "partition_by": "k"}
    whole, again = opened(frame, **given), opened(frame, **given)
    expected, results = [], []
    for first, stop in itertools.pairwise([0, 150, 650, n]):
        expected += drive(whole, frame, arrivals, first, stop).results
        results += drive(again, frame, arrivals, first, stop).results
        if stop < n:
            again.save(tmp_path / "state")
            one, again = again, cep.stream.load(tmp_path / "state", clock=cep.shedding.VirtualClock())
            assert again.shedding.waiting == one.shedding.waiting
            assert repr(again) == repr(one)
    expected.append(whole.close())
    results.append(again.close())
    left, right = whole.shedding, again.shedding
    assert right.losses
    total = right.to_frame()[["kept", "dropped", "waiting"]].sum(axis=1)
    assert total.tolist() == [(frame["kind"] == name).sum() for name in "abc"]
    if right.drift is not None and right.drift["recomputed"]:
        return  # the restored stream has other newest events for its statistics
    pd.testing.assert_frame_equal(joined(results), joined(expected))
    assert right.to_frame().equals(left.to_frame())
    for name in ("recall", "matches", "mean_latency", "max_latency", "within_bound", "service", "drift"):
        assert repr(getattr(right, name)) == repr(getattr(left, name)), name
    assert right.details.get("types") == left.details.get("types")


def test_a_stream_with_events_that_wait_keeps_them(tmp_path):
    frame = frame_of(2000, 2)
    z = capacity(frame)
    stream = opened(frame, latency_bound=20_000 * z, time_slice=50 * z, warm_up=300)
    first = stream.push(frame)
    waiting = stream.shedding.waiting
    assert waiting > 1000
    stream.save(tmp_path / "state")
    clock = cep.shedding.VirtualClock()
    again = cep.stream.load(tmp_path / "state", clock=clock)
    assert again.shedding.waiting == waiting
    found = joined([first, again.close()])
    expected = cep.match(frame, QUERY, **SETTINGS).to_frame().reset_index(drop=True)
    pd.testing.assert_frame_equal(found, expected, check_dtype=False)


def test_events_that_waited_before_a_restart_have_the_same_utilities(tmp_path):
    """Their attributes are not saved, so those utilities are saved that nobody has asked for."""
    frame = frame_of(N, 1)
    z = capacity(frame)
    whole = opened(frame, latency_bound=150 * z, warm_up=200, shedding=cep.Darling(drift=False))
    drive(whole, frame, arrivals_of(N, 2 * z, 6.0), 0, 700)
    for _ in range(2):  # restored, and restored again
        whole.save(tmp_path / "state")
        again = cep.stream.load(tmp_path / "state", clock=cep.shedding.VirtualClock())
        left, right = whole._search.shedder, again._search.shedder
        n_asked = 0
        waits = right._work.waiting.save()
        for number in range(len(right._types)):
            new = waits["position"][(waits["type"] == number) & (waits["step"] == UNKNOWN)]
            n_asked += len(new)
            if len(new):
                worth = left._worth_of_waiting(number, new)
                assert right._worth_of_waiting(number, new).tolist() == worth.tolist()
        assert n_asked > 0
        whole = again


def test_the_time_of_a_closed_stream_stands_still(tmp_path):
    frame = frame_of(300, 3)
    stream = opened(frame, clock=None, shedding="none", latency_bound="20 s", time_slice="1 us", warm_up=10)
    stream.push(frame)
    stream.save(tmp_path / "state")
    time.sleep(0.3)
    before = stream._clock.now
    again = cep.stream.load(tmp_path / "state")
    assert again._clock.now < before
    again.close()
    assert again.shedding.max_latency < 20


# A process that pushes batches, saves after each, and says so. It is killed in the middle.
CHILD = """
import sys, pandas as pd, cepkit as cep
frame = pd.read_parquet(sys.argv[1])
stream = cep.stream(sys.argv[3], frame.iloc[:0], event_type="kind", order_by="ts", latency_bound=0.2,
                    warm_up=600, shedding=cep.Darling(drift=False), time_slice=0.02)
for at in range(0, len(frame), 250):
    stream.push(frame.iloc[at:at + 250])
    stream.save(sys.argv[2])
    print(stream.events if not stream.shedding.warm_up_left else 0, flush=True)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs signals")
def test_a_killed_stream_loses_and_doubles_nothing(tmp_path):
    frame = frame_of(20_000, 4)
    frame.to_parquet(tmp_path / "frame.parquet")
    state = tmp_path / "state"
    environment = {**os.environ, "PYTHONPATH": str(Path(cep.__file__).parents[1])}
    command = [sys.executable, "-c", CHILD, str(tmp_path / "frame.parquet"), str(state), QUERY]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as child:
        for line in child.stdout:
            if int(line) >= 3000:
                break
        child.send_signal(signal.SIGKILL)
    assert child.returncode == -signal.SIGKILL
    stream = cep.stream.load(state)
    read, report = stream.events, stream.shedding
    assert read >= 3000
    assert report.warm_up_left == 0
    assert report.details["n_in"] > 0
    for at in range(read, len(frame), 250):
        stream.push(frame.iloc[at : at + 250])
    stream.flush()
    last = stream.shedding
    for name in "abc":
        assert last.kept[name] + last.dropped[name] == (frame["kind"] == name).sum()
    assert last.other_events == (frame["kind"] == "d").sum()
    assert stream.events == len(frame)
    assert stream.matches <= cep.match(frame, QUERY, **SETTINGS).count()


def test_values_survive_a_file():
    texts = np.array(["a", None], object)
    value = {"n": 2**70, "x": np.float64(0.5), "none": None, "a": np.arange(3), "t": texts, "l": (1, "b", [])}
    again = unpack_values(pack_values(value))
    assert again["a"].tolist() == [0, 1, 2]
    assert again["t"].dtype == object
    assert again["t"].tolist() == ["a", None]
    assert [again[name] for name in ("n", "x", "none", "l")] == [2**70, 0.5, None, [1, "b", []]]
    for wrong in ({1: 2}, {"a": {1, 2}}, {"array": 1}):
        with pytest.raises(CepError, match="saved state"):
            pack_values(wrong)


@pytest.mark.parametrize("name", ["darling", "none"])
def test_a_state_of_an_earlier_version_says_what_to_do(name):
    with pytest.raises(
        CepError, match=r"earlier version of cepkit saved .* Load it with that version.*close"
    ):
        cep.stream.load(Path(__file__).parent / "states" / f"earlier_{name}.state")
