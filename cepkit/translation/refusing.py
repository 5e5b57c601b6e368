"""The error for a clause that has no equal in the target language, and the checks that raise it."""

from __future__ import annotations

from typing import Any, NoReturn

from cepkit.errors import UnsupportedQueryError
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.rebuilding import rebuilt

# Signs and functions with one meaning in all languages. Whole numbers divide differently in SQL and Java.
_SIGNS = ("+", "-", "*")


def refuse(target: str, clause: str, reason: str) -> NoReturn:
    """Raise the error for a clause without an equal in the target language."""
    raise UnsupportedQueryError(f"{clause} has no equal in {target!r}: {reason}")


def check_portable(target: str, clause: str, tree: ex.Expression) -> None:
    """Raise for an expression whose parts may mean something else in another family of languages."""
    for node in tree.walk(literals=False):
        if isinstance(node, ex.Arithmetic) and node.operator not in _SIGNS:
            refuse(target, f"{clause}: {node}", "languages divide whole numbers in different ways")
        if isinstance(node, ex.Call):
            refuse(target, f"{clause}: {node.function}()", "its functions have other names or rules")
        if isinstance(node, ex.Subscript):
            refuse(target, f"{clause}: {node}", "it has no items of array columns")


def with_values(tree: Any, params: dict[str, Any]) -> Any:
    """Return an expression with the values of its parameters.

    Values that no text can spell, such as timestamps, keep the parameter.

    """

    def put(node: ex.Expression) -> ex.Expression:
        if isinstance(node, ex.Parameter) and node.name in params:
            value = params[node.name]
            if isinstance(value, int | float) and not isinstance(value, bool) and value < 0:
                return ex.Negative(ex.Literal(-value))
            if value is None or isinstance(value, bool | int | float | str):
                return ex.Literal(value)
        return node

    return rebuilt(tree, ex.Expression, put)
