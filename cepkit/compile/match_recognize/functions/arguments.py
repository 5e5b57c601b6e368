"""Check the types of arguments of functions in MATCH_RECOGNIZE before a query runs."""

from __future__ import annotations

from collections.abc import Sequence

from cepkit.errors import PredicateError, short_text
from cepkit.events import BOOLEAN, DURATION, FLOAT, INTEGER, LIST, MAP, NUMBERS, OTHER, TEXT, TIME, ColumnType
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.sql_functions import ANY, SIGNATURES, Signature
from cepkit.language.match_recognize.printing import print_sql

_WORDS = {
    "number": "a number", INTEGER: "a whole number", FLOAT: "a number", TEXT: "a text", TIME: "a time",
    DURATION: "a duration", BOOLEAN: "a truth value", LIST: "a list", MAP: "a map",
    OTHER: "a value of a type that functions cannot use",
}  # fmt: skip
_PLACES = ("first", "second", "third")


def check_arguments(tree: ex.Call, types: Sequence[ColumnType]) -> None:
    """Raise for a wrong number of arguments, and for an argument of a type that the function does not take.

    A function of integers takes a float, because integer columns with missing values are often floats. A
    function of times takes a constant text.

    """
    signature = SIGNATURES.get(tree.function)
    if signature is None:
        return
    if not signature.accepts(len(types)):
        raise PredicateError(f"{tree.function.upper()}() takes {signature}; {len(types)} given")
    for place, (argument, of) in enumerate(zip(tree.arguments, types, strict=True)):
        if not _fits(argument, of, signature, place):
            words = [_WORDS[word] for word in signature.types_of(place)]
            of_several = f" as its {_PLACES[place]} argument" if len(types) > 1 else ""
            raise PredicateError(
                f"{tree.function.upper()}() takes {' or '.join(words)}{of_several}, but "
                f"{short_text(print_sql(argument))} is {_WORDS[of.kind]}"
            )


def _fits(argument: ex.Expression, of: ColumnType, signature: Signature, place: int) -> bool:
    wanted = signature.types_of(place)
    if ANY in wanted or of.kind in wanted:
        return True
    if of.kind == OTHER:  # a null, or a value whose type is not known
        return not isinstance(argument, ex.Attribute | ex.Reference)
    if of.kind in NUMBERS:
        return "number" in wanted or "integer" in wanted
    return of.kind == TEXT and TIME in wanted and isinstance(argument, ex.Literal | ex.Parameter)


def whole(item: float) -> int:
    """Return a whole number as an integer; raise if it has digits after the point."""
    if item != int(item):
        raise ValueError(f"{item!r} is not whole")
    return int(item)
