"""Functions of a place in a match, the rows that they read, and errors of types that do not go together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NoReturn, Protocol

from cepkit.compile.shared.row_automaton import ACCEPT as MATCH
from cepkit.compile.shared.row_automaton import RowAutomaton
from cepkit.errors import CepError, PredicateError, short_text
from cepkit.events import BOOLEAN, DURATION, FLOAT, INTEGER, LIST, MAP, NUMBERS, OTHER, TEXT, TIME, ColumnType
from cepkit.language.expressions import trees as ex
from cepkit.language.match_recognize import query as rp
from cepkit.language.match_recognize.printing import print_sql
from cepkit.values import dataclass, replace

# Functions of a place in a match, and what they can ask about it.


class Place(Protocol):
    """What an expression can ask about a match, or a partial one, at its current row."""

    # PREV and NEXT see the rows from ``low`` to ``n_rows``. A partial match that ran out of time has no
    # number.

    columns: Mapping[str, Sequence[Any]]
    n_rows: int
    number: int | None
    low: int

    def nth(self, variable: str | None, from_first: bool, offset: int, final: bool) -> int:
        """Return the row ``offset`` rows after the first of a variable, or before the last; -1 if none."""
        # None stands for all variables.
        ...

    def label(self, row: int) -> str | None:
        """Return the variable of a row; None outside the match."""
        ...

    def total(self, aggregate: RowTotal) -> Any: ...


# A function of a place. The row counts inside FIRST, LAST, PREV, NEXT and aggregates; elsewhere it is -1.
Value = Callable[[Any, int], Any]


@dataclass(frozen=True, eq=False)
class RowTotal:
    """An aggregate whose arguments are functions of single rows; ``tree`` is where it comes from."""

    tree: rp.RowAggregate
    arguments: tuple[Value, ...]
    variable: str | None
    is_of_times: bool = False

    @property
    def function(self) -> str:
        """The name of the aggregate among `AGGREGATES`."""
        is_mean = self.is_of_times and self.tree.function == "avg"
        return "avg_of_times" if is_mean else self.tree.function


@dataclass(frozen=True)
class Compiled:
    """A bound expression: a function of a place, its type, and what vectors and registers read."""

    # A constant gives the same value at every place. ``text`` is the text of the query for a constant text or
    # time. A constant text next to a time or an interval becomes one, and a time takes the zone of the other.
    # ``op`` names the operation on ``parts``, with its details in ``data``. It is empty if only the function
    # computes it. ``tree`` is where it comes from; a conversion comes from none.

    call: Value
    type: ColumnType
    is_constant: bool = False
    text: str | None = None
    op: str = ""
    parts: Sequence[Compiled] = ()
    data: Any = None
    tree: ex.Expression | None = None

    def walk(self) -> Iterator[Compiled]:
        """Yield this expression and all below it."""
        yield self
        for part in self.parts:
            yield from part.walk()


def constant(value: Any, kind: ColumnType, text: str | None = None) -> Compiled:
    """Return a function that gives the same value at every place."""
    return Compiled(lambda place, row: value, kind, True, text)


def constant_of(value: Any) -> Compiled:
    """Return a number, a text, a truth value or a null of a query as a function."""
    return constant(value, type_of_constant(value), value if isinstance(value, str) else None)


def type_of_constant(value: Any) -> ColumnType:
    """Return the type of a Python value of a query."""
    return ColumnType(_KIND_OF_CONSTANT.get(type(value), OTHER))


_KIND_OF_CONSTANT = {bool: BOOLEAN, int: INTEGER, float: FLOAT, str: TEXT}


def strict(
    function: Callable[..., Any], parts: Sequence[Compiled], kind: ColumnType,
    tree: ex.Expression | None = None, op: str = "", data: Any = None,
) -> Compiled:  # fmt: skip
    """Return a function that is null if an argument is null, or where it is not defined."""
    calls = [part.call for part in parts]

    def call(place: Place, row: int) -> Any:
        values = [call(place, row) for call in calls]
        if any(value is None for value in values):
            return None
        try:
            return function(*values)
        except CepError:
            raise
        except (ArithmeticError, ValueError):
            return None
        except TypeError:
            text = "" if tree is None else f" in {print_sql(tree)}"
            kinds = " and ".join(type(value).__name__ for value in values)
            raise PredicateError(f"values of types {kinds} do not go together{text}") from None

    return Compiled(call, kind, op=op, parts=parts, data=data)


def all_of(parts: Sequence[Compiled]) -> Compiled:
    """Return whether all conditions hold: unknown if none is false and one is unknown."""
    calls = [part.call for part in parts]

    def call(place: Place, row: int) -> bool | None:
        truth: bool | None = True
        for holds in calls:
            value = holds(place, row)
            if value is False:
                return False
            truth = None if value is None else truth
        return truth

    return Compiled(call, ColumnType(BOOLEAN), op="and", parts=parts)


# Navigations of MATCH_RECOGNIZE: the rows that FIRST, LAST, PREV and NEXT read.


@dataclass(frozen=True, slots=True)
class ReadRow:
    """The row that a navigation reads: ``distance`` rows after a row of a variable."""

    # ``offset`` is the number of rows of the variable between that row and the first or the last one. With
    # ``final`` the last row is that of the whole match.

    from_first: bool
    offset: int
    final: bool
    distance: int


def row_read_by(tree: rp.Navigation) -> tuple[ex.Expression, ReadRow]:
    """Return what a navigation reads, and at which row. PREV moves back, and FIRST and LAST do not move."""
    inner, distance = tree, 0
    if tree.function in ("prev", "next"):
        distance = 1 if tree.offset is None else tree.offset
        distance = distance if tree.function == "next" else -distance
        if not isinstance(tree.operand, rp.Navigation):
            return tree.operand, ReadRow(False, 0, False, distance)
        inner = tree.operand
    return inner.operand, ReadRow(inner.function == "first", inner.offset or 0, bool(inner.final), distance)


def reach_of(terms: Iterable[Compiled]) -> tuple[int, int]:
    """Return how many rows PREV looks back and NEXT looks ahead, at most."""
    moves = [node.data[0].distance for term in terms for node in term.walk() if node.op == "navigation"]
    return -min([0, *moves]), max([0, *moves])


# Rows of variables that have the same place in every match, as in ``A B+ C``.


def fixed_position(
    automaton: RowAutomaton, members: Iterable[str], *, from_first: bool, offset: int
) -> tuple[bool, int] | None:
    """Return the place of a variable's row if all matches have it at the same distance from an end."""
    wanted = {s for s, name in enumerate(automaton.variable_of_state) if name in set(members)}
    after = [{state for side in lists for state in side} for lists in automaton.follow]
    start = after[automaton.start]
    if MATCH in start:
        return None
    before: list[set[int]] = [set() for _ in after]
    for state, targets in enumerate(after[:-1]):
        for target in targets - {MATCH}:
            before[target].add(state)
    enders = {state for state, targets in enumerate(after[:-1]) if MATCH in targets}
    distance = None
    if from_first or (offset == 0 and _occurs_once(after, wanted)):
        distance = _distance(start, [states - {MATCH} for states in after], enders, wanted, offset)
    if distance is not None:
        return True, distance
    if not from_first or (offset == 0 and _occurs_once(after, wanted)):
        distance = _distance(enders, before, start, wanted, offset)
    return None if distance is None else (False, distance)


