"""`sigma`: run rules of Sigma on frames, with their correlations."""

from __future__ import annotations

import base64
import operator
import os
import re
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np

from cepkit.compile.shared.terms import pattern_of_pieces
from cepkit.detection.columns import EventColumns, Values, step_into
from cepkit.detection.conditions import in_networks, regex_pattern, text_of_value
from cepkit.detection.eql import columns_of
from cepkit.errors import (
    CepError,
    MissingDependencyError,
    PatternSyntaxError,
    PredicateError,
    WrongTypeError,
    nearest,
)
from cepkit.events import TEXT, Frame
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.parsing import parse_expression
from cepkit.limits import NODES, refuse_beyond
from cepkit.planning.queries import names_keywords
from cepkit.progress import checkpoint
from cepkit.values import dataclass

# What the detection of a Sigma rule says of single values, selections and their condition.

Test = Callable[[Any], bool]
_ORDERS = {"gt": operator.gt, "gte": operator.ge, "lt": operator.lt, "lte": operator.le}
_FLAGS = {"i": re.IGNORECASE, "m": re.MULTILINE, "s": re.DOTALL}
_CODES = {"wide": "utf-16-le", "utf16le": "utf-16-le", "utf16be": "utf-16-be", "utf16": "utf-16"}
_TIMES = ("minute", "hour", "day", "week", "month", "year")
_BASE64 = ("base64", "base64offset")
_OTHERS = (
    "all", "cased", "cidr", "contains", "endswith", "exists", "fieldref", "neq", "re", "startswith",
    "windash",
)  # fmt: skip
MODIFIERS = sorted((*_ORDERS, *_FLAGS, *_CODES, *_TIMES, *_BASE64, *_OTHERS))
_DASHES = "[-/\u2013\u2014\u2015]"


_JOINTS = ("and", "or", "not")
_OPERAND = re.compile(r"(?:1|any|all)\s+of\s+[^\s()]+|[^\s()]+", re.IGNORECASE)


class Fault(Exception):
    """What is wrong with a part of a rule; the caller says which rule it is."""


# --- values


def _pattern(text: str, modifiers: Collection[str]) -> str:
    """Return the regular expression of a text of Sigma: ``*`` and ``?``, and a backslash before them."""
    dashes = {match.start() for match in re.finditer(r"\B[-/]\b", text)} if "windash" in modifiers else set()
    pieces = ["", ""] if {"contains", "endswith"} & {*modifiers} else [""]
    i = 0
    while i < len(text):
        if text[i] == "*":
            pieces.append("")
        elif text[i] == "\\" and text[i + 1 : i + 2] in ("*", "?", "\\"):
            i += 1
            pieces[-1] += re.escape(text[i])
        else:
            pieces[-1] += _DASHES if i in dashes else "." if text[i] == "?" else re.escape(text[i])
        i += 1
    return pattern_of_pieces([*pieces, *([""] if {"contains", "startswith"} & {*modifiers} else [])])


def _encoded(text: str, modifiers: Collection[str]) -> list[str]:
    """Return a text as base64, at each offset that it may have inside another one."""
    content = text.encode(next((_CODES[name] for name in modifiers if name in _CODES), "utf-8"))
    if "base64offset" not in modifiers:
        return [base64.b64encode(content).decode()]
    codes = []
    for shift in range(3):
        code = base64.b64encode(b" " * shift + content).decode()
        # The first and the last letters mix with what is around the text; they are left out.
        start = (0, 2, 3)[shift]
        end = (None, -3, -2)[(shift + len(content)) % 3]
        codes.append(code[start:end])
    return codes


