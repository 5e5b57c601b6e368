"""The definition of Siddhi's patterns and sequences: which partial matches wait where, step by step.

A pattern is a row of places, one for each single state. A partial match is a card: for each place the events
that it has there, and the time of its last event. Each place has a tray of new cards and a table of waiting
cards. This is what the documentation and the tests of Siddhi say, word by word:

* When an event comes, cards that are too old for ``within`` leave. Then the new cards of the places that read
  the event's stream go to the tables. In a sequence all tables are cleared before that, so an event that
  continues nothing ends everything.
* The last place that reads the stream sees the event first. Each waiting card tries the event. If several
  places read it, and the last of them is not the last of the pattern, a match that it completes is lost: that
  of an optional last place.
* A card that finishes the last place is a match. ``every`` puts a copy without the later events into the tray
  of the place where its body begins. Without ``every`` only one card ever starts.
* A place for ``low`` to ``high`` events puts the card into the next tray at the ``low``-th event, and keeps
  it on its own table until the next place has an event or ``high`` is reached. It is the same card.
* The halves of ``and`` and ``or`` have the same cards on their tables.
* A place for absent events lets a card pass when time has passed, and drops it when the event comes.

It imports the trees of SiddhiQL and nothing else of the package. It is slow and keeps everything in lists.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from cepkit.language.expressions import trees as ex
from cepkit.language.siddhi import query as sp
from cepkit.language.siddhi.query import PatternInput, SiddhiQuery

UNSET = -1  # the time of a partial match without events, and of an absent event


@dataclass(frozen=True)
class Given:
    """An event: its stream, its time in milliseconds, and its attributes."""

    stream: str
    time: int
    values: Mapping[str, Any]


@dataclass(eq=False)
class Card:
    """A partial match."""

    events: dict[int, list[Given]] = field(default_factory=dict)
    time: int = UNSET
    has_left: bool = False  # it was too old at some place

    def copy_up_to(self, place: int | None) -> Card:
        """Return a copy with the events of the places before ``place``; the lists are the same ones."""
        kept = {key: events for key, events in self.events.items() if place is None or key < place}
        return Card(kept, self.time)


@dataclass(eq=False)
class Place:
    """A single state."""

    number: int
    kind: str  # event, count, half, absent, absent half
    source: sp.StreamSource
    reference: str | None
    is_first: bool
    low: int = 1
    high: int | None = 1
    operator: str = ""
    wait: int | None = None
    other: Place | None = None  # the other half
    after: Place | None = None
    again: Place | None = None  # where `every` puts a copy when this place is done
    body: Place | None = None  # the first place of the `every` around this one
    reports: Place | None = None  # whose flag says that a match is complete
    is_end: bool = False
    wakes: Place | None = None  # an optional first place of a sequence
    tray: list[Card] = field(default_factory=list)
    table: list[Card] = field(default_factory=list)
    flag: bool = False
    once: bool = False
    begin_soon: bool = False
    asleep: bool = False  # a first absent state without `every` has passed a card
    deadline: int = 0
    seen: int | None = None  # the last absent event that an absent half saw
    alarms: list[int] = field(default_factory=list)

    @property
    def halves(self) -> list[Place]:
        """The place, and its other half."""
        return [self] if self.other is None else [self, self.other]


class Race(Exception):
    """Two waits end at the same time, and the order of Siddhi's threads decides."""


