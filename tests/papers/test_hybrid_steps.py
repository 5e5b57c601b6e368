"""The counterexamples to the printed protocol step by step, as tables and as a figure to play."""

import numpy as np
import pandas as pd
import pytest

from cepkit.errors import CepError, ColumnNotFoundError
from papers.hybrid_parallel.drawings import protocol_figure, step_range
from papers.hybrid_parallel.protocol import (
    NOTHING,
    PROTOCOL_COUNTEREXAMPLES,
    Interleaving,
    Rules,
    protocol_steps,
)

NAMES = [example.name for example in PROTOCOL_COUNTEREXAMPLES]
STEPS = {(name, rules): protocol_steps(name, rules) for name in NAMES for rules in ("unsafe", "corrected")}


def outcomes(steps: pd.DataFrame) -> list[str]:
    said = steps.drop_duplicates("step")["outcome"]
    return [outcome for outcome in said if outcome]


def final_matches(steps: pd.DataFrame) -> list[str]:
    last = steps[steps["step"] == steps["step"].max()]
    return last.loc[last["place"] == "matches", "item"].tolist()


@pytest.mark.parametrize("example", PROTOCOL_COUNTEREXAMPLES, ids=lambda example: example.name)
def test_outcomes_are_those_of_the_runs(example):
    found = example.run(example.rules).matches
    expected = [f"{match} doubled" for match in sorted(set(found)) if found.count(match) > 1]
    expected += [f"{match} lost" for match in example.right if match not in found]
    assert outcomes(STEPS[example.name, "unsafe"]) == expected != []
    assert outcomes(STEPS[example.name, "corrected"]) == []


def test_the_first_rules_double_and_the_others_lose():
    said = {name: outcomes(STEPS[name, "unsafe"]) for name in NAMES}
    assert list(said) == ["C1", "C2", "C3", "C4"]
    assert said["C1"] == ["a1 b2 doubled"] and said["C2"] == ["a1 b2 c3 lost"]


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


def test_a_step_shows_what_every_place_holds():
    steps = STEPS["C1", "unsafe"]
    held = steps[(steps["step"] == 7) & steps["item"].notna()].set_index("place")
    assert held.loc["E2.0", ["item", "ticket", "in_hand"]].tolist() == ["b2", 2, False]
    assert held.loc["M2.0", ["item", "ticket", "in_hand"]].tolist() == ["a1", 1, True]
    assert held.loc["wE2", "item"] == NOTHING and set(held["what"]) == {"removes nothing"}
    assert final_matches(steps) == ["a1 b2", "a1 b2"] and steps["step"].max() == 8


def test_steps_of_an_interleaving_of_ones_own():
    mine = Interleaving(
        "mine", "two partial matches of one", "a1@1 a2@2 b3@3", "AB", 9, "", ("a1 b3", "a2 b3")
    )
    steps = protocol_steps(mine, Rules())
    assert outcomes(steps) == [] and final_matches(steps) == ["a1 b3", "a2 b3"]
    wrong = Interleaving("wrong", "what is not there cannot be found", "a1@1", "AB", 9, "", ("a1 b3",))
    assert outcomes(protocol_steps(wrong)) == ["a1 b3 lost"]


def test_errors_of_names():
    with pytest.raises(
        CepError, match=r"example 'C9' is not known\.( Did you mean 'C.'\?)? There are \['C1', 'C2'"
    ):
        protocol_steps("C9")
    with pytest.raises(CepError, match=r"rules 'corected' is not known\. Did you mean 'corrected'\?"):
        protocol_steps("C1", "corected")


# --- the figure


LOOKS = ("event", "partial", "match", "removed", "acts", "watermark", "said", "outcome")


def drawn(figure, number):
    """Return what a step's range of x shows: the points of each look: lane, x from its zero, text."""
    [frame] = [frame for frame in figure.frames if frame.name == str(number)]
    low, high = frame.layout.xaxis.range
    shown = {}
    for look, trace in zip(LOOKS, figure.data, strict=False):
        texts = trace.text if trace.text is not None else [""] * len(trace.x)
        points = zip(trace.y, trace.x, texts, strict=True)
        shown[look] = [(y, round(x - low - 0.8, 6), text) for y, x, text in points if low <= x <= high]
    return shown


