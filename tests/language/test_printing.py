"""A printed query is read as an equal query, in all languages and in the files of streams."""

from __future__ import annotations

import pytest

import cepkit as cep
from cepkit.streaming.saved import query_as_json, query_of_json
from tests.support.printed_queries import LANGUAGES, check
from tests.support.sizes import seeds


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("seed", seeds(2, 20))
def test_random_queries(language, seed, full):
    n = 500 if full else 60
    assert check(language, range(n * seed, n * seed + n)) > n / 3


@pytest.mark.filterwarnings("ignore::cepkit.errors.CepWarning")
@pytest.mark.parametrize(
    "pattern", [". a (b (c | d)+){2}", "a{1}", "((a b) c){1,1}", "a | (b | (c | d)) | ()", "(a (b))+ ((c)?)*"]
)
def test_a_saved_regex_is_equal(pattern):
    define = {
        "a": "x > 1 and (x < 9 and x != 4)",
        "b": "not not x > 2",
        "c": "x = -3",
        "d": "x - (2 - x) > 1",
    }
    used = {name: text for name, text in define.items() if name in pattern}
    query = cep.regex_query(pattern, define=used)
    again = query_of_json(query_as_json(query))
    assert again == query and str(again) == str(query)
