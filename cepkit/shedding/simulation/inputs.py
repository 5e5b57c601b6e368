"""Check the arguments of a replay and prepare its scene. Every mistake raises before work starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from math import inf
from typing import Any

import numpy as np

from cepkit.compile.sequences.program import SequenceProgram
from cepkit.errors import (
    CepError,
    PatternSyntaxError,
    UnsupportedQueryError,
    column_not_found,
    nearest,
    whole_number,
)
from cepkit.events import DURATION, FLOAT, INTEGER, NULL_INTEGER, TIME, Events, Source
from cepkit.frames.building import build_events
from cepkit.language.expressions.durations import NANOSECONDS, parse_duration
from cepkit.language.sequences.query import SequenceQuery
from cepkit.planning.plans import compile_checked
from cepkit.shedding.simulation.arrivals import (
    Arrivals,
    ColumnArrivals,
    GivenArrivals,
    Prices,
    as_arrivals,
    check_order,
    measure_prices,
)
from cepkit.shedding.simulation.scene import Scene
from cepkit.shedding.strategies.strategy import Strategy, as_strategy
from cepkit.shedding.tree.program import KILLS_IF, TreeProgram, check_reading

WARM_UP = 5_000  # events, as DARLING's authors use
_SHARE = 5  # of a short stream, one in this many


@dataclass(frozen=True)
class ReplaySettings:
    """The checked arguments of a replay that need no frame."""

    queries: tuple[SequenceQuery, ...]
    arrivals: Arrivals
    latency_bound: float  # in seconds; infinite for none
    strategy: Strategy
    costs: Prices | str
    weights: tuple[float, ...]  # one per query
    weight_of_type: Mapping[str, float]
    warm_up: int | None
    seed: int
    negation: str = KILLS_IF  # as for `cepkit.shedding.tree.program.TreeProgram`


def check_settings(
    queries: Sequence[Any],
    *,
    arrivals: Any = None,
    latency_bound: Any = None,
    shedding: Any = "none",
    costs: Any = None,
    weights: Any = None,
    warm_up: Any = None,
    seed: Any = 0,
    negation: Any = KILLS_IF,
) -> ReplaySettings:
    """Return the arguments of a replay as a value."""
    if not queries:
        raise CepError("replay: the list of queries is empty")
    for query in queries:
        if not isinstance(query, SequenceQuery):
            raise UnsupportedQueryError(
                "replay() takes event sequences only, and this is a regex query. Write it as PATTERN SEQ(…)"
            )
        if query.after_match[0] != "none":
            raise UnsupportedQueryError(
                "after_match removes matches by other matches, so a replay cannot say which ones were lost. "
                "Leave it out"
            )
    strategy = as_strategy(shedding)
    bound = inf if latency_bound is None else seconds_of("latency_bound", latency_bound)
    if bound == inf and strategy.name != "none":
        raise CepError(
            f"shedding={strategy.name!r} needs a latency bound, as in latency_bound='1.5 s'. "
            "Without a bound nothing is ever dropped"
        )
    is_measured = isinstance(costs, str) and costs == "measured"
    if costs is not None and not is_measured and not isinstance(costs, Prices):
        raise CepError(f"costs={costs!r}: give cep.shedding.Prices(…), or 'measured'")
    check_reading(negation)
    of_pattern, of_type = _weights(weights, len(queries))
    return ReplaySettings(
        tuple(queries), as_arrivals(arrivals), bound, strategy, Prices() if costs is None else costs,
        of_pattern, of_type, None if warm_up is None else whole_number("warm_up", warm_up, 1),
        whole_number("seed", seed), negation,
    )  # fmt: skip


def seconds_of(name: str, duration: Any) -> float:
    """Return a duration in seconds: text, a timedelta, or a number of seconds."""
    wanted = f"{name}={duration!r}: expected a duration above 0, as in '1.5 s'"
    if isinstance(duration, str):
        try:
            seconds = parse_duration(duration) / NANOSECONDS["s"]
        except PatternSyntaxError as problem:
            raise CepError(f"{wanted}; {problem.message}") from None
    elif isinstance(duration, timedelta):
        seconds = duration.total_seconds()
    elif isinstance(duration, int | float | np.integer | np.floating) and not isinstance(duration, bool):
        seconds = float(duration)
    else:
        raise CepError(f"{wanted}; got {type(duration).__name__}")
    if not 0 < seconds < inf:
        raise CepError(wanted)
    return seconds


def _weights(given: Any, n: int) -> tuple[tuple[float, ...], dict[str, float]]:
    """Return the weights of the patterns and those of event types."""
    ones = (1.0,) * n
    if given is None:
        return ones, {}
    if isinstance(given, Mapping):
        return ones, {str(name): _weight(name, weight) for name, weight in given.items()}
    if isinstance(given, str) or not isinstance(given, Sequence | np.ndarray):
        raise CepError(
            f"weights={given!r}: give one number per pattern, as in weights=[1, 2], or weights by event type"
        )
    if len(given) != n:
        raise CepError(f"weights={list(given)!r}: {len(given)} weights for {n} pattern{'s'[: n > 1]}")
    weights = tuple(_weight(number, weight) for number, weight in enumerate(given))
    if not sum(weights):
        raise CepError("weights: at least one pattern must have a weight above 0")
    return weights, {}


def _weight(of: object, weight: Any) -> float:
    is_number = isinstance(weight, int | float | np.integer | np.floating) and not isinstance(weight, bool)
    if not is_number or not 0 <= weight < inf:
        raise CepError(f"weights: {weight!r} of {of!r} is no weight; expected a number, 0 or more")
    return float(weight)


def make_scene(settings: ReplaySettings, source: Source) -> Scene:
    """Return the scene of a replay over a frame."""
    programs, trees = [], []
    for query in settings.queries:
        program = compile_checked(query, source)
        assert isinstance(program, SequenceProgram)
        tree = TreeProgram.of(program, negation=settings.negation)
        if isinstance(tree, str):
            raise UnsupportedQueryError(f"replay: engine 'tree' cannot run {str(query.pattern)!r}: {tree}")
        programs.append(program)
        trees.append(tree)
    if len({program.query.order_by for program in programs}) > 1:
        raise CepError("replay: the queries differ in order_by, and events of one stream have one order")
    check_types(settings.weight_of_type, tuple(name for tree in trees for name in tree.types))
    column = settings.arrivals.column if isinstance(settings.arrivals, ColumnArrivals) else None
    if column is not None and column not in source.schema:
        raise column_not_found("arrivals", column, source.schema)
    events = tuple(build_events(source, program) for program in programs)
    prices = settings.costs if isinstance(settings.costs, Prices) else Prices()
    scene = Scene(
        tuple(programs), tuple(trees), events, settings.weights, settings.arrivals, prices,
        settings.latency_bound, 0, settings.weight_of_type,
    )  # fmt: skip
    n = len(scene.positions)
    n_warm = min(WARM_UP, n // _SHARE) if settings.warm_up is None else settings.warm_up
    scene = replace(scene, n_warm=n_warm, arrivals=_given(scene, source, events[0]))
    _check_warm_up(scene, settings.warm_up)
    if settings.costs == "measured":
        first = scene.positions[: max(n_warm, min(n, WARM_UP))]
        positions = first[scene.own_types[0][first] >= 0]
        scene = replace(scene, prices=measure_prices(trees[0], events[0], positions))
    return scene


def check_types(weights: Mapping[str, float], types: Sequence[str]) -> None:
    """Refuse weights of types that no pattern has."""
    if unknown := next((name for name in weights if name not in types), None):
        raise CepError(
            f"weights: no pattern has the event type {unknown!r}.{nearest(unknown, types)} Types: "
            f"{list(dict.fromkeys(types))}"
        )


def _check_warm_up(scene: Scene, asked: int | None) -> None:
    n, n_warm = len(scene.positions), scene.n_warm
    if n == 0:
        raise CepError(f"replay: no event has a type that the query names: {list(scene.types)}")
    if n_warm >= n:
        raise CepError(f"warm_up={n_warm:,}: there are only {n:,} events of the query's types. Take fewer")
    of_warm_up = np.bincount(scene.type_of_event[scene.positions[:n_warm]], minlength=len(scene.types))
    if not of_warm_up.all():
        missing = int(np.flatnonzero(of_warm_up == 0)[0])
        places = np.flatnonzero(scene.type_of_event[scene.positions] == missing)
        wanted = f"take at least warm_up={int(places[0]) + 1}" if len(places) else "the frame has none either"
        raise CepError(
            f"the warm-up of {n_warm:,} events has no event of type {scene.types[missing]!r}, so a strategy "
            f"cannot learn its rate; {wanted}"
        )


def _given(scene: Scene, source: Source, events: Events) -> Arrivals:
    """Return the schedule; times of rows become those of the events that a pattern names."""
    arrivals = scene.arrivals
    if isinstance(arrivals, ColumnArrivals):
        seconds = _seconds_of_column(source, arrivals.column) / arrivals.speed
    elif isinstance(arrivals, GivenArrivals):
        seconds = arrivals.seconds
        if len(seconds) != source.n_rows:
            raise CepError(f"arrivals: {len(seconds):,} times for {source.n_rows:,} rows; give one per row")
    else:
        return arrivals
    in_order = seconds[events.rows(np.arange(events.n_events))]
    return GivenArrivals(check_order(GivenArrivals(in_order).seconds)[scene.positions])


def _seconds_of_column(source: Source, name: str) -> np.ndarray:
    column = source.column(name)
    kind, values = column.type.kind, column.values
    if kind not in (TIME, DURATION, INTEGER, FLOAT):
        raise CepError(f"arrivals: column {name!r} is of type {column.type}; expected times or seconds")
    if kind == FLOAT:
        return values.astype(np.float64)
    missing = values == NULL_INTEGER if values.dtype == np.int64 else np.zeros(len(values), bool)
    first = values[~missing].min() if kind == TIME and not missing.all() else 0
    seconds = (values - first).astype(np.float64)
    if kind in (TIME, DURATION):
        seconds *= NANOSECONDS[column.type.unit or "ns"] / NANOSECONDS["s"]
    seconds[missing] = np.nan
    return seconds
