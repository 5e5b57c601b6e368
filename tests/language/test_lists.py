"""Long lists of constants: the same trees, errors and carets as without the short way."""

import random

import numpy as np
import pandas as pd
import pytest

import cepkit as cep
from cepkit.errors import CepError
from cepkit.language.expressions import parsing
from cepkit.language.expressions.parsing import shortened
from cepkit.language.match_recognize import parsing as sql
from cepkit.language.match_recognize import reading

CONSTANTS = (
    "'AAPL'", '"MSFT"', "'it''s'", '"a ""b"""', "'in (1, 2)'", "''", "'x]'", "1", "-2", "- 3", "4.5", "-.5",
    "0.25", "6.", "1e3", "12345678901234567890123", "true", "NULL", "price", ":p", "1 + 2", "f(1)",
    "(3)", "not 1",
)  # fmt: skip
PLAIN = CONSTANTS[:13]
BLANKS = ("", " ", "  ", "\n", "\t ")
FRAMES = (
    "x in {}", "x not in {}", "not (x IN {}) and y > 1", "`in` in {} or `a in (1,2)` = 'b in [1,2'", 
    "x in{}", "x in {} and y in {}", "b.in {}", ":in {}", "in {}", "x in {} in {}", "f(x in {})",
    "x in {}[0]",
    "xin {}", "lower(x) in {} and (z in {})", "x in {} x", "'a' in {}", "max(x) in {}", "x = {}", "ünin {}",
    "x in  {} ' ",
)  # fmt: skip


SQL_FRAMES = ("x IN {} -- in (1, 2)", "x /* in */ in {}", "A.x IN {} AND PREV(y) NOT IN {}")


def read(text, references, short_way, monkeypatch):
    """Return the tree with all spans of a text, or the error that it gives."""
    with monkeypatch.context() as patch:
        if not short_way:
            patch.setattr(parsing, "parse_with_lists", lambda *given: None)
        try:
            tree = parsing._parse_expression(text, "where", references, None)
        except CepError as error:
            return type(error), str(error)
    return tree, [(type(node), node.span) for node in tree.walk()]


def random_list(rng):
    pool = PLAIN if rng.random() < 0.7 else CONSTANTS
    items = [rng.choice(pool) for _ in range(rng.choice((1, 7, 8, 9, 20, 60)))]
    blank = lambda: rng.choice(BLANKS)  # noqa: E731
    inner = ",".join(f"{blank()}{item}{blank()}" for item in items)
    opening, closing = rng.choice(("[]", "()"))
    return f"{opening}{inner}{',' if rng.random() < 0.2 else ''}{blank()}{closing}"


def with_mistake(text, rng):
    i = rng.randrange(max(1, len(text)))
    return rng.choice((
        text[:i] + text[i + 1 :], text[:i] + rng.choice(",'\"`[]().in 5") + text[i:], text[:i], text + "]",
        text.replace(",", ",,", 1), text.replace(",", " ", 1), text.replace(")", "]", 1),
        text.replace("'", '"', 1),
    ))  # fmt: skip


@pytest.mark.parametrize("seed", range(4))
def test_lists_are_read_as_without_the_short_way(seed, monkeypatch):
    rng = random.Random(seed)
    n_short = n_errors = 0
    for _ in range(300):
        form = rng.choice(FRAMES)
        text = form.format(*(random_list(rng) for _ in range(form.count("{}"))))
        for _ in range(rng.choice((0, 0, 1, 2))):
            text = with_mistake(text, rng)
        references = rng.random() < 0.5
        short, slow = (read(text, references, way, monkeypatch) for way in (True, False))
        assert short == slow, text
        n_short += shortened(text)[1] != {}
        n_errors += isinstance(slow[0], type)
    assert n_short > 50 and 50 < n_errors < 250


def read_sql(text, short_way, monkeypatch):
    """Return the tree with all spans of a condition of MATCH_RECOGNIZE, or the error that it gives."""
    with monkeypatch.context() as patch:
        if not short_way:
            patch.setattr(reading, "parse_with_lists", lambda *given: None)
        try:
            query = sql._parse_once.__wrapped__(f"ORDER BY t PATTERN (A) DEFINE A AS {text}", ())
        except CepError as error:
            return type(error), str(error)
    tree = query.define[0][1]
    return tree, [(type(node), node.span) for node in tree.walk()]


@pytest.mark.parametrize("seed", range(4))
def test_lists_of_sql_are_read_as_without_the_short_way(seed, monkeypatch):
    rng = random.Random(seed)
    n_short = n_errors = 0
    for _ in range(300):
        form = rng.choice((*FRAMES, *SQL_FRAMES))
        text = form.format(*(random_list(rng) for _ in range(form.count("{}"))))
        for _ in range(rng.choice((0, 0, 1, 2))):
            text = with_mistake(text, rng)
        short, slow = (read_sql(text, way, monkeypatch) for way in (True, False))
        assert short == slow, text
        n_short += not isinstance(slow[0], type) and shortened(text)[1] != {}
        n_errors += isinstance(slow[0], type)
    assert n_short > 8 and 50 < n_errors < 290


def test_a_list_of_sql_may_have_very_many_items(full):
    """It has a million items with ``--full``, which take half a minute."""
    frame = pd.DataFrame({"t": range(3000), "x": range(3000)})
    listed = ",".join(map(str, range(0, 2_000_000 if full else 100_000, 2)))
    text = f"MATCH_RECOGNIZE (ORDER BY t MEASURES A.t AS t PATTERN (A) DEFINE A AS x IN ({listed}))"
    assert cep.match(frame, text).to_frame()["t"].tolist() == list(range(0, 3000, 2))


@pytest.mark.parametrize("text, caret", [
    ("x in ['a', 'b', 'c', 'd', 'e', 'f', 'g' 'h', 'i', 'j']", "'h'"),
    ("x in ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j'", None),
    ("x in [1, 2, 3, 4, 5, 6, 7, 8, 9, 1_0]", "_0"),
    ("x in [1, 2, 3, 4, 5, 6, 7, 8, 9] and y >", None),
])  # fmt: skip
def test_a_mistake_in_or_after_a_list_has_its_caret(text, caret, monkeypatch):
    kind, message = read(text, False, True, monkeypatch)
    assert issubclass(kind, CepError) and (kind, message) == read(text, False, False, monkeypatch)
    lines = message.splitlines()
    assert lines[-2].strip() == text and set(lines[-1].strip()) == {"^"}
    if caret:
        assert lines[-1].index("^") - 2 == text.index(caret)


@pytest.mark.parametrize("n_names", [1000, 10_000])
def test_thousands_of_names_give_the_rows_of_isin(n_names):
    rng = np.random.default_rng(n_names)
    every = np.array([f"N{i}" for i in range(2 * n_names)], object)
    watched = rng.permutation(every)[:n_names].tolist()
    frame = pd.DataFrame({"symbol": rng.choice(every, 500), "row": range(500)})
    text = f"symbol in {watched}"  # as Python writes a list
    found = cep.match(frame, "w", define={"w": text}, measures={"row": "first(row)"}).to_frame()
    assert found["row"].tolist() == frame["row"][frame["symbol"].isin(watched)].tolist()
    sequence = cep.match(frame, f"PATTERN SEQ(_ w) WHERE w.{text}").count()
    assert sequence == len(found)
