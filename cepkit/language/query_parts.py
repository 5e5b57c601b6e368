"""What queries share: durations, columns, parameters, their checks, and the language of a text."""

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
        """Yield every expression as (role, tree); the role names it in errors, as in "predicate 'up'"."""

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
    "define": "{'up': 'price > prev(price)'}", "measures": "{'rows': 'count()'}", "params": "{'least': 10}",
}  # fmt: skip


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


_CLAUSE = re.compile(
    r"\b(PARTITION\s+BY|ORDER\s+BY|MEASURES|(?:ONE\s+ROW|ALL\s+ROWS)\s+PER\s+MATCH|AFTER\s+MATCH|PATTERN(?=\s*\()"
    r"|WITHIN|SUBSET|DEFINE)",
    re.IGNORECASE,
)
_BRACKETS = {"(": 1, ")": -1}


def is_match_recognize(text: str) -> bool:
    """Return whether a text is SQL's MATCH_RECOGNIZE, or its clauses."""
    if re.search(r"\bMATCH_RECOGNIZE\b", text, re.IGNORECASE):
        return True
    if re.match(r"\s*SELECT\b", text, re.IGNORECASE) and re.search(r"\bWINDOW\b", text, re.IGNORECASE):
        return True
    clauses = _clauses(text)
    return "PATTERN" in clauses and "DEFINE" in clauses


_SEQUENCE = "write PATTERN SEQ(_ a, _ b) WHERE … WITHIN 5 min, with partition_by= for the key"
# What a text of another language looks like, what it is, and how the same is said here.
_OTHERS = (
    (
        r"(sequence|sample|join)\b[^\[]*\[\s*!?\w+\s+where\b|\w+\s+where\s",
        "EQL of Elastic",
        "call cep.eql(text, events=df, order_by=…, event_category=…)",
    ),
    (
        r"(\w+\s*)?\|\s*(where|scan|summarize|extend|project|sort|join|search|stats|eval|take|top)\b",
        "KQL or SPL",
        f"filter the frame with pandas, then {_SEQUENCE}",
    ),
    (
        r"(index\s*=|transaction\s+\w+\s)",
        "SPL of Splunk",
        "call df.cep.transaction(by=…, starts_with=…, ends_with=…, max_span=…)",
    ),
    (
        r"select\b.*\bfrom\s+pattern\s*\[|every\s+\w+\s*=",
        "EPL of Esper",
        "write PATTERN SEQ(A a, B b) WHERE …, with event_type= for the streams",
    ),
    (
        r"(from\b.*\binsert\s+into\b|define\s+stream\b|@app)",
        "SiddhiQL",
        "call cep.siddhi(text, Trades=trades, order_by=…)",
    ),
    (r"(select|create\s+stream)\b.*\bemit\s+changes\b", "ksqlDB's SQL", _SEQUENCE),
    (
        r"(select\b.*\bfrom|with\s+\w+\s+as\s*\()\b",
        "SQL",
        "call cep.sql(text, t=df) for a query with MATCH_RECOGNIZE; select rows with pandas or DuckDB first",
    ),
)


def other_language(text: str) -> str | None:
    """Return which language of others a text is written in and what to do, or None."""
    if not re.search(r"[=\"'\[\];<>@]|select\s+\*", text, re.IGNORECASE):  # words alone may be a regex
        return None
    for shape, language, advice in _OTHERS:
        if re.match(rf"\s*(?:{shape})", text, re.IGNORECASE | re.DOTALL):
            return f"this is {language}, not a query of cepkit; {advice}"
    return None


def call_of_match_recognize(text: str) -> str:
    """Return the call of ``df.cep.match`` for a text of MATCH_RECOGNIZE, without its measures."""
    clauses = _clauses(text)
    define = {}
    for entry in _split(clauses.get("DEFINE", "")):
        name, _, condition = re.sub(r"\s+", " ", entry).partition(" AS " if " AS " in entry else " as ")
        define[name.strip()] = re.sub(rf"\b{re.escape(name.strip())}\s*\.\s*", "", condition).strip()
    pattern = _inside(clauses.get("PATTERN", ""))
    defined_names = {name.lower() for name in define}
    pattern = re.sub(
        r"[^\W\d]\w*", lambda match: match[0] if match[0].lower() in defined_names else ".", pattern
    )
    pattern = re.sub(r"(?<=[+*?}])[?+]", "", re.sub(r"[\^$]", "", pattern))  # anchors, reluctant repetitions
    arguments = [f'"{" ".join(pattern.split())}"']
    if define:
        entries = ", ".join(f'"{name}": "{condition}"' for name, condition in define.items())
        arguments.append(f"define={{{entries}}}")
    for keyword, clause in (("partition_by", "PARTITION BY"), ("order_by", "ORDER BY")):
        if clause in clauses:
            names = [re.sub(r"(?i)\s+(asc|desc)$", "", name).strip() for name in _split(clauses[clause])]
            arguments.append(f"{keyword}={names}".replace("'", '"'))
    if match := re.match(
        r"\s*(?:INTERVAL\s*)?'?([\d.]+)'?\s*([a-z]+)", clauses.get("WITHIN", ""), re.IGNORECASE
    ):
        arguments.append(f'within="{match[1]} {match[2].lower()}"')
    return f"df.cep.match({', '.join(arguments)})"


def _clauses(text: str) -> dict[str, str]:
    """Return the text after each keyword of a clause, up to the next one. The first of a name counts."""
    text = re.sub(r"--[^\n]*", "", text)
    matches = list(_CLAUSE.finditer(text))
    clauses: dict[str, str] = {}
    for i, clause in enumerate(matches):
        end = matches[i + 1].start() if i + 1 < len(matches) else len(text)
        clauses.setdefault(re.sub(r"\s+", " ", clause[1].upper()), text[clause.end() : end])
    return clauses


def _inside(text: str) -> str:
    """Return the text inside the first pair of brackets."""
    begin, depth = text.find("("), 0
    for i, char in enumerate(text):
        depth += _BRACKETS.get(char, 0)
        if char == ")" and not depth:
            return text[begin + 1 : i]
    return text[begin + 1 :]


def _split(text: str) -> list[str]:
    """Return the parts of a list at its commas outside brackets; the list ends where a bracket closes it."""
    parts, depth, begin = [], 0, 0
    end = len(text)
    for i, char in enumerate(text):
        depth += _BRACKETS.get(char, 0)
        if depth < 0:
            end = i
            break
        if char == "," and not depth:
            parts.append(text[begin:i])
            begin = i + 1
    return [part.strip() for part in (*parts, text[begin:end]) if part.strip()]
