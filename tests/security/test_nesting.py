"""Queries of the depth that is allowed never overflow the stack, also if their caller is deep in it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import cepkit as cep
from cepkit.errors import CepError
from cepkit.limits import DEPTH
from tests.support.hostile_runs import frame, without_kernels

N = DEPTH - 4  # brackets around a condition; the clauses around it have brackets of their own
FRAMES_OF_CALLER = 110  # besides those of pytest; a cell of a notebook has some 60
OPERATIONS = ("and", "or", "+", "not", "-", "round")


def nested(operation: str, value: str = "x") -> str:
    """Return a condition with ``N`` nested uses of an operation."""
    if operation in ("and", "or"):
        return f"({value} > 2 {operation} " * N + f"{value} > 2" + ")" * N
    if operation == "+":
        return f"({value} + " * N + value + ")" * N + " > 1"
    if operation == "not":
        return "not (" * N + f"{value} > 2" + ")" * N
    return f"{operation}(" * N + value + ")" * N + " > 1"


def rows(define: str = "x > 1", measure: str = "LAST(p.x)") -> str:
    return f"MATCH_RECOGNIZE (ORDER BY ts MEASURES {measure} AS z PATTERN (p) DEFINE p AS {define})"


def sequence(condition: str) -> str:
    return f"PATTERN SEQ(A a, B b) WHERE b.x > a.x and {condition}"


CALLS: dict[str, Callable[[str], object]] = {
    "define": lambda op: cep.match(frame(), "p q", define={"p": nested(op), "q": "x > 1"}).head(3),
    "measure": lambda op: cep.match(
        frame(), "p", define={"p": "x > 1"}, measures={"v": nested(op, "last(x)")}
    ).head(3),
    "where": lambda op: cep.match(
        frame(), sequence(nested(op, "a.x")), event_type="kind", order_by="ts"
    ).head(3),
    "row pattern": lambda op: cep.match(frame(), rows(nested(op))).to_frame(),
    "measure of a row pattern": lambda op: cep.match(frame(), rows(measure=nested(op))).to_frame(),
    "siddhi": lambda op: cep.siddhi(
        f"from T[{nested(op)}] select x insert into O", T=frame(), order_by="ts"
    ).to_frame(),
    "pattern of siddhi": lambda op: cep.siddhi(
        f"from e=T[{nested(op)}] -> g=T[x > e.x] select g.x as x insert into O", T=frame(), order_by="ts"
    ).to_frame(),
    "runs": lambda op: cep.runs(frame(), nested(op), order_by="ts"),
    "window": lambda op: cep.window(frame(), {"v": nested(op, "sum(x)")}, length=3),
    "select": lambda op: cep.sql(f"SELECT * FROM t {rows()} WHERE {nested(op, 'z')}", t=frame()).to_frame(),
}

PATTERNS: dict[str, Callable[[], object]] = {
    "regex": lambda: cep.match(frame(), "(" * N + "x_" + ")+" * N, define={"x_": "x > 1"}).count(),
    "row pattern": lambda: cep.match(
        frame(), rows().replace("(p)", "(" + "(p | " * (N // 2) + "p" + ")*" * (N // 2) + ")")
    ).to_frame(),
    "sequence": lambda: cep.match(
        frame(),
        "PATTERN " + "".join(f"SEQ(A a{i}, OR(C c{i}, " for i in range(N // 2)) + "B b" + "))" * (N // 2),
        event_type="kind",
        order_by="ts",
    ),
    "siddhi": lambda: cep.siddhi(
        "from "
        + "".join(f"(e{i}=T[x > 2] -> " for i in range(N))
        + "e=T"
        + ")" * N
        + " select e.x insert into O",
        T=frame(),
        order_by="ts",
    ).to_frame(),
}


def deep(call: Callable[[], object], n_frames: int = FRAMES_OF_CALLER) -> object:
    """Call a function from the depth of the stack."""
    return deep(call, n_frames - 1) if n_frames else call()


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("name", CALLS)
@pytest.mark.filterwarnings("ignore::cepkit.CepWarning")
def test_nested_conditions_are_answered_or_refused(name, operation):
    with without_kernels():
        try:
            deep(lambda: CALLS[name](operation))
        except CepError as error:
            assert "nested" in str(error) or "no function 'round'" in str(error)


@pytest.mark.parametrize("name", PATTERNS)
@pytest.mark.filterwarnings("ignore::cepkit.CepWarning")
def test_nested_patterns_are_answered_or_refused(name):
    try:
        deep(PATTERNS[name])
    except CepError as error:
        assert "nested" in str(error) or "the limit is" in str(error)
