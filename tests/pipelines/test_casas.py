"""Ingestion of CASAS smart homes, against lines whose content is known and spans looked up one by one."""

from __future__ import annotations

import datetime
import itertools
import random
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from cepkit.datasets.smart_home import HomeParameters, smart_home
from cepkit.pipelines import casas, ingest, read_report
from cepkit.pipelines.casas import Marker, resolve_markers
from cepkit.pipelines.format import STRUCTURE, HeaderError, UnknownFormatError, read_records, source_files
from tests.support.raw_formats import casas_lines
from tests.support.sizes import seeds

pytest.importorskip("pyspark")

COLUMNS = ("ts", "home", "sensor", "location", "kind", "value", "level", "annotation", "activity")
FIELDS = (
    "expected 4 to 8 fields: date, time, sensor, value, or date, time, place, sensor, value, or date, time, "
    "sensor, place, detail, value, kind, and possibly an activity"
)
TIME = "the time is not yyyy-mm-dd hh:mm:ss with at most 6 decimals"
ANNOTATION = "the annotation is not an activity, or an activity and begin or end"
BAD_LINES = {
    "": "the line is empty",
    "2010-11-04 00:03:50.209589 M003": FIELDS,
    "2010-11-04 00:03:50.209589 M003 Bedroom Bed ON Control4-Motion Sleep at last": FIELDS,
    "2010-11-31 00:03:50.209589 M003 ON": TIME,
    "2010-11-04 00:63:50 M003 ON": TIME,
    "2010-11-04T00:03:50 x M003 ON": TIME,
    "2010-11-04 00:03:50.1234567 M003 ON": TIME,
    "11/4/2010,00:03:50,M003,ON": TIME,
    "2010-11-04,00:03:50,,ON": "the sensor is empty",
    "2010-11-04,00:03:50,M003,,Sleep": "the value is empty",
    "2010-11-04 00:03:50 M003 ON end": ANNOTATION,
    '2010-11-04 00:03:50 M003 ON ="begin"': ANNOTATION,
}


def plain(event: dict, rng: random.Random) -> str:
    blank = rng.choice([" ", "\t", "   "])
    words = event["annotation"] or ""
    if " " in words:  # only then it is plain which words are the activity
        words = words.replace("_", " ")
    return blank.join(
        filter(None, [f"{event['ts']}".replace(" ", blank), event["sensor"], event["value"], words])
    )


def comma_separated(event: dict, rng: random.Random) -> str:
    note = event["annotation"]
    if note and " " in note:
        note = '{}="{}"'.format(*note.split())
    fields = [*f"{event['ts']}".split(), event["sensor"], event["value"], note or rng.choice(["", ",", None])]
    return ",".join(field for field in fields if field is not None)


def uci(event: dict, rng: random.Random) -> str:
    note = event["annotation"]
    if note and " " in note:
        note = '{}="{}"'.format(*note.split())
    words = [event["sensor"], event["location"], "Detail", event["value"], event["kind"], note]
    return "\t".join([str(event["ts"]), *(word for word in words if word)])


def labelled(event: dict, rng: random.Random) -> str:
    words = [event["location"], event["sensor"], event["value"], event["annotation"]]
    return " ".join([str(event["ts"]), *words])


LAYOUTS = {"aruba.txt": plain, "hh101.csv": comma_separated, "csh101.ann.txt": uci, "al.data": labelled}


def random_events(rng: random.Random, name: str, n: int) -> list[dict]:
    """Return events of a home as lines, with the markers of activities that begin and end as they like."""
    ts, events = datetime.datetime(2010, 11, 4), []
    for _ in range(n):
        ts += datetime.timedelta(microseconds=rng.choice([0, 1, 1_500_000, 7_200_000_001]))
        activity = rng.choice(["Sleep", "Read", "Cook", "Bed_to_toilet" if name == "aruba.txt" else "Eat"])
        kinds = ["begin", "end", "begin", "end", None, None, None]
        kind = rng.choice(kinds)
        bare = activity if rng.random() < 0.2 else None
        note = f"{activity} {kind}" if kind else bare
        value = rng.choice(["ON", "OFF", "OPEN", "21.5", "ONc"])
        event = {
            "ts": ts,
            "home": name.split(".")[0],
            "sensor": rng.choice(["M003", "T001"]),
            "location": "Hall" if name in ("csh101.ann.txt", "al.data") else None,
            "kind": "Control4-Motion" if name == "csh101.ann.txt" else None,
            "value": value,
            "level": 21.5 if value == "21.5" else None,
            "annotation": activity if name == "al.data" else note,
        }
        event["text"] = LAYOUTS[name](event, rng)
        events.append(event)
    return events


