"""The result of a replay: matches, drops, latencies, memory, and the comparison with no shedding."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property, partial
from itertools import pairwise
from math import inf, nan
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from cepkit.engines.shared.sequence_set import KnownMatches, MatchBlock
from cepkit.errors import CepError
from cepkit.events import Frame, Source
from cepkit.frames.arrow import ArrowSource
from cepkit.frames.sources import with_types
from cepkit.language.expressions.durations import seconds_text
from cepkit.planning.planner import Engine, engines
from cepkit.progress import show_progress
from cepkit.results.matches import Matches
from cepkit.results.query_found import SequenceFound
from cepkit.results.views import Explanation
from cepkit.shedding.scene import ReplayRun, ReplaySettings, make_scene
from cepkit.shedding.tree_program import ALLOWED_IF
from cepkit.values import dataclass

LATE = 1800.0  # seconds: a match that comes later than this does not count as found
COLUMNS = {
    "pattern": "string", "strategy": "string", "seed": "long", "events": "long", "dropped_events": "long",
    "dropped_partial_matches": "long", "skipped_pairs": "long", "matches": "long",
    "matches_without_shedding": "long", "recall": "double", "precision": "double", "mean_latency": "double",
    "max_latency": "double", "within_bound": "double", "max_waiting": "long", "max_partial_matches": "long",
    "peak_bytes": "long", "seconds": "double", "shedding_seconds": "double",
}  # fmt: skip


@dataclass(frozen=True, eq=False, repr=False)
class PatternResult:
    """The matches of one pattern in a replay.

    Latencies, recall and precision are those of matches that end after the warm-up.
    """

    run: ReplayRun
    number: int  # number of the pattern in the replay
    # Converts results to the kind of the frame. It makes them say what was dropped.
    native: Callable[[Frame], Frame]
    source: Source
    engine: Engine

    @property
    def _own(self) -> MatchBlock:
        return self.run.found[self.number].block

    @cached_property
    def _is_counted(self) -> np.ndarray:
        return self._own.last >= self.run.scene.end_of_warm_up

    @property
    def weight(self) -> float:
        """Weight of the pattern."""
        return self.run.scene.weights[self.number]

    @property
    def name(self) -> str:
        """The pattern as text."""
        return str(self.run.scene.programs[self.number].query.pattern)

    @property
    def matches(self) -> Matches:
        """The matches that the run found, those of the warm-up too."""
        program, events = self.run.scene.programs[self.number], self.run.scene.events[self.number]
        whole = KnownMatches(events, self._own)
        place = {"source": self.source, "engine": self.engine, "native": self.native}
        return Matches(SequenceFound(program=program, whole=whole, note=losses(self.run), **place))

    @property
    def latencies(self) -> np.ndarray:
        """Seconds from the arrival of each match's last event until it was found, float64, in match order."""
        return self.run.found[self.number].latency[self._is_counted]

    @cached_property
    def compared(self) -> tuple[float, int, int]:
        """Matches in common with the run without shedding, matches found, and matches without shedding.

        Matches that come later than 1,800 s are not in common.
        """
        matches = self._own.take(np.flatnonzero(self._is_counted))
        truth = self.run.scene.truth[self.number]
        n_truth = int(np.count_nonzero(truth.last >= self.run.scene.end_of_warm_up))
        is_true = common(matches, truth)
        return int(np.count_nonzero(is_true & (self.latencies <= LATE))), int(is_true.sum()), n_truth

    @property
    def recall(self) -> float:
        """Share of the matches without shedding that the run found; NaN if there are none."""
        kept, _, n_truth = self.compared
        return kept / n_truth if n_truth else nan

    @property
    def precision(self) -> float:
        """Share of the found matches that the run without shedding finds, too; NaN without matches.

        Only patterns with negation can find others.
        """
        n = int(self._is_counted.sum())
        return self.compared[1] / n if n else nan

    def summary(self) -> dict[str, Any]:
        """Return one row of `ReplayResult.to_frame`."""
        run, latencies = self.run, self.latencies
        n = len(latencies)
        return {
            "pattern": self.name,
            "strategy": run.strategy.name,
            "seed": run.seed,
            "events": len(run.scene.positions),
            "dropped_events": len(run.dropped),
            "dropped_partial_matches": run.n_partial_dropped,
            "skipped_pairs": run.n_skipped_pairs,
            "matches": n,
            "matches_without_shedding": self.compared[2],
            "recall": self.recall,
            "precision": self.precision,
            "mean_latency": float(latencies.mean()) if n else nan,
            "max_latency": float(latencies.max()) if n else nan,
            "within_bound": float((latencies <= run.scene.latency_bound).mean()) if n else nan,
            "max_waiting": run.most_waiting,
            "max_partial_matches": run.most_alive,
            "peak_bytes": run.peak_bytes,
            "seconds": run.seconds,
            "shedding_seconds": run.shedding_seconds,
        }


