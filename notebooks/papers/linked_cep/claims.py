"""The statements of the LinkedCEP paper on figures 6 to 11 as claims, and the results that they are tried on.

`claim_results` and `paper_size_results` make the tables that are kept in ``notebooks/results``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import pandas as pd

from cepkit.linked.patterns import COPIES
from papers.claims import Claim, rises
from papers.linked_cep.figures import (
    N_QUERIES,
    SYSTEMS,
    WINDOWS_S,
    ExperimentStream,
    abc_events,
    matching_time,
    recorded_traffic_events,
    throughput,
    time_by_window,
    traffic_events,
)

ABC, STICKY, TRAFFIC = "ABC", "ABC, stay 0.5", "traffic"
AARHUS = "Aarhus"
GROUPS, WINDOWS, QUERIES = "groups", "windows", "queries"  # the paper's experiments 1, 2 and 3
SIMILAR = 1.25  # CoverMatch and LinkedCEP count as similar up to this ratio


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes of the three experiments."""

    # of_groups, of_windows, of_queries: events of the stream in experiment 1, 2 and 3
    of_groups: int
    # repetitions, repetitions_of_windows: runs of each query in experiment 1 and 2; the least time counts.
    # Experiment 3 runs once.
    per_group: int
    repetitions: int
    of_windows: int
    per_group_of_windows: int
    repetitions_of_windows: int
    # copies_of_windows, copies_of_queries: the ways of copying in experiment 2 and 3. Experiment 1 has all of
    # them.
    copies_of_windows: tuple[str, ...]
    of_queries: int
    copies_of_queries: tuple[str, ...]
    # Whether experiments 2 and 3 also have the ABC stream that stays in its type. The paper does not.
    with_sticky: bool = True


PAPER_SIZE = Sizes(100_000, 10, 1, 100_000, 1, 1, COPIES, 100_000, COPIES, False)
SEED_SIZE = Sizes(100_000, 10, 1, 20_000, 1, 1, COPIES, 10_000, COPIES, False)


# --- results ----------------------------------------------------------------------------------------------


def claim_results(seeds: Iterable[int] = range(10), *, with_recorded: bool = True) -> pd.DataFrame:
    """Return the results of all three experiments on streams of several seeds, see `measure`."""
    data = [f"seed {seed}" for seed in seeds] + [AARHUS] * with_recorded
    return pd.concat([measure(name) for name in data], ignore_index=True)


def paper_size_results(*, with_recorded: bool = True) -> pd.DataFrame:
    """Return the results of streams of the paper's size, of seed 7 and of the recorded traffic."""
    data = ["seed 7"] + [AARHUS] * with_recorded
    return pd.concat([measure(name, PAPER_SIZE) for name in data], ignore_index=True)


def streams_of(data: str, n_events: int) -> list[ExperimentStream]:
    """Return the streams of a data set: ``"seed 3"``, or ``"Aarhus"`` for the recorded traffic."""
    if data == AARHUS:
        return [recorded_traffic_events(n_events)]
    seed = int(data.removeprefix("seed "))
    return [
        abc_events(n_events, seed=seed),
        abc_events(n_events, stay=0.5, seed=seed),
        traffic_events(n_events, seed=seed),
    ]


def measure(data: str, sizes: Sizes = SEED_SIZE) -> pd.DataFrame:
    """Return the results of all three experiments on the streams of one data set."""
    times = matching_time(
        streams_of(data, sizes.of_groups), per_group=sizes.per_group, repetitions=sizes.repetitions
    )
    others = {n: streams_of(data, n) for n in (sizes.of_windows, sizes.of_queries)}
    if not sizes.with_sticky:
        others = {n: [one for one in streams if one.name != STICKY] for n, streams in others.items()}
    windows = time_by_window(
        others[sizes.of_windows], per_group=sizes.per_group_of_windows,
        repetitions=sizes.repetitions_of_windows, copies=sizes.copies_of_windows,
    )  # fmt: skip
    rates = throughput(others[sizes.of_queries], copies=sizes.copies_of_queries)
    parts = [
        _by_system(times, GROUPS, "group", "mean_ms", sizes.of_groups),
        _by_system(windows, WINDOWS, "window_s", "mean_ms", sizes.of_windows),
        _by_system(rates, QUERIES, "n_queries", "events_per_s", sizes.of_queries),
    ]
    made = pd.concat(parts, ignore_index=True)
    made.insert(0, "data", data)
    return made


