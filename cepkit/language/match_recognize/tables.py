"""Names of tables in the SELECT around MATCH_RECOGNIZE, and the clauses of larger queries."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from cepkit.errors import nearest
from cepkit.language.match_recognize.clauses import TextPart
from cepkit.language.match_recognize.mistakes import TOO_LARGE
from cepkit.language.match_recognize.sql.building import column_name, variable_name

NAME = r"[^\W\d]\w*|\"(?:[^\"]|\"\")*\"|`(?:[^`]|``)*`"
_TABLE = re.compile(rf"(?:(?:{NAME}) \. )*(?P<table>{NAME})(?: (?:AS )?(?P<alias>{NAME}))?", re.IGNORECASE)
# What may follow the clause in SQL and does not run here, by its first word.
_LARGER = {
    "GROUP": "GROUP BY", "HAVING": "HAVING", "JOIN": "JOIN", "INNER": "JOIN", "LEFT": "JOIN", "RIGHT": "JOIN",
    "FULL": "JOIN", "CROSS": "JOIN", "NATURAL": "JOIN", "UNION": "UNION", "INTERSECT": "INTERSECT",
    "EXCEPT": "EXCEPT", "MINUS": "MINUS", "QUALIFY": "QUALIFY", "PIVOT": "PIVOT",
    "LATERAL": "LATERAL",
}  # fmt: skip


def read_table(part: TextPart) -> tuple[str, set[str]]:
    """Return the name of the table after FROM without its schema, and the names that may qualify columns."""
    found = _TABLE.fullmatch(part.without_comments())
    if found is None:
        raise part.error(f"FROM: expected the name of one table{TOO_LARGE}")
    names = [name for name in (found["table"], found["alias"]) if name]
    return column_name(found["table"]), set(map(variable_name, names))


def refuse_larger(part: TextPart, words: Sequence[re.Match[str]]) -> None:
    """Raise for the first of these words that begins a clause of a larger query."""
    for word in words:
        clause = _LARGER.get(word[0].upper())
        if clause is not None:
            place = TextPart(part.whole, word.start(), word.end())
            raise place.error(f"{clause} does not run here{TOO_LARGE}")


def check_qualifier(entry: TextPart, clause: str, name: str, qualifiers: Collection[str]) -> None:
    """Raise if no table or alias has this name."""
    if variable_name(name) not in qualifiers:
        hint = nearest(variable_name(name), qualifiers)
        raise entry.error(f"{clause}: no table {name!r} here{hint and '.' + hint}")
