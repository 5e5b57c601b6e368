"""The matches of regex and sequence queries, as `Matches` reads them, and aggregates over their events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Context, Decimal
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pyarrow as pa

from cepkit.compile.regex_program import Program
from cepkit.compile.sequence_program import SequenceProgram
from cepkit.compile.shared.decimals import whole_numbers
from cepkit.compile.shared.row_automaton import ANY
from cepkit.engines.after_match import report_matches
from cepkit.engines.counting.engine import CountedMatches
from cepkit.engines.counting.estimate import CountEstimate, draw_matches, estimate_count, exactly
from cepkit.engines.reducing import present_values
from cepkit.engines.regex import Run, label_rows
from cepkit.engines.regex_measures import Measured, Rows, measure
from cepkit.engines.sequence_measures import sequence_measures, variables_of_items
from cepkit.engines.shared.by_key import MatchesByKey
from cepkit.engines.shared.match_set import Lineage, MatchSet
from cepkit.engines.shared.sequence_set import EMPTY, KnownMatches, MatchBlock, SequenceSet, bytes_to_collect
from cepkit.errors import CepError, PredicateError, ResultTooLargeError, column_not_found, nearest
from cepkit.events import BOOLEAN, NULL_INTEGER, Events, Frame
from cepkit.frames.building import build_events
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.durations import count_text
from cepkit.language.expressions.parsing import parse_expression
from cepkit.language.expressions.vocabulary import OF_TRUTHS, SUMMARIES, SUMMED
from cepkit.limits import check_memory
from cepkit.planning.planner import choose_engine
from cepkit.planning.plans import compile_checked
from cepkit.results.found import LIMIT
from cepkit.results.in_memory import DRAWN, FoundInMemory, FoundMatches
from cepkit.values import dataclass, replace

# These need all values at once.
_OF_ALL = ("collect", *(name for name, summary in SUMMARIES.items() if summary.by is None))
FUNCTIONS = ("count", "sum", "avg", "min", "max", *_OF_ALL)
_OF_INTEGERS = ("sum", "avg", "min", "max")  # of decimals as integers
_BYTES = 40  # of a value in Python, and of its place in a list


@dataclass(frozen=True, slots=True)
class Wanted:
    """One aggregate: ``function`` of ``column`` over the events of ``variable``."""

    # Without a variable, it is the number of matches. Without a column, it is the number of events.

    function: str
    variable: str | None
    column: str | None


def aggregate_matches(
    program: SequenceProgram, found: SequenceSet, source: Rows, aggregates: Mapping[str, str]
) -> pd.Series:
    """Return aggregates over the events of all matches; see `Matches.aggregate`."""
    variables = program.query.variables
    wanted = {name: read_aggregate(name, text, variables, source.schema) for name, text in aggregates.items()}
    values = {
        name: values_of_events(source, found.events, name, aggregate)
        for name, aggregate in wanted.items()
        if aggregate.column is not None
    }
    results = {}
    waiting = {}
    for name, aggregate in wanted.items():
        if aggregate.variable is None:
            results[name] = found.count()
        elif (counted := _count_aggregate(found, aggregate, values.get(name))) is not None:
            results[name] = counted[0]
        else:
            waiting[name] = aggregate
    if waiting:
        parts = ((block.event_of_item, variables_of_items(program, block)) for block in found.blocks())
        results |= aggregate_parts(parts, variables, waiting, values)
    return _series(results, wanted, source)


def _series(results: Mapping[str, Any], wanted: Mapping[str, Wanted], source: Rows) -> pd.Series:
    """Return the results in order; 1 and 0 are truth values again where they are values of such a column."""
    series = {}
    for name, aggregate in wanted.items():
        column = aggregate.column
        value: Any = results[name]
        scale = None if column is None else source.schema[column].scale
        if value is not None and scale is not None and aggregate.function in _OF_INTEGERS:
            value = (
                Decimal(value).scaleb(-scale, Context(prec=100))
                if aggregate.function != "avg"
                else value / 10**scale
            )
        if value is not None and column is not None and source.schema[column].kind == BOOLEAN:
            if aggregate.function in ("min", "max", "mode"):
                value = bool(value)
            elif aggregate.function == "collect":
                value = list(map(bool, value))
        series[name] = value
    return pd.Series(series, dtype=object)


def read_aggregate(name: str, text: str, known: Sequence[str], schema: Mapping[str, object]) -> Wanted:
    """Return the function, the variable and the column of an aggregate such as ``sum(b.price)``."""
    role = f"aggregate {name!r}"
    tree = parse_expression(text, role=role, references=True)
    if not isinstance(tree, ex.Aggregate) or tree.function not in FUNCTIONS:
        raise PredicateError(f"{role}: expected {', '.join(FUNCTIONS)} of a column, as in sum({known[-1]}.x)")
    if tree.operand is None:
        return Wanted("count", None, None)
    match tree.operand:
        case ex.Attribute(name=variable):
            column = None
        case ex.Reference(variable=variable, name=column, index=None):
            pass
        case _:
            raise PredicateError(f"{role}: expected a column of a variable, as in sum({known[-1]}.x)")
    if variable not in known:
        raise PredicateError(
            f"{role}: {variable!r} is no variable of the pattern.{nearest(variable, known)} "
            f"Variables: {list(known)}"
        )
    if column is None and tree.function != "count":
        raise PredicateError(
            f"{role}: {tree.function}() needs a column of {variable!r}, as in {tree.function}({variable}.x)"
        )
    if column is not None and column not in schema:
        raise column_not_found(role, column, schema)
    _check_truths(role, tree.function, column, schema)
    return Wanted(tree.function, variable, column)


def _check_truths(role: str, function: str, column: str | None, schema: Mapping[str, Any]) -> None:
    if column is not None and function in OF_TRUTHS and schema[column].kind != BOOLEAN:
        raise PredicateError(
            f"{role}: {function}() needs truth values, {column!r} is of type {schema[column]}"
        )


def values_of_events(source: Rows, events: Events, name: str, one: Wanted) -> tuple[np.ndarray, np.ndarray]:
    """Return the column's value at every position, and which values are present."""
    assert one.column is not None
    array = source.arrow(one.column, events.rows(np.arange(events.n_events)))
    kind, present = array.type, present_values(array)
    if pa.types.is_decimal(kind):
        if one.function not in _OF_INTEGERS:
            if one.function in SUMMED:
                return array.cast(pa.float64()).fill_null(0).to_numpy(zero_copy_only=False), present
            return np.array([*array.to_pylist(), None], object)[:-1], present
        numbers = whole_numbers(array, source.schema[one.column].scale or 0)
        if numbers is None:
            raise CepError(
                f"aggregate {name!r}: the decimals exceed 64 bits; cast the column to float64 first"
            )
        return np.where(numbers == NULL_INTEGER, 0, numbers), numbers != NULL_INTEGER
    if pa.types.is_boolean(kind):
        array, kind = array.cast(pa.int64()), pa.int64()
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        if one.function == "count":
            return np.zeros(len(array), np.int64), present
        if one.function in _OF_ALL and one.function not in SUMMED and not pa.types.is_nested(kind):
            return np.asarray(array.cast(pa.string()).to_pylist(), object), present
        raise PredicateError(
            f"aggregate {name!r}: {one.function}() needs numbers, {one.column!r} is of type "
            f"{source.schema[one.column]}"
        )
    wide = pa.int64() if pa.types.is_integer(kind) else pa.float64()
    try:
        values = array.cast(wide).fill_null(0).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:  # integers without a sign reach 2^64
        problem = "the integers exceed signed 64 bits; cast the column to float64 first"
        raise CepError(f"aggregate {name!r}: {problem}") from None
    if wide == pa.float64():
        present = present & ~np.isnan(values)
        values = np.where(present, values, 0.0)
    return values, present


