"""Pictures of runs of agents, lanes, busy shares and lengths of queues, and of sweeps."""

import json
import random
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import cepkit as cep
from cepkit.errors import CepError, ColumnNotFoundError
from cepkit.parallel.plots import MOST_ACTIONS, busy_scene, lengths_scene, occupancy, run_end, threads_scene
from cepkit.parallel.trace import LENGTHS
from cepkit.plots import theme
from cepkit.plots.charts import PRINTED_COLOUR, SweepPanel, facets, sweep_figure
from cepkit.plots.scene import LANE, scene_figure, scene_svg
from cepkit.plots.theme import PALETTE
from tests.support.sizes import seeds
from tests.support.traces import EXAMPLE, busy_trace, drawn, trace_of
from tests.support.traces import row as row_of


def scene_bars(scene) -> list:
    return [item for item in scene.panels[0].items if item.kind == "bars"]


def subtitle(figure) -> str:
    return figure.layout.title.subtitle.text or ""


# --- lanes


@pytest.mark.parametrize("seed", seeds(4, 8))
def test_every_action_is_a_bar(seed):
    trace, rows, _ = drawn(seed)
    kinds = {"source": -1} | {agent: a for a, agent in enumerate(trace.agents)}
    shown = [
        (int(name) if name != "source" else -1, kinds[kind.partition(",")[0]], start, end)
        for item in scene_bars(threads_scene(trace, most=10**6))
        for kind in [item.look.name]
        for name, start, end in zip(item.fields["thread"], item.x, item.x1, strict=True)
    ]
    wanted = [(row["thread"], row["agent"], row["start"], row["end"]) for row in rows]
    wanted = [row for row in wanted if row[3] > 0.0 and row[2] < trace.makespan]  # the others have no width
    assert np.allclose(sorted(shown), sorted(wanted)) and len(shown) == len(wanted)


def test_bars_have_the_colour_of_the_agent_and_the_pattern_of_the_work():
    scene = threads_scene(EXAMPLE)
    looks = {
        (item.look.name.partition(",")[0], item.look.pattern): item.look.colour for item in scene_bars(scene)
    }
    assert looks == {("source", "."): -1, ("b", ""): 0, ("b", "x"): 0, ("c+", ""): 1, ("c+", "/"): 1}
    assert [look.name for _, look in scene.legend] == [
        "b", "c+", "delivers events", "takes events", "takes partial matches", "removes old items",
    ]  # fmt: skip
    figure = scene_figure(scene)
    assert list(figure.layout.yaxis.ticktext) == ["source", "0 · b", "1 · c+"]
    drawn_bars = [trace for trace in figure.data if trace.type == "bar" and trace.base is not None]
    colours = [bar.marker.color for bar in drawn_bars]
    assert colours == [theme.INK, *[PALETTE[0]] * 2, *[PALETTE[1]] * 2]
    assert drawn_bars[1].hovertemplate.startswith("thread %{hovertext}: b, takes events, from ")


@pytest.mark.parametrize("seed", seeds(4, 8))
def test_areas_in_lanes_are_the_time_spent(seed):
    trace, rows, _ = drawn(seed)
    scene = threads_scene(trace, most=0, n_bins=random.Random(seed).choice([1, 3, 40]))
    spent, areas = {}, {}
    for row in rows:
        name = "source" if row["agent"] < 0 else trace.agents[row["agent"]]
        spent[name] = spent.get(name, 0.0) + row["end"] - row["start"]
    for item in scene_bars(scene):
        name = item.look.name.partition(",")[0]
        areas[name] = areas.get(name, 0.0) + float(((item.x1 - item.x) * (item.y - item.y1)).sum()) / LANE
        middle = np.round((item.y + item.y1) / 2)
        assert (np.maximum(item.y - middle, middle - item.y1) <= LANE / 2 + 1e-5).all()
    for name, time in spent.items():
        assert areas.get(name, 0.0) == pytest.approx(time, rel=1e-3, abs=1e-3)
    assert set(areas) <= set(spent)


def test_a_source_that_takes_no_time_has_no_lane():
    at_once = trace_of([row_of(-1, -1, 0, 0.0, 0.0), row_of(0, 0, 1, 0.0, 90.0)])
    assert threads_scene(at_once, most=0, n_bins=3).panels[0].y.names == ("0 · b", "1")
    assert threads_scene(EXAMPLE).panels[0].y.names[0] == "source"


