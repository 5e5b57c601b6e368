"""Run queries, and the texts that `translate` prints, with the oracles, for the rows of each match.

Rows are dicts in stream order, with unique whole seconds in ``t``. Texts of SiddhiQL and of FlinkCEP are run
by small interpreters of their rules, which read the printed text and know nothing of the package.
"""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import Any

import cepkit as cep
from cepkit.language.expressions.durations import duration_ticks
from cepkit.language.match_recognize.parsing import parse_match_recognize
from cepkit.language.match_recognize.query import RowPatternQuery
from cepkit.language.regex import RegexQuery
from cepkit.language.sequences.patterns import SequenceQuery
from tests.oracle import match_recognize as sql_oracle
from tests.oracle import naive
from tests.oracle.naive_sequences import sequence_matches
from tests.support.flink_text import run_flink
from tests.support.row_patterns import oracle_query
from tests.support.siddhi_text import run_siddhi

Matched = list[tuple[int, ...]]


class _Accessor:
    """Stands for ``df.cep``: its ``match`` returns the query that the call asks."""

    def match(self, query: Any, **keywords: Any) -> Any:
        from cepkit.planning.queries import Arguments, as_query

        return as_query(query, Arguments(**keywords))


class _Frame:
    cep = _Accessor()


def query_of_code(code: str) -> RegexQuery | SequenceQuery:
    """Return the query that Python text asks in its last call."""
    tree = ast.parse(code)
    names = {"cep": cep, "df": _Frame()}
    exec(compile(ast.Module(tree.body[:-1], []), "code", "exec"), names)
    return eval(compile(ast.Expression(tree.body[-1].value), "code", "eval"), names)


def run_text(target: str, text: str, rows: list[dict]) -> Matched:
    """Return the rows of each match of a printed query, as row numbers, sorted."""
    rows = [{name: naive.without_nan(value) for name, value in row.items()} for row in rows]  # as in frames
    if target == "siddhi":
        return run_siddhi(text, rows)
    if target == "flink_cep_java":
        return run_flink(text, rows)
    if target == "match_recognize":
        return run_query(parse_match_recognize(text), rows)
    return run_query(query_of_code(text), rows)


def run_query(query: RegexQuery | SequenceQuery | RowPatternQuery, rows: list[dict]) -> Matched:
    """Return the rows of each match of a query, as row numbers, sorted."""
    if isinstance(query, RowPatternQuery):
        return _run_rows(query, rows)
    limits = {
        name: None if getattr(query, name, None) is None else duration_ticks(getattr(query, name), "s")
        for name in ("within", "gap_within")
    }
    if isinstance(query, RegexQuery):
        found = naive.matches(
            query.pattern, dict(query.define), rows, partition_by=query.partition_by,
            order_by=query.order_by[0] if query.order_by else None, within=limits["within"],
            within_closed=query.within_closed, params=dict(query.params),
        )  # fmt: skip
        return sorted(found)
    return sorted(match.rows for match in sequence_matches(replace(query, **limits), rows))


def _run_rows(query: RowPatternQuery, rows: list[dict]) -> Matched:
    asked, found = oracle_query(query), []
    place = {id(row): i for i, row in enumerate(rows)}
    for partition in sql_oracle.partitions(asked, rows):
        for match in sql_oracle.matches(asked, partition):
            labelled = zip(match.rows(), match.labels, strict=True)
            found.append(
                tuple(place[id(partition[i])] for i, (name, _) in labelled if not name.startswith("SKIPPED"))
            )
    return sorted(found)
