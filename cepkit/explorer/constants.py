"""Sliders for the constants and the numbers of rounds in a query's text: places, values, the changed text."""

from __future__ import annotations

import bisect
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from cepkit.errors import CepError
from cepkit.events import ColumnType
from cepkit.explorer.ranges import (
    MOST_POSITIONS,
    POSITIONS,
    Range,
    Ranges,
    SampledRows,
    Variables,
    around,
    nice_step,
    stops_of,
)
from cepkit.explorer.text import TextReading, is_sase
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.durations import NANOSECONDS, UNITS, parse_duration
from cepkit.language.expressions.parsing import parse_expression
from cepkit.language.match_recognize.query import RowsQuery
from cepkit.language.sequences.parsing import clauses, parse_sase
from cepkit.language.sequences.patterns import EventPattern, Loop, SequenceQuery
from cepkit.values import dataclass, replace

_BRACES = re.compile(
    r"""'[^'\n]*'|"[^"\n]*"|`[^`\n]*`"""  # names and texts may contain braces
    r"|\{\s*(?P<low>[0-9]+)?\s*(?P<comma>,)?\s*(?P<high>[0-9]+)?\s*\}"
)
_NAME = re.compile(r"[\w.`]+$")
_LEAST_ROOM = 10  # a slider without an upper limit reaches at least this number


@dataclass(frozen=True, slots=True)
class Repetition:
    """A number of rounds in a text."""

    label: str  # the repeated part with its braces; of two numbers, also which of them it is
    # value, low, high: the number, the least and the greatest number that a slider offers
    value: int
    low: int
    high: int
    is_open: bool  # whether larger numbers than ``high`` are possible
    # start, end: the place of the number in the text
    start: int
    end: int


def repetitions_in(reading: TextReading) -> Iterator[Repetition]:
    r"""Yield the numbers of rounds of a text without mistakes, in the order of the text."""
    text = reading.text
    several = 2 if is_sase(text) else 1  # a sequence calls only several events a repetition
    for begin, stop in _patterns(reading):
        for braces in _BRACES.finditer(text, begin, stop):
            low, high = (None if braces[bound] is None else int(braces[bound]) for bound in ("low", "high"))
            if low is None and high is None:
                continue
            label = _repeated(text[begin : braces.start()]) + "".join(braces[0].split())
            if low is not None:
                least = min(low, 1 if braces["comma"] else several)
                limit = _reach(low) if high is None else high
                which = "" if high is None else ": at least"
                yield Repetition(label + which, low, least, limit, high is None, *braces.span("low"))
            if high is not None:
                which = "" if low is None else ": at most"
                least = max(low or 0, min(high, several))
                yield Repetition(label + which, high, least, _reach(high), True, *braces.span("high"))


def _patterns(reading: TextReading) -> Iterator[tuple[int, int]]:
    """Yield the places of the patterns in a text."""
    if isinstance(reading.query, RowsQuery):
        spans = [part.span for part in reading.query.pattern.walk() if part.span is not None]
        if spans:
            yield min(begin for begin, _ in spans), max(stop for _, stop in spans)
        return
    if is_sase(reading.text):
        yield from ((begin, stop) for word, begin, stop in clauses(reading.text) if word == "PATTERN")
    else:
        yield from ((piece.start, piece.stop) for piece in reading.pieces if piece.name is None)


def _reach(value: int) -> int:
    return max(_LEAST_ROOM, 4 * value)


def _repeated(before: str) -> str:
    """Return the part that braces after a text repeat: a name, or a group in parentheses."""
    if not before.endswith(")"):
        return name[0] if (name := _NAME.search(before)) else ""
    depth = 0
    for place in range(len(before) - 1, -1, -1):
        depth += (before[place] == ")") - (before[place] == "(")
        if not depth:
            group = " ".join(before[place:].split())
            return group if len(group) <= _LEAST_ROOM * 2 else "(…)"
    return ""


# Sliders for the constants in a query's text: their places, their ranges, and the changed text.

