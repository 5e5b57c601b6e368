"""Compare the answers of an engine with ours, case by case."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

import cepkit as cep
from tests.peers import esper, flink, flinksql, letters, siddhi
from tests.support.peers import Case, Peer, class_path

ENGINES = {"siddhi": siddhi, "esper": esper, "flink": flink, "flinksql": flinksql, "letters": letters}
AT_ONCE = 40  # unless an engine says otherwise


@dataclass(frozen=True)
class Verdict:
    """How an answer compares: ``same``, ``refused`` by the engine, ``rule: …`` or ``differs``."""

    seed: int
    kind: str
    case: Case
    theirs: Counter | str
    ours: Counter | str

    def __str__(self) -> str:
        text, events = self.case
        return (
            f"{self.kind}, seed {self.seed}: {text}\n  {events}\n  theirs {self.theirs}\n  ours   {self.ours}"
        )


def compare(name: str, seeds: Iterable[int]) -> Iterator[Verdict]:
    """Yield the verdict of each seed."""
    engine, left = ENGINES[name], iter(seeds)
    peer = engine if engine.PROGRAM is None else Peer(class_path(name), engine.PROGRAM)
    try:
        while some := list(islice(left, getattr(engine, "AT_ONCE", AT_ONCE))):
            cases = [engine.random_case(seed) for seed in some]
            for seed, case, answer in zip(some, cases, peer.answers(cases), strict=True):
                yield _verdict(engine, seed, case, answer)
    finally:
        if peer is not engine:
            peer.close()


def _verdict(engine, seed: int, case: Case, answer: list | str) -> Verdict:
    if isinstance(answer, str):
        return Verdict(seed, "refused", case, answer, "")
    theirs, error = engine.counted(case, answer), None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", cep.CepWarning)
            ours = engine.ours(seed, case)
    except cep.CepError as caught:
        ours, error = str(caught), caught
    if ours == theirs:
        return Verdict(seed, "same", case, theirs, ours)
    shown = (theirs - ours, ours - theirs) if error is None else (theirs, ours)
    named = engine.rule(case[0], error, shown[0])
    return Verdict(seed, f"rule: {named}" if named else "differs", case, *shown)
