"""Tables of parsers: they come with the package, and make the same parsers as the grammars."""

from __future__ import annotations

from contextlib import nullcontext

import lark
import pytest

from cepkit import cache as cache_module
from cepkit.errors import CepWarning
from cepkit.language.expressions import parsing
from cepkit.language.expressions.parsing import FOLDER, GRAMMARS, make_parser, tables_path

COMMAND = "python -m cepkit.commands.ship"
names = pytest.mark.parametrize("grammar", GRAMMARS, ids=lambda grammar: grammar.stem)


@names
def test_the_tables_are_those_of_the_present_grammar(grammar):
    text = grammar.read_text(encoding="utf-8")
    pattern = tables_path(grammar.stem, text, "*").name
    assert list(FOLDER.glob(pattern)), f"{grammar.name} changed: run `{COMMAND}` and commit its files"
    assert len(list(FOLDER.iterdir())) == len(GRAMMARS), f"some tables belong to no grammar: run `{COMMAND}`"


@names
def test_tables_make_the_parser_of_the_grammar(grammar, tmp_path):
    parsing.write_tables(tmp_path, grammar)
    text = grammar.read_text(encoding="utf-8")
    with tables_path(grammar.stem, text, lark.__version__, tmp_path).open("rb") as file:
        loaded = lark.Lark.load(file)
    made = lark.Lark(text, parser="lalr", lexer="basic")
    assert sorted(map(str, loaded.rules)) == sorted(map(str, made.rules))
    assert sorted(map(repr, loaded.terminals)) == sorted(map(repr, made.terminals))


@pytest.mark.parametrize("place", ["package", "cache", "nowhere"])
def test_the_same_trees_wherever_the_tables_are(place, tmp_path, monkeypatch):
    text = "price > first(price) * 1.05 and not (volume in [1, 2] or avg(price) <= 3)"
    wanted = parsing.parse_expression(text)
    if place != "package":
        monkeypatch.setattr(parsing, "FOLDER", tmp_path)
    cache = tmp_path / "kernels"
    if place == "nowhere":
        cache.write_text("")
    monkeypatch.setenv("CEPKIT_CACHE", str(cache))
    monkeypatch.setattr(cache_module, "_reported", set())
    for i in range(2):
        is_said = (place, i) == ("nowhere", 0)
        with pytest.warns(CepWarning, match="cannot be made") if is_said else nullcontext():
            parser = make_parser(GRAMMARS[0], parsing.EXPRESSION_BUILDER)
        monkeypatch.setattr(parsing, "_expression_parser", lambda parser=parser: parser)
        parsing._parse_once.cache_clear()
        assert parsing.parse_expression(text) == wanted
    kept = list(cache.glob("*.tables")) if cache.is_dir() else []
    # The package has the tables for one version of lark.
    is_shipped = tables_path(GRAMMARS[0].stem, GRAMMARS[0].read_text("utf-8"), lark.__version__).is_file()
    assert len(kept) == (place == "cache" or (place == "package" and not is_shipped))
