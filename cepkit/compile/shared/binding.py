"""Bind expressions to a schema: find names, check types, and turn literals into constants of their kind."""

from __future__ import annotations

from collections.abc import Collection
from decimal import Decimal
from functools import singledispatchmethod
from typing import Any

import numpy as np

from cepkit.compile.shared.computing import bind_call, bind_next, call_term, is_null, without_choices
from cepkit.compile.shared.decimals import degree_of, exact_value
from cepkit.compile.shared.operations import (
    MATH,
    Binding,
    aggregate,
    arithmetic,
    compare,
    event_level,
    mathematics,
    number,
)
from cepkit.compile.shared.terms import (
    ANY_KIND,
    EVENT,
    NEVER,
    Constant,
    Derived,
    Exact,
    Members,
    Table,
    Term,
    described,
    level_of,
    text_tests,
    type_of_column,
)
from cepkit.errors import ColumnNotFoundError, PredicateError, column_not_found, nearest
from cepkit.events import BOOLEAN, FLOAT, INTEGER, LIST, NULL_INTEGER, NUMBERS, TEXT, ColumnType
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.functions import FUNCTIONS, VECTOR_FUNCTIONS, registered_function
from cepkit.language.expressions.mistakes import compared_with
from cepkit.language.expressions.vocabulary import VOCABULARY

_EXACT = 2**62
_FEW_OPTIONS = 8  # up to this many options of ``in`` are compared one by one
_TEXT_TESTS = {"starts_with", "ends_with", "contains"}
_TESTS = (ex.Comparison, ex.In, ex.IsNull, ex.Like, ex.IsDistinct)