def spans_by_definition(notes: list[str | None]) -> list[tuple[str, int, int]]:
    """Return the spans as (activity, first event, last event); ``notes`` are those of a file, in time."""
    marked = [(i, *note.split()) for i, note in enumerate(notes) if note and " " in note]
    spans = []
    for activity in {name for _, name, _ in marked}:
        of_activity = [(i, what) for i, name, what in marked if name == activity]
        for (i, what), (k, then) in itertools.pairwise(of_activity):
            if (what, then) == ("begin", "end"):
                spans.append((activity, i, k))
    return spans


def activities_by_definition(notes: list[str | None]) -> list[str | None]:
    """Return the activity of each event of a file, one event after another."""
    spans = spans_by_definition(notes)
    ends = {i for _, first, last in spans for i in (first, last)}
    found = []
    for i, note in enumerate(notes):
        around = [span for span in spans if span[1] <= i <= span[2]]
        if note and (" " not in note or i not in ends):
            found.append(note.split()[0])
        else:
            found.append(max(around, key=lambda span: span[1])[0] if around else None)
    return found


# ---------------------------------------------------------------- spans


@pytest.mark.parametrize("seed", seeds(6, 60))
def test_markers_come_to_what_the_definition_says(seed):
    rng = random.Random(seed)
    names = ["Sleep", "Read", "Cook"][: rng.randint(1, 3)]
    notes = [
        f"{rng.choice(names)} {rng.choice(['begin', 'end'])}" if rng.random() < 0.6 else None
        for _ in range(rng.randint(0, 25))
    ]
    markers = [Marker(note.split()[0], note.split()[1] == "begin") for note in notes if note]
    found = resolve_markers(markers)
    wanted = activities_by_definition(notes)
    after, results = None, []
    at = iter(zip(found.at, found.after, strict=True))
    for note in notes:
        if note:
            now, after = next(at)
            results.append(now)
        else:
            results.append(after)
    assert results == wanted
    spans = spans_by_definition(notes)
    assert found.n_spans == len(spans)
    assert found.n_inside_others == sum(any(a[1] < b[1] < a[2] for a in spans) for b in spans)
    assert found.n_never_ended == sum(m.begins for m in markers) - len(spans)
    assert found.n_never_begun == sum(not m.begins for m in markers) - len(spans)


# ---------------------------------------------------------------- events


def rows_of(folder: Path, columns: tuple[str, ...]) -> list[tuple]:
    """Return the events of a result by plain pyarrow; files and rows in the order on disk."""
    files = sorted((folder / "events").rglob("*.parquet"))
    rows = [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]
    return [tuple(row[name] for name in columns) for row in rows]


