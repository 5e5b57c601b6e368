"""Compare the claims of the HYPERSONIC paper about its figures with the tables of `figures`."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

FULL, STATE, RIP, ONE = "hybrid, fully dynamic", "hybrid, state-dynamic", "RIP", "sequential"
_AT = ["data", "pattern", "window_min", "threads", "length"]


def claims(
    *,
    by_window: pd.DataFrame,
    by_threads: pd.DataFrame,
    by_length: pd.DataFrame,
    paced: pd.DataFrame,
    fused: pd.DataFrame,
    unpruned: pd.DataFrame,
    evaluations: pd.DataFrame,
) -> pd.DataFrame:
    """Return each claim of the paper with the numbers of the tables.

    Parameters
    ----------
    by_window, by_threads, by_length : pandas.DataFrame
        Results of `speedup`, with the default systems.
    paced : pandas.DataFrame
        Concatenated results of `paced`.
    fused : pandas.DataFrame
        Concatenated results of `fusion` for one allocation.
    unpruned : pandas.DataFrame
        Result of `never_pruned`.
    evaluations : pandas.DataFrame
        Result of `cepkit.parallel.experiments.details.evaluations` on Poisson streams.

    Returns
    -------
    pandas.DataFrame
        A row per claim: ``figure``, ``claim``, ``here`` (numbers), ``holds`` (``"yes"``: at all points; ``"in
        part"``; ``"no"``: at none).

    Notes
    -----
    Source: HYPERSONIC, sections IV and VII. The paper does not state that RIP needs most memory, or that the
    gap of latencies widens. These two claims are read from its figures 7 and 8.
    """
    rows: list[tuple[str, str, str, str]] = []

    def add(figure: str, claim: str, true: Iterable[bool], here: str) -> None:
        held = list(true)
        rows.append((figure, claim, here, "yes" if all(held) else "in part" if any(held) else "no"))

    for name in (FULL, STATE):
        speed = [_wide(table, "speedup") for table in (by_window, by_threads, by_length)]
        beats = pd.concat([table[name] >= table[RIP] for table in speed])
        by_data = beats.groupby(level="data", sort=False)
        where = ", ".join(f"{data} {own.sum()} of {len(own)}" for data, own in by_data)
        add("6", f"{name}: at least as fast as RIP", beats, where)
        for x, table in (("window_min", by_window), ("length", by_length), ("threads", by_threads)):
            ends = _ends(table[table["system"] == name], x, "speedup")
            shown = _spans(ends)
            add("6", f"{name}: faster with {_WORDS[x]}", ends["last"] > ends["first"], shown)
    rip = by_window[(by_window["system"] == RIP) & (by_window["data"] == "sensors")]["speedup"]
    if len(rip):
        add("6", "RIP: about 1 on sensors", rip.between(0.5, 1.5), f"{rip.min():.2f} to {rip.max():.2f}")
    for name in (FULL, STATE):
        more = by_threads[(by_threads["data"] == "sensors") & (by_threads["pattern"] == "SEQ")]
        line = more[more["system"] == name].set_index("threads")["speedup"]
        if {16, line.index.max()} <= set(line.index) and len(line) > 1:
            gain = line.loc[line.index.max()] / line.loc[16] - 1
            add("6", f"{name}: flat from 16 cores, SEQ on sensors", [gain < 0.1], f"{gain:+.0%} from 16 on")
    most = by_window["speedup"].max()
    add("6", "up to three orders of magnitude over one thread", [most >= 300], f"{most:.0f} at most")
    never = unpruned[unpruned["baseline"] == "never pruned"].set_index("events")["speedup"]
    add(
        "6", "… if that one keeps all its buffers", [never.max() >= 100],
        f"{never.iloc[-1]:.0f} at {never.index[-1]:,} events, {never.iloc[0]:.0f} at {never.index[0]:,}",
    )  # fmt: skip
    ratio = _wide(by_window, "speedup")
    ratio = (ratio[FULL] / ratio[RIP]).groupby(level="data", sort=False).max()
    shown = ", ".join(f"{data} {most:.1f}" for data, most in ratio.items())
    add("6", "up to two orders of magnitude over RIP", ratio >= 30, shown)

    late = _wide(paced, "mean_latency_us", "load").dropna()
    for name in (FULL, STATE):
        for other in (ONE, RIP):
            less = late[name] <= late[other]
            add("7", f"{name}: less latency than {other}", less, f"{less.sum()} of {len(less)} points")
    gap = (late[ONE] / late[FULL]).rename("gap").reset_index()
    ends = _ends(gap[gap["threads"] == gap["threads"].max()], "window_min", "gap", "load")
    add("7", "the gap to sequential widens with the window", ends["last"] > ends["first"], _spans(ends))

    size = _wide(paced, "most_kb", "load")
    for name in (FULL, STATE):
        less = size[name] <= size[ONE]
        add("8", f"{name}: less memory than sequential", less, f"{less.sum()} of {len(less)} points")
    highest = size[RIP] >= size.max(axis=1)
    add("8", "RIP: most memory", highest, f"{highest.sum()} of {len(highest)} points")

    stocks = pd.concat([by_window, by_threads]).query("data == 'stocks'")
    stocks = _wide(stocks.drop_duplicates([*_AT, "system"]), "speedup")
    gain = stocks[FULL] / stocks[STATE] - 1
    shown = f"{gain.min():+.0%} to {gain.max():+.0%}"
    add("9", "fully dynamic: faster than state-dynamic, on stocks", gain >= 0, shown)
    lines = by_threads[by_threads["data"] == "stocks"]
    lines = _wide(lines, "speedup")
    gains = (lines[FULL] / lines[STATE] - 1).rename("gain").reset_index()
    ends = _ends(gains, "threads", "gain")
    add("9", "… most with few cores", ends["first"] > ends["last"], _spans(ends, "+.0%"))

    own = fused[fused["data"] == "stocks"]
    shown = f"{(own['gain'] > 0).sum()} of {len(own)} points"
    add("10", "fusion: a gain in most points, on stocks", [(own["gain"] > 0).mean() > 0.5], shown)
    window = own["window_min"].mode().iloc[0]
    line = (
        own[own["window_min"] == window].drop_duplicates("threads").set_index("threads")["gain"].sort_index()
    )
    shown = ", ".join(f"{gain:+.0%} at {threads}" for threads, gain in line.items())
    add("10", "… less with more cores", line.diff().dropna() < 0, shown)

    table = evaluations.pivot(index="agent", columns="source", values="per_second")
    off = (table["paper"] / 2 / table["measured"]).round(1)
    shown = ", ".join(f"{x:g}" for x in off)
    add("§ IV", "m_i, as printed", (off.between(0.85, 1.15)), f"pairs of agents, times too many: {shown}")
    off = (table["simplex"] / table["measured"] - 1).abs()
    add("§ IV", "… corrected: within 15 %", off < 0.15, f"{off.max():.1%} at most")
    return pd.DataFrame(rows, columns=["figure", "claim", "here", "holds"])


_WORDS = {"window_min": "the window", "length": "the length of the pattern", "threads": "cores"}


def _wide(table: pd.DataFrame, value: str, *more: str) -> pd.DataFrame:
    """Return a row per point, with a column per system."""
    return table.pivot_table(
        index=[*_AT, *more], columns="system", values=value, sort=False, dropna=False
    ).dropna(how="all")


def _ends(table: pd.DataFrame, x: str, y: str, *more: str) -> pd.DataFrame:
    """Return ``y`` at the least and at the greatest ``x`` of each line."""
    lines = table.sort_values(x, kind="stable").groupby(["data", "pattern", *more], sort=False)[y]
    return lines.agg(["first", "last"])


def _spans(ends: pd.DataFrame, form: str = ".1f") -> str:
    """Return the ends of each line as text."""
    names = [", ".join(map(str, key)) for key in ends.index]
    pairs = zip(names, ends["first"], ends["last"], strict=True)
    return "; ".join(f"{name}: {first:{form}} → {last:{form}}" for name, first, last in pairs)
