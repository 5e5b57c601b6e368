"""The counterexamples to the printed protocol step by step, as tables and as a figure to play."""

import pandas as pd
import pytest

from cepkit.errors import CepError, ColumnNotFoundError
from cepkit.experiments.hybrid_protocol import (
    PROTOCOL_COUNTEREXAMPLES,
    Interleaving,
    Rules,
    protocol_counterexamples,
)
from cepkit.experiments.hybrid_steps import NOTHING, protocol_steps, step_table
from cepkit.plots.protocol import protocol_figure

NAMES = [example.name for example in PROTOCOL_COUNTEREXAMPLES]
STEPS = {(name, rules): protocol_steps(name, rules) for name in NAMES for rules in ("unsafe", "corrected")}


def outcomes(steps: pd.DataFrame) -> list[str]:
    said = steps.drop_duplicates("step")["outcome"]
    return [outcome for outcome in said if outcome]


@pytest.mark.parametrize("name", NAMES)
def test_outcomes_are_those_of_the_runs(name):
    known = protocol_counterexamples().set_index("name").loc[name]
    expected = [f"{match} doubled" for match in known["doubled"].split(", ") if match]
    expected += [f"{match} lost" for match in known["lost"].split(", ") if match]
    assert outcomes(STEPS[name, "unsafe"]) == expected != []
    assert outcomes(STEPS[name, "corrected"]) == []


@pytest.mark.parametrize("name", ["C2", "C3", "C4"])
def test_a_match_is_lost_when_one_of_its_events_is_removed(name):
    steps = STEPS[name, "unsafe"]
    step = steps[steps["outcome"] != ""].iloc[0]
    assert step["what"].startswith("removes ")
    removed, match = step["what"].removeprefix("removes "), step["outcome"].removesuffix(" lost")
    assert removed in match
    # Until then the corrected rules would have found it.
    example = next(of for of in PROTOCOL_COUNTEREXAMPLES if of.name == name)
    assert match in example.right and match not in example.run(example.rules).matches


@pytest.mark.parametrize(("name", "rules"), list(STEPS))
def test_every_place_is_there_at_every_step(name, rules):
    steps = STEPS[name, rules]
    example = next(of for of in PROTOCOL_COUNTEREXAMPLES if of.name == name)
    run = example.run(example.rules if rules == "unsafe" else Rules())
    said = steps.drop_duplicates("step").iloc[1:]
    assert (said["who"].tolist(), said["what"].tolist()) == (
        run.steps["who"].tolist(),
        run.steps["what"].tolist(),
    )
    places = steps.groupby("step")["place"].agg(lambda column: tuple(dict.fromkeys(column)))
    assert places.nunique() == 1
    last = steps[steps["step"] == steps["step"].max()]
    assert last.loc[last["kind"] == "matches", "item"].dropna().tolist() == run.matches
    assert last["kind"].str.endswith("buffer").mul(last["item"].notna()).sum() == run.left
    for _, now in steps.groupby("step"):
        assert now["ticket"].dropna().is_unique
        assert now.groupby("place")["in_hand"].sum().max() <= 1
        assert now["position"].eq(now.groupby("place").cumcount()).all()


def test_watermarks_hold_what_the_printed_rules_remove():
    """Of C2: c3 at time 3 goes, while partial matches may still come from time 2."""
    steps = STEPS["C2", "unsafe"]
    now = steps[(steps["outcome"] != "").shift(-1, fill_value=False) | (steps["outcome"] != "")]
    at = now[now["step"] == now["step"].max()].set_index("place")["item"]
    assert at["wM3"] == "2" and at["wE3"] == NOTHING
    first = steps[steps["step"] == 0].set_index("place")["item"]
    assert first["wM3"] == first["wE2"] == "1"


def test_the_table_to_read():
    table = step_table(STEPS["C1", "unsafe"])
    assert list(table) == [
        "who",
        "what",
        "source",
        "EQ2",
        "E2.0",
        "wE2",
        "MQ2",
        "M2.0",
        "wM2",
        "matches",
        "outcome",
    ]
    assert table.loc[0, ["source", "EQ2", "matches"]].tolist() == ["a1, b2", "", ""]
    assert table.loc[7, ["what", "E2.0", "M2.0", "wE2"]].tolist() == [
        "removes nothing",
        "b2#2",
        "[a1#1]",
        NOTHING,
    ]
    assert table.index.tolist() == list(range(9)) and table["matches"].iloc[-1] == "a1 b2, a1 b2"


