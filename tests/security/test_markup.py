"""HTML, SVG, plotly's texts and widgets: names and values are text there, and never tags."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pandas as pd
import pytest

import cepkit as cep
from cepkit.language.expressions.printing import quoted_name, quoted_text
from cepkit.plots.drawing import png
from tests.support.hostile_names import HOSTILE
from tests.support.widget_cases import FULL, KINDS
from tests.support.widget_page import blank_page, mount

WIDGETS = Path(__file__).resolve().parents[2] / "widgets"
N = 12
HTML_TAGS = {
    "a", "b", "body", "br", "code", "details", "div", "figure", "h1", "h2", "head", "html", "li", "meta", "p",
    "pre", "span", "style", "summary", "table", "tbody", "td", "th", "thead", "title", "tr", "ul",
}  # fmt: skip
SVG_TAGS = {
    "svg", "g", "title", "path", "rect", "text", "tspan", "circle", "line", "polygon", "polyline", "defs",
    "pattern", "clippath", "lineargradient", "stop", "image", "use", "marker", "ellipse",
}  # fmt: skip
PLOTLY_TAGS = {"b", "br", "i", "sub", "sup", "extra"}


def events(text: str) -> pd.DataFrame:
    """Return events with a hostile column, a hostile event type, hostile keys and hostile texts."""
    return pd.DataFrame({
        "t": range(N), text: range(N), "kind": [text, "A", "B"] * (N // 3), "s": [text, "y"] * (N // 2),
        "k": text, "wide": text * (100_000 // len(text)),
    })  # fmt: skip


def regex(text: str) -> cep.Matches:
    define = {"p": f"{quoted_name(text)} > 2 and s = {quoted_text(text)}", "q": f"s != {quoted_text(text)}"}
    measures = {"first": "first(s)", "wide": "first(wide)", text: f"max({quoted_name(text)})"}
    return cep.match(events(text), "p q", define=define, order_by="t", partition_by="k", measures=measures)


def sequence(text: str) -> cep.Matches:
    query = f"PATTERN SEQ({quoted_text(text)} a, B b) WHERE b.{quoted_name(text)} > 1 and a.s != 'z' WITHIN 6"
    measures = {text: "a.s", "n": f"b.{quoted_name(text)}"}
    return cep.match(
        events(text), query, event_type="kind", order_by="t", partition_by="k", measures=measures
    )


def row_patterns(text: str) -> Any:
    name = '"' + text.replace('"', '""') + '"'
    sql = f"""MATCH_RECOGNIZE (PARTITION BY k ORDER BY t MEASURES LAST(A.s) AS {name}, B.{name} AS v
        PATTERN (A B+) DEFINE A AS s = {quoted_text(text)},
        B AS {name} > 1)"""
    return cep.match(events(text), sql)


# --- HTML


class Tags(HTMLParser):
    """The tags and attributes of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.links += [value or "" for name, value in attrs if name in ("href", "src", "xlink:href")]


def check_html(text: str, allowed: set[str] = HTML_TAGS) -> None:
    read = Tags()
    read.feed(text)
    read.close()
    assert read.tags <= allowed, read.tags - allowed
    assert not {name for name in read.attributes if name.startswith("on") or name == "srcdoc"}
    assert not [link for link in read.links if not re.match(r"#|data:image/png|https://", link)]


def reprs(text: str) -> Iterator[Any]:
    frame, found, several, rows = events(text), regex(text), sequence(text), row_patterns(text)
    define = {"p": f"s = {quoted_text(text)}", "q": f"{quoted_name(text)} < 0"}
    yield from (found, several, rows, frame.cep)
    yield cep.match(frame, "p q", define=define, order_by="t")  # no match
    yield cep.funnel(frame, "p q", define=define, order_by="t")
    yield cep.why_not(frame, "p q", rows=[0, 1], define=define, order_by="t")
    query = f"PATTERN SEQ({quoted_text(text)} a, B b) WHERE b.s = {quoted_text(text)} WITHIN 2"
    yield cep.why_not(frame, query, rows=[0, 2], event_type="kind", order_by="t")
    yield cep.funnel(frame, query, event_type="kind", order_by="t")


@pytest.mark.parametrize("name", HOSTILE)
def test_html_of_results(name):
    shown = 0
    for result in reprs(HOSTILE[name]):
        for way in ("_repr_html_", "_repr_mimebundle_"):
            made = getattr(result, way, lambda: None)()
            made = made[0] if isinstance(made, tuple) else made
            made = made.get("text/html") if isinstance(made, dict) else made
            if made:
                check_html(made)
                shown += 1
    assert shown >= 8


@pytest.mark.parametrize("name", sorted({*HOSTILE} - {"lines"}))  # an editor's text has its own lines
def test_page_and_pictures_of_an_explorer(name, tmp_path):
    text = HOSTILE[name]
    query = f"p q\np: {quoted_name(text)} > 2 and s = {quoted_text(text)}\nq: s != {quoted_text(text)}"
    call = {"order_by": "t", "partition_by": "k", "measures": {text: "first(s)"}}
    explorer = events(text).cep.explore(query, **call).wait(60)
    assert explorer.status["state"] == "done", explorer.status
    check_html(explorer.to_html(tmp_path / "page.html").read_text("utf-8"), HTML_TAGS | SVG_TAGS)
    check_svg(explorer.to_svg(tmp_path / "page.svg").read_text("utf-8"))
    assert explorer.to_png(tmp_path / "page.png").read_bytes()[1:4] == b"PNG"


