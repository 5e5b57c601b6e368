"""The command ``cepkit types``: type checkers know ``df.cep`` on the frames of other libraries."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cepkit.commands import files as stubs
from cepkit.commands.cli import main
from cepkit.errors import CepError

CODE = """\
import cepkit
import pandas as pd
import polars as pl
from pyspark.sql import DataFrame

pandas = pd.DataFrame({"a": [1]}).head(2)
def ask(spark: DataFrame, lazy: pl.LazyFrame):
    reveal_type(pandas.cep)
    reveal_type(pl.DataFrame({"a": [1]}).cep)
    reveal_type(lazy.cep)
    reveal_type(spark.limit(2).cep)
    reveal_type(pandas.cep.why_not("a", rows=[1]))
    pandas.cep.match("a", windin="2 min")
    pandas.cep.mtach("a")
"""


def test_pyright_knows_the_accessor_on_all_frames(tmp_path, capsys):
    pyright = shutil.which("pyright", path=str(Path(sys.executable).parent))
    if pyright is None:
        pytest.skip("pyright is not installed")
    pytest.importorskip("polars")
    assert main(["types", str(tmp_path / "typings")]) == 0
    assert [line.endswith("frame.pyi") for line in capsys.readouterr().out.splitlines()[:4]] == [True] * 4
    (tmp_path / "code.py").write_text(CODE)
    environment = {**os.environ, "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}
    command = [pyright, "--outputjson", "--pythonpath", sys.executable, "code.py"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    if not done.stdout.startswith("{"):
        pytest.skip("pyright has no Node")
    said = [
        (d["range"]["start"]["line"] + 1, d["message"]) for d in json.loads(done.stdout)["generalDiagnostics"]
    ]
    revealed = [message.rpartition(" is ")[2] for line, message in said if line <= 12]
    assert revealed == ['"CepAccessor"'] * 4 + ['"WhyNot"']
    assert "windin" in dict(said)[13] and "mtach" in dict(said)[14]


def test_the_attribute_follows_the_docstring_of_the_class():
    source = 'import a\n\n@b\nclass Frame(a.B):\n    """Rows.\n\n    More.\n    """\n\n    x = 1\n'
    assert stubs.with_accessor(source, "Frame").splitlines() == [
        "import a", "", stubs._IMPORTED, "@b", "class Frame(a.B):",
        '    """Rows.', "", "    More.", '    """',
        *stubs._ATTRIBUTE.splitlines(), "", "    x = 1",
    ]  # fmt: skip
    assert stubs.with_accessor("class Frame:\n    x = 1", "Frame").endswith("_CepAccessor: ...\n    x = 1\n")


def test_a_package_of_stubs_comes_before_the_module(tmp_path, monkeypatch):
    path = tmp_path / "pandas-stubs" / "core" / "frame.pyi"
    path.parent.mkdir(parents=True)
    path.write_text("class DataFrame: ...\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert stubs._source_of("pandas.core.frame") == path


def test_stubs_of_the_user_are_not_changed(tmp_path):
    (tmp_path / "pandas").mkdir()
    (tmp_path / "pandas" / "__init__.pyi").write_text("")
    with pytest.raises(CepError, match="has stubs of its own"):
        stubs.write_stubs(tmp_path)
    assert [path.name for path in tmp_path.rglob("*")] == ["pandas", "__init__.pyi"]