def test_many_actions_are_drawn_in_bins_and_stay_small():
    few, many = busy_trace(4, 50, 3), busy_trace(24, 600, 6)
    assert len(many.done.start) > MOST_ACTIONS >= len(few.done.start)
    assert threads_scene(few).note == "simulated"
    figure = scene_figure(threads_scene(many, title="24 threads"))
    assert len(figure.to_json()) < 2_000_000
    assert subtitle(figure).startswith("simulated, height: part of the time, in ")
    assert figure.to_json() == scene_figure(threads_scene(many, title="24 threads")).to_json()


def test_clocks_of_measured_and_simulated_runs():
    figure = scene_figure(threads_scene(EXAMPLE, title="<b>x</b>"))
    assert figure.layout.xaxis.title.text == "virtual time since the start of the run (ns)"
    assert (figure.layout.title.text, subtitle(figure)) == ("&lt;b&gt;x&lt;/b&gt;", "simulated")
    figure = scene_figure(threads_scene(replace(EXAMPLE, measured=True)))
    assert figure.layout.xaxis.title.text == "time since the start of the run (ns)"
    assert subtitle(figure) == "measured"


def test_runs_in_which_nothing_was_done():
    nothing = trace_of([], n_threads=3)
    assert (
        threads_scene(nothing).panels[0].y.names == busy_scene(nothing).panels[0].y.names == ("0", "1", "2")
    )
    assert threads_scene(nothing).empty == "no thread did anything"
    assert lengths_scene(nothing).empty == "All queues and buffers were empty."
    for scene in (threads_scene(nothing), busy_scene(nothing), lengths_scene(nothing)):
        assert scene_figure(scene).svg().startswith("<svg")


def test_names_are_shown_as_they_are():
    trace = trace_of([{"thread": 0, "agent": 0, "action": 1, "start": 0, "end": 1}], agents=("<i>",))
    for scene in (threads_scene(trace), busy_scene(trace), lengths_scene(trace)):
        assert "&lt;i&gt;" in [drawn_trace.name for drawn_trace in scene_figure(scene).data]
        assert "<i>" not in scene_figure(scene).to_json() + scene_svg(scene)


def test_busy_shares():
    scene = busy_scene(EXAMPLE)
    assert [item.x1.tolist() for item in scene_bars(scene)] == [[10.0], [40.0], [50.0]]
    assert scene.panels[0].notes == ("10 %", "40 %", "50 %")
    assert "mean of the threads 45 %" in scene.panels[0].x.label
    assert scene.panels[0].items[-1].x.tolist() == [45.0, 45.0]


def test_a_run_has_the_pictures_of_its_trace():
    events = pd.DataFrame({"kind": list("abcabcab") * 4})
    run = cep.simulate(events, "PATTERN SEQ(a x, b y) WITHIN 6 events", event_type="kind", trace=True)
    titles = [run.plot(what).layout.title.text for what in ("threads", "busy", "lengths")]
    assert titles == [run.engine] * 3
    with pytest.raises(CepError, match=r"plot: 'thread' is not known\. Did you mean 'threads'"):
        run.plot("thread")


# --- lengths


@pytest.mark.parametrize("seed", seeds(5, 10))
def test_lines_of_lengths_are_those_of_their_bins(seed):
    trace, *_ = drawn(seed)
    end = run_end(trace) or 1.0
    low, high = (0.1 * end, 0.7 * end) if seed % 2 else (0.0, end)
    occupied = occupancy(trace, low, high, 7)
    scene = lengths_scene(trace, (low, high), n_bins=7)
    for k in range(len(LENGTHS)):
        for a, line in enumerate(scene.panels[k].items):
            for name in ("mean", "least", "greatest"):
                values = line.y if name == "mean" else getattr(line, name)
                assert np.array_equal(values, getattr(occupied, name)[k, a])
            assert np.allclose(line.x, (occupied.edges[1:] + occupied.edges[:-1]) / 2)
            assert scene.panels[k].y.high >= line.greatest.max()