def _marked(run: ReplayRun, native: Callable[[Frame], Frame], frame: Frame) -> Frame:
    """Return a result in the user's kind of frame; a pandas frame says what was lost."""
    frame = native(frame)
    if isinstance(frame, pd.DataFrame) and (lost := losses(run)):
        frame.attrs["shedding"] = lost
    return frame


class ReplayResult:
    """What a replay kept, dropped and found; see `cepkit.replay`.

    Matches that end in the warm-up count in ``matches``, and nowhere else.
    """

    def __init__(self, run: ReplayRun, source: Source, native: Callable[[Frame], Frame]):
        self._run, engine = run, engines()["tree"]
        mark = partial(_marked, run, native)
        self.patterns: tuple[PatternResult, ...] = tuple(
            PatternResult(run, number, mark, source, engine) for number in range(len(run.scene.trees))
        )

    @property
    def _only(self) -> PatternResult:
        if len(self.patterns) > 1:
            raise CepError(
                f"the replay has {len(self.patterns)} patterns; say which one: result.patterns[0].matches"
            )
        return self.patterns[0]

    @property
    def run(self) -> ReplayRun:
        """The numbers of the run."""
        return self._run

    @property
    def matches(self) -> Matches:
        """The matches of a replay of one pattern; for several, see ``patterns``."""
        return self._only.matches

    @property
    def latencies(self) -> np.ndarray:
        """Latency of each match in seconds, of all patterns, float64."""
        return np.concatenate([result.latencies for result in self.patterns])

    @property
    def mean_latency(self) -> float:
        """Mean latency of the matches in seconds; NaN without matches."""
        return float(self.latencies.mean()) if len(self.latencies) else nan

    @property
    def max_latency(self) -> float:
        """Greatest latency of a match in seconds; NaN without matches."""
        return float(self.latencies.max()) if len(self.latencies) else nan

    @property
    def within_bound(self) -> float:
        """Share of the matches that came within the latency bound; NaN without matches."""
        bound = self._run.scene.latency_bound
        return float((self.latencies <= bound).mean()) if len(self.latencies) else nan

    @property
    def dropped(self) -> dict[str, int]:
        """Number of dropped events by type."""
        return dict(zip(self._run.scene.types, self._run.dropped_of_type, strict=True))

    @property
    def kept(self) -> dict[str, int]:
        """Number of processed events by type, after the warm-up."""
        return dict(zip(self._run.scene.types, self._run.processed_of_type, strict=True))

    @property
    def n_dropped(self) -> int:
        """Number of dropped events."""
        return len(self._run.dropped)

    @property
    def peak_bytes(self) -> int:
        """Greatest memory of partial matches, waiting events and the strategy's own arrays."""
        return self._run.peak_bytes

    @property
    @show_progress("replaying without shedding")
    def recall(self) -> float:
        """Share of the matches without shedding that the run found, weighted by pattern; NaN without any.

        Source: DARLING, equation 4. Matches later than 1,800 s count as lost.
        """
        wanted = sum(result.weight * result.compared[2] for result in self.patterns)
        return sum(result.weight * result.compared[0] for result in self.patterns) / wanted if wanted else nan

    @property
    @show_progress("replaying without shedding")
    def precision(self) -> float:
        """Share of the found matches that are matches without shedding, weighted by pattern."""
        total = sum(result.weight * len(result.latencies) for result in self.patterns)
        return sum(result.weight * result.compared[1] for result in self.patterns) / total if total else nan

    def series(self) -> pd.DataFrame:
        """Return the state after each event that left the buffers."""
        return pd.DataFrame(dict(self._run.series))

    def drops(self) -> pd.DataFrame:
        """Return the kept and dropped events of each type, and the share that was dropped."""
        return table_of_types(self.kept, self.dropped)

    def peaks(self) -> list[tuple[float, float]]:
        """Return when each peak of the arrivals begins and ends, in seconds."""
        scene = self._run.scene
        arrivals = self._run.arrival_of_event[scene.positions][scene.n_warm :]
        bounds = scene.arrivals.peaks(len(arrivals))
        return [(float(arrivals[start]), float(arrivals[stop - 1])) for start, stop in bounds if start < stop]

    @show_progress("replaying without shedding")
    def to_frame(self) -> pd.DataFrame:
        """Return one row per pattern with the numbers of the replay. ``matches.to_frame()`` has matches."""
        frame = pd.DataFrame([result.summary() for result in self.patterns], columns=list(COLUMNS))
        if lost := losses(self._run):
            frame.attrs["shedding"] = lost
        return frame

    def report(self) -> dict[str, object]:
        """Return what the strategy says about itself, such as thresholds; for several patterns, by number."""
        if len(self.patterns) == 1:
            return dict(self._run.report[0])
        return {str(number): report for number, report in enumerate(self._run.report)}

    def explain(self) -> Explanation:
        """Return how the query was read and run, and what was dropped."""
        result = self._only
        note = ("shedding", losses(self._run) or f"{self._run.strategy.name}: nothing was dropped")
        notes = [note]
        if self._run.scene.trees[0].negation == ALLOWED_IF and self._run.scene.trees[0].code.absences.size:
            notes.insert(0, ("negation", "an absent event forbids a match unless it fulfils its conditions"))
        return Explanation(self._run.scene.programs[0], result.engine, (), tuple(notes))

    def __repr__(self) -> str:
        run = self._run
        n = sum(len(result.latencies) for result in self.patterns)
        lines = [f"{run.strategy.name}: {losses(run) or 'nothing was dropped'}"]
        kept = f"{n:,} match{'' if n == 1 else 'es'} after the warm-up of {run.scene.n_warm:,} events"
        if losses(run):
            kept += f", recall {percent(self.recall)}, precision {percent(self.precision)}"
        lines.append(kept)
        if n:
            times = self.mean_latency, self.max_latency, self.within_bound, run.scene.latency_bound
            lines.append(latency_text(*times))
        lines.append(
            f"at most {run.most_waiting:,} events waited, {run.most_alive:,} partial matches, "
            f"{run.peak_bytes:,} bytes"
        )
        return "\n".join(lines)


