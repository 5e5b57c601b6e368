"""Where the next match of a regex may begin, and which of the matches with one first row counts."""

from __future__ import annotations

import itertools
import re
import warnings
from random import Random

import pandas as pd
import pytest

import cepkit as cep
from cepkit.language.expressions.parsing import parse_expression
from cepkit.language.regex import parse_pattern
from cepkit.language.row_patterns import variables
from tests.oracle import generate, naive
from tests.support.regex_runs import check
from tests.support.sizes import JIT, seeds
from tests.support.tiers import seeds_of_tiers

KINDS = ("past_last", "to_last", "to_next_row", "to_first", "to_last of a name")
RULES = tuple(itertools.product(KINDS, ("shortest", "longest")))[1:]  # the first one is the default
MEASURES = ("count()", "first(x)", "last(y)", "max(y)", "sum(g)", "collect(x)", "distinct(s)")
WALK = pd.DataFrame({"p": [10, 12, 9, 11, 8, 13]})
UNDER = {"under": "p < first(p)", "back": "p >= first(p)"}
V = {"drop": "p < prev(p)", "rise": "p > prev(p)"}


@seeds_of_tiers(2 if JIT else 3, 25, "shape_seed")
def test_random_queries(shape_seed, tier, full):
    """Each rule equals the definition; `generate.case(seed, shape)` replays a case."""
    n_compared = 0
    for number in range(200 if full else 2 * len(RULES)):
        seed, (kind, keep) = 10_000 * shape_seed + number, RULES[number % len(RULES)]
        shape = shape_seed if tier == "compiled" else seed
        case, rng = generate.case(seed, shape), Random(seed)
        names = sorted({variable.name for variable in variables(case.pattern)})
        if "to_first" in kind or "name" in kind:
            if not names:
                continue
            kind = f"{kind.removesuffix(' of a name')}({rng.choice(names)})"
        keywords = {**case.keywords(), "partition_by": case.partition_by, "after_match": kind, "keep": keep}
        try:
            measures = (Random(shape_seed) if tier == "compiled" else rng).sample(MEASURES, 2)
            check(case.pattern, case.define, case.rows, measures=measures, **keywords)
            n_compared += 1
        except cep.CepError as error:  # the definition refuses the same
            assert "cannot continue" in str(error) or "would be found again" in str(error)
            rule = kind.rstrip(")").partition("(")
            with pytest.raises(ValueError, match="cannot go on"):
                naive.matches(
                    case.pattern, case.define, case.rows, after_match=(rule[0], rule[2]), keep=keep,
                    **case.keywords(),
                )  # fmt: skip
        except BaseException as error:
            error.add_note(f"generate.case({seed}, {shape}), {kind}, {keep}")
            raise
    assert n_compared > 0


GAPS = pd.DataFrame({"t": [0, 10, 40, 100, 200, 210], "k": list("xxyxxx")})
EVERYDAY = {  # name: (frame, pattern, keywords, the rows of each match, worked out by hand)
    "gaps of a signal": (GAPS, ". late", {
        "define": {"late": "t - prev(t) > 30"}, "order_by": "t", "after_match": "to_last",
    }, [(2, 3), (3, 4)]),
    "V shapes": (WALK, ". drop rise", {"define": V, "after_match": "to_last(rise)"}, [(1, 3), (3, 5)]),
    "drawdowns": (pd.DataFrame({"p": [100, 102, 99, 95, 98, 103, 101, 104]}), ". under+ back", {
        "define": UNDER, "after_match": "to_last",
    }, [(1, 5), (5, 7)]),
    "the outer drawdown, not the inner one": (pd.DataFrame({"p": [10, 8, 6, 9, 10]}), ". under+ back", {
        "define": UNDER, "after_match": "to_last",
    }, [(0, 4)]),
    "runs of equal values": (pd.DataFrame({"p": [3, 3, 3, 1, 4, 4]}), ". same+", {
        "define": {"same": "p = prev(p)"}, "keep": "longest",
    }, [(0, 2), (4, 5)]),
    "runs of partitions": (GAPS, ". near*", {
        "define": {"near": "t - prev(t) <= 30"}, "order_by": "t", "partition_by": "k", "keep": "longest",
    }, [(0, 1), (2, 2), (3, 3), (4, 5)]),
    "every row begins one": (WALK, ". .", {"after_match": "to_next_row"}, [(i, i + 1) for i in range(5)]),
    "a match of one row": (WALK, "rise", {"define": V, "after_match": "to_last"}, [(1, 1), (3, 3), (5, 5)]),
    "two ends of one start": (WALK, ". rise? drop?", {
        "define": V, "after_match": "to_next_row", "keep": "longest",
    }, [(0, 2), (1, 2), (2, 4), (3, 4), (4, 5), (5, 5)]),
}  # fmt: skip


@pytest.mark.parametrize("name", EVERYDAY)
def test_everyday_questions(name):
    frame, pattern, keywords, rows = EVERYDAY[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cep.CepWarning)  # of a nullable end
        found = frame.cep.match(pattern, **keywords)
    ends = found.lineage().groupby("match")["position"].agg(["first", "last"])
    assert sorted(ends.itertuples(index=False, name=None)) == sorted(rows)
    assert found.count() == len(rows) == len(found.to_frame())
    assert len(found.to_frame("all")) == sum(last - first + 1 for first, last in rows)
    assert len(found.head(1)) == 1 and len(found[0].rows) == len(found.lineage(0))
    assert found.aggregate(n="count()")["n"] == len(rows)


