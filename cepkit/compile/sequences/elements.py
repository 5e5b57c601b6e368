"""Bind conditions on several events: ``b[i-1].price`` becomes a leaf, one event and one column."""

from __future__ import annotations

from cepkit.compile.shared.binding import Binder, holds_lists
from cepkit.compile.shared.operations import mean
from cepkit.compile.shared.terms import ALWAYS, EVENT, Prepared, Term
from cepkit.events import BOOLEAN, DURATION, FLOAT, INTEGER, LIST, NUMBERS, TEXT, TIME, WHOLE, ColumnType
from cepkit.language.expressions import trees as ex

# Which event of its variable an element means, unless it is a whole number k for the k-th: each in turn
# (for a single event: the event), the one before it, the last one, and the one that an aggregate is at.
EACH, PREVIOUS, LAST, ITEM = "each", "previous", "last", "item"
# Ranges of an aggregate.
ALL, EARLIER = "all", "earlier"


class ElementBinder(Binder):
    """A binder that also binds values of the events of a match.

    Its leaves are ``element`` terms with data (variable, which event, column), and ``group`` terms with
    data (aggregate, variable, which events). The argument of a group is computed for each of its events.
    An element with the argument ``ALWAYS`` is null only where its event is missing.

    """

    range_of_aggregate: str | None = None  # while binding an aggregate's argument

    def _bind(self, expression: ex.Expression) -> Term:
        match expression:
            case ex.Reference():
                return self._reference(expression)
            case ex.Subscript(operand=ex.Reference(name=str()) as reference):
                item = ex.Subscript(ex.Attribute(reference.name, span=reference.span), expression.index)
                return self._element(reference, super()._bind(item))
            case ex.Aggregate():
                return self._aggregate(expression)
            case ex.Previous():
                raise self.wrong(
                    expression, "prev() belongs to regex patterns; write b[i-1].x, or name the event"
                )
        return super()._bind(expression)

    def _reference(self, e: ex.Reference) -> Term:
        if e.name is None:
            raise self.wrong(
                e, f"{e.variable!r} is an event; name one of its columns, as in {e.variable}.price"
            )
        of = self.schema.get(e.name)
        if of is None:
            raise self.missing(e, e.name)
        return self._element(e, self._column_of(e, of))

    def _column_of(self, e: ex.Reference, of: ColumnType) -> Term:
        if of.kind == LIST:
            raise self.wrong(e, holds_lists(e.name, e))
        return self._column(e.name, of, e)

    def _element(self, e: ex.Reference, column: Term) -> Term:
        which = self._which(e)
        may_miss = isinstance(which, int)
        data = (e.variable, which, column.data)
        known = (ALWAYS,) if may_miss and not column.nullable and column.kind in WHOLE else ()
        return Term("element", known, column.kind, column.unit, column.nullable or may_miss, data, EVENT)

    def _similarity(self, e: ex.Call) -> Term:
        arrays = tuple(self._array(argument, e) for argument in e.arguments)
        return Term("similarity", arrays, FLOAT, None, True, e.function, EVENT)

    def _array(self, e: ex.Expression, call: ex.Call) -> Term:
        """Return the leaf of an array; its column is prepared for the function."""
        name = e.name if isinstance(e, ex.Reference | ex.Attribute) else None
        if name is None:
            raise self.wrong(e, f"{call.function}() takes columns of arrays, as in {call.function}(a.x, b.x)")
        of = self.schema.get(name)
        if of is None:
            raise self.missing(e, name)
        if of.kind != LIST or of.item.kind not in NUMBERS:
            raise self.wrong(e, f"{call.function}() needs arrays of numbers, column {name!r} is of type {of}")
        own = f"{call.function}({name})"
        self.derived[own] = Prepared(name, call.function)
        self.columns.setdefault(own)
        column = Term("column", (), LIST, None, True, own, EVENT)
        return self._element(e, column) if isinstance(e, ex.Reference) else column

    def _which(self, e: ex.Reference) -> str | int:
        if self.range_of_aggregate is not None:
            if e.index not in (None, ex.ALL_BEFORE):
                raise self.wrong(e, f"an aggregate ranges over all events; write {e.variable}.{e.name} in it")
            return ITEM
        if e.index == ex.ALL_BEFORE:
            raise self.wrong(e, "'..i-1' is allowed in an aggregate only, as in max(b[..i-1].price)")
        group = e.variable in self.query.group_variables
        if not group and (e.index in (None, ex.LAST, ex.CURRENT) or e.index == 1):
            return EACH
        return {None: EACH, ex.CURRENT: EACH, ex.BEFORE: PREVIOUS, ex.LAST: LAST}.get(e.index, e.index)

    def _aggregate(self, e: ex.Aggregate) -> Term:
        inside = [node for node in e.walk() if isinstance(node, ex.Reference)]
        if not inside:
            raise self.wrong(
                e, f"{e.function}() names no events; name a variable, as in {e.function}(b.price)"
            )
        variables = list(dict.fromkeys(node.variable for node in inside))
        ranges = {node.index for node in inside}
        if len(variables) > 1 or len(ranges) > 1:
            raise self.wrong(e, f"an aggregate ranges over the events of one variable, not of {variables}")
        variable, over = variables[0], EARLIER if ranges == {ex.ALL_BEFORE} else ALL
        function = e.function
        if function == "collect":
            raise self.wrong(e, "collect() makes a list, which only a measure can hold")
        if isinstance(e.operand, ex.Reference) and e.operand.name is None:
            if function != "count":
                raise self.wrong(e, f"{function}() names no column; write {function}({variable}.price)")
            return Term("group", (), INTEGER, None, False, ("count", variable, over), EVENT)
        outer, self.range_of_aggregate = self.range_of_aggregate, over
        try:
            is_plain = isinstance(e.operand, ex.Reference)
            arg = self._reference(e.operand) if is_plain else super()._bind(e.operand)
        finally:
            self.range_of_aggregate = outer
        return self._finish_aggregate(e, function, variable, over, arg)

    def bind(self, expression: ex.Expression) -> Term:
        """Return the term of ``expression``; inside an aggregate the same text means another event."""
        if self.range_of_aggregate is not None:
            return self._bind(expression)
        return super().bind(expression)

    def _finish_aggregate(self, e: ex.Aggregate, function: str, variable: str, over: str, arg: Term) -> Term:
        def group(name: str, kind: str = arg.kind, nullable: bool = arg.nullable, of: Term = arg) -> Term:
            return Term("group", (of,), kind, of.unit, nullable, (name, variable, over), EVENT)

        if function == "count":
            return group("count_of", INTEGER, False)
        if function in ("first", "last"):
            return group(function)
        if function == "delta":
            if arg.kind not in (TIME, DURATION, *NUMBERS):
                raise self.wrong(e, "delta() needs times or numbers")
            kind = DURATION if arg.kind in (TIME, DURATION) else arg.kind
            ends = group("last"), group("first")
            return Term("-", ends, kind, arg.unit, arg.nullable, None, EVENT)
        if function in ("min", "max"):
            if arg.kind == BOOLEAN:
                raise self.wrong(e, f"{function}() needs an ordered value, but this is a truth value")
            if arg.kind == TEXT:
                self.share_categories(arg.unit, arg.unit, ordered=True)
            return group(function)
        if arg.kind not in NUMBERS and (function, arg.kind) != ("sum", DURATION):
            raise self.wrong(e, f"{function}() needs numbers")
        if function == "sum":
            return group("sum")
        return mean(arg, lambda of: group("sum", of=of), group("count_of", INTEGER, False))
