"""The command line: what it prints, what it writes, and that a mistake ends in a message and exit code 2."""

from __future__ import annotations

import io
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import cepkit
from cepkit.commands import cli, files
from cepkit.commands import demo as cepkit_demo
from cepkit.commands.cli import _parser, main
from cepkit.commands.demo import EXAMPLES
from cepkit.commands.ship import INTERPRETING, bundled_queries, count_steps
from cepkit.datasets import SampleNotFoundError, load_sample, sample_names
from cepkit.engines.shared.match_set import MatchSet
from tests.support.waiting import wait_until

UP_DOWN = ["--define", "up=price > prev(price)", "--define", "down=price < prev(price)"]
PEAKS = ["up+ down", *UP_DOWN, "--partition-by", "symbol", "--order-by", "ts"]


@pytest.fixture
def run(capsys):
    """Run a command and return its exit code, its output and its messages."""

    def run(*arguments):
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as exit:  # argparse leaves this way
            code = exit.code
        return code, *capsys.readouterr()

    return run


@pytest.fixture
def peaks(tmp_path):
    """Return the paths of the sample ``peaks`` as Parquet, with categories, and as CSV."""
    frame = load_sample("peaks")
    frame.to_parquet(tmp_path / "peaks.parquet")
    frame.to_csv(tmp_path / "peaks.csv", index=False)
    return tmp_path


def expected():
    """Return the matches of PEAKS by the library itself."""
    define = {"up": "price > prev(price)", "down": "price < prev(price)"}
    return load_sample("peaks").cep.match("up+ down", define=define, partition_by="symbol", order_by="ts")


# --- match ------------------------------------------------------------------------------------------------


def test_match_prints_the_first_matches_their_number_and_the_time(run):
    code, out, err = run("match", "sample:peaks", *PEAKS, "--measure", "top=max(price)", "--limit", 2)
    assert [line.split() for line in out.splitlines()] == [
        ["symbol", "top"],
        ["0", "BOLT", "58"],
        ["1", "ACME", "112"],
    ]
    lines = err.splitlines()
    assert code == 0 and len(lines) == 4
    assert lines[0] == "note: column 'ts' is read as time: '2012-01-03 09:30:00' is 2012-01-03 09:30:00"
    assert lines[1] == "7 matches of 'up+ down' in 60 rows of sample:peaks"
    assert lines[2] == "… 5 more; --limit 7 prints all, --out FILE writes all"
    assert lines[3].startswith("read in ") and " s, matched in " in lines[3]


def _read(source, kind, wanted):
    """Return a written result as a frame with the times of the wanted one."""
    times = _times(wanted)
    match kind:
        case "parquet":
            return pd.read_parquet(source)
        case "csv":
            return pd.read_csv(source, parse_dates=times)
        case "json" | "jsonl":
            found = pd.read_json(source, lines=kind == "jsonl", dtype=False)
            return found.assign(**{name: pd.to_datetime(found[name]) for name in times})


@pytest.mark.parametrize("kind", ["csv", "parquet", "json", "jsonl"])
@pytest.mark.parametrize("rows", ["one", "all"])
def test_out_holds_what_to_frame_gives(run, peaks, kind, rows):
    out = peaks / f"found.{kind}"
    code, _, text = run("match", peaks / "peaks.parquet", *PEAKS, "--rows", rows, "--out", out)
    wanted = expected().to_frame(rows).reset_index(drop=True)
    found = _read(out, kind, wanted)
    assert code == 0 and f"{len(wanted)} rows written to {out}" in text
    pd.testing.assert_frame_equal(_plain(found), _plain(wanted))
    assert sorted(path.name for path in peaks.iterdir()) == sorted(["peaks.csv", "peaks.parquet", out.name])


