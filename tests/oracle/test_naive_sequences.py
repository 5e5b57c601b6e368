"""The reference meaning of sequence queries against worked examples, and the random cases for it."""

import re
from functools import cache

import pandas as pd
import pytest

from cepkit.language.expressions import trees as ex
from cepkit.language.sequences import patterns as sq
from cepkit.language.sequences.patterns import SequenceQuery
from tests.oracle import generate_sequences as generate
from tests.oracle.naive_lines import lines
from tests.oracle.naive_sequences import sequence_matches

NAN = float("nan")


def event(name, event_type="same"):
    """Return an event whose type is its name in capitals, unless another (or None) is given."""
    return sq.EventPattern(name, name.upper() if event_type == "same" else event_type)


A, B, C, D, N = (event(name) for name in "abcdn")
NOT_N = sq.AbsentPattern(N)


def seq(*parts, steps=None):
    return sq.SequenceOf(parts, (None, *(steps or (None,) * (len(parts) - 1))))


def loop(body, low=1, high=None, **options):
    return sq.Loop(body, low, high, **options)


def ref(text):
    """Return the reference that ``b[i-1].x`` spells."""
    variable, index, name = re.fullmatch(r"(\w+)(?:\[(.+)\])?(?:\.(\w+))?", text).groups()
    return ex.Reference(variable, name, int(index) if index and index.isdigit() else index)


def agg(function, text):
    return ex.Aggregate(function, ref(text))


def value(thing):
    if isinstance(thing, ex.Expression):
        return thing
    return ref(thing) if isinstance(thing, str) else ex.Literal(thing)


def compare(left, sign, right):
    return ex.Comparison(sign, value(left), value(right))


def stream(text, **columns):
    """Return an event per word, a tick apart: of the type of its first letter in capitals."""
    rows = [{"kind": word[0].upper(), "word": word, "t": i} for i, word in enumerate(text.split())]
    for name, values in columns.items():
        rows = [row | {name: item} for row, item in zip(rows, values, strict=True)]
    return rows


def found(pattern, rows, *where, **options):
    """Return the words of each match."""
    rows = stream(rows) if isinstance(rows, str) else rows
    query = SequenceQuery(pattern, where, **{"order_by": ("t",), "event_type": "kind"} | options)
    return [" ".join(rows[row]["word"] for row in match.rows) for match in sequence_matches(query, rows)]


def bound(pattern, rows, *where, **options):
    """Return what each match binds, as text: ``a=0 b=1,2``, with the options it took."""
    rows = stream(rows) if isinstance(rows, str) else rows
    query = SequenceQuery(pattern, where, **{"order_by": ("t",), "event_type": "kind"} | options)
    return [
        " ".join(f"{name}={','.join(map(str, taken))}" for name, taken in match.events)
        + "".join(f" #{option}" for option in match.options)
        for match in sequence_matches(query, rows)
    ]


# --- strategies ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [("strict", []), ("partition", []), ("next", ["a b1"]), ("any", ["a b1", "a b2"])],
)
def test_two_events_with_something_between(strategy, expected):
    assert found(seq(A, B), "a c b1 b2", strategy=strategy) == expected


@pytest.mark.parametrize(
    ("inner", "leaving", "expected"),
    [
        ("strict", "strict", ["a b3 c"]),
        ("next", "next", ["a b1 c", "a b2 c", "a b1 b2 c", "a b3 c", "a b2 b3 c", "a b1 b2 b3 c"]),
        (
            "any",
            "next",
            ["a b1 c", "a b2 c", "a b1 b2 c", "a b3 c", "a b1 b3 c", "a b2 b3 c", "a b1 b2 b3 c"],
        ),
    ],
)
def test_contiguity_of_each_step(inner, leaving, expected):
    pattern = seq(A, loop(B, inner=inner), C, steps=("any", leaving))
    assert found(pattern, "a b1 d1 b2 d2 b3 c", strategy="next", scope="edge") == expected


def test_any_finds_every_combination():
    text = "a1 a2 b1 b2 a3 b3 c1 c2"
    assert len(found(seq(A, B, C), text)) == 14
    assert found(seq(A, B, C), text, strategy="next") == ["a1 b1 c1", "a2 b1 c1", "a3 b3 c1"]
    assert len(found(seq(event("a", None), event("b", None)), text)) == 28