def _count_aggregate(found: SequenceSet, one: Wanted, values) -> tuple[Any] | None:
    """Return the aggregate in a tuple if the engine counts it, else None."""
    if isinstance(found, MatchesByKey):
        if values is not None and found.position is not None:
            values = tuple(of_event[found.position] for of_event in values)
        found = found.by_key
    column = None if values is None else values[0]
    if not isinstance(found, CountedMatches) or not found.can_aggregate(one.function, column):
        return None
    assert one.variable is not None
    return (found.aggregate(one.function, one.variable, *(values or (None, None))),)


def aggregate_parts(
    parts: Iterable[tuple[np.ndarray, np.ndarray]],
    known: Sequence[str],
    wanted: Mapping[str, Wanted],
    values: Mapping[str, tuple[np.ndarray, np.ndarray]],
) -> dict[str, Any]:
    """Return aggregates over matches that come in parts."""
    total: dict[str, int | float] = dict.fromkeys(wanted, 0)
    count = dict.fromkeys(wanted, 0)
    best: dict[str, Any] = {}
    kept: dict[str, list] = {name: [] for name, aggregate in wanted.items() if aggregate.function in _OF_ALL}
    number_of_name = {name: number for number, name in enumerate(known)}
    for event_of_item, variable_of_item in parts:
        for name, aggregate in wanted.items():
            events = event_of_item
            if aggregate.variable is not None:
                events = event_of_item[variable_of_item == number_of_name[aggregate.variable]]
            if aggregate.column is None:
                count[name] += len(events)
                continue
            of_event, present = values[name]
            taken = of_event[events][present[events]]
            count[name] += len(taken)
            if name in kept:
                check_memory(_BYTES * (sum(map(len, kept.values())) + len(taken)), "the values")
                kept[name] += taken.tolist()
            elif len(taken) and aggregate.function in ("min", "max"):
                extreme = getattr(taken, aggregate.function)().item()
                better = min if aggregate.function == "min" else max
                best[name] = better(best.get(name, extreme), extreme)
            elif aggregate.function in ("sum", "avg"):
                total[name] += _sum_exactly(taken)
    results = {}
    for name, aggregate in wanted.items():
        n, function = count[name], aggregate.function
        if name in kept:
            results[name] = kept[name] if function == "collect" else SUMMARIES[function].of(kept[name])
            continue
        results[name] = {
            "count": n, "sum": total[name] if n else None, "avg": total[name] / n if n else None,
            "min": best.get(name), "max": best.get(name),
        }[function]  # fmt: skip
    return results


