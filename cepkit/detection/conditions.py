"""The functions of EQL, and the values and truths of its expressions, once for each combination of values."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from cepkit.compile.shared.terms import pattern_of_pieces
from cepkit.detection.columns import EventColumns, Values, step_into
from cepkit.errors import CepError, PredicateError, did_you_mean, underline
from cepkit.events import FLOAT, INTEGER, nulls
from cepkit.language.eql import ANY, EqlEvent, EqlField, EqlLookup, EqlRelation, fault
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.functions import ONE, TWO, Arity
from cepkit.language.expressions.vocabulary import ip_in, remainder
from cepkit.limits import TICKS

# The functions of EQL on single values. None is null, and a function of null is null.


def text_of_value(value: Any) -> str:
    """Return a value as text, as EQL spells it. A whole number in a float column is that number."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    return str(value)


@lru_cache(maxsize=1024)
def wildcard_pattern(text: str, ignores_case: bool) -> re.Pattern[str]:
    """Return the regular expression of a text with ``*`` for any letters and ``?`` for a single one."""
    pieces = [".".join(map(re.escape, piece.split("?"))) for piece in text.split("*")]
    return regex_pattern(pattern_of_pieces(pieces), ignores_case)


@lru_cache(maxsize=1024)
def regex_pattern(text: str, ignores_case: bool) -> re.Pattern[str]:
    """Return a regular expression, which must match a whole text."""
    return re.compile(text, re.DOTALL | (re.IGNORECASE if ignores_case else 0))


def in_networks(address: Any, *blocks: str) -> bool | None:
    """Return whether an IP address is in a block such as ``10.0.0.0/8``; None for a text that is none."""
    try:
        return any(ip_in(str(address), block) for block in blocks)
    except ValueError:
        return None


def divided(left: Any, right: Any) -> Any:
    """Return the quotient; that of integers is cut to an integer."""
    if isinstance(left, int) and isinstance(right, int):
        return abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
    return left / right


# A division by zero and a float that is too large raise an ArithmeticError; the value is null.
ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": divided, "%": remainder,
}  # fmt: skip


def _folded(value: Any) -> Any:
    """Return texts in lower case, also in a list."""
    if isinstance(value, list):
        return [_folded(item) for item in value]
    return value.lower() if isinstance(value, str) else value


def _between(ignores_case: bool, source: str, left: str, right: str, is_greedy: bool = False) -> str:
    inside = ".*" if is_greedy else ".*?"
    pattern = regex_pattern(f"{re.escape(left)}({inside}){re.escape(right)}", ignores_case)
    match = pattern.search(source)
    return match[1] if match else ""


def _index_of(source: str, part: str, start: int = 0) -> int | None:
    place = -1 if start > len(source) else source.find(part, max(0, start))
    return None if place < 0 else place


def _number(value: Any, base: int | None = None) -> Any:
    if not isinstance(value, str):
        return value
    text = value.strip()
    try:
        if base not in (None, 10) or text.lower().startswith(("0x", "-0x", "+0x")):
            return int(text, base or 16)
        return int(text) if re.fullmatch(r"[+-]?\d+", text) else float(text)
    except ValueError:
        return None


def _length(ignores_case: bool, value: Any) -> int:
    if not isinstance(value, str | list) and not ignores_case:
        raise TypeError(f"expected a text, and the value is {value!r}")
    return len(value) if isinstance(value, str | list) else 0


class EqlFunction(NamedTuple):
    """How a function is spelled, how many arguments it takes, and what it computes."""

    name: str
    arity: Arity
    call: Callable[..., Any]
    takes_text: bool = True  # whether its first two arguments must be texts
    # How it ignores case: by texts in lower case, or by a first argument that says so. None: it does not.
    case: str | None = None
    n_not_null: int | None = None  # how many arguments may not be null; None: all

    def __call__(self, values: list[Any], ignores_case: bool) -> Any:
        if self.takes_text:
            values[:2] = map(text_of_value, values[:2])
        if self.case == "argument":
            values = [ignores_case, *values]
        elif self.case == "folded" and ignores_case:
            values = list(map(_folded, values))
        return self.call(*values)


def _matcher(make: Callable[[str, bool], re.Pattern[str]]) -> Callable[..., bool]:
    return lambda ignores_case, text, *patterns: any(
        make(pattern, ignores_case).fullmatch(text) is not None for pattern in patterns
    )


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


