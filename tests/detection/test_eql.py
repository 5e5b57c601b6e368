"""EQL on frames: random queries against the definition, Elastic's documentation, and the errors."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import cepkit as cep
from cepkit.language.eql import parse_eql
from tests.oracle import eql as oracle
from tests.support.tables import cases

NAMES = ("cmd.exe", "Cmd.EXE", "bash", "b*", "", "cmd", None)


def random_log(rng: np.random.Generator, n: int) -> pd.DataFrame:
    def numbers(most: int, share: float) -> pd.Series:
        values = [None if rng.random() < share else int(x) for x in rng.integers(-most, most, n)]
        return pd.Series(values, dtype="Int64")

    return pd.DataFrame(
        {
            "ts": pd.to_datetime(rng.integers(0, 2 * n, n), unit="s"),
            "kind": rng.choice(["process", "network", "file"], n),
            "process.name": [NAMES[i] for i in rng.integers(0, len(NAMES), n)],
            "pid": numbers(3, 0.2),
            "ppid": numbers(3, 0.2),
            "x": numbers(5, 0.3),
            "host": rng.choice(["a", "b"], n),
        }
    )


def condition(rng: np.random.Generator, depth: int = 2) -> str:
    pick = rng.random()
    if depth and pick < 0.25:
        return f"({condition(rng, depth - 1)} {rng.choice(['and', 'or'])} {condition(rng, depth - 1)})"
    if depth and pick < 0.35:
        return f"not ({condition(rng, depth - 1)})"
    if pick > 0.8:
        return "true"
    number, word = int(rng.integers(-3, 4)), str(rng.choice(["cmd.exe", "CMD*", "b?sh", "b*", "*", "c.*"]))
    name = "process.name"
    return str(
        rng.choice(
            [
                f"x {rng.choice(['<', '<=', '==', '!=', '>', '>='])} {number}",
                f"x + pid * 2 > {number}",
                f"x / {number} <= ppid % 2",
                f"x {rng.choice(['==', '!='])} null",
                f"x not in (1, {number}, ppid)",
                f'{name} {rng.choice(["==", "!=", ":", "like", "like~", "in~", "regex", "<"])} "b.sh"',
                f'{name} : ("{word}", "none")',
                f'{name} not like "{word}"',
                f'startsWith~({name}, "C") or endsWith({name}, "sh")',
                f'stringContains({name}, "{word[0]}") and length({name}) > {number}',
                f'concat({name}, "/", host) == "cmd.exe/a"',
                f'substring({name}, 0, 1) == "b" or indexOf({name}, ".") == 3',
                "null == (x > 1)",
            ]
        )
    )


def random_sequence(rng: np.random.Generator) -> str:
    key = str(rng.choice(["", "by pid", "by ?pid", "by pid % 2, host"]))
    shared = str(rng.choice(["", "by host", "by host, ?x"]))
    span = int(rng.integers(0, 25)) if rng.random() < 0.7 else None
    n = int(rng.integers(1, 4))
    items = []
    for _ in range(n):
        by = key.replace("pid", str(rng.choice(["pid", "ppid"])))
        runs = "with runs=2" if rng.random() < 0.15 else ""
        category = rng.choice(["any", "process", "network"])
        items.append(f"[{category} where {condition(rng)}] {by} {runs}")
    for place in sorted(rng.integers(0, n + 1, int(rng.integers(0, 3))), reverse=True):
        if span is not None:
            items.insert(int(place), f"![{rng.choice(['any', 'file'])} where {condition(rng)}] {key}")
    until = f"until [file where {condition(rng)}] {key}" if rng.random() < 0.4 else ""
    within = "" if span is None else f"with maxspan={span}s"
    return f"sequence {shared} {within} {' '.join(items)} {until}"


def expected(text: str, log: pd.DataFrame) -> list[tuple]:
    """Return the sequences of the definition as index labels."""
    stream = log.sort_values("ts", kind="stable")
    rows = [
        {name: None if item is pd.NA else item for name, item in row.items()}
        for row in stream.assign(ts=stream.ts.astype("datetime64[s]").astype("int64"))
        .astype(object)
        .to_dict("records")
    ]
    for row in rows:
        row["process.name"] = row["process.name"] if isinstance(row["process.name"], str) else None
    query = parse_eql(text)
    span = None if query.maxspan is None else int(query.maxspan[:-1])
    labels = stream.index.tolist()
    found = oracle.sequences(query, rows, "kind", "ts", span)
    return [tuple((step, labels[i]) for step, i in enumerate(result, 1) if i is not None) for result in found]


@pytest.mark.parametrize("seed", range(20))
def test_random_sequences_equal_the_definition(seed, full):
    n_found = 0
    for case in range(250 if full else 12):
        rng = np.random.default_rng([seed, case, 41])
        log = random_log(rng, int(rng.integers(0, 40)))
        text = random_sequence(rng)
        found = cep.eql(text, log, order_by="ts", event_category="kind")
        rows = [
            tuple(zip(group.step.tolist(), group.index.tolist(), strict=True))
            for _, group in found.groupby("sequence")
        ]
        wanted = expected(text, log)
        assert rows == wanted, text
        n_found += len(wanted)
    assert n_found > 0


@pytest.mark.parametrize("seed", range(5))
def test_random_events_equal_the_definition(seed, full):
    for case in range(400 if full else 25):
        rng = np.random.default_rng([seed, case, 43])
        log = random_log(rng, 25)
        text = f"any where {condition(rng, 3)}"
        wanted = sorted(label for ((_, label),) in expected(text, log))
        assert sorted(cep.eql(text, log, order_by="ts", event_category="kind").index) == wanted, text


# What Elastic documents and its public tests expect, as letters of events one millisecond apart.
STREAMS = {
    "short": (range(4), "N N M N"),
    "skip": (range(6), "N N M N N M"),
    "minutes": ((0, 600_001, 1_200_001, 1_260_001, 1_740_001, 1_860_001), "M N M N N N"),
    "long": (range(18), "A B M1 B C M2 D M1 C B C D A B M3 C D M4"),
}


@pytest.mark.parametrize(
    ("stream", "maxspan", "items", "wanted"),
    cases("eql", "missing events as in Elastic"),
)
def test_missing_events_as_in_elastic(stream, maxspan, items, wanted):
    times, tags = STREAMS[stream]
    log = pd.DataFrame({"ts": pd.to_datetime(list(times), unit="ms"), "tag": tags.split()})
    shown = " ".join(
        f'{"!" * (name[0] == "!")}[any where tag == "{name.lstrip("!")}"]' for name in items.split()
    )
    found = cep.eql(f"sequence with maxspan={maxspan} {shown}", log, order_by="ts")
    rows = [[int(place, 36) for place in sequence] for sequence in wanted.split()]
    assert [group.index.tolist() for _, group in found.groupby("sequence")] == rows


LOG = pd.DataFrame(
    {
        "@timestamp": pd.to_datetime("2024-05-01") + pd.to_timedelta(range(11), unit="min"),
        "user.name": ["elkbee" if i in (2, 5, 7, 9) else "root" for i in range(11)],
        "process.name": list("aabbbaabccc"),
        "event.category": ["process"] * 11,
        "args": [["-a", "X"] if i % 2 else None for i in range(11)],
        "process": [{"pid": i, "parent": {"pid": i // 2}} for i in range(11)],
    }
)


def test_the_machine_of_the_documentation():
    text = """sequence by user.name  // of each user
        [process where process.name == "a"] [process where process.name == "b"]
        [process where process.name == "c"]"""
    found = cep.eql(text, LOG)
    assert found.index.tolist() == [1, 3, 8, 5, 7, 9]
    assert found["sequence"].tolist() == [1, 1, 1, 2, 2, 2] and found["step"].tolist() == [1, 2, 3] * 2
    assert list(found)[2:] == list(LOG)
    assert cep.eql(text + " | head 1", LOG).index.tolist() == [1, 3, 8]


def test_pipes():
    text = "process where true | "
    assert cep.eql(text + "tail 3 | head 1", LOG).index.tolist() == [8]
    assert cep.eql(text + "unique user.name", LOG).index.tolist() == [0, 2]
    assert cep.eql(text + "sort process.name, user.name | head 3", LOG).index.tolist() == [5, 0, 1]
    assert cep.eql(text + 'filter user.name : "EL*" | head 1', LOG).index.tolist() == [2]
    counted = cep.eql(text + "count process.name", LOG)
    assert counted.to_dict("list") == {
        "count": [3, 4, 4], "percent": [3 / 11, 4 / 11, 4 / 11], "process.name": ["c", "a", "b"],
    }  # fmt: skip
    assert cep.eql(text + "count", LOG).to_dict("list") == {"count": [11], "percent": [1.0]}
    first = cep.eql(text + "unique_count process.name", LOG)
    assert first.index.tolist() == [0, 2, 8] and first["count"].tolist() == [4, 4, 3]


def test_results_of_pipes_have_columns_of_their_own():
    text = "process where true | unique_count process.name | filter {} | sort user.name"
    assert cep.eql(text.format("count == 4 and percent > 0.3"), LOG).index.tolist() == [2, 0]


def test_a_fork_of_endgame_keeps_the_sequence_before_it():
    log = pd.DataFrame({"k": list("abcbc")})
    text = 'sequence [any where k == "a"] [any where k == "b"] fork={} [any where k == "c"]'
    assert cep.eql(text.format("true"), log, dialect="endgame").index.tolist() == [0, 1, 2, 0, 3, 4]
    assert cep.eql(text.format("false"), log).index.tolist() == [0, 1, 2]


def test_samples_take_different_events_in_any_order():
    log = pd.DataFrame({"host": list("aabbb"), "kind": list("xyxxy"), "n": range(5)})
    text = 'sample by host [any where kind == "y"] [any where kind == "x" or kind == "y"]'
    assert cep.eql(text, log).n.tolist() == [1, 0, 4, 2]
    assert cep.eql('sample by host [any where kind == "y"] [any where kind == "y"]', log).empty
    text = "sample by ?os, host [any where ?os == ?version] [any where n > 0]"
    assert cep.eql(text, log.iloc[::-1]).n.tolist() == [0, 1, 4, 3]


def test_values_in_lists_and_dictionaries():
    assert cep.eql('any where args : "x" and process.parent.pid == 2', LOG).index.tolist() == [5]
    assert cep.eql('any where args[1] == "X" | head 1', LOG).index.tolist() == [1]
    assert cep.eql("any where arraySearch(args, a, length(a) == 2) | count", LOG)["count"].tolist() == [5]
    assert cep.eql("sequence by process.pid % 5 [any where true] [any where true]", LOG).index[
        :2
    ].tolist() == [0, 5]


def test_a_frame_of_each_category_and_lazy_frames():
    processes = pd.DataFrame({"t": [1, 5], "pid": [7, 8], "exe": ["a", "b"]})
    network = pd.DataFrame({"t": [2, 6], "pid": [7, 8], "port": [80, 443]})
    text = 'sequence by pid [process where exe == "a"] [network where port < 100]'
    found = cep.eql(text, {"process": processes, "network": network}, order_by="t")
    assert found["event.category"].tolist() == ["process", "network"] and found.pid.tolist() == [7, 7]
    with pytest.warns(cep.CepWarning, match="is collected"):
        lazy = cep.eql("any where pid > 7", pl.from_pandas(processes).lazy(), order_by="t")
    assert lazy["exe"].to_list() == ["b"]


def test_fields_are_columns_by_name_or_as_mapped():
    log = pd.DataFrame({"exe": ["a.exe", "b"], "kind": ["process"] * 2, "code": [4624, 1], "when": [1, 2]})
    fields = {"process.name": "exe", "event.code": "code", "user.id": None, "event.category": "kind"}
    keywords = {"order_by": "when", "fields": fields}
    text = 'process where process.name : "*.EXE" and event.code : "4624" and user.id == null'
    assert len(cep.eql(text, log, **keywords)) == 1
    assert len(cep.eql("process where ?no.such.field == null", log, **keywords)) == 2
    with pytest.raises(
        cep.ColumnNotFoundError, match=r"field 'process.nam' is no column. Did you mean 'process"
    ):
        cep.eql('process where process.nam == "x"', log, **keywords)
    assert cep.eql('any where process.nam == "x"', log, dialect="endgame").empty


def test_times_compare_with_texts_and_plain_numbers_are_clocks():
    assert cep.eql('any where @timestamp >= "2024-05-01T00:09:00Z"', LOG).index.tolist() == [9, 10]
    log = pd.DataFrame({"t": [0, 3, 9], "k": list("aab")})
    text = 'sequence with maxspan={} [any where k == "a"] [any where k == "b"]'
    assert cep.eql(text.format(6), log, order_by="t").index.tolist() == [1, 2]
    assert cep.eql(text.format(5), log.assign(t=log.t / 2), order_by="t").index.tolist() == [1, 2]
    assert cep.eql(text.format(2), log.assign(t=log.t / 2), order_by="t").empty
    with pytest.raises(cep.CepError, match="plain number without unit; write maxspan=5 "):
        cep.eql(text.format("5s"), log, order_by="t")
    with pytest.raises(cep.CepError, match="maxspan needs a clock"):
        cep.eql(text.format("5s"), log)


@pytest.mark.parametrize(
    ("condition", "rows"),
    [
        ("x > LONG", []), ("whole < LONG", [0, 1]), ("x in (1, LONG)", [0]), ("-LONG < x", [0, 1]),
        ("x + LONG > 1", []), ("whole + LONG > 1", [0, 1]),
    ],
)  # fmt: skip
def test_numbers_of_any_length(condition, rows):
    frame = pd.DataFrame({"whole": [1, 2], "x": [1.0, 2.5]})
    got = cep.eql(f"any where {condition.replace('LONG', '9' * 400)}", frame)
    assert got["x"].tolist() == frame["x"][rows].tolist()


@pytest.mark.parametrize("kind", [pa.Table.from_pandas, pl.from_pandas])
def test_results_have_the_kind_of_the_frame(kind):
    frame = kind(LOG[["@timestamp", "user.name", "process.name"]])
    found = cep.eql('sequence by user.name [any where true] [any where process.name == "c"]', frame)
    assert type(found) is type(frame) and found.shape == (6, 5)
    assert type(cep.eql("any where true | count user.name", frame)) is type(frame)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("process where user.name = 1", "write '=='"),
        ("process wher true", "expected 'where', found 'wher'"),
        ("any where process.name == 1", "'a' cannot be compared with 1; ':' compares"),
        ("any where process.name < 1", "the text 'a' cannot be compared with 1"),
        ("any where lenth(process.name) == 1", "no function 'lenth'. Did you mean 'length'"),
        ("any where length(process.name, 1) == 1", "length takes 1 argument, 2 given"),
        ('any where process.name regex "(a"', "is no regular expression"),
        ("any where process.name + 1 == 2", "expected a number, and the value is 'a'"),
        ("any where child of [any where true]", "field 'process.entity_id' is no column"),
        ("sequence [any where true] ![any where true]", "a missing event needs a time"),
        ("sequence with maxspan=1m ![any where true]", "all items are missing"),
        ("sequence [any where true] with runs=101 [any where true]", "from 1 to 100"),
        ("sequence [any where true] by user.name [any where true]", "has 0 keys after 'by'"),
        ("sample [any where true]", "a sample needs a key"),
        ("any where child of [any where " + "not " * 500 + "true]", "levels are nested"),
        ("any where true | filter " + "-" * 500 + "1 == 1", "levels are nested"),
        ("any where true | heed 5", "Did you mean 'head'"),
        ("any where true | head x", "head takes a number"),
        ("any where true | count | head 5", "count ends a query"),
        ("sequence by user.name [any where true]\n  [any where (true]", "does not close"),
    ],
)
def test_errors_show_the_place(text, message):
    log = LOG.drop(columns="process")
    with pytest.raises(cep.CepError) as error:
        cep.eql(text, log)
    assert message in str(error.value)
    assert "^" in str(error.value) or "count ends" in message


def test_other_errors():
    with pytest.raises(cep.CepError, match="no column 'kind' says the category"):
        cep.eql("process where true", LOG, event_category="kind")
    with pytest.raises(cep.CepError, match=r"dialect='elasti'\. Did you mean 'elastic'"):
        cep.eql("process where true", LOG, dialect="elasti")
    with pytest.raises(cep.ColumnNotFoundError, match="order_by: column 'tim' not found"):
        cep.eql("process where true", LOG, order_by="tim")
    with pytest.raises(cep.CepError, match="a column 'sequence' already"):
        cep.eql("sequence [any where true]", LOG.assign(sequence=1))
    with pytest.raises(cep.ColumnNotFoundError, match="field 'unique_pid' is no column"):
        cep.eql("any where event of [any where true]", LOG, dialect="endgame")
    with pytest.raises(TypeError, match="EQL: expected text, got int"):
        cep.eql(1, LOG)
