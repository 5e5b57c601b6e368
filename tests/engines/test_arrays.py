"""Array columns: corr, cosine and l2 of the events of a match, against the definition in exact numbers."""

from __future__ import annotations

import math
import re
from functools import cache
from itertools import combinations_with_replacement
from random import Random

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import cepkit as cep
from cepkit.compile.sequence_program import compile_sequence
from cepkit.engines.reducing import prepare, similarity
from cepkit.errors import CepError, OrderError, PredicateError
from cepkit.frames.arrow import ArrowSource
from cepkit.frames.building import build_events
from cepkit.frames.pandas import PandasSource
from cepkit.planning.planner import engines
from tests.oracle.naive import ARRAY_FUNCTIONS as FUNCTIONS
from tests.oracle.naive_sequences import sequence_matches
from tests.support.sequence_runs import as_matches
from tests.support.sizes import JIT, seeds
from tests.support.tables import cases
from tests.support.tiers import run_as_python

SEEDS_OF_A_RUN = 2
NEAR = 1e-9  # no random case has a value so near a threshold: engines round, the definition does not

# Conditions by what they need of the engines; numbers are thresholds.
NEIGHBOURS = "SEQ(A a, B b, C c) WHERE corr(a.h, b.h) > 0.37 AND l2(b.h, c.h) < 3.31 WITHIN 9"
LOOP = "SEQ(A a, B+ b[], C c) WHERE corr(b[i].h, b[i-1].h) > -0.17 AND cosine(a.h, b[1].h) >= 0.41 WITHIN 8"
QUERIES = {
    "neighbours": NEIGHBOURS,
    "loop": LOOP,
    "apart": "SEQ(A a, B b, C c) WHERE cosine(a.h, c.h) > 0.73 AND b.t > 2 WITHIN 9",
    "absent": "SEQ(A a, !B x, C c) WHERE corr(a.h, x.h) > 0.13 WITHIN 9",
    "absent before": "SEQ(A a, !B x, C c) WHERE NOT cosine(x.h, c.h) < 0.77 AND l2(a.h, c.h) > 1.03 WITHIN 9",
    "three of them": "SEQ(A a, B b, C c) WHERE corr(a.h, b.h) + corr(b.h, c.h) - cosine(a.h, c.h) > 0.29",
    "ends of a loop": "SEQ(A a, B{1,3} b) WHERE corr(b[1].h, b[LEN].h) > 0.23 OR cosine(b[2].h, a.h) < 0.61",
    "third": "SEQ(A a, B{1,3} b[]) WHERE corr(a.h, b[3].h) IS NULL OR corr(a.h, b[3].h) < -0.33",
    "nulls": "SEQ(A a, B b) WHERE (corr(a.h, b.h) IS NULL OR NOT corr(a.h, b.h) < 0.52) AND l2(a.h, b.h) > 0",
    "two columns": "SEQ(A a, B b) WHERE corr(a.h, b.g) < corr(a.g, b.h) - 0.27 AND cosine(a.h, a.g) > 0.19",
    "unequal": "SEQ(A a, B b) WHERE abs(corr(a.h, b.h)) != 0.123 AND l2(b.h, b.g) > 0.55",
    "aggregate": "SEQ(A a, B+ b, C c) WHERE max(l2(b.h, b.g)) < 4.7 AND avg(cosine(b.h, b.g)) > 0.1 WITHIN 7",
    "earlier": "SEQ(A a, B+ b) WHERE cosine(b[i].h, b[i].g) > min(cosine(b[..i-1].h, b[..i-1].g)) WITHIN 7",
    "partition": "SEQ(_ a, _ b) WHERE partition_contiguity AND [k] AND corr(a.h, b.h) > 0.31",
    "next": "SEQ(A a, B+ b[], C c) WHERE skip_till_next_match AND [k] AND cosine(b[i].h, a.h) > 0.57",
    "until": "SEQ(A a, B* b[] UNTIL (corr(h, a.h) > 0.63), C c) WITHIN 8",
    "any of": "SEQ(A a, OR(B b, C c)) WHERE l2(a.h, b.h) > 2.03 AND corr(a.h, c.h) > 0.07 WITHIN 8",
    "all of": "AND(A a, B b, C c) WHERE corr(a.h, b.h) > -0.21 AND l2(b.h, c.h) > 1.37 WITHIN 7",
}


