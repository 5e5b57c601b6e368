"""The Python half of widgets: traits, texts, still pictures; and what files of the browser half may be."""

from __future__ import annotations

import base64
import inspect
import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import traitlets

from cepkit.cache import shipped
from cepkit.plots import theme
from cepkit.plots.scene import Look, colour_of
from cepkit.widgets.panels import FunnelView, NfaView, QueryEditor
from cepkit.widgets.scene_view import WIDGET, MatchTable
from cepkit.widgets.timeline_view import TimelineView
from tests.support.outputs import Outputs
from tests.support.widget_cases import FULL, KINDS, full

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "widgets"
PRETTIER = "prettier@3.10.1"
STEMS = sorted(KINDS)
OF_JUPYTER = {"layout", "tabbable", "tooltip"}


def traits(widget):
    return {name for name in widget.traits(sync=True) if name[0] != "_"} - OF_JUPYTER


def still(widget):
    return widget._still()


def shown(widget, monkeypatch):
    """Return the outputs of a widget in a notebook."""
    outputs = Outputs()
    monkeypatch.setattr("IPython.display.display", outputs.display)
    widget._ipython_display_()
    return outputs.kept


@pytest.mark.parametrize("place", ["VS Code", "Colab", "JupyterLab"])
def test_a_page_shows_the_widget_or_its_still(place, monkeypatch):
    """VS Code and Colab choose one form of an output. JupyterLab follows rules for three outputs."""
    shell = SimpleNamespace(user_ns={"__vsc_ipynb_file__": "a.ipynb"} if place == "VS Code" else {})
    monkeypatch.setattr("IPython.get_ipython", lambda: shell)
    if place == "Colab":
        monkeypatch.setitem(sys.modules, "google.colab", ModuleType("google.colab"))
    outputs = Outputs()
    monkeypatch.setattr("IPython.display.display", outputs.display)
    widget = full("stepper")
    monkeypatch.setattr(KINDS["stepper"], "_repr_mimebundle_", lambda _: {WIDGET: {"model_id": "m"}})
    widget._ipython_display_()
    forms = [sorted(data) for data in outputs.kept]
    if place == "JupyterLab":
        assert forms == [["text/html"], ["image/png", "text/plain"], [WIDGET]]
    else:
        assert forms == [sorted([WIDGET, "image/png", "text/plain"])]


# --- all of them ------------------------------------------------------------------------------------------


def is_explained(name, source):
    """Return whether a comment at a trait, above it, or above a list of names says what it is."""
    at = rf"^    {name} = traitlets|^    {name} = (Floats|Integers)"
    lines = source.splitlines()
    place = next(k for k, line in enumerate(lines) if re.match(at, line))
    above = lines[place - 1].strip()
    return (
        "  # " in lines[place]
        or (above.startswith("# ") and above not in ("# Python -> browser", "# browser -> Python"))
        or re.search(rf"# (\w+, )+{name}(, \w+)*: ", source) is not None
    )


@pytest.mark.parametrize("stem", STEMS)
def test_every_trait_is_explained_and_there_are_no_others(stem):
    kind = KINDS[stem]
    named = traits(kind())
    assert named >= set(FULL[stem])
    assert [name for name in named if not is_explained(name, inspect.getsource(kind))] == []
    with pytest.raises(TypeError, match="has no trait 'colour'"):
        kind(colour="red")


@pytest.mark.parametrize("stem", sorted(KINDS.keys() - {"timeline_view"}))  # its parts read the model
def test_what_the_browser_reads_travels(stem):
    text = shipped("widgets", f"{stem}.js").read_text("utf-8")
    names = {*re.findall(r'model\.(?:get|set)\("(\w+)"', text)}
    assert names and names <= set(KINDS[stem].class_traits(sync=True))


@pytest.mark.parametrize("stem", STEMS)
def test_defaults_travel_and_are_not_shared(stem):
    first, second = KINDS[stem](), KINDS[stem]()
    state = first.get_state()
    for name in traits(first):
        assert state[name] == second.get_state()[name]
        value = getattr(first, name)
        assert not isinstance(value, (list, dict)) or value is not getattr(second, name)


@pytest.mark.parametrize("stem", STEMS)
def test_assigning_is_heard_and_comes_back(stem):
    widget, filled = KINDS[stem](), full(stem)
    heard = []
    widget.observe(lambda change: heard.append(change["name"]), names=sorted(FULL[stem]))
    for name in FULL[stem]:
        setattr(widget, name, getattr(filled, name))
        assert getattr(widget, name) == getattr(filled, name)
    changed = {name for name in FULL[stem] if getattr(filled, name) != getattr(KINDS[stem](), name)}
    assert set(heard) >= changed


