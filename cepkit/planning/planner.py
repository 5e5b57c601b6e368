"""The choice of the engine for a query, from a table of engines that say why they cannot run it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from difflib import get_close_matches
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

from cepkit.doors import open_door
from cepkit.errors import CepError, UnsupportedQueryError, nearest
from cepkit.events import Events
from cepkit.language.regex import RegexQuery
from cepkit.values import dataclass, replace

if TYPE_CHECKING:
    from cepkit.compile.regex_program import Program
    from cepkit.compile.sequence_program import SequenceProgram
    from cepkit.engines.shared.sequence_set import SequenceSet


@dataclass(frozen=True, slots=True)
class Engine:
    """An engine by name.

    Parameters
    ----------
    name, summary : str
        As users see them.
    reason_against : callable
        Takes a program; returns why the engine cannot run it, or None. It may ignore ``evaluation_order``,
        which `unsupported` checks.
    run : callable, optional
        Takes a sequence program and events; returns all matches, before any after-match policy.
    automatic : bool
        Whether ``"auto"`` may choose it. Other engines run only when the user names them.
    takes_order : bool
        Whether it runs queries with their own ``evaluation_order``.
    details : callable, optional
        Takes a program that the engine can run; returns labels and texts for `explain`.
    on_spark : callable, optional
        Takes a Spark frame, its source, a program and this engine. It returns the matches of an engine that
        divides the work among tasks by itself, or None when the usual tasks run it.
    by_key : bool
        Whether it searches the partitions by the values that the query's equalities join.
    """

    name: str
    summary: str
    reason_against: Callable[[Program | SequenceProgram], str | None]
    run: Callable[[SequenceProgram, Events], SequenceSet] | None = None
    automatic: bool = True
    takes_order: bool = False
    details: Callable[[SequenceProgram], list[tuple[str, str]]] | None = None
    on_spark: Callable[..., Any] | None = None
    by_key: bool = False

    @property
    def of_sequences(self) -> Callable[[SequenceProgram, Events], SequenceSet]:
        """The function ``run``; the engine of regex queries has none."""
        if self.run is None:
            raise TypeError(f"engine {self.name!r} runs no event sequences")
        return self.run

    def searched(self, program: Any) -> Any:
        """Return the program that the engine searches for: without the equalities that its keys fulfil."""
        return _keyed_program(program).program if self.by_key else program

    def searched_events(self, program: SequenceProgram, events: Events) -> Events:
        """Return the events in which the engine searches for `searched`."""
        if not self.by_key:
            return events
        return _call_of("engines.shared.by_key", "keyed_events", _keyed_program(program), program, events)[0]

    def keys_of(self, program: SequenceProgram) -> str:
        """Return the conditions that join all events by equality, or an empty text."""
        conjuncts = _keyed_program(program).conjuncts if self.by_key else ()
        return " AND ".join(str(program.query.where[i]) for i in conjuncts)

    def unsupported(self, program: Program | SequenceProgram) -> str | None:
        """Return the reason why the engine cannot run a program, None when it can."""
        if reason := self.reason_against(program):
            return reason
        if is_sequence(program) and program.query.evaluation_order and not self.takes_order:
            return "evaluation_order is given, and it has an order of its own"
        return None


def is_sequence(program: Program | SequenceProgram) -> TypeGuard[SequenceProgram]:
    return not isinstance(program.query, RegexQuery)


def is_regex(program: Program | SequenceProgram) -> TypeGuard[Program]:
    return isinstance(program.query, RegexQuery)


def _regex_unsupported(program: Program | SequenceProgram) -> str | None:
    return None if not is_sequence(program) else "it runs regex patterns over contiguous rows only"


def _search_unsupported(program: Program | SequenceProgram) -> str | None:
    return None if is_sequence(program) else "it runs event sequences only"


def _later(module: str, name: str) -> Callable[..., Any]:
    """Return a function that imports its module when it is called, so a regex loads no sequences."""
    return partial(_call_of, module, name)  # results keep it, and are pickled


def _call_of(module: str, name: str, *arguments: Any) -> Any:
    return getattr(import_module(f"cepkit.{module}"), name)(*arguments)


def _keyed_program(program: SequenceProgram) -> Any:
    return _call_of("engines.shared.by_key", "keyed_program", program)


def _next_details(program: SequenceProgram) -> list[tuple[str, str]]:
    """Return the labels and texts of `explain` for strategy ``next``."""
    return [
        ("counting", "without a list of the matches; a condition on two neighbours is tested once for all"),
        ("new query", "no kernel is compiled: those of all queries find the matches"),
        ("threads", "slices of the events, unless windows are longer than a quarter of a million of them"),
    ]


def _search(program: SequenceProgram, events: Events) -> SequenceSet:
    """Return the matches of a sequence, which are searched when they are first asked for."""
    from cepkit.engines.search import search_sequence
    from cepkit.engines.shared.sequence_set import FoundLater

    return FoundLater(events, partial(search_sequence, program), is_final=not program.can_be_forbidden_later)


class EngineValue(ABC):
    """An engine that is given as a value, not by name: ``cep.Hybrid(threads=4)``."""

    __slots__ = ()

    @abstractmethod
    def planned(self, *, trace: bool) -> Engine:
        """Return the table's engine for this value; with ``trace`` it records every step."""

    def check_agents(self, program: SequenceProgram) -> None:  # noqa: B027 - most engines fit all agents
        """Raise CepError when the engine's values do not fit the agents of a program that it can run."""


