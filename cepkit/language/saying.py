"""Say a query of any language in one plain sentence."""

from __future__ import annotations

from cepkit.language.match_recognize.asked import RowsQuery
from cepkit.language.match_recognize.query import RowPatternQuery, SelectedRows
from cepkit.language.match_recognize.saying import say_rows
from cepkit.language.regex.query import RegexQuery
from cepkit.language.regex.saying import say_regex
from cepkit.language.sequences.query import SequenceQuery
from cepkit.language.sequences.saying import say_sequence


def say_query(query: RegexQuery | SequenceQuery | RowPatternQuery | SelectedRows | RowsQuery) -> str:
    """Return a query in one plain sentence, without a full stop. The sentence names every variable."""
    if isinstance(query, RowPatternQuery | SelectedRows | RowsQuery):
        return say_rows(query if isinstance(query, RowPatternQuery) else query.rows)
    return say_regex(query) if isinstance(query, RegexQuery) else say_sequence(query)
