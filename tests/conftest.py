"""What all tests share: one Spark session, the sizes of runs, and the folder of reference data."""

from __future__ import annotations

import gc
import shutil
import tempfile
from collections import Counter
from functools import cached_property
from pathlib import Path

import pytest

from tests.support import sizes
from tests.support.spark_cases import JAVA, LEAN, connect_process
from tests.support.tiers import TIERS, use_tier

_PACKAGE = Path(__file__).resolve().parents[1] / "cepkit"
_LIST = pytest.StashKey[Path]()  # the file with the names of the tests with Spark


def pytest_addoption(parser):
    parser.addoption("--full", action="store_true", help="run all seeds, and the tests that are marked slow")


def pytest_configure(config):
    sizes.begin(config)
    config.pluginmanager.register(WithExamples())


class WithExamples:
    """Skip modules of the package without doctests: importing kernels would compile all of them.

    This is a plugin, since the hooks of this file serve the folder ``tests`` only.
    """

    def pytest_ignore_collect(self, collection_path):
        is_ours = collection_path.suffix == ".py" and collection_path.is_relative_to(_PACKAGE)
        return True if is_ours and ">>>" not in collection_path.read_text("utf-8") else None


def pytest_collection_finish():
    """Let Python skip the collected tests when it looks for garbage: they are millions of objects."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(config, items):
    skip_slow = pytest.mark.skip(reason="slow: runs with --full")
    on_spark, waiting = set(), set()  # tests with Spark, and files with tests that wait for a browser
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker("spark")
        if "slow" in item.keywords and not sizes.is_full():
            item.add_marker(skip_slow)
        if "spark" in item.keywords:
            on_spark.add(item.nodeid)
        elif "browser" in item.keywords:
            waiting.add(item.path)
    # Short files come last, so that all processes end together.
    items.sort(key=lambda item: (item.nodeid not in on_spark, item.path not in waiting))
    if getattr(config, "workerinput", {}).get("workerid") == "gw0":
        Path(config.workerinput["list of tests with Spark"]).write_text("\n".join(on_spark), "utf-8")


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node):
    """Tell each process of pytest where to write the list of the tests with Spark."""
    if _LIST not in node.config.stash:
        node.config.stash[_LIST] = Path(tempfile.mkdtemp(prefix="cepkit-tests-")) / "spark.txt"
    node.workerinput["list of tests with Spark"] = str(node.config.stash[_LIST])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Let a single process run all tests with Spark, so that there is a single virtual machine of Java."""
    from xdist.scheduler import LoadFileScheduling

    class SparkTogether(LoadFileScheduling):
        @cached_property
        def on_spark(self) -> set[str]:
            path = config.stash[_LIST]
            names = set(path.read_text("utf-8").splitlines())
            shutil.rmtree(path.parent)
            return names

        def _split_scope(self, nodeid):
            return "tests with Spark" if nodeid in self.on_spark else super()._split_scope(nodeid)

    return SparkTogether(config, log) if config.getvalue("dist") == "loadfile" else None


def pytest_report_header(config):
    return f"seeds of turn {sizes.turn()} (CEPKIT_TURN); --full has all seeds"


def pytest_terminal_summary(terminalreporter):
    """Show the minutes that each folder of tests took, in all processes together."""
    seconds: Counter[str] = Counter()
    n_cases: Counter[str] = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                folder = folder_of(report.nodeid)
                seconds[folder] += report.duration
                n_cases[folder] += report.when == "call"
    if not seconds:
        return
    terminalreporter.section("minutes of each folder, in all processes together")
    for folder, took in [*seconds.most_common(), ("total", seconds.total())]:
        n = n_cases[folder] if folder in n_cases else n_cases.total()
        terminalreporter.line(f"{took / 60:6.1f}  {folder} ({n:,} cases)")


def folder_of(nodeid: str) -> str:
    """Return the folder of a test in the table of minutes; ``cepkit`` has the doctests."""
    parts = nodeid.partition("::")[0].split("/")
    return parts[0] if parts[0] != "tests" or len(parts) < 3 else parts[1]


@pytest.fixture(autouse=True)
def no_bars(monkeypatch):
    """Keep progress bars away: on a busy machine they would be among the messages that tests read."""
    monkeypatch.setattr("cepkit.progress.SILENT_S", float("inf"))


@pytest.fixture
def full():
    """Whether the run has ``--full``."""
    return sizes.is_full()


@pytest.fixture(params=TIERS)
def tier(request, monkeypatch):
    """The tier of a random family that is compared with the definition; all other tests have the default."""
    use_tier(request.param, monkeypatch)
    return request.param


@pytest.fixture(scope="session")
def spark():
    """One session for all tests: two threads, two shuffle partitions, no web page, the fast JVM compiler."""
    pytest.importorskip("pyspark")
    from cepkit.pipelines.spark_session import spark_session

    heap = {"spark.driver.extraJavaOptions": f"{JAVA} -Xms600m -Xmn300m"}  # Java would make it larger often
    session = spark_session(cores=2, memory="1g", quick=True, conf=LEAN | heap)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def over_connect(spark):
    """A process with a session of Connect, for ``check_over_connect``; this process has another session."""
    pytest.importorskip("grpc")
    with connect_process(spark) as process:
        yield process


@pytest.fixture(scope="session")
def reference():
    """The folder of reference data beside the checkout; tests that need it are skipped without."""
    folder = Path(__file__).resolve().parents[2] / "shared"
    if not (folder / "data").is_dir():
        pytest.skip("no reference data beside the checkout")
    return folder