_MANY = Arity(2, None)
_NAMES_OF_SIGNS = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/", "modulo": "%"}
_FUNCTIONS = (
    *(EqlFunction(name, TWO, ARITHMETIC[sign], False) for name, sign in _NAMES_OF_SIGNS.items()),
    EqlFunction(
        "arrayContains", _MANY, lambda items, *wanted: any(value in _listed(items) for value in wanted),
        False, "folded",
    ),
    EqlFunction("between", Arity(3, 4), _between, case="argument"),
    EqlFunction("cidrMatch", _MANY, in_networks),
    EqlFunction("concat", Arity(1, None), lambda *values: "".join(map(text_of_value, values)), False),
    EqlFunction("endsWith", TWO, str.endswith, case="folded"),
    EqlFunction("indexOf", Arity(2, 3), _index_of, case="folded"),
    EqlFunction("length", ONE, _length, False, "argument"),
    EqlFunction("match", _MANY, _matcher(regex_pattern), case="argument"),
    EqlFunction("matchLite", _MANY, _matcher(regex_pattern), case="argument"),
    EqlFunction("number", Arity(1, 2), _number, False, n_not_null=1),
    EqlFunction("startsWith", TWO, str.startswith, case="folded"),
    EqlFunction("string", ONE, text_of_value, False),
    EqlFunction("stringContains", TWO, lambda text, part: part != "" and part in text, case="folded"),
    EqlFunction("substring", Arity(2, 3), lambda text, start, end=None: text[start:end], False),
    EqlFunction("wildcard", _MANY, _matcher(wildcard_pattern), case="argument"),
)  # fmt: skip
FUNCTIONS = {function.name.lower(): function for function in _FUNCTIONS}
# Functions whose arguments are not all computed first.
SPECIAL = {"arraysearch": "arraySearch", "arraycount": "arrayCount", "safe": "safe"}


# The values and truths of EQL's expressions, computed once for each distinct combination of values.

ELASTIC, ENDGAME = "elastic", "endgame"
_COMPARE = {**ex.COMPARE, "=": operator.eq}
# The fields of a process and of its parent, by dialect.
_PROCESSES = {
    ELASTIC: (("process", "entity_id"), ("process", "parent", "entity_id")),
    ENDGAME: (("unique_pid",), ("unique_ppid",)),
}
_Slot = tuple[int, str | None]  # which event of a result, and a column; None for a field without one
_COUNTED = -1  # the event of a column of results
_Row = dict[Any, Any]  # values by slot, and by name those of the variables of arraySearch


