"""The counterexamples to the printed protocol of hybrid agents, step by step: what is where."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from cepkit.errors import CepError, nearest
from cepkit.parallel.experiments.protocol import PROTOCOL_COUNTEREXAMPLES, Interleaving, Rules

__all__ = ["protocol_steps", "step_table"]

NOTHING = "nothing"  # may still come
_COLUMNS = [
    *("step", "who", "what", "outcome", "agent", "kind", "place", "position", "item", "ticket", "in_hand"),
]


def protocol_steps(example: str | Interleaving, rules: str | Rules = "unsafe") -> pd.DataFrame:
    """Return what is in every queue and buffer after each step of a counterexample.

    Parameters
    ----------
    example : str or Interleaving
        Or its name: ``"C1"`` to ``"C4"``.
    rules : {"unsafe", "corrected"} or Rules
        By which the workers go; ``"unsafe"``: those that the example refutes.

    Returns
    -------
    pandas.DataFrame
        A row per step, place and item there, in this order; a place that is empty has a row without item.
        ``step`` (0: before the first), ``who`` took it, ``what`` it did, its ``outcome`` (``"a1 b2
        doubled"``, ``"a1 b2 c3 lost"``, else empty); ``agent`` (Int64; missing: source and matches), ``kind``
        (``source``, ``event queue``, ``event buffer``, ``event watermark``, ``partial queue``, ``partial
        buffer``, ``partial watermark``, ``matches``), ``place`` (its name), ``position`` in it, ``item``,
        ``ticket`` (Int64; of items in buffers), ``in_hand`` (bool: a worker is at it). A watermark's item is
        the least time of what may still come, or ``"nothing"``.

    Raises
    ------
    CepError
        When there is no such example, or no such rules.

    Notes
    -----
    A match is lost at the first step from which on the corrected rules would not find it either.
    """
    example = _example(example)
    rules = _rules(rules, example)
    states: list = []
    example.run(rules, watch=lambda model: states.append(copy.deepcopy(model)))
    rows: list[tuple] = []
    lost: set[str] = set()
    found: list[str] = []
    for step, model in enumerate(states):
        who, what = model.steps[-1] if step else ("", "begin")
        outcome = [f"{match} doubled" for match in model.matches[len(found) :] if match in found]
        found = list(model.matches)
        gone = [match for match in example.right if match not in lost and match not in _still_found(model)]
        lost.update(gone)
        outcome += [f"{match} lost" for match in gone]
        said = (step, who, what, ", ".join(outcome))
        for agent, kind, place, items in _places(model):
            shown = items or [(None, None, False)]
            rows += [(*said, agent, kind, place, position, *item) for position, item in enumerate(shown)]
    frame = pd.DataFrame(rows, columns=_COLUMNS)
    return frame.astype({"agent": "Int64", "ticket": "Int64"})


def step_table(steps: pd.DataFrame) -> pd.DataFrame:
    """Return steps as a table to read.

    Parameters
    ----------
    steps : pandas.DataFrame
        As `protocol_steps` gives them.

    Returns
    -------
    pandas.DataFrame
        A row per step, by ``step``: ``who``, ``what``, a column per place with its items, and ``outcome``.
        ``b2#3`` has the ticket 3, ``[b2#3]`` is in a worker's hands.

    Examples
    --------
    >>> table = step_table(protocol_steps("C1"))
    >>> table.loc[6, ["who", "what", "E2.0", "M2.0", "outcome"]].tolist()
    ['E2.0', 'scans M2.0: a1 b2', '[b2#2]', '[a1#1]', 'a1 b2 doubled']
    """
    items = steps["item"].fillna("").astype(str)
    tickets = steps["ticket"].astype(str).radd("#").where(steps["ticket"].notna(), "")
    texts = items + tickets
    texts = texts.where(~steps["in_hand"], "[" + texts + "]")
    wide = texts.groupby([steps["step"], steps["place"]], sort=False).agg(", ".join).unstack("place")
    said = steps.drop_duplicates("step").set_index("step")
    places = list(dict.fromkeys(steps["place"]))
    return pd.concat([said[["who", "what"]], wide[places], said[["outcome"]]], axis=1).rename_axis(
        columns=None
    )


def _example(example: str | Interleaving) -> Interleaving:
    if isinstance(example, Interleaving):
        return example
    return _named("example", example, {of.name: of for of in PROTOCOL_COUNTEREXAMPLES})


def _rules(rules: str | Rules, example: Interleaving) -> Rules:
    if isinstance(rules, Rules):
        return rules
    return _named("rules", rules, {"unsafe": example.rules, "corrected": Rules()})


def _named(what: str, name: str, known: Mapping[str, Any]) -> Any:
    if name not in known:
        near = nearest(str(name), known)
        raise CepError(f"protocol_steps: {what} {name!r} not known.{near} There are {list(known)}")
    return known[name]


def _still_found(model) -> list[str]:
    """Return the matches of a run that goes on from here by the corrected rules."""
    model = copy.deepcopy(model)
    model.rules = Rules()
    for worker in model.workers:  # what was read of a watermark is of the other rules
        worker.to_read = None
    turn = 0
    while able := list(model.able()):
        model.step(able[turn % len(able)])
        turn += 1
    return model.matches


def _places(model) -> Iterator[tuple]:
    """Yield agent, kind, name and items (name, ticket, whether in hand) of every place."""
    yield None, "source", "source", [_item(event) for event in model.source]
    for agent in model.events:
        yield agent, "event queue", f"EQ{agent}", [_item(event) for event in model.events[agent]]
        yield from _buffers(model, agent, "E", "event buffer")
        yield agent, "event watermark", f"wE{agent}", [_watermark(model._event_parts(agent))]
        yield agent, "partial queue", f"MQ{agent}", [_item(partial) for partial in model.queue[agent]]
        yield from _buffers(model, agent, "M", "partial buffer")
        yield agent, "partial watermark", f"wM{agent}", [_watermark(model._partial_parts(agent))]
    yield None, "matches", "matches", [(match, None, False) for match in model.matches]


def _buffers(model, agent: int, kind: str, name: str) -> Iterator[tuple]:
    for worker in model.workers:
        if (worker.agent, worker.kind) == (agent, kind):
            held = [_item(item, ticket, worker.hand) for item, ticket in worker.buffer]
            yield agent, name, worker.name, held


def _item(item, ticket: int | None = None, hand: tuple | None = None) -> tuple[str, int | None, bool]:
    name = " ".join(event.name for event in item) if isinstance(item, tuple) else item.name
    return name, ticket, hand is not None and hand[1] == ticket


def _watermark(parts) -> tuple[str, None, bool]:
    times = [time for read in parts for time in read()]
    return str(min(times)) if times else NOTHING, None, False