@pytest.mark.parametrize("seed", [0])
def test_casas_agrees_with_a_reading_of_known_lines(spark, tmp_path, seed):
    rng = random.Random(seed)
    source = tmp_path / "homes"
    source.mkdir()
    wanted, bad, n_lines, n_late, n_duplicates = [], [], 0, 0, 0
    totals = Counter()
    for name in LAYOUTS:
        events = random_events(rng, name, 120)
        for i in range(0, 100, 9):  # a few lines come too late, a few come twice
            events[i], events[i + 1] = events[i + 1], events[i]
        for i in range(5, 100, 21):
            events.insert(i + 3, events[i])
        for text in BAD_LINES:
            events.insert(rng.randrange(len(events)), {"text": text})
        (source / name).write_text("".join(f"{event['text']}\n" for event in events), encoding="utf-8")
        kept, newest = {}, datetime.datetime.min
        for number, event in enumerate(events, start=1):
            n_lines += 1
            if "ts" not in event:
                bad.append((name, number, event["text"], BAD_LINES[event["text"]]))
                continue
            n_late += event["ts"] < newest
            newest = max(newest, event["ts"])
            values = tuple(event[column] for column in COLUMNS[:-1])
            n_duplicates += values in kept
            kept.setdefault(values, number)
        in_time = sorted(kept, key=lambda values: (values[0], kept[values]))
        notes = [values[-1] for values in in_time]
        wanted += [
            (values[0], values[1], name, kept[values], (*values, activity))
            for values, activity in zip(in_time, activities_by_definition(notes), strict=True)
        ]
        totals["spans"] += len(spans_by_definition(notes))
        totals["begin"] += sum(bool(note) and note.endswith(" begin") for note in notes)
        totals["end"] += sum(bool(note) and note.endswith(" end") for note in notes)
    # A home whose activities the generator knows; it marks neither Other_Activity nor runs of one event.
    parameters = HomeParameters(n_days=1, start="2010-12-01")
    (source / "made.txt").write_text("\n".join(casas_lines(parameters, seed=3)) + "\n")
    made = smart_home(parameters, seed=3)
    activity = made["activity"].astype(str)
    n_of_run = activity.groupby((activity != activity.shift()).cumsum()).transform("size")
    is_marked = (n_of_run > 1) & (activity != "Other_Activity")
    expected = [name if marked else None for name, marked in zip(activity, is_marked, strict=True)]
    out = tmp_path / "out"

    report = ingest("casas", source, out, spark=spark)

    rows = rows_of(out, COLUMNS)
    assert [(row[2], row[5], row[8]) for row in rows if row[1] == "made"] == list(
        zip(made["sensor"], made["value"], expected, strict=True)
    )
    rows = [row for row in rows if row[1] != "made"]
    assert rows == [row[-1] for row in sorted(wanted, key=lambda row: row[:4])]
    quarantine = pq.read_table(out / "quarantine").to_pylist()
    found = [(Path(r["source_file"]).name, r["source_line"], r["text"], r["reason"]) for r in quarantine]
    assert sorted(found) == sorted(bad)
    assert report.reasons == Counter(reason for *_, reason in bad)
    assert (report.n_rows, report.n_late, report.n_keys) == (n_lines + len(made), n_late, 5)
    assert report.n_duplicates == n_duplicates > 0 < n_late
    n_made = activity[is_marked].groupby((activity != activity.shift()).cumsum()).ngroups
    assert report.notes["spans of activities"] - n_made == totals["spans"] > 20
    assert report.notes["begins without an end"] == totals["begin"] - totals["spans"] > 0
    assert report.notes["ends without a begin"] == totals["end"] - totals["spans"] > 0
    n_none = sum(row[-1] is None for row in rows)
    assert report.notes["events of no activity"] == n_none + (~is_marked).sum() > 0
    assert report.notes["activities"] == len({row[-1] for row in rows} - {None} | set(activity[is_marked]))
    assert report.notes["values that are no number, ON, OFF, OPEN or CLOSE"] == sum(
        row[5] == "ONc" for row in rows
    )
    assert read_report(out) == report


# ---------------------------------------------------------------- window attributes

BAD_FEATURES = {
    0: ("", "the line is empty"),
    1: ("1,2,3", "expected 37 fields as in the first line"),
    2: ("86400", "the second is not one of a day"),
    3: ("7", "the day of the week is not one of 0 to 6"),
    4: ("n/a", "complexity is not a number"),
    5: ("", "the activity is empty"),
}
CELL_OF_FAULT = {2: 1, 3: 2, 4: 10, 5: 36}


FEATURE_COLUMNS = tuple(casas.CASAS_FEATURES.columns)


def write_features(folder: Path, rng: random.Random) -> tuple[list[tuple], list[tuple]]:
    """Write files of two homes; return their events, and file, line and reason of the lines that are none."""
    good, bad = [], []
    for home in ("csh101", "csh102"):
        time, lines = datetime.datetime(2011, 6, 15, 22), [casas.HEADER]
        for i in range(120):
            time += datetime.timedelta(seconds=rng.choice([0, 1, 1, 30, 40_000, 500_000]) if i else 0)
            second = time.hour * 3600 + time.minute * 60 + time.second
            numbers = [time.hour, second, time.weekday(), *(round(rng.uniform(-1, 99), 3) for _ in range(33))]
            cells = [*map(str, numbers), rng.choice(["Sleep", "Other_Activity"])]
            fault = i // 10 if i % 10 == 5 else None
            if fault in BAD_FEATURES:
                text, reason = BAD_FEATURES[fault]
                if fault in CELL_OF_FAULT:
                    cells[CELL_OF_FAULT[fault]] = text
                    text = ",".join(cells)
                lines.append(text)
                bad.append((home, len(lines), reason))
            else:
                lines.append(",".join(cells))
                good.append((time, home, len(lines) - 1, cells[-1], *map(float, numbers)))
        (folder / f"{home}.ann.features.csv").write_text("\n".join(lines) + "\n")
    return good, bad


