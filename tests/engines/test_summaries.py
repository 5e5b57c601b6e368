"""Aggregates of all values at once, such as ``median``: in conditions on the match so far, and everywhere."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from random import Random

import pytest

import cepkit as cep
from cepkit.engines.after_match import report_matches
from cepkit.errors import UnsupportedQueryError
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.parsing import parse_expression
from cepkit.language.expressions.vocabulary import SUMMARIES
from cepkit.language.sequences.patterns import Loop, SequencePattern
from cepkit.planning.planner import engines
from tests.oracle import generate
from tests.oracle import generate_sequences as gs
from tests.oracle.naive_sequences import sequence_matches
from tests.support import regex_runs
from tests.support.sequence_runs import all_of, as_matches, bound
from tests.support.sizes import JIT, seeds
from tests.support.tiers import run_as_python

NUMBERS = {"x", "y", "g", "t"}
OF_NUMBERS = ("median", "std", "var", "distinct")
OF_TRUTHS = ("count_if", "share", "sum", "avg", "median", "std", "var")
ENGINES = [name for name, engine in engines().items() if engine.run is not None and engine.automatic]
GROUPS = ["any", "strict", "window", "negation", "kleene", "optional", "mixed", "preference", "all"]


TESTS = (
    "{f}({v}.x) > 1",
    "{v}[i].x <= {f}({v}[..i-1].x) + 2",
    "distinct({v}.s) < 3",
    "{f}({v}.x + {v}.g) >= {v}[1].y",
    "count_if({v}.x > 1) + share({v}[..i-1].g < 2) > 1",
    "max({v}.x > {v}.g) and not min({v}.y > 0)",
)


def with_summaries(tree: ex.Expression, random: Random) -> ex.Expression:
    """Return a tree where summaries take the place of most aggregates."""

    def change(node: ex.Expression) -> ex.Expression:
        if not isinstance(node, ex.Aggregate) or random.random() < 0.2 or node.operand is None:
            return node
        columns = {part.name for part in node.walk() if isinstance(part, ex.Attribute | ex.Reference)}
        if node.function == "count":
            return node if None in columns else replace(node, function="distinct")
        if not columns <= NUMBERS:
            return node
        if random.random() < 0.4:
            test = ex.Comparison(random.choice("<>"), node.operand, ex.Literal(random.randrange(-1, 4)))
            return replace(node, function=random.choice(OF_TRUTHS), operand=test)
        return replace(node, function=random.choice(OF_NUMBERS))

    return ex.rebuilt(tree, ex.Expression, change)


def has_summary(trees) -> bool:
    nodes = (node for tree in trees for node in tree.walk() if isinstance(node, ex.Aggregate))
    return any(node.function in SUMMARIES for node in nodes)


@pytest.mark.parametrize("seed", seeds(30, 3000))
def test_conditions_of_regexes(seed):
    case = generate.case(seed)
    define = {name: with_summaries(tree, Random(f"{seed} {name}")) for name, tree in case.define.items()}
    if not has_summary(define.values()):
        pytest.skip("no aggregate")
    keywords = {**case.keywords(), "partition_by": case.partition_by}
    regex_runs.check(
        case.pattern,
        define,
        case.rows,
        measures=["median(y)", "distinct(s)", "share(y > 1)", "count_if(x > 0)", "max(y > 1)", "mode(s)"],
        **keywords,
    )


def with_summaries_everywhere(query, seed):
    def change(node: SequencePattern) -> SequencePattern:
        until = node.until if isinstance(node, Loop) else None
        return node if until is None else replace(node, until=with_summaries(until, Random(seed)))

    where = tuple(with_summaries(tree, Random(f"{seed} {i}")) for i, tree in enumerate(query.where))
    if groups := sorted(query.group_variables - query.absent_variables):
        random = Random(f"group {seed}")
        text = random.choice(TESTS).format(v=random.choice(groups), f=random.choice(OF_NUMBERS))
        where += (parse_expression(text, references=True),)
    return replace(query, where=where, pattern=ex.rebuilt(query.pattern, SequencePattern, change))


@pytest.mark.filterwarnings("ignore::cepkit.CepWarning")
@pytest.mark.parametrize("family", GROUPS)
@pytest.mark.parametrize("seed", seeds(6, 600))
def test_conditions_of_sequences(seed, family, monkeypatch):
    case = gs.case(seed, None, family)
    case = replace(case, query=with_summaries_everywhere(case.query, seed))
    if not has_summary(tree for _, tree in case.query.trees()):
        pytest.skip("no aggregate")
    try:
        wanted = sequence_matches(case.query, case.rows)
        program, events = bound(case)
    except ValueError:
        pytest.skip("an aggregate over several rounds of a group has no meaning")
    except UnsupportedQueryError as error:  # the definition has no rows that come to this condition
        assert "of all rounds of a repeated group" in str(error)
        pytest.skip("an aggregate over several rounds of a group has no meaning")
    if JIT and seed % 3:  # machine code of a query takes seconds
        run_as_python(monkeypatch)
    n_engines = 0
    for name in ENGINES:
        if engines()[name].unsupported(program) is None:
            n_engines += 1
            found = report_matches(program, engines()[name].run(program, events))
            assert as_matches(program, all_of(found)) == wanted, name
    assert n_engines
    frame = gs.to_frame(case.rows)
    matches = cep.match(frame, case.query)
    assert matches.count() == len(matches.to_frame())


def test_enough_cases_have_summaries():
    drawn = [generate.case(seed).define.values() for seed in range(100)]
    n_regexes = sum(has_summary(with_summaries(tree, Random(0)) for tree in trees) for trees in drawn)
    cases = [(gs.case(seed, None, family).query, seed) for seed in range(12) for family in GROUPS]
    changed = [with_summaries_everywhere(query, seed) for query, seed in cases]
    n_sequences = sum(has_summary(tree for _, tree in query.trees()) for query in changed)
    assert n_regexes > 30 and n_sequences > 0.4 * len(cases)


ENTRY = """
    "spread": Summary(
        lambda values: float(max(values) - min(values)), "the greatest minus the least", spellings=("extent",)
    ),
