"""Ingestion and stages on Spark, against plain Python that reads the same lines."""

from __future__ import annotations

import datetime
import json
import random
import sys
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from cepkit.datasets.tweets import tweets, tweets_as_atom_xml
from cepkit.errors import CepError, ColumnNotFoundError
from cepkit.pipelines import (
    FORMATS,
    ingest,
    parse_tweets,
    quality_report_text,
    read_events,
    read_quarantine,
    read_report,
    tag_code,
    tag_mask,
)
from cepkit.pipelines.format import HeaderError, SourceNotFoundError, UnknownFormatError, source_files
from cepkit.pipelines.ingest import AccountingError, ReportNotFoundError, TargetError
from cepkit.pipelines.stages import TagError
from tests.support.raw_formats import eoddata_lines, inet_lines, nasdaq100_lines

pytest.importorskip("pyspark")

TIME = datetime.datetime


@pytest.fixture
def setting(spark):
    """Change settings of the session for one test."""
    before = {}

    def change(key, value):
        before.setdefault(key, spark.conf.get(key))
        spark.conf.set(key, value)

    yield change
    for key, value in before.items():
        spark.conf.set(key, value)


def rows_of(folder: Path) -> list[dict]:
    """Return the events of a result by plain pyarrow; files and rows in the order on disk."""
    files = sorted((folder / "events").rglob("*.parquet"))
    return [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]


def quarantined(folder: Path) -> list[tuple[str, int, str, str]]:
    """Return (file name, line, text, reason) of the quarantine, sorted."""
    rows = pq.read_table(folder / "quarantine").to_pylist()
    return sorted((Path(r["source_file"]).name, r["source_line"], r["text"], r["reason"]) for r in rows)


# --- inet ------------------------------------------------------------------------------------------------


def read_inet_line(line: str) -> tuple:
    """Return (ts, symbol, price, size, side, seq) of a good line."""
    symbol, seq, size, price, time, side = line.split()
    hour, minute, second = time.split(":")
    second, millisecond = second.split(".")
    ts = TIME(2001, 2, 3, int(hour), int(minute), int(second), int(millisecond) * 1000)
    return ts, symbol, float(price), int(size), side, int(seq)


BAD_INET_LINES = {
    "": "the line is empty",
    "MSFT 12 100 25.99 15:47:22.659": "expected 6 fields: symbol, number, size, price, time, side",
    "MSFT x12 100 25.99 15:47:22.659 S": "the trade number is not a whole number",
    "MSFT 12 0 25.99 15:47:22.659 S": "the size is not a positive whole number",
    "MSFT 12 1.5 25.99 15:47:22.659 S": "the size is not a positive whole number",
    "MSFT 12 100 NaN 15:47:22.659 S": "the price is not a positive number",
    "MSFT 12 100 1e999 15:47:22.659 S": "the price is not a positive number",
    "MSFT 12 100 25.99 24:47:22.659 S": "the time is not hours:minutes:seconds.milliseconds",
    "MSFT 12 100 25.99 15:47:22 S": "the time is not hours:minutes:seconds.milliseconds",
    "MSFT 12 100 25.99 15:47:22.659 X": "the side is neither B nor S",
}