def is_run(automaton: RowAutomaton, members: Iterable[str]) -> bool:
    """Return whether all rows between two rows of a variable are rows of it, in every match."""
    wanted = {s for s, name in enumerate(automaton.variable_of_state) if name in set(members)}
    after = [{state for side in lists for state in side} for lists in automaton.follow]
    left = {target for state in wanted for target in after[state]} - wanted
    return not _reaches(after, left - {MATCH}, wanted)


def _occurs_once(after: list[set[int]], wanted: set[int]) -> bool:
    """Return whether no wanted state can follow a wanted state, sooner or later."""
    return not _reaches(after, {target for state in wanted for target in after[state]}, wanted)


def _reaches(after: list[set[int]], first: Iterable[int], wanted: set[int]) -> bool:
    """Return whether a wanted state is among some states, or can follow them sooner or later."""
    waiting, seen = list(first), set()
    while waiting:
        state = waiting.pop()
        if state in wanted:
            return True
        if state != MATCH and state not in seen:
            seen.add(state)
            waiting.extend(after[state])
    return False


def _distance(
    first: set[int], steps: list[set[int]], last: set[int], wanted: set[int], offset: int
) -> int | None:
    """Return the number of steps to a wanted state, after ``offset`` others, if all ways have the same."""
    now, left = set(first), offset
    for distance in range(len(steps)):
        if now <= wanted:
            if left == 0:
                return distance
            left -= 1
        elif now & wanted:
            return None
        if not now or now & last:  # a match may end here
            return None
        now = set().union(*(steps[state] for state in now))
    return None


