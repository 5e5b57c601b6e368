"""The open door: which names are public, what their signatures and docstrings say, how errors are worded."""

from __future__ import annotations

import ast
import copy
import doctest
import inspect
import pydoc
import re
import textwrap
from dataclasses import fields
from functools import cached_property
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import cepkit
import cepkit as cep
from cepkit import shedding
from cepkit.accessor import CepAccessor
from cepkit.events import Source
from cepkit.explorer.running.data import KeptColumns
from cepkit.frames.arrow import ArrowSource
from cepkit.frames.pandas import PandasSource
from cepkit.frames.sources import TypedSource, WrappedSource
from cepkit.frames.spark import EmptySource
from cepkit.planning.queries import NAMES, Arguments, QueryKeywords, takes_query_keywords

CALLS = ("match", "tag", "explain", "funnel", "why_not", "step", "simulate", "replay", "explore")
METHODS = (*CALLS, "window", "join", "runs", "sessions", "transaction")  # those of the accessor
FRAME = pd.DataFrame({"kind": list("abb"), "ts": [1, 2, 3]})
QUERY = "PATTERN SEQ(a x, b y)"


# --- names


def test_the_documentation_site_has_every_public_name_once():
    source = (Path(__file__).resolve().parents[1] / ".github" / "site" / "build.py").read_text("utf-8")
    [topics] = [
        ast.literal_eval(node.value)
        for node in ast.parse(source).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "TOPICS"
    ]
    assert sorted(" ".join(names for _, names in topics.values()).split()) == sorted(cep.__all__)


def test_the_table_of_names_equals_the_imports_for_type_checkers():
    tree = ast.parse(Path(cepkit.__file__).read_text(encoding="utf-8"))
    blocks = [n for n in tree.body if isinstance(n, ast.If) and ast.unparse(n.test) == "_TYPE_CHECKING"]
    imported = {
        node.module.removeprefix("cepkit."): sorted(alias.name for alias in node.names)
        for block in blocks
        for node in block.body
        if isinstance(node, ast.ImportFrom)
    }
    assert imported == {module: sorted(names.split()) for module, names in cepkit._NAMES_OF_MODULE.items()}


def test_the_list_for_type_checkers_has_the_names_of_the_table():
    assert sorted(cepkit.__all__) == sorted(cepkit._MODULE_OF_NAME)
    tree = ast.parse(Path(cepkit.__file__).read_text(encoding="utf-8"))
    lists = [
        n.value for n in tree.body if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == "__all__"
    ]
    assert [type(one) for one in lists] == [ast.List]  # type checkers read no expression


def test_dir_shows_the_public_names_only():
    shown = dir(cepkit)
    assert set(shown) == {*cepkit.__all__, "__version__"}
    assert 45 <= len(shown) <= 78


def test_all_public_names_are_there():
    for name in cepkit.__all__:
        module = import_module(f"cepkit.{cepkit._MODULE_OF_NAME[name]}")
        assert getattr(cepkit, name) is getattr(module, name)


def test_every_name_of_load_shedding_loads():
    assert len(dir(shedding)) > 20
    for name in dir(shedding):
        assert getattr(shedding, name).__name__ == name


def test_classes_that_results_are_made_of_are_public():
    moment = next(cep.step(FRAME, QUERY, event_type="kind"))
    for value in (
        cep.match(FRAME, QUERY, event_type="kind"),
        cep.match(FRAME, QUERY, event_type="kind")[0],
        cep.match(FRAME, "MATCH_RECOGNIZE (PATTERN (A) DEFINE A AS ts > 1)"),
        cep.explain(FRAME, QUERY, event_type="kind"),
        cep.funnel(FRAME, QUERY, event_type="kind"),
        cep.why_not(FRAME, QUERY, event_type="kind"),
        moment,
        *moment.began,
        cep.regex_query("a", define={"a": "ts > 1"}),
        cep.sequence_query(QUERY),
        cep.stream(QUERY + " WITHIN 2 events", {"kind": "string"}, event_type="kind"),
    ):
        assert type(value).__name__ in cepkit.__all__


# --- docstrings


