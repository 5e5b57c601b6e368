"""Say a query of any language in one plain sentence."""

from __future__ import annotations

from cepkit.language.match_recognize.printing import say_rows
from cepkit.language.match_recognize.query import RowPatternQuery, RowsQuery, SelectedRows
from cepkit.language.regex.query import RegexQuery, say_regex
from cepkit.language.sequences.printing import say_sequence
from cepkit.language.sequences.query import SequenceQuery


def say_query(query: RegexQuery | SequenceQuery | RowPatternQuery | SelectedRows | RowsQuery) -> str:
    """Return a query in one plain sentence, without a full stop. The sentence names every variable."""
    if isinstance(query, RowPatternQuery | SelectedRows | RowsQuery):
        return say_rows(query if isinstance(query, RowPatternQuery) else query.rows)
    return say_regex(query) if isinstance(query, RegexQuery) else say_sequence(query)