def test_scope_says_what_may_be_skipped():
    pattern, text = seq(A, loop(B), C), "a b1 b2 b3 c"
    assert found(pattern, text, strategy="next") == ["a b1 b2 b3 c"]
    edge = ["a b1 c", "a b1 b2 c", "a b1 b2 b3 c"]
    assert found(pattern, text, strategy="next", scope="edge") == edge


def test_an_event_that_could_not_be_taken_may_be_skipped():
    rows = stream("a b1 b2", x=[1, 0, 5])
    larger = compare("b.x", ">", "a.x")
    assert found(seq(A, B), rows, larger, strategy="next") == ["a b2"]
    assert found(seq(A, B), rows, larger, strategy="strict") == []
    tied = [row | {"t": t} for row, t in zip(rows, (0, 0, 1), strict=True)]
    assert found(seq(A, B), tied, strategy="next") == ["a b1"]
    assert found(seq(A, B), tied, strategy="next", strict_time=True) == ["a b2"]


def test_one_event_may_do_two_things():
    first, second = event("a", "A"), event("b", "A")
    assert found(seq(first, second), "a1 a2 a3", strategy="next") == ["a1 a2", "a2 a3"]
    both = found(seq(loop(first), second), "a1 a2 a3", strategy="next")
    assert both == ["a1 a2", "a2 a3", "a1 a2 a3"]  # each event continues the loop and ends it
    assert bound(seq(loop(first), loop(second)), "a1 a2 a3", strategy="next") == [
        "a=0 b=1",
        "a=1 b=2",
        "a=0 b=1,2",
        "a=0,1 b=2",
    ]


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [("strict", ["a2 b2"]), ("partition", ["a1 b1", "a2 b2"]), ("any", ["a1 b1", "a2 b2", "a1 b3"])],
)
def test_keys(strategy, expected):
    rows = stream("a1 a2 b2 b1 b3", k=["p", None, NAN, "p", "p"])
    assert sorted(found(seq(A, B), rows, strategy=strategy, partition_by=("k",))) == sorted(expected)


def test_without_events_and_with_one_component():
    assert found(seq(A, B), []) == []
    assert found(A, "b a1 c a2") == ["a1", "a2"]
    assert found(event("a", None), "b a") == ["b", "a"]


# --- windows ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"within": 2}, ["a b1", "a b2"]),
        ({"within": 2, "within_closed": False}, ["a b1"]),
        ({"within": 0}, ["a b1"]),
        ({"within": 0, "within_closed": False}, []),
        ({"within": 1, "within_closed": False}, ["a b1"]),
        ({"within_events": 3}, ["a b1"]),
        ({"within_events": 4}, ["a b1", "a b2"]),
        ({"gap_within": 2, "within_closed": False}, ["a b1"]),
        ({"strict_time": True}, ["a b2"]),
    ],
)
def test_windows(options, expected):
    rows = [row | {"t": t} for row, t in zip(stream("a x b1 b2"), (0, 0, 0, 2), strict=True)]
    assert found(seq(A, B), rows, **options) == expected


def test_a_window_in_events_counts_those_of_the_partition():
    rows = stream("a x b", k=["p", "q", "p"])
    assert found(seq(A, B), rows, within_events=2) == []
    assert found(seq(A, B), rows, within_events=2, partition_by=("k",)) == ["a b"]


def test_a_gap_is_between_all_successive_events():
    rows = stream("a b1 x b2 x x c")
    assert found(seq(A, loop(B), C), rows, gap_within=3) == ["a b2 c", "a b1 b2 c"]
    assert found(seq(A, loop(B), C), rows, gap_within=3, within=5) == []


# --- absent events ---------------------------------------------------------------------------------------


def test_absent_between():
    assert found(seq(A, sq.AbsentPattern(B), C), "a1 b1 a2 c1 b2 c2") == ["a2 c1"]
    assert found(seq(A, NOT_N, C), "a n1 a c n2 c", strategy="next") == ["a c"]


