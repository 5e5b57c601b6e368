"""Sequences with conditions on their first event: numbers and matches against the definition."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from random import Random

import numpy as np
import pandas as pd
import pytest

import cepkit as cep
from cepkit.compile.counting import AT_LEAST, MODULAR, WRAPPING
from cepkit.engines.counting import anchored, engine, walking
from cepkit.engines.counting import engine as aggregates
from cepkit.engines.counting.anchored import AnchoredCounter
from cepkit.engines.counting.engine import CountedMatches, counting_unsupported
from tests.support.counting_cases import anchored_case, check_anchored, layout_of
from tests.support.sizes import JIT, seeds
from tests.support.tiers import seeds_of_tiers

SHAPES, FULL_SHAPES = (2, 20) if JIT else (3, 200)
STREAMS, FULL_STREAMS = 20 if JIT else 8, 100


@pytest.fixture(params=["as it is", "tight"])
def limits(request, monkeypatch):
    """Once more with every array too small, every call cut short, and no match found by listing."""
    if request.param == "tight":
        monkeypatch.setattr(anchored, "WORK_PER_CALL", 1)
        monkeypatch.setattr(anchored, "_FEW_CELLS", 1)
        monkeypatch.setattr(walking, "_ITEMS_PER_BLOCK", 1)
        monkeypatch.setattr(anchored, "_FEW", 0)


@seeds_of_tiers(SHAPES, FULL_SHAPES, "shape_seed")
def test_agrees_with_the_definition(shape_seed, limits, tier, full):
    # All tiers compile the walk of a shape, which takes a second. The others compile the counts, too.
    streams_of_shape = 1 if not JIT else 10 if tier == "interpreted" else 100
    for seed in range(FULL_STREAMS if full else STREAMS):
        check_anchored(*anchored_case(100 * shape_seed + seed // streams_of_shape, seed))


@pytest.mark.slow  # it looks at the fixed cases of a generator
def test_cases_have_matches_of_every_kind():
    kinds = dict.fromkeys(["many", "some", "none", "pairs", "several loops", "one type"], 0)
    for shape in range(200):
        case, rows, _ = anchored_case(shape, 0)
        n = len(case.matches(rows))
        kinds["none"] += n == 0
        kinds["some"] += n > 0
        kinds["many"] += n > 20
        kinds["pairs"] += n > 2 and any(which in ("pair", "previous") for _, which, *_ in case.anchored)
        kinds["several loops"] += n > 2 and sum(low != high for _, low, high in case.components) > 1
        kinds["one type"] += n > 2 and all(kind is None for kind, *_ in case.components)
    assert min(kinds.values()) >= 8, kinds
    assert kinds["some"] >= 90, kinds


@pytest.mark.parametrize("seed", seeds(10, 60))
def test_every_arithmetic_counts_the_same(seed):
    case, rows, _ = anchored_case(seed % 2 if JIT else seed, seed)
    counter = AnchoredCounter(layout_of(case, rows))
    of_end = Counter(match.rows[-1] for match in case.matches(rows))
    expected = [of_end[p] for p in counter.places.position_of_place[counter.last].tolist()]
    assert counter.pass_over(WRAPPING)[0].tolist() == expected
    assert counter.pass_over(MODULAR, 3)[0].tolist() == [n % 3 for n in expected]
    assert counter.pass_over(MODULAR, (1 << 61) - 1)[0].tolist() == expected
    assert counter.pass_over(AT_LEAST)[0].tolist() == expected
    assert counter.bound >= max(expected, default=0)


@pytest.mark.parametrize("seed", seeds(10, 60))
def test_sums_are_those_of_all_matches(seed):
    case, rows, _ = anchored_case(seed % 2 if JIT else seed, seed)
    layout, matches = layout_of(case, rows), case.matches(rows)
    component = Random(seed).randrange(len(case.components))
    column = np.random.default_rng(seed).choice([-(2**62), -5, 0, 3, 2**62, 2**63 - 1], len(rows))
    of = [position for match in matches for position in match.events[component][1]]
    values = column[layout.places.position_of_place]
    counter = AnchoredCounter(layout)
    assert aggregates.aggregate(counter, component, None, "count") == len(of)
    total = sum(int(column[position]) for position in of)
    assert aggregates.aggregate(counter, component, values, "sum") == (total if of else None)


# --- examples ---------------------------------------------------------------------------------------------

LARGER = "PATTERN SEQ(A a, B+ b, C c) WHERE b[i].x > a.x WITHIN {}"


def stream(kinds: str, x=None) -> pd.DataFrame:
    n = len(kinds)
    return pd.DataFrame({"t": np.arange(n), "kind": list(kinds), "x": np.arange(n) * 1.0 if x is None else x})


def matched(frame: pd.DataFrame, text: str, name: str = "auto"):
    return cep.match(frame, text, event_type="kind", order_by="t", engine=name)


@pytest.mark.parametrize("n", [1, 30, 62, 64, 65, 200])
def test_numbers_of_any_size_are_exact(n):
    found = matched(stream("A" + "B" * n + "C"), LARGER.format(1000))
    assert found.count() == 2**n - 1
    assert isinstance(found._found.whole, CountedMatches)
    numbers = sorted({0, (2**n - 1) // 2, 2**n - 2})
    for number in numbers:
        events = found._found.whole.take([number]).event_of_item.tolist()
        assert sum(1 << p - 1 for p in events[1:-1]) == number + 1  # b has the bits of the number + 1


@pytest.mark.parametrize(
    ("text", "supported"),
    [
        ("SEQ(A a, B+ b, C c) WHERE b[i].x > a.x", True),
        ("SEQ(A a, B+ b, C c) WHERE b[i].x > a.x AND c.x < a.x", True),
        ("SEQ(A a, B+ b, C+ c) WHERE b[i].x > a.x AND c[i].x < a.x", True),
        ("SEQ(A a, B b, C c) WHERE c.x > a.x", False),  # the ordered engine runs it
        ("SEQ(A a, B+ b, C c) WHERE b[i].x > c.x", False),
        ("SEQ(A+ a, B+ b, C c) WHERE b[i].x > a[1].x", False),
        ("SEQ(A a, B+ b, C c) WHERE avg(b.x) > a.x", False),
        ("SEQ(A a, B+ b, D d, C+ c, E e) WHERE c[i].x > b[1].x", False),
        ("SEQ(A a, !D d, B+ b, C c) WHERE b[i].x > a.x", False),
        ("SEQ(_ a, _+ b, _+ c) WHERE b[i].x > a.x", False),
    ],
)
def test_queries_that_the_engine_runs(text, supported):
    frame = stream("ABCDE")
    program = cep.match(frame, f"PATTERN {text}", event_type="kind", order_by="t")._found.program
    assert (counting_unsupported(program) is None) == supported


@pytest.mark.parametrize("seed", range(3))
def test_optional_parts_become_branches(seed):
    rng = np.random.default_rng(seed)
    frame = stream("".join(rng.choice([*"ABCD"], 60)), rng.random(60))
    text = "PATTERN SEQ(A a, B* b, C c, D? d) WHERE b[i].x > a.x WITHIN 12"
    found, wanted = matched(frame, text, "chain"), matched(frame, text, "search")
    assert found.count() == wanted.count() > 10
    pd.testing.assert_frame_equal(found.to_frame("all"), wanted.to_frame("all"))
    sample = found.sample(8, seed=seed)
    assert len(sample) == 8


@pytest.mark.parametrize("text", [LARGER, "PATTERN SEQ(A a, B+ b, C? c) WHERE b[i].x > a.x WITHIN {}"])
def test_a_first_look_does_not_wait_for_long_counts(text, monkeypatch):
    rng = np.random.default_rng(2)
    frame = stream("".join(rng.choice([*"ABC"], 60)), rng.random(60))
    wanted = matched(frame, text.format(20), "search")
    plain_count = matched(frame, text.format(20)).count()
    monkeypatch.setattr(engine, "_MUCH_WORK", 0)
    monkeypatch.setattr(engine, "_MOST_GLANCED", 50)
    monkeypatch.setattr(AnchoredCounter, "by_member", property(lambda self: pytest.fail("it counts")))
    found = matched(frame, text.format(20))
    assert found._found.whole.at_least() == (50, False)
    assert found
    pd.testing.assert_frame_equal(found.head(30), wanted.head(30))
    monkeypatch.undo()
    assert found.count() == wanted.count() == plain_count > 100
    assert found._found.whole.at_least() == (plain_count, True)


def test_aggregates_without_enumeration_and_with():
    rng = np.random.default_rng(5)
    frame = stream("".join(rng.choice([*"ABC"], 80)), rng.random(80))
    wanted = {"n": "count()", "b": "count(b.x)", "s": "sum(b.x)", "least": "min(b.x)", "most": "max(c.x)"}
    one, other = (matched(frame, LARGER.format(15), name) for name in ("chain", "search"))
    one, other = one.aggregate(**wanted), other.aggregate(**wanted)
    assert one["n"] == other["n"] > 50
    assert one["b"] == other["b"]
    assert one["s"] == pytest.approx(other["s"])
    assert (one["least"], one["most"]) == (other["least"], other["most"])


TEXTS = """
import hashlib
import pandas as pd
import cepkit as cep
from cepkit.compile.counting_anchored import AnchoredCountWriter
from cepkit.compile.counting import WRAPPING

