"""Laws of the reference meaning of sequence queries, and a second definition of it that tries everything."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from functools import cache

import pytest

from cepkit.language.expressions import trees as ex
from cepkit.language.sequences import patterns as sq
from tests.oracle import generate_sequences as generate
from tests.oracle import naive
from tests.oracle.naive_lines import Binding, lines
from tests.oracle.naive_sequences import SequenceMatch, sequence_matches
from tests.support.sizes import seeds

drawn = cache(generate.case)


def plain(pattern):
    """Return the pattern without what its parts say about skipping and preference."""
    match pattern:
        case sq.SequenceOf(parts=parts):
            return sq.SequenceOf(tuple(map(plain, parts)), (None,) * len(parts))
        case sq.AllOf(parts=parts):
            return sq.AllOf(tuple(map(plain, parts)))
        case sq.AnyOf(options=options):
            return sq.AnyOf(tuple(map(plain, options)))
        case sq.Loop(body=body):
            return replace(pattern, body=plain(body), inner=None, preference="all")
    return pattern


def without_reuse(seed, family=None, shape_seed=None, **changed):
    """Return query and rows of a case in which no match takes from others."""
    case = drawn(seed, family=family, shape_seed=shape_seed)
    return replace(case.query, after_match=("none", None), **changed), case.rows


def with_one_strategy(seed, family=None, shape_seed=None, **changed):
    """Return query and rows of a case in which the query's strategy holds everywhere."""
    query, rows = without_reuse(seed, family, shape_seed, **changed)
    return replace(query, pattern=plain(query.pattern)), rows


def asks_for_neighbours(query):
    """Return whether some events of a match must be next to each other in the stream."""
    nodes = list(query.pattern.walk())
    inner = [node.inner for node in nodes if isinstance(node, sq.Loop)]
    steps = [step for node in nodes if isinstance(node, sq.SequenceOf) for step in node.steps]
    return "strict" in (query.strategy, *inner, *steps)


def has_open_absence(query):
    """Return whether an absent event may stand in front of all or behind all of a match."""
    absences = [absent for line in lines(query.pattern) for absent in line.absences]
    return any(absent.after is None or absent.before is None for absent in absences)


# --- a second definition ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Entry:
    """Rows that an event of the pattern takes; ``loop`` around it, if any, and the rounds of the groups."""

    variable: str
    rows: tuple
    rounds: tuple
    loop: sq.Loop | None = None

    @property
    def is_group(self):
        return bool(self.rounds) or (self.loop is not None and self.loop.high != 1)


@dataclass(frozen=True)
class Reading:
    """One way to read rows as a pattern; ``absences`` are (event, behind, ahead, rounds)."""

    entries: tuple = ()
    absences: tuple = ()
    options: tuple = ()
    declined: frozenset = frozenset()

    def __add__(self, other):
        return Reading(
            self.entries + other.entries,
            self.absences + other.absences,
            self.options + other.options,
            self.declined | other.declined,
        )


