"""Pictures of runs of agents, lanes, busy shares and lengths of queues, and of sweeps."""

import json
import random
import re

import numpy as np
import pandas as pd
import pytest

from cepkit.errors import CepError, ColumnNotFoundError
from cepkit.parallel.plots import lengths as lengths_module
from cepkit.parallel.plots.lengths import length_lines
from cepkit.parallel.plots.runs import MOST_ACTIONS, draw_busy, draw_lengths, draw_threads
from cepkit.parallel.plots.threads import LANE, action_lanes, busy_bars, state_lanes
from cepkit.parallel.trace import IDLE, LENGTHS, clock_unit
from cepkit.plots.sweeps import PRINTED_COLOUR, SweepPanel, facets, sweep_figure
from cepkit.plots.theme import PALETTE
from tests.support.traces import EXAMPLE, busy_trace, drawn, trace_of
from tests.support.traces import row as row_of


def bars(figure) -> list:
    return [trace for trace in figure.data if trace.type == "bar" and trace.x[0] is not None]


def subtitle(figure) -> str:
    return figure.layout.title.subtitle.text or ""


# --- lanes


@pytest.mark.parametrize("seed", range(8))
def test_every_action_is_a_bar(seed):
    trace, rows, _ = drawn(seed)
    _, size = clock_unit(trace.makespan)
    figure = action_lanes(trace.actions(), n_threads=trace.n_threads)
    found = [
        (int(y), round(base, 9), round(x, 9))
        for bar in bars(figure)
        for y, base, x in zip(bar.y, bar.base, bar.x, strict=True)
    ]
    wanted = [
        (row["thread"], round(row["start"] / size, 9), round((row["end"] - row["start"]) / size, 9))
        for row in rows
    ]
    assert np.allclose(sorted(found), sorted(wanted)) and len(found) == len(rows)
    assert all(np.array_equal(bar.customdata[:, 3], bar.x) for bar in bars(figure))


def test_bars_have_the_colour_of_the_agent_and_the_pattern_of_the_work():
    figure = action_lanes(EXAMPLE.actions())
    looks = {(bar.legendgroup, bar.marker.pattern.shape): bar.marker.color for bar in bars(figure)}
    assert set(looks) == {
        ("source", "."),
        ("agent b", ""),
        ("agent b", "x"),
        ("agent c+", ""),
        ("agent c+", "/"),
    }
    assert looks["agent b", ""] == looks["agent b", "x"] != looks["agent c+", ""] == looks["agent c+", "/"]
    in_legend = [trace.name for trace in figure.data if trace.name]
    assert in_legend == [
        "b",
        "c+",
        "delivers events",
        "takes events",
        "takes partial matches",
        "removes old items",
    ]
    assert list(figure.layout.yaxis.ticktext) == ["source", "0 · b", "1 · c+"]


def area(trace) -> float:
    """Return the area of closed outlines with gaps between."""
    total, x, y = 0.0, np.asarray(trace.x, float), np.asarray(trace.y, float)
    for run in np.split(np.arange(len(x)), np.flatnonzero(np.isnan(x))):
        run = run[~np.isnan(x[run])]
        if len(run):
            # From point to point along x, then along y.
            over = np.append(x[run][0], np.repeat(x[run][1:], 2))
            up = np.append(np.repeat(y[run][:-1], 2), y[run][-1])
            total += abs(np.sum(over[:-1] * up[1:] - over[1:] * up[:-1])) / 2
    return total


@pytest.mark.parametrize("seed", range(8))
def test_areas_in_lanes_are_the_time_spent(seed):
    trace, rows, _ = drawn(seed)
    _, size = clock_unit(trace.makespan)
    figure = state_lanes(trace.states(random.Random(seed).choice([1, 3, 40])))
    spent = {}
    for row in rows:
        group = "source" if row["agent"] < 0 else f"agent {trace.agents[row['agent']]}"
        spent[group] = spent.get(group, 0.0) + (row["end"] - row["start"]) / size
    drawn_areas = {}
    for of in figure.data:
        if of.type == "scatter" and of.fill:
            drawn_areas[of.legendgroup] = drawn_areas.get(of.legendgroup, 0.0) + area(of) / LANE
    for group, time in spent.items():
        assert drawn_areas.get(group, 0.0) == pytest.approx(time, rel=1e-3, abs=1e-3)
    assert set(drawn_areas) <= set(spent)


def test_outlines_stay_in_their_lane():
    trace = busy_trace(4, 200, 3)
    for of in state_lanes(trace.states(20)).data:
        if of.type == "scatter" and of.fill:
            y = np.asarray(of.y, float)
            assert of.line.shape == "hv"
            assert np.nanmax(np.abs(y - np.round(y))) <= LANE / 2 + 1e-4


