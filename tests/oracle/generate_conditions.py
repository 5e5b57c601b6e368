"""Random conditions on the events of a sequence query: structure and constants from two generators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cepkit.language.expressions import trees as ex
from tests.oracle import generate


@dataclass(frozen=True, slots=True)
class Role:
    """A variable and what a condition may ask of it.

    ``is_loop``: stands for several events of one loop; ``in_rounds``: stands in a repeated group; ``sure``:
    one event that every match has.
    """

    variable: str
    is_loop: bool = False
    in_rounds: bool = False
    absent: bool = False
    sure: bool = False

    @property
    def whole(self) -> bool:
        """Whether a condition may ask for the whole group."""
        return self.is_loop and not self.in_rounds


class Conditions(generate.Constants):
    """Draws well-typed conditions."""

    def conjunct(
        self, roles: Sequence[Role], *, absent: Role | None = None, loose: bool = False
    ) -> ex.Expression:
        """Return a condition on one to three of ``roles``, and on the absent one; ``loose`` is often true."""
        n_roles = self.shape.choice([1, 1, 1, 2, 2, 2, 3] if absent is None else [0, 0, 1, 1, 2])
        chosen = self.shape.sample(roles, min(n_roles, len(roles)))
        chosen += [] if absent is None else [absent]
        first = self._test(chosen)
        roll = self.shape.random()
        if roll < 0.12:
            return ex.Not(first)
        if roll < (0.6 if loose else 0.3):
            return ex.Or((first, self._test(self.shape.sample(chosen, max(1, len(chosen) - 1)))))
        return first

    def until(self, sure: Role | None) -> ex.Expression:
        """Return what ends a loop: a test of a bare event, maybe against the event of another variable."""
        column = self.shape.choice("xyg")
        if sure is not None and self.shape.random() < 0.4:
            bound: ex.Expression = ex.Reference(sure.variable, column)
        else:
            bound = self.constant("float" if column == "y" else "int")
        test = ex.Comparison(self.shape.choice([">", "<", "=="]), ex.Attribute(column), bound)
        if self.shape.random() < 0.2:
            return ex.And((test, ex.Attribute("f")))
        return test

    # Tests.

    def _test(self, roles: Sequence[Role]) -> ex.Expression:
        if len(roles) == 1:
            return self._alone(roles[0])
        *others, last = roles
        roll = self.shape.random()
        if roll < 0.12:
            return ex.Comparison(self._sign(), self._text(others[0]), self._text(last))
        if roll < 0.2 and len(roles) == 2:
            return ex.Comparison(self.shape.choice(["==", "!="]), self._flag(others[0]), self._flag(last))
        if roll < 0.4 and len(roles) == 2:
            ticks = ex.Arithmetic("-", self._clock(last), self._clock(others[0]))
            return ex.Comparison(self._sign(), ticks, self.constant("int"))
        left = self._number(others[0])
        for other in others[1:]:
            left = ex.Arithmetic(self.shape.choice("+-"), left, self._number(other))
        if self.shape.random() < 0.3:
            left = ex.Arithmetic("-", left, self.constant("int"))
        return ex.Comparison(self._sign(), left, self._number(last))

    def _alone(self, role: Role) -> ex.Expression:
        tests = [self._compare, self._compare, self._compare, self._compare_text, self._member, self._null]
        tests += [self._truth, self._like]
        if role.is_loop:
            tests += 3 * [self._against_before]
        if role.whole:
            tests += [*3 * [self._count], *3 * [self._total], *2 * [self._within_group], self._running]
        return self.shape.choice(tests)(role)

    def _compare(self, role: Role) -> ex.Expression:
        column = self.shape.choice("xxyg")
        return ex.Comparison(
            self._sign(), self._each(role, column), self.constant("float" if column == "y" else "int")
        )

    def _compare_text(self, role: Role) -> ex.Expression:
        return ex.Comparison(self._sign(), self._text(role), self.constant("text"))

    def _member(self, role: Role) -> ex.Expression:
        """Return a test of a list. Its shape decides how many items differ, as machine code does."""
        options = [self.constant("int") for _ in range(4)]
        taken = {self.params[item.name] for item in options if isinstance(item, ex.Parameter)}
        for place, item in enumerate(options):
            if isinstance(item, ex.Literal):
                drawn = self.values.choice([value for value in generate.INTEGERS if value not in taken])
                options[place] = ex.Literal(drawn)
                taken.add(drawn)
        if self.shape.random() < 0.3:
            options[0] = options[3]
        return ex.In(self._each(role, self.shape.choice("xg")), tuple(options))

    def _null(self, role: Role) -> ex.Expression:
        null = ex.IsNull(self._each(role, self.shape.choice("ysfg")))
        return self.shape.choice([null, ex.Not(null), ex.Not(null), ex.Not(null)])

    def _truth(self, role: Role) -> ex.Expression:
        flag = self._each(role, "f")
        return self.shape.choice([flag, flag, ex.Not(flag), ex.Comparison("!=", flag, ex.Literal(False))])

    def _like(self, role: Role) -> ex.Expression:
        if self.shape.random() < 0.5:
            return ex.Like(self._each(role, "s"), self.shape.choice(generate.LIKE_PATTERNS))
        function = self.shape.choice(["starts_with", "ends_with", "contains"])
        return ex.Call(function, (self._each(role, "s"), ex.Literal(self.values.choice(["a", "b", ""]))))

    # Tests of groups.

    def _against_before(self, role: Role) -> ex.Expression:
        """Return a test of an event of the group against the one before it or all before it."""
        name, column = role.variable, self.shape.choice("xxyg")
        current = self._each(role, column)
        if self.shape.random() < 0.55:
            before: ex.Expression = ex.Reference(name, column, ex.BEFORE)
            if self.shape.random() < 0.2:
                before = ex.Arithmetic("+", before, self.constant("int"))
        else:
            function = self.shape.choice(["sum", "avg", "min", "max", "count", "first", "last"])
            whole = function == "count" and self.shape.random() < 0.5
            before = ex.Aggregate(function, ex.Reference(name, None if whole else column, ex.ALL_BEFORE))
        if self.shape.random() < 0.2:
            return ex.Comparison(self._sign(), before, self.constant("int"))
        return ex.Comparison(self._sign(), current, before)

    def _running(self, role: Role) -> ex.Expression:
        """Return a test of each event against what has been taken so far, itself too."""
        column = self.shape.choice("xxyg")
        return ex.Comparison(self._sign(), self._each(role, column), self._whole(role, column))

    def _count(self, role: Role) -> ex.Expression:
        column = self.shape.choice([None, None, "y", "s"])
        count = ex.Aggregate("count", ex.Reference(role.variable, column))
        return ex.Comparison(self._sign(), count, ex.Literal(self.values.randint(1, 3)))

    def _total(self, role: Role) -> ex.Expression:
        column = self.shape.choice("xxyg")
        if self.shape.random() < 0.15:
            return ex.Comparison(self._sign(), self._whole_text(role), self.constant("text"))
        return ex.Comparison(self._sign(), self._whole(role, column), ex.Literal(self.values.randint(0, 8)))

    def _within_group(self, role: Role) -> ex.Expression:
        column = self.shape.choice("xxyg")
        one, other = (self._whole(role, column) for _ in range(2))
        return ex.Comparison(self._sign(), one, other)

    # Values.

    def _each(self, role: Role, column: str) -> ex.Expression:
        """Return the column of the one event, or of each event of a group."""
        index = self.shape.choice([None, ex.CURRENT]) if role.is_loop else None
        return ex.Reference(role.variable, column, index)

    def _whole(self, role: Role, column: str) -> ex.Expression:
        """Return a number of the whole group."""
        index = self.shape.choice([1, 2, ex.LAST, None, None, None])
        reference = ex.Reference(role.variable, column, index)
        if index is not None:
            return reference
        function = self.shape.choice(
            ["sum", "sum", "avg", "avg", "min", "max", "first", "last", "delta", "count"]
        )
        return ex.Aggregate(function, reference)

    def _whole_text(self, role: Role) -> ex.Expression:
        index = self.shape.choice([1, ex.LAST, None, None])
        reference = ex.Reference(role.variable, "s", index)
        function = self.shape.choice(["min", "max", "first", "last"])
        return reference if index is not None else ex.Aggregate(function, reference)

    def _number(self, role: Role) -> ex.Expression:
        column = self.shape.choice("xxyyg")
        value = self._whole(role, column) if self._asks_whole(role) else self._each(role, column)
        roll = self.shape.random()
        if roll < 0.1:
            return ex.Arithmetic("*", value, ex.Literal(2))
        if roll < 0.15:
            return ex.Call("abs", (value,))
        return value

    def _text(self, role: Role) -> ex.Expression:
        return self._whole_text(role) if self._asks_whole(role) else self._each(role, "s")

    def _flag(self, role: Role) -> ex.Expression:
        if self._asks_whole(role):
            return ex.Reference(role.variable, "f", self.shape.choice([1, ex.LAST]))
        return self._each(role, "f")

    def _clock(self, role: Role) -> ex.Expression:
        if self._asks_whole(role):
            reference = ex.Reference(role.variable, "t")
            return ex.Aggregate(self.shape.choice(["first", "last", "min", "max"]), reference)
        return self._each(role, "t")

    def _asks_whole(self, role: Role) -> bool:
        return role.whole and self.shape.random() < 0.6

    def constant(self, kind: str) -> ex.Expression:
        """Return a literal or a parameter of ``kind``: text, int or float."""
        return self.drawn_constant(kind, [*generate.TEXTS, *generate.TEXTS, "a", ""], 0.15)

    def _sign(self) -> str:
        return self.shape.choice(["<=", "<=", ">=", ">=", "!=", "!=", "<", ">", "=="])