def random_array(rng: Random, length: int) -> list | None:
    roll = rng.random()
    if roll < 0.06:
        return rng.choice([None, []])
    if roll < 0.11:
        return [rng.choice([0.0, 1.5, -2.0])] * length
    items = [rng.choice([rng.randint(-3, 3), rng.gauss(0, 2)]) for _ in range(length)]
    if roll < 0.18:
        items[rng.randrange(length)] = rng.choice([None, math.nan])
    return [None if item is None else float(item) for item in items]


def random_rows(rng: Random, n: int, length: int) -> list[dict]:
    return [
        {
            "t": t, "kind": rng.choice("ABBC"), "k": rng.choice("xy"), "h": random_array(rng, length),
            "g": random_array(rng, length),
        }
        for t in range(n)
    ]  # fmt: skip


def is_clear(rows: list[dict], text: str) -> bool:
    """Whether no number of the text is a value of its functions, nor near one."""
    thresholds = [float(number) for number in re.findall(r"\d+\.\d+", text)]
    arrays = [row[name] for row in rows for name in "hg" if row[name] is not None]
    for function in {"corr", "cosine", "l2"} & set(re.findall(r"\w+", text)):
        for x, y in combinations_with_replacement(arrays, 2):
            value = FUNCTIONS[function](x, y)
            if value is not None and any(abs(abs(value) - limit) < NEAR for limit in thresholds):
                return False
    return True


@cache
def expected(name: str, seed: int, length: int | None = None):
    """Return rows, query and matches; every fifth stream may be without matches."""
    value = query(name)
    for attempt in range(200):
        rng = Random(f"{name} {seed} {attempt}")
        rows = random_rows(rng, rng.randint(7, 11), length or rng.choice([2, 3, 3, 4, 7]))
        if not all(any(row[column] for row in rows) for column in "hg"):
            continue
        wanted = sequence_matches(value, rows)
        if (wanted or seed % 5 == 4) and is_clear(rows, QUERIES[name]):
            return rows, value, wanted
    raise RuntimeError(f"no stream for {name}")


def as_frame(rows: list[dict]) -> pd.DataFrame:
    return pd.DataFrame({name: pd.Series([row[name] for row in rows]) for name in rows[0]})


def query(name: str):
    return cep.sequence_query(f"PATTERN {QUERIES[name]}", event_type="kind", order_by="t")


def bound(frame, value):
    source = ArrowSource(frame) if isinstance(frame, pa.Table) else PandasSource(frame)
    program = compile_sequence(value, source.schema)
    return program, build_events(source, program)


@pytest.mark.parametrize("seed", seeds(SEEDS_OF_A_RUN, 60))
@pytest.mark.parametrize("name", QUERIES)
def test_engine_is_the_definition(name, seed, monkeypatch):
    """The seeds of a run have one of the engines that run a query. A sixth of the queries is compiled.

    Machine code takes seconds for each query. In six turns, all queries are compiled.
    """
    rows, value, wanted = expected(name, seed)
    program, events = bound(as_frame(rows), value)
    able = [engine for engine in ("chain", "search") if not engines()[engine].unsupported(program)]
    number = seed // SEEDS_OF_A_RUN + list(QUERIES).index(name)
    engine = able[number % len(able)]
    if JIT and number % 6:
        run_as_python(monkeypatch)
    found = engines()[engine].run(program, events)
    assert found.count() == len(wanted)
    assert as_matches(program, found.ending(0, events.n_events)) == wanted


@pytest.mark.skipif(JIT, reason="machine code of agents for each query; the tests without the JIT run it")
@pytest.mark.parametrize("name", QUERIES)
def test_whatever_engine_is_chosen(name):
    rows, value, wanted = expected(name, 1)
    for engine in ("auto", cep.Sequential()):
        try:
            found = as_frame(rows).cep.match(value, engine=engine)
            assert found.count() == len(wanted), engine
        except cep.CepError as error:
            assert "cannot run this query" in str(error) and engine != "auto", error
    try:
        estimate = as_frame(rows).cep.match(value).count("estimate", samples=50)
    except cep.CepError as error:
        assert "estimate" in str(error)
    else:
        assert estimate.low <= len(wanted) <= estimate.high


# --- the numbers -----------------------------------------------------------------------------------------


def matrix(rows: list) -> np.ndarray:
    return np.array([[math.nan if item is None else item for item in row] for row in rows], float)