def predicate_of(wanted: Any, modifiers: Collection[str]) -> Test:
    """Return the test of a cell for one value of a rule."""
    order = next((_ORDERS[name] for name in modifiers if name in _ORDERS), None)
    if isinstance(wanted, list | dict):
        raise Fault(f"expected a text or a number, got {wanted!r}")
    if {*_CODES} & {*modifiers} and not {*_BASE64} & {*modifiers}:
        raise Fault("an encoding needs base64 or base64offset after it")
    if "exists" in modifiers:
        return lambda cell: (cell is not None) == bool(wanted)
    if order is not None:
        if isinstance(wanted, bool) or not isinstance(wanted, int | float):
            raise Fault(f"{wanted!r} after {'|'.join(modifiers)} is no number")
        return lambda cell: (number := _number(cell)) is not None and order(number, wanted)
    if wanted is None:
        return lambda cell: cell is None
    text = text_of_value(wanted)
    try:
        if "cidr" in modifiers:
            in_networks("::1", text)
            return lambda cell: cell is not None and in_networks(cell, text) is True
        if "re" in modifiers:
            search = re.compile(text, sum(_FLAGS[name] for name in modifiers if name in _FLAGS)).search
            return lambda cell: cell is not None and search(text_of_value(cell)) is not None
    except re.error as error:
        raise Fault(f"{text!r} is no regular expression: {error}") from None
    except PredicateError:
        raise Fault(f"{text!r} is no block of addresses") from None
    texts, is_cased = [text], "cased" in modifiers
    if {*_BASE64} & {*modifiers}:
        texts, is_cased = _encoded(text, modifiers), True
    matches = [regex_pattern(_pattern(part, modifiers), not is_cased).fullmatch for part in texts]
    return lambda cell: cell is not None and any(match(text_of_value(cell)) is not None for match in matches)


def _number(cell: Any) -> Any:
    if isinstance(cell, int | float):
        return cell
    try:
        return float(cell) if isinstance(cell, str) else None
    except ValueError:
        return None


# --- selections


def _read_key(key: str) -> tuple[str, list[str]]:
    """Return the field and the modifiers of a key such as ``name|contains``."""
    field, *modifiers = key.split("|")
    for name in modifiers:
        if name not in MODIFIERS:
            hint = nearest(name, MODIFIERS)
            raise Fault(f"modifier {name!r} of {key!r} does not run; {', '.join(MODIFIERS)} do.{hint}")
    return field, modifiers


def _passes(test: Test, cell: Any) -> bool:
    """Return whether a cell passes a test, or an item of it if it is a list."""
    return any(map(test, cell)) if isinstance(cell, list) else test(cell)


