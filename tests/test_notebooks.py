"""The notebooks as they are saved: small, executed in order, without errors, all in the README."""

from __future__ import annotations

import base64
import importlib.machinery
import importlib.util
import json
import re
from itertools import pairwise
from pathlib import Path

import pytest

from cepkit.language.expressions.functions import BUILT_IN_NAMES
from cepkit.language.expressions.vocabulary import VOCABULARY

ROOT = Path(__file__).resolve().parents[1]
PATHS = sorted((ROOT / "notebooks").glob("*.ipynb"))
[COOKBOOK] = [path for path in PATHS if path.name.startswith("05")]
TUTORIALS = [path for path in PATHS if path.name < "1" and path != COOKBOOK]
PAPERS = [path for path in PATHS if path.name > "1"]
MOST_BYTES = 200_000  # without pictures
MOST_BYTES_OF_A_PICTURE = 60_000
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def execute():
    """The program `.ci/execute` as a module."""
    loader = importlib.machinery.SourceFileLoader("execute", str(ROOT / ".ci" / "execute"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("execute", loader))
    loader.exec_module(module)
    return module


@pytest.fixture(params=PATHS, ids=lambda path: path.stem)
def path(request):
    return request.param


@pytest.fixture
def notebook(path):
    return json.loads(path.read_text(encoding="utf-8"))


def code_cells(notebook):
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def test_it_is_small(path, notebook):
    images = [data["image/png"] for data in outputs_of(notebook) if "image/png" in data]
    assert path.stat().st_size - sum(map(len, images)) <= MOST_BYTES, "save it by .ci/execute"
    assert max((len(base64.b64decode(image)) for image in images), default=0) <= MOST_BYTES_OF_A_PICTURE


def test_it_is_saved_as_all_are(path, notebook, execute):
    """Without widget state and times of execution, an output in a line: saving changes nothing."""
    assert path.read_text(encoding="utf-8") == execute.saved(notebook), "save it by .ci/execute --save"


def test_saving_keeps_what_is_shown(notebook, execute):
    before = [execute.joined(output) for cell in code_cells(notebook) for output in cell["outputs"]]
    widget = {"state": {"abc": {}}, "version_major": 2}
    notebook["metadata"]["widgets"] = {"application/vnd.jupyter.widget-state+json": widget}
    notebook["cells"][1]["metadata"]["execution"] = {"iopub.execute_input": "2026-01-01T00:00:00Z"}
    again = json.loads(execute.saved(notebook))
    assert [output for cell in code_cells(again) for output in cell["outputs"]] == before
    assert "widgets" not in again["metadata"] and "execution" not in again["cells"][1]["metadata"]


def test_saving_merges_what_a_cell_prints(execute):
    """The kernel cuts a stream into outputs as time passes."""
    prints = [{"output_type": "stream", "name": "stdout", "text": [text]} for text in ("a\n", "b\n")]
    warns = {"output_type": "stream", "name": "stderr", "text": "c\n"}
    cell = {"cell_type": "code", "metadata": {}, "source": "", "outputs": [*prints, warns, prints[0]]}
    saved = json.loads(execute.saved({"cells": [cell], "metadata": {}}))
    assert [one["text"] for one in saved["cells"][0]["outputs"]] == ["a\nb\n", "c\n", "a\n"]


def test_its_metadata_is_complete(notebook):
    """JupyterLab adds what is missing when it opens a notebook. Then it asks to save it on closing."""
    kernel, language = (notebook["metadata"][name] for name in ("kernelspec", "language_info"))
    assert set(kernel) == {"name", "display_name", "language"}
    assert {"name", "version", "mimetype", "codemirror_mode", "pygments_lexer", "file_extension"} < set(
        language
    )
    assert all(cell["id"] for cell in notebook["cells"])


def test_readers_see_no_test_code(notebook):
    """Checks are in the last cell. JupyterLab, JupyterBook and nbconvert hide it, each by its own mark."""
    *shown, last = notebook["cells"]
    assert not any(
        re.search(r"^\s*assert |\bassert_\w+\(", line) for cell in shown for line in lines_of(cell)
    )
    if last["cell_type"] == "code":
        assert lines_of(last)[0].startswith("# "), "JupyterLab shows the first line"
        assert last["metadata"] == {
            "jupyter": {"source_hidden": True},
            "tags": ["hide-input", "remove-cell"],
            "transient": {"remove_source": True},
        }
        assert last["outputs"] == []


def test_tutorials_use_public_names_only(path, notebook):
    """A reader copies their cells to data of his own."""
    if path not in (*TUTORIALS, COOKBOOK):
        return
    source = "\n".join(line for cell in code_cells(notebook) for line in lines_of(cell))
    assert not re.search(r"\bexperiments\b|\.board\b|\b\w\._\w", source)
    imported = re.findall(r"^(?:from|import) (cepkit[\w.]*)", source, re.MULTILINE)
    assert set(imported) <= {"cepkit", "cepkit.datasets", "cepkit.pipelines", "cepkit.results.views"}


def lines_of(cell):
    return "".join(cell["source"]).splitlines()


WIDGET = "application/vnd.jupyter.widget-view+json"
PLOTLY = "application/vnd.plotly.v1+json"


def outputs_of(notebook):
    """Return the outputs of a notebook by MIME type."""
    return [output.get("data", {}) for cell in code_cells(notebook) for output in cell["outputs"]]


def test_pictures_stay_where_no_kernel_runs(notebook):
    """A still is the output before each widget, and an image is in the output of each figure."""
    outputs = outputs_of(notebook)
    for before, data in pairwise([{}, *outputs]):
        if WIDGET in data:
            assert list(data) == [WIDGET] and data[WIDGET]["model_id"] == "", "save it by .ci/execute"
            assert before["image/png"] and before["text/plain"]
        if PLOTLY in data:
            assert data["image/png"], "it is a LeanFigure, or is made one"
        assert "image/svg+xml" not in data and "<svg" not in data.get("text/html", ""), "not safe everywhere"


@pytest.fixture(scope="module", params=[False, True])
def exporter(request):
    """Make pages as nbconvert does, as they are or sanitized; it reads its templates once."""
    nbconvert = pytest.importorskip("nbconvert", reason="nbconvert comes with JupyterLab")
    return nbconvert.HTMLExporter(sanitize_html=request.param)


@pytest.mark.filterwarnings("ignore:Your element with mimetype:UserWarning")  # of widgets
def test_pages_of_notebooks_show_the_pictures(path, notebook, exporter):
    """The page has the outputs alone: colours of code and texts between the cells take most of the time."""
    import nbformat

    outputs = [{**cell, "source": ""} for cell in code_cells(notebook) if cell["outputs"]]
    page, _ = exporter.from_notebook_node(nbformat.from_dict({**notebook, "cells": outputs}))
    page = page.replace("\n", "")
    stills = [data for data in outputs_of(notebook) if "image/png" in data]
    assert stills or path == COOKBOOK or path.stem == "90_language_reference"
    for data in stills:
        assert f"data:image/png;base64,{data['image/png'].strip()}" in page
        assert data.get("text/plain", "no text") not in page, "the text stands where there is no picture"


def test_it_ran_from_the_first_cell_to_the_last(notebook):
    ran = [cell["execution_count"] for cell in code_cells(notebook) if "".join(cell["source"]).strip()]
    assert ran == list(range(1, len(ran) + 1))


def test_no_cell_failed(notebook):
    kinds = {output["output_type"] for cell in code_cells(notebook) for output in cell["outputs"]}
    assert "error" not in kinds


def test_it_takes_a_scale(path, notebook):
    """The first cell with code says how a variable of the environment makes its data larger."""
    if path == COOKBOOK:
        return  # its data are a few rows
    cells = ["".join(cell["source"]) for cell in code_cells(notebook)]
    assert re.search(r'^SCALE = int\(os\.environ\.get\("CEPKIT_SCALE", 1\)\)  # \w', cells[0], re.MULTILINE)
    used = re.compile(r"\bSCALE\b")
    assert sum(len(used.findall(cell)) for cell in cells) > 1


def runs_at_scale(path, scale, execute, monkeypatch):
    """Run a notebook that is not saved, with more data; a cell that fails raises an error."""
    monkeypatch.setenv("CEPKIT_SCALE", str(scale))
    larger = code_cells(execute.executed(path))
    as_saved = code_cells(json.loads(path.read_text(encoding="utf-8")))
    shown = [
        [execute.joined(output) for cell in cells for output in cell["outputs"]]
        for cells in (larger, as_saved)
    ]
    texts = [
        [
            *(one["data"]["text/plain"] for one in outputs if "text/plain" in one.get("data", {})),
            *(re.sub(r"[\d.]+ m?s\b", "", one["text"]) for one in outputs if one.get("name") == "stdout"),
        ]  # without times
        for outputs in shown
    ]
    assert texts[0] != texts[1], "there was more data"


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=pytest.mark.slow if i else (), id=path.stem)
        for i, path in enumerate(TUTORIALS)
    ],
)
def test_tutorials_run_at_another_scale(path, execute, monkeypatch):
    runs_at_scale(path, 3, execute, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("path", PAPERS, ids=lambda path: path.stem)
def test_papers_run_at_another_scale(path, execute, monkeypatch):
    runs_at_scale(path, 2, execute, monkeypatch)


def test_cells_have_no_long_functions(notebook):
    """What is longer than five lines is in the package, where it is tested."""
    for cell in code_cells(notebook):
        for body in re.findall(
            r"^def .*\n((?:[ \t]+.*\n|\n)*)", "".join(cell["source"]) + "\n", re.MULTILINE
        ):
            assert len(body.strip().splitlines()) <= 5


def test_the_readme_has_it(path):
    link = re.escape(f"[`{path.stem}`](notebooks/{path.name})")
    [row] = re.findall(rf"^\| {link} \|.*$", README, re.MULTILINE)
    assert row.count("|") == 4, "notebook, what it shows, paper"


def test_the_language_reference_shows_every_function_and_word():
    notebook = json.loads((ROOT / "notebooks" / "90_language_reference.ipynb").read_text(encoding="utf-8"))
    shown = set(re.findall(r"\w+", "\n".join("".join(cell["source"]) for cell in code_cells(notebook))))
    [grammar] = (ROOT / "cepkit" / "language").rglob("sase.lark")
    words = re.findall(r"\(\?ai:([\w|]+)\)", grammar.read_text(encoding="utf-8"))
    spelled = {word.upper() for group in words for word in group.split("|")}
    assert len(spelled) > 10
    assert BUILT_IN_NAMES - VOCABULARY.keys() - shown == set()
    assert {name for name, function in VOCABULARY.items() if function.name in shown} > {"lower", "hour"}
    assert spelled - {word.upper() for word in shown} == set()
