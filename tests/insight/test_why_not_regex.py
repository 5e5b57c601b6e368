"""Why rows are no match of a regex: how far they get and what stops them, against the definition."""

from __future__ import annotations

import warnings
from random import Random

import pandas as pd
import pyarrow as pa
import pytest

import cepkit as cep
from cepkit.errors import CepError
from cepkit.insight.why_not_regex import KINDS
from cepkit.language import row_patterns as pt
from cepkit.language.expressions import trees as ex
from tests.oracle import generate, naive
from tests.support.sizes import JIT, seeds

SEEDS = 8 if JIT else 12  # each shape compiles the kernel that labels the rows of matches
FRAME = pd.DataFrame({"t": range(8), "x": [1, 2, 3, 2, 5, 6, 7, 0]}, index=list("abcdefgh"))
DEFINE = {"up": "x > prev(x)", "down": "x < prev(x)"}
CALL = {"define": DEFINE, "order_by": "t"}


class Judge:
    """The definition on the rows of one partition."""

    def __init__(self, case: generate.Case, rows):
        self.case, self.rows = case, rows

    def holds(self, start: int):
        known: dict = {}

        def holds(name: str, row: int) -> bool:
            if (name, row) not in known:
                value = naive.evaluate(self.case.define[name], self.rows, row, start, self.case.params)
                known[name, row] = value is True
            return known[name, row]

        return holds

    def in_window(self, start: int, row: int) -> bool:
        case = self.case
        return naive.in_window(
            self.rows, start, row, order_by="t", within=case.within, within_closed=case.within_closed
        )

    def read(self, low: int, high: int) -> tuple[int, str]:
        """Return how many of the rows are a partial match, and what stops them."""
        pattern, holds = self.case.pattern, self.holds(low)
        for k in range(low, high + 1):
            if not naive.begins(pattern, low, k + 1, holds):
                return k - low, "condition"
            if not self.in_window(low, k):
                return k - low, "window"
            if k < high and k + 1 in naive.ends(pattern, low, k + 1, holds):
                return k - low + 1, "earliest_end"
        is_word = high + 1 in naive.ends(pattern, low, high + 1, holds)
        return high - low + 1, "" if is_word else "missing"

    def wanted(self, low: int, k: int) -> set[str]:
        """Return the predicates that would let row ``k`` follow the rows from ``low`` on; each is tried."""
        holds = self.holds(low)

        def taken_as(name: str):
            return lambda other, row: other == name if row == k else holds(other, row)

        names = {variable.name for variable in pt.variables(self.case.pattern)}
        return {name for name in names if naive.begins(self.case.pattern, low, k + 1, taken_as(name))}

    def fails(self, text: str, start: int, k: int) -> str | None:
        """Return the predicate of a reason when its condition is not true at row ``k``, else None."""
        name, _, said = text.partition(": ")[2].partition(" fails: ")
        conditions = [one for one in ex.conjuncts(self.case.define[name]) if said.startswith(str(one))]
        values = (naive.evaluate(one, self.rows, k, start, self.case.params) for one in conditions)
        return name if conditions and any(value is not True for value in values) else None


def asked(case: generate.Case, rows):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        frame = generate.to_frame(case.rows)
        return cep.why_not(frame, case.pattern, define=case.define, rows=rows, **case.keywords())


def partitions(case: generate.Case) -> list[list[int]]:
    made: dict[tuple, list[int]] = {}
    for i, row in enumerate(case.rows):
        made.setdefault(tuple(naive.without_nan(row[name]) for name in case.partition_by), []).append(i)
    return list(made.values())


def drawn_spans(case: generate.Case, rng: Random, matches):
    """Yield a partition, and the first and the last of some rows of it."""
    every = partitions(case)
    for match in rng.sample(matches, min(4, len(matches))):
        own = next(one for one in every if match[0] in one)
        low, high = own.index(match[0]), own.index(match[-1])
        yield own, low, high
        if low:
            yield own, low - 1, high
        if high + 1 < len(own):
            yield own, low, high + 1
        if low < high:
            yield own, low + 1, high
            yield own, low, high - 1
    for _ in range(8):
        own = rng.choice(every)
        low = rng.randrange(len(own))
        yield own, low, rng.randrange(low, min(len(own), low + 6))


