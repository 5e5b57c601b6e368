"""Run the counterexamples to the printed protocol, and list the items in every place after each step."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from cepkit.errors import CepError, nearest
from cepkit.parallel.experiments.protocol import PROTOCOL_COUNTEREXAMPLES, Interleaving, Rules

NOTHING = "nothing"  # watermark if nothing can still arrive
_COLUMNS = [
    *("step", "who", "what", "outcome", "agent", "kind", "place", "position", "item", "ticket", "in_hand"),
]


def protocol_steps(example: str | Interleaving, rules: str | Rules = "unsafe") -> pd.DataFrame:
    """Return the items in every queue and buffer after each step of a counterexample.

    A match is lost at the first step after which even the corrected rules would not find it.
    """
    example = _look_up("example", example, {of.name: of for of in PROTOCOL_COUNTEREXAMPLES})
    rules = _look_up("rules", rules, {"unsafe": example.rules, "corrected": Rules()})
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
    """Return steps as a readable table."""
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


def _look_up(what: str, name: Any, known: Mapping[str, Any]) -> Any:
    """Return the value of a name; an example or rules stand for themselves."""
    if isinstance(name, Interleaving | Rules):
        return name
    if name not in known:
        near = nearest(str(name), known)
        raise CepError(f"protocol_steps: {what} {name!r} is not known.{near} There are {list(known)}")
    return known[name]


def _still_found(model) -> list[str]:
    """Return the matches of a run that continues from here by the corrected rules."""
    model = copy.deepcopy(model)
    model.rules = Rules()
    for worker in model.workers:  # drop the parts of watermarks that were read by the other rules
        worker.to_read = None
    turn = 0
    while able := list(model.able()):
        model.step(able[turn % len(able)])
        turn += 1
    return model.matches


def _places(model) -> Iterator[tuple]:
    """Yield the agent, kind, name and items (name, ticket, whether in hand) of every place."""
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