def _sum_exactly(values: np.ndarray) -> int | float:
    """Return the sum; integers do not overflow."""
    if values.dtype.kind == "f":
        return float(values.sum())
    return int((values >> 32).sum()) * 2**32 + int((values & 0xFFFFFFFF).sum())


# Aggregates over the rows of all matches of a regex query.


def aggregate_regex(
    program: Program, found: MatchSet, source: Rows, aggregates: Mapping[str, str]
) -> pd.Series:
    """Return aggregates over the rows of all matches; see `Matches.aggregate`."""
    variables = tuple(dict.fromkeys(program.automaton.names))
    wanted = {name: _read(name, text, variables, source) for name, text in aggregates.items()}
    results = {
        name: len(found)
        for name, aggregate in wanted.items()
        if aggregate.variable is aggregate.column is None
    }
    waiting = {name: aggregate for name, aggregate in wanted.items() if name not in results}
    values = {
        name: values_of_events(source, found.events, name, aggregate)
        for name, aggregate in waiting.items()
        if aggregate.column is not None
    }
    if waiting:
        events = found.lineage.event_of_item.astype(np.int64)
        variable = np.zeros(len(events), np.int64)
        if len(found) and any(aggregate.variable is not None for aggregate in waiting.values()):
            number_of_position = np.array([variables.index(name) for name in program.automaton.names])
            variable = number_of_position[label_rows(program, found)]
        results |= aggregate_parts([(events, variable)], variables, waiting, values)
    return _series(results, wanted, source)


def _read(name: str, text: str, known: tuple[str, ...], source: Rows) -> Wanted:
    """Parse the text of an aggregate; a column without a variable means every matched row."""
    names = tuple(variable for variable in known if variable != ANY)
    role = f"aggregate {name!r}"
    tree = parse_expression(text, role=role, references=True)
    aggregate = tree if isinstance(tree, ex.Aggregate) and tree.function in FUNCTIONS else None
    operand = None if aggregate is None else aggregate.operand
    if aggregate is not None and isinstance(operand, ex.Attribute) and operand.name not in names:
        if operand.name not in source.schema:
            raise column_not_found(role, operand.name, [*source.schema, *names])
        _check_truths(role, aggregate.function, operand.name, source.schema)
        return Wanted(aggregate.function, None, operand.name)
    if not names and operand is not None:
        raise PredicateError(f"{role}: the pattern has no names; expected a column, as in sum(x)")
    return read_aggregate(name, text, names or ("a",), source.schema)


