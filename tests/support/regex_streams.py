"""Queries, rows and cases of the tests of regex streams, and how a stream is cut."""

from random import Random

import numpy as np
import pandas as pd

import cepkit as cep
from tests.oracle import generate

SHAPES = (5, 6, 28, 39, 46, 50)  # of tests/generate.py: windows, aggregates, two compared texts, text tests
SCHEMA = {
    "x": "int64 not null", "y": "float64", "t": "int64", "s": "string", "f": "bool", "g": "int64",
    "k": "string", "i": "int64",
}  # fmt: skip
TRADES = {"ts": "int64", "symbol": "string", "price": "int64 not null"}
PEAKS = {
    "query": ". rise+ drop+ low",
    "define": {
        "rise": "price > first(price) and price >= prev(price)",
        "drop": "price >= first(price) and price < prev(price)",
        "low": "price < first(price)",
    },
    "partition_by": "symbol",
    "order_by": "ts",
    "measures": {"begin": "first(ts)", "end": "last(ts)", "rows": "count()", "top": "max(price)"},
}
JUMPS = {  # its partial matches wait in a queue
    "query": ". quiet* jump",
    "define": {"quiet": "delta(ts) < 20", "jump": "price > first(price) + 5 and delta(ts) < 20"},
    "partition_by": "symbol",
    "order_by": "ts",
    "measures": {"begin": "first(ts)", "end": "last(ts)", "rows": "count()"},
}


def trades(seed, n_events=300, n_symbols=6):
    """Return a random walk per symbol; in a fifth of the events the clock stands still."""
    rng = np.random.default_rng(seed)
    symbol = rng.integers(0, n_symbols, n_events)
    price = np.zeros(n_events, np.int64)
    for s in range(n_symbols):
        own = symbol == s
        price[own] = np.abs(20 + np.cumsum(rng.integers(-3, 4, own.sum())))
    names = np.array([f"S{s}" for s in range(n_symbols)], dtype=object)
    return pd.DataFrame(
        {"ts": np.cumsum(rng.choice([0, 1, 1, 2, 3], n_events)), "symbol": names[symbol], "price": price}
    )


def pieces(frame, seed, sizes=None):
    """Return the frame cut into batches of random sizes, empty ones among them."""
    rng, begin = Random(seed), 0
    while begin < len(frame):
        size = rng.choice(sizes or [0, 1, 1, 2, 3, 7, 20, 90])
        yield frame.iloc[begin : begin + size].reset_index(drop=True)
        begin += size


def run(stream, batches):
    """Return all results as one frame."""
    found = [stream.push(batch) for batch in batches]
    found.append(stream.flush())
    shown = [frame for frame in found if len(frame)] or found[:1]
    return pd.concat(shown, ignore_index=True)


def open_stream(query, schema=None, **more):
    return cep.stream(schema=TRADES if schema is None else schema, **query, **more)


def expected(frame, query):
    return frame.cep.match(**query).to_frame()


def assert_same(found, wanted):
    pd.testing.assert_frame_equal(found, wanted, check_dtype=len(found) > 0)


def open_case(case, **more):
    define = {name: str(expression) for name, expression in case.define.items()}
    measures = {"first": "first(i)", "last": "last(i)", "n": "count()"}
    given = {name: value for name, value in case.keywords().items() if value}
    return cep.stream(str(case.pattern), SCHEMA, define=define or None, measures=measures, **given, **more)


def case_and_frame(seed, shape):
    case = generate.case(seed, shape, n_events=40)
    return case, generate.to_frame(case.rows).assign(i=range(len(case.rows)))
