"""One surface: what the public classes of one kind have in common, name by name and argument by argument."""

from __future__ import annotations

import inspect

import pytest

import cepkit as cep
from cepkit.results.found import FoundResult
from cepkit.results.in_memory import FoundMatches
from cepkit.results.matches import Matches, SparkMatches
from cepkit.results.query_found import RegexFound, SequenceFound
from cepkit.results.rows_in_memory import RowsInMemory, RowWindowInMemory
from cepkit.results.spark_found import SparkFound
from cepkit.results.spark_row_patterns import RowsOnSpark
from cepkit.streaming.chains import RegexSearch
from cepkit.streaming.search import Search
from cepkit.streaming.sequence_stream import SequenceSearch
from cepkit.streaming.stream import Stream

QUESTIONS = {
    "query", "count", "__len__", "__bool__", "__iter__", "__getitem__", "head", "sample", "take",
    "chunks", "write_parquet", "aggregate", "count_by_last", "lineage", "tag", "to_frame", "plot", "view",
    "explore", "run", "engine", "undecided", "quarantined",
}  # fmt: skip
OF_STREAMS = {
    "push", "push_row", "flush", "close", "events", "matches", "status", "board", "result_schema",
    "save", "load", "__enter__", "__exit__",
}  # fmt: skip


def public(of: type) -> set[str]:
    """Return the names of what a class itself offers to users."""
    special = ("__len__", "__bool__", "__iter__", "__getitem__", "__enter__", "__exit__")
    return {name for name in vars(of) if not name.startswith("_") or name in special}


def arguments(function) -> list[tuple]:
    """Return name, kind and default of every argument."""
    given = inspect.signature(function).parameters.values()
    return [(one.name, one.kind, one.default) for one in given]


def test_results_answer_the_same_questions():
    assert public(Matches) == QUESTIONS
    assert not public(SparkMatches) and issubclass(SparkMatches, Matches)


@pytest.mark.parametrize("kind", ["memory", "rows in memory", "a window in memory", "Spark", "rows on Spark"])
def test_what_results_read_has_the_arguments_of_its_protocol(kind):
    of = {
        "memory": FoundMatches, "rows in memory": RowsInMemory, "a window in memory": RowWindowInMemory,
        "Spark": SparkFound, "rows on Spark": RowsOnSpark,
    }[kind]  # fmt: skip
    for name in (name for name in vars(FoundResult) if inspect.isfunction(vars(FoundResult)[name])):
        assert arguments(getattr(of, name)) == arguments(getattr(FoundResult, name)), f"{of.__name__}.{name}"


def test_streams_have_one_class():
    assert public(Stream) == OF_STREAMS
    assert cep.stream.load == Stream.load


@pytest.mark.parametrize(
    ("protocol", "one", "other"),
    [(FoundMatches, RegexFound, SequenceFound), (Search, RegexSearch, SequenceSearch)],
    ids=lambda of: of.__name__,
)
def test_what_is_behind_them_has_the_arguments_of_its_protocol(protocol, one, other):
    inherited = {*vars(FoundResult), *FoundResult.__annotations__} if protocol is FoundMatches else set()
    names = {*vars(protocol), *protocol.__annotations__, *inherited}
    names = {name for name in names if not name.startswith("_")}
    methods = {name for name in names if inspect.isfunction(vars(protocol).get(name))}
    assert len(methods) > 5
    for of in (one, other):
        for name in methods:
            assert arguments(getattr(of, name)) == arguments(getattr(protocol, name)), f"{of.__name__}.{name}"
        extra = public(of) - names
        assert extra <= {"query", "schema", "n_threads"}, f"{of.__name__} has {extra}"


@pytest.mark.parametrize("of", [Matches, Stream], ids=lambda of: of.__name__)
def test_every_method_is_documented_with_an_example(of):
    for name in public(of):
        doc = inspect.getdoc(vars(of)[name])
        assert name.startswith("__") or (doc and ">>>" in doc), f"{of.__name__}.{name}"
