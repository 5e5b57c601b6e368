"""`compare`: the variants of a query in one picture, and the rows of matches that it is made of."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import cepkit as cep
from cepkit.plots.lineage import MOST_COMPARED, comparison_scene
from cepkit.results.views import compare

COLUMNS = {"event_type": "type", "order_by": "ts"}
STRATEGIES = ("strict", "partition", "next", "any")
QUERY = "PATTERN SEQ(a a, b b, c c)"


def stream_of(names):
    names = names.split()
    return pd.DataFrame({"ts": range(1, len(names) + 1), "type": [name[0] for name in names]}, index=names)


def by_strategy(stream, query):
    return {name: stream.cep.match(query, strategy=name, **COLUMNS) for name in STRATEGIES}


def titles_of(figure):
    return [note.text for note in figure.layout.annotations if ":" in note.text]


def marks_of(figure):
    return [trace for trace in figure.data if trace.mode == "markers" and trace.x[0] is not None]


def test_picture_has_a_row_per_match():
    stream = stream_of("a1 a2 b1 b2 a3 b3 c1 c2")
    figure = compare(by_strategy(stream, QUERY), title="three")
    assert titles_of(figure) == [
        "strict: 1 match",
        "partition: 1 match",
        "next: 3 matches",
        "any: 14 matches",
    ]
    assert sum(len(trace.x) for trace in marks_of(figure)) == 3 * (1 + 1 + 3 + 14)
    assert [trace.name for trace in figure.data if trace.showlegend is not False] == ["a", "b", "c"]
    assert {text.split(": ")[1][:2] for trace in marks_of(figure) for text in trace.hovertext} == set(
        stream.index
    )
    assert list(figure.layout.xaxis.ticktext) == list(stream.index)


def test_labels_of_numbered_rows_have_the_type():
    stream = stream_of("a1 b1").reset_index(drop=True)
    figure = compare({"next": stream.cep.match("PATTERN SEQ(a x, b y)", **COLUMNS)})
    assert list(figure.layout.xaxis.ticktext) == ["a 0", "b 1"]
    figure = compare({"up": pd.DataFrame({"x": [1, 2]}).cep.match("up", define={"up": "x > 1"})})
    assert list(figure.layout.xaxis.ticktext) == ["0", "1"]


def test_a_long_stream_is_cut_and_its_matches_are_counted():
    n = 5000
    frame = pd.DataFrame({"ts": range(n), "type": np.where(np.arange(n) % 50 == 49, "b", "a")})
    found = {
        "all": frame.cep.match("PATTERN SEQ(a x, b y) WITHIN 20", **COLUMNS),
        "none": frame.cep.match("PATTERN SEQ(a x, b y) WHERE x.ts > y.ts", **COLUMNS),
    }
    figure = compare(found)
    assert titles_of(figure) == ["all: 2,000 matches, the first 30 shown", "none: no match"]
    assert max(max(trace.x) for trace in marks_of(figure)) < 120
    assert len(figure.layout.xaxis.tickvals) < 30, "labels do not touch"
    assert figure.layout.xaxis.ticktext[0] == "a 29", "it begins at the first match"


def test_picture_says_what_it_leaves_out():
    n = MOST_COMPARED + 5
    many = pd.DataFrame({"match": range(n), "variable": "a", "position": 0})
    none = many.head(0)
    scene = comparison_scene(["a1"], {"many": many, "none": none}, totals={"many": n, "none": 0})
    assert [panel.label for panel in scene.panels] == [
        f"many: {n} matches, the first {MOST_COMPARED} shown",
        "none: no match",
    ]


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ({}, "give a dict of results by name"),
        ([1], "give a dict of results by name"),
        ({"own": 1}, "'own' is a int, not the result of match"),
    ],
)
def test_mistakes_are_named(found, message):
    with pytest.raises(cep.CepError, match=message):
        compare(found)


def test_results_of_frames_of_different_sizes_are_not_compared():
    found = {n: stream_of("a1 b1 c1"[: 3 * n]).cep.match("PATTERN SEQ(a x)", **COLUMNS) for n in (1, 3)}
    with pytest.raises(cep.CepError, match=r"different frames; their numbers of events are \{1: 1, 3: 3\}"):
        compare(found)


def test_counts_grow_with_the_window():
    rng = np.random.default_rng(7)
    n = 3000
    stream = pd.DataFrame(
        {"ts": np.arange(n), "type": rng.choice(list("abc"), n), "price": rng.uniform(0, 100, n)}
    )

    def counts(engine):
        text = QUERY + " WHERE b.price > a.price WITHIN "
        return [stream.cep.match(f"{text}{w}", engine=engine, **COLUMNS).count() for w in (10, 100)]

    assert counts("auto") == counts("search") == sorted(counts("auto"))
