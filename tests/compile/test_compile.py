"""Automata, plans, binding and the sources and cache of kernels; one part of the pipeline at a time."""

from __future__ import annotations

import re
import stat
import sys
import warnings
from contextlib import nullcontext
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from random import Random

import numpy as np
import pandas as pd
import pytest

import cepkit as cep
from cepkit import cache
from cepkit.cache import cache_folder
from cepkit.compile.regex_program import compile_regex
from cepkit.compile.regex_source import write_matching, write_rows
from cepkit.compile.shared.loading import load
from cepkit.compile.shared.row_automaton import Positions, positions, states
from cepkit.engines import regex as engine
from cepkit.errors import CepError, CepWarning
from cepkit.events import BOOLEAN, DURATION, FLOAT, INTEGER, LIST, TEXT, TIME, ColumnType
from cepkit.frames.building import build_events
from cepkit.frames.pandas import PandasSource
from cepkit.language.regex import parse_pattern, regex_query
from cepkit.limits import POSITIONS
from tests.oracle import generate
from tests.support.sizes import JIT, seeds
from tests.support.tables import cases

FIXTURES = Path(__file__).parents[1] / "fixtures"

SCHEMA = {
    "x": ColumnType(INTEGER),
    "y": ColumnType(FLOAT, nullable=True),
    "t": ColumnType(TIME, "s"),
    "u": ColumnType(TIME, "ns", "Europe/Berlin", True),
    "d": ColumnType(DURATION, "ms", nullable=True),
    "f": ColumnType(BOOLEAN),
    "s": ColumnType(TEXT, nullable=True),
    "l": ColumnType(LIST, nullable=True, item=ColumnType(INTEGER)),
}


def lines_of(file):
    lines = (FIXTURES / file).read_text().splitlines()
    return [line.split(" ; ") for line in lines if line.strip() and not line.startswith("#")]


def program_of(pattern, define=None, **keywords):
    return compile_regex(regex_query(pattern, define=define, **keywords), SCHEMA)


# --- automata ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("pattern", "transitions", "accepting"), lines_of("automata.txt"))
def test_golden_automata(pattern, transitions, accepting):
    automaton = states(positions(parse_pattern(pattern)))
    found = ", ".join(f"{state} {name} {target}" for state, name, target in automaton.transitions)
    assert (found, ", ".join(map(str, automaton.accepting))) == (transitions, accepting)
    assert automaton.n_states == 1 + max(target for _, _, target in automaton.transitions)


def accepts(automaton: Positions, word: str) -> bool:
    """Return whether a partial match that reads ``word`` ends at its last letter, and not before."""
    mask = automaton.first
    for i, letter in enumerate(word):
        mask &= automaton.mask_of_name(letter) | automaton.mask_of_name(".")
        if mask & automaton.accepting:
            return i == len(word) - 1
        mask = automaton.follow_of_mask(mask)
    return False


def accepts_by_states(automaton, word: str) -> bool:
    """Return the same of the state automaton; several transitions may be taken at once."""
    reached = {0}
    for i, letter in enumerate(word):
        reached = {t for s, name, t in automaton.transitions if s in reached and name in (letter, ".")}
        if reached & set(automaton.accepting):
            return i == len(word) - 1
    return False


def as_re(pattern) -> str:
    """Return the pattern for Python's ``re``: its text without blanks, but for {,n}."""
    return re.sub(r"\s", "", str(pattern)).replace("{,", "{0,")


@pytest.mark.parametrize("seed", seeds(50, 1000))
def test_language_is_that_of_python_re(seed):
    """Letters are disjoint predicates; a word is accepted when none of its beginnings is one already."""
    rng = Random(seed)
    pattern = generate.pattern(rng, "abc")
    regex = re.compile(as_re(pattern))
    automaton = positions(pattern)
    drawn = states(automaton)
    for _ in range(20):
        word = "".join(rng.choices("abc", k=rng.randint(1, 7)))
        ends = [i for i in range(1, len(word) + 1) if regex.fullmatch(word, 0, i)]
        assert accepts(automaton, word) == accepts_by_states(drawn, word) == (ends[:1] == [len(word)]), word


