"""The matches of a query by LinkedCEP or a run engine, counters of the work, and chains as a frame."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial

import numpy as np
import pandas as pd

from cepkit.compile.sequence_program import SequenceProgram
from cepkit.compile.shared.loading import load_kernels
from cepkit.engines.search import MOST_KNOWN
from cepkit.engines.shared.sequence_set import KnownMatches, MatchBlock, SequenceSet, joined
from cepkit.errors import CepError, ResultTooLargeError, UnsupportedQueryError, nearest
from cepkit.events import Events
from cepkit.kernels.wings import linked_layout as kernel
from cepkit.linked.kernel_machine import KERNELS, KernelMachine
from cepkit.linked.patterns import OUTPUTS, POINTER, Copying, PlainEvents, PlainMatches, PlainPattern
from cepkit.linked.query import PlainQuery, describe_engine, linked_query_unsupported, variables_of
from cepkit.planning.planner import Engine, EngineValue
from cepkit.values import dataclass, field, replace

# LinkedCEP finds skip-till-any sequences with chains of partial matches; run engines, for comparison.

KLEENE = ("runs",)


class LinkedCEP(KernelMachine):
    """Find every match of a sequence (skip-till-any-match) with chains of partial matches."""

    # A chain holds successive events that the same components accept and that have the same predecessors. A
    # new event looks only at the newest event of each chain. The engine combines the matches of a whole chain
    # at the end, or only counts them. When no component is coverable, every chain is a run of one event and
    # saves nothing.
    # Source: Qiu et al., LinkedCEP, section 3.2, algorithms 1 (CoverMatch) and 2 (CombineMatch).
    # Differs: the printed algorithms lose and invent matches with conditions between events, windows,
    # repeated types, partitions, equal times or Kleene closures. They return matches only at the end of the
    # stream. Here all events of a chain share their predecessors. A component has chains of several events
    # only when no condition ties it to others. The window is checked again when matches are combined. A match
    # is returned as soon as it ends.

    def __init__(
        self, pattern: PlainPattern, *, output: str = "all", kleene: str = "runs", copies: str = "pointer",
        payload: int | None = None, ordered: bool = True,
    ):  # fmt: skip
        if output not in OUTPUTS:
            raise CepError(f"output {output!r} is not known. Outputs: {list(OUTPUTS)}")
        if kleene not in KLEENE:
            raise CepError(f"kleene {kleene!r} is not known. Ways: {list(KLEENE)}")
        super().__init__(
            pattern, pattern.coverable, output, advance_chains(output), Copying(copies, payload),
            ordered=ordered,
        )  # fmt: skip

    @property
    def coverages(self) -> np.ndarray:
        """The coverages so far in canonical order, int64, (n_coverages, n_components)."""
        # Only with output ``latest``. A Kleene closure is represented by its latest event.
        if self.output != "latest":
            raise CepError(f"an engine with output {self.output!r} keeps no coverages. Use output='latest'")
        return self.rows


def advance_chains(output: str) -> Callable[..., None]:
    """Return the function that advances the chains of a `KernelMachine`."""
    # Code that was made quickly would spoil the times of a first study.
    kernels, number = load_kernels(KERNELS, quick=False), OUTPUTS.index(output)

    def advance(tables, events, store, parts, scratch, out, start, stop, report):
        kernels.advance_chains(tables, events, store, parts, scratch, out, start, stop, number, report)

    return advance


# Run engines for skip-till-any sequences, for comparison with LinkedCEP: every partial match is a run.

# Where runs are kept: in one list per partition, or in one list per component.
KEPT = ("together", "by_component")
_OUTPUTS = ("all", "count")


class _Runs(KernelMachine):
    """An engine that makes a run, a partial match by itself, for each event that extends another run."""

    kept: str

    def __init__(
        self, pattern: PlainPattern, *, output: str = "all", copies: str = "pointer",
        payload: int | None = None, ordered: bool = True,
    ):  # fmt: skip
        if output not in _OUTPUTS:
            raise CepError(f"output {output!r} is not known. Outputs: {list(_OUTPUTS)}")
        super().__init__(
            pattern, (False,) * pattern.n_components, output, _advance_runs(self.kept, output),
            Copying(copies, payload), ordered=ordered,
        )  # fmt: skip


class SaseRuns(_Runs):
    """Find every match of a sequence (skip-till-any-match) by runs in one list, as in SASE."""

    # An event that can extend a run extends a copy, because the run itself also waits for other events. Every
    # event that the pattern uses visits all runs of its partition. It ends the runs that are too old and
    # copies the runs that it fits.
    # Source: Agrawal, Diao, Gyllstrom, Immerman, "Efficient pattern matching over event streams", SIGMOD
    # 2008.
    # Differs: an event that must not occur between neighbours ends runs when it comes; no later check looks
    # for it. By default a run points to the run that it extends, as in the shared buffer of SASE+, and does
    # not repeat its events. So a copy costs the same at any length.

    kept = "together"


class SiddhiLikeRuns(_Runs):
    """Find every match of a sequence (skip-till-any-match) by runs in a list per component, as in Siddhi."""

    # An event visits only the lists of the components that it may follow, oldest run first, and ends the runs
    # that are too old. It does not visit most of the runs that it cannot extend. Parameters and results are
    # those of `SaseRuns`.
    # Source: Suhothayan et al., "Siddhi: A second look at complex event processing architectures", GCE 2011.
    # Differs: Siddhi's own ``->`` takes only the first event that fits, so its results could not be equal.
    # This engine stores and visits partial matches as Siddhi does, but with the semantics of
    # skip-till-any-match.

    kept = "by_component"


def _advance_runs(kept: str, output: str):
    """Return the function that advances the runs of a `KernelMachine`."""
    kernels, mode = load_kernels(KERNELS, quick=False), (_OUTPUTS.index(output), KEPT.index(kept))

    def advance(tables, events, store, parts, scratch, out, start, stop, report):
        kernels.advance_runs(tables, events, store, parts, scratch, out, start, stop, *mode, report)

    return advance


# The chains of partial matches that LinkedCEP makes, as a frame; for up to 2,000 events.

MOST_EVENTS = 2000


def chains_of(pattern: PlainPattern, events: PlainEvents) -> pd.DataFrame:
    """Return the chains of a stream and what each shares with the chain of the component before."""
    # Source: Qiu et al., LinkedCEP, section 3.2.1, transfer pointers.
    n = int(np.count_nonzero(events.accepted(pattern)))
    if n > MOST_EVENTS:
        raise ResultTooLargeError(
            f"chains: the pattern uses {n:,} events. Chains can be shown for at most {MOST_EVENTS:,}. "
            "Search a part of the frame"
        )
    # The engine does not keep chains of the last component. One more component, which accepts no event,
    # makes it keep them.
    longer = replace(pattern, n_components=pattern.n_components + 1)
    nothing = np.zeros((1, events.n_events), np.uint8)
    accepts = np.concatenate([np.asarray(events.accepts_of_component, np.uint8), nothing])
    events = replace(events, accepts_of_component=accepts)
    machine = KernelMachine(longer, (*pattern.coverable, True), "count", advance_chains("count"))
    about: list[tuple[int, int, int]] = []  # for each chain: component, before, shared
    events_of_chain: list[list[int]] = []
    chain_of_slot: dict[int, int] = {}
    begin = 0
    for e in np.flatnonzero(events.accepted(longer)).tolist():
        machine.push(events.take(slice(begin, e + 1)))
        begin, slots = e + 1, machine.slots
        joined = np.flatnonzero(slots[:, kernel.TAIL] == e)
        is_new = slots[joined, kernel.HEAD] == e
        for slot in joined[~is_new].tolist():
            events_of_chain[chain_of_slot[slot]].append(e)
        new_chains = []
        for slot in joined[is_new].tolist():
            before = chain_of_slot.get(int(slots[slot, kernel.PRED]), -1)
            component, shared = int(slots[slot, kernel.COMPONENT]), 0
            if before >= 0:
                shared = events_of_chain[before].index(slots[slot, kernel.PRED_TAIL]) + 1
            new_chains.append(((component, about[before][0] if before >= 0 else -1, before), shared, slot))
        for (component, _, before), shared, slot in sorted(new_chains):
            chain_of_slot[slot] = len(about)
            about.append((component, before, shared))
            events_of_chain.append([e])
    rows = [
        (c, component, position, before, shared)
        for c, (component, before, shared) in enumerate(about)
        for position in events_of_chain[c]
    ]
    columns = ["chain", "component", "position", "before", "shared"]
    return pd.DataFrame(np.array(rows, np.int64).reshape(-1, 5), columns=columns)


# The matches of a query by LinkedCEP or a run engine, and counters of the work.

_MOST_AT_ONCE = 1 << 23  # matches made in one piece
_EVENTS_PER_PUSH = 1 << 14  # Ctrl-C interrupts between two pushes


@dataclass(frozen=True, slots=True)
class PartialMatchRun:
    """Counters of LinkedCEP or a run engine for one query, in ``matches.run``."""

    engine: str  # ``linked``, ``sase_runs`` or ``siddhi_like_runs``
    matches: int  # exact number of matches
    # Partial matches made, complete ones included. In LinkedCEP, the events in chains ("temporary matches").
    partial_matches: int
    # intermediate, complete: partial matches that end before the last component, and in the last component
    intermediate: int
    complete: int
    copies: int  # partial matches that extend another one
    chains: int  # chains made; every run is a chain of its own
    mean_chain_length: float  # partial matches per chain; NaN without chains
    peak_live: int  # most chains or runs in memory at a time
    coverable: tuple[str, ...]  # variables whose events may share a chain; empty for the run engines
    copying: Copying = POINTER  # what a partial match copied of the one that it extends
    copied_bytes: int = 0  # bytes that these copies wrote; 0 with pointers
    _coverages: Callable[[], np.ndarray] | None = field(default=None, repr=False, compare=False)
    _chains: Callable[[], pd.DataFrame] | None = field(default=None, repr=False, compare=False)

    def coverages(self) -> np.ndarray:
        """Return the coverages of LinkedCEP: the latest match of every chain of the last component."""
        if self._coverages is None:
            raise AttributeError(f"engine {self.engine!r} has no chains; engine='linked' has")
        return self._coverages()

    def chains_frame(self) -> pd.DataFrame:
        """Return the chains of LinkedCEP as a frame, a row per event."""
        if self._chains is None:
            raise AttributeError(f"engine {self.engine!r} has no chains; engine='linked' has")
        return self._chains()


SUMMARIES = {
    "linked": "LinkedCEP: chains of partial matches, combined at the end",
    "sase_runs": "a run per partial match, kept together as in SASE",
    "siddhi_like_runs": "a run per partial match, kept by component as in Siddhi",
}
_MACHINES = {"linked": LinkedCEP, "sase_runs": SaseRuns, "siddhi_like_runs": SiddhiLikeRuns}


class PlainlyMatched(SequenceSet):
    """The matches of `LinkedCEP`, `SaseRuns` or `SiddhiLikeRuns`, counted first and made when read."""

    # When there are more matches than ``most_known``, the engine counts them per last event, and runs again
    # over one window to make those that are read.

    def __init__(
        self, program: SequenceProgram, events: Events, name: str, most_known: int = MOST_KNOWN,
        copying: Copying = POINTER,
    ):  # fmt: skip
        self.program, self.events, self.name, self.copying = program, events, name, copying
        self._most_known = most_known
        self._machine = partial(_MACHINES[name], copies=copying.copies, payload=copying.payload)

    @cached_property
    def _query(self) -> PlainQuery:
        """The query and the events as the engine needs them."""
        return PlainQuery(self.program, self.events)

    def _push_all(self, output: str) -> tuple[LinkedCEP | SaseRuns, list[PlainMatches]]:
        """Return a new engine after it took all events, and the matches of each push."""
        plain, engine = self._query.plain, self._machine(self._query.pattern, output=output)
        starts = range(0, plain.n_events, _EVENTS_PER_PUSH)
        return engine, [engine.push(plain.take(slice(s, s + _EVENTS_PER_PUSH))) for s in starts]

    @cached_property
    def run(self) -> PartialMatchRun:
        """The counters of the engine after it counted the matches."""
        engine, parts = self._push_all("count")
        counters, chains = engine.counters, self.name == "linked"
        names = zip(variables_of(self.program), self._query.pattern.coverable, strict=True)
        return PartialMatchRun(
            self.name, sum(part.n_matches for part in parts), counters.nodes, counters.intermediate,
            counters.complete, counters.copies, counters.chains, counters.mean_chain_length,
            counters.peak_live, tuple(name for name, is_coverable in names if is_coverable and chains),
            self.copying, counters.copied_bytes, self._latest if chains else None,
            self._linked_chains if chains else None,
        )  # fmt: skip

    def _latest(self) -> np.ndarray:
        """Return the coverages: the latest match of each chain of the last component."""
        return self._push_all("latest")[0].coverages

    def _linked_chains(self) -> pd.DataFrame:
        """Return the chains of the stream, with the variables of their components."""
        chains = chains_of(self._query.pattern, self._query.plain)
        names = np.array(variables_of(self.program), dtype=object)
        chains.insert(2, "variable", names[chains["component"].to_numpy()])
        return chains

    @cached_property
    def _known(self) -> KnownMatches | None:
        """All matches when they are few enough to keep, else None."""
        if self.count() > self._most_known:
            return None
        blocks = [self._query.block(part) for part in self._push_all("all")[1]]
        return KnownMatches(self.events, joined(blocks))

    def count(self) -> int:
        """Return the exact number of matches."""
        return self.run.matches

    def ends(self) -> tuple[np.ndarray, np.ndarray | list[int]]:
        """Return the positions where matches end, and how many end at each."""
        if self._known is not None:
            return self._known.ends()
        plain = self._query.plain
        engine = self._machine(self._query.pattern, output="count")
        positions = np.flatnonzero(plain.accepts_of_component[-1])
        counts = engine.count_at(plain, positions)
        nonzero = [k for k, count in enumerate(counts) if count]
        return positions[nonzero], [counts[k] for k in nonzero]

    def ending(self, low: int, high: int) -> MatchBlock:
        """Return the matches whose last event has a position from ``low`` to ``high``."""
        if self._known is not None:
            return self._known.ending(low, high)
        low, high = max(0, low), min(high, self.events.n_events)
        first = self._first_number
        begin, stop = np.searchsorted(self._ends[0], [low, high]).tolist()
        wanted = first[stop] - first[begin]
        if wanted > max(_MOST_AT_ONCE, self._most_known):
            raise ResultTooLargeError(
                f"{wanted:,} matches end from position {low:,} to {high:,}. Engine {self.name!r} makes them "
                f"all at once, but at most {_MOST_AT_ONCE:,}; count() counts them. Engine 'auto' makes parts"
            )
        return self._make_matches(low, high)

    def _make_matches(self, low: int, high: int) -> MatchBlock:
        query, pattern = self._query, self._query.pattern
        begin = 0
        if pattern.window_ticks is not None and low < high:
            begin = int(np.searchsorted(query.time, query.time[low] - pattern.window_ticks))
        plain = query.plain.take(slice(begin, high))
        engine = self._machine(pattern, output="all")
        last = pattern.n_components - 1
        if last not in pattern.kleene:  # skip the matches that end earlier
            accepts = plain.accepts_of_component.copy()
            accepts[last, : low - begin] = 0
            return query.block(engine.push(replace(plain, accepts_of_component=accepts)), begin)
        for start in range(0, low - begin, 64):
            engine.push(plain.take(slice(start, min(start + 64, low - begin))))
        return query.block(engine.push(plain.take(slice(low - begin, None))), begin)


@dataclass(frozen=True, slots=True)
class PartialMatchEngine(EngineValue):
    """LinkedCEP or a run engine with a way of copying, as a value for ``engine=``."""

    name: str  # the engine
    copies: str = "pointer"  # what a partial match copies of the one that it extends, see `Copying`
    payload: int | None = None  # attributes of each event in a deep copy, 8 bytes each; 4 by default

    def __post_init__(self) -> None:
        if self.name not in _MACHINES:
            hint = nearest(self.name, _MACHINES) if isinstance(self.name, str) else ""
            raise CepError(f"engine {self.name!r} makes no partial matches.{hint} Engines: {[*_MACHINES]}")
        Copying(self.copies, self.payload)

    def planned(self, *, trace: bool) -> Engine:
        """Return the engine that a plan runs. It writes no trace."""
        if trace:
            raise UnsupportedQueryError(
                f"trace=True: {self} writes no trace. Parallel engines do: cep.Hybrid(), cep.RIP()"
            )
        copying = Copying(self.copies, self.payload)
        run = partial(PlainlyMatched, name=self.name, copying=copying)
        details = partial(describe_engine, chains=self.name == "linked", copying=copying)
        return Engine(
            self.name, SUMMARIES[self.name], linked_query_unsupported, run, automatic=False, details=details
        )
