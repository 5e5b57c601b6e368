"""The text of a query in the editor: convert it to a query or to mistakes with their places, and back.

A text with MATCH_RECOGNIZE, or with its clauses PATTERN and DEFINE, is SQL. A sequence is SASE text. A regex
begins with its pattern; a line per predicate and an optional line with the window follow. A line that does
not begin with a name continues the previous line:

    calm drop{3,} back
    calm: size < 1000
    drop: price < prev(price)
    back: price > prev(price)
    within: 2 min

``within: 2 min, exclusive`` excludes the bound. Keys, order, measures and parameters are keywords of the
call.
"""

from __future__ import annotations

import re
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from cepkit.errors import CepError, CepWarning, PatternSyntaxError, underline
from cepkit.language.builder import QueryBuilder
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.functions import is_registered
from cepkit.language.expressions.parsing import parse_expression
from cepkit.language.expressions.printing import print_expression
from cepkit.language.match_recognize.parsing import parse_match_recognize
from cepkit.language.match_recognize.query import RowPatternQuery, RowsQuery, SelectedRows, refuse_windows
from cepkit.language.query_parts import is_match_recognize as is_rows
from cepkit.language.regex import RegexQuery, parse_pattern
from cepkit.language.row_patterns import Pattern, print_pattern
from cepkit.language.sequences.parsing import is_sase as begins_with_pattern
from cepkit.language.sequences.parsing import parse_sase
from cepkit.language.sequences.patterns import SequencePattern, SequenceQuery
from cepkit.language.sequences.printing import duration_text, sase_text
from cepkit.planning.queries import Arguments, as_query
from cepkit.values import dataclass, field

_ENTRY = re.compile(r"^[^\S\n]*(?P<name>[^\W\d]\w*):[^\S\n]*", re.MULTILINE)
EXCLUSIVE = re.compile(r"\s*,\s*(?ai:exclusive)\s*$")
_CARETS = re.compile(r"\n  (?P<line>.*)\n  (?P<pad> *)(?P<carets>\^+)$")
_ROLE = re.compile(r"(?:predicate|define:?) '(?P<name>\w+)'|(?P<within>within)\b")
_QUOTED = re.compile(r"'(?P<name>[^']+)'")


def is_sase(text: str) -> bool:
    """Return whether a text is an event sequence in the language of SASE."""
    return begins_with_pattern(text) and not is_rows(text)


@dataclass(frozen=True, slots=True)
class TextMistake:
    """A mistake in a text and its place: ``text[start:end]``, which is empty only if the text is empty."""

    start: int
    end: int
    message: str  # with the line and carets below

    def line(self, text: str) -> int:
        return text.count("\n", 0, self.start) + 1


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a text: the pattern (name None), a predicate, or the window (``within``)."""

    name: str | None
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class TextReading:
    """The result of reading a text."""

    text: str
    query: RegexQuery | SequenceQuery | RowsQuery | None  # none for a text with mistakes
    mistakes: tuple[TextMistake, ...] = ()
    pieces: tuple[Piece, ...] = field(default=(), repr=False)  # only for a regex
    notes: tuple[str, ...] = ()  # warnings


_HEARING = threading.RLock()  # catch_warnings affects the whole process: one thread at a time


@contextmanager
def collect_warnings() -> Iterator[list[str]]:
    """Collect the package's warnings in a short context; other warnings pass through."""
    heard: list[str] = []
    with _HEARING, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield heard
    for warning in caught:
        if issubclass(warning.category, CepWarning):
            heard.append(str(warning.message))
        else:
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)


def pieces_of(text: str) -> tuple[Piece, ...]:
    r"""Return the pattern and the named lines of the text of a regex, without trailing blanks."""
    entries = list(_ENTRY.finditer(text))
    stops = [entry.start() for entry in entries] + [len(text)]
    begun = [(None, 0), *((entry["name"], entry.end()) for entry in entries)]
    return tuple(
        Piece(name, start, max(start, len(text[:stop].rstrip())))
        for (name, start), stop in zip(begun, stops, strict=True)
    )


def read_text(text: str, call: Mapping[str, Any]) -> TextReading:
    r"""Return the query of a text with the keywords of a call, or all mistakes in the text."""
    if is_rows(text) or is_sase(text):
        try:
            with collect_warnings() as notes:
                query = _rows_query(text, call) if is_rows(text) else as_query(text, Arguments(**call))
            return TextReading(text, query, notes=tuple(notes))
        except CepError as error:
            return TextReading(text, None, (mistake_of(error, text),))
    pieces = pieces_of(text)
    mistakes, settings = _read_pieces(text, pieces)
    if not mistakes:
        keywords = {**call, **settings}
        keywords["define"] = {**(call.get("define") or {}), **settings["define"]}
        try:
            with collect_warnings() as notes:
                query = as_query(text[pieces[0].start : pieces[0].stop], Arguments(**keywords))
            return TextReading(text, query, (), pieces, tuple(notes))
        except CepError as error:
            mistakes = [mistake_of(error, text, pieces)]
    return TextReading(text, None, tuple(mistakes), pieces)


