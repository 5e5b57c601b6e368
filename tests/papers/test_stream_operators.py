"""Operators on streams before the matching: sliding averages, tumbling extremes, sets of tags."""

import math
import random

import numpy as np
import pandas as pd
import pytest

from cepkit.errors import CepError
from papers.match_regex.operators import (
    hashtags,
    rolling_vwap,
    tag_code,
    tag_mask,
    tag_sets,
    tumbling_minmax,
)


def random_trades(seed, n=60):
    rng = random.Random(seed)
    ts = pd.Timestamp("2012-01-03") + pd.to_timedelta(
        np.cumsum([rng.choice([0, 0, 1, 5]) for _ in range(n)]), "s"
    )
    return pd.DataFrame(
        {
            "ts": ts.astype("datetime64[ms]"),
            "key": [rng.choice(["A", "B", None]) for _ in range(n)],
            "price": [rng.choice([1050, 700, 325]) for _ in range(n)],
            "size": [rng.choice([0, 1, 4]) for _ in range(n)],
        }
    )


def same_key(one, other):
    return (one is None and other is None) or one == other


def naive_vwap(frame, in_window):
    keys = [None if pd.isna(k) else k for k in frame["key"]]
    result = []
    for e in range(len(frame)):
        own = [i for i in range(e + 1) if same_key(keys[i], keys[e])]
        rows = frame.iloc[[i for i in own if in_window(i, e, own)]]
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
def test_minmax_is_the_definition(seed):
    frame, k = random_trades(seed), 1 + seed % 4
    waiting, expected = {}, []
    for e, (key, price) in enumerate(zip(frame["key"].fillna("none"), frame["price"], strict=True)):
        window = waiting.setdefault(key, [])
        window.append(price)
        if len(window) == k:
            expected.append((e, min(window), max(window)))
            window.clear()
    got = tumbling_minmax(frame["key"], frame["price"], k)
    np.testing.assert_array_equal(np.column_stack(got), np.array(expected).reshape(-1, 3))


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
    assert tag_code(tag_sets(TEXTS)).tolist()[3:] == [2, 2, 0]


def test_masks_say_what_is_disjoint():
    rng = np.random.default_rng(5)
    sets = [tuple(sorted(set(rng.choice(list("abcdefg"), 3)))) for _ in range(30)]
    masks = tag_mask(sets)
    for i, one in enumerate(sets):
        for j, other in enumerate(sets):
            assert (masks[i] & masks[j] == 0) == set(one).isdisjoint(other)


def test_a_mask_has_63_bits_for_each_key():
    many = [(f"t{i:02}",) for i in range(64)]
    with pytest.raises(CepError, match="64 tags do not fit a mask of 63 bits"):
        tag_mask(many)
    with pytest.raises(CepError, match="64 tags of key 'ann'"):
        tag_mask(many, key=["ann"] * 64)
    assert tag_mask(many, key=["ann", "bob"] * 32).tolist()[-1] == 2**31
    assert tag_mask(many[:63]).tolist()[-1] == 2**62


def test_a_mask_leaves_out_tags_that_another_tag_goes_with():
    sets = [("news", *(f"a{i:02}" for i in range(70))), ("news",), ("a01", "news"), ("art",), ()]
    assert tag_mask(sets).tolist() == [1, 1, 1, 2, 0]


def test_tags_on_spark_are_the_same(spark):
    from pyspark.sql import functions as F

    from cepkit.pipelines import stages

    tweets = spark.createDataFrame(list(enumerate(TEXTS)), "id int, content string")
    tweets = stages.tag_code(tweets.withColumn("tags", stages.hashtags(F.col("content")))).orderBy("id")
    sets = tag_sets(TEXTS)
    assert [(*row.tags, row.tag_code) for row in tweets.collect()] == [
        (*tags, code) for tags, code in zip(sets, tag_code(sets).tolist(), strict=True)
    ]
