"""Where the matches of a regex are lost: each step against the definition of its part of the pattern."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import cepkit as cep
from cepkit.errors import UnsupportedQueryError
from cepkit.insight import funnels as funnel_regex
from cepkit.insight.funnel import FunnelResult
from cepkit.language import row_patterns as pt
from cepkit.language.expressions import trees as ex
from cepkit.language.regex import parse_pattern
from tests.oracle import generate, naive
from tests.support.sizes import seeds

WALK = pd.DataFrame({"price": [10, 12, 13, 11, 14, 15, 9]})
DEFINE = {"rise": "price > prev(price)", "deep": "price < first(price)"}


def cut_off(pattern: pt.Pattern) -> list[pt.Pattern]:
    """Return the beginnings of a pattern that need a row, and the whole: the definition of its steps."""
    parts = pattern.parts if isinstance(pattern, pt.Sequence) else (pattern,)
    made = [pt.seq(*parts[:n]) for n in range(1, len(parts))]
    return [part for part in made if generate.shortest_word(part)] + [pattern]


def names_in(pattern: pt.Pattern) -> set[str]:
    return {variable.name for variable in pt.variables(pattern)}


@pytest.mark.parametrize("seed", seeds(15, 2000))
def test_steps_are_the_definition_cut_off(seed):
    case = generate.case(seed, n_events=[12, 24, 1, 0][seed % 4] if seed % 8 else None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = cep.funnel(generate.to_frame(case.rows), case.pattern, define=case.define, **case.keywords())
    [branch] = made.branches
    parts = cut_off(case.pattern)
    wanted = [len(naive.matches(part, case.define, case.rows, **case.keywords())) for part in parts]
    assert [step.partial.n for step in branch.steps] == wanted
    assert branch.complete.n == branch.reported.n == made.count().n == wanted[-1]
    # A match of a longer beginning has one of a shorter beginning in it, so the numbers never rise.
    assert wanted == sorted(wanted, reverse=True) and wanted[0] <= len(case.rows)
    assert [step.looked_at for step in branch.steps] == [len(case.rows), *wanted[:-1]]
    table = made.to_frame()
    assert table["partial"].tolist() == [*wanted, wanted[-1], wanted[-1]]
    check_conditions(case, made)


def check_conditions(case: generate.Case, made: FunnelResult) -> None:
    """Check how many rows fulfil each condition alone."""
    by = case.partition_by
    rows_of_key: dict = {}
    for row in case.rows:
        rows_of_key.setdefault(tuple(naive.without_nan(row[name]) for name in by), []).append(row)

    def n_rows(tree) -> int:
        return sum(
            naive.evaluate(tree, rows, i, i, case.params) is True
            for rows in rows_of_key.values()
            for i in range(len(rows))
        )

    for step in made.branches[0].steps:
        for one in step.conditions:
            name = one.text.partition(":")[0]
            condition = ex.conjuncts(case.define[name])[one.conjunct]
            assert one.text == f"{name}: {condition}"
            is_alone = not any(isinstance(node, ex.Aggregate) for node in condition.walk())
            assert one.alone == is_alone
            wanted = (len(case.rows), n_rows(condition)) if is_alone else (None, None)
            assert (one.looked_at, one.passed) == wanted
        pattern = parse_pattern(step.variable)
        while isinstance(pattern, pt.Repeat):
            pattern = pattern.body
        if isinstance(pattern, pt.Variable) and step.n_alone is not None:
            assert step.n_alone == n_rows(case.define[pattern.name])
        if isinstance(pattern, pt.AnyEvent):
            assert step.n_alone == len(case.rows)


@pytest.mark.parametrize("seed", seeds(3, 60))
def test_many_events_are_counted_by_the_engine(seed, monkeypatch):
    case = generate.case(seed, n_events=30)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        call = {"define": case.define, **case.keywords()}
        few = cep.funnel(generate.to_frame(case.rows), case.pattern, **call)
        monkeypatch.setattr(funnel_regex, "_FEW", 0)
        many = cep.funnel(generate.to_frame(case.rows), case.pattern, **call)
    assert few == many


def test_the_example():
    made = WALK.cep.funnel(". rise{2,} deep", define=DEFINE)
    assert repr(made).splitlines() == [
        ". rise{2,} deep",
        "    step event_type events passing partial of first tried passed selectivity absent",
        "       .                 7       7       7   100.0%     7      7           1       ",
        "rise{2,}                 7       4       2    28.6%     7      2       0.286       ",
        "    deep                 7               1    14.3%     2      1         0.5       ",
        " matches                                 1                                         ",
        "reported                                 1                                         ",
        "1 match; most is lost here: 7 partial matches up to ., 2 up to rise{2,}",
    ]
    assert made.conditions()[["step", "condition", "alone"]].values.tolist() == [
        ["rise{2,}", "rise: price > prev(price)", True],
        ["deep", "deep: price < first(price)", False],
    ]
    assert made.conditions()["passed"].isna().tolist() == [False, True]
    assert "<table" in made._repr_html_()
    figure = made.plot()
    assert list(figure.data[0].x if figure.data[0].orientation == "h" else figure.data[0].y)
    assert made == cep.funnel(WALK, ". rise{2,} deep", define=DEFINE)


def test_words_say_which_condition_no_row_fulfils():
    made = WALK.cep.funnel("rise high", define={"rise": "price > prev(price)", "high": "price > 99"})
    assert made.words() == [
        "no match; most is lost here: 0 of 7 events can be high (high: price > 99: 0 of 7)"
    ]
    assert WALK.head(0).cep.funnel("rise", define={"rise": "price > 1"}).words() == [
        "no match; most is lost here: there is no event for rise"
    ]


def test_parts_that_may_be_empty_belong_to_the_next_step():
    made = WALK.cep.funnel("rise* (low | .){2} deep* low", define={**DEFINE, "low": "price < 11"})
    assert [step.variable for step in made.branches[0].steps] == ["rise* (low | .){2}", "deep*", "low"]


def test_boolean_columns_are_predicates():
    frame = pd.DataFrame({"up": [True, False, True, True]})
    made = frame.cep.funnel("up up")
    assert made.to_frame()["passing"].tolist()[:2] == [3, 3]
    assert made.conditions()["passed"].tolist() == [3, 3]


def test_frames_of_every_kind():
    polars = pytest.importorskip("polars")
    wanted = WALK.cep.funnel(". rise{2,} deep", define=DEFINE)
    for frame in (pa.Table.from_pandas(WALK), polars.from_pandas(WALK)):
        assert cep.funnel(frame, ". rise{2,} deep", define=DEFINE) == wanted


def test_the_explorer_shows_the_same_numbers():
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"price": rng.integers(0, 30, 300)})
    explorer = frame.cep.explore(". rise{2,} deep", define=DEFINE).wait(60)
    shown = explorer.board.funnel.stages
    steps = frame.cep.funnel(". rise{2,} deep", define=DEFINE).branches[0].steps
    assert [one["n"] for one in shown] == [str(step.partial) for step in steps]
    assert [one["label"] for one in shown] == [".", ". rise{2,}", ". rise{2,} deep"]


def test_spark_frames_are_told_the_way_out():
    sql = pytest.importorskip("pyspark.sql")
    for name, call in (("funnel", cep.funnel), ("why_not", cep.why_not)):
        with pytest.raises(UnsupportedQueryError, match=rf"df.limit.*toPandas\(\).cep.{name}"):
            call(object.__new__(sql.DataFrame), "up")
