"""The recipes of the cookbook: short answers to the questions that people ask first."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import overload

import pandas as pd

from cepkit.errors import CepError, nearest
from cepkit.language.expressions.vocabulary import FUNCTIONS_OF_VALUES
from cepkit.values import dataclass

FILE = Path(__file__).with_suffix(".md")


@dataclass(frozen=True, slots=True)
class Recipe:
    """A question, other words for it, and Python code whose last line is the answer."""

    title: str
    words: str
    code: str
    note: str

    def __str__(self) -> str:
        note = f"\n# {self.note}" if self.note else ""
        return f"# {self.title}\n{self.code}{note}"

    def _repr_markdown_(self) -> str:
        return "\n\n".join(filter(None, (f"**{self.title}**", f"```python\n{self.code}\n```", self.note)))


class Recipes(Sequence[Recipe]):
    """Recipes that show their code; the titles alone if there are many."""

    def __init__(self, recipes: Sequence[Recipe]):
        self._recipes = tuple(recipes)

    def __len__(self) -> int:
        return len(self._recipes)

    @overload
    def __getitem__(self, index: int) -> Recipe: ...
    @overload
    def __getitem__(self, index: slice) -> Recipes: ...
    def __getitem__(self, index: int | slice) -> Recipe | Recipes:
        return Recipes(self._recipes[index]) if isinstance(index, slice) else self._recipes[index]

    def __repr__(self) -> str:
        if len(self) <= 3:
            return "\n\n".join(map(str, self))
        return "\n".join(f"{number:>3}  {recipe.title}" for number, recipe in enumerate(self))

    def _repr_markdown_(self) -> str:
        if len(self) <= 3:
            return "\n\n".join(recipe._repr_markdown_() for recipe in self)
        return "\n".join(f"- `[{number}]` {recipe.title}" for number, recipe in enumerate(self))


def recipes(words: str = "") -> Recipes:
    """Return the recipes for a question, the best first.

    A recipe has ten rows of data, the line that answers the question, and its title. The notebook
    ``05_cookbook`` has all of them with their answers.

    Parameters
    ----------
    words : str
        Words of the question, such as ``"gap"`` or ``"brute force"``; the beginning of a word is enough.
        Without words: all recipes.

    Returns
    -------
    Recipes
        A sequence. Up to three recipes show their code, more show their titles; ``[k]`` is one of them, and
        its ``code`` is text.

    Raises
    ------
    CepError
        No recipe has one of the words.

    Examples
    --------
    >>> import cepkit as cep
    >>> cep.recipes("gap")[0].title
    'Find gaps in a signal'
    >>> len(cep.recipes()) >= 60
    True
    """
    kept = _all()
    wanted = re.findall(r"[^\W_]+", words.lower())
    if not wanted:
        return Recipes(kept)
    scores = [_score(recipe, wanted) for recipe in kept]
    best = max(scores)
    if best == 0:
        known = sorted({word for recipe in kept for word in _words(f"{recipe.title} {recipe.words}")})
        raise CepError(
            f"recipes: no recipe has {words!r}.{nearest(wanted[0], known)} cep.recipes() lists all of them"
        )
    order = sorted((k for k, score in enumerate(scores) if score > 0), key=lambda k: -scores[k])
    return Recipes([kept[k] for k in order])


def _score(recipe: Recipe, wanted: Sequence[str]) -> int:
    """Return how well a recipe fits: each word counts once, where it weighs most."""
    weights: dict[str, int] = {}
    for weight, text in enumerate((f"{recipe.code} {recipe.note}", recipe.words, recipe.title), 1):
        weights |= dict.fromkeys(_words(text), weight)
    return sum(
        max((weights[word] for word in weights if word.startswith(part)), default=0) for part in wanted
    )


def _words(text: str) -> list[str]:
    return re.findall(r"[^\W_]+", text.lower())


def vocabulary(words: str = "") -> pd.DataFrame:
    """Return the functions of conditions and measures, which all query languages have.

    Parameters
    ----------
    words : str
        A part of a name or of a meaning, such as ``"time"``. Without words: all functions.

    Returns
    -------
    pandas.DataFrame
        A row for each function: its name as the index, ``example``, ``meaning``, ``takes`` and ``also``, its
        other names. Aggregates and ``prev`` are in the cheat sheet of the explorer.

    Raises
    ------
    CepError
        If no function fits.

    Examples
    --------
    >>> vocabulary("week").index.to_list()
    ['week', 'day_of_week', 'weekday', 'is_weekend', 'date_trunc', 'dayname']
    """
    wanted = words.lower().split()
    rows = [
        (row.name, row.example, row.meaning, str(row.takes), ", ".join(row.aliases))
        for row in FUNCTIONS_OF_VALUES
        if all(word in " ".join((row.name, row.meaning, *row.aliases)).lower() for word in wanted)
    ]
    if not rows:
        names = [name for row in FUNCTIONS_OF_VALUES for name in (row.name, *row.aliases)]
        raise CepError(f"no function fits {words!r}.{nearest(words, names)} vocabulary() lists all of them")
    table = pd.DataFrame(rows, columns=["name", "example", "meaning", "takes", "also"])
    return table.set_index("name")


@cache
def _all() -> tuple[Recipe, ...]:
    return tuple(_read(FILE.read_text("utf-8")))


def _read(text: str) -> Iterator[Recipe]:
    """Yield the recipes of a Markdown file: a title, a line of words, a block of code, perhaps a note."""
    for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        head, code, note = re.split(r"^```(?:python)?\n", section, maxsplit=2, flags=re.MULTILINE)
        title, words = head.strip().split("\n", 1)
        yield Recipe(title.strip(), words.strip(), code.rstrip(), note.strip())