def test_measures_name_the_bottom():
    found = WALK.cep.match(
        ". drop rise", define=V, after_match="to_last", measures={"low": "last(drop.p)", "n": "count(drop)"}
    )
    assert found.to_frame().to_dict("list") == {"low": [9, 8], "n": [1, 1]}


def test_functions_of_python_see_the_match():
    """What cannot be interpreted has kernels of its own."""
    low = cep.pure(lambda first_p, p: p < first_p, name="low_of_two")
    found = WALK.cep.match(". low any?", define={"low": low, "any": "true"}, keep="longest")
    assert found.lineage()["position"].tolist() == [1, 2, 3]


REFUSED = {  # keywords, and what the error says
    "no such name": ({"after_match": "to_last(rise_)"}, "the pattern has no 'rise_'. Did you mean 'rise'?"),
    "none": ({"after_match": "none"}, "'none' is not known; there are 'past_last', 'to_last', 'to_next_row'"),
    "to_first": ({"after_match": "to_first"}, "needs a name, as in 'to_first(b)'"),
    "keep": ({"keep": "long"}, "'long' is not known; there are 'shortest' and 'longest'"),
    "a name without a row": ({"after_match": "to_last(high)"}, "of rows 1 to 3 has no row of 'high'"),
    "the first row": ({"after_match": "to_first(top)"}, "would be found again"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_rules(name):
    keywords, message = REFUSED[name]
    define = {**V, "top": "p > 0", "high": "p > 90"}
    with pytest.raises(cep.CepError, match=re.escape(message)):
        WALK.cep.match("top high? drop rise", define=define, **keywords)


def test_what_runs_on_finished_frames_only():
    keywords = {"define": V, "after_match": "to_last"}
    query = cep.regex_query(". drop rise", **keywords)
    for call in (
        lambda: WALK.cep.why_not(query, rows=[1, 2, 3]),
        lambda: next(WALK.cep.step(query)),
        lambda: cep.translate(query, "siddhi"),
        lambda: cep.stream(query, {"p": "int64"}, order_by="p"),
    ):
        with pytest.raises(cep.CepError, match="after_match='to_last' of a regex run"):
            call()
    assert "after_match='to_last'" in cep.translate(query, "regex")
    assert "the next match may begin on the last row of this one" in WALK.cep.explain(query).sentence
    assert "after match  to_last" in str(WALK.cep.explain(query))
    assert WALK.cep.funnel(query).to_frame()["passed"].tolist()[2] == 2
    assert eval(cep.translate(query, "regex"), {"df": WALK}).count() == 2


def left_out(frame, pattern, **keywords):
    """Return the number in the warning of matches that begin on the last row of another one; 0 without it."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        frame.cep.match(pattern, **keywords).count()
    texts = [str(item.message) for item in caught if "on the last row of another" in str(item.message)]
    assert len(texts) <= 1
    return int(texts[0].partition(" more ")[0]) if texts else 0


@pytest.mark.skipif(not JIT, reason="kernels that run as Python would take long for a warning")
@pytest.mark.parametrize("seed", seeds(2, 100))
def test_warning_counts_what_the_default_leaves_out(seed):
    """Between two matches, a further match may begin on the last row of the first one."""
    for number in range(8):
        rng = Random(f"{seed} {number}")
        rows = [{"k": rng.choice("ab"), "p": rng.randint(0, 9)} for _ in range(40)]
        pattern, define = rng.choice([
            (". drop rise", V), (". rise+ drop", V), ("low high low", {"low": "p < 4", "high": "p >= 4"}),
            ("every drop", {"every": "true", **V}), (". under+ back", UNDER),
        ])  # fmt: skip
        texts = {name: text for name, text in define.items() if name in pattern}
        trees = {name: parse_expression(text) for name, text in texts.items()}
        expected = 0
        for key in "ab":
            part = [row for row in rows if row["k"] == key]
            found = naive.longest_matches(parse_pattern(pattern), trees, part)
            limits = [*(first + 1 for first, _ in found[1:]), len(part)]
            for (_, last), limit in zip(found, limits, strict=False):
                holds = naive._holds(trees, part, last, None, None)
                ends = naive.ends(parse_pattern(pattern), last, limit, holds)
                expected += any(end > last + 1 for end in ends)
        assert left_out(pd.DataFrame(rows), pattern, define=texts, partition_by="k") == expected


@pytest.mark.skipif(not JIT, reason="kernels that run as Python would take long for a warning")
def test_the_explorer_says_what_the_default_leaves_out():
    query, note = {"query": ". drop rise", "define": V}, "1 more match begins on the last row of another one"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert note in WALK.cep.explore(**query).wait(60).status["message"]
        for after_match in ("past_last", "to_last"):
            explorer = WALK.cep.explore(**query, after_match=after_match).wait(60)
            assert explorer.status["state"] == "done" and "last row" not in explorer.status["message"]


@pytest.mark.skipif(not JIT, reason="kernels that run as Python would take long for a warning")
def test_no_warning_where_nothing_is_missed():
    fails = pd.DataFrame({"k": list("ffffoffof"), "f": [True] * 9})
    assert left_out(fails, "f{3}") == left_out(fails, ". .") == 0  # they count rows
    assert left_out(fails.drop(columns="f"), "f{2,} o", event_type="k") == 0
    assert left_out(WALK, ". drop rise", define=V) == 1
    assert left_out(WALK, ". drop rise", define=V, after_match="past_last") == 0  # the user says so
    many = pd.concat([WALK] * 20_000, ignore_index=True)
    with pytest.warns(cep.CepWarning, match="^among 32,768 events, 8,191 more matches begin on the last row"):
        many.cep.match(". drop rise", define=V)
