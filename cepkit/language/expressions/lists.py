"""Read long lists of constants, as in ``symbol in ['AAPL', …]``, without steps of the parser for each item.

The parser sees a text of the same length, with blanks instead of all items but the first. Its tree then gets
the other items. If anything is unusual, the parser reads the whole text. So errors and their places do not
change.
"""

from __future__ import annotations

import re

from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.rebuilding import rebuilt

_FEWEST_ITEMS = 8
# As in expr.lark: texts and quoted names, as the word `in` may occur in them; or the beginning of a list.
_BEGINNING = re.compile(
    r"""'[^']*(?:''[^']*)*'|"[^"]*(?:""[^"]*)*"|`[^`]*(?:``[^`]*)*`|(?<![\w.:])(?ai:in)\s*(?P<bracket>[\[(])\s*"""
)
_ITEM = re.compile(
    r"""(?:(?P<text>'[^']*(?:''[^']*)*'|"[^"]*(?:""[^"]*)*")"""
    r"""|(?P<minus>-\s*)?(?:(?P<decimal>(?:[0-9]{1,18}\.[0-9]{0,18}|\.[0-9]{1,18})(?:[eE][+-]?[0-9]{1,2})?)|"""
    r"""(?P<integer>[0-9]{1,18}))(?![\w.]))\s*(?P<comma>,\s*)?"""
)
_CLOSING = {"[": "]", "(": ")"}

Items = tuple[ex.Expression, ...]


def shortened(text: str) -> tuple[str, dict[int, Items]]:
    """Return the text with only the first item of each long list of constants, and all items of these lists.

    The key of the items is the place where the first item begins.
    """
    items_at: dict[int, Items] = {}
    parts, done, place = [], 0, 0
    while (beginning := _BEGINNING.search(text, place)) is not None:
        place = beginning.end()
        if beginning["bracket"] is None:
            continue
        items, end = _read(text, place, _CLOSING[beginning["bracket"]])
        if len(items) >= _FEWEST_ITEMS:
            first = items[0].span
            items_at[first[0]] = items
            parts += [text[done : first[1]], " " * (end - first[1])]
            done = place = end
    return "".join([*parts, text[done:]]) if items_at else text, items_at


def _read(text: str, place: int, closing: str) -> tuple[Items, int]:
    """Return the constants from ``place`` to a closing bracket, and its place; none for anything else."""
    items: list[ex.Expression] = []
    for item in _ITEM.finditer(text, place):
        if item.start() != place:
            break
        items.append(_constant(item))
        place = item.end()
        if item.lastgroup != "comma":
            break
    return (tuple(items) if text.startswith(closing, place) else ()), place


def _constant(item: re.Match) -> ex.Expression:
    if (token := item["text"]) is not None:
        quote, value = token[0], token[1:-1]
        value = value.replace(quote * 2, quote) if quote in value else value
        return ex.Literal(value, span=item.span("text"))
    kind = "decimal" if item["integer"] is None else "integer"
    span = item.span(kind)
    number = ex.Literal(int(item[kind]) if kind == "integer" else float(item[kind]), span=span)
    return number if item["minus"] is None else ex.Negative(number, span=(item.start(), span[1]))


def with_all_items(tree: ex.Expression, items_at: dict[int, Items]) -> ex.Expression | None:
    """Return the tree with all items of its lists, or None if a list is not where it seemed to be."""
    waiting = dict(items_at)

    def fill(node: ex.Expression) -> ex.Expression:
        if not isinstance(node, ex.In) or len(node.options) != 1:
            return node
        items = waiting.pop(node.options[0].span[0], None)
        return node if items is None else ex.In(node.operand, items, span=node.span)

    filled = rebuilt(tree, ex.Expression, fill)
    return None if waiting else filled
