"""What all tests share: one Spark session, the option ``--full``, and the folder of reference data."""

from __future__ import annotations

from pathlib import Path

import pytest


def pytest_addoption(parser):
    parser.addoption(
        "--full", action="store_true", help="run the slow tests too, at the sizes that issues name"
    )


def pytest_collection_modifyitems(config, items):
    skip_slow = pytest.mark.skip(reason="slow: runs with --full")
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker("spark")
        if "slow" in item.keywords and not config.getoption("--full"):
            item.add_marker(skip_slow)


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
