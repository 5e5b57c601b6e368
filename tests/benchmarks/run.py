"""Print how fast cepkit is for its users, beside C and plain idioms: ``python tests/benchmarks/run.py``.

What a row compares comes from one run: quote its ratios, not its times. Figures are milliseconds where
nothing else is said. The tables of the default path start fresh processes with default settings.
"""

from __future__ import annotations

import argparse
import compileall
import importlib
import importlib.util
import json
import os
import platform
import sys
import time
from pathlib import Path

from rows import Measured, Options

TABLES = {  # and where they are; those of the first line are the default path
    "calls": "default_path.calls", "first": "default_path.first", "head": "default_path.heads",
    "next": "default_path.next_matches", "threads": "default_path.threads", "keys": "default_path.keys",
    "hard": "default_path.hard", "sequences": "sequences.table", "esper": "esper.table",
    "push": "streams.push", "memory": "memory.table",
}  # fmt: skip
PROGRAMS = {  # with options of their own
    "spark": "spark_streaming", "reactions": "reactions", "shedding": "live_shedding",
    "recorded": "recorded_shedding", "soak": "soak_shedding", "endless": "streams", "scale": "scale",
}  # fmt: skip
EXAMPLES = """examples:
  run.py --list                              the tables
  run.py calls                               a table
  run.py calls --only W3 --rows 100000       some rows of it, at one size
  run.py --only "first window"               one row of any table
  run.py spark --help                        a program: spark, scale, reactions, soak, endless, …
"""


def load() -> float:
    """Return how many processes wanted a core during the last minute."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")


def measures(table: str, options: Options) -> list[Measured]:
    """Return what measures the rows of a table."""
    module, _, name = TABLES[table].partition(".")
    return list(getattr(importlib.import_module(module), name)(options))


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tables", nargs="*", metavar="TABLE", help=f"{', '.join(TABLES)} (default: all)")
    parser.add_argument("--only", action="append", default=[], help="rows whose name has this text")
    parser.add_argument("--rows", type=int, nargs="+", default=[], help="sizes instead of the usual ones")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of what is compared (default: 5)")
    parser.add_argument("--out", type=Path, help="also write the figures there as JSON")
    parser.add_argument("--list", action="store_true", help="say what each table has")
    return parser


def main() -> None:
    """Print the tables."""
    if sys.argv[1:2] and sys.argv[1] in PROGRAMS:
        program = PROGRAMS[sys.argv.pop(1)]
        importlib.import_module(program).main()
        return
    asked = parser().parse_args()
    unknown = [name for name in asked.tables if name not in TABLES]
    if unknown:
        parser().error(f"no table {unknown[0]!r}; there are {', '.join(TABLES)}")
    if asked.list:
        for name, place in TABLES.items():
            module, _, function = place.partition(".")
            print(f"{name:<13} {getattr(importlib.import_module(module), function).__doc__}")
        return
    options = Options(tuple(asked.rows), asked.rounds, tuple(asked.only))
    for folder in importlib.util.find_spec("cepkit").submodule_search_locations:
        compileall.compile_dir(folder, quiet=1)  # as an installer does
    kept, failed, began = [], [], time.perf_counter()
    for name in asked.tables or TABLES:
        for measured in measures(name, options):
            try:
                for row in measured():
                    print(row, flush=True)
                    kept.append(row)
            except Exception as error:  # the other rows are worth their time
                failed.append(error)
                print(f"failed: {error!r}", file=sys.stderr, flush=True)
    machine = f"Python {platform.python_version()}, {platform.machine()}, {os.cpu_count()} cores"
    print(f"\n{machine}, load {load():.1f}; {time.perf_counter() - began:.0f} s")
    if asked.out:
        asked.out.write_text(json.dumps({"rows": [vars(row) for row in kept], "load": load()}, indent=1))
    sys.exit(len(failed) > 0)


if __name__ == "__main__":
    main()