def test_absent_behind_all():
    pattern, text = seq(A, C, NOT_N), "a1 n1 a2 c1 n2 c2"
    assert found(pattern, text, within=2) == []  # n2 comes 2 ticks behind a2
    assert found(pattern, text, within=2, within_closed=False) == ["a2 c1"]
    assert found(pattern, text, within=4) == []  # the data end at 5, and the wait from a2 at 6
    for until, after_all in ((5, []), (6, ["a2 c2"]), ("end", ["a2 c2"])):  # a1 is 5 ticks away
        assert found(pattern, text, within=4, complete_until=until) == after_all
        undecided = found(pattern, text, within=4, complete_until=until, undecided=True)
        assert undecided == [match for match in ["a2 c2"] if match not in after_all]
    assert found(pattern, text + " n3", within=4, complete_until=5) == []  # a later event still forbids
    assert found(pattern, text, complete_until="end") == ["a1 c2", "a2 c2"]  # never again


def test_absent_in_front_of_all():
    pattern, text = seq(NOT_N, A, C), "a1 n1 a2 c1 n2 c2"
    assert found(pattern, text, within=10) == ["a1 c1", "a1 c2"]
    assert found(pattern, text, within=1) == ["a2 c1"]
    assert found(pattern, text, within=2) == []


def test_absent_at_an_edge_needs_a_window():
    with pytest.raises(ValueError, match="'n' is absent before or behind all others: needs a window"):
        found(seq(A, NOT_N), "a")


def test_all_conditions_on_an_absent_event_must_be_true():
    rows = stream("a n b1 b2 c", x=[1, 2, 3, 1, 4], y=[0, None, 0, 0, 0])
    pattern = seq(A, NOT_N, C)
    assert found(pattern, rows) == []
    assert found(pattern, rows, compare("n.x", ">", "a.x")) == []
    assert found(pattern, rows, compare("n.x", ">", "a.x"), compare("n.x", ">", "c.x")) == ["a c"]
    assert found(pattern, rows, compare("n.y", "==", 0)) == ["a c"]  # null is not true
    group = seq(A, NOT_N, loop(B))  # b1 alone has an n below all of it
    assert found(group, rows, compare("n.x", "<", "b.x")) == ["a b2", "a b1 b2"]
    assert found(group, rows, compare("n.x", "<", agg("max", "b.x"))) == ["a b2"]


def test_neighbours_of_an_absent_event_are_those_that_are_there():
    pattern = seq(A, loop(B, 0, 1), NOT_N, C)
    assert found(pattern, "a n b c") == ["a b c"]
    assert found(pattern, "a b n c") == []


def test_absent_within_all_of():
    pattern = sq.AllOf((A, NOT_N, B))
    assert found(pattern, "n a b n") == ["a b"]
    assert found(pattern, "b n a") == []
    assert found(sq.AllOf((loop(A), NOT_N, B)), "a1 n a2 b") == ["a2 b"]  # between the events of a group too
    assert found(sq.AllOf((seq(A, NOT_N, C), B)), "a b c1 n c2") == ["a b c1"]
    assert found(sq.AllOf((seq(A, NOT_N, C), B)), "b n a c") == ["b a c"]


# --- Kleene closure --------------------------------------------------------------------------------------


def test_groups_at_the_edges():
    assert found(seq(A, loop(B)), "a b1 b2", strategy="next") == ["a b1", "a b1 b2"]  # every prefix
    assert found(seq(loop(A), B), "a1 a2 b", strategy="next") == ["a2 b", "a1 a2 b"]
    assert found(loop(A), "a1 a2", strategy="strict") == ["a1", "a2", "a1 a2"]


@pytest.mark.parametrize("n", range(1, 7))
def test_any_finds_every_subset(n):
    text = " ".join(f"b{i}" for i in range(n))
    assert len(found(seq(A, loop(B), C), f"a {text} c")) == 2**n - 1
    assert len(found(loop(B), text)) == 2**n - 1


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (2, 2, ["a b1 b2 c", "a b1 b3 c", "a b2 b3 c"]),
        (0, 1, ["a c", "a b1 c", "a b2 c", "a b3 c"]),
        (3, None, ["a b1 b2 b3 c"]),
        (0, None, 8),
        (2, 3, 4),
    ],
)
def test_numbers_of_rounds(low, high, expected):
    matches = found(seq(A, loop(B, low, high), C), "a b1 b2 b3 c")
    assert len(matches) == expected if isinstance(expected, int) else matches == expected