# What types do not go together in MATCH_RECOGNIZE, and the errors that say what to write instead.

_MANY = {
    INTEGER: "numbers", FLOAT: "numbers", TEXT: "texts", BOOLEAN: "truth values", TIME: "times",
    DURATION: "intervals", LIST: "lists", MAP: "maps",
}  # fmt: skip
_ONE = {
    INTEGER: "an integer", FLOAT: "a float", TEXT: "a text", BOOLEAN: "a truth value", TIME: "a time",
    DURATION: "an interval", LIST: "a list", MAP: "a map",
}  # fmt: skip
_AS_CONDITION = {
    INTEGER: "{} <> 0", FLOAT: "{} <> 0", TEXT: "{} = 'x'", TIME: "{} > TIMESTAMP '2024-01-31 09:30:00'",
    DURATION: "{} > INTERVAL '1' DAY", LIST: "CARDINALITY({}) > 0", MAP: "CARDINALITY({}) > 0",
}  # fmt: skip
SECOND = "INTERVAL '1' SECOND"


def sql_of(tree: ex.Expression) -> str:
    """Return an expression as an error shows it."""
    return short_text(print_sql(tree))


def _error(tree: ex.Expression, message: str) -> PredicateError:
    """Return an error with the place of an expression in the text of the query."""
    error = PredicateError(message)
    error.span = tree.span
    return error


def refuse_non_boolean(tree: ex.Expression, kind: ColumnType, what: str = "a condition") -> None:
    """Raise if a condition has a type whose values are not true or false."""
    if kind.kind in _AS_CONDITION:
        sql = sql_of(tree)
        written = _AS_CONDITION[kind.kind].format(sql)
        raise _error(tree, f"{what} is true or false, and {sql} is {_ONE[kind.kind]}; write {written}")


def refuse_comparison(tree: ex.Expression, sides: Sequence[tuple[ex.Expression, ColumnType]]) -> None:
    """Raise for a comparison of types that do not go together. A text may be compared with a time."""
    kinds = {kind.kind for _, kind in sides}
    numbers = [side for side, kind in sides if kind.kind in NUMBERS]
    if DURATION in kinds and numbers:
        raise _error(tree, f"{_interval_of(numbers[0])}, in {sql_of(tree)}")
    if TIME in kinds and numbers:
        number = sql_of(numbers[0])
        raise _error(
            tree,
            f"a time cannot be compared with the number {number}; write a time, as in "
            f"TIMESTAMP '2024-01-31 09:30:00', in {sql_of(tree)}",
        )
    refuse_unlike(tree, [kind for _, kind in sides], "compares", texts_are_times=True)


def refuse_unlike(
    tree: ex.Expression, types: Iterable[ColumnType], verb: str, *, texts_are_times: bool = False
) -> None:
    """Raise if values are of types that do not go together; ``verb`` says what is done with them."""
    kinds = {_MANY[kind.kind]: kind.kind for kind in types if kind.kind in _MANY}
    if texts_are_times and TEXT in kinds.values() and {TIME, DURATION} & {*kinds.values()}:
        kinds.pop("texts")
    if verb == "gives" and not {TIME, DURATION} & {*kinds.values()}:
        return
    if len(kinds) > 1:
        first, second, *_ = kinds
        joined = "with" if verb == "compares" else "and"
        sql = sql_of(tree)
        advice = "convert one side by CAST" if verb == "compares" else "make them one type"
        if verb == "compares" and {*kinds.values()} == {TIME, DURATION}:
            advice = "subtract a time from the time"
        raise _error(tree, f"{sql} {verb} {first} {joined} {second}; {advice}")


def refuse_objects(sides: Iterable[tuple[ex.Expression, ColumnType]]) -> None:
    """Raise for a column that no comparison can use, as in all languages."""
    for side, kind in sides:
        if isinstance(side, ex.Attribute | ex.Reference) and kind.kind == OTHER:
            raise _error(
                side,
                f"the values of {side.name} are of several types, or of one that conditions cannot use; make "
                "the column all numbers, text, times or truth values",
            )