_WHOLE, _NUMBER, _DURATION, _EVENTS, _PARAMETER = "whole", "number", "duration", "events", "parameter"
_ROUNDS, _FEWEST_ROUNDS = "rounds", "fewest rounds"
_AMOUNT = re.compile(r"""\s*(?P<quote>['"]?)(?P<amount>[^'"]*?)(?P=quote)\s*(?:,?\s*(?ai:exclusive))?\s*""")
_ONE_PART = re.compile(r"(?P<number>[0-9]+(?:\.[0-9]+)?)(?P<gap>\s*)(?P<unit>[^\W\d]+)")
_COUNT = re.compile(r"(?P<number>[0-9]+)\s*(?ai:events?|rows?)")
_INTERVAL = re.compile(r"""(?ai:\bWITHIN\s+INTERVAL)\s*'(?P<amount>[0-9]+)'\s*(?P<unit>[a-zA-Z]+)""")
_LABEL = 40  # most characters of a label


@dataclass(frozen=True, slots=True)
class Slider:
    """A constant of a query with a slider."""

    # Stable while the query keeps its layout: ``c0``, ``c1``, … in the order of the text, ``n0``, ``n1``, …
    # for numbers of rounds, ``:name`` for a parameter.
    id: str
    label: str  # the condition of the constant
    # ``whole`` or ``number`` in a condition, ``duration``, ``events`` (a number of events), ``rounds`` (of a
    # repetition), ``fewest rounds`` (the first of two numbers), or ``parameter``
    kind: str
    # value, low, high, step: in ``unit``. The value is within the ends. The ends of a new slider are whole
    # steps away from it.
    value: float
    low: float
    high: float
    step: float
    unit: str = ""  # unit of a duration; otherwise empty
    # start, end: the place in the text; -1 for parameters
    start: int = -1
    end: int = -1
    # All values of a logarithmic slider, rising. Empty for a slider with equal steps.
    stops: tuple[float, ...] = ()

    @property
    def text(self) -> str:
        """The constant as the query spells it."""
        return self.spell(self.value)

    def trait(self) -> dict[str, Any]:
        """Return the slider for the widget, which adds the unit after the text."""
        return {
            "id": self.id, "label": self.label, "value": self.value, "low": self.low, "high": self.high,
            "step": self.step, "unit": self.unit, "text": self.text.removesuffix(f" {self.unit}"),
            "stops": list(self.stops),
        }  # fmt: skip

    def round_value(self, value: float) -> float:
        """Return a value of a parameter with the type of the old value."""
        number = float(_number_text(value, is_whole=isinstance(self.value, int)))
        return int(number) if isinstance(self.value, int) else number

    def spell(self, value: float) -> str:
        """Return a value as the query spells it; numbers of rounds stay within their limits."""
        if self.kind in (_ROUNDS, _FEWEST_ROUNDS):
            value = max(round(value), self.low)
            value = min(value, self.high) if self.kind == _FEWEST_ROUNDS else value
        number = _number_text(value, is_whole=self.kind not in (_NUMBER, _PARAMETER))
        return f"{number} {self.unit}" if self.unit else number


def sliders_of(
    reading: TextReading, schema: Mapping[str, ColumnType] | None = None, rows: SampledRows | None = None
) -> tuple[Slider, ...]:
    r"""Return the sliders of a text without mistakes."""
    query = reading.query
    parts = query.pattern.walk() if isinstance(query, SequenceQuery) else ()
    types = {part.variable: part.event_type for part in parts if isinstance(part, EventPattern)}
    ranges = Ranges(dict(schema or {}), rows, Variables(types, dict(query.params)))
    sliders = [*_in_conditions(reading, ranges), *_windows(reading, ranges)]
    sliders.sort(key=lambda slider: slider.start)
    numbered = [replace(slider, id=f"c{i}") for i, slider in enumerate(sliders)]
    return (*numbered, *_rounds(reading), *_parameters(reading, ranges))


def move_slider(text: str, slider: Slider, value: float) -> str:
    """Return the text of a query with another value of a constant."""
    if slider.start < 0:
        raise CepError(f"{slider.id} is a parameter of the call; the text does not contain it")
    return text[: slider.start] + slider.spell(value) + text[slider.end :]


