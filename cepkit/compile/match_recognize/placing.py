"""Compile expressions of MATCH_RECOGNIZE with errors that name the clause and underline the place."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from cepkit.compile.match_recognize.compiled import Compiled
from cepkit.compile.match_recognize.values import column_of, compile_condition, compile_value
from cepkit.errors import CepError, ColumnNotFoundError, PredicateError, underline
from cepkit.events import ColumnType
from cepkit.language.expressions import trees as ex
from cepkit.language.match_recognize.clauses import OF_MATCH_RECOGNIZE

_Span = tuple[int, int]


@dataclass(frozen=True)
class ColumnScope:
    """The columns, parameters and text that the expressions of a clause refer to."""

    source: str  # the text that the spans of trees belong to; empty for a tree that comes from no text
    schema: Mapping[str, ColumnType]  # the columns that the expressions may name
    params: Mapping[str, Any] | None = None  # values of parameters
    inside: bool = False  # as for `compile_value`
    # The variables of the pattern, where an expression may name one in place of a column.
    variables: Collection[str] = ()
    # Advice for names that are no columns here. The keys are in lower case.
    more: Mapping[str, str] = field(default_factory=dict)

    def compiled(self, tree: ex.Expression, role: str, *, is_condition: bool = False) -> Compiled:
        """Return an expression as a function; ``role`` names the clause in errors, as in ``"DEFINE B"``.

        The values of a condition must be true or false.
        """
        compiles = compile_condition if is_condition else compile_value
        try:
            return compiles(tree, self.schema, self.params, inside=self.inside)
        except (ColumnNotFoundError, PredicateError) as error:
            raise self._placed(error, tree, role) from None

    def column(self, name: str, role: str, *, is_last: bool = False) -> str:
        """Return the column that a name in a list means; ``is_last`` looks at the last such clause."""
        try:
            return column_of(name, self.schema)
        except ColumnNotFoundError as error:
            span = span_of_name(self.source, role, name, is_last=is_last)
            raise _with_caret(error, self._told(error, role, name, span), self.source, span) from None

    def _placed(self, error: CepError, tree: ex.Expression, role: str) -> CepError:
        """Return the error with its clause, at the smallest expression that raises it."""
        node, inner = tree, tree
        if isinstance(error, PredicateError) and error.span is not None:
            return _with_caret(error, self._told(error, role, None, error.span), self.source, error.span)
        while inner is not None:
            node = inner
            inner = next((child for child in node.children() if self._raises(child, error)), None)
        name = node.name if isinstance(node, ex.Attribute | ex.Reference) else None
        return _with_caret(error, self._told(error, role, name, node.span, node), self.source, node.span)

    def _raises(self, tree: ex.Expression, error: CepError) -> bool:
        try:
            compile_value(tree, self.schema, self.params, inside=self.inside)
        except CepError as own:
            return str(own) == str(error)
        return False

    def _told(
        self,
        error: CepError,
        role: str,
        name: str | None,
        span: _Span | None,
        node: ex.Expression | None = None,
    ) -> str:
        """Return the message with its clause, and with advice for a name that is no column."""
        said = str(error).removeprefix("MATCH_RECOGNIZE: ")
        if not isinstance(error, ColumnNotFoundError) or name is None:
            return f"{role}: {said}"
        if isinstance(node, ex.Attribute) and name.upper() in self.variables:
            column = next(iter(self.schema), "price")
            return (
                f"{role}: {name} is a variable of the pattern, and not a value. "
                f"Write a column of its row, such as {name}.{column}"
            )
        text = "" if span is None else self.source[span[0] : span[1]]
        if isinstance(node, ex.Attribute) and text.startswith('"'):
            quoted = name.replace("'", "''")
            said = said.replace(" Columns:", f" A text has single quotes: '{quoted}'. Columns:")
        if not self.schema:
            said = said.replace(
                "Columns: []", "The result has no columns; write MEASURES or ALL ROWS PER MATCH"
            )
        more = self.more.get(name.lower(), "")
        return f"{role}: {said}{more and '. ' + more}"


def _with_caret(error: CepError, message: str, source: str, span: _Span | None) -> CepError:
    """Return an error of the same class with a message, and with the place in the text if it is known."""
    if span is None or not source[span[0] : span[1]]:
        return type(error)(message)
    start, stop = span
    return type(error)(f"{message} (position {start})\n{underline(source, start, stop - start)}")


def span_of_name(source: str, clause: str, name: str, *, is_last: bool = False) -> _Span | None:
    """Return where a name is after the words of a clause; None if it is nowhere."""
    words = r"\s+".join(clause.split())
    begins = [found.end() for found in re.finditer(rf"\b{words}\b", source, re.IGNORECASE)]
    if not begins:
        return None
    begin = begins[-1 if is_last else 0]
    ends = "|".join(keyword.words for keyword in OF_MATCH_RECOGNIZE)
    end = re.compile(rf"\b(?:{ends})", re.IGNORECASE).search(source, begin)
    stop = end.start() if end else len(source)
    found = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)").search(source, begin, stop)
    return None if found is None else found.span()
