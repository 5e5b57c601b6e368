"""Rules of Sigma on frames: their tests of values, conditions and correlations, against plain Python."""

from __future__ import annotations

import base64
import re
from itertools import pairwise
from string import ascii_lowercase

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import yaml

import cepkit as cep
from tests.oracle import sigma as oracle
from tests.support.tables import cases

COMMANDS = (
    "cmd.exe /c whoami", "powershell -enc " + base64.b64encode(b"evil code").decode(), "net user /add",
    "net user -add", "a*b", "a\\b", "C:\\x\\certutil.exe", None, "",
)  # fmt: skip


def random_log(rng: np.random.Generator, n: int) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "ts": pd.to_datetime(np.sort(rng.integers(0, 3 * n, n)), unit="s"),
            "EventID": rng.choice([4624, 4625, 1, 3], n),
            "Image": [COMMANDS[i] for i in rng.integers(0, len(COMMANDS), n)],
            "User": [(None, "ann", "Bob", "cyd")[i] for i in rng.integers(0, 4, n)],
            "Other": rng.choice(["ann", "Bob"], n),
            "Ip": rng.choice(["10.1.2.3", "192.168.0.9", "8.8.8.8", "::1"], n),
            "Bytes": pd.Series([None if x == 9 else int(x) for x in rng.integers(0, 10, n)], dtype="Int64"),
        }
    )


def records(log: pd.DataFrame) -> list[dict]:
    rows = log.assign(ts=log.ts.astype("datetime64[s]").astype("int64")).astype(object).to_dict("records")
    return [
        {name: None if value is pd.NA or value != value else value for name, value in row.items()}
        for row in rows
    ]


def text(row, name="Image"):
    return (row[name] or "\0").lower()


def is_ann(row):
    return "ann" in (row["User"], row["Other"])