@pytest.mark.parametrize("function", ["corr", "cosine", "l2"])
@pytest.mark.parametrize("seed", seeds(5, 10))
def test_numbers_are_the_definition(seed, function):
    rng = Random(seed)
    length = rng.randint(1, 20)
    shift, scale = rng.choice([0, 0, 10.0 ** rng.randint(-3, 6)]), 10.0 ** rng.choice([0, 0, -170, -5, 120])
    rows = []
    for _ in range(6):
        items = random_array(rng, length)
        usable = items if items else [1.0] * length
        rows.append([None if x is None else (x + shift) * scale for x in usable])
    ready = prepare(matrix(rows), function)
    for i in range(len(rows)):
        found = similarity(function, ready[[i] * len(rows)], ready)
        wanted = [FUNCTIONS[function](rows[i], other) for other in rows]
        assert [value is None for value in wanted] == np.isnan(found).tolist()
        known = [k for k, value in enumerate(wanted) if value is not None]
        close = 1e-9 * (scale if function == "l2" else 1)
        np.testing.assert_allclose(found[known], [wanted[k] for k in known], rtol=1e-12, atol=close)


@pytest.mark.parametrize(
    "function,one,other,wanted",
    [
        ("corr", [1, 2, 3], [2, 4, 6], 1.0),
        ("corr", [1, 2, 3], [3, 2, 1], -1.0),
        ("corr", [1, 2, 3, 4], [1, -1, -1, 1], 0.0),
        ("corr", [0.1] * 20, list(range(20)), None),  # a mean that rounding moves is no variance
        ("cosine", [3, 4], [4, 3], 0.96),
        ("cosine", [0, 0], [4, 3], None),
        ("l2", [1, 2], [4, 6], 5.0),
        ("l2", [1, math.nan], [4, 6], None),
    ],
)
def test_by_hand(function, one, other, wanted):
    named = f"{function}(a.h, b.h)"
    frame = pd.DataFrame({"h": [one, other]})
    m = cep.match(frame, "PATTERN SEQ(_ a, _ b)", measures={"x": named}, engine="search")
    value = m.to_frame()["x"].iloc[0]
    naive = FUNCTIONS[function](one, other)
    assert (None if np.isnan(value) else pytest.approx(value, abs=1e-15)) == wanted
    assert naive == (None if wanted is None else pytest.approx(wanted, abs=1e-15))


@pytest.fixture(scope="module")
def prices():
    rng = np.random.default_rng(7)
    walk = rng.normal(size=(60, 20)).cumsum(axis=1)
    kinds = rng.choice(list("ABC"), 60)
    return pd.DataFrame(
        {"t": np.arange(60), "kind": kinds, "h": list(walk)}, index=[f"r{i}" for i in range(60)]
    )


AT_LIMIT = "PATTERN SEQ(A a, B b, C c) WHERE corr(a.h, b.h) > :x AND l2(b.h, c.h) < 1000.0 WITHIN 30"


@pytest.mark.parametrize("engine", ["chain", "search"])
def test_engines_and_measures_compute_one_number(prices, engine):
    """A measured value is the number that conditions compare, to the last bit."""
    given = {"event_type": "kind", "order_by": "t", "engine": engine}
    every = cep.match(
        prices, AT_LIMIT, params={"x": -1.5}, measures={"s": "corr(a.h, b.h)", "t": "c.t"}, **given
    ).to_frame()
    values = np.sort(every["s"].unique())
    assert len(values) > 100
    for x in [values[0], values[17], values[-2], values[-1]]:
        for limit in (x, np.nextafter(x, -2)):
            found = cep.match(prices, AT_LIMIT, params={"x": float(limit)}, **given).count()
            assert found == int((every["s"] > limit).sum())


# --- frames ----------------------------------------------------------------------------------------------


