"""The experiments of the LinkedCEP paper as tidy frames: worked example, figures 6 to 11, gain of chains.

Times are CPU times of the search, the least of the repetitions. They do not contain the storing of the
stream. The matches of every system are in its own order. Figures have four series: SASE, Siddhi-like,
CoverMatch (coverages only) and LinkedCEP (all matches). Siddhi-like keeps partial matches as Siddhi does,
but with skip-till-any-match; Siddhi's own ``->`` takes only the first match, so its results could not be
compared.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product

import numpy as np
import pandas as pd

from cepkit.datasets.city import traffic
from cepkit.datasets.constant_rate import abc_stream
from cepkit.errors import CepError
from cepkit.linked.engine import LinkedCEP, SaseRuns, SiddhiLikeRuns
from cepkit.linked.kernel_machine import KernelMachine
from cepkit.linked.patterns import COPIES, EventComparison, PlainEvents, PlainPattern
from papers.recorded import recorded

SYSTEMS: dict[str, Callable[..., KernelMachine]] = {
    "SASE": SaseRuns,
    "Siddhi-like": SiddhiLikeRuns,
    "CoverMatch": partial(LinkedCEP, output="latest"),
    "LinkedCEP": LinkedCEP,
}
# Conditions of each group of queries besides the types. The paper only names the five groups. Its printed
# algorithm is right for Q1 and Q2: no condition there looks at two events.
GROUPS = {
    "Q1": "none",
    "Q2": "each event alone",
    "Q3": "one between events",
    "Q4": "two between events",
    "Q5": "equal key",
}
IN_METHOD = ("Q1", "Q2")
ATTRIBUTES = 4  # of an event in the paper's streams, which a deep copy takes
WINDOW_S = 50
WINDOWS_S = (50, 100, 150, 200, 300)
N_QUERIES = (50, 100, 150, 200, 250)
_EVENTS_PER_PUSH = 20_000  # the matches of one push are in memory together
_EVENTS_TOGETHER = 1_000  # events that one query reads before it is the turn of the next query
_COUNTERS = ("intermediate", "complete", "copies", "copied_bytes", "chains", "peak_live", "peak_bytes")


def paper_numbers() -> pd.DataFrame:
    """Return the numbers in the text of the paper; those of its figures are not available."""
    # Source: Qiu et al., LinkedCEP, section 4.2; Java on a Core i7 with 2.6 GHz.
    times = {
        ("6", "ABC, group Q3"): {"SASE": 385, "Siddhi": 290, "LinkedCEP": 220},
        ("7", "traffic, group Q2"): {"SASE": 240, "Siddhi": 160, "LinkedCEP": 130},
    }
    rows = [
        (figure, what, system, value, "ms")
        for (figure, what), of_system in times.items()
        for system, value in of_system.items()
    ]
    gains = {"SASE": 34, "Siddhi": 19}
    rows += [
        ("8", f"ABC, 200 s, better than {other}", "LinkedCEP", gain, "%") for other, gain in gains.items()
    ]
    return pd.DataFrame(rows, columns=["figure", "what", "system", "value", "unit"])


# --- streams and queries ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class ExperimentStream:
    """Events as arrays. ``type`` and ``key`` are codes from 0; conditions compare ``x``."""

    # ``seed`` is that of the queries on this stream.

    name: str
    time_ms: np.ndarray
    type: np.ndarray
    n_types: int
    key: np.ndarray
    x: np.ndarray
    seed: int = 7


def abc_events(
    n_events: int = 100_000, *, stay: float = 0.0, gap_s: float = 1.0, seed: int = 7
) -> ExperimentStream:
    """Return the ABC stream of three types, with one event per second as SASE's generator makes it."""
    # SEQ(A, B, C) WITHIN 50 s has about 4.5 million matches in 100,000 events.
    frame = abc_stream(n_events, stay=stay, gap_s=gap_s, seed=seed)
    return ExperimentStream(
        "ABC" if stay == 0 else f"ABC, stay {stay:g}",
        _milliseconds(frame["ts"]),
        frame["type"].cat.codes.to_numpy(),
        3,
        frame["key"].to_numpy(),
        frame["x"].to_numpy(),
        seed,
    )


