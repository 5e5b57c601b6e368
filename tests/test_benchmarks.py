"""The benchmarks run at small sizes, peers give the same answers, and no setting of ours speeds them up."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).with_name("benchmarks")
sys.path.append(str(FOLDER))
import cases  # noqa: E402
import scale  # noqa: E402
import sequences  # noqa: E402
from children import answer_of, without_settings  # noqa: E402
from rows import Options  # noqa: E402
from run import TABLES, measures  # noqa: E402

SIZE = {"W3": 30_000, "W4": 10_000, "W5": 60_000, "next": 4_000, "siddhi": 300}
NAMES = [name for name in cases.WORKLOADS if name != "siddhi"]


@pytest.mark.parametrize("name", NAMES)
def test_peers_have_the_same_answer(name):
    for library in ("polars", "duckdb"):
        pytest.importorskip(library)
    case = cases.WORKLOADS[name]
    frame = case.frame(SIZE.get(name, 5_000))
    answers = {work: answer_of(call()) for work, call in case.works(frame).items()}
    assert answers and all(answers.values()), f"nothing is found: {answers}"
    peers = {peer: call for peer, call in case.peers(frame).items() if peer not in case.differ}
    answers |= {peer: answer_of(call()) for peer, call in peers.items()}
    assert len(set(map(str, answers.values()))) == 1, answers


@pytest.mark.parametrize("name", ["hard loop", "keys arrow", "head next", *cases.THREADS])
def test_cases_run(name):
    case = cases.CASES[name]
    assert all(answer_of(call()) is not None for call in case.works(case.frame(500)).values())


def test_processes_have_no_settings():
    mine = {"CEPKIT_TIER": "compiled", "CEPKIT_THREADS": "1", "NUMBA_OPT": "0"}
    mine |= {"PYTHONDONTWRITEBYTECODE": "1", "PATH": "/bin"}
    assert without_settings(mine) == {"PATH": "/bin"}


def test_jobs_of_the_scale_table_have_rows(spark, tmp_path):
    scale.write_rows(tmp_path / "rows.parquet", 40_000)
    jobs = scale.jobs(spark.read.parquet(str(tmp_path / "rows.parquet")))
    assert all(not job().isEmpty() for job in jobs.values())
    assert scale.shuffled(spark) > 0


@pytest.mark.parametrize("table", TABLES)
def test_tables_have_rows(table):
    assert measures(table, Options())
    assert not measures(table, Options(only=("no such row",)))


def test_first_queries_are_timed(tmp_path):
    command = [sys.executable, str(FOLDER / "run.py"), "--only", "first sessions", "--rows", "300"]
    command += ["--out", str(tmp_path / "rows.json")]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    [row] = json.loads((tmp_path / "rows.json").read_text())["rows"]
    assert row["name"] == "first sessions 300"
    assert row["figures"].keys() == {"empty", "warm", "warm, second"}
    assert all(value > 0 for value in row["figures"].values())


def test_numbers_and_samples_of_many_matches_are_measured():
    rows = [*sequences.counted(1, n=300, within=60), *sequences.drawn(1, n=300, windows=(30, 100))]
    assert len(rows) == 4 and all(min(row.figures.values()) >= 0 for row in rows)