@pytest.mark.parametrize("stem", STEMS)
def test_repr_is_the_same_in_every_process(stem):
    assert repr(full(stem)) == repr(full(stem))
    for widget in (KINDS[stem](), full(stem)):
        assert re.fullmatch(rf"{KINDS[stem].__name__}\([^<>]*\)", repr(widget))
        assert "0x" not in repr(widget) and widget.model_id not in repr(widget)


@pytest.mark.parametrize("stem", STEMS)
@pytest.mark.parametrize("is_full", [False, True])
def test_a_still_picture_comes_with_the_widget(stem, is_full, monkeypatch):
    """It is an output of its own, and the same for the same traits."""
    widget = full(stem) if is_full else KINDS[stem]()
    of_page, of_still, of_widget = shown(widget, monkeypatch)
    assert list(of_page) == ["text/html"] and of_page["text/html"].startswith("<style")
    assert of_widget["application/vnd.jupyter.widget-view+json"]["model_id"] == widget.model_id
    assert list(of_widget) == ["application/vnd.jupyter.widget-view+json"]
    assert of_still["text/plain"] == repr(widget)
    image = base64.b64decode(of_still["image/png"])
    assert image.startswith(b"\x89PNG") and len(image) < 60_000
    picture = ET.fromstring(still(widget))
    assert "".join(picture.itertext()).strip() or stem == "query_editor"
    again = full(stem) if is_full else KINDS[stem]()
    assert still(widget) == still(again) and shown(again, monkeypatch)[1] == of_still


def test_reprs_say_what_is_in_them():
    assert {stem: repr(full(stem)) for stem in STEMS} == {
        "case_view": "CaseView(3 cases, 1 hold)",
        "take_bar": "TakeBar(CSV, HTML, Shell, 5 matches)",
        "data_bar": "DataBar(regex, 1,000,000 rows, symbol = AAA, 1 of 40 keys)",
        "funnel_view": "FunnelView(3 steps)",
        "match_table": "MatchTable(20 rows x 2 columns, page 50000000000000000001 of 100000000000000000000, "
        "2000000000000000000000 matches)",
        "nfa_view": "NfaView(3 states, 2 transitions)",
        "query_editor": "QueryEditor(62 characters, running, 1 error)",
        "reason_view": "ReasonView(3 lines, 1 not met)",
        "stream_board": "StreamBoard(up up)",
        "slider_panel": "SliderPanel(2 sliders)",
        "stepper": "Stepper(event 4 of 10, 1,234 live partial matches)",
        "timeline_view": "TimelineView(3,600 events, 3 matches, 'line')",
    }


# --- one by one -------------------------------------------------------------------------------------------


def test_numbers_travel_as_little_endian_float64():
    view = TimelineView(x=range(4), y=np.array([1, 2, 3, 4], ">i2"), spans=[[0, 1.5], [2, 3]])
    assert view.x == np.arange(4.0).astype("<f8").tobytes()
    assert np.frombuffer(view.y).tolist() == [1, 2, 3, 4]
    assert np.frombuffer(view.spans).tolist() == [0, 1.5, 2, 3]
    view.x = memoryview(b"\0" * 16)
    assert view.x == b"\0" * 16
    with pytest.raises(traitlets.TraitError, match=r"TimelineView\.x: 7 bytes"):
        view.x = b"\0" * 7
    with pytest.raises(traitlets.TraitError, match="little-endian float64"):
        view.x = ["a"]


@pytest.mark.parametrize("extent", [[1.0], [2.0, 1.0], [0.0, 1.0, 2.0]])
def test_an_extent_has_two_ends_in_order(extent):
    with pytest.raises(traitlets.TraitError, match=r"TimelineView\.window: .* \[first, last\]"):
        TimelineView(window=extent)


SVG = "{http://www.w3.org/2000/svg}"


def texts_in(widget):
    return ["".join(text.itertext()) for text in ET.fromstring(still(widget)).iter(f"{SVG}text")]


def boxes_in(widget, fill):
    """Return the first and last x of the bars of a colour."""
    box = re.compile(r"M([\d.]+),[\d.]+H([\d.]+)V")
    paths = [path for path in ET.fromstring(still(widget)).iter(f"{SVG}path") if path.get("fill") == fill]
    return [tuple(map(float, box.match(path.get("d")).groups())) for path in paths]


BAND = colour_of(Look(colour=5), theme.BAND)