@pytest.mark.parametrize("kind", ["csv", "json"])
@pytest.mark.parametrize("rows", ["one", "all"])
@pytest.mark.parametrize("place", [["--out", "-"], []])
def test_stdout_has_the_whole_result_and_nothing_else(run, peaks, kind, rows, place):
    code, out, err = run("match", peaks / "peaks.parquet", *PEAKS, "--rows", rows, "--format", kind, *place)
    wanted = expected().to_frame(rows).reset_index(drop=True)
    pd.testing.assert_frame_equal(_plain(_read(io.StringIO(out), kind, wanted)), _plain(wanted))
    assert code == 0 and err.startswith("7 matches of 'up+ down'") and len(err.splitlines()) == 2
    _, out, _ = run(
        "match", peaks / "peaks.parquet", *PEAKS, "--rows", rows, "--format", kind, *place, "--limit", 3
    )
    pd.testing.assert_frame_equal(_plain(_read(io.StringIO(out), kind, wanted)), _plain(wanted.head(3)))


def test_a_whole_table_and_parquet_go_to_stdout(run, peaks, monkeypatch):
    query = ["match", peaks / "peaks.parquet", *PEAKS]
    _, out, _ = run(*query, "--out", "-")
    assert len(out.splitlines()) == 8
    command = [sys.executable, "-m", "cepkit.commands.cli", *map(str, query), "--format", "parquet"]
    made = subprocess.run(command, capture_output=True, check=True)
    wanted = expected().to_frame()
    pd.testing.assert_frame_equal(_plain(pd.read_parquet(io.BytesIO(made.stdout))), _plain(wanted))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    code, out, err = run(*query, "--format", "parquet")
    assert (code, out) == (2, "") and "a terminal cannot show it" in err


def test_the_format_wins_over_the_ending(run, peaks):
    out = peaks / "found.txt"
    for kind in ("csv", "json"):
        assert run("match", peaks / "peaks.parquet", *PEAKS, "--out", out, "--format", kind)[0] == 0
        wanted = expected().to_frame()
        pd.testing.assert_frame_equal(_plain(_read(out, kind, wanted)), _plain(wanted))
    assert run("match", peaks / "peaks.parquet", *PEAKS, "--out", out)[0] == 0
    assert out.read_text().splitlines()[0].split() == list(wanted)


def test_json_keeps_microseconds_and_letters(run, tmp_path):
    frame = pd.DataFrame(
        {"ts": pd.to_datetime(["2024-01-31 09:30:00.123456"]).as_unit("us"), "name": ["Größe"], "x": [1.5]}
    )
    frame.to_parquet(tmp_path / "x.parquet")
    query = ["hit", "--define", "hit=x > 1", "--measure", "at=first(ts)", "--measure", "name=first(name)"]
    _, out, _ = run("match", tmp_path / "x.parquet", *query, "--format", "json")
    assert out == '[{"at":"2024-01-31T09:30:00.123456","name":"Größe"}]\n'


def _times(frame):
    return [name for name in frame if pd.api.types.is_datetime64_any_dtype(frame[name])]


def _plain(frame):
    frame = frame.astype({"symbol": object} | ({"variable": object} if "variable" in frame else {}))
    return frame.astype({name: "datetime64[ns]" for name in _times(frame)})


def test_csv_and_parquet_give_the_same_matches(run, peaks):
    _, of_csv, _ = run("match", peaks / "peaks.csv", *PEAKS)
    _, of_parquet, _ = run("match", peaks / "peaks.parquet", *PEAKS)
    assert of_csv == of_parquet and len(of_csv.splitlines()) == 8


def test_several_files_are_one_stream(run, peaks):
    frame = load_sample("peaks")
    for number, part in enumerate(np.array_split(np.arange(60), 3)):
        frame.iloc[part].to_csv(peaks / f"part{number}.csv", index=False)
    code, _, err = run("match", peaks / "part[01].csv", peaks / "part2.csv", *PEAKS)
    assert code == 0 and "\n7 matches of 'up+ down' in 60 rows of 3 files\n" in err


def test_rows_all_prints_rows_up_to_the_limit(run):
    _, out, err = run("match", "sample:peaks", *PEAKS, "--rows", "all", "--limit", 4)
    variables = [line.split()[1] for line in out.splitlines()[1:]]
    assert variables == ["up", "up", "up", "down"]
    n_rows = len(expected().to_frame("all"))
    assert f"\n… {n_rows - 4} more rows; --out FILE writes all\n" in err
    _, out, err = run("match", "sample:peaks", *PEAKS, "--rows", "all", "--limit", n_rows)
    assert len(out.splitlines()) == 1 + n_rows and "more" not in err


