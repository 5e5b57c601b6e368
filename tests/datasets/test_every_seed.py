"""Every generator runs with every seed from 0 to 99: small in each run, at the papers' sizes with --full."""

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from cepkit.datasets import (
    PAPER_TRADES,
    PAPER_TWEETS,
    BarParameters,
    HomeParameters,
    abc_stream,
    bus_positions,
    card_transactions,
    debs2013_lines,
    eoddata_lines,
    inet_lines,
    minute_bars,
    nasdaq100_lines,
    poisson_types,
    siri_lines,
    smart_home,
    soccer_sensors,
    stock_bars,
    stock_ticks,
    trades,
    traffic,
    tweets,
    window_attributes,
)
from papers.match_regex.operators import tag_mask
from tests.support.sizes import seeds

TWITTER1, TWITTER2 = 0.1407, 0.0215  # table 5 of the MatchRegex paper: outputs per input
Generator = Callable[[int], pd.DataFrame | list[str]]

SMALL: dict[str, Generator] = {
    "trades": lambda seed: trades(300, n_symbols=20, seed=seed, repetitions=2),
    "tweets": lambda seed: tweets(200, n_authors=120, seed=seed, repetitions=2),
    "minute_bars": lambda seed: minute_bars(BarParameters(n_symbols=4), seed=seed),
    "smart_home": lambda seed: smart_home(HomeParameters(n_days=1), seed=seed),
    "traffic": lambda seed: traffic(20, n_sensors=10, seed=seed),
    "abc_stream": lambda seed: abc_stream(300, attributes={"x": (0, 9)}, stay=0.5, seed=seed),
    "poisson_types": lambda seed: poisson_types({"A": 2.0, "B": 0.5}, 60, seed, n_keys=3),
    "window_attributes": lambda seed: window_attributes(smart_home(HomeParameters(n_days=1), seed=seed)),
    "stock_bars": lambda seed: stock_bars(300, seed=seed),
    "stock_ticks": lambda seed: stock_ticks(300, n_symbols=7, seed=seed),
    "card_transactions": lambda seed: card_transactions(300, workload="average", seed=seed),
    "soccer_sensors": lambda seed: soccer_sensors(300, in_play=seed % 2 == 0, seed=seed),
    "bus_positions": lambda seed: bus_positions(300, seed=seed),
    "debs2013_lines": lambda seed: debs2013_lines(50, seed=seed),
    "siri_lines": lambda seed: siri_lines(50, seed=seed),
    "inet_lines": lambda seed: inet_lines(50, seed=seed),
    "eoddata_lines": lambda seed: eoddata_lines(30, seed=seed),
    "nasdaq100_lines": lambda seed: nasdaq100_lines(30, seed=seed),
}
LARGE: dict[str, Generator] = {
    "trades": lambda seed: trades(10_000, seed=seed, repetitions=20, **PAPER_TRADES),
    "minute_bars": lambda seed: minute_bars(BarParameters(n_symbols=500), seed=seed),
    "smart_home": lambda seed: smart_home(seed=seed),
    "traffic": lambda seed: traffic(300, seed=seed),
    "abc_stream": lambda seed: abc_stream(100_000, attributes={"x": (0, 9)}, seed=seed),
    "poisson_types": lambda seed: poisson_types({"A": 20.0, "B": 5.0}, 3600, seed, n_keys=3),
    "stock_bars": lambda seed: stock_bars(50_000, seed=seed),
    "stock_ticks": lambda seed: stock_ticks(1_200_000, seed=seed),
    "card_transactions": lambda seed: card_transactions(1_200_000, workload="average", seed=seed),
    "soccer_sensors": lambda seed: soccer_sensors(50_000, seed=seed),
    "bus_positions": lambda seed: bus_positions(50_000, seed=seed),
    "window_attributes": lambda seed: window_attributes(smart_home(HomeParameters(n_days=10), seed=seed)),
}


def check(made: pd.DataFrame | list[str]) -> None:
    assert len(made) > 0
    if isinstance(made, pd.DataFrame) and "ts" in made:
        assert made["ts"].notna().all()


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


@pytest.mark.parametrize("seed", seeds(10, 100))
def test_every_seed_gives_small_data(seed):
    for generate in SMALL.values():
        check(generate(seed))


@pytest.mark.parametrize("seed", seeds(1, 100))
def test_every_seed_gives_data_of_the_size_of_the_papers(seed):
    for generate in LARGE.values():
        check(generate(seed))


@pytest.mark.parametrize("seed", seeds(2, 20))  # these seeds fitted the parameters
def test_twitter_selectivities_are_near_the_paper(seed):
    share1, share2 = shares_of_twitter(tweets(seed=seed, **PAPER_TWEETS), 20)
    assert share1 == pytest.approx(TWITTER1, rel=0.05)
    assert share2 == pytest.approx(TWITTER2, rel=0.2)


@pytest.mark.parametrize("seed", [20 + seed for seed in seeds(2, 80)])
def test_twitter_selectivities_are_near_the_paper_at_seeds_that_fitted_nothing(seed):
    share1, share2 = shares_of_twitter(tweets(seed=seed, **PAPER_TWEETS), 20)
    assert share1 == pytest.approx(TWITTER1, rel=0.05)
    assert share2 == pytest.approx(TWITTER2, rel=0.2)


@pytest.mark.parametrize("seed", [2, 3, 5, *(6 + seed for seed in seeds(1, 94))])
def test_the_tags_of_an_author_fit_a_mask(seed):
    frame = tweets(seed=seed, **PAPER_TWEETS)
    mask = tag_mask([tuple(tags.split()) for tags in frame["tags"]], key=frame["author"])
    for _, own in (
        frame.assign(mask=mask).drop_duplicates(["author", "tags"]).groupby("author", observed=True)
    ):
        sets = [set(tags.split()) for tags in own["tags"]]
        shares = (own["mask"].to_numpy()[:, None] & own["mask"].to_numpy()) != 0
        assert shares.tolist() == [[bool(one & other) for other in sets] for one in sets]
