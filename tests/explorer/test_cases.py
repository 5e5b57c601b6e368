"""Kept cases: their ticks against a plain definition, their life beside the query, and their tests."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from decimal import Decimal
from random import Random

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import cepkit as cep
from cepkit.datasets import load_sample
from cepkit.errors import CepError, CepWarning
from cepkit.explorer import cases as cases_module
from cepkit.explorer.cases import MOST_LITERAL, MOST_ROWS, Case, holds, judge, positions_of_rows
from tests.support.sizes import seeds
from tests.support.waiting import wait_until

REGEX = "up+ down\nup: x > 0.5\ndown: x <= 0.5"
QUERIES = {
    "regex": (REGEX, {}),
    "previous": ("any rise+ low\nany: x >= 0\nrise: x > prev(x)\nlow: x < prev(x)\nwithin: 40", {}),
    "counted": ("PATTERN SEQ(A a, B b) WHERE b.x > a.x WITHIN 12", {"event_type": "kind"}),
    "searched": ("PATTERN SEQ(A a, B+ b[], A c) WHERE c.x > a.x WITHIN 9", {"event_type": "kind"}),
    "next": ("PATTERN SEQ(A a, B b) WHERE skip_till_next_match WITHIN 12", {"event_type": "kind"}),
    "strict": ("PATTERN SEQ(A a, !B b, A c)", {"event_type": "kind", "strategy": "partition"}),
}


def stream(n: int = 120, n_keys: int = 3, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "t": np.arange(n),
            "key": rng.choice([f"k{i}" for i in range(n_keys)], n),
            "kind": rng.choice(list("AB"), n),
            "x": rng.random(n).round(2),
            "note": rng.choice(["it's", 'a "b"', "c"], n),
        }
    )
    return frame.sample(frac=1.0, random_state=seed)  # rows are not in the order of time


def opened(query=REGEX, frame=None, **call):
    frame = stream() if frame is None else frame
    return frame.cep.explore(query, **{"order_by": "t", "partition_by": "key", **call}).wait(60)


def rows_of_matches(explorer) -> list[set[int]]:
    """Return the row numbers of every match, by the public way."""
    frame = explorer._data.frame
    number_of_label = {label: i for i, label in enumerate(frame.index)}
    found = explorer.matches.to_frame("all")
    return [{number_of_label[label] for label in own.index} for _, own in found.groupby("match")]


def defined(case: Case, matches: list[set[int]]) -> bool:
    """Return whether a case holds, word by word as its documentation says."""
    rows = set(case.rows)
    if case.kind == "match":
        has_match = any(own == rows for own in matches)
        return has_match if case.must else not has_match
    if case.kind == "rows":
        has_all = any(row_is_in_all(rows, own) for own in matches)
        return has_all if case.must else not has_all
    if case.must:
        return any(all(row in rows for row in own) for own in matches)
    return all(row not in rows for own in matches for row in own)


def row_is_in_all(rows: set[int], match: set[int]) -> bool:
    return all(row in match for row in rows)


def draw_case(draw: Random, explorer, matches: list[set[int]]) -> Case:
    """Return a case that is near a match or anywhere."""
    frame = explorer._data.frame
    kind, must = draw.choice(["match", "range", "rows"]), draw.random() < 0.5
    if matches and draw.random() < 0.7:
        rows = set(draw.choice(matches))
        if draw.random() < 0.4:
            rows = set(draw.sample(sorted(rows), draw.randint(1, len(rows))))
        if draw.random() < 0.3:
            rows.add(draw.randrange(len(frame)))
    else:
        rows = set(draw.sample(range(len(frame)), draw.randint(1, 4)))
    if kind == "range":  # all rows of the keys and times
        times, keys = frame["t"].to_numpy(), frame["key"].to_numpy()
        low, high = (draw.randrange(3) for _ in range(2))
        first, last = min(times[list(rows)]) - low, max(times[list(rows)]) + high
        own = set(keys[list(rows)])
        rows = {i for i in range(len(frame)) if first <= times[i] <= last and keys[i] in own}
    return Case(kind, must, tuple(rows))


# --- values


@pytest.mark.parametrize("seed", seeds(6, 20))
def test_a_case_survives_json(seed):
    draw = Random(seed)
    rows = draw.sample(range(60), draw.randint(1, 40))
    case = Case(draw.choice(cases_module.KINDS), draw.random() < 0.5, tuple(rows), "k1, 10:00 to 10:07 ✓")
    assert case.rows == tuple(sorted(rows))
    again = Case.from_dict(json.loads(json.dumps(case.to_dict())))
    assert again == case and hash(again) == hash(case)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"kind": "match", "must": True, "rows": [[1]]},
        {"kind": "match", "must": True, "rows": []},
        {"kind": "some", "must": True, "rows": [[1, 1]]},
        {"kind": "rows", "must": True, "rows": [[-3, 1]]},
        {"kind": "rows", "must": True, "rows": [[0, 10**12]]},
        {"kind": "rows", "must": True, "rows": None},
    ],
)
def test_a_wrong_case_is_refused(given):
    with pytest.raises(CepError, match=r"^case: "):
        Case.from_dict(given)


def test_a_case_has_not_too_many_rows():
    with pytest.raises(CepError, match="at most 100,000"):
        Case("range", True, tuple(range(MOST_ROWS + 1)))


# --- ticks


@pytest.mark.parametrize("partition_by", ["key", None])
@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("seed", range(2))
def test_a_tick_is_the_definition(name, partition_by, seed, monkeypatch):
    draw = Random(seed)
    query, call = QUERIES[name]
    explorer = opened(query, stream(seed=seed), partition_by=partition_by, **call)
    assert explorer.status["state"] == "done", explorer.status
    matches, result = rows_of_matches(explorer), explorer._present.shown.result
    place = positions_of_rows(result)
    monkeypatch.setattr(cases_module, "_TOGETHER", draw.choice([1, 7, 1000]))
    seen = set()
    for _ in range(150):
        case = draw_case(draw, explorer, matches)
        wanted = defined(case, matches)
        verdict = judge(case, result, place)
        assert verdict.holds == wanted == holds(case, matches), (case, verdict)
        seen.add((case.kind, case.must, wanted))
    assert len(seen) >= 10 and matches


def test_a_case_that_too_many_matches_may_decide_stays_open(monkeypatch):
    explorer = opened("PATTERN SEQ(A a, B b)", event_type="kind")
    monkeypatch.setattr(cases_module, "MOST_TESTED", 5)
    explorer.keep(rows=[int(np.argmax(stream()["t"] == 1)), int(np.argmax(stream()["t"] == 2))])
    assert explorer.wait(60).verdicts == (None,) or explorer.verdicts == (False,)
    explorer.keep(False, between=(0, 40))
    assert explorer.wait(60).verdicts[-1] in (None, False)
    monkeypatch.setattr(cases_module, "MOST_TESTED", 0)
    explorer.cases = explorer.cases[::-1]
    assert explorer.wait(60).verdicts == (None, None)
    assert "more than 0 matches" in explorer.board.cases.cases[0]["text"]


def test_a_case_of_another_frame_is_open():
    explorer = opened()
    explorer.cases = [Case("rows", True, (5, 100_000))]
    assert explorer.wait(60).verdicts == (None,)
    assert "does not have all rows" in explorer.board.cases.cases[0]["text"]
    with pytest.raises(CepError, match="does not have all rows"):
        explorer.write_test(0)


# --- beside the query


def test_ticks_follow_the_query():
    explorer = opened()
    matches = rows_of_matches(explorer)
    explorer.keep(match=0)
    explorer.keep(False, match=1)
    assert explorer.wait(60).verdicts == (True, False)
    assert explorer.cases[0].rows == tuple(sorted(matches[0]))
    explorer.text = REGEX.replace("0.5", "2.5")
    assert explorer.board.cases.stale
    assert explorer.wait(60).verdicts == (False, True) and not explorer.board.cases.stale
    explorer.text = "up ("
    assert explorer.wait(60).status["state"] == "failed" and explorer.board.cases.stale
    explorer.text = REGEX
    assert explorer.wait(60).verdicts == (True, False) and not explorer.board.cases.stale
    explorer.choose(partition_by=None)
    explorer.wait(60)
    now = rows_of_matches(explorer)
    assert explorer.verdicts == tuple(defined(case, now) for case in explorer.cases)


def test_slider_and_cases_work_together():
    explorer = opened()
    explorer.keep(match=0)
    explorer.move(explorer.sliders[0].id, 0.99)
    explorer.wait(60)
    assert explorer.verdicts == (defined(explorer.cases[0], rows_of_matches(explorer)),)


def wish(explorer, **values):
    view = explorer.board.cases
    view.wanted = {**values, "by": "page", "n": view.wanted.get("n", 0) + 1}
    return explorer.wait(60)


def test_the_board_keeps_what_is_selected_clicked_or_shown():
    explorer = opened()
    view = explorer.board.cases
    assert view.offers == []
    explorer.zoom([10, 30])
    assert [one["id"] for one in explorer.wait(60).board.cases.offers] == ["range"]
    explorer.why_not([0])
    assert [one["id"] for one in explorer.wait(60).board.cases.offers] == ["rows", "range"]
    explorer.select(1)
    assert explorer.wait(60).board.cases.offers[0]["text"] == "match 1"
    explorer.zoom([10, 30])
    explorer.wait(60)
    shown = explorer.board.bar.key["text"].removeprefix("key = ")
    wish(explorer, act="keep", what="range", must=False)
    frame = stream()
    own = (frame["key"] == shown) & frame["t"].between(10, 30)
    assert explorer.cases[0].rows == tuple(np.flatnonzero(own).tolist())
    wish(explorer, act="keep", what="match", must=True)
    wish(explorer, act="keep", what="rows", must=True)
    assert [case.kind for case in explorer.cases] == ["range", "match", "rows"]
    wish(explorer, act="keep", what="match", must=False)  # the same rows: one case, the newest wish
    assert [(case.kind, case.must) for case in explorer.cases][-1] == ("match", False)
    assert len(explorer.cases) == 3
    wish(explorer, act="drop", number=1)
    assert [case.kind for case in explorer.cases] == ["range", "match"]


def test_a_click_zooms_to_a_case():
    explorer = opened()
    explorer.keep(match=0)
    explorer.show_key("k2" if explorer.cases[0].label.startswith("k0") else "k0")
    explorer.wait(60)
    times = stream()["t"].to_numpy()[list(explorer.cases[0].rows)]
    key = stream()["key"].to_numpy()[explorer.cases[0].rows[0]]
    wish(explorer, act="show", number=0)
    low, high = explorer.board.timeline.window
    assert explorer.board.bar.key["text"] == f"key = {key}"
    assert low <= times.min() <= times.max() <= high and high - low < 119
    explorer.choose(partition_by=None)
    explorer.wait(60).show_case(0)
    low, high = explorer.wait(60).board.timeline.window
    assert low <= times.min() <= times.max() <= high < 119


def test_python_keeps_cases_by_match_rows_and_time():
    frame = stream().assign(
        t=lambda one: pd.Timestamp("2026-01-03", tz="Europe/Berlin") + one["t"] * pd.Timedelta("1s")
    )
    explorer = opened(frame=frame)
    case = explorer.keep(between=("2026-01-03 00:00:10", "2026-01-03 00:00:20"), key="k1")
    seconds = stream()["t"].to_numpy()
    assert case.rows == tuple(np.flatnonzero((stream()["key"] == "k1") & (seconds >= 10) & (seconds <= 20)))
    assert case.label.startswith("k1, 00:00:1") and case.label.endswith("rows")
    assert explorer.keep(rows=[7, 3, 7]).rows == (3, 7)
    with pytest.raises(CepError, match="no row 120; rows are numbered from 0 to 119"):
        explorer.keep(rows=[120])
    with pytest.raises(CepError, match="no key 'k9'"):
        explorer.keep(between=(0, 1), key="k9")
    with pytest.raises(CepError, match="no event is in this time"):
        explorer.keep(between=("2027-01-01", "2027-01-02"))
    with pytest.raises(CepError, match="does not exist in Europe/Berlin"):
        explorer.keep(between=("2026-03-29 02:30", "2026-03-30"))
    with pytest.raises(CepError, match="give one of match, rows and between"):
        explorer.keep(rows=[1], match=0)
    with pytest.raises(CepError, match="select a match"):
        explorer.keep()
    with pytest.raises(IndexError):
        explorer.keep(match=10**6)
    explorer.select(0)
    explorer.wait(60)
    assert explorer.keep(False).kind == "match" and len(explorer.cases) == 3
    explorer.drop_case(0)
    assert len(explorer.cases) == 2
    with pytest.raises(CepError, match="there is no case 2"):
        explorer.drop_case(2)
    with pytest.raises(CepError, match="is no Case"):
        explorer.cases = [3]


def test_nothing_is_kept_before_a_result():
    explorer = stream().cep.explore("", order_by="t").wait(60)
    with pytest.raises(CepError, match="no result yet"):
        explorer.keep(rows=[1])
    explorer.cases = [Case("rows", True, (1,))]  # as when a saved explorer opens
    explorer.text = REGEX
    assert explorer.wait(60).verdicts in ((True,), (False,))


# --- tests


def run_tests(folder, texts: dict[str, str]) -> dict[str, bool]:
    """Run each text with pytest; return which of them pass."""
    for name, text in texts.items():
        (folder / f"test_{name}.py").write_text(text, encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-rA",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(folder),
        str(folder),
    ]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=300)
    lines = done.stdout.splitlines()
    passed = {
        name: any(line.startswith("PASSED") and f"test_{name}.py" in line for line in lines) for name in texts
    }
    failed = {
        name: any(
            line.startswith("FAILED") and f"test_{name}.py" in line and "Assertion" in done.stdout
            for line in lines
        )
        for name in texts
    }
    assert all(passed[name] != failed[name] for name in texts), done.stdout + done.stderr
    return passed


def run_here(text: str) -> bool:
    """Run the tests of a text in this process; return whether all pass."""
    space: dict = {}
    exec(compile(text, "kept", "exec"), space)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CepWarning)  # as pytest does: a few rows may lack a type of event
            for name, test in [*space.items()]:
                if name.startswith("test_"):
                    test()
    except AssertionError:
        return False
    return True


@pytest.mark.parametrize("partition_by", ["key", None])
@pytest.mark.parametrize("name", QUERIES)
def test_a_written_test_is_what_the_tick_says(name, partition_by):
    draw = Random(len(name))
    query, call = QUERIES[name]
    measures = {"top": "max(x)"} if name in ("regex", "previous") else None
    explorer = opened(query, partition_by=partition_by, measures=measures, **call)
    matches = rows_of_matches(explorer)
    explorer.cases = [draw_case(draw, explorer, matches) for _ in range(12)]
    verdicts = explorer.wait(60).verdicts
    assert None not in verdicts and len(set(verdicts)) == 2
    for number, is_held in enumerate(verdicts):
        text = explorer.write_test(number)
        assert run_here(text) == is_held, text
        assert "read_parquet" not in text and "measures" not in text


def test_written_tests_run_with_pytest(tmp_path):
    explorer = opened()
    explorer.keep(match=0)
    explorer.keep(False, match=2)
    explorer.keep(rows=[3])
    explorer.keep(False, between=(10, 30), key="k1")
    verdicts = explorer.wait(60).verdicts
    texts = {f"case{i}": explorer.write_test(i) for i in range(4)}
    assert run_tests(tmp_path, texts) == {f"case{i}": held for i, held in enumerate(verdicts)}
    both = explorer.write_test()
    assert both.count("def find_matches") == 1 and both.count("\ndef test_") == 4


def test_a_written_test_has_few_rows_and_a_missing_match_has_rows_around_it():
    explorer = opened()
    n = len(explorer.keep(match=0).rows)
    assert explorer.wait(60).write_test(0).count('"kind"') == 0
    assert f'"key": ["{explorer.cases[0].label[:2]}"] * {n},' in explorer.write_test(0)
    explorer.keep(False, match=0)
    explorer.text = REGEX.replace("0.5", "2.5")
    assert explorer.wait(60).verdicts == (True,)
    assert f"] * {n}," not in explorer.write_test(0)  # otherwise it would say nothing about a later query


def test_a_test_of_many_rows_reads_the_file(tmp_path, monkeypatch):
    frame = stream(4000, 2)
    explorer = opened(frame=frame)
    explorer.keep(between=(0, 3000), key="k1")
    explorer.keep(False, between=(0, 3000), key="k1")
    explorer.keep(between=(0, 3000), key="k0")
    assert len(explorer.cases[-1].rows) > MOST_LITERAL
    verdicts = explorer.wait(60).verdicts
    frame.to_parquet(tmp_path / "df.parquet")
    monkeypatch.chdir(tmp_path)
    for number, is_held in enumerate(verdicts):
        text = explorer.write_test(number)
        assert 'pd.read_parquet("df.parquet")  # a placeholder' in text
        assert run_here(text) == is_held
    assert verdicts == (False, True)


def test_a_test_of_many_rows_of_a_sample_reads_the_sample():
    explorer = opened(
        REGEX.replace("x", "size").replace("0.5", "900"),
        load_sample("trades"),
        order_by=["ts", "seq"],
        partition_by=None,
    )
    explorer._file = "sample:trades", True
    explorer.keep(False, rows=range(0, 900, 3))
    assert explorer.wait(60).verdicts == (True,)
    text = explorer.write_test(0)
    assert 'df = load_sample("trades")\n' in text and run_here(text)


TYPED = {
    "datetime64[s]": pd.date_range("2026-01-01", periods=30, freq="s").as_unit("s"),
    "datetime64[ns]": pd.date_range("2026-01-01", periods=30, freq="s").as_unit("ns") + pd.Timedelta("7ns"),
    "zoned": pd.date_range("2026-03-29 01:59:50", periods=30, freq="s", tz="UTC").tz_convert("Europe/Berlin"),
    "duration": pd.to_timedelta(np.arange(30), unit="s"),
    "integers with nulls": pd.array([None if i % 7 == 3 else i for i in range(30)], dtype="Int64"),
    "large": np.arange(30, dtype=np.int64) + 2**60,
    "unsigned": np.arange(30, dtype=np.uint8),
    "floats": [float("nan") if i == 3 else float("inf") if i == 4 else i / 3 for i in range(30)],
    "booleans": [i % 2 == 0 for i in range(30)],
    "texts": [None if i == 3 else ["it's", 'say "x"', "back\\slash\n"][i % 3] for i in range(30)],
    "categories": pd.Categorical([f"c{i % 4}" for i in range(30)]),
    "decimals": [Decimal(i) / 4 for i in range(30)],
    "dates": pd.Series(pd.date_range("2026-01-01", periods=30)).dt.date,
}


@pytest.mark.parametrize("name", TYPED)
def test_a_written_frame_has_the_values_of_the_frame(name):
    frame = pd.DataFrame({"v": TYPED[name], "x": np.arange(30) % 5})
    query = "up low\nup: x > 2 and v is not null\nlow: x < 2"
    explorer = cep.explore(frame, query, partition_by=None).wait(60)
    assert explorer.status["state"] == "done", explorer.status
    explorer.keep(match=0)
    explorer.keep(rows=[3])
    verdicts = explorer.wait(60).verdicts
    for number, is_held in enumerate(verdicts):
        text = explorer.write_test(number)
        space: dict = {}
        exec(text, space)
        made = []
        space["find_matches"] = lambda df, made=made: made.append(df) or []
        with pytest.raises(AssertionError):
            next(test for own, test in space.items() if own.startswith("test_"))()
        wanted = pa.array(frame["v"].iloc[made[0].index])
        if pa.types.is_dictionary(wanted.type):
            wanted = wanted.cast(wanted.type.value_type)
        assert pa.array(made[0]["v"]).cast(wanted.type).to_pylist() == wanted.to_pylist()
        assert run_here(text) == is_held


@pytest.mark.parametrize("kind", ["labels", "clock", "level", "polars", "arrow"])
def test_a_written_test_has_the_labels_of_the_frame(kind):
    frame = stream().sort_values("t").reset_index(drop=True)
    call = {"order_by": "t", "partition_by": "key"}
    if kind == "labels":
        frame.index = [f"r{i}" for i in range(len(frame))]
    elif kind == "clock":
        frame.index = pd.date_range("2026-01-01", periods=len(frame), freq="s", name="when")
        call["order_by"] = "when"
    elif kind == "level":
        frame = frame.set_index("key", append=True)
    elif kind == "polars":
        frame = pytest.importorskip("polars").from_pandas(frame)
    elif kind == "arrow":
        frame = pa.table(frame)
    explorer = cep.explore(frame, REGEX, **call).wait(60)
    assert explorer.status["state"] == "done", explorer.status
    explorer.keep(match=0)
    explorer.keep(False, match=1)
    assert explorer.wait(60).verdicts == (True, False)
    assert [run_here(explorer.write_test(i)) for i in range(2)] == [True, False]
    if kind == "labels":
        assert '{"r' in explorer.write_test(0)


def is_low(x):
    return x <= 0.5


def test_a_predicate_in_python_comes_with_its_source():
    explorer = opened("up+ is_low", define={"up": "x > 0.5", "is_low": is_low})
    explorer.keep(match=0)
    assert explorer.wait(60).verdicts == (True,)
    text = explorer.write_test(0)
    assert "def is_low(x):\n    return x <= 0.5\n" in text and run_here(text)
    lost = eval("lambda x: x <= 0.5")
    explorer = opened("up+ is_low", define={"up": "x > 0.5", "is_low": lost})
    explorer.keep(match=0)
    with pytest.raises(CepError, match="needs the source of predicate"):
        explorer.wait(60).write_test(0)


def test_the_board_copies_a_test(monkeypatch):
    explorer, sent = opened(), []
    monkeypatch.setattr(
        type(explorer.board.cases), "send", lambda view, content, buffers=None: sent.append(content)
    )
    explorer.keep(match=0)
    wish(explorer, act="test", number=0)
    wait_until(lambda: sent)
    assert sent[0]["by"] == "page" and sent[0]["text"] == explorer.write_test(0)
    wish(explorer, act="test", number=5)
    wait_until(lambda: len(sent) > 1)
    assert "there is no case 5" in sent[1]["error"]
    assert json.dumps(sent)  # it travels