def shape_of(text: str, sliders: Sequence[Slider]) -> tuple:
    """Return a value that is equal for texts with the same automaton and the same conditions."""
    rounds = (slider.value for slider in sliders if slider.kind in (_ROUNDS, _FEWEST_ROUNDS))
    return (layout_of(text, sliders), *rounds)


def layout_of(text: str, sliders: Sequence[Slider]) -> tuple:
    """Return a value that is equal for texts that differ only in the values of sliders."""
    parts, at = [], 0
    for slider in sorted(sliders, key=lambda slider: slider.start):
        if slider.start >= 0:
            parts.append(text[at : slider.start])
            at = slider.end
    return (*parts, text[at:], *(slider.kind for slider in sliders))


def with_ranges_of(sliders: Sequence[Slider], before: Sequence[Slider]) -> tuple[Slider, ...]:
    """Return the sliders with the ends and steps of their predecessors, so that no handle jumps."""
    old_sliders = {(slider.id, slider.kind): slider for slider in before}
    kept = []
    for slider in sliders:
        old = old_sliders.get((slider.id, slider.kind))
        kept.append(slider if old is None else _with_range_of(slider, old))
    return tuple(kept)


def _with_range_of(slider: Slider, old: Slider) -> Slider:
    """Return a slider with the range of the old one, if both have the same constant."""
    if slider.kind == _FEWEST_ROUNDS:
        return slider
    if slider.kind == _ROUNDS:
        return replace(slider, high=max(old.high, slider.value))
    if (value := _in_unit(slider, old.unit)) is None:
        return slider
    return _with_value(replace(old, value=value, start=slider.start, end=slider.end, label=slider.label))


def _with_value(slider: Slider) -> Slider:
    """Return a slider whose ends are moved by whole steps, so that its value is within them."""
    value, step = slider.value, slider.step
    if slider.stops:
        stops = list(slider.stops)
        if value not in stops:
            bisect.insort(stops, value)
        return replace(slider, stops=tuple(stops), low=stops[0], high=stops[-1])
    below = max(0, math.ceil((slider.low - value) / step - 1e-9))
    above = max(0, math.ceil((value - slider.high) / step - 1e-9))
    low, high = slider.low - below * step, slider.high + above * step
    if slider.kind in (_DURATION, _EVENTS) and low <= 0 < value:
        low = value
    return replace(slider, low=_tidy(low), high=_tidy(high))


def _in_unit(slider: Slider, unit: str) -> float | None:
    """Return the value of a slider in a unit, or None if it is not a whole number of units."""
    if slider.unit == unit:
        return slider.value
    whole, rest = divmod(slider.value * NANOSECONDS[slider.unit], NANOSECONDS[unit])
    return None if rest else whole


# --- constants in conditions


def _in_conditions(reading: TextReading, ranges: Ranges) -> Iterator[Slider]:
    """Yield a slider for each constant in the conditions of a query."""
    for name, tree, offset in _trees(reading):
        for condition in ex.conjuncts(tree):
            yield from _of_condition(reading.text, name, condition, offset, ranges)


def _trees(reading: TextReading) -> Iterator[tuple[str, ex.Expression, int]]:
    """Yield the name, tree and offset of every condition; spans of the tree count from the offset."""
    text = reading.text
    if isinstance(reading.query, RowsQuery):
        for name, tree in reading.query.define:
            yield name, tree, 0
        return
    if is_sase(text):
        parts = parse_sase(text)
        if parts.where is not None:
            yield "", parts.where, 0
        for node in parts.pattern.walk():
            if isinstance(node, EventPattern):
                yield from ((node.variable, tree, 0) for tree in node.conditions)
            if isinstance(node, Loop) and node.until is not None:
                yield "until", node.until, 0
        return
    for piece in reading.pieces:
        if piece.name not in (None, "within"):
            condition = text[piece.start : piece.stop]
            yield piece.name, parse_expression(condition, role=f"predicate {piece.name!r}"), piece.start


