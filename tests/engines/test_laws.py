"""Laws that hold for every regex query and every stream, whatever the matches are."""

from __future__ import annotations

import re
from random import Random

import numpy as np
import pandas as pd
import pytest

import cepkit as cep
from tests.oracle import generate
from tests.support.sizes import seeds

# pattern, define, keywords; t is the clock, k the key
QUERIES = {
    "start alone": ("a b* c", {"a": "x > 1", "b": "f", "c": "y < 2"}, {}),
    "looks at the start": (
        ". rise+ drop* deep",
        {"rise": "x >= first(x) and x >= prev(x)", "drop": "x >= first(x)", "deep": "x < first(x)"},
        {},
    ),
    "queue": (
        ". e* up",
        {"e": "delta(t) < 9 and x >= first(x) - 3", "up": "x > first(x) + 2 and delta(t) < 9"},
        {},
    ),
    "sums": (". e* full", {"e": "sum(x) < 9", "full": "sum(g) + count() > 6 or s == first(s)"}, {}),
    "window": (
        ". e* (top | low)",
        {"e": "f or x > 2", "top": "x > first(x)", "low": "s like 'a%'"},
        {"within": 6},
    ),
    "two ways": ("(a | b c)+ d | b b", {"a": "f", "b": "x > 2", "c": "y > 1", "d": "x == 0"}, {}),
}


def frame_of(
    name: str, seed: int, n_events: int = 60, n_keys: int = 3, *, strict: bool = False
) -> pd.DataFrame:
    """Return a random stream with the column ``row``; ``strict``: no two rows at one time."""
    rng = Random(f"{name} {seed}")
    frame = generate.to_frame(generate.stream(rng, n_events, n_keys, nulls=seed % 2 == 0))
    if strict:
        frame["t"] = frame["t"] + np.arange(len(frame))
    return frame.assign(row=np.arange(len(frame)))


def spans(frame: pd.DataFrame, name: str, **changed) -> list[tuple[int, int]]:
    """Return the ``row`` of the first and last event of every match, in the order of the result."""
    pattern, define, keywords = QUERIES[name]
    given = {"define": define, "partition_by": "k", "order_by": "t", **keywords, **changed}
    found = cep.match(
        frame, given.pop("pattern", pattern), measures={"a": "first(row)", "b": "last(row)"}, **given
    )
    table = found.to_frame()
    return list(zip(table["a"], table["b"], strict=True))


every_query = pytest.mark.parametrize("name", QUERIES)
every_seed = pytest.mark.parametrize("seed", seeds(3, 8))


@every_query
def test_queries_find_something(name):
    assert sum(len(spans(frame_of(name, seed), name)) for seed in range(8)) > 10


@every_query
@every_seed
def test_partitions_are_isolated(name, seed):
    """Matching the keys one by one gives the same matches, merged by their last row."""
    frame = frame_of(name, seed)
    apart = []
    for key in frame["k"].unique():
        own = frame[frame["k"].isna() if pd.isna(key) else frame["k"] == key]
        apart += spans(own, name, partition_by=None)
    assert spans(frame, name) == sorted(apart, key=lambda span: span[1])


@every_query
@every_seed
def test_interleaving_does_not_matter(name, seed):
    """Rows of other keys may come in between in any way; each key's own order is what counts."""
    frame = frame_of(name, seed)
    rng = np.random.default_rng(seed)
    expected = sorted(spans(frame, name))
    key_of_slot = rng.permutation(frame["k"].fillna("null").to_numpy())
    queues = {key: iter(own.index) for key, own in frame.groupby(frame["k"].fillna("null"))}
    order = [next(queues[key]) for key in key_of_slot]
    # The clock would undo the shuffle, so it is left out; only queries without a window can do without.
    if "within" not in QUERIES[name][2]:
        assert sorted(spans(frame.loc[order], name, order_by=None)) == sorted(
            spans(frame, name, order_by=None)
        )
    assert sorted(spans(frame.loc[order], name)) == expected


@every_query
@every_seed
def test_later_rows_change_no_earlier_match(name, seed):
    frame = frame_of(name, seed)
    whole = spans(frame, name)
    for n in range(0, len(frame) + 1, 7):
        assert spans(frame.head(n), name) == [span for span in whole if span[1] < n]


@every_query
@every_seed
def test_matches_of_a_partition_do_not_overlap(name, seed):
    frame = frame_of(name, seed)
    pattern, define, keywords = QUERIES[name]
    found = cep.match(frame, pattern, define=define, partition_by="k", order_by="t", **keywords)
    lineage = found.lineage()
    assert not lineage["position"].duplicated().any()
    ends = lineage.groupby("match")["position"].last()
    assert ends.is_monotonic_increasing
    for _, own in frame.groupby("k", dropna=False):  # contiguous among the rows of the key
        place = dict(zip(own["row"], range(len(own)), strict=True))
        for _, rows in lineage[lineage["position"].isin(own["row"])].groupby("match")["position"]:
            places = [place[row] for row in rows]
            assert places == list(range(places[0], places[0] + len(places)))


@every_query
@every_seed
def test_a_match_starts_anew_behind_the_last(name, seed):
    """Behind a match its partition is as if it began there."""
    frame = frame_of(name, seed, n_keys=1)
    found = spans(frame, name)
    if "prev" in str(QUERIES[name][1]):
        pytest.skip("looks at rows before the match")
    for n, (_, last) in enumerate(found):
        assert spans(frame.iloc[last + 1 :], name) == found[n + 1 :]