@pytest.mark.parametrize("seed", [0])
def test_inet_agrees_with_a_plain_reading(spark, setting, tmp_path, seed):
    rng = random.Random(seed)
    source = tmp_path / "time and sales [1]"
    source.mkdir()
    lines_of_file = {}
    for i, symbol in enumerate(["MSFT", "INTC"]):
        lines = inet_lines(1500, symbol=symbol, seed=seed + i)
        lines += rng.sample(
            lines, 20
        )  # duplicates; lines at the end of such a file are its oldest: they are late
        lines.insert(700, f"{symbol} 0 100 25.99 09:47:22.659 S")  # the number 0 is a number
        for bad in rng.choices(list(BAD_INET_LINES), k=30):
            lines.insert(rng.randrange(len(lines)), bad)
        lines_of_file[f"{symbol}+{{{i}}}.txt"] = lines
    for name, lines in lines_of_file.items():
        ends = rng.choice(["\n", "\r\n"])
        (source / name).write_bytes(("\ufeff" + ends.join(lines)).encode())
    with (source / "latin.txt").open("wb") as file:
        file.write("MSFT 1 100 25.99 15:47:22.659 \xdf\n".encode("latin-1"))
    setting("spark.sql.files.maxPartitionBytes", "20000")  # several tasks per file

    report = ingest("inet", source, tmp_path / "out", spark=spark, date="2001-02-03")

    good, late, bad = {}, 0, []
    for name, lines in lines_of_file.items():
        newest = TIME.min
        for number, line in reversed(list(enumerate(lines, start=1))):
            if line in BAD_INET_LINES:
                bad.append((name, number, line, BAD_INET_LINES[line]))
                continue
            row = read_inet_line(line)
            late += row[0] < newest
            newest = max(newest, row[0])
            good[row] = (name, number)  # of equal rows the first in the file, which comes last here
    found = rows_of(tmp_path / "out")
    keys = ("ts", "symbol", "price", "size", "side", "seq")
    assert [tuple(row[k] for k in keys) for row in found] == sorted(
        good, key=lambda row: (row[0], row[5], row[1])
    )
    assert {tuple(r[k] for k in keys): (Path(r["source_file"]).name, r["source_line"]) for r in found} == good
    not_utf8 = ("latin.txt", 1, "MSFT 1 100 25.99 15:47:22.659 \ufffd", "the text is not UTF-8")
    assert quarantined(tmp_path / "out") == sorted([*bad, not_utf8])
    assert late > 0
    assert report.n_late == late
    assert report.n_duplicates == 40
    assert report.n_records == report.n_rows == 2 * 1551 + 1
    assert report.n_rows == report.n_events + report.n_quarantined + report.n_duplicates
    assert report.reasons == Counter(reason for *_, reason in [*bad, not_utf8])
    assert (report.n_files, report.n_keys, report.n_ties, report.n_events) == (3, 2, 0, len(good))
    assert report.first == str(min(good)[0])[:23]
    assert read_report(tmp_path / "out") == report


# --- eoddata ---------------------------------------------------------------------------------------------


def test_eoddata_in_days_whatever_the_time_zone_of_the_session(spark, setting, tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules["cepkit.pipelines.ingest"], "ROWS_PER_FILE", 400)
    setting("spark.sql.session.timeZone", "America/New_York")
    lines = eoddata_lines(800, ["AAPL", "MSFT"], seed=1)  # three sessions, the last one short
    extra = [
        "AAPL,200803090230,10,11,9,10,5",  # skipped by New York's clocks
        "AAPL,200802300930,10,11,9,10,5",
        "AAPL,200802010930,10,9,11,10,5",
        "AAPL,200802010930,0,9,8,10,5",
        "AAPL,200802010930,1,9,8,10,-5",
        " AAPL , 200802040900 ,10,11,9,10,5 ",
        "Symbol,Date,Open,High,Low,Close,Volume",
        *[lines[0].rsplit(",", 1)[0] + ",77"],  # the same bar with another volume: both stay, and tie
    ]
    (tmp_path / "bars.txt").write_text("\n".join(lines + extra) + "\n")
    report = ingest("eoddata", str(tmp_path / "*.txt"), tmp_path / "out", spark=spark, period="day")

    def bar(line: str) -> tuple:
        symbol, minute, *prices, volume = (field.strip() for field in line.split(","))
        return TIME.strptime(minute, "%Y%m%d%H%M"), symbol, *map(float, prices), int(volume)

    expected = sorted(map(bar, [*lines, extra[0], extra[5], extra[7]]))
    frame = read_events(tmp_path / "out", spark=spark)
    names = ("ts", "symbol", "open", "high", "low", "close", "volume")
    found = [tuple(row[name] for name in names) for row in rows_of(tmp_path / "out")]
    assert sorted(found) == expected
    assert [row[0] for row in found] == [row[0] for row in expected], "not in the order of time on disk"
    folders = sorted(path.name for path in (tmp_path / "out" / "events").glob("day=*"))
    days = [
        datetime.date(2008, 2, 1),
        datetime.date(2008, 2, 4),
        datetime.date(2008, 2, 5),
        datetime.date(2008, 3, 9),
    ]
    assert folders == [f"day={day}" for day in days]
    assert report.n_folders == 4
    assert report.n_data_files > 4
    assert dict(frame.dtypes) == {**report.columns, "day": "date"}
    assert {row.day for row in frame.select("day").distinct().collect()} == set(days)
    assert report.n_ties == 2
    assert report.n_late == 2  # the two bars of February after the one of March
    assert report.reasons == {
        "the time is not yyyymmddhhmm": 2,
        "high is below low": 1,
        "open is not a positive number": 1,
        "the volume is not a whole number": 1,
    }
    assert (report.first, report.last) == ("2008-02-01 09:30:00", "2008-03-09 02:30:00")


