"""Figures of plotly as SVG without a browser: where things are, and that odd figures draw something."""

from __future__ import annotations

import base64
import io
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest
from PIL import Image

from cepkit.datasets import load_sample
from cepkit.plots import lean
from cepkit.plots.drawing import WIDTH, Picture, lines_svg, png, size_of, stacked, table_svg
from cepkit.plots.lean import PLOTLY, LeanFigure
from cepkit.plots.still_figure import figure_svg
from tests.support.sizes import seeds

SVG = "{http://www.w3.org/2000/svg}"
# A plot of 100 pixels per unit: 10 to 410 from left to right, 310 to 10 from bottom to top.
PLAIN = {
    "template": "none",
    "width": 420,
    "height": 320,
    "margin": {"l": 10, "r": 10, "t": 10, "b": 10},
    "xaxis": {"range": [0, 4], "visible": False},
    "yaxis": {"range": [0, 3], "visible": False},
    "showlegend": False,
}


def drawn(*traces, **layout):
    return figure_svg(go.Figure(list(traces), PLAIN | layout).to_dict())


def paths(svg, **attributes):
    """Return the paths with these attributes."""
    found = [path for path in ET.fromstring(svg).iter(f"{SVG}path")]
    return [path.get("d") for path in found if all(path.get(k) == v for k, v in attributes.items())]


def texts(svg):
    return ["".join(text.itertext()) for text in ET.fromstring(svg).iter(f"{SVG}text")]


def test_lines_are_where_their_values_are():
    line = go.Scatter(x=[0, 1, 2, 4], y=[0, 3, None, 1.5], mode="lines", line={"color": "#123456"})
    assert paths(drawn(line), stroke="#123456") == ["M10,310L110,10M410,160"]
    area = go.Scatter(x=[0, 1, 1], y=[0, 0, 1], mode="lines", fill="toself", fillcolor="#123456")
    assert paths(drawn(area), fill="#123456") == ["M10,310L110,310L110,210Z"]


def test_axes_of_logarithms_dates_and_names():
    log = {"type": "log", "range": [0, 3], "visible": False}
    line = go.Scatter(x=[0, 4], y=[10, 100], mode="lines", line={"color": "#123456"})
    assert paths(drawn(line, yaxis=log), stroke="#123456") == ["M10,210L410,110"]
    days = {"range": ["2024-01-01", "2024-01-05"], "visible": False}
    line = go.Scatter(x=pd.to_datetime(["2024-01-02", "2024-01-04"]), y=[0, 0], line_color="#123456")
    assert paths(drawn(line.update(mode="lines"), xaxis=days), stroke="#123456") == ["M110,310L310,310"]
    bars = go.Bar(x=["a", "b", "c", "d"], y=[1, 2, 3, 0], marker={"color": "#123456"}, width=1)
    names = {"visible": False}
    [boxes] = paths(drawn(bars, xaxis=names), fill="#123456")
    assert boxes.startswith("M10,310V210H110V310ZM110,310V110H210")


def test_bars_side_by_side_and_in_one_place():
    one, two = (go.Bar(x=[1, 2], y=[1, 2], marker={"color": colour}) for colour in ("#111111", "#222222"))
    first, second = (paths(drawn(one, two), fill=colour)[0] for colour in ("#111111", "#222222"))
    assert first.startswith("M70,310V210H110V310Z") and second.startswith("M110,310V210H150V310Z")
    over = paths(drawn(one, two, barmode="overlay"), fill="#222222")[0]
    assert over.startswith("M70,310V210H150V310Z")