"""
# The table's module, as if its text had the entry.
BEGIN = f"""
import sys
from importlib.util import find_spec, module_from_spec
from pathlib import Path

spec = find_spec("cepkit.language.expressions.vocabulary")
begin, rest = Path(spec.origin).read_text("utf-8").split("SUMMARIES = {{")
sys.modules[spec.name] = module = module_from_spec(spec)
exec(begin + "SUMMARIES = {{" + {ENTRY!r} + rest, vars(module))
"""
PLACES = """
import cepkit as cep
import pandas as pd
from cepkit.language.cheat_sheet import CHEAT_SHEET

frame = pd.DataFrame({"t": range(6), "kind": list("abbbbc"), "x": [1.0, 4, 2, 8, 3, 5]})
numbers = frame[["t", "x"]]
regex = {"define": {"up": "spread(x) = 0"}, "order_by": "t", "measures": {"s": "extent(x)"}}
print("regex", cep.match(frame, ". up", **regex).to_frame()["s"].tolist())
stream = cep.stream(". up", numbers, **regex)
print("stream", [row["s"] for i in range(6) for row in stream.push(numbers[i : i + 1]).to_dict("records")])

where = "WHERE partition_contiguity AND spread(b.x) > 5 AND spread(b[..i-1].x) < 7"
measures = {"s": "spread(b.x)"}
found = cep.match(
    frame, f"PATTERN SEQ(a a, b+ b[], c c) {where}", order_by="t", event_type="kind", measures=measures
)
print("sequence", found.to_frame()["s"].tolist())
print("aggregate()", found.aggregate(s="spread(b.x)")["s"])
b = cep.event("b", "b")
print("in Python", b.aggregate("spread", "x") > 5)
print("window", cep.window(numbers, {"s": "spread(x)"}, length=2)["s"].tolist())

rows = "PATTERN (A B+ C) DEFINE A AS kind = 'a', B AS SPREAD(x) < 8 AND kind = 'b', C AS SPREAD(B.x) = 6"
sql = f"SELECT * FROM f MATCH_RECOGNIZE (ORDER BY t MEASURES SPREAD(B.x) AS s {rows})"
print("MATCH_RECOGNIZE", cep.sql(sql, f=frame).to_frame()["s"].tolist())
siddhi = "from S#window.length(2) select spread(x) as s insert into Out;"
print("SiddhiQL", cep.siddhi(siddhi, S=numbers, order_by="t").to_frame()["s"].tolist())
texts = {entry.text: entry.meaning for part in CHEAT_SHEET.values() for entry in part}
print("cheat sheet", texts["spread(x)"], texts["extent(x)"])
"""
SAID = """\
regex [3.0, 6.0, 2.0]
stream [3.0, 6.0, 2.0]
sequence [6.0]
aggregate() 6.0
in Python spread(b.x) > 5
window [0.0, 3.0, 2.0, 6.0, 5.0, 2.0]
MATCH_RECOGNIZE [6.0]
SiddhiQL [0.0, 3.0, 2.0, 6.0, 5.0, 2.0]
cheat sheet the greatest minus the least the same as spread
"""


def test_a_new_summary_is_one_entry():
    """Every place reads the table when it is imported, so a process of its own has the entry."""
    command = [sys.executable, "-W", "ignore", "-c", BEGIN + PLACES]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.stdout == SAID, run.stderr