def _of_condition(
    text: str, name: str, condition: ex.Expression, offset: int, ranges: Ranges
) -> Iterator[Slider]:
    """Yield the sliders for the constants of a condition."""
    for comparison in condition.walk():
        if not isinstance(comparison, ex.Comparison) or comparison.span is None:
            continue
        low, high = comparison.span[0] + offset, comparison.span[1] + offset
        words = " ".join(text[low:high].split())
        label = f"{name}: {words}" if name else words
        label = label if len(label) <= _LABEL else label[: _LABEL - 1] + "…"
        for side, other in ((comparison.left, comparison.right), (comparison.right, comparison.left)):
            for value, span in _constants(side):
                start, end = span[0] + offset, span[1] + offset
                if isinstance(value, str):
                    yield from _duration(text, label, start + 1, end - 1, ranges.clock_unit(other))
                    continue
                constant = next(node for node in side.walk() if node.span == span)
                reach = ranges.of_constant(comparison, constant, value, name)
                is_float = isinstance(value, float) or ranges.has_fractions(comparison)
                yield _slider(label, value, reach, is_float, start, end)


def _constants(tree: ex.Expression, is_alone: bool = True) -> Iterator[tuple[Any, tuple[int, int]]]:
    """Yield value and span of the constants of a side that can have a slider."""
    match tree:
        case ex.Negative(operand=ex.Literal(value=value)) if _is_number(value) and tree.span is not None:
            yield -value, tree.span
        case ex.Literal(value=value) if tree.span is not None:
            if _is_number(value) or (isinstance(value, str) and is_alone):
                yield value, tree.span
        case ex.Negative(operand=operand):
            yield from _constants(operand, False)
        case ex.Arithmetic(left=left, right=right):
            yield from _constants(left, False)
            yield from _constants(right, False)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _slider(label: str, value: float, reach: Range, is_float: bool, start: int, end: int) -> Slider:
    """Return a slider for a number, with a range and steps that fit it."""
    kind = _NUMBER if is_float else _WHOLE
    if reach.is_logarithmic:
        stops = stops_of(reach, value, is_whole=not is_float)
        step = min(b - a for a, b in pairwise(stops)) if len(stops) > 1 else 1
        return Slider("", label, kind, value, stops[0], stops[-1], _tidy(step), "", start, end, stops)
    step = _step_for(reach, value) if is_float else max(1, _step_for(reach, value))
    low = math.floor(reach.low / step + 1e-9) * step
    high = math.ceil(reach.high / step - 1e-9) * step
    return _on_steps(Slider("", label, kind, value, low, high, step, "", start, end))


def _step_for(reach: Range, value: float) -> float:
    """Return a nice step with 80 to 200 positions, or a finer one that meets the value if there is one."""
    width = reach.high - reach.low
    step = finer = nice_step(width / (0.4 * POSITIONS))
    while width / finer <= MOST_POSITIONS:
        if abs(value / finer - round(value / finer)) < 1e-9:
            return finer
        finer = nice_step(finer * 0.6)
    return step


def _on_steps(slider: Slider) -> Slider:
    """Return the slider with ends that are whole steps away from its value, as browsers require."""
    below = math.ceil((slider.value - slider.low) / slider.step - 1e-9)
    above = math.ceil((slider.high - slider.value) / slider.step - 1e-9)
    low, high = slider.value - below * slider.step, slider.value + above * slider.step
    if slider.kind in (_DURATION, _EVENTS) and low <= 0 < slider.value:
        low += slider.step * math.floor(1 - low / slider.step)
    return replace(slider, low=_tidy(low), high=_tidy(high))


def _tidy(value: float) -> float:
    """Return a number without the rounding errors of added steps."""
    return value if isinstance(value, int) else float(f"{value:.12g}")