def test_many_readings_are_means_with_the_same_total():
    trace = busy_trace(3, 2000, 2, seed=4)
    scene = lengths_scene(trace)
    mean = trace.agents_frame()["mean_partial_buffer"].tolist()
    assert [line.y.mean() for line in scene.panels[3].items] == pytest.approx(mean, rel=1e-5)
    assert len({look.dash for _, look in scene.legend}) == 2
    assert len(scene_figure(scene).to_json()) < 200_000


# --- sweeps


def sweep_rows() -> pd.DataFrame:
    rows = [
        (window, engine, pattern, window * factor)
        for engine, factor in (("hybrid", 2.0), ("RIP", 1.0))
        for pattern in ("SEQ", "Kleene")
        for window in (50, 200, 100)
    ]
    return pd.DataFrame(rows, columns=["window", "engine", "pattern", "speedup"])


def drawn_lines(figure) -> list:
    return [of for of in figure.data if of.type == "scatter" and of.x is not None and of.x[0] is not None]


def test_lines_of_a_sweep():
    panel = SweepPanel(
        sweep_rows(), "window", "speedup", "stocks", "window (s)", "speed-up", log_y=True, reference=1
    )
    figure = sweep_figure(panel, series="engine", variant="pattern", measured=False, title="Figure 6")
    lines = drawn_lines(figure)
    assert [of.name for of in lines] == ["hybrid, SEQ", "hybrid, Kleene", "RIP, SEQ", "RIP, Kleene"]
    assert lines[0].x.tolist() == [50, 100, 200] and lines[0].y.tolist() == [100, 200, 400]
    colours, dashes = [of.line.color for of in lines], [of.line.dash for of in lines]
    assert colours[0] == colours[1] != colours[2] == colours[3]
    assert dashes[0] == dashes[2] != dashes[1] == dashes[3]
    assert len({of.marker.symbol for of in lines}) == 4
    assert (figure.layout.title.text, subtitle(figure)) == ("Figure 6", "simulated")
    assert figure.layout.xaxis.title.text == "window (s)" and figure.layout.yaxis.type == "log"
    assert list(figure.layout.xaxis.tickvals) == [50, 100, 200]
    assert figure.layout.shapes[0].y0 == 1 and "1" in figure.layout.yaxis.ticktext


def test_six_panels_share_one_legend():
    panels = [SweepPanel(sweep_rows(), "window", "speedup", f"panel {p}") for p in range(6)]
    figure = sweep_figure(panels, series="engine", variant="pattern", measured=True)
    assert [of.text for of in figure.layout.annotations] == [f"panel {p}" for p in range(6)]
    assert len({of.xaxis for of in drawn_lines(figure)}) == 6 and len(drawn_lines(figure)) == 24
    assert sum(of.showlegend for of in drawn_lines(figure)) == 4
    bottoms = {figure.layout[f"yaxis{p}" if p > 1 else "yaxis"].domain[0] for p in range(1, 7)}
    assert len(bottoms) == 2 and figure.layout.title.text == "measured"
    said = [figure.layout[f"yaxis{p}" if p > 1 else "yaxis"].title.text for p in range(1, 7)]
    assert said == ["speedup", None, None] * 2  # once in a row, not over the panel to the left


def test_facets_of_three_sweeps_are_six_panels():
    rows = pd.concat([sweep_rows().assign(data="stocks"), sweep_rows().assign(data="sensors", speedup=1.0)])
    sweeps = [
        facets(rows.rename(columns={"window": x}), "data", x, "speedup", title=f"by {x}", log_y=True)
        for x in ("window", "cores", "length")
    ]
    figure = sweep_figure([panel for row in zip(*sweeps, strict=True) for panel in row], series="engine")
    titles = [of.text for of in figure.layout.annotations]
    assert titles == [
        f"{data} by {x}" for data in ("stocks", "sensors") for x in ("window", "cores", "length")
    ]
    assert {tuple(of.y) for of in drawn_lines(figure) if of.xaxis in ("x4", "x5", "x6")} == {(1.0, 1.0, 1.0)}
    with pytest.raises(ColumnNotFoundError, match="facets: column 'dat' not found"):
        facets(rows, "dat", "window", "speedup")


def test_points_of_equal_x_are_averaged_and_nulls_break_the_line():
    rows = pd.DataFrame({"cores": [1, 1, 2, 4], "latency": [1.0, 3.0, None, 5.0]})
    (line,) = drawn_lines(sweep_figure(SweepPanel(rows, "cores", "latency")))
    assert line.x.tolist() == [1, 2, 4] and json.dumps(line.y.tolist()) == "[2.0, NaN, 5.0]"