def test_the_number_of_rounds_limits_what_is_relevant():
    pattern = seq(A, loop(B, 1, 2), C)
    assert found(pattern, "a b1 b2 b3 c", strategy="next") == ["a b1 b2 c"]  # nothing takes b3


def test_greedy_and_reluctant_choose_where_an_event_does_both():
    first, second = event("a", "A"), event("b", None)
    for preference, expected in {
        "all": ["a1 a2", "a1 a2 x", "a2 x"],
        "greedy": ["a1 a2 x", "a2 x"],
        "reluctant": ["a1 a2", "a2 x"],
    }.items():
        pattern = seq(loop(first, preference=preference), second)
        assert sorted(found(pattern, "a1 a2 x", strategy="next")) == expected, preference
    # A step that a preference does not take is not free to skip the event.
    pattern = seq(loop(first, 1, 2, preference="greedy"), event("b", "A"))
    assert found(pattern, "a1 a2 a3 a4", strategy="next", scope="edge") == ["a1 a2 a3", "a2 a3 a4"]


def test_until_ends_a_loop():
    rows = stream("a b1 x b2 c b3 c", x=[9, 9, 0, 1, 0, 2, 0])
    pattern = seq(A, loop(B, until=compare(ex.Attribute("x"), "==", 1)), C)
    assert found(pattern, rows) == ["a b1 c", "a b2 c", "a b1 c", "a b2 c", "a b3 c", "a b2 b3 c"]
    high = seq(A, loop(B, until=compare(ex.Attribute("x"), "<", "a.x")), C)  # x ends it, though not of type B
    assert found(high, rows, strategy="next", scope="edge") == ["a b1 c"]
    other = [row | {"k": k} for row, k in zip(rows, "ppqpppp", strict=True)]
    assert found(high, other, partition_by=("k",), strategy="next", scope="edge") == ["a b1 c"]
    begins = seq(A, loop(B, until=compare(ex.Attribute("x"), "==", 1)), event("c", "B"))
    assert found(begins, rows, strategy="next") == ["a b1 b2"]


# --- conditions ------------------------------------------------------------------------------------------

FALLING = stream("a b1 b2 b3 c", x=[0, 6, 5, 7, 6])


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (compare("b[i].x", "<", "b[i-1].x"), ["b1", "b2", "b1 b2", "b3"]),
        (compare("b.x", ">", 5), ["b1", "b3", "b1 b3"]),
        (compare("b[i].x", ">", agg("avg", "b[..i-1].x")), ["b1", "b2", "b3", "b1 b3", "b2 b3"]),
        (compare("b[i].x", ">=", agg("max", "b.x")), ["b1", "b2", "b3", "b1 b3", "b2 b3"]),  # max so far
        (compare("b[i].x", "==", "b[LEN].x"), ["b1", "b2", "b1 b2", "b3", "b1 b3", "b2 b3", "b1 b2 b3"]),
        (compare("b[1].x", "<", "b[LEN].x"), ["b1 b3", "b2 b3", "b1 b2 b3"]),
        (compare("b[2].x", ">", 5), ["b1 b3", "b2 b3"]),  # null with one event
        (compare(agg("count", "b"), "==", 2), ["b1 b2", "b1 b3", "b2 b3"]),
        (compare(agg("sum", "b.x"), ">", 12), ["b1 b3", "b1 b2 b3"]),
        (compare(agg("delta", "b.x"), "==", 1), ["b1 b3", "b1 b2 b3"]),
        (compare(agg("first", "b.x"), ">", agg("last", "b.x")), ["b1 b2"]),
        (compare("c.x", "==", agg("avg", "b.x")), ["b1", "b2 b3", "b1 b2 b3"]),
        (compare("c.x", ">", "b.x"), ["b2"]),  # all of them
        (compare("c.x", ">", "b[i-1].x"), ["b1", "b2", "b3", "b2 b3"]),
        (ex.Not(compare("c.x", ">", "b.x")), ["b1", "b3", "b1 b3"]),  # for each, not for one
        (compare(agg("count", "b"), "<", "c.x"), ["b1", "b2", "b1 b2", "b3", "b1 b3", "b2 b3", "b1 b2 b3"]),
    ],
)
def test_conditions_on_groups(where, expected):
    every = found(seq(A, loop(B), C), FALLING)
    assert every == [f"a {group} c" for group in ["b1", "b2", "b1 b2", "b3", "b1 b3", "b2 b3", "b1 b2 b3"]]
    assert found(seq(A, loop(B), C), FALLING, where) == [f"a {group} c" for group in expected]