@dataclass(frozen=True, eq=False, kw_only=True)
class RegexFound(FoundInMemory[MatchSet]):
    """Matches of contiguous rows, all of them in memory."""

    program: Program
    whole: MatchSet
    run: Run
    refusals: ClassVar = {"undecided": "undecided: a regex matches rows, and no event of it may be absent"}
    hint = "df.cep.explain(…) with the same arguments shows how the query was read"

    def measure(self, part: MatchSet) -> dict[str, Measured]:
        return measure(self.program.query, part, self.source, self.variables)

    def items(self, part: MatchSet) -> Lineage:
        return part.lineage

    def variables(self, part: MatchSet) -> np.ndarray:
        return np.array(self.program.automaton.names, dtype=object)[label_rows(self.program, part)]

    def aggregate(self, aggregates: Mapping[str, str]) -> pd.Series:
        return aggregate_regex(self.program, self.whole, self.source, aggregates)


@dataclass(frozen=True, eq=False, kw_only=True)
class SequenceFound(FoundMatches[MatchBlock]):
    """Matches of an event sequence, built on demand."""

    program: SequenceProgram
    whole: SequenceSet
    hint = "df.cep.why_not(…) says what stopped the matches you expected"

    @property
    def run(self) -> Any:
        """Return the engine's record of its run, or None."""
        return getattr(self.whole, "run", None)

    def undecided(self) -> Frame:
        """Return the matches that an event after the end of the data may still forbid."""
        program = compile_checked(replace(self.query, undecided=True), self.source)
        assert isinstance(program, SequenceProgram)
        events = build_events(self.source, program)
        # Without a wait at its end a branch has no such match, a condition that some engines cannot read.
        engine = choose_engine(program) if self.engine.unsupported(program) else self.engine
        whole = report_matches(program, engine.of_sequences(program, events))
        return replace(self, program=program, whole=whole).to_frame()

    def estimate(self, samples: int, seed: int) -> CountEstimate:
        """Return an estimate of the number of matches; for a slice, the exact number."""
        if isinstance(self.whole, KnownMatches) and not self.program.query.selects:
            return exactly(self.whole.count())
        return estimate_count(self.program, self.events, samples=samples, seed=seed)

    def bytes_to_build(self, n: int) -> int:
        """Return about how much memory ``n`` matches take; 0 if they are in memory already."""
        if isinstance(self.whole, KnownMatches):
            return 0
        lengths = [
            sum(component.low for component in bound.branch.components) for bound in self.program.branches
        ]
        return bytes_to_collect(n, n * min(lengths, default=1))

    @property
    def nothing(self) -> MatchBlock:
        return EMPTY

    def for_picture(self) -> MatchBlock:
        return self.whole.glance(DRAWN)

    def all(self) -> MatchBlock:
        whole = self.whole
        return whole.block if isinstance(whole, KnownMatches) else whole.ending(0, self.events.n_events)

    def draw(self, n: int, seed: int) -> MatchBlock:
        block = None
        if not isinstance(self.whole, KnownMatches) and not self.program.query.selects:
            block = draw_matches(self.program, self.events, n, seed)
        return self.whole.sample(n, seed) if block is None else block

    def among(self, numbers: range) -> KnownMatches:
        """Build the matches with these numbers, at most a million."""
        n_wanted = max(0, -((numbers.start - numbers.stop) // numbers.step))  # len() ends at 2^63
        if n_wanted > LIMIT:
            raise ResultTooLargeError(
                f"the slice has {count_text(n_wanted)} matches, more than {LIMIT:,}; go through chunks()"
            )
        return KnownMatches(self.events, self.whole.take(list(numbers)))

    def measure(self, part: MatchBlock) -> dict[str, Measured]:
        return sequence_measures(self.program, self.events, part, self.source)

    def items(self, part: MatchBlock) -> MatchBlock:
        return part

    def variables(self, part: MatchBlock) -> np.ndarray:
        names = np.array(self.program.query.variables, dtype=object)
        return names[variables_of_items(self.program, part)]

    def aggregate(self, aggregates: Mapping[str, str]) -> pd.Series:
        return aggregate_matches(self.program, self.whole, self.source, aggregates)
