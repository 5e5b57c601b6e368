"""Many Python threads on one frame, processes forked among them, and interrupts in every engine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from random import Random

import numpy as np
import pandas as pd
import pytest

import cepkit as cep
from cepkit.frames import reuse
from tests.support.long_work import MORE_WORKS, WORKS
from tests.support.sizes import seeds

ROOT = Path(__file__).resolve().parents[2]
N_THREADS = 8
LONG_S = 120
SEQUENCE = "PATTERN SEQ(A a, B+ b, C c) WHERE a.x < c.x AND b[i].x > {} WITHIN 12"
KEYWORDS = {"event_type": "kind", "order_by": "t"}
ROWS = """SELECT * FROM f MATCH_RECOGNIZE (PARTITION BY k ORDER BY t MEASURES COUNT(*) AS n, LAST(x) AS x
  PATTERN (a b+) DEFINE b AS b.x > PREV(b.x) + {})"""


@pytest.fixture
def frame(monkeypatch) -> pd.DataFrame:
    """Rows out of order, with texts as objects: the threads share their order and their codes."""
    monkeypatch.setattr(reuse, "FEWEST_ROWS", 1)
    rng = np.random.default_rng(2)
    n = 240
    return pd.DataFrame({
        "t": rng.permutation(n), "kind": pd.Series(rng.choice(list("ABC"), n), dtype=object),
        "k": pd.Series(rng.choice(["x", "y", None], n), dtype=object), "x": rng.integers(0, 30, n),
    })  # fmt: skip


def calls(number: int) -> dict:
    """Return calls by name; the number is a part of the texts, so that they are new."""
    define = {"rise": f"x > prev(x) + {number}", "fall": "x < prev(x)"}
    regex = {"define": define, "partition_by": "k", "order_by": "t"}
    return {
        "regex": lambda f: f.cep.match(". rise+ fall", **regex).to_frame("all"),
        "count": lambda f: f.cep.match(SEQUENCE.format(number), **KEYWORDS).count(),
        "search": lambda f: f.cep.match(SEQUENCE.format(number), engine="search", **KEYWORDS).to_frame(),
        "tag": lambda f: f.cep.tag(". rise+ fall", **regex),
        "sql": lambda f: cep.sql(ROWS.format(number), f=f).to_frame(),
        "window": lambda f: f.cep.window({"s": f"sum(x + {number})"}, length=5, group_by="k", order_by="t"),
        "hybrid": lambda f: f.cep.match(SEQUENCE.format(number), engine=cep.Hybrid(2), **KEYWORDS).to_frame(),
        "aggregate": lambda f: f.cep.match(SEQUENCE.format(number), **KEYWORDS).aggregate(s="sum(a.x)")["s"],
    }


def at_once(works: list) -> list:
    """Return what functions return that begin at the same moment, each in a thread; errors are raised."""
    barrier, found = threading.Barrier(len(works)), [None] * len(works)

    def run(i: int) -> None:
        barrier.wait(LONG_S)
        try:
            found[i] = works[i]()
        except BaseException as error:
            found[i] = error

    threads = [threading.Thread(target=run, args=(i,), daemon=True) for i in range(len(works))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONG_S)
    assert not any(thread.is_alive() for thread in threads)
    for one in found:
        if isinstance(one, BaseException):
            raise one
    return found


def check_same(one, other) -> None:
    if isinstance(one, pd.DataFrame):
        pd.testing.assert_frame_equal(one, other)
    else:
        assert one == other


@pytest.mark.parametrize("name", calls(0))
def test_one_query_in_eight_threads(frame, name):
    """Also while it is compiled for the first time."""
    call = calls(1)[name]
    found = at_once([lambda: call(frame)] * N_THREADS)
    alone = call(frame.copy())
    for one in found:
        check_same(one, alone)


@pytest.mark.parametrize("seed", seeds(1, 12))
def test_many_queries_in_eight_threads(frame, seed):
    draw = Random(seed)
    orders = [draw.choices([*calls(0)], k=4) for _ in range(N_THREADS)]
    numbers = [draw.choice([2, 2 + seed]) for _ in range(N_THREADS)]
    found = at_once([
        lambda order=order, number=number: [calls(number)[name](frame) for name in order]
        for order, number in zip(orders, numbers, strict=True)
    ])  # fmt: skip
    for order, number, answers in zip(orders, numbers, found, strict=True):
        for name, answer in zip(order, answers, strict=True):
            check_same(answer, calls(number)[name](frame.copy()))


def run_script(script: str, **environment: str) -> str:
    """Return what a script prints; it is killed where it hangs."""
    child = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, timeout=10 * LONG_S,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
    )  # fmt: skip
    assert child.returncode == 0, child.stderr[-4000:]
    return child.stdout


FIRST = """
    import threading, warnings
    import numpy as np, pandas as pd
    import cepkit as cep
    warnings.simplefilter("ignore")
    frame = pd.DataFrame({"t": range(300), "kind": list("ABC") * 100, "x": np.arange(300) * 7 % 31})
    text, keywords = "PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 9", {"event_type": "kind", "order_by": "t"}
    define, found, barrier = {"up": "x > prev(x)"}, [], threading.Barrier(8)
    def work(i):
        barrier.wait()
        rows = [cep.match(frame, ". up+", define=define).count(), cep.match(frame, text, **keywords).count()]
        found.append(tuple(rows if i % 2 else rows[:]))
    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    print(len(found), len(set(found)), found[0][0] > 10 and found[0][1] > 10)