def frames_of(rows: list[dict]) -> dict[str, object]:
    polars = pytest.importorskip("polars")
    length = max(len(row["h"] or []) for row in rows)
    # Arrow's and polars' fixed lists cannot be empty; missing means the same.
    fixed = [{**row, "h": row["h"] or None, "g": row["g"] or None} for row in rows]
    plain = pa.Table.from_pylist(rows)
    kinds = {
        "list": plain, "large": _cast(plain, pa.large_list(pa.float64())),
        "fixed": _cast(pa.Table.from_pylist(fixed), pa.list_(pa.float64(), length)),
        "narrow": _cast(plain, pa.list_(pa.float32())),
    }  # fmt: skip
    return {
        "objects": as_frame(rows),
        "arrays": as_frame(rows).assign(
            h=[None if r["h"] is None else np.array(r["h"], float) for r in rows]
        ),
        "tuples": as_frame(rows).assign(h=[None if r["h"] is None else tuple(r["h"]) for r in rows]),
        "chunks": pa.concat_tables([plain.slice(0, 3), plain.slice(3)]),
        "arrow pandas": plain.to_pandas(types_mapper=pd.ArrowDtype),
        "polars": polars.DataFrame(plain),
        "polars array": polars.DataFrame(kinds["fixed"]),
        **{name: kinds[name] for name in ("list", "large", "fixed")},
    }


def _cast(table: pa.Table, of: pa.DataType) -> pa.Table:
    return table.set_column(table.schema.get_field_index("h"), "h", table.column("h").cast(of))


@pytest.mark.filterwarnings("ignore:the column of event types, .* never has")
@pytest.mark.parametrize("seed", range(3))
def test_frames(seed):
    rows, _, wanted = expected("neighbours", seed)
    keys = [tuple(rows[row]["t"] for row in match.rows) for match in wanted]
    numbers = [FUNCTIONS["corr"](rows[m.rows[0]]["h"], rows[m.rows[1]]["h"]) for m in wanted]
    measures = {"a": "a.t", "b": "b.t", "c": "c.t", "s": "corr(a.h, b.h)", "h": "a.h"}
    for name, frame in frames_of(rows).items():
        m = cep.match(
            frame, f"PATTERN {QUERIES['neighbours']}", event_type="kind", order_by="t", measures=measures
        )
        assert m.count() == len(wanted), name
        made = m.to_frame()
        columns = {
            c: made[c].to_list() if hasattr(made[c], "to_list") else made[c].to_pylist() for c in "abcs"
        }
        assert list(zip(columns["a"], columns["b"], columns["c"], strict=True)) == keys, name
        assert columns["s"] == pytest.approx(numbers, abs=1e-12), name


def test_rows_out_of_order_and_partitions(prices):
    """Rows are prepared before they are sorted, and sorted with their events."""
    text = "PATTERN SEQ(_ a, _ b) WHERE [kind] AND corr(a.h, b.h) > 0.6 WITHIN 9"
    given = {"order_by": "t", "measures": {"a": "a.t", "b": "b.t"}}
    pairs = [
        (i, j)
        for j in range(60)
        for i in range(max(0, j - 9), j)
        if prices["kind"].iloc[i] == prices["kind"].iloc[j]
        and np.corrcoef(prices["h"].iloc[i], prices["h"].iloc[j])[0, 1] > 0.6
    ]
    assert len(pairs) > 5
    found = cep.match(prices.sample(frac=1, random_state=3), text, **given).to_frame()
    assert sorted(zip(found["a"], found["b"], strict=True)) == sorted(pairs)


# --- the language ----------------------------------------------------------------------------------------


def test_builder_is_the_text():
    a, b, c = cep.event("a", "A"), cep.event("b", "B"), cep.event("c", "C")
    built = (
        cep.seq(a, b, c).where((cep.corr(a["h"], b["h"]) > 0.37) & (cep.l2(b["h"], c["h"]) < 3.31)).within(9)
    )
    text = cep.sequence_query(f"PATTERN {QUERIES['neighbours']}")
    assert built.query.where == text.where
    loop = cep.seq(a, b.plus(), c).where(cep.corr(b["h"], b.previous["h"]) > 0.1)
    assert str(loop.query.where[0]) == "corr(b.h, b[i-1].h) > 0.1"
    assert str(cep.cosine(a["h"], b["h"])) == str(a["h"].apply("cosine", b["h"])) == "cosine(a.h, b.h)"


def test_explain_says_what_is_prepared(prices):
    said = str(prices.cep.explain(AT_LIMIT, event_type="kind", order_by="t", params={"x": 0.5}))
    assert "prepared     h, for corr: once, before matching" in said
    assert "without enumeration" in said


