"""Random sequence queries and streams from integer seeds; the oracle's lines say how large a case is.

A case has two seeds: ``shape_seed`` draws everything that shapes compiled code (the pattern, the structure of
the conditions, strategy and options), ``seed`` draws the rows, the constants and the parameters' values. All
floats are multiples of 1/4, so that sums are exact in any order.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from random import Random
from typing import TYPE_CHECKING, Any

from cepkit.language.expressions import trees as ex
from cepkit.language.sequences import patterns as sq
from cepkit.language.sequences.patterns import SequenceQuery
from tests.oracle import generate, naive
from tests.oracle.generate_conditions import Conditions, Role
from tests.oracle.naive_lines import Line, lines
from tests.oracle.naive_sequences import Search

if TYPE_CHECKING:
    import pandas as pd

DTYPE_OF_COLUMN = {"kind": "string", **generate.DTYPE_OF_COLUMN}
MOST_CANDIDATES = 3000

# What a family asks of the shape: its strategies, and which parts the pattern may have.
FAMILIES: Mapping[str, tuple[tuple[str, ...], frozenset[str]]] = {
    "any": (("any",), frozenset({"loop"})),
    "next": (("next",), frozenset({"loop"})),
    "strict": (("strict",), frozenset({"loop"})),
    "partition": (("partition",), frozenset({"loop"})),
    "window": (("any", "any", "next", "partition"), frozenset({"loop", "window"})),
    "negation": (("any", "any", "next", "partition", "strict"), frozenset({"loop", "absent"})),
    "kleene": (("any", "next", "next", "partition", "strict"), frozenset({"loop", "loops", "until"})),
    "optional": (("any", "next", "partition"), frozenset({"loop", "optional", "absent"})),
    "alternatives": (
        ("any", "next", "partition"),
        frozenset({"loop", "all_of", "any_of", "nested", "spanning"}),
    ),
    "rounds": (("any", "next", "partition", "strict"), frozenset({"loop", "rounds"})),
    "mixed": (("any", "next", "next", "partition"), frozenset({"loop", "loops", "steps", "rounds"})),
    "preference": (
        ("next", "next", "partition", "strict"),
        frozenset({"loops", "preference", "until", "steps"}),
    ),
    "after_match": (("any", "next", "partition", "strict"), frozenset({"loop", "any_of", "after_match"})),
    "all": (
        ("any", "next", "partition", "strict"),
        frozenset({"loop", "optional", "until", "preference", "all_of", "any_of", "nested", "rounds"})
        | {"absent", "window", "steps", "after_match"},
    ),
}


@dataclass(frozen=True, slots=True)
class Case:
    """A query on a stream; the rows are in stream order."""

    query: SequenceQuery
    rows: Sequence[Mapping[str, Any]]

    def keywords(self) -> dict[str, Any]:
        """Return what is neither pattern nor conditions of the query as keywords of ``match``."""
        rest = {item.name for item in fields(self.query)}
        rest -= {"pattern", "where", "measures", "sources", "undecided"}
        keywords = {name: getattr(self.query, name) for name in rest - {"functions"}}
        return keywords | {
            "params": dict(self.query.params),
            "partition_by": [*self.query.partition_by] or None,
        }


def case(
    seed: int, shape_seed: int | None = None, family: str | None = None, n_events: int | None = None,
    *, greedy_ends: bool = False,
) -> Case:  # fmt: skip
    """Return the case of ``seed``; cases of one ``shape_seed`` differ in rows, constants and values only.

    ``family`` is one of ``FAMILIES``, None draws one. Without ``n_events`` the stream is short, has at most
    ``MOST_CANDIDATES`` matches, and mostly some: rows and constants are drawn again until it is so.
    A loop at the end is greedy with ``greedy_ends`` only: then matches remove others.
    """
    shape_seed = seed if shape_seed is None else shape_seed
    variant = _variant_with_matches(shape_seed, family)
    n_attempts, less = 0, 0
    while True:
        values = Random(f"values {seed} {n_attempts} {less}")
        drawn = _case(_shape(shape_seed, family, variant), values, family, n_events, less)
        if n_events is None and n_candidates(drawn) > MOST_CANDIDATES:
            less += 1
        elif n_events is not None or seed % 10 == 0 or n_attempts == 6 or _has_matches(drawn):
            plain = drawn.query.pattern if greedy_ends else _without_greedy_end(drawn.query.pattern)
            return replace(drawn, query=replace(drawn.query, pattern=plain))
        else:
            n_attempts += 1


def _without_greedy_end(pattern: sq.SequencePattern) -> sq.SequencePattern:
    match pattern:
        case sq.Loop(body=sq.EventPattern(), preference="greedy"):
            return replace(pattern, preference="all")
        case sq.Loop(body=body):
            return replace(pattern, body=_without_greedy_end(body))
        case sq.SequenceOf(parts=parts):
            return replace(pattern, parts=_without_greedy_last(parts))
        case sq.AllOf(parts=parts) | sq.AnyOf(parts=parts):
            return replace(pattern, parts=tuple(map(_without_greedy_end, parts)))
    return pattern


def _without_greedy_last(parts: tuple[sq.SequencePattern, ...]) -> tuple[sq.SequencePattern, ...]:
    *before, last = parts
    if before and (isinstance(last, sq.AbsentPattern) or (isinstance(last, sq.Loop) and not last.low)):
        before = _without_greedy_last(tuple(before))
    return (*before, _without_greedy_end(last))


def random_query(seed: int, family: str | None = None) -> SequenceQuery:
    """Return a random query; it may have no match in any stream."""
    query = _case(_shape(seed, family, 0), Random(f"query {seed}"), family, 0, 0).query
    return replace(query, pattern=_without_greedy_end(query.pattern))


def _shape(shape_seed: int, family: str | None, variant: int) -> Random:
    return Random(f"shape {shape_seed} {family} {variant}")


@cache
def _variant_with_matches(shape_seed: int, family: str | None) -> int:
    """Return the number of a shape that has matches in some stream: conditions may contradict each other."""
    for variant in range(50):
        for probe in range(6):
            drawn = _case(_shape(shape_seed, family, variant), Random(f"probe {probe}"), family, None, 0)
            if n_candidates(drawn) <= MOST_CANDIDATES and _has_matches(drawn):
                return variant
    raise RuntimeError(f"no matches for shape {shape_seed} of family {family}")


def _has_matches(drawn: Case) -> bool:
    found = (Search(drawn.query, line, drawn.rows).matches() for line in lines(drawn.query.pattern))
    return any(True for _ in itertools.chain.from_iterable(found))


def _case(shape: Random, values: Random, family: str | None, n_events: int | None, less: int) -> Case:
    strategies, features = FAMILIES[family or shape.choice([*FAMILIES])]
    strategy = shape.choice(strategies)
    query = SequenceQuery(
        sq.EventPattern("a"),
        strategy=strategy,
        scope=shape.choice(["run", "run", "edge"]),
        partition_by=shape.choice([(), (), ("k",), ("k",), ("k",), ("k", "f")]),
        order_by=("t",),
        event_type="kind",
        strict_time=shape.random() < 0.12,
    )
    conditions = Conditions(shape, values)
    patterns = Patterns(shape, strategy, features, conditions)
    query = replace(query, pattern=patterns.pattern())
    query = _with_windows(query, shape, values, "window" in features)
    query = replace(query, where=_conjuncts(query, shape, patterns, conditions))
    named = [*query.where, *(loop.until for loop in patterns.loops if loop.until is not None)]
    used = {node.name for tree in named for node in tree.walk() if isinstance(node, ex.Parameter)}
    params = tuple((name, value) for name, value in conditions.params.items() if name in used)
    query = replace(query, params=params, after_match=_after_match(query, shape, "after_match" in features))
    with_nulls, extra_types = shape.random() < 0.75, shape.choice([0, 1, 1])
    n_keys = values.randint(1, 3) if query.partition_by else 1
    if n_events is None:
        sizes = [values.randint(0, 3), *4 * [values.randint(4, 8)], *5 * [values.randint(9, 12)]]
        n_events = max(values.choice(sizes) + 2 * (n_keys - 1) - less, 0)
    rows = stream(values, query, n_events, n_keys, nulls=with_nulls, extra_types=extra_types)
    return Case(_with_end_of_data(query, shape, values, rows), rows)


def _with_end_of_data(query: SequenceQuery, shape: Random, values: Random, rows: Sequence) -> SequenceQuery:
    """Return the query with an end of the data where an event may be absent after all others.

    In finished data, a wait after the last event needs no window.
    """
    absences = [absent for line in lines(query.pattern) for absent in line.absences]
    if all(absent.before is not None for absent in absences):
        return query
    until = shape.choice([None, "time", "end", "never"])
    if until == "time":
        last = max((row["t"] for row in rows), default=0)
        return replace(query, complete_until=last + values.randint(-6, 12))
    if until == "never" and all(absent.after is not None for absent in absences):
        is_closed = query.within_closed or query.gap_within is None  # it belongs to a window
        query = replace(query, within=None, within_closed=is_closed)
    return query if until is None else replace(query, complete_until="end")


# --- patterns --------------------------------------------------------------------------------------------


class Patterns:
    """Draws patterns; ``roles`` says of each variable what a condition may ask of it."""

    def __init__(self, shape: Random, strategy: str, features: frozenset[str], conditions: Conditions):
        self.shape, self.strategy, self.features, self.conditions = shape, strategy, features, conditions
        contiguous = strategy in ("strict", "partition") or "rounds" in features
        self.types = shape.choice(["AB", "AB", "ABC"] if contiguous else ["AB", "ABC", "ABC", "ABCD"])
        self.roles: list[Role] = []
        self.loops: list[sq.Loop] = []
        self._in_rounds = False

    def pattern(self) -> sq.SequencePattern:
        """Return a pattern of one to about five events."""
        n_parts = self.shape.choice([1, 2, 2, 2, 3, 3, 3, 4] if self.strategy != "strict" else [1, 2, 2, 3])
        if self.features & {"rounds", "all_of", "any_of", "nested"}:
            n_parts = self.shape.choice([1, 2, 2, 3])
        must = {
            "rounds": self._rounds,
            "all_of": self._all_of,
            "any_of": self._any_of,
            "nested": self._nested,
        }
        special = [make for feature, make in must.items() if feature in self.features]
        at = self.shape.randrange(n_parts)
        made = []
        for i in range(n_parts):
            if special and (i == at or self.shape.random() < 0.1):
                made.append(self.shape.choice(special)())
            else:
                made.append(self._part(optional=i != at))
        return self._sequence(self._with_absent(made, edges=True))

    def _sequence(self, parts: Sequence[sq.SequencePattern]) -> sq.SequencePattern:
        if len(parts) == 1 and self.shape.random() < 0.7 and not isinstance(parts[0], sq.AbsentPattern):
            return parts[0]
        steps: list[str | None] = [None]
        for part in parts[1:]:
            steps.append(None if isinstance(part, sq.AbsentPattern) else self._contiguity())
        return sq.SequenceOf(tuple(parts), tuple(steps))

    def _contiguity(self) -> str | None:
        if "steps" not in self.features or self.shape.random() < 0.4:
            return None
        return self.shape.choice(["strict", "partition", "next", "next", "any", "any"])

    def _with_absent(self, parts: list[sq.SequencePattern], edges: bool) -> list[sq.SequencePattern]:
        """Return the parts with absent events between them, and in front or behind where there may be."""
        if "absent" not in self.features or self.shape.random() < 0.1:
            return parts
        places = range(len(parts) + 1) if edges else range(1, len(parts))
        for at in sorted(
            self.shape.sample(places, min(len(places), self.shape.choice([1, 1, 2]))), reverse=True
        ):
            parts = [*parts[:at], self._absent(), *parts[at:]]
        return parts

    def _absent(self) -> sq.AbsentPattern:
        event = self._event(absent=True)
        return sq.AbsentPattern(event)

    def _event(self, *, loop: bool = False, absent: bool = False, sure: bool = False) -> sq.EventPattern:
        name = "abcdefghijklmopqr"[len(self.roles)]
        # Mostly one type after the other; sometimes again the same, or any.
        in_turn = self.types[len(self.roles) % len(self.types)]
        event_type = self.shape.choice([*5 * [in_turn], self.shape.choice(self.types), None])
        self.roles.append(Role(name, is_loop=loop, in_rounds=self._in_rounds, absent=absent, sure=sure))
        return sq.EventPattern(name, event_type)

    def _part(self, *, optional: bool, nested: bool = False) -> sq.SequencePattern:
        """Return an event, maybe repeated or optional."""
        roll = self.shape.random()
        often = 0.6 if "loops" in self.features else 0.3
        if self.features & {"loop", "loops"} and roll < often:
            return self._loop(optional=optional)
        if optional and roll > (0.6 if "optional" in self.features else 0.95):
            return self._kept(sq.Loop(self._event(), 0, 1))
        return self._event(sure=not nested and not self._in_rounds)

    def _loop(self, *, optional: bool) -> sq.Loop:
        event = self._event(loop=True)
        low, high = self.shape.choice([(1, None), (1, None), (1, None), (2, None), (1, 2), (2, 2), (2, 3)])
        if optional and self.shape.random() < (0.4 if "optional" in self.features else 0.15):
            low, high = self.shape.choice([(0, None), (0, None), (0, 2)])
        inner = self._contiguity()
        preference, until = "all", None
        if "preference" in self.features and (inner or self.strategy) != "any" and self.shape.random() < 0.75:
            preference = self.shape.choice(["greedy", "reluctant"])
        if "until" in self.features and self.shape.random() < 0.5:
            sure = [role for role in self.roles if role.sure]
            until = self.conditions.until(self.shape.choice(sure) if sure else None)
        return self._kept(sq.Loop(event, low, high, inner=inner, preference=preference, until=until))

    def _kept(self, loop: sq.Loop) -> sq.Loop:
        self.loops.append(loop)
        return loop

    def _rounds(self) -> sq.Loop:
        outer, self._in_rounds = self._in_rounds, True
        low, high = self.shape.choice([(1, 2), (2, 2), (2, 2), (0, 2), (1, 3), (0, 1)])
        parts: list[sq.SequencePattern] = [self._part(optional=False, nested=True)]
        for _ in range(self.shape.choice([0, 1, 1])):
            roll = self.shape.random()
            if roll < 0.12:
                parts.append(sq.AnyOf((self._event(), self._event())))
            else:
                parts.append(self._part(optional=roll < 0.4, nested=True))
        body = self._sequence(self._with_absent(parts, edges=False))
        if not isinstance(body, sq.SequenceOf):
            body = sq.SequenceOf((body,), (None,))
        self._in_rounds = outer
        return self._kept(sq.Loop(body, low, high, inner=None if high == 1 else self._contiguity()))

    def _all_of(self) -> sq.AllOf:
        parts: list[sq.SequencePattern] = []
        for _ in range(self.shape.choice([2, 2, 2, 3])):
            roll = self.shape.random()
            if roll < 0.25 and "nested" in self.features and len(parts) < 2:
                parts.append(self._nested())
            else:
                parts.append(self._part(optional=roll > 0.8 and bool(parts), nested=True))
        if self.features & {"absent", "spanning"} and self.shape.random() < 0.35:
            parts.insert(self.shape.randrange(len(parts) + 1), self._absent())
        return sq.AllOf(tuple(parts))

    def _any_of(self) -> sq.AnyOf:
        options: list[sq.SequencePattern] = []
        for _ in range(self.shape.choice([2, 2, 3])):
            nested = "nested" in self.features and self.shape.random() < 0.3
            options.append(self._nested() if nested else self._part(optional=False, nested=True))
        return sq.AnyOf(tuple(options))

    def _nested(self) -> sq.SequenceOf:
        parts: list[sq.SequencePattern] = [self._part(optional=False, nested=True) for _ in range(2)]
        made = self._sequence(self._with_absent(parts, edges=False))
        return made if isinstance(made, sq.SequenceOf) else sq.SequenceOf((made,), (None,))


def _conjuncts(
    query: SequenceQuery, shape: Random, patterns: Patterns, conditions: Conditions
) -> tuple[ex.Expression, ...]:
    """Return conjuncts for the query: up to three on its events, up to two on each absent one."""
    roles = [role for role in patterns.roles if not role.absent]
    loose = query.strategy in ("strict", "partition")
    in_rounds = [role for role in roles if role.in_rounds]
    made = []
    for _ in range(shape.choice([0, 1, 1, 2, 2, 3])):
        about = in_rounds if in_rounds and shape.random() < 0.4 else roles
        made.append(conditions.conjunct(about, loose=loose))
    for role in patterns.roles:
        if role.absent:
            made += [conditions.conjunct(roles, absent=role) for _ in range(shape.choice([0, 1, 1, 2]))]
    shape.shuffle(made)
    return tuple(made)


def _with_windows(query: SequenceQuery, shape: Random, values: Random, often: bool) -> SequenceQuery:
    """Return the query with a window where it needs one, else with some or none."""
    open_edges = any(
        absent.after is None or absent.before is None
        for line in lines(query.pattern)
        for absent in line.absences
    )
    chance = 0.5 if often else 0.2
    closed = shape.random() < 0.7
    within = values.choice([0, 3, 5, 8, 12]) if closed else values.choice([1, 4, 6, 9, 12])
    in_time = open_edges or shape.random() < (0.6 if often else 0.4)
    in_events, with_gap = shape.random() < chance, shape.random() < chance
    n_events, gap = values.randint(3, 8), values.randint(1, 5)
    return replace(
        query,
        within=within if in_time else None,
        within_closed=closed or not (in_time or with_gap),  # it belongs to a window
        within_events=n_events if in_events else None,
        gap_within=gap if with_gap else None,
    )


def _after_match(query: SequenceQuery, shape: Random, often: bool) -> tuple[str, str | None]:
    if not often or shape.random() < 0.1:
        return "none", None
    once = ["once", "once_newest"]
    if query.strategy == "any" or _skips_anything(query.pattern):
        return shape.choice(["past_last", *once]), None
    policy = shape.choice(["past_last", "to_next", "to_first", "to_last", *once])
    return policy, shape.choice(query.variables) if policy in ("to_first", "to_last") else None


def _skips_anything(pattern: sq.SequencePattern) -> bool:
    return any(
        (isinstance(node, sq.Loop) and node.inner == "any")
        or (isinstance(node, sq.SequenceOf) and "any" in node.steps)
        for node in pattern.walk()
    )


# --- streams ---------------------------------------------------------------------------------------------


def stream(
    rng: Random,
    query: SequenceQuery,
    n_events: int,
    n_keys: int = 1,
    *,
    nulls: bool = True,
    extra_types: int = 1,
) -> list[dict[str, Any]]:
    """Return rows in stream order with the event types of the query and ``extra_types`` others.

    Types of events that must be absent are rarer. ``nulls``: as in ``generate.stream``.
    """
    absent = query.absent_variables
    events = sq.event_patterns(query.pattern)
    wanted = {event.event_type for event in events if event.variable not in absent} - {None}
    weight_of_kind = {event.event_type: 1 for event in events if event.event_type} | dict.fromkeys(wanted, 3)
    weight_of_kind |= dict.fromkeys("xy"[:extra_types], 1)
    if not weight_of_kind:
        weight_of_kind = {"A": 1}
    kinds, weights = sorted(weight_of_kind), [weight_of_kind[kind] for kind in sorted(weight_of_kind)]
    return [
        {"kind": rng.choices(kinds, weights)[0], **row}
        for row in generate.stream(rng, n_events, n_keys, nulls=nulls)
    ]


def to_frame(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Return the rows as a frame of the honest dtypes, also when there are none."""
    import pandas as pd

    return pd.DataFrame(
        {name: pd.Series([row[name] for row in rows], dtype=dtype) for name, dtype in DTYPE_OF_COLUMN.items()}
    )


