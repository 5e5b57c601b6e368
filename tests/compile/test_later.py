"""Work that waits until the user has the first answers."""

from __future__ import annotations

import subprocess
import sys
import threading

from cepkit.compile.shared import loading as later


def test_works_run_one_by_one_in_one_thread(monkeypatch):
    monkeypatch.setattr(later, "_DELAY_S", 0.01)
    monkeypatch.setattr(later, "_thread", None)
    done, all_done = [], threading.Event()
    for k in range(3):
        later.run_later(lambda k=k: done.append((k, threading.current_thread().name)))
    later.run_later(all_done.set)
    assert all_done.wait(10)
    assert done == [(k, "cepkit-later") for k in range(3)]


def test_a_second_work_begins_after_the_thread_has_ended(monkeypatch):
    monkeypatch.setattr(later, "_DELAY_S", 0.01)
    monkeypatch.setattr(later, "_thread", None)
    for _ in range(2):
        done = threading.Event()
        later.run_later(done.set)
        assert done.wait(10)
        later._thread.join(10)
        assert not later._thread.is_alive()


def test_a_short_process_does_not_wait_for_it():
    """It ends with the work that runs, and begins no other."""
    program = """
import time
from cepkit.compile.shared import loading as later
later._DELAY_S = 0.05
later.run_later(lambda: (time.sleep(0.5), print("one")))
later.run_later(lambda: print("two"))
time.sleep(0.3)
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (run.returncode, run.stdout, run.stderr) == (0, "one\n", "")


def test_a_long_kernel_is_not_compiled_in_the_background(monkeypatch, tmp_path):
    """It would take minutes and gigabytes, long after the answer is there."""
    monkeypatch.setenv("CEPKIT_CACHE", str(tmp_path))
    asked = []
    monkeypatch.setattr(later, "compile_in_background", lambda *request: asked.append(request))
    for n_lines in (later._MOST_LINES + 1, later._MOST_LINES):
        assert not asked
        later.compile_if_it_pays("import math\n" + "\n" * (n_lines - 1), 10_000_000)
    assert len(asked) == 1


def test_a_kernel_is_ready_when_all_of_its_functions_are_compiled(monkeypatch, tmp_path):
    """Another process keeps them one by one, and the text for as long."""
    monkeypatch.setenv("CEPKIT_CACHE", str(tmp_path / "kernels"))
    monkeypatch.setattr(later, "_LOOK_AGAIN_S", 0.0)
    monkeypatch.setattr(later, "_READ_AGAIN_S", 0.0)
    text = "half = 1  # the text of a kernel\n"
    name = later._name_of(text)
    first, asked = (later.kept_path(f"{name}{end}") for end in (".half.0.kernel", later._REQUEST))
    assert later.keep(first, b"machine code") and later.keep(asked, text.encode())
    assert not later.is_ready(text)
    later.load_requests(str(asked.parent))
    assert not asked.exists()
    assert name in later._names_in(asked.parent)
