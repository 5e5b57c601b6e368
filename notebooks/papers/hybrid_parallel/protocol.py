"""Run the counterexamples to the printed protocol, and list the items in every place after each step."""

from __future__ import annotations

import copy
import random
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from cepkit.errors import CepError, nearest

# --- Run the protocol of hybrid agents step by step, as the paper prints it and as cepkit corrects it.

_END = 1 << 62  # the watermark if nothing can still arrive


@dataclass(frozen=True, slots=True)
class ProtocolEvent:
    """An event of a small stream; ``place`` is its position."""

    name: str
    type: str
    ts: int
    place: int


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of the workers."""

    # Whether an inserted item gets a number and skips items with larger numbers (correction C1).
    tickets: bool = True
    # ``"printed"``: by the newest item seen during the scan. ``"watermark"``: by the items that can still
    # arrive (corrections C2 and C3).
    removal: str = "watermark"
    # How workers read a watermark: ``"atomic"``, or in parts from ``"upstream"`` or ``"downstream"``. The
    # last is not safe.
    reading: str = "atomic"
    # Whether a Kleene agent's watermark waits for partial matches that may still re-enter its own queue
    # (correction C4).
    loops_hold: bool = True


PRINTED = Rules(tickets=False, removal="printed")


@dataclass(frozen=True)
class ProtocolRun:
    """The outcome of a run."""

    matches: list[str]  # the events of every match, in order of detection, with doubled matches
    steps: pd.DataFrame  # ``step, who, what``
    left: int  # items left in the buffers after the last event


@dataclass(eq=False)
class _Worker:
    """A worker that takes items from one agent's queue, one at a time, and keeps them in its own buffer."""

    agent: int
    kind: str  # "E" takes events, "M" partial matches
    number: int
    buffer: list[tuple[object, int]] = field(default_factory=list)  # item and ticket
    hand: tuple[object, int] | None = None
    to_scan: list[_Worker] = field(default_factory=list)
    to_read: list | None = None
    newest: int = -1  # seen during the scan
    watermark: int = _END

    @property
    def name(self) -> str:
        return f"{self.kind}{self.agent}.{self.number}"


def read_stream(text: str) -> list[ProtocolEvent]:
    """Return the events of a text like ``"a@1 b@2 a2@9"``: name, ``@``, time."""
    # The first letter of the name is the type.
    made = []
    for place, word in enumerate(text.split()):
        name, _, ts = word.partition("@")
        made.append(ProtocolEvent(name, name[0].upper(), int(ts), place))
    return made


def run_protocol(
    stream: Sequence[ProtocolEvent],
    types: str,
    within: int,
    *,
    loops: str = "",
    workers: int = 1,
    rules: Rules = Rules(),
    schedule: Sequence[str] = (),
    seed: int | None = None,
    eagerness: int = 1,
    watch: Callable[[_Model], None] | None = None,
) -> ProtocolRun:
    """Run agents over a stream in one interleaving."""
    model = _Model(list(stream), types, within, loops, workers, rules)
    draw = random.Random(seed) if seed is not None else None
    planned, turn = deque(schedule), 0
    watch = watch or (lambda model: None)
    watch(model)
    while able := model.able():
        if planned:
            name = planned.popleft()
            if name not in able:
                raise CepError(
                    f"step {len(model.steps) + 1}: {name!r} has nothing to do. These have: {sorted(able)}"
                )
        elif draw is not None:
            names = [name for name in able if name != "source"]
            name = draw.choice(names + ["source"] * (eagerness if "source" in able else 0))
        else:
            name = list(able)[turn % len(able)]
            turn += 1
        model.step(name)
        watch(model)
    steps = pd.DataFrame(model.steps, columns=["who", "what"])
    steps.insert(0, "step", range(1, len(steps) + 1))
    return ProtocolRun(model.matches, steps, sum(len(worker.buffer) for worker in model.workers))


