"""Long work: another thread or Ctrl-C ends it, and every thread it started ends, too."""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
import time
from random import Random
from types import SimpleNamespace

import pytest
from numba import config

from cepkit import progress as progress_module
from cepkit.compile.shared import loading
from cepkit.compile.shared.loading import load
from cepkit.kernels.jit import njit
from cepkit.progress import (
    SILENT_S,
    Cancellation,
    Cancelled,
    Progress,
    ShareDone,
    cancellable,
    checkpoint,
    hold,
    interrupts_wait,
    run_on_threads,
    say_step,
    show_progress,
    watch_spark,
)
from tests.support.long_work import CALL, WORKS, N, events, matches
from tests.support.sizes import seeds
from tests.support.waiting import wait_until

LONG_S = 120  # a test fails after this time


class Watched(Cancellation):
    """Says after ``n`` checkpoints that the work is under way."""

    def __init__(self, n: int):
        super().__init__()
        self.left, self.is_under_way = n, threading.Event()

    @property
    def is_cancelled(self):
        self.left -= 1
        if self.left <= 0:
            self.is_under_way.set()
        return super().is_cancelled


def outcome_of_cancelling(work, n: int) -> list[BaseException | None]:
    """Cancel ``work`` in the middle; return the exception that ended it, None where it came to its end."""
    ended, before, watched = [], set(threading.enumerate()), Watched(n)

    def run():
        try:
            with cancellable(watched):
                work()
            ended.append(None)
        except BaseException as error:
            ended.append(error)
        finally:
            watched.is_under_way.set()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert watched.is_under_way.wait(LONG_S)
    watched.cancel()
    thread.join(LONG_S)
    assert not thread.is_alive()
    # The first query of a process leaves the thread that waits to improve its kernels.
    left = set(threading.enumerate()) - before
    assert {one.name for one in left} <= {"cepkit-later"}
    return ended


# --- checkpoints -------------------------------------------------------------------------------------------


def test_a_checkpoint_obeys_the_block_around_it():
    outer = Cancellation()
    inner = Cancellation(outer)
    checkpoint()
    with cancellable(outer):
        with cancellable(inner):
            checkpoint()
            inner.cancel()
            with pytest.raises(Cancelled):
                checkpoint()
        checkpoint()
        outer.cancel()
        with pytest.raises(Cancelled):
            checkpoint()
    checkpoint()
    assert Cancellation(outer).is_cancelled and not isinstance(Cancelled(), Exception)


def test_the_share_that_is_done():
    told = []
    done = ShareDone(4, told.append)
    done(1)
    done(1)  # too soon to be reported
    assert told == [0.25]
    ShareDone(0, told.append)(1)
    assert told == [0.25]


def test_results_of_threads_are_in_order():
    assert run_on_threads(lambda i: i * i, 7, 3) == [0, 1, 4, 9, 16, 25, 36]
    assert run_on_threads(lambda i: i, 0, 3) == []


def test_threads_see_the_cancellation_of_the_thread_that_started_them():
    ends = []

    def endless(i):
        try:
            while True:
                checkpoint()
        except Cancelled:
            ends.append(i)
            raise

    (error,) = outcome_of_cancelling(lambda: run_on_threads(endless, 2, 2), 1000)
    assert isinstance(error, Cancelled) and set(ends) <= {0, 1} and ends


@pytest.mark.parametrize("by_stop", [False, True])
def test_an_error_of_one_thread_ends_the_others(by_stop):
    """By their checkpoints, or where there are none by ``stop``."""
    before, stopped = set(threading.enumerate()), threading.Event()

    def work(i):
        if i == 1:
            raise ZeroDivisionError("of one thread")
        while not stopped.is_set():
            if not by_stop:
                checkpoint()

    with pytest.raises(ZeroDivisionError, match="of one thread"):
        run_on_threads(work, 2, 2, stop=stopped.set if by_stop else None)
    assert set(threading.enumerate()) == before


def test_an_error_while_waiting_ends_the_threads():
    before = set(threading.enumerate())

    def endless(i):
        while True:
            checkpoint()

    def on_wait():
        raise ZeroDivisionError("of the thread that waits")

    with pytest.raises(ZeroDivisionError, match="that waits"):
        run_on_threads(endless, 3, 3, on_wait=on_wait)
    assert set(threading.enumerate()) == before