class Definition:
    """One pattern with its cards."""

    def __init__(self, query: SiddhiQuery):
        assert isinstance(query.input, PatternInput)
        self.query, self.within = query, query.input.within_ms
        self.is_sequence = query.input.is_sequence
        self.places: list[Place] = []
        self.matches: list[tuple[int, list[Any]]] = []
        self.now = 0
        first, end, self.heads = self.lay_out(query.input.pattern, is_first=True)
        for half in end.halves:
            half.is_end = True
        for place in self.places:
            place.reports = place
        first.reports = end
        self.starts = [place for place in self.places if place.is_first]
        self.sent: dict[Place, int] = {}

    # --- from the tree to places

    def lay_out(self, tree: sp.StatePattern, *, is_first: bool) -> tuple[Place, Place, list[Place]]:
        """Return the first and the last place of a tree, and the places that a sequence clears."""
        if isinstance(tree, sp.EveryState):
            before = len(self.places)
            first, end, _ = self.lay_out(tree.body, is_first=is_first)
            for half in end.halves:
                half.again = first
            for place in self.places[before:]:
                place.body = first
            return first, end, [first]
        if isinstance(tree, sp.StateChain):
            laid = [self.lay_out(part, is_first=is_first and i == 0) for i, part in enumerate(tree.parts)]
            for (_, end, _), (first, _, _) in pairwise(laid):
                for half in end.halves:
                    half.after = first
                if end.kind == "count" and end.is_first and self.is_sequence and end.low == 0:
                    first.wakes = end
            return laid[0][0], laid[-1][1], [head for _, _, heads in laid for head in heads]
        if isinstance(tree, sp.LogicalState):
            left, right = tree.left, tree.right
            absent = [isinstance(half, sp.AbsentState) for half in (left, right)]
            if tree.operator == "and" and absent == [False, True]:
                left, right = right, left
            two = self.place(right, is_first, tree.operator)
            one = self.place(left, is_first, tree.operator)
            one.other, two.other = two, one
            return one, two, [two]
        made = self.place(tree, is_first, "")
        return made, made, [made]

    def place(self, tree: sp.StatePattern, is_first: bool, operator: str) -> Place:
        """Add a place for a single state."""
        low, high, wait = 1, 1, None
        kind = "half" if operator else "event"
        if isinstance(tree, sp.CountedState):
            kind, low, high, tree = "count", tree.low, tree.high, tree.body
        if isinstance(tree, sp.AbsentState):
            kind, wait = "absent half" if operator else "absent", tree.wait_ms
        reference = tree.reference if isinstance(tree, sp.EventState) else None
        made = Place(len(self.places), kind, tree.source, reference, is_first, low, high, operator, wait)
        self.places.append(made)
        return made

    # --- cards come

    def begin(self, place: Place) -> None:
        """Put an empty card on the tray of a first place; without ``every`` only once."""
        before_absent = place.after is not None and place.after.kind.startswith("absent")
        again = place.again is not None or (self.is_sequence and before_absent)
        if place.is_first and (again or not place.once):
            self.put(place, Card())
            place.once = True

    def put(self, place: Place, card: Card) -> None:
        """Put a card on the tray of a place."""
        if place.asleep:
            return
        if place.kind == "absent":
            if self.is_sequence:
                place.tray = []
            place.tray.append(card)
            if not place.is_first:
                self.set_alarm(place, card.time + (place.wait or 0))
            return
        alone = self.is_sequence or (place.other is not None and place.is_first)
        for half in place.halves:
            if not (alone and half.tray):
                half.tray.append(card)
        if place.kind == "count" and place.low == 0 and place.number not in card.events:
            self.reach(place, card)
        if place.kind == "absent half" and not place.is_first and place.wait is not None:
            for half in place.halves:
                if half.kind == "absent half" and half.wait is not None:
                    half.alarms.append(card.time + half.wait)

    def put_again(self, place: Place, card: Card) -> None:
        """Put a copy of a card, without the events from a place on, on its tray."""
        if place.kind == "absent half":
            made = card.copy_up_to(None)
            if place.number in made.events:
                made.time = time_of(made.events[place.number][0])
            for half in place.halves:
                made.events.pop(half.number, None)
        else:
            made = card.copy_up_to(place.number)
            for half in place.halves:
                made.events.pop(half.number, None)
        for half in place.halves:
            half.tray.append(made)
        if place.kind == "absent":
            self.set_alarm(place, card.time + (place.wait or 0))

    def set_alarm(self, place: Place, time: int) -> None:
        """Let the wait of an absent state end at a time."""
        place.deadline = time
        place.alarms.append(time)

    def lay(self, place: Place) -> None:
        """Move the new cards to the table, those with the oldest events first."""
        if place.begin_soon:
            place.begin_soon = False
            self.begin(place)
        for half in place.halves:
            half.table += sorted(half.tray, key=lambda card: (card.time == UNSET, card.time))
            half.tray = []

    def clear(self, place: Place) -> None:
        """Clear the table before the next event of a sequence."""
        other = place.other
        if other is not None and place.operator == "and" and len(place.table) != len(other.table):
            return
        for half in place.halves:
            half.table = []
        if place.is_first and (place.kind == "absent" or not place.tray):
            if self.is_sequence and place.again is None and place.after is not None and place.after.table:
                return
            self.begin(place)

    def is_old(self, card: Card, time: int) -> bool:
        """Return whether a card began too long ago."""
        if self.within is None:
            return False
        return any(
            abs(time_of(card.events[start.number][0]) - time) > self.within
            for start in self.starts
            if start.number in card.events
        )

    def drop_old(self, place: Place, time: int) -> None:
        """Take the cards away that are too old; the last of them begins again with ``every``."""
        gone = []
        while place.table and self.is_old(place.table[0], time):
            gone.append(place.table.pop(0))
        gone += [card for card in place.tray if self.is_old(card, time)]
        place.tray = [card for card in place.tray if not self.is_old(card, time)]
        new = [card for card in gone if not card.has_left]
        for card in new:
            card.has_left = True
        if new and place.body is not None:
            self.put_again(place.body, new[-1])
            self.lay(place.body)

    # --- events come

    def take(self, event: Given) -> None:
        """Let an event come."""
        self.pass_time(event.time)
        readers = [place for place in self.places if place.source.stream == event.stream]
        if not readers:
            return
        for place in self.places:
            self.drop_old(place, event.time)
        if self.is_sequence:
            for place in reversed(self.heads):
                self.clear(place)
            for place in self.heads:
                self.lay(place)
        else:
            for place in readers:
                self.lay(place)
        is_heard = len(readers) == 1 or readers[-1].is_end
        for place in reversed(readers):
            self.offer(place, event, is_heard=is_heard)

    def offer(self, place: Place, event: Given, *, is_heard: bool) -> None:
        """Let all cards of a table try an event; a match that is not heard is lost."""
        if place.asleep:
            return
        stay, complete, number = [], [], place.number
        for card in list(place.table):
            if card not in place.table:
                continue
            if place.operator == "or" and place.other is not None and place.other.number in card.events:
                continue
            if place.kind == "count" and any(number + k in card.events for k in (1, 2)):
                continue
            before = card.events.get(number)
            if place.kind == "count" and before is not None:
                before.append(event)
            else:
                card.events[number] = [event]
            passes = all(self.holds(one, card, place) for one in place.source.conditions)
            moved = self.accept(place, card, event.time) if passes else False
            if place.kind == "absent half":
                keeps_place = place.wait is not None or (
                    self.is_sequence and place.operator == "and" and place.again is not None
                )
                if keeps_place or not passes:
                    restore(card, number, before)
                goes = self.is_sequence and not passes
                if place.reports is not None and place.reports.flag:
                    place.reports.flag = False
                    goes = True
                    if self.is_sequence and place.other is not None and card in place.other.table:
                        place.other.table.remove(card)
                if not goes:
                    stay.append(card)
                continue
            if place.reports is not None and place.reports.flag:
                place.reports.flag = False
                if place.kind != "absent":
                    complete.append(card)
            if passes:
                if not moved:
                    stay.append(card)
                continue
            if place.kind == "count":
                taken = card.events[number]
                taken.pop()
                if not taken:
                    del card.events[number]
            else:
                del card.events[number]
            if not self.is_sequence or place.kind == "absent":
                stay.append(card)
            if self.is_sequence and place.wakes is not None and place.kind in ("event", "absent"):
                place.wakes.begin_soon = True
        place.table = stay
        for card in complete if is_heard else []:
            self.match(card)

    def accept(self, place: Place, card: Card, time: int) -> bool:
        """Let a card have an event; return whether it leaves the table."""
        if place.kind == "absent half":
            place.flag, place.seen = True, time
            return True
        if place.kind == "half" and place.operator == "and" and not self.agrees(place.other, card):
            return True
        card.time = time
        if place.kind == "absent":
            place.flag = True
            if place.is_first and place.again is place:
                self.put_again(place, card)
            self.set_alarm(place, time + (place.wait or 0))
            return True
        if place.kind == "count":
            n, left = len(card.events[place.number]), False
            if n >= place.low:
                if self.is_sequence:
                    if place.after is not None:
                        self.put(place.after, card)
                    if n != place.high:
                        self.put(place, card)
                elif n == place.low:
                    left = self.reach(place, card)
                left = left or n == place.high
            return left
        self.hand_on(place, card)
        other = place.other
        if place.operator == "or" and other is not None and other.is_end and place.reports is other:
            other.flag = True
        return True

    def agrees(self, place: Place | None, card: Card) -> bool:
        """Return whether this half of ``and`` is satisfied."""
        assert place is not None
        if place.kind == "half":
            return place.number in card.events
        if self.is_sequence and place.again is None and place.seen is not None:
            return False
        if place.wait is not None:
            return place.number in card.events
        if place.again is None:
            return place.number not in card.events
        if place.seen is None:
            return True
        place.seen = None
        self.begin(place)
        return False

    def hand_on(self, place: Place, card: Card) -> None:
        """Report a card, or put it on the next tray; ``every`` begins again."""
        self.reach(place, card)
        if place.wakes is not None:
            place.wakes.begin_soon = True

    def reach(self, place: Place, card: Card) -> bool:
        """Hand a card on that has enough events; return whether that completes a match."""
        if place.is_end:
            place.flag = True
        if place.after is not None:
            self.put(place.after, card)
        if place.again is not None:
            self.put_again(place.again, card)
        return place.is_end

    # --- time passes

    def start(self, time: int) -> None:
        """Let the pattern begin."""
        self.now = time
        for place in self.places:
            self.begin(place)
        for place in self.starts:
            if place.kind == "absent":
                self.set_alarm(place, time + (place.wait or 0))
            elif place.kind == "absent half" and place.wait is not None:
                place.alarms.append(time + place.wait)

    def pass_time(self, time: int) -> None:
        """Let all alarms up to a time ring, the earliest first; the left half of a logical state first."""
        while True:
            ringing = [place for place in self.places if place.alarms and max(place.alarms[0], 0) <= time]
            if not ringing:
                break
            place = min(ringing, key=lambda one: (one.alarms[0], self.rank(one)))
            due = place.alarms.pop(0)
            self.now = max(self.now, due)
            if place.kind == "absent":
                self.end_wait(place, due)
            else:
                self.end_wait_of_half(place, due)
        self.now = max(self.now, time)

    def rank(self, place: Place) -> tuple[int, int]:
        """Return the order of alarms of one time."""
        if place.other is None:
            return place.number, 0
        return min(place.number, place.other.number), -place.number

    def end_wait(self, place: Place, time: int) -> None:
        """Let the cards of an absent state pass whose wait is over."""
        if place.asleep:
            return
        is_bare = place.is_first and not place.tray and not place.table
        if is_bare and not (self.is_sequence and place.again is None):
            self.put(place, Card())
        elif self.is_sequence and place.tray:
            self.clear(place)
        self.lay(place)
        stay, done = [], []
        for card in place.table:
            if self.is_old(card, time):
                if place.body is not None and place.again is not None and place.again is not place:
                    self.put_again(place.again, card)
            elif time >= (place.deadline if card.time == UNSET else card.time + (place.wait or 0)):
                card.time = time
                done.append(card)
            else:
                stay.append(card)
        place.table = stay
        if place.body is not None:
            self.lay(place.body)
        for card in done:
            self.send(place, card)
        if self.now > time + (place.wait or 0):
            place.deadline = self.now + (place.wait or 0)
        if not done and place.deadline < time:
            self.set_alarm(place, time + (place.wait or 0))

    def end_wait_of_half(self, place: Place, time: int) -> None:
        """Let the cards of an absent half pass whose wait is over, or mark them as satisfied."""
        if place.asleep:
            return
        other, wait = place.other, place.wait or 0
        assert other is not None
        can_race = place.operator == "or" and place.again is not None and not self.is_sequence
        if can_race and self.sent.get(other) == self.now:
            raise Race
        has_sent = False
        if place.seen is None or time >= place.seen + wait:
            if place.is_first and self.is_sequence and not place.tray and not place.table:
                self.put(place, Card())
            elif self.is_sequence and place.tray:
                self.clear(place)
            self.lay(place)
            stay, done, old = [], [], []
            for card in place.table:
                since = (
                    card.time if place.number not in card.events else time_of(card.events[place.number][0])
                )
                if self.is_old(card, time):
                    old.append(card)
                elif time < since + wait:
                    stay.append(card)
                elif place.operator == "or":
                    if other.number not in card.events:
                        card.events.setdefault(place.number, []).append(NOTHING)
                        done.append(card)
                elif other.number in card.events:
                    done.append(card)
                else:
                    card.events.setdefault(place.number, []).append(NOTHING)
            place.table = stay
            if old and place.body is not None:
                self.put_again(place.body, old[-1])
                self.lay(place.body)
            for card in done:
                card.time = time
                self.send(place, card)
            has_sent, place.seen = bool(done), None
        if place.again is not None or (not has_sent and place.is_first):
            place.alarms.append((self.now if place.seen is None else place.seen) + wait)

    def send(self, place: Place, card: Card) -> None:
        """Hand a card on whose wait is over."""
        self.sent[place] = self.now
        if place.is_end:
            self.match(card)
        if place.after is not None:
            self.put(place.after, card)
        if place.again is not None:
            self.put_again(place.again, card)
        elif place.is_first:
            place.asleep = True
            if place.operator == "or" and place.other is not None and place.other.kind == "absent half":
                place.other.asleep = True
        if place.wakes is not None:
            place.wakes.begin_soon = True

    # --- values

    def match(self, card: Card) -> None:
        """Note a match: its time, and the values of ``select``."""
        row = [self.value(column.value, card, None) for column in self.query.select]
        self.matches.append((card.time, row))

    def holds(self, tree: ex.Expression, card: Card, place: Place) -> bool:
        """Return whether a condition is true; a missing value makes a comparison false."""
        match tree:
            case ex.And(operands=operands):
                return all(self.holds(one, card, place) for one in operands)
            case ex.Or(operands=operands):
                return any(self.holds(one, card, place) for one in operands)
            case ex.Not(operand=operand):
                return not self.holds(operand, card, place)
            case ex.IsNull(operand=operand):
                return self.value(operand, card, place) is None
            case ex.Comparison(operator=sign, left=left, right=right):
                a, b = self.value(left, card, place), self.value(right, card, place)
                if a is None or b is None:
                    return sign == "!="
                return {
                    "==": a == b, "!=": a != b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b,
                }[sign]  # fmt: skip
        raise AssertionError(tree)

    def value(self, tree: ex.Expression, card: Card, place: Place | None) -> Any:
        """Return a value; in ``select`` a counted state without an index gives a list."""
        match tree:
            case ex.Literal(value=value):
                return value
            case ex.Attribute(name=name):
                assert place is not None
                return card.events[place.number][-1].values[name]
            case ex.Arithmetic(operator="+", left=left, right=right):
                a, b = self.value(left, card, place), self.value(right, card, place)
                return None if a is None or b is None else a + b
            case ex.Reference(variable=variable, name=name, index=index):
                of = next(one for one in self.places if one.reference == variable)
                values = [event.values.get(name) for event in card.events.get(of.number, ())]
                if index is None and of.kind == "count" and place is None:
                    return values
                if isinstance(index, int):
                    at = index - 1
                else:
                    back = int((index or "LEN").partition("-")[2] or 0)
                    at = len(values) - 1 - back - (index is not None and of is place)
                return values[at] if 0 <= at < len(values) else None
        raise AssertionError(tree)


NOTHING = Given("", UNSET, {})


def time_of(event: Given) -> int:
    """Return the time of an event."""
    return event.time


def restore(card: Card, number: int, before: list[Given] | None) -> None:
    """Give a card back what it had at a place."""
    if before is None:
        card.events.pop(number, None)
    else:
        card.events[number] = before


def matches_of(
    query: SiddhiQuery, events: Sequence[Given], start: int, end: int
) -> list[tuple[int, list[Any]]]:
    """Return the matches of a pattern: when each is complete, and its values.

    Raises
    ------
    Race
        If two waits end at the same time and Siddhi's answer depends on the order of its threads.
    """
    made = Definition(query)
    made.start(start)
    for event in events:
        made.take(event)
    made.pass_time(end)
    return made.matches