def losses(run: ReplayRun) -> str:
    """Return what a run dropped, in words; empty if nothing."""
    n_events = len(run.scene.positions)
    return losses_text(len(run.dropped), n_events, run.n_partial_dropped, run.n_skipped_pairs)


# The comparison of two sets of matches.


def common(one: MatchBlock, other: MatchBlock) -> np.ndarray:
    """Return whether each match of ``one`` is in ``other``, bool, (n_matches,).

    Matches are equal when they have the same events for the same components.
    """
    if not len(one) or not len(other):
        return np.zeros(len(one), bool)
    hashes, other_hashes = _hashes(one), _hashes(other)
    order = np.argsort(other_hashes, kind="stable")
    ranked = other_hashes[order]
    place = np.minimum(np.searchsorted(ranked, hashes), len(ranked) - 1)
    is_there = ranked[place] == hashes
    left, right = one.take(np.flatnonzero(is_there)), other.take(order[place[is_there]])
    is_exact = (ranked[1:] != ranked[:-1]).all() and all(
        np.array_equal(getattr(left, name), getattr(right, name))
        for name in ("first_item_of_match", "event_of_item", "component_of_item")
    )
    if is_exact:
        return is_there
    keys = set(_identities(other))  # two different matches have the same hash
    return np.fromiter((key in keys for key in _identities(one)), bool, len(one))