# "auto" tries the engines in this order. Wings add theirs with `register_engine`.
_ENGINES: dict[str, Engine] = {
    "regex": Engine("regex", "generated kernel over contiguous rows of a partition", _regex_unsupported),
    "chain": Engine(
        "chain",
        "counts first, by dynamic programming; makes matches when looked at",
        _later("engines.counting.engine", "counting_unsupported"),
        _later("engines.counting.engine", "match_by_counting"),
    ),
    "ordered": Engine(
        "ordered", "nested search over lists of single events, in the order that costs least",
        _later("engines.ordered", "ordered_unsupported"), _later("planning.evaluation_order", "run_in_order"),
        takes_order=True,
    ),
    "next": Engine(
        "next", "jumps from each event of a match to the next one that fits",
        _later("engines.next_engine", "next_unsupported"), _later("engines.next_engine", "match_next"),
        details=_next_details,
    ),
    "search": Engine(
        "search", "generated depth-first walk over partial matches", _search_unsupported, _search
    ),
}  # fmt: skip
# Classes of engines that are values, each with an example.
_VALUES = {
    "PartialMatchEngine": "PartialMatchEngine('linked', copies='deep')", "Hybrid": "cep.Hybrid(threads=4)",
    "RIP": "cep.RIP(threads=4)", "DataParallel": "cep.DataParallel(threads=4)",
    "StateParallel": "cep.StateParallel()", "Sequential": "cep.Sequential()",
    "ScatterGather": "cep.ScatterGather(nodes=4)", "Tree": 'cep.shedding.Tree(order="cost")',
}  # fmt: skip


def register_engine(engine: Engine) -> None:
    """Add an engine to the table; ``"auto"`` does not choose it unless it is automatic."""
    _ENGINES[engine.name] = engine


def automatic_engines() -> dict[str, Engine]:
    """Return the engines that ``"auto"`` may choose, in the order in which it tries them."""
    return {name: engine for name, engine in _ENGINES.items() if engine.automatic}


Remark: TypeAlias = "Callable[[SequenceProgram, Engine], str]"
_remarks: list[tuple[str, Remark]] = []


def register_remark(label: str, remark: Remark) -> None:
    """Add a remark that `explain` prints under ``label`` for a program and its engine."""
    _remarks.append((label, remark))