# --- nasdaq100 -------------------------------------------------------------------------------------------


def test_nasdaq100_times_are_reconstructed(spark, tmp_path):
    one = nasdaq100_lines(1200, ["AAPL", "MSFT", "NDX"], seed=2)
    one[5] = one[5].replace(",", ",,", 1)  # a cell too many
    one[7] = "NaN" + one[7][one[7].index(",") :]
    one[3] = " "
    one[-1] = one[-1].rsplit(",", 1)[0]  # cut off
    other = nasdaq100_lines(3, ["YHOO"], seed=3)
    (tmp_path / "one.csv").write_text("\n".join(one))
    (tmp_path / "other.csv").write_text("\n".join(other) + "\n")
    report = ingest(
        "nasdaq100",
        [tmp_path / "one.csv", tmp_path / "other.csv", tmp_path / "one.csv"],  # named twice, read once
        tmp_path / "out",
        spark=spark,
        holidays="2016-07-27",
    )
    expected = {}
    sessions = [datetime.date(2016, 7, day) for day in (26, 28, 29)] + [datetime.date(2016, 8, 1)]
    for lines in (one, other):
        symbols = lines[0].split(",")
        for row, line in enumerate(lines[1:]):
            day, minute = (0, 0) if row == 0 else (sessions[(row - 1) // 390], (row - 1) % 390 + 1)
            ts = TIME.combine(sessions[0] if row == 0 else day, datetime.time(9, 30))
            ts += datetime.timedelta(minutes=minute)
            cells = line.split(",")
            if len(cells) == len(symbols):
                expected |= {(ts, s): float(c) for s, c in zip(symbols, cells, strict=True) if c != "NaN"}
    assert {(row["ts"], row["symbol"]): row["close"] for row in rows_of(tmp_path / "out")} == expected
    assert report.last == "2016-08-01 09:58:00"
    wrong_width = "the number of cells is not the number of symbols in the first line"
    assert quarantined(tmp_path / "out") == [
        ("one.csv", 4, " ", "the line is empty"),
        ("one.csv", 6, one[5], wrong_width),
        ("one.csv", 8, "NaN", "the price is not a positive number"),
        ("one.csv", 1201, one[-1], wrong_width),
    ]
    assert report.n_records == 1201 + 4
    assert report.n_structure == 2
    assert report.n_rows == 1197 * 3 + 3 + 3 == report.n_events + 4
    assert report.n_files == 2
    (tmp_path / "headless.csv").write_text("\n".join(one[1:]))
    with pytest.raises(HeaderError, match=r"headless\.csv, line 1: expected the names of the columns"):
        ingest("nasdaq100", tmp_path / "headless.csv", tmp_path / "none", spark=spark)
    assert not (tmp_path / "none").exists()


# --- tweets ----------------------------------------------------------------------------------------------

GOOD_ENTRIES = [
    # entities, a zone, attributes, white space around what is trimmed, lines
    '<entry xmlns="x"><id> a1 </id><published>2011-11-01T14:00:00.5+02:00</published><content type="html">'
    "1 &lt; 2 &amp; #Tea #tea\n#Ünique #24 a#b &amp;#39;</content><author><name> Zoë </name></author>"
    "</entry>",
    "<entry>\n<id>a2</id>\n<published>2011-11-01T12:00:00Z</published>\n<content><![CDATA[<b>#coffee</b>]]></content>\n"
    "<author><name>bob</name><uri>u</uri></author>\n</entry>",
    "<entry><id>a3</id><published>2011-11-02T00:30:00Z</published><content></content><author><name>bob</name></author>"
    "</entry>",
]
BAD_ENTRIES = {
    "<entry><id>b1</id><published>2011-11-01T12:00:00Z</published><content>a & b</content></entry>": (
        "the entry is not well-formed XML"
    ),
    "<entry><id>b2</id><published>2011-11-01T12:00:00</published><content>x</content><author><name>a</name></author>"
    "</entry>": "published is not a time with a zone (RFC 3339)",
    "<entry><published>2011-11-01T12:00:00Z</published><content>x</content><author><name>a</name></author>"
    "</entry>": ("the entry has no id"),
    "<entry><id>b4</id><published>2011-11-01T12:00:00Z</published><content>x</content><author/></entry>": (
        "the entry has no author"
    ),
    "<entry><id>b5</id><published>2011-11-01T12:00:00Z</published><author><name>a</name></author></entry>": (
        "the entry has no content"
    ),
    "<entry><id>b6</id><id>b7</id><published>2011-11-01T12:00:00Z</published><content>x</content></entry>": (
        "more than one id"
    ),
}


def test_tweets_agree_with_the_frame_they_were_made_from(spark, setting, tmp_path):
    setting("spark.sql.session.timeZone", "America/New_York")
    # What a user's session may say of the word "timestamp".
    setting("spark.sql.timestampType", "TIMESTAMP_NTZ")
    frame = tweets(400, n_authors=150, seed=4)
    entries = tweets_as_atom_xml(frame)
    feed = ['<?xml version="1.0" encoding="utf-8"?>', "<feed xmlns='x'>", "<title>t</title>", *GOOD_ENTRIES]
    feed += [*BAD_ENTRIES, "lost words", "<entry><id>open</id>", entries[0], *entries, "</feed>", ""]
    (tmp_path / "feed.xml").write_text("\n".join(feed), encoding="utf-8")
    report = ingest("tweets", tmp_path / "feed.xml", tmp_path / "out", spark=spark)

    found = {row["id"]: row for row in rows_of(tmp_path / "out")}
    assert len(found) == report.n_events == 403
    assert report.n_duplicates == 1  # entries[0] twice
    utc = datetime.UTC
    for row in frame.itertuples():
        tweet = found[str(row.id)]
        assert (tweet["author"], tweet["content"]) == (row.author, row.content)
        assert tweet["tags"] == row.tags.split()
        assert tweet["ts"] == row.ts.to_pydatetime().replace(tzinfo=utc)
    assert found["a1"]["content"] == "1 < 2 & #Tea #tea\n#Ünique #24 a#b &#39;"
    assert found["a1"]["author"] == "Zoë"
    assert found["a1"]["tags"] == ["tea", "ünique"]
    assert found["a1"]["ts"] == TIME(2011, 11, 1, 12, 0, 0, 500_000, tzinfo=utc)
    assert found["a2"]["tags"] == ["coffee"]
    assert found["a2"]["source_line"] == 6
    assert (found["a3"]["content"], found["a3"]["tags"]) == ("", [])

    code_of_set = {(tuple(row["tags"]), row["tag_code"]) for row in found.values()}
    sets = sorted({tags for tags, _ in code_of_set})
    assert code_of_set == {(tags, code) for code, tags in enumerate(sets)}  # the empty set sorts first: 0

    counts = Counter(tag for row in found.values() for tag in row["tags"])
    listed = [tag for tag, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0]))][:63]
    beyond = [row for row in found.values() if not set(row["tags"]) <= set(listed)]
    masks = {
        id: sum(1 << listed.index(tag) for tag in row["tags"] if tag in listed) for id, row in found.items()
    }
    assert beyond
    for id, row in found.items():
        assert row["tag_mask"] == (None if row in beyond else masks[id])
    assert report.notes["tags in the mask, from bit 0"] == listed
    assert report.notes["tweets with tags beyond the mask (others='null')"] == len(beyond)

    lines = "\n".join(feed).split("\n")
    expected = [("feed.xml", lines.index(text) + 1, text, reason) for text, reason in BAD_ENTRIES.items()]
    lost = lines.index("lost words") + 1
    expected += [
        ("feed.xml", lost, "lost words", "text outside of an entry"),
        ("feed.xml", lost + 1, "<entry><id>open</id>", "the entry is not closed"),
    ]
    assert quarantined(tmp_path / "out") == sorted(expected)
    assert (report.first, report.period) == ("2011-11-01 12:00:00Z", "year")
    assert dict(read_events(tmp_path / "out", spark=spark).dtypes) == {**report.columns, "year": "date"}