@pytest.mark.parametrize("seed", seeds(SEEDS, 10 * SEEDS))
def test_rows_are_a_match_or_the_reason_is_true(seed):
    case = generate.case(seed)
    if not case.rows:
        pytest.skip("a stream without rows")
    rng = Random(f"spans {seed}")
    matches = naive.matches(case.pattern, case.define, case.rows, **case.keywords())
    for own, low, high in drawn_spans(case, rng, matches):
        judge = Judge(case, [case.rows[i] for i in own])
        rows = own[low : high + 1]
        found = asked(case, rng.sample(rows, len(rows)))
        assert found.matches == (tuple(rows) in matches)
        assert set(found.kinds) <= set(KINDS)
        assert found.table["index"].tolist() == rows
        reached, stop = judge.read(low, high)
        assert found.table["reached"].sum() == reached
        if found.matches:
            assert matches[found.number] == tuple(rows)
            assert found.reasons == () and stop == ""
            continue
        if stop in ("earliest_end", "missing"):
            assert found.kinds == (stop,)
        elif stop == "":
            assert found.kinds == ("after_match",)
        else:
            wanted = judge.wanted(low, low + reached)
            told = [
                text for text, kind in zip(found.reasons, found.kinds, strict=True) if kind == "condition"
            ]
            failing = {judge.fails(text, low, low + reached) for text in told}
            assert failing <= wanted  # every reported condition is false and belongs to a possible predicate
            if judge.in_window(low, low + reached):
                assert failing == wanted and "window" not in found.kinds
            else:
                assert failing == wanted or "window" in found.kinds
            assert stop == "condition" or "window" in found.kinds