def test_the_rows_of_a_regex_are_counted_without_a_list(run, monkeypatch):
    n_rows = len(expected().to_frame("all"))
    build, n_built = MatchSet.lineage.func, []

    def lineage(found):
        n_built.append(len(found))
        return build(found)

    monkeypatch.setattr(MatchSet, "lineage", property(lineage))
    _, _, err = run("match", "sample:peaks", *PEAKS, "--rows", "all", "--limit", 4)
    assert f"… {n_rows - 4} more rows" in err
    assert n_built and max(n_built) < len(expected())


def test_the_rows_of_sequences_are_counted(run, tmp_path):
    pd.DataFrame({"kind": list("aabb") * 9, "x": range(36)}).to_parquet(tmp_path / "x.parquet")
    query = [
        "PATTERN SEQ(a x, b+ y[]) WITHIN 6 EVENTS",
        "--event-type",
        "kind",
        "--rows",
        "all",
        "--limit",
        5,
    ]
    _, out, err = run("match", tmp_path / "x.parquet", *query)
    matches = pd.read_parquet(tmp_path / "x.parquet").cep.match(query[0], event_type="kind")
    assert len(out.splitlines()) == 6 and f"… {len(matches.to_frame('all')) - 5:,} more rows" in err


def test_a_limit_shortens_what_stdout_gets_and_no_file(run, tmp_path, monkeypatch):
    monkeypatch.setattr("cepkit.commands.cli.MOST_WRITTEN", 3)
    limited = ["match", "sample:peaks", *PEAKS, "--limit", 2]
    code, out, _ = run(*limited, "--out", "-", "--format", "csv")
    assert code == 0 and len(out.splitlines()) == 3
    code, _, err = run(*limited, "--out", tmp_path / "all.csv")
    assert code != 0 and "7 matches are too many for a file, which takes at most 3" in err


def test_limit_0_prints_the_count_alone(run):
    _, out, err = run("match", "sample:peaks", *PEAKS, "--limit", 0)
    assert out == "" and len(err.splitlines()) == 3


def test_no_match_says_where_to_look(run):
    code, out, err = run("match", "sample:peaks", "never", "--define", "never=price > 1e9")
    assert (code, out) == (0, "")
    assert err.startswith("no match of 'never' in 60 rows of sample:peaks\n`cepkit explain` with the same")


@pytest.mark.parametrize(
    ("value", "condition"),
    [("57", "price == :v"), ("57.0", "price == :v"), ("BOLT", "symbol == :v"), ("'BOLT'", "symbol == :v")],
)
def test_params_are_numbers_or_texts(run, value, condition):
    code, _, err = run(
        "match", "sample:peaks", "hit", "--define", f"hit={condition}", "--param", f"v={value}"
    )
    frame = load_sample("peaks")
    wanted = (frame["symbol"] == "BOLT").sum() if "BOLT" in value else (frame["price"] == 57).sum()
    assert code == 0 and err.startswith(f"{wanted} match")


def test_a_window_without_unit_fits_a_clock_that_is_a_number(run, peaks):
    frame = load_sample("peaks").assign(step=np.arange(60))
    frame.to_parquet(peaks / "steps.parquet")
    query = ["up+ down", *UP_DOWN, "--partition-by", "symbol", "--within", "4", "--limit", "0"]
    code, _, err = run("match", peaks / "steps.parquet", *query, "--order-by", "step")
    define = {"up": "price > prev(price)", "down": "price < prev(price)"}
    wanted = frame.cep.match("up+ down", define=define, partition_by="symbol", order_by="step", within=4)
    assert code == 0 and err.startswith(f"{wanted.count()} matches")
    code, _, err = run("match", peaks / "steps.parquet", *query, "--order-by", "ts")
    assert code == 2 and "a duration needs a unit" in err


