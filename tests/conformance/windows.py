"""Siddhi's tests of windows and joins, as far as the meaning of cepkit's windows covers them.

Siddhi's default batch speaks when it closes: all of its rows, or, with aggregates, its last row. A window of
cepkit has a row for each arrival, so these cases compare the rows of closed batches. A join of cepkit has
rows for the pairs that arrivals create, and none for pairs that end.
"""

from __future__ import annotations

import pandas as pd

import cepkit as cep
from tests.conformance.cases import Tree
from tests.conformance.verdicts import REFUSED, Verdict, verdict_of

ONE_SIZE = "timeLength: a window of cepkit has one size, a time or a number of rows"
SORTED = "sort: the window keeps the smallest rows, not the last ones"
EMPTY = "a window of 0 rows holds no row; cepkit refuses it"
NO_WINDOW = "no side has a window, so no row ever waits; cepkit refuses such a join"
CLOSING_JOIN = "a batch joins when it closes; the rows of a join of cepkit meet when they arrive"
BACKWARD = "times go backward, or a timeout of the wall clock closes a batch; cepkit sorts rows by time"
ONE_BY_ONE = "having reads the count while a batch leaves row by row; a batch of cepkit leaves as a whole"
REPLACED = "the time of each row is replaced by the end of its batch"
NOT_RUN = {
    "SortWindowTestCase/sortWindowTest1": SORTED,
    "SortWindowTestCase/sortWindowTest2": SORTED,
    "TimeLengthWindowTestCase/timeLengthWindowTest10": ONE_SIZE,
    "TimeLengthWindowTestCase/timeLengthWindowTest3": ONE_SIZE,
    "TimeLengthWindowTestCase/timeLengthWindowTest4": ONE_SIZE,
    "TimeLengthWindowTestCase/timeLengthWindowTest7": ONE_SIZE,
    "LengthBatchWindowTestCase/lengthBatchWindowTest17": EMPTY,
    "LengthBatchWindowTestCase/lengthBatchWindowTest8": CLOSING_JOIN,
    "TimeBatchWindowTestCase/timeWindowBatchTest6": CLOSING_JOIN,
    "ExternalTimeBatchWindowTestCase/externalTimeBatchWindowTest13": CLOSING_JOIN,
    "ExternalTimeBatchWindowTestCase/externalTimeBatchWindowTest10": BACKWARD,
    "ExternalTimeBatchWindowTestCase/externalTimeBatchWindowTest11": BACKWARD,
    "ExternalTimeBatchWindowTestCase/externalTimeBatchWindowTest7": BACKWARD,
    "ExternalTimeBatchWindowTestCase/externalTimeBatchWindowTest16": REPLACED,
    "JoinTestCase/joinTest9": NO_WINDOW,
    "TimeBatchWindowTestCase/timeWindowBatchTest22": ONE_BY_ONE,
}
# distinctCount of Siddhi counts a missing value as a value.
LEFT_OUT = ("distinctCount",)
_PER_MS = 1000  # ticks of a millisecond; the rest is the place of an event, so that no two times are equal


def name_of(case: dict) -> str:
    return case["id"].removeprefix("siddhi/")


def text_of(expr: dict) -> str:
    """Return an expression in cepkit's language."""
    if "field" in expr:
        return expr["field"]
    function = {"stdDev": "std"}.get(expr["fn"], expr["fn"])
    return f"{function}({', '.join(map(text_of, expr['args']))})"


def frame_of(case: dict, stream: str, clock: str | None) -> pd.DataFrame:
    """Return the events of a stream, with the column ``now``."""
    columns = [column["name"] for column in case["streams"][stream]]
    events = [event for event in case["events"] if event["stream"] == stream]
    frame = pd.DataFrame([event["data"] for event in events], columns=columns)
    for column in case["streams"][stream]:
        if column["type"] in ("int", "long") and frame[column["name"]].isna().any():
            frame[column["name"]] = frame[column["name"]].astype("Int64")
    if clock is None:
        times = [event["t_ms"] * _PER_MS + event["pos"] for event in events]
    else:
        times = [event["data"][clock] * _PER_MS for event in events]
    return frame.assign(now=pd.array(times, "int64"))


# --- windows


def check_window(case: Tree) -> None:
    """Compare the rows of a window."""
    select = [one for one in case["select"] if not any(text in one["text"] for text in LEFT_OUT)]
    named = {f"s{i}": text_of(one["expr"]) for i, one in enumerate(select)}
    size = SizeOfCase(case["source"]["window"])
    frame = frame_of(case, case["source"]["stream"], size.clock)
    if size.start == "first":
        frame["now"] -= frame["now"].iloc[0]
    else:
        frame["now"] -= size.start * _PER_MS
    found = cep.window(frame, named, emit="all", order_by="now", **size.settings)
    has_aggregates = any("fn" in one["expr"] for one in select)
    end = case["end_ms"] * _PER_MS + len(frame) if size.ends else frame["now"].max()
    for kind in ("current", "expired"):
        if case["output_events"] not in ("all_events", f"{kind}_events"):
            continue
        rows = found[found["status"] == kind]
        if size.is_batch:
            rows = rows_of_batches(rows, frame, size, kind, end, has_aggregates=has_aggregates)
        elif "time" in size.settings:
            rows = rows[rows["emitted"] <= end]
        if rows is not None:
            assert listed(rows, named) == batches_of(case, kind), kind


