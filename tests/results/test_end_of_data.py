"""The end of the data: an absence that ends later than the data are complete is undecided, on every door."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest

import cepkit as cep
from cepkit.engines.after_match import report_matches
from cepkit.errors import CepError, UnsupportedQueryError
from cepkit.planning.planner import engines
from tests.oracle import generate_sequences as gs
from tests.oracle.naive_sequences import sequence_matches
from tests.support.sequence_runs import all_of, as_matches, bound
from tests.support.sizes import seeds

# User 1 pays in time, 2 too late, 3 never. User 4 creates at 33, just before the data end.
UNPAID = "PATTERN SEQ(create c, !pay p) WHERE [u] WITHIN 10 min"
KEYWORDS = {"event_type": "k", "order_by": "ts"}
SQL = """SELECT * FROM d MATCH_RECOGNIZE (
    PARTITION BY u ORDER BY ts MEASURES C.ts AS c, TIMED_OUT() AS late
    ONE ROW PER MATCH WITH TIMED OUT MATCHES
    PATTERN (C P) WITHIN INTERVAL '10' MINUTE DEFINE C AS k = 'create', P AS k = 'pay') AS m WHERE late"""
SIDDHI = """partition with (u of S) begin
    from every e1=S[k=='create'] -> not S[k=='pay'] for 10 min select e1.u as u insert into Out; end"""
USERS = {None: [2, 3], "10:43": [2, 3, 4], "10:42:59": [2, 3], "end": [2, 3, 4], "END": [2, 3, 4]}
EARLIER = {"10:18": [2, 3], "10:17": [2], "10:00": []}  # SiddhiQL takes no end before the last event


def minutes(*numbers: int) -> pd.DatetimeIndex:
    return pd.Timestamp("2026-01-01 10:00") + pd.to_timedelta(list(numbers), unit="m")


def orders(unit: str = "us") -> pd.DataFrame:
    kinds = ["create", "create", "pay", "create", "pay", "create"]
    times = minutes(0, 1, 5, 8, 30, 33).as_unit(unit)
    return pd.DataFrame({"u": [1, 2, 1, 3, 2, 4], "ts": times, "k": kinds})


def said(until: str | None) -> str | None:
    return until if until is None or ":" not in until else f"2026-01-01 {until}"


def users(frame) -> list[int]:
    return sorted(row["u"] for row in frame.to_dict("records"))


@pytest.mark.parametrize("strategy", ["any", "next", "strict"])
def test_queries_without_a_wait_leave_nothing_undecided(strategy):
    found = orders().cep.match("PATTERN SEQ(create c, pay p)", **KEYWORDS, strategy=strategy)
    assert list(found.undecided().columns) == list(found.to_frame().columns) and not len(found.undecided())


@pytest.mark.parametrize(("until", "wanted"), [*USERS.items(), *EARLIER.items()])
def test_one_rule_in_memory(until, wanted):
    frame, given = orders(), {"complete_until": said(until)}
    found = frame.cep.match(UNPAID, **KEYWORDS, **given)
    assert users(found.to_frame()) == wanted and found.count() == len(wanted)
    undecided = sorted({2, 3, 4} - set(wanted))
    assert users(found.undecided()) == undecided
    assert frame.cep.tag(UNPAID, **KEYWORDS, **given)["match"].notna().sum() == len(wanted)
    assert f"\n{len(wanted) or 'no'} match" in str(frame.cep.funnel(UNPAID, **KEYWORDS, **given))
    loops = frame.cep.match(UNPAID.replace("create c", "create+ c[]"), **KEYWORDS, **given)
    assert users(loops.to_frame()) == wanted and users(loops.undecided()) == undecided
    rows = cep.sql(SQL, d=frame, **given)
    assert users(rows.to_frame()) == wanted and users(rows.undecided()) == undecided
    clause = frame.cep.match(SQL.partition("FROM d ")[2].partition(" AS m")[0], **given).to_frame()
    assert users(clause[clause["late"]]) == wanted
    if until in USERS:
        assert users(cep.siddhi(SIDDHI, S=frame, order_by="ts", **given).to_frame()) == wanted


@pytest.mark.parametrize(("until", "wanted"), [*USERS.items(), *EARLIER.items()])
@pytest.mark.parametrize("n", [1, 6])
def test_one_rule_in_streams(n, until, wanted):
    """An open stream reports what is decided; ``close`` follows the rule."""
    frame, given = orders(), {"complete_until": said(until)}
    texts = {UNPAID: KEYWORDS, SQL: {}}
    for text, keywords in texts.items():
        stream, found = cep.stream(text, frame[:0], **keywords), []
        for begin in range(0, 6, n):
            found += users(stream.push(frame[begin : begin + n]))
        assert sorted(found) == [2, 3] and users(stream.flush()) == []
        assert users(stream.close(**given)) == [4] * (4 in wanted)
    stream = cep.stream(UNPAID, frame[:0], latency_bound="1000 s", warm_up=2, **KEYWORDS, **given)
    found = [*users(stream.push(frame)), *users(stream.flush()), *users(stream.close())]
    assert sorted(found) == sorted({2, 3, *wanted})
    stream = cep.stream(UNPAID, frame[:0], **KEYWORDS, **given)  # the query may say it, too
    stream.push(frame)
    assert users(stream.close()) == [4] * (4 in wanted)


@pytest.mark.spark
def test_one_rule_on_spark(spark):
    """The last time is that of the whole frame, and not that of a task's rows."""
    frame = spark.createDataFrame(orders())
    for until, wanted in [*USERS.items(), *EARLIER.items()]:
        given = {"complete_until": said(until)}
        for query in (UNPAID, UNPAID.replace("[u]", "p.u = c.u")):  # by key, and in slices of time
            found = frame.cep.match(query, **KEYWORDS, measures={"user": "c.u"}, **given)
            assert sorted(row["user"] for row in found.to_frame().collect()) == wanted
        assert {row["user"] for row in found.undecided().collect()} == {2, 3, 4} - set(wanted)
        if until in (None, "10:17", "end"):
            rows = cep.sql(SQL, d=frame, **given)
            assert users(rows.to_frame().toPandas()) == wanted
            assert {row["u"] for row in rows.undecided().collect()} == {2, 3, 4} - set(wanted)
        if until in (None, "end"):
            rows = cep.siddhi(SIDDHI, S=frame, order_by="ts", **given).to_frame()
            assert users(rows.toPandas()) == wanted


