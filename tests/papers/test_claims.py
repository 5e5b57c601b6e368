"""Claims of papers: a verdict comes from all tries."""

import math
from dataclasses import replace

import pandas as pd
import pytest

from cepkit.errors import CepError
from papers.claims import (
    IN_PART,
    NO,
    ON_GENERATED,
    UNTRIED,
    YES,
    Claim,
    count_verdicts,
    examine,
    falls,
    marks_table,
    rises,
)
from papers.tables import keep_table, kept_table


def at_least_one(own):
    return own["speedup"].min(), own["speedup"].min() >= 1


FASTER = Claim("figure 1", "it is faster", "least speed-up", at_least_one, printed="2", reason="it does less")


def results(held: int, seeds: int, **recorded: float) -> pd.DataFrame:
    rows = [{"data": f"seed {i}", "speedup": 2.0 if i < held else 0.5} for i in range(seeds)]
    return pd.DataFrame([*rows, *({"data": name, "speedup": value} for name, value in recorded.items())])


@pytest.mark.parametrize(
    ("held", "seeds", "recorded", "verdict"),
    [
        (9, 9, {}, UNTRIED),
        (0, 9, {}, UNTRIED),
        (10, 10, {}, YES),
        (9, 10, {}, YES),
        (8, 10, {}, IN_PART),
        (89, 100, {}, IN_PART),
        (90, 100, {"home": 3.0}, YES),
        (90, 100, {"home": 3.0, "trades": 0.9}, ON_GENERATED),
        (5, 10, {"home": 3.0}, IN_PART),
        (2, 10, {}, IN_PART),
        (1, 10, {"home": 3.0}, NO),
        (0, 10, {}, NO),
    ],
)
def test_verdict_needs_ten_seeds_and_nine_tenths_of_them(held, seeds, recorded, verdict):
    [finding] = examine([FASTER], results(held, seeds, **recorded))
    assert finding.verdict == verdict
    assert finding.share == held / seeds
    assert [one.data for one in finding.on_recorded] == list(recorded)


@pytest.mark.parametrize(("values", "verdict"), [((2, 3), YES), ((2, 0.5), IN_PART), ((0.5, 0.2), NO)])
def test_runs_of_a_real_system_decide_a_claim_about_it(values, verdict):
    table = pd.DataFrame({"data": ["run 0", "run 1"], "speedup": values})
    [finding] = examine([replace(FASTER, is_real=True)], table)
    shown = marks_table([finding]).iloc[0]
    assert finding.verdict == verdict and "seeds" not in shown
    assert float(shown["here"]) == pytest.approx(sum(values) / 2, abs=0.06)


def test_data_that_say_nothing_are_not_tries():
    def only_of_home(own):
        return None if own["speedup"].isna().all() else at_least_one(own)

    table = pd.DataFrame({"data": ["seed 1", "seed 2", "home"], "speedup": [None, 2.0, 3.0]})
    [finding] = examine([Claim("", "", "", only_of_home)], table)
    assert [one.data for one in finding.on_seeds] == ["seed 2"]
    assert finding.verdict == UNTRIED
    [none] = examine([Claim("", "", "", lambda own: None)], table)
    assert math.isnan(none.share)
    assert none.verdict == UNTRIED


def test_all_rows_of_a_data_set_belong_to_one_try():
    table = pd.DataFrame({"data": ["seed 1", "seed 2", "seed 1"], "speedup": [2.0, 3.0, 0.5]})
    [finding] = examine([FASTER], table)
    assert [(one.data, one.value, one.holds) for one in finding.on_seeds] == [
        ("seed 1", 0.5, False),
        ("seed 2", 3.0, True),
    ]


def test_table_has_the_numbers_of_all_tries():
    table = marks_table(examine([FASTER], results(9, 10, home=3.0, trades=0.25)))
    assert table.index.tolist() == ["○"] and table.iloc[0].to_dict() == {
        "claim": "it is faster",
        "place": "figure 1",
        "measure": "least speed-up",
        "paper": "2",
        "here": "2",
        "seeds": "9 of 10",
        "recorded": "1 of 2",
        "why": "it does less",
    }
    assert "recorded" not in marks_table(examine([FASTER], results(9, 10)))
    marks = [marks_table(examine([FASTER], results(held, 10))).index[0] for held in (10, 5, 1)]
    assert marks == ["✓", "±", "–"]


def test_phrase_counts_every_claim_once():
    found = [examine([FASTER], results(held, 10))[0] for held in (10, 9, 5, 0)]
    assert count_verdicts(found) == "2 of 4 claims hold, 1 in part, 1 not"


def test_results_need_the_column_of_the_data():
    with pytest.raises(CepError, match="need a column 'data'; there are speedup"):
        examine([FASTER], pd.DataFrame({"speedup": [1.0]}))


def test_growth_looks_at_every_step():
    assert rises([13.8, 15.1, 15.2])
    assert not rises([13.8, 15.1, 13.9])
    assert not rises([1.0])
    assert falls([3, 2, 1])
    assert not falls([3, 4, 1])
    assert not rises([1.0, float("nan"), 2.0])


def test_kept_table_comes_back_with_its_call(tmp_path):
    table = pd.DataFrame({"data": ["seed 0", "seed 1"], "speedup": [1.25, 1e-7], "pattern": ["a, b", "#c"]})
    keep_table(table, tmp_path / "own.csv", "speedups(range(2))")
    back = kept_table(tmp_path / "own.csv")
    pd.testing.assert_frame_equal(back, table)
    assert back.attrs["made_by"] == "speedups(range(2))"


def test_kept_tables_say_what_is_wrong(tmp_path):
    with pytest.raises(CepError, match="needs the call that made it"):
        keep_table(pd.DataFrame({"a": [1]}), tmp_path / "own.csv", " ")
    with pytest.raises(CepError, match=r"there is no kept table .*own\.csv"):
        kept_table(tmp_path / "own.csv")
    (tmp_path / "own.csv").write_text("a\n1\n")
    with pytest.raises(CepError, match="does not begin with '# made by: '"):
        kept_table(tmp_path / "own.csv")
