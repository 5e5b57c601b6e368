"""A name has one colour and one symbol in every picture of a query: by its place in the pattern."""

from __future__ import annotations

import re

import pandas as pd
import pytest

from cepkit.cache import shipped
from cepkit.plots import theme
from cepkit.plots.scene import colour_of
from cepkit.results.views import compare

# The names rise in another order than they stand in the pattern, and the types in a third one.
NAMES = ("zed", "bee", "ant", "cat")
EVENTS = pd.DataFrame({"t": range(24), "kind": list("sqnrp") * 4 + list("spqr")})
SEQUENCE = {"query": "PATTERN SEQ(s zed, !n fly, p+ bee[], q ant, r cat) WITHIN 9", "event_type": "kind"}
ROWS = {"query": "zed bee+ ant . cat", "define": {
    "zed": "kind == 's'", "bee": "kind != 's'", "ant": "kind == 'r'", "cat": "t > 0"
}}  # fmt: skip
WANTED = {name: theme.Style(theme.PALETTE[k], theme.SYMBOLS[k]) for k, name in enumerate(NAMES)}


def styles_of(figure):
    return {
        trace.name: theme.Style(trace.marker.color, trace.marker.symbol)
        for trace in figure.data
        if trace.type == "scatter" and trace.mode == "markers" and trace.name in NAMES
    }


@pytest.fixture(params=[SEQUENCE, ROWS], ids=["sequence", "regex"])
def matches(request):
    found = EVENTS.cep.match(**request.param, order_by="t")
    assert found.count()
    return found


def test_one_name_has_one_colour_and_one_symbol(matches):
    looks = {look.name: look for _, look in matches.view()._still_scene().legend}
    of_lineage = {name: theme.Style(colour_of(looks[name]), looks[name].symbol) for name in NAMES}
    assert styles_of(matches.plot()) == styles_of(compare({"all": matches})) == of_lineage == WANTED


def test_stills_have_the_colours_of_their_figures(matches):
    svg = matches.view()._still()
    assert {colour for colour in theme.PALETTE if colour in svg} == {
        style.colour for style in WANTED.values()
    }


def test_lanes_of_the_explorer_have_the_colours_of_their_variables():
    explorer = EVENTS.cep.explore(**SEQUENCE, order_by="t").wait()
    timeline = explorer.board.timeline
    of_lane = dict(zip(timeline.lane_names, timeline.lane_colours, strict=True))
    assert of_lane == {"s": 0, "n": -1, "p": 1, "q": 2, "r": 3}  # no row of a match is an n
    assert all(theme.PALETTE[place] in timeline._still() for place in (0, 1, 2, 3))


def test_browsers_have_the_palette():
    sheet = shipped("widgets", "common.css").read_text()
    light = dict(re.findall(r"--(a\d|an): (#\w+);", sheet.partition("}")[0]))
    assert light == {**{f"a{k}": colour for k, colour in enumerate(theme.PALETTE)}, "an": theme.INK}
