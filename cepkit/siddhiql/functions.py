"""The functions of SiddhiQL: their types, and what they compute by the rules of Siddhi and Java."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Sequence
from functools import lru_cache
from numbers import Integral, Real
from typing import Any

import numpy as np

from cepkit.errors import PredicateError
from cepkit.events import BOOLEAN, DURATION, FLOAT, INTEGER, TEXT, TIME, ColumnType
from cepkit.language.expressions.vocabulary import say_arguments
from cepkit.values import dataclass

# Regular expressions of Java as those of Python.

_ANY = r"[^\n\r\x85\u2028\u2029]"
_END = r"(?=(?:\r\n|(?<!\r)\n|[\r\x85\u2028\u2029])?\Z)"
_SAME = frozenset("dDwWsSbBAtnrfuxa")  # escapes with the same meaning in both


@lru_cache(maxsize=256)
def java_pattern(text: str) -> re.Pattern[str]:
    """Return a regular expression of Java as a compiled one of Python."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", FutureWarning)
            return re.compile(_translated(text), re.ASCII)
    except (re.error, FutureWarning, OverflowError, RecursionError) as error:
        raise PredicateError(f"{text!r} is no regular expression that runs here: {error}") from None


def _refusal(text: str, part: str) -> PredicateError:
    return PredicateError(
        f"{part!r} in the regular expression {text!r} does not run; write it in another way"
    )


def _translated(text: str) -> str:
    """Return a regular expression of Java as one of Python."""
    flags = re.match(r"\(\?([is]+)\)", text)
    start = flags.end() if flags else 0
    pieces, place, in_class = [text[:start]], start, False
    spans_lines = flags is not None and "s" in flags[1]
    while place < len(text):
        two, sign = text[place : place + 2], text[place]
        place += 1
        if sign == "\\":
            place += 1
            escaped = two[1:]
            is_word = escaped.isalnum() and escaped.isascii() and not escaped.isdecimal()
            if escaped == "z" and not in_class:
                pieces.append(r"\Z")
            elif (is_word and escaped not in _SAME) or escaped == "0" or text[place - 1 : place + 1] == "x{":
                raise _refusal(text, two)
            else:
                pieces.append(two)
        elif in_class:
            if sign == "[" or two == "&&":
                raise _refusal(text, two)
            in_class = sign != "]"
            pieces.append(sign)
        elif sign == "[":
            in_class = True
            skip = 1 if text[place : place + 1] == "^" else 0
            pieces.append(text[place - 1 : place + skip])
            place += skip
            if text[place : place + 1] == "]":  # Java begins a class with it or refuses it
                raise _refusal(text, "[]")
        elif sign == "(" and two == "(?":
            after = text[place + 1 : place + 2]
            if after == "<" and text[place + 2 : place + 3] not in ("=", "!"):
                pieces.append("(?P<")
                place += 2
            elif after in (":", "=", "!", "<", ">"):
                pieces.append(two)
                place += 1
            else:
                raise _refusal(text, text[place - 1 : place + 2])
        elif sign == "." and not spans_lines:
            pieces.append(_ANY)
        else:
            pieces.append(_END if sign == "$" else sign)
    return "".join(pieces)


_REFERENCE = re.compile(
    r"\\(?P<sign>.)|\$(?P<number>[0-9]+)|\$\{(?P<name>[a-zA-Z][a-zA-Z0-9]*)\}|(?P<bad>[\\$])", re.S
)


def java_replacement(found: re.Match[str], replacement: str) -> str:
    """Return the text for a match: ``$1`` and ``${name}`` are groups, and a backslash quotes a sign."""

    def one(part: re.Match[str]) -> str:
        if part["sign"] is not None:
            return part["sign"]
        group: str | int | None = part["name"]
        rest = ""
        if part["number"] is not None:
            number = part["number"]
            group = int(number[0])
            n_digits = 1
            while n_digits < len(number) and int(number[: n_digits + 1]) <= found.re.groups:
                n_digits += 1
                group = int(number[:n_digits])
            rest = number[n_digits:]
        try:
            if group is None:
                raise IndexError
            return (found[group] or "") + rest
        except IndexError:
            raise PredicateError(
                f"{part[0]!r} in the replacement {replacement!r} names no group of the regular expression; "
                r"write \$ for the sign"
            ) from None

    return _REFERENCE.sub(one, replacement)