def test_a_window_may_leave_its_limit_out(run, peaks):
    frame = pd.DataFrame({"ts": [0, 1, 3, 10, 12], "price": [1, 2, 3, 1, 2]})
    frame.to_parquet(peaks / "limits.parquet")
    query = [
        ". up",
        "--define",
        "up=price > prev(price)",
        "--order-by",
        "ts",
        "--within",
        "2",
        "--limit",
        "0",
        "--after-match",
        "past_last",
    ]
    for more, n in (([], 2), (["--within-exclusive"], 1)):
        code, _, err = run("match", peaks / "limits.parquet", *query, *more)
        assert code == 0 and f"\n{n} match" in f"\n{err}", err


def test_names_may_be_given_apart_or_with_commas(run, peaks):
    frame = load_sample("peaks").assign(seq=np.arange(60))
    frame.to_parquet(peaks / "seq.parquet")
    texts = [
        run("match", peaks / "seq.parquet", "up+ down", *UP_DOWN, *order, "--limit", "3")[1].splitlines()[:5]
        for order in (["--order-by", "ts,seq"], ["--order-by", "ts", "--order-by", "seq"])
    ]
    assert texts[0] == texts[1] and len(texts[0]) == 4


# --- CSV --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("texts", "first", "note"),
    [
        (["2012-01-03 09:30:00", "2012-01-03 09:30:01.5"], None, "is sorted as text"),  # two formats
        (["03/01/2012", "04/01/2012"], "2012-03-01", "is read as time: '03/01/2012' is 2012-03-01"),
        (
            ["2012-01-03T09:30:00+01:00", "2012-07-03T09:30:00+02:00"],
            "2012-01-03 08:30:00+00:00",
            "read as time",
        ),
        (["first", "second"], None, "is no time (the first value"),
    ],
)
def test_a_column_of_text_in_the_order_is_read_as_time_if_all_of_it_is(tmp_path, texts, first, note):
    pd.DataFrame({"ts": texts, "price": [1, 2]}).to_csv(tmp_path / "x.csv", index=False)
    frame, notes = files.read_pandas([str(tmp_path / "x.csv")], ["ts"])
    assert len(notes) == 1 and note in notes[0]
    assert list(frame["ts"]) == texts if first is None else frame["ts"].iloc[0] == pd.Timestamp(first)


def test_a_column_of_numbers_in_the_order_stays_numbers(tmp_path):
    pd.DataFrame({"ts": [3, 4]}).to_csv(tmp_path / "x.csv", index=False)
    frame, notes = files.read_pandas([str(tmp_path / "x.csv")], ["ts"])
    assert frame["ts"].tolist() == [3, 4] and notes == []


def test_tab_separated_and_compressed_files_are_read(tmp_path):
    frame = pd.DataFrame({"a": [1, 2], "b": [3.5, 4.5]})
    frame.to_csv(tmp_path / "x.tsv.gz", sep="\t", index=False)
    found, _ = files.read_pandas(files.table_files([str(tmp_path / "x.tsv.gz")]))
    pd.testing.assert_frame_equal(found, frame)


@pytest.mark.parametrize("name", sample_names())
def test_samples_that_are_tables_are_read_and_others_refused(name):
    try:
        wanted = load_sample(name)
    except SampleNotFoundError:
        with pytest.raises(files.UnreadableFileError, match="is a raw file and no table"):
            files.table_files([f"sample:{name}"])
    else:
        frame, _ = files.read_pandas(files.table_files([f"sample:{name}"]))
        assert frame.shape == wanted.shape


# --- mistakes ---------------------------------------------------------------------------------------------

