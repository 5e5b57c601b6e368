"""Files are data: nothing in the package runs text of files, and damaged ones are refused with one error."""

from __future__ import annotations

import ast
import contextlib
import io
import json
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import cepkit as cep
from cepkit.commands.cli import main
from cepkit.errors import CepError
from cepkit.explorer.history import load_board
from cepkit.parallel.trace import Trace
from cepkit.pipelines.ingest import is_result, read_report
from tests.support.hostile_names import HOSTILE

PACKAGE = Path(cep.__file__).resolve().parent
MODULES = sorted(PACKAGE.rglob("*.py"))

# What runs code or a shell, and where the package may use it, each for a stated reason.
ALLOWED = {
    # Kernels, whose text the package writes, and initializers of its dataclasses.
    "exec": {"engines/shared/python_kernels.py", "compile/shared/loading.py", "values.py"},
    "compile": {"engines/shared/python_kernels.py", "compile/shared/loading.py"},
    "subprocess": {
        "compile/shared/loading.py",
        "pipelines/spark_session.py",
    },  # this Python, and java -version
    "pickle": {"kernels/jit.py"},  # machine code of numba, after the owner, the mode and the hash of its file
    "yaml": {"detection/sigma.py"},  # only safe_load_all, which makes plain values
    "cloudpickle": {"results/spark_binding.py"},  # sees whether a user's function can reach the workers
}
DANGEROUS = {
    "eval", "exec", "compile", "pickle", "cPickle", "dill", "cloudpickle", "shelve", "marshal", "joblib",
    "subprocess",
    "os.system", "os.popen", "yaml", "pd.read_pickle", "np.load", "pandas.read_pickle", "tarfile",
}  # fmt: skip


def dangerous_in(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names} & DANGEROUS
        elif isinstance(node, ast.ImportFrom):
            found |= {(node.module or "").split(".")[0], *(alias.name for alias in node.names)} & DANGEROUS
        elif isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            found |= {name} & DANGEROUS
            if any(word.arg == "shell" for word in node.keywords) or any(
                word.arg == "allow_pickle" and ast.unparse(word.value) != "False" for word in node.keywords
            ):
                found.add("shell or allow_pickle")
    return found


def test_only_named_modules_run_code_or_programs():
    found = {(name, path.relative_to(PACKAGE).as_posix()) for path in MODULES for name in dangerous_in(path)}
    own = {(name, path) for name, path in found if path not in ALLOWED.get(name, ())}
    assert own == set()


# --- state files, traces, saved explorers, reports


class Runs:
    """An object whose pickle would run code."""

    def __reduce__(self):
        return (print, ("a pickle ran",))


def saved_stream(folder: Path) -> Path:
    frame = pd.DataFrame({"kind": list("AB") * 4, "t": range(8)})
    stream = cep.stream("PATTERN SEQ(A a, B b) WITHIN 3", frame, event_type="kind", order_by="t")
    stream.push(frame)
    stream.save(folder / "state")
    return folder / "state"


def with_member(path: Path, change) -> Path:
    """Return a copy of a state file whose members passed ``change(name, content)``."""
    made = path.with_name("changed")
    with zipfile.ZipFile(path) as before, zipfile.ZipFile(made, "w") as after:
        for name in before.namelist():
            after.writestr(name, change(name, before.read(name)))
    return made


def npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=True)
    return file.getvalue()


def huge(content: bytes) -> bytes:
    """Return an array file whose header promises more than the file has."""
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": "<i8", "fortran_order": False, "shape": (10**13,)})
    return file.getvalue() + content[-8:]


