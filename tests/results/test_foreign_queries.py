"""Queries as users of other engines have them, pasted unchanged: each runs, or one error names the clause.

The texts are our own. They use the spelling of each engine: comments, quotes, schemas, literals, semicolons.
"""

from __future__ import annotations

import pandas as pd
import pytest

import cepkit as cep
from cepkit.errors import CepError

DAY = pd.Timestamp("2024-03-01 09:00")
TICKS = pd.DataFrame(
    {
        "symbol": ["ACME"] * 8 + ["GLOBEX"] * 6,
        "tstamp": [DAY + pd.Timedelta(minutes=10 * i) for i in (*range(8), *range(6))],
        "price": [12.0, 17.0, 16.0, 14.0, 15.0, 19.0, 13.0, 20.0, 30.0, 28.0, 27.0, 29.0, 26.0, 31.0],
        "volume": [10, 20, 30, 40, 50, 60, 70, 80, 5, 6, 7, 8, 9, 10],
    }
)
PAYMENTS = pd.DataFrame(
    {
        "Account Id": ["a", "a", "a", "a", "b", "b"],
        "paid_at": [DAY + pd.Timedelta(minutes=m) for m in (0, 5, 9, 90, 0, 3)],
        "amount": [3, 4, 900, 5, 2, 1],
        "kind": ["card", "card", "wire", "card", "card", "card"],
    }
)

SECTORS = pd.DataFrame({"symbol": ["ACME"], "sector": ["tech"]})

