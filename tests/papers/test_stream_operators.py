"""Operators on streams before the matching: sliding averages, tumbling extremes, sets of tags."""

import math
import random

import numpy as np
import pandas as pd
import pytest

from cepkit.errors import CepError, OrderError
from papers.match_regex.operators import (
    group_by_key,
    hashtags,
    key_codes,
    rolling_vwap,
    tag_code,
    tag_mask,
    tag_masks,
    tag_sets,
    tumbling_minmax,
)
from tests.support.sizes import seeds


def random_trades(seed, n=60):
    rng = random.Random(seed)
    ts = pd.Timestamp("2012-01-03") + pd.to_timedelta(
        np.cumsum([rng.choice([0, 0, 1, 5]) for _ in range(n)]), "s"
    )
    return pd.DataFrame(
        {
            "ts": ts.astype("datetime64[ms]"),
            "key": [rng.choice(["A", "B", None]) for _ in range(n)],
            "price": [rng.choice([10.5, 7.0, 3.25, np.nan]) for _ in range(n)],
            "size": [rng.choice([0.0, 1.0, 4.0, np.nan]) for _ in range(n)],
        }
    )


def same_key(one, other):
    return (one is None and other is None) or one == other


def naive_vwap(frame, in_window):
    keys = [None if pd.isna(k) else k for k in frame["key"]]
    result = []
    for e in range(len(frame)):
        own = [i for i in range(e + 1) if same_key(keys[i], keys[e])]
        rows = frame.iloc[[i for i in own if in_window(i, e, own)]].dropna(subset=["price", "size"])
        total = math.fsum(rows["size"])
        result.append(math.fsum(rows["price"] * rows["size"]) / total if total else math.nan)
    return result


@pytest.mark.parametrize("seed", range(12))
def test_vwap_of_the_last_events_is_the_definition(seed):
    frame = random_trades(seed)
    k = 1 + seed % 5
    expected = naive_vwap(frame, lambda i, e, own: i in own[-k:])
    got = rolling_vwap(frame["key"], frame["price"], frame["size"], window=k)
    np.testing.assert_allclose(got, expected, rtol=1e-12)


@pytest.mark.parametrize("seed", range(12))
def test_vwap_of_the_last_seconds_is_the_definition(seed):
    frame = random_trades(seed)
    seconds = (1, 5, 12)[seed % 3]
    ts = frame["ts"].tolist()
    expected = naive_vwap(frame, lambda i, e, own: ts[i] >= ts[e] - pd.Timedelta(seconds=seconds))
    got = rolling_vwap(frame["key"], frame["price"], frame["size"], window=f"{seconds} s", ts=frame["ts"])
    np.testing.assert_allclose(got, expected, rtol=1e-12)


@pytest.mark.parametrize("window", [3, "3 s"])
def test_what_has_left_the_window_leaves_no_error_behind(window):
    price = [1e17, 1e17, 1e17] + [0.1 * i for i in range(1, 40)]
    ts = pd.Timestamp("2012-01-03") + pd.to_timedelta(np.arange(len(price)), "s")
    got = rolling_vwap(["A"] * len(price), price, [1] * len(price), window=window, ts=ts)
    n = 3 if window == 3 else 4  # the duration is closed at both ends
    assert got[-1] == pytest.approx(sum(price[-n:]) / n, rel=1e-12)


def test_vwap_says_what_is_wrong_with_its_window():
    a = [1, 2]
    with pytest.raises(CepError, match="window is 0; expected a positive whole number"):
        rolling_vwap(a, a, a, window=0)
    with pytest.raises(CepError, match="is a duration and needs a clock"):
        rolling_vwap(a, a, a, window="1 s")
    with pytest.raises(CepError, match="expected a positive duration"):
        rolling_vwap(a, a, a, window="0 s", ts=pd.to_datetime(["2012", "2013"]))
    with pytest.raises(OrderError, match="falls within a key 1 times"):
        rolling_vwap([1, 1], a, a, window="1 s", ts=pd.to_datetime(["2013", "2012"]))
    with pytest.raises(OrderError, match="1 missing values"):
        rolling_vwap([1, 1], a, a, window="1 s", ts=pd.to_datetime(["2013", None]))


def test_a_clock_may_fall_between_keys():
    ts = pd.to_datetime(["2013", "2012", "2014", "2013"])
    assert rolling_vwap([1, 2, 1, 2], [1, 2, 3, 4], [1] * 4, window="1 s", ts=ts).tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize("seed", range(12))
def test_minmax_is_the_definition(seed):
    frame, k = random_trades(seed), 1 + seed % 4
    waiting, expected = {}, []
    for e, (key, price) in enumerate(zip(frame["key"].fillna("none"), frame["price"], strict=True)):
        window = waiting.setdefault(key, [])
        window.append(price)
        if len(window) == k:
            known = [x for x in window if x == x] or [math.nan]
            expected.append((e, min(known), max(known)))
            window.clear()
    got = tumbling_minmax(frame["key"], frame["price"], k)
    np.testing.assert_array_equal(np.column_stack(got), np.array(expected, dtype=float).reshape(-1, 3))


def test_minmax_keeps_integers_and_may_be_empty():
    windows = tumbling_minmax(["A"], [2**60 + 1], 1)
    assert windows.mn.tolist() == [2**60 + 1] and windows.mn.dtype == np.int64
    assert len(tumbling_minmax([], [], 3).last_event) == 0
    with pytest.raises(CepError, match="k is 0; expected a positive whole number"):
        tumbling_minmax(["A"], [1], 0)