def _by_system(frame: pd.DataFrame, experiment: str, at: str, value: str, n_events: int) -> pd.DataFrame:
    """Return a row per point with the values of all systems."""
    frame = frame.rename(columns={at: "at"})
    by = ["stream", "copying", "at"]
    wide = frame.pivot_table(index=by, columns="system", values=value, sort=False)[list(SYSTEMS)]
    for system in ("SASE", "LinkedCEP"):
        own = frame[frame["system"] == system].set_index(by)
        wide["matches"] = own["matches"]
        if "intermediate" in own:
            wide[f"partial matches, {system}"] = own["intermediate"] + own["complete"]
    if "chains" in own:
        wide["chains"] = own["chains"]
    wide = wide.reset_index().rename_axis(columns=None)
    wide["at"] = wide["at"].astype(str)
    wide.insert(0, "experiment", experiment)
    wide.insert(4, "events", n_events)
    return wide


# --- claims -----------------------------------------------------------------------------------------------

Test = Callable[[pd.DataFrame], tuple[float, bool] | None]


def _rows(own: pd.DataFrame, experiment: str, stream: str, copying: str) -> pd.DataFrame:
    is_meant = (own["experiment"] == experiment) & (own["stream"] == stream) & (own["copying"] == copying)
    return own[is_meant].set_index("at")


def _is_faster(experiment: str, stream: str, copying: str, other: str, at: Sequence[str] = ()) -> Test:
    """Return the test that LinkedCEP takes less time than another system at every point."""

    def test(own: pd.DataFrame) -> tuple[float, bool] | None:
        rows = _rows(own, experiment, stream, copying)
        if rows.empty:
            return None
        rows = rows.loc[list(at)] if at else rows
        worst = (rows["LinkedCEP"] / rows[other]).max()
        return worst, worst < 1

    return test


def _saves(experiment: str, stream: str, copying: str, other: str, at: str) -> Test:
    """Return the test that LinkedCEP takes less time than another system; the measure is the percentage."""

    def test(own: pd.DataFrame) -> tuple[float, bool] | None:
        rows = _rows(own, experiment, stream, copying)
        if rows.empty:
            return None
        saved = 100 * (1 - rows.loc[at, "LinkedCEP"] / rows.loc[at, other])
        return saved, saved > 0

    return test


def _gain_rises(stream: str, copying: str, other: str) -> Test:
    """Return the test that the saving of LinkedCEP grows from each window to the next."""

    def test(own: pd.DataFrame) -> tuple[float, bool] | None:
        rows = _rows(own, WINDOWS, stream, copying)
        if rows.empty:
            return None
        saved = 100 * (1 - rows["LinkedCEP"] / rows[other]).loc[[str(w) for w in WINDOWS_S]]
        return saved.iloc[-1] - saved.iloc[0], rises(saved)

    return test


def _has_more(stream: str, copying: str, system: str, *others: str) -> Test:
    """Return the test that a system has a higher throughput than others at every number of queries."""

    def test(own: pd.DataFrame) -> tuple[float, bool] | None:
        rows = _rows(own, QUERIES, stream, copying)
        if rows.empty:
            return None
        least = min((rows[system] / rows[other]).min() for other in others)
        return least, least > 1

    return test


def _is_similar(stream: str, copying: str) -> Test:
    def test(own: pd.DataFrame) -> tuple[float, bool] | None:
        rows = _rows(own, QUERIES, stream, copying)
        if rows.empty:
            return None
        most = (rows["CoverMatch"] / rows["LinkedCEP"]).max()
        return most, most <= SIMILAR

    return test


def _gains_more(copying: str, experiment: str, at: Sequence[str], stream: str, other: str) -> Test:
    """Return the test that the gain over SASE on one stream exceeds that on another one at every point."""

    def test(own: pd.DataFrame) -> tuple[float, bool] | None:
        gains = []
        for name in (stream, other):
            rows = _rows(own, experiment, name, copying)
            if rows.empty:
                return None
            gain = (rows["LinkedCEP"] / rows["SASE"]).loc[list(at)]
            gains.append(gain if experiment == QUERIES else 1 / gain)
        least = (gains[0] / gains[1]).min()
        return least, least > 1

    return test