class Detection:
    """The selections of a rule as masks of events, and the condition that joins them."""

    def __init__(self, detection: Mapping[str, Any], columns: EventColumns):
        self._columns = columns
        if not isinstance(detection, Mapping) or not [*values_of(detection.get("condition"))]:
            raise Fault("detection needs selections and a condition")
        if "timeframe" in detection:
            raise Fault("timeframe belongs to aggregations of old rules; write a correlation with timespan")
        self._conditions = detection["condition"]
        self._selections = {str(name): part for name, part in detection.items() if name != "condition"}

    def mask(self) -> np.ndarray:
        """Return which events the rule takes; several conditions are alternatives."""
        return np.logical_or.reduce([self._condition(str(text)) for text in values_of(self._conditions)])

    def _condition(self, text: str) -> np.ndarray:
        """Return which events a condition takes."""
        if "|" in text:
            raise Fault("aggregations after '|' belong to old rules; write a correlation rule")

        def quoted(operand: re.Match[str]) -> str:
            word = operand[0].lower()
            return word if word in _JOINTS else f"`{' '.join(operand[0].split())}`"

        # Operands such as ``1 of them`` become names of columns, which the grammar of conditions knows.
        return self._held(parse_expression(_OPERAND.sub(quoted, text), role="condition"))

    def _held(self, tree: ex.Expression) -> np.ndarray:
        """Return which events fulfil a condition on selections, bool."""
        match tree:
            case ex.And(operands=parts):
                return np.logical_and.reduce([self._held(part) for part in parts])
            case ex.Or(operands=parts):
                return np.logical_or.reduce([self._held(part) for part in parts])
            case ex.Not(operand=part):
                return ~self._held(part)
            case ex.Attribute(name=operand):
                *quantifier, name = operand.split()
                join = np.logical_and if operand.lower().startswith("all ") else np.logical_or
                names = self._names(name, is_pattern=bool(quantifier))
                return join.reduce([self.selection(selection) for selection in names])
        raise Fault("condition: write names of selections with and, or, not, 1 of and all of")

    def _names(self, name: str, *, is_pattern: bool) -> list[str]:
        """Return the selections that a name, a pattern such as ``sel*`` or ``them`` means."""
        pattern = "[!_]*" if name.lower() == "them" else name
        names = [
            other
            for other in self._selections
            if (fnmatchcase(other, pattern) if is_pattern else other == name)
        ]
        if not names:
            raise Fault(f"condition: no selection {name!r}.{nearest(name, self._selections)}")
        return names

    def selection(self, name: str) -> np.ndarray:
        """Return which events a selection takes: a mapping joins with and, a list with or."""
        try:
            return self._part(self._selections[name])
        except Fault as fault:
            raise Fault(f"selection {name!r}: {fault}") from None

    def _part(self, part: Any) -> np.ndarray:
        """Return which events fulfil a selection: a mapping, a list of mappings, or keywords."""
        if isinstance(part, Mapping):
            return np.logical_and.reduce([self._item(str(key), value) for key, value in part.items()])
        if isinstance(part, list) and part and all(isinstance(item, Mapping) for item in part):
            return np.logical_or.reduce([self._part(item) for item in part])
        return self._keywords(part, [])

    def _item(self, key: str, value: Any) -> np.ndarray:
        """Return which events fulfil an item of a mapping."""
        name, modifiers = _read_key(key)
        if not name:
            return self._keywords(value, modifiers)
        if "fieldref" in modifiers:
            return self._compared(name, value, modifiers, key)
        wanted_values = value if isinstance(value, list) else [value]
        tests = [predicate_of(wanted, modifiers) for wanted in wanted_values]
        join = all if "all" in modifiers else any
        codes, cells = self._cells(name, modifiers, key)
        fits = np.array([join(_passes(test, cell) for test in tests) for cell in cells], bool)
        return (~fits if "neq" in modifiers else fits)[codes]

    def _cells(self, name: str, modifiers: Collection[str], key: str) -> Values:
        """Return the codes of a field by event, and the cell of each code; ``hour`` and others read times."""
        place = self._columns.column_of(name.split("."))
        if place is None:
            raise self._columns.not_found("Sigma", name, key, (0, len(name)))
        codes, values = self._columns.values(place[0])
        part = next((part for part in modifiers if part in _TIMES), None)
        cells = [step_into(value, place[1]) for value in values]
        return codes, cells if part is None else [getattr(cell, part, None) for cell in cells]

    def _compared(self, name: str, other: Any, modifiers: list[str], key: str) -> np.ndarray:
        """Return for which events a field equals another one, or contains its text."""
        rest = [modifier for modifier in modifiers if modifier not in ("fieldref", "neq")]
        parts = [self._cells(name, rest, key), self._cells(str(other), (), str(other))]
        codes, pairs = self._columns.combined(parts, self._columns.n_events)
        texts = [re.sub(r"([*?\\])", r"\\\1", text_of_value(cell)) for _, cell in pairs]
        held = [
            second is not None and _passes(predicate_of(text, rest), first)
            for (first, second), text in zip(pairs, texts, strict=True)
        ]
        return np.array(held, bool)[codes] != ("neq" in modifiers)

    def _keywords(self, value: Any, modifiers: list[str]) -> np.ndarray:
        """Return which events have keywords somewhere in their texts."""
        join = np.logical_and if "all" in modifiers else np.logical_or
        names = [name for name, column in self._columns.source.schema.items() if column.kind == TEXT]
        masks = []
        for word in value if isinstance(value, list) else [value]:
            test = predicate_of(word, [*modifiers, "contains"])
            held = [self._columns.mask(name, test) for name in names]
            masks.append(np.logical_or.reduce([np.zeros(self._columns.n_events, bool), *held]))
        return join.reduce(masks)


