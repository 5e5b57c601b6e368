"""The claims of the HYPERSONIC paper about its figures, as tests of the tables of `results`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

import pandas as pd

from papers.claims import Claim, falls, rises
from papers.hybrid_parallel.figures import CORES, FULL, ONE, STATE, STATIC
from papers.hybrid_parallel.figures import RIP_NAME as RIP
from papers.hybrid_parallel.results import BURSTS, along
from papers.hybrid_parallel.workloads import CHANGE, CORRELATION, SENSORS

STOCKS = (CHANGE, CORRELATION)
NEAR_ONE = 1.5  # "very close to 1"
MOST_EVENTS = 130_000
LEAST_GAIN = 0.01  # less is no gain
FLAT = 0.1  # a gain below this from 16 cores on is "a limit at about 16 cores"
_POINT = ["stream", "pattern", "window_min", "threads", "length"]
Test = Callable[[pd.DataFrame], tuple[float, bool] | None]


def _table(results: pd.DataFrame, name: str, streams: Sequence[str]) -> pd.DataFrame:
    return results[(results["table"] == name) & results["stream"].isin(streams)]


def _by_system(table: pd.DataFrame, value: str, *more: str) -> pd.DataFrame:
    """Return a row per point, with a column per system."""
    keys = [*_POINT, *more, "system"]
    return table[[*keys, value]].dropna(subset=[value]).set_index(keys)[value].unstack("system")


def _lines(table: pd.DataFrame, x: str) -> list[tuple[tuple, pd.DataFrame]]:
    """Return each line along x, in order."""
    lines = along(table, x).groupby(["stream", "pattern"], sort=False)
    return [(key, line) for key, line in lines if line[x].nunique() > 1]


def _steps(lines: Iterable[Sequence[float]], does: Callable[[Iterable[float]], bool] = rises):
    """Return the least ratio of two neighbours on any line, and whether all lines go the same way."""
    own = [list(line) for line in lines]
    if not own:
        return None
    ratios = [b / a for line in own for a, b in pairwise(line)]
    return (min if does is rises else max)(ratios), all(map(does, own))


def _grows(system: str, stream: str, x: str) -> Test:
    """Return the test of speed-ups that rise at every step of x, for all patterns."""

    def test(results: pd.DataFrame):
        table = _table(results, "speed", [stream])
        own = table[table["system"] == system]
        return _steps(line["speedup"].tolist() for _, line in _lines(own, x))

    return test


def _ratio(
    table: str, value: str, system: str, other: str, streams: Sequence[str], *, least: bool, x: str = ""
) -> Test:
    """Return the test that a value is greater (or less) than that of another system at every point."""

    def test(results: pd.DataFrame):
        rows = _table(results, table, streams)
        if x:
            rows = pd.concat([line for _, line in _lines(rows, x)]) if len(rows) else rows
        if rows.empty:
            return None
        more = ("load",) if rows["load"].notna().any() else ()
        wide = _by_system(rows, value, *more)
        if system not in wide or other not in wide:
            return None  # a home without matches has no latency
        ratio = (wide[system] / wide[other]).dropna()
        if ratio.empty:
            return None
        return (ratio.min(), bool((ratio > 1).all())) if least else (ratio.max(), bool((ratio < 1).all()))

    return test


def _gain_over_rip_grows(system: str, stream: str) -> Test:
    def test(results: pd.DataFrame):
        rows = _table(results, "speed", [stream])
        lines = []
        for _, line in _lines(rows, "window_min"):
            wide = _by_system(line, "speedup").sort_index(level="window_min")
            lines.append((wide[system] / wide[RIP]).tolist())
        return _steps(lines)

    return test


def _most_over(other: str, streams: Sequence[str], printed: float) -> Test:
    """Return the test of the greatest ratio of any hybrid to another system."""

    def test(results: pd.DataFrame):
        rows = _table(results, "speed", streams)
        if rows.empty:
            return None
        wide = _by_system(rows, "speedup")
        hybrids = wide[[FULL, STATE, STATIC]].max(axis=1)
        most = float((hybrids / wide.get(other, 1.0)).max())
        return most, most >= printed

    return test


def _rip_near_one(results: pd.DataFrame):
    rows = _table(results, "speed", [SENSORS])
    rows = rows[(rows["system"] == RIP) & (rows["threads"] == CORES) & (rows["length"] == 6)]
    return (rows["speedup"].max(), bool((rows["speedup"] <= NEAR_ONE).all())) if len(rows) else None


def _rip_near_one_in_bursts(results: pd.DataFrame):
    rows = _table(results, "bursts", [BURSTS])
    rows = rows[rows["system"] == RIP]
    return (rows["speedup"].max(), bool((rows["speedup"] <= NEAR_ONE).all())) if len(rows) else None


def _rip_worse_on_sensors(results: pd.DataFrame):
    rows = _table(results, "speed", [CHANGE, SENSORS])
    rows = rows[(rows["system"] == RIP) & (rows["threads"] == CORES) & (rows["length"] == 6)]
    means = rows.groupby("stream")["speedup"].mean()
    if len(means) < 2:
        return None
    return means[SENSORS] / means[CHANGE], means[SENSORS] < means[CHANGE]


def _flat(system: str) -> Test:
    def test(results: pd.DataFrame):
        rows = _table(results, "speed", [SENSORS])
        rows = rows[(rows["system"] == system) & (rows["pattern"] == "SEQ")]
        for _, line in _lines(rows, "threads"):
            speed = line.set_index("threads")["speedup"]
            return speed[CORES] / speed[16] - 1, speed[CORES] / speed[16] - 1 < FLAT
        return None

    return test


def _never_pruned(results: pd.DataFrame) -> pd.Series:
    rows = results[(results["table"] == "never_pruned") & (results["baseline"] == "never pruned")]
    return rows.sort_values("events").set_index("events")["speedup"]


def _three_orders(results: pd.DataFrame):
    line = _never_pruned(results)
    return (line[MOST_EVENTS], line[MOST_EVENTS] >= 1000) if MOST_EVENTS in line.index else None


def _grows_with_the_stream(results: pd.DataFrame):
    line = _never_pruned(results)
    return _steps([line.tolist()]) if len(line) else None


def _gains(results: pd.DataFrame, stream: str, x: str) -> list[pd.Series]:
    """Return the gain of fully dynamic over state-dynamic along x, for each pattern."""
    made = []
    for _, line in _lines(_table(results, "speed", [stream]), x):
        wide = _by_system(line, "events_per_ms").sort_index(level=x)
        made.append(wide[FULL] / wide[STATE] - 1)
    return made


def _always_faster(stream: str, x: str) -> Test:
    def test(results: pd.DataFrame):
        gains = _gains(results, stream, x)
        if not gains:
            return None
        least = min(gain.min() for gain in gains)
        return least, least > 0

    return test


def _most_with_few_cores(stream: str) -> Test:
    def test(results: pd.DataFrame):
        gains = _gains(results, stream, "threads")
        if not gains:
            return None
        holds = all(gain.iloc[0] == gain.max() for gain in gains)
        return min(gain.iloc[0] / gain.iloc[1:].max() for gain in gains), holds

    return test


def _fusion(results: pd.DataFrame, cost_model: str, x: str) -> list[pd.Series]:
    """Return the gains of fusion along the windows at ten threads, or along the cores at the third window."""
    rows = _table(results, "fusion", STOCKS)
    rows = rows[rows["cost_model"] == cost_model] if len(rows) else rows
    return [line.set_index(x)["gain"] for _, line in along(rows, x).groupby("stream", sort=False)]


def _fusion_gains(cost_model: str) -> Test:
    def test(results: pd.DataFrame):
        lines = _fusion(results, cost_model, "window_min")
        shares = [float((gain > LEAST_GAIN).mean()) for gain in lines]
        return (min(shares), min(shares) > 0.5) if shares else None

    return test


def _fusion_most_at_ten(cost_model: str) -> Test:
    def test(results: pd.DataFrame):
        lines = _fusion(results, cost_model, "threads")
        holds = [gain.iloc[0] == gain.max() and gain.iloc[0] > LEAST_GAIN for gain in lines]
        return (min(gain.iloc[0] for gain in lines), all(holds)) if lines else None

    return test


def _fusion_falls(cost_model: str) -> Test:
    def test(results: pd.DataFrame):
        lines = _fusion(results, cost_model, "threads")
        return (max(gain.diff().max() for gain in lines), all(map(falls, lines))) if lines else None

    return test


def _pairs(source: str) -> Test:
    """Return the test that a cost model counts pairs within 15 % on Poisson streams, for every agent."""

    def test(results: pd.DataFrame):
        rows = results[results["table"] == "model"]
        if rows.empty:
            return None
        wide = rows.pivot(index="agent", columns="source", values="per_second")
        off = wide[source] / wide["measured"]
        return off.max(), bool(off.between(0.85, 1.15).all())

    return test


# --- reasons: measured in the notebook, or in the kept tables -----------------------------------------------

_IDLE_OR_NEAR = (
    "Threads take 32 items at once, so some are idle in homes with little work, and other homes are near 24"
)
_GROWTH = {
    (FULL, "window_min"): (
        "A longer window has more pairs for each item, so locks and queues weigh less (table of pairs)"
    ),
    (STATE, "window_min"): (
        "The work moves to later agents, and the paper's model gives the busiest one too few threads "
        "(table of pairs)"
    ),
    (FULL, "threads"): "Every thread takes what waits at any agent, so further threads find work",
    (STATE, "threads"): (
        "The speed-up follows the threads of the busiest agent, and is flat where the model gives it no more"
    ),
    (FULL, "length"): (
        "A longer pattern has fewer pairs for each item on generated stocks, so locks weigh more "
        "(table of pairs)"
    ),
    (STATE, "length"): "Each further agent takes threads from the busiest one (table of pairs)",
    **{(FULL, SENSORS, x): _IDLE_OR_NEAR for x in ("window_min", "length")},
}
_RIP_REASONS = {
    CHANGE: "The work is spread over the day, so RIP divides it well, and RIP pays no locks (table of costs)",
    CORRELATION: "Correlated prices come in runs, so RIP's busiest thread has 0.16 of the work at 10 min",
    SENSORS: "A morning's matches are in one chunk, so RIP's busiest thread has 0.7 of the work at 60 min",
    **dict.fromkeys(
        [(STATIC, stream) for stream in (*STOCKS, SENSORS)],
        "A static thread takes items of one kind only, so the busiest one has 0.3 of the work in the median",
    ),
    **dict.fromkeys(
        [(STATE, stream) for stream in STOCKS],
        "The paper's model gives the busiest agent too few threads (table of models)",
    ),
    **dict.fromkeys(
        [("gain", stream) for stream in (*STOCKS, SENSORS)],
        "RIP's busiest thread has a smaller share of the work at some longer window, so RIP gains there",
    ),
}
_PACE_REASONS = {
    ("mean_latency_us", ONE): "One thread has more items waiting, and many threads take them sooner",
    (
        "mean_latency_us",
        FULL,
        RIP,
        "stocks",
    ): "Events come one at a time, so threads take short batches and pay a lock for each (table of locks)",
    (
        "mean_latency_us",
        STATE,
        RIP,
        "stocks",
    ): "The busiest agent has too few threads to follow the high rate at some points",
    ("mean_latency_us", RIP, "sensors"): "One thread of RIP has the whole morning and cannot follow",
    ("most_kb", ONE): "One thread removes old items at once, but agents have queues and remove in passes",
    ("most_kb", RIP): "Each thread of RIP keeps a window of its own, but queues hold more where agents lag",
}
_EXTENSION_REASONS = {
    ("9", CHANGE): "Any thread serves any agent, so no cost model can be wrong",
    (
        "9",
        CORRELATION,
    ): "Any thread serves any agent, but at 5 min an item has few pairs, so its locks weigh more",
    ("9 by cores", CORRELATION): "Any thread serves any agent, so no cost model can be wrong",
    **dict.fromkeys(
        [("few", stream) for stream in STOCKS],
        "With ten cores, any model gives each agent two threads; the gain depends on the model's error",
    ),
    ("fusion", "paper"): "The model gives the freed threads to an agent with less work than the busiest one",
    ("fusion", "measured"): "The counts give the freed threads to the agents with most work",
    ("most", "measured"): "An agent gets whole threads, so the gain jumps with their number",
    ("falls", "paper"): "There is next to no gain that could fall",
    ("falls", "measured"): "An agent gets whole threads, so the gain jumps with their number",
}
_FLAT_REASONS = {
    STATIC: "The limit appears where the model gives the further threads to agents with little work",
    STATE: "The limit appears where the model gives the busiest agent no further threads",
    FULL: "Every thread takes what waits, and a step costs as much with 24 threads as with one",
}
_NEAR_ONE = "RIP's busiest thread has 0.7 of the work in the median home, and less than 0.5 in some"
_BELOW_24 = "RIP is never slower than one thread here, and 24 threads are at most 24 times as fast"


# --- the claims -------------------------------------------------------------------------------------------

_SHORT = {FULL: "fully dynamic", STATE: "state-dynamic", STATIC: "static"}
_STEP = "least ratio of a step to the one before"


def _claims_of_growth() -> list[Claim]:
    made = []
    for x, words, on_stocks, on_sensors in (
        ("window_min", "the window", "figure 6a", "figure 6d"),
        ("threads", "cores", "figure 6b", "figure 6e"),
        ("length", "the length of the pattern", "figure 6c", "figure 6f"),
    ):
        for stream in (*STOCKS, SENSORS):
            for system in (STATE, FULL):
                place = on_stocks if stream in STOCKS else on_sensors
                said = f"{_SHORT[system]}: faster with {words}, {stream}"
                reason = _reason(_GROWTH, (system, stream, x), (system, x), x)
                made.append(Claim(place, said, _STEP, _grows(system, stream, x), "rises", reason))
    return made


def _claims_against_rip() -> list[Claim]:
    made = []
    for stream in (*STOCKS, SENSORS):
        place = "figure 6a to 6c" if stream in STOCKS else "figure 6d to 6f"
        for system in (STATIC, STATE, FULL):
            test = _ratio("speed", "speedup", system, RIP, [stream], least=True)
            said = f"{_SHORT[system]}: faster than RIP at every point, {stream}"
            reason = _reason(_RIP_REASONS, (system, stream), stream)
            made.append(Claim(place, said, "least ratio to RIP", test, "more than 1", reason))
        said = f"fully dynamic: its gain over RIP grows with the window, {stream}"
        test = _gain_over_rip_grows(FULL, stream)
        made.append(Claim(place[:9], said, _STEP, test, "rises", _RIP_REASONS["gain", stream]))
    return made


def _claims_of_paces() -> list[Claim]:
    made = []
    for value, table_of, what in (
        ("mean_latency_us", "7", "less latency"), ("most_kb", "8", "less memory"),
    ):  # fmt: skip
        for panels, streams, on in (("a, b", STOCKS, "stocks"), ("c, d", (SENSORS,), "sensors")):
            for system in (STATE, FULL):
                for other in (ONE, RIP):
                    test = _ratio("pace", value, system, other, streams, least=False)
                    said = f"{_SHORT[system]}: {what} than {_OTHERS[other]} at every point, {on}"
                    reason = _reason(
                        _PACE_REASONS, (value, system, other, on), (value, other, on), (value, other)
                    )
                    place = f"figure {table_of}{panels}"
                    made.append(
                        Claim(place, said, f"greatest ratio to {_OTHERS[other]}", test, "below 1", reason)
                    )
    return made


def _claims_of_extensions() -> list[Claim]:
    made = []
    for stream in STOCKS:
        for x, place in (("window_min", "figure 9a"), ("threads", "figure 9b")):
            said = f"fully dynamic beats state-dynamic at every point, {stream}"
            by_cores = ("9 by cores", stream) if x == "threads" else ()
            reason = _reason(_EXTENSION_REASONS, by_cores, ("9", stream))
            made.append(Claim(place, said, "least gain", _always_faster(stream, x), "more than 0", reason))
        said = f"fully dynamic gains most with the fewest cores, {stream}"
        measure = "gain at 10 cores, over the greatest other"
        reason = _EXTENSION_REASONS["few", stream]
        made.append(Claim("figure 9b", said, measure, _most_with_few_cores(stream), "", reason))
    for model, words in (("paper", "threads by the paper's model"), ("measured", "threads by counts")):
        said = f"fusion gains at most windows with ten threads, {words}"
        measure = f"share of windows that gain more than {LEAST_GAIN:.0%}"
        reason = _EXTENSION_REASONS["fusion", model]
        made.append(Claim("figure 10a", said, measure, _fusion_gains(model), "most", reason))
        said = f"fusion gains most with ten threads, {words}"
        most = _reason(_EXTENSION_REASONS, ("most", model), ("fusion", model))
        made.append(Claim("figure 10b", said, "gain at ten threads", _fusion_most_at_ten(model), "", most))
        said = f"fusion gains less with every further step of cores, {words}"
        reason = _EXTENSION_REASONS["falls", model]
        made.append(Claim("figure 10b", said, "greatest step", _fusion_falls(model), "", reason))
    return made


def _reason(reasons: dict, *keys: object) -> str:
    """Return the reason of the first key that has one."""
    return next(reasons[key] for key in keys if key in reasons)


_OTHERS = {ONE: "one thread", RIP: "RIP"}


def _claims_of_speed() -> list[Claim]:
    flat = [
        Claim(
            "figure 6e", f"{_SHORT[system]}: no gain beyond 16 cores, SEQ on sensors",
            "gain from 16 to 24 cores", _flat(system), "a limit at about 16", _FLAT_REASONS[system],
        )
        for system in (STATIC, STATE, FULL)
    ]  # fmt: skip
    every = (*STOCKS, SENSORS)
    return [
        *flat,
        Claim(
            "figure 6d", "RIP is very close to 1 on sensors", "greatest speed-up by window", _rip_near_one,
            "1", _NEAR_ONE,
        ),
        Claim(
            "figure 6d", "RIP is very close to 1 in bursts, a setting of the generator", "greatest speed-up",
            _rip_near_one_in_bursts, "1",
            "RIP's busiest thread has only 0.4 of the work in the median of the bursts",
        ),
        Claim(
            "figure 6", "RIP is worse on sensors than on stocks, price change", "ratio of the mean speed-ups",
            _rip_worse_on_sensors, "less than 1",
            "RIP's busiest thread has 0.7 of the work on sensors, and 0.06 on price changes",
        ),
        Claim(
            "figure 6", "up to three orders of magnitude over one thread that does equal work",
            "greatest speed-up", _most_over(ONE, every, 1000), "1,000",
            "24 threads that share the work of one are at most 24 times as fast (figure of limits)",
        ),
        Claim(
            "figure 6", "up to three orders of magnitude over one thread that never prunes",
            "speed-up at 130,000 events", _three_orders, "1,000",
            "It looks at all events of the pattern, 42 % of the generated and 7 % of the recorded ones",
        ),
        Claim(
            "figure 6", "the factor over one thread that never prunes grows with the stream", _STEP,
            _grows_with_the_stream, "", "The pairs that it looks at grow with the square of the length",
        ),
        Claim(
            "figure 6", "up to two orders of magnitude over RIP, stocks", "greatest ratio",
            _most_over(RIP, STOCKS, 100), "100", _BELOW_24,
        ),
        Claim(
            "figure 6", "up to three orders of magnitude over RIP, sensors", "greatest ratio",
            _most_over(RIP, [SENSORS], 1000), "1,000", _BELOW_24,
        ),
    ]  # fmt: skip


def _claims_of_the_model() -> list[Claim]:
    measure = "greatest ratio to the counted pairs"
    return [
        Claim(
            "section IV", "pairs of every agent as printed, within 15 %", measure,
            _pairs("paper, one side"), "",
            "The model counts all orders of events, so it has (i - 2)! times too many pairs",
        ),
        Claim(
            "section IV", "pairs of every agent divided by (i - 2)!, within 15 %", measure,
            _pairs("simplex"), "",
            "The streams are Poisson and the conditions are independent, as the model assumes",
        ),
    ]  # fmt: skip


CLAIMS: tuple[Claim, ...] = (
    *_claims_of_growth(),
    *_claims_of_speed(),
    *_claims_against_rip(),
    *_claims_of_paces(),
    *_claims_of_extensions(),
    *_claims_of_the_model(),
)
