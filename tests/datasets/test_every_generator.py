"""What holds of all generators: seeds, columns and their types, sizes, distinct times, and arguments.

Each runs with every seed from 0 to 99: small in each run, at the papers' sizes with --full.
"""

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from cepkit import datasets as d
from cepkit.errors import CepError
from papers.match_regex.operators import tag_mask
from tests.support import raw_formats as raw
from tests.support.raw_formats import casas_lines
from tests.support.sizes import seeds

TWITTER1, TWITTER2 = 0.1407, 0.0215  # table 5 of the MatchRegex paper: outputs per input
Generator = Callable[[int], pd.DataFrame | list[str]]

SMALL: dict[str, Generator] = {
    "trades": lambda seed: d.trades(300, n_symbols=20, seed=seed, repetitions=2),
    "tweets": lambda seed: d.tweets(200, n_authors=120, seed=seed, repetitions=2),
    "minute_bars": lambda seed: d.minute_bars(d.BarParameters(n_symbols=4), seed=seed),
    "smart_home": lambda seed: d.smart_home(d.HomeParameters(n_days=1), seed=seed),
    "traffic": lambda seed: d.traffic(20, n_sensors=10, seed=seed),
    "abc_stream": lambda seed: d.abc_stream(300, attributes={"x": (0, 9)}, stay=0.5, seed=seed),
    "poisson_types": lambda seed: d.poisson_types({"A": 2.0, "B": 0.5}, 60, seed, n_keys=3),
    "window_attributes": lambda seed: d.window_attributes(
        d.smart_home(d.HomeParameters(n_days=1), seed=seed)
    ),
    "stock_bars": lambda seed: d.stock_bars(300, seed=seed),
    "stock_ticks": lambda seed: d.stock_ticks(300, n_symbols=7, seed=seed),
    "card_transactions": lambda seed: d.card_transactions(300, workload="average", seed=seed),
    "soccer_sensors": lambda seed: d.soccer_sensors(300, in_play=seed % 2 == 0, seed=seed),
    "bus_positions": lambda seed: d.bus_positions(300, seed=seed),
    "debs2013_lines": lambda seed: raw.debs2013_lines(50, seed=seed),
    "siri_lines": lambda seed: raw.siri_lines(50, seed=seed),
    "inet_lines": lambda seed: raw.inet_lines(50, seed=seed),
    "eoddata_lines": lambda seed: raw.eoddata_lines(30, seed=seed),
    "nasdaq100_lines": lambda seed: raw.nasdaq100_lines(30, seed=seed),
}
LARGE: dict[str, Generator] = {
    "trades": lambda seed: d.trades(10_000, seed=seed, repetitions=20, **d.PAPER_TRADES),
    "minute_bars": lambda seed: d.minute_bars(d.BarParameters(n_symbols=500), seed=seed),
    "smart_home": lambda seed: d.smart_home(seed=seed),
    "traffic": lambda seed: d.traffic(300, seed=seed),
    "abc_stream": lambda seed: d.abc_stream(100_000, attributes={"x": (0, 9)}, seed=seed),
    "poisson_types": lambda seed: d.poisson_types({"A": 20.0, "B": 5.0}, 3600, seed, n_keys=3),
    "stock_bars": lambda seed: d.stock_bars(50_000, seed=seed),
    "stock_ticks": lambda seed: d.stock_ticks(1_200_000, seed=seed),
    "card_transactions": lambda seed: d.card_transactions(1_200_000, workload="average", seed=seed),
    "soccer_sensors": lambda seed: d.soccer_sensors(50_000, seed=seed),
    "bus_positions": lambda seed: d.bus_positions(50_000, seed=seed),
    "window_attributes": lambda seed: d.window_attributes(
        d.smart_home(d.HomeParameters(n_days=10), seed=seed)
    ),
}


def check(made: pd.DataFrame | list[str]) -> None:
    assert len(made) > 0
    if isinstance(made, pd.DataFrame) and "ts" in made:
        assert made["ts"].notna().all()


@pytest.mark.parametrize("seed", seeds(5, 100))
def test_every_seed_gives_small_data(seed):
    for generate in SMALL.values():
        check(generate(seed))


@pytest.mark.parametrize("seed", seeds(1, 100))
def test_every_seed_gives_data_of_the_size_of_the_papers(seed):
    for generate in LARGE.values():
        check(generate(seed))