@pytest.mark.parametrize("seed", seeds(SEEDS // 2, 5 * SEEDS))
def test_rows_with_gaps_or_of_several_partitions(seed):
    case, rng = generate.case(seed), Random(f"rows {seed}")
    every = partitions(case)
    for _ in range(6 if case.rows else 0):
        rows = rng.sample(range(len(case.rows)), rng.randint(1, min(5, len(case.rows))))
        own = [one for one in every if set(one) & set(rows)]
        found = asked(case, rows)
        if len(own) > 1:
            assert set(found.kinds) == {"partition"} and not found.matches
            continue
        places = sorted(own[0].index(row) for row in rows)
        has_gap = places[-1] - places[0] >= len(places)
        assert (found.kinds == ("skipped",)) == has_gap
        if has_gap:
            whole = asked(case, own[0][places[0] : places[-1] + 1])
            assert found.more == (f"with every row between: {whole.headline}", *whole.reasons)


@pytest.mark.parametrize("seed", seeds(SEEDS // 2, 5 * SEEDS))
def test_rows_may_be_named_by_variable(seed):
    case, rng = generate.case(seed), Random(f"names {seed}")
    matches = naive.matches(case.pattern, case.define, case.rows, **case.keywords())
    names = sorted({variable.name for variable in pt.variables(case.pattern)})
    for match in rng.sample(matches, min(5, len(matches))):
        own = next(one for one in partitions(case) if match[0] in one)
        rows = [case.rows[i] for i in own]
        labels = naive.labels(
            case.pattern, case.define, rows, own.index(match[0]), own.index(match[-1]), params=case.params
        )
        if "." in labels:
            continue  # any row has no name
        as_read: dict[str, list[int]] = {}
        for name, row in zip(labels, match, strict=True):
            as_read.setdefault(name, []).append(row)
        found = asked(case, as_read)
        assert found.matches and found.table["variable"].tolist() == labels
        wrong = list(labels)
        place = rng.randrange(len(wrong))
        wrong[place] = rng.choice(names)
        if wrong == labels:
            continue
        otherwise: dict[str, list[int]] = {}
        for name, row in zip(wrong, match, strict=True):
            otherwise.setdefault(name, []).append(row)
        found = asked(case, otherwise)
        assert not found.matches and set(found.kinds) <= {"variable", "condition", "missing", "earliest_end"}


@pytest.mark.slow  # it looks at the fixed cases of a generator
def test_random_cases_have_reasons_of_every_kind():
    wanted = set(KINDS) - {"variable", "skipped", "partition"}  # the other tests have these
    for seed in range(60):
        case = generate.case(seed)
        if not wanted or not case.rows:
            continue
        rng = Random(f"spans {seed}")
        matches = naive.matches(case.pattern, case.define, case.rows, **case.keywords())
        for own, low, high in drawn_spans(case, rng, matches):
            wanted -= set(asked(case, own[low : high + 1]).kinds)
    assert not wanted


# --- what a person reads


def test_a_condition_that_fails_says_its_values():
    assert repr(FRAME.cep.why_not(". up+ down up{2} down", rows=list("abcdef"), **CALL)).splitlines() == [
        "no match: rows 'a' to 'f'; a partial match",
        "- after row 'f' the pattern still needs down",
    ]
    assert repr(FRAME.cep.why_not(". up+ down down", rows=list("abcde"), **CALL)).splitlines() == [
        "no match: rows 'a' to 'e'; row 'e' cannot follow row 'd'",
        "- row 'e': down fails: x < prev(x) (x = 5, prev(x) = 2)",
    ]
    found = FRAME.cep.why_not(". up+ down down", rows=list("abcde"), **CALL)
    assert found.to_frame().astype(object).where(found.to_frame().notna(), None).values.tolist() == [
        ["a", "any", True, ""],
        ["b", "up", True, ""],
        ["c", "up", True, ""],
        ["d", "down", True, ""],
        ["e", None, False, "row 'e': down fails: x < prev(x) (x = 5, prev(x) = 2)"],
    ]


def test_a_match_says_its_number_and_variables():
    found = FRAME.cep.why_not(". up+ down", rows=list("efgh"), **CALL)
    assert (
        repr(found) == "they match: rows 'e' to 'h' are match 1 (any = 'e', up = 'f', up = 'g', down = 'h')"
    )
    assert found.matches and found.number == 1
    assert FRAME.cep.match(". up+ down", **CALL)[1].rows.index.tolist() == list("efgh")


def test_the_match_that_is_reported_instead_is_named():
    assert repr(FRAME.cep.why_not(". up+ down", rows=list("bcd"), **CALL)).splitlines() == [
        "no match: rows 'b' to 'd' fulfil all conditions",
        "- the match of rows 'a' to 'd' is reported instead: it ends with the same row and begins before",
    ]
    assert repr(FRAME.cep.why_not(". down up", rows=list("cde"), **CALL)).startswith("they match")
    assert repr(FRAME.cep.why_not(". (up | down)+ down", rows=list("abcde"), **CALL)).splitlines() == [
        "no match: rows 'a' to 'e'; row 'e' cannot follow row 'd'",
        "- rows 'a' to 'd' are the whole pattern already, and a match ends with the first row that completes "
        "the pattern",
    ]


def test_the_window():
    define = {"up": DEFINE["up"]}
    found = FRAME.cep.why_not(". up{3}", rows=list("defg"), define=define, order_by="t", within=2)
    assert found.reasons == ("row 'g' is outside the window of 2 from row 'd'",)


def test_rows_between_and_rows_of_others():
    found = FRAME.cep.why_not(". up+ down", rows=["a", "d"], **CALL)
    assert repr(found).splitlines() == [
        "no match: row 'a', row 'd'",
        "- row 'b' and 1 other row are not named, but a match of a regex has every row of its partition from "
        "its first to its last",
        "  with every row between: they match: rows 'a' to 'd' are match 0 (any = 'a', up = 'b', up = 'c', "
        "down = 'd')",
    ]
    keyed = FRAME.assign(k=list("ppppqqqq"))
    found = keyed.cep.why_not(". up+ down", rows=["a", "b", "e"], partition_by="k", **CALL)
    assert repr(found).splitlines() == [
        "no match: the rows are of several partitions",
        "- row 'e' belongs to k q, the others to k p",
    ]


def test_rows_by_variable():
    assert FRAME.cep.why_not("up+ down", rows={"up": ["b", "c"], "down": "d"}, **CALL).matches
    found = FRAME.cep.why_not(". up+ down", rows={"up": ["b", "c"], "down": "d"}, **CALL)
    assert found.reasons == ("row 'b' is given as 'up', and the first row must be any",)
    found = FRAME.cep.why_not("up down", rows={"down": ["c", "d"]}, **CALL)
    assert found.reasons == ("row 'c' is given as 'down', and the first row must be up",)
    found = FRAME.cep.why_not("up up down", rows={"up": "b", "down": ["c", "d"]}, **CALL)
    assert found.reasons == ("row 'c' is given as 'down', and after row 'b' the next one must be up",)
    found = FRAME.cep.why_not("up (up | down) down", rows={"up": "b", "down": ["c", "d"]}, **CALL)
    assert found.reasons == ("row 'c': down fails: x < prev(x) (x = 3, prev(x) = 2)",)
    define = {"up": DEFINE["up"], "big": "x > 2"}
    found = FRAME.cep.why_not("up (up | big)", rows={"up": "b", "big": "c"}, define=define, order_by="t")
    assert found.headline == "no match: rows 'b' to 'c' are match 0, with other variables"
    text = "row 'c' is up, not big: each variable takes as many rows as it can, from left to right"
    assert found.reasons == (text,)
    with pytest.raises(CepError, match=r"'dwn' is no variable of the pattern. Did you mean 'down'"):
        FRAME.cep.why_not(". up+ down", rows={"dwn": "b"}, **CALL)


def test_one_row_is_told_what_became_of_the_partial_matches_there():
    found = FRAME.cep.why_not(". up down down", rows=["d"], **CALL)
    assert found.more[0] == (
        "the partial match from row 'b' takes it as down, and ends at row 'e', where it needs down"
    )
    found = FRAME.cep.why_not(". up+ down", rows=["b"], **CALL)
    assert found.more == ("row 'b' is in match 0: rows 'a' to 'd'",)


def test_no_rows_are_a_funnel():
    found = FRAME.cep.why_not(". up{3} down down", **CALL)
    assert repr(found).splitlines() == [
        "0 matches of '. up{3} down down'",
        "- no match; most is lost here: 1 partial match up to down, 0 up to down",
        "  name rows=[…] of an expected match to see why each row fails",
    ]
    assert found.to_frame().equals(FRAME.cep.funnel(". up{3} down down", **CALL).to_frame())


def test_labels_and_kinds_of_frames():
    polars = pytest.importorskip("polars")
    plain = FRAME.reset_index(drop=True)
    wanted = repr(plain.cep.why_not(". up+ down down", rows=[0, 1, 2, 3, 4], **CALL))
    for frame in (pa.Table.from_pandas(plain), polars.from_pandas(plain)):
        assert repr(cep.why_not(frame, ". up+ down down", rows=[0, 1, 2, 3, 4], **CALL)) == wanted
    with pytest.raises(CepError, match="no row of the frame has the label 'z'"):
        FRAME.cep.why_not(". up+ down", rows=["z"], **CALL)
    with pytest.raises(CepError, match="'a' is named twice"):
        FRAME.cep.why_not(". up+ down", rows=["a", "a"], **CALL)


def test_rows_before_the_first_count_for_its_conditions():
    frame = pd.DataFrame({"x": range(200)})
    define = {"old": "prev(x, 150) >= 20", "next": "x > first(x)"}
    assert frame.cep.why_not("old next", define=define, rows=[170, 171]).matches
    found = frame.cep.why_not("old next", define=define, rows=[169, 170])
    assert found.reasons == ("row 169: old fails: prev(x, 150) >= 20 (prev(x, 150) = 19)",)
