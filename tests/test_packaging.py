"""What is installed is what is needed: the README's commands and examples, pages, wheel, sdist, checkout."""

from __future__ import annotations

import doctest
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet
from packaging.version import Version

import cepkit
from cepkit._shipped import shipped
from cepkit.commands.cli import main
from cepkit.datasets import sample, sample_names
from tests.support import chromium

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = ("README.md", "cepkit/README.md", ".github/CONTRIBUTING.md", ".github/CHANGELOG.md")
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = SETTINGS["project"]


def blocks(kind):
    """Return the texts of the README's fenced blocks of a kind, ``""`` for those that say none."""
    found = re.findall(r"^```(\w*)\n(.*?)^```$", README, flags=re.MULTILINE | re.DOTALL)
    return [text for of, text in found if of == kind]


def commands(block):
    """Return the commands of a shell block as lists of words."""
    words = [shlex.split(part, comments=True) for part in re.split(r"&&|\n", block.replace("\\\n", ""))]
    return [part for part in words if part]


RUN, TEST = (commands(block) for block in blocks("sh")[:2])


# --- the README -------------------------------------------------------------------------------------------


def test_readme_examples_of_python():
    text = "\n".join(blocks("pycon"))
    test = doctest.DocTestParser().get_doctest(text, {}, "README", "README.md", 0)
    assert len(test.examples) > 5
    runner = doctest.DocTestRunner()
    found: list[str] = []
    runner.run(test, out=found.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(found)


def test_readme_command_prints_what_the_readme_shows(capsys):
    command = RUN[-1]
    assert command[0] == ".venv/bin/cepkit"
    assert main(command[1:]) == 0
    out, err = (text.splitlines() for text in capsys.readouterr())
    printed, shown = [err[0], *out, *err[1:]], blocks("")[0].splitlines()  # a terminal shows both
    assert printed[:-1] == shown[:-1]
    assert re.sub(r"[0-9.]+ s", "", printed[-1]) == re.sub(r"[0-9.]+ s", "", shown[-1])


def test_readme_set_up_is_what_ci_runs():
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert [part[0] for part in TEST] == ["python3", ".venv/bin/pip", ".venv/bin/python"]
    for part in TEST:
        words = ['"$python"' if word == "python3" else f'"{word}"' if "[" in word else word for word in part]
        assert " ".join(words) in script
    assert all(block.count(".venv ") == 1 for block in blocks("sh")[:2])  # one command sets up and runs


def test_readme_is_short_and_shows_the_explorer():
    assert len(README.splitlines()) <= 150
    [picture] = re.findall(r"!\[[^]]+]\((.*?)\)", README)
    assert (ROOT / picture).stat().st_size < 250_000


def test_readme_names_files_that_exist():
    names = set(re.findall(r"`((?:cepkit|tests|sample_data|binder|\.ci)/[\w/.]*)[` ]", README))
    assert names
    assert [name for name in names if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("name", PAGES)
def test_links_of_pages_lead_to_files(name):
    page = ROOT / name
    links = re.findall(r"]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8"))
    assert links or name.endswith("CHANGELOG.md")
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_readme_leads_to_all_pages():
    assert all(f"]({name})" in README for name in (*PAGES[1:], "cepkit/LICENSE"))


def test_the_tour_of_the_code_has_every_room():
    tour = (ROOT / "cepkit" / "README.md").read_text(encoding="utf-8")
    rooms = [path.parent.name for path in (ROOT / "cepkit").glob("*/__init__.py")]
    assert len(rooms) > 10
    assert [room for room in rooms if f"`{room}/`" not in tour] == []


def test_contributing_has_every_stage_of_ci():
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    stages = re.findall(r"^ *stage ([\w-]+) ", script, flags=re.MULTILINE)
    page = (ROOT / ".github" / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([\w, -]+) \|.*\d+\.\d", page, flags=re.MULTILINE)
    assert sorted(", ".join(rows).split(", ")) == sorted(stages) and len(stages) == 8


# --- the project ------------------------------------------------------------------------------------------


def test_the_version_is_written_in_one_place():
    assert PROJECT["dynamic"] == ["version"] and "version" not in PROJECT
    place = ROOT / SETTINGS["tool"]["hatch"]["version"]["path"]
    assert re.findall(r'^__version__ = "(.*)"$', place.read_text(), re.MULTILINE) == [cepkit.__version__]


def test_the_version_has_its_changes():
    changes = (ROOT / ".github" / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"\n## {cepkit.__version__}\n" in changes


def test_the_licence_is_the_one_that_is_named():
    [name] = PROJECT["license-files"]
    assert (ROOT / name).read_text(encoding="utf-8").startswith(f"{PROJECT['license']} License\n")


def test_all_is_every_extra():
    extras = PROJECT["optional-dependencies"]
    named = set(re.search(r"\[(.*)]", extras["all"][0])[1].split(","))
    within_others = {"connect"}  # dev brings it
    assert named | within_others == set(extras) - {"all"}


def test_programs_are_programs():
    for name in ("binder/postBuild", ".ci/run", ".ci/execute"):
        assert os.access(ROOT / name, os.X_OK), f"{name} is a program"
    for name in ("binder/postBuild", ".ci/run"):
        assert subprocess.run(["bash", "-n", str(ROOT / name)]).returncode == 0


def test_binder_has_what_the_notebooks_need():
    """Binder reads `binder/` alone: a Python that is new enough, a Java, and this checkout."""
    yaml = pytest.importorskip("yaml")
    found = yaml.safe_load((ROOT / "binder" / "environment.yml").read_text(encoding="utf-8"))
    assert found["channels"] == ["conda-forge"]
    asked = dict(name.split("=") if "=" in name else (name, "") for name in found["dependencies"])
    assert set(asked) == {"python", "openjdk", "pip"}
    assert Version(asked["python"]) in SpecifierSet(PROJECT["requires-python"])
    assert asked["openjdk"] in ("17", "21")  # what Spark 4 runs on
    assert {path.name for path in (ROOT / "binder").iterdir()} == {"environment.yml", "postBuild"}
    script = (ROOT / "binder" / "postBuild").read_text(encoding="utf-8")
    assert script.startswith("#!/bin/bash\n") and "set -euo pipefail" in script
    assert re.search(r'pip install .*"\.\[spark,lab,papers]"', script) and "cepkit warmup" in script


def test_binder_opens_the_quickstart():
    [page] = re.findall(r"mybinder\.org/v2/gh/OWNER/REPOSITORY/HEAD\?urlpath=lab/tree/([\w/.]+)", README)
    assert page == "notebooks/00_quickstart.ipynb" and (ROOT / page).is_file()


def test_ci_looks_for_the_browsers_that_tests_look_for():
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    [names] = re.findall(r'for name in "\$\{CHROMIUM:-([^"}]+)}" (.*); do', script)
    assert (names[0], *names[1].split()) == chromium.CHROMIUMS
    assert chromium.INSTALL.split(" ", 2)[2] in script


def test_every_sample_ships():
    assert all(sample(name).is_file() for name in sample_names())


def test_a_missing_file_is_named_with_both_places():
    with pytest.raises(FileNotFoundError, match=r"_data.*sample_data/none\.csv"):
        shipped("sample_data", "none.csv")


# --- wheel, sdist and a clean environment -----------------------------------------------------------------


@pytest.fixture(scope="session")
def sources(tmp_path_factory):
    """Return a copy of what a checkout holds: building must leave no trace in the checkout."""
    folder = tmp_path_factory.mktemp("packaging") / "cepkit"
    ignored = shutil.ignore_patterns(
        "__pycache__", ".venv", ".git", ".artefacts", ".*_cache", "*.egg-info", "build", "dist"
    )
    shutil.copytree(ROOT, folder, ignore=ignored)
    return folder


def pip(python, *arguments):
    done = subprocess.run(
        [python, "-m", "pip", "-q", "--disable-pip-version-check", *map(str, arguments)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="session")
def wheel(sources):
    pip(sys.executable, "wheel", "--no-deps", "-w", sources.parent, sources)
    return next(sources.parent.glob("*.whl"))


@pytest.fixture(scope="session")
def environment(tmp_path_factory):
    """Return the Python of an empty virtual environment."""
    folder = tmp_path_factory.mktemp("clean") / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    return folder / ("Scripts" if os.name == "nt" else "bin") / "python"


@pytest.mark.long
def test_wheel_holds_the_package_and_its_files(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    modules = {path.relative_to(ROOT).as_posix() for path in (ROOT / "cepkit").rglob("*.py")}
    kinds = (".lark", ".properties", ".ttf", ".bitcode")
    others = [path for path in (ROOT / "cepkit").rglob("*") if path.suffix in kinds]
    shipped_files = {
        f"cepkit/_data/{folder}/{path.name}"
        for folder in ("widgets", "sample_data")
        for path in (ROOT / folder).iterdir()
        if path.is_file()
    }
    assert modules <= names
    assert {path.relative_to(ROOT).as_posix() for path in others} <= names and len(others) >= 3
    assert shipped_files <= names
    texts = [path.read_text() for path in (ROOT / "cepkit").rglob("*.py")]
    stems = {stem for text in texts for stem in re.findall(r'= browser_half\("(\w+)"', text)}
    read = {name for text in texts for name in re.findall(r'"(\w+\.(?:js|css))"', text)}
    read |= {f"{stem}.{kind}" for stem in stems for kind in ("js", "css")}
    assert {f"cepkit/_data/widgets/{name}" for name in read} <= names and len(read) >= 2 * 12 + 5
    assert {path.relative_to(ROOT).as_posix() for path in others} <= names and len(others) >= 3
    facts = f"cepkit-{cepkit.__version__}.dist-info"
    assert {name.split("/")[0] for name in names} == {"cepkit", facts}
    assert {"cepkit/py.typed", "cepkit/LICENSE", f"{facts}/licenses/cepkit/LICENSE"} <= names
    assert not {name for name in names if name.endswith(".md")}
    assert wheel.stat().st_size < 3_000_000


@pytest.mark.long
def test_wheel_of_the_sdist_is_the_wheel(sources, wheel, tmp_path):
    build = "import hatchling.build, os; os.chdir({!r}); print(hatchling.build.build_sdist({!r}))"
    tool = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(tool)], check=True)
    pip(tool / "bin" / "python", "install", "hatchling>=1.27")
    code = build.format(str(sources), str(tmp_path))
    subprocess.run([tool / "bin" / "python", "-c", code], check=True, capture_output=True)
    sdist = next(tmp_path.glob("*.tar.gz"))
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    pip(sys.executable, "wheel", "--no-deps", "-w", tmp_path, tmp_path / sdist.name.removesuffix(".tar.gz"))
    of_sdist = zipfile.ZipFile(next(tmp_path.glob("*.whl"))).namelist()
    assert sorted(of_sdist) == sorted(zipfile.ZipFile(wheel).namelist())


LOOK = """
import json, sys
import cepkit
from cepkit._shipped import shipped
loaded = sorted({"numba", "anywidget", "pyspark", "matplotlib"} & set(sys.modules))
peaks = str(shipped("sample_data", "peaks.csv"))
from cepkit.widgets.timeline_view import TimelineView  # reads its modules and its stylesheet
drawn = "export default" in str(TimelineView._esm) and ".cepkit-timeline_view" in str(TimelineView._css)
print(json.dumps({"from": cepkit.__file__, "sample": peaks, "loaded": loaded, "drawn": drawn}))
"""

EXPLORE = """
import json
from cepkit.datasets import load_sample
from cepkit.widgets.base import View
keys = {"partition_by": "symbol", "order_by": "ts"}
explorer = load_sample("peaks").cep.explore("up up\\nup: price > prev(price)", **keys)
n = explorer.wait(300).matches.count()
views = {type(view).__name__: view for view in vars(explorer.board).values() if isinstance(view, View)}
lengths = {name: [len(str(of._esm)), len(str(of._css))] for name, of in views.items()}
print(json.dumps({"n": n, "views": lengths}))
"""


@pytest.mark.long
def test_installed_without_extras_it_runs_anywhere(wheel, environment, sources, tmp_path):
    """The wheel, then an editable install, in an environment with nothing but the base dependencies."""
    variables = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "NUMBA"))
    }
    variables["CEPKIT_CACHE"] = str(tmp_path / "kernels")

    def run(*arguments):
        done = subprocess.run(
            [str(part) for part in arguments], capture_output=True, text=True, env=variables, cwd=tmp_path
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    cepkit_command = environment.with_name("cepkit")
    for what, inside in ((wheel, environment.parents[1]), (("-e", sources), sources)):
        pip(environment, "install", *(what if isinstance(what, tuple) else (what,)))
        found = json.loads(run(environment, "-c", LOOK))
        assert Path(found["from"]).is_relative_to(inside) and Path(found["sample"]).is_relative_to(inside)
        assert found["loaded"] == [] and found["drawn"]
        assert "3 matches, in the order of their last row:" in run(cepkit_command, "demo")
        explored = json.loads(run(environment, "-c", EXPLORE))
        assert explored["n"] > 0 and len(explored["views"]) == 11
        assert all(min(lengths) > 100 for lengths in explored["views"].values()), "modules and styles"
    command = [cepkit_command, *RUN[-1][1:]]
    done = subprocess.run(command, capture_output=True, text=True, env=variables, cwd=tmp_path)
    assert done.returncode == 0 and "123 matches of" in done.stderr and "symbol  rows" in done.stdout
    done = subprocess.run(
        [cepkit_command, "match", "sample:trades", ".", "--engine", "spark"], capture_output=True, text=True
    )
    assert done.returncode == 2 and 'pip install "cepkit[spark]"' in done.stderr


@pytest.mark.long
def test_post_build_of_binder_in_a_fresh_environment(sources, tmp_path):
    """The script runs as on Binder, but for conda: its `python` is new, its home empty."""
    home, folder = tmp_path / "home", tmp_path / "venv"
    home.mkdir()
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    variables = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "NUMBA", "CEPKIT", "VIRTUAL_ENV", "XDG"))
    }
    variables |= {"HOME": str(home), "PATH": os.pathsep.join([str(folder / "bin"), os.environ["PATH"]])}

    def run(*command, **where):
        done = subprocess.run(command, capture_output=True, text=True, env=variables, **where)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run(str(sources / "binder" / "postBuild"), cwd=sources)
    code = "import cepkit, pyspark, scipy, jupyterlab, notebook; print(cepkit.__file__)"
    where = Path(run(str(folder / "bin" / "python"), "-c", code, cwd=tmp_path).strip())
    assert where.is_relative_to(folder)
    assert list((home / ".cache" / "cepkit" / "kernels").rglob("*.kernel")), "no compiled kernels"