def test_hints_of_bins():
    hints = [trace for trace in state_lanes(EXAMPLE.states(2)).data if trace.type == "heatmap"]
    assert [of.y[0] for of in hints] == [-1, 0, 1] and {(of.x0, of.dx) for of in hints} == {(25, 50)}

    def told(of, number):
        words = re.findall(r"%\{customdata\[(\d)]\} % ([^<]+)", of.hovertemplate)
        shares = {word: int(of.customdata[0][number][int(k)]) for k, word in words}
        return {word: share for word, share in shares.items() if share}

    assert told(hints[1], 0) == {"b, takes events": 40, "idle": 40, "b, removes old items": 20}
    assert told(hints[0], 0) == {"idle": 80, "source, delivers events": 20}


def test_a_source_that_takes_no_time_has_no_lane():
    at_once = trace_of([row_of(-1, -1, 0, 0.0, 0.0), row_of(0, 0, 1, 0.0, 90.0)])
    assert list(state_lanes(at_once.states(3), n_threads=2).layout.yaxis.ticktext) == ["0 · b", "1"]
    assert state_lanes(EXAMPLE.states(2)).layout.yaxis.ticktext[0] == "source"


def test_many_actions_are_drawn_in_bins_and_stay_small():
    few, many = busy_trace(4, 50, 3), busy_trace(24, 600, 6)
    assert len(many.done.start) > MOST_ACTIONS >= len(few.done.start)
    assert bars(draw_threads(few)) and not bars(draw_threads(many))
    figure = draw_threads(many, title="24 threads")
    assert len(figure.to_json()) < 2_000_000
    assert subtitle(figure).startswith("simulated, height: part of the time, in ")
    assert figure.to_json() == draw_threads(many, title="24 threads").to_json()


def test_clocks_of_measured_and_simulated_runs():
    figure = action_lanes(EXAMPLE.actions(), measured=False, title="<b>x</b>")
    assert figure.layout.xaxis.title.text == "virtual time since the start of the run (ns)"
    assert (figure.layout.title.text, subtitle(figure)) == ("&lt;b&gt;x&lt;/b&gt;", "simulated")
    figure = action_lanes(EXAMPLE.actions(), measured=True)
    assert figure.layout.xaxis.title.text == "time since the start of the run (ns)"
    assert figure.layout.title.text == "measured"


def test_runs_in_which_nothing_was_done():
    nothing = trace_of([], n_threads=3)
    for figure in (draw_threads(nothing), state_lanes(nothing.states(), n_threads=3)):
        assert list(figure.layout.yaxis.ticktext) == ["0", "1", "2"]
        assert figure.layout.annotations[0].text == "no thread did anything"
    assert list(draw_busy(nothing).layout.yaxis.ticktext) == ["0", "1", "2"]
    assert "no readings" in [of.text for of in draw_lengths(nothing).layout.annotations]


def test_names_are_shown_as_they_are():
    trace = trace_of([{"thread": 0, "agent": 0, "action": 1, "start": 0, "end": 1}], agents=("<i>",))
    for figure in (draw_threads(trace), state_lanes(trace.states(2)), draw_busy(trace)):
        assert "&lt;i&gt;" in [of.name for of in figure.data]


def test_busy_shares():
    figure = busy_bars(EXAMPLE.threads(), measured=True)
    shares = {
        int(y): (x, text) for bar in bars(figure) for y, x, text in zip(bar.y, bar.x, bar.text, strict=True)
    }
    assert shares == {-1: (10.0, "10 %"), 0: (40.0, "40 %"), 1: (50.0, "50 %")}
    assert "mean of the threads 45 %" in figure.layout.xaxis.title.text
    assert figure.layout.shapes[0].x0 == 45.0


@pytest.mark.parametrize(
    ("draw", "frame"),
    [
        (action_lanes, EXAMPLE.actions()),
        (state_lanes, EXAMPLE.states(3)),
        (busy_bars, EXAMPLE.threads()),
        (length_lines, EXAMPLE.lengths()),
    ],
)
def test_errors_of_missing_columns(draw, frame):
    for name in ("agent", {action_lanes: "sent"}.get(draw, frame.columns[-1])):
        with pytest.raises(ColumnNotFoundError, match=f"{draw.__name__}: column '{name}' not found"):
            draw(frame.drop(columns=name))


def test_error_of_an_unknown_action():
    actions = EXAMPLE.actions().assign(action="sleep")
    with pytest.raises(CepError, match=r"action 'sleep' is not known\. There are "):
        action_lanes(actions)
    assert IDLE not in action_lanes(EXAMPLE.actions()).to_json()


# --- lengths


def lines_of(figure, name: str) -> dict[str, object]:
    """Return the lines of the panel of a length, by agent."""
    panel = LENGTHS.index(name)
    axis = "x" if panel == 0 else f"x{panel + 1}"
    return {
        of.legendgroup.removeprefix("agent "): of
        for of in figure.data
        if of.xaxis == axis and of.legendgroup and not of.fill and len(of.x) > 1 and "agent" in of.legendgroup
    }


