"""Kernels that come with the package: made from the present text, and with the same results as numba's."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import zlib
from types import SimpleNamespace

import numba
import numpy as np
import pandas as pd
import pytest

import cepkit as cep
from cepkit import cache
from cepkit.commands.ship import INTERPRETING
from cepkit.compile.counting_ranking import WRITERS, text_of
from cepkit.compile.shared import images as bitcode
from cepkit.compile.shared import loading
from cepkit.compile.shared.images import (
    COMMAND,
    bitcode_path,
    has_bitcode,
    hash_of,
    image_path,
    llvm,
    load_bitcode,
    machine_code,
)
from cepkit.compile.shared.loading import are_kernels_ready, general_name, image_name
from cepkit.engines.counting import layout
from cepkit.engines.interpreted_walk import REGEX_KERNELS as REGEX
from cepkit.engines.shared import places
from cepkit.engines.shared.match_set import MATCHES
from cepkit.engines.shared.places import PLACES
from cepkit.errors import CepWarning
from cepkit.parallel.agent_run import KERNELS as AGENTS
from cepkit.parallel.agents import INTERPRETED as JOINS
from cepkit.shedding.tree_machine import KERNELS as TREE
from tests.support.sizes import seeds

IS_KNOWN = sys.platform == "linux" and os.uname().machine == "x86_64"
jit = pytest.mark.skipif(numba.config.DISABLE_JIT, reason="bitcode becomes machine code")
known = pytest.mark.skipif(not IS_KNOWN, reason="bitcode is used on Linux and x86-64 only")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty cache, in which queries are interpreted, and no kernels in the process."""
    monkeypatch.setenv("CEPKIT_CACHE", str(tmp_path / "kernels"))
    monkeypatch.setenv("CEPKIT_TIER", "auto")
    monkeypatch.setattr(cache, "_reported", set())
    monkeypatch.setattr(loading, "_kernels", {})
    monkeypatch.setattr(loading, "run_later", lambda work: None)  # what the tests replace must not change it
    name_of = loading._name_of  # other tests may have compiled a query in this process
    monkeypatch.setattr(loading, "_name_of", lambda text: f"{name_of(text)}_{tmp_path.name}")
    return tmp_path / "kernels"


# --- the files --------------------------------------------------------------------------------------------


def test_the_files_are_those_of_the_present_kernels():
    wanted = {bitcode_path(image_name(name)).name: name for name in INTERPRETING}
    wanted |= {bitcode_path(general_name(text_of(write))).name: write.__name__ for write in WRITERS}
    found = {path.name for path in bitcode.FOLDER.iterdir()}
    changed = [name for file, name in wanted.items() if file not in found]
    assert not changed, f"the text of {changed} changed: run `{COMMAND}` and commit its files"
    assert found == wanted.keys(), f"some files belong to no kernels: run `{COMMAND}`"


@pytest.mark.parametrize("name", INTERPRETING)
def test_a_file_says_what_it_is(name):
    content = bitcode_path(image_name(name)).read_bytes()
    title, digest, header, _ = content.split(b"\n", 3)
    assert COMMAND in title.decode() and "bitcode" in title.decode()
    assert digest == hash_of(content.removeprefix(title + b"\n" + digest + b"\n"))
    assert json.loads(header)["made"].keys() == {"numba", "llvmlite", "llvm"}
    # The code needs nothing of numba; threads read the clock of the system.
    assert json.loads(header)["symbols"] == (["clock_gettime"] if name == AGENTS else [])
    assert len(content) < 100_000


@pytest.mark.slow
@jit
@known
def test_the_command_makes_the_same_files(tmp_path):
    """The content does not depend on the machine. Another numba may make other files."""
    path = bitcode_path(image_name(REGEX))
    made = json.loads(path.read_bytes().split(b"\n", 3)[2])["made"]
    if made["numba"] != numba.__version__:
        pytest.skip(f"the files were made with numba {made['numba']}")
    run = "import sys, pathlib; from cepkit.commands.ship import ship; ship(pathlib.Path(sys.argv[1]))"
    subprocess.run([sys.executable, "-c", run, str(tmp_path)], check=True, capture_output=True)
    for name in INTERPRETING:
        path = bitcode_path(image_name(name))
        assert (tmp_path / path.name).read_bytes() == path.read_bytes(), f"run `{COMMAND}`"


# --- the same results as numba's --------------------------------------------------------------------------


class Calls:
    """The kernels of a module, which notes the names of those that were used."""

    def __init__(self, kernels):
        self.kernels, self.used = kernels, set()

    def __getattr__(self, name):
        self.used.add(name)
        return getattr(self.kernels, name)


