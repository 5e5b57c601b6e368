"""One widget of every kind, with content and without."""

from __future__ import annotations

import numpy as np

from cepkit.widgets.panels import (
    CaseView,
    DataBar,
    FunnelView,
    NfaView,
    QueryEditor,
    ReasonView,
    SliderPanel,
    Stepper,
    StreamBoard,
    TakeBar,
)
from cepkit.widgets.scene_view import MatchTable
from cepkit.widgets.timeline_view import TimelineView

KINDS = {
    "data_bar": DataBar,
    "query_editor": QueryEditor,
    "nfa_view": NfaView,
    "timeline_view": TimelineView,
    "funnel_view": FunnelView,
    "match_table": MatchTable,
    "slider_panel": SliderPanel,
    "stepper": Stepper,
    "reason_view": ReasonView,
    "case_view": CaseView,
    "take_bar": TakeBar,
    "stream_board": StreamBoard,
}

QUERY = "PATTERN SEQ(A a, B b)\nWHERE b.prise > a.price AND b.kind = '𝄞'"
MARCH = 1_709_287_200_000.0  # 2024-03-01 10:00 UTC in milliseconds


def field(name, label, choices, chosen, **more):
    """Return a selector of the head."""
    plain = {"many": False, "empty": "none", "locked": "", "needed": False, "takes_text": False}
    offered = [{"value": value, "note": note} for value, note in choices]
    return {"name": name, "label": label, "choices": offered, "chosen": chosen, **plain, **more}