def values_of(value: Any) -> Iterator[Any]:
    """Yield the items of a list, or a single value."""
    yield from value if isinstance(value, list) else [] if value is None else [value]


EVENT_COUNT, VALUE_COUNT, TEMPORAL, ORDERED = "event_count", "value_count", "temporal", "temporal_ordered"
TYPES = (EVENT_COUNT, VALUE_COUNT, TEMPORAL, ORDERED)
_BOUNDS: dict[str, Callable[[int, Any], bool]] = {
    "gt": lambda n, bound: n > bound, "gte": lambda n, bound: n >= bound, "lt": lambda n, bound: n < bound,
    "lte": lambda n, bound: n <= bound, "eq": lambda n, bound: n == bound, "neq": lambda n, bound: n != bound,
}  # fmt: skip
Alert = list[tuple[int, str]]  # the events of an alert, by position, each with the rule that it fits


@names_keywords
def sigma(
    rules: str | os.PathLike[str] | Mapping[str, Any] | Sequence[Mapping[str, Any]], events: Frame, *,
    order_by: str | Sequence[str] | None = None, fields: Mapping[str, str | None] | None = None,
    rule: str | None = None,
) -> Frame:  # fmt: skip
    """Run a rule of Sigma on events, or a correlation with the rules that it names.

    Parameters
    ----------
    rules : str, path, mapping or list of mappings
        Rules as YAML, separated by ``---``; the path of a file with them; or what YAML reads.
    events : DataFrame or table
        pandas, Arrow or polars; a row is an event. All events count as those of the log source.
    order_by : str or list of str, optional
        Columns; the first is the clock, which correlations need. Default: ``@timestamp``, or a DatetimeIndex.
    fields : mapping of str to str or None, optional
        The columns of fields, as in `eql`.
    rule : str, optional
        The name, title or id of the rule that answers. Default: the one that no correlation names.

    Returns
    -------
    DataFrame or table
        The same kind as the frame. For a rule: the events that it finds, in order. For a correlation: one
        row per event of each alert, with two columns before those of the frame: ``alert``, its number from
        1, and ``rule``, the rule that the event fits.

    Raises
    ------
    PatternSyntaxError
        If the text is no YAML, or a condition is wrong.
    ColumnNotFoundError
        For a field without a column.
    UnsupportedQueryError
        For Spark frames.
    MissingDependencyError
        For YAML without PyYAML.
    CepError
        For modifiers, aggregations and correlations that do not run, and a correlation without a clock.

    Notes
    -----
    All modifiers of Sigma 2.1 run, but ``expand``. Texts ignore case. Keywords look into all text columns.

    An alert comes at the first event at which the condition of the correlation holds for the events of its
    group in the last ``timespan``, which includes its bound. These events count for no later alert. Events
    without a value in ``group-by`` count for none. A correlation that another one names counts as the last
    event of each of its alerts. Time O(events of the rules); that of ``temporal_ordered`` also grows with
    the events of a timespan.

    Examples
    --------
    >>> import cepkit as cep
    >>> import pandas as pd
    >>> log = pd.DataFrame({"ts": pd.to_datetime("2024-05-01") + pd.to_timedelta([0, 1, 2, 30], unit="min"),
    ...     "EventID": [4625, 4625, 4625, 4625], "User": ["ann", "bob", "ann", "ann"]})
    >>> text = '''
    ... name: failed
    ... detection:
    ...     selection:
    ...         EventID: 4625
    ...     condition: selection
    ... ---
    ... correlation:
    ...     type: event_count
    ...     rules: [failed]
    ...     group-by: [User]
    ...     timespan: 10m
    ...     condition: {gte: 2}
    ... '''
    >>> cep.sigma(text, log, order_by="ts")
       alert    rule                  ts  EventID User
    0      1  failed 2024-05-01 00:00:00     4625  ann
    2      1  failed 2024-05-01 00:02:00     4625  ann
    """
    columns, native = columns_of("Sigma", events, order_by, fields)
    found_rules = _Rules(_documents(rules), columns)
    answer = found_rules.answer(rule)
    if isinstance(answer, np.ndarray):
        return native(columns.frame(np.flatnonzero(answer), {}))
    numbers = [number for number, alert in enumerate(answer, 1) for _ in alert]
    events_of_alerts = [event for alert in answer for event in alert]
    names = np.array([name for _, name in events_of_alerts], object)
    positions = np.array([position for position, _ in events_of_alerts], np.int64)
    return native(columns.frame(positions, {"alert": np.array(numbers, np.int64), "rule": names}))


