"""What siddhi-core 5.1.7 answered, with a clock that events advance: small cases of each rule."""

from __future__ import annotations

import json
import re
import warnings
from pathlib import Path

import pandas as pd
import pytest

import cepkit as cep

CASES = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "fixtures/siddhi_answers.jsonl").read_text().splitlines()
]
DTYPES = {"int": "Int64", "long": "Int64", "string": "string", "float": "Float32", "double": "Float64"}


def frames_of(case: dict) -> dict[str, pd.DataFrame]:
    """Return a frame for each stream; ``at`` (milliseconds) and ``place`` order the events of all."""
    frames = {}
    for name, columns in re.findall(r"define stream (\w+) \(([^)]*)\)", case["streams"]):
        rows = [(t, i, *values) for i, (of, t, values) in enumerate(case["events"]) if of == name]
        types = dict(column.split() for column in columns.split(","))
        frame = pd.DataFrame(rows, columns=["at", "place", *types], dtype=object)
        dtypes = {column: DTYPES[of] for column, of in types.items()}
        frames[name] = frame.astype({"at": "int64", "place": "int64", **dtypes})
    return frames


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["query"][:90])
def test_answers_are_those_of_siddhi(case):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cep.CepWarning)
        found = cep.siddhi(
            case["streams"] + case["query"], frames_of(case),
            order_by=["at", "place"], start=0, complete_until=case["end"],
        )  # fmt: skip
    rows = [
        [time, [None if value is pd.NA else value for value in row]] for _, time, row in found._rows["Out"]
    ]
    assert rows == case["rows"]