class _Model:
    def __init__(self, stream, types: str, within: int, loops: str, n_workers: int, rules: Rules):
        self.types, self.within, self.rules = types, within, rules
        self.last_agent = len(types)
        self.loops = {types.index(of) + 1 for of in loops}
        agents = range(2, self.last_agent + 1)
        self.source = deque(stream)
        self.events: dict[int, deque] = {agent: deque() for agent in agents}
        self.queue: dict[int, deque] = {agent: deque() for agent in agents}  # of partial matches
        self.workers = [
            _Worker(agent, kind, number) for agent in agents for kind in "EM" for number in range(n_workers)
        ]
        self.named = {worker.name: worker for worker in self.workers}
        self.ticket = 0
        self.matches: list[str] = []
        self.steps: list[tuple[str, str]] = []

    def able(self) -> dict[str, None]:
        """Return the actors that have something to do, in a fixed order."""
        able = [
            w.name for w in self.workers if w.hand or (self.events if w.kind == "E" else self.queue)[w.agent]
        ]
        return dict.fromkeys([*(["source"] if self.source else []), *able])

    def step(self, name: str) -> None:
        self.steps.append((name, self._deliver() if name == "source" else self._work(self.named[name])))

    def _deliver(self) -> str:
        event = self.source.popleft()
        if event.type == self.types[0]:
            self.queue[2].append((event,))
        for agent in self.events:
            if event.type == self.types[agent - 1]:
                self.events[agent].append(event)
        return f"delivers {event.name}"

    def _work(self, worker: _Worker) -> str:
        if worker.hand is None:
            return self._take(worker)
        if worker.to_scan:
            return self._scan(worker)
        if self.rules.removal == "watermark" and self._read(worker):
            return "reads a part of the watermark"
        return self._remove(worker)

    def _take(self, worker: _Worker) -> str:
        item = (self.events if worker.kind == "E" else self.queue)[worker.agent].popleft()
        self.ticket += 1
        worker.hand = item, self.ticket
        worker.buffer.append(worker.hand)
        others = [w for w in self.workers if w.agent == worker.agent and w.kind != worker.kind]
        worker.to_scan, worker.to_read, worker.newest, worker.watermark = others, None, -1, _END
        return f"takes {_name_of(item)}"

    def _scan(self, worker: _Worker) -> str:
        other = worker.to_scan.pop(0)
        item, ticket = worker.hand
        sent = []
        for kept, kept_ticket in other.buffer:
            event, partial = (item, kept) if worker.kind == "E" else (kept, item)
            worker.newest = max(worker.newest, partial[0].ts if worker.kind == "E" else event.ts)
            if self.rules.tickets and kept_ticket > ticket:
                continue
            if event.place > partial[-1].place and event.ts - partial[0].ts <= self.within:
                sent.append((*partial, event))
        for partial in sent:
            self._send(worker.agent, partial)
        what = ", ".join(map(_name_of, sent)) if sent else "nothing"
        return f"scans {other.name}: {what}"

    def _send(self, agent: int, partial: tuple) -> None:
        if agent in self.loops:
            self.queue[agent].append(partial)
        if agent == self.last_agent:
            self.matches.append(_name_of(partial))
        else:
            self.queue[agent + 1].append(partial)

    # --- removal

    def _remove(self, worker: _Worker) -> str:
        limit = worker.newest if self.rules.removal == "printed" else worker.watermark
        if worker.kind == "E" and self.rules.removal == "printed":
            gone = [item for item, _ in worker.buffer if item.ts + self.within < limit]
        elif worker.kind == "E":
            gone = [item for item, _ in worker.buffer if item.ts < limit]
        else:
            gone = [item for item, _ in worker.buffer if item[0].ts + self.within < limit]
        worker.buffer = [(item, ticket) for item, ticket in worker.buffer if item not in gone]
        worker.hand = None
        return f"removes {', '.join(map(_name_of, gone))}" if gone else "removes nothing"

    def _read(self, worker: _Worker) -> bool:
        """Read the watermark or a part of it, and return whether parts are left."""
        if worker.to_read is None:
            parts = (
                self._partial_parts(worker.agent) if worker.kind == "E" else self._event_parts(worker.agent)
            )
            worker.to_read = list(parts)[:: -1 if self.rules.reading == "downstream" else 1]
        while worker.to_read:
            worker.watermark = min(worker.watermark, min(worker.to_read.pop(0)(), default=_END))
            if self.rules.reading != "atomic" and worker.to_read:
                return True
        return False

    def _event_parts(self, agent: int) -> Iterator:
        """Yield functions that read the times of events that may still reach an agent, upstream first."""
        yield lambda: [event.ts for event in list(self.source)[:1]]
        yield lambda: [event.ts for event in self.events[agent]]
        yield lambda: [item.ts for item in self._hands(agent, "E")]

    def _partial_parts(self, agent: int) -> Iterator:
        """Yield functions that read the last times of partial matches that may still reach an agent."""
        yield lambda: [event.ts for event in list(self.source)[:1]]
        if agent > 2:
            yield from self._event_parts(agent - 1)
            yield from self._partial_parts(agent - 1)
        if agent in self.loops and self.rules.loops_hold:
            yield from self._event_parts(agent)
        yield lambda: [partial[-1].ts for partial in self.queue[agent]]
        yield lambda: [item[-1].ts for item in self._hands(agent, "M")]

    def _hands(self, agent: int, kind: str) -> list:
        return [w.hand[0] for w in self.workers if w.agent == agent and w.kind == kind and w.hand is not None]