@pytest.mark.parametrize("seed", seeds(3, 20))
@pytest.mark.parametrize("name", SMALL)
def test_a_seed_gives_the_same_and_another_seed_something_else(name, seed):
    made, again, other = (SMALL[name](own) for own in (seed, seed, seed + 2))
    if isinstance(made, list):
        assert made == again != other
        return
    pd.testing.assert_frame_equal(made, again)
    assert not made.equals(other)
    # All that is random differs, but not what counts, or is the same in all data so small.
    same = {column for column in made if made[column].equals(other[column])}
    assert same <= SAME.get(name, {"ts"})


SAME = {
    "trades": {"seq"}, "tweets": {"id"}, "bus_positions": {"direction", "congestion", "time_frame"},
    "smart_home": set(), "card_transactions": {"ts"}, "soccer_sensors": set(),
}  # fmt: skip

# The columns and their types; what is not random is the same for other sizes.
COLUMNS = {
    "trades": "ts:datetime64[us] symbol:category price:int64 size:int64 seq:int64",
    "tweets": "ts:datetime64[us] id:int64 author:category content:str tags:str",
    "minute_bars": "ts:datetime64[us] symbol:category open:float64 high:float64 low:float64 close:float64 "
    "volume:int64 log_return:float64 history:object",
    "traffic": "ts:datetime64[ms] sensor:int32 avg_speed:int16 vehicle_count:int16",
    "abc_stream": "ts:datetime64[us] type:category x:int64",
    "poisson_types": "ts:datetime64[us] type:category x:int64 key:int64",
    "stock_bars": "ts:datetime64[us] symbol:category open:float64 high:float64 low:float64 close:float64 "
    "volume:int64",
    "stock_ticks": "ts:datetime64[us] symbol:category price:float64 volume:int64",
    "card_transactions": "ts:datetime64[us] card:int64 amount:float64 location:category",
}


@pytest.mark.parametrize("name", COLUMNS)
def test_columns(name):
    frame = SMALL[name](4)
    found = " ".join(f"{column}:{dtype}" for column, dtype in frame.dtypes.items())
    assert found.replace(":object", ":str") == COLUMNS[name].replace(":object", ":str")
    late = 0.3 if name == "traffic" else 0.0
    assert (frame["ts"] < frame["ts"].cummax()).mean() <= late


DISTINCT = {
    "traffic": ("5min", ["sensor"], lambda **given: d.traffic(50, seed=3, **given)),
    "minute_bars": (
        "min", ["symbol"],
        lambda **given: d.minute_bars(d.BarParameters(n_symbols=40, **given), seed=3),
    ),
    "stock_bars": ("min", ["symbol"], lambda **given: d.stock_bars(6000, seed=3, **given)),
}  # fmt: skip


@pytest.mark.parametrize("name", DISTINCT)
def test_data_of_distinct_times_is_in_order_and_the_same_otherwise(name):
    unit, keys, make = DISTINCT[name]
    usual, spread = make(), make(distinct_times=True)
    assert spread["ts"].is_monotonic_increasing and spread["ts"].is_unique
    spread["ts"] = spread["ts"].dt.floor(unit).astype(usual["ts"].dtype)
    ordered = [frame.sort_values(["ts", *keys]).reset_index(drop=True) for frame in (usual, spread)]
    pd.testing.assert_frame_equal(*ordered)


def test_few_or_no_events_are_possible():
    nothing = [make(0) for make in (d.stock_bars, d.soccer_sensors, d.bus_positions, d.stock_ticks)]
    nothing += [d.card_transactions(0, workload=name) for name in ("worst", "average", "fraud")]
    nothing += [make(0) for make in (raw.debs2013_lines, raw.siri_lines, raw.inet_lines, raw.eoddata_lines)]
    nothing += [d.minute_bars(d.BarParameters(n_days=0)), d.smart_home(d.HomeParameters(n_days=0))]
    assert {len(made) for made in [*nothing, d.poisson_types({"A": 1}, 0)]} == {0}
    assert raw.nasdaq100_lines(0, ["X"]) == ["X"]
    for n_events in (0, 1, 2, 17):
        trades = d.trades(n_events, n_symbols=3, seed=1, repetitions=2)
        assert len(trades) == 2 * n_events and trades["ts"].is_monotonic_increasing
        assert list(trades["symbol"].cat.categories) == ["AAA", "AAB", "AAC"]
        events = d.abc_stream(n_events, gap_s=0.25, stay=1.0)
        assert len(events) == n_events and events["type"].nunique() == min(n_events, 1)
    for n_rounds, n_sensors in ((0, 3), (1, 1), (2, 1)):
        assert len(d.traffic(n_rounds, n_sensors=n_sensors, seed=1)) <= n_rounds * n_sensors
    for n_events, n_authors in ((1, 1), (5, 5), (50, 1), (1000, 999), (1000, 3)):
        tweets = d.tweets(n_events, n_authors=n_authors)
        assert len(tweets) == n_events and tweets["author"].nunique() == n_authors