# --- size ------------------------------------------------------------------------------------------------


def n_candidates(drawn: Case) -> int:
    """Return how many matches types, keys and window allow."""
    return sum(_n_candidates_of(drawn, line) for line in lines(drawn.query.pattern))


def _n_candidates_of(drawn: Case, line: Line) -> int:
    query, rows, slots = drawn.query, drawn.rows, line.slots
    keys = [tuple(naive.without_nan(row[name]) for name in query.partition_by) for row in rows]
    takes = [[slot.event_type in (None, row["kind"]) for slot in slots] for row in rows]
    n_found = 0
    for first in range(len(rows)):
        if not slots or not takes[first][0]:
            continue
        n_at = {(0, 1): 1}  # by component and number of its events
        n_found += len(slots) == 1 and slots[0].low == 1
        for row in range(first + 1, len(rows)):
            if keys[row] != keys[first]:
                continue
            if query.within is not None and rows[row]["t"] - rows[first]["t"] > query.within:
                break
            grown: dict[tuple[int, int], int] = {}
            for (place, size), n in n_at.items():
                slot = slots[place]
                if takes[row][place] and (slot.high is None or size < slot.high):
                    grown[place, size + 1] = grown.get((place, size + 1), 0) + n
                if size >= slot.low and place + 1 < len(slots) and takes[row][place + 1]:
                    grown[place + 1, 1] = grown.get((place + 1, 1), 0) + n
            for (place, size), n in grown.items():
                n_at[place, size] = n_at.get((place, size), 0) + n
                n_found += n if place + 1 == len(slots) and size >= slots[place].low else 0
    return n_found