def test_reasons(prices):
    given = {"event_type": "kind", "order_by": "t", "params": {"x": 0.9}}
    rows = {kind.lower(): prices.index[prices["kind"] == kind] for kind in "ABC"}
    pairs = [(a, b) for a in rows["a"] for b in rows["b"] if a < b and int(a[1:]) < int(b[1:])]
    number = {pair: np.corrcoef(prices["h"][pair[0]], prices["h"][pair[1]])[0, 1] for pair in pairs}
    a, b = next(
        pair for pair, value in number.items() if value < 0.5 and int(pair[1][1:]) - int(pair[0][1:]) < 9
    )
    c = next(c for c in rows["c"] if int(c[1:]) > int(b[1:]))
    said = str(prices.cep.why_not(AT_LIMIT, rows={"a": a, "b": b, "c": c}, **given))
    shown = float(re.search(r"corr\(a.h, b.h\) > :x: (\S+) > 0.9 is false", said)[1])
    assert shown == pytest.approx(number[a, b], abs=1e-12)
    funnel = prices.cep.funnel(AT_LIMIT, **given)
    assert "corr(a.h, b.h) > :x" in str(funnel)


def test_regex_queries_measure(prices):
    m = prices.cep.match(
        ". up", define={"up": "t > prev(t)"}, order_by="t", measures={"s": "corr(first(h), last(h))"}
    )
    wanted = [np.corrcoef(prices["h"].iloc[i], prices["h"].iloc[i + 1])[0, 1] for i in range(0, 60, 2)]
    assert m.to_frame()["s"].tolist() == pytest.approx(wanted)


# --- errors ----------------------------------------------------------------------------------------------

FRAME = pd.DataFrame(
    {
        "t": [1, 2, 3], "kind": ["A", "B", "C"], "h": [[1.0, 2.0], [2.0, 3.0], [0.0, 1.0]], "x": [0.5, 1, 2],
        "short": [[1], [2], [3]], "words": [["u"], ["v"], ["w"]], "mixed": [[1, "u"], [2, "v"], [3, "w"]],
        "uneven": [[1.0, 2.0], None, [1.0]], "flags": [[True], [False], [True]],
    },
    index=["first", "second", "third"],
)  # fmt: skip


@pytest.mark.parametrize(
    "where,kind,said",
    cases("arrays", "conditions"),
)
def test_conditions_refused(where, kind, said):
    with pytest.raises(kind) as error:
        FRAME.cep.match(f"PATTERN SEQ(A a, B b) WHERE {where}", event_type="kind", order_by="t")
    assert said in str(error.value)


@pytest.mark.parametrize(
    "given,kind,said",
    [
        (
            {"partition_by": "h"},
            CepError,
            "use array columns in corr(a.x, b.x), cosine(a.x, b.x), l2(a.x, b.x)",
        ),
        ({"order_by": "h"}, OrderError, "has no order; use array columns in corr(a.x, b.x)"),
        ({"event_type": "h"}, PredicateError, "compare whole arrays: corr(…), cosine(…), l2(…)"),
        (
            {"measures": {"s": "corr(a.x, b.x)"}},
            PredicateError,
            "measure 's': corr() needs arrays of numbers, a.x is",
        ),
        (
            {"measures": {"s": "l2(a.h, b.short)"}},
            PredicateError,
            "measure 's': l2() compares arrays of one length",
        ),
        ({"measures": {"s": "l2(a.uneven, b.uneven)"}}, PredicateError, "array of row 'third' has 1 numbers"),
    ],
)
def test_places_refused(given, kind, said):
    given = {"event_type": "kind", "order_by": "t", **given}
    with pytest.raises(kind) as error:
        FRAME.cep.match("PATTERN SEQ(A a, B b)", **given)
    assert said in str(error.value)


@pytest.mark.parametrize(
    "text,said",
    [
        ("v[0]", "column 'v' is of type integer, not a list: it has no item [0]"),
        ("h[0][1]", "only a column can be subscripted, as in prices[0]"),
        ("(2)[0]", "only a column can be subscripted, as in prices[0]"),
    ],
)
def test_items_of_what_is_no_list_are_refused(text, said):
    frame = pd.DataFrame({"kind": list("ab"), "v": [1, 2], "h": [[1.0], [2.0]]})
    given = {"define": {"a": "kind = 'a'", "b": "kind = 'b'"}, "measures": {"m": f"first({text})"}}
    with pytest.raises(PredicateError, match=re.escape(said)):
        frame.cep.match("a b", **given).to_frame()
    with pytest.raises(PredicateError, match=re.escape(said)):
        cep.window(frame, {"m": f"sum({text})"}, length=2)
    if text == "v[0]":
        with pytest.raises(PredicateError, match=re.escape(said)):
            frame.cep.match("PATTERN SEQ(a x, b y)", event_type="kind", measures={"m": "x.v[0]"}).to_frame()


