"""Which engine runs a query: the table of engines, each with the reason why it cannot."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial

from cepkit.compile.regex.program import Program
from cepkit.compile.sequences.program import SequenceProgram
from cepkit.compile.shared.bound_query import Bound
from cepkit.engines.counting.engine import counting_unsupported, match_by_counting
from cepkit.engines.ordered.ordered import ordered_unsupported
from cepkit.engines.search.search import search_sequence
from cepkit.engines.shared.sequence_set import FoundLater, SequenceSet
from cepkit.errors import CepError, UnsupportedQueryError, nearest
from cepkit.events import Events
from cepkit.linked.engine import linked_sequence, sase_sequence, siddhi_like_sequence
from cepkit.linked.query import described, linked_query_unsupported
from cepkit.parallel.engine.engines import ParallelEngine
from cepkit.parallel.engine.matches import parallel_sequence
from cepkit.planning.evaluation_order import run_in_order


@dataclass(frozen=True, slots=True)
class Engine:
    """An engine by name.

    Parameters
    ----------
    name, summary : str
        As users see them.
    reason_against : callable
        Takes a program; returns why the engine cannot run it, or None. It need not look at
        ``evaluation_order``: `unsupported` does.
    run : callable, optional
        Takes a sequence program and events; returns all matches, before any after-match policy.
    automatic : bool
        Whether ``"auto"`` may choose it; the others run when they are named.
    takes_order : bool
        Whether it runs queries that say their own ``evaluation_order``.
    details : callable, optional
        Takes a program that the engine can run; returns labels and texts for `explain`.
    """

    name: str
    summary: str
    reason_against: Callable[[Bound], str | None]
    run: Callable[[SequenceProgram, Events], SequenceSet] | None = None
    automatic: bool = True
    takes_order: bool = False
    details: Callable[[SequenceProgram], list[tuple[str, str]]] | None = None

    def unsupported(self, program: Bound) -> str | None:
        """Return the reason why the engine cannot run a program, None when it can."""
        if reason := self.reason_against(program):
            return reason
        if isinstance(program, SequenceProgram) and program.query.evaluation_order and not self.takes_order:
            return "evaluation_order is given, and it has an order of its own"
        return None


def _regex_unsupported(program: Bound) -> str | None:
    return None if isinstance(program, Program) else "it runs regex patterns over contiguous rows only"


def _search_unsupported(program: Bound) -> str | None:
    return None if isinstance(program, SequenceProgram) else "it runs event sequences only"


def _search(program: SequenceProgram, events: Events) -> SequenceSet:
    return FoundLater(events, partial(search_sequence, program, events))


# In the order in which "auto" tries those that it may choose.
ENGINES: dict[str, Engine] = {
    "regex": Engine("regex", "generated kernel over contiguous rows of a partition", _regex_unsupported),
    "chain": Engine(
        "chain",
        "counts first, by dynamic programming; makes matches when looked at",
        counting_unsupported,
        match_by_counting,
    ),
    "ordered": Engine(
        "ordered",
        "generated nested search over lists of single events, in the order that costs least",
        ordered_unsupported,
        run_in_order,
        takes_order=True,
    ),
    "search": Engine(
        "search", "generated depth-first walk over partial matches", _search_unsupported, _search
    ),
    # The papers' ways, for comparison: they tell what they made in ``matches.run``.
    "linked": Engine(
        "linked",
        "LinkedCEP: chains of partial matches, combined at the end",
        linked_query_unsupported,
        linked_sequence,
        automatic=False,
        details=partial(described, chains=True),
    ),
    "sase_runs": Engine(
        "sase_runs",
        "a run per partial match, kept together as in SASE",
        linked_query_unsupported,
        sase_sequence,
        automatic=False,
        details=partial(described, chains=False),
    ),
    "siddhi_like_runs": Engine(
        "siddhi_like_runs",
        "a run per partial match, kept by component as in Siddhi",
        linked_query_unsupported,
        siddhi_like_sequence,
        automatic=False,
        details=partial(described, chains=False),
    ),
}


_PARALLEL = ("Hybrid", "RIP", "DataParallel", "StateParallel", "Sequential")


def choose_engine(program: Bound, engine: str | ParallelEngine = "auto", *, trace: bool = False) -> Engine:
    """Return the engine that runs ``program``.

    Parameters
    ----------
    program : Program or SequenceProgram
        The bound query.
    engine : str or ParallelEngine
        ``"auto"``: the first automatic one of ``ENGINES`` that can; else the one of this name, or the value.
    trace : bool
        Whether it is to write down every step.

    Raises
    ------
    CepError
        For an unknown name.
    UnsupportedQueryError
        When the named engine cannot run the query; quotes its reason and lists the engines that can.
    """
    check_engine(engine, trace=trace)
    if isinstance(engine, ParallelEngine):
        chosen = _of_value(engine, trace)
        if reason := chosen.unsupported(program):
            raise UnsupportedQueryError(f"engine {engine} cannot run this query: {reason}. Engine 'auto' can")
        engine.check_agents(program)
        return chosen
    able = [name for name, known in ENGINES.items() if known.unsupported(program) is None]
    if engine == "auto" and not able:
        reason = ENGINES["ordered"].unsupported(program)
        raise UnsupportedQueryError(
            f"evaluation_order: engine 'ordered', which takes one, cannot run this query: {reason}. "
            "Leave evaluation_order out"
        )
    if engine == "auto":
        return next(ENGINES[name] for name in able if ENGINES[name].automatic)
    if reason := ENGINES[engine].unsupported(program):
        raise UnsupportedQueryError(
            f"engine {engine!r} cannot run this query: {reason}. Engines that can: {able}"
        )
    return ENGINES[engine]


def _of_value(engine: ParallelEngine, trace: bool) -> Engine:
    def reason_against(program: Bound) -> str | None:
        if not isinstance(program, SequenceProgram):
            return "it runs event sequences only"
        reason = engine.reason_against(program)
        return reason and f"it {reason}"

    return Engine(
        str(engine),
        engine.summary,
        reason_against,
        partial(parallel_sequence, engine=engine, trace=trace),
        automatic=False,
        takes_order=True,
        details=engine.details,
    )


def _class_meant(name: str) -> str | None:
    """Return the class of parallel engines that a text names, if one."""
    plain = "".join(filter(str.isalpha, name.partition("(")[0])).lower().removeprefix("cep")
    of_text = {known.lower(): known for known in _PARALLEL}
    return next((of_text[near] for near in get_close_matches(plain, of_text, 1)), None)


def _value_of(name: str) -> str:
    return f"cep.{name}({'threads=4' if name in ('Hybrid', 'RIP', 'DataParallel') else ''})"


def check_engine(engine: str | ParallelEngine, *, trace: bool = False) -> None:
    """Raise the error for a name that no engine has, or for one that writes no trace when it is to."""
    is_value = isinstance(engine, ParallelEngine)
    if isinstance(engine, type) and issubclass(engine, ParallelEngine):
        raise CepError(f"engine=cep.{engine.__name__} is a class. Give a value: {_value_of(engine.__name__)}")
    if not is_value and not isinstance(engine, str):
        raise CepError(
            f"engine={engine!r}: give a name of {['auto', *ENGINES]}, or a parallel engine as a value: "
            "cep.Hybrid(threads=4)"
        )
    if not is_value and engine != "auto" and engine not in ENGINES:
        hint = nearest(engine, ENGINES)
        if not hint and (name := _class_meant(engine)):
            hint = f" Parallel engines are values: engine={_value_of(name)}."
        raise CepError(f"engine {engine!r} is not known.{hint} Engines: {['auto', *ENGINES]}")
    if trace and not is_value:
        raise UnsupportedQueryError(
            f"trace=True: engine {engine!r} writes no trace. Parallel engines do: cep.Hybrid(), cep.RIP()"
        )