# --- what holds for every format -------------------------------------------------------------------------


def test_a_target_is_replaced_whole_or_not_at_all(spark, tmp_path, monkeypatch):
    source, target = tmp_path / "bars.txt", tmp_path / "out"
    source.write_text("AAPL,200802010930,10,11,9,10,5\n")
    first = ingest("eoddata", source, target, spark=spark)
    assert (first.n_events, first.n_quarantined) == (1, 0)
    assert read_quarantine(target, spark=spark).count() == 0
    before = {path: path.read_bytes() for path in sorted(target.rglob("*")) if path.is_file()}

    source.write_text("")  # nothing at all is a result too
    module = sys.modules["cepkit.pipelines.ingest"]
    with monkeypatch.context() as patch:
        patch.setattr(module, "_check_events", lambda *_: {"n_events": 17})
        with pytest.raises(AccountingError, match="events found and events written differ: 0 and 17"):
            ingest("eoddata", source, target, spark=spark)
    assert {path: path.read_bytes() for path in sorted(target.rglob("*")) if path.is_file()} == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bars.txt", "out"]

    second = ingest("eoddata", source, target, spark=spark)
    assert (second.n_events, second.n_rows, second.first) == (0, 0, None)
    assert "no events" in quality_report_text(second)
    events = read_events(target, spark=spark)
    assert events.count() == 0
    assert dict(events.dtypes) == {**second.columns, "year": "date"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bars.txt", "out"]
    assert json.loads((target / "quality.json").read_text())["made_by"] == "cepkit ingest"


def test_a_target_that_is_something_else_is_left_alone(tmp_path):
    source = tmp_path / "bars.txt"
    source.write_text("AAPL,200802010930,10,11,9,10,5\n")
    folder = tmp_path / "thesis"
    folder.mkdir()
    (folder / "chapter1.txt").write_text("words")
    with pytest.raises(TargetError, match=r"not a result of `cepkit ingest` \(it has chapter1.txt\)"):
        ingest("eoddata", source, folder)
    with pytest.raises(TargetError, match="is a file; expected a folder"):
        ingest("eoddata", source, source)
    with pytest.raises(TargetError, match="Write to a folder, then copy it"):
        ingest("eoddata", source, "s3://bucket/out")
    with pytest.raises(TargetError, match="'append' is not one of 'replace', 'error'"):
        ingest("eoddata", source, tmp_path / "out", mode="append")
    result = tmp_path / "result"
    result.mkdir()
    (result / "quality.json").write_text('{"made_by": "cepkit ingest"}')
    with pytest.raises(TargetError, match="already has a result"):
        ingest("eoddata", source, result, mode="error")
    (result / "notes.txt").write_text("mine")
    with pytest.raises(TargetError, match=r"it has notes\.txt"):
        ingest("eoddata", source, result)
    (result / "notes.txt").unlink()
    (result / "bars.txt").hardlink_to(source)
    with pytest.raises(TargetError, match=r"it has bars.txt"):
        ingest("eoddata", result / "bars.txt", result)
    assert (folder / "chapter1.txt").read_text() == "words"


def test_a_replacement_that_was_cut_off_is_undone(tmp_path):
    from cepkit.pipelines.ingest import replacing, target_folder

    target = tmp_path / "out"
    with replacing(target) as folder:
        (folder / "quality.json").write_text('{"made_by": "cepkit ingest"}')
    target.rename(tmp_path / ".out.earlier-1-00")  # as if the program had died here
    assert target_folder(target) == target
    assert (target / "quality.json").is_file()


def test_mistakes_are_told_before_work_starts(tmp_path):
    (tmp_path / "trades.txt").write_text("")
    (tmp_path / "empty").mkdir()
    (tmp_path / "nested" / "deep").mkdir(parents=True)
    (tmp_path / "_hidden.txt").write_text("")
    out = tmp_path / "out"
    with pytest.raises(
        UnknownFormatError, match=r"unknown format 'inett'. Did you mean 'inet'\? Formats: inet, eod"
    ):
        ingest("inett", tmp_path, out)
    with pytest.raises(UnknownFormatError, match=r"no option 'dat'. Did you mean 'date'\? Options: date"):
        ingest("inet", tmp_path, out, dat="2000-01-01")
    with pytest.raises(UnknownFormatError, match="'tomorrow' is not a day; expected yyyy-mm-dd"):
        ingest("inet", tmp_path, out, date="tomorrow")
    with pytest.raises(UnknownFormatError, match="period 'week' is not one of day, month, year"):
        ingest("inet", tmp_path, out, period="week")
    with pytest.raises(TagError, match="64 tags are listed for a mask; it has room for 63"):
        ingest("tweets", tmp_path, out, mask_tags=",".join(f"t{i}" for i in range(64)))
    with pytest.raises(TagError, match="others='drop' is not one of"):
        ingest("tweets", tmp_path, out, others="drop")
    with pytest.raises(SourceNotFoundError, match=r"no file '.*trade.txt'. Did you mean 'trades.txt'\?"):
        source_files(tmp_path / "trade.txt")
    with pytest.raises(SourceNotFoundError, match="has no files"):
        source_files(tmp_path / "empty")
    with pytest.raises(SourceNotFoundError, match="It has folders: deep"):
        source_files(tmp_path / "nested")
    with pytest.raises(SourceNotFoundError, match="Spark does not read files whose names begin with"):
        source_files(tmp_path / "_hidden.txt")
    with pytest.raises(SourceNotFoundError, match="empty list"):
        source_files([])
    with pytest.raises(ReportNotFoundError, match=r"no readable quality.json"):
        read_report(tmp_path)
    assert source_files([tmp_path, str(tmp_path / "*.txt")][:1]) == [str((tmp_path / "trades.txt").resolve())]
    assert not out.exists()
    assert all(issubclass(e, CepError) for e in (TargetError, SourceNotFoundError, AccountingError, TagError))


def test_every_format_tells_what_it_is():
    names = [
        "inet",
        "eoddata",
        "nasdaq100",
        "tweets",
        "citybench",
        "casas",
        "casas_features",
        "debs2013",
        "siri",
    ]
    assert list(FORMATS) == names
    for name, chosen in FORMATS.items():
        assert chosen.name == name
        assert "\n" not in chosen.description
        assert {chosen.partition_by, *chosen.order_by} <= set(chosen.columns)
        assert chosen.columns[chosen.clock].startswith("timestamp")


# --- stages ----------------------------------------------------------------------------------------------


def test_tags_as_numbers(spark):
    sets = [["b", "a"], ["a", "b", "a"], [], None, ["c"], ["a"], ["a", "z"]]
    frame = spark.createDataFrame(list(enumerate(sets)), "i int, tags array<string>")
    coded = tag_mask(tag_code(frame), listed=["a", "b", "c"], others="null")
    codes, masks = zip(*((row.tag_code, row.tag_mask) for row in coded.orderBy("i").collect()), strict=True)
    assert codes == (2, 2, 0, None, 4, 1, 3)  # [a] < [a, b] < [a, z] < [c]
    assert masks == (0b011, 0b011, 0, None, 0b100, 0b001, None)
    most_frequent_first = tag_mask(frame)  # four tags: a 4 times, then b, c, z
    assert [row.tag_mask for row in most_frequent_first.orderBy("i").collect()] == [3, 3, 0, None, 4, 1, 9]
    ignoring = tag_mask(frame, listed=["z", "a"], others="ignore")
    assert [row.tag_mask for row in ignoring.orderBy("i").collect()] == [2, 2, 0, None, 0, 2, 3]
    with pytest.raises(TagError, match="2 rows have tags beyond the 2 in the mask"):
        tag_mask(frame, listed=["a", "b"])
    with pytest.raises(TagError, match="'a' is listed twice"):
        tag_mask(frame, listed=["a", "a"])
    with pytest.raises(TagError, match=r"column 'i' is of type int, not array<string>"):
        tag_code(frame, tags="i")
    with pytest.raises(ColumnNotFoundError, match=r"tags: column 'tag' not found\. Did you mean 'tags'"):
        tag_mask(frame, tags="tag")


def test_the_highest_bit_of_a_mask_is_not_the_sign(spark):
    tags = [f"t{i:02}" for i in range(63)]
    frame = spark.createDataFrame([(tags,), (tags[-1:],)], "tags array<string>")
    assert [row.tag_mask for row in tag_mask(frame, listed=tags).collect()] == [2**63 - 1, 2**62]


def test_parse_tweets_as_a_stage_keeps_every_row(spark):
    entries = [GOOD_ENTRIES[0], None, "no XML", GOOD_ENTRIES[1] + GOOD_ENTRIES[2]]
    external = '<!DOCTYPE e [<!ENTITY x SYSTEM "file:///etc/hostname">]>'
    entries.append(external + GOOD_ENTRIES[2].replace("<content>", "<content>&x;"))
    frame = spark.createDataFrame(list(enumerate(entries)), "i int, entry string")
    found = parse_tweets(frame, xml="entry").orderBy("i").collect()
    assert [row.entry for row in found] == entries
    assert [row.reason for row in found] == [
        None,
        "there is no XML",
        "the entry is not well-formed XML",
        "more than one entry",
        "the entry is not well-formed XML",
    ]
    assert (found[0].author, found[0].tags) == ("Zoë", ["tea", "ünique"])
    with pytest.raises(ColumnNotFoundError, match="xml: column 'text' not found"):
        parse_tweets(frame, xml="text")


# --- the original files, where they are ------------------------------------------------------------------


def test_original_files(spark, tmp_path, reference):
    raw = reference / "data" / "raw"
    inet, bars, table = (
        (raw / name).read_text().splitlines()
        for name in (
            "inet_TimeAndSales_MSFT.txt",
            "eoddata_NASDAQ_20080201_minute.txt",
            "nasdaq100_padding.csv",
        )
    )
    report = ingest("inet", raw / "inet_*.txt", tmp_path / "inet", spark=spark)
    assert (report.n_events, report.n_quarantined, report.n_late, report.n_ties) == (len(set(inet)), 0, 0, 0)
    known = pq.read_table(reference / "data" / "inet_trades.parquet").to_pylist()
    known = {row["seq"]: row for row in known if row["symbol"] == "MSFT"}
    for row in rows_of(tmp_path / "inet"):
        assert {name: row[name] for name in known[row["seq"]]} == known[row["seq"]]

    report = ingest("eoddata", raw / "eoddata_*.txt", tmp_path / "bars", spark=spark)
    assert (report.n_events, report.n_quarantined, report.n_ties) == (len(set(bars)), 0, 0)
    assert report.n_keys == len({line.split(",")[0] for line in bars})

    report = ingest("nasdaq100", raw / "nasdaq100_*.csv", tmp_path / "table", spark=spark)
    assert (report.n_events, report.n_quarantined) == (82 * (len(table) - 1), 0)
    known = pq.read_table(reference / "data" / "nasdaq100_minute_close.parquet").to_pylist()
    known = {(row["ts"], row["symbol"]): row["close"] for row in known}
    assert all(known[row["ts"], row["symbol"]] == row["close"] for row in rows_of(tmp_path / "table"))


def test_original_tweets(spark, reference):
    from cepkit.pipelines import hashtags

    known = pq.read_table(
        reference / "data" / "tweets_vaccine.parquet", columns=["content", "tags"]
    ).to_pylist()
    frame = spark.createDataFrame([(row["content"],) for row in known], "content string")
    found = [" ".join(row[0]) for row in frame.select(hashtags(frame.content)).collect()]
    equal = sum(tags == row["tags"] for tags, row in zip(found, known, strict=True))
    # The texts are masked, which glues words to some tags.
    assert equal / len(known) > 0.995