@pytest.mark.filterwarnings("ignore::cepkit.errors.CepWarning")
def test_never_needs_finished_data():
    frame, never = orders(), "PATTERN SEQ(create c, !pay p) WHERE [u]"
    assert users(frame.cep.match(never, **KEYWORDS, complete_until="end").to_frame()) == [3, 4]
    assert frame.cep.match(never, event_type="k", complete_until="end").count() == 2  # without a clock
    stream = cep.stream(never, frame[:0], **KEYWORDS, complete_until="end")
    assert users(stream.push(frame)) == [] and users(stream.close()) == [3, 4]
    for until in (None, "2026-01-01 10:43"):
        with pytest.raises(
            CepError, match="complete_until='end' if the data are finished, so that it means 'never'"
        ):
            frame.cep.match(never, **KEYWORDS, complete_until=until)
    with pytest.raises(
        CepError, match="before the first event needs a limit on the wait; give a time window"
    ):
        frame.cep.match("PATTERN SEQ(!pay p, create c)", **KEYWORDS, complete_until="end")


@pytest.mark.parametrize("family", ["negation", "optional", "all", "after_match"])
@pytest.mark.parametrize("seed", seeds(3, 300))
def test_undecided_matches_are_the_definition(seed, family):
    case = gs.case(seed, None, family)
    case = replace(case, query=replace(case.query, undecided=True))
    program, events = bound(case)
    names = [name for name in ("ordered", "search", "tree") if engines()[name].unsupported(program) is None]
    for name in names:
        found = report_matches(program, engines()[name].of_sequences(program, events))
        assert as_matches(program, all_of(found)) == sequence_matches(case.query, case.rows)


def test_the_last_time_is_that_of_all_rows_and_its_clock():
    dated = orders().assign(ts=lambda frame: frame["ts"].dt.tz_localize("Europe/Berlin"))
    for until in ("2026-01-01 10:43", "2026-01-01 09:43Z", pd.Timestamp("2026-01-01 09:43", tz="UTC")):
        assert users(dated.cep.match(UNPAID, **KEYWORDS, complete_until=until).to_frame()) == [2, 3, 4]
    numbers = orders().assign(ts=[0.0, 1.0, 5.0, 8.0, 30.0, 33.0])
    query = UNPAID.replace("10 min", "10")
    assert users(numbers.cep.match(query, **KEYWORDS, complete_until=17.5).to_frame()) == [2]
    assert users(numbers.cep.match(query, **KEYWORDS, complete_until=43).to_frame()) == [2, 3, 4]
    waits = orders().cep.why_not(UNPAID, rows=[5], **KEYWORDS)
    assert "whether p is absent is decided 10 min after row 5 (10:33), which is later" in str(waits)
    assert "complete     until the last time in the data" in str(orders().cep.explain(UNPAID, **KEYWORDS))


def test_mistakes_are_errors():
    frame = orders()
    for until, problem in [
        ("soon", "complete_until='soon' is no time, as the clock has"),
        (5, "a number has no unit"),
        ("2026-01-01 10:43Z", "it has a time zone, and the clock has none"),
    ]:
        with pytest.raises(CepError, match=problem):
            frame.cep.match(UNPAID, **KEYWORDS, complete_until=until)
        with pytest.raises(CepError, match=problem):
            cep.sql(SQL, d=frame, complete_until=until)
    with pytest.raises(CepError, match=r"complete_until=3 needs a clock: give order_by"):
        frame.cep.match("PATTERN SEQ(create c)", event_type="k", complete_until=3)
    with pytest.raises(UnsupportedQueryError, match=r"\['complete_until'\] belong to event sequences"):
        frame.cep.match("create", event_type="k", complete_until="end")
    with pytest.raises(UnsupportedQueryError, match="undecided: a regex matches rows"):
        frame.cep.match("create", event_type="k", order_by="ts").undecided()
    plain = (
        SQL.replace("WITH TIMED OUT MATCHES", "")
        .replace(", TIMED_OUT() AS late", "")
        .replace("WHERE late", "")
    )
    with pytest.raises(
        UnsupportedQueryError, match="undecided: only ONE ROW PER MATCH WITH TIMED OUT MATCHES"
    ):
        cep.sql(plain, d=frame).undecided()
