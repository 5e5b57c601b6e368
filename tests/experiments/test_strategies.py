"""What notebook 01 shows: the variants of a query side by side, as tables and as a picture."""

from __future__ import annotations

import pandas as pd
import pytest

from cepkit.experiments import strategies as st
from cepkit.plots.timeline.match_rows import MAX_MATCHES, match_rows

VARIANTS = {name: {"strategy": name} for name in ("strict", "partition", "next", "any")}
TEXT = "PATTERN SEQ(a a, b b, c c)"


def test_variants_side_by_side():
    table = st.compare(st.letters("aabbabcc"), TEXT, VARIANTS)
    assert table["count"].tolist() == [1, 1, 3, 14]
    assert table.loc["next", "matches"] == "a1 b1 c1, a2 b1 c1, a3 b3 c1"
    own_text = {"two": {"text": "PATTERN SEQ(a a, a x)"}, "none": {"text": "PATTERN SEQ(c c, a a)"}}
    table = st.compare(st.letters("aac"), "", own_text)
    assert table["matches"].tolist() == ["a1 a2", "none"]


def test_picture_has_a_row_per_match():
    stream = st.letters("aabbabcc")
    figure = match_rows(stream.index.tolist(), st.lineages(stream, TEXT, VARIANTS), title="three")
    panels = [note.text for note in figure.layout.annotations]
    assert panels[0] == "<b>strict</b>: 1 match"
    assert panels[3] == "<b>any</b>: 14 matches"
    marks = [trace for trace in figure.data if trace.mode == "markers"]
    assert sum(len(trace.x) for trace in marks) == 3 * (1 + 1 + 3 + 14)
    assert [trace.name for trace in figure.data if trace.showlegend is not False] == ["a", "b", "c"]
    assert {text for trace in marks for text in trace.text} == set(stream.index)


def test_picture_says_what_it_leaves_out():
    n = MAX_MATCHES + 5
    many = pd.DataFrame({"match": range(n), "variable": "a", "position": 0})
    none = many.head(0)
    figure = match_rows(["a1"], {"many": many, "none": none})
    assert [note.text for note in figure.layout.annotations] == [
        f"<b>many</b>: {n} matches, the first {MAX_MATCHES} shown",
        "<b>none</b>: no match",
    ]


@pytest.mark.slow
def test_counts_grow_with_the_window():
    stream = st.price_stream(3000)
    matches, times = st.explosion(stream, TEXT + " WHERE b.price > a.price", (10, 100))
    assert matches["matches"].is_monotonic_increasing
    assert matches["matches"].tolist() == [
        st.found(stream, f"{TEXT} WHERE b.price > a.price WITHIN {w}", engine="search").count()
        for w in (10, 100)
    ]
    assert times.columns.tolist() == ["count_ms", "sample_ms"]
