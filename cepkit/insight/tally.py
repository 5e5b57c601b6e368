"""Count how often events and conditions of a branch are tested, by a search in plain Python."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from cepkit.compile.sequences.program import BoundBranch
from cepkit.compile.sequences.search_source import DEPTH, DONE, START, WORK, test_of
from cepkit.engines.search import search_of
from cepkit.engines.shared.places import Places
from cepkit.engines.shared.python_kernels import plain_module
from cepkit.progress import checkpoint

MOST_TALLIED = 50_000  # events tested


@dataclass(frozen=True, slots=True)
class Followed:
    """What follows ``n`` tested partial matches.

    A candidate is an event that fulfils the next component's conditions on a single event. For ``n_late``
    partial matches the first candidate is outside the window or gap; for ``n_never`` no candidate follows.

    """

    n: int = 0
    n_late: int = 0
    n_never: int = 0


def outputs_of(places: Places, bound: BoundBranch) -> list[np.ndarray]:
    """Return the output arrays of the search for a branch, with room for counts only."""
    n = len(bound.accepts)
    return [np.zeros(places.n, np.int64), np.empty(0, np.int64), np.empty((0, n), np.int64)]


def _plain_search(
    places: Places, accept: np.ndarray, bound: BoundBranch
) -> tuple[dict[str, Any], list, list]:
    """Return the names of the search as plain Python, its arguments and its scratch arrays.

    Plain Python reads lists and memory faster than arrays. What conditions compute with stays in arrays.

    """
    text, arguments, (path, component, first, *states) = search_of(places, accept, bound)
    names = plain_module(places.program, text)
    names |= {name: value.tolist() for name, value in names.items() if isinstance(value, np.ndarray)}
    n_walked = len(arguments) - len(places.inputs.arguments())
    arguments = [*map(memoryview, arguments[:n_walked]), *arguments[n_walked:]]
    return names, arguments, [memoryview(path), memoryview(component), first, *map(memoryview, states)]


class Tally:
    """Counts of the events tried as each component of a branch, and of the conditions they passed.

    First events come in random order, until ``most`` events were tested; None means ``MOST_TALLIED``.

    """

    def __init__(
        self, places: Places, accept: np.ndarray, bound: BoundBranch, seed: int, most: int | None = None
    ):
        n, most = len(bound.branch.components), MOST_TALLIED if most is None else most
        self.of_component = [[0, 0] for _ in range(n)]
        self.of_condition = [[0, 0] for _ in bound.conditions]
        self.following = [[0, 0, 0] for _ in range(n)]
        ends = places.end_of_partition, places.window_end, places.gap_end, places.later
        self._ends = [memoryview(each) for each in ends]
        self._next = [_next_accepted(accept[test_of(places.program, terms)]) for terms in bound.accepts]
        names, arguments, scratch = _plain_search(places, accept, bound)
        for name, each in (("admits", True), ("closes", False)):
            names[name] = self._decider(bound, names, each)
        starts = np.flatnonzero(accept[test_of(places.program, bound.accepts[0])])
        starts = np.random.default_rng(seed).permutation(starts)
        outputs, work, n_done = outputs_of(places, bound), 0, 0
        for n_taken, start in enumerate(starts.tolist()):
            if work >= most:
                break
            checkpoint()
            limit = max(most // 20, (most - work) // (len(starts) - n_taken))
            report = np.zeros(7, np.int64)
            report[START], report[DEPTH] = start - 1, -1
            with np.errstate(all="ignore"):
                names["search"](start + 1, 0, places.n, 0, limit, *arguments, *scratch, *outputs, report)
            work += int(report[WORK]) + 1
            n_done += int(report[DONE])
        self.share = n_done / len(starts) if len(starts) else 1.0

    def _decider(self, bound: BoundBranch, names: dict[str, Any], each: bool) -> Callable[..., bool]:
        tests_of_component: dict[int, list[tuple[int, Callable]]] = {}
        for i, bound_condition in enumerate(bound.conditions):
            if bound_condition.condition.absence is None and bound_condition.condition.each == each:
                tests_of_component.setdefault(bound_condition.condition.decided_at, []).append(
                    (i, names[f"holds{i}"])
                )

        def decide(c: int, *path: Any) -> bool:
            passed = True
            for i, holds in tests_of_component.get(c, ()):
                held = bool(holds(*path))
                self.of_condition[i][0] += 1
                self.of_condition[i][1] += held
                passed &= held
            if each:
                self.of_component[c][0] += 1
                self.of_component[c][1] += passed
            elif passed:
                self._note_following(c, *path[:3])
            return passed

        return decide

    def _note_following(self, c: int, path: memoryview, first: np.ndarray, d: int) -> None:
        """Count what follows the partial match that ends with event ``d`` of the path."""
        counts = self.following[c]
        counts[0] += 1
        if c + 1 < len(self._next):
            end_of_partition, window_end, gap_end, later = self._ends
            p = path[d]
            following = self._next[c + 1][later[p]]
            if following >= end_of_partition[p]:
                counts[2] += 1
            elif following >= min(window_end[path[0]], gap_end[p]):
                counts[1] += 1


def _next_accepted(accept: np.ndarray) -> memoryview:
    """Return the first accepted place at or after each place, ``n`` if none; one extra entry for the end."""
    n = len(accept)
    at = np.append(np.where(accept.astype(bool), np.arange(n), n), n)
    return memoryview(np.minimum.accumulate(at[::-1])[::-1])