# --- SVG


def check_svg(text: str) -> None:
    root = ElementTree.fromstring(text)
    for node in root.iter():
        tag = node.tag.rpartition("}")[2].lower()
        assert tag in SVG_TAGS, tag
        for attribute, value in node.attrib.items():
            own = attribute.rpartition("}")[2].lower()
            assert not own.startswith("on"), (attribute, value)
            assert own != "href" or value.startswith(("#", "data:image/png"))


def pictures(text: str) -> Iterator[str]:
    frame = events(text)
    define = {"p": f"s = {quoted_text(text)}", "q": f"{quoted_name(text)} < 99"}
    yield cep.explain(frame, "p q", define=define, order_by="t").svg()
    sql = f"MATCH_RECOGNIZE (ORDER BY t PATTERN (A B+) DEFINE A AS s = {quoted_text(text)}, B AS s = 'y')"
    yield cep.explain(frame, sql).svg()
    for found in (regex(text), sequence(text), row_patterns(text)):
        yield found.plot().svg()
    yield cep.funnel(frame, "p q", define=define, order_by="t").plot().svg()
    yield regex(text).view("lineage").svg()


@pytest.mark.parametrize("name", HOSTILE)
def test_pictures_are_well_formed_and_have_no_foreign_parts(name):
    made = list(pictures(HOSTILE[name]))
    for picture in made:
        check_svg(picture)
    assert len(made) == 7
    assert png(made[0])[1:4] == png(made[2])[1:4] == b"PNG"


# --- plotly, whose texts know a few tags


def texts_of(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, dict):
        for name, own in value.items():
            yield from texts_of(own, name)
    elif isinstance(value, list | tuple) or type(value).__name__ == "ndarray":
        for own in value:
            yield from texts_of(own, key)


@pytest.mark.parametrize("name", HOSTILE)
def test_figures_have_only_tags_of_their_own(name):
    text = HOSTILE[name]
    frame = events(text)
    define = {"p": f"s = {quoted_text(text)}", "q": f"{quoted_name(text)} < 99"}
    figures = [found.plot() for found in (regex(text), sequence(text), row_patterns(text))]
    figures += [cep.funnel(frame, "p q", define=define, order_by="t").plot(), regex(text).plot(value=text)]
    for figure in figures:
        for key, own in texts_of(figure.to_dict()):
            if key in ("bdata", "dtype"):
                continue
            tags = {tag.lower() for tag in re.findall(r"<\s*/?\s*([a-zA-Z]+)", own)}
            assert tags <= PLOTLY_TAGS, (key, own[:200])
            holes = set(re.findall(r"%\{(.*?)\}", own)) if "template" in key else set()
            known = r"(customdata|text|x|y|z|hovertext|base|fullData|xaxis|yaxis)\b.*"
            assert all(re.fullmatch(known, hole) for hole in holes)
            if name == "template":
                assert "%{x}" not in own or "template" in key
                assert "%{customdata[0]}</" not in own or "match %{customdata[0]}" in own


# --- widgets


def test_widgets_set_markup_only_from_their_own_text():
    risky = (
        r"\b(?:outerHTML|insertAdjacentHTML|document\.write|eval|Function|srcdoc|createContextualFragment)\b"
    )
    for path in sorted(WIDGETS.glob("*.js")):
        text = path.read_text("utf-8")
        assert not re.search(risky, text), path.name
        for found in re.finditer(r"innerHTML\s*[:=]\s*(\S+)", text):
            assert found[1].rstrip(",;") in ("SKELETON", "SKELETON})", "SKELETON }"), (path.name, found[0])
        for skeleton in re.finditer(r"SKELETON\s*=\s*`([^`]*)`", text):
            assert "${" not in skeleton[1], path.name
        for found in re.finditer(r"(?:href|src)\s*=\s*([^=\s;]+)", text):
            assert "URL.createObjectURL" in found[1], (path.name, found[0])


TAG = '"><img src=x onerror="window.broken=1"><script>window.broken=1</script>\0\u202e{{7*7}}'
# Traits whose values choose among a few of the widget's own.
CHOICES = {
    "time_kind",
    "id",
    "name",
    "state",
    "kind",
    "order",
    "align",
    "language",
    "dtype",
    "type",
    "shape",
    "unit",
    "theme",
    "by",
}


def with_tags(value: Any, key: str = "") -> Any:
    if (
        isinstance(value, str)
        and key not in CHOICES
        and not re.fullmatch(r"#?[0-9a-fA-F]{3,8}|[\d.,:T-]+", value)
    ):
        return value + TAG
    if isinstance(value, dict):
        return {name: with_tags(own, name) for name, own in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(with_tags(own, key) for own in value)
    return value


@pytest.mark.browser
def test_widgets_show_hostile_texts_as_text():
    with blank_page(reduced_motion="reduce") as page:
        for stem, kind in KINDS.items():
            mount(page, kind(**with_tags(FULL[stem])), stem)
        page.wait_for_timeout(300)
        assert "onerror" in page.locator("body").inner_text()
        foreign = "document.querySelectorAll('img, script, iframe, object, embed, a[href]')"
        assert page.evaluate(f"[...{foreign}].map((one) => one.outerHTML)") == []
        assert page.evaluate("[...document.querySelectorAll('*')].flatMap((one) => one.getAttributeNames())"
                             ".filter((name) => name.startsWith('on'))") == []  # fmt: skip
        assert page.evaluate("window.broken") is None