def _hashes(block: MatchBlock) -> np.ndarray:
    """Return a hash of each match, uint64."""
    first = block.first_item_of_match[:-1]
    place = np.arange(len(block.event_of_item)) - np.repeat(first, np.diff(block.first_item_of_match))
    places = pd.util.hash_array((place << 16) + block.component_of_item)
    return np.add.reduceat(pd.util.hash_array(pd.util.hash_array(block.event_of_item) + places), first)


def _identities(block: MatchBlock) -> list[bytes]:
    """Return a value for each match that equals another one only for the same events and components."""
    both = np.stack([block.event_of_item, block.component_of_item.astype(np.int64)], axis=1)
    bounds = block.first_item_of_match.tolist()
    return [both[start:stop].tobytes() for start, stop in pairwise(bounds)]


# What replays and live streams say about drops and times.


def losses_text(n_dropped: int, n_events: int, n_partial: int, n_skipped: int) -> str:
    """Return what was dropped, in words; empty if nothing."""
    parts = [f"{n_dropped:,} of {n_events:,} events were dropped"] * bool(n_dropped)
    parts += [f"{n_partial:,} partial matches were dropped"] * bool(n_partial)
    return ", ".join([*parts, *[f"{n_skipped:,} pairs were skipped"] * bool(n_skipped)])


def table_of_types(kept: Mapping[str, int], dropped: Mapping[str, int], **more: Any) -> pd.DataFrame:
    """Return the kept and dropped events of each type, and the share that was dropped."""
    table = pd.DataFrame({"type": list(kept), "kept": kept.values(), "dropped": dropped.values(), **more})
    total = table["kept"] + table["dropped"]
    table["share_dropped"] = (table["dropped"] / total.where(total > 0)).fillna(0.0)
    return table


def latency_text(mean: float, most: float, within: float, bound: float) -> str:
    """Return the latencies of matches in words."""
    in_time = "" if bound == inf else f", {percent(within)} within {time_text(bound)}"
    return f"latency {time_text(mean)} on average, {time_text(most)} at most{in_time}"


def percent(share: float) -> str:
    """Return a share in words; NaN is unknown."""
    return "unknown" if share != share else f"{100 * share:.3g} %"


def time_text(seconds: float) -> str:
    """Return a time in words, also below a millisecond."""
    return f"{seconds * 1e6:.3g} us" if 0 < seconds < 0.001 else seconds_text(seconds)


# A replay of the rows of one key, as a task of Spark runs it.

PROBLEM = "problem"


@dataclass(frozen=True)
class ReplayTask:
    """Replays a table and returns its summary, one row per pattern."""

    settings: ReplaySettings

    def __call__(self, rows: pa.Table) -> list[dict[str, Any]]:
        """Return the summary; if the rows cannot be replayed, the reason instead."""
        try:
            source: Source = ArrowSource(rows)
            for query in self.settings.queries:
                source = with_types(source, query)
            run = make_scene(self.settings, source).run(self.settings.strategy, self.settings.seed)
            summaries = [
                result.summary() for result in ReplayResult(run, source, lambda frame: frame).patterns
            ]
        except CepError as problem:
            summaries = [
                {"pattern": str(query.pattern), PROBLEM: str(problem)} for query in self.settings.queries
            ]
        return [{**dict.fromkeys(types_of_columns()), **row} for row in summaries]


def types_of_columns() -> dict[str, str]:
    """Return the Spark type of each column of a summary."""
    return {**COLUMNS, PROBLEM: "string"}