MISTAKES = {
    "misspelt file": (["match", "peaks.cvs", *PEAKS], "no file 'peaks.cvs'. Did you mean 'peaks.csv'?"),
    "missing folder": (["match", "nowhere/x.csv", *PEAKS], "there is no folder 'nowhere'"),
    "no file fits": (["match", "*.tsv", *PEAKS], "no file matches '*.tsv'"),
    "unknown sample": (["match", "sample:peak", *PEAKS], "Did you mean 'peaks'?"),
    "unknown kind of file": (["match", "notes.txt", *PEAKS], "the content is none of CSV, JSON Lines"),
    "damaged Parquet": (["match", "damaged.parquet", *PEAKS], "cannot read"),
    "empty CSV": (["match", "empty.csv", *PEAKS], "cannot read"),
    "CSV that is not text": (["match", "binary.csv", *PEAKS], "cannot read"),
    "two kinds of files": (["match", "peaks.csv", "peaks.parquet", *PEAKS], "not of the same kind"),
    "other columns": (["match", "peaks.csv", "other.csv", *PEAKS], "['price'] missing, ['prize'] more"),
    "empty folder": (["match", "folder", *PEAKS], "holds no Parquet file"),
    "address": (["match", "s3://bucket/x.parquet", *PEAKS], "--engine spark"),
    "misspelt column": (["match", "peaks.csv", "x", "--define", "x=prize > 1"], "Did you mean 'price'?"),
    "misspelt key": (["match", "peaks.csv", *PEAKS, "--partition-by", "symbl"], "Did you mean 'symbol'?"),
    "aggregate in the first predicate": (
        ["match", "peaks.csv", "x", "--define", "x=price > first(price)"],
        "put '.' first",
    ),
    "bracket": (["match", "peaks.csv", "(x", "--define", "x=price > 1"], "'(' is never closed"),
    "wrong type": (["match", "peaks.csv", "x", "--define", "x=symbol > 1"], "cannot be compared"),
    "misspelt key, explained": (
        ["explain", "peaks.csv", *PEAKS, "--partition-by", "symbl"],
        "Did you mean 'symbol'?",
    ),
    "duration without unit": (["match", "peaks.csv", *PEAKS, "--within", "5"], "a duration needs a unit"),
    "define without name": (["match", "peaks.csv", "x", "--define", "price >= 3"], "expected NAME=…"),
    "define twice": (["match", "peaks.csv", *PEAKS, "--define", "up=price > 1"], "'up' is given twice"),
    "no value": (["match", "peaks.csv", "x", "--define", "x="], "expected NAME=…"),
    "no such predicate": (["match", "peaks.csv", "up+ dwn", *UP_DOWN], "Did you mean 'down'?"),
    "sequence": (["match", "peaks.csv", "PATTERN SEQ(A a)"], "event_type: the pattern has events of type A"),
    "result without kind": (
        ["match", "peaks.csv", *PEAKS, "--out", "x.xls"],
        "ends in .parquet, .csv, .json or .jsonl",
    ),
    "result in no folder": (["match", "peaks.csv", *PEAKS, "--out", "no/x.csv"], "there is no folder 'no'"),
    "result over a source": (
        ["match", "peaks.csv", *PEAKS, "--out", "./peaks.csv"],
        "is one of the input files",
    ),
    "no pattern": (["match", "peaks.csv"], "required: PATTERN"),
    "negative limit": (["match", "peaks.csv", *PEAKS, "--limit", "-1"], "expected"),
    "unknown engine": (["match", "peaks.csv", *PEAKS, "--engine", "polars"], "'pandas'"),
    "misspelt option": (["match", "peaks.csv", *PEAKS, "--orderby=ts"], "Did you mean '--order-by'?"),
    "misspelt command": (["mach", "peaks.csv", *PEAKS], "Did you mean 'match'?"),
    "unknown format of a result": (["match", "peaks.csv", *PEAKS, "--format", "xls"], "'json'"),
    "unknown format": (["ingest", "inett", "sample:inet", "target"], "Did you mean 'inet'?"),
    "sample that is a table": (
        ["ingest", "atom", "sample:tweets", "target"],
        "sample:tweets is a table and needs no `cepkit ingest`",
    ),
    "unknown option": (["ingest", "inet", "sample:inet", "t", "--option", "dat=1"], "Did you mean 'date'?"),
    "reserved option": (["ingest", "inet", "sample:inet", "t", "--option", "mode=1"], "not an option"),
    "target in a file": (["ingest", "inet", "sample:inet", "notes.txt/out"], "which is a file"),
    "source without a name": (["ingest", "inet", "x" * 300, "out"], "File name too long"),
    "foreign target": (["ingest", "inet", "sample:inet", "."], "it is not changed"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_ends_in_a_message(run, peaks, monkeypatch, mistake):
    monkeypatch.chdir(peaks)
    (peaks / "folder").mkdir()
    (peaks / "notes.txt").write_text("nothing")
    (peaks / "empty.csv").write_text("")
    (peaks / "binary.csv").write_bytes(bytes([0xFF, 0xFE, 0x00, 0xD8, 0x0A]) * 5)
    (peaks / "damaged.parquet").write_bytes((peaks / "peaks.parquet").read_bytes()[:200])
    load_sample("peaks").rename(columns={"price": "prize"}).to_csv(peaks / "other.csv", index=False)
    before = sorted(path.name for path in peaks.iterdir())
    arguments, message = MISTAKES[mistake]
    code, out, err = run(*arguments)
    assert code == 2 and out == ""
    assert message in err and "Traceback" not in err
    assert err.splitlines()[-1] != "" and sorted(path.name for path in peaks.iterdir()) == before


def test_warnings_are_a_line(run):
    code, _, err = run("match", "sample:peaks", "up down*", *UP_DOWN)
    assert code == 0
    assert err.startswith("warning: ") and len(err.splitlines()) == 4 and ".py" not in err


def test_ctrl_c_ends_with_130_and_one_line(run, monkeypatch):
    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr(cepkit_demo, "demo", interrupted)
    assert run("demo") == (130, "", "cepkit demo: interrupted\n")


def test_ctrl_c_while_the_arguments_are_read(run, monkeypatch):
    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "_parser", interrupted)
    assert run("demo") == (130, "", "cepkit: interrupted\n")


@pytest.mark.skipif(os.name != "posix", reason="never: signals are POSIX")
@pytest.mark.parametrize("started", ["script", "module"])
@pytest.mark.parametrize("module", ["pandas", "shlex"])  # the package loads the first, the command the second
def test_ctrl_c_while_modules_load(tmp_path, started, module):
    script, modules = tmp_path / "cepkit", tmp_path / "modules"
    script.write_text("import sys\nfrom cepkit.commands.cli import main\nsys.exit(main())\n")
    modules.mkdir()
    (modules / f"{module}.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    command = [sys.executable, *([script] if started == "script" else ["-m", "cepkit.commands.cli"]), "demo"]
    root = str(Path(cepkit.__file__).parents[1])
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(modules), root])}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=60, env=environment,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a background job ignores it
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "cepkit: interrupted\n")