# Siddhi's types, what a function takes and gives, and the functions without a namespace.

# Siddhi's types, with those of times as ColumnType so that results keep the unit.
INT, LONG, SINGLE, DOUBLE, BOOL, STRING, OBJECT = "int", "long", "float", "double", "bool", "string", "object"
NUMBERS = (INT, LONG, SINGLE, DOUBLE)
WHOLE = (INT, LONG)
_OF_KIND = {INTEGER: LONG, FLOAT: DOUBLE, TEXT: STRING, BOOLEAN: BOOL}
Type = str | ColumnType


def type_of_column(of: ColumnType) -> Type:
    """Return Siddhi's type of a column; times and durations keep their own."""
    if of.kind in (TIME, DURATION):
        return of
    return _OF_KIND.get(of.kind, OBJECT)


def common_type(types: Sequence[Type]) -> Type | None:
    """Return the one type of several values; None if they differ."""
    # int and long are one type here, and so are float and double: the values are the same.
    if OBJECT in types:
        return OBJECT
    first = types[0]
    for same in (WHOLE, NUMBERS[2:]):
        if all(kind in same for kind in types):
            return max(types, key=same.index)
    return first if all(kind == first for kind in types) else None


@dataclass(frozen=True, slots=True)
class Function:
    """What a function takes and gives."""

    # ``takes`` has the types of each argument; an empty tuple stands for any type. The last one holds for all
    # further arguments if the function ``repeats``. The last ``n_optional`` arguments may be left out.
    # ``result`` is None if the arguments from ``first_alike`` on have one type, and the result has it as
    # well. ``regex_at`` is the argument that may be a regular expression.

    takes: tuple[tuple[Type, ...], ...]
    result: Type | None
    call: Callable
    n_optional: int = 0
    repeats: bool = False
    first_alike: int = 0
    regex_at: int | None = None

    def accepts(self, n_arguments: int) -> bool:
        least = len(self.takes) - self.n_optional
        return least <= n_arguments and (self.repeats or n_arguments <= len(self.takes))

    def counts(self) -> str:
        """Return the number of arguments in words."""
        most = len(self.takes)
        return say_arguments(most - self.n_optional, None if self.repeats else most)

    def types_of(self, place: int) -> tuple[Type, ...]:
        """Return the types that an argument may have; an empty tuple stands for any type."""
        return self.takes[min(place, len(self.takes) - 1)]


def present(call: Callable) -> Callable:
    """Return a function that gives null if an argument is null."""
    return lambda *values: None if any(value is None for value in values) else call(*values)


def _first_present(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)


def _extreme(choose: Callable) -> Callable:
    """Return a function of values that are not null, such as the largest."""

    def of(*values: Any) -> Any:
        non_null = [value for value in values if value is not None]
        return choose(non_null) if non_null else None

    return of


CORE_FUNCTIONS = {
    "ifThenElse": Function(
        ((BOOL,), (), ()), None, lambda test, then, otherwise: then if test is True else otherwise,
        first_alike=1,
    ),
    "coalesce": Function(((),), None, _first_present, repeats=True),
    "default": Function(((), ()), None, lambda value, otherwise: otherwise if value is None else value),
    "maximum": Function((NUMBERS,), None, _extreme(max), repeats=True),
    "minimum": Function((NUMBERS,), None, _extreme(min), repeats=True),
}  # fmt: skip
TESTS = {
    "instanceOfString": (STRING,), "instanceOfBoolean": (BOOL,), "instanceOfInteger": WHOLE,
    "instanceOfLong": WHOLE, "instanceOfFloat": NUMBERS[2:], "instanceOfDouble": NUMBERS[2:],
}  # fmt: skip