RESULTS = (
    "CountEstimate", "Explanation", "FunnelResult", "Match", "Matches", "Moment", "ParallelRun",
    "PartialMatch", "SparkMatches", "SparkStream", "Stream", "Trace", "WhyNot",
)  # fmt: skip


def documented(name: str) -> list[tuple[str, object]]:
    """Return a public name, and of a class of results the public methods that its example does not use."""
    value = getattr(cepkit, name)
    classes = [of for of in value.__mro__ if of.__module__.startswith("cepkit")] if name in RESULTS else []
    own = [member for of in classes for member in vars(of).items()]
    kinds = property | cached_property | classmethod
    return [
        (name, value),
        *(
            (f"{name}.{key}", member)
            for key, member in own
            if not key.startswith("_") and (inspect.isfunction(member) or isinstance(member, kinds))
            if f".{key}" not in (inspect.getdoc(value) or "")
        ),
    ]


@pytest.mark.parametrize("name", cepkit.__all__)
def test_every_public_name_has_a_docstring_with_an_example(name):
    for shown, value in documented(name):
        doc = inspect.getdoc(value) or ""
        assert doc, f"{shown} has no docstring"
        assert ">>>" in doc, f"{shown} has no example"


# --- the accessor


@pytest.mark.parametrize("name", METHODS)
def test_the_accessor_takes_what_the_functions_take(name):
    function = list(inspect.signature(getattr(cep, name)).parameters.values())[1:]
    method = list(inspect.signature(getattr(CepAccessor, name)).parameters.values())[1:]
    assert [(p.name, p.kind, p.default) for p in method] == [(p.name, p.kind, p.default) for p in function]
    assert [str(p.annotation) for p in method] == [str(p.annotation) for p in function]


def test_the_accessor_has_the_functions_and_nothing_else():
    assert {name for name in vars(CepAccessor) if not name.startswith("_")} == set(METHODS)


@pytest.mark.parametrize("name", METHODS)
def test_the_accessor_has_the_docstrings_of_the_functions(name):
    function, method = getattr(cep, name), getattr(CepAccessor, name)
    doc = inspect.getdoc(method)
    for section in ("Parameters", "Returns", "Raises", "Examples"):
        assert f"\n{section}\n---" in doc
    assert not re.search(r"^frame\b", doc, re.MULTILINE)
    assert len(inspect.getdoc(function)) - 200 < len(doc) < len(inspect.getdoc(function))
    [example] = doctest.DocTestFinder().find(method, name)
    code = "".join(one.source for one in example.examples)
    assert f".cep.{name}(" in code and f" cep.{name}(" not in code


@pytest.mark.parametrize("name", METHODS)
def test_the_examples_of_the_accessor_run(name):
    [example] = doctest.DocTestFinder().find(getattr(CepAccessor, name), name)
    failed, tried = doctest.DocTestRunner().run(example)
    assert tried > 2 and not failed


def test_type_checkers_see_every_method_of_the_accessor():
    tree = ast.parse(inspect.getsource(CepAccessor))
    [branches] = [node for node in tree.body[0].body if isinstance(node, ast.If)]
    names = [(node.targets[0].id, node.value.attr) for node in branches.orelse]
    assert names == [(name, name) for name in METHODS]


class Tags(HTMLParser):
    """Check that tags are closed in order; keep the texts."""

    def __init__(self):
        super().__init__()
        self.open, self.text = [], ""

    def handle_starttag(self, tag, attrs):
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def test_the_accessor_shows_every_method_with_an_example():
    text = repr(FRAME.cep)
    tags = Tags()
    tags.feed(FRAME.cep._repr_html_())
    tags.close()
    assert tags.open == []
    for shown in (text, tags.text):
        for name in CALLS:
            assert inspect.getdoc(getattr(CepAccessor, name)).splitlines()[0].replace("`", "") in shown
            assert f"df.cep.{name}(" in shown


def test_help_of_the_accessor_is_short():
    text = pydoc.render_doc(FRAME.cep)
    assert len(text.splitlines()) < 60
    assert all(f"help(df.cep.{name})" in text and f"df.cep.{name}(" in text for name in METHODS)


