"""Card transactions and stock ticks: constant rate, the workloads of the thesis, and arguments."""

import numpy as np
import pandas as pd
import pytest

from cepkit.datasets import card_transactions, stock_ticks

SEEDS = (0, 1, 2)


def amounts_by_card(frame):
    return frame.assign(small=frame["amount"] < 100, large=frame["amount"] > 10_000).groupby("card")


@pytest.mark.parametrize("seed", SEEDS)
def test_the_worst_case_has_only_small_purchases(seed):
    frame = card_transactions(20_000, n_cards=50, seed=seed)
    assert (frame["amount"] < 100).all() and (frame["amount"] >= 1).all()
    assert frame["card"].nunique() == 50
    assert frame["card"].value_counts().between(300, 500).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_half_of_the_cards_buy_twice_in_the_average_case(seed):
    frame = card_transactions(60_000, workload="average", seed=seed)
    purchases = frame["card"].value_counts()
    assert (frame["amount"] < 100).all() and purchases.max() == 2
    # Cards near the end have no time for a second purchase.
    early = purchases[frame.drop_duplicates("card").set_index("card").index[:30_000]]
    assert (early == 2).mean() == pytest.approx(0.5, abs=0.02)
    twice = frame[frame["card"].isin(purchases.index[purchases == 2])]
    wait = twice.groupby("card")["ts"].agg(lambda ts: (ts.iloc[1] - ts.iloc[0]).total_seconds())
    assert wait.median() == pytest.approx(0.5 * np.log(2), rel=0.1)


@pytest.mark.parametrize("seed", SEEDS)
def test_frauds_are_two_small_purchases_and_then_a_large_one(seed):
    frame = card_transactions(30_000, workload="fraud", seed=seed)
    counts = amounts_by_card(frame)[["small", "large"]].sum()
    assert counts["large"].max() == 1 and counts["small"].max() == 2
    assert (counts.loc[counts["large"] == 1, "small"] == 2).all()
    large = frame[frame["amount"] > 10_000].set_index("card")["ts"]
    small = frame[frame["amount"] < 100].groupby("card")["ts"].max()
    assert (large >= small[large.index]).all() and len(large) > 5_000
    assert not frame["amount"].between(100, 10_000, inclusive="both").any()


@pytest.mark.parametrize("workload", ["worst", "average", "fraud"])
def test_columns_of_cards(workload):
    frame = card_transactions(5_000, workload=workload, rate_hz=500, seed=3)
    assert (frame["ts"].diff().dropna() == pd.Timedelta("2ms")).all()
    pd.testing.assert_frame_equal(frame, card_transactions(5_000, workload=workload, rate_hz=500, seed=3))


@pytest.mark.parametrize("seed", SEEDS)
def test_columns_of_ticks(seed):
    frame = stock_ticks(10_000, n_symbols=5, seed=seed)
    assert (frame["ts"].diff().dropna() == pd.Timedelta("1ms")).all()
    assert frame["symbol"].value_counts(normalize=True).between(0.17, 0.23).all()
    assert frame["price"].between(1, 1_000).all() and frame["volume"].between(1, 10_000).all()
    assert np.allclose(frame["price"] * 100, np.rint(frame["price"] * 100))
    same = stock_ticks(10_000, n_symbols=5, seed=seed, equal_weights=True)
    assert same["price"].nunique() == 1 and same["volume"].nunique() == 1
    assert same["symbol"].equals(frame["symbol"])