def test_steps_of_an_interleaving_of_ones_own():
    mine = Interleaving(
        "mine", "two partial matches of one", "a1@1 a2@2 b3@3", "AB", 9, "", ("a1 b3", "a2 b3")
    )
    steps = protocol_steps(mine, Rules())
    assert outcomes(steps) == [] and step_table(steps)["matches"].iloc[-1] == "a1 b3, a2 b3"
    wrong = Interleaving("wrong", "what is not there cannot be found", "a1@1", "AB", 9, "", ("a1 b3",))
    assert outcomes(protocol_steps(wrong)) == ["a1 b3 lost"]


def test_errors_of_names():
    with pytest.raises(
        CepError, match=r"example 'C9' not known\.( Did you mean 'C.'\?)? There are \['C1', 'C2'"
    ):
        protocol_steps("C9")
    with pytest.raises(CepError, match=r"rules 'corected' not known\. Did you mean 'corrected'\?"):
        protocol_steps("C1", "corected")


# --- the figure


@pytest.mark.parametrize(
    ("name", "rules"), [("C1", "unsafe"), ("C1", "corrected"), ("C2", "unsafe"), ("C4", "corrected")]
)
def test_a_frame_per_step_shows_every_item(name, rules):
    steps = STEPS[name, rules]
    figure = protocol_figure(steps)
    numbers = list(dict.fromkeys(steps["step"]))
    assert [frame.name for frame in figure.frames] == [str(number) for number in numbers]
    assert [step.label for step in figure.layout.sliders[0].steps] == [str(number) for number in numbers]
    lane_of = dict(zip(figure.layout.yaxis.ticktext, figure.layout.yaxis.tickvals, strict=True))
    lane_of = {text.split()[0]: lane for text, lane in lane_of.items()}
    for frame, number in zip(figure.frames, numbers, strict=True):
        now = steps[steps["step"] == number]
        assert list(frame.traces) == list(range(8)) and len(frame.data) == 8
        shown = [
            (lane, x, text.split("<sub>")[0])
            for trace in frame.data[:3]
            for lane, x, text in zip(trace.y, trace.x, trace.text, strict=True)
        ]
        held = now[now["item"].notna() & ~now["kind"].str.endswith("watermark")]
        wanted = [(lane_of[row.place], row.position, row.item) for row in held.itertuples()]
        assert sorted(shown) == sorted(wanted)
        gone, what = list(frame.data[3].text), now["what"].iloc[0]
        assert ", ".join(gone) == (
            what.removeprefix("removes ").replace("nothing", "") if "removes" in what else ""
        )
        who = now["who"].iloc[0]
        assert list(frame.data[4].y) == ([lane_of[who]] if number else [])
        assert what in frame.data[6].text[0] or number == 0


def test_what_went_wrong_stays_in_view():
    figure = protocol_figure(STEPS["C3", "unsafe"], title="C3 <printed>", first=9)
    assert [frame.data[7].text[0] for frame in figure.frames] == [""] * 9 + ["a55 b90 lost"] * 7
    assert figure.data[7].text[0] == "a55 b90 lost" and figure.layout.sliders[0].active == 9
    assert figure.layout.title.text == "C3 &lt;printed&gt;"
    assert figure.to_json() == protocol_figure(STEPS["C3", "unsafe"], title="C3 <printed>", first=9).to_json()
    in_legend = [trace.name for trace in figure.data if trace.showlegend is not False]
    assert in_legend == ["event", "partial match", "match", "in hand", "removed"]


def test_what_was_removed_stands_behind_what_is_left():
    order = "source M2.0*3 source*2 M2.0*3"
    mine = Interleaving("mine", "one goes, one stays", "a1@1 a2@9 b3@15", "AB", 9, order, ("a2 b3",))
    figure = protocol_figure(protocol_steps(mine, Rules()))
    both = [
        frame for frame in figure.frames if len(frame.data[3].x) and frame.data[3].y[0] in frame.data[1].y
    ]
    assert both, "no step that removes one of two"
    for frame in both:
        left = [x for x, y in zip(frame.data[1].x, frame.data[1].y, strict=True) if y == frame.data[3].y[0]]
        assert list(frame.data[3].text) == ["a1"] and list(frame.data[3].x) == [len(left)]


def test_no_steps():
    figure = protocol_figure(STEPS["C1", "unsafe"].iloc[:0])
    assert [of.text for of in figure.layout.annotations] == ["no steps"] and not figure.frames


def test_errors_of_columns():
    with pytest.raises(ColumnNotFoundError, match="protocol_figure: column 'ticket' not found"):
        protocol_figure(STEPS["C1", "unsafe"].drop(columns="ticket"))