@pytest.mark.skipif(os.name != "posix", reason="never: signals are POSIX")
def test_a_program_that_imports_cepkit_keeps_its_handling_of_ctrl_c():
    program = "import signal, cepkit; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    assert done.stdout == "True\n"


@pytest.mark.skipif(os.name != "posix", reason="never: signals are POSIX")
def test_ctrl_c_stops_a_run_that_goes_on(tmp_path):
    n = 200_000  # every row stays a live start: some 10^10 looks at partial matches
    pd.DataFrame({"price": np.zeros(n, np.int64)}).to_parquet(tmp_path / "flat.parquet")
    query = [". flat+ up", "--define", "flat=price <= max(price)", "--define", "up=price > max(price)"]
    command = [sys.executable, "-m", "cepkit.commands.cli", "match", str(tmp_path / "flat.parquet"), *query]
    environment = os.environ | {"CEPKIT_CACHE": str(tmp_path / "kernels"), "NUMBA_DISABLE_JIT": "0"}
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a background job ignores it
    )  # fmt: skip
    # The machine code is saved before it runs. It is about to run or runs: both must end alike.
    wait_until(lambda: process.poll() is not None or any(tmp_path.glob("kernels/**/*.kernel")))
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    assert err.splitlines()[-1] == "cepkit match: interrupted" and "Traceback" not in err


def test_a_reader_that_leaves_early_is_no_error():
    command = f"{sys.executable} -m cepkit.commands.cli match sample:trades . --limit 20000 | head -1"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.split()[-1] == "count"
    assert "Error" not in done.stderr


# --- the other commands -----------------------------------------------------------------------------------