def test_a_condition_on_each_event_decides_what_is_relevant_and_one_on_the_group_does_not():
    pattern = seq(A, loop(B), C)
    assert found(pattern, FALLING, compare("b[i].x", "<", "b[i-1].x"), strategy="next") == ["a b1 b2 c"]
    assert found(pattern, FALLING, compare(agg("count", "b"), "<=", 2), strategy="next") == []
    counted = compare(ex.Arithmetic("*", agg("count", "b"), ref("b[i].x")), "<", 15)  # with each event
    assert found(pattern, FALLING, counted, strategy="next") == ["a b1 b2 c"]


def test_values_and_nulls():
    rows = stream("a1 b1 b2", x=[1, None, 2], y=[NAN, 1.0, 2.0], f=[True, None, False], s=["p", "p", None])
    pattern = seq(A, B)
    assert found(pattern, rows, compare("b.x", ">", "a.x")) == ["a1 b2"]
    assert found(pattern, rows, ex.Not(compare("b.x", ">", "a.x"))) == []
    assert found(pattern, rows, ex.IsNull(ref("a.y"))) == ["a1 b1", "a1 b2"]
    assert found(pattern, rows, ref("b.f")) == []
    assert found(pattern, rows, ex.Not(ref("b.f"))) == ["a1 b2"]
    assert found(pattern, rows, compare("a.s", "==", "b.s")) == ["a1 b1"]
    assert found(pattern, rows, compare("b.x", "==", ex.Parameter("p")), params=(("p", 2),)) == ["a1 b2"]
    assert found(seq(A, loop(B)), rows, compare(agg("count", "b.x"), "==", 1)) == ["a1 b2", "a1 b1 b2"]


def test_empty_parts():
    rows = stream("a b c", x=[1, 2, 3])
    pattern = seq(A, loop(B, 0), C)
    assert found(pattern, rows, compare("b.x", ">", 5)) == ["a c"]
    assert found(pattern, rows, compare("c.x", ">", "b.x")) == ["a b c"]  # null without b
    assert found(pattern, rows, compare("c.x", ">", agg("count", "b"))) == ["a c", "a b c"]
    assert found(pattern, rows, compare(agg("count", "b"), "==", 0)) == ["a c"]
    assert found(pattern, rows, compare(agg("sum", "b.x"), ">", 0)) == ["a b c"]
    assert found(seq(A, loop(B, 0, 1)), rows, compare("a.x", ">", "b.x")) == ["a"]


# --- alternatives, orders, repeated groups ---------------------------------------------------------------


def test_any_of_counts_a_match_for_each_option():
    one_or_other = sq.AnyOf((event("b", "B"), event("c", None)))
    assert bound(seq(A, one_or_other), "a b", strategy="next") == ["a=0 b=1 #0", "a=0 c=1 #1"]
    rows = stream("a b", x=[1, 2])
    assert bound(seq(A, one_or_other), rows, compare("b.x", ">", 5)) == ["a=0 c=1 #1"]
    assert bound(seq(A, one_or_other), rows, compare("c.x", "<", "a.x")) == ["a=0 b=1 #0"]
    last = compare(agg("count", "b"), ">", 0)  # about an option that is not taken: says nothing
    assert len(bound(seq(A, sq.AnyOf((loop(B), event("c", None)))), rows, last)) == 2


def test_all_of_in_all_orders():
    assert bound(sq.AllOf((A, B)), "b a b") == ["b=0 a=1", "a=1 b=2"]
    both = sq.AllOf((event("a", None), event("b", None)))
    assert bound(both, "x y") == ["a=0 b=1", "b=0 a=1"]
    inside = seq(D, sq.AllOf((seq(A, B), C)), event("e", "D"))
    assert bound(inside, "d a c b d") == ["d=0 a=1 c=2 b=3 e=4"]
    assert bound(inside, "d b c a d") == []
    assert bound(sq.AllOf((loop(A), B)), "a b a") == ["a=0 b=1", "b=1 a=2"]  # b is not inside the group
    rows = stream("b a", x=[1, 2])
    assert bound(sq.AllOf((A, B)), rows, compare("b.x", "<", "a.x"), strategy="strict") == ["b=0 a=1"]


