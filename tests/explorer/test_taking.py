"""What a user takes out of an explorer: files, a page, the command line; and that each of them works."""

from __future__ import annotations

import io
import shlex
from random import Random

import numpy as np
import pandas as pd
import pytest

import cepkit as cep
from cepkit.commands.cli import main
from cepkit.datasets import load_sample
from cepkit.errors import CepError
from cepkit.explorer import taking
from cepkit.explorer.taking import command_of, file_in_cells
from cepkit.explorer.text import read_text
from tests.support.sizes import seeds
from tests.support.tables import cases
from tests.support.waiting import wait_until
from tests.support.widget_page import blank_page

REGEX = "up down\nup: x > 0.5\ndown: x <= 0.5"
SEQUENCE = "PATTERN SEQ(A a, B b) WITHIN 4"


def stream(n: int = 400) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    return pd.DataFrame(
        {
            "t": np.arange(n),
            "key": rng.choice(["k 0", "k'1", "k2"], n),
            "kind": rng.choice(list("AB"), n),
            "x": rng.random(n).round(3),
            "when": pd.date_range("2026-01-01", periods=n, freq="s").as_unit("us"),
        }
    )


FRAME = stream()


def opened(query=REGEX, frame=FRAME, **call):
    return frame.cep.explore(query, **{"order_by": "t", "partition_by": "key", **call}).wait(60)


# --- the command line

TRADES = """calm drop{3,} back
calm: size < 1000
drop: price < prev(price)
back: price > prev(price)
within: 2 min"""
COMMANDS = {
    "regex": (REGEX, {}),
    "exclusive": (REGEX + "\nwithin: 3, exclusive", {}),
    "window with a unit": (REGEX + "\nwithin: 5 s", {"order_by": "when"}),
    "window without a unit": (REGEX + "\nwithin: 5000000", {"order_by": "when"}),
    "quotes": ("one any\none: key = 'k''1' and x < 0.9\nany:\n    x > 0.1\n    and x < 0.8", {}),
    "measures": (REGEX, {"measures": {"top": "max(x)", "n": "count()"}, "order_by": ["t", "when"]}),
    "parameters": (
        "up own\nup: x > :low\nown: key = :key",
        {"params": {"low": 0.25, "key": "k'1"}, "partition_by": None},
    ),
    "text parameter": ("up own\nup: x > 0.1\nown: kind = :kind", {"params": {"kind": "A"}}),
    "sequence": (SEQUENCE, {"event_type": "kind"}),
    "strategy": (SEQUENCE, {"event_type": "kind", "strategy": "next", "scope": "edge"}),
    "after match": (SEQUENCE, {"event_type": "kind", "after_match": "past_last"}),
    "strict time": (
        "PATTERN SEQ(A a, B b)\nWHERE a.x < b.x\nWITHIN 4",
        {"event_type": "kind", "strict_time": True},
    ),
    "order of evaluation": (SEQUENCE, {"event_type": "kind", "evaluation_order": ["b", "a"]}),
    "open window": ("PATTERN SEQ(A a, B b)", {"event_type": "kind", "within": 4, "within_closed": False}),
    "settings in the text": (
        "PATTERN SEQ(A a, B b) WHERE strict_contiguity AND [key] AND b.x > a.x",
        {"event_type": "kind"},
    ),
    "several keys": (REGEX, {"partition_by": ["key", "kind"]}),
}


def run_line(line: str, tmp_path, capsys) -> pd.DataFrame:
    """Run a command line as a shell would, and return its matches."""
    words = shlex.split(line)
    assert words[:2] == ["cepkit", "match"]
    out = tmp_path / "out.parquet"
    assert main([*words[1:], "--out", str(out)]) == 0, capsys.readouterr().err
    return pd.read_parquet(out)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_command_line_finds_the_same_matches(name, tmp_path, monkeypatch, capsys):
    query, call = COMMANDS[name]
    explorer = opened(query, **call)
    assert explorer.status["state"] == "done", explorer.status
    FRAME.to_parquet(tmp_path / "df.parquet")
    monkeypatch.chdir(tmp_path)
    found = run_line(explorer.command, tmp_path, capsys)
    wanted = explorer.matches.to_frame()
    assert len(found) == explorer.matches.count() > 0
    pd.testing.assert_frame_equal(found, wanted, check_dtype=False)
    assert explorer.board.take.items[-1]["copies"] == explorer.command
    assert "df.parquet is a placeholder" in explorer.board.take.items[-1]["told"]


def test_the_command_line_of_a_sample_runs_without_a_file(tmp_path, capsys):
    trades = load_sample("trades")
    explorer = trades.cep.explore(TRADES, partition_by="symbol", order_by=["ts", "seq"]).wait(60)
    line = explorer.command.replace("df.parquet", "sample:trades")
    assert len(run_line(line, tmp_path, capsys)) == explorer.matches.count() == 5