@every_query
@every_seed
def test_rows_are_put_in_order_of_the_clock(name, seed):
    frame = frame_of(name, seed, strict=True)
    shuffled = frame.sample(frac=1, random_state=seed)
    assert spans(shuffled, name) == spans(frame, name)
    assert spans(shuffled.iloc[::-1], name) == spans(frame, name)


@every_query
@every_seed
def test_names_do_not_matter(name, seed):
    frame = frame_of(name, seed)
    pattern, define, _ = QUERIES[name]
    columns = {column: f"the {column}" for column in "xytsfgk"}

    def renamed(text, names):
        return re.sub(r"\w+", lambda word: names.get(word[0], word[0]), text)

    predicates = {old: f"new_{old}" for old in define}
    quoted = {old: f"`{new}`" for old, new in columns.items()}
    found = spans(
        frame.rename(columns=columns), name, pattern=renamed(pattern, predicates),
        define={predicates[old]: renamed(text, quoted) for old, text in define.items()},
        partition_by="the k", order_by="the t",
    )  # fmt: skip
    assert found == spans(frame, name)


@every_query
@every_seed
def test_names_of_keys_and_the_zero_of_the_clock_do_not_matter(name, seed):
    frame = frame_of(name, seed)
    codes = {key: 7 * n - 9 for n, key in enumerate(frame["k"].unique())}
    moved = frame.assign(k=[codes[key] for key in frame["k"]], t=frame["t"] - 123_456)
    assert spans(moved, name) == spans(frame, name)


@every_query
@every_seed
def test_types_do_not_matter(name, seed):
    frame = frame_of(name, seed)
    frame["t"] -= frame["t"].min()
    other = frame.astype(
        {"x": "int16", "t": "int32", "s": "category", "k": "category", "y": "Float64", "f": object}
    )
    assert spans(other, name) == spans(frame, name)
    assert spans(frame.assign(t=pd.to_datetime(frame["t"], unit="s")), "start alone") == spans(
        frame, "start alone"
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a{2} b", "a a b"),
        ("a{2,} b", "a a+ b"),
        ("a{1,3} b", "a a? a? b"),
        ("a* b", "a+ b | b"),
        ("(a+)+ b", "a+ b"),
        ("(a*)* b", "a* b"),
        ("a (b | c)", "a b | a c"),
        ("(a | b) c", "b c | a c"),
        ("(a | a) b", "a b"),
        ("(a b)* a b", "(a b)+"),
        ("a? b | ()", "a? b"),
        (". . b", ".{2} b"),
        ("a b | b", "b | a b"),
        ("a+ b?", "a"),
    ],
)
@pytest.mark.filterwarnings("ignore::cepkit.errors.CepWarning")
def test_equal_languages_have_equal_matches(one, other):
    define = {"a": "f", "b": "x > 2", "c": "y < 1"}
    for seed in range(10):
        frame = frame_of("languages", seed)
        used = [{name: define[name] for name in define if name in pattern} for pattern in (one, other)]
        results = [
            spans(frame, "start alone", pattern=pattern, define=own)
            for pattern, own in zip((one, other), used, strict=True)
        ]
        assert results[0] == results[1]


@every_seed
def test_windows(seed):
    """A window bounds every match; a wider one never ends the first match later; a very wide one is none."""
    frame = frame_of("windows", seed, n_keys=1)
    clock = frame["t"].to_numpy()
    pattern, define, _ = QUERIES["window"]
    before = None
    for within in (1, 2, 3, 5, 8, 13, 200):
        found = spans(frame, "window", within=within)
        assert all(clock[last] - clock[first] <= within for first, last in found)
        narrower = spans(frame, "window", within=within, within_closed=False)
        assert all(clock[last] - clock[first] < within for first, last in narrower)
        # In whole ticks "less than within" is "at most within - 1".
        if within > 1:
            assert narrower == spans(frame, "window", within=within - 1)
        if before:
            assert found[0][1] <= before[0][1]
        before = found
    no_window = cep.match(
        frame, pattern, define=define, order_by="t", measures={"a": "first(row)", "b": "last(row)"}
    )
    assert before == list(zip(*no_window.to_frame()[["a", "b"]].to_dict("list").values(), strict=True))


@every_seed
def test_weaker_conditions_never_end_the_first_match_later(seed):
    frame = frame_of("weaker", seed, n_keys=1)
    before = len(frame)
    for limit in (4, 3, 2, 1, 0):
        found = spans(frame, "start alone", define={"a": f"x > {limit}", "b": "f", "c": "y < 2"})
        first = found[0][1] if found else len(frame)
        assert first <= before
        before = first


@every_query
@every_seed
def test_tag_lineage_and_rows_tell_the_same(name, seed):
    frame = frame_of(name, seed)
    pattern, define, keywords = QUERIES[name]
    found = cep.match(frame, pattern, define=define, partition_by="k", order_by="t", **keywords)
    lineage, rows, tagged = found.lineage(), found.to_frame("all"), found.tag()
    assert rows["row"].tolist() == lineage["index"].tolist()
    assert (
        rows[["match", "variable"]].to_numpy().tolist() == lineage[["match", "variable"]].to_numpy().tolist()
    )
    own = tagged.dropna(subset=["match"]).set_index("row")
    assert own["match"].to_dict() == dict(zip(rows["row"], rows["match"], strict=True))
    assert own["variable"].to_dict() == dict(zip(rows["row"], rows["variable"], strict=True))
    assert rows.groupby("match").size().tolist() == found.to_frame()["count"].tolist()
    assert [list(match.rows["row"]) for match in found] == [
        list(part) for _, part in rows.groupby("match")["row"]
    ]