def test_a_still_timeline_has_its_matches_and_lanes():
    lanes = TimelineView(
        form="lanes", x=range(6), y=[0, 1, 0, 1, 0, 1], lane_names=["A<", "B"], spans=[[1, 3]]
    )
    assert {"A<", "B"} <= set(texts_in(lanes))
    # 860 pixels with margins of 60 and 24 for the 5 units of time: the band begins after one of them.
    assert boxes_in(lanes, BAND) == [pytest.approx((60 + 776 / 5, 60 + 3 * 776 / 5), abs=0.1)]


def test_a_still_timeline_has_the_strip_and_the_selected_match():
    strip = {"strip_view": [0, 1000], "strip_all": [3.0, 0, 1, 1], "strip_key": [1.0, 0, 0, 1]}
    view = TimelineView(
        x=range(1001), y=np.zeros(1001), spans=[[400, 402]], span_ids=[1234], selected=1234, **strip
    )
    assert {"all keys", "this key", "match 1,234"} <= set(texts_in(view))
    [(left, right)] = boxes_in(view, colour_of(Look(), 0.3))
    assert 1.5 < right - left < 2.5  # a short match can be seen
    whole = float(ET.fromstring(still(view)).get("height"))
    strip["strip_key"] = []
    one = TimelineView(x=range(1001), y=np.zeros(1001), **strip)
    assert "matches" in texts_in(one) and "this key" not in texts_in(one)
    assert float(ET.fromstring(still(one)).get("height")) < whole
    part = TimelineView(x=range(1001), y=np.zeros(1001), window=[300, 950], **strip)
    [(left, right)] = boxes_in(part, colour_of(Look(), 0.3))  # the brush in the strip
    assert right - left == pytest.approx(0.65 * 776, abs=10)


def test_a_still_timeline_of_too_many_matches_has_their_numbers():
    view = TimelineView(x=range(5), y=range(5), crowd=[0.0, 4, 2, 0], crowd_view=[0, 4], spans=[[0, 4]])
    boxes = [boxes_in(view, colour_of(Look(colour=5), shade)) for shade in (0.5, 0.3)]
    lefts = [left for [(left, _)] in boxes]
    assert lefts == pytest.approx([60 + 776 / 4, 60 + 776 / 2], abs=5)


def test_a_still_timeline_has_partial_matches_and_the_clocks_of_its_zone():
    bar = {"events": [{"x": 1e3, "label": "a"}], "end": 2e3, "outcome": "failed", "text": ["b fails: 1 > 2"]}
    view = TimelineView(
        time_kind="datetime", x=[0, 1e3, 2e3, 9e3], y=[0, 1, 2, 3], zone_offsets=[[0, -18e6]],
        x_label="ts (America/New_York)", asked=[{"x": 2e3, "y": 2, "partials": [bar]}],
    )  # fmt: skip
    texts = texts_in(view)
    assert {"b fails: 1 > 2", "19:00:00", "1969-12-31", "19:00:04", "ts (America/New_York)"} <= set(texts)
    large = texts_in(TimelineView(x=[1.0635e16, 1.0635e16 + 4e6], y=[1, 2], x_label="ps"))
    assert any(text.startswith("ps − 10,635,000,000,000,000") for text in large)
    assert not any("e+" in text for text in large)


def test_a_still_line_of_many_points_keeps_its_extremes():
    y = np.zeros(100_000)
    y[31_234], y[77_777] = 5.0, -5.0
    picture = still(TimelineView(x=np.arange(100_000), y=y))
    line = re.search(rf'd="([^"]*)" fill="none" stroke="{theme.INK}"', picture)[1]
    levels = [float(level) for level in re.findall(r",([\d.]+)", line)]
    assert 700 < len(levels) < 5000 and len(set(levels)) == 3
    gap = still(TimelineView(x=range(4), y=[1, np.nan, 1, 2]))
    assert re.search(r'd="(M[\d.,]+M[\d.,]+L[\d.,]+)"', gap)


def test_an_automaton_of_names_lights_its_states():
    states = [{"id": "s", "label": "s", "x": 40, "y": 30}, {"id": "t", "label": "t", "x": 90, "y": 30}]
    view = NfaView(states=states, width=120, height=60, lit=["t"], selected="t")
    assert view.selected == "t" and still(view).count('fill-opacity="0.45"') == 1
    with pytest.raises(traitlets.TraitError):
        view.selected = 1.5


def test_status_is_one_of_five():
    editor = QueryEditor(status={"state": "done"})
    assert editor.status == {"state": "done", "message": "", "progress": None}
    with pytest.raises(traitlets.TraitError, match=r"QueryEditor\.status: state 'ready' is not one of"):
        editor.status = {"state": "ready"}