def shipped_and_numbas(name: str, *, quick: bool = False):
    """Return the functions in a file of the package, and those that numba compiles."""
    kernels = load_bitcode(image_name(name), quick=quick)
    module = importlib.import_module(name)
    return kernels, SimpleNamespace(**{key: getattr(module, key) for key in vars(kernels)})


def stream(seed: int, n: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    gaps = rng.integers(0, 4, n)
    return pd.DataFrame({
        "kind": rng.choice(list("ABCD"), n), "k": rng.integers(0, 3, n), "t": np.cumsum(gaps),
        "clock": np.cumsum(gaps * 0.25), "x": rng.integers(0, 50, n),
        "y": np.where(rng.random(n) < 0.1, np.nan, rng.random(n)),
    })  # fmt: skip


REGEXES = {
    "low high": {"low": "log(y) < -1 or exp(y) > 2", "high": "power(y, 3) > 0.1 and log2(y) + log10(y) > -3"},
    "any drop+ rise+ drop+ rise": {"drop": "y < prev(y)", "rise": "y > prev(y)", "any": "True"},
    "a b* c": {"a": "x > 25", "b": "x < first(x) + 5", "c": "y > prev(y, 2)"},
}
SEQUENCES = [
    ("SEQ(A a, B b, C c) WHERE b.x > a.x AND c.x > b.x WITHIN 20", {}),
    ("SEQ(A a, !B b, C c) WHERE b.x > a.x WITHIN 20", {}),
    ("SEQ(A a, B+ b[], C c) WHERE b[i].x > a.x WITHIN 10", {}),
    ("SEQ(A a, B b, C c, D d) WHERE d.y >= a.y * 0.5 AND d.k = a.k WITHIN 12", {"engine": "ordered"}),
    ("SEQ(A a, B+ b[], C c) WHERE avg(b.y) > a.y AND c.x > b[i-1].x WITHIN 6", {"engine": "search"}),
    ("SEQ(A a, B b, C c) WHERE c.x > a.x + b.x - 20 WITHIN 12", {"engine": "ordered"}),
    ("SEQ(A a, B b, C c) WITHIN 20", {}),
    ("SEQ(A a, B+ b[], C c) WHERE b[i].x > a.x AND c.k = a.k AND c.y > a.y WITHIN 30", {"strategy": "next"}),
    ("SEQ(A a, B b, _ c, _ d) WHERE b.x > a.x AND c.y <= b.y WITHIN 30", {"strategy": "next"}),
    ("SEQ(A a, B+ b[], C c) WITHIN 6", {}),
    ("SEQ(A a, B b, C c) WITHIN 5", {"order_by": "clock"}),
    ("SEQ(A a, B+ b[], !D d, C c) WHERE b[i].x > a.x AND d.y > c.y WITHIN 6", {"engine": "tree"}),
    ("SEQ(A a, B b, !C c) WHERE c.x > a.x WITHIN 9", {"engine": "tree"}),  # waits for the end of its window
]
ROWS = """MATCH_RECOGNIZE ({} ORDER BY t MEASURES FIRST(a.x) AS first, SUM(b.x) AS sum, MAX(b.y) AS most,
    LAST(b.t, 1) AS before PATTERN (a b+ c) {} DEFINE b AS {}, c AS y > 0.5)"""
ON_ROWS = ("x < PREV(x)", "x < a.x AND SUM(b.y) < 3 * COUNT(*)")
AGGREGATES = {
    "sum": "sum(x)", "average": "avg(y)", "spread": "std(x)", "most": "max(x)", "kinds": "distinct(kind)",
}  # fmt: skip
REPLAYED = "SEQ(A a, B b, C c) WHERE b.x > a.x WITHIN 20"


def answers(frame: pd.DataFrame) -> list:
    """Return counts and first matches of all queries."""
    found = []
    for pattern, define in REGEXES.items():
        for partition_by in (None, "k"):
            matches = cep.match(frame, pattern, define=define, order_by="t", partition_by=partition_by)
            found += [matches.count(), matches.to_frame(), matches.lineage(), matches.run.tier]
    for text, keywords in SEQUENCES:
        keywords = {"order_by": "t", **keywords}
        matches = cep.match(frame, f"PATTERN {text}", event_type="kind", **keywords)
        found += [matches.count(), matches.head(3)]
    for partition_by in (None, "k"):
        found.append(cep.sessions(frame, gap=3, order_by="t", partition_by=partition_by))
    timed = frame.assign(t=frame["t"].astype("datetime64[s]"))
    for partition_by in ("", "PARTITION BY k"):
        for within in ("", "WITHIN INTERVAL '9' SECOND"):
            for condition in ON_ROWS:
                found.append(cep.match(timed, ROWS.format(partition_by, within, condition)).to_frame())
    for frame_of_values in (frame, frame.assign(x=frame["x"] / 3)):
        for size in ({"time": 9}, {"length": 9}):
            found.append(
                cep.window(frame_of_values, AGGREGATES, **size, emit="all", group_by="k", order_by="t")
            )
    sides = frame[frame["kind"] == "A"], frame[frame["kind"] == "B"]
    found.append(cep.join(*sides, left=cep.Window(time=9), right=cep.Window(time=5), on="k", order_by="t"))
    for strategy in ("random", "hspice"):
        result = cep.replay(
            frame, f"PATTERN {REPLAYED}", latency_bound="50 us", shedding=strategy, event_type="kind",
            order_by="t",
        )  # fmt: skip
        found += [result.to_frame(), result.matches.head(3)]
        assert result.run.n_partial_dropped + result.run.n_skipped_pairs
    return found


@pytest.mark.slow  # numba compiles all kernels; tests of the default tier compare the files with the oracle
@jit
@known
@pytest.mark.parametrize("seed", range(3))
def test_shipped_kernels_answer_as_numbas(seed, folder, monkeypatch):
    for module in (places, layout):
        monkeypatch.setattr(module, "_FEW", 0)
    # `tests/parallel` compares the agents with the oracle; numba takes 15 s to compile them.
    compared = set(INTERPRETING) - {AGENTS, JOINS}
    both = {name: shipped_and_numbas(name, quick=seed == 2) for name in compared}
    assert all(type(fill).__module__.startswith("cepkit") for fill in vars(both[MATCHES][0]).values())
    frame, results, used = stream(seed, 2500), [], []
    for which in (0, 1):
        kernels = {name: Calls(own[which]) for name, own in both.items()}
        monkeypatch.setattr(loading, "_kernels", kernels)
        results.append(answers(frame))
        used.append({f"{name}.{key}" for name in both for key in kernels[name].used})
    for shipped, numbas in zip(*results, strict=True):
        if isinstance(shipped, pd.DataFrame):
            pd.testing.assert_frame_equal(shipped, numbas)
        else:
            assert shipped == numbas
    assert "interpreted" in [one for one in results[0] if isinstance(one, str)]
    assert used[0] == used[1]
    assert {name.rsplit(".", 1)[0] for name in used[0]} == compared
    assert {f"{TREE}.{name}" for name in vars(both[TREE][0])} <= used[0]


def arrays_of(seed: int) -> dict[str, list[tuple]]:
    """Return random arguments for kernels of windows, paths and blocks; the last one is the result."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 400))
    time = np.cumsum(rng.integers(0, 4, n))
    start = np.repeat(np.arange(0, n, 50), 50)[:n]
    end = np.minimum(start + 50, n)
    some = np.flatnonzero(rng.random(n) < 0.3)
    limits = [(time, 7), (time, 7.5), (time / 4, 1.75), (time / 4, 2)]
    found: dict[str, list[tuple]] = {"later_places": [(t, end, np.empty(n, np.int64)) for t, _ in limits]}
    for name, of in (("window_ends", end), ("window_starts", start)):
        found[name] = [(t, of, w, c, np.empty(n, np.int64)) for t, w in limits for c in (0, 1)]
    found["window_starts_of"] = [
        (some, t, of, w, c, np.empty(len(some), np.int64))
        for t, w in limits for c in (0, 1) for of in (start, np.empty(0, np.int64))
    ]  # fmt: skip
    state, sets = rng.integers(0, 5, n).astype(np.uint8), rng.integers(0, 8, n)
    last, window = np.flatnonzero(state == 2), np.maximum(np.arange(n) - 30, 0)
    highest = np.array([max(0, s.bit_length() - 1) for s in range(256)], np.uint8)
    counts, scratch = np.zeros(n, np.uint64), np.zeros((2, 8 * 6), np.uint64)
    found["list_places"] = [((state == 2).view(np.uint8), np.zeros(n + 1, np.int64))]
    found["count_below"] = [(last, window, np.empty(n, np.int64))]
    found["count_apart"] = [(state, last, window[last], 3, *scratch, np.zeros(len(last), np.uint64))]
    found["count_row"] = [(sets.astype(np.uint8), window, highest, np.eye(3, dtype=np.uint64), counts)]
    edges = np.array([0, 1, 2, 2, 3]), np.array([0, 1, 3, 5]), np.array([0, 0, 1], np.uint8)
    paths = np.eye(4, dtype=np.uint64)
    found["count_graph"] = [(sets, window, *edges, np.uint64(1), paths, np.zeros(n, np.uint64))]
    partition, block = rng.integers(0, 6, n).astype(np.int32), rng.integers(0, 2, 6).astype(np.int32)
    first = np.array([0, np.count_nonzero(block[partition] == 0)])
    found["count_events"] = [(partition, 0, block, np.zeros(2, np.int64))]
    found["scatter_events"] = [
        (partition, 5, 0, -1, block, first.copy(), np.empty(n, np.int32), np.empty(n, of))
        for of in (np.int32, np.int64)
    ]
    values = [rng.integers(0, 256, n).astype(f"u{width}") for width in (1, 2, 4, 8)]
    found["scatter_column"] = [(partition, 0, block, first.copy(), of, np.empty_like(of)) for of in values]
    return found


@jit
@known
@pytest.mark.parametrize("seed", seeds(1, 20))
def test_windows_paths_and_blocks_are_those_of_plain_python(seed, folder):
    names = {}
    for module in (MATCHES, PLACES):
        shipped, numbas = shipped_and_numbas(module)
        names |= {key: (getattr(shipped, key), getattr(numbas, key)) for key in vars(shipped)}
    others = {"order_by_last", "order_matches", "place_events", "choose_positions"}
    others |= {"fill_short_rows", "fill_long_rows"}
    assert names.keys() == arrays_of(seed).keys() | others
    for name, calls in arrays_of(seed).items():
        for i in range(len(calls)):
            results = []
            for run in (*names[name], names[name][1].py_func):
                given = arrays_of(seed)[name][i]
                with np.errstate(over="ignore"):
                    results.append((run(*given), given[-1].tolist()))
            assert results[0] == results[1] == results[2], (name, i)


# --- a fresh cache ----------------------------------------------------------------------------------------

_QUERY = """
import sys
import pandas as pd
import cepkit as cep
from cepkit import cache
from cepkit.compile.shared import loading as later
frame = pd.DataFrame({"x": [1, 2, 3, 1, 2, 5, 1], "kind": list("ABACBAC"), "t": range(7)})
found = cep.match(frame, "up+ down", define={"up": "x > prev(x)", "down": "x < prev(x)"})
text = "PATTERN SEQ(A a, B b, C c) WHERE b.x > a.x WITHIN 10"
count = cep.match(frame, text, event_type="kind", order_by="t").count()
print(found.count(), len(found.lineage()), found.run.tier, count, "numba" in sys.modules)
if sys.argv[1:]:
    later._thread.join()
"""


def begin(*arguments: str, **environment: str) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-c", _QUERY, *arguments], env={**os.environ, **environment}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


@jit
@known
def test_first_queries_need_no_numba_also_in_two_processes(folder):
    # On a busy machine the queries take so long that they ask for compiled kernels.
    for process in [begin("wait", CEPKIT_BACKGROUND="0") for _ in range(2)]:
        out, err = process.communicate()
        assert out.split() == ["2", "6", "interpreted", "3", "False"], err
    assert {path.suffix for path in folder.iterdir()} <= {".image", ".text"}  # texts wait for a compiler
    assert len(list(folder.glob("cepkit_interpreting_*.image"))) == 1


@jit
@known
def test_shipped_kernels_are_ready(folder, monkeypatch):
    assert all(are_kernels_ready(name) for name in INTERPRETING)
    assert not folder.exists() or not list(folder.glob("*.image"))
    monkeypatch.setenv("NUMBA_OPT", "2")  # the user asks for other machine code
    assert not any(are_kernels_ready(name) for name in INTERPRETING)
    assert load_bitcode(image_name(REGEX)) is None


@jit
@known
def test_a_full_disk_costs_time_only(folder, monkeypatch):
    def full(path, content):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.write_bytes", full)
    with pytest.warns(CepWarning, match="cannot be written"):
        assert loading.load_kernels(MATCHES).place_events
    assert list(folder.iterdir()) == []
    assert are_kernels_ready(MATCHES)


@jit
@known
@pytest.mark.parametrize("lack", ["no folder", "full", "read only"])
def test_queries_without_a_cache(lack, folder, tmp_path, monkeypatch):
    """They are interpreted, and nothing is compiled in the background, which needs a folder."""
    monkeypatch.setattr(loading, "_EVENTS_THAT_PAY", 1)
    monkeypatch.setattr(loading, "compile_in_background", lambda *_: pytest.fail("there is no folder"))
    if lack == "no folder":
        (tmp_path / "file").write_text("")
        monkeypatch.setenv("CEPKIT_CACHE", str(tmp_path / "file" / "kernels"))
    else:

        def fail(path, content):
            raise OSError(28 if lack == "full" else 30, "no")

        monkeypatch.setattr("pathlib.Path.write_bytes", fail)
    frame = stream(1, 100)
    with pytest.warns(CepWarning, match="the cache folder .* cannot be (made|written)"):
        matches = cep.match(frame, "up+ down", define={"up": "x > prev(x)", "down": "x < prev(x)"})
    assert len(matches.lineage()) > matches.count() > 0 and matches.run.tier == "interpreted"
    text = "PATTERN SEQ(A a, B b) WHERE b.x > a.x WITHIN 10"
    matches = cep.match(frame, text, event_type="kind", order_by="t")
    assert matches.count() > 0 and matches.run.tier == "interpreted"


@jit
@known
def test_the_image_serves_the_next_process(folder, monkeypatch):
    loading.load_kernels(MATCHES, quick=False)
    assert image_path(image_name(MATCHES)).exists()
    monkeypatch.setattr(loading, "_kernels", {})
    monkeypatch.setattr(loading, "load_bitcode", lambda *_, **__: pytest.fail("the image is there"))
    assert loading.load_kernels(MATCHES).place_events


@jit
@known
def test_better_code_takes_the_place_of_quick_code(folder, monkeypatch):
    later = []
    monkeypatch.setattr(loading, "run_later", later.append)
    quick = loading.load_kernels(MATCHES)
    assert loading.load_kernels(MATCHES) is quick and not image_path(image_name(MATCHES)).exists()
    with monkeypatch.context() as next_process:  # a short script after a short script
        next_process.setattr(loading, "_kernels", {})
        next_process.setattr(loading, "load_bitcode", lambda *_, **__: pytest.fail("the quick code is there"))
        assert vars(loading.load_kernels(MATCHES)).keys() == vars(quick).keys()
    improve, again = later
    assert improve.args == again.args
    improve()
    better = loading.load_kernels(MATCHES)
    assert better is not quick and vars(better).keys() == vars(quick).keys()
    assert image_path(image_name(MATCHES)).exists()
    [content] = [path.read_bytes() for path in folder.glob("*.image")]
    header, code = bitcode._read(bitcode_path(image_name(MATCHES)))
    made = machine_code(header, llvm().parse_bitcode(code), effort=0)
    assert len(made) > len(content)  # quick code is longer


# --- files that cannot be used ----------------------------------------------------------------------------


def rewritten(content: bytes, **changes) -> bytes:
    """Return a file of bitcode with a changed description and the hash that belongs to it."""
    title, _, header, code = content.split(b"\n", 3)
    described = json.loads(header)
    for name, value in changes.items():
        described[name] = {**described[name], **value} if isinstance(value, dict) else value
    content = json.dumps(described).encode() + b"\n" + code
    return title + b"\n" + hash_of(content) + b"\n" + content


def with_code(content: bytes, code: bytes) -> bytes:
    title, _, header, _ = content.split(b"\n", 3)
    content = header + b"\n" + zlib.compress(code)
    return title + b"\n" + hash_of(content) + b"\n" + content


DAMAGES = {
    "missing": None,
    "empty": lambda whole: b"",
    "other": lambda whole: b"something else",
    "short": lambda whole: whole[: len(whole) // 2],
    "flipped": lambda whole: whole[:-9] + bytes(255 - one for one in whole[-9:]),
    "newer LLVM": lambda whole: rewritten(whole, made={"llvm": [999, 0, 0]}),
    "other layout": lambda whole: rewritten(whole, layout="e-m:e"),
    "no bitcode": lambda whole: with_code(whole, b"BC\xc0\xde nothing that LLVM reads"),
}


@jit
@known
@pytest.mark.parametrize("damage", DAMAGES)
def test_numba_compiles_where_bitcode_is_of_no_use(damage, folder, monkeypatch, tmp_path):
    whole, name = bitcode_path(image_name(MATCHES)).read_bytes(), image_name(MATCHES)
    monkeypatch.setattr(bitcode, "FOLDER", tmp_path)
    if damage != "missing":
        bitcode_path(name).write_bytes(DAMAGES[damage](whole))
    assert has_bitcode(name) == (damage == "no bitcode")  # only LLVM knows
    assert load_bitcode(name) is None
    assert not image_path(name).exists()
    assert loading.load_kernels(MATCHES).place_events
    assert image_path(name).exists()


@jit
def test_other_systems_have_no_bitcode(monkeypatch):
    monkeypatch.setattr(bitcode.sys, "platform", "freebsd14")
    assert not has_bitcode(image_name(REGEX))