def is_low(x):
    return x <= 0.5


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        ({"define": {"up": "x > 0.5", "down": is_low}}, "'down' is a Python function"),
        ({"partition_by": "a,b"}, "cannot name the column 'a,b'"),
        ({"measures": {"to p": "max(x)"}}, "'to p' has a name that a command line cannot have"),
        ({"params": {"low": [1, 2]}}, "cannot pass 'low', which is of type list"),
        ({"params": {"low": "a\nb"}}, "cannot pass 'low', which is of type str"),
    ],
)
def test_a_query_without_a_command_line_says_why(call, reason):
    frame = FRAME.assign(**{"a,b": 1})
    text = {"define": "up down", "params": REGEX + " and x in :low"}.get(next(iter(call)), REGEX)
    query = read_text(text, {name: value for name, value in call.items() if name != "params"})
    with pytest.raises(CepError, match=reason):
        command_of(query, call, "a.csv")
    explorer = frame.cep.explore(text, order_by="t", **call).wait(60)
    if explorer.status["state"] == "done":
        with pytest.raises(CepError, match=reason):
            _ = explorer.command
        item = explorer.board.take.items[-1]
        assert item["copies"] == "" and item["locked"]


@pytest.mark.parametrize("seed", seeds(7, 30))
def test_parameters_survive_the_command_line(seed):
    from cepkit.commands.cli import _read_named, _value

    draw = Random(seed)
    texts = ["A", " a ", "5", "'q'", "true", "", "a=b", 'x"y', "it's", "-3", "1e5", "nan", "'", '"']
    value = draw.choice([draw.choice(texts), draw.randint(-9, 9), draw.random(), True, 1e300, -0.5])
    line = command_of(read_text("a\na: x > 1", {}), {"params": {"p": value}}, "a.csv")
    given = next(word for word in shlex.split(line) if word.startswith("p="))
    read = _value(_read_named("--param", [given])["p"])
    assert read == value and type(read) is type(value)


@pytest.mark.parametrize(
    ("cells", "file"),
    cases("cells", "cells"),
)
def test_the_file_of_a_frame_is_what_its_last_cell_read(cells, file):
    assert file_in_cells(cells, "df") == file


# --- files


def read(parcel) -> pd.DataFrame:
    buffer = io.BytesIO(parcel.content)
    return pd.read_csv(buffer) if parcel.file.endswith("csv") else pd.read_parquet(buffer)


@pytest.mark.parametrize("format", ["csv", "parquet"])
@pytest.mark.parametrize("query", [REGEX, SEQUENCE])
def test_a_file_has_the_matches(format, query):
    explorer = opened(query, event_type="kind")
    parcel = explorer._taker.parcel(format)
    assert parcel.file == f"matches.{format}" and not parcel.note
    pd.testing.assert_frame_equal(read(parcel), explorer.matches.to_frame(), check_dtype=format == "parquet")


@pytest.mark.parametrize("format", ["csv", "parquet"])
@pytest.mark.parametrize("query", [REGEX, SEQUENCE])
def test_a_file_of_a_filtered_table_has_its_rows(format, query):
    explorer = opened(query, event_type="kind")
    n, column = explorer.matches.count(), explorer.matches.to_frame().select_dtypes("number").columns[0]
    ids = [item["id"] for item in explorer.board.take.items]
    middle = int(explorer.matches.to_frame()[column].median())
    explorer.filters = {column: f"> {middle}"}
    wanted = explorer.wait(60).filtered
    n_kept = len(wanted)
    assert 0 < n_kept < n and explorer.board.take.told == f"{n_kept:,} of {n:,} matches"
    notes = {item["id"]: item["note"] for item in explorer.board.take.items}
    assert f"{n_kept:,} of {n:,} matches" in notes[format]
    parcel = explorer._taker.parcel(format)
    assert parcel.file == f"{n_kept}-of-{n}-matches.{format}"
    is_exact = format == "parquet"
    pd.testing.assert_frame_equal(read(parcel), wanted.reset_index(drop=True), check_dtype=is_exact)
    every = explorer._taker.parcel(f"all {format}")
    assert every.file == f"matches.{format}" and f"{n:,} matches" in notes[f"all {format}"]
    pd.testing.assert_frame_equal(read(every), explorer.matches.to_frame(), check_dtype=is_exact)
    explorer.filters = {}
    assert [item["id"] for item in explorer.wait(60).board.take.items] == ids
    assert explorer.board.take.told == f"{n:,} matches"


def test_a_file_of_other_frames_is_the_same():
    wanted = opened()._taker.parcel("csv").content
    for kind in ("pyarrow", "polars"):
        pytest.importorskip(kind)
        frame = FRAME.convert_dtypes(dtype_backend="pyarrow")
        native = __import__(kind)
        frame = native.table(FRAME) if kind == "pyarrow" else native.from_pandas(FRAME)
        explorer = cep.explore(frame, REGEX, order_by="t", partition_by="key").wait(60)
        assert explorer._taker.parcel("csv").content == wanted


