"""Scenes: plotly, stills and the browser get the same marks, at the same places and in the same words."""

import re

import numpy as np
import pytest

from cepkit.plots import theme
from cepkit.plots.scene import (
    Item,
    Look,
    PlotAxis,
    PlotPanel,
    PlotScene,
    lanes,
    look_of,
    plotly_json,
    scene_figure,
    scene_svg,
    sent,
    span,
)

TIMES = PlotAxis(0.0, 4000.0, "time (s)", 1000.0)


def scene_of(*items: Item, **settings) -> PlotScene:
    names = settings.pop("names", ("first", "second"))
    panel = PlotPanel(x=TIMES, y=lanes(names), height=60, items=items)
    return PlotScene(title="<b>t</b>", panels=(panel,), **settings)


def bars(**settings) -> Item:
    x, y = np.array([0.0, 1000.0]), np.array([0.4, 1.4])
    return Item(kind="bars", look=Look("a", 1), x=x, x1=x + 500, y=y, y1=y - 0.8, **settings)


@pytest.mark.parametrize("kind", ["bars", "cells", "line", "points", "texts"])
def test_every_kind_of_mark_is_drawn_everywhere(kind):
    x, values = np.array([0.0, 1000.0, 2000.0]), np.array([0.0, 1.0, np.nan])
    item = {
        "bars": bars(),
        "cells": Item(kind="cells", look=Look("a", 1), x=x, y=np.array([[0.5, np.nan], [0.0, 1.0]])),
        "line": Item(kind="line", look=Look("a", 1, dash="dot"), x=x, y=values),
        "points": Item(kind="points", look=look_of("a", 1), x=x, y=values),
        "texts": Item(kind="texts", look=Look("a"), x=x[:2], y=values[:2], texts=["one", "two"]),
    }[kind]
    scene = scene_of(item)
    (trace,) = plotly_json(scene)["data"]
    received = sent(scene)["panels"][0]["items"][0]
    assert np.frombuffer(received["x"]).tolist() == item.x.tolist()
    assert received["look"]["colour"] == item.look.colour and received["pick"] is False
    assert trace["xaxis"] == "x" and len(scene_figure(scene).data) == 1
    drawn = scene_svg(scene)
    assert "one" in drawn if kind == "texts" else theme.PALETTE[1] in drawn or "rgba(230,159,0" in drawn


def test_words_have_the_fields_of_each_mark():
    fields = {"name": ["<x>", "y"], "n": np.array([3.0, 4.5]), "unit": "%{x}"}
    scene = scene_of(bars(words="{name}: {n} {unit}", fields=fields))
    (trace,) = plotly_json(scene)["data"]
    assert trace["hovertemplate"] == "%{hovertext}: %{customdata[0]:,.4~g} %&#123;x}<extra></extra>"
    assert trace["hovertext"] == ["&lt;x&gt;", "y"] and trace["customdata"].tolist() == [[3.0], [4.5]]
    item = sent(scene)["panels"][0]["items"][0]
    assert item["words"] == "{name}: {n} {unit}" and item["fields"]["name"] == ["<x>", "y"]


def test_titles_and_names_are_shown_as_they_are():
    scene = scene_of(bars(), names=("<i>", "b"), legend=(("bars", Look("<u>", 1)),), note="<s>")
    for text in (scene_figure(scene).to_json(), scene_svg(scene)):
        assert not re.search("<[bius]>", text)


def test_panels_with_one_axis_share_its_ticks():
    other = PlotAxis(0.0, 1.0, "share")
    panels = [PlotPanel(x=axis, y=other, height=50, items=()) for axis in (TIMES, TIMES, other)]
    layout = plotly_json(PlotScene(title="", panels=tuple(panels)))["layout"]
    shown = [layout[f"xaxis{n}"]["showticklabels"] for n in ("", "2", "3")]
    assert shown == [False, True, True] and layout["xaxis2"]["matches"] == "x"
    assert layout["xaxis2"]["tickvals"][:2] == [0.0, 500.0] and layout["xaxis2"]["ticktext"][1] == "0.5"
    ends = [layout[f"yaxis{n}"]["domain"] for n in ("", "2", "3")]
    assert ends[0][1] == 1 and ends[2][0] == 0 and ends[0][0] > ends[1][1] > ends[1][0] > ends[2][1]


def test_ranges_and_looks():
    assert span([]) == span([np.nan, 0.0]) == (0.0, 1.06) and span([2.0, np.inf]) == (0.0, 2.12)
    assert lanes([]).low == 0.5 and lanes("ab").low == 1.5 and lanes("ab").high == -0.5
    looks = [look_of(name, place) for place, name in enumerate("abcdefgh")]
    assert looks[0].colour == looks[7].colour and looks[0].symbol != looks[7].symbol
    assert look_of(".", -1).colour == -1
