"""Aggregates over the rows of all matches of a regex query."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from cepkit.compile.regex.automaton import ANY
from cepkit.compile.regex.program import Program
from cepkit.engines.aggregates import (
    FUNCTIONS,
    Wanted,
    aggregate_parts,
    read_aggregate,
    values_of_events,
)
from cepkit.engines.measures.regex_measures import Rows
from cepkit.engines.regex.matching import label_rows
from cepkit.engines.shared.match_set import MatchSet
from cepkit.errors import PredicateError, column_not_found
from cepkit.language.expressions import trees as ex
from cepkit.language.expressions.parsing import parse_expression


def aggregate_regex(
    program: Program, found: MatchSet, source: Rows, aggregates: Mapping[str, str]
) -> pd.Series:
    """Return aggregates over the rows of all matches; see `Matches.aggregate`."""
    known = tuple(dict.fromkeys(program.automaton.names))
    wanted = {name: _read(name, text, known, source) for name, text in aggregates.items()}
    results = {name: len(found) for name, one in wanted.items() if one.variable is one.column is None}
    waiting = {name: one for name, one in wanted.items() if name not in results}
    values = {
        name: values_of_events(source, found.events, name, one)
        for name, one in waiting.items()
        if one.column is not None
    }
    if waiting:
        events = found.lineage.event_of_item.astype(np.int64)
        variable = np.zeros(len(events), np.int64)
        if len(found) and any(one.variable is not None for one in waiting.values()):
            number_of_position = np.array([known.index(name) for name in program.automaton.names])
            variable = number_of_position[label_rows(program, found)]
        results |= aggregate_parts([(events, variable)], known, waiting, values)
    return pd.Series({name: results[name] for name in aggregates}, dtype=object)


def _read(name: str, text: str, known: tuple[str, ...], source: Rows) -> Wanted:
    """Parse the text of an aggregate; a column without a variable means every matched row."""
    names = tuple(variable for variable in known if variable != ANY)
    role = f"aggregate {name!r}"
    tree = parse_expression(text, role=role, references=True)
    operand = tree.operand if isinstance(tree, ex.Aggregate) and tree.function in FUNCTIONS else None
    if isinstance(operand, ex.Attribute) and operand.name not in names:
        if operand.name not in source.schema:
            raise column_not_found(role, operand.name, [*source.schema, *names])
        return Wanted(tree.function, None, operand.name)
    if not names and operand is not None:
        raise PredicateError(f"{role}: the pattern has no names; expected a column, as in sum(x)")
    return read_aggregate(name, text, names or ("a",), source.schema)