def test_keys_are_grouped_in_stream_order():
    key = pd.Series(["b", None, "b", "a", None], dtype="category")
    assert key_codes(key)[1] == 3
    groups = group_by_key(key)
    assert groups.event_of_row.tolist() == [0, 2, 1, 4, 3]
    assert groups.first_row_of_partition.tolist() == [0, 2, 4, 5]


TEXTS = [
    "#News and #news, #2012 a#b &#39; #x# #http://y",
    "no tag",
    "naïve #Żółć #नमस्ते #²nd #ⓐ! #_a1",
    "#b #a",
    "#a #B",
    "",
]


def test_hashtags_follow_twitter():
    assert hashtags(TEXTS[0]) == ("news",)
    assert hashtags(TEXTS[2]) == ("_a1", "żółć", "नमस्ते", "ⓐ")
    assert hashtags("(#a)#b #c,#d") == ("a", "b", "c", "d")


def test_codes_are_those_of_sets():
    assert tag_code(tag_sets([*TEXTS, None])).tolist()[3:] == [2, 2, 0, pd.NA]


def test_masks_say_what_is_disjoint():
    rng = np.random.default_rng(5)
    sets = [tuple(sorted(set(rng.choice(list("abcdefg"), 3)))) for _ in range(30)]
    masks = tag_mask(sets)
    for i, one in enumerate(sets):
        for j, other in enumerate(sets):
            assert (masks[i] & masks[j] == 0) == set(one).isdisjoint(other)


def test_a_mask_has_63_bits_for_each_key():
    many = [(f"t{i:02}",) for i in range(64)]
    with pytest.raises(
        CepError, match=r"64 tags do not fit a mask of 63 bits; number .* with key=.*tag_masks"
    ):
        tag_mask(many)
    with pytest.raises(CepError, match="64 tags of key 'ann'"):
        tag_mask(many, key=["ann"] * 64)
    assert tag_mask(many, key=["ann", "bob"] * 32).tolist()[-1] == 2**31
    assert tag_mask(many[:63]).tolist()[-1] == 2**62


@pytest.mark.parametrize("seed", seeds(6, 20))
def test_masks_of_many_tags_say_what_is_disjoint(seed):
    rng = np.random.default_rng(seed)
    tags, often = [f"t{i:03}" for i in range(200)], [f"often{i}" for i in range(4)]
    draws = [(rng.choice(tags, rng.integers(0, 6)), rng.choice(often, rng.integers(0, 3))) for _ in range(60)]
    sets = [tuple(sorted({*few, *some})) for few, some in draws]
    key = rng.choice(["ann", "bob"], 60)
    assert len({tag for tags in sets for tag in tags}) > 63
    words = [tag_masks(sets), tag_masks(sets, key=key)]
    for i, one in enumerate(sets):
        for j, other in enumerate(sets):
            assert all(word[i] & word[j] == 0 for word in words[0]) == set(one).isdisjoint(other)
            if key[i] == key[j]:
                assert all(word[i] & word[j] == 0 for word in words[1]) == set(one).isdisjoint(other)
    if len(words[1]) == 1:
        assert words[1][0].tolist() == tag_mask(sets, key=key).tolist()


def test_a_mask_leaves_out_tags_that_another_tag_goes_with():
    sets = [("news", *(f"a{i:02}" for i in range(70))), ("news",), ("a01", "news"), ("art",), (), None]
    assert tag_mask(sets).tolist() == [1, 1, 1, 2, 0, pd.NA]


def test_the_same_on_spark(spark):
    from pyspark.sql import functions as F

    from cepkit.pipelines.stages import minmax, with_vwap
    from cepkit.pipelines.tags import hashtags as spark_hashtags
    from cepkit.pipelines.tags import tag_code as spark_tag_code

    frame = random_trades(3).assign(seq=range(60))
    rows = [tuple(None if pd.isna(x) else x for x in row) for row in frame.itertuples(index=False)]
    trades = spark.createDataFrame(
        [(ts.to_pydatetime(), *row) for ts, *row in rows],
        "ts timestamp_ntz, key string, price double, size double, seq int",
    )
    keywords = {"partition_by": "key", "order_by": ["ts", "seq"]}
    for window in (4, "5 s"):
        rows = with_vwap(trades, **keywords, window=window).orderBy("seq").collect()
        expected = [math.nan if row.vwap is None else row.vwap for row in rows]
        got = rolling_vwap(frame["key"], frame["price"], frame["size"], window=window, ts=frame["ts"])
        np.testing.assert_allclose(got, expected, rtol=1e-12)
    rows = minmax(trades, **keywords, k=3).orderBy("seq").collect()
    windows = tumbling_minmax(frame["key"], frame["price"], 3)
    got = zip(windows.last_event, windows.mn, windows.mx, strict=True)
    assert [(row.seq, row.mn, row.mx) for row in rows] == [
        tuple(None if x != x else x for x in window) for window in got
    ]
    tweets = spark.createDataFrame(list(enumerate([*TEXTS, None])), "id int, content string")
    tweets = (
        spark_tag_code(tweets.withColumn("tags", spark_hashtags(F.col("content")))).orderBy("id").collect()
    )
    sets = tag_sets([*TEXTS, None])
    assert [None if row.tags is None else tuple(row.tags) for row in tweets] == sets
    assert [row.tag_code for row in tweets] == [None if x is pd.NA else x for x in tag_code(sets)]