def test_heat_maps_and_marks():
    cells = go.Heatmap(
        x=[0.5, 1.5], y=[0.5], z=[[0, 1]], colorscale=[[0, "#000000"], [1, "#ffffff"]], showscale=False
    )
    svg = drawn(cells)
    assert paths(svg, fill="rgba(0,0,0,1)") == ["M10,310H110V210H10Z"]
    assert paths(svg, fill="rgba(255,255,255,1)") == ["M110,310H210V210H110Z"]
    marks = go.Scatter(
        x=[1], y=[1], mode="markers", marker={"symbol": "square", "size": 10, "color": "#111111"}
    )
    assert paths(drawn(marks), fill="#111111") == ["M105,205H115V215H105Z"]
    assert paths(drawn(marks.update(marker_symbol="square-open")), stroke="#111111", fill="none")


def test_words_are_read_as_plotly_reads_them():
    svg = drawn(title="a &lt; b<br>c", annotations=[{"text": "10<sup>3</sup>", "x": 1, "y": 1}])
    assert {"a < b", "c", "103"} <= set(texts(svg)) and 'baseline-shift="super"' in svg
    named = [go.Scatter(x=[1], y=[1], name=name) for name in ("one", "two & three")]
    assert {"one", "two & three"} <= set(texts(drawn(*named, showlegend=True)))
    assert not texts(drawn(*named))


def test_what_cannot_be_drawn_is_left_out():
    svg = figure_svg(go.Figure([go.Pie(values=[1, 2]), go.Scatter(x=[1, 2], y=[1, 2])]).to_dict())
    assert ET.fromstring(svg).get("aria-label") == "figure"
    assert figure_svg({"data": [], "layout": {}}).startswith("<svg")
    ET.fromstring(drawn(go.Scatter(x=[], y=[]), go.Bar(x=[], y=[])))


def random_trace(rng, n):
    values = rng.choice([rng.normal(size=n), 10.0 ** rng.uniform(-9, 9, n), np.full(n, np.nan), np.zeros(n)])
    along = {
        "numbers": rng.normal(size=n),
        "names": [f"n{k % 3}<&" for k in range(n)],
        "dates": pd.Timestamp("2024-02-28 23:59")
        + pd.to_timedelta(np.sort(rng.uniform(0, 1e6, n)), unit="s"),
    }[str(rng.choice(["numbers", "names", "dates"]))]
    kind = rng.choice(["scatter", "bar", "heatmap"])
    if kind == "scatter":
        mode = str(rng.choice(["lines", "markers", "lines+markers+text", "none"]))
        fill = [None, "toself"][rng.integers(2)]
        return go.Scatter(x=along, y=values, mode=mode, text=["t"] * n, fill=fill, name="a<b")
    if kind == "bar":
        is_wide = bool(rng.integers(2))
        x, y = (values, along) if is_wide else (along, values)
        return go.Bar(
            x=x,
            y=y,
            orientation="h" if is_wide else "v",
            marker_pattern_shape=str(rng.choice(["", "/", "."])),
        )
    return go.Heatmap(z=rng.normal(size=(2, n)) if n else None)


@pytest.mark.parametrize("seed", seeds(12, 60))
def test_any_figure_is_drawn(seed):
    """Whatever the values are, the picture can be read as XML, and has numbers only."""
    rng = np.random.default_rng(seed)
    traces = [random_trace(rng, int(rng.choice([0, 1, 2, 30]))) for _ in range(rng.integers(1, 4))]
    axis = {
        "type": [None, "log", "linear"][rng.integers(3)],
        "autorange": [None, "reversed"][rng.integers(2)],
    }
    figure = LeanFigure(traces, {"barmode": str(rng.choice(["group", "overlay"]))})
    figure.update_layout(yaxis=axis, title="t")
    with np.errstate(all="ignore"):
        svg = figure.svg()
    root = ET.fromstring(svg)
    for element in root.iter():
        for name, value in element.attrib.items():
            if name in ("d", "x", "y", "width", "height"):
                assert not re.search(r"nan|inf", value), (element.tag, name, value)
    assert figure.svg() == svg