def test_logarithmic_axes_leave_out_what_they_cannot_show():
    rows = pd.DataFrame({"x": [0, 1, 10, 1000], "y": [1.0, 0.0, 10.0, 1e9]})
    figure = sweep_figure(SweepPanel(rows, "x", "y", log_x=True, log_y=True))
    (line,) = drawn_lines(figure)
    assert line.x.tolist() == [1, 10, 1000] and np.isnan(line.y[0]) and line.y.tolist()[1:] == [10.0, 1e9]
    assert "100M" in figure.layout.yaxis.ticktext
    assert list(figure.layout.xaxis.ticktext) == ["1", "10", "1,000"]


@pytest.mark.parametrize(("low", "high"), [(6500, 19_000), (5000, 14_000), (12, 21), (1, 20), (0.3, 700)])
def test_logarithmic_axes_have_three_ticks_at_least(low, high):
    rows = pd.DataFrame({"x": [1, 2], "y": [low, high]})
    axis = sweep_figure(SweepPanel(rows, "x", "y", log_y=True)).layout.yaxis
    assert 3 <= sum(low <= tick <= high for tick in axis.tickvals) <= 8
    assert len(set(axis.ticktext)) == len(axis.ticktext)


@pytest.mark.parametrize(
    ("low", "high", "texts"),
    [
        (900, 200_000, ["1k", "10k", "100k"]),
        (90, 9_000, ["100", "1,000"]),
        (1_200_000, 7_000_000, ["1M", "2M", "5M", "10M"]),
        (1.2e9, 7e9, ["10<sup>9</sup>", "2·10<sup>9</sup>", "5·10<sup>9</sup>", "10<sup>10</sup>"]),
        (1.2e-6, 7e-6, ["10<sup>-6</sup>", "2·10<sup>-6</sup>", "5·10<sup>-6</sup>", "10<sup>-5</sup>"]),
    ],
)
def test_ticks_of_large_numbers_are_short_and_true(low, high, texts):
    rows = pd.DataFrame({"x": [1, 2], "y": [low, high]})
    axis = sweep_figure(SweepPanel(rows, "x", "y", log_y=True)).layout.yaxis
    assert set(texts) <= set(axis.ticktext)


def test_a_sweep_without_points():
    figure = sweep_figure(SweepPanel(sweep_rows().head(0), "window", "speedup", log_y=True), series="engine")
    assert figure.layout.annotations[-1].text == "no points" and not drawn_lines(figure)


def test_errors_of_sweeps():
    with pytest.raises(
        ColumnNotFoundError, match=r"sweep_figure: series: column 'engin' not found. Did you mean"
    ):
        sweep_figure(SweepPanel(sweep_rows(), "window", "speedup"), series="engin")
    with pytest.raises(CepError, match=r"x column 'engine' has type .*; numbers are needed"):
        sweep_figure(SweepPanel(sweep_rows(), "engine", "speedup"))
    with pytest.raises(CepError, match="columns=0"):
        sweep_figure(SweepPanel(sweep_rows(), "window", "speedup"), columns=0)


SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("n", range(1, 8))
def test_places_without_a_panel_have_no_axes(n):
    rows = pd.DataFrame({"cores": [1, 2], "speedup": [1.0, 1.9], "engine": ["a", "a"]})
    figure = sweep_figure(
        [SweepPanel(rows, "cores", "speedup")] * n, series="engine", columns=3, measured=False
    )
    assert sum(name.startswith("xaxis") for name in figure.layout.to_plotly_json()) == n


def test_numbers_of_a_paper_are_grey_and_last_in_the_legend():
    rows = pd.DataFrame({"x": [1, 2, 2], "y": [1.0, 2.0, 3.0], "engine": ["paper", "a", "b"]})
    figure = sweep_figure(SweepPanel(rows, "x", "y"), series="engine", printed="paper", measured=False)
    names = [trace.name for trace in figure.data if trace.name]
    colours = [trace.marker.color for trace in figure.data if trace.name]
    assert names == ["a", "b", "paper"] and colours == [*PALETTE[:2], PRINTED_COLOUR]