@pytest.mark.parametrize(
    ("name", "rules"), [("C1", "unsafe"), ("C1", "corrected"), ("C2", "unsafe"), ("C4", "corrected")]
)
def test_the_range_of_a_step_shows_every_item(name, rules):
    steps = STEPS[name, rules]
    figure = protocol_figure(steps)
    numbers = list(dict.fromkeys(steps["step"]))
    assert [frame.name for frame in figure.frames] == [str(number) for number in numbers]
    lane_of = dict(zip(figure.layout.yaxis.ticktext, figure.layout.yaxis.tickvals, strict=True))
    lane_of = {text.split()[0]: lane for text, lane in lane_of.items()}
    n_shown = 0
    for number in numbers:
        now, shown = steps[steps["step"] == number], drawn(figure, number)
        n_shown += sum(len(points) for points in shown.values())
        items = [(y, x, text.rstrip("₀₁₂₃₄₅₆₇₈₉")) for look in LOOKS[:3] for y, x, text in shown[look]]
        held = now[now["item"].notna() & ~now["kind"].str.endswith("watermark")]
        assert sorted(items) == sorted(
            (lane_of[row.place], row.position, row.item) for row in held.itertuples()
        )
        gone, what = [text for _, _, text in shown["removed"]], now["what"].iloc[0]
        assert ", ".join(gone) == (
            what.removeprefix("removes ").replace("nothing", "") if "removes" in what else ""
        )
        who = now["who"].iloc[0]
        assert [y for y, _, _ in shown["acts"]] == ([lane_of[who]] if number else [])
        [(_, _, said)] = shown["said"]
        assert what in said or number == 0
    assert n_shown == sum(len(trace.x) for trace in figure.data[:8])  # no point is between two steps


def test_what_a_worker_holds_has_a_thick_edge():
    steps = STEPS["C2", "unsafe"]
    edges = np.concatenate([trace.marker.line.width for trace in protocol_figure(steps).data[:3]])
    is_item = steps["item"].notna() & ~steps["kind"].str.endswith("watermark")
    assert len(edges) == is_item.sum() and (edges > 2).sum() == steps.loc[is_item, "in_hand"].sum() > 0


def test_what_went_wrong_stays_in_view():
    figure = protocol_figure(STEPS["C3", "unsafe"], title="C3 <printed>", first=9)
    said = [drawn(figure, number)["outcome"][0][2] for number in range(16)]
    assert said == [""] * 9 + ["a55 b90 lost"] * 7
    assert figure.layout.xaxis.range == figure.frames[9].layout.xaxis.range
    assert figure.layout.title.text == "C3 &lt;printed&gt;"
    assert figure.to_json() == protocol_figure(STEPS["C3", "unsafe"], title="C3 <printed>", first=9).to_json()
    in_legend = [trace.name for trace in figure.data if trace.showlegend is not False]
    assert in_legend == ["event", "partial match", "match", "in hand", "removed"]


def test_what_was_removed_stands_behind_what_is_left():
    order = "source M2.0*3 source*2 M2.0*3"
    mine = Interleaving("mine", "one goes, one stays", "a1@1 a2@9 b3@15", "AB", 9, order, ("a2 b3",))
    figure = protocol_figure(protocol_steps(mine, Rules()))
    both = 0
    for frame in figure.frames:
        shown = drawn(figure, frame.name)
        for lane, x, text in shown["removed"]:
            left = [partial for partial in shown["partial"] if partial[0] == lane]
            if left:
                both += 1
                assert text == "a1" and x == len(left)
    assert both, "no step that removes one of two"


def test_steps_are_further_apart_than_texts_are_long():
    (_, end), (begin, _) = step_range(0, 3), step_range(1, 3)
    assert begin - end > end


def test_no_steps():
    figure = protocol_figure(STEPS["C1", "unsafe"].iloc[:0])
    assert [of.text for of in figure.layout.annotations] == ["no steps"] and not figure.frames


def test_errors_of_columns():
    with pytest.raises(ColumnNotFoundError, match="protocol_figure: column 'ticket' not found"):
        protocol_figure(STEPS["C1", "unsafe"].drop(columns="ticket"))
