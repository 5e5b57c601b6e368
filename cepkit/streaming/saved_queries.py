"""Queries as text and plain values for saved streams, and back."""

from __future__ import annotations

import datetime
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from cepkit.errors import CepError, CepWarning, PredicateError
from cepkit.language.expressions.functions import BUILT_IN_NAMES, is_registered
from cepkit.language.expressions.trees import Call
from cepkit.language.regex.construction import regex_query
from cepkit.language.regex.query import RegexQuery
from cepkit.language.sequences.construction import sequence_query
from cepkit.language.sequences.printing import sase_text
from cepkit.language.sequences.query import SequenceQuery
from cepkit.streaming.operators.row_pattern_query import RowPatternStream
from cepkit.windows.chains import Chain
from cepkit.windows.values import SIDES, Join, Window, aggregate_name

_REGEX, _SEQUENCE, _WINDOW, _JOIN, _CHAIN = "regex", "sequence", "window", "join", "chain"
_ROW_PATTERN = "match_recognize"


def query_as_json(query: Any) -> dict[str, Any]:
    """Return a query as text and plain values; user functions appear by name only."""
    if isinstance(query, Chain):
        return {"language": _CHAIN, "steps": [query_as_json(step) for step in query.steps]}
    if isinstance(query, Window):
        return {"language": _WINDOW, **_window_as_json(query)}
    if isinstance(query, Join):
        return {"language": _JOIN, **_join_as_json(query)}
    if isinstance(query, RowPatternStream):
        return {"language": _ROW_PATTERN, **_row_pattern_as_json(query)}
    if isinstance(query, SequenceQuery):
        return {"language": _SEQUENCE, **_sequence_as_json(query)}
    if not isinstance(query, RegexQuery):
        raise CepError(f"a query of type {type(query).__name__} cannot be saved; open its text as a stream")
    return {"language": _REGEX, **_regex_as_json(query)}


def query_of_json(saved: Mapping[str, Any]) -> Any:
    """Return the query that `query_as_json` wrote."""
    if saved["language"] == _CHAIN:
        return Chain(tuple(query_of_json(step) for step in saved["steps"]))
    read = {
        _SEQUENCE: _sequence_of_json, _REGEX: _regex_of_json, _WINDOW: _window_of_json, _JOIN: _join_of_json,
        _ROW_PATTERN: _row_pattern_of_json,
    }[saved["language"]]  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CepWarning)  # the user saw them when the query was created
        query = read({name: value for name, value in saved.items() if name != "language"})
    _refuse_missing_functions(query)
    return query


def _row_pattern_as_json(query: RowPatternStream) -> dict[str, Any]:
    return {
        "text": query.text,
        "params": {name: param_as_json(name, value) for name, value in query.params},
        "partition_by": list(query.partition_by),
        "order_by": list(query.order_by),
    }


def _row_pattern_of_json(saved: Mapping[str, Any]) -> RowPatternStream:
    params = tuple((name, param_of_json(value)) for name, value in saved["params"].items())
    return RowPatternStream(saved["text"], params, tuple(saved["partition_by"]), tuple(saved["order_by"]))


def _regex_as_json(query: RegexQuery) -> dict[str, Any]:
    def texts(trees):
        return {name: _spell(name, tree) for name, tree in trees}

    return {
        "pattern": str(query.pattern),
        "define": texts(query.define),
        "measures": None if query.measures is None else texts(query.measures),
        "partition_by": list(query.partition_by),
        "order_by": list(query.order_by),
        "within": duration_as_json(query.within),
        "within_closed": query.within_closed,
        "params": {name: param_as_json(name, value) for name, value in query.params},
    }


def _regex_of_json(saved: Mapping[str, Any]) -> RegexQuery:
    return regex_query(
        saved["pattern"],
        define=saved["define"] or None,
        measures=saved["measures"],
        partition_by=saved["partition_by"] or None,
        order_by=saved["order_by"] or None,
        within=saved["within"],
        within_closed=saved["within_closed"],
        params={name: param_of_json(value) for name, value in saved["params"].items()} or None,
    )


def _window_as_json(window: Window) -> dict[str, Any]:
    return {
        "aggregates": {name: _spell(name, tree) for name, tree in window.aggregates},
        "time": duration_as_json(window.time),
        "length": window.length,
        "tumbling": window.tumbling,
        "group_by": list(window.group_by),
        "where": None if window.where is None else _spell("where", window.where),
        "order_by": list(window.order_by),
        "emit": window.emit,
        "params": {name: param_as_json(name, value) for name, value in window.params},
    }