def test_few_readings_are_steps_to_the_end_of_the_run():
    figure = draw_lengths(EXAMPLE)
    lines = lines_of(figure, "event_queue")
    assert set(lines) == {"b", "c+"}
    assert lines["b"].line.shape == "hv"
    assert (lines["b"].x.tolist(), lines["b"].y.tolist()) == ([20, 70, 100], [4, 1, 1])
    assert [of.name for of in figure.data if of.showlegend is not False and of.name] == ["b", "c+"]
    dashes = {of.legendgroup: of.line.dash for of in lines.values()}
    assert len(set(dashes.values())) == 2


def test_many_readings_are_means_with_the_same_total():
    trace = busy_trace(3, 2000, 2, seed=4)
    figure = draw_lengths(trace)
    mean = trace.agents_frame().set_index("agent")["mean_partial_buffer"]
    for agent, line in lines_of(figure, "partial_buffer").items():
        assert len(line.x) == lengths_module.BINS
        assert np.mean(line.y) == pytest.approx(mean[agent], rel=1e-5)
    assert subtitle(figure) == "" and figure.layout.title.text == "simulated, mean and range in 150 bins"
    assert len(figure.to_json()) < 200_000


@pytest.mark.parametrize("seed", range(10))
def test_bins_of_lengths_agree_with_their_definition(seed, monkeypatch):
    monkeypatch.setattr(lengths_module, "MOST_READINGS", 0)
    monkeypatch.setattr(lengths_module, "BINS", 7)
    draw = random.Random(seed)
    time = sorted(
        draw.choice([draw.uniform(0, 100), 10.0 * draw.randint(0, 10)]) for _ in range(draw.randint(1, 30))
    )
    values = [draw.randint(0, 9) for _ in time]
    line = lengths_module._line(np.array(time), np.array(values), 105.0)
    width = 105.0 / 7
    for b in range(7):
        low, high = b * width, (b + 1) * width
        held = [0, *values][sum(t <= low for t in time)]
        within = [value for t, value in zip(time, values, strict=True) if low < t < high]
        spans = zip([0.0, *time], [*time, 105.0], [0, *values], strict=True)
        integral = sum(value * max(0.0, min(end, high) - max(start, low)) for start, end, value in spans)
        assert line.values[b] == pytest.approx(integral / width)
        assert (line.least[b], line.greatest[b]) == (min([held, *within]), max([held, *within]))


def test_models_are_level_lines():
    models = pd.DataFrame(
        {
            "model": ["e·W", "e·d", "e·W"],
            "length": ["event_buffer", "event_buffer", "partial_buffer"],
            "agent": ["b", "b", "c+"],
            "value": [5.0, 2.0, 3.5],
        }
    )
    figure = draw_lengths(EXAMPLE, models=models)
    level = [of for of in figure.data if (of.legendgroup or "").startswith("model") and len(of.x) > 1]
    assert [(of.legendgroup, of.xaxis, set(of.y)) for of in level] == [
        ("model e·W", "x3", {5.0}), ("model e·d", "x3", {2.0}), ("model e·W", "x4", {3.5}),
    ]  # fmt: skip
    colour_of_b = lines_of(figure, "event_queue")["b"].line.color
    assert level[0].line.color == level[1].line.color == colour_of_b != level[2].line.color
    assert level[0].marker.symbol == level[2].marker.symbol != level[1].marker.symbol
    assert [of.name for of in figure.data if of.name] == [
        "b",
        "c+",
        "b",
        "c+",
        "b",
        "c+",
        "b",
        "c+",
        "e·W",
        "e·d",
    ]
    with pytest.raises(CepError, match=r"length 'event_bufer' is not known. Did you mean 'event_buffer'"):
        draw_lengths(EXAMPLE, models=models.assign(length="event_bufer"))
    with pytest.raises(ColumnNotFoundError, match="models: column 'value' not found"):
        draw_lengths(EXAMPLE, models=models.drop(columns="value"))


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
    assert "10<sup>8</sup>" in figure.layout.yaxis.ticktext
    assert list(figure.layout.xaxis.ticktext) == ["1", "10", "1,000"]


@pytest.mark.parametrize(("low", "high"), [(6500, 19_000), (5000, 14_000), (12, 21), (1, 20), (0.3, 700)])
def test_logarithmic_axes_have_three_ticks_at_least(low, high):
    rows = pd.DataFrame({"x": [1, 2], "y": [low, high]})
    axis = sweep_figure(SweepPanel(rows, "x", "y", log_y=True)).layout.yaxis
    assert 3 <= sum(low <= tick <= high for tick in axis.tickvals) <= 8
    assert len(set(axis.ticktext)) == len(axis.ticktext)


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