def test_names_behind_the_end_are_dropped():
    automaton = positions(parse_pattern("a+ (b c*)?"))
    assert automaton.names == ("a",)
    assert automaton.dropped == ("b", "c")
    assert automaton.follow == (0,)


def test_too_many_positions():
    assert len(positions(parse_pattern(f"a{{{POSITIONS}}}")).names) == POSITIONS
    with pytest.raises(CepError, match=r"63 positions .* limit is 62.*count\(\) < 63"):
        positions(parse_pattern("(a{3} b?){15} c{3}"))
    with pytest.raises(CepError, match="matches no event"):
        positions(parse_pattern("()"))


def test_states_may_be_too_many_to_draw_but_not_to_match():
    pattern = parse_pattern("(a | b)* a (a | b){14} c")
    assert len(positions(pattern).names) == 32
    with pytest.raises(CepError, match="more than 4096 states"):
        states(positions(pattern))
    frame = pd.DataFrame({"a": [True] + 15 * [False], "b": 15 * [True] + [False], "c": 15 * [False] + [True]})
    assert cep.match(frame, str(pattern)).to_frame()["count"].tolist() == [16]


# --- plans ------------------------------------------------------------------------------------------------


def described(plan) -> str:
    def term(t) -> str:
        if t.op == "count":
            return "count"
        if t.op == "column":
            return t.data
        return f"{t.op}({', '.join(map(term, t.args))})"

    def side(t) -> str:
        inner = [part for part in t.walk() if part.op in ("column", "first") and part is not t] or [t]
        return term(t if t.op in ("column", "first") else inner[-1])

    def shown(bound) -> str:
        return f" {side(bound.event)} {bound.sign} {side(bound.start)}" if bound else ""

    names = plan.automaton.names
    queues = []
    for queue in plan.queues:
        targets = [
            f"{names[target.position]}{shown(target.bound)} +{len(target.conjuncts)}"
            for target in queue.targets
        ]
        loops = "".join(map(shown, queue.loops))
        queues.append(f"{names[queue.position]} ({len(queue.windows)}){loops} -> {', '.join(targets)}")
    dominated = [name for p, name in enumerate(names) if plan.dominated >> p & 1]
    return " | ".join(" ".join(parts) or "-" for parts in (map(term, plan.slots), queues, dominated))


@pytest.mark.parametrize(("pattern", "predicates", "plan"), lines_of("plans.txt"))
def test_plans(pattern, predicates, plan):
    define = dict(part.split(": ", 1) for part in predicates.split(" / "))
    assert described(program_of(pattern, define, order_by="t").plan) == plan


def test_equal_conditions_are_tested_once():
    plan = program_of(". (a | b)* c", {name: "x > 2 and y < 1" for name in "abc"}).plan
    assert [bin(conjunct.mask) for conjunct in plan.event_conjuncts] == ["0b1110", "0b1110"]
    assert not plan.start_conjuncts


def test_window_is_a_condition_on_every_row():
    plan = program_of("a b", {"a": "f", "b": "f"}, order_by="t", within="5 s").plan
    assert [bin(conjunct.mask) for conjunct in plan.start_conjuncts] == ["0b11"]


@pytest.mark.parametrize("seed", seeds(5, 60))
def test_dropping_dominated_starts_changes_nothing(seed):
    """One start per state gives the matches of all starts (the paper's version B against its version A)."""
    case = generate.case(seed, shape_seed=seed % 30, n_events=30)
    source = PandasSource(generate.to_frame(case.rows))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of dead suffixes and nullable patterns
        query = regex_query(case.pattern, define=case.define, **case.keywords())
    program = compile_regex(query, source.schema)
    events = build_events(source, program)
    every = replace(program, plan=replace(program.plan, dominated=0))
    runs = []
    for variant in (program, every):
        run = engine.Run()
        found = engine.match_regex(variant, events, threads=1, run=run)
        runs.append((found.first.tolist(), found.last.tolist(), run))
    assert runs[0][:2] == runs[1][:2]
    assert runs[0][2].work <= runs[1][2].work


