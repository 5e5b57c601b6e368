"""Why expected events are no match: the definition agrees with every reason, and each has its words."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from random import Random

import numba
import pandas as pd
import pytest

import cepkit as cep
from cepkit.engines.search import search_sequence
from cepkit.engines.shared.places import Places
from cepkit.errors import CepError
from cepkit.insight.partial_matches import KINDS, Obstacle
from cepkit.insight.why_not_sequences import EventReading, outcome_of, read_events
from tests.oracle import generate_sequences as gs
from tests.oracle.naive_lines import lines
from tests.oracle.naive_sequences import Search, sequence_matches
from tests.support.sequence_runs import bound
from tests.support.sizes import seeds
from tests.support.tables import cases

FAMILIES = list(gs.FAMILIES)
SEEDS = range(12)

# --- against the definition


def opened(seed: int, family: str, shape_seed: int | None = None):
    case = gs.case(seed, shape_seed, family)
    program, events = bound(case)
    return case, program, Places(program, events)


def all_matches(case: gs.Case):
    return sequence_matches(replace(case.query, after_match=("none", None)), case.rows)


def read(places: Places, positions, variables=None) -> EventReading:
    wanted = [int(places.place_of_position[position]) for position in positions]
    named = dict(zip(wanted, variables, strict=True)) if variables else None
    return read_events(places, wanted, named)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("seed", seeds(4, 12))
def test_matches_are_read_as_matches(seed, family):
    case, program, places = opened(seed, family)
    matches = all_matches(case)
    rng = Random(seed)
    for match in rng.sample(matches, min(8, len(matches))):
        named = [name for name, rows in match.events for _ in rows]
        for variables in (None, named):
            shuffled = list(range(len(match.rows)))
            rng.shuffle(shuffled)
            names = variables and [variables[i] for i in shuffled]
            found = read(places, [match.rows[i] for i in shuffled], names)
            assert found.obstacles == ()
            assert found.reached == len(match.rows)
            components = program.branches[found.branch].branch.components
            assert [places.position_of_place[p] for p in found.places] == list(match.rows)
            if variables:
                assert [components[c].variable for c in found.components] == named


def wrong_rows(case: gs.Case, rng: Random):
    """Yield row tuples: changed matches and any rows."""
    matches, n = all_matches(case), len(case.rows)
    for _ in range(25):
        rows = set(rng.choice(matches).rows) if matches and rng.random() < 0.75 else set()
        change = rng.choice(["drop", "add", "move"]) if rows else "any"
        if change == "any":
            rows = set(rng.sample(range(n), min(n, rng.randint(1, 4))))
        if change in ("drop", "move"):
            rows.discard(rng.choice(sorted(rows)))
        if change in ("add", "move"):
            rows.add(rng.randrange(n))
        if rows:
            yield tuple(sorted(rows))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("seed", seeds(2, 12))
def test_reasons_are_true(seed, family):
    case, program, places = opened(seed, family)
    if not case.rows:
        pytest.skip("a stream without events")
    every = {match.rows for match in all_matches(case)}
    for rows in wrong_rows(case, Random(f"{seed} {family}")):
        found = read(places, rows)
        assert (found.obstacles == ()) == (rows in every)
        assert sorted(places.position_of_place[list(found.places)]) == list(rows)
        if not found.obstacles:
            continue
        judges = [Judge(case, line, program, places, found) for line in lines_of(case, program, found)]
        assert judges
        assert any(all(judge.agrees(one) for one in found.obstacles) for judge in judges), found


@pytest.mark.slow  # it looks at the fixed cases of a generator
def test_random_cases_have_reasons_of_every_kind():
    wanted = set(KINDS) - {"variable", "preference"}  # these need names
    n_streams = 0
    for seed, family in product(SEEDS, FAMILIES):
        case, _, places = opened(seed, family)
        n_streams += bool(case.rows)
        if wanted and case.rows:
            for rows in wrong_rows(case, Random(f"{seed} {family}")):
                wanted -= {one.kind for one in read(places, rows).obstacles}
    assert not wanted
    assert n_streams >= 160


def lines_of(case: gs.Case, program, found: EventReading):
    branch = program.branches[found.branch].branch
    names = [(c.variable, c.low, c.high) for c in branch.components]
    for line in lines(case.query.pattern):
        if line.options == branch.options and names == [(s.variable, s.low, s.high) for s in line.slots]:
            yield line


class Judge:
    """Asks the definition whether an obstacle is one."""

    def __init__(self, case: gs.Case, line, program, places: Places, found: EventReading):
        self.case, self.found, self.line = case, found, line
        self.search = Search(case.query, line, case.rows)
        self.position = {place: int(places.position_of_place[place]) for place in range(places.n)}
        self.rows = [self.position[place] for place in found.places]
        self.branch = program.branches[found.branch]

    def run_of(self, n: int):
        """Return the first ``n`` events as a partial match, grouped by component."""
        components = self.found.components[:n]
        assert list(components) == sorted(components)
        groups: list[tuple[int, ...]] = [()] * (max(components, default=-1) + 1)
        for row, c in zip(self.rows, components, strict=False):
            groups[c] += (row,)
        return tuple(groups)

    def is_reachable(self, run) -> bool:
        """Return whether the definition grows this partial match."""
        if not run:
            return True
        if () in run or not self.search.begins(run[0][0]):
            return False
        waiting = [((run[0][0],),)]
        while waiting:
            grown = waiting.pop()
            if grown == run:
                return True
            slot = self.line.slots[len(grown) - 1]
            if slot.high != 1:
                waiting += self.kept(self.search.successors(grown, "take", slot.inner), run)
            if len(grown) < len(run):
                waiting += self.kept(self.search.successors(grown, "begin", self.line.steps[len(grown)]), run)
        return False

    @staticmethod
    def kept(grown, run):
        return [
            one
            for one in grown
            if all(rows == run[c][: len(rows)] for c, rows in enumerate(one))
            and one[:-1] == run[: len(one) - 1]
        ]

    def agrees(self, obstacle: Obstacle) -> bool:
        reached = self.found.reached
        misfits = {"type", "variable", "order", "many"}
        if {one.kind for one in self.found.obstacles} & misfits and obstacle.kind in misfits:
            return getattr(self, obstacle.kind)([self.position[p] for p in obstacle.places], obstacle)
        run = self.run_of(reached)
        if not self.is_reachable(run):
            return False
        places = [self.position[place] for place in obstacle.places]
        if reached < len(self.rows):  # the definition does not grow it by the next event either
            c, row = self.found.components[reached], self.rows[reached]
            longer = (*run[:-1], (*run[-1], row)) if c == len(run) - 1 else (*run, (row,))
            # A row of another partition may well begin a match of its own.
            if (
                obstacle.kind not in ("absence", "partition")
                and c in (len(run) - 1, len(run))
                and self.is_reachable(longer)
            ):
                return False
        return getattr(self, obstacle.kind)(places, obstacle)

    def next_row(self) -> int:
        return self.rows[self.found.reached]

    def longer(self):
        run, row = self.run_of(self.found.reached), self.next_row()
        c = self.found.components[self.found.reached]
        return (*run[:-1], (*run[-1], row)) if run and c == len(run) - 1 else (*run, (row,))

    def type(self, places, obstacle) -> bool:
        if obstacle.component is not None:
            return not self.search.accepts(obstacle.component, places[0])
        return not any(self.search.accepts(c, places[0]) for c in range(len(self.line.slots)))

    def order(self, places, obstacle) -> bool:
        return places[0] < places[1] and self.search.accepts(
            obstacle.component, places[0]
        ) | self.search.accepts(obstacle.component, places[1])

    def alone(self, places, obstacle) -> bool:
        c, run = obstacle.component, self.run_of(self.found.reached)
        alone = (*run[:c], *[()] * (c - len(run)), (places[0],))
        own = [one for one in self.search.conditions if set(one.place_of.values()) == {c}]
        assert obstacle.truth is not True
        return not all(self.search.is_true(one, alone) for one in own if one.each)

    def partition(self, places, obstacle) -> bool:
        return self.search.key_of_row[places[0]] != self.search.key_of_row[places[1]]

    def missing(self, places, obstacle) -> bool:
        return obstacle.component not in self.found.components[: self.found.reached]

    def few(self, places, obstacle) -> bool:
        return len(places) < self.line.slots[obstacle.component].low

    def many(self, places, obstacle) -> bool:
        high = self.line.slots[obstacle.component].high
        return high is not None and len(places) > high

    def window(self, places, obstacle) -> bool:
        return not self.search.in_window(*places)

    def events(self, places, obstacle) -> bool:
        rank = self.search.rank_of_row
        return rank[places[1]] - rank[places[0]] + 1 > self.case.query.within_events

    def gap(self, places, obstacle) -> bool:
        return not self.search.lasts(*places, self.case.query.gap_within)

    def strict_time(self, places, obstacle) -> bool:
        return self.case.query.strict_time and self.search.ticks(*places) <= 0

    def skipped(self, places, obstacle) -> bool:
        before, after, between = places
        if not before < between < after:
            return False
        if obstacle.number is None:
            return True
        return bool(self.search.edges(self.run_of(self.found.reached), between))

    def until(self, places, obstacle) -> bool:
        return self.search.is_closed(self.run_of(self.found.reached), places[1]) and places[2] <= places[1]

    def condition(self, places, obstacle) -> bool:
        run = self.run_of(self.found.reached)
        if self.found.reached == len(self.rows):
            return not self.search.holds(run, each=False)
        each = self.branch.conditions[obstacle.number].condition.each
        assert obstacle.truth is not True
        if each:
            return not self.search.holds(self.longer(), each=True)
        return not self.search.holds(run, each=False)

    def preference(self, places, obstacle) -> bool:
        return len(self.search.edges(self.run_of(self.found.reached), places[0])) == 2

    def absence(self, places, obstacle) -> bool:
        run = self.run_of(self.found.reached)
        if self.found.reached < len(self.rows):
            run = self.longer()
        absence = self.branch.branch.absences[obstacle.number]
        own = [pair for pair in self.search.absences if pair[0].event.variable == absence.variable]
        if not any(self.search.occurs(run, absent, tests) for absent, tests in own):
            return False
        # Without this event another one may break the absence, so only this one is looked at.
        only = [
            row if i in (*places, *self.rows) else {**row, "kind": "?"}
            for i, row in enumerate(self.case.rows)
        ]
        alone = Search(self.case.query, self.line, only)
        return absence.event_type is None or any(alone.occurs(run, absent, tests) for absent, tests in own)


@pytest.mark.parametrize("family", ["after_match", "any"])
@pytest.mark.parametrize("seed", seeds(6, 20))
def test_matches_have_their_numbers(seed, family):
    case, program, places = opened(seed, family, seed % 2 if numba.config.DISABLE_JIT == 0 else None)
    reported = sequence_matches(case.query, case.rows)
    found = search_sequence(program, places.events)
    for match in all_matches(case)[:12]:
        named = [name for name, rows in match.events for _ in rows]
        reading = read(places, match.rows, named)
        came = outcome_of(program, found, reading, places, {})
        same = [i for i, one in enumerate(reported) if one.rows == match.rows and one.events == match.events]
        if came.number is not None:
            assert reported[came.number].rows == match.rows
        if same:
            assert came.taker is None
        elif came.number is None:
            assert tuple(came.taker.event_of_item.tolist()) in {one.rows for one in reported}
            assert came.taker.last[0] <= match.rows[-1]


# --- words

START = pd.Timestamp("2024-01-01 10:00")
KINDS_OF_ROWS = "Order Scan Order Cancel Scan Ready Scan Ready Order Ready Ready"
FRAME = pd.DataFrame(
    {
        "kind": KINDS_OF_ROWS.split(),
        "ts": START + pd.to_timedelta([0, 1, 2, 3, 4, 5, 6, 7, 7, 8, 85], unit="min"),
        "item": [1, 1, 1, 1, 1, 1, 2, 1, 1, 2, 1],
        "weight": [5.0, 6.0, 4.0, 1.0, 7.0, 3.0, 2.0, None, 9.0, 8.0, 9.0],
    }
)  # fmt: skip
KEYWORDS = {"event_type": "kind", "order_by": "ts"}
HEAD = "no match: "


def said(query: str, rows, frame: pd.DataFrame = FRAME, **keywords) -> list[str]:
    found = frame.cep.why_not(query, rows=rows, **KEYWORDS, **keywords)
    assert not found.matches
    return repr(found).splitlines()


GOLDEN = {name: case for name, *case in cases("why_not", "words")}  # fmt: skip


@pytest.mark.parametrize("name", GOLDEN)
def test_words(name):
    query, rows, keywords, expected = GOLDEN[name]
    assert said(query, rows, **keywords) == expected


CARDS = pd.DataFrame(
    {
        "kind": ["check", "check", "check", "check", "pay", "check", "pay"],
        "ts": range(7),
        "card": [7, 7, 7, 3, 3, 7, 7],
        "result": ["refused", "refused", "accepted", "refused", None, "refused", None],
    }
)
CARD_QUERY = """PATTERN SEQ(check r1, check r2, check ok, pay p) WHERE [card]
AND r1.result = 'refused' AND r2.result = 'refused' AND ok.result = 'accepted'"""


def test_the_component_that_nothing_is_given_for():
    for rows, expected in {
        (1, 2, 6): [
            "r2 = row 1, ok = row 2, p = row 6",
            "- no event is given for check r1",
            "  row 0 could be r1",
        ],
        (0, 1, 6): [
            "r1 = row 0, r2 = row 1, p = row 6; row 6 cannot follow row 1",
            "- no event is given for check ok",
            "  row 2 could be ok",
            "  row 5 could not be ok: row 5: ok.result == 'accepted': 'refused' == 'accepted' is false",
        ],
    }.items():
        assert said(CARD_QUERY, list(rows), CARDS) == [HEAD + expected[0], *expected[1:]]
    # Where every component has an event, the one that it cannot be is said.
    assert said(CARD_QUERY, [0, 1, 5, 6], CARDS)[1:] == [
        "- row 5: ok.result == 'accepted': 'refused' == 'accepted' is false"
    ]


def test_rows_of_another_partition():
    for rows in ([0, 1, 2, 4], {"r1": 0, "r2": 1, "ok": 2, "p": 4}):
        assert said(CARD_QUERY, rows, CARDS) == [
            "no match: r1 = row 0, r2 = row 1, ok = row 2, p = row 4; row 4 cannot follow row 2",
            "- row 4 belongs to card 3, the others to card 7",
        ]
    # Before the order, which is wrong because of it; and every row that is elsewhere.
    swapped = {"r1": 3, "r2": 1, "ok": 2, "p": 6}
    assert said(CARD_QUERY, swapped, CARDS)[1:] == ["- row 3 belongs to card 3, the others to card 7"]
    assert said(CARD_QUERY, [0, 1, 2, 3, 4], CARDS)[1:] == [
        "- row 3 belongs to card 3, the others to card 7",
        "- row 4 belongs to card 3, the others to card 7",
    ]
    assert said(CARD_QUERY, [0, 3], CARDS)[1:] == [
        "- row 0 and row 3 are of different partitions: card 7 and 3"
    ]


def test_every_kind_has_words():
    kinds = {
        kind
        for query, rows, keywords, _ in GOLDEN.values()
        for kind in FRAME.cep.why_not(query, rows=rows, **KEYWORDS, **keywords).kinds
    }
    assert kinds == {*KINDS, "after_match"}


def test_they_match():
    found = FRAME.cep.why_not("PATTERN SEQ(Order o, Ready r)", rows=[7, 2], **KEYWORDS)
    assert repr(found) == "they match: o = row 2, r = row 7 is match 3"
    assert (found.matches, found.number, found.reasons) == (True, 3, ())
    rows = FRAME.cep.match("PATTERN SEQ(Order o, Ready r)", **KEYWORDS).lineage(3)["index"].tolist()
    assert rows == [2, 7]


def test_frame_and_page():
    found = FRAME.cep.why_not(
        "PATTERN SEQ(Order o, Ready r) WHERE r.weight > o.weight", rows=[0, 5], **KEYWORDS
    )
    table = found.to_frame()
    assert list(table.columns) == ["index", "event_type", "variable", "reached", "reason"]
    assert table["index"].tolist() == [0, 5]
    assert table["variable"].tolist() == ["o", "r"]
    assert table["reached"].tolist() == [True, False]
    assert table["reason"].tolist() == ["", "r.weight > o.weight: 3.0 > 5.0 is false"]
    assert "<li>r.weight &gt; o.weight: 3.0 &gt; 5.0 is false</li>" in found._repr_html_()


def test_labels():
    frame = FRAME.set_axis([f"e{i}" for i in range(len(FRAME))])
    query = "PATTERN SEQ(Order o, Ready r) WITHIN 1 hour"
    assert (
        said(query, ["e0", "e10"], frame)[1]
        == "- the time from row 'e0' to row 'e10' is 1 h 25 min, more than 1 h"
    )
    assert said(query, "e0", frame)[0] == "no match: o = row 'e0'; a partial match"
    turned = FRAME.iloc[::-1]  # labels, not places; the clock says the order
    assert said(query, [10, 0], turned)[1] == "- the time from row 0 to row 10 is 1 h 25 min, more than 1 h"
    pairs = FRAME.set_index(["item", "ts"], drop=False).rename_axis(["i", "t"])
    assert pairs.cep.why_not(query, rows=[pairs.index[0], pairs.index[5]], **KEYWORDS).matches


def test_tables_count_rows():
    import pyarrow as pa

    found = cep.why_not(pa.Table.from_pandas(FRAME), "PATTERN SEQ(Order o, Ready r)", rows=[0, 9], **KEYWORDS)
    assert found.matches


@pytest.mark.parametrize(
    ("rows", "error"),
    [
        ([0, 99], "rows: no row of the frame has the label 99. They go from 0 to 10"),
        (["a"], "rows: no row of the frame has the label 'a'. They go from 0 to 10"),
        ([], "rows: no row is named; without rows, why_not() says where most partial matches are lost"),
        ([0, 0], "rows: 0 is named twice; a match has an event only once"),
        ({"rr": 5}, "rows: 'rr' is no variable of the pattern. Did you mean 'r'? Variables: ['o', 'r']"),
        ({"x": 5}, "rows: 'x' must not occur in a match; name rows of ['o', 'r']"),
        (range(1001), "rows: 1,001 rows are more than 1,000; name the rows of one match"),
    ],
)
def test_wrong_rows(rows, error):
    with pytest.raises(CepError) as caught:
        FRAME.cep.why_not("PATTERN SEQ(Order o, !Cancel x, Ready r)", rows=rows, **KEYWORDS)
    assert str(caught.value) == error


def test_labels_of_several_rows():
    frame = FRAME.set_axis([0, 0, *range(2, 11)])
    with pytest.raises(CepError, match=r"2 rows have the label 0; call reset_index\(\) first"):
        frame.cep.why_not("PATTERN SEQ(Order o, Ready r)", rows=[0, 5], **KEYWORDS)


def test_without_rows():
    found = FRAME.cep.why_not("PATTERN SEQ(Order o, Ready r) WHERE r.weight > 2 * o.weight", **KEYWORDS)
    assert repr(found).splitlines() == [
        "1 match of 'SEQ(Order o, Ready r)'",
        "- 1 match; most is lost here: 3 partial matches up to o, 1 up to r: "
        "1 of 10 events tried as r pass (r.weight > 2 * o.weight: 1 of 10)",
    ]
    none = FRAME.cep.why_not("PATTERN SEQ(Order o, Paid p)", **KEYWORDS)
    assert repr(none).splitlines() == [
        "0 matches of 'SEQ(Order o, Paid p)'",
        "- no match; most is lost here: there is no Paid event for p",
        "  name rows=[…] of an expected match to see why each row fails",
    ]
    assert none.to_frame()["step"].tolist() == ["o", "p", "matches", "reported"]


def test_nothing_is_compiled_for_events_that_do_not_match(monkeypatch):
    from cepkit.compile.shared import loading

    monkeypatch.setattr(loading, "load", None)
    monkeypatch.setattr("cepkit.engines.shared.places.load", None)
    assert said("PATTERN SEQ(Order o, Ready r) WHERE r.weight > o.weight", [0, 5])
