"""Long lists of values (``x in […]``) against the definition, and the size of generated code."""

from __future__ import annotations

import sys
from random import Random

import numpy as np
import pandas as pd
import pytest

import cepkit as cep
from cepkit.compile.regex_source import write_matching
from cepkit.compile.shared import binding
from cepkit.language.expressions.parsing import parse_expression
from cepkit.language.regex import parse_pattern
from cepkit.language.sequences.construction import sequence_query
from tests.oracle import naive
from tests.oracle.naive_sequences import sequence_matches
from tests.support.sizes import JIT, seeds

KINDS = ("text", "category", "integer", "nullable", "float", "expression", "time")


def drawn(kind: str, rng: Random, n: int) -> tuple[pd.DataFrame, list[dict], str]:
    """Return a frame, its rows for the oracle, and the text of a test with a long list."""
    options: list[str]
    if kind in ("text", "category"):
        texts = [f"n{i}" for i in range(20)]
        values = [rng.choice([*texts, None]) for _ in range(n)]
        options = [f"'{text}'" for text in rng.sample([*texts, "other", "more"], rng.randint(9, 15))]
        column = pd.Series(values, dtype="category" if kind == "category" else "string")
    elif kind in ("integer", "nullable", "time"):
        values = [rng.choice([rng.randint(-20, 20), *[None] * (kind == "nullable")]) for _ in range(n)]
        numbers = rng.sample(range(-25, 25), rng.randint(9, 30))
        options = [str(number) for number in numbers] + ["2.5"] * (kind != "time") + ["9007199254740993"]
        column = pd.Series(values, dtype="Int64" if kind == "nullable" else "int64")
    else:
        values = [rng.choice([rng.randint(-8, 8) / 2, float("nan"), -0.0, 1e300]) for _ in range(n)]
        options = [str(number / 2) for number in rng.sample(range(-15, 15), rng.randint(9, 20))] + [
            "0.0",
            "7",
        ]
        column = pd.Series(values, dtype="float64")
    if rng.random() < 0.25:
        options.append("null")
    operand = "x" if kind != "expression" else "x * 2 + 1"
    negation = rng.choice(["", "not "])
    frame = pd.DataFrame({"x": column, "y": [rng.randint(0, 3) for _ in range(n)]})
    rows = [{"x": x, "y": y} for x, y in zip(values, frame["y"].tolist(), strict=True)]
    return frame, rows, f"{operand} {negation}in [{', '.join(options)}]"


def found(frame: pd.DataFrame, test: str) -> list[tuple[int, int]]:
    made = cep.match(frame, "a b", define={"a": test, "b": "y < 3"})._found.whole
    return list(zip(made.first.tolist(), made.last.tolist(), strict=True))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("block", range(2 if JIT else 8))
def test_long_lists_mean_what_they_say(kind, block):
    n_found = 0
    for seed in range(20 * block, 20 * block + 20):
        frame, rows, test = drawn(kind, Random(f"{kind} {seed}"), 14)
        define = {"a": parse_expression(test, role="a"), "b": parse_expression("y < 3", role="b")}
        expected = naive.matches(parse_pattern("a b"), define, rows)
        assert found(frame, test) == expected, test
        n_found += len(expected)
    assert n_found > 10