# Siddhi's ``convert``: values of one type as values of another, by the rules of Java.

_WHOLE = re.compile(r"[+-]?[0-9]{1,4000}")
_DECIMAL = re.compile(
    r"[\x00-\x20]*([+-]?(?:NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?))[fFdD]?[\x00-\x20]*"
)


def _whole(n_bits: int) -> Callable[[Any], int | None]:
    """Return the conversion to an integer of ``n_bits`` bits, as in Java."""
    least, most = -(1 << n_bits - 1), (1 << n_bits - 1) - 1  # - binds more than <<

    def convert(value: Any) -> int | None:
        if isinstance(value, str):
            if not _WHOLE.fullmatch(value):
                return None
            number = int(value)
            return number if least <= number <= most else None
        if isinstance(value, Integral):
            return (int(value) - least) % (1 << n_bits) + least  # Java keeps the low bits
        if isinstance(value, Real):
            if math.isnan(value):
                return 0
            return most if value >= most else least if value <= least else int(value)
        return None

    return convert


def to_double(value: Any) -> float | None:
    """Return a value as a double; null if it has none."""
    if isinstance(value, str):
        decimal = _DECIMAL.fullmatch(value)
        return None if decimal is None else float(decimal[1])
    if not isinstance(value, Real):
        return None
    try:
        return float(value)
    except OverflowError:  # a whole number beyond all doubles
        return math.copysign(math.inf, value)


def to_bool(value: Any) -> bool | None:
    """Return whether a text says true, or a number is 1."""
    if isinstance(value, str):
        return value.lower() == "true"
    return bool(value == 1) if isinstance(value, Real) else None