BAD_MEMBERS = {
    "a pickle": lambda name, content: npy(np.array([Runs()])) if name.endswith(".npy") else content,
    "a pickle as header": lambda name, content: pickle.dumps(Runs()) if name == "header.json" else content,
    "a huge array": lambda name, content: huge(content) if name.endswith(".npy") else content,
    "deep JSON": lambda name, content: b"[" * 200_000 if name == "header.json" else content,
    "half of each": lambda name, content: content[: len(content) // 2],
    "zeros": lambda name, content: bytes(len(content)) if name != "header.json" else content,
}


@pytest.mark.parametrize("kind", BAD_MEMBERS)
def test_a_hostile_state_file_is_refused(tmp_path, capsys, kind):
    path = with_member(saved_stream(tmp_path), BAD_MEMBERS[kind])
    with pytest.raises(CepError):
        cep.Stream.load(path)
    assert "a pickle ran" not in capsys.readouterr().out


def test_paths_in_a_state_file_write_nothing(tmp_path):
    path = saved_stream(tmp_path)
    with zipfile.ZipFile(path, "a") as file:
        file.writestr("arrays/../../outside.npy", npy(np.arange(3)))
        file.writestr("../../outside", b"x")
    before = sorted(tmp_path.parent.iterdir())
    with pytest.raises(CepError, match="its parts do not belong together"):
        cep.Stream.load(path)
    assert sorted(tmp_path.parent.iterdir()) == before and not (tmp_path / "outside").exists()


CONTENTS = {
    "a pickle": pickle.dumps(Runs()), "deep JSON": b"[" * 200_000, "no keys": b"{}", "zeros": bytes(100),
    "infinity": b'{"format": 1e999}',
}  # fmt: skip


@pytest.mark.parametrize("kind", CONTENTS)
def test_other_files_are_data_too(tmp_path, capsys, kind):
    content = CONTENTS[kind]
    file, folder = tmp_path / "board", tmp_path / "trace"
    file.write_bytes(content)
    with pytest.raises(CepError):
        load_board(file)
    folder.mkdir()
    for name in ("actions.parquet", "lengths.parquet", "quality.json"):
        (folder / name).write_bytes(content)
    with pytest.raises(CepError):
        Trace.load(folder)
    with pytest.raises(CepError):
        read_report(folder)
    assert not is_result(folder)
    assert "a pickle ran" not in capsys.readouterr().out


# --- names of columns in SQL


@pytest.mark.spark
def test_names_of_columns_stay_names_in_spark(spark, tmp_path):
    from cepkit.pipelines.ingest import read_events

    names = [text for name, text in HOSTILE.items() if name not in ("many", "NUL", "direction")]
    report = {
        "made_by": "cepkit ingest", "format": "inet", "source": [], "target": "x", "n_files": 0,
        "n_records": 0,
        "n_structure": 0, "n_rows": 0, "n_events": 0, "n_quarantined": 0, "n_duplicates": 0, "n_late": 0,
        "n_ties": 0,
        "n_keys": 0, "first": None, "last": None, "reasons": {}, "partition_by": "symbol", "order_by": ["ts"],
        "columns": dict.fromkeys(names, "string"), "period": "day", "n_folders": 0, "n_data_files": 0,
    }  # fmt: skip
    (tmp_path / "events").mkdir()
    (tmp_path / "quality.json").write_text(json.dumps(report))
    assert read_events(tmp_path, spark=spark).columns == [*names, "day"]


@pytest.mark.spark
@pytest.mark.parametrize("name", ["quotes", "sql", "tag", "template"])
def test_hostile_columns_on_spark_give_the_rows_of_pandas(spark, name):
    text = HOSTILE[name]
    from cepkit.language.expressions.printing import quoted_name, quoted_text

    frame = pd.DataFrame({"t": range(6), text: [text, "b"] * 3, "x": range(6)})
    column = quoted_name(text)
    call = {
        "define": {"p": f"{column} = {quoted_text(text)}"}, "order_by": "t", "partition_by": text,
        "measures": {"m": f"first({column})"},
    }  # fmt: skip
    expected = cep.match(frame, "p p", **call).to_frame()
    found = cep.match(spark.createDataFrame(frame), "p p", **call).to_frame().toPandas()
    assert len(expected) and found[["m"]].equals(expected[["m"]].astype(found["m"].dtype))


# --- terminals


@pytest.mark.parametrize("name", sorted({*HOSTILE} - {"many"}))
def test_the_command_line_moves_no_cursor(tmp_path, capsys, name):
    text = HOSTILE[name]
    path = tmp_path / "events.parquet"
    pd.DataFrame({"t": range(3), "s": [text] * 3}).to_parquet(path)
    runs = [
        ["match", str(path), "p", "--define", "p=t > 0", "--measure", "v=first(s)"],
        ["match", str(path), "p", "--define", f"p={text} >"],
        ["match", str(path), text],
        ["match", str(path), "MATCH_RECOGNIZE (MEASURES A.s AS v PATTERN (A) DEFINE A AS t > 0)"],
        ["explain", str(path), "p", "--define", f"p=s = '{text}'"],
        ["match", f"no{text}such.csv", "p"],
        ["match", str(path), "p", f"--{text}"],
    ]
    for arguments in runs:
        with contextlib.suppress(SystemExit):
            main(arguments)
        said = "".join(capsys.readouterr())
        controls = {one for one in said if not one.isprintable()} - {"\n", "\t"}
        assert not controls, (arguments[2:], controls)