def test_ctrl_c_while_a_thread_begins_waits_for_its_end(monkeypatch):
    """The interrupt comes after the system was asked for the thread, and before the thread runs."""
    made, ends = [], []

    class LateThread(threading.Thread):
        def start(self):
            made.append(self)
            threading.Timer(0.1, super().start).start()
            raise KeyboardInterrupt

        def run(self):
            super().run()
            ends.append(self)

    fake = SimpleNamespace(Thread=LateThread, Semaphore=threading.Semaphore)
    monkeypatch.setattr(progress_module, "threading", fake)
    with pytest.raises(KeyboardInterrupt):
        run_on_threads(lambda i: i, 2, 2)
    assert len(made) == 1 and ends == made


# --- long work ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", WORKS)
def test_long_work_is_cancelled(name, monkeypatch):
    monkeypatch.setenv("CEPKIT_THREADS", "3")
    (error,) = outcome_of_cancelling(WORKS[name], 40)
    assert isinstance(error, Cancelled)


def test_a_thread_that_waits_for_a_compilation_is_cancelled():
    with loading._loading:  # as a thread that compiles does
        (error,) = outcome_of_cancelling(lambda: loading.load("X = 1\n"), 5)
    assert isinstance(error, Cancelled)
    assert loading.load("X = 1\n").X == 1


def test_cancelled_work_can_be_done_again():
    found = matches("search")
    (error,) = outcome_of_cancelling(found.count, 25)
    assert isinstance(error, Cancelled)
    few = events(N).head(N + 50).tail(100).cep.match("PATTERN SEQ(A a, B b) WHERE a.x > b.x", **CALL)
    with cancellable(Cancellation()):
        assert few.count() == int(sum(few.count_by_last()["count"]))


# --- progress bars -----------------------------------------------------------------------------------------


@pytest.fixture
def clock(monkeypatch):
    """A clock that tests set."""
    now = [0.0]
    monkeypatch.setattr(progress_module, "SILENT_S", 1.0)
    monkeypatch.setattr(progress_module.time, "monotonic", lambda: now[0])
    return now


def test_a_second_is_silent():
    assert SILENT_S == 1.0


def test_checkpoints_move_the_bar_of_the_block_around_them(clock, capsys):
    with show_progress("counting matches") as bar:
        for i in range(10):
            clock[0] = i / 4
            checkpoint(i / 10)
            checkpoint()
            assert (bar._bar is None) == (clock[0] < 1.0)
        assert bar._bar.n == 0.9 and bar._bar.total == 1.0
        clock[0] = 3.0
        checkpoint(0.25)  # a second pass fills what is left
        assert bar._bar.n == pytest.approx(0.925)
    assert "counting matches:  90%" in capsys.readouterr().err
    checkpoint(0.5)


@pytest.mark.parametrize("seed", seeds(5, 50))
def test_the_bar_never_goes_back(seed, clock, capsys):
    """Also when a pass begins again, when a share is 1 too soon, and when it is less than 0."""
    rng = Random(seed)
    seen = [0.0]
    with show_progress("searching", rng.choice([None, 1000])) as bar:
        for _ in range(rng.randint(1, 5)):
            shares = [k / 40 for k in range(rng.randint(1, 41))]
            for share in [rng.choice([0.0, -0.0, -1e-9]), *shares, *[1.0] * rng.randint(0, 1)]:
                clock[0] += 0.5
                bar.reach(share)
                assert seen[-1] <= bar._done <= bar._total
                seen.append(bar._done)
    assert not re.search(r"-\d+%|Warning", capsys.readouterr().err)


def test_the_bar_of_a_single_pass_has_its_share(clock, capsys):
    with show_progress("searching") as bar:
        for k in range(100):
            clock[0] += 0.1
            bar.reach(k / 100)
            assert bar._done == pytest.approx(k / 100)


def test_the_estimate_counts_the_silent_second(clock, capsys):
    with show_progress("searching") as bar:
        checkpoint(0.1)
        clock[0] = 1.0
        checkpoint(0.5)
        assert bar._bar.format_dict["elapsed"] >= 1.0  # so half of the work takes another second


def test_a_short_block_is_silent(clock, capsys):
    with show_progress("searching"):
        clock[0] = 0.99
        checkpoint(0.99)
    assert capsys.readouterr() == ("", "")


