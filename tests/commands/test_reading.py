"""Files of text that the command line reads by their content, against the rows by hand."""

import gzip
import io
import json
import os
import sys

import pandas as pd
import pytest

from cepkit.commands.cli import main
from cepkit.commands.files import UnreadableFileError, read_pandas
from cepkit.frames.writing import Reading

T = pd.Timestamp
AT = ["2026-01-01T10:00:00Z", "2026-01-01T10:00:07+00:00"]
JSON_ROWS = [{"@timestamp": t, "event": {"code": c, "id": 2**60 + 1}} for t, c in zip(AT, "ab", strict=True)]
FLAT = [[AT[0], "a", 2**60 + 1], [AT[1], "b", 2**60 + 1]]
DOTTED = ["@timestamp", "event.code", "event.id"]

ZEEK = r"""#separator \x09
#empty_field	(empty)
#unset_field	-
#path	conn
#fields	ts	id.orig_h	id.orig_p	service	duration	local
#types	time	addr	port	string	interval	bool
1700000000.123456	10.0.0.1	80	a#b	0.5	T
1700000001.500000	10.0.0.1	-	-	-	F
1700000002.500000	10.0.0
#close	2026-01-01
"""
ACCESS = """1.2.3.4 - ann [10/Oct/2000:13:55:36 -0700] "GET /a?b=c HTTP/1.0" 200 23 "http://x/y" "A (\\"q\\")"

1.2.3.4 - - [10/Oct/2000:13:55:37 -0700] "\\x16\\x03" 400 -
garbage
"""
SYSLOG = """Dec 31 23:59:58 web sshd[812]: Failed password
<34>Jan  1 00:00:03 web CRON: x: y
"""
RFC = """<34>1 2026-01-01T10:00:00Z web sshd 812 ID47 - Failed
<34>1 2026-01-01T12:00:00+01:00 web sshd - - [a@1 x="y"] Ok
"""
XES = """<?xml version="1.0"?><log xmlns="http://www.xes-standard.org/">
<global scope="event"><string key="concept:name" value="none"/></global>
<trace><string key="concept:name" value="case1"/>
<event><string key="concept:name" value="a"><int key="nested" value="9"/></string>
<date key="time:timestamp" value="2026-01-01T10:00:00.5+01:00"/><int key="cost" value="5"/></event>
<event><string key="concept:name" value="b"/>
<date key="time:timestamp" value="2026-07-01T10:00:00+02:00"/></event>
</trace><trace><string key="concept:name" value="empty"/></trace></log>"""

FILES = {
    "ev.jsonl": ("\n".join(map(json.dumps, JSON_ROWS)), DOTTED, FLAT, "read as JSON"),
    "bad.jsonl": ("\n".join([*map(json.dumps, JSON_ROWS), "{bad", "[1]"][1:]), DOTTED, None, "2 of 3 lines"),
    "lost.log": (
        "\n".join([*map(json.dumps, JSON_ROWS * 2), "{bad"]),
        DOTTED,
        FLAT * 2,
        "leaves out 1 of 5 lines (line 5",
    ),
    "array.json": (json.dumps(JSON_ROWS, indent=1), DOTTED, FLAT, "read as JSON"),
    "hits.json": (json.dumps({"took": 3, "hits": JSON_ROWS}), DOTTED, FLAT, "read as JSON"),
    "separators.jsonl": ('{"x": "a\u2028b"}\n{"x": 1}\n', ["x"], [["a\u2028b"], [1]], "read as JSON"),
    "mixed.ndjson": ('{"x": 1}\n{"x": "a"}\n', ["x"], [[1], ["a"]], "read as JSON"),
    "conn.log": (
        ZEEK,
        ["ts", "id.orig_h", "id.orig_p", "service", "duration", "local"],
        [
            [T("2023-11-14 22:13:20.123456"), "10.0.0.1", 80, "a#b", pd.Timedelta("0.5s"), True],
            [T("2023-11-14 22:13:21.5"), "10.0.0.1", None, None, None, False],
        ],
        "leaves out 1 of 3 lines (line 9: 2 fields, not 6)",
    ),
    "access.log": (
        ACCESS,
        ["host", "user", "ts", "method", "path", "status", "size", "agent"],
        [
            ["1.2.3.4", "ann", T("2000-10-10 20:55:36Z"), "GET", "/a?b=c", 200, 23, 'A (\\"q\\")'],
            ["1.2.3.4", None, T("2000-10-10 20:55:37Z"), None, None, 400, None, None],
        ],
        "leaves out 1 of 4 lines (line 4: no line of a log of Apache or nginx)",
    ),
    "syslog": (
        SYSLOG,
        ["ts", "program", "pid", "message"],
        [
            [T("2025-12-31 23:59:58"), "sshd", 812, "Failed password"],
            [T("2026-01-01 00:00:03"), "CRON", None, "x: y"],
        ],
        "no year; the last ones are of 2026",
    ),
    "rfc.log": (
        RFC,
        ["ts", "procid", "id", "data", "message"],
        [
            [T("2026-01-01 10:00Z"), "812", "ID47", None, "Failed"],
            [T("2026-01-01 11:00Z"), None, None, '[a@1 x="y"]', "Ok"],
        ],
        "RFC 5424",
    ),
    "iso.log": (
        "2026-01-01T10:00:00.5+01:00 web sshd[8]: a\n",
        ["ts", "pid"],
        [[T("2026-01-01 09:00:00.5Z"), 8]],
        "ISO times",
    ),
    "log.xes": (
        XES,
        ["case:concept:name", "concept:name", "time:timestamp", "cost"],
        [["case1", "a", T("2026-01-01 09:00:00.5Z"), 5], ["case1", "b", T("2026-07-01 08:00Z"), None]],
        "read as XES",
    ),
    "semi.csv": ("a;b\n1,5;x\n-2,25;y,z\n", ["a", "b"], [[1.5, "x"], [-2.25, "y,z"]], "divided by ';'"),
    "quoted.csv": ('"a;b;c",d\n1,2\n', ["a;b;c", "d"], [[1, 2]], ""),
    "ragged.csv": (
        "a,b\n1,2\n3,4,5\n6,7\n",
        ["a", "b"],
        [[1, 2], [6, 7]],
        "line 3: expected 2 fields, saw 3",
    ),
    "table.txt": ("a|b\n1|2\n", ["a", "b"], [[1, 2]], "divided by '|'"),
}


