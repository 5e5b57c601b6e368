"""The same queries in Esper, where Maven can bring it; ``run.py esper``.

Esper 9 in a warm JVM: the least CPU time of several runs over events that lie in its memory, as objects. Its
match of rows is another one than ours, so the numbers of results may differ for W1 and W2.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pandas as pd
from cases import KEYED_WITHIN, LEAST_SIZE, WITHIN, WORKLOADS
from rows import Measured, Options, Row, in_turns

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tests.support.peers import class_path

_ROWS = """select * from Event match_recognize (partition by symbol measures {} pattern ({}) define {})"""
_ENDS = "A.ts as a, {}.ts as z"
_ABC = """select a.t, b.t, c.t from pattern [every a=Event(kind='A') -> (every b=Event(kind='B', x > a.x{key})
  -> every c=Event(kind='C', x > b.x{key})) where timer:within({within} msec)]"""
# Esper's timer ends before the last instant of a window, which ours includes: one millisecond more.
QUERIES = {
    "W1": _ROWS.format(
        _ENDS.format("F"), "A R+ D+ S+ E* F",
        "R as R.price > A.price and R.price >= prev(R.price), S as S.price > A.price and S.price >= "
        "prev(S.price), D as D.price >= A.price and D.price < prev(D.price), E as E.price >= A.price and "
        "E.price < prev(E.price), F as F.price < A.price and F.price < prev(F.price)",
    ),
    "W2": _ROWS.format(
        _ENDS.format("D"), "A R+ D",
        f"A as A.size > {LEAST_SIZE}, R as R.price > prev(R.price), D as D.price < prev(D.price)",
    ),
    "W3": _ABC.format(key="", within=WITHIN + 1),
    "W4": f"""select a.t, c.t from pattern [every a=Event(kind='A') -> (every c=Event(kind='C')
      and not Event(kind='B', x > a.x)) where timer:within({WITHIN + 1} msec)]""",
    "W5": _ABC.format(key=", key = a.key", within=KEYED_WITHIN + 1),
}  # fmt: skip


def _spelled(frame: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """Return the frame with times in milliseconds, and the column of times."""
    clock = "ts" if "ts" in frame else "t"
    times = frame[clock]
    if times.dtype.kind == "M":
        times = times.astype("datetime64[ms]").astype("int64")
    return frame.assign(**{clock: times}), clock


def _compared(name: str, n_rows: int, repeats: int) -> Iterator[Row]:
    jars = class_path("esper")
    if jars is None:
        yield Row(f"esper {name} {n_rows:,}: skipped, Maven cannot bring Esper here", {})
        return
    case = WORKLOADS[name]
    frame = case.frame(n_rows)
    spelled, clock = _spelled(frame)
    kinds = {"i": "long", "f": "double"}
    names = [f"{column}:{kinds.get(of.kind, 'string')}" for column, of in spelled.dtypes.items()]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "events.tsv"
        path.write_text("\t".join(names) + "\n" + spelled.to_csv(sep="\t", index=False, header=False))
        program = str(Path(__file__).with_name("Esper.java"))
        command = ["java", "-Xmx4g", "-cp", jars, program, QUERIES[name], str(path), clock, str(repeats + 2)]
        run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode:
        raise RuntimeError(run.stderr[:300])
    cost, found = min(
        (float(cost), int(found)) for cost, found in map(str.split, run.stdout.splitlines()[2:])
    )
    ((ours, result),) = in_turns(repeats, case.works(frame)["frame"])
    figures = {"ms": 1e3 * ours, "rows": len(result), "Esper": 1e3 * cost, "its rows": found}
    yield Row(f"esper {name} {n_rows:,}", figures | {"Esper / ours": cost / ours}, ">= 15")


def table(options: Options) -> Iterator[Measured]:
    """W1 to W5 in Esper 9, in a warm JVM, where Maven can bring it."""
    for name in QUERIES:
        for n_rows in options.rows or (1_000_000,):
            if options.wants(f"esper {name} {n_rows:,}"):
                yield partial(_compared, name, n_rows, min(3, options.rounds))