def _makes_fewer(stream: str, copying: str, at: Sequence[str]) -> Test:
    def test(own: pd.DataFrame) -> tuple[float, bool] | None:
        rows = _rows(own, GROUPS, stream, copying)
        if rows.empty:
            return None
        rows = rows.loc[list(at)]
        most = (rows["partial matches, LinkedCEP"] / rows["partial matches, SASE"]).max()
        return most, most < 1

    return test


def claims(copying: str = "deep") -> list[Claim]:
    """Return the statements of the paper on figures 6 to 11, in order, for one way of copying."""
    # The paper copies deeply. `papers.linked_cep.reasons.with_reasons` says why its claims hold or not.
    made = []

    def add(place: str, statement: str, measure: str, test: Test, printed: str = "") -> None:
        made.append(Claim(place, statement, measure, test, printed))

    printed_times = {
        ABC: ("Q3", {"SASE": "43", "Siddhi-like": "24"}),
        TRAFFIC: ("Q2", {"SASE": "46", "Siddhi-like": "19"}),
    }
    for place, stream in (("figure 6", ABC), ("figure 7", TRAFFIC)):
        at, printed = printed_times[stream]
        for other in ("SASE", "Siddhi-like"):
            ratio, less = f"greatest LinkedCEP / {other}", f"less time than {other} in"
            every = _is_faster(GROUPS, stream, copying, other)
            of_two = _is_faster(GROUPS, stream, copying, other, ("Q1", "Q2"))
            add(place, f"{less} every group", ratio, every)
            add(place, f"{less} groups Q1 and Q2", ratio, of_two)
            saved = _saves(GROUPS, stream, copying, other, at)
            add(place, f"{less} group {at}", "time saved, %", saved, printed[other])
        fewer = _makes_fewer(stream, copying, ("Q1", "Q2"))
        add(
            place, "fewer temporary matches than SASE in groups Q1 and Q2", "greatest LinkedCEP / SASE", fewer
        )
    for place, stream in (("figure 8", ABC), ("figure 9", TRAFFIC)):
        for other, percent in (("SASE", "34"), ("Siddhi-like", "19")):
            ratio = f"greatest LinkedCEP / {other}"
            every = _is_faster(WINDOWS, stream, copying, other)
            add(place, f"less time than {other} at every window", ratio, every)
            if stream == ABC:
                saved = _saves(WINDOWS, stream, copying, other, "200")
                add(place, f"less time than {other} at 200 s", "time saved, %", saved, percent)
            grows = _gain_rises(stream, copying, other)
            measure = "time saved at 300 s minus that at 50 s, %"
            add(place, f"gains more on {other} at every longer window", measure, grows)
    for place, stream in (("figure 10", ABC), ("figure 11", TRAFFIC)):
        for other in ("SASE", "Siddhi-like"):
            more = _has_more(stream, copying, "LinkedCEP", other)
            statement = f"more throughput than {other} with any number of queries"
            add(place, statement, f"least LinkedCEP / {other}", more)
        more = _has_more(stream, copying, "CoverMatch", "LinkedCEP")
        add(place, "CoverMatch has more throughput than LinkedCEP", "least CoverMatch / LinkedCEP", more)
        if stream == ABC:
            more = _has_more(stream, copying, "CoverMatch", "SASE", "Siddhi-like")
            statement = "CoverMatch has more throughput than SASE and Siddhi-like"
            add(place, statement, "least CoverMatch / other", more)
    similar = f"CoverMatch and LinkedCEP are similar, up to a factor of {SIMILAR:g}"
    add("figure 11", similar, "greatest CoverMatch / LinkedCEP", _is_similar(TRAFFIC, copying))
    gains = _gains_more(copying, QUERIES, [str(n) for n in N_QUERIES], ABC, TRAFFIC)
    measure = "least gain on ABC / gain on traffic"
    add("figures 10, 11", "gains more on SASE for ABC than for traffic", measure, gains)
    gains = _gains_more(copying, GROUPS, ("Q1", "Q2"), STICKY, ABC)
    measure = "least gain, stay 0.5 / stay 0"
    add("section 4.2", "gains more where events of one type are adjacent", measure, gains)
    return made