# --- binding ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "error", "message"),
    cases("wrong_predicates", "predicates"),
)
def test_wrong_predicates(text, error, message):
    with pytest.raises(error, match=message) as caught:
        program_of(". a", {"a": text})
    assert "^" in str(caught.value)  # the place is underlined


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"pattern": "x", "define": {}}, "'x', which is a column of type integer, not a predicate"),
        (
            {"pattern": "a x", "define": {"a": "f", "x": "y > 1"}},
            "'x' is both a predicate of define and a column",
        ),
        ({"pattern": "a b", "define": {"a": "f"}}, "'b'"),
        (
            {"pattern": "a", "define": {"a": "f"}, "within": "5 s"},
            "a duration needs a clock; name its column first in order_by",
        ),
        (
            {"pattern": "a", "define": {"a": "f"}, "within": "5 s", "order_by": "x"},
            "plain number without unit",
        ),
        ({"pattern": "a", "define": {"a": "f"}, "within": "0.5 s", "order_by": "t"}, "whole number of ticks"),
    ],
)
def test_wrong_queries(keywords, message):
    pattern = keywords.pop("pattern")
    with pytest.raises(CepError, match=message):
        program_of(pattern, **keywords)


def test_columns_that_no_condition_reads_are_not_loaded():
    assert program_of("a b", {"a": "x > 1 or x <= 1", "b": "s like 'a%'"}).columns == ("x", "s")
    assert program_of(". .").columns == ()


# --- sources ----------------------------------------------------------------------------------------------


def source_of(pattern, define, **keywords):
    program = program_of(pattern, define, **keywords)
    dtypes = {
        name: {"f": "int8", "s": "int32", "y": "float64"}.get(name, "int64") for name in program.columns
    }
    return write_matching(program.plan, dtypes).text, write_rows(program.plan, dtypes, "search").text


def test_sources_are_canonical():
    """Neither names nor values nor the way a constant is given stand in a kernel."""
    one = source_of(". up* top", {"up": "x > prev(x) + 1", "top": "y > 2.5 and s == 'a'"})
    other = source_of(". b* c", {"b": "x > prev(x) + :p", "c": "y > -7 and s == 'zz'"}, params={"p": -2})
    assert one == other
    assert one != source_of(". up* top", {"up": "x >= prev(x) + 1", "top": "y > 2.5 and s == 'a'"})
    for text in one:
        compile(text, "kernel", "exec")


def test_integer_and_float_limits_of_an_integer_give_one_kernel():
    texts = {source_of("a", {"a": f"x > {limit}"})[0] for limit in (5, 5.5, -3, 1e30)}
    assert len(texts) == 1


# --- loading ----------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path, monkeypatch):
    folder = tmp_path / "kernels"
    monkeypatch.setenv("CEPKIT_CACHE", str(folder))
    monkeypatch.setattr(cache, "_reported", set())
    before = set(sys.modules)
    yield folder
    for name in [name for name in sys.modules if name.startswith("cepkit_kernel_") and name not in before]:
        del sys.modules[name]


def test_cache_folder_belongs_to_the_user_alone(folder):
    assert cache_folder() == folder
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    for mode in (0o770, 0o707, 0o722):
        folder.chmod(mode)
        with pytest.raises(CepError, match="can be written by others, and its files are run as code"):
            cache_folder()
    folder.chmod(0o755)
    assert cache_folder() == folder


