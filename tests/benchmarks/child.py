"""The process that `children.Child` starts: it reads the name of a work from stdin and writes what it took.

It imports what a user has imported before a first query: cepkit, pandas and numpy, and nothing else.
"""

from __future__ import annotations

import json
import pickle
import sys
from pathlib import Path

import cases
from children import Taken, timed


def main() -> None:
    """Serve until stdin ends."""
    case = cases.CASES[sys.argv[1]]
    frame = pickle.loads(Path(sys.argv[2]).read_bytes())
    works, names = case.works(frame), sys.argv[1]
    peers = None
    for line in sys.stdin:
        name = line.strip()
        if name not in works and peers is None:
            peers = case.peers(frame)
            names = [*works, *peers]
        taken = Taken(0, 0, 0, names) if name == "?" else timed({**works, **(peers or {})}[name])
        print(json.dumps(vars(taken)), flush=True)


if __name__ == "__main__":
    main()
