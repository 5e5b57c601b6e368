"""Why expected events are no match, in words: the answer of ``df.cep.why_not``."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from cepkit.compile.sequences.program import SequenceProgram
from cepkit.engines.shared.places import Places
from cepkit.engines.why_not import Standing, read_events, standing
from cepkit.errors import CepError, nearest
from cepkit.events import Events
from cepkit.funnels import FunnelResult
from cepkit.planning.planner import Engine
from cepkit.reason_words import Words

MOST_ROWS = 1000  # expected in one match


@dataclass(frozen=True)
class WhyNot:
    """What became of events that were expected to be a match; prints as text.

    Parameters
    ----------
    headline : str
        Whether they match, and how they are read.
    reasons : tuple of str
        What stopped them, all that is in the way of the next event.
    kinds : tuple of str
        The kind of each reason: ``condition``, ``window``, ``absence``, … (`cepkit.engines.steps.KINDS`), or
        ``after_match``.
    more : tuple of str
        What else is worth knowing: the events that could stand where one is missing.
    matches : bool
        Whether the events are a match that is reported.
    number : int, optional
        Of this match.
    """

    headline: str
    reasons: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    more: tuple[str, ...] = ()
    matches: bool = False
    number: int | None = None
    table: pd.DataFrame | None = None

    def to_frame(self) -> pd.DataFrame:
        """Return what the words are made of.

        Returns
        -------
        pandas.DataFrame
            A row per expected event in stream order: ``index`` (label of the row), ``event_type`` (where the
            query has a column of types), ``variable`` it is read as, ``reached`` (whether the furthest
            partial match contains it), ``reason`` (what stopped it; empty for the others). Without expected
            events, the rows of `FunnelResult.to_frame`.
        """
        return self.table.copy()

    def _lines(self) -> list[str]:
        return [
            self.headline,
            *(f"- {reason}" for reason in self.reasons),
            *(f"  {line}" for line in self.more),
        ]

    def __repr__(self) -> str:
        return "\n".join(self._lines())

    def _repr_html_(self) -> str:
        reasons = "".join(f"<li>{html.escape(reason)}</li>" for reason in self.reasons)
        more = "".join(f"<p>{html.escape(line)}</p>" for line in self.more)
        return f"<p><b>{html.escape(self.headline)}</b></p><ul>{reasons}</ul>{more}"


def funnel_summary(result: FunnelResult) -> WhyNot:
    """Return where most partial matches are lost, when no events were named."""
    total = result.count()
    more = () if total.n else ("name rows=[…] of a match you expected, and they are looked at one by one",)
    return WhyNot(
        f"{total} match{'' if total.n == 1 and total.exact else 'es'} of {str(result.query.pattern)!r}",
        tuple(result.words()),
        ("funnel",) * len(result.words()),
        more,
        bool(total.n),
        None,
        result.to_frame(),
    )


def explain_rows(
    program: SequenceProgram,
    source: Any,
    events: Events,
    engine: Engine,
    rows: Any,
) -> WhyNot:
    """Return why the rows are no match.

    Parameters
    ----------
    program, source, events, engine
        The bound query, the frame and its events, and the engine that finds its matches.
    rows : labels, or mapping of str to label or labels
        Index labels of a pandas frame, row numbers of a table; by variable or in any order.

    Raises
    ------
    CepError
        For labels that no row or several rows have, rows named twice, and unknown variables.
    """
    numbers, variables = _numbers(program, source, rows)
    places = Places(program, events)
    row_of_position = events.rows(np.arange(events.n_events))
    position_of_row = np.empty(events.n_events, np.int64)
    position_of_row[row_of_position] = np.arange(events.n_events)
    wanted = [int(places.place_of_position[position_of_row[row]]) for row in numbers]
    variable_of = {place: name for place, name in zip(wanted, variables, strict=True) if name is not None}
    reading = read_events(places, wanted, variable_of)
    words = Words(program, source, places, reading, variable_of)
    if not reading.obstacles:
        found = standing(program, engine.run(program, events), reading, places)
        return _matching(program, words, found)
    reasons = tuple(words.reason(obstacle) for obstacle in reading.obstacles)
    kinds = tuple(obstacle.kind for obstacle in reading.obstacles)
    head = f"no match: {words.reading()}"
    if reading.reached == len(wanted):
        head += "; a partial match"
    elif reading.reached:
        last, following = reading.places[reading.reached - 1 : reading.reached + 1]
        head += f"; {words.row(following)} cannot follow {words.row(last)}"
    return WhyNot(head, reasons, kinds, tuple(words.fillers()), False, None, words.table(reasons))


def _matching(program: SequenceProgram, words: Words, found: Standing) -> WhyNot:
    if found.taker is None:
        which = "a match" if found.number is None else f"match {found.number:,}"
        return WhyNot(
            f"they match: {words.reading()} is {which}", (), (), (), True, found.number, words.table(())
        )
    policy, variable = program.query.after_match
    policy += f"({variable})" if variable else ""
    taker = words.rows(words.places.place_of_position[found.taker.event_of_item].tolist())
    reason = f"after_match={policy!r} leaves it out: the match of {taker} was reported before"
    head = f"no match: {words.reading()} fulfils all conditions"
    return WhyNot(head, (reason,), ("after_match",), (), False, None, words.table((reason,)))


# --- which rows


def _numbers(program: SequenceProgram, source: Any, rows: Any) -> tuple[list[int], list[str | None]]:
    """Return the row numbers that ``rows`` means, and the variable of each or None."""
    query = program.query
    index = _index(source)
    if isinstance(rows, Mapping):
        for name in rows:
            if name in query.absent_variables:
                raise CepError(
                    f"rows: {name!r} must not occur in a match; name rows of {list(query.variables)}"
                )
            if name not in query.variables:
                raise CepError(
                    f"rows: {name!r} is no variable of the pattern.{nearest(str(name), query.variables)} "
                    f"Variables: {list(query.variables)}"
                )
        pairs = [(label, name) for name, labels in rows.items() for label in _labels(labels, index)]
    else:
        pairs = [(label, None) for label in _labels(rows, index)]
    if not pairs:
        raise CepError(
            "rows: no row is named; without rows, why_not() says where most partial matches are lost"
        )
    if len(pairs) > MOST_ROWS:
        raise CepError(f"rows: {len(pairs):,} rows are more than {MOST_ROWS:,}; name the rows of one match")
    numbers = [_number(label, index) for label, _ in pairs]
    twice = sorted({number for number in numbers if numbers.count(number) > 1})
    if twice:
        raise CepError(f"rows: {index[twice[0]]!r} is named twice; an event stands in a match once")
    return numbers, [name for _, name in pairs]


def _index(source: Any) -> pd.Index:
    frame = getattr(source, "frame", None)
    return frame.index if isinstance(frame, pd.DataFrame) else pd.RangeIndex(source.n_rows)


def _labels(labels: Any, index: pd.Index) -> list[Any]:
    is_label = isinstance(labels, str | bytes) or (isinstance(labels, tuple) and index.nlevels > 1)
    if is_label or not isinstance(labels, Iterable):
        return [labels]
    return list(labels)


def _number(label: Any, index: pd.Index) -> int:
    try:
        found = index.get_loc(label)
    except (KeyError, TypeError, pd.errors.InvalidIndexError):
        found = None
    if isinstance(found, slice):
        found = np.arange(len(index))[found]
    elif isinstance(found, np.ndarray):
        found = np.flatnonzero(found)
    if found is None or (isinstance(found, np.ndarray) and not len(found)):
        there = f"They go from {index[0]!r} to {index[-1]!r}" if len(index) else "The frame has no rows"
        raise CepError(f"rows: no row of the frame has the label {label!r}. {there}")
    if isinstance(found, np.ndarray):
        if len(found) > 1:
            raise CepError(
                f"rows: the label {label!r} is that of {len(found):,} rows; call reset_index() first "
                "and name row numbers"
            )
        found = found[0]
    return int(found)