@pytest.mark.parametrize("seed", [0])
def test_features_agree_with_a_plain_reading(spark, tmp_path, seed):
    good, bad = write_features(tmp_path, random.Random(seed))
    records = read_records(spark, source_files(tmp_path))
    rows = casas.parse_casas_features(records, start="2011-06-15").collect()
    found = [tuple(row[name] for name in FEATURE_COLUMNS) for row in rows if row.reason is None]
    assert sorted(found) == sorted(good)
    reasons = [(row.home, row.source_line, row.reason) for row in rows if row.reason not in (None, STRUCTURE)]
    assert sorted(reasons) == sorted(bad) and len(rows) == len(good) + len(bad) + 2


def test_features_of_other_areas_are_refused(spark, tmp_path):
    other = tmp_path / "other.csv"
    other.write_text(casas.HEADER.replace("Chair", "Sofa") + "\n")
    with pytest.raises(
        HeaderError, match=r"column 17: expected 'sensorCount-Chair', found 'sensorCount-Sofa'"
    ):
        casas.parse_casas_features(read_records(spark, [str(other)]))


@pytest.mark.parametrize("seed", [1])
def test_features_are_ingested(spark, tmp_path, seed):
    source = tmp_path / "homes"
    source.mkdir()
    good, bad = write_features(source, random.Random(seed))
    report = ingest("casas_features", source, tmp_path / "out", spark=spark, start="2011-06-15")
    assert rows_of(tmp_path / "out", FEATURE_COLUMNS) == sorted(
        good, key=lambda row: (row[0], row[2], row[1])
    )
    assert report.reasons == Counter(reason for *_, reason in bad)
    assert (report.n_structure, report.n_late, report.n_ties, report.n_keys) == (2, 0, 0, 2)


def test_options_name_the_home_and_what_is_in_no_span(spark, tmp_path):
    file = tmp_path / "data"
    file.write_text(
        "2010-11-04 00:00:01 M1 ON Read begin\n2010-11-04 00:00:02 M1 OFF Read end\n"
        "2010-11-04 00:00:03 M1 ON\n"
    )
    report = ingest("casas", file, tmp_path / "out", spark=spark, home="aruba", other="Other_Activity")
    assert rows_of(tmp_path / "out", ("home", "activity")) == [
        ("aruba", "Read"),
        ("aruba", "Read"),
        ("aruba", "Other_Activity"),
    ]
    assert report.notes["events of no activity"] == 1


# ---------------------------------------------------------------- formats


@pytest.mark.parametrize("chosen", [casas.CASAS, casas.CASAS_FEATURES], ids=lambda chosen: chosen.name)
def test_the_formats_tell_what_they_are(chosen):
    assert "\n" not in chosen.description
    assert {chosen.partition_by, *chosen.order_by} <= set(chosen.columns)
    assert chosen.columns[chosen.clock] == "timestamp_ntz"
    with pytest.raises(UnknownFormatError, match="home"):
        chosen.read_options({"house": "x"})
    with pytest.raises(UnknownFormatError, match="option home: ' ' is not a name"):
        chosen.read_options({"home": " "})


def test_the_names_of_the_features_are_those_of_the_set():
    names = casas.HEADER.split(",")
    assert len(names) == len(set(names)) == 37 and names[-1] == "activity"
    assert names[:3] == ["lastSensorEventHours", "lastSensorEventSeconds", "lastSensorDayOfWeek"]
    assert names[14] == "sensorCount-Bathroom" and names[35] == "sensorElTime-WorkArea"
    columns = list(casas.ATTRIBUTES.values())
    generated = set(smart_home(HomeParameters(n_days=1)).columns)
    assert {"activity_change", "complexity", "window_duration", "count_Kitchen"} <= generated & set(columns)


def test_the_original_file(spark, tmp_path, reference):
    file = reference / "data" / "raw" / "casas_al_smarthome_data.txt"
    report = ingest("casas", file, tmp_path / "out", spark=spark, home="al")
    rows = rows_of(tmp_path / "out", ("ts", "location", "sensor", "value", "activity"))
    known = pq.read_table(reference / "data" / "casas_activity.parquet").slice(0, len(rows)).to_pylist()
    names = ("ts", "sensor", "sensor_detail", "value", "activity")
    assert rows == [tuple(row[name] for name in names) for row in known]
    assert (report.n_quarantined, report.n_duplicates, report.n_ties) == (0, 0, 0)