RUN = {
    "Trino: V shapes, a catalog, SUBSET": (
        """
        -- falls and rises of one symbol
        SELECT v.symbol, v.start_price, v.bottom_price, v.final_price
        FROM memory.market.ticks MATCH_RECOGNIZE (
            PARTITION BY symbol
            ORDER BY tstamp
            MEASURES
                S.price AS start_price,
                LAST(D.price) AS bottom_price,
                LAST(MOVE.price) AS final_price
            ONE ROW PER MATCH
            AFTER MATCH SKIP PAST LAST ROW
            PATTERN (S D+ U+)
            SUBSET MOVE = (D, U)
            DEFINE
                D AS D.price < PREV(D.price),
                U AS U.price > PREV(U.price)
        ) AS v
        WHERE v.symbol <> 'NONE'
        """,
        [["ACME", 17.0, 14.0, 19.0], ["GLOBEX", 30.0, 27.0, 29.0]],
    ),
    "Trino: PERMUTE, exclusion, CLASSIFIER": (
        """
        SELECT m.tstamp, m.role FROM ticks MATCH_RECOGNIZE (
            PARTITION BY symbol ORDER BY tstamp
            MEASURES classifier() AS role
            ALL ROWS PER MATCH
            AFTER MATCH SKIP TO NEXT ROW
            PATTERN (PERMUTE(HIGH, {- LOW -}) $)
            DEFINE HIGH AS price > 25, LOW AS price < 27
        ) m /* the last two rows only */;
        """,
        [[DAY + pd.Timedelta(minutes=50), "HIGH"]],
    ),
    "Oracle: all rows, FINAL, an alias, an ordered result": (
        """
        SELECT MR.symbol, MR.match_num, MR.var_match, MR.end_tstamp, MR.price
        FROM   Ticks MATCH_RECOGNIZE (
                 PARTITION BY symbol
                 ORDER BY tstamp
                 MEASURES FINAL LAST(UP.tstamp) AS end_tstamp,
                          MATCH_NUMBER()        AS match_num,
                          CLASSIFIER()          AS var_match
                 ALL ROWS PER MATCH
                 AFTER MATCH SKIP TO LAST UP
                 PATTERN (STRT DOWN+ UP+)
                 DEFINE DOWN AS DOWN.price < PREV(DOWN.price, 1),
                        UP   AS UP.price > PREV(UP.price, 1)
               ) MR
        WHERE  MR.symbol = 'GLOBEX'
        ORDER  BY MR.symbol, MR.match_num, MR.tstamp
        FETCH FIRST 3 ROWS ONLY;
        """,
        [
            ["GLOBEX", 1, "STRT", DAY + pd.Timedelta(minutes=30), 30.0],
            ["GLOBEX", 1, "DOWN", DAY + pd.Timedelta(minutes=30), 28.0],
            ["GLOBEX", 1, "DOWN", DAY + pd.Timedelta(minutes=30), 27.0],
        ],
    ),
    "Oracle: small payments, then a large one, with intervals": (
        """
        SELECT "Account Id", first_t, last_t, total
        FROM ledger.payments MATCH_RECOGNIZE (
            PARTITION BY "Account Id" ORDER BY paid_at
            MEASURES FIRST(x.paid_at) AS first_t, y.paid_at AS last_t, SUM(x.amount) AS total
            ONE ROW PER MATCH
            PATTERN ( x{2,} y )
            DEFINE x AS (amount < 100),
                   y AS (amount >= 500
                         AND y.paid_at - LAST(x.paid_at) < INTERVAL '10' MINUTE)
        );
        """,
        [["a", DAY, DAY + pd.Timedelta(minutes=9), 7]],
    ),
    "Snowflake: quoted output, COUNT(A.*), LAG, an ordered result": (
        """
        select *
        from ticks
          match_recognize(
            partition by symbol
            order by tstamp
            measures
              match_number() as "MATCH_NUMBER",
              count(falls.*) as n_falls,
              count(*) as n_rows
            one row per match
            after match skip to last rises
            pattern(begins falls+ rises+)
            define
              falls as price < lag(price),
              rises as price > lag(price)
          )
        order by symbol desc, "MATCH_NUMBER";
        """,
        [["GLOBEX", 1, 2, 4], ["GLOBEX", 2, 1, 3], ["ACME", 1, 2, 5], ["ACME", 2, 1, 3]],
    ),
    "Snowflake: all rows with their numbers": (
        """
        select symbol, n, seq, price from ticks match_recognize(
            partition by symbol order by tstamp
            measures match_number() as n, match_sequence_number() as seq
            all rows per match omit empty matches
            after match skip past last row
            pattern(high{2,})
            define high as price > 26
        ) where symbol = 'GLOBEX';
        """,
        [["GLOBEX", 1, 1, 30.0], ["GLOBEX", 1, 2, 28.0], ["GLOBEX", 1, 3, 27.0], ["GLOBEX", 1, 4, 29.0]],
    ),
    "Flink: WITHIN, back quotes, SKIP TO NEXT ROW": (
        """
        SELECT T.`Account Id`, T.n
        FROM `default_catalog`.`bank`.`payments`
            MATCH_RECOGNIZE (
                PARTITION BY `Account Id`
                ORDER BY paid_at
                MEASURES COUNT(P.amount) AS n
                ONE ROW PER MATCH
                AFTER MATCH SKIP TO NEXT ROW
                PATTERN (P{2}) WITHIN INTERVAL '1' HOUR
                DEFINE P AS P.kind = 'card'
            ) AS T
        """,
        [["a", 2], ["b", 2]],
    ),
    "Databricks: literals of time, LIMIT": (
        """
        SELECT symbol, top AS `the top`
        FROM main.default.ticks
        MATCH_RECOGNIZE (
          PARTITION BY symbol
          ORDER BY tstamp ASC NULLS LAST
          MEASURES MAX(up.price) AS top
          ONE ROW PER MATCH
          PATTERN (up+)
          DEFINE up AS tstamp >= TIMESTAMP '2024-03-01 09:20:00' AND price > PREV(price)
        ) AS m
        ORDER BY top DESC
        LIMIT 2;  -- the two highest
        """,
        [["GLOBEX", 31.0], ["GLOBEX", 29.0]],
    ),
    "Snowflake: groups of matches": (
        """
        SELECT symbol, n FROM ticks MATCH_RECOGNIZE (
            PARTITION BY symbol ORDER BY tstamp MEASURES COUNT(*) AS n
            PATTERN (up{2,}) DEFINE up AS price > PREV(price)
        ) GROUP BY symbol, n;
        """,
        [["ACME", 2]],
    ),
    "Snowflake: a function of its own": (
        """
        SELECT symbol, n FROM ticks MATCH_RECOGNIZE (
            PARTITION BY symbol ORDER BY tstamp MEASURES COUNT(*) AS n
            PATTERN (up{2,}) DEFINE up AS price > PREV(price) AND RATIO_TO_REPORT(volume) > 0.1
        );
        """,
        "DEFINE UP: no function 'RATIO_TO_REPORT'",
    ),
    "Trino: a query with a name": (
        """
        WITH recent AS (SELECT * FROM ticks WHERE price > 1)
        SELECT * FROM recent MATCH_RECOGNIZE (
            PARTITION BY symbol ORDER BY tstamp MEASURES COUNT(*) AS n
            PATTERN (up+) DEFINE up AS price > PREV(price));
        """,
        [["ACME", 1], ["ACME", 2], ["ACME", 1], ["GLOBEX", 1], ["GLOBEX", 1]],
    ),
    "Oracle: a sub-query as the table": (
        """
        SELECT * FROM (SELECT * FROM ticks WHERE volume > 5) MATCH_RECOGNIZE (
            PARTITION BY symbol ORDER BY tstamp MEASURES COUNT(*) AS n
            PATTERN (up+) DEFINE up AS price > PREV(price)) ;
        """,
        [["ACME", 1], ["ACME", 2], ["ACME", 1], ["GLOBEX", 1], ["GLOBEX", 1]],
    ),
    "Databricks: a join of the result": (
        """
        SELECT m.symbol, s.sector FROM ticks MATCH_RECOGNIZE (
            PARTITION BY symbol ORDER BY tstamp MEASURES COUNT(*) AS n
            PATTERN (up+) DEFINE up AS price > PREV(price)) AS m
        JOIN sectors s ON s.symbol = m.symbol
        """,
        [["ACME", "tech"]] * 3,
    ),
}


@pytest.mark.parametrize("name", RUN)
def test_pasted_unchanged(name):
    text, expected = RUN[name]
    if isinstance(expected, str):
        with pytest.raises(CepError) as caught:
            cep.sql(text, ticks=TICKS, payments=PAYMENTS, sectors=SECTORS)
        assert expected in str(caught.value)
        return
    if "sectors" in text or " GROUP BY" in text or "WITH recent" in text or "FROM (" in text:
        pytest.importorskip("duckdb")
    found = cep.sql(text, ticks=TICKS, payments=PAYMENTS, sectors=SECTORS).to_frame()
    assert found.to_numpy().tolist() == expected