def _documents(rules: Any) -> list[Mapping[str, Any]]:
    """Return the rules as mappings."""
    if isinstance(rules, os.PathLike):
        rules = Path(rules).read_text(encoding="utf-8")
    if isinstance(rules, str):
        try:
            import yaml
        except ImportError:
            raise MissingDependencyError(
                "rules of Sigma are YAML: install cepkit[sigma], or give the rule as a dict"
            ) from None
        try:
            rules = [document for document in yaml.load_all(rules, _loader(yaml)) if document is not None]
        except (yaml.YAMLError, RecursionError) as error:
            mark = getattr(error, "problem_mark", None)
            message = f"Sigma: no YAML, {getattr(error, 'problem', None) or error}"
            raise PatternSyntaxError(message, rules, mark.index if mark else 0) from None
    documents = [rules] if isinstance(rules, Mapping) else rules
    is_list = isinstance(documents, list) and len(documents) > 0
    if not is_list or not all(isinstance(document, Mapping) for document in documents):
        raise WrongTypeError("Sigma: expected rules as YAML or mappings, with 'detection' or 'correlation'")
    return documents


def _loader(yaml: Any) -> type:
    """Return the safe loader of YAML. Its errors have a place, also those of values that Python refuses."""

    class Loader(yaml.SafeLoader):
        def construct_document(self, node: Any) -> Any:
            refuse_beyond(NODES, _count_nodes(node, {}), "Sigma: the values of a rule", "Write fewer of them")
            return super().construct_document(node)

        def construct_object(self, node: Any, deep: bool = False) -> Any:
            try:
                value = super().construct_object(node, deep)
                if isinstance(value, int):
                    str(value)  # Python prints no integer of thousands of digits
                return value
            except (ValueError, LookupError, AttributeError, TypeError, ArithmeticError):
                kind = node.tag.rpartition(":")[2]
                problem = f"{str(node.value)[:40]!r} cannot be read as a value of type {kind}"
                raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark) from None

    return Loader


def _count_nodes(node: Any, counts: dict[int, int]) -> int:
    """Return how many nodes a tree of YAML has with its aliases written out."""
    if id(node) not in counts:
        counts[id(node)] = NODES  # of a node inside itself, which has no end
        parts = () if isinstance(node.value, str) else node.value
        nodes = [each for part in parts for each in (part if isinstance(part, tuple) else (part,))]
        counts[id(node)] = 1 + sum(_count_nodes(each, counts) for each in nodes)
    return counts[id(node)]


@dataclass(frozen=True, slots=True)
class Correlation:
    """How many events, values or rules of a group within a time make an alert."""

    type: str
    rules: tuple[str, ...]
    group_by: tuple[str, ...]
    timespan: str | int
    bounds: tuple[tuple[str, int], ...]
    field: str | None
    aliases: Mapping[str, Mapping[str, str]]