def _name_of(item) -> str:
    return item.name if isinstance(item, ProtocolEvent) else " ".join(event.name for event in item)


# --- counterexamples -------------------------------------------------------------------------------------
#
# Source: HYPERSONIC, sections III-B and IV (the exchange of sub-buffers and the removal of old items).
# Differs: tickets (C1) and watermarks over the items that can still arrive (C2 to C4) correct the rules.


@dataclass(frozen=True)
class Interleaving:
    """A stream and an order of steps on which unsafe rules double or lose a match."""

    # ``rules`` are the unsafe rules, and ``right`` the correct matches.

    name: str
    why: str
    stream: str
    types: str
    within: int
    schedule: str
    right: tuple[str, ...]
    rules: Rules = PRINTED
    loops: str = ""
    workers: int = 1

    def run(self, rules: Rules = Rules(), watch: Callable[[_Model], None] | None = None) -> ProtocolRun:
        """Run the stream by ``rules``, by default the corrected rules; for ``watch`` see `run_protocol`."""
        return run_protocol(
            read_stream(self.stream), self.types, self.within,
            loops=self.loops, workers=self.workers, rules=rules, schedule=_steps(self.schedule), watch=watch,
        )  # fmt: skip


def _steps(text: str) -> list[str]:
    """Return the steps of a text like ``"source*2 M2.0*3"``."""
    made = []
    for word in text.split():
        name, _, times = word.partition("*")
        made += [name] * int(times or 1)
    return made


PROTOCOL_COUNTEREXAMPLES = (
    Interleaving(
        "C1",
        "both sides of a pair are inserted before either scans: each finds the other",
        *("a1@1 b2@2", "AB", 10, "source*2 M2.0 E2.0 M2.0 E2.0"),
        ("a1 b2",),
    ),
    Interleaving(
        "C2",
        "c3 is removed for the partial match a9 b10, while the older a1 b2 is still to come",
        *("a1@1 b2@2 c3@3 a9@9 b10@10", "ABC", 5, "source*5 M2.0*4 M2.1*4 E2.0 E2.1*4 M3.0*4 E3.0*4 E2.0*3"),
        ("a1 b2 c3",),
        workers=2,
    ),
    Interleaving(
        "C3",
        "a55 is removed for the event b100, while b90 is in the hands of another worker",
        *("a55@55 b90@90 b100@100", "AB", 40, "source*3 M2.0*2 E2.0 E2.1 M2.0*2 E2.0*3"),
        ("a55 b90",),
        workers=2,
    ),
    Interleaving(
        "C4",
        "b3 is removed as nobody waits for it, but a1 b2 has yet to enter the queue of its own agent",
        *("a1@1 b2@2 b3@3", "AB", 10, "source*3 M2.0*4 E2.0 E2.1*3 M2.1*4 E2.1 E2.0*3"),
        ("a1 b2", "a1 b3", "a1 b2 b3"),
        rules=Rules(loops_hold=False),
        loops="B",
        workers=2,
    ),
)


NOTHING = "nothing"  # watermark if nothing can still arrive
_COLUMNS = [
    *("step", "who", "what", "outcome", "agent", "kind", "place", "position", "item", "ticket", "in_hand")
]


def protocol_steps(example: str | Interleaving, rules: str | Rules = "unsafe") -> pd.DataFrame:
    """Return the items in every queue and buffer after each step of a counterexample."""
    # A match is lost at the first step after which even the corrected rules would not find it.
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