@pytest.mark.parametrize(
    ("name", "hint"),
    [("mtach", "Did you mean 'match'?"), ("to_dataframe", "Results have it"), ("xyz", "match")],
)
def test_a_misspelt_method_says_the_nearest(name, hint):
    with pytest.raises(AttributeError, match=re.escape(hint)):
        getattr(FRAME.cep, name)
    assert not hasattr(FRAME.cep, "_repr_png_")


def test_a_misspelt_method_of_matches_says_the_nearest():
    matches = FRAME.cep.match(QUERY, event_type="kind")
    words = "matches have no 'to_dataframe'. Did you mean 'to_frame'"
    with pytest.raises(AttributeError, match=words) as caught:
        matches.to_dataframe()
    assert caught.value._render_traceback_()[-1].startswith("AttributeError: matches")
    for name in ("columns", "groupby", "to_pandas"):
        with pytest.raises(
            AttributeError, match=f"no '{name}'. A DataFrame has it: call to_frame\\(\\) first"
        ):
            getattr(matches, name)
    assert not hasattr(matches, "_repr_png_") and copy.copy(matches).count() == matches.count()


@pytest.mark.parametrize("name", METHODS)
def test_a_method_without_brackets_says_how_its_help_begins(name):
    method = getattr(FRAME.cep, name)
    text, doc = repr(method), inspect.getdoc(method)
    assert doc.splitlines()[0].replace("`", "") in text and f"help(df.cep.{name})" in text
    assert f"df.cep.{name}(" in text and len(text.splitlines()) < 30
    assert f"df.cep.{name}(" in pydoc.render_doc(method) or "Examples" in pydoc.render_doc(method)


def test_signatures_show_types_without_quotes():
    assert "define: Mapping[str, Any] | None = None" in str(inspect.signature(FRAME.cep.match))


# --- keywords


def test_the_keywords_for_type_checkers_are_the_arguments():
    assert QueryKeywords.__annotations__.keys() == {field.name for field in fields(Arguments)}
    typed = {name: hint.__forward_arg__ for name, hint in QueryKeywords.__annotations__.items()}
    assert typed == {field.name: field.type for field in fields(Arguments)}
    assert not QueryKeywords.__required_keys__


def calls() -> dict[str, object]:
    """Return every call that takes the keywords of a query."""
    functions = {name: lambda name=name, **said: getattr(cep, name)(FRAME, QUERY, **said) for name in CALLS}
    methods = {
        f"df.cep.{name}": lambda name=name, **said: getattr(FRAME.cep, name)(QUERY, **said) for name in CALLS
    }
    return {**functions, **methods, "stream": lambda **said: cep.stream(QUERY, FRAME, **said)}


@pytest.mark.parametrize("call", calls())
def test_a_misspelt_keyword_gets_the_same_words_in_every_call(call):
    name = call.removeprefix("df.cep.")
    own = [
        p.name
        for p in inspect.signature(getattr(cep, name)).parameters.values()
        if p.kind is p.KEYWORD_ONLY and p.name not in NAMES
    ]
    with pytest.raises(TypeError) as caught:
        calls()[call](partition="kind")
    assert str(caught.value) == (
        f"{name}() got an unexpected keyword argument 'partition'. Did you mean 'partition_by'?"
    )
    assert caught.value._render_traceback_()[-1] == f"TypeError: {caught.value}"  # no lines of the package
    assert not [line for line in caught.value._render_traceback_() if "accessor" in line]
    with pytest.raises(TypeError) as caught:
        calls()[call](qqqqqqqq=1)
    assert str(caught.value).endswith(f"'qqqqqqqq'. Keywords: {[*NAMES, *own]}")


def test_a_condition_as_a_keyword_says_where_conditions_are():
    with pytest.raises(TypeError, match=r"'where'\. Conditions are in the query: PATTERN SEQ\(…\) WHERE …"):
        FRAME.cep.match(QUERY, event_type="kind", where="b.ts > a.ts")


