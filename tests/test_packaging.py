"""What is installed is what is needed: the README's commands and examples, pages, wheel, sdist, checkout."""

from __future__ import annotations

import doctest
import email
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
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

import cepkit
from cepkit.cache import shipped
from cepkit.commands.cli import main
from cepkit.datasets import sample, sample_names
from cepkit.language.expressions.parsing import GRAMMARS, tables_path
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
    assert len(README.splitlines()) <= 151
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
    assert sorted(", ".join(rows).split(", ")) == sorted(stages) and len(stages) == 10


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
    for name in ("binder/postBuild", ".ci/run", ".ci/execute", ".ci/lock"):
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


KINDS = {".py", ".md", ".lark", ".tables", ".bitcode", ".properties", ".ttf", ".typed", ""}  # "": licences
DATA_KINDS = {"widgets": {".js", ".css"}, "sample_data": {".csv", ".txt", ".parquet", ".xml"}}
FOR_CONTRIBUTORS = "cepkit/README.md"


def package_files():
    """Return the files of the package and of its data by their names in a wheel."""
    own = [path for path in (ROOT / "cepkit").rglob("*") if path.is_file()]
    found = {path.relative_to(ROOT).as_posix(): path for path in own if "__pycache__" not in path.parts}
    for folder in DATA_KINDS:
        found |= {f"cepkit/_data/{folder}/{path.name}": path for path in (ROOT / folder).iterdir()}
    del found[FOR_CONTRIBUTORS]
    return found


def test_package_files_are_of_known_kinds():
    """All files here are in the wheel, so no other file may be among them."""
    for name, path in package_files().items():
        [folder] = [of for of in DATA_KINDS if name.startswith(f"cepkit/_data/{of}/")] or [None]
        assert path.suffix in (DATA_KINDS[folder] if folder else KINDS), f"{name} would be in the wheel"
        assert not path.name.startswith((".", "test_")), f"{name} would be in the wheel"


def test_package_files_are_small():
    size = {name: path.stat().st_size for name, path in package_files().items()}
    assert sum(size.values()) < 12_000_000
    assert [name for name, n_bytes in size.items() if n_bytes > 200_000] == []


@pytest.mark.slow
def test_wheel_holds_the_package_and_its_files(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        content = {name: archive.read(name) for name in names}
    assert len(names) == len(set(names))
    facts = f"cepkit-{cepkit.__version__}.dist-info"
    files = package_files()
    written = {f"{facts}/{name}" for name in ("METADATA", "WHEEL", "RECORD", "entry_points.txt")}
    assert set(names) == set(files) | written | {f"{facts}/licenses/cepkit/LICENSE"}
    assert [name for name, path in files.items() if content[name] != path.read_bytes()] == []
    texts = [path.read_text() for path in (ROOT / "cepkit").rglob("*.py")]
    stems = {stem for text in texts for stem in re.findall(r'= browser_half\("(\w+)"', text)}
    read = {name for text in texts for name in re.findall(r'"(\w+\.(?:js|css))"', text)}
    read |= {f"{stem}.{kind}" for stem in stems for kind in ("js", "css")}
    assert {f"cepkit/_data/widgets/{name}" for name in read} <= set(names) and len(read) >= 2 * 12 + 5
    for grammar in GRAMMARS:
        tables = tables_path(grammar.stem, grammar.read_text(encoding="utf-8"), "*")
        [name] = [one for one in names if Path(one).match(f"language/tables/{tables.name}")]
        assert len(content[name]) > 1000
    assert wheel.stat().st_size < 3_500_000  # the bitcode of kernels is an eighth of it


@pytest.mark.slow
def test_wheel_says_what_pyproject_says(wheel):
    with zipfile.ZipFile(wheel) as archive:
        [name] = [one for one in archive.namelist() if one.endswith(".dist-info/METADATA")]
        said = email.message_from_bytes(archive.read(name))
    assert (said["Name"], said["Version"]) == ("cepkit", cepkit.__version__)
    assert said["Requires-Python"] == PROJECT["requires-python"]
    asked = [Requirement(line) for line in said.get_all("Requires-Dist")]
    assert {str(one) for one in asked if not one.marker} == set(
        map(str, map(Requirement, PROJECT["dependencies"]))
    )
    assert set(said.get_all("Provides-Extra")) == set(PROJECT["optional-dependencies"])


@pytest.mark.slow
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
from cepkit.cache import shipped
loaded = sorted({"numba", "anywidget", "pyspark", "matplotlib"} & set(sys.modules))
peaks = str(shipped("sample_data", "peaks.csv"))
from cepkit.widgets.timeline_view import TimelineView  # reads its modules and its stylesheet
drawn = "export default" in str(TimelineView._esm) and ".cepkit-timeline_view" in str(TimelineView._css)
print(json.dumps({"from": cepkit.__file__, "sample": peaks, "loaded": loaded, "drawn": drawn}))
"""

MATCH = """
import json, os
from pathlib import Path
import lark
import cepkit as cep
from cepkit.datasets import load_sample
peaks = load_sample("peaks")
keys = {"partition_by": "symbol", "order_by": "ts"}
rises = "MEASURES count(*) AS n ONE ROW PER MATCH PATTERN (a b+) DEFINE b AS price > PREV(price)"
pairs = "PATTERN SEQ(ACME a, BOLT b) WHERE b.price > 50 WITHIN 3 s"
siddhi = "from every e1=P -> e2=P[price > e1.price] select e1.ts insert into B"
n = [
    len(peaks.cep.match(". up", define={"up": "price > prev(price)"}, **keys)),
    len(peaks.cep.match(pairs, event_type="symbol", order_by="ts")),
    len(cep.match(peaks, f"MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY ts {rises})")),
    len(cep.siddhi(siddhi, P=peaks, order_by="ts").to_frame()),
]
made = [path.name for path in Path(os.environ["CEPKIT_CACHE"]).glob("cepkit_grammar_*")]
print(json.dumps({"n": n, "lark": lark.__version__, "made": made}))
"""

EXPLORE = """
import json
from cepkit.datasets import load_sample
from cepkit.widgets.scene_view import View
keys = {"partition_by": "symbol", "order_by": "ts"}
explorer = load_sample("peaks").cep.explore("up up\\nup: price > prev(price)", **keys)
n = explorer.wait(300).matches.count()
views = {type(view).__name__: view for view in vars(explorer.board).values() if isinstance(view, View)}
lengths = {name: [len(str(of._esm)), len(str(of._css))] for name, of in views.items()}
print(json.dumps({"n": n, "views": lengths}))
"""


def shipped_tables(version):
    """Return the files of tables that come with the package for a version of lark."""
    texts = {grammar.stem: grammar.read_text(encoding="utf-8") for grammar in GRAMMARS}
    return [path for name, text in texts.items() if (path := tables_path(name, text, version)).is_file()]


@pytest.mark.slow
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
        matched = json.loads(run(environment, "-c", MATCH))
        assert min(matched["n"]) > 0, matched
        tables = shipped_tables(matched["lark"])
        assert not tables or matched["made"] == [], "no parser is made where its tables come with the package"
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


@pytest.mark.slow
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