def test_regex_predicates_refused():
    with pytest.raises(PredicateError, match=r"WHERE partition_contiguity AND corr\(a.x, b.x\)"):
        FRAME.cep.match(". near", define={"near": "corr(h, prev(h)) > 0.5"}, order_by="t")


def test_names_are_built_in():
    with pytest.raises(PredicateError, match="'l2' is built in"):
        cep.pure(lambda x, y: 0.0, name="l2")


# --- streams and Spark -----------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:the column of event types, .* never has")
@pytest.mark.parametrize("seed", range(4))
def test_streams(seed, tmp_path):
    """Cut into batches, saved and restored, a stream finds what the frame has."""
    rows, _, wanted = expected("neighbours", seed)
    frame, rng = as_frame(rows), Random(seed)
    text = f"PATTERN {QUERIES['neighbours']}"
    given = {
        "event_type": "kind",
        "order_by": "t",
        "measures": {"a": "a.t", "c": "c.t", "s": "corr(a.h, b.h)"},
    }
    schema = {"t": "int64", "kind": "string", "h": "list[float64]", "k": "string"}
    stream = cep.stream(text, schema, **given)
    made = []
    cuts = sorted(rng.randint(0, len(rows)) for _ in range(3))
    for i, (begin, end) in enumerate(zip([0, *cuts], [*cuts, len(rows)], strict=True)):
        made.append(stream.push(rows[begin:end] if i % 2 else frame.iloc[begin:end]))
        stream.save(tmp_path / "stream")
        stream = cep.stream.load(tmp_path / "stream")
    made.append(stream.close())
    found = [row for part in made for row in (part if isinstance(part, list) else part.to_dict("records"))]
    assert [(row["a"], row["c"]) for row in found] == [
        (rows[m.rows[0]]["t"], rows[m.rows[2]]["t"]) for m in wanted
    ]
    numbers = [FUNCTIONS["corr"](rows[m.rows[0]]["h"], rows[m.rows[1]]["h"]) for m in wanted]
    assert [row["s"] for row in found] == pytest.approx(numbers, abs=1e-12)


def test_stream_refuses_another_length():
    stream = cep.stream(
        "PATTERN SEQ(_ a, _ b) WHERE corr(a.h, b.h) > 0.5 WITHIN 5",
        {"t": "int64", "h": "list[float64]"},
        order_by="t",
    )
    stream.push([{"t": 1, "h": [1.0, 2.0, 3.0]}])
    with pytest.raises(CepError, match="row 1 has 2 numbers, that of row 0 has 3"):
        stream.push([{"t": 2, "h": [1.0, 2.0]}])
    assert stream.push([{"t": 2, "h": [1.0, 2.0, 4.0]}]).__len__() == 1


@pytest.mark.parametrize("partition_by", ["stream", None])
def test_spark(spark, partition_by):
    """Many streams in one job: as partitions, and as one stream cut into slices of time."""
    parts, keys, numbers = [], [], []
    for seed in range(10):
        rows, _, wanted = expected("neighbours", seed, 4)
        late = 100 * seed  # further apart than a window
        parts.append(as_frame(rows).assign(stream=seed, t=[row["t"] + late for row in rows]))
        keys += [(rows[m.rows[0]]["t"] + late, rows[m.rows[2]]["t"] + late) for m in wanted]
        numbers += [FUNCTIONS["corr"](rows[m.rows[0]]["h"], rows[m.rows[1]]["h"]) for m in wanted]
    table = pa.Table.from_pylist([row for part in parts for row in _records(part)])
    frame = spark.createDataFrame(
        table.to_pandas(), "t bigint, kind string, k string, h array<double>, g array<double>, stream bigint"
    )
    m = frame.cep.match(
        f"PATTERN {QUERIES['neighbours']}", event_type="kind", order_by="t", partition_by=partition_by,
        measures={"a": "a.t", "c": "c.t", "s": "corr(a.h, b.h)"},
    )  # fmt: skip
    found = m.to_frame().orderBy("c").toPandas()
    assert sorted(zip(found["a"], found["c"], strict=True)) == sorted(keys)
    assert sorted(found["s"]) == pytest.approx(sorted(numbers), abs=1e-12)


def _records(part: pd.DataFrame) -> list[dict]:
    return part.to_dict("records")