@pytest.mark.parametrize("name", ["window", "join"])
def test_a_misspelt_keyword_of_windows_and_joins_gets_the_nearest_name(name):
    for call in (lambda **said: getattr(cep, name)(FRAME, FRAME, **said), getattr(FRAME.cep, name)):
        with pytest.raises(TypeError) as caught:
            call(orderby="ts")
        words = f"{name}() got an unexpected keyword argument 'orderby'. Did you mean 'order_by'?"
        assert str(caught.value) == words


def test_a_misspelt_keyword_of_the_explorer_gets_the_words_of_the_call():
    with pytest.raises(TypeError) as function:
        cep.explore(FRAME, QUERY, partition="kind")
    with pytest.raises(TypeError) as made:
        cep.Explorer(FRAME, QUERY, partition="kind")
    assert str(made.value) == str(function.value)


@pytest.mark.parametrize("call", [*CALLS, "stream"])
def test_signatures_show_every_keyword_of_a_query(call):
    shown = inspect.signature(getattr(cep, call)).parameters
    assert set(NAMES) < set(shown)
    assert not any(p.kind is p.VAR_KEYWORD for p in shown.values())
    doc = inspect.getdoc(getattr(cep, call))
    assert all(f"\n{name} : " in doc for name in NAMES)
    assert "**keywords" not in doc


@pytest.mark.parametrize("indent", ["", "    "], ids=["Python 3.13", "Python 3.12"])
def test_keywords_of_a_query_are_indented_as_the_docstring_is(indent):
    def function(frame, **keywords):
        pass

    text = "Do it.\n\nframe : frame\n    Rows.\n**keywords\n"
    function.__doc__ = textwrap.indent(text, indent).lstrip()
    doc = inspect.getdoc(takes_query_keywords(function))
    assert all(f"\n{name} : " in doc for name in (*NAMES, "frame"))


def test_a_stream_takes_an_order_of_evaluation():
    schema = {"kind": "string"}
    for said in ({}, {"evaluation_order": ["y", "x"]}):
        pairs = cep.stream(QUERY + " WITHIN 9 events", schema, event_type="kind",
                           measures={"n": "count(y)"}, **said)  # fmt: skip
        assert pairs.push([{"kind": "a"}, {"kind": "b"}, {"kind": "b"}]) == [{"n": 1}, {"n": 1}]


# --- frames as sources


@pytest.mark.parametrize("of", [PandasSource, ArrowSource, EmptySource, KeptColumns, TypedSource])
def test_frames_implement_the_protocol_of_sources(of):
    members = {name for name in vars(Source) if not name.startswith("_")}
    assert len(members) == 17
    made = {PandasSource: lambda: PandasSource(FRAME), ArrowSource: lambda: ArrowSource(pa.table({"x": [1]}))}
    for name in members:
        asked = vars(Source)[name]
        if issubclass(of, WrappedSource) and not hasattr(of, name):
            continue  # it asks another source
        if inspect.isfunction(asked):
            ours = inspect.signature(getattr(of, name)).parameters
            assert list(ours) == list(inspect.signature(asked).parameters), name
        else:
            assert of not in made or hasattr(made[of](), name)


def test_sources_of_frames_answer_in_the_same_way():
    table = pa.table({"x": [1, 2], "v": pa.array([[1.0, 2.0], [3.0, 4.0]])})
    row, more = np.array([1]), {"match": np.array([0])}
    for source in (ArrowSource(table), PandasSource(table.to_pandas()), WrappedSource(ArrowSource(table))):
        assert source.n_rows == 2 and not source.duplicates and set(source.schema) == {"x", "v"}
        assert source.column("x").values.tolist() == [1, 2]
        assert source.item("v", 1).values.tolist() == [2.0, 4.0]
        assert source.vectors("v").tolist() == [[1.0, 2.0], [3.0, 4.0]]
        assert source.arrow("x", row).to_pylist() == [2]
        assert list(source.index_labels(row)) == [1]
        assert len(source.frame) == 2 and len(source.rows(row, more)) == 1
        assert len(source.tagged({"match": np.array([0, 0])})) == 2
        assert len(source.result({"n": pa.array([1, 2, 3])})) == 3