def test_repeated_groups():
    pattern = loop(seq(A, B), 1, 2)
    assert bound(pattern, "a b a b", strategy="next") == ["a=0 b=1", "a=2 b=3", "a=0 b=1 a=2 b=3"]
    twice = loop(seq(A, B), 2, 2, inner="strict")
    assert bound(twice, "a b x a b a b", strategy="next") == ["a=3 b=4 a=5 b=6"]
    rows = stream("a b a b c", x=[1, 2, 3, 1, 2])
    assert bound(seq(loop(seq(A, B), 2, 2), C), rows, compare("a.x", "<", "b.x")) == []  # second round
    assert bound(seq(loop(seq(A, B), 2, 2), C), rows, compare("b.x", "<=", "c.x")) == ["a=0 b=1 a=2 b=3 c=4"]
    assert bound(seq(loop(seq(A, B), 2, 2), C), rows, compare("a.x", "<=", "c.x")) == []  # 3 of the second
    rows = stream("a b a b", x=[1, 2, 3, 4])
    assert bound(loop(seq(A, B), 2, 2), rows, compare("a.x", "<", "b.x")) == ["a=0 b=1 a=2 b=3"]
    absent = loop(seq(A, NOT_N, B), 2, 2)
    assert bound(absent, "a b n a b") == ["a=0 b=1 a=3 b=4"]
    assert bound(absent, "a n b a b") == []
    rows = stream("a n b a n b", x=[1, 2, 0, 3, 2, 0])
    assert bound(absent, rows, compare("n.x", ">", "a.x")) == []
    assert bound(absent, rows, compare("n.x", ">", "a.x"), compare("n.x", ">", 2)) == ["a=0 b=2 a=3 b=5"]
    rows = stream("a b a n b", x=[1, 0, 3, 2, 0])  # above the a of the first round, not of its own
    assert bound(absent, rows, compare("n.x", ">", "a.x")) == ["a=0 b=1 a=2 b=4"]


def test_what_has_no_meaning():
    with pytest.raises(ValueError, match="repeated without limit"):
        found(loop(seq(A, B)), "a")
    with pytest.raises(ValueError, match="several rounds"):
        found(loop(seq(A, B), 2, 2), "a", compare(agg("count", "b"), ">", 1))
    with pytest.raises(ValueError, match="several rounds"):
        found(loop(seq(A, B), 2, 2), "a", compare("b[i].x", ">", "b[i-1].x"))


# --- order and reuse -------------------------------------------------------------------------------------


def test_canonical_order():
    assert bound(seq(loop(event("a", None)), loop(event("b", None))), "x y z") == [
        "a=0 b=1",
        "a=0 b=2",
        "a=1 b=2",
        "a=0 b=1,2",
        "a=0,1 b=2",
    ]
    tags = sq.AnyOf((seq(event("a", None), event("b", None)), seq(event("c", None), event("d", None))))
    assert bound(tags, "x y") == ["a=0 b=1 #0", "c=0 d=1 #1"]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (("none", None), ["a1 a2 b1", "a2 a3 b1", "a1 a2 b1 b2", "a2 a3 b1 b2"]),
        (("past_last", None), ["a1 a2 b1"]),
        (("to_next", None), ["a1 a2 b1", "a2 a3 b1"]),
        (("to_first", "a"), ["a1 a2 b1", "a2 a3 b1", "a2 a3 b1 b2"]),
        (("to_last", "a"), ["a1 a2 b1", "a2 a3 b1"]),
        (("to_first", "b"), ["a1 a2 b1"]),
        (("to_last", "o"), ["a1 a2 b1", "a2 a3 b1", "a1 a2 b1 b2", "a2 a3 b1 b2"]),  # never there
    ],
)
def test_what_a_match_takes_from_others(policy, expected):
    pattern = seq(loop(A, 2, 2), loop(event("o", "O"), 0, 1), loop(B))
    matches = found(pattern, "a1 a2 a3 b1 b2", strategy="next", scope="edge", after_match=policy)
    assert sorted(matches) == sorted(expected)