# A detection, and the same in Python.
RULES = [
    ("sel: {EventID: 4625}\ncondition: sel", lambda r: r["EventID"] == 4625),
    ("sel: {EventID: [1, '3']}\ncondition: sel", lambda r: r["EventID"] in (1, 3)),
    ("sel: {User: aNN, Other: ANN}\ncondition: sel", lambda r: r["User"] == r["Other"] == "ann"),
    ("sel: [{User: ann}, {Other: bob}]\ncondition: sel", lambda r: r["User"] == "ann" or r["Other"] == "Bob"),
    ("sel: {Image|endswith: '.exe'}\ncondition: sel", lambda r: text(r).endswith(".exe")),
    ("sel: {Image|startswith: ['CMD', 'net']}\ncondition: sel", lambda r: text(r).startswith(("cmd", "net"))),
    ("s: {Image|contains|all: [net, add]}\ncondition: s", lambda r: "net" in text(r) and "add" in text(r)),
    ("sel: {Image|cased|contains: WHO}\ncondition: sel", lambda r: "WHO" in (r["Image"] or "")),
    ("sel: {Image: 'n?t user*'}\ncondition: sel", lambda r: re.fullmatch("n.t user.*", text(r)) is not None),
    (r"sel: {Image: 'a\*b'}" "\ncondition: sel", lambda r: r["Image"] == "a*b"),
    (r"sel: {Image: 'a\\b'}" "\ncondition: sel", lambda r: r["Image"] == "a\\b"),
    ("s: {Image|re: '^C:.x|c ?who'}\ncondition: s", lambda r: re.search("^C:.x|c ?who", r["Image"] or "")),
    ("sel: {Image|re|i: CERT}\ncondition: sel", lambda r: "cert" in text(r)),
    ("sel: {Image: null}\ncondition: sel", lambda r: r["Image"] is None),
    ("sel: {Image: ''}\ncondition: sel", lambda r: r["Image"] == ""),
    ("sel: {Bytes|exists: false}\ncondition: sel", lambda r: r["Bytes"] is None),
    ("sel: {Bytes|gte: 4, Bytes|lt: 7}\ncondition: sel", lambda r: r["Bytes"] in (4, 5, 6)),
    ("sel: {Image|windash|contains: ' -add'}\ncondition: sel", lambda r: text(r).endswith(("/add", "-add"))),
    ("sel: {Image|base64|contains: evil c}\ncondition: sel", lambda r: "-enc" in text(r)),
    ("sel: {Image|base64offset|contains: code}\ncondition: sel", lambda r: "-enc" in text(r)),
    (
        "sel: {Ip|cidr: [10.0.0.0/8, '::/64']}\ncondition: sel",
        lambda r: r["Ip"] in ("10.1.2.3", "::1"),
    ),
    ("s: {User|fieldref: Other}\ncondition: s", lambda r: text(r, "User") == r["Other"].lower()),
    ("s: {User|fieldref|neq: Other}\ncondition: s", lambda r: text(r, "User") != r["Other"].lower()),
    ("s: {Image|fieldref|startswith: Other}\ncondition: s", lambda r: text(r).startswith(r["Other"].lower())),
    ("s: {User|neq: [ann, bob]}\ncondition: s", lambda r: text(r, "User") not in ("ann", "bob")),
    ("s: {ts|minute|gte: 2}\ncondition: s", lambda r: r["ts"] >= 120),
    ("s: {Image: '*a*b'}\ncondition: s", lambda r: r["Image"] in ("a*b", "a\\b")),
    ("keywords: [who, ANN]\ncondition: keywords", lambda r: "who" in text(r) or is_ann(r)),
    ("words: {'|all': [net, ann]}\ncondition: words", lambda r: "net" in text(r) and is_ann(r)),
    (
        "sel_a: {User: ann}\nsel_b: {EventID: 1}\nnot_me: {Other: ann}\ncondition: 1 of sel_* and not not_me",
        lambda r: (r["User"] == "ann" or r["EventID"] == 1) and r["Other"] != "ann",
    ),
    (
        "a: {User: ann}\nb: {EventID: 1}\n_c: {Other: x}\ncondition: all of them",
        lambda r: r["User"] == "ann" and r["EventID"] == 1,
    ),
    (
        "a: {User: ann}\nb: {EventID: 1}\nc: {Other: ann}\ncondition: not (a or b) and c or all of a* and b",
        lambda r: (not (r["User"] == "ann" or r["EventID"] == 1) and r["Other"] == "ann")
        or (r["User"] == "ann" and r["EventID"] == 1),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("detection", "holds"), RULES, ids=range(len(RULES)))
def test_rules_equal_plain_python(detection, holds):
    rule = {"title": "r", "detection": yaml.safe_load(detection)}
    n_found = 0
    for seed in range(3):
        log = random_log(np.random.default_rng(seed), 60)
        wanted = [i for i, row in enumerate(records(log)) if holds(row)]
        assert cep.sigma(rule, log).index.tolist() == wanted
        n_found += len(wanted)
    assert n_found or "WHO" in detection or "fieldref|s" in detection


BASE = """
name: failed
detection: {sel: {EventID: 4625}, condition: sel}
---
name: opened
detection: {sel: {EventID: 4624}, condition: sel}
---
name: large
detection: {sel: {Bytes|gte: 5}, condition: sel}
"""
TESTS = {
    "failed": lambda r: r["EventID"] == 4625,
    "opened": lambda r: r["EventID"] == 4624,
    "large": lambda r: r["Bytes"] is not None and r["Bytes"] >= 5,
}
CORRELATIONS = cases("sigma", "correlations")  # fmt: skip


@pytest.mark.parametrize("number", range(len(CORRELATIONS)))
def test_correlations_equal_plain_python(number, full):
    correlation = yaml.safe_load(CORRELATIONS[number])
    document = f"{BASE}---\nname: together\ncorrelation: {CORRELATIONS[number]}\n"
    rules = [correlation["rules"]] if isinstance(correlation["rules"], str) else correlation["rules"]
    aliases, keys = correlation.get("aliases", {}), correlation.get("group-by", [])
    fields = [[aliases.get(key, {}).get(rule, key) for key in keys] for rule in rules]
    condition = dict(correlation.get("condition", {"gte": len(rules)}))
    field = condition.pop("field", None)
    span = pd.Timedelta(correlation["timespan"]).total_seconds()
    n_found = 0
    for seed in range(340 if full else 6):
        rng = np.random.default_rng([seed, number, 47])
        log = random_log(rng, int(rng.integers(0, 60)))
        found = cep.sigma(document, log, order_by="ts", rule="together")
        wanted = oracle.alerts(
            records(log),
            [TESTS[rule] for rule in rules],
            correlation["type"],
            fields,
            "ts",
            span,
            condition,
            field,
        )
        alerts = [group.index.tolist() for _, group in found.groupby("alert")]
        assert [alert[-1] for alert in alerts] == [alert[-1] for alert in wanted]
        assert sorted(alerts) == sorted(wanted)  # alerts of several groups may end with the same event
        assert all(TESTS[rule](row) for rule, row in zip(found.rule, records(found), strict=True))
        n_found += len(wanted)
    assert n_found


def test_a_correlation_of_correlations():
    log = pd.DataFrame(
        {"ts": pd.to_datetime(range(9), unit="s"), "EventID": [4625] * 3 + [4624] + [4625] * 4 + [4624]}
    )
    document = f"""{BASE.replace("Bytes|gte: 5", "EventID: 0")}---
name: many
correlation: {{type: event_count, rules: [failed], timespan: 5s, condition: {{gte: 3}}}}
---
title: break-in
correlation: {{type: temporal_ordered, rules: [many, opened], timespan: 5s}}
"""
    found = cep.sigma(document, log, order_by="ts", rule="break-in")
    assert found.index.tolist() == [2, 3, 6, 8] and found.rule.tolist() == ["many", "opened"] * 2
    with pytest.raises(cep.CepError, match=r"name the rule that answers, as in rule='large'"):
        cep.sigma(document, log, order_by="ts")
    assert cep.sigma(document, log, rule="opened").index.tolist() == [3, 8]


def test_fields_files_and_kinds_of_frames(tmp_path):
    path = tmp_path / "rule.yml"
    path.write_text(
        "title: t\ndetection:\n  s:\n    Process.Name|endswith: .exe\n    Hash: null\n  condition: s\n"
    )
    log = pd.DataFrame({"exe": ["a.EXE", "b"], "process": [{"Name": "b.exe"}, {"Name": "c"}]})
    assert cep.sigma(path, log, fields={"Process.Name": "exe", "Hash": None}).index.tolist() == [0]
    nested = {"title": "t", "detection": {"s": {"process.Name": "B*"}, "condition": "s"}}
    assert cep.sigma(nested, log).index.tolist() == [0]
    nested["detection"]["condition"] = "NOT (S or not all OF them)"
    with pytest.raises(cep.CepError, match=r"no selection 'S'\. Did you mean 's'"):
        cep.sigma(nested, log)
    nested["detection"]["condition"] = "NOT (s or not all OF them)"
    assert cep.sigma(nested, log).empty
    for kind in (pa.Table.from_pandas, pl.from_pandas):
        frame = kind(log[["exe"]])
        found = cep.sigma(path, frame, fields={"Process.Name": "exe", "Hash": None})
        assert type(found) is type(frame) and found.shape == (1, 1)


# Each line of YAML has the values of the line before twice.
DOUBLING = "a: &a [x]\n" + "".join(f"{b}: &{b} [*{a}, *{a}]\n" for a, b in pairwise(ascii_lowercase))


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ("detection: {s: {a: 1}, condition: selection}", "no selection 'selection'"),
        ("detection: {s: {a: 1}, condition: s and}", "found the end of the text"),
        ("detection: {s: {a: 1}, condition: (s or s}", "is never closed"),
        ("detection: {s: {a: 1}, condition: s | count() > 5}", "aggregations after"),
        (f"detection: {{s: {{a: 1}}, condition: {'(' * 500}s}}", "levels are nested"),
        (f"detection: {'[' * 5000}", "no YAML"),
        ("detection: {s: {a: 1}, condition: 1 of x*}", r"no selection 'x\*'"),
        ("detection: {s: {b: 1}, condition: s}", r"field 'b' is no column"),
        ("detection: {s: {a|expand: x}, condition: s}", r"rule 'without a name': selection 's': modifier"),
        ("detection: {s: {a|containz: x}, condition: s}", r"Did you mean 'contains'"),
        ("detection: {s: {a|re: '('}, condition: s}", "is no regular expression"),
        ("detection: {s: {a|cidr: x}, condition: s}", "no block of addresses"),
        ("detection: {s: {a|gt: x}, condition: s}", "is no number"),
        ("detection: {s: {a: 1}}", "detection needs selections and a condition"),
        ("detection: {s: {a: 1}, condition: }", "detection needs selections and a condition"),
        ("detection: {s: {a: 1}, condition: []}", "detection needs selections and a condition"),
        ("detection: {s: {a: 1}, condition: s, timeframe: 5m}", "write a correlation with timespan"),
        ("detection: {s: {a: ", "no YAML"),
        ("detection: {s: {a: 2026-13-45}, condition: s}", r"'2026-13-45' cannot be read .* \(position 19\)"),
        (f"detection: {{s: {{a: {'1' * 5000}}}, condition: s}}", "cannot be read as a value of type int"),
        (f"detection: {{s: {{a: 0x{'f' * 5000}}}, condition: s}}", "cannot be read as a value of type int"),
        ("detection: {s: {a: !!bool x}, condition: s}", "'x' cannot be read as a value of type bool"),
        ("detection: {s: {a: !!timestamp x}, condition: s}", "'x' .* of type timestamp"),
        (f"{DOUBLING}detection: {{s: {{a: *z}}, condition: s}}", "rule: [0-9,]*; the limit is 100,000"),
        ("detection: &d {s: {a: *d}, condition: s}", "the limit is 100,000"),
        ("action: global\ndetection: {s: {a: 1}, condition: s}", "write each rule whole"),
        ("just text", "expected rules as YAML"),
        ("correlation: {type: event_cont, rules: [x], timespan: 5m}", "Did you mean 'event_count'"),
        ("correlation: {type: event_count, rules: [x], timespan: 5m}", "condition of a correlation"),
        ("correlation: {type: event_count, rules: [x], timespan: 5m, condition: {ge: 1}}", "write one of gt"),
        ("correlation: {type: value_count, rules: [x], timespan: 5m, condition: {gt: 1}}", "name of a field"),
        ("correlation: {type: temporal, rules: [x], timespan: 5m}", "correlation: 'x' names no rule"),
        (
            "name: x\ndetection: {s: {a: 1}, condition: s}\n---\n"
            "correlation: {type: temporal, rules: [x], timespan: 5m}",
            "timespan needs a clock",
        ),
    ],
)  # fmt: skip
def test_errors(document, message):
    with pytest.raises(cep.CepError, match=message):
        cep.sigma(document, pd.DataFrame({"a": [1, 2]}))