COLUMNS = [("symbol", "text"), ("venue", "text"), ("lot no", "integer")]
FIELDS = [
    field("partition_by", "Key columns", COLUMNS, ["symbol"], many=True),
    field("order_by", "Clock", [("ts", "time[us]"), ("seq", "integer")], ["ts"], many=True),
    field("event_type", "Event type", COLUMNS, [], needed=True),
    field("strategy", "Strategy", [("any", ""), ("next", "")], [], locked="only for PATTERN queries"),
    field("value", "Drawn", [("price", ""), ("size", "")], ["price"], empty=""),
    field("measures", "Measures", [("count", "count()")], ["count"], many=True, takes_text=True),
]
FULL = {
    "data_bar": {
        "fields": FIELDS,
        "language": "regex",
        "rows": "1,000,000 rows",
        "note": "measures: 'x y' is no name",
        "key": {"text": "symbol = AAA", "place": 1, "n": 40, "matches": "7 matches"},
        "found": {
            "search": "",
            "order": "name",
            "page": 1,
            "n_pages": 2,
            "shown": 0,
            "told": "40 keys, 1 with matches, 39 without",
            "rows": [{"id": 0, "text": "AAA", "matches": "7"}, {"id": 4, "text": "AAB", "matches": "0"}],
        },
        "steps": {"undo": "a: size < 1000", "redo": ""},
        "runs": [
            {
                "number": n,
                "text": f"a b\na: size < {n}",
                "note": "by symbol",
                "matches": f"{10 * n} matches",
                "took": "8 ms",
                "at": "10:02:03",
            }
            for n in (3, 2, 1)
        ],
    },
    "query_editor": {
        "text": QUERY,
        "errors": [{"start": 30, "end": 35, "line": 2, "message": "column 'prise' not found\n  ^^^^^"}],
        "columns": [
            {"name": "price", "dtype": "float64", "note": ""},
            {"name": "kind", "dtype": "string", "note": "event type"},
            {"name": "lot no", "dtype": "int64", "note": ""},
        ],
        "names": ["A", "B", "average"],
        "functions": ["average"],
        "sentence": "an A event a, then a B event b, where b.price is above a.price",
        "examples": [
            {"title": "price rises", "text": "up\nup: price > prev(price)", "sentence": "an up row"},
            {"title": "A, later B", "text": "PATTERN SEQ(A a, B b)", "sentence": "an A event a, then …"},
        ],
        "sheet": [
            {
                "title": "Regex",
                "entries": [
                    {"text": "up+", "meaning": "one or more up rows", "kind": "regex"},
                    {"text": "within: 2 min", "meaning": "longest time", "kind": "line"},
                ],
            },
            {
                "title": "Conditions",
                "entries": [{"text": "price > 5", "meaning": "more than", "kind": "condition"}],
            },
        ],
        "status": {"state": "running", "message": "", "progress": 0.42},
        "marked": ["a"],
    },
    "nfa_view": {
        "states": [
            {"id": 0, "label": "0", "x": 60, "y": 80, "is_start": True, "is_final": False},
            {"id": 1, "label": "1", "x": 190, "y": 80, "is_start": False, "is_final": False},
            {"id": 2, "label": "2", "x": 320, "y": 80, "is_start": False, "is_final": True},
        ],
        "transitions": [
            {"source": 0, "target": 1, "label": "A a", "path": "M77,80L166,80", "x": 125, "y": 74},
            {"source": 1, "target": 2, "label": "B b\nsmall", "path": "M207,80L292,80", "x": 250, "y": 74},
        ],
        "width": 360,
        "height": 140,
        "live": [{"state": 1, "n": 1234}],
        "lit": [0, 1],
        "told": "12 events of 3 matches on the timeline marked as a",
        "selected": 1,
    },
    "timeline_view": {
        "time_kind": "datetime",
        "x": MARCH + 1000.0 * np.arange(3600),
        "y": np.sin(np.arange(3600) / 300),
        "x_label": "ts (UTC)",
        "y_label": "load (kW)",
        "spans": MARCH + 1000.0 * np.array([[600, 1200], [900, 1000], [3000, 3300]]),
        "span_ids": [7, 8, 9],
        "points": [
            {"x": MARCH + 600e3, "y": 0.9, "label": "a"},
            {"x": MARCH + 1200e3, "y": None, "label": "b"},
        ],
        "asked": [{"x": MARCH + 1500e3, "y": 0.5}],
        "marks": [[MARCH + 610e3, 0.9], [MARCH + 620e3, 0.91]],
        "mark_label": "a",
        "choices": ["load (kW)", "temperature"],
        "value": "load (kW)",
        "span_note": "first 3 of 1.2e9 matches",
        "sampled": "",
        "selected": 7,
        "cursor": MARCH + 700e3,
    },
    "funnel_view": {
        "stages": [
            {"label": "A a", "n": "1,200", "share": 1.0, "kept": None, "note": "all events"},
            {"label": "B b", "n": "300", "share": 0.25, "kept": 0.25, "note": "b.price > a.price"},
            {"label": "C c", "n": "0", "share": 0.0, "kept": 0.0, "note": ""},
        ],
        "selected": 1,
    },
    "match_table": {
        "columns": [{"name": "match", "align": "right"}, {"name": "start", "align": "left"}],
        "rows": [[str(10**21 + k), f"10:{k:02d}"] for k in range(20)],
        "numbers": [10**21 + k for k in range(20)],
        "page": 50_000_000_000_000_000_001,
        "n_pages": str(10**20),
        "total": str(2 * 10**21),
        "sortable": ["start"],
        "order": "start up",
        "limit_note": "matches are made when they are looked at",
        "selected": 10**21 + 1,
    },
    "slider_panel": {
        "sliders": [
            {
                "id": "a",
                "label": "price >",
                "value": 1.5,
                "low": 0,
                "high": 3,
                "step": 0.25,
                "unit": "€",
                "text": "",
            },
            {
                "id": "b",
                "label": "WITHIN",
                "value": 60,
                "low": 1,
                "high": 240,
                "step": 1,
                "unit": "min",
                "text": "60",
            },
        ]
    },
    "stepper": {
        "position": 4,
        "n_events": 10,
        "event": [["kind", "B"], ["price", "12.5"]],
        "live": [{"state": 1, "label": "after a", "n": 1234, "examples": ["a=1", "a=2"]}],
        "completed": ["match 7: a=1 b=4"],
        "note": "one event of all partitions",
    },
    "case_view": {
        "cases": [
            {
                "kind": "match",
                "must": True,
                "label": "AAA, 10:17:01 to 10:17:03, 5 rows",
                "holds": True,
                "text": "A match has exactly these rows.",
            },
            {
                "kind": "range",
                "must": False,
                "label": "AAB, 09:42:02 to 09:42:37, 37 rows",
                "holds": False,
                "text": "A match takes a row of this range.",
            },
            {"kind": "rows", "must": True, "label": "row 5", "holds": None, "text": "It is not known."},
        ],
        "offers": [{"id": "match", "text": "match 2"}, {"id": "range", "text": "the shown time"}],
    },
    "take_bar": {
        "items": [
            {
                "id": "csv",
                "title": "CSV",
                "note": "Download 5 matches",
                "told": "",
                "copies": "",
                "locked": "",
            },
            {"id": "html", "title": "HTML", "note": "", "told": "", "copies": "", "locked": "No matches yet"},
            {
                "id": "line",
                "title": "Shell",
                "note": "",
                "told": "a placeholder",
                "copies": "ls",
                "locked": "",
            },
        ],
        "told": "5 matches",
    },
    "stream_board": {
        "title": "up up",
        "figures": [
            {"label": "events per second", "now": "1,200", "course": [0.0, 900.0, 1100.0, 1200.0]},
            {"label": "keys", "now": "1", "course": [1.0]},
        ],
        "note": "3 late rows dropped",
    },
    "reason_view": {
        "title": "B at 10:02",
        "lines": [
            {"text": "event type is B", "is_met": True},
            {"text": "b.price > a.price", "is_met": False},
            {"text": "The furthest partial match got to a.", "is_met": None},
        ],
        "note": "With a.price below 11 it would be a match.",
    },
}


def full(stem):
    """Return a widget with content."""
    return KINDS[stem](**FULL[stem])