def test_numbers_of_matches_and_pages_may_be_of_any_size():
    table = MatchTable(numbers=[2**70, "12"], page=10**18 + 1, n_pages=10**19, total=2**70, selected=2**70)
    assert table.numbers == [str(2**70), "12"] and table.selected == str(2**70)
    state = table.get_state()
    assert state["page"] == str(10**18 + 1) and state["n_pages"] == str(10**19)
    table.set_state({"selected": "12"})
    assert table.selected == "12"


def test_wishes_follow_what_is_shown():
    """So that the same wish, after Python went elsewhere by itself, is a change again."""
    table = MatchTable(page=1)
    wishes = []
    table.observe(lambda change: wishes.append(change["new"]), names="wanted_page")
    table.set_state({"wanted_page": "3"})
    table.page = 3
    table.page = 1
    table.set_state({"wanted_page": "3"})
    assert wishes == ["3", "1", "3"]
    table.order = "price down"
    assert table.wanted_order == "price down"


# --- files of the browser half ----------------------------------------------------------------------------


def test_every_widget_has_its_files_and_there_are_no_others():
    modules = {path.stem for path in FOLDER.glob("*.js")}
    sheets = {path.stem for path in FOLDER.glob("*.css")}
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "cepkit").rglob("*.py")]
    views = {stem for text in sources for stem in re.findall(r'_css = browser_half\(\s*"(\w+)"', text)}
    assert set(STEMS) < views and len(views) == 13
    assert sheets - views == {"common", "data_bar_steps", "match_heads", "query_help"}
    of_editor = {"query_completion", "query_help", "query_painting"}
    of_timeline = {"timeline_axis", "timeline_painting", "timeline_selected", "timeline_strip"}
    of_all = {"copying", "drawing"}
    assert modules - views == {*of_all, "data_bar_steps", "match_heads", *of_editor, *of_timeline}
    assert {path.suffix for path in FOLDER.iterdir()} == {".js", ".css"}


def test_shared_rules_come_first_and_hold_for_the_widget_alone():
    css = str(FunnelView._css)
    own = (FOLDER / "funnel_view.css").read_text(encoding="utf-8")
    assert css.endswith(own) and css.index("--accent:") < css.index(own)
    assert "cepkit-widget" not in re.sub(r"/\*.*?\*/", "", css, flags=re.S)
    assert "cepkit-widget" not in "".join(path.read_text() for path in FOLDER.glob("*.js"))


def test_javascript_and_stylesheets_are_formatted():
    """As `npx prettier@3.10.1 --write widgets` leaves them; skipped where it cannot be run."""
    npx = shutil.which("npx")
    if npx is None:
        pytest.skip("Node is not installed: no npx to run prettier with")
    variables = {**os.environ, "npm_config_fetch_retries": "0", "npm_config_fetch_timeout": "20000"}

    def run_prettier(*arguments):
        command = [npx, "--yes", "--prefer-offline", PRETTIER, *arguments]
        return subprocess.run(
            command, cwd=ROOT, env=variables, capture_output=True, text=True, timeout=120, check=False
        )

    try:
        found = run_prettier("--version")
    except (OSError, subprocess.TimeoutExpired) as refusal:
        pytest.skip(f"{PRETTIER} cannot be run: {refusal}")
    if found.returncode:
        pytest.skip(f"{PRETTIER} cannot be fetched: {found.stderr.strip()[-200:]}")
    done = run_prettier("--check", "widgets")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("stem", STEMS)
def test_a_module_needs_nothing(stem):
    source = str(KINDS[stem]._esm)
    own = (FOLDER / f"{stem}.js").read_text(encoding="utf-8")
    assert source.endswith(own) and own.endswith("export default { render };\n")
    assert re.findall(r"^export\b", source, re.M) == ["export"]
    assert not re.search(
        r"^\s*import\b|\bimport\(|\bfetch\b|XMLHttpRequest|https?://(?!www\.w3\.org/2000/svg)|\beval\b",
        source,
        re.M,
    )


@pytest.mark.parametrize("stem", STEMS)
def test_rules_of_a_stylesheet_stay_within_their_widget(stem):
    sheet = re.sub(r"/\*.*?\*/", "", str(KINDS[stem]._css), flags=re.S)
    assert not re.search(r"@import|url\(", sheet)
    selectors = re.findall(r"([^{};]+)\{", re.sub(r"@keyframes.*?\}\s*\}", "", sheet, flags=re.S))
    for selector in (one.strip() for group in selectors for one in re.split(r",(?![^(]*\))", group)):
        if not selector.startswith(("@media", "@container")):
            assert re.search(rf"(^|[ ])\.cepkit-{stem}\b", selector), selector
