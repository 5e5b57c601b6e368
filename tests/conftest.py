"""What all tests share: one Spark session, the sizes of runs, and the folder of reference data."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.sizes import case_share, is_full, leave_out_cases, slow_share

# Tests compile what they run, in the foreground; tests/engines/test_interpreted.py has interpretation.
os.environ.setdefault("CEPKIT_TIER", "compiled")
os.environ.setdefault("CEPKIT_BACKGROUND", "0")


def pytest_addoption(parser):
    parser.addoption(
        "--full", action="store_true", help="run the slow tests too, at the sizes that issues name"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc):
    leave_out_cases(metafunc)


def pytest_collection_modifyitems(config, items):
    skip_slow = pytest.mark.skip(reason="slow: runs with --full, and in some runs of CI")
    others = []  # slow tests that are not in the share of this run
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker("spark")
        if "long" in item.keywords:
            item.add_marker("slow")
        if "slow" in item.keywords and not is_full(item):
            item.add_marker(skip_slow)
            others.append(item)
    left_out = set(map(id, others)) if slow_share() is not None else set()
    if left_out:
        config.hook.pytest_deselected(items=[item for item in items if id(item) in left_out])
        items[:] = [item for item in items if id(item) not in left_out]


def pytest_report_header(config):
    lines = []
    if slow_share() is not None:
        lines.append(f"slow cases: {slow_share()} (CEPKIT_SLOW)")
    if case_share() is not None:
        lines.append(f"cases with a seed or many values: {case_share()} (CEPKIT_CASES)")
    return lines


@pytest.fixture(autouse=True)
def no_bars(monkeypatch):
    """Keep progress bars away: on a busy machine they would be among the messages that tests read."""
    monkeypatch.setattr("cepkit.progress.SILENT_S", float("inf"))


@pytest.fixture
def full(request):
    """Whether the test runs at its full size: with ``--full``, or in the share of this run."""
    return is_full(request.node)


@pytest.fixture
def whole(request):
    """Whether the run has ``--full``. A share of the slow cases may try less of each case."""
    return request.config.getoption("--full")


@pytest.fixture(scope="session")
def spark():
    """One session for all tests: two threads, two shuffle partitions, no web page, the fast JVM compiler."""
    pytest.importorskip("pyspark")
    from cepkit.pipelines.spark_session import spark_session

    session = spark_session(cores=2, memory="1g", quick=True)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def reference():
    """The folder of reference data beside the checkout; tests that need it are skipped without."""
    folder = Path(__file__).resolve().parents[2] / "shared"
    if not (folder / "data").is_dir():
        pytest.skip("no reference data beside the checkout")
    return folder
