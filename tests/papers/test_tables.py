"""Tables for readers: texts at the left, numbers grouped, nothing that Markdown would take for markup."""

import numpy as np
import pandas as pd
import pytest

from papers.tables import table_of


def cells_of(frame):
    head, marks, *rows = table_of(frame)._repr_markdown_().splitlines()
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in (head, marks, *rows)]


def test_texts_are_at_the_left_and_numbers_at_the_right():
    frame = pd.DataFrame({"why": ["a", "b"], "n": [1, 20_000], "ok": [True, False], "s": [0.5, np.nan]})
    head, marks, first, second = cells_of(frame)
    assert head == ["why", "n", "ok", "s"]
    assert marks == [":---", "---:", ":---", "---:"]
    assert first == ["a", "1", "True", "0.5"]
    assert second == ["b", "20,000", "False", ""]


def test_numbers_of_a_column_have_equal_decimals_unless_they_differ_too_much():
    frame = pd.DataFrame({"a": [16.0, 15.8], "whole": [24.0, np.nan], "far": [1.0, 7.7e-6]})
    assert cells_of(frame)[2:] == [["16.0", "24", "1"], ["15.8", "", "7.7e-06"]]


def test_levels_of_the_index_are_columns():
    index = pd.MultiIndex.from_product([["ABC", "traffic"], ["Q1"]], names=["stream", "group"])
    wide = pd.DataFrame({"SASE": [1, 2]}, index=index).rename_axis(columns="system")
    assert cells_of(wide)[0] == ["stream", "group", "SASE"]
    assert cells_of(wide)[2] == ["ABC", "Q1", "1"]
    numbered = pd.DataFrame({"a": [3]}, index=pd.RangeIndex(1, name="step"))
    assert cells_of(numbered)[0] == ["step", "a"]


@pytest.mark.parametrize("text", ["rise* flat*", "a_b_c", "[k] <b> `x` $y$", "a | b", "# no head"])
def test_texts_are_shown_literally(text):
    mistune = pytest.importorskip("mistune", reason="mistune comes with JupyterLab")
    page = mistune.create_markdown(plugins=["table"])(
        table_of(pd.DataFrame({"query": [text]}))._repr_markdown_()
    )
    escaped = text.replace("<", "&lt;").replace(">", "&gt;")
    assert f">{escaped}</td>" in page


def test_the_text_has_the_same_cells():
    frame = pd.DataFrame({"why": ["two words", "b"], "n": [1, 20_000]})
    assert repr(table_of(frame)).splitlines() == [
        "why             n",
        "two words       1",
        "b          20,000",
    ]