def readings(pattern, taken, behind, ahead, is_of_type, rounds=()):
    """Yield how exactly the rows ``taken`` spell ``pattern`` between the rows ``behind`` and ``ahead``."""
    match pattern:
        case sq.EventPattern(variable=variable):
            if len(taken) == 1 and is_of_type(taken[0], pattern):
                yield Reading((Entry(variable, taken, rounds),))
        case sq.AbsentPattern(body=event):
            if not taken:
                yield Reading(absences=((event, behind, ahead, rounds),))
        case sq.SequenceOf(parts=(first, *others)):
            for cut in range(len(taken) + 1) if others else [len(taken)]:
                own, rest = taken[:cut], taken[cut:]
                heads = readings(first, own, behind, rest[0] if rest else ahead, is_of_type, rounds)
                for head in heads:
                    if not others:
                        yield head
                        continue
                    tail = sq.SequenceOf(tuple(others), (None,) * len(others))
                    before = own[-1] if own else behind
                    yield from (
                        head + more for more in readings(tail, rest, before, ahead, is_of_type, rounds)
                    )
        case sq.AnyOf(options=options):
            for number, option in enumerate(options):
                others = {
                    e.variable for other in options if other is not option for e in sq.event_patterns(other)
                }
                for found in readings(option, taken, behind, ahead, is_of_type, rounds):
                    yield Reading(options=(number,), declined=frozenset(others)) + found
        case sq.AllOf(parts=parts):
            yield from readings_in_any_order(parts, taken, behind, ahead, is_of_type, rounds)
        case sq.Loop(body=sq.EventPattern() as event, low=low, high=high):
            if not taken and low == 0:
                yield Reading()
            elif max(low, 1) <= len(taken) <= (len(taken) if high is None else high) and all(
                is_of_type(row, event) for row in taken
            ):
                yield Reading((Entry(event.variable, taken, rounds, pattern),))
        case sq.Loop(body=body, low=low, high=high):
            if not taken and low == 0:
                yield Reading()
            for n_rounds in range(max(low, 1), min(high, len(taken)) + 1):
                for cuts in itertools.combinations(range(1, len(taken)), n_rounds - 1):
                    blocks = [taken[i:j] for i, j in itertools.pairwise((0, *cuts, len(taken)))]
                    ends = [behind, *(block[-1] for block in blocks[:-1])]
                    starts = [*(block[0] for block in blocks[1:]), ahead]
                    found = [
                        readings(
                            body,
                            block,
                            end,
                            start,
                            is_of_type,
                            (*rounds, (id(pattern), number)) if high > 1 else rounds,
                        )
                        for number, (block, end, start) in enumerate(zip(blocks, ends, starts, strict=True))
                    ]
                    for chosen in itertools.product(*found):
                        yield sum(chosen, Reading())


def readings_in_any_order(parts, taken, behind, ahead, is_of_type, rounds):
    present = [part for part in parts if not isinstance(part, sq.AbsentPattern)]
    absent = [part.body for part in parts if isinstance(part, sq.AbsentPattern)]
    spanning = [(event, taken[0], taken[-1], rounds) for event in absent if taken]
    for owners in itertools.product(range(len(present)), repeat=len(taken)):
        shares = [
            tuple(row for row, o in zip(taken, owners, strict=True) if o == i) for i in range(len(present))
        ]
        found = [
            readings(part, share, behind, ahead, is_of_type, rounds)
            for part, share in zip(present, shares, strict=True)
        ]
        for chosen in itertools.product(*found):
            whole = sum(chosen, Reading(absences=tuple(spanning)))
            entries = sorted(whole.entries, key=lambda entry: entry.rows)
            if all(one.rows[-1] < other.rows[0] for one, other in itertools.pairwise(entries)):
                yield replace(whole, entries=tuple(entries))