def test_a_figure_carries_an_image(monkeypatch):
    monkeypatch.setattr("plotly.io.renderers.default", "plotly_mimetype")
    outputs = []
    monkeypatch.setattr("IPython.display.display", lambda data, **more: outputs.append((data, more)))
    figure = LeanFigure([go.Scatter(y=[1, 2])], {"template": "none", "height": 300})
    figure._ipython_display_()
    figure.show()
    (data, more), other = outputs
    assert other == (data, more) and set(data) == {PLOTLY, "image/png"}
    image = Image.open(io.BytesIO(base64.b64decode(data["image/png"])))
    assert image.size == (860, 300) and more["metadata"] == {"image/png": {"width": 860}}


_SHOWN = """
import sys
from ipykernel.zmqshell import ZMQInteractiveShell
ZMQInteractiveShell.instance()
import plotly.graph_objects as go
from cepkit.plots.lean import LeanFigure
figure = LeanFigure([go.Scatter(y=[1.5, None, 2.5, 3.5, 4.25]), go.Bar(x=["a", "b"], y=[1, 2])])
mine = figure._repr_mimebundle_()
was_quick = "nbformat" not in sys.modules
import plotly.io
plotly.io.renderers  # plotly's own choice
print(was_quick, mine == figure._repr_mimebundle_(), sorted(mine[0]))
"""


def test_a_notebook_gets_what_plotly_shows_without_its_slow_imports():
    pytest.importorskip("ipykernel")
    names = [*lean._OTHER_RENDERERS]
    environment = {name: value for name, value in os.environ.items() if name not in names}
    done = subprocess.run([sys.executable, "-c", _SHOWN], env=environment, text=True, capture_output=True)
    assert done.stdout == f"True True {sorted([PLOTLY, 'image/png'])}\n", done.stderr


def test_bands_of_matches_keep_their_hue():
    define = {"rise": "price > prev(price)", "drop": "price < prev(price)"}
    matches = load_sample("peaks").cep.match(
        "rise+ drop", define=define, partition_by="symbol", order_by="ts"
    )
    figure = matches.plot().svg()
    with (
        Image.open(io.BytesIO(png(figure, 1))) as small,
        Image.open(io.BytesIO(png(figure, 1, is_small=False))) as full,
    ):
        colours = full.convert("RGB").getcolors(100_000)
        _, band = max((n, colour) for n, colour in colours if max(colour) - min(colour) > 15)
        pixels = [np.asarray(image.convert("RGB")).astype(int) for image in (full, small)]
    assert (pixels[1][(pixels[0] == band).all(axis=2)] == band).all()
    greys = np.ptp(pixels[0], axis=2) < 8  # of texts and of grids, which may lie between two pixels
    assert (np.ptp(pixels[1], axis=2)[greys] < 16).mean() > 0.999


def test_a_picture_in_any_letters_has_the_same_bytes_again():
    picture = lines_svg(["naïve Größe ≥ 3 µs → Δ", "日本語"])
    assert png(picture) == png(picture)
    blank, words = (Image.open(io.BytesIO(png(lines_svg([text])))).convert("RGBA") for text in ("", "Δ ≥ ö"))
    assert blank.getextrema()[0] == (255, 255) and words.getextrema()[0][0] < 120
    assert blank.getextrema()[3] == words.getextrema()[3] == (255, 255)  # paper


def test_tables_and_lines_fit():
    rows = [["x" * 200, k, "y" * 90] for k in range(40)]
    table = table_svg(["a", "b", "c"], rows, caption="many", right=[1])
    assert "16 more rows" in texts(table) and size_of(table)[0] == WIDTH
    both = stacked([table, lines_svg(["a"] * 3, is_code=True), Picture(table)], "all")
    assert size_of(both)[1] > 2 * size_of(table)[1] and len(list(ET.fromstring(both).iter(f"{SVG}svg"))) == 4
    assert lines_svg([]).startswith("<svg") and table_svg([], []).startswith("<svg")