def _window_of_json(saved: Mapping[str, Any]) -> Window:
    params = {name: param_of_json(value) for name, value in saved["params"].items()}
    return Window(**{**saved, "params": params})


def _join_as_json(join: Join) -> dict[str, Any]:
    return {
        **{
            side: None if getattr(join, side) is None else _window_as_json(getattr(join, side))
            for side in SIDES
        },
        "on": [list(pair) for pair in join.on],
        "where": None if join.where is None else _spell("where", join.where),
        "how": join.how,
        "trigger": join.trigger,
        "measures": {name: _spell(name, tree) for name, tree in join.measures},
        "order_by": list(join.order_by),
        "params": {name: param_as_json(name, value) for name, value in join.params},
    }


def _join_of_json(saved: Mapping[str, Any]) -> Join:
    sides = {side: None if saved[side] is None else _window_of_json(saved[side]) for side in SIDES}
    on = tuple((one, other) for one, other in saved["on"])
    params = {name: param_of_json(value) for name, value in saved["params"].items()}
    return Join(**{**saved, **sides, "on": on, "params": params})


def _refuse_missing_functions(query: Any) -> None:
    called = {
        node.function
        for _, tree in query.trees()
        for node in tree.walk()
        if isinstance(node, Call) and aggregate_name(node) is None
    }
    missing = sorted(name for name in called if name not in BUILT_IN_NAMES and not is_registered(name))
    if missing:
        raise PredicateError(
            f"the saved query calls {missing}, which are not registered here; register functions of these "
            "names with @cep.pure before loading"
        )


def _sequence_as_json(query: SequenceQuery) -> dict[str, Any]:
    measures = None if query.measures is None else {n: _spell(n, tree) for n, tree in query.measures}
    policy, variable = query.after_match
    return {
        "text": _spell("the query", query, sase_text),
        "scope": query.scope,
        "strict_time": query.strict_time,
        "order_by": list(query.order_by),
        "event_type": query.event_type,
        "after_match": policy if variable is None else f"{policy}({variable})",
        "evaluation_order": list(query.evaluation_order),
        "measures": measures,
        "params": {name: param_as_json(name, value) for name, value in query.params},
    }


def _sequence_of_json(saved: Mapping[str, Any]) -> SequenceQuery:
    given = {name: value for name, value in saved.items() if name not in ("text", "params")}
    given = {name: value for name, value in given.items() if value not in (None, [])}
    params = {name: param_of_json(value) for name, value in saved["params"].items()} or None
    return sequence_query(saved["text"], params=params, **given)


def _spell(name: str, tree: Any, write: Callable[[Any], str] = str) -> str:
    try:
        return write(tree)
    except ValueError as error:
        raise CepError(f"{name!r} cannot be saved: {error}") from None


def duration_as_json(duration: Any) -> Any:
    """Return a duration (text, ticks, timedelta or None) as text, number or None."""
    if isinstance(duration, datetime.timedelta):
        nanoseconds = getattr(duration, "value", None)  # pandas.Timedelta
        if nanoseconds is None:
            nanoseconds = duration // datetime.timedelta(microseconds=1) * 1000
        return f"{nanoseconds} ns"
    return duration.item() if isinstance(duration, np.generic) else duration


def param_as_json(name: str, value: Any) -> Any:
    """Return the value of a parameter as text, number or object."""
    if isinstance(value, np.datetime64 | np.timedelta64):
        import pandas as pd

        value = pd.Timestamp(value) if isinstance(value, np.datetime64) else pd.Timedelta(value)
    elif isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, datetime.timedelta):
        return {"duration": duration_as_json(value)}
    if isinstance(value, datetime.date):
        return {"time": value.isoformat()}
    raise CepError(
        f"parameter ':{name}' cannot be saved: its value is a {type(value).__name__}; only numbers, texts, "
        "booleans, times and durations can"
    )


def param_of_json(value: Any) -> Any:
    """Return the value that `param_as_json` wrote."""
    if not isinstance(value, dict):
        return value
    import pandas as pd

    return pd.Timestamp(value["time"]) if "time" in value else pd.Timedelta(value["duration"])
