"""Figures in few bytes: the JSON says the same, and Chromium draws the same picture from it."""

from __future__ import annotations

import base64
import json
import random
import re
from pathlib import Path

import numpy as np
import pandas as pd
import plotly
import plotly.graph_objects as go
import pytest

from cepkit.datasets import load_sample
from cepkit.plots.charts import facets, sweep_figure
from cepkit.plots.lean import LeanFigure, lean
from papers.hybrid_parallel.drawings import protocol_figure
from papers.hybrid_parallel.protocol import protocol_steps
from tests.support import lab
from tests.support.sizes import seeds


def numbers(values):
    """Return what a list or a typed array of plotly holds."""
    if isinstance(values, dict):
        found = np.frombuffer(base64.b64decode(values["bdata"]), values["dtype"])
        return found.reshape([int(n) for n in values["shape"].split(",")]) if "shape" in values else found
    return np.array([np.nan if value is None else value for value in values], float)


@pytest.mark.parametrize("seed", seeds(6, 20))
def test_numbers_are_as_precise_as_a_picture(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 50))
    offset = rng.choice([0.0, 1.0, 1.7e12])
    values = offset + rng.normal(size=n) * 10.0 ** rng.integers(-3, 6)
    values = np.round(values) if rng.random() < 0.3 else values
    given = values.tolist() if rng.random() < 0.5 else values
    [trace] = LeanFigure([go.Scatter(y=given)]).to_dict()["data"]
    got = numbers(trace["y"])
    np.testing.assert_allclose(got, values, rtol=0, atol=1e-5 * np.ptp(values))
    if (values == np.trunc(values)).all():
        np.testing.assert_array_equal(got, values)


def test_times_since_1970_keep_their_milliseconds():
    values = 1.7e12 + np.arange(50) + 0.5
    [trace] = LeanFigure([go.Scatter(x=values)]).to_dict()["data"]
    np.testing.assert_array_equal(numbers(trace["x"]), values)


def test_gaps_and_columns_stay():
    columns = np.array([[1.7e12 + 0.5, 0.25], [1.7e12 + 1.5, 0.5]])
    figure = LeanFigure([go.Scatter(x=[1, 2, None, 4, 5.5], customdata=columns, text=["a", "b"])])
    [trace] = figure.to_dict()["data"]
    np.testing.assert_array_equal(numbers(trace["x"]), [1, 2, np.nan, 4, 5.5])
    np.testing.assert_array_equal(numbers(trace["customdata"]), columns)
    assert trace["text"] == ["a", "b"]


def test_what_one_trace_lacks_is_not_shared():
    traces = [{"type": "scatter", "mode": "lines"}, {"type": "scatter", "mode": "lines"}, {"type": "scatter"}]
    made = lean({"data": traces})
    assert made["data"] == [{"type": "scatter", "mode": "lines"}] * 2 + [{"type": "scatter"}]


def test_an_exception_keeps_its_own():
    traces = [{"type": "bar", "width": width, "hoverinfo": "skip"} for width in (1, 2, 2, 2)]
    made = lean({"data": traces})
    assert made["data"] == [{"type": "bar", "width": 1}, *[{"type": "bar"}] * 3]
    assert made["layout"]["template"]["data"] == {"bar": [{"type": "bar", "width": 2, "hoverinfo": "skip"}]}


def test_a_template_of_ones_own_is_kept():
    figure = LeanFigure([go.Scatter(y=[1], mode="lines")] * 2, {"template": "plotly_white"})
    of_data = figure.to_dict()["layout"]["template"]["data"]
    assert of_data["scatter"][0]["fillpattern"] and of_data["scatter"][0]["mode"] == "lines"


def sweeps(seed, columns):
    draw = random.Random(seed)
    rows = pd.DataFrame(
        [
            {"data": of, "who": who, "how": how, "x": x, "y": 10 ** draw.uniform(0, 2)}
            for of in "uv"
            for who in ("a", "b", "c")
            for how in ("one", "two")
            for x in (5.0, 10.0, 20.0)
        ]
    )
    looks = {"y_title": "speed-up", "log_y": draw.random() < 0.5, "reference": 1.0}
    panels = facets(rows, "data", "x", "y", **looks)
    if draw.random() < 0.5:
        panels += facets(rows[rows["how"] == "one"], "data", "x", "y", **looks)
    return sweep_figure(panels, series="who", variant="how", columns=columns, title="sweeps")


def peaks():
    define = {"rise": "price > prev(price)", "drop": "price < prev(price)"}
    return (
        load_sample("peaks")
        .cep.match("rise+ drop+ rise", define=define, partition_by="symbol", order_by="ts")
        .plot()
    )


FIGURES = {
    "sweeps": lambda: sweeps(1, 2),
    "sweeps in three columns": lambda: sweeps(4, 3),
    "protocol": lambda: protocol_figure(protocol_steps("C1"), title="C1", first=3),
    "timeline": peaks,
}


@pytest.mark.parametrize("name", FIGURES)
def test_it_is_smaller_and_comes_back_as_it_was(name):
    figure = FIGURES[name]()
    full, small = go.Figure(figure.data, figure.layout, figure.frames).to_json(), figure.to_json()
    assert len(small) < 0.93 * len(full)
    again = LeanFigure(json.loads(small))
    assert json.loads(again.to_json()) == json.loads(small)


# --- the picture

DRAW = """async figure => {
    let last = 1;  // the names of clip paths are random
    Math.random = () => (last = (last * 16807) % 2147483647) / 2147483647;
    const element = document.createElement('div');
    element.style.width = '1000px';
    document.body.replaceChildren(element);
    await Plotly.newPlot(element, figure.data, figure.layout);
    if (figure.frames) {
        await Plotly.addFrames(element, figure.frames);
        await Plotly.animate(element, ['1'], {mode: 'immediate', transition: {duration: 0}});
    }
    return [...element.querySelectorAll('svg.main-svg')].map(drawn => drawn.outerHTML).join('');
}"""


@pytest.fixture(scope="module")
def page():
    script = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"
    with lab.browser() as opened:
        opened.page.set_content("<body></body>")
        opened.page.add_script_tag(content=script.read_text(encoding="utf-8"))
        yield opened.page


NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def parts(drawn):
    """Return the elements of a picture, attributes in order, without numbers; and the numbers."""
    drawn = drawn.replace("scale(1,1)", "")  # before or behind another, as the browser has time
    elements = [" ".join(sorted(re.findall(r'[\w:-]+="[^"]*"', part))) for part in drawn.split("<")]
    return [NUMBER.sub("n", one) for one in elements], [
        [float(n) for n in NUMBER.findall(one)] for one in elements
    ]


@pytest.mark.browser
@pytest.mark.parametrize("name", FIGURES)
def test_the_picture_is_the_same(page, name):
    figure = FIGURES[name]()
    full = go.Figure(figure.data, figure.layout, figure.frames)
    before, after = (parts(page.evaluate(DRAW, json.loads(of.to_json()))) for of in (full, figure))
    assert after[0] == before[0] and len(after[0]) > 50
    for one, other in zip(before[1], after[1], strict=True):
        assert one == pytest.approx(other, abs=0.05)  # pixels