class Binder(Binding):
    """Binds the expressions of one query, and collects the constants, tables and columns that they need."""

    def predicate(self, role: str, expression: ex.Expression) -> Term:
        """Return the term of a condition; ``role`` names the condition in errors."""
        self.role = role
        return self.truth(expression)

    def collected(self, used: Collection[str]) -> dict[str, Any]:
        """Return what a program keeps of its binding, as keywords; ``used`` limits the columns."""
        return {
            "columns": tuple(name for name in self.columns if name in used),
            "constants": tuple(self.constants), "tables": tuple(self.tables), "derived": self.derived,
            "text_groups": tuple(frozenset(group) for group in self.text_groups),
            "ordered_text": frozenset(self.ordered_text), "functions": self.used_functions,
        }  # fmt: skip

    # --- errors

    def missing(self, part: ex.Expression, name: str) -> ColumnNotFoundError:
        """Return the error for a column that does not exist."""
        error = column_not_found(self.role, name, self.schema)
        hint = self._parameter_hint(name) or self._text_hint(part, name)
        return ColumnNotFoundError(f"{error}{hint}\n{self.query.underlined(self.role, part)}")

    def _parameter_hint(self, name: str) -> str:
        """Return a hint if ``name`` is the only parameter of a Python function, such as a row."""
        tree = dict(self.query.trees()).get(self.role)
        function = dict(self.query.functions).get(tree.function) if isinstance(tree, ex.Call) else None
        code = getattr(getattr(function, "call", None), "__code__", None)
        if code is None or code.co_argcount != 1 or code.co_varnames[0] != name:
            return ""
        used = [word for word in (*code.co_names, *code.co_consts) if word in self.schema] or ["price"]
        return f". A function takes columns, not rows: lambda {', '.join(used)}: …"

    def _text_hint(self, part: ex.Expression, name: str) -> str:
        """Return a hint if ``part`` may be a text without quotes, or a missing value of pandas."""
        if name.lower() in ("nan", "nat", "na"):
            return ". Missing values are found with: x is null"
        others = compared_with(part, (tree for role, tree in self.query.trees() if role == self.role))
        names = [side.name for side in others if isinstance(side, ex.Attribute | ex.Reference)]
        kinds = [self.schema[other].kind for other in names if other in self.schema]
        return f". A text has quotes: {name!r}" if TEXT in kinds else ""

    # --- truth

    def truth(self, expression: ex.Expression) -> Term:
        """Return the term of a condition. Raise if its value is no truth."""
        if isinstance(expression, ex.Call) and (changed := without_choices(expression)) is not None:
            return self.truth(changed)
        term = self.bind(expression)
        if term.op == "null":
            return NEVER
        if term.kind == ANY_KIND:
            return Term(term.op, term.args, BOOLEAN, None, True, term.data, term.level)
        if term.kind != BOOLEAN:
            value = "> 0" if term.kind in NUMBERS else "== 'a'" if term.kind == TEXT else ""
            hint = f"; compare it, as in {expression!s} {value}" if value else ""
            raise self.wrong(
                expression, f"a predicate must be true or false, this is a {described(term)}{hint}"
            )
        return term

    def bind(self, expression: ex.Expression) -> Term:
        """Return the term of an expression; equal expressions give the same term."""
        # Equal parts share a term and its constants. Equal literals do not share one, because moving one of
        # them would then change the source.
        if isinstance(expression, ex.Literal):
            return self._bind(expression)
        if expression not in self.bound:
            self.bound[expression] = self._bind(self.without_choices(expression))
        return self.bound[expression]

    def without_choices(self, expression: ex.Expression) -> ex.Expression:
        """Return a test without functions that choose between values of several rows."""
        if not isinstance(expression, _TESTS):
            return expression
        try:
            changed = without_choices(expression)
        except PredicateError as error:
            raise self.wrong(expression, str(error)) from None
        return expression if changed is None else changed

    def of_rows(self) -> Binder:
        """Return a binder for arguments that are computed row by row before matching."""
        return Binder(self.schema, self.query, self.role, derived=self.derived, has_decimals=False)

    @singledispatchmethod
    def _bind(self, expression: ex.Expression) -> Term:
        raise TypeError(f"no binding for {type(expression).__name__}")

    @_bind.register
    def _(self, e: ex.And) -> Term:
        return self._junction("and", e.operands)

    @_bind.register
    def _(self, e: ex.Or) -> Term:
        return self._junction("or", e.operands)

    def _junction(self, op: str, operands: tuple[ex.Expression, ...]) -> Term:
        """Return the term of conditions joined by ``and`` or ``or``."""
        args = tuple(self.truth(operand) for operand in operands)
        return Term(op, args, BOOLEAN, None, any(a.nullable for a in args), None, level_of(*args))

    @_bind.register
    def _(self, e: ex.Not) -> Term:
        arg = self.truth(e.operand)
        return Term("not", (arg,), BOOLEAN, None, arg.nullable, None, arg.level)

    @_bind.register
    def _(self, e: ex.In) -> Term:
        if len(e.options) <= _FEW_OPTIONS or degree_of(self.bind(e.operand)):
            equal = tuple(self.bind(ex.Comparison("==", e.operand, option)) for option in e.options)
        else:
            equal = self._look_up(e)
        return equal[0] if len(equal) == 1 else Term("or", equal, BOOLEAN, None, True, None, level_of(*equal))

    def _look_up(self, e: ex.In) -> tuple[Term, ...]:
        """Return terms that hold if one of the options is equal; constants become the values of a table."""
        operand = self.bind(e.operand)  # first, since the constants of the options are removed
        n_constants, bound = len(self.constants), dict(self.bound)
        values_of_term: dict[tuple[Term, str], list[int | float | str | None]] = {}
        others: dict[Term, None] = {}
        options = e.options
        if operand.kind == TEXT and operand.op != "quoted":
            values_of_term[operand, TEXT] = [text.value for text in options if _is_text(text)]
            options = tuple(option for option in options if not _is_text(option))
        if operand.kind in (INTEGER, FLOAT) and operand.op != "constant":
            numbers = [_plain_number(option, operand.kind) for option in options]
            values_of_term[operand, operand.kind] = [number for number in numbers if number is not None]
            options = tuple(option for option, number in zip(options, numbers, strict=True) if number is None)
        for option in options:
            term = self._bind(ex.Comparison("==", e.operand, option))
            if term.op == "compare" and term.data == "==" and term.args[1].op == "constant":
                left, right = term.args
                constant = self.constants[right.data]
                value = constant.value if constant.text is None else constant.text
                values_of_term.setdefault((left, right.kind), []).append(value)
            else:
                others.setdefault(term)
        if all(term.op == "never" for term in others):
            del self.constants[n_constants:]
            self.bound = bound  # no term may keep the number of a removed constant
        return (
            *(self._table_of(left, values) for (left, _), values in values_of_term.items() if values),
            *others,
        )

    def _table_of(self, left: Term, values: list) -> Term:
        """Return the term that holds if ``left`` is one of the values, which are of its kind."""
        if left.kind == TEXT:
            table: Table | Members = Table(left.unit, "in", frozenset(values))
        else:
            table = Members(tuple(values), "float64" if left.kind == FLOAT else "int64")
        op = "table" if left.kind == TEXT else "member"
        self.tables.append(table)
        return Term(op, (left,), BOOLEAN, None, left.nullable, len(self.tables) - 1, left.level)

    @_bind.register
    def _(self, e: ex.IsNull) -> Term:
        arg = self.bind(e.operand)
        if arg.op in ("null", "never"):  # a comparison with null is never known
            return Term("always", kind=BOOLEAN)
        if arg.op == "quoted":
            return self.truth(ex.Literal(False))
        if arg.kind == ANY_KIND:
            arg = self.as_float(arg)
        return Term("is_null", (arg,), BOOLEAN, None, False, None, arg.level)

    @_bind.register
    def _(self, e: ex.IsDistinct) -> Term:
        # Both sides have values that differ, or one side alone is null.
        sides = [side for side in (e.left, e.right) if not self._is_null(side)]
        if len(sides) < 2:
            is_null = ex.IsNull(sides[0]) if sides else None
            return self.truth(ex.Literal(False) if is_null is None else ex.Not(is_null))
        known = [ex.Not(ex.IsNull(side)) for side in sides if not isinstance(side, ex.Literal | ex.Parameter)]
        differ = ex.And((*known, ex.Comparison("!=", e.left, e.right, span=e.span)))
        if len(known) < 2:
            return self.truth(
                ex.Or((*(part.operand for part in known), differ)) if known else differ.operands[0]
            )
        one_is_null = (ex.And((part.operand, other)) for part, other in (known, reversed(known)))
        return self.truth(ex.Or((*one_is_null, differ)))

    def _is_null(self, side: ex.Expression) -> bool:
        """Return whether a side is the constant null."""
        if isinstance(side, ex.Parameter):
            return dict(self.query.params).get(side.name, side) is None
        return isinstance(side, ex.Literal) and side.value is None

    @_bind.register
    def _(self, e: ex.Like) -> Term:
        return self._text_test("like", e.operand, e.pattern, e)

    def _text_test(self, test: str, operand: ex.Expression, text: str, whole: ex.Expression) -> Term:
        """Return the term of a test of a text, such as ``like``; for a column it reads a table by code."""
        arg = self.bind(operand)
        if arg.op == "null":
            return NEVER
        if arg.op == "quoted":
            return Term("truth", (), BOOLEAN, None, False, text_tests(text)[test](arg.data))
        if arg.kind != TEXT:
            raise self.wrong(
                whole, f"{test} needs a text on its left, {str(operand)!r} is a {described(arg)}"
            )
        table = len(self.tables)
        self.tables.append(Table(arg.unit, test, text))
        return Term("table", (arg,), BOOLEAN, None, arg.nullable, table, arg.level)

    @_bind.register
    def _(self, e: ex.Comparison) -> Term:
        return compare(self, e)

    # --- values

    @_bind.register
    def _(self, e: ex.Literal) -> Term:
        return self.value(e.value, e)

    @_bind.register
    def _(self, e: ex.Parameter) -> Term:
        params = dict(self.query.params)
        if e.name not in params:
            names = list(params)
            raise self.wrong(
                e,
                f"parameter ':{e.name}' has no value.{nearest(e.name, names)} Give params={{'{e.name}': …}}"
                + (f"; given: {names}" if names else ""),
            )
        return self.value(params[e.name], e)

    def value(self, value: object, e: ex.Expression) -> Term:
        """Return the term of a constant of Python."""
        value = (
            value.item() if isinstance(value, np.generic) and not isinstance(value, np.datetime64) else value
        )
        if is_null(value):
            return Term("null", kind=ANY_KIND, nullable=True)
        if isinstance(value, bool):
            return Term("truth", (), BOOLEAN, None, False, int(value))
        if isinstance(value, int):
            if not NULL_INTEGER < value < 2**63:
                raise self.wrong(e, f"{value} does not fit 64 bits")
            return self.constant(Constant(INTEGER, value))
        if isinstance(value, float):
            exact = Decimal(value.text) if isinstance(value, ex.LongNumber) else None
            return self.constant(Constant(FLOAT, float(value), exact=exact))
        if isinstance(value, Decimal):
            return self.constant(Constant(FLOAT, float(value), exact=value if value.is_finite() else None))
        if isinstance(value, str):
            return Term("quoted", kind=TEXT, data=value)
        text = _as_quoted(value)
        if text is None:
            raise self.wrong(e, f"a value of type {type(value).__name__} cannot be used in a predicate")
        return Term("quoted", kind=TEXT, data=text)

    @_bind.register
    def _(self, e: ex.Attribute) -> Term:
        return self._column(e.name, self.column_type(e, e.name), e)

    def column_type(self, e: ex.Expression, name: str) -> ColumnType:
        """Return the type of a column of the frame, or of a column that is computed before matching."""
        if name not in self.schema and name not in self.derived:
            raise self.missing(e, name)
        return type_of_column(name, self.schema, self.derived)

    def _column(self, name: str, of: ColumnType, e: ex.Expression) -> Term:
        """Return the term of a column. One of decimals is read as integers."""
        if of.kind == LIST:
            raise self.wrong(e, holds_lists(name, e))
        if of.scale is not None and self.has_decimals:
            exact_name = f"{name} as decimals"
            self.derived[exact_name] = Exact(name)
            self.columns.setdefault(exact_name)
            return Term("column", (), INTEGER, "1", True, exact_name, EVENT)
        self.columns.setdefault(name)
        unit = name if of.kind == TEXT else of.unit
        return Term("column", (), of.kind, unit, of.nullable or of.kind == FLOAT, name, EVENT)

    @_bind.register
    def _(self, e: ex.Subscript) -> Term:
        if not isinstance(e.operand, ex.Attribute):
            raise self.wrong(e, "only a column can be subscripted, as in prices[0]")
        name = e.operand.name
        if name not in self.schema:
            raise self.missing(e, name)
        column_type = self.schema[name]
        if column_type.kind != LIST:
            raise self.wrong(
                e, f"column {name!r} is of type {column_type}, not a list: it has no item [{e.index}]"
            )
        item_name = f"{name}[{e.index}]"
        self.derived[item_name] = Derived(name, e.index)
        item = column_type.item
        return self._column(item_name, ColumnType(item.kind, item.unit, item.timezone, True), e)

    @_bind.register
    def _(self, e: ex.Previous) -> Term:
        arg = event_level(self, e, "prev")
        term, rows = (arg.args[0], arg.data) if arg.op == "previous" else (arg, 0)
        return Term("previous", (term,), term.kind, term.unit, True, e.offset + rows, EVENT)

    @_bind.register
    def _(self, e: ex.Aggregate) -> Term:
        return aggregate(self, e)

    @_bind.register
    def _(self, e: ex.Negative) -> Term:
        if isinstance(e.operand, ex.Literal) and type(e.operand.value) in (int, float, ex.LongNumber):
            return self.value(-e.operand.value, e)  # treated like any other constant
        arg = number(self, e.operand, e)
        if arg.op == "null":
            return arg
        if arg.op == "constant" and (exact := exact_value(self, arg)) is not None:
            return self.value(exact.copy_negate() if arg.kind == FLOAT else -int(exact), e)
        return Term("negative", (arg,), arg.kind, arg.unit, arg.nullable, None, arg.level)

    @_bind.register
    def _(self, e: ex.Arithmetic) -> Term:
        return arithmetic(self, e)

    @_bind.register
    def _(self, e: ex.Call) -> Term:
        if e.function in _TEXT_TESTS and _is_text(e.arguments[1]):
            return self._text_test(e.function, e.arguments[0], e.arguments[1].value, e)
        if e.function in VECTOR_FUNCTIONS:
            return self._similarity(e)
        if e.function in MATH and FUNCTIONS[e.function].accepts(len(e.arguments)):
            return mathematics(self, e)
        if e.function == "next":
            return bind_next(self, e)
        if e.function in VOCABULARY and e.function not in dict(self.query.functions):
            return bind_call(self, e)
        try:
            function = dict(self.query.functions).get(e.function) or registered_function(e.function)
        except PredicateError as error:
            raise self.wrong(e, str(error)) from None
        if not function.arity.accepts(len(e.arguments)):
            raise self.wrong(e, f"{e.function}() takes {function.arity}, {len(e.arguments)} given")
        return call_term(self, e, function)

    def _similarity(self, e: ex.Call) -> Term:
        name = e.function
        raise self.wrong(
            e,
            f"{name}() compares events of a sequence. For neighbouring rows write PATTERN SEQ(_ a, _ b) "
            f"WHERE partition_contiguity AND {name}(a.x, b.x) …; as a measure of a regex query write "
            f"{name}(first(x), last(x))",
        )