def plain(frame):
    """Return the rows with None for what is missing."""
    return frame.astype(object).where(frame.notna(), None).to_numpy().tolist()


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize("name", FILES)
def test_rows_of_files(tmp_path, name, zipped):
    text, columns, rows, note = FILES[name]
    path = tmp_path / (f"{name}.gz" if zipped else name)
    path.write_bytes(gzip.compress(text.encode()) if zipped else text.encode())
    os.utime(path, (T("2026-01-02").timestamp(),) * 2)
    if rows is None:
        with pytest.raises(UnreadableFileError, match=note):
            read_pandas([str(path)])
        return
    frame, notes = read_pandas([str(path)])
    assert plain(frame[columns]) == rows and note in "; ".join(notes)


def test_options_of_csv(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("ä~b\n1,5~2\n", encoding="latin-1")
    frame, notes = read_pandas([str(path)], (), Reading("~", "latin-1", ","))
    assert plain(frame) == [[1.5, 2]] and list(frame) == ["ä", "b"] and notes == []
    for reading, message in (
        (Reading(), "byte 0 is no text in UTF-8; name the encoding of the file, as in --encoding latin-1"),
        (Reading(encoding="latin-99"), "no encoding 'latin-99'"),
        (Reading("~~", "latin-1"), "'~~' is not one character"),
    ):
        with pytest.raises(UnreadableFileError, match=message):
            read_pandas([str(path)], (), reading)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nothing", "the content is none of CSV, JSON Lines, JSON, Zeek, XES"),
        ("", "the content is none of"),
        ('<?xml version="1.0"?><!DOCTYPE log [<!ENTITY a "b">]><log/>', "document type, which is refused"),
        ("<log><trace>", "the file is damaged"),
        ("<html key='a'></html>", "the content is none of"),
        ("<?xml version='1.0'?><html key='a'/>", "no event of XES"),
        ("{" * 100_000, "lines cannot be read"),
    ],
)
def test_texts_without_rows(tmp_path, text, message):
    path = tmp_path / "x.txt"
    path.write_text(text)
    with pytest.raises(UnreadableFileError, match=message):
        read_pandas([str(path)])


QUERY = [
    "PATTERN SEQ(a x, b y)",
    "--event-type",
    "event.code",
    "--order-by",
    "@timestamp",
    "--strategy",
    "next",
]


@pytest.mark.parametrize("content", [json.dumps(JSON_ROWS), f"@timestamp;event.code\n{AT[0]};a\n{AT[1]};b\n"])
def test_stdin_and_quarantine(tmp_path, monkeypatch, capsys, content):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content.encode())))
    assert main(["match", "-", *QUERY]) == 0
    out, err = capsys.readouterr()
    assert "10:00:07" in out and "1 match" in err and "the standard input" in err
    (tmp_path / "ev.jsonl").write_text("\n".join([*map(json.dumps, JSON_ROWS), "{bad"]))
    bad = tmp_path / "bad.csv"
    assert main(["match", str(tmp_path / "ev.jsonl"), *QUERY, "--quarantine", str(bad)]) == 0
    assert plain(pd.read_csv(bad)[["line", "text"]]) == [[3, "{bad"]]


def test_days_before_months_print_no_traceback(tmp_path, capfd):
    (tmp_path / "x.csv").write_text("day,v\n13/01/2024,1\n14/01/2024,2\n")
    frame, notes = read_pandas([str(tmp_path / "x.csv")], ["day"])
    assert frame.day.tolist() == [T("2024-01-13"), T("2024-01-14")] and "is read as time" in notes[0]
    (tmp_path / "x.csv").write_text("day,v\n02/01/2024,1\n14/01/2024,2\n")  # the second line tells
    assert read_pandas([str(tmp_path / "x.csv")], ["day"])[0].day.tolist() == [
        T("2024-01-02"),
        T("2024-01-14"),
    ]
    assert "Exception ignored" not in capfd.readouterr().err
