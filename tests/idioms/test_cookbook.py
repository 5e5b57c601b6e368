"""The recipes of the cookbook: the file, the search, and the notebook made of it."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

import cepkit as cep
from cepkit.errors import CepError
from tests.support.tables import cases

NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "05_cookbook.ipynb"


def test_there_are_sixty_recipes_with_titles_of_their_own():
    kept = cep.recipes()
    assert len(kept) >= 60
    assert len({recipe.title for recipe in kept}) == len(kept)
    for recipe in kept:
        *_, last = ast.parse(recipe.code).body
        assert isinstance(last, ast.Expr), f"{recipe.title}: the last line is the answer"
        assert max(map(len, recipe.code.splitlines())) <= 110, recipe.title


@pytest.mark.parametrize(
    ("words", "title"),
    cases("recipes", "words"),
)
def test_words_find_the_recipe(words, title):
    assert cep.recipes(words)[0].title == title


def test_a_word_of_no_recipe():
    with pytest.raises(CepError, match=r"no recipe has 'sessoin'\. Did you mean 'session"):
        cep.recipes("sessoin")


def test_few_recipes_show_their_code_and_many_their_titles():
    few = cep.recipes("engulfing")
    assert "df.cep.runs(" in repr(few) and "```python" in few._repr_markdown_()
    assert repr(cep.recipes()).splitlines()[0].strip() == "0  Find consecutive equal values"
    assert len(cep.recipes()[:2]) == 2


def test_the_notebook_has_every_recipe():
    cells = json.loads(NOTEBOOK.read_text("utf-8"))["cells"]
    sources = ["".join(cell["source"]) for cell in cells]
    for recipe in cep.recipes():
        place = sources.index(recipe.code)
        assert sources[place - 1].startswith(f"## {recipe.title}\n")
        assert cells[place]["outputs"], f"{recipe.title}: run .ci/cookbook"
        assert all(output.get("name") != "stderr" for output in cells[place]["outputs"]), (
            f"{recipe.title} warns"
        )