def traffic_events(n_events: int = 100_000, *, n_types: int = 8, seed: int = 7) -> ExperimentStream:
    """Return road traffic as a stream: the type is a class of speed, the key a group of sensors."""
    # Reports come in rounds of five minutes with one time. A shorter window would hold only one round, so the
    # times are spread over the round. Types are ``n_types`` classes of equal size by the speed relative to
    # the sensor's mean. Keys are ten groups of sensors. ``x`` is the number of vehicles. The paper does not
    # define its types.
    n_rounds = -(-n_events // 400)
    frame = traffic(n_rounds, seed=seed, distinct_times=True).iloc[:n_events]
    return replace(_stream_of_reports(frame, n_types), seed=seed)


def recorded_traffic_events(n_events: int = 100_000, *, n_types: int = 8) -> ExperimentStream:
    """Return the first recorded reports of the traffic sensors of Aarhus as `traffic_events` does."""
    # All reports of a round have one time. Here, report k of a round is ``k * 300 s / 449`` later, in the
    # order of the file. Late reports come in the order of time.
    frame = recorded("traffic").iloc[:n_events].reset_index(drop=True)
    rank = frame.groupby("ts").cumcount().to_numpy()
    times = frame["ts"] + pd.to_timedelta(rank * 300_000 // 449, unit="ms")
    return _stream_of_reports(frame.assign(ts=times).sort_values("ts", kind="stable"), n_types)


def _stream_of_reports(frame: pd.DataFrame, n_types: int) -> ExperimentStream:
    relative = frame["avg_speed"] / frame.groupby("sensor")["avg_speed"].transform("mean").clip(lower=1.0)
    rank = relative.rank(method="average", pct=True).to_numpy()
    return ExperimentStream(
        "traffic",
        _milliseconds(frame["ts"]),
        np.minimum((rank * n_types).astype(np.int64), n_types - 1),
        n_types,
        pd.factorize(frame["sensor"], sort=True)[0] // 45,
        frame["vehicle_count"].to_numpy(),
    )


def _milliseconds(times: pd.Series) -> np.ndarray:
    return times.to_numpy().astype("datetime64[ms]").astype(np.int64)


@dataclass(frozen=True)
class StreamQuery:
    """SEQ of three types within a window."""

    # ``at_least`` holds the least ``x`` of each component (None: no condition on single events),
    # ``comparisons`` compare ``x`` of two components, and ``same_key`` requires equal keys.

    group: str
    types: tuple[int, ...]
    at_least: tuple[int, ...] | None = None
    comparisons: tuple[tuple[int, str, int], ...] = ()
    same_key: bool = False

    def __str__(self) -> str:
        letters = [string.ascii_uppercase[t] for t in self.types]
        names = [letter.lower() for letter in letters]
        text = "SEQ(" + ", ".join(f"{s} {n}" for s, n in zip(letters, names, strict=True)) + ")"
        parts = [f"{n}.x >= {v}" for n, v in zip(names, self.at_least or (), strict=False)]
        parts += [f"{names[i]}.x {sign} {names[j]}.x" for i, sign, j in self.comparisons]
        parts += ["[key]"] * self.same_key
        return text + (" WHERE " + " AND ".join(parts) if parts else "")

    def pattern(self, window_s: float) -> PlainPattern:
        """Return the pattern with a window."""
        conditions = [EventComparison(i, sign, j, "x", "x") for i, sign, j in self.comparisons]
        return PlainPattern(len(self.types), round(1000 * window_s), tuple(conditions))

    def events(self, stream: ExperimentStream) -> PlainEvents:
        """Return the stream with the events that each component accepts."""
        accepts = np.array([stream.type == t for t in self.types])
        for j, least in enumerate(self.at_least or ()):
            accepts[j] &= stream.x >= least
        return PlainEvents(
            stream.time_ms, accepts, stream.key if self.same_key else None, columns={"x": stream.x}
        )


def queries(
    stream: ExperimentStream, *, per_group: int = 10, seed: int = 7, groups: Sequence[str] = tuple(GROUPS)
) -> list[StreamQuery]:
    """Return queries of three different types, ``per_group`` for each of some `GROUPS`."""
    rng = np.random.default_rng(seed)
    levels = np.quantile(stream.x, [0.0, 0.25, 0.5]).astype(int) if len(stream.x) else [0]
    pairs = [(0, 1), (1, 2), (0, 2)]
    made = []
    for group in groups:
        for _ in range(per_group):
            types = tuple(int(t) for t in rng.choice(stream.n_types, 3, replace=False))
            query = StreamQuery(group, types)
            if group == "Q2":
                query = replace(query, at_least=tuple(int(v) for v in rng.choice(levels, 3)))
            if group in ("Q3", "Q4"):
                chosen = rng.permutation(3)[: 1 if group == "Q3" else 2]
                comparisons = [(*pairs[k], str(rng.choice(["<", ">"]))) for k in sorted(chosen)]
                query = replace(query, comparisons=tuple((i, sign, j) for i, j, sign in comparisons))
            made.append(replace(query, same_key=group == "Q5"))
    return made


# --- measuring --------------------------------------------------------------------------------------------


def run_query(
    system: str,
    query: StreamQuery,
    stream: ExperimentStream,
    *,
    window_s: float = WINDOW_S,
    repetitions: int = 1,
    copies: str = "pointer",
) -> dict:
    """Run one query on one system and return its CPU seconds (least of the repetitions) and counters."""
    # The matches of each batch of events are made in the order of the system, and dropped.
    if system not in SYSTEMS:
        raise CepError(f"system {system!r} is not known. Systems: {list(SYSTEMS)}")
    events, pattern = query.events(stream), query.pattern(window_s)
    seconds = []
    for _ in range(repetitions):
        engine = SYSTEMS[system](pattern, ordered=False, **_copying(copies))
        n_matches = 0
        for start in range(0, events.n_events, _EVENTS_PER_PUSH):
            n_matches += engine.push(events.take(slice(start, start + _EVENTS_PER_PUSH))).n_matches
        seconds.append(engine.kernel_seconds)
    counters = engine.counters
    return {
        "group": query.group,
        "query": str(query),
        "system": system,
        "seconds": min(seconds),
        "matches": n_matches if system != "CoverMatch" else len(engine.coverages),
        **{name: getattr(counters, name) for name in (*_COUNTERS, "mean_chain_length")},
        "copied_events": copied_events(counters.copied_bytes, copies),
        "coverable_share": sum(pattern.coverable) / pattern.n_components,
    }


def _copying(copies: str) -> dict:
    return {"copies": copies, "payload": ATTRIBUTES if copies == "deep" else None}


def copied_events(copied_bytes: int, copies: str) -> float:
    """Return how many events deep copies took, from the bytes that they wrote; NaN for other copies."""
    return copied_bytes / (8 * (1 + ATTRIBUTES)) if copies == "deep" else float("nan")


def _warm_up(stream: ExperimentStream) -> None:
    """Compile the kernels before the measurement."""
    first = replace(stream, **{name: getattr(stream, name)[:10] for name in ("time_ms", "type", "key", "x")})
    for system in SYSTEMS:
        run_query(system, StreamQuery("", (0, 1, 2)), first)


def _run_all(
    streams: Iterable[ExperimentStream], groups: Sequence[str], per_group: int, windows_s: Sequence[float],
    repetitions: int, copies: Sequence[str],
) -> Iterator[dict]:  # fmt: skip
    for stream in streams:
        _warm_up(stream)
        for window_s in windows_s:
            for query in queries(stream, per_group=per_group, seed=stream.seed, groups=groups):
                for way, system in product(copies, SYSTEMS):
                    row = run_query(
                        system, query, stream, window_s=window_s, repetitions=repetitions, copies=way
                    )
                    yield {"stream": stream.name, "copying": way, "window_s": window_s, **row}


def _average(rows: Iterable[dict], by: list[str]) -> pd.DataFrame:
    """Return means over queries, and whether all systems except CoverMatch found equally many matches."""
    frame = pd.DataFrame(rows)
    full = frame[frame["system"] != "CoverMatch"]
    agree = full.groupby(["stream", "window_s", "group", "query"])["matches"].nunique().eq(1).all()
    means = frame.groupby(by, sort=False).agg(
        mean_ms=("seconds", lambda seconds: 1000 * seconds.mean()),
        **{name: (name, "mean") for name in ("matches", *_COUNTERS, "copied_events", "coverable_share")},
    )
    means["mean_chain_length"] = (means["intermediate"] + means["complete"]) / means["chains"]
    means["same_matches"] = bool(agree)
    return means.reset_index()


def matching_time(
    streams: Iterable[ExperimentStream],
    *,
    per_group: int = 10,
    window_s: float = WINDOW_S,
    repetitions: int = 1,
    copies: Sequence[str] = COPIES,
) -> pd.DataFrame:
    """Return the mean matching time of each group of queries: figures 6 (ABC) and 7 (traffic)."""
    # Source: Qiu et al., LinkedCEP, experiment 1.
    rows = _run_all(streams, tuple(GROUPS), per_group, (window_s,), repetitions, copies)
    frame = _average(rows, ["stream", "copying", "group", "system"])
    frame.insert(3, "conditions", frame["group"].map(GROUPS))
    return frame


def time_by_window(
    streams: Iterable[ExperimentStream],
    *,
    windows_s: Sequence[float] = WINDOWS_S,
    groups: Sequence[str] = IN_METHOD,
    per_group: int = 2,
    repetitions: int = 1,
    copies: Sequence[str] = ("deep",),
) -> pd.DataFrame:
    """Return the mean matching time over some groups by window: figures 8 (ABC) and 9 (traffic)."""
    # Source: Qiu et al., LinkedCEP, experiment 2.
    rows = _run_all(streams, groups, per_group, windows_s, repetitions, copies)
    return _average(rows, ["stream", "copying", "window_s", "system"])


def throughput(
    streams: Iterable[ExperimentStream],
    *,
    n_queries: Sequence[int] = N_QUERIES,
    groups: Sequence[str] = IN_METHOD,
    window_s: float = WINDOW_S,
    repetitions: int = 1,
    copies: Sequence[str] = ("deep",),
) -> pd.DataFrame:
    """Return events per second by the number of queries: figures 10 (ABC) and 11 (traffic)."""
    # Every query has its own engine and reads every event. Queries share nothing. All queries run together:
    # the first 1,000 events go to every query, then the next 1,000 events.
    # Source: Qiu et al., LinkedCEP, experiment 3.
    rows = []
    for stream in streams:
        _warm_up(stream)
        per_group = -(-max(n_queries) // len(groups))
        every = queries(stream, per_group=per_group, seed=stream.seed, groups=groups)
        # Take one query of each group in turn, so that any number of queries covers the groups evenly.
        mixed = [every[g * per_group + i] for i in range(per_group) for g in range(len(groups))]
        for way, n, system in product(copies, n_queries, SYSTEMS):
            make = partial(SYSTEMS[system], ordered=False, **_copying(way))
            done = [_run_together(make, mixed[:n], stream, window_s) for _ in range(repetitions)]
            seconds = min(seconds for seconds, _, _ in done)
            rows.append(
                {
                    "stream": stream.name,
                    "copying": way,
                    "n_queries": n,
                    "system": system,
                    "events_per_s": len(stream.x) / seconds,
                    "seconds": seconds,
                    "matches": done[0][1],
                    "copied_events": copied_events(done[0][2], way),
                }
            )
    return pd.DataFrame(rows)


def _run_together(
    make: Callable[[PlainPattern], KernelMachine],
    together: Sequence[StreamQuery],
    stream: ExperimentStream,
    window_s: float,
) -> tuple[float, int, int]:
    """Return CPU seconds, matches and copied bytes of queries that read a stream together."""
    engines = [(make(query.pattern(window_s)), query.events(stream)) for query in together]
    n_matches = 0
    for start in range(0, len(stream.x), _EVENTS_TOGETHER):
        for engine, events in engines:
            n_matches += engine.push(events.take(slice(start, start + _EVENTS_TOGETHER))).n_matches
    copied_bytes = sum(engine.counters.copied_bytes for engine, _ in engines)
    return sum(engine.kernel_seconds for engine, _ in engines), n_matches, copied_bytes


def gain_by_stay(
    stays: Sequence[float], *, n_events: int = 20_000, gap_s: float = 1.0, seed: int = 7
) -> pd.DataFrame:
    """Compare SASE and LinkedCEP by how often a type repeats, for SEQ(A, B, C) without conditions."""
    # When runs become longer than the window, fewer windows hold all three types, and the ratio falls again.
    query, rows = StreamQuery("", (0, 1, 2)), []
    for stay in stays:
        stream = abc_events(n_events, stay=stay, gap_s=gap_s, seed=seed)
        counts = [run_query(name, query, stream) for name in ("SASE", "LinkedCEP")]
        nodes = [row["intermediate"] + row["complete"] for row in counts]
        run_length = 1 / (1 - (stay + (1 - stay) / stream.n_types)) if stay < 1 else float("inf")
        rows.append((stay, run_length, nodes[0] / max(1, nodes[1]), counts[1]["mean_chain_length"]))
    return pd.DataFrame(rows, columns=["stay", "run_length", "node_ratio", "mean_chain_length"])


# --- worked example ---------------------------------------------------------------------------------------


def worked_example() -> pd.DataFrame:
    """Return the counters of SEQ(A, B, C) on a1 a2 b1 b2 a3 b3 c1 c2, with those of the paper."""
    # Source: Qiu et al., LinkedCEP, section 3.2.1, figure 5.
    stream = "aabbabcc"
    accepts = np.array([[letter == kind for letter in stream] for kind in "abc"])
    paper = {"SASE": (24, 21, 14), "CoverMatch": (13, 10, 3), "LinkedCEP": (13, 10, 14)}
    rows = []
    for system, make in SYSTEMS.items():
        engine = make(PlainPattern(3))
        found = engine.push(PlainEvents(np.arange(len(stream)), accepts))
        counters, printed = engine.counters, paper.get(system, (np.nan,) * 3)
        rows.append(
            {
                "system": system,
                "partial_matches": counters.nodes,
                "intermediate": counters.intermediate,
                "complete": counters.complete,
                "copies": counters.copies,
                "chains": counters.chains,
                "results": len(engine.coverages) if system == "CoverMatch" else found.n_matches,
                "paper_partial_matches": printed[0],
                "paper_copies": printed[1],
                "paper_results": printed[2],
            }
        )
    return pd.DataFrame(rows)
