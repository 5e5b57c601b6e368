"""`VectorReader` computes an expression of MATCH_RECOGNIZE at many places at once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from cepkit.compile.match_recognize.conditions import constants_of
from cepkit.compile.match_recognize.functions.times import TIME_FUNCTIONS
from cepkit.compile.match_recognize.times import TIMED
from cepkit.compile.match_recognize.values import column_of, compile_value
from cepkit.compile.match_recognize.vectors.comparisons import FEW, compare, is_among, is_distinct, is_in
from cepkit.compile.match_recognize.vectors.numbers import call_function, compute, negative
from cepkit.compile.match_recognize.vectors.times import call_time_function
from cepkit.compile.match_recognize.vectors.units import converted
from cepkit.compile.match_recognize.vectors.vector import (
    LARGEST,
    NotVectorizedError,
    Vector,
    constant_vector,
    looked_up,
)
from cepkit.errors import PredicateError
from cepkit.events import BOOLEAN, FLOAT, INTEGER, TEXT, ColumnType
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.sql_functions import WITH_UNIT
from cepkit.language.match_recognize import patterns as rp

_OF_MATCHES = (rp.Navigation, rp.RowAggregate, rp.Classifier, rp.MatchNumber)
_OF_ROWS = (*_OF_MATCHES, ex.Attribute, ex.Reference, rp.MatchRowtime, rp.TimedOut)


class VectorReader(ABC):
    """Reads expressions at ``n`` places. Its subclasses know which rows the places mean."""

    def __init__(self, n: int, schema: Mapping[str, ColumnType], params: Mapping[str, Any] | None):
        self.n, self.schema, self.params = n, schema, params

    @abstractmethod
    def column(self, name: str, at: Any) -> Vector:
        """Return a column at the rows ``at``."""

    @abstractmethod
    def rows_of(self, variable: str | None) -> Any:
        """Return the rows that a column of a variable means, or that one alone means for None."""

    @abstractmethod
    def of_match(self, tree: ex.Expression, at: Any) -> Vector:
        """Return a navigation, an aggregate, a label or the number of the match."""

    def holds(self, tree: ex.Expression, wanted: bool = True, at: Any = None) -> np.ndarray:
        """Return where a condition is ``wanted``, bool, (n,). The array is new."""
        match tree:
            case rp.IsTruth(operand=operand, truth=truth):
                found = self.holds(operand, truth, at)
                return found if wanted else ~found
            case rp.IsDistinct(left=left, right=right):
                one, other = converted([self.value(left, at), self.value(right, at)])
                found = is_distinct(one, other, self.n)
                return found if wanted else ~found
            case ex.And(operands=operands) | ex.Or(operands=operands):
                join = np.logical_and if isinstance(tree, ex.And) is wanted else np.logical_or
                first, *others = operands
                found = self.holds(first, wanted, at)
                for other in others:
                    join(found, self.holds(other, wanted, at), out=found)
                return found
            case ex.Not(operand=operand):
                return self.holds(operand, not wanted, at)
            case ex.IsNull(operand=operand):
                found = self.value(operand, at).is_null(self.n)
                return found if wanted else ~found
        vector = self.value(tree, at)
        if vector.type.kind != BOOLEAN:
            raise NotVectorizedError
        if vector.is_one:
            found = np.full(self.n, bool(vector.values) is wanted)
        elif wanted:  # a comparison makes a new array
            found = vector.values if isinstance(tree, ex.Comparison | ex.In) else vector.values.copy()
        else:
            found = ~vector.values
        for places in vector.missing:
            found[places] = False
        return found

    def value(self, tree: ex.Expression, at: Any = None) -> Vector:
        """Return the values of an expression."""
        if isinstance(tree, ex.Attribute | ex.Reference):
            name = column_of(tree.name or "", self.schema)
            variable = tree.variable if isinstance(tree, ex.Reference) else None
            return self.column(name, self.rows_of(variable) if at is None else at)
        if isinstance(tree, _OF_MATCHES):
            return self.of_match(tree, at)
        if (found := self._of_one_text(tree, at)) is not None:
            return found
        if (found := self._of_constants(tree)) is not None:
            return found
        match tree:
            case ex.Literal(value=value):
                return constant_vector(value)
            case ex.Parameter(name=name):
                if self.params is None or name not in self.params:
                    raise NotVectorizedError
                return constant_vector(self.params[name])
            case ex.And() | ex.Or() | ex.Not() | ex.IsNull() | rp.IsTruth() | rp.IsDistinct():
                true = self.holds(tree, True, at)
                missing = ~(true | self.holds(tree, False, at))
                return Vector(true, ColumnType(BOOLEAN), (missing,) if missing.any() else ())
            case ex.In(operand=operand, options=options):
                item, given = self.value(operand, at), constants_of(options) if len(options) > FEW else None
                if given is not None and item.type.kind in (INTEGER, FLOAT):
                    return is_among(item, given)
                return is_in(*converted([item, *(self.value(part, at) for part in options)]))
            case ex.Comparison(operator=sign, left=left, right=right):
                return compare(sign, *converted([self.value(left, at), self.value(right, at)]))
            case ex.Arithmetic(operator=sign, left=left, right=right):
                return compute(sign, self.value(left, at), self.value(right, at), self.n)
            case ex.Negative(operand=operand):
                return negative(self.value(operand, at))
            case rp.CaseWhen(branches=branches, default=default) if default is not None:
                return self._case(branches, default, at)
            case ex.Call(function=function) if function in TIME_FUNCTIONS:
                has_unit = function in WITH_UNIT
                unit = getattr(tree.arguments[0], "value", None) if has_unit else None
                parts = [self.value(part, at) for part in tree.arguments[has_unit:]]
                return call_time_function(function, unit, parts)
            case ex.Call(function=function, arguments=arguments):
                return call_function(function.lower(), [self.value(part, at) for part in arguments], self.n)
        raise NotVectorizedError

    def _of_one_text(self, tree: ex.Expression, at: Any) -> Vector | None:
        """Return an expression of a single column of texts, computed once for each text; else None."""
        leaves = set()
        for node in tree.walk():
            if isinstance(node, (*_OF_MATCHES, rp.MatchRowtime, rp.TimedOut)):
                return None
            if isinstance(node, ex.Attribute | ex.Reference):
                variable = node.variable if at is None and isinstance(node, ex.Reference) else None
                leaves.add((variable, column_of(node.name or "", self.schema)))
        if len(leaves) != 1:
            return None
        [(variable, name)] = leaves
        if self.schema[name].kind != TEXT:
            return None
        column = self.column(name, self.rows_of(variable) if at is None else at)
        if column.texts is None or len(column.texts) > self.n:  # hardly a text twice
            raise NotVectorizedError
        made = compile_value(tree, self.schema, self.params, inside=True)
        place = SimpleNamespace(columns={name: [*column.texts, None]})
        try:
            of_text = [made.call(place, i) for i in range(len(column.texts) + 1)]
        except PredicateError:
            raise NotVectorizedError from None
        codes = np.where(column.is_null(self.n), -1, column.values) if column.missing else column.values
        return looked_up(of_text, codes, made.type)

    def _of_constants(self, tree: ex.Expression) -> Vector | None:
        """Return a time or a duration that is written in the query, or computed from such; else None."""
        if not isinstance(tree, rp.TimeLiteral | rp.IntervalLiteral | ex.Arithmetic | ex.Negative):
            return None
        if any(isinstance(node, _OF_ROWS) for node in tree.walk(literals=False)):
            return None
        made = compile_value(tree, self.schema, self.params, inside=True)
        if not made.is_constant or made.type.kind not in TIMED:
            return None
        ticks = made.call(None, -1)
        if ticks is None or abs(ticks) > LARGEST:
            raise NotVectorizedError
        return Vector(ticks, made.type, text=made.text)

    def _case(self, branches: Sequence[ex.Expression], default: ex.Expression, at: Any) -> Vector:
        parts = converted([self.value(part, at) for part in (*branches[1::2], default)])
        first, last = parts[0], parts[-1]
        if not all(part.is_number and part.is_whole is first.is_whole for part in parts):
            raise NotVectorizedError
        values, missing = np.broadcast_to(last.values, (self.n,)), last.is_null(self.n)
        for condition, part in zip(branches[-2::-2], parts[-2::-1], strict=True):
            held = self.holds(condition, True, at)
            values = np.where(held, part.values, values)
            missing = np.where(held, part.is_null(self.n), missing)
        return Vector(values, first.type, (missing,) if missing.any() else ())