def candidates_that_fit(query, rows):
    """Return the matches under ``any`` by trying all sets of rows and all ways to read them."""
    keys = [tuple(naive.without_nan(row[name]) for name in query.partition_by) for row in rows]
    clock = [row[query.order_by[0]] for row in rows]

    def short(ticks, limit):
        return limit is None or ticks < limit or (ticks == limit and query.within_closed)

    def is_of_type(row, event):
        return event.event_type is None or rows[row][query.event_type] == event.event_type

    def fits_in_time(taken):
        of_key = [row for row, key in enumerate(keys) if key == keys[taken[0]]]
        gaps = [clock[other] - clock[one] for one, other in itertools.pairwise(taken)]
        return (
            set(taken) <= set(of_key)
            and short(clock[taken[-1]] - clock[taken[0]], query.within)
            and all(short(gap, query.gap_within) for gap in gaps)
            and not (query.strict_time and 0 in gaps)
            and (
                query.within_events is None
                or of_key.index(taken[-1]) - of_key.index(taken[0]) < query.within_events
            )
        )

    def is_broken(reading, taken, absence):
        event, behind, ahead, around = absence
        first, last = clock[taken[0]], clock[taken[-1]]
        named = [tree for tree in query.where if event.variable in variables_of(tree)]
        return any(
            keys[row] == keys[taken[0]]
            and is_of_type(row, event)
            and (behind is not None or short(last - clock[row], query.within))
            and (ahead is not None or short(clock[row] - first, query.within))
            and all(
                holds(query, rows, tree, reading, Entry(event.variable, (row,), around)) for tree in named
            )
            for row in range(0 if behind is None else behind + 1, len(rows) if ahead is None else ahead)
        )

    def ends_too_late(reading, entry):
        if entry.loop is None or entry.loop.until is None:
            return False
        known = {e.variable: [rows[i] for i in e.rows] for e in reading.entries if e.rows < entry.rows}
        return any(
            keys[row] == keys[entry.rows[0]] and value(query, entry.loop.until, known, {}, rows[row]) is True
            for row in range(entry.rows[0] + 1, entry.rows[-1] + 1)
        )

    absent = query.absent_variables
    about_events = [tree for tree in query.where if not variables_of(tree) & absent]
    found = set()
    for size in range(1, len(rows) + 1):
        for taken in itertools.combinations(range(len(rows)), size):
            if not fits_in_time(taken):
                continue
            for reading in readings(query.pattern, taken, None, None, is_of_type):
                if (
                    all(holds(query, rows, tree, reading) for tree in about_events)
                    and not any(ends_too_late(reading, entry) for entry in reading.entries)
                    and not any(is_broken(reading, taken, absence) for absence in reading.absences)
                ):
                    events = tuple((entry.variable, entry.rows) for entry in reading.entries)
                    found.add(SequenceMatch(events, reading.options))
    return found


@cache
def variables_of(tree):
    return {node.variable for node in tree.walk() if isinstance(node, ex.Reference)}


def references(tree, in_aggregate=False):
    if isinstance(tree, ex.Reference):
        yield tree, in_aggregate
    for child in tree.children():
        yield from references(child, in_aggregate or isinstance(tree, ex.Aggregate))


def value(query, tree, events_of, current_of, row=None):
    return Binding([row], 0, range(0), dict(query.params), {}, events_of, current_of).value(tree)


def holds(query, rows, tree, reading, absent=None):
    """Return whether a conjunct is true of a whole candidate, and of the absent event that it names."""
    entries = [*reading.entries, *([] if absent is None else [absent])]
    each, before, whole = set(), set(), set()
    for reference, in_aggregate in references(tree):
        name, index = reference.variable, reference.index
        if index in ("i-1", "..i-1"):
            before.add(name)
        (each if index in ("i", "i-1", "..i-1") or (index is None and not in_aggregate) else whole).add(name)
    names = [e.variable for e in sq.event_patterns(query.pattern) if e.variable in variables_of(tree)]
    unbound = set(names) - {entry.variable for entry in entries}
    if unbound & reading.declined or (unbound and names[-1] in unbound - whole):
        return True
    bound = [[entry for entry in entries if entry.variable == name] for name in names if name not in unbound]
    for chosen in itertools.product(*bound):
        numbers = {}
        if any(numbers.setdefault(loop, n) != n for entry in chosen for loop, n in entry.rounds):
            continue  # of different rounds
        latest = max(chosen, key=lambda entry: entry.rows) if chosen and absent is None else None
        looked_at = [entry for entry in chosen if entry.variable in each]
        starts = [1 if entry.variable in before else 0 for entry in looked_at]
        ranges = [range(i, len(entry.rows)) for i, entry in zip(starts, looked_at, strict=True)]
        for places in itertools.product(*ranges):
            current_of = {entry.variable: i for entry, i in zip(looked_at, places, strict=True)}
            events_of = {entry.variable: [rows[i] for i in entry.rows] for entry in chosen}
            if latest in looked_at and latest.is_group:  # what comes later is not known yet
                events_of[latest.variable] = events_of[latest.variable][: current_of[latest.variable] + 1]
            if value(query, tree, events_of, current_of) is not True:
                return False
    return True


