"""A campaign: ``python -m tests.peers siddhi 0 30000`` compares the answers of these seeds."""

from __future__ import annotations

import sys
from collections import Counter

from tests.peers.comparing import compare


def main(name: str, first: str, last: str) -> int:
    """Print what differs and how often each verdict came; return whether something differs."""
    n_of_kind = Counter()
    for verdict in compare(name, range(int(first), int(last))):
        n_of_kind[verdict.kind] += 1
        n_of_kind["same, with rows"] += verdict.kind == "same" and bool(verdict.theirs)
        if verdict.kind == "differs":
            print(verdict, flush=True)
        if not verdict.seed % 1000:
            print(verdict.seed, dict(n_of_kind), flush=True)
    print(f"{name}, seeds {first} to {last}: {dict(n_of_kind)}")
    return n_of_kind["differs"]


if __name__ == "__main__":
    sys.exit(min(1, main(*sys.argv[1:])))
