"""Parsers of grammar files. Their tables come with the package, or are kept in the cache."""

from __future__ import annotations

import hashlib
import io
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cepkit.cache import UnsafeFolderError, keep, kept_path, read_kept

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
        return _parser_of(tables.read_bytes(), builder)
    key = hashlib.sha256(f"{lark.__version__} {sys.version}\n{text}".encode()).hexdigest()[:24]
    path = _kept_path(f"cepkit_grammar_{key}.tables")
    if path is None:  # without a cache folder the parser is built again each time (30 ms)
        return lark.Lark(text, **_OPTIONS, transformer=builder)
    content = read_kept(path)
    if content is None:
        content = _tables(text)
        keep(path, content)
    return _parser_of(content, builder)


def _kept_path(name: str) -> Path | None:
    try:
        return kept_path(name)
    except UnsafeFolderError:
        return None


def _parser_of(tables: bytes, builder: object) -> Lark:
    """Return a parser from its tables. The builder works during parsing, so no pass over the tree follows."""
    import lark

    parser = lark.Lark.__new__(lark.Lark)
    return parser._load(io.BytesIO(tables), transformer=builder)  # `Lark.load` takes no transformer


def _tables(text: str) -> bytes:
    import lark

    file = io.BytesIO()
    lark.Lark(text, **_OPTIONS).save(file)
    return file.getvalue()


def tables_path(name: str, text: str, version: str, folder: Path | None = None) -> Path:
    """Return where the tables of a grammar lie if they come with the package, for one version of lark."""
    key = hashlib.sha256(text.encode()).hexdigest()[:16]
    return (folder or FOLDER) / f"{name}_{key}_lark_{version}.tables"


def write_tables(folder: Path, grammar: Path) -> Path:
    """Write the tables of a grammar file for this version of lark unless they exist; return their path."""
    import lark

    text = grammar.read_text(encoding="utf-8")
    path = tables_path(grammar.stem, text, lark.__version__, folder)
    if not path.exists():
        path.write_bytes(_tables(text))
    return path