def bars(**given):
    return d.minute_bars(d.BarParameters(**given))


def home(**given):
    return d.smart_home(d.HomeParameters(**given))


WRONG = [
    (d.trades, {"n_events": -1}, "n_events is -1. It must be at least 0"),
    (d.trades, {"n_events": 1e4}, "n_events is 10000.0. It must be a whole number"),
    (d.trades, {"n_symbols": 0}, "n_symbols is 0. It must be at least 1"),
    (d.trades, {"repetitions": 0}, "repetitions is 0"),
    (d.trades, {"rate_hz": 0}, "rate_hz is 0. It must be from 0.001 to 10000"),
    (d.trades, {"flat": 0.1}, "flat is 0.1. It must be from 0.4 to 1"),
    (d.trades, {"reversal": float("nan")}, "reversal is nan"),
    (d.trades, {"start": "soon"}, "start is 'soon'"),
    (d.tweets, {"n_events": 100}, "n_authors is 6142. It must be from 1 to 100"),
    (d.tweets, {"untagged": 2, "n_authors": 5}, "untagged is 2"),
    (raw.inet_lines, {"n_events": -1}, "inet_lines: n_events is -1"),
    (bars, {"n_symbols": 1}, "n_symbols is 1. It must be from 2 to 10000"),
    (bars, {"n_days": -1}, "n_days is -1"),
    (bars, {"n_history": 0}, "n_history is 0"),
    (bars, {"correlation": 1.0}, "correlation is 1.0"),
    (bars, {"flat": -0.1}, "flat is -0.1"),
    (bars, {"first_day": "soon"}, "start is 'soon'"),
    (d.minute_bars, {"seed": -1}, "seed is -1"),
    (d.minute_bars, {"parameters": 5}, r"minute_bars: parameters is a int. Pass BarParameters\(…\)"),
    (casas_lines, {"parameters": pd.NA}, r"smart_home: parameters is a NAType. Pass HomeParameters\(…\)"),
    (home, {"n_days": -1}, "n_days is -1"),
    (home, {"n_bursts": 0}, "n_bursts is 0"),
    (home, {"burst_share": 2}, "burst_share is 2"),
    (home, {"burst_gap_s": 0}, "burst_gap_s is 0"),
    (home, {"window": 1}, "window is 1"),
    (home, {"start": "soon"}, "start is 'soon'"),
    (home, {"burst_activities": ("Toilett",)}, "'Toilett', which does not exist. Did you mean 'Toilet'"),
    (d.abc_stream, {"n_events": -1}, "n_events is -1"),
    (d.abc_stream, {"n_types": 27}, "n_types is 27. It must be from 1 to 26"),
    (d.abc_stream, {"stay": 1.5}, "stay is 1.5"),
    (d.abc_stream, {"gap_s": 0}, "gap_s is 0"),
    (d.abc_stream, {"start": "soon"}, "start is 'soon'"),
    (d.abc_stream, {"attributes": {"x": (3, 2)}}, "attribute 'x' from 3 to 2"),
    (d.abc_stream, {"attributes": {"ts": (1, 2)}}, "Its name must not be ts or type"),
    (d.traffic, {"n_rounds": -1}, "n_rounds is -1"),
    (d.traffic, {"n_sensors": 0}, "n_sensors is 0"),
    (d.traffic, {"seed": 1.5}, "seed is 1.5"),
    (d.traffic, {"start": "soon"}, "start is 'soon'"),
    (d.poisson_types, {"rates": {}}, "rates names no type"),
    (d.poisson_types, {"rates": {"A": -1}}, "rate of 'A' is -1. It must be at least 0"),
    (d.poisson_types, {"rates": {"A": 1}, "duration_s": -2}, "duration_s is -2"),
    (d.card_transactions, {"n_events": -1}, "card_transactions: n_events is -1"),
    (d.card_transactions, {"workload": "wurst"}, "Did you mean 'worst'"),
    (d.card_transactions, {"rate_hz": 0}, "card_transactions: rate_hz"),
    (d.card_transactions, {"n_cards": 0}, "card_transactions: n_cards"),
    (d.card_transactions, {"again_after_s": 0}, "card_transactions: again_after_s"),
    (d.card_transactions, {"start": "soon"}, "It must be a time"),
    (d.stock_ticks, {"n_events": 1.5}, "stock_ticks: n_events"),
    (d.stock_ticks, {"n_symbols": 0}, "stock_ticks: n_symbols"),
    (d.stock_ticks, {"rate_hz": -1}, "stock_ticks: rate_hz"),
    (d.stock_ticks, {"seed": -1}, "stock_ticks: seed"),
    (d.stock_bars, {"n_events": -1}, "stock_bars: n_events is -1"),
    (d.stock_bars, {"stocks": ["GOOGL"]}, "no stock 'GOOGL'. Did you mean 'GOOG'"),
    (d.stock_bars, {"stocks": []}, "at least one stock"),
    (d.stock_bars, {"first_day": "soon"}, "start is 'soon'"),
    (d.soccer_sensors, {"n_events": 1.5}, "soccer_sensors: n_events is 1.5"),
    (d.soccer_sensors, {"sensors": [1]}, "no sensor 1"),
    (d.soccer_sensors, {"sensors": [8, 8]}, "each once"),
    (d.bus_positions, {"n_vehicles": 10}, "n_vehicles is 10"),
    (d.bus_positions, {"start": "soon"}, "start is 'soon'"),
    (d.bus_positions, {"seed": -1}, "seed is -1"),
]
NEEDED = {"n_events": 10, "n_rounds": 1, "rates": {"A": 1}, "duration_s": 1.0}


