"""The benchmarks of event sequences run, at small sizes and as plain Python, and all peers agree."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).with_name("benchmarks")

# In a process of its own: polars takes its number of threads once.
SMALL = f"""
import json, sys
sys.path.insert(0, {str(FOLDER)!r})
import sequence_table as table
parts = [
    table.materialised(1, n=6000, within=1500),
    table.counted(1, n=3000, windows=(500,)),
    table.large(1, n=500, windows=(100, 200)),
    table.unary(1, n=1000, windows=(10, 100)),
    table.closures(1, n=200, within=60),
    table.negated(1, n=200, n_large=400, within=30),
    table.shapes(n_queries=4, n=300, within=40),
    table.enumerated(n=400, within=60, most=1000),
]
rows = [row for part in parts for row in part]
assert all(str(row).startswith(row.what) for row in rows)
print(json.dumps([[row.what[0], row.peer, row.measured, row.ratio] for row in rows]))
"""


@pytest.mark.long
def test_peers_count_the_same_matches():
    for peer in ("polars", "duckdb"):
        pytest.importorskip(peer)
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    run = subprocess.run([sys.executable, "-c", SMALL], env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    rows = json.loads(run.stdout)
    assert {part for part, *_ in rows} == set("abcdefgh")
    assert all(measured >= 0 for _, _, measured, _ in rows)
    peers = {peer.split()[0] for _, peer, _, ratio in rows if ratio is not None}
    assert peers >= {"polars", "DuckDB"}


@pytest.mark.long
def test_first_queries_are_timed():
    code = f"import sys; sys.path.insert(0, {str(FOLDER)!r}); import sequence_table as table; "
    code += "print(*(len(row.what) for row in table.started()))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert len(run.stdout.split()) == 12


SMALL_PARALLEL = f"""
import json, sys
sys.path.insert(0, {str(FOLDER)!r})
import parallel_table as table
parts = [
    table.two_threads(1, n=150, within=20),
    table.beside_auto(1, sizes=((100, 20),)),
    table.simulated(1, n=150, within=20, threads=(6,)),
    table.predicted(1, n=100, n_arrays=60, within=15),
    table.traced(1, n=100, within=15),
]
rows = [row for part in parts for row in part]
assert all(str(row).startswith(row.what) for row in rows)
print(json.dumps([[row.what[0], row.measured] for row in rows]))
"""


@pytest.mark.long
def test_parallel_engines_are_measured():
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    run = subprocess.run(
        [sys.executable, "-c", SMALL_PARALLEL], env=environment, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    rows = json.loads(run.stdout)
    assert {name for name, _ in rows} == set("abcde")
    assert all(measured > 0 for _, measured in rows)
