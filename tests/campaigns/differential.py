"""Run the differential campaign: random queries of every language on random streams, against the oracles.

As a program it runs for some minutes, and adds to the counts of earlier runs::

    python -m tests.campaigns.differential --minutes 30 --folder results

The folder gets ``counts.json``, ``table.txt`` and, one after the other, the differences.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cepkit import progress
from tests.campaigns.questions import check_idioms
from tests.campaigns.regexes import check_regex
from tests.campaigns.row_patterns import check_row_patterns
from tests.campaigns.sequences import check_sequences
from tests.campaigns.siddhi_patterns import check_siddhi
from tests.campaigns.tally import Tally
from tests.campaigns.windows_and_joins import check_joins, check_windows


@dataclass(frozen=True)
class Part:
    """A part of the campaign: its check, the streams of a query, and the queries of a round.

    One of ``compiled_every`` queries is compiled, on ``n_compiled`` streams; 0: what is never compiled.
    """

    check: Callable[..., None]
    n_streams: int
    n_queries: int = 1
    n_compiled: int = 0
    compiled_every: int = 0


PARTS = {
    "regex": Part(check_regex, 1000, 3, 3000, compiled_every=4),
    "sequences": Part(check_sequences, 400, 3, 600, compiled_every=16),
    "match_recognize": Part(check_row_patterns, 300, 3),
    "siddhi": Part(check_siddhi, 200, 3),
    "windows": Part(check_windows, 12),
    "joins": Part(check_joins, 10),
    "idioms": Part(check_idioms, 1500, 1, 1500, compiled_every=20),
}


def check_one(
    name: str, seed: int, tally: Tally, *, compiled: bool = False, n_streams: int | None = None
) -> None:
    """Compare one random query of a part. An error of the check itself is a difference, too."""
    part = PARTS[name]
    n_streams = n_streams or (part.n_compiled if compiled else part.n_streams)
    try:
        part.check(seed, n_streams, tally, compiled=compiled)
    except Exception:
        tally.fail(
            name, "the check itself", "", f"seed {seed}, {n_streams} streams\n{traceback.format_exc()}"
        )


def run(folder: Path, minutes: float, names: list[str]) -> Tally:
    """Run rounds until the time is over. Seeds go on where the last run in this folder ended."""
    folder.mkdir(parents=True, exist_ok=True)
    tally, first = _read(folder / "counts.json")
    end, told = time.monotonic() + 60 * minutes, len(tally.differences)
    number, shown = first, time.monotonic()
    while time.monotonic() < end:
        for name in names:
            part = PARTS[name]
            for seed in range(number * part.n_queries, (number + 1) * part.n_queries):
                compiled = part.compiled_every > 0 and seed % part.compiled_every == 0
                check_one(name, seed, tally, compiled=compiled)
        number += 1
        for text in tally.differences[told:]:
            with open(folder / "differences.txt", "a", encoding="utf-8") as file:
                file.write(f"{text}\n\n")
        told = len(tally.differences)
        if time.monotonic() - shown > 20 or time.monotonic() > end:
            _write(folder, tally, number)
            shown = time.monotonic()
    _write(folder, tally, number)
    return tally


def _read(path: Path) -> tuple[Tally, int]:
    tally = Tally()
    if not path.is_file():
        return tally, 0
    kept = json.loads(path.read_text())
    for name in ("cases", "queries", "found"):
        getattr(tally, name).update(kept[name])
    for name in ("compared", "not_run"):
        setattr(tally, name, Counter({tuple(key): n for key, n in kept[name]}))
    tally.differences += kept["differences"]
    return tally, kept["next"]


def _write(folder: Path, tally: Tally, number: int) -> None:
    kept = {name: getattr(tally, name) for name in ("cases", "queries", "found", "differences")}
    kept |= {
        name: [[list(key), n] for key, n in getattr(tally, name).items()] for name in ("compared", "not_run")
    }
    part = folder / "counts.part"
    part.write_text(json.dumps({**kept, "next": number}))
    os.replace(part, folder / "counts.json")
    (folder / "table.txt").write_text(tally.table() + "\n")


def main() -> None:
    """Read the arguments, run, and print the counts."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--parts", nargs="*", default=[*PARTS], choices=[*PARTS])
    given = parser.parse_args()
    progress.SILENT_S = float("inf")
    print(run(given.folder, given.minutes, given.parts).table())


if __name__ == "__main__":
    main()