DEFINED_TWICE = ["any", "window", "negation", "kleene", "optional", "alternatives", "rounds", "all"]


@pytest.mark.parametrize("family", DEFINED_TWICE)
@pytest.mark.parametrize("seed", seeds(4, 13))
def test_every_candidate_that_fits_is_a_match(family, seed):
    for number in range(20 * seed, 20 * seed + 20):
        query, rows = with_one_strategy(number, family, shape_seed=number // 5, strategy="any")
        rows = rows[: 8 if family == "rounds" else 7]
        assert set(sequence_matches(query, rows)) == candidates_that_fit(query, rows), number


def test_the_second_definition_sees_matches_of_all_kinds():
    found = []
    for number in range(260):
        query, rows = with_one_strategy(number, shape_seed=number // 5, strategy="any")
        found += sequence_matches(query, rows[:7])
    assert len(found) > 500
    assert sum(len(match.events) > 2 for match in found) > 50
    assert sum(any(len(rows) > 1 for _, rows in match.events) for match in found) > 50
    assert sum(len(match.options) > 0 for match in found) > 20


# --- laws ------------------------------------------------------------------------------------------------

every_seed = pytest.mark.parametrize("seed", seeds(4, 10))
LADDER = [("strict", "run"), ("partition", "run"), ("next", "run"), ("next", "edge"), ("any", "run")]


def cases(seed, n=10):
    """Return the numbers of the cases of a test."""
    return range(1000 + n * seed, 1000 + n * seed + n)


@every_seed
def test_strategies_that_skip_more_find_more(seed):
    for number in cases(seed):
        query, rows = with_one_strategy(number)
        found = [
            set(sequence_matches(replace(query, strategy=strategy, scope=scope), rows))
            for strategy, scope in LADDER
        ]
        assert all(fewer <= more for fewer, more in itertools.pairwise(found)), number


def test_every_rung_of_the_ladder_is_a_step():
    steps = [0] * (len(LADDER) - 1)
    for number in range(60):
        query, rows = with_one_strategy(number)
        found = [
            len(sequence_matches(replace(query, strategy=strategy, scope=scope), rows))
            for strategy, scope in LADDER
        ]
        steps = [
            n + (fewer < more) for n, (fewer, more) in zip(steps, itertools.pairwise(found), strict=True)
        ]
    assert min(steps) >= 3


@every_seed
def test_without_a_key_nothing_lies_between_strict_and_partition(seed):
    for number in cases(seed):
        query, rows = with_one_strategy(number, "strict", partition_by=())
        contiguous = sequence_matches(replace(query, strategy="partition"), rows)
        assert sequence_matches(replace(query, strategy="strict"), rows) == contiguous


@every_seed
@pytest.mark.parametrize("name", ["within", "within_events", "gap_within"])
def test_wider_windows_find_more(seed, name):
    """Unless an event must be absent in front of all or behind all: the window says how far that reaches."""
    for number in cases(seed):
        query, rows = without_reuse(number)
        if has_open_absence(query):
            continue
        found = [
            set(sequence_matches(replace(query, **{name: limit}), rows)) for limit in (1, 2, 3, 5, 8, None)
        ]
        assert all(fewer <= more for fewer, more in itertools.pairwise(found)), number


@every_seed
def test_a_window_bounds_every_match_and_a_closed_one_adds_its_edge(seed):
    for number in cases(seed):
        query, rows = without_reuse(number, "window", within=5, gap_within=None)
        closed = sequence_matches(replace(query, within_closed=True), rows)
        spans = [rows[match.rows[-1]]["t"] - rows[match.rows[0]]["t"] for match in closed]
        assert all(span <= 5 for span in spans)
        if not has_open_absence(query):
            inside = [match for match, span in zip(closed, spans, strict=True) if span < 5]
            assert sequence_matches(replace(query, within_closed=False), rows) == inside


@every_seed
def test_partitions_are_isolated(seed):
    for number in cases(seed):
        query, rows = without_reuse(number, partition_by=("k",))
        if asks_for_neighbours(query):
            continue  # the events of other partitions are in the way
        apart = set()
        for key in {row["k"] for row in rows}:
            own = [i for i, row in enumerate(rows) if row["k"] == key]
            for match in sequence_matches(query, [rows[i] for i in own]):
                events = tuple((name, tuple(own[i] for i in taken)) for name, taken in match.events)
                apart.add(SequenceMatch(events, match.options))
        assert set(sequence_matches(query, rows)) == apart, number


@every_seed
def test_streams_more_than_a_window_apart_do_not_meet(seed):
    for number in cases(seed):
        query, rows = without_reuse(number, within=5)
        later = [row | {"t": row["t"] + 100} for row in rows]
        found = sequence_matches(query, rows)
        moved = [
            SequenceMatch(
                tuple((name, tuple(i + len(rows) for i in taken)) for name, taken in match.events),
                match.options,
            )
            for match in found
        ]
        assert sequence_matches(query, [*rows, *later]) == [*found, *moved], number


@every_seed
def test_later_events_change_no_earlier_match(seed):
    for number in cases(seed):
        case = drawn(number)
        if any(absent.before is None for line in lines(case.query.pattern) for absent in line.absences):
            continue  # decided by what comes later
        whole = sequence_matches(case.query, case.rows)
        for n in range(0, len(case.rows), 3):
            known = [match for match in whole if match.rows[-1] < n]
            assert sequence_matches(case.query, case.rows[:n]) == known, number


@every_seed
def test_preferences_and_until_only_take_matches_away(seed):
    def without(pattern, **changed):
        match pattern:
            case sq.SequenceOf(parts=parts):
                return replace(pattern, parts=tuple(without(part, **changed) for part in parts))
            case sq.Loop():
                return replace(pattern, **changed)
        return pattern

    for number in cases(seed):
        query, rows = without_reuse(number, "preference")
        found = set(sequence_matches(query, rows))
        everything = replace(query, pattern=without(query.pattern, preference="all"))
        assert found <= set(sequence_matches(everything, rows)), number
        query = replace(everything, strategy="any", pattern=plain(everything.pattern))
        endless = replace(query, pattern=without(query.pattern, until=None))
        assert set(sequence_matches(query, rows)) <= set(sequence_matches(endless, rows)), number


@every_seed
def test_what_a_match_takes_from_others(seed):
    for number in cases(seed):
        case = drawn(number, family="after_match")
        every = sequence_matches(replace(case.query, after_match=("none", None)), case.rows)
        kept = sequence_matches(case.query, case.rows)
        assert set(kept) <= set(every)
        key = [[row[name] for name in case.query.partition_by] for row in case.rows]
        policy, _ = case.query.after_match
        for earlier, later in itertools.combinations(kept, 2):
            if key[earlier.rows[0]] == key[later.rows[0]]:
                assert policy != "past_last" or later.rows[0] > earlier.rows[-1]
                assert policy != "to_next" or later.rows[0] != earlier.rows[0]
        keys = {tuple(map(str, key[match.rows[0]])) for match in every}
        assert {tuple(map(str, key[match.rows[0]])) for match in kept} == keys


@every_seed
def test_the_order_of_matches(seed):
    for number in cases(seed):
        query, rows = without_reuse(number, "alternatives")
        found = sequence_matches(query, rows)
        assert len(set(found)) == len(found)
        keys = [match.rows[::-1] for match in found]
        assert keys == sorted(keys)