def test_a_file_of_too_many_matches_says_so_before_and_has_the_first(monkeypatch):
    monkeypatch.setattr(taking, "MOST_ROWS", 5)
    explorer = opened(SEQUENCE, event_type="kind", partition_by=None)
    item = explorer.board.take.items[0]
    n = explorer.matches.count()
    assert f"the first 5 of {n:,} matches" in item["note"] == item["told"]
    assert "explorer.matches.to_frame(limit=None) has all of them" in item["note"]
    parcel = explorer._taker.parcel("csv")
    assert parcel.file == "first-5-matches.csv" and parcel.note == item["note"]
    pd.testing.assert_frame_equal(read(parcel), explorer.matches.to_frame().head(5))


def test_matches_beyond_any_machine_word_are_taken_in_part(monkeypatch):
    monkeypatch.setattr(taking, "MOST_ROWS", 50)
    frame = pd.DataFrame({"t": np.arange(300), "kind": ["A"] * 300})
    query = f"PATTERN SEQ({', '.join(f'A a{i}' for i in range(12))})"
    explorer = cep.explore(frame, query, order_by="t", event_type="kind").wait(120, "matches")
    assert explorer.status["state"] == "done" and explorer.matches.count() > 2**63
    assert "explorer.matches.chunks()" in explorer.board.take.items[0]["note"]
    assert len(read(explorer._taker.parcel("csv"))) == 50
    assert "matches" in explorer.board.take.told


def test_the_buttons_wait_for_matches():
    explorer = FRAME.cep.explore("", order_by="t").wait(60)
    locked = {item["id"]: item["locked"] for item in explorer.board.take.items}
    assert locked.pop("png") == locked.pop("svg") == "" and all(locked.values())
    with pytest.raises(CepError, match="no matches are found yet"):
        explorer._taker.parcel("csv")
    with pytest.raises(CepError, match="write a query"):
        _ = explorer.command
    with pytest.raises(CepError, match="no result yet"):
        explorer.to_html("a.html")
    explorer.text = REGEX
    explorer.wait(60)
    assert not any(item["locked"] for item in explorer.board.take.items)
    assert explorer.board.take.told == f"{explorer.matches.count()} matches"


def test_a_wish_is_answered_with_bytes(monkeypatch):
    explorer, sent = opened(), []
    kind = type(explorer.board.take)
    monkeypatch.setattr(kind, "send", lambda bar, content, buffers=None: sent.append((content, buffers)))
    explorer.board.take.wanted = {"id": "csv", "by": "page", "n": 1}
    wait_until(lambda: sent)
    content, buffers = sent[0]
    assert content == {"by": "page", "n": 1, "file": "matches.csv", "mime": "text/csv", "note": ""}
    assert pd.read_csv(io.BytesIO(buffers[0])).equals(explorer.matches.to_frame())
    explorer.board.take.wanted = {"id": "nothing", "by": "page", "n": 2}
    wait_until(lambda: len(sent) > 1)
    assert "'nothing' is no file" in sent[1][0]["error"]


def test_pictures_are_files_on_white_paper(tmp_path):
    from PIL import Image

    explorer = opened()
    path = explorer.to_png(tmp_path / "a.png")
    with Image.open(path) as image:
        assert image.size[0] > 1000 and image.convert("RGBA").getpixel((2, 2)) == (255, 255, 255, 255)
        assert len(image.convert("L").getcolors()) > 10
    text = explorer.to_svg(tmp_path / "a.svg").read_text()
    assert text.startswith("<svg") and 'fill="#ffffff"' in text and "var(--jp" not in text
    with pytest.raises(CepError, match="there is no folder"):
        explorer.to_png(tmp_path / "missing" / "a.png")


# --- the page


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_opens_without_a_network(tmp_path, scheme):
    explorer = opened()
    explorer.keep(match=0)
    explorer.keep(False, match=1)
    explorer.wait(60)
    path = explorer.to_html(str(tmp_path / "a.html"))
    with blank_page(color_scheme=scheme) as page:
        page.goto(path.as_uri())
        assert [url for url in page.requests if not url.startswith("file:")] == [] and page.trouble == []
        sizes = page.locator("figure svg").evaluate_all(
            "all => all.map(one => one.getBoundingClientRect().width)"
        )
        assert len([width for width in sizes if width > 400]) >= 2
        assert page.locator("figure svg path, figure svg rect").count() > 10
        shown = page.locator("figure").first.screenshot()
        assert len(shown) > 5000
        body = page.locator("body").inner_text()
        n = explorer.matches.count()
        assert f"{n:,} matches" in body and explorer.code in body and explorer.command in body
        assert "up: x > 0.5" in body and "✓ must match: " in body and "✗ must not match: " in body
        assert page.locator("tr").count() == 51 and f"The first 50 of {n:,} matches." in body
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert page.title().startswith("an up row") or page.title()


def test_texts_of_a_page_are_not_read_as_html(tmp_path):
    frame = FRAME.assign(key="<b>&</b>")
    explorer = opened("up own\nup: x > 0.5\nown: key = '<b>&</b>' and x < 0.9", frame)
    text = explorer.to_html(tmp_path / "a.html").read_text()
    assert "<b>&" not in text and "&lt;b&gt;&amp;" in text