def test_only_the_outermost_block_of_the_main_thread_has_a_bar(clock, capsys):
    inner = []
    with show_progress("points", 2, takes_checkpoints=False) as bar:
        with show_progress("searching") as other:
            clock[0] = 5.0
            checkpoint(0.5)
        assert other is None and bar._bar is None
        bar(1)
        assert bar._bar.n == 1 and bar._bar.total == 2

    def in_a_thread():
        with show_progress("searching") as silent:
            inner.append(silent)

    thread = threading.Thread(target=in_a_thread)
    thread.start()
    thread.join()
    assert inner == [None]


@pytest.mark.parametrize("total", [None, 100])
def test_the_bar_says_what_takes_so_long(total, monkeypatch, capsys):
    monkeypatch.setattr(progress_module, "SILENT_S", 0.0)
    monkeypatch.setattr(progress_module, "REPORT_S", 0.0)
    with say_step("compiling 0 functions"):  # without a bar around it
        pass
    with show_progress("matches", total) as bar:
        with say_step("compiling 3 functions"):
            wait_until(lambda: "compiling 3 functions" in capsys.readouterr().err)
        bar.reach(0.5)
    begin, shown, _ = capsys.readouterr().err.rpartition(" 50%")
    assert shown and "compiling" not in begin.rpartition("\r")[2]
    assert not [thread for thread in threading.enumerate() if thread.name == "cepkit step"]


@pytest.mark.skipif(os.name != "posix", reason="sends SIGINT")
def test_ctrl_c_waits_for_the_end_of_a_compilation():
    steps = []
    # Spark has a handler of its own, and a job in the background ignores Ctrl-C.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            with interrupts_wait(), interrupts_wait():
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(0.05)
                steps.append("to the end")
            steps.append("never")
        assert steps == ["to the end"]
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.skipif(os.name != "posix" or config.DISABLE_JIT, reason="sends SIGINT while numba compiles")
def test_ctrl_c_while_numba_loads_its_rules_loses_none_of_them(monkeypatch):
    kernel, steps = njit(nogil=True)(lambda x: x + 1), []
    refresh = kernel.typingctx.refresh

    def interrupted_refresh():
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.05)
        refresh()
        steps.append("to the end")

    monkeypatch.setattr(kernel.typingctx, "refresh", interrupted_refresh)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            kernel(1)
        assert steps and set(steps) == {"to the end"}
    finally:
        signal.signal(signal.SIGINT, before)
    assert kernel(1) == 2


def test_a_query_says_that_it_compiles(monkeypatch, capsys):
    steps = []
    monkeypatch.setattr(Progress, "tick", lambda self, step: steps.append(step))
    monkeypatch.setenv("CEPKIT_TIER", "compiled")
    with show_progress("counting matches"):
        load("import time\ntime.sleep(0.3)\n")
    assert steps[0] == "compiling the kernel of the query" and steps[-1] == ""


def test_threads_count_into_one_bar(capsys):
    with show_progress("events", 4000) as bar:
        run_on_threads(lambda i: [bar(1) for _ in range(1000)], 4, 4)
        assert bar._done == 4000


@pytest.mark.parametrize("name", WORKS)
def test_long_work_tells_its_share(name, monkeypatch, capsys):
    """Until Ctrl-C: from the second that is silent on, a bar is shown."""
    monkeypatch.setenv("CEPKIT_THREADS", "1")
    monkeypatch.setattr(progress_module, "SILENT_S", 0.0)
    monkeypatch.setattr(progress_module, "REPORT_S", 0.0)
    shares, reach = [], Progress.reach

    def stop_after_some(self, share):
        reach(self, share)
        shares.append(share)
        if len(shares) == 12:
            raise KeyboardInterrupt

    monkeypatch.setattr(Progress, "reach", stop_after_some)
    with pytest.raises(KeyboardInterrupt) as caught:
        WORKS[name]()
    assert "%|" in capsys.readouterr().err
    assert caught.value._render_traceback_()[0].startswith("KeyboardInterrupt: stopped after ")