@pytest.mark.parametrize(("make", "given", "message"), WRONG)
def test_arguments_are_checked(make, given, message):
    needed = {name: NEEDED[name] for name in make.__code__.co_varnames[:2] if name in NEEDED}
    with pytest.raises(CepError, match=message):
        make(**needed | given)


# ---------------------------------------------------------------- tweets, seed by seed


def shares_of_twitter(frame: pd.DataFrame, repetitions: int) -> tuple[float, float]:
    """Return the matches per tweet of twitter1 and twitter2, after repeating the tweets."""
    found = np.zeros(2, dtype=int)
    for _, tags in frame.groupby("author", observed=True)["tags"]:
        length, before, starts = 0, None, set()
        for now in [frozenset(text.split()) for text in tags] * repetitions:
            length = length + 1 if now == before else 1
            before = now
            if length == 6:
                found[0], length, before = found[0] + 1, 0, None
            if any(now.isdisjoint(start) for start in starts):
                found[1], starts = found[1] + 1, set()
            else:
                starts.add(now)
    share = found / len(frame) / repetitions
    return share[0], share[1]


# The first twenty seeds fitted the parameters, and the others fitted nothing.
@pytest.mark.parametrize("seed", [*seeds(1, 20), *(20 + seed for seed in seeds(1, 80))])
def test_twitter_selectivities_are_near_the_paper(seed):
    share1, share2 = shares_of_twitter(d.tweets(seed=seed, **d.PAPER_TWEETS), 20)
    assert share1 == pytest.approx(TWITTER1, rel=0.05)
    assert share2 == pytest.approx(TWITTER2, rel=0.2)


@pytest.mark.parametrize("seed", [2, 3, 5, *(6 + seed for seed in seeds(1, 94))])
def test_the_tags_of_an_author_fit_a_mask(seed):
    frame = d.tweets(seed=seed, **d.PAPER_TWEETS)
    mask = tag_mask([tuple(tags.split()) for tags in frame["tags"]], key=frame["author"])
    different = frame.assign(mask=mask).drop_duplicates(["author", "tags"])
    for _, own in different.groupby("author", observed=True):
        sets = [set(tags.split()) for tags in own["tags"]]
        shares = (own["mask"].to_numpy()[:, None] & own["mask"].to_numpy()) != 0
        assert shares.tolist() == [[bool(one & other) for other in sets] for one in sets]