def test_cache_folder_that_cannot_be_made(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("CEPKIT_CACHE", str(tmp_path / "file" / "kernels"))
    with pytest.raises(CepError, match="; set CEPKIT_CACHE to a folder of yours"):
        cache_folder()


def test_cache_folder_that_cannot_be_written(folder, monkeypatch):
    def full(path, content):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.write_bytes", full)
    message = r"cannot be written \(No space left on device\); set CEPKIT_CACHE to"
    with pytest.warns(CepWarning, match=message) if JIT else nullcontext():
        assert load(f"{_KERNEL}# 44\n").twice(22) == 44
    assert not folder.exists() or list(folder.iterdir()) == []


_KERNEL = """
import numba
from cepkit.kernels.jit import njit
from tests.support.tables import cases
@njit([(numba.int64,)], cache=True)
def twice(x):
    return 2 * x
"""


@pytest.mark.skipif(not JIT, reason="nothing is compiled")
@pytest.mark.filterwarnings("ignore:.* in the cache is damaged")  # tests/compile/test_cache.py looks at it
def test_broken_files_are_made_again(folder):
    text = f"{_KERNEL}# broken\n"
    name = load(text).__name__
    for damage in (
        lambda whole: b"",
        lambda whole: b"\x93" * len(whole),
        lambda whole: whole[: len(whole) // 2],
    ):
        (path,) = folder.rglob(f"{name}*.kernel")
        path.write_bytes(damage(path.read_bytes()))
        del sys.modules[name]
        assert load(text).twice(21) == 42


def test_a_module_is_written_once_and_loaded_once(folder):
    text = f"{_KERNEL}# one\n"
    module = load(text)
    assert module.twice(21) == 42
    assert load(text) is module
    assert load(f"{_KERNEL}# other\n").twice(1) == 2
    files = sorted([*folder.glob("*.kernel"), *folder.glob("*.image")])
    assert len(files) == (4 if JIT else 0)
    assert not list(folder.glob("*.part"))
    before = [path.stat().st_mtime_ns for path in files]
    del sys.modules[module.__name__]
    assert load(text).twice(21) == 42
    assert [path.stat().st_mtime_ns for path in files] == before


def test_a_module_that_fails_leaves_nothing_behind(folder):
    with pytest.raises(ZeroDivisionError):
        load("1 / 0\n")
    assert not [name for name in sys.modules if name.startswith("cepkit_kernel_") and name in str(folder)]
    with pytest.raises(ZeroDivisionError):
        load("1 / 0\n")


def test_user_functions_tell_modules_apart(folder):
    one, other = load("value = u0(1)\n", {"u0": lambda x: x}), load("value = u0(1)\n", {"u0": lambda x: -x})
    assert (one.value, other.value) == (1, -1)


def test_states_grow_without_losing_anything():
    program = program_of(". e* up", {"e": "f", "up": "x > first(x)"})
    dtypes = {"f": np.zeros(0, np.int8), "x": np.zeros(0, np.int64)}
    inputs = program.inputs({name: PandasSource(pd.DataFrame({name: values})).column(name)
                             for name, values in dtypes.items()})  # fmt: skip
    state = program.matching(inputs).new_state(3, capacity=2)
    kinds = {array.name: array.per for array in state.layout}

    def cells(name: str, partition: int) -> list:
        at = state.place("queue" if kinds[name] == "queue" else "list")[partition, 0]
        return state.arrays[name][..., at : at + 2].tolist()

    in_cells = [name for name, per in kinds.items() if per in ("list", "queue", "slots")]
    for name in in_cells:
        state.arrays[name][...] = np.arange(state.arrays[name].shape[-1])
    before = {(name, p): cells(name, p) for name in in_cells for p in range(3)}
    for per in ("list", "queue"):
        state.grow(per, 1)
        state.grow(per, 1)
        assert (state.place(per)[:, 1] > 2).any()
    state.add_partitions(5)
    state.grow("list", 4)
    assert before == {(name, p): cells(name, p) for name in in_cells for p in range(3)}
    for per in ("list", "queue"):
        spans = sorted(state.place(per).tolist())
        assert len(spans) == 5 and all(a + n <= b for (a, n), (b, _) in pairwise(spans))
        assert all(
            spans[-1][0] + spans[-1][1] <= state.arrays[n].shape[-1] for n in in_cells if kinds[n] == per
        )
    assert [len(array) for n, array in state.arrays.items() if kinds[n] in ("partition", "ring")] == [
        5
    ] * sum(per in ("partition", "ring") for per in kinds.values())


def test_a_partition_with_many_starts_takes_no_room_from_others():
    program = program_of(". e* up", {"e": "x > 0", "up": "x < first(x)"})
    inputs = program.inputs({"x": PandasSource(pd.DataFrame({"x": np.zeros(0, np.int64)})).column("x")})
    state = program.matching(inputs).new_state(20_000)
    cells = sum(array.size for array in state.arrays.values())
    for _ in range(8):
        state.grow("list", 7)
    room = int(state.place("list")[7, 1])
    assert room >= 2000 and sum(array.size for array in state.arrays.values()) < 1.3 * cells + 20 * room
    taken = sum(array.size for array in state.arrays.values())
    state.forget(np.array([7]))
    assert state.place("list")[7, 1] == 8
    for _ in range(8):
        state.grow("list", 9)  # in the cells that 7 gave back
    assert sum(array.size for array in state.arrays.values()) == taken