def test_explain_says_what_the_accessor_says(run, peaks):
    code, out, _ = run("explain", peaks / "peaks.parquet", *PEAKS)
    define = {"up": "price > prev(price)", "down": "price < prev(price)"}
    wanted = load_sample("peaks").cep.explain("up+ down", define=define, partition_by="symbol", order_by="ts")
    assert (code, out) == (0, f"{wanted}\n")


def test_demo_draws_every_match(run):
    code, out, _ = run("demo")
    assert code == 0
    assert "3 matches, in the order of their last row:" in out
    assert ". r r r r d d d r r r r d d d D . r r r d d d r r r r d d D" in out  # both of ACME
    assert ". r r r d d d r r r d d d D\n" in out  # BOLT's, and not its last climb


def test_demo_prints_commands_that_run(run):
    _, out, _ = run("demo")
    code = out.split("The same from Python:\n\n")[1].split("\n\nand on")[0]
    names: dict = {}
    lines = [line[2:] for line in code.splitlines()]
    exec("\n".join([*lines[:3], "found = " + "\n".join(lines[3:])]), names)
    assert names["found"].count() == 3


@pytest.mark.slow
def test_warmup_compiles_every_bundled_query(run, tmp_path, monkeypatch):
    monkeypatch.setenv("CEPKIT_CACHE", str(tmp_path / "kernels"))
    monkeypatch.setenv("CEPKIT_TIER", "auto")
    code, out, _ = run("warmup")
    assert code == 0 and os.environ["CEPKIT_TIER"] == "auto"
    assert len(list((tmp_path / "kernels").glob("cepkit_kernel_*.image"))) >= 2  # of each bundled query
    modules = [name.rsplit(".", 1)[-1] for name in INTERPRETING]
    names = [*modules, *(name for name, *_ in bundled_queries())]
    assert len(names) == count_steps()
    assert [line.split()[0] for line in out.splitlines()[:-1]] == names
    assert str(tmp_path / "kernels") in out.splitlines()[-1]


def test_the_command_alone_prints_help(run):
    code, out, err = run()
    assert (code, err) == (0, "") and out.startswith("usage: cepkit") and "examples" in out


def test_explain_takes_every_argument_of_match():
    commands = _parser()._subparsers._group_actions[0].choices
    of_match, of_explain = (
        {*command._option_string_actions} for command in (commands["match"], commands["explain"])
    )
    assert of_explain == of_match


def test_explain_with_the_arguments_of_match(run, tmp_path):
    query = ["sample:peaks", *PEAKS, "--within", "1 min", "--measure", "top=max(price)"]
    _, wanted, _ = run("explain", *query)
    others = ["--rows", "all", "--limit", 5, "--out", tmp_path / "x.csv", "--format", "csv"]
    code, out, _ = run("explain", *query, *others)
    assert (code, out) == (0, wanted) and "up+ down" in out and not any(tmp_path.iterdir())


@pytest.mark.parametrize(("said", "command"), EXAMPLES, ids=[said for said, _ in EXAMPLES])
def test_examples_run_as_they_are(run, said, command):
    name, *arguments = shlex.split(command)
    code, out, err = run(*arguments)
    assert (name, code) == ("cepkit", 0) and "warning" not in err and "no match" not in err
    assert out or "--limit 0" in command
    _, listed, _ = run("examples")
    assert f"# {said}\n{command}\n" in listed


def test_version(run):
    assert run("--version") == (0, f"cepkit {cepkit.__version__}\n", "")


@pytest.mark.parametrize("rows", ["one", "all"])
def test_spark_gives_what_pandas_gives(run, spark, peaks, rows):
    texts = {}
    for engine, name in (("pandas", "peaks.parquet"), ("spark", "peaks.csv"), ("spark", "peaks.parquet")):
        out = peaks / f"{engine}-{name}.csv"
        query = [*PEAKS, "--rows", rows, "--engine", engine, "--out", out]
        before = spark.conf.get("spark.sql.timestampType")
        code, text, err = run("match", peaks / name, *query)
        assert spark.conf.get("spark.sql.timestampType") == before
        assert code == 0 and f" in {'60 rows of ' if engine == 'pandas' else ''}{peaks / name}" in err, err
        texts[engine, name] = [text, out.read_text()]
    assert len(texts) == 3 and len({tuple(text) for text in texts.values()}) == 1


