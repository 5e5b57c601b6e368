"""SiddhiQL: parsing, printing, and errors with a caret."""

from __future__ import annotations

from pathlib import Path

import pytest

from cepkit.errors import PatternSyntaxError
from cepkit.language.expressions import trees as ex
from cepkit.language.siddhi import query as sp
from cepkit.language.siddhi.printing import parse_siddhi
from cepkit.language.siddhi.query import JoinInput, PatternInput, SiddhiPartition, StreamInput

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"


def pairs(file):
    """Return the texts and expected texts of a file: ``input ; expected``, with ``;;`` between them."""
    lines = (FIXTURES / file).read_text(encoding="utf-8").splitlines()
    return [tuple(line.split(" ;; ", 1)) for line in lines if line and not line.startswith("#")]


def query_of(text):
    [element] = parse_siddhi(text).elements
    return element


@pytest.mark.parametrize(("text", "expected"), pairs("siddhi_print.txt"))
def test_printing(text, expected):
    app = parse_siddhi(text)
    printed = str(app)
    assert " ".join(printed.split()) == expected
    assert parse_siddhi(printed) == app


def test_words_of_the_language_are_printed_in_backticks():
    words = [
        "from", "select", "every", "not", "for", "within", "and", "or", "is", "in", "null", "true", "false",
        "as", "on", "of", "having", "begin", "end", "define", "partition", "insert", "return", "output",
        "group", "order", "limit", "offset", "join", "left", "right", "full", "inner", "unidirectional",
        "asc", "desc",
    ]  # fmt: skip
    for word in words:
        app = parse_siddhi(f"from A select x as `{word}`, y insert into B")
        assert f"as `{word}`" in str(app)
        assert parse_siddhi(str(app)) == app


@pytest.mark.parametrize(("text", "message"), pairs("siddhi_errors.txt"))
def test_errors(text, message):
    with pytest.raises(PatternSyntaxError) as caught:
        parse_siddhi(text)
    assert caught.value.message == message
    assert "^" in str(caught.value)


def test_a_pattern_is_a_tree():
    query = query_of("from every e1=A[x > 1] -> e2=B<2:5> within 1 min select e1.x as y insert into C")
    first = sp.EventState(
        sp.StreamSource("A", (sp.FilterHandler(ex.Comparison(">", ex.Attribute("x"), ex.Literal(1))),)), "e1"
    )
    second = sp.CountedState(sp.EventState(sp.StreamSource("B"), "e2"), 2, 5)
    assert query.input == PatternInput(sp.StateChain((sp.EveryState(first), second)), False, 60_000)
    assert query.select[0].value == ex.Reference("e1", "x")
    assert (query.target, query.events) == ("C", "current")


def test_one_stream_without_a_name_is_no_pattern():
    assert query_of("from A[x > 1] select x insert into B").input == StreamInput(
        sp.StreamSource("A", (sp.FilterHandler(ex.Comparison(">", ex.Attribute("x"), ex.Literal(1))),))
    )
    assert isinstance(query_of("from e1=A select e1.x insert into B").input, PatternInput)
    assert isinstance(query_of("from every A select x insert into B").input, PatternInput)


def test_sequences_have_commas():
    query = query_of("from e1=A, e2=B+, e3=C? select e1.x insert into D")
    assert query.input.is_sequence
    assert [(part.low, part.high) for part in query.input.pattern.parts[1:]] == [(1, None), (0, 1)]


def test_indexes_count_from_one_in_trees():
    columns = "e1[0].x as a, e1[last].x as b, e1[last - 1].x as c"
    query = query_of(f"from e1=A<2:> -> e2=B select {columns} insert into C")
    assert [column.value.index for column in query.select] == [1, "LEN", "LEN-1"]


def test_brackets_group():
    flat = query_of("from e1=A -> e2=B -> e3=C select e1.x insert into D")
    assert query_of("from (e1=A -> (e2=B -> e3=C)) select e1.x insert into D") == flat
    every = query_of("from every (e1=A -> e2=B) -> e3=C select e1.x insert into D").input.pattern
    assert isinstance(every.parts[0], sp.EveryState)
    assert isinstance(every.parts[0].body, sp.StateChain)


def test_joins_say_which_side_triggers():
    sides = "A#window.time(1 sec) as a unidirectional right outer join B as b"
    join = query_of(f"from {sides} on a.x == b.x select a.x insert into C").input
    assert isinstance(join, JoinInput)
    assert (join.how, join.left.is_trigger, join.right.is_trigger) == ("right", True, False)


def test_partitions_have_keys_and_ranges():
    text = """partition with (x of A, y > 1 as 'high' or y <= 1 as 'low' of B) begin
        from A select x insert into #I; from #I select x insert into O; end;"""
    [partition] = parse_siddhi(text).elements
    assert isinstance(partition, SiddhiPartition)
    assert partition.keys[0].value == ex.Attribute("x")
    assert [name for _, name in partition.keys[1].ranges] == ["high", "low"]
    assert [query.target for query in partition.queries] == ["#I", "O"]


def test_annotations_name_queries_and_do_nothing_else():
    text = """@app:name('Demo') @app:playback(idle.time = '100 millisecond')
        @source(type='http', @map(type='json'))
        define stream A (x int); @info(name = 'first') from A select x insert into B"""
    app = parse_siddhi(text)
    assert (app.streams[0].name, app.elements[0].name) == ("A", "first")


def test_comments_and_words_as_names():
    text = (
        "from A[`order` > 1] -- a comment\n select `order`, end as last /* two\nlines */ insert into `select`"
    )
    query = query_of(text)
    assert [column.value.name for column in query.select] == ["order", "end"]
    assert query.target == "select"


def test_texts_have_escapes():
    query = query_of(
        """from A[x == 'it\\'s' or x == "a\\"b" or x == \"\"\"plain 'text'\"\"\"] select x insert into B"""
    )
    values = [node.value for node in query.input.source.conditions[0].walk() if isinstance(node, ex.Literal)]
    assert values == ["it's", 'a"b', "plain 'text'"]
