"""Parts that regex and sequence queries share: durations, columns, parameters, and their checks."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

from cepkit.errors import CepError, PredicateError, nearest, underline
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.printing import join_words

Duration = str | timedelta | int
END = "end"  # the value of ``complete_until`` that says that no event follows


class Query(ABC):
    """Base of the queries of both kinds, with the fields that both have."""

    __slots__ = ()

    partition_by: tuple[str, ...]
    measures: tuple[tuple[str, ex.Expression], ...] | None
    params: tuple[tuple[str, Any], ...]
    sources: tuple[tuple[str, str], ...]

    @abstractmethod
    def trees(self) -> Iterator[tuple[str, ex.Expression]]:
        """Yield (role, tree) of every expression."""

    def parameters(self) -> tuple[str, ...]:
        """Return the names of the parameters that the expressions use, in reading order."""
        used = (
            node.name
            for _, tree in self.trees()
            for node in tree.walk(literals=False)
            if isinstance(node, ex.Parameter)
        )
        return tuple(dict.fromkeys(used))

    def underlined(self, role: str, node: Any) -> str:
        """Return the text of ``role`` with carets under ``node``, a part of its tree."""
        text = dict(self.sources).get(role)
        if text is None or node.span is None:
            return underline(str(node), 0, len(str(node)))
        return underline(text, node.span[0], node.span[1] - node.span[0])


def as_columns(argument: str, given: str | Iterable[str] | None) -> tuple[str, ...]:
    """Return the column names passed as ``argument``; raise if one occurs twice."""
    if given is not None and not isinstance(given, Iterable):
        raise CepError(f"{argument}: expected names of columns as text, got {given!r}")
    columns = () if given is None else (given,) if isinstance(given, str) else _all_of(argument, given)
    for column in columns:
        if not isinstance(column, str):
            raise CepError(f"{argument}: expected names of columns as text, got {column!r}")
        if columns.count(column) > 1:
            raise CepError(f"{argument}: column {column!r} is named twice")
    return columns


def _all_of(argument: str, given: Iterable[Any]) -> tuple[Any, ...]:
    try:
        return tuple(given)
    except TypeError:  # such as an array without an axis
        raise CepError(f"{argument}: expected names of columns as text, got {given!r}") from None


_MAPPINGS = {
    "define": "{'up': 'price > prev(price)'}",
    "measures": "{'rows': 'count()'}",
    "params": "{'least': 10}",
}


def as_mapping(argument: str, given: Any) -> Mapping:
    """Return a keyword that must be a mapping; None becomes an empty one."""
    if given is not None and not isinstance(given, Mapping):
        form = f"{argument}={_MAPPINGS[argument]}" if argument in _MAPPINGS else ""
        raise CepError(
            f"{argument}: expected a mapping of names to values{form and ', as in '}{form}, got "
            f"{type(given).__name__}"
        )
    return {} if given is None else given


_AFTER_MATCH = re.compile(
    r"(?ai:(?:after{_}match{_})?(?:skip{_})?"
    r"(?P<kind>none|no{_}skip|past{_}last(?:{_}row|{_}event)?|to{_}next(?:{_}row|{_}event)?|to{_}first|to{_}last"
    r"|once(?:{_}newest)?))"
    r"(?:\s*[(\[]\s*(?P<bracketed>\w+)\s*[)\]]|\s+(?P<plain>\w+))?".replace("{_}", r"[\s_-]+")
)
AfterMatch = tuple[str, str | None]  # where the search continues, and the name whose row that is


def read_after_match(forms: Sequence[str], given: Any) -> AfterMatch:
    """Return ``after_match`` as a kind and a name; ``forms`` are those of the language, as ``to_last(b)``."""
    if isinstance(given, tuple) and len(given) == 2:
        return given
    said = join_words(map(repr, forms))
    match = _AFTER_MATCH.fullmatch(given.strip()) if isinstance(given, str) else None
    words = [] if match is None else re.split(r"[\s_-]+", match["kind"].lower())
    kind = "_".join(words[:2]).replace("no_skip", "none")
    kinds = ["_".join(form.partition("(")[0].split("_")[:2]) for form in forms]
    if match is None or kind not in kinds:
        hint = nearest(given, kinds) if isinstance(given, str) else ""
        raise CepError(f"after_match: {given!r} is not known; there are {said}.{hint}")
    name = match["bracketed"] or match["plain"]
    takes = {form.endswith(")") for form, other in zip(forms, kinds, strict=True) if other == kind}
    if bool(name) not in takes:
        needs = f"needs a name, as in '{kind}(b)'" if True in takes else f"takes no name, got {given!r}"
        raise CepError(f"after_match: {kind!r} {needs}; there are {said}")
    return kind, name


def listed(title: str, sign: str, entries: Iterable[tuple[str, object]]) -> list[str]:
    """Return the lines of a titled list, or no line if the list is empty."""
    lines = [f"  {name}{sign}{entry}" for name, entry in entries]
    return [f"{title}:", *lines] if lines else []


def refuse_clash_with_partition(query: Query) -> None:
    """Raise if a measure has the name of a partition column."""
    column_of = {column.lower(): column for column in query.partition_by}
    for name, _ in query.measures or ():
        if name.lower() in column_of:
            column = column_of[name.lower()]
            raise CepError(
                f"measures: the result already has column {column!r} (partition_by); rename {name!r}"
            )


def refuse_parameters(query: Query) -> None:
    """Raise for a parameter without a value, an unused value, or several values for one parameter."""
    values, used = dict(query.params), query.parameters()
    for role, tree in query.trees():
        for node in tree.walk(literals=False):
            if isinstance(node, ex.Parameter) and node.name not in values:
                given_names = f"it gives {list(values)}" if values else f"give params={{{node.name!r}: …}}"
                message = f"{role}: params gives no value for :{node.name}; {given_names}."
                hint = nearest(node.name, values)
                raise PredicateError(f"{message}{hint}\n{query.underlined(role, node)}")
    for name, value in values.items():
        if name not in used:
            hint = nearest(str(name), used)
            there = f"used are {list(used)}" if used else f"write :{name} in one"
            raise CepError(f"params: {name!r} is used by no predicate and no measure; {there}.{hint}")
        if isinstance(value, list | tuple | set | frozenset | dict):
            cure = f"for several values write x in (:{name}1, :{name}2)"
            raise CepError(
                f"params: {name!r} is a {type(value).__name__}, a parameter is a single value; {cure}"
            )