def _rows_query(text: str, call: Mapping[str, Any]) -> RowsQuery:
    """Return the query of a text of MATCH_RECOGNIZE, with columns as the text spells them."""
    whole = refuse_windows(parse_match_recognize(text), "the explorer")
    rows = whole.rows if isinstance(whole, SelectedRows) else whole
    return RowsQuery(whole, tuple((call.get("params") or {}).items()), rows.partition_by, rows.order_by)


@dataclass(frozen=True, slots=True)
class TextSettings:
    """The settings that a text contains, which no selector may repeat."""

    strategy: str | None = None
    partition_by: tuple[str, ...] = ()


def settings_in(text: str) -> TextSettings:
    """Return the settings in the text of a sequence; none for other texts and for mistakes."""
    if not is_sase(text):
        return TextSettings()
    try:
        parts = parse_sase(text)
    except CepError:
        return TextSettings()
    return TextSettings(parts.strategy, tuple(parts.partition_by))


_FOR_SEQUENCES = frozenset(
    ["event_type", "strategy", "scope", "strict_time", "evaluation_order", "complete_until"]
)


def applicable(text: str, call: Mapping[str, Any]) -> dict[str, Any]:
    r"""Return the keywords that apply to the kind of query in a text, and the parameters that it names."""
    # An edit may turn a regex into a sequence, or name the keys in the text; it cannot change the keywords.
    if is_rows(text):
        call = {name: value for name, value in call.items() if name == "params"}
    dropped = {"define", "keep"} if is_sase(text) else _FOR_SEQUENCES
    settings = settings_in(text)
    dropped = dropped | {name for name in ("strategy", "partition_by") if getattr(settings, name)}
    kept = {name: value for name, value in call.items() if name not in dropped}
    all_text = f"{text} {' '.join(map(str, (call.get('measures') or {}).values()))}"
    if kept.get("params"):
        named = {n: v for n, v in kept["params"].items() if re.search(rf":{re.escape(n)}(?!\w)", all_text)}
        kept["params"] = named or None
    return {name: value for name, value in kept.items() if value is not None}


def _read_pieces(text: str, pieces: tuple[Piece, ...]) -> tuple[list[TextMistake], dict[str, Any]]:
    """Return the mistakes of the pieces of a text, and the keywords that they give."""
    mistakes: list[TextMistake] = []
    define: dict[str, str] = {}
    settings: dict[str, Any] = {"define": define}
    for piece in pieces:
        words = text[piece.start : piece.stop]
        try:
            if piece.name is None:
                if words.strip() and not re.match(r"\s*(?ai:SEQ|AND|OR)\s*\(", words):
                    parse_pattern(words)
            elif piece.name in define or (piece.name == "within" and "within" in settings):
                at = text.rfind(piece.name, 0, piece.start)
                message = f"{piece.name!r} is defined twice"
                mistakes.append(_mistake(text, at, at + len(piece.name), message))
            elif piece.name == "within":
                settings |= _window(words)
            else:
                define[piece.name] = words
                parse_expression(words, role=f"predicate {piece.name!r}")
        except CepError as error:
            mistakes.append(mistake_of(error, text, (piece,)))
    return mistakes, settings


def _window(text: str) -> dict[str, Any]:
    """Return the keywords for the text after WITHIN: a number of ticks or a duration."""
    amount = EXCLUSIVE.sub("", text).strip()
    keywords = {"within": int(amount) if amount.isdecimal() else amount.strip("'\"")}
    return keywords if amount == text.strip() else {**keywords, "within_closed": False}


# --- places


def mistake_of(error: CepError, text: str, pieces: tuple[Piece, ...] = ()) -> TextMistake:
    """Return an error of reading or binding a query as a mistake with its place in ``text``."""
    message = str(error)
    pieces = pieces or (Piece(None, 0, len(text)),)
    if isinstance(error, PatternSyntaxError):
        for piece in sorted(pieces, key=lambda piece: _says(message, piece), reverse=True):
            at = text.find(error.text, piece.start, piece.stop)
            if error.text and at >= 0:
                start = at + error.position
                return _mistake(text, start, start + error.length, error.message)
        return _mistake(text, 0, len(text.split("\n")[0]), error.message)
    carets = _CARETS.search(message)
    head = message[: carets.start()] if carets else message
    piece = next((piece for piece in pieces if _says(message, piece)), None)
    low, high = (piece.start, piece.stop) if piece else (0, len(text))
    place = _place_over(carets, text, low, high) if carets else None
    place = place or _place_of_quoted_name(head, text, low, high)
    if place is None:
        place = (low, high) if piece else (0, len(text.split("\n")[0]))
    return _mistake(text, *place, head)