"""


@pytest.mark.parametrize("tier", ["compiled", ""])
def test_the_first_queries_of_a_process_come_at_once(tmp_path, tier):
    """The cache is empty: eight threads need the same kernels, and the modules of the package."""
    environment = {"CEPKIT_CACHE": str(tmp_path), "CEPKIT_TIER": tier, "NUMBA_DISABLE_JIT": "0"}
    assert run_script(FIRST, **environment).split() == ["8", "1", "True"]


# --- processes ---------------------------------------------------------------------------------------------

FORKING = """
    import os, signal, sys, threading, time, warnings
    import numpy as np, pandas as pd
    import cepkit as cep
    warnings.simplefilter("ignore")
    frame = pd.DataFrame({"t": range(300), "kind": list("ABC") * 100, "x": np.arange(300) * 7 % 31})
    keywords = {"event_type": "kind", "order_by": "t"}
    def answer(i):
        plus = " + ".join(["a.x"] * (i % 4 + 1))  # queries of several shapes
        text = f"PATTERN SEQ(A a, B b) WHERE {plus} < b.x WITHIN 9"
        return tuple(cep.match(frame, text, engine=e, **keywords).count() for e in ("auto", "search"))
    answer(0)  # the modules are loaded; only then can the package watch over forks
    over = threading.Event()
    def work(r):
        i = r
        while not over.is_set():
            answer(i)
            i += 1
    threads = [threading.Thread(target=work, args=(r,), daemon=True) for r in range(4)]
    for thread in threads: thread.start()
    outcomes = []
    for k in range(FORKS):
        time.sleep(0.002 * k)
        pid = os.fork()
        if pid == 0:
            signal.alarm(100)  # a process that hangs is killed
            ok = answer(k) == answer(k) and answer(100 + k)[0] == answer(100 + k)[1]
            os._exit(0 if ok else 7)
        outcomes.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    over.set()
    for thread in threads: thread.join()
    print(sorted(set(outcomes)))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize("way", ["python", "interpreted", "compiled"])
def test_a_process_that_is_forked_among_threads_answers(tmp_path, way):
    """Threads compile and search when the process forks; the new process has none of these threads."""
    environment = {
        "python": {"NUMBA_DISABLE_JIT": "1"},
        "interpreted": {"NUMBA_DISABLE_JIT": "0", "CEPKIT_TIER": "", "CEPKIT_CACHE": str(tmp_path)},
        "compiled": {"NUMBA_DISABLE_JIT": "0", "CEPKIT_TIER": "compiled", "CEPKIT_CACHE": str(tmp_path)},
    }[way]
    assert run_script(FORKING.replace("FORKS", "3"), **environment) == "[0]\n"


# --- interrupts --------------------------------------------------------------------------------------------

INTERRUPTED = """
    import json, os, signal, sys, threading, time, traceback, warnings
    warnings.simplefilter("ignore")
    import tests.support.long_work as long_work
    known = dict(long_work.WORKS, **long_work.MORE_WORKS)
    sent, places, ignored = [], [], []
    def stop_here(number, frame):
        places.append("".join(traceback.format_stack(frame, limit=12)))
        raise KeyboardInterrupt
    signal.signal(signal.SIGINT, stop_here)
    sys.unraisablehook = lambda lost: ignored.append(repr(lost.object))  # Python drops what finalizers raise
    def interrupt(seconds, taken):
        time.sleep(seconds)
        latest = time.monotonic() + PATIENCE_S
        while time.monotonic() < latest:
            n = len(ignored)  # what LLVM calls while it compiles cannot raise: press Ctrl-C again
            sent.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)
            while len(ignored) == n and time.monotonic() < latest:
                if taken.wait(0.1):
                    return
        print("an interrupt was lost here:", *places[-3:], ignored, sep=chr(10), file=sys.stderr, flush=True)
        os._exit(1)
    for name in NAMES:
        long_work.events(long_work.N)
        before = set(threading.enumerate())
        for seconds in (0.5, 0.25):  # the first one compiles, or loads what is compiled
            came, taken = "ended", threading.Event()
            other = threading.Thread(target=interrupt, args=(seconds, taken), daemon=True)
            other.start()
            try:
                known[name]()
                other.join()
            except KeyboardInterrupt:
                came = time.monotonic() - sent[-1]
                taken.set()
            other.join()
            for _ in range(50):
                left = [t.name for t in set(threading.enumerate()) - before if t.name != "cepkit-later"]
                if not left:
                    break
                time.sleep(0.1)
            print(json.dumps([name, came, left]), flush=True)
"""


@pytest.fixture(scope="module")
def interrupted() -> dict[str, list]:
    """How long two interrupts of each work took, and the threads that were left; all in one process."""
    script = INTERRUPTED.replace("NAMES", repr([*WORKS, *MORE_WORKS]))
    script = script.replace("PATIENCE_S", str(12 * MOST_S))
    environment = {"CEPKIT_THREADS": "3", "NUMBA_DISABLE_JIT": "0"}
    answers: dict[str, list] = {}
    for line in run_script(script, **environment).splitlines():
        name, came, left = json.loads(line)
        answers.setdefault(name, []).append((came, left))
    return answers


MOST_S = 5  # on a machine with other work; the wish is half a second


@pytest.mark.skipif(os.name != "posix", reason="sends SIGINT")
@pytest.mark.parametrize("name", [*WORKS, *MORE_WORKS])
def test_an_interrupt_leaves_no_thread(interrupted, name):
    (first, left), (second, left_again) = interrupted[name]
    assert "ended" not in (first, second), "the work was too short"
    assert left == left_again == []
    assert second < MOST_S  # the first one waits for a compilation, which nobody can interrupt