def refuse_arithmetic(tree: ex.Expression, sign: str, left: ColumnType, right: ColumnType) -> NoReturn:
    """Raise for an operation on types that do not go together, with what to write instead."""
    sql, kinds = sql_of(tree), (left.kind, right.kind)
    for kind in kinds:
        if kind in (TEXT, BOOLEAN, LIST, MAP):
            advice = {TEXT: "; convert it by CAST, or join texts by ||", BOOLEAN: "; join conditions by AND"}
            raise _error(tree, f"{sql} computes with {_ONE[kind]}{advice.get(kind, '')}")
    operands = [*tree.children()]
    if sign in "+-" and set(kinds) & set(NUMBERS):
        number = operands[0] if left.kind in NUMBERS else operands[1]
        raise _error(tree, f"{_interval_of(number)}, in {sql}")
    if TIME in kinds:
        raise _error(
            tree,
            f"{sql} computes with {_ONE[left.kind]} and {_ONE[right.kind]}; subtract a time "
            "from a time, or add or subtract an interval",
        )
    raise _error(
        tree,
        f"{sql} computes with {_ONE[left.kind]} and {_ONE[right.kind]}; an interval can be multiplied and "
        "divided by a number, and divided by an interval",
    )


def _interval_of(number: ex.Expression) -> str:
    """Return the advice for a number where an interval belongs."""
    tree: ex.Expression = ex.Arithmetic("*", number, rp.IntervalLiteral("1 d"))
    if isinstance(number, ex.Literal):
        tree = rp.IntervalLiteral(f"{number.value} d")
    written, sql = sql_of(tree), sql_of(number)
    return f"an interval needs a unit: write {written} (or HOUR, MINUTE, SECOND, …) instead of {sql}"


def refuse_no_truth(tree: rp.IsTruth, kind: ColumnType) -> None:
    """Raise if IS TRUE and the like test what is no truth value."""
    if kind.kind not in (BOOLEAN, OTHER):
        sql = sql_of(tree)
        raise _error(tree, f"{sql} needs a truth value, not {_ONE[kind.kind]}; compare it, as in x = 1")


def refuse_like(tree: ex.Like | rp.LikeWithEscape, kind: ColumnType) -> None:
    """Raise if LIKE tests what is no text."""
    if kind.kind in _ONE and kind.kind != TEXT:
        sql = sql_of(tree.operand)
        cast = rp.Cast(tree.operand, "varchar")
        written = sql_of(replace(tree, operand=cast))
        raise _error(tree, f"LIKE needs a text, and {sql} is {_ONE[kind.kind]}; write {written}")


def refuse_opposite(tree: ex.Negative, kind: ColumnType) -> None:
    """Raise for a minus before a value that is no number and no interval."""
    if kind.kind in _ONE and kind.kind not in (*NUMBERS, DURATION):
        sql = sql_of(tree)
        raise _error(tree, f"{sql} needs a number or an interval, not {_ONE[kind.kind]}")


def refuse_cast(tree: rp.Cast, of: ColumnType) -> None:
    """Raise for a cast of a time or an interval to a number, which would count ticks of the column."""
    sql = sql_of(tree.operand)
    if of.kind == TIME:
        raise _error(
            tree,
            f"{print_sql(tree)} has no meaning, as a time has no unit; write "
            f"({sql} - TIMESTAMP '1970-01-01 00:00:00') / {SECOND}",
        )
    if of.kind == DURATION:
        raise _error(tree, f"{print_sql(tree)} has no meaning without a unit; write {sql} / {SECOND}")


# Functions of numbers. Only those of the sign take intervals.
_OF_NUMBERS = ("sqrt", "exp", "ln", "log", "log2", "log10", "floor", "ceil", "ceiling", "round", "power")
_OF_SIGNS = ("abs", "sign")


def refuse_function_of_ticks(tree: ex.Call, function: str, types: Iterable[ColumnType]) -> None:
    """Raise if a function of numbers gets a time or an interval."""
    for kind in types:
        is_wrong = function in _OF_NUMBERS and kind.kind in (TIME, DURATION)
        if is_wrong or (function in _OF_SIGNS and kind.kind == TIME):
            sql = sql_of(tree)
            advice = f"; divide it first, as by {SECOND}" if kind.kind == DURATION else ""
            raise _error(
                tree, f"{function.upper()}() needs a number, not {_ONE[kind.kind]}, in {sql}{advice}"
            )
