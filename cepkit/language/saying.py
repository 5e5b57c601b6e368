"""Say a query of either language in one plain sentence."""

from __future__ import annotations

from cepkit.language.regex.query import RegexQuery
from cepkit.language.regex.saying import say_regex
from cepkit.language.sequences.query import SequenceQuery
from cepkit.language.sequences.saying import say_sequence


def say_query(query: RegexQuery | SequenceQuery) -> str:
    """Return a query in one plain sentence, without a full stop. The sentence names every variable.

    Examples
    --------
    >>> import cepkit as cep
    >>> say_query(cep.regex_query("up{2}", define={"up": "price > prev(price)"}))
    '2 up rows in a row; up means that price rises'
    """
    return say_regex(query) if isinstance(query, RegexQuery) else say_sequence(query)