def holds_lists(name: str, e: ex.Expression) -> str:
    """Return the error text for an array column used as a value, with the alternatives."""
    whole = ", ".join(f"{function}(…)" for function in VECTOR_FUNCTIONS)
    return f"column {name!r} holds lists; take an item, as in {e}[0], or compare whole arrays: {whole}"


def _is_text(option: ex.Expression) -> bool:
    return isinstance(option, ex.Literal) and isinstance(option.value, str)


def _plain_number(option: ex.Expression, kind: str) -> int | float | None:
    """Return a constant as a number of a kind if it can be compared exactly; otherwise None."""
    sign, literal = (-1, option.operand) if isinstance(option, ex.Negative) else (1, option)
    value = literal.value if isinstance(literal, ex.Literal) else None
    if type(value) is int and -_EXACT < value < _EXACT:
        return sign * value if kind == INTEGER else float(sign * value)
    return sign * value if type(value) is float and kind == FLOAT else None


def _as_quoted(value: object) -> str | None:
    """Return a time or duration object in the spelling of text, or None for any other value."""
    import datetime

    if isinstance(value, np.timedelta64):
        return f"{value.astype('timedelta64[ns]').astype(np.int64)} ns"
    if isinstance(value, np.datetime64):
        return str(value)
    if isinstance(value, datetime.timedelta):
        whole = getattr(value, "value", None)  # pandas.Timedelta: nanoseconds
        return f"{whole if whole is not None else value // datetime.timedelta(microseconds=1) * 1000} ns"
    if isinstance(value, datetime.datetime | datetime.date):
        return value.isoformat()
    return None