@pytest.mark.parametrize("seed", seeds(1, 3) if JIT else seeds(3, 30))
def test_long_lists_are_short_lists(seed, monkeypatch):
    """The sequence engines find the definition with a table, and with one comparison per value.

    The kernels with many comparisons take long to compile. So they only run without the JIT.
    """
    rng = Random(seed)
    n = 24
    kinds = [rng.choice("ABC") for _ in range(n)]
    frame = pd.DataFrame({"t": range(n), "kind": kinds, "x": [rng.randint(0, 20) for _ in range(n)]})
    frame["s"] = pd.Series([rng.choice(["p", "q", "r", None]) for _ in range(n)], dtype="string")
    rows = [{**row, "s": None if pd.isna(row["s"]) else row["s"]} for row in frame.to_dict("records")]
    numbers = ", ".join(str(rng.randint(0, 20)) for _ in range(12))
    names = ", ".join(f"'{text}'" for text in ("p", "q", *"abcdefgh"))
    conditions = [f"b.x - a.x in [{numbers}]", f"a.s not in [{names}]", f"b.x / 2 not in [{numbers}]"]
    where = " AND ".join(rng.sample(conditions, 2))
    queries = {
        "chain": f"PATTERN SEQ(A a, B b) WHERE {where} WITHIN 15",
        "ordered": f"PATTERN SEQ(A a, B b, C c) WHERE {where} AND c.x > a.x WITHIN 15",
        "search": f"PATTERN SEQ(A a, B b, C+ c) WHERE {where} AND avg(c.x) > a.x WITHIN 9",
    }
    engines = [*queries, "hybrid"] if seed % 3 == 0 else list(queries)
    for engine in engines:
        chosen = cep.Hybrid(threads=2) if engine == "hybrid" else engine
        text = queries["ordered" if engine == "hybrid" else engine]
        query = sequence_query(text, event_type="kind", order_by="t")
        expected = [match.rows for match in sequence_matches(query, rows)]
        for few in (binding._FEW_OPTIONS,) if JIT else (binding._FEW_OPTIONS, 100):
            monkeypatch.setattr(binding, "_FEW_OPTIONS", few)
            lineage = cep.match(frame, query, engine=chosen).lineage()
            assert [tuple(own) for _, own in lineage.groupby("match")["position"]] == expected
            monkeypatch.undo()


def test_other_lists_compile_nothing():
    frame = pd.DataFrame({"s": [f"n{i % 50}" for i in range(200)], "x": np.arange(200)})

    def matched(low: int, n: int) -> int:
        names = ", ".join(f"'n{i}'" for i in range(low, low + n))
        numbers = ", ".join(map(str, range(low, low + n)))
        define = {"a": f"s in [{names}]", "b": f"x in [{numbers}]"}
        return cep.match(frame, "a b", define=define).count()

    def kernels() -> set[str]:
        return {name for name in sys.modules if name.startswith("cepkit_kernel_")}

    first = matched(0, 20)
    before = kernels()
    assert first == matched(0, 20) > 0
    assert matched(3, 40) > 0
    assert kernels() == before


def test_a_stream_learns_names_that_a_list_has():
    names = ", ".join(f"'n{i}'" for i in range(10, 30))
    frame = pd.DataFrame({"s": [f"n{i}" for i in range(40)], "x": np.arange(40)})
    define = {"a": f"s in [{names}] and x in [{', '.join(map(str, range(0, 40, 2)))}]"}
    stream = cep.stream("a", frame.iloc[:0], define=define)
    parts = [stream.push(frame.iloc[i : i + 7]) for i in range(0, 40, 7)]
    assert sum(map(len, parts)) == cep.match(frame, "a", define=define).count() == 10


@pytest.mark.parametrize(
    "of", ["(1 / ({} + 1))", "sqrt({} + 1)", "(7 // ({} + 1))", "power({} + 1, 0.5)", "(9 % ({} + 2))"]
)
def test_code_grows_with_the_query_not_with_its_powers(of):
    frame = pd.DataFrame({"x": np.arange(12), "y": np.arange(12) / 4})
    sizes = []
    for column in ("x", "y"):
        deep = column
        for _ in range(10):
            deep = of.format(deep)
        found = cep.match(frame, "a", define={"a": f"{deep} > 0.3"})
        text = write_matching(found._found.program.plan, {column: str(frame[column].dtype)}).text
        sizes.append(len(text))
        expected = []
        for value in frame[column].tolist():
            test = parse_expression(f"{deep} > 0.3", role="a")
            expected.append(bool(naive.evaluate(test, [{"x": value, "y": value}], 0, 0)))
        assert found.count() == sum(expected)
    assert max(sizes) < 8000