class SizeOfCase:
    """The window of a case: its size, and when Siddhi speaks of its rows."""

    def __init__(self, of: dict):
        name, params = of["name"], [own.get("lit", own.get("field")) for own in of["params"]]
        self.clock = params.pop(0) if name.startswith("external") else None
        self.is_batch, self.on_arrival = name.endswith("Batch"), params[-1] is True
        self.is_wall = name in ("time", "timeBatch")
        self.settings: dict = {"time": params[0] * _PER_MS} if "ime" in name else {"length": params[0]}
        self.settings["tumbling"] = self.is_batch
        # Batches of an external clock begin with the first event, unless the case names a time.
        self.start: int | str = 0
        if name == "externalTimeBatch" and (len(params) < 2 or isinstance(params[1], str)):
            self.start = "first"
        elif name.endswith("imeBatch") and len(params) > 1 and not isinstance(params[1], bool):
            self.start = params[1]
        # An external clock stands still after the last event, unless a timeout closes the batch.
        self.ends = self.is_wall or (name == "externalTimeBatch" and params[-1] == 100)


def rows_of_batches(rows, frame, size, kind, end, *, has_aggregates):
    """Return the rows of batches in the form in which Siddhi emits them; None if it emits none."""
    width = size.settings.get("time")
    if width is None:
        length = size.settings["length"]
        batch = pd.Series(range(len(frame)), frame.index) // length
        n_closed = len(frame) // length
        n_left = (len(frame) - 1) // length if size.on_arrival else n_closed - 1
    else:
        batch = frame["now"] // width
        n_closed = end // width if size.is_wall else batch.max() + size.ends
        n_left = n_closed if size.on_arrival else n_closed - 1
    own = batch[rows.index]
    if kind == "current" and size.on_arrival:
        return rows
    if kind == "expired" and has_aggregates and not (size.is_wall or size.on_arrival):
        return None
    rows = rows[(own < (n_closed if kind == "current" else n_left)).to_numpy()]
    return rows.groupby(batch[rows.index], sort=False).tail(1) if has_aggregates else rows


def listed(rows, named):
    """Return rows as lists of plain values, with None for missing ones."""
    values = rows[list(named)].astype(object)
    return values.where(values.notna(), None).to_numpy().tolist()


def batches_of(case, kind):
    """Return the rows that Siddhi emits, without the aggregates that are left out."""
    shown = [not any(text in own["text"] for text in LEFT_OUT) for own in case["select"]]
    rows = [row for batch in case["expected_batches"] for row in batch[kind]]
    return [[value for value, own in zip(row, shown, strict=True) if own] for row in rows]


# --- joins


def check_join(case: Tree) -> None:
    """Compare the rows of a join."""
    frames, windows = [], []
    for side in ("left", "right"):
        frames.append(frame_of(case, case[side]["stream"], None))
        of = case[side].get("window")
        size = None if of is None else SizeOfCase(of)
        assert size is None or not size.is_batch or size.on_arrival
        windows.append(None if size is None else cep.Window(**size.settings))
    on = None
    if case["on"] is not None:
        on = {case["on"]["args"][0]["field"]: case["on"]["args"][1]["field"]}
    measures = {one["name"]: text_of(one["expr"]) for one in case["select"] if "fn" in one["expr"]}
    how = {"join": "inner", "left_outer_join": "left", "full_outer_join": "outer"}[case["join_type"]]
    found = cep.join(
        *frames, left=windows[0], right=windows[1], on=on, how=how, measures=measures, order_by="now",
        trigger={"all": "both"}.get(case["trigger"], case["trigger"]),
    )  # fmt: skip
    columns = []
    for one in case["select"]:
        name = one["expr"].get("field", one["name"])
        if name not in found.columns:
            which = (
                "left" if one["expr"]["of"] in (case["left"]["stream"], case["left"].get("ref")) else "right"
            )
            if case["left"].get("ref"):
                which = "left" if one["expr"]["of"] == case["left"]["ref"] else "right"
            name = f"{name}_{which}"
        columns.append(name)
    assert listed(found, columns) == batches_of(case, "current")


def verdict_of_case(case: Tree) -> Verdict:
    """Return what comes of a window or a join."""
    if reason := NOT_RUN.get(name_of(case)):
        return Verdict(REFUSED, reason)
    check = check_window if case["kind"] == "window" else check_join
    return verdict_of(lambda: check(case))
