"""Which engine runs a query: the table of engines, each with the reason why it cannot."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cepkit.errors import CepError, UnsupportedQueryError, nearest
from cepkit.language.query import RegexQuery


@dataclass(frozen=True, slots=True)
class Engine:
    """An engine by name; ``unsupported(query)`` is the reason why it cannot run a query, or None."""

    name: str
    summary: str
    unsupported: Callable[[object], str | None]


def _regex_unsupported(query: object) -> str | None:
    return None if isinstance(query, RegexQuery) else "it runs regex patterns over contiguous rows only"


ENGINES: dict[str, Engine] = {
    "regex": Engine("regex", "generated kernel over contiguous rows of a partition", _regex_unsupported),
}


def choose_engine(query: object, engine: str = "auto") -> Engine:
    """Return the engine that runs ``query``.

    Parameters
    ----------
    query : RegexQuery
        What is looked for.
    engine : str
        ``"auto"``: the first of ``ENGINES`` that can; else the one of this name.

    Raises
    ------
    CepError
        For an unknown name.
    UnsupportedQueryError
        When the named engine cannot run the query; quotes its reason and lists the engines that can.
    """
    able = [name for name, known in ENGINES.items() if known.unsupported(query) is None]
    if engine == "auto":
        return ENGINES[able[0]]
    if engine not in ENGINES:
        raise CepError(
            f"engine {engine!r} is not known.{nearest(engine, ENGINES)} Engines: {['auto', *ENGINES]}"
        )
    if reason := ENGINES[engine].unsupported(query):
        raise UnsupportedQueryError(
            f"engine {engine!r} cannot run this query: {reason}. Engines that can: {able}"
        )
    return ENGINES[engine]
