"""Measures of sequence matches: values of the events that variables stand for, and aggregates over them."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from cepkit.compile.sequence_program import SequenceProgram
from cepkit.engines.regex_measures import Evaluator, Measured, Picked, Rows, repeat_scalar, unused_names
from cepkit.engines.shared.sequence_set import LineBlock, MatchBlock
from cepkit.events import Events, sums_before
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.trees import rebuilt
from cepkit.language.sequences.patterns import SequenceQuery
from cepkit.progress import checkpoint
from cepkit.values import cached_property

_ONLY, _ENDS = [("", 1)], [("first_", 1), ("last_", ex.LAST)]  # parts of names, and events of a variable


def variables_of_items(program: SequenceProgram, block: MatchBlock) -> np.ndarray:
    """Return the number, in ``query.variables``, of the variable that each item stands for, int64."""
    number = {name: i for i, name in enumerate(program.query.variables)}
    widest = max(len(bound.branch.components) for bound in program.branches)
    table = np.zeros((len(program.branches), widest), np.int64)
    for b, bound in enumerate(program.branches):
        for c, component in enumerate(bound.branch.components):
            table[b, c] = number[component.variable]
    if len(table) == 1:
        return table[0][block.component_of_item]
    branch = np.repeat(block.branch_of_match, np.diff(block.first_item_of_match))
    return table[branch, block.component_of_item]


def default_measures(query: SequenceQuery) -> tuple[tuple[str, ex.Expression], ...]:
    """Return the measures of a query that names none."""
    # A variable for one event has the values of the order columns at this event, ``a_ts``. A variable for
    # several events has their number and the values at the first and last, ``b_count``, ``b_first_ts``,
    # ``b_last_ts``. A name that a partition column or another measure has gets an underscore at its end.
    defaults: list[tuple[str, ex.Expression]] = []
    groups = query.group_variables
    for variable in query.variables:
        if variable in groups:
            defaults.append((f"{variable}_count", ex.Aggregate("count", ex.Reference(variable))))
            for column in query.order_by:
                defaults.append((f"{variable}_first_{column}", ex.Reference(variable, column, 1)))
                defaults.append((f"{variable}_last_{column}", ex.Reference(variable, column, ex.LAST)))
        else:
            defaults += [
                (f"{variable}_{column}", ex.Reference(variable, column)) for column in query.order_by
            ]
    names = unused_names([name for name, _ in defaults], query.partition_by)
    return tuple((name, tree) for name, (_, tree) in zip(names, defaults, strict=True))


def sequence_measures(
    program: SequenceProgram, events: Events, block: MatchBlock, source: Rows
) -> dict[str, Measured]:
    """Return the columns of the result: the keys, then the measures or the positions of events."""
    query: SequenceQuery = program.query
    columns: dict[str, Measured] = {}
    if query.partition_by:
        last_rows = events.rows(block.last)
        columns = {name: Picked(name, last_rows) for name in query.partition_by}
    evaluator = _SequenceEvaluator(program, events, block, source)
    if query.measures is None and not query.order_by:
        ends = [
            (f"{variable}_{end}position", variable, index)
            for variable in query.variables
            for end, index in (_ENDS if variable in query.group_variables else _ONLY)
        ]
        names = unused_names([name for name, *_ in ends], query.partition_by)
        for name, (_, variable, index) in zip(names, ends, strict=True):
            columns[name] = evaluator.positions(variable, index)
    measures = query.measures
    if measures is None:
        measures = program.once("default measures", partial(default_measures, query))
    for name, expression in measures:
        checkpoint()
        columns[name] = evaluator.measure(f"measure {name!r}", expression)
    return columns


class _SequenceEvaluator(Evaluator):
    """Computes measures that may also read the events of variables."""

    def __init__(self, program: SequenceProgram, events: Events, block: MatchBlock, source: Rows):
        super().__init__(program.query, block, source)
        self.program, self.events = program, events
        self._rows_of_line: dict[int, np.ndarray] = {}

    def rows_at(self, positions: np.ndarray) -> np.ndarray:
        return self.events.rows(positions)

    def event_of_item(self) -> np.ndarray:
        return self.matches.event_of_item

    @cached_property
    def _variable_of_item(self) -> np.ndarray:
        return variables_of_items(self.program, self.matches)

    @cached_property
    def _item_of_variable(self) -> dict[str, int]:
        """The item of each variable's one event, the same in every match; empty if matches differ."""
        if len(self.program.branches) > 1:
            return {}
        components = self.program.branches[0].branch.components
        if any(component.low != 1 or component.high != 1 for component in components):
            return {}
        place, block = {component.variable: c for c, component in enumerate(components)}, self.matches
        if not isinstance(block, LineBlock) and len(block.event_of_item) < len(place) * len(block):
            return {}  # a partial match
        return place if len(place) == len(components) else {}

    @cached_property
    def _numbers(self) -> np.ndarray:
        """The numbers of the matches, and how many there are."""
        return np.arange(len(self.matches) + 1)

    def _find(self, variable: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        block, item_of_variable = self.matches, self._item_of_variable
        if variable in item_of_variable:
            every = self._numbers
            if isinstance(block, LineBlock):
                return block.events[item_of_variable[variable]], every, every[:-1]
            variable_items = slice(item_of_variable[variable], None, len(item_of_variable))
            return np.ascontiguousarray(block.event_of_item[variable_items]), every, every[:-1]
        number = self.query.variables.index(variable)
        variable_items = self._variable_of_item == number
        n_of_match = np.bincount(block.match_of_item[variable_items], minlength=len(block))
        having = np.flatnonzero(n_of_match)
        first_item = sums_before(n_of_match[having])
        return block.event_of_item[variable_items], first_item, having

    def positions(self, variable: str, index: int | str) -> pa.Array:
        """Return the stream positions of the events that ``variable[index]`` stands for."""
        events, having = self.event_of(variable, index)
        return self.spread(pa.array(events), having)

    def measure(self, role: str, expression: ex.Expression) -> Measured:
        """Return a measure; the value of one event keeps the type of its column."""
        if isinstance(expression, ex.Reference) and expression.name is not None:
            self.role = role
            self._check(expression)
            item = self._item_of_variable.get(expression.variable)
            if isinstance(self.matches, LineBlock) and item is not None and not expression.index:
                if item not in self._rows_of_line:  # columns of a variable share its rows
                    self._rows_of_line[item] = np.ascontiguousarray(self.rows_at(self.matches.events[item]))
                return Picked(expression.name, self._rows_of_line[item])
            events, having = self.event_of(expression.variable, expression.index)
            if len(having) == len(self.matches):
                return Picked(expression.name, self.rows_at(events))
        return super().measure(role, expression)

    def value(self, e: ex.Expression) -> pa.Array | pa.Scalar:
        reference = e.operand if isinstance(e, ex.Subscript) else e
        if isinstance(reference, ex.Reference):
            self._check(reference)
            events, having = self.event_of(reference.variable, reference.index)
            return self.spread(self._row_value(e, self.rows_at(events)), having)
        return super().value(e)


def value_on_path(
    program: SequenceProgram, events: Events, branch: int, path: np.ndarray, components: np.ndarray,
    expression: ex.Expression, source: Rows,
) -> Any:  # fmt: skip
    """Return the value of a part of a condition on a partial match, whose newest event is ``i``."""
    if any(isinstance(node, ex.Reference) and node.index == ex.ALL_BEFORE for node in expression.walk()):
        path, components = path[:-1], components[:-1]
    names = [component.variable for component in program.branches[branch].branch.components]
    variables = [names[c] for c in components.tolist()]

    def at(node: ex.Expression) -> ex.Expression:
        if not isinstance(node, ex.Reference) or isinstance(node.index, int):
            return node
        n_before = variables.count(node.variable) - 1  # no event has the number that stands for none
        index = (n_before or len(variables) + 1) if node.index == ex.BEFORE else ex.LAST
        return replace(node, index=index)

    block = MatchBlock(
        path, components.astype(np.int16), np.array([0, len(path)]), np.array([branch], np.int16)
    )
    evaluator = _SequenceEvaluator(program, events, block, source)
    value = evaluator.value(rebuilt(expression, ex.Expression, at))
    return repeat_scalar(value, 1).to_pandas().iloc[0]
