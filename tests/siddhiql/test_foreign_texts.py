"""SiddhiQL as people have it: ten texts with annotations, definitions and sinks, pasted as they are."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import cepkit as cep
from tests.support.tables import cases


def seconds(values, **columns):
    """Return a frame with a time for each second."""
    times = pd.Timestamp("2026-03-01") + pd.to_timedelta(list(values), unit="s")
    return pd.DataFrame({"time": times, **columns})


def test_a_peak_and_a_drop():
    text = """
    @app:name("RoomClimate")
    @source(type = 'mqtt', url = 'tcp://house:1883', @map(type = 'json'))
    define stream Climate (room string, celsius double);

    @sink(type = 'log')
    define stream Drops (room string, peak double, low double);

    -- a drop by more than five degrees within ten minutes
    @info(name = 'drops')
    from every (e1=Climate) -> e2=Climate[room == e1.room and e1.celsius - celsius >= 5] within 10 min
    select e1.room, e1.celsius as peak, e2.celsius as low
    insert into Drops;
    """
    climate = seconds([0, 60, 120, 900], room=list("aaba"), celsius=[24.0, 18.5, 10.0, 12.0])
    found = cep.siddhi(text, Climate=climate, order_by="time")
    assert found.to_frame("Drops").to_numpy().tolist() == [["a", 24.0, 18.5]]


def test_a_failed_login_burst():
    text = """
    define stream Logins (user string, ok bool);
    partition with (user of Logins)
    begin
        @info(name = 'burst')
        from every e1=Logins[not ok]<3:> -> e2=Logins[ok] within 1 min
        select e1[0].user as user, e1[last].ok as last_ok
        insert into Suspicious;
    end;
    """
    logins = seconds(range(8), user=list("abababab"), ok=[False] * 6 + [True, True])
    found = cep.siddhi(text, Logins=logins, order_by="time").to_frame()
    assert found["user"].tolist() == ["a", "b"]


def test_a_delivery_that_does_not_arrive():
    text = """
    define stream Shipped (parcel string);
    define stream Delivered (parcel string);
    from every e1=Shipped -> not Delivered[parcel == e1.parcel] for 2 days
    select e1.parcel as parcel
    insert into Late;
    """
    shipped = seconds([0, 3600], parcel=["p1", "p2"])
    delivered = seconds([86_400], parcel=["p2"])
    streams = {"Shipped": shipped, "Delivered": delivered}
    found = cep.siddhi(text, **streams, order_by="time", complete_until="2026-03-05")
    assert found.to_frame(time="at").to_numpy().tolist() == [[pd.Timestamp("2026-03-03"), "p1"]]


def test_a_rise_in_a_sequence():
    text = """
    define stream Ticks (symbol string, price float, volume int);
    from every e1=Ticks, e2=Ticks[(e2[last].price is null and price > e1.price)
            or (not (e2[last].price is null) and price > e2[last].price)]+, e3=Ticks[price < e2[last].price]
    select e1.price as first, e2[last].price as top, e3.price as next
    insert into Peaks;
    """
    ticks = seconds(range(6), symbol=["X"] * 6, price=[3.0, 4.0, 6.0, 5.0, 7.0, 1.0], volume=[1] * 6)
    found = cep.siddhi(text, Ticks=ticks, order_by="time")
    assert found.to_frame()["top"].tolist() == [6.0, 7.0]


def test_both_doors():
    text = """
    define stream Front (open bool);
    define stream Back (open bool);
    from every (e1=Front[open] and e2=Back[open]) within 30 sec
    select eventTimestamp() as at insert into BothOpen;
    """
    found = cep.siddhi(
        text, Front=seconds([1, 50], open=[True, True]), Back=seconds([9], open=[True]), order_by="time"
    )
    assert found.count("BothOpen") == 1


def test_a_moving_average_of_groups():
    text = """
    define stream Trades (symbol string, price double);
    @info(name = 'average')
    from Trades#window.time(5 sec)
    select symbol, avg(price) as mean, count() as trades
    group by symbol
    having trades >= 2
    insert into Averages;
    """
    trades = seconds([0, 1, 2, 9], symbol=list("xyxx"), price=[1.0, 5.0, 3.0, 4.0])
    found = cep.siddhi(text, Trades=trades, order_by="time").to_frame()
    assert found.to_numpy().tolist() == [["x", 2.0, 2]]


def test_batches_and_a_chain():
    text = """
    define stream Meters (watts double);
    from Meters#window.lengthBatch(3) select avg(watts) as mean, max(watts) as peak insert into Batches;
    from every e1=Batches, e2=Batches[mean > e1.mean * 1.5] select e1.mean as before, e2.mean as after
    insert into Jumps;
    """
    watts = np.array([1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0])
    found = cep.siddhi(text, Meters=seconds(range(9), watts=watts), order_by="time")
    assert (found.count("Batches"), found.to_frame("Jumps").to_numpy().tolist()) == (3, [[1.0, 2.0]])


def test_a_join_of_windows():
    text = """
    define stream Prices (symbol string, price double);
    define stream News (company string, headline string);
    from Prices#window.length(1) as p join News#window.time(10 sec) as n on p.symbol == n.company
    select p.symbol, n.headline, p.price
    insert into Reactions;
    """
    prices = seconds([1, 4], symbol=["X", "X"], price=[10.0, 9.0])
    news = seconds([2], company=["X"], headline=["merger"])
    found = cep.siddhi(text, Prices=prices, News=news, order_by="time").to_frame()
    assert found["price"].tolist() == [10.0, 9.0]


@pytest.mark.parametrize(
    ("text", "clause"),
    cases("siddhi_clauses", "clauses that do not run"),
)
def test_one_error_names_the_clause(text, clause):
    ticks = seconds([0], symbol=["x"], price=[1.0])
    with pytest.raises(cep.PatternSyntaxError, match=clause):
        cep.siddhi(text, Ticks=ticks, order_by="time")
