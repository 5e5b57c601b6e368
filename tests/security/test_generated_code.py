"""Text that runs: kernels, translations, cells, tests and command lines. No name and no value breaks out."""

from __future__ import annotations

import ast
import re
import shlex

import pandas as pd
import pytest

import cepkit as cep
from cepkit.compile.shared import loading
from cepkit.errors import CepError
from cepkit.language.expressions.printing import quoted_name, quoted_text
from cepkit.language.match_recognize.parsing import parse_match_recognize
from cepkit.language.siddhi.printing import parse_siddhi
from cepkit.planning import plans
from tests.support.hostile_names import HOSTILE

N = 12
REGEX = ". p"


def events(text: str) -> pd.DataFrame:
    """Return events with a hostile column, a hostile event type and hostile texts."""
    return pd.DataFrame(
        {"t": range(N), text: range(N), "kind": [text, "A", "B"] * (N // 3), "s": [text, "y"] * (N // 2)}
    )


def regex_call(text: str) -> dict:
    define = {"p": f"{quoted_name(text)} > 2 and s = {quoted_text(text)} or s in ({quoted_text(text)}, :v)"}
    return {
        "define": define,
        "params": {"v": text},
        "order_by": "t",
        "measures": {"top": f"max({quoted_name(text)})"},
    }


def sequence_of(text: str) -> str:
    condition = (
        f"b.{quoted_name(text)} > a.{quoted_name(text)} and (b.s = {quoted_text(text)} or b.s like 'y%')"
    )
    return f"PATTERN SEQ({quoted_text(text)} a, B b) WHERE {condition} WITHIN 6"


SEQUENCE = {"event_type": "kind", "order_by": "t"}


@pytest.fixture
def written(monkeypatch):
    """The texts of all kernels that are loaded. No program is kept, which keeps kernels."""
    texts: set[str] = set()
    monkeypatch.setattr(plans, "_programs", plans.Plans(128))
    name_of = loading._name_of
    monkeypatch.setattr(loading, "_name_of", lambda text: texts.add(text) or name_of(text))
    return texts


@pytest.mark.parametrize("name", HOSTILE)
def test_kernels_have_no_text_of_names_and_values(written, name):
    counts = []
    for text in ("plain", HOSTILE[name]):
        written.clear()
        found = cep.match(events(text), REGEX, **regex_call(text))
        several = cep.match(events(text), sequence_of(text), **SEQUENCE)
        counts.append((found.count(), several.count(), len(several.to_frame())))
        kernels = set(written)
        if text == "plain":
            expected = kernels
    assert counts[0] == counts[1] and min(counts[0]) > 0
    assert kernels == expected  # so names and values are not in it


# --- Python


def names_in(code: str) -> set[str]:
    return {node.id for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name)}


def rerun(code: str, text: str) -> int:
    """Run a call of ``df.cep.match`` after a look at its names, and return the number of matches."""
    assert names_in(code) <= {"df", "cep", "a", "b", "query", "pattern", "matches"}
    *before, last = ast.parse(code).body
    names = {"df": events(text), "cep": cep}
    exec(compile(ast.Module(before, []), "<code>", "exec"), names)
    value = last.value if isinstance(last, ast.Expr | ast.Assign) else None
    return eval(compile(ast.Expression(value), "<code>", "eval"), names).count()


@pytest.mark.parametrize("target", ["sase", "regex", "python"])
@pytest.mark.parametrize("name", HOSTILE)
def test_translations_to_python_run_and_find_the_same(name, target):
    text = HOSTILE[name]
    n_run = 0
    for query, call in ((REGEX, regex_call(text)), (sequence_of(text), SEQUENCE)):
        expected = cep.match(events(text), query, **call).count()
        try:
            code = cep.translate(query, target, **call)
        except cep.UnsupportedQueryError:
            continue
        n_run += 1
        assert rerun(code, text) == expected
    assert n_run


CHAIN = "p q"


def chain_call(text: str) -> dict:
    return {
        "define": {"p": f"s = {quoted_text(text)}", "q": f"{quoted_name(text)} > 3"}, "order_by": "t",
        "measures": {"top": f"max({quoted_name(text)})"},
    }  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_translations_to_sql_run_and_find_the_same(name):
    text = HOSTILE[name]
    sql = cep.translate(CHAIN, "match_recognize", **chain_call(text))
    assert "MATCH_RECOGNIZE" in sql and parse_match_recognize(sql)
    expected = cep.match(events(text), CHAIN, **chain_call(text)).count()
    assert cep.match(events(text), sql).count() == expected > 0
    assert str(parse_match_recognize(str(parse_match_recognize(sql)))) == str(parse_match_recognize(sql))


def bare_java(code: str) -> str:
    """Return Java text without the content of its quotes; it has nothing but plain code."""
    bare = re.sub(r'"(?:[^"\\\n]|\\.)*"', '""', code)
    assert code.isascii() and re.fullmatch(r'[\w\s.(),;:<>{}=&|!?+\-*/@\[\]"]*', bare), bare
    return bare


def test_translations_to_siddhi_and_java_keep_texts_in_their_quotes():
    n_of = {"siddhi": 0, "flink_cep_java": 0}
    for text in HOSTILE.values():
        query = f"PATTERN SEQ(A a, B b) WHERE skip_till_next_match and b.s = {quoted_text(text)} WITHIN 6 s"
        for target in n_of:
            try:
                code = cep.translate(query, target, **SEQUENCE)
            except cep.UnsupportedQueryError:
                continue
            n_of[target] += 1
            if target == "siddhi":
                [made] = parse_siddhi(code).elements
                trees = [tree for one in made.sources() for tree in one.conditions]
                assert text in [getattr(node, "value", None) for tree in trees for node in tree.walk()]
            else:
                assert not re.search("onerror|abort|DROP|owned|alert|passwd", bare_java(code))
    assert n_of["siddhi"] >= len(HOSTILE) // 2 and n_of["flink_cep_java"] == len(HOSTILE)


@pytest.mark.parametrize("target", ["siddhi", "flink_cep_java"])
@pytest.mark.parametrize("name", HOSTILE)
def test_names_that_a_language_cannot_spell_are_refused(name, target):
    query = (
        f"PATTERN SEQ(A a, B b) WHERE skip_till_next_match and b.{quoted_name(HOSTILE[name])} > 1 WITHIN 6 s"
    )
    try:
        code = cep.translate(query, target, **SEQUENCE)
    except CepError:
        return
    if target == "siddhi":
        assert parse_siddhi(code)
    else:  # a getter has the letters and digits of the name
        bare_java(code)


# --- what users take out of an explorer


def board_text(text: str) -> str:
    call = regex_call(text)
    return f"{REGEX}\np: {call['define']['p'].replace(':v', quoted_text(text))}"


@pytest.mark.parametrize("name", sorted({*HOSTILE} - {"lines"}))  # an editor's text has its own lines
def test_cells_tests_and_commands_of_the_explorer(name, tmp_path):
    text = HOSTILE[name]
    explorer = events(text).cep.explore(board_text(text), order_by="t").wait(60)
    assert explorer.status["state"] == "done", explorer.status
    assert rerun(explorer.code, text) == explorer.matches.count() > 0
    if not text.isprintable():  # a command line takes such text, and shows it as it is
        return
    command = explorer.command
    words = shlex.split(command, comments=True)
    assert words[:2] == ["cepkit", "match"] and f"p={board_text(text).partition('p: ')[2]}" in words
    explorer.keep(match=0)
    module = ast.parse(explorer.write_test())
    assert {type(node) for node in module.body} <= {ast.Expr, ast.Import, ast.ImportFrom, ast.FunctionDef}
    imported = {
        alias.name for node in ast.walk(module) if isinstance(node, ast.Import) for alias in node.names
    }
    assert imported <= {"pandas", "cepkit", "datetime", "decimal"}
