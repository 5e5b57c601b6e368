"""Texts that are not valid UTF-8: every call that uses the column names it and the row."""

from __future__ import annotations

import pandas as pd
import pyarrow as pa
import pytest

import cepkit as cep
from tests.support.invalid_texts import with_invalid_text

ROWS = "MATCH_RECOGNIZE (ORDER BY ts MEASURES {} AS m PATTERN (A) DEFINE A AS {})"
X = {"define": {"p": "x > 0"}, "order_by": "ts"}
SIDDHI = "from T[k == 'a'] select x insert into O;"


def pushed(frame, query, **keywords):
    with cep.stream(query, frame, **keywords) as stream:
        return stream.push(frame)


CALLS = {
    "partition": lambda f: cep.match(f, "p", partition_by="k", **X).count(),
    "condition": lambda f: cep.match(f, "p", define={"p": "k = 'a'"}, order_by="ts").count(),
    "order": lambda f: cep.match(f, "p", define={"p": "x > 0"}, order_by="k").count(),
    "measure": lambda f: cep.match(f, "p", measures={"m": "max(k)"}, **X).to_frame(),
    "sequence": lambda f: cep.match(f, "PATTERN SEQ(a x, b y)", event_type="k", order_by="ts").count(),
    "rows": lambda f: cep.match(f, ROWS.format("LAST(k)", "x > 0")).to_frame(),
    "rows that read it": lambda f: cep.match(f, ROWS.format("COUNT(*)", "k LIKE 'a%'")).to_frame(),
    "siddhi": lambda f: cep.siddhi(SIDDHI, T=f, order_by="ts").to_frame("O"),
    "runs": lambda f: cep.runs(f, "x > 0", partition_by="k", order_by="ts"),
    "sessions": lambda f: cep.sessions(f, gap=5, partition_by="k", order_by="ts"),
    "step": lambda f: list(cep.step(f, "p", define={"p": "k = 'a'"}, order_by="ts")),
    "window": lambda f: cep.window(f, {"m": "max(k)"}, length=2, order_by="ts"),
    "stream": lambda f: pushed(f, "p", partition_by="k", **X),
    "stream of rows": lambda f: pushed(f, ROWS.format("LAST(k)", "x > 0")),
}  # fmt: skip


def with_dictionary(table):
    codes, texts = pa.array(range(len(table)), pa.int32()), table["k"].combine_chunks()
    return table.set_column(0, "k", pa.DictionaryArray.from_arrays(codes, texts))


FRAMES = {
    "arrow": lambda table: table,
    "dictionary": with_dictionary,
    "pandas": lambda table: table.to_pandas(types_mapper=pd.ArrowDtype),
}  # fmt: skip


@pytest.mark.parametrize("n_rows, row", [(3, 1), (3000, 2500)], ids=["short", "long"])
@pytest.mark.parametrize("kind", FRAMES)
@pytest.mark.parametrize("call", CALLS)
def test_column_and_row_are_named(call, kind, n_rows, row):
    frame = FRAMES[kind](with_invalid_text(n_rows, row))
    said = rf"column 'k' has a text that is not valid UTF-8 in row {row:,}: b'\\xff'"
    with pytest.raises(cep.CepError, match=said):
        CALLS[call](frame)


def test_lists_of_such_texts_name_the_row():
    table = with_invalid_text()
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 2, 3], pa.int32()), table["k"].combine_chunks())
    with pytest.raises(cep.CepError, match=r"column 'k' has a text that is not valid UTF-8 in row 1\."):
        CALLS["partition"](table.set_column(0, "k", lists))


def test_a_column_that_nothing_uses_may_be_invalid():
    assert cep.match(with_invalid_text(), "p", **X).count() == 3


def test_an_invalid_text_is_not_written(tmp_path):
    path = tmp_path / "rows.parquet"
    with pytest.raises(cep.CepError, match="column 'k' has a text that is not valid UTF-8 in row 1"):
        cep.match(with_invalid_text(), "p", **X).write_parquet(path, rows="all")
    assert not list(tmp_path.iterdir())