def test_a_notebook_shows_one_line_for_an_interrupt(monkeypatch, capsys):
    shells = pytest.importorskip("IPython.core.interactiveshell")
    shell = shells.InteractiveShell.instance()
    shell.run_cell(
        "from cepkit.progress import show_progress\nwith show_progress('x'):\n    raise KeyboardInterrupt"
    )
    shown = capsys.readouterr().out.strip().splitlines()
    assert len(shown) == 1 and shown[0].startswith("KeyboardInterrupt: stopped after ")


class Tracker:
    """A status tracker with one job of two stages."""

    def __init__(self):
        self.looks = 0

    def getActiveJobsIds(self):
        self.looks += 1
        return [7]

    def getJobInfo(self, job):
        return SimpleNamespace(stageIds=[1, 2])

    def getStageInfo(self, stage):
        return SimpleNamespace(numTasks=4, numCompletedTasks=4 if stage == 1 else min(4, self.looks))


def test_spark_tasks_move_a_bar(monkeypatch, capsys):
    tracker = Tracker()
    context = SimpleNamespace(statusTracker=lambda: tracker)
    spark = SimpleNamespace(SparkContext=SimpleNamespace(_active_spark_context=context))
    monkeypatch.setitem(sys.modules, "pyspark", spark)
    monkeypatch.setattr(progress_module, "SILENT_S", 0.0)
    monkeypatch.setattr(progress_module, "REPORT_S", 0.005)
    with watch_spark("Spark tasks"):
        wait_until(lambda: tracker.looks > 4)
    err = capsys.readouterr().err
    assert "Spark tasks:" in err and "100%" in err
    assert not any(thread.name == "cepkit Spark" for thread in threading.enumerate())


@pytest.fixture
def interrupts():
    """Yield a function that raises KeyboardInterrupt in the main thread after some seconds; 0 cancels it."""
    if not hasattr(signal, "setitimer"):
        pytest.skip("this system has no timer for signals")
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    yield lambda seconds: signal.setitimer(signal.ITIMER_REAL, seconds)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def is_free(lock) -> bool:
    found = []
    other = threading.Thread(target=lambda: found.append(lock.acquire(blocking=False) and not lock.release()))
    other.start()
    other.join()
    return found[0]


@pytest.mark.parametrize("make", [threading.Lock, threading.RLock])
@pytest.mark.parametrize("seed", range(3))
def test_no_lock_is_kept_after_ctrl_c(seed, make, interrupts):
    """One interrupt in ten came when the lock was taken, but its block had not begun."""
    rng, n_interrupts, lock = Random(seed), 0, make()
    while n_interrupts < 300:
        try:
            interrupts(rng.uniform(1e-6, 3e-5))
            for _ in range(30):
                with hold(lock):
                    pass
            interrupts(0)
        except KeyboardInterrupt:
            n_interrupts += 1
        assert is_free(lock), n_interrupts


@pytest.mark.parametrize("make", [threading.Lock, threading.RLock])
def test_a_thread_that_waits_for_a_lock_can_be_cancelled(make):
    lock, errors = make(), []

    def work():
        try:
            with cancellable(waiting), hold(lock):
                pass
        except BaseException as error:
            errors.append(error)

    waiting = Watched(3)
    with hold(lock):
        other = threading.Thread(target=work)
        other.start()
        assert waiting.is_under_way.wait(LONG_S)
        waiting.cancel()
        other.join(LONG_S)
    assert [type(error) for error in errors] == [Cancelled]
    assert is_free(lock)


def test_a_thread_holds_an_rlock_again():
    lock = threading.RLock()
    with hold(lock), hold(lock):
        assert not is_free(lock)
    assert is_free(lock)


def test_a_saved_notebook_does_not_name_the_bar():
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat.v4")
    cell = nbformat.new_code_cell(
        "from cepkit import progress\n"
        "progress.SILENT_S = progress.REPORT_S = 0\n"
        "with progress.show_progress('searching') as shown:\n"
        "    progress.checkpoint(0.5)\n"
        "print(hasattr(shown._bar, 'container'))"
    )
    notebook = nbformat.new_notebook(cells=[cell])
    environment = {name: value for name, value in os.environ.items() if name != "TQDM_DISABLE"}
    nbclient.NotebookClient(notebook, timeout=LONG_S).execute(env=environment)
    bar, said = cell.outputs
    assert said.text == "True\n"
    assert dict(bar.data) == {"text/html": ""}
