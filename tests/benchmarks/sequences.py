"""How fast many matches are counted and drawn, in a warm process; ``run.py sequences``."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from cases import RISING, TYPED, typed
from rows import Measured, Options, Row, beside, in_turns

import cepkit as cep

ENDS = "a.x < b[1].x AND b[i-1].x < b[i].x AND b[LEN].x < c.x"
LOOPS = {"B rising": "b[i-1].x < b[i].x", "all rising": ENDS}


def counted(repeats: int, n: int = 30_000, within: int = 1200) -> Iterator[Row]:
    """A loop of rising events: exact numbers beyond 2^61."""
    frame = typed(n, 1.0)
    for name, where in LOOPS.items():
        text = f"PATTERN SEQ(A a, B+ b[], C c) WHERE {where} WITHIN {within}"
        [(cost, total)] = in_turns(repeats, lambda t=text: cep.match(frame, t, **TYPED).count())
        yield beside(f"SEQ(A,B+,C) {name}, {n:,} events, {total:.2g} matches counted", cost, "<= 1 s")


def drawn(repeats: int, n: int = 10**5, windows: tuple[int, ...] = (3000, 30_000)) -> Iterator[Row]:
    """Uniform samples of very many matches, which are counted before."""
    frame = typed(n, 1.0)
    for within in windows:
        found = cep.match(frame, RISING.format(within), **TYPED)
        total = found.count()
        [(cost, _)] = in_turns(repeats, lambda m=found: m.sample(1000, seed=0))
        yield beside(f"SEQ(A,B,C) rising, {n:,} events, 1,000 of {total:.2g} matches", cost, "<= 0.1 s")


def table(options: Options) -> Iterator[Measured]:
    """Numbers of very many matches, and samples of them."""
    for part in (counted, drawn):
        if options.wants(f"sequences {part.__name__}"):
            yield partial(part, options.rounds)