class EqlConditions:
    """The expressions of a query on the events of a frame."""

    # ``positions`` has the events of results, int64, (n_results, n_items); -1 for an item without an event.

    def __init__(self, columns: EventColumns, text: str, dialect: str, category: str):
        self.columns, self.text, self._dialect, self._category = columns, text, dialect, category
        self._ignores_case = dialect == ENDGAME
        self._all = np.arange(columns.n_events)[:, None]
        self.counts: Mapping[str, np.ndarray] = {}  # columns of results, which a pipe made
        self._slot_of_field: dict[EqlField, tuple[_Slot, Sequence[str | int]]] = {}

    def mask(self, event: EqlEvent) -> np.ndarray:
        """Return which events, by position, an item of a query takes."""
        mask = self.truth(event.condition, self._all)[0]
        if event.category != ANY:
            place = self.columns.column_of(self._category.split("."))
            if place is None:
                raise CepError(
                    f"event_category: no column {self._category!r} says the category of the events, as "
                    f"{event.category!r}; name it, as in event_category='kind'"
                )
            wanted = self._cased(event.category)
            held = self.columns.mask(place[0], lambda value: wanted in _listed(self._cased(value)))
            mask = mask & held
        return mask

    def _cased(self, value: Any) -> Any:
        return _folded(value) if self._ignores_case else value

    # --- truth of many results

    def truth(self, node: ex.Expression, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return for which results a condition is true, and for which it is false; it may be null."""
        match node:
            case ex.And(operands=parts) | ex.Or(operands=parts):
                trues, falses = zip(*(self.truth(part, positions) for part in parts), strict=True)
                if isinstance(node, ex.And):
                    return np.logical_and.reduce(trues), np.logical_or.reduce(falses)
                return np.logical_or.reduce(trues), np.logical_and.reduce(falses)
            case ex.Not(operand=part):
                true, false = self.truth(part, positions)
                return false, true
            case EqlRelation():
                true = self._related(node)[positions[:, 0]]
                return true, ~true
        if (compared := self._compared_numbers(node, positions)) is not None:
            return compared
        codes, values = self.values(node, positions)
        true = np.array([_truth(value) is True for value in values], bool)
        false = np.array([_truth(value) is False for value in values], bool)
        return true[codes], false[codes]

    def _compared_numbers(
        self, node: ex.Expression, positions: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """Return the truth of a comparison of a column of numbers and a number; None for anything else."""
        if not isinstance(node, ex.Comparison) or not isinstance(node.left, EqlField):
            return None
        number = node.right.value if isinstance(node.right, ex.Literal) else None
        slot, rest = self._slot(node.left)
        if (
            type(number) not in (int, float)
            or (isinstance(number, int) and abs(number) > TICKS)  # numpy compares no such integer
            or slot[1] is None
            or slot[0] < 0
            or rest
            or positions.shape[1] > 1
        ):
            return None
        column = self.columns.source.schema[slot[1]]
        if column.kind not in (INTEGER, FLOAT) or (self._dialect == ELASTIC and node.operator == "="):
            return None
        stream = self.columns.column(slot[1])
        is_there = ~nulls(stream)
        held = _COMPARE[node.operator](stream.values, number)
        at = positions[:, 0]
        return (held & is_there)[at], (~held & is_there)[at]

    def values(self, node: ex.Expression, positions: np.ndarray) -> Values:
        """Return the value of an expression for each result: codes, and the value of each code."""
        slots = list(dict.fromkeys(self._slots(node, ())))
        parts = []
        for event, column in slots:
            if event < 0:
                counts, values = pd.factorize(self.counts[str(column)])
                parts.append((counts, values.tolist()))
                continue
            codes, values = self.columns.values(column)
            at = positions[:, event] if event < positions.shape[1] else np.full(len(positions), -1)
            parts.append((np.where(at < 0, len(values), codes[at]), [*values, None]))
        codes, combinations = self.columns.combined(parts, len(positions))
        if len(combinations) > len(positions):  # few results of many values
            used, codes = np.unique(codes, return_inverse=True)
            combinations = [combinations[code] for code in used.tolist()]
        rows = (dict(zip(slots, combination, strict=True)) for combination in combinations)
        return codes, [self.value(node, row) for row in rows]

    def _slots(self, node: ex.Expression, variables: tuple[str, ...]) -> list[_Slot]:
        """Return the columns that an expression reads, each with the number of its event."""
        if isinstance(node, EqlField):
            return [] if node.parts[0] in variables else [self._slot(node)[0]]
        if isinstance(node, ex.Call) and node.function.lower() in ("arraysearch", "arraycount"):
            items, variable, condition = self._search(node)
            return [*self._slots(items, variables), *self._slots(condition, (*variables, variable))]
        return [slot for child in node.children() for slot in self._slots(child, variables)]

    def _slot(self, field: EqlField) -> tuple[_Slot, Sequence[str | int]]:
        """Return the event and the column of a field, and the way into its values."""
        if field not in self._slot_of_field:
            self._slot_of_field[field] = self._find(field)
        return self._slot_of_field[field]

    def _find(self, field: EqlField) -> tuple[_Slot, Sequence[str | int]]:
        """Return the event and the column that a field means, with the path inside the column."""
        parts, event = field.parts, 0
        if parts[0] in self.counts and len(parts) == 1:
            return (_COUNTED, str(parts[0])), ()
        if parts[0] == "events" and len(parts) > 2 and isinstance(parts[1], int):
            event, parts = parts[1], parts[2:]
        place = self.columns.column_of(parts)
        if place is not None:
            return (event, place[0]), place[1]
        if not field.is_optional and self._dialect == ELASTIC:
            name = ".".join(map(str, parts))
            error = self.columns.not_found("EQL", name, self.text, field.span)
            raise type(error)(str(error).replace("or None for", f"or write ?{name} for", 1))
        return (event, None), ()

    # --- the value of a single row

    def value(self, node: ex.Expression, row: _Row) -> Any:
        """Return the value of an expression for a row of values; None is null."""
        match node:
            case ex.Literal(value=value):
                return value
            case EqlField():
                return self._field(node, row)
            case ex.And(operands=parts) | ex.Or(operands=parts):
                decides = isinstance(node, ex.Or)  # one true part decides an Or, and one false part an And
                truths = [_truth(self.value(part, row)) for part in parts]
                if decides in truths:
                    return decides
                return None if None in truths else not decides
            case ex.Not(operand=part):
                truth = _truth(self.value(part, row))
                return None if truth is None else not truth
            case ex.Comparison():
                return self._compared(node, row)
            case EqlLookup():
                return self._looked_up(node, row)
            case ex.Negative(operand=part):
                value = self.value(part, row)
                return None if value is None else self._number(node, value) * -1
            case ex.Arithmetic(operator=sign, left=left, right=right):
                values = [self.value(part, row) for part in (left, right)]
                try:
                    if None not in values:
                        return ARITHMETIC[sign](*(self._number(node, value) for value in values))
                except ArithmeticError:
                    pass
                return None
            case ex.Call():
                return self._called(node, row)
        raise self._wrong(node, "join a relation of processes with and, or, not; nothing else reads it")

    def _field(self, field: EqlField, row: _Row) -> Any:
        """Return the value of a field in a row."""
        if field.parts[0] in row:
            value, rest = row[field.parts[0]], field.parts[1:]
        else:
            slot, rest = self._slot(field)
            value = row[slot]
        return step_into(value, rest)

    def _compared(self, node: ex.Comparison, row: _Row) -> bool | None:
        """Return whether a comparison holds in a row; None if a side is null."""
        sign = node.operator
        if sign == "=" and self._dialect == ELASTIC:
            cure = "write '==', or ':' to ignore case; Endgame's EQL has '=': dialect='endgame'"
            raise fault(cure, self.text, node.span)
        left, right = self.value(node.left, row), self.value(node.right, row)
        null = ex.Literal(None)
        if sign in ("==", "=", "!="):
            sides = [null if self._is_absent(side) else side for side in (node.left, node.right)]
            if sides == [null, null] or null in (node.left, node.right):
                return ((left if node.right == null else right) is None) == (sign != "!=")
        if left is None or right is None:
            return None
        if sign in ("==", "=", "!="):
            is_equal = self._equal(left, right, node, node.right) or self._equal(right, left, node, node.left)
            return is_equal == (sign != "!=")
        left, right = self._comparable(left, right)
        try:
            return bool(_COMPARE[sign](self._cased(left), self._cased(right)))
        except TypeError:
            raise self._mismatch(node, left, right) from None

    def _is_absent(self, node: ex.Expression) -> bool:
        """Return whether a node is an optional field without a column, which means null itself."""
        return isinstance(node, EqlField) and node.is_optional and self._slot(node)[0][1] is None

    def _equal(self, value: Any, option: Any, node: ex.Expression, written: ex.Expression) -> bool:
        """Return whether a value is an option, or one of the values of a list is."""
        if isinstance(value, list):
            return any(self._equal(item, option, node, written) for item in value if item is not None)
        value, option = self._comparable(value, option)
        if isinstance(value, str) and isinstance(option, str):
            if self._ignores_case and "*" in option and isinstance(written, ex.Literal):
                return wildcard_pattern(option, True).fullmatch(value) is not None
            return self._cased(value) == self._cased(option)
        if isinstance(value, str) != isinstance(option, str) and not isinstance(option, list):
            if self._dialect == ELASTIC and not isinstance(value, Mapping):
                raise self._mismatch(node, value, option)
            return False
        return bool(value == option)

    def _comparable(self, left: Any, right: Any) -> tuple[Any, Any]:
        """Return two values, a text beside a time as a time."""
        pair = [left, right]
        for i, value in enumerate(pair):
            kind = type(pair[1 - i])
            if isinstance(value, str) and kind in (pd.Timestamp, pd.Timedelta):
                try:
                    pair[i] = kind(value)
                except ValueError:
                    continue
                if kind is pd.Timestamp and pair[i].tzinfo is not None:
                    pair[i] = pair[i].tz_convert("UTC").tz_localize(None)
        return pair[0], pair[1]

    def _looked_up(self, node: EqlLookup, row: _Row) -> bool | None:
        """Return whether a value is like one of several options; None if that is unknown."""
        value = self.value(node.operand, row)
        if value is None:
            return None
        word, ignores_case = node.word.rstrip("~"), self._ignores_case or node.word[-1] in "~:"
        is_null = False
        for written in node.options:
            option = self.value(written, row)
            if option is None:
                is_null = True
            elif (word == "in" and not ignores_case) or not isinstance(option, str):
                if self._equal(value, option, node, written):
                    return True
            else:
                for item in _listed(value):
                    if item is not None and self._fits(word, text_of_value(item), option, ignores_case, node):
                        return True
        return None if is_null else False

    def _fits(self, word: str, text: str, option: str, ignores_case: bool, node: ex.Expression) -> bool:
        """Return whether a text fits an option: a regular expression, wildcards, or the text itself."""
        if word == "regex":
            try:
                return regex_pattern(option, ignores_case).fullmatch(text) is not None
            except re.error as error:
                raise self._wrong(node, f"{option!r} is no regular expression: {error}") from None
        if word == "in" and not (self._dialect == ENDGAME and "*" in option):
            return text.lower() == option.lower()
        return wildcard_pattern(option, ignores_case).fullmatch(text) is not None

    def _called(self, node: ex.Call, row: _Row) -> Any:
        """Return the value of a function in a row."""
        name = node.function.rstrip("~").lower()
        if name == "safe" and len(node.arguments) == 1:
            try:
                return self.value(node.arguments[0], row)
            except PredicateError:
                return None
        if name in SPECIAL:
            items, variable, condition = self._search(node)
            held = self.value(items, row)
            if held is None:
                return None
            truths = [_truth(self.value(condition, row | {variable: item})) is True for item in _listed(held)]
            return any(truths) if name == "arraysearch" else sum(truths)
        function = FUNCTIONS.get(name)
        if function is None:
            known = [*(entry.name for entry in FUNCTIONS.values()), *SPECIAL.values()]
            hint = did_you_mean(node.function.rstrip("~"), known)
            raise self._wrong(node, f"EQL has no function {node.function!r}{hint}")
        if not function.arity.accepts(len(node.arguments)):
            raise self._wrong(node, f"{function.name} takes {function.arity}, {len(node.arguments)} given")
        values = [self.value(argument, row) for argument in node.arguments]
        if None in values[: function.n_not_null]:
            return None
        try:
            return function(values, self._ignores_case or node.function.endswith("~"))
        except ArithmeticError:
            return None
        except (TypeError, ValueError, AttributeError, re.error) as error:
            raise self._wrong(node, f"{function.name}: {error}") from None

    def _search(self, node: ex.Call) -> tuple[ex.Expression, str, ex.Expression]:
        """Return the list, the variable and the condition of ``arraySearch(list, x, condition)``."""
        if len(node.arguments) != 3 or not isinstance(variable := node.arguments[1], EqlField):
            raise self._wrong(node, f"write {node.function}(list, x, condition of x)")
        return node.arguments[0], str(variable.parts[0]), node.arguments[2]

    def _number(self, node: ex.Expression, value: Any) -> Any:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return value
        raise self._wrong(node, f"expected a number, and the value is {value!r}")

    def _mismatch(self, node: ex.Expression, left: Any, right: Any) -> PredicateError:
        """Return the error for values that cannot be compared."""
        kinds = [f"{'the text ' if isinstance(value, str) else ''}{value!r}" for value in (left, right)]
        cure = (
            "; ':' compares numbers as text" if any(isinstance(value, str) for value in (left, right)) else ""
        )
        return self._wrong(node, f"{kinds[0]} cannot be compared with {kinds[1]}{cure}")

    def _wrong(self, node: ex.Expression, message: str) -> PredicateError:
        start, end = node.span or (0, len(self.text))
        return PredicateError(f"{message}\n{underline(self.text, start, end - start)}")

    # --- relations of processes

    def _related(self, node: EqlRelation) -> np.ndarray:
        """Return for which events a process, its parent, or a process above it had such an event before."""
        wanted = self.mask(node.event).tolist()
        pids, parents = (self._processes(parts, node) for parts in _PROCESSES[self._dialect])
        parent_of: dict[Any, Any] = {}
        seen: set[Any] = set()
        related = np.zeros(len(wanted), bool)
        for i, (pid, parent) in enumerate(zip(pids, parents, strict=True)):
            if parent is not None:
                parent_of[pid] = parent
            if wanted[i] and node.relation == "event":
                seen.add(pid)
            above = pid
            for _ in range({"event": 0, "child": 1}.get(node.relation, len(parent_of))):
                above = parent_of.get(above)
                if above is None or above in seen:
                    break
            related[i] = above is not None and above in seen
            if wanted[i]:
                seen.add(pid)
        return related

    def _processes(self, parts: tuple[str, ...], node: EqlRelation) -> list[Any]:
        if self.columns.column_of(parts) is None:
            raise self.columns.not_found("EQL", ".".join(parts), self.text, node.span)
        codes, values = self.values(EqlField(parts), self._all)
        return [values[code] for code in codes.tolist()]


def _truth(value: Any) -> bool | None:
    return value if value is None or isinstance(value, bool) else bool(value)
