"""Conditions as text of languages without null: SiddhiQL and Java."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from cepkit.language.expressions import trees as ex
from cepkit.translation.refusing import check_portable, refuse


class Infix(ABC):
    """Prints conditions on events; ``own`` is the variable of the event that is tested.

    Missing values have other rules in these languages, so tests for them are refused.

    """

    target: ClassVar[str]
    words: ClassVar[dict[str, str]]

    def __init__(self, own: str):
        self.own = own

    @abstractmethod
    def column(self, node: ex.Reference) -> str:
        """Return a column of an event."""

    @abstractmethod
    def literal(self, value: object) -> str:
        """Return a constant."""

    @abstractmethod
    def equality(self, sign: str, left: ex.Expression, right: ex.Expression) -> str:
        """Return a test with ``==`` or ``!=``."""

    def item(self, tree: ex.Expression) -> str:
        """Return an expression, in parentheses unless it is a value."""
        text = self.text(tree)
        is_value = isinstance(tree, ex.Reference | ex.Literal | ex.Attribute)
        return text if is_value else f"({text})"

    def text(self, tree: ex.Expression) -> str:
        """Return an expression; raise for parts that the language lacks or understands in another way."""
        check_portable(self.target, "WHERE", tree)
        match tree:
            case ex.Literal(value=None):
                refuse(self.target, "WHERE: null", "missing values have other rules there")
            case ex.Literal(value=value):
                return self.literal(value)
            case ex.Reference(name=str(), index=None | ex.CURRENT):
                return self.column(tree)
            case ex.Negative(operand=operand):
                return f"-{self.item(operand)}" if not _is_number(operand) else f"-{self.text(operand)}"
            case ex.Arithmetic(operator=sign, left=left, right=right):
                return f"{self.item(left)} {sign} {self.item(right)}"
            case ex.Comparison(operator="==" | "!=" as sign, left=left, right=right):
                return self.equality(sign, left, right)
            case ex.Comparison(operator=sign, left=left, right=right):
                for side in (left, right):
                    if isinstance(side, ex.Literal) and isinstance(side.value, str):
                        refuse(self.target, f"WHERE {tree}", "texts and times have no such order there")
                return f"{self.item(left)} {sign} {self.item(right)}"
            case ex.And(operands=operands):
                return self.words["and"].join(map(self.item, operands))
            case ex.Or(operands=operands):
                return self.words["or"].join(map(self.item, operands))
            case ex.Not(operand=operand):
                return f"{self.words['not']}({self.text(operand)})"
            case ex.In(operand=operand, options=options):
                tests = [self.text(ex.Comparison("==", operand, option)) for option in options]
                return tests[0] if len(tests) == 1 else self.words["or"].join(f"({test})" for test in tests)
            case ex.Parameter(name=name):
                refuse(self.target, f"WHERE: :{name}", "its value has no text")
        refuse(self.target, f"WHERE {tree}", "it has no such test")


def _is_number(tree: ex.Expression) -> bool:
    return isinstance(tree, ex.Literal) and isinstance(tree.value, int | float) and tree.value >= 0