def _place_over(carets: re.Match[str], text: str, low: int, high: int) -> tuple[int, int] | None:
    """Return the place in a text of the part over the carets of a message, or None."""
    column, length = len(carets["pad"]), len(carets["carets"])
    at = text.find(carets["line"], low, high)
    if at >= 0:
        return at + column, at + column + length
    part = carets["line"][column : column + length].strip()
    at = text.find(part, low, high)
    return (at, at + len(part)) if at >= 0 else None


def _place_of_quoted_name(message: str, text: str, low: int, high: int) -> tuple[int, int] | None:
    """Return the place in a text of the first name that a message quotes and the text has, or None."""
    for name in _QUOTED.findall(message):
        hit = re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text[low:high])
        if hit:
            return low + hit.start(), low + hit.end()
    return None


def _says(message: str, piece: Piece) -> bool:
    """Return whether the message of an error names a piece."""
    role = _ROLE.match(message)
    if role is None:
        return piece.name is None
    return piece.name == ("within" if role["within"] else role["name"])


def _mistake(text: str, start: int, end: int, message: str) -> TextMistake:
    """Return a mistake with a place within the text that is not blank, so that it can be underlined."""
    start = min(max(start, 0), len(text))
    if start == len(text) or text[start] == "\n":  # at the end of a line, underline its last character
        start = max(0, len(text[:start].rstrip()) - 1)
        end = start + 1
    end = min(max(end, start + 1), len(text))
    return TextMistake(start, end, f"{message}\n{underline(text, start, end - start)}")


# --- queries to text


def text_and_call(query: Any, call: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the text of a query and the remaining keywords; `read_text` makes an equal query from both."""
    call = {name: value for name, value in call.items() if value is not None}
    if isinstance(query, RowsQuery):
        return str(query), {**call, **({"params": dict(query.params)} if query.params else {})}
    if isinstance(query, RowPatternQuery | SelectedRows):
        return str(query), call
    if isinstance(query, str):
        return (query, call) if is_rows(query) or is_sase(query) else _regex_text(query, call)
    if isinstance(query, SequenceQuery | SequencePattern | QueryBuilder):
        value = as_query(query, Arguments(**call))
        return sase_text(value), _sequence_call(value)
    if isinstance(query, Pattern):
        return _regex_text(print_pattern(query), call)
    value = as_query(query, Arguments(**call))
    functions = dict(value.functions)
    define = {
        name: functions[tree.function].call
        if isinstance(tree, ex.Call) and tree.function in functions and not is_registered(tree.function)
        else tree
        for name, tree in value.define
    }
    rest = {
        "partition_by": list(value.partition_by), "order_by": list(value.order_by),
        "params": dict(value.params), "measures": value.measures and dict(value.measures),
        **value.skip_keywords(),
    }  # fmt: skip
    window = {"within": value.within, "within_closed": value.within_closed}
    keywords = {name: choice for name, choice in rest.items() if choice}
    return _regex_text(print_pattern(value.pattern), {"define": define, **keywords, **window})


def _regex_text(pattern: str, call: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return a regex with its definitions as a text, and the keywords that no text holds."""
    call = dict(call)
    define = dict(call.pop("define", None) or {})
    lines, kept = [pattern.strip()], {}
    for name, value in define.items():
        text = value if isinstance(value, str) else None
        if isinstance(value, ex.Expression):
            text = _text_of(value)
        if text is None or name == "within" or not name.isidentifier() or _ENTRY.search(text):
            kept[name] = value  # a function, or a predicate that a line cannot express
        else:
            lines.append(f"{name}: " + text.strip().replace("\n", "\n    "))
    within = call.pop("within", None)
    closed = call.pop("within_closed", True)
    if within is not None:
        lines.append(f"within: {duration_text(within)}" + ("" if closed else ", exclusive"))
    return "\n".join(lines), {**({"define": kept} if kept else {}), **call}


def _text_of(tree: ex.Expression) -> str | None:
    try:
        return print_expression(tree)
    except ValueError:  # a number that cannot be written as text
        return None


def _sequence_call(query: SequenceQuery) -> dict[str, Any]:
    """Return the keywords of a sequence that its text does not hold."""
    kind, variable = query.after_match
    keywords = {
        "event_type": query.event_type, "order_by": list(query.order_by) or None,
        "scope": None if query.scope == "run" else query.scope, "strict_time": query.strict_time or None,
        "after_match": None if kind == "none" else f"{kind}({variable})" if variable else kind,
        "evaluation_order": list(query.evaluation_order) or None, "complete_until": query.complete_until,
        "measures": query.measures and dict(query.measures), "params": dict(query.params) or None,
    }  # fmt: skip
    if not query.within_closed and query.within is None and query.gap_within is None:
        keywords["within_closed"] = False  # the text has no window that could carry it
    return {name: value for name, value in keywords.items() if value is not None}