def to_text(value: Any) -> str:
    """Return a value as Java prints it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, float):
        return str(value)
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return _plain(value)
    sign, digits, exponent = _digits(value)
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{exponent}"


def _digits(value: float) -> tuple[str, str, int]:
    """Return the sign, the digits and the power of ten of a number other than 0."""
    mantissa, _, power = f"{float.__repr__(value)}e0".partition("e")
    exponent = int(power.removesuffix("e0") or 0)
    sign = "-" * mantissa.startswith("-")
    before, _, after = mantissa.lstrip("-").partition(".")
    digits = before + after
    leading = len(digits) - len(digits.lstrip("0"))
    return sign, digits.strip("0"), exponent + len(before) - 1 - leading


def _plain(value: float) -> str:
    """Return a float as text without an exponent."""
    text = float.__repr__(value)
    return text if "e" not in text else f"{value:.20f}".rstrip("0")


to_int, to_long = _whole(32), _whole(64)
CONVERSIONS: dict[str, Callable[[Any], Any]] = {
    STRING: to_text, INT: to_int, LONG: to_long, SINGLE: to_double, DOUBLE: to_double, BOOL: to_bool,
}  # fmt: skip


# Siddhi's functions of numbers, ``math:…``, with the results of Java's ``Math``.
#
# Differs: a function gives null where Siddhi stops with an exception at a value.


def _of_doubles(call: Callable) -> Callable:
    """Return a function of doubles; NaN and infinities come out as in Java, without warnings."""

    def of(*values: Any) -> float | None:
        if any(value is None for value in values):
            return None
        with np.errstate(all="ignore"):
            try:
                return float(call(*map(to_double, values)))
            except ValueError:  # Python has no value where Java has NaN
                return math.nan

    return of


def _doubles(call: Callable, n_arguments: int = 1, n_optional: int = 0) -> Function:
    return Function((NUMBERS,) * n_arguments, DOUBLE, _of_doubles(call), n_optional)


def _logarithm(number: float) -> float:
    return -math.inf if number == 0 else math.log(number)


def _logarithm_to(number: float, base: float) -> float:
    return np.divide(_logarithm(number), _logarithm(base))


def _cube_root(number: float) -> float:
    root = math.cbrt(number)
    if not math.isfinite(root):
        return root
    return float(round(root)) if round(root) ** 3 == number else root  # some C libraries miss whole roots


def _power(value: float, power: float) -> float:
    if math.isnan(power) or (abs(value) == 1 and math.isinf(power)):
        return math.nan  # C says 1 here
    return np.power(value, power)


def _arc_tangent(value: float, other: float | None = None) -> float:
    return math.atan(value) if other is None else math.atan2(value, other)


def _rounded(value: Any) -> int | None:
    """Return the nearest whole number; the greater one if two are equally near."""
    number = to_double(value)
    if number is None or not math.isfinite(number):
        return to_long(number)
    floor = math.floor(number)
    return to_long(float(floor + 1) if number - floor >= 0.5 else float(floor))


NUMBER_FUNCTIONS = {
    "math:pi": Function((), DOUBLE, lambda: math.pi),
    "math:e": Function((), DOUBLE, lambda: math.e),
    "math:abs": _doubles(abs),
    "math:ceil": _doubles(np.ceil),
    "math:floor": _doubles(np.floor),
    "math:round": Function((NUMBERS,), LONG, present(_rounded)),
    "math:signum": Function((NUMBERS,), INT, present(lambda x: (x > 0) - (x < 0))),
    "math:sqrt": _doubles(np.sqrt),
    "math:cbrt": _doubles(_cube_root),
    "math:exp": _doubles(lambda number: math.exp(number) if number < 709 else np.exp(number)),
    "math:ln": _doubles(_logarithm),
    "math:log": Function(
        (NUMBERS, NUMBERS), DOUBLE, lambda x, base: None if base == 1 else _of_doubles(_logarithm_to)(x, base)
    ),
    "math:log2": _doubles(lambda x: _logarithm(x) / math.log(2)),
    "math:log10": _doubles(lambda x: -math.inf if x == 0 else math.log10(x)),
    "math:power": _doubles(_power, 2),
    "math:max": _doubles(np.maximum, 2),
    "math:min": _doubles(np.minimum, 2),
    "math:copySign": _doubles(np.copysign, 2),
    "math:sin": _doubles(math.sin),
    "math:cos": _doubles(math.cos),
    "math:tan": _doubles(math.tan),
    "math:asin": _doubles(math.asin),
    "math:acos": _doubles(math.acos),
    "math:atan": _doubles(_arc_tangent, 2, 1),
    "math:sinh": _doubles(np.sinh),
    "math:cosh": _doubles(np.cosh),
    "math:tanh": _doubles(math.tanh),
    "math:toDegrees": _doubles(lambda x: x * (180 / math.pi)),
    "math:toRadians": _doubles(lambda x: x * (math.pi / 180)),
    "math:isNan": Function((NUMBERS,), BOOL, present(lambda x: x != x)),
    "math:isInfinite": Function((NUMBERS,), BOOL, present(lambda x: abs(x) == math.inf)),
    "math:parseInt": Function(((STRING,),), INT, present(to_int)),
    "math:parseLong": Function(((STRING,),), LONG, present(to_long)),
    "math:parseFloat": Function(((STRING,),), DOUBLE, present(to_double)),
    "math:parseDouble": Function(((STRING,),), DOUBLE, present(to_double)),
}


# Siddhi's functions of texts, ``str:…``. Places count from 0.
#
# Differs: a function gives null where Siddhi stops with an exception at a value, such as null or a place
# after the end. A character outside the basic plane counts as one place, and in Java as two.

_TEXT = (STRING,)
_BLANKS = "".join(map(chr, range(33)))  # what Java's trim takes away


def _joined(*parts: Any) -> str:
    return "".join(to_text(part) for part in parts if part is not None)


def _contains(text: str | None, part: str | None) -> bool | None:
    """Return whether a text contains a part. Siddhi says false for null, and null for a part that is null."""
    if text is None:
        return False
    return None if part is None else part in text


def _upper(sign: str) -> str:
    """Return a character in upper case if that is one character, as in Java."""
    upper = sign.upper()
    return upper if len(upper) == 1 else sign


def _equals_ignore_case(one: str | None, other: str | None) -> bool | None:
    """Return whether two texts are equal but for case, compared by characters as in Java."""
    if one is None or other is None:
        return None if one is None else False
    pairs = ((_upper(a), _upper(b)) for a, b in zip(one, other, strict=False))
    return len(one) == len(other) and all(a == b or a.lower() == b.lower() for a, b in pairs)


def _compare(one: str, other: str) -> int:
    """Return the difference of the first characters that differ, else of the lengths, as Java."""
    for a, b in zip(one, other, strict=False):
        if a != b:
            return ord(a) - ord(b)
    return len(one) - len(other)


def _char_at(text: str, place: int) -> str | None:
    return text[place] if 0 <= place < len(text) else None


def _part(text: str, first: int | str, second: int | None = None) -> str | None:
    """Return a part of a text: between two places, or a group of a regular expression."""
    if isinstance(first, str):
        matched = java_pattern(first).search(text)
        group = second or 0
        if matched is None:
            return ""
        return matched[group] if 0 <= group <= matched.re.groups else None
    end = len(text) if second is None else first + second
    return text[first:end] if 0 <= first <= end <= len(text) else None


def _locate(part: str, text: str, start: int = 0) -> int | None:
    """Return the place of a part in a text from `start` on, counted as Siddhi does."""
    if not 0 <= start <= len(text):
        return None
    return text[start:].find(part) + start


def _split(text: str, regex: str, place: int) -> str | None:
    """Return part number ``place`` of a text between separators."""
    parts, start = [], 0
    for separator in java_pattern(regex).finditer(text):
        if separator.end() > 0:
            parts.append(text[start : separator.start()])
            start = separator.end()
    if parts:
        parts.append(text[start:])
        while parts and not parts[-1]:
            parts.pop()
    else:
        parts = [text]
    return parts[place] if 0 <= place < len(parts) else None


def _replaced(text: str, regex: str, replacement: str, n_times: int) -> str:
    def one(found: re.Match[str]) -> str:
        return java_replacement(found, replacement)

    return java_pattern(regex).sub(one, text, count=n_times)


TEXT_FUNCTIONS = {
    "str:charAt": Function((_TEXT, WHOLE), STRING, present(_char_at)),
    "str:coalesce": Function((_TEXT,), STRING, _first_present, repeats=True),
    "str:concat": Function(((),), STRING, _joined, repeats=True),
    "str:contains": Function((_TEXT, _TEXT), BOOL, _contains),
    "str:equalsIgnoreCase": Function((_TEXT, _TEXT), BOOL, _equals_ignore_case),
    "str:length": Function((_TEXT,), INT, present(len)),
    "str:locate": Function((_TEXT, _TEXT, WHOLE), INT, present(_locate), n_optional=1),
    "str:lower": Function((_TEXT,), STRING, present(str.lower)),
    "str:regexp": Function(
        (_TEXT, _TEXT), BOOL, present(lambda text, regex: java_pattern(regex).fullmatch(text) is not None),
        regex_at=1,
    ),
    "str:replaceAll": Function(
        (_TEXT, _TEXT, _TEXT), STRING, present(lambda *given: _replaced(*given, n_times=0)), regex_at=1
    ),
    "str:replaceFirst": Function(
        (_TEXT, _TEXT, _TEXT), STRING, present(lambda *given: _replaced(*given, n_times=1)), regex_at=1
    ),
    "str:reverse": Function((_TEXT,), STRING, present(lambda text: text[::-1])),
    "str:split": Function((_TEXT, _TEXT, WHOLE), STRING, present(_split), regex_at=1),
    "str:strcmp": Function((_TEXT, _TEXT), INT, present(_compare)),
    "str:substr": Function(
        (_TEXT, (*WHOLE, STRING), WHOLE), STRING, present(_part), n_optional=1, regex_at=1
    ),
    "str:trim": Function((_TEXT,), STRING, present(lambda text: text.strip(_BLANKS))),
    "str:upper": Function((_TEXT,), STRING, present(str.upper)),
}  # fmt: skip