def remarks(program: SequenceProgram, engine: Engine) -> tuple[tuple[str, str], ...]:
    """Return the wings' remarks on a program and its engine, as labels and texts."""
    open_door("wings")()
    return tuple((label, remark(program, engine)) for label, remark in _remarks)


def engines() -> dict[str, Engine]:
    """Return all engines by name, including those of the wings."""
    open_door("wings")()
    return _ENGINES


def choose_engine(
    program: Program | SequenceProgram, engine: str | EngineValue = "auto", *, trace: bool = False,
    by_key: bool = True,
) -> Engine:  # fmt: skip
    """Return the engine that runs ``program``; ``by_key=False`` prepares no keys, for few events."""
    check_engine(engine, trace=trace)
    if isinstance(engine, EngineValue):
        chosen = engine.planned(trace=trace)
        if reason := chosen.unsupported(program):
            raise UnsupportedQueryError(f"engine {engine} cannot run this query: {reason}. Engine 'auto' can")
        if is_sequence(program):
            engine.check_agents(program)
        return chosen
    if engine == "auto":
        return _automatic(program, by_key)
    if reason := engines()[engine].unsupported(program):
        able = [name for name, candidate in engines().items() if candidate.unsupported(program) is None]
        raise UnsupportedQueryError(
            f"engine {engine!r} cannot run this query: {reason}. Engines that can: {able}"
        )
    return engines()[engine]


def _automatic(program: Program | SequenceProgram, by_key: bool) -> Engine:
    """Return the engine that runs a program by default."""
    searched, is_keyed = program, False
    keyed = None
    if by_key and is_sequence(program) and not program.query.evaluation_order:
        keyed = _keyed_program(program)
    if keyed:
        searched, is_keyed = keyed.program, True
    able = (
        candidate
        for candidate in _ENGINES.values()
        if candidate.automatic and candidate.unsupported(searched) is None
    )
    if chosen := next(able, None):
        run = partial(_call_of, "engines.shared.by_key", "match_by_key", chosen.run)
        return replace(chosen, run=run, by_key=True) if is_keyed else chosen
    reason = _ENGINES["ordered"].unsupported(program)
    raise UnsupportedQueryError(
        f"evaluation_order: engine 'ordered', which takes one, cannot run this query: {reason}. "
        "Leave evaluation_order out"
    )


def _class_meant(name: str) -> str | None:
    """Return the class of engines that a misspelt name means, or None."""
    plain = "".join(filter(str.isalpha, name.partition("(")[0])).lower().removeprefix("cep")
    of_text = {class_name.lower(): class_name for class_name in _VALUES}
    return next((of_text[near] for near in get_close_matches(plain, of_text, 1)), None)


def check_engine(engine: str | EngineValue, *, trace: bool = False) -> None:
    """Raise the error for an unknown engine, or for an engine that cannot record the requested trace."""
    is_value = isinstance(engine, EngineValue)
    if isinstance(engine, type) and issubclass(engine, EngineValue):
        example = _VALUES[engine.__name__]
        raise CepError(f"engine={example.partition('(')[0]} is a class. Give a value: {example}")
    if not is_value and not isinstance(engine, str):
        raise CepError(
            f"engine={engine!r}: give a name of {['auto', *engines()]}, or a parallel engine as a value: "
            "cep.Hybrid(threads=4)"
        )
    if not is_value and engine != "auto" and engine not in _ENGINES and engine not in engines():
        hint = nearest(engine, engines())
        if not hint and (name := _class_meant(engine)):
            hint = f" Parallel engines are values: engine={_VALUES[name]}."
        raise CepError(f"engine {engine!r} is not known.{hint} Engines: {['auto', *engines()]}")
    if trace and not is_value:
        raise UnsupportedQueryError(
            f"trace=True: engine {engine!r} writes no trace. Parallel engines do: cep.Hybrid(), cep.RIP()"
        )
