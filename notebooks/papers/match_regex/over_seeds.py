"""The experiments of "Partition and Compose" over many seeds and on recorded data, as tables to be kept.

``python -m papers.match_regex.over_seeds speeds`` writes one of the tables in
``notebooks/results`` again. Without a name it writes all of them.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import pandas as pd

from cepkit.engines.regex import Run, match_regex
from papers.match_regex.aggregates import incremental_against_recomputed
from papers.match_regex.benchmark_runs import (
    Prepared,
    compile_benchmark,
    count_matches,
    fit,
    live_starts,
    table6,
    with_constant,
)
from papers.match_regex.benchmarks import (
    BENCHMARKS,
    EVENTS_OF_BLOCK,
    RECORDED,
    Benchmark,
    data_named,
    parse_tweets,
)
from papers.match_regex.scaling import WIDTHS, speedup_simulated
from papers.match_regex.topologies import topologies
from papers.recorded import has_recorded
from papers.tables import keep_table, kept_table

FINANCE = [name for name, benchmark in BENCHMARKS.items() if benchmark.data == "trades"]
TWITTER = [name for name in BENCHMARKS if name not in FINANCE]
WITH_PATTERN = tuple(name for name, benchmark in BENCHMARKS.items() if benchmark.pattern)
MODULE = "papers.match_regex.over_seeds"


def seeds(n: int) -> tuple[str, ...]:
    """Return the names of data of the first ``n`` seeds, and of recorded data where this machine has them."""
    has_both = has_recorded("trades") and has_recorded("tweets")
    return (*(f"seed {seed}" for seed in range(n)), *((RECORDED,) if has_both else ()))


def selectivities(names: Iterable[str] | None = None, *, blocks: int = 20) -> pd.DataFrame:
    """Return what each benchmark selects, and how many partial matches wait, on several data sets."""
    rows = []
    for name in names if names is not None else seeds(20):
        parsed = {one: without_parsing(BENCHMARKS[one]) for one in WITH_PATTERN}
        made: dict[str, pd.DataFrame] = {}
        for benchmark in parsed.values():
            if benchmark.data not in made:
                made[benchmark.data] = data_named(benchmark, blocks, name, xml=False)
            data = made[benchmark.data]
            rows.append({"data": name, **_selectivity(benchmark, data, benchmark.prepared(data))})
    return pd.DataFrame(rows)


def without_parsing(benchmark: Benchmark) -> Benchmark:
    """Return a benchmark that takes parsed tweets. ParseTweet changes nothing but the time."""
    return replace(benchmark, stages=tuple(stage for stage in benchmark.stages if stage is not parse_tweets))


def _selectivity(benchmark: Benchmark, data: pd.DataFrame, frame: pd.DataFrame) -> dict[str, object]:
    found = match_regex(*compile_benchmark(benchmark, frame), threads=1, tier="compiled", run=Run())
    target = benchmark.paper_selectivity * len(data)
    of_key = pd.Series(found.partition).value_counts()
    first_block = min(EVENTS_OF_BLOCK, len(data)) - 1
    row: dict[str, object] = {
        "benchmark": benchmark.name,
        "events": len(data),
        "matches": len(found),
        "ratio": len(found) / target,
        "top_key": of_key.iloc[0] / len(found) if len(found) else float("nan"),
        "in_first_block": int((frame["ts"].iloc[found.last] <= data["ts"].iloc[first_block]).sum()),
    }
    if "price" in frame and len(found):
        row["match_price"] = frame["price"].iloc[found.last].median() / frame["price"].median()
    if benchmark.free is not None:
        value, matches = fit(benchmark, data, frame)
        row |= {"fitted": value, "fitted_ratio": matches / target}
        for word, factor in (("half", 0.5), ("double", 2.0)):
            tried = with_constant(benchmark, factor * benchmark.free.stored)
            row[f"{word}_ratio"] = count_matches(tried, frame) / target
    prepared: Prepared = (benchmark, data, frame)
    return row | live_starts([prepared]).iloc[0].to_dict()


def speeds(
    names: Iterable[str] | None = None, *, blocks: Mapping[str, int] | None = None, repeats: int = 5
) -> pd.DataFrame:
    """Return the speed of each benchmark on one thread by CPU time, on several data sets."""
    own = {"trades": 20, "tweets": 1} | dict(blocks or {})
    parts = []
    for name in names if names is not None else seeds(10):
        for some, runs in ((FINANCE, repeats), (TWITTER, min(repeats, 3))):
            part = table6(own, runs, some, name)[["events", "cpu_s"]].reset_index()
            parts.append(part.assign(data=name))
    return pd.concat(parts, ignore_index=True)[["data", "benchmark", "events", "cpu_s"]]


def speeds_as_in_paper(
    names: Iterable[str] | None = None, *, blocks: int = 20, repeats: int = 3
) -> pd.DataFrame:
    """Return the speed of the trades' benchmarks by the paper's engine, which keeps a record per start."""
    names = names if names is not None else seeds(10)
    parts = [
        table6(blocks, repeats, FINANCE, name, as_in_paper=True).reset_index().assign(data=name)
        for name in names
    ]
    return pd.concat(parts, ignore_index=True)[["data", "benchmark", "events", "cpu_s"]]


def speeds_at_full_size() -> pd.DataFrame:
    """Return the speed of twitter0 to twitter2 as the paper runs them: on texts, with 20 blocks; seed 0."""
    # The columns are those of `speeds`. It takes about three minutes of CPU time.
    names = ["twitter0", "twitter1_texts", "twitter2_texts"]
    table = table6({"tweets": 20}, 1, names)[["events", "cpu_s"]].reset_index()
    return table.assign(data="seed 0")[["data", "benchmark", "events", "cpu_s"]]


def scaling(
    names: Iterable[str] | None = None, *, blocks: Mapping[str, int] | None = None, repeats: int = 3
) -> pd.DataFrame:
    """Return the speed-ups of `speedup_simulated` on several data sets."""
    # In the paper's 20 blocks, twitter2 needs even more of its time for comparisons than in 3.
    own = {"trades": 200, "tweets": 1, "texts": 3} | dict(blocks or {})
    parts = []
    for name in names if names is not None else seeds(10):
        for some, n, runs in (
            (FINANCE, {"trades": own["trades"]}, repeats),
            (TWITTER[:2], {"tweets": own["tweets"]}, 1),
            (TWITTER[2:], {"tweets": own["texts"]}, 1),
        ):
            part = speedup_simulated(WIDTHS, repetitions=n, names=some, data=name, repeats=runs)
            parts.append(part.reset_index().assign(data=name))
    columns = ["data", "benchmark", "width", "speedup", "replicas_alone", "events", "alone_s"]
    return pd.concat(parts, ignore_index=True)[columns]


def orders(names: Iterable[str] | None = None) -> pd.DataFrame:
    """Return the runs of `topologies` on several data sets, one block each; None: 10 seeds, recorded data."""
    names = names if names is not None else seeds(10)
    parts = [
        topologies((1, 2, 4), repetitions=1, data=name).reset_index().assign(data=name) for name in names
    ]
    return pd.concat(parts, ignore_index=True)


def aggregates(names: Iterable[str] | None = None, *, n_events: int = 100_000) -> pd.DataFrame:
    """Return `incremental_against_recomputed` for several seeds; None: 10 of them."""
    parts = []
    for name in names if names is not None else (f"seed {seed}" for seed in range(10)):
        table = incremental_against_recomputed(n_events=n_events, seed=int(name.removeprefix("seed ")))
        parts.append(table.reset_index().assign(data=name))
    return pd.concat(parts, ignore_index=True)


# The claims read the tables of these sweeps. `speeds_at_full_size` has one seed, so no claim reads it.
SWEEPS: dict[str, Callable[[], pd.DataFrame]] = {
    sweep.__name__: sweep
    for sweep in (selectivities, speeds, speeds_as_in_paper, scaling, orders, aggregates)
}
TABLES = SWEEPS | {"speeds_at_full_size": speeds_at_full_size}


def results_file(folder: str | os.PathLike, sweep: str) -> Path:
    """Return the path of the kept table of a sweep."""
    return Path(folder) / f"match_regex_{sweep}.csv"


def kept_results(folder: str | os.PathLike) -> pd.DataFrame:
    """Return the kept tables of all `SWEEPS` as one; column ``sweep`` has the name of the sweep."""
    return kept_of(**{name: kept_table(results_file(folder, name)) for name in SWEEPS})


def kept_of(**tables: pd.DataFrame) -> pd.DataFrame:
    """Return the tables of sweeps as one, for claims; column ``sweep`` has the name of each."""
    return pd.concat([table.assign(sweep=name) for name, table in tables.items()], ignore_index=True)


def main() -> None:
    """Run sweeps and keep their tables."""
    parser = argparse.ArgumentParser(description="Run sweeps of the MatchRegex paper and keep their tables.")
    parser.add_argument("sweep", nargs="*", choices=[*TABLES, []], help="None: all.")
    parser.add_argument("--folder", default="results")
    chosen = parser.parse_args()
    Path(chosen.folder).mkdir(parents=True, exist_ok=True)
    for name in chosen.sweep or TABLES:
        keep_table(TABLES[name](), results_file(chosen.folder, name), f"python -m {MODULE} {name}")


if __name__ == "__main__":
    main()
