"""Parsers of grammar files. Their tables come with the package, or are kept in the cache."""

from __future__ import annotations

import hashlib
import os
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cepkit.cache import cache_folder
from cepkit.errors import CepError

if TYPE_CHECKING:
    from lark import Lark

_LANGUAGE = Path(__file__).resolve().parents[1]
_FILES = (
    "expressions/expr.lark",
    "regex/regex.lark",
    "sequences/sase.lark",
    "match_recognize/row_pattern.lark",
    "match_recognize/sql_expression.lark",
    "siddhi/siddhi.lark",
)
GRAMMARS = tuple(_LANGUAGE / path for path in _FILES)
FOLDER = _LANGUAGE / "tables"
_OPTIONS: dict[str, Any] = {"parser": "lalr", "lexer": "basic"}


def make_parser(grammar: Path, builder: object) -> Lark:
    """Return the parser of a grammar file. It builds trees with ``builder`` while it parses."""
    import lark

    text = grammar.read_text(encoding="utf-8")
    tables = tables_path(grammar.stem, text, lark.__version__)
    if tables.exists():
        parser = lark.Lark.__new__(lark.Lark)
        with tables.open("rb") as file:
            return parser._load(file, transformer=builder)  # `Lark.load` takes no transformer
    # The builder works during parsing, so no second, recursive pass over the tree is needed.
    made = partial(lark.Lark, text, **_OPTIONS, transformer=builder)
    try:
        folder = cache_folder()
    except CepError:  # without a cache folder the parser is built again each time (30 ms)
        return made()
    versions = f"{lark.__version__} {sys.version}"
    key = hashlib.sha256(f"{versions}\n{text}".encode()).hexdigest()[:24]
    path = folder / f"cepkit_grammar_{key}.tables"
    if path.exists():
        return made(cache=str(path))
    # Several processes may write at once: each writes a whole file and then moves it into place.
    part = path.with_suffix(f".{os.getpid()}.part")
    parser = made(cache=str(part))
    if part.exists():  # a full disk must not stop us
        os.replace(part, path)
    return parser


def tables_path(name: str, text: str, version: str, folder: Path | None = None) -> Path:
    """Return where the tables of a grammar lie if they come with the package, for one version of lark."""
    key = hashlib.sha256(text.encode()).hexdigest()[:16]
    return (folder or FOLDER) / f"{name}_{key}_lark_{version}.tables"


def write_tables(folder: Path, grammar: Path) -> Path:
    """Write the tables of a grammar file for the present version of lark, and return the path of the file."""
    import lark

    text = grammar.read_text(encoding="utf-8")
    path = tables_path(grammar.stem, text, lark.__version__, folder)
    with path.open("wb") as file:
        lark.Lark(text, **_OPTIONS).save(file)
    return path