def _read_correlation(part: Any) -> Correlation:
    """Return a correlation that a rule describes. Raise for what does not run."""
    if not isinstance(part, Mapping):
        raise Fault("correlation needs type, rules and timespan")
    kind, rules = part.get("type"), tuple(map(str, values_of(part.get("rules"))))
    if kind not in TYPES:
        raise Fault(f"type {kind!r} does not run; {', '.join(TYPES)} do.{nearest(kind, TYPES)}")
    if not rules or "timespan" not in part:
        raise Fault("correlation needs rules and a timespan, as in timespan: 5m")
    condition = part.get("condition")
    if condition is None and kind in (TEMPORAL, ORDERED):
        condition = {"gte": len(rules)}
    if not isinstance(condition, Mapping):
        raise Fault("condition of a correlation: a mapping, as in {gte: 10}, with field for value_count")
    bounds = tuple((str(key), bound) for key, bound in condition.items() if key != "field")
    for key, bound in bounds:
        if key not in _BOUNDS or isinstance(bound, bool) or not isinstance(bound, int):
            raise Fault(f"condition {key}: {bound}: write one of {', '.join(_BOUNDS)} with a whole number")
    field: Any = condition.get("field")
    if not bounds or (kind == VALUE_COUNT) != isinstance(field, str):
        raise Fault("condition: a bound such as gte: 10, and for value_count the name of a field")
    aliases = part.get("aliases") or {}
    if not isinstance(aliases, Mapping) or not {*map(type, aliases.values())} <= {dict}:
        raise Fault("aliases: a mapping of names to fields by rule, as in {user: {rule_a: User}}")
    group_by = tuple(map(str, values_of(part.get("group-by"))))
    return Correlation(kind, rules, group_by, part["timespan"], bounds, field, aliases)


