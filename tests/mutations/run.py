"""Apply one-line faults to a copy of the tree, run the tests of their room, and report what nobody notices.

``python tests/mutations/run.py`` runs, for each fault, the tests that CI runs for its room, up to the first
failure. A failure counts only if the same test passes without the fault.
"""

from __future__ import annotations

import argparse
import os
import queue
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from faults import ROOT, Fault, read_faults

_NOT_COPIED = (".git", ".venv", "__pycache__", ".artefacts", ".pytest_cache", ".ruff_cache", "node_modules")
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+\.py(?:::.*?)?)(?: - .*)?$", re.M)
_PYTEST = (sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider")
_BITCODE = Path("cepkit", "kernels", "bitcode")
_NO_END = "no end"
_NO_FAILURE, _NOT_FOUND, _NO_TESTS = 0, 4, 5  # exit codes of pytest


@dataclass(frozen=True)
class Verdict:
    """What happened to a fault: ``caught``, ``survived`` or ``unclear``, which test saw it, and seconds."""

    fault: Fault
    what: str
    test: str
    seconds: float

    def __str__(self) -> str:
        return f"{self.what:<9} {self.fault.id:<38} {self.seconds:5.0f} s  {self.test}"


class Copies:
    """Copies of the tree: a clean one, and one for each job."""

    def __init__(self, folder: Path, n_jobs: int, limit_s: float) -> None:
        self._limit_s = limit_s
        self._environment = {"CEPKIT_CACHE": str(folder / "cache"), **os.environ}
        self._environment["PYTHONPATH"] = ""
        (folder / "cache").mkdir(mode=0o700)
        data = ROOT.parent / "shared"  # reference data beside the checkout
        if data.is_dir():
            (folder / "shared").symlink_to(data)
        self._free: queue.Queue[Path] = queue.Queue()
        for number in range(n_jobs):
            self._free.put(_copied(folder / f"copy_{number}"))
        self._clean = _copied(folder / "clean")

    @contextmanager
    def with_fault(self, fault: Fault) -> Iterator[Path]:
        """Yield a copy with a fault."""
        copy = self._free.get()
        path = copy / fault.file
        text = path.read_text(encoding="utf-8")
        is_shipped = fault.file.startswith("cepkit/kernels/")
        try:
            path.write_text(fault.applied(text), encoding="utf-8")
            if is_shipped:  # else tests run compiled kernels while the background compiles these
                subprocess.run([sys.executable, "-m", "cepkit.commands.ship"], cwd=copy, check=True)
            yield copy
        finally:
            path.write_text(text, encoding="utf-8")
            if is_shipped:
                shutil.rmtree(copy / _BITCODE)
                shutil.copytree(ROOT / _BITCODE, copy / _BITCODE)
            self._free.put(copy)

    def first_failure(self, copy: Path, tests: list[str]) -> str | None:
        """Return the test that fails first, None if all pass. A run may take too long because others run."""
        command = [*_PYTEST, "-x", *tests]
        try:
            run = subprocess.run(
                command,
                cwd=copy,
                env=self._environment,
                capture_output=True,
                text=True,
                timeout=self._limit_s,
            )
        except subprocess.TimeoutExpired:
            return _NO_END
        if run.returncode == _NO_FAILURE:
            return None
        if run.returncode == _NO_TESTS:
            raise RuntimeError(f"no test in {' '.join(tests)}")
        failed = _FAILED.search(run.stdout)
        return failed[1] if failed else f"exit code {run.returncode}: {run.stdout[-200:]}{run.stderr[-200:]}"

    def failures_without_fault(self, tests: set[str]) -> set[str]:
        """Return those of some tests that fail without a fault too. What has no name is none of them."""
        named = sorted(test for test in tests if test.startswith("tests/"))
        if not named:
            return set()
        given = {"cwd": self._clean, "env": self._environment, "capture_output": True, "text": True}
        run = subprocess.run([*_PYTEST, *named], **given)
        if run.returncode == _NOT_FOUND:  # a name with signs that the summary cuts
            run = subprocess.run([*_PYTEST, *sorted({test.partition("[")[0] for test in named})], **given)
        failed = {found[1] for found in _FAILED.finditer(run.stdout)}
        return failed | {test for test in tests if test.partition("[")[0] in failed}


def _copied(to: Path) -> Path:
    shutil.copytree(ROOT, to, ignore=shutil.ignore_patterns(*_NOT_COPIED), symlinks=True)
    return to


def judge(fault: Fault, selections: list[list[str]], copies: Copies) -> Verdict:
    """Run some selections of tests, one after the other, and return what they say of a fault."""
    began = time.perf_counter()
    with copies.with_fault(fault) as copy:
        for tests in selections:
            failed = copies.first_failure(copy, tests)
            if failed is not None:
                return Verdict(fault, "caught", failed, time.perf_counter() - began)
    return Verdict(fault, "survived", "", time.perf_counter() - began)


def main() -> None:
    """Judge the faults and print the survivors."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", action="append", default=[], metavar="ROOM/ID", help="a room or a fault")
    parser.add_argument(
        "--whole", action="store_true", help="run the whole suite for what its room lets through"
    )
    parser.add_argument("--quick", action="store_true", help="run only the tests that should see a fault")
    parser.add_argument("--jobs", type=int, default=1, help="how many run at a time, at most one a core")
    parser.add_argument("--limit", type=float, default=600, help="seconds for a selection of tests")
    asked = parser.parse_args()
    rooms, faults = read_faults()
    faults = [f for f in faults if not asked.only or any(f"{f.id}/".startswith(f"{o}/") for o in asked.only)]
    if not faults:
        parser.error(f"no fault {' '.join(asked.only)}")
    n_jobs = max(1, min(asked.jobs, os.cpu_count() or 1))
    verdicts = []
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        copies = Copies(Path(folder), n_jobs, asked.limit)

        def work(fault: Fault) -> None:
            selections = [list(fault.seen_by), rooms[fault.room], ["tests"]]
            selections = selections[: 1 if asked.quick else 3 if asked.whole else 2]
            verdicts.append(judge(fault, selections, copies))
            print(verdicts[-1], flush=True)

        with ThreadPoolExecutor(n_jobs) as pool:
            list(pool.map(work, faults))
        failing = copies.failures_without_fault({verdict.test for verdict in verdicts})
    verdicts = [replace(v, what="unclear") if v.test in {_NO_END, *failing} else v for v in verdicts]
    others = [verdict for verdict in verdicts if verdict.what != "caught"]
    print(
        f"\n{len(verdicts) - len(others)} of {len(verdicts)} caught ({1 - len(others) / len(verdicts):.0%})"
    )
    for verdict in others:
        print(f"{verdict.what}: {verdict.fault.id} breaks {verdict.fault.breaks} ({verdict.fault.file})")
    sys.exit(len(others) > 0.1 * len(verdicts))


if __name__ == "__main__":
    main()
