"""A campaign: ``python -m tests.campaigns 0 2000`` compares the queries of these seeds with the definitions.

Each query runs on some hundred streams in one frame, in one call with default settings. A case is a query on
a stream: plain Python answers it for the stream alone. ``python -m tests.campaigns sequences 0 2000`` runs
one of the families.
"""

from __future__ import annotations

import sys
import time

from tests.campaigns.families import FAMILIES, Counts, compare


def main(*arguments: str) -> int:
    """Print what differs, the counts every minute and at the end; return how many queries differ."""
    *names, first, last = arguments
    counts_of = {name: Counts() for name in names or FAMILIES}
    shown_at = time.monotonic()
    for seed in range(int(first), int(last)):
        for name, counts in counts_of.items():
            difference = compare(name, seed, counts)
            if difference is not None:
                print(difference, flush=True)
        if time.monotonic() - shown_at > 60:
            shown_at = time.monotonic()
            show(f"seeds {first} to {seed + 1}", counts_of)
    show(f"seeds {first} to {last}", counts_of)
    return sum(counts.n_different for counts in counts_of.values())


def show(title: str, counts_of: dict[str, Counts]) -> None:
    """Print a line for each family, and the sum of all."""
    n_cases = sum(counts.n_cases for counts in counts_of.values())
    n_different = sum(counts.n_different for counts in counts_of.values())
    print(f"{title}: {n_cases} cases, {n_different} differences")
    for name, counts in counts_of.items():
        print(f"  {name}: {counts}", flush=True)


if __name__ == "__main__":
    sys.exit(min(1, main(*sys.argv[1:])))