def test_spark_says_when_the_order_is_not_total(run, spark):
    query = ["down", "--define", "down=price < prev(price)", "--order-by", "ts", "--partition-by", "symbol"]
    code, out, err = run("match", "sample:trades", *query, "--engine", "spark")
    assert (code, out) == (2, "") and "ties" in err.splitlines()[-1] and "Traceback" not in err


def test_spark_cannot_read_a_damaged_file(run, spark, peaks):
    (peaks / "damaged.parquet").write_bytes((peaks / "peaks.parquet").read_bytes()[:200])
    code, out, err = run("match", peaks / "damaged.parquet", *PEAKS, "--engine", "spark")
    assert (code, out) == (2, "") and "Spark" in err and "Traceback" not in err


def test_ingest_prints_the_report_and_match_reads_the_target(run, spark, tmp_path):
    target = tmp_path / "trades"
    code, out, _ = run("ingest", "inet", "sample:inet", target, "--option", "date=2001-02-03")
    assert code == 0
    assert "\n    events              400   98.77 %" in out
    assert (
        out.splitlines()[-1]
        == f"next: cepkit match {target} PATTERN --partition-by symbol --order-by ts,seq …"
    )
    code, _, err = run("match", target, "any", "--define", "any=price > 0", "--limit", 0)
    assert code == 0 and err.startswith(f"400 matches of 'any' in 400 rows of {target}\n")


# --- SQL's MATCH_RECOGNIZE ---------------------------------------------------------------------------------

FALLS = """SELECT symbol, low, n FROM peaks MATCH_RECOGNIZE (
  PARTITION BY symbol ORDER BY ts MEASURES LAST(down.price) AS low, COUNT(down.*) AS n
  PATTERN (down{2,} up) DEFINE down AS price < PREV(price), up AS price > PREV(price)) AS m
WHERE n > :least"""


def test_match_recognize_prints_the_rows_of_its_result(run):
    code, out, err = run("match", "sample:peaks", FALLS, "--param", "least=2", "--limit", 2)
    assert code == 0
    assert [line.split() for line in out.splitlines()] == [
        ["symbol", "low", "n"],
        ["0", "ACME", "104", "3"],
        ["1", "ACME", "96", "4"],
    ]
    lines = err.splitlines()
    assert lines[1] == "6 matches of 'DOWN{2,} UP' in 60 rows of sample:peaks"
    assert lines[2] == "… 4 more; --limit 6 prints all, --out FILE writes all"


def test_match_recognize_writes_its_result(run, peaks):
    target = peaks / "falls.csv"
    code, _, err = run("match", peaks / "peaks.csv", FALLS, "--param", "least=3", "--out", target)
    assert code == 0 and "2 rows written to" in err
    frame = load_sample("peaks")
    wanted = frame.cep.match(FALLS, params={"least": 3}).to_frame()
    assert pd.read_csv(target).to_dict("list") == wanted.to_dict("list")
    code, out, _ = run("match", "sample:peaks", FALLS, "--param", "least=3", "--format", "csv")
    assert out.splitlines()[0] == "symbol,low,n" and len(out.splitlines()) == 3


def test_explain_of_match_recognize(run):
    code, out, _ = run("explain", "sample:peaks", FALLS, "--param", "least=2")
    assert code == 0
    assert out.startswith("pattern      DOWN{2,} UP\n") and "cost         linear" in out
    assert "where        n > :least" in out


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--define", "up=price > 3"], "--define: MATCH_RECOGNIZE has clauses for this"),
        (["--order-by", "ts"], "--order-by: MATCH_RECOGNIZE has clauses for this"),
        (["--rows", "all"], "write ALL ROWS PER MATCH"),
        ([], "params gives no value for :least"),
    ],
)
def test_mistakes_of_match_recognize_end_in_a_message(run, arguments, message):
    code, out, err = run("match", "sample:peaks", FALLS, *arguments)
    assert code == 2 and not out and message in err
