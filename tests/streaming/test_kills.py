"""Streams of every kind are killed while they push and save: no result is lost, none is doubled."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import zlib
from pathlib import Path
from random import Random

import pytest

import cepkit as cep
from tests.support import killed_streams as ks
from tests.support.sizes import is_full

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
ROOT = Path(__file__).resolve().parents[2]
QUICK = ("sequence that waits", "row pattern", "join", "after a buffer")
OTHERS = [kind for kind in ks.KINDS if kind not in QUICK]


def kill_streams(*arguments: str) -> str:
    """Run the program that kills streams in a process of its own, without threads that a fork would lose."""
    command = [sys.executable, "-m", "tests.support.killed_streams", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "CEPKIT_BACKGROUND": "0"}
    environment.pop("CEPKIT_TIER", None)
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    return done.stdout


@pytest.mark.parametrize("seed", [1])
def test_killed_streams_lose_and_double_nothing(seed):
    said = kill_streams("--kills", "8", "--seed", str(seed), "--kinds", *QUICK)
    assert int(re.search(r"^all +\d+ +(\d+)", said, re.MULTILINE)[1]) >= 4


@pytest.fixture(scope="module")
def counts_of_others():
    """The counts of all other kinds, whose streams are killed in one program."""
    n_kills = (12 if is_full() else 3) * len(OTHERS)
    return kill_streams("--kills", str(n_kills), "--seed", "2", "--kinds", *OTHERS)


@pytest.mark.parametrize("kind", OTHERS)
def test_each_kind_of_stream(kind, counts_of_others):
    assert int(re.search(rf"^{re.escape(kind)} +\d+ +(\d+)", counts_of_others, re.MULTILINE)[1]) > 0


@pytest.mark.slow
def test_five_hundred_kills():
    print(kill_streams("--kills", "500", "--seed", "100"))


@pytest.fixture(scope="module")
def states(tmp_path_factory):
    """The files of a saved stream of some kinds, after some batches."""
    folder, made = tmp_path_factory.mktemp("states"), {}
    for name in ("sequence that waits", "row pattern", "window", "join", "after a buffer"):
        frame = ks.frame_of(3)
        stream = ks.KINDS[name].open(frame)
        for batch in ks.schedule(name, frame, 3)[:4]:
            stream.push(**batch) if isinstance(batch, dict) else stream.push(batch)
        made[name] = folder / f"{len(made)}.state"
        stream.save(made[name])
    return made


@pytest.mark.parametrize("what", ks.DAMAGES)
@pytest.mark.parametrize("seed", range(3))
def test_damage_is_said(seed, what, states, tmp_path):
    random = Random(f"damage {seed} {what}")
    for name, good in states.items():
        for _ in range(5):
            path = tmp_path / "damaged"
            path.write_bytes(ks.DAMAGES[what](good.read_bytes(), random))
            said = ks.answer_to_damage(name, path)
            if said == ks.NO_ERROR:  # the damage is in a part of the file that has no meaning
                assert ks.members_of(path) == ks.members_of(good)
            else:
                assert said is None, f"{name}: {said}"


def test_parts_of_different_states_are_refused(states, tmp_path):
    path = tmp_path / "mixed"
    for name, good in states.items():
        for other in states.values():
            mixed = {**ks.members_of(good), "header.json": ks.members_of(other)["header.json"]}
            if other == good:
                mixed.popitem()
            ks.write_members(path, mixed)
            assert ks.answer_to_damage(name, path) is None


def with_checksum(contents, header):
    """Return the members of a file with another header, and the checksum that fits them."""
    found, header = 0, {name: value for name, value in header.items() if name != "checksum"}
    members = {name: content for name, content in contents.items() if name != "header.json"}
    for name, content in [*members.items(), ("header.json", json.dumps(header, indent=1).encode())]:
        found = zlib.crc32(content, zlib.crc32(name.encode(), found))
    return {**members, "header.json": json.dumps({**header, "checksum": found}).encode()}


COUNTERS = ("counts", "n_events", "n_evicted", "n_ended", "left", "events", "done", "n_codes")


def with_wrong_counters(header, wrong):
    """Yield copies of a header, each with one wrong counter; those of its parts are counters, too."""
    for name, value in header.items():
        if isinstance(value, dict):
            yield from ({**header, name: part} for part in with_wrong_counters(value, wrong))
        elif name in COUNTERS:
            yield {**header, name: wrong}
            for place in range(len(value)) if isinstance(value, list) else ():
                yield {**header, name: [wrong if i == place else one for i, one in enumerate(value)]}


def test_another_header_is_refused(states, tmp_path):
    """Values that a file lacks, or has of another state, are damage, whatever would come of them."""
    path = tmp_path / "changed"
    for name, good in states.items():
        contents = ks.members_of(good)
        header = json.loads(contents["header.json"])
        for key in header:
            if key in ("format", "version", "kernels", "kind", "checksum"):
                continue
            for changed in ({**header, key: None}, {k: v for k, v in header.items() if k != key}):
                ks.write_members(path, {**contents, "header.json": json.dumps(changed).encode()})
                with pytest.raises(cep.CepError, match="do not belong together"):
                    ks.load(name, path)
                stripped = {of: value for of, value in changed.items() if of != "checksum"}
                ks.write_members(path, {**contents, "header.json": json.dumps(stripped).encode()})
                with pytest.raises(cep.CepError, match="it has no checksum"):
                    ks.load(name, path)
                ks.write_members(path, with_checksum(contents, changed))
                assert ks.answer_to_damage(name, path) in (None, ks.NO_ERROR)


@pytest.mark.parametrize("wrong", ["x", None, [], {}, 1.5, True, -2, 10**30], ids=repr)
def test_a_counter_that_is_no_number_is_damage(states, tmp_path, wrong):
    path = tmp_path / "changed"
    for name, good in states.items():
        contents = ks.members_of(good)
        n_counters = 0
        for header in with_wrong_counters(json.loads(contents["header.json"]), wrong):
            ks.write_members(path, with_checksum(contents, header))
            with pytest.raises(cep.CepError, match="or it is damaged"):
                ks.load(name, path)
            n_counters += 1
        assert n_counters >= 2, name
