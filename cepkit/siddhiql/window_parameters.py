"""Check the parameters of windows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cepkit.errors import nearest
from cepkit.events import ColumnType
from cepkit.language.expressions import trees as ex
from cepkit.language.siddhi.building import Milliseconds
from cepkit.language.siddhi.printing import print_condition
from cepkit.language.siddhi.query import WindowHandler
from cepkit.siddhiql.calls import Scope, SlotOf
from cepkit.siddhiql.functions import INT, LONG
from cepkit.siddhiql.windows import KNOWN_WINDOWS, WindowPlan

_SAME_NAME = {name.lower(): name for name in KNOWN_WINDOWS}


def plan_window(
    handler: WindowHandler | None,
    slot: SlotOf,
    with_expired: bool,
    is_searched: bool,
    ticks_per_ms: int,
    scope: Scope,
) -> WindowPlan | None:
    """Return the plan of a window; None for a stream without a window."""
    if handler is None:
        return WindowPlan("", with_expired=with_expired, is_searched=True) if is_searched else None
    name = _SAME_NAME.get(handler.name.lower())
    place = ex.Attribute(handler.name, span=handler.span)
    if name is None:
        hint = nearest(handler.name, KNOWN_WINDOWS)
        raise scope.error(
            place,
            f"#window.{handler.name} does not run; windows: {', '.join(KNOWN_WINDOWS)}{hint and '.' + hint}",
        )
    reader = _Parameters(name, handler.arguments, slot, scope, place)
    common: dict[str, Any] = {
        "name": name, "with_expired": with_expired, "is_searched": is_searched,
    }  # fmt: skip
    plan = _read(reader, common, ticks_per_ms)
    reader.end()
    return plan


def _read(reader: _Parameters, common: dict[str, Any], per_ms: int) -> WindowPlan:
    name = common["name"]
    match name:
        case "length":
            return WindowPlan(**common, length=reader.count(1))
        case "lengthBatch":
            length = reader.count(0)
            return WindowPlan(**common, length=length, at_once=reader.truth())
        case "time":
            return WindowPlan(**common, width=reader.time() * per_ms)
        case "timeLength":
            width = reader.time() * per_ms
            return WindowPlan(**common, width=width, length=reader.count(1))
        case "timeBatch":
            width = reader.time() * per_ms
            start = reader.optional_time()
            start = None if start is None else start * per_ms
            return WindowPlan(**common, width=width, start=start, at_once=reader.truth())
        case "sort":
            length = reader.count(1)
            places, signs = reader.sort_columns()
            return WindowPlan(**common, length=length, places=places, signs=signs)
    clock, unit = reader.clock()
    width = reader.time() * unit
    if name == "externalTime":
        return WindowPlan(**common, places=(clock,), width=width)
    start_place = reader.optional_clock()
    start = reader.optional_time() if start_place is None else None
    timeout = (reader.optional_time() or 0) * per_ms
    return WindowPlan(
        **common, places=(clock,), width=width, start=None if start is None else start * unit,
        start_place=start_place, timeout=timeout, shows_end=reader.truth(),
    )  # fmt: skip


class _Parameters:
    """The parameters of a window, read from left to right."""

    def __init__(
        self, name: str, arguments: Sequence[ex.Expression], slot: SlotOf, scope: Scope, place: ex.Expression
    ):
        self._name, self._left, self._slot, self._scope = name, list(arguments), slot, scope
        self._place = place
        self._optional: list[str] = []  # the optional parameters that could come next

    def _refuse(self, wanted: str) -> Exception:
        if not self._left:
            return self._scope.error(
                self._place, f"#window.{self._name} takes {wanted} here, but its parameters end"
            )
        node = self._left[0]
        instead = (
            f"and {self._shown(node)} is one" if wanted == "no parameter" else f"not {self._shown(node)}"
        )
        return self._scope.error(node, f"#window.{self._name} takes {wanted} here, {instead}")

    def _shown(self, node: ex.Expression) -> str:
        if isinstance(node, ex.Literal) and isinstance(node.value, Milliseconds):
            return f"the time {print_condition(node)}"
        return print_condition(node)

    def _check_attribute(self, node: ex.Attribute) -> None:
        """Raise if the stream has no such attribute."""
        scope = self._scope
        Scope(scope.slots, scope.source, f"#window.{self._name}", scope.current).attribute(node)

    def count(self, least: int) -> int:
        """Return the next parameter, a number of events. It is required."""
        node = self._left[0] if self._left else None
        if not isinstance(node, ex.Literal) or type(node.value) is not int:
            raise self._refuse("a number of events")
        if node.value < least:
            raise self._refuse(f"a number of events of {least} or more")
        self._left.pop(0)
        return node.value

    def time(self) -> int:
        """Return the next parameter, a time in milliseconds. It is required."""
        value = self._next_time()
        if not value:
            raise self._refuse("a time such as 5 sec" if value is None else "a time above 0")
        self._left.pop(0)
        return value

    def optional_time(self) -> int | None:
        """Return a time in milliseconds if one comes next."""
        value = self._next_time()
        if value is not None:
            self._left.pop(0)
        else:
            self._optional.append("a time")
        return value

    def _next_time(self) -> int | None:
        """Return a time. A plain number counts milliseconds."""
        node = self._left[0] if self._left else None
        if isinstance(node, ex.Literal) and isinstance(node.value, int) and not isinstance(node.value, bool):
            return int(node.value)
        return None

    def truth(self) -> bool:
        """Return true or false if one comes next, else False."""
        node = self._left[0] if self._left else None
        if isinstance(node, ex.Literal) and isinstance(node.value, bool):
            self._left.pop(0)
            self._optional.clear()
            return node.value
        self._optional.append("true or false")
        return False

    def optional_clock(self) -> int | None:
        """Return the place of an attribute of times, if one comes next."""
        if self._left and isinstance(self._left[0], ex.Attribute):
            return self.clock()[0]
        return None

    def clock(self) -> tuple[int, int]:
        """Return the place of an attribute of times, and its ticks for a millisecond."""
        node = self._left[0] if self._left else None
        if not isinstance(node, ex.Attribute):
            raise self._refuse("an attribute of times")
        self._check_attribute(node)
        place, kind = self._slot.attributes[node.name]
        if isinstance(kind, ColumnType):
            self._left.pop(0)
            if kind.unit == "s":
                raise self._scope.error(node, f"{node.name} counts seconds; Siddhi's times are milliseconds")
            return place, {"ms": 1, "us": 1_000, "ns": 1_000_000}[kind.unit or "ms"]
        if kind not in (INT, LONG):
            raise self._refuse("an attribute of type long")
        self._left.pop(0)
        return place, 1

    def sort_columns(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return places and directions of the attributes that a window sorts by."""
        places: list[int] = []
        signs: list[int] = []
        while self._left:
            node = self._left[0]
            if isinstance(node, ex.Literal) and node.value in ("asc", "desc") and places:
                signs[-1] = 1 if node.value == "asc" else -1
            elif isinstance(node, ex.Attribute):
                self._check_attribute(node)
                places.append(self._slot.attributes[node.name][0])
                signs.append(1)
            else:
                raise self._refuse("attributes, each with 'asc' or 'desc'")
            self._left.pop(0)
        if not places:
            raise self._refuse("an attribute to sort by")
        return tuple(places), tuple(signs)

    def end(self) -> None:
        """Raise for parameters that the window does not take."""
        if self._left:
            raise self._refuse(" or ".join(dict.fromkeys(self._optional)) or "no parameter")