events = pd.DataFrame({"kind": list("ABC"), "t": [1, 2, 3], **{name: [1.0, 2.0, 3.0] for name in "abcde"}})
query = "PATTERN SEQ(A x, B+ y[], C z) WHERE skip_till_any_match AND y[i].a > x.a AND "
query += "y[i].b > y[i-1].b + y[i-1].c * y[i-1].d - y[i-1].e WITHIN 12"
[layout] = events.cep.match(query, event_type="kind", order_by="t")._found.whole._layouts
for name in ("count", "options"):
    kernel = AnchoredCountWriter(layout.program, layout.graph, layout.dtypes, WRAPPING).write(name)
    print(hashlib.sha256(kernel.text.encode()).hexdigest())
print(hashlib.sha256(layout.walk_kernel.text.encode()).hexdigest())
"""


def test_a_kernel_has_one_text_in_every_process():
    """Otherwise another process compiles it again."""
    texts = set()
    for hash_seed in "1234" if JIT else "12":
        done = subprocess.run(
            [sys.executable, "-c", TEXTS],
            env={**os.environ, "PYTHONHASHSEED": hash_seed}, capture_output=True, text=True, check=True,
        )  # fmt: skip
        texts.add(done.stdout)
    assert len(texts) == 1 and len(texts.pop().split()) == 3