def _duration(text: str, label: str, start: int, end: int, column_unit: str | None) -> Iterator[Slider]:
    """Yield the slider of the text from ``start`` to ``end`` if it is a duration."""
    words = text[start:end]
    try:
        nanoseconds = parse_duration(words)
    except CepError:
        return
    part = _ONE_PART.fullmatch(words.strip())
    unit = UNITS[part["unit"].lower()] if part else "s"
    names = list(NANOSECONDS)
    if part is None or nanoseconds < 5 * NANOSECONDS[unit]:
        # Choose a unit that fits at least five times into the duration, but is no finer than the column's.
        finest = names.index(column_unit) if column_unit in names else len(names) - 1
        places = range(names.index(unit if part else "w"), finest + 1)
        unit = next(
            (n for n in (names[i] for i in places) if nanoseconds >= 5 * NANOSECONDS[n]), names[finest]
        )
    if nanoseconds % NANOSECONDS[unit]:
        unit = next(name for name in names if nanoseconds % NANOSECONDS[name] == 0)
    yield _whole_slider(label, _DURATION, nanoseconds // NANOSECONDS[unit], start, end, unit)


def _whole_slider(label: str, kind: str, value: int, start: int, end: int, unit: str = "") -> Slider:
    """Return the slider of a whole number up to four times its value."""
    high = max(10, 4 * value)
    step = max(1, round(nice_step(high / POSITIONS)))
    low = step if kind == _DURATION else min(step, value)
    return _on_steps(Slider("", label, kind, value, low, high, step, unit, start, end))


# --- numbers of rounds, windows and parameters


def _rounds(reading: TextReading) -> Iterator[Slider]:
    """Yield a slider for the number of rounds of each loop."""
    for i, loop in enumerate(repetitions_in(reading)):
        kind = _ROUNDS if loop.is_open else _FEWEST_ROUNDS
        yield Slider(f"n{i}", loop.label, kind, loop.value, loop.low, loop.high, 1, "", loop.start, loop.end)


def _windows(reading: TextReading, ranges: Ranges) -> Iterator[Slider]:
    """Yield the sliders for the lengths of the windows of a query."""
    query, text = reading.query, reading.text
    if isinstance(query, RowsQuery):
        yield from _window_of_rows(text)
        return
    clock = query.order_by[0] if query.order_by else None
    unit = ranges.schema[clock].unit if clock in ranges.schema else None
    if is_sase(text):
        places = [
            ("within" if word == "WITHIN" else "gap", start, stop)
            for word, start, stop in clauses(text)
            if word in ("WITHIN", "GAP")
        ]
    else:
        places = [("within", piece.start, piece.stop) for piece in reading.pieces if piece.name == "within"]
    for label, start, stop in places:
        window = _AMOUNT.fullmatch(text, start, stop)
        if window is None:
            continue
        first, last = window.span("amount")
        amount = window["amount"]
        if count := _COUNT.fullmatch(amount):
            value, last = int(count["number"]), first + len(count["number"])
            yield Slider("", label, _EVENTS, value, 1, max(10, 4 * value), 1, "", first, last)
        elif amount.isdecimal():
            yield _whole_slider(label, _WHOLE, int(amount), first, last)
        else:
            yield from _duration(text, label, first, last, unit)


def _window_of_rows(text: str) -> Iterator[Slider]:
    """Yield the slider of Flink's ``WITHIN INTERVAL '2' HOUR``."""
    for interval in _INTERVAL.finditer(text):
        if interval["unit"].lower() in UNITS:
            label = f"within, {interval['unit'].lower()}"
            yield _whole_slider(label, _WHOLE, int(interval["amount"]), *interval.span("amount"))


def _parameters(reading: TextReading, ranges: Ranges) -> Iterator[Slider]:
    """Yield the sliders for the parameters of a query that are numbers."""
    for name, value in reading.query.params:
        if not _is_number(value):
            continue
        reach, is_float = _reach_of_parameter(reading, name, value, ranges), isinstance(value, float)
        yield replace(_slider(f":{name}", value, reach, is_float, -1, -1), id=f":{name}", kind=_PARAMETER)


def _reach_of_parameter(reading: TextReading, name: str, value: float, ranges: Ranges) -> Range:
    """Return the range of a parameter from the first comparison that names it."""
    for variable, tree, _ in _trees(reading):
        for comparison in tree.walk():
            if isinstance(comparison, ex.Comparison):
                for node in comparison.walk():
                    if isinstance(node, ex.Parameter) and node.name == name:
                        return ranges.of_constant(comparison, node, value, variable)
    return around(value)


def _number_text(value: float, *, is_whole: bool) -> str:
    """Return a number without rounding errors of steps. A float stays a float: the query keeps its shape."""
    if is_whole:
        return str(round(value))
    return np.format_float_positional(_tidy(float(value)), trim="0")
