"""The matches of MATCH_RECOGNIZE as pictures and boards read them, against the oracle and by eye."""

from __future__ import annotations

from random import Random

import pandas as pd
import pyarrow as pa
import pytest

import cepkit as cep
from cepkit.engines.match_recognize.bound import bind_row_query
from cepkit.errors import UnsupportedQueryError
from cepkit.frames.pandas import PandasSource
from cepkit.language.match_recognize.parsing import parse_match_recognize
from cepkit.results.matches import Matches
from cepkit.results.rows_in_memory import RowsInMemory
from tests.oracle import match_recognize as oracle
from tests.oracle.generate_match_recognize import random_query, random_rows
from tests.support.row_patterns import oracle_query
from tests.support.sizes import seeds

WALK = pd.DataFrame({"t": range(6), "s": list("aabbab"), "price": [5.0, 3, 2, 1, 4, 6]})
TEXT = """MATCH_RECOGNIZE (PARTITION BY s ORDER BY t MEASURES LAST(B.price) AS low, MATCH_NUMBER() AS n
  PATTERN (A B) DEFINE B AS price < PREV(price))"""


def found_in(frame: pd.DataFrame, text: str):
    source = PandasSource(frame)
    bound = bind_row_query(parse_match_recognize(text), source.schema)
    rows = RowsInMemory(bound, source, lambda found: found)
    return Matches(rows.drawn("plot"))


def test_they_are_sorted_by_their_last_rows():
    found = found_in(WALK, TEXT)
    assert found.to_frame().to_dict("list") == {"s": ["a", "b"], "low": [3.0, 1.0], "n": [1, 1]}
    assert found.to_frame("all")["t"].tolist() == [0, 1, 2, 3]
    assert found.lineage()["variable"].tolist() == ["A", "B", "A", "B"]
    assert found.tag()["match"].tolist() == [0, 0, 1, 1, pd.NA, pd.NA]
    assert [match.measures for match in found] == [
        {"s": "a", "low": 3.0, "n": 1},
        {"s": "b", "low": 1.0, "n": 1},
    ]
    assert found[1:].take([0])["s"].tolist() == ["b"] and found.head(1)["s"].tolist() == ["a"]
    assert found.count_by_last()["index"].tolist() == [1, 3]
    assert repr(found).startswith("2 matches of 'A B' in 6 events, 2 partitions by s")
    with pytest.raises(UnsupportedQueryError, match="write the aggregates in MEASURES"):
        found.aggregate(n="count()")


@pytest.mark.parametrize("seed", seeds(4, 8))
def test_random_matches_have_the_rows_and_variables_of_the_definition(seed):
    random = Random(seed)
    for _ in range(12):
        query = random_query(random, depth=2)
        rows = [{**row, "number": i} for i, row in enumerate(random_rows(random, random.randint(1, 14)))]
        frame = pd.DataFrame(rows).astype({"x": "Int64", "y": "Int64"}).drop(columns="number")
        frame["t"] = frame["t"].astype("datetime64[s]")
        asked = oracle_query(query)
        try:
            wanted = [
                [(part[k]["number"], label) for k, (label, _) in zip(match.rows(), match.labels, strict=True)]
                for part in oracle.partitions(asked, rows)
                for match in oracle.matches(asked, part)
                if match.labels
            ]
        except oracle.MatchError:
            continue
        lineage = found_in(frame, str(query)).lineage()
        found = [list(zip(own["index"], own["variable"], strict=True)) for _, own in lineage.groupby("match")]
        assert sorted(found) == sorted(wanted), str(query)


@pytest.mark.parametrize("kind", [lambda frame: frame, pa.Table.from_pandas], ids=["pandas", "arrow"])
def test_a_result_draws_itself(kind):
    figure = cep.match(kind(WALK), TEXT).plot()
    assert figure.layout.title.text.startswith("A B")
    assert len(figure.data) > 1
    labels = {text for trace in figure.data for text in (trace.text if trace.text is not None else ())}
    assert figure.to_dict() and ("A" in str(labels) or "A" in {trace.name for trace in figure.data})


def test_a_result_opens_the_explorer():
    text = TEXT.replace("price <", ":share * price <")
    explorer = cep.match(WALK, text, params={"share": 1.0}).explore().wait(60)
    assert explorer.board.table.total == "2"


def test_a_query_draws_its_automaton():
    view = cep.view(parse_match_recognize(TEXT))
    assert repr(view) == "NfaView(3 states, 2 transitions)"