class _Rules:
    """The rules of a text, and what each of them finds."""

    def __init__(self, documents: Sequence[Mapping[str, Any]], columns: EventColumns):
        self._columns = columns
        self._documents = documents
        self._of_name: dict[str, Mapping[str, Any]] = {}
        for document in documents:
            for key in ("title", "id", "name"):
                if document.get(key) is not None:
                    self._of_name[str(document[key])] = document
        self._answers: dict[int, np.ndarray | list[Alert]] = {}

    def answer(self, name: str | None) -> np.ndarray | list[Alert]:
        """Return the events of a rule as a mask, or the alerts of a correlation."""
        if name is not None:
            return self._answer(self._named(name, "rule="))
        named = {
            id(self._named(other, "correlation: "))
            for document in self._documents
            if "correlation" in document
            for other in _checked(document, lambda document: _read_correlation(document["correlation"])).rules
        }
        last = [document for document in self._documents if id(document) not in named]
        if len(last) != 1:
            names = [_name_of(document) for document in last or self._documents]
            raise CepError(f"Sigma: name the rule that answers, as in rule={names[0]!r}; there are {names}")
        return self._answer(last[0])

    def _named(self, name: str, what: str) -> Mapping[str, Any]:
        if name not in self._of_name:
            hint = nearest(name, self._of_name)
            raise CepError(f"Sigma: {what}{name!r} names no rule.{hint} Rules: {list(self._of_name)}")
        return self._of_name[name]

    def _answer(self, document: Mapping[str, Any]) -> np.ndarray | list[Alert]:
        if id(document) not in self._answers:
            self._answers[id(document)] = []  # a correlation that names itself finds nothing
            self._answers[id(document)] = _checked(document, self._computed)
        return self._answers[id(document)]

    def _computed(self, document: Mapping[str, Any]) -> np.ndarray | list[Alert]:
        """Return which events fulfil a rule, or the alerts of a correlation."""
        if "action" in document:
            raise Fault("action belongs to collections of old rules; write each rule whole")
        if "correlation" in document:
            return list(self._alerts(_read_correlation(document["correlation"])))
        return Detection(document.get("detection", {}), self._columns).mask()

    def _alerts(self, correlation: Correlation) -> Iterator[Alert]:
        """Yield the alerts of a correlation, in the order of their last events."""
        columns = self._columns
        span, ticks = columns.ticks_of("timespan", correlation.timespan), columns.ticks.tolist()
        windows: dict[int, _Window] = {}
        entries = sorted(self._entries(correlation), key=lambda entry: entry[:3])
        for i, (position, key, number, token) in enumerate(entries):
            if i % 4096 == 0:
                checkpoint()
            window = windows.setdefault(key, _Window())
            window.add(position, number, token)
            if i + 1 < len(entries) and entries[i + 1][:2] == (position, key):
                continue  # the event fits another rule, too
            window.drop_before(ticks[position] - span, ticks)
            n_held = len(window.counts)
            fits = all(_BOUNDS[sign](n_held, bound) for sign, bound in correlation.bounds)
            if fits and (correlation.type != ORDERED or window.is_ordered(len(correlation.rules))):
                held = reversed(window.entries)  # the first rule that an event fits names it
                yield sorted({position: correlation.rules[number] for position, number, _ in held}.items())
                del windows[key]

    def _entries(self, correlation: Correlation) -> Iterator[tuple[int, int, int, Any]]:
        """Yield the events of the rules: position, number of the group and of the rule, and what counts."""
        groups: dict[tuple, int] = {}
        for number, name in enumerate(correlation.rules):
            answer = self._answer(self._named(name, "correlation: "))
            if not isinstance(answer, np.ndarray):
                answer = np.isin(np.arange(self._columns.n_events), [alert[-1][0] for alert in answer])
            positions = np.flatnonzero(answer)
            fields = [correlation.aliases.get(key, {}).get(name, key) for key in correlation.group_by]
            keys = [self._cells(field, positions) for field in fields]
            tokens = positions.tolist() if correlation.type == EVENT_COUNT else [number] * len(positions)
            if correlation.field is not None:
                tokens = self._cells(correlation.field, positions)
            for i, position in enumerate(positions.tolist()):
                key = tuple(column[i] for column in keys)
                if None not in key and tokens[i] is not None:
                    yield position, groups.setdefault(key, len(groups)), number, tokens[i]

    def _cells(self, field: str, positions: np.ndarray) -> list[Any]:
        """Return the values of a field at some events."""
        place = self._columns.column_of(field.split("."))
        if place is None:
            raise self._columns.not_found("Sigma", field, field, None)
        codes, values = self._columns.values(place[0])
        cells = [step_into(values[code], place[1]) for code in codes[positions].tolist()]
        return [str(cell) if isinstance(cell, list | dict) else cell for cell in cells]


class _Window:
    """The events of a group in the last timespan, and how often each thing that counts occurs in them."""

    def __init__(self) -> None:
        self.entries: deque[tuple[int, int, Any]] = deque()
        self.counts: Counter[Any] = Counter()

    def add(self, position: int, number: int, token: Any) -> None:
        self.entries.append((position, number, token))
        self.counts[token] += 1

    def drop_before(self, tick: Any, ticks: Sequence[Any]) -> None:
        """Let the entries before a tick leave the window."""
        while ticks[self.entries[0][0]] < tick:
            token = self.entries.popleft()[2]
            self.counts[token] -= 1
            if not self.counts[token]:
                del self.counts[token]

    def is_ordered(self, n_rules: int) -> bool:
        """Return whether events of all rules are there, one after the other."""
        wanted, last = 0, -1
        for position, number, _ in self.entries:
            if number == wanted and position > last:
                wanted, last = wanted + 1, position
                if wanted == n_rules:
                    return True
        return False


def _name_of(document: Mapping[str, Any]) -> str:
    return str(document.get("name") or document.get("title") or document.get("id") or "without a name")


def _checked(document: Mapping[str, Any], read: Callable[[Mapping[str, Any]], Any]) -> Any:
    """Return what a function reads of a rule; its faults name the rule."""
    try:
        return read(document)
    except Fault as fault:
        raise CepError(f"Sigma: rule {_name_of(document)!r}: {fault}") from None
