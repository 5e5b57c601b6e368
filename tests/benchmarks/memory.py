"""The memory that a call takes beside the columns that it reads, each in a fresh process, on Linux.

``peak`` is the most memory of the call beyond the frame, and ``held`` what stays while its result lives, the
result's own columns aside in both. Both are multiples of the columns. A small call comes first.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pandas as pd
from cases import CALLS, typed
from children import without_settings
from rows import Measured, Options, Row


def rare(n_rows: int) -> pd.DataFrame:
    """Return events of which a quarter is named by the pattern."""
    return typed(n_rows, 0.25)


KINDS = {  # the goal for the peak, the columns that the call reads, and another frame
    "regex": (1.0, ["ts", "symbol", "price"]), "MATCH_RECOGNIZE": (1.0, ["symbol", "ts", "price"]),
    "sequence count": (2.0, ["t", "kind", "x"], rare), "sequence list": (2.0, ["t", "kind", "x"], rare),
    "next list": (2.0, ["t", "kind", "x"], rare), "window": (1.5, ["ts", "price"]),
    "sessions": (1.5, ["ts", "user"]), "runs": (1.5, ["ts", "user", "price"]),
    "funnel": (1.5, ["t", "kind", "x"], rare), "funnel of steps": (1.5, ["ts", "user", "kind"]),
}  # fmt: skip
USUAL = 3_000_000  # rows


def table(options: Options) -> list[Measured]:
    """Peak memory of calls beside the columns that they read, and what their results keep."""
    sizes = options.rows or (USUAL,)
    return [partial(measure, kind, n) for n in sizes for kind in KINDS if options.wants(f"memory {kind}")]


def measure(kind: str, n_rows: int) -> Iterator[Row]:
    """Yield what a call of this kind takes, in multiples of its columns."""
    command = [sys.executable, __file__, kind, str(n_rows)]
    done = subprocess.run(command, env=without_settings(os.environ), capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr)
    taken = json.loads(done.stdout.splitlines()[-1])
    columns, goal = taken["columns"], KINDS[kind][0]
    figures = {name: (taken[name] - taken["result"]) / columns for name in ("peak", "held")}
    figures = {**figures, "MB of columns": columns / 1e6, "MB of result": taken["result"] / 1e6}
    yield Row(f"memory {kind}, {n_rows:,} rows", figures, f"peak <= {goal}")


def of_process(name: str) -> int:
    """Return a line of what the system says of the memory of this process, in bytes."""
    fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return 1024 * int(fields[name].split()[0])


def main() -> None:
    """Print what a call takes, for `measure`."""
    kind, n_rows = sys.argv[1], int(sys.argv[2])
    usual, call = CALLS[kind]
    _, names, make = (*KINDS[kind], usual)[:3]
    call(make(1000))
    frame = make(n_rows)[names].copy()
    columns = int(frame.memory_usage(index=False, deep=True).sum())
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", lambda _: None)
    trim(0)
    before = of_process("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins again
    result = call(frame)
    peak = of_process("VmHWM") - before
    gc.collect()
    trim(0)
    held = of_process("VmRSS") - before
    is_frame = isinstance(result, pd.DataFrame)
    size = int(result.memory_usage(index=False, deep=True).sum()) if is_frame else 0
    print(json.dumps({"columns": columns, "peak": peak, "held": held, "result": size}))


if __name__ == "__main__":
    main()
