"""The meaning of EQL, event by event, in plain Python. Nothing of the package but the trees is imported.

Events are mappings in stream order; a result is a tuple of row numbers, None for an item that is missing.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Sequence
from typing import Any

from cepkit.language import eql as q
from cepkit.language.expressions import trees as ex

Row = dict[str, Any]


def value(node: ex.Expression, row: Row) -> Any:
    """Return the value of an expression for an event; None is null."""
    match node:
        case ex.Literal(value=literal):
            return literal
        case q.EqlField(parts=parts):
            return row.get(".".join(map(str, parts)))
        case ex.And(operands=operands):
            truths = [value(part, row) for part in operands]
            return False if False in truths else None if None in truths else True
        case ex.Or(operands=operands):
            truths = [value(part, row) for part in operands]
            return True if True in truths else None if None in truths else False
        case ex.Not(operand=operand):
            truth = value(operand, row)
            return None if truth is None else not truth
        case ex.Comparison(operator=sign, left=left, right=right):
            if sign in ("==", "!=") and ex.Literal(None) in (left, right):
                other = right if left == ex.Literal(None) else left
                return (value(other, row) is None) == (sign == "==")
            a, b = value(left, row), value(right, row)
            if a is None or b is None:
                return None
            return {"==": a == b, "!=": a != b}[sign] if sign in ("==", "!=") else _ordered(sign, a, b)
        case q.EqlLookup(operand=operand, word=word, options=options):
            text = value(operand, row)
            if text is None:
                return None
            values = [value(option, row) for option in options]
            if any(_fits(word, text, option) for option in values if option is not None):
                return True
            return None if None in values else False
        case ex.Negative(operand=operand):
            number = value(operand, row)
            return None if number is None else -number
        case ex.Arithmetic(operator=sign, left=left, right=right):
            a, b = value(left, row), value(right, row)
            if a is None or b is None or (sign in "/%" and b == 0):
                return None
            cut = int(a / b) if sign in "/%" else 0  # numbers of tests are small
            return {"+": a + b, "-": a - b, "*": a * b, "/": cut, "%": a - cut * b}[sign]
        case ex.Call(function=name, arguments=arguments):
            values = [value(argument, row) for argument in arguments]
            return None if None in values else _called(name, values)
    raise TypeError(node)


def _ordered(sign: str, a: Any, b: Any) -> bool:
    return a < b if sign == "<" else a <= b if sign == "<=" else a > b if sign == ">" else a >= b


def _fits(word: str, text: Any, option: Any) -> bool:
    if word == "in":
        return text == option
    text, option = str(text), str(option)
    if word.endswith(("~", ":")):
        text, option = text.lower(), option.lower()
    if word.startswith("in"):
        return text == option
    if word.startswith("regex"):
        return re.fullmatch(option, text) is not None
    return fnmatch.fnmatchcase(text, option.replace("[", "[[]"))


def _called(name: str, values: list[Any]) -> Any:
    if name.endswith("~"):
        name, values = name[:-1], [v.lower() if isinstance(v, str) else v for v in values]
    match name, values:
        case "length", (text,):
            return len(text)
        case "startsWith", (text, begin):
            return text[: len(begin)] == begin
        case "endsWith", (text, end):
            return text[len(text) - len(end) :] == end if len(end) <= len(text) else False
        case "stringContains", (text, part):
            return part != "" and part in text
        case "substring", (text, first, last):
            return text[first:last]
        case "concat", _:
            return "".join(str(v) for v in values)
        case "indexOf", (text, part):
            return next((i for i in range(len(text)) if text[i : i + len(part)] == part), None)
    raise TypeError(name)


def fits(event: q.EqlEvent, row: Row, category: str) -> bool:
    """Return whether an event is of a category and fulfils the condition."""
    is_of_category = event.category == "any" or row[category] == event.category
    return is_of_category and value(event.condition, row) is True


def key_of(query: q.EqlQuery, item: q.EqlItem, row: Row) -> tuple | None:
    """Return the key of an event for an item; None if a part of it is null and not optional."""
    parts = [(node, value(node, row)) for node in (*query.by, *item.by)]
    is_whole = all(part is not None or getattr(node, "is_optional", False) for node, part in parts)
    return tuple(part for _, part in parts) if is_whole else None


def sequences(
    query: q.EqlQuery, rows: Sequence[Row], category: str, clock: str, span: int | None
) -> list[tuple]:
    """Return the sequences by the states of a machine for each key, as the documentation draws them.

    Each state has at most one pending sequence. An event moves the sequence before a state into it, a newer
    one takes the place of an older one, and the event of ``until`` clears the states.
    """
    items = [item for item in query.items for _ in range(item.runs)]
    there = [place for place, item in enumerate(items) if not item.is_missing]

    def key(item: q.EqlItem, i: int) -> tuple | None:
        return key_of(query, item, rows[i]) if fits(item.event, rows[i], category) else None

    states: dict[tuple, dict[int, tuple[int, ...]]] = {}
    complete: list[tuple[tuple, tuple[int, ...]]] = []
    for i in range(len(rows)):
        keys = [key(items[place], i) for place in there]
        for stage in reversed(range(len(there))):
            if keys[stage] is None:
                continue
            state = states.setdefault(keys[stage], {})
            if stage and stage - 1 not in state:
                continue
            events = (*(state.pop(stage - 1) if stage else ()), i)
            if span is not None and rows[i][clock] - rows[events[0]][clock] > span:
                continue
            if stage == len(there) - 1:
                complete.append((keys[stage], events))
            else:
                state[stage] = events
        if query.until is not None and (ended := key(query.until, i)) is not None:
            pending = states.get(ended, {})
            states[ended] = {stage: events for stage, events in pending.items() if events[-1] == i}
    results = []
    for matched, events in complete:
        placed = dict(zip(there, events, strict=True))
        begins, ends, is_dropped = [], [], False
        for place, item in enumerate(items):
            if not item.is_missing:
                continue
            at = [i for i in range(len(rows)) if key(item, i) == matched]
            if place < there[0]:
                begins += [
                    i for i in at if i < events[0] and rows[events[-1]][clock] - rows[i][clock] <= span
                ]
            elif place > there[-1]:
                ends += [i for i in at if i > events[-1] and rows[i][clock] - rows[events[0]][clock] <= span]
            else:
                low = max(placed[other] for other in there if other < place)
                high = min(placed[other] for other in there if other > place)
                is_dropped |= any(low < i < high for i in at)
        if items[0].is_missing and items[-1].is_missing:
            is_dropped |= any(rows[b][clock] - rows[a][clock] <= span for a in begins for b in ends)
        else:
            is_dropped |= bool(begins or ends)
        if not is_dropped:
            results.append(tuple(placed.get(place) for place in range(len(items))))
    return results
