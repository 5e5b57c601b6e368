"""Frames by event type, searched as one sequence of events, against the events in plain Python."""

import random

import pandas as pd
import pyarrow as pa
import pytest

import cepkit as cep
from cepkit.errors import CepError
from tests.support.sizes import seeds

PAIRS = "PATTERN SEQ(Order o, Pay p) WHERE [id]"
LARGE = 2**60  # integers that no float holds


def minutes(*of):
    return pd.Timestamp("2026-01-01 10:00") + pd.to_timedelta(list(of), unit="m")


ORDERS = pd.DataFrame({"t": minutes(0, 9), "id": [1, 2]})
PAYS = pd.DataFrame({"t": minutes(2, 3, 10), "id": [1, 1, 2], "amount": [LARGE + 1, 2, 3]})
FRAMES = {"Order": ORDERS, "Pay": PAYS}


def random_frames(seed):
    """Return two frames with ties in time, and the pairs by hand: each order with the next payment."""
    random.seed(seed)
    frames, events = {}, []
    for name, more in (("Order", "qty"), ("Pay", "amount")):
        rows = sorted(
            (random.randrange(8), random.randrange(2), LARGE + i) for i in range(random.randrange(9))
        )
        random.shuffle(rows)
        frames[name] = pd.DataFrame(rows, columns=["t", "id", more]).astype("int64")
        events += [(t, name, row, key) for row, (t, key, _) in enumerate(rows)]
    events.sort(key=lambda event: event[0])  # stable: ties keep the order of the frames
    pairs = []
    for i, (_, name, row, key) in enumerate(events):
        later = (e for e in events[i + 1 :] if e[1] == "Pay" and e[3] == key)
        if name == "Order" and (pay := next(later, None)):
            pairs.append((row, pay[2]))
    return frames, sorted(pairs)


def as_polars(frame):
    return pytest.importorskip("polars").from_arrow(as_arrow(frame))


def as_arrow(frame):
    return pa.Table.from_pandas(frame, preserve_index=False)


def table_of(frame):
    return as_arrow(frame) if isinstance(frame, pd.DataFrame) else pa.table(frame)


def rows_of(matches):
    """Return the rows of each match in their frames."""
    rows = matches.to_frame(rows="all")
    if not isinstance(rows, pd.DataFrame):
        rows = pa.table(rows).to_pandas()
        rows.index = pd.MultiIndex.from_arrays([rows["frame"], rows["row_of_frame"]])
    pairs = [tuple(part.index.get_level_values(1)) for _, part in rows.groupby("match")]
    assert rows.index.get_level_values(0).tolist() == ["Order", "Pay"] * len(pairs)
    return sorted(pairs)


@pytest.mark.filterwarnings("ignore:the column of event types, .* never has")
@pytest.mark.parametrize(
    "convert", [lambda frame: frame, as_arrow, as_polars], ids=["pandas", "arrow", "polars"]
)
@pytest.mark.parametrize("seed", seeds(6, 200))
def test_pairs_of_two_frames(seed, convert):
    frames, pairs = random_frames(seed)
    matches = cep.match(
        {name: convert(frame) for name, frame in frames.items()}, PAIRS, order_by="t", strategy="next",
        measures={"qty": "o.qty", "amount": "p.amount"},
    )  # fmt: skip
    assert rows_of(matches) == pairs
    rows = table_of(matches.to_frame()).to_pylist()
    assert sorted((row["qty"], row["amount"]) for row in rows) == sorted(
        (int(frames["Order"].qty[o]), int(frames["Pay"].amount[p])) for o, p in pairs
    )


@pytest.mark.spark
def test_pairs_of_two_spark_frames(spark):
    frames, pairs = random_frames(3)
    assert pairs
    sides = {name: spark.createDataFrame(frame) for name, frame in frames.items()}
    values = {"qty": "o.qty", "amount": "p.amount"}
    found = cep.match(sides, PAIRS, order_by="t", strategy="next", measures=values).to_frame().collect()
    assert sorted((row.qty, row.amount) for row in found) == sorted(
        (int(frames["Order"].qty[o]), int(frames["Pay"].amount[p])) for o, p in pairs
    )


def test_labels_say_the_frame_and_the_row():
    found = cep.match(FRAMES, PAIRS, order_by="t", strategy="next")
    assert found.lineage()["index"].tolist() == [("Order", 0), ("Pay", 0), ("Order", 1), ("Pay", 2)]
    assert found.to_frame(rows="all")["amount"].tolist() == [pd.NA, LARGE + 1, pd.NA, 3]
    assert found.to_frame(rows="all")["amount"].dtype == "Int64"
    clocked = {name: frame.set_index("t") for name, frame in FRAMES.items()}
    assert cep.match(clocked, PAIRS, strategy="next").to_frame().equals(found.to_frame())


@pytest.mark.parametrize(
    ("call", "rows"),
    [
        (lambda d: cep.match(d, "Order+ Pay", order_by="t"), [2, 2]),
        (lambda d: cep.match(d, PAIRS, order_by="t", event_type="kind"), [2, 2, 2]),
        (lambda d: cep.match(d, cep.sequence_query(PAIRS, event_type="kind", order_by="t")), [2, 2, 2]),
    ],
)
def test_queries_of_other_kinds(call, rows):
    assert call(FRAMES).to_frame(rows="all").groupby("match").size().tolist() == rows


def test_other_functions():
    order = {"order_by": "t"}
    assert cep.tag(FRAMES, "Order Pay", **order)["match"].tolist() == [0, 1, 0, pd.NA, 1]
    funnel = cep.funnel(FRAMES, ["Order", "Pay"], partition_by="id", **order)
    assert funnel.to_frame()["reached"].tolist() == [2, 2]
    counts = cep.window(FRAMES, {"n": "count()"}, length=10, group_by="frame", **order)
    assert counts["n"].tolist() == [1, 1, 2, 2, 3]
    assert len(cep.runs(FRAMES, by="frame", **order)) == 4
    assert "Order" in str(cep.explain(FRAMES, PAIRS, **order))
    text = "MATCH_RECOGNIZE (ORDER BY t PATTERN (A B) DEFINE A AS frame = 'Order', B AS frame = 'Pay')"
    assert cep.match(FRAMES, text).count() == 2


@pytest.mark.parametrize(
    ("frames", "keywords", "message"),
    [
        ({"Order": ORDERS, "Pay": 3}, {}, "'Pay' is of type int; write {'Order': orders, …}"),
        ({"Order": ORDERS, 7: PAYS}, {}, "7 is of type DataFrame"),
        ({"Order": ORDERS, "Pay": PAYS.assign(id="x")}, {}, "'id' is integer in frame 'Order' and text"),
        (
            {"Order": ORDERS, "Pay": PAYS.assign(t=PAYS.t.dt.tz_localize("UTC"))}, {},
            r"'t' is time\[.s\] in frame 'Order' and time\[.s\] in UTC in 'Pay'",
        ),
        ({"Order": ORDERS, "Pay": PAYS.assign(frame=1)}, {}, "rename it, or name another with event_type="),
        ({"Order": ORDERS, "Pay": PAYS.assign(kind=1)}, {"event_type": "kind"}, "has a column 'kind'"),
        (FRAMES, {"order_by": None}, "frames by event type need order_by"),
        ({}, {}, "a mapping of columns is not a frame yet"),
        ({"x": PAYS.id}, {}, "a mapping of columns is not a frame yet"),
    ],
)  # fmt: skip
def test_frames_that_do_not_go_together(frames, keywords, message):
    with pytest.raises(CepError, match=message):
        cep.match(frames, PAIRS, **{"order_by": "t", **keywords})
