"""What tables are made of: the options of the user, rows, and what measures them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Options:
    """What the user of the benchmark asks for."""

    rows: tuple[int, ...] = ()  # instead of the sizes of a table
    rounds: int = 5
    only: tuple[str, ...] = ()

    def wants(self, name: str) -> bool:
        """Return whether a row is asked for, by a part of its name."""
        return not self.only or any(part.lower() in name.lower() for part in self.only)


@dataclass(frozen=True)
class Row:
    """A line of a table: milliseconds and ratios by their names, and what is asked of them."""

    name: str
    figures: Mapping[str, float]
    asked: str = ""
    walls: Mapping[str, float] = field(default_factory=dict)  # milliseconds on the wall

    def __str__(self) -> str:
        shown = "  ".join(f"{name} {_short(value)}" for name, value in self.figures.items())
        return f"{self.name:<36} {shown}" + (f"   [{self.asked}]" if self.asked else "")


Measured = Callable[[], Iterator[Row]]  # gives rows, and may fail without an effect on other rows


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def beside(what: str, ours: float, asked: str = "", peer: str = "", theirs: float | None = None) -> Row:
    """Return a row with two times, given in seconds, and how many times as fast as the peer we are."""
    figures = {"ms": 1e3 * ours}
    if theirs is not None:
        figures |= {peer: 1e3 * theirs, f"{peer} / ours": theirs / ours}
    return Row(what, figures, asked)


def in_turns(repeats: int, *works: Callable[[], object]) -> list[tuple[float, object]]:
    """Return for each work the least CPU seconds of the process and its result, after one warm-up."""
    results, least = [work() for work in works], [float("inf")] * len(works)
    for _ in range(repeats):
        for i, work in enumerate(works):
            began = time.process_time()
            results[i] = work()
            least[i] = min(least[i], time.process_time() - began)
    return list(zip(least, results, strict=True))