def test_reuse_of_runs_of_equal_events():
    three = loop(A, 3, 3)
    text = "a1 a2 a3 a4 a5 a6"
    assert len(found(three, text, strategy="next")) == 4
    kept = found(three, text, strategy="next", after_match=("past_last", None))
    assert kept == ["a1 a2 a3", "a4 a5 a6"]
    two_each = seq(loop(event("s", "A"), 2, 2), loop(event("e", "A"), 2, 2))
    kept = found(two_each, text, strategy="next", after_match=("to_first", "e"))
    assert kept == ["a1 a2 a3 a4", "a3 a4 a5 a6"]
    shortest_first = seq(loop(A, inner="strict"), B, steps=("strict",))
    kept = found(shortest_first, "a1 a2 a3 b1", strategy="next", after_match=("to_last", "a"))
    assert sorted(kept) == ["a1 a2 a3 b1", "a3 b1"]


def test_reuse_follows_the_order_of_detection_and_stays_within_a_partition():
    rows = stream("a1 c1 a2 c2 b1 b2", x=[0, 0, 1, 0, 1, 0])
    same = compare("a.x", "==", "b.x")
    pattern = seq(A, C, B)
    assert found(pattern, rows, same, strategy="next") == ["a2 c2 b1", "a1 c1 b2"]
    kept = found(pattern, rows, same, strategy="next", after_match=("to_first", "c"))
    assert kept == ["a2 c2 b1"]  # found first; a1 came before c2
    rows = [row | {"k": k} for row, k in zip(rows, "ppqqqp", strict=True)]
    options = {"strategy": "next", "after_match": ("to_first", "c"), "partition_by": ("k",)}
    assert found(pattern, rows, same, **options) == ["a2 c2 b1", "a1 c1 b2"]


# --- cases -----------------------------------------------------------------------------------------------


drawn = cache(generate.case)


@pytest.mark.parametrize("family", generate.FAMILIES)
def test_most_cases_have_matches_but_not_too_many(family):
    sizes = []
    for seed in range(25):
        case = generate.case(seed, family=family)
        sizes.append(len(sequence_matches(case.query, case.rows)))
    assert sum(0 < size <= 200 for size in sizes) > 0.6 * len(sizes)
    assert max(sizes) <= generate.MOST_CANDIDATES


def test_cases_cover_the_operators():
    cases = [drawn(seed) for seed in range(300)]
    nodes = [node for case in cases for node in case.query.pattern.walk()]
    kinds = {node.__name__ for node in (sq.EventPattern, sq.SequenceOf, sq.AllOf, sq.AnyOf, sq.Loop)}
    assert {type(node).__name__ for node in nodes} == kinds | {sq.AbsentPattern.__name__}
    loops = [node for node in nodes if isinstance(node, sq.Loop)]
    assert {node.preference for node in loops} == set(sq.PREFERENCES)
    assert {node.inner for node in loops} == {None, *sq.STRATEGIES}
    assert {(0, None), (1, None), (0, 1), (2, 2), (1, 2), (2, None)} <= {(n.low, n.high) for n in loops}
    assert any(node.until is not None for node in loops)
    steps = {step for node in nodes if isinstance(node, sq.SequenceOf) for step in node.steps}
    assert steps == {None, *sq.STRATEGIES}
    queries = [case.query for case in cases]
    assert {query.strategy for query in queries} == set(sq.STRATEGIES)
    assert {query.scope for query in queries} == {"run", "edge"}
    assert {query.after_match[0] for query in queries} == {
        *("none", "past_last", "to_next", "to_first", "to_last", "once", "once_newest")
    }
    for name in ("within", "within_events", "gap_within"):
        assert {getattr(query, name) is None for query in queries} == {True, False}
    absences = [absent for query in queries for line in lines(query.pattern) for absent in line.absences]
    assert {(absent.after is None, absent.before is None) for absent in absences} == {
        *((True, False), (False, False), (False, True))
    }
    assert any(absent.spanning for absent in absences)
    references = [
        node
        for query in queries
        for tree in query.where
        for node in tree.walk()
        if isinstance(node, ex.Reference)
    ]
    assert {node.index for node in references} == {None, 1, 2, "i", "i-1", "..i-1", "LEN"}
    assert {node.name for node in references} == {None, *"xygsft"}
    assert sum(bool(query.params) for query in queries) > 20
    values = [row for case in cases for row in case.rows]
    assert all(any(pd.isna(row[name]) for row in values) for name in "ysfgk")
